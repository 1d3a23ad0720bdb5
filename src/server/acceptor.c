/* SPDX-License-Identifier: MIT */
/*
 * acceptor - the listening sockets in the loop: accepts connections and hands them to admission.
 *
 * Each socket has the protocol that its connections speak.
 *
 * Failure    Without file descriptors or memory for a connection, no socket is watched for a
 *            moment: a level-triggered event would wake the loop for ever. If an event or the timer
 *            that ends the pause cannot be added, the check of every second retries.
 */
#define _GNU_SOURCE /* accept4 */
#include "server/server_internal.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_MAX 64                /* connections accepted per socket and round */
#define RETRY_US   100000            /* pause without file descriptors */
#define LOG_US     INT64_C(10000000) /* between two log lines about that */

static void log_failure(struct server *server, int code)
{
    if (server->now < server->acceptors.log_at)
        return;

    server->acceptors.log_at = server->now + LOG_US;
    bi_log(&server->log, BIDE_LOG_WARN, "cannot accept a connection: %s", strerror(code));
}

void bi_acceptor_start(struct server *server)
{
    struct acceptors *acceptors = &server->acceptors;

    acceptors->unwatched = false;
    for (struct acceptor *acceptor = acceptors->list; acceptor != NULL; acceptor = acceptor->next) {
        if (event_add(&acceptor->event, NULL) == 0)
            continue;
        acceptors->unwatched = true;
        log_failure(server, errno);
    }
}

void bi_acceptor_retry(struct server *server)
{
    if (server->acceptors.unwatched)
        bi_acceptor_start(server);
}

static void on_timer(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    bi_acceptor_start(arg);
}

void bi_acceptor_init(struct server *server)
{
    evtimer_assign(&server->acceptors.timer, server->base, on_timer, server);
}

static void pause_accepting(struct server *server, int code)
{
    struct acceptors *acceptors = &server->acceptors;

    log_failure(server, code);
    for (struct acceptor *acceptor = acceptors->list; acceptor != NULL; acceptor = acceptor->next)
        event_del(&acceptor->event);
    acceptors->unwatched = !bi_server_add_timer(&acceptors->timer, RETRY_US);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    const struct acceptor *acceptor = arg;
    (void)what;

    for (int i = 0; i < ACCEPT_MAX; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int accepted =
            accept4(fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (accepted >= 0) {
            bi_admission_accept(acceptor, accepted, &address);
            continue;
        }

        /* A client that disconnects before the accept (ECONNABORTED) does not end the loop. */
        int code = errno;
        if (code == EMFILE || code == ENFILE || code == ENOBUFS || code == ENOMEM)
            pause_accepting(acceptor->server, code);
        if (code != EINTR && code != ECONNABORTED)
            return;
    }
}

int bi_acceptor_add(struct server *server, const struct protocol *protocol, void *protocol_state,
                    int fd)
{
    struct acceptor *acceptor = calloc(1, sizeof(*acceptor));
    if (acceptor == NULL)
        return BIDE_ENOMEM;

    /* Accepted connections inherit the options. On a unix socket they have no effect. */
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    evutil_make_socket_nonblocking(fd);

    assert(fd >= 0 && !server->stopping);
    acceptor->server = server;
    acceptor->protocol = protocol;
    acceptor->protocol_state = protocol_state;
    acceptor->fd = fd;
    event_assign(&acceptor->event, server->base, fd, EV_READ | EV_PERSIST, on_accept, acceptor);
    acceptor->next = server->acceptors.list;
    server->acceptors.list = acceptor;
    return BIDE_OK;
}

void bi_acceptor_close_all(struct server *server)
{
    struct acceptors *acceptors = &server->acceptors;

    /* Neither the timer nor bi_acceptor_retry() may add the events again. */
    event_del(&acceptors->timer);
    acceptors->unwatched = false;

    while (acceptors->list != NULL) {
        struct acceptor *acceptor = acceptors->list;
        acceptors->list = acceptor->next;
        event_del(&acceptor->event);
        close(acceptor->fd);
        free(acceptor);
    }
}
