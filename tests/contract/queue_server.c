/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* close_range, strchrnul */
#include "queue_server.h"

#include "contract.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define PATH_SIZE 512
#define URL_SIZE  2048
#define START_US  (INT64_C(30) * 1000000)
#define BEHIND    "behind=sqlite"

bool is_queue_server(const char *url)
{
    return strcmp(url, "beanstalk:") == 0 || strncmp(url, "beanstalk:?", 11) == 0;
}

bool queue_server_persists(const char *url)
{
    return is_queue_server(url) && strstr(url, BEHIND) != NULL;
}

/* ---- parameters: whose are they? ---- */

static bool is_clients(const char *parameter, size_t size)
{
    static const char *const names[] = {"default_ttr",     "max_job_size",      "max_result_size",
                                        "max_pending_ops", "max_pending_bytes", "seed"};
    for (size_t i = 0; i < COUNT(names); i++)
        if (strlen(names[i]) < size && parameter[strlen(names[i])] == '=' &&
            strncmp(names[i], parameter, strlen(names[i])) == 0)
            return true;
    return false;
}

/* Adds those of the parameters that are wanted to a URL. */
static void add_parameters(char *url, const char *parameters, bool clients_only)
{
    const char *from = parameters;
    while (*from) {
        const char *end = strchrnul(from, '&');
        size_t size = (size_t)(end - from);
        size_t used = strlen(url);
        bool wanted = strncmp(from, "behind=", 7) != 0 && (!clients_only || is_clients(from, size));
        if (wanted)
            snprintf(url + used, URL_SIZE - used, "%c%.*s", strchr(url, '?') ? '&' : '?', (int)size,
                     from);
        from = *end ? end + 1 : end;
    }
}

/* ---- processes ---- */

/* The program lies beside this one. */
static void find_program(char *path)
{
    ssize_t size = readlink("/proc/self/exe", path, PATH_SIZE - 16);
    CHECK(size > 0);
    path[size] = '\0';
    char *slash = strrchr(path, '/');
    CHECK(slash != NULL);
    memcpy(slash, "/bided", 7);
}

static pid_t start(const char *url, const char *listen_at, const char *log)
{
    char program[PATH_SIZE];
    find_program(program);
    pid_t parent = getpid();
    pid_t child = fork();
    CHECK(child >= 0);
    if (child > 0)
        return child;
    int out = open(log, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    dup2(out, 1);
    dup2(out, 2);
    close_range(3, ~0U, 0);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(1);
    execl(program, program, "--url", url, "--listen", listen_at, (char *)NULL);
    _exit(127);
}

/* The server listens before its queue is open, which may fail: so it is pinged. */
static bool answers(const char *path)
{
    static const char question[] = "list-tube-used\r\n";
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    CHECK(strlen(path) < sizeof address.sun_path);
    memcpy(address.sun_path, path, strlen(path) + 1);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct pollfd answer = {.fd = fd, .events = POLLIN};
    char first;
    bool good = fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) == 0 &&
                send(fd, question, sizeof question - 1, MSG_NOSIGNAL) > 0 &&
                poll(&answer, 1, 100) == 1 && recv(fd, &first, 1, 0) == 1;
    close(fd);
    return good;
}

/* False when it has ended instead. */
static bool wait_until_it_answers(pid_t child, const char *path)
{
    int64_t limit_us = clock_us() + START_US;
    while (!answers(path)) {
        if (waitpid(child, NULL, WNOHANG) == child)
            return false;
        CHECK(clock_us() < limit_us);
        nap_ms(1);
    }
    return true;
}

/* ---- the file of a server's number ---- */

static void remember(const char *file, pid_t child)
{
    char path[PATH_SIZE];
    snprintf(path, sizeof path, "%s.pid", file);
    FILE *out = fopen(path, "w");
    CHECK(out != NULL);
    fprintf(out, "%ld %ld\n", (long)child, (long)getpid());
    CHECK(fclose(out) == 0);
}

static bool recall(const char *file, pid_t *server, pid_t *parent)
{
    char path[PATH_SIZE];
    long numbers[2] = {0, 0};
    snprintf(path, sizeof path, "%s.pid", file);
    FILE *in = fopen(path, "r");
    if (!in)
        return false;
    int count = fscanf(in, "%ld %ld", &numbers[0], &numbers[1]);
    fclose(in);
    unlink(path);
    *server = (pid_t)numbers[0];
    *parent = (pid_t)numbers[1];
    return count == 2 && numbers[0] > 1;
}

/* Waits for the end of a process that is not a child: of all its threads, which hold its files. */
static void wait_for_end(pid_t process)
{
    int fd = (int)syscall(SYS_pidfd_open, process, 0);
    struct pollfd ended = {.fd = fd, .events = POLLIN};
    CHECK(fd < 0 || poll(&ended, 1, START_US / 1000) == 1);
    if (fd >= 0)
        close(fd);
}

static void end_own(pid_t server, int signal)
{
    kill(server, signal);
    CHECK(waitpid(server, NULL, 0) == server);
}

void queue_server_kill(const char *file)
{
    pid_t server, parent;
    CHECK(recall(file, &server, &parent) && parent == getpid());
    end_own(server, SIGKILL);
}

void queue_server_stop(const char *file)
{
    pid_t server, parent;
    if (!recall(file, &server, &parent))
        return;
    if (parent == getpid()) {
        end_own(server, SIGTERM);
        return;
    }
    /* Its parent was killed, and so is it. */
    kill(server, SIGKILL);
    wait_for_end(server);
}

const char *queue_server_start(char *room, size_t size, const char *file, const char *parameters)
{
    char behind[URL_SIZE], client[URL_SIZE], listen_at[PATH_SIZE + 8], path[PATH_SIZE],
        log[PATH_SIZE];
    bool keeps_jobs = strstr(parameters, BEHIND) != NULL;
    queue_server_stop(file);
    snprintf(path, sizeof path, "%s.sock", file);
    snprintf(log, sizeof log, "%s.log", file);
    snprintf(listen_at, sizeof listen_at, "unix:%s", path);
    snprintf(behind, sizeof behind, keeps_jobs ? "sqlite:%s" : "memory:", file);
    snprintf(client, sizeof client, "beanstalk://%s", path);
    add_parameters(behind, parameters, false);
    pid_t child = start(behind, listen_at, log);
    bool started = wait_until_it_answers(child, path);
    if (started)
        remember(file, child);
    add_parameters(client, parameters, started);
    CHECK((size_t)snprintf(room, size, "%s", client) < size);
    return room;
}

const char *queue_server_url(char *room, size_t size, const char *file)
{
    CHECK((size_t)snprintf(room, size, "beanstalk://%s.sock", file) < size);
    return room;
}
