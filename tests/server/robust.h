/* SPDX-License-Identifier: MIT */
/*
 * robust - what the tests of a server in rough hands are written with.
 *
 * Every test runs in a process and a folder of its own, starts the server it wants (peer.h), talks
 * to it (talk.h), and stops it. Nothing depends on how fast the machine is.
 */
#ifndef SERVER_ROBUST_H
#define SERVER_ROBUST_H

#include "talk.h"

extern const struct theme flood_theme, order_theme, slow_theme, storm_theme, waiting_theme;

/* What a server has at rest, to be compared with what it has when all is over. */
struct rest {
    int files;
    int64_t memory;
};

/* One connection has come, worked and gone, so that what is made at first use is there. */
struct rest rest_of(const struct peer *peer);

/* Waits until connections, waiters, jobs and tubes are gone, and open files are as many as then.
 * The memory may be larger by the limit of the settings. */
void at_rest_again(const struct peer *peer, const struct rest *rest);

/* Starts a server, runs the test, sees that the server is at rest again, and stops it. */
void with_peer(enum peer_place where, void (*run)(const struct peer *peer));

#endif
