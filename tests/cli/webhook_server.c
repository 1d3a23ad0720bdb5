/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* accept4, strcasestr */
#include "webhook_server.h"

#include "cli_test.h"

#include <arpa/inet.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define ANSWERS_MAX  16
#define REQUESTS_MAX 1000
#define REQUEST_SIZE (1 << 20)

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct {
    const char *path, *answer;
} answers[ANSWERS_MAX];
static size_t answer_count;
static char *requests[REQUESTS_MAX];
static size_t request_count, connection_count;
static int port;

void webhook_set_reply(const char *path, const char *answer)
{
    pthread_mutex_lock(&lock);
    CHECK(answer_count < ANSWERS_MAX);
    answers[answer_count].path = path;
    answers[answer_count++].answer = answer;
    pthread_mutex_unlock(&lock);
}

size_t webhook_request_count(void)
{
    pthread_mutex_lock(&lock);
    size_t count = request_count;
    pthread_mutex_unlock(&lock);
    return count;
}

size_t webhook_connection_count(void)
{
    pthread_mutex_lock(&lock);
    size_t count = connection_count;
    pthread_mutex_unlock(&lock);
    return count;
}

const char *webhook_request(size_t number)
{
    CHECK(number < webhook_request_count());
    return requests[number];
}

/* ---- serving ---- */

/* How long a request is, once its headers are there; 0: they are not. */
static size_t request_size(const char *text)
{
    const char *end = strstr(text, "\r\n\r\n");
    const char *length = strcasestr(text, "\r\nContent-Length:");
    if (end == NULL)
        return 0;
    size_t body = length != NULL && length < end ? strtoul(length + 17, NULL, 10) : 0;
    return (size_t)(end - text) + 4 + body;
}

/* A whole one, with a NUL behind it; NULL when the other side has hung up. */
static char *read_request(int fd)
{
    char *text = calloc(1, REQUEST_SIZE);
    size_t size = 0, wanted = 0;
    while (text != NULL && (wanted == 0 || size < wanted)) {
        ssize_t got = read(fd, text + size, REQUEST_SIZE - 1 - size);
        if (got <= 0) {
            free(text);
            return NULL;
        }
        size += (size_t)got;
        wanted = request_size(text);
    }
    return text;
}

/* Keeps the request; answers what is said to it. */
static const char *take_request(char *text)
{
    const char *answer = NULL;
    size_t size = strcspn(text, " ") + 1;
    size_t path = strcspn(text + size, " ");
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < answer_count; i++)
        if (strlen(answers[i].path) == path && strncmp(answers[i].path, text + size, path) == 0)
            answer = answers[i].answer;
    if (request_count < REQUESTS_MAX)
        requests[request_count++] = text;
    pthread_mutex_unlock(&lock);
    return answer;
}

static void *serve(void *arg)
{
    int fd = (int)(intptr_t)arg;
    for (char *text; (text = read_request(fd)) != NULL;) {
        const char *answer = take_request(text);
        if (answer != NULL && send(fd, answer, strlen(answer), MSG_NOSIGNAL) < 0)
            break;
    }
    close(fd);
    return NULL;
}

static void *accept_all(void *arg)
{
    int listener = (int)(intptr_t)arg;
    for (;;) {
        pthread_t thread;
        int fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC);
        if (fd < 0)
            continue;
        pthread_mutex_lock(&lock);
        connection_count++;
        pthread_mutex_unlock(&lock);
        if (pthread_create(&thread, NULL, serve, (void *)(intptr_t)fd) == 0)
            pthread_detach(thread);
    }
    return NULL;
}

static void start(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof(address);
    pthread_t thread;
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fd, 100) == 0 && getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    port = ntohs(address.sin_port);
    CHECK(pthread_create(&thread, NULL, accept_all, (void *)(intptr_t)fd) == 0);
}

const char *webhook_url(const char *path)
{
    static char urls[8][200];
    static size_t next;
    if (port == 0)
        start();
    char *url = urls[next++ % COUNT(urls)];
    snprintf(url, sizeof(urls[0]), "http://127.0.0.1:%d%s", port, path);
    return url;
}
