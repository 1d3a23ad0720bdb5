/* SPDX-License-Identifier: MIT */
#include "cli/flag.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static char error[BI_ERRMSG_SIZE];

/* A reader of 64-bit values reads this text as that. */
static void reads(bi_flag_parse_fn *read, const char *text, uint64_t value)
{
    uint64_t to = 77;
    error[0] = 0;
    if (!read(text, &to, error))
        fail_msg("\"%s\" %s", text, error);
    if (to != value)
        fail_msg("\"%s\" is %llu", text, (unsigned long long)to);
}

/* It refuses the text, says these words, and has written nothing. */
static void refuses(bi_flag_parse_fn *read, const char *text, const char *words)
{
    uint64_t to = 77;
    error[0] = 0;
    if (read(text, &to, error))
        fail_msg("\"%s\" was read as %llu", text, (unsigned long long)to);
    if (strstr(error, words) == NULL)
        fail_msg("\"%s\" %s", text, error);
    assert_int_equal(to, 77);
}

/* Values that no number flag accepts. */
static void refuses_rubbish(bi_flag_parse_fn *read)
{
    static const char *const texts[] = {"",
                                        " ",
                                        "-1",
                                        "+1",
                                        "1 ",
                                        " 1",
                                        "0x10",
                                        "1e3",
                                        "one",
                                        "1.5",
                                        "1,000",
                                        "\xd9\xa1",
                                        "99999999999999999999999999"};
    for (size_t i = 0; i < COUNT_OF(texts); i++)
        refuses(read, texts[i], "is n");
}

static void a_count_is_any_number(void **state)
{
    (void)state;
    reads(bi_flag_parse_count, "0", 0);
    reads(bi_flag_parse_count, "0042", 42);
    reads(bi_flag_parse_count, "18446744073709551615", UINT64_MAX);
    refuses(bi_flag_parse_count, "18446744073709551616", "is not a number");
    refuses_rubbish(bi_flag_parse_count);
}

static void an_id_is_a_number_that_a_job_can_have(void **state)
{
    (void)state;
    reads(bi_flag_parse_id, "1", 1);
    reads(bi_flag_parse_id, "9007199254740991", BIDE_ID_MAX);
    refuses(bi_flag_parse_id, "0", "from 1 to 2^53-1");
    refuses(bi_flag_parse_id, "9007199254740992", "from 1 to 2^53-1");
    refuses_rubbish(bi_flag_parse_id);
}

static void a_priority_has_32_bits(void **state)
{
    (void)state;
    reads(bi_flag_parse_priority, "0", 0);
    reads(bi_flag_parse_priority, "4294967295", UINT32_MAX);
    refuses(bi_flag_parse_priority, "4294967296", "is not a priority");
    refuses_rubbish(bi_flag_parse_priority);
}

static void retries_are_a_number_or_unlimited(void **state)
{
    (void)state;
    reads(bi_flag_parse_retries, "0", 0);
    reads(bi_flag_parse_retries, "2147483647", INT32_MAX);
    reads(bi_flag_parse_retries, "unlimited", (uint64_t)BIDE_NO_RETRY_LIMIT);
    reads(bi_flag_parse_retries, "forever", (uint64_t)BIDE_NO_RETRY_LIMIT);
    refuses(bi_flag_parse_retries, "2147483648", "neither a number of retries nor \"unlimited\"");
    refuses(bi_flag_parse_retries, "Forever", "neither");
    refuses(bi_flag_parse_retries, "Unlimited", "neither");
    refuses_rubbish(bi_flag_parse_retries);
}

static void a_timeout_is_a_duration_or_forever(void **state)
{
    (void)state;
    reads(bi_flag_parse_duration, "1h30m", 5400000);
    refuses(bi_flag_parse_duration, "forever", "is not a valid duration");
    reads(bi_flag_parse_timeout, "1h30m", 5400000);
    reads(bi_flag_parse_timeout, "0", 0);
    reads(bi_flag_parse_timeout, "forever", (uint64_t)BIDE_FOREVER);
    refuses(bi_flag_parse_timeout, "for ever", "is not a valid duration");
    refuses(bi_flag_parse_timeout, "90", "has no unit");
}

static void relative_time_starts_now(void **state)
{
    (void)state;
    int64_t ms = 0;
    int64_t before = (int64_t)time(NULL) * 1000;
    assert_true(bi_flag_parse_time("+1h", &ms, error));
    assert_true(ms >= before + 3600000);
    setenv("TZ", "UTC", 1);
    tzset();
    reads(bi_flag_parse_time, "2026-12-25T00:00", UINT64_C(1798156800000));
    refuses(bi_flag_parse_time, "soon", "is not a valid time");
}

static void a_size_has_units_of_1024(void **state)
{
    (void)state;
    reads(bi_flag_parse_size, "0", 0);
    reads(bi_flag_parse_size, "512", 512);
    reads(bi_flag_parse_size, "512B", 512);
    reads(bi_flag_parse_size, "64KiB", 65536);
    reads(bi_flag_parse_size, "8MiB", 8 << 20);
    reads(bi_flag_parse_size, "1GiB", 1 << 30);
    reads(bi_flag_parse_size, "18446744073709551615", UINT64_MAX);
    reads(bi_flag_parse_size, "17179869183GiB", UINT64_C(17179869183) << 30);
    refuses(bi_flag_parse_size, "17179869184GiB", "is not a size");
    refuses(bi_flag_parse_size, "64KB", "is not a size");
    refuses(bi_flag_parse_size, "64k", "is not a size");
    refuses(bi_flag_parse_size, "KiB", "is not a size");
    refuses(bi_flag_parse_size, "64 KiB", "is not a size");
    refuses(bi_flag_parse_size, "000000000000000000000001x", "is not a size");
    refuses_rubbish(bi_flag_parse_size);
}

static void a_state_is_one_of_five(void **state)
{
    (void)state;
    static const char *const names[] = {"delayed", "ready", "reserved", "buried", "done"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        bide_state read = BIDE_STATE_ANY;
        assert_true(bi_flag_parse_state(names[i], &read, error));
        assert_string_equal(bide_state_name(read), names[i]);
    }
    static const char *const none[] = {"", "gone", "Ready", "read", "ready ", "any"};
    for (size_t i = 0; i < COUNT_OF(none); i++) {
        bide_state read = BIDE_STATE_BURIED;
        assert_false(bi_flag_parse_state(none[i], &read, error));
        assert_int_equal(read, BIDE_STATE_BURIED);
        assert_string_equal(error, "is not a state: delayed, ready, reserved, buried or done");
    }
}

static void text_is_kept_unchanged(void **state)
{
    (void)state;
    const char *text = NULL;
    const char *given = " any\xff text ";
    assert_true(bi_flag_parse_string(given, &text, error));
    assert_ptr_equal(text, given);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_count_is_any_number),
        cmocka_unit_test(an_id_is_a_number_that_a_job_can_have),
        cmocka_unit_test(a_priority_has_32_bits),
        cmocka_unit_test(retries_are_a_number_or_unlimited),
        cmocka_unit_test(a_timeout_is_a_duration_or_forever),
        cmocka_unit_test(relative_time_starts_now),
        cmocka_unit_test(a_size_has_units_of_1024),
        cmocka_unit_test(a_state_is_one_of_five),
        cmocka_unit_test(text_is_kept_unchanged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
