/* SPDX-License-Identifier: MIT */
/* Histories as bytes: what is added, what is cut, and what is not taken for one. */
#include "op/job_history.h"
#include "unit.h"

#include <stdlib.h>
#include <string.h>

static bide_failure failure_of(uint32_t attempt, const char *text)
{
    return (bide_failure){
        .attempt = attempt, .at_ms = 1000 + attempt, .error = {text, strlen(text)}};
}

static bide_buf *add(bide_buf *history, const bide_failure *failure)
{
    bide_buf *added = bi_job_history_add(history, failure);
    assert_non_null(added);
    bide_buf_unref(history);
    return added;
}

static size_t decode(const bide_buf *history, bide_failure *failures)
{
    assert_true(bi_job_history_is_valid(bide_buf_data(history), bide_buf_size(history)));
    return bi_job_history_decode(bide_buf_data(history), bide_buf_size(history), failures);
}

static void no_bytes_are_an_empty_history(void **state)
{
    (void)state;
    bide_failure failures[BIDE_HISTORY_MAX];
    assert_true(bi_job_history_is_valid(NULL, 0));
    assert_int_equal(bi_job_history_decode(NULL, 0, failures), 0);
}

static void every_member_round_trips(void **state)
{
    (void)state;
    const bide_failure failures[] = {
        {.kind = BIDE_FAILURE_RESTARTED, .attempt = UINT32_MAX, .at_ms = BIDE_TIMESTAMP_MAX_MS},
        {.holder = {"holder", 6}, .error = {"error", 5}},
        {.kind = BIDE_FAILURE_BURIED, .attempt = 1, .at_ms = 1, .holder = {"\0", 1}},
    };
    bide_buf *history = NULL;
    for (size_t i = 0; i < COUNT_OF(failures); i++)
        history = add(history, &failures[i]);
    bide_failure got[BIDE_HISTORY_MAX];
    assert_int_equal(decode(history, got), COUNT_OF(failures));
    for (size_t i = 0; i < COUNT_OF(failures); i++) {
        assert_int_equal(got[i].kind, failures[i].kind);
        assert_int_equal(got[i].attempt, failures[i].attempt);
        assert_int_equal(got[i].at_ms, failures[i].at_ms);
        assert_int_equal(got[i].holder.size, failures[i].holder.size);
        assert_int_equal(got[i].error.size, failures[i].error.size);
    }
    assert_memory_equal(got[1].holder.data, "holder", 6);
    assert_memory_equal(got[1].error.data, "error", 5);
    bide_buf_unref(history);
}

static void bytes_match_the_documented_format(void **state)
{
    (void)state;
    static const unsigned char expected[] = {1, 0xc8, 0x68, 0xe5, 0xcf, 0x8b, 1,   0,   2,   0,  0,
                                             0, 3,    0,    2,    0,    'a',  'd', 'a', 'n', 'o'};
    const bide_failure failure = {.kind = BIDE_FAILURE_BURIED,
                                  .attempt = 2,
                                  .at_ms = 1700000000200,
                                  .holder = {"ada", 3},
                                  .error = {"no", 2}};
    bide_buf *history = add(NULL, &failure);
    assert_int_equal(bide_buf_size(history), sizeof(expected));
    assert_memory_equal(bide_buf_data(history), expected, sizeof(expected));
    bide_buf_unref(history);
}

static void oldest_failure_is_dropped_whatever_its_size(void **state)
{
    (void)state;
    static char text[BIDE_FAILURE_TEXT_MAX + 1];
    bide_failure got[BIDE_HISTORY_MAX];
    bide_buf *history = NULL;
    memset(text, 'x', sizeof(text) - 1);
    for (uint32_t i = 1; i <= 100; i++) {
        bide_failure failure = failure_of(i, text + i * 37 % sizeof(text));
        history = add(history, &failure);
        size_t count = decode(history, got);
        assert_int_equal(count, i < BIDE_HISTORY_MAX ? i : BIDE_HISTORY_MAX);
        for (size_t j = 0; j < count; j++)
            assert_int_equal(got[j].attempt, i - count + j + 1);
        assert_int_equal(got[count - 1].error.size, failure.error.size);
        assert_in_range(bide_buf_size(history), 1, BI_JOB_HISTORY_SIZE);
    }
    bide_buf_unref(history);
}

