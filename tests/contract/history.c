/* SPDX-License-Identifier: MIT */
/* history.c - the last failures of a job: what is recorded, in which order, and how much of it. */
#include "contract.h"

#include <stdio.h>
#include <string.h>

/* The failures of a job as job_stats shows them. */
struct history {
    size_t count;
    bide_failure all[BIDE_HISTORY_MAX];
};

#define HISTORY(queue, id) history_of(HERE, (queue), (id))
static struct history history_of(struct where at, bide *queue, uint64_t id)
{
    struct history history;
    history.count =
        bide_job_history(get_job_at(at, queue, id, false), history.all, COUNT(history.all));
    return history;
}

#define IS_FAILURE(failure, kind, attempt, text) \
    is_failure(HERE, (failure), (kind), (attempt), (text))
static void is_failure(struct where at, const bide_failure *failure, bide_failure_kind kind,
                       uint32_t attempt, const char *text)
{
    check_equal(at, failure->kind, kind, "kind of the failure");
    check_equal(at, failure->attempt, attempt, "attempt of the failure");
    check_equal(at, (int64_t)failure->error.size, (int64_t)strlen(text), "size of the text");
    if (text[0] != 0)
        check_text(at, failure->error.data, failure->error.size, text, "text of the failure");
    /* At a server a holder without a name has that of its connection. */
    if (is_in_process())
        check_equal(at, (int64_t)failure->holder.size, 0, "size of the holder");
    check_between(at, failure->at_ms, wall_ms() - PATIENCE_MS, wall_ms() + 1,
                  "time of the failure");
}

static void fail_with(bide *queue, uint64_t id, const char *text)
{
    OK(bide_fail(queue, id, take_job(queue, id)->token, text, 0, NULL, NULL));
}

/* ---- what is recorded ---- */

static void job_that_never_failed_has_no_history(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_give_back(queue, id, take(queue, a)->token));
    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    OK(bide_touch(queue, id, take(queue, a)->token, 0, "half"));
    const bide_job *job = stat_job(queue, id);
    CHECK(job->history == NULL);
    EQ(job->history_size, 0);
    EQ(HISTORY(queue, id).count, 0);
    EQ(HISTORY(queue, put_in(queue, a, BIDE_STATE_DONE)).count, 0);
}

static void each_fail_is_recorded_with_its_attempt_time_and_text(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    fail_with(queue, id, "first");
    int64_t between_ms = wall_ms();
    nap_ms(3);
    OK(bide_give_back(queue, id, take_job(queue, id)->token));
    fail_with(queue, id, NULL);
    struct history history = HISTORY(queue, id);
    EQ(history.count, 2);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_FAILED, 1, "first");
    IS_FAILURE(&history.all[1], BIDE_FAILURE_FAILED, 3, "");
    CHECK(history.all[0].at_ms <= between_ms && history.all[1].at_ms > between_ms);
    const bide_job *job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "first");
}

static void job_that_is_not_reserved_fails_with_the_attempts_so_far(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_fail(queue, id, 0, "not reserved", 0, NULL, NULL));
    struct history history = HISTORY(queue, id);
    EQ(history.count, 1);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_FAILED, 0, "not reserved");
}

static void each_bury_is_recorded(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    OK(bide_bury(queue, id, take_job(queue, id)->token, BIDE_KEEP, "hopeless"));
    OK(bide_kick_job(queue, id));
    OK(bide_bury(queue, id, 0, BIDE_KEEP, NULL));
    struct history history = HISTORY(queue, id);
    EQ(history.count, 2);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_BURIED, 1, "hopeless");
    IS_FAILURE(&history.all[1], BIDE_FAILURE_BURIED, 1, "");
}

static void failure_that_buries_at_the_limit_is_recorded_once(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 0;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    fail_with(queue, id, "the last one");
    EQ(state_of(queue, id), BIDE_STATE_BURIED);
    struct history history = HISTORY(queue, id);
    EQ(history.count, 1);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_FAILED, 1, "the last one");
}

static void expired_lease_is_recorded_with_and_without_a_retry_limit(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 1;
    for (int32_t limit = -1; limit <= 1; limit++) {
        options.max_retries = limit;
        options.backoff_base_ms = 3600000;
        options.backoff_max_ms = 3600000;
        uint64_t id = put_as(queue, a, "body", &options);
        take_job(queue, id);
        UNTIL(state_of(queue, id) != BIDE_STATE_RESERVED);
        struct history history = HISTORY(queue, id);
        EQ(history.count, 1);
        IS_FAILURE(&history.all[0], BIDE_FAILURE_TIMED_OUT, 1, "ttr ran out");
        EQ(stat_job(queue, id)->last_error != NULL, limit >= 0);
    }
}

