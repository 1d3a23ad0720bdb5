/* SPDX-License-Identifier: MIT */
/*
 * sized_struct - options structs whose first member is their size, across versions of the library.
 */
#ifndef BI_SIZED_STRUCT_H
#define BI_SIZED_STRUCT_H

#include "util/message.h"

#include <stddef.h>
#include <string.h>

/* A larger size is not that of a newer version but uninitialized memory. */
#define BI_SIZED_STRUCT_MAX 4096

/*
 * Copies an options struct of a program that was compiled with another version of the library
 * over *to, which holds the defaults and our size; the first member of both is the size. Members
 * that an older program does not know keep their defaults. Members of a newer program that we do
 * not know must be zero. Otherwise BIDE_EINVAL and a message in error (BIDE_ERROR_SIZE bytes)
 * that names the macro `init`. Such a struct must have no padding at its end: an older program
 * leaves it undefined, and a later member would occupy it.
 */
static inline int bi_sized_struct_copy(void *to, const void *from, const char *init, char *error)
{
    size_t own, given;
    memcpy(&own, to, sizeof(own));
    memcpy(&given, from, sizeof(given));

    if (given < sizeof(given) || given % sizeof(given) != 0 || given > BI_SIZED_STRUCT_MAX)
        return bi_error_set(error, BIDE_EINVAL, "the options were not begun with %s", init);

    /* Members of a newer version that are zero have their default: ignoring them is right. */
    for (size_t i = own; i < given; i++)
        if (((const char *)from)[i] != 0)
            return bi_error_set(
                error, BIDE_EINVAL,
                "the program sets an option that this version of the library does not know");

    memcpy(to, from, given < own ? given : own);
    /* The copy has our size again, not that of the program. */
    memcpy(to, &own, sizeof(own));
    return BIDE_OK;
}

/* Does not compile if there is padding behind the last member. */
#define BI_SIZED_STRUCT_ENDS_WITH(type, member)                                          \
    _Static_assert(offsetof(type, member) + sizeof(((type *)0)->member) == sizeof(type), \
                   #type " has padding behind " #member)

#endif
