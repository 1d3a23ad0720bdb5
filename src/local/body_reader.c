/* SPDX-License-Identifier: MIT */
/*
 * body_reader - the reader thread: reads bodies that are not in memory.
 *
 * Ops that lack bodies wait in awaiting_body. The reader collects some of them under the lock,
 * reads all their bodies in one batch without it, and supplies the bodies to the core, which
 * decides how each op continues. Each batch also prefetches some bodies that will probably be
 * needed next. During recovery the thread also fetches the jobs that ops name.
 *
 * Failure    A body that cannot be read now is retried for READ_TIMEOUT_US. If other bodies were
 *            read in that time, this one is damaged: the core buries its job, and the op continues.
 *            Otherwise the store is unavailable, and the op fails. It also fails if memory is
 *            short, which is no damage. An op retains the bodies that were read; each of them
 *            restarts the time of the others.
 * Threads    During the read `reads` points to the stack of the reader. A rollback may complete
 *            an op of the batch meanwhile; it clears the op's entry there, under the lock.
 */
#include "local/local_internal.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ops in one batch, and bodies that are prefetched with them. */
#define READ_OPS       64
#define PREFETCH_COUNT 64
#define PREFETCH_BYTES (1 << 20)
/* How long a body of an op is retried. */
#define READ_TIMEOUT_US 5000000
/* The interval between two attempts. */
#define READ_RETRY_MS 20

static void leave(struct local *local, const bide_op *op)
{
    bi_op_count_remove(&local->reading, op);
    if (local->blocked_callers > 0)
        pthread_cond_broadcast(&local->below_limit);
}

/* ---- failing ops ---- */

/* Undoes the success of an op that lacks bodies: its jobs are given back, and it gets the error. */
static void revoke_reply(struct local *local, bide_op *op, int code, const char *error)
{
    leave(local, op);
    /* The core has run the op successfully. The functions below undo results only in that case. */
    op->private_.status = BIDE_OK;
    bi_lease_undo_reserve(local->core, op, bi_local_now(local));
    bi_waiter_unpark(local->core, op);
    bi_commit_revoke(local, op, code, error);
}

/* Fails an op whose bodies cannot be read. If it is a finish_and_reserve whose finish is not
 * durable yet, only the reserve fails: the op is held until the outcome of the finish is known. The
 * caller then serves the calls that wait for the jobs which are put back (bi_core_serve). */
static void fail_op(struct local *local, bide_op *op, int code, const char *error)
{
    bide_finish_item *finish = bi_op_finish_part(op);
    bool finishes = finish != NULL && op->private_.step.fetch.part.finish_batch >
                                          bi_journal_committed_batch(local->core);
    int status = finishes ? finish->status : BIDE_OK;

    revoke_reply(local, op, code, error);

    if (!finishes) {
        bi_op_fifo_push(&local->completed, op);
        return;
    }

    finish->status = status;
    op->private_.hold = op->private_.step.fetch.part.finish_batch;
    bi_commit_hold(local, op);
}

