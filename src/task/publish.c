/* SPDX-License-Identifier: MIT */
/*
 * publish - encodes a value as the body and the key of a job, and puts the job, now or with the end
 * of the job whose handler publishes it.
 */
#include "task/type.h"
#include "task/worker_internal.h"
#include "util/sized_struct.h"

#include <string.h>

static int check(const char *call, const bide_task *task, const void *data)
{
    if (task == NULL || data == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: task or data is NULL", call);

    if (task->type == NULL || (task->topic == NULL && task->name == NULL))
        return bi_last_error_set(BIDE_EINVAL, "%s: the task has no type, or neither topic nor name",
                                 call);
    if (task->key != NULL && task->type()->raw)
        return bi_last_error_set(BIDE_EINVAL, "%s: bytes have no fields to make a key of", call);
    if (task->expires_in_ms < 0 || task->expires_in_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(BIDE_EINVAL, "%s: expires_in_ms is %lld; 0 to %lld is allowed",
                                 call, (long long)task->expires_in_ms, (long long)BIDE_TIME_MAX_MS);
    return BIDE_OK;
}

/* The put of a value. The item points to the rest. */
struct encoded {
    bide_put_item item;
    bide_put_options options;
    bide_buf *body, *key;
};

static void encoded_done(struct encoded *encoded)
{
    bide_buf_unref(encoded->body);
    bide_buf_unref(encoded->key);
}

static int make_options(struct encoded *encoded, const char *call, const bide_task *task,
                        const bide_put_options *options)
{
    /* The caller's options may be of another version of the library, hence of another size. */
    bide_put_options *own = &encoded->options;
    char error[BIDE_ERROR_SIZE];
    *own = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    if (options == NULL)
        *own = bide_task_defaults(task);
    else if (bi_sized_struct_copy(own, options, "BIDE_PUT_OPTIONS_INIT", error) != BIDE_OK)
        return bi_last_error_set(BIDE_EINVAL, "%s: %s", call, error);

    /* Rounded up to a millisecond: the job must not expire early. */
    if (own->expires_at_ms == 0 && task->expires_in_ms > 0)
        own->expires_at_ms = (bi_clock_wall() + 999) / 1000 + task->expires_in_ms;
    return BIDE_OK;
}

/* Encodes a value as a put. The caller calls encoded_done(), also after a failure. */
static int encode(struct encoded *encoded, const char *call, const bide_task *task,
                  const void *data, const bide_put_options *options)
{
    encoded->body = encoded->key = NULL;
    int code = check(call, task, data);
    if (code == BIDE_OK)
        code = make_options(encoded, call, task, options);
    if (code != BIDE_OK)
        return code;

    const bide_type *type = task->type();
    bide_put_options *own = &encoded->options;
    if (!type->raw)
        code = bi_type_encode_json(type, data, &encoded->body);
    if (code == BIDE_OK && task->key != NULL && own->key.data == NULL && own->key.size == 0) {
        code = bi_type_encode_key(type, task->key, data, &encoded->key);
        own->key = (bide_slice){bide_buf_data(encoded->key), bide_buf_size(encoded->key)};
    }
    if (code != BIDE_OK)
        return code;

    const char *topic = task->topic != NULL ? task->topic : task->name;
    encoded->item =
        (bide_put_item){.topic = {topic, strlen(topic)}, .buf = encoded->body, .options = own};
    /* A task of bytes: the value is the slice itself. memcpy, since data is untyped. */
    if (type->raw)
        memcpy(&encoded->item.body, data, sizeof(encoded->item.body));
    return BIDE_OK;
}

int bide_task_publish(bide *queue, const bide_task *task, const void *data,
                      const bide_put_options *options, uint64_t *id)
{
    bi_last_error_clear();
    if (queue == NULL)
        return bi_last_error_set(BIDE_EINVAL, "publish: queue is NULL");

    struct encoded encoded;
    int code = encode(&encoded, "publish", task, data, options);
    if (code == BIDE_OK) {
        bide_op op;
        op.kind = BIDE_OP_PUT;
        op.put = encoded.item;
        code = bi_blocking_call_run(queue, &op);
        if (id != NULL && (code == BIDE_OK || code == BIDE_EXISTS))
            *id = op.put.id;
    }
    encoded_done(&encoded);
    return code;
}

/* ---- jobs that are put with the end of the handler's job ---- */

/* A retry puts nothing, so a fallback can only add to a burial. */
static int check_context(const char *call, const bide_context *context)
{
    if (context == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: context is NULL", call);
    if ((bide_capabilities(context->worker->queue) & BIDE_CAN_ALL_OPS) == 0)
        return bi_last_error_set(BIDE_ENOTSUP,
                                 "%s: a plain beanstalkd cannot finish a job and put others in one "
                                 "step; use bide_put()",
                                 call);
    if (context->in_fallback && !context->will_bury)
        return bi_last_error_set(BIDE_EINVAL,
                                 "%s: the handler has not buried the job, and a retry puts "
                                 "nothing; use bide_put()",
                                 call);
    return BIDE_OK;
}

static int collect(const char *call, bide_context *context, const bide_put_item *item)
{
    char error[BIDE_ERROR_SIZE];
    int code = bi_put_list_add(&context->puts, &context->worker->queue->options, item, error);
    return code == BIDE_OK ? BIDE_OK : bi_last_error_set(code, "%s: %s", call, error);
}

int bide_context_publish_task(bide_context *context, const bide_task *task, const void *data,
                              const bide_put_options *options)
{
    bi_last_error_clear();
    int code = check_context("context_publish", context);
    if (code != BIDE_OK)
        return code;

    struct encoded encoded;
    code = encode(&encoded, "context_publish", task, data, options);
    if (code == BIDE_OK)
        code = collect("context_publish", context, &encoded.item);
    encoded_done(&encoded);
    return code;
}

void bide_context_discard_puts(bide_context *context)
{
    if (context != NULL)
        bi_put_list_truncate(context->puts, 0);
}

int bide_context_put(bide_context *context, const char *topic, const void *body, size_t size,
                     const bide_put_options *options)
{
    bi_last_error_clear();
    int code = check_context("context_put", context);
    if (code != BIDE_OK)
        return code;
    if (topic == NULL)
        return bi_last_error_set(BIDE_EINVAL, "context_put: topic is NULL");

    const bide_put_item item = {
        .topic = {topic, strlen(topic)}, .body = {body, size}, .options = options};
    return collect("context_put", context, &item);
}
