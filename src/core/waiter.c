/* SPDX-License-Identifier: MIT */
#include "core/waiter.h"

#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

/* Calls served after one op or event, fewer if they name many topics. The next tick continues. */
#define SERVE_MAX 1000
/* Calls that one op or tick completes because their jobs have ended, or visits because recovery
 * has. The next tick continues. */
#define NOTIFY_MAX 1000

/* Inserts a link by the arrival of its call: behind all others, unless it was parked. */
static void line_insert(struct waiter_link *link)
{
    struct line_heap *line = &link->topic->line;
    assert(line->count < link->topic->line_links);
    line_heap_push(line, NULL, (struct line_entry){link->waiter->number, link});
}

/* The caller has pinned the topic, or calls bi_topic_cleanup(). */
static void line_remove(struct waiter_link *link)
{
    assert(link->topic->line.entries[link->slot].link == link);
    line_heap_remove(&link->topic->line, NULL, link->slot);
}

/* Releases the entry of a link, which is not in the line any more. */
static void line_unreserve(struct core *core, struct topic *topic)
{
    assert(topic->line_links > topic->line.count);
    line_heap_trim(&topic->line, &core->alloc, --topic->line_links);
}

/* ---- watches ---- */

/* Returns the watch of a job, new if need be; NULL when out of memory. */
static struct watch *get_watch(struct core *core, struct job *job)
{
    /* If the caller then fails, an empty ext stays; it means the same as none. */
    struct job_ext *ext = bi_job_ensure_ext(core, job);
    if (ext == NULL || ext->watch != NULL)
        return ext == NULL ? NULL : ext->watch;

    struct watch *watch = bi_alloc_malloc(&core->alloc, sizeof(*watch));
    if (watch == NULL)
        return NULL;
    *watch = (struct watch){.job = job->self};
    TAILQ_INIT(&watch->waiters);
    return ext->watch = watch;
}

static void free_watch_if_unused(struct core *core, struct watch *watch)
{
    if (!TAILQ_EMPTY(&watch->waiters))
        return;

    if (watch->job != 0) {
        assert(ext_of(core, job_at(core, watch->job))->watch == watch);
        ext_of(core, job_at(core, watch->job))->watch = NULL;
    } else {
        TAILQ_REMOVE(&core->waiters.ended, watch, ended);
        bide_buf_unref(watch->result);
    }
    bi_alloc_free(&core->alloc, watch);
}

/* ---- adding and completing ---- */

/* Reserves the timer and the entries of the lines: resuming a parked call needs them and must not
 * fail. False when out of memory; nothing is reserved then. */
static bool reserve_entries(struct core *core, const struct waiter_link *links, size_t count)
{
    if (!bi_timers_reserve(&core->wait_timers))
        return false;

    size_t reserved = 0;
    for (; reserved < count; reserved++) {
        struct topic *topic = links[reserved].topic;
        if (!line_heap_reserve(&topic->line, &core->alloc, topic->line_links + 1))
            break;
        topic->line_links++;
    }
    if (reserved == count)
        return true;

    while (reserved-- > 0)
        line_unreserve(core, links[reserved].topic);
    bi_timers_unreserve(&core->wait_timers);
    return false;
}

