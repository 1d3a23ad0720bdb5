/* SPDX-License-Identifier: MIT */
/*
 * answer - what the queue is told of a job, and what its answer means.
 */
#include "task/inside.h"
#include "util/clock.h"
#include "util/text.h"

#include <stdio.h>
#include <string.h>

/* The first pause of a backoff that nobody has set; and how long a plain beanstalkd, which knows of
 * no backoff, keeps a job that failed. */
#define FIRST_RETRY_MS 5000

/* After an answer that the queue could not take the next try waits, each time twice as long. */
#define OWED_PAUSE_MIN 100000
#define OWED_PAUSE_MAX 2000000

/* ---- what is told ---- */

static bide_slice error_of(const struct answer *answer)
{
    return (bide_slice){answer->error, answer->error_size};
}

void bi_answer_arm(struct answer *answer)
{
    answer->complete = false;
    if (answer->op.kind == BIDE_OP_FAIL)
        answer->op.fail.error = error_of(answer);
    else if (answer->op.kind == BIDE_OP_BURY && !answer->plain)
        answer->op.bury.reason = error_of(answer);
    else if (answer->op.kind == BIDE_OP_DONE)
        answer->op.finish.buf = answer->result;
}

void bi_answer_clear(struct answer *answer)
{
    bide_buf_unref(answer->result);
    answer->result = NULL;
    answer->error_size = 0;
}

/* Begins an answer about the job of the context. */
static void begin(struct answer *answer, const struct bide_context *context)
{
    answer->id = context->job.id;
    answer->token = context->job.token;
    answer->topic = context->entry->topic;
    answer->attempt = bide_context_attempt(context);
    answer->lease_end = context->lease_end;
    /* A reading of the clock, which is a tenth of an empty handler's cost. */
    answer->took_us =
        context->worker->options.event == NULL ? 0 : bi_clock_boot() - context->started;
    answer->cancelled = atomic_load(&context->told) == BIDE_REASON_CANCELLED;
    answer->unsure = answer->told = answer->plain = false;
    answer->pause = 0;
}

/* The ops that an answer may be, or become. */

static void set_lease(struct answer *answer, bide_op_kind kind)
{
    answer->op.kind = kind;
    answer->op.lease = (bide_lease_args){.id = answer->id, .token = answer->token};
}

static void set_release(struct answer *answer, int64_t delay_ms)
{
    answer->op.kind = BIDE_OP_RELEASE;
    answer->op.release = (bide_release_args){
        .id = answer->id, .token = answer->token, .priority = BIDE_KEEP, .delay_ms = delay_ms};
}

static void set_fail(struct answer *answer, int64_t retry_in_ms)
{
    answer->op.kind = BIDE_OP_FAIL;
    answer->op.fail =
        (bide_fail_args){.id = answer->id, .token = answer->token, .retry_in_ms = retry_in_ms};
}

static void make_done(struct answer *answer, struct bide_context *context)
{
    begin(answer, context);
    if (context->retain_ms == 0 || (context->retain_ms < 0 && context->job.retain_ms == 0)) {
        set_lease(answer, BIDE_OP_DELETE);
        return;
    }
    answer->result = context->result;
    context->result = NULL;
    answer->op.kind = BIDE_OP_DONE;
    answer->op.finish = (bide_finish_item){
        .id = answer->id, .token = answer->token, .keep = true, .retain_ms = context->retain_ms};
}

static void take_error(struct answer *answer, const struct bide_context *context)
{
    memcpy(answer->error, context->error, context->error_size);
    answer->error_size = context->error_size;
}

static void make_retry(struct answer *answer, struct bide_context *context)
{
    begin(answer, context);
    take_error(answer, context);
    set_fail(answer, context->again_ms);
}

static void make_bury(struct answer *answer, struct bide_context *context)
{
    begin(answer, context);
    take_error(answer, context);
    answer->op.kind = BIDE_OP_BURY;
    answer->op.bury =
        (bide_bury_args){.id = answer->id, .token = answer->token, .priority = BIDE_KEEP};
}

static void make_snooze(struct answer *answer, struct bide_context *context)
{
    int64_t base_ms = context->job.backoff_base_ms;
    begin(answer, context);
    set_release(answer, context->again_ms >= 0 ? context->again_ms
                        : base_ms > 0          ? base_ms
                                               : FIRST_RETRY_MS);
}

