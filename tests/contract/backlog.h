/* SPDX-License-Identifier: MIT */
/*
 * backlog - a location with so many jobs that calls can be made before all of them are loaded.
 *
 * Among very many ready jobs in one topic there are, in another, a few of each state: at the
 * beginning, in the middle and at the end of all ids. A test may find a job loaded or not; the
 * answer must be the same.
 */
#ifndef BACKLOG_H
#define BACKLOG_H

#include "location.h"

/* In the large topic. A sanitizer makes loading at least three times slower. */
#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define BACKLOG_JOBS 10000
#endif
#endif
#ifndef BACKLOG_JOBS
#define BACKLOG_JOBS 30000
#endif
#define BACKLOG_SPOTS 3
#define BACKLOG_KINDS 6 /* of states; that of BIDE_STATE_GONE never existed */

struct backlog {
    char location[LOCATION_SIZE];
    const char *large;
    const char *small;
    uint64_t ids[BACKLOG_SPOTS][BACKLOG_KINDS]; /* by spot and the state that the job was put in */
    char keys[BACKLOG_SPOTS][BACKLOG_KINDS][32];
    uint64_t last_id;
};

/* Makes the place and closes it. It is one for the whole test. */
struct backlog *new_backlog(void);

/* Opens it; nothing is waited for. */
#define open_backlog(backlog) open_location((backlog)->location, "")

/* The state in which a job is after the restart. */
bide_state backlog_state(bide_state put);

/* Everything is there, once, and as it was put. Waits for what is not loaded. */
#define BACKLOG_IS_WHOLE(backlog, queue) backlog_is_whole(HERE, (backlog), (queue))
void backlog_is_whole(struct where at, const struct backlog *backlog, bide *queue);

#endif
