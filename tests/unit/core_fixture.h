/* SPDX-License-Identifier: MIT */
/*
 * core_fixture - a core with a clock and an allocator that the test owns.
 *
 * Helpers that run an op return its code. Helpers whose op must succeed assert that it did and
 * return its result.
 */
#ifndef BI_UNIT_CORE_FIXTURE_H
#define BI_UNIT_CORE_FIXTURE_H

#include "alloc_fixture.h"
#include "unit.h"

#include "../sim/core_state.h"

#include "core/core.h"

#include <string.h>

#define MS     INT64_C(1000)
#define SECOND INT64_C(1000000)
#define BOOT   (3600 * SECOND)                /* the initial boot-time clock */
#define EPOCH  (INT64_C(1800000000) * SECOND) /* the initial wall clock */
#define TOKEN  1000                           /* the first token */

struct core_fixture {
    struct test_alloc alloc;
    struct bi_core_options options;
    struct core *core;
    struct bi_now now;
    bide_op *completed[4096];
    size_t completed_count;
    struct {
        uint64_t id, token, hold;
    } taken[4096]; /* by try_reserve(); their leases start at the commit */
    size_t taken_count;
};

/* The core of the test. */
extern struct core_fixture w;

/* Set-up functions of cmocka: without a journal, or with one. */
int set_up_core(void **state);
int set_up_journal(void **state);
int tear_down_core(void **state);

void core_fixture_init(struct core_fixture *fixture);
void core_fixture_start(struct core_fixture *fixture);

/* With or without a journal. */
void core_fixture_open(struct core_fixture *fixture, bool journal);
void core_fixture_check(struct core_fixture *fixture);
void core_fixture_close(struct core_fixture *fixture);
void tick(struct core_fixture *fixture);

/* Advances both clocks. */
void advance_clocks(struct core_fixture *fixture, int64_t us);

/* The wall clock is set. */
void step_wall_clock(struct core_fixture *fixture, int64_t us);

/* The bytes of a string. Defined in unit.c, because slow_store.h declares it too. */
bide_slice text(const char *string);

/* Continues a sliced op; BI_AGAIN if it waits for a commit. */
int resume_op(struct core_fixture *fixture, bide_op *op);
int run(struct core_fixture *fixture, bide_op *op);
bide_put_options put_options(void);
int try_put(struct core_fixture *fixture, const char *topic, const bide_put_options *options,
            uint64_t *id);
uint64_t put_with(struct core_fixture *fixture, const char *topic, const bide_put_options *options);
uint64_t put(struct core_fixture *fixture, const char *topic);
uint64_t put_delayed(struct core_fixture *fixture, const char *topic, int64_t delay_ms);
uint64_t put_limited(struct core_fixture *fixture, const char *topic, int32_t max_retries);
uint64_t put_keyed(struct core_fixture *fixture, const char *topic, const char *key);

/* Reserves without waiting; sets *id and *token to those of the job. */
int try_reserve(struct core_fixture *fixture, const char *topic, uint64_t *id, uint64_t *token);

/* Reserves a job, which must be the wanted one; returns its token. */
uint64_t reserve_expected(struct core_fixture *fixture, const char *topic, uint64_t wanted);
void assert_nothing_ready(struct core_fixture *fixture, const char *topic);

/* delete, give_back, kick_job, cancel */
int run_lease_op(struct core_fixture *fixture, bide_op_kind kind, uint64_t id, uint64_t token);
int bury(struct core_fixture *fixture, uint64_t id, uint64_t token);
int release(struct core_fixture *fixture, uint64_t id, uint64_t token, int64_t delay_ms);
int fail_job(struct core_fixture *fixture, uint64_t id, uint64_t token, int64_t retry_in_ms);
int done(struct core_fixture *fixture, uint64_t id, uint64_t token, int64_t retain_ms);
uint64_t kick(struct core_fixture *fixture, const char *topic, uint64_t max);

/* pause, resume, topic_ref */
int run_topic_op(struct core_fixture *fixture, bide_op_kind kind, const char *topic,
                 int64_t for_ms);
bide_op update_of(uint64_t id);

/* A snapshot without the body, which the caller clears. False if there is no such job. */
bool look(struct core_fixture *fixture, uint64_t id, bide_job *job);
bide_state state_of(struct core_fixture *fixture, uint64_t id);
bide_stats stats_of(struct core_fixture *fixture);
struct bi_batch seal(struct core_fixture *fixture);
void commit_sealed(struct core_fixture *fixture, struct bi_batch *batch);
void commit(struct core_fixture *fixture);

/* The sealed batch, if there is one, could not be stored. */
void roll_back_sealed(struct core_fixture *fixture, struct bi_batch *batch);

/* Seals all changes since the last commit and rolls them back. */
void fail_commit(struct core_fixture *fixture);

#endif
