/* SPDX-License-Identifier: MIT */
#include "queue/queue.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

static bide_options resolved;

static int resolve(const bide_options *given, const char *params)
{
    char text[512];
    struct bi_url url;
    const char *reason;
    snprintf(text, sizeof(text), "memory:?%s", params);
    assert_true(bi_url_parse(&url, text, &reason));
    bi_last_error_clear();
    return bi_options_resolve(given, &url, &resolved);
}

static void accept(const char *params)
{
    if (resolve(NULL, params) != BIDE_OK)
        fail_msg("%s: %s", params, bide_last_error());
}

static void refuse(const char *params, const char *because)
{
    if (resolve(NULL, params) != BIDE_EINVAL)
        fail_msg("%s was taken", params);
    if (strstr(bide_last_error(), because) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", params, bide_last_error(), because);
}

static void unset_options_have_defaults(void **state)
{
    (void)state;
    accept("");
    assert_int_equal(resolved.default_ttr_ms, 60000);
    assert_int_equal(resolved.max_job_size, 65535);
    assert_int_equal(resolved.max_result_size, 65536);
    assert_int_equal(resolved.max_error_size, 1024);
    assert_int_equal(resolved.max_touches, 0);
    assert_int_equal(resolved.max_touch_total_ms, 0);
    assert_int_equal(resolved.min_touch_interval_ms, 0);
    assert_int_equal(resolved.max_topics, 1000000);
    assert_int_equal(resolved.max_waiters, 100000);
    assert_int_equal(resolved.max_jobs_per_topic, 0);
    assert_int_equal(resolved.max_done_per_topic, 10000);
    assert_int_equal(resolved.max_memory, 0);
    assert_int_equal(resolved.max_pending_ops, 100000);
    assert_int_equal(resolved.max_pending_bytes, 64 << 20);
    assert_int_equal(resolved.topic_cleanup, 0);
    assert_int_equal(resolved.ticker, BIDE_TICKER_DYNAMIC);
    assert_int_equal(resolved.ticker_min_ms, 0);
    assert_int_equal(resolved.ticker_max_ms, 0);
    assert_int_equal(resolved.wheel_tick_ms, 10);
    assert_int_equal(resolved.wheel_slots, 512);
    assert_int_not_equal(resolved.seed, 0);
}

static void every_option_is_a_url_parameter(void **state)
{
    (void)state;
    accept("default_ttr=90s&max_job_size=1MiB&max_result_size=2KiB&max_error_size=3B&max_touches=4"
           "&max_touch_total=5m&min_touch_interval=6ms&max_topics=7&max_waiters=8"
           "&max_jobs_per_topic=9&max_done_per_topic=10&max_memory=11GiB&max_pending_ops=12"
           "&max_pending_bytes=13&topic_cleanup=off&ticker=wheel&ticker_min=14&ticker_max=15h"
           "&wheel_tick=16ms&wheel_slots=17&seed=18");
    assert_int_equal(resolved.default_ttr_ms, 90000);
    assert_int_equal(resolved.max_job_size, 1 << 20);
    assert_int_equal(resolved.max_result_size, 2048);
    assert_int_equal(resolved.max_error_size, 3);
    assert_int_equal(resolved.max_touches, 4);
    assert_int_equal(resolved.max_touch_total_ms, 300000);
    assert_int_equal(resolved.min_touch_interval_ms, 6);
    assert_int_equal(resolved.max_topics, 7);
    assert_int_equal(resolved.max_waiters, 8);
    assert_int_equal(resolved.max_jobs_per_topic, 9);
    assert_int_equal(resolved.max_done_per_topic, 10);
    assert_int_equal(resolved.max_memory, UINT64_C(11) << 30);
    assert_int_equal(resolved.max_pending_ops, 12);
    assert_int_equal(resolved.max_pending_bytes, 13);
    assert_int_equal(resolved.topic_cleanup, -1);
    assert_int_equal(resolved.ticker, BIDE_TICKER_WHEEL);
    assert_int_equal(resolved.ticker_min_ms, 14);
    assert_int_equal(resolved.ticker_max_ms, 54000000);
    assert_int_equal(resolved.wheel_tick_ms, 16);
    assert_int_equal(resolved.wheel_slots, 17);
    assert_int_equal(resolved.seed, 18);
}

static void every_unit_of_time_and_size_is_known(void **state)
{
    (void)state;
    static const struct {
        const char *text;
        int64_t ms;
    } durations[] = {
        {"7", 7},         {"7ms", 7},        {"7s", 7000},   {"7m", 420000},
        {"7h", 25200000}, {"7d", 604800000}, {"007s", 7000}, {"4294967295s", BIDE_TIME_MAX_MS}};
    static const struct {
        const char *text;
        uint64_t bytes;
    } sizes[] = {{"5", 5}, {"5B", 5}, {"5KiB", 5120}, {"5MiB", 5 << 20}, {"1GiB", 1 << 30}};
    char param[64];
    for (size_t i = 0; i < COUNT_OF(durations); i++) {
        snprintf(param, sizeof(param), "default_ttr=%s", durations[i].text);
        accept(param);
        assert_int_equal(resolved.default_ttr_ms, durations[i].ms);
    }
    for (size_t i = 0; i < COUNT_OF(sizes); i++) {
        snprintf(param, sizeof(param), "max_job_size=%s", sizes[i].text);
        accept(param);
        assert_int_equal(resolved.max_job_size, sizes[i].bytes);
    }
    accept("topic_cleanup=on&ticker=dynamic");
    assert_int_equal(resolved.topic_cleanup, 0);
    assert_int_equal(resolved.ticker, BIDE_TICKER_DYNAMIC);
}

static void largest_values_are_accepted_and_larger_rejected(void **state)
{
    (void)state;
    static const struct {
        const char *good, *bad;
    } pairs[] = {
        {"default_ttr=4294967295000", "default_ttr=4294967295001"},
        {"max_job_size=1GiB", "max_job_size=1073741825"},
        {"max_result_size=1GiB", "max_result_size=1073741825"},
        {"max_error_size=1MiB", "max_error_size=1048577"},
        {"max_touches=4294967295", "max_touches=4294967296"},
        {"max_touch_total=4294967295s", "max_touch_total=4294967296s"},
        {"min_touch_interval=4294967295s", "min_touch_interval=4294967296s"},
        {"max_topics=4294967295", "max_topics=4294967296"},
        {"max_waiters=4294967295", "max_waiters=4294967296"},
        {"max_jobs_per_topic=4294967295", "max_jobs_per_topic=4294967296"},
        {"max_done_per_topic=4294967295", "max_done_per_topic=4294967296"},
        {"max_pending_ops=4294967295", "max_pending_ops=4294967296"},
        {"ticker_min=1h", "ticker_min=3600001"},
        {"ticker_max=4294967295s", "ticker_max=4294967296s"},
        {"wheel_tick=1h", "wheel_tick=3600001"},
        {"wheel_slots=1000000", "wheel_slots=1000001"},
    };
    for (size_t i = 0; i < COUNT_OF(pairs); i++) {
        accept(pairs[i].good);
        refuse(pairs[i].bad, "allowed");
    }
    accept("max_memory=18446744073709551615&max_pending_bytes=18446744073709551615"
           "&seed=18446744073709551615");
    assert_true(resolved.max_memory == UINT64_MAX);
    assert_true(resolved.max_pending_bytes == UINT64_MAX);
    assert_true(resolved.seed == UINT64_MAX);
}

/* 2^32 and its multiples are 0 in 32 bits, and 0 would mean the default. */
static void values_that_wrap_to_zero_are_rejected(void **state)
{
    (void)state;
    static const char *const names[] = {"max_touches", "max_topics", "max_waiters",
                                        "max_pending_ops", "wheel_slots"};
    char param[64];
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        snprintf(param, sizeof(param), "%s=4294967296", names[i]);
        refuse(param, "allowed");
        snprintf(param, sizeof(param), "%s=18446744069414584320", names[i]);
        refuse(param, "allowed");
    }
}

