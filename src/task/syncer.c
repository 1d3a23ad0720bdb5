/* SPDX-License-Identifier: MIT */
/*
 * syncer - retries acks that the queue could not accept (the disk is full, the server is not
 * reachable) until the lease ends.
 *
 * A handler that has done its work should not run again because the queue was away for a short
 * time. Meanwhile the worker thread runs other jobs; see has_too_many_acks() for the limit.
 *
 * Ownership  The list owns copies of the acks.
 * Failure    An ack whose lease ends before the queue accepts it is abandoned, with an event. The
 *            job then runs again.
 * Threads    Worker threads insert at the head, under the worker's lock. Only the background thread
 *            removes, so it reads `next` of a linked ack without the lock.
 */
#include "task/worker_internal.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

bool bi_syncer_add(struct background *background, struct ack *ack)
{
    bide_worker *worker = background->worker;
    struct ack *pending = malloc(sizeof(*pending));
    if (pending == NULL)
        return false;

    assert(ack->id != 0 && !ack->in_flight);
    *pending = *ack;
    ack->result = NULL;
    ack->puts = NULL;

    /* The copy is a new op, whose private part begins zeroed. */
    memset(&pending->op.private_, 0, sizeof(pending->op.private_));
    pending->in_flight = false;

    /* A local copy: once the lock is released the background thread may free the ack. */
    int64_t retry_at = pending->retry_at = bi_clock_boot() + pending->retry_delay;

    pthread_mutex_lock(&worker->lock);
    pending->next = worker->pending_acks;
    worker->pending_acks = pending;
    worker->pending_ack_count++;
    pthread_mutex_unlock(&worker->lock);

    bi_background_schedule(background, retry_at);
    return true;
}

static void remove_ack(bide_worker *worker, struct ack *pending)
{
    pthread_mutex_lock(&worker->lock);
    struct ack **at = &worker->pending_acks;
    while (*at != NULL && *at != pending)
        at = &(*at)->next;
    assert(*at == pending && !pending->in_flight && worker->pending_ack_count > 0);
    *at = pending->next;

    /* The count drops below the limit at which worker threads stop reserving. */
    bool wanted = worker->pending_ack_count-- == worker->options.threads;
    pthread_cond_broadcast(&worker->changed); /* a stop waits for the last ack */
    pthread_mutex_unlock(&worker->lock);

    bi_ack_clear(pending);
    free(pending);
    for (uint32_t i = 0; wanted && i < worker->options.threads; i++)
        bi_worker_thread_wake(&worker->threads[i]);
}

/* Acks that are inserted later are not part of the caller's walk; their insert schedules another
 * turn. */
static struct ack *first_ack(bide_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    struct ack *first = worker->pending_acks;
    pthread_mutex_unlock(&worker->lock);
    return first;
}

void bi_syncer_complete(struct background *background, int64_t now)
{
    struct ack *next;
    for (struct ack *pending = first_ack(background->worker); pending != NULL; pending = next) {
        next = pending->next; /* remove_ack() frees it */
        if (!pending->in_flight || pending->op.status == BIDE_PENDING)
            continue;
        pending->in_flight = false;
        if (bi_ack_complete(pending, background->worker))
            remove_ack(background->worker, pending);
        else
            pending->retry_at = now + pending->retry_delay;
    }
}

/* Returns when this ack needs the syncer next. Frees it when the lease has ended. */
static int64_t run_one(struct background *background, struct ack *pending, int64_t now)
{
    if (pending->in_flight)
        return NEVER;
    if (now >= pending->lease_end) {
        bi_ack_abandon(pending, background->worker, BIDE_LEASE_LOST);
        remove_ack(background->worker, pending);
        return NEVER;
    }
    if (now < pending->retry_at)
        return bi_background_earlier(pending->retry_at, pending->lease_end);

    bide_op *const list[1] = {&pending->op};
    pending->op.cq = background->cq;
    pending->in_flight = true;
    bi_ack_prepare(pending);
    bide_submit(background->worker->queue, list, 1);

    /* Completed within submit: run again at once, since nothing wakes the cq. */
    return pending->op.status == BIDE_PENDING ? NEVER : now;
}

int64_t bi_syncer_run(struct background *background, int64_t now)
{
    int64_t due = NEVER;
    struct ack *next;

    for (struct ack *pending = first_ack(background->worker); pending != NULL; pending = next) {
        next = pending->next; /* run_one() may free it */
        due = bi_background_earlier(due, run_one(background, pending, now));
    }

    return due;
}

bool bi_syncer_abandon(struct background *background)
{
    struct ack *next;

    for (struct ack *pending = first_ack(background->worker); pending != NULL; pending = next) {
        next = pending->next;
        if (pending->in_flight)
            continue; /* the queue owns the op until it completes */
        bi_ack_abandon(pending, background->worker, BIDE_TIMED_OUT);
        remove_ack(background->worker, pending);
    }

    return first_ack(background->worker) != NULL;
}
