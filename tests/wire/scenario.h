/* SPDX-License-Identifier: MIT */
/*
 * scenario - what random clients do, from a seed: for the differential run.
 *
 * A story is a list of turns. In a turn one client sends some commands in one piece or in several,
 * and perhaps closes. What a story says must not depend on the server: the ids of jobs do, since
 * servers may differ in which puts use one up. So the text of a turn has marks, which are written
 * out for each server when it is played:
 *
 *     MARK P 4 hex digits   here a put uses an id, which is that of the job with this number
 *     MARK B 4 hex digits   here a put fails in a way that uses an id in some servers
 *     MARK J 4 hex digits   the id of the job with this number
 *     MARK H 4 hex digits   the id of the job that this client reserved last, else as J
 *     MARK K 4 hex digits   a bound of kick, by its place in scenario_kicks; 1 where a call waits
 *     MARK W 4 hex digits   a reserve that waits, or one that does not where another waits already
 *
 * What is left out: commands whose answer depends on the second in which they are executed (delays
 * and ttrs are long, and no two delays are alike); more than one client waiting at a time, since
 * beanstalkd serves several not always in their order; looks at jobs of which only half was sent,
 * which it shows with the bytes that happened to be in memory; lines whose CR is cut off by its
 * blocks of 224 bytes, or that have a CR inside; durations and options that only bided knows;
 * pauses that outlive their tube; kicks of more than one job while a client waits, which beanstalkd
 * gives the first of them, and bided the best.
 */
#ifndef WIRE_SCENARIO_H
#define WIRE_SCENARIO_H

#include "bytes.h"

#include <stdbool.h>
#include <stdint.h>

#define MARK             '\x01'
#define MARK_SIZE        6
#define SCENARIO_CLIENTS 4
#define SCENARIO_FLAGS   "-z 300"
#define SCENARIO_JOBS    0xffff

enum turn_end {
    TURN_GOES_ON,
    TURN_HALF,  /* the client sends no more, reads all replies and the end */
    TURN_CLOSE, /* the client closes, when all is answered or one command waits */
    TURN_QUIT,  /* the server closes, since there was a quit */
    TURN_DRAIN, /* no client at all: the servers get SIGUSR1 */
};

struct turn {
    int client;
    enum turn_end end;
    struct bytes text;
    /* A letter for each reply: 't' a list of tubes without order, 'w' that of a reserve which may
     * wait, '.' any other. */
    struct bytes replies;
    uint64_t cuts; /* a seed of where the text is cut; 0: nowhere */
    bool left_out; /* shortening has taken it out */
};

struct scenario {
    struct turn *turns;
    size_t count;
};

/* in_file: in one piece with a delete nobody looks for tubes, since a tube stays until it is stored
 * that its last job is gone. */
void scenario_make(struct scenario *scenario, uint64_t seed, size_t turns, bool in_file);
extern const char *const scenario_kicks[];

void scenario_done(struct scenario *scenario);

#endif
