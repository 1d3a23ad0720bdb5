/* SPDX-License-Identifier: MIT */
/*
 * op_finish - the ops of the holder of a lease: delete, done, release, give_back, fail, bury,
 * touch; and the timers that remove jobs: a retention ended, a job expired.
 *
 * Failure    Everything that can fail precedes the first change of a job. Timers that run out of
 *            memory are set again, 100 ms later.
 */
#include "core/core_internal.h"
#include "op/op_result.h"

#include <assert.h>
#include <string.h>

/* ---- finding a job by token ---- */

/* A lease ends at its deadline even if the tick has not fired the timer yet. With the wheel it
 * ends with its tick, because deadlines are rounded up there. */
static struct job *find_current(struct core *core, uint64_t id)
{
    struct job *job = bi_job_find(core, id);
    if (job == NULL || job->state != BIDE_STATE_RESERVED || core->mono.wheel != NULL ||
        job->due > core->now.mono)
        return job;

    struct timer *timer = &ext_of(core, job)->timer;
    if (!timer->set || ext_of(core, job)->reply_pending) /* no lease runs */
        return job;

    bi_timers_clear(&core->mono, timer);
    bi_fire_lease(core, timer);
    return bi_job_find(core, id);
}

/* Finds a job for an op with this token. Without a token (0) only jobs that are not reserved,
 * except for ops that only the holder of the lease may run. */
static int find_with_token(struct core *core, bide_op *op, uint64_t id, uint64_t token,
                           bool holder_only, struct job **job)
{
    *job = find_current(core, id);
    if (*job == NULL)
        return bi_core_error_no_job(op, id);

    bool reserved = (*job)->state == BIDE_STATE_RESERVED;
    if (reserved && token == 0 && !holder_only)
        return bi_core_error_reserved(op, *job);
    if ((token != 0 || holder_only) && (!reserved || ext_of(core, *job)->token != token))
        return bi_core_error(op, BIDE_LEASE_LOST,
                             "%s: the lease on job %llu ran out, or was never yours",
                             bide_op_name(op->kind), (unsigned long long)id);
    return BIDE_OK;
}

/* ---- shared steps ---- */

/* Removes a job. finished: its work is done; this is reported to calls that wait for its end. */
static int remove_job(struct core *core, struct job *job, bide_event_kind event, bool finished)
{
    assert(job->state != BIDE_STATE_GONE);
    if (bi_journal_change(core, job) != BIDE_OK)
        return BIDE_ENOMEM;

    /* Event and notification first: without a journal the job is freed below. */
    bi_event_emit_as(core, event, job, BIDE_STATE_GONE);
    bi_waiters_notify(core, job, BIDE_STATE_GONE, finished);
    bi_job_unlink(core, job);
    bi_journal_remove(core, job);
    return BIDE_OK;
}

int bi_op_finish_remove(struct core *core, struct job *job, bide_event_kind event)
{
    return remove_job(core, job, event, event == BIDE_EVENT_DONE);
}

int bi_op_finish_remove_counted(struct core *core, struct job *job)
{
    COUNT(core, topic_of(core, job), deletes);
    return bi_op_finish_remove(core, job, BIDE_EVENT_DELETED);
}

/* A delete by the holder means that the work is done, as in the beanstalk protocol. */
static int delete_job(struct core *core, bide_op *op, struct job *job, uint64_t token)
{
    if (bi_journal_change(core, job) != BIDE_OK)
        return bi_core_error_code(op, BIDE_ENOMEM);
    COUNT(core, topic_of(core, job), deletes);
    return remove_job(core, job, BIDE_EVENT_DELETED, token != 0);
}

/* Finds a job as find_with_token() does, for an op that requeues or buries it. Rejects a job that
 * is buried or done. If its cancellation was requested, removes it instead and sets *job to
 * NULL. */
