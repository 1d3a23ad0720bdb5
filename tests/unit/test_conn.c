/* SPDX-License-Identifier: MIT */
/*
 * Connections of a server that runs: what they sent is answered, all of it and at once, however it
 * came and however they end.
 */
#include "server_process.h"

#include <errno.h>
#include <poll.h>

static struct server_process server_process;
static struct client one, two, three;

static void begin_with(const char *url, const bide_options *options,
                       const struct server_limits *limits)
{
    server_process_start_with(&server_process, url, options, limits);
    one = client_open(&server_process);
    two = client_open(&server_process);
    three = client_open(&server_process);
    client_send_line(&three, "use elsewhere"); /* it runs */
    client_expect(&three, "USING elsewhere");
}

static const bide_options usual = BIDE_OPTIONS_INIT;

static int begin(void **state)
{
    (void)state;
    begin_with("memory:", &usual, &server_process_limits);
    return 0;
}

static int end(void **state)
{
    (void)state;
    client_close(&one);
    client_close(&two);
    client_close(&three);
    server_process_stop(&server_process);
    return 0;
}

/* ---- helpers ---- */

static void say(struct client *client, const char *text)
{
    client_send(client, text, strlen(text));
}

/* Sends all and receives meanwhile, until so many bytes have come that were not taken. */
static void converse(struct client *client, const char *data, size_t size, size_t expected)
{
    while (size > 0 || client->size < expected) {
        struct pollfd look = {.fd = client->fd,
                              .events = (short)(size > 0 ? POLLIN | POLLOUT : POLLIN)};
        assert_true(poll(&look, 1, PATIENCE_S * 1000) > 0);
        if ((look.revents & POLLIN) != 0)
            assert_true(client_receive(client));
        if ((look.revents & POLLOUT) == 0)
            continue;
        ssize_t sent = send(client->fd, data, size, MSG_NOSIGNAL | MSG_DONTWAIT);
        assert_true(sent > 0 || errno == EAGAIN);
        data += sent > 0 ? sent : 0;
        size -= sent > 0 ? (size_t)sent : 0;
    }
}

static char *repeated(const char *text, size_t count)
{
    size_t size = strlen(text);
    char *all = malloc(size * count + 1);
    assert_non_null(all);
    for (size_t i = 0; i < count; i++)
        memcpy(all + i * size, text, size);
    all[size * count] = 0;
    return all;
}

/* What was received begins with count times this; it is taken. */
static void take_repeated(struct client *client, const char *text, size_t count)
{
    size_t size = strlen(text);
    assert_true(client->size >= size * count);
    for (size_t i = 0; i < count; i++)
        assert_memory_equal(client->data + i * size, text, size);
    client_consume(client, size * count);
}

static void expect_end(struct client *client)
{
    while (client_receive(client))
        ;
    assert_int_equal(client->size, 0);
}

static void half_close(struct client *client)
{
    assert_int_equal(shutdown(client->fd, SHUT_WR), 0);
}

static void put_body(struct client *client, char fill, size_t size, const char *head)
{
    char *body = malloc(size + 2);
    assert_non_null(body);
    memset(body, fill, size);
    memcpy(body + size, "\r\n", 2);
    client_send_line(client, head);
    converse(client, body, size + 2, 1);
    free(body);
}

/* Asks until a line of stats, or stats-tube, is as expected. */
static void await_figure(struct client *client, const char *command, const char *figure)
{
    for (int i = 0; i < PATIENCE_S * 100; i++) {
        char line[300];
        bool found = false;
        size_t size;
        client_send_line(client, command);
        client_line(client, line, sizeof(line));
        assert_int_equal(sscanf(line, "OK %zu", &size), 1);
        converse(client, NULL, 0, size + 2);
        char after = client->data[size];
        client->data[size] = 0;
        found = strstr(client->data, figure) != NULL;
        client->data[size] = after;
        client_consume(client, size + 2);
        if (found)
            return;
        nanosleep(&(struct timespec){.tv_nsec = 10000000}, NULL);
    }
    fail_msg("%s never says %s", command, figure);
}

