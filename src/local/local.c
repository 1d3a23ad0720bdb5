/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* adaptive mutexes */
#include "local/local_internal.h"

#include "op/op_args.h"
#include "op/op_result.h"
#include "util/clock.h"
#include "util/message.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* A thread that has waited this long for the lock is starving. */
#define STARVING_US 1000
/* An event loop commits in its own thread only while commits are faster than this. */
#define LEAD_MAX_US 2000
/* How long open waits for recovery, so that a small queue is complete when open returns. */
#define OPEN_WAIT_US 25000
/* Waiting ops that a close ends under one hold of the lock. */
#define CLOSE_SLICE 1000
/* Leases that a close ends under one hold of the lock, and changes that may wait for a commit
 * meanwhile. */
#define INTERRUPT_SLICE   1000
#define INTERRUPT_BACKLOG 20000
/* A close ends the leases this often if the commit of that fails, and within this time. */
#define INTERRUPT_TRIES    10
#define INTERRUPT_TRIES_US 5000000
/* A close logs that it waits for the disk of a backup after this time. */
#define BACKUP_JOIN_US 1000000
/* The time from open to the first maintenance of the store. */
#define FIRST_MAINTAIN_US 1000000

static struct local *local_of(struct backend *backend)
{
    return (struct local *)(void *)backend;
}

/* ---- the clocks and the lock ---- */

/* True if a measured offset between the clocks confirms the one in use. */
static bool retains_offset(const struct local *local, int64_t measured)
{
    return measured >= local->wall_offset && measured < local->wall_offset + 100;
}

/*
 * Reads both clocks. The wall time is the boot time plus an offset. The offset is checked every
 * millisecond and retained while it is at most 0.1 ms behind and not ahead. So a deadline that is
 * converted twice gives the same wall time, although the two clocks cannot be read at once.
 */
struct bi_now bi_local_now(struct local *local)
{
    int64_t boot = bi_clock_boot();

    if (boot - local->wall_offset_at >= 1000) {
        /* Read the boot-time clock last: after a preemption in between the wall time lags and never
         * leads, so no deadline fires too early. A new offset is measured twice: the larger one
         * is closer to the truth, and most preemptions do not count as a clock that was set. */
        int64_t offset = INT64_MIN;
        for (int i = 0; i < 2 && !retains_offset(local, offset); i++) {
            int64_t wall = bi_clock_wall();
            boot = bi_clock_boot();
            if (wall - boot > offset)
                offset = wall - boot;
        }

        if (!retains_offset(local, offset))
            local->wall_offset = offset;
        local->wall_offset_at = boot;
    }

    return (struct bi_now){boot, boot + local->wall_offset};
}

/*
 * A mutex is fast because it is unfair: a running thread acquires it before a sleeping one is
 * awake. But one thread in a loop can keep another out for seconds. So a thread that has waited for
 * STARVING_US counts as starving, and while there is one, all threads queue at the turnstile, and
 * only one at a time competes for the lock.
 */
void(bi_local_lock_during_rollback)(struct local *local)
{
    /* A relaxed load suffices: a stale value costs one timed wait, not correctness. */
    if (atomic_load_explicit(&local->starving, memory_order_relaxed) == 0) {
        if (pthread_mutex_trylock(&local->lock) == 0)
            return;
        if (bi_thread_lock_within(&local->lock, STARVING_US))
            return;
    }

    /* Count before the turnstile, so that threads which come now queue behind this one. Release the
     * turnstile only with the lock held: the next thread then waits for the lock alone. */
    atomic_fetch_add(&local->starving, 1);
    pthread_mutex_lock(&local->turnstile);
    pthread_mutex_lock(&local->lock);
    pthread_mutex_unlock(&local->turnstile);
    atomic_fetch_sub(&local->starving, 1);
}

void(bi_local_lock)(struct local *local)
{
    (bi_local_lock_during_rollback)(local);
    while (local->rollback.running)
        pthread_cond_wait(&local->rollback.finished, &local->lock);
}

void(bi_local_yield)(struct local *local)
{
    bi_local_wake_threads(local);
    bi_local_unlock(local);
    bi_local_lock(local);
}

