/* SPDX-License-Identifier: MIT */
/* listener.c - addresses and unix sockets. */
#define _GNU_SOURCE /* unshare */
#include "bided_suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVES(fd) ask(connect_at(HERE, (fd)), "list-tube-used\r\n", "USING default\r\n")

static const char *unix_flag(const char *name)
{
    static char flag[300];
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path(name));
    return flag;
}

static void several_addresses_are_served(void)
{
    struct bided *bided =
        serve("--url=memory:", "--listen=127.0.0.1:0", "--listen=127.0.0.2:0", unix_flag("a.sock"));
    SERVES(try_tcp("127.0.0.1", port_of(bided, "127.0.0.1")));
    SERVES(try_tcp("127.0.0.2", port_of(bided, "127.0.0.2")));
    SERVES(try_unix(test_path("a.sock")));
    stop(bided);
}

static bool has_ipv6(void)
{
    struct sockaddr_in6 any = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
    int fd = socket(AF_INET6, SOCK_STREAM, 0);
    bool has = fd >= 0 && bind(fd, (struct sockaddr *)&any, sizeof any) == 0;
    close(fd);
    return has;
}

static void ipv6_is_served_or_reported_missing(void)
{
    if (!has_ipv6()) {
        HAS(ends_with(111, "--url=memory:", "--listen=[::1]:0")->err, "cannot listen on [::1]:0");
        return;
    }
    struct bided *bided = serve("--url=memory:", "--listen=[::1]:0");
    SERVES(try_tcp("::1", port_of(bided, "[::1]")));
    stop(bided);
    bided = serve("--url=memory:", "-l", "::1", "-p", "0");
    SERVES(try_tcp("::1", port_of(bided, "[::1]")));
    stop(bided);
}

static void the_missing_directory_of_a_socket_is_reported(void)
{
    HAS(ends_with(111, "--url=memory:", "--listen=unix:/no/such/folder/bided.sock")->err,
        "cannot listen on unix:/no/such/folder/bided.sock: No such file or directory; create its "
        "directory first");
}

static void wildcard_address_includes_ipv4(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=*:0");
    int port = port_of(bided, has_ipv6() ? "[::]" : "0.0.0.0");
    SERVES(try_tcp("127.0.0.1", port));
    if (has_ipv6())
        SERVES(try_tcp("::1", port));
    stop(bided);
}

static void host_name_is_resolved(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=localhost:0");
    SERVES(try_tcp("127.0.0.1", port_of(bided, "127.0.0.1")));
    stop(bided);
}

static void an_address_in_use_ends_with_111(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    char flag[100], wanted[200];
    int port = port_of(bided, "127.0.0.1");
    snprintf(flag, sizeof flag, "--listen=127.0.0.1:%d", port);
    snprintf(
        wanted, sizeof wanted,
        "cannot listen on 127.0.0.1:%d: Address already in use; is another bided or beanstalkd "
        "running?",
        port);
    HAS(ends_with(111, "--url=memory:", flag)->err, wanted);
    HAS(ends_with(111, "--url=memory:", "--listen=192.0.2.1:0")->err, "no such address");
    stop(bided);
}

/* Connections that have just been closed do not keep it from starting again. */
static void an_address_can_be_listened_on_again_at_once(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    int fd = connect_tcp(port);
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
    char flag[100];
    snprintf(flag, sizeof flag, "--listen=%d", port);
    bided = serve("--url=memory:", flag);
    SERVES(try_tcp("127.0.0.1", port));
    stop(bided);
}

static void unix_socket_is_removed_at_shutdown(void)
{
    struct stat info;
    struct bided *bided = serve("--url=memory:", unix_flag("a.sock"), "--unix-mode=0600");
    CHECK(stat(test_path("a.sock"), &info) == 0);
    EQ(info.st_mode & 0777, 0600);
    stop(bided);
    CHECK(!file_exists(test_path("a.sock")));
}

