/* SPDX-License-Identifier: MIT */
/*
 * cq - completion queues: deliver completed ops to the thread that drains the queue.
 *
 * The owner waits in one of two ways: in bide_cq_wait(), as a sleeper with a semaphore, or in its
 * own event loop on the file descriptor. A completion wakes the sleepers if there are any, and
 * signals the descriptor otherwise, because a system call on the descriptor costs more.
 *
 * Threads    Backends complete ops from any thread. Callbacks run in bide_cq_drain(), on the
 *            thread of the owner.
 * Failure    Nothing here allocates after bide_cq_new(): a completion cannot fail.
 */
#define _GNU_SOURCE /* sem_clockwait() */
#include "op/op_fifo.h"
#include "queue/queue.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/*
 * A thread in bide_cq_wait(). The struct is on its stack. Once another thread has removed it
 * from the list, the sleeper stays until the semaphore is posted. So the post happens without
 * the lock, which the sleeper acquires next, and nothing of the cq may be accessed after it: the
 * sleeper may free the cq.
 */
struct sleeper {
    sem_t wakeup;
    struct sleeper *next;
    bide_cq *cq;
};

struct bide_cq {
    pthread_mutex_t lock;
    struct sleeper *sleepers;
    struct op_fifo completed;
    int fd; /* readable while ops are completed and no thread sleeps */
    bool fd_signalled;
    bool wake_pending;        /* the next bide_cq_wait() must return */
    bool notify_disabled;     /* the owner drains before it sleeps */
    _Atomic uint64_t pending; /* submitted, not drained */
};

#define FOREVER INT64_MAX

static BI_THREAD_LOCAL bool in_callback;

bool bi_cq_in_callback(void)
{
    return in_callback;
}

int bide_cq_new(bide_cq **out)
{
    bi_last_error_clear();
    if (out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "cq_new: out is NULL");

    bide_cq *cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "cq_new: out of memory");
    cq->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (cq->fd < 0) {
        int number = errno;
        free(cq);
        return bi_last_error_set(BIDE_ESYSTEM, "cq_new: cannot create eventfd: %s",
                                 strerror(number));
    }

    pthread_mutex_init(&cq->lock, NULL);
    *out = cq;
    return BIDE_OK;
}

int bide_cq_free(bide_cq *cq)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (cq == NULL)
        return BIDE_OK;

    if (atomic_load(&cq->pending) != 0)
        return bi_last_error_set(BIDE_EBUSY,
                                 "cq_free: ops that complete here are pending, or not drained");

    /* The thread that completed the last op may not have released the lock yet. */
    pthread_mutex_lock(&cq->lock);
    pthread_mutex_unlock(&cq->lock);

    pthread_mutex_destroy(&cq->lock);
    close(cq->fd);
    free(cq);
    return BIDE_OK;
}

int bide_cq_fd(const bide_cq *cq)
{
    bi_last_error_clear();
    return cq == NULL ? bi_last_error_set(BIDE_EINVAL, "cq_fd: cq is NULL") : cq->fd;
}

void bi_cq_add_pending(bide_cq *cq)
{
    if (cq != NULL)
        atomic_fetch_add_explicit(&cq->pending, 1, memory_order_relaxed);
}

void bi_cq_remove_pending(bide_cq *cq)
{
    if (cq != NULL)
        atomic_fetch_sub_explicit(&cq->pending, 1, memory_order_release);
}

