/* SPDX-License-Identifier: MIT */
/* restart.c - what is put is there again, with all that belongs to it, when a queue is opened. */
#include "location.h"
#include "sample_queue.h"

#include <stdio.h>
#include <string.h>

/* A moment is stored on the wall clock; told on the boot-time clock it is rounded. */
#define SLACK_MS 1

/* Jobs as they were before the restart. */
struct memory {
    size_t count;
    bide_job jobs[64];
};

static void remember(struct memory *memory, bide *queue, uint64_t id)
{
    CHECK(memory->count < COUNT(memory->jobs));
    memory->jobs[memory->count++] = *peek_job(queue, id);
}

#define AS_BEFORE(memory, queue) as_before(HERE, (memory), (queue))
static void as_before(struct where at, const struct memory *memory, bide *queue)
{
    for (size_t i = 0; i < memory->count; i++)
        same_job(at, get_job_at(at, queue, memory->jobs[i].id, true), &memory->jobs[i], SLACK_MS);
    check_equal(at, (int64_t)memory->count > 0, 1, "whether there is something to compare");
}

/* Opens it again twice: what was loaded must be as good as what was put. */
#define COMES_BACK(memory, queue) comes_back(HERE, (memory), (queue))
static bide *comes_back(struct where at, const struct memory *memory, bide *queue)
{
    for (int i = 0; i < 2; i++) {
        queue = loaded_at(at, reopen_at(at, queue, ""));
        as_before(at, memory, queue);
    }
    return queue;
}

/* ---- what a put says ---- */

static void bodies_of_every_size_are_restored(void)
{
    static const size_t sizes[] = {0, 1, 511, 512, 513, 4095, 4096, 4097, 65534, 65535};
    static unsigned char body[65535];
    bide *queue = open_queue("");
    struct memory memory = {0};
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (unsigned char)(i * 7 + i / 256);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        uint64_t id = 0;
        OK(bide_put(queue, fresh_topic("a"), body, sizes[i], NULL, &id));
        remember(&memory, queue, id);
    }
    queue = COMES_BACK(&memory, queue);
    for (size_t i = 0; i < COUNT(sizes); i++) {
        const bide_job *job = take(queue, fresh_topic("a"));
        EQ(job->id, memory.jobs[i].id);
        EQ(job->body_size, sizes[i]);
        CHECK(job->body != NULL && memcmp(job->body, body, sizes[i]) == 0);
    }
}

static void largest_allowed_body_is_restored(void)
{
    static char body[4 << 20];
    bide *queue = open_queue("max_job_size=4MiB");
    for (size_t i = 0; i < sizeof body; i++)
        body[i] = (char)(i / 4096);
    uint64_t id = 0;
    OK(bide_put(queue, fresh_topic("a"), body, sizeof body, NULL, &id));
    /* A limit that is lower now does not keep what is there from being worked off. */
    queue = reopen(queue, "max_job_size=100");
    const bide_job *job = take(queue, fresh_topic("a"));
    EQ(job->id, id);
    EQ(job->body_size, sizeof body);
    CHECK(memcmp(job->body, body, sizeof body) == 0);
}

static void put_options_are_restored(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct memory memory = {0};
    bide_put_options options[] = {
        BIDE_PUT_OPTIONS_INIT, BIDE_PUT_OPTIONS_INIT, BIDE_PUT_OPTIONS_INIT, BIDE_PUT_OPTIONS_INIT,
        BIDE_PUT_OPTIONS_INIT, BIDE_PUT_OPTIONS_INIT, BIDE_PUT_OPTIONS_INIT, BIDE_PUT_OPTIONS_INIT};
    options[0].priority = 0;
    options[1].priority = UINT32_MAX;
    options[1].ttr_ms = 1;
    options[2].ttr_ms = BIDE_TIME_MAX_MS;
    options[2].max_retries = 0;
    options[3].delay_ms = 3600000;
    options[3].max_retries = INT32_MAX;
    options[3].backoff_base_ms = 77;
    options[3].backoff_max_ms = 7777;
    options[4].run_at_ms = wall_ms() + 7200000;
    options[4].key = (bide_slice){"\0key\xff", 5};
    options[5].run_at_ms = BIDE_TIMESTAMP_MAX_MS;
    options[5].expires_at_ms = BIDE_TIMESTAMP_MAX_MS;
    options[6].expires_at_ms = wall_ms() + 3600000;
    options[6].retain_ms = 1;
    options[7].retain_ms = BIDE_TIME_MAX_MS;
    options[7].key = slice("another key");
    options[7].key_hold_retained = true;
    for (size_t i = 0; i < COUNT(options); i++)
        remember(&memory, queue, put_as(queue, a, "body", &options[i]));
    COMES_BACK(&memory, queue);
}

