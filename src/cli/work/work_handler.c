/* SPDX-License-Identifier: MIT */
/*
 * work_handler - one job: has it run, and answers for it.
 */
#include "cli/work/work_writer.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is remembered until the queue has been told ---- */

static pthread_mutex_t outcomes_lock = PTHREAD_MUTEX_INITIALIZER;
static struct saved_outcome {
    uint64_t id;
    struct run_outcome outcome;
    struct saved_outcome *next;
} * saved_outcome; /* a few more than there are threads, at most */

static void save_outcome(uint64_t id, const struct run_outcome *outcome)
{
    struct saved_outcome *saved = malloc(sizeof(*saved));
    if (saved == NULL)
        return; /* then less can be said about it */
    saved->id = id;
    saved->outcome = *outcome;
    pthread_mutex_lock(&outcomes_lock);
    saved->next = saved_outcome;
    saved_outcome = saved;
    pthread_mutex_unlock(&outcomes_lock);
}

bool bi_work_handler_take_outcome(uint64_t id, struct run_outcome *outcome)
{
    pthread_mutex_lock(&outcomes_lock);
    struct saved_outcome **at = &saved_outcome;
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

int64_t bi_work_handler_time_limit(const struct work *work, const bide_job *job, const char **whose)
{
    bool by_ttr = work->plan->timeout_ms == BI_WORK_TIMEOUT_TTR;
    *whose = by_ttr ? "ttr" : "--timeout";
    return by_ttr ? job->ttr_ms : work->plan->timeout_ms;
}

static void notify_fd(int fd)
{
    ssize_t written = write(fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* it is readable already */
}

void bi_work_handler_request_stop(struct work *work, int exit)
{
    int none = BI_EXIT_OK;
    atomic_compare_exchange_strong(&work->exit, &none, exit);
    bide_worker_quit(work->worker);
    notify_fd(work->end_fd);
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
                 ? "the lease ran out without a connection to the queue"
                 : "the lease was lost: it ran out, or the job was taken");
    if (lost)
        bi_work_writer_note(work, "job %llu (%s): %s; what runs for it is ended",
                            (unsigned long long)job->id, job->topic, outcome->text);
}

/* ---- beginning ---- */

/* May this job be run? The main thread sets ending before it looks at running, and here it is the
 * other way round: so one of both sees the other. */
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

static void end_run(struct work *work)
{
    if (atomic_fetch_sub(&work->running, 1) == 1 && atomic_load(&work->ending))
        notify_fd(work->idle_fd);
}

/* ---- answering ---- */

struct reply {
    struct work *work;
    bide_context *context;
    const struct run_outcome *outcome;
    struct output *output;
    const char *tail;
};

static int finish_done(const struct reply *reply)
{
    const struct work_plan *plan = reply->work->plan;
    const bide_job *job = bide_context_job(reply->context);
    if (plan->keep_size == 0)
        return BIDE_DONE;
    if (reply->output->truncated)
        bi_work_writer_note(reply->work,
                            "job %llu (%s): its output was cut: more than %zu bytes (--keep-size)",
                            (unsigned long long)job->id, job->topic, plan->keep_size);
    bi_work_output_mark_truncated(reply->output);
    if (job->retain_ms == 0)
        bide_context_retain(reply->context, plan->retain_ms);
    int code = bide_context_result(reply->context, reply->output->data, reply->output->size);
    if (code != BIDE_OK)
        bi_work_writer_note(reply->work, "job %llu (%s): its output is not kept: %s",
                            (unsigned long long)job->id, job->topic, bide_last_error());
    return BIDE_DONE;
}

/* How it ended, and what it said. */
static void format_reason(const struct reply *reply, char *reason, size_t size)
{
    char description[BI_WORK_OUTCOME_SIZE];
    bi_work_exit_rule_describe(description, reply->outcome, reply->work->plan->rules.http);
    snprintf(reason, size, "%.300s%s%s", description, reply->tail[0] == 0 ? "" : ": ", reply->tail);
}

static int finish_failed(const struct reply *reply)
{
    char reason[BI_WORK_TAIL_SIZE + 400];
    format_reason(reply, reason, sizeof(reason));
    return bide_context_retry(reply->context, "%s", reason);
}

static int finish_buried(const struct reply *reply)
{
    char reason[BI_WORK_TAIL_SIZE + 400];
    format_reason(reply, reason, sizeof(reason));
    return bide_context_bury(reply->context, "%s", reason);
}

static int finish_snoozed(const struct reply *reply)
{
    const struct run_outcome *outcome = reply->outcome;
    bool with_retry_after = outcome->kind == RUN_STATUS && outcome->after_ms >= 0;
    return bide_context_snooze(
        reply->context, with_retry_after ? outcome->after_ms : reply->work->plan->retry_delay_ms);
}

static int finish_not_started(const struct reply *reply)
{
    struct work *work = reply->work;
    if (atomic_load(&work->exit) == BI_EXIT_OK)
        bi_cli_error(work->cli, BI_EXIT_FAILED, "%s; its job is given back", reply->outcome->text);
    bi_work_handler_request_stop(work, BI_EXIT_FAILED);
    return BIDE_GIVE_BACK;
}

static int finish_job(const struct reply *reply)
{
    static int (*const actions[])(const struct reply *) = {
        [ACTION_DONE] = finish_done,
        [ACTION_FAIL] = finish_failed,
        [ACTION_RETRY] = finish_snoozed,
        [ACTION_BURY] = finish_buried,
    };
    switch (reply->outcome->kind) {
    case RUN_STOPPED:
        return BIDE_GIVE_BACK;
    case RUN_REVOKED:
        return finish_failed(reply);
    case RUN_NOT_STARTED:
        return finish_not_started(reply);
    default:
        return actions[bi_work_exit_rule_match(&reply->work->plan->rules, reply->outcome)](reply);
    }
}

static int run(struct work *work, bide_context *context, const bide_slice *body)
{
    char tail[BI_WORK_TAIL_SIZE + 1] = "";
    struct output output = {.limit = work->plan->keep_size};
    struct run_outcome outcome = {.after_ms = -1};
    work->plan->runner->run(work, context, body, &outcome, &output, tail);
    struct reply reply = {work, context, &outcome, &output, tail};
    int code = finish_job(&reply);
    save_outcome(bide_context_job(context)->id, &outcome);
    bi_work_output_done(&output);
    return code;
}

int bi_work_handler_run(bide_context *context, const void *data, bide_function *unused, void *arg)
{
    struct work *work = arg;
    (void)unused;
    int code = begin_run(work) ? run(work, context, data) : BIDE_GIVE_BACK;
    end_run(work);
    return code;
}
