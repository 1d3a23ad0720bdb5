/* SPDX-License-Identifier: MIT */
#include "core/waiter.h"

#include "core/state.h"

#include <assert.h>
#include <string.h>

/* Calls served after one op or event, or fewer that name many topics; the others are the next tick's. */
#define SERVE_MAX 1000

/* ---- lines ---- */

static void line_join(struct waiter_link *link)
{
    struct topic *topic = link->topic;
    link->next = NULL;
    link->prev = topic->waiting_tail;
    if (link->prev != NULL)
        link->prev->next = link;
    else
        topic->waiting_head = link;
    topic->waiting_tail = link;
    topic->waiting++;
}

/* Back to where it was: whoever came later stands behind. */
static void line_rejoin(struct waiter_link *link)
{
    struct topic *topic = link->topic;
    struct waiter_link *next = topic->waiting_head;
    while (next != NULL && next->waiter->number < link->waiter->number)
        next = next->next;
    if (next == NULL) {
        line_join(link);
        return;
    }
    link->next = next;
    link->prev = next->prev;
    next->prev = link;
    if (link->prev != NULL)
        link->prev->next = link;
    else
        topic->waiting_head = link;
    topic->waiting++;
}

static void line_leave(struct core *core, struct waiter_link *link)
{
    struct topic *topic = link->topic;
    if (link->prev != NULL)
        link->prev->next = link->next;
    else
        topic->waiting_head = link->next;
    if (link->next != NULL)
        link->next->prev = link->prev;
    else
        topic->waiting_tail = link->prev;
    topic->waiting--;
    bi_topic_cleanup(core, topic);
}

/* Those who watch a job: in order of arrival; the first one's prev is the last. */
static void watch_begin(struct core *core, struct waiter *waiter, struct job *job)
{
    struct more *more = more_of(core, job);
    struct waiter *first = more->watchers;
    waiter->job = job->self;
    waiter->next_watcher = NULL;
    if (first == NULL) {
        waiter->prev_watcher = waiter;
        more->watchers = waiter;
        return;
    }
    waiter->prev_watcher = first->prev_watcher;
    first->prev_watcher->next_watcher = waiter;
    first->prev_watcher = waiter;
}

static void watch_end(struct core *core, struct waiter *waiter)
{
    struct more *more = more_of(core, job_at(core, waiter->job));
    struct waiter *next = waiter->next_watcher;
    struct waiter *first = more->watchers;
    if (waiter == first)
        more->watchers = next;
    else
        waiter->prev_watcher->next_watcher = next;
    if (next != NULL)
        next->prev_watcher = waiter->prev_watcher;
    else if (waiter != first)
        first->prev_watcher = waiter->prev_watcher;
}

/* ---- beginning and ending ---- */

static struct waiter *make(struct core *core, size_t links)
{
    if (!bi_timers_enlist(&core->calls))
        return NULL;
    size_t size = sizeof(struct waiter) + links * sizeof(struct waiter_link);
    struct waiter *waiter = bi_alloc_get(&core->alloc, size);
    if (waiter == NULL) {
        bi_timers_delist(&core->calls);
        return NULL;
    }
    memset(waiter, 0, sizeof(*waiter));
    return waiter;
}

struct waiter *bi_waiter_add(struct core *core, bide_op *op, int64_t timeout_ms,
                             const struct waiter_link *links, size_t link_count, int *code)
{
    *code = core->closed                                      ? BIDE_CLOSED
            : core->waiters.count >= core->limits.max_waiters ? BIDE_TOO_MANY_WAITERS
                                                              : BIDE_OK;
    struct waiter *waiter = *code == BIDE_OK ? make(core, link_count) : NULL;
    if (waiter == NULL) {
        if (*code == BIDE_OK)
            *code = BIDE_ENOMEM;
        bi_op_limited(core, op, *code);
        return NULL;
    }
    waiter->op = op;
    waiter->number = core->next_call++;
    waiter->link_count = link_count;
    core->work += link_count;
    for (size_t i = 0; i < link_count; i++) {
        waiter->links[i] = links[i];
        waiter->links[i].waiter = waiter;
        line_join(&waiter->links[i]);
    }
    bi_timer_init(&waiter->timer, TIMER_WAITER, TIMER_CLASS_CALL, waiter->number);
    waiter->until = timeout_ms < 0 ? BI_NEVER : core->now.mono + us_of(timeout_ms);
    if (timeout_ms >= 0)
        bi_timers_set(&core->calls, &waiter->timer, waiter->until);
    waiter->prev = core->waiters.tail;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter;
    else
        core->waiters.head = waiter;
    core->waiters.tail = waiter;
    core->waiters.count++;
    core->waiters.reserving += link_count > 0;
    op->private_.waiter = waiter;
    *code = BIDE_PENDING;
    return waiter;
}

