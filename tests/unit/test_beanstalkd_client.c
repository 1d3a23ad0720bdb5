/* SPDX-License-Identifier: MIT */
/* The client of a beanstalkd whose connections break, and whose replies come in pieces or make no
 * sense. What a real one does is in tests/interop/plain.c. */
#define _GNU_SOURCE
#include "blocked.h"
#include "fake_server.h"

#include "remote/beanstalkd/beanstalkd_client.h"

/* The next body that the client keeps finds no memory. */
static _Atomic bool no_memory;

bide_buf *__real_bide_buf_new(const void *data, size_t size);
bide_buf *__wrap_bide_buf_new(const void *data, size_t size);

bide_buf *__wrap_bide_buf_new(const void *data, size_t size)
{
    return atomic_exchange(&no_memory, false) ? NULL : __real_bide_buf_new(data, size);
}

/* So many of the next allocations for expected replies, of room for `expected_room`, fail. */
static _Atomic size_t expected_room;
static _Atomic int expected_failures;

/* The largest size for which realloc() succeeds; 0: no limit. */
static _Atomic size_t realloc_max;

void *__real_realloc(void *memory, size_t size);
void *__wrap_realloc(void *memory, size_t size);

void *__wrap_realloc(void *memory, size_t size)
{
    if (size == expected_room * sizeof(struct expected) && expected_failures > 0) {
        expected_failures--;
        return NULL;
    }
    return realloc_max != 0 && size > realloc_max ? NULL : __real_realloc(memory, size);
}

static void open_beanstalkd(const char *parameters)
{
    assert_int_equal(open_client(parameters, handshake_beanstalkd), BIDE_OK);
}

static void open_beanstalkd_until_ok(const char *parameters)
{
    open_until_ok(parameters, beanstalkd_reply, sizeof(beanstalkd_reply) - 1);
}

/* The job's figures, as stats-job gives them. */
static void send_stats(unsigned id, unsigned ttr)
{
    char yaml[300], reply[400];
    snprintf(yaml, sizeof(yaml),
             "---\nid: %u\ntube: t\nstate: reserved\npri: 3\nage: 0\ndelay: 0\nttr: %u\n"
             "time-left: %u\nfile: 0\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n",
             id, ttr, ttr);
    snprintf(reply, sizeof(reply), "OK %zu\r\n%s\r\n", strlen(yaml), yaml);
    send_text(reply);
}

/* A reserve that finds a job at once. */
static uint64_t reserve_job_now(unsigned id, unsigned ttr)
{
    bide_job job = {0};
    char line[60];
    bide_op reserve = reserve_of(&job, 0);
    submit(&reserve);
    read_line(line, sizeof(line));
    if (strcmp(line, "watch t") == 0) {
        send_text("WATCHING 2\r\n");
        expect("ignore default");
        send_text("WATCHING 1\r\n");
        read_line(line, sizeof(line));
    }
    assert_string_equal(line, "reserve-with-timeout 0");
    snprintf(line, sizeof(line), "RESERVED %u 2\r\nhi\r\n", id);
    send_text(line);
    snprintf(line, sizeof(line), "stats-job %u", id);
    expect(line);
    send_stats(id, ttr);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, id);
    assert_int_equal(job.ttr_ms, ttr * 1000);
    uint64_t token = job.token;
    bide_job_clear(&job);
    return token;
}

static void expect_put(void)
{
    char line[60];
    read_line(line, sizeof(line));
    if (strcmp(line, "use t") == 0) {
        send_text("USING t\r\n");
        read_line(line, sizeof(line));
    }
    assert_string_equal(line, "put 1024 0 60 1");
    expect("x");
}

/* ---- replies ---- */

static void split_reply_is_reassembled(void **state)
{
    (void)state;
    static const char reply[] = "FOUND 7 4\r\n\r\n\r\n\r\n";
    open_beanstalkd("");
    bide_op body = {.kind = BIDE_OP_BODY, .fetch = {.id = 7}};
    submit(&body);
    expect("peek 7");
    for (size_t i = 0; i < sizeof(reply) - 1; i++) {
        assert_int_equal(bide_cq_drain(server.cq, 0), 0);
        send_bytes(reply + i, 1);
    }
    completes(&body, BIDE_OK);
    assert_int_equal(bide_buf_size(body.fetch.buf), 4);
    assert_memory_equal(bide_buf_data(body.fetch.buf), "\r\n\r\n", 4);
    bide_buf_unref(body.fetch.buf);
}

static void error_replies_are_mapped_to_codes(void **state)
{
    (void)state;
    static const struct {
        const char *reply;
        int code;
    } cases[] = {
        {"INTERNAL_ERROR\r\n", BIDE_EIO}, {"OUT_OF_MEMORY\r\n", BIDE_EFULL},
        {"DRAINING\r\n", BIDE_DRAINING},  {"JOB_TOO_BIG\r\n", BIDE_TOO_BIG},
        {"BAD_FORMAT\r\n", BIDE_EIO},     {"WHATEVER 5\r\n", BIDE_EIO},
    };
    open_beanstalkd("");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bide_op put = put_of("x");
        submit(&put);
        expect_put();
        send_text(cases[i].reply);
        completes(&put, cases[i].code);
    }
}

