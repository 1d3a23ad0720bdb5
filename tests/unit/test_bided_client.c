/* SPDX-License-Identifier: MIT */
/* The client of a bided: its answers, what is given up, feeds, limits, and how it is opened. */
#define _GNU_SOURCE
#include "blocked.h"
#include "fake_server.h"

/* ---- answers ---- */

static void split_response_is_reassembled(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided("");
    bide_op put = put_of("hello");
    submit(&put);
    receive_call(&received_call, BIDE_OP_PUT);
    assert_int_equal(received_call.call.op.put.body.size, 5);
    assert_memory_equal(received_call.call.op.put.body.data, "hello", 5);
    received_call.call.op.put.id = 77;
    struct op_bytes all = encode_reply(&received_call, BIDE_OK);
    for (size_t i = 0; i < all.size; i++) {
        assert_int_equal(bide_cq_drain(server.cq, 0), 0);
        send_bytes(all.data + i, 1);
    }
    bi_op_codec_wire_free_bytes(&all);
    completes(&put, BIDE_OK);
    assert_int_equal(put.put.id, 77);
}

static void responses_in_any_order_complete_their_ops(void **state)
{
    (void)state;
    enum { OPS = 5 };
    struct received_call received_call[OPS];
    bide_op puts[OPS];
    bide_op *list[OPS];
    open_bided("");
    for (size_t i = 0; i < OPS; i++) {
        puts[i] = put_of("x");
        puts[i].cq = server.cq;
        list[i] = &puts[i];
    }
    assert_int_equal(bide_submit(server.queue, list, OPS), OPS);
    for (size_t i = 0; i < OPS; i++) {
        receive_call(&received_call[i], BIDE_OP_PUT);
        received_call[i].call.op.put.id = i + 1;
    }
    static const size_t order[OPS] = {3, 0, 4, 2, 1};
    for (size_t i = 0; i < OPS; i++)
        reply(&received_call[order[i]], BIDE_OK);
    for (size_t i = 0; i < OPS; i++) {
        completes(&puts[i], BIDE_OK);
        assert_int_equal(puts[i].put.id, i + 1);
    }
}

static void code_and_error_text_are_returned(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided("");
    bide_op put = put_of("x");
    submit(&put);
    receive_call(&received_call, BIDE_OP_PUT);
    snprintf(received_call.call.op.error, sizeof(received_call.call.op.error),
             "put: no more of that");
    reply(&received_call, BIDE_TOPIC_FULL);
    completes(&put, BIDE_TOPIC_FULL);
    assert_string_equal(put.error, "put: no more of that");
}

/* A result that cannot be read: a look fails, a write may have happened. */
static void malformed_result_fails_only_its_op(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_stats stats;
    open_bided("");
    bide_op put = put_of("x");
    bide_op look = {.kind = BIDE_OP_STATS, .stats = {&stats}};
    submit(&put);
    submit(&look);
    for (int i = 0; i < 2; i++) {
        char line[100];
        receive_call(&received_call, i == 0 ? BIDE_OP_PUT : BIDE_OP_STATS);
        bi_op_codec_free_op(&received_call.call);
        snprintf(line, sizeof(line), "ANSWER %llu 0 3\r\n\xff\xff\xff\r\n",
                 (unsigned long long)received_call.tag);
        send_text(line);
    }
    completes(&put, BIDE_EUNKNOWN);
    completes(&look, BIDE_EIO);
    assert_non_null(strstr(look.error, server.path));
    bide_op again = put_of("y");
    submit(&again);
    receive_call(&received_call, BIDE_OP_PUT);
    reply(&received_call, BIDE_DRAINING);
    completes(&again, BIDE_DRAINING);
}

