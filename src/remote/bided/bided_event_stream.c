/* SPDX-License-Identifier: MIT */
/*
 * bided_event_stream - event streams that survive a reconnect.
 *
 * A stream at the server ends with its connection. The caller's handle is a struct event_stream,
 * which holds what is needed to subscribe again. Events between two connections are lost, and their
 * number is unknown: one is counted. The next events call then completes at once, without events,
 * so that the caller learns of the loss instead of waiting for an event that already happened.
 *
 * The server may reject the new subscribe. The events calls that wait for it then fail; the next
 * one subscribes again.
 *
 * Ownership  A stream is reference-counted: by the list of streams until unsubscribe, and by each
 *            request that names it.
 */
#include "op/op_args.h"
#include "remote/bided/bided_client.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct event_stream {
    struct event_stream *next;
    unsigned refs;   /* the list of streams, and requests */
    uint64_t serial; /* the caller's handle: never reused, unlike an address */
    bool closed;     /* unsubscribed by the caller */
    bool subscribed; /* the server has the stream, under this number */
    bool restoring;  /* the internal subscribe has no reply yet */
    uint64_t number;
    uint64_t lost; /* not reported yet */
    uint32_t kinds, capacity;
    size_t topic_size;
    char topic[BIDE_TOPIC_MAX];
};

static bide_subscription *handle_of(const struct event_stream *stream)
{
    return (bide_subscription *)(uintptr_t)stream->serial;
}

static struct event_stream *find_stream(const struct bided *bided, const bide_subscription *handle)
{
    struct event_stream *stream = bided->streams;
    while (stream != NULL && handle_of(stream) != handle)
        stream = stream->next;
    return stream;
}

static void unref(struct event_stream *stream)
{
    assert(stream->refs > 0);
    if (--stream->refs == 0)
        free(stream);
}

void bi_bided_event_stream_release(struct request *request)
{
    if (request->stream != NULL)
        unref(request->stream);
    request->stream = NULL;
}

static void attach(struct request *request, struct event_stream *stream)
{
    assert(request->stream == NULL);
    request->stream = stream;
    stream->refs++;
}

static bool has_lost_events(const bide_op *op, const struct event_stream *stream)
{
    return op->kind == BIDE_OP_EVENTS && stream->subscribed && stream->lost > 0;
}

/* Completes an events call with the number of lost events. */
static int report_lost(bide_op *op, struct event_stream *stream)
{
    op->subscription.count = 0;
    op->subscription.lost = stream->lost;
    stream->lost = 0;
    return BIDE_OK;
}

/* Queues the internal subscribe. False: out of memory. */
static bool resubscribe(struct bided *bided, struct event_stream *stream)
{
    const bide_op op = {.kind = BIDE_OP_SUBSCRIBE,
                        .subscription = {.topic = {stream->topic, stream->topic_size},
                                         .kinds = stream->kinds,
                                         .capacity = stream->capacity}};
    struct request *request = bi_bided_request_new_internal(bided, &op);
    if (request == NULL)
        return false;

    attach(request, stream);
    stream->restoring = true;
    bi_bided_send_call(bided, request);
    return true;
}

/* ---- submit ---- */

static int prepare_subscribe(struct request *request)
{
    const bide_subscription_args *args = &request->base.op->subscription;
    struct event_stream *stream = calloc(1, sizeof(*stream));

    if (stream == NULL)
        return bi_op_reject(request->base.op, BIDE_ENOMEM, "out of memory");

    /* Copied: the caller's topic is valid only until submit returns, and a reconnect needs it. */
    stream->kinds = args->kinds;
    stream->capacity = args->capacity;
    stream->topic_size = args->topic.size;
    if (args->topic.size > 0)
        memcpy(stream->topic, args->topic.data, args->topic.size);

    attach(request, stream);
    return BIDE_PENDING;
}

static int prepare_on_stream(struct bided *bided, struct request *request,
                             struct event_stream *stream)
{
    /* While the stream is being subscribed again, this number is wrong, and send_or_fail() encodes
     * the request again with the new one. Encode it here all the same: the second encoding then has
     * its memory and cannot fail. */
    bool ready = bi_bided_request_encode(bided, request, stream->number);

    /* The server may have rejected the last subscribe; without another one the call would wait for
     * ever. */
    if (ready && !stream->subscribed && !stream->restoring && bided->remote.connected)
        ready = resubscribe(bided, stream);
    if (!ready)
        return bi_op_reject(request->base.op, BIDE_ENOMEM, "out of memory");

    attach(request, stream);
    return BIDE_PENDING;
}

static void unlink_stream(struct bided *bided, struct event_stream *stream)
{
    struct event_stream **from = &bided->streams;
    while (*from != stream)
        from = &(*from)->next;
    *from = stream->next;

    assert(!stream->closed);
    stream->closed = true;
    unref(stream);
}

/* Unsubscribes a stream that the server does not have: only the events calls that wait here must
 * end. */