/* ---- many commands at once ---- */

static void a_long_pipeline_of_commands_that_block_is_answered(void **state)
{
    enum { COUNT = 200000 };
    (void)state;
    char *stop_sent = repeated("kick 0\r\n", COUNT);
    converse(&one, stop_sent, strlen(stop_sent), (size_t)COUNT * 10);
    take_repeated(&one, "KICKED 0\r\n", COUNT);
    free(stop_sent);
    client_send_line(&one, "list-tube-used");
    client_expect(&one, "USING default");
}

/* ---- half-closed ---- */

static void commands_before_a_half_close_are_answered(void **state)
{
    enum { COUNT = 3000, SIZE = 1000 };
    char reply[SIZE + 100];
    (void)state;
    put_body(&two, 'y', SIZE, "put 0 0 60 1000");
    client_expect(&two, "INSERTED 1");
    int head = snprintf(reply, sizeof(reply), "FOUND 1 %d\r\n", SIZE);
    memset(reply + head, 'y', SIZE);
    strcpy(reply + head + SIZE, "\r\n");
    char *stop_sent = repeated("peek 1\r\n", COUNT);
    say(&one, "watch empty\r\nignore default\r\nreserve\r\n");
    say(&one, stop_sent);
    half_close(&one);
    client_expect(&one, "WATCHING 2");
    client_expect(&one, "WATCHING 1");
    client_expect(&one, "TIMED_OUT");
    while (client_receive(&one))
        ;
    take_repeated(&one, reply, COUNT);
    assert_int_equal(one.size, 0);
    free(stop_sent);
}

static void half_close_within_a_command_ends_the_connection(void **state)
{
    static const char *const halves[] = {
        "p",
        "peek 1",
        "peek 1\r",
        "put 0 0 60 10\r\n",
        "put 0 0 60 10\r\nabc",
        "put 0 0 60 3\r\nabc",
        "put 0 0 60 3\r\nabc\r",
        "put 0 0 60 60000\r\nabc",
        "put 0 0 60 99999999\r\nabc",
        "put 0 0 60 9 nothing=1\r\nabc",
        "put-many 1 100\r\n0 0 60 3\r\nabc",
    };
    (void)state;
    for (size_t i = 0; i < COUNT_OF(halves); i++) {
        struct client client = client_open(&server_process);
        say(&client, "list-tube-used\r\n");
        say(&client, halves[i]);
        half_close(&client);
        client_expect(&client, "USING default");
        expect_end(&client);
        client_close(&client);
    }
    char line[400];
    memset(line, 'x', sizeof(line) - 1);
    line[sizeof(line) - 1] = 0;
    say(&one, line);
    half_close(&one);
    expect_end(&one);
    await_figure(&two, "stats-tube default", "total-jobs: 0\n");
    await_figure(&two, "stats", "current-connections: 2\n");
}

static void wait_of_a_disconnected_client_is_cancelled(void **state)
{
    static const char *const waits[] = {"reserve\r\n", "reserve-with-timeout 100000\r\n",
                                        "reserve-many 5 100000\r\n", "result 1 100000\r\n"};
    (void)state;
    say(&two, "put 0 1000 60 1\r\nx\r\n");
    client_expect(&two, "INSERTED 1");
    for (size_t i = 0; i < COUNT_OF(waits); i++) {
        struct client client = client_open(&server_process);
        say(&client, "use elsewhere\r\nwatch empty\r\nignore default\r\n");
        client_expect(&client, "USING elsewhere");
        client_expect(&client, "WATCHING 2");
        client_expect(&client, "WATCHING 1");
        say(&client, "put 0 0 60 1\r\nx\r\n"); /* on a store it is answered later */
        say(&client, waits[i]);
        half_close(&client);
        char line[100];
        client_line(&client, line, sizeof(line));
        assert_memory_equal(line, "INSERTED ", 9);
        client_expect(&client, "TIMED_OUT");
        expect_end(&client);
        client_close(&client);
    }
    await_figure(&two, "stats", "current-waiting: 0\n");
}

