/* SPDX-License-Identifier: MIT */
/* loading.c - calls on a queue that has just been opened, and has not loaded everything yet. */
#include "crowd.h"

#include <stdio.h>
#include <string.h>

/* The last spot first: it is loaded last. */
#define EACH_SPOT(spot) for (int spot = CROWD_SPOTS - 1; spot >= 0; spot--)

/* ---- calls that name an id ---- */

static void a_look_by_id_finds_the_job_wherever_it_is(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = crowd->ids[spot];
        for (int state = BIDE_STATE_DELAYED; state < CROWD_KINDS; state++) {
            const bide_job *job = stat_job(queue, ids[state]);
            EQ(job->state, crowd_state((bide_state)state));
            job = peek_job(queue, ids[state]);
            TEXT(job->body, job->body_size, "body");
            TEXT(job->key, job->key_size, crowd->keys[spot][state]);
        }
        bide_job job = {0};
        CODE(bide_peek(queue, ids[BIDE_STATE_GONE], &job), BIDE_NOT_FOUND);
        CODE(bide_job_stats(queue, crowd->last_id + 1, &job), BIDE_NOT_FOUND);
    }
    CROWD_IS_WHOLE(crowd, queue);
}

/* Leases outlive the restart of a server, and are good before everything is loaded. */
static void a_lease_is_good_wherever_its_job_is(void)
{
    static char place[PLACE_SIZE];
    if (is_own())
        return;
    bide *queue = open_place(new_place(place, sizeof place), "");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t ids[3], tokens[3];
    for (size_t i = 0; i < COUNT(ids); i++) {
        put_lots(queue, b, CROWD_JOBS / COUNT(ids), NULL, NULL);
        ids[i] = put(queue, a, "body");
        tokens[i] = take(queue, a)->token;
    }
    for (int round = 0; round < 2; round++) {
        start_place(place);
        for (size_t i = COUNT(ids); i-- > 0;) {
            CODE(bide_delete(queue, ids[i], 0), BIDE_RESERVED);
            CODE(bide_touch(queue, ids[i], tokens[i] + 1, 0, NULL), BIDE_LEASE_LOST);
            OK(bide_touch(queue, ids[i], tokens[i], 0, NULL));
        }
    }
    start_place(place);
    for (size_t i = COUNT(ids); i-- > 0;)
        OK(bide_delete(queue, ids[i], tokens[i]));
    EQ(stats_of(queue).jobs.reserved, 0);
    EQ(topic_of(queue, b).jobs.ready, CROWD_JOBS / COUNT(ids) * COUNT(ids));
}

static void a_body_result_or_end_can_be_asked_for_wherever_the_job_is(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = crowd->ids[spot];
        bide_buf *body = NULL, *result = NULL;
        bide_state state = BIDE_STATE_READY;
        OK(bide_body(queue, ids[BIDE_STATE_DELAYED], &body));
        TEXT(bide_buf_data(body), bide_buf_size(body), "body");
        bide_buf_unref(body);
        OK(bide_result(queue, ids[BIDE_STATE_DONE], &result));
        TEXT(bide_buf_data(result), bide_buf_size(result), "result");
        bide_buf_unref(result);
        CODE(bide_result(queue, ids[BIDE_STATE_READY], &result), BIDE_WRONG_STATE);
        OK(bide_wait(queue, ids[BIDE_STATE_DONE], BIDE_FOREVER, &state, &result));
        EQ(state, BIDE_STATE_DONE);
        TEXT(bide_buf_data(result), bide_buf_size(result), "result");
        bide_buf_unref(result);
        OK(bide_wait(queue, ids[BIDE_STATE_BURIED], 0, &state, NULL));
        EQ(state, BIDE_STATE_BURIED);
        CODE(bide_wait(queue, ids[BIDE_STATE_READY], 0, &state, NULL), BIDE_TIMED_OUT);
        OK(bide_wait(queue, ids[BIDE_STATE_GONE], BIDE_FOREVER, &state, NULL));
        EQ(state, BIDE_STATE_GONE);
    }
    CROWD_IS_WHOLE(crowd, queue);
}

