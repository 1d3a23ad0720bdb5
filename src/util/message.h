/* SPDX-License-Identifier: MIT */
/*
 * message - messages for people: error texts, the log, and suggestions for misspelled names.
 *
 * The library has error texts of BIDE_ERROR_SIZE bytes, the programs of BI_ERRMSG_SIZE. The library
 * never prints: the log goes through a handler of the program.
 */
#ifndef BI_MESSAGE_H
#define BI_MESSAGE_H

#include <bide/bide.h>

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- error texts ---- */

/* Copies a message, truncated if it is too long. */
static inline void bi_text_copy(char *to, const char *from)
{
    size_t size = strlen(from);
    if (size > BIDE_ERROR_SIZE - 1)
        size = BIDE_ERROR_SIZE - 1;
    memcpy(to, from, size);
    to[size] = 0;
}

/* Writes a message, truncated if it is too long. Returns the code. */
int bi_error_set(char *error, int code, const char *format, ...)
    __attribute__((cold, format(printf, 3, 4)));

/* The same with the general text of the code. */
static inline int bi_error_set_code(char *error, int code)
{
    bi_text_copy(error, bide_code_text(code));
    return code;
}

/* The size of the UTF-8 character at text; 0 if it is invalid. By RFC 3629: no overlong forms, no
 * surrogates, nothing beyond U+10FFFF. length: bytes of the text, at least 1. */
size_t bi_text_utf8_size(const unsigned char *text, size_t length);
/* The same, with its code point; not valid if 0 is returned. */
size_t bi_text_utf8_decode(const unsigned char *text, size_t length, uint32_t *point);
bool bi_text_is_utf8(const void *text, size_t size);
/* The bytes of a text that fit into the room, without a part of a character at the end. A text that
 * is not UTF-8 is truncated anywhere. */
size_t bi_text_utf8_fit(const void *text, size_t size, size_t room);

#define BI_ERRMSG_SIZE 512

/* Writes a message, truncated if it is too long. Returns false, for `return bi_errmsg_set(...)`. */
__attribute__((format(printf, 2, 3))) static inline bool bi_errmsg_set(char *error,
                                                                       const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, BI_ERRMSG_SIZE, format, args);
    va_end(args);
    return false;
}

/* Writes a message and returns the code. */
#define bi_errmsg_fail(error, code, ...) (bi_errmsg_set(error, __VA_ARGS__), (code))

/* ---- the log ---- */

struct bi_log {
    bide_log_handler handler; /* NULL: nothing is logged */
    void *user;
};

void bi_log(const struct bi_log *log, bide_log_level level, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/* Limits the messages of a failure that may repeat many times a second: the first is logged,
 * then one after a second, two, four, up to a minute, and one when the failure is over.
 * Zeroed: no failure yet. */
struct bi_log_limit {
    uint64_t count;
    int64_t interval_us, next_us;
};

/* Counts a failure at this time in microseconds. Returns the count since it began if a message
 * is due, otherwise 0. */
uint64_t bi_log_limit_hit(struct bi_log_limit *limit, int64_t now);
/* Ends the failure. Returns how often it occurred; 0: never. */
uint64_t bi_log_limit_reset(struct bi_log_limit *limit);

/* ---- suggestions: the known name that a misspelled one probably means ---- */

#define BI_SUGGEST_NAME_MAX 32 /* bytes of a known name; longer texts match none */

/* The edit distance, in which - and _ are equal: letters to change, insert or remove. name has at
 * most BI_SUGGEST_NAME_MAX bytes. */
size_t bi_suggest_distance(const char *name, const char *text, size_t size);

/* The best of several names, considered one after the other. Initialize with BI_SUGGEST_INIT. */
struct suggestion {
    const char *best; /* NULL: none is close enough */
    size_t distance;
};
#define BI_SUGGEST_INIT \
    {                   \
        NULL, 0         \
    }

void bi_suggest_consider(struct suggestion *suggestion, const char *name, const char *text,
                         size_t size);

#endif
