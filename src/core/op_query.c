/* SPDX-License-Identifier: MIT */
/*
 * op_query - read-only ops: peeks, body, result, and the statistics of jobs, topics and the queue.
 *
 * A reply depends on the last uncommitted change of what it shows: it is held until that is
 * committed, so a client never sees a state that a failed commit reverts. Statistics of
 * topics and of the queue are not held.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

/* Fills the reply. The token stays secret: it is the proof of another client's lease. */
static int fill_job(struct core *core, bide_op *op, const struct job *job, bool with_body)
{
    bi_journal_depend_on(core, job->id);
    bi_snapshot_fill(core, job, op->query.job, with_body);
    op->query.job->token = 0;
    return BIDE_OK;
}

int bi_exec_peek(struct core *core, bide_op *op)
{
    const struct job *job = bi_job_find(core, op->query.id);
    return job == NULL ? bi_core_error_no_job(op, op->query.id) : fill_job(core, op, job, true);
}

int bi_exec_job_stats(struct core *core, bide_op *op)
{
    const struct job *job = bi_job_find(core, op->query.id);
    return job == NULL ? bi_core_error_no_job(op, op->query.id) : fill_job(core, op, job, false);
}

int bi_exec_peek_first(struct core *core, bide_op *op)
{
    const struct topic *topic = bi_topic_find(core, op->query.topic);
    const struct job *job = NULL;

    if (topic != NULL && op->query.state == BIDE_STATE_READY)
        job = job_at(core, topic->ready.count == 0 ? 0 : topic->ready.entries[0].job);
    else if (topic != NULL && op->query.state == BIDE_STATE_DELAYED)
        job = bi_topic_soonest_job(core, topic, BI_NEVER);
    else if (topic != NULL)
        job = bi_job_list_oldest(core, &topic->lists[op->query.state]);

    /* An uncommitted change may have removed the job. */
    if (job == NULL && topic != NULL)
        bi_journal_depend_on_topic(core, topic);
    if (job == NULL)
        return bi_core_error(op, BIDE_NOT_FOUND, "peek_first: no job of that topic is %s",
                             bide_state_name(op->query.state));
    return fill_job(core, op, job, true);
}

int bi_exec_find(struct core *core, bide_op *op)
{
    const struct topic *topic = bi_topic_find(core, op->query.topic);
    const struct job *job = topic == NULL ? NULL : bi_job_find_by_key(core, topic, op->query.key);

    /* An uncommitted change may have removed the job, or its key. */
    if (job == NULL && topic != NULL)
        bi_journal_depend_on_topic(core, topic);
    if (job == NULL)
        return bi_core_error(op, BIDE_NOT_FOUND, "find: no job of that topic holds this key");
    return fill_job(core, op, job, true);
}

int bi_exec_body(struct core *core, bide_op *op)
{
    const struct job *job = bi_job_find(core, op->fetch.id);
    if (job == NULL)
        return bi_core_error_no_job(op, op->fetch.id);
    op->fetch.buf = bide_buf_ref(job->body);
    /* For bi_body_fetch_missing(), if only the store has the body. */
    op->private_.step.fetch.part.body_size = job->body_size;
    core->body_missing |= bi_job_body_missing(job);
    return BIDE_OK;
}

int bi_exec_result(struct core *core, bide_op *op)
{
    const struct job *job = bi_job_find(core, op->fetch.id);
    if (job == NULL)
        return bi_core_error_no_job(op, op->fetch.id);
    if (job->state != BIDE_STATE_DONE)
        return bi_core_error_wrong_state(op, job);
    assert(job->ext != 0); /* every done job has one */
    op->fetch.buf = bide_buf_ref(ext_of(core, job)->result);
    return BIDE_OK;
}

/* ---- statistics ---- */

static void fill_limits(const struct core *core, const struct topic *topic, bide_topic_stats *out)
{
    const bide_topic_policy *settings = bi_policy_settings(topic->policy);
    int64_t until;
    if (settings == NULL)
        return;

    out->has_policy = true;
    out->concurrency = (uint64_t)settings->concurrency;
    out->rate = (uint64_t)settings->rate;
    out->rate_period_ms = settings->rate == 0 ? 0 : bi_topic_policy_period_ms(settings);
    out->limited = bi_policy_limit(topic, &until);
    if (until != BI_NEVER)
        out->limit_left_ms = ms_up(until - core->now.mono);
}

static void fill_topic(const struct core *core, const struct topic *topic, bide_topic_stats *out)
{
    memset(out, 0, sizeof(*out));
    memcpy(out->name, topic->name, (size_t)topic->name_size + 1);

    out->jobs.delayed = topic->lists[BIDE_STATE_DELAYED].count;
    out->jobs.ready = topic->lists[BIDE_STATE_READY].count;
    out->jobs.reserved = topic->lists[BIDE_STATE_RESERVED].count;
    out->jobs.buried = topic->lists[BIDE_STATE_BURIED].count;
    out->jobs.done = topic->lists[BIDE_STATE_DONE].count;
    out->jobs.urgent = topic->urgent;

    out->total = topic->total;
    out->waiting = topic->line.count;
    out->references = topic->references;

    const struct job *oldest = bi_job_list_oldest(core, &topic->lists[BIDE_STATE_READY]);
    if (oldest != NULL)
        out->oldest_ready_age_ms = ms_down(age_of(core, oldest->since));

    out->paused = topic->paused_until != 0;
    if (out->paused) {
        bool forever = topic->paused_until == BI_NEVER;
        out->pause_ms = forever ? BIDE_TIME_MAX_MS : ms_up(topic->pause);
        out->pause_left_ms =
            forever ? BIDE_TIME_MAX_MS : ms_up(topic->paused_until - core->now.mono);
    }

    if (topic->policy != NULL)
        fill_limits(core, topic, out);
}

