/* SPDX-License-Identifier: MIT */
#include "util/url.h"

#include "unit.h"

#include <stdio.h>
#include <string.h>

static struct bi_url url;
static const char *reason;

static bool parse(const char *text)
{
    memset(&url, 0xa5, sizeof(url));
    reason = NULL;
    return bi_url_parse(&url, text, &reason);
}

static void refuse(const char *text, const char *because)
{
    assert_false(parse(text));
    assert_non_null(reason);
    assert_non_null(strstr(reason, because));
}

static void a_url_has_a_scheme_a_location_and_parameters(void **state)
{
    (void)state;
    assert_true(parse("sqlite:jobs.db?sync=full&cache=64MiB"));
    assert_string_equal(url.scheme, "sqlite");
    assert_string_equal(url.location, "jobs.db");
    assert_int_equal(url.param_count, 2);
    assert_string_equal(url.params[0].name, "sync");
    assert_string_equal(url.params[0].value, "full");
    assert_string_equal(url.params[1].name, "cache");
    assert_string_equal(url.params[1].value, "64MiB");
}

static void location_and_parameters_may_be_missing(void **state)
{
    (void)state;
    assert_true(parse("memory:"));
    assert_string_equal(url.scheme, "memory");
    assert_string_equal(url.location, "");
    assert_int_equal(url.param_count, 0);
    assert_true(parse("memory:?"));
    assert_int_equal(url.param_count, 0);
    assert_true(parse("memory:?ticker=wheel"));
    assert_string_equal(url.location, "");
    assert_int_equal(url.param_count, 1);
}

static void location_is_not_decoded(void **state)
{
    (void)state;
    assert_true(parse("redis://user:p%40ss@host:6379/0?a=b"));
    assert_string_equal(url.scheme, "redis");
    assert_string_equal(url.location, "//user:p%40ss@host:6379/0");
}

static void percent_signs_in_names_and_values_are_decoded(void **state)
{
    (void)state;
    assert_true(parse("memory:?a%3Db=%41%62%7a%7A&c=100%25&d=%26%3f"));
    assert_string_equal(url.params[0].name, "a=b");
    assert_string_equal(url.params[0].value, "Abzz");
    assert_string_equal(url.params[1].value, "100%");
    assert_string_equal(url.params[2].value, "&?");
}

static void a_value_may_be_empty_or_hold_an_equals_sign(void **state)
{
    (void)state;
    assert_true(parse("memory:?a=&b=c=d"));
    assert_string_equal(url.params[0].value, "");
    assert_string_equal(url.params[1].name, "b");
    assert_string_equal(url.params[1].value, "c=d");
}

static void empty_parameters_are_skipped(void **state)
{
    (void)state;
    assert_true(parse("memory:?&a=b&&c=d&"));
    assert_int_equal(url.param_count, 2);
    assert_string_equal(url.params[1].name, "c");
}

static void url_without_a_scheme_is_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"",         "memory", ":",        ":memory", "MEMORY:",
                                      "me mory:", "me_m:",  "/tmp/a:b", "?a=b:",   "m\xc3\xa9m:"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        refuse(bad[i], "scheme");
    assert_true(parse("a1+b-c.d:x"));
    assert_string_equal(url.scheme, "a1+b-c.d");
}

static void invalid_percent_escape_is_rejected(void **state)
{
    (void)state;
    static const char *const bad[] = {"memory:?a=%",     "memory:?a=%4",  "memory:?a=%g1",
                                      "memory:?a=%1g",   "memory:?%zz=b", "memory:?a=%00",
                                      "memory:?a=%&b=12"};
    for (size_t i = 0; i < COUNT_OF(bad); i++)
        refuse(bad[i], "percent");
}

static void parameter_without_a_value_is_rejected(void **state)
{
    (void)state;
    refuse("memory:?a", "name=value");
    refuse("memory:?=b", "name=value");
    refuse("memory:?a=b&c", "name=value");
}

