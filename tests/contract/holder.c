/* SPDX-License-Identifier: MIT */
/* holder.c - the name of who holds a lease: where it is shown, and when it ends. */
#include "contract.h"

#include <string.h>

/* Reserves one job of the topic by this name. */
#define take_by(queue, topic, name) take_by_at(HERE, (queue), (topic), (name))
static uint64_t take_by_at(struct where at, bide *queue, const char *topic, const char *name)
{
    const bide_slice topics[] = {slice(topic)};
    bide_job job = {0};
    bide_reserve_args args = reserve_args(topics, 1, PATIENCE_MS, &job, 1);
    args.holder = slice(name);
    check_code(at, bide_reserve_many(queue, &args), BIDE_OK, "bide_reserve_many()");
    check_text(at, job.holder, job.holder_size, name, "holder of the reserved job");
    uint64_t token = job.token;
    bide_job_clear(&job);
    return token;
}

#define HOLDER(queue, id, name) holder_is(HERE, (queue), (id), (name))
static void holder_is(struct where at, bide *queue, uint64_t id, const char *name)
{
    const bide_job *job = get_job_at(at, queue, id, false);
    check_text(at, job->holder, job->holder_size, name, "holder");
}

#define NO_HOLDER(queue, id) no_holder(HERE, (queue), (id))
static void no_holder(struct where at, bide *queue, uint64_t id)
{
    const bide_job *job = get_job_at(at, queue, id, false);
    check_true(at, job->holder == NULL, "no holder");
    check_equal(at, (int64_t)job->holder_size, 0, "size of the holder");
}

#define FAILED_BY(queue, id, name) failed_by(HERE, (queue), (id), (name))
static void failed_by(struct where at, bide *queue, uint64_t id, const char *name)
{
    bide_failure last;
    const bide_job *job = get_job_at(at, queue, id, false);
    check_equal(at, (int64_t)bide_job_history(job, &last, 1), 1, "failures");
    check_equal(at, (int64_t)last.holder.size, (int64_t)strlen(name), "size of the holder");
    if (name[0] != 0)
        check_text(at, last.holder.data, last.holder.size, name, "holder of the failure");
}

/* ---- where it is shown ---- */

static void every_snapshot_of_a_reserved_job_names_its_holder(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put_key(queue, a, "key");
    bide_job jobs[4] = {0};
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t count = 0;
    NO_HOLDER(queue, id);
    take_by(queue, a, "web1:4711:0a");
    HOLDER(queue, id, "web1:4711:0a");
    OK(bide_peek(queue, id, &jobs[0]));
    OK(bide_find(queue, a, "key", 3, &jobs[1]));
    OK(bide_peek_first(queue, a, BIDE_STATE_RESERVED, &jobs[2]));
    OK(bide_list(queue, a, BIDE_STATE_ANY, NULL, cursor, &jobs[3], 1, &count));
    EQ(count, 1);
    for (size_t i = 0; i < COUNT(jobs); i++)
        TEXT(jobs[i].holder, jobs[i].holder_size, "web1:4711:0a");
    clear_jobs(jobs, COUNT(jobs));
    CHECK(jobs[0].holder == NULL);
}

static void every_way_to_reserve_takes_a_name(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_slice topics[] = {slice(a)};
    uint64_t first = put(queue, a, "body"), second = put(queue, a, "body");
    struct waiter *by_id = new_op(BIDE_OP_RESERVE_JOB, new_cq());
    by_id->op.reserve_job =
        (bide_reserve_job_args){.id = first, .job = &by_id->job, .holder = slice("one")};
    bide_op *ops[] = {&by_id->op};
    if (bide_submit(queue, ops, 1) > 0)
        completes(by_id, BIDE_OK);
    EQ(by_id->op.status, BIDE_OK);
    HOLDER(queue, first, "one");

    bide_job job = {0};
    bide_finish_item finish = {.id = first, .token = by_id->job.token};
    bide_reserve_args args = reserve_args(topics, 1, 0, &job, 1);
    args.holder = slice("two");
    OK(bide_finish_and_reserve(queue, &finish, &args));
    EQ(finish.status, BIDE_OK);
    TEXT(job.holder, job.holder_size, "two");
    HOLDER(queue, second, "two");
    bide_job_clear(&job);
}

