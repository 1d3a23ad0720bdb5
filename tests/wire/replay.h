/* SPDX-License-Identifier: MIT */
/*
 * replay - plays a transcript to a server of its own.
 *
 * A server must not care how the bytes of its clients are cut into packets. So each transcript is
 * delivered in three ways:
 *
 *     written  each line by itself, and each expected line is awaited where it stands
 *     bytes    as written, each byte by itself
 *     burst    what goes to one connection until the next deed, or the next line of another
 *              connection, in one piece; the replies are compared afterwards, in order
 *
 * The first failure ends the process: a transcript is played in one of its own (isolated.h).
 */
#ifndef WIRE_REPLAY_H
#define WIRE_REPLAY_H

#include "script.h"

#include "../contract/contract.h"

extern const char *const replay_deliveries[DELIVERIES];

void replay(const struct transcript *transcript, int delivery, const char *command);

#endif
