/* SPDX-License-Identifier: MIT */
/*
 * trail - where in a value a walk is: "order.lines[3].count".
 *
 * Each step lies on the stack of who made it and knows the one above; the text is made only when
 * something is wrong there.
 */
#ifndef BI_TRAIL_H
#define BI_TRAIL_H

#include <stddef.h>

struct trail {
    const struct trail *up; /* NULL: the type itself */
    const char *name;       /* of the type or field; NULL: an element of an array */
    size_t index;           /* of the element */
    unsigned depth;         /* structs around it */
};

static inline struct trail bi_trail_of_type(const char *name)
{
    return (struct trail){.name = name};
}

static inline struct trail bi_trail_of_field(const struct trail *up, const char *name)
{
    return (struct trail){.up = up, .name = name, .depth = up->depth};
}

static inline struct trail bi_trail_of_element(const struct trail *up, size_t index)
{
    return (struct trail){.up = up, .index = index, .depth = up->depth};
}

/* The same place, one struct deeper. */
static inline struct trail bi_trail_inside(const struct trail *at)
{
    struct trail inside = *at;
    inside.depth++;
    return inside;
}

/* Sets the thread's last error to "path: sentence", a path that is too long without its beginning.
 * Answers BIDE_EINVAL. */
int bi_trail_refuse(const struct trail *at, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
