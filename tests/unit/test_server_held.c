/* SPDX-License-Identifier: MIT */
/* Commands of connections whose earlier commands are held for a commit. */
#include "slow_store.h"

#include "run_server.h"

#define ROUNDS     1000
#define BATCH_JOBS 10
#define BULK_PUTS  1000

static struct slow_store *slow;
static const char *words;
static unsigned long long put_count, fewest;

/* ---- clients ---- */

static void send_all(int fd, const char *data, size_t size)
{
    while (size > 0) {
        ssize_t sent = send(fd, data, size, MSG_NOSIGNAL);
        if (sent <= 0)
            abort();
        data += sent;
        size -= (size_t)sent;
    }
}

/* How many puts the server has executed, by its statistics. */
static unsigned long long count_puts(int fd)
{
    static const char figure[] = "cmd-put: ";
    char text[8192];
    size_t size = 0;
    const char *end = NULL;
    send_all(fd, "stats\r\n", 7);
    while (end == NULL) {
        ssize_t got = recv(fd, text + size, sizeof(text) - 1 - size, 0);
        if (got <= 0)
            abort();
        size += (size_t)got;
        text[size] = 0;
        end = strstr(text, "\n\r\n");
    }
    const char *found = strstr(text, figure);
    return found == NULL ? 0 : strtoull(found + sizeof(figure) - 1, NULL, 10);
}

/* The put whose commit stands in the store, the reserve of that job, and what comes behind it. */
static void *send_behind_a_reserve(void *arg)
{
    static const char first[] = "put 0 0 60 1\r\nx\r\nreserve\r\n";
    static const char last[] = "put 0 0 60 1\r\ny\r\n";
    (void)arg;
    int fd = open_client();
    int other = open_client();
    count_puts(other);
    slow_set(slow, true, 0);
    send_all(fd, first, strlen(first));
    send_all(fd, words, strlen(words));
    send_all(fd, last, strlen(last));
    for (int i = 0; i < ROUNDS && put_count < 2; i++)
        put_count = count_puts(other);
    slow_set(slow, false, 0);
    close(fd);
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

static void send_puts(int fd)
{
    static const char put[] = "put 0 0 60 1\r\nx\r\n";
    size_t size = sizeof(put) - 1;
    char *all = malloc(size * BULK_PUTS);
    if (all == NULL)
        abort();
    for (size_t i = 0; i < BULK_PUTS; i++)
        memcpy(all + i * size, put, size);
    send_all(fd, all, size * BULK_PUTS);
    free(all);
}

/* Two connections that send much, the second when the changes of the first fill several commits. */
static void *send_much(void *arg)
{
    (void)arg;
    int first = open_client();
    int second = open_client();
    int other = open_client();
    count_puts(other);
    unsigned started = slow_started(slow);
    slow_set(slow, true, 0);
    send_puts(first);
    slow_await(slow, started + 1);
    for (int i = 0; i < ROUNDS; i++)
        fewest = count_puts(other);
    send_puts(second);
    for (int i = 0; i < ROUNDS; i++)
        put_count = count_puts(other);
    slow_set(slow, false, 0);
    close(first);
    close(second);
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

/* ---- the server ---- */

static void serve(void *(*clients)(void *arg), const char *url, uint32_t batch_jobs)
{
    struct server_settings settings = {
        .queue = slow_open(url, &slow),
        .limits = {.max_connections = 10, .stop_timeout_ms = 10000, .max_client_bytes = 1 << 24},
    };
    if (batch_jobs > 0)
        settings.queue->options.batch_jobs = batch_jobs;
    put_count = fewest = 0;
    run_server(&settings, clients);
    assert_int_equal(bide_close(settings.queue), BIDE_OK);
}

/* Its reply comes in its turn; what is behind it need not wait. */
static void malformed_command_does_not_wait_for_a_held_reserve(void **state)
{
    static const char *const malformed[] = {
        "delete x\r\n",      "delete\r\n",          "release 1 0\r\n", "bury 1 x\r\n",
        "touch 1 1\r\n",     "delete 1.0\r\n",      "done x 1\r\n",    "fail 1 x\r\n",
        "release x 0 0\r\n", "lease x touch 1\r\n",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(malformed); i++) {
        words = malformed[i];
        serve(send_behind_a_reserve, "memory:", 0);
        if (put_count != 2)
            fail_msg("%.*s stops the connection", (int)strcspn(words, "\r"), words);
    }
}

static void small_commits_bound_the_commands_of_busy_connections(void **state)
{
    (void)state;
    serve(send_much, "memory:?batch_jobs=10", BATCH_JOBS);
    /* The second one begins, as every new connection may. */
    assert_in_range(put_count - fewest, 1, BULK_PUTS / 2);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(malformed_command_does_not_wait_for_a_held_reserve),
        cmocka_unit_test(small_commits_bound_the_commands_of_busy_connections),
    };
    return cmocka_run_group_tests_name("server_held", tests, NULL, NULL);
}
