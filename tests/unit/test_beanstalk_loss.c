/* SPDX-License-Identifier: MIT */
/* The client of a bided whose connections break, or that says nothing. */
#define _GNU_SOURCE
#include "scripted.h"

/* ---- silence ---- */

#define IMPATIENT QUICK "&answer_timeout=20ms"

static void a_server_that_lets_a_call_wait_is_asked_whether_it_is_there(void **state)
{
    (void)state;
    struct heard heard;
    struct heard ping;
    open_tagged(IMPATIENT);
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = 7, .timeout_ms = BIDE_FOREVER}};
    submit(&wait);
    hear_call(&heard, BIDE_OP_WAIT);
    for (int i = 0; i < 5; i++) {
        hear_call(&ping, BIDE_OP_PING);
        answer(&ping, BIDE_OK);
    }
    heard.call.op.wait.state = BIDE_STATE_GONE;
    answer(&heard, BIDE_OK);
    completes(&wait, BIDE_OK);
    assert_true(nothing_comes(100)); /* nobody waits for an answer */
}

static void a_server_that_answers_no_ping_is_given_up(void **state)
{
    (void)state;
    struct heard heard;
    struct heard ping;
    open_tagged(IMPATIENT);
    bide_op put = put_of("x");
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = 7, .timeout_ms = BIDE_FOREVER}};
    submit(&put);
    submit(&wait);
    hear_call(&heard, BIDE_OP_PUT);
    bi_call_done(&heard.call);
    hear_call(&heard, BIDE_OP_WAIT);
    bi_call_done(&heard.call);
    hear_call(&ping, BIDE_OP_PING);
    bi_call_done(&ping.call);
    expect_end();
    completes(&put, BIDE_EUNKNOWN);
    hello_tagged();
    hear_call(&heard, BIDE_OP_WAIT); /* what waits goes on waiting */
    heard.call.op.wait.state = BIDE_STATE_GONE;
    answer(&heard, BIDE_OK);
    completes(&wait, BIDE_OK);
}

enum { SHUT = 5 };

/* Shuts the queue down while SHUT reserves wait at the server. */
static void shut_down_waiting(bide_op *reserves, struct heard *heard)
{
    static bide_job jobs[SHUT];
    char line[60];
    open_tagged("connect_timeout=2s&" QUICK);
    for (int i = 0; i < SHUT; i++) {
        reserves[i] = reserve_of(&jobs[i], BIDE_FOREVER);
        submit(&reserves[i]);
        hear_call(&heard[i], BIDE_OP_RESERVE);
    }
    assert_int_equal(bide_shutdown(server.queue), BIDE_OK);
    for (int i = 0; i < SHUT; i++) {
        snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)heard[i].tag);
        expect(line);
    }
}

static void a_server_that_ends_what_waits_little_by_little_is_not_given_up(void **state)
{
    (void)state;
    bide_op reserves[SHUT];
    struct heard heard[SHUT];
    shut_down_waiting(reserves, heard);
    for (int i = 0; i < SHUT; i++) {
        assert_true(nothing_comes(700));
        answer(&heard[i], BIDE_CANCELLED);
        completes(&reserves[i], BIDE_CLOSED);
    }
}

static void a_server_that_ends_nothing_is_given_up(void **state)
{
    (void)state;
    bide_op reserves[SHUT];
    struct heard heard[SHUT];
    shut_down_waiting(reserves, heard);
    expect_end();
    for (int i = 0; i < SHUT; i++) {
        bi_call_done(&heard[i].call);
        completes(&reserves[i], BIDE_CLOSED);
    }
}

/* ---- connections that break ---- */