static void holder_and_error_share_the_room_of_a_failure(void **state)
{
    (void)state;
    static char text[2 * BIDE_FAILURE_TEXT_MAX];
    bide_failure got[BIDE_HISTORY_MAX];
    memset(text, 'x', sizeof(text));
    static const struct {
        size_t holder, error, kept_holder, kept_error;
    } cases[] = {
        {0, 384, 0, 384},   {0, 385, 0, 384}, {10, 374, 10, 374},
        {10, 375, 10, 374}, {384, 1, 384, 0}, {768, 768, 384, 0},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        const bide_failure failure = {.holder = {text, cases[i].holder},
                                      .error = {text, cases[i].error}};
        bide_buf *history = add(NULL, &failure);
        assert_int_equal(decode(history, got), 1);
        assert_int_equal(got[0].holder.size, cases[i].kept_holder);
        assert_int_equal(got[0].error.size, cases[i].kept_error);
        bide_buf_unref(history);
    }
}

static void every_cut_of_a_history_is_malformed(void **state)
{
    (void)state;
    bide_failure failure = failure_of(1, "some text"), got[BIDE_HISTORY_MAX];
    bide_buf *history = add(add(NULL, &failure), &failure);
    size_t record = bide_buf_size(history) / 2;
    for (size_t size = 0; size <= 2 * record; size++) {
        /* In a block of its own: a read beyond the end is found by the sanitizer. */
        void *bytes = malloc(size + (size == 0));
        assert_non_null(bytes);
        memcpy(bytes, bide_buf_data(history), size);
        assert_int_equal(bi_job_history_is_valid(bytes, size), size % record == 0);
        assert_int_equal(bi_job_history_decode(bytes, size, got), size / record);
        free(bytes);
    }
    bide_buf_unref(history);
}

static void random_bytes_are_decoded_within_their_bounds(void **state)
{
    (void)state;
    unsigned char bytes[200];
    bide_failure got[BIDE_HISTORY_MAX];
    srand(1);
    for (int i = 0; i < 20000; i++) {
        size_t size = (size_t)rand() % sizeof(bytes);
        /* Mostly zeros, so that many records are valid. */
        for (size_t j = 0; j < size; j++)
            bytes[j] = rand() % 4 == 0 ? (unsigned char)rand() % 8 : 0;
        size_t count = bi_job_history_decode(bytes, size, got), used = 0;
        assert_in_range(count, 0, BIDE_HISTORY_MAX);
        for (size_t j = 0; j < count; j++)
            used += BI_JOB_HISTORY_HEADER + got[j].holder.size + got[j].error.size;
        assert_in_range(used, 0, size);
        assert_int_equal(bi_job_history_is_valid(bytes, size), used == size);
    }
}

static bool fails_malloc;

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_malloc(size_t size)
{
    return fails_malloc ? NULL : __real_malloc(size);
}

static void without_memory_nothing_is_added(void **state)
{
    (void)state;
    bide_failure failure = failure_of(1, "text"), got[BIDE_HISTORY_MAX];
    bide_buf *history = add(NULL, &failure);
    fails_malloc = true;
    bide_buf *added = bi_job_history_add(history, &failure);
    fails_malloc = false;
    assert_null(added);
    assert_int_equal(decode(history, got), 1);
    bide_buf_unref(history);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_bytes_are_an_empty_history),
        cmocka_unit_test(every_member_round_trips),
        cmocka_unit_test(bytes_match_the_documented_format),
        cmocka_unit_test(oldest_failure_is_dropped_whatever_its_size),
        cmocka_unit_test(holder_and_error_share_the_room_of_a_failure),
        cmocka_unit_test(every_cut_of_a_history_is_malformed),
        cmocka_unit_test(random_bytes_are_decoded_within_their_bounds),
        cmocka_unit_test(without_memory_nothing_is_added),
    };
    return cmocka_run_group_tests_name("job_history", tests, NULL, NULL);
}
