/* SPDX-License-Identifier: MIT */
#include "op/op_result.h"
#include "core/core.h"
#include "util/text.h"

static void clear_put(bide_op *op)
{
    op->put.id = 0;
}

static void clear_put_many(bide_op *op)
{
    for (size_t i = 0; i < op->put_many.count; i++) {
        bide_put_item *item = &op->put_many.items[i];
        /* An item that was rejected retains its own reason. */
        if (item->status != BIDE_OK)
            continue;

        item->status = op->private_.status;
        item->id = 0;
    }
    op->put_many.accepted = 0;
}

static void clear_jobs(bide_reserve_args *args)
{
    for (size_t i = 0; i < args->count; i++)
        bide_job_clear(&args->jobs[i]);
    args->count = 0;
}

static void clear_reserve(bide_op *op)
{
    clear_jobs(&op->reserve);
}

static void clear_reserve_job(bide_op *op)
{
    bide_job_clear(op->reserve_job.job);
}

static void clear_finish_many(bide_op *op)
{
    for (size_t i = 0; i < op->finish_many.count; i++)
        if (op->finish_many.items[i].status == BIDE_OK)
            op->finish_many.items[i].status = op->private_.status;
}

static void clear_touch_many(bide_op *op)
{
    for (size_t i = 0; i < op->touch_many.count; i++) {
        int *status = &op->touch_many.items[i].status;
        if (*status == BIDE_OK || *status == BIDE_CANCEL_WANTED)
            *status = op->private_.status;
    }
}

static void clear_finish_and_reserve(bide_op *op)
{
    if (op->finish_and_reserve.finish.status == BIDE_OK)
        op->finish_and_reserve.finish.status = op->private_.status;
    clear_jobs(&op->finish_and_reserve.reserve);
}

static void clear_look(bide_op *op)
{
    bide_job_clear(op->query.job);
}

static void clear_fetch(bide_op *op)
{
    bide_buf_unref(op->fetch.buf);
    op->fetch.buf = NULL;
}

static void clear_wait(bide_op *op)
{
    bide_buf_unref(op->wait.result);
    op->wait.result = NULL;
}

static void clear_restore(bide_op *op)
{
    op->restore.id = 0;
}

/* How to discard the results of each kind. Other kinds have none, except the count of kick and
 * purge, which bi_slice_roll_back_count() corrects to what is durable. */
static void (*const clear_result[BIDE_OP_COUNT])(bide_op *) = {
    [BIDE_OP_PUT] = clear_put,
    [BIDE_OP_PUT_MANY] = clear_put_many,
    [BIDE_OP_RESERVE] = clear_reserve,
    [BIDE_OP_RESERVE_JOB] = clear_reserve_job,
    [BIDE_OP_FINISH_MANY] = clear_finish_many,
    [BIDE_OP_TOUCH_MANY] = clear_touch_many,
    [BIDE_OP_FINISH_AND_RESERVE] = clear_finish_and_reserve,
    [BIDE_OP_PEEK] = clear_look,
    [BIDE_OP_PEEK_FIRST] = clear_look,
    [BIDE_OP_FIND] = clear_look,
    [BIDE_OP_JOB_STATS] = clear_look,
    [BIDE_OP_BODY] = clear_fetch,
    [BIDE_OP_RESULT] = clear_fetch,
    [BIDE_OP_WAIT] = clear_wait,
    [BIDE_OP_RESTORE] = clear_restore,
    [BIDE_OP_LIST] = bi_op_list_undo,
};

void bi_op_result_discard(bide_op *op, int code, const char *error)
{
    /* A finish_and_reserve may have finished although its reserve has failed, so it is always
     * cleared. */
    bool succeeded = op->private_.status == BIDE_OK || op->private_.status == BIDE_CANCEL_WANTED ||
                     op->kind == BIDE_OP_FINISH_AND_RESERVE;
    op->private_.status = code;
    if (succeeded && clear_result[op->kind] != NULL)
        clear_result[op->kind](op);
    bi_text_copy(op->error, error);
}

static void unref_copy(bide_buf **buf)
{
    bide_buf_unref(*buf);
    *buf = NULL;
}

void bi_op_result_free_copies(bide_op *op)
{
    if (op->kind == BIDE_OP_PUT)
        unref_copy(&op->put.made_);
    else if (op->kind == BIDE_OP_DONE)
        unref_copy(&op->finish.made_);
    else if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        unref_copy(&op->finish_and_reserve.finish.made_);

    if (op->kind == BIDE_OP_RESTORE) {
        unref_copy(&op->restore.made_body_);
        unref_copy(&op->restore.made_result_);
    }

    for (size_t i = 0; op->kind == BIDE_OP_PUT_MANY && i < op->put_many.count; i++)
        unref_copy(&op->put_many.items[i].made_);
    for (size_t i = 0; op->kind == BIDE_OP_FINISH_MANY && i < op->finish_many.count; i++)
        unref_copy(&op->finish_many.items[i].made_);
}
