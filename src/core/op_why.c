/* SPDX-License-Identifier: MIT */
/*
 * op_why - why a job does not run: the first reason that applies, and a sentence.
 *
 * The reasons are tested in the order in which they would have to be removed: what the job itself
 * waits for, then its topic, then the jobs before it. The reply is not held for a commit, like
 * statistics: it describes the queue as it is now.
 *
 * Cost       The heap of ready jobs knows no rank: jobs ahead are counted, at most
 *            BIDE_WHY_AHEAD_MAX, and at most four times as many are visited.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- texts ---- */

static void say(bide_explanation *why, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* Appends to the sentence. */
static void say(bide_explanation *why, const char *format, ...)
{
    size_t size = strlen(why->text);
    va_list args;
    va_start(args, format);
    vsnprintf(why->text + size, sizeof(why->text) - size, format, args);
    va_end(args);
}

struct duration {
    char text[48];
};

/* The two largest units: "1h30m". util formats durations beside the calendar, which is not pure. */
static struct duration duration(int64_t ms)
{
    static const struct {
        const char *symbol;
        int64_t ms;
    } units[] = {{"d", 86400000}, {"h", 3600000}, {"m", 60000}, {"s", 1000}, {"ms", 1}};
    struct duration duration;
    size_t unit = 0;

    assert(ms >= 0);
    while (units[unit].ms > 1 && ms < units[unit].ms)
        unit++;
    int size = snprintf(duration.text, sizeof(duration.text), "%lld%s",
                        (long long)(ms / units[unit].ms), units[unit].symbol);
    int64_t rest = units[unit].ms > 1 ? ms % units[unit].ms / units[unit + 1].ms : 0;
    if (rest > 0)
        snprintf(duration.text + size, sizeof(duration.text) - (size_t)size, "%lld%s",
                 (long long)rest, units[unit + 1].symbol);
    return duration;
}

/* Copies the beginning of a text, with ? for what is not printable ASCII. */
static void copy_printable(char *to, size_t room, const bide_buf *text)
{
    const char *bytes = bide_buf_data(text);
    size_t size = bide_buf_size(text) < room ? bide_buf_size(text) : room - 1;
    for (size_t i = 0; i < size; i++)
        to[i] = (char)(bytes[i] >= ' ' && bytes[i] < 127 ? bytes[i] : '?');
    to[size] = 0;
}

/* ---- until when ---- */

static void set_until(const struct core *core, bide_explanation *why, int64_t until, bool wall)
{
    int64_t left = until - (wall ? core->now.wall : core->now.mono);
    why->left_ms = left < 0 ? 0 : ms_up(left);
    why->until_ms = ms_up(wall ? until : wall_of(core, until));
}

/* ---- the job itself ---- */

static void explain_delayed(const struct core *core, const struct job *job, bide_explanation *why)
{
    set_until(core, why, job->due, (job->flags & JOB_DUE_WALL) != 0);
    say(why, "job %llu is delayed: it is ready in %s", (unsigned long long)job->id,
        duration(why->left_ms).text);
}

static void explain_reserved(const struct core *core, const struct job *job, bide_explanation *why)
{
    const struct job_ext *ext = ext_of(core, job);
    copy_printable(why->holder, sizeof(why->holder), ext->holder);
    why->cancel_wanted = (job->flags & JOB_CANCEL_WANTED) != 0;

    /* Before the reply the lease has not started. */
    set_until(core, why, ext->reply_pending ? core->now.mono + job->ttr : job->due, false);
    say(why, "job %llu is reserved%s%s (attempt %u); its lease ends in %s",
        (unsigned long long)job->id, why->holder[0] == 0 ? "" : " by ", why->holder, why->attempts,
        duration(why->left_ms).text);
    if (why->cancel_wanted)
        say(why, ", and then it is removed, because it was cancelled");
}

static void explain_buried(const struct core *core, const struct job *job, bide_explanation *why)
{
    const struct job_ext *ext = ext_of(core, job);
    copy_printable(why->error, sizeof(why->error), ext->last_error);
    say(why, "job %llu is buried after %u attempt%s, until it is kicked",
        (unsigned long long)job->id, why->attempts, why->attempts == 1 ? "" : "s");
    if (why->error[0] != 0)
        say(why, ": %s", why->error);
}

static void explain_done(const struct core *core, const struct job *job, bide_explanation *why)
{
    set_until(core, why, job->due, false);
    say(why, "job %llu is done; its result is kept for %s", (unsigned long long)job->id,
        duration(why->left_ms).text);
}

/* ---- a ready job ---- */

/* Counts the entries of a heap that come before a mark, at most so many. A child never comes before
 * its parent, so the subtree of an entry that comes later is skipped. */
static uint64_t count_before(struct core *core, const struct ready_heap *heap,
                             const struct ready_entry *mark, uint64_t most)
{
    enum { CHILDREN = 4 };
    uint64_t count = 0, at = 0;

    for (;;) {
        core->work++;
        if (at < heap->count && bi_ready_before(&heap->entries[at], mark)) {
            if (++count == most)
                return count;
            at = CHILDREN * at + 1;
            continue;
        }
        /* The next sibling, of the last one that of its parent. */
        while (at > 0 && at % CHILDREN == 0)
            at = (at - 1) / CHILDREN;
        if (at == 0)
            return count;
        at++;
    }
}

static void count_ahead(struct core *core, const struct topic *topic, const struct job *job,
                        bide_explanation *why)
{
    const struct ready_entry mark = {.priority = job->priority, .id = job->id};
    /* One more is counted, to know whether there are more. */
    uint64_t count = count_before(core, &topic->ready, &mark, BIDE_WHY_AHEAD_MAX + 1);
    why->ahead_more = count > BIDE_WHY_AHEAD_MAX;
    why->ahead = why->ahead_more ? BIDE_WHY_AHEAD_MAX : count;
}

static void say_ahead(bide_explanation *why)
{
    if (why->ahead > 0)
        say(why, "%s%llu job%s of topic %s come%s first", why->ahead_more ? "at least " : "",
            (unsigned long long)why->ahead, why->ahead == 1 ? "" : "s", why->topic,
            why->ahead == 1 ? "s" : "");
}

static void explain_pause(const struct core *core, const struct topic *topic, bide_explanation *why)
{
    if (topic->paused_until == BI_NEVER) {
        say(why, "topic %s is paused until it is resumed", why->topic);
        return;
    }
    set_until(core, why, topic->paused_until, false);
    say(why, "topic %s is paused for another %s", why->topic, duration(why->left_ms).text);
}

/* The limit of its policy that closes the topic; BIDE_WHY_NONE if none does. */
static bide_why_reason explain_limit(const struct core *core, const struct topic *topic,
                                     bide_explanation *why)
{
    const bide_topic_policy *settings = bi_policy_settings(topic->policy);
    int64_t until;
    bide_limit limit = bi_policy_limit(topic, &until);

    if (limit == BIDE_LIMIT_NONE)
        return BIDE_WHY_NONE;
    if (limit == BIDE_LIMIT_RATE) {
        set_until(core, why, until, false);
        say(why, "topic %s is at its rate limit for another %s", why->topic,
            duration(why->left_ms).text);
        return BIDE_WHY_RATE;
    }
    why->limit = (uint64_t)settings->concurrency;
    say(why, "topic %s is at its concurrency limit: %llu of at most %llu jobs are reserved",
        why->topic, (unsigned long long)why->running, (unsigned long long)why->limit);
    return BIDE_WHY_CONCURRENCY;
}

static bide_why_reason explain_ready(struct core *core, const struct job *job,
                                     bide_explanation *why)
{
    const struct topic *topic = topic_of(core, job);
    count_ahead(core, topic, job, why);

    if (core->closed) {
        say(why, "the queue is being closed: it reserves no jobs any more");
        return BIDE_WHY_CLOSING;
    }
    if (topic->paused_until != 0) {
        explain_pause(core, topic, why);
        return BIDE_WHY_PAUSED;
    }
    bide_why_reason limit = explain_limit(core, topic, why);
    if (limit != BIDE_WHY_NONE)
        return limit;
    if (why->waiting == 0 && why->workers == 0 && why->running == 0) {
        say(why, "no worker waits for topic %s", why->topic);
        if (why->ahead > 0)
            say(why, ", and ");
        say_ahead(why);
        return BIDE_WHY_NO_WORKER;
    }
    if (why->ahead > 0) {
        say_ahead(why);
        return BIDE_WHY_AHEAD;
    }
    say(why, "job %llu is the next of topic %s", (unsigned long long)job->id, why->topic);
    return BIDE_WHY_NONE;
}

/* ---- the op ---- */

static void fill_job(const struct core *core, const struct job *job, bide_explanation *why)
{
    const struct topic *topic = topic_of(core, job);
    const struct job_ext *ext = ext_of(core, job);

    why->id = job->id;
    why->state = (bide_state)job->state;
    memcpy(why->topic, topic->name, (size_t)topic->name_size + 1);
    why->waiting = topic->line.count;
    why->workers = bi_worker_count(core, (bide_slice){topic->name, topic->name_size});
    why->running = topic->lists[BIDE_STATE_RESERVED].count;
    if (ext != NULL) {
        why->attempts = ext->counters.reserves;
        why->failures = ext->failures;
    }
}

static void explain_job(struct core *core, const struct job *job, bide_explanation *why)
{
    /* Of a state that is a reason by itself. */
    static const struct {
        bide_why_reason reason;
        void (*explain)(const struct core *core, const struct job *job, bide_explanation *why);
    } states[] = {
        [BIDE_STATE_DELAYED] = {BIDE_WHY_DELAYED, explain_delayed},
        [BIDE_STATE_READY] = {BIDE_WHY_NONE, NULL},
        [BIDE_STATE_RESERVED] = {BIDE_WHY_RESERVED, explain_reserved},
        [BIDE_STATE_BURIED] = {BIDE_WHY_BURIED, explain_buried},
        [BIDE_STATE_DONE] = {BIDE_WHY_DONE, explain_done},
    };

    fill_job(core, job, why);
    if (job->state == BIDE_STATE_READY) {
        why->reason = explain_ready(core, job, why);
        return;
    }
    assert(states[job->state].explain != NULL);
    why->reason = states[job->state].reason;
    states[job->state].explain(core, job, why);
}

static void explain_id(struct core *core, uint64_t id, bide_explanation *why)
{
    const struct job *job = bi_job_lookup(core, id);
    if (job != NULL) {
        explain_job(core, job, why);
        return;
    }

    why->id = id;
    why->reason = id >= core->next_id ? BIDE_WHY_UNKNOWN : BIDE_WHY_GONE;
    if (why->reason == BIDE_WHY_UNKNOWN)
        say(why, "no job has had the id %llu yet; the last one is %llu", (unsigned long long)id,
            (unsigned long long)(core->next_id - 1));
    else
        say(why,
            "there is no job %llu any more: it was deleted, it finished without keeping a result, "
            "or it expired",
            (unsigned long long)id);
}

static void explain_key(struct core *core, const bide_why_args *args, bide_explanation *why)
{
    const struct topic *topic = bi_topic_find(core, args->topic);
    const struct job *job = topic == NULL ? NULL : bi_job_find_by_key(core, topic, args->key);
    memcpy(why->topic, args->topic.data, args->topic.size);

    if (job != NULL) {
        /* The details of the holder, but the sentence answers the question about the key. */
        explain_job(core, job, why);
        why->reason = BIDE_WHY_KEY_HELD;
        why->text[0] = 0;
        say(why, "job %llu of topic %s, which is %s, holds this key", (unsigned long long)job->id,
            why->topic, bide_state_name((bide_state)job->state));
    } else if (core->draining) {
        why->reason = BIDE_WHY_DRAINING;
        say(why, "no job of topic %s holds this key, but the queue is draining: it accepts no jobs",
            why->topic);
    } else {
        say(why, "no job of topic %s holds this key", why->topic);
    }
}

int bi_exec_why(struct core *core, bide_op *op)
{
    bide_explanation *why = op->why.why;
    memset(why, 0, sizeof(*why));
    why->draining = core->draining;
    if (op->why.id != 0)
        explain_id(core, op->why.id, why);
    else
        explain_key(core, &op->why, why);
    assert(why->text[0] != 0);
    return BIDE_OK;
}
