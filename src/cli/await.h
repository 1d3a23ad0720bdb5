/* SPDX-License-Identifier: MIT */
/*
 * await - waits until jobs are done, buried or gone, and prints their results.
 */
#ifndef BI_AWAIT_H
#define BI_AWAIT_H

#include "cli/cli.h"

/* Refuses where nobody else can work while this process has the queue: it would wait for ever.
 * BI_EXIT_OK where others can. */
int bi_await_possible(const struct cli *cli);

/*
 * Waits for all of them at once, and prints in the order given. expects: the jobs were to keep a
 * result. Answers, of one job: BI_EXIT_OK done, also without a result; BI_EXIT_REFUSED buried;
 * BI_EXIT_NOT_FOUND there is no such job, or it went without being done; BI_EXIT_TIMED_OUT. Of
 * several: BI_EXIT_PARTLY unless all are done.
 */
int bi_await(const struct cli *cli, const uint64_t *ids, size_t count, int64_t timeout_ms,
             bool expects);

#endif