static void stale_unix_socket_is_replaced(void)
{
    struct bided *bided = serve("--url=memory:", unix_flag("a.sock"));
    kill(bided->pid, SIGKILL);
    await_end(bided, 256 + SIGKILL);
    CHECK(file_exists(test_path("a.sock")));
    bided = serve("--url=memory:", unix_flag("a.sock"));
    SERVES(try_unix(test_path("a.sock")));
    struct bided *other = ends_with(111, "--url=memory:", unix_flag("a.sock"));
    HAS(other->err, "is another bided or beanstalkd running?");
    SERVES(try_unix(test_path("a.sock")));
    stop(bided);
}

static void file_at_the_socket_path_is_left_alone(void)
{
    write_file(test_path("a.sock"), 0, "precious", 8);
    HAS(ends_with(111, "--url=memory:", unix_flag("a.sock"))->err, "it is not a socket");
    EQ(size_of(test_path("a.sock")), 8);
}

/* ---- who may come in ---- */

static bool set_up(int fd, const char *name, const char *address)
{
    struct ifreq request = {.ifr_name = ""};
    struct sockaddr_in four = {.sin_family = AF_INET};
    inet_pton(AF_INET, address, &four.sin_addr);
    snprintf(request.ifr_name, sizeof request.ifr_name, "%s", name);
    memcpy(&request.ifr_addr, &four, sizeof four);
    if (ioctl(fd, SIOCSIFADDR, &request) != 0)
        return false;
    request.ifr_flags = IFF_UP | IFF_RUNNING;
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

/* By a write without a position, which files of /proc do not take. */
static void write_proc(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text));
    close(fd);
}

static void write_map(const char *path, unsigned id)
{
    char text[64];
    snprintf(text, sizeof text, "%u %u 1\n", id, id);
    write_proc(path, text);
}

/* Without being root, a process may have one together with a user namespace. Its user is mapped to
 * itself: a user that is not mapped cannot make files. */
