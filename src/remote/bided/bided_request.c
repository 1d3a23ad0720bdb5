/* SPDX-License-Identifier: MIT */
/*
 * bided_request - requests: an op, its encoded form and its tag.
 *
 * Ownership  The request owns the encoded arguments, so it can be resent without reading the
 *            caller's memory. The op is borrowed until it completes.
 */
#include "remote/bided/bided_client.h"

#include "op/op_args.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* HEADER_ROOM holds "call <tag> <op> <bytes>CRLF"; most arguments fit in the rest of
 * INITIAL_ROOM. */
#define HEADER_ROOM  64
#define INITIAL_ROOM 256

/* ---- tags ---- */

bool bi_bided_request_allocate_tag(struct bided *bided, struct request *request)
{
    struct tags *tags = &bided->tags;

    assert(request->tag == 0);
    if (tags->unused != 0) {
        request->tag = tags->unused;
        tags->unused = tags->slots[request->tag - 1].next_unused;
    } else {
        if (tags->count == tags->room) {
            uint32_t room = tags->room == 0 ? 64 : tags->room * 2;
            struct tag_slot *slots = realloc(tags->slots, room * sizeof(*slots));
            if (slots == NULL)
                return false;
            tags->slots = slots;
            tags->room = room;
        }
        request->tag = ++tags->count;
    }

    tags->slots[request->tag - 1].request = request;
    return true;
}

void bi_bided_request_release_tag(struct bided *bided, struct request *request)
{
    struct tags *tags = &bided->tags;

    assert(!request->call.queued);
    bi_bided_send_mark_unsent(bided, request);
    if (request->tag == 0)
        return;

    /* The tag can be reused at once. A cancel of this request that is still queued is written
     * before any call that is queued later, so it cannot hit the next owner of the tag. */
    assert(tags->slots[request->tag - 1].request == request);
    tags->slots[request->tag - 1] = (struct tag_slot){NULL, tags->unused};
    tags->unused = request->tag;
    request->tag = 0;
}

struct request *bi_bided_request_find(const struct bided *bided, uint64_t tag)
{
    return tag == 0 || tag > bided->tags.count ? NULL : bided->tags.slots[tag - 1].request;
}

/* ---- encoding ---- */

/* Sets the client's own default_ttr where the job has none: the server's default may differ. */
static void apply_default_ttr(bide_put_item *item, bide_put_options *copy, int64_t ttr_ms)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    if (item->options != NULL && item->options->ttr_ms != 0)
        return;
    *copy = item->options != NULL ? *item->options : init;
    copy->ttr_ms = ttr_ms;
    item->options = copy;
}

/* items_at: the member of the op that points to the items. */
static int encode_puts(bide_op *op, bide_put_item **items_at, size_t count, int64_t ttr_ms,
                       struct op_bytes *out)
{
    bide_put_item *items = *items_at;
    bide_put_item *copies = malloc(count * (sizeof(*copies) + sizeof(bide_put_options)));

    if (copies == NULL)
        return BIDE_ENOMEM;

    bide_put_options *options = (bide_put_options *)(void *)(copies + count);
    memcpy(copies, items, count * sizeof(*copies));
    for (size_t i = 0; i < count; i++)
        if (items[i].status == BIDE_OK)
            apply_default_ttr(&copies[i], &options[i], ttr_ms);

    *items_at = copies;
    int code = bi_op_codec_encode(op, 0, out);
    *items_at = items;
    free(copies);
    return code;
}

/* Encodes the op with what differs from the caller's: after shutdown no op waits, and the client's
 * own default_ttr applies. */
static int encode(const struct bided *bided, const struct request *request, uint64_t stream_id,
                  struct op_bytes *out)
{
    bide_op *op = request->substitute != NULL ? request->substitute : request->base.op;
    int64_t ttr_ms = bided->remote.context.requested.default_ttr_ms;
    bool without_wait = request->base.shut && request->substitute == NULL;

    if (ttr_ms == 0 && !without_wait)
        return bi_op_codec_encode(op, stream_id, out);
    if (op->kind == BIDE_OP_PUT_MANY)
        return encode_puts(op, &op->put_many.items, op->put_many.count, ttr_ms, out);
    if (op->kind == BIDE_OP_FINISH_AND_PUT)
        return encode_puts(op, &op->finish_and_put.items, op->finish_and_put.count, ttr_ms, out);

    /* The op belongs to the caller: change a copy, which borrows all that it points to. */
    bide_op copy = *op;
    bide_put_options options;
    if (without_wait)
        *bi_op_timeout(&copy) = 0;
    else if (op->kind == BIDE_OP_PUT)
        apply_default_ttr(&copy.put, &options, ttr_ms);
    else if (op->kind == BIDE_OP_UPDATE && copy.update.ttr_ms == 0)
        copy.update.ttr_ms = ttr_ms;
    return bi_op_codec_encode(&copy, stream_id, out);
}

