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
#ifndef BI_ACCEPTOR_H
#define BI_ACCEPTOR_H

#include <event2/event_struct.h>
#include <stdbool.h>
#include <stdint.h>

struct protocol;
struct server;

struct acceptor {
    struct acceptor *next;
    struct server *server;
    const struct protocol *protocol;
    void *protocol_state;
    struct event event;
    int fd;
};

struct acceptors {
    struct acceptor *list;
    struct event timer; /* ends a pause */
    int64_t log_at;     /* next log line about a failed accept */
    bool unwatched;     /* a socket has no event, and no timer will add it */
};

void bi_acceptor_init(struct server *server);
/* Takes a listening socket. On BIDE_ENOMEM the caller keeps it. */
int bi_acceptor_add(struct server *server, const struct protocol *protocol, void *protocol_state,
                    int fd);
/* Watches the sockets. */
void bi_acceptor_start(struct server *server);
/* Watches sockets that could not be watched before; called once a second. */
void bi_acceptor_retry(struct server *server);
void bi_acceptor_close_all(struct server *server);

#endif
