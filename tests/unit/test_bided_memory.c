/* SPDX-License-Identifier: MIT */
/* The client of a bided in a process that has no memory for a moment. */
#define _GNU_SOURCE
#include "fake_server.h"

#include <stdatomic.h>

/* ---- allocations that fail ---- */

/* The allocation that fails, 1 being the next one; 0: none. Only the allocations of one side count:
 * those of the thread of the test, which submits, or those of the client's own threads. */
static _Atomic int countdown;
static _Atomic bool own_thread;
static pthread_t test_thread;
/* The largest size for which a realloc() of the client's own threads succeeds; 0: no limit. */
static _Atomic size_t realloc_max;

void *__real_malloc(size_t size);
void *__real_calloc(size_t count, size_t size);
void *__real_realloc(void *memory, size_t size);
void *__wrap_malloc(size_t size);
void *__wrap_calloc(size_t count, size_t size);
void *__wrap_realloc(void *memory, size_t size);

static bool is_test_thread(void)
{
    return pthread_equal(pthread_self(), test_thread) != 0;
}

static bool must_fail(void)
{
    if (countdown == 0 || is_test_thread() != own_thread)
        return false;
    return atomic_fetch_sub(&countdown, 1) == 1;
}

void *__wrap_malloc(size_t size)
{
    return must_fail() ? NULL : __real_malloc(size);
}

void *__wrap_calloc(size_t count, size_t size)
{
    return must_fail() ? NULL : __real_calloc(count, size);
}

void *__wrap_realloc(void *memory, size_t size)
{
    bool too_large = realloc_max != 0 && size > realloc_max && !is_test_thread();
    return too_large || must_fail() ? NULL : __real_realloc(memory, size);
}

static void fail_allocation(int nth, bool of_submit)
{
    test_thread = pthread_self();
    own_thread = of_submit;
    countdown = nth;
}

/* ---- a server that answers everything ---- */

enum { STREAM = 22 };

/* What the present connection has asked for. */
static struct {
    unsigned puts, reserves, stats, subscribes, topic_refs, events, unsubscribes;
} asked;

/* Consumes a call, whatever its kind. */
static bide_op_kind next_call(struct received_call *received_call)
{
    char line[100], name[40];
    const char *end;
    unsigned long long tag;
    size_t size;
    while ((end = memmem(server.in, server.size, "\r\n", 2)) == NULL)
        read_until(server.size + 1);
    assert_true((size_t)(end - server.in) < sizeof(line));
    snprintf(line, sizeof(line), "%.*s", (int)(end - server.in), server.in);
    assert_int_equal(sscanf(line, "call %llu %39s %zu", &tag, name, &size), 3);
    for (int kind = BIDE_OP_NONE + 1; kind < BIDE_OP_COUNT; kind++)
        if (strcmp(bide_op_name((bide_op_kind)kind), name) == 0) {
            receive_call(received_call, (bide_op_kind)kind);
            return (bide_op_kind)kind;
        }
    fail_msg("unknown op %s", name);
    return BIDE_OP_NONE;
}

static void answer_call(void)
{
    struct received_call received_call;
    bide_op *op = &received_call.call.op;
    bide_op_kind kind = next_call(&received_call);
    if (kind == BIDE_OP_PUT)
        op->put.id = ++asked.puts;
    if (kind == BIDE_OP_RESERVE) {
        op->reserve.jobs[0] = (bide_job){.id = 5,
                                         .token = 6,
                                         .state = BIDE_STATE_RESERVED,
                                         .topic = "t",
                                         .body = "body",
                                         .body_size = 4};
        op->reserve.count = 1;
        asked.reserves++;
    }
    if (kind == BIDE_OP_STATS) {
        *op->stats.stats = (bide_stats){.topics = 3};
        asked.stats++;
    }
    if (kind == BIDE_OP_SUBSCRIBE) {
        received_call.call.feed = STREAM;
        asked.subscribes++;
    }
    asked.topic_refs += kind == BIDE_OP_TOPIC_REF;
    asked.unsubscribes += kind == BIDE_OP_UNSUBSCRIBE;
    asked.events += kind == BIDE_OP_EVENTS;
    if (kind == BIDE_OP_EVENTS || kind == BIDE_OP_UNSUBSCRIBE)
        assert_int_equal(received_call.call.feed, STREAM);
    /* The client may have closed the connection. */
    struct op_bytes all = encode_reply(&received_call, BIDE_OK);
    send(server.fd, all.data, all.size, MSG_NOSIGNAL);
    bi_op_codec_wire_free_bytes(&all);
}

