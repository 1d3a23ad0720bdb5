/* SPDX-License-Identifier: MIT */
/* loading.c - calls on a queue that has just been opened, and has not loaded everything yet. */
#include "backlog.h"

#include <stdio.h>
#include <string.h>

/* The last spot first: it is loaded last. */
#define EACH_SPOT(spot) for (int spot = BACKLOG_SPOTS - 1; spot >= 0; spot--)

/* ---- calls that name an id ---- */

static void query_by_id_finds_loaded_and_unloaded_jobs(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = backlog->ids[spot];
        for (int state = BIDE_STATE_DELAYED; state < BACKLOG_KINDS; state++) {
            const bide_job *job = stat_job(queue, ids[state]);
            EQ(job->state, backlog_state((bide_state)state));
            job = peek_job(queue, ids[state]);
            TEXT(job->body, job->body_size, "body");
            TEXT(job->key, job->key_size, backlog->keys[spot][state]);
        }
        bide_job job = {0};
        CODE(bide_peek(queue, ids[BIDE_STATE_GONE], &job), BIDE_NOT_FOUND);
        CODE(bide_job_stats(queue, backlog->last_id + 1, &job), BIDE_NOT_FOUND);
    }
    BACKLOG_IS_WHOLE(backlog, queue);
}

/* Leases outlive the restart of a server, and are good before everything is loaded. */
static void lease_is_valid_for_loaded_and_unloaded_jobs(void)
{
    static char location[LOCATION_SIZE];
    if (is_in_process())
        return;
    bide *queue = open_location(new_location(location, sizeof location), "");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t ids[3], tokens[3];
    for (size_t i = 0; i < COUNT(ids); i++) {
        put_lots(queue, b, BACKLOG_JOBS / COUNT(ids), NULL, NULL);
        ids[i] = put(queue, a, "body");
        tokens[i] = take(queue, a)->token;
    }
    for (int round = 0; round < 2; round++) {
        start_location_server(location);
        for (size_t i = COUNT(ids); i-- > 0;) {
            CODE(bide_delete(queue, ids[i], 0), BIDE_RESERVED);
            CODE(bide_touch(queue, ids[i], tokens[i] + 1, 0, NULL), BIDE_LEASE_LOST);
            OK(bide_touch(queue, ids[i], tokens[i], 0, NULL));
        }
    }
    start_location_server(location);
    for (size_t i = COUNT(ids); i-- > 0;)
        OK(bide_delete(queue, ids[i], tokens[i]));
    EQ(stats_of(queue).jobs.reserved, 0);
    EQ(topic_of(queue, b).jobs.ready, BACKLOG_JOBS / COUNT(ids) * COUNT(ids));
}

static void body_result_and_wait_find_loaded_and_unloaded_jobs(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = backlog->ids[spot];
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
    BACKLOG_IS_WHOLE(backlog, queue);
}

static void delete_cancel_and_done_find_loaded_and_unloaded_jobs(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = backlog->ids[spot];
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
        bide_counts jobs = topic_of(queue, backlog->small).jobs;
        EQ(jobs.ready, BACKLOG_SPOTS);
        EQ(jobs.delayed, 0);
        EQ(jobs.buried, 0);
        EQ(jobs.done, BACKLOG_SPOTS);
        EQ(topic_of(queue, backlog->large).jobs.ready, BACKLOG_JOBS);
        queue = reopen_at_once(queue);
    }
}

