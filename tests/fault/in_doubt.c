/* SPDX-License-Identifier: MIT */
/*
 * in_doubt.c - what becomes of the queue after a failed sync, while the file is compared with what
 * was acknowledged, and when the store is lost for longer.
 */
#include "fault.h"
#include "vfs.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { JOBS = 3000, BODY_SIZE = 300 };

/* Bytes of the file that have rows of jobs which only a comparison of everything reads: neither the
 * first jobs nor the last ones, nor the root of the table. */
#define REGION_FROM  400000
#define REGION_TO    600000
#define REGION_PAGES ((REGION_TO - REGION_FROM) / 4096 + 2)

/* ---- the log ---- */

static struct {
    pthread_mutex_t lock;
    unsigned lines;
    char text[65536];
} logged = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_log(void *user, bide_log_level level, const char *text)
{
    (void)user;
    (void)level;
    pthread_mutex_lock(&logged.lock);
    size_t used = strlen(logged.text);
    snprintf(logged.text + used, sizeof logged.text - used, "%s\n", text);
    logged.lines++;
    pthread_mutex_unlock(&logged.lock);
}

static bool was_logged(const char *text)
{
    pthread_mutex_lock(&logged.lock);
    bool found = strstr(logged.text, text) != NULL;
    pthread_mutex_unlock(&logged.lock);
    return found;
}

static unsigned count_lines(void)
{
    pthread_mutex_lock(&logged.lock);
    unsigned lines = logged.lines;
    pthread_mutex_unlock(&logged.lock);
    return lines;
}

static bide *open_logging(void)
{
    bide_options options = BIDE_OPTIONS_INIT;
    options.log = on_log;
    bide *queue = NULL;
    OK(bide_open(url_of("jobs.db", ""), &options, &queue));
    OK(bide_wait_recovered(queue, 60000, NULL));
    return queue;
}

/* ---- a queue with many jobs ---- */

static bide *open_many(void)
{
    static char body[BODY_SIZE];
    vfs_install();
    vfs_skip_syncs(true);
    bide *queue = open_jobs("");
    for (int i = 0; i < JOBS; i++) {
        bide_put_item items[100];
        size_t accepted = 0;
        memset(items, 0, sizeof items);
        for (size_t k = 0; k < COUNT(items); k++, i++)
            items[k] = (bide_put_item){.topic = slice_of("many"), .body = {body, BODY_SIZE}};
        i--;
        OK(bide_put_many(queue, items, COUNT(items), &accepted));
    }
    OK(bide_close(queue));
    CHECK(size_of(test_path("jobs.db")) > 2 * REGION_TO - REGION_FROM);
    queue = open_logging();
    vfs_region(REGION_FROM, REGION_TO);
    return queue;
}

static void fail_next_sync(void)
{
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "-wal", 1, 1, SQLITE_IOERR_FSYNC, EIO});
}

static int put_one(bide *queue, uint64_t *id)
{
    return bide_put(queue, "work", "body", 4, NULL, id);
}

#define NO_DIFFERENCE(queue) no_difference(HERE, (queue))
static void no_difference(struct where at, bide *queue)
{
    bide_check_report report;
    check_code(at, bide_check(queue, &report), BIDE_OK, "bide_check()");
    check_text(at, report.problem, strlen(report.problem), "", "the problem");
    check_equal(at, (int64_t)report.differences, 0, "differences");
}

/* A put whose sync fails, and that nothing waits for here. */
static bide_cq *begin_doubt(bide *queue, bide_op *op)
{
    bide_cq *cq = NULL;
    OK(bide_cq_new(&cq));
    *op = (bide_op){.kind = BIDE_OP_PUT,
                    .cq = cq,
                    .put = {.topic = slice_of("work"), .body = slice_of("in doubt")}};
    fail_next_sync();
    EQ(bide_submit(queue, &op, 1), 1);
    return cq;
}

static void end_doubt(bide_cq *cq, const bide_op *op)
{
    UNTIL((bide_cq_drain(cq, 0), op->status != BIDE_PENDING));
    CHECK(op->status == BIDE_OK || op->status == BIDE_EIO);
    OK(bide_cq_free(cq));
}