int bi_waiter_add(struct core *core, bide_op *op, int64_t timeout_ms,
                  const struct waiter_link *links, size_t link_count)
{
    assert(op->private_.waiter == NULL);
    if (core->closed)
        return bi_core_error_code(op, BIDE_CLOSED);
    if (core->waiters.count >= core->limits.max_waiters)
        return bi_core_error_limit(core, op, BIDE_TOO_MANY_WAITERS);

    size_t size = sizeof(struct waiter) + link_count * sizeof(*links);
    struct waiter *waiter = bi_alloc_malloc(&core->alloc, size);
    if (waiter == NULL || !reserve_entries(core, links, link_count)) {
        bi_alloc_free(&core->alloc, waiter);
        return bi_core_error_code(op, BIDE_ENOMEM);
    }

    memset(waiter, 0, sizeof(*waiter));
    waiter->op = op;
    waiter->number = core->next_waiter++;
    waiter->link_count = link_count;

    core->work += link_count;
    for (size_t i = 0; i < link_count; i++) {
        waiter->links[i] = links[i];
        waiter->links[i].waiter = waiter;
        line_insert(&waiter->links[i]);
    }

    bi_timer_init(&waiter->timer, TIMER_WAITER, TIMER_CLASS_WAITER, waiter->number);
    waiter->until = timeout_ms < 0 ? BI_NEVER : core->now.mono + us_of(timeout_ms);
    if (timeout_ms >= 0)
        bi_timers_set(&core->wait_timers, &waiter->timer, waiter->until);

    TAILQ_INSERT_TAIL(&core->waiters.all, waiter, all);
    core->waiters.count++;
    core->waiters.reserving += link_count > 0;
    op->private_.waiter = waiter;
    return BIDE_PENDING;
}

/* Removes a waiter from the list of all. */
static void unlink_waiter(struct waiters *all, struct waiter *waiter)
{
    if (all->recovered_next == waiter)
        all->recovered_next = TAILQ_NEXT(waiter, all);
    TAILQ_REMOVE(&all->all, waiter, all);
}

static void detach(struct core *core, struct waiter *waiter)
{
    struct waiters *all = &core->waiters;
    assert(all->count > 0 && all->parked >= waiter->parked);
    assert(all->reserving >= (waiter->link_count > 0));

    /* A rollback may be between two slices: bi_waiter_cancel() is allowed then. */
    if (all->rollback_next == waiter)
        all->rollback_next = TAILQ_NEXT(waiter, all);
    unlink_waiter(all, waiter);
    all->count--;
    all->parked -= waiter->parked;
    all->reserving -= waiter->link_count > 0;

    bi_timers_clear(&core->wait_timers, &waiter->timer);
    bi_timers_unreserve(&core->wait_timers);

    /* Leaving a line may remove its topic, which costs about twice as much as entering one. */
    core->work += 2 * waiter->link_count;
    for (size_t i = 0; i < waiter->link_count; i++) {
        struct topic *topic = waiter->links[i].topic;
        /* A parked call has left its lines and pins its topics instead. */
        if (!waiter->parked)
            line_remove(&waiter->links[i]);
        line_unreserve(core, topic);
        if (waiter->parked)
            bi_topic_unpin(core, topic);
        else
            bi_topic_cleanup(core, topic);
    }

    if (waiter->watch != NULL) {
        TAILQ_REMOVE(&waiter->watch->waiters, waiter, watching);
        free_watch_if_unused(core, waiter->watch);
    }
    if (waiter->feed != NULL) {
        assert(waiter->feed->reader == waiter);
        waiter->feed->reader = NULL;
    }
}

void bi_waiter_park(struct core *core, struct waiter *waiter)
{
    assert(!waiter->parked && waiter->link_count > 0);

    waiter->parked = true;
    core->waiters.parked++;
    bi_timers_clear(&core->wait_timers, &waiter->timer);

    core->work += waiter->link_count;
    for (size_t i = 0; i < waiter->link_count; i++) {
        /* The pin first: outside the line the call does not keep its topic. */
        bi_topic_pin(waiter->links[i].topic);
        line_remove(&waiter->links[i]);
    }
}

void bi_waiter_resume(struct core *core, struct waiter *waiter)
{
    assert(waiter->parked && core->waiters.parked > 0);
    waiter->parked = false;
    core->waiters.parked--;

    if (waiter->until != BI_NEVER)
        bi_timers_set(&core->wait_timers, &waiter->timer, waiter->until);

    core->work += waiter->link_count;
    for (size_t i = 0; i < waiter->link_count; i++) {
        line_insert(&waiter->links[i]);
        bi_topic_unpin(core, waiter->links[i].topic);
        /* Jobs may have become ready while the call was out of the line. */
        bi_waiters_wake(core, waiter->links[i].topic);
    }
}