static void a_delete_cancel_or_done_finds_the_job_wherever_it_is(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = crowd->ids[spot];
        OK(bide_delete(queue, ids[BIDE_STATE_READY], 0));
        CODE(bide_delete(queue, ids[BIDE_STATE_READY], 0), BIDE_NOT_FOUND);
        OK(bide_cancel(queue, ids[BIDE_STATE_DELAYED]));
        OK(bide_done(queue, ids[BIDE_STATE_BURIED], 0, "new", 3, 3600000));
        CODE(bide_done(queue, ids[BIDE_STATE_DONE], 0, "new", 3, 3600000), BIDE_WRONG_STATE);
        OK(bide_delete(queue, ids[BIDE_STATE_DONE], 0));
        CODE(bide_delete(queue, ids[BIDE_STATE_RESERVED], 12345), BIDE_LEASE_LOST);
        CODE(bide_delete(queue, ids[BIDE_STATE_GONE], 0), BIDE_NOT_FOUND);
    }
    for (int round = 0; round < 2; round++) {
        bide_counts jobs = topic_of(queue, crowd->small).jobs;
        EQ(jobs.ready, CROWD_SPOTS);
        EQ(jobs.delayed, 0);
        EQ(jobs.buried, 0);
        EQ(jobs.done, CROWD_SPOTS);
        EQ(topic_of(queue, crowd->large).jobs.ready, CROWD_JOBS);
        queue = reopen_at_once(queue);
    }
}

static void a_change_by_id_finds_the_job_wherever_it_is_and_stays(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = crowd->ids[spot];
        bide_update_args changes = BIDE_UPDATE_INIT;
        changes.id = ids[BIDE_STATE_DONE];
        changes.priority = 5;
        OK(bide_update(queue, &changes));
        OK(bide_bury(queue, ids[BIDE_STATE_READY], 0, 7, "aside"));
        OK(bide_kick_job(queue, ids[BIDE_STATE_BURIED]));
        OK(bide_fail(queue, ids[BIDE_STATE_RESERVED], 0, "it broke", 3600000, NULL, NULL));
        CODE(bide_kick_job(queue, ids[BIDE_STATE_DONE]), BIDE_WRONG_STATE);
        CODE(bide_release(queue, ids[BIDE_STATE_DELAYED], 9, 1, 1), BIDE_LEASE_LOST);
        CODE(bide_touch(queue, ids[BIDE_STATE_GONE], 9, 0, NULL), BIDE_NOT_FOUND);
        EQ(take_job(queue, ids[BIDE_STATE_DELAYED])->state, BIDE_STATE_RESERVED);
    }
    EQ(topic_of(queue, crowd->large).jobs.ready, CROWD_JOBS);
    EQ(topic_of(queue, crowd->small).jobs.reserved, CROWD_SPOTS);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = crowd->ids[spot];
        EQ(stat_job(queue, ids[BIDE_STATE_DONE])->priority, 5);
        EQ(stat_job(queue, ids[BIDE_STATE_READY])->state, BIDE_STATE_BURIED);
        EQ(stat_job(queue, ids[BIDE_STATE_READY])->priority, 7);
        EQ(stat_job(queue, ids[BIDE_STATE_BURIED])->state, BIDE_STATE_READY);
        EQ(stat_job(queue, ids[BIDE_STATE_BURIED])->kicks, 1);
        EQ(stat_job(queue, ids[BIDE_STATE_RESERVED])->state, BIDE_STATE_DELAYED);
        EQ(stat_job(queue, ids[BIDE_STATE_RESERVED])->fails, 1);
        EQ(stat_job(queue, ids[BIDE_STATE_DELAYED])->state, BIDE_STATE_RESERVED);
    }
}

static void a_list_of_ids_finds_all_of_them(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    bide_finish_item items[CROWD_SPOTS * CROWD_KINDS];
    bide_touch_item touches[CROWD_SPOTS];
    size_t count = 0;
    EACH_SPOT(spot)
    {
        touches[spot] = (bide_touch_item){.id = crowd->ids[spot][BIDE_STATE_READY], .token = 77};
        for (int state = 0; state < CROWD_KINDS; state++)
            items[count++] = (bide_finish_item){.id = crowd->ids[spot][state]};
    }
    OK(bide_touch_many(queue, touches, COUNT(touches)));
    for (size_t i = 0; i < COUNT(touches); i++)
        EQ(touches[i].status, BIDE_LEASE_LOST);
    OK(bide_finish_many(queue, items, count));
    for (size_t i = 0; i < count; i++)
        EQ(items[i].status, i % CROWD_KINDS == BIDE_STATE_GONE ? BIDE_NOT_FOUND : BIDE_OK);
    CHECK(!topic_exists(queue, crowd->small));
    EQ(stats_of(queue).jobs.ready, CROWD_JOBS);
}

