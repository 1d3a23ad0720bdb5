/* SPDX-License-Identifier: MIT */
/*
 * connection_storm.c - connections that come and go at any moment of the conversation, a thousand
 * of them, while a few clients work: those see no error, no job is lost or given twice, and nothing
 * is left behind.
 *
 * Jobs       The workers' jobs are in the tube "work". The storm takes some, too, and lets them go
 *            by closing. What it puts itself is chaff: a put that was sent in part must not be
 *            there at the end, one that was acknowledged must, and none may be there twice.
 */
#define _GNU_SOURCE /* memmem */
#include "robust.h"

#include "../sim/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#define CONNECTIONS 1000
#define AT_ONCE     100
#define PRODUCERS   2
#define WORKERS     2
#define BACKLOG     200
#define SERIALS     2000000
#define SCRIPT_SIZE 16384

/* ---- workers ---- */

struct work {
    const struct server *server;
    _Atomic bool stop; /* no more jobs are put */
    _Atomic uint64_t next, put, deleted;
    _Atomic char state[SERIALS];
};

enum { UNKNOWN, HELD, DELETED };

static void *produce(void *arg)
{
    static _Thread_local char body[NUMBERED_MAX + 1];
    struct work *work = arg;
    struct client client;
    test_client_open(&client, work->server);
    test_client_use_only(&client, "work");
    while (!work->stop) {
        if (work->put - work->deleted > BACKLOG) {
            nap_ms(1);
            continue;
        }
        uint64_t serial = work->next++;
        CHECK(serial < SERIALS);
        CHECK(
            send_put(&client, (uint32_t)(serial % 7), 0, 600, body, write_numbered(body, serial)));
        EXPECT_NUMBER(&client, "INSERTED");
        work->put++;
    }
    test_client_close(&client);
    return NULL;
}

static void *consume(void *arg)
{
    struct work *work = arg;
    struct job_reply job_reply;
    char line[64];
    struct client client;
    test_client_open(&client, work->server);
    test_client_use_only(&client, "work");
    while (!work->stop || work->deleted < work->put) {
        send_text(&client, "reserve-with-timeout 1\r\n");
        if (!read_job(&client, "RESERVED", &job_reply, line)) {
            TEXT(line, strlen(line), "TIMED_OUT");
            continue;
        }
        uint64_t serial = read_numbered(job_reply.body, job_reply.size);
        CHECK(serial < work->next);
        EQ(atomic_exchange(&work->state[serial], HELD), UNKNOWN);
        send_text(&client, "touch %" PRIu64 "\r\ndelete %" PRIu64 "\r\n", job_reply.id,
                  job_reply.id);
        EXPECT_LINE(&client, "TOUCHED");
        EXPECT_LINE(&client, "DELETED");
        EQ(atomic_exchange(&work->state[serial], DELETED), HELD);
        work->deleted++;
    }
    test_client_close(&client);
    return NULL;
}

/* ---- what the storm says ---- */

enum chaff { NO_CHAFF, PART_SENT, ALL_SENT, ACKNOWLEDGED };

struct gust {
    int fd; /* -1: none */
    int number;
    int turns;        /* how long it stays */
    size_t chaff_end; /* so many bytes of the script hold the whole put; 0: there is none */
    size_t size, sent;
    char script[SCRIPT_SIZE];
};

static struct rng rng;
static enum chaff chaff[CONNECTIONS];
static uint64_t awaited; /* the id of a job that is not done */

static void add_text(struct gust *gust, const char *text)
{
    size_t size = strlen(text);
    CHECK(gust->size + size <= sizeof gust->script);
    memcpy(gust->script + gust->size, text, size);
    gust->size += size;
}

static void add_chaff(struct gust *gust)
{
    char text[128];
    snprintf(text, sizeof text, "use chaff\r\nput 9 0 60 8\r\n%08d\r\n", gust->number);
    add_text(gust, text);
    gust->chaff_end = gust->size;
}

