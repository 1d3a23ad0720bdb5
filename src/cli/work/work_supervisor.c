/* SPDX-License-Identifier: MIT */
/*
 * work_supervisor - the main thread of `bide work`: starts the worker, waits for the end, stops.
 *
 * Signals come by a signalfd, so that they are looked at in one place and in order. The first one
 * stops: no more jobs, and programs that run have the stop timeout to end by themselves. A second
 * SIGINT ends them at once.
 */
#include "cli/work/work_writer.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* A second SIGINT so soon after the first signal is the same wish. */
#define SECOND_SIGNAL_US 500000
/* Between two looks whether there is nothing to do. */
#define POLL_MIN_MS 1
#define POLL_MAX_MS 50
#define IDLE_US     1000000
#define STEP_US     5000000
#define NEVER       INT64_MAX

struct supervisor {
    struct work *work;
    int signal_fd;
    int signal;            /* the first that came; 0: none */
    int64_t signaled_at;   /* when */
    int64_t stop_at;       /* when programs are told to end */
    bool empty;            /* there was nothing more to do */
    int64_t idle_since;    /* nothing has been ready or begun; 0: it was not looked */
    uint64_t last_started; /* jobs, before it was looked whether there are more */
    int exit;
};

/* ---- signals ---- */

/* A signal that is blocked comes, even if it is ignored: nohup would be in vain. */
static void add_signal(sigset_t *signals, int number)
{
    struct sigaction before;
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaddset(signals, number);
}

