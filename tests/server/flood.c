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
#define LOOKS     300
#define ROUNDS    5
#define LOW_BITS  (((uint64_t)1 << 12) - 1)
#define NAME_SIZE 16

/* What the server tells of itself that a table could have been seeded with. */
static uint64_t public_seed(struct talk *talk)
{
    uint64_t seed;
    say(talk, "stats\r\n");
    size_t size = HEAR_NUMBER(talk, "OK");
    const char *text = hear_body(talk, size);
    const char *id = strstr(text, "\nid: ");
    CHECK(id != NULL);
    memcpy(&seed, id + 5, sizeof(seed));
    return seed;
}

/* The next name after that number which shares a bucket with all the others, if names are hashed with
 * that seed; or just the next name. */
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
static int64_t use_many(struct talk *talk, uint64_t *number, uint64_t seed, bool chosen)
{
    static char text[LOOKS * (NAME_SIZE + 8)];
    char name[NAME_SIZE];
    size_t size = 0;
    for (int i = 0; i < LOOKS; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "use %s\r\n",
                                 next_name(name, number, seed, chosen));

    int64_t began_us = clock_us();
    talk_send(talk, text, size);
    for (int i = 0; i < LOOKS; i++)
        CHECK(strncmp(hear(talk), "USING ", 6) == 0);
    return clock_us() - began_us;
}

static void use_beside_chosen_names(const struct peer *peer)
{
    struct talk watchers[WATCHERS];
    struct talk talk;
    char name[NAME_SIZE];
    uint64_t number = 0;
    talk_open(&talk, peer);
    uint64_t seed = public_seed(&talk);
    for (int i = 0; i < WATCHERS; i++) {
        talk_open(&watchers[i], peer);
        for (int j = 0; j < WATCHED; j++)
            say(&watchers[i], "watch %s\r\n", next_name(name, &number, seed, true));
        for (uint64_t j = 0; j < WATCHED; j++)
            EQ(HEAR_NUMBER(&watchers[i], "WATCHING"), j + 2);
    }

    /* The best of several rounds: the machine may be busy with other things. */
    int64_t chosen_us = INT64_MAX;
    int64_t other_us = INT64_MAX;
    for (int i = 0; i < ROUNDS; i++) {
        int64_t us = use_many(&talk, &number, seed, true);
        chosen_us = us < chosen_us ? us : chosen_us;
        us = use_many(&talk, &number, seed, false);
        other_us = us < other_us ? us : other_us;
    }
    if (chosen_us > 4 * other_us)
        FAIL("%d tubes of chosen names took %" PRId64 " us, of others %" PRId64 " us", LOOKS,
             chosen_us, other_us);
    talk_close(&talk);
    for (int i = 0; i < WATCHERS; i++)
        talk_close(&watchers[i]);
}

static void names_chosen_by_a_public_number_cost_no_more_than_others(void)
{
    with_peer(IN_MEMORY, use_beside_chosen_names);
}

/* ---- tokens ---- */

#define LEASES 64
#define NEAR   ((uint64_t)1 << 20)

struct lease {
    uint64_t id, token;
};

static void take_leases(struct talk *talk, struct lease *leases)
{
    for (int i = 0; i < LEASES; i++)
        say_put(talk, 0, 0, 100, "x", 1);
    for (int i = 0; i < LEASES; i++)
        HEAR_NUMBER(talk, "INSERTED");
    say(talk, "reserve-many %d 0\r\n", LEASES);
    EQ(HEAR_NUMBER(talk, "RESERVED_MANY"), LEASES);
    for (int i = 0; i < LEASES; i++) {
        CHECK(sscanf(hear(talk), "%" SCNu64 " %" SCNu64 " 1", &leases[i].id, &leases[i].token) ==
              2);
        HEAR(talk, "x");
    }
}

/* A client that has all tokens but one tries to come upon it. */
static void guess(const struct peer *peer)
{
    static struct lease leases[LEASES];
    struct talk holder, other;
    talk_open(&holder, peer);
    talk_open(&other, peer);
    take_leases(&holder, leases);
    const struct lease *last = &leases[LEASES - 1];
    for (int i = 0; i < LEASES - 1; i++) {
        for (int j = i + 1; j < LEASES; j++) {
            uint64_t one = leases[i].token;
            uint64_t next = leases[j].token;
            if ((one < next ? next - one : one - next) < NEAR)
                FAIL("tokens %" PRIu64 " and %" PRIu64 " are close to each other", one, next);
        }
        say(&other, "lease %" PRIu64 " delete %" PRIu64 "\r\n", leases[i].token + 1, last->id);
        HEAR(&other, "LEASE_LOST");
    }
    for (int i = 0; i < LEASES; i++) {
        say(&holder, "lease %" PRIu64 " delete %" PRIu64 "\r\n", leases[i].token, leases[i].id);
        HEAR(&holder, "DELETED");
    }
    talk_close(&holder);
    talk_close(&other);
}

static void a_token_does_not_tell_the_next_one(void)
{
    if (!peer_is_reference())
        with_peer(IN_MEMORY, guess);
}

static void a_token_of_a_file_does_not_tell_the_next_one(void)
{
    if (!peer_is_reference())
        with_peer(IN_FILE, guess);
}

