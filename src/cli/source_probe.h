/* SPDX-License-Identifier: MIT */
/*
 * source_probe - what is learned of a server by leaving a mark there for a moment.
 */
#ifndef BI_SOURCE_PROBE_H
#define BI_SOURCE_PROBE_H

#include "cli/source.h"

/* Names of topics that are probes begin with this. */
#define BI_PROBE "bide-probe-"

/* The highest id that a beanstalkd has given, into source->last. */
int bi_source_probe(struct source *source);

/* Are both the same queue, by whatever name? BI_EXIT_OK, or says what is wrong. */
int bi_source_same(const struct cli *cli, bide *one, bide *other, bool *same);

#endif
