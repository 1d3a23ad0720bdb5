/* SPDX-License-Identifier: MIT */
#include "crew.h"

#include "fixed.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CREWS_MAX 32

static struct crew *crews[CREWS_MAX];
static size_t crew_count;

/* ---- what was told ---- */

static void hear(void *user, const bide_work_event *event)
{
    struct crew *crew = user;
    CHECK(event->text != NULL);
    CHECK(event->topic != NULL);
    BETWEEN(event->kind, 0, BIDE_WORK_KINDS - 1);
    pthread_mutex_lock(&crew->lock);
    CHECK(crew->told_count < TOLD_MAX);
    struct told *told = &crew->told[crew->told_count++];
    told->kind = event->kind;
    told->code = event->code;
    told->id = event->id;
    told->attempt = event->attempt;
    told->delay_ms = event->delay_ms;
    told->took_us = event->took_us;
    snprintf(told->text, sizeof told->text, "%s", event->text);
    snprintf(told->topic, sizeof told->topic, "%s", event->topic);
    crew->told_by_kind[event->kind]++;
    pthread_mutex_unlock(&crew->lock);
}

size_t told(struct crew *crew, bide_work_kind kind)
{
    pthread_mutex_lock(&crew->lock);
    size_t count = crew->told_by_kind[kind];
    pthread_mutex_unlock(&crew->lock);
    return count;
}

const struct told *nth_told_at(struct where at, struct crew *crew, bide_work_kind kind, size_t i)
{
    const struct told *found = NULL;
    pthread_mutex_lock(&crew->lock);
    for (size_t j = 0; j < crew->told_count && !found; j++)
        if (crew->told[j].kind == kind && i-- == 0)
            found = &crew->told[j];
    pthread_mutex_unlock(&crew->lock);
    check_true(at, found != NULL, "an event of that kind");
    return found;
}

size_t told_of(struct crew *crew, bide_work_kind kind, uint64_t id)
{
    size_t count = 0;
    pthread_mutex_lock(&crew->lock);
    for (size_t i = 0; i < crew->told_count; i++)
        count += crew->told[i].kind == kind && crew->told[i].id == id;
    pthread_mutex_unlock(&crew->lock);
    return count;
}

const char *story_of(struct crew *crew, uint64_t id, char *room, size_t size)
{
    size_t used = 0;
    room[0] = '\0';
    pthread_mutex_lock(&crew->lock);
    for (size_t i = 0; i < crew->told_count && used < size; i++)
        if (crew->told[i].id == id)
            used += (size_t)snprintf(room + used, size - used, "%s%s", used > 0 ? " " : "",
                                     bide_work_name(crew->told[i].kind));
    pthread_mutex_unlock(&crew->lock);
    return room;
}

void story_is(struct where at, struct crew *crew, uint64_t id, const char *want)
{
    char room[512];
    story_of(crew, id, room, sizeof room);
    check_text(at, room, strlen(room), want, "what was told of the job");
}

/* ---- crews ---- */

bide_worker_options threads(uint32_t count)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    options.threads = count;
    return options;
}

struct crew *new_crew_at(struct where at, bide *queue, const bide_worker_options *options)
{
    bide_worker_options with = options ? *options : threads(1);
    struct crew *crew = calloc(1, sizeof *crew);
    check_true(at, crew != NULL && crew_count < CREWS_MAX, "room for a crew");
    crew->told = calloc(TOLD_MAX, sizeof *crew->told);
    check_true(at, crew->told != NULL, "room for events");
    pthread_mutex_init(&crew->lock, NULL);
    crew->queue = queue;
    crew->topic = fresh_topic("a");
    with.event = hear;
    with.user = crew;
    check_code(at, bide_worker_new(queue, &with, &crew->worker), BIDE_OK, "bide_worker_new()");
    check_true(at, crew->worker != NULL, "a worker from bide_worker_new()");
    crews[crew_count++] = crew;
    return crew;
}

struct crew *new_crew_of_at(struct where at, bide_handler handler,
                            const bide_worker_options *options)
{
    struct crew *crew = new_crew_at(at, open_queue_at(at, ""), options);
    int code = bide_worker_handle(crew->worker, crew->topic, handler, crew);
    check_code(at, code, BIDE_OK, "bide_worker_handle()");
    return crew;
}

struct crew *start_crew_at(struct where at, bide_handler handler, uint32_t count)
{
    bide_worker_options options = threads(count);
    struct crew *crew = new_crew_of_at(at, handler, &options);
    check_code(at, bide_worker_start(crew->worker), BIDE_OK, "bide_worker_start()");
    return crew;
}

void free_worker(struct crew *crew)
{
    OK(bide_worker_free(crew->worker));
    crew->worker = NULL;
}

void free_crews(void)
{
    for (size_t i = 0; i < crew_count; i++) {
        crews[i]->open = true;
        free_worker(crews[i]);
    }
    while (crew_count > 0) {
        struct crew *gone = crews[--crew_count];
        pthread_mutex_destroy(&gone->lock);
        free(gone->told);
        free(gone);
    }
}

bide *open_fixed_at(struct where at, const char *parameters)
{
    static const char *const names[] = {FIXED_A, FIXED_B};
    bide *queue = open_queue_at(at, parameters);
    for (size_t i = 0; i < COUNT(names); i++)
        sweep_topic(queue, known_topic(names[i]));
    return queue;
}

/* ---- handlers ---- */

int enter(struct crew *crew)
{
    int now = ++crew->running;
    int most = crew->most;
    while (now > most && !atomic_compare_exchange_weak(&crew->most, &most, now))
        continue;
    return ++crew->runs;
}

void leave(struct crew *crew)
{
    crew->running--;
}

void wait_at_gate(struct crew *crew)
{
    UNTIL(crew->open);
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
    struct crew *crew = arg;
    (void)context;
    (void)body;
    enter(crew);
    wait_at_gate(crew);
    leave(crew);
    return BIDE_DONE;
}

bool reads(const bide_slice *body, const char *text)
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