/* ---- read errors ---- */

/* From the nth read of the region on, reads fail until they have done so for a while. */
static void try_failing_reads(unsigned nth)
{
    bide *queue = open_many();
    bide_op op;
    vfs_fail(&(struct vfs_fault){VFS_READ, "", nth, 0, SQLITE_IOERR_READ, EIO});
    unsigned before = vfs_failed();
    bide_cq *cq = begin_doubt(queue, &op);
    UNTIL(vfs_failed() > before + 25);
    vfs_clear_faults();
    end_doubt(cq, &op);
    UNTIL(put_one(queue, NULL) == BIDE_OK);
    UNTIL(was_logged("has everything"));
    OK(put_one(queue, NULL));
    NO_DIFFERENCE(queue);
    OK(bide_close(queue));
}

static void failing_reads_during_verify_are_retried(void)
{
    try_failing_reads(1);
}

static void failing_reads_of_single_jobs_are_retried(void)
{
    try_failing_reads(REGION_PAGES + 1);
}

/* ---- answers while the file is compared ---- */

/* Reads of the region stand still: puts and deletes are answered all the same. */
static void work_during_comparison(bide *queue, uint64_t ids[100])
{
    bide_op op;
    vfs_hold(true);
    bide_cq *cq = begin_doubt(queue, &op);
    end_doubt(cq, &op);
    UNTIL(vfs_held() > 0);
    for (int i = 0; i < 100; i++)
        OK(put_one(queue, &ids[i]));
    for (uint64_t id = 1; id <= 20; id++)
        OK(bide_delete(queue, id, 0));
    OK(bide_delete(queue, ids[99], 0));
    CHECK(vfs_held() > 0 && !was_logged("has everything"));
}

static void ops_complete_while_the_file_is_verified(void)
{
    uint64_t ids[100];
    bide *queue = open_many();
    work_during_comparison(queue, ids);
    vfs_hold(false);
    UNTIL(was_logged("has everything"));
    NO_DIFFERENCE(queue);
    OK(bide_close(queue));
}

static void work_and_report(int report_fd)
{
    uint64_t ids[100];
    work_during_comparison(open_many(), ids);
    CHECK(write(report_fd, ids, sizeof ids) == (ssize_t)sizeof ids);
    for (;;)
        pause();
}

static void kill_while_the_file_is_verified_loses_nothing(void)
{
    int ends[2];
    uint64_t ids[100];
    bide_job job;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        work_and_report(ends[1]);
    close(ends[1]);
    CHECK(read(ends[0], ids, sizeof ids) == (ssize_t)sizeof ids);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    bide *queue = open_jobs("");
    for (int i = 0; i < 99; i++) {
        OK(bide_peek(queue, ids[i], &job));
        bide_job_clear(&job);
    }
    for (uint64_t id = 1; id <= 20; id++)
        CODE(bide_peek(queue, id, &job), BIDE_NOT_FOUND);
    CODE(bide_peek(queue, ids[99], &job), BIDE_NOT_FOUND);
    bide_topic_stats stats;
    OK(bide_topic_get_stats(queue, "many", &stats));
    EQ(stats.jobs.ready, JOBS - 20);
    NO_DIFFERENCE(queue);
    OK(bide_close(queue));
}

/* A checkpoint fails, to which no call belongs: everything is compared all the same. */
static void failed_sync_of_a_checkpoint_is_followed_by_a_verify(void)
{
    bide *queue = open_many();
    unsigned before = vfs_failed();
    OK(put_one(queue, NULL));
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "jobs.db", 1, 1, SQLITE_IOERR_FSYNC, EIO});
    UNTIL(vfs_failed() > before);
    UNTIL((put_one(queue, NULL), was_logged("has everything")));
    OK(put_one(queue, NULL));
    NO_DIFFERENCE(queue);
    OK(bide_close(queue));
}

/* ---- a file that has lost something ---- */