static void signal_fd(bide_cq *cq)
{
    BI_NO_CANCEL;
    uint64_t one = 1;
    cq->fd_signalled = write(cq->fd, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

/* Wakes the owner and releases the lock: there are ops to drain, or a wait must end. An owner
 * either sleeps here or polls the descriptor, so the descriptor is signalled only if no thread
 * sleeps. */
static void notify_and_unlock(bide_cq *cq)
{
    struct sleeper *sleeper = cq->sleepers;
    struct sleeper *next = sleeper == NULL ? NULL : sleeper->next;

    cq->sleepers = NULL;
    if (sleeper == NULL && !cq->notify_disabled && !cq->fd_signalled)
        signal_fd(cq);

    pthread_mutex_unlock(&cq->lock);

    /* A posted sleeper may return at once and its stack frame be reused: `next` is read before
     * the post. The first one is read under the lock; usually there is only that one. */
    while (sleeper != NULL) {
        sem_post(&sleeper->wakeup);
        sleeper = next;
        next = sleeper == NULL ? NULL : sleeper->next;
    }
}

static void clear_fd(bide_cq *cq)
{
    if (!cq->fd_signalled)
        return;
    BI_NO_CANCEL;
    uint64_t count;
    cq->fd_signalled = read(cq->fd, &count, sizeof(count)) != (ssize_t)sizeof(count);
}

void bi_cq_disable_notify(bide_cq *cq)
{
    pthread_mutex_lock(&cq->lock);
    cq->notify_disabled = true;
    clear_fd(cq);
    pthread_mutex_unlock(&cq->lock);
}

bool bi_cq_enable_notify(bide_cq *cq)
{
    pthread_mutex_lock(&cq->lock);
    cq->notify_disabled = false;
    bool has_completed = cq->completed.head != NULL;
    pthread_mutex_unlock(&cq->lock);
    return has_completed;
}

void bi_cq_wake(bide_cq *cq)
{
    pthread_mutex_lock(&cq->lock);
    cq->wake_pending = true;
    notify_and_unlock(cq);
}

void bi_cq_complete(bide_op *ops)
{
    while (ops != NULL) {
        bide_op *next = ops->private_.next;

        /* A blocking call. Its op is on the stack of the caller: after the post it may be
         * gone. */
        if (ops->private_.wake != NULL) {
            sem_post(ops->private_.wake);
            ops = next;
            continue;
        }

        /* Ops of one cq that follow each other take its lock once. */
        bide_cq *cq = ops->cq;
        assert(cq != NULL);
        pthread_mutex_lock(&cq->lock);
        do {
            next = ops->private_.next;
            bi_op_fifo_push(&cq->completed, ops);
            ops = next;
        } while (ops != NULL && ops->private_.wake == NULL && ops->cq == cq);
        notify_and_unlock(cq);
    }
}

/* Removes up to max completed ops (0: all) and returns them as a list. */
static bide_op *pop_many(bide_cq *cq, size_t max)
{
    struct op_fifo popped = {NULL, NULL};

    pthread_mutex_lock(&cq->lock);
    if (max == 0)
        popped = bi_op_fifo_take(&cq->completed);
    for (; max > 0 && cq->completed.head != NULL; max--)
        bi_op_fifo_push(&popped, bi_op_fifo_pop(&cq->completed));

    /* The descriptor stays readable while ops are left, so that the event loop calls again. */
    if (cq->completed.head == NULL) {
        clear_fd(cq);
        cq->wake_pending = false;
    }
    pthread_mutex_unlock(&cq->lock);
    return popped.head;
}

int bide_cq_drain(bide_cq *cq, size_t max)
{
    bi_last_error_clear();
    if (cq == NULL)
        return bi_last_error_set(BIDE_EINVAL, "cq_drain: cq is NULL");
    if (in_callback)
        return bi_last_error_set(BIDE_ECALLBACK, "cq_drain: called from a completion callback");

    int count = 0;
    bide_op *op = pop_many(cq, max);
    if (op == NULL)
        return 0;

    /* A callback that is cancelled would lose the ops that follow it. */
    BI_NO_CANCEL;
    in_callback = true;
    while (op != NULL) {
        bide_op *next = op->private_.next;
        op->status = op->private_.status;
        assert(op->cq == cq && op->status != BIDE_PENDING);
        bi_submit_finalize(op);
        bi_cq_remove_pending(cq);
        /* The callback may free or resubmit the op: nothing of it is read afterwards. */
        if (op->done != NULL)
            op->done(op);
        op = next;
        count++;
    }

    in_callback = false;
    return count;
}

/* Waits until the semaphore is posted (true) or the end, on the boot-time clock, has passed. */
static bool wait_wakeup(sem_t *wakeup, int64_t end)
{
    for (;;) {
        int code;
        if (end == FOREVER) {
            code = sem_wait(wakeup);
        } else {
            struct timespec until;
            /* The semaphore waits on another clock, which stops during a suspend: the rest is
             * computed again after each wait. */
            int64_t left = end - bi_clock_boot();
            if (left <= 0)
                return false;
            bi_clock_mono_deadline(&until, left);
            code = sem_clockwait(wakeup, CLOCK_MONOTONIC, &until);
        }

        if (code == 0)
            return true;
    }
}

/* Removes a sleeper from the list. False: another thread has removed it and is about to post
 * it. */
static bool unlink_sleeper(const struct sleeper *sleeper)
{
    bide_cq *cq = sleeper->cq;

    pthread_mutex_lock(&cq->lock);
    struct sleeper **at = &cq->sleepers;
    while (*at != NULL && *at != sleeper)
        at = &(*at)->next;

    bool found = *at != NULL;
    if (found)
        *at = sleeper->next;
    pthread_mutex_unlock(&cq->lock);
    return found;
}

/* Cleanup of a sleeper whose thread is cancelled. A wakeup that it received is passed on: a
 * completion that wakes a sleeper does not signal the descriptor. */
static void cancel_sleep(void *arg)
{
    struct sleeper *self = arg;
    bide_cq *cq = self->cq;

    /* The other thread still accesses the semaphore: wait for its post. */
    if (!unlink_sleeper(self))
        wait_wakeup(&self->wakeup, FOREVER);
    sem_destroy(&self->wakeup);

    pthread_mutex_lock(&cq->lock);
    if (cq->completed.head != NULL || cq->wake_pending)
        notify_and_unlock(cq);
    else
        pthread_mutex_unlock(&cq->lock);
}

/* Sleeps until the semaphore is posted or the end has passed. The only place where the thread
 * of a waiting owner may be cancelled. */
static bool sleep_cancellable(struct sleeper *self, int64_t end, int cancel_state)
{
    bool posted;
    pthread_cleanup_push(cancel_sleep, self);
    pthread_setcancelstate(cancel_state, NULL);
    posted = wait_wakeup(&self->wakeup, end);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);
    return posted;
}

/* Sleeps until an op has completed, bi_cq_wake() is called, or the timeout has passed. */
static void sleep_until_completion(bide_cq *cq, int64_t timeout_ms, int cancel_state)
{
    struct sleeper self;

    pthread_mutex_lock(&cq->lock);
    bool sleeps = cq->completed.head == NULL && !cq->wake_pending && timeout_ms != 0;
    if (sleeps) {
        sem_init(&self.wakeup, 0, 0);
        self.next = cq->sleepers;
        self.cq = cq;
        cq->sleepers = &self;
    }
    pthread_mutex_unlock(&cq->lock);
    if (!sleeps)
        return;

    /* One more microsecond: the clock rounds down, and a wait must not return early. */
    int64_t end = timeout_ms < 0 ? FOREVER : bi_clock_boot() + timeout_ms * 1000 + 1;

    /* After a timeout a post may still be on its way; the semaphore must outlive it. */
    if (!sleep_cancellable(&self, end, cancel_state) && !unlink_sleeper(&self))
        wait_wakeup(&self.wakeup, FOREVER);
    sem_destroy(&self.wakeup);
}

int bide_cq_wait(bide_cq *cq, int64_t timeout_ms)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (cq == NULL)
        return bi_last_error_set(BIDE_EINVAL, "cq_wait: cq is NULL");
    if (timeout_ms < BIDE_FOREVER || timeout_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(
            BIDE_EINVAL, "cq_wait: a timeout is 0 to 136 years in milliseconds, or BIDE_FOREVER");
    if (in_callback)
        return bi_last_error_set(BIDE_ECALLBACK, "cq_wait: called from a completion callback");

    sleep_until_completion(cq, timeout_ms, cancel_state_);
    return bide_cq_drain(cq, 0);
}
