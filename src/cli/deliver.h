/* SPDX-License-Identifier: MIT */
/*
 * deliver - an op that makes a job in a queue, as it was in another.
 *
 * That is a restore. A plain beanstalkd has none: it takes a put, with a topic, a priority, a delay
 * and a ttr; counters and ages begin anew. A job that has more (a key, retries, an expiry ...) is
 * refused, unless it may lose that; one that is buried or done is refused in any case.
 */
#ifndef BI_DELIVER_H
#define BI_DELIVER_H

#include "cli/relay.h"
#include "util/sentence.h"

struct deliver {
    bool plain; /* to a beanstalkd */
    bool lossy; /* what it has no word for may be lost */
};

/* Why a job has no place in the other queue, in the time that it is now, though nothing is wrong:
 * "its retention is over"; NULL if it has one. Counts down what is left of a retention since the
 * job was looked at. */
const char *bi_deliver_over(bide_job *job, int64_t now_ms);

/* Makes the op for the job of a piece. False with a sentence when it cannot be delivered. */
bool bi_deliver_op(const struct deliver *deliver, struct piece *piece, char *error);

/* Is this an answer that all jobs behind it would get, too? */
bool bi_deliver_is_final(int code);

#endif
