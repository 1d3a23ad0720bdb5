/* SPDX-License-Identifier: MIT */
/*
 * order.c - answers come in the order of the commands, and no command is lost, however many are
 * sent at once and in however small pieces.
 */
#include "robust.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#define JOBS       300
#define LOOKS      50
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

static void hear_reserved(struct talk *talk, uint64_t id, uint64_t serial)
{
    struct given given;
    char line[64];
    if (!hear_job(talk, "RESERVED", &given, line))
        FAIL("expected RESERVED %" PRIu64 ", got \"%s\"", id, line);
    EQ(given.id, id);
    CHECK(body_is(serial, given.body, given.size));
}

static void delete_all(struct talk *talk, const uint64_t *ids, size_t count)
{
    for (size_t i = 0; i < count; i++)
        say(talk, "delete %" PRIu64 "\r\n", ids[i]);
    for (size_t i = 0; i < count; i++)
        HEAR(talk, "DELETED");
}

/* put, a question, reserve, a question, again and again: what is stored first is answered between
 * what can be answered at once. */
static void send_cycles(struct talk *talk, size_t piece, uint64_t jobs)
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
        talk_send(talk, text.data + sent, text.size - sent < piece ? text.size - sent : piece);
    for (uint64_t i = 0; i < jobs; i++) {
        ids[i] = HEAR_NUMBER(talk, "INSERTED");
        CHECK(i == 0 || ids[i] > ids[i - 1]);
        HEAR(talk, "USING order");
        hear_reserved(talk, ids[i], i);
        HEAR(talk, "UNKNOWN_COMMAND");
    }
    CHECK(is_silent(talk));
    delete_all(talk, ids, jobs);
    free(text.data);
}

static void cycle_at_once(const struct peer *peer)
{
    struct talk talk;
    talk_open(&talk, peer);
    talk_stay(&talk, "order");
    send_cycles(&talk, SIZE_MAX, JOBS);
    talk_close(&talk);
}

static void answers_come_in_the_order_of_the_commands(void)
{
    with_peer(IN_MEMORY, cycle_at_once);
}

static void answers_come_in_the_order_of_the_commands_when_jobs_are_stored(void)
{
    with_peer(IN_FILE, cycle_at_once);
}

static void cycle_in_pieces(const struct peer *peer)
{
    static const size_t pieces[] = {97, 1000, 4097};
    struct talk talk;
    talk_open(&talk, peer);
    talk_stay(&talk, "order");
    for (size_t i = 0; i < COUNT(pieces); i++)
        send_cycles(&talk, pieces[i], JOBS);
    send_cycles(&talk, 1, 20);
    talk_close(&talk);
}

static void pieces_of_any_size_are_answered_alike(void)
{
    with_peer(IN_MEMORY, cycle_in_pieces);
    with_peer(IN_FILE, cycle_in_pieces);
}

/* Deletes, releases and burials of one job behind each other, in one packet. */
static void change_in_a_row(const struct peer *peer)
{
    struct talk talk;
    talk_open(&talk, peer);
    talk_stay(&talk, "row");
    for (uint64_t i = 0; i < 50; i++) {
        CHECK(say_put(&talk, 5, 0, 100, "row", 3));
        uint64_t id = HEAR_NUMBER(&talk, "INSERTED");
        say(&talk,
            "reserve\r\nrelease %" PRIu64 " 1 0\r\nreserve\r\nbury %" PRIu64 " 1\r\nkick 1\r\n"
            "reserve\r\ndelete %" PRIu64 "\r\ndelete %" PRIu64 "\r\nreserve-with-timeout 0\r\n",
            id, id, id, id);
        CHECK(HEAR_NUMBER(&talk, "RESERVED") == id);
        HEAR(&talk, "row");
        HEAR(&talk, "RELEASED");
        CHECK(HEAR_NUMBER(&talk, "RESERVED") == id);
        HEAR(&talk, "row");
        HEAR(&talk, "BURIED");
        HEAR(&talk, "KICKED 1");
        CHECK(HEAR_NUMBER(&talk, "RESERVED") == id);
        HEAR(&talk, "row");
        HEAR(&talk, "DELETED");
        HEAR(&talk, "NOT_FOUND");
        HEAR(&talk, "TIMED_OUT");
    }
    talk_close(&talk);
}

