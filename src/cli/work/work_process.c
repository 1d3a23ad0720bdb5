/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pipe2 */
#include "cli/work/work_process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <sysexits.h>
#include <time.h>
#include <unistd.h>

/* The ends of its pipes that become its own. */
struct child_fds {
    int in, out, err;
};

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
    close_fd(&process->fd);
}

static void close_child_fds(struct child_fds *child_fds)
{
    close_fd(&child_fds->in);
    close_fd(&child_fds->out);
    close_fd(&child_fds->err);
}

static bool make_pipe(int *reads, int *writes)
{
    int fds[2];
    if (pipe2(fds, O_CLOEXEC) != 0)
        return false;
    *reads = fds[0];
    *writes = fds[1];
    return true;
}

/* Its input must never block us: who knows when it reads. */
static bool make_pipes(struct process *process, const struct process_plan *plan,
                       struct child_fds *child_fds)
{
    return make_pipe(&child_fds->in, &process->in) &&
           fcntl(process->in, F_SETFL, O_NONBLOCK) == 0 &&
           make_pipe(&process->err, &child_fds->err) &&
           (!plan->keeps_output || make_pipe(&process->out, &child_fds->out));
}

/* ---- starting ---- */

static int add_actions(posix_spawn_file_actions_t *actions, const struct process_plan *plan,
                       const struct child_fds *child_fds)
{
    int error = posix_spawn_file_actions_adddup2(actions, child_fds->in, STDIN_FILENO);
    if (error == 0 && plan->keeps_output)
        error = posix_spawn_file_actions_adddup2(actions, child_fds->out, STDOUT_FILENO);
    else if (error == 0 && plan->output_to_error)
        error = posix_spawn_file_actions_adddup2(actions, STDERR_FILENO, STDOUT_FILENO);
    return error != 0 ? error
                      : posix_spawn_file_actions_adddup2(actions, child_fds->err, STDERR_FILENO);
}

static void set_attributes(posix_spawnattr_t *attributes, const struct process_plan *plan)
{
    sigset_t defaults;
    sigemptyset(&defaults);
    sigaddset(&defaults, SIGPIPE); /* which we ignore */
    posix_spawnattr_setsigdefault(attributes, &defaults);
    posix_spawnattr_setsigmask(attributes, &plan->mask);
    posix_spawnattr_setpgroup(attributes, 0);
    posix_spawnattr_setflags(attributes, POSIX_SPAWN_SETPGROUP | POSIX_SPAWN_SETSIGDEF |
                                             POSIX_SPAWN_SETSIGMASK);
}

static int spawn(struct process *process, const struct process_plan *plan,
                 const struct child_fds *child_fds)
{
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    int error = posix_spawn_file_actions_init(&actions);
    if (error != 0)
        return error;
    error = posix_spawnattr_init(&attributes);
    if (error == 0) {
        set_attributes(&attributes, plan);
        error = add_actions(&actions, plan, child_fds);
        if (error == 0)
            error = posix_spawn(&process->pid, plan->path, &actions, &attributes,
                                (char *const *)(uintptr_t)plan->arguments,
                                (char *const *)(uintptr_t)plan->environment);
        posix_spawnattr_destroy(&attributes);
    }
    posix_spawn_file_actions_destroy(&actions);
    return error;
}

/* Nobody but us reaps it, so the number is still that of the process. The descriptors of its ends of
 * the pipes are free again: if others have taken them meanwhile it is tried for a while, because a
 * program that has begun should not be begun twice. */
static int open_pidfd(struct process *process)
{
    struct timespec delay = {.tv_nsec = 10000000};
    int error = EAGAIN;
    for (int tries = 0; tries < 500 && process->fd < 0; tries++) {
        process->fd = (int)syscall(SYS_pidfd_open, process->pid, 0);
        error = errno;
        if (process->fd < 0)
            nanosleep(&delay, NULL);
    }
    if (process->fd >= 0)
        return 0;
    bi_work_process_signal(process, SIGKILL);
    bi_work_process_reap(process);
    bi_work_process_close(process);
    return error;
}

int bi_work_process_start(struct process *process, const struct process_plan *plan)
{
    struct child_fds child_fds = {-1, -1, -1};
    *process = (struct process){.fd = -1, .in = -1, .out = -1, .err = -1, .unwritten = plan->input};
    int error = make_pipes(process, plan, &child_fds) ? 0 : errno;
    if (error == 0)
        bi_work_process_write_input(process); /* most bodies fit into the pipe */
    if (error == 0)
        error = spawn(process, plan, &child_fds);
    close_child_fds(&child_fds);
    if (error != 0)
        bi_work_process_close(process);
    return error != 0 ? error : open_pidfd(process);
}

/* ---- while it runs ---- */

void bi_work_process_write_input(struct process *process)
{
    bide_slice *unwritten = &process->unwritten;
    while (unwritten->size > 0) {
        ssize_t written = write(process->in, unwritten->data, unwritten->size);
        if (written < 0 && errno == EINTR)
            continue;
        if (written < 0 && errno == EAGAIN)
            return;
        if (written < 0)
            break; /* it does not want to know more */
        unwritten->data = (const char *)unwritten->data + written;
        unwritten->size -= (size_t)written;
    }
    close_fd(&process->in);
}

void bi_work_process_signal(const struct process *process, int number)
{
    kill(-process->pid, number);
}

int bi_work_process_reap(const struct process *process)
{
    int status = 0, reaped;
    do {
        reaped = waitpid(process->pid, &status, 0);
    } while (reaped < 0 && errno == EINTR);
    return reaped < 0 ? W_EXITCODE(EX_OSERR, 0) : status; /* what is not known is no success */
}