static void names_of_every_length_and_character_are_restored(void)
{
    bide *queue = open_queue("");
    struct memory memory = {0};
    char topic[BIDE_TOPIC_MAX + 1], key[BIDE_KEY_MAX];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (size_t i = 0; i < sizeof key; i++)
        key[i] = (char)(i + 56);
    memset(topic, 'x', sizeof topic);
    topic[BIDE_TOPIC_MAX] = '\0';
    options.key = (bide_slice){key, sizeof key};
    remember(&memory, queue, put_as(queue, topic, "body", &options));
    options.key.size = 1;
    remember(&memory, queue, put_as(queue, "a", "body", &options));
    remember(&memory, queue, put(queue, "+/;.$_()-azAZ09", "body"));
    queue = COMES_BACK(&memory, queue);
    bide_job job = {0};
    OK(bide_find(queue, topic, key, sizeof key, &job));
    EQ(job.id, memory.jobs[0].id);
    bide_job_clear(&job);
    EQ(stats_of(queue).topics, 3 + initial_topics());
}

/* ---- what has become of a job ---- */

/* Every counter, and every moment, of a job that has been everywhere. */
static uint64_t put_old(bide *queue, const char *topic)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 9;
    options.ttr_ms = 3600000;
    options.retain_ms = 3600000;
    uint64_t id = put_as(queue, topic, "body", &options);
    OK(bide_release(queue, id, take_job(queue, id)->token, 7, 0));
    OK(bide_bury(queue, id, take_job(queue, id)->token, 8, "set aside"));
    OK(bide_kick_job(queue, id));
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    OK(bide_kick_job(queue, id));
    uint64_t token = take_job(queue, id)->token;
    OK(bide_touch(queue, id, token, 0, "half"));
    OK(bide_touch(queue, id, token, 0, NULL));
    OK(bide_fail(queue, id, token, "it broke", 0, NULL, NULL));
    return id;
}

static void jobs_in_every_state_are_restored_with_all_fields(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct memory memory = {0};
    uint64_t id = put_old(queue, a);
    remember(&memory, queue, id);
    id = put_old(queue, a);
    OK(bide_fail(queue, id, take_job(queue, id)->token, "again", 3600000, NULL, NULL));
    remember(&memory, queue, id);
    id = put_old(queue, a);
    OK(bide_bury(queue, id, take_job(queue, id)->token, 99, "for good"));
    remember(&memory, queue, id);
    id = put_old(queue, a);
    OK(bide_done(queue, id, take_job(queue, id)->token, "the result", 10, BIDE_KEEP));
    remember(&memory, queue, id);
    bide_counts jobs = stats_of(queue).jobs;
    queue = COMES_BACK(&memory, queue);
    bide_stats stats = stats_of(queue);
    CHECK(memcmp(&stats.jobs, &jobs, sizeof jobs) == 0);
    bide_topic_stats topic = topic_of(queue, a);
    CHECK(memcmp(&topic.jobs, &jobs, sizeof jobs) == 0);
}

static void expired_lease_is_still_counted(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 5;
    uint64_t id = put_as(queue, a, "body", &options);
    take(queue, a);
    UNTIL(state_of(queue, id) == BIDE_STATE_READY);
    queue = reopen(queue, "");
    EQ(stat_job(queue, id)->timeouts, 1);
    EQ(stat_job(queue, id)->reserves, 1);
    EQ(stat_job(queue, id)->state, BIDE_STATE_READY);
    bide_failure failure;
    EQ(bide_job_history(stat_job(queue, id), &failure, 1), 1);
    EQ(failure.kind, BIDE_FAILURE_TIMED_OUT);
    EQ(failure.attempt, 1);
}

static void extreme_numbers_and_texts_are_restored(void)
{
    bide *queue = open_queue("max_error_size=5000");
    struct memory memory = {0};
    static char text[5000];
    memset(text, 0xff, sizeof text);
    memcpy(text, "a\0b", 3);
    bide_job job = *peek_job(queue, put_old(queue, fresh_topic("a")));
    job.reserves = job.timeouts = job.releases = job.fails = UINT32_MAX;
    job.buries = job.kicks = job.touches = job.failures = UINT32_MAX;
    job.last_error = text;
    job.last_error_size = sizeof text;
    uint64_t id = 0;
    OK(bide_restore(queue, &job, &id));
    remember(&memory, queue, id);
    job.last_error_size = 3;
    job.priority = UINT32_MAX;
    OK(bide_restore(queue, &job, &id));
    remember(&memory, queue, id);
    EQ(memory.jobs[0].last_error_size, sizeof text);
    EQ(memory.jobs[0].kicks, UINT32_MAX);
    COMES_BACK(&memory, queue);
}

