/* SPDX-License-Identifier: MIT */
/* Invalid bytes: each input is rejected or makes an op, and neither uses much memory. */
#include "op/op_codec.h"

#include "random_results.h"

#include <stdio.h>

static struct op_bytes bytes;
static struct decoded_op call;
static struct op_world world;
static bide_op op;
static char error[BIDE_ERROR_SIZE];

static int begin(void **state)
{
    (void)state;
    dice.state = 977;
    return 0;
}

static int end(void **state)
{
    (void)state;
    bi_op_codec_wire_free_bytes(&bytes);
    return 0;
}

/* Copies bytes to memory that ends with them, so that a sanitizer detects an overread. */
static int decode(bide_op_kind kind, const void *data, size_t size)
{
    unsigned char *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, data, size);
    error[0] = 0;
    int code = bi_op_codec_decode(&call, kind, copy, size, error);
    if (code == BIDE_OK)
        bi_op_codec_free_op(&call);
    else
        assert_string_not_equal(error, "");
    free(copy);
    return code;
}

static int decode_result(int code, const void *data, size_t size)
{
    unsigned char *copy = malloc(size + (size == 0));
    assert_non_null(copy);
    if (size > 0)
        memcpy(copy, data, size);
    int answer = bi_op_codec_decode_result(&op, code, copy, size, NULL);
    free(copy);
    return answer;
}

#define DECODE(kind, ...) \
    decode(kind, (const unsigned char[]){__VA_ARGS__}, sizeof((const unsigned char[]){__VA_ARGS__}))

static void truncated_arguments_are_rejected_or_defaulted(void **state)
{
    (void)state;
    size_t refused = 0;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        for (int round = 0; round < 5; round++) {
            any_op(&world, &op, (bide_op_kind)kind);
            bytes.size = 0;
            assert_int_equal(bi_op_codec_encode(&op, 5, &bytes), BIDE_OK);
            for (size_t size = 0; size < bytes.size; size++) {
                int code = decode((bide_op_kind)kind, bytes.data, size);
                assert_true(code == BIDE_OK || code == BIDE_EINVAL);
                refused += code == BIDE_EINVAL;
            }
            end_op(&world);
        }
    }
    assert_true(refused > 0);
}

static void truncated_results_are_rejected_or_defaulted(void **state)
{
    (void)state;
    size_t refused = 0;
    static struct op_bytes arguments;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        any_op(&world, &op, (bide_op_kind)kind);
        arguments.size = bytes.size = 0;
        assert_int_equal(bi_op_codec_encode(&op, 5, &arguments), BIDE_OK);
        assert_int_equal(bi_op_codec_decode(&call, op.kind, arguments.data, arguments.size, error),
                         BIDE_OK);
        any_answer(&call.op, BIDE_OK);
        assert_int_equal(bi_op_codec_encode_result(&call, &bytes), BIDE_OK);
        for (size_t size = 0; size < bytes.size; size++) {
            bide_op asked = op;
            int code = decode_result(BIDE_OK, bytes.data, size);
            assert_true(code == BIDE_OK || code == BIDE_EINVAL);
            refused += code == BIDE_EINVAL;
            if (code == BIDE_OK)
                end_answer(&op);
            for (size_t i = 0; i < LIST_MAX; i++) {
                bide_job_clear(&world.jobs[i]);
                bide_announced_clear(&world.workers[i]);
            }
            op = asked;
        }
        bi_op_codec_free_op(&call);
        end_op(&world);
    }
    bi_op_codec_wire_free_bytes(&arguments);
    assert_true(refused > 0);
}

static void missing_fields_are_zero(void **state)
{
    (void)state;
    error[0] = 0;
    assert_int_equal(bi_op_codec_decode(&call, BIDE_OP_LIST, NULL, 0, error), BIDE_OK);
    assert_string_equal(call.op.list.cursor, "");
    assert_null(call.op.list.jobs);
    assert_int_equal(call.op.list.job_max, 0);
    assert_int_equal(call.op.list.filter.after_id, 0);
    bi_op_codec_free_op(&call);
    assert_int_equal(bi_op_codec_decode(&call, BIDE_OP_KICK, NULL, 0, error), BIDE_OK);
    assert_false(call.op.kick.buried_only);
    bi_op_codec_free_op(&call);
    assert_int_equal(bi_op_codec_decode(&call, BIDE_OP_FINISH_AND_RESERVE, "", 0, error), BIDE_OK);
    assert_int_equal(call.op.finish_and_reserve.reserve.topic_count, 0);
    assert_null(call.op.finish_and_reserve.finish.result.data);
    bi_op_codec_free_op(&call);
    op = (bide_op){.kind = BIDE_OP_KICK, .kick.count = 9};
    assert_int_equal(decode_result(BIDE_OK, "", 0), BIDE_OK);
    assert_int_equal(op.kick.count, 0);
}

