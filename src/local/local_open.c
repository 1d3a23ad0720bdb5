/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* adaptive mutexes */
#include "local/local_internal.h"

#include "util/clock.h"
#include "util/message.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

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

/* Called by the core when a waiting op has its code. */
static void on_complete(void *ctx, bide_op *op)
{
    bi_local_reply(ctx, op, op->private_.status);
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
    return bi_error_set_code(error, BIDE_ENOMEM);
}

static int load_topic(void *ctx, const struct bi_record *record, const char *damage)
{
    struct local *local = ctx;
    (void)damage;
    bool pause = record->image.body == NULL;
    int code = bi_load_topic(local->core, &record->image, bi_local_now(local));
    if (code == BIDE_EINVAL && pause)
        bi_log(&local->context.log, BIDE_LOG_WARN, "a pause of no topic is left out");
    else if (code == BIDE_EINVAL)
        bi_log(&local->context.log, BIDE_LOG_WARN,
               "the policy of topic %s is invalid and left out; set it again", record->image.topic);
    /* An invalid row does not fail the open. */
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
        return bi_error_set_code(error, BIDE_ENOMEM);
    }

    init_local(local, context, ops, store);
    int code = make_core(local, error);

    /* Pauses and policies are loaded before anything is served: a paused topic must not deliver a
     * job. */
    if (code == BIDE_OK && local->persistent)
        code = store->ops->scan_topics(store, load_topic, local, error);
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
    struct local *local = bi_local_of(backend);
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
    assert(local->persistent && local->closing);
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
    struct local *local = bi_local_of(backend);
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
    struct local *local = bi_local_of(backend);
    assert(local->held_count.ops == 0 && local->completed.head == NULL);
    assert(local->rollback.waiting.head == NULL);
    assert(local->reading.ops == 0 && local->backlog.ops == 0);
    free_local(local);
    bi_lock_stats_report();
}
