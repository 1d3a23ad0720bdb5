/* SPDX-License-Identifier: MIT */
#include "cli/cli.h"

#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* A signal within this time after the first one is ignored: Ctrl-C often arrives twice, from the
 * terminal and from the parent process. */
#define REPEAT_MS 500

static struct {
    atomic_int signal;     /* the first one; 0: none */
    atomic_llong first_ms; /* its time on the monotonic clock, set before signal; 0: none */
    int notify_fd;         /* eventfd, readable after a signal */
    int stop_fd;           /* eventfd that ends the thread */
    bide *queue;
    pthread_t thread;
    bool running;
} state = {.notify_fd = -1, .stop_fd = -1};

static long long now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return now.tv_sec * 1000LL + now.tv_nsec / 1000000;
}

/* Uses async-signal-safe functions only. */
static void on_signal(int number)
{
    int saved = errno;

    long long first = 0, now = now_ms();
    if (!atomic_compare_exchange_strong(&state.first_ms, &first, now)) {
        if (now - first >= REPEAT_MS)
            _exit(128 + number);
        return;
    }
    atomic_store(&state.signal, number);
    ssize_t written = write(state.notify_fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written;
    errno = saved;
}

/* A thread shuts the queue down: that takes locks, which a signal handler must not. */
static void *shut_down(void *unused)
{
    (void)unused;
    struct pollfd fds[] = {{.fd = state.notify_fd, .events = POLLIN},
                           {.fd = state.stop_fd, .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    if (fds[0].revents != 0 && state.queue != NULL)
        bide_shutdown(state.queue);
    return NULL;
}

static void install_handler(int number)
{
    struct sigaction action, before;

    memset(&action, 0, sizeof(action));
    action.sa_handler = on_signal;
    action.sa_flags = SA_RESTART; /* a line is written to its end */
    if (sigaction(number, NULL, &before) == 0 && before.sa_handler != SIG_IGN)
        sigaction(number, &action, NULL);
}

int bi_interrupt_watch(const struct cli *cli, bide *queue)
{
    assert(!state.running);
    state.notify_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    state.stop_fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    state.queue = queue;
    if (state.notify_fd < 0 || state.stop_fd < 0)
        return bi_cli_error(cli, BI_EXIT_FAILED, "cannot watch for signals: %s", strerror(errno));
    state.running = bi_thread_start(&state.thread, shut_down, NULL);
    if (!state.running)
        return bi_cli_error(cli, BI_EXIT_FAILED, "cannot create thread for signals");
    install_handler(SIGINT);
    install_handler(SIGTERM);
    install_handler(SIGHUP);
    return BI_EXIT_OK;
}

void bi_interrupt_stop(void)
{
    if (!state.running)
        return;
    ssize_t written = write(state.stop_fd, &(uint64_t){1}, sizeof(uint64_t));
    (void)written;
    pthread_join(state.thread, NULL);
    state.running = false;
}

bool bi_interrupted(void)
{
    return atomic_load(&state.signal) != 0;
}

int bi_interrupt_fd(void)
{
    return state.notify_fd;
}

int bi_interrupt_exit(void)
{
    return 128 + atomic_load(&state.signal);
}

bool bi_interrupt_wait(int fd, short events)
{
    struct pollfd fds[] = {{.fd = fd, .events = events}, {.fd = state.notify_fd, .events = POLLIN}};

    for (;;) {
        int ready = poll(fds, 2, -1), error = bi_interrupted() ? EINTR : errno;
        if (bi_interrupted() || (ready < 0 && error != EINTR)) {
            errno = error;
            return false;
        }
        if (ready > 0 && fds[0].revents != 0)
            return true;
    }
}

/* A pipe that is ready accepts this much without blocking. */
#define WRITE_MAX 4096

bool bi_interrupt_write(int fd, const void *data, size_t size)
{
    const char *at = data;

    while (size > 0) {
        if (!bi_interrupt_wait(fd, POLLOUT))
            return false;
        ssize_t wrote = write(fd, at, size < WRITE_MAX ? size : WRITE_MAX);
        if (wrote < 0 && errno != EINTR && errno != EAGAIN)
            return false;
        at += wrote > 0 ? wrote : 0;
        size -= wrote > 0 ? (size_t)wrote : 0;
    }
    return true;
}