static void longest_url_is_accepted_and_a_longer_one_rejected(void **state)
{
    (void)state;
    static char text[BI_URL_MAX + 1];
    memset(text, 'a', sizeof(text));
    memcpy(text, "memory:", 7);
    text[BI_URL_MAX - 1] = 0;
    assert_true(parse(text));
    assert_int_equal(strlen(url.location), BI_URL_MAX - 1 - 7);
    text[BI_URL_MAX - 1] = 'a';
    text[BI_URL_MAX] = 0;
    refuse(text, "too long");
}

static void maximum_of_parameters_is_enforced(void **state)
{
    (void)state;
    char text[BI_URL_MAX] = "memory:?";
    for (int i = 0; i < BI_URL_PARAMS; i++)
        snprintf(text + strlen(text), sizeof(text) - strlen(text), "a%d=%d&", i, i);
    assert_true(parse(text));
    assert_int_equal(url.param_count, BI_URL_PARAMS);
    assert_string_equal(url.params[BI_URL_PARAMS - 1].value, "63");
    strcat(text, "one=more");
    refuse(text, "too many");
}

static void secret_is_removed_from_a_url(void **state)
{
    (void)state;
    static const struct {
        const char *url, *stripped;
        bool has;
    } cases[] = {
        {"memory:", "memory:", false},
        {"beanstalk://host:1?a=b", "beanstalk://host:1?a=b", false},
        {"beanstalk://:hush@host", "beanstalk://host", true},
        {"beanstalk://hush@host:1/?a=b", "beanstalk://host:1/?a=b", true},
        {"beanstalk://host?secret=hush", "beanstalk://host", true},
        {"beanstalk://host?secret=hush&a=b", "beanstalk://host?a=b", true},
        {"beanstalk://host?a=b&secret=hush&c=d", "beanstalk://host?a=b&c=d", true},
        {"beanstalk:///run/a@b.sock?secret=hush", "beanstalk:///run/a@b.sock", true},
        {"beanstalk://unix:/run/a@b.sock", "beanstalk://unix:/run/a@b.sock", false},
        {"beanstalk://hush@unix:/run/a@b.sock", "beanstalk://unix:/run/a@b.sock", true},
        {"beanstalk://hu/sh@hush@host", "beanstalk://host", true},
        {"beanstalk:hush@host", "beanstalk@host", true},
        {"beanstalk::hush@host", "beanstalk@host", true},
        {"beanstalk:/hush@host", "beanstalk:/host", true},
        {"beanstalk://host?secret_file=/x", "beanstalk://host?secret_file=/x", true},
        {"redis://user:hush@host/0?password=hush", "redis://user@host/0", true},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        char stripped[BI_URL_MAX], text[200];
        bi_url_strip_secret(stripped, cases[i].url);
        assert_string_equal(stripped, cases[i].stripped);
        bi_url_redact(stripped, cases[i].url);
        assert_null(strstr(stripped, "hush"));
        assert_int_equal(bi_url_has_secret(cases[i].url), cases[i].has);
        snprintf(text, sizeof(text), "%s%s", i % 2 == 0 ? "--url=" : "-u", cases[i].url);
        bi_url_mask_secret(text);
        assert_null(strstr(text, "hush"));
        assert_int_equal(strlen(text), strlen(cases[i].url) + (i % 2 == 0 ? 6 : 2));
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_url_has_a_scheme_a_location_and_parameters),
        cmocka_unit_test(location_and_parameters_may_be_missing),
        cmocka_unit_test(location_is_not_decoded),
        cmocka_unit_test(percent_signs_in_names_and_values_are_decoded),
        cmocka_unit_test(a_value_may_be_empty_or_hold_an_equals_sign),
        cmocka_unit_test(empty_parameters_are_skipped),
        cmocka_unit_test(url_without_a_scheme_is_rejected),
        cmocka_unit_test(invalid_percent_escape_is_rejected),
        cmocka_unit_test(parameter_without_a_value_is_rejected),
        cmocka_unit_test(longest_url_is_accepted_and_a_longer_one_rejected),
        cmocka_unit_test(maximum_of_parameters_is_enforced),
        cmocka_unit_test(secret_is_removed_from_a_url),
    };
    return cmocka_run_group_tests_name("url", tests, NULL, NULL);
}
