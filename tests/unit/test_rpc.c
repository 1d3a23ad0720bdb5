/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* POLLRDHUP */
/* The verb `call` of a server that runs: tags, order, refusals, and what becomes of it all when a
 * connection closes. */
#include "op/op_codec.h"

#include "random_results.h"
#include "server_process.h"

#include <poll.h>

static struct server_process server_process;
static struct client one, two;
static struct op_bytes bytes;
static const bide_slice topic = {"t", 1};

static int begin_on(const char *url)
{
    dice.state = 4;
    server_process_start(&server_process, url);
    one = client_open(&server_process);
    two = client_open(&server_process);
    return 0;
}

static int begin(void **state)
{
    (void)state;
    return begin_on("memory:");
}

#ifdef BIDE_WITH_SQLITE
static int begin_stored(void **state)
{
    (void)state;
    return begin_on("sqlite:%s/jobs.db");
}
#endif

static int end(void **state)
{
    (void)state;
    client_close(&one);
    client_close(&two);
    server_process_stop(&server_process);
    bi_op_codec_wire_free_bytes(&bytes);
    return 0;
}

/* ---- asking ---- */

static void send_bytes(struct client *client, uint64_t tag, const char *name, const void *data,
                       size_t size)
{
    char line[100];
    snprintf(line, sizeof(line), "call %llu %s %zu", (unsigned long long)tag, name, size);
    client_send_line(client, line);
    client_send(client, data, size);
    client_send(client, "\r\n", 2);
}

static void send_call(struct client *client, uint64_t tag, const bide_op *op, uint64_t feed)
{
    bytes.size = 0;
    assert_int_equal(bi_op_codec_encode(op, feed, &bytes), BIDE_OK);
    send_bytes(client, tag, bide_op_name(op->kind), bytes.data, bytes.size);
}

/* The head of the next answer, whose result then begins what was received. */
static size_t read_head(struct client *client, uint64_t *tag, int *code)
{
    char line[300];
    unsigned long long number;
    size_t size;
    client_line(client, line, sizeof(line));
    assert_int_equal(sscanf(line, "ANSWER %llu %d %zu", &number, code, &size), 3);
    while (client->size < size + 2)
        assert_true(client_receive(client));
    assert_memory_equal(client->data + size, "\r\n", 2);
    *tag = number;
    return size;
}

/* The next answer, which must be for this tag, written into the op. */
static int read_answer(struct client *client, uint64_t tag, bide_op *op, uint64_t *feed)
{
    uint64_t got;
    int code;
    size_t size = read_head(client, &got, &code);
    assert_int_equal(got, tag);
    assert_int_equal(bi_op_codec_decode_result(op, code, client->data, size, feed), BIDE_OK);
    client_consume(client, size + 2);
    return code;
}

static int ask(struct client *client, bide_op *op)
{
    send_call(client, 99, op, 0);
    return read_answer(client, 99, op, NULL);
}

/* ---- some ops ---- */

static bide_op put_of(const char *body)
{
    return (bide_op){.kind = BIDE_OP_PUT, .put = {.topic = topic, .body = {body, strlen(body)}}};
}

static bide_op reserve_of(bide_job *jobs, size_t max, int64_t timeout_ms)
{
    return (bide_op){.kind = BIDE_OP_RESERVE,
                     .reserve = {.topics = &topic,
                                 .topic_count = 1,
                                 .timeout_ms = timeout_ms,
                                 .jobs = jobs,
                                 .job_max = max}};
}

static bide_stats stats_by(struct client *client)
{
    bide_stats stats;
    bide_op op = {.kind = BIDE_OP_STATS, .stats = {&stats}};
    assert_int_equal(ask(client, &op), BIDE_OK);
    return stats;
}

/* Waits until no call waits, by the statistics on another connection. */
static bool await_no_waiters(struct client *client)
{
    for (int i = 0; i < PATIENCE_S * 1000; i++) {
        bide_stats stats = stats_by(client);
        if (stats.waiting + stats.watching == 0)
            return true;
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
    }
    return false;
}

/* ---- tests ---- */