void(bi_local_wait_until)(struct local *local, pthread_cond_t *condition, int64_t at)
{
    if (at == BI_NEVER) {
        pthread_cond_wait(condition, &local->lock);
        return;
    }

    struct timespec until;
    int64_t us = at - bi_clock_boot();
    bi_clock_mono_deadline(&until, us < 0 ? 0 : us);
    pthread_cond_timedwait(condition, &local->lock, &until);
}

const char *bi_local_store_name(const struct local *local)
{
    return local->store->path == NULL ? "the store" : local->store->path;
}

void(bi_local_pause)(struct local *local, pthread_cond_t *condition, const bool *finished, int ms)
{
    struct timespec until;
    bi_clock_mono_deadline(&until, (int64_t)ms * 1000);

    /* The condition is also signalled when there is other work. */
    while (!*finished && pthread_cond_timedwait(condition, &local->lock, &until) != ETIMEDOUT)
        continue;
}

/* ---- turns ---- */

/*
 * Two threads that submit without a pause move the lock, and with it every cache line of the core,
 * from one processor to the other at each call. Both together are then much slower than one alone.
 * So, when the lock is seen to be contended, the threads take turns: the owner submits at full
 * speed, and the others sleep until its turn is over or it stops submitting.
 *
 * Turns are for a queue in memory only: on a file, callers wait for commits, not for the lock. The
 * relaxed atomics are hints; the mutex alone excludes threads.
 */

/* The length of a turn: other threads wait at most this long for each turn before theirs. */
#define TURN_US 200
/* An owner whose last call ended longer ago than this is busy elsewhere and loses its turn. The end
 * of a call is estimated from the number of its ops. */
#define IDLE_US    1
#define OPS_PER_US 4
/* Turns begin after this many contended changes of the owner, each within CONTENTION_GAP_US of the
 * one before, and apply for CONTENTION_US. */
#define CONTENTION_COUNT  8
#define CONTENTION_GAP_US 100
#define CONTENTION_US     10000
/* The number of turns that a caller waits for before it takes the lock regardless. */
#define TURNS_MAX 4

/* Its address identifies the thread. */
static BI_THREAD_LOCAL char this_thread;

static bool owns_turn(const struct turns *turns)
{
    return atomic_load_explicit(&turns->owner, memory_order_relaxed) == &this_thread;
}

/* Sleeps while another thread has the turn. Without the lock. */
static void wait_for_turn(const struct turns *turns)
{
    if (atomic_load_explicit(&turns->contended_until, memory_order_relaxed) == 0)
        return;

    BI_NO_CANCEL;
    for (int i = 0; i < TURNS_MAX; i++) {
        int64_t now = bi_clock_boot();
        int64_t left = atomic_load_explicit(&turns->since, memory_order_relaxed) + TURN_US - now;
        if (left <= 0 ||
            now >= atomic_load_explicit(&turns->contended_until, memory_order_relaxed) ||
            now - atomic_load_explicit(&turns->last_call, memory_order_relaxed) > IDLE_US)
            return;

        nanosleep(&(struct timespec){.tv_nsec = left * 1000}, NULL);
    }
}

/* The calling thread becomes the owner of the turn. The lock is held. */
static void begin_turn(struct turns *turns, bool contended, int64_t now)
{
    atomic_store_explicit(&turns->owner, &this_thread, memory_order_relaxed);
    atomic_store_explicit(&turns->since, now, memory_order_relaxed);
    if (!contended)
        return;

    turns->contended = now - turns->contended_at < CONTENTION_GAP_US ? turns->contended + 1 : 1;
    turns->contended_at = now;
    if (turns->contended >= CONTENTION_COUNT)
        atomic_store_explicit(&turns->contended_until, now + CONTENTION_US, memory_order_relaxed);
}

/* Acquires the lock for a call of n ops, and reads the clocks. */
static struct bi_now lock_for_submit(struct local *local, size_t n)
{
    struct turns *turns = &local->turns;

    if (local->persistent) {
        bi_local_lock_during_rollback(local);
        return bi_local_now(local);
    }

    if (!owns_turn(turns))
        wait_for_turn(turns);

    bool contended = atomic_load_explicit(&local->starving, memory_order_relaxed) != 0 ||
                     pthread_mutex_trylock(&local->lock) != 0;
    if (contended) {
        if (!owns_turn(turns))
            wait_for_turn(turns); /* another thread has just begun a turn */
        bi_local_lock(local);
    }

