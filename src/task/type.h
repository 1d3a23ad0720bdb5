/* SPDX-License-Identifier: MIT */
/*
 * type - what the files that implement bide/type.h share.
 *
 * type.c has the public calls, the arena and errors; type_decode.c and type_encode.c use jansson;
 * type_number.c converts the integers of C. Without jansson bodies of bytes work, and all else
 * fails with BIDE_ENOTSUP.
 *
 * Failure    Decoding and encoding set the last error of the thread; then there is nothing to free.
 */
#ifndef BI_TYPE_H
#define BI_TYPE_H

#include "util/alloc.h"

#include <bide/type.h>

/* Decodes JSON into a new arena; the caller frees the value with bide_decoded_free(). */
int bi_type_decode_json(const bide_type *type, const void *data, size_t size,
                        const struct bi_alloc *alloc, void **value);

int bi_type_encode_json(const bide_type *type, const void *value, bide_buf **json);

/* Encodes the key of a list of fields, "customer, month". *key is NULL if there is only one field
 * and it is missing. */
int bi_type_encode_key(const bide_type *type, const char *fields, const void *value,
                       bide_buf **key);

#ifndef BIDE_WITH_JSON
int bi_type_no_json(const bide_type *type);
#define bi_type_decode_json(type, ...) bi_type_no_json(type)
#define bi_type_encode_json(type, ...) bi_type_no_json(type)
#define bi_type_encode_key(type, ...)  bi_type_no_json(type)
#endif

/* Sets the last error, and returns BIDE_ENOMEM. */
int bi_type_out_of_memory(void);

/* ---- arena ---- */

struct block;

/*
 * Pieces that are freed together: a decoded struct with everything that it points to, in a few
 * blocks. The struct is the first piece of the first block, so its address alone is enough to free
 * all blocks, and bide_decoded_free() needs no handle.
 *
 * Cost       One malloc for a small value; blocks double in size up to 64 KiB.
 */
struct arena {
    struct block *first;
    struct block *last; /* the only one with free room */
};

/* Allocates the first block, with room for a first piece of `size` bytes and `extra` bytes more, an
 * estimate. On failure there is nothing to free. */
int bi_type_arena_init(struct arena *arena, const struct bi_alloc *alloc, size_t size,
                       size_t extra);
/* Zeroed, and aligned for any type. NULL when out of memory; other pieces stay valid. */
void *bi_type_arena_alloc(struct arena *arena, size_t size);

/* ---- errors ---- */

/*
 * The position of a codec in a value, for error messages: "order.lines[3].count". Each step is on
 * the stack of the function that visits it and points to its parent. The text is built only for an
 * error, so a path costs nothing while the value is valid.
 */
struct json_path {
    const struct json_path *parent; /* NULL: the type itself */
    const char *name;               /* of the type or field; NULL: an array element */
    size_t index;                   /* of the element */
    unsigned depth;                 /* nesting of structs */
};

/* Sets the last error to "path: message" and returns BIDE_EINVAL. A path that is too long loses its
 * beginning: the end names the field. */
int bi_type_error(const struct json_path *path, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* ---- numbers ---- */

/* An integer of any size, as sign and magnitude. */
struct integer {
    bool negative;
    bool overflow; /* the magnitude does not fit */
    uint64_t magnitude;
};

/* The value of a member; the kind is BIDE_KIND_INT or BIDE_KIND_UINT. */
struct integer bi_type_number_get(bide_kind kind, size_t size, const void *member);

/* Stores the number and returns 0; or stores nothing and returns -1 (below the minimum of the
 * member) or 1 (above its maximum). */
int bi_type_number_set(bide_kind kind, size_t size, void *member, struct integer number);

/* The minimum (least) or maximum of the member. */
struct integer bi_type_number_limit(bide_kind kind, size_t size, bool least);

/* Formats the number in decimal; the size fits every integer. */
#define BI_INTEGER_TEXT_SIZE 24
const char *bi_type_number_format(struct integer number, char text[BI_INTEGER_TEXT_SIZE]);

/* Parses digits with an optional minus; else false. Sets overflow instead of failing. */
bool bi_type_number_parse(const char *text, size_t length, struct integer *number);

/* Converts a double that is an integer below 2^53 in magnitude; false for others, which may have
 * been rounded. */
bool bi_type_number_from_double(double real, struct integer *number);

/* The double with the fewest digits that converts back to this float: 0.1f becomes 0.1, not
 * 0.10000000149011612. Nine digits always suffice. */
double bi_type_number_shortest_double(float narrow);

#endif