static int block_signals(struct supervisor *supervisor)
{
    sigset_t signals;
    sigemptyset(&signals);
    add_signal(&signals, SIGINT);
    add_signal(&signals, SIGTERM);
    add_signal(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    supervisor->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (supervisor->signal_fd >= 0)
        return BI_EXIT_OK;
    return bi_cli_error(supervisor->work->cli, BI_EXIT_FAILED, "cannot watch for signals: %s",
                        strerror(errno));
}

static void notify_fd(int fd)
{
    ssize_t written = write(fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* it is readable already */
}

/* Behind the ^C that the terminal shows, and what a program has written before it. */
static void start_line(const struct work *work, int number)
{
    if (number == SIGINT && work->cli->err_terminal)
        bi_work_writer_note(work, "%s", "");
}

static void begin_stop(struct supervisor *supervisor, int number)
{
    const struct work *work = supervisor->work;
    int64_t timeout_ms = work->plan->stop_timeout_ms;
    uint64_t running = atomic_load(&work->running);
    supervisor->signal = number;
    supervisor->signaled_at = bi_clock_boot();
    supervisor->stop_at = timeout_ms < 0 ? NEVER : supervisor->signaled_at + timeout_ms * 1000;
    start_line(work, number);
    if (running > 0)
        bi_work_writer_note(work, "stopping; %llu still run%s%s", (unsigned long long)running,
                            running == 1 ? "s" : "",
                            number == SIGINT ? " (Ctrl-C again ends what runs)" : "");
}

static void read_signals(struct supervisor *supervisor)
{
    struct signalfd_siginfo info;
    while (read(supervisor->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (supervisor->signal == 0)
            begin_stop(supervisor, (int)info.ssi_signo);
        else if (info.ssi_signo == SIGINT &&
                 bi_clock_boot() - supervisor->signaled_at >= SECOND_SIGNAL_US)
            notify_fd(supervisor->work->kill_fd);
    }
}

/* ---- is there nothing to do? ---- */

/* Adds the jobs of a topic that could be taken now, and those that somebody has. */
static int count_jobs(const struct work *work, const char *topic, bide_counts *counts)
{
    bide_topic_stats stats;
    int code = bide_topic_get_stats(work->cli->queue, topic, &stats);
    if (code == BIDE_OK && !stats.paused)
        counts->ready += stats.jobs.ready;
    if (code == BIDE_OK)
        counts->reserved += stats.jobs.reserved;
    return code == BIDE_NOT_FOUND ? BIDE_OK : code;
}

/* Jobs that were begun, or given back without that. */
static uint64_t count_started(const struct work *work)
{
    return atomic_load(&work->started) + atomic_load(&work->event_counts[BIDE_WORK_INTERRUPTED]);
}

/* Nothing is ready, and nothing was begun for so long that what is reserved is not on its way to one
 * of our threads, but somebody else's. */
static bool is_idle(struct supervisor *supervisor, const bide_counts *counts)
{
    uint64_t last_started = count_started(supervisor->work);
    int64_t now = bi_clock_boot();
    if (counts->ready > 0 || last_started != supervisor->last_started ||
        supervisor->idle_since == 0)
        supervisor->idle_since = now;
    supervisor->last_started = last_started;
    return counts->ready == 0 && (counts->reserved == 0 || now - supervisor->idle_since >= IDLE_US);
}

static bool is_queue_empty(struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    bide_counts counts = {.ready = 0};
    if (atomic_load(&work->open) > 0)
        return false;
    for (size_t i = 0; i < work->topic_count && counts.ready == 0; i++) {
        int code = count_jobs(work, work->topics[i], &counts);
        if (code != BIDE_OK) {
            supervisor->exit = bi_cli_report_last(work->cli, code);
            return true;
        }
    }
    return is_idle(supervisor, &counts);
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

static int poll_timeout_ms(const struct supervisor *supervisor)
{
    int64_t left = supervisor->signal == 0 || supervisor->stop_at == NEVER
                       ? STEP_US
                       : supervisor->stop_at - bi_clock_boot();
    return left <= 0 ? 0 : left > STEP_US ? (int)(STEP_US / 1000) : (int)((left + 999) / 1000);
}

/* Until no program runs any more. */
static void wait_for_programs(struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    struct pollfd fds[] = {{.fd = supervisor->signal_fd, .events = POLLIN},
                           {.fd = work->idle_fd, .events = POLLIN}};
    uint64_t count;
    while (atomic_load(&work->running) > 0) {
        if (supervisor->signal != 0 && bi_clock_boot() >= supervisor->stop_at) {
            bi_work_writer_note(work,
                                "the time to stop is over: what runs is ended, and given back");
            notify_fd(work->stop_fd);
            supervisor->stop_at = NEVER;
        }
        if (poll(fds, 2, poll_timeout_ms(supervisor)) <= 0)
            continue;
        if (fds[0].revents != 0)
            read_signals(supervisor);
        if (fds[1].revents != 0 && read(work->idle_fd, &count, sizeof(count)) < 0)
            continue; /* somebody has just ended */
    }
}

/* ---- the whole ---- */

/* From a start to a stop. */
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
    atomic_store(&work->ending, true);
    bide_worker_quit(work->worker);
    wait_for_programs(supervisor);
    if (supervisor->signal != 0)
        notify_fd(work->stop_fd); /* nobody waits any longer for whoever reads what is said */
    code = bide_worker_stop(work->worker);
    return code == BIDE_OK ? supervisor->exit : bi_cli_report_last(work->cli, code);
}

/* Starts anew when a job came while the worker was already stopping because there was none. */
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

/* A worker that is to work for ever has been ended as it should be; another one was interrupted. */
static int exit_code(const struct supervisor *supervisor)
{
    const struct work *work = supervisor->work;
    bool is_bounded = work->plan->count > 0 || work->plan->until_empty;
    int exit = atomic_load(&work->exit);
    if (exit != BI_EXIT_OK || !is_bounded)
        return exit;
    if (supervisor->signal != 0)
        return 128 + supervisor->signal;

    /* A script must not take a job for done if the queue does not know of it. */
    static const bide_work_kind failures[] = {BIDE_WORK_RETRIED, BIDE_WORK_BURIED, BIDE_WORK_LOST,
                                              BIDE_WORK_GIVEN_UP};
    for (size_t i = 0; i < sizeof(failures) / sizeof(failures[0]); i++)
        if (atomic_load(&work->event_counts[failures[i]]) > 0)
            return BI_EXIT_PARTIAL;
    return BI_EXIT_OK;
}

/* Who sits there wants to know that something has begun; logs do not. */
static void announce(const struct work *work)
{
    const struct cli *cli = work->cli;
    if (cli->err_terminal || cli->verbose)
        bi_cli_note(cli, "working on %s, %u at a time; Ctrl-C stops", cli->shown,
                    work->plan->threads);
}

int bi_work_supervisor_run(struct work *work)
{
    struct supervisor supervisor = {.work = work, .signal_fd = -1, .stop_at = NEVER};
    int exit = block_signals(&supervisor);
    if (exit == BI_EXIT_OK) {
        announce(work);
        exit = run_until_done(&supervisor);
        close(supervisor.signal_fd);
        bi_work_report_summary(work);
    }
    return exit == BI_EXIT_OK ? exit_code(&supervisor) : exit;
}