    struct bi_now now = bi_local_now(local);
    if (!owns_turn(turns))
        begin_turn(turns, contended, now.mono);

    /* The expected end of the call, because an op takes a fraction of a microsecond. */
    int64_t end = now.mono + (int64_t)(n / OPS_PER_US);
    atomic_store_explicit(&turns->last_call, end, memory_order_relaxed);

    return now;
}

void(bi_local_unlock)(struct local *local)
{
    struct op_fifo completed = bi_op_fifo_take(&local->completed);

    /* The application gets its own arguments back; the copies are freed. */
    if (local->args_dups > 0)
        for (bide_op *op = completed.head; op != NULL; op = op->private_.next)
            local->args_dups -= bi_op_args_dup_restore(op);
    assert(local->args_dups <= INT32_MAX); /* no op was counted out twice */

    struct bi_alloc_deferred freed = bi_alloc_deferred_take(&local->freed);
    pthread_mutex_unlock(&local->lock);

    /* Without the lock: completion wakes threads and may call back into the queue, and freeing many
     * pages takes long. */
    if (completed.head != NULL)
        local->context.complete(completed.head);
    if (freed.first != NULL)
        bi_alloc_deferred_free(freed);
}

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
    op->private_.status = bi_local_reject(op, code, NULL);
    complete(local, op);
}

/* Called by the core when a waiting op has its code. */
static void on_complete(void *ctx, bide_op *op)
{
    bi_local_reply(ctx, op, op->private_.status);
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

int bi_local_backlog_add(struct local *local, bide_op *op, const char *text)
{
    const bide_options *options = &local->context.options;
    if (!bi_local_can_wait(op))
        return bi_local_reject(op, BIDE_EBUSY, text);
    assert(local->persistent && (op->private_.flags & BI_HELD) == 0);

    /* Unlike bi_commit_is_full() this counts the backlog, too. Blocking callers pass: their number
     * is that of threads. */
    bool over_limit = local->held_count.ops + local->reading.ops + local->backlog.ops >=
                          options->max_pending_ops ||
                      local->held_count.bytes + local->reading.bytes + local->backlog.bytes >=
                          options->max_pending_bytes;
    if (over_limit && op->private_.wake == NULL)
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
            atomic_load_explicit(&local->store->full, memory_order_relaxed)) {
            snprintf(op->error, sizeof(op->error),
                     "%s: the disk of %.100s is full: no new jobs until there is room again",
                     bide_op_name(op->kind), bi_local_store_name(local));
            return BIDE_EFULL;
        }
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
    bi_timer_thread_arm(&local->wakeup, next.mono, next.wall);
    bi_timer_thread_arm_exact(&local->wakeup, bi_core_next_timeout(local->core));

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
    struct local *local = local_of(backend);
    struct bi_now now = lock_for_submit(local, n);
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
    struct local *local = local_of(backend);

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
    local_of(backend)->store->write_deadline = deadline;
}

void bi_local_cancel(struct backend *backend, bide_op *op)
{
    struct local *local = local_of(backend);
    bi_local_lock_during_rollback(local);
    /* An op that another thread is working for cannot be removed. That thread checks the flag when
     * the op would wait again. */
    if (!bi_waiter_cancel(local->core, op) && !bi_recovery_cancel(local, op) &&
        !bi_maintenance_cancel(local, op))
        op->private_.flags |= BI_CANCEL_REQUESTED;
    bi_local_unlock(local);
}

/* ---- opening ---- */

/* The smaller of two limits; 0 means no limit. */
static uint64_t smaller_limit(uint64_t one, uint64_t other)
{
    return one == 0 || (other != 0 && other < one) ? other : one;
}

static struct bi_limits core_limits(const bide_options *options, const struct store *store)
{
    return (struct bi_limits){
        .default_ttr = options->default_ttr_ms * 1000,
        .max_job_size = options->max_job_size,
        .max_result_size = options->max_result_size,
        .max_error_size = options->max_error_size,
        .max_touches = options->max_touches,
        .max_touch_total = options->max_touch_total_ms * 1000,
        .min_touch_interval = options->min_touch_interval_ms * 1000,
        .max_topics = options->max_topics,
        .max_waiters = options->max_waiters,
        .max_jobs_per_topic = options->max_jobs_per_topic,
        .max_done_per_topic = options->max_done_per_topic,
        .max_memory = options->max_memory,
        .batch_jobs = (uint32_t)smaller_limit(options->batch_jobs, store->batch_jobs),
        .batch_bytes = smaller_limit(options->batch_bytes, store->batch_bytes),
        .page_bytes = BIDE_BATCH_BYTES,
        .cache_bytes = options->cache_bytes,
        .topic_cleanup = options->topic_cleanup >= 0,
    };
}

