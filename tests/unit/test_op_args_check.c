/* SPDX-License-Identifier: MIT */
/*
 * What is refused before an op is run: every refusal, each by one change to an op that is good.
 */
#include "op/op_table.h"
#include "queue/queue.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

#define TOO_LONG  (BIDE_TIME_MAX_MS + 1)
#define TOO_LATE  (BIDE_TIMESTAMP_MAX_MS + 1)
#define YEAR_2000 INT64_C(946684800000)

static struct bide queue = {
    .options = {.max_job_size = 100, .max_result_size = 50, .max_error_size = 10}};

static bide_slice text(const char *string)
{
    return (bide_slice){string, strlen(string)};
}

/* ---- good ops to begin with ---- */

static char cursor[BIDE_CURSOR_SIZE];
static bide_job jobs[2];
static bide_slice topics[2];
static uint32_t weights[2];
static bide_put_options options;
static bide_put_item put_items[2];
static bide_finish_item finishes[2];
static bide_touch_item touches[2];
static bide_job exported;
static bide_topic_stats topic_stats[2];
static bide_topic_policy policies[2];
static bide_stats stats;
static bide_check_report report;
static bide_event events[2];
static char feed_; /* an address is all that is looked at */

static void fill_lists(void)
{
    memset(cursor, 0, sizeof(cursor));
    topics[0] = text("a");
    topics[1] = text("b");
    weights[0] = weights[1] = 1;
    options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    for (int i = 0; i < 2; i++) {
        put_items[i] = (bide_put_item){.topic = text("a"), .body = text("x"), .options = &options};
        finishes[i] = (bide_finish_item){.id = 1, .keep = true, .result = text("r")};
        touches[i] = (bide_touch_item){.id = 1, .token = 2, .progress = text("p")};
    }
    memset(&exported, 0, sizeof(exported));
    exported.state = BIDE_STATE_READY;
    exported.max_retries = BIDE_NO_RETRY_LIMIT;
    memcpy(exported.topic, "a", 2);
}

static bide_announced workers[2];
static bide_explanation why;

/* The bytes of a worker with a name and a topic. */
static bide_slice worker_bytes(void)
{
    static unsigned char bytes[100];
    const bide_slice topic = text("a");
    const bide_worker_info info = {.name = text("w"), .topics = &topic, .topic_count = 1};
    bide_buf *worker = bide_worker_encode(&info);
    assert_non_null(worker);
    assert_in_range(bide_buf_size(worker), 1, sizeof(bytes));
    memcpy(bytes, bide_buf_data(worker), bide_buf_size(worker));
    const bide_slice slice = {bytes, bide_buf_size(worker)};
    bide_buf_unref(worker);
    return slice;
}

