/* SPDX-License-Identifier: MIT */
/*
 * worker_fixture - what the tests of the task layer are written with, besides contract.h.
 *
 * A crew is a worker, the topic that it works on, and a list of what it told. Handlers are given
 * the crew as their argument; they run on its threads, and may make checks there.
 *
 * Ownership  Crews belong to the trial, which frees the workers when the test has returned, before
 *            the queues are closed.
 */
#ifndef WORKER_FIXTURE_H
#define WORKER_FIXTURE_H

#include "../contract/contract.h"

#include <bide/task.h>

#define EVENTS_MAX 16384

/* One event, with a copy of what it pointed to. */
struct recorded_event {
    bide_work_kind kind;
    int code;
    char text[BIDE_ERROR_SIZE];
    uint64_t id;
    char topic[BIDE_TOPIC_MAX + 1];
    uint32_t attempt;
    int64_t delay_ms;
    int64_t took_us;
};

struct worker_fixture {
    bide *queue;
    const char *topic;
    bide_worker *worker;
    pthread_mutex_t lock; /* of what was told */
    struct recorded_event *events;
    size_t event_count;
    size_t event_count_by_kind[BIDE_WORK_KINDS];
    _Atomic int runs;    /* the handler's, if it counts them */
    _Atomic int running; /* at this moment */
    _Atomic int most;    /* at any moment */
    _Atomic bool open;   /* the gate at which handlers wait */
    _Atomic int code;    /* for a handler to tell the test something */
    _Atomic int64_t number;
    void *more; /* the test's */
};

/* Options with so many threads. */
bide_worker_options threads(uint32_t count);

/* A worker of the queue that writes down its events; without handlers, and not started. The
 * options may be NULL: one thread. */
#define new_fixture(queue, options) new_fixture_at(HERE, (queue), (options))
struct worker_fixture *new_fixture_at(struct where at, bide *queue,
                                      const bide_worker_options *options);

/* The same, with a queue of its own and one handler, for the topic "a". */
#define new_fixture_of(handler, options) new_fixture_of_at(HERE, (handler), (options))
struct worker_fixture *new_fixture_of_at(struct where at, bide_handler handler,
                                         const bide_worker_options *options);

/* The same, started, with so many threads. */
#define start_fixture(handler, count) start_fixture_at(HERE, (handler), (count))
struct worker_fixture *start_fixture_at(struct where at, bide_handler handler, uint32_t count);

/* Frees the worker of a crew before the test ends. */
void free_worker(struct worker_fixture *fixture);
/* The suite's: frees those that are left. */
void free_fixtures(void);

/* How many events of a kind there were; the i-th of them, which must be there. */
size_t count_events(struct worker_fixture *fixture, bide_work_kind kind);
#define nth_event(fixture, kind, i) nth_event_at(HERE, (fixture), (kind), (i))
const struct recorded_event *nth_event_at(struct where at, struct worker_fixture *fixture,
                                          bide_work_kind kind, size_t i);
/* How many events of a kind there were of one job. */
size_t count_events_of(struct worker_fixture *fixture, bide_work_kind kind, uint64_t id);

/* Waits until so many events of a kind were told. */
#define UNTIL_EVENTS(fixture, kind, count) UNTIL(count_events((fixture), (kind)) >= (size_t)(count))

/* The kinds of the events of one job, in order, as words with spaces between. */
const char *event_names(struct worker_fixture *fixture, uint64_t id, char *room, size_t size);
#define EVENTS_ARE(fixture, id, want) events_are(HERE, (fixture), (id), (want))
void events_are(struct where at, struct worker_fixture *fixture, uint64_t id, const char *want);

/* Puts a job into the topic of the crew. */
#define enqueue(fixture, body) put((fixture)->queue, (fixture)->topic, (body))
#define enqueue_as(fixture, body, options) \
    put_as((fixture)->queue, (fixture)->topic, (body), (options))

/* A handler calls enter() first and leave() last, if the test counts who runs; answers how many
 * have entered so far. */
int enter(struct worker_fixture *fixture);
void leave(struct worker_fixture *fixture);
/* Waits until the test has opened the gate. */
void wait_at_gate(struct worker_fixture *fixture);

/* Handlers that need no more words. */
int do_nothing(bide_context *context, const bide_slice *body, void *arg);
int do_at_gate(bide_context *context, const bide_slice *body, void *arg); /* enter, gate, leave */

/* Are these the bytes? */
bool body_is(const bide_slice *body, const char *text);

/* Is the descriptor readable now, or within PATIENCE_MS? */
bool readable(int fd, int64_t timeout_ms);

/* Options of a put with this ttr; retries without a limit, at once. */
bide_put_options with_ttr(int64_t ttr_ms);
/* Options of a put that may fail so often, with the shortest backoff there is. */
bide_put_options with_retries(int32_t max_retries);

/* How bytes of a job read. */
#define ERROR_OF(job, want) TEXT((job)->last_error, (job)->last_error_size, (want))

extern const struct theme badtask_theme, badworker_theme, cancelled_theme, chain_theme,
    context_theme, fallback_theme;
extern const struct theme retry_jitter_theme, lease_renewal_theme, load_theme, middleware_theme,
    outcome_theme;
extern const struct theme overrun_theme, pool_theme, publish_theme, run_theme, stop_theme;
extern const struct theme worker_events_theme, topics_theme, typed_theme, undecodable_theme;
/* Only where a server keeps the queue: !is_in_process(). */
extern const struct theme server_restart_theme;

#endif