static void overflowing_numbers_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "seed=18446744073709551616",         "seed=99999999999999999999999",
        "max_memory=17179869184GiB",         "max_memory=18014398509481984KiB",
        "default_ttr=18446744073709551615d", "default_ttr=213503982335d",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        assert_int_equal(resolve(NULL, bad[i]), BIDE_EINVAL);
    accept("max_memory=17179869183GiB");
}

static void invalid_values_are_rejected_with_the_accepted_ones(void **state)
{
    (void)state;
    static const char *const durations[] = {"",   "s",    "ms",   "-1",   "+1",  "1.5s", "1 s",
                                            "1S", "1min", "1KiB", "0x10", "1ss", "one",  " 1"};
    static const char *const sizes[] = {"", "KiB", "-1", "1kb", "1KB", "1kib", "1s", "1 KiB", "1K"};
    static const char *const counts[] = {"", "-1", "1s", "1B", "1e3", "many", "1,000"};
    static const char *const tickers[] = {"", "0", "1", "Wheel", "wheels", "on"};
    static const char *const switches[] = {"", "0", "1", "-1", "true", "ON", "wheel"};
    const struct {
        const char *name, *kind;
        const char *const *values;
        size_t count;
    } lists[] = {
        {"default_ttr", "a duration", durations, COUNT_OF(durations)},
        {"max_job_size", "a size", sizes, COUNT_OF(sizes)},
        {"max_topics", "a number", counts, COUNT_OF(counts)},
        {"ticker", "dynamic or wheel", tickers, COUNT_OF(tickers)},
        {"topic_cleanup", "on or off", switches, COUNT_OF(switches)},
    };
    char param[64];
    for (size_t i = 0; i < COUNT_OF(lists); i++)
        for (size_t j = 0; j < lists[i].count; j++) {
            snprintf(param, sizeof(param), "%s=%s", lists[i].name, lists[i].values[j]);
            refuse(param, lists[i].kind);
        }
}

