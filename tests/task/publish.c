/* SPDX-License-Identifier: MIT */
/* publish.c - the defaults of a task, what one publish says otherwise, and keys made of fields. */
#include "task_topics.h"

#include <string.h>

#define HOUR_MS INT64_C(3600000)

struct bill {
    const char *customer;
    int32_t month;
    bool paid;
    const char *note;
};
BIDE_TYPE(bill, struct bill, BIDE_FIELD(customer), BIDE_FIELD_AS("when", month), BIDE_FIELD(paid),
          BIDE_OPTIONAL(note));

BIDE_TASK(plain, bill, .topic = TASK_TOPIC_A);
BIDE_TASK(named, bill);
BIDE_TASK(careful, bill, .topic = TASK_TOPIC_A, .priority = 0, .max_retries = 3, .ttr_ms = 5000,
          .delay_ms = HOUR_MS, .backoff_base_ms = 70, .backoff_max_ms = 700, .retain_ms = 8000,
          .expires_in_ms = 2 * HOUR_MS, .key_hold_retained = true);
BIDE_TASK(endless, bill, .topic = TASK_TOPIC_A, .max_retries = BIDE_NO_RETRY_LIMIT);
BIDE_TASK(once, bill, .topic = TASK_TOPIC_A, .key = "customer");
BIDE_TASK(monthly, bill, .topic = TASK_TOPIC_A, .key = "customer, when");
BIDE_TASK(newest, bill, .topic = TASK_TOPIC_A, .key = "customer", .conflict = BIDE_REPLACE);
BIDE_TASK(remembered, bill, .topic = TASK_TOPIC_A, .key = "customer", .retain_ms = HOUR_MS,
          .key_hold_retained = true);
BIDE_TASK(hasty, bill, .topic = TASK_TOPIC_A, .expires_in_ms = 30);

static const struct bill ada = {.customer = "Ada", .month = 11};
static const struct bill bob = {.customer = "Bob", .month = 11};

/* ---- defaults ---- */

static void default_task_has_its_name_as_topic_and_25_retries(void)
{
    bide *queue = open_with_task_topics("");
    uint64_t id = 0;
    sweep_topic(queue, known_topic("named"));
    OK(bide_publish(queue, named, ada, NULL, &id));
    const bide_job *job = peek_job(queue, id);
    TEXT(job->topic, strlen(job->topic), "named");
    TEXT(job->body, job->body_size, "{\"customer\":\"Ada\",\"when\":11,\"paid\":false}");
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->priority, BIDE_DEFAULT_PRIORITY);
    EQ(job->max_retries, BIDE_TASK_RETRIES);
    EQ(job->ttr_ms, 60000);
    EQ(job->retain_ms, 0);
    EQ(job->expires_at_ms, 0);
    CHECK(job->key == NULL);
}

static void the_defaults_of_a_task_reach_its_jobs(void)
{
    bide *queue = open_with_task_topics("");
    uint64_t id = 0;
    int64_t before_ms = wall_ms();
    OK(bide_publish(queue, careful, ada, NULL, &id));
    const bide_job *job = peek_job(queue, id);
    EQ(job->state, BIDE_STATE_DELAYED);
    BETWEEN(job->left_ms, HOUR_MS - PATIENCE_MS, HOUR_MS);
    EQ(job->priority, 0);
    EQ(job->max_retries, 3);
    EQ(job->ttr_ms, 5000);
    EQ(job->backoff_base_ms, 70);
    EQ(job->backoff_max_ms, 700);
    EQ(job->retain_ms, 8000);
    EQ(job->key_hold_retained, true);
    BETWEEN(job->expires_at_ms, before_ms + 2 * HOUR_MS, wall_ms() + 2 * HOUR_MS + 1);
}

/* What a task says wins over its topic, which wins over the 25 retries of a task that says nothing. */
static void the_policy_of_the_topic_has_its_place(void)
{
    bide *queue = open_with_task_topics("");
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    uint64_t id = 0;
    policy.max_retries = 4;
    policy.ttr_ms = 7000;
    OK(bide_topic_set(queue, TASK_TOPIC_A, &policy));
    OK(bide_publish(queue, plain, ada, NULL, &id));
    EQ(stat_job(queue, id)->max_retries, 4);
    EQ(stat_job(queue, id)->ttr_ms, 7000);
    OK(bide_publish(queue, careful, ada, NULL, &id));
    EQ(stat_job(queue, id)->max_retries, 3);
    EQ(stat_job(queue, id)->ttr_ms, 5000);
    OK(bide_publish(queue, endless, ada, NULL, &id));
    EQ(stat_job(queue, id)->max_retries, 4);
    bide_put_options options = bide_defaults(plain);
    options.max_retries = BIDE_NO_DEFAULT;
    OK(bide_publish(queue, plain, ada, &options, &id));
    EQ(stat_job(queue, id)->max_retries, BIDE_NO_RETRY_LIMIT);
    policy = (bide_topic_policy)BIDE_TOPIC_POLICY_INIT;
    policy.max_retries = policy.ttr_ms = BIDE_NO_DEFAULT;
    OK(bide_topic_set(queue, TASK_TOPIC_A, &policy));
    OK(bide_publish(queue, plain, ada, NULL, &id));
    EQ(stat_job(queue, id)->max_retries, BIDE_TASK_RETRIES);
}

