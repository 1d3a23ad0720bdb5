/* SPDX-License-Identifier: MIT */
/* hostile - what the tests of clients that mean harm share (hostile.c). */
#ifndef SERVER_HOSTILE_H
#define SERVER_HOSTILE_H

#include "bided_suite.h"
#include "test_client.h"

void connect_client(struct client *client, const struct bided *bided);
void close_all(struct client *clients, int count);

/* Puts a body in two pieces, so that it is waited for. False: the server had no memory for it. */
bool put_in_pieces(struct client *client, size_t size);

void send_rpc(struct client *client, uint64_t tag, const bide_op *op);

/* Reads the answer to any call and returns its code. tag may be NULL. */
int read_rpc_reply(struct client *client, uint64_t *tag);

/* Stopped, the server finds all that was sent meanwhile when it goes on (SIGCONT). */
void pause_server(const struct bided *bided);

#endif
