/* SPDX-License-Identifier: MIT */
/* What a connection held that has gone, on a store that does not answer; and a stop on such a
 * store. */
#include "op/op_codec.h"
#include "slow_store.h"
#include "stub_server.h"

#define JOBS        2500
#define PENDING_OPS 400 /* of which the server uses three fourths */
#define ROUNDS      1000
#define REJECTIONS  8

static struct slow_store *slow;
static bool answered;
static int64_t attempted_at[REJECTIONS + 1];
static size_t delete_count[2];

/* ---- clients ---- */

/* Sends, and reads that many line ends; false: the server does not answer. */
static bool ask(int fd, const char *words, int ends)
{
    if (send(fd, words, strlen(words), MSG_NOSIGNAL) != (ssize_t)strlen(words))
        return false;
    while (ends > 0) {
        char byte;
        if (recv(fd, &byte, 1, 0) != 1)
            return false;
        ends -= byte == '\n';
    }
    return true;
}

/* Jobs with a limit of retries: when their connection ends they have failed, which is stored. */
static int hold_jobs(void)
{
    int fd = open_client();
    for (int i = 0; i < JOBS; i++)
        if (!ask(fd, "put 0 0 1000 1 retries=3\r\nx\r\n", 1) || !ask(fd, "reserve\r\n", 2))
            abort();
    return fd;
}

/* Far more than a commit takes; the first of these stands in the store. */
static void *put_and_stop(void *arg)
{
    (void)arg;
    int fd = open_client();
    if (!ask(fd, "put 0 0 1000 1\r\nx\r\n", 1))
        abort();
    unsigned started = slow_started(slow);
    slow_set(slow, true, 0);
    for (int i = 0; i < JOBS; i++)
        if (!ask(fd, "put 0 0 1000 1\r\nx\r\n", 0))
            abort();
    slow_await(slow, started + 1);
    kill(getpid(), SIGTERM);
    /* Until the server closes it. */
    for (char byte; recv(fd, &byte, 1, 0) == 1;)
        ;
    close(fd);
    return NULL;
}

