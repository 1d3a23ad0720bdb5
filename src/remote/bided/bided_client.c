/* SPDX-License-Identifier: MIT */
/*
 * bided_client - the backend functions: submit, cancel, shutdown, close.
 *
 * The submitting thread encodes and usually also writes the call: an op needs no thread switch
 * before it is on the wire.
 */
#include "remote/bided/bided_client.h"

#include "op/op_payload.h"
#include "remote/op_traits.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct bided *bided_of(struct backend *backend)
{
    return (struct bided *)(void *)backend;
}

/* ---- submit ---- */

/* An op without completion queue or blocking caller could never report its result. */
static int check_cq(bide_op *op)
{
    if (op->cq == NULL && op->private_.wake == NULL)
        return bi_op_traits_reject(op, BIDE_EINVAL,
                                   "the op must wait for the server and names no completion queue");
    return BIDE_OK;
}

static bool is_full(const struct bided *bided, const struct request *request)
{
    const bide_options *options = &bided->context.options;
    /* A single request above the byte limit is accepted when nothing else is pending; otherwise it
     * could never be sent. */
    return !request->waits && bided->pending_ops > 0 &&
           (bided->pending_ops >= options->max_pending_ops ||
            bided->pending_bytes + request->bytes.size > options->max_pending_bytes);
}

/* Waits, with the lock, until the request fits the limits. An asynchronous op fails with BIDE_EBUSY
 * instead of waiting. */
static int wait_for_room(struct bided *bided, const struct request *request)
{
    bide_op *op = request->op;

    while (is_full(bided, request) && !bided->closing) {
        if (op->private_.wake == NULL)
            return bi_op_traits_reject(op, BIDE_EBUSY, "too many ops are pending");
        /* Calls queued by other threads may be all that is pending. Write them before sleeping: a
         * call that is not sent gets no reply. */
        bi_bided_send_flush(bided);
        if (!is_full(bided, request))
            break;
        bided->callers++;
        pthread_cond_wait(&bided->below_limit, &bided->lock);
        bided->callers--;
    }

    if (bided->closing)
        return bi_op_traits_reject(op, BIDE_CLOSED, "the queue was closed");
    if (request->waits && bided->waiting >= bided->context.options.max_waiters)
        return bi_op_traits_reject(
            op, BIDE_TOO_MANY_WAITERS, "%llu calls of this client wait, max_waiters is %u",
            (unsigned long long)bided->waiting, bided->context.options.max_waiters);
    return BIDE_OK;
}

static int add(struct bided *bided, struct request *request, struct op_fifo *completed)
{
    bide_op *op = request->op;
    int code = wait_for_room(bided, request);

    if (code != BIDE_OK)
        return code;

    code = bi_bided_event_stream_prepare(bided, request, completed);
    if (code == BIDE_PENDING)
        code = bi_bided_topic_ref_prepare(request);
    if (code != BIDE_PENDING)
        return code;

    if (!bi_bided_request_add(bided, request)) {
        bi_bided_event_stream_release(request);
        return bi_op_traits_reject(op, BIDE_ENOMEM, "out of memory");
    }
    bi_bided_event_stream_added(bided, request);

    /* The request holds the encoded arguments; copies of the caller's bodies are not needed any
     * more. */
    bi_op_payload_free(op);

    if (bided->connected && bi_bided_event_stream_is_ready(request)) {
        bi_bided_send_call(bided, request);
    } else {
        /* Not sent now: the client enforces the timeout until the server has the request. */
        request->client_expires = request->waits;
        bi_bided_reconnect_arm_expiry(bided, request);
        bi_bided_send_wake_thread(bided);
    }
    return BIDE_PENDING;
}

static int submit_one(struct bided *bided, bide_op *op)
{
    int code = check_cq(op);

    if (code != BIDE_OK)
        return code;

    struct op_fifo completed = {NULL, NULL};
    bool shut = atomic_load(&bided->shut);
    for (;;) {
        if (shut && bi_op_is(op, OP_RESERVES) && !bi_op_is(op, OP_TWO_PARTS))
            return bi_op_traits_reject(op, BIDE_CLOSED, "the queue was closed");

        struct request *request = bi_bided_request_new(bided, op, shut);
        if (request == NULL)
            return bi_op_traits_reject(op, BIDE_ENOMEM, "out of memory");

        pthread_mutex_lock(&bided->lock);
        /* shutdown may happen between encoding and adding. The request then has the wrong
         * timeout and is encoded again as one of a queue that is shut down. That cannot happen
         * twice. */
        bool unchanged = atomic_load(&bided->shut) == shut;
        code = unchanged ? add(bided, request, &completed) : BIDE_CLOSED;
        bi_client_request_let_in(bided); /* pass on the wakeup that this caller received */
        pthread_mutex_unlock(&bided->lock);

        if (completed.head != NULL)
            bided->context.complete(completed.head);
        if (code != BIDE_PENDING)
            bi_bided_request_free(request);

        if (unchanged)
            return code;
        shut = true;
    }
}

static int submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct bided *bided = bided_of(backend);
    int pending = 0;

    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;

        int code = submit_one(bided, ops[i]);
        if (code == BIDE_PENDING) {
            pending++;
            continue;
        }
        ops[i]->status = code;
        bided->context.finish(ops[i]);
    }

    /* One flush for all ops of this submit: they share a write. */
    pthread_mutex_lock(&bided->lock);
    bi_bided_send_flush(bided);
    pthread_mutex_unlock(&bided->lock);
    return pending;
}

