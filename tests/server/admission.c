/* SPDX-License-Identifier: MIT */
/* admission.c - which clients are served, which must say the secret, and what the log tells of
 * them. */
#define _GNU_SOURCE /* struct ucred */
#include "bided_suite.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#define SERVES(fd) ask(connect_at(HERE, (fd)), "list-tube-used\r\n", "USING default\r\n")
#define SECRET     "0123456789abcdef"

static const char *unix_flag(void)
{
    static char flag[300];
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    return flag;
}

static int count_of(const char *text, const char *wanted)
{
    int count = 0;
    for (; (text = strstr(text, wanted)) != NULL; text++)
        count++;
    return count;
}

/* ---- this machine ---- */

/* An IPv4 address of this machine that is not loopback; false if it has none. */
static bool find_own_address(char *text, socklen_t size)
{
    struct ifaddrs *all;
    bool found = false;
    CHECK(getifaddrs(&all) == 0);
    for (const struct ifaddrs *each = all; each != NULL && !found; each = each->ifa_next) {
        if (each->ifa_addr == NULL || each->ifa_addr->sa_family != AF_INET ||
            (each->ifa_flags & IFF_UP) == 0)
            continue;
        const struct sockaddr_in *four = (const void *)each->ifa_addr;
        found = ntohl(four->sin_addr.s_addr) >> 24 != 127 &&
                inet_ntop(AF_INET, &four->sin_addr, text, size) != NULL;
    }
    freeifaddrs(all);
    return found;
}

static void interface_address_counts_as_local(void)
{
    char own[INET_ADDRSTRLEN];
    have_own_network();
    if (!find_own_address(own, sizeof own))
        return;
    struct bided *bided = serve("--url=memory:", "--listen=0.0.0.0:0");
    SERVES(try_tcp(own, port_of(bided, "0.0.0.0")));
    stop(bided);
}

/* ---- trust ---- */

static void clients_of_a_trusted_network_need_no_secret(void)
{
    bool own = have_own_network();
    struct bided *bided =
        serve("--url=memory:", "--listen=0.0.0.0:0", "--trust=10.9.8.0/24, fd00::/8");
    int port = port_of(bided, "0.0.0.0");
    HAS(bided->err,
        "trusted without authentication: clients on this machine, 10.9.8.0/24, fd00::/8");
    HAS(bided->err, "all other clients are rejected: auth_secret is not set");
    HAS(bided->err, "INFO  ready");
    SERVES(try_tcp("127.0.0.1", port));
    if (own) {
        SERVES(try_tcp_from(NEIGHBOUR, OUTER, port));
        int fd = connect_at(HERE, try_tcp_from(STRANGER, OUTER, port));
        ask(fd, "", "AUTH_REQUIRED\r\n");
        await_close(fd);
    }
    stop(bided);
}

/* At a socket for IPv6 and IPv4 the latter are mapped. */
static void ipv4_networks_match_on_a_dual_stack_socket(void)
{
    if (!have_own_network())
        return;
    struct bided *bided = serve("--url=memory:", "--listen=*:0", "--trust=10.9.8.0/24");
    int port = port_of(bided, strstr(bided->err.text, "[::]:") != NULL ? "[::]" : "0.0.0.0");
    SERVES(try_tcp(OUTER, port));
    SERVES(try_tcp_from(NEIGHBOUR, OUTER, port));
    int fd = connect_at(HERE, try_tcp_from(STRANGER, OUTER, port));
    ask(fd, "", "AUTH_REQUIRED\r\n");
    stop(bided);
}

static void a_reload_changes_which_networks_are_trusted(void)
{
    bool own = have_own_network();
    struct bided *bided = serve(file_of("url = memory:\nlisten = 0.0.0.0:0\n"));
    int port = port_of(bided, "0.0.0.0");
    file_of("url = memory:\nlisten = 0.0.0.0:0\ntrust = 10.9.8.6\ntrust = 192.168.0.0/16\n");
    kill(bided->pid, SIGHUP);
    await_log(
        bided,
        "trusted without authentication: clients on this machine, 10.9.8.6/32, 192.168.0.0/16");
    LACKS(bided->err, "takes a restart");
    if (own)
        SERVES(try_tcp_from(NEIGHBOUR, OUTER, port));
    stop(bided);
}

