/* SPDX-License-Identifier: MIT */
/* The client of a bided whose connections break, or that says nothing. */
#define _GNU_SOURCE
#include "fake_server.h"

#include <signal.h>
#include <sys/wait.h>

/* ---- silence ---- */

#define SHORT_TIMEOUT QUICK "&answer_timeout=20ms"

static void server_of_a_waiting_call_is_pinged(void **state)
{
    (void)state;
    struct received_call received_call;
    struct received_call ping;
    open_bided(SHORT_TIMEOUT);
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = 7, .timeout_ms = BIDE_FOREVER}};
    submit(&wait);
    receive_call(&received_call, BIDE_OP_WAIT);
    for (int i = 0; i < 5; i++) {
        receive_call(&ping, BIDE_OP_PING);
        reply(&ping, BIDE_OK);
    }
    received_call.call.op.wait.state = BIDE_STATE_GONE;
    reply(&received_call, BIDE_OK);
    completes(&wait, BIDE_OK);
    assert_true(stays_silent(100)); /* no call waits for a reply */
}

static void server_that_answers_no_ping_is_disconnected(void **state)
{
    (void)state;
    struct received_call received_call;
    struct received_call ping;
    open_bided(SHORT_TIMEOUT);
    bide_op put = put_of("x");
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = 7, .timeout_ms = BIDE_FOREVER}};
    submit(&put);
    submit(&wait);
    receive_call(&received_call, BIDE_OP_PUT);
    bi_op_codec_free_op(&received_call.call);
    receive_call(&received_call, BIDE_OP_WAIT);
    bi_op_codec_free_op(&received_call.call);
    receive_call(&ping, BIDE_OP_PING);
    bi_op_codec_free_op(&ping.call);
    expect_end();
    completes(&put, BIDE_EUNKNOWN);
    handshake_bided();
    receive_call(&received_call, BIDE_OP_WAIT); /* what waits goes on waiting */
    received_call.call.op.wait.state = BIDE_STATE_GONE;
    reply(&received_call, BIDE_OK);
    completes(&wait, BIDE_OK);
}

/* A part of a long reply is a sign of life; the reply to the ping is behind it. If nothing follows,
 * the client waits for the reply to that ping, and for no other. */
static void ping_without_reply_is_not_repeated(void **state)
{
    (void)state;
    struct received_call received_call;
    struct received_call ping;
    char more[100];
    open_bided(QUICK "&answer_timeout=200ms");
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = 7, .timeout_ms = BIDE_FOREVER}};
    submit(&wait);
    receive_call(&received_call, BIDE_OP_WAIT);
    bi_op_codec_free_op(&received_call.call);
    receive_call(&ping, BIDE_OP_PING);
    bi_op_codec_free_op(&ping.call);
    /* The client may have closed the connection, if this thread is late. */
    send(server.fd, "ANSWER", 6, MSG_NOSIGNAL);
    assert_true(readable(server.fd, PATIENCE_MS));
    assert_int_equal(recv(server.fd, more, sizeof(more), 0), 0);
    close_connection();

    handshake_bided();
    receive_call(&received_call, BIDE_OP_WAIT);
    received_call.call.op.wait.state = BIDE_STATE_GONE;
    reply(&received_call, BIDE_OK);
    completes(&wait, BIDE_OK);
}

enum { SHUT = 5 };

/* Shuts the queue down while SHUT reserves wait at the server. */
static void shut_down_with_waiting_reserves(bide_op *reserves, struct received_call *received_call)
{
    static bide_job jobs[SHUT];
    char line[60];
    open_bided("connect_timeout=2s&" QUICK);
    for (int i = 0; i < SHUT; i++) {
        reserves[i] = reserve_of(&jobs[i], BIDE_FOREVER);
        submit(&reserves[i]);
        receive_call(&received_call[i], BIDE_OP_RESERVE);
    }
    assert_int_equal(bide_shutdown(server.queue), BIDE_OK);
    for (int i = 0; i < SHUT; i++) {
        snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)received_call[i].tag);
        expect(line);
    }
}

static void slow_cancellation_keeps_the_connection(void **state)
{
    (void)state;
    bide_op reserves[SHUT];
    struct received_call received_call[SHUT];
    shut_down_with_waiting_reserves(reserves, received_call);
    for (int i = 0; i < SHUT; i++) {
        assert_true(stays_silent(700));
        reply(&received_call[i], BIDE_CANCELLED);
        completes(&reserves[i], BIDE_CLOSED);
    }
}

static void unanswered_cancellation_closes_the_connection(void **state)
{
    (void)state;
    bide_op reserves[SHUT];
    struct received_call received_call[SHUT];
    shut_down_with_waiting_reserves(reserves, received_call);
    expect_end();
    for (int i = 0; i < SHUT; i++) {
        bi_op_codec_free_op(&received_call[i].call);
        completes(&reserves[i], BIDE_CLOSED);
    }
}

/* ---- a forked child ---- */

/* A child that has copies of all descriptors, and does nothing. */
static pid_t fork_child(void)
{
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        for (;;)
            pause();
    return child;
}