static void *run_clients(void *arg)
{
    (void)arg;
    int holder = hold_jobs();
    int other = open_client();
    if (!ask(other, "list-tube-used\r\n", 1))
        abort();
    unsigned started = slow_started(slow);
    slow_set(slow, true, 0);
    close(holder);
    slow_await(slow, started + 1);
    /* Between two of these the server gives back some more, until it has to wait for the store. */
    answered = true;
    for (int i = 0; i < ROUNDS && answered; i++)
        answered = ask(other, "list-tube-used\r\n", 1);
    slow_set(slow, false, 0);
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

/* A connection of a stub server that holds job 1. */
static int hold_stub_job(void)
{
    int fd = open_client();
    stub_add_job(stub, stub_job(1, 1000000));
    if (!ask(fd, "reserve\r\n", 2))
        abort();
    return fd;
}

static void *close_while_the_queue_is_full(void *arg)
{
    (void)arg;
    int fd = hold_stub_job();
    for (int i = 0; i < REJECTIONS; i++)
        stub_once(stub, BIDE_OP_GIVE_BACK, BIDE_EBUSY);
    close(fd);

    /* No other event wakes the loop. */
    for (size_t i = 0; i <= REJECTIONS; i++)
        attempted_at[i] = stub_await(stub, BIDE_OP_GIVE_BACK, 1, i + 1).at;
    kill(getpid(), SIGTERM);
    return NULL;
}

/* The lease ends while the delete is held: after its connection has closed, and before, while the
 * reply waits for that of the put. A reply that is not read makes the close a reset: the server
 * waits for the ops of a connection that only ends. */
static void *lose_leases_of_held_deletes(void *arg)
{
    static const char commands[] = "list-tube-used\r\nput 0 0 60 1\r\nx\r\ndelete 1\r\n";
    (void)arg;
    int other = open_client();
    stub_rule(stub, BIDE_OP_PUT, HELD, BIDE_OK);
    for (size_t i = 0; i < 2; i++) {
        bool closes_first = i == 0;
        int fd = hold_stub_job();
        stub_rule(stub, BIDE_OP_DELETE, HELD, BIDE_OK);
        send_bytes(fd, commands, sizeof(commands) - 1);
        stub_await(stub, BIDE_OP_DELETE, 1, 2 * i + 1);
        stub_rule(stub, BIDE_OP_DELETE, AT_ONCE, BIDE_OK);
        ping_server(other);
        if (closes_first)
            close(fd);
        ping_server(other);
        stub_release(stub, BIDE_OP_DELETE, BIDE_LEASE_LOST);
        ping_server(other);
        if (!closes_first)
            close(fd);
        ping_server(other);
        delete_count[i] = stub_count(stub, BIDE_OP_DELETE, 1);
        stub_release(stub, BIDE_OP_PUT, BIDE_OK);
    }
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

/* ---- the server ---- */

/* Runs a server with these clients until it stops. Answers its queue. */
static bide *serve(void *(*clients)(void *arg), int64_t stop_timeout_ms)
{
    struct server_settings settings = {
        .queue = slow_open("memory:", &slow),
        .limits = {.max_connections = 10,
                   .stop_timeout_ms = stop_timeout_ms,
                   .max_client_bytes = 1 << 20},
    };
    settings.queue->options.max_pending_ops = PENDING_OPS;
    run_server(&settings, clients);
    return settings.queue;
}

static void other_clients_are_answered_while_releases_are_pending(void **state)
{
    (void)state;
    bide *queue = serve(run_clients, 10000);
    assert_true(answered);

    /* All of it went back in the end. */
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.reserved, 0);
    assert_int_equal(stats.total.fails, JOBS);
    assert_int_equal(bide_close(queue), BIDE_OK);
}

static void expired_shutdown_starts_no_commit(void **state)
{
    (void)state;
    bide *queue = serve(put_and_stop, 100);
    /* The server has given up: its time was over. Now the commit ends that it has waited for. */
    unsigned started = slow_started(slow);
    slow_set(slow, false, 0);
    queue->backend->ops->close(queue->backend);
    assert_int_equal(slow_started(slow), started);
    assert_in_range(slow_jobs(slow), 2, JOBS);
    queue->backend->ops->free(queue->backend);
    free(queue);
}

/* The pauses are lower bounds, whatever the speed of the machine. */
static void release_rejected_by_a_full_queue_is_retried_after_growing_pauses(void **state)
{
    (void)state;
    serve_stub(close_while_the_queue_is_full, 1 << 20);
    for (int i = 0; i < REJECTIONS; i++)
        assert_true(attempted_at[i + 1] - attempted_at[i] >= INT64_C(1000) << i);
}

/* Its release is still in the batch when the server is freed. */
static void lease_rejected_while_the_server_is_freed_is_not_kept(void **state)
{
    (void)state;
    char error[BIDE_ERROR_SIZE];
    struct server *server;
    stub = stub_new();
    struct server_settings settings = {.queue = &stub->queue};
    assert_int_equal(bi_server_new(&settings, &server, error), BIDE_OK);
    stub_rule(stub, BIDE_OP_GIVE_BACK, AT_ONCE, BIDE_EBUSY);
    bi_release_lease(server, 1, TOKEN_OF(1), false);

    bi_release_done(server);
    assert_int_equal(stub_count(stub, BIDE_OP_GIVE_BACK, 1), 1);
    assert_true(bi_release_is_complete(server));
    bi_server_free(server);
    stub_free(stub);
}

static void delete_of_a_closed_connection_is_retried_without_its_lost_lease(void **state)
{
    (void)state;
    serve_stub(lose_leases_of_held_deletes, 1 << 20);
    assert_int_equal(delete_count[0], 2);
    assert_int_equal(delete_count[1], 4);
}

/* ---- references to topics ---- */

struct scene {
    bool owns;     /* the connection has a reference before */
    int deltas[2]; /* of the calls under way, 0: none */
    int codes[2];  /* with which they complete when the connection has gone */
    size_t
        given; /* references that the queue is asked to give back, the client's own calls included */
};

static const struct scene *scene;
static size_t given;

static void refer(int fd, int delta)
{
    bide_op op = {.kind = BIDE_OP_TOPIC_REF, .topic = {.topic = {"t", 1}, .delta = delta}};
    struct op_bytes bytes = {0};
    char line[64];
    if (bi_op_codec_encode(&op, 0, &bytes) != BIDE_OK)
        abort();
    snprintf(line, sizeof(line), "call 1 topic_ref %zu\r\n", bytes.size);
    send_bytes(fd, line, strlen(line));
    send_bytes(fd, bytes.data, bytes.size);
    send_bytes(fd, "\r\n", 2);
    bi_op_codec_wire_free_bytes(&bytes);
}

/* How many ops about the topic have come that give back, or all of them. */
static size_t count_refs(bool back)
{
    size_t count = 0;
    pthread_mutex_lock(&stub->lock);
    for (size_t i = 0; i < stub->note_count; i++) {
        const struct stub_record *note = &stub->notes[i];
        count += note->kind == BIDE_OP_TOPIC_REF && strcmp(note->text, "t") == 0 &&
                 (!back || note->delta < 0);
    }
    pthread_mutex_unlock(&stub->lock);
    return count;
}

static void *refer_and_leave(void *arg)
{
    (void)arg;
    int holder = open_client();
    int other = open_client();
    size_t calls = scene->owns;
    if (scene->owns)
        refer(holder, 1);
    ping_server(holder);
    stub_rule(stub, BIDE_OP_TOPIC_REF, HELD, BIDE_OK);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0) {
            refer(holder, scene->deltas[i]);
            calls++;
        }
    send_bytes(holder, "list-tube-used\r\n",
               16); /* whose answer is not read: then the connection is reset */
    while (count_refs(false) < calls)
        ping_server(other);
    ping_server(other);
    stub_rule(stub, BIDE_OP_TOPIC_REF, AT_ONCE, BIDE_OK);
    close(holder);
    ping_server(other);
    for (int i = 0; i < 2; i++)
        if (scene->deltas[i] != 0)
            stub_release(stub, BIDE_OP_TOPIC_REF, scene->codes[i]);
    ping_server(other);
    given = count_refs(true);
    close(other);
    kill(getpid(), SIGTERM);
    return NULL;
}

