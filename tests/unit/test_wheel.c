/* SPDX-License-Identifier: MIT */
#include "core/timer.h"

#include "unit.h"

#include "util/hash.h"

#include <string.h>

#define MS      INT64_C(1000)
#define CENTURY INT64_C(3155760000000000) /* 100 years in microseconds */

static struct timers timers_;

static struct timers *wheel_of(int64_t tick, uint32_t slots, int64_t origin)
{
    bi_timers_init(&timers_, bi_alloc_libc());
    assert_true(bi_timers_use_wheel(&timers_, tick, slots, origin));
    return &timers_;
}

static void add(struct timers *wheel, struct timer *timer, uint64_t id, int64_t due)
{
    assert_true(bi_timers_reserve(wheel));
    bi_timer_init(timer, 0, TIMER_CLASS_JOB, id);
    bi_timers_set(wheel, timer, due);
}

/* Pops at every tick from one to another; answers the first at which a timer fires, or -1. */
static int64_t first_tick(struct timers *wheel, int64_t tick, int64_t from, int64_t to)
{
    for (int64_t at = from; at <= to; at++)
        if (bi_timers_pop(wheel, at * tick) != NULL)
            return at;
    return -1;
}

/* The ring queue that this grew out of: 3600 slots of a second; at slot 310 a job 179 seconds
 * ahead goes to slot 489, and one of 3600 + 179 to the same slot with one round to go. */
static void a_timer_179_ticks_ahead_of_slot_310_fires_at_tick_489(void **state)
{
    (void)state;
    struct timers *wheel = wheel_of(1000 * MS, 3600, 0);
    assert_null(bi_timers_pop(wheel, 310 * 1000 * MS));
    struct timer timer;
    struct timer next_round;
    add(wheel, &timer, 1, (310 + 179) * 1000 * MS);
    add(wheel, &next_round, 2, (310 + 179 + 3600) * 1000 * MS);
    assert_ptr_equal(LIST_FIRST(&wheel->wheel->slots[489]), &next_round);
    assert_ptr_equal(LIST_NEXT(&next_round, ring), &timer);
    assert_int_equal(first_tick(wheel, 1000 * MS, 310, 5000), 489);
    assert_int_equal(first_tick(wheel, 1000 * MS, 489, 5000), 489 + 3600);
    assert_int_equal(first_tick(wheel, 1000 * MS, 489 + 3600, 9000), -1);
    bi_timers_done(wheel);
}

static void a_timer_many_turns_away_waits_for_its_round(void **state)
{
    (void)state;
    const int64_t turns[] = {1, 2, 3, 10, 100, 1000};
    for (size_t i = 0; i < COUNT_OF(turns); i++) {
        struct timers *wheel = wheel_of(MS, 8, 0);
        struct timer timer;
        int64_t at = turns[i] * 8 + 3;
        add(wheel, &timer, 1, at * MS);
        assert_int_equal(first_tick(wheel, MS, 0, at + 100), at);
        bi_timers_done(wheel);
    }
}

static void a_jump_of_many_turns_fires_all_that_is_due_in_order(void **state)
{
    (void)state;
    enum { TIMERS = 500 };
    static struct timer timers[TIMERS];
    struct bi_random random = {4};
    struct timers *wheel = wheel_of(MS, 16, 0);
    int64_t jump = 100000 * MS;
    unsigned due = 0;
    for (unsigned i = 0; i < TIMERS; i++) {
        int64_t when = 1 + (int64_t)bi_random_below(&random, (uint64_t)jump * 2);
        add(wheel, &timers[i], i + 1, when);
        due += (when + MS - 1) / MS <= jump / MS;
    }
    const struct timer *last = NULL;
    for (unsigned i = 0; i < due; i++) {
        const struct timer *timer = bi_timers_pop(wheel, jump);
        assert_non_null(timer);
        assert_true(timer->due <= jump);
        assert_true(last == NULL || last->due <= timer->due);
        last = timer;
    }
    assert_null(bi_timers_pop(wheel, jump));
    bi_timers_done(wheel);
}

