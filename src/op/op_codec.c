/* SPDX-License-Identifier: MIT */
#include "op/op_codec.h"

#include "op/op_codec_field.h"
#include "op/op_result.h"
#include "util/message.h"

#include <assert.h>
#include <stdio.h>

bide_op_kind bi_op_codec_find_kind(const char *name, size_t size)
{
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++)
        if (bi_op_table[kind].name_size == size && memcmp(bi_op_table[kind].name, name, size) == 0)
            return (bide_op_kind)kind;
    return BIDE_OP_NONE;
}

/* Removes what was appended if the writer ran out of memory. */
static int finish_write(const struct op_writer *writer, size_t before)
{
    if (!writer->failed)
        return BIDE_OK;
    writer->out->size = before;
    return BIDE_ENOMEM;
}

static struct op_reader init_reader(const void *data, size_t size)
{
    /* data may be NULL if the size is 0, and arithmetic on NULL is undefined. */
    const unsigned char *bytes = size == 0 ? (const unsigned char *)"" : data;
    return (struct op_reader){.at = bytes, .end = bytes + size};
}

/* ---- arguments ---- */

int bi_op_codec_encode(const bide_op *op, uint64_t feed, struct op_bytes *out)
{
    assert(bi_op_is_kind(op->kind));
    const struct op_row *kind = &bi_op_table[op->kind];
    struct op_writer writer = {.out = out, .feed = feed};
    size_t before = out->size;
    bi_op_codec_nested_write_fields(&writer, kind->args, op);
    return finish_write(&writer, before);
}

int bi_op_codec_decode(struct decoded_op *decoded, bide_op_kind kind, const void *data, size_t size,
                       char *error)
{
    assert(bi_op_is_kind(kind));

    memset(&decoded->op, 0, sizeof(decoded->op));
    decoded->op.kind = kind;
    decoded->op.status = BIDE_CANCELLED; /* so that free_op() frees no result before the submit */
    decoded->topics = NULL;
    decoded->blocks = NULL;
    decoded->bytes = decoded->used = 0;

    struct op_reader reader = init_reader(data, size);
    reader.owner = decoded;

    const struct op_row *row = &bi_op_table[kind];
    if (!bi_op_codec_nested_read_fields(&reader, row->args, &decoded->op)) {
        snprintf(error, BIDE_ERROR_SIZE, "%s: %s", bide_op_name(kind), reader.problem);
        bi_op_codec_wire_free_blocks(decoded);
        return reader.code;
    }

    decoded->feed = reader.feed;
    return BIDE_OK;
}

int bi_op_codec_dup_topics(struct decoded_op *decoded)
{
    assert(decoded->op.kind == BIDE_OP_RESERVE && decoded->topics != NULL);
    bide_slice *topics = decoded->topics; /* op.reserve.topics may point to the queue's copies */
    size_t count = decoded->op.reserve.topic_count;
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += topics[i].size;

    /* One allocation before any pointer changes: on failure the op is unchanged. */
    char *at = bi_op_codec_wire_alloc(decoded, size);
    if (at == NULL)
        return BIDE_ENOMEM;
    for (size_t i = 0; i < count; i++) {
        memcpy(at, topics[i].data, topics[i].size);
        topics[i].data = at;
        at += topics[i].size;
    }
    return BIDE_OK;
}

/* ---- results ---- */

int bi_op_codec_encode_result(const struct decoded_op *decoded, struct op_bytes *out)
{
    const bide_op *op = &decoded->op;
    const struct op_row *kind = &bi_op_table[op->kind];
    assert(bi_op_is_kind(op->kind) && op->status != BIDE_PENDING);
    struct op_writer writer = {.out = out, .feed = decoded->feed};
    size_t before = out->size;

    write_bytes(&writer, op->error, strnlen(op->error, sizeof(op->error) - 1));
    if (kind->results_any != NULL)
        bi_op_codec_nested_write_fields(&writer, kind->results_any, op);
    if (kind->results_ok != NULL && bi_op_succeeded(op, op->status))
        bi_op_codec_nested_write_fields(&writer, kind->results_ok, op);
    return finish_write(&writer, before);
}

int bi_op_codec_encode_error(const char *error, struct op_bytes *out)
{
    struct op_writer writer = {.out = out};
    size_t before = out->size;
    write_bytes(&writer, error, strlen(error));
    return finish_write(&writer, before);
}

/* Reads the results that the code sets. On failure there is nothing to free. */
static bool read_results(struct op_reader *reader, bide_op *op, int code)
{
    const struct op_row *kind = bi_op_row(op);
    if (kind->results_any != NULL && !bi_op_codec_nested_read_fields(reader, kind->results_any, op))
        return false;
    return kind->results_ok == NULL || !bi_op_succeeded(op, code) ||
           bi_op_codec_nested_read_fields(reader, kind->results_ok, op);
}

int bi_op_codec_decode_result(bide_op *op, int code, const void *data, size_t size, uint64_t *feed)
{
    assert(bi_op_is_kind(op->kind));
    struct op_reader reader = init_reader(data, size);
    bide_slice text = {NULL, 0};
    uint32_t local_item = op->error_item;

    /* The code is from the server: an op must not become pending again. */
    if (code == BIDE_PENDING)
        return BIDE_EINVAL;

    /* An empty reply is valid: error text and results are missing. */
    op->error_item = 0;
    if ((size > 0 && !bi_op_codec_wire_read_bytes(&reader, &text)) ||
        !read_results(&reader, op, code)) {
        op->error_item = local_item;
        return reader.code;
    }

    /* An error about an item that the local check has written is retained: the server got that item
     * empty and cannot know the cause. */
    if (code == BIDE_OK && local_item != 0) {
        op->error_item = local_item;
    } else {
        size = text.size < BIDE_ERROR_SIZE ? text.size : BIDE_ERROR_SIZE - 1;
        if (size > 0)
            memcpy(op->error, text.data, size);
        op->error[size] = 0;
    }

    op->private_.status = code;
    if (feed != NULL)
        *feed = reader.feed;
    return BIDE_OK;
}

void bi_op_codec_free_op(struct decoded_op *decoded)
{
    assert(decoded->op.status != BIDE_PENDING);
    bi_op_result_free(&decoded->op);
    bi_op_codec_wire_free_blocks(decoded);
}
