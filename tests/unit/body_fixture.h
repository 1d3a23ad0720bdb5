/* SPDX-License-Identifier: MIT */
/*
 * body_fixture - a core that keeps few bodies in memory, and a stand-in for the store that has them
 * all.
 *
 * The bytes of a body follow from its size. A test can therefore verify a body without having kept
 * it.
 */
#ifndef BI_UNIT_BODY_FIXTURE_H
#define BI_UNIT_BODY_FIXTURE_H

#include "core_fixture.h"

const char *body_bytes(size_t size);
bide_buf *body_buf(size_t size);
void assert_body(const void *body, size_t got, size_t size);

/* A set-up function of cmocka: with a cache that has room for no body. */
int set_up_bodies(void **state);

/* Starts a core with a journal and a cache of that many bytes. */
void bodies_open(struct core_fixture *fixture, uint64_t cache_bytes);
uint64_t put_sized(struct core_fixture *fixture, const char *topic, size_t size,
                   const bide_put_options *options);

/* Puts a job and commits it. */
uint64_t store_sized(struct core_fixture *fixture, const char *topic, size_t size);
bool lacks_body(const bide_op *op);

/* True if the body of a job, of that size, is in memory. */
bool in_memory(struct core_fixture *fixture, uint64_t id, size_t size);

/* Supplies the bodies that an op lacks, as a store would, except that of the job bad, which is
 * unreadable. */
int supply_except(struct core_fixture *fixture, bide_op *op, uint64_t bad);
int supply(struct core_fixture *fixture, bide_op *op);

#endif