/* Serves until the ops have completed; a client that disconnects is accepted again. */
static void serve(bide_op *const *ops, size_t count)
{
    int64_t limit = bi_clock_boot() + PATIENCE_MS * INT64_C(1000);
    for (;;) {
        size_t pending = 0;
        assert_true(bide_cq_drain(server.cq, 0) >= 0);
        for (size_t i = 0; i < count; i++)
            pending += ops[i]->status == BIDE_PENDING;
        if (pending == 0)
            return;
        assert_true(bi_clock_boot() < limit);

        char byte;
        if (server.fd >= 0 && server.size == 0 && !readable(server.fd, 1))
            continue;
        if (server.fd >= 0 &&
            (server.size > 0 || recv(server.fd, &byte, 1, MSG_PEEK | MSG_DONTWAIT) > 0)) {
            answer_call();
            continue;
        }
        if (server.fd >= 0)
            close_connection();
        memset(&asked, 0, sizeof(asked));
        handshake_bided();
    }
}

/* ---- tests ---- */

static unsigned completions;

static void count_completion(bide_op *op)
{
    (void)op;
    completions++;
}

static void submit_counted(bide_op *op)
{
    op->done = count_completion;
    submit(op);
}

static bide_subscription *subscribe_and_reference(void)
{
    bide_op subscribe = {.kind = BIDE_OP_SUBSCRIBE};
    bide_op ref = {.kind = BIDE_OP_TOPIC_REF, .topic = {.topic = topic_t, .delta = 1}};
    bide_op *ops[] = {&subscribe, &ref};
    submit(&subscribe);
    submit(&ref);
    serve(ops, COUNT_OF(ops));
    assert_int_equal(subscribe.status, BIDE_OK);
    assert_int_equal(ref.status, BIDE_OK);
    return subscribe.subscription.handle;
}

/* One round of the next test. Returns false if no allocation failed: there are fewer. */
static bool reconnect_with_failure(int nth)
{
    bide_job job = {0};
    bide_stats stats;
    bide_event event;
    open_bided(QUICK);
    bide_subscription *handle = subscribe_and_reference();

    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    bide_op look = {.kind = BIDE_OP_STATS, .stats = {&stats}};
    bide_op put = put_of("x");
    bide_op events = {.kind = BIDE_OP_EVENTS};
    events.subscription = (bide_subscription_args){
        .handle = handle, .timeout_ms = BIDE_FOREVER, .events = &event, .event_max = 1};
    bide_op *ops[] = {&reserve, &look, &put, &events};

    completions = 0;
    submit_counted(&reserve);
    submit_counted(&look);
    close_connection();
    submit_counted(&put);
    submit_counted(&events);
    fail_allocation(nth, false);
    serve(ops, COUNT_OF(ops));
    bool failed = countdown == 0;
    countdown = 0;
    assert_int_equal(completions, COUNT_OF(ops));

    /* The put, once sent, is not sent again. */
    assert_true(put.status == BIDE_OK || put.status == BIDE_EUNKNOWN);
    assert_true(reserve.status == BIDE_OK || reserve.status == BIDE_ENOMEM);
    assert_true(reserve.status != BIDE_OK || (job.id == 5 && job.body_size == 4));
    assert_int_equal(look.status, BIDE_OK);
    assert_true(events.status == BIDE_OK || events.status == BIDE_ENOMEM);
    bide_job_clear(&job);

    /* The stream and the reference are at the server. */
    bide_op ping = {.kind = BIDE_OP_PING};
    bide_op *last[] = {&ping};
    submit(&ping);
    serve(last, 1);
    assert_int_equal(ping.status, BIDE_OK);
    assert_int_equal(asked.subscribes, 1);
    assert_int_equal(asked.topic_refs, 1);
    return failed;
}

static void reconnect_survives_each_failed_allocation(void **state)
{
    int nth = 1;
    for (; reconnect_with_failure(nth); nth++) {
        assert_true(nth < 200);
        end_script(state);
        begin_script(state);
    }
    assert_true(nth > 5);
}

