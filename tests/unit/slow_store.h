/* SPDX-License-Identifier: MIT */
/*
 * slow_store - a queue on a store whose commits block and fail as the test says.
 *
 * While the gate is shut, a commit blocks in the store until the test permits it. The store keeps
 * no rows, only the number of jobs that it would have.
 */
#ifndef BI_UNIT_SLOW_STORE_H
#define BI_UNIT_SLOW_STORE_H

#include "unit.h"

#include "local/local_internal.h"
#include "queue/queue.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#define FOR_EVER UINT32_MAX
#define FAILURE  "the disk is on fire"

struct slow_store {
    struct store base;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    bool shut;
    unsigned permits;  /* commits that may pass the shut gate */
    unsigned failures; /* commits that will fail; FOR_EVER: all */
    unsigned started;  /* commits that have arrived */
    unsigned finished; /* commits that have returned */
    size_t last_count; /* records in the last successful commit */
    int64_t jobs;      /* stored now */
    bool *closed;      /* set when the queue closes the store */
};

int slow_pauses(struct store *store, store_visit visit, void *ctx, char *error);
int slow_count(struct store *store, uint64_t below, uint64_t *count, char *error);
int slow_fetch(struct store *store, uint64_t id, store_visit visit, void *ctx, char *error);

extern const struct backend_ops slow_backend_ops;

/* Waits until that many commits have arrived. */
void slow_await(struct slow_store *slow, unsigned started);
void slow_set(struct slow_store *slow, bool shut, unsigned failures);

/* Permits one commit to pass the shut gate. */
void slow_permit(struct slow_store *slow);
unsigned slow_started(struct slow_store *slow);
int64_t slow_jobs(struct slow_store *slow);
size_t slow_last_count(struct slow_store *slow);

/* Opens a queue on a slow store as bide_open() does; options are those of the URL. */
bide *slow_open(const char *url, struct slow_store **slow);

/* The bytes of a string. Defined in unit.c, because core_fixture.h declares it too. */
bide_slice text(const char *string);

int submit_one(bide *queue, bide_op *op);
bide_op put_op(bide_cq *cq, const char *topic);
bide_op lease_op(bide_cq *cq, bide_op_kind kind, uint64_t id, uint64_t token);

/* A reserve that does not wait. *topic must stay valid until it is submitted. */
bide_op reserve_op(bide_cq *cq, const bide_slice *topic, bide_job *job);

/* Drains the completion queue until that many ops have completed. */
void await_completions(bide_cq *cq, int wanted);

#endif
