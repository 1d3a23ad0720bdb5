/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_tagged.h"

#include "backend/answer.h"
#include "backend/beanstalk_kind.h"
#include "util/clock.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for "call <tag> <op> <bytes>CRLF" before the arguments, and what most arguments take. */
#define HEAD 64
#define ROOM 256

/* ---- tags ---- */

static bool grow(struct tags *tags)
{
    uint32_t room = tags->room == 0 ? 64 : tags->room * 2;
    struct request **requests = realloc(tags->requests, room * sizeof(struct request *));
    if (requests != NULL)
        tags->requests = requests;
    uint32_t *unused = realloc(tags->unused, room * sizeof(uint32_t));
    if (unused != NULL)
        tags->unused = unused;
    if (requests == NULL || unused == NULL)
        return false;
    tags->room = room;
    return true;
}

static bool take_tag(struct tags *tags, struct request *request)
{
    if (tags->unused_count > 0)
        request->tag = tags->unused[--tags->unused_count];
    else if (tags->count < tags->room || grow(tags))
        request->tag = ++tags->count;
    else
        return false;
    tags->requests[request->tag - 1] = request;
    return true;
}

static void give_tag(struct tags *tags, const struct request *request)
{
    tags->requests[request->tag - 1] = NULL;
    tags->unused[tags->unused_count++] = request->tag;
}

struct request *bi_client_request_find(const struct tagged *tagged, uint64_t tag)
{
    return tag == 0 || tag > tagged->tags.count ? NULL : tagged->tags.requests[tag - 1];
}

void bi_tags_free(struct tags *tags)
{
    free(tags->requests);
    free(tags->unused);
}

/* ---- arguments become bytes ---- */

/* A client that was given a default_ttr of its own says it, because the server has another. */
static void set_ttr(bide_put_item *item, bide_put_options *copy, int64_t ttr_ms)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    if (item->options != NULL && item->options->ttr_ms != 0)
        return;
    *copy = item->options != NULL ? *item->options : init;
    copy->ttr_ms = ttr_ms;
    item->options = copy;
}

static int encode_put(bide_op *op, int64_t ttr_ms, struct call_bytes *out)
{
    const bide_put_options *given = op->put.options;
    bide_put_options copy;
    set_ttr(&op->put, &copy, ttr_ms);
    int code = bi_call_encode(op, 0, out);
    op->put.options = given;
    return code;
}

static int encode_puts(bide_op *op, int64_t ttr_ms, struct call_bytes *out)
{
    size_t count = op->put_many.count;
    bide_put_item *items = op->put_many.items;
    bide_put_item *copies = malloc(count * (sizeof(*copies) + sizeof(bide_put_options)));
    if (copies == NULL)
        return BIDE_ENOMEM;
    bide_put_options *options = (bide_put_options *)(void *)(copies + count);
    memcpy(copies, items, count * sizeof(*copies));
    for (size_t i = 0; i < count; i++)
        if (items[i].status == BIDE_OK)
            set_ttr(&copies[i], &options[i], ttr_ms);
    op->put_many.items = copies;
    int code = bi_call_encode(op, 0, out);
    op->put_many.items = items;
    free(copies);
    return code;
}

static int encode_update(bide_op *op, int64_t ttr_ms, struct call_bytes *out)
{
    int64_t given = op->update.ttr_ms;
    if (given == 0)
        op->update.ttr_ms = ttr_ms;
    int code = bi_call_encode(op, 0, out);
    op->update.ttr_ms = given;
    return code;
}

/* A queue that is shut down lets nothing wait. */
static int encode_impatient(bide_op *op, uint64_t feed, struct call_bytes *out)
{
    int64_t *timeout = bi_kind_timeout(op);
    int64_t given = *timeout;
    *timeout = 0;
    int code = bi_call_encode(op, feed, out);
    *timeout = given;
    return code;
}

static int encode(const struct tagged *tagged, const struct request *request, uint64_t feed,
                  struct call_bytes *out)
{
    bide_op *op = request->inner != NULL ? request->inner : request->op;
    int64_t ttr_ms = tagged->context.asked.default_ttr_ms;
    if (request->shut && request->inner == NULL)
        return encode_impatient(op, feed, out);
    if (ttr_ms != 0 && op->kind == BIDE_OP_PUT)
        return encode_put(op, ttr_ms, out);
    if (ttr_ms != 0 && op->kind == BIDE_OP_PUT_MANY)
        return encode_puts(op, ttr_ms, out);
    if (ttr_ms != 0 && op->kind == BIDE_OP_UPDATE)
        return encode_update(op, ttr_ms, out);
    return bi_call_encode(op, feed, out);
}

static bool append_end(struct call_bytes *bytes)
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