static void bytes_after_the_last_field_are_ignored(void **state)
{
    (void)state;
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++) {
        any_op(&world, &op, (bide_op_kind)kind);
        bytes.size = 0;
        assert_int_equal(bi_op_codec_encode(&op, 5, &bytes), BIDE_OK);
        assert_int_equal(bi_op_codec_encode_error("from the future", &bytes), BIDE_OK);
        assert_int_equal(bi_op_codec_decode(&call, op.kind, bytes.data, bytes.size, error),
                         BIDE_OK);
        same_arguments(&op, &call.op);
        bi_op_codec_free_op(&call);
        end_op(&world);
    }
}

static void unknown_fields_of_an_item_are_ignored(void **state)
{
    (void)state;
    /* two items: id 1, token 2, extend_ms 0, no progress, then three bytes that mean nothing yet */
    static const unsigned char two[] = {2, 7, 0, 0, 0, 1, 2, 0, 0, 9, 9, 9, 4, 0, 0, 0, 3, 4, 0, 0};
    assert_int_equal(bi_op_codec_decode(&call, BIDE_OP_TOUCH_MANY, two, sizeof(two), error),
                     BIDE_OK);
    assert_int_equal(call.op.touch_many.count, 2);
    assert_int_equal(call.op.touch_many.items[0].id, 1);
    assert_int_equal(call.op.touch_many.items[0].token, 2);
    assert_int_equal(call.op.touch_many.items[1].id, 3);
    assert_int_equal(call.op.touch_many.items[1].token, 4);
    bi_op_codec_free_op(&call);
}

static void random_bytes_decode_or_are_rejected(void **state)
{
    (void)state;
    size_t refused = 0;
    size_t taken = 0;
    for (int round = 0; round < 40000; round++) {
        unsigned char random_input[64];
        size_t size = below(sizeof(random_input));
        for (size_t i = 0; i < size; i++)
            random_input[i] = (unsigned char)(below(3) == 0 ? below(256) : below(6));
        bide_op_kind kind = (bide_op_kind)(BIDE_OP_NONE + 1 + below(BIDE_OP_COUNT - 1));
        if (!bi_op_is_kind(kind))
            continue;
        int code = decode(kind, random_input, size);
        assert_true(code == BIDE_OK || code == BIDE_EINVAL);
        *(code == BIDE_OK ? &taken : &refused) += 1;
    }
    assert_true(refused > 1000 && taken > 1000);
}

static void damaged_result_leaks_no_job(void **state)
{
    (void)state;
    for (int round = 0; round < 3000; round++) {
        any_op(&world, &op, round % 2 == 0 ? BIDE_OP_RESERVE : BIDE_OP_WAIT);
        bytes.size = 0;
        assert_int_equal(bi_op_codec_encode(&op, 0, &bytes), BIDE_OK);
        assert_int_equal(bi_op_codec_decode(&call, op.kind, bytes.data, bytes.size, error),
                         BIDE_OK);
        any_answer(&call.op, BIDE_OK);
        bytes.size = 0;
        assert_int_equal(bi_op_codec_encode_result(&call, &bytes), BIDE_OK);
        bytes.data[below(bytes.size)] ^= (unsigned char)(1 + below(255));
        int code = decode_result(BIDE_OK, bytes.data, bytes.size);
        assert_true(code == BIDE_OK || code == BIDE_EINVAL);
        if (code == BIDE_OK)
            end_answer(&op);
        else
            for (size_t i = 0; op.kind == BIDE_OP_RESERVE && i < LIST_MAX; i++)
                assert_null(world.jobs[i].bufs_[0]);
        bi_op_codec_free_op(&call);
        end_op(&world);
    }
}