static void malformed_reply_closes_the_connection(void **state)
{
    (void)state;
    static const char *const malformed[] = {"FOUND 7 2\r\nabcdef", "FOUND 7 1073741825\r\n",
                                            "FOUND 7 99999999999999999999\r\n",
                                            "OK 18446744073709551615\r\n"};
    open_beanstalkd(QUICK);
    for (size_t i = 0; i < COUNT_OF(malformed); i++) {
        bide_op body = {.kind = BIDE_OP_BODY, .fetch = {.id = 7}};
        submit(&body);
        expect("peek 7");
        send_text(malformed[i]);
        expect_end();
        handshake_beanstalkd();
        expect("peek 7");
        send_text("NOT_FOUND\r\n");
        completes(&body, BIDE_NOT_FOUND);
    }
    send_text("UNASKED\r\n");
    expect_end();
}

/* A connection receives an unsolicited reply of so many bytes. */
static void feed(struct conn *conn, int from, size_t size)
{
    char head[60];
    char *all = malloc(size + 64);
    assert_non_null(all);
    size_t used = (size_t)sprintf(head, "FOUND 1 %zu\r\n", size);
    memcpy(all, head, used);
    memset(all + used, 'x', size);
    memcpy(all + used + size, "\r\n", 2);
    bi_beanstalkd_conn_command(conn, NULL, 0, "peek 1");
    for (size_t sent = 0; sent < used + size + 2;) {
        ssize_t more = send(from, all + sent, used + size + 2 - sent, MSG_DONTWAIT);
        sent += more > 0 ? (size_t)more : 0;
        while (readable(conn->fd, 0))
            bi_beanstalkd_conn_read(conn);
        assert_false(conn->broken);
    }
    assert_false(bi_beanstalkd_conn_expects(conn));
    free(all);
}

/* Also when it is never idle. */
static void connection_releases_its_large_buffers(void **state)
{
    (void)state;
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct conn *conn = bi_beanstalkd_conn_new(pair[0]);
    assert_non_null(conn);
    feed(conn, pair[1], 8 << 20);
    feed(conn, pair[1], 10);
    assert_in_range(conn->in.room, 1, 1 << 20);

    bi_beanstalkd_conn_command(conn, NULL, 0, "peek 1");
    bi_beanstalkd_conn_write(conn);
    for (int i = 0; i < 100000; i++) {
        char drained[256];
        bi_beanstalkd_conn_command(conn, NULL, 0, "peek 1");
        assert_true(send(pair[1], "NOT_FOUND\r\n", 11, MSG_NOSIGNAL) == 11);
        bi_beanstalkd_conn_read(conn);
        assert_int_equal(conn->expected.size - conn->expected.used, sizeof(struct expected));
        if (i % 2 == 0)
            bi_beanstalkd_conn_write(conn);
        while (recv(pair[1], drained, sizeof(drained), 0) > 0)
            ;
    }
    assert_in_range(conn->expected.room, 1, 1024 * sizeof(struct expected));
    assert_in_range(conn->out.room, 1, 1 << 20);
    bi_beanstalkd_conn_free(conn);
    close(pair[1]);
}

/* What was sent makes room, before all of it was. */
static void sent_bytes_free_room_in_the_buffer(void **state)
{
    (void)state;
    static char body[64 << 10], sink[sizeof(body) + 2];
    int pair[2];
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, pair), 0);
    struct conn *conn = bi_beanstalkd_conn_new(pair[0]);
    assert_non_null(conn);
    /* More than the socket takes is there from now on. */
    for (int i = 0; i < 32; i++)
        bi_beanstalkd_conn_append_body(conn, (bide_slice){body, sizeof(body)});
    bi_beanstalkd_conn_write(conn);
    assert_true(conn->want_write);
    for (int i = 0; i < 1000; i++) {
        for (size_t read = 0; read < sizeof(body) + 2;) {
            ssize_t got = recv(pair[1], sink, sizeof(body) + 2 - read, 0);
            read += got > 0 ? (size_t)got : 0;
            bi_beanstalkd_conn_write(conn);
            assert_true(conn->want_write);
        }
        bi_beanstalkd_conn_append_body(conn, (bide_slice){body, sizeof(body)});
    }
    assert_in_range(conn->out.room, 1, 8 << 20);
    bi_beanstalkd_conn_free(conn);
    close(pair[1]);
}

static void say_ok(const char *yaml)
{
    char reply[400];
    snprintf(reply, sizeof(reply), "OK %zu\r\n%s\r\n", strlen(yaml), yaml);
    send_text(reply);
}

static void tubes_that_are_not_valid_topics_are_skipped(void **state)
{
    (void)state;
    static const char *const lists[] = {"---\n- \"\n- a\n", "---\n- \"a\n- \"\"\n- a\n",
                                        "---\n- x y\n- \n- a\n- \"x\ty\"\n", "---\n- \"a\"\n-"};
    open_beanstalkd("");
    for (size_t i = 0; i < COUNT_OF(lists); i++) {
        char cursor[BIDE_CURSOR_SIZE] = "";
        bide_topic_stats found[4];
        bide_op topics = {.kind = BIDE_OP_TOPICS,
                          .topics = {.cursor = cursor, .topics = found, .topic_max = 4}};
        submit(&topics);
        expect("list-tubes");
        say_ok(lists[i]);
        expect("stats-tube a");
        say_ok("---\nname: a\ncurrent-jobs-ready: 7\n");
        completes(&topics, BIDE_OK);
        assert_int_equal(topics.topics.count, 1);
        assert_string_equal(found[0].name, "a");
        assert_int_equal(found[0].jobs.ready, 7);
    }
}

