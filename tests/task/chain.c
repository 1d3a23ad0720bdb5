/* SPDX-License-Identifier: MIT */
/* chain.c - jobs that a handler puts with the end of its own, or not at all. */
#include "task_topics.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define HOUR_MS INT64_C(3600000)

struct page {
    int32_t number;
    const char *text;
};
BIDE_TYPE(page, struct page, BIDE_FIELD(number), BIDE_FIELD(text));
BIDE_TASK(scan, page, .topic = TASK_TOPIC_A);
BIDE_TASK(print, page, .topic = TASK_TOPIC_B, .priority = 7, .max_retries = 2, .key = "number");

/* Puts "next" into the topic b, and answers what the test wants. */
static int put_and_answer(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)body;
    enter(fixture);
    OK(bide_context_put(context, fresh_topic("b"), "next", 4, NULL));
    return fixture->code == BIDE_SNOOZE ? bide_context_snooze(context, HOUR_MS)
           : fixture->code == BIDE_BURY ? bide_context_bury(context, "no use")
                                        : (int)fixture->code;
}

static struct worker_fixture *answering(int outcome)
{
    struct worker_fixture *fixture = new_fixture_of(put_and_answer, NULL);
    fixture->code = outcome;
    OK(bide_worker_start(fixture->worker));
    return fixture;
}

static uint64_t ready_in_b(struct worker_fixture *fixture)
{
    return topic_of(fixture->queue, fresh_topic("b")).jobs.ready;
}

/* ---- outcomes ---- */

static void done_puts_the_next_job(void)
{
    struct worker_fixture *fixture = answering(BIDE_DONE);
    uint64_t id = enqueue(fixture, "body");
    const bide_job *next = await(fixture->queue, fresh_topic("b"));
    TEXT(next->body, next->body_size, "next");
    EQ(next->priority, BIDE_DEFAULT_PRIORITY);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EVENTS_ARE(fixture, id, "started done");
    EQ(state_of(fixture->queue, id), BIDE_STATE_GONE);
}

static int put_with_a_result(bide_context *context, const bide_slice *body, void *arg)
{
    (void)arg;
    OK(bide_context_put(context, fresh_topic("b"), body->data, body->size, NULL));
    OK(bide_context_retain(context, HOUR_MS));
    return bide_context_result(context, "result", 6);
}

static void done_with_a_result_puts_the_next_job(void)
{
    struct worker_fixture *fixture = start_fixture(put_with_a_result, 1);
    bide_state state = BIDE_STATE_GONE;
    bide_buf *result = NULL;
    uint64_t id = enqueue(fixture, "body");
    OK(bide_wait(fixture->queue, id, PATIENCE_MS, &state, &result));
    EQ(state, BIDE_STATE_DONE);
    TEXT(bide_buf_data(result), bide_buf_size(result), "result");
    bide_buf_unref(result);
    const bide_job *next = take(fixture->queue, fresh_topic("b"));
    TEXT(next->body, next->body_size, "body");
}

static void snooze_puts_the_next_job(void)
{
    struct worker_fixture *fixture = answering(BIDE_SNOOZE);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_SNOOZED, 1);
    EQ(nth_event(fixture, BIDE_WORK_SNOOZED, 0)->delay_ms, HOUR_MS);
    EQ(state_of(fixture->queue, id), BIDE_STATE_DELAYED);
    EQ(stat_job(fixture->queue, id)->releases, 1);
    EQ(ready_in_b(fixture), 1);
}

static void failed_handler_puts_nothing(void)
{
    static const int outcomes[] = {BIDE_RETRY, BIDE_BURY, BIDE_EIO, 4711};
    static const bide_work_kind kinds[] = {BIDE_WORK_RETRIED, BIDE_WORK_BURIED, BIDE_WORK_RETRIED,
                                           BIDE_WORK_RETRIED};
    for (size_t i = 0; i < COUNT(outcomes); i++) {
        struct worker_fixture *fixture = answering(outcomes[i]);
        enqueue(fixture, "body");
        UNTIL_EVENTS(fixture, kinds[i], 1);
        CHECK(!topic_exists(fixture->queue, fresh_topic("b")));
        free_worker(fixture);
        sweep_topic(fixture->queue, fixture->topic);
        close_queue(fixture->queue);
    }
}

