/* SPDX-License-Identifier: MIT */
#include "core/timer.h"

#include "alloc_fixture.h"
#include "unit.h"

#include "util/hash.h"

#include <string.h>

/* Every test runs with both engines. The wheel's tick is one microsecond where order is all that
 * matters, so that it, too, fires at the very deadline. */
#define TIMERS 3000u

struct fixture {
    struct test_alloc alloc;
    struct timers timers;
    bool wheel;
    struct timer all[TIMERS];
};

static struct fixture fixture;

static int set_up(void **state, bool wheel)
{
    memset(&fixture, 0, sizeof(fixture));
    bi_timers_init(&fixture.timers, test_alloc_of(&fixture.alloc));
    fixture.wheel = wheel;
    *state = &fixture;
    return !wheel || bi_timers_use_wheel(&fixture.timers, 1, 512, 0) ? 0 : -1;
}

static int set_up_heap(void **state)
{
    return set_up(state, false);
}

static int set_up_wheel(void **state)
{
    return set_up(state, true);
}

static int tear_down(void **state)
{
    struct fixture *f = *state;
    bi_timers_done(&f->timers);
    return f->alloc.blocks == 0 ? 0 : -1;
}

static struct timer *make(struct fixture *f, uint32_t index, enum timer_class class, uint64_t id)
{
    assert_true(bi_timers_reserve(&f->timers));
    bi_timer_init(&f->all[index], 0, class, id);
    return &f->all[index];
}

static void timers_fire_in_the_order_of_their_deadlines(void **state)
{
    struct fixture *f = *state;
    struct bi_random random = {1};
    for (uint32_t i = 0; i < TIMERS; i++)
        bi_timers_set(&f->timers, make(f, i, TIMER_CLASS_JOB, i + 1),
                      1 + (int64_t)bi_random_below(&random, 5000));
    const struct timer *last = NULL;
    for (uint32_t i = 0; i < TIMERS; i++) {
        const struct timer *timer = bi_timers_pop(&f->timers, 5000);
        assert_non_null(timer);
        assert_false(timer->set);
        if (last != NULL)
            assert_true(last->due < timer->due ||
                        (last->due == timer->due && last->order < timer->order));
        last = timer;
    }
    assert_null(bi_timers_pop(&f->timers, 5000));
    assert_int_equal(bi_timers_next(&f->timers), INT64_MAX);
}

static void equal_deadlines_fire_by_class_and_then_by_id(void **state)
{
    struct fixture *f = *state;
    static const struct {
        enum timer_class class;
        uint64_t id;
    } wanted[] = {
        {TIMER_CLASS_EXPIRY, 4}, {TIMER_CLASS_EXPIRY, 9},
        {TIMER_CLASS_JOB, 2},    {TIMER_CLASS_JOB, 8},
        {TIMER_CLASS_TOPIC, 1},  {TIMER_CLASS_TOPIC, (UINT64_C(1) << 53) - 1},
        {TIMER_CLASS_WAITER, 1}, {TIMER_CLASS_WAITER, 3},
    };
    static const uint32_t shuffled[] = {3, 6, 0, 5, 7, 1, 4, 2};
    for (uint32_t i = 0; i < COUNT_OF(shuffled); i++) {
        uint32_t at = shuffled[i];
        bi_timers_set(&f->timers, make(f, at, wanted[at].class, wanted[at].id), 77);
    }
    for (uint32_t i = 0; i < COUNT_OF(wanted); i++)
        assert_ptr_equal(bi_timers_pop(&f->timers, 77), &f->all[i]);
}

static void nothing_fires_before_its_deadline(void **state)
{
    struct fixture *f = *state;
    bi_timers_set(&f->timers, make(f, 0, TIMER_CLASS_JOB, 1), 1000);
    assert_null(bi_timers_pop(&f->timers, 0));
    assert_null(bi_timers_pop(&f->timers, 999));
    assert_true(bi_timers_next(&f->timers) <= 1000);
    assert_ptr_equal(bi_timers_pop(&f->timers, 1000), &f->all[0]);
}

static void a_timer_can_be_moved_both_ways(void **state)
{
    struct fixture *f = *state;
    struct timer *a = make(f, 0, TIMER_CLASS_JOB, 1);
    struct timer *b = make(f, 1, TIMER_CLASS_JOB, 2);
    bi_timers_set(&f->timers, a, 500);
    bi_timers_set(&f->timers, b, 600);
    bi_timers_set(&f->timers, a, 700);
    assert_ptr_equal(bi_timers_pop(&f->timers, 650), b);
    assert_null(bi_timers_pop(&f->timers, 699));
    bi_timers_set(&f->timers, b, 800);
    bi_timers_set(&f->timers, b, 660);
    assert_ptr_equal(bi_timers_pop(&f->timers, 900), b);
    assert_ptr_equal(bi_timers_pop(&f->timers, 900), a);
    assert_null(bi_timers_pop(&f->timers, 900));
}

