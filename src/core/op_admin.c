/* SPDX-License-Identifier: MIT */
/*
 * op_admin - what is done to jobs and topics from outside: kick, update, cancel, purge, pause,
 * topic_ref.
 */
#include "core/state.h"

#include <assert.h>
#include <string.h>

/* ---- slices ---- */

/*
 * What a sliced op keeps in private_.bound: which jobs existed at its start, its topic, and how many
 * jobs it has treated in its last two batches. Parts in earlier batches are stored: an op does not
 * begin a third part before the oldest one is. So the count of what is stored is known when a commit
 * fails.
 */
enum {
    BOUND_SINCE,
    BOUND_TOPIC,
    BOUND_BATCH,
    BOUND_COUNT,
    BOUND_OLDER_BATCH,
    BOUND_OLDER_COUNT,
};

/* Other ops that run in slices count nothing, and keep something else in private_.bound. */
static bool is_counting(const bide_op *op)
{
    return op->kind == BIDE_OP_KICK || op->kind == BIDE_OP_PURGE;
}

static uint64_t *count_of(bide_op *op)
{
    assert(is_counting(op));
    return op->kind == BIDE_OP_KICK ? &op->kick.count : &op->purge.count;
}

static void begin_slices(const struct core *core, bide_op *op)
{
    memset(op->private_.bound, 0, sizeof(op->private_.bound));
    op->private_.bound[BOUND_SINCE] = (uint64_t)bi_core_stamp(core);
    *count_of(op) = 0;
}

static int end_slices(struct core *core, bide_op *op, int code)
{
    int flags = op->private_.flags;
    op->private_.flags &= ~(SLICING | SLICING_DELAYED | SLICING_APART | SLICING_CHECK);
    if (core->checking == op)
        core->checking = NULL;
    if ((flags & SLICING) == 0)
        return code;
    struct topic *topic = topic_at(core, (uint32_t)op->private_.bound[BOUND_TOPIC]);
    if ((flags & SLICING_APART) != 0)
        bi_topic_end_kick(core, topic, (int64_t)op->private_.bound[BOUND_SINCE]);
    bi_topic_unpin(core, topic);
    return code;
}

/* The slice ends here, and the op goes on later. */
static int end_slice(struct core *core, bide_op *op, struct topic *topic)
{
    if ((op->private_.flags & SLICING) != 0)
        return BI_AGAIN;
    int64_t bound = (int64_t)op->private_.bound[BOUND_SINCE];
    core->stamp_floor = bound + 1;
    if ((op->private_.flags & SLICING_DELAYED) != 0) {
        int code = bi_topic_begin_kick(core, topic, &bound);
        if (code == BIDE_EBUSY)
            bi_op_refuse(op, code, "kick: %d kicks of topic %s are under way already",
                         BI_KICK_SETS_MAX, topic->name);
        else
            bi_op_answer(op, code);
        if (code != BIDE_OK)
            return end_slices(core, op, code);
        op->private_.flags |= SLICING_APART;
        op->private_.bound[BOUND_SINCE] = (uint64_t)bound;
    }
    bi_topic_pin(topic);
    op->private_.bound[BOUND_TOPIC] = topic->self;
    op->private_.flags |= SLICING;
    return BI_AGAIN;
}

void bi_core_abandon(struct core *core, bide_op *op)
{
    end_slices(core, op, BIDE_OK);
}

/* The topic of a sliced op: by its name at first, then by what was kept of it, for the name is the
 * caller's again. NULL if there is nothing to do. */
static struct topic *topic_of_slices(struct core *core, const bide_op *op, bide_slice name)
{
    if ((op->private_.flags & SLICING) != 0)
        return topic_at(core, (uint32_t)op->private_.bound[BOUND_TOPIC]);
    return bi_topic_find(core, name);
}

/* Was the job in its state when the op began? */
static bool existed(const bide_op *op, const struct job *job)
{
    return job->since <= (int64_t)op->private_.bound[BOUND_SINCE];
}

/* Counts a job that is about to be changed. False if it would begin a third part that is not
 * stored: the op must wait for a commit. */
static bool count_job(struct core *core, bide_op *op, const struct job *job)
{
    uint64_t *bound = op->private_.bound;
    uint64_t batch = bi_journal_next_batch(core, job);
    if (batch != bound[BOUND_BATCH]) {
        if (bound[BOUND_OLDER_BATCH] > core->journal.committed)
            return false;
        bound[BOUND_OLDER_BATCH] = bound[BOUND_BATCH];
        bound[BOUND_OLDER_COUNT] = bound[BOUND_COUNT];
        bound[BOUND_BATCH] = batch;
        bound[BOUND_COUNT] = 0;
    }
    bound[BOUND_COUNT]++;
    ++*count_of(op);
    return true;
}