static void invalid_network_is_rejected(void)
{
    HAS(ends_with(5, "--trust=10.0.0.0/33")->err, "trust has \"10.0.0.0/33\": the prefix length");
    HAS(ends_with(5, "--trust=10.0.0.1/8")->err, "host bits are set; did you mean 10.0.0.0/8?");
    HAS(ends_with(5, "--trust=intranet")->err, "not a network such as 10.0.0.0/8 or fd00::/8");
    struct bided *bided = serve("--url=memory:", "--listen=0.0.0.0:0", "--trust=0.0.0.0/0");
    HAS(bided->err, "WARN  trust has 0.0.0.0/0: every client that can connect is served");
    stop(bided);
    bided = serve("--url=memory:", "--listen=0", "--trust=10.0.0.0/8");
    HAS(bided->err, "WARN  trust has no effect: bided listens on loopback addresses only");
    stop(bided);
}

/* ---- the secret ---- */

/* A client may have a secret that is for another server (BIDE_SECRET_FILE). */
static void server_without_a_secret_accepts_any_secret_from_trusted_clients(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "auth " SECRET "\r\nlist-tube-used\r\n", "AUTHENTICATED\r\nUSING default\r\n");
    LACKS(bided->err, "wrong secret");
    stop(bided);
}

static void auth_always_requires_the_secret_from_every_client(void)
{
    struct bided *bided = serve(file_of("url = memory:\nlisten = 127.0.0.1:0\nauth_secret = " SECRET
                                        "\nauth = always\ntrust = 127.0.0.0/8\n"),
                                "--listen=127.0.0.1:0", unix_flag());
    HAS(bided->err, "every client must authenticate");
    HAS(bided->err, "trust has no effect: auth is always");
    const int fds[] = {try_tcp("127.0.0.1", port_of(bided, "127.0.0.1")),
                       try_unix(test_path("a.sock"))};
    for (size_t i = 0; i < COUNT(fds); i++) {
        ask(fds[i], "list-tube-used\r\n", "AUTH_REQUIRED\r\n");
        ask(fds[i], "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
        ask(fds[i], "list-tube-used\r\n", "USING default\r\n");
    }
    stop(bided);
    HAS(ends_with(5, "--url=memory:", "--auth=always")->err,
        "auth is always, but there is no auth_secret");
    HAS(ends_with(5, "--url=memory:", "--auth=never")->err, "it takes remote or always");
}

static void wrong_secret_is_rejected_after_a_growing_pause(void)
{
    struct bided *bided =
        serve(file_of("url = memory:\nlisten = 127.0.0.1:0\nauth_secret = " SECRET "\n"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    int64_t start_us = clock_us();
    ask(fd, "auth wrong\r\nauth wrong\r\nauth wrong\r\n",
        "NOT_AUTHENTICATED\r\nNOT_AUTHENTICATED\r\nNOT_AUTHENTICATED\r\n");
    NOT_BEFORE(start_us, 650); /* 100, 200 and 400 ms, by a clock of a few */
    /* What is behind them is executed as ever; the fifth ends it. */
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    ask(fd, "auth wrong\r\nauth wrong\r\nlist-tube-used\r\n",
        "NOT_AUTHENTICATED\r\nNOT_AUTHENTICATED\r\n");
    await_close(fd);
    await_log(bided, "authentication failed: wrong secret from 127.0.0.1:");
    stop(bided);
}

/* A client that does not wait for the answer gains nothing: its next guess waits. */
static void guess_without_waiting_for_the_reply_delays_the_next(void)
{
    struct bided *bided =
        serve(file_of("url = memory:\nlisten = 127.0.0.1:0\nauth_secret = " SECRET "\n"));
    int port = port_of(bided, "127.0.0.1");
    int64_t start_us = clock_us();
    for (int i = 0; i < 3; i++) {
        int fd = connect_tcp(port);
        CHECK(send(fd, "auth wrong\r\n", 12, MSG_NOSIGNAL) == 12);
        await_logs(bided, "wrong secret from", 1);
        close(fd);
    }
    ask(connect_tcp(port), "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
    NOT_BEFORE(start_us, 95);
    stop(bided);
}

/* A new connection for each guess is not quicker, and the right secret is taken all the same. */
static void guesses_over_new_connections_are_delayed_too(void)
{
    struct bided *bided =
        serve(file_of("url = memory:\nlisten = 127.0.0.1:0\nauth_secret = " SECRET "\n"));
    int port = port_of(bided, "127.0.0.1");
    int64_t start_us = clock_us();
    for (int i = 0; i < 4; i++) {
        int fd = connect_tcp(port);
        ask(fd, "auth wrong\r\n", "NOT_AUTHENTICATED\r\n");
        close(fd);
    }
    ask(connect_tcp(port), "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
    NOT_BEFORE(start_us, 1400);
    stop(bided);
}

static void pauses_do_not_delay_other_clients(void)
{
    struct bided *bided =
        serve(file_of("url = memory:\nlisten = 127.0.0.1:0\nauth_secret = " SECRET "\n"));
    int port = port_of(bided, "127.0.0.1");
    int guess = connect_tcp(port), other = connect_tcp(port);
    CHECK(send(guess, "auth wrong\r\nauth wrong\r\n", 24, MSG_NOSIGNAL) == 24);
    for (int i = 0; i < 100; i++)
        ask(other, "list-tube-used\r\n", "USING default\r\n");
    ask(guess, "", "NOT_AUTHENTICATED\r\nNOT_AUTHENTICATED\r\n");
    stop(bided);
}

static void secret_can_be_read_from_secret_file(void)
{
    char flag[400];
    write_file(test_path("secret"), 0, SECRET "\n", strlen(SECRET) + 1);
    CHECK(chmod(test_path("secret"), 0600) == 0);
    snprintf(flag, sizeof flag, "--secret-file=%s", test_path("secret"));
    struct bided *bided = serve("--url=memory:", "--listen=0", flag);
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
    LACKS(bided->err, SECRET);
    LACKS(bided->err, "can be read by all users");
    stop(bided);
    CHECK(chmod(test_path("secret"), 0644) == 0);
    bided = serve("--url=memory:", "--listen=0", flag);
    HAS(bided->err, "can be read by all users");
    stop(bided);
    write_file(test_path("secret"), 0, SECRET "\n" SECRET "\n", 2 * strlen(SECRET) + 2);
    bided = ends_with(5, "--url=memory:", flag);
    HAS(bided->err, "the file must have one line");
    LACKS(bided->err, SECRET);
    /* Random bytes, cut at a NUL, would be a secret that is easily guessed. */
    write_file(test_path("secret"), 0, "0123456789\0abcdef\n", 18);
    CHECK(truncate(test_path("secret"), 18) == 0);
    HAS(ends_with(5, "--url=memory:", flag)->err, "the file contains a NUL byte");
    write_file(test_path("secret"), 0, "0123456789\rabcdef\n", 18);
    HAS(ends_with(5, "--url=memory:", flag)->err, "control character");
    CHECK(truncate(test_path("secret"), 0) == 0);
    HAS(ends_with(5, "--url=memory:", flag)->err, "the file is empty");
    HAS(ends_with(5, "--url=memory:", "--secret-file=/no/such")->err,
        "cannot read secret_file /no/such: No such file or directory");
}

/* systemd hides it from the command that checks the settings before a reload. */
static void check_of_the_settings_passes_without_the_credentials_of_the_unit(void)
{
    struct bided *bided =
        ends_with(0, "--check-config", "--secret-file=/run/credentials/no-such-unit/secret");
    HAS(bided->err, "is not checked: No such file or directory");
    HAS(ends_with(5, "--url=memory:", "--secret-file=/run/credentials/no-such-unit/secret")->err,
        "cannot read secret_file");
}

/* One that no process writes to must not stop a server that runs; one with a writer is read. */
static void reading_the_secret_from_a_pipe_times_out(void)
{
    char flag[400];
    snprintf(flag, sizeof flag, "--secret-file=%s", test_path("pipe"));
    CHECK(mkfifo(test_path("pipe"), 0600) == 0);
    int fd = open(test_path("pipe"), O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0 && write(fd, SECRET "\n", strlen(SECRET) + 1) == (ssize_t)strlen(SECRET) + 1);
    struct bided *bided = start("--url=memory:", "--listen=0", flag, NULL);
    /* It has read the line when its writer may go. */
    int left = 1;
    while (left > 0)
        CHECK(ioctl(fd, FIONREAD, &left) == 0);
    close(fd);
    await_log(bided, "ready");
    int client = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(client, "auth " SECRET "\r\n", "AUTHENTICATED\r\n");

    kill(bided->pid, SIGHUP);
    await_log(bided, "the old ones stay: cannot read secret_file");
    await_log(bided, "it is a pipe whose writer has not come");
    ask(client, "use x\r\n", "USING x\r\n");
    stop(bided);
    HAS(ends_with(5, "--url=memory:", "--secret-file=/")->err, "Is a directory");
}

/* ---- refusals ---- */

static void rejected_connection_is_closed_after_a_growing_pause(void)
{
    if (!have_own_network())
        return;
    struct bided *bided = serve("--url=memory:", "--listen=0.0.0.0:0");
    int port = port_of(bided, "0.0.0.0");
    for (int i = 0, least_ms = 95; i < 4; i++, least_ms *= 2) {
        int64_t start_us = clock_us();
        int fd = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
        ask(fd, "stats\r\n", "AUTH_REQUIRED\r\n");
        await_close(fd);
        NOT_BEFORE(start_us, least_ms);
    }
    SERVES(try_tcp("127.0.0.1", port));
    stop(bided);
    HAS(bided->err, "connection from 10.9.8.6:");
    HAS(bided->err, "no auth_secret is set, and its address is not in a trusted network");
    CHECK(count_of(bided->err.text, " rejected: ") < 4);
}

/* ---- slots ---- */

static void unauthenticated_connections_do_not_lock_out_clients(void)
{
    if (!have_own_network())
        return;
    struct bided *bided =
        serve(file_of("url = memory:\nlisten = 0.0.0.0:0\nauth_secret = " SECRET "\n"),
              "--max-connections=40");
    int port = port_of(bided, "0.0.0.0");
    int inside = connect_at(HERE, try_tcp_from("10.9.8.5", OUTER, port));
    ask(inside, "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
    for (int i = 0; i < 60; i++)
        connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
    SERVES(try_tcp("127.0.0.1", port));
    int fd = connect_at(HERE, try_tcp_from("10.9.8.4", OUTER, port));
    ask(fd, "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    ask(inside, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

/* Trusted clients from other machines leave some slots to this one. */
static void remote_clients_do_not_take_the_last_slots(void)
{
    if (!have_own_network())
        return;
    struct bided *bided =
        serve("--url=memory:", "--listen=0.0.0.0:0", "--trust=10.0.0.0/8", "--max-connections=40");
    int port = port_of(bided, "0.0.0.0");
    for (int i = 0; i < 38; i++)
        SERVES(try_tcp_from(NEIGHBOUR, OUTER, port));
    int fd = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
    ask(fd, "", "OUT_OF_MEMORY\r\n");
    await_close(fd);
    SERVES(try_tcp("127.0.0.1", port));
    SERVES(try_tcp("127.0.0.1", port));
    stop(bided);
}

static void connections_per_address_are_limited(void)
{
    if (!have_own_network())
        return;
    struct bided *bided = serve("--url=memory:", "--listen=0.0.0.0:0", "--trust=10.0.0.0/8",
                                "--max-connections-per-address=3");
    int port = port_of(bided, "0.0.0.0");
    int first = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
    for (int i = 0; i < 2; i++)
        SERVES(try_tcp_from(NEIGHBOUR, OUTER, port));
    int fd = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
    ask(fd, "", "OUT_OF_MEMORY\r\n");
    await_close(fd);
    await_log(bided, "its address has reached max_connections_per_address");
    SERVES(try_tcp_from(STRANGER, OUTER, port));
    for (int i = 0; i < 5; i++)
        SERVES(try_tcp("127.0.0.1", port));
    /* The place of one that goes is free again. */
    ask(first, "quit\r\n", "");
    await_close(first);
    char got[6] = "";
    UNTIL((fd = try_tcp_from(NEIGHBOUR, OUTER, port)) >= 0 &&
          send(fd, "list-tube-used\r\n", 16, MSG_NOSIGNAL) == 16 &&
          recv(fd, got, 5, MSG_WAITALL) == 5 && memcmp(got, "USING", 5) == 0);
    stop(bided);
}

/* An address that has as many as it may does not have those of others closed. */
static void address_at_its_limit_does_not_evict_others(void)
{
    enum { PER_ADDRESS = 64 }; /* and one more are an eighth of all connections */
    if (!have_own_network())
        return;
    struct bided *bided = serve(file_of("auth_secret = " SECRET "\n"),
                                "--url=memory:", "--listen=0.0.0.0:0", "--max-connections=520");
    int port = port_of(bided, "0.0.0.0"), fd;
    int first = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
    ask(first, "list-tube-used\r\n", "AUTH_REQUIRED\r\n");
    for (int i = 0; i < PER_ADDRESS; i++) {
        fd = connect_at(HERE, try_tcp_from(STRANGER, OUTER, port));
        ask(fd, "list-tube-used\r\n", "AUTH_REQUIRED\r\n");
    }
    for (int i = 0; i < 5; i++) {
        fd = connect_at(HERE, try_tcp_from(STRANGER, OUTER, port));
        ask(fd, "", "OUT_OF_MEMORY\r\n");
        await_close(fd);
    }
    ask(first, "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
    stop(bided);
}

/* The hosts of a local network have one IPv6 network: one of them does not keep the others out. */
static void ipv6_neighbours_are_limited_separately(void)
{
    enum { PER_ADDRESS = 64 };
    if (!have_own_network() || !have_own_ipv6())
        return;
    struct bided *bided =
        serve(file_of("auth_secret = " SECRET "\n"), "--url=memory:", "--listen=[::]:0",
              "--max-connections-per-address=2");
    int port = port_of(bided, "[::]"), fd;
    for (int i = 0; i < PER_ADDRESS + 5; i++) {
        fd = connect_at(HERE, try_tcp_from(NEIGHBOUR_SIX, OUTER_SIX, port));
        if (i < PER_ADDRESS)
            ask(fd, "list-tube-used\r\n", "AUTH_REQUIRED\r\n");
        else
            ask(fd, "", "OUT_OF_MEMORY\r\n");
    }
    for (int i = 0; i < 2; i++) {
        fd = connect_at(HERE, try_tcp_from(BESIDE_SIX, OUTER_SIX, port));
        ask(fd, "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
        ask(fd, "list-tube-used\r\n", "USING default\r\n");
    }
    fd = connect_at(HERE, try_tcp_from(BESIDE_SIX, OUTER_SIX, port));
    ask(fd, "auth " SECRET "\r\n", "OUT_OF_MEMORY\r\n");
    stop(bided);
}

/* A host can have any address of its IPv6 network: another one makes no guess quicker. */
static void guesses_from_one_ipv6_network_are_throttled_together(void)
{
    if (!have_own_network() || !have_own_ipv6())
        return;
    struct bided *bided =
        serve(file_of("auth_secret = " SECRET "\n"), "--url=memory:", "--listen=[::]:0");
    int port = port_of(bided, "[::]");
    int64_t start_us = clock_us();
    for (int i = 0; i < 4; i++) {
        const char *from = i % 2 == 0 ? NEIGHBOUR_SIX : BESIDE_SIX;
        int fd = connect_at(HERE, try_tcp_from(from, OUTER_SIX, port));
        ask(fd, "auth wrong\r\n", "NOT_AUTHENTICATED\r\n");
    }
    NOT_BEFORE(start_us, 100 + 200 + 400 + 800 - 5);
    stop(bided);
}

static const char *file_with_limit(int per_address)
{
    char text[300];
    snprintf(text, sizeof text,
             "url = memory:\nlisten = 0.0.0.0:0\ntrust = 10.0.0.0/8\n"
             "auth_secret = " SECRET "\nmax_connections_per_address = %d\n",
             per_address);
    return file_of(text);
}

/* A limit that is lower since a reload is for connections that come. */
static void served_connection_survives_a_lower_limit(void)
{
    enum { SERVED = 3 };
    int fds[SERVED];
    if (!have_own_network())
        return;
    struct bided *bided = serve(file_with_limit(SERVED));
    int port = port_of(bided, "0.0.0.0");
    for (int i = 0; i < SERVED; i++) {
        fds[i] = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
        ask(fds[i], "list-tube-used\r\n", "USING default\r\n");
    }
    file_with_limit(1);
    CHECK(kill(bided->pid, SIGHUP) == 0);
    await_log(bided, "settings reloaded");
    for (int i = 0; i < SERVED; i++) {
        ask(fds[i], "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
        ask(fds[i], "list-tube-used\r\n", "USING default\r\n");
    }
    int fd = connect_at(HERE, try_tcp_from(NEIGHBOUR, OUTER, port));
    ask(fd, "", "OUT_OF_MEMORY\r\n");
    stop(bided);
}

/* ---- administrative actions ---- */

static void administrative_actions_are_logged_with_the_client(void)
{
    char peer[100], url[300];
    struct bided *bided = serve("--url=memory:", "--listen=127.0.0.1:0", unix_flag());
    int fd = connect_at(HERE, try_unix(test_path("a.sock")));
    ask(fd, "use mail\r\nput 0 0 60 1\r\nx\r\n", "USING mail\r\nINSERTED 1\r\n");
    ask(fd, "pause-tube mail 10\r\npurge-tube mail ready\r\n", "PAUSED\r\nPURGED 1\r\n");
    snprintf(peer, sizeof peer, ", requested by unix socket, uid %u, pid %d", (unsigned)geteuid(),
             (int)getpid());
    await_log(bided, peer);
    HAS(bided->err, "INFO  pause of topic mail, requested by unix socket");
    HAS(bided->err, "INFO  purge of ready jobs of topic mail, requested by unix socket");
    snprintf(url, sizeof url, "beanstalk://127.0.0.1:%d", port_of(bided, "127.0.0.1"));
    bide *queue = open_url(url);
    OK(bide_drain(queue, true));
    OK(bide_drain(queue, false));
    OK(bide_close(queue));
    await_log(bided, "INFO  drain, requested by 127.0.0.1:");
    await_log(bided, "INFO  drain off, requested by 127.0.0.1:");
    stop(bided);
}

/* At a socket for both families, which shows IPv4 as a part of IPv6. */
static void addresses_in_the_log_have_the_usual_form(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=*:0");
    bool both = strstr(bided->err.text, "listening on [::]:") != NULL;
    int port = port_of(bided, both ? "[::]" : "0.0.0.0");
    ask(connect_tcp(port), "pause-tube default 0\r\n", "PAUSED\r\n");
    await_log(bided, "requested by 127.0.0.1:");
    if (both) {
        ask(connect_at(HERE, try_tcp("::1", port)), "pause-tube default 0\r\n", "PAUSED\r\n");
        await_log(bided, "requested by [::1]:");
    }
    stop(bided);
}

static void flood_of_administrative_actions_does_not_fill_the_log(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    for (int i = 0; i < 200; i++)
        ask(fd, "pause-tube default 0\r\n", "PAUSED\r\n");
    nap_ms(1100);
    ask(fd, "pause-tube default 0\r\n", "PAUSED\r\n");
    await_log(bided, "administrative commands were not logged");
    CHECK(count_of(bided->err.text, "pause of topic default") < 200);
    stop(bided);
}

static void first_authentication_of_an_address_is_logged(void)
{
    struct bided *bided =
        serve(file_of("url = memory:\nlisten = 127.0.0.1:0\nauth_secret = " SECRET "\n"));
    int port = port_of(bided, "127.0.0.1");
    for (int i = 0; i < 5; i++)
        ask(connect_tcp(port), "auth " SECRET "\r\n", "AUTHENTICATED\r\n");
    await_log(bided, "INFO  client authenticated: 127.0.0.1:");
    stop(bided);
    EQ(count_of(bided->err.text, "client authenticated"), 1);
}

static const struct test tests[] = {
    TEST(interface_address_counts_as_local),
    TEST(clients_of_a_trusted_network_need_no_secret),
    TEST(ipv4_networks_match_on_a_dual_stack_socket),
    TEST(a_reload_changes_which_networks_are_trusted),
    TEST(invalid_network_is_rejected),
    TEST(server_without_a_secret_accepts_any_secret_from_trusted_clients),
    TEST(auth_always_requires_the_secret_from_every_client),
    TEST(wrong_secret_is_rejected_after_a_growing_pause),
    TEST(guess_without_waiting_for_the_reply_delays_the_next),
    TEST(guesses_over_new_connections_are_delayed_too),
    TEST(pauses_do_not_delay_other_clients),
    TEST(secret_can_be_read_from_secret_file),
    TEST(check_of_the_settings_passes_without_the_credentials_of_the_unit),
    TEST(reading_the_secret_from_a_pipe_times_out),
    TEST(rejected_connection_is_closed_after_a_growing_pause),
    TEST(unauthenticated_connections_do_not_lock_out_clients),
    TEST(remote_clients_do_not_take_the_last_slots),
    TEST(connections_per_address_are_limited),
    TEST(address_at_its_limit_does_not_evict_others),
    TEST(ipv6_neighbours_are_limited_separately),
    TEST(guesses_from_one_ipv6_network_are_throttled_together),
    TEST(served_connection_survives_a_lower_limit),
    TEST(administrative_actions_are_logged_with_the_client),
    TEST(addresses_in_the_log_have_the_usual_form),
    TEST(flood_of_administrative_actions_does_not_fill_the_log),
    TEST(first_authentication_of_an_address_is_logged),
};

const struct theme admission_theme = {"admission", tests, COUNT(tests)};
