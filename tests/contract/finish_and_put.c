/* SPDX-License-Identifier: MIT */
/* finish_and_put.c - a job ends and others are put in one step, or nothing changes. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

/* The arguments of a step that deletes a job and puts up to four others. */
struct step {
    bide_finish_and_put_args args;
    bide_put_item items[4];
    bide_put_options options[4];
};

static struct step new_step(const bide_job *job)
{
    struct step step;
    memset(&step, 0, sizeof step);
    step.args.finish.id = job->id;
    step.args.finish.token = job->token;
    return step;
}

static bide_put_options *add(struct step *step, const char *topic, const char *body)
{
    size_t at = step->args.count++;
    step->options[at] = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    step->items[at] = (bide_put_item){.topic = slice(topic), .body = slice(body)};
    return &step->options[at];
}

static void add_key(struct step *step, const char *topic, const char *key, bide_conflict conflict)
{
    bide_put_options *options = add(step, topic, "keyed");
    options->key = slice(key);
    options->conflict = conflict;
}

static int run(bide *queue, struct step *step)
{
    step->args.items = step->items;
    for (size_t i = 0; i < step->args.count; i++)
        step->items[i].options = &step->options[i];
    return bide_finish_and_put(queue, &step->args);
}

/* A job of topic a that is reserved. */
static const bide_job *reserved_job(bide *queue, const char *topic)
{
    return take_job(queue, put(queue, topic, "first"));
}

/* The message of the last step that has failed. */
static char message[BIDE_ERROR_SIZE + 32];

/* The step must fail with this code and leave no trace. */
#define FAILS(queue, step, want) fails_without_effect(HERE, (queue), (step), (want))
static void fails_without_effect(struct where at, bide *queue, struct step *step, int want)
{
    bide_stats before = stats_of(queue);
    check_code(at, run(queue, step), want, "finish_and_put");
    snprintf(message, sizeof message, "%s", bide_last_error());
    for (size_t i = 0; i < step->args.count; i++)
        check_equal(at, step->items[i].status, want, "status of an item");

    bide_stats after = stats_of(queue);
    check_equal(at, (int64_t)after.jobs.ready, (int64_t)before.jobs.ready, "ready jobs");
    check_equal(at, (int64_t)after.jobs.reserved, (int64_t)before.jobs.reserved, "reserved jobs");
    check_equal(at, (int64_t)after.jobs.done, (int64_t)before.jobs.done, "done jobs");
    check_equal(at, (int64_t)after.total.puts, (int64_t)before.total.puts, "puts");
    check_equal(at, (int64_t)after.total.deletes, (int64_t)before.total.deletes, "deletes");
    check_equal(at, (int64_t)after.topics, (int64_t)before.topics, "topics");
    check_equal(at, (int64_t)after.last_id, (int64_t)before.last_id, "the last id");
}

/* ---- endings ---- */

static void delete_and_puts_happen_together(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    const bide_job *job = reserved_job(queue, a);
    struct step step = new_step(job);
    add(&step, b, "next")->priority = 7;
    add(&step, b, "later")->delay_ms = 3600000;
    OK(run(queue, &step));
    EQ(step.args.accepted, 2);
    EQ(step.items[0].status, BIDE_OK);
    EQ(state_of(queue, job->id), BIDE_STATE_GONE);
    EQ(state_of(queue, step.items[1].id), BIDE_STATE_DELAYED);
    const bide_job *next = take(queue, b);
    EQ(next->id, step.items[0].id);
    EQ(next->priority, 7);
    TEXT(next->body, next->body_size, "next");
    EQ(topic_of(queue, b).total.puts, 2);
}

static void done_keeps_its_result(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job *job = reserved_job(queue, a);
    struct waiter *wait = begin_wait(queue, new_cq(), job->id);
    struct step step = new_step(job);
    step.args.finish.keep = true;
    step.args.finish.retain_ms = 3600000;
    step.args.finish.result = slice("the result");
    add(&step, a, "next");
    OK(run(queue, &step));
    completes(wait, BIDE_OK);
    EQ(wait->op.wait.state, BIDE_STATE_DONE);
    TEXT(bide_buf_data(wait->op.wait.result), bide_buf_size(wait->op.wait.result), "the result");
    bide_buf_unref(wait->op.wait.result);
    EQ(take(queue, a)->id, step.items[0].id);
}

