/* SPDX-License-Identifier: MIT */
/* bided.c - the program under test as a child: starting, reading, ending, talking. */
#define _GNU_SOURCE /* pipe2, O_PATH, strcasestr */
#include "bided_suite.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define FLAGS_MAX 100

static struct bided *all; /* that this test has started; they stay, so that it can look at them */
static char program[PATH_MAX];
static char source[PATH_MAX];
static struct {
    const char *name;
    char value[PATH_MAX];
} environment[16];
static size_t environment_count;

void (*before_exec)(void);

void bided_begin(const char *path, const char *folder)
{
    CHECK(realpath(path, program) != NULL);
    snprintf(source, sizeof(source), "%s", folder);
}

const char *source_of(const char *name)
{
    static char path[PATH_MAX + 300];
    snprintf(path, sizeof(path), "%s/%s", source, name);
    return path;
}

const char *program_folder(void)
{
    static char folder[PATH_MAX];
    snprintf(folder, sizeof(folder), "%.*s", (int)(strrchr(program, '/') - program), program);
    return folder;
}

const char *folder_of(const char *name)
{
    const char *path = test_path(name);
    CHECK(mkdir(path, 0755) == 0 || errno == EEXIST);
    return path;
}

const char *file_of(const char *text)
{
    static char flag[400];
    const char *path = test_path("bided.conf");
    unlink(path);
    write_file(path, 0, text, strlen(text));
    CHECK(chmod(path, 0600) == 0);
    snprintf(flag, sizeof flag, "--config=%s", path);
    return flag;
}

void set_env(const char *name, const char *value)
{
    size_t i = 0;
    while (i < environment_count && strcmp(environment[i].name, name) != 0)
        i++;
    CHECK(i < COUNT(environment));
    if (i == environment_count)
        environment_count++;
    environment[i].name = name;
    snprintf(environment[i].value, sizeof(environment[i].value), "%s", value ? value : "");
    if (value == NULL)
        environment[i] = environment[--environment_count];
}

/* ---- starting ---- */

static void become_bided(char **argv, const int *out, const int *err)
{
    static const char *const kept[] = {"ASAN_OPTIONS", "TSAN_OPTIONS", "UBSAN_OPTIONS"};
    const char *values[COUNT(kept)];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    for (size_t i = 0; i < COUNT(kept); i++)
        values[i] = getenv(kept[i]);
    clearenv();
    for (size_t i = 0; i < COUNT(kept); i++)
        if (values[i] != NULL)
            setenv(kept[i], values[i], 1);
    setenv("HOME", test_dir(), 1);
    setenv("PATH", "/usr/bin:/bin", 1);
    for (size_t i = 0; i < environment_count; i++)
        setenv(environment[i].name, environment[i].value, 1);
    /* Opened first: the user that the process switches to may have no access to the directory. */
    int file = open(program, O_PATH | O_CLOEXEC);
    dup2(out[1], STDOUT_FILENO);
    dup2(err[1], STDERR_FILENO);
    if (before_exec != NULL)
        before_exec();
    fexecve(file, argv, environ);
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", program, strerror(errno));
    _exit(99);
}

static struct bided *start_list(char **argv)
{
    struct bided *bided = calloc(1, sizeof(*bided));
    int out[2], err[2];
    CHECK(bided != NULL && pipe2(out, O_CLOEXEC) == 0 && pipe2(err, O_CLOEXEC) == 0);
    fflush(NULL);
    bided->next = all;
    all = bided;
    bided->code = -1;
    bided->pid = fork();
    CHECK(bided->pid >= 0);
    if (bided->pid == 0)
        become_bided(argv, out, err);
    close(out[1]);
    close(err[1]);
    bided->out.fd = out[0];
    bided->err.fd = err[0];
    fcntl(out[0], F_SETFL, O_NONBLOCK);
    fcntl(err[0], F_SETFL, O_NONBLOCK);
    return bided;
}