static int find_to_requeue(struct core *core, bide_op *op, uint64_t id, uint64_t token,
                           bool holder_only, struct job **job)
{
    int code = find_with_token(core, op, id, token, holder_only, job);
    if (code != BIDE_OK)
        return code;

    assert(*job != NULL);
    if ((*job)->state == BIDE_STATE_BURIED || (*job)->state == BIDE_STATE_DONE)
        return bi_core_error_wrong_state(op, *job);
    if (((*job)->flags & JOB_CANCEL_WANTED) == 0)
        return BIDE_OK;

    code = delete_job(core, op, *job, 0);
    *job = NULL;
    return code;
}

/* Makes the texts of a failure, and the ext that takes them. *error is NULL for an empty text, which
 * keeps the last one. False when out of memory. */
static bool make_failure(struct core *core, struct job *job, bide_failure_kind kind,
                         bide_slice text, bide_buf **history, bide_buf **error)
{
    struct job_ext *ext = bi_job_ensure_ext(core, job);
    *error = NULL;
    *history = ext == NULL ? NULL : bi_retry_history(core, ext, kind, text);
    if (*history == NULL)
        return false;

    if (text.size > 0)
        *error = bi_retry_reason(core, text);
    if (*error != NULL || text.size == 0)
        return true;
    bide_buf_unref(*history);
    return false;
}

/* Records a failure in last_error and the history, and takes over the references. */
static void record_failure(struct core *core, struct job *job, bide_buf *history, bide_buf *error)
{
    struct job_ext *ext = ext_of(core, job);
    bi_job_ext_set_text(core, &ext->history, history);
    if (error != NULL)
        bi_job_ext_set_text(core, &ext->last_error, error);
}

