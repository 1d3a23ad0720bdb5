/* SPDX-License-Identifier: MIT */
/* privileges.c - giving up root. What only root can do is checked only as root; others see the
 * refusal. */
#define _GNU_SOURCE /* setresuid */
#include "bided_suite.h"

#include <pwd.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* A user without privileges that every system has. */
#define NOBODY "nobody"

static struct passwd nobody(void)
{
    const struct passwd *entry = getpwnam(NOBODY);
    CHECK(entry != NULL);
    return *entry;
}

/* The line of /proc/PID/status that begins with a name. */
static const char *status_of(pid_t pid, const char *name)
{
    static char line[300];
    char path[100];
    snprintf(path, sizeof path, "/proc/%d/status", (int)pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    bool found = false;
    while (!found && fgets(line, sizeof line, file) != NULL)
        found = strncmp(line, name, strlen(name)) == 0;
    fclose(file);
    CHECK(found);
    return line;
}

static void a_user_that_does_not_exist_ends_with_33(void)
{
    HAS(ends_with(33, "-u", "no-such-user", "--url=memory:", "--listen=0")->err,
        "cannot become user no-such-user: there is no such user");
}

static void root_switches_to_the_user_permanently(void)
{
    char want[200];
    struct passwd user = nobody();
    if (geteuid() != 0) {
        HAS(ends_with(34, "-u", NOBODY, "--url=memory:", "--listen=0")->err, "only root");
        return;
    }
    struct bided *bided = serve("-u", NOBODY, "--listen=0", "--url=memory:");
    snprintf(want, sizeof want, "Uid:\t%u\t%u\t%u\t%u\n", user.pw_uid, user.pw_uid, user.pw_uid,
             user.pw_uid);
    const char *got = status_of(bided->pid, "Uid:");
    TEXT(got, strlen(got), want);
    snprintf(want, sizeof want, "Gid:\t%u\t%u\t%u\t%u\n", user.pw_gid, user.pw_gid, user.pw_gid,
             user.pw_gid);
    got = status_of(bided->pid, "Gid:");
    TEXT(got, strlen(got), want);
    snprintf(want, sizeof want, "Groups:\t%u \n", user.pw_gid);
    got = status_of(bided->pid, "Groups:");
    TEXT(got, strlen(got), want);
    static const char *const sets[] = {"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"};
    for (size_t i = 0; i < COUNT(sets); i++) {
        snprintf(want, sizeof want, "%s:\t0000000000000000\n", sets[i]);
        got = status_of(bided->pid, sets[i]);
        TEXT(got, strlen(got), want);
    }
    LACKS(bided->err, "runs as root");
    ask(connect_tcp(port_of(bided, "127.0.0.1")), "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

/* Programs that raise privileges (sudo, ping) would not do so for a bided that was taken over. */
static void no_privileges_can_be_regained(void)
{
    struct bided *bided = serve("--listen=0", "--url=memory:");
    const char *got = status_of(bided->pid, "NoNewPrivs:");
    TEXT(got, strlen(got), "NoNewPrivs:\t1\n");
    stop(bided);
}

static void running_as_root_without_a_user_is_warned_about(void)
{
    struct bided *bided = serve("--listen=0", "--url=memory:");
    if (geteuid() == 0)
        HAS(bided->err, "WARN  bided runs as root: set an unprivileged user with --user");
    else
        LACKS(bided->err, "runs as root");
    stop(bided);
}

static void created_files_are_owned_by_the_user(void)
{
    struct stat info;
    char flag[300];
    struct passwd user = nobody();
    CHECK(chmod(test_dir(), 0777) == 0);
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    set_env("STATE_DIRECTORY", test_path("jobs"));
    if (geteuid() != 0) {
        HAS(ends_with(34, "-u", NOBODY, flag)->err, "only root");
        CHECK(!file_exists(test_path("a.sock")));
        return;
    }
    struct bided *bided = serve("-u", NOBODY, flag);
    CHECK(stat(test_path("a.sock"), &info) == 0);
    EQ(info.st_uid, user.pw_uid);
    EQ(info.st_gid, user.pw_gid);
    CHECK(stat(test_path("jobs"), &info) == 0);
    EQ(info.st_uid, user.pw_uid);
    CHECK(stat(test_path("jobs/bide.db"), &info) == 0);
    EQ(info.st_uid, user.pw_uid);
    stop(bided);
    CHECK(!file_exists(test_path("a.sock")));
}

static void existing_directory_keeps_its_owner(void)
{
    struct stat before, after;
    CHECK(stat(fresh_folder("jobs"), &before) == 0);
    struct bided *bided =
        ends_with(geteuid() == 0 ? 1 : 34, "-u", NOBODY, "--listen=0", "-b", test_path("jobs"));
    HAS(bided->err, geteuid() == 0 ? "cannot open" : "only root");
    CHECK(stat(test_path("jobs"), &after) == 0);
    EQ(after.st_uid, before.st_uid);
    EQ(after.st_mode, before.st_mode);
}

static void become_nobody(void)
{
    struct passwd user = *getpwnam(NOBODY);
    if (geteuid() == 0 && (setresgid(user.pw_gid, user.pw_gid, user.pw_gid) != 0 ||
                           setresuid(user.pw_uid, user.pw_uid, user.pw_uid) != 0))
        _exit(98);
}

static void process_already_running_as_the_user_continues(void)
{
    before_exec = become_nobody;
    const struct passwd *self = geteuid() == 0 ? getpwnam(NOBODY) : getpwuid(geteuid());
    CHECK(self != NULL);
    if (geteuid() != 0)
        before_exec = NULL;
    struct bided *bided = serve("-u", self->pw_name, "--listen=0", "--url=memory:");
    ask(connect_tcp(port_of(bided, "127.0.0.1")), "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

static void only_root_can_switch_users(void)
{
    before_exec = become_nobody;
    HAS(ends_with(34, "-u", "root", "--listen=0", "--url=memory:")->err,
        "cannot become user root: only root can become another user");
}

static const struct test tests[] = {
    TEST(a_user_that_does_not_exist_ends_with_33),
    TEST(root_switches_to_the_user_permanently),
    TEST(no_privileges_can_be_regained),
    TEST(running_as_root_without_a_user_is_warned_about),
    TEST(created_files_are_owned_by_the_user),
    TEST(existing_directory_keeps_its_owner),
    TEST(process_already_running_as_the_user_continues),
    TEST(only_root_can_switch_users),
};

const struct theme privileges_theme = {"privileges", tests, COUNT(tests)};