static void play(const struct scene *what)
{
    scene = what;
    serve_stub(refer_and_leave, 1 << 20);
    assert_int_equal(given, what->given);
}

static void ref_made_after_close_is_released(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 3});
}

static void ref_that_failed_is_not_released(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1}, .codes = {BIDE_CANCELLED}, .given = 0});
    play(&(struct scene){
        .owns = true, .deltas = {1, 1}, .codes = {BIDE_OK, BIDE_ENOMEM}, .given = 2});
}

static void ref_released_by_its_client_is_released_once(void **state)
{
    (void)state;
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_OK}, .given = 1});
    play(&(struct scene){.owns = true, .deltas = {-1, 1}, .codes = {BIDE_OK, BIDE_OK}, .given = 2});
}

static void failed_release_of_a_ref_is_retried(void **state)
{
    (void)state;
    play(&(struct scene){.owns = true, .deltas = {-1}, .codes = {BIDE_CANCELLED}, .given = 2});
    play(&(struct scene){.deltas = {1, -1}, .codes = {BIDE_OK, BIDE_CANCELLED}, .given = 2});
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(other_clients_are_answered_while_releases_are_pending),
        cmocka_unit_test(release_rejected_by_a_full_queue_is_retried_after_growing_pauses),
        cmocka_unit_test(lease_rejected_while_the_server_is_freed_is_not_kept),
        cmocka_unit_test(delete_of_a_closed_connection_is_retried_without_its_lost_lease),
        cmocka_unit_test(ref_made_after_close_is_released),
        cmocka_unit_test(ref_that_failed_is_not_released),
        cmocka_unit_test(ref_released_by_its_client_is_released_once),
        cmocka_unit_test(failed_release_of_a_ref_is_retried),
        /* Last: run_server() keeps what one server leaves behind reachable, not that of several. */
        cmocka_unit_test(expired_shutdown_starts_no_commit),
    };
    return cmocka_run_group_tests_name("leaving", tests, NULL, NULL);
}