static void times_that_are_too_long_are_clamped(void **state)
{
    (void)state;
    bide_topic_stats stats;
    bide_op op = {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {.topic = {"a", 1}, .stats = &stats}};
    open_beanstalkd("");
    submit(&op);
    expect("stats-tube a");
    say_ok("---\nname: a\npause: 1\npause-time-left: 9223372036854775807\n");
    completes(&op, BIDE_OK);
    assert_true(stats.paused);
    assert_int_equal(stats.pause_left_ms, BIDE_TIME_MAX_MS);
}

static void answer_put(void)
{
    expect_put();
    send_text("INSERTED 3\r\n");
}

static void completion_wakes_one_caller_at_the_pending_limit(void **state)
{
    (void)state;
    open_beanstalkd("max_pending_ops=1");
    let_callers_through(answer_put);
}

/* ---- connections that break ---- */

static void sent_write_without_reply_is_unknown(void **state)
{
    (void)state;
    open_beanstalkd(QUICK);
    bide_put_item items[2] = {{.topic = topic_t, .body = {"x", 1}},
                              {.topic = topic_t, .body = {"x", 1}}};
    bide_op put = put_of("x");
    bide_op many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}};
    submit(&put);
    expect_put();
    submit(&many);
    expect_put();
    expect_put();
    close_connection();
    completes(&put, BIDE_EUNKNOWN);
    assert_non_null(strstr(put.error, server.path));
    drain_until_completed(&many);
    assert_int_equal(many.status, BIDE_OK);
    assert_int_equal(items[0].status, BIDE_EUNKNOWN);
    assert_int_equal(items[1].status, BIDE_EUNKNOWN);
    assert_int_equal(many.put_many.accepted, 0);
    assert_int_equal(many.error_item, 1);
    assert_non_null(strstr(many.error, server.path));
}

/* ---- lists whose connection breaks: a socket does not take so many bytes at once ---- */

#define BIG  ((size_t)60000)
#define MANY 100

static char big_body[60000];

static bide_op puts_of(bide_put_item *items)
{
    memset(big_body, 'x', BIG);
    for (size_t i = 0; i < MANY; i++)
        items[i] = (bide_put_item){.topic = topic_t, .body = {big_body, BIG}};
    return (bide_op){.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = MANY}};
}

static void hear_big_puts(size_t count)
{
    char line[60];
    for (size_t i = 0; i < count; i++) {
        read_line(line, sizeof(line));
        if (strcmp(line, "use t") == 0) {
            send_text("USING t\r\n");
            read_line(line, sizeof(line));
        }
        assert_string_equal(line, "put 1024 0 60 60000");
        read_until(BIG + 2);
        drop(BIG + 2);
    }
}

/* One is answered, some are not, and the last of them were not sent. */
static void break_a_list(bide_op *many)
{
    submit(many);
    hear_big_puts(2);
    send_text("INSERTED 1\r\n");
    close_connection();
}

/* Those that are unknown, behind the first, which is good; all further ones have the code. */
static size_t unknown_of(const bide_put_item *items, int code)
{
    size_t unknown = 0;
    assert_int_equal(items[0].status, BIDE_OK);
    while (1 + unknown < MANY && items[1 + unknown].status == BIDE_EUNKNOWN)
        unknown++;
    for (size_t i = 1 + unknown; i < MANY; i++)
        assert_int_equal(items[i].status, code);
    assert_in_range(unknown, 1, MANY - 2);
    return unknown;
}

static void unsent_items_are_sent_again(void **state)
{
    (void)state;
    static bide_put_item items[MANY];
    char line[60];
    open_beanstalkd(QUICK);
    bide_op many = puts_of(items);
    break_a_list(&many);
    handshake_beanstalkd();
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    size_t puts = 0;
    for (;;) {
        read_line(line, sizeof(line));
        if (strcmp(line, "list-tube-used") == 0)
            break;
        if (strcmp(line, "use t") == 0) {
            send_text("USING t\r\n");
            continue;
        }
        assert_string_equal(line, "put 1024 0 60 60000");
        read_until(BIG + 2);
        drop(BIG + 2);
        snprintf(line, sizeof(line), "INSERTED %zu\r\n", 1000 + puts++);
        send_text(line);
    }
    send_text("USING t\r\n");
    completes(&ping, BIDE_OK);
    drain_until_completed(&many);
    assert_int_equal(many.status, BIDE_OK);
    size_t unknown = unknown_of(items, BIDE_OK);
    assert_int_equal(puts, MANY - 1 - unknown);
    assert_int_equal(many.put_many.accepted, MANY - unknown);
    assert_int_equal(items[0].id, 1);
    assert_int_equal(items[1 + unknown].id, 1000);
    assert_int_equal(items[MANY - 1].id, 1000 + puts - 1);
    assert_int_equal(many.error_item, 2);
    assert_non_null(strstr(many.error, "it may have happened"));
}

/* What was done stays done. */
static void items_that_cannot_be_resent_fail_individually(void **state)
{
    (void)state;
    static bide_put_item items[MANY];
    open_beanstalkd_until_ok("connect_timeout=200ms&" QUICK);
    bide_op many = puts_of(items);
    stop_listening();
    break_a_list(&many);
    drain_until_completed(&many);
    assert_int_equal(many.status, BIDE_OK);
    unknown_of(items, BIDE_EIO);
    assert_int_equal(many.put_many.accepted, 1);
    assert_int_equal(many.error_item, 2);
}

