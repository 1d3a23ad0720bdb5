/* SPDX-License-Identifier: MIT */
/*
 * fair_queue - decides which connection is read, run and written next, and for how long.
 *
 * No connection may delay the others by what it sends. Work is counted, the clock is read every
 * CLOCK_WORK units, and what is left at the end of a slice stays in a queue for the next turn.
 *
 * Queues     dirty: connections to write, close or watch. run_queue: connections with input that
 *            may execute. deferred: the same, once fewer changes wait for a commit. reads:
 *            readable connections that wait for their turn. All are FIFO.
 * Load       A connection is heavy while it sends or has in flight many commands, or much of its
 *            input or output waits; otherwise it is light. Light ones are served first, for half of
 *            the time.
 * Cost       O(1).
 */
#ifndef BI_FAIR_QUEUE_H
#define BI_FAIR_QUEUE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define BULK_COMMANDS  128                /* in one read, or in flight, make a bulk sender */
#define INPUT_LIGHT    ((size_t)4 << 10)  /* unexecuted input of a light connection */
#define TURN_US        2000               /* of a turn, before the sockets are polled again */
#define LIGHT_SLICE_US 100                /* slice of a light connection, */
#define SLICE_US       1000               /* of a heavy one, */
#define SLICE_WORK     8192               /* and the same in units of work of about 0.1 us */
#define CLOCK_WORK     64                 /* units between two readings of the clock */
#define SLOW_OP_BYTES  ((size_t)64 << 10) /* a slow command counts as this many bytes read */

struct conn;
struct server;

/* A FIFO of connections. Zeroed: empty. */
struct conn_queue {
    struct conn *head, *tail;
};

/* A connection is in one queue of each kind at a time; see struct conn_node. */
enum conn_list {
    LIST_ALL,       /* server.conns, in the order of their accept */
    LIST_PENDING,   /* admission.pending */
    LIST_DIRTY,     /* fair_queue.dirty */
    LIST_RUN,       /* fair_queue.run_queue or deferred */
    LIST_READ,      /* fair_queue.reads */
    LIST_THROTTLED, /* fair_queue.throttled */
    LIST_RELEASING, /* releases.conns */
    CONN_LISTS
};

/* Light connections are served before heavy ones, for half of the time. */
enum load { LOAD_LIGHT, LOAD_HEAVY, LOADS };

struct fair_queue {
    struct conn_queue dirty[LOADS];     /* to write, close or watch again */
    struct conn_queue run_queue[LOADS]; /* with input that may execute */
    struct conn_queue deferred;         /* the same, once fewer changes are uncommitted */
    struct conn_queue reads[LOADS];     /* readable, waiting for their turn */
    struct conn_queue throttled;        /* stopped until the queue has room */
    bool last_read_light;               /* the last read was of a light connection */
    size_t read_bytes;                  /* in this round of the loop */
    uint64_t work;                      /* commands executed, or work of the same cost */
    uint64_t next_clock_work;           /* work at which the clock is read next */
};

/* Has bi_conn_finish_turn() called for the connection at the end of the turn. */
void bi_fair_queue_mark_dirty(struct conn *conn);
/* Enqueues a connection whose input may execute. No effect if it is queued or closed. */
void bi_fair_queue_enqueue_run(struct conn *conn);

/* Counts work, and reads the clock every CLOCK_WORK units: a turn must end in time also if it
 * submits nothing. */
void bi_fair_queue_count_work(struct server *server, uint64_t units);
/* The time that a connection may execute at once. */
int64_t bi_fair_queue_slice_us(const struct conn *conn);

/* Reads a readable connection, or enqueues it if it is heavy or the round has read much. */
void bi_fair_queue_on_readable(struct conn *conn);
/* True if a queued connection may be read. */
bool bi_fair_queue_has_readable(const struct server *server);
/* Reads queued connections for a slice of time. */
void bi_fair_queue_read(struct server *server);

/* Run, or finish the turn of, the connections that are in the queues now, until `end`. */
void bi_fair_queue_run(struct server *server, int64_t end);
void bi_fair_queue_write(struct server *server, int64_t end);
/* The same for light connections only. */
void bi_fair_queue_write_light(struct server *server, int64_t end);
bool bi_fair_queue_has_runnable(const struct server *server);
bool bi_fair_queue_has_dirty(const struct server *server);

/* False while the uncommitted changes of bulk senders fill a few commits. */
bool bi_fair_queue_accepts_bulk(const struct server *server);

#endif
