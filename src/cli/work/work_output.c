/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memrchr */
#include "cli/work/work.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the end of the output ---- */

void bi_work_output_add_tail(struct tail *tail, const void *data, size_t size)
{
    const char *bytes = data;

    if (size > sizeof(tail->data)) {
        bytes += size - sizeof(tail->data);
        size = sizeof(tail->data);
        tail->truncated = true;
    }

    /* Room is made for at least a tail at a time, so that small pieces are not moved each time. */
    size_t kept = sizeof(tail->data) - size;
    if (kept > BI_WORK_TAIL_SIZE)
        kept = BI_WORK_TAIL_SIZE;
    if (tail->size + size > sizeof(tail->data) && tail->size > kept) {
        memmove(tail->data, tail->data + tail->size - kept, kept);
        tail->size = kept;
        tail->truncated = true;
    }
    assert(tail->size + size <= sizeof(tail->data));
    memcpy(tail->data + tail->size, bytes, size);
    tail->size += size;
}

static bool is_utf8_continuation(char byte)
{
    return ((unsigned char)byte & 0xc0) == 0x80;
}

/* At most BI_WORK_TAIL_SIZE bytes. */
static void copy_text(char *to, const char *from, size_t size)
{
    assert(size <= BI_WORK_TAIL_SIZE);
    for (size_t i = 0; i < size; i++)
        to[i] = from[i] == 0 ? ' ' : from[i];
    to[size] = 0;
}

static size_t trim_newlines(const char *text, size_t size)
{
    while (size > 0 && (text[size - 1] == '\n' || text[size - 1] == '\r'))
        size--;
    return size;
}

void bi_work_output_tail_text(const struct tail *tail, char *to)
{
    size_t size = trim_newlines(tail->data, tail->size);
    size_t from = size > BI_WORK_TAIL_SIZE ? size - BI_WORK_TAIL_SIZE : 0;

    /* A first line that is cut is dropped, unless it is the only one. */
    bool truncated = from > 0 ? tail->data[from - 1] != '\n' : tail->truncated;
    const char *line = truncated ? memchr(tail->data + from, '\n', size - from) : NULL;
    if (line != NULL)
        from = (size_t)(line - tail->data) + 1;
    while (truncated && line == NULL && from < size && is_utf8_continuation(tail->data[from]))
        from++;
    copy_text(to, tail->data + from, size - from);
}

/* ---- the beginning of the output ---- */

static bool grow(struct output *output, size_t size)
{
    size_t capacity = output->capacity == 0 ? 1024 : output->capacity;

    assert(output->limit >= size && size > 0);
    while (capacity < size)
        capacity *= 2;
    if (capacity > output->limit)
        capacity = output->limit;
    char *data = realloc(output->data, capacity);
    if (data == NULL)
        return false;
    output->data = data;
    output->capacity = capacity;
    return true;
}

void bi_work_output_add(struct output *output, const void *data, size_t size)
{
    assert(output->size <= output->limit && output->size <= output->capacity);
    if (size > output->limit - output->size) {
        size = output->limit - output->size;
        output->truncated = output->limit > 0;
    }
    if (size == 0)
        return;

    if (output->size + size > output->capacity && !grow(output, output->size + size)) {
        output->truncated = true;
        return;
    }
    memcpy(output->data + output->size, data, size);
    output->size += size;
}

void bi_work_output_mark_truncated(struct output *output)
{
    char marker[100];
    size_t size = (size_t)snprintf(marker, sizeof(marker), "\n[cut by bide: more than %zu bytes]\n",
                                   output->limit);

    if (output->truncated && output->size >= size)
        memcpy(output->data + output->size - size, marker, size);
}

void bi_work_output_done(struct output *output)
{
    free(output->data);
    output->data = NULL;
    output->size = output->capacity = 0;
}

void bi_work_output_head(const struct output *output, char *to)
{
    size_t size = output->size;

    if (size > BI_WORK_TAIL_SIZE) {
        const char *line = memrchr(output->data, '\n', BI_WORK_TAIL_SIZE);
        size = line != NULL ? (size_t)(line - output->data) : BI_WORK_TAIL_SIZE;
        while (line == NULL && size > 0 && is_utf8_continuation(output->data[size]))
            size--;
    }
    copy_text(to, output->data, trim_newlines(output->data, size));
}