static void make_back(struct answer *answer, struct bide_context *context)
{
    bi_answer_give_back(answer, context);
}

void bi_answer_give_back(struct answer *answer, const struct bide_context *context)
{
    begin(answer, context);
    set_lease(answer, BIDE_OP_GIVE_BACK);
}

struct outcome {
    int outcome;
    void (*make)(struct answer *answer, struct bide_context *context);
};

static const struct outcome *find_outcome(int outcome)
{
    static const struct outcome table[] = {
        {BIDE_DONE, make_done},     {BIDE_RETRY, make_retry},    {BIDE_BURY, make_bury},
        {BIDE_SNOOZE, make_snooze}, {BIDE_GIVE_BACK, make_back},
    };
    for (size_t i = 0; i < sizeof(table) / sizeof(table[0]); i++)
        if (table[i].outcome == outcome)
            return &table[i];
    return NULL;
}

/* The text of a handler that says no more than a number; if it is the code of the last call that it
 * made, that call has left a sentence. */
static void say_number(struct bide_context *context, int outcome)
{
    char reason[BIDE_ERROR_SIZE];
    bi_text_copy(reason, bide_last_error());
    if (bi_error_code() == outcome && reason[0] != 0)
        bide_context_retry(context, "the handler answered %d (%s): %s", outcome,
                           bide_code_name(outcome), reason);
    else
        bide_context_retry(context, "the handler answered %d", outcome);
}

int bi_answer_outcome(struct bide_context *context, int outcome)
{
    if (outcome == BIDE_DONE || outcome == BIDE_SNOOZE || outcome == BIDE_GIVE_BACK)
        return outcome;
    bool known = find_outcome(outcome) != NULL;
    if (context->error_size == 0 && known)
        context->error_size =
            (size_t)snprintf(context->error, sizeof(context->error), "the handler gave no reason");
    else if (context->error_size == 0)
        say_number(context, outcome);
    return known ? outcome : BIDE_RETRY;
}

void bi_answer_make(struct answer *answer, struct bide_context *context, int outcome, int told)
{
    if (outcome != BIDE_DONE && told == BIDE_REASON_STOPPING)
        bi_answer_give_back(answer, context);
    else
        find_outcome(outcome)->make(answer, context);
}

/* ---- what the queue says to it ---- */

static void tell(const struct answer *answer, const bide_worker *worker, bide_work_kind kind,
                 int code, const char *text, int64_t delay_ms)
{
    bide_work_event event = {
        .kind = kind,
        .code = code,
        .text = text,
        .id = answer->id,
        .topic = answer->topic,
        .attempt = answer->attempt,
        .delay_ms = delay_ms,
        .took_us = answer->took_us,
    };
    bi_worker_event(worker, &event);
}

/* The text of an answer, with a NUL behind it, for an event. */
static const char *text_of(const struct answer *answer, char *room)
{
    memcpy(room, answer->error, answer->error_size);
    room[answer->error_size] = 0;
    return room;
}

static void tell_taken(const struct answer *answer, const bide_worker *worker)
{
    char room[TASK_ERROR_SIZE + 1];
    const bide_op *op = &answer->op;
    const char *text = text_of(answer, room);
    bide_state state = op->kind == BIDE_OP_FAIL ? op->fail.state : BIDE_STATE_READY;
    if (op->kind == BIDE_OP_DELETE || op->kind == BIDE_OP_DONE || op->kind == BIDE_OP_RESULT)
        tell(answer, worker, BIDE_WORK_DONE, BIDE_OK, "", 0);
    else if (answer->cancelled || state == BIDE_STATE_GONE)
        tell(answer, worker, BIDE_WORK_CANCELLED, BIDE_OK, text, 0);
    else if (op->kind == BIDE_OP_BURY || state == BIDE_STATE_BURIED)
        tell(answer, worker, BIDE_WORK_BURIED, BIDE_OK, text, 0);
    else if (op->kind == BIDE_OP_FAIL)
        tell(answer, worker, BIDE_WORK_RETRIED, BIDE_OK, text, op->fail.delay_ms);
    else if (op->kind == BIDE_OP_GIVE_BACK)
        tell(answer, worker, BIDE_WORK_INTERRUPTED, BIDE_OK, "", 0);
    else if (answer->error_size > 0)
        tell(answer, worker, BIDE_WORK_RETRIED, BIDE_OK, text, op->release.delay_ms);
    else
        tell(answer, worker, BIDE_WORK_SNOOZED, BIDE_OK, "", op->release.delay_ms);
}

