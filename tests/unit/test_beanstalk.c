/* SPDX-License-Identifier: MIT */
/* The client of a bided: its answers, what is given up, feeds, limits, and how it is opened. */
#define _GNU_SOURCE
#include "scripted.h"

/* ---- answers ---- */

static void an_answer_in_pieces_is_put_together(void **state)
{
    (void)state;
    struct heard heard;
    open_tagged("");
    bide_op put = put_of("hello");
    submit(&put);
    hear_call(&heard, BIDE_OP_PUT);
    assert_int_equal(heard.call.op.put.body.size, 5);
    assert_memory_equal(heard.call.op.put.body.data, "hello", 5);
    heard.call.op.put.id = 77;
    struct call_bytes all = answer_of(&heard, BIDE_OK);
    for (size_t i = 0; i < all.size; i++) {
        assert_int_equal(bide_cq_drain(server.cq, 0), 0);
        say_bytes(all.data + i, 1);
    }
    bi_call_bytes_free(&all);
    completes(&put, BIDE_OK);
    assert_int_equal(put.put.id, 77);
}

static void answers_in_any_order_find_their_ops(void **state)
{
    (void)state;
    enum { OPS = 5 };
    struct heard heard[OPS];
    bide_op puts[OPS];
    bide_op *list[OPS];
    open_tagged("");
    for (size_t i = 0; i < OPS; i++) {
        puts[i] = put_of("x");
        puts[i].cq = server.cq;
        list[i] = &puts[i];
    }
    assert_int_equal(bide_submit(server.queue, list, OPS), OPS);
    for (size_t i = 0; i < OPS; i++) {
        hear_call(&heard[i], BIDE_OP_PUT);
        heard[i].call.op.put.id = i + 1;
    }
    static const size_t order[OPS] = {3, 0, 4, 2, 1};
    for (size_t i = 0; i < OPS; i++)
        answer(&heard[order[i]], BIDE_OK);
    for (size_t i = 0; i < OPS; i++) {
        completes(&puts[i], BIDE_OK);
        assert_int_equal(puts[i].put.id, i + 1);
    }
}

static void a_code_and_its_sentence_come_over(void **state)
{
    (void)state;
    struct heard heard;
    open_tagged("");
    bide_op put = put_of("x");
    submit(&put);
    hear_call(&heard, BIDE_OP_PUT);
    snprintf(heard.call.op.error, sizeof(heard.call.op.error), "put: no more of that");
    answer(&heard, BIDE_TOPIC_FULL);
    completes(&put, BIDE_TOPIC_FULL);
    assert_string_equal(put.error, "put: no more of that");
}

/* A result that cannot be read: a look fails, a write may have happened. */
static void an_answer_that_makes_no_sense_fails_its_op_only(void **state)
{
    (void)state;
    struct heard heard;
    bide_stats stats;
    open_tagged("");
    bide_op put = put_of("x");
    bide_op look = {.kind = BIDE_OP_STATS, .stats = {&stats}};
    submit(&put);
    submit(&look);
    for (int i = 0; i < 2; i++) {
        char line[100];
        hear_call(&heard, i == 0 ? BIDE_OP_PUT : BIDE_OP_STATS);
        bi_call_done(&heard.call);
        snprintf(line, sizeof(line), "ANSWER %llu 0 3\r\n\xff\xff\xff\r\n",
                 (unsigned long long)heard.tag);
        say(line);
    }
    completes(&put, BIDE_EUNKNOWN);
    completes(&look, BIDE_EIO);
    assert_non_null(strstr(look.error, server.path));
    bide_op again = put_of("y");
    submit(&again);
    hear_call(&heard, BIDE_OP_PUT);
    answer(&heard, BIDE_DRAINING);
    completes(&again, BIDE_DRAINING);
}

static const char *const nonsense[] = {
    "NONSENSE\r\n",
    "ANSWER 1 0\r\n",
    "ANSWER 1 0 x\r\n",
    "ANSWER 1 0 0\r\nxx",
    "ANSWER 99 0 0\r\n\r\n",
    "ANSWER 0 0 0\r\n\r\n",
    "ANSWER -1 0 0\r\n\r\n",
    "ANSWER 1 9999 0\r\n",
    "HTTP/1.1 400 Bad Request\r\n",
    "ANSWER 1 0 9000000000\r\n",
};

