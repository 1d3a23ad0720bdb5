/* SPDX-License-Identifier: MIT */
#include "daemon.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "folder.h"
#include "measure.h"
#include "pin.h"

#define PATIENCE_NS   INT64_C(30000000000)
#define ARGUMENTS     12
#define ARGUMENT_SIZE 700

/* What a server is started with: texts, and room for those that are made. */
struct command {
    const char *words[ARGUMENTS + 1];
    size_t count;
    char program[600];
    char where[ARGUMENT_SIZE];
    char folder[ARGUMENT_SIZE];
};

static void add(struct command *command, const char *word)
{
    if (command->count == ARGUMENTS)
        fail("a server is started with too many words");
    command->words[command->count++] = word;
}

static void add_bided(struct command *command, const struct settings *settings,
                      const struct daemon_setup *setup, const char *address)
{
    add(command, "--url");
    add(command, setup->durable ? settings->folder->url : "memory:");
    add(command, "--listen");
    add(command, address);
    for (size_t i = 0; setup->more != NULL && setup->more[i] != NULL; i++)
        add(command, setup->more[i]);
}

/* It takes address and port apart, but a socket together with its prefix. */
static void add_beanstalkd(struct command *command, const struct settings *settings,
                           const struct daemon_setup *setup, const char *address)
{
    add(command, "-l");
    if (setup->on_unix) {
        add(command, address);
    } else {
        add(command, "127.0.0.1");
        add(command, "-p");
        add(command, strrchr(address, ':') + 1);
    }
    if (!setup->durable)
        return;
    snprintf(command->folder, sizeof(command->folder), "-b%s", settings->folder->path);
    add(command, command->folder);
    add(command, "-f0");
}

static const struct {
    const char *name;
    const char *missing;
    void (*add)(struct command *command, const struct settings *settings,
                const struct daemon_setup *setup, const char *address);
} kinds[DAEMONS] = {
    [DAEMON_BIDED] = {"bided", "build it (ninja -C build bided), or say where it is with --bided",
                      add_bided},
    [DAEMON_BEANSTALKD] = {"beanstalkd",
                           "install it (apt-get install beanstalkd), or say where it is with "
                           "--beanstalkd",
                           add_beanstalkd},
};

const char *daemon_name(enum daemon_kind kind)
{
    return kinds[kind].name;
}

/* ---- where the programs are ---- */

static bool is_program(const char *path)
{
    return access(path, X_OK) == 0;
}

/* Beside this program. */
static bool find_own(char *path, size_t size)
{
    char self[512];
    ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);

    if (length <= 0)
        return false;
    self[length] = '\0';
    *strrchr(self, '/') = '\0';
    snprintf(path, size, "%s/bided", self);
    return is_program(path);
}

static bool find_installed(const char *name, char *path, size_t size)
{
    char folders[4096];
    const char *all = getenv("PATH");
    char *rest = NULL;

    snprintf(folders, sizeof(folders), "%s:/usr/bin:/usr/sbin:/usr/local/bin",
             all == NULL ? "" : all);
    for (char *at = strtok_r(folders, ":", &rest); at != NULL; at = strtok_r(NULL, ":", &rest)) {
        snprintf(path, size, "%s/%s", at, name);
        if (is_program(path))
            return true;
    }
    return false;
}

static void find_program(const struct settings *settings, enum daemon_kind kind, char *path,
                         size_t size)
{
    const char *given = kind == DAEMON_BIDED ? settings->bided : settings->beanstalkd;
    bool found = false;

    if (given != NULL) {
        snprintf(path, size, "%s", given);
        found = is_program(path);
    } else if (kind == DAEMON_BIDED) {
        found = find_own(path, size);
    } else {
        found = find_installed(kinds[kind].name, path, size);
    }
    if (!found)
        fail("there is no %s to measure: %s", kinds[kind].name, kinds[kind].missing);
}

void daemon_check(const struct settings *settings)
{
    char path[600];

    for (enum daemon_kind kind = 0; kind < DAEMONS; kind++)
        find_program(settings, kind, path, sizeof(path));
}

/* ---- starting ---- */

uint16_t daemon_free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (fd < 0 || bind(fd, (const struct sockaddr *)&address, size) != 0 ||
        getsockname(fd, (struct sockaddr *)&address, &size) != 0)
        fail("no port is free: %s", strerror(errno));
    close(fd);
    return ntohs(address.sin_port);
}

