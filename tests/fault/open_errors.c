/* SPDX-License-Identifier: MIT */
/*
 * open_errors.c - files that cannot be had: each refusal says why, of which file, and leaves what
 * lies there as it was.
 */
#include "fault.h"
#include "vfs.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define NOBODY 65534

/* The bytes of a file as one number. */
static uint64_t sum_of(const char *path)
{
    uint64_t sum = UINT64_C(0xcbf29ce484222325);
    unsigned char bytes[4096];
    int fd = open(path, O_RDONLY);
    CHECK(fd >= 0);
    for (ssize_t size; (size = read(fd, bytes, sizeof(bytes))) > 0;)
        for (ssize_t i = 0; i < size; i++)
            sum = (sum ^ bytes[i]) * UINT64_C(0x100000001b3);
    close(fd);
    return sum;
}

/* Makes the file jobs.db with one job. */
static void make_jobs(void)
{
    bide *queue = open_jobs("");
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    OK(bide_close(queue));
}

static void has_one_job(bide *queue)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, 1);
}

/* Runs in a process of its own, which must end well. */
static void in_another_process(void (*run)(void))
{
    int status = 0;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        run();
        fflush(NULL);
        _exit(0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    EQ(status, 0);
}

/* ---- file systems ---- */

/* SQLite does not call it an error: it keeps the rollback journal. */
static void file_system_without_shared_memory_is_reported(void)
{
    vfs_install();
    vfs_without_shared_memory(true);
    REFUSED(url_of("jobs.db", ""), BIDE_EIO, "jobs.db: no write-ahead log");
    REFUSED(url_of("jobs.db", ""), BIDE_EIO, "no shared memory");
    vfs_without_shared_memory(false);
    make_jobs();
}

static void unmappable_shared_memory_is_reported(void)
{
    vfs_install();
    vfs_fail(&(struct vfs_fault){VFS_SHM, "", 1, 0, SQLITE_IOERR_SHMMAP, ENODEV});
    REFUSED(url_of("jobs.db", ""), BIDE_EIO, "jobs.db: its log needs shared memory");
    REFUSED(url_of("jobs.db", ""), BIDE_EIO, "No such device");
    vfs_clear_faults();
    make_jobs();
}

/* ---- places ---- */

static void missing_directory_is_reported(void)
{
    REFUSED(url_of("nowhere/jobs.db", ""), BIDE_EIO, "nowhere");
    CHECK(!file_exists(test_path("nowhere")));
}

static void directory_as_a_file_is_rejected(void)
{
    fresh_folder("jobs.db");
    REFUSED(url_of("jobs.db", ""), BIDE_EINVAL, "jobs.db");
}

static void file_in_place_of_the_directory_is_reported(void)
{
    write_file(test_path("file"), 0, "text", 4);
    REFUSED(url_of("file/jobs.db", ""), BIDE_EIO, "jobs.db");
}

static void pipe_as_a_file_is_rejected(void)
{
    CHECK(mkfifo(test_path("jobs.db"), 0666) == 0);
    REFUSED(url_of("jobs.db", ""), BIDE_EINVAL, "jobs.db");
}

/* ---- files of others ---- */

static void file_that_is_not_a_database_is_not_changed(void)
{
    static char bytes[9000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 + 1);
    write_file(test_path("long"), 0, bytes, sizeof(bytes));
    write_file(test_path("short"), 0, "a letter to somebody", 20);
    uint64_t before[2] = {sum_of(test_path("long")), sum_of(test_path("short"))};
    REFUSED(url_of("long", ""), BIDE_EINVAL, "long");
    CHECK(strstr(bide_last_error(), "not a file of bide") != NULL);
    REFUSED(url_of("short", ""), BIDE_EINVAL, "short");
    CHECK(sum_of(test_path("long")) == before[0] && sum_of(test_path("short")) == before[1]);
}

static void an_empty_file_becomes_a_queue(void)
{
    write_file(test_path("jobs.db"), 0, "", 0);
    make_jobs();
    bide *queue = open_jobs("");
    has_one_job(queue);
    OK(bide_close(queue));
}

static void database_of_another_program_is_not_changed(void)
{
    const char *path = test_path("other.db");
    SQL(path, "CREATE TABLE thing(name TEXT); INSERT INTO thing VALUES('mine');");
    uint64_t before = sum_of(path);
    REFUSED(url_of("other.db", ""), BIDE_EINVAL, "other.db");
    CHECK(strstr(bide_last_error(), "another program") != NULL);
    CHECK(sum_of(path) == before);
    CHECK(!file_exists(test_path("other.db-filler")));
    EQ(NUMBER(path, "SELECT count(*) FROM thing"), 1);
    SQL(test_path("marked.db"), "PRAGMA application_id=12345; CREATE TABLE a(x); DROP TABLE a;");
    REFUSED(url_of("marked.db", ""), BIDE_EINVAL, "marked.db");
}

static void foreign_table_named_job_is_rejected(void)
{
    const char *path = test_path("other.db");
    SQL(path, "CREATE TABLE job(id INTEGER PRIMARY KEY, topic TEXT); PRAGMA user_version=1;");
    uint64_t before = sum_of(path);
    REFUSED(url_of("other.db", ""), BIDE_EINVAL, "other.db");
    CHECK(sum_of(path) == before);
}

static void file_of_a_newer_version_is_not_changed(void)
{
    make_jobs();
    const char *path = test_path("jobs.db");
    SQL(path, "PRAGMA journal_mode=DELETE; PRAGMA user_version=999;");
    uint64_t before = sum_of(path);
    REFUSED(url_of("jobs.db", ""), BIDE_EINVAL, "jobs.db");
    CHECK(strstr(bide_last_error(), "newer") != NULL);
    CHECK(strstr(bide_last_error(), "999") != NULL);
    CHECK(sum_of(path) == before);
    SQL(path, "PRAGMA user_version=-1;"); /* no version has ever written it */
    REFUSED(url_of("jobs.db", ""), BIDE_EINVAL, "-1");
}

/* ---- permissions: root drops its privileges first ---- */

static void become_nobody(void)
{
    if (geteuid() == 0)
        CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0);
}

