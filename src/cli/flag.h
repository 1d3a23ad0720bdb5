/* SPDX-License-Identifier: MIT */
/*
 * flag - parses the command line by tables of flags.
 *
 * A flag is --name, --name=value, --name value, -n, -nvalue or -n value; letters without a value
 * may be joined. Flags and other arguments may be mixed; after -- there are no flags. The parse
 * function of a flag validates its value and stores it in a variable.
 *
 *     static int64_t delay_ms;
 *     static bool lines;
 *     static const struct flag flags[] = {
 *         BI_FLAG_DURATION('d', "delay", &delay_ms, "delay the job by this time"),
 *         BI_FLAG_BOOL('l', "lines", &lines, "one job per line"),
 *         BI_FLAGS_END,
 *     };
 *
 * Help and completion are generated from the same tables.
 */
#ifndef BI_FLAG_H
#define BI_FLAG_H

#include "util/message.h"

#include <bide/job.h>
#include <stdint.h>

/* Parses a value into *to. False with an error text that follows the value: "is not a number". text
 * is NULL for a flag without a value. */
typedef bool bi_flag_parse_fn(const char *text, void *to, char *error);

struct flag {
    char letter;            /* 0: none */
    const char *name;       /* NULL at the end of a table */
    const char *value_name; /* "DURATION", in capitals, or "full|normal|off"; NULL: no value */
    const char *help;       /* one line, lower case, without a full stop */
    bi_flag_parse_fn *parse;
    void *to;
};

/* The values of a flag that may be repeated, in order; borrowed from argv. */
#define BI_WORDS_MAX 1000
struct words {
    const char *list[BI_WORDS_MAX];
    size_t count;
};

bi_flag_parse_fn bi_flag_parse_bool;     /* bool: true */
bi_flag_parse_fn bi_flag_parse_string;   /* const char * */
bi_flag_parse_fn bi_flag_parse_slice;    /* bide_slice */
bi_flag_parse_fn bi_flag_parse_list;     /* struct words: appends */
bi_flag_parse_fn bi_flag_parse_count;    /* uint64_t: 0 and more */
bi_flag_parse_fn bi_flag_parse_id;       /* uint64_t: 1 to BIDE_ID_MAX */
bi_flag_parse_fn bi_flag_parse_priority; /* int64_t: 0 to 2^32-1 */
bi_flag_parse_fn
    bi_flag_parse_retries; /* int64_t: 0 to 2^31-1, or BIDE_NO_RETRY_LIMIT for "unlimited" */
bi_flag_parse_fn bi_flag_parse_duration; /* int64_t: milliseconds, datetime.h */
bi_flag_parse_fn bi_flag_parse_timeout;  /* int64_t: the same, or BIDE_FOREVER for "forever" */
bi_flag_parse_fn bi_flag_parse_time;     /* int64_t: a moment, datetime.h */
bi_flag_parse_fn bi_flag_parse_size;     /* uint64_t: bytes, with KiB, MiB, GiB */
bi_flag_parse_fn bi_flag_parse_state;    /* bide_state: delayed, ready, reserved, buried, done */

/* A pointer to another type does not compile. */
#define BI_FLAG_TARGET_(type, to) (1 ? (to) : (type *)0)

/* clang-format off */
#define BI_FLAG_BOOL(letter, name, to, help)       {letter, name, NULL, help, bi_flag_parse_bool, BI_FLAG_TARGET_(bool, to)}
#define BI_FLAG_STRING(letter, name, value_name, to, help) {letter, name, value_name, help, bi_flag_parse_string, BI_FLAG_TARGET_(const char *, to)}
#define BI_FLAG_SLICE(letter, name, value_name, to, help) {letter, name, value_name, help, bi_flag_parse_slice, BI_FLAG_TARGET_(bide_slice, to)}
#define BI_FLAG_LIST(letter, name, value_name, to, help) {letter, name, value_name, help, bi_flag_parse_list, BI_FLAG_TARGET_(struct words, to)}
#define BI_FLAG_COUNT(letter, name, to, help)    {letter, name, "N", help, bi_flag_parse_count, BI_FLAG_TARGET_(uint64_t, to)}
#define BI_FLAG_ID(letter, name, value_name, to, help) {letter, name, value_name, help, bi_flag_parse_id, BI_FLAG_TARGET_(uint64_t, to)}
#define BI_FLAG_PRIORITY(letter, name, to, help) {letter, name, "N", help, bi_flag_parse_priority, BI_FLAG_TARGET_(int64_t, to)}
#define BI_FLAG_RETRIES(letter, name, to, help)  {letter, name, "N", help, bi_flag_parse_retries, BI_FLAG_TARGET_(int64_t, to)}
#define BI_FLAG_DURATION(letter, name, to, help) {letter, name, "DURATION", help, bi_flag_parse_duration, BI_FLAG_TARGET_(int64_t, to)}
#define BI_FLAG_TIMEOUT(letter, name, to, help)  {letter, name, "DURATION", help, bi_flag_parse_timeout, BI_FLAG_TARGET_(int64_t, to)}
#define BI_FLAG_TIME(letter, name, to, help)   {letter, name, "TIME", help, bi_flag_parse_time, BI_FLAG_TARGET_(int64_t, to)}
#define BI_FLAG_SIZE(letter, name, to, help)     {letter, name, "SIZE", help, bi_flag_parse_size, BI_FLAG_TARGET_(uint64_t, to)}
#define BI_FLAG_STATE(letter, name, to, help)    {letter, name, "STATE", help, bi_flag_parse_state, BI_FLAG_TARGET_(bide_state, to)}
#define BI_FLAGS_END                             {0, NULL, NULL, NULL, NULL, NULL}
/* clang-format on */

/* Input and output of the parser. */
struct flag_parser {
    const struct flag *tables[2]; /* searched in this order; NULL: none */
    const char *const *argv;      /* in, out: the rest, ended by NULL */
    const char **words;           /* out: room for all of argv and a NULL */
    size_t word_count;            /* out */
    uint64_t given;               /* out: a bit per row of tables[0] */
    const char *const *program;   /* out, with has_program: arguments after --, or NULL */
    bool has_program;
    bool stop_at_word; /* stop at the first word, which stays in argv */
};

/* Return the flag of a name or letter; NULL: none. */
const struct flag *bi_flag_find_name(const struct flag_parser *parser, const char *name,
                                     size_t size);
const struct flag *bi_flag_find_letter(const struct flag_parser *parser, char letter);

/* Returns the next part of "a|b|c" and its size, and advances at; NULL after the last. */
const char *bi_flag_next_choice(const char **at, size_t *size);

/* False with an error message. */
bool bi_flag_parse_args(struct flag_parser *parser, char *error);

#endif