static void lose_a_job(bide *queue, const char *sql)
{
    bide_op op;
    SQL(test_path("jobs.db"), "%s", sql);
    bide_cq *cq = begin_doubt(queue, &op);
    end_doubt(cq, &op);
    UNTIL(put_one(queue, NULL) == BIDE_EIO);
    if (strstr(bide_last_error(), "does not hold") == NULL)
        FAIL("expected the difference in \"%s\"", bide_last_error());
    CHECK(was_logged("job 1500"));
    CODE(bide_delete(queue, 2, 0), BIDE_EIO);
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    bide_check_report report;
    OK(bide_check(queue, &report));
    EQ(report.differences, 1);
    CHECK(strstr(report.problem, "job 1500") != NULL);
    CODE(put_one(queue, NULL), BIDE_EIO);
}

static void lost_job_stops_writes_until_the_queue_is_reopened(void)
{
    bide *queue = open_many();
    lose_a_job(queue, "DELETE FROM job WHERE id=1500");
    OK(bide_close(queue));
    queue = open_jobs("");
    bide_job job;
    CODE(bide_peek(queue, 1500, &job), BIDE_NOT_FOUND);
    OK(put_one(queue, NULL));
    NO_DIFFERENCE(queue);
    OK(bide_close(queue));
}

static void check_without_differences_resumes_writes(void)
{
    bide *queue = open_many();
    lose_a_job(queue, "CREATE TABLE saved AS SELECT * FROM job WHERE id=1500;"
                      "DELETE FROM job WHERE id=1500");
    SQL(test_path("jobs.db"), "INSERT INTO job SELECT * FROM saved; DROP TABLE saved");
    NO_DIFFERENCE(queue);
    OK(put_one(queue, NULL));
    OK(bide_close(queue));
}

/* ---- a store that stays away ---- */

static void a_lost_store_does_not_flood_the_log(void)
{
    vfs_install();
    bide *queue = open_logging();
    OK(put_one(queue, NULL));
    CHECK(unlink(test_path("jobs.db")) == 0);
    unsigned before = count_lines();
    int64_t begin_us = clock_us();
    CODE(put_one(queue, NULL), BIDE_EIO);
    usleep(2500000);
    unsigned lines = count_lines() - before;
    int64_t seconds = (clock_us() - begin_us) / 1000000;
    if (lines == 0 || lines > 2 + seconds)
        FAIL("%u lines in %lld seconds", lines, (long long)seconds);
    OK(bide_close(queue));
}

static void recovered_store_is_logged(void)
{
    vfs_install();
    vfs_skip_syncs(true);
    bide *queue = open_logging();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 0, SQLITE_IOERR_WRITE, EIO});
    int64_t begin_us = clock_us();
    for (int i = 0; i < 50; i++)
        CODE(put_one(queue, NULL), BIDE_EIO);
    CHECK(!was_logged("succeed again"));
    int64_t seconds = (clock_us() - begin_us) / 1000000;
    if (count_lines() > 4 + 3 * seconds)
        FAIL("%u lines in %lld seconds", count_lines(), (long long)seconds);
    vfs_clear_faults();
    UNTIL(put_one(queue, NULL) == BIDE_OK);
    UNTIL(was_logged("succeed again"));
    OK(bide_close(queue));
}

/* The log takes everything, but the file takes nothing of it. */
static void failing_checkpoint_does_not_flood_the_log(void)
{
    static char body[60000];
    vfs_install();
    vfs_skip_syncs(true);
    bide *queue = open_logging();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "jobs.db", 1, 0, SQLITE_IOERR_WRITE, EIO});
    int64_t begin_us = clock_us();
    for (int i = 0; i < 250; i++)
        OK(bide_put(queue, "work", body, sizeof body, NULL, NULL));
    int64_t seconds = (clock_us() - begin_us) / 1000000;
    CHECK(was_logged("cannot checkpoint the log"));
    if (count_lines() > 2 + seconds)
        FAIL("%u lines in %lld seconds", count_lines(), (long long)seconds);
    vfs_clear_faults();
    OK(bide_close(queue));
}

/* ---- closing during a backup ---- */

