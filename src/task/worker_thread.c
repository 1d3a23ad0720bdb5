/* SPDX-License-Identifier: MIT */
/*
 * worker_thread - one thread of a worker: reserves a job, runs its handler, submits the ack.
 *
 * Ordering   The ack of one job and the reserve of the next are submitted in one list: one lock,
 *            one commit, one write to a server. The next handler starts when both have completed.
 *            An ack that failed is then retried at once, not after the next handler has returned.
 *            No job is reserved before a thread is free for it.
 * Threads    The two ops have no callbacks: their status is polled after bide_cq_wait(), so that
 *            the event handler of the program, which an ack calls, may make blocking calls.
 */
#include "task/worker_internal.h"

#include <assert.h>
#include <string.h>

/* Exponential backoff of a reserve that failed. */
#define BACKOFF_MIN_MS 50
#define BACKOFF_MAX_MS 5000
/* Finite, so that an idle worker notices a queue that does not respond. */
#define RESERVE_TIMEOUT_MS 60000
/* Check interval while too many acks are pending. remove_ack() wakes the thread; this is a
 * fallback. */
#define ACK_POLL_MS 1000

int bi_worker_thread_init(struct worker_thread *thread, bide_worker *worker)
{
    thread->worker = worker;
    bi_context_init(&thread->context, worker);
    int code = bide_cq_new(&thread->cq);
    if (code == BIDE_OK)
        bi_cq_disable_notify(thread->cq); /* the thread sleeps only in bide_cq_wait(): no eventfd */
    return code;
}

void bi_worker_thread_done(struct worker_thread *thread)
{
    if (thread->worker == NULL)
        return; /* create_threads() failed before it */
    bi_context_done(&thread->context);
    bide_cq_free(thread->cq);
}

void bi_worker_thread_wake(const struct worker_thread *thread)
{
    if (thread->cq != NULL)
        bi_cq_wake(thread->cq);
}

static bool is_stopping(const struct worker_thread *thread)
{
    return atomic_load_explicit(&thread->worker->stopping, memory_order_relaxed);
}

/* ---- the ack ---- */

/* Processes the ack if it has completed. */
static void poll_ack(struct worker_thread *thread)
{
    bide_worker *worker = thread->worker;

    if (!thread->ack_pending || thread->ack.op.status == BIDE_PENDING)
        return;
    thread->ack_pending = false;
    if (!bi_ack_complete(&thread->ack, worker) && !bi_syncer_add(&worker->background, &thread->ack))
        bi_ack_abandon(&thread->ack, worker, BIDE_ENOMEM);
    bi_ack_clear(&thread->ack);
}

static void poll_reserve(struct worker_thread *thread)
{
    if (!thread->reserve_pending || thread->reserve_op.status == BIDE_PENDING)
        return;
    thread->reserve_pending = false;
    /* The handler starts only after the ack: the lease began before it. Otherwise the start of the
     * handler is near enough, which saves a reading of the clock per job. */
    if (thread->ack_pending)
        thread->context.reserved_at = bi_clock_boot();
}

/* Returns after a completion, a wake or the timeout. The reserve first: processing an ack calls the
 * program, which takes its time. */
static void wait_for_completion(struct worker_thread *thread, int64_t timeout_ms)
{
    bide_cq_wait(thread->cq, timeout_ms);
    poll_reserve(thread);
    poll_ack(thread);
}

static void await_ack(struct worker_thread *thread)
{
    while (thread->ack_pending)
        wait_for_completion(thread, BIDE_FOREVER);
}

/* ---- the reserve ---- */

static void prepare_reserve(struct worker_thread *thread)
{
    const bide_worker *worker = thread->worker;

    assert(!thread->context.running); /* the reserve writes to its job */
    thread->reserve_pending = true;
    thread->cancel_sent = false;
    /* Before the submit: see the ordering in subscriber.c. */
    thread->gaps = atomic_load(&worker->background.gaps);
    thread->context.reserved_at = 0;

    thread->reserve_op.kind = BIDE_OP_RESERVE;
    thread->reserve_op.cq = thread->cq;
    thread->reserve_op.reserve = (bide_reserve_args){
        .topics = worker->topics,
        .topic_count = worker->entry_count,
        .weights = worker->options.strategy == BIDE_WEIGHTED ? worker->weights : NULL,
        .strategy = worker->options.strategy,
        .timeout_ms = RESERVE_TIMEOUT_MS,
        .jobs = &thread->context.job,
        .job_max = 1,
        .holder = {worker->name, strlen(worker->name)},
    };
}