/* An id that nobody can have does not keep the others from being found. */
static void a_list_with_an_id_of_nobody_finds_the_others(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    bide_finish_item items[2 * CROWD_SPOTS];
    memset(items, 0, sizeof items);
    EACH_SPOT(spot)
    items[2 * spot + 1].id = crowd->ids[CROWD_SPOTS - 1 - spot][BIDE_STATE_READY];
    OK(bide_finish_many(queue, items, COUNT(items)));
    for (size_t i = 0; i < COUNT(items); i++)
        EQ(items[i].status, i % 2 == 0 ? BIDE_NOT_FOUND : BIDE_OK);
}

/* ---- calls that want everything ---- */

static void a_put_with_a_key_sees_the_holder(void)
{
    struct crowd *crowd = new_crowd();
    for (int spot = 0; spot < CROWD_SPOTS; spot++)
        for (int state = BIDE_STATE_DELAYED; state < CROWD_KINDS; state++) {
            bide *queue = open_crowd(crowd);
            bide_put_options options = BIDE_PUT_OPTIONS_INIT;
            uint64_t holder = 0;
            options.key = slice(crowd->keys[spot][state]);
            CODE(bide_put(queue, crowd->small, "x", 1, &options, &holder), BIDE_EXISTS);
            EQ(holder, crowd->ids[spot][state]);
            leave_queue(queue);
        }
    bide *queue = open_crowd(crowd);
    CROWD_IS_WHOLE(crowd, queue);
}

static void a_put_that_replaces_removes_what_is_not_loaded(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.conflict = BIDE_REPLACE;
    options.key = slice(crowd->keys[2][BIDE_STATE_BURIED]);
    uint64_t id = put_as(queue, crowd->small, "new", &options);
    CHECK(id > crowd->last_id);
    for (int round = 0; round < 2; round++) {
        EQ(state_of(queue, crowd->ids[2][BIDE_STATE_BURIED]), BIDE_STATE_GONE);
        EQ(topic_of(queue, crowd->small).jobs.buried, CROWD_SPOTS - 1);
        EQ(topic_of(queue, crowd->small).jobs.ready, 2 * CROWD_SPOTS + 1);
        queue = reopen_at_once(queue);
    }
}

static void figures_are_complete(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    bide_stats stats = stats_of(queue);
    EQ(stats.jobs.ready, CROWD_JOBS + 2 * CROWD_SPOTS);
    EQ(stats.jobs.done, CROWD_SPOTS);
    EQ(stats.topics, 2 + own_topics());
    EQ(stats.last_id, crowd->last_id);
    queue = reopen_at_once(queue);
    EQ(topic_of(queue, crowd->large).jobs.ready, CROWD_JOBS);
    queue = reopen_at_once(queue);
    bide_topic_stats topics[5];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    OK(bide_topics(queue, cursor, topics, COUNT(topics), &count));
    EQ(count, 2 + own_topics());
    uint64_t ready = 0;
    for (size_t i = 0; i < count; i++)
        ready += topics[i].jobs.ready;
    EQ(ready, CROWD_JOBS + 2 * CROWD_SPOTS);
    queue = reopen_at_once(queue);
    CROWD_IS_WHOLE(crowd, queue);
}

static void a_list_is_complete(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    static bide_job jobs[BIDE_BATCH_JOBS];
    static unsigned char seen[CROWD_JOBS + CROWD_SPOTS * CROWD_KINDS + 1];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0, listed = 0;
    uint64_t first = crowd->ids[0][BIDE_STATE_DELAYED];
    for (int page = 0; page < 1000; page++) {
        OK(bide_list(queue, NULL, BIDE_STATE_ANY, NULL, cursor, jobs, COUNT(jobs), &count));
        for (size_t i = 0; i < count; i++) {
            BETWEEN((int64_t)(jobs[i].id - first), 0, (int64_t)sizeof seen - 1);
            EQ(seen[jobs[i].id - first]++, 0);
        }
        clear_jobs(jobs, count);
        listed += count;
        if (cursor[0] == '\0')
            break;
    }
    EQ(listed, CROWD_JOBS + CROWD_SPOTS * (CROWD_KINDS - 1));
}

