/* SPDX-License-Identifier: MIT */
/*
 * task - publishing: a value becomes a body and a key, and a job is put.
 */
#include <bide/task.h>

#include "queue/queue.h"
#include "task/type.h"
#include "util/clock.h"

#include <string.h>

/* What a publish makes, to be given back when the job is put. */
struct made {
    bide_buf *body; /* NULL: bytes, which the put itself copies */
    bide_buf *key;
    bide_put_options options;
};

static int check(const bide *queue, const bide_task *task, const void *data)
{
    if (queue == NULL || task == NULL || data == NULL)
        return bi_error_set(BIDE_EINVAL, "publish: queue, task or data is NULL");
    if (task->type == NULL || (task->topic == NULL && task->name == NULL))
        return bi_error_set(BIDE_EINVAL,
                            "publish: the task has no type, or neither topic nor name");
    if (task->key != NULL && task->type()->raw)
        return bi_error_set(BIDE_EINVAL, "publish: bytes have no fields to make a key of");
    if (task->expires_in_ms < 0 || task->expires_in_ms > BIDE_TIME_MAX_MS)
        return bi_error_set(BIDE_EINVAL, "publish: expires_in_ms is %lld; 0 to %lld is allowed",
                            (long long)task->expires_in_ms, (long long)BIDE_TIME_MAX_MS);
    return BIDE_OK;
}

/* Not early: what is left of a millisecond counts as one. */
static int64_t moment_in(int64_t ms)
{
    return (bi_clock_wall() + 999) / 1000 + ms;
}

/* The task has its say where the options have not. */
static int complete_options(struct made *made, const bide_task *task, const void *data)
{
    bide_put_options *options = &made->options;
    if (options->expires_at_ms == 0 && task->expires_in_ms > 0)
        options->expires_at_ms = moment_in(task->expires_in_ms);
    if (task->key == NULL || options->key.data != NULL || options->key.size > 0)
        return BIDE_OK;
    int code = bi_type_key(task->type(), task->key, data, &made->key);
    options->key = (bide_slice){bide_buf_data(made->key), bide_buf_size(made->key)};
    return code;
}

static int put(bide *queue, const bide_task *task, const void *data, struct made *made,
               uint64_t *id)
{
    const char *topic = task->topic != NULL ? task->topic : task->name;
    bide_op op;
    op.kind = BIDE_OP_PUT;
    op.put = (bide_put_item){
        .topic = {topic, strlen(topic)}, .buf = made->body, .options = &made->options};
    if (made->body == NULL)
        memcpy(&op.put.body, data, sizeof(op.put.body));
    int code = bi_call(queue, &op);
    if (id != NULL && (code == BIDE_OK || code == BIDE_EXISTS))
        *id = op.put.id;
    return code;
}

int bide_task_publish(bide *queue, const bide_task *task, const void *data,
                      const bide_put_options *options, uint64_t *id)
{
    struct made made = {.body = NULL};
    bi_error_clear();
    int code = check(queue, task, data);
    if (code != BIDE_OK)
        return code;
    if (options != NULL && options->size != sizeof(*options))
        return bi_error_set(BIDE_EINVAL,
                            "publish: the options were not begun with BIDE_PUT_OPTIONS_INIT");
    made.options = options == NULL ? bide_task_defaults(task) : *options;
    if (!task->type()->raw)
        code = bi_type_write(task->type(), data, &made.body);
    if (code == BIDE_OK)
        code = complete_options(&made, task, data);
    if (code == BIDE_OK)
        code = put(queue, task, data, &made, id);
    bide_buf_unref(made.body);
    bide_buf_unref(made.key);
    return code;
}