static void a_write_that_was_sent_and_not_answered_is_unknown(void **state)
{
    (void)state;
    struct heard heard;
    open_tagged(QUICK);
    bide_put_item items[2] = {{.topic = topic_t, .body = {"a", 1}}, {.topic = topic_t}};
    bide_op put = put_of("x");
    bide_op many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}};
    submit(&put);
    submit(&many);
    hear_call(&heard, BIDE_OP_PUT);
    bi_call_done(&heard.call);
    hear_call(&heard, BIDE_OP_PUT_MANY);
    bi_call_done(&heard.call);
    hang_up();
    completes(&put, BIDE_EUNKNOWN);
    assert_non_null(strstr(put.error, server.path));
    completes(&many, BIDE_EUNKNOWN);
    assert_int_equal(items[0].status, BIDE_EUNKNOWN);
    assert_int_equal(items[1].status, BIDE_EUNKNOWN);
}

/* The body does not fit the socket, so that it cannot have been sent. */
static void a_write_that_was_not_sent_completely_is_sent_again(void **state)
{
    (void)state;
    enum { SIZE = 4 << 20 };
    char *body = calloc(1, SIZE);
    char line[100];
    size_t size;
    unsigned long long tag;
    assert_non_null(body);
    open_tagged(QUICK);
    bide_op put = {.kind = BIDE_OP_PUT, .put = {.topic = topic_t, .body = {body, SIZE}}};
    submit(&put);
    free(body);
    hear_line(line, sizeof(line));
    hang_up();
    hello_tagged();
    hear_line(line, sizeof(line));
    assert_int_equal(sscanf(line, "call %llu put %zu", &tag, &size), 2);
    assert_true(size > SIZE);
    for (size_t left = size + 2; left > 0;) {
        read_until(1);
        assert_true(server.size <= left);
        left -= server.size;
        server.size = 0;
    }
    snprintf(line, sizeof(line), "ANSWER %llu %d 0\r\n\r\n", tag, BIDE_DRAINING);
    say(line);
    completes(&put, BIDE_DRAINING);
}

static void what_was_submitted_without_a_connection_is_sent_when_there_is_one(void **state)
{
    (void)state;
    struct heard heard;
    open_tagged(QUICK);
    hang_up();
    stop_listening();
    bide_op puts[3];
    for (size_t i = 0; i < COUNT_OF(puts); i++) {
        puts[i] = put_of("x");
        submit(&puts[i]);
    }
    listen_here();
    hello_tagged();
    for (size_t i = 0; i < COUNT_OF(puts); i++) {
        hear_call(&heard, BIDE_OP_PUT);
        heard.call.op.put.id = i + 1;
        answer(&heard, BIDE_OK);
    }
    for (size_t i = 0; i < COUNT_OF(puts); i++) {
        completes(&puts[i], BIDE_OK);
        assert_int_equal(puts[i].put.id, i + 1);
    }
}

static void a_reserve_is_asked_for_again_and_may_then_succeed(void **state)
{
    (void)state;
    struct heard heard;
    bide_job job = {0};
    open_tagged(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    for (int i = 0; i < 8; i++) {
        hear_call(&heard, BIDE_OP_RESERVE);
        assert_int_equal(heard.call.op.reserve.timeout_ms, BIDE_FOREVER);
        bi_call_done(&heard.call);
        hang_up();
        hello_tagged();
    }
    hear_call(&heard, BIDE_OP_RESERVE);
    heard.call.op.reserve.jobs[0] =
        (bide_job){.id = 5, .token = 6, .state = BIDE_STATE_RESERVED, .topic = "t"};
    heard.call.op.reserve.count = 1;
    answer(&heard, BIDE_OK);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 5);
    assert_int_equal(job.token, 6);
    bide_job_clear(&job);
}

static void a_look_is_not_asked_for_again_for_ever(void **state)
{
    (void)state;
    struct heard heard;
    bide_stats stats;
    open_tagged(QUICK);
    bide_op look = {.kind = BIDE_OP_STATS, .stats = {&stats}};
    submit(&look);
    int asked = 0;
    for (; asked < 20 && look.status == BIDE_PENDING; asked++) {
        if (asked > 0)
            hello_tagged();
        hear_call(&heard, BIDE_OP_STATS);
        bi_call_done(&heard.call);
        hang_up();
        for (int i = 0; i < 1000 && look.status == BIDE_PENDING; i++) {
            if (readable(server.listening, 1))
                break;
            assert_true(bide_cq_drain(server.cq, 0) >= 0);
        }
    }
    completes(&look, BIDE_EIO);
    assert_in_range(asked, 3, 19);
}