static void release_may_be_delayed_or_run_at_a_time(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    const bide_job *job = reserved_job(queue, a);
    struct step step = new_step(job);
    step.args.ending = BIDE_ENDING_RELEASE;
    step.args.priority = 3;
    add(&step, b, "1");
    OK(run(queue, &step));
    EQ(stat_job(queue, job->id)->priority, 3);
    EQ(stat_job(queue, job->id)->releases, 1);

    step.args.finish.token = take_job(queue, job->id)->token;
    step.args.priority = BIDE_KEEP;
    step.args.delay_ms = 3600000;
    OK(run(queue, &step));
    BETWEEN(stat_job(queue, job->id)->left_ms, 3500000, 3600000);

    step.args.finish.token = take_job(queue, job->id)->token;
    step.args.delay_ms = 0;
    step.args.run_at_ms = wall_ms() + 7200000;
    OK(run(queue, &step));
    const bide_job *later = stat_job(queue, job->id);
    EQ(later->state, BIDE_STATE_DELAYED);
    EQ(later->run_at_ms, step.args.run_at_ms);
    CHECK(later->run_at_wall);

    step.args.finish.token = take_job(queue, job->id)->token;
    step.args.run_at_ms = wall_ms() - 1000;
    OK(run(queue, &step));
    EQ(state_of(queue, job->id), BIDE_STATE_READY);
    EQ(topic_of(queue, b).jobs.ready, 4);
}

static void bury_keeps_the_reason(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job *job = reserved_job(queue, a);
    struct step step = new_step(job);
    step.args.ending = BIDE_ENDING_BURY;
    step.args.priority = BIDE_KEEP;
    step.args.reason = slice("look at it");
    add(&step, a, "next");
    OK(run(queue, &step));
    const bide_job *buried = stat_job(queue, job->id);
    EQ(buried->state, BIDE_STATE_BURIED);
    TEXT(buried->last_error, buried->last_error_size, "look at it");
    bide_failure failure;
    EQ(bide_job_history(buried, &failure, 1), 1);
    EQ(failure.kind, BIDE_FAILURE_BURIED);
    EQ(take(queue, a)->id, step.items[0].id);
}

static void cancelled_job_is_removed_and_the_puts_happen(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    for (int ending = BIDE_ENDING_FINISH; ending <= BIDE_ENDING_BURY; ending++) {
        const bide_job *job = reserved_job(queue, a);
        OK(bide_cancel(queue, job->id));
        struct step step = new_step(job);
        step.args.ending = (bide_ending)ending;
        add(&step, b, "next");
        OK(run(queue, &step));
        EQ(state_of(queue, job->id), BIDE_STATE_GONE);
    }
    EQ(topic_of(queue, b).jobs.ready, 3);
}

static void waiting_reserve_gets_the_put(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topic = slice(b);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    struct step step = new_step(reserved_job(queue, a));
    add(&step, b, "next");
    OK(run(queue, &step));
    completes(waiter, BIDE_OK);
    EQ(waiter->job.id, step.items[0].id);
}

static void thousand_puts_fit_into_a_step(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    static bide_put_item items[BIDE_BATCH_JOBS + 1];
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = slice(b), .body = slice("x")};
    struct step step = new_step(reserved_job(queue, a));
    step.args.items = items;
    step.args.count = BIDE_BATCH_JOBS + 1;
    CODE(bide_finish_and_put(queue, &step.args), BIDE_EINVAL);
    step.args.count = BIDE_BATCH_JOBS;
    OK(bide_finish_and_put(queue, &step.args));
    EQ(topic_of(queue, b).jobs.ready, BIDE_BATCH_JOBS);
    EQ(items[BIDE_BATCH_JOBS - 1].id, items[0].id + BIDE_BATCH_JOBS - 1);
}

/* ---- rejected steps ---- */

static void lost_lease_puts_nothing(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    const bide_job *job = reserved_job(queue, a);
    struct step step = new_step(job);
    add(&step, b, "next");

    step.args.finish.token++;
    FAILS(queue, &step, BIDE_LEASE_LOST);
    step.args.finish.token = 0;
    FAILS(queue, &step, BIDE_RESERVED);
    step.args.ending = BIDE_ENDING_RELEASE;
    FAILS(queue, &step, BIDE_LEASE_LOST);
    step.args.finish.id = job->id + 1000;
    FAILS(queue, &step, BIDE_NOT_FOUND);
    CHECK(!topic_exists(queue, b));
    EQ(state_of(queue, job->id), BIDE_STATE_RESERVED);
}

