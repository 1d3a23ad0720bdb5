/* SPDX-License-Identifier: MIT */
#include "scratch.h"

#include "server/listener.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

static struct listeners listeners;
static struct listen_address address;
static char error[BI_ERRMSG_SIZE];

/* ---- addresses ---- */

static void parse(const char *text, const char *host, const char *port)
{
    if (!bi_address_parse_listen(&address, text, error))
        fail_msg("%s: %s", text, error);
    assert_false(address.is_unix);
    assert_string_equal(address.host, host);
    assert_string_equal(address.port, port);
}

static void refuse(const char *text, const char *because)
{
    if (bi_address_parse_listen(&address, text, error))
        fail_msg("%s was taken", text);
    if (strstr(error, because) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, error, because);
}

static void addresses_are_written_in_many_ways(void **state)
{
    (void)state;
    parse("127.0.0.1:11300", "127.0.0.1", "11300");
    parse("localhost:1", "localhost", "1");
    parse("[::1]:11301", "::1", "11301");
    parse("[::]:0", "::", "0");
    parse("*:65535", "", "65535");
    parse("11302", "127.0.0.1", "11302");
    parse("10.0.0.1", "10.0.0.1", "11300");
    parse("::1", "::1", "11300");
    parse("[fe80::1%eth0]", "fe80::1%eth0", "11300");
    parse("queue.example", "queue.example", "11300");
}

static void a_path_makes_a_unix_socket(void **state)
{
    (void)state;
    assert_true(bi_address_parse_listen(&address, "unix:/run/a:b/[c].sock", error));
    assert_true(address.is_unix);
    assert_string_equal(address.host, "/run/a:b/[c].sock");
    char text[200] = "unix:";
    memset(text + 5, 'x', 107);
    assert_true(bi_address_parse_listen(&address, text, error));
    text[5 + 107] = 'x';
    refuse(text, "at most 107");
    refuse("unix:", "no path");
}

static void invalid_address_is_rejected(void **state)
{
    (void)state;
    refuse("", "empty");
    refuse(":11300", "empty");
    refuse("127.0.0.1:", "invalid port");
    refuse("127.0.0.1:65536", "invalid port");
    refuse("127.0.0.1:-1", "invalid port");
    refuse("127.0.0.1:1x", "invalid port");
    refuse("127.0.0.1:000080", "invalid port");
    refuse("99999", "invalid port");
    refuse("65536", "invalid port");
    refuse("000080", "invalid port");
    refuse("[::1", "[ADDRESS]:PORT");
    refuse("[::1]11300", "[ADDRESS]:PORT");
    refuse("[]:11300", "empty");
    char text[400];
    memset(text, 'x', sizeof(text));
    text[300] = 0;
    refuse(text, "too long");
}

static void the_address_of_beanstalkd_has_host_and_port_apart(void **state)
{
    (void)state;
    assert_true(bi_address_from_flags(&address, NULL, NULL, error));
    assert_string_equal(address.host, "127.0.0.1");
    assert_string_equal(address.port, "11300");
    assert_true(bi_address_from_flags(&address, "::1", "5", error));
    assert_string_equal(address.host, "::1");
    assert_string_equal(address.port, "5");
    assert_true(bi_address_from_flags(&address, "unix:/tmp/x", "5", error));
    assert_true(address.is_unix);
    assert_string_equal(address.host, "/tmp/x");
    assert_false(bi_address_from_flags(&address, "", NULL, error));
}

/* ---- sockets ---- */

static bool try_open(const char *text)
{
    assert_true(bi_address_parse_listen(&address, text, error));
    return bi_listener_open(&listeners, &address, 0600, error);
}

static void open_one(const char *text)
{
    if (!try_open(text))
        fail_msg("%s: %s", text, error);
}

static void refuse_open(const char *text, const char *because)
{
    if (try_open(text))
        fail_msg("%s was opened", text);
    if (strstr(error, because) == NULL)
        fail_msg("%s: \"%s\" does not say \"%s\"", text, error, because);
}

static const char *unix_text(void)
{
    static char text[200];
    snprintf(text, sizeof(text), "unix:%s/bided.sock", scratch);
    return text;
}

static int close_all(void **state)
{
    (void)state;
    bi_listener_close_all(&listeners);
    return 0;
}

