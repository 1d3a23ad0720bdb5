/* SPDX-License-Identifier: MIT */
#include "util/sized_struct.h"

#include <bide/error.h>

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/* A larger size is not that of a newer version but uninitialized memory. */
#define STRUCT_SIZE_MAX 4096

int bi_sized_struct_copy(void *to, const void *from, const char *init, char *error)
{
    size_t own, given;
    memcpy(&own, to, sizeof(own));
    memcpy(&given, from, sizeof(given));

    if (given < sizeof(given) || given % sizeof(given) != 0 || given > STRUCT_SIZE_MAX) {
        snprintf(error, BIDE_ERROR_SIZE, "the options were not begun with %s", init);
        return BIDE_EINVAL;
    }

    /* Members of a newer version that are zero have their default: ignoring them is right. */
    for (size_t i = own; i < given; i++)
        if (((const char *)from)[i] != 0) {
            snprintf(error, BIDE_ERROR_SIZE,
                     "the program sets an option that this version of the library does not know");
            return BIDE_EINVAL;
        }

    memcpy(to, from, given < own ? given : own);
    /* The copy has our size again, not that of the program. */
    memcpy(to, &own, sizeof(own));
    return BIDE_OK;
}
