/* SPDX-License-Identifier: MIT */
/*
 * conn - one connection: bytes in and out, limits, events, and its end. It knows no command; the
 * protocol of its listener does (protocol.h).
 *
 * Ordering   The protocol decides the order of replies. It counts commands whose replies keep the
 *            order of the commands (pipelined), and those that are replied to when they complete
 *            (calls).
 * Limits     A connection is not read while its input is full, while more than OUTPUT_HIGH bytes
 *            wait to be sent, while too much is in flight, and after its end. Only a close by the
 *            peer is watched for then.
 * Close      dead closes at once. quit and eof let commands in flight complete and the output
 *            drain; a TCP connection then lingers until the peer has acknowledged all of it. What
 *            the connection holds is released in slices (release.c).
 * Ownership  The server owns its connections. bi_conn_finish_turn() and bi_conn_close() may free
 *            one.
 */
#ifndef BI_CONN_H
#define BI_CONN_H

#include "op/op_codec.h"
#include "server/admission.h"
#include "server/fair_queue.h"
#include "server/output.h"
#include "server/protocol.h"

#include <assert.h>
#include <event2/event_struct.h>

#define READ_MAX            ((size_t)128 << 10) /* bytes of one read, and of the unexecuted input */
#define SCRATCH_SIZE        ((size_t)512 << 10) /* input of one batch */
#define PIPELINE_MAX        1024                /* pipelined commands of one connection, */
#define PIPELINE_MAX_TIGHT  16                  /* and while clients use half of max_client_bytes */
#define CALLS_MAX           BI_RPC_IN_FLIGHT_MAX /* calls that do not wait */
#define UNREAD_MAX          ((size_t)64 << 20) /* replies to calls that a client may leave unread */
#define UNREAD_SHARE        ((size_t)1 << 20)  /* the same while memory is short */
#define OUTPUT_HIGH         ((size_t)256 << 10) /* with more unsent output, no command executes */
#define EXPECTED_BYTES_HIGH ((size_t)8 << 20)   /* reply bodies that commands in flight may bring */
#define BODY_COUNTED_MIN    ((size_t)4 << 10)   /* least memory counted for a partial body */

struct server;

/* The place of a connection in a list. */
struct conn_node {
    struct conn_queue *queue; /* NULL: in none */
    struct conn *prev, *next;
};

/* What is in flight. The protocol counts; the server reads it for every command. */
struct conn_load {
    uint32_t pipelined;   /* commands whose replies keep their order, */
    uint32_t blocking;    /* of these, those behind which no command executes, */
    uint32_t speculative; /* and of these, those in the batch, which may complete at once */
    size_t calls;         /* commands replied to in any order; */
    size_t calls_waiting; /* of these, those that wait for an event, not for a commit */

    size_t expected_bytes;   /* upper bound of the replies to pipelined and batched commands, */
    size_t call_reply_bytes; /* and to calls in flight */
    size_t unreplied_count;  /* completed calls whose replies wait for room in the output, */
    size_t unreplied_bytes;  /* and the bytes that these hold */
};

/* A body that is larger than the input, and incomplete. Only the bytes received count as memory,
 * not the whole buffer: the kernel allocates pages when they are written. The buffer of a large
 * body grows with it. */
struct conn_body {
    bide_buf *buf;
    char *data;      /* of buf, */
    size_t room;     /* capacity of data, */
    size_t received; /* bytes received, */
    size_t size;     /* and bytes of the whole body */
    int64_t started_at;
};

struct conn {
    struct server *server;
    const struct protocol *protocol;
    void *protocol_state; /* of the protocol in this server */
    uint32_t order;       /* of its ops: not 0, differs between connections */
    struct conn_node nodes[CONN_LISTS];
    int fd;
    struct event event;
    struct event timer; /* the alarm of the protocol, and while lingering */
    bool untimed;       /* timer could not be added; bi_conn_look_again() stands in for it */
    short events;       /* that event is added for */
    bool tcp;

    bool eof;         /* end of file was read */
    bool half_closed; /* the peer has shut down its side */
    bool quit;        /* no further command executes */
    bool dead;        /* close at the end of the turn, unsent output or not */
    bool closed;      /* the socket is closed */
    bool failed;      /* has ended, but not by a stop of the server */
    bool lingering;   /* closed when the peer has acknowledged the output */

    bool bulk;        /* the last read brought many commands, slow ones, or none */
    bool paused;      /* by admission: not read or executed */
    bool need_input;  /* the input is an incomplete command */
    bool mid_command; /* the protocol has consumed a part of a command, */
    bool discarding;  /* which is discarded */
    bool blocked;     /* the next command waits for the reply to an earlier one */
    bool deferred;    /* the next command waits until fewer changes are uncommitted */
    bool may_defer;   /* the next command is deferred if it writes */

    struct conn_load load;
    char *input; /* received, not executed */
    size_t input_size;
    struct conn_body *body; /* NULL: none is incomplete */
    struct output output;
    size_t memory; /* its part of server->client_bytes */

    int64_t opened_at;
    int64_t last_active_at;   /* last input, wait or held job */
    int64_t last_drained_at;  /* last progress of the output, or no output */
    int64_t last_received_at; /* last input, or no partial command */
    int64_t linger_end;
    int32_t linger_wait; /* us until the next check */

