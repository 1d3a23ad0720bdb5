/* SPDX-License-Identifier: MIT */
/*
 * bytes - a string of bytes that grows. Tests have no use for a failing allocation: they end.
 */
#ifndef WIRE_BYTES_H
#define WIRE_BYTES_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct bytes {
    char *data;
    size_t size, room;
};

/* Room for more bytes behind those that are there. */
static inline char *bytes_room(struct bytes *bytes, size_t more)
{
    if (bytes->room - bytes->size < more) {
        bytes->room = (bytes->size + more) * 2;
        bytes->data = realloc(bytes->data, bytes->room);
        if (!bytes->data) {
            perror("memory");
            exit(2);
        }
    }
    return bytes->data + bytes->size;
}

static inline void bytes_add(struct bytes *bytes, const void *data, size_t size)
{
    if (size == 0)
        return;
    memcpy(bytes_room(bytes, size), data, size);
    bytes->size += size;
}

static inline void bytes_text(struct bytes *bytes, const char *text)
{
    bytes_add(bytes, text, strlen(text));
}

static inline void bytes_done(struct bytes *bytes)
{
    free(bytes->data);
    *bytes = (struct bytes){NULL, 0, 0};
}

#endif
