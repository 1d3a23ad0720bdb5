/* SPDX-License-Identifier: MIT */
/* child.c - bide as a child: its environment, its descriptors or terminal, its end. */
#define _GNU_SOURCE /* pipe2, close_range, O_PATH */
#include "cli_test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <pty.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define ARGUMENTS_MAX 1200
#define END_MS        (6 * PATIENCE_MS)

void (*before_exec)(void);
const char *program_path;

static char programs[PATH_MAX], sources[PATH_MAX], bide_path[PATH_MAX + 8];
static const char *url; /* instead of that of the queue */
static bool has_url;
static struct child *all; /* that this test has started; they stay, so that it can look at them */

static struct {
    const char *name;
    char *value; /* NULL: not in the environment */
} environment[32];
static size_t environment_count;

/* ---- settings ---- */

void children_begin(const char *folder, const char *source)
{
    CHECK(realpath(folder, programs) != NULL);
    snprintf(sources, sizeof(sources), "%s", source);
    snprintf(bide_path, sizeof(bide_path), "%s/bide", programs);
    program_path = bide_path;
    signal(SIGPIPE, SIG_IGN);
    prctl(PR_SET_CHILD_SUBREAPER, 1);
    set_env("HOME", folder_of("home"));
    set_env("XDG_RUNTIME_DIR", folder_of("run"));
    set_env("XDG_DATA_HOME", folder_of("data"));
    set_env("XDG_CONFIG_HOME", folder_of("config"));
    set_env("PATH", "/usr/bin:/bin");
    set_env("TERM", "xterm");
    set_env("TZ", "UTC");
    set_env("LC_ALL", "C.UTF-8");
}

const char *program_folder(void)
{
    return programs;
}

const char *source_of(const char *name)
{
    static char path[PATH_MAX + 300];
    snprintf(path, sizeof(path), "%s/%s", sources, name);
    return path;
}

const char *folder_of(const char *name)
{
    const char *path = test_path(name);
    CHECK(mkdir(path, 0700) == 0 || errno == EEXIST);
    return path;
}

void write_text(const char *path, const char *text)
{
    write_file(path, 0, text, strlen(text));
}

void use_url(const char *other)
{
    url = other == NULL ? NULL : strdup(other);
    has_url = true;
}

void set_env(const char *name, const char *value)
{
    size_t i = 0;
    while (i < environment_count && strcmp(environment[i].name, name) != 0)
        i++;
    CHECK(i < COUNT(environment));
    if (i == environment_count)
        environment_count++;
    else
        free(environment[i].value);
    environment[i].name = name;
    environment[i].value = value == NULL ? NULL : strdup(value);
}

static void make_environment(void)
{
    static const char *const kept[] = {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};
    const char *values[COUNT(kept)];
    for (size_t i = 0; i < COUNT(kept); i++)
        values[i] = getenv(kept[i]);
    clearenv();
    for (size_t i = 0; i < COUNT(kept); i++)
        if (values[i] != NULL)
            setenv(kept[i], values[i], 1);
    for (size_t i = 0; i < environment_count; i++)
        if (environment[i].value != NULL)
            setenv(environment[i].name, environment[i].value, 1);
}

/* ---- starting ---- */

/* Standard input, output and error of a child, and the other ends of them. */
struct stdio_fds {
    int theirs[3];
    int ours[3];
    bool terminal;
};

static void exec_bide(const struct stdio_fds *stdio_fds, char **argv)
{
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (int i = 0; i < 3; i++)
        dup2(stdio_fds->theirs[i], i);
    close_range(3, ~0u, 0);
    /* Opened first: the user that it becomes may not be let into the folder. */
    int file = open(program_path, O_PATH | O_CLOEXEC);
    if (stdio_fds->terminal) {
        setsid();
        ioctl(0, TIOCSCTTY, 0);
    }
    for (int number = 1; number < NSIG; number++)
        signal(number, SIG_DFL); /* a shell that runs the tests in the background ignores some */
    make_environment();
    if (before_exec != NULL)
        before_exec();
    fexecve(file, argv, environ);
    fprintf(stderr, "cannot start %s: %s\n", program_path, strerror(errno));
    _exit(99);
}

