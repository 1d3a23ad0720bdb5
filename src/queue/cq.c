/* SPDX-License-Identifier: MIT */
/*
 * cq - completion queues: how pending ops find back to the thread that owns them.
 */
#define _GNU_SOURCE /* sem_clockwait() */
#include "queue/queue.h"
#include "util/clock.h"
#include "util/thread.h"

#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* Somebody in bide_cq_wait(). It lies on his stack, and once it is taken out of the list he stays
 * until it is posted. So that is done without the lock, which he needs next, and nothing of the
 * completion queue is touched after it. */
struct sleeper {
    sem_t told;
    struct sleeper *next;
    bide_cq *cq;
};

struct bide_cq {
    pthread_mutex_t lock;
    struct sleeper *sleepers;
    bide_op *head, *tail; /* completed */
    int fd;               /* readable while there is something, and nobody sleeps */
    bool raised;
    bool woken;                /* the next bide_cq_wait() is to return */
    bool attended;             /* the owner looks by itself */
    _Atomic uint64_t expected; /* handed over, not drained */
};

#define FOREVER INT64_MAX

static BI_THREAD_LOCAL bool in_callback;

bool bi_in_callback(void)
{
    return in_callback;
}

int bide_cq_new(bide_cq **out)
{
    bi_error_clear();
    if (out == NULL)
        return bi_error_set(BIDE_EINVAL, "cq_new: out is NULL");
    bide_cq *cq = calloc(1, sizeof(*cq));
    if (cq == NULL)
        return bi_error_set(BIDE_ENOMEM, "cq_new: out of memory");
    cq->fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (cq->fd < 0) {
        free(cq);
        return bi_error_set(BIDE_ESYSTEM, "cq_new: the system gives no more eventfds");
    }
    pthread_mutex_init(&cq->lock, NULL);
    *out = cq;
    return BIDE_OK;
}

int bide_cq_free(bide_cq *cq)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (cq == NULL)
        return BIDE_OK;
    if (atomic_load(&cq->expected) != 0)
        return bi_error_set(BIDE_EBUSY,
                            "cq_free: ops that complete here are pending, or not drained");
    /* Whoever completed the last op may still be giving back the lock. */
    pthread_mutex_lock(&cq->lock);
    pthread_mutex_unlock(&cq->lock);
    pthread_mutex_destroy(&cq->lock);
    close(cq->fd);
    free(cq);
    return BIDE_OK;
}

int bide_cq_fd(const bide_cq *cq)
{
    bi_error_clear();
    return cq == NULL ? bi_error_set(BIDE_EINVAL, "cq_fd: cq is NULL") : cq->fd;
}

void bi_cq_expect(bide_cq *cq)
{
    if (cq != NULL)
        atomic_fetch_add_explicit(&cq->expected, 1, memory_order_relaxed);
}

void bi_cq_unexpect(bide_cq *cq)
{
    if (cq != NULL)
        atomic_fetch_sub_explicit(&cq->expected, 1, memory_order_release);
}

static void raise_fd(bide_cq *cq)
{
    BI_NO_CANCEL;
    uint64_t one = 1;
    cq->raised = write(cq->fd, &one, sizeof(one)) == (ssize_t)sizeof(one);
}

/*
 * There is something to drain, or a wait is to end: tells the owner, and gives back the lock. One
 * who sleeps here polls nothing, and one who polls does not sleep here: the fd is raised only for
 * the latter, since that takes longer. Who sleeps is usually alone, and then nothing of his but the
 * semaphore is looked at without the lock.
 */
static void tell_and_unlock(bide_cq *cq)
{
    struct sleeper *sleeper = cq->sleepers;
    struct sleeper *next = sleeper == NULL ? NULL : sleeper->next;
    cq->sleepers = NULL;
    if (sleeper == NULL && !cq->attended && !cq->raised)
        raise_fd(cq);
    pthread_mutex_unlock(&cq->lock);
    while (sleeper != NULL) {
        sem_post(&sleeper->told);
        sleeper = next;
        next = sleeper == NULL ? NULL : sleeper->next;
    }
}

static void lower_fd(bide_cq *cq)
{
    if (!cq->raised)
        return;
    BI_NO_CANCEL;
    uint64_t count;
    cq->raised = read(cq->fd, &count, sizeof(count)) != (ssize_t)sizeof(count);
}

void bi_cq_attend(bide_cq *cq)
{
    pthread_mutex_lock(&cq->lock);
    cq->attended = true;
    lower_fd(cq);
    pthread_mutex_unlock(&cq->lock);
}

bool bi_cq_leave(bide_cq *cq)
{
    pthread_mutex_lock(&cq->lock);
    cq->attended = false;
    bool filled = cq->head != NULL;
    pthread_mutex_unlock(&cq->lock);
    return filled;
}

void bi_cq_wake(bide_cq *cq)
{
    pthread_mutex_lock(&cq->lock);
    cq->woken = true;
    tell_and_unlock(cq);
}

/* A run of ops, first to last, all of one completion queue. */
static void fill(bide_cq *cq, bide_op *first, bide_op *last)
{
    last->private_.next = NULL;
    pthread_mutex_lock(&cq->lock);
    if (cq->tail != NULL)
        cq->tail->private_.next = first;
    else
        cq->head = first;
    cq->tail = last;
    tell_and_unlock(cq);
}