/* ---- the end of the server ---- */

/* Both are there when it looks: the commands, and the wish that it stops. */
static void shutdown_does_not_wait_for_a_new_reserve(void **state)
{
    (void)state;
    assert_int_equal(kill(server_process.pid, SIGSTOP), 0);
    say(&one, "use elsewhere\r\nput 0 0 60 1\r\nx\r\nreserve\r\n");
    say(&two, "reserve\r\n");
    say(&three, "reserve-many 5 100000\r\n");
    server_process_send_stop(&server_process);
    assert_int_equal(kill(server_process.pid, SIGCONT), 0);
    /* end() sees that it stops, long before its patience with clients ends */
}

/* ---- replies are not held back ---- */

static void reply_does_not_wait_for_a_later_reserve(void **state)
{
    (void)state;
    say(&one, "use elsewhere\r\n");
    client_expect(&one, "USING elsewhere");
    say(&one, "put 0 0 60 1\r\nx\r\nreserve\r\n");
    client_expect(&one, "INSERTED 1");
    say(&two, "put 0 0 60 1\r\ny\r\n");
    client_expect(&two, "INSERTED 2");
    client_expect(&one, "RESERVED 2 1");
    client_expect(&one, "y");
}

/* ---- memory ---- */

/* While memory is short a client is stopped at a few kilobytes of output; it must go on when the
 * others have given theirs back. */
static void throttled_connection_resumes_when_memory_is_free(void **state)
{
    enum { COUNT = 3000, SIZE = 400 };
    const struct server_limits limits = {
        .max_connections = 10, .stop_timeout_ms = INT64_C(600000), .max_client_bytes = 500000};
    bide_options options = usual;
    char reply[SIZE + 100];
    (void)state;
    options.max_job_size = 300000;
    begin_with("memory:", &options, &limits);
    put_body(&one, 'y', SIZE, "put 0 0 60 400");
    client_expect(&one, "INSERTED 1");
    say(&two, "put 0 0 60 300000\r\nthe rest does not come");
    await_figure(&three, "stats", "cmd-put: 2\n");
    char *stop_sent = repeated("peek 1\r\n", COUNT);
    say(&one, stop_sent);
    await_figure(&three, "stats", "cmd-put: 2\n"); /* it has done what it can */
    client_close(&two);
    await_figure(&three, "stats", "current-connections: 2\n");
    int head = snprintf(reply, sizeof(reply), "FOUND 1 %d\r\n", SIZE);
    memset(reply + head, 'y', SIZE);
    strcpy(reply + head + SIZE, "\r\n");
    converse(&one, NULL, 0, strlen(reply) * COUNT);
    take_repeated(&one, reply, COUNT);
    free(stop_sent);
    two = client_open(&server_process);
}

/* They come in one turn, and neither is complete. */
static void incomplete_bodies_count_at_once(void **state)
{
    const struct server_limits limits = {
        .max_connections = 10, .stop_timeout_ms = INT64_C(600000), .max_client_bytes = 100000};
    char body[60002];
    char first[100], second[100];
    (void)state;
    begin_with("memory:", &usual, &limits);
    memset(body, 'b', 60000);
    memcpy(body + 60000, "\r\n", 2);
    assert_int_equal(kill(server_process.pid, SIGSTOP), 0);
    say(&one, "put 0 0 60 60000\r\n");
    say(&two, "put 0 0 60 60000\r\n");
    assert_int_equal(kill(server_process.pid, SIGCONT), 0);
    await_figure(&three, "stats", "cmd-put: 2\n");
    /* What has come counts: nearly all of both is there before the end of the first comes. */
    client_send(&one, body, 59000);
    client_send(&two, body, 59000);
    for (int i = 0; i < 100; i++) {
        client_send_line(&three, "list-tube-used");
        client_expect(&three, "USING elsewhere");
    }
    client_send(&one, body + 59000, sizeof(body) - 59000);
    client_send(&two, body + 59000, sizeof(body) - 59000);
    client_line(&one, first, sizeof(first));
    client_line(&two, second, sizeof(second));
    bool refused = strcmp(first, "OUT_OF_MEMORY") == 0;
    assert_string_equal(refused ? first : second, "OUT_OF_MEMORY");
    assert_string_equal(refused ? second : first, "INSERTED 1");
}

