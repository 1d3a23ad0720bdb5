/* SPDX-License-Identifier: MIT */
/*
 * damaged_rows.c - rows that make no sense.
 *
 * A file of a few jobs is spoiled with SQL while it is closed. A row that cannot be a job is
 * counted, set aside and told; the others come back as they were.
 */
#include "snapshot.h"

#include <stdio.h>
#include <string.h>

#define JOBS 10

/* Makes jobs 1 to 10, of which every other has a large body, all ready; answers their picture. */
static struct snapshot *make_jobs(void)
{
    static char body[5000];
    bide *queue = open_jobs("");
    for (int i = 1; i <= JOBS; i++) {
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        char key[16];
        snprintf(key, sizeof key, "key%d", i);
        options.key = slice_of(key);
        options.max_retries = 3;
        memset(body, 'a' + i, sizeof(body));
        OK(bide_put(queue, "work", body, i % 2 == 0 ? 100 : sizeof(body), &options, NULL));
    }
    struct snapshot *snapshot = snapshot_take(queue);
    OK(bide_close(queue));
    return snapshot;
}

/* The columns that must not be NULL may be. */
static void loosen(const char *path)
{
    SQL(path, "PRAGMA writable_schema=ON;"
              "UPDATE sqlite_schema SET sql=replace(sql,' NOT NULL','') WHERE name='job';");
}

/* All jobs but that one are as they were. */
static void check_others(const struct snapshot *before, const struct snapshot *after, uint64_t id)
{
    for (size_t i = 0; i < before->count; i++) {
        const struct job_snapshot *was = &before->jobs[i];
        const struct job_snapshot *is = snapshot_find(after, was->id);
        if (was->id != id && (is == NULL || is->state != was->state || is->body != was->body ||
                              is->key != was->key || is->priority != was->priority))
            FAIL("job %llu is not as it was", (unsigned long long)was->id);
    }
}

/* No file is left of the case before. */
static void begin_case(void)
{
    static const char *const names[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm"};
    for (size_t i = 0; i < COUNT(names); i++)
        remove(test_path(names[i]));
}

/* ---- rows that cannot be jobs ---- */

static void check_set_aside(const struct snapshot *before, const char *sql)
{
    bide_recovery recovery = {.failed = 0};
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    struct snapshot *after = snapshot_take(queue);
    if (recovery.failed != 1 || recovery.loaded != JOBS - 1)
        FAIL("%s: expected 1 failed and %d loaded, got %llu and %llu", sql, JOBS - 1,
             (unsigned long long)recovery.failed, (unsigned long long)recovery.loaded);
    EQ(after->count, JOBS - 1);
    check_others(before, after, 5);
    snapshot_free(after);
    bide_job job;
    CODE(bide_job_stats(queue, 5, &job), BIDE_NOT_FOUND);
    uint64_t id = 0;
    OK(bide_put(queue, "work", "new", 3, NULL, &id));
    CHECK(id > JOBS);
    OK(bide_close(queue));
}

/* It stands in the table of the damaged, with a reason, and no longer in the way. */
static void check_kept(const char *sql)
{
    const char *path = test_path("jobs.db");
    if (NUMBER(path, "SELECT count(*) FROM damaged WHERE id=5 AND length(reason)>0") != 1 ||
        NUMBER(path, "SELECT count(*) FROM job WHERE id=5") != 0)
        FAIL("%s: expected the row in the table of the damaged", sql);
    bide_recovery recovery = {.failed = 9};
    OK(bide_close(open_url_at(HERE, url_of("jobs.db", ""), &recovery)));
    EQ(recovery.failed, 0);
}

static void try_rows(const char *const *changes, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        begin_case();
        struct snapshot *before = make_jobs();
        loosen(test_path("jobs.db"));
        SQL(test_path("jobs.db"), "UPDATE job SET %s WHERE id=5", changes[i]);
        check_set_aside(before, changes[i]);
        check_kept(changes[i]);
        snapshot_free(before);
    }
}

/* An id that was never given neither hides others nor is given again. */
static void rows_with_unassigned_ids_are_quarantined(void)
{
    static const char *const ids[] = {
        "0",
        "-1",
        "-9223372036854775807",
        "9223372036854775807",
        "9007199254740991",
        "9007199254740992",
    };
    for (size_t i = 0; i < COUNT(ids); i++) {
        begin_case();
        struct snapshot *before = make_jobs();
        SQL(test_path("jobs.db"), "UPDATE job SET id=%s WHERE id=5", ids[i]);
        check_set_aside(before, ids[i]);
        snapshot_free(before);
        EQ(NUMBER(test_path("jobs.db"), "SELECT count(*) FROM damaged"), 1);
    }
}

