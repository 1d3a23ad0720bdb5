/* SPDX-License-Identifier: MIT */
#include "cli/put.h"

#include "unit.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#define NOW INT64_C(1763200000000)

static bide_put_options defaults;
static struct put_json line;
static char error[BI_ERRMSG_SIZE];

static int set_up(void **state)
{
    (void)state;
    defaults = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    line = (struct put_json){.body = NULL};
    setenv("TZ", "UTC", 1);
    return 0;
}

static int clean(void **state)
{
    (void)state;
    bide_buf_unref(line.body);
    return 0;
}

/* The text lies in memory of its own, so that nothing behind it is read unseen. */
static bool parse_bytes(const char *text, size_t size)
{
    char *copy = malloc(size);
    assert_non_null(copy);
    memcpy(copy, text, size);
    bide_buf_unref(line.body);
    bool good = bi_put_json_parse((bide_slice){copy, size}, &defaults, NOW, &line, error);
    free(copy);
    return good;
}

static void accepts(const char *text)
{
    if (!parse_bytes(text, strlen(text)))
        fail_msg("%s: %s", text, error);
}

static void rejects(const char *text, const char *sentence)
{
    assert_false(parse_bytes(text, strlen(text)));
    assert_string_equal(error, sentence);
    assert_null(line.body);
}

static void body_is(const char *bytes, size_t size)
{
    assert_int_equal(bide_buf_size(line.body), size);
    assert_memory_equal(bide_buf_data(line.body), bytes, size);
}

/* ---- what is taken ---- */

static void a_body_is_a_text(void **state)
{
    (void)state;
    accepts("{\"body\":\"hello\"}");
    body_is("hello", 5);
    accepts("{\"body\":\"\"}");
    body_is("", 0);
    accepts("{\"body\":\"\\u00fc\\u0000x\"}");
    body_is("\xc3\xbc\0x", 4);
    assert_int_equal(line.topic_size, 0);
}

static void a_body_may_be_any_bytes_in_base64(void **state)
{
    (void)state;
    accepts("{\"body_base64\":\"AP8K\"}");
    body_is("\0\xff\n", 3);
    accepts("{\"body_base64\":\"\"}");
    body_is("", 0);
}

static void a_body_may_be_any_json_written_without_spaces(void **state)
{
    (void)state;
    accepts("{\"body_json\": {\"b\": [1, 2.5, null], \"a\": \"x y\"}}");
    body_is("{\"b\":[1,2.5,null],\"a\":\"x y\"}", 28);
    accepts("{\"body_json\": 7}");
    body_is("7", 1);
    accepts("{\"body_json\": null}");
    body_is("null", 4);
}

static void missing_fields_take_the_defaults(void **state)
{
    (void)state;
    defaults.priority = 7;
    defaults.delay_ms = 1000;
    defaults.max_retries = 3;
    defaults.key = (bide_slice){"k", 1};
    accepts("{\"body\":\"\"}");
    assert_memory_equal(&line.options, &defaults, sizeof(defaults));
}

static void every_option_has_its_name(void **state)
{
    (void)state;
    accepts("{\"topic\":\"email\",\"body\":\"x\",\"priority\":4294967295,\"delay_ms\":1500,"
            "\"ttr_ms\":30000,\"key\":\"k\",\"replace\":true,\"key_hold_retained\":true,"
            "\"max_retries\":5,\"backoff_base_ms\":100,\"backoff_max_ms\":200,"
            "\"expires_at_ms\":1800000000000,\"retain_ms\":60000}");
    assert_int_equal(line.topic_size, 5);
    assert_memory_equal(line.topic, "email", 5);
    assert_int_equal(line.options.priority, UINT32_MAX);
    assert_int_equal(line.options.delay_ms, 1500);
    assert_int_equal(line.options.ttr_ms, 30000);
    assert_int_equal(line.options.key.size, 1);
    assert_memory_equal(line.options.key.data, "k", 1);
    assert_int_equal(line.options.conflict, BIDE_REPLACE);
    assert_true(line.options.key_hold_retained);
    assert_int_equal(line.options.max_retries, 5);
    assert_int_equal(line.options.backoff_base_ms, 100);
    assert_int_equal(line.options.backoff_max_ms, 200);
    assert_int_equal(line.options.expires_at_ms, INT64_C(1800000000000));
    assert_int_equal(line.options.retain_ms, 60000);
}