static bool append_crlf(struct op_bytes *bytes)
{
    if (bytes->room - bytes->size < 2) {
        unsigned char *data = realloc(bytes->data, bytes->size + 2);
        if (data == NULL)
            return false;
        bytes->data = data;
        bytes->room = bytes->size + 2;
    }
    memcpy(bytes->data + bytes->size, "\r\n", 2);
    bytes->size += 2;
    return true;
}

bool bi_bided_request_encode(const struct bided *bided, struct request *request, uint64_t stream_id)
{
    struct op_bytes *bytes = &request->bytes;

    if (bytes->data == NULL) {
        bytes->data = malloc(INITIAL_ROOM);
        bytes->room = bytes->data == NULL ? 0 : INITIAL_ROOM;
    }

    /* The header is written later, when the tag is known; see write_header(). */
    bytes->size = HEADER_ROOM;
    return bytes->data != NULL && encode(bided, request, stream_id, bytes) == BIDE_OK &&
           append_crlf(bytes);
}

void bi_bided_request_write_header(struct request *request)
{
    char header[HEADER_ROOM];
    const bide_op *op = request->substitute != NULL ? request->substitute : request->base.op;
    int size = snprintf(header, sizeof(header), "call %u %s %zu\r\n", request->tag,
                        bide_op_name(op->kind), request->bytes.size - HEADER_ROOM - 2);

    assert(size > 0 && size < HEADER_ROOM);

    /* The header ends where the arguments begin. Header and arguments are then one contiguous
     * range, whatever the number of digits of the tag. */
    unsigned char *from = request->bytes.data + HEADER_ROOM - size;
    memcpy(from, header, (size_t)size);
    request->call.data = from;
    request->call.size = request->bytes.size - HEADER_ROOM + (size_t)size;
}

/* ---- lifecycle ---- */

/* After shutdown a finish_and_reserve is sent as a finish only. The item is a copy: the status
 * in the op stays BIDE_PENDING until the server replies, because the request may still be
 * rejected. */
static bool make_finish_only(struct request *request)
{
    bide_op *substitute = calloc(1, sizeof(*substitute) + sizeof(bide_finish_item));

    if (substitute == NULL)
        return false;
    bide_finish_item *item = (bide_finish_item *)(void *)(substitute + 1);
    *item = request->base.op->finish_and_reserve.finish;
    item->status = BIDE_OK;
    substitute->kind = BIDE_OP_FINISH_MANY;
    substitute->finish_many.items = item;
    substitute->finish_many.count = 1;
    request->substitute = substitute;
    return true;
}

struct request *bi_bided_request_new(const struct bided *bided, bide_op *op, bool shut)
{
    struct request *request = calloc(1, sizeof(*request));

    if (request == NULL)
        return NULL;
    bi_remote_op_init(&bided->remote, &request->base, op, shut);
    request->call.request = request->cancel.request = request;

    /* shut: an op that shutdown changes. It is encoded with timeout 0, and a finish_and_reserve is
     * replaced by its finish. */
    bool ready = !request->base.shut || !bi_op_is(op, OP_TWO_PARTS) || make_finish_only(request);
    /* An op on a stream is encoded when the stream's number on this connection is known. */
    bool names_stream = bi_op_args_has_feed(op);
    if (!ready || (!names_stream && !bi_bided_request_encode(bided, request, 0))) {
        bi_bided_request_free(request);
        return NULL;
    }

    request->base.bytes = request->bytes.size;
    return request;
}

struct request *bi_bided_request_new_internal(struct bided *bided, const bide_op *op)
{
    bide_op *copy = malloc(sizeof(*copy));
    struct request *request = NULL;

    if (copy != NULL) {
        *copy = *op;
        request = bi_bided_request_new(bided, copy, false);
    }
    if (request == NULL) {
        free(copy);
        return NULL;
    }

    request->internal_op = copy;
    request->base.internal = true;
    if (!bi_bided_request_allocate_tag(bided, request)) {
        bi_bided_request_free(request);
        return NULL;
    }
    bi_remote_op_add(&bided->remote, &request->base);
    return request;
}

void bi_bided_request_free(struct request *request)
{
    bi_op_codec_wire_free_bytes(&request->bytes);
    free(request->substitute);
    free(request->internal_op);
    free(request->topic_ref);
    free(request);
}

void bi_bided_request_release(struct bided *bided, struct request *request)
{
    bi_bided_request_release_tag(bided, request);
    bi_bided_event_stream_release(request);
    if (bided->ping == request)
        bided->ping = NULL;
    request->answered = true;
    /* A queued cancel line lies in the request; send frees the request after writing it. */
    if (!request->cancel.queued)
        bi_bided_request_free(request);
}
