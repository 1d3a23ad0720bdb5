/* SPDX-License-Identifier: MIT */
/*
 * bided_client - the client of a bided: each op travels as one `call`, over one connection.
 *
 *     call <tag> <op> <bytes>CRLF<arguments>CRLF      ANSWER <tag> <code> <bytes>CRLF<result>CRLF
 *
 * Replies may arrive in any order, so an op that waits at the server (a reserve, a wait, an event
 * stream) does not delay the replies of others. The encoded arguments belong to the request, which
 * outlives connections: it can be resent without reading the caller's memory.
 *
 *     bided_client.c        the backend functions: submit, cancel, shutdown, close
 *     bided_request.c       requests: encoding, the list of pending ones, tags
 *     bided_send.c          the send queue: many calls in one write
 *     bided_receive.c       replies: parsing, completion
 *     bided_thread.c        the I/O thread: read, reconnect, expire
 *     bided_keepalive.c     detection of a silent server
 *     bided_reconnect.c     requests on disconnect, on reconnect and at their deadlines
 *     bided_event_stream.c  event streams, restored on each connection
 *     bided_topic_ref.c     topic references, restored on each connection
 *
 * Ordering   Calls are written in the order of submission. Cancels and pings may overtake them.
 * Failure    A lost connection is not an error of the op; see bided_reconnect.c for the exceptions.
 * Threads    One lock. A submitting thread writes by itself unless another thread is writing. The
 *            I/O thread reads, and writes when the socket was full. The lock is not held during
 *            socket I/O, nor during completions.
 */
#ifndef BI_BIDED_CLIENT_H
#define BI_BIDED_CLIENT_H

#include "backend/backend.h"
#include "op/op_codec.h"
#include "op/op_fifo.h"
#include "remote/remote_address.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdatomic.h>

#define NEVER INT64_MAX

struct event_stream;
struct topic_ref;
struct request;

/* An item of the send queue: a call, or a cancel line. */
struct outgoing {
    struct outgoing *next;
    struct request *request;
    const unsigned char *data;
    size_t size;
    bool queued; /* in the queue, perhaps partly written */
};

struct request {
    struct request *prev, *next; /* all pending requests, in order of submission */
    bide_op *op;
    bide_op *substitute;         /* sent instead of op; owned */
    bide_op *internal_op;        /* the op of an internal request; owned, or NULL */
    struct event_stream *stream; /* of subscribe, events, unsubscribe; one reference */
    struct topic_ref *topic_ref; /* of topic_ref; owned */
    uint32_t tag;
    struct op_bytes bytes;           /* room for the header, then the arguments */
    uint64_t counted_bytes;          /* part of pending_bytes */
    int64_t deadline;                /* of a waiting op for its result; else for a connection */
    uint64_t activity;               /* bided->activity when a cancel's deadline was set */
    unsigned reconnects;             /* lost connections so far */
    bool waits;                      /* the server may delay the reply */
    bool sent;                       /* completely written on this connection */
    bool client_expires;             /* the client enforces deadline although connected */
    bool cancelled, timed_out, shut; /* why it was aborted, or may not wait */
    bool internal; /* a ping or restore by the client itself; never completed to a caller */
    bool answered; /* completed; freed when its cancel line is written */
    struct outgoing call, cancel;
    char cancel_line[32];
    int code; /* code and response: valid while the reply is decoded */
    const unsigned char *response;
    size_t response_size;
    uint64_t number; /* of the stream, from the reply to a subscribe */
};

/* Requests by tag. Tags are small numbers, reused at once. */
struct tags {
    struct request **requests; /* index: tag - 1 */
    uint32_t *unused;          /* a stack */
    uint32_t count, room, unused_count;
};

struct bided {
    struct backend base;
    struct backend_context context;
    struct address address;
    pthread_t thread;
    int wake_fd; /* ends the I/O thread's poll */
    int stop_fd; /* ends its connect: the queue is closing */

