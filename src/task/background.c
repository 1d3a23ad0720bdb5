/* SPDX-License-Identifier: MIT */
/*
 * background - one thread per worker for everything that must happen while handlers run.
 *
 *     heartbeat    extends the leases of running jobs, and sends their progress
 *     subscriber   receives cancels, and asks the handlers to stop
 *     syncer       retries acks that the queue could not accept
 *     announcer    announces the worker
 *     health       pings the queue; here
 *
 * The thread sleeps until the first of them must run. The ops have no callbacks: in a completion
 * callback blocking calls are rejected, and the event and health handlers of the program, which run
 * on this thread, may make such calls.
 */
#include "task/worker_internal.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* While handlers are started, the thread runs at least this often even if nothing is due. Otherwise
 * each started handler would have to wake it: a system call per job. It is not longer than
 * QUERY_INTERVAL_US, because without a subscription every handler needs a query after that time. */
#define ACTIVE_INTERVAL_US QUERY_INTERVAL_US

/* ---- ops ---- */

void bi_background_submit(struct background *background, enum background_op op, bide_op_kind kind)
{
    bide_op *const list[1] = {&background->ops[op]};

    assert(!background->pending[op]); /* an op belongs to the queue until it completes */
    background->pending[op] = true;
    list[0]->kind = kind;
    list[0]->cq = background->cq;
    bide_submit(background->worker->queue, list, 1);
}

bool bi_background_poll(struct background *background, enum background_op op)
{
    if (!background->pending[op] || background->ops[op].status == BIDE_PENDING)
        return false;
    background->pending[op] = false;
    return true;
}

/* Is any op in flight; or, with `completed`, has one completed that was not polled since? */
static bool has_ops(const struct background *background, bool completed)
{
    for (int i = 0; i < BACKGROUND_OPS; i++)
        if (background->pending[i] && (!completed || background->ops[i].status != BIDE_PENDING))
            return true;
    return false;
}

struct bide_context *bi_background_lock_running(struct worker_thread *thread, uint64_t id,
                                                uint64_t token)
{
    struct bide_context *context = &thread->context;
    assert(id != 0);
    pthread_mutex_lock(&context->lock);
    if (context->running && context->job.id == id && context->job.token == token)
        return context;
    pthread_mutex_unlock(&context->lock);
    return NULL;
}

/* ---- health ---- */

static void report_health(struct background *background, int code, const char *text)
{
    bide_worker *worker = background->worker;

    if (worker->options.health != NULL)
        worker->options.health(worker->options.user, code, text);
    bi_worker_set_health(worker, UNHEALTHY_PING, code, text);
}

static void complete_ping(struct background *background)
{
    const bide_op *ping = &background->ops[BACKGROUND_PING];
    if (bi_background_poll(background, BACKGROUND_PING))
        report_health(background, ping->status, ping->error);
}

static int64_t run_ping(struct background *background, int64_t now)
{
    if (atomic_load(&background->quit))
        return NEVER;
    if (now < background->ping_at)
        return background->ping_at;

    background->ping_at = now + background->worker->options.health_interval_ms * 1000;

    /* The last ping is still pending after a whole interval. It stays submitted: an op belongs to
     * the queue until it completes, so there is no room for a second one. */
    if (background->pending[BACKGROUND_PING]) {
        report_health(background, BIDE_TIMED_OUT, "the queue does not answer");
        return background->ping_at;
    }

    bi_background_submit(background, BACKGROUND_PING, BIDE_OP_PING);
    complete_ping(background); /* submit may complete it, and does not wake the cq then */
    return background->ping_at;
}

/* ---- the thread ---- */

static int64_t run_all(struct background *background, int64_t now)
{
    /* Started handlers show as a change of the sum of all `runs`; no thread has to report them. */
    uint64_t runs = 0;
    for (uint32_t i = 0; i < background->worker->options.threads; i++)
        runs += atomic_load_explicit(&background->worker->threads[i].runs, memory_order_relaxed);
    background->active = runs != background->runs;
    background->runs = runs;

    int64_t due = background->active ? now + ACTIVE_INTERVAL_US : NEVER;
    due = bi_background_earlier(due, bi_heartbeat_run(background, now));
    due = bi_background_earlier(due, bi_subscriber_run(background, now));
    due = bi_background_earlier(due, bi_syncer_run(background, now));
    due = bi_background_earlier(due, bi_announcer_run(background, now));
    return bi_background_earlier(due, run_ping(background, now));
}

static void complete_all(struct background *background)
{
    int64_t now = bi_clock_boot();
    bi_heartbeat_complete(background, now);
    bi_subscriber_complete(background, now);
    bi_syncer_complete(background, now);
    bi_announcer_complete(background);
    complete_ping(background);
}

