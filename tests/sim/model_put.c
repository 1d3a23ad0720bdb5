/* SPDX-License-Identifier: MIT */
#include "model.h"

static const bide_put_options defaults = BIDE_PUT_OPTIONS_INIT;

static size_t size_of(const bide_put_item *item)
{
    return item->buf != NULL ? bide_buf_size(item->buf) : item->body.size;
}

/* The refusals of a put, in the order in which they are looked for. */
static int refusal(struct model *m, bide_put_item *item, const bide_put_options *options,
                   struct mjob **holder)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    int name = sim_name_of(item->topic);
    if (size_of(item) > limits->max_job_size)
        return BIDE_TOO_BIG;
    if (m->draining)
        return BIDE_DRAINING;
    *holder = model_key_holder(m, name, sim_key_of(options->key));
    if (*holder != NULL) {
        model_depend_on(m, *holder);
        if (options->conflict != BIDE_REPLACE || (*holder)->state == BIDE_STATE_RESERVED)
            return BIDE_EXISTS;
    }
    bool replaces = *holder != NULL && (*holder)->state != BIDE_STATE_DONE;
    if (model_max_jobs(m, name) != 0 && !replaces && model_live(m, name) >= model_max_jobs(m, name))
        return BIDE_TOPIC_FULL;
    if (!m->topics[name].exists && model_topic_count(m) >= limits->max_topics)
        return BIDE_TOO_MANY_TOPICS;
    return BIDE_OK;
}

static void set_options(struct model *m, struct mjob *job, const bide_put_options *options)
{
    job->priority = options->priority;
    job->ttr_ms = options->ttr_ms;
    if (job->ttr_ms == 0)
        job->ttr_ms = m->sim->options.limits.default_ttr / US_PER_MS;
    job->key = sim_key_of(options->key);
    job->key_hold_retained = options->key_hold_retained;
    job->max_retries = options->max_retries;
    job->backoff_base_ms = options->backoff_base_ms;
    job->backoff_max_ms = options->backoff_max_ms;
    job->expires_at = options->expires_at_ms * US_PER_MS;
    job->retain_ms = options->retain_ms;
}

static void schedule(struct model *m, struct mjob *job, const bide_put_options *options)
{
    if (options->delay_ms > 0) {
        job->due = m->now.mono + options->delay_ms * US_PER_MS;
        model_set_state(m, job, BIDE_STATE_DELAYED);
    } else if (options->run_at_ms * US_PER_MS > m->now.wall) {
        job->due = options->run_at_ms * US_PER_MS;
        job->due_wall = true;
        model_set_state(m, job, BIDE_STATE_DELAYED);
    }
}

static void expire_at_once(struct model *m, struct mjob *job)
{
    MODEL_COUNT(m, job->name, expired);
    model_event(m, job, BIDE_EVENT_EXPIRED, BIDE_STATE_GONE);
    model_change(m, job);
    model_remove(m, job);
}

/* By the policy of the topic: some time after the put, to the microsecond. */
static int64_t default_expiry(const struct model *m, int name)
{
    const struct mtopic *topic = &m->topics[name];
    if (!topic->exists || !topic->has_policy || topic->policy.expires_in_ms == 0)
        return 0;
    int64_t at = m->now.wall + topic->policy.expires_in_ms * US_PER_MS;
    return at < BIDE_TIMESTAMP_MAX_MS * US_PER_MS ? at : BIDE_TIMESTAMP_MAX_MS * US_PER_MS;
}

void model_put_new(struct model *m, const bide_put_item *item)
{
    const bide_put_options *options = item->options != NULL ? item->options : &defaults;
    bide_put_options in_force = model_put_options(m, item);
    int name = sim_name_of(item->topic);
    expect(m->sim, "id", (int64_t)m->next_id, (int64_t)item->id);
    struct mjob *job = model_insert(m, m->next_id++, name, BIDE_STATE_READY);
    if (item->buf != NULL)
        model_set_text(&job->body, bide_buf_data(item->buf), bide_buf_size(item->buf));
    else
        model_set_text(&job->body, item->body.data, item->body.size);
    model_change_new(m, job);
    set_options(m, job, &in_force);
    if (options->expires_at_ms == 0)
        job->expires_at = default_expiry(m, name);
    MODEL_COUNT(m, name, puts);
    schedule(m, job, options);
    model_event(m, job, BIDE_EVENT_PUT, job->state);
    if (job->expires_at != 0 && job->expires_at <= m->now.wall)
        expire_at_once(m, job);
}