    pthread_mutex_t lock;
    pthread_cond_t below_limit; /* pending ops are below the limits; wakes one caller */
    unsigned callers;           /* blocked on below_limit */
    pthread_cond_t send_idle;   /* sending is false */
    struct request *first, *last;
    struct tags tags;
    uint64_t pending_ops, pending_bytes; /* of requests that do not wait */
    uint64_t waiting;
    struct event_stream *streams;
    uint64_t last_stream; /* serial of the newest */
    struct topic_ref *topic_refs;

    int fd;
    bool connected;
    bool sending; /* a thread is writing: the socket must stay open */
    bool blocked; /* the socket is full: the I/O thread continues */
    bool broken;  /* a write has failed; the I/O thread disconnects */
    struct outgoing *out_head, *out_tail;
    struct outgoing *urgent_head, *urgent_tail; /* written before the others */
    size_t out_written;                         /* bytes of out_head that are written */
    size_t in_flight;                           /* calls sent without reply that do not wait */

    unsigned char *in; /* the I/O thread's */
    size_t in_size, in_used, in_room;

    uint64_t activity, activity_before; /* counts input and writability; at the last check */
    int64_t keepalive_at;
    bool ping_sent; /* at the last check */
    bide_op ping;

    _Atomic bool shut; /* written with the lock, read without */
    bool closing;
    int64_t close_deadline;
    unsigned attempts;       /* failed or lost connections since the last reply */
    int64_t reconnect_at;    /* not earlier */
    int64_t disconnected_at; /* valid without a connection */
    int64_t expire_at;       /* no enforced deadline is earlier */
    struct bi_random random;
    char reason[BIDE_ERROR_SIZE]; /* why there is no connection */
};

/* ---- requests (with the lock, unless stated otherwise) ---- */

/* Creates a request for an op, and encodes it. Called without the lock, on the submitting
 * thread. shut: it may neither wait nor reserve jobs. NULL: out of memory. */
struct request *bi_bided_request_new(const struct bided *bided, bide_op *op, bool shut);
void bi_bided_request_free(struct request *request);
/* Encodes the arguments, again if they were encoded before. False: out of memory. */
bool bi_bided_request_encode(const struct bided *bided, struct request *request,
                             uint64_t stream_id);
/* Allocates a tag and appends it to the list. False: out of memory, nothing has changed. */
bool bi_bided_request_add(struct bided *bided, struct request *request);
/* Writes the header in front of the arguments; request->call is then the whole call. */
void bi_bided_request_write_header(struct request *request);
struct request *bi_bided_request_find(const struct bided *bided, uint64_t tag);
/* Removes it from the list and the counters. Its call must not be queued. */
void bi_bided_request_remove(struct bided *bided, struct request *request);
/* Wakes one blocked caller if pending ops are below the limits. */
void bi_client_request_let_in(struct bided *bided);
/* Frees it, now or when its queued cancel line has been written. */
void bi_bided_request_release(struct request *request);
/* Removes it and adds its op, whose status is set, to completed. */
void bi_bided_request_complete(struct bided *bided, struct request *request,
                               struct op_fifo *completed);
/* Sets the op's code to the reason of the abort: cancel, timeout or shutdown; else to code. */
void bi_bided_request_set_abort_code(struct request *request, int code);
void bi_bided_request_free_tags(struct tags *tags);

/* ---- sending (with the lock) ---- */

/* Queues a call. Calls are written in order, at most BI_RPC_IN_FLIGHT_MAX of them in flight. */
void bi_bided_send_call(struct bided *bided, struct request *request);
/* Queues an internal call ahead of others, without regard to that limit. */
void bi_bided_send_ping(struct bided *bided, struct request *request);
void bi_bided_send_cancel(struct bided *bided, struct request *request);
/* Writes the queue, unless another thread does. Releases the lock meanwhile. */
void bi_bided_send_flush(struct bided *bided);
/* Discards the queue: the connection is lost. */
void bi_bided_send_clear(struct bided *bided);
/* The call has its reply, or its connection is lost: it is not in flight any more. */
void bi_bided_send_mark_unsent(struct bided *bided, struct request *request);
/* Waits until no thread is writing. Releases the lock meanwhile. */
void bi_bided_send_wait_idle(struct bided *bided);
void bi_bided_send_wake_thread(const struct bided *bided);