static int put_then_give_back_once(bide_context *context, const bide_slice *body, void *arg)
{
    int code = put_and_answer(context, body, arg);
    struct worker_fixture *fixture = arg;
    return fixture->runs == 1 ? BIDE_GIVE_BACK : code;
}

static void job_that_is_given_back_puts_nothing(void)
{
    struct worker_fixture *fixture = start_fixture(put_then_give_back_once, 1);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(count_events(fixture, BIDE_WORK_INTERRUPTED), 1);
    EQ(ready_in_b(fixture), 1);
}

static int put_and_discard(bide_context *context, const bide_slice *body, void *arg)
{
    int code = put_and_answer(context, body, arg);
    bide_context_discard_puts(context);
    return code;
}

static void discarded_puts_do_not_happen(void)
{
    struct worker_fixture *fixture = start_fixture(put_and_discard, 1);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    CHECK(!topic_exists(fixture->queue, fresh_topic("b")));
    bide_context_discard_puts(NULL);
}

/* ---- fallbacks and middleware ---- */

static int fail_page(bide_context *context, const struct page *page, void *arg)
{
    (void)arg;
    OK(bide_context_publish(context, print, *page, NULL));
    return page->number == 0 ? bide_context_bury(context, "no number")
                             : bide_context_retry_in(context, HOUR_MS, "later");
}

static void put_in_fallback(bide_context *context, const struct page *page, const char *error,
                            void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)page;
    fixture->number = bide_context_put(context, TASK_TOPIC_B, error, strlen(error), NULL);
}

static void fallback_may_put_jobs_with_a_burial(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, scan, fail_page, NULL));
    OK(bide_fallback(fixture->worker, scan, put_in_fallback, fixture));
    OK(bide_worker_start(fixture->worker));
    uint64_t id = 0;
    OK(bide_publish(fixture->queue, scan, ((struct page){0, "x"}), NULL, &id));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    ERROR_OF(stat_job(fixture->queue, id), "no number");
    const bide_job *next = take(fixture->queue, TASK_TOPIC_B);
    TEXT(next->body, next->body_size, "no number");

    OK(bide_publish(fixture->queue, scan, ((struct page){1, "x"}), NULL, &id));
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, 1);
    EQ(fixture->number, BIDE_EINVAL);
    EQ(topic_of(fixture->queue, TASK_TOPIC_B).jobs.ready, 0);
}

/* Fails at first, and is run again by the middleware. */
static int put_twice(bide_context *context, const bide_slice *body, void *arg)
{
    int code = put_and_answer(context, body, arg);
    struct worker_fixture *fixture = arg;
    return fixture->runs == 1 ? (int)fixture->number : code;
}

static int run_twice(bide_context *context, void *arg)
{
    (void)arg;
    OK(bide_context_put(context, fresh_topic("c"), "around", 6, NULL));
    bide_context_next(context);
    return bide_context_next(context);
}

static void handler_that_runs_again_puts_its_jobs_once(void)
{
    static const int first[] = {BIDE_RETRY, BIDE_DONE};
    for (size_t i = 0; i < COUNT(first); i++) {
        struct worker_fixture *fixture = new_fixture_of(put_twice, NULL);
        fixture->number = first[i];
        OK(bide_worker_use(fixture->worker, run_twice, NULL));
        OK(bide_worker_start(fixture->worker));
        enqueue(fixture, "body");
        UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
        EQ(fixture->runs, 2);
        EQ(ready_in_b(fixture), 1);
        EQ(topic_of(fixture->queue, fresh_topic("c")).jobs.ready, 1);
        free_worker(fixture);
        sweep_topic(fixture->queue, fresh_topic("b"));
        sweep_topic(fixture->queue, fresh_topic("c"));
        close_queue(fixture->queue);
    }
}

static int forgive(bide_context *context, void *arg)
{
    (void)arg;
    bide_context_next(context);
    return BIDE_DONE;
}

