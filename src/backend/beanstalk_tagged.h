/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_tagged - the client of a bided: every op travels as one `call`, over one connection.
 *
 *     call <tag> <op> <bytes>CRLF<arguments>CRLF      ANSWER <tag> <code> <bytes>CRLF<result>CRLF
 *
 * Answers come in any order, so what waits at the server (a reserve, a wait, a feed) keeps nobody
 * else from his answer. The encoded arguments belong to the request, which outlives connections: it
 * can be sent again without looking at the caller's memory.
 *
 *     beanstalk_tagged.c     the functions of the backend
 *     beanstalk_request.c    requests: made of ops, listed in their order, found by their tags
 *     beanstalk_send.c       requests leave, many with one write
 *     beanstalk_receive.c    answers come
 *     beanstalk_thread.c     the thread: it reads, connects again, and looks at the time
 *     beanstalk_silence.c    a server that keeps the connection and does not answer
 *     beanstalk_loss.c       what becomes of requests when a connection is lost, and found
 *     beanstalk_feed.c       feeds of events, which are made again with each connection
 *     beanstalk_reference.c  references to topics, the same
 *
 * Threads    One lock. Whoever submits writes himself if nobody else is writing; the thread of the
 *            queue reads, and writes when the socket had no room. No lock is held while the system
 *            or a completion is called.
 */
#ifndef BI_BEANSTALK_TAGGED_H
#define BI_BEANSTALK_TAGGED_H

#include "backend/backend.h"
#include "backend/beanstalk_address.h"
#include "backend/call.h"
#include "backend/oplist.h"
#include "util/hash.h"

#include <pthread.h>
#include <stdatomic.h>

#define NEVER INT64_MAX

struct feed;
struct reference;
struct request;

/* Bytes on their way out: a call, or the wish to cancel one. */
struct outgoing {
    struct outgoing *next;
    struct request *request;
    const unsigned char *data;
    size_t size;
    bool queued; /* in the list, perhaps written in part */
};

struct request {
    struct request *prev, *next; /* all of them, in the order of submission */
    bide_op *op;
    bide_op *inner;              /* what travels in its place; owned */
    bide_op *own_op;             /* the op of a call that the client makes for itself; owned */
    struct feed *feed;           /* of subscribe, events, unsubscribe */
    struct reference *reference; /* of topic_ref; owned */
    uint32_t tag;
    struct call_bytes bytes; /* room for the first line, then the arguments */
    uint64_t counted;        /* in pending_bytes */
    int64_t deadline;        /* the op waits until then for its answer; else, for a connection */
    uint64_t signs;          /* tagged->signs when the deadline was set */
    unsigned losses;         /* how many connections it has outlived */
    bool waits;              /* the server may let it wait */
    bool sent;               /* completely written on this connection */
    bool late;               /* its own time is looked at here, not only by the server */
    bool cancelled, timed_out, shut; /* why it was given up, or may not wait */
    bool internal;                   /* the op is a feed's or the client's own */
    bool gone;                       /* answered; it stays until its cancel has left */
    struct outgoing call, cancel;
    char cancel_line[32];
    int code; /* of the answer, and its bytes: only while it is being read */
    const unsigned char *answer;
    size_t answer_size;
    uint64_t number; /* of the feed, from a subscribe */
};

/* Requests by their tags, which are used again. */
struct tags {
    struct request **requests; /* by tag - 1 */
    uint32_t *unused;          /* a pile of tags */
    uint32_t count, room, unused_count;
};

struct tagged {
    struct backend base;
    struct backend_context context;
    struct address address;
    pthread_t thread;
    int wake_fd; /* for the thread: there is something new */
    int stop_fd; /* for it, too: no call waits for a connection any more */

    pthread_mutex_t lock;
    pthread_cond_t room;  /* something has completed */
    pthread_cond_t quiet; /* nobody is writing */
    struct request *first, *last;
    struct tags tags;
    uint64_t pending_ops, pending_bytes; /* of those that do not wait */
    uint64_t waiting;
    struct feed *feeds;
    struct reference *references;

    int fd;
    bool connected;
    bool sending; /* somebody writes; the socket must stay */
    bool blocked; /* the socket has no room: the thread goes on when it has */
    bool broken;  /* a write has failed */
    struct outgoing *out_head, *out_tail;
    struct outgoing *urgent_head, *urgent_tail; /* to be written before those */
    size_t out_written;                         /* of the first */
    size_t in_flight; /* calls that were sent, have no answer and do not wait */

    unsigned char *in; /* only the thread's */
    size_t in_size, in_used, in_room;

    uint64_t signs, signs_before; /* of life, now and at the last check */
    int64_t check_at;
    bool asked; /* whether the server is there, at the last check */
    bide_op ping;

    _Atomic bool shut; /* written with the lock */
    bool closing;
    int64_t close_by;
    unsigned attempts; /* connections that failed, or were lost before they gave an answer */
    int64_t try_at;    /* not before */
    int64_t lost_at;   /* when there was a connection last, if there is none */
    int64_t look_at;   /* when a request that waits here may be over */
    struct bi_random random;
    char reason[BIDE_ERROR_SIZE]; /* why there is no connection */
};

/* ---- requests (with the lock, if not said otherwise) ---- */

