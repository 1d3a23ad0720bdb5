/* SPDX-License-Identifier: MIT */
#include "talk.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define READ_SIZE 65536

void talk_open(struct talk *talk, const struct peer *peer)
{
    *talk = (struct talk){.fd = peer_connect(peer)};
}

void talk_close(struct talk *talk)
{
    if (talk->fd >= 0)
        close(talk->fd);
    free(talk->data);
    *talk = (struct talk){.fd = -1};
}

/* ---- bytes ---- */

static void make_room(struct talk *talk)
{
    if (talk->taken > talk->room / 2) {
        memmove(talk->data, talk->data + talk->taken, talk->used - talk->taken);
        talk->used -= talk->taken;
        talk->taken = 0;
    }
    if (talk->room - talk->used >= READ_SIZE)
        return;
    talk->room = talk->room * 2 + READ_SIZE;
    talk->data = realloc(talk->data, talk->room);
    CHECK(talk->data != NULL);
}

static void note_end(struct talk *talk)
{
    talk->ended = true;
    if (!talk->may_end)
        FAIL("the server has closed the connection (%s)", strerror(errno));
}

static void read_some(struct talk *talk)
{
    make_room(talk);
    errno = 0;
    ssize_t got = read(talk->fd, talk->data + talk->used, READ_SIZE);
    if (got > 0)
        talk->used += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        note_end(talk);
}

static short wait_for(struct talk *talk, short events)
{
    struct pollfd wanted = {.fd = talk->fd, .events = events};
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (clock_us() < limit_us)
        if (poll(&wanted, 1, (int)PATIENCE_MS) > 0)
            return wanted.revents;
    FAIL("the server does not %s", events & POLLOUT ? "take what it is sent" : "answer");
}

bool talk_send(struct talk *talk, const void *data, size_t size)
{
    const char *rest = data;
    while (size > 0 && !talk->ended) {
        ssize_t sent = send(talk->fd, rest, size, MSG_NOSIGNAL);
        if (sent > 0) {
            rest += sent;
            size -= (size_t)sent;
        } else if (errno != EAGAIN && errno != EINTR) {
            /* Answers that came before the end are still there to be heard. */
            while (!talk->ended)
                read_some(talk);
        } else if (wait_for(talk, POLLIN | POLLOUT) & POLLIN) {
            read_some(talk);
        }
    }
    return size == 0;
}

bool say(struct talk *talk, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    CHECK(size >= 0 && (size_t)size < sizeof text);
    return talk_send(talk, text, (size_t)size);
}

bool is_silent(struct talk *talk)
{
    struct pollfd wanted = {.fd = talk->fd, .events = POLLIN};
    return talk->used == talk->taken && poll(&wanted, 1, 0) == 0;
}

/* ---- lines and bodies ---- */

static bool fill(struct talk *talk)
{
    if (talk->ended)
        return false;
    wait_for(talk, POLLIN);
    read_some(talk);
    return !talk->ended;
}

const char *hear(struct talk *talk)
{
    for (size_t seen = 0;;) {
        size_t size = talk->used - talk->taken;
        char *start = talk->data ? talk->data + talk->taken : NULL;
        char *end = size > seen ? memchr(start + seen, '\n', size - seen) : NULL;
        if (end) {
            talk->taken += (size_t)(end - start) + 1;
            CHECK(end > start && end[-1] == '\r');
            end[-1] = '\0';
            return start;
        }
        seen = size;
        if (!fill(talk))
            return NULL;
    }
}

const char *hear_body(struct talk *talk, size_t size)
{
    while (talk->used - talk->taken < size + 2)
        if (!fill(talk))
            return NULL;
    const char *body = talk->data + talk->taken;
    CHECK(memcmp(body + size, "\r\n", 2) == 0);
    talk->taken += size + 2;
    return body;
}

void hear_at(struct where at, struct talk *talk, const char *want)
{
    const char *line = hear(talk);
    check_true(at, line != NULL, "an answer");
    check_text(at, line, strlen(line), want, "the answer");
}

uint64_t hear_number_at(struct where at, struct talk *talk, const char *prefix)
{
    const char *line = hear(talk);
    check_true(at, line != NULL, "an answer");
    size_t size = strlen(prefix);
    if (strncmp(line, prefix, size) != 0 || line[size] != ' ')
        fail_test(at, "expected \"%s\" and a number, got \"%s\"", prefix, line);
    return strtoull(line + size, NULL, 10);
}

bool hear_job(struct talk *talk, const char *word, struct given *given, char line[64])
{
    const char *heard = hear(talk);
    size_t size = strlen(word);
    snprintf(line, 64, "%s", heard ? heard : "");
    if (strncmp(line, word, size) != 0 || line[size] != ' ')
        return false;
    char *rest = NULL;
    given->id = strtoull(line + size, &rest, 10);
    given->size = strtoull(rest, &rest, 10);
    CHECK(*rest == '\0');
    given->body = hear_body(talk, given->size);
    if (!given->body)
        line[0] = '\0';
    return given->body != NULL;
}

/* ---- whole commands ---- */

bool say_put(struct talk *talk, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
             const void *body, size_t size)
{
    return say(talk, "put %u %u %u %zu\r\n", priority, delay_s, ttr_s, size) &&
           talk_send(talk, body, size) && talk_send(talk, "\r\n", 2);
}

int64_t talk_stat(struct talk *talk, const char *command, const char *name)
{
    char key[64];
    say(talk, "%s\r\n", command);
    const char *line = hear(talk);
    if (strcmp(line, "NOT_FOUND") == 0)
        return -1;
    CHECK(strncmp(line, "OK ", 3) == 0);
    size_t size = strtoul(line + 3, NULL, 10);
    char *text = strndup(hear_body(talk, size), size);
    snprintf(key, sizeof key, "\n%s: ", name);
    const char *found = text ? strstr(text, key) : NULL;
    if (!found)
        FAIL("%s says nothing of %s", command, name);
    int64_t value = strtoll(found + strlen(key), NULL, 10);
    free(text);
    return value;
}

void talk_stay(struct talk *talk, const char *tube)
{
    say(talk, "use %s\r\nwatch %s\r\nignore default\r\n", tube, tube);
    HEAR_NUMBER(talk, "USING");
    HEAR(talk, "WATCHING 2");
    HEAR(talk, "WATCHING 1");
}
