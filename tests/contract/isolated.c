/* SPDX-License-Identifier: MIT */
#include "isolated.h"

#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

/* True when the other end of the pipe is closed, which is when the test's process has ended. */
static bool ended_in_time(int end, int timeout_s)
{
    struct pollfd poll_for = {.fd = end, .events = POLLIN};
    int64_t limit_us = clock_us() + (int64_t)timeout_s * 1000000;
    for (;;) {
        int64_t left_ms = (limit_us - clock_us()) / 1000;
        if (left_ms <= 0)
            return false;
        if (poll(&poll_for, 1, (int)left_ms) > 0)
            return true;
    }
}

static void report_abnormal(const struct isolated_test *isolated, const struct trace *trace,
                            const char *what)
{
    printf("FAIL %s %s/%s\n     %s:%d: %s after this check\n", isolated->url, isolated->theme,
           isolated->test, trace->file ? trace->file : "(before the first check)", trace->line,
           what);
}

static bool check_exit(const struct isolated_test *isolated, const struct trace *trace, pid_t child,
                       bool hung)
{
    int status = 0;
    char what[64];
    if (waitpid(child, &status, 0) != child)
        return false;
    if (hung) {
        report_abnormal(isolated, trace, "hung");
        return false;
    }
    if (WIFSIGNALED(status)) {
        snprintf(what, sizeof what, "killed by signal %d", WTERMSIG(status));
        report_abnormal(isolated, trace, what);
        return false;
    }
    /* 1 is a failed check, which has spoken for itself; a sanitizer chooses another. */
    if (WEXITSTATUS(status) > 1) {
        snprintf(what, sizeof what, "ended with code %d", WEXITSTATUS(status));
        report_abnormal(isolated, trace, what);
    }
    return WEXITSTATUS(status) == 0;
}

bool run_isolated(const struct isolated_test *isolated, struct trace *trace, int timeout_s)
{
    int ends[2];
    *trace = (struct trace){NULL, 0};
    fflush(NULL);
    if (pipe(ends) != 0)
        return false;
    pid_t child = fork();
    if (child == 0) {
        close(ends[0]);
        isolated->run(isolated, trace);
        exit(0);
    }
    close(ends[1]);
    bool passed = false;
    if (child > 0) {
        bool hung = !ended_in_time(ends[0], timeout_s);
        if (hung)
            kill(child, SIGKILL);
        passed = check_exit(isolated, trace, child, hung);
    }
    close(ends[0]);
    return passed;
}

bool shard_parse(struct shard *shard, const char *text)
{
    int end = 0;
    return sscanf(text, "%u/%u%n", &shard->part, &shard->parts, &end) == 2 && text[end] == 0 &&
           shard->part >= 1 && shard->part <= shard->parts;
}

bool shard_has_next(struct shard *shard)
{
    return shard->next++ % shard->parts == shard->part - 1;
}
