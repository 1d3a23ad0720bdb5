/* SPDX-License-Identifier: MIT */
/*
 * commit - writes batches to the store and completes the ops that wait for them (group commit).
 *
 * While one batch is written, the changes of other callers gather in the next. The commit thread
 * writes batches. A blocking caller may commit its own batch when no commit is in progress; this
 * saves two thread switches.
 *
 * Ordering   One batch is in flight at a time, in the order of batch numbers. An op completes after
 *            the last batch that it depends on is durable.
 * Failure    A batch that cannot be written is rolled back with every batch behind it, and the held
 *            ops complete with the error. If the outcome is unknown (in doubt), the held ops
 *            complete with BIDE_EUNKNOWN, the batch stays in flight and the commit thread retries
 *            it. New ops are rejected until the outcome is known.
 * Threads    `committing` acts as a second lock, taken and released under local->lock. Only the
 *            thread that set it calls the store's commit and quarantine and uses the members
 *            marked "guarded by committing", also while it does not hold local->lock.
 */
#define _GNU_SOURCE /* sched_getaffinity */
#include "local/local_internal.h"
#include "op/op_result.h"
#include "util/clock.h"
#include "util/message.h"
#include "util/thread.h"

#include <assert.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* The back-off of the commit thread when it is out of memory or a commit has failed. */
#define RETRY_MS 10
/* Held ops complete for this long before the lock is yielded: one op may carry a thousand jobs. The
 * clock is read after every HELD_PER_CLOCK ops only. */
#define HELD_SLICE_US  1000
#define HELD_PER_CLOCK 16
/* While a reopened store cannot be verified, callers wait this long before they are rejected. */
#define REJECT_AFTER_US 5000000
/* The interval between two attempts to resolve a batch in doubt. */
#define IN_DOUBT_RETRY_MS 200

/* A checkpoint may write gigabytes. The watchdog lets it take this many times as long as a commit
 * before it counts as hung. */
#define MAINTAIN_AGE_DIVISOR 16

/* A caller with more changes than this seals them under a second hold of the lock. */
#define LARGE_BACKLOG 256

/* ---- holding ops ---- */

static struct op_fifo *held_list(struct local *local, uint64_t batch)
{
    assert(batch > 0);
    /* The core opens at most BI_BATCHES_MAX batches behind the committed one (at that limit the
     * last batch grows instead), so no two open batches share a slot. */
    return &local->held[batch % BI_BATCHES_MAX];
}

bool bi_commit_must_hold(const struct local *local, const bide_op *op)
{
    /* hold is the newest batch that the op wrote to or read from. */
    return local->persistent && op->private_.hold > bi_journal_committed_batch(local->core);
}

void bi_commit_hold(struct local *local, bide_op *op)
{
    /* A batch that is committed, or not open yet, would never complete the op. */
    assert(bi_commit_must_hold(local, op));
    assert(op->private_.hold <= bi_journal_open_batch(local->core));

    /* enter_in_doubt() fails the held ops only once, so an op that comes later fails here. A
     * reserve is held all the same: it has its job. */
    bide_job *jobs;
    bool reserved = op->private_.status == BIDE_OK && bi_op_result_reserved(op, &jobs) > 0;
    if (local->in_doubt && !local->unverified && !reserved) {
        bi_commit_revoke(local, op, BIDE_EUNKNOWN, local->in_doubt_error);
        bi_op_fifo_push(&local->completed, op);
        return;
    }

    op->private_.flags |= BI_HELD;
    bi_op_fifo_push(held_list(local, op->private_.hold), op);
    bi_op_count_add(&local->held_count, op);
}

/* Moves an op, already popped from its held list, to the completed ops. */
static void complete_held(struct local *local, bide_op *op)
{
    assert(op->private_.status != BIDE_PENDING);
    bi_op_count_remove(&local->held_count, op);
    bi_op_fifo_push(&local->completed, op);
}

/*
 * Completes the ops that were held for a batch, which is durable now. The lock is held at the call
 * (acquired at `since`) and at the return. It is yielded in between, because the number of ops that
 * wait for one batch is not bounded.
 */
