/* SPDX-License-Identifier: MIT */
#include "op/op_result.h"

#include "op/op_codec_field.h"
#include "util/message.h"

#include <assert.h>

/* The first field of this type among the results on success; NULL if there is none. */
static const struct field *find_field(const bide_op *op, const struct field_codec *codec)
{
    const struct layout *layout = bi_op_row(op)->results_ok;
    for (size_t i = 0; layout != NULL && i < layout->count; i++)
        if (layout->fields[i].codec == codec)
            return &layout->fields[i];
    return NULL;
}

static bool is_snapshot(const struct field *field)
{
    return field != NULL && field->layout->is_job;
}

size_t bi_op_result_snapshots(const bide_op *op, bide_job **jobs)
{
    const struct field *list = find_field(op, &bi_op_codec_field_list);
    const struct field *one = find_field(op, &bi_op_codec_field_one);

    if (is_snapshot(list)) {
        *jobs = pointer_at(op, list->at);
        return size_at(op, list->aux[0]);
    }
    *jobs = is_snapshot(one) ? pointer_at(op, one->at) : NULL;
    return *jobs != NULL;
}

size_t bi_op_result_bytes(const bide_op *op)
{
    const struct field *list = find_field(op, &bi_op_codec_field_list);
    const struct field *one = find_field(op, &bi_op_codec_field_one);
    const struct field *field = list != NULL ? list : one;
    size_t bytes = bide_buf_size(bi_op_result_buf(op));
    if (field == NULL || field->layout->held == NULL)
        return bytes;

    const char *item = pointer_at(op, field->at);
    size_t count = list != NULL ? size_at(op, list->aux[0]) : 1;
    for (; count > 0; count--, item += field->layout->size)
        bytes += field->layout->held(item);
    return bytes;
}

size_t bi_op_result_reserved(const bide_op *op, bide_job **jobs)
{
    *jobs = NULL;
    return bi_op_is(op, OP_RESERVES) ? bi_op_result_snapshots(op, jobs) : 0;
}

const bide_buf *bi_op_result_buf(const bide_op *op)
{
    const struct field *buf = find_field(op, &bi_op_codec_field_buf);
    return buf == NULL ? NULL : pointer_at(op, buf->at);
}

size_t bi_op_result_room(const bide_op *op, size_t *size)
{
    const struct field *list = find_field(op, &bi_op_codec_field_list);
    *size = list == NULL ? 0 : list->layout->size;
    return list == NULL ? 0 : size_at(op, list->aux[1]);
}

uint64_t *bi_op_result_count(bide_op *op)
{
    assert(bi_op_is(op, OP_COUNTS));
    return member_at(op, bi_op_row(op)->results_any->fields[0].at);
}

/* ---- discarding ---- */

void bi_op_result_undo(bide_op *op)
{
    const struct op_row *row = bi_op_row(op);
    if (row->results_ok != NULL)
        bi_op_codec_nested_discard_fields(row->results_ok, op, BIDE_OK);
    if (row->undo != NULL)
        row->undo(op);
}

void bi_op_result_discard(bide_op *op, int code, const char *error)
{
    const struct op_row *row = bi_op_row(op);
    bool succeeded = op->private_.status == BIDE_OK || op->private_.status == BIDE_CANCEL_WANTED;
    assert(code != BIDE_OK && code != BIDE_PENDING);

    /* A finish may have succeeded although its reserve has failed. */
    bool finished = succeeded || (row->flags & OP_TWO_PARTS) != 0;
    if (finished && row->results_any != NULL)
        bi_op_codec_nested_discard_fields(row->results_any, op, code);

    /* A reserve that has failed has written neither jobs nor their count: they are the caller's. */
    if (succeeded)
        bi_op_result_undo(op);

    op->private_.status = code;
    bi_text_copy(op->error, error);
}

void bi_op_result_free(bide_op *op)
{
    assert(op->status != BIDE_PENDING);
    const struct op_row *row = bi_op_row(op);
    if (row->results_ok != NULL && bi_op_succeeded(op, op->status))
        bi_op_codec_nested_discard_fields(row->results_ok, op, BIDE_OK);
}

void bi_op_result_fail_items(bide_op *op, int code)
{
    assert(code != BIDE_OK && code != BIDE_PENDING);
    const struct op_row *row = bi_op_row(op);
    const struct field *first = row->results_any == NULL ? NULL : row->results_any->fields;

    if (first == NULL || first->codec != &bi_op_codec_field_outcomes)
        return;

    char *item = pointer_at(op, first->at);
    size_t count = size_at(op, first->aux[0]);
    for (size_t i = 0; i < count; i++, item += first->layout->size) {
        int *status = member_at(item, first->layout->status);
        if (*status == BIDE_OK || (row->flags & OP_ATOMIC) != 0)
            *status = code;
    }
}
