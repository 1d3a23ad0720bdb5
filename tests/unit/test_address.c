/* SPDX-License-Identifier: MIT */
#include "unit.h"

#include "server/address.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

static char error[BI_ERRMSG_SIZE];

/* The bytes of an address, as a socket of its family gives it. */
static const unsigned char *bytes_of(const char *text)
{
    static unsigned char bytes[BI_ADDRESS_SIZE];
    struct sockaddr_in four = {.sin_family = AF_INET};
    struct sockaddr_in6 six = {.sin6_family = AF_INET6};
    if (inet_pton(AF_INET, text, &four.sin_addr) == 1) {
        assert_true(bi_address_from_sockaddr((struct sockaddr *)&four, bytes));
        return bytes;
    }
    assert_int_equal(inet_pton(AF_INET6, text, &six.sin6_addr), 1);
    assert_true(bi_address_from_sockaddr((struct sockaddr *)&six, bytes));
    return bytes;
}

static void loopback_is_known_in_every_form(void **state)
{
    static const char *const loopback[] = {"127.0.0.1", "127.8.9.1", "::1", "::ffff:127.0.0.2"};
    static const char *const other[] = {"128.0.0.1", "126.255.255.255", "::2", "::ffff:10.0.0.1",
                                        "::",        "::127.0.0.1"};
    (void)state;
    for (size_t i = 0; i < sizeof(loopback) / sizeof(loopback[0]); i++)
        assert_true(bi_address_is_loopback(bytes_of(loopback[i])));
    for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++)
        assert_false(bi_address_is_loopback(bytes_of(other[i])));
}

static void network_contains_addresses_with_its_prefix(void **state)
{
    static const struct {
        const char *cidr, *inside, *outside;
    } cases[] = {
        {"10.0.0.0/8", "10.255.255.255", "11.0.0.0"},
        {"10.0.0.0/8", "::ffff:10.1.2.3", "::10.1.2.3"},
        {"172.16.0.0/12", "172.31.255.255", "172.32.0.0"},
        {"192.168.1.7", "192.168.1.7", "192.168.1.6"},
        {"192.168.1.6/31", "192.168.1.7", "192.168.1.8"},
        {"0.0.0.0/0", "1.2.3.4", "2001:db8::1"},
        {"fd00::/8", "fdff::1", "fe00::1"},
        {"2001:db8::/33", "2001:db8:7fff::1", "2001:db8:8000::1"},
        {"::1", "::1", "::2"},
        {"::ffff:10.0.0.0/104", "10.3.2.1", "11.0.0.1"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        struct cidr cidr;
        const char *text = cases[i].cidr;
        if (!bi_address_parse_cidr(&cidr, text, strlen(text), error))
            fail_msg("%s: %s", text, error);
        if (!bi_address_is_in_cidr(bytes_of(cases[i].inside), &cidr))
            fail_msg("%s is not in %s", cases[i].inside, text);
        if (bi_address_is_in_cidr(bytes_of(cases[i].outside), &cidr))
            fail_msg("%s is in %s", cases[i].outside, text);
    }
}

static void invalid_network_is_reported(void **state)
{
    static const struct {
        const char *text, *because;
    } cases[] = {
        {"", "not a network"},
        {"10.0.0.0/", "must be 0 to 32"},
        {"10.0.0.0/33", "must be 0 to 32"},
        {"10.0.0.0/-1", "must be 0 to 32"},
        {"10.0.0.0/8x", "must be 0 to 32"},
        {"10.0.0/8", "not a network"},
        {"fd00::/129", "must be 0 to 128"},
        {"10.0.0.1/8", "did you mean 10.0.0.0/8?"},
        {"fd00::1/8", "did you mean fd00::/8?"},
        {"intranet", "not a network"},
        {"10.0.0.0/8/8", "must be 0 to 32"},
        {"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa", "too long"},
    };
    struct cidr cidr = {.bits = 7};
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        if (bi_address_parse_cidr(&cidr, cases[i].text, strlen(cases[i].text), error))
            fail_msg("%s was taken", cases[i].text);
        if (strstr(error, cases[i].because) == NULL)
            fail_msg("%s: \"%s\" does not say \"%s\"", cases[i].text, error, cases[i].because);
    }
    assert_int_equal(cidr.bits, 7);
}

static void another_family_has_no_address(void **state)
{
    unsigned char bytes[BI_ADDRESS_SIZE];
    struct sockaddr other = {.sa_family = AF_UNIX};
    (void)state;
    assert_false(bi_address_from_sockaddr(&other, bytes));
    for (size_t i = 0; i < BI_ADDRESS_SIZE; i++)
        assert_int_equal(bytes[i], 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(loopback_is_known_in_every_form),
        cmocka_unit_test(network_contains_addresses_with_its_prefix),
        cmocka_unit_test(invalid_network_is_reported),
        cmocka_unit_test(another_family_has_no_address),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
