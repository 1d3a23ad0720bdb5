/* SPDX-License-Identifier: MIT */
/*
 * hostile - what careless and ill-meaning callers do, and what must come of it: nothing.
 */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MANY = 5000 };

/* ---- names that are gone ---- */

/* Kick and purge go on after submit has returned; the caller's name of the topic may not. */
static void the_name_of_a_topic_may_be_freed_once_a_purge_is_submitted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put_lots(queue, a, MANY, NULL, NULL);
    struct waiter *purge = new_op(BIDE_OP_PURGE, new_cq());
    char *name = strdup(a);
    purge->op.purge = (bide_purge_args){.topic = {name, strlen(name)}, .state = BIDE_STATE_READY};
    submit_pending(queue, purge);
    memset(name, 'x', strlen(name));
    free(name);
    completes(purge, BIDE_OK);
    EQ(purge->op.purge.count, MANY);
    CHECK(!topic_exists(queue, a));
}

static void the_name_of_a_topic_may_be_freed_once_a_kick_is_submitted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options later = BIDE_PUT_OPTIONS_INIT;
    later.delay_ms = 3600000;
    put_lots(queue, a, MANY, &later, NULL);
    struct waiter *kick = new_op(BIDE_OP_KICK, new_cq());
    char *name = strdup(a);
    kick->op.kick = (bide_kick_args){.topic = {name, strlen(name)}, .max = MANY};
    submit_pending(queue, kick);
    memset(name, 'x', strlen(name));
    free(name);
    completes(kick, BIDE_OK);
    EQ(kick->op.kick.count, MANY);
    EQ(topic_of(queue, a).jobs.ready, MANY);
}

/* ---- ops that are somewhere else already ---- */

static void pending_op_cannot_be_submitted_again(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    struct waiter *waiter = begin_reserve(queue, new_cq(), &topic, 1);
    bide_op *again[] = {&waiter->op};
    CODE(bide_submit(queue, again, 1), BIDE_EINVAL);
    still_pending(waiter);
    put(queue, a, "body");
    completes(waiter, BIDE_OK);
    bide_job_clear(&waiter->job);
    waiter->calls = 0;
    submit_pending(queue, waiter);
    put(queue, a, "body");
    completes(waiter, BIDE_OK);
}

static void list_with_an_op_twice_is_rejected(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    struct waiter *one = new_op(BIDE_OP_PUT, cq), *two = new_op(BIDE_OP_PUT, cq);
    one->op.put = two->op.put = (bide_put_item){.topic = slice(a), .body = slice("body")};
    bide_op *list[] = {&one->op, &two->op, &one->op};
    CODE(bide_submit(queue, list, 3), BIDE_EINVAL);
    CHECK(!topic_exists(queue, a));
    BETWEEN(bide_submit(queue, list, 2), 0, 2);
    UNTIL((one->op.status == BIDE_OK && two->op.status == BIDE_OK) || bide_cq_drain(cq, 0) < 0);
    EQ(topic_of(queue, a).jobs.ready, 2);
}

/* ---- numbers at their ends ---- */

static void failure_counter_saturates(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_job job = *peek_job(queue, put(queue, a, "body"));
    job.failures = job.fails = UINT32_MAX;
    uint64_t id;
    OK(bide_restore(queue, &job, &id));
    bide_state state = BIDE_STATE_GONE;
    OK(bide_fail(queue, id, 0, "again", BIDE_KEEP, &state, NULL));
    EQ(state, BIDE_STATE_DELAYED);
    EQ(stat_job(queue, id)->failures, UINT32_MAX);
    EQ(stat_job(queue, id)->fails, UINT32_MAX);
}

/* Whoever writes time(NULL) + 60 would see the job expire, or run, at once. */
static void timestamp_in_seconds_is_rejected(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() / 1000 + 60;
    CODE(bide_put(queue, a, "body", 4, &options, NULL), BIDE_EINVAL);
    options.expires_at_ms = 0;
    options.run_at_ms = wall_ms() / 1000 + 60;
    CODE(bide_put(queue, a, "body", 4, &options, NULL), BIDE_EINVAL);
    uint64_t id = put(queue, a, "body");
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = id;
    changes.run_at_ms = wall_ms() / 1000 + 60;
    CODE(bide_update(queue, &changes), BIDE_EINVAL);
    EQ(stat_job(queue, id)->state, BIDE_STATE_READY);
}

/* ---- work that would keep others waiting ---- */

static void search_text_length_is_limited(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put(queue, a, "a needle in the hay");
    static char text[BIDE_TEXT_MAX + 1];
    memset(text, 'x', sizeof text);
    bide_filter filter = {.text = {text, sizeof text}};
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job job = {0};
    size_t count = 42;
    CODE(bide_list(queue, a, BIDE_STATE_GONE, &filter, cursor, &job, 1, &count), BIDE_TOO_BIG);
    EQ(count, 42);
    filter.min_age_ms = -1; /* a later argument: the text is reported first */
    CODE(bide_list(queue, a, BIDE_STATE_GONE, &filter, cursor, &job, 1, &count), BIDE_TOO_BIG);
    filter.min_age_ms = 0;
    filter.text = slice("needle");
    OK(bide_list(queue, a, BIDE_STATE_GONE, &filter, cursor, &job, 1, &count));
    EQ(count, 1);
    bide_job_clear(&job);
}

