/* SPDX-License-Identifier: MIT */
/*
 * load - what was stored comes back at start.
 */
#include "core/wish.h"

#include <assert.h>

static bide_slice slice_of_buf(const bide_buf *buf)
{
    return (bide_slice){bide_buf_data(buf), bide_buf_size(buf)};
}

/* Moments and durations with which one can calculate. */
static bool are_sane(const struct bi_image *image)
{
    const int64_t times[] = {
        image->ttr,      image->due,          image->created,     image->since, image->ready,
        image->reserved, image->touched,      image->buried,      image->done,  image->expires_at,
        image->retain,   image->backoff_base, image->backoff_max, image->lease};
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        if (times[i] < 0 || times[i] > 2 * us_of(BIDE_WHEN_MAX_MS))
            return false;
    return true;
}

static bool is_possible(const struct core *core, const struct bi_image *image)
{
    bide_slice topic = {image->topic, strnlen(image->topic, sizeof(image->topic))};
    return image->id > 0 && image->id <= BIDE_ID_MAX && bi_is_topic(topic) &&
           image->state >= BIDE_STATE_DELAYED && image->state <= BIDE_STATE_DONE &&
           image->state != BIDE_STATE_RESERVED && image->ttr > 0 && image->created > 0 &&
           are_sane(image) && image->bury_order < core->first_order &&
           (image->token == 0 ||
            (image->token < core->first_order && image->state == BIDE_STATE_READY)) &&
           bi_core_lookup(core, image->id) == NULL;
}

/* A key that another job holds, too. */
static bool is_doubled(const struct core *core, const struct topic *topic,
                       const struct bi_image *image)
{
    bool held = image->state != BIDE_STATE_DONE || image->key_hold_retained;
    return held && image->key != NULL &&
           bi_core_find_key(core, topic, slice_of_buf(image->key)) != NULL;
}

/* What a job that was being worked on when the process ended has to bear. */
static void settle_loaded(struct core *core, struct job *job, const struct bi_image *image,
                          bide_buf *reason)
{
    struct topic *topic = topic_of(core, job);
    if (image->cancel_wanted) {
        COUNT(core, topic, deletes);
        bi_core_remove(core, job, BIDE_EVENT_DELETED);
        return;
    }
    struct more *more = more_of(core, job);
    bi_more_set_text(core, &more->last_error, bide_buf_ref(reason));
    count_up(&more->counters.timeouts);
    count_up(&more->failures);
    COUNT(core, topic, timeouts);
    bi_core_retry(core, job, -1, BIDE_EVENT_TIMED_OUT);
}

/* Was the job reserved at an orderly stop, by a holder that is still there? After a crash no
 * earlier lease is good. */
static bool has_lease(const struct core *core, const struct bi_image *image)
{
    return image->token != 0 && image->token >= core->lease_from;
}

/* The time during which the queue was down, and this job was not loaded, does not count. */
static bide_state settle_lease(struct core *core, struct job *job, const struct bi_image *image)
{
    more_of(core, job)->token = bi_token_of(&core->tokens, image->token);
    job->due = core->now.mono + image->lease;
    if (image->started)
        job->flags |= JOB_STARTED;
    return BIDE_STATE_RESERVED;
}

static void enter_loaded(struct core *core, struct job *job, const struct bi_image *image)
{
    bool leased = has_lease(core, image);
    bide_state state =
        leased ? settle_lease(core, job, image) : bi_wish_settle_due(core, job, image);
    bool same = (state == image->state || leased) && image->since != 0;
    if (same) {
        /* A state that it came into in an earlier life began before this one. */
        int64_t since = mono_of(core, image->since);
        job->since = since > core->born ? core->born : since;
    } else {
        bool due = image->state == BIDE_STATE_DELAYED; /* its delay is over, perhaps since long */
        job->since = due ? mono_of(core, image->due) : core->now.mono;
    }
    bi_job_enter_loaded(core, job, state);
}

static int load_job(struct core *core, struct topic *topic, const struct wish *wish,
                    bide_buf *reason)
{
    const struct bi_image *image = &wish->image;
    bool leased = has_lease(core, image);
    bool unsettled = !leased && (image->cancel_wanted || image->started);
    if (is_doubled(core, topic, image))
        return BIDE_EINVAL;
    struct job *job = bi_wish_build(core, topic, wish, image->id);
    if (job == NULL)
        return BIDE_ENOMEM;
    if (image->cancel_wanted)
        job->flags |=
            JOB_CANCEL_WANTED; /* it goes; if that cannot be stored, it is not handed out */
    if ((leased || unsettled) && bi_job_more(core, job) == NULL) {
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }
    enter_loaded(core, job, image);
    if (unsettled && bi_journal_change(core, job) != BIDE_OK) {
        bi_job_vanish(core, job);
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }
    if (image->id >= core->next_id)
        core->next_id = image->id + 1;
    bi_cache_add(core, job);
    if (unsettled)
        settle_loaded(core, job, image, reason);
    return BIDE_OK;
}

/* What is loaded first is wanted first: it stays until there is no room, and nothing goes for it. */
static bool has_room(const struct core *core, const struct bi_image *image)
{
    return core->limits.cache_bytes == 0 || !core->journal.on ||
           bi_cache_has_room(core, image->body_size);
}

bool bi_core_has(const struct core *core, uint64_t id)
{
    return bi_core_lookup(core, id) != NULL;
}

int bi_core_load(struct core *core, const struct bi_image *image, struct bi_now now)
{
    core->now = now;
    core->hold = 0;
    if (!is_possible(core, image))
        return BIDE_EINVAL;
    struct wish wish = {.topic = {image->topic, strlen(image->topic)},
                        .plain = image->plain,
                        .image = *image,
                        .buf = image->body,
                        .without_body =
                            image->body_size > 0 && (image->body == NULL || !has_room(core, image)),
                        .key = slice_of_buf(image->key),
                        .last_error = slice_of_buf(image->last_error),
                        .result = slice_of_buf(image->result)};
    static const char text[] = "the queue was restarted while the job was reserved";
    bide_buf *reason = image->started ? bide_buf_new(text, sizeof(text) - 1) : NULL;
    if (image->started && reason == NULL)
        return BIDE_ENOMEM;
    struct topic *topic;
    int code = bi_topic_need(core, wish.topic, &topic);
    if (code == BIDE_OK) {
        bi_topic_pin(topic);
        code = load_job(core, topic, &wish, reason);
        bi_topic_unpin(core, topic);
    }
    bide_buf_unref(reason);
    if (code == BIDE_OK && core->unloaded > 0)
        core->unloaded--;
    return code;
}

void bi_core_expect(struct core *core, uint64_t jobs)
{
    assert(core->recovering || jobs == 0);
    core->unloaded = jobs;
}

int bi_core_load_pause(struct core *core, const struct bi_image *image, struct bi_now now)
{
    core->now = now;
    bide_slice name = {image->topic, strnlen(image->topic, sizeof(image->topic))};
    if (!bi_is_topic(name))
        return BIDE_EINVAL;
    if (image->due != BI_NEVER && image->due <= now.wall)
        return BIDE_OK;
    struct topic *topic;
    if (bi_topic_need(core, name, &topic) != BIDE_OK)
        return BIDE_ENOMEM;
    bi_topic_pause(core, topic, image->due == BI_NEVER ? BI_NEVER : mono_of(core, image->due));
    return BIDE_OK;
}
