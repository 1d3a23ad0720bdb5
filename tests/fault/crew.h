/* SPDX-License-Identifier: MIT */
/*
 * crew - a load that checks what becomes of its jobs: threads put, take, finish, release, fail, bury and
 * kick, calls are cancelled and connections dropped, while a test makes the disk fail.
 *
 * Each job has a serial number in its body. A put that was acknowledged must be worked off, one that
 * failed for certain must never be seen, and a job whose lease lasts longer than the test has one
 * holder at a time. When the faults are over everything is worked off, and the figures are all 0.
 */
#ifndef FAULT_CREW_H
#define FAULT_CREW_H

#include <bide/bide.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define CREW_TOPIC   "pairs"
#define CREW_SERIALS 200000

struct crew {
    bide *queues[2]; /* may be the same */
    uint64_t seed;
    bool directed; /* the topic is paused and the queue drained now and then */
    _Atomic uint64_t workers;
    atomic_bool stop, over;
    _Atomic uint64_t next, stored, finished;
    _Atomic uint64_t unknown; /* calls that were answered EUNKNOWN */
    _Atomic char put[CREW_SERIALS], lease[CREW_SERIALS];
    char socket[108]; /* "": there is no server */
};

/* Its seed is that of the environment (BIDE_PAIRS_SEED), or 1. It is freed with free(). */
struct crew *crew_new(void);

/* Puts jobs before the load begins. */
void crew_put(struct crew *crew, int count);

/* Two faults at a time, by the seed, for a few seconds. */
void crew_spoil(struct crew *crew);

/* Runs the load while spoil() makes the disk fail; when it returns all faults are over. inner is the
 * queue that has the file open. */
void crew_run(struct crew *crew, bide *inner, void (*spoil)(struct crew *));

#endif
