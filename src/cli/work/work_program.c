/* SPDX-License-Identifier: MIT */
/*
 * work_program - runs a job by a program: the body on its standard input, the rest in its
 * environment; what it says at the end on standard error is why it failed.
 *
 * Whatever the program does, the thread comes back: the time limit, a cancel and a stop end the
 * whole group of processes, by SIGTERM first and by SIGKILL after the grace; and processes that it
 * leaves behind hold its pipes for LINGER_US at most.
 */
#include "cli/work/work.h"
#include "cli/work/work_metadata.h"
#include "cli/work/work_process.h"
#include "cli/work/work_writer.h"
#include "util/clock.h"
#include "util/duration.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define NEVER     INT64_MAX
#define LINGER_US 1000000
/* The longest sleep: poll() counts time that the machine is awake, limits count all of it. */
#define STEP_US        5000000
#define REASON_POLL_US 500000
/* A program that cannot be started now is tried again after that. */
#define RETRY_MS 100

extern char **environ;

/* What is the same for all runs. */
struct program {
    const char **base; /* our environment without what is said about the job */
    size_t base_count;
    char url[BI_URL_MAX + 16];
    sigset_t mask;
};

struct run {
    struct work *work;
    bide_context *context;
    struct run_outcome *outcome;
    struct output *output;
    struct process process;
    struct tail tail;
    int context_fd;   /* -1: we know */
    int64_t limit_at; /* when its time is over */
    int64_t kill_at;  /* after SIGTERM */
    bool terminating; /* it is to end; fate says why */
    int64_t now;
};

/* ---- opening ---- */

/* Pipes must not get the numbers 0 to 2. */
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
    struct program *program = calloc(1, sizeof(*program));
    size_t count = 0;
    while (environ[count] != NULL)
        count++;
    work->state = program;
    if (program != NULL)
        program->base = calloc(count + 1, sizeof(*program->base));
    if (program == NULL || program->base == NULL)
        return bi_cli_error(work->cli, BI_EXIT_FAILED, "out of memory");
    snprintf(program->url, sizeof(program->url), "BIDE_URL=%s", work->cli->child_url);
    program->base[program->base_count++] = program->url;
    for (size_t i = 0; i < count; i++)
        if (!bi_work_metadata_is_reserved(environ[i]))
            program->base[program->base_count++] = environ[i];
    pthread_sigmask(SIG_SETMASK, NULL, &program->mask);
    reserve_standard_fds();
    return BI_EXIT_OK;
}

static void close_program(struct work *work)
{
    struct program *program = work->state;
    if (program != NULL)
        free(program->base);
    free(program);
    work->state = NULL;
}

/* ---- starting ---- */

/* Whoever read what programs write has gone, as head does. That is no fault of the job, and no
 * program can do anything about it. True: then it is over. */
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
    const struct program *program = work->state;
    char lines[BI_WORK_METADATA_COUNT][BI_WORK_METADATA_SIZE];
    size_t count = bi_work_metadata_environment(run->context, lines);
    const char **environment = malloc((program->base_count + count + 1) * sizeof(*environment));
    if (environment == NULL)
        return ENOMEM;
    memcpy(environment, program->base, program->base_count * sizeof(*environment));
    for (size_t i = 0; i < count; i++)
        environment[program->base_count + i] = lines[i];
    environment[program->base_count + count] = NULL;
    struct process_plan plan = {
        .path = work->plan->path,
        .arguments = work->plan->program,
        .environment = environment,
        .input = *body,
        .keeps_output = work->plan->keep_size > 0,
        .output_to_error = work->cli->json,
        .mask = program->mask,
    };
    int error = bi_work_process_start(&run->process, &plan);
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
             : error == ENOENT ? " (it, or the interpreter that it names)"
                               : "");
}

static void terminate_by_reason(struct run *run);

/* Sleeps; false when there is a reason not to try again. */
static bool wait_before_retry(struct run *run)
{
    struct pollfd fds[] = {{.fd = run->context_fd, .events = POLLIN},
                           {.fd = run->work->stop_fd, .events = POLLIN},
                           {.fd = run->work->kill_fd, .events = POLLIN}};
    poll(fds, 3, RETRY_MS);
    if (fds[1].revents != 0 || fds[2].revents != 0)
        run->outcome->kind = RUN_STOPPED;
    else if (fds[0].revents != 0)
        terminate_by_reason(run);
    else
        return bi_clock_boot() < run->limit_at;
    return false;
}

static bool start(struct run *run, const bide_slice *body)
{
    for (;;) {
        int error = start_once(run, body);
        if (error == 0)
            return true;
        set_start_error(run, error);
        if (!is_transient(error) || !wait_before_retry(run))
            return false;
    }
}

/* ---- ending ---- */

static void terminate(struct run *run, enum run_outcome_kind kind)
{
    if (run->terminating)
        return;
    run->terminating = true;
    run->context_fd = -1;
    run->outcome->kind = kind;
    run->kill_at = run->now + run->work->plan->grace_ms * 1000;
    if (run->process.pid > 0)
        bi_work_process_signal(&run->process, SIGTERM);
}

static void terminate_by_reason(struct run *run)
{
    bool stops = bide_context_reason(run->context) == BIDE_REASON_STOPPING;
    if (run->terminating)
        return; /* it is being ended already, for another reason */
    if (!stops)
        bi_work_handler_set_revoked(run->work, run->context, run->outcome);
    terminate(run, stops ? RUN_STOPPED : RUN_REVOKED);
}

static void kill_now(struct run *run)
{
    terminate(run, RUN_STOPPED);
    run->kill_at = NEVER;
    bi_work_process_signal(&run->process, SIGKILL);
}

