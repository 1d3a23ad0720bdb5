/* SPDX-License-Identifier: MIT */
#include "background_fixture.h"

static void background_fixture_on_event(void *user, const bide_work_event *event)
{
    struct background_fixture *fixture = user;
    assert_true(fixture->event_count < BACKGROUND_EVENTS);
    struct background_fixture_event *seen = &fixture->events[fixture->event_count++];
    *seen = (struct background_fixture_event){
        .kind = event->kind, .code = event->code, .id = event->id, .delay_ms = event->delay_ms};
    strncpy(seen->text, event->text, sizeof(seen->text) - 1);
}

static int background_fixture_handler(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    (void)body;
    (void)arg;
    return BIDE_DONE;
}

static void background_fixture_init_background(struct background_fixture *fixture)
{
    struct background *background = fixture->background;
    background->worker = fixture->worker;
    atomic_store(&background->wake_at, 0); /* no thread waits */
    pthread_mutex_init(&background->lock, NULL);
    assert_int_equal(bide_cq_new(&background->cq), BIDE_OK);
    background->items = calloc(BACKGROUND_SLOTS, sizeof(*background->items));
    background->item_threads = calloc(BACKGROUND_SLOTS, sizeof(struct worker_thread *));
    background->texts = calloc(BACKGROUND_SLOTS, sizeof(*background->texts));
    assert_true(background->items != NULL && background->item_threads != NULL &&
                background->texts != NULL);
}

struct background_fixture *background_fixture_new(void)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    struct background_fixture *fixture = calloc(1, sizeof(*fixture));
    assert_non_null(fixture);
    fixture->stub = stub_new();
    options.threads = BACKGROUND_SLOTS;
    options.event = background_fixture_on_event;
    options.user = fixture;
    assert_int_equal(bide_worker_new(&fixture->stub->queue, &options, &fixture->worker), BIDE_OK);
    assert_int_equal(bide_worker_handle(fixture->worker, "t", background_fixture_handler, NULL),
                     BIDE_OK);
    fixture->worker->threads = calloc(BACKGROUND_SLOTS, sizeof(struct worker_thread));
    assert_non_null(fixture->worker->threads);
    for (size_t i = 0; i < BACKGROUND_SLOTS; i++)
        assert_int_equal(bi_worker_thread_init(&fixture->worker->threads[i], fixture->worker),
                         BIDE_OK);
    fixture->background = &fixture->worker->background;
    background_fixture_init_background(fixture);
    return fixture;
}

struct bide_context *background_fixture_context(struct background_fixture *fixture, size_t thread)
{
    return &fixture->worker->threads[thread].context;
}

int64_t background_fixture_begin(struct background_fixture *fixture, size_t thread, bide_job job)
{
    struct bide_context *context = background_fixture_context(fixture, thread);
    context->job = job;
    context->entry = bi_registry_lookup(fixture->worker, job.topic);
    bi_context_begin(context);
    return context->started;
}

void background_fixture_finish(struct background_fixture *fixture, size_t thread)
{
    bi_context_end(background_fixture_context(fixture, thread));
    bi_context_clear(background_fixture_context(fixture, thread));
}

bide_reason background_fixture_reason(struct background_fixture *fixture, size_t thread)
{
    return (bide_reason)atomic_load(&background_fixture_context(fixture, thread)->stop_reason);
}

size_t background_fixture_count(const struct background_fixture *fixture, bide_work_kind kind,
                                uint64_t id)
{
    size_t count = 0;
    for (size_t i = 0; i < fixture->event_count; i++)
        count += fixture->events[i].kind == kind && fixture->events[i].id == id;
    return count;
}

const struct background_fixture_event *background_fixture_last(
    const struct background_fixture *fixture)
{
    assert_true(fixture->event_count > 0);
    return &fixture->events[fixture->event_count - 1];
}

void background_fixture_free(struct background_fixture *fixture)
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
    for (size_t i = 0; i < BACKGROUND_SLOTS; i++) {
        background_fixture_finish(fixture, i);
        bi_worker_thread_done(&fixture->worker->threads[i]);
    }
    free(fixture->worker->threads);
    fixture->worker->threads = NULL;
    assert_int_equal(bide_worker_free(fixture->worker), BIDE_OK);
    stub_free(fixture->stub);
    free(fixture);
}