static void add_take(struct gust *gust)
{
    add_text(gust, "watch work\r\nreserve\r\n");
    if (rng_percent(&rng, 50))
        add_text(gust, "reserve\r\nlist-tubes-watched\r\n");
}

static void add_wait(struct gust *gust)
{
    char text[64];
    snprintf(text, sizeof text, "watch wait-%d\r\nignore default\r\nreserve\r\n", gust->number % 9);
    add_text(gust, text);
    add_text(gust, rng_percent(&rng, 50) ? "stats\r\nlist-tubes\r\n" : "");
}

static void add_questions(struct gust *gust)
{
    for (int i = 0; i < 200; i++)
        add_text(gust, i % 3 == 0 ? "stats\r\n" : "list-tubes\r\npeek-ready\r\n");
}

static void add_tubes(struct gust *gust)
{
    char text[64];
    for (int i = 0; i < 30; i++) {
        snprintf(text, sizeof text, "watch t-%d-%d\r\nuse u-%d-%d\r\n", gust->number, i,
                 gust->number, i);
        add_text(gust, text);
    }
}

static void add_nonsense(struct gust *gust)
{
    add_text(gust, "put 0 0 0\r\nput 0 0 10 3\r\nabcde\r\nreserve-with-timeout\r\n\r\nuse -\r\n");
    add_text(gust, "delete 0\r\nrelease 0 0 0\r\nbury 0 0\r\ntouch 0\r\nkick-job 0\r\n");
}

/* ---- what only bided understands ---- */

static void add_chaff_in_a_list(struct gust *gust)
{
    char text[128];
    snprintf(text, sizeof text, "use chaff\r\nput-many 1 20\r\n9 0 1m 8\r\n%08d\r\n\r\n",
             gust->number);
    add_text(gust, text);
    gust->chaff_end = gust->size;
}

static void add_wait_for_many(struct gust *gust)
{
    add_text(gust, "watch wait-many\r\nignore default\r\nreserve-many 5 10m\r\nstats\r\n");
}

/* The result of the job that the test keeps for this. */
static void add_wait_for_result(struct gust *gust)
{
    char text[64];
    snprintf(text, sizeof text, "result %" PRIu64 " 10m\r\nlist-tubes\r\n", awaited);
    add_text(gust, text);
}

static void add_more_nonsense(struct gust *gust)
{
    add_text(gust, "lease 1 delete 1\r\nfail 1 3\r\nabc\r\nupdate 0 pri=1\r\ncancel 0\r\n");
    add_text(gust, "list-jobs * any 10\r\npurge-tube none ready\r\nput 0 0 1 1 retries=x\r\nx\r\n");
}

/* ---- all together ---- */

struct part {
    void (*add)(struct gust *gust);
    bool is_chaff; /* once a connection */
    bool waits;    /* what is behind it is not reached */
};

/* One connection says one to three of these; beanstalkd gets the first ones. */
static const struct part parts[] = {
    {add_chaff, true, false},
    {add_take, false, true},
    {add_wait, false, true},
    {add_questions, false, false},
    {add_tubes, false, false},
    {add_nonsense, false, false},
    {add_chaff_in_a_list, true, false},
    {add_wait_for_many, false, true},
    {add_wait_for_result, false, true},
    {add_more_nonsense, false, false},
};
#define PARTS_PLAIN 6

static void compose(struct gust *gust)
{
    gust->size = gust->sent = gust->chaff_end = 0;
    for (uint64_t i = rng_below(&rng, 3) + 1; i > 0; i--) {
        size_t count = test_server_is_beanstalkd() ? PARTS_PLAIN : COUNT(parts);
        const struct part *part = &parts[rng_below(&rng, count)];
        if (part->is_chaff && gust->chaff_end != 0)
            continue;
        part->add(gust);
        if (part->waits)
            break;
    }
    /* Half of them stop in the middle of something. */
    if (rng_percent(&rng, 50))
        gust->size = rng_below(&rng, gust->size) + 1;
}

/* ---- coming and going ---- */