static void invalid_rows_are_quarantined(void)
{
    static const char *const changes[] = {
        "state=9",        "state=0",
        "state=3",        "state=-1",
        "state='ready'",  "state=NULL",
        "topic=NULL",     "topic=''",
        "ttr=0",          "topic=printf('%.*c',300,'x')",
        "ttr=-5",         "ttr=NULL",
        "body_size=-1",   "body_size=99999999999",
        "max_retries=-7", "max_retries=2147483648",
        "history=x'00'",  "history=x'05000000000000000100000000000000'", /* kind 5 */
        "history='text'", "history=zeroblob(16 * 11)",                   /* eleven failures */
        "history=5",      "history=x'00000000000000000100000000000500'", /* cut off */
    };
    try_rows(changes, COUNT(changes));
}

static void row_with_an_invalid_topic_is_quarantined(void)
{
    static const char *const changes[] = {"topic='a b'", "topic='-dash'", "topic=x'ff00ff'"};
    try_rows(changes, COUNT(changes));
}

/* Job 1 is buried and job 2 done. Job 3 became ready again after job 4, so that the list of ready
 * jobs has to be sorted after the load. */
static void make_jobs_of_several_states(void)
{
    bide *queue = open_jobs("");
    bide_job job;
    for (int i = 1; i <= 4; i++)
        OK(bide_put(queue, i < 3 ? "finished" : "work", "body", 4, NULL, NULL));
    OK(bide_bury(queue, 1, 0, BIDE_KEEP, "set aside"));
    OK(bide_done(queue, 2, 0, "result", 6, 3600 * 1000));
    OK(bide_reserve(queue, "work", 0, &job));
    EQ(job.id, 3);
    OK(bide_release(queue, job.id, job.token, BIDE_KEEP, 0));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* The flag says that the columns of history are in use: a finished job has a history. */
static void finished_row_without_the_flag_of_a_history_is_quarantined(void)
{
    for (int id = 1; id <= 2; id++) {
        begin_case();
        make_jobs_of_several_states();
        SQL(test_path("jobs.db"), "UPDATE job SET flags=NULL WHERE id=%d", id);
        bide_recovery recovery = {.failed = 0};
        OK(bide_close(open_url_at(HERE, url_of("jobs.db", ""), &recovery)));
        EQ(recovery.failed, 1);
        EQ(recovery.loaded, 3);
        EQ(NUMBER(test_path("jobs.db"), "SELECT id FROM damaged"), id);
    }
}

/* ---- numbers that are out of the way ---- */

/* The job may be there, with a value that makes sense, or be set aside; nothing else suffers. */
static void check_odd(const struct snapshot *before, const char *sql)
{
    bide_recovery recovery = {.failed = 0};
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    bide_job job;
    int code = bide_job_stats(queue, 5, &job);
    if (code == BIDE_OK) {
        if (job.age_ms < 0 || job.left_ms < 0 || job.key_size > BIDE_KEY_MAX)
            FAIL("%s: age %lld, left %lld", sql, (long long)job.age_ms, (long long)job.left_ms);
        bide_job_clear(&job);
    } else if (code != BIDE_NOT_FOUND || recovery.failed != 1) {
        FAIL("%s: the job is neither there nor counted", sql);
    }
    struct snapshot *after = snapshot_take(queue);
    check_others(before, after, 5);
    snapshot_free(after);
    OK(bide_put(queue, "work", "new", 3, NULL, NULL));
    OK(bide_close(queue));
    OK(bide_close(open_jobs("")));
}

static void odd_numbers_in_rows_are_harmless(void)
{
    static const char *const changes[] = {
        "due=-1",
        "state=1, due=9223372036854775807",
        "state=1, due=-9223372036854775808",
        "state=1, due=NULL",
        "created=-1",
        "created=9223372036854775807",
        "created=-9223372036854775808",
        "created=NULL",
        "since=9223372036854775807",
        "failures=-1",
        "reserves=-1, timeouts=99999999999",
        "expires_at=-1",
        "state=4, bury_order=-1",
        "state=4, bury_order=9223372036854775807",
        "state=5, retain=-1, due=-1",
        "state=5, retain=9223372036854775807, due=9223372036854775807",
        "backoff_base=-1, backoff_max=-1, flags=1",
        "backoff_base=9223372036854775807, backoff_max=9223372036854775807, flags=1",
        "ttr=9223372036854775807",
        "flags=240",
        "priority=-1",
        "priority=4294967296",
        "key=x''",
        "key=printf('%.*c',300,'x')",
        "last_error=printf('%.*c',3000000,'x')",
        "ready=9223372036854775807, buried=-9223372036854775808",
        "flags=16, token=-1, lease=1",
        "flags=16, token=9223372036854775807, lease=-1",
        "flags=16, token=1, lease=9223372036854775807",
        "flags=16, state=4, token=1, lease=1000000",
    };
    for (size_t i = 0; i < COUNT(changes); i++) {
        begin_case();
        struct snapshot *before = make_jobs();
        SQL(test_path("jobs.db"), "UPDATE job SET %s WHERE id=5", changes[i]);
        check_odd(before, changes[i]);
        snapshot_free(before);
    }
}

/* One of the two keeps the key; the other is without it, or counted. */
static void two_rows_with_one_key_do_not_stop_the_rest(void)
{
    bide_recovery recovery = {.failed = 0};
    bide_job job;
    snapshot_free(make_jobs());
    SQL(test_path("jobs.db"), "UPDATE job SET key='key6' WHERE id=5");
    bide *queue = open_url_at(HERE, url_of("jobs.db", ""), &recovery);
    EQ(recovery.loaded + recovery.failed, JOBS);
    CHECK(recovery.failed <= 1);
    OK(bide_find(queue, "work", "key6", 4, &job));
    CHECK(job.id == 5 || job.id == 6);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void a_row_with_an_impossible_id_is_counted(void)
{
    snapshot_free(make_jobs());
    SQL(test_path("jobs.db"), "UPDATE job SET id=-5 WHERE id=5");
    bide *queue = open_jobs("");
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, JOBS - 1);
    OK(bide_put(queue, "work", "new", 3, NULL, NULL));
    OK(bide_close(queue));
}

/* ---- tables beside ---- */

static void try_beside(const char *sql)
{
    begin_case();
    struct snapshot *before = make_jobs();
    SQL(test_path("jobs.db"), "%s", sql);
    bide *queue = open_jobs("");
    struct snapshot *after = snapshot_take(queue);
    check_others(before, after, 0);
    uint64_t id = 0;
    OK(bide_put(queue, "work", "new", 3, NULL, &id));
    CHECK(id > JOBS);
    OK(bide_close(queue));
    snapshot_free(before);
    snapshot_free(after);
}

static void damaged_pauses_do_not_stop_the_rest(void)
{
    try_beside("INSERT INTO pause VALUES('',9223372036854775807)");
    try_beside("INSERT INTO pause VALUES('a b',1)");
    try_beside("INSERT INTO pause VALUES(printf('%.*c',300,'x'),9223372036854775807)");
    try_beside("INSERT INTO pause VALUES('work',NULL)");
    try_beside("INSERT INTO pause VALUES('work',-1)");
}

/* The row of a name that is too long, or goes on behind a zero byte, is not that of its
 * beginning. */
static void a_damaged_pause_pauses_no_other_topic(void)
{
    char topic[BIDE_TOPIC_MAX + 1];
    bide_job job;
    memset(topic, 'x', BIDE_TOPIC_MAX);
    topic[BIDE_TOPIC_MAX] = 0;
    bide *queue = open_jobs("");
    OK(bide_put(queue, topic, "body", 4, NULL, NULL));
    OK(bide_put(queue, "work", "body", 4, NULL, NULL));
    OK(bide_close(queue));
    SQL(test_path("jobs.db"), "INSERT INTO pause VALUES(printf('%%.*c',%d,'x'),%lld)",
        BIDE_TOPIC_MAX + 1, (long long)INT64_MAX);
    SQL(test_path("jobs.db"), "INSERT INTO pause VALUES('work'||char(0)||'s',%lld)",
        (long long)INT64_MAX);
    queue = open_jobs("");
    const char *const topics[] = {topic, "work"};
    for (size_t i = 0; i < COUNT(topics); i++) {
        OK(bide_reserve(queue, topics[i], 0, &job));
        bide_job_clear(&job);
    }
    OK(bide_close(queue));
}

static void damaged_limits_do_not_stop_the_rest(void)
{
    try_beside("DELETE FROM meta");
    try_beside("UPDATE meta SET value=-5");
    try_beside("UPDATE meta SET value=NULL");
    try_beside("UPDATE meta SET value='many'");
}

static const struct test tests[] = {
    TEST(rows_with_unassigned_ids_are_quarantined),
    TEST(invalid_rows_are_quarantined),
    TEST(row_with_an_invalid_topic_is_quarantined),
    TEST(odd_numbers_in_rows_are_harmless),
    TEST(two_rows_with_one_key_do_not_stop_the_rest),
    TEST(a_row_with_an_impossible_id_is_counted),
    TEST(a_damaged_pause_pauses_no_other_topic),
    TEST(damaged_pauses_do_not_stop_the_rest),
    TEST(damaged_limits_do_not_stop_the_rest),
    TEST(finished_row_without_the_flag_of_a_history_is_quarantined),
};
const struct theme damage_theme = {"damaged_rows", tests, COUNT(tests)};
