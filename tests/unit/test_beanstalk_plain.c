/* SPDX-License-Identifier: MIT */
/* The client of a beanstalkd whose connections break, and whose replies come in pieces or make no
 * sense. What a real one does is in tests/interop/plain.c. */
#define _GNU_SOURCE
#include "scripted.h"

static void open_plain(const char *parameters)
{
    assert_int_equal(open_client(parameters, hello_plain), BIDE_OK);
}

static void open_plain_impatient(const char *parameters)
{
    open_impatient(parameters, plain_answer, sizeof(plain_answer) - 1);
}

/* The job's figures, as stats-job gives them. */
static void say_stats(unsigned id, unsigned ttr)
{
    char yaml[300], reply[400];
    snprintf(yaml, sizeof(yaml),
             "---\nid: %u\ntube: t\nstate: reserved\npri: 3\nage: 0\ndelay: 0\nttr: %u\n"
             "time-left: %u\nfile: 0\nreserves: 1\ntimeouts: 0\nreleases: 0\nburies: 0\nkicks: 0\n",
             id, ttr, ttr);
    snprintf(reply, sizeof(reply), "OK %zu\r\n%s\r\n", strlen(yaml), yaml);
    say(reply);
}

/* A reserve that finds a job at once. */
static uint64_t hold(unsigned id, unsigned ttr)
{
    bide_job job = {0};
    char line[60];
    bide_op reserve = reserve_of(&job, 0);
    submit(&reserve);
    hear_line(line, sizeof(line));
    if (strcmp(line, "watch t") == 0) {
        say("WATCHING 2\r\n");
        expect("ignore default");
        say("WATCHING 1\r\n");
        hear_line(line, sizeof(line));
    }
    assert_string_equal(line, "reserve-with-timeout 0");
    snprintf(line, sizeof(line), "RESERVED %u 2\r\nhi\r\n", id);
    say(line);
    snprintf(line, sizeof(line), "stats-job %u", id);
    expect(line);
    say_stats(id, ttr);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, id);
    assert_int_equal(job.ttr_ms, ttr * 1000);
    uint64_t token = job.token;
    bide_job_clear(&job);
    return token;
}

static void hear_put(void)
{
    char line[60];
    hear_line(line, sizeof(line));
    if (strcmp(line, "use t") == 0) {
        say("USING t\r\n");
        hear_line(line, sizeof(line));
    }
    assert_string_equal(line, "put 1024 0 60 1");
    expect("x");
}

/* ---- replies ---- */

static void a_reply_in_pieces_is_put_together(void **state)
{
    (void)state;
    static const char reply[] = "FOUND 7 4\r\n\r\n\r\n\r\n";
    open_plain("");
    bide_op body = {.kind = BIDE_OP_BODY, .fetch = {.id = 7}};
    submit(&body);
    expect("peek 7");
    for (size_t i = 0; i < sizeof(reply) - 1; i++) {
        assert_int_equal(bide_cq_drain(server.cq, 0), 0);
        say_bytes(reply + i, 1);
    }
    completes(&body, BIDE_OK);
    assert_int_equal(bide_buf_size(body.fetch.buf), 4);
    assert_memory_equal(bide_buf_data(body.fetch.buf), "\r\n\r\n", 4);
    bide_buf_unref(body.fetch.buf);
}

static void what_the_server_complains_of_is_told(void **state)
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
    open_plain("");
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        bide_op put = put_of("x");
        submit(&put);
        hear_put();
        say(cases[i].reply);
        completes(&put, cases[i].code);
    }
}

static void whoever_speaks_another_language_loses_the_connection(void **state)
{
    (void)state;
    static const char *const nonsense[] = {
        "FOUND 7 2\r\nabcdef", "FOUND 7 99999999999999999999\r\n", "OK 18446744073709551615\r\n"};
    open_plain(QUICK);
    for (size_t i = 0; i < COUNT_OF(nonsense); i++) {
        bide_op body = {.kind = BIDE_OP_BODY, .fetch = {.id = 7}};
        submit(&body);
        expect("peek 7");
        say(nonsense[i]);
        expect_end();
        hello_plain();
        expect("peek 7");
        say("NOT_FOUND\r\n");
        completes(&body, BIDE_NOT_FOUND);
    }
    say("UNASKED\r\n");
    expect_end();
}

