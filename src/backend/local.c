/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* adaptive mutexes */
#include "backend/local.h"

#include "backend/alarm.h"
#include "backend/answer.h"
#include "core/core.h"
#include "util/clock.h"
#include "util/text.h"

#include <assert.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

/* Events that one tick fires before others get the lock. */
#define TICK_BUDGET 512
/* How long the commit thread rests when memory lacks, or after a commit has failed. */
#define RETRY_MS 10
/* How long a caller waits for the lock before it goes first. */
#define STARVING_US 1000

struct op_list {
    bide_op *head, *tail;
};

struct local {
    struct backend base;
    struct backend_context context;
    struct store *store;
    struct core *core;
    bool keeps;

    _Atomic unsigned inside;   /* callers that are in here, or about to be */
    _Atomic unsigned starving; /* those who have waited long for the lock */
    pthread_mutex_t gate;      /* through which everybody goes while somebody starves */
    pthread_mutex_t lock;      /* guards everything below */
    struct op_list completed;  /* to be handed out when the lock is given back */
    struct op_list sliced;     /* kicks and purges that the timer thread carries on with */
    struct op_list gathering;  /* answers held for the batch that gathers */
    struct op_list in_flight;  /* answers held for the batch that is being stored */
    uint64_t held_ops;
    uint64_t held_bytes;
    pthread_cond_t room; /* fewer answers are held */
    unsigned queued;     /* callers that wait for room */
    pthread_cond_t left; /* such a caller has gone */
    pthread_cond_t work; /* for the commit thread */
    bool closing;
    int64_t wall_offset;
    int64_t offset_read; /* when it was last looked at */
    struct bi_alarm alarm;
    pthread_t timer_thread;
    pthread_t commit_thread;
};

static struct local *local_of(struct backend *backend)
{
    return (struct local *)(void *)backend;
}

/*
 * Reads both clocks. The wall clock is told as the boot-time clock plus an offset, which is looked
 * at again every millisecond, and kept while it is right to a tenth of one and not ahead: so a
 * moment shown twice is the same moment, although the two clocks cannot be read at once.
 */
static struct bi_now read_clocks(struct local *local)
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
static void lock_local(struct local *local)
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

/* A caller comes in; it leaves by leave(). */
static struct local *enter(struct backend *backend)
{
    struct local *local = local_of(backend);
    atomic_fetch_add_explicit(&local->inside, 1, memory_order_relaxed);
    lock_local(local);
    return local;
}

/* ---- lists of ops ---- */

static void list_add(struct op_list *list, bide_op *op)
{
    op->private_.next = NULL;
    if (list->tail != NULL)
        list->tail->private_.next = op;
    else
        list->head = op;
    list->tail = op;
}

static void list_join(struct op_list *list, struct op_list *more)
{
    if (more->head == NULL)
        return;
    if (list->tail != NULL)
        list->tail->private_.next = more->head;
    else
        list->head = more->head;
    list->tail = more->tail;
    more->head = more->tail = NULL;
}

static struct op_list list_take(struct op_list *list)
{
    struct op_list taken = *list;
    list->head = list->tail = NULL;
    return taken;
}

/* Tells the owners. No lock is held. */
static void hand_out(void (*complete)(bide_op *), struct op_list list)
{
    bide_op *op = list.head;
    while (op != NULL) {
        bide_op *next = op->private_.next;
        complete(op);
        op = next;
    }
}

/* A caller gives back the lock, tells the owners of what has completed, and goes: it must not touch
 * the queue after that. */
static void leave(struct local *local)
{
    struct op_list completed = list_take(&local->completed);
    pthread_mutex_unlock(&local->lock);
    hand_out(local->context.complete, completed);
    atomic_fetch_sub_explicit(&local->inside, 1, memory_order_release);
}

/* ---- holding answers ---- */

static void hold(struct local *local, bide_op *op)
{
    bool flying = op->private_.hold < bi_core_gathering(local->core);
    list_add(flying ? &local->in_flight : &local->gathering, op);
    local->held_ops++;
    local->held_bytes += op->private_.bytes;
}

