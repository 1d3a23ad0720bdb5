/* SPDX-License-Identifier: MIT */
/*
 * kept - the keeper of a worker without its thread, on a puppet.
 *
 * The test calls what the thread would call, and says what time it is. A slot runs a job when the
 * test says so; there are no handlers.
 */
#ifndef BI_UNIT_KEPT_H
#define BI_UNIT_KEPT_H

#include "puppet.h"

#include "task/keeper.h"

#define KEPT_SLOTS  4
#define KEPT_EVENTS 64

struct kept_event {
    bide_work_kind kind;
    int code;
    uint64_t id;
    int64_t delay_ms;
    char text[80];
};

struct kept {
    struct puppet *puppet;
    bide_worker *worker;
    struct keeper *keeper; /* the worker's */
    struct kept_event events[KEPT_EVENTS];
    size_t event_count;
};

static inline void kept_on_event(void *user, const bide_work_event *event)
{
    struct kept *kept = user;
    assert_true(kept->event_count < KEPT_EVENTS);
    struct kept_event *seen = &kept->events[kept->event_count++];
    *seen = (struct kept_event){
        .kind = event->kind, .code = event->code, .id = event->id, .delay_ms = event->delay_ms};
    strncpy(seen->text, event->text, sizeof(seen->text) - 1);
}

static inline int kept_handler(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    (void)body;
    (void)arg;
    return BIDE_DONE;
}

static inline void kept_make_keeper(struct kept *kept)
{
    struct keeper *keeper = kept->keeper;
    keeper->worker = kept->worker;
    atomic_store(&keeper->wake_at, 0); /* nobody has to wake it */
    pthread_mutex_init(&keeper->lock, NULL);
    assert_int_equal(bide_cq_new(&keeper->cq), BIDE_OK);
    keeper->items = calloc(KEPT_SLOTS, sizeof(*keeper->items));
    keeper->item_slots = calloc(KEPT_SLOTS, sizeof(struct slot *));
    keeper->texts = calloc(KEPT_SLOTS, sizeof(*keeper->texts));
    assert_true(keeper->items != NULL && keeper->item_slots != NULL && keeper->texts != NULL);
}

static inline struct kept *kept_new(void)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    struct kept *kept = calloc(1, sizeof(*kept));
    assert_non_null(kept);
    kept->puppet = puppet_new();
    options.threads = KEPT_SLOTS;
    options.event = kept_on_event;
    options.user = kept;
    assert_int_equal(bide_worker_new(&kept->puppet->queue, &options, &kept->worker), BIDE_OK);
    assert_int_equal(bide_worker_handle(kept->worker, "t", kept_handler, NULL), BIDE_OK);
    kept->worker->slots = calloc(KEPT_SLOTS, sizeof(struct slot));
    assert_non_null(kept->worker->slots);
    for (size_t i = 0; i < KEPT_SLOTS; i++)
        assert_int_equal(bi_slot_init(&kept->worker->slots[i], kept->worker), BIDE_OK);
    kept->keeper = &kept->worker->keeper;
    kept_make_keeper(kept);
    return kept;
}

static inline struct bide_context *kept_context(struct kept *kept, size_t slot)
{
    return &kept->worker->slots[slot].context;
}

/* A slot begins a job; answers when. */
static inline int64_t kept_begin(struct kept *kept, size_t slot, bide_job job)
{
    struct bide_context *context = kept_context(kept, slot);
    context->job = job;
    context->entry = bi_worker_entry(kept->worker, job.topic);
    bi_context_begin(context);
    return context->started;
}

static inline void kept_finish(struct kept *kept, size_t slot)
{
    bi_context_end(kept_context(kept, slot));
    bi_context_clear(kept_context(kept, slot));
}

/* What the handler of a slot would hear at a time when nothing is over. */
static inline bide_reason kept_told(struct kept *kept, size_t slot)
{
    return (bide_reason)atomic_load(&kept_context(kept, slot)->told);
}

/* How many events of a kind were told about a job. */
static inline size_t kept_count(const struct kept *kept, bide_work_kind kind, uint64_t id)
{
    size_t count = 0;
    for (size_t i = 0; i < kept->event_count; i++)
        count += kept->events[i].kind == kind && kept->events[i].id == id;
    return count;
}

static inline const struct kept_event *kept_last(const struct kept *kept)
{
    assert_true(kept->event_count > 0);
    return &kept->events[kept->event_count - 1];
}

static inline void kept_free(struct kept *kept)
{
    struct keeper *keeper = kept->keeper;
    bi_subscriber_stop(keeper);
    bide_cq_drain(keeper->cq, 0);
    while (bi_syncer_end(keeper))
        ;
    free(keeper->items);
    free(keeper->item_slots);
    free(keeper->texts);
    pthread_mutex_destroy(&keeper->lock);
    assert_int_equal(bide_cq_free(keeper->cq), BIDE_OK);
    for (size_t i = 0; i < KEPT_SLOTS; i++) {
        kept_finish(kept, i);
        bi_slot_done(&kept->worker->slots[i]);
    }
    free(kept->worker->slots);
    kept->worker->slots = NULL;
    assert_int_equal(bide_worker_free(kept->worker), BIDE_OK);
    puppet_free(kept->puppet);
    free(kept);
}

#endif
