/* SPDX-License-Identifier: MIT */
/*
 * test_client - one connection to the server under test, of a client that knows the protocol.
 *
 * Failure    A server that does not answer within PATIENCE_MS ends the test. So does one that
 *            closes, unless may_end is set: then calls answer NULL or false from that moment on,
 *            after all that had come was heard.
 * Ownership  What is heard lies in the buffer of the connection until something more is heard.
 */
#ifndef SERVER_TALK_H
#define SERVER_TALK_H

#include "test_server.h"

struct client {
    int fd;
    bool may_end;
    bool ended;
    char *data; /* what has come: used bytes, of which taken are behind us */
    size_t used, taken, room;
};

/* A job as a reserve or peek gives it. */
struct job_reply {
    uint64_t id;
    const char *body;
    size_t size;
};

void test_client_open(struct client *client, const struct server *server);
void test_client_close(struct client *client);

/* Sends all of it, and takes in what comes meanwhile, so that neither side stands still. */
bool test_client_send(struct client *client, const void *data, size_t size);
bool send_text(struct client *client, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/* The next line, without its end; the bytes of a body, whose end is checked. */
const char *read_line(struct client *client);
const char *read_body(struct client *client, size_t size);

/* The next line must be this one; answers the first number in a line that begins so. */
#define EXPECT_LINE(client, want)     expect_line_at(HERE, (client), (want))
#define EXPECT_NUMBER(client, prefix) expect_number_at(HERE, (client), (prefix))
void expect_line_at(struct where at, struct client *client, const char *want);
uint64_t expect_number_at(struct where at, struct client *client, const char *prefix);

/* Hears a line "WORD id bytes" and the body. False when the line is another one, which is then in
 * line, or when the connection has ended, and line is "". */
bool read_job(struct client *client, const char *word, struct job_reply *job_reply, char line[64]);

/* Is there nothing to hear, for now? */
bool has_no_input(struct client *client);

/* ---- whole commands ---- */

/* The text of a put, in front of its body. */
bool send_put(struct client *client, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
              const void *body, size_t size);

/* A number from what "stats" (or "stats-tube x", "stats-job 7") says; -1: it answered NOT_FOUND. */
int64_t test_client_stat(struct client *client, const char *command, const char *name);

/* Uses and watches one tube only. */
void test_client_use_only(struct client *client, const char *tube);

#endif