static struct child *start(const struct stdio_fds *stdio_fds, char **argv)
{
    struct child *child = calloc(1, sizeof(*child));
    CHECK(child != NULL);
    child->next = all;
    all = child;
    child->code = -1;
    fflush(NULL);
    child->pid = fork();
    CHECK(child->pid >= 0);
    if (child->pid == 0)
        exec_bide(stdio_fds, argv);
    for (int i = 0; i < 3; i++) {
        if (i == 0 || stdio_fds->theirs[i] != stdio_fds->theirs[i - 1])
            close(stdio_fds->theirs[i]);
        if (stdio_fds->ours[i] >= 0)
            fcntl(stdio_fds->ours[i], F_SETFL, O_NONBLOCK);
    }
    child->in = stdio_fds->ours[0];
    child->out = (struct output){.fd = stdio_fds->ours[1], .text = calloc(1, 1)};
    child->err = (struct output){.fd = stdio_fds->ours[2], .text = calloc(1, 1)};
    return child;
}

static void make_pipe(int *read_end, int *write_end)
{
    int fds[2];
    CHECK(pipe2(fds, O_CLOEXEC) == 0);
    *read_end = fds[0];
    *write_end = fds[1];
}

static struct child *start_piped(char **argv)
{
    struct stdio_fds stdio_fds = {.terminal = false};
    make_pipe(&stdio_fds.theirs[0], &stdio_fds.ours[0]);
    make_pipe(&stdio_fds.ours[1], &stdio_fds.theirs[1]);
    make_pipe(&stdio_fds.ours[2], &stdio_fds.theirs[2]);
    return start(&stdio_fds, argv);
}

static int on_terminal(int fd)
{
    return fcntl(fd, F_DUPFD_CLOEXEC, 3);
}

static struct child *start_on_terminal(int columns, int rows, bool piped, char **argv)
{
    struct winsize size = {.ws_row = (unsigned short)rows, .ws_col = (unsigned short)columns};
    struct stdio_fds stdio_fds = {.terminal = true};
    int master, terminal;
    CHECK(openpty(&master, &terminal, NULL, NULL, &size) == 0);
    fcntl(master, F_SETFD, FD_CLOEXEC);
    for (int i = 0; i < 3; i++)
        stdio_fds.theirs[i] = on_terminal(terminal);
    close(terminal);
    stdio_fds.ours[0] = on_terminal(master);
    stdio_fds.ours[1] = master;
    stdio_fds.ours[2] = -1;
    if (piped) {
        close(stdio_fds.theirs[1]);
        stdio_fds.ours[2] = master;
        make_pipe(&stdio_fds.ours[1], &stdio_fds.theirs[1]);
    }
    return start(&stdio_fds, argv);
}

/* ---- arguments ---- */

/* The list of a child: its name, --url if it gets one, and what was said. */
struct list {
    char *argv[ARGUMENTS_MAX + 4];
    size_t count;
};

static void add(struct list *list, const char *argument)
{
    CHECK(list->count < ARGUMENTS_MAX);
    list->argv[list->count++] = strdup(argument);
}

static void list_begin(struct list *list)
{
    const char *wanted = has_url ? url : place_kind == NOWHERE ? NULL : queue_url();
    list->count = 0;
    add(list, "bide");
    if (wanted == NULL)
        return;
    add(list, "--url");
    add(list, wanted);
}

static void list_end(struct list *list, const char *argument, va_list more)
{
    for (; argument != NULL; argument = va_arg(more, const char *))
        add(list, argument);
    list->argv[list->count] = NULL;
}

struct child *begin(const char *argument, ...)
{
    static struct list list;
    va_list more;
    list_begin(&list);
    va_start(more, argument);
    list_end(&list, argument, more);
    va_end(more);
    return start_piped(list.argv);
}

struct child *begin_list(const char *const *argv)
{
    static struct list list;
    list_begin(&list);
    for (; *argv != NULL; argv++)
        add(&list, *argv);
    list.argv[list.count] = NULL;
    return start_piped(list.argv);
}

struct child *begin_on_terminal(int columns, int rows, const char *argument, ...)
{
    static struct list list;
    va_list more;
    list_begin(&list);
    va_start(more, argument);
    list_end(&list, argument, more);
    va_end(more);
    return start_on_terminal(columns, rows, false, list.argv);
}

struct child *begin_piped_on_terminal(const char *argument, ...)
{
    static struct list list;
    va_list more;
    list_begin(&list);
    va_start(more, argument);
    list_end(&list, argument, more);
    va_end(more);
    return start_on_terminal(80, 24, true, list.argv);
}

/* ---- reading and feeding ---- */

/* False when nothing more comes now. The end of a terminal is told by EIO. */
static bool read_some(struct output *output)
{
    char room[65536];
    ssize_t got = output->fd < 0 ? 0 : read(output->fd, room, sizeof(room));
    if (got > 0) {
        output->text = realloc(output->text, output->size + (size_t)got + 1);
        CHECK(output->text != NULL);
        memcpy(output->text + output->size, room, (size_t)got);
        output->size += (size_t)got;
        output->text[output->size] = 0;
    } else if (output->fd >= 0 && (got == 0 || (errno != EAGAIN && errno != EINTR))) {
        close(output->fd);
        output->fd = -1;
    }
    return got > 0;
}