static void times_accept_the_syntax_of_the_flags(void **state)
{
    (void)state;
    accepts("{\"body\":\"\",\"delay\":\"1h30m\",\"ttr\":\"90s\",\"backoff\":\"2s\","
            "\"backoff_max\":\"1m\",\"expires\":\"2026-12-25T00:00Z\",\"retain\":\"1d\"}");
    assert_int_equal(line.options.delay_ms, 5400000);
    assert_int_equal(line.options.ttr_ms, 90000);
    assert_int_equal(line.options.backoff_base_ms, 2000);
    assert_int_equal(line.options.backoff_max_ms, 60000);
    assert_int_equal(line.options.expires_at_ms, INT64_C(1798156800000));
    assert_int_equal(line.options.retain_ms, 86400000);
    accepts("{\"body\":\"\",\"at\":\"in 2h\",\"expires_in\":\"1m\"}");
    assert_int_equal(line.options.run_at_ms, NOW + 7200000);
    assert_int_equal(line.options.expires_at_ms, NOW + 60000);
    accepts("{\"body\":\"\",\"run_at_ms\":1798156800000,\"max_retries\":-1,\"replace\":false}");
    assert_int_equal(line.options.run_at_ms, INT64_C(1798156800000));
    assert_int_equal(line.options.max_retries, BIDE_NO_DEFAULT);
    assert_int_equal(line.options.conflict, BIDE_REJECT);
    accepts("{\"body\":\"\",\"conflict\":\"skip\"}");
    assert_int_equal(line.options.conflict, BIDE_SKIP);
    accepts("{\"body\":\"\",\"conflict\":\"replace\"}");
    assert_int_equal(line.options.conflict, BIDE_REPLACE);
    accepts("{\"body\":\"\",\"conflict\":\"reject\"}");
    assert_int_equal(line.options.conflict, BIDE_REJECT);
    accepts("{\"body\":\"\",\"ttr_ms\":0,\"retain\":\"0s\",\"expires_at_ms\":0}");
    assert_int_equal(line.options.ttr_ms, BIDE_NO_DEFAULT);
    assert_int_equal(line.options.retain_ms, BIDE_NO_DEFAULT);
    assert_int_equal(line.options.expires_at_ms, BIDE_NO_DEFAULT);
    assert_int_equal(line.options.backoff_base_ms, 0);
}

static void a_line_overrides_the_default_due_time(void **state)
{
    (void)state;
    defaults.delay_ms = 1000;
    accepts("{\"body\":\"\",\"run_at_ms\":1798156800000}");
    assert_int_equal(line.options.delay_ms, 0);
    assert_int_equal(line.options.run_at_ms, INT64_C(1798156800000));
    defaults.delay_ms = 0;
    defaults.run_at_ms = 5;
    accepts("{\"body\":\"\",\"delay\":\"0\"}");
    assert_int_equal(line.options.delay_ms, 0);
    assert_int_equal(line.options.run_at_ms, 0);
}

static void a_key_may_be_any_bytes(void **state)
{
    (void)state;
    accepts("{\"body\":\"\",\"key_base64\":\"AP8=\"}");
    assert_int_equal(line.options.key.size, 2);
    assert_memory_equal(line.options.key.data, "\0\xff", 2);
}

static void key_of_the_command_line_is_a_default(void **state)
{
    (void)state;
    defaults.key = (bide_slice){"all", 3};
    accepts("{\"body\":\"\"}");
    assert_ptr_equal(line.options.key.data, defaults.key.data);
}

/* ---- what is refused ---- */

static void non_object_is_rejected(void **state)
{
    (void)state;
    rejects("[1]", "not a JSON object");
    rejects("{\"body\":\"x\"} x", "not a JSON object: end of file expected near 'x'");
    rejects("hello", "not a JSON object: '[' or '{' expected near 'hello'");
    assert_false(parse_bytes("{\"body\":\"\xff\"}", 12));
    assert_false(parse_bytes("{\"body\":\"a\"", 11));
    assert_false(parse_bytes("\0", 1));
    rejects("{\"body\":\"a\",\"body\":\"b\"}",
            "not a JSON object: duplicate object key near '\"body\"'");
}

static void line_without_body_is_rejected(void **state)
{
    (void)state;
    rejects("{}", "\"body\", \"body_base64\" or \"body_json\" is missing");
    rejects("{\"topic\":\"t\"}", "\"body\", \"body_base64\" or \"body_json\" is missing");
}

static void unknown_field_is_rejected_with_a_suggestion(void **state)
{
    (void)state;
    rejects("{\"body\":\"\",\"prioritty\":1}",
            "unknown name \"prioritty\"; did you mean \"priority\"?");
    rejects("{\"body\":\"\",\"colour\":1}", "unknown name \"colour\"");
}

static void conflicting_fields_are_rejected(void **state)
{
    (void)state;
    rejects("{\"body\":\"\",\"body_json\":1}",
            "\"body\" and \"body_json\" are both given; choose one");
    rejects("{\"body\":\"\",\"delay\":\"1s\",\"at\":\"now\"}",
            "\"delay\" and \"at\" are both given; choose one");
    rejects("{\"body\":\"\",\"retain_ms\":1,\"retain\":\"1s\"}",
            "\"retain_ms\" and \"retain\" are both given; choose one");
}

