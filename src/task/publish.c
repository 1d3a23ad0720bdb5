/* SPDX-License-Identifier: MIT */
/*
 * publish - encodes a value as the body and the key of a job, and puts the job.
 */
#include <bide/task.h>

#include "queue/queue.h"
#include "task/type.h"
#include "util/clock.h"
#include "util/sized_struct.h"

#include <string.h>

/* The buffers of one publish; released after the put, which takes its own references. */
struct prepared {
    bide_buf *body; /* NULL: bytes, which the put copies */
    bide_buf *key;
    bide_put_options options;
};

static int check(const bide *queue, const bide_task *task, const void *data)
{
    if (queue == NULL || task == NULL || data == NULL)
        return bi_last_error_set(BIDE_EINVAL, "publish: queue, task or data is NULL");

    if (task->type == NULL || (task->topic == NULL && task->name == NULL))
        return bi_last_error_set(BIDE_EINVAL,
                                 "publish: the task has no type, or neither topic nor name");
    if (task->key != NULL && task->type()->raw)
        return bi_last_error_set(BIDE_EINVAL, "publish: bytes have no fields to make a key of");
    if (task->expires_in_ms < 0 || task->expires_in_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(BIDE_EINVAL,
                                 "publish: expires_in_ms is %lld; 0 to %lld is allowed",
                                 (long long)task->expires_in_ms, (long long)BIDE_TIME_MAX_MS);
    return BIDE_OK;
}

/* Sets expiry and key where the options have none. */
static int apply_task_defaults(struct prepared *prepared, const bide_task *task, const void *data)
{
    bide_put_options *options = &prepared->options;

    /* Rounded up to a millisecond: the job must not expire early. */
    if (options->expires_at_ms == 0 && task->expires_in_ms > 0)
        options->expires_at_ms = (bi_clock_wall() + 999) / 1000 + task->expires_in_ms;
    if (task->key == NULL || options->key.data != NULL || options->key.size > 0)
        return BIDE_OK;

    /* On failure the key is NULL, and so is the slice. */
    int code = bi_type_encode_key(task->type(), task->key, data, &prepared->key);
    options->key = (bide_slice){bide_buf_data(prepared->key), bide_buf_size(prepared->key)};
    return code;
}

static int put(bide *queue, const bide_task *task, const void *data, struct prepared *prepared,
               uint64_t *id)
{
    const char *topic = task->topic != NULL ? task->topic : task->name;
    bide_op op;

    op.kind = BIDE_OP_PUT;
    op.put = (bide_put_item){
        .topic = {topic, strlen(topic)}, .buf = prepared->body, .options = &prepared->options};

    /* A task of bytes: the value is the slice itself. memcpy, since data is untyped. */
    if (prepared->body == NULL)
        memcpy(&op.put.body, data, sizeof(op.put.body));
    int code = bi_submit_and_wait(queue, &op);
    if (id != NULL && (code == BIDE_OK || code == BIDE_EXISTS))
        *id = op.put.id;
    return code;
}

int bide_task_publish(bide *queue, const bide_task *task, const void *data,
                      const bide_put_options *options, uint64_t *id)
{
    struct prepared prepared = {.body = NULL};

    bi_last_error_clear();
    int code = check(queue, task, data);
    if (code != BIDE_OK)
        return code;

    /* The caller's options may be of another version of the library, hence of another size. */
    prepared.options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    char error[BIDE_ERROR_SIZE];
    if (options == NULL)
        prepared.options = bide_task_defaults(task);
    else if (bi_sized_struct_copy(&prepared.options, options, "BIDE_PUT_OPTIONS_INIT", error) !=
             BIDE_OK)
        return bi_last_error_set(BIDE_EINVAL, "publish: %s", error);

    if (!task->type()->raw)
        code = bi_type_encode_json(task->type(), data, &prepared.body);
    if (code == BIDE_OK)
        code = apply_task_defaults(&prepared, task, data);
    if (code == BIDE_OK)
        code = put(queue, task, data, &prepared, id);
    bide_buf_unref(prepared.body);
    bide_buf_unref(prepared.key);
    return code;
}