static void large_job_round_trips(void **state)
{
    enum { SIZE = 20000000 };
    bide_options options = usual;
    (void)state;
    options.max_job_size = SIZE;
    begin_with("memory:", &options, &server_process_limits);
    put_body(&one, 'l', SIZE, "put 0 0 60 20000000");
    client_expect(&one, "INSERTED 1");
    client_send_line(&two, "reserve");
    client_expect(&two, "RESERVED 1 20000000");
    converse(&two, NULL, 0, SIZE + 2);
    for (size_t i = 0; i < SIZE; i += 4096)
        assert_int_equal(two.data[i], 'l');
    client_consume(&two, SIZE);
    client_expect(&two, "");
    put_body(&one, 'l', SIZE + 1, "put 0 0 60 20000001");
    client_expect(&one, "JOB_TOO_BIG");
}

/* ---- texts of errors ---- */

static void error_text_may_have_max_error_size(void **state)
{
    bide_options options = usual;
    (void)state;
    options.max_error_size = 100000;
    begin_with("memory:", &options, &server_process_limits);
    say(&one, "put 0 0 60 1\r\nx\r\nreserve\r\n");
    client_expect(&one, "INSERTED 1");
    client_expect(&one, "RESERVED 1 1");
    client_expect(&one, "x");
    put_body(&one, 'e', 100001, "fail 1 100001 retry=1h");
    client_expect(&one, "JOB_TOO_BIG");
    put_body(&one, 'e', 100000, "fail 1 100000 retry=1h");
    client_expect(&one, "RETRY 3600000");
}

static void short_error_limit_truncates_the_text(void **state)
{
    bide_options options = usual;
    (void)state;
    options.max_error_size = 10;
    begin_with("memory:", &options, &server_process_limits);
    say(&one, "put 0 0 60 1\r\nx\r\nreserve\r\n");
    client_expect(&one, "INSERTED 1");
    client_expect(&one, "RESERVED 1 1");
    client_expect(&one, "x");
    put_body(&one, 'e', 65536, "fail 1 65536 retry=1h");
    client_expect(&one, "RETRY 3600000");
}

/* ---- jobs that are held by their tokens ---- */

/* Far more than the socket takes at once; the first lines of the reply have come. */
static void reserve_many_and_read_little(int count)
{
    enum { SIZE = 60000 };
    char line[100];
    for (int i = 0; i < count; i++) {
        put_body(&one, 'm', SIZE, "put 0 0 100000 60000 retries=3");
        snprintf(line, sizeof(line), "INSERTED %d", i + 1);
        client_expect(&one, line);
    }
    snprintf(line, sizeof(line), "reserve-many %d 0", count);
    client_send_line(&one, line);
    snprintf(line, sizeof(line), "RESERVED_MANY %d", count);
    client_expect(&one, line);
}

static void jobs_of_a_reserve_many_that_was_not_sent_are_ready_again(void **state)
{
    (void)state;
    reserve_many_and_read_little(100);
    await_figure(&two, "stats", "current-jobs-reserved: 100\n");
    client_close(&one);
    await_figure(&two, "stats", "current-jobs-ready: 100\n");
    await_figure(&two, "stats", "current-jobs-reserved: 0\n");
    one = client_open(&server_process);
}

static void jobs_of_a_reserve_many_that_was_sent_stay_reserved(void **state)
{
    static const char end[] = "mm\r\nTIMED_OUT\r\n";
    (void)state;
    reserve_many_and_read_little(100);
    client_send_line(&one, "reserve-many 1 0");
    while (one.size < sizeof(end) || strcmp(one.data + one.size - sizeof(end) + 1, end) != 0)
        assert_true(client_receive(&one));
    client_close(&one);
    await_figure(&two, "stats", "current-connections: 2\n");
    await_figure(&two, "stats", "current-jobs-reserved: 100\n");
    one = client_open(&server_process);
}