static void unknown_names_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"ttr",          "default_ttr_ms", "Default_ttr", "size",
                                      "log",          "default_ttr ",   "default",     "A",
                                      "max_topics%20"};
    char param[64];
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        snprintf(param, sizeof(param), "%s=1", bad[i]);
        refuse(param, strchr(bad[i], '%') != NULL ? "max_topics " : bad[i]);
    }
}

static void the_url_wins_over_the_field_and_the_last_parameter_over_the_first(void **state)
{
    (void)state;
    bide_options given = BIDE_OPTIONS_INIT;
    given.default_ttr_ms = 5;
    given.max_topics = 6;
    assert_int_equal(resolve(&given, "default_ttr=7s&default_ttr=8s"), BIDE_OK);
    assert_int_equal(resolved.default_ttr_ms, 8000);
    assert_int_equal(resolved.max_topics, 6);
    assert_int_equal(given.default_ttr_ms, 5);
}

static void fields_out_of_range_are_rejected(void **state)
{
    (void)state;
    bide_options bad[12];
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        bad[i] = (bide_options)BIDE_OPTIONS_INIT;
    bad[0].size = 0;
    bad[1].size = sizeof(bide_options) - 1;
    bad[2].default_ttr_ms = -1;
    bad[3].default_ttr_ms = BIDE_TIME_MAX_MS + 1;
    bad[4].max_job_size = SIZE_MAX;
    bad[5].topic_cleanup = 1;
    bad[6].topic_cleanup = -2;
    bad[7].ticker = (bide_ticker)2;
    bad[8].ticker = (bide_ticker)-1;
    bad[9].ticker_min_ms = -1;
    bad[10].wheel_slots = 1000001;
    bad[11].max_jobs_per_topic = UINT64_MAX;
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        assert_int_equal(resolve(&bad[i], ""), BIDE_EINVAL);
        assert_true(strlen(bide_last_error()) > 0);
    }
}

