/* SPDX-License-Identifier: MIT */
#include "worker_fixture.h"

static void fixture_on_event(void *user, const bide_work_event *event)
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

static void fixture_block(struct fixture *fixture, uint64_t id)
{
    pthread_mutex_lock(&fixture->lock);
    while (!fixture->released[id])
        pthread_cond_wait(&fixture->changed, &fixture->lock);
    pthread_mutex_unlock(&fixture->lock);
}

int fixture_handle(bide_context *context, const bide_slice *body, void *arg)
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

struct fixture *fixture_new(uint32_t threads)
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
    options.flags = BIDE_WORKER_NO_SCHEDULES; /* the stub backend has no schedules */
    assert_int_equal(bide_worker_new(&fixture->stub->queue, &options, &fixture->worker), BIDE_OK);
    assert_int_equal(bide_worker_handle(fixture->worker, "t", fixture_handle, fixture), BIDE_OK);
    return fixture;
}

struct fixture *fixture_start(uint32_t threads)
{
    struct fixture *fixture = fixture_new(threads);
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    return fixture;
}

struct fixture *fixture_start_short_stop(uint32_t threads)
{
    struct fixture *fixture = fixture_new(threads);
    fixture->worker->options.stop_timeout_ms = 50;
    assert_int_equal(bide_worker_start(fixture->worker), BIDE_OK);
    return fixture;
}

void fixture_add_job(struct fixture *fixture, bide_job job, struct handler_plan handler_plan)
{
    pthread_mutex_lock(&fixture->lock);
    fixture->handler_plans[job.id] = handler_plan;
    pthread_mutex_unlock(&fixture->lock);
    stub_add_job(fixture->stub, job);
}

void fixture_release(struct fixture *fixture, uint64_t id)
{
    pthread_mutex_lock(&fixture->lock);
    fixture->released[id] = true;
    pthread_cond_broadcast(&fixture->changed);
    pthread_mutex_unlock(&fixture->lock);
}

void fixture_await_start(struct fixture *fixture, uint64_t id)
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

bide_reason fixture_reason(struct fixture *fixture, uint64_t id)
{
    pthread_mutex_lock(&fixture->lock);
    bide_reason reason = fixture->reasons[id];
    pthread_mutex_unlock(&fixture->lock);
    return reason;
}

/* With the lock held. */
static const struct seen_event *fixture_find(const struct fixture *fixture, bide_work_kind kind,
                                             uint64_t id, size_t nth)
{
    for (size_t i = 0; i < fixture->event_count; i++)
        if (fixture->events[i].kind == kind && fixture->events[i].id == id && --nth == 0)
            return &fixture->events[i];
    return NULL;
}

size_t fixture_count(struct fixture *fixture, bide_work_kind kind, uint64_t id)
{
    size_t count = 0;
    pthread_mutex_lock(&fixture->lock);
    while (fixture_find(fixture, kind, id, count + 1) != NULL)
        count++;
    pthread_mutex_unlock(&fixture->lock);
    return count;
}

struct seen_event fixture_await(struct fixture *fixture, bide_work_kind kind, uint64_t id)
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
        fail_msg("no event reported that job %llu is %s", (unsigned long long)id,
                 bide_work_name(kind));
    return event;
}

void fixture_free(struct fixture *fixture)
{
    assert_int_equal(bide_worker_free(fixture->worker), BIDE_OK);
    stub_free(fixture->stub);
    pthread_cond_destroy(&fixture->changed);
    pthread_mutex_destroy(&fixture->lock);
    free(fixture);
}

void fixture_end(struct fixture *fixture)
{
    for (uint64_t id = 0; id < STUB_IDS; id++)
        fixture_release(fixture, id);
    fixture_free(fixture);
}
