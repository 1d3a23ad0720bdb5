/* SPDX-License-Identifier: MIT */
/*
 * ack - the op that finishes a job, and what its status means.
 *
 * An outcome of a handler becomes one op. If the queue does not accept it, the ack either changes
 * into an op that the backend supports, or is retried by the syncer, or is reported as lost.
 *
 * Failure    Every ack ends with exactly one event: done, retried, buried, snoozed, interrupted,
 *            cancelled, lost or given up. BIDE_WORK_DEFERRED may precede it, once.
 */
#include "task/worker_internal.h"

#include <assert.h>
#include <stdio.h>
#include <string.h>

/* The delay of a snooze without a time when the job has no backoff_base; and of a retry at a plain
 * beanstalkd, which has no backoff. It equals the queue's default for backoff_base. */
#define FIRST_RETRY_MS 5000

/* Exponential backoff of a deferred ack, in microseconds. The maximum is short: the lease runs. */
#define RETRY_DELAY_MIN 100000
#define RETRY_DELAY_MAX 2000000

/* ---- building ---- */

void bi_ack_prepare(struct ack *ack)
{
    assert(!ack->downgraded || ack->op.kind != BIDE_OP_DONE); /* downgrade() has replaced it */
    assert(ack->id != 0);

    /* The slices point into the ack, which the syncer has perhaps copied since the last attempt. */
    const bide_slice error = {ack->error, strlen(ack->error)};
    if (ack->op.kind == BIDE_OP_FAIL) {
        ack->op.fail.error = error;
    } else if (ack->op.kind == BIDE_OP_BURY && !ack->downgraded) {
        ack->op.bury.reason = error;
    } else if (ack->op.kind == BIDE_OP_DONE) {
        ack->op.finish.buf = ack->result;
    } else if (ack->op.kind == BIDE_OP_FINISH_AND_PUT) {
        ack->op.finish_and_put.finish.buf = ack->result;
        ack->op.finish_and_put.reason = error;
    }
}

void bi_ack_clear(struct ack *ack)
{
    bide_buf_unref(ack->result);
    bi_put_list_free(ack->puts);
    ack->result = NULL;
    ack->puts = NULL;
    ack->error[0] = 0;
}

static void begin(struct ack *ack, const struct bide_context *context)
{
    assert(context->entry != NULL && context->job.id != 0);
    assert(ack->result == NULL && ack->puts == NULL); /* the last ack has been cleared */

    ack->id = context->job.id;
    ack->token = context->job.token;
    ack->topic = context->entry->topic;
    ack->attempt = bide_context_attempt(context);
    ack->lease_end = context->lease_end;

    /* Only the event shows it. Reading the clock is a tenth of the cost of an empty handler. */
    ack->took_us = context->worker->options.event == NULL ? 0 : bi_clock_boot() - context->started;
    ack->cancelled = atomic_load(&context->stop_reason) == BIDE_REASON_CANCELLED;

    /* The struct is reused for every job of the thread. */
    ack->maybe_applied = ack->in_flight = ack->downgraded = false;
    ack->retry_delay = 0;
}

static void set_lease(struct ack *ack, bide_op_kind kind)
{
    ack->op.kind = kind;
    ack->op.lease = (bide_lease_args){.id = ack->id, .token = ack->token};
}

static void set_release(struct ack *ack, int64_t delay_ms)
{
    ack->op.kind = BIDE_OP_RELEASE;
    ack->op.release = (bide_release_args){
        .id = ack->id, .token = ack->token, .priority = BIDE_KEEP, .delay_ms = delay_ms};
}

static void set_fail(struct ack *ack, int64_t retry_in_ms)
{
    ack->op.kind = BIDE_OP_FAIL;
    ack->op.fail = (bide_fail_args){.id = ack->id, .token = ack->token, .retry_in_ms = retry_in_ms};
}

static void set_done(struct ack *ack, struct bide_context *context)
{
    /* Nothing is retained: a delete does the same, and every backend supports it. */
    if (context->retain_ms == 0 || (context->retain_ms < 0 && context->job.retain_ms == 0)) {
        set_lease(ack, BIDE_OP_DELETE);
        return;
    }

    ack->result = context->result; /* the reference moves */
    context->result = NULL;
    ack->op.kind = BIDE_OP_DONE;
    ack->op.finish = (bide_finish_item){
        .id = ack->id, .token = ack->token, .keep = true, .retain_ms = context->retain_ms};
}