/* ---- a store that has enough to do ---- */

#ifdef BIDE_WITH_SQLITE

static int begin_stored(void **state)
{
    (void)state;
    begin_with("sqlite:%s/jobs.db", &usual, &server_process_limits);
    return 0;
}

static void job_lists_are_delayed_and_not_rejected(void **state)
{
    enum { LISTS = 100, JOBS = 10, SIZE = 5000 };
    bide_options options = usual;
    char line[300];
    (void)state;
    options.max_pending_bytes = 200000;
    begin_with("sqlite:%s/jobs.db", &options, &server_process_limits);
    char item[SIZE + 100];
    int head = snprintf(item, sizeof(item), "0 0 60 %d\r\n", SIZE);
    memset(item + head, 'i', SIZE);
    strcpy(item + head + SIZE, "\r\n");
    char *items = repeated(item, JOBS);
    char *list = malloc(strlen(items) + 100);
    assert_non_null(list);
    sprintf(list, "put-many %d %zu\r\n%s\r\n", JOBS, strlen(items), items);
    char *all = repeated(list, LISTS);
    converse(&one, all, strlen(all), 1);
    for (int i = 0; i < LISTS; i++) {
        client_line(&one, line, sizeof(line));
        assert_memory_equal(line, "OK ", 3);
        client_line(&one, line, sizeof(line));
        assert_memory_equal(line, "---\n- INSERTED ", 15);
    }
    await_figure(&two, "stats-tube default", "total-jobs: 1000\n");
    free(all);
    free(list);
    free(items);
}

/* Its jobs have a limit of retries: to give one back is a change that is stored. */
static void all_jobs_of_a_closed_connection_are_released(void **state)
{
    enum { COUNT = 300 };
    bide_options options = usual;
    char line[100];
    (void)state;
    options.max_pending_ops = 16;
    begin_with("sqlite:%s/jobs.db", &options, &server_process_limits);
    for (int i = 0; i < COUNT; i++) {
        say(&one, "put 0 0 100000 1 retries=9 backoff=1h\r\nx\r\nreserve\r\n");
        client_line(&one, line, sizeof(line));
        client_line(&one, line, sizeof(line));
        assert_memory_equal(line, "RESERVED ", 9);
        client_expect(&one, "x");
    }
    await_figure(&two, "stats", "current-jobs-reserved: 300\n");
    client_close(&one);
    await_figure(&two, "stats", "current-jobs-reserved: 0\n");
    await_figure(&two, "stats", "current-jobs-delayed: 300\n");
    one = client_open(&server_process);
}

#endif

/* ---- idle ones ---- */

static const struct server_limits impatient = {.max_connections = 10,
                                               .stop_timeout_ms = INT64_C(600000),
                                               .idle_timeout_ms = 1000,
                                               .max_client_bytes = (uint64_t)1 << 30};

static void client_without_leases_becomes_idle(void **state)
{
    (void)state;
    begin_with("memory:", &usual, &impatient);
    say(&one, "put 0 0 1 1\r\nx\r\nreserve\r\n");
    client_expect(&one, "INSERTED 1");
    client_expect(&one, "RESERVED 1 1");
    client_expect(&one, "x");
    expect_end(&one);
}

static void slow_reader_is_not_idle(void **state)
{
    enum { SIZE = 5000000 };
    bide_options options = usual;
    (void)state;
    options.max_job_size = SIZE;
    begin_with("memory:", &options, &impatient);
    put_body(&one, 's', SIZE, "put 0 0 60 5000000");
    client_expect(&one, "INSERTED 1");
    client_send_line(&one, "peek 1");
    client_expect(&one, "FOUND 1 5000000");
    nanosleep(&(struct timespec){.tv_sec = 3}, NULL);
    converse(&one, NULL, 0, SIZE + 2);
}

/* ---- words ---- */