static void socket_listens_and_is_nonblocking(void **state)
{
    (void)state;
    open_one("127.0.0.1:0");
    assert_int_equal(listeners.count, 1);
    const struct listener *listener = &listeners.list[0];
    assert_true(listener->is_local);
    assert_int_equal(strncmp(listener->name, "127.0.0.1:", 10), 0);
    assert_string_not_equal(listener->name, "127.0.0.1:0");
    assert_true(fcntl(listener->fd, F_GETFL) & O_NONBLOCK);
    assert_true(fcntl(listener->fd, F_GETFD) & FD_CLOEXEC);
    int listens = 0;
    socklen_t size = sizeof(listens);
    assert_int_equal(getsockopt(listener->fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &size), 0);
    assert_int_equal(listens, 1);
    assert_int_equal(accept(listener->fd, NULL, NULL), -1);
    assert_int_equal(errno, EAGAIN);
}

static void localhost_may_have_several_addresses_and_is_local(void **state)
{
    (void)state;
    open_one("localhost:0");
    assert_true(listeners.count >= 1);
    for (size_t i = 0; i < listeners.count; i++)
        assert_true(listeners.list[i].is_local);
}

static void an_address_of_every_machine_is_not_local(void **state)
{
    (void)state;
    open_one("0.0.0.0:0");
    open_one("*:0");
    open_one("127.1.2.3:0");
    assert_false(listeners.list[0].is_local);
    assert_false(listeners.list[1].is_local);
    assert_true(listeners.list[2].is_local);
}

static void foreign_address_is_rejected(void **state)
{
    (void)state;
    refuse_open("192.0.2.1:0", "no such address");
    refuse_open("no-such-host.invalid:0", "cannot listen on no-such-host.invalid");
    assert_int_equal(listeners.count, 0);
}

static void a_dangling_link_in_place_of_a_socket_is_left_alone(void **state)
{
    (void)state;
    struct stat info;
    assert_int_equal(symlink("nowhere", scratch_path("bided.sock")), 0);
    refuse_open(unix_text(), "not a socket");
    assert_int_equal(lstat(scratch_path("bided.sock"), &info), 0);
    assert_int_equal(unlink(scratch_path("bided.sock")), 0);
}

static void the_socket_of_a_successor_is_not_removed(void **state)
{
    (void)state;
    struct listeners before;
    struct stat info;
    open_one(unix_text());
    before = listeners;
    close(before.list[0].fd);
    before.list[0].fd = -1;
    listeners.count = 0;
    open_one(unix_text());
    bi_listener_close_all(&before);
    assert_int_equal(stat(scratch_path("bided.sock"), &info), 0);
}

static void sockets_have_a_limit(void **state)
{
    (void)state;
    for (int i = 0; i < BI_LISTENERS_MAX; i++)
        open_one("127.0.0.1:0");
    refuse_open("127.0.0.1:0", "more than 128");
    assert_int_equal(listeners.count, BI_LISTENERS_MAX);
}

static void without_systemd_nothing_is_inherited(void **state)
{
    (void)state;
    unsetenv("LISTEN_PID");
    unsetenv("LISTEN_FDS");
    assert_true(bi_listener_inherit(&listeners, error));
    assert_int_equal(listeners.count, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(addresses_are_written_in_many_ways),
        cmocka_unit_test(a_path_makes_a_unix_socket),
        cmocka_unit_test(invalid_address_is_rejected),
        cmocka_unit_test(the_address_of_beanstalkd_has_host_and_port_apart),
        cmocka_unit_test_teardown(socket_listens_and_is_nonblocking, close_all),
        cmocka_unit_test_teardown(localhost_may_have_several_addresses_and_is_local, close_all),
        cmocka_unit_test_teardown(an_address_of_every_machine_is_not_local, close_all),
        cmocka_unit_test_teardown(foreign_address_is_rejected, close_all),
        cmocka_unit_test_teardown(a_dangling_link_in_place_of_a_socket_is_left_alone, close_all),
        cmocka_unit_test_teardown(the_socket_of_a_successor_is_not_removed, close_all),
        cmocka_unit_test_teardown(sockets_have_a_limit, close_all),
        cmocka_unit_test_teardown(without_systemd_nothing_is_inherited, close_all),
    };
    return cmocka_run_group_tests_name("listen", tests, scratch_make, scratch_remove);
}
