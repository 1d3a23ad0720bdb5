/* SPDX-License-Identifier: MIT */
/* peek.c - looking at one job: peek, peek_first, find, body, and the snapshot itself. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED,
                                    BIDE_STATE_BURIED, BIDE_STATE_DONE};

static void a_peek_shows_a_job_with_its_body_in_every_state(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    for (size_t i = 0; i < COUNT(states); i++) {
        const bide_job *job = peek_job(queue, put_in(queue, a, states[i]));
        EQ(job->state, states[i]);
        TEXT(job->body, job->body_size, "body");
        TEXT(job->topic, strlen(job->topic), a);
    }
    bide_job job = {0};
    CODE(bide_peek(queue, BIDE_ID_MAX, &job), BIDE_NOT_FOUND);
    EQ(job.id, 0);
}

static void job_stats_shows_a_job_without_its_body(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    for (size_t i = 0; i < COUNT(states); i++) {
        const bide_job *job = stat_job(queue, put_in(queue, a, states[i]));
        EQ(job->state, states[i]);
        CHECK(job->body == NULL);
        EQ(job->body_size, 4);
    }
    bide_job job = {0};
    CODE(bide_job_stats(queue, BIDE_ID_MAX, &job), BIDE_NOT_FOUND);
    EQ(job.id, 0);
}

static void queries_change_nothing(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    peek_job(queue, id);
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->reserves, 0);
    EQ(topic_of(queue, a).total.reserves, 0);
    EQ(take(queue, a)->id, id);
}

static void a_snapshot_stays_valid_when_the_job_is_gone(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "the key");
    OK(bide_fail(queue, id, take(queue, a)->token, "the error", 0, NULL, NULL));
    bide_job job = {0};
    OK(bide_peek(queue, id, &job));
    OK(bide_delete(queue, id, 0));
    close_queue(queue);
    TEXT(job.body, job.body_size, "body");
    TEXT(job.key, job.key_size, "the key");
    TEXT(job.last_error, job.last_error_size, "the error");
    bide_job_clear(&job);
    CHECK(job.id == 0 && job.state == BIDE_STATE_GONE && job.topic[0] == '\0');
    CHECK(job.body == NULL && job.key == NULL && job.last_error == NULL);
    bide_job_clear(&job);
    CHECK(job.body == NULL);
}

/* The first job in a state is this one. */
#define FIRST(queue, topic, state, want) first_is(HERE, queue, topic, state, want)
static void first_is(struct where at, bide *queue, const char *topic, bide_state state,
                     uint64_t want)
{
    bide_job job = {0};
    check_code(at, bide_peek_first(queue, topic, state, &job), BIDE_OK, "bide_peek_first()");
    check_equal(at, (int64_t)job.id, (int64_t)want, "the first job");
    check_equal(at, job.state, state, "its state");
    check_text(at, job.body, job.body_size, "body", "its body");
    check_equal(at, (int64_t)job.token, 0, "its token");
    bide_job_clear(&job);
}

static void the_first_ready_job_is_the_next_to_be_reserved(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put_first(queue, a, 9);
    uint64_t best = put_first(queue, a, 1);
    put_first(queue, a, 1);
    FIRST(queue, a, BIDE_STATE_READY, best);
    EQ(take(queue, a)->id, best);
}

static void the_first_delayed_job_is_the_soonest(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    put_later(queue, a, 3600000);
    uint64_t soonest = put_later(queue, a, 1800000);
    FIRST(queue, a, BIDE_STATE_DELAYED, soonest);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 900000;
    soonest = put_as(queue, a, "body", &options);
    FIRST(queue, a, BIDE_STATE_DELAYED, soonest);
}

static void first_reserved_job_has_the_oldest_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3600000;
    uint64_t first = put_in_as(queue, a, BIDE_STATE_RESERVED, &options);
    options.ttr_ms = 1800000;
    put_in_as(queue, a, BIDE_STATE_RESERVED, &options);
    options.ttr_ms = 7200000;
    put_in_as(queue, a, BIDE_STATE_RESERVED, &options);
    FIRST(queue, a, BIDE_STATE_RESERVED, first);
}

static void the_first_buried_or_done_job_is_the_oldest(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t one = put(queue, a, "body"), two = put(queue, a, "body");
    uint64_t three = put(queue, a, "body"), four = put(queue, a, "body");
    OK(bide_bury(queue, two, 0, BIDE_KEEP, NULL));
    OK(bide_bury(queue, one, 0, BIDE_KEEP, NULL));
    OK(bide_done(queue, four, 0, NULL, 0, 7200000));
    OK(bide_done(queue, three, 0, NULL, 0, 3600000));
    FIRST(queue, a, BIDE_STATE_BURIED, two);
    FIRST(queue, a, BIDE_STATE_DONE, four);
}

static void a_state_without_jobs_has_no_first_one(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_job job = {0};
    for (size_t i = 0; i < COUNT(states); i++)
        CODE(bide_peek_first(queue, a, states[i], &job), BIDE_NOT_FOUND);
    put(queue, a, "body");
    CODE(bide_peek_first(queue, a, BIDE_STATE_BURIED, &job), BIDE_NOT_FOUND);
    EQ(job.id, 0);
}