static void fail_may_report_a_lost_connection(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    struct waiter *waiter = new_op(BIDE_OP_FAIL, new_cq());
    waiter->op.fail = (bide_fail_args){.id = id,
                                       .token = take_job(queue, id)->token,
                                       .error = slice("gone"),
                                       .kind = BIDE_FAILURE_DISCONNECTED};
    bide_op *ops[] = {&waiter->op};
    if (bide_submit(queue, ops, 1) > 0)
        completes(waiter, BIDE_OK);
    struct history history = HISTORY(queue, id);
    EQ(history.count, 1);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_DISCONNECTED, 1, "gone");
}

static void fail_of_another_kind_is_rejected(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    uint64_t token = take_job(queue, id)->token;
    static const int kinds[] = {BIDE_FAILURE_BURIED, BIDE_FAILURE_TIMED_OUT, BIDE_FAILURE_RESTARTED,
                                BIDE_FAILURE_KINDS, -1};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        struct waiter *waiter = new_op(BIDE_OP_FAIL, new_cq());
        waiter->op.fail =
            (bide_fail_args){.id = id, .token = token, .kind = (bide_failure_kind)kinds[i]};
        submit_code(queue, waiter, BIDE_EINVAL);
    }
    EQ(state_of(queue, id), BIDE_STATE_RESERVED);
    EQ(HISTORY(queue, id).count, 0);
}

static void rejected_failure_is_not_recorded(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    uint64_t old = take_job(queue, id)->token;
    OK(bide_give_back(queue, id, old));
    take_job(queue, id);
    CODE(bide_fail(queue, id, old, "late", 0, NULL, NULL), BIDE_LEASE_LOST);
    CODE(bide_fail(queue, id, 0, "no holder", 0, NULL, NULL), BIDE_RESERVED);
    CODE(bide_bury(queue, id, old, BIDE_KEEP, "late"), BIDE_LEASE_LOST);
    EQ(HISTORY(queue, id).count, 0);
}

/* ---- how long it is kept ---- */

static void the_eleventh_failure_replaces_the_oldest(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    for (uint32_t i = 1; i <= 23; i++) {
        char text[20];
        snprintf(text, sizeof text, "failure %u", i);
        fail_with(queue, id, text);
        struct history history = HISTORY(queue, id);
        EQ(history.count, i < BIDE_HISTORY_MAX ? i : BIDE_HISTORY_MAX);
        IS_FAILURE(&history.all[history.count - 1], BIDE_FAILURE_FAILED, i, text);
    }
    struct history history = HISTORY(queue, id);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_FAILED, 14, "failure 14");
    IS_FAILURE(&history.all[9], BIDE_FAILURE_FAILED, 23, "failure 23");
}

static void kick_resets_the_failures_and_keeps_the_history(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    fail_with(queue, id, "one");
    OK(bide_bury(queue, id, take_job(queue, id)->token, BIDE_KEEP, "two"));
    uint64_t count = 0;
    OK(bide_kick(queue, a, 1, &count));
    EQ(stat_job(queue, id)->failures, 0);
    fail_with(queue, id, "three");
    struct history history = HISTORY(queue, id);
    EQ(history.count, 3);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_FAILED, 1, "one");
    IS_FAILURE(&history.all[1], BIDE_FAILURE_BURIED, 2, "two");
    IS_FAILURE(&history.all[2], BIDE_FAILURE_FAILED, 3, "three");
}

static void done_job_keeps_its_history(void)
{
    bide *queue = open_queue("");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = 3600000;
    uint64_t id = put_as(queue, fresh_topic("a"), "body", &options);
    fail_with(queue, id, "one");
    OK(bide_done(queue, id, take_job(queue, id)->token, "result", 6, BIDE_KEEP));
    struct history history = HISTORY(queue, id);
    EQ(history.count, 1);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_FAILED, 1, "one");
}

/* ---- its bounds ---- */

static void texts_are_cut_at_failure_text_max(void)
{
    static char text[1025];
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    memset(text, 'x', sizeof text - 1);
    for (int i = 0; i < 2 * BIDE_HISTORY_MAX; i++)
        fail_with(queue, id, text);
    struct history history = HISTORY(queue, id);
    EQ(history.count, BIDE_HISTORY_MAX);
    for (size_t i = 0; i < history.count; i++) {
        EQ(history.all[i].error.size + history.all[i].holder.size, BIDE_FAILURE_TEXT_MAX);
        EQ(memcmp(history.all[i].error.data, text, history.all[i].error.size), 0);
    }
    const bide_job *job = stat_job(queue, id);
    EQ(job->last_error_size, 1024);
    CHECK(job->history_size <= 4096);
}

