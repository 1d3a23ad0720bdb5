/* SPDX-License-Identifier: MIT */
/*
 * schema.c - a file of each schema version is opened, and every job in it is what it was.
 */
#include "fault.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Where the scripts lie; the build says it. */
#ifndef FAULT_SOURCES
#define FAULT_SOURCES "tests/fault"
#endif

/* Builds the file jobs.db from a script. */
static void build(const char *script)
{
    char path[500];
    snprintf(path, sizeof path, "%s/%s", FAULT_SOURCES, script);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        FAIL("the script %s cannot be read", path);
    static char sql[100000];
    size_t size = fread(sql, 1, sizeof(sql) - 1, file);
    fclose(file);
    sql[size] = 0;
    SQL(test_path("jobs.db"), "%s", sql);
}

/* A job as it must come back. Zero is zero, and NULL is nothing. */
struct expected {
    uint64_t id;
    const char *topic;
    bide_state state;
    uint32_t priority;
    const char *body; /* NULL: of so many 'x' */
    size_t body_size;
    const char *key, *result, *last_error;
    int32_t max_retries;
    uint32_t failures, reserves, timeouts, releases, fails, buries, kicks, touches;
};

#define ANY_ERROR "*"

static void check_bytes(uint64_t id, const char *what, const void *data, size_t size,
                        const char *want)
{
    if (want != NULL && strcmp(want, ANY_ERROR) == 0 && size > 0)
        return;
    size_t want_size = want == NULL ? 0 : strlen(want);
    if ((data == NULL) != (want == NULL) || size != want_size ||
        (size > 0 && memcmp(data, want, size) != 0))
        FAIL("job %llu: expected the %s \"%s\", got \"%.*s\"", (unsigned long long)id, what,
             want == NULL ? "(none)" : want, data == NULL ? 0 : (int)size,
             data == NULL ? "" : (const char *)data);
}

static void check_body(const struct expected *want, const bide_job *job)
{
    const char *body = job->body;
    EQ(job->body_size, want->body_size);
    if (want->body != NULL && want->body_size > 0)
        TEXT(job->body, job->body_size, want->body);
    for (size_t i = 0; want->body == NULL && i < want->body_size; i++)
        CHECK(body[i] == 'x');
}

static void check_counters(const struct expected *want, const bide_job *job)
{
    EQ(job->max_retries, want->max_retries);
    EQ(job->failures, want->failures);
    EQ(job->reserves, want->reserves);
    EQ(job->timeouts, want->timeouts);
    EQ(job->releases, want->releases);
    EQ(job->fails, want->fails);
    EQ(job->buries, want->buries);
    EQ(job->kicks, want->kicks);
    EQ(job->touches, want->touches);
}

static void check_job(bide *queue, const struct expected *want)
{
    bide_job job;
    OK(bide_peek(queue, want->id, &job));
    if (job.state != want->state)
        FAIL("job %llu is %s", (unsigned long long)want->id, bide_state_name(job.state));
    TEXT(job.topic, strlen(job.topic), want->topic);
    EQ(job.priority, want->priority);
    EQ(job.ttr_ms, 60000);
    check_body(want, &job);
    check_bytes(want->id, "key", job.key, job.key_size, want->key);
    check_bytes(want->id, "result", job.result, job.result_size, want->result);
    check_bytes(want->id, "last error", job.last_error, job.last_error_size, want->last_error);
    check_counters(want, &job);
    bide_job_clear(&job);
}

/* ---- version 1 ---- */

#define DELAYED BIDE_STATE_DELAYED
#define READY   BIDE_STATE_READY
#define BURIED  BIDE_STATE_BURIED
#define CREATED INT64_C(1700000000000)
#define LATER   INT64_C(6942672000000)