static void reserve_of_too_many_jobs_and_topics_is_rejected(void)
{
    bide *queue = open_queue("");
    static bide_slice topics[BIDE_RESERVE_TOPICS];
    static bide_job jobs[BIDE_BATCH_JOBS];
    const char *a = fresh_topic("a");
    for (size_t i = 0; i < COUNT(topics); i++)
        topics[i] = slice(a);
    bide_reserve_args args = reserve_args(topics, COUNT(topics), 0, jobs, COUNT(jobs));
    CODE(bide_reserve_many(queue, &args), BIDE_EINVAL);
    args.job_max = BIDE_RESERVE_WORK / COUNT(topics);
    CODE(bide_reserve_many(queue, &args), BIDE_TIMED_OUT);
}

/* They all come due in one turn of a slow wheel, or in one millisecond. */
static void many_topics_due_together_are_all_served(void)
{
    enum { TOPICS = 2000 };
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 300;
    char name[BIDE_TOPIC_MAX + 1];
    bide_slice topics[TOPICS];
    for (int i = 0; i < TOPICS; i++) {
        snprintf(name, sizeof name, "%s/%d", a, i);
        topics[i] = slice(strdup(name));
        put_as(queue, name, "body", &options);
        put_as(queue, name, "body", &options);
    }
    bide_job jobs[500] = {0};
    bide_reserve_args args = reserve_args(topics, TOPICS, PATIENCE_MS, jobs, COUNT(jobs));
    size_t taken = 0;
    while (taken < 2 * (size_t)TOPICS) {
        OK(bide_reserve_many(queue, &args));
        CHECK(wall_ms() >= options.run_at_ms);
        for (size_t i = 0; i < args.count; i++)
            bide_job_clear(&jobs[i]);
        taken += args.count;
    }
    EQ(taken, 2 * (size_t)TOPICS);
    for (int i = 0; i < TOPICS; i++)
        free((void *)(uintptr_t)topics[i].data);
}

/* What takes work out is never refused for memory, or nothing would ever become free again. */
static void full_queue_can_be_consumed(void)
{
    bide *queue = open_queue("max_memory=1MiB");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = 3600000;
    int count = 0, code;
    while ((code = bide_put(queue, a, "body", 4, &options, NULL)) == BIDE_OK)
        count++;
    EQ(code, BIDE_EFULL);
    CHECK(count > 100);
    static char result[1000];
    for (int i = 0; i < count; i++) {
        const bide_job *job = take(queue, a);
        if (i % 2 == 0)
            OK(bide_done(queue, job->id, job->token, result, sizeof result, BIDE_KEEP));
        else
            OK(bide_delete(queue, job->id, job->token));
    }
    bide_slice other = slice(fresh_topic("other"));
    still_pending(begin_reserve(queue, new_cq(), &other, 1));
    OK(bide_purge(queue, a, BIDE_STATE_DONE, NULL));
    put(queue, a, "body");
}

/* ---- the end ---- */

/* Without a completion queue it runs within submit, unless it must wait until it is stored. */
static void *purge_here(void *arg)
{
    bide *queue = arg;
    if (is_persistent() || !completes_in_submit()) {
        int code = bide_purge(queue, "hostile-purge", BIDE_STATE_READY, NULL);
        CHECK(code == BIDE_OK || code == BIDE_CLOSED);
        return NULL;
    }
    bide_op op = {.kind = BIDE_OP_PURGE};
    op.purge = (bide_purge_args){.topic = slice("hostile-purge"), .state = BIDE_STATE_READY};
    bide_op *list[] = {&op};
    CHECK(bide_submit(queue, list, 1) <= 0);
    CHECK(op.status == BIDE_OK || op.status == BIDE_CLOSED || op.status == BIDE_EINVAL);
    return NULL;
}

static void a_close_waits_for_calls_that_began_before_it(void)
{
    bide *queue = open_queue("");
    put_lots(queue, "hostile-purge", 50000, NULL, NULL);
    pthread_t thread = start_thread(purge_here, queue);
    while (topic_exists(queue, "hostile-purge") &&
           topic_of(queue, "hostile-purge").jobs.ready == 50000)
        ;
    close_queue(queue);
    join_thread(thread);
}

static const struct test tests[] = {
    TEST(the_name_of_a_topic_may_be_freed_once_a_purge_is_submitted),
    TEST(the_name_of_a_topic_may_be_freed_once_a_kick_is_submitted),
    TEST(pending_op_cannot_be_submitted_again),
    TEST(list_with_an_op_twice_is_rejected),
    TEST(failure_counter_saturates),
    TEST(timestamp_in_seconds_is_rejected),
    TEST(search_text_length_is_limited),
    TEST(reserve_of_too_many_jobs_and_topics_is_rejected),
    TEST(many_topics_due_together_are_all_served),
    TEST(full_queue_can_be_consumed),
    TEST(a_close_waits_for_calls_that_began_before_it),
};

const struct theme hostile_theme = {"hostile", tests, COUNT(tests)};
