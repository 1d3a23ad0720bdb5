/* SPDX-License-Identifier: MIT */
/*
 * The lock of a local queue while the wall clock is set.
 */
#include "unit.h"

#include "local/local_internal.h"

#include <time.h>

/* By how many seconds the wall clock is set back as soon as it was read. */
static time_t set_back;

int __real_clock_gettime(clockid_t clock, struct timespec *out);
int __wrap_clock_gettime(clockid_t clock, struct timespec *out);

int __wrap_clock_gettime(clockid_t clock, struct timespec *out)
{
    int code = __real_clock_gettime(clock, out);
    if (clock == CLOCK_REALTIME)
        out->tv_sec += set_back;
    return code;
}

static struct local local;

static void *acquire(void *arg)
{
    (bi_local_lock_during_rollback)(&local);
    pthread_mutex_unlock(&local.lock);
    return arg;
}

/* Only a hang takes so many milliseconds. */
#define PATIENCE_MS 30000

static void a_thread_that_waits_for_the_lock_starves_although_the_clock_is_set_back(void **state)
{
    (void)state;
    pthread_t thread;
    pthread_mutex_init(&local.lock, NULL);
    pthread_mutex_init(&local.turnstile, NULL);
    set_back = 3600;
    pthread_mutex_lock(&local.lock);
    assert_int_equal(pthread_create(&thread, NULL, acquire, NULL), 0);
    unsigned starving = 0;
    for (int i = 0; i < PATIENCE_MS && starving == 0; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        starving = local.starving;
    }
    pthread_mutex_unlock(&local.lock);
    pthread_join(thread, NULL);
    assert_int_equal(starving, 1);
    assert_int_equal(local.starving, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_thread_that_waits_for_the_lock_starves_although_the_clock_is_set_back),
    };
    return cmocka_run_group_tests_name("local_lock", tests, NULL, NULL);
}
