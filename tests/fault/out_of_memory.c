/* SPDX-License-Identifier: MIT */
/*
 * out_of_memory.c - memory lacks while what was stored is loaded: that is no damage.
 *
 * The program is linked so that every allocation of the library comes through here; SQLite is given
 * an allocator that does the same.
 */
#include "fault.h"
#include "snapshot.h"

#include <inttypes.h>
#include <sched.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- an allocator that fails ---- */

static _Atomic int64_t until_failure; /* allocations; 0 or below: the next ones fail */
static _Atomic int64_t failures_left;
static _Atomic size_t failing_size; /* only allocations of this size; 0: of any */
static _Atomic size_t failing_from; /* only allocations of at least this size */
static _Atomic unsigned failed;

static void fail_allocations(int64_t nth, int64_t times, size_t size)
{
    failures_left = 0;
    failed = 0;
    failing_size = size;
    until_failure = nth - 1;
    failures_left = times;
}

static bool must_fail(size_t size)
{
    if (failures_left <= 0 || (failing_size != 0 && size != failing_size) || size < failing_from)
        return false;
    if (atomic_fetch_sub(&until_failure, 1) > 0)
        return false;
    if (atomic_fetch_sub(&failures_left, 1) <= 0)
        return false;
    failed++;
    return true;
}

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_malloc(size_t size)
{
    return must_fail(size) ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail(count * size) ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    return must_fail(size) ? NULL : __real_realloc(memory, size);
}

static sqlite3_mem_methods original;

static void *sqlite_malloc(int size)
{
    return must_fail((size_t)size) ? NULL : original.xMalloc(size);
}

static void *sqlite_realloc(void *memory, int size)
{
    return must_fail((size_t)size) ? NULL : original.xRealloc(memory, size);
}

/* Before SQLite is used. */
static void share_allocator_with_sqlite(void)
{
    CHECK(sqlite3_config(SQLITE_CONFIG_GETMALLOC, &original) == SQLITE_OK);
    sqlite3_mem_methods methods = original;
    methods.xMalloc = sqlite_malloc;
    methods.xRealloc = sqlite_realloc;
    CHECK(sqlite3_config(SQLITE_CONFIG_MALLOC, &methods) == SQLITE_OK);
    CHECK(sqlite3_config(SQLITE_CONFIG_LOOKASIDE, 0, 0) == SQLITE_OK);
}

/* ---- a file with something of everything ---- */

static void put_kind(bide *queue, uint64_t serial)
{
    static char long_topic[121];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    char key[100];
    uint64_t id;
    memset(long_topic, 't', sizeof(long_topic) - 1);
    snprintf(key, sizeof(key), "a key that is long enough not to fit anywhere else, %" PRIu64,
             serial);
    if (serial % 2 == 0)
        options.key = slice_of(key);
    if (serial % 5 == 1)
        options.delay_ms = HOUR_MS;
    options.retain_ms = HOUR_MS;
    OK(put_serial(queue, serial % 7 == 0 ? long_topic : "work", serial, &options, &id));
    if (serial % 5 == 2)
        OK(bide_bury(queue, id, 0, BIDE_KEEP, "a reason of some length, so that it is copied"));
    if (serial % 5 == 3)
        OK(bide_done(queue, id, 0, "result", 6, HOUR_MS));
}

/* Opens, however often that fails for want of memory. */
static bide *open_at_last(const char *url)
{
    bide *queue = NULL;
    for (int tries = 0; tries < 100; tries++) {
        int code = bide_open(url, NULL, &queue);
        if (code == BIDE_OK)
            return queue;
        if (code != BIDE_ENOMEM && code != BIDE_EIO)
            FAIL("open answered %d: %s", code, bide_last_error());
    }
    FAIL("not opened: %s", bide_last_error());
}

