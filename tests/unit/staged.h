/* SPDX-License-Identifier: MIT */
/*
 * staged - a worker on a puppet, whose handlers do what the test says.
 *
 * Every job is of topic "t". What its handler does is set by its id before it is given. Events are
 * noted, so that a test can wait for one and look at it.
 */
#ifndef BI_UNIT_STAGED_H
#define BI_UNIT_STAGED_H

#include "puppet.h"

#include "task/inside.h"

#define STAGE_EVENTS 1024

/* What the handler of a job does. */
struct role {
    int (*say)(bide_context *context); /* what it answers in the end; NULL: done */
    bool waits;                        /* first, until there is a reason to stop */
    bool stays;                        /* first, until it is let go, whatever there is */
};

struct seen_event {
    bide_work_kind kind;
    int code;
    uint64_t id;
    int64_t delay_ms;
    char text[80];
};

struct stage {
    struct puppet *puppet;
    bide_worker *worker;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct role roles[PUPPET_IDS];
    bool begun[PUPPET_IDS], let_go[PUPPET_IDS];
    bide_reason reasons[PUPPET_IDS]; /* that handlers heard */
    struct seen_event events[STAGE_EVENTS];
    size_t event_count;
    void (*on_event)(struct stage *stage, const bide_work_event *event); /* may be NULL */
};

static inline void stage_on_event(void *user, const bide_work_event *event)
{
    struct stage *stage = user;
    pthread_mutex_lock(&stage->lock);
    assert_true(stage->event_count < STAGE_EVENTS);
    struct seen_event *seen = &stage->events[stage->event_count++];
    *seen = (struct seen_event){
        .kind = event->kind, .code = event->code, .id = event->id, .delay_ms = event->delay_ms};
    strncpy(seen->text, event->text, sizeof(seen->text) - 1);
    pthread_cond_broadcast(&stage->changed);
    pthread_mutex_unlock(&stage->lock);
    if (stage->on_event != NULL)
        stage->on_event(stage, event);
}

static inline void stage_stay(struct stage *stage, uint64_t id)
{
    pthread_mutex_lock(&stage->lock);
    while (!stage->let_go[id])
        pthread_cond_wait(&stage->changed, &stage->lock);
    pthread_mutex_unlock(&stage->lock);
}

static inline int stage_play(bide_context *context, const bide_slice *body, void *arg)
{
    struct stage *stage = arg;
    uint64_t id = bide_context_job(context)->id;
    (void)body;
    pthread_mutex_lock(&stage->lock);
    struct role role = stage->roles[id];
    stage->begun[id] = true;
    pthread_cond_broadcast(&stage->changed);
    pthread_mutex_unlock(&stage->lock);
    if (role.waits)
        bide_context_wait(context, BIDE_FOREVER);
    if (role.stays)
        stage_stay(stage, id);
    pthread_mutex_lock(&stage->lock);
    stage->reasons[id] = bide_context_reason(context);
    pthread_mutex_unlock(&stage->lock);
    return role.say == NULL ? BIDE_DONE : role.say(context);
}

/* A worker that is not started. */
static inline struct stage *stage_new(uint32_t threads)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    struct stage *stage = calloc(1, sizeof(*stage));
    assert_non_null(stage);
    stage->puppet = puppet_new();
    pthread_mutex_init(&stage->lock, NULL);
    bi_thread_condition(&stage->changed);
    options.threads = threads;
    options.health_interval_ms = 3600000;
    options.event = stage_on_event;
    options.user = stage;
    assert_int_equal(bide_worker_new(&stage->puppet->queue, &options, &stage->worker), BIDE_OK);
    assert_int_equal(bide_worker_handle(stage->worker, "t", stage_play, stage), BIDE_OK);
    return stage;
}

static inline struct stage *stage_start(uint32_t threads)
{
    struct stage *stage = stage_new(threads);
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    return stage;
}

/* A worker that is started, and whose stop soon loses its patience. */
static inline struct stage *stage_start_hasty(uint32_t threads)
{
    struct stage *stage = stage_new(threads);
    stage->worker->options.stop_timeout_ms = 50;
    assert_int_equal(bide_worker_start(stage->worker), BIDE_OK);
    return stage;
}

/* Gives a job, and says what its handler does. */
static inline void stage_give(struct stage *stage, bide_job job, struct role role)
{
    pthread_mutex_lock(&stage->lock);
    stage->roles[job.id] = role;
    pthread_mutex_unlock(&stage->lock);
    puppet_give(stage->puppet, job);
}

static inline void stage_let_go(struct stage *stage, uint64_t id)
{
    pthread_mutex_lock(&stage->lock);
    stage->let_go[id] = true;
    pthread_cond_broadcast(&stage->changed);
    pthread_mutex_unlock(&stage->lock);
}

static inline void stage_await_begin(struct stage *stage, uint64_t id)
{
    struct timespec until;
    bi_clock_until(&until, PATIENCE_US);
    pthread_mutex_lock(&stage->lock);
    while (!stage->begun[id] && pthread_cond_timedwait(&stage->changed, &stage->lock, &until) == 0)
        ;
    bool begun = stage->begun[id];
    pthread_mutex_unlock(&stage->lock);
    assert_true(begun);
}

static inline bide_reason stage_reason(struct stage *stage, uint64_t id)
{
    pthread_mutex_lock(&stage->lock);
    bide_reason reason = stage->reasons[id];
    pthread_mutex_unlock(&stage->lock);
    return reason;
}

/* With the lock held. */
static inline const struct seen_event *stage_find(const struct stage *stage, bide_work_kind kind,
                                                  uint64_t id, size_t nth)
{
    for (size_t i = 0; i < stage->event_count; i++)
        if (stage->events[i].kind == kind && stage->events[i].id == id && --nth == 0)
            return &stage->events[i];
    return NULL;
}

static inline size_t stage_count(struct stage *stage, bide_work_kind kind, uint64_t id)
{
    size_t count = 0;
    pthread_mutex_lock(&stage->lock);
    while (stage_find(stage, kind, id, count + 1) != NULL)
        count++;
    pthread_mutex_unlock(&stage->lock);
    return count;
}

/* Waits for the first event of a kind about a job. */
static inline struct seen_event stage_await(struct stage *stage, bide_work_kind kind, uint64_t id)
{
    const struct seen_event *found;
    struct timespec until;
    bi_clock_until(&until, PATIENCE_US);
    pthread_mutex_lock(&stage->lock);
    while ((found = stage_find(stage, kind, id, 1)) == NULL &&
           pthread_cond_timedwait(&stage->changed, &stage->lock, &until) == 0)
        ;
    bool came = found != NULL;
    struct seen_event event = came ? *found : (struct seen_event){0};
    pthread_mutex_unlock(&stage->lock);
    if (!came)
        fail_msg("nobody was told that job %llu is %s", (unsigned long long)id,
                 bide_work_name(kind));
    return event;
}

static inline void stage_free(struct stage *stage)
{
    assert_int_equal(bide_worker_free(stage->worker), BIDE_OK);
    puppet_free(stage->puppet);
    pthread_cond_destroy(&stage->changed);
    pthread_mutex_destroy(&stage->lock);
    free(stage);
}

/* All handlers return, and the worker has stopped. */
static inline void stage_end(struct stage *stage)
{
    for (uint64_t id = 0; id < PUPPET_IDS; id++)
        stage_let_go(stage, id);
    stage_free(stage);
}

#endif
