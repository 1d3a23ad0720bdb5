/* SPDX-License-Identifier: MIT */
/*
 * workload - a load that checks what becomes of its jobs: threads put, take, finish, release, fail,
 * bury and kick, calls are cancelled and connections dropped, while a test makes the disk fail.
 *
 * Each job has a serial number in its body. A put that was acknowledged must be worked off, one
 * that failed for certain must never be seen, and a job whose lease lasts longer than the test has
 * one holder at a time. When the faults are over everything is worked off, and the figures are all
 * 0.
 */
#ifndef FAULT_WORKLOAD_H
#define FAULT_WORKLOAD_H

#include <bide/bide.h>

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#define WORKLOAD_TOPIC   "pairs"
#define WORKLOAD_SERIALS 200000

struct workload {
    bide *queues[2]; /* may be the same */
    uint64_t seed;
    bool with_pauses; /* the topic is paused and the queue drained now and then */
    _Atomic uint64_t workers;
    atomic_bool stop, over;
    _Atomic uint64_t next, stored, finished;
    _Atomic uint64_t unknown; /* calls that were answered EUNKNOWN */
    _Atomic char put[WORKLOAD_SERIALS], lease[WORKLOAD_SERIALS];
    char socket[108]; /* "": there is no server */
};

/* Its seed is that of the environment (BIDE_PAIRS_SEED), or 1. It is freed with free(). */
struct workload *workload_new(void);

/* Puts jobs before the load begins. */
void workload_put(struct workload *workload, int count);

/* Two faults at a time, by the seed, for a few seconds. */
void workload_inject_faults(struct workload *workload);

/* Runs the load while inject_faults() makes the disk fail; when it returns all faults are over.
 * inner is the queue that has the file open. */
void workload_run(struct workload *workload, bide *inner, void (*inject_faults)(struct workload *));

#endif