static void a_close_ends_a_running_backup(void)
{
    bide *queue = open_many();
    vfs_region(0, 0);
    vfs_slow_reads(1000);
    bide_cq *cq = NULL;
    OK(bide_cq_new(&cq));
    bide_op op = {.kind = BIDE_OP_BACKUP, .cq = cq, .backup = {.path = test_path("copy.db")}};
    bide_op *ops[] = {&op};
    EQ(bide_submit(queue, ops, 1), 1);
    unsigned begun = vfs_count(VFS_READ);
    UNTIL(vfs_count(VFS_READ) > begun + 10);
    unsigned before = vfs_count(VFS_READ);
    OK(bide_close(queue));
    unsigned reads = vfs_count(VFS_READ) - before;
    bide_cq_drain(cq, 0);
    EQ(op.status, BIDE_CLOSED);
    if (reads > 150)
        FAIL("%u pages were read after the queue was closed", reads);
    CHECK(!file_exists(test_path("copy.db")));
    CHECK(NUMBER(test_path("jobs.db"), "SELECT count(*) FROM job") == JOBS);
    char command[4200];
    snprintf(command, sizeof command, "test -z \"$(ls %s | grep copy)\"", test_dir());
    EQ(system(command), 0);
    OK(bide_cq_free(cq));
}

/* ---- while the stored rows are counted ---- */

/* A file with so many rows, open, and its rows are being counted; answers how many reads there
 * were. */
static unsigned open_while_counting(unsigned rows, bide **queue)
{
    static bide_put_item items[1000];
    vfs_install();
    OK(bide_open(url_of("jobs.db", "sync=off"), NULL, queue));
    for (unsigned done = 0; done < rows; done += (unsigned)COUNT(items)) {
        for (size_t i = 0; i < COUNT(items); i++)
            items[i] = (bide_put_item){.topic = slice_of("work")};
        OK(bide_put_many(*queue, items, COUNT(items), NULL));
    }
    OK(bide_close(*queue));
    vfs_slow_reads(2000);
    unsigned begun = vfs_count(VFS_READ);
    OK(bide_open(url_of("jobs.db", ""), NULL, queue));
    UNTIL(vfs_count(VFS_READ) > begun + 50);
    return vfs_count(VFS_READ);
}

static void a_close_does_not_wait_until_the_rows_are_counted(void)
{
    bide *queue = NULL;
    unsigned before = open_while_counting(100000, &queue);
    OK(bide_close(queue));
    unsigned reads = vfs_count(VFS_READ) - before;
    if (reads > 200)
        FAIL("%u pages were read after the queue was closed", reads);
}

static void a_failed_sync_does_not_wait_until_the_rows_are_counted(void)
{
    bide *queue = NULL;
    bide_op put;
    unsigned before = open_while_counting(100000, &queue);
    bide_cq *cq = begin_doubt(queue, &put);
    end_doubt(cq, &put);
    unsigned reads = vfs_count(VFS_READ) - before;
    if (reads > 300)
        FAIL("%u pages were read before the put was answered", reads);
    vfs_slow_reads(0);
    OK(bide_wait_recovered(queue, PATIENCE_MS, NULL));
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    CHECK(stats.jobs.ready >= 100000);
    OK(bide_close(queue));
}

/* ---- reads that fail elsewhere ---- */

static void check_retries_failed_reads(void)
{
    bide *queue = open_many();
    for (unsigned nth = 1; nth < REGION_PAGES; nth += REGION_PAGES / 2) {
        vfs_fail(&(struct vfs_fault){VFS_READ, "", nth, 2, SQLITE_IOERR_READ, EIO});
        unsigned before = vfs_failed();
        NO_DIFFERENCE(queue);
        EQ(vfs_failed() - before, 2);
    }
    OK(bide_close(queue));
}

static void backup_retries_failed_reads(void)
{
    bide *queue = open_many();
    vfs_fail(&(struct vfs_fault){VFS_READ, "", 5, 2, SQLITE_IOERR_READ, EIO});
    unsigned before = vfs_failed();
    OK(bide_backup(queue, test_path("copy.db")));
    EQ(vfs_failed() - before, 2);
    EQ(NUMBER(test_path("copy.db"), "SELECT count(*) FROM job"), JOBS);
    OK(bide_close(queue));
}