static void failure_that_middleware_forgives_puts_nothing(void)
{
    struct worker_fixture *fixture = new_fixture_of(put_and_answer, NULL);
    fixture->code = BIDE_RETRY;
    OK(bide_worker_use(fixture->worker, forgive, NULL));
    OK(bide_worker_start(fixture->worker));
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    CHECK(!topic_exists(fixture->queue, fresh_topic("b")));
}

/* ---- typed ---- */

static int publish_pages(bide_context *context, const struct page *page, void *arg)
{
    bide_put_options later = bide_defaults(print);
    (void)arg;
    OK(bide_context_publish(context, print, *page, NULL));
    later.delay_ms = HOUR_MS;
    OK(bide_context_publish(context, print, ((struct page){9, "later"}), &later));
    CODE(bide_context_publish(context, print, ((struct page){10, NULL}), NULL), BIDE_EINVAL);
    return BIDE_DONE;
}

static void typed_jobs_have_the_defaults_of_their_task(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, scan, publish_pages, NULL));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, scan, ((struct page){3, "three"}), NULL, NULL));
    const bide_job *job = await(fixture->queue, TASK_TOPIC_B);
    TEXT(job->body, job->body_size, "{\"number\":3,\"text\":\"three\"}");
    TEXT(job->key, job->key_size, "3");
    EQ(job->priority, 7);
    EQ(job->max_retries, 2);
    EQ(topic_of(fixture->queue, TASK_TOPIC_B).jobs.delayed, 1);
    EQ(topic_of(fixture->queue, TASK_TOPIC_B).total.puts, 2);
}

/* The key of the job that ends is free for its successor. */
static int publish_itself(bide_context *context, const struct page *page, void *arg)
{
    (void)arg;
    if (page->number == 0)
        return BIDE_DONE;
    struct page next = {page->number - 1, page->text};
    bide_put_options options = bide_defaults(scan);
    options.key = slice("the only one");
    return bide_context_publish(context, scan, next, &options);
}

static void job_may_be_followed_by_one_with_its_key(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    bide_put_options options = bide_defaults(scan);
    options.key = slice("the only one");
    OK(bide_handle(fixture->worker, scan, publish_itself, NULL));
    OK(bide_publish(fixture->queue, scan, ((struct page){20, "x"}), &options, NULL));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 21);
    EQ(topic_of(fixture->queue, TASK_TOPIC_A).jobs.ready, 0);
}

/* ---- rejected puts ---- */

/* Two puts, the second with a key that is held; the conflict is the number of the fixture. */
static int put_held_key(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    (void)body;
    enter(fixture);
    options.key = slice("held");
    options.conflict = (bide_conflict)fixture->number;
    OK(bide_context_put(context, fresh_topic("c"), "first", 5, NULL));
    OK(bide_context_put(context, fresh_topic("b"), "second", 6, &options));
    return BIDE_DONE;
}

static void rejected_put_fails_the_job_and_puts_nothing(void)
{
    struct worker_fixture *fixture = new_fixture_of(put_held_key, NULL);
    bide_put_options once = with_retries(0);
    put_key(fixture->queue, fresh_topic("b"), "held");
    uint64_t id = enqueue_as(fixture, "body", &once);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_BURIED, 1);
    const struct recorded_event *event = nth_event(fixture, BIDE_WORK_BURIED, 0);
    CHECK(strstr(event->text, "put 2 of 2 was rejected") != NULL);
    CHECK(strstr(event->text, "holds this key") != NULL);
    const bide_job *job = stat_job(fixture->queue, id);
    EQ(job->state, BIDE_STATE_BURIED);
    EQ(job->failures, 1);
    CHECK(job->last_error_size > 0);
    CHECK(!topic_exists(fixture->queue, fresh_topic("c")));
    EQ(ready_in_b(fixture), 1);
}

/* Each small job has two successors, which need more memory than its end frees. */
static int put_two_large(bide_context *context, const bide_slice *body, void *arg)
{
    static const char data[10000];
    (void)arg;
    for (int i = 0; i < 2 && body->size == 1; i++)
        OK(bide_context_put(context, fresh_topic("b"), data, sizeof data, NULL));
    return BIDE_DONE;
}