static bool must_hold(const struct local *local, const bide_op *op)
{
    return local->keeps && op->private_.hold > bi_core_committed_batch(local->core);
}

/* The core's sink: a waiting op has its answer. */
static void on_complete(void *ctx, bide_op *op)
{
    struct local *local = ctx;
    if (must_hold(local, op))
        hold(local, op);
    else
        list_add(&local->completed, op);
}

static void release_held(struct local *local, struct op_list *held)
{
    for (bide_op *op = held->head; op != NULL; op = op->private_.next) {
        local->held_ops--;
        local->held_bytes -= op->private_.bytes;
    }
    list_join(&local->completed, held);
    if (local->queued > 0)
        pthread_cond_broadcast(&local->room);
}

/* ---- running ops ---- */

static int refuse(bide_op *op, int code, const char *text)
{
    bi_text_copy(op->error, text != NULL ? text : bide_code_text(code));
    return code;
}

static bool is_full(const struct local *local)
{
    const bide_options *options = &local->context.options;
    return local->held_ops >= options->max_pending_ops ||
           local->held_bytes >= options->max_pending_bytes;
}

/* Waits until less is pending, if the op can wait. */
static int find_room(struct local *local, bide_op *op)
{
    while (is_full(local) && !local->closing) {
        if (op->private_.wake == NULL)
            return refuse(op, BIDE_EBUSY, NULL);
        local->queued++;
        pthread_cond_wait(&local->room, &local->lock);
        if (--local->queued == 0)
            pthread_cond_signal(&local->left);
    }
    return local->closing ? refuse(op, BIDE_CLOSED, NULL) : BIDE_OK;
}

static bool can_complete_later(const bide_op *op)
{
    return op->cq != NULL || op->private_.wake != NULL;
}

/* A sliced op: in the background if its owner can be told, else here, giving others their turn. */
static int run_slices(struct local *local, bide_op *op)
{
    if (can_complete_later(op)) {
        list_add(&local->sliced, op);
        bi_alarm_ring(&local->alarm);
        return BIDE_PENDING;
    }
    int code = BI_AGAIN;
    while (code == BI_AGAIN) {
        pthread_mutex_unlock(&local->lock);
        sched_yield();
        lock_local(local);
        if (local->closing) {
            bi_core_abandon(local->core, op);
            return refuse(op, BIDE_CLOSED, NULL);
        }
        code = bi_core_run(local->core, op, read_clocks(local));
    }
    return code;
}

/* Nobody could be told when such an op completes: it is taken out again. */
static int refuse_to_wait(struct local *local, bide_op *op)
{
    bi_core_cancel(local->core, op);
    struct op_list others = {NULL, NULL};
    for (bide_op *each = local->completed.head; each != NULL;) {
        bide_op *next = each->private_.next;
        if (each != op)
            list_add(&others, each);
        each = next;
    }
    local->completed = others;
    return refuse(op, BIDE_EINVAL, "the op would have to wait and names no completion queue");
}

/* Kinds whose answers are never held. */
static bool is_immediate(bide_op_kind kind)
{
    static const bool immediate[BIDE_OP_COUNT] = {
        [BIDE_OP_LIST] = true,        [BIDE_OP_TOPICS] = true,      [BIDE_OP_WAITING] = true,
        [BIDE_OP_STATS] = true,       [BIDE_OP_TOPIC_STATS] = true, [BIDE_OP_PING] = true,
        [BIDE_OP_DRAIN] = true,       [BIDE_OP_TOPIC_REF] = true,   [BIDE_OP_SUBSCRIBE] = true,
        [BIDE_OP_UNSUBSCRIBE] = true,
    };
    return immediate[kind];
}

/* With a store that keeps things: may the op be run, as far as holding its answer goes? */
static int may_hold(struct local *local, bide_op *op, struct bi_now *now)
{
    if (is_immediate(op->kind))
        return BIDE_OK;
    if (!can_complete_later(op))
        return refuse(op, BIDE_EINVAL,
                      "the op must wait until it is stored and names no completion queue");
    if (!is_full(local))
        return BIDE_OK;
    int code = find_room(local, op);
    *now = read_clocks(local);
    return code;
}

