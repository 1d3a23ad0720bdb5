/* SPDX-License-Identifier: MIT */
/*
 * op_finish - how a job leaves its worker: delete, done, release, give_back, fail, bury, touch,
 * and what happens when the worker says nothing and the ttr runs out.
 */
#include "core/items.h"
#include "core/retry.h"
#include "core/state.h"

#include <assert.h>
#include <string.h>

/* ---- who may ---- */

/* A lease whose time is over is over, even if the tick has not come to it yet. */
static struct job *find_current(struct core *core, uint64_t id)
{
    struct job *job = bi_core_find(core, id);
    if (job == NULL || job->state != BIDE_STATE_RESERVED || core->mono.wheel != NULL ||
        job->due > core->now.mono)
        return job;
    struct timer *timer = &more_of(core, job)->timer;
    if (!timer->set || more_of(core, job)->unanswered) /* no lease has begun */
        return job;
    bi_timers_clear(&core->mono, timer);
    bi_fire_lease(core, timer);
    return bi_core_find(core, id);
}

static int lease_lost(bide_op *op, uint64_t id)
{
    return bi_op_refuse(op, BIDE_LEASE_LOST,
                        "%s: the lease on job %llu ran out, or was never yours",
                        bide_op_name(op->kind), (unsigned long long)id);
}

/* Finds a job for somebody with that token; without one (0) only jobs that nobody holds. */
static int find_for(struct core *core, bide_op *op, uint64_t id, uint64_t token, struct job **job)
{
    *job = find_current(core, id);
    if (*job == NULL)
        return bi_op_no_job(op, id);
    bool reserved = (*job)->state == BIDE_STATE_RESERVED;
    if (token == 0 && reserved)
        return bi_op_reserved(op, *job);
    if (token != 0 && (!reserved || more_of(core, *job)->token != token))
        return lease_lost(op, id);
    return BIDE_OK;
}

/* The same for what only a holder may do. */
static int find_held(struct core *core, bide_op *op, uint64_t id, uint64_t token, struct job **job)
{
    *job = find_current(core, id);
    if (*job == NULL)
        return bi_op_no_job(op, id);
    if ((*job)->state != BIDE_STATE_RESERVED || more_of(core, *job)->token != token)
        return lease_lost(op, id);
    return BIDE_OK;
}

/* The same for what cannot be done to a job that is buried or done. */
static int find_unfinished(struct core *core, bide_op *op, uint64_t id, uint64_t token,
                           struct job **job)
{
    int code = find_for(core, op, id, token, job);
    if (code != BIDE_OK)
        return code;
    assert(*job != NULL);
    bool finished = (*job)->state == BIDE_STATE_BURIED || (*job)->state == BIDE_STATE_DONE;
    return finished ? bi_op_wrong_state(op, *job) : BIDE_OK;
}

/* ---- what they share ---- */

/* finished: the work is done, for callers that wait for it. */
static int remove_job(struct core *core, struct job *job, bide_event_kind why, bool finished)
{
    if (bi_journal_change(core, job) != BIDE_OK)
        return BIDE_ENOMEM;
    bi_event_as(core, why, job, BIDE_STATE_GONE);
    bi_waiters_tell(core, job, BIDE_STATE_GONE, finished);
    bi_job_vanish(core, job);
    bi_journal_removed(core, job);
    return BIDE_OK;
}

int bi_core_remove(struct core *core, struct job *job, bide_event_kind why)
{
    return remove_job(core, job, why, why == BIDE_EVENT_DONE);
}