static const char *const malformed[] = {
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
static void malformed_response_closes_the_connection(void **state)
{
    (void)state;
    open_bided(QUICK);
    for (size_t i = 0; i < COUNT_OF(malformed); i++) {
        struct received_call received_call;
        bide_stats stats;
        bide_op put = put_of("x");
        bide_op look = {.kind = BIDE_OP_STATS, .stats = {&stats}};
        submit(&put);
        receive_call(&received_call, BIDE_OP_PUT);
        bi_op_codec_free_op(&received_call.call);
        submit(&look);
        receive_call(&received_call, BIDE_OP_STATS);
        bi_op_codec_free_op(&received_call.call);
        send_text(malformed[i]);
        expect_end();
        completes(&put, BIDE_EUNKNOWN);
        handshake_bided();
        receive_call(&received_call, BIDE_OP_STATS);
        *received_call.call.op.stats.stats = (bide_stats){.topics = i};
        reply(&received_call, BIDE_OK);
        completes(&look, BIDE_OK);
        assert_int_equal(stats.topics, i);
    }
}

/* An answer's line has fewer than 128 bytes. The first piece is shorter, and waited on; behind the
 * second nothing can be said, because the client may have hung up. */
static void overlong_response_line_closes_the_connection(void **state)
{
    (void)state;
    char line[280];
    open_bided(QUICK);
    for (size_t i = 0; i < sizeof(line); i += 7)
        memcpy(line + i, "ANSWER ", 7);
    send_bytes(line, 98);
    send_bytes(line + 98, sizeof(line) - 98);
    expect_end();
}

/* ---- giving up ---- */

static void cancel_is_sent_to_the_server(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_job job = {0};
    char line[60];
    open_bided(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    receive_call(&received_call, BIDE_OP_RESERVE);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)received_call.tag);
    expect(line);
    assert_true(stays_silent(20));
    reply(&received_call, BIDE_CANCELLED);
    completes(&reserve, BIDE_CANCELLED);
}