static void changes_by_id_find_loaded_and_unloaded_jobs(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = backlog->ids[spot];
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
    EQ(topic_of(queue, backlog->large).jobs.ready, BACKLOG_JOBS);
    EQ(topic_of(queue, backlog->small).jobs.reserved, BACKLOG_SPOTS);
    EACH_SPOT(spot)
    {
        const uint64_t *ids = backlog->ids[spot];
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
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    bide_finish_item items[BACKLOG_SPOTS * BACKLOG_KINDS];
    bide_touch_item touches[BACKLOG_SPOTS];
    size_t count = 0;
    EACH_SPOT(spot)
    {
        touches[spot] = (bide_touch_item){.id = backlog->ids[spot][BIDE_STATE_READY], .token = 77};
        for (int state = 0; state < BACKLOG_KINDS; state++)
            items[count++] = (bide_finish_item){.id = backlog->ids[spot][state]};
    }
    OK(bide_touch_many(queue, touches, COUNT(touches)));
    for (size_t i = 0; i < COUNT(touches); i++)
        EQ(touches[i].status, BIDE_LEASE_LOST);
    OK(bide_finish_many(queue, items, count));
    for (size_t i = 0; i < count; i++)
        EQ(items[i].status, i % BACKLOG_KINDS == BIDE_STATE_GONE ? BIDE_NOT_FOUND : BIDE_OK);
    CHECK(!topic_exists(queue, backlog->small));
    EQ(stats_of(queue).jobs.ready, BACKLOG_JOBS);
}

/* An impossible id does not prevent the others from being found. */
static void list_with_an_unknown_id_finds_the_others(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    bide_finish_item items[2 * BACKLOG_SPOTS];
    memset(items, 0, sizeof items);
    EACH_SPOT(spot)
    items[2 * spot + 1].id = backlog->ids[BACKLOG_SPOTS - 1 - spot][BIDE_STATE_READY];
    OK(bide_finish_many(queue, items, COUNT(items)));
    for (size_t i = 0; i < COUNT(items); i++)
        EQ(items[i].status, i % 2 == 0 ? BIDE_NOT_FOUND : BIDE_OK);
}

/* ---- calls that want everything ---- */

static void a_put_with_a_key_sees_the_holder(void)
{
    struct backlog *backlog = new_backlog();
    for (int spot = 0; spot < BACKLOG_SPOTS; spot++)
        for (int state = BIDE_STATE_DELAYED; state < BACKLOG_KINDS; state++) {
            bide *queue = open_backlog(backlog);
            bide_put_options options = BIDE_PUT_OPTIONS_INIT;
            uint64_t holder = 0;
            options.key = slice(backlog->keys[spot][state]);
            CODE(bide_put(queue, backlog->small, "x", 1, &options, &holder), BIDE_EXISTS);
            EQ(holder, backlog->ids[spot][state]);
            leave_queue(queue);
        }
    bide *queue = open_backlog(backlog);
    BACKLOG_IS_WHOLE(backlog, queue);
}

static void replace_removes_an_unloaded_job(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.conflict = BIDE_REPLACE;
    options.key = slice(backlog->keys[2][BIDE_STATE_BURIED]);
    uint64_t id = put_as(queue, backlog->small, "new", &options);
    CHECK(id > backlog->last_id);
    for (int round = 0; round < 2; round++) {
        EQ(state_of(queue, backlog->ids[2][BIDE_STATE_BURIED]), BIDE_STATE_GONE);
        EQ(topic_of(queue, backlog->small).jobs.buried, BACKLOG_SPOTS - 1);
        EQ(topic_of(queue, backlog->small).jobs.ready, 2 * BACKLOG_SPOTS + 1);
        queue = reopen_at_once(queue);
    }
}

static void stats_are_complete(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    bide_stats stats = stats_of(queue);
    EQ(stats.jobs.ready, BACKLOG_JOBS + 2 * BACKLOG_SPOTS);
    EQ(stats.jobs.done, BACKLOG_SPOTS);
    EQ(stats.topics, 2 + initial_topics());
    EQ(stats.last_id, backlog->last_id);
    queue = reopen_at_once(queue);
    EQ(topic_of(queue, backlog->large).jobs.ready, BACKLOG_JOBS);
    queue = reopen_at_once(queue);
    bide_topic_stats topics[5];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    OK(bide_topics(queue, cursor, topics, COUNT(topics), &count));
    EQ(count, 2 + initial_topics());
    uint64_t ready = 0;
    for (size_t i = 0; i < count; i++)
        ready += topics[i].jobs.ready;
    EQ(ready, BACKLOG_JOBS + 2 * BACKLOG_SPOTS);
    queue = reopen_at_once(queue);
    BACKLOG_IS_WHOLE(backlog, queue);
}

static void a_list_is_complete(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    static bide_job jobs[BIDE_BATCH_JOBS];
    static unsigned char seen[BACKLOG_JOBS + BACKLOG_SPOTS * BACKLOG_KINDS + 1];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0, listed = 0;
    uint64_t first = backlog->ids[0][BIDE_STATE_DELAYED];
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
    EQ(listed, BACKLOG_JOBS + BACKLOG_SPOTS * (BACKLOG_KINDS - 1));
}

static void find_and_peek_first_are_correct(void)
{
    struct backlog *backlog = new_backlog();
    for (int state = BIDE_STATE_DELAYED; state < BACKLOG_KINDS; state++) {
        bide *queue = open_backlog(backlog);
        const char *key = backlog->keys[2][state];
        bide_job job = {0};
        OK(bide_find(queue, backlog->small, key, strlen(key), &job));
        EQ(job.id, backlog->ids[2][state]);
        bide_job_clear(&job);
        CODE(bide_find(queue, backlog->small, "no", 2, &job), BIDE_NOT_FOUND);
        if (state == BIDE_STATE_RESERVED) {
            CODE(bide_peek_first(queue, backlog->small, BIDE_STATE_RESERVED, &job), BIDE_NOT_FOUND);
        } else {
            OK(bide_peek_first(queue, backlog->small, (bide_state)state, &job));
            EQ(job.id, backlog->ids[0][state]);
            bide_job_clear(&job);
        }
        leave_queue(queue);
    }
}

static void kick_and_purge_take_all_jobs(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    uint64_t count = 0;
    OK(bide_kick(queue, backlog->small, 100, &count));
    EQ(count, BACKLOG_SPOTS);
    queue = reopen_at_once(queue);
    OK(bide_kick(queue, backlog->small, 100, &count));
    EQ(count, BACKLOG_SPOTS);
    queue = reopen_at_once(queue);
    OK(bide_purge(queue, backlog->large, BIDE_STATE_READY, &count));
    EQ(count, BACKLOG_JOBS);
    queue = reopen_at_once(queue);
    OK(bide_purge(queue, backlog->small, BIDE_STATE_READY, &count));
    EQ(count, 4 * BACKLOG_SPOTS);
    EQ(stats_of(queue).jobs.ready, 0);
    EQ(stats_of(queue).jobs.done, BACKLOG_SPOTS);
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
static void full_queue_rejects_puts_while_loading(void)
{
    char parameters[64];
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    snprintf(parameters, sizeof parameters, "max_memory=%llu",
             (unsigned long long)stats_of(queue).memory_bytes);
    leave_queue(queue);

    queue = open_location(backlog->location, parameters);
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (phase_of(queue) == BIDE_PHASE_COUNTING && clock_us() < limit_us)
        continue;

    uint64_t id = 0;
    bide_phase phase;
    do {
        phase = phase_of(queue);
        CODE(bide_put(queue, backlog->large, "body", 4, NULL, &id), BIDE_EFULL);
    } while (phase != BIDE_PHASE_RECOVERED && clock_us() < limit_us);
    EQ(phase, BIDE_PHASE_RECOVERED);
    EQ(topic_of(queue, backlog->large).jobs.ready, BACKLOG_JOBS);
}

static const struct test tests[] = {
    TEST(query_by_id_finds_loaded_and_unloaded_jobs),
    TEST(lease_is_valid_for_loaded_and_unloaded_jobs),
    TEST(body_result_and_wait_find_loaded_and_unloaded_jobs),
    TEST(delete_cancel_and_done_find_loaded_and_unloaded_jobs),
    TEST(changes_by_id_find_loaded_and_unloaded_jobs),
    TEST(a_list_of_ids_finds_all_of_them),
    TEST(a_put_with_a_key_sees_the_holder),
    TEST(replace_removes_an_unloaded_job),
    TEST(stats_are_complete),
    TEST(list_with_an_unknown_id_finds_the_others),
    TEST(a_list_is_complete),
    TEST(find_and_peek_first_are_correct),
    TEST(kick_and_purge_take_all_jobs),
    TEST(full_queue_rejects_puts_while_loading),
};

const struct theme loading_theme = {"loading", tests, COUNT(tests)};