static const struct expected jobs_of_1[] = {
    {1, "work", READY, 1024, "plain body", 10, .max_retries = -1},
    {2, "work", READY, 0, "", 0, .max_retries = -1},
    {3, "work", READY, 5, NULL, 512, .max_retries = -1},
    {4, "work", READY, 4294967295, NULL, 513, .max_retries = -1},
    {5, "work", DELAYED, 7, NULL, 5000, .max_retries = -1},
    {6, "work", DELAYED, 8, "absolute", 8, .max_retries = -1},
    {7, "keys", READY, 1024, "keyed", 5, "the key", .max_retries = 0},
    {8, "aside", BURIED, 1024, "buried first", 12, .last_error = "first", .max_retries = -1,
     .buries = 3, .kicks = 2},
    {9, "aside", BURIED, 1024, "buried second", 13, .last_error = "second", .max_retries = -1,
     .buries = 1},
    {11, "results", BIDE_STATE_DONE, 1024, "done", 4, "kept", "the result", .max_retries = -1,
     .reserves = 1},
    /* The process ended while the job was reserved, and it may not fail. */
    {12, "limited", BURIED, 1024, "started", 7, .last_error = ANY_ERROR, .failures = 1,
     .reserves = 1, .timeouts = 1, .buries = 1},
    {13, "limited", DELAYED, 1024, "retried", 7, .last_error = "went wrong", .max_retries = 5,
     .failures = 2, .reserves = 2, .timeouts = 1, .fails = 1},
    {15, "work", READY, 1024, "expiring", 8, .max_retries = -1},
    {16, "paused", READY, 1024, "last", 4, .max_retries = -1},
    {17, "work", READY, 9, NULL, 600, .max_retries = -1, .releases = 4, .touches = 2},
};

static void check_moments(bide *queue)
{
    bide_job job;
    OK(bide_job_stats(queue, 6, &job));
    EQ(job.run_at_ms, LATER);
    CHECK(job.run_at_wall);
    bide_job_clear(&job);
    OK(bide_job_stats(queue, 15, &job));
    EQ(job.expires_at_ms, LATER);
    /* Kept on the boot-time clock: the distance of the two clocks differs by microseconds each
     * time. */
    CHECK(job.created_ms >= CREATED - 1 && job.created_ms <= CREATED);
    bide_job_clear(&job);
    OK(bide_job_stats(queue, 13, &job));
    EQ(job.backoff_base_ms, 1000);
    EQ(job.backoff_max_ms, 60000);
    bide_job_clear(&job);
}

/* A cancelled job goes; the key of a kept result is held; the burials are in their order. */
static void check_rules(bide *queue)
{
    bide_job job;
    bide_topic_stats stats;
    EQ(bide_job_stats(queue, 14, &job), BIDE_NOT_FOUND);
    OK(bide_find(queue, "results", "kept", 4, &job));
    EQ(job.id, 11);
    bide_job_clear(&job);
    OK(bide_peek_first(queue, "aside", BURIED, &job));
    EQ(job.id, 8);
    bide_job_clear(&job);
    OK(bide_topic_get_stats(queue, "paused", &stats));
    CHECK(stats.paused);
    EQ(bide_topic_get_stats(queue, "past", &stats), BIDE_NOT_FOUND);
}

static void check_numbers(bide *queue)
{
    uint64_t id = 0;
    bide_job job;
    OK(bide_put(queue, "new", "body", 4, NULL, &id));
    EQ(id, 10017);
    OK(bide_reserve(queue, "new", 0, &job));
    CHECK(job.token >= 777000);
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
}

static void check_all(bide *queue)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready + stats.jobs.delayed + stats.jobs.buried + stats.jobs.done,
       COUNT(jobs_of_1));
    for (size_t i = 0; i < COUNT(jobs_of_1); i++)
        check_job(queue, &jobs_of_1[i]);
    check_moments(queue);
    check_rules(queue);
}

static void a_file_of_version_1_has_every_job(void)
{
    bide_recovery recovery = {.failed = 9};
    build("schema-1.sql");
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    EQ(recovery.failed, 0);
    check_all(queue);
    check_numbers(queue);
    OK(bide_close(queue));
    queue = open_jobs("");
    check_all(queue);
    OK(bide_close(queue));
}

/* ---- version 2 ---- */

static void check_lease(bide *queue, uint64_t id, int64_t most_ms)
{
    bide_job job;
    OK(bide_job_stats(queue, id, &job));
    EQ(job.state, BIDE_STATE_RESERVED);
    EQ(job.failures, 0);
    EQ(job.reserves, 1);
    CHECK(job.left_ms > 0 && job.left_ms <= most_ms);
    bide_job_clear(&job);
}