static void take_out(struct core *core, struct waiter *waiter)
{
    struct waiters *all = &core->waiters;
    if (all->undo_next == waiter)
        all->undo_next = waiter->next;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        all->head = waiter->next;
    if (waiter->next != NULL)
        waiter->next->prev = waiter->prev;
    else
        all->tail = waiter->prev;
    all->count--;
    all->parked -= waiter->parked;
    all->reserving -= waiter->link_count > 0;
    bi_timers_clear(&core->calls, &waiter->timer);
    bi_timers_delist(&core->calls);
    core->work += waiter->link_count;
    for (size_t i = 0; i < waiter->link_count; i++) {
        if (waiter->parked)
            bi_topic_unpin(core, waiter->links[i].topic);
        else
            line_leave(core, &waiter->links[i]);
    }
    if (waiter->job != 0)
        watch_end(core, waiter);
    if (waiter->feed != NULL)
        bi_feed_leave(waiter->feed, waiter);
}

void bi_waiter_park(struct core *core, struct waiter *waiter)
{
    waiter->parked = true;
    core->waiters.parked++;
    bi_timers_clear(&core->calls, &waiter->timer);
    core->work += waiter->link_count;
    for (size_t i = 0; i < waiter->link_count; i++) {
        bi_topic_pin(waiter->links[i].topic);
        line_leave(core, &waiter->links[i]);
    }
}

void bi_waiter_rejoin(struct core *core, struct waiter *waiter)
{
    waiter->parked = false;
    core->waiters.parked--;
    if (waiter->until != BI_NEVER)
        bi_timers_set(&core->calls, &waiter->timer, waiter->until);
    core->work += waiter->link_count;
    for (size_t i = 0; i < waiter->link_count; i++) {
        line_rejoin(&waiter->links[i]);
        bi_topic_unpin(core, waiter->links[i].topic);
        bi_waiters_mark(core, waiter->links[i].topic);
    }
}

void bi_waiter_drop(struct core *core, struct waiter *waiter)
{
    waiter->op->private_.waiter = NULL;
    take_out(core, waiter);
    bi_alloc_put(&core->alloc, waiter);
}

void bi_waiter_end(struct core *core, struct waiter *waiter, int code)
{
    bide_op *op = waiter->op;
    bi_waiter_drop(core, waiter);
    op->private_.status = bi_op_answer(op, code);
    /* What the op did before it began to wait (finish_and_reserve) counts, too. */
    if (core->hold > op->private_.hold)
        op->private_.hold = core->hold;
    core->complete(core->ctx, op);
}

void bi_fire_waiter(struct core *core, struct timer *timer)
{
    struct waiter *waiter =
        (struct waiter *)(void *)((char *)timer - offsetof(struct waiter, timer));
    bi_waiter_end(core, waiter, BIDE_TIMED_OUT);
}

bool bi_core_cancel(struct core *core, bide_op *op)
{
    struct waiter *waiter = op->private_.waiter;
    if (waiter == NULL || waiter->parked)
        return false;
    core->hold = 0;
    bi_waiter_end(core, waiter, BIDE_CANCELLED);
    return true;
}

/* A call for which bodies are read has its answer: it goes behind the others. */
static void move_back(struct waiters *all, struct waiter *waiter)
{
    if (waiter == all->tail)
        return;
    if (waiter->prev != NULL)
        waiter->prev->next = waiter->next;
    else
        all->head = waiter->next;
    waiter->next->prev = waiter->prev;
    waiter->prev = all->tail;
    waiter->next = NULL;
    all->tail->next = waiter;
    all->tail = waiter;
}

bool bi_core_close(struct core *core, unsigned budget)
{
    struct waiters *all = &core->waiters;
    assert(!core->journal.rollback.running);
    core->hold = 0;
    core->closed = true;
    const uint64_t enough = core->work + STEP_WORK;
    for (; budget > 0 && all->count > all->parked && core->work < enough; budget--) {
        if (all->head->parked)
            move_back(all, all->head);
        else
            bi_waiter_end(core, all->head, BIDE_CLOSED);
    }
    return all->count > all->parked;
}

/* ---- serving reserves ---- */

static int64_t first_in_line(const struct topic *topic)
{
    return (int64_t)topic->waiting_head->waiter->number;
}

void bi_waiters_mark(struct core *core, struct topic *topic)
{
    if (topic->waiting > 0 && !topic->serve.set && bi_topic_open(topic))
        bi_timers_set(&core->serving, &topic->serve, first_in_line(topic));
}

/*
 * Among the topics that have something to give, the one whose first in line has waited longest;
 * NULL for none. A topic may be marked with somebody who has left meanwhile, so with a number that
 * is too small, never too large: it is corrected when it comes up.
 */