/* ---- reserves over many tubes ---- */

#define EMPTY    4999
#define RESERVES 500
#define AT_ONCE  100 /* fewer than a connection may have under way */
#define TRIES    20

/* A client asks many times for a job of many tubes, at once. While it is answered, others are. */
static void reserve_from_many(const struct peer *peer)
{
    static char text[RESERVES * 32];
    struct talk many, other;
    size_t size = 0;
    bool between = false;
    talk_open(&many, peer);
    talk_open(&other, peer);
    for (int i = 0; i < EMPTY; i++)
        say(&many, "watch empty-%d\r\n", i);
    for (uint64_t i = 0; i < EMPTY; i++)
        EQ(HEAR_NUMBER(&many, "WATCHING"), i + 2);
    for (int i = 0; i < RESERVES; i++)
        size += (size_t)snprintf(text + size, sizeof(text) - size, "reserve-with-timeout 0\r\n");

    int64_t before = 0;
    for (int i = 0; i < TRIES && !between; i++) {
        talk_send(&many, text, size);
        int64_t done = talk_stat(&other, "stats", "cmd-reserve-with-timeout") - before;
        between = done > 0 && done < AT_ONCE;
        before += RESERVES;
        for (int j = 0; j < RESERVES; j++)
            HEAR(&many, "TIMED_OUT");
    }
    if (!between)
        FAIL("another client was never answered before %d reserves were", AT_ONCE);
    talk_close(&many);
    talk_close(&other);
}

static void others_are_served_between_reserves_over_many_tubes(void)
{
    if (!peer_is_reference())
        with_peer(IN_MEMORY, reserve_from_many);
}

/* ---- lists of many tubes ---- */

#define TUBES       40000
#define TRIPS       4
#define TUBE_LINE   sizeof("- t1234567")
#define LIST_ROUNDS 20

static void make_tubes(struct talk *talk)
{
    for (int i = 0; i < TUBES; i++)
        say(talk, "use t%07d\r\nput 0 0 100 1\r\nx\r\n", i);
    for (int i = 0; i < TUBES; i++) {
        hear(talk);
        HEAR_NUMBER(talk, "INSERTED");
    }
}

static void hear_tubes(struct talk *talk)
{
    size_t size = HEAR_NUMBER(talk, "OK");
    EQ(size, strlen("---\n- default\n") + TUBES * TUBE_LINE);
    const char *text = hear_body(talk, size);
    CHECK(memcmp(text, "---\n- default\n- t0000000\n", 25) == 0);
    CHECK(memcmp(text + size - TUBE_LINE, "- t0039999\n", TUBE_LINE) == 0);
}

static void others_are_served_while_many_tubes_are_listed(void)
{
    struct peer peer;
    struct talk many, other;
    int most = 0;
    if (peer_is_reference())
        return;
    peer_start(&peer, IN_MEMORY);
    talk_open(&many, &peer);
    talk_open(&other, &peer);
    make_tubes(&many);
    for (int i = 0; i < LIST_ROUNDS && most < TRIPS; i++) {
        int trips = 0;
        say(&many, "list-tubes\r\n");
        while (is_silent(&many)) {
            say(&other, "list-tube-used\r\n");
            HEAR(&other, "USING default");
            trips++;
        }
        most = trips > most ? trips : most;
        hear_tubes(&many);
    }
    if (most < TRIPS)
        FAIL("another client was answered %d times at most while tubes were listed", most);
    talk_close(&many);
    talk_close(&other);
    peer_kill(&peer);
}

/* ---- checks ---- */

#define CHECKED 200000
#define CHECKS  1000

/* A thousand checks are asked for, and the server is to stop. */
static void a_server_stops_at_once_although_checks_are_asked_for(void)
{
    struct peer peer;
    struct talk talk;
    if (peer_is_reference())
        return;
    peer_start(&peer, IN_MEMORY);
    talk_open(&talk, &peer);
    for (int i = 0; i < CHECKED; i++)
        say_put(&talk, 0, 0, 100, "x", 1);
    for (int i = 0; i < CHECKED; i++)
        HEAR_NUMBER(&talk, "INSERTED");
    for (int i = 0; i < CHECKS; i++)
        say(&talk, "call %d check 0\r\n\r\n", i);
    say(&talk, "list-tube-used\r\n");
    int refused = 0;
    const char *line;
    while (strcmp(line = hear(&talk), "USING default") != 0) {
        size_t size;
        int code;
        CHECK(sscanf(line, "ANSWER %*d %d %zu", &code, &size) == 2);
        hear_body(&talk, size);
        CHECK(code == 0 || code == -5);
        refused += code == -5;
    }
    CHECK(refused > CHECKS / 2);
    peer_stop(&peer);
    talk_close(&talk);
}

static const struct test tests[] = {
    TEST(others_are_served_between_reserves_over_many_tubes),
    TEST(others_are_served_while_many_tubes_are_listed),
    TEST(a_server_stops_at_once_although_checks_are_asked_for),
    TEST(a_token_does_not_tell_the_next_one),
    TEST(a_token_of_a_file_does_not_tell_the_next_one),
    TEST(names_chosen_by_a_public_number_cost_no_more_than_others),
};

const struct theme flood_theme = {"flood", tests, COUNT(tests)};