static void expect_permission_error(void)
{
    become_nobody();
    REFUSED(url_of("jobs.db", ""), BIDE_EIO, "jobs.db");
}

static void read_only_file_is_reported(void)
{
    make_jobs();
    CHECK(chmod(test_dir(), 0777) == 0 && chmod(test_path("jobs.db"), 0444) == 0);
    in_another_process(expect_permission_error);
    CHECK(chmod(test_path("jobs.db"), 0644) == 0);
    bide *queue = open_jobs("");
    has_one_job(queue);
    OK(bide_close(queue));
}

static void read_only_directory_is_reported(void)
{
    make_jobs();
    CHECK(chmod(test_path("jobs.db"), 0666) == 0);
    CHECK(chmod(test_dir(), 0555) == 0);
    in_another_process(expect_permission_error);
    CHECK(chmod(test_dir(), 0755) == 0);
    bide *queue = open_jobs("");
    has_one_job(queue);
    OK(bide_close(queue));
}

/* ---- locks ---- */

static sqlite3 *lock_file(const char *sql)
{
    sqlite3 *db = NULL;
    CHECK(sqlite3_open(test_path("jobs.db"), &db) == SQLITE_OK);
    sqlite3_busy_timeout(db, (int)PATIENCE_MS);
    CHECK(sqlite3_exec(db, sql, NULL, NULL, NULL) == SQLITE_OK);
    return db;
}

/* Another program holds the lock for longer than the busy timeout. */
static void a_put_to_a_locked_file_fails_and_the_next_goes_on(void)
{
    bide *queue = open_jobs("");
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    sqlite3 *db = lock_file("BEGIN EXCLUSIVE");
    CODE(bide_put(queue, "work", "refused", 7, NULL, NULL), BIDE_EIO);
    CHECK(strstr(bide_last_error(), "jobs.db") != NULL);
    CHECK(strstr(bide_last_error(), "locked") != NULL);
    has_one_job(queue);
    CHECK(sqlite3_exec(db, "ROLLBACK", NULL, NULL, NULL) == SQLITE_OK);
    sqlite3_close(db);
    uint64_t id = 0;
    UNTIL(bide_put(queue, "other", "later", 5, NULL, &id) == BIDE_OK);
    OK(bide_delete(queue, id, 0));
    OK(bide_close(queue));
    queue = open_jobs("");
    has_one_job(queue);
    OK(bide_close(queue));
}

static void a_delete_in_a_locked_file_fails_and_the_job_stays(void)
{
    bide *queue = open_jobs("");
    bide_job job;
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    OK(bide_reserve(queue, "work", 0, &job));
    sqlite3 *db = lock_file("BEGIN EXCLUSIVE");
    CODE(bide_delete(queue, job.id, job.token), BIDE_EIO);
    sqlite3_close(db);
    UNTIL(bide_delete(queue, job.id, job.token) == BIDE_OK);
    bide_job_clear(&job);
    OK(bide_close(queue));
    EQ(NUMBER(test_path("jobs.db"), "SELECT count(*) FROM job"), 0);
}

