/* SPDX-License-Identifier: MIT */
/* events.c - the feed of what happens to jobs. */
#include "contract.h"

#include <string.h>

/* A feed of the events of one topic and some kinds (0: all). */
static bide_subscription *follow(bide *queue, const char *topic, uint32_t kinds, uint32_t capacity)
{
    bide_subscription *feed = NULL;
    OK(bide_subscribe(queue, topic, kinds, capacity, &feed));
    CHECK(feed != NULL);
    return feed;
}

/* The next event of the feed must be this one. */
#define NEXT(queue, feed, kind, id, state) next_is(HERE, queue, feed, kind, id, state)
static void next_is(struct where at, bide *queue, bide_subscription *feed, bide_event_kind kind,
                    uint64_t id, bide_state state)
{
    bide_event event = {0};
    size_t count = 0;
    uint64_t lost = 42;
    int64_t now_ms = wall_ms();
    int code = bide_events(queue, feed, PATIENCE_MS, &event, 1, &count, &lost);
    check_code(at, code, BIDE_OK, "bide_events()");
    check_equal(at, (int64_t)count, 1, "the number of events");
    check_equal(at, (int64_t)lost, 0, "the number of lost events");
    check_text(at, bide_event_name(event.kind), strlen(bide_event_name(event.kind)),
               bide_event_name(kind), "the kind of the event");
    check_equal(at, (int64_t)event.id, (int64_t)id, "the job of the event");
    check_text(at, bide_state_name(event.state), strlen(bide_state_name(event.state)),
               bide_state_name(state), "the state after the event");
    check_between(at, event.at_ms, now_ms - 60000, wall_ms() + 1, "the moment of the event");
}

#define NO_MORE(queue, feed) no_more(HERE, queue, feed)
static void no_more(struct where at, bide *queue, bide_subscription *feed)
{
    bide_event event = {0};
    size_t count = 42;
    uint64_t lost = 42;
    int code = bide_events(queue, feed, 0, &event, 1, &count, &lost);
    check_code(at, code, BIDE_TIMED_OUT, "bide_events()");
    check_true(at, count == 42 && lost == 42 && event.id == 0, "an untouched answer");
}

static void put_emits_an_event(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put(queue, a, "before");
    bide_subscription *feed = follow(queue, a, 0, 0);
    uint64_t ready = put(queue, a, "body");
    NEXT(queue, feed, BIDE_EVENT_PUT, ready, BIDE_STATE_READY);
    uint64_t delayed = put_later(queue, a, 3600000);
    NEXT(queue, feed, BIDE_EVENT_PUT, delayed, BIDE_STATE_DELAYED);
    NO_MORE(queue, feed);
    OK(bide_unsubscribe(queue, feed));
}

static void end_of_a_delay_emits_an_event(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, a, 1U << BIDE_EVENT_READY, 0);
    int64_t start_us = clock_us();
    uint64_t id = put_later(queue, a, 30);
    NEXT(queue, feed, BIDE_EVENT_READY, id, BIDE_STATE_READY);
    NOT_BEFORE(start_us, 30);
    OK(bide_unsubscribe(queue, feed));
}

static void ops_of_a_holder_emit_events(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    /* Without the kind READY, which may follow whatever makes a job ready again. */
    bide_subscription *feed = follow(queue, a, ~(1U << BIDE_EVENT_READY) & 0x3fff, 0);
    uint64_t token = take(queue, a)->token;
    NEXT(queue, feed, BIDE_EVENT_RESERVED, id, BIDE_STATE_RESERVED);
    OK(bide_release(queue, id, token, BIDE_KEEP, 0));
    NEXT(queue, feed, BIDE_EVENT_RELEASED, id, BIDE_STATE_READY);
    token = take_job(queue, id)->token;
    NEXT(queue, feed, BIDE_EVENT_RESERVED, id, BIDE_STATE_RESERVED);
    OK(bide_give_back(queue, id, token));
    NEXT(queue, feed, BIDE_EVENT_RELEASED, id, BIDE_STATE_READY);
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 3600000));
    NEXT(queue, feed, BIDE_EVENT_RESERVED, id, BIDE_STATE_RESERVED);
    NEXT(queue, feed, BIDE_EVENT_RELEASED, id, BIDE_STATE_DELAYED);
    OK(bide_fail(queue, id, 0, "text", 3600000, NULL, NULL));
    NEXT(queue, feed, BIDE_EVENT_FAILED, id, BIDE_STATE_DELAYED);
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    NEXT(queue, feed, BIDE_EVENT_BURIED, id, BIDE_STATE_BURIED);
    OK(bide_done(queue, id, 0, NULL, 0, 3600000));
    NEXT(queue, feed, BIDE_EVENT_DONE, id, BIDE_STATE_DONE);
    OK(bide_delete(queue, id, 0));
    NEXT(queue, feed, BIDE_EVENT_DELETED, id, BIDE_STATE_GONE);
    NO_MORE(queue, feed);
    OK(bide_unsubscribe(queue, feed));
}

