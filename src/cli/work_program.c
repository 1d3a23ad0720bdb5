/* SPDX-License-Identifier: MIT */
/*
 * work_program - runs a job by a program: the body on its standard input, the rest in its
 * environment; what it says at the end on standard error is why it failed.
 *
 * Whatever the program does, the thread comes back: the time limit, a cancel and a stop end the
 * whole group of processes, by SIGTERM first and by SIGKILL after the grace; and processes that it
 * leaves behind hold its pipes for LINGER_US at most.
 */
#include "cli/when.h"
#include "cli/work.h"
#include "cli/work_meta.h"
#include "cli/work_process.h"
#include "cli/work_write.h"
#include "util/clock.h"

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
#define STEP_US 5000000
#define DEAF_US 500000
/* A program that cannot be started now is tried again after that. */
#define AGAIN_MS 100

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
    struct fate *fate;
    struct output *output;
    struct process process;
    struct tail tail;
    int told_fd;      /* -1: we know */
    int64_t limit_at; /* when its time is over */
    int64_t kill_at;  /* after SIGTERM */
    bool asked;       /* it is to end; fate says why */
    int64_t now;
};

/* ---- opening ---- */

/* Pipes must not get the numbers 0 to 2. */
static void fill_standard(void)
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
        return bi_cli_failed(work->cli, BI_EXIT_FAILED, "out of memory");
    snprintf(program->url, sizeof(program->url), "BIDE_URL=%s", work->cli->reached);
    program->base[program->base_count++] = program->url;
    for (size_t i = 0; i < count; i++)
        if (!bi_meta_is_ours(environ[i]))
            program->base[program->base_count++] = environ[i];
    pthread_sigmask(SIG_SETMASK, NULL, &program->mask);
    fill_standard();
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
static bool mind_output(const struct run *run)
{
    struct work *work = run->work;
    struct pollfd out = {.fd = STDOUT_FILENO};
    bool passes = work->plan->keep_size == 0 && !work->cli->json;
    if (!passes || poll(&out, 1, 0) <= 0 || (out.revents & (POLLERR | POLLHUP)) == 0)
        return false;
    run->fate->kind = FATE_STOPPED;
    bi_work_end(work, BI_EXIT_PIPE);
    return true;
}

static int start_once(struct run *run, const bide_slice *body)
{
    const struct work *work = run->work;
    const struct program *program = work->state;
    char lines[BI_META_COUNT][BI_META_SIZE];
    size_t count = bi_meta_environment(run->context, lines);
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
    int error = bi_process_start(&run->process, &plan);
    free(environment);
    return error;
}

static bool is_passing(int error)
{
    return error == EAGAIN || error == ENOMEM || error == EMFILE || error == ENFILE ||
           error == ETXTBSY;
}

static void say_unstarted(struct run *run, int error)
{
    struct fate *fate = run->fate;
    fate->kind = is_passing(error) ? FATE_ERROR : FATE_UNSTARTED;
    snprintf(fate->text, sizeof(fate->text), "cannot run %.300s: %s%s", run->work->plan->path,
             strerror(error),
             error == ENOEXEC  ? " (a script must begin with #! and its interpreter)"
             : error == ENOENT ? " (it, or the interpreter that it names)"
                               : "");
}

static void end_by_reason(struct run *run);

/* Sleeps; false when there is a reason not to try again. */
static bool pause_start(struct run *run)
{
    struct pollfd fds[] = {{.fd = run->told_fd, .events = POLLIN},
                           {.fd = run->work->stop_fd, .events = POLLIN},
                           {.fd = run->work->kill_fd, .events = POLLIN}};
    poll(fds, 3, AGAIN_MS);
    if (fds[1].revents != 0 || fds[2].revents != 0)
        run->fate->kind = FATE_STOPPED;
    else if (fds[0].revents != 0)
        end_by_reason(run);
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
        say_unstarted(run, error);
        if (!is_passing(error) || !pause_start(run))
            return false;
    }
}

/* ---- ending ---- */

static void end(struct run *run, enum fate_kind kind)
{
    if (run->asked)
        return;
    run->asked = true;
    run->told_fd = -1;
    run->fate->kind = kind;
    run->kill_at = run->now + run->work->plan->grace_ms * 1000;
    if (run->process.pid > 0)
        bi_process_signal(&run->process, SIGTERM);
}

static void end_by_reason(struct run *run)
{
    bool stops = bide_context_reason(run->context) == BIDE_REASON_STOPPING;
    if (run->asked)
        return; /* it is being ended already, for another reason */
    if (!stops)
        bi_work_unwanted(run->work, run->context, run->fate);
    end(run, stops ? FATE_STOPPED : FATE_UNWANTED);
}

static void kill_now(struct run *run)
{
    end(run, FATE_STOPPED);
    run->kill_at = NEVER;
    bi_process_signal(&run->process, SIGKILL);
}

/* Nothing tells us why to stop, for want of a descriptor. */
static bool is_deaf(const struct run *run)
{
    return run->told_fd < 0 && !run->asked;
}

