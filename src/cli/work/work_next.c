/* SPDX-License-Identifier: MIT */
/*
 * work_next - the jobs that a program puts with the end of its own: lines of JSON.
 *
 * Memory     One incomplete line, and what the context has collected, which bide_context_put()
 *            limits.
 */
#include "cli/put.h"
#include "cli/work/work.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_CAPACITY 4096

static void set_error(struct next_jobs *next, uint64_t number, const char *reason)
{
    if (next->error[0] == 0)
        bi_errmsg_set(next->error, "BIDE_NEXT_FD, line %llu: %.440s", (unsigned long long)number,
                      reason);
}

/* Without the name of the call, which is not that of a program. */
static const char *collect_error(void)
{
    const char *error = bide_last_error();
    const char *reason = strstr(error, ": ");
    return reason == NULL ? error : reason + 2;
}

static void collect(struct next_jobs *next, bide_context *context, const struct put_json *put)
{
    if (put->topic_size == 0) {
        set_error(next, next->number, "\"topic\" is missing");
    } else if (memchr(put->topic, 0, put->topic_size) != NULL) {
        set_error(next, next->number, "the topic contains a NUL");
    } else {
        char topic[BIDE_TOPIC_MAX + 1];
        memcpy(topic, put->topic, put->topic_size);
        topic[put->topic_size] = 0;
        if (bide_context_put(context, topic, bide_buf_data(put->body), bide_buf_size(put->body),
                             &put->options) != BIDE_OK)
            set_error(next, next->number, collect_error());
    }
}

static bool is_blank(const char *line, size_t size)
{
    for (size_t i = 0; i < size; i++)
        if (line[i] != ' ' && line[i] != '\t' && line[i] != '\r')
            return false;
    return true;
}

static void add_line(struct next_jobs *next, bide_context *context, const char *line, size_t size)
{
    bide_put_options defaults = BIDE_PUT_OPTIONS_INIT;
    char error[BI_ERRMSG_SIZE];
    struct put_json put;

    next->number++;
    if (next->error[0] != 0 || is_blank(line, size))
        return;
    bi_put_set_default_retries(&defaults);
    if (!bi_put_json_parse((bide_slice){line, size}, &defaults, bi_clock_wall() / 1000, &put,
                           error)) {
        set_error(next, next->number, error);
        return;
    }
    collect(next, context, &put);
    bide_buf_unref(put.body);
}

static bool grow(struct next_jobs *next, size_t size)
{
    size_t capacity = next->capacity == 0 ? FIRST_CAPACITY : next->capacity;

    while (capacity < size)
        capacity *= 2;
    char *line = realloc(next->line, capacity);
    if (line == NULL)
        return false;
    next->line = line;
    next->capacity = capacity;
    return true;
}

/* Keeps a part of a line until the rest arrives. */
static void keep(struct next_jobs *next, const char *data, size_t size)
{
    if (next->error[0] != 0 || size == 0)
        return;
    if (size > BI_INPUT_RECORD_MAX - next->size)
        set_error(next, next->number + 1, "longer than 64 MiB");
    else if (next->size + size > next->capacity && !grow(next, next->size + size))
        set_error(next, next->number + 1, bide_code_text(BIDE_ENOMEM));
    if (next->error[0] != 0)
        return;
    memcpy(next->line + next->size, data, size);
    next->size += size;
    assert(next->size <= next->capacity);
}

void bi_work_next_add(struct next_jobs *next, bide_context *context, const char *data, size_t size)
{
    const char *end;

    while (size > 0 && (end = memchr(data, '\n', size)) != NULL) {
        size_t length = (size_t)(end - data);
        if (next->size == 0) {
            add_line(next, context, data, length);
        } else {
            keep(next, data, length);
            add_line(next, context, next->line, next->size);
            next->size = 0;
        }
        data += length + 1;
        size -= length + 1;
    }
    keep(next, data, size);
}

void bi_work_next_end(struct next_jobs *next, bide_context *context)
{
    if (next->size > 0)
        add_line(next, context, next->line, next->size);
    next->size = 0;
}

void bi_work_next_done(struct next_jobs *next)
{
    free(next->line);
    *next = (struct next_jobs){0};
}
