/* SPDX-License-Identifier: MIT */
/*
 * run - calls that return when the work is over.
 */
#include "task/inside.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

/* ---- until a signal ---- */

/* Waits for one of the signals, or for the end of the worker's own accord. */
static int await_signal(const bide_worker *worker, const sigset_t *signals)
{
    int fd = signalfd(-1, signals, SFD_NONBLOCK | SFD_CLOEXEC);
    if (fd < 0)
        return bi_error_set(BIDE_ESYSTEM, "worker_run: the system gives no signalfd");
    struct pollfd polled[2] = {{.fd = fd, .events = POLLIN},
                               {.fd = worker->end_fd, .events = POLLIN}};
    while (poll(polled, 2, -1) < 0 && errno == EINTR)
        ;
    struct signalfd_siginfo taken;
    ssize_t size = read(fd, &taken, sizeof(taken)); /* so that it is not delivered later */
    (void)size;
    close(fd);
    return BIDE_OK;
}

int bide_worker_run(bide_worker *worker)
{
    sigset_t signals, before;
    bi_error_clear();
    if (worker == NULL)
        return bi_error_set(BIDE_EINVAL, "worker_run: worker is NULL");
    if (bi_worker_here() == worker)
        return bi_error_set(BIDE_ECALLBACK, "worker_run: called by one of its own handlers");
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    pthread_sigmask(SIG_BLOCK, &signals, &before);
    int code = bide_worker_start(worker);
    int waited = code == BIDE_OK ? await_signal(worker, &signals) : BIDE_OK;
    /* Whoever presses Ctrl-C twice does not want to wait. */
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (code != BIDE_OK)
        return code;
    code = bide_worker_stop(worker);
    return waited != BIDE_OK ? waited : code;
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
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker;
    options.threads = 1;
    int code = bide_worker_new(queue, &options, &worker);
    if (code != BIDE_OK)
        return code;
    code = bide_worker_handle(worker, topic, callback, arg);
    if (code == BIDE_OK)
        code = run_here(worker);
    char error[BIDE_ERROR_SIZE];
    strcpy(error, bide_last_error());
    bide_worker_free(worker);
    return code == BIDE_OK ? BIDE_OK : bi_error_set(code, "%s", error);
}
