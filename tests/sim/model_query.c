/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

static int64_t ms_up(int64_t us)
{
    return us <= 0 ? 0 : (us + US_PER_MS - 1) / US_PER_MS;
}

static int64_t ms_down(int64_t us)
{
    return us >= 0 ? us / US_PER_MS : -((-us + US_PER_MS - 1) / US_PER_MS);
}

static int64_t moment_ms(const struct model *m, int64_t mono)
{
    return mono == BI_NEVER ? 0 : ms_down(model_wall_of(m, mono));
}

/* If the wall clock was set back before a restart, no age becomes negative. */
static int64_t age_ms(const struct model *m, int64_t since)
{
    return since < m->now.mono ? (m->now.mono - since) / US_PER_MS : 0;
}

int64_t model_distance(const struct model *m, const struct mjob *job)
{
    return job->due - (job->due_wall ? m->now.wall : m->now.mono);
}

/* ---- a snapshot ---- */

/* A body may be missing only if the store has it; it comes later. */
static void see_lacking(struct model *m, const struct mjob *job)
{
    m->lacking = true;
    expect_true(m->sim, sim_has_cache(m->sim), "a body is missing, though all stay in memory");
    expect_true(m->sim, sim_store_find(&m->sim->store, job->id) != NULL,
                "a body is missing that is not stored");
}

static void compare_texts(struct model *m, const struct mjob *job, const bide_job *got,
                          bool with_body)
{
    struct sim *sim = m->sim;
    const char *key = job->key >= 0 ? sim_keys[job->key] : "";
    expect(sim, "body_size", (int64_t)job->body.size, (int64_t)got->body_size);
    if (with_body && got->body == NULL && job->body.size > 0)
        see_lacking(m, job);
    else if (with_body)
        expect_bytes(sim, "body", job->body.bytes, job->body.size, got->body, got->body_size);
    else
        expect_true(sim, got->body == NULL, "an unrequested body was returned");
    expect_bytes(sim, "key", key, strlen(key), got->key, got->key_size);
    expect(sim, "has an error", job->has_error, got->last_error != NULL);
    expect_bytes(sim, "last_error", job->last_error.bytes,
                 job->has_error ? job->last_error.size : 0, got->last_error, got->last_error_size);
    model_compare_history(m, "failures in the history", job, got->history, got->history_size);
    expect_bytes(sim, "result", job->result.bytes, job->has_result ? job->result.size : 0,
                 got->result, got->result_size);
    expect_bytes(sim, "progress", job->progress.bytes, job->has_progress ? job->progress.size : 0,
                 got->progress, got->progress_size);
    bool held = job->state == BIDE_STATE_RESERVED;
    expect_bytes(sim, "holder", job->holder.bytes, held ? job->holder.size : 0, got->holder,
                 got->holder_size);
}

static void compare_times(struct model *m, const struct mjob *job, const bide_job *got)
{
    struct sim *sim = m->sim;
    bool delayed = job->state == BIDE_STATE_DELAYED;
    bool timed = delayed || job->state == BIDE_STATE_RESERVED || job->state == BIDE_STATE_DONE;
    bool wall = delayed && job->due_wall;
    int64_t left = job->reply_pending ? job->ttr_ms * US_PER_MS
                                      : job->due - (wall ? m->now.wall : m->now.mono);
    int64_t run_at = wall ? job->due : model_wall_of(m, job->due);
    expect(sim, "left_ms", timed ? ms_up(left) : 0, got->left_ms);
    expect(sim, "run_at_ms", delayed ? ms_up(run_at) : 0, got->run_at_ms);
    expect(sim, "run_at_wall", wall, got->run_at_wall);
    expect(sim, "age_ms", age_ms(m, job->created), got->age_ms);
    expect(sim, "created_ms", moment_ms(m, job->created), got->created_ms);
    bool ready = job->state == BIDE_STATE_READY;
    expect(sim, "ready_ms", moment_ms(m, ready && !job->ready_before ? job->since : job->ready),
           got->ready_ms);
    /* A lease that has not begun is shown as one that begins now. */
    bool untouched = job->reply_pending && job->lease_touches == 0;
    expect(sim, "reserved_ms", moment_ms(m, job->reply_pending ? m->now.mono : job->reserved),
           got->reserved_ms);
    expect(sim, "touched_ms", moment_ms(m, untouched ? BI_NEVER : job->touched), got->touched_ms);
    expect(sim, "buried_ms", moment_ms(m, job->buried), got->buried_ms);
    expect(sim, "done_ms", moment_ms(m, job->done), got->done_ms);
}