static void a_task_may_retry_for_ever(void)
{
    bide *queue = open_with_task_topics("");
    uint64_t id = 0;
    OK(bide_publish(queue, endless, ada, NULL, &id));
    EQ(stat_job(queue, id)->max_retries, BIDE_NO_RETRY_LIMIT);
}

static void the_id_may_be_left_out(void)
{
    bide *queue = open_with_task_topics("");
    OK(bide_publish(queue, plain, ada, NULL, NULL));
    EQ(topic_of(queue, TASK_TOPIC_A).jobs.ready, 1);
}

/* ---- one publish ---- */

static void publish_options_override_the_task(void)
{
    bide *queue = open_with_task_topics("");
    bide_put_options options = bide_defaults(careful);
    uint64_t id = 0;
    options.priority = 9;
    options.delay_ms = 0;
    options.ttr_ms = 1234;
    options.max_retries = 0;
    OK(bide_publish(queue, careful, ada, &options, &id));
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->priority, 9);
    EQ(job->ttr_ms, 1234);
    EQ(job->max_retries, 0);
    EQ(job->backoff_base_ms, 70);
    EQ(job->retain_ms, 8000);
    CHECK(job->expires_at_ms > 0);
}

static int note_the_time(bide_context *context, const struct bill *bill, void *arg)
{
    struct worker_fixture *fixture = arg;
    (void)context;
    (void)bill;
    fixture->number = wall_ms();
    return BIDE_DONE;
}