static void unsent_list_fails_as_a_whole(void **state)
{
    (void)state;
    bide_put_item items[2] = {{.topic = topic_t, .body = {"x", 1}},
                              {.topic = topic_t, .body = {"x", 1}}};
    bide_op many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}};
    open_beanstalkd_until_ok("connect_timeout=200ms&" QUICK);
    stop_listening();
    close_connection();
    submit(&many);
    drain_until_completed(&many);
    assert_true(many.status == BIDE_EIO || many.status == BIDE_OK);
    for (size_t i = 0; i < 2; i++)
        assert_true(items[i].status == BIDE_EIO || items[i].status == BIDE_EUNKNOWN);
    assert_int_equal(many.put_many.accepted, 0);
}

static void ops_submitted_while_disconnected_are_sent_on_reconnect(void **state)
{
    (void)state;
    open_beanstalkd(QUICK);
    close_connection();
    stop_listening();
    bide_op put = put_of("x");
    submit(&put);
    listen_here();
    handshake_beanstalkd();
    expect_put();
    send_text("INSERTED 12\r\n");
    completes(&put, BIDE_OK);
    assert_int_equal(put.put.id, 12);
}

static void call_without_server_fails_after_connect_timeout(void **state)
{
    (void)state;
    open_beanstalkd_until_ok("connect_timeout=100ms&" QUICK);
    close_connection();
    stop_listening();
    bide_op put = put_of("x");
    int64_t start = bi_clock_boot();
    submit(&put);
    completes(&put, BIDE_EIO);
    assert_true(bi_clock_boot() - start >= 100000);
    assert_non_null(strstr(put.error, server.path));
}

static void lost_connection_drops_its_leases(void **state)
{
    (void)state;
    open_beanstalkd(QUICK);
    uint64_t token = reserve_job_now(5, 60);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = 5, .token = token}};
    submit(&touch);
    expect("touch 5");
    send_text("TOUCHED\r\n");
    completes(&touch, BIDE_OK);
    close_connection();
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    handshake_beanstalkd();
    expect("list-tube-used");
    send_text("USING default\r\n");
    completes(&ping, BIDE_OK);
    bide_op lose = {.kind = BIDE_OP_DELETE, .lease = {5, token}};
    submit(&lose);
    completes(&lose, BIDE_LEASE_LOST);
    assert_true(stays_silent(20));
}

static void delete_without_reply_is_unknown(void **state)
{
    (void)state;
    open_beanstalkd(QUICK);
    uint64_t token = reserve_job_now(5, 60);
    bide_op finish = {.kind = BIDE_OP_DELETE, .lease = {5, token}};
    submit(&finish);
    expect("delete 5");
    close_connection();
    completes(&finish, BIDE_EUNKNOWN);
}

/* A server that accepts, answers the greeting and closes is not connected to at full speed. */
static void backoff_grows_when_connections_are_lost_before_a_reply(void **state)
{
    (void)state;
    int64_t before = 0, wanted = 20000;
    open_beanstalkd("connect_timeout=1m&reconnect_min=20ms&reconnect_max=1m");
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    expect("list-tube-used");
    for (int i = 0; i < 5; i++) {
        close_connection();
        handshake_beanstalkd();
        int64_t now = bi_clock_boot();
        expect("list-tube-used");
        if (before != 0)
            assert_true(now - before >= wanted);
        wanted *= 2;
        before = now;
    }
    send_text("USING default\r\n");
    completes(&ping, BIDE_OK);
}

static bide_op both_of(unsigned id, uint64_t token, bide_job *next, int64_t timeout_ms)
{
    bide_op both = {.kind = BIDE_OP_FINISH_AND_RESERVE};
    both.finish_and_reserve.finish = (bide_finish_item){.id = id, .token = token};
    both.finish_and_reserve.reserve = reserve_of(next, timeout_ms).reserve;
    return both;
}

/* The finish of a finish_and_reserve succeeds; its reserve has been sent. */
static void finish_first(bide_op *both)
{
    submit(both);
    expect("delete 5");
    send_text("DELETED\r\n");
    expect("reserve-with-timeout 0");
}

static void answered_finish_is_not_resent_with_its_reserve(void **state)
{
    (void)state;
    bide_job next = {0};
    open_beanstalkd(QUICK);
    bide_op both = both_of(5, reserve_job_now(5, 60), &next, 0);
    finish_first(&both);
    close_connection();
    handshake_beanstalkd();
    expect("watch t");
    expect("ignore default");
    expect("reserve-with-timeout 0");
    send_text("WATCHING 2\r\nWATCHING 1\r\nRESERVED 6 0\r\n\r\n");
    expect("stats-job 6");
    send_stats(6, 60);
    completes(&both, BIDE_OK);
    assert_int_equal(both.finish_and_reserve.finish.status, BIDE_OK);
    assert_int_equal(next.id, 6);
    bide_job_clear(&next);
}

static void answered_finish_is_done_although_its_reserve_fails(void **state)
{
    (void)state;
    static const struct {
        int64_t timeout_ms;
        int code;
    } cases[] = {{0, BIDE_EIO}, {300, BIDE_TIMED_OUT}};
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bide_job next = {0};
        open_beanstalkd_until_ok("connect_timeout=200ms&" QUICK);
        bide_op both = both_of(5, reserve_job_now(5, 60), &next, cases[i].timeout_ms);
        finish_first(&both);
        stop_listening();
        close_connection();
        completes(&both, cases[i].code);
        assert_int_equal(both.finish_and_reserve.finish.status, BIDE_OK);
        assert_int_equal(bide_close(server.queue), BIDE_OK);
        server.queue = NULL;
        listen_here();
    }
}