static void submit(struct worker_thread *thread, bool ack, bool reserve)
{
    bide_op *ops[2] = {NULL, NULL};
    size_t count = 0;
    assert(ack || reserve);

    if (ack) {
        assert(!thread->ack_pending); /* there is one ack */
        thread->ack.op.cq = thread->cq;
        bi_ack_prepare(&thread->ack);
        thread->ack_pending = true;
        ops[count++] = &thread->ack.op;
    }
    if (reserve) {
        prepare_reserve(thread);
        ops[count++] = &thread->reserve_op;
    }
    bide_submit(thread->worker->queue, ops, count);

    /* Ops that completed within submit. The ack first: poll_reserve() reads ack_pending. */
    poll_ack(thread);
    poll_reserve(thread);
}

/* A stop cancels the reserve. It may have got a job before that: see bi_worker_thread_run(). */
static void await_reserve(struct worker_thread *thread)
{
    while (thread->reserve_pending) {
        if (is_stopping(thread) && !thread->cancel_sent) {
            thread->cancel_sent = true;
            bide_cancel_op(thread->worker->queue, &thread->reserve_op);
        }
        wait_for_completion(thread, BIDE_FOREVER);
    }
}

/* Sleeps after a failure, unless the worker stops. */
static void back_off(struct worker_thread *thread)
{
    thread->backoff_ms = thread->backoff_ms == 0                   ? BACKOFF_MIN_MS
                         : thread->backoff_ms < BACKOFF_MAX_MS / 2 ? thread->backoff_ms * 2
                                                                   : BACKOFF_MAX_MS;

    /* A wake that is not a stop must not end the sleep early. */
    int64_t end = bi_clock_boot() + thread->backoff_ms * 1000;
    for (int64_t left; !is_stopping(thread) && (left = end - bi_clock_boot()) > 0;)
        wait_for_completion(thread, left / 1000 + 1);
}

/* With as many pending acks as threads no more jobs are reserved: a queue that hands out jobs but
 * accepts no acks would otherwise have every job run again. It also bounds their memory. */
static bool has_too_many_acks(const bide_worker *worker)
{
    return atomic_load_explicit(&worker->pending_ack_count, memory_order_relaxed) >=
           worker->options.threads;
}

/* Evaluates the reserve. *finished: the queue is shut down, or the worker stops. A timeout counts
 * as healthy: the queue responds. */
static bool has_job(struct worker_thread *thread, bool *finished)
{
    int code = thread->reserve_op.status;

    *finished = code == BIDE_CLOSED || (code != BIDE_OK && is_stopping(thread));
    if (code == BIDE_OK || code == BIDE_TIMED_OUT) {
        bi_worker_set_health(thread->worker, UNHEALTHY_RESERVE, BIDE_OK, "");
        thread->backoff_ms = 0;
    } else if (!*finished) {
        bi_worker_set_health(thread->worker, UNHEALTHY_RESERVE, code, thread->reserve_op.error);
        back_off(thread);
    }
    return code == BIDE_OK;
}

/* ---- the handler ---- */

/* Sets context->data. Returns BIDE_DONE, or the outcome of a job that no handler can run: the topic
 * is not one of this worker's, or the body cannot be decoded. */
static int decode_body(struct bide_context *context)
{
    const bide_type *type = context->entry->type;

    context->data = &context->body;
    /* Retried, not buried: the job may be intact, and a worker of its topic may get it next. */
    if (context->entry->call == NULL)
        return bide_context_retry(context,
                                  "the server delivered a job of topic \"%.100s\", which this "
                                  "worker has no handler for and did not reserve from",
                                  context->job.topic);
    if (type == NULL)
        return BIDE_DONE;

    context->data = NULL;
    int code = bide_type_decode(type, context->body.data, context->body.size, &context->decoded);

    /* An invalid body stays invalid; anything else (out of memory) may succeed later. */
    if (code == BIDE_EINVAL)
        return bide_context_bury(context, "%s", bide_last_error());
    if (code != BIDE_OK)
        return bide_context_retry(context, "%s", bide_last_error());

    context->data = context->decoded;
    return BIDE_DONE;
}

