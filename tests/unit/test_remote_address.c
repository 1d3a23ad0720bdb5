/* SPDX-License-Identifier: MIT */
/*
 * The address of a server: parsing it, and connecting to a host of several addresses, some of which
 * drop packets. Those come from a getaddrinfo() of this test.
 */
#define _GNU_SOURCE
#include "unit.h"

#include "remote/remote_address.h"
#include "remote/remote_socket.h"
#include "util/clock.h"

#include <arpa/inet.h>
#include <netdb.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

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

/* Clients of a server that was restarted must not come all at once, also after the longest
 * pause. */
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

/* ---- a host of several addresses ---- */

#define HOST        "several.invalid"
#define FILLERS_MAX 32

int __real_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);
int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found);

/* The ports of 127.0.0.1 that the host has, in their order. */
static char ports[3][8];
static size_t port_count;

int __wrap_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    if (strcmp(host, HOST) != 0)
        return __real_getaddrinfo(host, port, hints, found);
    if ((hints->ai_flags & AI_NUMERICHOST) != 0)
        return EAI_NONAME;
    for (size_t i = 0; i < port_count; i++, found = &(*found)->ai_next)
        if (__real_getaddrinfo("127.0.0.1", ports[i], hints, found) != 0)
            return EAI_AGAIN;
    return 0;
}

/* When each connect() began, and until when it was to be waited for. */
static struct io_wait io_wait;
static int64_t begun[3], limits[3];
static size_t connects;

int __real_connect(int fd, const struct sockaddr *to, socklen_t size);
int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size);

/* The second connect() to a unix socket finds room in its backlog. */
static int unix_listener = -1;
static size_t unix_connects;

int __wrap_connect(int fd, const struct sockaddr *to, socklen_t size)
{
    if (to->sa_family == AF_UNIX && ++unix_connects == 2 && unix_listener >= 0)
        close(accept(unix_listener, NULL, NULL));
    if (connects < COUNT_OF(limits)) {
        begun[connects] = bi_clock_boot();
        limits[connects++] = io_wait.deadline;
    }
    return __real_connect(fd, to, size);
}

static int listen_on(size_t index, int backlog)
{
    struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(at);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_true(fd >= 0);
    assert_int_equal(bind(fd, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(fd, backlog), 0);
    assert_int_equal(getsockname(fd, (struct sockaddr *)&at, &size), 0);
    snprintf(ports[index], sizeof(ports[index]), "%u", ntohs(at.sin_port));
    return fd;
}

/* Connects until the queue of the listener is full, and further packets are dropped. */
static size_t fill(size_t index, int *fillers)
{
    struct sockaddr_in to = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    unsigned port = 0;
    sscanf(ports[index], "%u", &port);
    to.sin_port = htons((uint16_t)port);
    for (size_t count = 1; count <= FILLERS_MAX; count++) {
        int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
        assert_true(fd >= 0);
        fillers[count - 1] = fd;
        __real_connect(fd, (const struct sockaddr *)&to, sizeof(to));
        struct pollfd polled = {.fd = fd, .events = POLLOUT};
        if (poll(&polled, 1, 300) == 0)
            return count;
    }
    fail_msg("a listener with a backlog of 0 has accepted %d connections", FILLERS_MAX);
    return 0;
}

/* On a loopback the last connection succeeds even without any time left. */
static void unresponsive_address_leaves_time_for_the_next(void **state)
{
    (void)state;
    int fillers[2][FILLERS_MAX];
    char reason[BIDE_ERROR_SIZE] = "";
    struct address several = {.host = HOST, .port = "1"};
    int first = listen_on(0, 0), second = listen_on(1, 0), third = listen_on(2, 16);
    size_t counts[2] = {fill(0, fillers[0]), fill(1, fillers[1])};
    port_count = 3;
    io_wait = (struct io_wait){.deadline = bi_clock_boot() + 3000000, .stop_fd = -1};
    int64_t deadline = io_wait.deadline;
    int fd = bi_remote_socket_connect(&several, &io_wait, reason);
    if (fd < 0)
        fail_msg("no connection: %s", reason);
    assert_int_equal(io_wait.deadline, deadline);
    close(fd);
    assert_int_equal(connects, 3);
    assert_true(limits[0] < limits[1] && limits[1] < limits[2]);
    assert_true(begun[1] >= limits[0] && begun[2] >= limits[1]);
    assert_int_equal(limits[2], deadline);

    /* Without the last the others have all of the time. */
    port_count = 2;
    io_wait.deadline = bi_clock_boot() + 600000;
    assert_int_equal(bi_remote_socket_connect(&several, &io_wait, reason), -1);
    assert_string_equal(reason, "no answer in time");
    assert_true(bi_clock_boot() >= io_wait.deadline);
    for (size_t i = 0; i < 2; i++)
        for (size_t j = 0; j < counts[i]; j++)
            close(fillers[i][j]);
    close(first);
    close(second);
    close(third);
}

static void a_full_backlog_of_a_unix_socket_is_waited_for(void **state)
{
    (void)state;
    char folder[] = "/tmp/bide-socket.XXXXXX", reason[BIDE_ERROR_SIZE] = "";
    struct sockaddr_un at = {.sun_family = AF_UNIX};
    struct address to = {.host = ""};
    assert_non_null(mkdtemp(folder));
    snprintf(to.path, sizeof(to.path), "%s/s", folder);
    memcpy(at.sun_path, to.path, sizeof(at.sun_path));
    int listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(listener, (const struct sockaddr *)&at, sizeof(at)), 0);
    assert_int_equal(listen(listener, 0), 0);
    int filler = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(__real_connect(filler, (const struct sockaddr *)&at, sizeof(at)), 0);

    io_wait = (struct io_wait){.deadline = bi_clock_boot() + 100000, .stop_fd = -1};
    assert_int_equal(bi_remote_socket_connect(&to, &io_wait, reason), -1);
    assert_string_equal(reason, "no answer in time");
    assert_true(unix_connects > 1);

    unix_connects = 0;
    unix_listener = listener;
    io_wait.deadline = bi_clock_boot() + 20000000;
    int fd = bi_remote_socket_connect(&to, &io_wait, reason);
    assert_true(fd >= 0);
    assert_int_equal(unix_connects, 2);
    close(fd);
    close(filler);
    close(listener);
    unlink(to.path);
    rmdir(folder);
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
        cmocka_unit_test(unresponsive_address_leaves_time_for_the_next),
        cmocka_unit_test(a_full_backlog_of_a_unix_socket_is_waited_for),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
