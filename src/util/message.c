/* SPDX-License-Identifier: MIT */
#include "util/message.h"

#include <assert.h>

/* ---- error texts ---- */

size_t bi_text_utf8_size(const unsigned char *text, size_t length)
{
    unsigned char first = text[0];
    size_t size = first < 0x80 ? 1 : first < 0xe0 ? 2 : first < 0xf0 ? 3 : 4;
    if (size == 1)
        return 1;

    if (first < 0xc2 || first > 0xf4 || size > length)
        return 0;

    for (size_t i = 1; i < size; i++)
        if ((text[i] & 0xc0) != 0x80)
            return 0;

    /* What the first byte alone cannot exclude. */
    bool longer = (first == 0xe0 && text[1] < 0xa0) || (first == 0xf0 && text[1] < 0x90);
    bool beyond = (first == 0xed && text[1] > 0x9f) || (first == 0xf4 && text[1] > 0x8f);
    return longer || beyond ? 0 : size;
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