/* The look is asked again on another connection; the write is not. */
static void whoever_speaks_another_language_loses_the_connection(void **state)
{
    (void)state;
    open_tagged(QUICK);
    for (size_t i = 0; i < COUNT_OF(nonsense); i++) {
        struct heard heard;
        bide_stats stats;
        bide_op put = put_of("x");
        bide_op look = {.kind = BIDE_OP_STATS, .stats = {&stats}};
        submit(&put);
        hear_call(&heard, BIDE_OP_PUT);
        bi_call_done(&heard.call);
        submit(&look);
        hear_call(&heard, BIDE_OP_STATS);
        bi_call_done(&heard.call);
        say(nonsense[i]);
        expect_end();
        completes(&put, BIDE_EUNKNOWN);
        hello_tagged();
        hear_call(&heard, BIDE_OP_STATS);
        *heard.call.op.stats.stats = (bide_stats){.topics = i};
        answer(&heard, BIDE_OK);
        completes(&look, BIDE_OK);
        assert_int_equal(stats.topics, i);
    }
}

/* An answer's line has fewer than 128 bytes. The first piece is shorter, and waited on; behind the
 * second nothing can be said, because the client may have hung up. */
static void a_line_without_end_is_not_kept(void **state)
{
    (void)state;
    char line[280];
    open_tagged(QUICK);
    for (size_t i = 0; i < sizeof(line); i += 7)
        memcpy(line + i, "ANSWER ", 7);
    say_bytes(line, 98);
    say_bytes(line + 98, sizeof(line) - 98);
    expect_end();
}

/* ---- giving up ---- */

static void a_cancel_is_told_to_the_server(void **state)
{
    (void)state;
    struct heard heard;
    bide_job job = {0};
    char line[60];
    open_tagged(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    hear_call(&heard, BIDE_OP_RESERVE);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)heard.tag);
    expect(line);
    assert_true(nothing_comes(20));
    answer(&heard, BIDE_CANCELLED);
    completes(&reserve, BIDE_CANCELLED);
}

static void a_cancel_without_a_connection_ends_the_op_at_once(void **state)
{
    (void)state;
    bide_job job = {0};
    open_tagged(QUICK);
    hang_up();
    stop_listening();
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    bide_op put = put_of("x");
    submit(&reserve);
    submit(&put);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    assert_int_equal(bide_cancel_op(server.queue, &put), BIDE_OK);
    completes(&reserve, BIDE_CANCELLED);
    completes(&put, BIDE_CANCELLED);
}

static void a_cancelled_op_is_not_asked_for_again(void **state)
{
    (void)state;
    struct heard heard;
    bide_job job = {0};
    open_tagged(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    hear_call(&heard, BIDE_OP_RESERVE);
    bi_call_done(&heard.call);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    hang_up();
    completes(&reserve, BIDE_CANCELLED);
}

static void a_shutdown_gives_up_what_waits_and_lets_the_rest_be_done(void **state)
{
    (void)state;
    struct heard heard;
    bide_job job = {0}, next = {0};
    char line[60];
    open_tagged(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    hear_call(&heard, BIDE_OP_RESERVE);
    assert_int_equal(bide_shutdown(server.queue), BIDE_OK);
    snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)heard.tag);
    expect(line);
    answer(&heard, BIDE_CANCELLED);
    completes(&reserve, BIDE_CLOSED);

    bide_op *list[] = {&reserve};
    assert_int_equal(bide_submit(server.queue, list, 1), 0);
    assert_int_equal(reserve.status, BIDE_CLOSED);
    bide_op both = {.kind = BIDE_OP_FINISH_AND_RESERVE};
    both.finish_and_reserve.finish = (bide_finish_item){.id = 4, .token = 5};
    both.finish_and_reserve.reserve = reserve_of(&next, BIDE_FOREVER).reserve;
    submit(&both);
    hear_call(&heard, BIDE_OP_FINISH_MANY);
    assert_int_equal(heard.call.op.finish_many.count, 1);
    assert_int_equal(heard.call.op.finish_many.items[0].id, 4);
    heard.call.op.finish_many.items[0].status = BIDE_LEASE_LOST;
    answer(&heard, BIDE_OK);
    completes(&both, BIDE_CLOSED);
    assert_int_equal(both.finish_and_reserve.finish.status, BIDE_LEASE_LOST);
}