static void answered_finish_is_done_although_the_queue_is_closed(void **state)
{
    (void)state;
    bide_job next = {0};
    open_beanstalkd_until_ok("connect_timeout=1s&reconnect_min=1m&reconnect_max=1m");
    bide_op both = both_of(5, reserve_job_now(5, 60), &next, BIDE_FOREVER);
    finish_first(&both);
    stop_listening();
    close_connection();
    assert_int_equal(bide_close(server.queue), BIDE_OK);
    server.queue = NULL;
    completes(&both, BIDE_CLOSED);
    assert_int_equal(both.finish_and_reserve.finish.status, BIDE_OK);
}

static void answered_kick_is_done_although_the_connection_breaks(void **state)
{
    (void)state;
    open_beanstalkd(QUICK);
    bide_op kick = {.kind = BIDE_OP_KICK_JOB, .lease = {5, 0}};
    submit(&kick);
    expect("kick-job 5");
    send_text("KICKED\r\n");
    close_connection();
    completes(&kick, BIDE_OK);
}

/* What has changed nothing is not unknown: it is asked again from the beginning. */
static void change_without_effect_may_be_resent(void **state)
{
    (void)state;
    static const struct {
        bide_op_kind kind;
        const char *command;
        int code;
    } cases[] = {{BIDE_OP_DELETE, "delete 5", BIDE_RESERVED},
                 {BIDE_OP_KICK_JOB, "kick-job 5", BIDE_RESERVED}};
    open_beanstalkd(QUICK);
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bide_op op = {.kind = cases[i].kind, .lease = {5, 0}};
        submit(&op);
        expect(cases[i].command);
        send_text("NOT_FOUND\r\n");
        expect("stats-job 5");
        close_connection();
        handshake_beanstalkd();
        expect(cases[i].command);
        send_text("NOT_FOUND\r\n");
        expect("stats-job 5");
        send_stats(5, 60);
        completes(&op, cases[i].code);
    }
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bide_op op = {.kind = cases[i].kind, .lease = {5, 0}};
        submit(&op);
        expect(cases[i].command);
        send_text("NOT_FOUND\r\n");
        expect("stats-job 5");
        close_connection();
        handshake_beanstalkd();
        expect(cases[i].command);
        close_connection();
        completes(&op, BIDE_EUNKNOWN);
        bide_op ping = {.kind = BIDE_OP_PING};
        submit(&ping);
        handshake_beanstalkd();
        expect("list-tube-used");
        send_text("USING default\r\n");
        completes(&ping, BIDE_OK);
    }
}

/* The first attempt must not move the cursor. */
static void repeated_page_of_topics_is_the_same(void **state)
{
    (void)state;
    char cursor[BIDE_CURSOR_SIZE] = "", line[60], again[60];
    bide_topic_stats found;
    open_beanstalkd(QUICK);
    bide_op topics = {.kind = BIDE_OP_TOPICS,
                      .topics = {.cursor = cursor, .topics = &found, .topic_max = 1}};
    submit(&topics);
    expect("list-tubes");
    say_ok("---\n- a\n- b\n");
    read_line(line, sizeof(line));
    close_connection();
    handshake_beanstalkd();
    expect("list-tubes");
    say_ok("---\n- a\n- b\n");
    read_line(again, sizeof(again));
    assert_string_equal(again, line);
    say_ok(strcmp(line, "stats-tube a") == 0 ? "---\nname: a\n" : "---\nname: b\n");
    completes(&topics, BIDE_OK);
    assert_int_equal(topics.topics.count, 1);
    assert_true(cursor[0] != 0);
}

/* ---- reserves that wait ---- */

/* Nothing is ready, so that a reserve goes on to wait. */
static int begin_waiting(bide_op *reserve, const char *last)
{
    submit(reserve);
    expect("watch t");
    expect("ignore default");
    expect("reserve-with-timeout 0");
    send_text("WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\n");
    int first = server.fd;
    accept_one();
    expect("watch t");
    expect("ignore default");
    expect(last);
    send_text("WATCHING 2\r\nWATCHING 1\r\n");
    return first;
}

static void waiting_reserve_uses_its_own_connection(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    send_text("RESERVED 9 2\r\nhi\r\n");
    expect("stats-job 9");
    send_stats(9, 60);
    completes(&reserve, BIDE_OK);
    bide_op finish = {.kind = BIDE_OP_DELETE, .lease = {9, job.token}};
    submit(&finish);
    expect("delete 9");
    send_text("DELETED\r\n");
    completes(&finish, BIDE_OK);
    bide_job_clear(&job);
    close(first);
}

/* There is no other word for it in this protocol. */
static void cancel_closes_the_connection_of_the_reserve(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    completes(&reserve, BIDE_CANCELLED);
    expect_end();
    server.fd = first;
    bide_op put = put_of("x");
    submit(&put);
    expect_put();
    send_text("INSERTED 3\r\n");
    completes(&put, BIDE_OK);
}

static void sub_second_timeout_is_honoured(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, 990);
    int64_t start = bi_clock_boot();
    int first = begin_waiting(&reserve, "reserve-with-timeout 1");
    completes(&reserve, BIDE_TIMED_OUT);
    assert_true(bi_clock_boot() - start >= 990000);
    expect_end();
    close(first);
}