static void look_at_clock(struct run *run)
{
    run->now = bi_clock_boot();
    if (is_deaf(run) && bide_context_reason(run->context) != BIDE_REASON_NONE)
        end_by_reason(run);
    if (run->now >= run->limit_at && !run->asked) {
        run->fate->after_ms =
            bi_work_limit(run->work, bide_context_job(run->context), &run->fate->limit);
        end(run, FATE_TIMEOUT);
    }
    if (run->now >= run->kill_at) {
        run->kill_at = NEVER;
        bi_process_signal(&run->process, SIGKILL);
    }
}

/* ---- while it runs ---- */

static void pass_on(const struct run *run, const char *data, size_t size)
{
    int64_t until = run->asked ? bi_clock_boot() + BI_WRITE_PATIENCE_US : run->limit_at;
    bi_work_write(run->work, STDERR_FILENO, data, size, run->told_fd, until);
}

/* There is something to read, or the end of it. */
static void take(struct run *run, int *fd)
{
    char data[16384];
    ssize_t size = read(*fd, data, sizeof(data));
    if (size < 0 && (errno == EINTR || errno == EAGAIN))
        return;
    if (size <= 0) {
        close(*fd);
        *fd = -1;
    } else if (fd == &run->process.out) {
        bi_output_add(run->output, data, (size_t)size);
    } else {
        pass_on(run, data, (size_t)size);
        bi_tail_add(&run->tail, data, (size_t)size);
    }
}

enum { OUT, ERR, IN, TOLD, STOP, KILL, ENDED, FDS };

static int sleep_ms(const struct run *run)
{
    int64_t next = run->asked || run->kill_at < run->limit_at ? run->kill_at : run->limit_at;
    int64_t step = is_deaf(run) ? DEAF_US : STEP_US;
    int64_t left = next == NEVER || next - run->now > step ? step : next - run->now;
    return next == NEVER && !is_deaf(run) ? -1 : left <= 0 ? 0 : (int)((left + 999) / 1000);
}

/* Waits for something, and does what is to be done. False: the program has ended. */
static bool turn(struct run *run)
{
    struct process *process = &run->process;
    struct pollfd fds[FDS] = {
        [OUT] = {.fd = process->out, .events = POLLIN},
        [ERR] = {.fd = process->err, .events = POLLIN},
        [IN] = {.fd = process->in, .events = POLLOUT},
        [TOLD] = {.fd = run->told_fd, .events = POLLIN},
        [STOP] = {.fd = run->asked ? -1 : run->work->stop_fd, .events = POLLIN},
        [KILL] = {.fd = run->asked && run->kill_at == NEVER ? -1 : run->work->kill_fd,
                  .events = POLLIN},
        [ENDED] = {.fd = process->fd, .events = POLLIN},
    };
    if (poll(fds, FDS, sleep_ms(run)) < 0)
        return true; /* EINTR; nothing in fds is to be looked at */
    if (fds[OUT].revents != 0)
        take(run, &process->out);
    if (fds[ERR].revents != 0)
        take(run, &process->err);
    if (fds[IN].revents != 0)
        bi_process_feed(process);
    if (fds[ENDED].revents != 0)
        return false;
    if (fds[TOLD].revents != 0)
        end_by_reason(run);
    if (fds[STOP].revents != 0)
        end(run, FATE_STOPPED);
    if (fds[KILL].revents != 0)
        kill_now(run);
    look_at_clock(run);
    return true;
}

/* What it has still said. It has ended, but processes that it started may have its pipes. */
static void linger(struct run *run)
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
            take(run, &process->out);
        if (ready > 0 && fds[1].revents != 0)
            take(run, &process->err);
        if (ready > 0 && fds[2].revents != 0)
            return;
        left = until - bi_clock_boot();
    }
}

static void judge(const struct run *run, int status)
{
    struct fate *fate = run->fate;
    if (run->asked)
        return;
    fate->kind = WIFSIGNALED(status) ? FATE_SIGNAL : FATE_STATUS;
    fate->status = WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status);
    if (bi_fate_action(&run->work->plan->rules, fate) != FATE_DONE)
        mind_output(run);
}

/* As long as the first process of the group is not reaped its number is nobody else's. */
static void finish(struct run *run)
{
    if (run->asked)
        bi_process_signal(&run->process, SIGKILL);
    judge(run, bi_process_reap(&run->process));
    linger(run);
    bi_process_close(&run->process);
}

static void run_program(struct work *work, bide_context *context, const bide_slice *body,
                        struct fate *fate, struct output *output, char *tail)
{
    const char *whose;
    int64_t limit_ms = bi_work_limit(work, bide_context_job(context), &whose);
    struct run run = {
        .work = work,
        .context = context,
        .fate = fate,
        .output = output,
        .told_fd = bide_context_fd(context),
        .now = bi_clock_boot(),
        .kill_at = NEVER,
    };
    run.limit_at = limit_ms < 0 ? NEVER : run.now + limit_ms * 1000;
    if (mind_output(&run) || !start(&run, body))
        return;
    while (turn(&run))
        ;
    finish(&run);
    bi_tail_text(&run.tail, tail);
}

const struct work_runner bi_work_program = {open_program, run_program, close_program};
