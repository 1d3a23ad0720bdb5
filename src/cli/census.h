/* SPDX-License-Identifier: MIT */
/*
 * census - which jobs a queue has, by their fingerprints; and which of them another one has.
 *
 * Jobs that do not differ are counted, not merged: three that are alike find three. The same job in
 * two queues was made at the same time, and is due at the same time, but for some milliseconds. So
 * among those with the same hash first the ones whose times fit closely find each other, then the
 * others, as far as there is somebody left whose times could be the same.
 *
 * Cost       44 bytes a job.
 */
#ifndef BI_CENSUS_H
#define BI_CENSUS_H

#include "cli/fingerprint.h"

struct census_entry {
    struct fingerprint print;
    uint64_t
        number; /* whatever is told when it is found; of jobs that are alike the least is first */
};

struct census {
    struct census_entry *entries;
    size_t count, room;
};

/* False when there is not enough memory, or there are 2^32 jobs. */
bool bi_census_add(struct census *census, const struct fingerprint *print, uint64_t number);
void bi_census_free(struct census *census);

/*
 * How far the same moment may be told apart: closely, and at all. Two clocks are not read at the
 * same time, and each reading is rounded. A beanstalkd tells whole seconds; one that was put to has
 * made its jobs anew, and times say nothing.
 */
struct census_slack {
    int64_t close_ms, far_ms;
};
extern const struct census_slack bi_census_exact, bi_census_seconds, bi_census_timeless;

typedef void bi_census_found(void *user, uint64_t number);

/* Tells the numbers of those of ours that they have, too. now_ms: what was due by then may be ready.
 * *alike: how many of the others have somebody there who is the same but for the times. False when
 * there is not enough memory. */
bool bi_census_match(struct census *ours, struct census *theirs, const struct census_slack *slack,
                     int64_t now_ms, bi_census_found *found, void *user, uint64_t *alike);

#endif
