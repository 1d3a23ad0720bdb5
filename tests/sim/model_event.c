/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>
#include <string.h>

static void drop_first(struct mfeed *feed)
{
    feed->count--;
    memmove(&feed->events[0], &feed->events[1], feed->count * sizeof feed->events[0]);
}

/* One event of a purge is lost: it is not known which, nor so which ones are left. */
static void forget_ids(struct mfeed *feed, uint64_t purge)
{
    if (purge == 0)
        return;
    feed->purge_lost = purge;
    for (size_t i = 0; i < feed->count; i++)
        if (feed->events[i].purge == purge)
            feed->events[i].id = 0;
}

static void add(struct mfeed *feed, struct mevent event)
{
    if (feed->count == feed->capacity) {
        forget_ids(feed, feed->events[0].purge);
        drop_first(feed);
        feed->lost++;
    }
    if (event.purge != 0 && event.purge == feed->purge_lost)
        event.id = 0;
    feed->events = sim_grow(feed->events, feed->count, &feed->room, sizeof event);
    feed->events[feed->count++] = event;
}

void model_event(struct model *m, const struct mjob *job, bide_event_kind kind, bide_state state)
{
    struct mevent event = {
        .batch = model_hold_of(m, job->batch),
        .purge = m->purging,
        .name = job->name,
        .kind = kind,
        .state = state,
        .id = job->id,
        .at_ms = m->now.wall / US_PER_MS,
    };
    for (struct mfeed *feed = m->feeds; feed != NULL; feed = feed->next)
        if ((feed->kinds & (1u << kind)) != 0 && (feed->name < 0 || feed->name == job->name))
            add(feed, event);
}

static bool has_something(const struct model *m, const struct mfeed *feed)
{
    return feed->count > 0 && feed->events[0].batch <= m->committed;
}

/* Of the events of one purge, brings the one that the core has first to the front. */
static void settle_purge(struct mfeed *feed, const bide_event *got)
{
    struct mevent *first = &feed->events[0];
    if (first->purge == 0)
        return;
    if (first->id == 0)
        first->id = got->id;
    for (size_t i = 0; i < feed->count; i++) {
        struct mevent other = feed->events[i];
        if (other.purge == first->purge && other.id == got->id) {
            feed->events[i] = *first;
            *first = other;
            return;
        }
    }
}

static void compare_event(struct model *m, const struct mevent *want, const bide_event *got)
{
    expect(m->sim, "event kind", want->kind, got->kind);
    expect(m->sim, "event state", want->state, got->state);
    expect(m->sim, "event id", (int64_t)want->id, (int64_t)got->id);
    expect(m->sim, "event at_ms", want->at_ms, got->at_ms);
    expect(m->sim, "event topic", want->name, sim_name_of(sim_slice(got->topic)));
}

/* The op has the first events that may be told. */
static void compare_events(struct model *m, struct mfeed *feed, const bide_op *op)
{
    size_t count = 0;
    while (has_something(m, feed) && count < op->subscription.event_max) {
        if (count < op->subscription.count)
            settle_purge(feed, &op->subscription.events[count]);
        if (count < op->subscription.count)
            compare_event(m, &feed->events[0], &op->subscription.events[count]);
        count++;
        drop_first(feed);
    }
    expect(m->sim, "count of events", (int64_t)count, (int64_t)op->subscription.count);
    expect(m->sim, "lost events", (int64_t)feed->lost, (int64_t)op->subscription.lost);
    if (count > 0)
        feed->lost = 0;
}

void model_serve_feeds(struct model *m)
{
    for (struct mfeed *feed = m->feeds; feed != NULL; feed = feed->next) {
        struct mwaiter *reader = feed->reader;
        if (reader == NULL || !has_something(m, feed))
            continue;
        if (!reader->sop->completed)
            sim_fail(m->sim, "a waiting events call was not given its events");
        compare_events(m, feed, &reader->sop->op);
        model_complete(m, reader, BIDE_OK, 0);
    }
}

void model_rollback_feeds(struct model *m)
{
    for (struct mfeed *feed = m->feeds; feed != NULL; feed = feed->next) {
        size_t kept = 0;
        for (size_t i = 0; i < feed->count; i++)
            if (feed->events[i].batch <= m->committed)
                feed->events[kept++] = feed->events[i];
        feed->count = kept;
    }
}

static struct mfeed *feed_of(struct model *m, const bide_subscription *handle)
{
    struct mfeed *feed = m->feeds;
    while (feed != NULL && feed->handle != handle)
        feed = feed->next;
    return feed;
}

void model_subscribe(struct model *m, struct sim_op *sop)
{
    model_answer(m, BIDE_OK);
    struct mfeed *feed = calloc(1, sizeof *feed);
    if (feed == NULL)
        abort();
    feed->handle = sop->op.subscription.handle;
    feed->name = sop->op.subscription.topic.size ? sim_name_of(sop->op.subscription.topic) : -1;
    feed->kinds = sop->op.subscription.kinds ? sop->op.subscription.kinds : UINT32_MAX;
    feed->capacity = sop->op.subscription.capacity ? sop->op.subscription.capacity : 1024;
    feed->next = m->feeds;
    m->feeds = feed;
}

void model_events(struct model *m, struct sim_op *sop)
{
    struct mfeed *feed = feed_of(m, sop->op.subscription.handle);
    if (feed == NULL || feed->reader != NULL) {
        model_answer(m, BIDE_EINVAL);
        return;
    }
    if (has_something(m, feed)) {
        model_answer(m, BIDE_OK);
        compare_events(m, feed, &sop->op);
    } else if (sop->op.subscription.timeout_ms == 0) {
        model_answer(m, BIDE_TIMED_OUT);
    } else if (m->waiter_count >= m->sim->options.limits.max_waiters) {
        model_answer(m, BIDE_TOO_MANY_WAITERS);
    } else {
        model_answer(m, BIDE_PENDING);
        feed->reader = model_add_waiter(m, sop, sop->op.subscription.timeout_ms);
        feed->reader->feed = feed;
    }
}

static void free_feed(struct mfeed *feed)
{
    free(feed->events);
    free(feed);
}

void model_unsubscribe(struct model *m, struct sim_op *sop)
{
    struct mfeed *feed = feed_of(m, sop->op.subscription.handle);
    model_answer(m, feed != NULL ? BIDE_OK : BIDE_EINVAL);
    if (feed == NULL)
        return;
    if (feed->reader != NULL)
        model_complete(m, feed->reader, BIDE_CANCELLED, 0);
    struct mfeed **link = &m->feeds;
    while (*link != feed)
        link = &(*link)->next;
    *link = feed->next;
    free_feed(feed);
}

void model_free_feeds(struct model *m)
{
    while (m->feeds != NULL) {
        struct mfeed *feed = m->feeds;
        m->feeds = feed->next;
        free_feed(feed);
    }
}
