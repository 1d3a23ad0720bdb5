/* SPDX-License-Identifier: MIT */
#include "local/local_internal.h"

#include "op/op_args.h"
#include "op/op_result.h"
#include "util/message.h"

#include <assert.h>
#include <stdio.h>

/* An event loop commits in its own thread only while commits are faster than this. */
#define LEAD_MAX_US 2000

/* ---- completing ops ---- */

int bi_local_reject(bide_op *op, int code, const char *text)
{
    assert(code != BIDE_OK && code != BIDE_PENDING);
    bi_text_copy(op->error, text != NULL ? text : bide_code_text(code));
    return code;
}

static void complete(struct local *local, bide_op *op)
{
    assert(op->private_.status != BIDE_PENDING);
    if (op->kind == BIDE_OP_RECOVERED)
        op->recovered.progress = local->recovery.progress;
    bi_op_fifo_push(&local->completed, op);
}

void bi_local_reply(struct local *local, bide_op *op, int code)
{
    assert(code != BIDE_PENDING && code != BI_AGAIN);
    op->private_.status = code;

    /* Bodies first: the read takes time in which the commit may end. */
    if (code == BIDE_OK && (op->private_.flags & BI_BODY_MISSING) != 0)
        bi_body_reader_enqueue(local, op);
    else if (bi_commit_must_hold(local, op))
        bi_commit_hold(local, op);
    else
        complete(local, op);
}

void bi_local_complete_with(struct local *local, bide_op *op, int code)
{
    assert((op->private_.flags & BI_HELD) == 0);
    op->private_.status = bi_local_reject(op, code, NULL);
    complete(local, op);
}

bool bi_local_dup_args(struct local *local, bide_op *op)
{
    bool was_duplicated = op->private_.args_dup != NULL;
    if (bi_op_args_dup(op) != BIDE_OK)
        return false;
    local->args_dups += !was_duplicated && op->private_.args_dup != NULL;
    return true;
}

bool bi_local_can_wait(const bide_op *op)
{
    return op->cq != NULL || op->private_.wake != NULL;
}

/* True if the op only releases what its caller holds. */
static bool only_releases(const bide_op *op)
{
    return op->kind == BIDE_OP_UNSUBSCRIBE ||
           (op->kind == BIDE_OP_TOPIC_REF && op->topic.delta < 0);
}

int bi_local_backlog_add(struct local *local, bide_op *op, const char *text)
{
    const bide_options *options = &local->context.options;
    if (!bi_local_can_wait(op))
        return bi_local_reject(op, BIDE_EBUSY, text);
    assert(local->persistent && (op->private_.flags & BI_HELD) == 0);

    /* Unlike bi_commit_is_full() this counts the backlog, too. Blocking callers pass: their number
     * is that of threads. So do ops that only release: a server submits them when a connection
     * has ended, and does not repeat them. */
    bool over_limit = local->held_count.ops + local->reading.ops + local->backlog.ops >=
                          options->max_pending_ops ||
                      local->held_count.bytes + local->reading.bytes + local->backlog.bytes >=
                          options->max_pending_bytes;
    if (over_limit && op->private_.wake == NULL && !only_releases(op))
        return bi_local_reject(op, BIDE_EBUSY, NULL);
    if (!bi_local_dup_args(local, op))
        return bi_local_reject(op, BIDE_ENOMEM, NULL);

    op->private_.waiter = NULL; /* not in the core yet: bi_waiter_cancel() must not find it */
    bi_op_count_add(&local->backlog, op);
    return BIDE_PENDING;
}

/* ---- running ops ---- */

/* Cancels an op that has begun to wait in the core but cannot complete later. */
static int reject_waiting(struct local *local, bide_op *op)
{
    bi_waiter_cancel(local->core, op);

    /* The cancel has completed the op through on_complete(). It must not be delivered: the caller
     * gets the code. */
    bide_op *each = local->completed.head;
    while (each != NULL && each != op)
        each = each->private_.next;
    if (each != NULL)
        bi_op_fifo_remove(&local->completed, op);
    return bi_local_reject(op, BIDE_EINVAL,
                           "the op would have to wait and names no completion queue");
}

const char *bi_local_store_name(const struct local *local)
{
    return local->store->path == NULL ? "the store" : local->store->path;
}

/* Decides whether an op may run now, with a persistent store: BIDE_OK, BIDE_PENDING if it waits, or
 * the code of a rejection. A resubmitted op has waited already and is not throttled again. */