/* Copies the flags into a list that begins with the name of the program. */
static struct bided *start_flags(const char *flag, va_list more)
{
    static char texts[FLAGS_MAX][PATH_MAX];
    char *argv[FLAGS_MAX + 3] = {program};
    size_t count = 1;
    static char no_file[] = "--config=/dev/null";
    if (flag == NULL || strncmp(flag, "--config", 8) != 0)
        argv[count++] = no_file;
    for (size_t i = 0; flag != NULL && i < FLAGS_MAX; i++, flag = va_arg(more, const char *)) {
        snprintf(texts[i], sizeof(texts[i]), "%s", flag);
        argv[count++] = texts[i];
    }
    return start_list(argv);
}

struct bided *start(const char *flag, ...)
{
    va_list more;
    va_start(more, flag);
    struct bided *bided = start_flags(flag, more);
    va_end(more);
    return bided;
}

struct bided *serve_at(struct where at, const char *flag, ...)
{
    va_list more;
    va_start(more, flag);
    struct bided *bided = start_flags(flag, more);
    va_end(more);
    await_log_at(at, bided, "ready", 1);
    return bided;
}

struct bided *ends_at(struct where at, int code, const char *flag, ...)
{
    va_list more;
    va_start(more, flag);
    struct bided *bided = start_flags(flag, more);
    va_end(more);
    await_end_at(at, bided, code);
    return bided;
}

/* ---- reading ---- */

/* False when nothing more comes. */
static bool read_some(int *fd, char *text, size_t *size)
{
    ssize_t got = *fd < 0 ? 0 : read(*fd, text + *size, OUTPUT_SIZE - 1 - *size);
    if (got > 0)
        *size += (size_t)got;
    else if (*fd >= 0 && (got == 0 || errno != EAGAIN)) {
        close(*fd);
        *fd = -1;
    }
    text[*size] = 0;
    return got > 0;
}

static void read_all(struct bided *bided)
{
    while (read_some(&bided->out.fd, bided->out.text, &bided->out.size))
        continue;
    while (read_some(&bided->err.fd, bided->err.text, &bided->err.size))
        continue;
}

static void wait_some(const struct bided *bided, int ms)
{
    struct pollfd fds[] = {{.fd = bided->out.fd, .events = POLLIN},
                           {.fd = bided->err.fd, .events = POLLIN}};
    poll(fds, 2, ms);
}

static bool has_ended(struct bided *bided)
{
    int status;
    if (bided->code >= 0)
        return true;
    if (waitpid(bided->pid, &status, WNOHANG) != bided->pid)
        return false;
    bided->code = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    return true;
}

static int count_of(const char *text, const char *wanted)
{
    int count = 0;
    for (; (text = strstr(text, wanted)) != NULL; text++)
        count++;
    return count;
}

void await_log_at(struct where at, struct bided *bided, const char *text, int times)
{
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    for (;;) {
        bool ended = has_ended(bided);
        read_all(bided);
        if (count_of(bided->err.text, text) >= times)
            break;
        if (ended || clock_us() > limit_us)
            fail_test(at, "no \"%s\" (%d times) in the log%s:\n%s", text, times,
                      ended ? ", and it has ended" : "", bided->err.text);
        wait_some(bided, 100);
    }
    check_true(at, true, text);
}

void has_at(struct where at, const char *text, const char *wanted, bool must)
{
    if ((strstr(text, wanted) != NULL) != must)
        fail_test(at, "expected %s\"%s\" in:\n%s", must ? "" : "no ", wanted, text);
    check_true(at, true, wanted);
}

void await_end_at(struct where at, struct bided *bided, int code)
{
    int64_t limit_us = clock_us() + 3 * PATIENCE_MS * 1000;
    while (!has_ended(bided)) {
        read_all(bided);
        if (clock_us() > limit_us) {
            kill(bided->pid, SIGKILL);
            fail_test(at, "it does not end:\n%s", bided->err.text);
        }
        wait_some(bided, 10);
    }
    read_all(bided);
    if (bided->code != code)
        fail_test(at, "expected exit code %d, got %d:\n%s%s", code, bided->code, bided->out.text,
                  bided->err.text);
    check_true(at, true, "ended");
}

