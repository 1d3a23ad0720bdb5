/* SPDX-License-Identifier: MIT */
/*
 * talk - one connection to the server under test, of a client that knows the protocol.
 *
 * Failure    A server that does not answer within PATIENCE_MS ends the test. So does one that closes,
 *            unless may_end is set: then calls answer NULL or false from that moment on, after all
 *            that had come was heard.
 * Ownership  What is heard lies in the buffer of the connection until something more is heard.
 */
#ifndef SERVER_TALK_H
#define SERVER_TALK_H

#include "peer.h"

struct talk {
    int fd;
    bool may_end;
    bool ended;
    char *data; /* what has come: used bytes, of which taken are behind us */
    size_t used, taken, room;
};

/* A job as a reserve or peek gives it. */
struct given {
    uint64_t id;
    const char *body;
    size_t size;
};

void talk_open(struct talk *talk, const struct peer *peer);
void talk_close(struct talk *talk);

/* Sends all of it, and takes in what comes meanwhile, so that neither side stands still. */
bool talk_send(struct talk *talk, const void *data, size_t size);
bool say(struct talk *talk, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* The next line, without its end; the bytes of a body, whose end is checked. */
const char *hear(struct talk *talk);
const char *hear_body(struct talk *talk, size_t size);

/* The next line must be this one; answers the first number in a line that begins so. */
#define HEAR(talk, want)          hear_at(HERE, (talk), (want))
#define HEAR_NUMBER(talk, prefix) hear_number_at(HERE, (talk), (prefix))
void hear_at(struct where at, struct talk *talk, const char *want);
uint64_t hear_number_at(struct where at, struct talk *talk, const char *prefix);

/* Hears a line "WORD id bytes" and the body. False when the line is another one, which is then in
 * line, or when the connection has ended, and line is "". */
bool hear_job(struct talk *talk, const char *word, struct given *given, char line[64]);

/* Is there nothing to hear, for now? */
bool is_silent(struct talk *talk);

/* ---- whole commands ---- */

/* The text of a put, in front of its body. */
bool say_put(struct talk *talk, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
             const void *body, size_t size);

/* A number from what "stats" (or "stats-tube x", "stats-job 7") says; -1: it answered NOT_FOUND. */
int64_t talk_stat(struct talk *talk, const char *command, const char *name);

/* Uses and watches one tube only. */
void talk_stay(struct talk *talk, const char *tube);

#endif
