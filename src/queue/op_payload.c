/* SPDX-License-Identifier: MIT */
/*
 * op_payload - copies bodies and results into buffers before the queue is locked.
 *
 * Ownership  A copy is in made_ of its item until the backend runs the op and takes it over.
 * Failure    An item of a list that cannot be copied fails alone, with BIDE_ENOMEM. An item that
 *            was rejected before is skipped.
 */
#include "core/bulk.h"
#include "queue/queue.h"
#include "util/text.h"

#include <stdlib.h>
#include <string.h>

static bool copy_slice(bide_op *op, bide_slice bytes, const bide_buf *given, bide_buf **copied_buf)
{
    *copied_buf = NULL;
    /* Counted in any case: the limit on pending bytes applies to buffers of the caller as
     * well. */
    op->private_.bytes += given != NULL ? bide_buf_size(given) : bytes.size;
    if (given != NULL)
        return true;

    *copied_buf = bide_buf_new(bytes.data, bytes.size);
    return *copied_buf != NULL;
}

static bool copy_body(bide_op *op, bide_put_item *item)
{
    return copy_slice(op, item->body, item->buf, &item->made_);
}

static bool copy_result(bide_op *op, bide_finish_item *item)
{
    if (item->keep && item->result.data != NULL)
        return copy_slice(op, item->result, item->buf, &item->made_);
    item->made_ = NULL;
    return true;
}

static int set_no_memory(bide_op *op)
{
    bi_text_copy(op->error, bide_code_text(BIDE_ENOMEM));
    return BIDE_ENOMEM;
}

static void copy_bodies(bide_op *op)
{
    struct bulk_errors items;
    bi_bulk_begin(&items, op);

    for (size_t i = 0; i < op->put_many.count; i++) {
        bide_put_item *item = &op->put_many.items[i];
        item->made_ = NULL;
        if (item->status != BIDE_OK || copy_body(op, item))
            continue;

        item->status = set_no_memory(op);
        bi_bulk_record(&items, op, i, item->status);
    }
    bi_bulk_end(&items, op);
}

static void copy_results(bide_op *op)
{
    struct bulk_errors items;
    bi_bulk_begin(&items, op);

    for (size_t i = 0; i < op->finish_many.count; i++) {
        bide_finish_item *item = &op->finish_many.items[i];
        item->made_ = NULL;
        if (item->status != BIDE_OK || copy_result(op, item))
            continue;

        item->status = set_no_memory(op);
        bi_bulk_record(&items, op, i, item->status);
    }
    bi_bulk_end(&items, op);
}

static bool copy_restore(bide_op *op)
{
    const bide_job *job = op->restore.job;

    /* Cleared first: if the body cannot be copied, the cleanup frees both members. */
    op->restore.made_result_ = NULL;
    if (!copy_slice(op, (bide_slice){job->body, job->body_size}, NULL, &op->restore.made_body_))
        return false;
    return job->result == NULL || copy_slice(op, (bide_slice){job->result, job->result_size}, NULL,
                                             &op->restore.made_result_);
}

/* Put options of another size, and their copy in our size. */
struct options_copy {
    const bide_put_options *given; /* NULL: no copy was necessary */
    bide_put_options options;
};

static bide_put_item *put_items(bide_op *op, size_t *count)
{
    bool many = op->kind == BIDE_OP_PUT_MANY;
    *count = many ? op->put_many.count : 1;
    return many ? op->put_many.items : &op->put;
}

static bool copy_options(bide_op *op)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    char error[BIDE_ERROR_SIZE];
    size_t count;
    bide_put_item *items = put_items(op, &count);
    struct options_copy *copies = calloc(count, sizeof(*copies));
    if (copies == NULL)
        return false;

    for (size_t i = 0; i < count; i++) {
        bool refused = op->kind == BIDE_OP_PUT_MANY && items[i].status != BIDE_OK;
        if (refused || items[i].options == NULL || items[i].options->size == sizeof(init))
            continue;

        copies[i] = (struct options_copy){items[i].options, init};
        /* Cannot fail: the argument check has copied the same options before. */
        bi_options_copy(&copies[i].options, items[i].options, "", error);
        items[i].options = &copies[i].options;
    }

    op->private_.options = copies;
    op->private_.flags |= BI_COPY_OPTIONS;
    return true;
}

void bi_args_restore(bide_op *op)
{
    if ((op->private_.flags & BI_COPY_OPTIONS) == 0)
        return;

    size_t count;
    bide_put_item *items = put_items(op, &count);
    struct options_copy *copies = op->private_.options;
    for (size_t i = 0; i < count; i++)
        if (copies[i].given != NULL)
            items[i].options = copies[i].given;

    free(copies);
    op->private_.options = NULL;
    op->private_.flags &= ~BI_COPY_OPTIONS;
}

int bi_op_payload_copy(bide_op *op)
{
    bool copied = true;

    if (op->kind == BIDE_OP_PUT) {
        copied = copy_body(op, &op->put);
    } else if (op->kind == BIDE_OP_PUT_MANY) {
        copy_bodies(op);
    } else if (op->kind == BIDE_OP_DONE) {
        /* A done always retains; only items of a list may say otherwise. */
        op->finish.keep = true;
        copied = copy_result(op, &op->finish);
    } else if (op->kind == BIDE_OP_FINISH_MANY) {
        copy_results(op);
    } else if (op->kind == BIDE_OP_FINISH_AND_RESERVE) {
        copied = copy_result(op, &op->finish_and_reserve.finish);
    } else if (op->kind == BIDE_OP_RESTORE) {
        copied = copy_restore(op);
    }

    if (copied && (op->private_.flags & BI_OTHER_SIZE) != 0)
        copied = copy_options(op);
    return copied ? BIDE_OK : set_no_memory(op);
}

void bi_submit_fail_items(bide_op *op)
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