/* A process that is no server does not end the leases of a server's clients by its close. */
static void a_file_of_version_2_has_every_lease(void)
{
    bide_recovery recovery = {.failed = 9};
    bide_job job;
    build("schema-2.sql");
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    EQ(recovery.failed, 0);
    for (int round = 0; round < 3; round++) {
        check_lease(queue, 1, 3600000);
        check_lease(queue, 12, 1800000);
        check_lease(queue, 14, 1800000);
        OK(bide_peek_first(queue, "work", BIDE_STATE_RESERVED, &job));
        EQ(job.id, 14); /* the smallest token */
        bide_job_clear(&job);
        EQ(bide_touch(queue, 2, 600001, 0, NULL), BIDE_LEASE_LOST);
        OK(bide_reserve(queue, "work", 0, &job)); /* this one ends with the process */
        EQ(job.id, 2);
        bide_job_clear(&job);
        OK(bide_close(queue));
        queue = open_jobs("");
    }
    EQ(bide_touch(queue, 14, 700001, 0, NULL), BIDE_CANCEL_WANTED);
    OK(bide_release(queue, 14, 700001, BIDE_KEEP, 0));
    EQ(bide_job_stats(queue, 14, &job), BIDE_NOT_FOUND);
    OK(bide_delete(queue, 1, 700005));
    OK(bide_delete(queue, 12, 700003));
    OK(bide_close(queue));
}

/* ---- version 3 ---- */

static void check_failure(const bide_failure *failure, bide_failure_kind kind, uint32_t attempt,
                          int64_t at_ms, const char *error)
{
    EQ(failure->kind, kind);
    EQ(failure->attempt, attempt);
    EQ(failure->at_ms, at_ms);
    TEXT(failure->error.data, failure->error.size, error);
}

static void check_histories(bide *queue)
{
    bide_failure failures[BIDE_HISTORY_MAX];
    bide_job job;
    OK(bide_job_stats(queue, 1, &job));
    CHECK(job.history == NULL);
    bide_job_clear(&job);
    OK(bide_job_stats(queue, 12, &job));
    EQ(bide_job_history(&job, failures, BIDE_HISTORY_MAX), 1);
    check_failure(&failures[0], BIDE_FAILURE_RESTARTED, 1, CREATED + 400,
                  "the queue was restarted while the job was reserved");
    bide_job_clear(&job);
    OK(bide_job_stats(queue, 14, &job));
    EQ(bide_job_history(&job, failures, BIDE_HISTORY_MAX), 3);
    check_failure(&failures[0], BIDE_FAILURE_FAILED, 1, CREATED + 100, "broke");
    check_failure(&failures[1], BIDE_FAILURE_TIMED_OUT, 2, CREATED + 200, "ttr ran out");
    check_failure(&failures[2], BIDE_FAILURE_BURIED, 3, CREATED + 300, "");
    TEXT(failures[2].holder.data, failures[2].holder.size, "worker-7");
    bide_job_clear(&job);
}

static void a_file_of_version_3_has_every_history(void)
{
    bide_recovery recovery = {.failed = 9};
    build("schema-3.sql");
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    EQ(recovery.failed, 0);
    check_histories(queue);
    OK(bide_kick_job(queue, 14));
    OK(bide_close(queue));
    queue = open_jobs("");
    check_histories(queue);
    OK(bide_close(queue));
}

/* ---- version 4 ---- */

static void check_policies(bide *queue)
{
    bide_topic_policy policy;
    bide_topic_stats stats;
    OK(bide_topic_get(queue, "work", &policy, NULL));
    EQ(policy.ttr_ms, 1000);
    EQ(policy.max_retries, 3);
    EQ(policy.backoff_base_ms, 11);
    EQ(policy.backoff_max_ms, 22);
    EQ(policy.retain_ms, 33);
    EQ(policy.expires_in_ms, 44);
    EQ(policy.max_jobs, 55);
    EQ(policy.concurrency, 66);
    EQ(policy.rate, 77);
    EQ(policy.rate_period_ms, 88);
    EQ(policy.rate_burst, 99);
    OK(bide_topic_get(queue, "none", &policy, NULL));
    EQ(policy.max_retries, BIDE_UNLIMITED);
    EQ(policy.ttr_ms, 0);
    EQ(bide_topic_get_stats(queue, "invalid", &stats), BIDE_NOT_FOUND);
}

static void a_file_of_version_4_has_every_policy(void)
{
    bide_recovery recovery = {.failed = 9};
    build("schema-4.sql");
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    EQ(recovery.failed, 0);
    check_policies(queue);
    OK(bide_close(queue));
    queue = open_jobs("");
    check_policies(queue);
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(a_file_of_version_1_has_every_job),
    TEST(a_file_of_version_2_has_every_lease),
    TEST(a_file_of_version_3_has_every_history),
    TEST(a_file_of_version_4_has_every_policy),
};
const struct theme schema_theme = {"schema", tests, COUNT(tests)};