/* ---- time ---- */

static void without_a_server_a_call_fails_when_its_time_is_over(void **state)
{
    (void)state;
    open_tagged_impatient("connect_timeout=100ms&" QUICK);
    hang_up();
    stop_listening();
    bide_op put = put_of("x");
    int64_t start = bi_clock_boot();
    submit(&put);
    completes(&put, BIDE_EIO);
    assert_true(bi_clock_boot() - start >= 100000);
    assert_non_null(strstr(put.error, server.path));
    assert_non_null(strstr(put.error, "put: "));
}

static void a_reserve_without_a_server_waits_for_its_own_time(void **state)
{
    (void)state;
    bide_job job = {0};
    open_tagged_impatient("connect_timeout=10ms&" QUICK);
    bide_op reserve = reserve_of(&job, 1000);
    int64_t start = bi_clock_boot();
    submit(&reserve);
    hang_up();
    stop_listening();
    completes(&reserve, BIDE_TIMED_OUT);
    assert_non_null(strstr(reserve.error, "reserve: no connection to "));
    assert_true(bi_clock_boot() - start >= 1000000);
}

/* The second server begins to count anew; the client does not. */
static void a_reserve_that_was_asked_again_ends_in_its_own_time(void **state)
{
    (void)state;
    struct heard heard;
    bide_job job = {0};
    char line[60];
    open_tagged(QUICK);
    bide_op reserve = reserve_of(&job, 1500);
    int64_t start = bi_clock_boot();
    submit(&reserve);
    hear_call(&heard, BIDE_OP_RESERVE);
    bi_call_done(&heard.call);
    hang_up();
    hello_tagged();
    hear_call(&heard, BIDE_OP_RESERVE);
    snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)heard.tag);
    expect(line);
    assert_true(bi_clock_boot() - start >= 1500000);
    answer(&heard, BIDE_CANCELLED);
    completes(&reserve, BIDE_TIMED_OUT);
}

/* Each pause is at least twice as long as the first of the one before, until the longest. */
static void the_pauses_between_attempts_grow_up_to_a_limit(void **state)
{
    (void)state;
    int64_t before = 0, wanted = 20000;
    open_tagged("connect_timeout=1m&reconnect_min=20ms&reconnect_max=100ms");
    hang_up();
    bide_op put = put_of("x");
    submit(&put);
    for (int i = 0; i < 6; i++) {
        accept_one();
        int64_t now = bi_clock_boot();
        hang_up();
        if (before != 0)
            assert_true(now - before >= wanted);
        if (before != 0)
            wanted = wanted * 2 < 100000 ? wanted * 2 : 100000;
        before = now;
    }
    struct heard heard;
    hello_tagged();
    hear_call(&heard, BIDE_OP_PUT);
    answer(&heard, BIDE_DRAINING);
    completes(&put, BIDE_DRAINING);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT(a_server_that_lets_a_call_wait_is_asked_whether_it_is_there),
        SCRIPT(a_server_that_answers_no_ping_is_given_up),
        SCRIPT(a_server_that_ends_what_waits_little_by_little_is_not_given_up),
        SCRIPT(a_server_that_ends_nothing_is_given_up),
        SCRIPT(a_write_that_was_sent_and_not_answered_is_unknown),
        SCRIPT(a_write_that_was_not_sent_completely_is_sent_again),
        SCRIPT(what_was_submitted_without_a_connection_is_sent_when_there_is_one),
        SCRIPT(a_reserve_is_asked_for_again_and_may_then_succeed),
        SCRIPT(a_look_is_not_asked_for_again_for_ever),
        SCRIPT(without_a_server_a_call_fails_when_its_time_is_over),
        SCRIPT(a_reserve_without_a_server_waits_for_its_own_time),
        SCRIPT(a_reserve_that_was_asked_again_ends_in_its_own_time),
        SCRIPT(the_pauses_between_attempts_grow_up_to_a_limit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
