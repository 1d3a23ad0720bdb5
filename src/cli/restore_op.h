/* SPDX-License-Identifier: MIT */
/*
 * restore_op - builds the op that copies a job to another queue.
 *
 * The op is a restore. A plain beanstalkd has none, so it gets a put with topic, priority, delay and ttr;
 * counters and ages start again. A job with other attributes (key, retries, expiry ...) is rejected
 * unless they may be lost; buried and done jobs are always rejected.
 */
#ifndef BI_RESTORE_OP_H
#define BI_RESTORE_OP_H

#include "cli/ordered_pipeline.h"
#include "util/errmsg.h"

struct restore_target {
    bool plain; /* a plain beanstalkd */
    bool lossy; /* attributes that it lacks may be lost */
};

/* Returns why a job need not be copied now ("its retention is over"); NULL: it must be. Reduces the
 * remaining retention by the time since the job was read. */
const char *bi_restore_op_skip_reason(bide_job *job, int64_t now_ms);

/* Fills in the op for the job of a slot. False with an error text if the target cannot hold the job. */
bool bi_restore_op_build(const struct restore_target *restore_target, struct op_slot *slot,
                         char *error);

#endif
