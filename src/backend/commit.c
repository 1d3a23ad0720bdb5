/* SPDX-License-Identifier: MIT */
/*
 * commit - batches go to the store, and the answers that wait for them go out.
 *
 * While one batch is being stored the next ones gather. Who stores is the commit thread, or a
 * caller that waits for its own op and finds nobody at it: alone on the queue, it need not wake
 * anybody and be woken. There is one batch in flight at a time, whoever stores it.
 */
#define _GNU_SOURCE /* sched_getaffinity, pthread_timedjoin_np */
#include "backend/answer.h"
#include "backend/inside.h"
#include "util/clock.h"
#include "util/text.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

/* How long the commit thread rests when memory lacks, or after a commit has failed. */
#define RETRY_MS 10
/* How long held answers are given before other threads get the lock, because each may have a thousand
 * jobs; and after how many the clock is read. */
#define ANSWERS_US    1000
#define ANSWERS_TIMED 16
/* How long callers wait for a store that cannot be read before they are refused. */
#define PATIENCE_US 5000000
/* Between two looks at a store of which nobody knows what it has. */
#define STUCK_MS 200

/* A checkpoint may have gigabytes to write: it may take so many times as long as a commit before it
 * counts as one that hangs. */
#define TIDY_PATIENCE 16

/* Changes of one caller that are not sealed under the lock under which they were made. */
#define LARGE_BACKLOG 256

/* ---- holding answers ---- */

static struct op_list *held_for(struct local *local, uint64_t batch)
{
    return &local->held[batch % BI_BATCHES_MAX];
}

bool bi_commit_must_hold(const struct local *local, const bide_op *op)
{
    return local->keeps && op->private_.hold > bi_core_committed_batch(local->core);
}

void bi_commit_hold(struct local *local, bide_op *op)
{
    op->private_.flags |= BI_HELD;
    list_add(held_for(local, op->private_.hold), op);
    local->held_ops++;
    local->held_bytes += op->private_.bytes;
}

/* One answer is held no longer. */
static void release_op(struct local *local, bide_op *op)
{
    local->held_ops--;
    local->held_bytes -= op->private_.bytes;
    list_add(&local->completed, op);
}

/*
 * The batch is stored, and the answers that waited for it are given. Leases begin with that. The lock
 * is held at the call, since a given time, and at the return; other threads get it in between, because
 * there is no bound to the reserves that one batch may hold.
 */
static void answer_held(struct local *local, uint64_t batch, int64_t since)
{
    struct op_list ops = list_take(held_for(local, batch));
    struct bi_now now = bi_local_clocks(local);
    int64_t until = since + ANSWERS_US;
    bide_op *op;
    for (unsigned count = 1; (op = list_pop(&ops)) != NULL; count++) {
        if (bi_commit_is_unwanted(op)) {
            bi_core_untake(local->core, op, now);
            bi_commit_take_back(local, op, BIDE_CANCELLED, bide_code_text(BIDE_CANCELLED));
        } else {
            bi_core_answered(local->core, op, now);
        }
        release_op(local, op);
        if (count % ANSWERS_TIMED != 0 || ops.head == NULL || bi_clock_boot() < until)
            continue;
        bi_local_look_ahead(local);
        bi_local_unlock(local);
        bi_local_lock(local);
        now = bi_local_clocks(local);
        until = now.mono + ANSWERS_US;
    }
    if (local->queued > 0)
        pthread_cond_broadcast(&local->room);
}

static bool is_full(const struct local *local)
{
    const bide_options *options = &local->context.options;
    return local->held_ops >= options->max_pending_ops ||
           local->held_bytes >= options->max_pending_bytes;
}

