/* SPDX-License-Identifier: MIT */
#include "worker_fixture.h"

#include "task_topics.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define FIXTURES_MAX 32

static struct worker_fixture *fixtures[FIXTURES_MAX];
static size_t fixture_count;

/* ---- what was told ---- */

static void record_event(void *user, const bide_work_event *event)
{
    struct worker_fixture *fixture = user;
    CHECK(event->text != NULL);
    CHECK(event->topic != NULL);
    BETWEEN(event->kind, 0, BIDE_WORK_KINDS - 1);
    pthread_mutex_lock(&fixture->lock);
    CHECK(fixture->event_count < EVENTS_MAX);
    struct recorded_event *recorded = &fixture->events[fixture->event_count++];
    recorded->kind = event->kind;
    recorded->code = event->code;
    recorded->id = event->id;
    recorded->attempt = event->attempt;
    recorded->delay_ms = event->delay_ms;
    recorded->took_us = event->took_us;
    snprintf(recorded->text, sizeof recorded->text, "%s", event->text);
    snprintf(recorded->topic, sizeof recorded->topic, "%s", event->topic);
    fixture->event_count_by_kind[event->kind]++;
    pthread_mutex_unlock(&fixture->lock);
}

size_t count_events(struct worker_fixture *fixture, bide_work_kind kind)
{
    pthread_mutex_lock(&fixture->lock);
    size_t count = fixture->event_count_by_kind[kind];
    pthread_mutex_unlock(&fixture->lock);
    return count;
}

const struct recorded_event *nth_event_at(struct where at, struct worker_fixture *fixture,
                                          bide_work_kind kind, size_t i)
{
    const struct recorded_event *found = NULL;
    pthread_mutex_lock(&fixture->lock);
    for (size_t j = 0; j < fixture->event_count && !found; j++)
        if (fixture->events[j].kind == kind && i-- == 0)
            found = &fixture->events[j];
    pthread_mutex_unlock(&fixture->lock);
    check_true(at, found != NULL, "an event of that kind");
    return found;
}

size_t count_events_of(struct worker_fixture *fixture, bide_work_kind kind, uint64_t id)
{
    size_t count = 0;
    pthread_mutex_lock(&fixture->lock);
    for (size_t i = 0; i < fixture->event_count; i++)
        count += fixture->events[i].kind == kind && fixture->events[i].id == id;
    pthread_mutex_unlock(&fixture->lock);
    return count;
}

const char *event_names(struct worker_fixture *fixture, uint64_t id, char *room, size_t size)
{
    size_t used = 0;
    room[0] = '\0';
    pthread_mutex_lock(&fixture->lock);
    for (size_t i = 0; i < fixture->event_count && used < size; i++)
        if (fixture->events[i].id == id)
            used += (size_t)snprintf(room + used, size - used, "%s%s", used > 0 ? " " : "",
                                     bide_work_name(fixture->events[i].kind));
    pthread_mutex_unlock(&fixture->lock);
    return room;
}

void events_are(struct where at, struct worker_fixture *fixture, uint64_t id, const char *want)
{
    char room[512];
    event_names(fixture, id, room, sizeof room);
    check_text(at, room, strlen(room), want, "what was told of the job");
}

/* ---- crews ---- */

bide_worker_options threads(uint32_t count)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    options.threads = count;
    return options;
}

struct worker_fixture *new_fixture_at(struct where at, bide *queue,
                                      const bide_worker_options *options)
{
    bide_worker_options with = options ? *options : threads(1);
    struct worker_fixture *fixture = calloc(1, sizeof *fixture);
    check_true(at, fixture != NULL && fixture_count < FIXTURES_MAX, "room for a crew");
    fixture->events = calloc(EVENTS_MAX, sizeof *fixture->events);
    check_true(at, fixture->events != NULL, "room for events");
    pthread_mutex_init(&fixture->lock, NULL);
    fixture->queue = queue;
    fixture->topic = fresh_topic("a");
    with.event = record_event;
    with.user = fixture;
    check_code(at, bide_worker_new(queue, &with, &fixture->worker), BIDE_OK, "bide_worker_new()");
    check_true(at, fixture->worker != NULL, "a worker from bide_worker_new()");
    fixtures[fixture_count++] = fixture;
    return fixture;
}

struct worker_fixture *new_fixture_of_at(struct where at, bide_handler handler,
                                         const bide_worker_options *options)
{
    struct worker_fixture *fixture = new_fixture_at(at, open_queue_at(at, ""), options);
    int code = bide_worker_handle(fixture->worker, fixture->topic, handler, fixture);
    check_code(at, code, BIDE_OK, "bide_worker_handle()");
    return fixture;
}

struct worker_fixture *start_fixture_at(struct where at, bide_handler handler, uint32_t count)
{
    bide_worker_options options = threads(count);
    struct worker_fixture *fixture = new_fixture_of_at(at, handler, &options);
    check_code(at, bide_worker_start(fixture->worker), BIDE_OK, "bide_worker_start()");
    return fixture;
}

void free_worker(struct worker_fixture *fixture)
{
    OK(bide_worker_free(fixture->worker));
    fixture->worker = NULL;
}

void free_fixtures(void)
{
    for (size_t i = 0; i < fixture_count; i++) {
        fixtures[i]->open = true;
        free_worker(fixtures[i]);
    }
    while (fixture_count > 0) {
        struct worker_fixture *gone = fixtures[--fixture_count];
        pthread_mutex_destroy(&gone->lock);
        free(gone->events);
        free(gone);
    }
}

bide *open_with_task_topics_at(struct where at, const char *parameters)
{
    static const char *const names[] = {TASK_TOPIC_A, TASK_TOPIC_B};
    bide *queue = open_queue_at(at, parameters);
    for (size_t i = 0; i < COUNT(names); i++)
        sweep_topic(queue, known_topic(names[i]));
    return queue;
}

/* ---- handlers ---- */

int enter(struct worker_fixture *fixture)
{
    int now = ++fixture->running;
    int most = fixture->most;
    while (now > most && !atomic_compare_exchange_weak(&fixture->most, &most, now))
        continue;
    return ++fixture->runs;
}

void leave(struct worker_fixture *fixture)
{
    fixture->running--;
}

void wait_at_gate(struct worker_fixture *fixture)
{
    UNTIL(fixture->open);
}

int do_nothing(bide_context *context, const bide_slice *body, void *arg)
{
    (void)context;
    (void)body;
    (void)arg;
    return BIDE_DONE;
}

int do_at_gate(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)context;
    (void)body;
    enter(fixture);
    wait_at_gate(fixture);
    leave(fixture);
    return BIDE_DONE;
}

bool body_is(const bide_slice *body, const char *text)
{
    return body->size == strlen(text) && memcmp(body->data, text, body->size) == 0;
}

bool readable(int fd, int64_t timeout_ms)
{
    struct pollfd ask = {.fd = fd, .events = POLLIN};
    return poll(&ask, 1, (int)timeout_ms) == 1 && (ask.revents & POLLIN);
}

bide_put_options with_ttr(int64_t ttr_ms)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = ttr_ms;
    return options;
}

bide_put_options with_retries(int32_t max_retries)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = max_retries;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 1;
    return options;
}