void bi_body_reader_enqueue(struct local *local, bide_op *op)
{
    assert(op->private_.status == BIDE_OK && (op->private_.flags & BI_BODY_MISSING) != 0);
    bi_op_count_add(&local->reading, op);

    /* The core needs the arguments again when the bodies are supplied, for instance a text to
     * search for. An op that waited in the core has copies there, and its arguments may be
     * freed. */
    if (op->private_.waiter == NULL && !bi_local_dup_args(local, op)) {
        fail_op(local, op, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
        bi_core_serve(local->core, bi_local_now(local));
        return;
    }

    op->private_.step.fetch.unreadable_since = 0;
    bi_op_fifo_push(&local->awaiting_body, op);
    pthread_cond_signal(&local->reader_work);
}

bool bi_body_reader_fail(struct local *local, int code, const char *error, int64_t until)
{
    assert(local->rollback.running && local->read_count <= READ_OPS);
    /* The batch that is being read. Its entry is cleared, and reply_ops() skips the op. */
    for (size_t i = 0; i < local->read_count; i++) {
        struct body_read *body_read = &local->reads[i];
        if (body_read->op == NULL || !bi_commit_must_hold(local, body_read->op))
            continue;
        revoke_reply(local, body_read->op, code, error);
        bi_op_fifo_push(&local->completed, body_read->op);
        body_read->op = NULL;
    }

    /* Ops of awaiting_body, which rollback.c has moved aside. Those that depend on durable changes
     * only go back. */
    bide_op *op;
    while ((op = bi_op_fifo_pop(&local->rollback.awaiting_body)) != NULL) {
        bool undone = bi_commit_must_hold(local, op);
        if (undone)
            revoke_reply(local, op, code, error);
        bi_op_fifo_push(undone ? &local->completed : &local->awaiting_body, op);

        if (bi_clock_boot() >= until)
            break;
    }

    return local->rollback.awaiting_body.head != NULL;
}

/* ---- reading one batch ---- */

struct read_batch {
    struct body_read reads[READ_OPS];
    size_t read_count;
    size_t count;          /* bodies that ops lack, then prefetched ones */
    size_t prefetch_start; /* where the prefetched ones begin */
    struct bi_body *bodies;
    struct store_body_request *wants;
    bool read;   /* at least one body was read */
    bool failed; /* at least one body must be retried */
    bool logged; /* the previous batch has logged that bodies cannot be read */
};

/* Returns the number of bodies that an op lacks, and adds up their sizes. */
static size_t count_missing(const bide_op *op, uint64_t *bytes)
{
    struct bi_body some[64];
    size_t count = 0;
    size_t got;
    while ((got = bi_body_fetch_missing(op, count, some, 64)) > 0) {
        for (size_t i = 0; i < got; i++)
            *bytes += some[i].size;
        count += got;
    }
    return count;
}

/* Pops ops from the list and collects the bodies that they lack: at most those of one op above
 * BIDE_BATCH_BYTES. False when out of memory: the popped ops are in batch->reads. The lock is
 * held. */
static bool collect_ops(struct local *local, struct read_batch *batch)
{
    assert(local->awaiting_body.head != NULL && batch->read_count == 0);
    uint64_t bytes = 0;

    while (batch->read_count < READ_OPS && batch->count < BIDE_BATCH_JOBS &&
           bytes < BIDE_BATCH_BYTES && local->awaiting_body.head != NULL) {
        bide_op *op = bi_op_fifo_pop(&local->awaiting_body);
        size_t count = count_missing(op, &bytes);
        batch->reads[batch->read_count++] = (struct body_read){op, batch->count, count};
        batch->count += count;
    }

    batch->bodies = malloc((batch->count + PREFETCH_COUNT) * sizeof(*batch->bodies));
    batch->wants = malloc((batch->count + PREFETCH_COUNT) * sizeof(*batch->wants));
    if (batch->bodies == NULL || batch->wants == NULL)
        return false;

    for (size_t i = 0; i < batch->read_count; i++) {
        const struct body_read *body_read = &batch->reads[i];
        bi_body_fetch_missing(body_read->op, 0, batch->bodies + body_read->first, body_read->count);
    }

    /* The array has room for PREFETCH_COUNT bodies behind those that ops lack. */
    batch->prefetch_start = batch->count;
    if (batch->count > 0)
        batch->count += bi_body_fetch_readahead(
            local->core, batch->bodies[batch->prefetch_start - 1].id,
            batch->bodies + batch->prefetch_start, PREFETCH_COUNT, PREFETCH_BYTES);

    return true;
}

/* Without the lock. */
static void read_bodies(struct local *local, struct read_batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        batch->wants[i] =
            (struct store_body_request){.id = batch->bodies[i].id, .size = batch->bodies[i].size};
    local->store->ops->read(local->store, batch->wants, batch->count);

    for (size_t i = 0; i < batch->count; i++) {
        batch->bodies[i].body = batch->wants[i].body;
        batch->bodies[i].reason = batch->wants[i].reason;
        batch->read |= batch->wants[i].body != NULL;
        batch->failed |= batch->wants[i].retry;
    }
}

/* Whether a missing body is an error: it is not if the job was deleted since the op ran. */
static bool job_exists(struct local *local, uint64_t id)
{
    bi_local_lock(local);
    bool there = bi_job_exists(local->core, id);
    pthread_mutex_unlock(&local->lock);
    return there;
}

static void log_unreadable(struct local *local, const struct read_batch *batch)
{
    if (bi_store_past_deadline(local->store))
        return;

    /* Prefetched bodies are not logged. A body that is retried is logged once per outage. */
    for (size_t i = 0; i < batch->prefetch_start; i++)
        if (batch->bodies[i].body == NULL && (!batch->wants[i].retry || !batch->logged) &&
            job_exists(local, batch->bodies[i].id))
            bi_log(&local->context.log, BIDE_LOG_ERROR,
                   batch->wants[i].retry
                       ? "the body of job %llu cannot be read now, and is tried again: %s"
                       : "the body of job %llu cannot be read: %s",
                   (unsigned long long)batch->bodies[i].id, batch->bodies[i].reason);
}

/* ---- supplying ops ---- */

/* Whether a body of the op must be retried; *no_memory: because memory was short. */
static bool needs_retry(const struct read_batch *batch, const struct body_read *body_read,
                        bool *no_memory)
{
    bool retry = false;
    for (size_t i = 0; i < body_read->count; i++) {
        const struct store_body_request *want = &batch->wants[body_read->first + i];
        retry |= want->retry;
        *no_memory |= want->out_of_memory;
    }
    return retry;
}

/* Decides how an op continues of which some bodies must be retried. True: they count as damaged,
 * and the op continues without them. False: the op is queued again or has failed. */
static bool retry_or_fail(struct local *local, const struct read_batch *batch,
                          const struct body_read *body_read, bool no_memory)
{
    bide_op *op = body_read->op;
    int64_t now = bi_clock_boot();
    int64_t *since = &op->private_.step.fetch.unreadable_since;

    /* If all bodies were read again, a few failing reads would hit one of many in every attempt. */
    bool kept = bi_body_fetch_keep(op, batch->bodies + body_read->first);
    if (*since == 0 || kept)
        *since = now;

    if (local->closing) {
        fail_op(local, op, BIDE_CLOSED, bide_code_text(BIDE_CLOSED));
    } else if (now - *since < READ_TIMEOUT_US) {
        bi_op_fifo_push(&local->awaiting_body, op);
    } else if (no_memory) {
        fail_op(local, op, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
    } else if (local->last_read_at > *since) {
        return true; /* the store can be read: these bodies are damaged */
    } else {
        fail_op(local, op, BIDE_EIO, "the store cannot be read now; try again later");
    }

    return false;
}

static void supply_bodies(struct local *local, bide_op *op, const struct bi_body *bodies)
{
    int code = bi_body_fetch_supply(local->core, op, bodies, bi_local_now(local));
    /* Bodies could not be read, and the reserve has taken another job whose body must be read. */
    if (code == BI_AGAIN) {
        op->private_.step.fetch.unreadable_since = 0;
        bi_op_fifo_push(&local->awaiting_body, op);
        return;
    }

    leave(local, op);
    /* There was no other job, and the op waits in the core again. A cancel may have been requested
     * during the read. */
    if (code == BIDE_PENDING)
        bi_local_cancel_if_requested(local, op);
    else
        bi_local_reply(local, op, code);
}

/* Supplies each op of the batch with its bodies, and the cache with the rest. The lock is held. */
static void reply_ops(struct local *local, struct read_batch *batch)
{
    assert(local->read_count == 0 && batch->prefetch_start <= batch->count);
    for (size_t i = 0; i < batch->read_count; i++) {
        const struct body_read *body_read = &batch->reads[i];
        bide_op *op = body_read->op;
        bool no_memory = false;
        if (op == NULL)
            continue; /* a rollback has completed it */
        if (bi_commit_is_cancelled(op))
            fail_op(local, op, BIDE_CANCELLED, bide_code_text(BIDE_CANCELLED));
        else if (!needs_retry(batch, body_read, &no_memory) ||
                 retry_or_fail(local, batch, body_read, no_memory))
            supply_bodies(local, op, batch->bodies + body_read->first);
    }

    /* The ops that failed have put jobs back. Calls may wait for these, and no other op may
     * follow. */
    bi_core_serve(local->core, bi_local_now(local));

    for (size_t i = batch->prefetch_start; i < batch->count; i++) {
        if (batch->bodies[i].body == NULL)
            continue;
        bi_body_fetch_cache(local->core, batch->bodies[i].id, batch->bodies[i].body);
        batch->bodies[i].body = NULL;
    }
}

static void free_batch(struct read_batch *batch)
{
    for (size_t i = 0; batch->bodies != NULL && batch->wants != NULL && i < batch->count; i++)
        bide_buf_unref(batch->bodies[i].body);
    free(batch->bodies);
    free(batch->wants);
}

/* Reads one batch. The lock is held at the call and at the return, not in between. */
static void run_batch(struct local *local)
{
    struct read_batch batch = {.read_count = 0};
    assert(local->read_count == 0 && !local->rollback.running);
    bool good = collect_ops(local, &batch);

    if (!good) {
        /* Only the arrays: their elements are not initialized. */
        free_batch(&(struct read_batch){.bodies = batch.bodies, .wants = batch.wants});
        for (size_t i = 0; i < batch.read_count; i++)
            fail_op(local, batch.reads[i].op, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));

        bi_core_serve(local->core, bi_local_now(local));
        bi_local_yield(local);
        return;
    }

    local->reads = batch.reads;
    local->read_count = batch.read_count;
    batch.logged = local->read_failed;

    pthread_mutex_unlock(&local->lock);
    read_bodies(local, &batch);
    log_unreadable(local, &batch);
    if (batch.failed)
        bi_thread_sleep_ms(READ_RETRY_MS);

    bi_local_lock(local);
    /* From now on a rollback finds no batch: the lock is held until all its ops have been
     * supplied. */
    local->read_count = 0;
    local->read_failed = batch.failed;
    if (batch.read)
        local->last_read_at = bi_clock_boot();

    reply_ops(local, &batch);
    bi_local_wake_threads(local);
    bi_local_unlock(local);

    free_batch(&batch);
    bi_local_lock(local);
}

/* ---- jobs that are not loaded yet ---- */

/* Fetches the jobs of one op during recovery, then runs the op. The lock is held at the call and at
 * the return, not in between. */
static void fetch_jobs(struct local *local)
{
    bide_op *op = bi_op_fifo_pop(&local->awaiting_job);
    int code = BIDE_CLOSED;
    assert(op != NULL && local->fetch_count > 0);

    if (!local->closing) {
        pthread_mutex_unlock(&local->lock);
        code = bi_recovery_fetch(local, op);
        bi_local_lock(local);
    }

    bi_recovery_dequeue(local, op);
    if (local->closing) {
        bi_local_complete_with(local, op, BIDE_CLOSED);
    } else if (code != BIDE_OK) {
        /* The core has not run the op, so it depends on no batch. */
        op->private_.hold = 0;
        bi_local_reply(local, op, code);
    } else
        bi_local_resume(local, op);

    bi_local_yield(local);
}

void *bi_body_reader_run(void *arg)
{
    struct local *local = arg;

    bi_local_lock(local);
    for (;;) {
        /* Both lists are emptied before a close ends the thread: every op must complete. */
        if (local->rollback.running)
            pthread_cond_wait(&local->rollback.finished, &local->lock);
        else if (local->awaiting_job.head != NULL)
            fetch_jobs(local);
        else if (local->awaiting_body.head != NULL)
            run_batch(local);
        else if (local->closing)
            break;
        else
            pthread_cond_wait(&local->reader_work, &local->lock);
    }

    pthread_mutex_unlock(&local->lock);
    return NULL;
}
