/* SPDX-License-Identifier: MIT */
/*
 * work_handle - one job: has it run, and answers for it.
 */
#include "cli/work_write.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* ---- what is remembered until the queue has been told ---- */

static pthread_mutex_t known_lock = PTHREAD_MUTEX_INITIALIZER;
static struct known {
    uint64_t id;
    struct fate fate;
    struct known *next;
} * known; /* a few more than there are threads, at most */

static void remember(uint64_t id, const struct fate *fate)
{
    struct known *one = malloc(sizeof(*one));
    if (one == NULL)
        return; /* then less can be said about it */
    one->id = id;
    one->fate = *fate;
    pthread_mutex_lock(&known_lock);
    one->next = known;
    known = one;
    pthread_mutex_unlock(&known_lock);
}

bool bi_work_recall(uint64_t id, struct fate *fate)
{
    pthread_mutex_lock(&known_lock);
    struct known **at = &known;
    while (*at != NULL && (*at)->id != id)
        at = &(*at)->next;
    struct known *found = *at;
    if (found != NULL)
        *at = found->next;
    pthread_mutex_unlock(&known_lock);
    if (found != NULL)
        *fate = found->fate;
    free(found);
    return found != NULL;
}

int64_t bi_work_limit(const struct work *work, const bide_job *job, const char **whose)
{
    bool by_ttr = work->plan->timeout_ms == BI_WORK_BY_TTR;
    *whose = by_ttr ? "ttr" : "--timeout";
    return by_ttr ? job->ttr_ms : work->plan->timeout_ms;
}

static void raise_fd(int fd)
{
    ssize_t written = write(fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* it is readable already */
}

void bi_work_end(struct work *work, int exit)
{
    int none = BI_EXIT_OK;
    atomic_compare_exchange_strong(&work->exit, &none, exit);
    bide_worker_quit(work->worker);
    raise_fd(work->end_fd);
}

void bi_work_unwanted(const struct work *work, const bide_context *context, struct fate *fate)
{
    const bide_job *job = bide_context_job(context);
    bool lost = bide_context_reason(context) != BIDE_REASON_CANCELLED;

    fate->kind = FATE_UNWANTED;
    snprintf(fate->text, sizeof(fate->text), "%s",
             !lost                      ? "the job was cancelled"
             : atomic_load(&work->away) ? "the lease ran out without a connection to the queue"
                                        : "the lease was lost: it ran out, or the job was taken");
    if (lost)
        bi_work_note(work, "job %llu (%s): %s; what runs for it is ended",
                     (unsigned long long)job->id, job->topic, fate->text);
}

/* ---- beginning ---- */

/* May this job be run? The main thread sets ending before it looks at running, and here it is the
 * other way round: so one of both sees the other. */
static bool enter(struct work *work)
{
    atomic_fetch_add(&work->running, 1);
    if (atomic_load(&work->ending))
        return false;
    uint64_t number = atomic_fetch_add(&work->begun, 1) + 1;
    if (number == work->plan->count)
        bi_work_end(work, BI_EXIT_OK);
    return work->plan->count == 0 || number <= work->plan->count;
}

static void leave(struct work *work)
{
    if (atomic_fetch_sub(&work->running, 1) == 1 && atomic_load(&work->ending))
        raise_fd(work->idle_fd);
}

/* ---- answering ---- */

struct reply {
    struct work *work;
    bide_context *context;
    const struct fate *fate;
    struct output *output;
    const char *tail;
};

static int say_done(const struct reply *reply)
{
    const struct work_plan *plan = reply->work->plan;
    const bide_job *job = bide_context_job(reply->context);
    if (plan->keep_size == 0)
        return BIDE_DONE;
    if (reply->output->cut)
        bi_work_note(reply->work,
                     "job %llu (%s): its output was cut: more than %zu bytes (--keep-size)",
                     (unsigned long long)job->id, job->topic, plan->keep_size);
    bi_output_mark(reply->output);
    if (job->retain_ms == 0)
        bide_context_retain(reply->context, plan->retain_ms);
    int code = bide_context_result(reply->context, reply->output->data, reply->output->size);
    if (code != BIDE_OK)
        bi_work_note(reply->work, "job %llu (%s): its output is not kept: %s",
                     (unsigned long long)job->id, job->topic, bide_last_error());
    return BIDE_DONE;
}

/* How it ended, and what it said. */
static void make_reason(const struct reply *reply, char *reason, size_t size)
{
    char said[BI_FATE_SIZE];
    bi_fate_say(said, reply->fate, reply->work->plan->rules.http);
    snprintf(reason, size, "%.300s%s%s", said, reply->tail[0] == 0 ? "" : ": ", reply->tail);
}

static int say_failed(const struct reply *reply)
{
    char reason[BI_TAIL_SIZE + 400];
    make_reason(reply, reason, sizeof(reason));
    return bide_context_retry(reply->context, "%s", reason);
}

static int say_buried(const struct reply *reply)
{
    char reason[BI_TAIL_SIZE + 400];
    make_reason(reply, reason, sizeof(reason));
    return bide_context_bury(reply->context, "%s", reason);
}

static int say_later(const struct reply *reply)
{
    const struct fate *fate = reply->fate;
    bool asked = fate->kind == FATE_STATUS && fate->after_ms >= 0;
    return bide_context_snooze(reply->context,
                               asked ? fate->after_ms : reply->work->plan->retry_delay_ms);
}

static int say_unstarted(const struct reply *reply)
{
    struct work *work = reply->work;
    if (atomic_load(&work->exit) == BI_EXIT_OK)
        bi_cli_failed(work->cli, BI_EXIT_FAILED, "%s; its job is given back", reply->fate->text);
    bi_work_end(work, BI_EXIT_FAILED);
    return BIDE_GIVE_BACK;
}

static int answer(const struct reply *reply)
{
    static int (*const actions[])(const struct reply *) = {
        [FATE_DONE] = say_done,
        [FATE_FAIL] = say_failed,
        [FATE_RETRY] = say_later,
        [FATE_BURY] = say_buried,
    };
    switch (reply->fate->kind) {
    case FATE_STOPPED:
        return BIDE_GIVE_BACK;
    case FATE_UNWANTED:
        return say_failed(reply);
    case FATE_UNSTARTED:
        return say_unstarted(reply);
    default:
        return actions[bi_fate_action(&reply->work->plan->rules, reply->fate)](reply);
    }
}

static int run(struct work *work, bide_context *context, const bide_slice *body)
{
    char tail[BI_TAIL_SIZE + 1] = "";
    struct output output = {.most = work->plan->keep_size};
    struct fate fate = {.after_ms = -1};
    work->plan->runner->run(work, context, body, &fate, &output, tail);
    struct reply reply = {work, context, &fate, &output, tail};
    int outcome = answer(&reply);
    remember(bide_context_job(context)->id, &fate);
    bi_output_done(&output);
    return outcome;
}

int bi_work_handle(bide_context *context, const void *data, bide_function *unused, void *arg)
{
    struct work *work = arg;
    (void)unused;
    int outcome = enter(work) ? run(work, context, data) : BIDE_GIVE_BACK;
    leave(work);
    return outcome;
}