static int make_core(struct local *local, char *error)
{
    const bide_options *options = &local->context.options;
    struct store_start start = {.damaged = 0};
    int code = local->store->ops->start(local->store, &start, error);
    if (code != BIDE_OK)
        return code;

    struct bi_core_options core = {
        .limits = core_limits(options, local->store),
        .alloc = bi_alloc_paged(&local->freed),
        .journal = local->persistent,
        .recovering = local->persistent,
        .wheel = options->ticker == BIDE_TICKER_WHEEL,
        .wheel_tick = options->wheel_tick_ms * 1000,
        .wheel_slots = options->wheel_slots,
        .seed = options->seed,
        .secret = start.secret,
        .next_id = start.next_id,
        .next_token = start.next_token,
        .token_from = start.token_from,
        .lease_from = start.lease_from,
        .keep_leases = local->context.for_server,
        .complete = on_complete,
        .ctx = local,
    };

    local->core = bi_core_new(&core, bi_local_now(local));

    local->recovery.running = local->persistent;
    local->recovery.first_new_id = start.next_id;
    bi_keyed_hash_generate_secret(&local->recovery.loaded_early.secret);
    local->recovery.progress.failed = start.damaged;
    if (!local->persistent)
        local->recovery.progress.phase = BIDE_PHASE_RECOVERED;

    if (local->core != NULL)
        return BIDE_OK;
    bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
    return BIDE_ENOMEM;
}

static int load_pause(void *ctx, const struct bi_record *record, const char *damage)
{
    struct local *local = ctx;
    (void)damage;
    int code = bi_load_pause(local->core, &record->image, bi_local_now(local));
    if (code == BIDE_EINVAL)
        bi_log(&local->context.log, BIDE_LOG_WARN, "a pause of no topic is left out");
    /* An invalid pause does not fail the open. */
    return code == BIDE_EINVAL ? BIDE_OK : code;
}

static const size_t conditions[] = {
    offsetof(struct local, below_limit),       offsetof(struct local, no_blocked_callers),
    offsetof(struct local, commit_work),       offsetof(struct local, reader_work),
    offsetof(struct local, maintenance_work),  offsetof(struct local, recovery.finished),
    offsetof(struct local, rollback.finished),
};
#define CONDITIONS (sizeof(conditions) / sizeof(conditions[0]))

static pthread_cond_t *condition_at(struct local *local, size_t i)
{
    return (pthread_cond_t *)(void *)((char *)local + conditions[i]);
}

static void free_local(struct local *local)
{
    bi_core_free(local->core);
    bi_alloc_deferred_free(bi_alloc_deferred_take(&local->freed));
    local->store->ops->close(local->store);

    bi_timer_thread_close_wakeup(&local->wakeup);
    for (size_t i = 0; i < CONDITIONS; i++)
        pthread_cond_destroy(condition_at(local, i));
    pthread_mutex_destroy(&local->lock);
    pthread_mutex_destroy(&local->turnstile);

    while (local->quarantine_list != NULL) {
        struct quarantined *next = local->quarantine_list->next;
        free(local->quarantine_list);
        local->quarantine_list = next;
    }

    free(local->recovery.loaded_early.ids);
    free(local);
}

/* Wakes all threads, so that they see `closing`. */
static void wake_all(struct local *local)
{
    pthread_cond_broadcast(&local->commit_work);
    pthread_cond_broadcast(&local->reader_work);
    pthread_cond_broadcast(&local->maintenance_work);
    bi_timer_thread_notify(&local->wakeup);
}

