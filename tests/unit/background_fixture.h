/* SPDX-License-Identifier: MIT */
/*
 * background_fixture - the background part of a worker without its thread, on a stub backend.
 *
 * The test calls the functions that the background thread would call, and passes the time. It also
 * begins and finishes jobs on worker threads, which do not run; handlers are never called.
 */
#ifndef BI_UNIT_BACKGROUND_FIXTURE_H
#define BI_UNIT_BACKGROUND_FIXTURE_H

#include "stub_backend.h"

#include "task/worker_internal.h"

#define BACKGROUND_SLOTS  4
#define BACKGROUND_EVENTS 64

struct background_fixture_event {
    bide_work_kind kind;
    int code;
    uint64_t id;
    int64_t delay_ms;
    char text[80];
};

struct background_fixture {
    struct stub *stub;
    bide_worker *worker;
    struct background *background; /* the worker's */
    struct background_fixture_event events[BACKGROUND_EVENTS];
    size_t event_count;
};

struct background_fixture *background_fixture_new(void);
struct bide_context *background_fixture_context(struct background_fixture *fixture, size_t thread);

/* A worker thread begins a job; returns the time. */
int64_t background_fixture_begin(struct background_fixture *fixture, size_t thread, bide_job job);
void background_fixture_finish(struct background_fixture *fixture, size_t thread);

/* The reason to stop that has been set for the handler, deadlines not considered. */
bide_reason background_fixture_reason(struct background_fixture *fixture, size_t thread);

/* The number of events of a kind about a job. */
size_t background_fixture_count(const struct background_fixture *fixture, bide_work_kind kind,
                                uint64_t id);
const struct background_fixture_event *background_fixture_last(
    const struct background_fixture *fixture);
void background_fixture_free(struct background_fixture *fixture);

#endif
