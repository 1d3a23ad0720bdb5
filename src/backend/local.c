/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* adaptive mutexes */
#include "backend/local.h"

#include "backend/inside.h"
#include "backend/keep.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* How long a caller waits for the lock before it goes first. */
#define STARVING_US 1000
/* An event loop stores by itself only while commits are quicker than this. */
#define LEAD_MAX_US 2000
/* How long an open waits for everything to be loaded: a small queue is then complete. */
#define OPEN_WAIT_US 25000
/* Calls that wait and are ended under one lock when the queue is closed. */
#define CLOSE_CALLS 1000
/* Reserved jobs that a close treats at a time, and that may wait to be stored meanwhile. */
#define INTERRUPT_JOBS    1000
#define INTERRUPT_BACKLOG 20000
/* How long after the opening the store is first tidied. */
#define FIRST_TIDY_US 1000000

static struct local *local_of(struct backend *backend)
{
    return (struct local *)(void *)backend;
}

/* ---- the clocks and the lock ---- */

/*
 * Reads both clocks. The wall clock is told as the boot-time clock plus an offset, which is looked
 * at again every millisecond, and kept while it is right to a tenth of one and not ahead: so a
 * moment shown twice is the same moment, although the two clocks cannot be read at once.
 */
struct bi_now bi_local_clocks(struct local *local)
{
    int64_t boot = bi_clock_boot();
    if (boot - local->offset_read >= 1000) {
        /* The boot-time clock last: if we are interrupted in between, the wall clock is told too
         * late for a moment, never too early. */
        int64_t wall = bi_clock_wall();
        boot = bi_clock_boot();
        int64_t offset = wall - boot;
        if (offset < local->wall_offset || offset >= local->wall_offset + 100)
            local->wall_offset = offset;
        local->offset_read = boot;
    }
    return (struct bi_now){boot, boot + local->wall_offset};
}

/*
 * Takes the lock. A mutex is quick because it is unfair: whoever runs takes it before a sleeper is
 * awake. But one thread in a loop could keep another out for seconds; so who has waited for a
 * millisecond starves, and while somebody does, everybody goes through a gate, behind him.
 */
void(bi_local_acquire)(struct local *local)
{
    if (atomic_load_explicit(&local->starving, memory_order_relaxed) == 0) {
        if (pthread_mutex_trylock(&local->lock) == 0)
            return;
        struct timespec end;
        bi_clock_after(&end, STARVING_US);
        if (pthread_mutex_timedlock(&local->lock, &end) == 0)
            return;
    }
    atomic_fetch_add(&local->starving, 1);
    pthread_mutex_lock(&local->gate);
    pthread_mutex_lock(&local->lock);
    pthread_mutex_unlock(&local->gate);
    atomic_fetch_sub(&local->starving, 1);
}

void(bi_local_lock)(struct local *local)
{
    (bi_local_acquire)(local);
    while (local->undoing.running)
        pthread_cond_wait(&local->undoing.over, &local->lock);
}

/* ---- turns ---- */

/*
 * Two threads that make calls without a pause would hand the lock, and with it every cache line of
 * the core, from one processor to the other at each call: both together are then much slower than
 * one alone. So, when that is seen to happen, they take turns: the owner goes on making calls at
 * full speed, and the others sleep until its turn is over or it makes no more calls.
 *
 * Only calls of a queue in memory do so: on a file, callers wait for commits, not for the lock.
 */

/* The length of a turn. Others wait that long at most for each one before them. */
#define TURN_US 200
/* An owner whose last call was longer ago makes other things than calls. */
#define PAUSE_US   1
#define OPS_PER_US 4
/* So many contended changes of the owner, each within that time of the one before, make a crowd. */
#define CROWD         8
#define CROWD_GAP_US  100
#define CROWD_LAST_US 10000
/* Turns of others that a caller waits for before it insists. */
#define TURNS_MAX 4

/* Its address names the thread. */
static BI_THREAD_LOCAL char this_thread;

static bool is_own_turn(const struct turns *turns)
{
    return atomic_load_explicit(&turns->owner, memory_order_relaxed) == &this_thread;
}