static struct topic *longest_waiting(struct core *core)
{
    while (core->serving.heap.count > 0) {
        struct timer *mark = core->serving.heap.entries[0].timer;
        struct topic *topic =
            (struct topic *)(void *)((char *)mark - offsetof(struct topic, serve));
        if (topic->waiting == 0 || !bi_topic_open(topic)) {
            bi_timers_clear(&core->serving, mark);
            bi_topic_cleanup(core, topic);
        } else if (mark->due != first_in_line(topic)) {
            bi_timers_set(&core->serving, mark, first_in_line(topic));
        } else {
            return topic;
        }
    }
    return NULL;
}

/* Takes what is ready for a call that waits. One that lacks bodies has its answer, but not all of
 * it: it is told, and parked. */
static size_t take_for(struct core *core, struct waiter *waiter)
{
    core->lacking = false;
    size_t taken = bi_core_take_some(core, waiter->args, waiter->links, waiter->link_count);
    if (taken == 0)
        return 0;
    bide_op *op = waiter->op;
    if (core->hold > op->private_.hold)
        op->private_.hold = core->hold;
    if (!core->lacking) {
        bi_core_begin_leases(core, op);
        bi_waiter_end(core, waiter, BIDE_OK);
        return taken;
    }
    bi_waiter_park(core, waiter);
    op->private_.flags |= BI_LACKS_BODY;
    op->private_.status = BIDE_OK;
    core->complete(core->ctx, op);
    return taken;
}

void bi_waiters_serve(struct core *core)
{
    const struct topic *topic;
    const uint64_t enough = core->work + STEP_WORK;
    core->unserved = false;
    for (int i = 0; (topic = longest_waiting(core)) != NULL; i++) {
        if (i == SERVE_MAX || core->work >= enough) {
            core->unserved = true;
            return;
        }
        struct waiter *waiter = topic->waiting_head->waiter;
        uint64_t hold = core->hold;
        core->hold = 0;
        size_t taken = take_for(core, waiter);
        core->hold = hold;
        if (taken == 0 && bi_topic_open(topic)) /* out of memory */
            return;
    }
}

void bi_waiters_begin_rollback(struct core *core)
{
    core->waiters.undo_next = core->waiters.head;
}

static void undo_waiter(struct core *core, struct waiter *waiter)
{
    bide_op *op = waiter->op;
    bool undone = op->private_.hold > core->journal.committed;
    if (waiter->parked) /* it has its answer; the reading of its bodies decides what follows */
        return;
    op->private_.hold = 0;
    if (!undone || op->kind != BIDE_OP_FINISH_AND_RESERVE)
        return;
    if (op->finish_and_reserve.finish.status == BIDE_OK)
        op->finish_and_reserve.finish.status = BIDE_EIO;
    bi_waiter_end(core, waiter, BIDE_EIO);
}

unsigned bi_waiters_rollback(struct core *core, unsigned budget)
{
    struct waiters *all = &core->waiters;
    const uint64_t enough = core->work + STEP_WORK;
    for (; all->undo_next != NULL && budget > 0 && core->work < enough; budget--) {
        struct waiter *waiter = all->undo_next;
        all->undo_next = waiter->next;
        undo_waiter(core, waiter);
    }
    /* Calls with many topics may use up the work of a step before its budget: the rest is the next
     * slice's, and a budget that is left would tell the caller that all of them are undone. */
    return all->undo_next != NULL ? 0 : budget;
}

/* ---- those who wait for the end of a job ---- */

static void answer_watcher(bide_op *op, bide_state state, bool finished, const struct more *more)
{
    op->wait.state = state;
    op->wait.finished = finished || state == BIDE_STATE_DONE;
    op->wait.result = state == BIDE_STATE_DONE && more != NULL ? bide_buf_ref(more->result) : NULL;
}

void bi_waiters_tell(struct core *core, struct job *job, bide_state state, bool finished)
{
    assert(!finished || state == BIDE_STATE_GONE);

    struct more *more = more_of(core, job);
    if (more == NULL || more->watchers == NULL)
        return;
    uint64_t hold = core->hold;
    bi_journal_see(core, job->id);
    while (more->watchers != NULL) {
        answer_watcher(more->watchers->op, state, finished, more);
        bi_waiter_end(core, more->watchers, BIDE_OK);
    }
    core->hold = hold;
}

int bi_op_wait(struct core *core, bide_op *op)
{
    struct job *job = bi_core_find(core, op->wait.id);
    bide_state state = job == NULL ? BIDE_STATE_GONE : (bide_state)job->state;
    if (state == BIDE_STATE_GONE || state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE) {
        answer_watcher(op, state, false, job == NULL ? NULL : more_of(core, job));
        return BIDE_OK;
    }
    if (op->wait.timeout_ms == 0)
        return bi_op_answer(op, BIDE_TIMED_OUT);
    if (bi_job_more(core, job) == NULL)
        return bi_op_answer(op, BIDE_ENOMEM);
    int code;
    struct waiter *waiter = bi_waiter_add(core, op, op->wait.timeout_ms, NULL, 0, &code);
    if (waiter != NULL)
        watch_begin(core, waiter, job);
    return code;
}
