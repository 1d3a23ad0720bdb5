/* SPDX-License-Identifier: MIT */
/*
 * load - inserts stored jobs, pauses and policies into a new core.
 *
 * The caller reads rows in order of their ids, in slices, while ops already run. So a loaded job
 * must fit between jobs of this run; load_sort.c restores the order of the lists at the end.
 *
 * Ordering   A state entered in an earlier run precedes those entered in this run: its time is
 *            clamped to the start, and bury orders and tokens are below first_order.
 * Failure    An image that fails a check is rejected with BIDE_EINVAL, and one for which there is
 *            no memory with BIDE_ENOMEM; the core is then unchanged.
 */
#include "core/core_internal.h"
#include "op/op_table.h"

#include <assert.h>
#include <string.h>

#define TIME_RETRIES(value)
#define TIME_COUNT(value)
#define TIME_HISTORY(value)
#define TIME_DURATION(value)  value,
#define TIME_TIMESTAMP(value) value,
#define TIME(kind, name)      TIME_##kind(image->name)

/* Rejects times and durations with which arithmetic could overflow. */
static bool times_are_valid(const struct bi_image *image)
{
    const int64_t times[] = {
        BI_JOB_EXT(TIME) BI_JOB_TIMES(TIME) image->ttr,
        image->due,
        image->created,
        image->since,
        image->lease,
    };

    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] < 0 || times[i] > 2 * us_of(BIDE_TIMESTAMP_MAX_MS))
            return false;
    return true;
}

static bool is_valid(const struct core *core, const struct bi_image *image)
{
    bide_slice topic = {image->topic, strnlen(image->topic, sizeof(image->topic))};

    /* A reserved job is stored as ready; only a lease that outlives the process has a token. A
     * buried or done job has an ext, on which its list and its timer depend. */
    return image->id > 0 && image->id <= BIDE_ID_MAX && bi_topic_name_valid(topic) &&
           image->state >= BIDE_STATE_DELAYED && image->state <= BIDE_STATE_DONE &&
           image->state != BIDE_STATE_RESERVED &&
           (!image->plain || image->state == BIDE_STATE_READY ||
            image->state == BIDE_STATE_DELAYED) &&
           image->ttr > 0 && image->created > 0 && times_are_valid(image) &&
           image->bury_order < core->first_order &&
           (image->token == 0 ||
            (image->token < core->first_order && image->state == BIDE_STATE_READY)) &&
           bi_job_lookup(core, image->id) == NULL;
}

/* A job was reserved when the process ended and its lease is not valid any more: counts a
 * timeout and a failure, or completes a requested cancellation. The caller has journalled the
 * change. */
static void resolve_unfinished(struct core *core, struct job *job, const struct bi_image *image,
                               bide_buf *reason)
{
    assert(job->state == BIDE_STATE_RESERVED);
    if (image->cancel_wanted) {
        bi_op_finish_remove_counted(core, job);
        return;
    }

    struct job_ext *ext = ext_of(core, job);
    bi_job_ext_set_text(core, &ext->last_error, bide_buf_ref(reason));
    bi_retry_record(core, ext, BIDE_FAILURE_RESTARTED, bi_buf_slice(reason));
    count_up(&ext->counters.timeouts);
    count_up(&ext->failures);
    COUNT(core, topic_of(core, job), timeouts);
    bi_retry_or_bury(core, job, -1, BIDE_EVENT_TIMED_OUT);
}

/* Enters the state of a loaded job: reserved if it has a valid lease or is unfinished. */
static void enter_loaded(struct core *core, struct job *job, const struct bi_image *image,
                         bool leased, bool unfinished)
{
    assert(!leased || !unfinished);
    bide_state state = BIDE_STATE_RESERVED;

    if (leased) {
        /* With the time that was left at the stop: the downtime and the time until this job was
         * loaded do not count. */
        ext_of(core, job)->token = bi_token_of(&core->tokens, image->token);
        job->due = core->now.mono + image->lease;
    } else if (unfinished) {
        /* As a lease that has expired, which resolve_unfinished() ends at once. If that cannot be
         * committed, the rollback restores the expired lease, and its timer ends it again. Without
         * the lease the job would be ready, and its failure forgotten. */
        bi_journal_reserve_token(core, core->next_token);
        ext_of(core, job)->token = bi_token_of(&core->tokens, core->next_token++);
        job->due = core->now.mono;
    } else {
        state = bi_job_spec_set_due(core, job, image);
    }
    if (state == BIDE_STATE_RESERVED && image->started)
        job->flags |= JOB_STARTED;

    bool same = (state == image->state || leased) && image->since != 0;
    if (same) {
        /* The state was entered in an earlier run. Clamp since, because the wall clock may have
         * been set back: the job must precede those of this run. */
        int64_t since = mono_of(core, image->since);
        job->since = since > core->start_time ? core->start_time : since;
    } else {
        bool due = image->state == BIDE_STATE_DELAYED; /* became ready before it was loaded */
        job->since = due ? mono_of(core, image->due) : core->now.mono;
    }

    bi_job_enter_loaded(core, job, state);
}