/* Does everything of a failure that can fail, and records it. */
static int prepare_failure(struct core *core, bide_op *op, struct job *job, bide_failure_kind kind,
                           bide_slice text)
{
    bide_buf *history, *error;
    if (!make_failure(core, job, kind, text, &history, &error))
        return bi_core_error_code(op, BIDE_ENOMEM);

    if (bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(history);
        bide_buf_unref(error);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    record_failure(core, job, history, error);
    return BIDE_OK;
}

/* ---- delete and done ---- */

int bi_exec_delete(struct core *core, bide_op *op)
{
    struct job *job;
    int code = find_with_token(core, op, op->lease.id, op->lease.token, false, &job);
    return code != BIDE_OK ? code : delete_job(core, op, job, op->lease.token);
}

unsigned bi_op_finish_retire_excess(struct core *core, struct topic *topic, unsigned most)
{
    struct job_list *list = &topic->lists[BIDE_STATE_DONE];
    uint64_t max = core->limits.max_done_per_topic;
    unsigned count = 0;

    /* Until the loaded lists are sorted, it is not known which result is the oldest. */
    if (core->recovering && !core->lists_sorted)
        return 0;

    for (; max != 0 && list->count > max && count < most; count++) {
        struct job *oldest = bi_job_list_oldest(core, list);
        assert(oldest->state == BIDE_STATE_DONE);
        /* A result that stays for lack of memory is removed with a later one. */
        if (bi_journal_change(core, oldest) != BIDE_OK)
            break;
        COUNT(core, topic, retired);
        bi_op_finish_remove(core, oldest, BIDE_EVENT_RETIRED);
    }
    return count;
}

static void retain_result(struct core *core, struct job *job, bide_buf *result, int64_t retain)
{
    struct job_ext *ext = ext_of(core, job);
    assert(ext != NULL && retain > 0);

    bi_job_leave(core, job);
    bi_lease_end(core, job);

    ext->done = core->now.mono;
    bi_job_ext_set_text(core, &ext->result, result);
    job->due = core->now.mono + retain;
    bi_job_enter(core, job, BIDE_STATE_DONE);

    bi_event_emit(core, BIDE_EVENT_DONE, job);
    bi_waiters_notify(core, job, BIDE_STATE_DONE, false);
}

/* The result as a buffer with a reference for the queue; *out is NULL if there is none. */
static int take_result(bide_finish_item *item, bide_buf **out)
{
    *out = NULL;
    if (item->buf != NULL) {
        *out = bide_buf_ref(item->buf);
    } else if (item->made_ != NULL) {
        *out = item->made_;
        item->made_ = NULL;
    } else if (item->result.data != NULL) {
        *out = bide_buf_new(item->result.data, item->result.size);
        return *out == NULL ? BIDE_ENOMEM : BIDE_OK;
    }
    return BIDE_OK;
}

/* Everything of a done that can fail, except for the journal. *result is for the caller. */
static int prepare_done(struct core *core, bide_op *op, bide_finish_item *item, struct job *job,
                        bide_buf **result, int64_t *retain)
{
    *result = NULL;
    if (job->state == BIDE_STATE_DONE)
        return bi_core_error_wrong_state(op, job);

    size_t size = item->buf != NULL ? bide_buf_size(item->buf) : item->result.size;
    if (size > core->limits.max_result_size)
        return bi_core_error(op, BIDE_TOO_BIG,
                             "%s: the result has %zu bytes, max_result_size is %zu",
                             bide_op_name(op->kind), size, core->limits.max_result_size);

    const struct job_ext *ext = ext_of(core, job);
    *retain =
        item->retain_ms == BIDE_KEEP ? (ext == NULL ? 0 : ext->retain) : us_of(item->retain_ms);

    /* Without retention the result is not kept; a waiting call then only learns that the job is
     * done. */
    if (*retain > 0 && take_result(item, result) != BIDE_OK)
        return bi_core_error_code(op, BIDE_ENOMEM);

    if (bi_job_ensure_ext(core, job) == NULL) {
        bide_buf_unref(*result);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }
    return BIDE_OK;
}

/* Takes over the reference. */
static void apply_done(struct core *core, struct job *job, bide_buf *result, int64_t retain)
{
    COUNT(core, topic_of(core, job), dones);
    if (retain == 0)
        bi_op_finish_remove(core, job, BIDE_EVENT_DONE);
    else
        retain_result(core, job, result, retain);
}

static int done(struct core *core, bide_op *op, bide_finish_item *item, struct job *job)
{
    struct topic *topic = topic_of(core, job);
    bide_buf *result = NULL;
    int64_t retain = 0;
    int code = prepare_done(core, op, item, job, &result, &retain);
    if (code != BIDE_OK)
        return code;

    if (bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(result);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    apply_done(core, job, result, retain);
    if (retain > 0)
        bi_op_finish_retire_excess(core, topic, BI_RETIRE_STEP);
    return BIDE_OK;
}

int bi_op_finish_item(struct core *core, bide_op *op, bide_finish_item *item)
{
    struct job *job;
    int code = find_with_token(core, op, item->id, item->token, false, &job);
    if (code == BIDE_OK)
        code = item->keep ? done(core, op, item, job) : delete_job(core, op, job, item->token);

    /* A copy that was made for the queue and not used. */
    bide_buf_unref(item->made_);
    item->made_ = NULL;
    return code;
}

int bi_exec_done(struct core *core, bide_op *op)
{
    op->finish.keep = true;
    return bi_op_finish_item(core, op, &op->finish);
}

int bi_exec_finish_many(struct core *core, bide_op *op)
{
    struct bulk_errors items;
    bi_bulk_begin(&items, op);

    core->work += op->finish_many.count * OP_WORK;
    /* One batch: the items commit or fail together. */
    bi_journal_begin_group(core, (uint32_t)op->finish_many.count, 0);
    for (size_t i = 0; i < op->finish_many.count; i++) {
        bide_finish_item *item = &op->finish_many.items[i];
        /* The check of the arguments has rejected it. */
        if (item->status != BIDE_OK)
            continue;
        item->status = bi_op_finish_item(core, op, item);
        bi_bulk_record(&items, op, i, item->status);
    }

    bi_journal_end_group(core);
    bi_bulk_end(&items, op);
    return BIDE_OK;
}

/* ---- release, give_back, fail, bury ---- */

static void apply_release(struct core *core, struct job *job, int64_t priority, int64_t due,
                          bool due_wall, int64_t delay)
{
    count_up(&ext_of(core, job)->counters.releases);
    if (priority != BIDE_KEEP)
        job->priority = (uint32_t)priority;
    bi_lease_requeue_at(core, job, due, due_wall);
    bi_job_set_delay(job, delay);

    COUNT(core, topic_of(core, job), releases);
    bi_event_emit(core, BIDE_EVENT_RELEASED, job);
}

int bi_exec_release(struct core *core, bide_op *op)
{
    bide_release_args *args = &op->release;
    struct job *job;
    int code = find_to_requeue(core, op, args->id, args->token, true, &job);
    if (code != BIDE_OK || job == NULL)
        return code;

    if (bi_journal_change(core, job) != BIDE_OK)
        return bi_core_error_code(op, BIDE_ENOMEM);

    int64_t delay = us_of(args->delay_ms);
    apply_release(core, job, args->priority, core->now.mono + delay, false, delay);
    return BIDE_OK;
}

int bi_exec_give_back(struct core *core, bide_op *op)
{
    struct job *job;
    int code = find_to_requeue(core, op, op->lease.id, op->lease.token, true, &job);
    if (code != BIDE_OK || job == NULL)
        return code;

    /* Journal only what the store knows: this reservation (JOB_STARTED), or a lease that an
     * earlier process stored. Otherwise the store has the job as ready. */
    bool stored = (job->flags & JOB_STARTED) != 0 ||
                  bi_lease_number(core, ext_of(core, job)) < core->first_order;
    if (stored && bi_journal_change(core, job) != BIDE_OK)
        return bi_core_error_code(op, BIDE_ENOMEM);

    bi_lease_requeue(core, job, 0);
    bi_event_emit(core, BIDE_EVENT_RELEASED, job);
    return BIDE_OK;
}

int bi_exec_fail(struct core *core, bide_op *op)
{
    bide_fail_args *args = &op->fail;
    struct job *job;
    int code = find_to_requeue(core, op, args->id, args->token, false, &job);
    if (code != BIDE_OK)
        return code;

    args->delay_ms = 0;
    if (job == NULL) {
        args->state = BIDE_STATE_GONE;
        return BIDE_OK;
    }

    code = prepare_failure(core, op, job, args->kind, args->error);
    if (code != BIDE_OK)
        return code;

    struct job_ext *ext = ext_of(core, job);
    count_up(&ext->counters.fails);
    count_up(&ext->failures);
    COUNT(core, topic_of(core, job), fails);

    bi_retry_or_bury(core, job, args->retry_in_ms == BIDE_KEEP ? -1 : us_of(args->retry_in_ms),
                     BIDE_EVENT_FAILED);

    args->state = (bide_state)job->state;
    if (job->state == BIDE_STATE_DELAYED)
        args->delay_ms = ms_up(job->due - core->now.mono);
    return BIDE_OK;
}

int bi_exec_bury(struct core *core, bide_op *op)
{
    bide_bury_args *args = &op->bury;
    struct job *job;
    int code = find_to_requeue(core, op, args->id, args->token, false, &job);
    if (code != BIDE_OK || job == NULL)
        return code;

    code = prepare_failure(core, op, job, BIDE_FAILURE_BURIED, args->reason);
    if (code == BIDE_OK)
        bi_retry_bury(core, job, args->priority);
    return code;
}

/* ---- the ending of finish_and_put ---- */

static void describe_release(const struct core *core, const bide_finish_and_put_args *args,
                             struct prepared_ending *ending)
{
    ending->priority = args->priority;
    ending->due_wall = args->run_at_ms != 0;
    ending->delay = us_of(args->delay_ms);
    ending->due = ending->due_wall ? us_of(args->run_at_ms) : core->now.mono + ending->delay;
}

/* The codes are those of the op that ends a job in the same way. */
static int prepare_kind(struct core *core, bide_op *op, struct prepared_ending *ending)
{
    bide_finish_and_put_args *args = &op->finish_and_put;
    struct job *job = ending->job;

    if (args->ending == BIDE_ENDING_FINISH) {
        ending->keep = args->finish.keep;
        ending->finished = args->finish.token != 0;
        return ending->keep
                   ? prepare_done(core, op, &args->finish, job, &ending->result, &ending->retain)
                   : BIDE_OK;
    }

    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return bi_core_error_wrong_state(op, job);
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return BIDE_OK;

    ending->ending = args->ending;
    describe_release(core, args, ending);
    if (args->ending == BIDE_ENDING_BURY &&
        !make_failure(core, job, BIDE_FAILURE_BURIED, args->reason, &ending->history,
                      &ending->error))
        return bi_core_error_code(op, BIDE_ENOMEM);
    return BIDE_OK;
}

/* True if the job then does not count as a job of its topic, and does not hold its key. */
static bool leaves_topic(const struct prepared_ending *ending)
{
    return ending->ending == BIDE_ENDING_FINISH;
}

static bool frees_key(const struct prepared_ending *ending)
{
    bool retained = ending->keep && ending->retain > 0;
    return leaves_topic(ending) && (!retained || (ending->job->flags & JOB_KEY_RETAINED) == 0);
}

static void unref_bufs(const struct prepared_ending *ending)
{
    bide_buf_unref(ending->result);
    bide_buf_unref(ending->error);
    bide_buf_unref(ending->history);
}

/* Bytes above max_memory. Leases, failures, and steps that are not stored yet exceed it; a step that
 * frees what it puts must go on nevertheless, so that chains run to their ends. */
static uint64_t excess(const struct core *core)
{
    uint64_t used = core->memory + bi_core_headroom(core);
    return used > core->limits.max_memory ? used - core->limits.max_memory : 0;
}

/* Also if only the store has its body: that of a successor is in memory until it is stored, too, and
 * may then be evicted from the cache. */
static uint64_t freed_by(const struct core *core, const struct job *job)
{
    const struct job_ext *ext = ext_of(core, job);
    return JOB_COST + JOB_EXT_COST + JOB_SLACK + job->body_size +
           (ext == NULL ? 0 : bi_job_ext_text_size(ext));
}

int bi_op_finish_prepare(struct core *core, bide_op *op, struct prepared_ending *ending)
{
    const bide_finish_and_put_args *args = &op->finish_and_put;
    *ending = (struct prepared_ending){.ending = BIDE_ENDING_FINISH};
    assert(core->step_room == 0 && core->step_ended == NULL); /* by the end of the last step */

    int code = find_with_token(core, op, args->finish.id, args->finish.token,
                               args->ending == BIDE_ENDING_RELEASE, &ending->job);
    if (code == BIDE_OK)
        code = prepare_kind(core, op, ending);
    if (code != BIDE_OK)
        return code;

    struct job *job = ending->job;
    struct topic *topic = topic_of(core, job);
    if (!bi_topic_reserve(core, topic, topic->step_entries + 1)) {
        unref_bufs(ending);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    bi_topic_pin(topic);
    topic->step_entries++;
    if (leaves_topic(ending) && job->state != BIDE_STATE_DONE)
        topic->step_jobs--;
    if (leaves_topic(ending))
        core->step_ended = job;
    if (frees_key(ending))
        bi_job_release_key(core, job);
    if (leaves_topic(ending) && !(ending->keep && ending->retain > 0))
        core->step_room = excess(core) + freed_by(core, job);
    return BIDE_OK;
}

static void end_step(struct core *core, struct topic *topic)
{
    topic->step_jobs = 0;
    topic->step_entries = 0;
    core->step_room = 0;
    core->step_ended = NULL;
    bi_topic_unpin(core, topic);
}

void bi_op_finish_abandon(struct core *core, const struct prepared_ending *ending)
{
    bi_job_hold_key(core, ending->job);
    unref_bufs(ending);
    end_step(core, topic_of(core, ending->job));
}

void bi_op_finish_apply(struct core *core, const struct prepared_ending *ending)
{
    struct job *job = ending->job;
    int code = bi_journal_change(core, job);
    assert(code == BIDE_OK);
    (void)code;

    if (ending->ending == BIDE_ENDING_RELEASE) {
        apply_release(core, job, ending->priority, ending->due, ending->due_wall, ending->delay);
    } else if (ending->ending == BIDE_ENDING_BURY) {
        record_failure(core, job, ending->history, ending->error);
        bi_retry_bury(core, job, ending->priority);
    } else if (ending->keep) {
        apply_done(core, job, ending->result, ending->retain);
    } else {
        COUNT(core, topic_of(core, job), deletes);
        remove_job(core, job, BIDE_EVENT_DELETED, ending->finished);
    }
}

void bi_op_finish_end(struct core *core, struct topic *topic, const struct prepared_ending *ending)
{
    /* Only now: the oldest result may have been one that a put of the step replaced. */
    if (ending->keep && ending->retain > 0)
        bi_op_finish_retire_excess(core, topic, BI_RETIRE_STEP);
    end_step(core, topic);
}

/* ---- touch ---- */

/* Extends a lease and stores progress. With BIDE_KEEP the lease stays, and nothing is counted. */
static int touch(struct core *core, bide_op *op, bide_touch_item *item)
{
    struct job *job;
    int code = find_with_token(core, op, item->id, item->token, true, &job);
    if (code != BIDE_OK)
        return code;

    struct job_ext *ext = ext_of(core, job);
    bool keep = item->extend_ms == BIDE_KEEP;
    bool full_ttr = keep ? ext->reply_pending : item->extend_ms == 0;
    int64_t until = full_ttr ? core->now.mono + job->ttr
                    : keep   ? job->due
                             : core->now.mono + us_of(item->extend_ms);

    if (!keep && (code = bi_lease_check_touch(core, op, job, until)) != BIDE_OK)
        return code;

    if (item->progress.size > 0) {
        bide_buf *text = bide_buf_new(item->progress.data, item->progress.size);
        if (text == NULL)
            return bi_core_error_code(op, BIDE_ENOMEM);
        bi_job_ext_set_text(core, &ext->progress, text);
    }

    if (!keep)
        bi_lease_extend(core, job, until);

    item->left_ms = until > core->now.mono ? ms_up(until - core->now.mono) : 0;
    /* Touch is how a worker learns that it should stop. */
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return bi_core_error_code(op, BIDE_CANCEL_WANTED);
    return BIDE_OK;
}

int bi_exec_touch(struct core *core, bide_op *op)
{
    return touch(core, op, &op->touch);
}

int bi_exec_touch_many(struct core *core, bide_op *op)
{
    struct bulk_errors items;
    bi_bulk_begin(&items, op);

    core->work += op->touch_many.count * OP_WORK;
    for (size_t i = 0; i < op->touch_many.count; i++) {
        bide_touch_item *item = &op->touch_many.items[i];
        if (item->status != BIDE_OK)
            continue;
        item->status = touch(core, op, item);
        bi_bulk_record(&items, op, i, item->status);
    }

    bi_bulk_end(&items, op);
    return BIDE_OK;
}

/* ---- timers ---- */

/*
 * Ends of retentions are put off while more changes than this wait to be sealed. Any number of
 * retentions may end at once, and this cleanup must not delay the commits of ops. Other timers
 * always fire.
 */
#define RETIRE_BACKLOG  20000
#define RETIRE_RETRY_US 1000000

void bi_fire_retention(struct core *core, struct timer *timer)
{
    struct job *job = job_at(core, BI_TIMER_OWNER(timer, struct job_ext, timer)->job);
    assert(job->state == BIDE_STATE_DONE);

    if (core->journal.changes.count > RETIRE_BACKLOG) {
        bi_timers_set(&core->mono, timer, core->now.mono + RETIRE_RETRY_US);
        return;
    }

    if (bi_journal_change(core, job) != BIDE_OK) {
        bi_timers_set(&core->mono, timer, core->now.mono + BI_NOMEM_RETRY_US);
        return;
    }

    COUNT(core, topic_of(core, job), retired);
    bi_op_finish_remove(core, job, BIDE_EVENT_RETIRED);
}

void bi_fire_expiry(struct core *core, struct timer *timer)
{
    struct job *job = job_at(core, BI_TIMER_OWNER(timer, struct job_ext, expiry)->job);
    assert(job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_READY);

    /* The expiry timer runs on the wall clock, so the retry does, too. */
    if (bi_journal_change(core, job) != BIDE_OK) {
        bi_timers_set(&core->wall, timer, core->now.wall + BI_NOMEM_RETRY_US);
        return;
    }
    COUNT(core, topic_of(core, job), expired);
    bi_op_finish_remove(core, job, BIDE_EVENT_EXPIRED);
}