static void find_shows_the_holder_of_a_key(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key_hold_retained = true;
    for (size_t i = 0; i < COUNT(states); i++) {
        char key[16];
        int size = snprintf(key, sizeof key, "key %zu", i);
        options.key = (bide_slice){key, (size_t)size};
        uint64_t id = put_in_as(queue, a, states[i], &options);
        bide_job job = {0};
        OK(bide_find(queue, a, key, (size_t)size, &job));
        EQ(job.id, id);
        EQ(job.state, states[i]);
        EQ(job.token, 0);
        TEXT(job.key, job.key_size, key);
        TEXT(job.body, job.body_size, "body");
        bide_job_clear(&job);
    }
    bide_job job = {0};
    CODE(bide_find(queue, a, "nobody", 6, &job), BIDE_NOT_FOUND);
    CODE(bide_find(queue, fresh_topic("b"), "key 0", 5, &job), BIDE_NOT_FOUND);
    EQ(job.id, 0);
}

static void a_body_can_be_fetched_alone_and_outlives_its_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        bide_buf *body = NULL;
        OK(bide_body(queue, id, &body));
        OK(bide_cancel(queue, id));
        TEXT(bide_buf_data(body), bide_buf_size(body), "body");
        bide_buf_unref(body);
    }
    bide_buf *body = NULL;
    CODE(bide_body(queue, BIDE_ID_MAX, &body), BIDE_NOT_FOUND);
    CHECK(body == NULL);
}

static void a_buffer_lives_as_long_as_its_references(void)
{
    bide_buf *buf = bide_buf_new("bytes\0more", 10);
    CHECK(buf != NULL);
    EQ(bide_buf_size(buf), 10);
    CHECK(memcmp(bide_buf_data(buf), "bytes\0more", 11) == 0);
    CHECK(bide_buf_ref(buf) == buf);
    bide_buf_unref(buf);
    EQ(bide_buf_size(buf), 10);
    bide_buf_unref(buf);
    bide_buf_unref(NULL);
    buf = bide_buf_new(NULL, 0);
    CHECK(buf != NULL);
    EQ(bide_buf_size(buf), 0);
    EQ(*(const char *)bide_buf_data(buf), 0);
    bide_buf_unref(buf);
}

static void everything_has_a_name(void)
{
    TEXT(bide_version(), strlen(bide_version()), BIDE_VERSION);
    TEXT(bide_code_name(BIDE_LEASE_LOST), 15, "BIDE_LEASE_LOST");
    TEXT(bide_code_name(BIDE_OK), 7, "BIDE_OK");
    TEXT(bide_code_name(BIDE_ESYSTEM), 12, "BIDE_ESYSTEM");
    TEXT(bide_code_name(12345), strlen(bide_code_name(12345)), "BIDE_?");
    TEXT(bide_code_name(INT32_MIN), strlen(bide_code_name(INT32_MIN)), "BIDE_?");
    CHECK(strlen(bide_code_text(BIDE_NOT_FOUND)) > 0 && bide_code_text(12345) != NULL);
    static const char *const state_names[] = {"gone",     "delayed", "ready",
                                              "reserved", "buried",  "done"};
    for (int i = 0; i < 6; i++)
        EQ(strcmp(bide_state_name((bide_state)i), state_names[i]), 0);
    EQ(strcmp(bide_state_name((bide_state)6), "?"), 0);
    EQ(strcmp(bide_event_name(BIDE_EVENT_PUT), "put"), 0);
    for (int i = 0; i < BIDE_EVENT_KINDS; i++)
        CHECK(strcmp(bide_event_name((bide_event_kind)i), "?") != 0);
    EQ(strcmp(bide_event_name((bide_event_kind)BIDE_EVENT_KINDS), "?"), 0);
    EQ(strcmp(bide_op_name(BIDE_OP_PUT), "put"), 0);
    for (int i = 1; i < BIDE_OP_COUNT; i++)
        CHECK(strcmp(bide_op_name((bide_op_kind)i), "?") != 0);
    EQ(strcmp(bide_op_name(BIDE_OP_COUNT), "?"), 0);
}

static const struct test tests[] = {
    TEST(a_peek_shows_a_job_with_its_body_in_every_state),
    TEST(job_stats_shows_a_job_without_its_body),
    TEST(queries_change_nothing),
    TEST(a_snapshot_stays_valid_when_the_job_is_gone),
    TEST(the_first_ready_job_is_the_next_to_be_reserved),
    TEST(the_first_delayed_job_is_the_soonest),
    TEST(first_reserved_job_has_the_oldest_lease),
    TEST(the_first_buried_or_done_job_is_the_oldest),
    TEST(a_state_without_jobs_has_no_first_one),
    TEST(find_shows_the_holder_of_a_key),
    TEST(a_body_can_be_fetched_alone_and_outlives_its_job),
    TEST(a_buffer_lives_as_long_as_its_references),
    TEST(everything_has_a_name),
};

const struct theme peek_theme = {"peek", tests, COUNT(tests)};
