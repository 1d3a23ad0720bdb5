/* SPDX-License-Identifier: MIT */
#include "op/op_payload.h"

#include "op/bulk.h"
#include "op/op_codec_field.h"
#include "util/sized_struct.h"

#include <stdlib.h>

static bool copy_slice(bide_op *op, bide_slice bytes, const bide_buf *given, bide_buf **copied_buf)
{
    *copied_buf = NULL;
    /* Counted in any case: the limit on pending bytes applies to buffers of the caller as
     * well. */
    op->private_.bytes += given != NULL ? bide_buf_size(given) : bytes.size;
    if (given != NULL)
        return true;

    op->private_.flags |= BI_PAYLOAD_COPIED;
    *copied_buf = bide_buf_new(bytes.data, bytes.size);
    return *copied_buf != NULL;
}

static bool copy_body(bide_op *op, bide_put_item *item)
{
    return copy_slice(op, item->body, item->buf, &item->made_);
}

static bool copy_result(bide_op *op, bide_finish_item *item)
{
    if (item->keep && (item->result.data != NULL || item->buf != NULL))
        return copy_slice(op, item->result, item->buf, &item->made_);
    item->made_ = NULL;
    return true;
}

static int set_no_memory(bide_op *op)
{
    bi_text_copy(op->error, bide_code_text(BIDE_ENOMEM));
    return BIDE_ENOMEM;
}

bool bi_op_payload_put(bide_op *op)
{
    return copy_body(op, &op->put);
}

bool bi_op_payload_put_many(bide_op *op)
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
    return true;
}

bool bi_op_payload_done(bide_op *op)
{
    /* A done always retains; only items of a list may say otherwise. */
    op->finish.keep = true;
    return copy_result(op, &op->finish);
}

bool bi_op_payload_finish_and_reserve(bide_op *op)
{
    return copy_result(op, &op->finish_and_reserve.finish);
}

bool bi_op_payload_finish_many(bide_op *op)
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
    return true;
}

bool bi_op_payload_restore(bide_op *op)
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

/* The items of a put or put_many: only these have options. */
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
        bi_sized_struct_copy(&copies[i].options, items[i].options, "", error);
        items[i].options = &copies[i].options;
    }

    op->private_.options = copies;
    op->private_.flags |= BI_COPY_OPTIONS;
    return true;
}

void bi_op_payload_restore_options(bide_op *op)
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
    bool (*copy)(bide_op *) = bi_op_row(op)->copy;
    bool copied = copy == NULL || copy(op);

    if (copied && (op->private_.flags & BI_OTHER_SIZE) != 0)
        copied = copy_options(op);
    return copied ? BIDE_OK : set_no_memory(op);
}

void bi_op_payload_free(bide_op *op)
{
    const struct op_row *row = bi_op_row(op);
    if ((op->private_.flags & BI_PAYLOAD_COPIED) != 0)
        bi_op_codec_nested_release_fields(row->args, (char *)op + row->args_at);
}
