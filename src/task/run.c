/* SPDX-License-Identifier: MIT */
/*
 * run - calls that return when the work is over.
 */
#include "task/inside.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <unistd.h>

/* ---- until a signal ---- */

/* A second SIGINT within that time of the first signal is the same one. */
#define AGAIN_US 500000

/* Readable when a signal has come. It is made once and never closed: a signal handler may be about
 * to write to it at any time. */
static _Atomic int signal_fd = -1;

/* A signal, what it did before the first of the runs began, and how many runs hear of it. */
static struct heard {
    int number;
    unsigned count;
    struct sigaction before;
} heard[] = {{.number = SIGINT}, {.number = SIGTERM}};
static pthread_mutex_t heard_lock = PTHREAD_MUTEX_INITIALIZER;

/* Who hears of them. A child that a handler forks has the handler of signals, too, until it becomes
 * another program. */
static _Atomic pid_t signal_pid;
static _Atomic int64_t first_signal; /* when it came; 0: not yet */

/* To others than the worker the signal does what it did before. */
static void pass_on(int number)
{
    for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++)
        if (heard[i].number == number)
            sigaction(number, &heard[i].before, NULL);
    raise(number);
}

/* Whoever presses Ctrl-C again does not want to wait. But supervisors may say SIGTERM twice,
 * and some programs pass on at once what came to the whole group. */
static bool is_impatient(int number, int64_t now)
{
    int64_t first = 0;
    return !atomic_compare_exchange_strong(&first_signal, &first, now) && number == SIGINT &&
           now - first > AGAIN_US;
}

/* On any thread, at any time. */
static void on_signal(int number)
{
    int before = errno;
    uint64_t one = 1;
    if (getpid() != signal_pid || is_impatient(number, bi_clock_boot())) {
        pass_on(number);
    } else {
        ssize_t written = write(atomic_load(&signal_fd), &one, sizeof(one));
        (void)written; /* it is readable already */
    }
    errno = before;
}

/* Unless it is ignored, as nohup and shells ask for. */
static void hear(struct heard *signal)
{
    struct sigaction ours = {.sa_handler = on_signal, .sa_flags = SA_RESTART};
    sigemptyset(&ours.sa_mask);
    if (signal->count++ > 0)
        return;
    sigaction(signal->number, NULL, &signal->before);
    if (signal->before.sa_handler != SIG_IGN)
        sigaction(signal->number, &ours, NULL);
}

static void hear_no_more(struct heard *signal)
{
    if (--signal->count == 0)
        sigaction(signal->number, &signal->before, NULL);
}

/* The first run of this process. What a parent ran is not its affair, though it has the same fd. */
static void begin_process(void)
{
    signal_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    signal_pid = getpid();
    for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++) {
        if (heard[i].count > 0)
            sigaction(heard[i].number, &heard[i].before, NULL);
        heard[i].count = 0;
    }
}

/* The first of several runs forgets what the last of those before it heard. */
static bool begin_hearing(void)
{
    uint64_t count;
    pthread_mutex_lock(&heard_lock);
    if (signal_fd < 0 || signal_pid != getpid())
        begin_process();
    bool able = signal_fd >= 0;
    if (able && heard[0].count == 0) {
        ssize_t got = read(signal_fd, &count, sizeof(count));
        (void)got; /* it need not have been raised */
        first_signal = 0;
    }
    for (size_t i = 0; able && i < sizeof(heard) / sizeof(heard[0]); i++)
        hear(&heard[i]);
    pthread_mutex_unlock(&heard_lock);
    return able;
}

static void end_hearing(void)
{
    pthread_mutex_lock(&heard_lock);
    for (size_t i = 0; i < sizeof(heard) / sizeof(heard[0]); i++)
        hear_no_more(&heard[i]);
    pthread_mutex_unlock(&heard_lock);
}

static void await_end(const bide_worker *worker)
{
    struct pollfd polled[2] = {{.fd = worker->end_fd, .events = POLLIN},
                               {.fd = signal_fd, .events = POLLIN}};
    while (poll(polled, 2, -1) < 0 && errno == EINTR)
        ;
}

int bide_worker_run(bide_worker *worker)
{
    BI_NO_CANCEL;
    bi_error_clear();
    if (worker == NULL)
        return bi_error_set(BIDE_EINVAL, "worker_run: worker is NULL");
    if (bi_worker_is_here(worker) || bi_in_callback())
        return bi_error_set(BIDE_ECALLBACK, "worker_run: called from a handler or callback");
    if (!begin_hearing())
        return bi_error_set(BIDE_ESYSTEM, "worker_run: the system gives no more eventfds");
    int code = bide_worker_start(worker);
    if (code == BIDE_OK) {
        await_end(worker);
        code = bide_worker_stop(worker);
    }
    end_hearing();
    return code;
}

/* ---- the simple form ---- */

static int run_here(bide_worker *worker)
{
    int code = bi_worker_prepare(worker);
    if (code != BIDE_OK)
        return code;
    bi_slot_work(&worker->slots[0]);
    bi_worker_end_slot(worker);
    return bi_worker_stop(worker);
}

int bide_run(bide *queue, const char *topic, bide_handler callback, void *arg)
{
    BI_NO_CANCEL;
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker;
    bi_error_clear();
    if (bi_in_callback())
        return bi_error_set(BIDE_ECALLBACK, "run: called from a completion callback");
    options.threads = 1;
    int code = bide_worker_new(queue, &options, &worker);
    if (code != BIDE_OK)
        return code;
    code = bide_worker_handle(worker, topic, callback, arg);
    if (code == BIDE_OK)
        code = run_here(worker);
    char error[BIDE_ERROR_SIZE];
    bi_text_copy(error, bide_last_error());
    bide_worker_free(worker);
    return code == BIDE_OK ? BIDE_OK : bi_error_set(code, "%s", error);
}