/* Sleeps while it is the turn of another thread. Without the lock. */
static void await_turn(const struct turns *turns)
{
    if (atomic_load_explicit(&turns->crowded_until, memory_order_relaxed) == 0)
        return;
    BI_NO_CANCEL;
    for (int i = 0; i < TURNS_MAX; i++) {
        int64_t now = bi_clock_boot();
        int64_t left = atomic_load_explicit(&turns->since, memory_order_relaxed) + TURN_US - now;
        if (left <= 0 || now >= atomic_load_explicit(&turns->crowded_until, memory_order_relaxed) ||
            now - atomic_load_explicit(&turns->last_call, memory_order_relaxed) > PAUSE_US)
            return;
        nanosleep(&(struct timespec){.tv_nsec = left * 1000}, NULL);
    }
}

/* The lock has another owner than before. It is held. */
static void begin_turn(struct turns *turns, bool contended, int64_t now)
{
    atomic_store_explicit(&turns->owner, &this_thread, memory_order_relaxed);
    atomic_store_explicit(&turns->since, now, memory_order_relaxed);
    if (!contended)
        return;
    turns->contended = now - turns->contended_at < CROWD_GAP_US ? turns->contended + 1 : 1;
    turns->contended_at = now;
    if (turns->contended >= CROWD)
        atomic_store_explicit(&turns->crowded_until, now + CROWD_LAST_US, memory_order_relaxed);
}

/* Takes the lock for a call of so many ops, and reads the clocks. */
static struct bi_now lock_for_call(struct local *local, size_t n)
{
    struct turns *turns = &local->turns;
    if (local->keeps) {
        bi_local_acquire(local);
        return bi_local_clocks(local);
    }
    if (!is_own_turn(turns))
        await_turn(turns);
    bool contended = atomic_load_explicit(&local->starving, memory_order_relaxed) != 0 ||
                     pthread_mutex_trylock(&local->lock) != 0;
    if (contended) {
        if (!is_own_turn(turns))
            await_turn(turns); /* the own turn has ended just now */
        bi_local_lock(local);
    }
    struct bi_now now = bi_local_clocks(local);
    if (!is_own_turn(turns))
        begin_turn(turns, contended, now.mono);
    /* When it ends, that is: an op takes a fraction of a microsecond. */
    int64_t end = now.mono + (int64_t)(n / OPS_PER_US);
    atomic_store_explicit(&turns->last_call, end, memory_order_relaxed);
    return now;
}

void(bi_local_unlock)(struct local *local)
{
    struct op_list completed = list_take(&local->completed);
    if (local->kept > 0)
        for (bide_op *op = completed.head; op != NULL; op = op->private_.next)
            local->kept -= bi_keep_end(op);
    struct bi_freed freed = bi_freed_take(&local->freed);
    pthread_mutex_unlock(&local->lock);
    if (completed.head != NULL)
        local->context.complete(completed.head);
    if (freed.first != NULL)
        bi_freed_free(freed);
}

/* ---- answers ---- */

int bi_local_refuse(bide_op *op, int code, const char *text)
{
    bi_text_copy(op->error, text != NULL ? text : bide_code_text(code));
    return code;
}

static void complete(struct local *local, bide_op *op)
{
    if (op->kind == BIDE_OP_RECOVERED)
        op->recovered.progress = local->recovery.progress;
    list_add(&local->completed, op);
}

void bi_local_answer(struct local *local, bide_op *op, int code)
{
    op->private_.status = code;
    if (code == BIDE_OK && (op->private_.flags & BI_LACKS_BODY) != 0)
        bi_reading_add(local, op);
    else if (bi_commit_must_hold(local, op))
        bi_commit_hold(local, op);
    else
        complete(local, op);
}

void bi_local_end(struct local *local, bide_op *op, int code)
{
    op->private_.status = bi_local_refuse(op, code, NULL);
    complete(local, op);
}

/* The core's sink: a waiting op has its answer. */
static void on_complete(void *ctx, bide_op *op)
{
    bi_local_answer(ctx, op, op->private_.status);
}

bool bi_local_keep(struct local *local, bide_op *op)
{
    bool had = op->private_.kept != NULL;
    if (bi_keep(op) != BIDE_OK)
        return false;
    local->kept += !had && op->private_.kept != NULL;
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
        return bi_local_refuse(op, BIDE_EBUSY, text);

    bool crowded = local->held_ops + local->backlog_ops >= options->max_pending_ops ||
                   local->held_bytes + local->backlog_bytes >= options->max_pending_bytes;
    if (crowded && op->private_.wake == NULL)
        return bi_local_refuse(op, BIDE_EBUSY, NULL);
    if (!bi_local_keep(local, op))
        return bi_local_refuse(op, BIDE_ENOMEM, NULL);

    op->private_.waiter = NULL; /* the core has not seen it: there is nothing to cancel */
    local->backlog_ops++;
    local->backlog_bytes += op->private_.bytes;
    return BIDE_PENDING;
}

