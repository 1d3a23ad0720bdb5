/* SPDX-License-Identifier: MIT */
/*
 * The announcer: when a worker announces itself, and what becomes of that without memory or a queue.
 */
#include "background_fixture.h"

#define INTERVAL_US INT64_C(15000000)
#define ANNOUNCE    (fixture->background->ops[BACKGROUND_ANNOUNCE].announce)

static struct background_fixture *fixture;
static int64_t start;

/* The allocation that fails, 1 being the next one; 0: none. */
static int countdown;

void *__real_malloc(size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
    return countdown > 0 && --countdown == 0 ? NULL : __real_malloc(size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return countdown > 0 && --countdown == 0 ? NULL : __real_realloc(memory, size);
}

static int set_up(void **state)
{
    (void)state;
    fixture = background_fixture_new();
    start = bi_clock_boot();
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    background_fixture_free(fixture);
    return 0;
}

static size_t announcements(void)
{
    return stub_count(fixture->stub, BIDE_OP_ANNOUNCE, 0);
}

static int64_t run_at(int64_t now)
{
    bide_cq_drain(fixture->background->cq, 0);
    bi_announcer_complete(fixture->background);
    return bi_announcer_run(fixture->background, now);
}

static void stop(void)
{
    atomic_store(&fixture->background->quit, true);
    bi_announcer_stop(fixture->background);
    bi_announcer_complete(fixture->background);
}

static void worker_is_announced_at_every_interval_until_it_stops(void **state)
{
    (void)state;
    assert_int_equal(run_at(start), start + INTERVAL_US);
    assert_int_equal(announcements(), 1);
    assert_int_equal(ANNOUNCE.ttl_ms, 3 * INTERVAL_US / 1000);
    assert_int_equal(run_at(start + INTERVAL_US - 1), start + INTERVAL_US);
    assert_int_equal(announcements(), 1);
    run_at(start + INTERVAL_US);
    assert_int_equal(announcements(), 2);
    stop();
    assert_int_equal(announcements(), 3);
    assert_int_equal(ANNOUNCE.ttl_ms, 0);
    assert_int_equal(run_at(start + 2 * INTERVAL_US), NEVER);
}

static void lost_connection_makes_the_announcement_due(void **state)
{
    (void)state;
    run_at(start);
    bi_announcer_renew(fixture->background, start + 5);
    assert_int_equal(run_at(start + 5), start + 5 + INTERVAL_US);
    assert_int_equal(announcements(), 2);
}

/* Whichever allocation fails, the next interval announces the worker. */
static void announcement_without_memory_is_made_at_the_next_interval(void **state)
{
    (void)state;
    int64_t now = start;
    int failures = 0;
    for (size_t before = 0; announcements() == before; now += INTERVAL_US) {
        countdown = ++failures;
        assert_int_equal(run_at(now), now + INTERVAL_US);
        countdown = 0;
        assert_false(fixture->background->announced && announcements() == 0);
        assert_true(failures < 10);
    }
    assert_true(failures > 1); /* at least one allocation has failed */
    assert_true(fixture->background->announced);
}

static void renewal_without_memory_leaves_the_announcement(void **state)
{
    (void)state;
    run_at(start);
    countdown = 1;
    run_at(start + INTERVAL_US);
    countdown = 0;
    assert_int_equal(announcements(), 1);
    assert_true(fixture->background->announced);
    stop();
    assert_int_equal(announcements(), 2);
    assert_int_equal(ANNOUNCE.ttl_ms, 0);
}

/* It expires. */
static void stop_without_memory_ends(void **state)
{
    (void)state;
    run_at(start);
    countdown = 1;
    stop();
    countdown = 0;
    assert_int_equal(announcements(), 1);
    assert_false(fixture->background->pending[BACKGROUND_ANNOUNCE]);
}

static void rejected_announcement_is_made_again(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_ANNOUNCE, AT_ONCE, BIDE_EFULL);
    run_at(start);
    assert_false(fixture->background->announced);
    stub_rule(fixture->stub, BIDE_OP_ANNOUNCE, AT_ONCE, BIDE_OK);
    run_at(start + INTERVAL_US);
    assert_true(fixture->background->announced);
}

static void queue_without_announcements_is_asked_once(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_ANNOUNCE, AT_ONCE, BIDE_ENOTSUP);
    run_at(start);
    bi_announcer_renew(fixture->background, start + 1);
    assert_int_equal(run_at(start + INTERVAL_US), NEVER);
    stop();
    assert_int_equal(announcements(), 1);
}

/* An op belongs to the queue until it completes. */
static void pending_announcement_is_not_made_twice(void **state)
{
    (void)state;
    stub_rule(fixture->stub, BIDE_OP_ANNOUNCE, HELD, BIDE_OK);
    run_at(start);
    run_at(start + INTERVAL_US);
    assert_int_equal(announcements(), 1);
    stop();
    assert_int_equal(announcements(), 1);
    assert_true(stub_release(fixture->stub, BIDE_OP_ANNOUNCE, BIDE_OK));
    bide_cq_drain(fixture->background->cq, 0);
    stub_rule(fixture->stub, BIDE_OP_ANNOUNCE, AT_ONCE, BIDE_OK);
    bi_announcer_complete(fixture->background);
    stop();
    assert_int_equal(announcements(), 2);
}

#define TEST(test) cmocka_unit_test_setup_teardown(test, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(worker_is_announced_at_every_interval_until_it_stops),
        TEST(lost_connection_makes_the_announcement_due),
        TEST(announcement_without_memory_is_made_at_the_next_interval),
        TEST(renewal_without_memory_leaves_the_announcement),
        TEST(stop_without_memory_ends),
        TEST(rejected_announcement_is_made_again),
        TEST(queue_without_announcements_is_asked_once),
        TEST(pending_announcement_is_not_made_twice),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