static void replies_come_out_of_order(void **state)
{
    (void)state;
    bide_job job;
    bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
    bide_op put = put_of("late");
    bide_op ping = {.kind = BIDE_OP_PING};
    send_call(&one, 1, &reserve, 0);
    send_call(&one, 2, &ping, 0);
    assert_int_equal(read_answer(&one, 2, &ping, NULL), BIDE_OK);
    assert_int_equal(ask(&two, &put), BIDE_OK);
    assert_int_equal(read_answer(&one, 1, &reserve, NULL), BIDE_OK);
    assert_int_equal(reserve.reserve.count, 1);
    assert_memory_equal(job.body, "late", 5);
    assert_true(job.token != 0);
    bide_job_clear(&job);
}

static void waiting_call_does_not_block_commands(void **state)
{
    (void)state;
    bide_job job;
    bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
    send_call(&one, 1, &reserve, 0);
    client_send_line(&one, "use t\r\nput 0 0 60 1\r\nx\r\nlist-tube-used");
    client_expect(&one, "USING t");
    /* The job that it put is taken by the call, and either may be told first. */
    char line[300];
    int inserted = 0;
    int used = 0;
    for (int i = 0; i < 3; i++) {
        client_line(&one, line, sizeof(line));
        inserted += strcmp(line, "INSERTED 1") == 0;
        used += strcmp(line, "USING t") == 0;
        unsigned long long tag;
        int code;
        size_t size;
        if (sscanf(line, "ANSWER %llu %d %zu", &tag, &code, &size) != 3)
            continue;
        while (one.size < size + 2)
            assert_true(client_receive(&one));
        assert_int_equal(bi_op_codec_decode_result(&reserve, code, one.data, size, NULL), BIDE_OK);
        client_consume(&one, size + 2);
    }
    assert_int_equal(inserted + used, 2);
    assert_int_equal(job.id, 1);
    bide_job_clear(&job);
}

static void unknown_op_is_rejected_with_a_message(void **state)
{
    (void)state;
    bide_op op = {.kind = BIDE_OP_PING};
    send_bytes(&one, 1, "fly", "", 0);
    assert_int_equal(read_answer(&one, 1, &op, NULL), BIDE_ENOTSUP);
    assert_string_not_equal(op.error, "");
    send_bytes(&one, 2, "backup", "\x05/etc", 5);
    assert_int_equal(read_answer(&one, 2, &op, NULL), BIDE_ENOTSUP);
    send_bytes(&one, 3, "kick", "\xff", 1);
    assert_int_equal(read_answer(&one, 3, &op, NULL), BIDE_EINVAL);
    assert_non_null(strstr(op.error, "kick: "));
    send_bytes(&one, 4, "put", "", 0);
    assert_int_equal(read_answer(&one, 4, &op, NULL), BIDE_EINVAL);
    send_bytes(&one, 5, "ping", "", 0);
    assert_int_equal(read_answer(&one, 5, &op, NULL), BIDE_OK);
}

static void oversized_arguments_are_skipped_and_the_call_is_rejected(void **state)
{
    (void)state;
    const size_t size = (size_t)64 << 20;
    char *data = calloc(1, size);
    assert_non_null(data);
    bide_op op = {.kind = BIDE_OP_PING};
    send_bytes(&one, 3, "put", data, size);
    free(data);
    assert_int_equal(read_answer(&one, 3, &op, NULL), BIDE_TOO_BIG);
    assert_int_equal(ask(&one, &op), BIDE_OK);
}

static void waiting_calls_do_not_fill_the_connection(void **state)
{
    (void)state;
    bide_job job;
    bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
    bide_op ping = {.kind = BIDE_OP_PING};
    for (uint64_t tag = 1; tag <= 10001; tag++)
        send_call(&one, tag, &reserve, 0);
    send_call(&one, 20000, &ping, 0);
    assert_int_equal(read_answer(&one, 20000, &ping, NULL), BIDE_OK);
    assert_int_equal(stats_by(&two).waiting, 10001);
    client_send_line(&one, "call-cancel 77");
    assert_int_equal(read_answer(&one, 77, &reserve, NULL), BIDE_CANCELLED);
    send_call(&one, 10002, &reserve, 0);
    client_send_line(&one, "call-cancel 10002");
    assert_int_equal(read_answer(&one, 10002, &reserve, NULL), BIDE_CANCELLED);
}