static void cancel_without_connection_completes_at_once(void **state)
{
    (void)state;
    bide_job job = {0};
    open_bided(QUICK);
    close_connection();
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

static void cancelled_op_is_not_resent(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_job job = {0};
    open_bided(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    receive_call(&received_call, BIDE_OP_RESERVE);
    bi_op_codec_free_op(&received_call.call);
    assert_int_equal(bide_cancel_op(server.queue, &reserve), BIDE_OK);
    close_connection();
    completes(&reserve, BIDE_CANCELLED);
}

static void shutdown_cancels_waiting_ops_and_finishes_the_rest(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_job job = {0}, next = {0};
    char line[60];
    open_bided(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    submit(&reserve);
    receive_call(&received_call, BIDE_OP_RESERVE);
    assert_int_equal(bide_shutdown(server.queue), BIDE_OK);
    snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)received_call.tag);
    expect(line);
    reply(&received_call, BIDE_CANCELLED);
    completes(&reserve, BIDE_CLOSED);

    bide_op *list[] = {&reserve};
    assert_int_equal(bide_submit(server.queue, list, 1), 0);
    assert_int_equal(reserve.status, BIDE_CLOSED);
    bide_op both = {.kind = BIDE_OP_FINISH_AND_RESERVE};
    both.finish_and_reserve.finish = (bide_finish_item){.id = 4, .token = 5};
    both.finish_and_reserve.reserve = reserve_of(&next, BIDE_FOREVER).reserve;
    submit(&both);
    receive_call(&received_call, BIDE_OP_FINISH_MANY);
    assert_int_equal(received_call.call.op.finish_many.count, 1);
    assert_int_equal(received_call.call.op.finish_many.items[0].id, 4);
    received_call.call.op.finish_many.items[0].status = BIDE_LEASE_LOST;
    reply(&received_call, BIDE_OK);
    completes(&both, BIDE_CLOSED);
    assert_int_equal(both.finish_and_reserve.finish.status, BIDE_LEASE_LOST);
}

/* Nothing of it was sent, so nothing was finished. */
static void finish_and_reserve_rejected_after_shutdown_has_not_finished(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_job next = {0};
    open_bided("max_pending_ops=1");
    bide_op put = put_of("x");
    submit(&put);
    receive_call(&received_call, BIDE_OP_PUT);
    assert_int_equal(bide_shutdown(server.queue), BIDE_OK);
    bide_op both = {.kind = BIDE_OP_FINISH_AND_RESERVE, .cq = server.cq};
    bide_op *ops[] = {&both};
    both.finish_and_reserve.finish = (bide_finish_item){.id = 4, .token = 5};
    both.finish_and_reserve.reserve = reserve_of(&next, 0).reserve;
    assert_int_equal(bide_submit(server.queue, ops, 1), 0);
    assert_int_equal(both.status, BIDE_EBUSY);
    assert_int_equal(both.finish_and_reserve.finish.status, BIDE_EBUSY);
    reply(&received_call, BIDE_OK);
    completes(&put, BIDE_OK);
}

static void close_is_bounded_when_the_server_is_silent(void **state)
{
    (void)state;
    bide_job job = {0};
    open_bided_until_ok("connect_timeout=200ms&" QUICK);
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

static void close_without_connection_completes_all_at_once(void **state)
{
    (void)state;
    bide_job job = {0};
    open_bided("connect_timeout=1d&reconnect_min=1h&reconnect_max=1h");
    close_connection();
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

static void event_stream_is_resubscribed_and_reports_loss(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_event event = {0};
    open_bided(QUICK);
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    subscribe.subscription.topic = topic_t;
    subscribe.subscription.kinds = 6;
    submit(&subscribe);
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    received_call.call.feed = 11;
    reply(&received_call, BIDE_OK);
    completes(&subscribe, BIDE_OK);
    assert_non_null(subscribe.subscription.handle);

    bide_op events = {.kind = BIDE_OP_EVENTS};
    events.subscription = (bide_subscription_args){.handle = subscribe.subscription.handle,
                                                   .timeout_ms = BIDE_FOREVER,
                                                   .events = &event,
                                                   .event_max = 1};
    submit(&events);
    receive_call(&received_call, BIDE_OP_EVENTS);
    assert_int_equal(received_call.call.feed, 11);
    bi_op_codec_free_op(&received_call.call);
    close_connection();
    handshake_bided();
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    assert_int_equal(received_call.call.op.subscription.kinds, 6);
    assert_int_equal(received_call.call.op.subscription.topic.size, 1);
    received_call.call.feed = 22;
    reply(&received_call, BIDE_OK);
    completes(&events, BIDE_OK);
    assert_int_equal(events.subscription.count, 0);
    assert_int_equal(events.subscription.lost, 1);
    submit(&events);
    receive_call(&received_call, BIDE_OP_EVENTS);
    assert_int_equal(received_call.call.feed, 22);
    received_call.call.op.subscription.events[0] = (bide_event){.id = 9, .topic = "t"};
    received_call.call.op.subscription.count = 1;
    received_call.call.op.subscription.lost = 3;
    reply(&received_call, BIDE_OK);
    completes(&events, BIDE_OK);
    assert_int_equal(event.id, 9);
    assert_int_equal(events.subscription.lost, 3);

    bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE};
    end.subscription.handle = subscribe.subscription.handle;
    submit(&end);
    receive_call(&received_call, BIDE_OP_UNSUBSCRIBE);
    assert_int_equal(received_call.call.feed, 22);
    reply(&received_call, BIDE_OK);
    completes(&end, BIDE_OK);
    bide_op *list[] = {&events};
    assert_int_equal(bide_submit(server.queue, list, 1), 0);
    assert_int_equal(events.status, BIDE_EINVAL);
}

static void send_topic_ref(int delta, int code)
{
    struct received_call received_call;
    char name[] = "t"; /* the caller's only until the submit returns */
    bide_op op = {.kind = BIDE_OP_TOPIC_REF};
    op.topic = (bide_topic_args){.topic = {name, 1}, .delta = delta};
    submit(&op);
    memset(name, 'x', sizeof(name));
    receive_call(&received_call, BIDE_OP_TOPIC_REF);
    assert_int_equal(received_call.call.op.topic.delta, delta);
    reply(&received_call, code);
    completes(&op, code);
}

static void topic_references_are_restored_after_reconnect(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided(QUICK);
    send_topic_ref(1, BIDE_OK);
    send_topic_ref(1, BIDE_OK);
    send_topic_ref(1, BIDE_TOO_MANY_TOPICS);
    send_topic_ref(-1, BIDE_EINVAL);
    send_topic_ref(1, BIDE_OK);
    send_topic_ref(-1, BIDE_OK);
    close_connection();
    handshake_bided();
    for (int i = 0; i < 2; i++) {
        receive_call(&received_call, BIDE_OP_TOPIC_REF);
        assert_int_equal(received_call.call.op.topic.delta, 1);
        assert_int_equal(received_call.call.op.topic.topic.size, 1);
        assert_memory_equal(received_call.call.op.topic.topic.data, "t", 1);
        reply(&received_call, BIDE_OK);
    }
    send_topic_ref(-1, BIDE_OK);
    send_topic_ref(-1, BIDE_OK);
    close_connection();
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    handshake_bided();
    receive_call(&received_call, BIDE_OP_PING); /* nothing comes before it */
    reply(&received_call, BIDE_OK);
    completes(&ping, BIDE_OK);
}

/* No call waited when the connection broke: the next one reports the loss. */
static void first_events_call_after_reconnect_reports_loss(void **state)
{
    (void)state;
    struct received_call received_call;
    bide_event event = {0};
    open_bided(QUICK);
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    submit(&subscribe);
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    received_call.call.feed = 11;
    reply(&received_call, BIDE_OK);
    completes(&subscribe, BIDE_OK);
    close_connection();
    handshake_bided();
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    received_call.call.feed = 22;
    reply(&received_call, BIDE_OK);
    bide_op events = {.kind = BIDE_OP_EVENTS, .cq = server.cq};
    events.subscription = (bide_subscription_args){
        .handle = subscribe.subscription.handle, .timeout_ms = 0, .events = &event, .event_max = 1};
    bide_op *list[] = {&events};
    assert_in_range(bide_submit(server.queue, list, 1), 0, 1);
    completes(&events, BIDE_OK);
    assert_int_equal(events.subscription.count, 0);
    assert_int_equal(events.subscription.lost, 1);
    submit(&events);
    receive_call(&received_call, BIDE_OP_EVENTS);
    assert_int_equal(received_call.call.feed, 22);
    reply(&received_call, BIDE_TIMED_OUT);
    completes(&events, BIDE_TIMED_OUT);
}

static bide_subscription *subscribe_stream(uint64_t number)
{
    struct received_call received_call;
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    submit(&subscribe);
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    received_call.call.feed = number;
    reply(&received_call, BIDE_OK);
    completes(&subscribe, BIDE_OK);
    return subscribe.subscription.handle;
}

static void answer_subscribe(int code)
{
    struct received_call received_call;
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    received_call.call.feed = 22;
    reply(&received_call, code);
}

/* Afterwards the client has read all replies that were sent before. */
static void exchange_ping(void)
{
    struct received_call received_call;
    bide_op ping = {.kind = BIDE_OP_PING};
    submit(&ping);
    receive_call(&received_call, BIDE_OP_PING);
    reply(&received_call, BIDE_OK);
    completes(&ping, BIDE_OK);
}

static void events_after_a_rejected_resubscribe_subscribes_again(void **state)
{
    (void)state;
    bide_event event = {0};
    open_bided(QUICK);
    bide_op events = {.kind = BIDE_OP_EVENTS};
    events.subscription = (bide_subscription_args){.handle = subscribe_stream(11),
                                                   .timeout_ms = BIDE_FOREVER,
                                                   .events = &event,
                                                   .event_max = 1};
    close_connection();
    handshake_bided();
    answer_subscribe(BIDE_TOO_MANY_WAITERS);
    exchange_ping();

    submit(&events);
    answer_subscribe(BIDE_TOO_MANY_WAITERS);
    completes(&events, BIDE_TOO_MANY_WAITERS);
    submit(&events);
    answer_subscribe(BIDE_OK);
    completes(&events, BIDE_OK);
    assert_int_equal(events.subscription.lost, 1);
}

static void unsubscribe_after_a_rejected_resubscribe_completes(void **state)
{
    (void)state;
    open_bided(QUICK);
    bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE, .cq = server.cq};
    end.subscription.handle = subscribe_stream(11);
    close_connection();
    handshake_bided();
    answer_subscribe(BIDE_TOO_MANY_WAITERS);
    exchange_ping();
    bide_op *list[] = {&end};
    assert_in_range(bide_submit(server.queue, list, 1), 0, 1);
    completes(&end, BIDE_OK);
    exchange_ping(); /* nothing was sent before it */

    /* The rejection arrives after the unsubscribe. */
    end = (bide_op){.kind = BIDE_OP_UNSUBSCRIBE};
    end.subscription.handle = subscribe_stream(12);
    close_connection();
    handshake_bided();
    struct received_call received_call;
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    submit(&end);
    reply(&received_call, BIDE_TOO_MANY_WAITERS);
    completes(&end, BIDE_OK);
}

/* The cancel arrives before the client can send the unsubscribe, and after it was sent. */
static void cancelled_unsubscribe_still_ends_the_stream(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided(QUICK);
    for (int sent = 0; sent < 2; sent++) {
        bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE};
        end.subscription.handle = subscribe_stream(11);
        close_connection();
        handshake_bided();
        receive_call(&received_call, BIDE_OP_SUBSCRIBE);
        received_call.call.feed = 22;
        if (sent)
            reply(&received_call, BIDE_OK);
        if (sent)
            exchange_ping();
        submit(&end);
        assert_int_equal(bide_cancel_op(server.queue, &end), BIDE_OK);
        if (!sent)
            reply(&received_call, BIDE_OK);
        receive_call(&received_call, BIDE_OP_UNSUBSCRIBE);
        assert_int_equal(received_call.call.feed, 22);
        reply(&received_call, BIDE_OK);
        completes(&end, BIDE_OK);
        exchange_ping(); /* no call-cancel was sent before it */
    }
}