static void end_child(pid_t child)
{
    assert_int_equal(kill(child, SIGKILL), 0);
    assert_int_equal(waitpid(child, NULL, 0), child);
}

static void close_ends_a_connection_that_a_child_has(void **state)
{
    (void)state;
    open_bided(QUICK);
    pid_t child = fork_child();
    assert_int_equal(bide_close(server.queue), BIDE_OK);
    server.queue = NULL;
    bool ended = readable(server.fd, PATIENCE_MS);
    end_child(child);
    assert_true(ended);
    expect_end();
}

/* Otherwise the reserve would wait twice at the server, and the child would be sent a job. */
static void reconnect_ends_a_connection_that_a_child_has(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_job job = {0};
    char more[100];
    open_bided(SHORT_TIMEOUT);
    pid_t child = fork_child();
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    receive_call(&received_call, BIDE_OP_RESERVE);
    bi_op_codec_free_op(&received_call.call);
    receive_call(&received_call, BIDE_OP_PING);
    bi_op_codec_free_op(&received_call.call);
    bool ended =
        readable(server.fd, PATIENCE_MS) && recv(server.fd, more, sizeof(more), MSG_DONTWAIT) == 0;
    end_child(child);
    assert_true(ended);
    close_connection();
    handshake_bided();
    receive_call(&received_call, BIDE_OP_RESERVE);
    reply(&received_call, BIDE_TIMED_OUT);
    completes(&reserve, BIDE_TIMED_OUT);
}

/* ---- connections that break ---- */

static void sent_write_without_response_is_unknown(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided(QUICK);
    bide_put_item items[2] = {{.topic = topic_t, .body = {"a", 1}}, {.topic = topic_t}};
    bide_op put = put_of("x");
    bide_op many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}};
    bide_put_item next = {.topic = topic_t, .body = {"b", 1}};
    bide_op step = {.kind = BIDE_OP_FINISH_AND_PUT};
    step.finish_and_put =
        (bide_finish_and_put_args){.finish = {.id = 1, .token = 2}, .items = &next, .count = 1};
    submit(&put);
    submit(&many);
    submit(&step);
    receive_call(&received_call, BIDE_OP_PUT);
    bi_op_codec_free_op(&received_call.call);
    receive_call(&received_call, BIDE_OP_PUT_MANY);
    bi_op_codec_free_op(&received_call.call);
    receive_call(&received_call, BIDE_OP_FINISH_AND_PUT);
    bi_op_codec_free_op(&received_call.call);
    close_connection();
    completes(&put, BIDE_EUNKNOWN);
    assert_non_null(strstr(put.error, server.path));
    completes(&many, BIDE_EUNKNOWN);
    assert_int_equal(items[0].status, BIDE_EUNKNOWN);
    assert_int_equal(items[1].status, BIDE_EUNKNOWN);
    completes(&step, BIDE_EUNKNOWN); /* and is not sent again */
    assert_int_equal(next.status, BIDE_EUNKNOWN);
}

/* The body does not fit the socket, so that it cannot have been sent. */
static void partly_sent_write_is_resent(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20 };
    char *body = calloc(1, SIZE);
    char line[100];
    size_t size;
    unsigned long long tag;
    assert_non_null(body);
    open_bided(QUICK);
    bide_op put = {.kind = BIDE_OP_PUT, .put = {.topic = topic_t, .body = {body, SIZE}}};
    submit(&put);
    free(body);
    read_line(line, sizeof(line));
    close_connection();
    handshake_bided();
    read_line(line, sizeof(line));
    assert_int_equal(sscanf(line, "call %llu put %zu", &tag, &size), 2);
    assert_true(size > SIZE);
    for (size_t left = size + 2; left > 0;) {
        read_until(1);
        assert_true(server.size <= left);
        left -= server.size;
        server.size = 0;
    }
    snprintf(line, sizeof(line), "ANSWER %llu %d 0\r\n\r\n", tag, BIDE_DRAINING);
    send_text(line);
    completes(&put, BIDE_DRAINING);
}

static void ops_submitted_while_disconnected_are_sent_on_reconnect(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided(QUICK);
    close_connection();
    stop_listening();
    bide_op puts[3];
    for (size_t i = 0; i < COUNT_OF(puts); i++) {
        puts[i] = put_of("x");
        submit(&puts[i]);
    }
    listen_here();
    handshake_bided();
    for (size_t i = 0; i < COUNT_OF(puts); i++) {
        receive_call(&received_call, BIDE_OP_PUT);
        received_call.call.op.put.id = i + 1;
        reply(&received_call, BIDE_OK);
    }
    for (size_t i = 0; i < COUNT_OF(puts); i++) {
        completes(&puts[i], BIDE_OK);
        assert_int_equal(puts[i].put.id, i + 1);
    }
}

