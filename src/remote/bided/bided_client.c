/* SPDX-License-Identifier: MIT */
/*
 * bided_client - the functions of the client: start, cancel, connect, disconnect, poll.
 *
 * The submitting thread encodes and usually also writes the call: an op needs no thread switch
 * before it is on the wire.
 */
#include "remote/bided/bided_client.h"

#include "op/op_args.h"
#include "remote/beanstalk_backend.h"
#include "util/message.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- ops ---- */

static struct remote_op *new_op(struct remote *remote, bide_op *op, bool shut)
{
    struct request *request = bi_bided_request_new(bi_bided_of(remote), op, shut);
    return request == NULL ? NULL : &request->base;
}

static int prepare(struct remote *remote, struct remote_op *op)
{
    struct bided *bided = bi_bided_of(remote);
    struct request *request = bi_request_of(op);
    int code = bi_bided_event_stream_prepare(bided, request);

    if (code == BIDE_PENDING)
        code = bi_bided_topic_ref_prepare(request);
    if (code == BIDE_PENDING && !bi_bided_request_allocate_tag(bided, request))
        code = bi_op_reject(op->op, BIDE_ENOMEM, "out of memory");
    if (code != BIDE_PENDING)
        return code;

    /* Nothing can fail any more. */
    bi_bided_event_stream_commit(bided, request);
    op->bytes = request->bytes.size;
    /* The request holds the encoded arguments; copies of the caller's bodies are not needed. */
    bi_op_payload_free(op->op);
    return BIDE_PENDING;
}

/* A request on a stream that is being subscribed stays queued until the stream has its number. */
static void start(struct remote *remote, struct remote_op *op)
{
    if (bi_bided_event_stream_is_ready(bi_request_of(op)))
        bi_bided_send_call(bi_bided_of(remote), bi_request_of(op));
}

static void flush(struct remote *remote)
{
    bi_bided_send_flush(bi_bided_of(remote));
}

static bool cancel(struct remote *remote, struct remote_op *op)
{
    /* The stream has ended for the caller. Without its unsubscribe it would stay at the server, and
     * fill up, until the connection ends. */
    if (op->op->kind == BIDE_OP_UNSUBSCRIBE)
        return true;
    /* A call that is queued for writing may be partly written: the server may know it. */
    if (op->started)
        bi_bided_send_cancel(bi_bided_of(remote), bi_request_of(op));
    return op->started;
}

static void fail(struct remote *remote, struct remote_op *op, int code, const char *text)
{
    bi_remote_op_set_failed(op->op, code, text);
    bi_remote_op_complete(remote, op);
}

static void release(struct remote *remote, struct remote_op *op)
{
    bi_bided_request_release(bi_bided_of(remote), bi_request_of(op));
}

/* ---- connect and disconnect ---- */

static int connect_bided(struct remote *remote, struct io_wait *io_wait, char *error)
{
    enum server_kind server_kind = SERVER_BIDED;
    int fd = -1;
    int code = bi_beanstalk_backend_connect(&remote->address, io_wait, &fd, &server_kind, error);

    if (code != BIDE_OK)
        return code;

    /* Pending requests are encoded for bided and cannot be sent to a beanstalkd. */
    if (server_kind != SERVER_BIDED) {
        close(fd);
        return bi_error_set(error, BIDE_EIO,
                            "the server at %.100s was a bided, and is not any more",
                            remote->address.name);
    }

    bi_bided_of(remote)->fd = fd;
    return BIDE_OK;
}

/* Streams and topic references are restored before other calls are sent. */
static void connected(struct remote *remote)
{
    struct bided *bided = bi_bided_of(remote);

    assert(bided->out.head == NULL && bided->in.size == 0 && bided->in_flight == 0);
    bi_bided_event_stream_restore(bided);
    bi_bided_topic_ref_restore(bided);
}

/* The server must know streams and topic references even when no request is pending. */
static bool wants_connection(const struct remote *remote)
{
    const struct bided *bided = (const struct bided *)(const void *)remote;
    return bided->streams != NULL || bided->topic_refs != NULL;
}

/* Reads replies that arrived before a write failed. Their ops have been executed, and must not be
 * reported as BIDE_EUNKNOWN. */
static void read_pending(struct bided *bided)
{
    struct pollfd polled = {.fd = bided->fd, .events = POLLIN};
    char reason[BIDE_ERROR_SIZE];

    pthread_mutex_unlock(&bided->remote.lock);
    while (poll(&polled, 1, 0) > 0 && bi_bided_receive(bided, reason))
        ;
    pthread_mutex_lock(&bided->remote.lock);
}

