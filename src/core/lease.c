/* SPDX-License-Identifier: MIT */
/*
 * lease - the reservation of a job: granted, started, extended within the limits of touches, ended,
 * undone, expired, kept over a stop.
 *
 * With a journal a job is reserved without a running lease (reply_pending), until the reply of its
 * reserve is sent. A reservation whose op fails before that is abandoned and undone: the job
 * returns to its previous state and place, and nothing is counted.
 *
 * Ordering   A lease starts with the reply, not with the reservation: a slow commit or a slow read
 *            of a body must not use up the ttr.
 * Failure    Only a grant reports that memory is lacking. An expiry or an undo that cannot be
 *            journalled is repeated by the timer of the lease.
 */
#include "core/core_internal.h"
#include "op/op_result.h"

#include <assert.h>
#include <string.h>

/* ---- granting and starting ---- */

bool bi_lease_name_holder(struct core *core, bide_slice name, bide_buf **holder)
{
    const bide_buf *recent = core->recent_holder;
    *holder = NULL;
    if (name.size == 0)
        return true;

    /* A worker reserves again and again: its leases share one buffer. */
    if (bide_buf_size(recent) != name.size ||
        memcmp(bide_buf_data(recent), name.data, name.size) != 0) {
        bide_buf *made = bide_buf_new(name.data, name.size);
        if (made == NULL)
            return false;
        bide_buf_unref(core->recent_holder);
        core->recent_holder = made;
    }
    *holder = core->recent_holder;
    return true;
}

int bi_lease_grant(struct core *core, struct job *job, bide_buf *holder)
{
    assert(job->state == BIDE_STATE_READY || job->state == BIDE_STATE_DELAYED ||
           job->state == BIDE_STATE_BURIED);

    struct job_ext *ext = bi_job_ensure_ext(core, job);
    if (ext == NULL)
        return BIDE_ENOMEM;

    bool limited = ext->max_retries != BIDE_NO_RETRY_LIMIT;
    /* A ready job without a retry limit would be ready again after a crash: its reservation is
     * not stored. The exception is a job that expires: a reserved one no longer does. */
    bool expires = ext->expires_at != 0 && ext->counters.reserves == 0;
    bool written = limited || expires || job->state != BIDE_STATE_READY;

    if (written && bi_journal_change(core, job) != BIDE_OK)
        return BIDE_ENOMEM;

    struct topic *topic = topic_of(core, job);
    if (core->journal.on) {
        bi_journal_depend_on(core, job->id);
        bi_journal_depend_on_limits(core, topic);
        bi_journal_reserve_token(core, core->next_token);
    }

    /* What is needed to undo the reservation, if the op fails before its reply. */
    if (job->state == BIDE_STATE_READY)
        ext->ready = bi_job_ready_since(core, job);
    ext->reply_pending = core->journal.on;
    ext->abandoned = false;
    ext->prev_state = job->state;
    ext->prev_flags = job->flags & (JOB_READY_BEFORE | JOB_DUE_WALL);
    job->flags &= (uint8_t)~JOB_READY_BEFORE;

    bi_job_leave(core, job);
    job->flags &= (uint8_t) ~(JOB_DUE_WALL | JOB_STARTED | JOB_CANCEL_WANTED);
    if (limited)
        job->flags |= JOB_STARTED;

    ext->token = bi_token_of(&core->tokens, core->next_token++);
    assert(ext->holder == NULL);
    if (holder != NULL) {
        ext->holder = bide_buf_ref(holder);
        core->memory += bide_buf_size(holder);
    }
    count_up(&ext->counters.reserves);
    ext->lease_touches = 0;

    int64_t since = job->since;
    if (!ext->reply_pending)
        bi_lease_set_times(core, job, ext);

    /* Until the lease starts, since keeps the time of the previous state: an undo needs it. The
     * list of reserved jobs is in the order of tokens, so it does not depend on since. */
    bi_job_enter(core, job, BIDE_STATE_RESERVED);
    if (ext->reply_pending)
        job->since = since;
    if (topic->policy != NULL)
        bi_policy_take_token(core, topic);

    COUNT(core, topic, reserves);
    bi_event_emit(core, BIDE_EVENT_RESERVED, job);
    return BIDE_OK;
}