static void open_of_a_locked_file_is_reported(void)
{
    make_jobs();
    sqlite3 *db = lock_file("PRAGMA locking_mode=EXCLUSIVE; BEGIN EXCLUSIVE; COMMIT;");
    REFUSED(url_of("jobs.db", ""), BIDE_EIO, "jobs.db");
    sqlite3_close(db);
    bide *queue = open_jobs("");
    has_one_job(queue);
    OK(bide_close(queue));
}

/* ---- a second owner ---- */

static void expect_owner_error(void)
{
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getppid());
    REFUSED(url_of("jobs.db", ""), BIDE_EBUSY, pid);
    CHECK(strstr(bide_last_error(), "jobs.db") != NULL);
    CHECK(strstr(bide_last_error(), "run bided on the file") != NULL);
}

static void second_process_gets_the_pid_of_the_owner(void)
{
    bide *queue = open_jobs("");
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    in_another_process(expect_owner_error);
    has_one_job(queue);
    OK(bide_delete(queue, 1, 0));
    OK(bide_close(queue));
}

static const char long_name[] = "a-queue-whose-name-is-so-long-that-a-sentence-which-has-all-of-it-"
                                "would-not-have-the-room-to-say-what-can-be-done-about-it.db";

static void expect_owner_error_of_long_name(void)
{
    static const char advice[] = "let both go through it";
    REFUSED(url_of(long_name, ""), BIDE_EBUSY, advice);
    const char *said = bide_last_error();
    CHECK(strcmp(said + strlen(said) - strlen(advice), advice) == 0);
}

static void advice_fits_beside_a_long_file_name(void)
{
    bide *queue = open_url(url_of(long_name, ""));
    in_another_process(expect_owner_error_of_long_name);
    OK(bide_close(queue));
}

static void second_open_in_one_process_is_rejected(void)
{
    bide *queue = open_jobs("");
    CHECK(symlink(test_path("jobs.db"), test_path("link.db")) == 0);
    REFUSED(url_of("jobs.db", ""), BIDE_EBUSY, "jobs.db");
    REFUSED(url_of("link.db", ""), BIDE_EBUSY, "link.db");
    REFUSED(url_of("./jobs.db", ""), BIDE_EBUSY, "jobs.db");
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    OK(bide_close(queue));
    queue = open_url(url_of("link.db", ""));
    has_one_job(queue);
    OK(bide_close(queue));
}

/* A process that holds the file, says so through the pipe, and waits to be killed. */
static void hold_file(int ready_fd)
{
    bide *queue = open_jobs("");
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    CHECK(write(ready_fd, "x", 1) == 1);
    for (;;)
        pause();
}

static void a_file_whose_owner_was_killed_is_free(void)
{
    int ends[2];
    char byte;
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        hold_file(ends[1]);
    close(ends[1]);
    CHECK(read(ends[0], &byte, 1) == 1);
    bide *queue = NULL;
    CODE(bide_open(url_of("jobs.db", ""), NULL, &queue), BIDE_EBUSY);
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
    queue = open_jobs("");
    has_one_job(queue);
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(file_system_without_shared_memory_is_reported),
    TEST(unmappable_shared_memory_is_reported),
    TEST(missing_directory_is_reported),
    TEST(directory_as_a_file_is_rejected),
    TEST(file_in_place_of_the_directory_is_reported),
    TEST(pipe_as_a_file_is_rejected),
    TEST(file_that_is_not_a_database_is_not_changed),
    TEST(an_empty_file_becomes_a_queue),
    TEST(database_of_another_program_is_not_changed),
    TEST(foreign_table_named_job_is_rejected),
    TEST(file_of_a_newer_version_is_not_changed),
    TEST(read_only_file_is_reported),
    TEST(read_only_directory_is_reported),
    TEST(a_put_to_a_locked_file_fails_and_the_next_goes_on),
    TEST(a_delete_in_a_locked_file_fails_and_the_job_stays),
    TEST(open_of_a_locked_file_is_reported),
    TEST(second_process_gets_the_pid_of_the_owner),
    TEST(advice_fits_beside_a_long_file_name),
    TEST(second_open_in_one_process_is_rejected),
    TEST(a_file_whose_owner_was_killed_is_free),
};
const struct theme refuse_theme = {"open_errors", tests, COUNT(tests)};
