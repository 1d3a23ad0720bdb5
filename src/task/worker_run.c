/* SPDX-License-Identifier: MIT */
/*
 * worker_run - the blocking forms: bide_worker_run() and bide_run().
 *
 * Signals    SIGINT and SIGTERM are process-wide, and several workers may run at a time. The first
 *            run installs the handlers, the last restores the previous ones. One eventfd wakes all
 *            runs; it stays readable, so each of them sees it.
 * Threads    The signal handler may run on any thread, without the lock. It reads only atomics and
 *            `previous`, which is written before the handler is installed and not while it is.
 */
#include "task/worker_internal.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- signals ---- */

/* A SIGINT within this time of the first signal counts as the same one. */
#define SECOND_SIGNAL_US 500000

/* An eventfd, readable after a signal. It is created once per process and never closed: a signal
 * handler may be about to write to it at any time. */
static _Atomic int signal_fd = -1;

/* A signal, its disposition before the first run, and the number of runs that handle it. */
static struct handled_signals {
    int number;
    unsigned count;
    struct sigaction previous;
} handled_signals[] = {{.number = SIGINT}, {.number = SIGTERM}};
static pthread_mutex_t signal_lock = PTHREAD_MUTEX_INITIALIZER;

/* The process that handles them. A child forked by a job handler inherits the signal handler until
 * it calls exec. */
static _Atomic pid_t signal_pid;
static _Atomic int64_t first_signal; /* its time; 0: none yet */

/* Restores the previous disposition and raises the signal again: for a child, and for a second
 * SIGINT. */
static void forward(int number)
{
    for (size_t i = 0; i < sizeof(handled_signals) / sizeof(handled_signals[0]); i++)
        if (handled_signals[i].number == number)
            sigaction(number, &handled_signals[i].previous, NULL);
    raise(number);
}

/* A second Ctrl-C means that the user does not want to wait. A second SIGTERM does not: supervisors
 * may send it twice. Nor does a SIGINT shortly after the first: some programs forward at once a
 * signal that the whole process group has received. */
static bool is_second_interrupt(int number, int64_t now)
{
    int64_t first = 0;
    return !atomic_compare_exchange_strong(&first_signal, &first, now) && number == SIGINT &&
           now - first > SECOND_SIGNAL_US;
}

/* Runs on any thread at any time: only async-signal-safe calls. */
static void on_signal(int number)
{
    int previous = errno;
    uint64_t one = 1;

    if (getpid() != signal_pid || is_second_interrupt(number, bi_clock_boot())) {
        forward(number);
    } else {
        ssize_t written = write(atomic_load(&signal_fd), &one, sizeof(one));
        (void)written; /* fails only if it is readable already */
    }
    errno = previous;
}

/* An ignored signal stays ignored: nohup and shells ask for that. */
static void install(struct handled_signals *signal)
{
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};

    sigemptyset(&ours.sa_mask);
    if (signal->count++ > 0)
        return;

    /* Stored before ours is installed: on_signal() reads it without the lock. */
    sigaction(signal->number, NULL, &signal->previous);
    if (signal->previous.sa_handler != SIG_IGN)
        sigaction(signal->number, &ours, NULL);
}

/* Only if our handler is installed: a signal that was ignored never had it, and the program may
 * have installed another one since. */
static void restore(const struct handled_signals *signal)
{
    struct sigaction now;
    sigaction(signal->number, NULL, &now);
    if (now.sa_handler == on_signal)
        sigaction(signal->number, &signal->previous, NULL);
}

/* The first run of this process. After a fork the state is a copy of the parent's: its counts mean
 * runs of the parent, and its eventfd is shared with the parent, so a new one is needed. */
static void reset_after_fork(void)
{
    signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    signal_pid = getpid();
    for (size_t i = 0; i < sizeof(handled_signals) / sizeof(handled_signals[0]); i++) {
        if (handled_signals[i].count > 0)
            restore(&handled_signals[i]);
        handled_signals[i].count = 0;
    }
}

static bool install_handlers(void)
{
    uint64_t count;

    pthread_mutex_lock(&signal_lock);
    if (signal_fd < 0 || signal_pid != getpid())
        reset_after_fork();
    bool able = signal_fd >= 0;

    /* The first run discards a signal that ended the runs before it. */
    if (able && handled_signals[0].count == 0) {
        ssize_t got = read(signal_fd, &count, sizeof(count));
        (void)got; /* fails if it is not readable */
        first_signal = 0;
    }
    for (size_t i = 0; able && i < sizeof(handled_signals) / sizeof(handled_signals[0]); i++)
        install(&handled_signals[i]);
    pthread_mutex_unlock(&signal_lock);
    return able;
}

static void restore_handlers(void)
{
    pthread_mutex_lock(&signal_lock);
    for (size_t i = 0; i < sizeof(handled_signals) / sizeof(handled_signals[0]); i++) {
        assert(handled_signals[i].count > 0);
        if (--handled_signals[i].count == 0)
            restore(&handled_signals[i]);
    }
    pthread_mutex_unlock(&signal_lock);
}

static void await_stop(const bide_worker *worker)
{
    struct pollfd polled[2] = {{.fd = worker->stop_fd, .events = POLLIN},
                               {.fd = signal_fd, .events = POLLIN}};
    while (poll(polled, 2, -1) < 0 && errno == EINTR)
        ;
}

int bide_worker_run(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (worker == NULL)
        return bi_last_error_set(BIDE_EINVAL, "worker_run: worker is NULL");
    if (bi_worker_is_current(worker) || bi_cq_in_callback())
        return bi_last_error_set(BIDE_ECALLBACK, "worker_run: called from a handler or callback");
    if (!install_handlers())
        return bi_last_error_set(BIDE_ESYSTEM, "worker_run: cannot create eventfd: %s",
                                 strerror(errno));

    int code = bide_worker_start(worker);
    if (code == BIDE_OK) {
        await_stop(worker);
        code = bide_worker_stop(worker);
    }
    restore_handlers();
    return code;
}

/* ---- on the calling thread ---- */

static int run_on_caller(bide_worker *worker)
{
    int code = bi_worker_prepare(worker);
    if (code != BIDE_OK)
        return code;

    /* threads[0] has no pthread: `started` stays false, and reap() does not join it. */
    bi_worker_thread_run(&worker->threads[0]);
    bi_worker_end_thread(worker);
    return bi_worker_stop(worker);
}

int bide_run(bide *queue, const char *topic, bide_handler callback, void *arg)
{
    BI_NO_CANCEL;
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker;
    bi_last_error_clear();
    if (bi_cq_in_callback())
        return bi_last_error_set(BIDE_ECALLBACK, "run: called from a completion callback");

    options.threads = 1;
    int code = bide_worker_new(queue, &options, &worker);
    if (code != BIDE_OK)
        return code;

    code = bide_worker_handle(worker, topic, callback, arg);
    if (code == BIDE_OK)
        code = run_on_caller(worker);

    /* bide_worker_free() clears the last error. */
    char error[BIDE_ERROR_SIZE];
    bi_text_copy(error, bide_last_error());
    bide_worker_free(worker);
    return code == BIDE_OK ? BIDE_OK : bi_last_error_set(code, "%s", error);
}