static void each_command_sees_what_those_before_it_did(void)
{
    with_peer(IN_MEMORY, change_in_a_row);
    with_peer(IN_FILE, change_in_a_row);
}

/* ---- behind a reserve whose answer waits for the disk ---- */

/* A reserve that has its job holds up nothing behind it, though its answer waits until the job is
 * stored: all of a packet goes into a few commits. Each commit takes several writes. */
static void reserve_what_is_not_stored(const struct peer *peer)
{
    enum { PAIRS = 200 };
    struct text text = {0};
    struct talk talk;
    uint64_t ids[PAIRS];
    talk_open(&talk, peer);
    talk_stay(&talk, "pairs");
    for (int i = 0; i < PAIRS; i++)
        add_line(&text, "put 0 0 100 1\r\nx\r\nreserve");
    int64_t writes = peer_writes(peer);
    talk_send(&talk, text.data, text.size);
    for (int i = 0; i < PAIRS; i++) {
        ids[i] = HEAR_NUMBER(&talk, "INSERTED");
        CHECK(HEAR_NUMBER(&talk, "RESERVED") == ids[i]);
        HEAR(&talk, "x");
    }
    BETWEEN(peer_writes(peer) - writes, 1, PAIRS);
    delete_all(&talk, ids, PAIRS);
    talk_close(&talk);
    free(text.data);
}

static void a_reserve_that_waits_for_the_disk_holds_up_nothing(void)
{
    peer_settings.parameters = "sync=full";
    with_peer(IN_FILE, reserve_what_is_not_stored);
}

/* ---- behind a waiting reserve ---- */

#define WAITING 20

/* What is sent in one packet with a reserve that waits. */
static void send_behind(struct talk *talk, uint64_t serial)
{
    struct text text = {0};
    add_line(&text, "reserve");
    add_line(&text, "use behind");
    add_put(&text, serial);
    add_line(&text, "list-tube-used");
    add_line(&text, "reserve-with-timeout 0");
    add_line(&text, "use front");
    talk_send(talk, text.data, text.size);
    free(text.data);
}

static void hear_behind(struct talk *talk, uint64_t serial)
{
    struct given given;
    char line[64];
    CHECK(hear_job(talk, "RESERVED", &given, line));
    uint64_t first = given.id;
    HEAR(talk, "USING behind");
    uint64_t second = HEAR_NUMBER(talk, "INSERTED");
    HEAR(talk, "USING behind");
    HEAR(talk, "TIMED_OUT");
    HEAR(talk, "USING front");
    say(talk, "peek %" PRIu64 "\r\n", second);
    CHECK(hear_job(talk, "FOUND", &given, line));
    CHECK(body_is(serial, given.body, given.size));
    delete_all(talk, (const uint64_t[]){first, second}, 2);
}

static void wait_in_front(const struct peer *peer)
{
    struct talk others[WAITING];
    struct talk giver;
    talk_open(&giver, peer);
    say(&giver, "use front\r\n");
    HEAR(&giver, "USING front");
    for (uint64_t i = 0; i < WAITING; i++) {
        talk_open(&others[i], peer);
        talk_stay(&others[i], "front");
        send_behind(&others[i], i);
    }
    UNTIL(talk_stat(&giver, "stats", "current-waiting") == WAITING);
    EQ(talk_stat(&giver, "stats-tube behind", "total-jobs"), -1);
    for (size_t i = 0; i < WAITING; i++)
        CHECK(is_silent(&others[i]));
    for (size_t i = 0; i < WAITING; i++)
        CHECK(say_put(&giver, 0, 0, 100, "go", 2));
    for (size_t i = 0; i < WAITING; i++)
        HEAR_NUMBER(&giver, "INSERTED");
    for (uint64_t i = 0; i < WAITING; i++) {
        hear_behind(&others[i], i);
        talk_close(&others[i]);
    }
    talk_close(&giver);
}

static void what_is_behind_a_waiting_reserve_waits_and_is_not_lost(void)
{
    with_peer(IN_MEMORY, wait_in_front);
    with_peer(IN_FILE, wait_in_front);
}