static void text_is_not_cut_within_a_character(void)
{
    static const char *const characters[] = {"\xc3\xbc", "\xe2\x82\xac", "\xf0\x9f\x98\x80"};
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    bide_failure last;
    fail_with(queue, id, "x");
    EQ(bide_job_history(stat_job(queue, id), &last, 1), 1);
    size_t room = BIDE_FAILURE_TEXT_MAX - last.holder.size;
    for (size_t i = 0; i < COUNT(characters); i++) {
        char text[BIDE_FAILURE_TEXT_MAX + 8];
        size_t length = strlen(characters[i]);
        memset(text, 'x', sizeof text);
        memcpy(text + room - 1, characters[i], length + 1);
        fail_with(queue, id, text);
        EQ(bide_job_history(stat_job(queue, id), &last, 1), 1);
        EQ(last.error.size, room - 1);
    }
}

static void text_that_is_not_utf8_is_cut_anywhere(void)
{
    char text[BIDE_FAILURE_TEXT_MAX + 9];
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    memset(text, '\x80', sizeof text - 1);
    text[sizeof text - 1] = 0;
    fail_with(queue, id, text);
    struct history history = HISTORY(queue, id);
    EQ(history.all[0].error.size + history.all[0].holder.size, BIDE_FAILURE_TEXT_MAX);
}

static void max_error_size_applies_to_the_history(void)
{
    bide *queue = open_queue("max_error_size=4");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    fail_with(queue, id, "too long");
    struct history history = HISTORY(queue, id);
    IS_FAILURE(&history.all[0], BIDE_FAILURE_FAILED, 1, "too ");

    /* Not within a character: it would not be text any more. */
    fail_with(queue, id, "1\xe2\x82\xac\xe2\x82\xac");
    fail_with(queue, id, "12\xe2\x82\xac");
    history = HISTORY(queue, id);
    IS_FAILURE(&history.all[1], BIDE_FAILURE_FAILED, 2, "1\xe2\x82\xac");
    IS_FAILURE(&history.all[2], BIDE_FAILURE_FAILED, 3, "12");
    const bide_job *job = stat_job(queue, id);
    TEXT(job->last_error, job->last_error_size, "12");
}

static void history_counts_as_memory_and_is_freed_with_its_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_release(queue, id, take_job(queue, id)->token, BIDE_KEEP, 0));
    uint64_t before = stats_of(queue).memory_bytes;
    fail_with(queue, id, "text");
    const bide_job *job = stat_job(queue, id);
    EQ(stats_of(queue).memory_bytes, before + job->history_size + job->last_error_size);
    OK(bide_delete(queue, id, 0));
    UNTIL(stats_of(queue).memory_bytes < before);
}

static void jobs_of_a_full_queue_can_fail(void)
{
    static char text[1025];
    bide *queue = open_queue("max_memory=1MiB");
    const char *a = fresh_topic("a");
    uint64_t id = 0, first = 0;
    memset(text, 'x', sizeof text - 1);
    while (bide_put(queue, a, text, 1000, NULL, &id) == BIDE_OK)
        first = first == 0 ? id : first;
    CODE(bide_put(queue, a, text, 1000, NULL, &id), BIDE_EFULL);
    for (int i = 0; i < BIDE_HISTORY_MAX; i++)
        fail_with(queue, first, text);
    EQ(HISTORY(queue, first).count, BIDE_HISTORY_MAX);
    CODE(bide_put(queue, a, text, 1000, NULL, &id), BIDE_EFULL);
}

/* ---- where it is shown ---- */

static void every_call_that_shows_a_job_shows_its_history(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "key");
    bide_job jobs[4] = {0};
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    fail_with(queue, id, "once");
    OK(bide_peek(queue, id, &jobs[0]));
    OK(bide_find(queue, a, "key", 3, &jobs[1]));
    OK(bide_list(queue, a, BIDE_STATE_ANY, NULL, cursor, &jobs[2], 1, &count));
    EQ(count, 1);
    OK(bide_reserve_job(queue, id, &jobs[3]));
    for (size_t i = 0; i < COUNT(jobs); i++) {
        bide_failure failure;
        EQ(bide_job_history(&jobs[i], &failure, 1), 1);
        IS_FAILURE(&failure, BIDE_FAILURE_FAILED, 1, "once");
    }
    clear_jobs(jobs, COUNT(jobs));
}

static void snapshot_outlives_its_job(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    bide_job job = {0};
    bide_failure failure;
    fail_with(queue, id, "once");
    OK(bide_job_stats(queue, id, &job));
    OK(bide_delete(queue, id, 0));
    EQ(bide_job_history(&job, &failure, 1), 1);
    IS_FAILURE(&failure, BIDE_FAILURE_FAILED, 1, "once");
    bide_job_clear(&job);
    CHECK(job.history == NULL);
    EQ(bide_job_history(&job, &failure, 1), 0);
}