static int load_job(struct core *core, struct topic *topic, const struct job_spec *spec,
                    bide_buf *reason)
{
    const struct bi_image *image = &spec->image;
    /* A lease is valid if the job was reserved at an orderly stop and its holder outlives the
     * process. After a crash no earlier lease is. */
    bool leased = image->token != 0 && image->token >= core->lease_from;
    bool unfinished = !leased && (image->cancel_wanted || image->started);

    bool keyed =
        image->key != NULL && (image->state != BIDE_STATE_DONE || image->key_hold_retained);
    if (keyed && bi_job_find_by_key(core, topic, bi_buf_slice(image->key)) != NULL)
        return BIDE_EINVAL;

    struct job *job = bi_job_spec_build(core, topic, spec, image->id);
    if (job == NULL)
        return BIDE_ENOMEM;

    if (image->cancel_wanted)
        job->flags |= JOB_CANCEL_WANTED;
    if ((leased || unfinished) && bi_job_ensure_ext(core, job) == NULL) {
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }

    /* The journal saves the state of the job, so it must have entered one. */
    enter_loaded(core, job, image, leased, unfinished);
    if (unfinished && bi_journal_change(core, job) != BIDE_OK) {
        bi_job_unlink(core, job);
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }

    if (image->id >= core->next_id)
        core->next_id = image->id + 1;
    bi_body_cache_add(core, job);
    if (unfinished)
        resolve_unfinished(core, job, image, reason);
    return BIDE_OK;
}

bool bi_job_exists(const struct core *core, uint64_t id)
{
    return bi_job_lookup(core, id) != NULL;
}

int bi_load_job(struct core *core, const struct bi_image *image, struct bi_now now)
{
    core->now = now;
    core->hold = 0;
    if (!is_valid(core, image))
        return BIDE_EINVAL;

    /* The bodies loaded first are wanted first: they are cached while there is room, and loading
     * evicts none. */
    bool fits = core->limits.cache_bytes == 0 || !core->journal.on ||
                bi_body_cache_has_room(core, image->body_size);
    struct job_spec spec = {.topic = {image->topic, strlen(image->topic)},
                            .plain = image->plain,
                            .image = *image,
                            .buf = image->body,
                            .body_in_store = image->body_size > 0 && (image->body == NULL || !fits),
                            .key = bi_buf_slice(image->key),
                            .last_error = bi_buf_slice(image->last_error),
                            .result = bi_buf_slice(image->result),
                            .history = bi_buf_slice(image->history)};

    /* Allocate the text now: resolving an unfinished job must not fail. */
    bide_buf *reason =
        image->started
            ? bi_retry_reason(core, BI_SLICE("the queue was restarted while the job was reserved"))
            : NULL;
    if (image->started && reason == NULL)
        return BIDE_ENOMEM;

    struct topic *topic;
    int code = bi_topic_get(core, spec.topic, UINT64_MAX, &topic);
    if (code == BIDE_OK) {
        /* A failed load, or the removal of a cancelled job, would destroy a new topic. */
        bi_topic_pin(topic);
        code = load_job(core, topic, &spec, reason);
        bi_topic_unpin(core, topic);
    }

    bide_buf_unref(reason);
    if (code == BIDE_OK && core->unloaded > 0)
        core->unloaded--;
    return code;
}

void bi_load_expect(struct core *core, uint64_t jobs)
{
    assert(core->recovering || jobs == 0);
    core->unloaded = jobs;
}

bool bi_load_may_fill_memory(const struct core *core, uint64_t jobs)
{
    uint64_t max = core->limits.max_memory;
    return max != 0 && (jobs > max / UNLOADED_COST ||
                        core->memory + bi_core_headroom(core) + jobs * UNLOADED_COST > max / 2);
}

static int load_policy(struct core *core, struct topic *topic, bide_buf *settings)
{
    int code = bi_policy_prepare(core, topic);
    if (code == BIDE_OK)
        bi_policy_replace(core, topic, bide_buf_ref(settings));
    return code;
}

int bi_load_topic(struct core *core, const struct bi_image *image, struct bi_now now)
{
    core->now = now;
    bide_slice name = {image->topic, strnlen(image->topic, sizeof(image->topic))};
    const bide_topic_policy *settings = bide_buf_data(image->body);
    bool paused = image->due == BI_NEVER || image->due > now.wall; /* else it has ended meanwhile */

    if (!bi_topic_name_valid(name) ||
        (settings != NULL &&
         (bide_buf_size(image->body) != sizeof(*settings) || !bi_topic_policy_is_valid(settings))))
        return BIDE_EINVAL;
    if (!paused && settings == NULL)
        return BIDE_OK;

    struct topic *topic;
    if (bi_topic_get(core, name, UINT64_MAX, &topic) != BIDE_OK)
        return BIDE_ENOMEM;
    if (paused)
        bi_topic_set_pause(core, topic,
                           image->due == BI_NEVER ? BI_NEVER : mono_of(core, image->due));

    int code = settings == NULL ? BIDE_OK : load_policy(core, topic, image->body);
    bi_topic_cleanup(core, topic);
    return code;
}
