/* SPDX-License-Identifier: MIT */
/*
 * near - which known name somebody may have meant.
 *
 * In names - and _ are the same.
 */
#ifndef BI_NEAR_H
#define BI_NEAR_H

#include <stddef.h>

#define BI_NEAR_MAX 32 /* bytes of a known name; longer texts are near to nothing */

/* How many letters must be changed, added or dropped to make one name of the other. */
size_t bi_near_distance(const char *name, const char *text, size_t size);

/* The best of several names, looked at one after the other. Begin with BI_NEAR_INIT. */
struct near {
    const char *best; /* NULL: none is near */
    size_t distance;
};
#define BI_NEAR_INIT \
    {                \
        NULL, 0      \
    }

void bi_near_look(struct near *near, const char *name, const char *text, size_t size);

#endif