/* Makes a request of an op; without the lock, on the submitting thread. shut: it may not wait, nor
 * take jobs. NULL: out of memory. */
struct request *bi_client_request_new(const struct tagged *tagged, bide_op *op, bool shut);
void bi_client_request_free(struct request *request);
/* Encodes the arguments; false: out of memory. */
bool bi_client_request_encode(const struct tagged *tagged, struct request *request, uint64_t feed);
/* Gives it a tag and a place at the end of the list; false: out of memory. */
bool bi_client_request_add(struct tagged *tagged, struct request *request);
/* Writes the line that ends where the arguments begin; all of it is then in request->call. */
void bi_client_request_write_head(struct request *request);
struct request *bi_client_request_find(const struct tagged *tagged, uint64_t tag);
/* Takes it out of everything: it has its answer. */
void bi_client_request_remove(struct tagged *tagged, struct request *request);
/* Frees it, at once or when its cancel has left. */
void bi_client_request_release(struct request *request);
/* Takes it out, and adds its op, which has its status, to those that have completed. */
void bi_client_request_end(struct tagged *tagged, struct request *request,
                           struct op_list *completed);
/* Its op gets the code of whoever gave it up; if nobody did, this one. */
void bi_client_request_give_up(struct request *request, int code);
void bi_tags_free(struct tags *tags);

/* ---- sending (with the lock) ---- */

/* Calls leave in order, and are kept back while BI_CALLS_MAX are in flight. */
void bi_send_call(struct tagged *tagged, struct request *request);
/* A call of our own that is not kept back, and overtakes those that are. */
void bi_send_ping(struct tagged *tagged, struct request *request);
void bi_send_cancel(struct tagged *tagged, struct request *request);
/* Writes what there is, unless somebody else does. The lock is given back meanwhile. */
void bi_send_flush(struct tagged *tagged);
/* Forgets what is queued: the connection is lost. */
void bi_send_clear(struct tagged *tagged);
/* Takes back the mark that the call was sent. */
void bi_send_forget(struct tagged *tagged, struct request *request);
/* Waits until nobody is writing. */
void bi_send_quiet(struct tagged *tagged);
/* Wakes the thread. */
void bi_send_ring(const struct tagged *tagged);

/* ---- receiving (on the thread, without the lock) ---- */

/* Reads what is there and completes ops. False when the connection is lost; reason says why. */
bool bi_receive(struct tagged *tagged, char *reason);

/* ---- the thread ---- */

void *bi_tagged_run(void *argument);

/* ---- silence (with the lock, on the thread) ---- */

/* There is a connection, or a check was made. */
void bi_silence_begin(struct tagged *tagged);
/* False when the server has been silent for too long. */
bool bi_silence_check(struct tagged *tagged, int64_t now);

/* ---- losing and finding connections (with the lock) ---- */

/* The connection is no more; what cannot be asked again is added to completed. */
void bi_loss_lost(struct tagged *tagged, const char *reason, struct op_list *completed);
/* There was none to be had; when to try again. */
void bi_loss_retry(struct tagged *tagged, const char *reason);
/* There is a new one: everything is sent (again). */
void bi_loss_found(struct tagged *tagged, int fd);
/* The server is there and does not want this client: ends what waits. */
void bi_loss_refused(struct tagged *tagged, const char *reason, struct op_list *completed);
/* Looks at the request's time from now on. */
void bi_loss_watch(struct tagged *tagged, const struct request *request);
/* Ends those whose time is over, and sets look_at. False: the server does not answer any more. */
bool bi_loss_look(struct tagged *tagged, int64_t now, struct op_list *completed);
/* Ends every request: the queue is closed, and there is no connection. */
void bi_loss_end(struct tagged *tagged, struct op_list *completed);

/* ---- feeds (with the lock) ---- */

/* Makes ready a request that is about feeds. BIDE_PENDING, or a code, with its sentence in the op:
 * then it is not sent. What else completes by it is added to completed. */
int bi_client_feed_begin(struct tagged *tagged, struct request *request, struct op_list *completed);
/* May it be sent now? Not before its feed has been made (again). */
bool bi_client_feed_is_made(const struct request *request);
/* Is it about a feed that has ended, and will not be made again? */
bool bi_client_feed_is_over(const struct request *request);
/* Its answer is in the op. */
void bi_client_feed_answered(struct tagged *tagged, struct request *request,
                             struct op_list *completed);
/* The connection is lost, and the feeds with it; or found, and they are made again. */
void bi_client_feed_lost(struct tagged *tagged);
void bi_client_feed_found(struct tagged *tagged);
/* A request lets go of its feed. */
void bi_client_feed_leave(struct request *request);
void bi_client_feed_free_all(struct tagged *tagged);

/* ---- references to topics (with the lock) ---- */

/* As bi_client_feed_begin(), for topic_ref. */
int bi_client_reference_begin(struct request *request);
void bi_client_reference_answered(struct tagged *tagged, struct request *request);
/* There is a connection again: the references are made again. */
void bi_client_reference_found(struct tagged *tagged);
void bi_client_reference_free_all(struct tagged *tagged);

/* ---- the backend ---- */

/* Takes over a connection on which the server has said hello. */
int bi_tagged_open(const struct backend_context *context, const struct address *address, int fd,
                   struct backend **out, char *error);

#endif