static void complete_ops(struct local *local, struct op_fifo ops, int64_t since)
{
    struct bi_now now = bi_local_now(local);
    int64_t until = since + HELD_SLICE_US;
    bide_op *op;
    assert(local->committing);

    for (unsigned count = 1; (op = bi_op_fifo_pop(&ops)) != NULL; count++) {
        if (bi_commit_is_cancelled(op)) {
            bi_lease_undo_reserve(local->core, op, now);
            bi_commit_revoke(local, op, BIDE_CANCELLED, bide_code_text(BIDE_CANCELLED));
            /* Calls may wait for the job that was put back, and no other op may follow. */
            bi_core_serve(local->core, now);
        } else {
            /* The lease starts now and not when the job was reserved: the time of the commit must
             * not count against the worker's TTR. */
            bi_lease_start(local->core, op, now);
        }
        complete_held(local, op);
        if (count % HELD_PER_CLOCK != 0 || ops.head == NULL || bi_clock_boot() < until)
            continue;

        bi_local_yield(local);
        now = bi_local_now(local);
        until = now.mono + HELD_SLICE_US;
    }

    if (local->blocked_callers > 0)
        pthread_cond_broadcast(&local->below_limit);
}

bool bi_commit_is_full(const struct local *local)
{
    const bide_options *options = &local->context.options;
    return local->held_count.ops + local->reading.ops >= options->max_pending_ops ||
           local->held_count.bytes + local->reading.bytes >= options->max_pending_bytes;
}

/* Waits until there may be fewer pending ops. The lock is held at the call and at the return. */
static void wait_for_room(struct local *local)
{
    assert(local->persistent);
    local->blocked_callers++; /* bi_local_close() waits until it is 0 */

    /* Deliver ops that completed under this hold of the lock first. Only bi_local_unlock()
     * delivers them, and a condition wait releases the lock without it. The caller checks the
     * limit again. */
    if (local->completed.head != NULL) {
        bi_local_wake_threads(local);
        bi_local_unlock(local);
        bi_local_lock_during_rollback(local);
    } else {
        pthread_cond_wait(&local->below_limit, &local->lock);
    }

    assert(local->blocked_callers > 0);
    if (--local->blocked_callers == 0)
        pthread_cond_signal(&local->no_blocked_callers);
}

int bi_commit_throttle(struct local *local, bide_op *op, struct bi_now *now)
{
    if (!bi_commit_is_full(local))
        return BIDE_OK;

    /* While the store is in doubt nothing makes room. admit() rejects the op then. */
    while ((bi_commit_is_full(local) || local->rollback.running) && !local->closing &&
           !local->in_doubt) {
        /* An op of a completion queue has no thread that could block. */
        if (op->private_.wake == NULL)
            return bi_local_reject(op, BIDE_EBUSY, NULL);
        wait_for_room(local);
    }

    /* The wait may have been long, and the caller passes this time to the core. */
    *now = bi_local_now(local);
    return local->closing ? bi_local_reject(op, BIDE_CLOSED, NULL) : BIDE_OK;
}

void bi_commit_revoke(const struct local *local, bide_op *op, int code, const char *error)
{
    assert(code != BIDE_OK && code != BIDE_PENDING);
    /* The finish half of a finish_and_reserve that waited for a job may be durable already. Then
     * only the reserve half fails, and the finish retains its status. */
    bide_finish_item *finish = bi_op_finish_part(op);
    bool finished = finish != NULL && op->private_.step.fetch.part.finish_batch <=
                                          bi_journal_committed_batch(local->core);
    int status = finished ? finish->status : BIDE_OK;

    bi_slice_roll_back_count(local->core, op);
    bi_op_result_discard(op, code, error);
    if (finished)
        finish->status = status;
}

bool bi_commit_fail_held(struct local *local, int code, const char *error, int64_t until)
{
    assert(local->rollback.running && code != BIDE_OK);
    struct bi_now now = bi_local_now(local);

    for (int i = 0; i < BI_BATCHES_MAX; i++) {
        bide_op *op;
        while ((op = bi_op_fifo_pop(&local->held[i])) != NULL) {
            bi_lease_undo_reserve(local->core, op, now);
            bi_commit_revoke(local, op, code, error);
            complete_held(local, op);
            if (bi_clock_boot() >= until)
                return local->held_count.ops > 0;
        }
    }
    return false;
}

/* ---- writing batches ---- */

