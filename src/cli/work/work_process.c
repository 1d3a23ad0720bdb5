/* SPDX-License-Identifier: MIT */
/*
 * work_process - a program as a process: its pipes, its start in a group of its own, SIGTERM and
 * SIGKILL to the group, its exit status.
 */
#define _GNU_SOURCE /* pipe2 */
#include "cli/work/work.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

static void close_fd(int *fd)
{
    if (*fd >= 0)
        close(*fd);
    *fd = -1;
}

void bi_work_process_close(struct process *process)
{
    close_fd(&process->in);
    close_fd(&process->out);
    close_fd(&process->err);
    close_fd(&process->next);
    close_fd(&process->fd);
}

/* ---- starting ---- */

/* The ends of the pipes that become descriptors of the child; -1: none. */
enum { IN, OUT, ERR, NEXT, ENDS };

static bool make_pipe(int *reads, int *writes)
{
    int fds[2];

    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    *reads = fds[0];
    *writes = fds[1];
    return true;
}

/* Writing the input must not block: the program may read it late or never. */
static bool make_pipes(struct process *process, const struct work *work, int ends[ENDS])
{
    return make_pipe(&ends[IN], &process->in) && fcntl(process->in, F_SETFL, O_NONBLOCK) == 0 &&
           make_pipe(&process->err, &ends[ERR]) &&
           (work->plan->next_fd < 0 || make_pipe(&process->next, &ends[NEXT])) &&
           (work->plan->keep_size == 0 || make_pipe(&process->out, &ends[OUT]));
}

static int add_actions(posix_spawn_file_actions_t *actions, const struct work *work,
                       const int ends[ENDS])
{
    int error = posix_spawn_file_actions_adddup2(actions, ends[IN], STDIN_FILENO);
    int out = work->plan->keep_size > 0 ? ends[OUT] : work->cli->json ? STDERR_FILENO : -1;

    /* Standard output before standard error is replaced. */
    if (error == 0 && out >= 0)
        error = posix_spawn_file_actions_adddup2(actions, out, STDOUT_FILENO);
    if (error == 0)
        error = posix_spawn_file_actions_adddup2(actions, ends[ERR], STDERR_FILENO);
    /* Last: in the child its number may be that of one of the other ends. */
    if (error == 0 && ends[NEXT] >= 0)
        error = posix_spawn_file_actions_adddup2(actions, ends[NEXT], work->plan->next_fd);
    return error;
}

static void set_attributes(posix_spawnattr_t *attributes, const sigset_t *mask)
{
    sigset_t defaults;

    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* bide ignores it */
    posix_spawnattr_setsigdefault(attributes, &defaults);
    posix_spawnattr_setsigmask(attributes, mask);
    /* A group of its own: Ctrl-C reaches only bide, and a stop reaches the children, too. */
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETSIGMASK);
}

static int spawn(struct process *process, const struct work *work, const char *const *environment,
                 const sigset_t *mask, const int ends[ENDS])
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);

    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        set_attributes(&attributes, mask);
        error = add_actions(&actions, work, ends);
        if (error == 0)
            error = posix_spawn(&process->pid, work->plan->path, &actions, &attributes,
                                (char *const *)(uintptr_t)work->plan->program,
                                (char *const *)(uintptr_t)environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* The process is not reaped yet, so its pid cannot belong to another one. Other threads may take
 * the last free descriptors meanwhile; this is retried for five seconds, because a program that was
 * started should not be started a second time. */
static int open_pidfd(struct process *process)
{
    struct timespec delay = {.tv_nsec = 10000000};
    int error = EAGAIN;

    for (int tries = 0; tries < 500; tries++) {
        process->fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
        if (process->fd >= 0)
            return 0;
        error = errno;
        nanosleep(&delay, NULL);
    }
    bi_work_process_kill(process);
    bi_work_process_reap(process);
    process->pid = 0; /* from now on another group may have this number */
    return error;
}

int bi_work_process_start(struct process *process, const struct work *work,
                          const char *const *environment, const sigset_t *mask, bide_slice input)
{
    int ends[ENDS] = {-1, -1, -1, -1};

    *process =
        (struct process){.fd = -1, .in = -1, .out = -1, .err = -1, .next = -1, .unwritten = input};
    process->kill_at = BI_WORK_NEVER;
    int error = make_pipes(process, work, ends) ? 0 : errno;
    if (error == 0) {
        bi_work_process_write_input(process); /* most bodies fit into the pipe */
        error = spawn(process, work, environment, mask, ends);
    }
    for (int i = 0; i < ENDS; i++)
        close_fd(&ends[i]);
    if (error == 0)
        error = open_pidfd(process);
    if (error != 0)
        bi_work_process_close(process);
    return error;
}

/* ---- while it runs ---- */

void bi_work_process_write_input(struct process *process)
{
    bide_slice *unwritten = &process->unwritten;

    assert(process->in >= 0);
    while (unwritten->size > 0) {
        ssize_t written = write(process->in, unwritten->data, unwritten->size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN)
            return;
        if (written < 0)
            break; /* EPIPE: the program closed its input */
        unwritten->data = (const char *)unwritten->data + written;
        unwritten->size -= (size_t)written;
    }
    close_fd(&process->in);
}

void bi_work_process_terminate(struct process *process, int64_t kill_at)
{
    assert(process->pid > 0); /* 0 would be our own group */
    process->kill_at = kill_at;
    kill(-process->pid, SIGTERM);
}

void bi_work_process_kill(struct process *process)
{
    assert(process->pid > 0);
    process->kill_at = BI_WORK_NEVER;
    process->killed = true;
    kill(-process->pid, SIGKILL);
}

int bi_work_process_reap(const struct process *process)
{
    int status = 0, reaped;

    assert(process->pid > 0); /* others are children of other jobs */
    do {
        reaped = waitpid(process->pid, &status, 0);
    } while (reaped < 0 && errno == EINTR);
    return reaped < 0 ? W_EXITCODE(EX_OSERR, 0) : status; /* unknown is not success */
}