/* The worker continues: another of its jobs makes room. */
static void put_without_memory_fails_the_job(void)
{
    static const char large[60000];
    if (!is_in_process())
        return;
    struct worker_fixture *fixture =
        new_fixture(open_queue("max_memory=1MiB&cache_bytes=64MiB"), NULL);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.backoff_base_ms = 1;
    OK(bide_worker_handle(fixture->worker, fixture->topic, put_two_large, fixture));
    enqueue_as(fixture, "1", &options);
    enqueue_as(fixture, "2", &options);
    OK(bide_put(fixture->queue, fixture->topic, large, sizeof large, NULL, NULL));
    while (bide_put(fixture->queue, fresh_topic("c"), large, 100, NULL, NULL) == BIDE_OK)
        continue;

    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 3);
    const struct recorded_event *event = nth_event(fixture, BIDE_WORK_RETRIED, 0);
    CHECK(strstr(event->text, "put 1 of 2 was rejected: ") != NULL);
    EQ(ready_in_b(fixture), 4);
}

static void held_key_may_be_skipped(void)
{
    struct worker_fixture *fixture = new_fixture_of(put_held_key, NULL);
    fixture->number = BIDE_SKIP;
    put_key(fixture->queue, fresh_topic("b"), "held");
    uint64_t id = enqueue(fixture, "body");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EVENTS_ARE(fixture, id, "started done");
    EQ(ready_in_b(fixture), 1);
    EQ(topic_of(fixture->queue, fresh_topic("c")).jobs.ready, 1);
}

static void draining_queue_puts_the_job_off(void)
{
    struct worker_fixture *fixture = new_fixture_of(put_and_answer, NULL);
    bide_put_options once = with_retries(0);
    uint64_t id = enqueue_as(fixture, "body", &once);
    OK(bide_drain(fixture->queue, true));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_RETRIED, 1);
    EQ(state_of(fixture->queue, id), BIDE_STATE_DELAYED);
    EQ(stat_job(fixture->queue, id)->failures, 0);
    OK(bide_drain(fixture->queue, false));
    OK(bide_kick_job(fixture->queue, id));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(ready_in_b(fixture), 1);
}

static int put_too_slowly(bide_context *context, const bide_slice *body, void *arg)
{
    struct worker_fixture *fixture = arg;
    int code = put_and_answer(context, body, arg);
    if (fixture->runs == 1)
        UNTIL(fixture->open);
    return code;
}

static void handler_that_has_lost_its_lease_puts_nothing(void)
{
    bide_worker_options options = threads(2);
    struct worker_fixture *fixture = new_fixture_of(put_too_slowly, &options);
    bide_put_options hasty = with_ttr(200);
    uint64_t id = enqueue_as(fixture, "body", &hasty);
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_LOST, 1);
    EQ(nth_event(fixture, BIDE_WORK_LOST, 0)->id, id);
    EQ(ready_in_b(fixture), 1);
    EQ(topic_of(fixture->queue, fresh_topic("b")).total.puts, 1);
}

/* ---- limits ---- */

static int put_too_many(bide_context *context, const bide_slice *body, void *arg)
{
    (void)body;
    (void)arg;
    for (int i = 0; i < BIDE_BATCH_JOBS; i++)
        OK(bide_context_put(context, fresh_topic("b"), "x", 1, NULL));
    CODE(bide_context_put(context, fresh_topic("b"), "x", 1, NULL), BIDE_TOO_BIG);
    CHECK(strstr(bide_last_error(), "1000") != NULL);
    return BIDE_DONE;
}

static void thousand_jobs_are_the_most(void)
{
    struct worker_fixture *fixture = start_fixture(put_too_many, 1);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(ready_in_b(fixture), BIDE_BATCH_JOBS);
}

static int put_too_much(bide_context *context, const bide_slice *body, void *arg)
{
    enum { SIZE = 60000 };
    static char data[SIZE];
    const char *topic = fresh_topic("b");
    size_t fitting = BIDE_BATCH_BYTES / SIZE;
    (void)body;
    (void)arg;
    for (size_t i = 0; i < fitting; i++)
        OK(bide_context_put(context, topic, data, SIZE, NULL));
    CODE(bide_context_put(context, topic, data, SIZE, NULL), BIDE_TOO_BIG);
    OK(bide_context_put(context, topic, data, BIDE_BATCH_BYTES - fitting * SIZE, NULL));
    CODE(bide_context_put(context, topic, data, 1, NULL), BIDE_TOO_BIG);
    return BIDE_DONE;
}