static void a_close_does_not_wait_for_ever_for_a_silent_server(void **state)
{
    (void)state;
    bide_job job = {0};
    open_tagged_impatient("connect_timeout=200ms&" QUICK);
    bide_op put = put_of("x");
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&put);
    submit(&reserve);
    int64_t start = bi_clock_boot();
    assert_int_equal(bide_close(server.queue), BIDE_OK);
    server.queue = NULL;
    assert_true(bi_clock_boot() - start >= 200000);
    completes(&put, BIDE_EUNKNOWN);
    completes(&reserve, BIDE_CLOSED);
}

static void a_close_without_a_connection_ends_everything_at_once(void **state)
{
    (void)state;
    bide_job job = {0};
    open_tagged("connect_timeout=1d&reconnect_min=1h&reconnect_max=1h");
    hang_up();
    stop_listening();
    bide_op put = put_of("x");
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&put);
    submit(&reserve);
    assert_int_equal(bide_close(server.queue), BIDE_OK);
    server.queue = NULL;
    completes(&put, BIDE_CLOSED);
    completes(&reserve, BIDE_CLOSED);
}

/* ---- feeds ---- */

static void a_feed_is_made_again_and_tells_that_something_was_lost(void **state)
{
    (void)state;
    struct heard heard;
    bide_event event = {0};
    open_tagged(QUICK);
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    subscribe.feed.topic = topic_t;
    subscribe.feed.kinds = 6;
    submit(&subscribe);
    hear_call(&heard, BIDE_OP_SUBSCRIBE);
    heard.call.feed = 11;
    answer(&heard, BIDE_OK);
    completes(&subscribe, BIDE_OK);
    assert_non_null(subscribe.feed.feed);

    bide_op events = {.kind = BIDE_OP_EVENTS};
    events.feed = (bide_feed_args){
        .feed = subscribe.feed.feed, .timeout_ms = BIDE_FOREVER, .events = &event, .event_max = 1};
    submit(&events);
    hear_call(&heard, BIDE_OP_EVENTS);
    assert_int_equal(heard.call.feed, 11);
    bi_call_done(&heard.call);
    hang_up();
    hello_tagged();
    hear_call(&heard, BIDE_OP_SUBSCRIBE);
    assert_int_equal(heard.call.op.feed.kinds, 6);
    assert_int_equal(heard.call.op.feed.topic.size, 1);
    heard.call.feed = 22;
    answer(&heard, BIDE_OK);
    completes(&events, BIDE_OK);
    assert_int_equal(events.feed.count, 0);
    assert_int_equal(events.feed.lost, 1);
    submit(&events);
    hear_call(&heard, BIDE_OP_EVENTS);
    assert_int_equal(heard.call.feed, 22);
    heard.call.op.feed.events[0] = (bide_event){.id = 9, .topic = "t"};
    heard.call.op.feed.count = 1;
    heard.call.op.feed.lost = 3;
    answer(&heard, BIDE_OK);
    completes(&events, BIDE_OK);
    assert_int_equal(event.id, 9);
    assert_int_equal(events.feed.lost, 3);

    bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE};
    end.feed.feed = subscribe.feed.feed;
    submit(&end);
    hear_call(&heard, BIDE_OP_UNSUBSCRIBE);
    assert_int_equal(heard.call.feed, 22);
    answer(&heard, BIDE_OK);
    completes(&end, BIDE_OK);
    bide_op *list[] = {&events};
    assert_int_equal(bide_submit(server.queue, list, 1), 0);
    assert_int_equal(events.status, BIDE_EINVAL);
}

static void refer(int delta, int code)
{
    struct heard heard;
    char name[] = "t"; /* the caller's only until the submit returns */
    bide_op op = {.kind = BIDE_OP_TOPIC_REF};
    op.topic = (bide_topic_args){.topic = {name, 1}, .delta = delta};
    submit(&op);
    memset(name, 'x', sizeof(name));
    hear_call(&heard, BIDE_OP_TOPIC_REF);
    assert_int_equal(heard.call.op.topic.delta, delta);
    answer(&heard, code);
    completes(&op, code);
}