static void tie_break_of_a_timer_can_change(void **state)
{
    struct fixture *f = *state;
    struct timer *a = make(f, 0, TIMER_CLASS_JOB, 10);
    struct timer *b = make(f, 1, TIMER_CLASS_JOB, 20);
    bi_timers_set(&f->timers, a, 50);
    bi_timers_set(&f->timers, b, 50);
    bi_timers_set_with_id(&f->timers, a, 50, 30);
    assert_ptr_equal(bi_timers_pop(&f->timers, 50), b);
    assert_ptr_equal(bi_timers_pop(&f->timers, 50), a);
}

static void tie_break_change_keeps_the_class(void **state)
{
    struct fixture *f = *state;
    struct timer *call = make(f, 0, TIMER_CLASS_WAITER, 1);
    struct timer *job = make(f, 1, TIMER_CLASS_JOB, 1);
    bi_timers_set_with_id(&f->timers, job, 50, 99);
    bi_timers_set_with_id(&f->timers, call, 50, 2);
    assert_ptr_equal(bi_timers_pop(&f->timers, 50), job);
    assert_ptr_equal(bi_timers_pop(&f->timers, 50), call);
}

static void a_timer_that_was_cleared_does_not_fire(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 100; i++)
        bi_timers_set(&f->timers, make(f, i, TIMER_CLASS_JOB, i + 1), 10 + i % 7);
    for (uint32_t i = 0; i < 100; i += 2)
        bi_timers_clear(&f->timers, &f->all[i]);
    bi_timers_clear(&f->timers, &f->all[0]); /* once more does nothing */
    uint32_t fired = 0;
    const struct timer *timer;
    while ((timer = bi_timers_pop(&f->timers, 1000)) != NULL) {
        assert_int_equal((timer - f->all) % 2, 1);
        fired++;
    }
    assert_int_equal(fired, 50);
}

static void due_timer_can_be_cleared_and_moved(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < 4; i++)
        bi_timers_set(&f->timers, make(f, i, TIMER_CLASS_JOB, i + 1), 10 + i);
    assert_ptr_equal(bi_timers_pop(&f->timers, 100), &f->all[0]);
    bi_timers_clear(&f->timers, &f->all[1]);
    bi_timers_set(&f->timers, &f->all[2], 200);
    assert_ptr_equal(bi_timers_pop(&f->timers, 100), &f->all[3]);
    assert_null(bi_timers_pop(&f->timers, 100));
    assert_ptr_equal(bi_timers_pop(&f->timers, 200), &f->all[2]);
}

static void a_timer_set_for_the_past_fires_at_once_in_its_order(void **state)
{
    struct fixture *f = *state;
    bi_timers_set(&f->timers, make(f, 0, TIMER_CLASS_JOB, 1), 1000);
    bi_timers_set(&f->timers, make(f, 1, TIMER_CLASS_JOB, 2), 1001);
    assert_ptr_equal(bi_timers_pop(&f->timers, 1005), &f->all[0]);
    bi_timers_set(&f->timers, make(f, 2, TIMER_CLASS_JOB, 3), 900);
    bi_timers_set(&f->timers, make(f, 3, TIMER_CLASS_JOB, 4), 1003);
    assert_ptr_equal(bi_timers_pop(&f->timers, 1005), &f->all[2]);
    assert_ptr_equal(bi_timers_pop(&f->timers, 1005), &f->all[1]);
    assert_ptr_equal(bi_timers_pop(&f->timers, 1005), &f->all[3]);
}

static void a_deadline_of_a_hundred_years_is_kept(void **state)
{
    struct fixture *f = *state;
    const int64_t century = INT64_C(3155760000000000);
    bi_timers_set(&f->timers, make(f, 0, TIMER_CLASS_JOB, 1), century);
    assert_null(bi_timers_pop(&f->timers, century - 1));
    assert_ptr_equal(bi_timers_pop(&f->timers, century), &f->all[0]);
}

/* Against a naive search through an array, with random sets, moves, clears and pops. */
static const struct timer *naive_first(const struct fixture *f, int64_t now)
{
    const struct timer *first = NULL;
    for (uint32_t i = 0; i < 200; i++) {
        const struct timer *timer = &f->all[i];
        if (timer->set && timer->due <= now &&
            (first == NULL || timer->due < first->due ||
             (timer->due == first->due && timer->order < first->order)))
            first = timer;
    }
    return first;
}

