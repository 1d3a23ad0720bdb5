/* SPDX-License-Identifier: MIT */
#include "cli/work/work.h"

#include "task/worker_internal.h"
#include "unit.h"

#include <string.h>

static struct bide_context context;
static char lines[BI_WORK_METADATA_COUNT][BI_WORK_METADATA_SIZE];
static size_t count;

static bool has(const char *line)
{
    for (size_t i = 0; i < count; i++)
        if (strcmp(lines[i], line) == 0)
            return true;
    return false;
}

static bool has_name(const char *name)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(lines[i], name, strlen(name)) == 0)
            return true;
    return false;
}

static void begin(const void *key, size_t size)
{
    memset(&context, 0, sizeof(context));
    context.job.id = 12;
    context.job.token = 4711;
    strcpy(context.job.topic, "email");
    context.job.priority = 1024;
    context.job.ttr_ms = 60000;
    context.job.failures = 2;
    context.job.reserves = 3;
    context.job.max_retries = 2;
    context.job.created_ms = 1794763113220;
    context.job.key = key;
    context.job.key_size = size;
}

static void environment_describes_the_job(void **state)
{
    static const char *const wanted[] = {
        "BIDE_ID=12",         "BIDE_TOPIC=email",
        "BIDE_TOKEN=4711",    "BIDE_ATTEMPT=3",
        "BIDE_LAST=1",        "BIDE_PRIORITY=1024",
        "BIDE_TTR_MS=60000",  "BIDE_CREATED_MS=1794763113220",
        "BIDE_RESERVES=3",    "BIDE_FAILURES=2",
        "BIDE_MAX_RETRIES=2", "BIDE_KEY=a key",
    };
    (void)state;
    begin("a key", 5);
    count = bi_work_metadata_format(&context, false, lines);
    assert_int_equal(count, COUNT_OF(wanted));
    for (size_t i = 0; i < COUNT_OF(wanted); i++)
        if (!has(wanted[i]))
            fail_msg("%s is missing", wanted[i]);
}

static void absent_fields_are_left_out(void **state)
{
    (void)state;
    begin(NULL, 0);
    context.job.max_retries = BIDE_NO_RETRY_LIMIT;
    count = bi_work_metadata_format(&context, false, lines);
    assert_false(has_name("BIDE_KEY"));
    assert_false(has_name("BIDE_MAX_RETRIES"));
    assert_true(has("BIDE_LAST=0"));
}

/* Only a faulty server sends one. */
static void key_that_is_too_long_is_left_out(void **state)
{
    static char key[BIDE_KEY_MAX + 100];
    (void)state;
    for (int i = 0; i < 2; i++) {
        memset(key, i == 0 ? 'k' : 0, sizeof(key));
        begin(key, sizeof(key));
        count = bi_work_metadata_format(&context, false, lines);
        assert_false(has_name("BIDE_KEY"));
        assert_true(has("BIDE_ID=12"));
    }
}

static void binary_key_is_base64(void **state)
{
    (void)state;
    begin("a\0b", 3);
    count = bi_work_metadata_format(&context, false, lines);
    assert_false(has_name("BIDE_KEY="));
    assert_true(has("BIDE_KEY_BASE64=YQBi"));
}

static void headers_match_the_environment_without_the_token(void **state)
{
    (void)state;
    begin("a key", 5);
    count = bi_work_metadata_format(&context, true, lines);
    assert_true(has("Bide-Id: 12"));
    assert_true(has("Bide-Created-Ms: 1794763113220"));
    assert_true(has("Bide-Key: a key"));
    for (size_t i = 0; i < count; i++)
        assert_null(strstr(lines[i], "4711"));
}

static void key_cannot_inject_a_header(void **state)
{
    static const char *const keys[] = {"a\r\nX-Evil: 1", "a\nb", " a", "a ", "\x7f", "\xc3\xa4"};
    (void)state;
    for (size_t i = 0; i < COUNT_OF(keys); i++) {
        begin(keys[i], strlen(keys[i]));
        count = bi_work_metadata_format(&context, true, lines);
        assert_false(has_name("Bide-Key: "));
        assert_true(has_name("Bide-Key-Base64: "));
        for (size_t k = 0; k < count; k++)
            assert_null(strpbrk(lines[k], "\r\n"));
    }
}

static void the_longest_key_and_topic_fit(void **state)
{
    char key[BIDE_KEY_MAX];
    (void)state;
    memset(key, 0, sizeof(key));
    begin(key, sizeof(key));
    memset(context.job.topic, 't', BIDE_TOPIC_MAX);
    count = bi_work_metadata_format(&context, true, lines);
    for (size_t i = 0; i < count; i++) {
        if (strncmp(lines[i], "Bide-Key-Base64: ", 17) == 0)
            assert_int_equal(strlen(lines[i]), 17 + 268);
        if (strncmp(lines[i], "Bide-Topic: ", 12) == 0)
            assert_int_equal(strlen(lines[i]), 12 + BIDE_TOPIC_MAX);
    }
    assert_true(has_name("Bide-Key-Base64: "));
}

static void reserved_names_are_recognized(void **state)
{
    (void)state;
    assert_true(bi_work_metadata_is_reserved("BIDE_ID=7"));
    assert_true(bi_work_metadata_is_reserved("BIDE_KEY_BASE64="));
    assert_true(bi_work_metadata_is_reserved("BIDE_URL=memory:"));
    assert_false(bi_work_metadata_is_reserved("BIDE_IDS=7"));
    assert_false(bi_work_metadata_is_reserved("BIDE_=7"));
    assert_false(bi_work_metadata_is_reserved("PATH=/bin"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(environment_describes_the_job),
        cmocka_unit_test(absent_fields_are_left_out),
        cmocka_unit_test(key_that_is_too_long_is_left_out),
        cmocka_unit_test(binary_key_is_base64),
        cmocka_unit_test(headers_match_the_environment_without_the_token),
        cmocka_unit_test(key_cannot_inject_a_header),
        cmocka_unit_test(the_longest_key_and_topic_fit),
        cmocka_unit_test(reserved_names_are_recognized),
    };
    return cmocka_run_group_tests_name("work_metadata", tests, NULL, NULL);
}