/* A delete by the holder of the job is the end of its work, as in the beanstalk protocol. */
static int delete_job(struct core *core, bide_op *op, struct job *job, uint64_t token)
{
    if (bi_journal_change(core, job) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    COUNT(core, topic_of(core, job), deletes);
    return remove_job(core, job, BIDE_EVENT_DELETED, token != 0);
}

static int remove_and_count(struct core *core, bide_op *op, struct job *job)
{
    return delete_job(core, op, job, 0);
}

static void end_lease(struct core *core, struct job *job)
{
    struct more *more = more_of(core, job);
    job->flags &= (uint8_t) ~(JOB_STARTED | JOB_DUE_WALL | JOB_CANCEL_WANTED);
    if (more == NULL)
        return;
    /* One that ends before its answer has begun now. */
    more->reserved = bi_lease_began(core, more);
    more->touched = bi_lease_touched(more);
    more->token = 0;
    more->unanswered = more->disowned = false;
    bi_more_set_text(core, &more->progress, NULL);
}

void bi_core_return(struct core *core, struct job *job, int64_t delay)
{
    bi_job_leave(core, job);
    end_lease(core, job);
    job->due = delay > 0 ? core->now.mono + delay : 0;
    bi_job_enter(core, job, delay > 0 ? BIDE_STATE_DELAYED : BIDE_STATE_READY);
}

void bi_core_put_back(struct core *core, struct job *job)
{
    struct more *more = more_of(core, job);
    assert(job->state == BIDE_STATE_RESERVED && more->unanswered);
    bide_state state = (bide_state)more->before;
    bi_job_leave(core, job);
    more->unanswered = false; /* it was no lease, and leaves no moments behind */
    end_lease(core, job);
    job->flags |= more->before_flags;
    bi_job_enter_again(core, job, state);
    if (state == BIDE_STATE_BURIED)
        bi_waiters_tell(core, job, state, false);
}

void bi_core_bury(struct core *core, struct job *job, int64_t priority)
{
    struct more *more = more_of(core, job);
    bi_job_leave(core, job);
    end_lease(core, job);
    if (priority != BIDE_KEEP)
        job->priority = (uint32_t)priority;
    more->buried = core->now.mono;
    count_up(&more->counters.buries);
    bi_job_enter(core, job, BIDE_STATE_BURIED);
    COUNT(core, topic_of(core, job), buries);
    bi_event(core, BIDE_EVENT_BURIED, job);
    bi_waiters_tell(core, job, BIDE_STATE_BURIED, false);
}

void bi_core_retry(struct core *core, struct job *job, int64_t retry_in, bide_event_kind why)
{
    const struct more *more = more_of(core, job);
    if (more->max_retries != BIDE_NO_RETRY_LIMIT && more->failures > (uint32_t)more->max_retries) {
        bi_event_as(core, why, job, BIDE_STATE_BURIED);
        bi_core_bury(core, job, BIDE_KEEP);
        return;
    }
    if (retry_in < 0)
        retry_in =
            bi_retry_delay(more->failures, more->backoff_base, more->backoff_max, &core->random);
    bi_core_return(core, job, retry_in);
    bi_job_set_delay(job, retry_in);
    bi_event(core, why, job);
}

/* Makes a text that is not empty ready to become last_error, cut at the limit; NULL for none. */
static int error_text(const struct core *core, bide_slice text, bide_buf **out)
{
    *out = NULL;
    if (text.size == 0)
        return BIDE_OK;
    size_t max = core->limits.max_error_size;
    *out = bide_buf_new(text.data, text.size < max ? text.size : max);
    return *out == NULL ? BIDE_ENOMEM : BIDE_OK;
}

static void set_error(struct core *core, struct more *more, bide_buf *text)
{
    if (text != NULL)
        bi_more_set_text(core, &more->last_error, text);
}

/* Everything that changing a job with a text may lack; then nothing more can fail. */
static int prepare(struct core *core, bide_op *op, struct job *job, bide_slice text, bide_buf **out)
{
    *out = NULL;
    if (bi_job_more(core, job) == NULL || error_text(core, text, out) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    if (bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(*out);
        return bi_op_answer(op, BIDE_ENOMEM);
    }
    return BIDE_OK;
}

/* ---- delete and done ---- */

int bi_op_delete(struct core *core, bide_op *op)
{
    struct job *job;
    int code = find_for(core, op, op->lease.id, op->lease.token, &job);
    return code != BIDE_OK ? code : delete_job(core, op, job, op->lease.token);
}

unsigned bi_core_limit_done(struct core *core, struct topic *topic, unsigned most)
{
    struct job_list *list = &topic->lists[BIDE_STATE_DONE];
    uint64_t max = core->limits.max_done_per_topic;
    unsigned count = 0;
    if (core->recovering && !core->ordered) /* it is not known which is the oldest */
        return 0;
    for (; max != 0 && list->count > max && count < most; count++) {
        struct job *oldest = bi_list_oldest(core, list);
        if (bi_journal_change(core, oldest) != BIDE_OK)
            break;
        COUNT(core, topic, retired);
        bi_core_remove(core, oldest, BIDE_EVENT_RETIRED);
    }
    return count;
}

static void keep_done(struct core *core, struct job *job, bide_buf *result, int64_t retain)
{
    struct topic *topic = topic_of(core, job);
    struct more *more = more_of(core, job);
    bi_job_leave(core, job);
    end_lease(core, job);
    more->done = core->now.mono;
    bi_more_set_text(core, &more->result, result);
    job->due = core->now.mono + retain;
    bi_job_enter(core, job, BIDE_STATE_DONE);
    bi_event(core, BIDE_EVENT_DONE, job);
    bi_waiters_tell(core, job, BIDE_STATE_DONE, false);
    bi_core_limit_done(core, topic, BI_DONE_STEP);
}

/* The result as a buffer with a reference for the queue; NULL in *out if there is none. */
static int result_of(bide_finish_item *item, bide_buf **out)
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

static int done(struct core *core, bide_op *op, bide_finish_item *item, struct job *job)
{
    if (job->state == BIDE_STATE_DONE)
        return bi_op_wrong_state(op, job);
    size_t size = item->buf != NULL ? bide_buf_size(item->buf) : item->result.size;
    if (size > core->limits.max_result_size)
        return bi_op_refuse(op, BIDE_TOO_BIG,
                            "done: the result has %zu bytes, max_result_size is %zu", size,
                            core->limits.max_result_size);
    const struct more *more = more_of(core, job);
    int64_t retain =
        item->retain_ms == BIDE_KEEP ? (more == NULL ? 0 : more->retain) : us_of(item->retain_ms);
    bide_buf *result = NULL;
    if (retain > 0 && result_of(item, &result) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    if (bi_job_more(core, job) == NULL || bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(result);
        return bi_op_answer(op, BIDE_ENOMEM);
    }
    COUNT(core, topic_of(core, job), dones);
    if (retain == 0)
        return bi_core_remove(core, job, BIDE_EVENT_DONE);
    keep_done(core, job, result, retain);
    return BIDE_OK;
}

int bi_core_finish(struct core *core, bide_op *op, bide_finish_item *item)
{
    struct job *job;
    int code = find_for(core, op, item->id, item->token, &job);
    if (code == BIDE_OK)
        code = item->keep ? done(core, op, item, job) : delete_job(core, op, job, item->token);
    bide_buf_unref(item->made_);
    item->made_ = NULL;
    return code;
}

int bi_op_done(struct core *core, bide_op *op)
{
    op->finish.keep = true;
    return bi_core_finish(core, op, &op->finish);
}

int bi_op_finish_many(struct core *core, bide_op *op)
{
    struct items items;
    bi_items_begin(&items, op);
    core->work += op->finish_many.count * OP_WORK;
    bi_journal_join(core, (uint32_t)op->finish_many.count, 0);
    for (size_t i = 0; i < op->finish_many.count; i++) {
        bide_finish_item *item = &op->finish_many.items[i];
        if (item->status != BIDE_OK)
            continue;
        item->status = bi_core_finish(core, op, item);
        bi_items_note(&items, op, i, item->status);
    }
    bi_journal_part(core);
    bi_items_end(&items, op);
    return BIDE_OK;
}

/* ---- release, give_back, fail, bury ---- */

int bi_op_release(struct core *core, bide_op *op)
{
    bide_release_args *args = &op->release;
    struct job *job;
    int code = find_held(core, op, args->id, args->token, &job);
    if (code != BIDE_OK)
        return code;
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return remove_and_count(core, op, job);
    if (bi_journal_change(core, job) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    count_up(&more_of(core, job)->counters.releases);
    if (args->priority != BIDE_KEEP)
        job->priority = (uint32_t)args->priority;
    bi_core_return(core, job, us_of(args->delay_ms));
    bi_job_set_delay(job, us_of(args->delay_ms));
    COUNT(core, topic_of(core, job), releases);
    bi_event(core, BIDE_EVENT_RELEASED, job);
    return BIDE_OK;
}

int bi_op_give_back(struct core *core, bide_op *op)
{
    struct job *job;
    int code = find_held(core, op, op->lease.id, op->lease.token, &job);
    if (code != BIDE_OK)
        return code;
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return remove_and_count(core, op, job);
    /* The store knows of this reservation, or of a lease that an earlier process has kept. */
    bool stored = (job->flags & JOB_STARTED) != 0 ||
                  bi_core_number(core, more_of(core, job)) < core->first_order;
    if (stored && bi_journal_change(core, job) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    bi_core_return(core, job, 0);
    bi_event(core, BIDE_EVENT_RELEASED, job);
    return BIDE_OK;
}

/* The process ends in order. A lease that outlives it is stored as it is. */
static void interrupt(struct core *core, struct job *job)
{
    bool keep = bi_lease_outlives(core, more_of(core, job));
    bool started = (job->flags & JOB_STARTED) != 0;
    bool cancelled = (job->flags & JOB_CANCEL_WANTED) != 0;
    if ((!keep && (!started || cancelled)) || bi_journal_change(core, job) != BIDE_OK || keep)
        return;
    bi_core_return(core, job, 0);
    bi_event(core, BIDE_EVENT_RELEASED, job);
}

/* Treats the reserved jobs of one topic, from a job on (0: the first); answers where to go on. */
static uint32_t interrupt_topic(struct core *core, const struct topic *topic, uint32_t ref,
                                unsigned *budget)
{
    const struct job_list *list = &topic->lists[BIDE_STATE_RESERVED];
    struct job *job = ref != 0 ? job_at(core, ref) : bi_list_next(core, list, NULL);
    for (; job != NULL && *budget > 0; --*budget) {
        struct job *next = bi_list_next(core, list, job);
        assert(job->state == BIDE_STATE_RESERVED);
        interrupt(core, job);
        job = next;
    }
    return job == NULL ? 0 : job->self;
}

bool bi_core_interrupt(struct core *core, struct bi_now now, unsigned budget)
{
    assert(core->closed && budget > 0);
    core->now = now;
    if (!core->interrupt.begun) {
        core->interrupt.begun = true;
        /* The mark that stored leases are good is needed also for those that are not loaded. */
        if (core->keep_leases || core->lease_from < core->first_order)
            bi_journal_force(core);
    }
    if (core->interrupt.failed)
        return false;
    const struct topic *topic;
    while ((topic = bi_topic_from(core, core->interrupt.serial)) != NULL) {
        if (budget == 0)
            return true;
        uint64_t serial = topic->serial;
        uint32_t next = interrupt_topic(core, topic, core->interrupt.job, &budget);
        core->interrupt.serial = serial + (next == 0);
        core->interrupt.job = next;
        budget -= budget > 0; /* a topic without such jobs is work, too */
    }
    return false;
}

int bi_op_fail(struct core *core, bide_op *op)
{
    bide_fail_args *args = &op->fail;
    struct job *job;
    int code = find_unfinished(core, op, args->id, args->token, &job);
    if (code != BIDE_OK)
        return code;
    args->delay_ms = 0;
    if ((job->flags & JOB_CANCEL_WANTED) != 0) {
        code = remove_and_count(core, op, job);
        args->state = BIDE_STATE_GONE;
        return code;
    }
    bide_buf *text;
    code = prepare(core, op, job, args->error, &text);
    if (code != BIDE_OK)
        return code;
    struct more *more = more_of(core, job);
    set_error(core, more, text);
    count_up(&more->counters.fails);
    count_up(&more->failures);
    COUNT(core, topic_of(core, job), fails);
    bi_core_retry(core, job, args->retry_in_ms == BIDE_KEEP ? -1 : us_of(args->retry_in_ms),
                  BIDE_EVENT_FAILED);
    args->state = (bide_state)job->state;
    if (job->state == BIDE_STATE_DELAYED)
        args->delay_ms = ms_up(job->due - core->now.mono);
    return BIDE_OK;
}

int bi_op_bury(struct core *core, bide_op *op)
{
    bide_bury_args *args = &op->bury;
    struct job *job;
    int code = find_unfinished(core, op, args->id, args->token, &job);
    if (code != BIDE_OK)
        return code;
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return remove_and_count(core, op, job);
    bide_buf *text;
    code = prepare(core, op, job, args->reason, &text);
    if (code != BIDE_OK)
        return code;
    set_error(core, more_of(core, job), text);
    bi_core_bury(core, job, args->priority);
    return BIDE_OK;
}

/* ---- touch ---- */

/* BIDE_OK, or TOUCH_LIMIT with a sentence that tells the limit, and until when or from when on the lease
 * may be extended. */
static int check_touch(const struct core *core, bide_op *op, const struct job *job, int64_t until)
{
    const struct bi_limits *limits = &core->limits;
    const struct more *more = more_of(core, job);
    unsigned long long id = job->id;
    if (limits->max_touches != 0 && more->lease_touches >= limits->max_touches)
        return bi_op_refuse(
            op, BIDE_TOUCH_LIMIT,
            "touch: the lease on job %llu was extended %u times, max_touches is %u; "
            "it ends in %lld ms",
            id, more->lease_touches, limits->max_touches,
            (long long)ms_up(job->due - core->now.mono));

    int64_t began = bi_lease_began(core, more);
    int64_t touched = bi_lease_touched(more);
    int64_t last = touched == BI_NEVER ? began : touched;
    int64_t early = last + limits->min_touch_interval - core->now.mono;
    if (limits->min_touch_interval != 0 && early > 0)
        return bi_op_refuse(op, BIDE_TOUCH_LIMIT,
                            "touch: the lease on job %llu may be extended again in %lld ms, "
                            "min_touch_interval is %lld ms",
                            id, (long long)ms_up(early),
                            (long long)ms_up(limits->min_touch_interval));

    int64_t end = began + limits->max_touch_total;
    if (limits->max_touch_total != 0 && until > end)
        return bi_op_refuse(op, BIDE_TOUCH_LIMIT,
                            "touch: the lease on job %llu may be extended to at most %lld ms from "
                            "now, max_touch_total is %lld ms",
                            id,
                            end > core->now.mono ? (long long)ms_down(end - core->now.mono) : 0LL,
                            (long long)ms_up(limits->max_touch_total));
    return BIDE_OK;
}

static void extend(struct core *core, struct job *job, int64_t until)
{
    struct more *more = more_of(core, job);
    if (!more->unanswered) {
        job->due = until;
        bi_timers_set(&core->mono, &more->timer, until);
    }
    more->touched = core->now.mono;
    count_up(&more->lease_touches);
    count_up(&more->counters.touches);
    COUNT(core, topic_of(core, job), touches);
}

/* With BIDE_KEEP the lease stays as it is, and nothing is counted. */
static int touch(struct core *core, bide_op *op, bide_touch_item *item)
{
    struct job *job;
    int code = find_held(core, op, item->id, item->token, &job);
    if (code != BIDE_OK)
        return code;
    struct more *more = more_of(core, job);
    bool keep = item->extend_ms == BIDE_KEEP;
    bool whole = keep ? more->unanswered : item->extend_ms == 0;
    int64_t until = whole  ? core->now.mono + job->ttr
                    : keep ? job->due
                           : core->now.mono + us_of(item->extend_ms);
    if (!keep && (code = check_touch(core, op, job, until)) != BIDE_OK)
        return code;
    if (item->progress.size > 0) {
        bide_buf *text = bide_buf_new(item->progress.data, item->progress.size);
        if (text == NULL)
            return bi_op_answer(op, BIDE_ENOMEM);
        bi_more_set_text(core, &more->progress, text);
    }
    if (!keep)
        extend(core, job, until);
    item->left_ms = until > core->now.mono ? ms_up(until - core->now.mono) : 0;
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return bi_op_answer(op, BIDE_CANCEL_WANTED);
    return BIDE_OK;
}

int bi_op_touch(struct core *core, bide_op *op)
{
    return touch(core, op, &op->touch);
}

int bi_op_touch_many(struct core *core, bide_op *op)
{
    struct items items;
    bi_items_begin(&items, op);
    core->work += op->touch_many.count * OP_WORK;
    for (size_t i = 0; i < op->touch_many.count; i++) {
        bide_touch_item *item = &op->touch_many.items[i];
        if (item->status != BIDE_OK)
            continue;
        item->status = touch(core, op, item);
        bi_items_note(&items, op, i, item->status);
    }
    bi_items_end(&items, op);
    return BIDE_OK;
}

/* ---- what time does ---- */

/* Changes that may wait to be stored before the ends of retentions are put off. That is cleaning up,
 * of which there may be any amount at once; everything else that time does goes on. */
#define RETIRE_BACKLOG  20000
#define RETIRE_AGAIN_US 1000000

/* Out of memory: look again in a while. */
static void later(struct timers *timers, struct timer *timer, int64_t now)
{
    bi_timers_set(timers, timer, now + 100000);
}

void bi_fire_lease(struct core *core, struct timer *timer)
{
    struct more *more = (struct more *)(void *)((char *)timer - offsetof(struct more, timer));
    struct job *job = job_at(core, more->job);
    if (more->unanswered) {
        assert(more->disowned);
        bi_core_undo_reserve(core, job);
        return;
    }
    static const char reason[] = "ttr ran out";
    bool limited = more->max_retries != BIDE_NO_RETRY_LIMIT;
    bide_buf *text = limited ? bide_buf_new(reason, sizeof(reason) - 1) : NULL;
    if ((limited && text == NULL) || bi_journal_change(core, job) != BIDE_OK) {
        bide_buf_unref(text);
        later(&core->mono, timer, core->now.mono);
        return;
    }
    struct topic *topic = topic_of(core, job);
    count_up(&more->counters.timeouts);
    COUNT(core, topic, timeouts);
    if ((job->flags & JOB_CANCEL_WANTED) != 0) {
        bide_buf_unref(text);
        bi_event_as(core, BIDE_EVENT_TIMED_OUT, job, BIDE_STATE_GONE);
        COUNT(core, topic, deletes);
        bi_core_remove(core, job, BIDE_EVENT_DELETED);
        return;
    }
    if (!limited) {
        bi_core_return(core, job, 0);
        bi_event(core, BIDE_EVENT_TIMED_OUT, job);
        return;
    }
    set_error(core, more, text);
    count_up(&more->failures);
    bi_core_retry(core, job, -1, BIDE_EVENT_TIMED_OUT);
}

void bi_fire_retention(struct core *core, struct timer *timer)
{
    const struct more *more =
        (const struct more *)(const void *)((char *)timer - offsetof(struct more, timer));
    struct job *job = job_at(core, more->job);
    if (core->journal.changes.count > RETIRE_BACKLOG) {
        bi_timers_set(&core->mono, timer, core->now.mono + RETIRE_AGAIN_US);
        return;
    }
    if (bi_journal_change(core, job) != BIDE_OK) {
        later(&core->mono, timer, core->now.mono);
        return;
    }
    COUNT(core, topic_of(core, job), retired);
    bi_core_remove(core, job, BIDE_EVENT_RETIRED);
}

void bi_fire_expiry(struct core *core, struct timer *timer)
{
    const struct more *more =
        (const struct more *)(const void *)((char *)timer - offsetof(struct more, expiry));
    struct job *job = job_at(core, more->job);
    if (bi_journal_change(core, job) != BIDE_OK) {
        later(&core->wall, timer, core->now.wall);
        return;
    }
    COUNT(core, topic_of(core, job), expired);
    bi_core_remove(core, job, BIDE_EVENT_EXPIRED);
}
