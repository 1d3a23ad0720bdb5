/* SPDX-License-Identifier: MIT */
#include "wire.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "bench.h"
#include "measure.h"

#define PATIENCE_S 60

void wire_allow_files(void)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) != 0)
        fail("the limit of open files is unknown: %s", strerror(errno));
    files.rlim_cur = files.rlim_max;
    if (setrlimit(RLIMIT_NOFILE, &files) != 0)
        fail("no more files may be open: %s", strerror(errno));
}

/* ---- connecting ---- */

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval patience = {.tv_sec = PATIENCE_S};

    if (fd < 0 || setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)) != 0)
        fail("no socket: %s", strerror(errno));
    return fd;
}

static int connect_unix(const char *path)
{
    struct sockaddr_un to = {.sun_family = AF_UNIX};
    int fd = open_socket(AF_UNIX);

    if (strlen(path) >= sizeof(to.sun_path))
        fail("%s: the path is too long for a socket", path);
    memcpy(to.sun_path, path, strlen(path) + 1);
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_tcp(const char *address)
{
    struct sockaddr_in to = {.sin_family = AF_INET};
    char host[64] = "";
    const char *colon = strrchr(address, ':');
    int fd = open_socket(AF_INET);
    int yes = 1;

    if (colon != NULL)
        snprintf(host, sizeof(host), "%.*s", (int)(colon - address), address);
    if (colon == NULL || inet_pton(AF_INET, host, &to.sin_addr) != 1)
        fail("\"%s\" is neither ADDRESS:PORT nor unix:PATH", address);
    to.sin_port = htons((uint16_t)strtoul(colon + 1, NULL, 10));
    if (connect(fd, (const struct sockaddr *)&to, sizeof(to)) == 0 &&
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &yes, sizeof(yes)) == 0)
        return fd;
    close(fd);
    return -1;
}

int wire_try_connect(const char *address)
{
    if (strncmp(address, "unix:", 5) == 0)
        return connect_unix(address + 5);
    return connect_tcp(address);
}

int wire_connect(const char *address)
{
    int fd = wire_try_connect(address);

    if (fd < 0)
        fail("%s: no connection: %s", address, strerror(errno));
    return fd;
}

void wire_unblock(int fd)
{
    if (fcntl(fd, F_SETFL, O_NONBLOCK) != 0)
        fail("a socket cannot be made non-blocking: %s", strerror(errno));
}

/* ---- asking ---- */

void wire_send(int fd, const char *text, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, text, size, MSG_NOSIGNAL);
        if (sent < 0)
            fail("the server could not be written to: %s", strerror(errno));
        text += sent;
        size -= (size_t)sent;
    }
}

static void receive(int fd, char *into, size_t size)
{
    size_t used = 0;

    while (used < size) {
        ssize_t got = recv(fd, into + used, size - used, 0);
        if (got <= 0)
            fail("the server answered %.*s and then %s", (int)used, into,
                 got == 0 ? "closed the connection" : strerror(errno));
        used += (size_t)got;
    }
}

void wire_ask(int fd, const char *text, const char *expected)
{
    char answer[512];
    size_t size = strlen(expected);

    if (size > sizeof(answer))
        fail("such a long answer cannot be expected");
    wire_send(fd, text, strlen(text));
    receive(fd, answer, size);
    if (memcmp(answer, expected, size) != 0)
        fail("the server answered \"%.*s\" to \"%s\", not \"%s\"", (int)size, answer, text,
             expected);
}

void wire_take_tube(int fd, const char *tube)
{
    char text[192];
    char expected[192];

    snprintf(text, sizeof(text), "use %s\r\nwatch %s\r\nignore default\r\n", tube, tube);
    snprintf(expected, sizeof(expected), "USING %s\r\nWATCHING 2\r\nWATCHING 1\r\n", tube);
    wire_ask(fd, text, expected);
}

/* Reads "OK <bytes>\r\n", byte by byte. */
static size_t receive_size(int fd)
{
    char line[64] = "";
    size_t used = 0;

    while (used < sizeof(line) - 1 && (used == 0 || line[used - 1] != '\n'))
        receive(fd, &line[used++], 1);
    if (strncmp(line, "OK ", 3) != 0)
        fail("the server answered \"%s\" to stats", line);
    return strtoul(line + 3, NULL, 10);
}

uint64_t wire_stat(int fd, const char *command, const char *key)
{
    char text[8192];
    char line[128];
    size_t size = 0;

    snprintf(line, sizeof(line), "%s\r\n", command);
    wire_send(fd, line, strlen(line));
    size = receive_size(fd) + 2;
    if (size >= sizeof(text))
        fail("the answer to %s is too long", command);
    receive(fd, text, size);
    text[size] = '\0';
    snprintf(line, sizeof(line), "\n%s:", key);
    const char *found = strstr(text, line);
    if (found == NULL)
        fail("the answer to %s has no %s", command, key);
    return strtoull(found + strlen(line), NULL, 10);
}

void wire_await_stat(int fd, const char *command, const char *key, uint64_t at_least)
{
    int64_t give_up_ns = measure_now_ns() + PATIENCE_S * INT64_C(1000000000);

    while (wire_stat(fd, command, key) < at_least) {
        if (measure_now_ns() > give_up_ns)
            fail("%s does not reach %llu in the answer to %s", key, (unsigned long long)at_least,
                 command);
        measure_sleep_us(20000);
    }
}