static void handle_of_an_ended_stream_is_not_reused(void **state)
{
    enum { ROUNDS = 30 };
    (void)state;
    bide_subscription *handles[ROUNDS];
    open_bided(QUICK);
    for (size_t i = 0; i < ROUNDS; i++) {
        struct received_call received_call;
        handles[i] = subscribe_stream(i + 1);
        for (size_t k = 0; k < i; k++)
            assert_ptr_not_equal(handles[i], handles[k]);
        bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE};
        end.subscription.handle = handles[i];
        submit(&end);
        receive_call(&received_call, BIDE_OP_UNSUBSCRIBE);
        reply(&received_call, BIDE_OK);
        completes(&end, BIDE_OK);
    }
}

static void unsubscribe_during_disconnect(void)
{
    struct received_call received_call;
    bide_event event = {0};
    open_bided(QUICK);
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    submit(&subscribe);
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    received_call.call.feed = 11;
    reply(&received_call, BIDE_OK);
    completes(&subscribe, BIDE_OK);
    bide_op events = {.kind = BIDE_OP_EVENTS};
    events.subscription = (bide_subscription_args){.handle = subscribe.subscription.handle,
                                                   .timeout_ms = BIDE_FOREVER,
                                                   .events = &event,
                                                   .event_max = 1};
    close_connection();
    stop_listening();
    submit(&events);
    bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE, .cq = server.cq};
    end.subscription.handle = subscribe.subscription.handle;
    bide_op *list[] = {&end};
    assert_in_range(bide_submit(server.queue, list, 1), 0, 1);
    completes(&end, BIDE_OK);
    completes(&events, BIDE_CANCELLED);
}

