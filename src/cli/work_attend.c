/* SPDX-License-Identifier: MIT */
/*
 * work_attend - the main thread of `bide work`: starts the worker, waits for the end, stops.
 *
 * Signals come by a signalfd, so that they are looked at in one place and in order. The first one
 * stops: no more jobs, and programs that run have the stop timeout to end by themselves. A second
 * SIGINT ends them at once.
 */
#include "cli/work_write.h"
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
#define AGAIN_US 500000
/* Between two looks whether there is nothing to do. */
#define LOOK_MIN_MS 1
#define LOOK_MAX_MS 50
#define SETTLE_US   1000000
#define STEP_US     5000000
#define NEVER       INT64_MAX

struct attention {
    struct work *work;
    int signal_fd;
    int signal;         /* the first that came; 0: none */
    int64_t came_at;    /* when */
    int64_t stop_at;    /* when programs are told to end */
    bool empty;         /* there was nothing more to do */
    int64_t idle_since; /* nothing has been ready or begun; 0: it was not looked */
    uint64_t taken;     /* jobs, before it was looked whether there are more */
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

static int block_signals(struct attention *attention)
{
    sigset_t signals;
    sigemptyset(&signals);
    add_signal(&signals, SIGINT);
    add_signal(&signals, SIGTERM);
    add_signal(&signals, SIGHUP);
    pthread_sigmask(SIG_BLOCK, &signals, NULL);
    attention->signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
    if (attention->signal_fd >= 0)
        return BI_EXIT_OK;
    return bi_cli_failed(attention->work->cli, BI_EXIT_FAILED, "cannot watch for signals: %s",
                         strerror(errno));
}

static void raise_fd(int fd)
{
    ssize_t written = write(fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written; /* it is readable already */
}

/* Behind the ^C that the terminal shows, and what a program has written before it. */
static void begin_line(const struct work *work, int number)
{
    if (number == SIGINT && work->cli->err_terminal)
        bi_work_note(work, "%s", "");
}

static void begin_stop(struct attention *attention, int number)
{
    const struct work *work = attention->work;
    int64_t timeout_ms = work->plan->stop_timeout_ms;
    uint64_t running = atomic_load(&work->running);
    attention->signal = number;
    attention->came_at = bi_clock_boot();
    attention->stop_at = timeout_ms < 0 ? NEVER : attention->came_at + timeout_ms * 1000;
    begin_line(work, number);
    if (running > 0)
        bi_work_note(work, "stopping; %llu still run%s%s", (unsigned long long)running,
                     running == 1 ? "s" : "",
                     number == SIGINT ? " (Ctrl-C again ends what runs)" : "");
}

static void hear(struct attention *attention)
{
    struct signalfd_siginfo info;
    while (read(attention->signal_fd, &info, sizeof(info)) == (ssize_t)sizeof(info)) {
        if (attention->signal == 0)
            begin_stop(attention, (int)info.ssi_signo);
        else if (info.ssi_signo == SIGINT && bi_clock_boot() - attention->came_at >= AGAIN_US)
            raise_fd(attention->work->kill_fd);
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
static uint64_t count_taken(const struct work *work)
{
    return atomic_load(&work->begun) + atomic_load(&work->told[BIDE_WORK_INTERRUPTED]);
}

/* Nothing is ready, and nothing was begun for so long that what is reserved is not on its way to one
 * of our threads, but somebody else's. */
static bool is_settled(struct attention *attention, const bide_counts *counts)
{
    uint64_t taken = count_taken(attention->work);
    int64_t now = bi_clock_boot();
    if (counts->ready > 0 || taken != attention->taken || attention->idle_since == 0)
        attention->idle_since = now;
    attention->taken = taken;
    return counts->ready == 0 &&
           (counts->reserved == 0 || now - attention->idle_since >= SETTLE_US);
}

static bool is_empty(struct attention *attention)
{
    const struct work *work = attention->work;
    bide_counts counts = {.ready = 0};
    if (atomic_load(&work->open) > 0)
        return false;
    for (size_t i = 0; i < work->topic_count && counts.ready == 0; i++) {
        int code = count_jobs(work, work->topics[i], &counts);
        if (code != BIDE_OK) {
            attention->exit = bi_cli_answered(work->cli, code);
            return true;
        }
    }
    return is_settled(attention, &counts);
}

/* ---- waiting ---- */

static void await_end(struct attention *attention)
{
    const struct work *work = attention->work;
    struct pollfd fds[] = {{.fd = attention->signal_fd, .events = POLLIN},
                           {.fd = work->end_fd, .events = POLLIN}};
    int pause_ms = LOOK_MIN_MS;
    while (attention->signal == 0) {
        int ready = poll(fds, 2, work->plan->until_empty ? pause_ms : -1);
        pause_ms = pause_ms < LOOK_MAX_MS / 2 ? pause_ms * 2 : LOOK_MAX_MS;
        if (ready > 0 && fds[1].revents != 0)
            return;
        if (ready > 0 && fds[0].revents != 0)
            hear(attention);
        attention->empty = ready == 0 && is_empty(attention);
        if (attention->empty)
            return;
    }
}

static int sleep_ms(const struct attention *attention)
{
    int64_t left = attention->signal == 0 || attention->stop_at == NEVER
                       ? STEP_US
                       : attention->stop_at - bi_clock_boot();
    return left <= 0 ? 0 : left > STEP_US ? (int)(STEP_US / 1000) : (int)((left + 999) / 1000);
}

/* Until no program runs any more. */
static void await_programs(struct attention *attention)
{
    const struct work *work = attention->work;
    struct pollfd fds[] = {{.fd = attention->signal_fd, .events = POLLIN},
                           {.fd = work->idle_fd, .events = POLLIN}};
    uint64_t count;
    while (atomic_load(&work->running) > 0) {
        if (attention->signal != 0 && bi_clock_boot() >= attention->stop_at) {
            bi_work_note(work, "the time to stop is over: what runs is ended, and given back");
            raise_fd(work->stop_fd);
            attention->stop_at = NEVER;
        }
        if (poll(fds, 2, sleep_ms(attention)) <= 0)
            continue;
        if (fds[0].revents != 0)
            hear(attention);
        if (fds[1].revents != 0 && read(work->idle_fd, &count, sizeof(count)) < 0)
            continue; /* somebody has just ended */
    }
}

/* ---- the whole ---- */

/* From a start to a stop. */
static int work_once(struct attention *attention)
{
    struct work *work = attention->work;
    atomic_store(&work->ending, false);
    atomic_store(&work->open, 0);
    attention->empty = false;
    attention->idle_since = 0;
    int code = bide_worker_start(work->worker);
    if (code != BIDE_OK)
        return bi_cli_answered(work->cli, code);
    await_end(attention);
    atomic_store(&work->ending, true);
    bide_worker_quit(work->worker);
    await_programs(attention);
    if (attention->signal != 0)
        raise_fd(work->stop_fd); /* nobody waits any longer for whoever reads what is said */
    code = bide_worker_stop(work->worker);
    return code == BIDE_OK ? attention->exit : bi_cli_answered(work->cli, code);
}

/* Starts anew when a job came while the worker was already stopping because there was none. */
static int work_until(struct attention *attention)
{
    const struct work *work = attention->work;
    int exit;
    do {
        exit = work_once(attention);
    } while (exit == BI_EXIT_OK && attention->empty && attention->signal == 0 &&
             atomic_load(&work->exit) == BI_EXIT_OK && count_taken(work) != attention->taken);
    return exit;
}

/* A worker that is to work for ever has been ended as it should be; another one was interrupted. */
static int judge(const struct attention *attention)
{
    const struct work *work = attention->work;
    bool bounded = work->plan->count > 0 || work->plan->until_empty;
    int exit = atomic_load(&work->exit);
    if (exit != BI_EXIT_OK || !bounded)
        return exit;
    if (attention->signal != 0)
        return 128 + attention->signal;

    /* A script must not take a job for done if the queue does not know of it. */
    static const bide_work_kind bad[] = {BIDE_WORK_RETRIED, BIDE_WORK_BURIED, BIDE_WORK_LOST,
                                         BIDE_WORK_GIVEN_UP};
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
        if (atomic_load(&work->told[bad[i]]) > 0)
            return BI_EXIT_PARTLY;
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

int bi_work_attend(struct work *work)
{
    struct attention attention = {.work = work, .signal_fd = -1, .stop_at = NEVER};
    int exit = block_signals(&attention);
    if (exit == BI_EXIT_OK) {
        announce(work);
        exit = work_until(&attention);
        close(attention.signal_fd);
        bi_work_sum_up(work);
    }
    return exit == BI_EXIT_OK ? judge(&attention) : exit;
}