/* ---- connections that break ---- */

static void a_write_that_was_sent_and_not_answered_is_unknown(void **state)
{
    (void)state;
    open_plain(QUICK);
    bide_put_item items[2] = {{.topic = topic_t, .body = {"x", 1}},
                              {.topic = topic_t, .body = {"x", 1}}};
    bide_op put = put_of("x");
    bide_op many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}};
    submit(&put);
    hear_put();
    submit(&many);
    hear_put();
    hear_put();
    hang_up();
    completes(&put, BIDE_EUNKNOWN);
    assert_non_null(strstr(put.error, server.path));
    drain_until_completed(&many);
    assert_int_equal(items[0].status, BIDE_EUNKNOWN);
    assert_int_equal(items[1].status, BIDE_EUNKNOWN);
    assert_int_equal(many.put_many.accepted, 0);
}

static void what_was_submitted_without_a_connection_is_sent_when_there_is_one(void **state)
{
    (void)state;
    open_plain(QUICK);
    hang_up();
    stop_listening();
    bide_op put = put_of("x");
    submit(&put);
    listen_here();
    hello_plain();
    hear_put();
    say("INSERTED 12\r\n");
    completes(&put, BIDE_OK);
    assert_int_equal(put.put.id, 12);
}

static void without_a_server_a_call_fails_when_its_time_is_over(void **state)
{
    (void)state;
    open_plain_impatient("connect_timeout=100ms&" QUICK);
    hang_up();
    stop_listening();
    bide_op put = put_of("x");
    int64_t start = bi_clock_boot();
    submit(&put);
    completes(&put, BIDE_EIO);
    assert_true(bi_clock_boot() - start >= 100000);
    assert_non_null(strstr(put.error, server.path));
}

static void a_lost_connection_takes_its_leases_along(void **state)
{
    (void)state;
    open_plain(QUICK);
    uint64_t token = hold(5, 60);
    bide_op touch = {.kind = BIDE_OP_TOUCH, .touch = {.id = 5, .token = token}};
    submit(&touch);
    expect("touch 5");
    say("TOUCHED\r\n");
    completes(&touch, BIDE_OK);
    hang_up();
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    hello_plain();
    expect("list-tube-used");
    say("USING default\r\n");
    completes(&ping, BIDE_OK);
    bide_op lose = {.kind = BIDE_OP_DELETE, .lease = {5, token}};
    submit(&lose);
    completes(&lose, BIDE_LEASE_LOST);
    assert_true(nothing_comes(20));
}

static void a_delete_whose_answer_was_lost_is_unknown(void **state)
{
    (void)state;
    open_plain(QUICK);
    uint64_t token = hold(5, 60);
    bide_op finish = {.kind = BIDE_OP_DELETE, .lease = {5, token}};
    submit(&finish);
    expect("delete 5");
    hang_up();
    completes(&finish, BIDE_EUNKNOWN);
}

/* ---- reserves that wait ---- */

/* Nothing is ready, so that a reserve goes on to wait. */
static int begin_waiting(bide_op *reserve, const char *last)
{
    submit(reserve);
    expect("watch t");
    expect("ignore default");
    expect("reserve-with-timeout 0");
    say("WATCHING 2\r\nWATCHING 1\r\nTIMED_OUT\r\n");
    int first = server.fd;
    accept_one();
    expect("watch t");
    expect("ignore default");
    expect(last);
    say("WATCHING 2\r\nWATCHING 1\r\n");
    return first;
}

