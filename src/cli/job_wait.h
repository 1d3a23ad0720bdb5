/* SPDX-License-Identifier: MIT */
/*
 * job_wait - waits until jobs are done, buried or gone, and prints their results.
 */
#ifndef BI_JOB_WAIT_H
#define BI_JOB_WAIT_H

#include "cli/cli.h"

/* Fails if no other process can use the queue while this one has it open: the wait would never end. */
int bi_job_wait_check(const struct cli *cli);

/*
 * Waits for all jobs at once, and prints their results in the order given. result_expected: the jobs
 * were put to keep a result. Returns for one job: BI_EXIT_OK done, also without a result;
 * BI_EXIT_REFUSED buried; BI_EXIT_NOT_FOUND no such job, or removed before it was done;
 * BI_EXIT_TIMED_OUT. For several: BI_EXIT_PARTIAL unless all are done.
 */
int bi_job_wait_run(const struct cli *cli, const uint64_t *ids, size_t count, int64_t timeout_ms,
                    bool result_expected);

#endif