struct job *bi_lease_find_job(const struct core *core, const bide_job *snapshot)
{
    struct job *job = bi_job_lookup(core, snapshot->id);
    bool held = job != NULL && job->state == BIDE_STATE_RESERVED &&
                ext_of(core, job)->token == snapshot->token;
    return held ? job : NULL;
}

/* Starts the lease of one job of a reply, and updates its snapshot. */
static void start(struct core *core, bide_job *snapshot)
{
    struct job *job = bi_lease_find_job(core, snapshot);

    /* A rollback must not revert the start, because the client knows of the lease: the saved copies
     * start, too. If the token was used before the reply and that use is rolled back, the job
     * returns with a lease that has started. */
    if (job == NULL || (job->flags & JOB_DIRTY) != 0)
        bi_journal_start_lease(core, snapshot->id, snapshot->token);

    struct job_ext *ext = job == NULL ? NULL : ext_of(core, job);
    if (ext == NULL || !ext->reply_pending)
        return;
    bi_lease_set_times(core, job, ext);
    bi_timers_set(&core->mono, &ext->timer, job->due);

    snapshot->left_ms = ms_up(job->due - core->now.mono);
    snapshot->reserved_ms = ms_down(wall_of(core, core->now.mono));
}

void bi_lease_start(struct core *core, bide_op *op, struct bi_now now)
{
    bide_job *jobs;
    size_t count = bi_op_result_reserved(op, &jobs);

    core->now = now;
    for (size_t i = 0; i < count; i++)
        start(core, &jobs[i]);
}

void bi_lease_start_if_committed(struct core *core, bide_op *op)
{
    /* A later commit starts the leases of an op that is held. */
    if (core->journal.on && op->private_.hold <= core->journal.committed)
        bi_lease_start(core, op, core->now);
}

/* ---- extending ---- */

int bi_lease_check_touch(const struct core *core, bide_op *op, const struct job *job, int64_t until)
{
    const struct bi_limits *limits = &core->limits;
    const struct job_ext *ext = ext_of(core, job);
    unsigned long long id = job->id;
    assert(job->state == BIDE_STATE_RESERVED);

    if (limits->max_touches != 0 && ext->lease_touches >= limits->max_touches)
        return bi_core_error(
            op, BIDE_TOUCH_LIMIT,
            "touch: the lease on job %llu was extended %u times, max_touches is %u; "
            "it ends in %lld ms",
            id, ext->lease_touches, limits->max_touches,
            (long long)ms_up(job->due - core->now.mono));

    int64_t began = bi_lease_started_at(core, ext);
    int64_t touched = bi_lease_touched_at(ext);
    int64_t last = touched == BI_NEVER ? began : touched;
    int64_t early = last + limits->min_touch_interval - core->now.mono;
    if (limits->min_touch_interval != 0 && early > 0)
        return bi_core_error(op, BIDE_TOUCH_LIMIT,
                             "touch: the lease on job %llu may be extended again in %lld ms, "
                             "min_touch_interval is %lld ms",
                             id, (long long)ms_up(early),
                             (long long)ms_up(limits->min_touch_interval));

    int64_t end = began + limits->max_touch_total;
    if (limits->max_touch_total != 0 && until > end)
        return bi_core_error(op, BIDE_TOUCH_LIMIT,
                             "touch: the lease on job %llu may be extended to at most %lld ms from "
                             "now, max_touch_total is %lld ms",
                             id,
                             end > core->now.mono ? (long long)ms_down(end - core->now.mono) : 0LL,
                             (long long)ms_up(limits->max_touch_total));
    return BIDE_OK;
}

void bi_lease_extend(struct core *core, struct job *job, int64_t until)
{
    assert(job->state == BIDE_STATE_RESERVED);
    struct job_ext *ext = ext_of(core, job);
    /* Before the reply no lease runs: the reply starts one with the full ttr. */
    if (!ext->reply_pending) {
        job->due = until;
        bi_timers_set(&core->mono, &ext->timer, until);
    }
    ext->touched = core->now.mono;
    count_up(&ext->lease_touches);
    count_up(&ext->counters.touches);
    COUNT(core, topic_of(core, job), touches);
}

/* ---- ending ---- */