void bi_ack_give_back(struct ack *ack, struct bide_context *context)
{
    begin(ack, context);
    set_lease(ack, BIDE_OP_GIVE_BACK);
}

/* Writes the error text of a handler that returned a bare number. If it is the code of the last
 * call that the handler made, the message of that call explains it. */
static void describe_code(struct bide_context *context, int outcome)
{
    char reason[BIDE_ERROR_SIZE];

    /* A copy: the next call on this thread overwrites it. */
    bi_text_copy(reason, bide_last_error());
    if (bi_last_error_code() == outcome && reason[0] != 0)
        bide_context_retry(context, "the handler answered %d (%s): %s", outcome,
                           bide_code_name(outcome), reason);
    else
        bide_context_retry(context, "the handler answered %d", outcome);
}

int bi_ack_check_outcome(struct bide_context *context, int outcome)
{
    if (outcome == BIDE_DONE || outcome == BIDE_SNOOZE || outcome == BIDE_GIVE_BACK)
        return outcome;

    bool known = outcome == BIDE_RETRY || outcome == BIDE_BURY;
    if (context->error[0] == 0 && known)
        snprintf(context->error, sizeof(context->error), "the handler gave no reason");
    else if (context->error[0] == 0)
        describe_code(context, outcome);

    return known ? outcome : BIDE_RETRY;
}

/* Adds the collected puts to the op that ends the job. An op that fails it or gives it back has
 * none: they are dropped with the context. */
static void add_puts(struct ack *ack, struct bide_context *context)
{
    bide_finish_and_put_args args = {.finish = {.id = ack->id, .token = ack->token},
                                     .priority = BIDE_KEEP};

    if (ack->op.kind == BIDE_OP_DONE) {
        args.finish = ack->op.finish;
    } else if (ack->op.kind == BIDE_OP_RELEASE) {
        args.ending = BIDE_ENDING_RELEASE;
        args.delay_ms = ack->op.release.delay_ms;
    } else if (ack->op.kind == BIDE_OP_BURY) {
        args.ending = BIDE_ENDING_BURY;
    } else if (ack->op.kind != BIDE_OP_DELETE) {
        return;
    }

    ack->puts = context->puts; /* the reference moves */
    context->puts = NULL;
    args.items = ack->puts->items;
    args.count = ack->puts->count;
    ack->op.kind = BIDE_OP_FINISH_AND_PUT;
    ack->op.finish_and_put = args;
}

void bi_ack_make(struct ack *ack, struct bide_context *context, int outcome, int stop_reason)
{
    int64_t delay_ms = context->delay_ms, base_ms = context->job.backoff_base_ms;

    if (outcome != BIDE_DONE && stop_reason == BIDE_REASON_STOPPING)
        outcome = BIDE_GIVE_BACK;
    begin(ack, context);
    if (outcome == BIDE_RETRY || outcome == BIDE_BURY)
        memcpy(ack->error, context->error, sizeof(ack->error));

    switch (outcome) {
    case BIDE_DONE:
        set_done(ack, context);
        break;
    case BIDE_RETRY:
        set_fail(ack, delay_ms);
        break;
    case BIDE_BURY:
        ack->op.kind = BIDE_OP_BURY;
        ack->op.bury = (bide_bury_args){.id = ack->id, .token = ack->token, .priority = BIDE_KEEP};
        break;
    case BIDE_SNOOZE:
        set_release(ack, delay_ms >= 0 ? delay_ms : base_ms > 0 ? base_ms : FIRST_RETRY_MS);
        break;
    default:
        assert(outcome == BIDE_GIVE_BACK); /* bi_ack_check_outcome() maps the others */
        set_lease(ack, BIDE_OP_GIVE_BACK);
    }

    if (bi_put_list_count(context->puts) > 0)
        add_puts(ack, context);
}

/* ---- completion ---- */

static void emit(const struct ack *ack, bide_worker *worker, bide_work_kind kind, int code,
                 const char *text, int64_t delay_ms)
{
    bide_work_event event = {
        .kind = kind,
        .code = code,
        .text = text,
        .id = ack->id,
        .topic = ack->topic,
        .attempt = ack->attempt,
        .delay_ms = delay_ms,
        .took_us = ack->took_us,
    };

    atomic_fetch_add_explicit(&worker->outcomes[kind], 1, memory_order_relaxed);
    bi_worker_emit(worker, &event);
}

