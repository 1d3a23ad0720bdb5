/* SPDX-License-Identifier: MIT */
/*
 * json_path - the position of a codec in a value, for error messages: "order.lines[3].count".
 *
 * Each step is on the stack of the function that visits it and points to its parent. The text is
 * built only for an error, so a path costs nothing while the value is valid.
 */
#ifndef BI_JSON_PATH_H
#define BI_JSON_PATH_H

#include <stddef.h>

struct json_path {
    const struct json_path *parent; /* NULL: the type itself */
    const char *name;               /* of the type or field; NULL: an array element */
    size_t index;                   /* of the element */
    unsigned depth;                 /* nesting of structs */
};

static inline struct json_path bi_json_path_root(const char *name)
{
    return (struct json_path){.name = name};
}

static inline struct json_path bi_json_path_field(const struct json_path *parent, const char *name)
{
    return (struct json_path){.parent = parent, .name = name, .depth = parent->depth};
}

static inline struct json_path bi_json_path_element(const struct json_path *parent, size_t index)
{
    return (struct json_path){.parent = parent, .index = index, .depth = parent->depth};
}

/* The same position, one struct deeper. */
static inline struct json_path bi_json_path_descend(const struct json_path *path)
{
    struct json_path inside = *path;
    inside.depth++;
    return inside;
}

/* Sets the last error to "path: message" and returns BIDE_EINVAL. A path that is too long loses its
 * beginning: the end names the field. */
int bi_json_path_error(const struct json_path *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