void stop_at(struct where at, struct bided *bided)
{
    kill(bided->pid, SIGTERM);
    await_end_at(at, bided, 0);
    has_at(at, bided->err.text, "stopped", true);
}

int port_of(const struct bided *bided, const char *host)
{
    char start_of[100];
    snprintf(start_of, sizeof(start_of), "listening on %s:", host);
    const char *line = strstr(bided->err.text, start_of);
    if (line == NULL)
        fail_test(HERE, "no \"%s\" in:\n%s", start_of, bided->err.text);
    return atoi(line + strlen(start_of));
}

bide *open_at(const struct bided *bided)
{
    char url[80];
    bide *queue = NULL;
    snprintf(url, sizeof url, "beanstalk://127.0.0.1:%d", port_of(bided, "127.0.0.1"));
    OK(bide_open(url, NULL, &queue));
    return queue;
}

/* ---- talking ---- */

static int try_connect(const void *address, socklen_t size, int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || connect(fd, address, size) == 0)
        return fd;
    close(fd);
    return -1;
}

int try_tcp(const char *host, int port)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, host, &four.sin_addr) == 1)
        return try_connect(&four, sizeof(four), AF_INET);
    CHECK(inet_pton(AF_INET6, host, &six.sin6_addr) == 1);
    return try_connect(&six, sizeof(six), AF_INET6);
}

/* An address of either family; how many bytes it has. */
static socklen_t set_address(struct sockaddr_storage *address, const char *text, int port)
{
    struct sockaddr_in four = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
        memcpy(address, &four, sizeof(four));
        return sizeof(four);
    }
    CHECK(inet_pton(AF_INET6, text, &six.sin6_addr) == 1);
    memcpy(address, &six, sizeof(six));
    return sizeof(six);
}

int try_tcp_from(const char *from, const char *host, int port)
{
    struct sockaddr_storage own, other;
    socklen_t size = set_address(&other, host, port);
    int fd = socket(other.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (from != NULL)
        CHECK(set_address(&own, from, 0) == size && bind(fd, (struct sockaddr *)&own, size) == 0);
    if (connect(fd, (struct sockaddr *)&other, size) == 0)
        return fd;
    close(fd);
    return -1;
}

int try_unix(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof(address.sun_path));
    memcpy(address.sun_path, path, strlen(path));
    return try_connect(&address, sizeof(address), AF_UNIX);
}

int connect_at(struct where at, int fd)
{
    if (fd < 0)
        fail_test(at, "cannot connect: %s", strerror(errno));
    return fd;
}

/* One read that is waited for; 0 at the end of the stream. */
static ssize_t receive(struct where at, int fd, char *room, size_t size)
{
    struct pollfd poll_for = {.fd = fd, .events = POLLIN};
    if (poll(&poll_for, 1, (int)PATIENCE_MS) <= 0)
        fail_test(at, "no answer");
    ssize_t got = read(fd, room, size);
    return got < 0 ? 0 : got;
}

void ask_at(struct where at, int fd, const char *text, const char *want)
{
    char got[4096] = "";
    size_t size = 0, wanted = strlen(want);
    if (send(fd, text, strlen(text), MSG_NOSIGNAL) != (ssize_t)strlen(text))
        fail_test(at, "cannot send: %s", strerror(errno));
    while (size < wanted) {
        ssize_t more = receive(at, fd, got + size, wanted - size);
        if (more == 0)
            break;
        size += (size_t)more;
    }
    check_text(at, got, size, want, text);
}

void await_close_at(struct where at, int fd)
{
    char rest[4096];
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (receive(at, fd, rest, sizeof(rest)) > 0)
        check_true(at, clock_us() < limit_us, "the other side to close");
    close(fd);
}