static void references_to_topics_are_made_again(void **state)
{
    (void)state;
    struct heard heard;
    open_tagged(QUICK);
    refer(1, BIDE_OK);
    refer(1, BIDE_OK);
    refer(1, BIDE_TOO_MANY_TOPICS);
    refer(-1, BIDE_EINVAL);
    refer(1, BIDE_OK);
    refer(-1, BIDE_OK);
    hang_up();
    hello_tagged();
    for (int i = 0; i < 2; i++) {
        hear_call(&heard, BIDE_OP_TOPIC_REF);
        assert_int_equal(heard.call.op.topic.delta, 1);
        assert_int_equal(heard.call.op.topic.topic.size, 1);
        assert_memory_equal(heard.call.op.topic.topic.data, "t", 1);
        answer(&heard, BIDE_OK);
    }
    refer(-1, BIDE_OK);
    refer(-1, BIDE_OK);
    hang_up();
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    hello_tagged();
    hear_call(&heard, BIDE_OP_PING); /* nothing comes before it */
    answer(&heard, BIDE_OK);
    completes(&ping, BIDE_OK);
}

/* Nobody waited when the connection broke: who asks next is told. */
static void who_asks_a_feed_that_was_made_again_is_told_first_that_something_was_lost(void **state)
{
    (void)state;
    struct heard heard;
    bide_event event = {0};
    open_tagged(QUICK);
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    submit(&subscribe);
    hear_call(&heard, BIDE_OP_SUBSCRIBE);
    heard.call.feed = 11;
    answer(&heard, BIDE_OK);
    completes(&subscribe, BIDE_OK);
    hang_up();
    hello_tagged();
    hear_call(&heard, BIDE_OP_SUBSCRIBE);
    heard.call.feed = 22;
    answer(&heard, BIDE_OK);
    bide_op events = {.kind = BIDE_OP_EVENTS, .cq = server.cq};
    events.feed = (bide_feed_args){
        .feed = subscribe.feed.feed, .timeout_ms = 0, .events = &event, .event_max = 1};
    bide_op *list[] = {&events};
    assert_in_range(bide_submit(server.queue, list, 1), 0, 1);
    completes(&events, BIDE_OK);
    assert_int_equal(events.feed.count, 0);
    assert_int_equal(events.feed.lost, 1);
    submit(&events);
    hear_call(&heard, BIDE_OP_EVENTS);
    assert_int_equal(heard.call.feed, 22);
    answer(&heard, BIDE_TIMED_OUT);
    completes(&events, BIDE_TIMED_OUT);
}

static void end_a_feed_as_the_connection_is_lost(void)
{
    struct heard heard;
    bide_event event = {0};
    open_tagged(QUICK);
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    submit(&subscribe);
    hear_call(&heard, BIDE_OP_SUBSCRIBE);
    heard.call.feed = 11;
    answer(&heard, BIDE_OK);
    completes(&subscribe, BIDE_OK);
    bide_op events = {.kind = BIDE_OP_EVENTS};
    events.feed = (bide_feed_args){
        .feed = subscribe.feed.feed, .timeout_ms = BIDE_FOREVER, .events = &event, .event_max = 1};
    hang_up();
    stop_listening();
    submit(&events);
    bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE, .cq = server.cq};
    end.feed.feed = subscribe.feed.feed;
    bide_op *list[] = {&end};
    assert_in_range(bide_submit(server.queue, list, 1), 0, 1);
    completes(&end, BIDE_OK);
    completes(&events, BIDE_CANCELLED);
}

/* The loss may be noticed at any moment of it: it is tried often. */
static void a_feed_ends_without_a_connection_too(void **state)
{
    enum { ROUNDS = 60 };
    end_a_feed_as_the_connection_is_lost();
    for (int i = 1; i < ROUNDS; i++) {
        end_script(state);
        begin_script(state);
        end_a_feed_as_the_connection_is_lost();
    }
}

/* ---- limits ---- */

