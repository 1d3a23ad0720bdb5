/* SPDX-License-Identifier: MIT */
/*
 * robust - what the tests of a server in rough hands are written with.
 *
 * Every test runs in a process and a folder of its own, starts the server it wants (test_server.h),
 * talks to it (test_client.h), and stops it. Nothing depends on how fast the machine is.
 */
#ifndef SERVER_ROBUST_H
#define SERVER_ROBUST_H

#include "test_client.h"

extern const struct theme flood_theme, reply_order_theme, slow_clients_theme,
    connection_storm_theme, waiting_clients_theme;

/* What a server has at rest, to be compared with what it has when all is over. */
struct rest {
    int files;
    int64_t memory;
};

/* One connection has come, worked and gone, so that what is made at first use is there. */
struct rest measure_rest(const struct server *server);

/* Waits until connections, waiters, jobs and tubes are gone, and open files are as many as then.
 * The memory may be larger by the limit of the settings. */
void await_rest_state(const struct server *server, const struct rest *rest);

/* Starts a server, runs the test, sees that the server is at rest again, and stops it. */
void with_server(enum test_server_storage where, void (*run)(const struct server *server));

#endif
