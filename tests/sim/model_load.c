/* SPDX-License-Identifier: MIT */
#include "model.h"

static int64_t loaded_moment(const struct model *m, int64_t wall)
{
    return wall == 0 ? BI_NEVER : model_mono_of(m, wall);
}

static int64_t not_later(int64_t moment, int64_t limit)
{
    return moment < limit ? moment : limit;
}

static void load_text(struct mtext *text, bool *has, const bide_buf *buf)
{
    *has = buf != NULL && bide_buf_size(buf) != 0;
    if (*has)
        model_set_text(text, bide_buf_data(buf), bide_buf_size(buf));
}

static void load_figures(struct mjob *job, const struct bi_image *image)
{
    job->priority = image->priority;
    job->ttr_ms = image->ttr / US_PER_MS;
    job->key_hold_retained = image->key_hold_retained;
    job->max_retries = BIDE_NO_RETRY_LIMIT;
    if (image->plain)
        return;
    job->max_retries = image->max_retries;
    job->failures = image->failures;
    job->backoff_base_ms = image->backoff_base / US_PER_MS;
    job->backoff_max_ms = image->backoff_max / US_PER_MS;
    job->expires_at = image->expires_at;
    job->expiry_over = image->reserves != 0;
    job->retain_ms = image->retain / US_PER_MS;
    job->reserves = image->reserves;
    job->timeouts = image->timeouts;
    job->releases = image->releases;
    job->fails = image->fails;
    job->buries = image->buries;
    job->kicks = image->kicks;
    job->touches = image->touches;
}

static void load_moments(struct model *m, struct mjob *job, const struct bi_image *image)
{
    job->created = loaded_moment(m, image->created);
    job->since = not_later(model_mono_of(m, image->since), m->born.mono);
    if (image->plain)
        return;
    job->ready = loaded_moment(m, image->ready);
    job->ready_before = image->state == BIDE_STATE_READY && image->ready > image->reserved;
    job->reserved = loaded_moment(m, image->reserved);
    job->touched = loaded_moment(m, image->touched);
    job->buried = loaded_moment(m, image->buried);
    job->done = loaded_moment(m, image->done);
}

/* If the wall clock was set back meanwhile, it takes no longer than it was to take at first. */
static int64_t loaded_end(const struct model *m, const struct bi_image *image)
{
    return not_later(model_mono_of(m, image->due), m->now.mono + (image->due - image->since));
}

static void load_due(struct model *m, struct mjob *job, const struct bi_image *image)
{
    if (job->state != BIDE_STATE_DELAYED && job->state != BIDE_STATE_DONE)
        return;
    job->due_wall = image->due_wall && job->state == BIDE_STATE_DELAYED;
    job->due = job->due_wall ? image->due : loaded_end(m, image);
    if (job->state == BIDE_STATE_DELAYED && image->due <= m->now.wall) {
        job->due_wall = false;
        model_ready(m, job);
        job->since = model_mono_of(m, image->due);
    }
}

/* It was reserved when the queue went down: that counts as a ttr that ran out. */
static void load_started(struct model *m, struct mjob *job)
{
    model_change(m, job);
    job->timeouts++;
    job->failures++;
    MODEL_COUNT(m, job->name, timeouts);
    bide_slice reason = sim_slice("the queue was restarted while the job was reserved");
    model_set_error(m, job, reason);
    model_add_failure(m, job, BIDE_FAILURE_RESTARTED, reason);
    model_retry(m, job, BIDE_EVENT_TIMED_OUT);
}

void model_begin_load(struct model *m, const struct sim_store *store)
{
    for (size_t i = 0; i < store->count; i++)
        if (store->jobs[i].bury_order > m->sequence)
            m->sequence = store->jobs[i].bury_order;
}

/* It was reserved at an orderly end, and no crash has come since: what was left of the lease runs
 * from now on. */
static void load_lease(const struct model *m, struct mjob *job, const struct bi_image *image)
{
    job->number = image->token;
    job->token = bi_token_of(&m->sim->tokens, image->token);
    job->due = m->now.mono + image->lease;
    job->due_wall = false;
    job->leased = job->reserved;
    job->last_touch = job->touched == BI_NEVER ? job->reserved : job->touched;
}

/* A lease that ended with its process: it is over, and nothing knows its token. It shows only after
 * a failed commit. */
static void load_ended_lease(struct model *m, struct mjob *job)
{
    if (m->last_token + 1 < m->first_token)
        m->last_token = m->first_token - 1;
    job->number = ++m->last_token;
    job->due = m->now.mono;
    job->since = m->now.mono;
    job->leased = job->reserved;
    job->last_touch = job->touched == BI_NEVER ? job->reserved : job->touched;
}

void model_load(struct model *m, const struct bi_image *image)
{
    bool has;
    m->now = m->sim->now;
    bool leased = image->token != 0 && image->token >= m->lease_from;
    bool unfinished = !leased && (image->cancel_wanted || image->started);
    int name = sim_name_of(sim_slice(image->topic));
    struct mjob *job =
        model_insert(m, image->id, name, leased || unfinished ? BIDE_STATE_RESERVED : image->state);
    load_figures(job, image);
    load_moments(m, job, image);
    load_text(&job->body, &has, image->body);
    load_text(&job->last_error, &job->has_error, image->last_error);
    load_text(&job->result, &job->has_result, image->result);
    model_set_history(job, bide_buf_data(image->history), bide_buf_size(image->history));
    if (image->key != NULL)
        job->key = sim_key_of(
            (bide_slice){.data = bide_buf_data(image->key), .size = bide_buf_size(image->key)});
    if (image->state == BIDE_STATE_BURIED || image->state == BIDE_STATE_DONE)
        job->entered = image->bury_order;
    load_due(m, job, image);
    job->cancel_wanted = image->cancel_wanted;
    if (leased)
        load_lease(m, job, image);
    if (unfinished)
        load_ended_lease(m, job);
    if (unfinished && image->cancel_wanted)
        model_delete_job(m, job);
    else if (unfinished)
        load_started(m, job);
    model_cleanup(m);
}

void model_load_topic(struct model *m, int name, int64_t due, const bide_buf *policy)
{
    m->now = m->sim->now;
    bool paused = due == BI_NEVER || due > m->now.wall;
    if (!paused && policy == NULL)
        return;
    struct mtopic *topic = model_need_topic(m, name);
    topic->paused = paused;
    topic->pause_end = due == BI_NEVER ? BI_NEVER : model_mono_of(m, due);
    if (policy != NULL)
        model_replace_policy(m, name, true, bide_buf_data(policy));
}
