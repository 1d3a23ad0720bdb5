/* SPDX-License-Identifier: MIT */
#include "op/op_codec.h"

#include "op/op_result.h"

#include "random_results.h"

#define ROUNDS 300

static struct op_bytes bytes;
static struct decoded_op call;
static struct op_world world;
static bide_op op;
static uint64_t sent_feed;
static char error[BIDE_ERROR_SIZE];

static int begin(void **state)
{
    (void)state;
    dice.state = 20261115;
    return 0;
}

static int end(void **state)
{
    (void)state;
    bi_op_codec_wire_free_bytes(&bytes);
    return 0;
}

/* The op, as it arrives. */
static void send_op(void)
{
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode(&op, sent_feed, &bytes), BIDE_OK);
    memset(&call, 0xa5, sizeof(call));
    assert_int_equal(bi_op_codec_decode(&call, op.kind, bytes.data, bytes.size, error), BIDE_OK);
}

/* The answer of the op that arrived, as it comes back. */
static void send_answer(uint64_t *feed)
{
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode_result(&call, &bytes), BIDE_OK);
    assert_int_equal(bi_op_codec_decode_result(&op, call.op.status, bytes.data, bytes.size, feed),
                     BIDE_OK);
}

static void every_op_has_a_codec(void **state)
{
    (void)state;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        const char *name = bide_op_name((bide_op_kind)kind);
        assert_int_equal(bi_op_is_kind((bide_op_kind)kind), true);
        assert_int_equal(bi_op_codec_find_kind(name, strlen(name)), kind);
        assert_int_equal(bi_op_codec_find_kind(name, strlen(name) - 1), BIDE_OP_NONE);
    }
    assert_false(bi_op_is_kind(BIDE_OP_NONE));
    assert_false(bi_op_is_kind(BIDE_OP_COUNT));
    assert_int_equal(bi_op_codec_find_kind("", 0), BIDE_OP_NONE);
    assert_int_equal(bi_op_codec_find_kind("PUT", 3), BIDE_OP_NONE);
    assert_int_equal(bi_op_codec_find_kind("put ", 4), BIDE_OP_NONE);
}

static void arguments_of_every_op_round_trip(void **state)
{
    (void)state;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        for (int round = 0; round < ROUNDS; round++) {
            any_op(&world, &op, (bide_op_kind)kind);
            sent_feed = any_u64();
            send_op();
            same_arguments(&op, &call.op);
            if (kind == BIDE_OP_EVENTS || kind == BIDE_OP_UNSUBSCRIBE)
                assert_int_equal(call.feed, sent_feed);
            bi_op_codec_free_op(&call);
            end_op(&world);
        }
    }
}

static void results_of_every_op_round_trip(void **state)
{
    (void)state;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        for (int round = 0; round < ROUNDS; round++) {
            any_op(&world, &op, (bide_op_kind)kind);
            send_op();
            any_answer(&call.op, round % 2 == 0 ? BIDE_OK : other_good_code(call.op.kind));
            send_answer(NULL);
            same_answer(&call.op, &op);
            bi_op_codec_free_op(&call);
            end_answer(&op);
            end_op(&world);
        }
    }
}

static void failed_op_returns_code_text_and_partial_results(void **state)
{
    (void)state;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        for (int round = 0; round < 20; round++) {
            any_op(&world, &op, (bide_op_kind)kind);
            send_op();
            any_answer(&call.op, round % 2 == 0 ? BIDE_EIO : BIDE_CLOSED);
            send_answer(NULL);
            same_answer(&call.op, &op);
            bi_op_codec_free_op(&call);
            end_op(&world);
        }
    }
}

static void failed_op_leaves_success_results_untouched(void **state)
{
    (void)state;
    static struct op_world before;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        any_op(&world, &op, (bide_op_kind)kind);
        send_op();
        any_answer(&call.op, BIDE_EINVAL);
        bool many = kind == BIDE_OP_PUT_MANY || kind == BIDE_OP_FINISH_MANY ||
                    kind == BIDE_OP_TOUCH_MANY || kind == BIDE_OP_FINISH_AND_PUT;
        before = world;
        send_answer(NULL);
        if (!many)
            assert_memory_equal(&before, &world, sizeof(world));
        bi_op_codec_free_op(&call);
        end_op(&world);
    }
}

static void put_of_an_existing_key_returns_the_holders_id(void **state)
{
    (void)state;
    any_op(&world, &op, BIDE_OP_PUT);
    send_op();
    call.op.status = BIDE_EXISTS;
    call.op.put.id = 77;
    send_answer(NULL);
    assert_int_equal(op.put.id, 77);
    assert_int_equal(op.private_.status, BIDE_EXISTS);
    bi_op_codec_free_op(&call);
    end_op(&world);
}