static void random_use_agrees_with_a_naive_search(void **state)
{
    struct fixture *f = *state;
    struct bi_random random = {9};
    int64_t now = 0;
    for (uint32_t i = 0; i < 200; i++)
        make(f, i, (enum timer_class)(i % 4), i / 4);
    for (int step = 0; step < 20000; step++) {
        struct timer *timer = &f->all[bi_random_below(&random, 200)];
        if (bi_random_below(&random, 3) > 0)
            bi_timers_set(&f->timers, timer, now + (int64_t)bi_random_below(&random, 3000) - 100);
        else
            bi_timers_clear(&f->timers, timer);
        if (bi_random_below(&random, 4) > 0)
            continue;
        now += (int64_t)bi_random_below(&random, 200);
        const struct timer *wanted;
        do {
            wanted = naive_first(f, now);
            assert_ptr_equal(bi_timers_pop(&f->timers, now), wanted);
        } while (wanted != NULL && bi_random_below(&random, 8) > 0);
    }
}

/* The wheel only knows its next tick. */
static void the_next_deadline_is_known_exactly(void **state)
{
    struct fixture *f = *state;
    assert_int_equal(bi_timers_next(&f->timers), INT64_MAX);
    bi_timers_set(&f->timers, make(f, 0, TIMER_CLASS_JOB, 1), 12345);
    bi_timers_set(&f->timers, make(f, 1, TIMER_CLASS_JOB, 2), 2345);
    assert_int_equal(bi_timers_next(&f->timers), 2345);
    bi_timers_clear(&f->timers, &f->all[1]);
    assert_int_equal(bi_timers_next(&f->timers), 12345);
}

static void reserve_of_a_timer_without_memory_changes_nothing(void **state)
{
    struct fixture *f = *state;
    f->alloc.failing = true;
    assert_false(bi_timers_reserve(&f->timers));
    assert_int_equal(f->timers.owners, 0);
    f->alloc.failing = false;
    for (uint32_t i = 0; i < 10; i++)
        bi_timers_set(&f->timers, make(f, i, TIMER_CLASS_JOB, i + 1), 10 - i);
    f->alloc.failing = true;
    while (bi_timers_reserve(&f->timers))
        assert_true(f->timers.owners < 100);
    uint32_t owners = f->timers.owners;
    assert_false(bi_timers_reserve(&f->timers));
    assert_int_equal(f->timers.owners, owners);
    for (uint32_t i = 0; i < 10; i++)
        assert_ptr_equal(bi_timers_pop(&f->timers, 10), &f->all[9 - i]);
}

static void removed_owners_free_memory(void **state)
{
    struct fixture *f = *state;
    for (uint32_t i = 0; i < TIMERS; i++)
        bi_timers_set(&f->timers, make(f, i, TIMER_CLASS_JOB, i + 1), i);
    size_t full = f->alloc.bytes;
    for (uint32_t i = 0; i < TIMERS; i++) {
        bi_timers_clear(&f->timers, &f->all[i]);
        bi_timers_unreserve(&f->timers);
    }
    assert_true(f->alloc.bytes < full / 10);
}

static void wheel_without_memory_fails(void **state)
{
    (void)state;
    struct test_alloc alloc = {.failing = true};
    struct timers timers;
    bi_timers_init(&timers, test_alloc_of(&alloc));
    assert_false(bi_timers_use_wheel(&timers, 1000, 512, 0));
    bi_timers_done(&timers);
    assert_int_equal(alloc.blocks, 0);
}

#define HEAP(name)                                          \
    {                                                       \
#name " (heap)", name, set_up_heap, tear_down, NULL \
    }
#define WHEEL(name)                                           \
    {                                                         \
#name " (wheel)", name, set_up_wheel, tear_down, NULL \
    }
#define BOTH(name) HEAP(name), WHEEL(name)

int main(void)
{
    const struct CMUnitTest tests[] = {
        BOTH(timers_fire_in_the_order_of_their_deadlines),
        BOTH(equal_deadlines_fire_by_class_and_then_by_id),
        BOTH(nothing_fires_before_its_deadline),
        BOTH(a_timer_can_be_moved_both_ways),
        BOTH(tie_break_of_a_timer_can_change),
        BOTH(tie_break_change_keeps_the_class),
        BOTH(a_timer_that_was_cleared_does_not_fire),
        BOTH(due_timer_can_be_cleared_and_moved),
        BOTH(a_timer_set_for_the_past_fires_at_once_in_its_order),
        BOTH(a_deadline_of_a_hundred_years_is_kept),
        BOTH(random_use_agrees_with_a_naive_search),
        HEAP(the_next_deadline_is_known_exactly),
        BOTH(reserve_of_a_timer_without_memory_changes_nothing),
        BOTH(removed_owners_free_memory),
        HEAP(wheel_without_memory_fails),
    };
    return cmocka_run_group_tests_name("timer", tests, NULL, NULL);
}