int bi_commit_room(struct local *local, bide_op *op, struct bi_now *now)
{
    if (!is_full(local))
        return BIDE_OK;
    while ((is_full(local) || local->undoing.running) && !local->closing) {
        if (op->private_.wake == NULL)
            return bi_local_refuse(op, BIDE_EBUSY, NULL);
        local->queued++;
        pthread_cond_wait(&local->room, &local->lock);
        if (--local->queued == 0)
            pthread_cond_signal(&local->left);
    }
    *now = bi_local_clocks(local);
    return local->closing ? bi_local_refuse(op, BIDE_CLOSED, NULL) : BIDE_OK;
}

/* The finish of a finish_and_reserve that waited may have been stored long before. */
void bi_commit_take_back(const struct local *local, bide_op *op, int code, const char *error)
{
    bool finished = op->kind == BIDE_OP_FINISH_AND_RESERVE &&
                    op->private_.bound[0] <= bi_core_committed_batch(local->core);
    int status = finished ? op->finish_and_reserve.finish.status : BIDE_OK;
    bi_core_uncount(local->core, op);
    bi_answer_take_back(op, code, error);
    if (finished)
        op->finish_and_reserve.finish.status = status;
}

bool bi_commit_fail_held(struct local *local, int code, const char *error, int64_t until)
{
    struct bi_now now = bi_local_clocks(local);
    for (int i = 0; i < BI_BATCHES_MAX; i++) {
        bide_op *op;
        while ((op = list_pop(&local->held[i])) != NULL) {
            bi_core_untake(local->core, op, now);
            bi_commit_take_back(local, op, code, error);
            release_op(local, op);
            if (bi_clock_boot() >= until)
                return local->held_ops > 0;
        }
    }
    return false;
}

/* ---- storing ---- */

/*
 * The files were opened again after a failed write. What the batch touched is compared before
 * anything more is acknowledged, and everything else while the queue serves. If the rows cannot be
 * read now, the batch is kept, and the commit thread tries again. The lock is held at the call and
 * at the return; nothing is stored in between.
 */
static void compare_reopened(struct local *local, const struct bi_batch *batch)
{
    char error[BIDE_ERROR_SIZE] = "";
    pthread_mutex_unlock(&local->lock);
    local->store->reopened = false;
    int code = bi_care_compare_batch(local, batch, error);
    int64_t now = bi_clock_boot();
    if (code == BIDE_OK)
        bi_log_ends(&local->unreadable);
    else if (bi_log_repeats(&local->unreadable, now) > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR,
               "what a failed write concerns cannot be compared, and is tried again: %s", error);
    bi_local_lock(local);
    if (!local->uncompared)
        local->uncompared_since = now;
    local->uncompared = code != BIDE_OK;
    /* For some seconds callers just wait. */
    local->stuck = local->uncompared && now - local->uncompared_since > PATIENCE_US;
    if (local->uncompared)
        snprintf(local->stuck_text, sizeof(local->stuck_text),
                 "%.60s cannot be compared (%.60s); it is tried again",
                 local->store->place == NULL ? "the store" : local->store->place, error);
    else
        bi_care_want_comparison(local);
}

/* Nobody knows how it went: whoever waits is told so, and nothing is taken on until it is known. The
 * batch stays in flight, and is the commit thread's. */
static void get_stuck(struct local *local, const struct bi_batch *batch, const char *error)
{
    bi_log(&local->context.log, BIDE_LOG_ERROR, "%s", error);
    bi_local_lock(local);
    bi_log_repeats(&local->failing, bi_clock_boot());
    bi_text_copy(local->stuck_text, error);
    local->stuck = true;
    bi_undoing_run(local, false, BIDE_EUNKNOWN, error);
    local->unsettled = *batch;
    pthread_cond_signal(&local->work);
    bi_local_unlock(local);
}

/* Without the lock. */
static void tidy(struct local *local, bool idle)
{
    if (local->store->ops->tidy == NULL || bi_store_is_late(local->store))
        return;
    atomic_store_explicit(&local->tidy_began, bi_clock_boot(), memory_order_relaxed);
    int64_t again = local->store->ops->tidy(local->store, idle);
    atomic_store_explicit(&local->tidy_began, 0, memory_order_relaxed);
    bi_local_acquire(local);
    local->tidy_at = again == BI_NEVER ? BI_NEVER : bi_clock_boot() + again;
    if (local->tidy_at < local->wakes_at)
        pthread_cond_signal(&local->work);
    pthread_mutex_unlock(&local->lock);
}

