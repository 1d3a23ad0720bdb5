/* SPDX-License-Identifier: MIT */
/*
 * corruption.c - bytes that were overwritten: bodies, pages of the file, the log.
 */
#include "../sim/rng.h"
#include "snapshot.h"
#include "vfs.h"

#include <errno.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define PAGE_SIZE 4096

/* ---- bodies ---- */

#define JOBS  10
#define LARGE 5000
#define SMALL 100

static void make_jobs(size_t size)
{
    static char body[LARGE];
    bide *queue = open_jobs("");
    for (int i = 1; i <= JOBS; i++) {
        memset(body, 'a' + i, sizeof(body));
        OK(bide_put(queue, "work", body, size, NULL, NULL));
    }
    OK(bide_close(queue));
}

/* Takes every job that can be taken; none of them is the spoiled one, and each has its body. */
static void take_others(bide *queue, uint64_t spoiled, size_t size)
{
    for (int i = 0; i < JOBS - 1; i++) {
        bide_job job;
        OK(bide_reserve(queue, "work", PATIENCE_MS, &job));
        CHECK(job.id != spoiled);
        EQ(job.body_size, size);
        const char *body = job.body;
        CHECK(body[0] == (char)('a' + job.id) && body[size - 1] == body[0]);
        bide_job_clear(&job);
    }
}

static void check_buried(bide *queue, uint64_t id)
{
    bide_job job;
    OK(bide_job_stats(queue, id, &job));
    EQ(job.state, BIDE_STATE_BURIED);
    CHECK(job.last_error != NULL && job.last_error_size > 0);
    bide_job_clear(&job);
}

/* The first job cannot be handed out: it is buried with the reason, also after a restart, and the
 * reserve goes on with the next. */
