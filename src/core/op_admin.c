/* SPDX-License-Identifier: MIT */
/*
 * op_admin - ops on jobs and topics from outside: kick, purge, update, cancel, pause, topic_ref.
 *
 * kick and purge may treat any number of jobs. They run in slices: each returns BI_AGAIN after
 * SLICE jobs, and the caller may release the lock before it runs the op again. An op treats only
 * jobs that were in their state when it began, so it ends even if clients add jobs meanwhile.
 *
 * Failure    A sliced op is not atomic. Its count is exact in every case: when a commit fails, the
 *            parts that were rolled back are subtracted (bi_slice_roll_back_count).
 */
#include "core/core_internal.h"
#include "op/op_result.h"

#include <assert.h>
#include <string.h>

/* A topic that an admin op creates counts for max_memory, since the op removes no job in return.
 * NULL, with the op's error written and *code set, on failure. */
static struct topic *get_or_create_topic(struct core *core, bide_op *op, bide_slice name, int *code)
{
    struct topic *topic = bi_topic_find(core, name);
    if (topic != NULL)
        return topic;
    *code = bi_core_is_full(core, sizeof(struct topic))
                ? BIDE_EFULL
                : bi_topic_get(core, name, core->limits.max_topics, &topic);
    if (*code != BIDE_OK)
        bi_core_error_limit(core, op, *code);
    return *code == BIDE_OK ? topic : NULL;
}

/* ---- slices ---- */

/*
 * private_.step.slice of a sliced op has when it began, its topic, and how many jobs it has treated
 * in its last two batches. Parts in earlier batches are committed: an op does not begin a third
 * part before the oldest of its parts is. So two counts are enough to know, when a commit fails,
 * how many of its changes were rolled back.
 */

static int end_slices(struct core *core, bide_op *op, int code)
{
    int flags = op->private_.flags;
    op->private_.flags &=
        ~(BI_SLICING | BI_SLICING_DELAYED | BI_SLICING_KICK_SET | BI_SLICING_CHECK);
    if (core->checking == op)
        core->checking = NULL;

    /* An op that ends in its first slice has neither pinned the topic nor begun a kick set. */
    if ((flags & BI_SLICING) == 0)
        return code;

    struct topic *topic = topic_at(core, (uint32_t)op->private_.step.slice.topic);
    assert(topic->pins > 0); /* by end_slice() */
    if ((flags & BI_SLICING_KICK_SET) != 0)
        bi_topic_end_kick(core, topic, op->private_.step.slice.since);
    bi_topic_unpin(core, topic);
    return code;
}

/* Ends a slice of an op that continues later. The first slice prepares the continuation. */
static int end_slice(struct core *core, bide_op *op, struct topic *topic)
{
    assert(topic->pins > 0);
    if ((op->private_.flags & BI_SLICING) != 0)
        return BI_AGAIN;

    /* Jobs that enter a state in this microsecond, after the op began, must not match its bound. */
    int64_t bound = op->private_.step.slice.since;
    core->stamp_floor = bound + 1;

    if ((op->private_.flags & BI_SLICING_DELAYED) != 0) {
        int code = bi_topic_begin_kick(core, topic, &bound);
        if (code == BIDE_EBUSY)
            bi_core_error(op, code, "kick: %d kicks of topic %s are under way already",
                          BI_KICK_SETS_MAX, topic->name);
        else
            bi_core_error_code(op, code);
        if (code != BIDE_OK)
            return end_slices(core, op, code);
        op->private_.flags |= BI_SLICING_KICK_SET;
        op->private_.step.slice.since = bound;
    }

    /* The topic must exist when the op continues. */
    bi_topic_pin(topic);
    op->private_.step.slice.topic = topic->self;
    op->private_.flags |= BI_SLICING;
    return BI_AGAIN;
}

void bi_slice_abandon(struct core *core, bide_op *op)
{
    end_slices(core, op, BIDE_OK);
}

/* The topic of a sliced op: by name in the first slice, then by reference, because the caller's
 * name is no longer valid. NULL if there is nothing to do. */
static struct topic *topic_of_slices(struct core *core, const bide_op *op, bide_slice name)
{
    if ((op->private_.flags & BI_SLICING) != 0)
        return topic_at(core, (uint32_t)op->private_.step.slice.topic);
    return bi_topic_find(core, name);
}

