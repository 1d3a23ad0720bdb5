/* SPDX-License-Identifier: MIT */
#include "task/keeper.h"
#include "util/thread.h"

#include <stdlib.h>
#include <time.h>

/* It looks around that often while handlers are begun, however little is due: else each of them
 * would have to wake it. No longer than the time to a look, which each of them wants where there
 * is no feed. */
#define ACTIVE_US LOOK_US

/* ---- ops ---- */

void bi_keeper_arm(struct keeper *keeper, bide_op *op, bide_op_kind kind)
{
    op->kind = kind;
    op->cq = keeper->cq;
    op->done = NULL;
}

void bi_keeper_submit(struct keeper *keeper, bide_op *op)
{
    bide_op *const list[1] = {op};
    bide_submit(keeper->worker->queue, list, 1);
}

bool bi_keeper_came_back(bool *out, const bide_op *op)
{
    if (!*out || op->status == BIDE_PENDING)
        return false;
    *out = false;
    return true;
}

struct bide_context *bi_keeper_still_runs(struct slot *slot, uint64_t id, uint64_t token)
{
    struct bide_context *context = &slot->context;
    pthread_mutex_lock(&context->lock);
    if (context->running && context->job.id == id && context->job.token == token)
        return context;
    pthread_mutex_unlock(&context->lock);
    return NULL;
}

/* ---- health ---- */

static void tell_health(struct keeper *keeper, int code, const char *text)
{
    bide_worker *worker = keeper->worker;
    if (worker->options.health != NULL)
        worker->options.health(worker->options.user, code, text);
    if (code == BIDE_OK)
        bi_worker_feed(worker, STARVED_PING);
    else
        bi_worker_starve(worker, STARVED_PING, code, text);
}

static void finish_ping(struct keeper *keeper)
{
    if (bi_keeper_came_back(&keeper->pinging, &keeper->ping))
        tell_health(keeper, keeper->ping.status, keeper->ping.error);
}

static int64_t tend_ping(struct keeper *keeper, int64_t now)
{
    if (atomic_load(&keeper->quit))
        return NEVER;
    if (now < keeper->ping_at)
        return keeper->ping_at;
    keeper->ping_at = now + keeper->worker->options.health_interval_ms * 1000;
    if (keeper->pinging) {
        tell_health(keeper, BIDE_TIMED_OUT, "the queue does not answer");
        return keeper->ping_at;
    }
    bi_keeper_arm(keeper, &keeper->ping, BIDE_OP_PING);
    keeper->pinging = true;
    bi_keeper_submit(keeper, &keeper->ping);
    finish_ping(keeper);
    return keeper->ping_at;
}

/* ---- the thread ---- */

/* While handlers are begun, it looks around once in a while. */
static int64_t stay_awake(struct keeper *keeper, int64_t now)
{
    uint64_t runs = 0;
    for (uint32_t i = 0; i < keeper->worker->options.threads; i++)
        runs += atomic_load_explicit(&keeper->worker->slots[i].runs, memory_order_relaxed);
    keeper->active = runs != keeper->runs;
    keeper->runs = runs;
    return keeper->active ? now + ACTIVE_US : NEVER;
}

static int64_t tend_all(struct keeper *keeper, int64_t now)
{
    int64_t due = stay_awake(keeper, now);
    due = bi_sooner(due, bi_heartbeat_tend(keeper, now));
    due = bi_sooner(due, bi_subscriber_tend(keeper, now));
    due = bi_sooner(due, bi_syncer_tend(keeper, now));
    return bi_sooner(due, tend_ping(keeper, now));
}

static void finish_all(struct keeper *keeper)
{
    int64_t now = bi_clock_boot();
    bi_heartbeat_finish(keeper, now);
    bi_subscriber_finish(keeper, now);
    bi_syncer_finish(keeper, now);
    finish_ping(keeper);
}

static bool is_waiting(const struct keeper *keeper)
{
    return keeper->touching || keeper->subscribing || keeper->listening || keeper->looking ||
           keeper->leaving || keeper->pinging;
}