/* The op that ends the job in the same way without puts. */
static bide_op_kind plain_kind(const bide_op *op)
{
    static const bide_op_kind kinds[] = {
        [BIDE_ENDING_FINISH] = BIDE_OP_DELETE,
        [BIDE_ENDING_RELEASE] = BIDE_OP_RELEASE,
        [BIDE_ENDING_BURY] = BIDE_OP_BURY,
    };

    if (op->kind != BIDE_OP_FINISH_AND_PUT)
        return op->kind;
    bool keep = op->finish_and_put.ending == BIDE_ENDING_FINISH && op->finish_and_put.finish.keep;
    return keep ? BIDE_OP_DONE : kinds[op->finish_and_put.ending];
}

static void emit_accepted(const struct ack *ack, bide_worker *worker)
{
    const bide_op *op = &ack->op;
    bide_op_kind kind = plain_kind(op);
    bide_state state = kind == BIDE_OP_FAIL ? op->fail.state : BIDE_STATE_READY;

    /* The kind of the op alone does not determine the event: a fail may have buried the job, or
     * removed it because of a cancel; a release with an error text stands for a fail. */
    if (kind == BIDE_OP_DELETE || kind == BIDE_OP_DONE || kind == BIDE_OP_RESULT)
        emit(ack, worker, BIDE_WORK_DONE, BIDE_OK, "", 0);
    else if (ack->cancelled || state == BIDE_STATE_GONE)
        emit(ack, worker, BIDE_WORK_CANCELLED, BIDE_OK, ack->error, 0);
    else if (kind == BIDE_OP_BURY || state == BIDE_STATE_BURIED)
        emit(ack, worker, BIDE_WORK_BURIED, BIDE_OK, ack->error, 0);
    else if (kind == BIDE_OP_FAIL)
        emit(ack, worker, BIDE_WORK_RETRIED, BIDE_OK, ack->error, op->fail.delay_ms);
    else if (kind == BIDE_OP_GIVE_BACK)
        emit(ack, worker, BIDE_WORK_INTERRUPTED, BIDE_OK, "", 0);
    else
        emit(ack, worker, ack->error[0] != 0 ? BIDE_WORK_RETRIED : BIDE_WORK_SNOOZED, BIDE_OK,
             ack->error, kind == op->kind ? op->release.delay_ms : op->finish_and_put.delay_ms);
}

static bool is_transient(int code)
{
    return code == BIDE_EIO || code == BIDE_EFULL || code == BIDE_EBUSY || code == BIDE_ENOMEM ||
           code == BIDE_ESYSTEM || code == BIDE_EUNKNOWN;
}

/* Replaces the op by what a plain beanstalkd supports; false: it was downgraded before, or there is
 * no replacement. The error text, the result or the reason is lost. */
static bool downgrade(struct ack *ack)
{
    bide_op *op = &ack->op;
    bool downgraded = ack->downgraded;

    ack->downgraded = true;
    if (op->kind == BIDE_OP_FAIL)
        set_release(ack, op->fail.retry_in_ms >= 0 ? op->fail.retry_in_ms : FIRST_RETRY_MS);
    else if (op->kind == BIDE_OP_DONE)
        set_lease(ack, BIDE_OP_DELETE);
    else if (op->kind == BIDE_OP_BURY)
        op->bury.reason = (bide_slice){NULL, 0};
    else
        return false;

    return !downgraded;
}

/* A put was rejected, and with it the whole step. The job fails with the message of the put: it is
 * not lost, and the next attempt may find room. A queue that is draining is not the job's fault. */
static bool adapt_to_rejected_put(struct ack *ack, int code)
{
    const bide_op *op = &ack->op;
    char message[BIDE_ERROR_SIZE + 64];
    /* Of a put, the memory of the queue; otherwise the disk, which no job of this worker frees. */
    bool memory_full = code == BIDE_EFULL && op->error_item > 0;

    if (!memory_full && code != BIDE_EXISTS && code != BIDE_TOO_BIG && code != BIDE_TOPIC_FULL &&
        code != BIDE_TOO_MANY_TOPICS && code != BIDE_DRAINING && code != BIDE_EINVAL &&
        code != BIDE_ENOTSUP)
        return false;

    if (op->error_item > 0)
        snprintf(message, sizeof(message), "put %u of %zu was rejected: %s", op->error_item,
                 op->finish_and_put.count, op->error);
    else
        snprintf(message, sizeof(message), "%s", op->error);
    bi_ack_clear(ack);
    snprintf(ack->error, sizeof(ack->error), "%s", message);

    if (code == BIDE_DRAINING)
        set_release(ack, FIRST_RETRY_MS);
    else
        set_fail(ack, BIDE_KEEP);
    return true;
}