static int start_threads(struct local *local, char *error)
{
    const struct {
        pthread_t *thread;
        void *(*run)(void *);
    } threads[] = {
        {&local->timer_thread, bi_timer_thread_run},
        {&local->commit_thread, bi_commit_run},
        {&local->reader_thread, bi_body_reader_run},
        {&local->maintenance_thread, bi_recovery_run},
    };
    const bide_options *options = &local->context.options;
    size_t wanted = local->persistent ? 4 : 1;
    size_t started = 0;

    bool alarmed = bi_timer_thread_open_wakeup(&local->wakeup, options->ticker_min_ms * 1000,
                                               options->ticker_max_ms * 1000);
    while (alarmed && started < wanted &&
           bi_thread_start(threads[started].thread, threads[started].run, local))
        started++;

    if (started == wanted)
        return BIDE_OK;

    snprintf(error, BIDE_ERROR_SIZE, "open: cannot create %s: %s",
             alarmed ? "thread" : "timer or eventfd", strerror(errno));

    /* Stop the threads that were started. */
    bi_local_lock(local);
    local->closing = local->final = true;
    if (started > 0)
        wake_all(local);
    pthread_mutex_unlock(&local->lock);

    while (started > 0)
        pthread_join(*threads[--started].thread, NULL);
    return BIDE_ESYSTEM;
}

/* The lock is usually held for less than a microsecond. An adaptive mutex spins for a while before
 * it sleeps. */
static void init_lock(pthread_mutex_t *lock)
{
    pthread_mutexattr_t attributes;
    pthread_mutexattr_init(&attributes);
#ifdef PTHREAD_ADAPTIVE_MUTEX_INITIALIZER_NP
    pthread_mutexattr_settype(&attributes, PTHREAD_MUTEX_ADAPTIVE_NP);
#endif
    pthread_mutex_init(lock, &attributes);
    pthread_mutexattr_destroy(&attributes);
}

static void init_local(struct local *local, const struct backend_context *context,
                       const struct backend_ops *ops, struct store *store)
{
    local->base.ops = ops;
    local->context = *context;
    local->store = store;
    local->persistent = store->ops->persistent;

    /* Old enough that the first bi_local_now() sets the offset. */
    local->wall_offset_at = -1000000;

    /* Maintenance may be due for what the store found at open, even if nothing is written. */
    local->maintain_at =
        store->ops->maintain == NULL ? BI_NEVER : bi_clock_boot() + FIRST_MAINTAIN_US;

    bi_timer_thread_clear_wakeup(&local->wakeup);
    init_lock(&local->lock);
    pthread_mutex_init(&local->turnstile, NULL);
    for (size_t i = 0; i < CONDITIONS; i++)
        bi_thread_cond_init(condition_at(local, i));
}

static void wait_for_fast_recovery(struct local *local)
{
    struct timespec until;
    bi_clock_mono_deadline(&until, OPEN_WAIT_US);
    bi_local_lock(local);
    int code = 0;
    while (local->recovery.running && code == 0)
        code = pthread_cond_timedwait(&local->recovery.finished, &local->lock, &until);
    pthread_mutex_unlock(&local->lock);
}

int bi_local_open(const struct backend_context *context, const struct backend_ops *ops,
                  struct store *store, struct backend **out, char *error)
{
    struct local *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        store->ops->close(store);
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }

    init_local(local, context, ops, store);
    int code = make_core(local, error);

    /* Pauses are loaded before anything is served: a paused topic must not deliver a job. */
    if (code == BIDE_OK && local->persistent)
        code = store->ops->scan_pauses(store, load_pause, local, error);
    if (code == BIDE_OK)
        code = start_threads(local, error);
    if (code != BIDE_OK) {
        free_local(local);
        return code;
    }

    if (local->persistent)
        wait_for_fast_recovery(local);
    *out = &local->base;
    return BIDE_OK;
}

/* ---- closing ---- */

void bi_local_shutdown(struct backend *backend)
{
    struct local *local = local_of(backend);
    bool more = true;

    while (more) {
        bi_local_lock(local);
        more = bi_waiter_close_all(local->core, CLOSE_SLICE);
        bi_local_unlock(local);
    }
}

/* Journals the leases that outlive the process and gives back all other reserved jobs, in slices,
 * so that the number of uncommitted changes stays bounded. False: the deadline has passed before
 * the end. The lock is held at the call and at the return, not in between. */
