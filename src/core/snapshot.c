/* SPDX-License-Identifier: MIT */
/*
 * snapshot - a job as the outside sees it.
 */
#include "core/state.h"

#include <string.h>

/* The places in bufs_ of what a snapshot points into. */
enum { BUF_BODY, BUF_KEY, BUF_ERROR, BUF_RESULT, BUF_PROGRESS, BUF_COUNT };

static const void *keep(bide_job *out, int place, bide_buf *buf)
{
    if (buf == NULL)
        return NULL;
    out->bufs_[place] = bide_buf_ref(buf);
    return bide_buf_data(buf);
}

static int64_t moment(const struct core *core, int64_t mono)
{
    return mono == BI_NEVER ? 0 : ms_down(wall_of(core, mono));
}

static void fill_texts(const struct more *more, bide_job *out)
{
    if (more->key == NULL && more->last_error == NULL && more->result == NULL &&
        more->progress == NULL)
        return;
    out->key = keep(out, BUF_KEY, more->key);
    out->key_size = bide_buf_size(more->key);
    out->last_error = keep(out, BUF_ERROR, more->last_error);
    out->last_error_size = bide_buf_size(more->last_error);
    out->result = keep(out, BUF_RESULT, more->result);
    out->result_size = bide_buf_size(more->result);
    out->progress = keep(out, BUF_PROGRESS, more->progress);
    out->progress_size = bide_buf_size(more->progress);
}

static void fill_more(const struct core *core, const struct job *job, const struct more *more,
                      bide_job *out)
{
    fill_texts(more, out);
    out->max_retries = more->max_retries;
    out->failures = more->failures;
    out->backoff_base_ms = ms_up(more->backoff_base);
    out->backoff_max_ms = ms_up(more->backoff_max);
    out->expires_at_ms = ms_down(more->expires_at);
    out->retain_ms = ms_up(more->retain);
    out->reserves = more->counters.reserves;
    out->timeouts = more->counters.timeouts;
    out->releases = more->counters.releases;
    out->fails = more->counters.fails;
    out->buries = more->counters.buries;
    out->kicks = more->counters.kicks;
    out->touches = more->counters.touches;
    out->ready_ms = moment(core, more->ready);
    out->reserved_ms = moment(core, bi_lease_began(core, more));
    out->touched_ms = moment(core, bi_lease_touched(more));
    out->buried_ms = moment(core, more->buried);
    out->done_ms = moment(core, more->done);
    if (job->state == BIDE_STATE_RESERVED)
        out->token = more->token;
}

static void fill_due(const struct core *core, const struct job *job, bide_job *out)
{
    bool wall = (job->flags & JOB_DUE_WALL) != 0;
    if (job->state == BIDE_STATE_READY || job->state == BIDE_STATE_BURIED)
        return;
    bool unanswered = job->state == BIDE_STATE_RESERVED && more_of(core, job)->unanswered;
    out->left_ms =
        ms_up(unanswered ? job->ttr : job->due - (wall ? core->now.wall : core->now.mono));
    if (job->state == BIDE_STATE_DELAYED) {
        out->run_at_wall = wall;
        out->run_at_ms = ms_up(wall ? job->due : wall_of(core, job->due));
    }
}

void bi_core_snapshot(struct core *core, const struct job *job, bide_job *out, bool with_body)
{
    const struct topic *topic = topic_of(core, job);
    const struct more *more = more_of(core, job);
    memset(out, 0, offsetof(bide_job, topic));
    memset(out->bufs_, 0, sizeof(out->bufs_));
    memcpy(out->topic, topic->name, (size_t)topic->name_size + 1);
    out->id = job->id;
    out->state = (bide_state)job->state;
    out->priority = job->priority;
    if (with_body) {
        out->body = keep(out, BUF_BODY, job->body);
        core->lacking |= bi_job_lacks_body(job);
    }
    out->body_size = job->body_size;
    out->ttr_ms = ms_up(job->ttr);
    out->delay_ms = bi_job_delay_ms(job);
    out->age_ms = ms_down(age_of(core, job->created));
    out->created_ms = moment(core, job->created);
    out->max_retries = BIDE_NO_RETRY_LIMIT;
    out->key_hold_retained = (job->flags & JOB_KEY_RETAINED) != 0;
    out->cancel_wanted = (job->flags & JOB_CANCEL_WANTED) != 0;
    fill_due(core, job, out);
    if (more != NULL)
        fill_more(core, job, more, out);
    if (job->state == BIDE_STATE_READY)
        out->ready_ms = moment(core, bi_job_ready_since(core, job));
}

uint64_t bi_core_shown_size(const struct core *core, const struct job *job, bool with_body)
{
    const struct more *more = more_of(core, job);
    uint64_t size = with_body ? job->body_size : 0;
    if (more != NULL)
        size += bide_buf_size(more->last_error) + bide_buf_size(more->result);
    return size;
}

bool bi_core_page_fits(const struct core *core, uint64_t bytes, uint64_t more)
{
    uint64_t most = core->limits.page_bytes;
    return most == 0 || (bytes <= most && more <= most - bytes);
}

void bi_snapshot_body(bide_job *out, bide_buf *body)
{
    out->bufs_[BUF_BODY] = body;
    out->body = bide_buf_data(body);
}

void bi_snapshot_strip(bide_job *out)
{
    bide_buf_unref(out->bufs_[BUF_BODY]);
    bi_snapshot_body(out, NULL);
}

void bide_job_clear(bide_job *job)
{
    if (job == NULL)
        return;
    for (int i = 0; i < BUF_COUNT; i++)
        bide_buf_unref(job->bufs_[i]);
    memset(job, 0, offsetof(bide_job, topic) + 1);
    memset(job->bufs_, 0, sizeof(job->bufs_));
}
