/* SPDX-License-Identifier: MIT */
/*
 * fake_server - a scripted server on a Unix socket in a temporary directory, and a queue that is
 * its client.
 *
 * The test itself plays the server, step by step, and submits its ops asynchronously. Only
 * bide_open() runs on another thread, because it blocks until the server has completed the
 * handshake.
 */
#ifndef BI_UNIT_FAKE_SERVER_H
#define BI_UNIT_FAKE_SERVER_H

#include "unit.h"

#include "op/op_codec.h"
#include "util/clock.h"

#include <bide/bide.h>

#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#define PATIENCE_MS 20000
#define IN_SIZE     (1 << 16)

struct fake_server {
    char folder[64], path[100];
    int listening, fd;
    char in[IN_SIZE];
    size_t size;
    bide *queue;
    bide_cq *cq;
    /* Argument and results of bide_open(). */
    char url[256];
    int code;
    char error[BIDE_ERROR_SIZE];
};

extern struct fake_server server;

void listen_here(void);
void stop_listening(void);
bool readable(int fd, int timeout_ms);
void accept_one(void);
void close_connection(void);
void send_bytes(const void *data, size_t size);
void send_text(const char *text);

/* Receives until size bytes are buffered. */
void read_until(size_t size);
void drop(size_t size);

/* Consumes the next line and copies it without its CRLF. */
void read_line(char *line, size_t room);
void expect(const char *text);

/* Expects the client to close the connection; bytes before the end are ignored. */
void expect_end(void);
bool stays_silent(int for_ms);
void handshake_with(const char *reply);

extern const char beanstalkd_reply[35];

void handshake_bided(void);
void handshake_beanstalkd(void);

/* Sends the reply before the request is read. For clients with a connect_timeout so short that they
 * may disconnect at any moment: the reply need not arrive. */
void handshake_early(const char *reply, size_t size);

struct received_call {
    uint64_t tag;
    struct decoded_op call;
    unsigned char data[1024];
};

void receive_call(struct received_call *received_call, bide_op_kind kind);

/* The encoded reply; the caller frees it with bi_op_codec_wire_free_bytes(). */
struct op_bytes encode_reply(struct received_call *received_call, int code);
void reply(struct received_call *received_call, int code);

/* Opens the queue while handshake() plays the server; returns the code of bide_open(). */
int open_client(const char *parameters, void (*handshake)(void));

/* Opens the queue with a connect_timeout so short that the handshake may be late on a busy machine.
 * A late handshake is repeated: these tests are about later time-outs. */
void open_until_ok(const char *parameters, const char *reply, size_t size);
void submit(bide_op *op);
void drain_until_completed(bide_op *op);
void completes(bide_op *op, int code);
bide_op put_of(const char *body);

extern const bide_slice topic_t;

bide_op reserve_of(bide_job *job, int64_t timeout_ms);
int begin_script(void **state);
int end_script(void **state);

#define SCRIPT(test) cmocka_unit_test_setup_teardown(test, begin_script, end_script)

void open_bided(const char *parameters);
void open_bided_until_ok(const char *parameters);

#define QUICK "reconnect_min=1ms&reconnect_max=5ms"

#endif