/* One item of a put or put_many, of which the core said got. */
static void put_item(struct model *m, bide_put_item *item, int got)
{
    const bide_put_options *options = item->options != NULL ? item->options : &defaults;
    struct mjob *holder = NULL;
    int want = refusal(m, item, options, &holder);
    if (want == BIDE_OK && got == BIDE_ENOMEM && m->sim->allowed_enomem)
        want = BIDE_ENOMEM;
    if (want == BIDE_OK && got == BIDE_EFULL && m->sim->options.limits.max_memory != 0)
        want = BIDE_EFULL;
    expect_code(m->sim, "status of the put", want, got);
    if (want == BIDE_EXISTS)
        expect(m->sim, "id of the holder", (int64_t)holder->id, (int64_t)item->id);
    if (want != BIDE_OK)
        return;
    model_need_topic(m, sim_name_of(item->topic));
    model_begin_group(m, holder != NULL ? 2 : 1, size_of(item));
    if (holder != NULL)
        model_delete_job(m, holder);
    model_put_new(m, item);
    model_end_group(m);
}

void model_put(struct model *m, struct sim_op *sop)
{
    put_item(m, &sop->op.put, m->got);
}

void model_put_many(struct model *m, struct sim_op *sop)
{
    size_t accepted = 0;
    uint64_t bytes = 0;
    model_answer(m, BIDE_OK);
    for (size_t i = 0; i < sop->op.put_many.count; i++)
        bytes += size_of(&sop->op.put_many.items[i]);
    model_begin_group(m, sop->op.put_many.count, bytes);
    for (size_t i = 0; i < sop->op.put_many.count; i++) {
        bide_put_item *item = &sop->op.put_many.items[i];
        put_item(m, item, item->status);
        model_cleanup(m);
        accepted += item->status == BIDE_OK;
    }
    model_end_group(m);
    expect(m->sim, "accepted", (int64_t)accepted, (int64_t)sop->op.put_many.accepted);
}

/* ---- restore ---- */

static int restore_refusal(struct model *m, const bide_job *from)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    int name = sim_name_of(sim_slice(from->topic));
    int key = sim_key_of((bide_slice){.data = from->key, .size = from->key_size});
    bool is_done = from->state == BIDE_STATE_DONE;
    if (from->body_size > limits->max_job_size ||
        (is_done && from->result_size > limits->max_result_size))
        return BIDE_TOO_BIG;
    if (m->draining)
        return BIDE_DRAINING;
    if (!is_done || from->key_hold_retained) {
        struct mjob *holder = model_key_holder(m, name, key);
        if (holder != NULL) {
            model_depend_on(m, holder);
            return BIDE_EXISTS;
        }
    }
    if (!is_done && model_max_jobs(m, name) != 0 && model_live(m, name) >= model_max_jobs(m, name))
        return BIDE_TOPIC_FULL;
    if (!m->topics[name].exists && model_topic_count(m) >= limits->max_topics)
        return BIDE_TOO_MANY_TOPICS;
    return BIDE_OK;
}

static int64_t moment(const struct model *m, int64_t ms)
{
    return ms == 0 ? BI_NEVER : model_mono_of(m, ms * US_PER_MS);
}

/* What a job says of when it was ready is taken over as far as it can be: when it is not ready that
 * was before it was reserved, and when it is, not in the future. */
static void restore_ready(struct model *m, struct mjob *job, const bide_job *from)
{
    int64_t ready = from->ready_ms * US_PER_MS, reserved = from->reserved_ms * US_PER_MS;
    if (from->state != BIDE_STATE_READY && ready > reserved)
        ready = reserved;
    if (from->state == BIDE_STATE_READY) {
        ready = ready > m->now.wall ? m->now.wall : ready;
        ready += ready != 0 && ready == reserved;
        job->ready_before = ready > reserved;
    }
    job->ready = ready == 0 ? BI_NEVER : model_mono_of(m, ready);
}