void bi_local_backlog_remove(struct local *local, const bide_op *op)
{
    assert(local->backlog_ops > 0 && local->backlog_bytes >= op->private_.bytes);
    local->backlog_ops--;
    local->backlog_bytes -= op->private_.bytes;
}

/* ---- running ops ---- */

/* Nobody could be told when such an op completes: it is taken out again. */
static int refuse_to_wait(struct local *local, bide_op *op)
{
    bi_core_cancel(local->core, op);
    bide_op *each = local->completed.head;
    while (each != NULL && each != op)
        each = each->private_.next;
    if (each != NULL)
        list_remove(&local->completed, op);
    return bi_local_refuse(op, BIDE_EINVAL,
                           "the op would have to wait and names no completion queue");
}

/* Kinds whose answers are never held. */
static bool is_immediate(bide_op_kind kind)
{
    static const bool immediate[BIDE_OP_COUNT] = {
        [BIDE_OP_LIST] = true,        [BIDE_OP_TOPICS] = true,      [BIDE_OP_WAITING] = true,
        [BIDE_OP_STATS] = true,       [BIDE_OP_TOPIC_STATS] = true, [BIDE_OP_PING] = true,
        [BIDE_OP_DRAIN] = true,       [BIDE_OP_TOPIC_REF] = true,   [BIDE_OP_SUBSCRIBE] = true,
        [BIDE_OP_UNSUBSCRIBE] = true, [BIDE_OP_RECOVERED] = true,
    };
    return immediate[kind];
}

static bool brings_jobs(bide_op_kind kind)
{
    return kind == BIDE_OP_PUT || kind == BIDE_OP_PUT_MANY || kind == BIDE_OP_RESTORE;
}

static int refuse_full(const struct local *local, bide_op *op)
{
    const char *place = local->store->place;
    snprintf(op->error, sizeof(op->error),
             "%s: the disk of %.100s is full: no new jobs until there is room again",
             bide_op_name(op->kind), place == NULL ? "the store" : place);
    return BIDE_EFULL;
}

/* With a store that keeps things: may the op be run now? One that is late has waited, and does not wait
 * for room again. */
static int may_run(struct local *local, bide_op *op, bool late, struct bi_now *now)
{
    if (bi_care_is_chore(local, op))
        return bi_care_add(local, op);
    if (!is_immediate(op->kind)) {
        if (local->stuck || local->differs)
            return bi_local_refuse(op, BIDE_EIO,
                                   local->stuck ? local->stuck_text : local->differs_text);
        if (!bi_local_can_wait(op))
            return bi_local_refuse(
                op, BIDE_EINVAL,
                "the op must wait until it is stored and names no completion queue");
        if (brings_jobs(op->kind) &&
            atomic_load_explicit(&local->store->full, memory_order_relaxed))
            return refuse_full(local, op);
        int code = late ? BIDE_OK : bi_commit_room(local, op, now);
        if (code != BIDE_OK)
            return code;
    }
    return local->recovery.running ? bi_recovery_gate(local, op) : BIDE_OK;
}

static void count_pending(const struct local *local, bide_stats *stats)
{
    stats->pending_ops = local->held_ops + stats->waiting + stats->watching;
    for (const bide_op *op = local->sliced.head; op != NULL; op = op->private_.next)
        stats->pending_ops++;
}

/* A page shows jobs whose bodies must be read, and nobody could be told. */
static int refuse_to_read(bide_op *op)
{
    assert(op->kind == BIDE_OP_LIST);
    op->private_.flags &= ~BI_LACKS_BODY;
    bi_core_unlist(op);
    return bi_local_refuse(op, BIDE_EINVAL,
                           "the op must wait for bodies and names no completion queue");
}

