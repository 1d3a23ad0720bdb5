/* SPDX-License-Identifier: MIT */
/* file_lock.c - a file has one owner, whatever names it has, and it stays the owner's own. */
#include "fault.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

static void put_one(bide *queue)
{
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
}

static void link_to_a_new_file_has_one_owner(void)
{
    CHECK(symlink(test_path("jobs.db"), test_path("link.db")) == 0);
    bide *queue = open_url(url_of("link.db", ""));
    REFUSED(url_of("jobs.db", ""), BIDE_EBUSY, "jobs.db");
    REFUSED(url_of("link.db", ""), BIDE_EBUSY, "link.db");
    put_one(queue);
    OK(bide_close(queue));
    CHECK(file_exists(test_path("jobs.db-filler")) && !file_exists(test_path("link.db-filler")));
}

static void another_name_of_the_same_file_has_the_same_owner(void)
{
    bide *queue = open_jobs("");
    CHECK(link(test_path("jobs.db"), test_path("other.db")) == 0);
    REFUSED(url_of("other.db", ""), BIDE_EBUSY, "other.db");
    put_one(queue);
    OK(bide_close(queue));
}

/* A child that was forked, says so at that end of a pipe, and does nothing but live, for a minute
 * at most. */
static pid_t fork_idler(int end)
{
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0)
        return child;
    pid_t own = getpid();
    alarm(60);
    if (write(end, &own, sizeof own) != (ssize_t)sizeof own)
        _exit(1);
    for (;;)
        pause();
}

/* Waits until it lives. */
static pid_t meet_idler(int end)
{
    pid_t idler = 0;
    CHECK(read(end, &idler, sizeof idler) == (ssize_t)sizeof idler);
    return idler;
}

static void end_idler(pid_t child)
{
    CHECK(kill(child, SIGKILL) == 0 && waitpid(child, NULL, 0) == child);
}

static void forked_child_does_not_own_the_file(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    bide *queue = open_jobs("");
    pid_t child = fork_idler(ends[1]);
    EQ(meet_idler(ends[0]), child);
    put_one(queue);
    OK(bide_close(queue));
    queue = open_jobs("");
    put_one(queue);
    OK(bide_close(queue));
    end_idler(child);
}

/* The owner forks, and is killed. */
static void child_of_a_killed_owner_does_not_own_the_file(void)
{
    int ends[2];
    CHECK(pipe(ends) == 0);
    fflush(NULL);
    pid_t owner = fork();
    CHECK(owner >= 0);
    if (owner == 0) {
        put_one(open_jobs(""));
        fork_idler(ends[1]);
        raise(SIGKILL);
        _exit(1);
    }
    pid_t idler = meet_idler(ends[0]);
    CHECK(waitpid(owner, NULL, 0) == owner);
    bide *queue = open_jobs("");
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, 1);
    OK(bide_close(queue));
    CHECK(kill(idler, SIGKILL) == 0);
}

static void put_into_a_removed_file_is_rejected(void)
{
    bide *queue = open_jobs("");
    put_one(queue);
    CHECK(unlink(test_path("jobs.db")) == 0);
    CODE(bide_put(queue, "work", "body", 4, NULL, NULL), BIDE_EIO);
    CHECK(strstr(bide_last_error(), "removed") != NULL);
    OK(bide_close(queue));
}

/* Bodies of jobs are not for other users to read, whatever the umask of the program. */
static void files_are_private_to_their_user(void)
{
    static const char *const names[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-filler",
                                        "copy.db"};
    mode_t mask = umask(0);
    bide *queue = open_jobs("");
    put_one(queue);
    OK(bide_backup(queue, test_path("copy.db")));
    umask(mask);
    for (size_t i = 0; i < COUNT(names); i++) {
        struct stat info;
        if (stat(test_path(names[i]), &info) != 0) {
            CHECK(strcmp(names[i], "jobs.db-shm") == 0); /* an exclusive lock has none */
            continue;
        }
        EQ(info.st_mode & 0777, 0600);
    }
    OK(bide_close(queue));
}

static void body_limit_above_the_row_limit_is_rejected_at_open(void)
{
    REFUSED(url_of("jobs.db", "max_job_size=1GiB"), BIDE_EINVAL, "max_job_size");
    REFUSED(url_of("jobs.db", "max_result_size=1GiB"), BIDE_EINVAL, "max_result_size");
    CHECK(!file_exists(test_path("jobs.db")));
}

static const struct test tests[] = {
    TEST(link_to_a_new_file_has_one_owner),
    TEST(another_name_of_the_same_file_has_the_same_owner),
    TEST(forked_child_does_not_own_the_file),
    TEST(child_of_a_killed_owner_does_not_own_the_file),
    TEST(put_into_a_removed_file_is_rejected),
    TEST(files_are_private_to_their_user),
    TEST(body_limit_above_the_row_limit_is_rejected_at_open),
};

const struct theme owner_theme = {"file_lock", tests, COUNT(tests)};