static void failed_unsubscribe_leaves_the_stream(void **state)
{
    int code = BIDE_ENOMEM;
    for (int nth = 1; code == BIDE_ENOMEM; nth++) {
        assert_true(nth < 20);
        open_bided(QUICK);
        bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE, .cq = server.cq};
        bide_op filler[64];
        bide_stats stats;
        bide_op *list[] = {&end};
        memset(&asked, 0, sizeof(asked));
        end.subscription.handle = subscribe_and_reference();

        /* The client has no room for another tag: the next request allocates it. */
        for (size_t i = 0; i < COUNT_OF(filler); i++) {
            filler[i] = (bide_op){.kind = BIDE_OP_STATS, .stats = {&stats}};
            submit(&filler[i]);
        }
        fail_allocation(nth, true);
        int pending = bide_submit(server.queue, list, 1);
        countdown = 0;
        code = pending == 1 ? BIDE_OK : end.status;
        if (code == BIDE_ENOMEM)
            assert_int_equal(bide_submit(server.queue, list, 1), 1);
        serve(list, 1);
        assert_int_equal(end.status, BIDE_OK);
        assert_int_equal(asked.unsubscribes, 1);
        for (size_t i = 0; i < COUNT_OF(filler); i++)
            completes(&filler[i], BIDE_OK);
        end_script(state);
        begin_script(state);
    }
    assert_int_equal(code, BIDE_OK);
}

static void unsubscribe_of_a_stream_that_is_being_restored_needs_no_memory(void **state)
{
    (void)state;
    struct received_call received_call;
    open_bided(QUICK);
    bide_op end = {.kind = BIDE_OP_UNSUBSCRIBE};
    end.subscription.handle = subscribe_and_reference();
    close_connection();
    handshake_bided();
    receive_call(&received_call, BIDE_OP_SUBSCRIBE);
    submit(&end);
    received_call.call.feed = STREAM;
    struct op_bytes all = encode_reply(&received_call, BIDE_OK);
    fail_allocation(1, false);
    send_bytes(all.data, all.size);
    bi_op_codec_wire_free_bytes(&all);
    receive_call(&received_call, BIDE_OP_TOPIC_REF);
    reply(&received_call, BIDE_OK);
    receive_call(&received_call, BIDE_OP_UNSUBSCRIBE);
    countdown = 0;
    assert_int_equal(received_call.call.feed, STREAM);
    reply(&received_call, BIDE_OK);
    completes(&end, BIDE_OK);
}

static void reply_with_large_job(struct received_call *received_call)
{
    static char body[300000];
    bide_reserve_args *args = &received_call->call.op.reserve;
    args->jobs[0] = (bide_job){.id = 5,
                               .token = 6,
                               .state = BIDE_STATE_RESERVED,
                               .topic = "t",
                               .body = body,
                               .body_size = sizeof(body)};
    args->count = 1;
    reply(received_call, BIDE_OK);
}

/* The buffer for replies can grow to 128 KiB, and the reply to the reserve is larger. A client that
 * reserved again on another connection would get the same reply, for ever. */
static void reply_without_memory_fails_only_its_op(void **state)
{
    (void)state;
    struct received_call received_reserve, received_put;
    bide_job job = {0};
    open_bided(QUICK);
    bide_op reserve = reserve_of(&job, BIDE_FOREVER);
    bide_op put = put_of("x");
    submit(&reserve);
    submit(&put);
    receive_call(&received_reserve, BIDE_OP_RESERVE);
    receive_call(&received_put, BIDE_OP_PUT);

    test_thread = pthread_self();
    realloc_max = 128 << 10;
    reply_with_large_job(&received_reserve);
    reply(&received_put, BIDE_OK);
    completes(&put, BIDE_OK);
    completes(&reserve, BIDE_ENOMEM);
    assert_non_null(strstr(reserve.error, "out of memory"));
    realloc_max = 0;

    submit(&reserve);
    receive_call(&received_reserve, BIDE_OP_RESERVE);
    reply_with_large_job(&received_reserve);
    completes(&reserve, BIDE_OK);
    assert_int_equal(job.body_size, 300000);
    bide_job_clear(&job);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        SCRIPT(reconnect_survives_each_failed_allocation),
        SCRIPT(failed_unsubscribe_leaves_the_stream),
        SCRIPT(unsubscribe_of_a_stream_that_is_being_restored_needs_no_memory),
        SCRIPT(reply_without_memory_fails_only_its_op),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