static void given_seed_is_kept_and_the_default_is_random(void **state)
{
    (void)state;
    accept("seed=42");
    assert_int_equal(resolved.seed, 42);
    accept("");
    uint64_t first = resolved.seed;
    accept("");
    assert_int_not_equal(resolved.seed, first);
}

/* ---- a queue at a server ---- */

static int resolve_served(const char *params)
{
    static const char *const others[] = {"secret", NULL};
    char text[512];
    struct bi_url url;
    const char *reason;
    bide_options asked;
    snprintf(text, sizeof(text), "beanstalk:?%s", params);
    assert_true(bi_url_parse(&url, text, &reason));
    bi_last_error_clear();
    int code = bi_options_merge(NULL, &url, others, &asked);
    return code == BIDE_OK ? bi_options_validate(&asked, true, &resolved) : code;
}

static void server_only_options_are_rejected(void **state)
{
    (void)state;
    static const char *const params[] = {
        "max_error_size=9",      "max_touches=1",     "max_touch_total=1s", "max_topics=5",
        "min_touch_interval=1s", "max_waiters=5",     "max_memory=1MiB",    "max_jobs_per_topic=1",
        "max_done_per_topic=1",  "topic_cleanup=off", "ticker=wheel",       "ticker_min=1ms",
        "ticker_max=1ms",        "wheel_tick=1ms",    "wheel_slots=1",      "sync=off",
        "batch_jobs=1",          "batch_bytes=1",     "secret=x&sync=off",  "cache_bytes=1"};
    for (size_t i = 0; i < COUNT_OF(params); i++) {
        assert_int_equal(resolve_served(params[i]), BIDE_EINVAL);
        assert_non_null(strstr(bide_last_error(), "server"));
    }
    assert_int_equal(resolve_served("max_topics=x"), BIDE_EINVAL);
    assert_int_equal(resolve_served("secrets=x"), BIDE_EINVAL);
}

static void client_options_are_accepted_and_sizes_left_to_the_server(void **state)
{
    (void)state;
    assert_int_equal(resolve_served("secret=x"), BIDE_OK);
    assert_int_equal(resolved.max_job_size, 1 << 30);
    assert_int_equal(resolved.max_result_size, 1 << 30);
    assert_int_equal(resolved.default_ttr_ms, 60000);
    assert_int_equal(resolve_served("max_job_size=10&max_result_size=20&default_ttr=3s&seed=4&"
                                    "max_pending_ops=5&max_pending_bytes=6"),
                     BIDE_OK);
    assert_int_equal(resolved.max_job_size, 10);
    assert_int_equal(resolved.max_result_size, 20);
    assert_int_equal(resolved.default_ttr_ms, 3000);
    assert_int_equal(resolved.seed, 4);
    assert_int_equal(resolved.max_pending_ops, 5);
    assert_int_equal(resolved.max_pending_bytes, 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(unset_options_have_defaults),
        cmocka_unit_test(every_option_is_a_url_parameter),
        cmocka_unit_test(every_unit_of_time_and_size_is_known),
        cmocka_unit_test(largest_values_are_accepted_and_larger_rejected),
        cmocka_unit_test(values_that_wrap_to_zero_are_rejected),
        cmocka_unit_test(overflowing_numbers_are_rejected),
        cmocka_unit_test(invalid_values_are_rejected_with_the_accepted_ones),
        cmocka_unit_test(unknown_names_are_rejected),
        cmocka_unit_test(the_url_wins_over_the_field_and_the_last_parameter_over_the_first),
        cmocka_unit_test(fields_out_of_range_are_rejected),
        cmocka_unit_test(given_seed_is_kept_and_the_default_is_random),
        cmocka_unit_test(server_only_options_are_rejected),
        cmocka_unit_test(client_options_are_accepted_and_sizes_left_to_the_server),
    };
    return cmocka_run_group_tests_name("options", tests, NULL, NULL);
}
