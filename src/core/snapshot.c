/* SPDX-License-Identifier: MIT */
/*
 * snapshot - a job as clients see it (bide_job).
 *
 * A snapshot owns references to the body and texts, so it stays valid when the job changes or is
 * removed. bide_job_clear() releases them.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

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

#define FILL_TEXT(kind, name, least, most)                  \
    out->name = ref_buf(out, BI_JOB_BUF_##name, ext->name); \
    out->name##_size = bide_buf_size(ext->name);

#define FILL_FIELD(kind, name)   out->BI_JOB_MEMBER_##kind(name) = FIELD_OUT_##kind(ext->name);
#define FILL_COUNTER(kind, name) out->name = ext->counters.name;
#define FILL_TIME(kind, name)    out->name##_ms = wall_ms(core, EXT_TIME_##name(core, ext));
#define FILL_NONE(kind, name)    out->BI_JOB_MEMBER_##kind(name) = BI_JOB_NONE_##kind;

static void fill_ext(const struct core *core, const struct job *job, const struct job_ext *ext,
                     bide_job *out)
{
    if (ext->key != NULL || ext->last_error != NULL || ext->result != NULL ||
        ext->progress != NULL) {
        BI_JOB_TEXTS(FILL_TEXT)
    }
    if (ext->history != NULL) {
        out->history_buf_ = bide_buf_ref(ext->history);
        out->history = bide_buf_data(ext->history);
        out->history_size = bide_buf_size(ext->history);
    }
    if (ext->holder != NULL) {
        out->holder_buf_ = bide_buf_ref(ext->holder);
        out->holder = bide_buf_data(ext->holder);
        out->holder_size = bide_buf_size(ext->holder);
    }
    BI_JOB_EXT(FILL_FIELD)
    BI_JOB_COUNTERS(FILL_COUNTER)
    BI_JOB_TIMES(FILL_TIME)
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
    assert(job->state != BIDE_STATE_GONE);
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
        out->body = ref_buf(out, BI_JOB_BUF_body, job->body);
        /* The op that runs must wait for the reader thread. */
        core->body_missing |= bi_job_body_missing(job);
    }

    out->body_size = job->body_size;
    out->ttr_ms = ms_up(job->ttr);
    out->delay_ms = bi_job_delay_ms(job);
    out->age_ms = ms_down(age_of(core, job->created));
    out->created_ms = wall_ms(core, job->created);
    out->key_hold_retained = (job->flags & JOB_KEY_RETAINED) != 0;
    out->cancel_wanted = (job->flags & JOB_CANCEL_WANTED) != 0;

    fill_due(core, job, out);
    if (ext != NULL) {
        fill_ext(core, job, ext, out);
    } else {
        BI_JOB_EXT(FILL_NONE)
    }
    /* After fill_ext(), which sets the time from before the last reservation. */
    if (job->state == BIDE_STATE_READY)
        out->ready_ms = wall_ms(core, bi_job_ready_since(core, job));
}

uint64_t bi_snapshot_size(const struct core *core, const struct job *job, bool with_body)
{
    const struct job_ext *ext = ext_of(core, job);
    uint64_t size = with_body ? job->body_size : 0;
    if (ext != NULL)
        size += bide_buf_size(ext->last_error) + bide_buf_size(ext->result) +
                bide_buf_size(ext->history);
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
    out->bufs_[BI_JOB_BUF_body] = body;
    out->body = bide_buf_data(body);
}

void bi_snapshot_drop_body(bide_job *out)
{
    bide_buf_unref(out->bufs_[BI_JOB_BUF_body]);
    bi_snapshot_set_body(out, NULL);
}

void bide_job_clear(bide_job *job)
{
    if (job == NULL)
        return;
    for (int i = 0; i < BI_JOB_BUF_COUNT; i++)
        bide_buf_unref(job->bufs_[i]);
    bide_buf_unref(job->history_buf_);
    bide_buf_unref(job->holder_buf_);
    memset(job, 0, offsetof(bide_job, topic) + 1);
    memset(job->bufs_, 0, sizeof(job->bufs_));
}