static void reserve_without_server_times_out_with_reason(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, 200);
    int64_t start = bi_clock_boot();
    stop_listening();
    close_connection();
    submit(&reserve);
    completes(&reserve, BIDE_TIMED_OUT);
    assert_true(bi_clock_boot() - start >= 200000);
    assert_non_null(strstr(reserve.error, "reserve: no connection to "));
}

/* The client adds seconds of its own to a wait that the server ends; only once. */
static void resent_reserve_keeps_its_original_timeout(void **state)
{
    (void)state;
    bide_job job = {0};
    char line[60];
    int seconds = 0;
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, 100000);
    int first = begin_waiting(&reserve, "reserve-with-timeout 100");
    close_connection();
    server.fd = first;
    server.size = 0;
    expect("reserve-with-timeout 0");
    send_text("TIMED_OUT\r\n");
    accept_one();
    expect("watch t");
    expect("ignore default");
    read_line(line, sizeof(line));
    assert_int_equal(sscanf(line, "reserve-with-timeout %d", &seconds), 1);
    assert_in_range(seconds, 1, 100);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    completes(&reserve, BIDE_CANCELLED);
    close(first);
}

static void reserve_fails_when_the_server_requires_a_secret(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd("reconnect_min=1ms&reconnect_max=1m&connect_timeout=1m");
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    close_connection(); /* first this one: the reserve goes on over the other, if that is not yet known to be lost */
    close(first);
    handshake_with("AUTH_REQUIRED\r\n");
    completes(&reserve, BIDE_EINVAL);
    assert_non_null(strstr(reserve.error, "requires a secret"));
}

static void reserve_is_resent_after_its_connection_broke(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    close_connection();
    server.fd = first;
    server.size = 0;
    expect("reserve-with-timeout 0");
    send_text("RESERVED 4 0\r\n\r\n");
    expect("stats-job 4");
    send_stats(4, 60);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 4);
    assert_int_equal(job.body_size, 0);
    bide_job_clear(&job);
}

/* Does the client ask the server about a job, and not its own leases? */
static void is_not_held(unsigned id)
{
    char line[60];
    bide_op delete = {.kind = BIDE_OP_DELETE, .lease = {id, 0}};
    submit(&delete);
    snprintf(line, sizeof(line), "delete %u", id);
    expect(line);
    send_text("DELETED\r\n");
    completes(&delete, BIDE_OK);
}

/* ---- a server that keeps its connection and says nothing ---- */

static void call_without_a_reply_times_out(void **state)
{
    (void)state;
    open_beanstalkd("answer_timeout=1s&" QUICK);
    bide_op put = put_of("x");
    submit(&put);
    expect_put();
    completes(&put, BIDE_EUNKNOWN);
    expect_end();
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    handshake_beanstalkd();
    expect("list-tube-used");
    expect_end(); /* it is asked again: it changes nothing */
    handshake_beanstalkd();
    expect("list-tube-used");
    send_text("USING default\r\n");
    completes(&ping, BIDE_OK);
}

/* The delete goes over the connection of the lease. */
static void finish_without_a_reply_is_unknown(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd("answer_timeout=1s&" QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    send_text("RESERVED 9 0\r\n\r\n");
    expect("stats-job 9");
    send_stats(9, 60);
    completes(&reserve, BIDE_OK);
    bide_op finish = {.kind = BIDE_OP_DELETE, .lease = {9, job.token}};
    submit(&finish);
    expect("delete 9");
    completes(&finish, BIDE_EUNKNOWN);
    expect_end();
    bide_job_clear(&job);
    server.fd = first; /* it has not been asked anything */
    is_not_held(9);
}

static void server_of_a_waiting_reserve_is_pinged(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd("answer_timeout=1s&" QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    int waiting = server.fd;
    server.fd = first;
    for (int i = 0; i < 2; i++) {
        expect("list-tube-used");
        send_text("USING default\r\n");
    }
    expect("list-tube-used");
    expect_end();
    server.fd = waiting;
    expect_end();
    handshake_beanstalkd();
    expect("watch t");
    expect("ignore default");
    expect("reserve-with-timeout 0");
    send_text("WATCHING 2\r\nWATCHING 1\r\nRESERVED 4 0\r\n\r\n");
    expect("stats-job 4");
    send_stats(4, 60);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 4);
    bide_job_clear(&job);
}

static void job_without_memory_for_its_body_is_released(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd("");
    bide_op reserve = reserve_of(&job, 0);
    bide_op by_id = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.id = 6, .job = &job}};
    submit(&reserve);
    expect("watch t");
    expect("ignore default");
    expect("reserve-with-timeout 0");
    no_memory = true;
    send_text("WATCHING 2\r\nWATCHING 1\r\nRESERVED 5 2\r\nhi\r\n");
    completes(&reserve, BIDE_ENOMEM);
    is_not_held(5);
    submit(&by_id);
    expect("reserve-job 6");
    no_memory = true;
    send_text("RESERVED 6 2\r\nhi\r\n");
    completes(&by_id, BIDE_ENOMEM);
    is_not_held(6);
}

/* The server dies after it said that there is no job, before the connection that is to wait. */
static void reserve_survives_a_server_crash_before_it_waits(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    (void)reserve_job_now(4, 60); /* that t is watched */
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    expect("reserve-with-timeout 0");
    stop_listening();
    send_text("TIMED_OUT\r\n");
    close_connection();
    usleep(50000); /* enough for it to find no server; else the test proves less */
    assert_int_equal(reserve.status, BIDE_PENDING);
    listen_here();
    handshake_beanstalkd();
    expect("watch t");
    expect("ignore default");
    expect("reserve-with-timeout 0");
    send_text("WATCHING 2\r\nWATCHING 1\r\nRESERVED 5 2\r\nhi\r\n");
    expect("stats-job 5");
    send_stats(5, 60);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 5);
    bide_job_clear(&job);
}