static void touch_by_token_returns_cancel_wanted(void **state)
{
    unsigned long long token;
    char line[100];
    (void)state;
    say(&one, "put 0 0 60 1\r\nx\r\nreserve-many 1 0\r\n");
    client_expect(&one, "INSERTED 1");
    client_expect(&one, "RESERVED_MANY 1");
    client_line(&one, line, sizeof(line));
    assert_int_equal(sscanf(line, "1 %llu 1", &token), 1);
    client_expect(&one, "x");
    snprintf(line, sizeof(line), "lease %llu touch 1", token);
    client_send_line(&one, line);
    client_expect(&one, "TOUCHED");
    client_send_line(&two, "cancel 1");
    client_expect(&two, "CANCELLED");
    client_send_line(&one, line);
    client_expect(&one, "CANCEL_WANTED");
}

static void touch_by_connection_returns_touched(void **state)
{
    (void)state;
    say(&one, "put 0 0 60 1\r\nx\r\nreserve\r\n");
    client_expect(&one, "INSERTED 1");
    client_expect(&one, "RESERVED 1 1");
    client_expect(&one, "x");
    client_send_line(&two, "cancel 1");
    client_expect(&two, "CANCELLED");
    client_send_line(&one, "touch 1");
    client_expect(&one, "TOUCHED");
}

static void impossible_id_is_not_found(void **state)
{
    static const char *const formats[] = {
        "delete %s",    "release %s 0 0",  "bury %s 0",         "touch %s",         "kick-job %s",
        "peek %s",      "reserve-job %s",  "cancel %s",         "result %s",        "result %s 0",
        "stats-job %s", "update %s pri=1", "lease 5 delete %s", "lease 5 touch %s",
    };
    static const char *const ids[] = {"0", "9007199254740992", "18446744073709551615"};
    char line[100];
    (void)state;
    for (size_t i = 0; i < COUNT_OF(formats); i++) {
        for (size_t j = 0; j < COUNT_OF(ids); j++) {
            const char *mark = strstr(formats[i], "%s");
            snprintf(line, sizeof(line), "%.*s%s%s", (int)(mark - formats[i]), formats[i], ids[j],
                     mark + 2);
            client_send_line(&one, line);
            client_expect(&one, "NOT_FOUND");
        }
    }
}

#define TEST(name)   cmocka_unit_test_setup_teardown(name, begin, end)
#define OWN(name)    cmocka_unit_test_teardown(name, end)
#define STORED(name) cmocka_unit_test_setup_teardown(name, begin_stored, end)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(a_long_pipeline_of_commands_that_block_is_answered),
        TEST(commands_before_a_half_close_are_answered),
        TEST(half_close_within_a_command_ends_the_connection),
        TEST(wait_of_a_disconnected_client_is_cancelled),
        TEST(shutdown_does_not_wait_for_a_new_reserve),
        TEST(reply_does_not_wait_for_a_later_reserve),
        OWN(throttled_connection_resumes_when_memory_is_free),
        OWN(incomplete_bodies_count_at_once),
        OWN(large_job_round_trips),
        OWN(client_without_leases_becomes_idle),
        OWN(slow_reader_is_not_idle),
        TEST(touch_by_token_returns_cancel_wanted),
        TEST(touch_by_connection_returns_touched),
        TEST(impossible_id_is_not_found),
        OWN(error_text_may_have_max_error_size),
        OWN(short_error_limit_truncates_the_text),
        TEST(jobs_of_a_reserve_many_that_was_not_sent_are_ready_again),
        TEST(jobs_of_a_reserve_many_that_was_sent_stay_reserved),
#ifdef BIDE_WITH_SQLITE
        STORED(commands_before_a_half_close_are_answered),
        STORED(wait_of_a_disconnected_client_is_cancelled),
        STORED(shutdown_does_not_wait_for_a_new_reserve),
        STORED(reply_does_not_wait_for_a_later_reserve),
        STORED(jobs_of_a_reserve_many_that_was_not_sent_are_ready_again),
        OWN(job_lists_are_delayed_and_not_rejected),
        OWN(all_jobs_of_a_closed_connection_are_released),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