static void compare_figures(struct model *m, const struct mjob *job, const bide_job *got)
{
    struct sim *sim = m->sim;
    expect(sim, "ttr_ms", job->ttr_ms, got->ttr_ms);
    expect(sim, "key_hold_retained", job->key_hold_retained, got->key_hold_retained);
    expect(sim, "cancel_wanted", job->cancel_wanted, got->cancel_wanted);
    expect(sim, "max_retries", job->max_retries, got->max_retries);
    expect(sim, "failures", job->failures, got->failures);
    expect(sim, "backoff_base_ms", job->backoff_base_ms, got->backoff_base_ms);
    expect(sim, "backoff_max_ms", job->backoff_max_ms, got->backoff_max_ms);
    expect(sim, "expires_at_ms", job->expires_at / US_PER_MS, got->expires_at_ms);
    expect(sim, "retain_ms", job->retain_ms, got->retain_ms);
    expect(sim, "reserves", job->reserves, got->reserves);
    expect(sim, "timeouts", job->timeouts, got->timeouts);
    expect(sim, "releases", job->releases, got->releases);
    expect(sim, "fails", job->fails, got->fails);
    expect(sim, "buries", job->buries, got->buries);
    expect(sim, "kicks", job->kicks, got->kicks);
    expect(sim, "touches", job->touches, got->touches);
}

void model_compare_job(struct model *m, const struct mjob *job, const bide_job *got, uint64_t token,
                       bool with_body)
{
    struct sim *sim = m->sim;
    expect(sim, "job id", (int64_t)job->id, (int64_t)got->id);
    expect(sim, "job token", (int64_t)token, (int64_t)got->token);
    expect(sim, "job state", job->state, got->state);
    expect(sim, "job priority", job->priority, got->priority);
    expect(sim, "job topic", job->name, sim_name_of(sim_slice(got->topic)));
    compare_figures(m, job, got);
    compare_times(m, job, got);
    compare_texts(m, job, got, with_body);
}

/* ---- looking at one job ---- */

static void look(struct model *m, struct mjob *job, const bide_op *op, bool with_body)
{
    model_answer(m, job != NULL ? BIDE_OK : BIDE_NOT_FOUND);
    if (job == NULL)
        return;
    model_depend_on(m, job);
    model_compare_job(m, job, op->query.job, 0, with_body);
}

void model_peek(struct model *m, struct sim_op *sop)
{
    model_depend_on_absent(m, sop->op.query.id);
    look(m, model_find(m, sop->op.query.id), &sop->op, true);
}

void model_job_stats(struct model *m, struct sim_op *sop)
{
    model_depend_on_absent(m, sop->op.query.id);
    look(m, model_find(m, sop->op.query.id), &sop->op, false);
}

void model_find_key(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.query.topic);
    struct mjob *holder = model_key_holder(m, name, sim_key_of(sop->op.query.key));
    if (holder == NULL)
        model_depend_on_topic(m, name);
    look(m, holder, &sop->op, true);
}

static bool comes_first(const struct model *m, const struct mjob *a, const struct mjob *b)
{
    switch (a->state) {
    case BIDE_STATE_READY:
        return a->priority < b->priority;
    case BIDE_STATE_DELAYED:
        return model_distance(m, a) < model_distance(m, b);
    case BIDE_STATE_RESERVED:
        return a->number < b->number;
    default:
        return a->entered < b->entered;
    }
}

