/* SPDX-License-Identifier: MIT */
/*
 * job_wait - waits until jobs are done, buried or gone, and prints their results.
 */
#ifndef BI_JOB_WAIT_H
#define BI_JOB_WAIT_H

#include "cli/cli.h"

/* Refuses where nobody else can work while this process has the queue: it would wait for ever.
 * BI_EXIT_OK where others can. */
int bi_job_wait_check(const struct cli *cli);

/*
 * Waits for all of them at once, and prints in the order given. expects: the jobs were to keep a
 * result. Answers, of one job: BI_EXIT_OK done, also without a result; BI_EXIT_REFUSED buried;
 * BI_EXIT_NOT_FOUND there is no such job, or it went without being done; BI_EXIT_TIMED_OUT. Of
 * several: BI_EXIT_PARTIAL unless all are done.
 */
int bi_job_wait_run(const struct cli *cli, const uint64_t *ids, size_t count, int64_t timeout_ms,
                    bool result_expected);

#endif
