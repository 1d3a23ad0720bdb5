/* SPDX-License-Identifier: MIT */
#include "util/message.h"

#include <assert.h>

/* ---- error texts ---- */

int bi_error_set(char *error, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(error, BIDE_ERROR_SIZE, format, args);
    va_end(args);
    return code;
}

size_t bi_text_utf8_decode(const unsigned char *text, size_t length, uint32_t *point)
{
    static const uint32_t min_point[] = {0, 0, 0x80, 0x800, 0x10000};
    size_t size = text[0] < 0x80             ? 1
                  : (text[0] & 0xe0) == 0xc0 ? 2
                  : (text[0] & 0xf0) == 0xe0 ? 3
                  : (text[0] & 0xf8) == 0xf0 ? 4
                                             : 0;

    if (size == 0 || size > length)
        return 0;
    *point = size == 1 ? text[0] : text[0] & (0x7fu >> size);
    for (size_t i = 1; i < size; i++) {
        if ((text[i] & 0xc0) != 0x80)
            return 0;
        *point = *point << 6 | (text[i] & 0x3fu);
    }

    bool valid =
        *point >= min_point[size] && *point <= 0x10ffff && (*point < 0xd800 || *point > 0xdfff);
    return valid ? size : 0;
}

size_t bi_text_utf8_size(const unsigned char *text, size_t length)
{
    uint32_t point;
    return bi_text_utf8_decode(text, length, &point);
}

bool bi_text_is_utf8(const void *text, size_t size)
{
    const unsigned char *at = text, *end = at + size;
    size_t length = 1;

    for (; at < end && length > 0; at += length)
        length = bi_text_utf8_size(at, (size_t)(end - at));
    return length > 0;
}

size_t bi_text_utf8_fit(const void *text, size_t size, size_t room)
{
    const unsigned char *bytes = text;
    if (size <= room)
        return size;

    /* The beginning of the character that the end of the room is in. */
    size_t at = room;
    while (at > 0 && room - at < 3 && (bytes[at] & 0xc0) == 0x80)
        at--;
    return bi_text_utf8_size(bytes + at, size - at) > room - at ? at : room;
}

/* ---- the log ---- */

void bi_log(const struct bi_log *log, bide_log_level level, const char *format, ...)
{
    if (log->handler == NULL)
        return;

    char text[512];
    va_list args;
    va_start(args, format);
    vsnprintf(text, sizeof(text), format, args);
    va_end(args);

    log->handler(log->user, level, text);
}

/* The first and the longest interval between two messages. */
#define INTERVAL_MIN_US 1000000
#define INTERVAL_MAX_US 60000000

uint64_t bi_log_limit_hit(struct bi_log_limit *limit, int64_t now)
{
    limit->count++;
    if (limit->count > 1 && now < limit->next_us)
        return 0;

    limit->interval_us = limit->count == 1                           ? INTERVAL_MIN_US
                         : limit->interval_us >= INTERVAL_MAX_US / 2 ? INTERVAL_MAX_US
                                                                     : limit->interval_us * 2;
    limit->next_us = now + limit->interval_us;
    return limit->count;
}

uint64_t bi_log_limit_reset(struct bi_log_limit *limit)
{
    uint64_t count = limit->count;
    *limit = (struct bi_log_limit){.count = 0};
    return count;
}

/* ---- suggestions ---- */

static char normalize(char c)
{
    return c == '-' ? '_' : c;
}

size_t bi_suggest_distance(const char *name, const char *text, size_t size)
{
    size_t row[BI_SUGGEST_NAME_MAX + 1], length = strlen(name);
    assert(length <= BI_SUGGEST_NAME_MAX);

    /* Levenshtein with one row: row[i] is the distance of the first i letters of the name to
     * the letters of the text so far. */
    for (size_t i = 0; i <= length; i++)
        row[i] = i;

    for (size_t k = 1; k <= size; k++) {
        size_t diagonal = row[0];
        row[0] = k;
        for (size_t i = 1; i <= length; i++) {
            size_t substitution = diagonal + (normalize(name[i - 1]) != normalize(text[k - 1]));
            size_t indel = (row[i] < row[i - 1] ? row[i] : row[i - 1]) + 1;
            diagonal = row[i];
            row[i] = substitution < indel ? substitution : indel;
        }
    }
    return row[length];
}

void bi_suggest_consider(struct suggestion *suggestion, const char *name, const char *text,
                         size_t size)
{
    if (size > BI_SUGGEST_NAME_MAX || strlen(name) > BI_SUGGEST_NAME_MAX)
        return;

    size_t distance = bi_suggest_distance(name, text, size);
    size_t max_distance = size / 3 + 1; /* with more changes it is another name */

    if (distance <= max_distance && (suggestion->best == NULL || distance < suggestion->distance)) {
        suggestion->best = name;
        suggestion->distance = distance;
    }
}