void bi_waiter_remove(struct core *core, struct waiter *waiter)
{
    waiter->op->private_.waiter = NULL;
    detach(core, waiter);
    bide_buf_unref(waiter->holder);
    bi_alloc_free(&core->alloc, waiter);
}

void bi_waiter_complete(struct core *core, struct waiter *waiter, int code)
{
    bide_op *op = waiter->op;
    /* A parked call was completed when it was parked; the caller replies. */
    assert(op->private_.waiter == waiter && !waiter->parked);

    bi_waiter_remove(core, waiter);
    op->private_.status = bi_core_error_code(op, code);

    /* The op may have a hold from before it waited: the finish of a finish_and_reserve. */
    if (core->hold > op->private_.hold)
        op->private_.hold = core->hold;
    core->complete(core->ctx, op);
}

static void fill_wait_result(bide_op *op, bide_state state, bool finished, bide_buf *result)
{
    op->wait.state = state;
    op->wait.finished = finished || state == BIDE_STATE_DONE;
    op->wait.result = state == BIDE_STATE_DONE && result != NULL ? bide_buf_ref(result) : NULL;
}

/* True for a call whose job has ended, and which has yet to be completed. */
static bool has_ended(const struct waiter *waiter)
{
    return waiter->watch != NULL && waiter->watch->job == 0;
}

/* Completes a call with the code, or with the outcome of what it waits for if that has ended. */
static void complete_or_notify(struct core *core, struct waiter *waiter, int code)
{
    if (waiter->op->kind == BIDE_OP_RECOVERED && !core->recovering)
        code = BIDE_OK;
    if (!has_ended(waiter)) {
        bi_waiter_complete(core, waiter, code);
        return;
    }

    /* The reply shows the last change of the job. The hold of the running op stays its own. */
    const struct watch *watch = waiter->watch;
    uint64_t hold = core->hold;
    core->hold = watch->hold;
    fill_wait_result(waiter->op, watch->state, watch->finished, watch->result);
    bi_waiter_complete(core, waiter, BIDE_OK);
    core->hold = hold;
}

void bi_fire_waiter(struct core *core, struct timer *timer)
{
    complete_or_notify(core, BI_TIMER_OWNER(timer, struct waiter, timer), BIDE_TIMED_OUT);
}

bool bi_waiter_cancel(struct core *core, bide_op *op)
{
    struct waiter *waiter = op->private_.waiter;
    /* A parked call was completed already; the caller waits for its bodies. */
    if (waiter == NULL || waiter->parked)
        return false;
    core->hold = 0;
    bi_waiter_complete(core, waiter, BIDE_CANCELLED);
    return true;
}

bool bi_waiter_close_all(struct core *core, unsigned budget)
{
    struct waiters *all = &core->waiters;
    assert(!core->journal.rollback.running);

    core->hold = 0;
    core->closed = true;

    const uint64_t work_limit = core->work + STEP_WORK;
    for (; budget > 0 && all->count > all->parked && core->work < work_limit; budget--) {
        struct waiter *first = TAILQ_FIRST(&all->all);
        if (!first->parked) {
            complete_or_notify(core, first, BIDE_CLOSED);
            continue;
        }
        /* It was completed already: move it behind those that have to be completed. */
        unlink_waiter(all, first);
        TAILQ_INSERT_TAIL(&all->all, first, all);
    }

    return all->count > all->parked;
}

/* ---- serving reserves ---- */

static int64_t first_number(const struct topic *topic)
{
    return (int64_t)topic->line.entries[0].number;
}

void bi_waiters_wake(struct core *core, struct topic *topic)
{
    if (topic->line.count == 0 || !bi_topic_is_open(topic))
        return;
    /* A resumed call may have waited longer than the one for which the topic was inserted. */
    if (!topic->serve.set || topic->serve.due > first_number(topic))
        bi_timers_set(&core->serving, &topic->serve, first_number(topic));
}

