/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* strerrordesc_np */
#include "remote/remote.h"

#include "op/op_table.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct remote *remote_of(struct backend *backend)
{
    return (struct remote *)(void *)backend;
}

static void signal_fd(int fd)
{
    uint64_t one = 1;
    /* Fails only by overflow of the counter, and then the reader is awake anyway. */
    ssize_t written = write(fd, &one, sizeof(one));
    (void)written;
}

void bi_remote_wake(const struct remote *remote)
{
    signal_fd(remote->wake_fd);
}

void bi_remote_unlock(struct remote *remote)
{
    struct op_fifo completed = bi_op_fifo_take(&remote->completed);

    pthread_mutex_unlock(&remote->lock);
    if (completed.head != NULL)
        remote->context.complete(completed.head);
}

static void flush(struct remote *remote)
{
    if (remote->client->flush != NULL)
        remote->client->flush(remote);
}

/* ---- submit ---- */

/* Waits, with the lock, until the op fits the limits. An asynchronous op fails with BIDE_EBUSY
 * instead of waiting. */
static int wait_for_room(struct remote *remote, const struct remote_op *remote_op)
{
    bide_op *op = remote_op->op;
    uint32_t max_waiters = remote->context.options.max_waiters;

    while (bi_remote_op_is_full(remote, remote_op) && !remote->closing) {
        if (op->private_.wake == NULL)
            return bi_op_reject(op, BIDE_EBUSY, "too many ops are pending");
        /* Ops queued by other threads may be all that is pending. Send them before sleeping: what
         * is not sent gets no reply. */
        flush(remote);
        if (remote->has_queued)
            bi_remote_wake(remote);
        if (!bi_remote_op_is_full(remote, remote_op))
            break;
        remote->callers++;
        pthread_cond_wait(&remote->below_limit, &remote->lock);
        assert(remote->callers > 0);
        remote->callers--;
    }

    if (remote->closing)
        return bi_op_reject(op, BIDE_CLOSED, "the queue was closed");
    if (remote_op->waits && remote->waiting >= max_waiters)
        return bi_op_reject(op, BIDE_TOO_MANY_WAITERS,
                            "%llu calls of this client wait, max_waiters is %u",
                            (unsigned long long)remote->waiting, max_waiters);
    return BIDE_PENDING;
}

static int add(struct remote *remote, struct remote_op *op)
{
    int code = wait_for_room(remote, op);

    if (code == BIDE_PENDING)
        code = remote->client->prepare(remote, op);
    if (code != BIDE_PENDING)
        return code;

    bi_remote_op_add(remote, op);
    if (remote->connected && remote->client->starts_at_submit)
        remote->client->start(remote, op);
    if (!op->started)
        bi_remote_op_queue(remote, op);
    return BIDE_PENDING;
}

static int check(const struct remote *remote, bide_op *op)
{
    /* Without a completion queue or a blocking caller the result could never be reported. */
    if (op->cq == NULL && op->private_.wake == NULL)
        return bi_op_reject(op, BIDE_EINVAL,
                            "the op must wait for the server and names no completion queue");
    return remote->client->check == NULL ? BIDE_OK : remote->client->check(op);
}

static int submit_one(struct remote *remote, bide_op *op)
{
    int code = check(remote, op);

    if (code != BIDE_OK)
        return code;

    bool shut = atomic_load(&remote->shut);
    for (;;) {
        /* After shutdown a finish_and_reserve still finishes; only its reserve part is closed. */
        if (shut && bi_op_is(op, OP_RESERVES) && !bi_op_is(op, OP_TWO_PARTS))
            return bi_op_reject(op, BIDE_CLOSED, "the queue was closed");

        struct remote_op *remote_op = remote->client->new_op(remote, op, shut);
        if (remote_op == NULL)
            return bi_op_reject(op, BIDE_ENOMEM, "out of memory");

        pthread_mutex_lock(&remote->lock);
        /* shutdown may happen between new_op() and here. The op then has the wrong timeout and is
         * made again as one of a queue that is shut down. That cannot happen twice. */
        bool unchanged = atomic_load(&remote->shut) == shut;
        code = unchanged ? add(remote, remote_op) : BIDE_CLOSED;
        if (code != BIDE_PENDING)
            remote->client->release(remote, remote_op);
        bi_remote_op_wake_caller(remote); /* pass on the wakeup that this caller received */
        bi_remote_unlock(remote);

        if (unchanged)
            return code;
        shut = true;
    }
}

