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
 *     bided_client.c        the functions of the client (remote.h): start, cancel, connect, poll
 *     bided_request.c       requests: encoding, tags
 *     bided_send.c          the send queue: many calls in one write
 *     bided_receive.c       replies: parsing, completion
 *     bided_event_stream.c  event streams, restored on each connection
 *     bided_topic_ref.c     topic references, restored on each connection
 *
 * Ordering   Calls are written in the order of submission. Cancels and pings may overtake them.
 * Threads    The lock is that of struct remote. A submitting thread writes by itself unless another
 *            thread is writing. The I/O thread reads, and writes when the socket was full. The lock
 *            is not held during socket I/O.
 */
#ifndef BI_BIDED_CLIENT_H
#define BI_BIDED_CLIENT_H

#include "op/op_codec.h"
#include "remote/remote.h"

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
    struct remote_op base;
    bide_op *substitute;         /* sent instead of the op; owned */
    bide_op *internal_op;        /* of an internal request; owned */
    struct event_stream *stream; /* of subscribe, events, unsubscribe; one reference */
    struct topic_ref *topic_ref; /* of topic_ref; owned */
    uint32_t tag;                /* 0: none */
    struct op_bytes bytes;       /* room for the header, then the arguments */
    bool sent;                   /* completely written on this connection */
    bool answered;               /* completed; freed when its cancel line is written */
    struct outgoing call, cancel;
    char cancel_line[32];
    int code;                      /* code and response: valid while the reply is decoded */
    const unsigned char *response; /* NULL: there is no memory for it */
    size_t response_size;
    struct request *next_answered; /* while its reply is decoded */
    uint64_t number;               /* of the stream, from the reply to a subscribe */
};

struct out_queue {
    struct outgoing *head, *tail;
};

/* Requests by tag. Tags are small numbers, reused at once. */
struct tags {
    struct tag_slot {
        struct request *request; /* NULL: unused */
        uint32_t next_unused;    /* a tag; 0: none */
    } * slots;                   /* index: tag - 1 */
    uint32_t count, room;
    uint32_t unused; /* the first of a list */
};

struct bided {
    struct remote remote;
    pthread_cond_t send_idle; /* sending is false */
    struct tags tags;
    struct event_stream *streams;
    uint64_t last_stream; /* serial of the newest */
    struct topic_ref *topic_refs;

    int fd;
    bool sending;                 /* a thread is writing: the socket must stay open */
    bool blocked;                 /* the socket is full: the I/O thread continues */
    struct out_queue out, urgent; /* urgent items are written before the others */
    size_t out_written;           /* bytes of the first item of out that are written */
    size_t in_flight;             /* calls sent without reply that do not wait */

    struct remote_buffer in; /* the I/O thread's */
    struct request *ping;    /* without a reply yet; NULL: none */
};

static inline struct bided *bi_bided_of(struct remote *remote)
{
    return (struct bided *)(void *)remote;
}

static inline struct request *bi_request_of(struct remote_op *op)
{
    return (struct request *)(void *)op;
}

/* ---- requests (with the lock, unless stated otherwise) ---- */

/* Creates a request for an op, and encodes it. Called without the lock, on the submitting
 * thread. shut: it may neither wait nor reserve jobs. NULL: out of memory. */
struct request *bi_bided_request_new(const struct bided *bided, bide_op *op, bool shut);
/* The same for a copy of an op of the client itself, with a tag and listed; to be sent at once. */
struct request *bi_bided_request_new_internal(struct bided *bided, const bide_op *op);
void bi_bided_request_free(struct request *request);
/* Encodes the arguments, again if they were encoded before. False: out of memory. */
bool bi_bided_request_encode(const struct bided *bided, struct request *request,
                             uint64_t stream_id);
/* False: out of memory, nothing has changed. */
bool bi_bided_request_allocate_tag(struct bided *bided, struct request *request);
/* The request has its reply, or ends without one: its tag can be reused. */
void bi_bided_request_release_tag(struct bided *bided, struct request *request);
/* Writes the header in front of the arguments; request->call is then the whole call. */
void bi_bided_request_write_header(struct request *request);
struct request *bi_bided_request_find(const struct bided *bided, uint64_t tag);
/* Frees a request that is not listed, now or when its queued cancel line has been written. */
void bi_bided_request_release(struct bided *bided, struct request *request);

/* ---- sending (with the lock) ---- */

/* Queues a call. Calls are written in order, at most BI_RPC_IN_FLIGHT_MAX of them in flight. A ping
 * is written ahead of others, without regard to that limit. */
void bi_bided_send_call(struct bided *bided, struct request *request);
void bi_bided_send_cancel(struct bided *bided, struct request *request);
/* Writes the queue, unless another thread does. Releases the lock meanwhile. */
void bi_bided_send_flush(struct bided *bided);
/* Discards the queue: the connection is lost. */
void bi_bided_send_clear(struct bided *bided);
/* The call has its reply, or its connection is lost: it is not in flight any more. */
void bi_bided_send_mark_unsent(struct bided *bided, struct request *request);
/* Waits until no thread is writing. Releases the lock meanwhile. */
void bi_bided_send_wait_idle(struct bided *bided);

/* ---- receiving (on the I/O thread, without the lock) ---- */

/* Reads once and completes ops. False: the connection is lost, with the reason. */
bool bi_bided_receive(struct bided *bided, char *reason);

/* ---- event streams (with the lock) ---- */

/* Prepares a request that concerns a stream. Returns BIDE_PENDING to send it, or the result of
 * the op, with its error text. */
int bi_bided_event_stream_prepare(struct bided *bided, struct request *request);
/* The request will be sent: an unsubscribe ends its stream. */
void bi_bided_event_stream_commit(struct bided *bided, const struct request *request);
/* False while its stream waits to be subscribed (again). */
bool bi_bided_event_stream_is_ready(const struct request *request);
/* True for an events call whose stream was unsubscribed: it must not be resent. */
bool bi_bided_event_stream_is_closed(const struct request *request);
/* Handles a decoded reply. */
void bi_bided_event_stream_complete(struct bided *bided, struct request *request);
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