/*
 * Returns, of the topics with jobs to grant, the one whose first call has waited longest; NULL for
 * none. The number under which a topic was inserted may be that of a call that has left, so it may
 * be too small, never too large. It is corrected here, when the topic reaches the top of the heap.
 */
static struct topic *longest_waiting(struct core *core)
{
    while (core->serving.heap.count > 0) {
        struct timer *entry = core->serving.heap.entries[0].timer;
        struct topic *topic = BI_TIMER_OWNER(entry, struct topic, serve);

        if (topic->line.count == 0 || !bi_topic_is_open(topic)) {
            bi_timers_clear(&core->serving, entry);
            bi_topic_cleanup(core, topic);
        } else if (entry->due != first_number(topic)) {
            bi_timers_set(&core->serving, entry, first_number(topic));
        } else {
            return topic;
        }
    }
    return NULL;
}

/*
 * Grants jobs to a waiting call and completes it. If bodies are missing the call is parked: it
 * is completed with BI_BODY_MISSING, and the reader thread supplies the rest. Returns the number
 * of jobs.
 */
static size_t serve_waiter(struct core *core, struct waiter *waiter)
{
    assert(waiter->args != NULL && !waiter->parked);
    core->body_missing = false;
    size_t taken =
        bi_op_reserve_take(core, waiter->args, waiter->holder, waiter->links, waiter->link_count);
    if (taken == 0)
        return 0;

    bide_op *op = waiter->op;
    if (core->hold > op->private_.hold)
        op->private_.hold = core->hold;

    if (!core->body_missing) {
        bi_lease_start_if_committed(core, op);
        bi_waiter_complete(core, waiter, BIDE_OK);
        return taken;
    }

    bi_waiter_park(core, waiter);
    op->private_.flags |= BI_BODY_MISSING;
    op->private_.status = BIDE_OK;
    core->complete(core->ctx, op);
    return taken;
}

/* Completes calls whose job has ended, as many as this step may. */
static void notify_ended(struct core *core)
{
    struct waiters *all = &core->waiters;
    const struct watch *watch;
    while ((watch = TAILQ_FIRST(&all->ended)) != NULL) {
        if (all->notified == NOTIFY_MAX) {
            core->unserved = true;
            return;
        }
        all->notified++;
        core->work += OP_WORK;
        complete_or_notify(core, TAILQ_FIRST(&watch->waiters), BIDE_OK);
    }
}

/* Visits calls after the end of recovery, as many as this step may. */
static void notify_recovered(struct core *core)
{
    struct waiters *all = &core->waiters;
    uint64_t hold = core->hold;

    core->hold = 0;
    for (; all->recovered_next != NULL && all->notified < NOTIFY_MAX; all->notified++) {
        struct waiter *waiter = all->recovered_next;
        all->recovered_next = TAILQ_NEXT(waiter, all);
        core->work += OP_WORK;
        if (waiter->op->kind == BIDE_OP_RECOVERED)
            bi_waiter_complete(core, waiter, BIDE_OK);
    }
    core->hold = hold;

    if (all->recovered_next != NULL)
        core->unserved = true;
}

void bi_waiters_notify_recovered(struct core *core)
{
    assert(!core->recovering); /* a later call does not wait */
    core->waiters.recovered_next = TAILQ_FIRST(&core->waiters.all);
    notify_recovered(core);
}

void bi_waiters_serve(struct core *core)
{
    const struct topic *topic;
    const uint64_t work_limit = core->work + STEP_WORK;

    core->unserved = false;
    core->serve_retry_at = BI_NEVER;
    notify_ended(core);
    notify_recovered(core);
    for (int i = 0; (topic = longest_waiting(core)) != NULL; i++) {
        if (i == SERVE_MAX || core->work >= work_limit) {
            core->unserved = true;
            return;
        }

        struct waiter *waiter = topic->line.entries[0].link->waiter;

        /* Each call has its own hold. The caller's op, which is about to complete, keeps the one
         * it had. */
        uint64_t hold = core->hold;
        core->hold = 0;
        size_t taken = serve_waiter(core, waiter);
        core->hold = hold;

        /* Out of memory. The topic stays in core->serving and is retried after the next op or
         * event, or after a pause if there is none. */
        if (taken == 0 && bi_topic_is_open(topic)) {
            core->serve_retry_at = core->now.mono + BI_NOMEM_RETRY_US;
            return;
        }
    }
}

