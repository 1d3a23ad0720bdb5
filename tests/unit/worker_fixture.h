/* SPDX-License-Identifier: MIT */
/*
 * worker_fixture - a worker on a puppet, whose handlers do what the test says.
 *
 * Every job is of topic "t". What its handler does is set by its id before it is given. Events are
 * noted, so that a test can wait for one and look at it.
 */
#ifndef BI_UNIT_WORKER_FIXTURE_H
#define BI_UNIT_WORKER_FIXTURE_H

#include "stub_backend.h"

#include "task/worker_internal.h"

#define FIXTURE_EVENTS 1024

/* What the handler of a job does. */
struct handler_plan {
    int (*respond)(bide_context *context); /* what it answers in the end; NULL: done */
    bool waits;                            /* first, until there is a reason to stop */
    bool blocks;                           /* first, until it is let go, whatever there is */
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
    bide_reason reasons[STUB_IDS]; /* that handlers heard */
    struct seen_event events[FIXTURE_EVENTS];
    size_t event_count;
    void (*on_event)(struct fixture *fixture, const bide_work_event *event); /* may be NULL */
};

static inline void fixture_on_event(void *user, const bide_work_event *event)
{
    struct fixture *fixture = user;
    pthread_mutex_lock(&fixture->lock);
    assert_true(fixture->event_count < FIXTURE_EVENTS);
    struct seen_event *seen = &fixture->events[fixture->event_count++];
    *seen = (struct seen_event){
        .kind = event->kind, .code = event->code, .id = event->id, .delay_ms = event->delay_ms};
    strncpy(seen->text, event->text, sizeof(seen->text) - 1);
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
    if (fixture->on_event != NULL)
        fixture->on_event(fixture, event);
}

static inline void fixture_block(struct fixture *fixture, uint64_t id)
{
    pthread_mutex_lock(&fixture->lock);
    while (!fixture->released[id])
        pthread_cond_wait(&fixture->changed, &fixture->lock);
    pthread_mutex_unlock(&fixture->lock);
}

static inline int fixture_handle(bide_context *context, const bide_slice *body, void *arg)
{
    struct fixture *fixture = arg;
    uint64_t id = bide_context_job(context)->id;
    (void)body;
    pthread_mutex_lock(&fixture->lock);
    struct handler_plan handler_plan = fixture->handler_plans[id];
    fixture->started[id] = true;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
    if (handler_plan.waits)
        bide_context_wait(context, BIDE_FOREVER);
    if (handler_plan.blocks)
        fixture_block(fixture, id);
    pthread_mutex_lock(&fixture->lock);
    fixture->reasons[id] = bide_context_reason(context);
    pthread_mutex_unlock(&fixture->lock);
    return handler_plan.respond == NULL ? BIDE_DONE : handler_plan.respond(context);
}

/* A worker that is not started. */
static inline struct fixture *fixture_new(uint32_t threads)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->stub = stub_new();
    pthread_mutex_init(&fixture->lock, NULL);
    bi_thread_cond_init(&fixture->changed);
    options.threads = threads;
    options.health_interval_ms = 3600000;
    options.event = fixture_on_event;
    options.user = fixture;
    assert_int_equal(bide_worker_new(&fixture->stub->queue, &options, &fixture->worker), BIDE_OK);
    assert_int_equal(bide_worker_handle(fixture->worker, "t", fixture_handle, fixture), BIDE_OK);
    return fixture;
}

static inline struct fixture *fixture_start(uint32_t threads)
{
    struct fixture *fixture = fixture_new(threads);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    return fixture;
}

/* A worker that is started, and whose stop soon loses its patience. */
static inline struct fixture *fixture_start_short_stop(uint32_t threads)
{
    struct fixture *fixture = fixture_new(threads);
    fixture->worker->options.stop_timeout_ms = 50;
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    return fixture;
}

/* Gives a job, and says what its handler does. */
static inline void fixture_add_job(struct fixture *fixture, bide_job job,
                                   struct handler_plan handler_plan)
{
    pthread_mutex_lock(&fixture->lock);
    fixture->handler_plans[job.id] = handler_plan;
    pthread_mutex_unlock(&fixture->lock);
    stub_add_job(fixture->stub, job);
}

static inline void fixture_release(struct fixture *fixture, uint64_t id)
{
    pthread_mutex_lock(&fixture->lock);
    fixture->released[id] = true;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

static inline void fixture_await_start(struct fixture *fixture, uint64_t id)
{
    struct timespec until;
    bi_clock_mono_deadline(&until, PATIENCE_US);
    pthread_mutex_lock(&fixture->lock);
    while (!fixture->started[id] &&
           pthread_cond_timedwait(&fixture->changed, &fixture->lock, &until) == 0)
        ;
    bool started = fixture->started[id];
    pthread_mutex_unlock(&fixture->lock);
    assert_true(started);
}

static inline bide_reason fixture_reason(struct fixture *fixture, uint64_t id)
{
    pthread_mutex_lock(&fixture->lock);
    bide_reason reason = fixture->reasons[id];
    pthread_mutex_unlock(&fixture->lock);
    return reason;
}

/* With the lock held. */
static inline const struct seen_event *fixture_find(const struct fixture *fixture,
                                                    bide_work_kind kind, uint64_t id, size_t nth)
{
    for (size_t i = 0; i < fixture->event_count; i++)
        if (fixture->events[i].kind == kind && fixture->events[i].id == id && --nth == 0)
            return &fixture->events[i];
    return NULL;
}

static inline size_t fixture_count(struct fixture *fixture, bide_work_kind kind, uint64_t id)
{
    size_t count = 0;
    pthread_mutex_lock(&fixture->lock);
    while (fixture_find(fixture, kind, id, count + 1) != NULL)
        count++;
    pthread_mutex_unlock(&fixture->lock);
    return count;
}

/* Waits for the first event of a kind about a job. */
static inline struct seen_event fixture_await(struct fixture *fixture, bide_work_kind kind,
                                              uint64_t id)
{
    const struct seen_event *found;
    struct timespec until;
    bi_clock_mono_deadline(&until, PATIENCE_US);
    pthread_mutex_lock(&fixture->lock);
    while ((found = fixture_find(fixture, kind, id, 1)) == NULL &&
           pthread_cond_timedwait(&fixture->changed, &fixture->lock, &until) == 0)
        ;
    bool came = found != NULL;
    struct seen_event event = came ? *found : (struct seen_event){0};
    pthread_mutex_unlock(&fixture->lock);
    if (!came)
        fail_msg("nobody was told that job %llu is %s", (unsigned long long)id,
                 bide_work_name(kind));
    return event;
}

static inline void fixture_free(struct fixture *fixture)
{
    assert_int_equal(bide_worker_free(fixture->worker), BIDE_OK);
    stub_free(fixture->stub);
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
    free(fixture);
}

/* All handlers return, and the worker has stopped. */
static inline void fixture_end(struct fixture *fixture)
{
    for (uint64_t id = 0; id < STUB_IDS; id++)
        fixture_release(fixture, id);
    fixture_free(fixture);
}

#endif
