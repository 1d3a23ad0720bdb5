/* SPDX-License-Identifier: MIT */
/*
 * type - what the files that implement bide/type.h share.
 *
 * type.c has the public calls; type_decode.c and type_encode.c use jansson; type_number.c converts
 * the integers of C. Without jansson only type.c is built: bodies of bytes work, all else fails
 * with BIDE_ENOTSUP.
 *
 * Failure    Decoding and encoding set the last error of the thread; then there is nothing to free.
 */
#ifndef BI_TYPE_H
#define BI_TYPE_H

#include "util/alloc.h"

#include <bide/type.h>

/* Decodes JSON into a new arena; the caller frees the value with bi_arena_free(). */
int bi_type_decode_json(const bide_type *type, const void *data, size_t size,
                        const struct bi_alloc *alloc, void **value);

int bi_type_encode_json(const bide_type *type, const void *value, bide_buf **json);

/* Encodes the key of a list of fields, "customer, month". *key is NULL if there is only one field
 * and it is missing. */
int bi_type_encode_key(const bide_type *type, const char *fields, const void *value,
                       bide_buf **key);

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

#endif