static void roll_back_waiter(struct core *core, struct waiter *waiter)
{
    bide_op *op = waiter->op;
    bool undone = op->private_.hold > core->journal.committed;

    /* A parked call was completed already; bi_body_fetch_supply() finds out which of its jobs
     * are left. */
    if (waiter->parked)
        return;

    op->private_.hold = 0;
    /* The end of its job is undone. It fails like those that were completed before it. */
    if (has_ended(waiter) && waiter->watch->hold > core->journal.committed) {
        bi_waiter_complete(core, waiter, BIDE_EIO);
        return;
    }
    bide_finish_item *finish = bi_op_finish_part(op);
    if (!undone || finish == NULL)
        return;

    /* The finish was undone: the op fails as a whole. */
    if (finish->status == BIDE_OK)
        finish->status = BIDE_EIO;
    bi_waiter_complete(core, waiter, BIDE_EIO);
}

unsigned bi_waiters_rollback(struct core *core, unsigned budget)
{
    struct waiters *all = &core->waiters;
    const uint64_t work_limit = core->work + STEP_WORK;
    for (; all->rollback_next != NULL && budget > 0 && core->work < work_limit; budget--) {
        struct waiter *waiter = all->rollback_next;
        all->rollback_next = TAILQ_NEXT(waiter, all);
        roll_back_waiter(core, waiter);
    }

    /* Calls with many topics may use up the step's work before its budget. Returning a rest
     * would then mean that all waiters were visited. */
    return all->rollback_next != NULL ? 0 : budget;
}

/* ---- waiting for the end of a job ---- */

void bi_waiters_notify(struct core *core, struct job *job, bide_state state, bool finished)
{
    assert(state != BIDE_STATE_DELAYED && state != BIDE_STATE_READY &&
           state != BIDE_STATE_RESERVED);
    assert(!finished || state == BIDE_STATE_GONE);

    struct job_ext *ext = ext_of(core, job);
    struct watch *watch = ext == NULL ? NULL : ext->watch;
    if (watch == NULL)
        return;

    uint64_t hold = core->hold;
    bi_journal_depend_on(core, job->id);
    watch->hold = core->hold;
    core->hold = hold;

    ext->watch = NULL;
    watch->job = 0;
    watch->state = state;
    watch->finished = finished;
    if (state == BIDE_STATE_DONE && ext->result != NULL)
        watch->result = bide_buf_ref(ext->result);

    TAILQ_INSERT_TAIL(&core->waiters.ended, watch, ended);
    notify_ended(core);
}

int bi_exec_wait(struct core *core, bide_op *op)
{
    struct job *job = bi_job_find(core, op->wait.id);
    bide_state state = job == NULL ? BIDE_STATE_GONE : (bide_state)job->state;

    if (state == BIDE_STATE_GONE || state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE) {
        const struct job_ext *ext = job == NULL ? NULL : ext_of(core, job);
        fill_wait_result(op, state, false, ext == NULL ? NULL : ext->result);
        return BIDE_OK;
    }

    if (op->wait.timeout_ms == 0)
        return bi_core_error_code(op, BIDE_TIMED_OUT);

    struct watch *watch = get_watch(core, job);
    if (watch == NULL)
        return bi_core_error_code(op, BIDE_ENOMEM);

    int code = bi_waiter_add(core, op, op->wait.timeout_ms, NULL, 0);
    struct waiter *waiter = op->private_.waiter;
    if (waiter == NULL) {
        free_watch_if_unused(core, watch);
        return code;
    }
    waiter->watch = watch;
    TAILQ_INSERT_TAIL(&watch->waiters, waiter, watching);
    return code;
}