/* ---- cancel and shutdown ---- */

/* Cancels at the server if the server may know the request. Otherwise the request ends here. */
static void cancel_request(struct bided *bided, struct request *request, struct op_fifo *completed)
{
    /* The stream has ended for the caller. Without its unsubscribe it would stay at the server, and
     * fill up, until the connection ends. */
    if (request->op->kind == BIDE_OP_UNSUBSCRIBE)
        return;
    if (request->call.queued || request->sent) {
        bi_bided_send_cancel(bided, request);
        return;
    }
    bi_bided_request_set_abort_code(request, BIDE_CANCELLED);
    bi_bided_request_complete(bided, request, completed);
}

static void flush_and_complete(struct bided *bided, struct op_fifo *completed)
{
    bi_bided_send_flush(bided);
    pthread_mutex_unlock(&bided->lock);
    if (completed->head != NULL)
        bided->context.complete(completed->head);
}

static void cancel(struct backend *backend, bide_op *op)
{
    struct bided *bided = bided_of(backend);
    struct op_fifo completed = {NULL, NULL};

    pthread_mutex_lock(&bided->lock);

    struct request *request = op->private_.waiter;
    if (request != NULL) {
        request->cancelled = true;
        cancel_request(bided, request, &completed);
    }
    flush_and_complete(bided, &completed);
}

static void shut_down(struct backend *backend)
{
    struct bided *bided = bided_of(backend);
    struct op_fifo completed = {NULL, NULL};

    pthread_mutex_lock(&bided->lock);
    int64_t deadline_us = bi_clock_boot() + bided->address.connect_timeout;
    atomic_store(&bided->shut, true);

    /* The server gets connect_timeout to confirm each cancel; then the connection counts as
     * lost. */
    for (struct request *each = bided->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!each->waits || each->shut)
            continue;

        each->shut = each->client_expires = true;
        each->deadline = deadline_us;
        each->activity = bided->activity;
        bi_bided_reconnect_arm_expiry(bided, each);
        cancel_request(bided, each, &completed);
    }

    bi_bided_send_wake_thread(bided);
    flush_and_complete(bided, &completed);
}

/* ---- open and close ---- */

static void free_bided(struct bided *bided)
{
    /* Frees completed requests whose cancel line was never written. */
    bi_bided_send_clear(bided);
    bi_bided_event_stream_free_all(bided);
    bi_bided_topic_ref_free_all(bided);
    bi_bided_request_free_tags(&bided->tags);
    free(bided->in);

    pthread_mutex_destroy(&bided->lock);
    pthread_cond_destroy(&bided->below_limit);
    pthread_cond_destroy(&bided->send_idle);

    const int fds[] = {bided->fd, bided->wake_fd, bided->stop_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(bided);
}

static void close_bided(struct backend *backend)
{
    struct bided *bided = bided_of(backend);
    uint64_t one = 1;

    shut_down(backend);

    pthread_mutex_lock(&bided->lock);
    bided->closing = true;
    bided->close_deadline = bi_clock_boot() + bided->address.connect_timeout;
    /* All callers that wait for room return BIDE_CLOSED. */
    pthread_cond_broadcast(&bided->below_limit);
    /* stop_fd ends a connect in progress; wake_fd ends a poll. */
    bi_bided_send_wake_thread(bided);
    ssize_t written = write(bided->stop_fd, &one, sizeof(one));
    (void)written; /* cannot fail: this eventfd is written once */
    pthread_mutex_unlock(&bided->lock);
    pthread_join(bided->thread, NULL);
}

static void free_closed(struct backend *backend)
{
    free_bided(bided_of(backend));
}

static const struct backend_ops bided_ops = {
    .may_block = true,
    .capabilities = BIDE_CAN_PASS_LEASES | BIDE_CAN_SHARE | BIDE_CAN_ALL_OPS,
    .scheme = "beanstalk",
    .submit = submit,
    .cancel = cancel,
    .shutdown = shut_down,
    .close = close_bided,
    .free = free_closed,
};

int bi_bided_client_open(const struct backend_context *context, const struct address *address,
                         int fd, struct backend **out, char *error)
{
    struct bided *bided = calloc(1, sizeof(*bided));

    if (bided == NULL) {
        close(fd);
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }

    bided->base.ops = &bided_ops;
    bided->context = *context;
    bided->address = *address;

    bided->fd = fd;
    bided->connected = true;
    bi_bided_keepalive_reset(bided);
    bided->expire_at = NEVER;
    bided->random.state = context->options.seed;

    bided->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    bided->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&bided->lock, NULL);
    pthread_cond_init(&bided->below_limit, NULL);
    pthread_cond_init(&bided->send_idle, NULL);

    if (bided->wake_fd < 0 || bided->stop_fd < 0 ||
        !bi_thread_start(&bided->thread, bi_bided_thread_run, bided)) {
        snprintf(error, BIDE_ERROR_SIZE, "open: cannot create thread or eventfd: %s",
                 strerror(errno));
        free_bided(bided);
        return BIDE_ESYSTEM;
    }

    *out = &bided->base;
    return BIDE_OK;
}