/* True: the ack is now another op, to be submitted without delay. */
static bool adapt(struct ack *ack, int code)
{
    bool has_puts = ack->op.kind == BIDE_OP_FINISH_AND_PUT;

    if (has_puts && adapt_to_rejected_put(ack, code))
        return true;
    if (code == BIDE_ENOTSUP)
        return downgrade(ack);
    if (plain_kind(&ack->op) != BIDE_OP_DONE)
        return false;

    /* After BIDE_EUNKNOWN of a done, LEASE_LOST is ambiguous. Ask for the result: only a job that
     * is done has one, perhaps empty, so success proves that the first attempt was applied. */
    if (code == BIDE_LEASE_LOST && ack->maybe_applied) {
        ack->op.kind = BIDE_OP_RESULT;
        ack->op.fetch = (bide_fetch_args){.id = ack->id};
        return true;
    }

    /* A result above the limit of the queue makes the handler fail: a job must not be done without
     * its result. */
    if (code == BIDE_TOO_BIG) {
        size_t size = bide_buf_size(ack->result);
        bi_ack_clear(ack);
        snprintf(ack->error, sizeof(ack->error), "the result is too big: %zu bytes", size);
        set_fail(ack, BIDE_KEEP);
        return true;
    }
    return false;
}

static bool is_refused(int code)
{
    return code == BIDE_NOT_FOUND || code == BIDE_LEASE_LOST || code == BIDE_RESERVED ||
           code == BIDE_WRONG_STATE;
}

static void defer(struct ack *ack, bide_worker *worker, int code)
{
    if (ack->retry_delay == 0) /* one event, however often it is retried */
        emit(ack, worker, BIDE_WORK_DEFERRED, code, ack->op.error, 0);
    ack->maybe_applied = ack->maybe_applied || code == BIDE_EUNKNOWN;
    ack->retry_delay = ack->retry_delay == 0                    ? RETRY_DELAY_MIN
                       : ack->retry_delay < RETRY_DELAY_MAX / 2 ? ack->retry_delay * 2
                                                                : RETRY_DELAY_MAX;
}

bool bi_ack_complete(struct ack *ack, bide_worker *worker)
{
    int code = ack->op.status;
    assert(code != BIDE_PENDING);

    /* After BIDE_EUNKNOWN of a delete, NOT_FOUND proves that the first attempt was applied.
     * LEASE_LOST does not: the server may have restarted and dropped all leases. */
    bool applied =
        ack->maybe_applied && plain_kind(&ack->op) == BIDE_OP_DELETE && code == BIDE_NOT_FOUND;
    if (code == BIDE_OK || applied) {
        /* A result was fetched only as a proof. */
        if (ack->op.kind == BIDE_OP_RESULT && code == BIDE_OK)
            bide_buf_unref(ack->op.fetch.buf);
        emit_accepted(ack, worker);
        return true;
    }

    /* Before the transient codes: an op that was replaced need not wait for its backoff. */
    if (adapt(ack, code))
        return false;
    if (is_transient(code)) {
        defer(ack, worker, code);
        return false;
    }

    emit(ack, worker, is_refused(code) ? BIDE_WORK_LOST : BIDE_WORK_GIVEN_UP, code, ack->op.error,
         0);
    return true;
}

void bi_ack_abandon(const struct ack *ack, bide_worker *worker, int cause)
{
    assert(ack->op.status != BIDE_PENDING); /* the queue would still own the op */

    /* An ack of revoke_jobs() may be abandoned before its first submit: its status is still 0. */
    bool submitted = ack->op.status != BIDE_OK;
    emit(ack, worker, BIDE_WORK_GIVEN_UP, submitted ? ack->op.status : cause,
         submitted ? ack->op.error : bide_code_text(cause), 0);
}