void bi_cq_complete(bide_op *ops)
{
    while (ops != NULL) {
        bide_op *first = ops;
        bide_op *last = ops;
        bide_op *next = last->private_.next;
        if (first->private_.wake != NULL) {
            sem_post(first->private_.wake);
            ops = next;
            continue;
        }
        while (next != NULL && next->private_.wake == NULL && next->cq == first->cq) {
            last = next;
            next = last->private_.next;
        }
        fill(first->cq, first, last);
        ops = next;
    }
}

static bide_op *take_one(bide_cq *cq)
{
    bide_op *op = cq->head;
    if (op == NULL)
        return NULL;
    cq->head = op->private_.next;
    if (cq->head == NULL)
        cq->tail = NULL;
    return op;
}

/* What has completed by now, at most max, as a list. */
static bide_op *take(bide_cq *cq, size_t max)
{
    bide_op *list = NULL;
    bide_op **end = &list;
    pthread_mutex_lock(&cq->lock);
    for (size_t i = 0; max == 0 || i < max; i++) {
        bide_op *op = take_one(cq);
        if (op == NULL)
            break;
        *end = op;
        end = &op->private_.next;
    }
    *end = NULL;
    if (cq->head == NULL) {
        lower_fd(cq);
        cq->woken = false;
    }
    pthread_mutex_unlock(&cq->lock);
    return list;
}

int bide_cq_drain(bide_cq *cq, size_t max)
{
    bi_error_clear();
    if (cq == NULL)
        return bi_error_set(BIDE_EINVAL, "cq_drain: cq is NULL");
    if (in_callback)
        return bi_error_set(BIDE_ECALLBACK, "cq_drain: called from a completion callback");
    int count = 0;
    bide_op *op = take(cq, max);
    if (op == NULL)
        return 0;
    BI_NO_CANCEL; /* a callback that is cancelled would lose the ops behind it */
    in_callback = true;
    while (op != NULL) {
        bide_op *next = op->private_.next;
        op->status = op->private_.status;
        bi_submit_settle(op);
        bi_cq_unexpect(cq);
        if (op->done != NULL)
            op->done(op);
        op = next;
        count++;
    }
    in_callback = false;
    return count;
}

/* Until somebody posts, or the end has come; on the boot-time clock. */
static bool await_post(sem_t *told, int64_t end)
{
    for (;;) {
        int code;
        if (end == FOREVER) {
            code = sem_wait(told);
        } else {
            struct timespec until;
            int64_t left = end - bi_clock_boot();
            if (left <= 0)
                return false;
            bi_clock_until(&until, left);
            code = sem_clockwait(told, CLOCK_MONOTONIC, &until);
        }
        if (code == 0)
            return true;
    }
}

/* Takes it out of the list; false: that has been done, and it is about to be posted. */
static bool withdraw(const struct sleeper *sleeper)
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

/* The thread was cancelled while it slept. If it had just been woken, that is passed on: the fd is
 * not raised for a completion that wakes a sleeper. */
static void stop_sleeping(void *arg)
{
    struct sleeper *self = arg;
    bide_cq *cq = self->cq;
    if (!withdraw(self))
        await_post(&self->told, FOREVER);
    sem_destroy(&self->told);
    pthread_mutex_lock(&cq->lock);
    if (cq->head != NULL || cq->woken)
        tell_and_unlock(cq);
    else
        pthread_mutex_unlock(&cq->lock);
}

/* Sleeps until it is posted or the end has come. Here, and only here, the thread may be cancelled. */
static bool sleep_cancellable(struct sleeper *self, int64_t end, int cancel_state)
{
    bool posted;
    pthread_cleanup_push(stop_sleeping, self);
    pthread_setcancelstate(cancel_state, NULL);
    posted = await_post(&self->told, end);
    pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
    pthread_cleanup_pop(0);
    return posted;
}

/* Until there is something to drain, the owner is woken, or the time is over. */
static void sleep_here(bide_cq *cq, int64_t timeout_ms, int cancel_state)
{
    struct sleeper self;
    pthread_mutex_lock(&cq->lock);
    bool sleeps = cq->head == NULL && !cq->woken && timeout_ms != 0;
    if (sleeps) {
        sem_init(&self.told, 0, 0);
        self.next = cq->sleepers;
        self.cq = cq;
        cq->sleepers = &self;
    }
    pthread_mutex_unlock(&cq->lock);
    if (!sleeps)
        return;
    /* The clock rounds down. */
    int64_t end = timeout_ms < 0 ? FOREVER : bi_clock_boot() + timeout_ms * 1000 + 1;
    if (!sleep_cancellable(&self, end, cancel_state) && !withdraw(&self))
        await_post(&self.told, FOREVER);
    sem_destroy(&self.told);
}

int bide_cq_wait(bide_cq *cq, int64_t timeout_ms)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (cq == NULL)
        return bi_error_set(BIDE_EINVAL, "cq_wait: cq is NULL");
    if (timeout_ms < BIDE_FOREVER || timeout_ms > BIDE_TIME_MAX_MS)
        return bi_error_set(
            BIDE_EINVAL, "cq_wait: a timeout is 0 to 136 years in milliseconds, or BIDE_FOREVER");
    if (in_callback)
        return bi_error_set(BIDE_ECALLBACK, "cq_wait: called from a completion callback");
    sleep_here(cq, timeout_ms, cancel_state_);
    return bide_cq_drain(cq, 0);
}
