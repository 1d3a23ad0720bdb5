/* SPDX-License-Identifier: MIT */
/*
 * job_spec - the description of a job to insert: from a put, a restore or a stored image.
 *
 * A job is built completely outside of the queue, which may fail for lack of memory, and is then
 * inserted by steps that cannot fail.
 */
#include "core/core_internal.h"

#include <assert.h>

static bool copy_text(struct core *core, bide_buf **to, bide_slice from)
{
    if (from.data == NULL)
        return true;
    bi_job_ext_set_text(core, to, bide_buf_new(from.data, from.size));
    return *to != NULL;
}

#define COPY_FIELD(kind, name)   ext->name = image->name;
#define COPY_COUNTER(kind, name) image->name,
#define COPY_TIME(kind, name)    ext->name = image->name == 0 ? BI_NEVER : mono_of(core, image->name);

static bool fill_ext(struct core *core, struct job *job, const struct job_spec *spec)
{
    const struct bi_image *image = &spec->image;
    struct job_ext *ext = bi_job_ensure_ext(core, job);

    if (ext == NULL || !copy_text(core, &ext->key, spec->key) ||
        !copy_text(core, &ext->last_error, spec->last_error) ||
        !copy_text(core, &ext->history, spec->history))
        return false;

    /* The caller may have copied the result before it locked the queue. */
    if (spec->result_buf != NULL)
        bi_job_ext_set_text(core, &ext->result, bide_buf_ref(spec->result_buf));
    else if (!copy_text(core, &ext->result, spec->result))
        return false;

    BI_JOB_EXT(COPY_FIELD)
    ext->counters = (struct counters){BI_JOB_COUNTERS(COPY_COUNTER)};
    BI_JOB_TIMES(COPY_TIME)
    ext->order = image->bury_order;

    /* Ready after its last reservation: the job was restored as a ready one. Otherwise ready is
     * the time before that reservation. */
    if (image->state == BIDE_STATE_READY && image->ready > image->reserved)
        job->flags |= JOB_READY_BEFORE;
    return true;
}

#define ADD_USE(kind, name) used |= image->name ^ BI_JOB_NONE_##kind;

/*
 * True if the job needs no struct job_ext. A restored or loaded job that is ready since its
 * creation and was never reserved is as small as one that was put.
 */
static bool needs_no_ext(const struct job_spec *spec)
{
    const struct bi_image *image = &spec->image;
    bool ready = image->state == BIDE_STATE_READY;

    int64_t used = image->reserved | image->touched | image->buried | image->done;
    BI_JOB_EXT(ADD_USE)
    BI_JOB_COUNTERS(ADD_USE)
    if (used != 0)
        return false;

    if ((!ready && image->state != BIDE_STATE_DELAYED) || spec->key.data != NULL ||
        spec->last_error.data != NULL || spec->result.data != NULL || spec->result_buf != NULL ||
        spec->history.data != NULL || image->started || image->cancel_wanted ||
        image->bury_order != 0)
        return false;

    /* Without an extension JOB_READY_BEFORE stands for "ready since created", no other time. */
    return image->ready == 0 || (ready && image->ready > 0 && image->ready == image->created);
}

static bool fill_body(struct core *core, struct job *job, const struct job_spec *spec)
{
    if (spec->body_in_store) {
        job->body_size = spec->image.body_size;
        return true;
    }

    job->body = spec->buf == NULL ? bide_buf_new(spec->body.data, spec->body.size)
                : spec->take_buf  ? spec->buf
                                  : bide_buf_ref(spec->buf);
    job->body_size = (uint32_t)bide_buf_size(job->body);
    core->memory += job->body_size;
    return job->body != NULL;
}

/* Returns when a delay or retention ends on the boot-time clock. If the wall clock was set back
 * between two runs, it lasts no longer than its original duration. */
static int64_t due_mono(const struct core *core, const struct bi_image *image)
{
    int64_t due = mono_of(core, image->due);
    int64_t longest = core->now.mono + (image->due - image->since);
    return image->since != 0 && due > longest ? longest : due;
}

bide_state bi_job_spec_set_due(const struct core *core, struct job *job,
                               const struct bi_image *image)
{
    if (image->state == BIDE_STATE_DONE) {
        job->due = due_mono(core, image);
        return BIDE_STATE_DONE;
    }

    if (image->state != BIDE_STATE_DELAYED)
        return image->state;
    if (image->due <= core->now.wall)
        return BIDE_STATE_READY;

    if (image->due_wall)
        job->flags |= JOB_DUE_WALL;
    job->due = image->due_wall ? image->due : due_mono(core, image);
    if (!image->due_wall)
        bi_job_set_delay(job, job->due - core->now.mono);
    return BIDE_STATE_DELAYED;
}

struct job *bi_job_spec_build(struct core *core, struct topic *topic, const struct job_spec *spec,
                              uint64_t id)
{
    struct job *job = bi_job_new(core, topic->self, id);
    if (job == NULL)
        return NULL;

    job->priority = spec->image.priority;
    job->ttr = spec->image.ttr;
    job->created = spec->image.created == 0 ? core->now.mono : mono_of(core, spec->image.created);
    if (spec->image.key_hold_retained)
        job->flags |= JOB_KEY_RETAINED;

    bool lean = spec->plain || needs_no_ext(spec);
    if (lean && !spec->plain && spec->image.ready != 0)
        job->flags |= JOB_READY_BEFORE;

    /* The body last: with take_buf it takes over the caller's buffer and cannot fail, so a failed
     * build never releases that buffer. */
    if ((!lean && !fill_ext(core, job, spec)) || !fill_body(core, job, spec)) {
        bi_job_free(core, job);
        return NULL;
    }
    return job;
}
