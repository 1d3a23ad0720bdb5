/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "remote/beanstalk_backend.h"

#include "backend/backend.h"
#include "remote/beanstalkd/beanstalkd_client.h"
#include "remote/bided/bided_client.h"
#include "util/clock.h"

#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define AUTH_DELAY_US INT64_C(10000000) /* two delays of 4 s, and a margin */

/* The input of the handshake: a few short lines. A fixed buffer bounds what a server can send. */
struct handshake {
    int fd;
    struct io_wait *io_wait;
    char text[512];
    size_t size, used;
};

static bool send_text(struct handshake *handshake, const char *text)
{
    size_t size = strlen(text);

    while (size > 0) {
        ssize_t sent = send(handshake->fd, text, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent < 0 && !bi_remote_socket_wait(handshake->fd, POLLOUT, handshake->io_wait))
            return false;
        text += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* Returns the next line, without CRLF; NULL on timeout, end of input or a full buffer. */
static const char *read_line(struct handshake *handshake)
{
    for (;;) {
        char *from = handshake->text + handshake->used;
        char *end = memmem(from, handshake->size - handshake->used, "\r\n", 2);
        if (end != NULL) {
            /* The buffer never moves: an earlier line stays valid. */
            *end = 0;
            handshake->used = (size_t)(end - handshake->text) + 2;
            return from;
        }

        if (handshake->size == sizeof(handshake->text) ||
            !bi_remote_socket_wait(handshake->fd, POLLIN, handshake->io_wait))
            return NULL;

        ssize_t size = recv(handshake->fd, handshake->text + handshake->size,
                            sizeof(handshake->text) - handshake->size, 0);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
            return NULL;
        handshake->size += size > 0 ? (size_t)size : 0;
    }
}

static int reject(const struct address *address, int code, const char *what, char *error)
{
    return bi_error_set(error, code, "the server at %.100s %s", address->name, what);
}

/* A server delays its reply to a wrong secret, and to any secret that follows wrong ones from
 * the same address, by up to 4 s each. A client that reconnects can wait for that: its requests
 * expire separately (io_wait->expire). Without the longer deadline it would never learn that it
 * is rejected. */
static void extend_for_auth_delay(struct io_wait *io_wait)
{
    int64_t minimum = bi_clock_boot() + AUTH_DELAY_US;
    if (io_wait->expire != NULL && io_wait->deadline < minimum)
        io_wait->deadline = minimum;
}

/* Maps a reply that is no part of the protocol. A server without room for another connection
 * replies OUT_OF_MEMORY to the first command. */
static int reject_reply(const struct address *address, const char *reply, char *error)
{
    if (strcmp(reply, "OUT_OF_MEMORY") == 0)
        return reject(address, BIDE_EBUSY, "has no room for another connection now", error);
    return reject(address, BIDE_EIO, "speaks another protocol than beanstalkd's", error);
}

static int authenticate(struct handshake *handshake, const struct address *address, char *error)
{
    char line[BI_SECRET_MAX + 16];

    snprintf(line, sizeof(line), "auth %s\r\n", address->secret);
    extend_for_auth_delay(handshake->io_wait);

    const char *reply = send_text(handshake, line) ? read_line(handshake) : NULL;
    if (reply == NULL)
        return reject(address, BIDE_EIO, "does not answer", error);

    if (strcmp(reply, "AUTHENTICATED") == 0)
        return BIDE_OK;

    /* The next two are BIDE_EINVAL: the URL must change, another attempt cannot succeed. */
    if (strcmp(reply, "NOT_AUTHENTICATED") == 0 || strcmp(reply, "AUTH_REQUIRED") == 0)
        return reject(address, BIDE_EINVAL, "does not accept the secret", error);
    if (strcmp(reply, "UNKNOWN_COMMAND") == 0)
        return reject(address, BIDE_EINVAL,
                      "is a plain beanstalkd, which knows no secret: leave it out of the URL",
                      error);
    return reject_reply(address, reply, error);
}

/* Returns true if the server runs on this machine: a unix socket, or the same address at both ends.
 * Its setting trust does not apply then. */
static bool is_local(int fd)
{
    union {
        struct sockaddr any;
        struct sockaddr_in v4;
        struct sockaddr_in6 v6;
        struct sockaddr_storage storage;
    } own, peer;
    socklen_t own_size = sizeof(own), peer_size = sizeof(peer);

    memset(&own, 0, sizeof(own));
    memset(&peer, 0, sizeof(peer));
    if (getsockname(fd, &own.any, &own_size) != 0 || getpeername(fd, &peer.any, &peer_size) != 0)
        return false;

    if (own.any.sa_family == AF_INET6)
        return memcmp(&own.v6.sin6_addr, &peer.v6.sin6_addr, sizeof(own.v6.sin6_addr)) == 0;
    if (own.any.sa_family == AF_INET)
        return memcmp(&own.v4.sin_addr, &peer.v4.sin_addr, sizeof(own.v4.sin_addr)) == 0;
    return own.any.sa_family == AF_UNIX;
}

static int detect_server(struct handshake *handshake, const struct address *address,
                         enum server_kind *server_kind, char *error)
{
    /* A bided replies to the op. A beanstalkd rejects the verb, then the empty line after it. */
    const char *reply = send_text(handshake, "call 1 ping 0\r\n\r\n") ? read_line(handshake) : NULL;

    if (reply == NULL)
        return reject(address, BIDE_EIO, "does not answer", error);

    if (strcmp(reply, "AUTH_REQUIRED") == 0)
        return reject(
            address, BIDE_EINVAL,
            is_local(handshake->fd)
                ? "requires a secret (?secret_file=PATH)"
                : "requires a secret (?secret_file=PATH), or this network in its setting trust",
            error);

    if (strncmp(reply, "ANSWER 1 ", 9) == 0) {
        unsigned long long size = 0;
        int code = 0;
        /* The result of a ping is short, so its line fits the buffer. */
        if (sscanf(reply, "ANSWER 1 %d %llu", &code, &size) != 2 || size > 64 ||
            read_line(handshake) == NULL)
            return reject(address, BIDE_EIO, "sent a malformed reply", error);

        *server_kind = SERVER_BIDED;
        return BIDE_OK;
    }

    /* Both rejections must be read here, or they would be taken for replies to later commands. */
    const char *second = strcmp(reply, "UNKNOWN_COMMAND") == 0 ? read_line(handshake) : NULL;
    if (second == NULL || strcmp(second, "UNKNOWN_COMMAND") != 0)
        return reject_reply(address, reply, error);
    *server_kind = SERVER_BEANSTALKD;
    return BIDE_OK;
}

int bi_beanstalk_backend_connect(const struct address *address, struct io_wait *io_wait, int *fd,
                                 enum server_kind *server_kind, char *error)
{
    char reason[BIDE_ERROR_SIZE] = "";
    struct handshake handshake = {.io_wait = io_wait};

    handshake.fd = bi_remote_socket_connect(address, io_wait, reason);
    if (handshake.fd < 0)
        return bi_error_set(error, BIDE_EIO, "no connection to %.90s: %.80s", address->name,
                            reason);

    int code = address->secret[0] == 0 ? BIDE_OK : authenticate(&handshake, address, error);

    if (code == BIDE_OK)
        code = detect_server(&handshake, address, server_kind, error);

    if (code == BIDE_OK)
        *fd = handshake.fd;
    else
        close(handshake.fd);
    return code;
}

/* ---- the backend ---- */

static int open_backend(const struct backend_context *context, const struct bi_url *url,
                        struct backend **out, char *error)
{
    struct address address;
    int code = bi_remote_address_parse(&address, url, "11300", error);

    if (code != BIDE_OK)
        return code;

    enum server_kind server_kind = SERVER_BIDED;
    int fd = -1;
    char reason[BIDE_ERROR_SIZE];
    /* open() blocks for at most connect_timeout: there is no queue yet that could be closed. */
    struct io_wait io_wait = {.deadline = bi_clock_boot() + address.connect_timeout, .stop_fd = -1};
    code = bi_beanstalk_backend_connect(&address, &io_wait, &fd, &server_kind, reason);
    if (code != BIDE_OK)
        return bi_error_set(error, code, "open: %.190s", reason);

    /* The client takes fd, on failure too. */
    if (server_kind == SERVER_BIDED)
        return bi_bided_client_open(context, &address, fd, out, error);
    return bi_beanstalkd_client_open(context, &address, fd, out, error);
}

const struct backend_ops bi_backend_beanstalk = {
    .scheme = "beanstalk",
    .parameters = bi_remote_address_params,
    .remote = true,
    .open = open_backend,
};
