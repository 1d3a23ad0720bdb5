/* SPDX-License-Identifier: MIT */
/*
 * random_errors.c - the disk errs now and then.
 */
#include "script.h"
#include "snapshot.h"
#include "vfs.h"

#include <errno.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>

#define SEEDS     30
#define PER_MILLE 60

static uint64_t chance;

static void arm(void)
{
    vfs_fail_at_random(++chance, PER_MILLE);
}

/* Calls that fail are tried again later by the script itself; in the end all is well. */
static void run_seed(uint64_t seed)
{
    struct script script;
    fresh_folder("file");
    const char *url = url_of("file/jobs.db", "");
    chance = seed * 1000;
    bide *queue = open_url(url);
    script_begin(&script, queue);
    snprintf(script.note, sizeof script.note, "seed %llu: ", (unsigned long long)seed);
    for (size_t step = 0; step < script_length(); step++)
        script_try(&script, step, arm, vfs_clear_faults);
    /* A commit that could not be settled is tried again every 200 ms; until then all is refused. */
    UNTIL(script_run(&script, 0) == BIDE_OK);
    for (size_t step = 0; step < script_length(); step++)
        if (script_try(&script, step, NULL, NULL) != BIDE_OK)
            FAIL("%safter all errors %s: %s", script.note, script_name(step), script.error);
    script_done(&script);
    snapshot_check_reopened(url, queue);
}

static void errors_at_random_places_are_reported_and_recovered(void)
{
    vfs_install();
    vfs_skip_syncs(true);
    for (uint64_t seed = 1; seed <= SEEDS; seed++)
        run_seed(seed);
    CHECK(vfs_failed() > SEEDS);
}

/* ---- reading ---- */

#define LARGE 5000

static void put_large(bide *queue, int count)
{
    static char body[LARGE];
    for (int i = 0; i < count; i++) {
        memset(body, 'a' + i, sizeof(body));
        OK(bide_put(queue, "work", body, sizeof(body), NULL, NULL));
    }
}

/* The body of each job is that of its number, whatever became of the job. */
static void check_large(bide *queue, int count)
{
    for (int i = 0; i < count; i++) {
        bide_job job;
        OK(bide_peek(queue, (uint64_t)i + 1, &job));
        EQ(job.body_size, LARGE);
        const char *body = job.body;
        CHECK(body != NULL && body[0] == 'a' + i && body[LARGE - 1] == 'a' + i);
        bide_job_clear(&job);
    }
}

/* A reserve may wait, answer the failure, or set the job aside. It must not hand out a wrong body,
 * and when the disk can be read again all bodies are there. */
static void a_body_that_cannot_be_read_for_a_while_is_not_lost(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    put_large(queue, 8);
    OK(bide_close(queue));
    queue = open_jobs("cache_bytes=1");
    vfs_fail(&(struct vfs_fault){VFS_READ, "", 1, 0, SQLITE_IOERR_READ, EIO});
    for (int i = 0; i < 4; i++) {
        bide_job job;
        int code = bide_reserve(queue, "work", 100, &job);
        if (code == BIDE_OK) {
            EQ(job.body_size, LARGE);
            CHECK(((const char *)job.body)[0] == 'a' + (char)(job.id - 1));
            bide_job_clear(&job);
        }
    }
    vfs_clear_faults();
    check_large(queue, 8);
    snapshot_check_reopened(url_of("jobs.db", ""), queue);
}

/* ---- kick and purge that fail on their way ---- */

#define MANY 6000

static uint64_t count_in(bide *queue, bide_state state)
{
    bide_topic_stats stats;
    int code = bide_topic_get_stats(queue, "work", &stats);
    if (code == BIDE_NOT_FOUND)
        return 0;
    EQ(code, BIDE_OK);
    return state == BIDE_STATE_READY ? stats.jobs.ready : stats.jobs.delayed;
}

static bide *open_with_many(const char *url, int64_t delay_ms)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = delay_ms;
    bide *queue = open_url(url);
    for (int i = 0; i < MANY / BIDE_BATCH_JOBS; i++) {
        for (size_t j = 0; j < COUNT(items); j++)
            items[j] = (bide_put_item){.topic = {"work", 4}, .options = &options};
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    }
    return queue;
}

/* Fails at one of the syncs of a long kick (or purge); answers whether it did. */
static bool try_long(const char *parameters, unsigned nth, bool purge)
{
    fresh_folder("file");
    const char *url = url_of("file/jobs.db", parameters);
    bide *queue = open_with_many(url, 3600000);
    uint64_t count = 0;
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "-wal", nth, 1, SQLITE_IOERR_FSYNC, EIO});
    int code = purge ? bide_purge(queue, "work", BIDE_STATE_DELAYED, &count)
                     : bide_kick(queue, "work", UINT64_MAX, &count);
    bool failed = code != BIDE_OK;
    vfs_clear_faults();
    if (failed)
        EQ(code, BIDE_EIO);
    else
        EQ(count, MANY);
    EQ(count_in(queue, BIDE_STATE_DELAYED), MANY - count);
    if (!purge)
        EQ(count_in(queue, BIDE_STATE_READY), count);
    OK(bide_close(queue));
    queue = open_url(url);
    EQ(count_in(queue, BIDE_STATE_DELAYED), MANY - count);
    OK(bide_close(queue));
    return failed && count > 0;
}

/* Of a long kick or purge that fails, the answer tells how much is stored. */
static void try_every_part(const char *parameters, bool purge)
{
    vfs_install();
    vfs_skip_syncs(true);
    unsigned on_the_way = 0;
    for (unsigned nth = 1; nth <= 8; nth++)
        on_the_way += try_long(parameters, nth, purge);
    CHECK(on_the_way > 0);
}

static void failed_kick_returns_the_stored_count(void)
{
    try_every_part("", false);
    try_every_part("batch_jobs=300", false);
}

static void failed_purge_returns_the_stored_count(void)
{
    try_every_part("", true);
    try_every_part("batch_jobs=300", true);
}

static const struct test tests[] = {
    TEST(errors_at_random_places_are_reported_and_recovered),
    TEST(a_body_that_cannot_be_read_for_a_while_is_not_lost),
    TEST(failed_kick_returns_the_stored_count),
    TEST(failed_purge_returns_the_stored_count),
};
const struct theme errors_theme = {"random_errors", tests, COUNT(tests)};