static void job_that_cannot_end_so_puts_nothing(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job done = *stat_job(queue, put_in(queue, a, BIDE_STATE_DONE));
    const bide_job buried = *stat_job(queue, put_in(queue, a, BIDE_STATE_BURIED));
    struct step step = new_step(&done);
    add(&step, a, "next");
    step.args.finish.keep = true;
    FAILS(queue, &step, BIDE_WRONG_STATE);
    step.args.ending = BIDE_ENDING_BURY;
    step.args.finish.id = buried.id;
    FAILS(queue, &step, BIDE_WRONG_STATE);
}

static void held_key_fails_the_whole_step(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b"), *c = fresh_topic("c");
    uint64_t holder = put_key(queue, b, "key");
    struct step step = new_step(reserved_job(queue, a));
    add(&step, c, "in a topic that does not exist");
    add_key(&step, b, "other", BIDE_REJECT);
    add_key(&step, b, "key", BIDE_REJECT);
    add(&step, b, "last");
    FAILS(queue, &step, BIDE_EXISTS);
    EQ(step.items[2].id, holder);
    CHECK(strstr(message, "item 2") != NULL);
    CHECK(!topic_exists(queue, c));

    /* All keys are free again, or held as before. */
    put_key(queue, b, "other");
    step.args.count = 2;
    FAILS(queue, &step, BIDE_EXISTS);
    bide_job job;
    OK(bide_find(queue, b, "key", 3, &job));
    EQ(job.id, holder);
    bide_job_clear(&job);
}

static void held_key_may_be_skipped(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t holder = put_key(queue, b, "key");
    struct step step = new_step(reserved_job(queue, a));
    add_key(&step, b, "key", BIDE_SKIP);
    add_key(&step, b, "other", BIDE_SKIP);
    OK(run(queue, &step));
    EQ(step.args.accepted, 1);
    EQ(step.items[0].status, BIDE_EXISTS);
    EQ(step.items[0].id, holder);
    EQ(step.items[1].status, BIDE_OK);
    EQ(topic_of(queue, b).jobs.ready, 2);

    /* In a plain put it rejects. */
    uint64_t id = 0;
    CODE(bide_put(queue, b, "x", 1, &step.options[0], &id), BIDE_EXISTS);
    EQ(id, holder);
}

static void held_key_may_be_replaced(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t holder = put_key(queue, b, "key");
    struct step step = new_step(reserved_job(queue, a));
    add_key(&step, b, "key", BIDE_REPLACE);
    add_key(&step, b, "key", BIDE_REPLACE); /* a put of the same step is not replaced */
    FAILS(queue, &step, BIDE_EXISTS);
    EQ(state_of(queue, holder), BIDE_STATE_READY);

    step.args.count = 1;
    OK(run(queue, &step));
    EQ(state_of(queue, holder), BIDE_STATE_GONE);
    EQ(take(queue, b)->id, step.items[0].id);

    /* Its holder is reserved now. */
    step = new_step(reserved_job(queue, a));
    add_key(&step, b, "key", BIDE_REPLACE);
    FAILS(queue, &step, BIDE_EXISTS);
}

static void two_puts_of_a_step_cannot_have_one_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    struct step step = new_step(reserved_job(queue, a));
    add_key(&step, b, "key", BIDE_REJECT);
    add_key(&step, b, "key", BIDE_SKIP);
    add_key(&step, b, "key", BIDE_REJECT);
    FAILS(queue, &step, BIDE_EXISTS);
    /* Not the id that the first one would have had: another job gets it. */
    EQ(step.items[1].id, 0);
    EQ(step.items[2].id, 0);
    CHECK(strstr(message, "an earlier put of this call has the same key") != NULL);

    step.args.count = 2;
    step.options[1].conflict = BIDE_SKIP;
    OK(run(queue, &step));
    EQ(step.items[1].id, step.items[0].id);
    EQ(topic_of(queue, b).jobs.ready, 1);
}

