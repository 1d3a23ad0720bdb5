/* SPDX-License-Identifier: MIT */
/* The ring of a feed, which has memory only for the events that are in it. */
#include "core_fixture.h"

#include "core/event.h"
#include "util/hash.h"

static bide_subscription *feed;
static uint64_t made;      /* events so far */
static uint64_t heard;     /* the number of the last one that was read */
static uint64_t told_lost; /* those that the reader was told of */

static void open_feed_with(uint32_t capacity, uint64_t max_memory, bool journal)
{
    core_fixture_init(&w);
    w.options.limits.max_memory = max_memory;
    w.options.journal = journal;
    core_fixture_start(&w);
    made = heard = told_lost = 0;
    bide_op op = {.kind = BIDE_OP_SUBSCRIBE,
                  .subscription = {.kinds = 1u << BIDE_EVENT_PUT, .capacity = capacity}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    feed = op.subscription.handle;
}

static void open_feed(uint32_t capacity, uint64_t max_memory)
{
    open_feed_with(capacity, max_memory, false);
}

static uint64_t memory(void)
{
    bide_stats stats = {0};
    bide_op op = {.kind = BIDE_OP_STATS, .stats = {&stats}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    return stats.memory_bytes;
}

/* The number of an event is the id of its job, which goes again. */
static void make_events(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        bide_op op = {.kind = BIDE_OP_PUT, .put = {.topic = text("a"), .body = text("x")}};
        assert_int_equal(run(&w, &op), BIDE_OK);
        assert_int_equal(op.put.id, ++made);
        bide_op end = {.kind = BIDE_OP_DELETE, .lease = {.id = made}};
        assert_int_equal(run(&w, &end), BIDE_OK);
    }
}

/* Reads up to so many; answers how many there were. */
static size_t read_events(size_t max)
{
    static bide_event events[2000];
    bide_op op = {.kind = BIDE_OP_EVENTS,
                  .subscription = {.handle = feed, .events = events, .event_max = max}};
    if (run(&w, &op) != BIDE_OK)
        return 0;
    told_lost += op.subscription.lost;
    for (size_t i = 0; i < op.subscription.count; i++) {
        assert_true(events[i].id > heard);
        assert_true(i == 0 || events[i].id == heard + 1);
        heard = events[i].id;
    }
    return op.subscription.count;
}

static void close_feed(void)
{
    bide_op op = {.kind = BIDE_OP_UNSUBSCRIBE, .subscription = {.handle = feed}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    core_fixture_close(&w);
}

/* Compares the feed with a count of what is in it. */
static void read_and_write(uint32_t capacity)
{
    struct bi_random random = {capacity};
    uint64_t kept = 0, lost = 0;
    open_feed(capacity, 0);
    for (int i = 0; i < 300; i++) {
        size_t more = bi_random_below(&random, capacity < 200 ? 2 * capacity + 1 : 300);
        make_events(more);
        kept += more;
        if (kept > capacity) {
            lost += kept - capacity;
            kept = capacity;
        }
        size_t max = 1 + bi_random_below(&random, 300);
        size_t wanted = kept < max ? (size_t)kept : max;
        assert_int_equal(read_events(max), wanted);
        kept -= wanted;
        if (wanted > 0)
            assert_int_equal(told_lost, lost);
        assert_int_equal(heard, made - kept);
    }
    close_feed();
}

static void chunked_ring_matches_a_naive_count(void **state)
{
    static const uint32_t capacities[] = {1, 2, 63, 64, 65, 127, 128, 129, 1000, 1000000};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(capacities); i++)
        read_and_write(capacities[i]);
}

static void subscription_uses_memory_for_queued_events_only(void **state)
{
    (void)state;
    open_feed(1000000, 0);
    uint64_t before = memory();
    assert_true(before < 1 << 20);
    make_events(10000);
    assert_true(memory() > before + 10000 * sizeof(bide_event));
    while (read_events(1000) > 0)
        continue;
    assert_int_equal(heard, made);
    assert_int_equal(told_lost, 0);
    assert_int_equal(memory(), before);
    close_feed();
}

static void members_of_later_versions_are_zero(void **state)
{
    (void)state;
    static const bide_event zero;
    bide_event event;
    open_feed(10, 0);
    make_events(1);

    memset(&event, 0xff, sizeof(event));
    bide_op op = {.kind = BIDE_OP_EVENTS,
                  .subscription = {.handle = feed, .events = &event, .event_max = 1}};
    assert_int_equal(run(&w, &op), BIDE_OK);
    assert_int_equal(event.id, 1);
    assert_memory_equal(event.room_, zero.room_, sizeof(event.room_));
    close_feed();
}

static void subscriptions_use_a_part_of_max_memory(void **state)
{
    enum { MAX = 4 << 20 };
    (void)state;
    open_feed(1000000, MAX);
    for (int i = 0; i < 50; i++) {
        make_events(1000);
        assert_true(memory() < MAX / 2);
    }
    uint64_t seen = 0;
    for (size_t count; (count = read_events(1000)) > 0;)
        seen += count;
    assert_int_equal(heard, made);
    assert_int_equal(seen + told_lost, made);
    assert_true(seen > MAX / 16 / sizeof(bide_event));
    close_feed();
}

/* ---- events that are not stored ---- */

/* Puts so many jobs, each an event, and stores nothing. */
static void put_jobs(size_t count)
{
    for (size_t i = 0; i < count; i++)
        assert_int_equal(put(&w, "a"), ++made);
}

/* Events that cannot be stored go, and so does the memory that they took. The ring begins behind
 * the events that were read before. */
static void undo_events(uint32_t capacity, size_t read, size_t kept, size_t undone)
{
    open_feed_with(capacity, 0, true);
    put_jobs(read);
    commit(&w);
    while (read_events(1000) > 0)
        continue;
    uint64_t before = 0;
    for (int i = 0; i < 3; i++) {
        put_jobs(kept);
        commit(&w);
        before = memory();
        put_jobs(undone);
        fail_commit(&w);
        assert_int_equal(memory(), before);
        made -= undone;
        while (read_events(1000) > 0)
            continue;
        assert_int_equal(heard, made);
        made += undone; /* their ids are not given again */
        heard = made;
    }
    assert_int_equal(told_lost, 0);
    close_feed();
}

static void rolled_back_events_leave_no_memory_behind(void **state)
{
    (void)state;
    undo_events(100000, 0, 0, 1000);
    undo_events(100000, 0, 1, 1000);
    undo_events(100000, 30, 34, 64);
    undo_events(100000, 100, 1000, 1);
    undo_events(1000, 990, 5, 990);
    undo_events(1001, 990, 0, 1000);
    undo_events(1000, 700, 64, 900);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(chunked_ring_matches_a_naive_count),
        cmocka_unit_test(subscription_uses_memory_for_queued_events_only),
        cmocka_unit_test(members_of_later_versions_are_zero),
        cmocka_unit_test(subscriptions_use_a_part_of_max_memory),
        cmocka_unit_test(rolled_back_events_leave_no_memory_behind),
    };
    return cmocka_run_group_tests_name("feed", tests, NULL, NULL);
}
