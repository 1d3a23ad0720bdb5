/* SPDX-License-Identifier: MIT */
/*
 * relay - a pipeline whose answers are taken in the order of the asking.
 *
 * Whoever asks gets pieces, fills in their ops and sends them; the answers come to one function,
 * one by one, first asked first.
 *
 * Ordering   Ops run in the order in which they were sent: a copy has the order of its original.
 * Ownership  A piece belongs to whoever got it until it is sent, and from then on to the relay. Its
 *            job is cleared when its answer has been taken; so what a restore points to may lie
 *            there.
 * Cost       At most RELAY_PIECES ops, and as many bytes as RELAY_BYTES, or one piece, has.
 */
#ifndef BI_RELAY_H
#define BI_RELAY_H

#include "cli/cli.h"

#define RELAY_PIECES 1024
#define RELAY_BYTES  ((size_t)16 << 20)

struct piece {
    bide_op op;
    bide_job job;             /* what the op brings, or takes */
    bide_put_options options; /* of a put */
    uint64_t number;          /* of whoever asks: an id, a line */
    void *extra;              /* his, too */
    size_t bytes;
    bool answered;
};

/* The op of the piece has its status. */
typedef void bi_relay_take(void *user, struct piece *piece);

struct relay;

/* NULL, which is said, when there is not enough memory, or no file descriptor. */
struct relay *bi_relay_new(const struct cli *cli, bide *queue, bi_relay_take *take, void *user);
/* Takes what is still under way, and frees. NULL is fine. */
void bi_relay_free(struct relay *relay);

/* A zeroed piece for an op that will hold so many bytes. If there is no room, takes answers until
 * there is. */
struct piece *bi_relay_piece(struct relay *relay, size_t bytes);
/* Sends the piece that was got last; it may wait for others, to go with them. */
void bi_relay_send(struct relay *relay);
/* Lets nobody wait any longer: nothing more comes for the time being. */
void bi_relay_hurry(struct relay *relay);

#endif
