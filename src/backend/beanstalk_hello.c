/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "backend/beanstalk_hello.h"

#include "backend/beanstalk_socket.h"
#include "util/clock.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define PAUSES_US INT64_C(10000000)

/* What a server says before the first answer of an op: short lines. */
struct greeting {
    int fd;
    struct patience *patience;
    char text[512];
    size_t size, used;
};

static bool say(struct greeting *greeting, const char *text)
{
    size_t size = strlen(text);
    while (size > 0) {
        ssize_t sent = send(greeting->fd, text, size, MSG_NOSIGNAL);
        if (sent < 0 && errno != EAGAIN && errno != EINTR)
            return false;
        if (sent < 0 && !bi_socket_wait(greeting->fd, POLLOUT, greeting->patience))
            return false;
        text += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
    return true;
}

/* The next line, without its end; NULL if none comes. */
static const char *hear(struct greeting *greeting)
{
    for (;;) {
        char *from = greeting->text + greeting->used;
        char *end = memmem(from, greeting->size - greeting->used, "\r\n", 2);
        if (end != NULL) {
            *end = 0;
            greeting->used = (size_t)(end - greeting->text) + 2;
            return from;
        }
        if (greeting->size == sizeof(greeting->text) ||
            !bi_socket_wait(greeting->fd, POLLIN, greeting->patience))
            return NULL;
        ssize_t size = recv(greeting->fd, greeting->text + greeting->size,
                            sizeof(greeting->text) - greeting->size, 0);
        if (size == 0 || (size < 0 && errno != EAGAIN && errno != EINTR))
            return NULL;
        greeting->size += size > 0 ? (size_t)size : 0;
    }
}

static int refuse(const struct address *address, int code, const char *what, char *error)
{
    snprintf(error, BIDE_ERROR_SIZE, "the server at %.100s %s", address->name, what);
    return code;
}

/* A wrong secret, and one that comes behind wrong ones from the same address, is answered after pauses of
 * up to 4 s each. A client that connects again can wait for that, because its calls have times of their
 * own: else it would never know that it is refused. */
static void allow_pauses(struct patience *patience)
{
    int64_t least = bi_clock_boot() + PAUSES_US;
    if (patience->look != NULL && patience->deadline < least)
        patience->deadline = least;
}

/* A server that is full says so whatever it is asked. */
static int refuse_full(const struct address *address, const char *answer, char *error)
{
    if (strcmp(answer, "OUT_OF_MEMORY") == 0)
        return refuse(address, BIDE_EBUSY, "has no room for another connection now", error);
    return refuse(address, BIDE_EIO, "speaks another protocol than beanstalkd's", error);
}

static int say_secret(struct greeting *greeting, const struct address *address, char *error)
{
    char line[BI_SECRET_MAX + 16];
    snprintf(line, sizeof(line), "auth %s\r\n", address->secret);
    allow_pauses(greeting->patience);
    const char *answer = say(greeting, line) ? hear(greeting) : NULL;
    if (answer == NULL)
        return refuse(address, BIDE_EIO, "does not answer", error);
    if (strcmp(answer, "AUTHENTICATED") == 0)
        return BIDE_OK;
    if (strcmp(answer, "NOT_AUTHENTICATED") == 0 || strcmp(answer, "AUTH_REQUIRED") == 0)
        return refuse(address, BIDE_EINVAL, "does not accept the secret", error);
    if (strcmp(answer, "UNKNOWN_COMMAND") == 0)
        return refuse(address, BIDE_EINVAL,
                      "is a plain beanstalkd, which knows no secret: leave it out of the URL",
                      error);
    return refuse_full(address, answer, error);
}

static int ask_dialect(struct greeting *greeting, const struct address *address,
                       enum dialect *dialect, char *error)
{
    const char *answer = say(greeting, "call 1 ping 0\r\n\r\n") ? hear(greeting) : NULL;
    if (answer == NULL)
        return refuse(address, BIDE_EIO, "does not answer", error);
    if (strcmp(answer, "AUTH_REQUIRED") == 0)
        return refuse(address, BIDE_EINVAL,
                      "wants a secret (?secret_file=PATH), or this network in its setting trust",
                      error);
    if (strncmp(answer, "ANSWER 1 ", 9) == 0) {
        unsigned long long size = 0;
        int code = 0;
        /* The sentence of a ping that succeeded is short: it fits the room for lines. */
        if (sscanf(answer, "ANSWER 1 %d %llu", &code, &size) != 2 || size > 64 ||
            hear(greeting) == NULL)
            return refuse(address, BIDE_EIO, "gives an answer that makes no sense", error);
        *dialect = DIALECT_TAGGED;
        return BIDE_OK;
    }
    const char *again = strcmp(answer, "UNKNOWN_COMMAND") == 0 ? hear(greeting) : NULL;
    if (again == NULL || strcmp(again, "UNKNOWN_COMMAND") != 0)
        return refuse_full(address, answer, error);
    *dialect = DIALECT_PLAIN;
    return BIDE_OK;
}

int bi_hello(const struct address *address, struct patience *patience, int *fd,
             enum dialect *dialect, char *error)
{
    char reason[BIDE_ERROR_SIZE] = "";
    struct greeting greeting = {.patience = patience};
    greeting.fd = bi_socket_connect(address, patience, reason);
    if (greeting.fd < 0) {
        snprintf(error, BIDE_ERROR_SIZE, "no connection to %.90s: %.80s", address->name, reason);
        return BIDE_EIO;
    }
    int code = address->secret[0] == 0 ? BIDE_OK : say_secret(&greeting, address, error);
    if (code == BIDE_OK)
        code = ask_dialect(&greeting, address, dialect, error);
    if (code == BIDE_OK)
        *fd = greeting.fd;
    else
        close(greeting.fd);
    return code;
}
