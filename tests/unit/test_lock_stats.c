/* SPDX-License-Identifier: MIT */
/* Where a lock was held longest, whatever the number of places that hold it. */
#include "unit.h"

#include "local/lock_stats.h"

#include <stdio.h>
#include <string.h>

#define MANY 1000
#define LONG 5000000 /* ns */

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static char places[MANY][16];

static int64_t processor_time(void)
{
    struct timespec time;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
    return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

static void hold(const char *place, int64_t ns)
{
    bi_lock_stats_lock(&mutex, place);
    for (int64_t end = processor_time() + ns; processor_time() < end;)
        continue;
    bi_lock_stats_unlock(&mutex, place);
}

static int set_up(void **state)
{
    (void)state;
    for (int i = 0; i < MANY; i++)
        snprintf(places[i], sizeof(places[i]), "place %d", i);
    bi_lock_stats_reset();
    return 0;
}

/* Holds the lock at many places, at one of them for long: the longest hold so far is never lost. */
static void hold_at_many(int longest)
{
    int64_t before = 0;
    for (int i = 0; i < MANY; i++) {
        hold(places[i], i == longest ? LONG : 0);
        struct bi_lock_hold found = bi_lock_stats_longest();
        assert_true(found.cpu_ns >= before);
        before = found.cpu_ns;
    }
}

static void the_longest_hold_is_found_among_more_places_than_are_kept(void **state)
{
    static const int longest[] = {0, 100, 255, 256, 700, MANY - 1};
    for (size_t i = 0; i < COUNT_OF(longest); i++) {
        set_up(state);
        hold_at_many(longest[i]);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup(the_longest_hold_is_found_among_more_places_than_are_kept, set_up),
    };
    return cmocka_run_group_tests_name("lock_stats", tests, NULL, NULL);
}
