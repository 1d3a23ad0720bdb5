/* SPDX-License-Identifier: MIT */
/*
 * worker_fixture - a worker on a stub backend with scripted handlers.
 *
 * Every job has the topic "t". A test sets the plan of a handler by the id of the job before the
 * job is delivered. Events are recorded, and a test can wait for one.
 */
#ifndef BI_UNIT_WORKER_FIXTURE_H
#define BI_UNIT_WORKER_FIXTURE_H

#include "stub_backend.h"

#include "task/worker_internal.h"

#define FIXTURE_EVENTS 1024

/* What the handler of a job does. */
struct handler_plan {
    int (*respond)(bide_context *context); /* makes the outcome; NULL: done */
    bool waits;                            /* before that, until there is a reason to stop */
    bool blocks;                           /* before that, until fixture_release() */
};

struct seen_event {
    bide_work_kind kind;
    int code;
    uint64_t id;
    int64_t delay_ms;
    char text[80];
};

struct fixture {
    struct stub *stub;
    bide_worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct handler_plan handler_plans[STUB_IDS];
    bool started[STUB_IDS], released[STUB_IDS];
    bide_reason reasons[STUB_IDS]; /* that handlers saw when they ended */
    struct seen_event events[FIXTURE_EVENTS];
    size_t event_count;
    void (*on_event)(struct fixture *fixture, const bide_work_event *event); /* may be NULL */
};

int fixture_handle(bide_context *context, const bide_slice *body, void *arg);

/* A worker that is not started. */
struct fixture *fixture_new(uint32_t threads);
struct fixture *fixture_start(uint32_t threads);

/* A started worker whose stop_timeout is short. */
struct fixture *fixture_start_short_stop(uint32_t threads);

/* Makes a job available and sets the plan of its handler. */
void fixture_add_job(struct fixture *fixture, bide_job job, struct handler_plan handler_plan);
void fixture_release(struct fixture *fixture, uint64_t id);
void fixture_await_start(struct fixture *fixture, uint64_t id);
bide_reason fixture_reason(struct fixture *fixture, uint64_t id);
size_t fixture_count(struct fixture *fixture, bide_work_kind kind, uint64_t id);

/* Waits for the first event of a kind about a job. */
struct seen_event fixture_await(struct fixture *fixture, bide_work_kind kind, uint64_t id);
void fixture_free(struct fixture *fixture);

/* Releases all handlers, stops the worker and frees everything. */
void fixture_end(struct fixture *fixture);

#endif