static bide_op good(bide_op_kind kind)
{
    bide_op op;
    memset(&op, 0, sizeof(op));
    fill_lists();
    op.kind = kind;
    const bide_reserve_args reserve = {.topics = topics,
                                       .topic_count = 2,
                                       .weights = weights,
                                       .timeout_ms = BIDE_FOREVER,
                                       .jobs = jobs,
                                       .job_max = 2};
    switch ((int)kind) {
    case BIDE_OP_PUT:
        op.put = put_items[0];
        break;
    case BIDE_OP_PUT_MANY:
        op.put_many = (bide_put_many_args){.items = put_items, .count = 2};
        break;
    case BIDE_OP_FINISH_AND_PUT:
        op.finish_and_put = (bide_finish_and_put_args){
            .finish = finishes[0], .priority = BIDE_KEEP, .items = put_items, .count = 2};
        break;
    case BIDE_OP_RESTORE:
        op.restore.job = &exported;
        break;
    case BIDE_OP_RESERVE:
        op.reserve = reserve;
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        op.finish_and_reserve.finish = finishes[0];
        op.finish_and_reserve.reserve = reserve;
        break;
    case BIDE_OP_RESERVE_JOB:
        op.reserve_job.job = jobs;
        break;
    case BIDE_OP_DONE:
        op.finish = finishes[0];
        break;
    case BIDE_OP_FINISH_MANY:
        op.finish_many = (bide_finish_many_args){.items = finishes, .count = 2};
        break;
    case BIDE_OP_TOUCH:
        op.touch = touches[0];
        break;
    case BIDE_OP_TOUCH_MANY:
        op.touch_many = (bide_touch_many_args){.items = touches, .count = 2};
        break;
    case BIDE_OP_UPDATE:
        op.update = (bide_update_args){.priority = BIDE_KEEP,
                                       .delay_ms = BIDE_KEEP,
                                       .run_at_ms = BIDE_KEEP,
                                       .ttr_ms = BIDE_KEEP};
        break;
    case BIDE_OP_KICK:
        op.kick.topic = text("a");
        break;
    case BIDE_OP_PURGE:
        op.purge = (bide_purge_args){.topic = text("a"), .state = BIDE_STATE_READY};
        break;
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
    case BIDE_OP_TOPIC_REF:
        op.topic = (bide_topic_args){.topic = text("a"), .for_ms = BIDE_FOREVER, .delta = 1};
        break;
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_JOB_STATS:
        op.query = (bide_query_args){
            .topic = text("a"), .key = text("k"), .state = BIDE_STATE_READY, .job = jobs};
        break;
    case BIDE_OP_LIST:
        op.list = (bide_list_args){.cursor = cursor, .jobs = jobs, .job_max = 2};
        break;
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
        op.topics = (bide_topics_args){.cursor = cursor, .topics = topic_stats, .topic_max = 2};
        break;
    case BIDE_OP_ANNOUNCE:
        op.announce = (bide_announce_args){.worker = worker_bytes(), .ttl_ms = 1000};
        break;
    case BIDE_OP_WORKERS:
        op.workers = (bide_workers_args){.cursor = cursor, .workers = workers, .worker_max = 2};
        break;
    case BIDE_OP_WHY:
        op.why = (bide_why_args){.topic = text("a"), .key = text("k"), .why = &why};
        break;
    case BIDE_OP_STATS:
        op.stats.stats = &stats;
        break;
    case BIDE_OP_TOPIC_STATS:
        op.topic_stats = (bide_topic_stats_args){.topic = text("a"), .stats = topic_stats};
        break;
    case BIDE_OP_TOPIC_SET:
        op.topic_set = (bide_topic_set_args){text("a"), BIDE_TOPIC_POLICY_INIT};
        break;
    case BIDE_OP_TOPIC_GET:
        op.topic_get = (bide_topic_get_args){text("a"), &policies[0], &policies[1]};
        break;
    case BIDE_OP_SUBSCRIBE:
    case BIDE_OP_EVENTS:
    case BIDE_OP_UNSUBSCRIBE:
        op.subscription = (bide_subscription_args){
            .handle = (bide_subscription *)(void *)&feed_, .events = events, .event_max = 2};
        break;
    case BIDE_OP_BACKUP:
        op.backup.path = "copy.db";
        break;
    case BIDE_OP_CHECK:
        op.check.report = &report;
        break;
    default:
        break;
    }
    return op;
}

static void every_valid_op_is_accepted(void **state)
{
    (void)state;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        bide_op op = good((bide_op_kind)kind);
        if (bi_op_check(&queue.options, &op) != BIDE_OK)
            fail_msg("%s: %s", bide_op_name((bide_op_kind)kind), op.error);
    }
}

static void unknown_op_kind_is_rejected(void **state)
{
    (void)state;
    static const int kinds[] = {BIDE_OP_NONE, BIDE_OP_COUNT, -1, INT32_MAX};
    for (size_t i = 0; i < COUNT_OF(kinds); i++) {
        bide_op op = {.kind = (bide_op_kind)kinds[i]};
        assert_int_equal(bi_op_check(&queue.options, &op), BIDE_EINVAL);
        assert_true(strlen(op.error) > 0);
    }
}