/* The loss may be noticed at any moment of it: it is tried often. */
static void unsubscribe_works_without_a_connection(void **state)
{
    enum { ROUNDS = 60 };
    unsubscribe_during_disconnect();
    for (int i = 1; i < ROUNDS; i++) {
        end_script(state);
        begin_script(state);
        unsubscribe_during_disconnect();
    }
}

/* ---- limits ---- */

static void pending_ops_are_bounded(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided("max_pending_ops=2");
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
        receive_call(&received_call, BIDE_OP_PUT);
        received_call.call.op.put.id = 1;
        reply(&received_call, BIDE_OK);
        completes(&puts[i], BIDE_OK);
    }
    submit(&puts[2]);
    receive_call(&received_call, BIDE_OP_RESERVE);
    reply(&received_call, BIDE_TIMED_OUT);
    completes(&reserve, BIDE_TIMED_OUT);
    receive_call(&received_call, BIDE_OP_PUT);
    reply(&received_call, BIDE_DRAINING);
    completes(&puts[2], BIDE_DRAINING);
}

static void answer_put(void)
{
    struct received_call received_call;
    receive_call(&received_call, BIDE_OP_PUT);
    received_call.call.op.put.id = 1;
    reply(&received_call, BIDE_OK);
}

static void completion_wakes_one_caller_at_the_pending_limit(void **state)
{
    (void)state;
    open_bided("max_pending_ops=1");
    let_callers_through(answer_put);
}