bool bi_client_request_encode(const struct tagged *tagged, struct request *request, uint64_t feed)
{
    struct call_bytes *bytes = &request->bytes;
    if (bytes->data == NULL) {
        bytes->data = malloc(ROOM);
        bytes->room = bytes->data == NULL ? 0 : ROOM;
    }
    bytes->size = HEAD;
    return bytes->data != NULL && encode(tagged, request, feed, bytes) == BIDE_OK &&
           append_end(bytes);
}

void bi_client_request_write_head(struct request *request)
{
    char head[HEAD];
    const bide_op *op = request->inner != NULL ? request->inner : request->op;
    int size = snprintf(head, sizeof(head), "call %u %s %zu\r\n", request->tag,
                        bide_op_name(op->kind), request->bytes.size - HEAD - 2);
    assert(size > 0 && size < HEAD);
    unsigned char *from = request->bytes.data + HEAD - size;
    memcpy(from, head, (size_t)size);
    request->call.data = from;
    request->call.size = request->bytes.size - HEAD + (size_t)size;
}

/* ---- making and ending ---- */

/* What is left of a finish_and_reserve when no more jobs may be taken. */
static bool make_finish(struct request *request)
{
    bide_op *inner = calloc(1, sizeof(*inner));
    if (inner == NULL)
        return false;
    inner->kind = BIDE_OP_FINISH_MANY;
    inner->finish_many.items = &request->op->finish_and_reserve.finish;
    inner->finish_many.count = 1;
    request->op->finish_and_reserve.finish.status = BIDE_OK;
    request->inner = inner;
    return true;
}

struct request *bi_client_request_new(const struct tagged *tagged, bide_op *op, bool shut)
{
    struct request *request = calloc(1, sizeof(*request));
    if (request == NULL)
        return NULL;
    request->op = op;
    request->call.request = request->cancel.request = request;
    const int64_t *timeout = bi_kind_timeout(op);
    int64_t timeout_ms = timeout == NULL ? 0 : *timeout;
    bool waits = timeout_ms != 0;
    request->waits = waits && !shut;
    request->shut = shut && (waits || op->kind == BIDE_OP_FINISH_AND_RESERVE);
    bool made = !request->shut || op->kind != BIDE_OP_FINISH_AND_RESERVE || make_finish(request);
    /* Whatever names a feed is encoded when the feed's number is known. */
    bool feeds = op->kind == BIDE_OP_EVENTS || op->kind == BIDE_OP_UNSUBSCRIBE;
    if (!made || (!feeds && !bi_client_request_encode(tagged, request, 0))) {
        bi_client_request_free(request);
        return NULL;
    }
    int64_t patience = request->waits ? timeout_ms * 1000 : tagged->address.connect_timeout;
    request->deadline = patience < 0 ? NEVER : bi_clock_boot() + patience;
    return request;
}

void bi_client_request_free(struct request *request)
{
    bi_call_bytes_free(&request->bytes);
    free(request->inner);
    free(request->own_op);
    free(request->reference);
    free(request);
}

bool bi_client_request_add(struct tagged *tagged, struct request *request)
{
    if (!take_tag(&tagged->tags, request))
        return false;
    request->prev = tagged->last;
    *(tagged->last != NULL ? &tagged->last->next : &tagged->first) = request;
    tagged->last = request;
    request->counted = request->waits ? 0 : request->bytes.size;
    tagged->waiting += request->waits;
    tagged->pending_ops += !request->waits;
    tagged->pending_bytes += request->counted;
    request->op->private_.waiter = request;
    return true;
}

void bi_client_request_remove(struct tagged *tagged, struct request *request)
{
    assert(!request->call.queued);
    bi_send_forget(tagged, request);
    give_tag(&tagged->tags, request);
    *(request->prev != NULL ? &request->prev->next : &tagged->first) = request->next;
    *(request->next != NULL ? &request->next->prev : &tagged->last) = request->prev;
    tagged->waiting -= request->waits;
    tagged->pending_ops -= !request->waits;
    tagged->pending_bytes -= request->counted;
    request->op->private_.waiter = NULL;
    pthread_cond_broadcast(&tagged->room);
}

void bi_client_request_release(struct request *request)
{
    request->gone = true;
    if (!request->cancel.queued)
        bi_client_request_free(request);
}

void bi_client_request_end(struct tagged *tagged, struct request *request,
                           struct op_list *completed)
{
    bi_client_request_remove(tagged, request);
    if (!request->internal)
        list_add(completed, request->op);
    bi_client_feed_leave(request);
    bi_client_request_release(request);
}

void bi_client_request_give_up(struct request *request, int code)
{
    int why = request->cancelled   ? BIDE_CANCELLED
              : request->timed_out ? BIDE_TIMED_OUT
              : request->shut      ? BIDE_CLOSED
                                   : code;
    bi_kind_fail(request->op, why, NULL);
}