/* Changes a good op of a kind by the assignments, and checks it. The sentence begins with its
 * name. */
#define REFUSED_AS(wanted, kind_, ...)                                                       \
    do {                                                                                     \
        bide_op op = good(BIDE_OP_##kind_);                                                  \
        __VA_ARGS__;                                                                         \
        int code = bi_op_check(&queue.options, &op);                                         \
        if (code != (wanted))                                                                \
            fail_msg("%s: %s answers %s", #kind_, #__VA_ARGS__, bide_code_name(code));       \
        assert_memory_equal(op.error, bide_op_name(op.kind), strlen(bide_op_name(op.kind))); \
    } while (0)
#define REFUSED(kind, ...) REFUSED_AS(BIDE_EINVAL, kind, __VA_ARGS__)
#define TAKEN(kind_, ...)                                           \
    do {                                                            \
        bide_op op = good(BIDE_OP_##kind_);                         \
        __VA_ARGS__;                                                \
        if (bi_op_check(&queue.options, &op) != BIDE_OK)            \
            fail_msg("%s: %s: %s", #kind_, #__VA_ARGS__, op.error); \
    } while (0)

/* ---- topics ---- */

static void topic_name_accepts_exactly_the_allowed_bytes(void **state)
{
    (void)state;
    static const char allowed[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-+/;.$_()";
    for (int byte = 0; byte < 256; byte++) {
        bool wanted = byte != 0 && strchr(allowed, byte) != NULL;
        char inside[3] = {'a', (char)byte, 'z'};
        assert_int_equal(bi_topic_name_valid((bide_slice){inside, 3}), wanted);
        char first[2] = {(char)byte, 'z'};
        assert_int_equal(bi_topic_name_valid((bide_slice){first, 2}), wanted && byte != '-');
        char last[2] = {'a', (char)byte};
        assert_int_equal(bi_topic_name_valid((bide_slice){last, 2}), wanted);
    }
}

static void a_topic_name_has_1_to_200_bytes(void **state)
{
    (void)state;
    static char name[BIDE_TOPIC_MAX + 1];
    memset(name, 'a', sizeof(name));
    assert_false(bi_topic_name_valid((bide_slice){name, 0}));
    assert_false(bi_topic_name_valid((bide_slice){NULL, 0}));
    assert_false(bi_topic_name_valid((bide_slice){NULL, 1}));
    assert_true(bi_topic_name_valid((bide_slice){name, 1}));
    assert_true(bi_topic_name_valid((bide_slice){name, BIDE_TOPIC_MAX}));
    assert_false(bi_topic_name_valid((bide_slice){name, BIDE_TOPIC_MAX + 1}));
}

static void every_op_with_a_topic_rejects_an_invalid_one(void **state)
{
    (void)state;
    static char longest[BIDE_TOPIC_MAX + 1];
    memset(longest, 'a', sizeof(longest));
    const bide_slice bad[] = {{NULL, 0},  {"", 0},   {NULL, 3},
                              {"a b", 3}, {"-a", 2}, {longest, sizeof(longest)}};
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        REFUSED(PUT, op.put.topic = bad[i]);
        REFUSED(RESERVE, topics[1] = bad[i]);
        REFUSED(FINISH_AND_RESERVE, topics[0] = bad[i]);
        REFUSED(KICK, op.kick.topic = bad[i]);
        REFUSED(PURGE, op.purge.topic = bad[i]);
        REFUSED(PAUSE, op.topic.topic = bad[i]);
        REFUSED(RESUME, op.topic.topic = bad[i]);
        REFUSED(TOPIC_REF, op.topic.topic = bad[i]);
        REFUSED(PEEK_FIRST, op.query.topic = bad[i]);
        REFUSED(FIND, op.query.topic = bad[i]);
        REFUSED(TOPIC_STATS, op.topic_stats.topic = bad[i]);
        REFUSED(TOPIC_SET, op.topic_set.topic = bad[i]);
        REFUSED(TOPIC_GET, op.topic_get.topic = bad[i]);
    }
    /* Where no topic means all of them, or the one it is in. */
    for (size_t i = 0; i < 2; i++) {
        TAKEN(LIST, op.list.topic = bad[i]);
        TAKEN(SUBSCRIBE, op.subscription.topic = bad[i]);
        TAKEN(UPDATE, op.update.topic = bad[i]);
    }
    for (size_t i = 2; i < COUNT_OF(bad); i++) {
        REFUSED(LIST, op.list.topic = bad[i]);
        REFUSED(SUBSCRIBE, op.subscription.topic = bad[i]);
        REFUSED(UPDATE, op.update.topic = bad[i]);
    }
    REFUSED(RESTORE, exported.topic[0] = 0);
    REFUSED(RESTORE, exported.topic[0] = ' ');
    REFUSED(RESTORE, memset(exported.topic, 'a', sizeof(exported.topic)));
}

/* ---- putting ---- */

static void put_arguments_are_checked(void **state)
{
    (void)state;
    static char key[BIDE_KEY_MAX + 1];
    static char body[101];
    REFUSED(PUT, op.put.body = (bide_slice){NULL, 1});
    REFUSED_AS(BIDE_TOO_BIG, PUT, op.put.body = (bide_slice){body, 101});
    TAKEN(PUT, op.put.body = (bide_slice){body, 100});
    TAKEN(PUT, op.put.body = (bide_slice){NULL, 0});
    TAKEN(PUT, op.put.options = NULL);
    REFUSED(PUT, options.size = 0);
    REFUSED(PUT, options.size++);
    REFUSED(PUT, options.conflict = (bide_conflict)3);
    REFUSED(PUT, options.conflict = (bide_conflict)-1);
    REFUSED(PUT, options.delay_ms = 1, options.run_at_ms = 1);
    REFUSED(PUT, options.max_retries = -3);
    TAKEN(PUT, options.max_retries = BIDE_NO_DEFAULT);
    TAKEN(PUT, options.ttr_ms = BIDE_NO_DEFAULT);
    TAKEN(PUT, options.expires_at_ms = BIDE_NO_DEFAULT);
    REFUSED(PUT, options.fallbacks = 2);
    REFUSED(PUT, options.delay_ms = -1);
    REFUSED(PUT, options.delay_ms = TOO_LONG);
    TAKEN(PUT, options.delay_ms = BIDE_TIME_MAX_MS);
    REFUSED(PUT, options.run_at_ms = -1);
    REFUSED(PUT, options.run_at_ms = TOO_LATE);
    REFUSED(PUT, options.run_at_ms = YEAR_2000 - 1); /* given in seconds, most likely */
    TAKEN(PUT, options.run_at_ms = YEAR_2000);
    REFUSED(PUT, options.ttr_ms = -1);
    REFUSED(PUT, options.ttr_ms = TOO_LONG);
    REFUSED(PUT, options.backoff_base_ms = -1);
    REFUSED(PUT, options.backoff_base_ms = INT64_MAX);
    REFUSED(PUT, options.backoff_max_ms = INT64_MIN);
    REFUSED(PUT, options.backoff_max_ms = TOO_LONG);
    REFUSED(PUT, options.expires_at_ms = -1);
    REFUSED(PUT, options.expires_at_ms = TOO_LATE);
    REFUSED(PUT, options.expires_at_ms = 1);
    REFUSED(PUT, options.retain_ms = -1);
    REFUSED(PUT, options.retain_ms = TOO_LONG);
    REFUSED(PUT, options.key = (bide_slice){NULL, 1});
    REFUSED(PUT, options.key = (bide_slice){key, sizeof(key)});
    TAKEN(PUT, options.key = (bide_slice){key, BIDE_KEY_MAX});
}

static void size_of_a_buffer_is_checked_instead_of_the_body(void **state)
{
    (void)state;
    char bytes[101] = {0};
    bide_buf *fits = bide_buf_new(bytes, 100);
    bide_buf *large = bide_buf_new(bytes, 101);
    TAKEN(PUT, op.put.buf = fits, op.put.body = (bide_slice){NULL, 1000});
    REFUSED_AS(BIDE_TOO_BIG, PUT, op.put.buf = large);
    REFUSED_AS(BIDE_TOO_BIG, DONE, op.finish.buf = large);
    bide_buf_unref(fits);
    bide_buf_unref(large);
}

static void put_many_is_rejected_as_a_whole_only_for_its_form(void **state)
{
    (void)state;
    REFUSED(PUT_MANY, op.put_many.items = NULL);
    REFUSED(PUT_MANY, op.put_many.count = 0);
    REFUSED(PUT_MANY, op.put_many.count = BIDE_BATCH_JOBS + 1);
    static char half[BIDE_BATCH_BYTES / 2 + 1];
    REFUSED_AS(BIDE_TOO_BIG, PUT_MANY,
               put_items[0].body = put_items[1].body = (bide_slice){half, sizeof(half)});
    REFUSED_AS(BIDE_TOO_BIG, PUT_MANY,
               put_items[0].body = put_items[1].body = (bide_slice){half, SIZE_MAX});
    TAKEN(PUT_MANY, put_items[1].topic = text("not good"));
    assert_int_equal(put_items[0].status, BIDE_OK);
    assert_int_equal(put_items[1].status, BIDE_EINVAL);
    TAKEN(PUT_MANY, put_items[0].body = (bide_slice){half, 101});
    assert_int_equal(put_items[0].status, BIDE_TOO_BIG);
    assert_int_equal(put_items[1].status, BIDE_OK);
}

static void finish_and_put_is_rejected_as_a_whole(void **state)
{
    (void)state;
    static char result[51];
    REFUSED(FINISH_AND_PUT, op.finish_and_put.items = NULL);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.count = 0);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.count = BIDE_BATCH_JOBS + 1);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.ending = (bide_ending)3);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.ending = (bide_ending)-1);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.priority = -2);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.delay_ms = -1);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.run_at_ms = YEAR_2000 - 1);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.delay_ms = 1,
            op.finish_and_put.run_at_ms = YEAR_2000);
    REFUSED(FINISH_AND_PUT, op.finish_and_put.reason = (bide_slice){NULL, 1});
    REFUSED(FINISH_AND_PUT, op.finish_and_put.finish.retain_ms = -2);
    REFUSED_AS(BIDE_TOO_BIG, FINISH_AND_PUT,
               op.finish_and_put.finish.result = (bide_slice){result, 51});

    REFUSED(FINISH_AND_PUT, put_items[1].topic = text("not good"));
    assert_int_equal(put_items[0].status, BIDE_EINVAL);
    assert_int_equal(put_items[1].status, BIDE_EINVAL);
}