static void try_body(size_t size, const char *sql)
{
    static const char *const names[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    bide_check_report report;
    for (size_t i = 0; i < COUNT(names); i++)
        remove(test_path(names[i]));
    make_jobs(size);
    SQL(test_path("jobs.db"), "%s", sql);
    bide *queue = open_jobs("cache_bytes=1");
    OK(bide_check(queue, &report));
    if (report.damaged == 0)
        FAIL("%s: the check finds nothing", sql);
    take_others(queue, 1, size);
    UNTIL(bide_reserve(queue, "work", 0, &(bide_job){.id = 0}) == BIDE_TIMED_OUT);
    check_buried(queue, 1);
    OK(bide_close(queue));
    queue = open_jobs("");
    check_buried(queue, 1);
    OK(bide_delete(queue, 1, 0));
    OK(bide_close(queue));
}

static void an_unreadable_small_body_buries_the_job(void)
{
    try_body(SMALL, "UPDATE job SET body_sum=body_sum+1 WHERE id=1");
    try_body(SMALL, "UPDATE job SET body=x'00' WHERE id=1");
    try_body(SMALL, "UPDATE job SET body=NULL WHERE id=1");
    try_body(SMALL, "UPDATE job SET body=replace(body,'bb','bc') WHERE id=1");
}

static void an_unreadable_large_body_buries_the_job(void)
{
    try_body(LARGE, "UPDATE job SET body_sum=body_sum+1 WHERE id=1");
    try_body(LARGE, "DELETE FROM body WHERE id=1");
    try_body(LARGE, "UPDATE body SET data=x'00' WHERE id=1");
    try_body(LARGE, "UPDATE body SET data=zeroblob(5000) WHERE id=1");
    try_body(LARGE, "UPDATE job SET body_size=5001 WHERE id=1");
    try_body(LARGE, "UPDATE job SET body_size=4999 WHERE id=1");
}

/* A reserve that waits is served by the next job that can be read. */
static void a_reserve_goes_on_waiting_after_an_unreadable_body(void)
{
    make_jobs(LARGE);
    SQL(test_path("jobs.db"), "DELETE FROM body; DELETE FROM job WHERE id>1");
    bide *queue = open_jobs("cache_bytes=1");
    bide_job job;
    CODE(bide_reserve(queue, "work", 50, &job), BIDE_TIMED_OUT);
    check_buried(queue, 1);
    OK(bide_put(queue, "work", "good", 4, NULL, NULL));
    OK(bide_reserve(queue, "work", PATIENCE_MS, &job));
    TEXT(job.body, job.body_size, "good");
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* ---- pages ---- */

#define MANY 1500

static void make_many(void)
{
    bide *queue = open_jobs("sync=off");
    for (uint64_t serial = 1; serial <= MANY; serial++)
        OK(put_serial(queue, "work", serial, NULL, NULL));
    OK(bide_close(queue));
}

static void spoil_page(int64_t page, int byte)
{
    unsigned char bytes[PAGE_SIZE];
    memset(bytes, byte, sizeof(bytes));
    CHECK(page > 1);
    write_file(test_path("jobs.db"), (page - 1) * PAGE_SIZE, bytes, sizeof(bytes));
}

/* A leaf in the middle of a table, and how many rows it has. */
static int64_t find_leaf(const char *table, int64_t *rows)
{
    char sql[300];
    const char *path = test_path("jobs.db");
    snprintf(sql, sizeof sql,
             "SELECT pageno FROM dbstat WHERE name='%s' AND pagetype='leaf' ORDER BY path "
             "LIMIT 1 OFFSET (SELECT count(*)/2 FROM dbstat WHERE name='%s' AND pagetype='leaf')",
             table, table);
    int64_t page = NUMBER(path, sql);
    snprintf(sql, sizeof sql, "SELECT ncell FROM dbstat WHERE pageno=%lld", (long long)page);
    *rows = NUMBER(path, sql);
    return page;
}

/* Every job that is there has its own body; answers how many there are. */
static int64_t count_whole(bide *queue)
{
    int64_t count = 0;
    for (uint64_t id = 1; id <= MANY; id++) {
        bide_job job;
        if (bide_peek(queue, id, &job) != BIDE_OK)
            continue;
        CHECK(body_is(id, job.body, job.body_size));
        bide_job_clear(&job);
        count++;
    }
    return count;
}

/* Opens a file with a spoiled leaf of the table job: only what lay there is missing. */
static void try_leaf(int byte)
{
    int64_t rows = 0;
    bide_recovery recovery = {.failed = 0};
    make_many();
    spoil_page(find_leaf("job", &rows), byte);
    CHECK(rows > 0 && rows < MANY);
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    CHECK(recovery.failed > 0);
    BETWEEN(count_whole(queue), MANY - rows, MANY);
    bide_check_report report;
    OK(bide_check(queue, &report));
    CHECK(report.problem[0] != 0);
    uint64_t id = 0;
    OK(bide_put(queue, "work", "new", 3, NULL, &id));
    CHECK(id > MANY);
    OK(bide_close(queue));
}

static void garbage_in_a_page_of_jobs_loses_only_its_rows(void)
{
    try_leaf(0xa5);
}

/* Overwrites a part of a page, in which rows may then seem to have ids that are not theirs. */
static void spoil_part(int64_t page, struct rng *rng)
{
    unsigned char bytes[PAGE_SIZE];
    size_t from = rng_below(rng, PAGE_SIZE - 64);
    size_t size = 64 + rng_below(rng, PAGE_SIZE - from - 63);
    for (size_t i = 0; i < size; i++)
        bytes[i] = (unsigned char)rng_below(rng, 256);
    write_file(test_path("jobs.db"), (page - 1) * PAGE_SIZE + (int64_t)from, bytes, size);
}

static void garbage_in_a_part_of_a_page_loses_only_its_rows(void)
{
    struct rng rng;
    for (uint64_t seed = 1; seed <= 5; seed++) {
        int64_t rows = 0;
        bide_recovery recovery = {.failed = 0};
        rng = (struct rng){seed};
        unlink(test_path("jobs.db"));
        make_many();
        spoil_part(find_leaf("job", &rows), &rng);
        bide *queue = open_url_at(HERE, url_of("jobs.db", "sync=off"), &recovery);
        int64_t count = count_whole(queue);
        BETWEEN(count, MANY - rows, MANY);
        /* A page that has fewer rows than before, in order, is told by a check alone. */
        bide_check_report report;
        OK(bide_check(queue, &report));
        CHECK(count == MANY || recovery.failed > 0 || report.problem[0] != 0);
        OK(bide_close(queue));
    }
}

/* Where the damage ends is found by reading on: a read that fails once there is no damage. */
static void failed_read_after_a_damaged_page_loses_no_rows(void)
{
    int64_t rows = 0;
    bide_recovery recovery = {.failed = 0};
    vfs_install();
    make_many();
    const char *path = test_path("jobs.db");
    int64_t page = find_leaf("job", &rows);
    int64_t next = NUMBER(path, "SELECT pageno FROM dbstat WHERE name='job' AND pagetype='leaf' "
                                "ORDER BY path LIMIT 1 OFFSET 1 + (SELECT count(*)/2 FROM dbstat "
                                "WHERE name='job' AND pagetype='leaf')");
    CHECK(next > 1 && next != page);
    spoil_page(page, 0xa5);
    vfs_region((next - 1) * PAGE_SIZE, next * PAGE_SIZE);
    vfs_fail(&(struct vfs_fault){VFS_READ, "", 1, 1, SQLITE_IOERR_READ, EIO});
    unsigned before = vfs_failed();
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    EQ(vfs_failed() - before, 1);
    EQ(recovery.failed, 1);
    BETWEEN(count_whole(queue), MANY - rows, MANY);
    OK(bide_close(queue));
}

/* New jobs would come into that page: they are refused, the old ones are served. */
static void garbage_in_the_last_page_of_jobs_leaves_the_others(void)
{
    bide_recovery recovery = {.failed = 0};
    make_many();
    int64_t page = NUMBER(test_path("jobs.db"), "SELECT pageno FROM dbstat WHERE name='job' AND "
                                                "pagetype='leaf' ORDER BY path DESC LIMIT 1");
    spoil_page(page, 0xa5);
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    CHECK(recovery.failed > 0 && recovery.loaded > MANY / 2);
    BETWEEN(count_whole(queue), MANY / 2, MANY);
    bide_job job;
    OK(bide_reserve(queue, "work", 0, &job));
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void zeros_in_a_page_of_jobs_lose_only_its_rows(void)
{
    try_leaf(0);
}

/* Jobs whose bodies lay there are buried when their turn comes. */
static void garbage_in_a_page_of_bodies_loses_only_its_bodies(void)
{
    int64_t rows = 0;
    make_many();
    spoil_page(find_leaf("body", &rows), 0xa5);
    bide *queue = open_jobs("cache_bytes=1");
    int64_t taken = 0;
    bide_job job;
    for (int code; taken < MANY && (code = bide_reserve(queue, "work", 200, &job)) == BIDE_OK;) {
        CHECK(body_is(job.id, job.body, job.body_size));
        bide_job_clear(&job);
        taken++;
    }
    bide_topic_stats stats;
    OK(bide_topic_get_stats(queue, "work", &stats));
    EQ(stats.jobs.buried + stats.jobs.reserved, MANY);
    CHECK(stats.jobs.buried > 0 && stats.jobs.buried < MANY / 2);
    OK(bide_close(queue));
}

/* Every call reports the damage, and the file is left unchanged for repair. */
static void garbage_in_the_first_page_is_rejected(void)
{
    unsigned char bytes[PAGE_SIZE];
    make_many();
    int64_t size = size_of(test_path("jobs.db"));
    memset(bytes, 0xa5, sizeof(bytes));
    write_file(test_path("jobs.db"), 0, bytes, sizeof(bytes));
    bide *queue = NULL;
    int code = bide_open(url_of("jobs.db", ""), NULL, &queue);
    CHECK(code == BIDE_EINVAL || code == BIDE_EIO);
    CHECK(strstr(bide_last_error(), "jobs.db") != NULL);
    EQ(size_of(test_path("jobs.db")), size);
}

/* A file that was cut, or whose tree is broken at the root: an answer, and no crash. */
static void open_or_report(void)
{
    bide *queue = NULL;
    int code = bide_open(url_of("jobs.db", ""), NULL, &queue);
    if (code != BIDE_OK) {
        CHECK(code == BIDE_EIO || code == BIDE_EINVAL);
        CHECK(strstr(bide_last_error(), "jobs.db") != NULL);
        return;
    }
    bide_recovery recovery;
    OK(bide_wait_recovered(queue, 60000, &recovery));
    CHECK(recovery.failed > 0);
    count_whole(queue);
    OK(bide_close(queue));
}

static void truncated_file_opens_or_reports_the_reason(void)
{
    make_many();
    CHECK(truncate(test_path("jobs.db"), size_of(test_path("jobs.db")) / 2) == 0);
    open_or_report();
}

static void garbage_in_the_root_page_is_reported(void)
{
    make_many();
    spoil_page(NUMBER(test_path("jobs.db"), "SELECT rootpage FROM sqlite_schema WHERE name='job'"),
               0xa5);
    open_or_report();
}

/* ---- the log ---- */

/* Leaves a log behind, as a killed process does. With sync=full it has been given its length
 * ahead. */
static void make_log(const char *parameters)
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        bide *queue = open_jobs(parameters);
        for (uint64_t serial = 1; serial <= MANY / 10; serial++)
            OK(put_serial(queue, "work", serial, NULL, NULL));
        kill(getpid(), SIGKILL);
    }
    int status = 0;
    CHECK(waitpid(child, &status, 0) == child && WIFSIGNALED(status));
    CHECK(size_of(test_path("jobs.db-wal")) > 20 * PAGE_SIZE);
}

/* The first jobs are there, up to some one, and they are whole; answers how many. */
static uint64_t count_first(void)
{
    bide *queue = open_jobs("");
    struct snapshot *snapshot = snapshot_take(queue);
    for (size_t i = 0; i < snapshot->count; i++)
        EQ(snapshot->jobs[i].id, i + 1);
    uint64_t count = snapshot->count;
    EQ(count_whole(queue), count);
    snapshot_free(snapshot);
    OK(bide_put(queue, "work", "new", 3, NULL, NULL));
    OK(bide_close(queue));
    return count;
}

static void truncated_log_keeps_the_commits_before_the_cut(void)
{
    make_log("sync=normal");
    CHECK(truncate(test_path("jobs.db-wal"), size_of(test_path("jobs.db-wal")) / 2 + 100) == 0);
    BETWEEN((int64_t)count_first(), 1, MANY / 10 - 1);
}

static void garbage_in_the_log_keeps_the_commits_before_it(void)
{
    char bytes[512];
    make_log("sync=normal");
    memset(bytes, 0xa5, sizeof(bytes));
    write_file(test_path("jobs.db-wal"), size_of(test_path("jobs.db-wal")) / 2, bytes,
               sizeof(bytes));
    BETWEEN((int64_t)count_first(), 1, MANY / 10 - 1);
}

static void a_log_with_its_length_ahead_is_read_to_its_end(void)
{
    make_log("sync=full");
    EQ(count_first(), MANY / 10);
}

static void garbage_after_the_log_is_harmless(void)
{
    char bytes[3 * PAGE_SIZE];
    make_log("sync=normal");
    memset(bytes, 0xa5, sizeof(bytes));
    write_file(test_path("jobs.db-wal"), size_of(test_path("jobs.db-wal")), bytes, sizeof(bytes));
    EQ(count_first(), MANY / 10);
}

static void garbage_in_the_shared_index_is_harmless(void)
{
    char bytes[32768];
    make_log("sync=normal");
    memset(bytes, 0xa5, sizeof(bytes));
    write_file(test_path("jobs.db-shm"), 0, bytes, sizeof(bytes));
    EQ(count_first(), MANY / 10);
}

static const struct test tests[] = {
    TEST(an_unreadable_small_body_buries_the_job),
    TEST(an_unreadable_large_body_buries_the_job),
    TEST(a_reserve_goes_on_waiting_after_an_unreadable_body),
    TEST(garbage_in_a_page_of_jobs_loses_only_its_rows),
    TEST(garbage_in_a_part_of_a_page_loses_only_its_rows),
    TEST(failed_read_after_a_damaged_page_loses_no_rows),
    TEST(garbage_in_the_last_page_of_jobs_leaves_the_others),
    TEST(zeros_in_a_page_of_jobs_lose_only_its_rows),
    TEST(garbage_in_a_page_of_bodies_loses_only_its_bodies),
    TEST(garbage_in_the_first_page_is_rejected),
    TEST(truncated_file_opens_or_reports_the_reason),
    TEST(garbage_in_the_root_page_is_reported),
    TEST(truncated_log_keeps_the_commits_before_the_cut),
    TEST(garbage_in_the_log_keeps_the_commits_before_it),
    TEST(a_log_with_its_length_ahead_is_read_to_its_end),
    TEST(garbage_after_the_log_is_harmless),
    TEST(garbage_in_the_shared_index_is_harmless),
};
const struct theme page_theme = {"corruption", tests, COUNT(tests)};