/* A connection expects 64 replies, and has no memory for one more. */
static void sent_puts_are_not_resent_without_memory(void **state)
{
    (void)state;
    enum { PUTS = 63 };
    bide_op puts[PUTS + 1];
    open_beanstalkd(QUICK);
    expected_room = 128;
    expected_failures = 1;
    for (size_t i = 0; i < PUTS; i++) {
        puts[i] = put_of("x");
        submit(&puts[i]);
        if (i == 0)
            expect("use t");
        expect("put 1024 0 60 1");
        expect("x");
    }
    puts[PUTS] = put_of("y");
    submit(&puts[PUTS]);
    expect_end();
    assert_int_equal(expected_failures, 0);
    for (size_t i = 0; i < PUTS; i++)
        completes(&puts[i], BIDE_EUNKNOWN);
    handshake_beanstalkd();
    expect("use t");
    expect("put 1024 0 60 1");
    expect("y");
    send_text("USING t\r\nINSERTED 7\r\n");
    completes(&puts[PUTS], BIDE_OK);
}

/* The second connection has no memory for the replies to watch, ignore and reserve. */
static void reserve_without_memory_to_wait_is_retried(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    (void)reserve_job_now(4, 60); /* that t is watched */
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    expect("reserve-with-timeout 0");
    expected_room = 64;
    expected_failures = 3;
    send_text("TIMED_OUT\r\n");
    expect("reserve-with-timeout 0");
    assert_int_equal(expected_failures, 0);
    send_text("RESERVED 5 2\r\nhi\r\n");
    expect("stats-job 5");
    send_stats(5, 60);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 5);
    bide_job_clear(&job);
}

/* What stats-job may say of a job that was just reserved: the client has no lease of it. */
static const struct {
    const char *reply;
    int code;
} no_stats[] = {
    {"NOT_FOUND\r\n", BIDE_TIMED_OUT},
    {"OK 38\r\n---\nid: 5\ntube: t\nstate: ready\nttr: 1\n\r\n", BIDE_TIMED_OUT},
    {"INTERNAL_ERROR\r\n", BIDE_EIO},
    {"OK 3\r\n---\r\n", BIDE_EIO},
    {"OK 41\r\n---\nid: 8\ntube: t\nstate: reserved\nttr: 1\n\r\n", BIDE_EIO},
};

static void job_without_stats_is_skipped(void **state)
{
    (void)state;
    bide_job jobs[3] = {{0}};
    open_beanstalkd("");
    (void)reserve_job_now(4, 60); /* that t is watched */
    for (size_t i = 0; i < COUNT_OF(no_stats); i++) {
        bide_op reserve = reserve_of(jobs, 0);
        submit(&reserve);
        expect("reserve-with-timeout 0");
        send_text("RESERVED 5 2\r\nhi\r\n");
        expect("stats-job 5");
        send_text(no_stats[i].reply);
        completes(&reserve, no_stats[i].code);
        assert_int_equal(reserve.reserve.count, 0);
        is_not_held(5);
    }
    for (size_t i = 0; i < COUNT_OF(no_stats); i++) {
        char line[60];
        bide_op reserve = reserve_of(jobs, 0);
        reserve.reserve.job_max = 3;
        submit(&reserve);
        expect("reserve-with-timeout 0");
        send_text("RESERVED 4 1\r\na\r\n");
        read_line(line, sizeof(line));
        if (strcmp(line, "stats") == 0) {
            say_ok("---\nmax-job-size: 65535\n");
            read_line(line, sizeof(line));
        }
        assert_string_equal(line, "reserve-with-timeout 0");
        expect("reserve-with-timeout 0");
        send_text("RESERVED 5 1\r\nb\r\nRESERVED 6 1\r\nc\r\n");
        expect("stats-job 4");
        expect("stats-job 5");
        expect("stats-job 6");
        send_stats(4, 60);
        send_text(no_stats[i].reply);
        send_stats(6, 60);
        completes(&reserve, BIDE_OK);
        assert_int_equal(reserve.reserve.count, 2);
        assert_int_equal(jobs[0].id, 4);
        assert_int_equal(jobs[1].id, 6);
        assert_memory_equal(jobs[1].body, "c", 1);
        is_not_held(5);
        bide_job_clear(&jobs[0]);
        bide_job_clear(&jobs[1]);
    }
}

static void a_job_without_stats_is_not_reserved_by_its_id(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd("");
    for (size_t i = 0; i < COUNT_OF(no_stats); i++) {
        bide_op reserve = {.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.id = 5, .job = &job}};
        submit(&reserve);
        expect("reserve-job 5");
        send_text("RESERVED 5 2\r\nhi\r\n");
        expect("stats-job 5");
        send_text(no_stats[i].reply);
        completes(&reserve, no_stats[i].code == BIDE_EIO ? BIDE_EIO : BIDE_NOT_FOUND);
        is_not_held(5);
    }
}