static void reserve_is_resent_after_reconnect(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_job job = {0};
    open_bided(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    for (int i = 0; i < 8; i++) {
        receive_call(&received_call, BIDE_OP_RESERVE);
        assert_int_equal(received_call.call.op.reserve.timeout_ms, BIDE_FOREVER);
        bi_op_codec_free_op(&received_call.call);
        close_connection();
        handshake_bided();
    }
    receive_call(&received_call, BIDE_OP_RESERVE);
    received_call.call.op.reserve.jobs[0] =
        (bide_job){.id = 5, .token = 6, .state = BIDE_STATE_RESERVED, .topic = "t"};
    received_call.call.op.reserve.count = 1;
    reply(&received_call, BIDE_OK);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 5);
    assert_int_equal(job.token, 6);
    bide_job_clear(&job);
}

static void query_is_resent_a_bounded_number_of_times(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_stats stats;
    open_bided(QUICK);
    bide_op look = {.kind = BIDE_OP_STATS, .stats = {&stats}};
    submit(&look);
    int attempts = 0;
    for (; attempts < 20 && look.status == BIDE_PENDING; attempts++) {
        if (attempts > 0)
            handshake_bided();
        receive_call(&received_call, BIDE_OP_STATS);
        bi_op_codec_free_op(&received_call.call);
        close_connection();
        for (int i = 0; i < 1000 && look.status == BIDE_PENDING; i++) {
            if (readable(server.listening, 1))
                break;
            assert_true(bide_cq_drain(server.cq, 0) >= 0);
        }
    }
    completes(&look, BIDE_EIO);
    assert_in_range(attempts, 3, 19);
}

/* ---- time ---- */

static void call_without_server_fails_after_connect_timeout(void **state)
{
    (void)state;
    open_bided_until_ok("connect_timeout=100ms&" QUICK);
    close_connection();
    stop_listening();
    bide_op put = put_of("x");
    int64_t start = bi_clock_boot();
    submit(&put);
    completes(&put, BIDE_EIO);
    assert_true(bi_clock_boot() - start >= 100000);
    assert_non_null(strstr(put.error, server.path));
    assert_non_null(strstr(put.error, "put: "));
}

static void reserve_without_server_times_out_on_its_own_timeout(void **state)
{
    (void)state;
    bide_job job = {0};
    open_bided_until_ok("connect_timeout=10ms&" QUICK);
    bide_op reserve = reserve_of(&job, 1000);
    int64_t start = bi_clock_boot();
    submit(&reserve);
    close_connection();
    stop_listening();
    completes(&reserve, BIDE_TIMED_OUT);
    assert_non_null(strstr(reserve.error, "reserve: no connection to "));
    assert_true(bi_clock_boot() - start >= 1000000);
}

/* The second server begins to count anew; the client does not. */
static void resent_reserve_keeps_its_original_timeout(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_job job = {0};
    char line[60];
    open_bided(QUICK);
    bide_op reserve = reserve_of(&job, 1500);
    int64_t start = bi_clock_boot();
    submit(&reserve);
    receive_call(&received_call, BIDE_OP_RESERVE);
    bi_op_codec_free_op(&received_call.call);
    close_connection();
    handshake_bided();
    receive_call(&received_call, BIDE_OP_RESERVE);
    snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)received_call.tag);
    expect(line);
    assert_true(bi_clock_boot() - start >= 1500000);
    reply(&received_call, BIDE_CANCELLED);
    completes(&reserve, BIDE_TIMED_OUT);
}

/* Each pause is at least twice as long as the first of the one before, up to two thirds of the
 * longest. */
static void reconnect_delay_grows_up_to_the_maximum(void **state)
{
    (void)state;
    int64_t before = 0, wanted = 20000;
    open_bided("connect_timeout=1m&reconnect_min=20ms&reconnect_max=100ms");
    close_connection();
    bide_op put = put_of("x");
    submit(&put);
    for (int i = 0; i < 6; i++) {
        accept_one();
        int64_t now = bi_clock_boot();
        close_connection();
        if (before != 0)
            assert_true(now - before >= wanted);
        if (before != 0)
            wanted = wanted * 2 < 66666 ? wanted * 2 : 66666;
        before = now;
    }
    struct received_call received_call;
    handshake_bided();
    receive_call(&received_call, BIDE_OP_PUT);
    reply(&received_call, BIDE_DRAINING);
    completes(&put, BIDE_DRAINING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT(server_of_a_waiting_call_is_pinged),
        SCRIPT(server_that_answers_no_ping_is_disconnected),
        SCRIPT(ping_without_reply_is_not_repeated),
        SCRIPT(slow_cancellation_keeps_the_connection),
        SCRIPT(unanswered_cancellation_closes_the_connection),
        SCRIPT(close_ends_a_connection_that_a_child_has),
        SCRIPT(reconnect_ends_a_connection_that_a_child_has),
        SCRIPT(sent_write_without_response_is_unknown),
        SCRIPT(partly_sent_write_is_resent),
        SCRIPT(ops_submitted_while_disconnected_are_sent_on_reconnect),
        SCRIPT(reserve_is_resent_after_reconnect),
        SCRIPT(query_is_resent_a_bounded_number_of_times),
        SCRIPT(call_without_server_fails_after_connect_timeout),
        SCRIPT(reserve_without_server_times_out_on_its_own_timeout),
        SCRIPT(resent_reserve_keeps_its_original_timeout),
        SCRIPT(reconnect_delay_grows_up_to_the_maximum),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