/*
 * Verifies the rows of a batch after the store reopened its files because of a failed write. What
 * the kernel retained of that write is unknown, so the rows are compared with the core before the
 * next batch is written. The maintenance thread then verifies all other rows while the queue
 * serves. If the rows cannot be read now, `unverified` is set and the commit thread retries. The
 * lock is held at the call and at the return, not in between; `committing` excludes other writes.
 */
static void verify_reopened(struct local *local, const struct bi_batch *batch)
{
    char error[BIDE_ERROR_SIZE] = "";
    assert(local->committing && !local->rollback.running);

    /* Ops that were rolled back complete now: the comparison may take long. */
    bi_local_unlock(local);
    local->store->reopened = false;
    int code = bi_store_verify_batch(local, batch, error);

    int64_t now = bi_clock_boot();
    if (code == BIDE_OK)
        bi_log_limit_reset(&local->batch_verify_log);
    else if (bi_log_limit_hit(&local->batch_verify_log, now) > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "the rows of a failed write cannot be compared; retrying: %s", error);

    bi_local_lock(local);
    if (!local->unverified)
        local->unverified_since = now;
    local->unverified = code != BIDE_OK;
    /* For some seconds callers wait for their commit. Then new ops are rejected. */
    local->in_doubt = local->unverified && now - local->unverified_since > REJECT_AFTER_US;
    if (local->in_doubt && local->blocked_callers > 0)
        pthread_cond_broadcast(&local->below_limit);

    if (local->unverified)
        snprintf(local->in_doubt_error, sizeof(local->in_doubt_error),
                 "%.60s cannot be compared (%.60s); it is tried again", bi_local_store_name(local),
                 error);
    else
        bi_store_verify_request(local);
}

/* The outcome of a commit is unknown. Completes the held ops with BIDE_EUNKNOWN and rejects new ops
 * until it is known. The batch stays in flight, and `committing` stays set; the commit thread
 * retries the batch. Without the lock. */
static void enter_in_doubt(struct local *local, const struct bi_batch *batch, const char *error)
{
    bi_log(&local->context.log, BIDE_LOG_ERROR, "%s", error);

    bi_local_lock(local);
    assert(local->committing && local->in_doubt_batch.number == 0);
    bi_log_limit_hit(&local->failure_log, bi_clock_boot());
    bi_text_copy(local->in_doubt_error, error);
    local->in_doubt = true;

    /* The core is not rolled back: the batch may be durable. retry_in_doubt() decides. */
    bi_rollback_run(local, false, BIDE_EUNKNOWN, error);

    /* Last, because the call above yields the lock. The commit thread retries as soon as this is
     * set, and must not do so before the held ops have completed. */
    local->in_doubt_batch = *batch;
    pthread_cond_signal(&local->commit_work);
    bi_local_unlock(local);
}

/* Lets the store checkpoint or vacuum, and records when it wants to do so again. After a commit
 * `committing` is released already, and another thread may write the next batch: the store
 * serializes its writers. Without the lock. */
static void maintain(struct local *local, bool idle)
{
    if (local->store->ops->maintain == NULL || bi_store_past_deadline(local->store))
        return;

    atomic_store_explicit(&local->maintain_started_at, bi_clock_boot(), memory_order_relaxed);
    int64_t delay_us = local->store->ops->maintain(local->store, idle);
    atomic_store_explicit(&local->maintain_started_at, 0, memory_order_relaxed);

    bi_local_lock_during_rollback(local);
    local->maintain_at = delay_us == BI_NEVER ? BI_NEVER : bi_clock_boot() + delay_us;
    /* A caller that led the commit may have found an earlier time than the commit thread sleeps
     * for. */
    if (local->maintain_at < local->commit_wakes_at)
        pthread_cond_signal(&local->commit_work);
    pthread_mutex_unlock(&local->lock);
}

