/* SPDX-License-Identifier: MIT */
/* Which server a URL means. */
#include "unit.h"

#include "remote/remote_address.h"

#include <string.h>

static struct address address;
static char error[BIDE_ERROR_SIZE];

static int parse(const char *text)
{
    struct bi_url url;
    const char *reason;
    error[0] = 0;
    assert_true(bi_url_parse(&url, text, &reason));
    return bi_remote_address_parse(&address, &url, "11300", error);
}

static void every_form_of_address_is_parsed(void **state)
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
        {"beanstalk://unix:/run/a@b.sock", "", "", "/run/a@b.sock", "/run/a@b.sock", ""},
        {"beanstalk://s3cret@unix:/run/a@b", "", "", "/run/a@b", "/run/a@b", "s3cret"},
        {"beanstalk://s3cret@/run/a", "", "", "/run/a", "/run/a", "s3cret"},
        {"beanstalk://s/3@cret@host", "host", "11300", "", "host:11300", "s/3@cret"},
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

static void peer_is_any_or_trusted(void **state)
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

static void invalid_address_is_rejected_with_a_message(void **state)
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

static void unbracketed_ipv6_address_is_rejected(void **state)
{
    (void)state;
    static const char *const urls[] = {"beanstalk://::1", "beanstalk://fd00::1:11300",
                                       "beanstalk://[::1"};
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        assert_int_equal(parse(urls[i]), BIDE_EINVAL);
        assert_non_null(strstr(error, "an IPv6 address must be in brackets"));
    }
}

static void secret_never_appears_in_a_message(void **state)
{
    (void)state;
    assert_int_equal(parse("beanstalk://host?secret=not%20good"), BIDE_EINVAL);
    assert_null(strstr(error, "not good"));
    assert_int_equal(parse("beanstalk://not%20good@host"), BIDE_EINVAL);
    assert_null(strstr(error, "good"));
    static const char *const urls[] = {"beanstalk://s3cret@", "beanstalk::s3cret@host",
                                       "beanstalk:s3cret@host", "beanstalk:/s3cret@host"};
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        assert_int_equal(parse(urls[i]), BIDE_EINVAL);
        assert_null(strstr(error, "s3cret"));
    }
}

static void timeouts_are_parsed(void **state)
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

/* 10^8 days are fewer digits than the longest number of milliseconds, and more than 64 bits of
 * microseconds. */
static void timeout_that_overflows_is_rejected(void **state)
{
    (void)state;
    static const char *const urls[] = {"beanstalk://host?connect_timeout=864000000d",
                                       "beanstalk://host?connect_timeout=106751992d",
                                       "beanstalk://host?connect_timeout=213503983d",
                                       "beanstalk://host?connect_timeout=2d"};
    for (size_t i = 0; i < COUNT_OF(urls); i++) {
        assert_int_equal(parse(urls[i]), BIDE_EINVAL);
        assert_int_equal(address.connect_timeout, 5000000);
    }
    assert_int_equal(parse("beanstalk://host?connect_timeout=1d"), BIDE_OK);
    assert_int_equal(address.connect_timeout, INT64_C(86400000000));
}

/* Clients of a server that was restarted must not come all at once, also after the longest pause. */
static void pauses_differ_at_every_length(void **state)
{
    (void)state;
    static const struct {
        unsigned attempts;
        int64_t least, most;
    } cases[] = {{1, 100, 150},  {2, 200, 300},   {4, 666, 1000},
                 {5, 666, 1000}, {50, 666, 1000}, {UINT32_MAX, 666, 1000}};
    struct bi_random random = {.state = 7};
    address = (struct address){.reconnect_min = 100, .reconnect_max = 1000};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        int64_t least = INT64_MAX, most = 0;
        for (int j = 0; j < 1000; j++) {
            int64_t pause = bi_remote_address_backoff(&address, cases[i].attempts, &random);
            least = pause < least ? pause : least;
            most = pause > most ? pause : most;
        }
        assert_in_range(least, cases[i].least, cases[i].least + 50);
        assert_in_range(most, cases[i].most - 50, cases[i].most);
    }
    address.reconnect_min = 1000;
    assert_int_equal(bi_remote_address_backoff(&address, 3, &random), 1000);
    address.reconnect_min = 900;
    assert_in_range(bi_remote_address_backoff(&address, 3, &random), 900, 1000);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_form_of_address_is_parsed),
        cmocka_unit_test(peer_is_any_or_trusted),
        cmocka_unit_test(invalid_address_is_rejected_with_a_message),
        cmocka_unit_test(unbracketed_ipv6_address_is_rejected),
        cmocka_unit_test(secret_never_appears_in_a_message),
        cmocka_unit_test(timeouts_are_parsed),
        cmocka_unit_test(timeout_that_overflows_is_rejected),
        cmocka_unit_test(pauses_differ_at_every_length),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