static void out_of_range_numbers_are_rejected(void **state)
{
    (void)state;
    /* the longest that fits, one bit more, one byte more */
    assert_int_equal(DECODE(BIDE_OP_BODY, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
                     BIDE_OK);
    assert_int_equal(DECODE(BIDE_OP_BODY, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 2),
                     BIDE_EINVAL);
    assert_int_equal(
        DECODE(BIDE_OP_BODY, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0x80, 0),
        BIDE_EINVAL);
    /* drain: neither on nor off; subscribe: kinds of 33 bits; topic_ref: a delta of 33 bits */
    assert_int_equal(DECODE(BIDE_OP_DRAIN, 2), BIDE_EINVAL);
    assert_int_equal(DECODE(BIDE_OP_SUBSCRIBE, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), BIDE_OK);
    assert_int_equal(DECODE(BIDE_OP_SUBSCRIBE, 0, 0xff, 0xff, 0xff, 0xff, 0x1f), BIDE_EINVAL);
    assert_int_equal(DECODE(BIDE_OP_TOPIC_REF, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f), BIDE_OK);
    assert_int_equal(DECODE(BIDE_OP_TOPIC_REF, 0, 0, 0x80, 0x80, 0x80, 0x80, 0x10), BIDE_EINVAL);
}

static void counts_and_lengths_are_bounds_checked(void **state)
{
    (void)state;
    static unsigned char many[8000];
    /* 1,000 items are named, and 500 have room; 1,001 have it, and 1,000 are allowed */
    memset(many, 0, sizeof(many));
    many[0] = 0xe8, many[1] = 7;
    assert_int_equal(decode(BIDE_OP_TOUCH_MANY, many, 2002), BIDE_EINVAL);
    assert_int_equal(decode(BIDE_OP_TOUCH_MANY, many, 4002), BIDE_OK);
    many[0] = 0xe9;
    assert_int_equal(decode(BIDE_OP_TOUCH_MANY, many, 5000), BIDE_EINVAL);
    /* topics: a million of them; jobs: 1,001; events: 10,001 */
    assert_int_equal(DECODE(BIDE_OP_RESERVE, 0xc0, 0x84, 0x3d, 1, 1, 1), BIDE_EINVAL);
    assert_int_equal(DECODE(BIDE_OP_RESERVE, 0, 0, 0, 0, 0xe8, 7), BIDE_OK);
    assert_int_equal(DECODE(BIDE_OP_RESERVE, 0, 0, 0, 0, 0xe9, 7), BIDE_EINVAL);
    assert_int_equal(DECODE(BIDE_OP_EVENTS, 0, 0, 0x90, 0x4e), BIDE_OK);
    assert_int_equal(DECODE(BIDE_OP_EVENTS, 0, 0, 0x91, 0x4e), BIDE_EINVAL);
    /* a text of 2^64-2 bytes; a struct of 2^32-1; weights that are not there */
    assert_int_equal(DECODE(BIDE_OP_KICK, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1),
                     BIDE_EINVAL);
    assert_int_equal(DECODE(BIDE_OP_PUT, 0, 1, 0xff, 0xff, 0xff, 0xff, 0), BIDE_EINVAL);
    assert_int_equal(DECODE(BIDE_OP_RESERVE, 2, 2, 'a', 2, 'b', 1, 1), BIDE_EINVAL);
    assert_int_equal(DECODE(BIDE_OP_RESERVE, 2, 2, 'a', 2, 'b', 1, 1, 1), BIDE_OK);
}

static void overlong_text_and_nul_bytes_are_rejected(void **state)
{
    (void)state;
    unsigned char topics[70] = {65, [64] = 'x'};
    memset(topics + 1, 'x', 64);
    assert_int_equal(decode(BIDE_OP_TOPICS, topics, 66), BIDE_EINVAL);
    topics[0] = 64; /* 63 bytes */
    assert_int_equal(decode(BIDE_OP_TOPICS, topics, 64), BIDE_OK);
    topics[9] = 0;
    assert_int_equal(decode(BIDE_OP_TOPICS, topics, 64), BIDE_EINVAL);
}

static void add_text(unsigned char *to, size_t *at, char byte, size_t size)
{
    to[(*at)++] = (unsigned char)((size + 1) | 0x80);
    to[(*at)++] = (unsigned char)((size + 1) >> 7);
    memset(to + *at, byte, size);
    *at += size;
}

static void texts_of_a_newer_server_are_cut(void **state)
{
    (void)state;
    enum { NUMBERS = 15, AT_STRUCT = 1 };
    unsigned char result[4000] = {0};
    size_t at = AT_STRUCT + 4 + NUMBERS;
    bide_explanation why;
    add_text(result, &at, 't', 0);
    add_text(result, &at, 'h', BIDE_HOLDER_MAX + 1);
    add_text(result, &at, 'e', 999);
    add_text(result, &at, 's', 1999);
    memcpy(&result[at - 1999 + BIDE_WHY_TEXT_SIZE - 2], "\xe2\x82\xac",
           3); /* the room ends in it */
    size_t size = at - AT_STRUCT - 4;
    result[AT_STRUCT] = (unsigned char)size;
    result[AT_STRUCT + 1] = (unsigned char)(size >> 8);

    memset(&why, 0x5a, sizeof(why));
    op = (bide_op){.kind = BIDE_OP_WHY, .why = {.id = 1, .why = &why}};
    assert_int_equal(decode_result(BIDE_OK, result, at), BIDE_OK);
    assert_string_equal(why.topic, "");
    assert_int_equal(strlen(why.holder), BIDE_HOLDER_MAX);
    assert_int_equal(strspn(why.error, "e"), BIDE_WHY_ERROR_SIZE - 1);
    assert_int_equal(strspn(why.text, "s"), BIDE_WHY_TEXT_SIZE - 2);
    assert_int_equal(why.text[BIDE_WHY_TEXT_SIZE - 2], 0);
}

/* Whatever a server sends, who shows the name of a topic need not look at it. */
static int decode_job_of(const char *topic)
{
    any_op(&world, &op, BIDE_OP_JOB_STATS);
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode(&op, 0, &bytes), BIDE_OK);
    assert_int_equal(bi_op_codec_decode(&call, op.kind, bytes.data, bytes.size, error), BIDE_OK);
    any_answer(&call.op, BIDE_OK);
    snprintf(call.op.query.job->topic, sizeof(call.op.query.job->topic), "%s", topic);
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode_result(&call, &bytes), BIDE_OK);
    int code = decode_result(BIDE_OK, bytes.data, bytes.size);
    if (code == BIDE_OK)
        end_answer(&op);
    bi_op_codec_free_op(&call);
    end_op(&world);
    return code;
}