static bool is_passing(int code)
{
    return code == BIDE_EIO || code == BIDE_EFULL || code == BIDE_EBUSY || code == BIDE_ENOMEM ||
           code == BIDE_ESYSTEM || code == BIDE_EUNKNOWN;
}

/* The same in words that a plain beanstalkd knows; false: it was in those already. */
static bool say_plainly(struct answer *answer)
{
    bide_op *op = &answer->op;
    bool plain = answer->plain;
    answer->plain = true;
    if (op->kind == BIDE_OP_FAIL)
        set_release(answer, op->fail.retry_in_ms >= 0 ? op->fail.retry_in_ms : FIRST_RETRY_MS);
    else if (op->kind == BIDE_OP_DONE)
        set_lease(answer, BIDE_OP_DELETE);
    else if (op->kind == BIDE_OP_BURY)
        op->bury.reason = (bide_slice){NULL, 0};
    else
        return false;
    return !plain;
}

/* A result that the queue does not take is a failure of the handler. */
static void complain_of_result(struct answer *answer)
{
    size_t size = bide_buf_size(answer->result);
    bi_answer_clear(answer);
    answer->error_size = (size_t)snprintf(answer->error, sizeof(answer->error),
                                          "the result is too big: %zu bytes", size);
    set_fail(answer, BIDE_KEEP);
}

/* After an answer that was lost: does this one show that the first was taken? A lease that is no
 * longer good does not: the queue may have been opened anew. */
static bool had_happened(const struct answer *answer, int code)
{
    return answer->unsure && answer->op.kind == BIDE_OP_DELETE && code == BIDE_NOT_FOUND;
}

/* A job that may have been done is looked at: if it has a result, or none but is done, it was. */
static bool ask_for_result(struct answer *answer, int code)
{
    if (!answer->unsure || answer->op.kind != BIDE_OP_DONE || code != BIDE_LEASE_LOST)
        return false;
    answer->op.kind = BIDE_OP_RESULT;
    answer->op.fetch = (bide_fetch_args){.id = answer->id};
    return true;
}

static void forget_result(bide_op *op)
{
    if (op->kind == BIDE_OP_RESULT && op->status == BIDE_OK)
        bide_buf_unref(op->fetch.buf);
}

/* Is it to be told in other words, and at once? */
static bool reword(struct answer *answer, int code)
{
    if (ask_for_result(answer, code))
        return true;
    if (code == BIDE_ENOTSUP)
        return say_plainly(answer);
    if (code != BIDE_TOO_BIG || answer->op.kind != BIDE_OP_DONE)
        return false;
    complain_of_result(answer);
    return true;
}

static bool is_refused(int code)
{
    return code == BIDE_NOT_FOUND || code == BIDE_LEASE_LOST || code == BIDE_RESERVED ||
           code == BIDE_WRONG_STATE;
}

/* The queue could not take it now. */
static void owe(struct answer *answer, const bide_worker *worker, int code)
{
    if (answer->pause == 0)
        tell(answer, worker, BIDE_WORK_OWED, code, answer->op.error, 0);
    answer->unsure = answer->unsure || code == BIDE_EUNKNOWN;
    answer->pause = answer->pause == 0                   ? OWED_PAUSE_MIN
                    : answer->pause < OWED_PAUSE_MAX / 2 ? answer->pause * 2
                                                         : OWED_PAUSE_MAX;
}

bool bi_answer_settle(struct answer *answer, bide_worker *worker)
{
    int code = answer->op.status;
    if (code == BIDE_OK || had_happened(answer, code)) {
        forget_result(&answer->op);
        tell_taken(answer, worker);
        return true;
    }
    if (reword(answer, code))
        return false;
    if (is_passing(code)) {
        owe(answer, worker, code);
        return false;
    }
    tell(answer, worker, is_refused(code) ? BIDE_WORK_LOST : BIDE_WORK_GIVEN_UP, code,
         answer->op.error, 0);
    return true;
}

void bi_answer_give_up(const struct answer *answer, const bide_worker *worker)
{
    tell(answer, worker, BIDE_WORK_GIVEN_UP, answer->op.status, answer->op.error, 0);
}