static void pending_bytes_are_bounded(void **state)
{
    (void)state;
    char body[3000] = "";
    open_bided("max_pending_bytes=4000");
    bide_op first = {.kind = BIDE_OP_PUT, .put = {.topic = topic_t, .body = {body, sizeof(body)}}};
    bide_op second = first;
    submit(&first);
    second.cq = server.cq;
    bide_op *list[] = {&second};
    assert_int_equal(bide_submit(server.queue, list, 1), 0);
    assert_int_equal(second.status, BIDE_EBUSY);
    close_connection();
    completes(&first, BIDE_EUNKNOWN);
}

static void default_ttr_of_the_client_applies_to_its_jobs(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided("default_ttr=7s");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = 3;
    bide_op put = put_of("x");
    put.put.options = &options;
    submit(&put);
    receive_call(&received_call, BIDE_OP_PUT);
    assert_int_equal(received_call.call.op.put.options->ttr_ms, 7000);
    assert_int_equal(received_call.call.op.put.options->priority, 3);
    reply(&received_call, BIDE_DRAINING);
    completes(&put, BIDE_DRAINING);
    assert_ptr_equal(put.put.options, &options);
    assert_int_equal(options.ttr_ms, 0);
    bide_put_item items[2] = {{.topic = topic_t}, {.topic = topic_t, .options = &options}};
    options.ttr_ms = 9000;
    bide_op many = {.kind = BIDE_OP_PUT_MANY, .put_many = {.items = items, .count = 2}};
    submit(&many);
    receive_call(&received_call, BIDE_OP_PUT_MANY);
    assert_int_equal(received_call.call.op.put_many.items[0].options->ttr_ms, 7000);
    assert_int_equal(received_call.call.op.put_many.items[1].options->ttr_ms, 9000);
    reply(&received_call, BIDE_DRAINING);
    completes(&many, BIDE_DRAINING);
}

/* ---- opening ---- */

static void handshake_silent(void)
{
    accept_one();
}

static void handshake_foreign(void)
{
    handshake_with("HTTP/1.1 400 Bad Request\r\n");
}

static void handshake_closed(void)
{
    accept_one();
    close_connection();
}

static void handshake_auth_required(void)
{
    handshake_with("AUTH_REQUIRED\r\n");
}

static void handshake_wrong_secret(void)
{
    accept_one();
    expect("auth wrong");
    send_text("NOT_AUTHENTICATED\r\n");
}

static void handshake_full(void)
{
    accept_one();
    expect("auth s3cret");
    send_text("OUT_OF_MEMORY\r\n");
}

static void handshake_full_at_once(void)
{
    handshake_with("OUT_OF_MEMORY\r\n");
}

static void handshake_no_auth(void)
{
    accept_one();
    expect("auth s3cret");
    send_text("UNKNOWN_COMMAND\r\n");
}

static void handshake_with_secret(void)
{
    accept_one();
    expect("auth s3cret");
    send_text("AUTHENTICATED\r\n");
    expect("call 1 ping 0");
    expect("");
    send_text("ANSWER 1 0 0\r\n\r\n");
}

static void failed_open_reports_the_reason(void **state)
{
    (void)state;
    static const struct {
        void (*handshake)(void);
        const char *parameters;
        int code;
        const char *expected;
    } cases[] = {
        {handshake_silent, "connect_timeout=50ms", BIDE_EIO, "does not answer"},
        {handshake_closed, "", BIDE_EIO, "does not answer"},
        {handshake_foreign, "", BIDE_EIO, "another protocol"},
        {handshake_auth_required, "", BIDE_EINVAL, "requires a secret"},
        {handshake_wrong_secret, "secret=wrong", BIDE_EINVAL, "does not accept the secret"},
        {handshake_no_auth, "secret=s3cret", BIDE_EINVAL, "plain beanstalkd"},
        {handshake_full, "secret=s3cret", BIDE_EBUSY, "no room for another connection"},
        {handshake_full_at_once, "", BIDE_EBUSY, "no room for another connection"},
    };
    for (size_t i = 0; i < COUNT_OF(cases); i++) {
        assert_int_equal(open_client(cases[i].parameters, cases[i].handshake), cases[i].code);
        assert_non_null(strstr(server.error, cases[i].expected));
        assert_non_null(strstr(server.error, server.path));
        if (server.fd >= 0)
            close_connection();
    }
    stop_listening();
    assert_int_equal(open_client("", NULL), BIDE_EIO);
    assert_non_null(strstr(server.error, server.path));
}