void bi_lease_end(struct core *core, struct job *job)
{
    struct job_ext *ext = ext_of(core, job);
    job->flags &= (uint8_t) ~(JOB_STARTED | JOB_DUE_WALL | JOB_CANCEL_WANTED);
    if (ext == NULL)
        return;

    /* A lease that ends before its reply counts as one that started now. */
    ext->reserved = bi_lease_started_at(core, ext);
    ext->touched = bi_lease_touched_at(ext);
    ext->token = 0;
    ext->reply_pending = ext->abandoned = false;
    if (ext->progress != NULL)
        bi_job_ext_set_text(core, &ext->progress, NULL);
    if (ext->holder != NULL)
        bi_job_ext_set_text(core, &ext->holder, NULL);
}

void bi_lease_requeue_at(struct core *core, struct job *job, int64_t due, bool due_wall)
{
    assert(job->state != BIDE_STATE_GONE && job->state != BIDE_STATE_DONE);
    bool delayed = due > (due_wall ? core->now.wall : core->now.mono);

    bi_job_leave(core, job);
    bi_lease_end(core, job);

    job->due = delayed ? due : 0;
    if (delayed && due_wall)
        job->flags |= JOB_DUE_WALL;
    bi_job_enter(core, job, delayed ? BIDE_STATE_DELAYED : BIDE_STATE_READY);
}

void bi_lease_requeue(struct core *core, struct job *job, int64_t delay)
{
    assert(delay >= 0);
    bi_lease_requeue_at(core, job, core->now.mono + delay, false);
}

/* Undoes a reservation that was never replied to: the job is as before, and nothing is counted. */
static void undo_grant(struct core *core, struct job *job)
{
    struct job_ext *ext = ext_of(core, job);
    assert(job->state == BIDE_STATE_RESERVED && ext->reply_pending && ext->abandoned);

    bool cancelled = (job->flags & JOB_CANCEL_WANTED) != 0;
    bool written = cancelled || (job->flags & JOB_STARTED) != 0 || ext->expires_at != 0 ||
                   ext->prev_state != BIDE_STATE_READY;
    /* Covers every case in which bi_lease_grant() has journalled the job: what the store knows
     * of the reservation must be undone there, too. */
    if (written && bi_journal_change(core, job) != BIDE_OK) {
        bi_lease_retry_undo(core, job);
        return;
    }

    /* There is no reply yet, so no client holds the lease: remove the job now. */
    if (cancelled) {
        bi_op_finish_remove_counted(core, job);
        return;
    }
    if (ext->counters.reserves > 0)
        ext->counters.reserves--;

    bide_state state = (bide_state)ext->prev_state;
    bi_job_leave(core, job);
    ext->reply_pending = false; /* it was no lease: bi_lease_end() records no times */
    bi_lease_end(core, job);
    job->flags |= ext->prev_flags;
    bi_job_enter_restored(core, job, state);

    /* Calls that began to wait while the job was reserved wait for this, too. */
    if (state == BIDE_STATE_BURIED)
        bi_waiters_notify(core, job, state, false);
}

void bi_lease_retry_undo(struct core *core, struct job *job)
{
    struct job_ext *ext = ext_of(core, job);
    assert(ext->reply_pending && ext->abandoned);

    /* The lease timer is free, because a lease without a reply has not started. */
    bi_timers_set(&core->mono, &ext->timer, core->now.mono + BI_NOMEM_RETRY_US);
}

struct job *bi_lease_abandon(struct core *core, const bide_job *snapshot)
{
    struct job *job = bi_lease_find_job(core, snapshot);
    bi_journal_abandon_lease(core, snapshot->id, snapshot->token);

    if (job == NULL || !ext_of(core, job)->reply_pending)
        return NULL;
    ext_of(core, job)->abandoned = true;
    return job;
}

void bi_lease_undo_reserve(struct core *core, bide_op *op, struct bi_now now)
{
    core->now = now;
    core->hold = 0;
    if (op->private_.status != BIDE_OK) /* the op has reserved no job */
        return;

    bide_job *jobs;
    size_t count = bi_op_result_reserved(op, &jobs);
    for (size_t i = 0; i < count; i++) {
        struct job *job = bi_lease_abandon(core, &jobs[i]);
        if (job != NULL)
            undo_grant(core, job);
    }
}