static int admit(struct local *local, bide_op *op, bool resubmitted, struct bi_now *now)
{
    assert(local->persistent && !local->closing);
    if (bi_maintenance_handles(local, op))
        return bi_maintenance_enqueue(local, op);

    if (!bi_op_is(op, OP_IMMEDIATE)) {
        if (!bi_local_can_wait(op))
            return bi_local_reject(
                op, BIDE_EINVAL,
                "the op must wait until it is stored and names no completion queue");

        /* The state of the store is tested last: it may change while a caller waits for room. */
        int code = resubmitted ? BIDE_OK : bi_commit_throttle(local, op, now);
        if (code != BIDE_OK)
            return code;
        if (local->in_doubt || local->diverged)
            return bi_local_reject(op, BIDE_EIO,
                                   local->in_doubt ? local->in_doubt_error : local->diverged_error);
        if (bi_op_is(op, OP_INSERTS_JOBS) &&
            atomic_load_explicit(&local->store->full, memory_order_relaxed))
            return bi_error_set(
                op->error, BIDE_EFULL,
                "%s: the disk of %.100s is full: no new jobs until there is room again",
                bide_op_name(op->kind), bi_local_store_name(local));
    }

    return local->recovery.running ? bi_recovery_gate(local, op) : BIDE_OK;
}

static void count_pending(const struct local *local, bide_stats *stats)
{
    /* A waiting op whose bodies are being read (parked) is in two of these counters. */
    stats->pending_ops = local->held_count.ops + local->backlog.ops + stats->waiting +
                         stats->watching + local->reading.ops - bi_core_parked(local->core);
    for (const bide_op *op = local->sliced.head; op != NULL; op = op->private_.next)
        stats->pending_ops++;
}

/* Decides whether an op that was run may wait for bodies. Only a list can fail here: it is the one
 * kind with bodies that is immediate, so admit() does not throttle it. The list is then undone. */
static int may_read(const struct local *local, bide_op *op)
{
    int code = BIDE_OK;

    if (!bi_local_can_wait(op))
        code = bi_local_reject(op, BIDE_EINVAL,
                               "the op must wait for bodies and names no completion queue");
    else if (bi_op_is(op, OP_IMMEDIATE) && op->private_.wake == NULL && bi_commit_is_full(local))
        code = bi_local_reject(op, BIDE_EBUSY, NULL);

    if (code == BIDE_OK)
        return code;

    assert(bi_op_is(op, OP_IMMEDIATE));
    op->private_.flags &= ~BI_BODY_MISSING;
    bi_op_result_undo(op);
    return code;
}

/* Runs an op that was admitted. Returns its code, or BIDE_PENDING if it completes later. */
static int run_admitted(struct local *local, bide_op *op, struct bi_now *now)
{
    assert(!local->rollback.running); /* the core must not be in an intermediate state */
    bi_lock_stats_op(bide_op_name(op->kind));
    int code = bi_core_run(local->core, op, *now);

    if (code == BI_AGAIN) {
        code = bi_sliced_op_add(local, op);
        *now = bi_local_now(local);
    }

    if (code == BIDE_PENDING)
        return bi_local_can_wait(op) ? code : reject_waiting(local, op);

    if (op->kind == BIDE_OP_STATS)
        count_pending(local, op->stats.stats);
    if (op->kind == BIDE_OP_RECOVERED)
        op->recovered.progress = local->recovery.progress;

    bool lacks_body = code == BIDE_OK && (op->private_.flags & BI_BODY_MISSING) != 0;
    if (lacks_body) {
        int refusal = may_read(local, op);
        if (refusal != BIDE_OK)
            return refusal;
    }

    /* Without a reason to wait the code is returned, and the caller completes the op at once. */
    if (!lacks_body && !bi_commit_must_hold(local, op))
        return code;

    bi_local_reply(local, op, code);
    return BIDE_PENDING;
}

static int run_op(struct local *local, bide_op *op, struct bi_now *now)
{
    if (local->closing)
        return bi_local_reject(op, BIDE_CLOSED, NULL);

    /* Before admit(): an op must not overtake those that wait for the rollback. */
    if (local->persistent && bi_rollback_must_wait(local))
        return bi_rollback_enqueue(local, op);
    int code = local->persistent ? admit(local, op, false, now) : BIDE_OK;
    return code == BIDE_OK ? run_admitted(local, op, now) : code;
}

void bi_local_cancel_if_requested(struct local *local, bide_op *op)
{
    if ((op->private_.flags & BI_CANCEL_REQUESTED) == 0)
        return;
    if (!bi_waiter_cancel(local->core, op) && !bi_recovery_cancel(local, op))
        bi_maintenance_cancel(local, op);
}

/* Completes an op that had to wait, unless it waits again. */
static void finish_resumed(struct local *local, bide_op *op, int code)
{
    if (code == BIDE_PENDING) {
        bi_local_cancel_if_requested(local, op);
        return;
    }
    op->private_.status = code;
    complete(local, op);
}

