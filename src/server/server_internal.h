/* SPDX-License-Identifier: MIT */
/*
 * server_internal - the state of a server, which the files of the loop and the protocols share.
 *
 * A turn of the loop: libevent reports the readable sockets. Each is read once. The protocol turns
 * its complete commands into ops, which are collected in one batch for all connections (batch.h).
 * Replies are appended to the output of their connection, and each output that has grown is written
 * once.
 *
 * Threads    Everything runs on the thread of the loop, which may be another one after a commit
 *            that hung (standby.h).
 */
#ifndef BI_SERVER_INTERNAL_H
#define BI_SERVER_INTERNAL_H

#include "server/batch.h"
#include "server/conn.h"
#include "server/release.h"
#include "server/server.h"
#include "server/standby.h"

#include <event2/event.h>

#define PROTOCOLS_MAX  4
#define SERVER_SIGNALS 4
#define BODY_SMALL \
    ((size_t)64 << 10) /* smaller bodies may use the last fourth of the clients' memory */
#define BODY_LARGE (BODY_SMALL + 1) /* for commands that may not, and have no body size */

/* A listening socket in the loop. */
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

struct server {
    bide *queue;
    const bide_options *options; /* of the queue, with the defaults filled in */
    bide_cq *cq;
    struct bi_log log;
    struct server_limits limits;
    struct server_settings settings;
    struct event_base *base;
    struct event cq_event, idle_timer, stop_timer, watchdog_timer, signals[SERVER_SIGNALS];

    struct {
        const struct protocol *protocol;
        void *state;
    } protocols[PROTOCOLS_MAX];
    size_t protocol_count;

    struct acceptors acceptors;
    struct admission admission;
    struct fair_queue fair_queue;
    struct batch batch;
    struct releases releases;
    struct standby standby;

    struct conn_queue conns;
    uint32_t connections; /* of these and of the closed ones that are not released yet */
    uint64_t total_connections, refused_connections;

    char *scratch; /* SCRATCH_SIZE bytes; input that ops of the batch borrow from */
    size_t scratch_at;
    uint64_t client_bytes;           /* buffers of all connections */
    int64_t memory_short_until;      /* set when a command is rejected for lack of memory */
    struct bi_log_limit overdue_log; /* connections closed by command_timeout */

    bool stopping;     /* a stop has begun */
    bool stop_forced;  /* a stop does not wait for clients any more */
    bool commit_stuck; /* a commit hangs, and this is logged */
    int64_t stop_end;  /* deadline of clients after a stop has begun */

    int64_t now; /* boot-time clock, read after the last submit and before the last drain */
    int64_t started;
    char id[17]; /* public */
};

/* ---- server.c ---- */

/* Starts the protocol, unless it runs already. *state_out is its state in this server. Returns
 * BIDE_OK, or a code with a message in error. */
int bi_server_start_protocol(struct server *server, const struct protocol *protocol,
                             void **state_out, char *error);

/* Calls the callback of the settings. */
void bi_server_notify(struct server *server, enum server_event event);

/* Arms an assigned timer. False without memory. */
bool bi_server_add_timer(struct event *timer, int64_t wait_us);

/* May a connection with a command of `size` bytes use `extra` more bytes of the clients' memory?
 * Commands larger than BODY_SMALL leave a fourth to others. A connection that is the only user may
 * exceed the limit: nothing else could free memory for it. */
bool bi_server_has_memory(struct server *server, const struct conn *conn, size_t size,
                          size_t extra);
/* True while the clients' memory is exceeded, and for a while after a command was rejected for
 * it. */
bool bi_server_is_memory_short(const struct server *server);
/* True while clients use half of their memory: each connection gets less of everything. */
static inline bool bi_server_is_memory_tight(const struct server *server)
{
    return server->client_bytes > server->limits.max_client_bytes / 2;
}

/* ---- watchdog.c ---- */

/* Reports SERVER_ALIVE from now on, if the settings have an interval. False without memory. */
bool bi_watchdog_start(struct server *server);

/* ---- acceptor.c ---- */

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
