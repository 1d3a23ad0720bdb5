/* SPDX-License-Identifier: MIT */
/* hostile.c - a machine that others use, too: their names, their files, and locks that are held. */
#include "cli_test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- what is shown ---- */

static void an_error_sends_no_control_characters_to_a_terminal(void)
{
    struct child *child = begin_on_terminal(80, 24, "pu\x1b[31mt\xff", NULL);
    await_end(child, 2);
    HAS(child->out, "pu\\x1b[31mt\\xff");
    LACKS(child->out, "\x1b[31m");
}

static void an_error_is_one_line(void)
{
    HAS(run_expect(2, "two\nlines")->err, "two\\nlines");
}

static void error_with_any_text_is_valid_json(void)
{
    struct child *child = run_expect(2, "--json", "not\xff utf-8 \x1b\xc3");
    const char *error = text_in(json_at(child->err, 0), "error");
    TEXT(error, strlen(error), "unknown verb \"not? utf-8 \x1b?\"");
    EQ(number_in(json_at(child->err, 0), "exit"), 2);
}

/* ---- the runtime folder ---- */

/* Another user could change the link after it was checked. */
static void a_runtime_folder_that_is_a_link_is_not_used(void)
{
    const char *run = folder_of("run");
    char link[600];
    snprintf(link, sizeof(link), "%s/bide", run);
    CHECK(symlink("nowhere", link) == 0);
    HAS(run_expect(6, "put", "t", "x")->err, "belongs to another user, or others can write to it");
}

static void a_runtime_folder_that_others_can_write_to_is_not_used(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s/bide", folder_of("run"));
    CHECK(mkdir(path, 0700) == 0);
    CHECK(chmod(path, 0777) == 0);
    HAS(run_expect(6, "put", "t", "x")->err, "belongs to another user, or others can write to it");
}

/* ---- signals that the parent process has ignored ---- */

static void ignore_children(void)
{
    signal(SIGCHLD, SIG_IGN);
}

static void a_failed_program_counts_as_failed_with_sigchld_ignored(void)
{
    use_url(url_of("jobs.db", ""));
    run_expect(0, "put", "t", "x");
    before_exec = ignore_children;
    struct child *child = run_expect(7, "work", "t", "--until-empty", "--", "false");
    HAS(child->err, "job 1 (t): failed");
}

static void ignore_hangup(void)
{
    signal(SIGHUP, SIG_IGN);
}

static void worker_under_nohup_survives_a_hangup(void)
{
    use_url(start_another_server("queue", "memory:"));
    before_exec = ignore_hangup;
    struct child *child = begin("work", "t", "--verbose", "--", "true", NULL);
    run_expect(0, "put", "t", "x");
    await_err(child, "job 1 (t): done");
    kill(child->pid, SIGHUP);
    run_expect(0, "put", "t", "x");
    await_err(child, "job 2 (t): done");
    interrupt(child, SIGTERM, 0);
}

/* ---- readers who do not read ---- */

/* A pipe that is full already. */
static void fill_pipe(int fd)
{
    int ends_of_pipe[2];
    if (pipe(ends_of_pipe) != 0 || dup2(ends_of_pipe[1], fd) != fd ||
        fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        _exit(98);
    while (write(fd, "full", 4) > 0)
        ;
    fcntl(fd, F_SETFL, 0);
}

static void fill_error(void)
{
    fill_pipe(STDERR_FILENO);
}

static void fill_output(void)
{
    fill_pipe(STDOUT_FILENO);
}

static void a_worker_with_a_blocked_stderr_can_be_stopped(void)
{
    use_url(url_of("jobs.db", ""));
    run_expect(0, "put", "t", "x");
    char script[700];
    snprintf(script, sizeof(script), "touch %s; while :; do echo no >&2; done", test_path("begun"));
    before_exec = fill_error;
    struct child *child = begin("work", "t", "--stop-timeout", "100ms", "--grace", "100ms", "--",
                                "sh", "-c", script, NULL);
    UNTIL(file_exists(test_path("begun")));
    interrupt(child, SIGTERM, 0);
    before_exec = NULL;
    HAS(run_expect(0, "list", "t")->out, "ready");
}

static void a_worker_with_a_blocked_stdout_can_be_stopped(void)
{
    use_url(url_of("jobs.db", ""));
    run_expect_input(0, "1\n2\n3\n", "put", "t", "--lines");
    char script[700];
    snprintf(script, sizeof(script), "touch %s", test_path("begun"));
    before_exec = fill_output;
    struct child *child = begin("work", "t", "--json", "--", "sh", "-c", script, NULL);
    UNTIL(file_exists(test_path("begun")));
    interrupt(child, SIGTERM, 0);
}

static const struct test tests[] = {
    TEST(a_worker_with_a_blocked_stderr_can_be_stopped),
    TEST(a_worker_with_a_blocked_stdout_can_be_stopped),
    TEST(a_failed_program_counts_as_failed_with_sigchld_ignored),
    TEST(worker_under_nohup_survives_a_hangup),
    TEST(an_error_sends_no_control_characters_to_a_terminal),
    TEST(an_error_is_one_line),
    TEST(error_with_any_text_is_valid_json),
    TEST(a_runtime_folder_that_is_a_link_is_not_used),
    TEST(a_runtime_folder_that_others_can_write_to_is_not_used),
};

const struct theme hostile_theme = {"hostile", tests, COUNT(tests)};
