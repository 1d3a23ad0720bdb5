/* SPDX-License-Identifier: MIT */
/*
 * reply - scanning the replies to put, reserve and delete.
 *
 * Each function answers the end of the reply that begins at `at`, or NULL if it is not complete.
 * A reply of another kind ends the program. They are inline, and look at a byte once: the load
 * generator may have the core of the server it measures.
 */
#ifndef BENCH_REPLY_H
#define BENCH_REPLY_H

#include <string.h>

#include "bench.h"

/* Ends the program: the line is not what was expected. */
_Noreturn void reply_wrong(const char *at, const char *end, const char *expected);

/* The end of the line that begins with word, which has size bytes. */
static inline const char *reply_line(const char *at, const char *end, const char *word, size_t size)
{
    if ((size_t)(end - at) < size)
        return NULL;
    if (__builtin_expect(memcmp(at, word, size) != 0, 0))
        reply_wrong(at, end, word);
    const char *newline = memchr(at + size, '\n', (size_t)(end - at) - size);
    return newline == NULL ? NULL : newline + 1;
}

static inline const char *reply_inserted(const char *at, const char *end)
{
    return reply_line(at, end, "INSERTED ", 9);
}

static inline const char *reply_deleted(const char *at, const char *end)
{
    return reply_line(at, end, "DELETED\r", 8);
}

/* A reserved job, in the memory of the reply. */
struct reserved {
    const char *id; /* its digits */
    size_t id_size;
    const char *body;
};

static inline const char *reply_reserved(const char *at, const char *end, size_t body_size,
                                         struct reserved *job)
{
    const char *line_end = reply_line(at, end, "RESERVED ", 9);

    if (line_end == NULL || (size_t)(end - line_end) < body_size + 2)
        return NULL;
    job->id = at + 9;
    const char *space = memchr(job->id, ' ', (size_t)(line_end - job->id));
    if (__builtin_expect(space == NULL || line_end[body_size] != '\r', 0))
        reply_wrong(at, end, "RESERVED, with a body of the right size");
    job->id_size = (size_t)(space - job->id);
    job->body = line_end;
    return line_end + body_size + 2;
}

#endif