/* The job that entered a state first, if it was in that state when the op began; else NULL. */
static struct job *oldest_to_treat(const struct core *core, const bide_op *op,
                                   const struct topic *topic, bide_state state)
{
    struct job *job = bi_job_list_oldest(core, &topic->lists[state]);
    return job != NULL && job->since <= op->private_.step.slice.since ? job : NULL;
}

/* Finds the batch that a change of this job goes to. False if that would begin a third uncommitted
 * part: the op must wait for a commit. */
static bool begin_part(struct core *core, bide_op *op, const struct job *job)
{
    uint64_t batch = bi_journal_next_batch(core, job);
    assert(batch >= op->private_.step.slice.batch);
    if (batch == op->private_.step.slice.batch)
        return true;
    if (op->private_.step.slice.older_batch > core->journal.committed)
        return false;

    op->private_.step.slice.older_batch = op->private_.step.slice.batch;
    op->private_.step.slice.older_count = op->private_.step.slice.count;
    op->private_.step.slice.batch = batch;
    op->private_.step.slice.count = 0;
    return true;
}

/* Runs one slice: changes jobs until next() returns none. topic is NULL if there is nothing to
 * do. */
static int run_slice(struct core *core, bide_op *op, struct topic *topic,
                     struct job *(*next)(struct core *, const bide_op *, const struct topic *),
                     int (*change)(struct core *, struct job *))
{
    assert(topic != NULL || (op->private_.flags & BI_SLICING) == 0);
    if ((op->private_.flags & BI_SLICING) == 0) {
        memset(&op->private_.step.slice, 0, sizeof(op->private_.step.slice));
        op->private_.step.slice.since = bi_core_stamp(core);
        *bi_op_result_count(op) = 0;
        if (topic == NULL)
            return BIDE_OK;
    }

    /* Removing its last job would destroy the topic in the middle of the slice. */
    bi_topic_pin(topic);
    int code = BIDE_OK;
    struct job *job;
    for (int i = 0; code == BIDE_OK && (job = next(core, op, topic)) != NULL; i++) {
        if (i == SLICE || !begin_part(core, op, job)) {
            code = BI_AGAIN;
            break;
        }

        core->work++;
        code = change(core, job);
        if (code == BIDE_OK) {
            op->private_.step.slice.count++;
            ++*bi_op_result_count(op);
        }
    }

    /* Finding no more jobs may be due to uncommitted removals. */
    if (code == BIDE_OK)
        bi_journal_depend_on_topic(core, topic);
    code = code == BI_AGAIN ? end_slice(core, op, topic)
                            : end_slices(core, op, bi_core_error_code(op, code));
    bi_topic_unpin(core, topic);
    return code;
}

bool bi_slice_needs_commit(const struct core *core, const bide_op *op)
{
    /* The next job would go to a third batch while the older part is uncommitted. */
    return bi_op_is(op, OP_COUNTS) &&
           op->private_.step.slice.older_batch > core->journal.committed &&
           bi_journal_next_batch(core, NULL) != op->private_.step.slice.batch;
}

void bi_slice_roll_back_count(const struct core *core, bide_op *op)
{
    if (!bi_op_is(op, OP_COUNTS))
        return;
    assert(*bi_op_result_count(op) >=
           op->private_.step.slice.count + op->private_.step.slice.older_count);

    if (op->private_.step.slice.batch > core->journal.committed)
        *bi_op_result_count(op) -= op->private_.step.slice.count;
    if (op->private_.step.slice.older_batch > core->journal.committed)
        *bi_op_result_count(op) -= op->private_.step.slice.older_count;

    /* The parts are settled: a second failure must not subtract them again. */
    op->private_.step.slice.batch = op->private_.step.slice.older_batch = 0;
}

/* ---- kick ---- */

static int kick(struct core *core, struct job *job)
{
    struct job_ext *ext = bi_job_ensure_ext(core, job);
    /* On failure an empty ext may stay, which means the same as none. */
    if (ext == NULL || bi_journal_change(core, job) != BIDE_OK)
        return BIDE_ENOMEM;
    count_up(&ext->counters.kicks);
    ext->failures = 0;
    bi_lease_requeue(core, job, 0);
    COUNT(core, topic_of(core, job), kicks);
    bi_event_emit(core, BIDE_EVENT_KICKED, job);
    return BIDE_OK;
}

