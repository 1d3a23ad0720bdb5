/* SPDX-License-Identifier: MIT */
/* pane.c - a terminal of tmux, on a socket in the folder of the test. */
#define _GNU_SOURCE /* asprintf, close_range */
#include "pane.h"

#include <fnmatch.h>
#include <linux/close_range.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LOOK_EVERY_MS 20
#define AWAIT_MS      (2 * PATIENCE_MS)

static char screen[200000];
static const char *more_environment = "";
static int terminal; /* its number: one that is being closed may still hold its socket */

/* ---- tmux ---- */

/* One command; what it prints is left in screen. */
static void tmux(const char *command)
{
    char *line = NULL;
    /* set -f: the key ? is no pattern for the files of the folder that the test was started in. */
    CHECK(asprintf(&line,
                   "set -f; env -i PATH=/usr/bin:/bin TERM=xterm LC_ALL=C.UTF-8 SHELL=/bin/sh "
                   "HOME='%s' tmux -u -f /dev/null -S '%s/tmux%d' %s 2>&1",
                   test_dir(), test_dir(), terminal, command) > 0);
    FILE *output = popen(line, "r");
    CHECK(output != NULL);
    size_t size = fread(screen, 1, sizeof(screen) - 1, output);
    screen[size] = 0;
    if (pclose(output) != 0)
        FAIL("tmux %s: %s", command, screen);
    free(line);
}

__attribute__((format(printf, 1, 2))) static void tmux_say(const char *format, ...)
{
    char command[2000];
    va_list args;
    va_start(args, format);
    vsnprintf(command, sizeof(command), format, args);
    va_end(args);
    tmux(command);
}

/* ---- starting ---- */

void pane_set(const char *assignments)
{
    more_environment = assignments;
}

/* What the shell is told to run: short, so that its echo is one line. */
static void write_program(const char *flags)
{
    char *text = NULL;
    const char *options = getenv("ASAN_OPTIONS");
    CHECK(asprintf(&text,
                   "#!/bin/sh\n"
                   "export HOME='%s' XDG_CONFIG_HOME='%s' TZ=UTC ASAN_OPTIONS='%s'\n"
                   "export TERM=xterm-256color LC_ALL=C.UTF-8\n"
                   "%s exec '%s/bide' --url '%s' top %s\n",
                   folder_of("home"), folder_of("config"), options == NULL ? "" : options,
                   more_environment, program_folder(), queue_url(), flags) > 0);
    write_text(test_path("watch"), text);
    CHECK(chmod(test_path("watch"), 0700) == 0);
    free(text);
}

void pane_begin(int columns, int rows, const char *flags)
{
    write_program(flags);
    /* tmux outlives a test that fails; the suite must not wait for it to close what it
     * inherited. */
    CHECK(close_range(3, ~0u, CLOSE_RANGE_CLOEXEC) == 0);
    terminal++;
    tmux_say("new-session -d -x %d -y %d -c '%s' \"PS1='shell> ' exec sh -i\"", columns, rows,
             test_dir());
    SHOWS("shell>");
    pane_type("./watch; echo ended with $?");
    pane_keys("Enter");
}

/* ---- keys ---- */

void pane_keys(const char *keys)
{
    tmux_say("send-keys %s", keys);
}

void pane_type(const char *text)
{
    tmux_say("send-keys -l '%s'", text);
}

void pane_resize(int columns, int rows)
{
    tmux_say("resize-window -x %d -y %d", columns, rows);
}

/* ---- looking ---- */

const char *pane_text(bool styled)
{
    tmux_say("capture-pane -p%s", styled ? " -e" : "");
    return screen;
}

int pane_line(const char *pattern)
{
    static char copy[sizeof(screen)];
    char anywhere[500], *rest = copy;
    int number = 0;
    snprintf(anywhere, sizeof(anywhere), "*%s*", pattern);
    memcpy(copy, pane_text(false), sizeof(copy));
    for (char *line; (line = strsep(&rest, "\n")) != NULL; number++)
        if (fnmatch(anywhere, line, 0) == 0)
            return number;
    return -1;
}

void pane_await_at(struct where at, const char *pattern, bool shown)
{
    int64_t limit_us = clock_us() + AWAIT_MS * 1000;
    while ((pane_line(pattern) >= 0) != shown) {
        if (clock_us() > limit_us)
            fail_test(at, "%s line like \"%s\" on the screen:\n%s", shown ? "no" : "still a",
                      pattern, screen);
        nap_ms(LOOK_EVERY_MS);
    }
    check_true(at, true, pattern);
}

/* ---- the end ---- */

/* The only child of the shell. */
pid_t pane_pid(void)
{
    char path[100];
    int pid = 0;
    tmux("display-message -p '#{pane_pid}'");
    snprintf(path, sizeof(path), "/proc/%d/task/%d/children", atoi(screen), atoi(screen));
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "%d", &pid) == 1);
    fclose(file);
    return pid;
}

void pane_ended_at(struct where at, int code)
{
    char pattern[40];
    snprintf(pattern, sizeof(pattern), "ended with %d", code);
    pane_await_at(at, "ended with [0-9]", true);
    if (pane_line(pattern) < 0)
        fail_test(at, "not %s:\n%s", pattern, screen);
    pane_keys("Enter");
    pane_type("clear; stty -a");
    pane_keys("Enter");
    pane_await_at(at, "[ ^]icanon", true);
    pane_await_at(at, " echo ", true);
    pane_await_at(at, " icrnl", true);
    pane_close();
}

void pane_close(void)
{
    tmux("kill-server");
}