/* Some finish at once, without a callback that would wake it. */
static bool has_news(const struct keeper *keeper)
{
    return (keeper->touching && keeper->touch.status != BIDE_PENDING) ||
           (keeper->subscribing && keeper->subscribe.status != BIDE_PENDING) ||
           (keeper->listening && keeper->listen.status != BIDE_PENDING) ||
           (keeper->leaving && keeper->leave.status != BIDE_PENDING);
}

/* While it looks around, who wants it may have been passed over already, and has to wake it. In
 * busy times that would be one turn after the other: then it promises when it will look again. */
static void turn(struct keeper *keeper)
{
    int64_t promise = keeper->active ? bi_clock_boot() + ACTIVE_US : NEVER;
    atomic_store(&keeper->wake_at, promise);
    finish_all(keeper);
    int64_t now = bi_clock_boot();
    int64_t due = bi_sooner(promise, tend_all(keeper, now));
    if (has_news(keeper))
        due = now;
    atomic_store(&keeper->wake_at, due);
    int64_t left = due == NEVER ? BIDE_FOREVER : due <= now ? 0 : (due - now + 999) / 1000;
    bide_cq_wait(keeper->cq, left);
}

/* Ends what can be ended. True: something is under way, and will wake it. */
static bool has_rest(struct keeper *keeper)
{
    finish_all(keeper); /* a feed may have come at last */
    bi_subscriber_stop(keeper);
    finish_all(keeper); /* and have gone at once */
    bool owed = bi_syncer_end(keeper);
    return owed || is_waiting(keeper);
}

static void *keep(void *arg)
{
    struct keeper *keeper = arg;
    struct here here;
    bi_worker_enter(&here, keeper->worker);
    while (!atomic_load(&keeper->quit))
        turn(keeper);
    while (has_rest(keeper))
        bide_cq_wait(keeper->cq, BIDE_FOREVER);
    pthread_mutex_lock(&keeper->worker->lock);
    keeper->ended = true;
    pthread_cond_broadcast(&keeper->worker->changed);
    pthread_mutex_unlock(&keeper->worker->lock);
    return NULL;
}

void bi_keeper_want(struct keeper *keeper, int64_t at)
{
    if (at < atomic_load(&keeper->wake_at))
        bi_cq_wake(keeper->cq);
}

static void free_keeper(struct keeper *keeper)
{
    free(keeper->items);
    free(keeper->item_slots);
    free(keeper->texts);
    pthread_mutex_destroy(&keeper->lock);
    bide_cq_free(keeper->cq);
    keeper->cq = NULL;
}

int bi_keeper_start(struct keeper *keeper, bide_worker *worker)
{
    uint32_t threads = worker->options.threads;
    *keeper = (struct keeper){.worker = worker};
    atomic_store(&keeper->wake_at, NEVER);
    int code = bide_cq_new(&keeper->cq);
    if (code != BIDE_OK)
        return code;
    bi_cq_attend(keeper->cq); /* it sleeps in bide_cq_wait() only */
    pthread_mutex_init(&keeper->lock, NULL);
    keeper->items = calloc(threads, sizeof(*keeper->items));
    keeper->item_slots = calloc(threads, sizeof(struct slot *));
    keeper->texts = calloc(threads, sizeof(*keeper->texts));
    bool room = keeper->items != NULL && keeper->item_slots != NULL && keeper->texts != NULL;
    if (room && bi_thread_start(&keeper->thread, keep, keeper))
        return BIDE_OK;
    free_keeper(keeper);
    return room ? bi_error_set(BIDE_ESYSTEM, "worker_start: the system gives no more threads")
                : bi_error_set(BIDE_ENOMEM, "worker_start: out of memory");
}

bool bi_keeper_end(struct keeper *keeper, int64_t end)
{
    bide_worker *worker = keeper->worker;
    atomic_store(&keeper->quit, true);
    bi_cq_wake(keeper->cq);
    pthread_mutex_lock(&worker->lock);
    for (int64_t now; !keeper->ended && (now = bi_clock_boot()) < end;) {
        struct timespec until;
        bi_clock_until(&until, bi_sooner(end - now, ACTIVE_US));
        pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    bool ended = keeper->ended;
    pthread_mutex_unlock(&worker->lock);
    return ended;
}

void bi_keeper_done(struct keeper *keeper)
{
    pthread_join(keeper->thread, NULL);
    free_keeper(keeper);
}