static void a_timer_fires_at_the_first_tick_at_or_after_its_deadline(void **state)
{
    (void)state;
    const int64_t origin = 123456;
    const struct {
        int64_t due, tick;
    } cases[] = {
        {origin + 1, 1},
        {origin + 9999, 1},
        {origin + 10000, 1},
        {origin + 10001, 2},
        {origin + 19999, 2},
        {origin + 20000, 2},
        {origin + 5120000, 512},
        {origin + 5120001, 513},
        {origin + 10000000, 1000},
        {origin + 99999999, 10000},
        {origin + 100000000, 10000},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        struct timers *wheel = wheel_of(10 * MS, 512, origin);
        struct timer timer;
        add(wheel, &timer, 1, cases[i].due);
        int64_t at = origin + cases[i].tick * 10 * MS;
        assert_null(bi_timers_pop(wheel, at - 1));
        assert_ptr_equal(bi_timers_pop(wheel, at), &timer);
        bi_timers_done(wheel);
    }
}

static void no_timer_fires_early_with_any_clock_steps(void **state)
{
    (void)state;
    enum { TIMERS = 1000 };
    static struct timer timers[TIMERS];
    struct bi_random random = {6};
    struct timers *wheel = wheel_of(7 * MS, 64, 1000);
    for (unsigned i = 0; i < TIMERS; i++)
        add(wheel, &timers[i], i + 1, 1000 + (int64_t)bi_random_below(&random, 5000000));
    unsigned fired = 0;
    int64_t before = 1000;
    for (int64_t now = 1000; fired < TIMERS; now += (int64_t)bi_random_below(&random, 30000)) {
        const struct timer *timer;
        while ((timer = bi_timers_pop(wheel, now)) != NULL) {
            assert_true(timer->due <= now);
            /* The tick at or after the deadline came after the last look, so it is not late. */
            int64_t tick = 1000 + (timer->due - 1000 + 7 * MS - 1) / (7 * MS) * (7 * MS);
            assert_true(tick > before || before == 1000);
            fired++;
        }
        before = now;
    }
    bi_timers_done(wheel);
}

static void delays_of_every_length_fire_on_time(void **state)
{
    (void)state;
    const int64_t delays[] = {MS, 10 * MS, 1000 * MS, 3600000 * MS, 86400000 * MS, CENTURY};
    const int64_t origin = INT64_C(7200000000);
    static struct timer timers[COUNT_OF(delays)];
    struct timers *wheel = wheel_of(MS, 512, origin);
    for (size_t i = 0; i < COUNT_OF(delays); i++)
        add(wheel, &timers[i], i + 1, origin + delays[i]);
    for (size_t i = 0; i < COUNT_OF(delays); i++) {
        assert_null(bi_timers_pop(wheel, origin + delays[i] - 1));
        assert_ptr_equal(bi_timers_pop(wheel, origin + delays[i]), &timers[i]);
    }
    bi_timers_done(wheel);
}

static void a_ring_of_one_slot_is_enough(void **state)
{
    (void)state;
    struct timers *wheel = wheel_of(MS, 1, 0);
    static struct timer timers[50];
    for (unsigned i = 0; i < 50; i++)
        add(wheel, &timers[i], i + 1, (50 - i) * MS);
    for (unsigned i = 0; i < 50; i++) {
        assert_ptr_equal(bi_timers_pop(wheel, (i + 1) * MS), &timers[49 - i]);
        assert_null(bi_timers_pop(wheel, (i + 1) * MS));
    }
    bi_timers_done(wheel);
}

static void wheel_wakes_once_a_tick_and_never_when_empty(void **state)
{
    (void)state;
    struct timers *wheel = wheel_of(10 * MS, 512, 500);
    struct timer timer;
    assert_int_equal(bi_timers_next(wheel), INT64_MAX);
    add(wheel, &timer, 1, 500 + 35 * MS);
    assert_int_equal(bi_timers_next(wheel), 500 + 10 * MS);
    assert_null(bi_timers_pop(wheel, 500 + 10 * MS));
    assert_int_equal(bi_timers_next(wheel), 500 + 20 * MS);
    bi_timers_clear(wheel, &timer);
    assert_int_equal(bi_timers_next(wheel), INT64_MAX);
    bi_timers_done(wheel);
}

static void unpopped_due_timer_requests_an_immediate_tick(void **state)
{
    (void)state;
    struct timers *wheel = wheel_of(10 * MS, 512, 0);
    struct timer a;
    struct timer b;
    add(wheel, &a, 1, 4 * MS);
    add(wheel, &b, 2, 5 * MS);
    assert_ptr_equal(bi_timers_pop(wheel, 10 * MS), &a);
    assert_true(bi_timers_next(wheel) <= 10 * MS);
    assert_ptr_equal(bi_timers_pop(wheel, 10 * MS), &b);
    bi_timers_done(wheel);
}

