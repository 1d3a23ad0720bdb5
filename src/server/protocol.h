/* SPDX-License-Identifier: MIT */
/*
 * protocol - what the server asks of a protocol: one const struct of functions.
 *
 * The loop, the listeners and the connections move bytes, bound them and share the time. They know
 * no command. Each listener has a protocol, and so has each connection that it accepts. A protocol
 * reads commands from the input, submits their ops (batch.h) and appends replies to the output.
 *
 * Ownership  A connection of the protocol is a struct of conn_size bytes that begins with struct
 *            conn; the server allocates it zeroed and frees it. The state of the protocol in a
 *            server, shared by its connections, is made by start() and freed by stop().
 * Numbers    What the server reads for every command is not asked for by a call: the protocol keeps
 *            struct conn_load up to date. The functions here are called once for a command, a turn
 *            of a connection, or a second.
 * Threads    All calls on the thread of the loop.
 */
#ifndef BI_PROTOCOL_H
#define BI_PROTOCOL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct conn;
struct server;

/* Why a waiting command is cancelled. */
enum cancel_reason { CANCEL_NONE, CANCEL_DEADLINE_SOON, CANCEL_HALF_CLOSED, CANCEL_CLOSING };

/* What admission has to say to a client. */
enum admission_reply {
    ADMISSION_NONE,
    ADMISSION_TOO_MANY,      /* there is no slot for the connection */
    ADMISSION_AUTH_REQUIRED, /* the client must authenticate, or may not connect at all */
    ADMISSION_AUTHENTICATED,
    ADMISSION_WRONG_SECRET,
    ADMISSION_REPLIES,
};

struct protocol {
    const char *name;
    size_t conn_size;
    const char *admission_text[ADMISSION_REPLIES]; /* the bytes of each reply; static */

    /* Makes the state of the protocol in a server. Returns BIDE_OK, or a code with a message in
     * error (BIDE_ERROR_SIZE bytes). */
    int (*start)(struct server *server, void **state_out, char *error);
    /* Frees the state, when no connection and no op of the protocol is left. */
    void (*stop)(void *state);
    /* Asserts that the counters of the state are zero, when all connections are released. */
    void (*assert_released)(const void *state);

    /* Begins a connection. False without memory; the connection is then freed. */
    bool (*open)(struct conn *conn);

    /* Executes the command at the begin of the input, or consumes a part of it. Returns the number
     * of bytes consumed. 0: the command is incomplete, or may not execute yet; conn->blocked (by
     * what is in flight), conn->deferred or conn->paused says so. The bytes are valid until the
     * batch is submitted. */
    size_t (*consume)(struct conn *conn, const char *data, size_t size);
    /* There is no memory for the rest of conn->body, which is still there. The protocol frees it
     * and skips the rest. */
    void (*reject_body)(struct conn *conn);

    /* Appends a reply of admission, behind those of earlier commands. */
    void (*reply)(struct conn *conn, enum admission_reply reply);
    /* Called after a write, whether or not the socket has accepted anything. */
    void (*written)(struct conn *conn);
    /* The alarm of the connection (bi_conn_set_alarm) has gone off. */
    void (*on_alarm)(struct conn *conn);

    /* Cancels the commands that wait and would delay the end of the connection. */
    void (*cancel_waiting)(struct conn *conn, enum cancel_reason reason);
    /* Called at the end of the input and in each turn after it, or after a quit: cancels a slice of
     * everything else that waits. */
    void (*wind_down)(struct conn *conn);

    /* Memory of the connection besides input, body and output, in bytes. */
    size_t (*memory)(const struct conn *conn);
    /* True if the connection holds a lease: it is not idle then. */
    bool (*holds_lease)(struct conn *conn);

    /* The socket is closed: detaches the commands in flight from the connection. */
    void (*close)(struct conn *conn);
    /* Gives back leases and all else that the connection holds, until `end`. True when nothing is
     * left. Called for a lingering connection, too: its unsent replies must stay. */
    bool (*release)(struct conn *conn, int64_t end);
    /* Frees all that the connection holds: the time of a stop is over. Gives back no lease but
     * those of unsent replies. */
    void (*discard)(struct conn *conn);
    /* The connection is about to be freed. */
    void (*forget)(struct conn *conn);
};

#endif