static void lose_request(struct bided *bided, struct request *request)
{
    struct remote *remote = &bided->remote;
    struct remote_op *op = &request->base;
    bool was_sent = request->sent;

    /* The send queue was cleared, so a cancel can be queued again on the next connection. */
    bi_bided_send_mark_unsent(bided, request);
    request->cancel.data = NULL;

    if (op->op->kind == BIDE_OP_UNSUBSCRIBE) { /* the server dropped the stream */
        op->op->private_.status = BIDE_OK;
        bi_remote_op_complete(remote, op);
    } else if (op->internal) { /* connected() creates new ones */
        bi_remote_op_complete(remote, op);
    } else if (bi_bided_event_stream_is_closed(request)) {
        bi_remote_op_abort(remote, op, BIDE_CANCELLED);
    } else {
        bi_remote_op_lost(remote, op, was_sent);
    }
}

static void disconnect(struct remote *remote, const char *reason)
{
    struct bided *bided = bi_bided_of(remote);

    if (!remote->connected)
        return;
    if (remote->broken)
        read_pending(bided);

    /* `broken` keeps further writes from starting. The lock is released until the write in progress
     * has returned; only then do the socket and its send queue disappear, under one lock hold. A
     * request added meanwhile is queued for the old socket and handled below with all others. */
    remote->broken = true;
    bi_bided_send_wait_idle(bided);

    bi_remote_thread_lost(remote, reason);
    bi_bided_send_clear(bided);
    bi_remote_socket_close(bided->fd);
    bided->fd = -1;
    bided->blocked = false;
    bided->in.size = bided->in.used = bided->in.skip = 0;

    bi_bided_event_stream_suspend(bided);
    for (struct remote_op *each = remote->first, *next; each != NULL; each = next) {
        next = each->next;
        lose_request(bided, bi_request_of(each));
    }
}

/* ---- the I/O thread ---- */

static bool ping(struct remote *remote)
{
    struct bided *bided = bi_bided_of(remote);
    static const bide_op op = {.kind = BIDE_OP_PING};

    /* The last ping has no reply yet; the server may have sent a part of a long reply since. */
    if (bided->ping != NULL)
        return true;

    bided->ping = bi_bided_request_new_internal(bided, &op);
    if (bided->ping == NULL)
        return false;
    bi_bided_send_call(bided, bided->ping);
    bi_bided_send_flush(bided);
    return true;
}

static size_t poll_for(struct remote *remote, struct pollfd *polled)
{
    const struct bided *bided = bi_bided_of(remote);

    if (!remote->connected)
        return 0;
    /* Without `blocked` the socket is nearly always writable, and POLLOUT would end each poll at
     * once. */
    *polled = (struct pollfd){.fd = bided->fd,
                              .events = (short)(POLLIN | (bided->blocked ? POLLOUT : 0))};
    return 1;
}

static bool ready(struct remote *remote, const struct pollfd *polled, size_t count, char *reason)
{
    struct bided *bided = bi_bided_of(remote);
    bool readable = count > 0 && (polled->revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    bool writable = count > 0 && (polled->revents & POLLOUT) != 0;
    bool good = !readable || bi_bided_receive(bided, reason);

    pthread_mutex_lock(&remote->lock);
    remote->activity += readable;
    if (good && writable) {
        remote->activity++; /* the server reads, so it is alive */
        bided->blocked = false;
        bi_bided_send_flush(bided);
    }
    pthread_mutex_unlock(&remote->lock);
    return good;
}

/* ---- open and free ---- */

static void free_bided(struct remote *remote)
{
    struct bided *bided = bi_bided_of(remote);

    /* Frees completed requests whose cancel line was never written. */
    bi_bided_send_clear(bided);
    bi_bided_event_stream_free_all(bided);
    bi_bided_topic_ref_free_all(bided);
    free(bided->tags.slots);
    free(bided->in.data);
    pthread_cond_destroy(&bided->send_idle);
    if (bided->fd >= 0)
        bi_remote_socket_close(bided->fd);
    free(bided);
}

static const struct remote_client bided_client = {
    .scheme = "beanstalk",
    .capabilities = BIDE_CAN_PASS_LEASES | BIDE_CAN_SHARE | BIDE_CAN_ALL_OPS,
    .starts_at_submit = true,
    .new_op = new_op,
    .prepare = prepare,
    .start = start,
    .flush = flush,
    .cancel = cancel,
    .fail = fail,
    .release = release,
    .connect = connect_bided,
    .connected = connected,
    .wants_connection = wants_connection,
    .disconnect = disconnect,
    .ping = ping,
    .poll = poll_for,
    .ready = ready,
    .free = free_bided,
};

int bi_bided_client_open(const struct backend_context *context, const struct address *address,
                         int fd, struct backend **out, char *error)
{
    struct bided *bided = calloc(1, sizeof(*bided));

    if (bided == NULL) {
        close(fd);
        return bi_error_set_code(error, BIDE_ENOMEM);
    }

    bided->fd = fd;
    pthread_cond_init(&bided->send_idle, NULL);
    return bi_remote_open(&bided->remote, &bided_client, context, address, out, error);
}
