/* SPDX-License-Identifier: MIT */
/*
 * sized_struct - options structs whose first member is their size, across versions of the library.
 */
#ifndef BI_SIZED_STRUCT_H
#define BI_SIZED_STRUCT_H

#include <stddef.h>

/*
 * Copies an options struct of a program that was compiled with another version of the library
 * over *to, which holds the defaults and our size; the first member of both is the size. Members
 * that an older program does not know keep their defaults. Members of a newer program that we do
 * not know must be zero. Otherwise BIDE_EINVAL and a message in error (BIDE_ERROR_SIZE bytes)
 * that names the macro `init`. Such a struct must have no padding at its end: an older program
 * leaves it undefined, and a later member would occupy it.
 */
int bi_sized_struct_copy(void *to, const void *from, const char *init, char *error);

/* Does not compile if there is padding behind the last member. */
#define BI_SIZED_STRUCT_ENDS_WITH(type, member)                                          \
    _Static_assert(offsetof(type, member) + sizeof(((type *)0)->member) == sizeof(type), \
                   #type " has padding behind " #member)

#endif