static void timer_set_after_a_long_idle_time_fires(void **state)
{
    (void)state;
    struct timers *wheel = wheel_of(10 * MS, 16, 0);
    struct timer timer;
    const int64_t idle = 86400000 * MS; /* no timer was set, and no tick happened */
    add(wheel, &timer, 1, idle + 35 * MS);
    assert_null(bi_timers_pop(wheel, idle));
    assert_null(bi_timers_pop(wheel, idle + 39 * MS));
    assert_ptr_equal(bi_timers_pop(wheel, idle + 40 * MS), &timer);
    bi_timers_done(wheel);
}

static void time_before_the_start_of_the_wheel_fires_nothing(void **state)
{
    (void)state;
    struct timers *wheel = wheel_of(10 * MS, 16, 1000 * MS);
    struct timer timer;
    add(wheel, &timer, 1, 1005 * MS);
    assert_null(bi_timers_pop(wheel, 0));
    assert_null(bi_timers_pop(wheel, 900 * MS));
    assert_ptr_equal(bi_timers_pop(wheel, 1010 * MS), &timer);
    bi_timers_done(wheel);
}

static void a_deadline_that_the_ring_has_passed_fires_at_once(void **state)
{
    (void)state;
    struct timers *wheel = wheel_of(10 * MS, 16, 0);
    struct timer timer;
    assert_null(bi_timers_pop(wheel, 100 * MS));

    add(wheel, &timer, 1, 100 * MS);
    assert_true(bi_timers_next(wheel) <= 100 * MS);
    assert_ptr_equal(bi_timers_pop(wheel, 100 * MS), &timer);
    assert_int_equal(bi_timers_next(wheel), INT64_MAX);

    bi_timers_set(wheel, &timer, 100 * MS + 1);
    assert_int_equal(bi_timers_next(wheel), 110 * MS);
    assert_null(bi_timers_pop(wheel, 100 * MS + 1));
    assert_ptr_equal(bi_timers_pop(wheel, 110 * MS), &timer);
    bi_timers_done(wheel);
}

static void turn_pops_due_timers_and_keeps_the_rest(void **state)
{
    (void)state;
    enum { TIMERS = 100 };
    static struct timer timers[TIMERS];
    struct timers *wheel = wheel_of(MS, 7, 0);
    for (int i = 0; i < TIMERS; i++)
        add(wheel, &timers[i], (uint64_t)i + 1, (i + 1) * MS);
    for (int i = 0; i < TIMERS; i += 2)
        bi_timers_clear(wheel, &timers[i]);

    int count = 0;
    for (const struct timer *timer; (timer = bi_timers_pop(wheel, 60 * MS)) != NULL; count++) {
        assert_true(timer->due <= 60 * MS);
        assert_int_equal((timer - timers) % 2, 1);
    }
    assert_int_equal(count, 30);

    for (count = 0; bi_timers_pop(wheel, 1000 * MS) != NULL; count++)
        continue;
    assert_int_equal(count, 20);
    bi_timers_done(wheel);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_timer_179_ticks_ahead_of_slot_310_fires_at_tick_489),
        cmocka_unit_test(a_timer_many_turns_away_waits_for_its_round),
        cmocka_unit_test(a_jump_of_many_turns_fires_all_that_is_due_in_order),
        cmocka_unit_test(a_timer_fires_at_the_first_tick_at_or_after_its_deadline),
        cmocka_unit_test(no_timer_fires_early_with_any_clock_steps),
        cmocka_unit_test(delays_of_every_length_fire_on_time),
        cmocka_unit_test(a_ring_of_one_slot_is_enough),
        cmocka_unit_test(wheel_wakes_once_a_tick_and_never_when_empty),
        cmocka_unit_test(unpopped_due_timer_requests_an_immediate_tick),
        cmocka_unit_test(timer_set_after_a_long_idle_time_fires),
        cmocka_unit_test(time_before_the_start_of_the_wheel_fires_nothing),
        cmocka_unit_test(a_deadline_that_the_ring_has_passed_fires_at_once),
        cmocka_unit_test(turn_pops_due_timers_and_keeps_the_rest),
    };
    return cmocka_run_group_tests_name("wheel", tests, NULL, NULL);
}