struct job *bi_topic_soonest_job(struct core *core, const struct topic *topic, int64_t bound)
{
    const struct due_entry *first_mono = bi_topic_soonest_due(topic, DUE_MONO, bound);
    const struct due_entry *first_wall = bi_topic_soonest_due(topic, DUE_WALL, bound);

    if (first_mono == NULL || first_wall == NULL) {
        const struct due_entry *only = first_mono != NULL ? first_mono : first_wall;
        return only == NULL ? NULL : job_at(core, only->job);
    }

    /* Compare the time left: the clocks have different origins. */
    struct due_entry mono = *first_mono;
    struct due_entry wall = *first_wall;
    mono.due -= core->now.mono;
    wall.due -= core->now.wall;
    return job_at(core, bi_due_before(&wall, &mono) ? wall.job : mono.job);
}

static struct job *next_to_kick(struct core *core, const bide_op *op, const struct topic *topic)
{
    if (op->kick.count >= op->kick.max)
        return NULL;
    if ((op->private_.flags & BI_SLICING_DELAYED) == 0)
        return oldest_to_treat(core, op, topic, BIDE_STATE_BURIED);

    bool in_kick_set = (op->private_.flags & BI_SLICING_KICK_SET) != 0;
    return bi_topic_soonest_job(core, topic,
                                in_kick_set ? op->private_.step.slice.since : BI_NEVER);
}

int bi_exec_kick(struct core *core, bide_op *op)
{
    struct topic *topic = topic_of_slices(core, op, op->kick.topic);

    /* The kind is chosen once: delayed jobs are kicked only if no job was buried at the start. */
    if ((op->private_.flags & BI_SLICING) == 0 && topic != NULL && !op->kick.buried_only &&
        topic->lists[BIDE_STATE_BURIED].count == 0)
        op->private_.flags |= BI_SLICING_DELAYED;
    return run_slice(core, op, topic, next_to_kick, kick);
}

int bi_exec_kick_job(struct core *core, bide_op *op)
{
    struct job *job = bi_job_find(core, op->lease.id);
    if (job == NULL)
        return bi_core_error_no_job(op, op->lease.id);
    if (job->state == BIDE_STATE_RESERVED)
        return bi_core_error_reserved(op, job);
    if (job->state != BIDE_STATE_BURIED && job->state != BIDE_STATE_DELAYED)
        return bi_core_error_wrong_state(op, job);
    return bi_core_error_code(op, kick(core, job));
}

/* ---- cancel and purge ---- */

int bi_exec_cancel(struct core *core, bide_op *op)
{
    struct job *job = bi_job_find(core, op->lease.id);
    if (job == NULL)
        return bi_core_error_no_job(op, op->lease.id);

    if (bi_journal_change(core, job) != BIDE_OK)
        return bi_core_error_code(op, BIDE_ENOMEM);
    if (job->state == BIDE_STATE_RESERVED) {
        /* The worker learns it from its next touch. The job is removed when it would be
         * requeued. */
        job->flags |= JOB_CANCEL_WANTED;
        bi_event_emit(core, BIDE_EVENT_CANCEL_WANTED, job);
        return BIDE_OK;
    }

    return bi_op_finish_remove_counted(core, job);
}

static struct job *next_to_purge(struct core *core, const bide_op *op, const struct topic *topic)
{
    return oldest_to_treat(core, op, topic, op->purge.state);
}

static int purge(struct core *core, struct job *job)
{
    if (bi_journal_change(core, job) != BIDE_OK)
        return BIDE_ENOMEM;
    COUNT(core, topic_of(core, job), purged);
    return bi_op_finish_remove(core, job, BIDE_EVENT_DELETED);
}

int bi_exec_purge(struct core *core, bide_op *op)
{
    return run_slice(core, op, topic_of_slices(core, op, op->purge.topic), next_to_purge, purge);
}

/* ---- update ---- */