static void successor_may_take_over_the_key_of_its_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job *job = take_job(queue, put_key(queue, a, "key"));
    struct step step = new_step(job);
    add_key(&step, a, "key", BIDE_REJECT);

    /* Not while the job lives on. */
    step.args.ending = BIDE_ENDING_RELEASE;
    FAILS(queue, &step, BIDE_EXISTS);
    step.args.ending = BIDE_ENDING_FINISH;
    OK(run(queue, &step));

    /* Nor while its result holds the key. */
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("retained");
    options.key_hold_retained = true;
    step = new_step(take_job(queue, put_as(queue, a, "x", &options)));
    step.args.finish.keep = true;
    step.args.finish.retain_ms = 3600000;
    add_key(&step, a, "retained", BIDE_REJECT);
    FAILS(queue, &step, BIDE_EXISTS);
    step.args.finish.retain_ms = 0;
    OK(run(queue, &step));
}

static void invalid_item_is_named(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct step step = new_step(reserved_job(queue, a));
    add(&step, a, "next");
    add(&step, "not a topic", "next");
    FAILS(queue, &step, BIDE_EINVAL);
    CHECK(strstr(message, "item 1") != NULL);

    step.args.count = 1;
    step.args.ending = (bide_ending)3;
    FAILS(queue, &step, BIDE_EINVAL);
    step.args.ending = BIDE_ENDING_RELEASE;
    step.args.delay_ms = 1;
    step.args.run_at_ms = wall_ms();
    FAILS(queue, &step, BIDE_EINVAL);
    step.args.count = 0;
    CODE(run(queue, &step), BIDE_EINVAL);
    CODE(bide_finish_and_put(queue, NULL), BIDE_EINVAL);
}

static void items_have_the_code_of_any_invalid_argument(void)
{
    static char half[5 << 20];
    bide *queue = open_queue(is_in_process() ? "max_job_size=6MiB" : "");
    const char *a = fresh_topic("a");
    const bide_job *job = reserved_job(queue, a);

    for (int which = 0; which < 4; which++) {
        struct step step = new_step(job);
        add(&step, a, "1");
        add(&step, a, "2");
        if (which == 0)
            step.args.ending = (bide_ending)-1;
        else if (which == 1)
            step.args.delay_ms = step.args.run_at_ms = 1000;
        else if (which == 2)
            step.args.finish = (bide_finish_item){.id = job->id, .keep = true, .retain_ms = -5};
        else
            step.items[0].body = step.items[1].body = (bide_slice){half, sizeof half};
        FAILS(queue, &step, which == 3 ? BIDE_TOO_BIG : BIDE_EINVAL);
    }
}

static void draining_queue_rejects_the_step(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct step step = new_step(reserved_job(queue, a));
    add(&step, a, "next");
    OK(bide_drain(queue, true));
    FAILS(queue, &step, BIDE_DRAINING);
    OK(bide_drain(queue, false));
    OK(run(queue, &step));
}

static void full_topic_has_room_for_the_successor(void)
{
    if (!is_in_process())
        return;
    bide *queue = open_queue("max_jobs_per_topic=2");
    const char *a = fresh_topic("a");
    const bide_job *job = reserved_job(queue, a);
    put(queue, a, "second");
    struct step step = new_step(job);
    add(&step, a, "1");
    add(&step, a, "2");
    FAILS(queue, &step, BIDE_TOPIC_FULL);
    step.args.ending = BIDE_ENDING_RELEASE;
    step.args.count = 1;
    FAILS(queue, &step, BIDE_TOPIC_FULL);
    step.args.ending = BIDE_ENDING_FINISH;
    OK(run(queue, &step));
    EQ(topic_of(queue, a).jobs.ready, 2);
}

/* As that of every schedule: it replaces its own job at each moment. */
static void topic_above_its_limit_has_room_for_the_successor(void)
{
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_job *job = reserved_job(queue, a);
    put(queue, a, "second");
    put(queue, a, "third");
    policy.max_jobs = 1;
    OK(bide_topic_set(queue, a, &policy));
    struct step step = new_step(job);
    add(&step, a, "1");
    add(&step, a, "2");
    FAILS(queue, &step, BIDE_TOPIC_FULL);
    step.args.count = 1;
    OK(run(queue, &step));
    EQ(topic_of(queue, a).jobs.ready, 3);
    policy.max_jobs = 0;
    OK(bide_topic_set(queue, a, &policy));
}

