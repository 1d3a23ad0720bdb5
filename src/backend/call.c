/* SPDX-License-Identifier: MIT */
#include "backend/call.h"

#include "backend/call_table.h"
#include "core/items.h"
#include "util/text.h"

#include <assert.h>
#include <stdio.h>

/* Topics of a reserve that are not many. */
#define FEW_TOPICS 256

size_t bi_call_topics(const bide_op *op)
{
    if (op->kind == BIDE_OP_RESERVE)
        return op->reserve.topic_count;
    return op->kind == BIDE_OP_FINISH_AND_RESERVE ? op->finish_and_reserve.reserve.topic_count : 0;
}

bool bi_call_is_slow(const bide_op *op)
{
    return bi_call_kinds[op->kind].slow || bi_call_topics(op) > FEW_TOPICS;
}

bool bi_call_travels(bide_op_kind kind)
{
    return kind > BIDE_OP_NONE && kind < BIDE_OP_COUNT && bi_call_kinds[kind].travels;
}

bide_op_kind bi_call_kind(const char *name, size_t size)
{
    static const struct {
        const char *text;
        size_t size;
    } names[BIDE_OP_COUNT] = {
#define NAME(NAME, name, member) [BIDE_OP_##NAME] = {#name, sizeof(#name) - 1},
        BIDE_OPS(NAME)
#undef NAME
    };
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++)
        if (names[kind].size == size && memcmp(names[kind].text, name, size) == 0)
            return bi_call_travels((bide_op_kind)kind) ? (bide_op_kind)kind : BIDE_OP_NONE;
    return BIDE_OP_NONE;
}

static void *arguments(const struct call_kind *kind, bide_op *op)
{
    return (char *)op + kind->at;
}

static const void *arguments_of(const struct call_kind *kind, const bide_op *op)
{
    return (const char *)op + kind->at;
}

static bool is_good(const struct call_kind *kind, int code)
{
    return code == BIDE_OK || code == kind->also;
}

/* What was appended stays, or there was no memory and nothing is. */
static int end_writing(const struct call_writer *writer, size_t before)
{
    if (!writer->failed)
        return BIDE_OK;
    writer->out->size = before;
    return BIDE_ENOMEM;
}

static struct call_reader begin_reading(const void *data, size_t size)
{
    const unsigned char *bytes = size == 0 ? (const unsigned char *)"" : data;
    return (struct call_reader){.at = bytes, .end = bytes + size};
}

/* ---- arguments ---- */

int bi_call_encode(const bide_op *op, uint64_t feed, struct call_bytes *out)
{
    assert(bi_call_travels(op->kind));
    const struct call_kind *kind = &bi_call_kinds[op->kind];
    struct call_writer writer = {.out = out, .feed = feed};
    size_t before = out->size;
    bi_fields_write(&writer, kind->in, arguments_of(kind, op));
    return end_writing(&writer, before);
}

int bi_call_decode(struct call_op *call, bide_op_kind kind, const void *data, size_t size,
                   char *error)
{
    assert(bi_call_travels(kind));
    memset(&call->op, 0, sizeof(call->op));
    call->op.kind = kind;
    call->op.status = BIDE_CANCELLED; /* until it is submitted there is no result to give back */
    call->topics = NULL;
    call->blocks = NULL;
    call->bytes = call->used = 0;
    struct call_reader reader = begin_reading(data, size);
    reader.owner = call;
    const struct call_kind *row = &bi_call_kinds[kind];
    if (!bi_fields_read(&reader, row->in, arguments(row, &call->op))) {
        snprintf(error, BIDE_ERROR_SIZE, "%s: %s", bide_op_name(kind), reader.problem);
        bi_call_give(call);
        return reader.code;
    }
    call->feed = reader.feed;
    return BIDE_OK;
}

int bi_call_keep_topics(struct call_op *call)
{
    assert(call->op.kind == BIDE_OP_RESERVE && call->topics != NULL);
    bide_slice *topics = call->topics; /* op.reserve.topics may point to copies of the queue */
    size_t count = call->op.reserve.topic_count;
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += topics[i].size;

    char *at = bi_call_take(call, size);
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

int bi_call_encode_result(const struct call_op *call, struct call_bytes *out)
{
    const bide_op *op = &call->op;
    const struct call_kind *kind = &bi_call_kinds[op->kind];
    struct call_writer writer = {.out = out, .feed = call->feed};
    size_t before = out->size;
    write_bytes(&writer, op->error, strnlen(op->error, sizeof(op->error) - 1));
    if (kind->always != NULL)
        bi_fields_write(&writer, kind->always, arguments_of(kind, op));
    if (kind->good != NULL && is_good(kind, op->status))
        bi_fields_write(&writer, kind->good, arguments_of(kind, op));
    return end_writing(&writer, before);
}

int bi_call_encode_refusal(const char *error, struct call_bytes *out)
{
    struct call_writer writer = {.out = out};
    size_t before = out->size;
    write_bytes(&writer, error, strlen(error));
    return end_writing(&writer, before);
}

/* One that speaks of an item of the list stays, if the caller's own check has written it. */
static void say(bide_op *op, int code, bide_slice sentence)
{
    if (code == BIDE_OK && (op->private_.flags & BI_ITEM_SAID) != 0)
        return;
    size_t size = sentence.size < BIDE_ERROR_SIZE ? sentence.size : BIDE_ERROR_SIZE - 1;
    if (size > 0)
        memcpy(op->error, sentence.data, size);
    op->error[size] = 0;
    if (code == BIDE_OK && size > 0)
        op->private_.flags |= BI_ITEM_SAID;
}

static bool read_results(struct call_reader *reader, bide_op *op, int code)
{
    const struct call_kind *kind = &bi_call_kinds[op->kind];
    if (kind->always != NULL && !bi_fields_read(reader, kind->always, arguments(kind, op)))
        return false;
    return kind->good == NULL || !is_good(kind, code) ||
           bi_fields_read(reader, kind->good, arguments(kind, op));
}

int bi_call_decode_result(bide_op *op, int code, const void *data, size_t size, uint64_t *feed)
{
    assert(bi_call_travels(op->kind));
    struct call_reader reader = begin_reading(data, size);
    bide_slice sentence = {NULL, 0};
    if (code == BIDE_PENDING)
        return BIDE_EINVAL;
    if ((size > 0 && !bi_call_read_bytes(&reader, &sentence)) || !read_results(&reader, op, code))
        return reader.code;
    say(op, code, sentence);
    op->private_.status = code;
    if (feed != NULL)
        *feed = reader.feed;
    return BIDE_OK;
}

void bi_call_done(struct call_op *call)
{
    const struct call_kind *kind = &bi_call_kinds[call->op.kind];
    assert(call->op.status != BIDE_PENDING);
    if (kind->good != NULL && is_good(kind, call->op.status))
        bi_fields_free(kind->good, arguments(kind, &call->op));
    bi_call_give(call);
}