static void restore_arguments_are_checked(void **state)
{
    (void)state;
    static char bytes[BIDE_KEY_MAX + 1];
    REFUSED(RESTORE, op.restore.job = NULL);
    REFUSED(RESTORE, exported.state = BIDE_STATE_GONE);
    REFUSED(RESTORE, exported.state = (bide_state)6);
    REFUSED(RESTORE, exported.body_size = 1);
    REFUSED(RESTORE, exported.last_error_size = 1);
    REFUSED(RESTORE, exported.result_size = 1);
    REFUSED(RESTORE, exported.history_size = 1);
    REFUSED(RESTORE, exported.history = bytes, exported.history_size = sizeof(bytes));
    REFUSED(RESTORE, exported.key_size = 1);
    REFUSED(RESTORE, exported.key = bytes);
    REFUSED(RESTORE, exported.key = bytes, exported.key_size = sizeof(bytes));
    REFUSED(RESTORE, exported.max_retries = -2);
    REFUSED(RESTORE, exported.state = BIDE_STATE_DONE, exported.left_ms = 0);
    TAKEN(RESTORE, exported.state = BIDE_STATE_DONE, exported.left_ms = 1);
    REFUSED_AS(BIDE_TOO_BIG, RESTORE, exported.body = bytes, exported.body_size = 101);
    REFUSED_AS(BIDE_TOO_BIG, RESTORE, exported.result = bytes, exported.result_size = 51);
    int64_t *const moments[] = {&exported.run_at_ms, &exported.expires_at_ms, &exported.created_ms,
                                &exported.ready_ms,  &exported.reserved_ms,   &exported.touched_ms,
                                &exported.buried_ms, &exported.done_ms};
    for (size_t i = 0; i < COUNT_OF(moments); i++) {
        REFUSED(RESTORE, *moments[i] = -1);
        REFUSED(RESTORE, *moments[i] = TOO_LATE);
    }
    int64_t *const durations[] = {&exported.ttr_ms, &exported.left_ms, &exported.backoff_base_ms,
                                  &exported.backoff_max_ms, &exported.retain_ms};
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        REFUSED(RESTORE, *durations[i] = -1);
        REFUSED(RESTORE, *durations[i] = TOO_LONG);
    }
}