static void a_delayed_publish_runs_later(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    bide_put_options later = bide_defaults(plain);
    later.delay_ms = 80;
    OK(bide_handle(fixture->worker, plain, note_the_time, fixture));
    OK(bide_worker_start(fixture->worker));
    int64_t start_us = clock_us();
    OK(bide_publish(fixture->queue, plain, ada, &later, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_STARTED, 1);
    NOT_BEFORE(start_us, 80);
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static void publish_may_give_a_run_at(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    bide_put_options later = bide_defaults(plain);
    later.run_at_ms = wall_ms() + 80;
    OK(bide_handle(fixture->worker, plain, note_the_time, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, plain, ada, &later, NULL));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    CHECK(fixture->number >= later.run_at_ms);
}

static void publish_may_give_an_expiry(void)
{
    bide *queue = open_with_task_topics("");
    bide_put_options options = bide_defaults(hasty);
    uint64_t id = 0;
    options.expires_at_ms = wall_ms() + HOUR_MS;
    OK(bide_publish(queue, hasty, ada, &options, &id));
    EQ(stat_job(queue, id)->expires_at_ms, options.expires_at_ms);
}

static void expired_job_is_removed_and_never_runs(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    uint64_t id = 0;
    OK(bide_handle(fixture->worker, hasty, note_the_time, fixture));
    OK(bide_publish(fixture->queue, hasty, ada, NULL, &id));
    UNTIL(state_of(fixture->queue, id) == BIDE_STATE_GONE);
    OK(bide_publish(fixture->queue, plain, ada, NULL, &id));
    OK(bide_worker_start(fixture->worker));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    EQ(nth_event(fixture, BIDE_WORK_STARTED, 0)->id, id);
    EQ(stats_of(fixture->queue).total.expired, 1);
}

/* ---- keys ---- */

static void a_key_is_made_of_the_field_that_the_task_names(void)
{
    bide *queue = open_with_task_topics("");
    uint64_t first = 0, second = 0, other = 0;
    OK(bide_publish(queue, once, ada, NULL, &first));
    CODE(bide_publish(queue, once, ((struct bill){.customer = "Ada", .month = 12}), NULL, &second),
         BIDE_EXISTS);
    EQ(second, first);
    OK(bide_publish(queue, once, bob, NULL, &other));
    CHECK(other != first);
    const bide_job *job = stat_job(queue, first);
    TEXT(job->key, job->key_size, "Ada");
    EQ(topic_of(queue, TASK_TOPIC_A).jobs.ready, 2);
}

static void key_of_several_fields_is_a_json_array(void)
{
    bide *queue = open_with_task_topics("");
    uint64_t first = 0, second = 0;
    OK(bide_publish(queue, monthly, ada, NULL, &first));
    OK(bide_publish(queue, monthly, ((struct bill){.customer = "Ada", .month = 12}), NULL, NULL));
    CODE(bide_publish(queue, monthly, ((struct bill){"Ada", 11, true, "paid"}), NULL, &second),
         BIDE_EXISTS);
    EQ(second, first);
    const bide_job *job = stat_job(queue, first);
    TEXT(job->key, job->key_size, "[\"Ada\",11]");
}

static void task_may_replace_the_holder_of_its_key(void)
{
    bide *queue = open_with_task_topics("");
    uint64_t first = 0, second = 0;
    OK(bide_publish(queue, newest, ada, NULL, &first));
    OK(bide_publish(queue, newest, ((struct bill){.customer = "Ada", .month = 12}), NULL, &second));
    CHECK(second != first);
    EQ(state_of(queue, first), BIDE_STATE_GONE);
    const bide_job *job = peek_job(queue, second);
    TEXT(job->body, job->body_size, "{\"customer\":\"Ada\",\"when\":12,\"paid\":false}");
}

static void publish_may_give_a_key(void)
{
    bide *queue = open_with_task_topics("");
    bide_put_options options = bide_defaults(once);
    uint64_t id = 0, again = 0;
    options.key = slice("mine");
    OK(bide_publish(queue, once, ada, &options, &id));
    const bide_job *job = stat_job(queue, id);
    TEXT(job->key, job->key_size, "mine");
    CODE(bide_publish(queue, once, bob, &options, &again), BIDE_EXISTS);
    EQ(again, id);
    OK(bide_publish(queue, once, ada, NULL, NULL));
}

static int complete(bide_context *context, const struct bill *bill, void *arg)
{
    (void)context;
    (void)bill;
    enter(arg);
    return BIDE_DONE;
}

static void a_key_is_free_when_its_job_is_done(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    OK(bide_handle(fixture->worker, once, complete, fixture));
    OK(bide_worker_start(fixture->worker));
    for (int i = 1; i <= 3; i++) {
        OK(bide_publish(fixture->queue, once, ada, NULL, NULL));
        UNTIL_EVENTS(fixture, BIDE_WORK_DONE, i);
    }
    EQ(fixture->runs, 3);
}

static void a_key_may_be_held_through_the_retention(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    uint64_t first = 0, second = 0;
    OK(bide_handle(fixture->worker, remembered, complete, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, remembered, ada, NULL, &first));
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
    CODE(bide_publish(fixture->queue, remembered, ada, NULL, &second), BIDE_EXISTS);
    EQ(second, first);
    EQ(fixture->runs, 1);
}

static void a_job_that_runs_holds_its_key(void)
{
    struct worker_fixture *fixture = new_fixture(open_with_task_topics(""), NULL);
    bide_put_options replace = bide_defaults(newest);
    uint64_t first = 0, second = 0;
    OK(bide_worker_handle(fixture->worker, TASK_TOPIC_A, do_at_gate, fixture));
    OK(bide_worker_start(fixture->worker));
    OK(bide_publish(fixture->queue, newest, ada, &replace, &first));
    UNTIL(fixture->running == 1);
    CODE(bide_publish(fixture->queue, newest, ada, &replace, &second), BIDE_EXISTS);
    EQ(second, first);
    fixture->open = true;
    UNTIL_EVENTS(fixture, BIDE_WORK_DONE, 1);
}

static const struct test tests[] = {
    TEST(default_task_has_its_name_as_topic_and_25_retries),
    TEST(the_defaults_of_a_task_reach_its_jobs),
    TEST(the_policy_of_the_topic_has_its_place),
    TEST(a_task_may_retry_for_ever),
    TEST(the_id_may_be_left_out),
    TEST(publish_options_override_the_task),
    TEST(a_delayed_publish_runs_later),
    TEST(publish_may_give_a_run_at),
    TEST(publish_may_give_an_expiry),
    TEST(expired_job_is_removed_and_never_runs),
    TEST(a_key_is_made_of_the_field_that_the_task_names),
    TEST(key_of_several_fields_is_a_json_array),
    TEST(task_may_replace_the_holder_of_its_key),
    TEST(publish_may_give_a_key),
    TEST(a_key_is_free_when_its_job_is_done),
    TEST(a_key_may_be_held_through_the_retention),
    TEST(a_job_that_runs_holds_its_key),
};

const struct theme publish_theme = {"publish", tests, COUNT(tests)};