static void come(struct gust *gust, const struct server *server, int number)
{
    gust->fd = test_server_connect(server);
    gust->number = number;
    gust->turns = (int)rng_below(&rng, 20);
    compose(gust);
}

static void say_some(struct gust *gust)
{
    size_t left = gust->size - gust->sent;
    size_t piece = rng_percent(&rng, 50) ? left : rng_below(&rng, left + 1);
    ssize_t sent = send(gust->fd, gust->script + gust->sent, piece, MSG_NOSIGNAL);
    gust->sent += sent > 0 ? (size_t)sent : 0;
}

/* Hears what has come, and looks for the acknowledgement of a put; it may come in two pieces. */
static void hear_some(struct gust *gust, bool until_end)
{
    static const char word[] = "INSERTED";
    static char text[65536];
    size_t kept = 0;
    int64_t limit_us = clock_us() + (until_end ? PATIENCE_MS * 1000 : 0);
    for (;;) {
        ssize_t got = recv(gust->fd, text + kept, sizeof text - kept, 0);
        if (got == 0 || (got < 0 && errno != EAGAIN))
            return;
        if (got < 0 && clock_us() > limit_us)
            break;
        if (got < 0) {
            nap_ms(1);
            continue;
        }
        size_t size = kept + (size_t)got;
        if (memmem(text, size, word, sizeof word - 1))
            chaff[gust->number] = ACKNOWLEDGED;
        kept = size < sizeof word ? size : sizeof word;
        memmove(text, text + size - kept, kept);
    }
    CHECK(!until_end);
}

static void end_plainly(struct gust *gust)
{
    close(gust->fd);
}