static void subscribe_returns_the_stream_number(void **state)
{
    (void)state;
    uint64_t feed = 0;
    any_op(&world, &op, BIDE_OP_SUBSCRIBE);
    send_op();
    call.feed = 4711;
    call.op.status = BIDE_OK;
    send_answer(&feed);
    assert_int_equal(feed, 4711);
    bi_op_codec_free_op(&call);
    end_op(&world);
}

static void item_rejected_before_sending_keeps_its_status(void **state)
{
    (void)state;
    static const bide_slice topic = {"t", 1};
    bide_put_item items[3] = {
        {.topic = topic, .body = {"a", 1}},
        {.topic = {NULL, 7}, .body = {NULL, 9}, .status = BIDE_EINVAL},
        {.topic = topic, .body = {"c", 1}},
    };
    op = (bide_op){.kind = BIDE_OP_PUT_MANY, .put_many = {items, 3, 0}};
    op.error_item = 2;
    strcpy(op.error, "mine");
    send_op();
    assert_int_equal(call.op.put_many.count, 3);
    assert_int_equal(call.op.put_many.items[1].topic.size, 0);
    for (int i = 0; i < 3; i++) {
        call.op.put_many.items[i].id = 10 + (uint64_t)i;
        call.op.put_many.items[i].status = i == 1 ? BIDE_NOT_FOUND : BIDE_OK;
    }
    call.op.put_many.accepted = 2;
    strcpy(call.op.error, "theirs");
    call.op.error_item = 1;
    call.op.status = BIDE_OK;
    send_answer(NULL);
    assert_int_equal(items[0].id, 10);
    assert_int_equal(items[1].status, BIDE_EINVAL);
    assert_int_equal(items[1].id, 0);
    assert_int_equal(items[2].id, 12);
    assert_string_equal(op.error, "mine");
    assert_int_equal(op.error_item, 2);
    assert_int_equal(op.put_many.accepted, 2);
    bi_op_codec_free_op(&call);
}

static void rejected_item_changes_only_its_status(void **state)
{
    (void)state;
    bide_touch_item touches[2] = {{.id = 1, .left_ms = 77}, {.id = 2, .left_ms = 78}};
    op = (bide_op){.kind = BIDE_OP_TOUCH_MANY, .touch_many = {touches, 2}};
    send_op();
    call.op.touch_many.items[0].status = BIDE_LEASE_LOST;
    call.op.touch_many.items[1].status = BIDE_CANCEL_WANTED;
    call.op.touch_many.items[1].left_ms = 5;
    call.op.status = BIDE_OK;
    send_answer(NULL);
    assert_int_equal(touches[0].status, BIDE_LEASE_LOST);
    assert_int_equal(touches[0].left_ms, 77);
    assert_int_equal(touches[1].status, BIDE_CANCEL_WANTED);
    assert_int_equal(touches[1].left_ms, 5);
    bi_op_codec_free_op(&call);
    bide_put_item puts[2] = {{.id = 9}, {.id = 9}};
    op = (bide_op){.kind = BIDE_OP_PUT_MANY, .put_many = {puts, 2, 0}};
    send_op();
    call.op.put_many.items[0] = (bide_put_item){.status = BIDE_TOO_BIG, .id = 4};
    call.op.put_many.items[1] = (bide_put_item){.status = BIDE_EXISTS, .id = 5};
    call.op.status = BIDE_OK;
    send_answer(NULL);
    assert_int_equal(puts[0].id, 9);
    assert_int_equal(puts[1].id, 5);
    bi_op_codec_free_op(&call);
}

static void error_of_one_item_names_the_item(void **state)
{
    (void)state;
    bide_touch_item items[2] = {{.id = 1}, {.id = 2}};
    op = (bide_op){.kind = BIDE_OP_TOUCH_MANY, .touch_many = {items, 2}};
    send_op();
    call.op.touch_many.items[1].status = BIDE_LEASE_LOST;
    strcpy(call.op.error, "lost");
    call.op.error_item = 2;
    call.op.status = BIDE_OK;
    send_answer(NULL);
    assert_int_equal(items[0].status, BIDE_OK);
    assert_int_equal(items[1].status, BIDE_LEASE_LOST);
    assert_string_equal(op.error, "lost");
    assert_int_equal(op.error_item, 2);
    bi_op_codec_free_op(&call);
}