static void count_pending(const struct local *local, bide_stats *stats)
{
    stats->pending_ops = local->held_ops + stats->waiting + stats->watching;
    for (const bide_op *op = local->sliced.head; op != NULL; op = op->private_.next)
        stats->pending_ops++;
}

/* Answers the op's code, or BIDE_PENDING if it completes later. */
static int run_one(struct local *local, bide_op *op, struct bi_now *now)
{
    if (local->closing)
        return refuse(op, BIDE_CLOSED, NULL);
    int code = local->keeps ? may_hold(local, op, now) : BIDE_OK;
    if (code != BIDE_OK)
        return code;
    code = bi_core_run(local->core, op, *now);
    if (code == BI_AGAIN) {
        code = run_slices(local, op);
        *now = read_clocks(local);
    }
    if (code == BIDE_PENDING)
        return can_complete_later(op) ? code : refuse_to_wait(local, op);
    if (op->kind == BIDE_OP_STATS)
        count_pending(local, op->stats.stats);
    if (!must_hold(local, op))
        return code;
    op->private_.status = code;
    hold(local, op);
    return BIDE_PENDING;
}

/* Sets the alarm if the next deadline has moved nearer, and wakes the commit thread if there is
 * something to store. */
static void look_ahead(struct local *local)
{
    struct bi_now next = bi_core_next(local->core);
    bi_alarm_set(&local->alarm, next.mono, next.wall);
    if (bi_core_unserved(local->core))
        bi_alarm_ring(&local->alarm);
    if (local->keeps && bi_core_dirty(local->core))
        pthread_cond_signal(&local->work);
}

int bi_local_submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct local *local = enter(backend);
    int pending = 0;
    struct bi_now now = read_clocks(local);
    bi_core_tick(local->core, now, TICK_BUDGET);
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;
        int code = run_one(local, ops[i], &now);
        if (code == BIDE_PENDING) {
            pending++;
            continue;
        }
        ops[i]->status = code;
        local->context.finish(ops[i]);
    }
    look_ahead(local);
    leave(local);
    return pending;
}

void bi_local_cancel(struct backend *backend, bide_op *op)
{
    struct local *local = enter(backend);
    bi_core_cancel(local->core, op);
    leave(local);
}

/* ---- the timer thread ---- */

static void finish_sliced(struct local *local, bide_op *op, int code)
{
    op->private_.status = code;
    on_complete(local, op);
}

/* One slice of the first sliced op; true if there is more to do. */
static bool run_a_slice(struct local *local, struct bi_now now)
{
    bide_op *op = local->sliced.head;
    if (op == NULL)
        return false;
    local->sliced.head = op->private_.next;
    if (local->sliced.head == NULL)
        local->sliced.tail = NULL;
    int code = bi_core_run(local->core, op, now);
    if (code == BI_AGAIN)
        list_add(&local->sliced, op);
    else
        finish_sliced(local, op, code);
    return local->sliced.head != NULL;
}

static void *run_timer(void *arg)
{
    struct local *local = arg;
    for (;;) {
        lock_local(local);
        if (local->closing) {
            pthread_mutex_unlock(&local->lock);
            return NULL;
        }
        struct bi_now now = read_clocks(local);
        bool more = bi_core_tick(local->core, now, TICK_BUDGET);
        more |= run_a_slice(local, now);
        bi_alarm_rearm(&local->alarm, now.mono);
        look_ahead(local);
        struct op_list completed = list_take(&local->completed);
        pthread_mutex_unlock(&local->lock);
        hand_out(local->context.complete, completed);
        if (more)
            sched_yield();
        else
            bi_alarm_wait(&local->alarm);
    }
}

/* ---- the commit thread ---- */

/* A kick or purge that is under way, and of which a part was undone, ends here. */
static void fail_sliced(struct local *local, int code, const char *error)
{
    struct op_list sliced = list_take(&local->sliced);
    for (bide_op *op = sliced.head; op != NULL;) {
        bide_op *next = op->private_.next;
        if (must_hold(local, op)) {
            bi_core_abandon(local->core, op);
            op->private_.status = BIDE_OK;
            bi_answer_take_back(op, code, error);
            list_add(&local->completed, op);
        } else {
            list_add(&local->sliced, op);
        }
        op = next;
    }
}

