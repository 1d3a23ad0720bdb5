/* SPDX-License-Identifier: MIT */
/*
 * work_program - runs a job by a program: the body on its standard input, the metadata in its
 * environment. The end of its standard error is the reason of a failure. What it writes to the
 * descriptor BIDE_NEXT_FD are jobs that are put with the end of its own.
 *
 * The thread always returns: the time limit, a cancel and a stop send SIGTERM to the whole process
 * group, and SIGKILL after the grace period; processes that the program leaves behind can hold its
 * pipes for LINGER_US at most.
 */
#include "cli/work/work.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define LINGER_US      1000000
#define REASON_POLL_US 500000
#define RETRY_MS       100 /* before a transient failure to start is retried */

extern char **environ;

/* What all runs share. */
static struct {
    const char **base; /* our environment without the variables of a job */
    size_t base_count;
    char url[BI_URL_MAX + 16];
    char next_fd[32];
    sigset_t mask;
} program;

struct run {
    struct work *work;
    bide_context *context;
    struct run_outcome *outcome;
    struct output *output;
    struct process process; /* pid 0: not started */
    struct tail tail;
    struct next_jobs next;
    int context_fd;   /* readable: the run must end; -1: not watched */
    int64_t limit_at; /* the time limit */
    bool terminating; /* the outcome says why */
    int64_t now;
};

/* ---- open and close ---- */

/* Opens what is closed of the descriptors 0 to 2: pipes must not get these numbers. */
static void reserve_standard_fds(void)
{
    int fd;
    do {
        fd = open("/dev/null", O_RDWR);
    } while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd > STDERR_FILENO)
        close(fd);
}

static int open_program(struct work *work)
{
    size_t count = 0;

    while (environ[count] != NULL)
        count++;
    program.base = calloc(count + 2, sizeof(*program.base));
    if (program.base == NULL)
        return bi_cli_error(work->cli, BI_EXIT_FAILED, "out of memory");

    snprintf(program.url, sizeof(program.url), "BIDE_URL=%s", work->cli->child_url);
    program.base[program.base_count++] = program.url;
    snprintf(program.next_fd, sizeof(program.next_fd), "BIDE_NEXT_FD=%d", work->plan->next_fd);
    if (work->plan->next_fd >= 0)
        program.base[program.base_count++] = program.next_fd;
    for (size_t i = 0; i < count; i++)
        if (!bi_work_metadata_is_reserved(environ[i]))
            program.base[program.base_count++] = environ[i];
    assert(program.base_count <= count + 2);
    /* Before the supervisor blocks signals: programs start with the mask that bide was given. */
    pthread_sigmask(SIG_SETMASK, NULL, &program.mask);
    reserve_standard_fds();
    return BI_EXIT_OK;
}

static void close_program(void)
{
    free(program.base);
    program.base = NULL;
}

/* ---- starting ---- */

/* A reader of standard output that has gone (as head does) is not the fault of a job: the worker
 * stops. Returns whether it does. */
static bool check_stdout(const struct run *run)
{
    struct work *work = run->work;
    struct pollfd out = {.fd = STDOUT_FILENO};
    bool forwards_stdout = work->plan->keep_size == 0 && !work->cli->json;

    if (!forwards_stdout || poll(&out, 1, 0) <= 0 || (out.revents & (POLLERR | POLLHUP)) == 0)
        return false;
    run->outcome->kind = RUN_STOPPED;
    bi_work_handler_request_stop(work, BI_EXIT_PIPE);
    return true;
}

static int start_once(struct run *run, const bide_slice *body)
{
    const struct work *work = run->work;
    char lines[BI_WORK_METADATA_COUNT][BI_WORK_METADATA_SIZE];
    size_t count = bi_work_metadata_format(run->context, false, lines);
    const char **environment = malloc((program.base_count + count + 1) * sizeof(*environment));

    if (environment == NULL)
        return ENOMEM;
    memcpy(environment, program.base, program.base_count * sizeof(*environment));
    for (size_t i = 0; i < count; i++)
        environment[program.base_count + i] = lines[i];
    environment[program.base_count + count] = NULL;

    int error = bi_work_process_start(&run->process, work, environment, &program.mask, *body);
    free(environment);
    return error;
}

static bool is_transient(int error)
{
    return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE ||
           error == ETXTBSY;
}

static void set_start_error(struct run *run, int error)
{
    struct run_outcome *outcome = run->outcome;

    outcome->kind = is_transient(error) ? RUN_ERROR : RUN_NOT_STARTED;
    snprintf(outcome->text, sizeof(outcome->text), "cannot run %.300s: %s%s", run->work->plan->path,
             strerror(error),
             error == ENOEXEC  ? " (a script must begin with #! and its interpreter)"
             : error == ENOENT ? " (the program, or the interpreter that it names)"
                               : "");
}

