/* SPDX-License-Identifier: MIT */
/*
 * What the timers of the timer thread are set to; waits only where the time has passed or the
 * thread was notified.
 */
#include "local/local_internal.h"

#include "unit.h"

#include <sys/timerfd.h>
#include <time.h>

#define SECOND INT64_C(1000000)
#define FAR    (INT64_C(1) << 52) /* more than a hundred years after any boot */

static struct wakeup wakeup_;

static int set_up(void **state)
{
    (void)state;
    return bi_timer_thread_open_wakeup(&wakeup_, 0, 0) ? 0 : -1;
}

static int tear_down(void **state)
{
    (void)state;
    bi_timer_thread_close_wakeup(&wakeup_);
    return 0;
}

static bool is_armed(int fd)
{
    struct itimerspec left;
    assert_int_equal(timerfd_gettime(fd, &left), 0);
    return left.it_value.tv_sec != 0 || left.it_value.tv_nsec != 0;
}

static void new_wakeup_arms_no_timer(void **state)
{
    (void)state;
    assert_int_equal(wakeup_.boot_at, INT64_MAX);
    assert_int_equal(wakeup_.wall_at, INT64_MAX);
    assert_false(is_armed(wakeup_.boot_fd));
    assert_false(is_armed(wakeup_.wall_fd));
}

static void arm_keeps_the_nearest_deadline_of_each_clock(void **state)
{
    (void)state;
    bi_timer_thread_arm(&wakeup_, FAR, FAR + 5);
    assert_int_equal(wakeup_.boot_at, FAR);
    assert_int_equal(wakeup_.wall_at, FAR + 5);
    bi_timer_thread_arm(&wakeup_, FAR + 1, FAR + 6); /* later: nothing changes */
    assert_int_equal(wakeup_.boot_at, FAR);
    assert_int_equal(wakeup_.wall_at, FAR + 5);
    bi_timer_thread_arm(&wakeup_, FAR - 1, INT64_MAX); /* earlier on one clock */
    assert_int_equal(wakeup_.boot_at, FAR - 1);
    assert_int_equal(wakeup_.wall_at, FAR + 5);
    bi_timer_thread_arm(&wakeup_, INT64_MAX, FAR - 2);
    assert_int_equal(wakeup_.boot_at, FAR - 1);
    assert_int_equal(wakeup_.wall_at, FAR - 2);
    assert_true(is_armed(wakeup_.boot_fd));
    assert_true(is_armed(wakeup_.wall_fd));
}

static void deadline_never_arms_no_timer(void **state)
{
    (void)state;
    bi_timer_thread_arm(&wakeup_, INT64_MAX, INT64_MAX);
    assert_false(is_armed(wakeup_.boot_fd));
    assert_false(is_armed(wakeup_.wall_fd));
}

static void after_reset_a_later_deadline_can_be_armed(void **state)
{
    (void)state;
    bi_timer_thread_arm(&wakeup_, FAR, FAR);
    bi_timer_thread_reset_wakeup(&wakeup_, SECOND, SECOND);
    bi_timer_thread_arm(&wakeup_, FAR + 10, FAR + 20);
    assert_int_equal(wakeup_.boot_at, FAR + 10);
    assert_int_equal(wakeup_.wall_at, FAR + 20);
}

static void past_deadline_wakes_at_once_on_either_clock(void **state)
{
    (void)state;
    static const int64_t past[] = {-SECOND, 0, 1, SECOND};
    for (size_t i = 0; i < COUNT_OF(past); i++) {
        bi_timer_thread_arm(&wakeup_, past[i], INT64_MAX);
        bi_timer_thread_sleep(&wakeup_);
        bi_timer_thread_reset_wakeup(&wakeup_, SECOND, SECOND);
        bi_timer_thread_arm(&wakeup_, INT64_MAX, past[i]);
        bi_timer_thread_sleep(&wakeup_);
        bi_timer_thread_reset_wakeup(&wakeup_, SECOND, SECOND);
        assert_false(is_armed(wakeup_.boot_fd));
        assert_false(is_armed(wakeup_.wall_fd));
    }
}

static void many_notifies_wake_once(void **state)
{
    (void)state;
    bi_timer_thread_arm(&wakeup_, FAR, FAR);
    for (int i = 0; i < 100; i++)
        bi_timer_thread_notify(&wakeup_);
    bi_timer_thread_sleep(&wakeup_);
    /* The bell is silent again: only a moment that has passed lets this return. */
    assert_true(is_armed(wakeup_.boot_fd));
    bi_timer_thread_arm(&wakeup_, 1, INT64_MAX);
    bi_timer_thread_sleep(&wakeup_);
    assert_false(is_armed(wakeup_.boot_fd));
}

static void notify_before_wait_is_not_lost(void **state)
{
    (void)state;
    bi_timer_thread_notify(&wakeup_);
    bi_timer_thread_sleep(&wakeup_);
    bi_timer_thread_notify(&wakeup_);
    bi_timer_thread_sleep(&wakeup_);
    assert_int_equal(wakeup_.boot_at, INT64_MAX);
}

static void min_sleep_delays_boot_time_deadline(void **state)
{
    (void)state;
    bi_timer_thread_close_wakeup(&wakeup_);
    assert_true(bi_timer_thread_open_wakeup(&wakeup_, 50000, 0));
    bi_timer_thread_reset_wakeup(&wakeup_, FAR, FAR);
    bi_timer_thread_arm(&wakeup_, FAR + 1, INT64_MAX);
    assert_int_equal(wakeup_.boot_at, FAR + 50000);
    bi_timer_thread_reset_wakeup(&wakeup_, FAR, FAR);
    bi_timer_thread_arm(&wakeup_, FAR + 60000, INT64_MAX);
    assert_int_equal(wakeup_.boot_at, FAR + 60000);
}

static void max_sleep_wakes_without_a_deadline(void **state)
{
    (void)state;
    bi_timer_thread_close_wakeup(&wakeup_);
    assert_true(bi_timer_thread_open_wakeup(&wakeup_, 0, SECOND));
    bi_timer_thread_reset_wakeup(&wakeup_, FAR, FAR);
    assert_int_equal(wakeup_.boot_at, FAR + SECOND);
    bi_timer_thread_arm(&wakeup_, FAR + 5 * SECOND, INT64_MAX);
    assert_int_equal(wakeup_.boot_at, FAR + SECOND);
    bi_timer_thread_arm(&wakeup_, FAR + 10, INT64_MAX);
    assert_int_equal(wakeup_.boot_at, FAR + 10);
}

static void done_accepts_a_cleared_wakeup(void **state)
{
    (void)state;
    struct wakeup none;
    bi_timer_thread_clear_wakeup(&none);
    bi_timer_thread_close_wakeup(&none);
    assert_int_equal(none.boot_fd, -1);
    assert_int_equal(none.wall_fd, -1);
    assert_int_equal(none.notify_fd, -1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(new_wakeup_arms_no_timer),
        TEST(arm_keeps_the_nearest_deadline_of_each_clock),
        TEST(deadline_never_arms_no_timer),
        TEST(after_reset_a_later_deadline_can_be_armed),
        TEST(past_deadline_wakes_at_once_on_either_clock),
        TEST(many_notifies_wake_once),
        TEST(notify_before_wait_is_not_lost),
        TEST(min_sleep_delays_boot_time_deadline),
        TEST(max_sleep_wakes_without_a_deadline),
        TEST(done_accepts_a_cleared_wakeup),
    };
    return cmocka_run_group_tests_name("alarm", tests, NULL, NULL);
}
