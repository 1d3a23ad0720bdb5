/* SPDX-License-Identifier: MIT */
/*
 * command_gen - streams of commands, right and wrong, as a broken or hostile client sends them.
 *
 * A stream is a number of commands with arguments from lists of usual and of extreme ones, and
 * then, mostly, changed: bytes flipped, taken out, put in, repeated. It goes through a filter at
 * the end: no number in it is the id of a job that is to be left alone.
 */
#ifndef SERVER_BABBLE_H
#define SERVER_BABBLE_H

#include "../sim/rng.h"

#include <stddef.h>
#include <stdint.h>

#define COMMAND_GEN_MAX 32768

struct stream {
    struct rng rng;
    uint64_t spared_first, spared_last; /* ids that do not occur */
    uint64_t recent;                    /* ids up to this one are interesting, later ones spared */
    uint64_t lease_id, lease_token;     /* of a reservation that was heard of */
    size_t size;
    char data[COMMAND_GEN_MAX];
};

/* Makes a new stream. */
void command_gen_next(struct stream *stream);

/* Appends to the stream; what does not fit is left out. call: the name, size and arguments of an
 * op. */
void command_gen_add(struct stream *stream, const void *data, size_t size);
void command_gen_rpc(struct stream *stream);

/* Learns ids and leases from what the server answered. */
void command_gen_learn(struct stream *stream, const char *data, size_t size);

#endif