    struct conn_admission admission;
};

/* ---- lists ---- */

static inline bool bi_conn_is_in(const struct conn *conn, enum conn_list list)
{
    return conn->nodes[list].queue != NULL;
}

static inline struct conn *bi_conn_next(const struct conn *conn, enum conn_list list)
{
    return conn->nodes[list].next;
}

/* Appends a connection that is in no queue of this list. */
static inline void bi_conn_enqueue(struct conn *conn, enum conn_list list, struct conn_queue *queue)
{
    assert(!bi_conn_is_in(conn, list) && (queue->head == NULL) == (queue->tail == NULL));
    conn->nodes[list] = (struct conn_node){.queue = queue, .prev = queue->tail};
    *(queue->tail != NULL ? &queue->tail->nodes[list].next : &queue->head) = conn;
    queue->tail = conn;
}

/* No effect if the connection is in none. */
static inline void bi_conn_dequeue(struct conn *conn, enum conn_list list)
{
    struct conn_node node = conn->nodes[list];
    if (node.queue == NULL)
        return;

    assert(node.queue->head != NULL && node.queue->tail != NULL);
    *(node.prev != NULL ? &node.prev->nodes[list].next : &node.queue->head) = node.next;
    *(node.next != NULL ? &node.next->nodes[list].prev : &node.queue->tail) = node.prev;
    conn->nodes[list].queue = NULL;
}

/* True for a connection that brings many commands in one read, or has many in flight. */
static inline bool bi_conn_is_bulk(const struct conn *conn)
{
    const struct conn_load *load = &conn->load;
    return conn->bulk || load->pipelined + load->calls - load->calls_waiting >= BULK_COMMANDS;
}

/* ---- conn.c ---- */

/* Takes the socket, also on failure (out of memory: NULL). authorised: it need not authenticate. */
struct conn *bi_conn_open(struct server *server, const struct protocol *protocol,
                          void *protocol_state, int fd, bool authorised, bool tcp);
/* Closes the socket and releases everything that the connection holds, now or in later slices
 * (release.h). The connection may be freed. */
void bi_conn_close(struct conn *conn);
/* Cancels what waits and ends the connection after its pending replies. */
void bi_conn_stop(struct conn *conn);

/* Arms the timer of the connection. Without memory for it, bi_conn_look_again() acts within a
 * second. */
void bi_conn_set_alarm(struct conn *conn, int64_t wait_us);
void bi_conn_clear_alarm(struct conn *conn);
/* Stands in for a timer that could not be armed; called once a second. */
void bi_conn_look_again(struct conn *conn);

/* Formats the peer for the log. */
#define PEER_SIZE BI_ADDRESS_TEXT_SIZE
const char *bi_conn_format_peer(const struct conn *conn, char *text_out);

/* True if the next command may execute. If the queue is throttled, the connection is
 * enqueued to be resumed. */
bool bi_conn_may_execute(struct conn *conn);
/* True if the connection is read when it becomes readable. */
bool bi_conn_accepts_input(const struct conn *conn);
/* True if the server waits for the rest of a command, and for nothing else. */
bool bi_conn_has_partial_command(const struct conn *conn);
/* True if nothing is in flight and all output is sent. */
bool bi_conn_is_idle(const struct conn *conn);
/* Limit of the unexecuted input. */
size_t bi_conn_max_input(const struct conn *conn);
/* Updates server->client_bytes by the change of the connection's memory. */
void bi_conn_update_memory(struct conn *conn);
/* Bytes of replies that the client has not read. */
size_t bi_conn_unread_bytes(const struct conn *conn);

/* Writes as much as the socket accepts. */
void bi_conn_write(struct conn *conn);
/* Writes, then closes the connection or updates its events. The connection may be freed. */
void bi_conn_finish_turn(struct conn *conn);

/* ---- conn_timeout.c ---- */

/* Ends the connections whose timeouts are over, at the end of the turn; called once a second. */
void bi_conn_timeout_check_all(struct server *server);
/* True if the client has not read anything of many unread bytes for long. */
bool bi_conn_timeout_is_reader_stalled(const struct conn *conn);

/* ---- conn_input.c ---- */

/* Receives once and executes the complete commands. */
void bi_conn_input_read(struct conn *conn);
/* Executes the retained input. */
void bi_conn_input_run(struct conn *conn);
void bi_conn_input_free(struct conn *conn);

/* Prepares for a body of which `received` bytes are in the input, which the caller copies with
 * bi_conn_input_fill_body(). False: no memory. Requires that there is no other one. */
bool bi_conn_input_begin_body(struct conn *conn, size_t size, size_t received);
/* Makes room for `extra` more bytes, at most up to the end of the body. False: no memory; the body
 * is unchanged, and the caller frees it. */
bool bi_conn_input_reserve_body(struct conn *conn, size_t extra);
/* Copies bytes of the body. Returns how many were consumed. Requires room for them. */
size_t bi_conn_input_fill_body(struct conn *conn, const char *data, size_t size);
/* Detaches the body. The caller frees it with bi_conn_input_free_body(). */
struct conn_body *bi_conn_input_take_body(struct conn *conn);
void bi_conn_input_free_body(struct conn_body *body);

#endif