void bi_local_resume(struct local *local, bide_op *op)
{
    struct bi_now now = bi_local_now(local);
    finish_resumed(local, op, run_admitted(local, op, &now));
}

void bi_local_resubmit(struct local *local, bide_op *op)
{
    struct bi_now now = bi_local_now(local);
    int code =
        local->closing ? bi_local_reject(op, BIDE_CLOSED, NULL) : admit(local, op, true, &now);
    finish_resumed(local, op, code == BIDE_OK ? run_admitted(local, op, &now) : code);
}

/* Arms the timer if the next deadline is earlier now. During a rollback the deadlines of the core
 * are not valid; its end notifies the timer thread. */
static void arm_wakeup(struct local *local)
{
    if (local->rollback.running)
        return;
    struct bi_now next = bi_core_next_deadline(local->core);
    int64_t timeout = bi_core_next_timeout(local->core);
    struct wakeup *wakeup = &local->wakeup;

    /* Most calls find timers that are armed already. */
    if (next.mono < wakeup->boot_at || next.wall < wakeup->wall_at)
        bi_timer_thread_arm(wakeup, next.mono, next.wall);
    if (timeout < wakeup->boot_at)
        bi_timer_thread_arm_exact(wakeup, timeout);

    if (bi_core_unserved(local->core))
        bi_timer_thread_notify(&local->wakeup);
}

static void wake_commit_thread(struct local *local)
{
    if (local->persistent && !local->committing && bi_journal_is_dirty(local->core))
        pthread_cond_signal(&local->commit_work);
}

void bi_local_wake_threads(struct local *local)
{
    arm_wakeup(local);
    wake_commit_thread(local);
}

/* How many ops ahead the cache lines of jobs are prefetched. */
enum { PREFETCH_NEAR = 2, PREFETCH_FAR = 5 };

int bi_local_submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct local *local = bi_local_of(backend);
    struct bi_now now = bi_local_lock_for_submit(local, n);
    int pending = 0;
    bool leads = false;
    uint64_t work = bi_core_work(local->core);

    /* Fire due deadlines first: a reserve should see the job whose delay has just ended. */
    if (!local->rollback.running)
        bi_timer_thread_tick(local, now);
    bi_recovery_assign_order(local, ops, n);

    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;
        if (i > 0)
            bi_timer_thread_yield_lock(local, &work, &now);
        if (n - i > PREFETCH_FAR && !local->rollback.running)
            bi_job_prefetch(local->core, ops[i + PREFETCH_NEAR], ops[i + PREFETCH_FAR]);

        bool blocking = ops[i]->private_.wake != NULL;
        int code = run_op(local, ops[i], &now);

        /* A pending op may still be used here: another thread can complete it only after the lock
         * is released. */
        if (code == BIDE_PENDING) {
            pending++;
            bool held = (ops[i]->private_.flags & BI_HELD) != 0;
            ops[i]->applied = held && ops[i]->private_.status == BIDE_OK;
            leads |= blocking && held;
            continue;
        }

        ops[i]->status = code;
        local->context.finish(ops[i]);
    }

    /* A blocking caller commits its own batch, which saves two thread switches. The commit thread
     * is woken after that, and not at all by an event loop, which calls bi_local_commit() when it
     * has submitted everything. */
    if (leads)
        bi_commit_lead(local);

    arm_wakeup(local);
    if (!local->commit_on_request || leads)
        wake_commit_thread(local);

    bi_local_unlock(local);
    return pending;
}

bool bi_local_commit(struct backend *backend, bool lead)
{
    struct local *local = bi_local_of(backend);

    bi_local_lock_during_rollback(local);
    local->commit_on_request = true;

    /* last_commit_us is guarded by committing: read it only while that is clear. On a slow disk the
     * event loop must not wait for commits. */
    bool leads = lead && !local->committing && local->last_commit_us < LEAD_MAX_US;
    if (leads)
        bi_commit_lead(local);
    wake_commit_thread(local);
    bi_local_unlock(local);
    return leads;
}

void bi_local_set_close_deadline(struct backend *backend, int64_t deadline)
{
    bi_local_of(backend)->store->write_deadline = deadline;
}

void bi_local_cancel(struct backend *backend, bide_op *op)
{
    struct local *local = bi_local_of(backend);
    bi_local_lock_during_rollback(local);
    /* An op that another thread is working for cannot be removed. That thread checks the flag when
     * the op would wait again. */
    if (!bi_waiter_cancel(local->core, op) && !bi_recovery_cancel(local, op) &&
        !bi_maintenance_cancel(local, op))
        op->private_.flags |= BI_CANCEL_REQUESTED;
    bi_local_unlock(local);
}