/* ---- taking and finishing ---- */

static void reserve_arguments_are_checked(void **state)
{
    (void)state;
    REFUSED(RESERVE, op.reserve.topics = NULL);
    REFUSED(RESERVE, op.reserve.jobs = NULL);
    REFUSED(RESERVE, op.reserve.job_max = 0);
    REFUSED(RESERVE, op.reserve.job_max = BIDE_BATCH_JOBS + 1);
    REFUSED(RESERVE, op.reserve.topic_count = 0);
    REFUSED(RESERVE, op.reserve.topic_count = BIDE_RESERVE_TOPICS + 1);
    REFUSED(RESERVE, op.reserve.strategy = (bide_strategy)4);
    REFUSED(RESERVE, op.reserve.strategy = (bide_strategy)-1);
    REFUSED(RESERVE, op.reserve.timeout_ms = -2);
    REFUSED(RESERVE, op.reserve.timeout_ms = TOO_LONG);
    REFUSED(RESERVE, weights[1] = 0);
    TAKEN(RESERVE, op.reserve.weights = NULL);
    TAKEN(RESERVE, op.reserve.timeout_ms = 0);
    REFUSED(RESERVE_JOB, op.reserve_job.job = NULL);
    REFUSED(FINISH_AND_RESERVE, op.finish_and_reserve.reserve.jobs = NULL);
    REFUSED(FINISH_AND_RESERVE, op.finish_and_reserve.finish.retain_ms = -2);
}

