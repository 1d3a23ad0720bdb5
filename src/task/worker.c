/* SPDX-License-Identifier: MIT */
/*
 * worker - making, starting and stopping.
 */
#include "task/inside.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

#define STOP_TIMEOUT_MS    30000
#define HEALTH_INTERVAL_MS 15000
/* A handler that was told to stop has that long to return. */
#define GRACE_US 1000000

static _Thread_local const struct here *innermost;

void bi_worker_enter(struct here *here, const bide_worker *worker)
{
    *here = (struct here){worker, innermost};
    innermost = here;
}

void bi_worker_leave(const struct here *here)
{
    innermost = here->before;
}

bool bi_worker_is_here(const bide_worker *worker)
{
    const struct here *here = innermost;
    while (here != NULL && here->worker != worker)
        here = here->before;
    return here != NULL;
}

/* ---- making ---- */

static int check_options(const bide_worker_options *options)
{
    if (options->size != sizeof(*options))
        return bi_error_set(BIDE_EINVAL,
                            "worker_new: options.size is %zu; begin with BIDE_WORKER_OPTIONS_INIT",
                            options->size);
    if (options->threads > BIDE_WORKER_THREADS_MAX)
        return bi_error_set(BIDE_EINVAL, "worker_new: %u threads; at most %d are allowed",
                            options->threads, BIDE_WORKER_THREADS_MAX);
    if ((unsigned)options->strategy > BIDE_FAIR)
        return bi_error_set(BIDE_EINVAL, "worker_new: %d is no strategy", (int)options->strategy);
    if (options->stop_timeout_ms < BIDE_FOREVER || options->stop_timeout_ms > BIDE_TIME_MAX_MS)
        return bi_error_set(BIDE_EINVAL, "worker_new: stop_timeout_ms is not a time");
    if (options->health_interval_ms < 0 || options->health_interval_ms > BIDE_TIME_MAX_MS)
        return bi_error_set(BIDE_EINVAL, "worker_new: health_interval_ms is not a time");
    return BIDE_OK;
}

static void resolve(bide_worker_options *options)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (options->threads == 0)
        options->threads = processors < 1                         ? 1
                           : processors > BIDE_WORKER_THREADS_MAX ? BIDE_WORKER_THREADS_MAX
                                                                  : (uint32_t)processors;
    if (options->stop_timeout_ms == 0)
        options->stop_timeout_ms = STOP_TIMEOUT_MS;
    if (options->health_interval_ms == 0)
        options->health_interval_ms = HEALTH_INTERVAL_MS;
}

int bide_worker_new(bide *queue, const bide_worker_options *options, bide_worker **out)
{
    bide_worker_options given = BIDE_WORKER_OPTIONS_INIT;
    bi_error_clear();
    if (queue == NULL || out == NULL)
        return bi_error_set(BIDE_EINVAL, "worker_new: queue or out is NULL");
    if (options != NULL)
        given = *options;
    int code = check_options(&given);
    if (code != BIDE_OK)
        return code;
    bide_worker *worker = calloc(1, sizeof(*worker));
    if (worker == NULL)
        return bi_error_set(BIDE_ENOMEM, "worker_new: out of memory");
    worker->end_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    if (worker->end_fd < 0) {
        free(worker);
        return bi_error_set(BIDE_ESYSTEM, "worker_new: the system gives no more eventfds");
    }
    resolve(&given);
    worker->queue = queue;
    queue->workers++;
    worker->options = given;
    pthread_mutex_init(&worker->life, NULL);
    pthread_mutex_init(&worker->lock, NULL);
    bi_thread_condition(&worker->changed);
    *out = worker;
    return BIDE_OK;
}

/* ---- what its threads share ---- */

void bi_worker_event(const bide_worker *worker, const bide_work_event *event)
{
    if (worker->options.event != NULL)
        worker->options.event(worker->options.user, event);
}

void bi_worker_starve(bide_worker *worker, int why, int code, const char *text)
{
    bide_work_event event = {.kind = BIDE_WORK_STARVED, .code = code, .text = text, .topic = ""};
    if (atomic_fetch_or(&worker->starved, why) == 0)
        bi_worker_event(worker, &event);
}

void bi_worker_feed(bide_worker *worker, int why)
{
    bide_work_event event = {.kind = BIDE_WORK_FED, .text = "", .topic = ""};
    if (atomic_load_explicit(&worker->starved, memory_order_relaxed) != 0 &&
        atomic_fetch_and(&worker->starved, ~why) == why)
        bi_worker_event(worker, &event);
}