static void topic_name_with_control_bytes_is_rejected(void **state)
{
    (void)state;
    assert_int_equal(decode_job_of("email"), BIDE_OK);
    assert_int_equal(decode_job_of("e\x1b[31mmail"), BIDE_EINVAL);
    assert_int_equal(decode_job_of("two\nlines"), BIDE_EINVAL);
    assert_int_equal(decode_job_of("\xc2\x9b"), BIDE_EINVAL);
}

static void reserve_result_has_between_one_and_job_max_jobs(void **state)
{
    (void)state;
    any_op(&world, &op, BIDE_OP_RESERVE);
    op.reserve.job_max = 1;
    assert_int_equal(decode_result(BIDE_OK, (const unsigned char[]){1, 0}, 2), BIDE_EINVAL);
    assert_int_equal(decode_result(BIDE_OK, "", 0), BIDE_EINVAL);
    static const unsigned char two[] = {1, 2, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(decode_result(BIDE_OK, two, sizeof(two)), BIDE_EINVAL);
    static const unsigned char one[] = {1, 1, 1, 0, 0, 0, 42};
    assert_int_equal(decode_result(BIDE_OK, one, sizeof(one)), BIDE_OK);
    assert_int_equal(op.reserve.count, 1);
    assert_int_equal(world.jobs[0].id, 42);
    end_op(&world);
}

static void result_with_missing_items_is_rejected(void **state)
{
    (void)state;
    bide_finish_item items[2] = {{.id = 1}, {.id = 2}};
    op = (bide_op){.kind = BIDE_OP_FINISH_MANY, .finish_many = {items, 2}};
    static const unsigned char one[] = {1, 1, 0, 0, 0, 0};
    assert_int_equal(decode_result(BIDE_OK, one, sizeof(one)), BIDE_EINVAL);
    static const unsigned char three[] = {1, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0};
    assert_int_equal(decode_result(BIDE_OK, three, sizeof(three)), BIDE_EINVAL);
}

static void pending_result_is_rejected(void **state)
{
    (void)state;
    op = (bide_op){.kind = BIDE_OP_PING};
    assert_int_equal(decode_result(BIDE_PENDING, "", 0), BIDE_EINVAL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(truncated_arguments_are_rejected_or_defaulted),
        cmocka_unit_test(truncated_results_are_rejected_or_defaulted),
        cmocka_unit_test(missing_fields_are_zero),
        cmocka_unit_test(bytes_after_the_last_field_are_ignored),
        cmocka_unit_test(unknown_fields_of_an_item_are_ignored),
        cmocka_unit_test(random_bytes_decode_or_are_rejected),
        cmocka_unit_test(damaged_result_leaks_no_job),
        cmocka_unit_test(out_of_range_numbers_are_rejected),
        cmocka_unit_test(counts_and_lengths_are_bounds_checked),
        cmocka_unit_test(overlong_text_and_nul_bytes_are_rejected),
        cmocka_unit_test(texts_of_a_newer_server_are_cut),
        cmocka_unit_test(topic_name_with_control_bytes_is_rejected),
        cmocka_unit_test(reserve_result_has_between_one_and_job_max_jobs),
        cmocka_unit_test(result_with_missing_items_is_rejected),
        cmocka_unit_test(pending_result_is_rejected),
    };
    return cmocka_run_group_tests(tests, begin, end);
}