static void read_all(struct child *child)
{
    while (read_some(&child->out))
        continue;
    while (read_some(&child->err))
        continue;
}

static bool has_ended(struct child *child)
{
    int status;
    if (child->code >= 0)
        return true;
    if (waitpid(child->pid, &status, WNOHANG) != child->pid)
        return false;
    child->code = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    return true;
}

bool is_over(struct child *child)
{
    bool over = has_ended(child);
    read_all(child);
    return over;
}

/* Waits for output, or for room in the input when there is something to feed. */
static void wait_some(const struct child *child, bool feeding, int ms)
{
    struct pollfd fds[] = {{.fd = child->out.fd, .events = POLLIN},
                           {.fd = child->err.fd, .events = POLLIN},
                           {.fd = feeding ? child->in : -1, .events = POLLOUT}};
    poll(fds, 3, ms);
}

static void fail_late(struct where at, struct child *child, const char *what)
{
    kill(child->pid, SIGKILL);
    fail_test(at, "%s; out:\n%s\nerr:\n%s", what, child->out.text, child->err.text);
}

void feed_at(struct where at, struct child *child, const void *data, size_t size)
{
    int64_t limit_us = clock_us() + END_MS * 1000;
    for (size_t done = 0; done < size;) {
        ssize_t wrote = write(child->in, (const char *)data + done, size - done);
        if (wrote > 0)
            done += (size_t)wrote;
        else if (wrote < 0 && errno != EAGAIN && errno != EINTR)
            return; /* it does not want more; its end will tell why */
        if (clock_us() > limit_us)
            fail_late(at, child, "it does not read its input");
        read_all(child);
        if (done < size)
            wait_some(child, true, 100);
    }
}

void end_input(struct child *child)
{
    if (child->in >= 0)
        close(child->in);
    child->in = -1;
}

void end_output(struct child *child)
{
    if (child->out.fd >= 0)
        close(child->out.fd);
    child->out.fd = -1;
}

void await_text_at(struct where at, struct child *child, struct output *output, const char *text)
{
    int64_t limit_us = clock_us() + END_MS * 1000;
    for (;;) {
        bool ended = has_ended(child);
        read_all(child);
        if (memmem(output->text, output->size, text, strlen(text)) != NULL)
            break;
        if (ended || clock_us() > limit_us)
            fail_test(at, "no \"%s\"%s; out:\n%s\nerr:\n%s", text,
                      ended ? ", and it has ended" : "", child->out.text, child->err.text);
        wait_some(child, false, 100);
    }
    check_true(at, true, text);
}

/* ---- the end ---- */

void await_end_at(struct where at, struct child *child, int code)
{
    int64_t limit_us = clock_us() + END_MS * 1000;
    check_true(at, true, "the end");
    while (!has_ended(child)) {
        read_all(child);
        if (clock_us() > limit_us)
            fail_late(at, child, "it does not end");
        wait_some(child, false, child->out.fd < 0 && child->err.fd < 0 ? 1 : 20);
    }
    read_all(child);
    end_input(child);
    if (code != ANY_CODE && child->code != code)
        fail_test(at, "expected exit code %d, got %d; out:\n%.2000s\nerr:\n%.2000s", code,
                  child->code, child->out.text, child->err.text);
}

void interrupt_at(struct where at, struct child *child, int signal, int code)
{
    kill(child->pid, signal);
    await_end_at(at, child, code);
}

static struct child *run_to_end(struct where at, int code, const void *input, size_t size,
                                struct list *list)
{
    struct child *child = start_piped(list->argv);
    feed_at(at, child, input, size);
    end_input(child);
    await_end_at(at, child, code);
    return child;
}

struct child *run_expect_at(struct where at, int code, const void *input, size_t size, ...)
{
    static struct list list;
    va_list more;
    list_begin(&list);
    va_start(more, size);
    list_end(&list, va_arg(more, const char *), more);
    va_end(more);
    return run_to_end(at, code, input, size, &list);
}

struct child *run_expect_list_at(struct where at, int code, const void *input, size_t size,
                                 const char *const *argv)
{
    static struct list list;
    list_begin(&list);
    for (; *argv != NULL; argv++)
        add(&list, *argv);
    list.argv[list.count] = NULL;
    return run_to_end(at, code, input, size, &list);
}