static void time_out_in_front(const struct peer *peer)
{
    struct talk talk;
    int64_t start_us = clock_us();
    talk_open(&talk, peer);
    say(&talk, "reserve-with-timeout 1\r\nput 0 0 100 5\r\nafter\r\nreserve\r\nlist-tube-used\r\n");
    HEAR(&talk, "TIMED_OUT");
    NOT_BEFORE(start_us, 1000);
    uint64_t id = HEAR_NUMBER(&talk, "INSERTED");
    CHECK(HEAR_NUMBER(&talk, "RESERVED") == id);
    HEAR(&talk, "after");
    HEAR(&talk, "USING default");
    delete_all(&talk, &id, 1);
    talk_close(&talk);
}

static void what_is_behind_a_timeout_is_not_lost(void)
{
    with_peer(IN_MEMORY, time_out_in_front);
    with_peer(IN_FILE, time_out_in_front);
}

/* ---- the end of what is sent ---- */

/* A client that has said all it has to say, and closes that side, hears all answers. */
static void say_all_and_listen(const struct peer *peer)
{
    struct talk talk;
    talk_open(&talk, peer);
    talk.may_end = true;
    for (int i = 0; i < 100; i++)
        CHECK(say_put(&talk, 0, 0, 100, "all", 3));
    say(&talk, "reserve\r\nput 0 0 100 10\r\nhalf");
    shutdown(talk.fd, SHUT_WR);
    uint64_t ids[100];
    for (int i = 0; i < 100; i++)
        ids[i] = HEAR_NUMBER(&talk, "INSERTED");
    CHECK(HEAR_NUMBER(&talk, "RESERVED") == ids[0]);
    HEAR(&talk, "all");
    CHECK(hear(&talk) == NULL);
    talk_close(&talk);
    talk_open(&talk, peer);
    UNTIL(talk_stat(&talk, "stats", "current-jobs-ready") == 100);
    delete_all(&talk, ids, 100);
    talk_close(&talk);
}

/* The same with answers that take a look into the file. */
static void look_and_listen(const struct peer *peer)
{
    struct talk talk;
    struct given given;
    char line[64];
    size_t size;
    uint64_t ids[LOOKS];
    for (int turn = 0; turn < LOOK_TURNS; turn++) {
        talk_open(&talk, peer);
        talk.may_end = true;
        for (uint64_t i = 0; i < LOOKS; i++) {
            const void *body = body_of(i, &size);
            CHECK(say_put(&talk, 0, 0, 100, body, size));
            ids[i] = HEAR_NUMBER(&talk, "INSERTED");
        }
        for (uint64_t i = 0; i < LOOKS; i++)
            say(&talk, "peek %" PRIu64 "\r\nreserve-with-timeout 0\r\n", ids[i]);
        shutdown(talk.fd, SHUT_WR);
        for (uint64_t i = 0; i < LOOKS; i++) {
            if (!hear_job(&talk, "FOUND", &given, line))
                FAIL("expected FOUND, got \"%s\"", line);
            CHECK(given.id == ids[i] && body_is(i, given.body, given.size));
            hear_reserved(&talk, ids[i], i);
        }
        CHECK(hear(&talk) == NULL);
        talk_close(&talk);
        talk_open(&talk, peer);
        UNTIL(talk_stat(&talk, "stats", "current-jobs-ready") == LOOKS);
        delete_all(&talk, ids, LOOKS);
        talk_close(&talk);
    }
}

static void a_client_that_says_no_more_hears_what_is_read_from_the_file(void)
{
    peer_settings.parameters = "sync=off&cache_bytes=1";
    with_peer(IN_FILE, look_and_listen);
}

static void a_client_that_says_no_more_hears_every_answer(void)
{
    with_peer(IN_MEMORY, say_all_and_listen);
    with_peer(IN_FILE, say_all_and_listen);
}

static const struct test tests[] = {
    TEST(answers_come_in_the_order_of_the_commands),
    TEST(answers_come_in_the_order_of_the_commands_when_jobs_are_stored),
    TEST(pieces_of_any_size_are_answered_alike),
    TEST(each_command_sees_what_those_before_it_did),
    TEST(a_reserve_that_waits_for_the_disk_holds_up_nothing),
    TEST(what_is_behind_a_waiting_reserve_waits_and_is_not_lost),
    TEST(what_is_behind_a_timeout_is_not_lost),
    TEST(a_client_that_says_no_more_hears_every_answer),
    TEST(a_client_that_says_no_more_hears_what_is_read_from_the_file),
};

const struct theme order_theme = {"order", tests, COUNT(tests)};
