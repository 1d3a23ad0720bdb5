/* SPDX-License-Identifier: MIT */
#include "local_server.h"

#ifdef FAULT_SERVER
#include "fault.h"

#include "queue/queue.h"
#include "server/beanstalk/beanstalk.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static void *serve(void *arg)
{
    struct local_server *local_server = arg;
    bi_server_run(local_server->server);
    return NULL;
}

static struct sockaddr_un address_of(const struct local_server *local_server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    snprintf(address.sun_path, sizeof address.sun_path, "%s", local_server->socket);
    return address;
}

static int64_t idle_ms;

void serve_set_idle_timeout(int64_t ms)
{
    idle_ms = ms;
}

static int64_t stop_ms = PATIENCE_MS;

void serve_set_stop_timeout(int64_t ms)
{
    stop_ms = ms;
}

static int64_t watchdog_ms;
static void (*on_alive)(void *user);

static void on_event(void *user, enum server_event event)
{
    if (event == SERVER_ALIVE && on_alive != NULL)
        on_alive(user);
}

void serve_set_watchdog(int64_t ms, void (*alive)(void *user))
{
    watchdog_ms = ms;
    on_alive = alive;
}

void serve_begin(struct local_server *local_server, const char *parameters)
{
    const struct server_limits limits = {.max_connections = 1000,
                                         .stop_timeout_ms = stop_ms,
                                         .idle_timeout_ms = idle_ms,
                                         .max_client_bytes = (uint64_t)72 << 20};
    char error[BIDE_ERROR_SIZE];
    snprintf(local_server->socket, sizeof local_server->socket, "%s", test_path("socket"));
    struct sockaddr_un address = address_of(local_server);
    unlink(local_server->socket);
    OK(bi_queue_open(url_of("jobs.db", parameters), NULL, true, &local_server->queue));
    OK(bide_wait_recovered(local_server->queue, PATIENCE_MS, NULL));
    struct server_settings settings = {.queue = local_server->queue,
                                       .limits = limits,
                                       .notify = on_event,
                                       .watchdog_us = watchdog_ms * 1000};
    EQ(bi_server_new(&settings, &local_server->server, error), BIDE_OK);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(bind(fd, (struct sockaddr *)&address, sizeof address) == 0);
    CHECK(listen(fd, 100) == 0);
    EQ(bi_server_listen(local_server->server, &bi_beanstalk_protocol, fd, error), BIDE_OK);
    CHECK(pthread_create(&local_server->thread, NULL, serve, local_server) == 0);
}

void serve_end(struct local_server *local_server)
{
    CHECK(kill(getpid(), SIGTERM) == 0);
    CHECK(pthread_join(local_server->thread, NULL) == 0);
    bi_server_free(local_server->server);
    OK(bide_close(local_server->queue));
}

bide *serve_open(const struct local_server *local_server)
{
    char url[200];
    bide *queue;
    snprintf(url, sizeof url, "beanstalk://%s", local_server->socket);
    OK(bide_open(url, NULL, &queue));
    return queue;
}

int serve_connect(const struct local_server *local_server)
{
    struct sockaddr_un address = address_of(local_server);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0);
    CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
    return fd;
}

void serve_send(int fd, const char *line)
{
    CHECK(send(fd, line, strlen(line), MSG_NOSIGNAL) == (ssize_t)strlen(line));
}

void serve_expect(int fd, const char *text)
{
    char heard[1000] = "";
    size_t size = 0;
    while (strstr(heard, text) == NULL) {
        ssize_t got = recv(fd, heard + size, sizeof heard - 1 - size, 0);
        CHECK(got > 0);
        size += (size_t)got;
    }
}

void serve_await(int fd, const char *line, const char *text)
{
    char heard[10000];
    do {
        unsigned long size;
        size_t got = 0;
        size_t wanted = sizeof heard;
        nap_ms(1);
        serve_send(fd, line);
        while (got < wanted) {
            ssize_t part = recv(fd, heard + got, sizeof heard - 1 - got, 0);
            CHECK(part > 0);
            got += (size_t)part;
            heard[got] = 0;
            const char *end = strstr(heard, "\r\n");
            CHECK(end == NULL || sscanf(heard, "OK %lu", &size) == 1);
            if (end != NULL)
                wanted = (size_t)(end - heard) + 2 + size + 2;
        }
    } while (strstr(heard, text) == NULL);
}
#endif