/* ---- terminating ---- */

/* Sends SIGTERM, once; the first reason counts. */
static void terminate(struct run *run, enum run_outcome_kind kind)
{
    if (run->terminating)
        return;
    run->terminating = true;
    run->context_fd = -1; /* it stays readable: poll() would spin */
    run->outcome->kind = kind;
    if (run->process.pid > 0)
        bi_work_process_terminate(&run->process, run->now + run->work->plan->grace_ms * 1000);
}

/* The context says that the run must end. */
static void terminate_by_reason(struct run *run)
{
    if (run->terminating)
        return;
    if (bide_context_reason(run->context) == BIDE_REASON_STOPPING) {
        terminate(run, RUN_STOPPED);
        return;
    }
    bi_work_handler_set_revoked(run->work, run->context, run->outcome);
    terminate(run, RUN_REVOKED);
}

/* Without a descriptor of the context its reason must be polled. */
static bool must_poll_reason(const struct run *run)
{
    return run->context_fd < 0 && !run->terminating;
}

static void check_deadlines(struct run *run)
{
    run->now = bi_clock_boot();
    if (must_poll_reason(run) && bide_context_reason(run->context) != BIDE_REASON_NONE)
        terminate_by_reason(run);
    if (run->now >= run->limit_at && !run->terminating) {
        bi_work_handler_set_timeout(run->work, run->context, run->outcome);
        terminate(run, RUN_TIMEOUT);
    }
    if (run->now >= run->process.kill_at)
        bi_work_process_kill(&run->process);
}

/* False: the outcome says why the program was not started. */
static bool start(struct run *run, const bide_slice *body)
{
    struct pollfd fds[] = {{.fd = run->context_fd, .events = POLLIN},
                           {.fd = run->work->stop_fd, .events = POLLIN},
                           {.fd = run->work->kill_fd, .events = POLLIN}};

    for (;;) {
        int error = start_once(run, body);
        if (error == 0)
            return true;
        set_start_error(run, error);
        if (!is_transient(error))
            return false;

        /* Too many processes or descriptors: wait until others have ended. */
        poll(fds, 3, RETRY_MS);
        if (fds[1].revents != 0 || fds[2].revents != 0) {
            run->outcome->kind = RUN_STOPPED;
            return false;
        }
        if (fds[0].revents != 0) {
            terminate_by_reason(run);
            return false;
        }
        if (bi_clock_boot() >= run->limit_at)
            return false;
    }
}

/* ---- running ---- */

/* Reads a pipe if it is readable, or its other end is closed. */
static void read_pipe(struct run *run, int *fd, const struct pollfd *polled)
{
    char data[16384];
    ssize_t size = polled->revents == 0 ? -1 : read(*fd, data, sizeof(data));

    if (polled->revents == 0 || (size < 0 && (errno == EINTR || errno == EAGAIN)))
        return;
    if (size <= 0) {
        close(*fd);
        *fd = -1;
    } else if (fd == &run->process.out) {
        bi_work_output_add(run->output, data, (size_t)size);
    } else if (fd == &run->process.next) {
        bi_work_next_add(&run->next, run->context, data, (size_t)size);
    } else {
        int64_t until = run->terminating ? bi_clock_boot() + BI_WORK_PATIENCE_US : run->limit_at;
        bi_work_report_write(run->work, STDERR_FILENO, data, (size_t)size, run->context_fd, until);
        bi_work_output_add_tail(&run->tail, data, (size_t)size);
    }
}

enum { OUT, ERR, NEXT, IN, CONTEXT, STOP, KILL, ENDED, FDS };

static int poll_timeout_ms(const struct run *run)
{
    int64_t next = run->terminating ? run->process.kill_at : run->limit_at;

    if (must_poll_reason(run) && next > run->now + REASON_POLL_US)
        next = run->now + REASON_POLL_US;
    return next == BI_WORK_NEVER ? -1 : bi_work_supervisor_poll_ms(next);
}