void bi_fire_lease(struct core *core, struct timer *timer)
{
    struct job_ext *ext = BI_TIMER_OWNER(timer, struct job_ext, timer);
    struct job *job = job_at(core, ext->job);
    assert(job->state == BIDE_STATE_RESERVED);

    /* Not a lease: a reservation that is to be undone, now or in a retry. */
    if (ext->reply_pending) {
        assert(ext->abandoned);
        undo_grant(core, job);
        return;
    }

    const bide_slice reason = BI_SLICE("ttr ran out");
    bool limited = ext->max_retries != BIDE_NO_RETRY_LIMIT;
    bide_buf *text = limited ? bi_retry_reason(core, reason) : NULL;
    if ((limited && text == NULL) || bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(text);
        bi_timers_set(&core->mono, timer, core->now.mono + BI_NOMEM_RETRY_US);
        return;
    }

    count_up(&ext->counters.timeouts);
    COUNT(core, topic_of(core, job), timeouts);

    if ((job->flags & JOB_CANCEL_WANTED) != 0) {
        bide_buf_unref(text);
        bi_event_emit_as(core, BIDE_EVENT_TIMED_OUT, job, BIDE_STATE_GONE);
        bi_op_finish_remove_counted(core, job);
        return;
    }

    bi_retry_record(core, ext, BIDE_FAILURE_TIMED_OUT, reason);
    if (!limited) {
        bi_lease_requeue(core, job, 0);
        bi_event_emit(core, BIDE_EVENT_TIMED_OUT, job);
        return;
    }

    bi_job_ext_set_text(core, &ext->last_error, text);
    count_up(&ext->failures);
    bi_retry_or_bury(core, job, -1, BIDE_EVENT_TIMED_OUT);
}

/* ---- an orderly stop ---- */

/*
 * Prepares one reserved job for an orderly stop. A lease that outlives the process is stored
 * with its remaining time, by journalling a change. A job whose reservation would count as a
 * failure is requeued.
 */
static void stop_job(struct core *core, struct job *job)
{
    assert(job->state == BIDE_STATE_RESERVED);
    bool keep = bi_lease_outlives_process(core, ext_of(core, job));
    bool started = (job->flags & JOB_STARTED) != 0;
    bool cancelled = (job->flags & JOB_CANCEL_WANTED) != 0;

    /* A cancelled job stays reserved: the restart removes it. */
    if ((!keep && (!started || cancelled)) || bi_journal_change(core, job) != BIDE_OK || keep)
        return;
    bi_lease_requeue(core, job, 0);
    bi_event_emit(core, BIDE_EVENT_RELEASED, job);
}

/* Prepares the reserved jobs of a topic, from ref on (0: the first). Returns where to continue. */
static uint32_t stop_topic(struct core *core, const struct topic *topic, uint32_t ref,
                           unsigned *budget)
{
    const struct job_list *list = &topic->lists[BIDE_STATE_RESERVED];
    struct job *job = ref != 0 ? job_at(core, ref) : bi_job_list_next(core, list, NULL);
    for (; job != NULL && *budget > 0; --*budget) {
        struct job *next = bi_job_list_next(core, list, job);
        assert(job->state == BIDE_STATE_RESERVED);
        stop_job(core, job);
        job = next;
    }
    return job == NULL ? 0 : job->self;
}

bool bi_lease_prepare_stop(struct core *core, struct bi_now now, unsigned budget)
{
    assert(core->closed && budget > 0);

    core->now = now;
    if (!core->stop.begun) {
        core->stop.begun = true;
        /* The batch marks stored leases as valid. It is needed even if no job changes: leases of
         * jobs that are not loaded yet stay valid by it. */
        if (core->keep_leases || core->lease_from < core->first_order)
            bi_journal_force_batch(core);
    }

    if (core->stop.failed)
        return false;

    const struct topic *topic;
    while ((topic = bi_topic_at_or_after(core, core->stop.serial)) != NULL) {
        if (budget == 0)
            return true;
        uint64_t serial = topic->serial;
        uint32_t next = stop_topic(core, topic, core->stop.job, &budget);
        core->stop.serial = serial + (next == 0);
        core->stop.job = next;
        budget -= budget > 0; /* a topic without reserved jobs is work, too */
    }
    return false;
}

bool bi_lease_restart_stop(struct core *core)
{
    bool failed = core->stop.failed;
    if (failed)
        memset(&core->stop, 0, sizeof(core->stop));
    return failed;
}
