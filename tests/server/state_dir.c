/* SPDX-License-Identifier: MIT */
/* state_dir.c - where the queue is kept, and who may have it. */
#include "bided_suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static mode_t mode_of(const char *path)
{
    struct stat info;
    CHECK(stat(path, &info) == 0);
    return info.st_mode & 0777;
}

static void state_directory_comes_from_systemd(void)
{
    char both[800];
    snprintf(both, sizeof both, "%s:%s", test_path("state/bide"), test_path("other"));
    set_env("STATE_DIRECTORY", both);
    struct bided *bided = serve("--listen=0");
    char line[400];
    snprintf(line, sizeof line, "queue: sqlite:%s/bide.db", test_path("state/bide"));
    HAS(bided->err, line);
    stop(bided);
    EQ(mode_of(test_path("state/bide")), 0700);
    CHECK(file_exists(test_path("state/bide/bide.db")));
    CHECK(!file_exists(test_path("other")));
}

/* Not as root: root uses the system directory. */
static void become_nobody(void)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        _exit(98);
}

static void user_has_a_private_state_directory(void)
{
    CHECK(chmod(test_dir(), 0777) == 0);
    before_exec = become_nobody;
    struct bided *bided = serve("--listen=0");
    HAS(bided->err, "/.local/state/bide/bide.db");
    stop(bided);
    CHECK(file_exists(test_path(".local/state/bide/bide.db")));
    EQ(mode_of(test_path(".local/state/bide")), 0700);
    set_env("XDG_STATE_HOME", test_path("xdg"));
    bided = serve("--listen=0");
    stop(bided);
    CHECK(file_exists(test_path("xdg/bide/bide.db")));
}

static void jobs_are_there_after_a_restart(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "use mail\r\nput 7 0 60 5\r\nhello\r\n", "USING mail\r\nINSERTED 1\r\n");
    kill(bided->pid, SIGKILL);
    await_end(bided, 256 + SIGKILL);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    await_log(bided, "loaded 1 stored job");
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "peek 1\r\n", "FOUND 1 5\r\nhello\r\n");
    stop(bided);
}

static void queue_owned_by_another_process_exits_with_10(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    struct bided *other = ends_with(10, "--listen=0", "-b", folder_of("jobs"));
    char pid[20];
    snprintf(pid, sizeof pid, "%d", (int)bided->pid);
    HAS(other->err, "ERROR cannot open sqlite:");
    HAS(other->err, pid);
    stop(bided);
}

static void state_directory_that_cannot_be_created_is_reported(void)
{
    write_file(test_path("file"), 0, "x", 1);
    set_env("STATE_DIRECTORY", test_path("file"));
    HAS(ends_with(1, "--listen=0")->err, "a file of that name; set --url");
    set_env("STATE_DIRECTORY", test_path("file/jobs"));
    HAS(ends_with(1, "--listen=0")->err, "cannot create directory");
}

static void named_directory_must_exist(void)
{
    char flag[300];
    snprintf(flag, sizeof flag, "--directory=%s", test_path("typo/jobs"));
    HAS(ends_with(10, "--listen=0", flag)->err, "typo/jobs: No such file or directory; create it");
    HAS(ends_with(10, "--listen=0", "-b", test_path("typo"))->err, "create it first");
    CHECK(!file_exists(test_path("typo")));
    write_file(test_path("file"), 0, "x", 1);
    HAS(ends_with(10, "--listen=0", "-b", test_path("file"))->err, "is not a directory");
    HAS(ends_with(1, "--listen=0", "--url=sqlite:/no/such/jobs.db")->err, "cannot open");
    HAS(ends_with(1, "--listen=0", "--url=sqlite:")->err, "ERROR the URL sqlite: names no file");
}

static void new_queue_is_logged_and_an_existing_one_is_not(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    HAS(bided->err, "INFO  the file did not exist: created a new queue");
    stop(bided);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    LACKS(bided->err, "new queue");
    stop(bided);
}