static void no_more_ops_than_allowed_are_pending(void **state)
{
    (void)state;
    struct heard heard;
    open_tagged("max_pending_ops=2");
    bide_op puts[3];
    for (size_t i = 0; i < COUNT_OF(puts); i++)
        puts[i] = put_of("x");
    submit(&puts[0]);
    submit(&puts[1]);
    bide_op *list[] = {&puts[2]};
    puts[2].cq = server.cq;
    assert_int_equal(bide_submit(server.queue, list, 1), 0);
    assert_int_equal(puts[2].status, BIDE_EBUSY);
    bide_job job = {0};
    bide_op reserve = reserve_of(&job, BIDE_FOREVER); /* what waits does not count */
    submit(&reserve);
    for (size_t i = 0; i < 2; i++) {
        hear_call(&heard, BIDE_OP_PUT);
        heard.call.op.put.id = 1;
        answer(&heard, BIDE_OK);
        completes(&puts[i], BIDE_OK);
    }
    submit(&puts[2]);
    hear_call(&heard, BIDE_OP_RESERVE);
    answer(&heard, BIDE_TIMED_OUT);
    completes(&reserve, BIDE_TIMED_OUT);
    hear_call(&heard, BIDE_OP_PUT);
    answer(&heard, BIDE_DRAINING);
    completes(&puts[2], BIDE_DRAINING);
}

static void no_more_bytes_than_allowed_are_pending(void **state)
{
    (void)state;
    char body[3000] = "";
    open_tagged("max_pending_bytes=4000");
    bide_op first = {.kind = BIDE_OP_PUT, .put = {.topic = topic_t, .body = {body, sizeof(body)}}};
    bide_op second = first;
    submit(&first);
    second.cq = server.cq;
    bide_op *list[] = {&second};
    assert_int_equal(bide_submit(server.queue, list, 1), 0);
    assert_int_equal(second.status, BIDE_EBUSY);
    hang_up();
    completes(&first, BIDE_EUNKNOWN);
}

static void a_default_ttr_of_the_client_is_what_its_jobs_get(void **state)
{
    (void)state;
    struct heard heard;
    open_tagged("default_ttr=7s");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 3;
    bide_op put = put_of("x");
    put.put.options = &options;
    submit(&put);
    hear_call(&heard, BIDE_OP_PUT);
    assert_int_equal(heard.call.op.put.options->ttr_ms, 7000);
    assert_int_equal(heard.call.op.put.options->priority, 3);
    answer(&heard, BIDE_DRAINING);
    completes(&put, BIDE_DRAINING);
    assert_ptr_equal(put.put.options, &options);
    assert_int_equal(options.ttr_ms, 0);
    bide_put_item items[2] = {{.topic = topic_t}, {.topic = topic_t, .options = &options}};
    options.ttr_ms = 9000;
    bide_op many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}};
    submit(&many);
    hear_call(&heard, BIDE_OP_PUT_MANY);
    assert_int_equal(heard.call.op.put_many.items[0].options->ttr_ms, 7000);
    assert_int_equal(heard.call.op.put_many.items[1].options->ttr_ms, 9000);
    answer(&heard, BIDE_DRAINING);
    completes(&many, BIDE_DRAINING);
}

/* ---- opening ---- */

static void hello_silent(void)
{
    accept_one();
}

static void hello_foreign(void)
{
    hello_as("HTTP/1.1 400 Bad Request\r\n");
}

static void hello_closed(void)
{
    accept_one();
    hang_up();
}

static void hello_wants_secret(void)
{
    hello_as("AUTH_REQUIRED\r\n");
}

static void hello_refuses(void)
{
    accept_one();
    expect("auth wrong");
    say("NOT_AUTHENTICATED\r\n");
}

static void hello_is_full(void)
{
    accept_one();
    expect("auth s3cret");
    say("OUT_OF_MEMORY\r\n");
}

static void hello_is_full_at_once(void)
{
    hello_as("OUT_OF_MEMORY\r\n");
}

static void hello_knows_no_secret(void)
{
    accept_one();
    expect("auth s3cret");
    say("UNKNOWN_COMMAND\r\n");
}

static void hello_with_secret(void)
{
    accept_one();
    expect("auth s3cret");
    say("AUTHENTICATED\r\n");
    expect("call 1 ping 0");
    expect("");
    say("ANSWER 1 0 0\r\n\r\n");
}