static int uncount_job(bide_op *op, int code)
{
    op->private_.bound[BOUND_COUNT]--;
    --*count_of(op);
    return code;
}

bool bi_core_waits_for_commit(const struct core *core, const bide_op *op)
{
    const uint64_t *bound = op->private_.bound;
    return is_counting(op) && bound[BOUND_OLDER_BATCH] > core->journal.committed &&
           bi_journal_next_batch(core, NULL) != bound[BOUND_BATCH];
}

void bi_core_uncount(const struct core *core, bide_op *op)
{
    if (!is_counting(op))
        return;
    uint64_t *bound = op->private_.bound;
    if (bound[BOUND_BATCH] > core->journal.committed)
        *count_of(op) -= bound[BOUND_COUNT];
    if (bound[BOUND_OLDER_BATCH] > core->journal.committed)
        *count_of(op) -= bound[BOUND_OLDER_COUNT];
    bound[BOUND_BATCH] = bound[BOUND_OLDER_BATCH] = 0;
}

/* ---- kick ---- */

static int kick(struct core *core, struct job *job)
{
    struct more *more = bi_job_more(core, job);
    if (more == NULL || bi_journal_change(core, job) != BIDE_OK)
        return BIDE_ENOMEM;
    count_up(&more->counters.kicks);
    more->failures = 0;
    bi_core_return(core, job, 0);
    COUNT(core, topic_of(core, job), kicks);
    bi_event(core, BIDE_EVENT_KICKED, job);
    return BIDE_OK;
}

struct job *bi_core_soonest(struct core *core, const struct topic *topic, int64_t bound)
{
    const struct due_entry *first_mono = bi_topic_soonest(topic, false, bound);
    const struct due_entry *first_wall = bi_topic_soonest(topic, true, bound);
    if (first_mono == NULL || first_wall == NULL) {
        const struct due_entry *only = first_mono != NULL ? first_mono : first_wall;
        return only == NULL ? NULL : job_at(core, only->job);
    }
    struct due_entry mono = *first_mono;
    struct due_entry wall = *first_wall;
    mono.due -= core->now.mono;
    wall.due -= core->now.wall;
    return job_at(core, bi_due_before(&wall, &mono) ? wall.job : mono.job);
}

static struct job *next_to_kick(struct core *core, const bide_op *op, const struct topic *topic)
{
    if ((op->private_.flags & SLICING_DELAYED) != 0) {
        bool apart = (op->private_.flags & SLICING_APART) != 0;
        return bi_core_soonest(core, topic,
                               apart ? (int64_t)op->private_.bound[BOUND_SINCE] : BI_NEVER);
    }
    struct job *job = bi_list_oldest(core, &topic->lists[BIDE_STATE_BURIED]);
    return job != NULL && existed(op, job) ? job : NULL;
}

int bi_op_kick(struct core *core, bide_op *op)
{
    struct topic *topic = topic_of_slices(core, op, op->kick.topic);
    if ((op->private_.flags & SLICING) == 0) {
        begin_slices(core, op);
        if (topic == NULL)
            return BIDE_OK;
        if (topic->lists[BIDE_STATE_BURIED].count == 0)
            op->private_.flags |= SLICING_DELAYED;
    }
    for (int i = 0; op->kick.count < op->kick.max; i++) {
        struct job *job = next_to_kick(core, op, topic);
        if (job == NULL)
            break;
        if (i == SLICE || !count_job(core, op, job))
            return end_slice(core, op, topic);
        core->work++;
        if (kick(core, job) != BIDE_OK)
            return end_slices(core, op, uncount_job(op, bi_op_answer(op, BIDE_ENOMEM)));
    }
    bi_journal_see_none(core, topic);
    return end_slices(core, op, BIDE_OK);
}

int bi_op_kick_job(struct core *core, bide_op *op)
{
    struct job *job = bi_core_find(core, op->lease.id);
    if (job == NULL)
        return bi_op_no_job(op, op->lease.id);
    if (job->state == BIDE_STATE_RESERVED)
        return bi_op_reserved(op, job);
    if (job->state != BIDE_STATE_BURIED && job->state != BIDE_STATE_DELAYED)
        return bi_op_wrong_state(op, job);
    int code = kick(core, job);
    return code == BIDE_OK ? code : bi_op_answer(op, code);
}

/* ---- cancel and purge ---- */