static int submit_remote(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct remote *remote = remote_of(backend);
    int pending = 0;

    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;

        int code = submit_one(remote, ops[i]);
        if (code == BIDE_PENDING) {
            pending++;
            continue;
        }
        ops[i]->status = code;
        remote->context.finish(ops[i]);
    }

    /* One write or one wakeup for all ops of this submit. */
    pthread_mutex_lock(&remote->lock);
    flush(remote);
    if (remote->has_queued)
        bi_remote_wake(remote);
    pthread_mutex_unlock(&remote->lock);
    return pending;
}

/* ---- cancel and shutdown ---- */

static void cancel_remote(struct backend *backend, bide_op *op)
{
    struct remote *remote = remote_of(backend);

    pthread_mutex_lock(&remote->lock);
    struct remote_op *remote_op = op->private_.waiter;
    /* NULL: the op has completed. */
    if (remote_op != NULL) {
        remote_op->cancelled = true;
        bi_remote_op_cancel(remote, remote_op);
        flush(remote);
    }
    bi_remote_unlock(remote);
}

static void shutdown_remote(struct backend *backend)
{
    struct remote *remote = remote_of(backend);

    pthread_mutex_lock(&remote->lock);
    int64_t deadline = bi_clock_boot() + remote->address.connect_timeout;
    atomic_store(&remote->shut, true);

    /* The server gets connect_timeout to confirm each cancel; then the connection counts as
     * lost. */
    for (struct remote_op *each = remote->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!each->waits || each->shut)
            continue;

        each->shut = each->client_expires = true;
        each->deadline = deadline;
        each->activity = remote->activity;
        bi_remote_op_arm_expiry(remote, each);
        bi_remote_op_cancel(remote, each);
    }

    flush(remote);
    bi_remote_wake(remote);
    bi_remote_unlock(remote);
}

/* ---- open and close ---- */

static void close_remote(struct backend *backend)
{
    struct remote *remote = remote_of(backend);

    shutdown_remote(backend);

    pthread_mutex_lock(&remote->lock);
    assert(!remote->closing);
    remote->closing = true;
    remote->close_deadline = bi_clock_boot() + remote->address.connect_timeout;
    /* All callers that wait for room return BIDE_CLOSED. */
    pthread_cond_broadcast(&remote->below_limit);
    pthread_mutex_unlock(&remote->lock);

    /* stop_fd ends a connect in progress; wake_fd ends a poll. */
    signal_fd(remote->stop_fd);
    signal_fd(remote->wake_fd);
    pthread_join(remote->thread, NULL);
    assert(remote->first == NULL && remote->completed.head == NULL);
}

static void free_remote(struct backend *backend)
{
    struct remote *remote = remote_of(backend);

    pthread_mutex_destroy(&remote->lock);
    pthread_cond_destroy(&remote->below_limit);
    if (remote->wake_fd >= 0)
        close(remote->wake_fd);
    if (remote->stop_fd >= 0)
        close(remote->stop_fd);
    remote->client->free(remote);
}

int bi_remote_open(struct remote *remote, const struct remote_client *client,
                   const struct backend_context *context, const struct address *address,
                   struct backend **out, char *error)
{
    remote->ops = (struct backend_ops){.scheme = client->scheme,
                                       .capabilities = client->capabilities,
                                       .may_block = true,
                                       .submit = submit_remote,
                                       .cancel = cancel_remote,
                                       .shutdown = shutdown_remote,
                                       .close = close_remote,
                                       .free = free_remote};
    remote->base.ops = &remote->ops;
    remote->client = client;
    remote->context = *context;
    remote->address = *address;
    remote->connected = true;
    remote->expire_at = REMOTE_NEVER;
    remote->random.state = context->options.seed;
    bi_remote_keepalive_reset(remote);

    remote->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    remote->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&remote->lock, NULL);
    pthread_cond_init(&remote->below_limit, NULL);

    const char *failed = remote->wake_fd < 0 || remote->stop_fd < 0 ? "eventfd" : NULL;
    if (failed == NULL && !bi_thread_start(&remote->thread, bi_remote_thread_run, remote))
        failed = "thread";
    if (failed != NULL) {
        snprintf(error, BIDE_ERROR_SIZE, "open: cannot create %s: %s", failed,
                 strerrordesc_np(errno));
        free_remote(&remote->base);
        return BIDE_ESYSTEM;
    }

    *out = &remote->base;
    return BIDE_OK;
}