static int close_locally(struct bided *bided, struct event_stream *stream)
{
    for (struct remote_op *each = bided->remote.first, *next; each != NULL; each = next) {
        next = each->next;
        if (bi_request_of(each)->stream != stream || each->op->kind != BIDE_OP_EVENTS)
            continue;

        each->cancelled = true;
        bi_remote_op_abort(&bided->remote, each, BIDE_CANCELLED);
    }
    unlink_stream(bided, stream);
    return BIDE_OK;
}

int bi_bided_event_stream_prepare(struct bided *bided, struct request *request)
{
    bide_op *op = request->base.op;

    if (op->kind == BIDE_OP_SUBSCRIBE)
        return prepare_subscribe(request);
    if (!bi_op_args_has_feed(op))
        return BIDE_PENDING;

    struct event_stream *stream = find_stream(bided, op->subscription.handle);
    if (stream == NULL)
        return bi_op_reject(op, BIDE_EINVAL, "this feed was never subscribed, or has ended");

    bool at_server = bided->remote.connected && (stream->subscribed || stream->restoring);
    if (op->kind == BIDE_OP_UNSUBSCRIBE && !at_server)
        return close_locally(bided, stream);
    if (has_lost_events(op, stream))
        return report_lost(op, stream);

    return prepare_on_stream(bided, request, stream);
}

void bi_bided_event_stream_commit(struct bided *bided, const struct request *request)
{
    /* Unlink now, not when the reply arrives: if the connection is lost meanwhile, the stream must
     * not be restored. Not earlier either: an unsubscribe that fails leaves the stream as it was.
     */
    if (request->base.op->kind == BIDE_OP_UNSUBSCRIBE)
        unlink_stream(bided, request->stream);
}

bool bi_bided_event_stream_is_ready(const struct request *request)
{
    return request->stream == NULL || request->base.op->kind == BIDE_OP_SUBSCRIBE ||
           request->stream->subscribed;
}

bool bi_bided_event_stream_is_closed(const struct request *request)
{
    return request->base.op->kind == BIDE_OP_EVENTS && request->stream->closed;
}

/* ---- replies ---- */

/* Sends a request that waited for its stream, or completes it. */
static void send_or_fail(struct bided *bided, struct request *request, int code)
{
    struct event_stream *stream = request->stream;
    bide_op *op = request->base.op;

    /* Report the loss before waiting for new events. */
    if (has_lost_events(op, stream)) {
        op->private_.status = report_lost(op, stream);
    } else if (code == BIDE_OK && bi_bided_request_encode(bided, request, stream->number)) {
        bi_bided_send_call(bided, request);
        return;
    } else if (code != BIDE_OK && op->kind == BIDE_OP_UNSUBSCRIBE) {
        op->private_.status = BIDE_OK; /* the server has no stream to end */
    } else {
        bi_remote_op_abort(&bided->remote, &request->base, code == BIDE_OK ? BIDE_ENOMEM : code);
        return;
    }

    bi_remote_op_complete(&bided->remote, &request->base);
}

/* The internal subscribe has completed: sends the requests that wait for the stream. Among them
 * may be an unsubscribe, submitted while the subscribe was in flight. */
static void send_waiting(struct bided *bided, const struct event_stream *stream, int code)
{
    for (struct remote_op *each = bided->remote.first, *next; each != NULL; each = next) {
        next = each->next;
        if (bi_request_of(each)->stream == stream && !each->started)
            send_or_fail(bided, bi_request_of(each), code);
    }
}

static void finish_subscribe(struct bided *bided, struct request *request)
{
    struct event_stream *stream = request->stream;
    int code = request->base.op->private_.status;

    stream->number = request->number;
    stream->subscribed = code == BIDE_OK;
    stream->restoring = false;

    if (request->base.internal) {
        send_waiting(bided, stream, code);
        return;
    }

    if (code != BIDE_OK)
        return;
    /* The list's reference. Only a successful subscribe gives the caller a handle. */
    stream->refs++;
    stream->serial = ++bided->last_stream;
    stream->next = bided->streams;
    bided->streams = stream;
    request->base.op->subscription.handle = handle_of(stream);
}

void bi_bided_event_stream_complete(struct bided *bided, struct request *request)
{
    if (request->base.op->kind == BIDE_OP_SUBSCRIBE)
        finish_subscribe(bided, request);
}

/* ---- disconnect and restore ---- */

void bi_bided_event_stream_suspend(struct bided *bided)
{
    for (struct event_stream *stream = bided->streams; stream != NULL; stream = stream->next) {
        /* One per outage, whatever its length: the real number is unknown. */
        stream->lost += stream->subscribed;
        stream->subscribed = stream->restoring = false;
    }
}

void bi_bided_event_stream_restore(struct bided *bided)
{
    for (struct event_stream *stream = bided->streams; stream != NULL; stream = stream->next)
        if (!resubscribe(bided, stream))
            bided->remote.broken = true; /* out of memory: reconnect and try again */
}

void bi_bided_event_stream_free_all(struct bided *bided)
{
    while (bided->streams != NULL)
        unlink_stream(bided, bided->streams);
}