static void commit_failed(struct local *local, int code, const char *error)
{
    bi_core_rollback(local->core, read_clocks(local));
    fail_sliced(local, code, error);
    struct op_list *lists[2] = {&local->in_flight, &local->gathering};
    for (int i = 0; i < 2; i++) {
        for (bide_op *op = lists[i]->head; op != NULL; op = op->private_.next)
            bi_answer_take_back(op, code, error);
        release_held(local, lists[i]);
    }
}

/* Stores one batch. The lock is held at the call and at the return, not in between. */
static int commit_one(struct local *local)
{
    struct bi_batch batch;
    if (bi_core_seal(local->core, read_clocks(local), &batch) != BIDE_OK)
        return BIDE_ENOMEM;
    local->in_flight = list_take(&local->gathering);
    pthread_mutex_unlock(&local->lock);
    char error[BIDE_ERROR_SIZE] = "";
    int code = local->store->ops->commit(local->store, &batch, error);
    lock_local(local);
    if (code == BIDE_OK) {
        bi_core_committed(local->core, &batch);
        release_held(local, &local->in_flight);
    } else {
        commit_failed(local, code, error);
    }
    bi_batch_done(local->core, &batch);
    look_ahead(local);
    struct op_list completed = list_take(&local->completed);
    pthread_mutex_unlock(&local->lock);
    if (code != BIDE_OK)
        bi_log(&local->context.log, BIDE_LOG_ERROR, "a commit failed: %s", error);
    hand_out(local->context.complete, completed);
    lock_local(local);
    return code;
}

static void rest(struct local *local)
{
    pthread_mutex_unlock(&local->lock);
    bi_alarm_sleep(RETRY_MS);
    lock_local(local);
}

static void *run_commits(void *arg)
{
    struct local *local = arg;
    int code = BIDE_OK;
    lock_local(local);
    for (;;) {
        if (local->closing && (!bi_core_dirty(local->core) || code != BIDE_OK) &&
            local->held_ops == 0)
            break;
        if (code != BIDE_OK)
            rest(local);
        code = BIDE_OK;
        if (bi_core_dirty(local->core))
            code = commit_one(local);
        else if (!local->closing)
            pthread_cond_wait(&local->work, &local->lock);
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}

/* ---- opening ---- */

static struct bi_limits limits_of(const bide_options *options)
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
        .topic_cleanup = options->topic_cleanup >= 0,
    };
}

static int make_core(struct local *local, char *error)
{
    const bide_options *options = &local->context.options;
    struct store_start start;
    int code = local->store->ops->start(local->store, &start, error);
    if (code != BIDE_OK)
        return code;
    struct bi_core_options core = {
        .limits = limits_of(options),
        .alloc = bi_alloc_libc(),
        .journal = local->keeps,
        .wheel = options->ticker == BIDE_TICKER_WHEEL,
        .wheel_tick = options->wheel_tick_ms * 1000,
        .wheel_slots = options->wheel_slots,
        .seed = options->seed,
        .next_id = start.next_id,
        .next_token = start.next_token,
        .complete = on_complete,
        .ctx = local,
    };
    local->core = bi_core_new(&core, read_clocks(local));
    if (local->core != NULL)
        return BIDE_OK;
    bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
    return BIDE_ENOMEM;
}

static int load_record(void *ctx, const struct bi_record *record, const char *damage)
{
    struct local *local = ctx;
    if (damage != NULL)
        return BIDE_OK;
    if (record->kind == BI_PAUSE)
        return bi_core_load_pause(local->core, &record->image, read_clocks(local));
    return bi_core_load(local->core, &record->image, read_clocks(local));
}

static void free_local(struct local *local)
{
    bi_core_free(local->core);
    local->store->ops->close(local->store);
    bi_alarm_done(&local->alarm);
    pthread_cond_destroy(&local->room);
    pthread_cond_destroy(&local->left);
    pthread_cond_destroy(&local->work);
    pthread_mutex_destroy(&local->lock);
    pthread_mutex_destroy(&local->gate);
    free(local);
}