static int check_update(bide_op *op, const struct job *job)
{
    const bide_update_args *args = &op->update;
    if (job->state == BIDE_STATE_RESERVED)
        return bi_core_error_reserved(op, job);
    bool due = args->delay_ms != BIDE_KEEP || args->run_at_ms != BIDE_KEEP;
    if (due && job->state != BIDE_STATE_READY && job->state != BIDE_STATE_DELAYED)
        return bi_core_error_wrong_state(op, job);
    return BIDE_OK;
}

/* Finds the topic that the job moves to, created if needed; NULL if it stays in its topic. */
static int find_target(struct core *core, bide_op *op, const struct job *job, struct topic **target)
{
    bide_slice name = op->update.topic;
    const struct job_ext *ext = ext_of(core, job);
    *target = NULL;
    if (name.size == 0)
        return BIDE_OK;

    struct topic *topic = bi_topic_find(core, name);
    if (topic != NULL && topic->self == job->topic)
        return BIDE_OK;

    if (topic != NULL && ext != NULL && (job->flags & JOB_KEYED) != 0) {
        const struct job *holder = bi_job_find_by_key(core, topic, bi_buf_slice(ext->key));
        if (holder != NULL) {
            /* The holder itself may not be committed yet. */
            bi_journal_depend_on(core, holder->id);
            return bi_core_error(op, BIDE_EXISTS, "update: job %llu of topic %s holds this key",
                                 (unsigned long long)holder->id, topic->name);
        }
    }

    uint64_t max = topic == NULL ? 0 : bi_topic_max_jobs(core, topic);
    if (max != 0 && job->state != BIDE_STATE_DONE && bi_topic_live_count(topic) >= max)
        return bi_core_error_topic_full(core, op, topic, bi_topic_live_count(topic));

    int code = BIDE_OK;
    *target = get_or_create_topic(core, op, name, &code);
    return code;
}

/* Sets the due time and returns the state that the job is to have. */
static bide_state set_due(const struct core *core, struct job *job, const bide_update_args *args)
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

static void apply_update(struct core *core, struct job *job, const bide_update_args *args,
                         struct topic *target)
{
    assert(job->state != BIDE_STATE_RESERVED && job->state != BIDE_STATE_GONE);
    /* In place if the new due time leaves the job in its state, and so in its place in the list. */
    struct job trial = *job;
    bool in_place = target == NULL && set_due(core, &trial, args) == (bide_state)job->state;

    /* In place, the job only leaves the heap: it keeps its age and its place in the list. */
    if (in_place)
        bi_job_heap_remove(core, job);
    else
        bi_job_leave(core, job);

    if (target != NULL)
        bi_job_move(core, job, target->self);
    if (args->priority != BIDE_KEEP)
        job->priority = (uint32_t)args->priority;
    if (args->ttr_ms != BIDE_KEEP)
        job->ttr = args->ttr_ms == 0 ? core->limits.default_ttr : us_of(args->ttr_ms);

    bide_state state = set_due(core, job, args);
    if (in_place)
        bi_job_heap_insert(core, job);
    else
        bi_job_enter(core, job, state);

    bi_event_emit(core, BIDE_EVENT_UPDATED, job);
    if (state == BIDE_STATE_DONE && target != NULL)
        bi_op_finish_retire_excess(core, target, BI_RETIRE_STEP);
}