int bi_op_cancel(struct core *core, bide_op *op)
{
    struct job *job = bi_core_find(core, op->lease.id);
    if (job == NULL)
        return bi_op_no_job(op, op->lease.id);
    if (bi_journal_change(core, job) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    if (job->state == BIDE_STATE_RESERVED) {
        job->flags |= JOB_CANCEL_WANTED;
        bi_event(core, BIDE_EVENT_CANCEL_WANTED, job);
        return BIDE_OK;
    }
    COUNT(core, topic_of(core, job), deletes);
    return bi_core_remove(core, job, BIDE_EVENT_DELETED);
}

/* One slice. The topic is pinned. */
static int purge_some(struct core *core, bide_op *op, struct topic *topic)
{
    for (int i = 0;; i++) {
        struct job *job = bi_list_oldest(core, &topic->lists[op->purge.state]);
        if (job == NULL || !existed(op, job))
            break;
        if (i == SLICE || !count_job(core, op, job))
            return end_slice(core, op, topic);
        if (bi_journal_change(core, job) != BIDE_OK)
            return end_slices(core, op, uncount_job(op, bi_op_answer(op, BIDE_ENOMEM)));
        core->work++;
        COUNT(core, topic, purged);
        bi_core_remove(core, job, BIDE_EVENT_DELETED);
    }
    bi_journal_see_none(core, topic);
    return end_slices(core, op, BIDE_OK);
}

int bi_op_purge(struct core *core, bide_op *op)
{
    struct topic *topic = topic_of_slices(core, op, op->purge.topic);
    if ((op->private_.flags & SLICING) == 0) {
        begin_slices(core, op);
        if (topic == NULL)
            return BIDE_OK;
    }
    bi_topic_pin(topic); /* it may lose its last job on the way */
    int code = purge_some(core, op, topic);
    bi_topic_unpin(core, topic);
    return code;
}

/* ---- update ---- */

static int check_update(bide_op *op, const struct job *job)
{
    const bide_update_args *args = &op->update;
    if (job->state == BIDE_STATE_RESERVED)
        return bi_op_reserved(op, job);
    bool due = args->delay_ms != BIDE_KEEP || args->run_at_ms != BIDE_KEEP;
    if (due && job->state != BIDE_STATE_READY && job->state != BIDE_STATE_DELAYED)
        return bi_op_wrong_state(op, job);
    return BIDE_OK;
}

/* The topic that the job is to move to, made if need be; NULL if it stays. */
static int find_target(struct core *core, bide_op *op, const struct job *job, struct topic **target)
{
    bide_slice name = op->update.topic;
    const struct more *more = more_of(core, job);
    *target = NULL;
    if (name.size == 0)
        return BIDE_OK;
    struct topic *topic = bi_topic_find(core, name);
    if (topic != NULL && topic->self == job->topic)
        return BIDE_OK;
    if (topic != NULL && more != NULL && (job->flags & JOB_KEYED) != 0) {
        bide_slice key = {bide_buf_data(more->key), bide_buf_size(more->key)};
        const struct job *holder = bi_core_find_key(core, topic, key);
        if (holder != NULL) {
            bi_journal_see(core, holder->id);
            return bi_op_refuse(op, BIDE_EXISTS, "update: job %llu of topic %s holds this key",
                                (unsigned long long)holder->id, topic->name);
        }
    }
    uint64_t max = core->limits.max_jobs_per_topic;
    if (topic != NULL && max != 0 && job->state != BIDE_STATE_DONE && bi_topic_live(topic) >= max)
        return bi_op_refuse(
            op, BIDE_TOPIC_FULL, "update: topic %s holds %llu jobs, max_jobs_per_topic is %llu",
            topic->name, (unsigned long long)bi_topic_live(topic), (unsigned long long)max);
    int code = bi_topic_get(core, name, target);
    return code == BIDE_OK ? code : bi_op_limited(core, op, code);
}

/* The state and due time that the job is to have. */
static bide_state new_due(const struct core *core, struct job *job, const bide_update_args *args)
{
    if (args->delay_ms == BIDE_KEEP && args->run_at_ms == BIDE_KEEP)
        return (bide_state)job->state;
    bool wall = args->delay_ms == BIDE_KEEP;
    int64_t due = wall ? us_of(args->run_at_ms) : core->now.mono + us_of(args->delay_ms);
    job->flags &= (uint8_t)~JOB_DUE_WALL;
    bi_job_set_delay(job, wall ? 0 : us_of(args->delay_ms));
    if (due <= (wall ? core->now.wall : core->now.mono)) {
        job->due = 0;
        return BIDE_STATE_READY;
    }
    if (wall)
        job->flags |= JOB_DUE_WALL;
    job->due = due;
    return BIDE_STATE_DELAYED;
}

/* Whether the new due time leaves the job in its state, and so in its place in the list. */
static bool keeps_state(const struct core *core, const struct job *job,
                        const bide_update_args *args)
{
    struct job trial = *job;
    return new_due(core, &trial, args) == (bide_state)job->state;
}

static void apply_update(struct core *core, struct job *job, const bide_update_args *args,
                         struct topic *target)
{
    bool in_place = target == NULL && keeps_state(core, job, args);
    if (in_place)
        bi_job_unseat(core, job);
    else
        bi_job_leave(core, job);
    if (target != NULL)
        bi_job_move(core, job, target->self);
    if (args->priority != BIDE_KEEP)
        job->priority = (uint32_t)args->priority;
    if (args->ttr_ms != BIDE_KEEP)
        job->ttr = args->ttr_ms == 0 ? core->limits.default_ttr : us_of(args->ttr_ms);
    bide_state state = new_due(core, job, args);
    if (in_place)
        bi_job_seat(core, job);
    else
        bi_job_enter(core, job, state);
    bi_event(core, BIDE_EVENT_UPDATED, job);
    if (state == BIDE_STATE_DONE && target != NULL)
        bi_core_limit_done(core, target, BI_DONE_STEP);
}

int bi_op_update(struct core *core, bide_op *op)
{
    struct job *job = bi_core_find(core, op->update.id);
    if (job == NULL)
        return bi_op_no_job(op, op->update.id);
    int code = check_update(op, job);
    if (code != BIDE_OK)
        return code;
    struct topic *target;
    bool made = op->update.topic.size > 0 && bi_topic_find(core, op->update.topic) == NULL;
    code = find_target(core, op, job, &target);
    if (code != BIDE_OK)
        return code;
    if ((target != NULL && !bi_topic_reserve(core, target)) ||
        bi_journal_change(core, job) != BIDE_OK) {
        if (target != NULL && made)
            bi_topic_unmake(core, target);
        return bi_op_answer(op, BIDE_ENOMEM);
    }
    apply_update(core, job, &op->update, target);
    return BIDE_OK;
}

/* ---- topics ---- */

static int no_topic(bide_op *op)
{
    return bi_op_refuse(op, BIDE_NOT_FOUND, "%s: there is no topic %.*s", bide_op_name(op->kind),
                        (int)op->topic.topic.size, (const char *)op->topic.topic.data);
}

/* A topic that is made from outside takes memory, and no job leaves the queue by it. NULL, with the
 * op answered and its code in *code, if it cannot be had. */
static struct topic *get_topic(struct core *core, bide_op *op, int *code)
{
    bide_slice name = op->topic.topic;
    struct topic *topic = bi_topic_find(core, name);
    if (topic != NULL)
        return topic;
    *code =
        bi_core_is_full(core, sizeof(struct topic)) ? BIDE_EFULL : bi_topic_get(core, name, &topic);
    if (*code != BIDE_OK)
        bi_op_limited(core, op, *code);
    return *code == BIDE_OK ? topic : NULL;
}

static void set_pause(struct core *core, struct topic *topic, int64_t until)
{
    bi_topic_pause(core, topic, until);
    bi_topic_cleanup(core, topic);
}

int bi_op_pause(struct core *core, bide_op *op)
{
    bool existed = bi_topic_find(core, op->topic.topic) != NULL;
    int code;
    struct topic *topic = get_topic(core, op, &code);
    if (topic == NULL)
        return code;
    if (bi_journal_pause(core, topic) != BIDE_OK) {
        if (!existed)
            bi_topic_unmake(core, topic);
        return bi_op_answer(op, BIDE_ENOMEM);
    }
    COUNT(core, topic, pauses);
    int64_t for_ms = op->topic.for_ms;
    set_pause(core, topic,
              for_ms == BIDE_FOREVER ? BI_NEVER
              : for_ms == 0          ? 0
                                     : core->now.mono + us_of(for_ms));
    return BIDE_OK;
}

int bi_op_resume(struct core *core, bide_op *op)
{
    struct topic *topic = bi_topic_find(core, op->topic.topic);
    if (topic == NULL)
        return no_topic(op);
    if (topic->paused_until == 0)
        return BIDE_OK;
    if (bi_journal_pause(core, topic) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    set_pause(core, topic, 0);
    return BIDE_OK;
}

int bi_op_topic_ref(struct core *core, bide_op *op)
{
    struct topic *topic = bi_topic_find(core, op->topic.topic);
    if (op->topic.delta > 0) {
        int code;
        topic = get_topic(core, op, &code);
        if (topic == NULL)
            return code;
        topic->references++;
        return BIDE_OK;
    }
    if (topic == NULL)
        return no_topic(op);
    if (topic->references == 0)
        return bi_op_refuse(op, BIDE_EINVAL, "topic_ref: topic %s has no references left",
                            topic->name);
    topic->references--;
    bi_topic_cleanup(core, topic);
    return BIDE_OK;
}
