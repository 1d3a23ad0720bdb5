/* SPDX-License-Identifier: MIT */
/*
 * work_supervisor - the main thread of `bide work`: starts the worker, waits for the end, stops.
 *
 * Signals are read from a signalfd, in one place and in order. The first one stops: no more jobs
 * are started, and running programs have the stop timeout to end by themselves. A second SIGINT
 * kills them.
 */
#include "cli/work/work.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A second SIGINT this soon after the first signal belongs to it: the terminal and a wrapper may
 * both have sent one. */
#define SECOND_SIGNAL_US 500000
/* Between two checks whether the queue is empty. */
#define POLL_MIN_MS 1
#define POLL_MAX_MS 50
#define IDLE_US     1000000
#define STEP_US     INT64_C(5000000)

struct supervisor {
    struct work *work;
    int signal_fd;
    int signal; /* the first one; 0: none */
    int64_t signaled_at;
    int64_t stop_at;       /* when programs must end */
    bool empty;            /* the queue was empty */
    int64_t idle_since;    /* no job was ready or started since; 0: not checked */
    uint64_t last_started; /* jobs, at the last check */
    int exit;
};

void bi_work_supervisor_notify(int fd)
{
    ssize_t written = write(fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* a full counter is readable already */
}

int bi_work_supervisor_poll_ms(int64_t until_us)
{
    int64_t left = until_us == BI_WORK_NEVER ? STEP_US : until_us - bi_clock_boot();
    return left <= 0 ? 0 : left > STEP_US ? (int)(STEP_US / 1000) : (int)((left + 999) / 1000);
}

/* ---- signals ---- */

static int block_signals(struct supervisor *supervisor)
{
    static const int numbers[] = {SIGINT, SIGTERM, SIGHUP};
    struct sigaction before;
    sigset_t signals;

    /* A blocked signal arrives even if it is ignored: leave SIGHUP to nohup. */
    sigemptyset(&signals);
    for (size_t i = 0; i < sizeof(numbers) / sizeof(numbers[0]); i++)
        if (sigaction(numbers[i], NULL, &before) == 0 && before.sa_handler != SIG_IGN)
            sigaddset(&signals, numbers[i]);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);

    supervisor->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (supervisor->signal_fd >= 0)
        return BI_EXIT_OK;
    return bi_cli_error(supervisor->work->cli, BI_EXIT_FAILED, "cannot create signalfd: %s",
                        strerror(errno));
}

static void begin_stop(struct supervisor *supervisor, int number)
{
    const struct work *work = supervisor->work;
    int64_t timeout_ms = work->plan->stop_timeout_ms;
    uint64_t running = atomic_load(&work->running);

    assert(supervisor->signal == 0 && number > 0); /* a stop begins once */
    supervisor->signal = number;
    supervisor->signaled_at = bi_clock_boot();
    supervisor->stop_at =
        timeout_ms < 0 ? BI_WORK_NEVER : supervisor->signaled_at + timeout_ms * 1000;
    if (number == SIGINT && work->cli->err_terminal)
        bi_work_report_note(work, "%s", ""); /* ends the line with the ^C of the terminal */
    if (running > 0)
        bi_work_report_note(work, "stopping; %llu still running%s", (unsigned long long)running,
                            number == SIGINT ? " (Ctrl-C again kills them)" : "");
}

static void read_signals(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;

    while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (supervisor->signal == 0)
            begin_stop(supervisor, (int)info.ssi_signo);
        else if (info.ssi_signo == SIGINT &&
                 bi_clock_boot() - supervisor->signaled_at >= SECOND_SIGNAL_US)
            bi_work_supervisor_notify(supervisor->work->kill_fd);
    }
}

/* ---- is the queue empty? ---- */

/* Jobs that were started, or given back without a start. */
static uint64_t count_started(const struct work *work)
{
    return atomic_load(&work->started) + atomic_load(&work->event_counts[BIDE_WORK_INTERRUPTED]);
}

/* No job is ready, and none was started for so long that reserved jobs are not on their way to one
 * of our threads, but belong to other workers. */
static bool is_idle(struct supervisor *supervisor, uint64_t ready, uint64_t reserved)
{
    uint64_t started = count_started(supervisor->work);
    int64_t now = bi_clock_boot();

    if (ready > 0 || started != supervisor->last_started || supervisor->idle_since == 0)
        supervisor->idle_since = now;
    supervisor->last_started = started;
    return ready == 0 && (reserved == 0 || now - supervisor->idle_since >= IDLE_US);
}

/* Also true, with supervisor->exit, if the queue cannot be asked. */
static bool is_queue_empty(struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    uint64_t ready = 0, reserved = 0;

    /* A job that is not finished may become ready again. */
    if (atomic_load(&work->open) > 0)
        return false;
    for (size_t i = 0; i < work->topic_count && ready == 0; i++) {
        bide_topic_stats stats;
        int code = bide_topic_get_stats(work->cli->queue, work->topics[i], &stats);
        if (code == BIDE_NOT_FOUND)
            continue;
        if (code != BIDE_OK) {
            supervisor->exit = bi_cli_report_last(work->cli, code);
            return true;
        }
        ready += stats.paused ? 0 : stats.jobs.ready;
        reserved += stats.jobs.reserved;
    }
    return is_idle(supervisor, ready, reserved);
}

