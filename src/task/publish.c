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

int bide_task_publish(bide *queue, const bide_task *task, const void *data,
                      const bide_put_options *options, uint64_t *id)
{
    bi_last_error_clear();
    int code = check(queue, task, data);
    if (code != BIDE_OK)
        return code;

    /* The caller's options may be of another version of the library, hence of another size. */
    bide_put_options own = BIDE_PUT_OPTIONS_INIT;
    char error[BIDE_ERROR_SIZE];
    if (options == NULL)
        own = bide_task_defaults(task);
    else if (bi_sized_struct_copy(&own, options, "BIDE_PUT_OPTIONS_INIT", error) != BIDE_OK)
        return bi_last_error_set(BIDE_EINVAL, "publish: %s", error);

    /* Rounded up to a millisecond: the job must not expire early. */
    if (own.expires_at_ms == 0 && task->expires_in_ms > 0)
        own.expires_at_ms = (bi_clock_wall() + 999) / 1000 + task->expires_in_ms;

    /* Released after the put, which takes its own references. */
    const bide_type *type = task->type();
    bide_buf *body = NULL, *key = NULL;
    if (!type->raw)
        code = bi_type_encode_json(type, data, &body);
    if (code == BIDE_OK && task->key != NULL && own.key.data == NULL && own.key.size == 0) {
        code = bi_type_encode_key(type, task->key, data, &key);
        own.key = (bide_slice){bide_buf_data(key), bide_buf_size(key)};
    }
    if (code == BIDE_OK) {
        const char *topic = task->topic != NULL ? task->topic : task->name;
        bide_op op;
        op.kind = BIDE_OP_PUT;
        op.put = (bide_put_item){.topic = {topic, strlen(topic)}, .buf = body, .options = &own};
        /* A task of bytes: the value is the slice itself. memcpy, since data is untyped. */
        if (type->raw)
            memcpy(&op.put.body, data, sizeof(op.put.body));
        code = bi_blocking_call_run(queue, &op);
        if (id != NULL && (code == BIDE_OK || code == BIDE_EXISTS))
            *id = op.put.id;
    }
    bide_buf_unref(body);
    bide_buf_unref(key);
    return code;
}