int bi_exec_update(struct core *core, bide_op *op)
{
    struct job *job = bi_job_find(core, op->update.id);
    if (job == NULL)
        return bi_core_error_no_job(op, op->update.id);

    int code = check_update(op, job);
    if (code != BIDE_OK)
        return code;

    struct topic *target;
    /* A topic created for the move must not outlive a failure. */
    bool made = op->update.topic.size > 0 && bi_topic_find(core, op->update.topic) == NULL;
    code = find_target(core, op, job, &target);
    if (code != BIDE_OK)
        return code;

    /* Everything that can fail, before the job changes. */
    if ((target != NULL && !bi_topic_reserve(core, target, 1)) ||
        bi_journal_change(core, job) != BIDE_OK) {
        if (target != NULL && made)
            bi_topic_destroy(core, target);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    apply_update(core, job, &op->update, target);
    return BIDE_OK;
}

/* ---- topics ---- */

int bi_exec_pause(struct core *core, bide_op *op)
{
    bool existed = bi_topic_find(core, op->topic.topic) != NULL;
    int code;
    struct topic *topic = get_or_create_topic(core, op, op->topic.topic, &code);
    if (topic == NULL)
        return code;

    if (bi_journal_change_topic(core, topic) != BIDE_OK) {
        /* Even without topic_cleanup: a failed op leaves no topic behind. */
        if (!existed)
            bi_topic_destroy(core, topic);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    COUNT(core, topic, pauses);
    int64_t for_ms = op->topic.for_ms;
    bi_topic_set_pause(core, topic,
                       for_ms == BIDE_FOREVER ? BI_NEVER
                       : for_ms == 0          ? 0
                                              : core->now.mono + us_of(for_ms));
    bi_topic_cleanup(core, topic);
    return BIDE_OK;
}

int bi_exec_resume(struct core *core, bide_op *op)
{
    struct topic *topic = bi_topic_find(core, op->topic.topic);
    if (topic == NULL)
        return bi_core_error_no_topic(op, op->topic.topic);
    if (topic->paused_until == 0)
        return BIDE_OK;
    if (bi_journal_change_topic(core, topic) != BIDE_OK)
        return bi_core_error_code(op, BIDE_ENOMEM);
    bi_topic_set_pause(core, topic, 0);
    bi_topic_cleanup(core, topic);
    return BIDE_OK;
}

/* The settings after the changes, in a new buffer; NULL for none. BIDE_EINVAL, BIDE_ENOMEM. */
static int change_settings(struct core *core, const struct topic *topic, bide_op *op,
                           bide_buf **settings)
{
    bide_topic_policy changed;
    const bide_topic_policy *old = bi_policy_settings(topic->policy);
    *settings = NULL;
    if (old != NULL)
        changed = *old;
    else
        bi_topic_policy_clear(&changed);

    if (!bi_topic_policy_change(&changed, &op->topic_set.policy)) {
        /* An uncommitted change may have cleared the rate. */
        bi_journal_depend_on_policy(core, topic);
        return bi_core_error(op, BIDE_EINVAL,
                             "topic_set: topic %s has no rate that a period or burst applies to",
                             topic->name);
    }
    if (bi_topic_policy_is_empty(&changed))
        return BIDE_OK;
    *settings = bide_buf_new(&changed, sizeof(changed));
    return *settings == NULL ? bi_core_error_code(op, BIDE_ENOMEM) : BIDE_OK;
}

static int set_policy(struct core *core, struct topic *topic, bide_op *op)
{
    bide_buf *settings;
    if (topic->policy == NULL && bi_core_is_full(core, BI_POLICY_COST))
        return bi_core_error_limit(core, op, BIDE_EFULL);
    int code = bi_policy_prepare(core, topic);
    if (code != BIDE_OK)
        return bi_core_error_code(op, code);
    code = change_settings(core, topic, op, &settings);
    if (code != BIDE_OK)
        return code;

    code = bi_journal_change_topic(core, topic);
    if (code != BIDE_OK) {
        bide_buf_unref(settings);
        return bi_core_error_code(op, code);
    }
    bi_policy_replace(core, topic, settings);
    topic->policy_batch = bi_journal_open_batch(core);
    return BIDE_OK;
}

int bi_exec_topic_set(struct core *core, bide_op *op)
{
    bool existed = bi_topic_find(core, op->topic_set.topic) != NULL;
    int code;
    struct topic *topic = get_or_create_topic(core, op, op->topic_set.topic, &code);
    if (topic == NULL)
        return code;

    code = set_policy(core, topic, op);
    if (code != BIDE_OK && !existed)
        bi_topic_destroy(core, topic);
    else
        bi_topic_cleanup(core, topic);
    return code;
}

int bi_exec_topic_ref(struct core *core, bide_op *op)
{
    struct topic *topic = bi_topic_find(core, op->topic.topic);

    if (op->topic.delta > 0) {
        int code;
        topic = get_or_create_topic(core, op, op->topic.topic, &code);

        if (topic == NULL)
            return code;
        topic->references++;
        return BIDE_OK;
    }
    if (topic == NULL)
        return bi_core_error_no_topic(op, op->topic.topic);
    if (topic->references == 0)
        return bi_core_error(op, BIDE_EINVAL, "topic_ref: topic %s has no references left",
                             topic->name);

    topic->references--;
    bi_topic_cleanup(core, topic);
    return BIDE_OK;
}
