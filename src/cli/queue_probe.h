/* SPDX-License-Identifier: MIT */
/*
 * queue_probe - what is learned of a server by leaving a mark there for a moment.
 */
#ifndef BI_QUEUE_PROBE_H
#define BI_QUEUE_PROBE_H

#include "cli/job_scan.h"

/* Names of topics that are probes begin with this. */
#define BI_QUEUE_PROBE_PREFIX "bide-probe-"

/* The highest id that a beanstalkd has given, into source->last. */
int bi_queue_probe_last_id(struct job_scan *scan);

/* Are both the same queue, by whatever name? BI_EXIT_OK, or says what is wrong. */
int bi_queue_probe_is_same(const struct cli *cli, bide *one, bide *other, bool *same);

#endif