static void jobs_of_one_reserve_have_the_same_holder(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_slice topics[] = {slice(a)};
    bide_job jobs[5] = {0};
    put_lots(queue, a, 5, NULL, NULL);
    bide_reserve_args args = reserve_args(topics, 1, 0, jobs, 5);
    args.holder = slice("all");
    OK(bide_reserve_many(queue, &args));
    EQ(args.count, 5);
    for (size_t i = 0; i < 5; i++)
        HOLDER(queue, jobs[i].id, "all");
    OK(bide_delete(queue, jobs[0].id, jobs[0].token));
    HOLDER(queue, jobs[1].id, "all");
    clear_jobs(jobs, 5);
}

/* The memory of the arguments is the caller's again when submit has returned. */
static void waiting_reserve_keeps_the_name_that_it_was_given(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_slice topics[] = {slice(a)};
    char name[] = "waits";
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, new_cq());
    waiter->op.reserve = reserve_args(topics, 1, BIDE_FOREVER, &waiter->job, 1);
    waiter->op.reserve.holder = slice(name);
    submit_pending(queue, waiter);
    memcpy(name, "other", 5);
    uint64_t id = put(queue, a, "body");
    completes(waiter, BIDE_OK);
    TEXT(waiter->job.holder, waiter->job.holder_size, "waits");
    HOLDER(queue, id, "waits");
}

static void name_may_have_any_bytes_up_to_the_limit(void)
{
    static char name[BIDE_HOLDER_MAX + 1];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    const bide_slice topics[] = {slice(a)};
    uint64_t id = put(queue, a, "body");
    bide_job job = {0};
    for (size_t i = 0; i < sizeof name; i++)
        name[i] = (char)(i * 2);
    bide_reserve_args args = reserve_args(topics, 1, 0, &job, 1);
    args.holder = (bide_slice){name, sizeof name};
    CODE(bide_reserve_many(queue, &args), BIDE_EINVAL);
    args.holder = (bide_slice){NULL, 1};
    CODE(bide_reserve_many(queue, &args), BIDE_EINVAL);
    EQ(state_of(queue, id), BIDE_STATE_READY);
    args.holder = (bide_slice){name, BIDE_HOLDER_MAX};
    OK(bide_reserve_many(queue, &args));
    bide_job_clear(&job);
    const bide_job *got = stat_job(queue, id);
    EQ(got->holder_size, BIDE_HOLDER_MAX);
    EQ(memcmp(got->holder, name, BIDE_HOLDER_MAX), 0);
}

/* At a server its connection has a name: its address. */
static void reserve_without_a_name_has_that_of_its_connection(void)
{
    bide *queue = open_queue("");
    uint64_t id = put(queue, fresh_topic("a"), "body");
    take_job(queue, id);
    if (is_in_process())
        NO_HOLDER(queue, id);
    else
        CHECK(stat_job(queue, id)->holder_size > 0);
}

/* ---- when it ends ---- */

static void holder_ends_with_its_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_release(queue, id, take_by(queue, a, "releases"), BIDE_KEEP, 0));
    NO_HOLDER(queue, id);
    OK(bide_release(queue, id, take_by(queue, a, "delays"), BIDE_KEEP, 3600000));
    NO_HOLDER(queue, id);
    OK(bide_kick_job(queue, id));
    OK(bide_give_back(queue, id, take_by(queue, a, "gives back")));
    NO_HOLDER(queue, id);
    OK(bide_bury(queue, id, take_by(queue, a, "buries"), BIDE_KEEP, "bad"));
    NO_HOLDER(queue, id);
    OK(bide_kick_job(queue, id));
    OK(bide_fail(queue, id, take_by(queue, a, "fails"), "bad", 0, NULL, NULL));
    NO_HOLDER(queue, id);
    OK(bide_done(queue, id, take_by(queue, a, "does"), "result", 6, 3600000));
    NO_HOLDER(queue, id);
}

static void the_next_holder_replaces_the_last_one(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    static const char *const names[] = {"first", "second", "first", "a longer third name"};
    for (size_t i = 0; i < COUNT(names); i++) {
        uint64_t token = take_by(queue, a, names[i]);
        HOLDER(queue, id, names[i]);
        OK(bide_touch(queue, id, token, 0, "half"));
        HOLDER(queue, id, names[i]);
        OK(bide_give_back(queue, id, token));
    }
}