static void clear_mask(void)
{
    umask(0);
}

static void queue_files_are_private(void)
{
    char flag[300];
    before_exec = clear_mask;
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    struct bided *bided = serve(flag, "--unix-mode=0666", "-b", folder_of("jobs"));
    int fd = connect_at(HERE, try_unix(test_path("a.sock")));
    ask(fd, "put 0 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    EQ(mode_of(test_path("jobs/bide.db")), 0600);
    EQ(mode_of(test_path("jobs/bide.db-wal")), 0600);
    EQ(mode_of(test_path("a.sock")), 0666);
    stop(bided);
}

/* As after a bided that root ran without --user. */
static void file_of_another_user_is_reported_with_the_needed_user(void)
{
    if (geteuid() != 0)
        return;
    CHECK(chmod(test_dir(), 0755) == 0);
    stop(serve("--listen=0", "-b", folder_of("jobs")));
    CHECK(chmod(test_path("jobs"), 0777) == 0);
    before_exec = become_nobody;
    HAS(ends_with(1, "--listen=0", "-b", folder_of("jobs"))->err,
        "jobs/bide.db cannot be written: Permission denied; user 65534 must be able to write there");
    CHECK(chmod(test_path("jobs"), 0700) == 0);
    HAS(ends_with(1, "--listen=0", "-b", folder_of("jobs"))->err,
        "Permission denied; user 65534 must be able to write there");
}

static void binlog_of_beanstalkd_is_warned_about(void)
{
    folder_of("jobs");
    write_file(test_path("jobs/binlog.old"), 0, "x", 1);
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    LACKS(bided->err, "beanstalkd");
    stop(bided);
    write_file(test_path("jobs/binlog.12"), 0, "x", 1);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    HAS(bided->err,
        "WARN  the directory has log files of beanstalkd (binlog.12), which bided does not read");
    stop(bided);
}

static void directory_with_special_characters_works(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("a?b&c%d e"));
    stop(bided);
    CHECK(file_exists(test_path("a?b&c%d e/bide.db")));
}

static void memory_queue_is_logged_as_volatile(void)
{
    struct bided *bided = serve("--listen=0", "--url=memory:");
    HAS(bided->err, "queue: memory:");
    HAS(bided->err, "jobs are lost when bided stops");
    stop(bided);
    CHECK(!file_exists(test_path(".local")));
}

/* One of them would be left out: jobs that were to be kept would be gone, or the other way
 * round. */
static void url_and_directory_together_are_rejected(void)
{
    char flag[300];
    HAS(ends_with(5, "--listen=0", "--url=memory:", "-b", folder_of("jobs"))->err,
        "the command line: url and directory (-b) both say where the queue is");
    HAS(ends_with(5, "--listen=0", "-b", folder_of("jobs"), "--url=memory:")->err, "leave one");
    CHECK(!file_exists(test_path("jobs/bide.db")));
    write_file(test_path("both.conf"), 0, "url = memory:\ndirectory = /tmp\n", 31);
    snprintf(flag, sizeof flag, "--config=%s", test_path("both.conf"));
    HAS(ends_with(5, flag)->err, "both.conf: url and directory (-b) both say");
}

static const struct test tests[] = {
    TEST(state_directory_comes_from_systemd),
    TEST(user_has_a_private_state_directory),
    TEST(jobs_are_there_after_a_restart),
    TEST(queue_owned_by_another_process_exits_with_10),
    TEST(state_directory_that_cannot_be_created_is_reported),
    TEST(named_directory_must_exist),
    TEST(new_queue_is_logged_and_an_existing_one_is_not),
    TEST(queue_files_are_private),
    TEST(file_of_another_user_is_reported_with_the_needed_user),
    TEST(binlog_of_beanstalkd_is_warned_about),
    TEST(directory_with_special_characters_works),
    TEST(memory_queue_is_logged_as_volatile),
    TEST(url_and_directory_together_are_rejected),
};

const struct theme state_dir_theme = {"state_dir", tests, COUNT(tests)};
