/* SPDX-License-Identifier: MIT */
/*
 * move_fingerprint - by what a job is known in another queue, where it has another id.
 *
 * It is a hash of 128 bits, by SipHash with a key that is drawn anew for every run: two different
 * jobs have the same one by chance once in 2^64 queues of a billion jobs, and nobody can prepare
 * such a pair. In it is what does not change by itself: topic, body, priority, ttr, key, retries,
 * expiry, retention, counters, texts, and whether the job is live, buried or done.
 *
 * Times are kept on the boot-time clock, and told on the wall clock: the same moment is told by two
 * queues with a difference of some milliseconds. So they are beside the hash, not in it.
 */
#ifndef BI_MOVE_FINGERPRINT_H
#define BI_MOVE_FINGERPRINT_H

#include <bide/job.h>

struct fingerprint {
    uint64_t hash[2];
    int64_t created_ms;
    int64_t due_ms; /* delayed: when it will be ready; 0 else */
};

struct fingerprint_key {
    uint64_t words[2];
};

/* False when there are no random numbers. */
bool bi_move_fingerprint_new_key(struct fingerprint_key *key);

/* plain: only what a beanstalkd keeps of a job that is put there. */
struct fingerprint bi_move_fingerprint_of(const struct fingerprint_key *key, bool plain,
                                          const bide_job *job);

/* SipHash-2-4 with 128 bits of some bytes. */
void bi_move_fingerprint_hash(const struct fingerprint_key *key, const void *data, size_t size,
                              uint64_t hash[2]);

#endif
