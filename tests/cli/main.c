/* SPDX-License-Identifier: MIT */
/*
 * main.c - the tests of the command line, as a program; see ../fault/suite.h.
 *
 * The suite adopts what its tests leave behind (a server that bide has started goes on when bide
 * ends), and ends it after each test.
 */
#define _GNU_SOURCE /* mempcpy() */
#include "../fault/suite.h"
#include "cli_test.h"

#include <errno.h>
#include <libgen.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

/* clang-format off: one a line, so that two people can add one each */
/* Run at every place, with a queue. */
/* clang-format off */
static const struct theme *const everywhere[] = {
    &admin_theme,
    &put_failure_theme,
    &change_theme,
    &monitor_theme,
    &self_test_theme,
    &json_theme,
    &query_theme,
    &overview_theme,
    &put_theme,
    &stream_theme,
    &top_theme,
    &export_import_theme,
    &work_next_theme,
    &work_stop_theme,
    &work_theme,
};
/* clang-format on */

/* Run at every place but a beanstalkd, which cannot have what they need. */
/* clang-format off */
static const struct theme *const complete[] = {
    &schedule_theme,
};
/* clang-format on */

/* Run where a bided keeps the queue: others can work on it meanwhile, and leases last. */
/* clang-format off */
static const struct theme *const served[] = {
    &lease_theme,
    &job_wait_theme,
    &workers_verb_theme,
};
/* clang-format on */

/* Run once. */
/* clang-format off */
static const struct theme *const once[] = {
    &arguments_theme,
    &completion_theme,
    &disk_theme,
    &hostile_theme,
    &move_plain_theme,
    &move_theme,
    &user_server_theme,
    &connect_theme,
    &top_keys_theme,
    &top_term_theme,
    &usage_theme,
    &work_hook_theme,
    &work_usage_theme,
};
/* clang-format on */
/* clang-format on */

static const char *const places[] = {
    [NOWHERE] = "bide",
    [AT_FILE] = "sqlite",
    [AT_MEMORY] = "bided",
    [AT_SERVED_FILE] = "bided-sqlite",
    [AT_BEANSTALKD] = "beanstalkd",
};

static const char usage[] =
    "usage: cli [--programs FOLDER] [--at PLACE] [--filter TEXT] [--list] [--timeout SECONDS]\n"
    "           [--part K/N] [-v]\n"
    "\n"
    "Checks the command line bide, as a program, on every kind of queue.\n"
    "  --programs FOLDER  where bide and bided are (beside this program)\n"
    "  --at PLACE         only with the queue at bide (no queue, or the verb's own), sqlite,\n"
    "                     bided, bided-sqlite, beanstalkd\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --list             print the names of the tests and run none\n"
    "  --timeout SECONDS  a test that takes longer has hung (120)\n"
    "  --part K/N         only the K-th of N parts, for several runs at a time\n"
    "  -v                 name the tests that pass, too\n";

static const char *programs;
static const char *only_at;
static const char *subject;

static bool take_argument(const char *name, const char *value)
{
    if (strcmp(name, "--programs") == 0)
        programs = value;
    else if (strcmp(name, "--at") == 0)
        only_at = value;
    else
        return false;
    return true;
}

static bool contains(const struct theme *const *list, size_t count, const struct theme *theme)
{
    for (size_t i = 0; i < count; i++)
        if (list[i] == theme)
            return true;
    return false;
}

static bool choose(size_t place, const struct theme *theme)
{
    subject = places[place];
    server_choose((enum place_kind)place);
    if (only_at != NULL && strcmp(only_at, subject) != 0)
        return false;
    if (place == NOWHERE)
        return contains(once, COUNT(once), theme);
    return contains(everywhere, COUNT(everywhere), theme) ||
           (!is_plain() && contains(complete, COUNT(complete), theme)) ||
           (passes_leases() && contains(served, COUNT(served), theme));
}

static void begin_test(void)
{
    children_begin(programs, CLI_SOURCES);
}

/* Ends all children that there are, which are those that tests have left, and theirs. */
static void sweep(void)
{
    char path[64], list[4096];
    snprintf(path, sizeof(path), "/proc/self/task/%d/children", (int)getpid());
    for (;;) {
        FILE *file = fopen(path, "r");
        size_t size = file == NULL ? 0 : fread(list, 1, sizeof(list) - 1, file);
        if (file != NULL)
            fclose(file);
        list[size] = 0;
        if (size == 0)
            return;
        char *rest = list;
        for (pid_t pid; (pid = (pid_t)strtol(rest, &rest, 10)) > 0;)
            kill(pid, SIGKILL);
        while (waitpid(-1, NULL, 0) > 0)
            continue;
    }
}

/* Asked by the address sanitizer: a test keeps what it made until its process ends. bide and bided
 * themselves are looked at. */
int __lsan_is_turned_off(void);
int __lsan_is_turned_off(void)
{
    return 1;
}

int main(int argc, char **argv)
{
    static const struct theme
        *all[COUNT(everywhere) + COUNT(complete) + COUNT(served) + COUNT(once)];
    const struct theme **next = all;
    static char beside[PATH_MAX];
    next = mempcpy(next, everywhere, sizeof(everywhere));
    next = mempcpy(next, complete, sizeof(complete));
    next = mempcpy(next, served, sizeof(served));
    memcpy(next, once, sizeof(once));
    snprintf(beside, sizeof(beside), "%s", argv[0]);
    programs = dirname(beside);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    const struct suite suite = {.name = "cli",
                                .subject = &subject,
                                .usage = usage,
                                .themes = all,
                                .theme_count = COUNT(all),
                                .timeout_s = 120,
                                .folder = "/tmp", /* paths of unix sockets are short */
                                .argument = take_argument,
                                .begin = begin_test,
                                .end = server_end,
                                .place_count = COUNT(places),
                                .choose = choose,
                                .sweep = sweep};
    return suite_main(&suite, argc, argv);
}