int bi_exec_topic_stats(struct core *core, bide_op *op)
{
    const struct topic *topic = bi_topic_find(core, op->topic_stats.topic);
    if (topic == NULL)
        return bi_core_error_no_topic(op, op->topic_stats.topic);
    fill_topic(core, topic, op->topic_stats.stats);
    return BIDE_OK;
}

int bi_exec_topic_get(struct core *core, bide_op *op)
{
    const struct topic *topic = bi_topic_find(core, op->topic_get.topic);
    const bide_topic_policy *settings = topic == NULL ? NULL : bi_policy_settings(topic->policy);

    if (topic != NULL)
        bi_journal_depend_on_policy(core, topic);
    if (settings != NULL)
        *op->topic_get.policy = *settings;
    else
        bi_topic_policy_clear(op->topic_get.policy);
    bi_policy_in_force(core, topic, op->topic_get.in_force);
    return BIDE_OK;
}

/*
 * Since when the oldest ready job of all topics is ready; BI_NEVER for none. A topic's entry in
 * core->ages may be older than its oldest job is now, never younger. It is corrected here, when it
 * reaches the top of the heap, so that most changes of a topic need not update the heap.
 */
static int64_t oldest_ready(struct core *core)
{
    for (;;) {
        int64_t first = bi_timers_next(&core->ages);
        if (first == INT64_MAX)
            return BI_NEVER;

        struct timer *age = core->ages.heap.entries[0].timer;
        const struct topic *topic = BI_TIMER_OWNER(age, struct topic, age);
        const struct job *oldest = bi_job_list_oldest(core, &topic->lists[BIDE_STATE_READY]);
        if (oldest == NULL)
            bi_timers_clear(&core->ages, age);
        else if (oldest->since != first)
            bi_timers_set(&core->ages, age, oldest->since);
        else
            return first;
    }
}

int bi_exec_stats(struct core *core, bide_op *op)
{
    bide_stats *out = op->stats.stats;
    memset(out, 0, sizeof(*out));

    out->jobs.delayed = core->counts[BIDE_STATE_DELAYED];
    out->jobs.ready = core->counts[BIDE_STATE_READY];
    out->jobs.reserved = core->counts[BIDE_STATE_RESERVED];
    out->jobs.buried = core->counts[BIDE_STATE_BURIED];
    out->jobs.done = core->counts[BIDE_STATE_DONE];
    out->jobs.urgent = core->urgent;

    out->total = core->total;
    out->topics = core->by_name.count;
    /* Waiters without topics wait for the end of a job, for events or for recovery. */
    out->waiting = core->waiters.reserving;
    out->watching = core->waiters.count - core->waiters.reserving;
    out->memory_bytes = core->memory;

    int64_t oldest = oldest_ready(core);
    if (oldest != BI_NEVER)
        out->oldest_ready_age_ms = ms_down(age_of(core, oldest));

    out->uptime_ms = ms_down(core->now.mono - core->start_time);
    out->last_id = core->next_id - 1;
    out->draining = core->draining;
    return BIDE_OK;
}

/* ---- pages of topics ---- */

static int list_topics(struct core *core, bide_op *op, bool only_waiting)
{
    bide_topics_args *args = &op->topics;
    uint64_t serial = 0;

    if (!bi_op_list_parse_cursor(args->cursor, 't', &serial, 1))
        return bi_core_error(op, BIDE_EINVAL, "%s: the cursor is not one that this call gave",
                             bide_op_name(op->kind));

    /* Serials only rise: a topic that exists during the whole listing is returned exactly once. */
    const struct topic *topic = bi_topic_at_or_after(core, serial);
    size_t count = 0;
    unsigned examined = 0;
    for (; topic != NULL && count < args->topic_max; examined++) {
        /* A page ends at this limit even if no topic matches: the lock is held. */
        if (examined == BIDE_EXAMINE_MAX)
            break;
        if (!only_waiting || topic->line.count > 0)
            fill_topic(core, topic, &args->topics[count++]);
        topic = bi_topic_at_or_after(core, topic->serial + 1);
    }

    args->count = count;
    core->work += examined;

    if (topic != NULL)
        bi_op_list_format_cursor(args->cursor, 't', &topic->serial, 1);
    else
        args->cursor[0] = 0;
    return BIDE_OK;
}

int bi_exec_topics(struct core *core, bide_op *op)
{
    return list_topics(core, op, false);
}

int bi_exec_waiting(struct core *core, bide_op *op)
{
    return list_topics(core, op, true);
}