/* A page seems damaged, and the file cannot be opened for a while. */
static void file_that_could_not_be_reopened_is_loaded_later(void)
{
    bide_stats stats;
    OK(bide_close(open_many()));
    vfs_fail(&(struct vfs_fault){VFS_READ, "", 1, 0, SQLITE_CORRUPT, 0});
    bide *queue = NULL;
    unsigned before = vfs_failed();
    OK(bide_open(url_of("jobs.db", ""), NULL, &queue));
    UNTIL(vfs_failed() > before);
    vfs_fail(&(struct vfs_fault){VFS_OPEN, "jobs.db", 1, 0, SQLITE_CANTOPEN, EMFILE});
    UNTIL(vfs_failed() > before + 10);
    vfs_clear_faults();
    OK(bide_wait_recovered(queue, PATIENCE_MS, NULL));
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, JOBS);
    OK(bide_close(queue));
}

/* ---- a failed sync during a backup or a check ---- */

/* The op takes long because reads are slow; a put whose sync fails is answered all the same. */
static void try_doubt_during(bide_op *op)
{
    bide *queue = open_many();
    bide_op put;
    vfs_region(0, 0);
    OK(bide_cq_new(&op->cq));
    vfs_slow_reads(2000);
    EQ(bide_submit(queue, &op, 1), 1);
    unsigned begun = vfs_count(VFS_READ);
    UNTIL(vfs_count(VFS_READ) > begun + 10);
    unsigned before = vfs_count(VFS_READ);
    bide_cq *cq = begin_doubt(queue, &put);
    end_doubt(cq, &put);
    unsigned reads = vfs_count(VFS_READ) - before;
    if (reads > 150)
        FAIL("%u pages were read before the put was answered", reads);
    vfs_slow_reads(0);
    UNTIL((bide_cq_drain(op->cq, 0), op->status != BIDE_PENDING));
    EQ(op->status, BIDE_OK);
    OK(bide_cq_free(op->cq));
    OK(bide_close(queue));
}

static void a_failed_sync_does_not_wait_for_a_backup(void)
{
    bide_op op = {.kind = BIDE_OP_BACKUP, .backup = {.path = test_path("copy.db")}};
    try_doubt_during(&op);
    EQ(NUMBER(test_path("copy.db"), "SELECT count(*) FROM job WHERE topic='many'"), JOBS);
}

static void a_failed_sync_does_not_wait_for_a_check(void)
{
    bide_check_report report;
    bide_op op = {.kind = BIDE_OP_CHECK, .check = {.report = &report}};
    try_doubt_during(&op);
    TEXT(report.problem, strlen(report.problem), "");
    EQ(report.differences, 0);
}

/* ---- ids ---- */

/* Submits ops so that one batch stores them all, and its commit fails; answers the status of the
 * first. */
static int submit_while_failing(bide *queue, struct vfs_fault fault, bide_op *ops, size_t n)
{
    bide_op *list[3];
    bide_cq *cq = NULL;
    OK(bide_cq_new(&cq));
    CHECK(n <= COUNT(list));
    for (size_t i = 0; i < n; i++) {
        ops[i].cq = cq;
        list[i] = &ops[i];
    }
    unsigned before = vfs_failed();
    vfs_fail(&fault);
    EQ(bide_submit(queue, list, n), (int64_t)n);
    for (size_t i = 0; i < n; i++)
        UNTIL((bide_cq_drain(cq, 0), ops[i].status != BIDE_PENDING));
    EQ(vfs_failed() - before, fault.times);
    vfs_clear_faults();
    OK(bide_cq_free(cq));
    return ops[0].status;
}

/* The sync of the last commit fails, and so does that of the checkpoint when the file is closed:
 * the batch is found in the log. Its job is already deleted. */
static void an_id_of_a_commit_found_stored_is_not_reused_after_a_close(void)
{
    uint64_t id = 0;
    vfs_install();
    vfs_skip_syncs(true);
    bide *queue = open_jobs("");
    OK(put_one(queue, &id));
    bide_op ops[] = {
        {.kind = BIDE_OP_DELETE, .lease = {.id = id}},
        {.kind = BIDE_OP_PUT, .put = {.topic = slice_of("work"), .body = slice_of("body")}},
        {.kind = BIDE_OP_DELETE, .lease = {.id = id + 1}},
    };
    const struct vfs_fault fault = {VFS_SYNC, "", 1, 2, SQLITE_IOERR_FSYNC, EIO};
    EQ(submit_while_failing(queue, fault, ops, COUNT(ops)), BIDE_OK);
    EQ(ops[1].status, BIDE_OK);
    EQ(ops[1].put.id, id + 1);
    OK(bide_close(queue));

    queue = open_jobs("");
    OK(put_one(queue, &id));
    if (id <= ops[1].put.id)
        FAIL("id %llu was assigned again", (unsigned long long)id);
    OK(bide_close(queue));
}