/* ---- receiving (on the I/O thread, without the lock) ---- */

/* Reads once and completes ops. False: the connection is lost, with the reason. */
bool bi_bided_receive(struct bided *bided, char *reason);

/* ---- the I/O thread ---- */

void *bi_bided_thread_run(void *argument);

/* ---- keepalive (with the lock, on the I/O thread) ---- */

/* Starts a new interval. */
void bi_bided_keepalive_reset(struct bided *bided);
/* Sends a ping if the server has been silent. False: it did not react to a ping either. */
bool bi_bided_keepalive_check(struct bided *bided, int64_t now);

/* ---- disconnect, reconnect, expiry (with the lock) ---- */

/* Closes the connection. Requests that cannot be resent are added to completed. Releases the lock
 * while another thread is writing. */
void bi_bided_reconnect_disconnect(struct bided *bided, const char *reason,
                                   struct op_fifo *completed);
/* A connection failed or was lost: sets reconnect_at, with backoff. */
void bi_bided_reconnect_schedule(struct bided *bided, const char *reason);
/* Uses a new connection: restores streams and topic references, and sends all pending requests. */
void bi_bided_reconnect_resume(struct bided *bided, int fd);
/* The server rejects this client: fails the requests that wait. */
void bi_bided_reconnect_reject_waiting(struct bided *bided, const char *reason,
                                       struct op_fifo *completed);
/* Lowers expire_at to the deadline of the request. */
void bi_bided_reconnect_arm_expiry(struct bided *bided, const struct request *request);
/* Expires requests and recomputes expire_at. False: the server is unresponsive. */
bool bi_bided_reconnect_expire(struct bided *bided, int64_t now, struct op_fifo *completed);
/* Aborts every request: the queue is closing and there is no connection. */
void bi_bided_reconnect_abort_all(struct bided *bided, struct op_fifo *completed);

/* ---- event streams (with the lock) ---- */

/* Prepares a request that concerns a stream. Returns BIDE_PENDING to send it, or the result of
 * the op, with its error text. Requests that an unsubscribe ends are added to completed. */
int bi_bided_event_stream_prepare(struct bided *bided, struct request *request,
                                  struct op_fifo *completed);
/* The prepared request is in the list: an unsubscribe ends its stream. */
void bi_bided_event_stream_added(struct bided *bided, const struct request *request);
/* False while its stream waits to be subscribed (again). */
bool bi_bided_event_stream_is_ready(const struct request *request);
/* True for an events call whose stream was unsubscribed: it must not be resent. */
bool bi_bided_event_stream_is_closed(const struct request *request);
/* Handles a decoded reply. */
void bi_bided_event_stream_complete(struct bided *bided, struct request *request,
                                    struct op_fifo *completed);
/* Disconnect: the server has dropped the streams. Reconnect: subscribes them again. */
void bi_bided_event_stream_suspend(struct bided *bided);
void bi_bided_event_stream_restore(struct bided *bided);
/* Drops the request's reference to its stream. */
void bi_bided_event_stream_release(struct request *request);
void bi_bided_event_stream_free_all(struct bided *bided);

/* ---- topic references (with the lock) ---- */

/* As bi_bided_event_stream_prepare(), for topic_ref. */
int bi_bided_topic_ref_prepare(struct request *request);
void bi_bided_topic_ref_complete(struct bided *bided, struct request *request);
/* Reconnect: takes the references again. */
void bi_bided_topic_ref_restore(struct bided *bided);
void bi_bided_topic_ref_free_all(struct bided *bided);

/* ---- the backend ---- */

/* Creates the backend on a connection that completed the handshake. Takes fd, on failure too. */
int bi_bided_client_open(const struct backend_context *context, const struct address *address,
                         int fd, struct backend **out, char *error);

#endif
