/* SPDX-License-Identifier: MIT */
/* restart_time.c - what time does while nothing is open; keys, pauses and owners. */
#include "location.h"

#include <string.h>

/* ---- time that passes while nothing is open ---- */

static void job_that_came_due_while_closed_is_ready(void)
{
    char location[LOCATION_SIZE];
    bide *queue = open_location(new_location(location, sizeof location), "");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    int64_t start_us = clock_us();
    options.run_at_ms = wall_ms() + 60;
    uint64_t moment = put_as(queue, a, "body", &options), delay = put_later(queue, a, 60);
    uint64_t later = put_later(queue, a, 3600000), soon = put_later(queue, a, 200);
    leave_queue(queue);
    nap_ms(80);
    queue = loaded(open_location(location, ""));
    EQ(await(queue, a)->id, moment);
    EQ(await(queue, a)->id, delay);
    EQ(await(queue, a)->id, soon);
    NOT_BEFORE(start_us, 199);
    EQ(state_of(queue, later), BIDE_STATE_DELAYED);
}

/* A delay that ended is not written: the stored due time tells since when the job is ready. */
static void job_that_came_due_while_closed_has_its_due_time_as_ready_time(void)
{
    char location[LOCATION_SIZE];
    bide *queue = open_location(new_location(location, sizeof location), "");
    const char *before = fresh_topic("before"), *after = fresh_topic("after");
    const char *wall = fresh_topic("wall");
    const char *const topics[] = {before, after, wall};
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    int64_t start_us = clock_us();
    options.run_at_ms = wall_ms() + 200;
    put_later(queue, before, 1); /* comes due before the close */
    put_later(queue, after, 200);
    put_as(queue, wall, "body", &options);
    UNTIL(topic_of(queue, before).jobs.ready == 1);
    int64_t put_us = clock_us();
    leave_queue(queue);
    nap_ms(700);
    for (int round = 0; round < 2; round++) {
        queue = loaded(open_location(location, ""));
        int64_t least_ms = (clock_us() - put_us) / 1000 - 200;
        for (size_t i = 0; i < COUNT(topics); i++) {
            bide_topic_stats stats = topic_of(queue, topics[i]);
            EQ(stats.jobs.ready, 1);
            int64_t most_ms = (clock_us() - start_us) / 1000 + 1;
            if (stats.oldest_ready_age_ms < least_ms - 2 || stats.oldest_ready_age_ms > most_ms)
                FAIL("topic %zu: the oldest is ready for %lld ms, expected %lld to %lld", i,
                     (long long)stats.oldest_ready_age_ms, (long long)least_ms, (long long)most_ms);
        }
        CHECK(stats_of(queue).oldest_ready_age_ms >= least_ms - 2);
        leave_queue(queue);
    }
}

static void job_that_expired_while_closed_is_removed_and_counted(void)
{
    char location[LOCATION_SIZE];
    bide *queue = open_location(new_location(location, sizeof location), "");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.expires_at_ms = wall_ms() + 3600000;
    uint64_t kept = put_as(queue, a, "body", &options);
    options.expires_at_ms = wall_ms() + 400;
    uint64_t expired = put_as(queue, a, "body", &options), retired = put(queue, a, "body");
    options.delay_ms = 3600000;
    uint64_t delayed = put_as(queue, a, "body", &options);
    OK(bide_done(queue, retired, 0, "x", 1, 400));
    leave_queue(queue);
    bool in_time = wall_ms() < options.expires_at_ms;
    nap_ms(450);
    queue = loaded(open_location(location, ""));
    UNTIL(state_of(queue, expired) == BIDE_STATE_GONE);
    UNTIL(state_of(queue, delayed) == BIDE_STATE_GONE);
    UNTIL(state_of(queue, retired) == BIDE_STATE_GONE);
    /* Unless they went before the close already. */
    if (in_time) {
        EQ(stats_of(queue).total.expired, 2);
        EQ(stats_of(queue).total.retired, 1);
    }
    queue = reopen(queue, "");
    EQ(state_of(queue, kept), BIDE_STATE_READY);
    EQ(state_of(queue, expired), BIDE_STATE_GONE);
    EQ(state_of(queue, retired), BIDE_STATE_GONE);
    EQ(stats_of(queue).total.expired, 0);
}