/* After a crash ids are assigned from here on. */
#define LIMIT "SELECT value FROM meta WHERE name='next_id'"

/* A batch that stores nothing but a new limit of the ids cannot be written; tells the id of its put
 * if that was acknowledged. */
static void put_beyond_limit_and_tell(int report_fd)
{
    static bide_put_item items[1000];
    uint64_t id = 0;
    vfs_install();
    vfs_skip_syncs(true);
    bide *queue = open_jobs("");
    OK(put_one(queue, &id));
    const uint64_t limit = (uint64_t)NUMBER(test_path("jobs.db"), LIMIT);
    while (id + 1 < limit) {
        size_t n = limit - id - 1 < COUNT(items) ? (size_t)(limit - id - 1) : COUNT(items);
        for (size_t i = 0; i < n; i++)
            items[i] = (bide_put_item){.topic = slice_of("work")};
        OK(bide_put_many(queue, items, n, NULL));
        id = items[n - 1].id;
    }
    EQ(NUMBER(test_path("jobs.db"), LIMIT), (int64_t)limit);
    bide_op ops[] = {
        {.kind = BIDE_OP_PUT, .put = {.topic = slice_of("work"), .body = slice_of("body")}},
        {.kind = BIDE_OP_DELETE, .lease = {.id = limit}},
    };
    const struct vfs_fault fault = {VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO};
    int code = submit_while_failing(queue, fault, ops, COUNT(ops));
    CHECK(code == BIDE_OK || code == BIDE_EIO);
    id = code == BIDE_OK ? ops[0].put.id : 0;
    CHECK(write(report_fd, &id, sizeof id) == (ssize_t)sizeof id);
    for (;;)
        pause();
}

static void an_id_above_a_limit_that_was_not_stored_is_not_reused_after_a_crash(void)
{
    int ends[2];
    uint64_t acknowledged = 0, id = 0;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        put_beyond_limit_and_tell(ends[1]);
    close(ends[1]);
    CHECK(read(ends[0], &acknowledged, sizeof acknowledged) == (ssize_t)sizeof acknowledged);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    bide *queue = open_jobs("");
    OK(put_one(queue, &id));
    if (id <= acknowledged)
        FAIL("id %llu was assigned again", (unsigned long long)id);
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(an_id_of_a_commit_found_stored_is_not_reused_after_a_close),
    TEST(an_id_above_a_limit_that_was_not_stored_is_not_reused_after_a_crash),
    TEST(check_retries_failed_reads),
    TEST(backup_retries_failed_reads),
    TEST(file_that_could_not_be_reopened_is_loaded_later),
    TEST(a_failed_sync_does_not_wait_for_a_backup),
    TEST(a_failed_sync_does_not_wait_for_a_check),
    TEST(failing_reads_during_verify_are_retried),
    TEST(failing_reads_of_single_jobs_are_retried),
    TEST(ops_complete_while_the_file_is_verified),
    TEST(kill_while_the_file_is_verified_loses_nothing),
    TEST(failed_sync_of_a_checkpoint_is_followed_by_a_verify),
    TEST(lost_job_stops_writes_until_the_queue_is_reopened),
    TEST(check_without_differences_resumes_writes),
    TEST(a_lost_store_does_not_flood_the_log),
    TEST(recovered_store_is_logged),
    TEST(failing_checkpoint_does_not_flood_the_log),
    TEST(a_close_ends_a_running_backup),
    TEST(a_close_does_not_wait_until_the_rows_are_counted),
    TEST(a_failed_sync_does_not_wait_until_the_rows_are_counted),
};
const struct theme in_doubt_theme = {"in_doubt", tests, COUNT(tests)};
