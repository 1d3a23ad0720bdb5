/* SPDX-License-Identifier: MIT */
/* Which server a URL means. */
#include "unit.h"

#include "backend/beanstalk_address.h"

#include <string.h>

static struct address address;
static char error[BIDE_ERROR_SIZE];

static int parse(const char *text)
{
    struct bi_url url;
    const char *reason;
    error[0] = 0;
    assert_true(bi_url_parse(&url, text, &reason));
    return bi_client_address_parse(&address, &url, error);
}

static void every_form_of_an_address_is_understood(void **state)
{
    (void)state;
    static const struct {
        const char *url, *host, *port, *path, *name, *secret;
    } cases[] = {
        {"beanstalk://host", "host", "11300", "", "host:11300", ""},
        {"beanstalk://host/", "host", "11300", "", "host:11300", ""},
        {"beanstalk://host:1", "host", "1", "", "host:1", ""},
        {"beanstalk://10.0.0.1:65535", "10.0.0.1", "65535", "", "10.0.0.1:65535", ""},
        {"beanstalk://[::1]:11301", "::1", "11301", "", "[::1]:11301", ""},
        {"beanstalk://[::1]", "::1", "11300", "", "[::1]:11300", ""},
        {"beanstalk://[fe80::1%eth0]", "fe80::1%eth0", "11300", "", "[fe80::1%eth0]:11300", ""},
        {"beanstalk://[fe80::1%25eth0]:2", "fe80::1%eth0", "2", "", "[fe80::1%eth0]:2", ""},
        {"beanstalk:///run/bide.sock", "", "", "/run/bide.sock", "/run/bide.sock", ""},
        {"beanstalk://unix:/run/b%20c", "", "", "/run/b c", "/run/b c", ""},
        {"beanstalk:///run/a@b", "", "", "/run/a@b", "/run/a@b", ""},
        {"beanstalk://:s3cret@host", "host", "11300", "", "host:11300", "s3cret"},
        {"beanstalk://s%40t@host:2", "host", "2", "", "host:2", "s@t"},
        {"beanstalk://host?secret=abc", "host", "11300", "", "host:11300", "abc"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(parse(cases[i].url), BIDE_OK);
        assert_string_equal(address.host, cases[i].host);
        assert_string_equal(address.port, cases[i].port);
        assert_string_equal(address.path, cases[i].path);
        assert_string_equal(address.name, cases[i].name);
        assert_string_equal(address.secret, cases[i].secret);
        assert_int_equal(address.connect_timeout, 5000000);
        assert_int_equal(address.reconnect_min, 50000);
        assert_int_equal(address.reconnect_max, 5000000);
    }
}

static void the_owner_of_a_server_may_be_any_or_trusted(void **state)
{
    (void)state;
    assert_int_equal(parse("beanstalk://host"), BIDE_OK);
    assert_false(address.trusted);
    assert_int_equal(parse("beanstalk://host?peer=any"), BIDE_OK);
    assert_false(address.trusted);
    assert_int_equal(parse("beanstalk:///run/bide.sock?peer=trusted"), BIDE_OK);
    assert_true(address.trusted);
    assert_int_equal(parse("beanstalk://host?peer=mine"), BIDE_EINVAL);
    assert_non_null(strstr(error, "mine"));
}

static void what_is_no_address_is_refused_with_a_sentence(void **state)
{
    (void)state;
    static const char long_path[] =
        "beanstalk:///0123456789012345678901234567890123456789012345678901234567890123456789"
        "0123456789012345678901234567890123456789";
    static const char *const urls[] = {
        "beanstalk:",
        "beanstalk:host",
        "beanstalk:/host",
        "beanstalk://",
        "beanstalk://:11300",
        "beanstalk://host:",
        "beanstalk://host:0",
        "beanstalk://host:65536",
        "beanstalk://host:123456",
        "beanstalk://host:1x",
        "beanstalk://host:-1",
        "beanstalk://::1",
        "beanstalk://[::1",
        "beanstalk://[::1]x",
        "beanstalk://unix:relative",
        "beanstalk://unix:",
        "beanstalk:///run/%",
        "beanstalk://@host",
        "beanstalk://a%20b@host",
        "beanstalk://host?secret=",
        "beanstalk://host?secret=a%0d%0ab",
        "beanstalk://host?connect_timeout=0",
        "beanstalk://host?connect_timeout=soon",
        "beanstalk://host?connect_timeout=2d",
        "beanstalk://host?connect_timeout=99999999999999999999",
        "beanstalk://host?reconnect_min=-1",
        "beanstalk://host?reconnect_min=6s",
        long_path,
    };
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        assert_int_equal(parse(urls[i]), BIDE_EINVAL);
        assert_memory_equal(error, "open: ", 6);
    }
}

static void an_ipv6_address_without_brackets_is_told_so(void **state)
{
    (void)state;
    static const char *const urls[] = {"beanstalk://::1", "beanstalk://fd00::1:11300",
                                       "beanstalk://[::1"};
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        assert_int_equal(parse(urls[i]), BIDE_EINVAL);
        assert_non_null(strstr(error, "an IPv6 address stands in brackets"));
    }
}

static void a_secret_is_not_repeated_in_a_sentence(void **state)
{
    (void)state;
    assert_int_equal(parse("beanstalk://host?secret=not%20good"), BIDE_EINVAL);
    assert_null(strstr(error, "not good"));
    assert_int_equal(parse("beanstalk://not%20good@host"), BIDE_EINVAL);
    assert_null(strstr(error, "good"));
    assert_int_equal(parse("beanstalk://s3cret@"), BIDE_EINVAL);
    assert_null(strstr(error, "s3cret"));
}

static void patience_can_be_chosen(void **state)
{
    (void)state;
    assert_int_equal(
        parse("beanstalk://host?connect_timeout=250ms&reconnect_min=1s&reconnect_max=2m"), BIDE_OK);
    assert_int_equal(address.connect_timeout, 250000);
    assert_int_equal(address.reconnect_min, 1000000);
    assert_int_equal(address.reconnect_max, 120000000);
    assert_int_equal(parse("beanstalk://host?connect_timeout=7"), BIDE_OK);
    assert_int_equal(address.connect_timeout, 7000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_an_address_is_understood),
        cmocka_unit_test(the_owner_of_a_server_may_be_any_or_trusted),
        cmocka_unit_test(what_is_no_address_is_refused_with_a_sentence),
        cmocka_unit_test(an_ipv6_address_without_brackets_is_told_so),
        cmocka_unit_test(a_secret_is_not_repeated_in_a_sentence),
        cmocka_unit_test(patience_can_be_chosen),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
