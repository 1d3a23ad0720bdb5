/* SPDX-License-Identifier: MIT */
/*
 * attack - clients that mean harm: the attacks of the benchmark "abuse", one row each.
 *
 * An attack works against a server of its own. It prepares what it needs, then runs in a thread
 * until it is told to stop. Its clients read or do not read, expect nothing, and connect again
 * whenever the server closes them. They come from addresses of 127.0.0.0/8, or from 10.0.0.0/8,
 * which no server takes for its own machine.
 *
 * Failure    A server that refuses an attack or closes its connections is right. Only what the
 *            machine lacks (memory, files) ends the program.
 */
#ifndef BENCH_ATTACK_H
#define BENCH_ATTACK_H

#include <netinet/in.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bench.h"

#define ATTACK_SECRET "open-sesame" /* of the server, if other machines may connect */

struct text {
    char *data;
    size_t size;
    size_t room;
};

struct attacker {
    int fd;    /* -1: is to connect again */
    size_t at; /* in the text that it sends */
};

struct attack {
    const struct settings *settings;
    struct sockaddr_in server;
    uint32_t network; /* clients are at this address plus 2 and more */
    int64_t run_ns;   /* how long it will run */
    struct attacker *attackers;
    size_t attacker_count;
    struct text kept; /* what the preparation has made for the attack */
    atomic_bool stop;
};

struct attack_row {
    const char *name;
    void (*prepare)(struct attack *attack);    /* before the control client works; may be NULL */
    void (*run)(struct attack *attack);        /* until stop is set */
    uint64_t (*damage)(struct attack *attack); /* then: what it did that it must not; may be NULL */
    bool remote; /* its clients come from another machine, and do not know the secret */
    bool
        keep_connections; /* takes every connection, so that the control client keeps those it has */
};

extern const struct attack_row attack_rows[];
extern const size_t attack_row_count;

/* Closes every connection of the attack. */
void attack_disconnect(struct attack *attack);

#endif