static int no_thread(char *error)
{
    bi_text_copy(error, "open: the system gives no more threads, timers or eventfds");
    return BIDE_ESYSTEM;
}

/* The program's signals are not for the threads of the library. */
static bool start_thread(pthread_t *thread, void *(*run)(void *), struct local *local)
{
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    bool started = pthread_create(thread, NULL, run, local) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return started;
}

static int start_threads(struct local *local, char *error)
{
    if (!bi_alarm_init(&local->alarm, local->context.options.ticker_min_ms * 1000,
                       local->context.options.ticker_max_ms * 1000))
        return no_thread(error);
    if (!start_thread(&local->timer_thread, run_timer, local))
        return no_thread(error);
    if (!local->keeps || start_thread(&local->commit_thread, run_commits, local))
        return BIDE_OK;
    lock_local(local);
    local->closing = true;
    pthread_mutex_unlock(&local->lock);
    bi_alarm_ring(&local->alarm);
    pthread_join(local->timer_thread, NULL);
    return no_thread(error);
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

int bi_local_open(const struct backend_context *context, const struct backend_ops *ops,
                  struct store *store, struct backend **out, char *error)
{
    struct local *local = calloc(1, sizeof(*local));
    if (local == NULL) {
        store->ops->close(store);
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }
    local->base.ops = ops;
    local->context = *context;
    local->store = store;
    local->keeps = store->ops->keeps;
    local->offset_read = -1000000;
    bi_alarm_clear(&local->alarm);
    init_lock(&local->lock);
    pthread_mutex_init(&local->gate, NULL);
    pthread_cond_init(&local->room, NULL);
    pthread_cond_init(&local->left, NULL);
    pthread_cond_init(&local->work, NULL);
    int code = make_core(local, error);
    if (code == BIDE_OK && local->keeps)
        code = store->ops->pauses(store, load_record, local, error);
    uint64_t after = 0;
    while (code == BIDE_OK && local->keeps) {
        code = store->ops->scan(store, &after, UINT64_MAX >> 1, 1000, load_record, local, error);
        if (code == BIDE_NOT_FOUND) {
            code = BIDE_OK;
            break;
        }
    }
    if (code == BIDE_OK)
        code = start_threads(local, error);
    if (code != BIDE_OK) {
        free_local(local);
        return code;
    }
    *out = &local->base;
    return BIDE_OK;
}

/* ---- closing ---- */

static void end_waiting(struct local *local)
{
    bi_core_close(local->core);
    struct op_list sliced = list_take(&local->sliced);
    for (bide_op *op = sliced.head; op != NULL;) {
        bide_op *next = op->private_.next;
        bi_core_abandon(local->core, op);
        bi_text_copy(op->error, bide_code_text(BIDE_CLOSED));
        finish_sliced(local, op, BIDE_CLOSED);
        op = next;
    }
}

void bi_local_shutdown(struct backend *backend)
{
    struct local *local = enter(backend);
    bi_core_close(local->core);
    leave(local);
}

void bi_local_close(struct backend *backend)
{
    struct local *local = local_of(backend);
    lock_local(local);
    local->closing = true;
    end_waiting(local);
    pthread_cond_broadcast(&local->work);
    pthread_cond_broadcast(&local->room);
    while (local->queued > 0)
        pthread_cond_wait(&local->left, &local->lock);
    struct op_list completed = list_take(&local->completed);
    pthread_mutex_unlock(&local->lock);
    hand_out(local->context.complete, completed);
    bi_alarm_ring(&local->alarm);
    pthread_join(local->timer_thread, NULL);
    if (local->keeps)
        pthread_join(local->commit_thread, NULL);
    /* Calls that began before this one may still be on their way out. */
    while (atomic_load_explicit(&local->inside, memory_order_acquire) > 0)
        bi_alarm_sleep(1);
    assert(local->held_ops == 0 && local->completed.head == NULL);
    free_local(local);
}
