/* SPDX-License-Identifier: MIT */
/*
 * type - what the files behind bide/type.h share.
 *
 * type.c has the public calls; type_read.c and type_write.c do the work with jansson, type_number.c
 * knows the numbers of C. Without jansson only type.c is built, and bodies of bytes work.
 */
#ifndef BI_TYPE_H
#define BI_TYPE_H

#include "util/alloc.h"

#include <bide/type.h>

/* Reads JSON into a new arena; BIDE_OK, or a code with the thread's last error set. The value is
 * to be given to bi_arena_free(). */
int bi_type_read(const bide_type *type, const void *data, size_t size, const struct bi_alloc *alloc,
                 void **value);

/* Writes a value as JSON. */
int bi_type_write(const bide_type *type, const void *value, bide_buf **json);

/* Writes the key that the named fields make: "customer, month". *key is NULL when there is none,
 * because the only field is missing. */
int bi_type_key(const bide_type *type, const char *fields, const void *value, bide_buf **key);

/* ---- numbers ---- */

/* A whole number of any member: its sign and its distance from 0. */
struct whole {
    bool negative;
    bool huge; /* further than the magnitude can say */
    uint64_t magnitude;
};

/* What a member of that kind and size holds. BIDE_KIND_INT or BIDE_KIND_UINT. */
struct whole bi_number_get(bide_kind kind, size_t size, const void *member);

/* Stores it: 0. Or it is less than the least (-1) or more than the greatest (1) that fits. */
int bi_number_set(bide_kind kind, size_t size, void *member, struct whole number);

/* The least or the greatest number that fits. */
struct whole bi_number_limit(bide_kind kind, size_t size, bool least);

/* As digits; the room is for the longest. */
#define BI_WHOLE_TEXT 24
const char *bi_number_text(struct whole number, char text[BI_WHOLE_TEXT]);

/* Digits, or a minus and digits, up to the length; false for anything else. */
bool bi_number_parse(const char *text, size_t length, struct whole *number);

/* A double without a fraction that is so small that no digit of it can have been lost. */
bool bi_number_of_real(double real, struct whole *number);

#endif
