/* SPDX-License-Identifier: MIT */
/*
 * put_list - the puts that a handler collects, to be stored in one step with the end of its job.
 *
 * Ownership  A list owns copies of everything: it moves from the context to the ack, and may be
 *            submitted long after the handler has returned.
 * Failure    An add that fails leaves the list as it was.
 */
#include "task/worker_internal.h"

#include "op/op_table.h"
#include "util/message.h"
#include "util/sized_struct.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIRST_ROOM 4

/* What one put points to: its options, and behind them its topic and its key. It does not move when
 * the list grows. */
struct put_args {
    bide_put_options options;
    char text[];
};

static void free_item(const bide_put_item *item)
{
    bide_buf_unref(item->buf);
    free((void *)(uintptr_t)item->options); /* the first member of its put_args */
}

size_t bi_put_list_count(const struct put_list *list)
{
    return list == NULL ? 0 : list->count;
}

void bi_put_list_truncate(struct put_list *list, size_t count)
{
    while (bi_put_list_count(list) > count) {
        const bide_put_item *last = &list->items[--list->count];
        assert(list->bytes >= bide_buf_size(last->buf));
        list->bytes -= bide_buf_size(last->buf);
        free_item(last);
    }
}

void bi_put_list_free(struct put_list *list)
{
    if (list == NULL)
        return;
    bi_put_list_truncate(list, 0);
    free(list->items);
    free(list);
}

/* Makes room for one more item. */
static bool grow(struct put_list **list)
{
    if (*list == NULL && (*list = calloc(1, sizeof(**list))) == NULL)
        return false;
    if ((*list)->count < (*list)->room)
        return true;

    size_t room = (*list)->room == 0 ? FIRST_ROOM : 2 * (*list)->room;
    bide_put_item *items = realloc((*list)->items, room * sizeof(*items));
    if (items == NULL)
        return false;
    (*list)->items = items;
    (*list)->room = room;
    return true;
}

/* The limits of one finish_and_put; a single body may be larger. */
static int check_limits(const struct put_list *list, size_t body_size, char *error)
{
    if (bi_put_list_count(list) == BIDE_BATCH_JOBS)
        return bi_error_set(error, BIDE_TOO_BIG, "%d jobs are the most that one job can put",
                            BIDE_BATCH_JOBS);
    if (bi_put_list_count(list) > 0 && list->bytes + body_size > BIDE_BATCH_BYTES)
        return bi_error_set(
            error, BIDE_TOO_BIG,
            "the bodies would have %zu bytes; %zu are the most that one job can put",
            list->bytes + body_size, BIDE_BATCH_BYTES);
    return BIDE_OK;
}

/* Checks the put as bide_put() does. */
static int check_put(const bide_options *options, const bide_put_item *put, char *error)
{
    bide_op op;
    op.kind = BIDE_OP_PUT;
    op.private_.flags = 0;
    op.put = *put;
    op.error[0] = 0;
    int code = bi_op_check(options, &op);

    /* Without the name of the op: the caller adds that of its own call. */
    static const char prefix[] = "put: ";
    bool has_prefix = strncmp(op.error, prefix, strlen(prefix)) == 0;
    if (code != BIDE_OK)
        bi_text_copy(error, op.error + (has_prefix ? strlen(prefix) : 0));
    return code;
}

/* NULL when out of memory. */
static struct put_args *copy_args(const bide_put_item *put, char *error)
{
    /* The options may be of another version of the library; check_put() has accepted them. */
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    if (put->options != NULL)
        bi_sized_struct_copy(&options, put->options, "BIDE_PUT_OPTIONS_INIT", error);

    struct put_args *args = malloc(sizeof(*args) + put->topic.size + options.key.size);
    if (args == NULL)
        return NULL;
    args->options = options;
    memcpy(args->text, put->topic.data, put->topic.size);
    if (options.key.size > 0) {
        args->options.key.data = args->text + put->topic.size;
        memcpy(args->text + put->topic.size, options.key.data, options.key.size);
    }
    return args;
}

int bi_put_list_add(struct put_list **list, const bide_options *options, const bide_put_item *put,
                    char *error)
{
    int code = check_put(options, put, error);
    if (code != BIDE_OK)
        return code;
    code = check_limits(*list, put->buf != NULL ? bide_buf_size(put->buf) : put->body.size, error);
    if (code != BIDE_OK)
        return code;

    struct put_args *args = grow(list) ? copy_args(put, error) : NULL;
    bide_buf *body =
        put->buf != NULL ? bide_buf_ref(put->buf) : bide_buf_new(put->body.data, put->body.size);
    if (args == NULL || body == NULL) {
        free(args);
        bide_buf_unref(body);
        return bi_error_set_code(error, BIDE_ENOMEM);
    }

    assert((*list)->count < (*list)->room);
    (*list)->items[(*list)->count++] = (bide_put_item){
        .topic = {args->text, put->topic.size}, .buf = body, .options = &args->options};
    (*list)->bytes += bide_buf_size(body);
    return BIDE_OK;
}
