/* SPDX-License-Identifier: MIT */
/*
 * suggest - finds the known name that a misspelled one probably means.
 *
 * In names - and _ are equal.
 */
#ifndef BI_SUGGEST_H
#define BI_SUGGEST_H

#include <stddef.h>

#define BI_SUGGEST_NAME_MAX 32 /* bytes of a known name; longer texts match none */

/* The edit distance: letters to change, insert or remove. name has at most BI_SUGGEST_NAME_MAX
 * bytes. */
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
