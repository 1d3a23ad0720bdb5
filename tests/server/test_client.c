/* SPDX-License-Identifier: MIT */
#include "test_client.h"

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

void test_client_open(struct client *client, const struct server *server)
{
    *client = (struct client){.fd = test_server_connect(server)};
}

void test_client_close(struct client *client)
{
    if (client->fd >= 0)
        close(client->fd);
    free(client->data);
    *client = (struct client){.fd = -1};
}

/* ---- bytes ---- */

static void make_room(struct client *client)
{
    if (client->taken > client->room / 2) {
        memmove(client->data, client->data + client->taken, client->used - client->taken);
        client->used -= client->taken;
        client->taken = 0;
    }
    if (client->room - client->used >= READ_SIZE)
        return;
    client->room = client->room * 2 + READ_SIZE;
    client->data = realloc(client->data, client->room);
    CHECK(client->data != NULL);
}

static void note_end(struct client *client)
{
    client->ended = true;
    if (!client->may_end)
        FAIL("the server has closed the connection (%s)", strerror(errno));
}

static void read_some(struct client *client)
{
    make_room(client);
    errno = 0;
    ssize_t got = read(client->fd, client->data + client->used, READ_SIZE);
    if (got > 0)
        client->used += (size_t)got;
    else if (got == 0 || (errno != EAGAIN && errno != EINTR))
        note_end(client);
}

static short wait_for(struct client *client, short events)
{
    struct pollfd wanted = {.fd = client->fd, .events = events};
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    while (clock_us() < limit_us)
        if (poll(&wanted, 1, (int)PATIENCE_MS) > 0)
            return wanted.revents;
    FAIL("the server does not %s", events & POLLOUT ? "take what it is sent" : "answer");
}

bool test_client_send(struct client *client, const void *data, size_t size)
{
    const char *rest = data;
    while (size > 0 && !client->ended) {
        ssize_t sent = send(client->fd, rest, size, MSG_NOSIGNAL);
        if (sent > 0) {
            rest += sent;
            size -= (size_t)sent;
        } else if (errno != EAGAIN && errno != EINTR) {
            /* Answers that came before the end are still there to be heard. */
            while (!client->ended)
                read_some(client);
        } else if (wait_for(client, POLLIN | POLLOUT) & POLLIN) {
            read_some(client);
        }
    }
    return size == 0;
}

bool send_text(struct client *client, const char *format, ...)
{
    char text[2048];
    va_list arguments;
    va_start(arguments, format);
    int size = vsnprintf(text, sizeof text, format, arguments);
    va_end(arguments);
    CHECK(size >= 0 && (size_t)size < sizeof text);
    return test_client_send(client, text, (size_t)size);
}

bool has_no_input(struct client *client)
{
    struct pollfd wanted = {.fd = client->fd, .events = POLLIN};
    return client->used == client->taken && poll(&wanted, 1, 0) == 0;
}

/* ---- lines and bodies ---- */

static bool fill(struct client *client)
{
    if (client->ended)
        return false;
    wait_for(client, POLLIN);
    read_some(client);
    return !client->ended;
}

const char *read_line(struct client *client)
{
    for (size_t seen = 0;;) {
        size_t size = client->used - client->taken;
        char *start = client->data ? client->data + client->taken : NULL;
        char *end = size > seen ? memchr(start + seen, '\n', size - seen) : NULL;
        if (end) {
            client->taken += (size_t)(end - start) + 1;
            CHECK(end > start && end[-1] == '\r');
            end[-1] = '\0';
            return start;
        }
        seen = size;
        if (!fill(client))
            return NULL;
    }
}

const char *read_body(struct client *client, size_t size)
{
    while (client->used - client->taken < size + 2)
        if (!fill(client))
            return NULL;
    const char *body = client->data + client->taken;
    CHECK(memcmp(body + size, "\r\n", 2) == 0);
    client->taken += size + 2;
    return body;
}

void expect_line_at(struct where at, struct client *client, const char *want)
{
    const char *line = read_line(client);
    check_true(at, line != NULL, "an answer");
    check_text(at, line, strlen(line), want, "the answer");
}

uint64_t expect_number_at(struct where at, struct client *client, const char *prefix)
{
    const char *line = read_line(client);
    check_true(at, line != NULL, "an answer");
    size_t size = strlen(prefix);
    if (strncmp(line, prefix, size) != 0 || line[size] != ' ')
        fail_test(at, "expected \"%s\" and a number, got \"%s\"", prefix, line);
    return strtoull(line + size, NULL, 10);
}

bool read_job(struct client *client, const char *word, struct job_reply *job_reply, char line[64])
{
    const char *heard = read_line(client);
    size_t size = strlen(word);
    snprintf(line, 64, "%s", heard ? heard : "");
    if (strncmp(line, word, size) != 0 || line[size] != ' ')
        return false;
    char *rest = NULL;
    job_reply->id = strtoull(line + size, &rest, 10);
    job_reply->size = strtoull(rest, &rest, 10);
    CHECK(*rest == '\0');
    job_reply->body = read_body(client, job_reply->size);
    if (!job_reply->body)
        line[0] = '\0';
    return job_reply->body != NULL;
}

/* ---- whole commands ---- */

bool send_put(struct client *client, uint32_t priority, uint32_t delay_s, uint32_t ttr_s,
              const void *body, size_t size)
{
    return send_text(client, "put %u %u %u %zu\r\n", priority, delay_s, ttr_s, size) &&
           test_client_send(client, body, size) && test_client_send(client, "\r\n", 2);
}

int64_t test_client_stat(struct client *client, const char *command, const char *name)
{
    char key[64];
    send_text(client, "%s\r\n", command);
    const char *line = read_line(client);
    if (strcmp(line, "NOT_FOUND") == 0)
        return -1;
    CHECK(strncmp(line, "OK ", 3) == 0);
    size_t size = strtoul(line + 3, NULL, 10);
    char *text = strndup(read_body(client, size), size);
    snprintf(key, sizeof key, "\n%s: ", name);
    const char *found = text ? strstr(text, key) : NULL;
    if (!found)
        FAIL("%s says nothing of %s", command, name);
    int64_t value = strtoll(found + strlen(key), NULL, 10);
    free(text);
    return value;
}

void test_client_use_only(struct client *client, const char *tube)
{
    send_text(client, "use %s\r\nwatch %s\r\nignore default\r\n", tube, tube);
    EXPECT_NUMBER(client, "USING");
    EXPECT_LINE(client, "WATCHING 2");
    EXPECT_LINE(client, "WATCHING 1");
}