static void administrative_ops_emit_events(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_in(queue, a, BIDE_STATE_BURIED), other = put_in(queue, a, BIDE_STATE_BURIED);
    bide_subscription *feed = follow(queue, a, ~(1U << BIDE_EVENT_READY) & 0x3fff, 0);
    OK(bide_kick(queue, a, 1, NULL));
    NEXT(queue, feed, BIDE_EVENT_KICKED, id, BIDE_STATE_READY);
    OK(bide_kick_job(queue, other));
    NEXT(queue, feed, BIDE_EVENT_KICKED, other, BIDE_STATE_READY);
    bide_update_args changes = {id, 7, BIDE_KEEP, BIDE_KEEP, BIDE_KEEP, {NULL, 0}, {0}};
    OK(bide_update(queue, &changes));
    NEXT(queue, feed, BIDE_EVENT_UPDATED, id, BIDE_STATE_READY);
    OK(bide_cancel(queue, other));
    NEXT(queue, feed, BIDE_EVENT_DELETED, other, BIDE_STATE_GONE);
    uint64_t token = take_job(queue, id)->token;
    NEXT(queue, feed, BIDE_EVENT_RESERVED, id, BIDE_STATE_RESERVED);
    OK(bide_cancel(queue, id));
    NEXT(queue, feed, BIDE_EVENT_CANCEL_WANTED, id, BIDE_STATE_RESERVED);
    OK(bide_delete(queue, id, token));
    NEXT(queue, feed, BIDE_EVENT_DELETED, id, BIDE_STATE_GONE);
    uint64_t third = put(queue, a, "body");
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    NEXT(queue, feed, BIDE_EVENT_PUT, third, BIDE_STATE_READY);
    NEXT(queue, feed, BIDE_EVENT_DELETED, third, BIDE_STATE_GONE);
    NO_MORE(queue, feed);
    OK(bide_unsubscribe(queue, feed));
}

static void replace_emits_a_delete_and_a_put(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t old = put_key(queue, a, "k");
    bide_subscription *feed = follow(queue, a, 0, 0);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("k");
    options.conflict = BIDE_REPLACE;
    uint64_t made = put_as(queue, a, "new", &options);
    NEXT(queue, feed, BIDE_EVENT_DELETED, old, BIDE_STATE_GONE);
    NEXT(queue, feed, BIDE_EVENT_PUT, made, BIDE_STATE_READY);
    OK(bide_unsubscribe(queue, feed));
}

static void timed_transitions_emit_events(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed =
        follow(queue, a,
               1U << BIDE_EVENT_TIMED_OUT | 1U << BIDE_EVENT_EXPIRED | 1U << BIDE_EVENT_RETIRED, 0);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 20;
    uint64_t id = put_as(queue, a, "body", &options);
    take(queue, a);
    NEXT(queue, feed, BIDE_EVENT_TIMED_OUT, id, BIDE_STATE_READY);
    options.max_retries = 0;
    id = put_as(queue, a, "body", &options);
    take_job(queue, id);
    NEXT(queue, feed, BIDE_EVENT_TIMED_OUT, id, BIDE_STATE_BURIED);
    options.expires_at_ms = wall_ms() + 20;
    id = put_as(queue, a, "body", &options);
    NEXT(queue, feed, BIDE_EVENT_EXPIRED, id, BIDE_STATE_GONE);
    id = put(queue, a, "body");
    OK(bide_done(queue, id, 0, NULL, 0, 20));
    NEXT(queue, feed, BIDE_EVENT_RETIRED, id, BIDE_STATE_GONE);
    OK(bide_unsubscribe(queue, feed));
}

static void job_without_retries_left_emits_failed(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, a, 1U << BIDE_EVENT_FAILED, 0);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 0;
    uint64_t id = put_as(queue, a, "body", &options);
    OK(bide_fail(queue, id, take(queue, a)->token, "text", BIDE_KEEP, NULL, NULL));
    NEXT(queue, feed, BIDE_EVENT_FAILED, id, BIDE_STATE_BURIED);
    OK(bide_unsubscribe(queue, feed));
}