static void restore_figures(struct model *m, struct mjob *job, const bide_job *from)
{
    job->priority = from->priority;
    job->ttr_ms = from->ttr_ms ? from->ttr_ms : m->sim->options.limits.default_ttr / US_PER_MS;
    job->key = sim_key_of((bide_slice){.data = from->key, .size = from->key_size});
    job->key_hold_retained = from->key_hold_retained;
    job->max_retries = from->max_retries;
    job->failures = from->failures;
    job->backoff_base_ms = from->backoff_base_ms;
    job->backoff_max_ms = from->backoff_max_ms;
    job->expires_at = from->expires_at_ms * US_PER_MS;
    job->expiry_over = from->reserves != 0;
    job->retain_ms = from->retain_ms;
    job->reserves = from->reserves;
    job->timeouts = from->timeouts;
    job->releases = from->releases;
    job->fails = from->fails;
    job->buries = from->buries;
    job->kicks = from->kicks;
    job->touches = from->touches;
    job->created = from->created_ms ? moment(m, from->created_ms) : m->now.mono;
    restore_ready(m, job, from);
    job->reserved = moment(m, from->reserved_ms);
    job->touched = moment(m, from->touched_ms);
    job->buried = moment(m, from->buried_ms);
    job->done = moment(m, from->done_ms);
}

static void restore_texts(struct model *m, struct mjob *job, const bide_job *from)
{
    size_t most = m->sim->options.limits.max_error_size;
    size_t error_size = from->last_error_size < most ? from->last_error_size : most;
    model_set_text(&job->body, from->body, from->body_size);
    job->has_error = error_size != 0;
    model_set_text(&job->last_error, from->last_error, error_size);
    job->has_result = from->state == BIDE_STATE_DONE && from->result_size != 0;
    if (job->has_result)
        model_set_text(&job->result, from->result, from->result_size);
    model_set_history(job, from->history, from->history_size);
}

static void restore_state(struct model *m, struct mjob *job, const bide_job *from)
{
    int64_t run_at = from->run_at_ms * US_PER_MS;
    switch (from->state) {
    case BIDE_STATE_DELAYED:
        if (run_at <= m->now.wall)
            break;
        job->due_wall = from->run_at_wall;
        job->due = from->run_at_wall ? run_at : model_mono_of(m, run_at);
        model_set_state(m, job, BIDE_STATE_DELAYED);
        return;
    case BIDE_STATE_BURIED:
        model_set_state(m, job, BIDE_STATE_BURIED);
        return;
    case BIDE_STATE_DONE:
        model_set_state(m, job, BIDE_STATE_DONE);
        job->due = m->now.mono + from->left_ms * US_PER_MS;
        return;
    default:
        break;
    }
}

void model_restore(struct model *m, struct sim_op *sop)
{
    const bide_job *from = sop->op.restore.job;
    int name = sim_name_of(sim_slice(from->topic));
    int want = restore_refusal(m, from);
    if (want == BIDE_OK && m->got == BIDE_EFULL && m->sim->options.limits.max_memory != 0)
        want = BIDE_EFULL;
    model_answer(m, want);
    if (want != BIDE_OK)
        return;
    expect(m->sim, "id", (int64_t)m->next_id, (int64_t)sop->op.restore.id);
    struct mjob *job = model_insert(m, m->next_id++, name, BIDE_STATE_READY);
    restore_figures(m, job, from);
    restore_texts(m, job, from);
    model_change_new(m, job);
    restore_state(m, job, from);
    MODEL_COUNT(m, name, puts);
    model_event(m, job, BIDE_EVENT_PUT, job->state);
    if (job->expires_at != 0 && job->expires_at <= m->now.wall && !job->expiry_over &&
        (job->state == BIDE_STATE_READY || job->state == BIDE_STATE_DELAYED))
        expire_at_once(m, job);
    else if (job->state == BIDE_STATE_DONE)
        model_limit_done(m, name, MODEL_DONE_STEP);
}