static void end_with_reset(struct gust *gust)
{
    struct linger linger = {1, 0};
    setsockopt(gust->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    close(gust->fd);
}

static void end_after_hearing(struct gust *gust)
{
    hear_some(gust, false);
    close(gust->fd);
}

/* The server closes, too, when it has answered. */
static void end_by_halves(struct gust *gust)
{
    shutdown(gust->fd, SHUT_WR);
    hear_some(gust, true);
    close(gust->fd);
}

static void (*const ends[])(struct gust *gust) = {end_plainly, end_with_reset, end_after_hearing,
                                                  end_by_halves};

static void go(struct gust *gust)
{
    if (gust->chaff_end != 0)
        chaff[gust->number] = gust->sent >= gust->chaff_end ? ALL_SENT : PART_SENT;
    ends[rng_below(&rng, COUNT(ends))](gust);
    gust->fd = -1;
}

static void blow(const struct server *server)
{
    static struct gust gusts[AT_ONCE];
    int begun = 0;
    int here = 0;
    for (int i = 0; i < AT_ONCE; i++)
        gusts[i].fd = -1;
    do {
        struct gust *gust = &gusts[rng_below(&rng, AT_ONCE)];
        if (gust->fd < 0 && begun < CONNECTIONS) {
            come(gust, server, begun++);
            here++;
        } else if (gust->fd >= 0 && gust->turns-- > 0) {
            say_some(gust);
        } else if (gust->fd >= 0) {
            go(gust);
            here--;
        }
    } while (begun < CONNECTIONS || here > 0);
}

/* ---- afterwards ---- */

static void sweep_chaff(const struct server *server)
{
    struct job_reply job_reply;
    char line[64];
    struct client client;
    int found[CONNECTIONS] = {0};
    test_client_open(&client, server);
    test_client_use_only(&client, "chaff");
    while (send_text(&client, "reserve-with-timeout 0\r\n") &&
           read_job(&client, "RESERVED", &job_reply, line)) {
        char number[9] = "";
        CHECK(job_reply.size == 8);
        memcpy(number, job_reply.body, 8);
        int i = atoi(number);
        CHECK(i >= 0 && i < CONNECTIONS);
        EQ(++found[i], 1);
        CHECK(chaff[i] == ALL_SENT || chaff[i] == ACKNOWLEDGED);
        send_text(&client, "delete %" PRIu64 "\r\n", job_reply.id);
        EXPECT_LINE(&client, "DELETED");
    }
    TEXT(line, strlen(line), "TIMED_OUT");
    unsigned acknowledged = 0;
    for (int i = 0; i < CONNECTIONS; i++) {
        acknowledged += chaff[i] == ACKNOWLEDGED;
        if (chaff[i] == ACKNOWLEDGED && !found[i])
            FAIL("the put of connection %d was acknowledged and is gone", i);
    }
    CHECK(acknowledged > 0);
    test_client_close(&client);
}

static void storm(const struct server *server)
{
    static struct work work;
    pthread_t threads[PRODUCERS + WORKERS];
    struct client keeper;
    test_client_open(&keeper, server);
    test_client_use_only(&keeper, "kept");
    CHECK(send_put(&keeper, 0, 0, 600, "kept", 4));
    awaited = EXPECT_NUMBER(&keeper, "INSERTED");
    work.server = server;
    for (int i = 0; i < PRODUCERS + WORKERS; i++)
        CHECK(pthread_create(&threads[i], NULL, i < PRODUCERS ? produce : consume, &work) == 0);
    /* The storm begins when the work has. */
    UNTIL(work.deleted > 0);
    blow(server);
    work.stop = true;
    for (int i = 0; i < PRODUCERS + WORKERS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    EQ(work.deleted, work.next);
    sweep_chaff(server);
    send_text(&keeper, "delete %" PRIu64 "\r\n", awaited);
    EXPECT_LINE(&keeper, "DELETED");
    test_client_close(&keeper);
}

static void connection_storm_leaves_nothing_behind(void)
{
    rng.state = 1;
    with_server(IN_MEMORY, storm);
}

static void connection_storm_leaves_nothing_in_the_file(void)
{
    rng.state = 2;
    with_server(IN_FILE, storm);
}

/* ---- all at once ---- */

/* A thousand that wait for one tube, hold its jobs and wait for more are gone in one moment. */
static void vanish(const struct server *server)
{
    static struct client crowd[CONNECTIONS];
    struct client client;
    test_client_open(&client, server);
    test_client_use_only(&client, "crowd");
    for (int i = 0; i < CONNECTIONS; i++) {
        test_client_open(&crowd[i], server);
        send_text(&crowd[i], "watch crowd\r\nreserve\r\nreserve\r\n");
    }
    UNTIL(test_client_stat(&client, "stats", "current-waiting") == CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++)
        CHECK(send_put(&client, 0, 0, 600, "one", 3));
    for (int i = 0; i < CONNECTIONS; i++)
        EXPECT_NUMBER(&client, "INSERTED");
    UNTIL(test_client_stat(&client, "stats", "current-jobs-reserved") == CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++)
        test_client_close(&crowd[i]);
    UNTIL(test_client_stat(&client, "stats", "current-connections") == 1);
    EQ(test_client_stat(&client, "stats", "current-jobs-ready"), CONNECTIONS);
    for (int i = 0; i < CONNECTIONS; i++) {
        send_text(&client, "reserve\r\n");
        uint64_t id = EXPECT_NUMBER(&client, "RESERVED");
        EXPECT_LINE(&client, "one");
        send_text(&client, "delete %" PRIu64 "\r\n", id);
        EXPECT_LINE(&client, "DELETED");
    }
    test_client_close(&client);
}

static void jobs_of_a_thousand_lost_connections_are_released(void)
{
    struct rlimit limit;
    CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0);
    limit.rlim_cur = limit.rlim_max;
    CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0 && limit.rlim_max > CONNECTIONS + 100);
    with_server(IN_MEMORY, vanish);
}

static const struct test tests[] = {
    TEST(connection_storm_leaves_nothing_behind),
    TEST(connection_storm_leaves_nothing_in_the_file),
    TEST(jobs_of_a_thousand_lost_connections_are_released),
};

const struct theme connection_storm_theme = {"connection_storm", tests, COUNT(tests)};
