/* SPDX-License-Identifier: MIT */
/*
 * copy - bodies and results become buffers before the queue is locked.
 *
 * A copy stands in the item's made_ until the op is run, which takes it over.
 */
#include "core/items.h"
#include "queue/queue.h"
#include "util/text.h"

#include <string.h>

static bool copy(bide_op *op, bide_slice bytes, const bide_buf *brought, bide_buf **made)
{
    *made = NULL;
    op->private_.bytes += brought != NULL ? bide_buf_size(brought) : bytes.size;
    if (brought != NULL)
        return true;
    *made = bide_buf_new(bytes.data, bytes.size);
    return *made != NULL;
}

static bool copy_body(bide_op *op, bide_put_item *item)
{
    return copy(op, item->body, item->buf, &item->made_);
}

static bool copy_result(bide_op *op, bide_finish_item *item)
{
    if (item->keep && item->result.data != NULL)
        return copy(op, item->result, item->buf, &item->made_);
    item->made_ = NULL;
    return true;
}

/* The items of lists; one that was refused already, or for which memory lacks, has its status. */

static int no_memory(bide_op *op)
{
    bi_text_copy(op->error, bide_code_text(BIDE_ENOMEM));
    return BIDE_ENOMEM;
}

static void copy_bodies(bide_op *op)
{
    struct items items;
    bi_items_begin(&items, op);
    for (size_t i = 0; i < op->put_many.count; i++) {
        bide_put_item *item = &op->put_many.items[i];
        item->made_ = NULL;
        if (item->status != BIDE_OK || copy_body(op, item))
            continue;
        item->status = no_memory(op);
        bi_items_note(&items, op, i, item->status);
    }
    bi_items_end(&items, op);
}

static void copy_results(bide_op *op)
{
    struct items items;
    bi_items_begin(&items, op);
    for (size_t i = 0; i < op->finish_many.count; i++) {
        bide_finish_item *item = &op->finish_many.items[i];
        item->made_ = NULL;
        if (item->status != BIDE_OK || copy_result(op, item))
            continue;
        item->status = no_memory(op);
        bi_items_note(&items, op, i, item->status);
    }
    bi_items_end(&items, op);
}

static bool copy_restored(bide_op *op)
{
    const bide_job *job = op->restore.job;
    op->restore.made_result_ = NULL;
    if (!copy(op, (bide_slice){job->body, job->body_size}, NULL, &op->restore.made_body_))
        return false;
    return job->result == NULL ||
           copy(op, (bide_slice){job->result, job->result_size}, NULL, &op->restore.made_result_);
}

int bi_args_copy(bide_op *op)
{
    bool copied = true;
    if (op->kind == BIDE_OP_PUT) {
        copied = copy_body(op, &op->put);
    } else if (op->kind == BIDE_OP_PUT_MANY) {
        copy_bodies(op);
    } else if (op->kind == BIDE_OP_DONE) {
        op->finish.keep = true;
        copied = copy_result(op, &op->finish);
    } else if (op->kind == BIDE_OP_FINISH_MANY) {
        copy_results(op);
    } else if (op->kind == BIDE_OP_FINISH_AND_RESERVE) {
        copied = copy_result(op, &op->finish_and_reserve.finish);
    } else if (op->kind == BIDE_OP_RESTORE) {
        copied = copy_restored(op);
    }
    return copied ? BIDE_OK : no_memory(op);
}

void bi_args_fail(bide_op *op)
{
    for (size_t i = 0; op->kind == BIDE_OP_PUT_MANY && i < op->put_many.count; i++)
        if (op->put_many.items[i].status == BIDE_OK)
            op->put_many.items[i].status = op->status;
    for (size_t i = 0; op->kind == BIDE_OP_FINISH_MANY && i < op->finish_many.count; i++)
        if (op->finish_many.items[i].status == BIDE_OK)
            op->finish_many.items[i].status = op->status;
    for (size_t i = 0; op->kind == BIDE_OP_TOUCH_MANY && i < op->touch_many.count; i++)
        if (op->touch_many.items[i].status == BIDE_OK)
            op->touch_many.items[i].status = op->status;
}