/* Applies the known outcome of a commit: completes or fails the held ops. Without the lock. */
static void finish_commit(struct local *local, struct bi_batch *batch, int code, const char *error)
{
    bi_local_lock(local);
    assert(local->committing && local->in_doubt_batch.number == 0);
    int64_t since = bi_clock_boot();

    /* A failed batch is rolled back before verify_reopened(), which compares the store with the
     * core. A committed batch completes after the first attempt at that comparison. */
    struct op_fifo durable = {NULL, NULL};
    if (code == BIDE_OK) {
        /* Take the list before verify_reopened() releases the lock: from now on the core may open
         * the batch that shares the slot of held[] with this one. */
        durable = bi_op_fifo_take(held_list(local, batch->number));
        bi_journal_committed(local->core, batch);
    } else {
        bi_rollback_run(local, true, code, error);
    }
    if (local->store->reopened)
        verify_reopened(local, batch);
    if (code == BIDE_OK)
        complete_ops(local, durable, since);

    /* A batch without records proves nothing about the disk: it does not end a series of
     * failures. */
    uint64_t failures = 0;
    if (code != BIDE_OK && code != BIDE_CLOSED)
        failures = bi_log_limit_hit(&local->failure_log, bi_clock_boot());
    else if (code == BIDE_OK && batch->count > 0)
        failures = bi_log_limit_reset(&local->failure_log);

    /* An unverified batch stays allocated and `committing` stays set, so that no batch is written
     * before the commit thread has verified this one. */
    if (local->unverified)
        local->unverified_batch = *batch;
    else
        bi_journal_batch_done(local->core, batch);
    local->committing = local->unverified;

    bi_local_wake_threads(local);
    /* Slices stop at a backlog limit. This commit may have reduced the backlog. */
    if (bi_sliced_op_can_run(local))
        bi_timer_thread_notify(&local->wakeup);
    bi_local_unlock(local);

    if (failures > 0 && code == BIDE_OK)
        bi_log(&local->context.log, BIDE_LOG_WARN, "commits succeed again (%llu had failed)",
               (unsigned long long)failures);
    else if (failures > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR, "a commit failed (%llu so far): %s",
               (unsigned long long)failures, error);

    maintain(local, false);
}

/* Passes a batch to the store. The start time is for the watchdog, which takes no lock. Without the
 * lock. */
static int write_batch(struct local *local, struct bi_batch *batch, char *error)
{
    assert(local->committing && batch->number > 0);
    int64_t began = bi_clock_boot();
    atomic_store_explicit(&local->commit_started_at, began, memory_order_relaxed);
    int code = local->store->ops->commit(local->store, batch, error);
    atomic_store_explicit(&local->commit_started_at, 0, memory_order_relaxed);
    local->last_commit_us = bi_clock_boot() - began; /* guarded by committing */
    return code;
}

/* The deadline to close has passed: nothing is written any more. The caller rolls the batch back
 * with all that gathered behind it. Logs this once. Without the lock. */
static void fail_past_deadline(struct local *local, char *error)
{
    bi_text_copy(error, "the queue is closed, and the time for that is over");
    if (!local->deadline_logged)
        bi_log(
            &local->context.log, BIDE_LOG_WARN,
            "the time to stop is over: what no client was told of is not stored any more, and leases "
            "that are not stored yet are as after a crash");
    local->deadline_logged = true; /* guarded by committing */
}

/*
 * Seals and writes one batch. The lock is held at the call and at the return, not in between.
 * Another thread may begin the next batch while the ops of this one are still being delivered: to
 * wake a thousand callers takes longer than to write their changes.
 */
static int commit_batch(struct local *local)
{
    assert(!local->committing && !local->rollback.running);

    struct bi_batch batch;
    if (bi_journal_seal(local->core, bi_local_now(local), &batch) != BIDE_OK)
        return BIDE_ENOMEM;

    local->committing = true;
    pthread_mutex_unlock(&local->lock);

    char error[BIDE_ERROR_SIZE] = "";
    int code =
        bi_store_past_deadline(local->store) ? BIDE_CLOSED : write_batch(local, &batch, error);
    if (code == BIDE_CLOSED)
        fail_past_deadline(local, error);

    if (code == BIDE_EUNKNOWN)
        enter_in_doubt(local, &batch, error);
    else
        finish_commit(local, &batch, code, error);

    bi_local_lock_during_rollback(local);
    return code;
}

/* Writes a batch in doubt again; the store recognizes a batch that is already durable. At the final
 * attempt of a close an unknown outcome counts as failed, and past the close deadline there is no
 * attempt. The lock is held at the call and at the return, not in between. */
