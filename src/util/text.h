/* SPDX-License-Identifier: MIT */
/*
 * text - messages in buffers of BIDE_ERROR_SIZE bytes.
 */
#ifndef BI_TEXT_H
#define BI_TEXT_H

#include <bide/error.h>

#include <string.h>

/* Copies a message, truncated if it is too long. */
static inline void bi_text_copy(char *to, const char *from)
{
    size_t size = strlen(from);
    if (size > BIDE_ERROR_SIZE - 1)
        size = BIDE_ERROR_SIZE - 1;
    memcpy(to, from, size);
    to[size] = 0;
}

#endif