static void waiting_calls_are_cancelled_when_the_connection_closes(void **state)
{
    (void)state;
    bide_job job;
    bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = 1, .timeout_ms = BIDE_FOREVER}};
    bide_op put = put_of("x");
    bide_op ping = {.kind = BIDE_OP_PING};
    assert_int_equal(ask(&two, &put), BIDE_OK);
    bide_op delay = {.kind = BIDE_OP_PAUSE, .topic = {.topic = topic, .for_ms = BIDE_FOREVER}};
    assert_int_equal(ask(&two, &delay), BIDE_OK);
    send_call(&one, 1, &reserve, 0);
    send_call(&one, 2, &wait, 0);
    send_call(&one, 3, &ping, 0);
    assert_int_equal(read_answer(&one, 3, &ping, NULL), BIDE_OK);
    bide_stats stats = stats_by(&two);
    assert_int_equal(stats.waiting, 1);
    assert_int_equal(stats.watching, 1);
    client_close(&one);
    assert_true(await_no_waiters(&two));
    bide_op resume = {.kind = BIDE_OP_RESUME, .topic = {.topic = topic}};
    assert_int_equal(ask(&two, &resume), BIDE_OK);
    assert_int_equal(ask(&two, &(bide_op){.kind = BIDE_OP_PING}), BIDE_OK);
    bide_op again = reserve_of(&job, 1, 0);
    assert_int_equal(ask(&two, &again), BIDE_OK);
    assert_int_equal(job.id, 1);
    bide_job_clear(&job);
    one = client_open(&server_process);
}

/* Each round a job is put while its taker hangs up. Whether the reserve or the cancel was first,
 * the job is ready in the end, or reserved for as long as an answer that was sent is good. */
static void job_reserved_for_a_closed_connection_is_released(void **state)
{
    (void)state;
    bide_op purge = {.kind = BIDE_OP_PURGE, .purge = {.topic = topic, .state = BIDE_STATE_READY}};
    bide_op ping = {.kind = BIDE_OP_PING};
    bide_job job;
    for (int round = 0; round < 50; round++) {
        bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.ttr_ms = 100;
        bide_op put = put_of("x");
        put.put.options = &options;
        send_call(&one, 1, &reserve, 0);
        send_call(&one, 2, &ping, 0);
        assert_int_equal(read_answer(&one, 2, &ping, NULL), BIDE_OK);
        send_call(&two, 3, &put, 0);
        client_close(&one);
        assert_int_equal(read_answer(&two, 3, &put, NULL), BIDE_OK);
        bide_op again = reserve_of(&job, 1, PATIENCE_S * 1000);
        assert_int_equal(ask(&two, &again), BIDE_OK);
        assert_int_equal(job.id, put.put.id);
        /* Its lease is short: it ends by this, whether it is still held or not. */
        bide_op cancel = {.kind = BIDE_OP_CANCEL, .lease = {.id = job.id}};
        bide_job_clear(&job);
        assert_int_equal(ask(&two, &cancel), BIDE_OK);
        one = client_open(&server_process);
    }
    assert_int_equal(ask(&two, &purge), BIDE_OK);
    assert_int_equal(purge.purge.count, 0);
}

static uint64_t subscribe_by(struct client *client, int *code)
{
    uint64_t feed = 0;
    bide_op op = {.kind = BIDE_OP_SUBSCRIBE};
    send_call(client, 1, &op, 0);
    *code = read_answer(client, 1, &op, &feed);
    return feed;
}

static bide_op events_of(bide_event *events, size_t max)
{
    return (bide_op){
        .kind = BIDE_OP_EVENTS,
        .subscription = {.timeout_ms = BIDE_FOREVER, .events = events, .event_max = max}};
}