static void try_point(const struct snapshot *stored, const char *url, int64_t nth, int64_t times)
{
    char text[DIFFERENCE_SIZE];
    bide_recovery recovery;
    fail_allocations(nth, times, 0);
    bide *queue = open_at_last(url);
    int code;
    while ((code = bide_wait_recovered(queue, 60000, &recovery)) == BIDE_ENOMEM)
        continue; /* the call itself lacked memory; the suite's timeout ends it */
    failures_left = 0;
    CODE(code, BIDE_OK);
    EQ(recovery.failed, 0);
    struct snapshot *now = snapshot_take(queue);
    if (!snapshot_survived(stored, now, text))
        FAIL("allocation %" PRId64 " failed: %s", nth, text);
    snapshot_free(now);
    OK(bide_close(queue));
    EQ(NUMBER(test_path("jobs.db"), "SELECT count(*) FROM damaged"), 0);
}

static void a_failed_allocation_in_recovery_is_no_damage(void)
{
    share_allocator_with_sqlite();
    const char *url = "";
    char room[300];
    snprintf(room, sizeof(room), "%s", url_of("jobs.db", "sync=off"));
    url = room;
    bide *queue = open_url(url);
    for (uint64_t serial = 1; serial <= 40; serial++)
        put_kind(queue, serial);
    struct snapshot *stored = snapshot_take(queue);
    OK(bide_close(queue));
    int64_t nth = 1;
    do {
        try_point(stored, url, nth, nth % 3 == 0 ? 5 : 1);
        nth += 1 + nth / 100;
    } while (failed > 0);
    CHECK(nth > 100);
    snapshot_free(stored);
}

/* ---- a job that is wanted before the scan comes to it ---- */

#define MANY       100000
#define LOTS       1000
#define IDSET_SIZE 2048 /* of the first set of ids that were loaded early */

static void fill(bide *queue)
{
    static bide_put_item items[LOTS];
    for (int done = 0; done < MANY; done += LOTS) {
        for (size_t i = 0; i < LOTS; i++)
            items[i] = (bide_put_item){.topic = slice_of("work"), .body = slice_of("body")};
        OK(bide_put_many(queue, items, LOTS, NULL));
        EQ(items[LOTS - 1].status, BIDE_OK);
    }
}

static void check_all(bide *queue, uint64_t count)
{
    bide_stats stats;
    bide_recovery recovery;
    OK(bide_wait_recovered(queue, 60000, &recovery));
    EQ(recovery.failed, 0);
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, count);
    OK(bide_close(queue));
    EQ(NUMBER(test_path("jobs.db"), "SELECT count(*) FROM damaged"), 0);
}

static void failed_allocation_does_not_damage_a_job_loaded_early(void)
{
    bide *queue = open_jobs("sync=off");
    fill(queue);
    OK(bide_close(queue));
    OK(bide_open(url_of("jobs.db", "sync=off"), NULL, &queue));
    fail_allocations(1, 1, IDSET_SIZE);
    bide_job job = {.id = 0};
    int code = bide_job_stats(queue, MANY, &job);
    CHECK(code == BIDE_OK || code == BIDE_ENOMEM);
    EQ(failed, 1); /* else the queue was loaded before */
    bide_job_clear(&job);
    OK(bide_delete(queue, MANY - 1, 0));
    check_all(queue, MANY - 1);
    check_all(open_jobs("sync=off"), MANY - 1);
}

/* ---- closing ---- */

/* What the scan reads into is larger. */
#define SLICE_FROM 100000

static void queue_out_of_memory_while_loading_can_be_closed(void)
{
    bide *queue = open_jobs("sync=off");
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    OK(bide_close(queue));
    failing_from = SLICE_FROM;
    fail_allocations(1, INT64_MAX, 0);
    OK(bide_open(url_of("jobs.db", "sync=off"), NULL, &queue));
    while (failed == 0)
        sched_yield();
    CODE(bide_wait_recovered(queue, 0, NULL), BIDE_TIMED_OUT);
    OK(bide_close(queue));
    failures_left = 0;
    failing_from = 0;
    check_all(open_jobs("sync=off"), 1);
}

static const struct test tests[] = {
    TEST(a_failed_allocation_in_recovery_is_no_damage),
    TEST(failed_allocation_does_not_damage_a_job_loaded_early),
    TEST(queue_out_of_memory_while_loading_can_be_closed),
};
const struct theme memory_theme = {"out_of_memory", tests, COUNT(tests)};