static void a_reserve_waits_on_a_connection_of_its_own_and_finishes_there(void **state)
{
    (void)state;
    bide_job job = {0};
    open_plain(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    say("RESERVED 9 2\r\nhi\r\n");
    expect("stats-job 9");
    say_stats(9, 60);
    completes(&reserve, BIDE_OK);
    bide_op finish = {.kind = BIDE_OP_DELETE, .lease = {9, job.token}};
    submit(&finish);
    expect("delete 9");
    say("DELETED\r\n");
    completes(&finish, BIDE_OK);
    bide_job_clear(&job);
    close(first);
}

/* There is no other word for it in this protocol. */
static void a_cancel_closes_the_connection_of_the_reserve(void **state)
{
    (void)state;
    bide_job job = {0};
    open_plain(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    completes(&reserve, BIDE_CANCELLED);
    expect_end();
    server.fd = first;
    bide_op put = put_of("x");
    submit(&put);
    hear_put();
    say("INSERTED 3\r\n");
    completes(&put, BIDE_OK);
}

static void times_that_are_not_whole_seconds_are_kept(void **state)
{
    (void)state;
    bide_job job = {0};
    open_plain(QUICK);
    bide_op reserve = reserve_of(&job, 990);
    int64_t start = bi_clock_boot();
    int first = begin_waiting(&reserve, "reserve-with-timeout 1");
    completes(&reserve, BIDE_TIMED_OUT);
    assert_true(bi_clock_boot() - start >= 990000);
    expect_end();
    close(first);
}

static void a_reserve_without_a_server_ends_in_its_time_and_says_so(void **state)
{
    (void)state;
    bide_job job = {0};
    open_plain(QUICK);
    bide_op reserve = reserve_of(&job, 200);
    int64_t start = bi_clock_boot();
    stop_listening();
    hang_up();
    submit(&reserve);
    completes(&reserve, BIDE_TIMED_OUT);
    assert_true(bi_clock_boot() - start >= 200000);
    assert_non_null(strstr(reserve.error, "reserve: no connection to "));
}

static void a_reserve_whose_connection_broke_is_asked_for_again(void **state)
{
    (void)state;
    bide_job job = {0};
    open_plain(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    hang_up();
    server.fd = first;
    server.size = 0;
    expect("reserve-with-timeout 0");
    say("RESERVED 4 0\r\n\r\n");
    expect("stats-job 4");
    say_stats(4, 60);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.id, 4);
    assert_int_equal(job.body_size, 0);
    bide_job_clear(&job);
}

static void a_close_gives_up_what_waits(void **state)
{
    (void)state;
    bide_job job = {0};
    open_plain_impatient("connect_timeout=1s");
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    int first = begin_waiting(&reserve, "reserve");
    int waiting = server.fd;
    server.fd = first;
    bide_op put = put_of("x");
    submit(&put);
    hear_put();
    assert_int_equal(bide_close(server.queue), BIDE_OK);
    server.queue = NULL;
    completes(&reserve, BIDE_CLOSED);
    completes(&put, BIDE_EUNKNOWN);
    close(waiting);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT(a_reply_in_pieces_is_put_together),
        SCRIPT(what_the_server_complains_of_is_told),
        SCRIPT(whoever_speaks_another_language_loses_the_connection),
        SCRIPT(a_write_that_was_sent_and_not_answered_is_unknown),
        SCRIPT(what_was_submitted_without_a_connection_is_sent_when_there_is_one),
        SCRIPT(without_a_server_a_call_fails_when_its_time_is_over),
        SCRIPT(a_lost_connection_takes_its_leases_along),
        SCRIPT(a_delete_whose_answer_was_lost_is_unknown),
        SCRIPT(a_reserve_waits_on_a_connection_of_its_own_and_finishes_there),
        SCRIPT(a_cancel_closes_the_connection_of_the_reserve),
        SCRIPT(times_that_are_not_whole_seconds_are_kept),
        SCRIPT(a_reserve_without_a_server_ends_in_its_time_and_says_so),
        SCRIPT(a_reserve_whose_connection_broke_is_asked_for_again),
        SCRIPT(a_close_gives_up_what_waits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