static void subscription_number_is_local_to_its_connection(void **state)
{
    (void)state;
    int code;
    bide_event events[4];
    uint64_t first = subscribe_by(&one, &code);
    uint64_t second = subscribe_by(&one, &code);
    assert_int_equal(code, BIDE_OK);
    assert_int_not_equal(first, second);
    bide_op op = events_of(events, 4);
    send_call(&one, 2, &op, second);
    bide_op put = put_of("x");
    assert_int_equal(ask(&two, &put), BIDE_OK);
    assert_int_equal(read_answer(&one, 2, &op, NULL), BIDE_OK);
    assert_int_equal(op.subscription.count, 1);
    assert_int_equal(events[0].kind, BIDE_EVENT_PUT);
    assert_string_equal(events[0].topic, "t");
    send_call(&two, 3, &op, first);
    assert_int_equal(read_answer(&two, 3, &op, NULL), BIDE_EINVAL);
    bide_op end_it = {.kind = BIDE_OP_UNSUBSCRIBE};
    send_call(&one, 4, &end_it, first);
    assert_int_equal(read_answer(&one, 4, &end_it, NULL), BIDE_OK);
    send_call(&one, 5, &end_it, first);
    assert_int_equal(read_answer(&one, 5, &end_it, NULL), BIDE_EINVAL);
}

static void subscriptions_end_with_their_connection(void **state)
{
    (void)state;
    int code;
    bide_event event;
    uint64_t feed = 0;
    for (int i = 0; i < BIDE_SUBSCRIPTIONS_MAX; i++) {
        feed = subscribe_by(&one, &code);
        assert_int_equal(code, BIDE_OK);
    }
    bide_op op = events_of(&event, 1);
    send_call(&one, 2, &op, feed);
    subscribe_by(&two, &code);
    assert_int_equal(code, BIDE_TOO_MANY_WAITERS);
    client_close(&one);
    for (int i = 0; i < PATIENCE_S * 1000 && code == BIDE_TOO_MANY_WAITERS; i++) {
        nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
        subscribe_by(&two, &code);
    }
    assert_int_equal(code, BIDE_OK);
    assert_true(await_no_waiters(&two));
    one = client_open(&server_process);
}

static void half_closed_client_that_waits_is_closed(void **state)
{
    (void)state;
    bide_job job;
    bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
    bide_op put = put_of("x");
    send_call(&one, 1, &reserve, 0);
    send_call(&one, 2, &put, 0);
    send_call(&one, 3, &reserve, 0);
    assert_int_equal(shutdown(one.fd, SHUT_WR), 0);
    for (int i = 0; i < 2; i++) {
        uint64_t tag;
        int code;
        size_t size = read_head(&one, &tag, &code);
        assert_true(tag == 1 || tag == 2);
        assert_int_equal(code, BIDE_OK);
        client_consume(&one, size + 2);
    }
    assert_false(client_receive(&one));
    assert_int_equal(one.size, 0);
}

static void shutdown_does_not_wait_for_waiting_calls(void **state)
{
    (void)state;
    int code;
    bide_job job;
    bide_event event;
    bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
    bide_op op = events_of(&event, 1);
    uint64_t feed = subscribe_by(&one, &code);
    send_call(&one, 1, &reserve, 0);
    send_call(&one, 2, &op, feed);
    bide_op ping = {.kind = BIDE_OP_PING};
    assert_int_equal(ask(&one, &ping), BIDE_OK);
    server_process_send_stop(&server_process);
    assert_false(client_receive(&one));
}

/* Waits for so many jobs, by calls that are not to be answered yet. */
static void wait_for_jobs(struct client *client, uint64_t count)
{
    bide_job job;
    bide_op reserve = reserve_of(&job, 1, BIDE_FOREVER);
    bide_op ping = {.kind = BIDE_OP_PING};
    for (uint64_t tag = 1; tag <= count; tag++)
        send_call(client, tag, &reserve, 0);
    send_call(client, count + 1, &ping, 0);
    assert_int_equal(read_answer(client, count + 1, &ping, NULL), BIDE_OK);
}

static void put_large(struct client *client, uint64_t count)
{
    static char body[60001];
    memset(body, 'b', sizeof(body) - 1);
    bide_op put = put_of(body);
    /* Before a client is cut off there may be no memory for others, for a moment. */
    for (uint64_t i = 0, busy = 0; i < count;) {
        int code = ask(client, &put);
        if (code == BIDE_OK) {
            i++;
            continue;
        }
        assert_int_equal(code, BIDE_EBUSY);
        assert_true(++busy < 1000);
        usleep(20000);
    }
}

