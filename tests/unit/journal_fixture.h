/* SPDX-License-Identifier: MIT */
/*
 * journal_fixture - a core whose journal makes small batches.
 */
#ifndef BI_UNIT_JOURNAL_FIXTURE_H
#define BI_UNIT_JOURNAL_FIXTURE_H

#include "core_fixture.h"

/* A set-up function of cmocka: batches of two changes. */
int set_up_small_batches(void **state);

/* Replaces the core that set_up_small_batches() started by one with other limits (0: none). */
void reopen_with(uint32_t jobs, uint64_t bytes);
uint64_t put_size(size_t size);

/* The batch that must be committed before the state of the job may be shown; 0: none. */
uint64_t hold_of(uint64_t id);

/* Commits the next batch, which must have that many records. */
void commit_count(size_t count);
void commit_all(void);

/* Puts other jobs until further changes belong to another batch. */
void next_batch(void);
const struct bi_record *record_of(const struct bi_batch *batch, uint64_t id);
int set_priority(uint64_t id, int64_t priority);
uint32_t priority_of(uint64_t id);

/* Puts a job that replaces the holder of the key. */
uint64_t replace(const char *key);

#endif