/* Runs an op that may be run. Answers its code, or BIDE_PENDING if it completes later. */
static int run_now(struct local *local, bide_op *op, struct bi_now *now)
{
    bi_holds_op(bide_op_name(op->kind));
    int code = bi_core_run(local->core, op, *now);
    if (code == BI_AGAIN) {
        code = bi_ticking_slices(local, op);
        *now = bi_local_clocks(local);
    }
    if (code == BIDE_PENDING)
        return bi_local_can_wait(op) ? code : refuse_to_wait(local, op);
    if (op->kind == BIDE_OP_STATS)
        count_pending(local, op->stats.stats);
    if (op->kind == BIDE_OP_RECOVERED)
        op->recovered.progress = local->recovery.progress;
    bool lacks = code == BIDE_OK && (op->private_.flags & BI_LACKS_BODY) != 0;
    if (lacks && !bi_local_can_wait(op))
        return refuse_to_read(op);
    if (!lacks && !bi_commit_must_hold(local, op))
        return code;
    bi_local_answer(local, op, code);
    return BIDE_PENDING;
}

static int run_one(struct local *local, bide_op *op, struct bi_now *now)
{
    if (local->closing)
        return bi_local_refuse(op, BIDE_CLOSED, NULL);
    if (local->keeps && bi_undoing_must_wait(local))
        return bi_undoing_wait(local, op);
    int code = local->keeps ? may_run(local, op, false, now) : BIDE_OK;
    return code == BIDE_OK ? run_now(local, op, now) : code;
}

void bi_local_waits(struct local *local, bide_op *op)
{
    if ((op->private_.flags & BI_CANCEL_ASKED) == 0)
        return;
    if (!bi_core_cancel(local->core, op) && !bi_recovery_cancel(local, op))
        bi_care_cancel(local, op);
}

/* An op that had to wait was run, or refused. */
static void settle_late(struct local *local, bide_op *op, int code)
{
    if (code == BIDE_PENDING) {
        bi_local_waits(local, op);
        return;
    }
    op->private_.status = code;
    complete(local, op);
}

void bi_local_resume(struct local *local, bide_op *op)
{
    struct bi_now now = bi_local_clocks(local);
    settle_late(local, op, run_now(local, op, &now));
}

void bi_local_run_late(struct local *local, bide_op *op)
{
    struct bi_now now = bi_local_clocks(local);
    int code =
        local->closing ? bi_local_refuse(op, BIDE_CLOSED, NULL) : may_run(local, op, true, &now);
    settle_late(local, op, code == BIDE_OK ? run_now(local, op, &now) : code);
}

/* Sets the alarm if the next deadline has moved nearer. While a failed commit is being undone, that
 * is not known. */
static void set_alarm(struct local *local)
{
    if (local->undoing.running)
        return;
    struct bi_now next = bi_core_next(local->core);
    bi_alarm_set(&local->alarm, next.mono, next.wall);
    bi_alarm_set_exact(&local->alarm, bi_core_next_call(local->core));
    if (bi_core_unserved(local->core))
        bi_alarm_ring(&local->alarm);
}

static void wake_commit(struct local *local)
{
    if (local->keeps && !local->committing && bi_core_dirty(local->core))
        pthread_cond_signal(&local->work);
}

void bi_local_look_ahead(struct local *local)
{
    set_alarm(local);
    wake_commit(local);
}

/* How many ops ahead the cache is told. */
enum { NEXT = 2, LATER = 5 };

int bi_local_submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct local *local = local_of(backend);
    struct bi_now now = lock_for_call(local, n);
    int pending = 0;
    bool leads = false;
    uint64_t work = bi_core_work(local->core);
    if (!local->undoing.running)
        bi_ticking_tick(local, now);
    bi_recovery_order(local, ops, n);
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;
        if (i > 0)
            bi_ticking_share(local, &work, &now);
        if (n - i > LATER && !local->undoing.running)
            bi_core_approach(local->core, ops[i + NEXT], ops[i + LATER]);
        bool waits = ops[i]->private_.wake != NULL;
        int code = run_one(local, ops[i], &now);
        if (code == BIDE_PENDING) {
            pending++;
            bool held = (ops[i]->private_.flags & BI_HELD) != 0;
            ops[i]->applied = held && ops[i]->private_.status == BIDE_OK;
            leads = waits && held;
            continue;
        }
        ops[i]->status = code;
        local->context.finish(ops[i]);
    }
    if (leads)
        bi_commit_lead(local);
    set_alarm(local);
    if (!local->deferred || leads)
        wake_commit(local);
    bi_local_unlock(local);
    return pending;
}