bool have_own_network(void)
{
    unsigned user = geteuid(), group = getegid();
    if (unshare(user == 0 ? CLONE_NEWNET : CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    if (user != 0) {
        write_proc("/proc/self/setgroups", "deny");
        write_map("/proc/self/uid_map", user);
        write_map("/proc/self/gid_map", group);
    }
    int fd = socket(AF_INET, SOCK_DGRAM, 0);
    CHECK(fd >= 0 && set_up(fd, "lo", "127.0.0.1") && set_up(fd, "lo:1", OUTER));
    close(fd);
    return true;
}

/* A new address cannot be used before the system has made sure that no other host has it. */
static bool can_bind(const struct in6_addr *address)
{
    struct sockaddr_in6 own = {.sin6_family = AF_INET6, .sin6_addr = *address};
    int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool can = fd >= 0 && bind(fd, (struct sockaddr *)&own, sizeof own) == 0;
    close(fd);
    return can;
}

bool have_own_ipv6(void)
{
    static const char *const addresses[] = {OUTER_SIX, NEIGHBOUR_SIX, BESIDE_SIX};
    struct { /* as in linux/ipv6.h, which does not go with netinet/in.h */
        struct in6_addr address;
        uint32_t prefix_bits;
        int interface;
    } request = {.prefix_bits = 64, .interface = (int)if_nametoindex("lo")};
    int fd = socket(AF_INET6, SOCK_DGRAM, 0);
    bool has = fd >= 0;
    for (size_t i = 0; has && i < COUNT(addresses); i++) {
        has = inet_pton(AF_INET6, addresses[i], &request.address) == 1 &&
              ioctl(fd, SIOCSIFADDR, &request) == 0;
        if (has)
            UNTIL(can_bind(&request.address));
    }
    close(fd);
    return has;
}

static void without_a_secret_only_local_clients_are_served(void)
{
    bool own = have_own_network();
    struct bided *bided = serve("--url=memory:", "--listen=0.0.0.0:0");
    int port = port_of(bided, "0.0.0.0");
    HAS(bided->err, "WARN  clients on other machines are rejected");
    LACKS(bided->err, "INFO  ready");
    /* Once: a reload says it again. */
    LACKS(bided->err, "neither auth_secret nor trust is set");
    kill(bided->pid, SIGHUP);
    await_log(bided, "WARN  neither auth_secret nor trust is set");
    SERVES(try_tcp("127.0.0.1", port));
    if (own) {
        int fd = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
        ask(fd, "list-tube-used\r\n", "AUTH_REQUIRED\r\n");
        await_close(fd);
    }
    stop(bided);
}

static void client_with_the_secret_is_served(void)
{
    bool own = have_own_network();
    char text[200], flag[400];
    snprintf(text, sizeof text, "auth_secret = 0123456789abcdef\nurl = memory:\nlisten = %s:0\n",
             own ? "0.0.0.0" : "127.0.0.1");
    write_file(test_path("bided.conf"), 0, text, strlen(text));
    CHECK(chmod(test_path("bided.conf"), 0600) == 0);
    snprintf(flag, sizeof flag, "--config=%s", test_path("bided.conf"));
    struct bided *bided = serve(flag);
    int port = port_of(bided, own ? "0.0.0.0" : "127.0.0.1");
    LACKS(bided->err, "there is no auth_secret");
    HAS(bided->err, "INFO  ready");
    SERVES(try_tcp("127.0.0.1", port));
    if (own) {
        int fd = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
        ask(fd, "list-tube-used\r\n", "AUTH_REQUIRED\r\n");
        ask(fd, "auth 0123456789abcdef\r\n", "AUTHENTICATED\r\n");
        ask(fd, "list-tube-used\r\n", "USING default\r\n");
    }
    stop(bided);
}

/* A reload takes effect at once, also for the secret. */
static void secret_added_by_reload_admits_remote_clients(void)
{
    bool own = have_own_network();
    char flag[400];
    const char *before = "url = memory:\nlisten = 0.0.0.0:0\n";
    const char *after = "url = memory:\nlisten = 0.0.0.0:0\nauth_secret = 0123456789abcdef\n";
    write_file(test_path("bided.conf"), 0, before, strlen(before));
    CHECK(chmod(test_path("bided.conf"), 0600) == 0);
    snprintf(flag, sizeof flag, "--config=%s", test_path("bided.conf"));
    struct bided *bided = serve(flag);
    write_file(test_path("bided.conf"), 0, after, strlen(after));
    kill(bided->pid, SIGHUP);
    await_log(bided, "settings reloaded");
    int port = port_of(bided, "0.0.0.0");
    const char *from = own ? NEIGHBOUR : NULL, *to = own ? OUTER : "127.0.0.1";
    int fd = connect_at(HERE, try_tcp_from(from, to, port));
    ask(fd, "auth wrong\r\n", "NOT_AUTHENTICATED\r\n");
    fd = connect_at(HERE, try_tcp_from(from, to, port));
    ask(fd, "auth 0123456789abcdef\r\n", "AUTHENTICATED\r\n");
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

static const struct test tests[] = {
    TEST(several_addresses_are_served),
    TEST(ipv6_is_served_or_reported_missing),
    TEST(the_missing_directory_of_a_socket_is_reported),
    TEST(wildcard_address_includes_ipv4),
    TEST(host_name_is_resolved),
    TEST(an_address_in_use_ends_with_111),
    TEST(an_address_can_be_listened_on_again_at_once),
    TEST(unix_socket_is_removed_at_shutdown),
    TEST(stale_unix_socket_is_replaced),
    TEST(file_at_the_socket_path_is_left_alone),
    TEST(without_a_secret_only_local_clients_are_served),
    TEST(client_with_the_secret_is_served),
    TEST(secret_added_by_reload_admits_remote_clients),
};

const struct theme listener_theme = {"listener", tests, COUNT(tests)};
