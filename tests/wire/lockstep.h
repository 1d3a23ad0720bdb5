/* SPDX-License-Identifier: MIT */
/*
 * lockstep - plays one story to two servers at the same time, and stops where they answer
 * differently.
 *
 * A turn is sent to both, and all its replies are read from both before the next one: so both see
 * the commands of all clients in the same order. A connection of the tester's own finds out whether
 * a reserve waits and whether a close was noticed.
 */
#ifndef WIRE_LOCKSTEP_H
#define WIRE_LOCKSTEP_H

#include "scenario.h"

struct lockstep_settings {
    int64_t patience_ms;     /* how long a reply is waited for */
    const char *commands[2]; /* the reference, and the one that is compared with it; see server.h */
    /* Replies of the second in which this text occurs get the other in its place, so that the
     * tester can be tested; NULL: none. */
    const char *alter_from, *alter_to;
};

struct verdict {
    bool same;
    size_t turn;    /* where they differ */
    size_t replies; /* how many were compared */
    char text[4096];
};

void run_lockstep(const struct scenario *scenario, const struct lockstep_settings *settings,
                  struct verdict *verdict);

/* Learns what the servers do with ids of failed puts; once before the first duel. */
bool lockstep_prepare(const struct lockstep_settings *settings);

#endif