/* It is known how a commit went. Without the lock. */
static void settle(struct local *local, struct bi_batch *batch, int code, const char *error)
{
    bi_local_lock(local);
    int64_t since = bi_clock_boot();
    if (code == BIDE_OK)
        bi_core_committed(local->core, batch);
    else
        bi_undoing_run(local, true, code, error);
    if (local->store->reopened)
        compare_reopened(local, batch);
    if (code == BIDE_OK)
        answer_held(local, batch->number, since);
    uint64_t failures = 0;
    if (code != BIDE_OK && code != BIDE_CLOSED)
        failures = bi_log_repeats(&local->failing, bi_clock_boot());
    else if (code == BIDE_OK &&
             batch->count > 0) /* one without records may succeed on a disk that takes nothing */
        failures = bi_log_ends(&local->failing);
    if (local->uncompared)
        local->doubted = *batch;
    else
        bi_batch_done(local->core, batch);
    local->committing = local->uncompared; /* then nothing is stored before it is compared */
    bi_local_look_ahead(local);
    if (bi_ticking_may_slice(local))
        bi_alarm_ring(&local->alarm);
    bi_local_unlock(local);
    if (failures > 0 && code == BIDE_OK)
        bi_log(&local->context.log, BIDE_LOG_WARN, "commits succeed again (%llu had failed)",
               (unsigned long long)failures);
    else if (failures > 0)
        bi_log(&local->context.log, BIDE_LOG_ERROR, "a commit failed (%llu so far): %s",
               (unsigned long long)failures, error);
    tidy(local, false);
}

/* Without the lock. */
static int store_batch(struct local *local, struct bi_batch *batch, char *error)
{
    int64_t began = bi_clock_boot();
    atomic_store_explicit(&local->commit_began, began, memory_order_relaxed);
    int code = local->store->ops->commit(local->store, batch, error);
    atomic_store_explicit(&local->commit_began, 0, memory_order_relaxed);
    local->commit_us = bi_clock_boot() - began; /* guarded by committing */
    return code;
}

/* The process has no more time to store anything: the batch, and what gathers behind it, is undone.
 * Without the lock. */
static void give_up(struct local *local, char *error)
{
    bi_text_copy(error, "the queue is closed, and the time for that is over");
    if (!local->gave_up)
        bi_log(
            &local->context.log, BIDE_LOG_WARN,
            "the time to stop is over: what no client was told of is not stored any more, and leases "
            "that are not stored yet are as after a crash");
    local->gave_up = true; /* guarded by committing */
}

/*
 * Stores one batch. The lock is held at the call and at the return, not in between. Others may
 * begin the next one while the answers of this one are still being handed out: to wake a thousand
 * callers takes longer than to write what they bring.
 */
static int commit_one(struct local *local)
{
    struct bi_batch batch;
    if (bi_core_seal(local->core, bi_local_clocks(local), &batch) != BIDE_OK)
        return BIDE_ENOMEM;
    local->committing = true;
    pthread_mutex_unlock(&local->lock);
    char error[BIDE_ERROR_SIZE] = "";
    int code = bi_store_is_late(local->store) ? BIDE_CLOSED : store_batch(local, &batch, error);
    if (code == BIDE_CLOSED)
        give_up(local, error);
    if (code == BIDE_EUNKNOWN)
        get_stuck(local, &batch, error);
    else
        settle(local, &batch, code, error);
    bi_local_acquire(local);
    return code;
}

/* Tries a batch again of which nobody knows how it went. When the end has come it counts as not
 * stored; when the time to stop is over, that is so without another try. The lock is held at the call
 * and at the return. */
