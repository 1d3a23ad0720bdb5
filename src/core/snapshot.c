/* SPDX-License-Identifier: MIT */
/*
 * snapshot - a job as clients see it (bide_job).
 *
 * A snapshot owns references to the body and texts, so it stays valid when the job changes or is
 * removed. bide_job_clear() releases them.
 */
#include "core/core_internal.h"

#include <string.h>

/* Indexes into bufs_, which owns what the pointers of a snapshot refer to. */
enum { BUF_BODY, BUF_KEY, BUF_ERROR, BUF_RESULT, BUF_PROGRESS, BUF_COUNT };

static const void *ref_buf(bide_job *out, int slot, bide_buf *buf)
{
    if (buf == NULL)
        return NULL;
    out->bufs_[slot] = bide_buf_ref(buf);
    return bide_buf_data(buf);
}

static int64_t wall_ms(const struct core *core, int64_t mono)
{
    return mono == BI_NEVER ? 0 : ms_down(wall_of(core, mono));
}

static void fill_texts(const struct job_ext *ext, bide_job *out)
{
    if (ext->key == NULL && ext->last_error == NULL && ext->result == NULL && ext->progress == NULL)
        return;

    out->key = ref_buf(out, BUF_KEY, ext->key);
    out->key_size = bide_buf_size(ext->key);
    out->last_error = ref_buf(out, BUF_ERROR, ext->last_error);
    out->last_error_size = bide_buf_size(ext->last_error);
    out->result = ref_buf(out, BUF_RESULT, ext->result);
    out->result_size = bide_buf_size(ext->result);
    out->progress = ref_buf(out, BUF_PROGRESS, ext->progress);
    out->progress_size = bide_buf_size(ext->progress);
}

static void fill_ext(const struct core *core, const struct job *job, const struct job_ext *ext,
                     bide_job *out)
{
    fill_texts(ext, out);
    out->max_retries = ext->max_retries;
    out->failures = ext->failures;
    out->backoff_base_ms = ms_up(ext->backoff_base);
    out->backoff_max_ms = ms_up(ext->backoff_max);
    out->expires_at_ms = ms_down(ext->expires_at);
    out->retain_ms = ms_up(ext->retain);

    out->reserves = ext->counters.reserves;
    out->timeouts = ext->counters.timeouts;
    out->releases = ext->counters.releases;
    out->fails = ext->counters.fails;
    out->buries = ext->counters.buries;
    out->kicks = ext->counters.kicks;
    out->touches = ext->counters.touches;

    out->ready_ms = wall_ms(core, ext->ready);
    out->reserved_ms = wall_ms(core, bi_lease_started_at(core, ext));
    out->touched_ms = wall_ms(core, bi_lease_touched_at(ext));
    out->buried_ms = wall_ms(core, ext->buried);
    out->done_ms = wall_ms(core, ext->done);

    if (job->state == BIDE_STATE_RESERVED)
        out->token = ext->token;
}

static void fill_due(const struct core *core, const struct job *job, bide_job *out)
{
    bool wall = (job->flags & JOB_DUE_WALL) != 0;
    if (job->state == BIDE_STATE_READY || job->state == BIDE_STATE_BURIED)
        return;

    /* Before the reply the lease has not started: the whole ttr is left. */
    bool reply_pending = job->state == BIDE_STATE_RESERVED && ext_of(core, job)->reply_pending;
    out->left_ms =
        ms_up(reply_pending ? job->ttr : job->due - (wall ? core->now.wall : core->now.mono));

    if (job->state == BIDE_STATE_DELAYED) {
        out->run_at_wall = wall;
        out->run_at_ms = ms_up(wall ? job->due : wall_of(core, job->due));
    }
}

void bi_snapshot_fill(struct core *core, const struct job *job, bide_job *out, bool with_body)
{
    const struct topic *topic = topic_of(core, job);
    const struct job_ext *ext = ext_of(core, job);

    /* The name is written below; clearing all of its 200 bytes for every job would be wasted. */
    memset(out, 0, offsetof(bide_job, topic));
    memset(out->bufs_, 0, sizeof(out->bufs_));
    memcpy(out->topic, topic->name, (size_t)topic->name_size + 1);

    out->id = job->id;
    out->state = (bide_state)job->state;
    out->priority = job->priority;
    if (with_body) {
        out->body = ref_buf(out, BUF_BODY, job->body);
        /* The op that runs must wait for the reader thread. */
        core->body_missing |= bi_job_body_missing(job);
    }

    out->body_size = job->body_size;
    out->ttr_ms = ms_up(job->ttr);
    out->delay_ms = bi_job_delay_ms(job);
    out->age_ms = ms_down(age_of(core, job->created));
    out->created_ms = wall_ms(core, job->created);
    out->max_retries = BIDE_NO_RETRY_LIMIT;
    out->key_hold_retained = (job->flags & JOB_KEY_RETAINED) != 0;
    out->cancel_wanted = (job->flags & JOB_CANCEL_WANTED) != 0;

    fill_due(core, job, out);
    if (ext != NULL)
        fill_ext(core, job, ext, out);
    /* After fill_ext(), which sets the time from before the last reservation. */
    if (job->state == BIDE_STATE_READY)
        out->ready_ms = wall_ms(core, bi_job_ready_since(core, job));
}

uint64_t bi_snapshot_size(const struct core *core, const struct job *job, bool with_body)
{
    const struct job_ext *ext = ext_of(core, job);
    uint64_t size = with_body ? job->body_size : 0;
    if (ext != NULL)
        size += bide_buf_size(ext->last_error) + bide_buf_size(ext->result);
    return size;
}

bool bi_snapshot_fits_page(const struct core *core, uint64_t bytes, uint64_t added)
{
    uint64_t most = core->limits.page_bytes;
    /* Written so that the sum cannot overflow. */
    return most == 0 || (bytes <= most && added <= most - bytes);
}

void bi_snapshot_set_body(bide_job *out, bide_buf *body)
{
    out->bufs_[BUF_BODY] = body;
    out->body = bide_buf_data(body);
}

void bi_snapshot_drop_body(bide_job *out)
{
    bide_buf_unref(out->bufs_[BUF_BODY]);
    bi_snapshot_set_body(out, NULL);
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