/* It goes on waiting. Its connection is closed, so that the job is given back at once. */
static void waiting_reserve_skips_a_job_without_stats(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    send_text("RESERVED 9 2\r\nhi\r\n");
    expect("stats-job 9");
    send_text("NOT_FOUND\r\n");
    expect_end();
    server.fd = first;
    server.size = 0;
    expect("reserve-with-timeout 0");
    send_text("RESERVED 9 2\r\nhi\r\n");
    expect("stats-job 9");
    send_stats(9, 60);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 9);
    bide_job_clear(&job);
}

static void close_cancels_waiting_reserves(void **state)
{
    (void)state;
    bide_job job = {0};
    open_beanstalkd_until_ok("connect_timeout=1s");
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    int waiting = server.fd;
    server.fd = first;
    bide_op put = put_of("x");
    submit(&put);
    expect_put();
    assert_int_equal(bide_close(server.queue), BIDE_OK);
    server.queue = NULL;
    completes(&reserve, BIDE_CLOSED);
    completes(&put, BIDE_EUNKNOWN);
    close(waiting);
}

static void error_text_of_a_list_is_that_of_its_first_failed_item(void **state)
{
    (void)state;
    bide_finish_item items[] = {{.id = 1, .token = 98},
                                {.id = 2, .token = 99, .keep = true, .retain_ms = 1000}};
    bide_op many = {.kind = BIDE_OP_FINISH_MANY,
                    .finish_many = {.items = items, .count = COUNT_OF(items)}};
    open_beanstalkd("");
    submit(&many);
    drain_until_completed(&many);
    assert_int_equal(many.status, BIDE_OK);
    assert_int_equal(items[0].status, BIDE_LEASE_LOST);
    assert_int_equal(items[1].status, BIDE_ENOTSUP);
    assert_int_equal(many.error_item, 1); /* counted from 1 */
    assert_memory_equal(many.error, "the lease", 9);
}

/* A client that reserved again on another connection would get the same job, for ever. */
static void reply_without_memory_fails_only_its_op(void **state)
{
    (void)state;
    static char body[300000];
    bide_job job = {0};
    open_beanstalkd(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    bide_op put = put_of("x");
    submit(&reserve);
    expect("watch t");
    expect("ignore default");
    expect("reserve-with-timeout 0");
    submit(&put);
    expect("use t");
    expect("put 1024 0 60 1");
    expect("x");

    realloc_max = 128 << 10;
    send_text("WATCHING 2\r\nWATCHING 1\r\nRESERVED 5 300000\r\n");
    send_bytes(body, sizeof(body));
    send_text("\r\nUSING t\r\nINSERTED 7\r\n");
    completes(&put, BIDE_OK);
    realloc_max = 0;
    completes(&reserve, BIDE_ENOMEM);
    assert_int_equal(put.put.id, 7);
    assert_true(stays_silent(20));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT(split_reply_is_reassembled),
        SCRIPT(error_replies_are_mapped_to_codes),
        SCRIPT(malformed_reply_closes_the_connection),
        SCRIPT(reply_without_memory_fails_only_its_op),
        SCRIPT(connection_releases_its_large_buffers),
        SCRIPT(sent_bytes_free_room_in_the_buffer),
        SCRIPT(tubes_that_are_not_valid_topics_are_skipped),
        SCRIPT(times_that_are_too_long_are_clamped),
        SCRIPT(completion_wakes_one_caller_at_the_pending_limit),
        SCRIPT(sent_write_without_reply_is_unknown),
        SCRIPT(unsent_items_are_sent_again),
        SCRIPT(items_that_cannot_be_resent_fail_individually),
        SCRIPT(unsent_list_fails_as_a_whole),
        SCRIPT(ops_submitted_while_disconnected_are_sent_on_reconnect),
        SCRIPT(call_without_server_fails_after_connect_timeout),
        SCRIPT(lost_connection_drops_its_leases),
        SCRIPT(delete_without_reply_is_unknown),
        SCRIPT(backoff_grows_when_connections_are_lost_before_a_reply),
        SCRIPT(answered_finish_is_not_resent_with_its_reserve),
        SCRIPT(answered_finish_is_done_although_its_reserve_fails),
        SCRIPT(answered_finish_is_done_although_the_queue_is_closed),
        SCRIPT(answered_kick_is_done_although_the_connection_breaks),
        SCRIPT(change_without_effect_may_be_resent),
        SCRIPT(repeated_page_of_topics_is_the_same),
        SCRIPT(waiting_reserve_uses_its_own_connection),
        SCRIPT(cancel_closes_the_connection_of_the_reserve),
        SCRIPT(sub_second_timeout_is_honoured),
        SCRIPT(reserve_without_server_times_out_with_reason),
        SCRIPT(reserve_fails_when_the_server_requires_a_secret),
        SCRIPT(reserve_is_resent_after_its_connection_broke),
        SCRIPT(resent_reserve_keeps_its_original_timeout),
        SCRIPT(call_without_a_reply_times_out),
        SCRIPT(finish_without_a_reply_is_unknown),
        SCRIPT(server_of_a_waiting_reserve_is_pinged),
        SCRIPT(job_without_memory_for_its_body_is_released),
        SCRIPT(reserve_survives_a_server_crash_before_it_waits),
        SCRIPT(sent_puts_are_not_resent_without_memory),
        SCRIPT(reserve_without_memory_to_wait_is_retried),
        SCRIPT(job_without_stats_is_skipped),
        SCRIPT(a_job_without_stats_is_not_reserved_by_its_id),
        SCRIPT(waiting_reserve_skips_a_job_without_stats),
        SCRIPT(close_cancels_waiting_reserves),
        SCRIPT(error_text_of_a_list_is_that_of_its_first_failed_item),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
