/* SPDX-License-Identifier: MIT */
/*
 * sample_queue - a queue with jobs of every kind, and the comparison of two queues that should be
 * the same.
 */
#ifndef CLI_MIXED_H
#define CLI_MIXED_H

#include "cli_test.h"

/* How many jobs the tests of whole queues work with: 400, or what BIDE_TEST_JOBS says. */
size_t sample_queue_count(void);

/* Puts so many jobs into the queue: all states, keys, delays, retries, errors, results, bytes that
 * are no text, jobs that do not differ, paused topics. What was reserved is given back. */
void fill_sample_queue(const char *url, size_t count);

/* What bide exports of a queue: an array of its lines. */
json_t *exported(const char *url);

/* The jobs of two exports are the same, in the same order, but for ids and what time alone changes;
 * and so are the pauses. A reserved job may have become ready. */
#define SAME(a, b) same_at(HERE, (a), (b))
void same_at(struct where at, const json_t *a, const json_t *b);

/* How many jobs an export has. */
size_t jobs_in(const json_t *export);

#endif