void bi_worker_tell(bide_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

static void raise_end(const bide_worker *worker)
{
    uint64_t one = 1;
    ssize_t written = write(worker->end_fd, &one, sizeof(one));
    (void)written; /* it is readable already */
}

static void lower_end(const bide_worker *worker)
{
    uint64_t count;
    ssize_t got = read(worker->end_fd, &count, sizeof(count));
    (void)got; /* it need not have been raised */
}

void bi_worker_end_slot(bide_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    if (--worker->slots_left == 0)
        raise_end(worker);
    pthread_cond_broadcast(&worker->changed);
    pthread_mutex_unlock(&worker->lock);
}

/* ---- its slots ---- */

static void free_slots(bide_worker *worker)
{
    struct slot *slots = worker->slots;
    pthread_mutex_lock(&worker->lock);
    worker->slots = NULL;
    pthread_mutex_unlock(&worker->lock);
    for (uint32_t i = 0; i < worker->options.threads; i++)
        bi_slot_done(&slots[i]);
    free(slots);
}

static int make_slots(bide_worker *worker)
{
    struct slot *slots = calloc(worker->options.threads, sizeof(*slots));
    if (slots == NULL)
        return bi_error_set(BIDE_ENOMEM, "worker_start: out of memory");
    int code = BIDE_OK;
    for (uint32_t i = 0; i < worker->options.threads && code == BIDE_OK; i++)
        code = bi_slot_init(&slots[i], worker);
    pthread_mutex_lock(&worker->lock);
    worker->slots = slots;
    worker->slots_left = worker->options.threads;
    pthread_mutex_unlock(&worker->lock);
    if (code == BIDE_OK)
        code = bi_keeper_start(&worker->keeper, worker);
    if (code == BIDE_OK)
        return BIDE_OK;
    char error[BIDE_ERROR_SIZE];
    bi_text_copy(error, bide_last_error());
    free_slots(worker);
    return bi_error_set(code, "%s", error);
}

/* ---- stopping ---- */

int bide_worker_quit(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (worker == NULL)
        return bi_error_set(BIDE_EINVAL, "worker_quit: worker is NULL");
    pthread_mutex_lock(&worker->lock);
    if (worker->slots != NULL) {
        atomic_store(&worker->stopping, true);
        raise_end(worker);
    }
    for (uint32_t i = 0; worker->slots != NULL && i < worker->options.threads; i++)
        bi_slot_wake(&worker->slots[i]);
    pthread_mutex_unlock(&worker->lock);
    return BIDE_OK;
}

/* With the lock held: is nothing owed, and have the slots ended, if that is asked for, too? */
static bool is_at_end(const bide_worker *worker, bool slots)
{
    return worker->owed_count == 0 && (!slots || worker->slots_left == 0);
}

static bool await_end(bide_worker *worker, bool slots, int64_t end)
{
    pthread_mutex_lock(&worker->lock);
    for (int64_t now; !is_at_end(worker, slots) && (now = bi_clock_boot()) < end;) {
        struct timespec until;
        bi_clock_until(&until, end - now < 1000000 ? end - now : 1000000);
        pthread_cond_timedwait(&worker->changed, &worker->lock, &until);
    }
    bool ended = is_at_end(worker, slots);
    pthread_mutex_unlock(&worker->lock);
    return ended;
}

static void tell_to_stop(bide_worker *worker)
{
    for (uint32_t i = 0; i < worker->options.threads; i++) {
        struct bide_context *context = &worker->slots[i].context;
        pthread_mutex_lock(&context->lock);
        if (context->running)
            bi_context_tell(context, BIDE_REASON_STOPPING);
        pthread_mutex_unlock(&context->lock);
    }
}

/* Gives back the jobs of handlers that do not return: the keeper tells the queue. */
static void take_away(bide_worker *worker)
{
    static const struct answer none;
    for (uint32_t i = 0; i < worker->options.threads; i++) {
        struct bide_context *context = &worker->slots[i].context;
        struct answer answer = none;
        pthread_mutex_lock(&context->lock);
        bool runs = context->running && !context->given_back;
        if (runs) {
            context->given_back = true;
            bi_answer_give_back(&answer, context);
            bi_context_tell(context, BIDE_REASON_LEASE_LOST);
        }
        pthread_mutex_unlock(&context->lock);
        if (runs && !bi_keeper_owe(&worker->keeper, &answer))
            bi_answer_give_up(&answer, worker);
    }
}

/* Waits for the end of the slots, and then of the keeper, whose ops may still be under way. */
static bool has_ended(bide_worker *worker, int64_t end)
{
    pthread_mutex_lock(&worker->lock);
    bool ended = worker->slots_left == 0;
    pthread_mutex_unlock(&worker->lock);
    return ended && bi_keeper_end(&worker->keeper, end);
}

/* Joins and frees, if everything has ended by then. */
static bool reap(bide_worker *worker, int64_t end)
{
    if (!has_ended(worker, end))
        return false;
    for (uint32_t i = 0; i < worker->options.threads; i++)
        if (worker->slots[i].started)
            pthread_join(worker->slots[i].thread, NULL);
    bi_keeper_done(&worker->keeper);
    free_slots(worker);
    worker->state = WORKER_IDLE;
    return true;
}

static int64_t stop_end(const bide_worker *worker)
{
    int64_t timeout_ms = worker->options.stop_timeout_ms;
    return timeout_ms < 0 ? NEVER : bi_clock_boot() + timeout_ms * 1000;
}

static bool has_running(const bide_worker *worker)
{
    bool runs = false;
    for (uint32_t i = 0; i < worker->options.threads; i++) {
        struct bide_context *context = &worker->slots[i].context;
        pthread_mutex_lock(&context->lock);
        runs = runs || context->running;
        pthread_mutex_unlock(&context->lock);
    }
    return runs;
}

static int say_not_ended(const bide_worker *worker)
{
    return bi_error_set(BIDE_TIMED_OUT,
                        has_running(worker)
                            ? "worker_stop: handlers still run; their jobs were given back"
                            : "worker_stop: the queue does not answer");
}

int bi_worker_stop(bide_worker *worker)
{
    int64_t end = stop_end(worker);
    worker->state = WORKER_STOPS;
    bide_worker_quit(worker);
    if (!await_end(worker, true, end)) {
        tell_to_stop(worker);
        if (!await_end(worker, true, bi_clock_boot() + GRACE_US)) {
            take_away(worker);
            await_end(worker, false, bi_clock_boot() + GRACE_US);
        }
    }
    int64_t grace = bi_clock_boot() + GRACE_US;
    if (reap(worker, end > grace ? end : grace))
        return BIDE_OK;
    return say_not_ended(worker);
}

int bide_worker_stop(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (worker == NULL)
        return bi_error_set(BIDE_EINVAL, "worker_stop: worker is NULL");
    if (bi_worker_is_here(worker))
        return bi_error_set(BIDE_ECALLBACK, "worker_stop: called by one of its own handlers");
    pthread_mutex_lock(&worker->life);
    int code = worker->state == WORKER_IDLE ? BIDE_OK : bi_worker_stop(worker);
    pthread_mutex_unlock(&worker->life);
    return code;
}

static void await_slots(bide_worker *worker)
{
    pthread_mutex_lock(&worker->lock);
    while (worker->slots_left > 0)
        pthread_cond_wait(&worker->changed, &worker->lock);
    pthread_mutex_unlock(&worker->lock);
}

int bide_worker_free(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (worker == NULL)
        return BIDE_OK;
    if (bi_worker_is_here(worker))
        return bi_error_set(BIDE_ECALLBACK, "worker_free: called by one of its own handlers");
    if (bide_worker_stop(worker) != BIDE_OK) {
        await_slots(worker);
        reap(worker, NEVER); /* what is owed is given up */
    }
    worker->queue->workers--;
    bi_worker_forget(worker);
    pthread_cond_destroy(&worker->changed);
    pthread_mutex_destroy(&worker->lock);
    pthread_mutex_destroy(&worker->life);
    close(worker->end_fd);
    free(worker);
    bi_error_clear();
    return BIDE_OK;
}

/* ---- starting ---- */

int bi_worker_prepare(bide_worker *worker)
{
    if (worker->entry_count == 0)
        return bi_error_set(BIDE_EINVAL, "worker_start: the worker has no handlers");
    if (worker->state == WORKER_RUNS)
        return bi_error_set(BIDE_EBUSY, "worker_start: the worker runs already");
    if (worker->state == WORKER_STOPS && !reap(worker, bi_clock_boot() + GRACE_US))
        return bi_error_set(BIDE_EBUSY, "worker_start: what ran before the stop has not ended yet");
    atomic_store(&worker->stopping, false);
    bi_worker_feed(worker, atomic_load(&worker->starved));
    lower_end(worker);
    int code = make_slots(worker);
    if (code == BIDE_OK)
        worker->state = WORKER_RUNS;
    return code;
}

static void *slot_main(void *arg)
{
    BI_NO_CANCEL;
    struct slot *slot = arg;
    /* Not before all of them are there. */
    pthread_mutex_lock(&slot->worker->lock);
    pthread_mutex_unlock(&slot->worker->lock);
    bi_slot_work(slot);
    bi_worker_end_slot(slot->worker);
    return NULL;
}

/* They run the program's code, so they have the signal mask of whoever starts them. If one cannot
 * be had the others end without having taken a job. */
static bool start_slots(bide_worker *worker)
{
    uint32_t started = 0;
    uint32_t threads = worker->options.threads;
    pthread_mutex_lock(&worker->lock);
    for (; started < threads; started++) {
        struct slot *slot = &worker->slots[started];
        slot->started = pthread_create(&slot->thread, NULL, slot_main, slot) == 0;
        if (!slot->started)
            break;
    }
    worker->slots_left = started;
    if (started < threads)
        atomic_store(&worker->stopping, true);
    pthread_mutex_unlock(&worker->lock);
    return started == threads;
}

int bide_worker_start(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (worker == NULL)
        return bi_error_set(BIDE_EINVAL, "worker_start: worker is NULL");
    if (bi_worker_is_here(worker)) /* a stop that waits for this handler has the lock */
        return bi_error_set(BIDE_ECALLBACK, "worker_start: called by one of its own handlers");
    pthread_mutex_lock(&worker->life);
    int code = bi_worker_prepare(worker);
    if (code == BIDE_OK && !start_slots(worker)) {
        bi_worker_stop(worker);
        code = bi_error_set(BIDE_ESYSTEM, "worker_start: the system gives no more threads");
    }
    pthread_mutex_unlock(&worker->life);
    return code;
}
