/* SPDX-License-Identifier: MIT */
/*
 * remote - what all clients of a server share: pending ops and their limits, cancel and expiry, the
 * I/O thread, reconnect with backoff, the resend policy, close.
 *
 * A client is one const struct of functions (struct remote_client) for its protocol. Its own state
 * begins with a struct remote, and its pending ops with a struct remote_op.
 *
 *     remote.c            the backend functions: open, submit, cancel, shutdown, close
 *     remote_op.c         pending ops: the list, expiry, loss of a connection, failures
 *     remote_thread.c     the I/O thread: poll, connect, reconnect
 *     remote_keepalive.c  detects a silent server
 *     remote_address      the URL of a server
 *     remote_socket       connects within a time limit; resolve.c looks up host names meanwhile
 *
 * An op is queued, then started (the client has passed it to a connection), then completed. When
 * its connection is lost, it is queued again, unless the server may have executed it and it is not
 * repeatable (OP_REPEATABLE of the op table): that completes with BIDE_EUNKNOWN.
 *
 * Time       Without a connection an op fails after connect_timeout. An op that waits (a reserve, a
 *            wait) keeps its own timeout instead. From the first loss on the client enforces that
 *            timeout, because the server would start counting again.
 * Bounds     max_pending_ops and max_pending_bytes for ops that do not wait, max_waiters for those
 *            that do. A blocking caller waits for room, any other gets BIDE_EBUSY.
 * Failure    A lost connection is not an error of an op. A waiting op fails early only when the
 *            server rejects this client: waiting does not cure that.
 * Threads    One lock guards everything below and the state of the ops. The functions of a client
 *            are called with the lock and keep it, unless stated otherwise: the list of ops must
 *            not change while it is walked. The lock is never held while ops complete, nor while
 *            the log is written.
 */
#ifndef BI_REMOTE_H
#define BI_REMOTE_H

#include "backend/backend.h"
#include "op/op_fifo.h"
#include "remote/remote_address.h"
#include "remote/remote_socket.h"

#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>

#define REMOTE_NEVER    INT64_MAX
#define REMOTE_POLL_MAX 1001 /* the most descriptors that a client polls */

struct remote;

/* A pending op. */
struct remote_op {
    struct remote_op *prev, *next; /* all pending ops, in order of submission */
    bide_op *op;
    uint64_t bytes;      /* counted in pending_bytes */
    int64_t deadline;    /* of a waiting op for its result; else for a connection */
    uint64_t activity;   /* remote->activity when a cancel was sent */
    unsigned reconnects; /* lost connections so far */
    bool waits;          /* the server may delay the reply */
    bool started;        /* passed to a connection */
    bool client_expires; /* the client enforces the deadline although the op is started */
    bool cancelled;      /* by the caller, */
    bool timed_out;      /* or because its deadline has passed, */
    bool shut;           /* or by shutdown: it may neither wait nor reserve jobs */
    bool internal;       /* made by the client itself; never completed to a caller */
};

/* The functions of a client. Those marked optional may be NULL. */
struct remote_client {
    const char *scheme;
    uint32_t capabilities; /* a bit set of bide_capability */

    /* submit passes ops to start() on the submitting thread. Otherwise the I/O thread does. */
    bool starts_at_submit;

    /* Optional, without the lock: BIDE_OK, or the code and error text of an op that the server
     * does not support. */
    int (*check)(bide_op *op);
    /* Without the lock: allocates an op, with bi_remote_op_init(). NULL: out of memory. */
    struct remote_op *(*new_op)(struct remote *remote, bide_op *op, bool shut);
    /* The last step before the op is listed. Returns BIDE_PENDING, or the result of the op with its
     * error text. */
    int (*prepare)(struct remote *remote, struct remote_op *op);
    /* There is a connection: sends the op and sets started, or leaves it queued. */
    void (*start)(struct remote *remote, struct remote_op *op);
    /* Optional: writes what is queued. May release the lock. */
    void (*flush)(struct remote *remote);
    /* Cancels an op at the server, which then completes it. False: the server does not know the op,
     * which is completed here. On any thread. */
    bool (*cancel)(struct remote *remote, struct remote_op *op);
    /* Completes an op that failed without a reply. text: NULL means that of the code. */
    void (*fail)(struct remote *remote, struct remote_op *op, int code, const char *text);
    /* Frees an op that has completed, or that was never listed. */
    void (*release)(struct remote *remote, struct remote_op *op);

    /* Without the lock: connects. BIDE_EINVAL: the server rejects this client. */
    int (*connect)(struct remote *remote, struct io_wait *io_wait, char *error);
    /* Optional: restores what the server has lost with the last connection. */
    void (*connected)(struct remote *remote);
    /* Optional: true if a connection is needed although no op is pending. */
    bool (*wants_connection)(const struct remote *remote);
    /* Reads what has arrived, calls bi_remote_thread_lost(), closes the connection, and passes the
     * ops that it carried to bi_remote_op_lost(). While closing also called without a connection,
     * to end all that is started. May release the lock before bi_remote_thread_lost(). */
    void (*disconnect)(struct remote *remote, const char *reason);

    /* Optional: sends a ping to a server that is silent. False: out of memory. May release the
     * lock. */
    bool (*ping)(struct remote *remote);
    /* Optional: the client's own work of a turn. Returns when to call it next. May release the
     * lock. */
    int64_t (*tick)(struct remote *remote, int64_t now);
    /* Fills in the descriptors to poll, at most REMOTE_POLL_MAX, and returns their number. */
    size_t (*poll)(struct remote *remote, struct pollfd *polled);
    /* Without the lock: reads and completes ops. False: the connection is lost, with the reason. */
    bool (*ready)(struct remote *remote, const struct pollfd *polled, size_t count, char *reason);