/* ---- waiting ---- */

static void wait_for_end(struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    struct pollfd fds[] = {{.fd = supervisor->signal_fd, .events = POLLIN},
                           {.fd = work->end_fd, .events = POLLIN}};
    int pause_ms = POLL_MIN_MS;

    while (supervisor->signal == 0) {
        int ready = poll(fds, 2, work->plan->until_empty ? pause_ms : -1);
        /* Short at first, for queues that are nearly empty; then no load on the server. */
        pause_ms = pause_ms < POLL_MAX_MS / 2 ? pause_ms * 2 : POLL_MAX_MS;
        if (ready > 0 && fds[1].revents != 0)
            return;
        if (ready > 0 && fds[0].revents != 0)
            read_signals(supervisor);
        supervisor->empty = ready == 0 && is_queue_empty(supervisor);
        if (supervisor->empty)
            return;
    }
}

static void wait_for_programs(struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    struct pollfd fds[] = {{.fd = supervisor->signal_fd, .events = POLLIN},
                           {.fd = work->idle_fd, .events = POLLIN}};
    uint64_t count;

    while (atomic_load(&work->running) > 0) {
        if (bi_clock_boot() >= supervisor->stop_at) {
            bi_work_report_note(work,
                                "stop timeout: running programs are stopped, their jobs given "
                                "back");
            bi_work_supervisor_notify(work->stop_fd);
            supervisor->stop_at = BI_WORK_NEVER;
        }
        if (poll(fds, 2, bi_work_supervisor_poll_ms(supervisor->stop_at)) <= 0)
            continue;
        if (fds[0].revents != 0)
            read_signals(supervisor);
        if (fds[1].revents != 0 && read(work->idle_fd, &count, sizeof(count)) < 0)
            continue; /* the loop reads `running` again in any case */
    }
}

/* ---- start to stop ---- */

static int run_once(struct supervisor *supervisor)
{
    struct work *work = supervisor->work;

    atomic_store(&work->ending, false);
    atomic_store(&work->open, 0);
    supervisor->empty = false;
    supervisor->idle_since = 0;
    int code = bide_worker_start(work->worker);
    if (code != BIDE_OK)
        return bi_cli_report_last(work->cli, code);
    wait_for_end(supervisor);

    /* Before `running` is read: see begin_run() of work_handler.c. */
    atomic_store(&work->ending, true);
    bide_worker_quit(work->worker);
    wait_for_programs(supervisor);
    assert(atomic_load(&work->running) == 0);
    if (supervisor->signal != 0)
        bi_work_supervisor_notify(work->stop_fd); /* from now on slow readers are not waited for */
    code = bide_worker_stop(work->worker);
    return code == BIDE_OK ? supervisor->exit : bi_cli_report_last(work->cli, code);
}

/* Starts again if a job arrived while the worker was stopping because the queue was empty. */
static int run_until_done(struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    int exit;

    do {
        exit = run_once(supervisor);
    } while (exit == BI_EXIT_OK && supervisor->empty && supervisor->signal == 0 &&
             atomic_load(&work->exit) == BI_EXIT_OK &&
             count_started(work) != supervisor->last_started);
    return exit;
}

/* A signal is the normal end of a worker without a bound, and an interruption of one with a
 * bound. */
static int exit_code(const struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    bool is_bounded = work->plan->count > 0 || work->plan->until_empty;
    int exit = atomic_load(&work->exit);

    if (exit != BI_EXIT_OK || !is_bounded)
        return exit;
    if (supervisor->signal != 0)
        return 128 + supervisor->signal;

    /* A job whose outcome is not recorded counts as failed: scripts must not take it for done. */
    static const bide_work_kind failures[] = {BIDE_WORK_RETRIED, BIDE_WORK_BURIED, BIDE_WORK_LOST,
                                              BIDE_WORK_GIVEN_UP};
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
        if (atomic_load(&work->event_counts[failures[i]]) > 0)
            return BI_EXIT_PARTIAL;
    return BI_EXIT_OK;
}

int bi_work_supervisor_run(struct work *work)
{
    const struct cli *cli = work->cli;
    struct supervisor supervisor = {.work = work, .signal_fd = -1, .stop_at = BI_WORK_NEVER};
    int exit = block_signals(&supervisor);

    if (exit != BI_EXIT_OK)
        return exit;
    if (cli->err_terminal || cli->verbose)
        bi_cli_note(cli, "working on %s, %u jobs at a time; Ctrl-C stops", cli->shown,
                    work->plan->threads);
    exit = run_until_done(&supervisor);
    close(supervisor.signal_fd);
    bi_work_report_summary(work);
    return exit == BI_EXIT_OK ? exit_code(&supervisor) : exit;
}