/* A handler that was interrupted has not failed: the job is released, removed or lost. */
static bool is_failure(int outcome, int stop_reason)
{
    return (outcome == BIDE_RETRY || outcome == BIDE_BURY) && stop_reason != BIDE_REASON_STOPPING &&
           stop_reason != BIDE_REASON_CANCELLED && stop_reason != BIDE_REASON_LEASE_LOST;
}

static int run_handler(struct bide_context *context)
{
    int outcome = decode_body(context);
    if (outcome == BIDE_DONE) {
        bide_work_event event = bi_context_event(context, BIDE_WORK_STARTED);
        bi_worker_emit(context->worker, &event);
        bi_last_error_clear(); /* describe_code() must not find a message from before the handler */
        outcome = bide_context_next(context);
    }
    return bi_ack_check_outcome(context, outcome);
}

/* Runs the handler of the reserved job. True: thread->ack must be submitted. */
static bool run_job(struct worker_thread *thread)
{
    struct bide_context *context = &thread->context;
    bide_worker *worker = thread->worker;

    context->entry = bi_registry_lookup(worker, context->job.topic);
    atomic_fetch_add_explicit(&thread->runs, 1, memory_order_relaxed);

    /* In this order: a cancel that arrives after begin finds the context running. */
    bi_context_begin(context);
    bi_subscriber_check_cancel(&worker->background, thread);
    int outcome = run_handler(context);

    /* Read once: fallback and ack must agree, and a stop may set it at any time. */
    int stop_reason = atomic_load(&context->stop_reason);
    context->middleware_next = worker->middleware_count + 1; /* a fallback has no next one */
    context->will_bury = outcome == BIDE_BURY;
    if (!bi_ack_has_puts(outcome))
        bi_put_list_truncate(context->puts, 0);
    context->in_fallback = true;
    const struct entry *entry = context->entry;
    if (is_failure(outcome, stop_reason) && entry->fallback_call != NULL) {
        char text[TASK_ERROR_SIZE]; /* a copy: the fallback may set another error */
        memcpy(text, context->error, sizeof(text));
        entry->fallback_call(context, context->data, text, entry->fallback, entry->fallback_arg);
    }

    /* The ack takes the result out of the context, so it is built before the context is cleared. */
    bool still_owner = bi_context_end(context);
    if (still_owner)
        bi_ack_make(&thread->ack, context, outcome, stop_reason);
    bi_context_clear(context);
    return still_owner;
}

/* Releases a job that the reserve got while the worker began to stop. */
static void give_back_unstarted(struct worker_thread *thread)
{
    struct bide_context *context = &thread->context;

    context->entry = bi_registry_lookup(thread->worker, context->job.topic);
    context->started = bi_clock_boot();
    context->lease_end = context->started + context->job.left_ms * 1000;
    atomic_store(&context->stop_reason, BIDE_REASON_NONE); /* left over from the job before */
    bi_ack_give_back(&thread->ack, context);
    bi_context_clear(context);
    submit(thread, true, false);
}

void bi_worker_thread_run(struct worker_thread *thread)
{
    bool ack = false;
    bool finished = false;
    struct callback_scope scope;

    bi_worker_enter(&scope, thread->worker);
    while (!finished && !is_stopping(thread)) {
        submit(thread, ack, true);
        ack = false;

        /* The ack usually completes first. Waiting for it here means that no handler starts while
         * the last job of this thread is not acknowledged or handed to the syncer. */
        await_reserve(thread);
        await_ack(thread);
        if (!has_job(thread, &finished))
            continue;
        if (is_stopping(thread)) {
            give_back_unstarted(thread);
            break;
        }

        ack = run_job(thread);
        /* Without a reserve: the ack alone, then wait for the syncer. */
        if (has_too_many_acks(thread->worker)) {
            if (ack)
                submit(thread, true, false);
            ack = false;
            while (!is_stopping(thread) && has_too_many_acks(thread->worker))
                wait_for_completion(thread, ACK_POLL_MS);
        }
    }

    if (ack)
        submit(thread, true, false);
    await_ack(thread);
    assert(!thread->ack_pending && !thread->context.running);
    bi_worker_leave(&scope);
}
