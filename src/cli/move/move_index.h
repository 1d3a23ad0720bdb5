/* SPDX-License-Identifier: MIT */
/*
 * move_index - which jobs a queue has, by their fingerprints; and which of them another one has.
 *
 * Jobs that do not differ are counted, not merged: three that are alike find three. The same job in
 * two queues was made at the same time, and is due at the same time, but for some milliseconds. So
 * among those with the same hash first the ones whose times fit closely find each other, then the
 * others, as far as there is somebody left whose times could be the same.
 *
 * Cost       44 bytes a job.
 */
#ifndef BI_MOVE_INDEX_H
#define BI_MOVE_INDEX_H

#include "cli/move/move_fingerprint.h"

struct move_index_entry {
    struct fingerprint print;
    uint64_t
        number; /* whatever is told when it is found; of jobs that are alike the least is first */
};

struct move_index {
    struct move_index_entry *entries;
    size_t count, capacity;
};

/* False when there is not enough memory, or there are 2^32 jobs. */
bool bi_move_index_add(struct move_index *move_index, const struct fingerprint *print,
                       uint64_t number);
void bi_move_index_free(struct move_index *move_index);

/*
 * How far the same moment may be told apart: closely, and at all. Two clocks are not read at the
 * same time, and each reading is rounded. A beanstalkd tells whole seconds; one that was put to has
 * made its jobs anew, and times say nothing.
 */
struct move_tolerance {
    int64_t close_ms, far_ms;
};
extern const struct move_tolerance bi_move_index_exact, bi_move_index_seconds,
    bi_move_index_timeless;

typedef void bi_move_index_found(void *user, uint64_t number);

/* Tells the numbers of those of ours that they have, too. now_ms: what was due by then may be ready.
 * *alike: how many of the others have somebody there who is the same but for the times. False when
 * there is not enough memory. */
bool bi_move_index_match(struct move_index *ours, struct move_index *theirs,
                         const struct move_tolerance *tolerance, int64_t now_ms,
                         bi_move_index_found *found, void *user, uint64_t *lookalikes);

#endif
