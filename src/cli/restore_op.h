/* SPDX-License-Identifier: MIT */
/*
 * restore_op - an op that makes a job in a queue, as it was in another.
 *
 * That is a restore. A plain beanstalkd has none: it takes a put, with a topic, a priority, a delay
 * and a ttr; counters and ages begin anew. A job that has more (a key, retries, an expiry ...) is
 * refused, unless it may lose that; one that is buried or done is refused in any case.
 */
#ifndef BI_RESTORE_OP_H
#define BI_RESTORE_OP_H

#include "cli/ordered_pipeline.h"
#include "util/errmsg.h"

struct restore_target {
    bool plain; /* to a beanstalkd */
    bool lossy; /* what it has no word for may be lost */
};

/* Why a job has no place in the other queue, in the time that it is now, though nothing is wrong:
 * "its retention is over"; NULL if it has one. Counts down what is left of a retention since the
 * job was looked at. */
const char *bi_restore_op_skip_reason(bide_job *job, int64_t now_ms);

/* Makes the op for the job of a piece. False with a sentence when it cannot be delivered. */
bool bi_restore_op_build(const struct restore_target *restore_target, struct op_slot *slot,
                         char *error);

/* Is this an answer that all jobs behind it would get, too? */
bool bi_restore_op_is_fatal(int code);

#endif
