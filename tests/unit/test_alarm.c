/* SPDX-License-Identifier: MIT */
/*
 * What the alarm is set to; waits only where the moment has passed or it was rung.
 */
#include "backend/alarm.h"

#include "unit.h"

#include <sys/timerfd.h>
#include <time.h>

#define SECOND INT64_C(1000000)
#define FAR    (INT64_C(1) << 52) /* more than a hundred years after any boot */

static struct bi_alarm alarm_;

static int set_up(void **state)
{
    (void)state;
    return bi_alarm_init(&alarm_, 0, 0) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    bi_alarm_done(&alarm_);
    return 0;
}

static bool is_armed(int fd)
{
    struct itimerspec left;
    assert_int_equal(timerfd_gettime(fd, &left), 0);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
}

static void a_new_alarm_is_set_to_nothing(void **state)
{
    (void)state;
    assert_int_equal(alarm_.boot_at, INT64_MAX);
    assert_int_equal(alarm_.wall_at, INT64_MAX);
    assert_false(is_armed(alarm_.boot_fd));
    assert_false(is_armed(alarm_.wall_fd));
}

static void it_is_set_to_the_nearest_moment_of_each_clock(void **state)
{
    (void)state;
    bi_alarm_set(&alarm_, FAR, FAR + 5);
    assert_int_equal(alarm_.boot_at, FAR);
    assert_int_equal(alarm_.wall_at, FAR + 5);
    bi_alarm_set(&alarm_, FAR + 1, FAR + 6); /* later: nothing changes */
    assert_int_equal(alarm_.boot_at, FAR);
    assert_int_equal(alarm_.wall_at, FAR + 5);
    bi_alarm_set(&alarm_, FAR - 1, INT64_MAX); /* earlier on one clock */
    assert_int_equal(alarm_.boot_at, FAR - 1);
    assert_int_equal(alarm_.wall_at, FAR + 5);
    bi_alarm_set(&alarm_, INT64_MAX, FAR - 2);
    assert_int_equal(alarm_.boot_at, FAR - 1);
    assert_int_equal(alarm_.wall_at, FAR - 2);
    assert_true(is_armed(alarm_.boot_fd));
    assert_true(is_armed(alarm_.wall_fd));
}

static void never_arms_no_timer(void **state)
{
    (void)state;
    bi_alarm_set(&alarm_, INT64_MAX, INT64_MAX);
    assert_false(is_armed(alarm_.boot_fd));
    assert_false(is_armed(alarm_.wall_fd));
}

static void after_the_sleeper_woke_a_later_moment_can_be_set(void **state)
{
    (void)state;
    bi_alarm_set(&alarm_, FAR, FAR);
    bi_alarm_rearm(&alarm_, SECOND, SECOND);
    bi_alarm_set(&alarm_, FAR + 10, FAR + 20);
    assert_int_equal(alarm_.boot_at, FAR + 10);
    assert_int_equal(alarm_.wall_at, FAR + 20);
}

static void a_moment_that_has_passed_wakes_at_once_on_either_clock(void **state)
{
    (void)state;
    static const int64_t past[] = {-SECOND, 0, 1, SECOND};
    for (size_t i = 0; i < COUNT_OF(past); i++) {
        bi_alarm_set(&alarm_, past[i], INT64_MAX);
        bi_alarm_wait(&alarm_);
        bi_alarm_rearm(&alarm_, SECOND, SECOND);
        bi_alarm_set(&alarm_, INT64_MAX, past[i]);
        bi_alarm_wait(&alarm_);
        bi_alarm_rearm(&alarm_, SECOND, SECOND);
        assert_false(is_armed(alarm_.boot_fd));
        assert_false(is_armed(alarm_.wall_fd));
    }
}

static void ringing_wakes_once_however_often_it_was_rung(void **state)
{
    (void)state;
    bi_alarm_set(&alarm_, FAR, FAR);
    for (int i = 0; i < 100; i++)
        bi_alarm_ring(&alarm_);
    bi_alarm_wait(&alarm_);
    /* The bell is silent again: only a moment that has passed lets this return. */
    assert_true(is_armed(alarm_.boot_fd));
    bi_alarm_set(&alarm_, 1, INT64_MAX);
    bi_alarm_wait(&alarm_);
    assert_false(is_armed(alarm_.boot_fd));
}

static void ringing_before_the_sleep_is_not_lost(void **state)
{
    (void)state;
    bi_alarm_ring(&alarm_);
    bi_alarm_wait(&alarm_);
    bi_alarm_ring(&alarm_);
    bi_alarm_wait(&alarm_);
    assert_int_equal(alarm_.boot_at, INT64_MAX);
}

static void the_least_sleep_puts_off_the_boot_time_clock(void **state)
{
    (void)state;
    bi_alarm_done(&alarm_);
    assert_true(bi_alarm_init(&alarm_, 50000, 0));
    bi_alarm_rearm(&alarm_, FAR, FAR);
    bi_alarm_set(&alarm_, FAR + 1, INT64_MAX);
    assert_int_equal(alarm_.boot_at, FAR + 50000);
    bi_alarm_rearm(&alarm_, FAR, FAR);
    bi_alarm_set(&alarm_, FAR + 60000, INT64_MAX);
    assert_int_equal(alarm_.boot_at, FAR + 60000);
}

static void the_longest_sleep_ends_without_a_deadline(void **state)
{
    (void)state;
    bi_alarm_done(&alarm_);
    assert_true(bi_alarm_init(&alarm_, 0, SECOND));
    bi_alarm_rearm(&alarm_, FAR, FAR);
    assert_int_equal(alarm_.boot_at, FAR + SECOND);
    bi_alarm_set(&alarm_, FAR + 5 * SECOND, INT64_MAX);
    assert_int_equal(alarm_.boot_at, FAR + SECOND);
    bi_alarm_set(&alarm_, FAR + 10, INT64_MAX);
    assert_int_equal(alarm_.boot_at, FAR + 10);
}

static void an_alarm_that_was_never_made_can_be_done_with(void **state)
{
    (void)state;
    struct bi_alarm none;
    bi_alarm_clear(&none);
    bi_alarm_done(&none);
    assert_int_equal(none.boot_fd, -1);
    assert_int_equal(none.wall_fd, -1);
    assert_int_equal(none.ring_fd, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_new_alarm_is_set_to_nothing),
        TEST(it_is_set_to_the_nearest_moment_of_each_clock),
        TEST(never_arms_no_timer),
        TEST(after_the_sleeper_woke_a_later_moment_can_be_set),
        TEST(a_moment_that_has_passed_wakes_at_once_on_either_clock),
        TEST(ringing_wakes_once_however_often_it_was_rung),
        TEST(ringing_before_the_sleep_is_not_lost),
        TEST(the_least_sleep_puts_off_the_boot_time_clock),
        TEST(the_longest_sleep_ends_without_a_deadline),
        TEST(an_alarm_that_was_never_made_can_be_done_with),
    };
    return cmocka_run_group_tests_name("alarm", tests, NULL, NULL);
}