static void subscription_to_a_topic_has_only_its_events(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_subscription *one = follow(queue, b, 0, 0), *all = follow(queue, NULL, 0, 0);
    uint64_t in_a = put(queue, a, "body"), in_b = put(queue, b, "body");
    NEXT(queue, one, BIDE_EVENT_PUT, in_b, BIDE_STATE_READY);
    NO_MORE(queue, one);
    NEXT(queue, all, BIDE_EVENT_PUT, in_a, BIDE_STATE_READY);
    NEXT(queue, all, BIDE_EVENT_PUT, in_b, BIDE_STATE_READY);
    OK(bide_unsubscribe(queue, one));
    OK(bide_unsubscribe(queue, all));
}

static void subscription_to_kinds_has_only_these_events(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, a, 1U << BIDE_EVENT_PUT | 1U << BIDE_EVENT_DELETED, 0);
    uint64_t id = put(queue, a, "body");
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    OK(bide_kick_job(queue, id));
    OK(bide_delete(queue, id, take(queue, a)->token));
    NEXT(queue, feed, BIDE_EVENT_PUT, id, BIDE_STATE_READY);
    NEXT(queue, feed, BIDE_EVENT_DELETED, id, BIDE_STATE_GONE);
    NO_MORE(queue, feed);
    OK(bide_unsubscribe(queue, feed));
}

static void an_event_names_its_topic(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, NULL, 1U << BIDE_EVENT_PUT, 0);
    uint64_t id = put(queue, a, "body");
    bide_event event = {0};
    size_t count = 0;
    OK(bide_events(queue, feed, PATIENCE_MS, &event, 1, &count, NULL));
    EQ(count, 1);
    EQ(event.id, id);
    TEXT(event.topic, strlen(event.topic), a);
    OK(bide_unsubscribe(queue, feed));
}

static void slow_reader_gets_the_count_of_lost_events(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, a, 1U << BIDE_EVENT_PUT, 8);
    uint64_t ids[20];
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put(queue, a, "body");
    bide_event events[30];
    size_t got = 0;
    uint64_t lost_in_all = 0;
    for (int i = 0; i < 30 && (got == 0 || events[got - 1].id != ids[19]); i++) {
        size_t count = 0;
        uint64_t lost = 0;
        OK(bide_events(queue, feed, PATIENCE_MS, events + got, COUNT(events) - got, &count, &lost));
        CHECK(i == 0 || lost == 0);
        got += count;
        lost_in_all += lost;
    }
    EQ(got, 8);
    EQ(lost_in_all, 12);
    for (size_t i = 0; i < 8; i++)
        EQ(events[i].id, ids[12 + i]);
    uint64_t id = put(queue, a, "body");
    NEXT(queue, feed, BIDE_EVENT_PUT, id, BIDE_STATE_READY);
    OK(bide_unsubscribe(queue, feed));
}

static void default_capacity_is_1024_events(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, a, 0, 0);
    static bide_event events[2000];
    static bide_put_item items[600];
    for (int i = 0; i < 2; i++) {
        for (size_t j = 0; j < COUNT(items); j++)
            items[j] = (bide_put_item){.topic = slice(a)};
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    }
    size_t count = 0;
    uint64_t lost = 0;
    OK(bide_events(queue, feed, PATIENCE_MS, events, COUNT(events), &count, &lost));
    EQ(count, 1024);
    EQ(lost, 1200 - 1024);
    OK(bide_unsubscribe(queue, feed));
}

static void reader_gets_at_most_its_maximum(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, a, 0, 0);
    uint64_t ids[5];
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put(queue, a, "body");
    bide_event events[3] = {0};
    size_t got = 0;
    for (int i = 0; i < 5 && got < COUNT(ids); i++) {
        size_t count = 0;
        OK(bide_events(queue, feed, PATIENCE_MS, events, COUNT(events), &count, NULL));
        CHECK(count >= 1 && count <= COUNT(events));
        for (size_t j = 0; j < count; j++)
            EQ(events[j].id, ids[got++]);
    }
    EQ(got, COUNT(ids));
    OK(bide_unsubscribe(queue, feed));
}

static void a_reader_waits_for_its_whole_timeout(void)
{
    bide *queue = open_queue("");
    bide_subscription *feed = follow(queue, fresh_topic("a"), 0, 0);
    bide_event event;
    size_t count = 0;
    int64_t start_us = clock_us();
    CODE(bide_events(queue, feed, 40, &event, 1, &count, NULL), BIDE_TIMED_OUT);
    NOT_BEFORE(start_us, 40);
    OK(bide_unsubscribe(queue, feed));
}