bool bi_local_commit(struct backend *backend, bool lead)
{
    struct local *local = local_of(backend);
    bi_local_acquire(local);
    local->deferred = true;
    /* Only while no commit is in progress is its duration not being written. */
    bool leads = lead && !local->committing && local->commit_us < LEAD_MAX_US;
    if (leads)
        bi_commit_lead(local);
    wake_commit(local);
    bi_local_unlock(local);
    return leads;
}

void bi_local_close_by(struct backend *backend, int64_t moment)
{
    local_of(backend)->store->late_at = moment;
}

void bi_local_cancel(struct backend *backend, bide_op *op)
{
    struct local *local = local_of(backend);
    bi_local_acquire(local);
    if (!bi_core_cancel(local->core, op) && !bi_recovery_cancel(local, op) &&
        !bi_care_cancel(local, op))
        op->private_.flags |= BI_CANCEL_ASKED;
    bi_local_unlock(local);
}

/* ---- opening ---- */

/* The smaller of two limits, of which 0 is none. */
static uint64_t limit_of(uint64_t one, uint64_t other)
{
    return one == 0 || (other != 0 && other < one) ? other : one;
}

static struct bi_limits limits_of(const bide_options *options, const struct store *store)
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
        .batch_jobs = (uint32_t)limit_of(options->batch_jobs, store->batch_jobs),
        .batch_bytes = limit_of(options->batch_bytes, store->batch_bytes),
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
        .limits = limits_of(options, local->store),
        .alloc = bi_alloc_paged(&local->freed),
        .journal = local->keeps,
        .recovering = local->keeps,
        .wheel = options->ticker == BIDE_TICKER_WHEEL,
        .wheel_tick = options->wheel_tick_ms * 1000,
        .wheel_slots = options->wheel_slots,
        .seed = options->seed,
        .secret = start.secret,
        .next_id = start.next_id,
        .next_token = start.next_token,
        .token_from = start.token_from,
        .lease_from = start.lease_from,
        .keep_leases = local->context.serves,
        .complete = on_complete,
        .ctx = local,
    };
    local->core = bi_core_new(&core, bi_local_clocks(local));
    local->recovery.running = local->keeps;
    local->recovery.below = start.next_id;
    bi_secret_draw(&local->recovery.early.secret);
    local->recovery.progress.failed = start.damaged;
    if (!local->keeps)
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
    int code = bi_core_load_pause(local->core, &record->image, bi_local_clocks(local));
    if (code == BIDE_EINVAL)
        bi_log(&local->context.log, BIDE_LOG_WARN, "a pause of no topic is left out");
    return code == BIDE_EINVAL ? BIDE_OK : code;
}

#define CONDITIONS 7

static pthread_cond_t *const *conditions_of(struct local *local, pthread_cond_t *room[CONDITIONS])
{
    room[0] = &local->room;
    room[1] = &local->left;
    room[2] = &local->work;
    room[3] = &local->read;
    room[4] = &local->chore;
    room[5] = &local->recovery.over;
    room[6] = &local->undoing.over;
    return room;
}

static void free_local(struct local *local)
{
    pthread_cond_t *room[CONDITIONS];
    pthread_cond_t *const *conditions = conditions_of(local, room);
    bi_core_free(local->core);
    bi_freed_free(bi_freed_take(&local->freed));
    local->store->ops->close(local->store);
    bi_alarm_done(&local->alarm);
    for (int i = 0; i < CONDITIONS; i++)
        pthread_cond_destroy(conditions[i]);
    pthread_mutex_destroy(&local->lock);
    pthread_mutex_destroy(&local->gate);
    while (local->asides != NULL) {
        struct aside *next = local->asides->next;
        free(local->asides);
        local->asides = next;
    }
    free(local->recovery.early.ids);
    free(local);
}

/* Tells the threads that the end has come. */
static void ring_all(struct local *local)
{
    pthread_cond_broadcast(&local->work);
    pthread_cond_broadcast(&local->read);
    pthread_cond_broadcast(&local->chore);
    bi_alarm_ring(&local->alarm);
}