static void late_reader_leaves_jobs_to_others(void **state)
{
    (void)state;
    const uint64_t count = 1300;
    wait_for_jobs(&one, count);
    put_large(&two, count);
    assert_true(await_no_waiters(&two));
    bide_stats stats = stats_by(&two);
    assert_int_equal(stats.jobs.ready + stats.jobs.reserved, count);
    assert_true(stats.jobs.ready > 0);
    for (uint64_t i = 0; i < count; i++) {
        uint64_t tag;
        int code;
        size_t size = read_head(&one, &tag, &code);
        assert_int_equal(code, BIDE_OK);
        client_consume(&one, size + 2);
    }
    assert_int_equal(stats_by(&two).jobs.reserved, count);
}

/* Two of them have more than all clients together may have. */
static void client_that_reads_nothing_is_closed_and_its_jobs_are_released(void **state)
{
    (void)state;
    const uint64_t count = 800;
    struct client other = client_open(&server_process);
    wait_for_jobs(&one, count);
    wait_for_jobs(&other, count);
    put_large(&two, 2 * count);
    assert_true(await_no_waiters(&two));
    struct pollfd looks[] = {{.fd = one.fd, .events = POLLRDHUP},
                             {.fd = other.fd, .events = POLLRDHUP}};
    assert_true(poll(looks, 2, PATIENCE_S * 1000) > 0);
    struct client *cut = looks[0].revents != 0 ? &one : &other;
    bide_stats stats = stats_by(&two);
    assert_int_equal(stats.jobs.ready + stats.jobs.reserved, 2 * count);
    assert_true(stats.jobs.ready > 0);
    for (int i = 0; client_receive(cut); i++)
        assert_true(i < 1000000);
    client_close(&other);
}

/* Most random ops are refused; all of them are answered, and every answer is understood. */
static void every_op_is_answered_whatever_its_arguments(void **state)
{
    (void)state;
    static struct op_world world;
    static bide_op op;
    char line[64];
    for (uint64_t tag = 1; tag <= 6000; tag++) {
        bide_op_kind kind = (bide_op_kind)(1 + below(BIDE_OP_COUNT - 1));
        if (!bi_op_is_kind(kind))
            continue;
        any_op(&world, &op, kind);
        send_call(&one, tag, &op, any_u64());
        snprintf(line, sizeof(line), "call-cancel %llu", (unsigned long long)tag);
        client_send_line(&one, line);
        int code = read_answer(&one, tag, &op, NULL);
        assert_string_not_equal(bide_code_name(code), "BIDE_?");
        if (code == BIDE_OK)
            end_answer(&op);
        end_op(&world);
    }
    assert_int_equal(ask(&one, &(bide_op){.kind = BIDE_OP_PING}), BIDE_OK);
}

/* As many as a few random calls take, without the end. */
static size_t any_calls(char *to, size_t room)
{
    static struct op_world world;
    static bide_op op;
    size_t size = 0;
    for (size_t count = 1 + below(20); count > 0; count--) {
        bide_op_kind kind = (bide_op_kind)(1 + below(BIDE_OP_COUNT - 1));
        if (!bi_op_is_kind(kind))
            continue;
        any_op(&world, &op, kind);
        /* Something must happen, too: most random ops are refused. */
        if (kind == BIDE_OP_RESERVE)
            op = reserve_of(world.jobs, 1 + below(LIST_MAX), BIDE_FOREVER);
        else if (kind == BIDE_OP_PUT)
            op = put_of("x");
        else if (kind == BIDE_OP_SUBSCRIBE)
            op.subscription = (bide_subscription_args){.capacity = 10};
        bytes.size = 0;
        assert_int_equal(bi_op_codec_encode(&op, 1 + below(3), &bytes), BIDE_OK);
        end_op(&world);
        if (size + bytes.size + 100 > room)
            break;
        size += (size_t)snprintf(to + size, room - size, "call %zu %s %zu\r\n", below(10),
                                 bide_op_name(kind), bytes.size);
        if (bytes.size > 0)
            memcpy(to + size, bytes.data, bytes.size);
        memcpy(to + size + bytes.size, "\r\n", 2);
        size += bytes.size + 2;
    }
    return below(size + 1);
}