static void finish_arguments_are_checked(void **state)
{
    (void)state;
    static char result[51];
    static char progress[BIDE_PROGRESS_MAX + 1];
    REFUSED(DONE, op.finish.retain_ms = -2);
    REFUSED(DONE, op.finish.retain_ms = TOO_LONG);
    TAKEN(DONE, op.finish.retain_ms = BIDE_KEEP);
    REFUSED(DONE, op.finish.result = (bide_slice){NULL, 1});
    REFUSED_AS(BIDE_TOO_BIG, DONE, op.finish.result = (bide_slice){result, 51});
    REFUSED(FINISH_MANY, op.finish_many.items = NULL);
    REFUSED(FINISH_MANY, op.finish_many.count = 0);
    REFUSED(FINISH_MANY, op.finish_many.count = BIDE_BATCH_JOBS + 1);
    TAKEN(FINISH_MANY, finishes[0].retain_ms = -2);
    assert_int_equal(finishes[0].status, BIDE_EINVAL);
    assert_int_equal(finishes[1].status, BIDE_OK);
    REFUSED(RELEASE, op.release.priority = -2);
    REFUSED(RELEASE, op.release.priority = INT64_C(1) << 32);
    TAKEN(RELEASE, op.release.priority = UINT32_MAX);
    REFUSED(RELEASE, op.release.delay_ms = -1);
    REFUSED(RELEASE, op.release.delay_ms = TOO_LONG);
    REFUSED(FAIL, op.fail.error = (bide_slice){NULL, 1});
    REFUSED(FAIL, op.fail.retry_in_ms = -2);
    REFUSED(FAIL, op.fail.retry_in_ms = TOO_LONG);
    REFUSED(BURY, op.bury.reason = (bide_slice){NULL, 1});
    REFUSED(BURY, op.bury.priority = -2);
    REFUSED(TOUCH, op.touch.extend_ms = -2);
    TAKEN(TOUCH, op.touch.extend_ms = BIDE_KEEP);
    REFUSED(TOUCH, op.touch.extend_ms = TOO_LONG);
    REFUSED(TOUCH, op.touch.progress = (bide_slice){NULL, 1});
    REFUSED_AS(BIDE_TOO_BIG, TOUCH, op.touch.progress = (bide_slice){progress, sizeof(progress)});
    REFUSED(TOUCH_MANY, op.touch_many.items = NULL);
    REFUSED(TOUCH_MANY, op.touch_many.count = 0);
    REFUSED(TOUCH_MANY, op.touch_many.count = BIDE_BATCH_JOBS + 1);
    TAKEN(TOUCH_MANY, touches[1].extend_ms = -2);
    assert_int_equal(touches[0].status, BIDE_OK);
    assert_int_equal(touches[1].status, BIDE_EINVAL);
}