/* ---- keys ---- */

static void keys_are_held_across_restarts_and_freed_by_what_frees_them(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const char *const names[] = {"ready", "delayed", "buried", "reserved", "retained"};
    static const bide_state states[] = {BIDE_STATE_READY, BIDE_STATE_DELAYED, BIDE_STATE_BURIED,
                                        BIDE_STATE_RESERVED, BIDE_STATE_DONE};
    uint64_t ids[COUNT(names)];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (size_t i = 0; i < COUNT(names); i++) {
        options.key = slice(names[i]);
        options.key_hold_retained = states[i] == BIDE_STATE_DONE;
        ids[i] = put_in_as(queue, a, states[i], &options);
    }
    options.key_hold_retained = false;
    options.key = slice("freed");
    put_in_as(queue, a, BIDE_STATE_DONE, &options);
    for (int round = 0; round < 2; round++) {
        queue = reopen(queue, "");
        for (size_t i = 0; i < COUNT(names); i++) {
            uint64_t holder = 0;
            options.key = slice(names[i]);
            CODE(bide_put(queue, a, "x", 1, &options, &holder), BIDE_EXISTS);
            EQ(holder, ids[i]);
        }
    }
    options.key = slice("freed");
    put_as(queue, a, "body", &options);
    for (size_t i = 0; i < COUNT(names); i++) {
        options.key = slice(names[i]);
        options.conflict = BIDE_REPLACE;
        if (states[i] == BIDE_STATE_RESERVED && !is_in_process()) {
            CODE(bide_put(queue, a, "x", 1, &options, NULL), BIDE_EXISTS);
            continue; /* the server keeps leases */
        }
        uint64_t id = put_as(queue, a, "new", &options);
        EQ(state_of(queue, ids[i]), BIDE_STATE_GONE);
        queue = reopen(queue, "");
        EQ(state_of(queue, ids[i]), BIDE_STATE_GONE);
        bide_job found = {0};
        OK(bide_find(queue, a, names[i], strlen(names[i]), &found));
        EQ(found.id, id);
        bide_job_clear(&found);
    }
}

/* ---- pauses ---- */

static void pauses_and_resumes_are_restored(void)
{
    bide *queue = open_queue("");
    const char *ever = fresh_topic("ever"), *timed = fresh_topic("timed");
    const char *resumed = fresh_topic("resumed"), *empty = fresh_topic("empty");
    const char *over = fresh_topic("over");
    put(queue, ever, "body");
    put(queue, timed, "body");
    put(queue, resumed, "body");
    put(queue, over, "body");
    OK(bide_pause(queue, ever, BIDE_FOREVER));
    OK(bide_pause(queue, timed, 3600000));
    OK(bide_pause(queue, resumed, BIDE_FOREVER));
    OK(bide_pause(queue, empty, 3600000));
    OK(bide_pause(queue, over, 50));
    OK(bide_resume(queue, resumed));
    for (int round = 0; round < 3; round++) {
        queue = reopen(queue, "");
        nothing_ready(queue, ever);
        nothing_ready(queue, timed);
        CHECK(topic_of(queue, ever).paused && topic_of(queue, timed).paused);
        CHECK(topic_of(queue, empty).paused);
        BETWEEN(topic_of(queue, timed).pause_left_ms, 3600000 - 4 * PATIENCE_MS, 3600001);
        CHECK(!topic_of(queue, resumed).paused);
    }
    await(queue, over);
    take(queue, resumed);
    OK(bide_resume(queue, ever));
    OK(bide_resume(queue, timed));
    OK(bide_pause(queue, empty, 0));
    queue = reopen(queue, "");
    take(queue, ever);
    take(queue, timed);
    CHECK(!topic_exists(queue, empty));
}

static void a_pause_that_ended_meanwhile_is_over(void)
{
    char location[LOCATION_SIZE];
    bide *queue = open_location(new_location(location, sizeof location), "");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    put(queue, a, "body");
    OK(bide_pause(queue, a, 50));
    OK(bide_pause(queue, b, 50));
    leave_queue(queue);
    nap_ms(60);
    queue = loaded(open_location(location, ""));
    take(queue, a);
    CHECK(!topic_of(queue, a).paused);
    CHECK(!topic_exists(queue, b));
}