/* Waits for one event and handles it. False: the program has ended. */
static bool poll_once(struct run *run)
{
    struct process *process = &run->process;
    struct pollfd fds[FDS] = {
        [OUT] = {.fd = process->out, .events = POLLIN},
        [ERR] = {.fd = process->err, .events = POLLIN},
        [NEXT] = {.fd = process->next, .events = POLLIN},
        [IN] = {.fd = process->in, .events = POLLOUT},
        [CONTEXT] = {.fd = run->context_fd, .events = POLLIN},
        [STOP] = {.fd = run->terminating ? -1 : run->work->stop_fd, .events = POLLIN},
        [KILL] = {.fd = process->killed ? -1 : run->work->kill_fd, .events = POLLIN},
        [ENDED] = {.fd = process->fd, .events = POLLIN},
    };

    if (poll(fds, FDS, poll_timeout_ms(run)) < 0)
        return true; /* EINTR: revents are not set */
    read_pipe(run, &process->out, &fds[OUT]);
    read_pipe(run, &process->err, &fds[ERR]);
    read_pipe(run, &process->next, &fds[NEXT]);
    if (fds[IN].revents != 0)
        bi_work_process_write_input(process);
    /* After the pipes: the last output of a program that ends is read before it is reaped. */
    if (fds[ENDED].revents != 0)
        return false;
    if (fds[CONTEXT].revents != 0)
        terminate_by_reason(run);
    if (fds[STOP].revents != 0)
        terminate(run, RUN_STOPPED);
    if (fds[KILL].revents != 0) {
        terminate(run, RUN_STOPPED);
        bi_work_process_kill(process);
    }
    check_deadlines(run);
    return true;
}

/* Reads the rest of the output. The program has ended, but its children may hold the pipes. */
static void drain_pipes(struct run *run)
{
    struct process *process = &run->process;
    int64_t until = bi_clock_boot() + LINGER_US;

    while ((process->out >= 0 || process->err >= 0) && bi_clock_boot() < until) {
        struct pollfd fds[] = {{.fd = process->out, .events = POLLIN},
                               {.fd = process->err, .events = POLLIN},
                               {.fd = run->work->kill_fd, .events = POLLIN}};
        if (poll(fds, 3, bi_work_supervisor_poll_ms(until)) <= 0)
            continue;
        read_pipe(run, &process->out, &fds[0]);
        read_pipe(run, &process->err, &fds[1]);
        if (fds[2].revents != 0)
            return;
    }
}

/* Reads the jobs that the program has written by its end. Its children may hold the pipe, and are
 * not waited for: what they write later does not count. */
static void drain_next(struct run *run)
{
    char data[16384];
    int fd = run->process.next, left = 0;

    if (fd >= 0 && ioctl(fd, FIONREAD, &left) != 0)
        left = 0;
    while (left > 0) {
        ssize_t size = read(fd, data, left < (int)sizeof(data) ? (size_t)left : sizeof(data));
        if (size < 0 && errno == EINTR)
            continue;
        if (size <= 0)
            break;
        bi_work_next_add(&run->next, run->context, data, (size_t)size);
        left -= (int)size;
    }
    bi_work_next_end(&run->next, run->context);
}

static void finish(struct run *run)
{
    struct run_outcome *outcome = run->outcome;

    /* Before the reap: until then the number of the group cannot be used again. */
    if (run->terminating)
        bi_work_process_kill(&run->process);
    int status = bi_work_process_reap(&run->process);
    if (!run->terminating) {
        outcome->kind = WIFSIGNALED(status) ? RUN_SIGNAL : RUN_STATUS;
        outcome->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    }

    /* A rule may count the end of the time limit as done, too. No rule applies to a stop. */
    bool done = outcome->kind <= RUN_ERROR &&
                bi_work_exit_rule_match(&run->work->plan->rules, outcome) == ACTION_DONE;
    if (done)
        drain_next(run);
    else if (!run->terminating)
        check_stdout(run);
    if (done && run->next.error[0] != 0) {
        outcome->kind = RUN_ERROR;
        bi_errmsg_set(outcome->text, "%s", run->next.error);
    }

    drain_pipes(run);
    bi_work_process_close(&run->process);
}

static void run_program(struct work *work, bide_context *context, const bide_slice *body,
                        struct run_outcome *outcome, struct output *output, char *tail)
{
    struct run run = {
        .work = work,
        .context = context,
        .outcome = outcome,
        .output = output,
        .context_fd = bide_context_fd(context),
        .now = bi_clock_boot(),
        .limit_at = bi_work_handler_deadline(work, context),
    };

    if (check_stdout(&run) || !start(&run, body))
        return;
    assert(run.process.pid > 0 && run.process.fd >= 0);
    while (poll_once(&run))
        continue;
    finish(&run);
    bi_work_next_done(&run.next);
    bi_work_output_tail_text(&run.tail, tail);
}

const struct work_runner bi_work_program = {open_program, run_program, close_program};
