/* SPDX-License-Identifier: MIT */
/*
 * work_handler - one job: has it run, and finishes it according to the exit rules.
 */
#include "cli/work/work.h"
#include "util/clock.h"

#include <assert.h>
#include <pthread.h>
#include <stdlib.h>

/* ---- outcomes, kept until the event of the finished job ---- */

static pthread_mutex_t outcomes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct saved_outcome {
    uint64_t id;
    struct run_outcome outcome;
    struct saved_outcome *next;
} * saved_outcomes; /* few: about one per thread */

static void save_outcome(uint64_t id, const struct run_outcome *outcome)
{
    struct saved_outcome *saved = malloc(sizeof(*saved));

    if (saved == NULL)
        return; /* the report has less details */
    saved->id = id;
    saved->outcome = *outcome;
    pthread_mutex_lock(&outcomes_lock);
    saved->next = saved_outcomes;
    saved_outcomes = saved;
    pthread_mutex_unlock(&outcomes_lock);
}

bool bi_work_handler_take_outcome(uint64_t id, struct run_outcome *outcome)
{
    pthread_mutex_lock(&outcomes_lock);
    struct saved_outcome **at = &saved_outcomes;
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    struct saved_outcome *found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&outcomes_lock);

    if (found != NULL)
        *outcome = found->outcome;
    free(found);
    return found != NULL;
}

/* ---- for the runners ---- */

static int64_t time_limit_ms(const struct work *work, const bide_context *context)
{
    int64_t timeout_ms = work->plan->timeout_ms;
    return timeout_ms == BI_WORK_TIMEOUT_TTR ? bide_context_job(context)->ttr_ms : timeout_ms;
}

int64_t bi_work_handler_deadline(const struct work *work, const bide_context *context)
{
    int64_t limit_ms = time_limit_ms(work, context);
    return limit_ms < 0 ? BI_WORK_NEVER : bi_clock_boot() + limit_ms * 1000;
}

void bi_work_handler_set_timeout(const struct work *work, const bide_context *context,
                                 struct run_outcome *outcome)
{
    outcome->kind = RUN_TIMEOUT;
    outcome->after_ms = time_limit_ms(work, context);
    outcome->limit = work->plan->timeout_ms == BI_WORK_TIMEOUT_TTR ? "ttr" : "--timeout";
}

void bi_work_handler_request_stop(struct work *work, int exit)
{
    int none = BI_EXIT_OK;

    /* The first error decides the exit code. */
    atomic_compare_exchange_strong(&work->exit, &none, exit);
    bide_worker_quit(work->worker);
    bi_work_supervisor_notify(work->end_fd);
}

void bi_work_handler_set_revoked(const struct work *work, const bide_context *context,
                                 struct run_outcome *outcome)
{
    const bide_job *job = bide_context_job(context);
    bool lost = bide_context_reason(context) != BIDE_REASON_CANCELLED;

    outcome->kind = RUN_REVOKED;
    snprintf(outcome->text, sizeof(outcome->text), "%s",
             !lost ? "the job was cancelled"
             : atomic_load(&work->disconnected)
                 ? "the lease expired without a connection to the queue"
                 : "the lease is lost: it expired, or the job was taken");
    if (lost)
        bi_work_report_note(work, "job %llu (%s): %s; its run is stopped",
                            (unsigned long long)job->id, job->topic, outcome->text);
}

/* ---- finishing a job ---- */

static void keep_output(struct work *work, bide_context *context, struct output *output)
{
    const bide_job *job = bide_context_job(context);
    unsigned long long id = job->id;

    if (output->truncated)
        bi_work_report_note(work,
                            "job %llu (%s): output was cut: more than %zu bytes (--keep-size)", id,
                            job->topic, work->plan->keep_size);
    bi_work_output_mark_truncated(output);
    /* Without a retention the result would be removed with the job. */
    if (job->retain_ms == 0)
        bide_context_retain(context, work->plan->retain_ms);
    if (bide_context_result(context, output->data, output->size) != BIDE_OK)
        bi_work_report_note(work, "job %llu (%s): output not kept: %s", id, job->topic,
                            bide_last_error());
}

/* Finishes the job as the action says; returns what the handler returns. */
static int finish_job(struct work *work, bide_context *context, const struct run_outcome *outcome,
                      struct output *output, const char *tail)
{
    char description[BI_WORK_OUTCOME_SIZE], reason[BI_WORK_TAIL_SIZE + 400];
    enum exit_action action = ACTION_FAIL;

    if (outcome->kind == RUN_STOPPED)
        return BIDE_GIVE_BACK;
    if (outcome->kind == RUN_NOT_STARTED) {
        /* The next job would fail the same way: stop, and report it once. */
        if (atomic_load(&work->exit) == BI_EXIT_OK)
            bi_cli_error(work->cli, BI_EXIT_FAILED, "%s; its job is given back", outcome->text);
        bi_work_handler_request_stop(work, BI_EXIT_FAILED);
        return BIDE_GIVE_BACK;
    }
    if (outcome->kind != RUN_REVOKED)
        action = bi_work_exit_rule_match(&work->plan->rules, outcome);

    bi_work_exit_rule_describe(description, outcome, work->plan->rules.http);
    snprintf(reason, sizeof(reason), "%.300s%s%s", description, tail[0] == 0 ? "" : ": ", tail);
    switch (action) {
    case ACTION_DONE:
        if (work->plan->keep_size > 0)
            keep_output(work, context, output);
        return BIDE_DONE;
    case ACTION_RETRY:
        bide_context_discard_puts(context); /* they belong to a success */
        return bide_context_snooze(context, outcome->kind == RUN_STATUS && outcome->after_ms >= 0
                                                ? outcome->after_ms
                                                : work->plan->retry_delay_ms);
    case ACTION_BURY:
        return bide_context_bury(context, "%s", reason);
    case ACTION_FAIL:
        break;
    }
    return bide_context_retry(context, "%s", reason);
}

/* ---- running a job ---- */

/* May this job be run? The main thread sets `ending` before it reads `running`; here it is the
 * other way round, so that at least one of both sees the other. */
static bool begin_run(struct work *work)
{
    atomic_fetch_add(&work->running, 1);
    if (atomic_load(&work->ending))
        return false;
    uint64_t number = atomic_fetch_add(&work->started, 1) + 1;
    if (number == work->plan->count)
        bi_work_handler_request_stop(work, BI_EXIT_OK);
    return work->plan->count == 0 || number <= work->plan->count;
}

int bi_work_handler_run(bide_context *context, const void *data, bide_function *unused, void *arg)
{
    struct work *work = arg;
    char tail[BI_WORK_TAIL_SIZE + 1] = "";
    struct output output = {.limit = work->plan->keep_size};
    struct run_outcome outcome = {.after_ms = -1};
    int code = BIDE_GIVE_BACK;

    (void)unused;
    if (begin_run(work)) {
        work->plan->runner->run(work, context, data, &outcome, &output, tail);
        code = finish_job(work, context, &outcome, &output, tail);
        /* The event of the finished job arrives on another thread and picks it up. */
        save_outcome(bide_context_job(context)->id, &outcome);
        bi_work_output_done(&output);
    }

    uint64_t running = atomic_fetch_sub(&work->running, 1);
    assert(running > 0);
    if (running == 1 && atomic_load(&work->ending))
        bi_work_supervisor_notify(work->idle_fd);
    return code;
}