/* The memory of the job that ends counts as free, once. A chain runs to its end in a full queue. */
static void full_memory_has_room_for_the_successor(void)
{
    if (!is_in_process())
        return;
    static const char body[10000];
    bide *queue = open_queue("max_memory=1MiB&cache_bytes=64MiB");
    const char *a = fresh_topic("a");
    while (bide_put(queue, a, body, sizeof body, NULL, NULL) == BIDE_OK)
        continue;
    while (bide_put(queue, a, body, 100, NULL, NULL) == BIDE_OK)
        continue;

    const bide_job *job = take(queue, a);
    EQ(job->body_size, sizeof body);
    for (int i = 0; i < 100; i++) {
        struct step step = new_step(job);
        for (size_t j = 0; j < 2; j++)
            add(&step, a, "")->priority = 0;
        step.items[0].body = step.items[1].body = (bide_slice){body, sizeof body};
        FAILS(queue, &step, BIDE_EFULL);
        EQ(step.args.count, 2);
        CODE(bide_put(queue, a, body, sizeof body, NULL, NULL), BIDE_EFULL);
        step.args.count = 1;
        step.args.ending = BIDE_ENDING_RELEASE;
        FAILS(queue, &step, BIDE_EFULL);
        step.args.ending = BIDE_ENDING_FINISH;
        OK(run(queue, &step));
        job = take(queue, a);
        EQ(job->id, step.items[0].id);
    }
}

/* Leases and steps that are not stored yet may exceed the memory: chains go on nevertheless. */
static void run_steps_in_full_memory(const char *parameters)
{
    enum { STEPS = 20, ROUNDS = 5 };
    static const char body[10000];
    static char holder[BIDE_HOLDER_MAX];
    static struct step steps[STEPS];
    static bide_job jobs[STEPS];
    static bide_op ops[STEPS];
    bide_op *list[STEPS];
    bide_cq *cq;
    bide *queue = open_queue(parameters);
    const char *a = fresh_topic("a");
    const bide_slice topic = slice(a);
    while (bide_put(queue, a, body, sizeof body, NULL, NULL) == BIDE_OK)
        continue;
    while (bide_put(queue, a, body, 0, NULL, NULL) == BIDE_OK)
        continue;

    OK(bide_cq_new(&cq));
    memset(holder, 'h', sizeof holder);
    for (int round = 0; round < ROUNDS; round++) {
        bide_reserve_args args = {.topics = &topic,
                                  .topic_count = 1,
                                  .jobs = jobs,
                                  .job_max = STEPS,
                                  .holder = {holder, sizeof holder}};
        OK(bide_reserve_many(queue, &args));
        EQ(args.count, STEPS);
        for (size_t i = 0; i < STEPS; i++) {
            steps[i] = new_step(&jobs[i]);
            add(&steps[i], a, "");
            steps[i].items[0].body = (bide_slice){body, jobs[i].body_size};
            steps[i].items[0].options = &steps[i].options[0];
            steps[i].args.items = steps[i].items;
            ops[i] = (bide_op){.kind = BIDE_OP_FINISH_AND_PUT, .cq = cq};
            ops[i].finish_and_put = steps[i].args;
            list[i] = &ops[i];
        }
        CHECK(bide_submit(queue, list, STEPS) >= 0);
        for (size_t i = 0; i < STEPS; i++) {
            while (ops[i].status == BIDE_PENDING)
                bide_cq_wait(cq, PATIENCE_MS);
            OK(ops[i].status);
            bide_job_clear(&jobs[i]);
        }
        CODE(bide_put(queue, a, body, 0, NULL, NULL), BIDE_EFULL);
    }
    OK(bide_cq_free(cq));
}

static void full_memory_has_room_for_steps_beside_each_other(void)
{
    if (is_in_process())
        run_steps_in_full_memory("max_memory=300KiB&cache_bytes=64MiB");
}

/* The bodies of the successors are in memory until they are stored. */
static void full_memory_has_room_for_steps_of_jobs_whose_bodies_are_not_in_memory(void)
{
    if (is_in_process())
        run_steps_in_full_memory("max_memory=300KiB&cache_bytes=1");
}