static int retry_in_doubt(struct local *local)
{
    assert(local->committing && local->in_doubt_batch.number != 0);
    struct bi_batch batch = local->in_doubt_batch;
    bool past_deadline = bi_store_past_deadline(local->store);
    bool final = local->final || past_deadline;

    if (!final)
        bi_local_pause(local, &local->commit_work, &local->final, IN_DOUBT_RETRY_MS);
    pthread_mutex_unlock(&local->lock);

    char error[BIDE_ERROR_SIZE] = "the time to stop is over, and it is not known what is stored";
    int code = past_deadline ? BIDE_EUNKNOWN : write_batch(local, &batch, error);

    if (code != BIDE_EUNKNOWN || final) {
        bi_local_lock(local);
        local->in_doubt_batch.number = 0;
        local->in_doubt = false;
        pthread_mutex_unlock(&local->lock);
        finish_commit(local, &batch, code, error);
    }

    bi_local_lock(local);
    return code;
}

void bi_commit_lead(struct local *local)
{
    /* Sealing takes time in proportion to the changes. Yield, so that one hold of the lock does not
     * include both making and sealing them. */
    if (bi_journal_backlog(local->core) > LARGE_BACKLOG) {
        bi_local_unlock(local);
        bi_local_lock_during_rollback(local);
    }

    if (local->committing || !bi_journal_is_dirty(local->core))
        return;

    commit_batch(local);

    /* The commit thread takes over what gathered during the commit, so that this caller returns. */
    if (bi_journal_is_dirty(local->core) || local->quarantine_list != NULL || local->unverified ||
        local->closing)
        pthread_cond_signal(&local->commit_work);
}

/* ---- quarantine of invalid rows ---- */

void bi_commit_quarantine(struct local *local, uint64_t id, const char *reason)
{
    struct quarantined *entry = malloc(sizeof(*entry));

    bi_log(&local->context.log, BIDE_LOG_ERROR, "job %llu cannot be loaded: %s",
           (unsigned long long)id, reason);
    if (entry == NULL)
        return; /* the row stays in the store; the next start finds it again */

    entry->id = id;
    snprintf(entry->reason, sizeof(entry->reason), "%s", reason);

    bi_local_lock(local);
    entry->next = local->quarantine_list;
    local->quarantine_list = entry;
    pthread_cond_signal(&local->commit_work);
    pthread_mutex_unlock(&local->lock);
}

/* Moves one row out of the job table. A row that cannot be moved stays, and the next start finds it
 * again. The lock is held at the call and at the return, not in between. */
static void quarantine_one(struct local *local)
{
    struct quarantined *entry = local->quarantine_list;
    assert(!local->committing && entry != NULL);

    local->quarantine_list = entry->next;
    local->committing = true;
    pthread_mutex_unlock(&local->lock);

    char error[BIDE_ERROR_SIZE] = "the time to stop is over";
    atomic_store_explicit(&local->maintain_started_at, bi_clock_boot(), memory_order_relaxed);
    if (bi_store_past_deadline(local->store) ||
        local->store->ops->quarantine(local->store, entry->id, entry->reason, error) != BIDE_OK)
        bi_log(&local->context.log, BIDE_LOG_WARN, "job %llu stays where it is: %s",
               (unsigned long long)entry->id, error);
    atomic_store_explicit(&local->maintain_started_at, 0, memory_order_relaxed);

    free(entry);
    bi_local_lock(local);
    local->committing = false;
}

/* ---- the thread ---- */

static void back_off(struct local *local)
{
    pthread_mutex_unlock(&local->lock);
    bi_thread_sleep_ms(RETRY_MS);
    bi_local_lock(local);
}

static void wait_for_work(struct local *local)
{
    /* No maintenance during a commit of another thread. maintain(), at the end of that commit,
     * signals a time that is nearer than commit_wakes_at. */
    local->commit_wakes_at = local->committing ? BI_NEVER : local->maintain_at;

    bi_local_wait_until(local, &local->commit_work, local->commit_wakes_at);
    local->commit_wakes_at = 0; /* awake: maintain() need not signal */
}

/* Maintains the store while nothing is to be committed, and no other thread commits. The lock is
 * held at the call and at the return, not in between. */
static void maintain_alone(struct local *local)
{
    assert(!local->committing && !local->rollback.running);
    local->committing = true;
    pthread_mutex_unlock(&local->lock);

    maintain(local, true);

    bi_local_lock(local);
    assert(local->committing);
    local->committing = false;
}

/* Verifies the unverified batch again. At the final attempt of a close a batch that still cannot be
 * read is given up: the next start loads what the store holds. The lock is held at the call and at
 * the return, not in between. */