/* ---- owners ---- */

static void try_to_open(bide *queue)
{
    (void)queue;
}

static void open_queue_can_be_opened_again_only_by_clients(void)
{
    char location[LOCATION_SIZE];
    bide *queue = open_location(new_location(location, sizeof location), ""), *second = NULL;
    uint64_t id = put(queue, fresh_topic("a"), "body");
    for (int i = 0; i < 3; i++) {
        char url[LOCATION_SIZE];
        CODE(bide_open(second_url(url, sizeof url, location), NULL, &second),
             is_in_process() ? BIDE_EBUSY : BIDE_OK);
        CHECK((second == NULL) == is_in_process());
        OK(bide_close(second));
        second = NULL;
        EQ(state_of(queue, id), BIDE_STATE_READY);
    }
    leave_queue(queue);
    crash_during(location, "", try_to_open);
    queue = loaded(open_location(location, ""));
    EQ(state_of(queue, id), BIDE_STATE_READY);
}

/* ---- policies ---- */

static bide_topic_policy policy_of(bide *queue, const char *topic)
{
    bide_topic_policy policy;
    OK(bide_topic_get(queue, topic, &policy, NULL));
    return policy;
}

static void policies_are_restored(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *cleared = fresh_topic("cleared");
    const char *paused = fresh_topic("paused");
    bide_topic_policy changes = BIDE_TOPIC_POLICY_INIT;
    changes.max_retries = 0;
    changes.concurrency = 1;
    OK(bide_topic_set(queue, a, &changes));
    OK(bide_topic_set(queue, cleared, &changes));
    OK(bide_pause(queue, paused, BIDE_FOREVER));
    OK(bide_topic_set(queue, paused, &changes));
    changes.max_retries = changes.concurrency = BIDE_NO_DEFAULT;
    OK(bide_topic_set(queue, cleared, &changes));
    put(queue, a, "1");
    put(queue, a, "2");
    for (int round = 0; round < 3; round++) {
        queue = reopen(queue, "");
        EQ(policy_of(queue, a).max_retries, 0);
        EQ(policy_of(queue, a).concurrency, 1);
        EQ(policy_of(queue, paused).concurrency, 1);
        CHECK(topic_of(queue, paused).paused);
        CHECK(!topic_exists(queue, cleared));
        bide_job job;
        OK(bide_reserve(queue, a, 10000, &job));
        nothing_ready(queue, a);
        /* A server may keep the lease over its restart. */
        OK(bide_give_back(queue, job.id, job.token));
        bide_job_clear(&job);
    }
    OK(bide_resume(queue, paused));
    queue = reopen(queue, "");
    EQ(policy_of(queue, paused).concurrency, 1);
    CHECK(!topic_of(queue, paused).paused);
}

static void a_rate_begins_with_one_job_after_a_restart(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_topic_policy changes = BIDE_TOPIC_POLICY_INIT;
    changes.rate = 5;
    changes.rate_period_ms = 3600000;
    OK(bide_topic_set(queue, a, &changes));
    put_lots(queue, a, 9, NULL, NULL);
    for (int round = 0; round < 2; round++) {
        take(queue, a);
        nothing_ready(queue, a);
        queue = reopen(queue, "");
    }
}

static const struct test tests[] = {
    TEST(job_that_came_due_while_closed_is_ready),
    TEST(job_that_came_due_while_closed_has_its_due_time_as_ready_time),
    TEST(job_that_expired_while_closed_is_removed_and_counted),
    TEST(keys_are_held_across_restarts_and_freed_by_what_frees_them),
    TEST(pauses_and_resumes_are_restored),
    TEST(a_pause_that_ended_meanwhile_is_over),
    TEST(policies_are_restored),
    TEST(a_rate_begins_with_one_job_after_a_restart),
    TEST(open_queue_can_be_opened_again_only_by_clients),
};

const struct theme restart_time_theme = {"restart_time", tests, COUNT(tests)};