static void a_waiting_reader_is_woken_or_cancelled(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_subscription *feed = follow(queue, a, 0, 0);
    bide_event event = {0};
    struct waiter *reader = new_op(BIDE_OP_EVENTS, cq);
    reader->op.subscription.handle = feed;
    reader->op.subscription.timeout_ms = BIDE_FOREVER;
    reader->op.subscription.events = &event;
    reader->op.subscription.event_max = 1;
    submit_pending(queue, reader);
    EQ(stats_of(queue).watching, 1);
    uint64_t id = put(queue, a, "body");
    completes(reader, BIDE_OK);
    EQ(reader->op.subscription.count, 1);
    EQ(event.id, id);

    struct waiter *again = new_op(BIDE_OP_EVENTS, cq);
    again->op.subscription = reader->op.subscription;
    submit_pending(queue, again);
    OK(bide_unsubscribe(queue, feed));
    completes(again, BIDE_CANCELLED);
    EQ(stats_of(queue).watching, 0);
}

static void subscriptions_are_independent(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *feeds[3];
    for (size_t i = 0; i < COUNT(feeds); i++)
        feeds[i] = follow(queue, a, 0, 0);
    uint64_t id = put(queue, a, "body");
    OK(bide_unsubscribe(queue, feeds[1]));
    NEXT(queue, feeds[0], BIDE_EVENT_PUT, id, BIDE_STATE_READY);
    NEXT(queue, feeds[2], BIDE_EVENT_PUT, id, BIDE_STATE_READY);
    NO_MORE(queue, feeds[0]);
    OK(bide_unsubscribe(queue, feeds[0]));
    OK(bide_unsubscribe(queue, feeds[2]));
}

static void subscription_continues_when_others_end(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_subscription *puts = follow(queue, a, 1U << BIDE_EVENT_PUT, 0);
    bide_subscription *all = follow(queue, a, 0, 0);
    bide_subscription *deletes = follow(queue, a, 1U << BIDE_EVENT_DELETED, 0);
    OK(bide_unsubscribe(queue, all));
    uint64_t id = put(queue, a, "body");
    OK(bide_delete(queue, id, 0));
    NEXT(queue, puts, BIDE_EVENT_PUT, id, BIDE_STATE_READY);
    NEXT(queue, deletes, BIDE_EVENT_DELETED, id, BIDE_STATE_GONE);
    NO_MORE(queue, puts);
    NO_MORE(queue, deletes);
    OK(bide_unsubscribe(queue, puts));
    OK(bide_unsubscribe(queue, deletes));
}

static void ended_subscription_is_rejected_while_another_is_open(void)
{
    bide *queue = open_queue("");
    for (int i = 0; i < 20; i++) {
        bide_subscription *ended = follow(queue, fresh_topic("a"), 0, 0);
        bide_event event;
        size_t count = 0;
        OK(bide_unsubscribe(queue, ended));
        bide_subscription *feed = follow(queue, fresh_topic("b"), 0, 0);
        CODE(bide_events(queue, ended, 0, &event, 1, &count, NULL), BIDE_EINVAL);
        CODE(bide_unsubscribe(queue, ended), BIDE_EINVAL);
        OK(bide_unsubscribe(queue, feed));
    }
}

static const struct test tests[] = {
    TEST(ended_subscription_is_rejected_while_another_is_open),
    TEST(put_emits_an_event),
    TEST(end_of_a_delay_emits_an_event),
    TEST(ops_of_a_holder_emit_events),
    TEST(administrative_ops_emit_events),
    TEST(replace_emits_a_delete_and_a_put),
    TEST(timed_transitions_emit_events),
    TEST(job_without_retries_left_emits_failed),
    TEST(subscription_to_a_topic_has_only_its_events),
    TEST(subscription_to_kinds_has_only_these_events),
    TEST(an_event_names_its_topic),
    TEST(slow_reader_gets_the_count_of_lost_events),
    TEST(default_capacity_is_1024_events),
    TEST(reader_gets_at_most_its_maximum),
    TEST(a_reader_waits_for_its_whole_timeout),
    TEST(a_waiting_reader_is_woken_or_cancelled),
    TEST(subscriptions_are_independent),
    TEST(subscription_continues_when_others_end),
};

const struct theme events_theme = {"events", tests, COUNT(tests)};
