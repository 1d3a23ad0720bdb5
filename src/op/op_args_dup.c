/* SPDX-License-Identifier: MIT */
#include "op/op_args_dup.h"

#include <stdlib.h>
#include <string.h>

/* The address of a pointer in the op, its items or a copy, and its original value. */
struct saved_pointer {
    const void **pointer;
    const void *original;
};

struct args_copy {
    size_t count, room;
    struct saved_pointer *saved;
    char *bytes; /* the copies; NULL in the counting pass */
    size_t size;
};

/* Visits one block of memory that an argument points to. All arguments are visited twice: the first
 * pass counts, the second copies and redirects the pointer. Returns the copy; NULL in the first. */
static void *visit(struct args_copy *copies, const void **pointer, size_t size)
{
    if (*pointer == NULL || size == 0)
        return NULL;

    size_t at = copies->size;
    /* Copies contain structs, so each is aligned for any type. */
    copies->size += (size + 15) & ~(size_t)15;

    if (copies->bytes == NULL) {
        copies->count++;
        return NULL;
    }

    memcpy(copies->bytes + at, *pointer, size);
    copies->saved[copies->count++] = (struct saved_pointer){pointer, *pointer};
    *pointer = copies->bytes + at;
    return copies->bytes + at;
}

static void visit_slice(struct args_copy *copies, bide_slice *slice)
{
    visit(copies, &slice->data, slice->size);
}

/* Visits the options, then the key. In the copying pass the pointer to the key that must be
 * redirected is the one in the copy: the caller's struct is never written. */
static void visit_options(struct args_copy *copies, const bide_put_options **options)
{
    bide_put_options read;
    if (*options == NULL)
        return;
    read = **options;
    bide_put_options *copy = visit(copies, (const void **)options, sizeof(**options));
    visit_slice(copies, copy != NULL ? &copy->key : &read.key);
}

static void visit_put(struct args_copy *copies, bide_put_item *item)
{
    visit_slice(copies, &item->topic);
    visit_options(copies, &item->options);
}

static void visit_restore(struct args_copy *copies, bide_restore_args *args)
{
    bide_job read = *args->job;
    bide_job *copy = visit(copies, (const void **)&args->job, sizeof(*args->job));
    bide_job *job = copy != NULL ? copy : &read;
    visit(copies, &job->key, job->key_size);
    visit(copies, (const void **)&job->last_error, job->last_error_size);
    /* Body and result are in buffers (made_body_, made_result_) that the op holds already. */
}

static void visit_reserve(struct args_copy *copies, bide_reserve_args *args)
{
    const bide_slice *topics = args->topics;
    bide_slice *copy =
        visit(copies, (const void **)&args->topics, args->topic_count * sizeof(*topics));

    /* The array is copied first; then the names, whose pointers are redirected in the copy. */
    for (size_t i = 0; i < args->topic_count; i++) {
        bide_slice read = topics[i];
        visit_slice(copies, copy != NULL ? &copy[i] : &read);
    }

    visit(copies, (const void **)&args->weights, args->topic_count * sizeof(*args->weights));
}