static void an_open_says_why_it_failed(void **state)
{
    (void)state;
    static const struct {
        void (*hello)(void);
        const char *parameters;
        int code;
        const char *says;
    } cases[] = {
        {hello_silent, "connect_timeout=50ms", BIDE_EIO, "does not answer"},
        {hello_closed, "", BIDE_EIO, "does not answer"},
        {hello_foreign, "", BIDE_EIO, "another protocol"},
        {hello_wants_secret, "", BIDE_EINVAL, "wants a secret"},
        {hello_refuses, "secret=wrong", BIDE_EINVAL, "does not accept the secret"},
        {hello_knows_no_secret, "secret=s3cret", BIDE_EINVAL, "plain beanstalkd"},
        {hello_is_full, "secret=s3cret", BIDE_EBUSY, "no room for another connection"},
        {hello_is_full_at_once, "", BIDE_EBUSY, "no room for another connection"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(open_client(cases[i].parameters, cases[i].hello), cases[i].code);
        assert_non_null(strstr(server.error, cases[i].says));
        assert_non_null(strstr(server.error, server.path));
        if (server.fd >= 0)
            hang_up();
    }
    stop_listening();
    assert_int_equal(open_client("", NULL), BIDE_EIO);
    assert_non_null(strstr(server.error, server.path));
}

static void a_secret_is_told_first_on_every_connection(void **state)
{
    (void)state;
    struct heard heard;
    assert_int_equal(open_client("secret=s3cret&" QUICK, hello_with_secret), BIDE_OK);
    hang_up();
    bide_op put = put_of("x");
    submit(&put);
    hello_with_secret();
    hear_call(&heard, BIDE_OP_PUT);
    answer(&heard, BIDE_DRAINING);
    completes(&put, BIDE_DRAINING);
}

/* Plays a beanstalkd until the time of the op is over. */
static void greet_plainly_until_completed(bide_op *op)
{
    while (op->status == BIDE_PENDING) {
        if (readable(server.listening, 5)) {
            hello_early(plain_answer, sizeof(plain_answer) - 1);
            expect_end();
        }
        assert_true(bide_cq_drain(server.cq, 0) >= 0);
    }
}

/* The reason that is told is that of the last attempt, which may have been cut short by the end of
 * the time. */
static void a_server_that_has_become_another_is_not_spoken_to(void **state)
{
    (void)state;
    bool told = false;
    int64_t limit = bi_clock_boot() + PATIENCE_MS * INT64_C(1000);
    open_tagged_impatient("connect_timeout=300ms&" QUICK);
    hang_up();
    while (!told) {
        bide_op put = put_of("x");
        submit(&put);
        greet_plainly_until_completed(&put);
        completes(&put, BIDE_EIO);
        told = strstr(put.error, "was a bided") != NULL;
        assert_true(told || bi_clock_boot() < limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT(an_answer_in_pieces_is_put_together),
        SCRIPT(answers_in_any_order_find_their_ops),
        SCRIPT(a_code_and_its_sentence_come_over),
        SCRIPT(an_answer_that_makes_no_sense_fails_its_op_only),
        SCRIPT(whoever_speaks_another_language_loses_the_connection),
        SCRIPT(a_line_without_end_is_not_kept),
        SCRIPT(a_cancel_is_told_to_the_server),
        SCRIPT(a_cancel_without_a_connection_ends_the_op_at_once),
        SCRIPT(a_cancelled_op_is_not_asked_for_again),
        SCRIPT(a_shutdown_gives_up_what_waits_and_lets_the_rest_be_done),
        SCRIPT(a_close_does_not_wait_for_ever_for_a_silent_server),
        SCRIPT(a_close_without_a_connection_ends_everything_at_once),
        SCRIPT(a_feed_is_made_again_and_tells_that_something_was_lost),
        SCRIPT(references_to_topics_are_made_again),
        SCRIPT(who_asks_a_feed_that_was_made_again_is_told_first_that_something_was_lost),
        SCRIPT(a_feed_ends_without_a_connection_too),
        SCRIPT(no_more_ops_than_allowed_are_pending),
        SCRIPT(no_more_bytes_than_allowed_are_pending),
        SCRIPT(a_default_ttr_of_the_client_is_what_its_jobs_get),
        SCRIPT(an_open_says_why_it_failed),
        SCRIPT(a_secret_is_told_first_on_every_connection),
        SCRIPT(a_server_that_has_become_another_is_not_spoken_to),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