static void encoded_error_changes_only_the_error_text(void **state)
{
    (void)state;
    any_op(&world, &op, BIDE_OP_FINISH_AND_RESERVE);
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode_error("too many calls", &bytes), BIDE_OK);
    assert_int_equal(bi_op_codec_decode_result(&op, BIDE_EBUSY, bytes.data, bytes.size, NULL),
                     BIDE_OK);
    assert_string_equal(op.error, "too many calls");
    assert_int_equal(op.private_.status, BIDE_EBUSY);
    assert_int_equal(op.finish_and_reserve.finish.status, BIDE_PENDING);
    end_op(&world);
}

static void overlong_error_text_is_truncated(void **state)
{
    (void)state;
    char text[500];
    memset(text, 'x', sizeof(text) - 1);
    text[sizeof(text) - 1] = 0;
    op = (bide_op){.kind = BIDE_OP_PING};
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode_error(text, &bytes), BIDE_OK);
    assert_int_equal(bi_op_codec_decode_result(&op, BIDE_EIO, bytes.data, bytes.size, NULL),
                     BIDE_OK);
    assert_int_equal(strlen(op.error), BIDE_ERROR_SIZE - 1);
}

static void encode_appends(void **state)
{
    (void)state;
    op = (bide_op){.kind = BIDE_OP_DELETE, .lease = {300, 7}};
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode(&op, 0, &bytes), BIDE_OK);
    assert_int_equal(bi_op_codec_encode(&op, 0, &bytes), BIDE_OK);
    static const unsigned char expected[] = {0xac, 2, 7, 0xac, 2, 7};
    assert_int_equal(bytes.size, sizeof(expected));
    assert_memory_equal(bytes.data, expected, sizeof(expected));
}

#define EXPECT(...)                                                  \
    do {                                                             \
        static const unsigned char expected[] = {__VA_ARGS__};       \
        assert_int_equal(bytes.size, sizeof(expected));              \
        assert_memory_equal(bytes.data, expected, sizeof(expected)); \
    } while (0)

/* The examples of docs/PROTOCOL.md. Other clients count on them. */
static void arguments_match_the_documented_bytes(void **state)
{
    (void)state;
    static const bide_slice topic = {"mail", 4};
    op = (bide_op){.kind = BIDE_OP_PUT, .put = {.topic = topic, .body = {"hello", 5}}};
    send_op();
    EXPECT(5, 'm', 'a', 'i', 'l', 0, 6, 'h', 'e', 'l', 'l', 'o');
    bi_op_codec_free_op(&call);
    op = (bide_op){.kind = BIDE_OP_RESERVE};
    op.reserve =
        (bide_reserve_args){.topics = &topic, .topic_count = 1, .timeout_ms = 1000, .job_max = 1};
    send_op();
    EXPECT(1, 5, 'm', 'a', 'i', 'l', 0, 0, 0xd0, 0x0f, 1, 0);
    bi_op_codec_free_op(&call);
}

/* Every field of a job has a number of its own: its place in the answer. */
static void job_matches_the_documented_bytes(void **state)
{
    (void)state;
    op = (bide_op){.kind = BIDE_OP_PEEK};
    send_op();
    *call.op.query.job = (bide_job){.id = 1,
                                    .token = 2,
                                    .topic = "t",
                                    .state = BIDE_STATE_DONE,
                                    .priority = 6,
                                    .body = "b",
                                    .body_size = 1,
                                    .ttr_ms = 8,
                                    .delay_ms = 9,
                                    .left_ms = 10,
                                    .age_ms = 11,
                                    .run_at_ms = 12,
                                    .created_ms = 13,
                                    .ready_ms = 14,
                                    .reserved_ms = 15,
                                    .touched_ms = 16,
                                    .buried_ms = 17,
                                    .done_ms = 18,
                                    .reserves = 19,
                                    .timeouts = 20,
                                    .releases = 21,
                                    .fails = 22,
                                    .buries = 23,
                                    .kicks = 24,
                                    .touches = 25,
                                    .key = "k",
                                    .key_size = 1,
                                    .last_error = "e",
                                    .last_error_size = 1,
                                    .result = "r",
                                    .result_size = 1,
                                    .progress = "p",
                                    .progress_size = 1,
                                    .run_at_wall = true,
                                    .cancel_wanted = true,
                                    .max_retries = 33,
                                    .failures = 34,
                                    .backoff_base_ms = 35,
                                    .backoff_max_ms = 36,
                                    .expires_at_ms = 37,
                                    .retain_ms = 38,
                                    .history = "h",
                                    .history_size = 1,
                                    .holder = "w",
                                    .holder_size = 1};
    call.op.status = BIDE_OK;
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode_result(&call, &bytes), BIDE_OK);
    EXPECT(1, 48, 0, 0, 0, 1, 2, 2, 't', 5, 6, 1, 2, 'b', 16, 18, 20, 22, 24, 26, 28, 30, 32, 34,
           36, 19, 20, 21, 22, 23, 24, 25, 2, 'k', 2, 'e', 2, 'r', 2, 'p', 1, 0, 1, 66, 34, 70, 72,
           74, 76, 2, 'h', 2, 'w');
    bi_op_codec_free_op(&call);
}

