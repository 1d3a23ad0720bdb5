/* SPDX-License-Identifier: MIT */
/*
 * server - bided without its command line: listening sockets, connections, one event loop.
 *
 * One thread at a time runs the loop. It reads the connections, submits all complete commands to
 * the queue as one batch, and writes the replies, once per connection and turn. Ops that do not
 * complete synchronously return through a completion queue, in batches.
 *
 * Ownership  The caller provides the queue and the listening sockets. run() closes the sockets; the
 *            caller closes the queue afterwards.
 * Failure    Only new and listen can fail. A connection that cannot be served is closed.
 * Threads    All calls on one thread; run() may start two more, and calls notify() on one of
 *            them. The loop handles TERM, INT, USR1 and HUP while it runs.
 */
#ifndef BI_SERVER_H
#define BI_SERVER_H

#include "server/address.h"
#include "util/message.h"

#include <bide/bide.h>

#define BI_TRUST_MAX 64 /* networks */

struct protocol;
struct server;

/* Limits that may change while the server runs; see bi_server_set_limits(). */
struct server_limits {
    uint32_t max_connections;   /* further ones are accepted, counted and closed at once */
    int64_t idle_timeout_ms;    /* closes a connection that is silent for that long, waits for
                                    nothing and holds no job; 0: never */
    int64_t command_timeout_ms; /* closes a connection that has sent a part of a command and then
                                    nothing for that long; 0: never */
    int64_t stop_timeout_ms;    /* time that a stop gives to clients that do not read, and then to
                                   the last commits */
    uint32_t max_waiters_per_connection;  /* calls that wait; 0: as many as the queue allows */
    uint32_t max_topics_per_connection;   /* watched or referenced; 0: the same */
    uint32_t max_feeds_per_connection;    /* 0: the same */
    uint64_t max_client_bytes;            /* buffers of all connections together */
    char auth_secret[BIDE_TOPIC_MAX + 1]; /* "": only trusted clients are served */
    bool auth_always;                     /* local and trusted clients must authenticate, too */
    uint32_t max_connections_per_address; /* of remote clients; 0: no limit */
    struct cidr trust[BI_TRUST_MAX];      /* networks whose clients need not authenticate */
    size_t trust_count;
};

enum server_event {
    SERVER_READY,    /* the loop runs */
    SERVER_ALIVE,    /* the loop runs and no commit hangs */
    SERVER_RELOAD,   /* SIGHUP */
    SERVER_STOPPING, /* a stop has begun */
};

struct server_settings {
    bide *queue;
    struct server_limits limits;
    struct bi_log log;
    void (*notify)(void *user, enum server_event event); /* may be NULL */
    const char *noted_topic;  /* note() is called before an op puts a job there, or moves one */
    void (*note)(void *user); /* may be NULL */
    int64_t watchdog_us;      /* interval of SERVER_ALIVE, times three; 0: it is not reported */
    void *user;
};

/* Returns BIDE_OK, or a code with a message in error (BIDE_ERROR_SIZE bytes). */
int bi_server_new(const struct server_settings *settings, struct server **out, char *error);

/* Takes a listening socket, TCP or unix, whose connections speak the protocol. The first socket of
 * a protocol starts it. Returns BIDE_OK, or a code with a message in error (BIDE_ERROR_SIZE bytes);
 * the caller keeps the socket then. */
int bi_server_listen(struct server *server, const struct protocol *protocol, int fd, char *error);

/* Replaces the limits. May be called at SERVER_RELOAD. */
void bi_server_set_limits(struct server *server, const struct server_limits *limits);

/*
 * Serves until SIGTERM or SIGINT. Then it stops accepting and reading, completes the ops in flight,
 * writes their replies, gives back the leases of all connections, and returns. A second signal ends
 * the wait for slow clients. SIGUSR1 starts draining: puts are rejected from then on (DRAINING).
 */
void bi_server_run(struct server *server);

void bi_server_free(struct server *server);

#endif
