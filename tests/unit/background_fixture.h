/* SPDX-License-Identifier: MIT */
/*
 * background_fixture - the keeper of a worker without its thread, on a puppet.
 *
 * The test calls what the thread would call, and says what time it is. A slot runs a job when the
 * test says so; there are no handlers.
 */
#ifndef BI_UNIT_BACKGROUND_FIXTURE_H
#define BI_UNIT_BACKGROUND_FIXTURE_H

#include "stub_backend.h"

#include "task/background.h"

#define FIXTURE_SLOTS  4
#define FIXTURE_EVENTS 64

struct fixture_event {
    bide_work_kind kind;
    int code;
    uint64_t id;
    int64_t delay_ms;
    char text[80];
};

struct fixture {
    struct stub *stub;
    bide_worker *worker;
    struct background *background; /* the worker's */
    struct fixture_event events[FIXTURE_EVENTS];
    size_t event_count;
};

static inline void fixture_on_event(void *user, const bide_work_event *event)
{
    struct fixture *fixture = user;
    assert_true(fixture->event_count < FIXTURE_EVENTS);
    struct fixture_event *seen = &fixture->events[fixture->event_count++];
    *seen = (struct fixture_event){
        .kind = event->kind, .code = event->code, .id = event->id, .delay_ms = event->delay_ms};
    strncpy(seen->text, event->text, sizeof(seen->text) - 1);
}

static inline int fixture_handler(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    (void)body;
    (void)arg;
    return BIDE_DONE;
}

static inline void fixture_init_background(struct fixture *fixture)
{
    struct background *background = fixture->background;
    background->worker = fixture->worker;
    atomic_store(&background->wake_at, 0); /* nobody has to wake it */
    pthread_mutex_init(&background->lock, NULL);
    assert_int_equal(bide_cq_new(&background->cq), BIDE_OK);
    background->items = calloc(FIXTURE_SLOTS, sizeof(*background->items));
    background->item_threads = calloc(FIXTURE_SLOTS, sizeof(struct worker_thread *));
    background->texts = calloc(FIXTURE_SLOTS, sizeof(*background->texts));
    assert_true(background->items != NULL && background->item_threads != NULL &&
                background->texts != NULL);
}

static inline struct fixture *fixture_new(void)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    struct fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->stub = stub_new();
    options.threads = FIXTURE_SLOTS;
    options.event = fixture_on_event;
    options.user = fixture;
    assert_int_equal(bide_worker_new(&fixture->stub->queue, &options, &fixture->worker), BIDE_OK);
    assert_int_equal(bide_worker_handle(fixture->worker, "t", fixture_handler, NULL), BIDE_OK);
    fixture->worker->threads = calloc(FIXTURE_SLOTS, sizeof(struct worker_thread));
    assert_non_null(fixture->worker->threads);
    for (size_t i = 0; i < FIXTURE_SLOTS; i++)
        assert_int_equal(bi_worker_thread_init(&fixture->worker->threads[i], fixture->worker),
                         BIDE_OK);
    fixture->background = &fixture->worker->background;
    fixture_init_background(fixture);
    return fixture;
}

static inline struct bide_context *fixture_context(struct fixture *fixture, size_t thread)
{
    return &fixture->worker->threads[thread].context;
}

/* A slot begins a job; answers when. */
static inline int64_t fixture_begin(struct fixture *fixture, size_t thread, bide_job job)
{
    struct bide_context *context = fixture_context(fixture, thread);
    context->job = job;
    context->entry = bi_registry_lookup(fixture->worker, job.topic);
    bi_context_begin(context);
    return context->started;
}

static inline void fixture_finish(struct fixture *fixture, size_t thread)
{
    bi_context_end(fixture_context(fixture, thread));
    bi_context_clear(fixture_context(fixture, thread));
}

/* What the handler of a slot would hear at a time when nothing is over. */
static inline bide_reason fixture_reason(struct fixture *fixture, size_t thread)
{
    return (bide_reason)atomic_load(&fixture_context(fixture, thread)->stop_reason);
}

/* How many events of a kind were told about a job. */
static inline size_t fixture_count(const struct fixture *fixture, bide_work_kind kind, uint64_t id)
{
    size_t count = 0;
    for (size_t i = 0; i < fixture->event_count; i++)
        count += fixture->events[i].kind == kind && fixture->events[i].id == id;
    return count;
}

static inline const struct fixture_event *fixture_last(const struct fixture *fixture)
{
    assert_true(fixture->event_count > 0);
    return &fixture->events[fixture->event_count - 1];
}

static inline void fixture_free(struct fixture *fixture)
{
    struct background *background = fixture->background;
    bi_subscriber_stop(background);
    bide_cq_drain(background->cq, 0);
    while (bi_syncer_abandon(background))
        ;
    free(background->items);
    free(background->item_threads);
    free(background->texts);
    pthread_mutex_destroy(&background->lock);
    assert_int_equal(bide_cq_free(background->cq), BIDE_OK);
    for (size_t i = 0; i < FIXTURE_SLOTS; i++) {
        fixture_finish(fixture, i);
        bi_worker_thread_done(&fixture->worker->threads[i]);
    }
    free(fixture->worker->threads);
    fixture->worker->threads = NULL;
    assert_int_equal(bide_worker_free(fixture->worker), BIDE_OK);
    stub_free(fixture->stub);
    free(fixture);
}

#endif