static void put_and_delete_allocate_nothing_and_reserve_one_block(void **state)
{
    (void)state;
    static const bide_slice topic = {"email", 5};
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = (bide_slice){"key", 3};
    op = (bide_op){.kind = BIDE_OP_PUT, .put = {.topic = topic, .options = &options}};
    send_op();
    assert_int_equal(call.bytes, 0);
    bi_op_codec_free_op(&call);
    op = (bide_op){.kind = BIDE_OP_DELETE, .lease = {1, 2}};
    send_op();
    assert_int_equal(call.bytes, 0);
    bi_op_codec_free_op(&call);
    op = (bide_op){.kind = BIDE_OP_RESERVE};
    op.reserve = (bide_reserve_args){.topics = &topic, .topic_count = 1, .job_max = 1};
    send_op();
    assert_in_range(call.bytes, sizeof(bide_job), sizeof(bide_job) + 100);
    bi_op_codec_free_op(&call);
}

/* A new field of these structs belongs into the tables, and into the comparisons here. */
static void struct_sizes_match_the_tables(void **state)
{
    (void)state;
    if (sizeof(void *) != 8)
        return;
    assert_int_equal(offsetof(bide_job, room_), 320);
    assert_int_equal(offsetof(bide_counts, room_), 48);
    assert_int_equal(offsetof(bide_counters, room_), 112);
    assert_int_equal(sizeof(bide_put_options), 104);
    assert_int_equal(offsetof(bide_topic_stats, room_), 488);
    assert_int_equal(offsetof(bide_topic_policy, room_), 88);
    assert_int_equal(offsetof(bide_stats, room_), 264);
    assert_int_equal(offsetof(bide_event, room_), 232);
    assert_int_equal(offsetof(bide_recovery, room_), 32);
    assert_int_equal(offsetof(bide_check_report, room_), 224);
    assert_int_equal(offsetof(bide_put_item, room_), 72);
    assert_int_equal(offsetof(bide_finish_item, room_), 72);
    assert_int_equal(offsetof(bide_touch_item, room_), 56);
    assert_int_equal(offsetof(bide_reserve_args, room_), 80);
    assert_int_equal(offsetof(bide_update_args, room_), 56);
    assert_int_equal(offsetof(bide_list_args, room_), 168);
    assert_int_equal(sizeof(bide_kick_args), 40);
    assert_int_equal(sizeof(bide_wait_args), 40);
    assert_int_equal(sizeof(bide_subscription_args), 72);
    assert_int_equal(offsetof(bide_finish_and_put_args, room_), 160);
    assert_int_equal(sizeof(bide_finish_and_reserve_args), 200);
    assert_int_equal(sizeof(bide_topic_args), 32);
    assert_int_equal(sizeof(bide_query_args), 56);
    assert_int_equal(sizeof(bide_fail_args), 64);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_op_has_a_codec),
        cmocka_unit_test(arguments_of_every_op_round_trip),
        cmocka_unit_test(results_of_every_op_round_trip),
        cmocka_unit_test(failed_op_returns_code_text_and_partial_results),
        cmocka_unit_test(failed_op_leaves_success_results_untouched),
        cmocka_unit_test(put_of_an_existing_key_returns_the_holders_id),
        cmocka_unit_test(subscribe_returns_the_stream_number),
        cmocka_unit_test(item_rejected_before_sending_keeps_its_status),
        cmocka_unit_test(rejected_item_changes_only_its_status),
        cmocka_unit_test(error_of_one_item_names_the_item),
        cmocka_unit_test(encoded_error_changes_only_the_error_text),
        cmocka_unit_test(overlong_error_text_is_truncated),
        cmocka_unit_test(encode_appends),
        cmocka_unit_test(arguments_match_the_documented_bytes),
        cmocka_unit_test(job_matches_the_documented_bytes),
        cmocka_unit_test(put_and_delete_allocate_nothing_and_reserve_one_block),
        cmocka_unit_test(struct_sizes_match_the_tables),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