static void verify_again(struct local *local)
{
    bool final = local->final;
    assert(local->committing && local->unverified);

    bi_local_pause(local, &local->commit_work, &local->final, IN_DOUBT_RETRY_MS);
    verify_reopened(local, &local->unverified_batch);
    local->unverified = local->unverified && !final;
    local->committing = local->unverified;
    if (!local->unverified)
        bi_journal_batch_done(local->core, &local->unverified_batch);
}

/* Commits what the core has changed. The lock is held at the call and at the return, not in
 * between. */
static int commit_pending(struct local *local, bool single_cpu)
{
    /* Let callers with further changes run first. On a single processor the first caller wakes this
     * thread, which would otherwise commit that one change alone and the others after it. */
    if (single_cpu) {
        pthread_mutex_unlock(&local->lock);
        sched_yield();
        bi_local_lock(local);
    }

    /* A caller may have begun a commit meanwhile, or have committed everything. */
    return local->committing || !bi_journal_is_dirty(local->core) ? BIDE_OK : commit_batch(local);
}

void *bi_commit_run(void *arg)
{
    struct local *local = arg;
    int code = BIDE_OK;
    bool final_failed = false;
    cpu_set_t cpus;
    CPU_ZERO(&cpus);
    bool single_cpu = sched_getaffinity(0, sizeof(cpus), &cpus) == 0 && CPU_COUNT(&cpus) == 1;

    bi_local_lock(local);

    for (;;) {
        bool dirty = bi_journal_is_dirty(local->core);
        /* The end: changes that cannot be committed are given up once no op is held for them. A
         * commit that began before the last changes were made says nothing about them. */
        if (local->final && !local->committing && (!dirty || final_failed) &&
            local->held_count.ops == 0 && local->quarantine_list == NULL)
            break;

        if (code != BIDE_OK)
            back_off(local);

        code = BIDE_OK;
        bool final = local->final;
        /* The order is the priority. A batch in doubt or unverified blocks all writes. Quarantine
         * and maintenance wait for callers, whose ops are held. */
        if (local->in_doubt_batch.number != 0)
            code = retry_in_doubt(local);
        else if (local->unverified)
            verify_again(local);
        else if (local->committing)
            wait_for_work(local);
        else if (dirty)
            code = commit_pending(local, single_cpu);
        else if (local->quarantine_list != NULL)
            quarantine_one(local);
        else if (local->maintain_at <= bi_clock_boot() && !local->final)
            maintain_alone(local);
        else if (!local->final)
            wait_for_work(local);
        else
            back_off(local); /* ops are still held: check again soon */

        final_failed = final && code != BIDE_OK;
    }

    pthread_mutex_unlock(&local->lock);
    return NULL;
}

int64_t bi_commit_age(struct backend *backend)
{
    const struct local *local = (const struct local *)(const void *)backend;
    int64_t began = atomic_load_explicit(&local->commit_started_at, memory_order_relaxed);
    int64_t maintain_started_at =
        atomic_load_explicit(&local->maintain_started_at, memory_order_relaxed);

    int64_t now = bi_clock_boot();
    int64_t age = began == 0 ? 0 : now - began;
    int64_t maintain_age =
        maintain_started_at == 0 ? 0 : (now - maintain_started_at) / MAINTAIN_AGE_DIVISOR;

    age = age > maintain_age ? age : maintain_age;
    /* 0 means that nothing is in progress: a commit that has just begun is at least 1 us old. */
    return began != 0 && age < 1 ? 1 : age;
}

void bi_commit_join(struct local *local)
{
    int64_t deadline = local->store->write_deadline;
    if (deadline != 0 && bi_thread_join_within(local->commit_thread, deadline - bi_clock_boot()))
        return;

    /* The deadline has passed, or there is none. A write cannot be interrupted, so join without a
     * limit. */
    int64_t age = bi_commit_age(&local->base);
    if (age > 0 && bi_store_past_deadline(local->store))
        bi_log(
            &local->context.log, BIDE_LOG_WARN,
            "the time to stop is over, but a commit to %.200s has taken %lld s so far and cannot be "
            "interrupted: it is waited for, and nothing is stored behind it",
            bi_local_store_name(local), (long long)(age / 1000000));

    pthread_join(local->commit_thread, NULL);
}