static void choose_address(struct daemon *daemon, const struct settings *settings,
                           const struct daemon_setup *setup)
{
    if (setup->on_unix)
        snprintf(daemon->address, sizeof(daemon->address), "unix:%s/%s.sock",
                 settings->folder->path, kinds[setup->kind].name);
    else
        snprintf(daemon->address, sizeof(daemon->address), "127.0.0.1:%u", daemon_free_port());
}

/* In the child: becomes the server. What it says is for the case that it fails. */
static _Noreturn void exec_daemon(const struct command *command, pid_t parent, int core, int log)
{
    if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
        _exit(EXIT_FAILURE);
    if (core != DAEMON_ANY_CORE)
        pin_self(core);
    if (dup2(log, STDOUT_FILENO) >= 0 && dup2(log, STDERR_FILENO) >= 0)
        execv(command->program, (char *const *)(uintptr_t)command->words);
    dprintf(log, "%s: %s\n", command->program, strerror(errno));
    _exit(EXIT_FAILURE);
}

static int open_log(const struct settings *settings)
{
    char path[600];

    snprintf(path, sizeof(path), "%s/server.log", settings->folder->path);
    int log = open(path, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (log < 0)
        fail("%s: %s", path, strerror(errno));
    return log;
}

static _Noreturn void fail_start(const struct daemon *daemon, const char *how, int log)
{
    char said[300] = "";

    if (pread(log, said, sizeof(said) - 1, 0) < 0)
        said[0] = '\0';
    fail("%s %s: %s", kinds[daemon->kind].name, how, said);
}

static void await_start(struct daemon *daemon, int log)
{
    int64_t give_up_ns = measure_now_ns() + PATIENCE_NS;
    int fd;

    while ((fd = wire_try_connect(daemon->address)) < 0) {
        if (waitpid(daemon->pid, NULL, WNOHANG) == daemon->pid)
            fail_start(daemon, "ended at once", log);
        if (measure_now_ns() > give_up_ns)
            fail_start(daemon, "does not listen", log);
        measure_sleep_us(2000);
    }
    close(fd);
}

void daemon_start(struct daemon *daemon, const struct settings *settings,
                  const struct daemon_setup *setup)
{
    struct command command = {.count = 1};
    int log = open_log(settings);
    pid_t parent = getpid();

    daemon->kind = setup->kind;
    find_program(settings, setup->kind, command.program, sizeof(command.program));
    command.words[0] = command.program;
    choose_address(daemon, settings, setup);
    kinds[setup->kind].add(&command, settings, setup, daemon->address);
    daemon->pid = fork();
    if (daemon->pid < 0)
        fail("no process: %s", strerror(errno));
    if (daemon->pid == 0)
        exec_daemon(&command, parent, setup->core, log);
    await_start(daemon, log);
    close(log);
}

/* ---- stopping ---- */

void daemon_stop(struct daemon *daemon)
{
    int64_t give_up_ns = measure_now_ns() + PATIENCE_NS;

    if (daemon->pid == 0)
        return;
    if (kill(daemon->pid, SIGTERM) != 0)
        fail("%s could not be stopped: %s", kinds[daemon->kind].name, strerror(errno));
    while (waitpid(daemon->pid, NULL, WNOHANG) == 0) {
        if (measure_now_ns() > give_up_ns)
            fail("%s does not stop", kinds[daemon->kind].name);
        measure_sleep_us(1000);
    }
    daemon->pid = 0;
}

void daemon_kill(struct daemon *daemon)
{
    if (daemon->pid == 0)
        return;
    if (kill(daemon->pid, SIGKILL) != 0 || waitpid(daemon->pid, NULL, 0) != daemon->pid)
        fail("%s could not be killed: %s", kinds[daemon->kind].name, strerror(errno));
    daemon->pid = 0;
}

/* ---- looking ---- */

int64_t daemon_cpu_ns(const struct daemon *daemon)
{
    clockid_t clock;
    struct timespec used;

    if (clock_getcpuclockid(daemon->pid, &clock) != 0 || clock_gettime(clock, &used) != 0)
        fail("the processor time of %s is unknown", kinds[daemon->kind].name);
    return (int64_t)used.tv_sec * 1000000000 + used.tv_nsec;
}

uint64_t daemon_rss_bytes(const struct daemon *daemon)
{
    uint64_t bytes = measure_process_bytes(daemon->pid, "VmRSS");

    if (bytes == 0)
        fail("the memory of %s is unknown", kinds[daemon->kind].name);
    return bytes;
}
