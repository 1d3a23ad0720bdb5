/* SPDX-License-Identifier: MIT */
/*
 * flood.c - a client that chooses its names, watches or calls so that each takes the server as long
 * as possible does not make it slow for others.
 */
#include "robust.h"

#include "util/hash.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

/* ---- names that would share a bucket ---- */

#define WATCHERS  4
#define WATCHED   1000
#define PEEKS     300
#define ROUNDS    5
#define LOW_BITS  (((uint64_t)1 << 12) - 1)
#define NAME_SIZE 16

/* What the server tells of itself that a table could have been seeded with. */
static uint64_t public_seed(struct client *client)
{
    uint64_t seed;
    send_text(client, "stats\r\n");
    size_t size = EXPECT_NUMBER(client, "OK");
    const char *text = read_body(client, size);
    const char *id = strstr(text, "\nid: ");
    CHECK(id != NULL);
    memcpy(&seed, id + 5, sizeof(seed));
    return seed;
}

/* The next name after that number which shares a bucket with all the others, if names are hashed
 * with that seed; or just the next name. */
static const char *next_name(char name[NAME_SIZE], uint64_t *number, uint64_t seed, bool chosen)
{
    memcpy(name, "n00000000000000", NAME_SIZE);
    do {
        uint64_t left = ++*number;
        for (char *at = name + NAME_SIZE - 2; left > 0; left >>= 4)
            *at-- = "0123456789abcdef"[left & 15];
    } while (chosen && (bi_hash_bytes(seed, name, NAME_SIZE - 1) & LOW_BITS) != 0);
    return name;
}

/* How long it takes to use as many tubes. */
static int64_t use_many(struct client *client, uint64_t *number, uint64_t seed, bool chosen)
{
    static char text[PEEKS * (NAME_SIZE + 8)];
    char name[NAME_SIZE];
    size_t size = 0;
    for (int i = 0; i < PEEKS; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "use %s\r\n",
                                 next_name(name, number, seed, chosen));

    int64_t began_us = clock_us();
    test_client_send(client, text, size);
    for (int i = 0; i < PEEKS; i++)
        CHECK(strncmp(read_line(client), "USING ", 6) == 0);
    return clock_us() - began_us;
}

static void use_beside_chosen_names(const struct server *server)
{
    struct client watchers[WATCHERS];
    struct client client;
    char name[NAME_SIZE];
    uint64_t number = 0;
    test_client_open(&client, server);
    uint64_t seed = public_seed(&client);
    for (int i = 0; i < WATCHERS; i++) {
        test_client_open(&watchers[i], server);
        for (int j = 0; j < WATCHED; j++)
            send_text(&watchers[i], "watch %s\r\n", next_name(name, &number, seed, true));
        for (uint64_t j = 0; j < WATCHED; j++)
            EQ(EXPECT_NUMBER(&watchers[i], "WATCHING"), j + 2);
    }

    /* The best of several rounds: the machine may be busy with other things. */
    int64_t chosen_us = INT64_MAX;
    int64_t other_us = INT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t us = use_many(&client, &number, seed, true);
        chosen_us = us < chosen_us ? us : chosen_us;
        us = use_many(&client, &number, seed, false);
        other_us = us < other_us ? us : other_us;
    }
    if (chosen_us > 4 * other_us)
        FAIL("%d tubes of chosen names took %" PRId64 " us, of others %" PRId64 " us", PEEKS,
             chosen_us, other_us);
    test_client_close(&client);
    for (int i = 0; i < WATCHERS; i++)
        test_client_close(&watchers[i]);
}

static void tube_names_chosen_to_collide_cost_no_more_than_others(void)
{
    with_server(IN_MEMORY, use_beside_chosen_names);
}

/* ---- tokens ---- */

#define LEASES 64
#define NEAR   ((uint64_t)1 << 20)

struct lease {
    uint64_t id, token;
};

static void take_leases(struct client *client, struct lease *leases)
{
    for (int i = 0; i < LEASES; i++)
        send_put(client, 0, 0, 100, "x", 1);
    for (int i = 0; i < LEASES; i++)
        EXPECT_NUMBER(client, "INSERTED");
    send_text(client, "reserve-many %d 0\r\n", LEASES);
    EQ(EXPECT_NUMBER(client, "RESERVED_MANY"), LEASES);
    for (int i = 0; i < LEASES; i++) {
        CHECK(sscanf(read_line(client), "%" SCNu64 " %" SCNu64 " 1", &leases[i].id,
                     &leases[i].token) == 2);
        EXPECT_LINE(client, "x");
    }
}

/* A client that has all tokens but one tries to come upon it. */
static void guess(const struct server *server)
{
    static struct lease leases[LEASES];
    struct client holder, other;
    test_client_open(&holder, server);
    test_client_open(&other, server);
    take_leases(&holder, leases);
    const struct lease *last = &leases[LEASES - 1];
    for (int i = 0; i < LEASES - 1; i++) {
        for (int j = i + 1; j < LEASES; j++) {
            uint64_t one = leases[i].token;
            uint64_t next = leases[j].token;
            if ((one < next ? next - one : one - next) < NEAR)
                FAIL("tokens %" PRIu64 " and %" PRIu64 " are close to each other", one, next);
        }
        send_text(&other, "lease %" PRIu64 " delete %" PRIu64 "\r\n", leases[i].token + 1,
                  last->id);
        EXPECT_LINE(&other, "LEASE_LOST");
    }
    for (int i = 0; i < LEASES; i++) {
        send_text(&holder, "lease %" PRIu64 " delete %" PRIu64 "\r\n", leases[i].token,
                  leases[i].id);
        EXPECT_LINE(&holder, "DELETED");
    }
    test_client_close(&holder);
    test_client_close(&other);
}