static int try_unsettled(struct local *local)
{
    struct bi_batch batch = local->unsettled;
    bool late = bi_store_is_late(local->store);
    bool last = local->last || late;
    pthread_mutex_unlock(&local->lock);
    char error[BIDE_ERROR_SIZE] = "the time to stop is over, and it is not known what is stored";
    if (!last)
        bi_alarm_sleep(STUCK_MS);
    int code = late ? BIDE_EUNKNOWN : store_batch(local, &batch, error);
    if (code != BIDE_EUNKNOWN || last) {
        bi_local_lock(local);
        local->unsettled.number = 0;
        local->stuck = false;
        pthread_mutex_unlock(&local->lock);
        settle(local, &batch, code, error);
    }
    bi_local_lock(local);
    return code;
}

void bi_commit_lead(struct local *local)
{
    /* To make many changes and to seal them are two holds of the lock. */
    if (bi_core_backlog(local->core) > LARGE_BACKLOG) {
        bi_local_unlock(local);
        bi_local_acquire(local);
    }
    if (local->committing || !bi_core_dirty(local->core))
        return;
    commit_one(local);
    /* What has gathered meanwhile, and what the store asked for, is the commit thread's. */
    if (bi_core_dirty(local->core) || local->asides != NULL || local->uncompared || local->closing)
        pthread_cond_signal(&local->work);
}

/* ---- rows that make no sense ---- */

void bi_commit_set_aside(struct local *local, uint64_t id, const char *reason)
{
    struct aside *aside = malloc(sizeof(*aside));
    bi_log(&local->context.log, BIDE_LOG_ERROR, "job %llu cannot be loaded: %s",
           (unsigned long long)id, reason);
    if (aside == NULL)
        return; /* it stays where it is, and is found again at the next start */
    aside->id = id;
    snprintf(aside->reason, sizeof(aside->reason), "%s", reason);
    bi_local_lock(local);
    aside->next = local->asides;
    local->asides = aside;
    pthread_cond_signal(&local->work);
    pthread_mutex_unlock(&local->lock);
}

/* The lock is held at the call and at the return. */
static void set_one_aside(struct local *local)
{
    struct aside *aside = local->asides;
    local->asides = aside->next;
    local->committing = true;
    pthread_mutex_unlock(&local->lock);
    char error[BIDE_ERROR_SIZE] = "the time to stop is over";
    atomic_store_explicit(&local->tidy_began, bi_clock_boot(), memory_order_relaxed);
    if (bi_store_is_late(local->store) ||
        local->store->ops->set_aside(local->store, aside->id, aside->reason, error) != BIDE_OK)
        bi_log(&local->context.log, BIDE_LOG_WARN, "job %llu stays where it is: %s",
               (unsigned long long)aside->id, error);
    atomic_store_explicit(&local->tidy_began, 0, memory_order_relaxed);
    free(aside);
    bi_local_lock(local);
    local->committing = false;
}

/* ---- the thread ---- */

static void rest(struct local *local)
{
    pthread_mutex_unlock(&local->lock);
    bi_alarm_sleep(RETRY_MS);
    bi_local_lock(local);
}

static void wait_for_work(struct local *local)
{
    local->wakes_at = local->committing ? BI_NEVER : local->tidy_at;
    if (local->wakes_at == BI_NEVER) {
        pthread_cond_wait(&local->work, &local->lock);
    } else {
        struct timespec until;
        int64_t us = local->wakes_at - bi_clock_boot();
        bi_clock_until(&until, us < 0 ? 0 : us);
        pthread_cond_timedwait(&local->work, &local->lock, &until);
    }
    local->wakes_at = 0; /* awake */
}

static void tidy_unlocked(struct local *local)
{
    local->committing = true;
    pthread_mutex_unlock(&local->lock);
    tidy(local, true);
    bi_local_lock(local);
    local->committing = false;
}

/* The lock is held at the call and at the return. At the end of all, what cannot be compared is
 * left to the next start. */