static void find_and_the_first_of_a_state_are_right(void)
{
    struct crowd *crowd = new_crowd();
    for (int state = BIDE_STATE_DELAYED; state < CROWD_KINDS; state++) {
        bide *queue = open_crowd(crowd);
        const char *key = crowd->keys[2][state];
        bide_job job = {0};
        OK(bide_find(queue, crowd->small, key, strlen(key), &job));
        EQ(job.id, crowd->ids[2][state]);
        bide_job_clear(&job);
        CODE(bide_find(queue, crowd->small, "no", 2, &job), BIDE_NOT_FOUND);
        if (state == BIDE_STATE_RESERVED) {
            CODE(bide_peek_first(queue, crowd->small, BIDE_STATE_RESERVED, &job), BIDE_NOT_FOUND);
        } else {
            OK(bide_peek_first(queue, crowd->small, (bide_state)state, &job));
            EQ(job.id, crowd->ids[0][state]);
            bide_job_clear(&job);
        }
        leave_queue(queue);
    }
}

static void kick_and_purge_take_all(void)
{
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    uint64_t count = 0;
    OK(bide_kick(queue, crowd->small, 100, &count));
    EQ(count, CROWD_SPOTS);
    queue = reopen_at_once(queue);
    OK(bide_kick(queue, crowd->small, 100, &count));
    EQ(count, CROWD_SPOTS);
    queue = reopen_at_once(queue);
    OK(bide_purge(queue, crowd->large, BIDE_STATE_READY, &count));
    EQ(count, CROWD_JOBS);
    queue = reopen_at_once(queue);
    OK(bide_purge(queue, crowd->small, BIDE_STATE_READY, &count));
    EQ(count, 4 * CROWD_SPOTS);
    EQ(stats_of(queue).jobs.ready, 0);
    EQ(stats_of(queue).jobs.done, CROWD_SPOTS);
}

/* ---- memory ---- */

static bide_phase phase_of(bide *queue)
{
    bide_recovery progress = {0};
    int code = bide_wait_recovered(queue, 0, &progress);
    CHECK(code == BIDE_OK || code == BIDE_TIMED_OUT);
    return progress.phase;
}

/* The jobs that are not loaded yet count for max_memory as soon as their number is known: otherwise
 * each restart of a full queue would let more jobs in. */
static void a_full_queue_is_full_while_it_is_loaded(void)
{
    char parameters[64];
    struct crowd *crowd = new_crowd();
    bide *queue = open_crowd(crowd);
    snprintf(parameters, sizeof parameters, "max_memory=%llu",
             (unsigned long long)stats_of(queue).memory_bytes);
    leave_queue(queue);

    queue = open_place(crowd->place, parameters);
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (phase_of(queue) == BIDE_PHASE_COUNTING && clock_us() < limit_us)
        continue;

    uint64_t id = 0;
    bide_phase phase;
    do {
        phase = phase_of(queue);
        CODE(bide_put(queue, crowd->large, "body", 4, NULL, &id), BIDE_EFULL);
    } while (phase != BIDE_PHASE_RECOVERED && clock_us() < limit_us);
    EQ(phase, BIDE_PHASE_RECOVERED);
    EQ(topic_of(queue, crowd->large).jobs.ready, CROWD_JOBS);
}

static const struct test tests[] = {
    TEST(a_look_by_id_finds_the_job_wherever_it_is),
    TEST(a_lease_is_good_wherever_its_job_is),
    TEST(a_body_result_or_end_can_be_asked_for_wherever_the_job_is),
    TEST(a_delete_cancel_or_done_finds_the_job_wherever_it_is),
    TEST(a_change_by_id_finds_the_job_wherever_it_is_and_stays),
    TEST(a_list_of_ids_finds_all_of_them),
    TEST(a_put_with_a_key_sees_the_holder),
    TEST(a_put_that_replaces_removes_what_is_not_loaded),
    TEST(figures_are_complete),
    TEST(a_list_with_an_id_of_nobody_finds_the_others),
    TEST(a_list_is_complete),
    TEST(find_and_the_first_of_a_state_are_right),
    TEST(kick_and_purge_take_all),
    TEST(a_full_queue_is_full_while_it_is_loaded),
};

const struct theme loading_theme = {"loading", tests, COUNT(tests)};