static int start_threads(struct local *local, char *error)
{
    const struct {
        pthread_t *thread;
        void *(*run)(void *);
    } threads[] = {
        {&local->timer_thread, bi_ticking_run},
        {&local->commit_thread, bi_commit_run},
        {&local->reader_thread, bi_reading_run},
        {&local->slow_thread, bi_recovery_run},
    };
    const bide_options *options = &local->context.options;
    size_t wanted = local->keeps ? 4 : 1;
    size_t started = 0;
    if (bi_alarm_init(&local->alarm, options->ticker_min_ms * 1000, options->ticker_max_ms * 1000))
        while (started < wanted &&
               bi_thread_start(threads[started].thread, threads[started].run, local))
            started++;
    if (started == wanted)
        return BIDE_OK;
    bi_local_lock(local);
    local->closing = local->last = true;
    if (started > 0)
        ring_all(local);
    pthread_mutex_unlock(&local->lock);
    while (started > 0)
        pthread_join(*threads[--started].thread, NULL);
    bi_text_copy(error, "open: the system gives no more threads, timers or eventfds");
    return BIDE_ESYSTEM;
}

/* The lock is held for less than a microsecond: whoever finds it taken does best to look again
 * before going to sleep. */
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
    local->keeps = store->ops->keeps;
    local->offset_read = -1000000;
    /* What the store found may want it, even if nothing is ever written. */
    local->tidy_at = store->ops->tidy == NULL ? BI_NEVER : bi_clock_boot() + FIRST_TIDY_US;
    bi_alarm_clear(&local->alarm);
    init_lock(&local->lock);
    pthread_mutex_init(&local->gate, NULL);
    pthread_cond_t *room[CONDITIONS];
    pthread_cond_t *const *conditions = conditions_of(local, room);
    for (int i = 0; i < CONDITIONS; i++)
        bi_thread_condition(conditions[i]);
}

static void wait_for_a_small_queue(struct local *local)
{
    struct timespec until;
    bi_clock_until(&until, OPEN_WAIT_US);
    bi_local_lock(local);
    int code = 0;
    while (local->recovery.running && code == 0)
        code = pthread_cond_timedwait(&local->recovery.over, &local->lock, &until);
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
    if (code == BIDE_OK && local->keeps)
        code = store->ops->pauses(store, load_pause, local, error);
    if (code == BIDE_OK)
        code = start_threads(local, error);
    if (code != BIDE_OK) {
        free_local(local);
        return code;
    }
    if (local->keeps)
        wait_for_a_small_queue(local);
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
        more = bi_core_close(local->core, CLOSE_CALLS);
        bi_local_unlock(local);
    }
}

/* Leases that outlive the process are stored, all others are given back. In slices, so that what
 * waits to be stored stays bounded. False: the time was over before. The lock is held at the call and at
 * the return. */
static bool end_leases(struct local *local)
{
    while (bi_core_interrupt(local->core, bi_local_clocks(local), INTERRUPT_JOBS)) {
        if (bi_store_is_late(local->store))
            return false;
        bi_local_unlock(local);
        bi_local_lock(local);
        while (bi_core_backlog(local->core) > INTERRUPT_BACKLOG && !local->stuck &&
               !bi_store_is_late(local->store)) {
            pthread_cond_signal(&local->work);
            pthread_mutex_unlock(&local->lock);
            bi_alarm_sleep(1);
            bi_local_lock(local);
        }
    }
    return true;
}

void bi_local_close(struct backend *backend)
{
    struct local *local = local_of(backend);
    bi_local_shutdown(backend);
    bi_local_lock(local);
    local->closing = true;
    local->store->stopping = true;
    bi_ticking_end(local);
    bi_recovery_end(local);
    ring_all(local);
    pthread_cond_broadcast(&local->room);
    while (local->queued > 0)
        pthread_cond_wait(&local->left, &local->lock);
    bi_local_unlock(local);
    pthread_join(local->timer_thread, NULL);
    if (local->keeps) {
        /* The reader first: what it still has to answer may have to be stored. */
        pthread_join(local->slow_thread, NULL);
        pthread_join(local->reader_thread, NULL);
        bi_local_lock(local);
        bool ended = end_leases(local);
        local->last = true;
        pthread_cond_broadcast(&local->work);
        pthread_mutex_unlock(&local->lock);
        if (!ended)
            bi_log(&local->context.log, BIDE_LOG_WARN,
                   "the time to stop is over: not all leases are stored, the others are as after a "
                   "crash");
        bi_commit_join(local);
    }
}

void bi_local_free(struct backend *backend)
{
    struct local *local = local_of(backend);
    assert(local->held_ops == 0 && local->completed.head == NULL);
    assert(local->undoing.waiting.head == NULL);
    free_local(local);
    bi_holds_report();
}