static void values_of_wrong_type_are_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {
        "\"topic\":1",
        "\"topic\":\"\"",
        "\"priority\":\"1\"",
        "\"priority\":1.5",
        "\"priority\":-1",
        "\"priority\":4294967296",
        "\"delay_ms\":-1",
        "\"delay_ms\":4294967295001",
        "\"delay\":5",
        "\"delay\":\"soon\"",
        "\"delay\":\"1s\\u0000\"",
        "\"run_at_ms\":\"now\"",
        "\"run_at_ms\":7258118400001",
        "\"at\":\"25:00\"",
        "\"ttr_ms\":null",
        "\"key\":\"\"",
        "\"key\":null",
        "\"key_base64\":\"A\"",
        "\"key_base64\":\"\"",
        "\"key_base64\":\"A*==\"",
        "\"replace\":1",
        "\"conflict\":1",
        "\"conflict\":\"Skip\"",
        "\"conflict\":\"skip\",\"replace\":true",
        "\"key_hold_retained\":\"yes\"",
        "\"max_retries\":-2",
        "\"max_retries\":2147483648",
        "\"expires_in\":\"200y\"",
        "\"retain\":\"-1s\"",
    };
    for (size_t i = 0; i < COUNT_OF(bad); i++) {
        char text[200];
        snprintf(text, sizeof(text), "{\"body\":\"\",%s}", bad[i]);
        if (parse_bytes(text, strlen(text)))
            fail_msg("%s was taken", bad[i]);
        assert_null(line.body);
    }
    rejects("{\"body\":7}", "\"body\" must be a string; \"body_json\" takes any JSON");
    rejects("{\"body_base64\":\"x\"}",
            "\"body_base64\" must be a string in base64, with padding and nothing else");
}

static void too_long_names_are_rejected(void **state)
{
    (void)state;
    char text[500], name[BIDE_TOPIC_MAX + 2];
    memset(name, 'x', sizeof(name));
    name[BIDE_TOPIC_MAX] = 0;
    snprintf(text, sizeof(text), "{\"body\":\"\",\"topic\":\"%s\",\"key\":\"k\"}", name);
    accepts(text);
    snprintf(text, sizeof(text), "{\"body\":\"\",\"key\":\"%s\"}", name);
    accepts(text);
    assert_int_equal(line.options.key.size, BIDE_KEY_MAX);
    name[BIDE_TOPIC_MAX] = 'x';
    name[BIDE_TOPIC_MAX + 1] = 0;
    snprintf(text, sizeof(text), "{\"body\":\"\",\"topic\":\"%s\"}", name);
    rejects(text, "\"topic\" must be a string of 1 to 200 bytes");
    snprintf(text, sizeof(text), "{\"body\":\"\",\"key\":\"%s\"}", name);
    rejects(text, "\"key\" must be a string of 1 to 200 bytes");
}

/* ---- memory ---- */

static size_t allocations_left;

static void *fail_at_last(size_t size)
{
    return allocations_left == 0 ? NULL : (allocations_left--, malloc(size));
}

static void out_of_memory_stores_no_wrong_body(void **state)
{
    static const char text[] = "{\"body_json\":{\"a\":[1,{\"b\":\"c\"}]}}";
    static const char body[] = "{\"a\":[1,{\"b\":\"c\"}]}";
    bool good = false;

    (void)state;
    json_set_alloc_funcs(fail_at_last, free);
    for (size_t count = 0; !good && count < 1000; count++) {
        allocations_left = count;
        line.body = NULL;
        good =
            bi_put_json_parse((bide_slice){text, sizeof(text) - 1}, &defaults, NOW, &line, error);
        assert_true(good == (line.body != NULL));
    }
    json_set_alloc_funcs(malloc, free);
    assert_true(good);
    body_is(body, sizeof(body) - 1);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, clean)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_body_is_a_text),
        TEST(a_body_may_be_any_bytes_in_base64),
        TEST(a_body_may_be_any_json_written_without_spaces),
        TEST(missing_fields_take_the_defaults),
        TEST(every_option_has_its_name),
        TEST(times_accept_the_syntax_of_the_flags),
        TEST(a_line_overrides_the_default_due_time),
        TEST(a_key_may_be_any_bytes),
        TEST(key_of_the_command_line_is_a_default),
        TEST(non_object_is_rejected),
        TEST(line_without_body_is_rejected),
        TEST(unknown_field_is_rejected_with_a_suggestion),
        TEST(conflicting_fields_are_rejected),
        TEST(values_of_wrong_type_are_rejected),
        TEST(too_long_names_are_rejected),
        TEST(out_of_memory_stores_no_wrong_body),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