static bool end_leases(struct local *local)
{
    assert(local->closing && !local->final); /* no op can change a job any more */
    while (bi_lease_prepare_stop(local->core, bi_local_now(local), INTERRUPT_SLICE)) {
        if (bi_store_past_deadline(local->store))
            return false;

        bi_local_unlock(local);
        bi_local_lock(local);

        /* Wait for the commit thread. A batch in doubt may block it for ever, so do not wait for
         * that. */
        while (bi_journal_backlog(local->core) > INTERRUPT_BACKLOG && !local->in_doubt &&
               !bi_store_past_deadline(local->store)) {
            pthread_cond_signal(&local->commit_work);
            pthread_mutex_unlock(&local->lock);
            bi_thread_sleep_ms(1);
            bi_local_lock(local);
        }
    }
    return true;
}

/* Waits until the changes of end_leases() are committed or rolled back, or `until`. A batch in
 * doubt or unverified may stay so for ever, so do not wait for that. The lock is held at the call
 * and at the return, not in between. */
static void wait_for_commits(struct local *local, int64_t until)
{
    while ((bi_journal_is_dirty(local->core) || local->committing) && !local->in_doubt &&
           !local->unverified && !bi_store_past_deadline(local->store) && bi_clock_boot() < until) {
        pthread_cond_signal(&local->commit_work);
        bi_local_unlock(local);
        bi_thread_sleep_ms(1);
        bi_local_lock(local);
    }
}

/* Ends the leases, and again if the commit of that failed: without it the next start would count
 * jobs of an orderly stop as failed. False: the deadline has passed before the end. The lock is
 * held at the call and at the return, not in between. */
static bool end_leases_durably(struct local *local)
{
    int64_t until = bi_clock_boot() + INTERRUPT_TRIES_US;
    bool ended = end_leases(local);

    for (int tries = 1; tries < INTERRUPT_TRIES && ended; tries++) {
        wait_for_commits(local, until);
        if (!bi_lease_restart_stop(local->core))
            break;
        ended = end_leases(local);
    }
    return ended;
}

/* Joins the maintenance thread, which executes an abandoned backup. It uses the store, which cannot
 * be closed before it ends. */
static void join_backup(struct local *local)
{
    if (bi_thread_join_within(local->maintenance_thread, BACKUP_JOIN_US))
        return;

    bi_log(
        &local->context.log, BIDE_LOG_WARN,
        "everything is stored; waiting for a backup that cannot be interrupted, because the disk "
        "of the copy does not respond");
    pthread_join(local->maintenance_thread, NULL);
}

void bi_local_close(struct backend *backend)
{
    struct local *local = local_of(backend);
    bi_local_shutdown(backend);

    bi_local_lock(local);
    local->closing = true;
    local->store->stopping = true;

    bi_sliced_op_close_all(local);
    bi_recovery_close(local);
    bi_maintenance_abandon_backup(local, BIDE_CLOSED);
    bool backs_up = local->backup_running;
    wake_all(local);

    /* Blocked callers are inside bi_local_submit() and use this struct. They must have returned
     * from the wait before it is freed. */
    pthread_cond_broadcast(&local->below_limit);
    while (local->blocked_callers > 0)
        pthread_cond_wait(&local->no_blocked_callers, &local->lock);
    bi_local_unlock(local);

    /* The timer thread also rejects the ops that wait for a rollback. */
    pthread_join(local->timer_thread, NULL);
    if (local->persistent) {
        /* Before the commit thread: ops that these two complete may have to be held for a
         * commit. An abandoned backup has no op, and its disk may hang: the leases come first. */
        if (!backs_up)
            pthread_join(local->maintenance_thread, NULL);
        pthread_join(local->reader_thread, NULL);

        /* No op can change a job any more. Only then are leases ended, and `final` lets the
         * commit thread stop after the last batch. */
        bi_local_lock(local);
        bool ended = end_leases_durably(local);
        local->final = true;
        pthread_cond_broadcast(&local->commit_work);
        pthread_mutex_unlock(&local->lock);

        if (!ended)
            bi_log(&local->context.log, BIDE_LOG_WARN,
                   "the time to stop is over: not all leases are stored, the others are as after a "
                   "crash");

        bi_commit_join(local);
        if (backs_up)
            join_backup(local);
    }
}

void bi_local_free(struct backend *backend)
{
    struct local *local = local_of(backend);
    assert(local->held_count.ops == 0 && local->completed.head == NULL);
    assert(local->rollback.waiting.head == NULL);
    assert(local->reading.ops == 0 && local->backlog.ops == 0);
    free_local(local);
    bi_lock_stats_report();
}