/* ---- from outside, and looking ---- */

static void administrative_op_arguments_are_checked(void **state)
{
    (void)state;
    REFUSED(UPDATE, op.update.priority = -2);
    REFUSED(UPDATE, op.update.priority = INT64_MAX);
    REFUSED(UPDATE, op.update.delay_ms = -2);
    REFUSED(UPDATE, op.update.delay_ms = TOO_LONG);
    REFUSED(UPDATE, op.update.ttr_ms = -2);
    REFUSED(UPDATE, op.update.ttr_ms = TOO_LONG);
    REFUSED(UPDATE, op.update.run_at_ms = -2);
    REFUSED(UPDATE, op.update.run_at_ms = TOO_LATE);
    REFUSED(UPDATE, op.update.delay_ms = 0, op.update.run_at_ms = 0);
    REFUSED(PURGE, op.purge.state = BIDE_STATE_GONE);
    REFUSED(PURGE, op.purge.state = BIDE_STATE_RESERVED);
    REFUSED(PURGE, op.purge.state = (bide_state)6);
    REFUSED(PAUSE, op.topic.for_ms = -2);
    REFUSED(PAUSE, op.topic.for_ms = TOO_LONG);
    REFUSED(TOPIC_REF, op.topic.delta = 0);
    REFUSED(TOPIC_REF, op.topic.delta = 2);
    REFUSED(TOPIC_REF, op.topic.delta = -2);
}

static void query_arguments_are_checked(void **state)
{
    (void)state;
    static char key[BIDE_KEY_MAX + 1];
    REFUSED(PEEK, op.query.job = NULL);
    REFUSED(JOB_STATS, op.query.job = NULL);
    REFUSED(PEEK_FIRST, op.query.job = NULL);
    REFUSED(PEEK_FIRST, op.query.state = BIDE_STATE_GONE);
    REFUSED(PEEK_FIRST, op.query.state = (bide_state)6);
    REFUSED(FIND, op.query.job = NULL);
    REFUSED(FIND, op.query.key = (bide_slice){key, 0});
    REFUSED(FIND, op.query.key = (bide_slice){NULL, 1});
    REFUSED(FIND, op.query.key = (bide_slice){key, sizeof(key)});
    REFUSED(WAIT, op.wait.timeout_ms = -2);
    REFUSED(WAIT, op.wait.timeout_ms = TOO_LONG);
    REFUSED(STATS, op.stats.stats = NULL);
    REFUSED(TOPIC_STATS, op.topic_stats.stats = NULL);
    REFUSED(TOPIC_GET, op.topic_get.policy = NULL);
    REFUSED(TOPIC_GET, op.topic_get.in_force = NULL);
}

