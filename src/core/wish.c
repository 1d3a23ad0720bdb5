/* SPDX-License-Identifier: MIT */
#include "core/wish.h"

static bool copy_text(struct core *core, bide_buf **to, bide_slice from)
{
    if (from.data == NULL)
        return true;
    bi_more_set_text(core, to, bide_buf_new(from.data, from.size));
    return *to != NULL;
}

/* The result may have been copied before the queue was locked. */
static bool take_result(struct core *core, struct more *more, const struct wish *wish)
{
    if (wish->result_buf == NULL)
        return copy_text(core, &more->result, wish->result);
    bi_more_set_text(core, &more->result, bide_buf_ref(wish->result_buf));
    return true;
}

static int64_t time_of(const struct core *core, int64_t wall)
{
    return wall == 0 ? BI_NEVER : mono_of(core, wall);
}

static bool fill_more(struct core *core, struct job *job, const struct wish *wish)
{
    const struct bi_image *image = &wish->image;
    struct more *more = bi_job_more(core, job);
    if (more == NULL || !copy_text(core, &more->key, wish->key) ||
        !copy_text(core, &more->last_error, wish->last_error) || !take_result(core, more, wish))
        return false;
    more->max_retries = image->max_retries;
    more->failures = image->failures;
    more->backoff_base = image->backoff_base;
    more->backoff_max = image->backoff_max;
    more->expires_at = image->expires_at;
    more->retain = image->retain;
    more->order = image->bury_order;
    more->counters =
        (struct counters){image->reserves, image->timeouts, image->releases, image->fails,
                          image->buries,   image->kicks,    image->touches};
    more->ready = time_of(core, image->ready);
    /* In a life without a restore a job was ready before it was reserved, never after. */
    if (image->state == BIDE_STATE_READY && image->ready > image->reserved)
        job->flags |= JOB_READY_BEFORE;
    more->reserved = time_of(core, image->reserved);
    more->touched = time_of(core, image->touched);
    more->buried = time_of(core, image->buried);
    more->done = time_of(core, image->done);
    return true;
}

/*
 * Says the wish nothing that struct more would have to keep? A restored or stored job that has been
 * ready since it was made, and was never touched, is as small as one that was put.
 */
static bool is_lean(const struct wish *wish)
{
    const struct bi_image *image = &wish->image;
    bool ready = image->state == BIDE_STATE_READY;
    if ((!ready && image->state != BIDE_STATE_DELAYED) || wish->key.data != NULL ||
        wish->last_error.data != NULL || wish->result.data != NULL || wish->result_buf != NULL ||
        image->max_retries != BIDE_NO_RETRY_LIMIT || image->started || image->cancel_wanted)
        return false;
    if (image->ready != 0 && (!ready || image->ready < 0 || image->ready != image->created))
        return false;
    uint32_t counts = image->failures | image->reserves | image->timeouts | image->releases |
                      image->fails | image->buries | image->kicks | image->touches;
    int64_t times = image->backoff_base | image->backoff_max | image->expires_at | image->retain |
                    image->reserved | image->touched | image->buried | image->done;
    return counts == 0 && times == 0 && image->bury_order == 0;
}

static bool fill_body(struct core *core, struct job *job, const struct wish *wish)
{
    if (wish->without_body) {
        job->body_size = wish->image.body_size;
        return true;
    }
    job->body = wish->buf == NULL ? bide_buf_new(wish->body.data, wish->body.size)
                : wish->take_buf  ? wish->buf
                                  : bide_buf_ref(wish->buf);
    job->body_size = (uint32_t)bide_buf_size(job->body);
    core->memory += job->body_size;
    return job->body != NULL;
}

/* When a delay or retention ends on the boot-time clock. If the wall clock was set back between two
 * runs it does not last longer than it was to last when it began. */
static int64_t end_of(const struct core *core, const struct bi_image *image)
{
    int64_t due = mono_of(core, image->due);
    int64_t longest = core->now.mono + (image->due - image->since);
    return image->since != 0 && due > longest ? longest : due;
}

bide_state bi_wish_settle_due(const struct core *core, struct job *job,
                              const struct bi_image *image)
{
    if (image->state == BIDE_STATE_DONE) {
        job->due = end_of(core, image);
        return BIDE_STATE_DONE;
    }
    if (image->state != BIDE_STATE_DELAYED)
        return image->state;
    if (image->due <= core->now.wall)
        return BIDE_STATE_READY;
    if (image->due_wall)
        job->flags |= JOB_DUE_WALL;
    job->due = image->due_wall ? image->due : end_of(core, image);
    if (!image->due_wall)
        bi_job_set_delay(job, job->due - core->now.mono);
    return BIDE_STATE_DELAYED;
}

struct job *bi_wish_build(struct core *core, struct topic *topic, const struct wish *wish,
                          uint64_t id)
{
    struct job *job = bi_job_new(core, topic->self, id);
    if (job == NULL)
        return NULL;
    job->priority = wish->image.priority;
    job->ttr = wish->image.ttr;
    job->created = wish->image.created == 0 ? core->now.mono : mono_of(core, wish->image.created);
    if (wish->image.key_hold_retained)
        job->flags |= JOB_KEY_RETAINED;
    bool lean = wish->plain || is_lean(wish);
    if (lean && !wish->plain && wish->image.ready != 0)
        job->flags |= JOB_READY_BEFORE;
    if ((!lean && !fill_more(core, job, wish)) || !fill_body(core, job, wish)) {
        bi_job_free(core, job);
        return NULL;
    }
    return job;
}
