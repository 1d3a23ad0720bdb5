/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* accept4 */
#include "outage.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAIRS_MAX ((size_t)32)

/* One connection, from the client to the server. */
struct pair {
    int client, server; /* -1: the place is free */
};

static struct {
    pthread_mutex_t lock; /* for mode and port */
    enum relay_mode mode;
    int target_port;
    int listen_fd;
    int wake_fd;
    struct pair pairs[PAIRS_MAX]; /* the thread's own */
} ordered_pipeline = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the thread of the relay ---- */

static enum relay_mode mode_now(int *port)
{
    pthread_mutex_lock(&ordered_pipeline.lock);
    enum relay_mode mode = ordered_pipeline.mode;
    *port = ordered_pipeline.target_port;
    pthread_mutex_unlock(&ordered_pipeline.lock);
    return mode;
}

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof address) != 0) {
        close(fd);
        return -1;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return fd;
}

static void end_pair(struct pair *pair)
{
    close(pair->client);
    close(pair->server);
    *pair = (struct pair){-1, -1};
}

static void accept_client(enum relay_mode mode, int port)
{
    struct pair *pair = ordered_pipeline.pairs;
    int on = 1;
    int client = accept4(ordered_pipeline.listen_fd, NULL, NULL, SOCK_CLOEXEC);
    int fd = client < 0 || mode == RELAY_CUT ? -1 : connect_to(port);
    while (pair < ordered_pipeline.pairs + PAIRS_MAX && pair->client >= 0)
        pair++;
    if (fd >= 0 && pair < ordered_pipeline.pairs + PAIRS_MAX) {
        setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        *pair = (struct pair){client, fd};
        return;
    }
    if (client >= 0)
        close(client);
    if (fd >= 0)
        close(fd);
}

/* Passes on what there is; false when one side has ended. */
static bool relay_bytes(int from, int to, bool swallow)
{
    char bytes[65536];
    ssize_t got = recv(from, bytes, sizeof bytes, MSG_DONTWAIT);
    if (got <= 0)
        return false;
    for (ssize_t sent = 0; sent < got && !swallow;) {
        ssize_t n = send(to, bytes + sent, (size_t)(got - sent), MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        sent += n;
    }
    return true;
}

static void serve_pairs(const struct pollfd *fds, enum relay_mode mode)
{
    for (size_t i = 0; i < PAIRS_MAX; i++) {
        struct pair *pair = &ordered_pipeline.pairs[i];
        if (pair->client < 0)
            continue;
        bool good = mode != RELAY_CUT;
        if (good && fds[2 * i].revents != 0)
            good = relay_bytes(pair->client, pair->server, false);
        if (good && fds[2 * i + 1].revents != 0)
            good = relay_bytes(pair->server, pair->client, mode == RELAY_DROP_REPLIES);
        if (!good)
            end_pair(pair);
    }
}

static void *run_relay(void *arg)
{
    struct pollfd fds[2 * PAIRS_MAX + 2];
    uint64_t count;
    int port;
    (void)arg;
    for (;;) {
        for (size_t i = 0; i < PAIRS_MAX; i++) {
            fds[2 * i] = (struct pollfd){.fd = ordered_pipeline.pairs[i].client, .events = POLLIN};
            fds[2 * i + 1] =
                (struct pollfd){.fd = ordered_pipeline.pairs[i].server, .events = POLLIN};
        }
        fds[2 * PAIRS_MAX] = (struct pollfd){.fd = ordered_pipeline.listen_fd, .events = POLLIN};
        fds[2 * PAIRS_MAX + 1] = (struct pollfd){.fd = ordered_pipeline.wake_fd, .events = POLLIN};
        poll(fds, COUNT(fds), -1);
        enum relay_mode mode = mode_now(&port);
        serve_pairs(fds, mode);
        if (fds[2 * PAIRS_MAX].revents != 0)
            accept_client(mode, port);
        if (fds[2 * PAIRS_MAX + 1].revents != 0 &&
            read(ordered_pipeline.wake_fd, &count, sizeof count) != sizeof count)
            return NULL;
    }
}

/* ---- what a test says to it ---- */

int relay_start(int target_port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    ordered_pipeline.target_port = target_port;
    ordered_pipeline.wake_fd = eventfd(0, EFD_CLOEXEC);
    ordered_pipeline.listen_fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(ordered_pipeline.wake_fd >= 0 && ordered_pipeline.listen_fd >= 0);
    CHECK(bind(ordered_pipeline.listen_fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(ordered_pipeline.listen_fd, 100) == 0);
    CHECK(getsockname(ordered_pipeline.listen_fd, (struct sockaddr *)&address, &size) == 0);
    for (size_t i = 0; i < PAIRS_MAX; i++)
        ordered_pipeline.pairs[i] = (struct pair){-1, -1};
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run_relay, NULL) == 0);
    pthread_detach(thread);
    return ntohs(address.sin_port);
}

static void wake(void)
{
    static const uint64_t one = 1;
    CHECK(write(ordered_pipeline.wake_fd, &one, sizeof one) == sizeof one);
}

void relay_set(enum relay_mode mode)
{
    pthread_mutex_lock(&ordered_pipeline.lock);
    ordered_pipeline.mode = mode;
    pthread_mutex_unlock(&ordered_pipeline.lock);
    wake();
}

void relay_set_target(int target_port)
{
    pthread_mutex_lock(&ordered_pipeline.lock);
    ordered_pipeline.target_port = target_port;
    pthread_mutex_unlock(&ordered_pipeline.lock);
}

/* ---- the worker ---- */

struct relayed_worker relayed_worker_start(const char *url, unsigned threads,
                                           int64_t health_interval_ms)
{
    struct relayed_worker relayed_worker = {.queue = open_url(url)};
    relayed_worker.worker = new_worker(relayed_worker.queue, threads, 0, health_interval_ms);
    OK(bide_worker_start(relayed_worker.worker));
    return relayed_worker;
}

struct relayed_worker start_worker_behind_relay(unsigned threads, int64_t health_interval_ms)
{
    int port = relay_start(server.port);
    return relayed_worker_start(server_url(port, "connect_timeout=300ms"), threads,
                                health_interval_ms);
}

void relayed_worker_stop_at(struct where at, struct relayed_worker *relayed_worker)
{
    check_code(at, bide_worker_stop(relayed_worker->worker), BIDE_OK, "bide_worker_stop()");
    check_code(at, bide_worker_free(relayed_worker->worker), BIDE_OK, "bide_worker_free()");
    check_code(at, bide_close(relayed_worker->queue), BIDE_OK, "bide_close()");
}