static void list_arguments_are_checked(void **state)
{
    (void)state;
    static char key[BIDE_KEY_MAX + 1];
    REFUSED(LIST, op.list.cursor = NULL);
    REFUSED(LIST, memset(cursor, 'x', sizeof(cursor)));
    REFUSED(LIST, op.list.jobs = NULL);
    REFUSED(LIST, op.list.job_max = 0);
    REFUSED(LIST, op.list.job_max = BIDE_BATCH_JOBS + 1);
    REFUSED(LIST, op.list.state = (bide_state)6);
    REFUSED(LIST, op.list.state = (bide_state)-1);
    REFUSED(LIST, op.list.filter.text = (bide_slice){NULL, 1});
    REFUSED(LIST, op.list.filter.key = (bide_slice){key, sizeof(key)});
    REFUSED(LIST, op.list.filter.min_age_ms = -1);
    REFUSED(LIST, op.list.filter.max_age_ms = TOO_LONG);
    TAKEN(LIST, op.list.topic = text("a"));
    REFUSED(TOPICS, op.topics.cursor = NULL);
    REFUSED(TOPICS, op.topics.topics = NULL);
    REFUSED(TOPICS, op.topics.topic_max = 0);
    REFUSED(WAITING, op.topics.topic_max = BIDE_BATCH_JOBS + 1);
    REFUSED(WAITING, memset(cursor, 'x', sizeof(cursor)));
}

static void subscription_arguments_are_checked(void **state)
{
    (void)state;
    REFUSED(SUBSCRIBE, op.subscription.capacity = 1000001);
    TAKEN(SUBSCRIBE, op.subscription.capacity = 1000000);
    REFUSED(SUBSCRIBE, op.subscription.kinds = 1u << BIDE_EVENT_KINDS);
    TAKEN(SUBSCRIBE, op.subscription.kinds = (1u << BIDE_EVENT_KINDS) - 1);
    REFUSED(EVENTS, op.subscription.handle = NULL);
    REFUSED(EVENTS, op.subscription.events = NULL);
    REFUSED(EVENTS, op.subscription.event_max = 0);
    REFUSED(EVENTS, op.subscription.timeout_ms = -2);
    REFUSED(EVENTS, op.subscription.timeout_ms = TOO_LONG);
    REFUSED(UNSUBSCRIBE, op.subscription.handle = NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_valid_op_is_accepted),
        cmocka_unit_test(unknown_op_kind_is_rejected),
        cmocka_unit_test(topic_name_accepts_exactly_the_allowed_bytes),
        cmocka_unit_test(a_topic_name_has_1_to_200_bytes),
        cmocka_unit_test(every_op_with_a_topic_rejects_an_invalid_one),
        cmocka_unit_test(put_arguments_are_checked),
        cmocka_unit_test(size_of_a_buffer_is_checked_instead_of_the_body),
        cmocka_unit_test(put_many_is_rejected_as_a_whole_only_for_its_form),
        cmocka_unit_test(finish_and_put_is_rejected_as_a_whole),
        cmocka_unit_test(restore_arguments_are_checked),
        cmocka_unit_test(reserve_arguments_are_checked),
        cmocka_unit_test(finish_arguments_are_checked),
        cmocka_unit_test(administrative_op_arguments_are_checked),
        cmocka_unit_test(query_arguments_are_checked),
        cmocka_unit_test(list_arguments_are_checked),
        cmocka_unit_test(subscription_arguments_are_checked),
    };
    return cmocka_run_group_tests_name("args", tests, NULL, NULL);
}