static void expired_lease_has_no_holder(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 1;
    uint64_t id = put_as(queue, a, "body", &options);
    take_by(queue, a, "sleeps");
    UNTIL(state_of(queue, id) == BIDE_STATE_READY);
    NO_HOLDER(queue, id);
    FAILED_BY(queue, id, "sleeps");
}

static void memory_of_the_name_is_freed_with_the_lease(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_release(queue, id, take_by(queue, a, "first"), BIDE_KEEP, 0));
    uint64_t before = stats_of(queue).memory_bytes;
    uint64_t token = take_by(queue, a, "a name of some bytes");
    EQ(stats_of(queue).memory_bytes, before + strlen("a name of some bytes"));
    OK(bide_release(queue, id, token, BIDE_KEEP, 0));
    EQ(stats_of(queue).memory_bytes, before);
}

/* ---- in the history ---- */

static void each_failure_names_the_holder_of_its_attempt(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    OK(bide_fail(queue, id, take_by(queue, a, "one"), "bad", 0, NULL, NULL));
    FAILED_BY(queue, id, "one");
    OK(bide_bury(queue, id, take_by(queue, a, "two"), BIDE_KEEP, NULL));
    FAILED_BY(queue, id, "two");
    OK(bide_kick_job(queue, id));
    /* Without a reservation there is no holder. */
    OK(bide_fail(queue, id, 0, "bad", 0, NULL, NULL));
    FAILED_BY(queue, id, "");
    bide_failure failures[4];
    EQ(bide_job_history(stat_job(queue, id), failures, COUNT(failures)), 3);
    TEXT(failures[0].holder.data, failures[0].holder.size, "one");
    TEXT(failures[0].error.data, failures[0].error.size, "bad");
    EQ(failures[1].error.size, 0);
}

static void long_name_leaves_the_rest_of_the_bytes_to_the_error(void)
{
    static char error[1000], name[BIDE_HOLDER_MAX + 1];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    memset(error, 'e', sizeof error - 1);
    memset(name, 'n', sizeof name - 1);
    OK(bide_fail(queue, id, take_by(queue, a, name), error, 0, NULL, NULL));
    bide_failure failure;
    EQ(bide_job_history(stat_job(queue, id), &failure, 1), 1);
    EQ(failure.holder.size, BIDE_HOLDER_MAX);
    EQ(failure.error.size, BIDE_FAILURE_TEXT_MAX - BIDE_HOLDER_MAX);
}

/* A job that was exported while it was reserved becomes ready: nobody holds it. */
static void restored_job_has_no_holder_and_keeps_those_of_its_failures(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body"), copy = 0;
    OK(bide_fail(queue, id, take_by(queue, a, "one"), "bad", 0, NULL, NULL));
    take_by(queue, a, "two");
    bide_job job = *peek_job(queue, id);
    OK(bide_restore(queue, &job, &copy));
    EQ(state_of(queue, copy), BIDE_STATE_READY);
    NO_HOLDER(queue, copy);
    FAILED_BY(queue, copy, "one");
    HOLDER(queue, id, "two");
}

static const struct test tests[] = {
    TEST(every_snapshot_of_a_reserved_job_names_its_holder),
    TEST(every_way_to_reserve_takes_a_name),
    TEST(jobs_of_one_reserve_have_the_same_holder),
    TEST(waiting_reserve_keeps_the_name_that_it_was_given),
    TEST(name_may_have_any_bytes_up_to_the_limit),
    TEST(reserve_without_a_name_has_that_of_its_connection),
    TEST(holder_ends_with_its_lease),
    TEST(the_next_holder_replaces_the_last_one),
    TEST(expired_lease_has_no_holder),
    TEST(memory_of_the_name_is_freed_with_the_lease),
    TEST(each_failure_names_the_holder_of_its_attempt),
    TEST(long_name_leaves_the_rest_of_the_bytes_to_the_error),
    TEST(restored_job_has_no_holder_and_keeps_those_of_its_failures),
};

const struct theme holder_theme = {"holder", tests, COUNT(tests)};