static void history_in_a_small_array_is_that_of_the_latest_failures(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    fail_with(queue, id, "one");
    fail_with(queue, id, "two");
    fail_with(queue, id, "three");
    bide_failure failures[3];
    EQ(bide_job_history(stat_job(queue, id), failures, 2), 2);
    IS_FAILURE(&failures[0], BIDE_FAILURE_FAILED, 2, "two");
    IS_FAILURE(&failures[1], BIDE_FAILURE_FAILED, 3, "three");
    EQ(bide_job_history(stat_job(queue, id), failures, 0), 0);
    EQ(bide_job_history(stat_job(queue, id), NULL, 3), 0);
    EQ(bide_job_history(NULL, failures, 3), 0);
}

/* ---- restore ---- */

static void restored_job_keeps_its_history_and_adds_to_it(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body"), copy = 0;
    for (int i = 0; i < BIDE_HISTORY_MAX; i++)
        fail_with(queue, id, "before");
    bide_job job = *peek_job(queue, id);
    OK(bide_restore(queue, &job, &copy));
    const bide_job *got = stat_job(queue, copy);
    EQ(got->history_size, job.history_size);
    EQ(memcmp(got->history, job.history, job.history_size), 0);
    OK(bide_delete(queue, id, 0));
    fail_with(queue, copy, "after");
    struct history history = HISTORY(queue, copy);
    EQ(history.count, BIDE_HISTORY_MAX);
    IS_FAILURE(&history.all[8], BIDE_FAILURE_FAILED, 10, "before");
    IS_FAILURE(&history.all[9], BIDE_FAILURE_FAILED, 11, "after");
}

/* Nothing of a malformed history may reach a job: it would reach its row, and all clients. */
static void restore_with_a_malformed_history_is_rejected(void)
{
    bide *queue = open_queue("");
    const char *b = fresh_topic("b");
    uint64_t id = put(queue, fresh_topic("a"), "body"), copy = 42;
    for (int i = 0; i < BIDE_HISTORY_MAX; i++)
        fail_with(queue, id, "text");
    bide_job job = *peek_job(queue, id);
    snprintf(job.topic, sizeof job.topic, "%s", b);
    unsigned char bytes[1000];
    size_t size = job.history_size;
    size_t record = size / BIDE_HISTORY_MAX;
    CHECK(size + record <= sizeof bytes);
    memcpy(bytes, job.history, size);

    for (size_t cut = 1; cut < size; cut++) {
        job.history_size = cut;
        if (cut % record != 0)
            CODE(bide_restore(queue, &job, &copy), BIDE_EINVAL);
    }
    job.history = bytes;
    job.history_size = size;
    bytes[0] = BIDE_FAILURE_KINDS;
    CODE(bide_restore(queue, &job, &copy), BIDE_EINVAL);
    bytes[0] = 0;
    memcpy(bytes + size, bytes, record); /* one failure too many */
    job.history_size = size + record;
    CODE(bide_restore(queue, &job, &copy), BIDE_EINVAL);
    job.history = NULL;
    CODE(bide_restore(queue, &job, &copy), BIDE_EINVAL);
    EQ(copy, 42);
    CHECK(!topic_exists(queue, b));
}

static const struct test tests[] = {
    TEST(job_that_never_failed_has_no_history),
    TEST(each_fail_is_recorded_with_its_attempt_time_and_text),
    TEST(job_that_is_not_reserved_fails_with_the_attempts_so_far),
    TEST(each_bury_is_recorded),
    TEST(failure_that_buries_at_the_limit_is_recorded_once),
    TEST(expired_lease_is_recorded_with_and_without_a_retry_limit),
    TEST(fail_may_report_a_lost_connection),
    TEST(fail_of_another_kind_is_rejected),
    TEST(rejected_failure_is_not_recorded),
    TEST(the_eleventh_failure_replaces_the_oldest),
    TEST(kick_resets_the_failures_and_keeps_the_history),
    TEST(done_job_keeps_its_history),
    TEST(texts_are_cut_at_failure_text_max),
    TEST(text_is_not_cut_within_a_character),
    TEST(text_that_is_not_utf8_is_cut_anywhere),
    TEST(max_error_size_applies_to_the_history),
    TEST(history_counts_as_memory_and_is_freed_with_its_job),
    TEST(jobs_of_a_full_queue_can_fail),
    TEST(every_call_that_shows_a_job_shows_its_history),
    TEST(snapshot_outlives_its_job),
    TEST(history_in_a_small_array_is_that_of_the_latest_failures),
    TEST(restored_job_keeps_its_history_and_adds_to_it),
    TEST(restore_with_a_malformed_history_is_rejected),
};

const struct theme history_theme = {"history", tests, COUNT(tests)};