static void compare_again(struct local *local)
{
    bool last = local->last;
    pthread_mutex_unlock(&local->lock);
    bi_alarm_sleep(STUCK_MS);
    bi_local_lock(local);
    compare_reopened(local, &local->doubted);
    local->uncompared = local->uncompared && !last;
    local->committing = local->uncompared;
    if (!local->uncompared)
        bi_batch_done(local->core, &local->doubted);
}

/*
 * On a single processor whoever is about to bring more must run first: woken by the first of them
 * this thread would store that one alone, and the others after it. The lock is held at the call and
 * at the return.
 */
static void let_gather(struct local *local)
{
    pthread_mutex_unlock(&local->lock);
    sched_yield();
    bi_local_lock(local);
}

static int commit_gathered(struct local *local, bool alone)
{
    if (alone)
        let_gather(local);
    /* A caller may have begun to store meanwhile, or have stored all there was. */
    return local->committing || !bi_core_dirty(local->core) ? BIDE_OK : commit_one(local);
}

/* May the threads of this process run on one processor only? */
static bool is_alone(void)
{
    cpu_set_t set;
    CPU_ZERO(&set);
    return sched_getaffinity(0, sizeof(set), &set) == 0 && CPU_COUNT(&set) == 1;
}

void *bi_commit_run(void *arg)
{
    struct local *local = arg;
    int code = BIDE_OK;
    bool alone = is_alone();
    bi_local_lock(local);
    for (;;) {
        bool dirty = bi_core_dirty(local->core);
        if (local->last && !local->committing && (!dirty || code != BIDE_OK) &&
            local->held_ops == 0 && local->asides == NULL)
            break;
        if (code != BIDE_OK)
            rest(local);
        code = BIDE_OK;
        if (local->unsettled.number != 0)
            code = try_unsettled(local);
        else if (local->uncompared)
            compare_again(local);
        else if (local->committing)
            wait_for_work(local);
        else if (dirty)
            code = commit_gathered(local, alone);
        else if (local->asides != NULL)
            set_one_aside(local);
        else if (local->tidy_at <= bi_clock_boot() && !local->last)
            tidy_unlocked(local);
        else if (!local->last)
            wait_for_work(local);
        else
            rest(local); /* somebody still has answers held, and is about to say so */
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}

int64_t bi_local_commit_age(struct backend *backend)
{
    const struct local *local = (const struct local *)(const void *)backend;
    int64_t began = atomic_load_explicit(&local->commit_began, memory_order_relaxed);
    int64_t tidy_began = atomic_load_explicit(&local->tidy_began, memory_order_relaxed);
    int64_t now = bi_clock_boot();
    int64_t age = began == 0 ? 0 : now - began;
    int64_t tidy_age = tidy_began == 0 ? 0 : (now - tidy_began) / TIDY_PATIENCE;
    age = age > tidy_age ? age : tidy_age;
    return began != 0 && age < 1 ? 1 : age;
}

void bi_commit_join(struct local *local)
{
    int64_t left = local->store->late_at == 0 ? 0 : local->store->late_at - bi_clock_boot();
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    if (left > 0) {
        until.tv_sec += (time_t)(left / 1000000);
        until.tv_nsec += (long)(left % 1000000) * 1000;
        until.tv_sec += until.tv_nsec / 1000000000;
        until.tv_nsec %= 1000000000;
    }
    if (local->store->late_at != 0 && pthread_timedjoin_np(local->commit_thread, NULL, &until) == 0)
        return;
    int64_t age = bi_local_commit_age(&local->base);
    if (age > 0 && bi_store_is_late(local->store))
        bi_log(
            &local->context.log, BIDE_LOG_WARN,
            "the time to stop is over, but a commit to %.200s has taken %lld s so far and cannot be "
            "interrupted: it is waited for, and nothing is stored behind it",
            local->store->place == NULL ? "the store" : local->store->place,
            (long long)(age / 1000000));
    pthread_join(local->commit_thread, NULL);
}
