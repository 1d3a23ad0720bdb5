/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memrchr */
#include "cli/work_output.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the end ---- */

void bi_tail_add(struct tail *tail, const void *data, size_t size)
{
    const char *bytes = data;
    if (size > sizeof(tail->data)) {
        bytes += size - sizeof(tail->data);
        size = sizeof(tail->data);
        tail->cut = true;
    }
    size_t kept = sizeof(tail->data) - size;
    if (kept > BI_TAIL_SIZE)
        kept = BI_TAIL_SIZE;
    if (tail->size + size > sizeof(tail->data) && tail->size > kept) {
        memmove(tail->data, tail->data + tail->size - kept, kept);
        tail->size = kept;
        tail->cut = true;
    }
    memcpy(tail->data + tail->size, bytes, size);
    tail->size += size;
}

static bool is_inside_character(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* Copies text that has no more than BI_TAIL_SIZE bytes. */
static void copy(char *to, const char *from, size_t size)
{
    for (size_t i = 0; i < size; i++)
        to[i] = from[i] == 0 ? ' ' : from[i];
    to[size] = 0;
}

static size_t without_end(const char *text, size_t size)
{
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        size--;
    return size;
}

void bi_tail_text(const struct tail *tail, char *to)
{
    size_t size = without_end(tail->data, tail->size);
    size_t from = size > BI_TAIL_SIZE ? size - BI_TAIL_SIZE : 0;
    bool cut = from > 0 ? tail->data[from - 1] != '\n' : tail->cut;
    const char *line = cut ? memchr(tail->data + from, '\n', size - from) : NULL;
    if (line != NULL)
        from = (size_t)(line - tail->data) + 1;
    while (cut && line == NULL && from < size && is_inside_character(tail->data[from]))
        from++;
    copy(to, tail->data + from, size - from);
}

/* ---- the beginning ---- */

static bool grow(struct output *output, size_t size)
{
    size_t room = output->room == 0 ? 1024 : output->room;
    assert(output->most >= size && size > 0);
    while (room < size)
        room *= 2;
    if (room > output->most)
        room = output->most;
    char *data = realloc(output->data, room);
    if (data == NULL)
        return false;
    output->data = data;
    output->room = room;
    return true;
}

void bi_output_add(struct output *output, const void *data, size_t size)
{
    if (size > output->most - output->size) {
        size = output->most - output->size;
        output->cut = output->most > 0;
    }
    if (size == 0)
        return;
    if (output->size + size > output->room && !grow(output, output->size + size)) {
        output->cut = true;
        return;
    }
    memcpy(output->data + output->size, data, size);
    output->size += size;
}

void bi_output_mark(struct output *output)
{
    char mark[100];
    size_t size = (size_t)snprintf(
        mark, sizeof(mark), "\n[cut by bide: there was more than %zu bytes]\n", output->most);
    if (output->cut && output->size >= size)
        memcpy(output->data + output->size - size, mark, size);
}

void bi_output_done(struct output *output)
{
    free(output->data);
    output->data = NULL;
    output->size = output->room = 0;
}

void bi_output_head(const struct output *output, char *to)
{
    size_t size = output->size;
    if (size > BI_TAIL_SIZE) {
        const char *line = memrchr(output->data, '\n', BI_TAIL_SIZE);
        size = line != NULL ? (size_t)(line - output->data) : BI_TAIL_SIZE;
        while (line == NULL && size > 0 && is_inside_character(output->data[size]))
            size--;
    }
    copy(to, output->data, without_end(output->data, size));
}