void model_peek_first(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.query.topic);
    struct mjob *first = NULL;
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->name == name && job->state == sop->op.query.state &&
            (first == NULL || comes_first(m, job, first)))
            first = job;
    }
    if (first == NULL)
        model_depend_on_topic(m, name);
    look(m, first, &sop->op, true);
}

static void compare_fetched(struct model *m, const struct mtext *want, const bide_buf *got)
{
    size_t size = want != NULL ? want->size : 0;
    expect_bytes(m->sim, "bytes", size ? want->bytes : NULL, size, got ? bide_buf_data(got) : NULL,
                 got ? bide_buf_size(got) : 0);
}

void model_body(struct model *m, struct sim_op *sop)
{
    const struct mjob *job = model_find(m, sop->op.fetch.id);
    model_depend_on_absent(m, sop->op.fetch.id);
    model_answer(m, job != NULL ? BIDE_OK : BIDE_NOT_FOUND);
    if (job == NULL)
        return;
    model_depend_on(m, job);
    if (sop->op.fetch.buf == NULL && job->body.size > 0)
        see_lacking(m, job);
    else
        compare_fetched(m, &job->body, sop->op.fetch.buf);
}

void model_result(struct model *m, struct sim_op *sop)
{
    const struct mjob *job = model_find(m, sop->op.fetch.id);
    model_depend_on_absent(m, sop->op.fetch.id);
    if (job == NULL) {
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_depend_on(m, job);
    model_answer(m, job->state == BIDE_STATE_DONE ? BIDE_OK : BIDE_WRONG_STATE);
    if (job->state == BIDE_STATE_DONE)
        compare_fetched(m, job->has_result ? &job->result : NULL, sop->op.fetch.buf);
}

/* ---- figures ---- */

static void compare_counters(struct model *m, const bide_counters *want, const bide_counters *got)
{
    struct sim *sim = m->sim;
    expect(sim, "total puts", (int64_t)want->puts, (int64_t)got->puts);
    expect(sim, "total reserves", (int64_t)want->reserves, (int64_t)got->reserves);
    expect(sim, "total deletes", (int64_t)want->deletes, (int64_t)got->deletes);
    expect(sim, "total dones", (int64_t)want->dones, (int64_t)got->dones);
    expect(sim, "total releases", (int64_t)want->releases, (int64_t)got->releases);
    expect(sim, "total fails", (int64_t)want->fails, (int64_t)got->fails);
    expect(sim, "total timeouts", (int64_t)want->timeouts, (int64_t)got->timeouts);
    expect(sim, "total buries", (int64_t)want->buries, (int64_t)got->buries);
    expect(sim, "total kicks", (int64_t)want->kicks, (int64_t)got->kicks);
    expect(sim, "total touches", (int64_t)want->touches, (int64_t)got->touches);
    expect(sim, "total expired", (int64_t)want->expired, (int64_t)got->expired);
    expect(sim, "total retired", (int64_t)want->retired, (int64_t)got->retired);
    expect(sim, "total purged", (int64_t)want->purged, (int64_t)got->purged);
    expect(sim, "total pauses", (int64_t)want->pauses, (int64_t)got->pauses);
}

/* Counts the jobs of one topic, or of all (-1), from the jobs themselves. */
static bide_counts count_jobs(const struct model *m, int name, int64_t *oldest_ready)
{
    bide_counts counts = {0};
    uint64_t *by_state[] = {NULL,           &counts.delayed, &counts.ready, &counts.reserved,
                            &counts.buried, &counts.done};
    *oldest_ready = m->now.mono;
    for (size_t i = 0; i < m->count; i++) {
        const struct mjob *job = m->jobs[i];
        if (name >= 0 && job->name != name)
            continue;
        ++*by_state[job->state];
        if (job->state != BIDE_STATE_READY)
            continue;
        counts.urgent += job->priority < BIDE_DEFAULT_PRIORITY;
        if (job->since < *oldest_ready)
            *oldest_ready = job->since;
    }
    return counts;
}

static void compare_counts(struct model *m, int name, const bide_counts *got, int64_t got_age)
{
    struct sim *sim = m->sim;
    int64_t oldest;
    bide_counts want = count_jobs(m, name, &oldest);
    expect(sim, "delayed jobs", (int64_t)want.delayed, (int64_t)got->delayed);
    expect(sim, "ready jobs", (int64_t)want.ready, (int64_t)got->ready);
    expect(sim, "reserved jobs", (int64_t)want.reserved, (int64_t)got->reserved);
    expect(sim, "buried jobs", (int64_t)want.buried, (int64_t)got->buried);
    expect(sim, "done jobs", (int64_t)want.done, (int64_t)got->done);
    expect(sim, "urgent jobs", (int64_t)want.urgent, (int64_t)got->urgent);
    expect(sim, "oldest_ready_age_ms", age_ms(m, oldest), got_age);
}

static void compare_limits(struct model *m, int name, const bide_topic_stats *got)
{
    struct sim *sim = m->sim;
    const struct mtopic *topic = &m->topics[name];
    const bide_topic_policy *policy = topic->has_policy ? &topic->policy : NULL;
    int64_t rate = policy != NULL ? policy->rate : 0;
    int64_t period = rate == 0 ? 0 : policy->rate_period_ms != 0 ? policy->rate_period_ms : 1000;
    expect(sim, "concurrency", policy != NULL ? policy->concurrency : 0, (int64_t)got->concurrency);
    expect(sim, "rate", rate, (int64_t)got->rate);
    expect(sim, "rate_period_ms", period, got->rate_period_ms);
    expect(sim, "limited", model_limit(m, name), got->limited);
    expect(sim, "has_policy", policy != NULL, got->has_policy);
    expect(sim, "limit_left_ms",
           rate != 0 && topic->token_at != 0 ? ms_up(topic->token_at - m->now.mono) : 0,
           got->limit_left_ms);
}

void model_compare_topic(struct model *m, int name, const bide_topic_stats *got)
{
    struct sim *sim = m->sim;
    const struct mtopic *topic = &m->topics[name];
    int64_t left = 0;
    if (topic->paused)
        left =
            topic->pause_end == BI_NEVER ? BIDE_TIME_MAX_MS : ms_up(topic->pause_end - m->now.mono);
    expect(sim, "topic name", name, sim_name_of(sim_slice(got->name)));
    compare_counts(m, name, &got->jobs, got->oldest_ready_age_ms);
    compare_counters(m, &topic->total, &got->total);
    expect(sim, "waiting", (int64_t)topic->waiting, (int64_t)got->waiting);
    expect(sim, "references", (int64_t)topic->references, (int64_t)got->references);
    expect(sim, "paused", topic->paused, got->paused);
    expect(sim, "pause_left_ms", left, got->pause_left_ms);
    compare_limits(m, name, got);
}

void model_topic_stats(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.topic_stats.topic);
    bool exists = m->topics[name].exists;
    model_answer(m, exists ? BIDE_OK : BIDE_NOT_FOUND);
    if (exists)
        model_compare_topic(m, name, sop->op.topic_stats.stats);
}

void model_stats(struct model *m, struct sim_op *sop)
{
    struct sim *sim = m->sim;
    const bide_stats *got = sop->op.stats.stats;
    uint64_t waiting = 0;
    for (const struct mwaiter *w = m->waiters; w != NULL; w = w->next)
        waiting += w->name_count != 0;
    model_answer(m, BIDE_OK);
    compare_counts(m, -1, &got->jobs, got->oldest_ready_age_ms);
    compare_counters(m, &m->total, &got->total);
    expect(sim, "topics", (int64_t)model_topic_count(m), (int64_t)got->topics);
    expect(sim, "waiting", (int64_t)waiting, (int64_t)got->waiting);
    expect(sim, "watching", (int64_t)(m->waiter_count - waiting), (int64_t)got->watching);
    expect(sim, "uptime_ms", ms_down(m->now.mono - m->born.mono), got->uptime_ms);
    expect(sim, "last_id", (int64_t)(m->next_id - 1), (int64_t)got->last_id);
    expect(sim, "draining", m->draining, got->draining);
    sim_hash(sim, got->memory_bytes);
}