/* Nothing tells us why to stop, for want of a descriptor. */
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
        run->outcome->after_ms = bi_work_handler_time_limit(
            run->work, bide_context_job(run->context), &run->outcome->limit);
        terminate(run, RUN_TIMEOUT);
    }
    if (run->now >= run->kill_at) {
        run->kill_at = NEVER;
        bi_work_process_signal(&run->process, SIGKILL);
    }
}

/* ---- while it runs ---- */

static void forward_stderr(const struct run *run, const char *data, size_t size)
{
    int64_t until = run->terminating ? bi_clock_boot() + BI_WORK_WRITER_PATIENCE_US : run->limit_at;
    bi_work_writer_write(run->work, STDERR_FILENO, data, size, run->context_fd, until);
}

/* There is something to read, or the end of it. */
static void read_pipe(struct run *run, int *fd)
{
    char data[16384];
    ssize_t size = read(*fd, data, sizeof(data));
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (size <= 0) {
        close(*fd);
        *fd = -1;
    } else if (fd == &run->process.out) {
        bi_work_output_add(run->output, data, (size_t)size);
    } else {
        forward_stderr(run, data, (size_t)size);
        bi_work_output_add_tail(&run->tail, data, (size_t)size);
    }
}

enum { OUT, ERR, IN, CONTEXT, STOP, KILL, ENDED, FDS };

static int sleep_ms(const struct run *run)
{
    int64_t next = run->terminating || run->kill_at < run->limit_at ? run->kill_at : run->limit_at;
    int64_t step = must_poll_reason(run) ? REASON_POLL_US : STEP_US;
    int64_t left = next == NEVER || next - run->now > step ? step : next - run->now;
    return next == NEVER && !must_poll_reason(run) ? -1
           : left <= 0                             ? 0
                                                   : (int)((left + 999) / 1000);
}

/* Waits for something, and does what is to be done. False: the program has ended. */
static bool poll_once(struct run *run)
{
    struct process *process = &run->process;
    struct pollfd fds[FDS] = {
        [OUT] = {.fd = process->out, .events = POLLIN},
        [ERR] = {.fd = process->err, .events = POLLIN},
        [IN] = {.fd = process->in, .events = POLLOUT},
        [CONTEXT] = {.fd = run->context_fd, .events = POLLIN},
        [STOP] = {.fd = run->terminating ? -1 : run->work->stop_fd, .events = POLLIN},
        [KILL] = {.fd = run->terminating && run->kill_at == NEVER ? -1 : run->work->kill_fd,
                  .events = POLLIN},
        [ENDED] = {.fd = process->fd, .events = POLLIN},
    };
    if (poll(fds, FDS, sleep_ms(run)) < 0)
        return true; /* EINTR; nothing in fds is to be looked at */
    if (fds[OUT].revents != 0)
        read_pipe(run, &process->out);
    if (fds[ERR].revents != 0)
        read_pipe(run, &process->err);
    if (fds[IN].revents != 0)
        bi_work_process_write_input(process);
    if (fds[ENDED].revents != 0)
        return false;
    if (fds[CONTEXT].revents != 0)
        terminate_by_reason(run);
    if (fds[STOP].revents != 0)
        terminate(run, RUN_STOPPED);
    if (fds[KILL].revents != 0)
        kill_now(run);
    check_deadlines(run);
    return true;
}

/* What it has still said. It has ended, but processes that it started may have its pipes. */
static void drain_pipes(struct run *run)
{
    struct process *process = &run->process;
    int64_t until = bi_clock_boot() + LINGER_US;
    int64_t left = LINGER_US;
    while ((process->out >= 0 || process->err >= 0) && left > 0) {
        struct pollfd fds[] = {{.fd = process->out, .events = POLLIN},
                               {.fd = process->err, .events = POLLIN},
                               {.fd = run->work->kill_fd, .events = POLLIN}};
        int ready = poll(fds, 3, (int)(left / 1000) + 1);
        if (ready > 0 && fds[0].revents != 0)
            read_pipe(run, &process->out);
        if (ready > 0 && fds[1].revents != 0)
            read_pipe(run, &process->err);
        if (ready > 0 && fds[2].revents != 0)
            return;
        left = until - bi_clock_boot();
    }
}

static void set_outcome(const struct run *run, int status)
{
    struct run_outcome *outcome = run->outcome;
    if (run->terminating)
        return;
    outcome->kind = WIFSIGNALED(status) ? RUN_SIGNAL : RUN_STATUS;
    outcome->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (bi_work_exit_rule_match(&run->work->plan->rules, outcome) != ACTION_DONE)
        check_stdout(run);
}

/* As long as the first process of the group is not reaped its number is nobody else's. */
static void finish(struct run *run)
{
    if (run->terminating)
        bi_work_process_signal(&run->process, SIGKILL);
    set_outcome(run, bi_work_process_reap(&run->process));
    drain_pipes(run);
    bi_work_process_close(&run->process);
}

static void run_program(struct work *work, bide_context *context, const bide_slice *body,
                        struct run_outcome *outcome, struct output *output, char *tail)
{
    const char *whose;
    int64_t limit_ms = bi_work_handler_time_limit(work, bide_context_job(context), &whose);
    struct run run = {
        .work = work,
        .context = context,
        .outcome = outcome,
        .output = output,
        .context_fd = bide_context_fd(context),
        .now = bi_clock_boot(),
        .kill_at = NEVER,
    };
    run.limit_at = limit_ms < 0 ? NEVER : run.now + limit_ms * 1000;
    if (check_stdout(&run) || !start(&run, body))
        return;
    while (poll_once(&run))
        ;
    finish(&run);
    bi_work_output_tail_text(&run.tail, tail);
}

const struct work_runner bi_work_program = {open_program, run_program, close_program};