static void secret_is_sent_first_on_every_connection(void **state)
{
    (void)state;
    struct received_call received_call;
    assert_int_equal(open_client("secret=s3cret&" QUICK, handshake_with_secret), BIDE_OK);
    close_connection();
    bide_op put = put_of("x");
    submit(&put);
    handshake_with_secret();
    receive_call(&received_call, BIDE_OP_PUT);
    reply(&received_call, BIDE_DRAINING);
    completes(&put, BIDE_DRAINING);
}

/* Plays a beanstalkd until the time of the op is over. */
static void play_beanstalkd_until_completed(bide_op *op)
{
    while (op->status == BIDE_PENDING) {
        if (readable(server.listening, 5)) {
            handshake_early(beanstalkd_reply, sizeof(beanstalkd_reply) - 1);
            expect_end();
        }
        assert_true(bide_cq_drain(server.cq, 0) >= 0);
    }
}

/* The reason that is told is that of the last attempt, which may have been cut short by the end of
 * the time. */
static void reconnect_to_a_beanstalkd_is_rejected(void **state)
{
    (void)state;
    bool reported = false;
    int64_t limit = bi_clock_boot() + PATIENCE_MS * INT64_C(1000);
    open_bided_until_ok("connect_timeout=300ms&" QUICK);
    close_connection();
    while (!reported) {
        bide_op put = put_of("x");
        submit(&put);
        play_beanstalkd_until_completed(&put);
        completes(&put, BIDE_EIO);
        reported = strstr(put.error, "was a bided") != NULL;
        assert_true(reported || bi_clock_boot() < limit);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT(split_response_is_reassembled),
        SCRIPT(responses_in_any_order_complete_their_ops),
        SCRIPT(code_and_error_text_are_returned),
        SCRIPT(malformed_result_fails_only_its_op),
        SCRIPT(malformed_response_closes_the_connection),
        SCRIPT(overlong_response_line_closes_the_connection),
        SCRIPT(cancel_is_sent_to_the_server),
        SCRIPT(cancel_without_connection_completes_at_once),
        SCRIPT(cancelled_op_is_not_resent),
        SCRIPT(shutdown_cancels_waiting_ops_and_finishes_the_rest),
        SCRIPT(finish_and_reserve_rejected_after_shutdown_has_not_finished),
        SCRIPT(close_is_bounded_when_the_server_is_silent),
        SCRIPT(close_without_connection_completes_all_at_once),
        SCRIPT(event_stream_is_resubscribed_and_reports_loss),
        SCRIPT(topic_references_are_restored_after_reconnect),
        SCRIPT(first_events_call_after_reconnect_reports_loss),
        SCRIPT(events_after_a_rejected_resubscribe_subscribes_again),
        SCRIPT(unsubscribe_after_a_rejected_resubscribe_completes),
        SCRIPT(cancelled_unsubscribe_still_ends_the_stream),
        SCRIPT(handle_of_an_ended_stream_is_not_reused),
        SCRIPT(unsubscribe_works_without_a_connection),
        SCRIPT(pending_ops_are_bounded),
        SCRIPT(completion_wakes_one_caller_at_the_pending_limit),
        SCRIPT(pending_bytes_are_bounded),
        SCRIPT(default_ttr_of_the_client_applies_to_its_jobs),
        SCRIPT(failed_open_reports_the_reason),
        SCRIPT(secret_is_sent_first_on_every_connection),
        SCRIPT(reconnect_to_a_beanstalkd_is_rejected),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
