/* SPDX-License-Identifier: MIT */
/*
 * crowd - a place with so many jobs that whoever opens it can ask before all of them are loaded.
 *
 * Among very many ready jobs in one topic there are, in another, a few of each state: at the
 * beginning, in the middle and at the end of all ids. Whether a job is loaded already when a test
 * asks for it, nobody knows; the answer must be the same.
 */
#ifndef CROWD_H
#define CROWD_H

#include "place.h"

#define CROWD_JOBS  30000 /* in the large topic */
#define CROWD_SPOTS 3
#define CROWD_KINDS 6 /* of states; that of BIDE_STATE_GONE never existed */

struct crowd {
    char place[PLACE_SIZE];
    const char *large;
    const char *small;
    uint64_t ids[CROWD_SPOTS][CROWD_KINDS]; /* by spot and the state that the job was put in */
    char keys[CROWD_SPOTS][CROWD_KINDS][32];
    uint64_t last_id;
};

/* Makes the place and closes it. It is one for the whole test. */
struct crowd *new_crowd(void);

/* Opens it; nothing is waited for. */
#define open_crowd(crowd) open_place((crowd)->place, "")

/* The state in which a job is after the restart. */
bide_state crowd_state(bide_state put);

/* Everything is there, once, and as it was put. Waits for what is not loaded. */
#define CROWD_IS_WHOLE(crowd, queue) crowd_is_whole(HERE, (crowd), (queue))
void crowd_is_whole(struct where at, const struct crowd *crowd, bide *queue);

#endif