static void bodies_are_limited(void)
{
    struct worker_fixture *fixture = start_fixture(put_too_much, 1);
    enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(ready_in_b(fixture), BIDE_BATCH_BYTES / 60000 + 1);
}

static int put_wrongly(bide_context *context, const bide_slice *body, void *arg)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    (void)body;
    (void)arg;
    CODE(bide_context_put(context, "not a topic", "x", 1, NULL), BIDE_EINVAL);
    CHECK(strncmp(bide_last_error(), "context_put: ", 13) == 0);
    CODE(bide_context_put(context, NULL, "x", 1, NULL), BIDE_EINVAL);
    CODE(bide_context_put(context, "a", NULL, 1, NULL), BIDE_EINVAL);
    options.delay_ms = options.run_at_ms = 1;
    CODE(bide_context_put(context, "a", "x", 1, &options), BIDE_EINVAL);
    options = (bide_put_options){0};
    CODE(bide_context_put(context, "a", "x", 1, &options), BIDE_EINVAL);
    CODE(bide_context_put(NULL, "a", "x", 1, NULL), BIDE_EINVAL);
    CODE(bide_context_publish(NULL, print, ((struct page){1, "x"}), NULL), BIDE_EINVAL);
    CODE(bide_context_publish_task(context, NULL, "x", NULL), BIDE_EINVAL);
    return BIDE_DONE;
}

static void invalid_put_is_rejected_at_the_call(void)
{
    struct worker_fixture *fixture = start_fixture(put_wrongly, 1);
    uint64_t id = enqueue(fixture, "body");
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EVENTS_ARE(fixture, id, "started done");
    EQ(stats_of(fixture->queue).total.puts, 1);
}

/* ---- chains ---- */

enum { CHAINS = 200, STEPS = 3 };

static int run_step(bide_context *context, const bide_slice *body, void *arg)
{
    const char *tags = arg; /* of this topic and the next */
    char next[2] = {tags[1], 0};
    return bide_context_put(context, fresh_topic(next), body->data, body->size, NULL);
}

static void chain_runs_each_step_once(void)
{
    static char tags[] = "1234";
    bide_worker_options options = threads(4);
    struct worker_fixture *fixture = new_fixture(open_queue(""), &options);
    for (int i = 0; i < STEPS; i++) {
        char tag[2] = {tags[i], 0};
        OK(bide_worker_handle(fixture->worker, fresh_topic(tag), run_step, &tags[i]));
    }
    for (int i = 0; i < CHAINS; i++)
        put(fixture->queue, fresh_topic("1"), "x");
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, CHAINS * STEPS);
    EQ(topic_of(fixture->queue, fresh_topic("4")).jobs.ready, CHAINS);
    EQ(stats_of(fixture->queue).total.puts, CHAINS * (STEPS + 1));
}

static const struct test tests[] = {
    TEST(done_puts_the_next_job),
    TEST(done_with_a_result_puts_the_next_job),
    TEST(snooze_puts_the_next_job),
    TEST(failed_handler_puts_nothing),
    TEST(job_that_is_given_back_puts_nothing),
    TEST(discarded_puts_do_not_happen),
    TEST(fallback_may_put_jobs_with_a_burial),
    TEST(handler_that_runs_again_puts_its_jobs_once),
    TEST(failure_that_middleware_forgives_puts_nothing),
    TEST(typed_jobs_have_the_defaults_of_their_task),
    TEST(job_may_be_followed_by_one_with_its_key),
    TEST(rejected_put_fails_the_job_and_puts_nothing),
    TEST(put_without_memory_fails_the_job),
    TEST(held_key_may_be_skipped),
    TEST(draining_queue_puts_the_job_off),
    TEST(handler_that_has_lost_its_lease_puts_nothing),
    TEST(thousand_jobs_are_the_most),
    TEST(bodies_are_limited),
    TEST(invalid_put_is_rejected_at_the_call),
    TEST(chain_runs_each_step_once),
};

const struct theme chain_theme = {"chain", tests, COUNT(tests)};
