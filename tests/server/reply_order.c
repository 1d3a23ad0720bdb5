/* SPDX-License-Identifier: MIT */
/*
 * reply_order.c - answers come in the order of the commands, and no command is lost, however many
 * are sent at once and in however small pieces.
 */
#include "robust.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define JOBS       300
#define PEEKS      50
#define LOOK_TURNS 20

/* ---- many commands, one packet ---- */

struct text {
    char *data;
    size_t size, room;
};

static void add(struct text *text, const void *data, size_t size)
{
    if (text->room - text->size < size) {
        text->room = (text->room + size) * 2;
        text->data = realloc(text->data, text->room);
        CHECK(text->data != NULL);
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

static void add_line(struct text *text, const char *line)
{
    add(text, line, strlen(line));
    add(text, "\r\n", 2);
}

static void add_put(struct text *text, uint64_t serial)
{
    char line[64];
    size_t size;
    const void *body = body_of(serial, &size);
    snprintf(line, sizeof line, "put 5 0 100 %zu", size);
    add_line(text, line);
    add(text, body, size);
    add(text, "\r\n", 2);
}

static void hear_reserved(struct client *client, uint64_t id, uint64_t serial)
{
    struct job_reply job_reply;
    char line[64];
    if (!read_job(client, "RESERVED", &job_reply, line))
        FAIL("expected RESERVED %" PRIu64 ", got \"%s\"", id, line);
    EQ(job_reply.id, id);
    CHECK(body_is(serial, job_reply.body, job_reply.size));
}

static void delete_all(struct client *client, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        send_text(client, "delete %" PRIu64 "\r\n", ids[i]);
    for (size_t i = 0; i < count; i++)
        EXPECT_LINE(client, "DELETED");
}

/* put, a question, reserve, a question, again and again: what is stored first is answered between
 * what can be answered at once. */
static void send_cycles(struct client *client, size_t piece, uint64_t jobs)
{
    struct text text = {0};
    static uint64_t ids[JOBS];
    for (uint64_t i = 0; i < jobs; i++) {
        add_put(&text, i);
        add_line(&text, "list-tube-used");
        add_line(&text, "reserve-with-timeout 0");
        add_line(&text, "nonsense");
    }
    for (size_t sent = 0; sent < text.size; sent += piece)
        test_client_send(client, text.data + sent,
                         text.size - sent < piece ? text.size - sent : piece);
    for (uint64_t i = 0; i < jobs; i++) {
        ids[i] = EXPECT_NUMBER(client, "INSERTED");
        CHECK(i == 0 || ids[i] > ids[i - 1]);
        EXPECT_LINE(client, "USING order");
        hear_reserved(client, ids[i], i);
        EXPECT_LINE(client, "UNKNOWN_COMMAND");
    }
    CHECK(has_no_input(client));
    delete_all(client, ids, jobs);
    free(text.data);
}

static void cycle_at_once(const struct server *server)
{
    struct client client;
    test_client_open(&client, server);
    test_client_use_only(&client, "order");
    send_cycles(&client, SIZE_MAX, JOBS);
    test_client_close(&client);
}

static void replies_come_in_command_order(void)
{
    with_server(IN_MEMORY, cycle_at_once);
}

static void replies_come_in_command_order_with_a_file(void)
{
    with_server(IN_FILE, cycle_at_once);
}

static void cycle_in_pieces(const struct server *server)
{
    static const size_t pieces[] = {97, 1000, 4097};
    struct client client;
    test_client_open(&client, server);
    test_client_use_only(&client, "order");
    for (size_t i = 0; i < COUNT(pieces); i++)
        send_cycles(&client, pieces[i], JOBS);
    send_cycles(&client, 1, 20);
    test_client_close(&client);
}

static void input_of_any_piece_size_gets_the_same_replies(void)
{
    with_server(IN_MEMORY, cycle_in_pieces);
    with_server(IN_FILE, cycle_in_pieces);
}

/* Deletes, releases and burials of one job behind each other, in one packet. */
static void change_in_a_row(const struct server *server)
{
    struct client client;
    test_client_open(&client, server);
    test_client_use_only(&client, "row");
    for (uint64_t i = 0; i < 50; i++) {
        CHECK(send_put(&client, 5, 0, 100, "row", 3));
        uint64_t id = EXPECT_NUMBER(&client, "INSERTED");
        send_text(
            &client,
            "reserve\r\nrelease %" PRIu64 " 1 0\r\nreserve\r\nbury %" PRIu64 " 1\r\nkick 1\r\n"
            "reserve\r\ndelete %" PRIu64 "\r\ndelete %" PRIu64 "\r\nreserve-with-timeout 0\r\n",
            id, id, id, id);
        CHECK(EXPECT_NUMBER(&client, "RESERVED") == id);
        EXPECT_LINE(&client, "row");
        EXPECT_LINE(&client, "RELEASED");
        CHECK(EXPECT_NUMBER(&client, "RESERVED") == id);
        EXPECT_LINE(&client, "row");
        EXPECT_LINE(&client, "BURIED");
        EXPECT_LINE(&client, "KICKED 1");
        CHECK(EXPECT_NUMBER(&client, "RESERVED") == id);
        EXPECT_LINE(&client, "row");
        EXPECT_LINE(&client, "DELETED");
        EXPECT_LINE(&client, "NOT_FOUND");
        EXPECT_LINE(&client, "TIMED_OUT");
    }
    test_client_close(&client);
}

static void each_command_sees_the_effects_of_earlier_ones(void)
{
    with_server(IN_MEMORY, change_in_a_row);
    with_server(IN_FILE, change_in_a_row);
}

/* ---- behind a reserve whose answer waits for the disk ---- */

/* A reserve that has its job holds up nothing behind it, though its answer waits until the job is
 * stored: all of a packet goes into a few commits. Each commit takes several writes. */
static void reserve_what_is_not_stored(const struct server *server)
{
    enum { PAIRS = 200 };
    struct text text = {0};
    struct client client;
    uint64_t ids[PAIRS];
    test_client_open(&client, server);
    test_client_use_only(&client, "pairs");
    for (int i = 0; i < PAIRS; i++)
        add_line(&text, "put 0 0 100 1\r\nx\r\nreserve");
    int64_t writes = test_server_writes(server);
    test_client_send(&client, text.data, text.size);
    for (int i = 0; i < PAIRS; i++) {
        ids[i] = EXPECT_NUMBER(&client, "INSERTED");
        CHECK(EXPECT_NUMBER(&client, "RESERVED") == ids[i]);
        EXPECT_LINE(&client, "x");
    }
    BETWEEN(test_server_writes(server) - writes, 1, PAIRS);
    delete_all(&client, ids, PAIRS);
    test_client_close(&client);
    free(text.data);
}

static void reserve_waiting_for_a_commit_does_not_block_commands(void)
{
    test_server_settings.parameters = "sync=full";
    with_server(IN_FILE, reserve_what_is_not_stored);
}

/* ---- behind a waiting reserve ---- */

#define WAITING 20

/* What is sent in one packet with a reserve that waits. */
static void send_behind(struct client *client, uint64_t serial)
{
    struct text text = {0};
    add_line(&text, "reserve");
    add_line(&text, "use behind");
    add_put(&text, serial);
    add_line(&text, "list-tube-used");
    add_line(&text, "reserve-with-timeout 0");
    add_line(&text, "use front");
    test_client_send(client, text.data, text.size);
    free(text.data);
}

static void hear_behind(struct client *client, uint64_t serial)
{
    struct job_reply job_reply;
    char line[64];
    CHECK(read_job(client, "RESERVED", &job_reply, line));
    uint64_t first = job_reply.id;
    EXPECT_LINE(client, "USING behind");
    uint64_t second = EXPECT_NUMBER(client, "INSERTED");
    EXPECT_LINE(client, "USING behind");
    EXPECT_LINE(client, "TIMED_OUT");
    EXPECT_LINE(client, "USING front");
    send_text(client, "peek %" PRIu64 "\r\n", second);
    CHECK(read_job(client, "FOUND", &job_reply, line));
    CHECK(body_is(serial, job_reply.body, job_reply.size));
    delete_all(client, (const uint64_t[]){first, second}, 2);
}

static void wait_in_front(const struct server *server)
{
    struct client others[WAITING];
    struct client giver;
    test_client_open(&giver, server);
    send_text(&giver, "use front\r\n");
    EXPECT_LINE(&giver, "USING front");
    for (uint64_t i = 0; i < WAITING; i++) {
        test_client_open(&others[i], server);
        test_client_use_only(&others[i], "front");
        send_behind(&others[i], i);
    }
    UNTIL(test_client_stat(&giver, "stats", "current-waiting") == WAITING);
    EQ(test_client_stat(&giver, "stats-tube behind", "total-jobs"), -1);
    for (size_t i = 0; i < WAITING; i++)
        CHECK(has_no_input(&others[i]));
    for (size_t i = 0; i < WAITING; i++)
        CHECK(send_put(&giver, 0, 0, 100, "go", 2));
    for (size_t i = 0; i < WAITING; i++)
        EXPECT_NUMBER(&giver, "INSERTED");
    for (uint64_t i = 0; i < WAITING; i++) {
        hear_behind(&others[i], i);
        test_client_close(&others[i]);
    }
    test_client_close(&giver);
}

static void commands_after_a_waiting_reserve_are_kept(void)
{
    with_server(IN_MEMORY, wait_in_front);
    with_server(IN_FILE, wait_in_front);
}

static void time_out_in_front(const struct server *server)
{
    struct client client;
    int64_t start_us = clock_us();
    test_client_open(&client, server);
    send_text(&client,
              "reserve-with-timeout 1\r\nput 0 0 100 5\r\nafter\r\nreserve\r\nlist-tube-used\r\n");
    EXPECT_LINE(&client, "TIMED_OUT");
    NOT_BEFORE(start_us, 1000);
    uint64_t id = EXPECT_NUMBER(&client, "INSERTED");
    CHECK(EXPECT_NUMBER(&client, "RESERVED") == id);
    EXPECT_LINE(&client, "after");
    EXPECT_LINE(&client, "USING default");
    delete_all(&client, &id, 1);
    test_client_close(&client);
}

static void commands_after_a_timeout_are_kept(void)
{
    with_server(IN_MEMORY, time_out_in_front);
    with_server(IN_FILE, time_out_in_front);
}

/* ---- the end of what is sent ---- */

/* A client that has said all it has to say, and closes that side, hears all answers. */
static void say_all_and_listen(const struct server *server)
{
    struct client client;
    test_client_open(&client, server);
    client.may_end = true;
    for (int i = 0; i < 100; i++)
        CHECK(send_put(&client, 0, 0, 100, "all", 3));
    send_text(&client, "reserve\r\nput 0 0 100 10\r\nhalf");
    shutdown(client.fd, SHUT_WR);
    uint64_t ids[100];
    for (int i = 0; i < 100; i++)
        ids[i] = EXPECT_NUMBER(&client, "INSERTED");
    CHECK(EXPECT_NUMBER(&client, "RESERVED") == ids[0]);
    EXPECT_LINE(&client, "all");
    CHECK(read_line(&client) == NULL);
    test_client_close(&client);
    test_client_open(&client, server);
    UNTIL(test_client_stat(&client, "stats", "current-jobs-ready") == 100);
    delete_all(&client, ids, 100);
    test_client_close(&client);
}

/* The same with answers that take a look into the file. */
static void look_and_listen(const struct server *server)
{
    struct client client;
    struct job_reply job_reply;
    char line[64];
    size_t size;
    uint64_t ids[PEEKS];
    for (int turn = 0; turn < LOOK_TURNS; turn++) {
        test_client_open(&client, server);
        client.may_end = true;
        for (uint64_t i = 0; i < PEEKS; i++) {
            const void *body = body_of(i, &size);
            CHECK(send_put(&client, 0, 0, 100, body, size));
            ids[i] = EXPECT_NUMBER(&client, "INSERTED");
        }
        for (uint64_t i = 0; i < PEEKS; i++)
            send_text(&client, "peek %" PRIu64 "\r\nreserve-with-timeout 0\r\n", ids[i]);
        shutdown(client.fd, SHUT_WR);
        for (uint64_t i = 0; i < PEEKS; i++) {
            if (!read_job(&client, "FOUND", &job_reply, line))
                FAIL("expected FOUND, got \"%s\"", line);
            CHECK(job_reply.id == ids[i] && body_is(i, job_reply.body, job_reply.size));
            hear_reserved(&client, ids[i], i);
        }
        CHECK(read_line(&client) == NULL);
        test_client_close(&client);
        test_client_open(&client, server);
        UNTIL(test_client_stat(&client, "stats", "current-jobs-ready") == PEEKS);
        delete_all(&client, ids, PEEKS);
        test_client_close(&client);
    }
}

static void half_closed_client_reads_bodies_loaded_from_the_file(void)
{
    test_server_settings.parameters = "sync=off&cache_bytes=1";
    with_server(IN_FILE, look_and_listen);
}

static void half_closed_client_reads_every_reply(void)
{
    with_server(IN_MEMORY, say_all_and_listen);
    with_server(IN_FILE, say_all_and_listen);
}

static const struct test tests[] = {
    TEST(replies_come_in_command_order),
    TEST(replies_come_in_command_order_with_a_file),
    TEST(input_of_any_piece_size_gets_the_same_replies),
    TEST(each_command_sees_the_effects_of_earlier_ones),
    TEST(reserve_waiting_for_a_commit_does_not_block_commands),
    TEST(commands_after_a_waiting_reserve_are_kept),
    TEST(commands_after_a_timeout_are_kept),
    TEST(half_closed_client_reads_every_reply),
    TEST(half_closed_client_reads_bodies_loaded_from_the_file),
};

const struct theme reply_order_theme = {"reply_order", tests, COUNT(tests)};