    /* Frees the client's own state and the struct itself; its thread has ended. */
    void (*free)(struct remote *remote);
};

struct remote {
    struct backend base;
    struct backend_ops ops; /* of base */
    const struct remote_client *client;
    struct backend_context context;
    struct address address;
    pthread_t thread;
    int wake_fd; /* ends the I/O thread's poll */
    int stop_fd; /* ends its connect: the queue is closing */

    pthread_mutex_t lock;
    pthread_cond_t below_limit; /* pending ops are below the limits; wakes one caller */
    unsigned callers;           /* blocked on below_limit */
    struct remote_op *first, *last;
    uint64_t pending_ops, pending_bytes; /* of ops that do not wait */
    uint64_t waiting;
    struct op_fifo completed; /* removed from the list, not yet passed to the caller */
    bool has_queued;          /* an op may be queued that start() has not seen */
    int64_t expire_at;        /* no enforced deadline is earlier */

    bool connected;
    bool broken;                        /* the connection is lost; the I/O thread disconnects */
    bool silent;                        /* because the server does not reply */
    uint64_t activity, activity_before; /* counts signs of life; at the last check of keepalive */
    int64_t keepalive_at;
    bool ping_sent; /* at the last check */

    _Atomic bool shut; /* written with the lock, read without */
    bool closing;
    int64_t close_deadline;

    /* Only the I/O thread's. */
    unsigned attempts;       /* failed or lost connections since the last reply */
    int64_t reconnect_at;    /* not earlier */
    int64_t disconnected_at; /* valid without a connection */
    struct bi_random random;
    char reason[BIDE_ERROR_SIZE]; /* why there is no connection */
};

/* ---- the backend functions (remote.c) ---- */

/* Starts a connected client. Takes remote, which is zeroed but for the client's own state: on
 * failure client->free() has been called. */
int bi_remote_open(struct remote *remote, const struct remote_client *client,
                   const struct backend_context *context, const struct address *address,
                   struct backend **out, char *error);
/* Ends the poll of the I/O thread. */
void bi_remote_wake(const struct remote *remote);
/* Releases the lock and passes completed ops to their owners. */
void bi_remote_unlock(struct remote *remote);

/* ---- pending ops (remote_op.c; with the lock, unless stated otherwise) ---- */

/* Sets waits, shut and the deadline. Without the lock. */
void bi_remote_op_init(const struct remote *remote, struct remote_op *remote_op, bide_op *op,
                       bool shut);
void bi_remote_op_add(struct remote *remote, struct remote_op *op);
/* Removes it from the list and the counters. */
void bi_remote_op_remove(struct remote *remote, struct remote_op *op);
/* Removes it, adds its op, whose status is set, to completed, and releases it. */
void bi_remote_op_complete(struct remote *remote, struct remote_op *op);
/* True if a limit is reached: the op must wait for room. */
bool bi_remote_op_is_full(const struct remote *remote, const struct remote_op *op);
/* Wakes one blocked caller if pending ops are below the limits. */
void bi_remote_op_wake_caller(struct remote *remote);
/* Passes all queued ops to start(). */
void bi_remote_op_start_queued(struct remote *remote);
/* It is not started: the I/O thread starts it, or fails it at its deadline. */
void bi_remote_op_queue(struct remote *remote, struct remote_op *op);
/* Its connection is lost. sent: the server may have executed it. Fails it, or queues it again. */
void bi_remote_op_lost(struct remote *remote, struct remote_op *op, bool sent);
/* Queues a started op again; one that was cancelled meanwhile fails instead. */
void bi_remote_op_requeue(struct remote *remote, struct remote_op *op);
/* Cancels it at the server or, if the server does not know it, here. */
void bi_remote_op_cancel(struct remote *remote, struct remote_op *op);
/* Fails it with the reason of the abort: cancel, timeout or shutdown; else with code. */
void bi_remote_op_abort(struct remote *remote, struct remote_op *op, int code);
/* Lowers expire_at to the deadline of the op. */
void bi_remote_op_arm_expiry(struct remote *remote, const struct remote_op *op);
/* Expires ops and recomputes expire_at. False: the server is unresponsive. */
bool bi_remote_op_expire(struct remote *remote, int64_t now);
/* The server rejects this client: fails the ops that wait. */
void bi_remote_op_reject_waiting(struct remote *remote, const char *reason);
/* Fails the ops that are not started: the queue is closing. */
void bi_remote_op_close_queued(struct remote *remote);

/* ---- error texts (any thread) ---- */

/* Sets the code and its general text, and no other result. */
void bi_remote_op_set_code(bide_op *op, int code);
/* Sets code, error text (NULL: the code's own), and the finish of a finish_and_reserve. */
void bi_remote_op_set_failed(bide_op *op, int code, const char *error);
/* The text of BIDE_EUNKNOWN: it was sent, and the reply is lost. text has BIDE_ERROR_SIZE bytes. */
void bi_remote_op_describe_unknown(const struct remote *remote, const bide_op *op, char *text);

/* ---- the I/O thread (remote_thread.c) ---- */

void *bi_remote_thread_run(void *argument);
/* With the lock: the connection is lost. Schedules the next attempt, with backoff. */
void bi_remote_thread_lost(struct remote *remote, const char *reason);

/* ---- silent servers (remote_keepalive.c; with the lock) ---- */

/* Starts a new interval. */
void bi_remote_keepalive_reset(struct remote *remote);
/* Sends a ping if the server has been silent. False: it did not react to a ping either. */
bool bi_remote_keepalive_is_alive(struct remote *remote, int64_t now);

#endif