static void token_does_not_reveal_the_next_one(void)
{
    if (!test_server_is_beanstalkd())
        with_server(IN_MEMORY, guess);
}

static void token_of_a_file_does_not_reveal_the_next_one(void)
{
    if (!test_server_is_beanstalkd())
        with_server(IN_FILE, guess);
}

/* ---- reserves over many tubes ---- */

#define EMPTY    4999
#define RESERVES 500
#define AT_ONCE  100 /* fewer than a connection may have under way */
#define TRIES    20

/* A client asks many times for a job of many tubes, at once. While it is answered, others are. */
static void reserve_from_many(const struct server *server)
{
    static char text[RESERVES * 32];
    struct client many, other;
    size_t size = 0;
    bool between = false;
    test_client_open(&many, server);
    test_client_open(&other, server);
    for (int i = 0; i < EMPTY; i++)
        send_text(&many, "watch empty-%d\r\n", i);
    for (uint64_t i = 0; i < EMPTY; i++)
        EQ(EXPECT_NUMBER(&many, "WATCHING"), i + 2);
    for (int i = 0; i < RESERVES; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "reserve-with-timeout 0\r\n");

    int64_t before = 0;
    for (int i = 0; i < TRIES && !between; i++) {
        test_client_send(&many, text, size);
        int64_t done = test_client_stat(&other, "stats", "cmd-reserve-with-timeout") - before;
        between = done > 0 && done < AT_ONCE;
        before += RESERVES;
        for (int j = 0; j < RESERVES; j++)
            EXPECT_LINE(&many, "TIMED_OUT");
    }
    if (!between)
        FAIL("another client was never answered before %d reserves were", AT_ONCE);
    test_client_close(&many);
    test_client_close(&other);
}

static void others_are_served_between_reserves_over_many_tubes(void)
{
    if (!test_server_is_beanstalkd())
        with_server(IN_MEMORY, reserve_from_many);
}

/* ---- lists of many tubes ---- */

#define TUBES       40000
#define TRIPS       4
#define TUBE_LINE   sizeof("- t1234567")
#define LIST_ROUNDS 20

static void make_tubes(struct client *client)
{
    for (int i = 0; i < TUBES; i++)
        send_text(client, "use t%07d\r\nput 0 0 100 1\r\nx\r\n", i);
    for (int i = 0; i < TUBES; i++) {
        read_line(client);
        EXPECT_NUMBER(client, "INSERTED");
    }
}

static void hear_tubes(struct client *client)
{
    size_t size = EXPECT_NUMBER(client, "OK");
    EQ(size, strlen("---\n- default\n") + TUBES * TUBE_LINE);
    const char *text = read_body(client, size);
    CHECK(memcmp(text, "---\n- default\n- t0000000\n", 25) == 0);
    CHECK(memcmp(text + size - TUBE_LINE, "- t0039999\n", TUBE_LINE) == 0);
}

static void others_are_served_while_many_tubes_are_listed(void)
{
    struct server server;
    struct client many, other;
    int most = 0;
    if (test_server_is_beanstalkd())
        return;
    test_server_start(&server, IN_MEMORY);
    test_client_open(&many, &server);
    test_client_open(&other, &server);
    make_tubes(&many);
    for (int i = 0; i < LIST_ROUNDS && most < TRIPS; i++) {
        int trips = 0;
        send_text(&many, "list-tubes\r\n");
        while (has_no_input(&many)) {
            send_text(&other, "list-tube-used\r\n");
            EXPECT_LINE(&other, "USING default");
            trips++;
        }
        most = trips > most ? trips : most;
        hear_tubes(&many);
    }
    if (most < TRIPS)
        FAIL("another client was answered %d times at most while tubes were listed", most);
    test_client_close(&many);
    test_client_close(&other);
    test_server_kill(&server);
}

/* ---- checks ---- */

#define CHECKED 200000
#define CHECKS  1000

/* A thousand checks are asked for, and the server is to stop. */
static void server_stops_at_once_while_checks_are_queued(void)
{
    struct server server;
    struct client client;
    if (test_server_is_beanstalkd())
        return;
    test_server_start(&server, IN_MEMORY);
    test_client_open(&client, &server);
    for (int i = 0; i < CHECKED; i++)
        send_put(&client, 0, 0, 100, "x", 1);
    for (int i = 0; i < CHECKED; i++)
        EXPECT_NUMBER(&client, "INSERTED");
    for (int i = 0; i < CHECKS; i++)
        send_text(&client, "call %d check 0\r\n\r\n", i);
    send_text(&client, "list-tube-used\r\n");
    int refused = 0;
    const char *line;
    while (strcmp(line = read_line(&client), "USING default") != 0) {
        size_t size;
        int code;
        CHECK(sscanf(line, "ANSWER %*d %d %zu", &code, &size) == 2);
        read_body(&client, size);
        CHECK(code == 0 || code == -5);
        refused += code == -5;
    }
    CHECK(refused > CHECKS / 2);
    test_server_stop(&server);
    test_client_close(&client);
}

static const struct test tests[] = {
    TEST(others_are_served_between_reserves_over_many_tubes),
    TEST(others_are_served_while_many_tubes_are_listed),
    TEST(server_stops_at_once_while_checks_are_queued),
    TEST(token_does_not_reveal_the_next_one),
    TEST(token_of_a_file_does_not_reveal_the_next_one),
    TEST(tube_names_chosen_to_collide_cost_no_more_than_others),
};

const struct theme flood_theme = {"flood", tests, COUNT(tests)};