static void visit_args(struct args_copy *copies, bide_op *op)
{
    switch (op->kind) {
    case BIDE_OP_PUT:
        visit_put(copies, &op->put);
        break;
    case BIDE_OP_PUT_MANY:
        for (size_t i = 0; i < op->put_many.count; i++)
            visit_put(copies, &op->put_many.items[i]);
        break;
    case BIDE_OP_RESTORE:
        visit_restore(copies, &op->restore);
        break;
    case BIDE_OP_TOUCH_MANY:
        for (size_t i = 0; i < op->touch_many.count; i++)
            visit_slice(copies, &op->touch_many.items[i].progress);
        break;
    case BIDE_OP_TOUCH:
        visit_slice(copies, &op->touch.progress);
        break;
    case BIDE_OP_FAIL:
        visit_slice(copies, &op->fail.error);
        break;
    case BIDE_OP_BURY:
        visit_slice(copies, &op->bury.reason);
        break;
    case BIDE_OP_UPDATE:
        visit_slice(copies, &op->update.topic);
        break;
    case BIDE_OP_KICK:
        visit_slice(copies, &op->kick.topic);
        break;
    case BIDE_OP_PURGE:
        visit_slice(copies, &op->purge.topic);
        break;
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
        visit_slice(copies, &op->query.topic);
        visit_slice(copies, &op->query.key);
        break;
    case BIDE_OP_LIST:
        visit_slice(copies, &op->list.topic);
        visit_slice(copies, &op->list.filter.key);
        visit_slice(copies, &op->list.filter.text);
        break;
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
    case BIDE_OP_TOPIC_REF:
        visit_slice(copies, &op->topic.topic);
        break;
    case BIDE_OP_TOPIC_STATS:
        visit_slice(copies, &op->topic_stats.topic);
        break;
    case BIDE_OP_SUBSCRIBE:
        visit_slice(copies, &op->subscription.topic);
        break;
    case BIDE_OP_RESERVE:
        visit_reserve(copies, &op->reserve);
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        visit_reserve(copies, &op->finish_and_reserve.reserve);
        break;
    case BIDE_OP_BACKUP:
        visit(copies, (const void **)&op->backup.path, strlen(op->backup.path) + 1);
        break;
    default:
        break;
    }
}

/* ---- bodies and results in buffers of the caller ---- */

/* Calls a function for each buffer, also for NULL. Returns the number of buffers. */
static size_t for_each_buf(bide_op *op, void (*visit_buf)(bide_buf *))
{
    size_t count = 0;

    if (op->kind == BIDE_OP_PUT_MANY || op->kind == BIDE_OP_FINISH_MANY) {
        bool is_put = op->kind == BIDE_OP_PUT_MANY;
        size_t items = is_put ? op->put_many.count : op->finish_many.count;
        for (size_t i = 0; i < items; i++) {
            bide_buf *buf = is_put ? op->put_many.items[i].buf : op->finish_many.items[i].buf;
            count += buf != NULL;
            visit_buf(buf);
        }
        return count;
    }

    bide_buf *buf = op->kind == BIDE_OP_PUT                  ? op->put.buf
                    : op->kind == BIDE_OP_DONE               ? op->finish.buf
                    : op->kind == BIDE_OP_FINISH_AND_RESERVE ? op->finish_and_reserve.finish.buf
                                                             : NULL;

    visit_buf(buf);
    return buf != NULL;
}

static void skip_buf(bide_buf *buf)
{
    (void)buf;
}

static void ref_buf(bide_buf *buf)
{
    bide_buf_ref(buf);
}

int bi_op_args_dup(bide_op *op)
{
    /* A blocking caller keeps its arguments valid, and an op that waits twice is copied once. */
    if (op->private_.wake != NULL || op->private_.args_dup != NULL)
        return BIDE_OK;

    struct args_copy counted = {.count = 0};
    visit_args(&counted, op);
    if (counted.count == 0 && for_each_buf(op, skip_buf) == 0)
        return BIDE_OK;

    /* One block: the header, the saved pointers, then the copies, each aligned to 16 bytes. */
    size_t saved = counted.count * sizeof(struct saved_pointer);
    struct args_copy *copies = malloc(sizeof(*copies) + saved + counted.size);
    if (copies == NULL)
        return BIDE_ENOMEM;

    copies->count = 0;
    copies->room = counted.count;
    copies->size = 0;
    copies->saved = (struct saved_pointer *)(void *)(copies + 1);
    copies->bytes = (char *)copies->saved + saved;

    visit_args(copies, op);
    for_each_buf(op, ref_buf);

    op->private_.args_dup = copies;
    return BIDE_OK;
}

bool bi_op_args_dup_restore(bide_op *op)
{
    struct args_copy *copies = op->private_.args_dup;
    if (copies == NULL)
        return false;

    for_each_buf(op, bide_buf_unref);
    /* Pointers within copies are restored, too. That is harmless: the copies are freed below. */
    while (copies->count > 0) {
        const struct saved_pointer *saved_pointer = &copies->saved[--copies->count];
        *saved_pointer->pointer = saved_pointer->original;
    }

    op->private_.args_dup = NULL;
    free(copies);
    return true;
}