/* The job that ends, and whose key a put takes over by replacing it, makes room once. */
static void replaced_job_that_ends_makes_room_once(void)
{
    if (!is_in_process())
        return;
    bide *queue = open_queue("max_jobs_per_topic=1");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("key");
    options.key_hold_retained = true;
    const bide_job job = {.id = put_as(queue, a, "first", &options)};

    struct step step = new_step(&job);
    step.args.finish.keep = true;
    step.args.finish.retain_ms = 3600000;
    add_key(&step, a, "key", BIDE_REPLACE);
    add(&step, a, "second");
    FAILS(queue, &step, BIDE_TOPIC_FULL);
    EQ(state_of(queue, job.id), BIDE_STATE_READY);

    step.args.count = 1;
    OK(run(queue, &step));
    EQ(state_of(queue, job.id), BIDE_STATE_GONE);
    EQ(topic_of(queue, a).jobs.ready, 1);
    EQ(topic_of(queue, a).jobs.done, 0);

    /* A job that is buried and then replaced. */
    step.args.finish.id = step.items[0].id;
    step.args.ending = BIDE_ENDING_BURY;
    step.args.priority = BIDE_KEEP;
    step.args.finish.keep = false;
    step.args.count = 2;
    FAILS(queue, &step, BIDE_TOPIC_FULL);
    step.args.count = 1;
    OK(run(queue, &step));
    EQ(topic_of(queue, a).jobs.ready, 1);
    EQ(topic_of(queue, a).jobs.buried, 0);
}

/* ---- chains ---- */

/* Runs a chain of three topics until its last step; each step puts the next one. */
static void chain_runs_each_step_once(void)
{
    bide *queue = open_queue("");
    enum { CHAINS = 20, STEPS = 3 };
    const char *topics[STEPS + 1] = {fresh_topic("1"), fresh_topic("2"), fresh_topic("3"),
                                     fresh_topic("end")};
    for (int i = 0; i < CHAINS; i++) {
        char body[16];
        snprintf(body, sizeof body, "%d", i);
        put(queue, topics[0], body);
    }
    for (int at = 0; at < STEPS; at++)
        for (int i = 0; i < CHAINS; i++) {
            const bide_job *job = take(queue, topics[at]);
            struct step step = new_step(job);
            char body[16];
            snprintf(body, sizeof body, "%.*s", (int)job->body_size, (const char *)job->body);
            add(&step, topics[at + 1], body);
            OK(run(queue, &step));
            CODE(run(queue, &step), BIDE_NOT_FOUND); /* once only */
        }
    EQ(topic_of(queue, topics[STEPS]).jobs.ready, CHAINS);
    EQ(topic_of(queue, topics[STEPS]).total.puts, CHAINS);
}

static const struct test tests[] = {
    TEST(delete_and_puts_happen_together),
    TEST(done_keeps_its_result),
    TEST(release_may_be_delayed_or_run_at_a_time),
    TEST(bury_keeps_the_reason),
    TEST(cancelled_job_is_removed_and_the_puts_happen),
    TEST(waiting_reserve_gets_the_put),
    TEST(thousand_puts_fit_into_a_step),
    TEST(lost_lease_puts_nothing),
    TEST(job_that_cannot_end_so_puts_nothing),
    TEST(held_key_fails_the_whole_step),
    TEST(held_key_may_be_skipped),
    TEST(held_key_may_be_replaced),
    TEST(two_puts_of_a_step_cannot_have_one_key),
    TEST(successor_may_take_over_the_key_of_its_job),
    TEST(invalid_item_is_named),
    TEST(items_have_the_code_of_any_invalid_argument),
    TEST(draining_queue_rejects_the_step),
    TEST(full_topic_has_room_for_the_successor),
    TEST(topic_above_its_limit_has_room_for_the_successor),
    TEST(full_memory_has_room_for_the_successor),
    TEST(full_memory_has_room_for_steps_beside_each_other),
    TEST(full_memory_has_room_for_steps_of_jobs_whose_bodies_are_not_in_memory),
    TEST(replaced_job_that_ends_makes_room_once),
    TEST(chain_runs_each_step_once),
};

const struct theme finish_and_put_theme = {"finish_and_put", tests, COUNT(tests)};