static void connections_closed_during_calls_leave_nothing_behind(void **state)
{
    (void)state;
    static char text[20000];
    int code;
    for (int round = 0; round < 400; round++) {
        struct client short_lived = client_open(&server_process);
        client_send(&short_lived, text, any_calls(text, sizeof(text)));
        if (below(2) == 0) {
            assert_int_equal(shutdown(short_lived.fd, SHUT_WR), 0);
            while (client_receive(&short_lived) && below(4) != 0)
                ;
        }
        client_close(&short_lived);
    }
    assert_true(await_no_waiters(&two));
    /* The server may not have noticed yet that the last of them has gone. */
    for (int i = 0, tries = 0; i < BIDE_SUBSCRIPTIONS_MAX; i += code == BIDE_OK) {
        subscribe_by(&one, &code);
        assert_true(code == BIDE_OK || code == BIDE_TOO_MANY_WAITERS);
        if (code != BIDE_OK)
            usleep(1000);
        assert_true(tries++ < PATIENCE_S * 1000);
    }
    bide_stats stats = stats_by(&two);
    assert_true(stats.total.puts > 0);
    assert_true(stats.total.reserves > 0);
}

/* Answers are held until the store has what they speak of: many calls are under way at once. */
static void many_calls_are_answered_when_they_are_stored(void **state)
{
    (void)state;
    enum { COUNT = 3000 };
    static bool answered[COUNT + 1];
    static bide_job jobs[1000];
    memset(answered, 0, sizeof(answered));
    bide_op put = put_of("kept");
    for (uint64_t tag = 1; tag <= COUNT; tag++)
        send_call(&one, tag, &put, 0);
    for (int i = 0; i < COUNT; i++) {
        uint64_t tag;
        int code;
        size_t size = read_head(&one, &tag, &code);
        assert_int_equal(code, BIDE_OK);
        assert_true(tag >= 1 && tag <= COUNT);
        assert_false(answered[tag]);
        answered[tag] = true;
        client_consume(&one, size + 2);
    }
    for (int taken = 0; taken < COUNT;) {
        bide_op reserve = reserve_of(jobs, 1000, 0);
        assert_int_equal(ask(&two, &reserve), BIDE_OK);
        for (size_t i = 0; i < reserve.reserve.count; i++, taken++) {
            bide_op finish = {.kind = BIDE_OP_DELETE, .lease = {jobs[i].id, jobs[i].token}};
            send_call(&two, (uint64_t)taken, &finish, 0);
            bide_job_clear(&jobs[i]);
        }
        for (size_t i = 0; i < reserve.reserve.count; i++) {
            uint64_t tag;
            int code;
            size_t size = read_head(&two, &tag, &code);
            assert_int_equal(code, BIDE_OK);
            client_consume(&two, size + 2);
        }
    }
    bide_stats stats = stats_by(&one);
    assert_int_equal(stats.total.deletes, COUNT);
    assert_int_equal(stats.jobs.ready + stats.jobs.reserved, 0);
}

#define TEST(name)   cmocka_unit_test_setup_teardown(name, begin, end)
#define STORED(name) cmocka_unit_test_setup_teardown(name, begin_stored, end)

int main(void)
{
    signal(SIGPIPE, SIG_IGN);
    const struct CMUnitTest tests[] = {
        TEST(replies_come_out_of_order),
        TEST(waiting_call_does_not_block_commands),
        TEST(unknown_op_is_rejected_with_a_message),
        TEST(oversized_arguments_are_skipped_and_the_call_is_rejected),
        TEST(waiting_calls_do_not_fill_the_connection),
        TEST(waiting_calls_are_cancelled_when_the_connection_closes),
        TEST(job_reserved_for_a_closed_connection_is_released),
        TEST(subscription_number_is_local_to_its_connection),
        TEST(subscriptions_end_with_their_connection),
        TEST(half_closed_client_that_waits_is_closed),
        TEST(shutdown_does_not_wait_for_waiting_calls),
        TEST(late_reader_leaves_jobs_to_others),
        TEST(client_that_reads_nothing_is_closed_and_its_jobs_are_released),
        TEST(every_op_is_answered_whatever_its_arguments),
        TEST(connections_closed_during_calls_leave_nothing_behind),
        TEST(many_calls_are_answered_when_they_are_stored),
#ifdef BIDE_WITH_SQLITE
        STORED(many_calls_are_answered_when_they_are_stored),
        STORED(job_reserved_for_a_closed_connection_is_released),
        STORED(every_op_is_answered_whatever_its_arguments),
        STORED(connections_closed_during_calls_leave_nothing_behind),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