static void results_of_every_size_are_restored(void)
{
    static char large[64 << 10];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    struct memory memory = {0};
    uint64_t ids[4];
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put(queue, a, "body");
    memset(large, 0x80, sizeof large);
    OK(bide_done(queue, ids[0], 0, NULL, 0, 3600000));
    OK(bide_done(queue, ids[1], 0, "", 0, 3600000));
    OK(bide_done(queue, ids[2], 0, "\0", 1, 3600000));
    OK(bide_done(queue, ids[3], 0, large, sizeof large, 3600000));
    for (size_t i = 0; i < COUNT(ids); i++)
        remember(&memory, queue, ids[i]);
    queue = COMES_BACK(&memory, queue);
    for (size_t i = 0; i < COUNT(ids); i++) {
        bide_buf *result = NULL;
        bide_state state = BIDE_STATE_GONE;
        OK(bide_wait(queue, ids[i], 0, &state, &result));
        EQ(state, BIDE_STATE_DONE);
        CHECK((result == NULL) == (memory.jobs[i].result == NULL));
        EQ(bide_buf_size(result), memory.jobs[i].result_size);
        bide_buf_unref(result);
    }
}

static void administrative_changes_are_restored(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    struct memory memory = {0};
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = put_key(queue, a, "key");
    changes.priority = 3;
    changes.ttr_ms = 12345;
    changes.delay_ms = 3600000;
    changes.topic = slice(b);
    OK(bide_update(queue, &changes));
    remember(&memory, queue, changes.id);
    uint64_t second = put_later(queue, a, 3600000);
    OK(bide_kick_job(queue, second));
    remember(&memory, queue, second);
    queue = COMES_BACK(&memory, queue);
    EQ(topic_of(queue, b).jobs.delayed, 1);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("key");
    CODE(bide_put(queue, b, "x", 1, &options, NULL), BIDE_EXISTS);
    OK(bide_put(queue, a, "x", 1, &options, NULL));
}

/* ---- what is gone stays gone ---- */

static void ended_jobs_are_not_restored(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    uint64_t ids[6];
    ids[0] = put(queue, a, "body");
    OK(bide_delete(queue, ids[0], take_job(queue, ids[0])->token));
    ids[1] = put(queue, a, "body");
    OK(bide_delete(queue, ids[1], 0));
    ids[2] = put(queue, a, "body");
    OK(bide_cancel(queue, ids[2]));
    ids[3] = put(queue, a, "body");
    OK(bide_done(queue, ids[3], 0, "result", 6, 0));
    ids[4] = put_key(queue, a, "key");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("key");
    options.conflict = BIDE_REPLACE;
    uint64_t kept = put_as(queue, a, "new", &options);
    ids[5] = put(queue, b, "body");
    OK(bide_purge(queue, b, BIDE_STATE_READY, NULL));
    for (int round = 0; round < 3; round++) {
        queue = reopen(queue, "");
        for (size_t i = 0; i < COUNT(ids); i++)
            EQ(state_of(queue, ids[i]), BIDE_STATE_GONE);
        EQ(state_of(queue, kept), BIDE_STATE_READY);
        EQ(stats_of(queue).jobs.ready, 1);
        CHECK(!topic_exists(queue, b));
    }
}

static void topic_that_was_only_referenced_is_not_restored(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    OK(bide_topic_ref(queue, a, 1));
    OK(bide_topic_ref(queue, b, 1));
    put(queue, b, "body");
    queue = reopen(queue, "");
    CHECK(!topic_exists(queue, a));
    EQ(topic_of(queue, b).references, 0);
    CODE(bide_topic_ref(queue, b, -1), BIDE_EINVAL);
}

static void queue_counters_start_at_zero(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_counters none;
    put_old(queue, a);
    OK(bide_drain(queue, true));
    queue = reopen(queue, "");
    bide_stats stats = stats_of(queue);
    bide_topic_stats topic = topic_of(queue, a);
    CHECK(memcmp(&stats.total, &none, sizeof none) == 0);
    CHECK(memcmp(&topic.total, &none, sizeof none) == 0);
    CHECK(!stats.draining);
    put(queue, a, "body");
    EQ(topic_of(queue, a).total.puts, 1);
}

static const struct test tests[] = {
    TEST(bodies_of_every_size_are_restored),
    TEST(largest_allowed_body_is_restored),
    TEST(put_options_are_restored),
    TEST(names_of_every_length_and_character_are_restored),
    TEST(jobs_in_every_state_are_restored_with_all_fields),
    TEST(expired_lease_is_still_counted),
    TEST(extreme_numbers_and_texts_are_restored),
    TEST(results_of_every_size_are_restored),
    TEST(administrative_changes_are_restored),
    TEST(ended_jobs_are_not_restored),
    TEST(topic_that_was_only_referenced_is_not_restored),
    TEST(queue_counters_start_at_zero),
};

const struct theme restart_theme = {"restart", tests, COUNT(tests)};