/*
 * One turn: process completions, do what is due, sleep.
 *
 * wake_at is the protocol with bi_background_schedule(), which takes no lock. During the turn a
 * thread may add work to a context that was already visited, so wake_at must be later than any time
 * that such a thread may ask for: it then wakes the cq, and the sleep below returns at once. While
 * many handlers are started that would be one turn after the other. wake_at is then set to a time
 * at which the next turn happens in any case; only requests before that time wake the cq.
 */
static void run_once(struct background *background)
{
    int64_t promise = background->active ? bi_clock_boot() + ACTIVE_INTERVAL_US : NEVER;

    /* Before the contexts are read: a request that is not seen below compares with this value. */
    atomic_store(&background->wake_at, promise);
    complete_all(background);

    int64_t now = bi_clock_boot();
    int64_t due = bi_background_earlier(promise, run_all(background, now));
    if (has_ops(background, true))
        due = now; /* an op that completes within submit does not wake the cq */

    /* Everything that was asked for before this store is part of `due`, or has woken the cq. */
    atomic_store(&background->wake_at, due);
    int64_t left = due == NEVER ? BIDE_FOREVER : due <= now ? 0 : (due - now + 999) / 1000;
    bide_cq_wait(background->cq, left);
}

/* Ends what can be ended without waiting. True: ops are in flight, and will wake the cq. */
static bool drain(struct background *background)
{
    complete_all(background); /* a subscribe may have completed just now */
    bi_subscriber_stop(background);
    bi_announcer_stop(background);
    complete_all(background); /* these ops may have completed within submit */
    bool pending = bi_syncer_abandon(background);
    return pending || has_ops(background, false);
}

static void *background_main(void *arg)
{
    struct background *background = arg;
    struct callback_scope scope;

    bi_worker_enter(&scope, background->worker);
    while (!atomic_load(&background->quit))
        run_once(background);

    /* bi_background_done() frees the memory of the ops, so the thread must outlive them. */
    while (drain(background))
        bide_cq_wait(background->cq, BIDE_FOREVER);
    assert(background->subscription == NULL && !has_ops(background, false));

    pthread_mutex_lock(&background->worker->lock);
    background->ended = true;
    pthread_cond_broadcast(&background->worker->changed);
    pthread_mutex_unlock(&background->worker->lock);
    return NULL;
}

void bi_background_schedule(struct background *background, int64_t at)
{
    if (at < atomic_load(&background->wake_at))
        bi_cq_wake(background->cq);
}

static void free_background(struct background *background)
{
    free(background->items);
    free(background->item_threads);
    free(background->texts);
    pthread_mutex_destroy(&background->lock);
    bide_cq_free(background->cq);
    background->cq = NULL;
}

int bi_background_start(struct background *background, bide_worker *worker)
{
    uint32_t threads = worker->options.threads;

    memset(background, 0, sizeof(*background));
    background->worker = worker;
    atomic_store(&background->wake_at, NEVER);
    int code = bide_cq_new(&background->cq);
    if (code != BIDE_OK)
        return code;

    bi_cq_disable_notify(background->cq); /* the thread sleeps only in bide_cq_wait(): no eventfd */
    pthread_mutex_init(&background->lock, NULL);
    background->items = calloc(threads, sizeof(*background->items));
    background->item_threads = calloc(threads, sizeof(struct worker_thread *));
    background->texts = calloc(threads, sizeof(*background->texts));
    bool allocated =
        background->items != NULL && background->item_threads != NULL && background->texts != NULL;
    if (allocated && bi_thread_start(&background->handle, background_main, background))
        return BIDE_OK;

    int cause = errno;
    free_background(background);
    return allocated ? bi_last_error_set(BIDE_ESYSTEM, "worker_start: cannot create thread: %s",
                                         strerror(cause))
                     : bi_last_error_set(BIDE_ENOMEM, "worker_start: out of memory");
}

bool bi_background_stop(struct background *background, int64_t end)
{
    bide_worker *worker = background->worker;

    assert(background->cq != NULL); /* it was started */
    atomic_store(&background->quit, true);
    bi_cq_wake(background->cq);

    pthread_mutex_lock(&worker->lock);
    for (int64_t now; !background->ended && (now = bi_clock_boot()) < end;)
        bi_worker_wait_step(&worker->changed, &worker->lock, end - now);
    bool ended = background->ended;
    pthread_mutex_unlock(&worker->lock);
    return ended;
}

void bi_background_done(struct background *background)
{
    assert(background->ended);
    pthread_join(background->handle, NULL);
    free_background(background);
}
