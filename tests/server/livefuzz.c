/* SPDX-License-Identifier: MIT */
/*
 * livefuzz.c - babble into a running server, while a client that behaves keeps jobs there.
 *
 * The server must neither end nor stand still, and at the end every job of that client must be
 * there, in its state and with its body. The streams depend on the seed, which is told; what
 * becomes of them depends on time, too.
 */
#include "command_gen.h"
#include "test_client.h"

#include "../contract/isolated.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#define CALLERS    32
#define KEPT       50 /* jobs in each state */
#define LOOK_EACH  50 /* steps between two looks of the keeper */
#define FIRST_ID   10000
#define BURNT      1000
#define GROWTH_MAX (INT64_C(4) << 30)

struct settings {
    int seconds;
    uint64_t seed;
    enum test_server_storage where;
};

struct outcome {
    struct trace trace;
    uint64_t streams, bytes, looks;
};

static struct settings settings = {10, 0, IN_MEMORY};
static struct outcome *outcome;
static char base[PATH_MAX];

static const char usage[] =
    "usage: livefuzz [--server PROGRAM] [--seconds N] [--seed N] [--in memory|file]\n"
    "                [--parameters TEXT]\n"
    "\n"
    "Sends streams of right, wrong and random commands to a running server for a while.\n";

/* ---- the client that behaves ---- */

struct keeper {
    struct client client;
    struct rng rng;
    uint64_t ids[4 * KEPT];
};

static const char *const states[] = {"ready", "delayed", "buried", "reserved"};

static uint64_t keep_put(struct keeper *keeper, uint64_t serial, uint32_t priority,
                         uint32_t delay_s)
{
    size_t size;
    const void *body = body_of(serial, &size);
    CHECK(send_put(&keeper->client, priority, delay_s, 100000, body, size));
    return EXPECT_NUMBER(&keeper->client, "INSERTED");
}

static void keep_reserve(struct keeper *keeper, uint64_t id, uint64_t serial)
{
    struct job_reply job_reply;
    char line[64];
    send_text(&keeper->client, "reserve\r\n");
    if (!read_job(&keeper->client, "RESERVED", &job_reply, line))
        FAIL("expected RESERVED, got \"%s\"", line);
    EQ(job_reply.id, id);
    CHECK(body_is(serial, job_reply.body, job_reply.size));
}

/* Uses up the smaller ids: numbers up to there are sizes, priorities and counts. */
static void burn_ids(struct keeper *keeper)
{
    for (uint64_t first = 1, last = 0; last < FIRST_ID; first = last + 1) {
        for (int i = 0; i < BURNT; i++)
            CHECK(send_put(&keeper->client, 0, 0, 100, "", 0));
        for (int i = 0; i < BURNT; i++) {
            last = EXPECT_NUMBER(&keeper->client, "INSERTED");
            CHECK(last >= first);
            send_text(&keeper->client, "delete %" PRIu64 "\r\n", last);
        }
        for (int i = 0; i < BURNT; i++)
            EXPECT_LINE(&keeper->client, "DELETED");
    }
}

static void keeper_begin(struct keeper *keeper, const struct server *server)
{
    test_client_open(&keeper->client, server);
    test_client_use_only(&keeper->client, "the-keepers-own");
    burn_ids(keeper);
    for (uint64_t i = 0; i < 4 * KEPT; i++) {
        uint64_t state = i / KEPT;
        keeper->ids[i] = keep_put(keeper, i, state >= 2 ? 0 : 1000, state == 1 ? 100000 : 0);
        if (state >= 2)
            keep_reserve(keeper, keeper->ids[i], i);
        if (state == 2) {
            send_text(&keeper->client, "bury %" PRIu64 " 5\r\n", keeper->ids[i]);
            EXPECT_LINE(&keeper->client, "BURIED");
        }
    }
}

/* The job of the ledger is there, as it should be. */
static void keeper_look_at(struct keeper *keeper, uint64_t serial)
{
    struct job_reply job_reply;
    char line[64];
    char wanted[32];
    uint64_t id = keeper->ids[serial];
    send_text(&keeper->client, "peek %" PRIu64 "\r\nstats-job %" PRIu64 "\r\n", id, id);
    if (!read_job(&keeper->client, "FOUND", &job_reply, line))
        FAIL("job %" PRIu64 " (%s) is lost: \"%s\"", id, states[serial / KEPT], line);
    CHECK(job_reply.id == id && body_is(serial, job_reply.body, job_reply.size));
    size_t size = EXPECT_NUMBER(&keeper->client, "OK");
    char *text = strndup(read_body(&keeper->client, size), size);
    snprintf(wanted, sizeof wanted, "\nstate: %s\n", states[serial / KEPT]);
    if (!text || !strstr(text, wanted))
        FAIL("job %" PRIu64 " is not %s any more:\n%s", id, states[serial / KEPT], text);
    free(text);
}

/* A job comes and goes, and one that stays is looked at. Answers the id of the first. */
static uint64_t keeper_look(struct keeper *keeper)
{
    struct job_reply job_reply;
    char line[64];
    uint64_t serial = 1000 + rng_below(&keeper->rng, 1000000);
    size_t size;
    const void *body = body_of(serial, &size);
    send_text(&keeper->client, "put 0 0 1000 %zu\r\n", size);
    test_client_send(&keeper->client, body, size);
    send_text(&keeper->client, "\r\nreserve\r\n");
    uint64_t id = EXPECT_NUMBER(&keeper->client, "INSERTED");
    if (!read_job(&keeper->client, "RESERVED", &job_reply, line))
        FAIL("expected RESERVED %" PRIu64 ", got \"%s\"", id, line);
    CHECK(job_reply.id == id && body_is(serial, job_reply.body, job_reply.size));
    send_text(&keeper->client, "delete %" PRIu64 "\r\n", id);
    EXPECT_LINE(&keeper->client, "DELETED");
    keeper_look_at(keeper, rng_below(&keeper->rng, 4 * KEPT));
    outcome->looks++;
    return id;
}

/* Whoever has hung up is gone in the end. */
static void keeper_alone(struct keeper *keeper)
{
    int64_t limit_us = clock_us() + 3 * PATIENCE_MS * 1000;
    while (test_client_stat(&keeper->client, "stats", "current-connections") != 1) {
        if (clock_us() > limit_us) {
            send_text(&keeper->client, "stats\r\n");
            size_t size = EXPECT_NUMBER(&keeper->client, "OK");
            FAIL("connections remain open on the server without a client:\n%.*s", (int)size,
                 read_body(&keeper->client, size));
        }
        nap_ms(10);
    }
}

/* If there was a schedule, the server waits for its next moment itself. */
static void keeper_waits_for_nothing(struct keeper *keeper)
{
    struct client *client = &keeper->client;
    for (const char *name = "ab"; *name != 0; name++) {
        send_text(client, "schedule-remove %c\r\n", *name);
        read_line(client);
    }
    bool schedules = test_client_stat(client, "stats-tube $schedules", "current-waiting") >= 0;
    UNTIL(test_client_stat(client, "stats", "current-waiting") == schedules);
}

static void keeper_end(struct keeper *keeper)
{
    keeper_alone(keeper);
    keeper_waits_for_nothing(keeper);
    for (uint64_t i = 0; i < 4 * KEPT; i++) {
        keeper_look_at(keeper, i);
        send_text(&keeper->client, "delete %" PRIu64 "\r\n", keeper->ids[i]);
        EXPECT_LINE(&keeper->client, "DELETED");
    }
    EQ(test_client_stat(&keeper->client, "stats-tube the-keepers-own", "current-jobs-ready"), 0);
    test_client_close(&keeper->client);
}

/* ---- the others ---- */

struct caller {
    int fd; /* -1: none */
    size_t size, sent;
    char data[COMMAND_GEN_MAX];
};

static struct stream stream;

static void call(struct caller *caller, const struct server *server)
{
    if (caller->fd < 0)
        caller->fd = test_server_connect(server);
    command_gen_next(&stream);
    memcpy(caller->data, stream.data, stream.size);
    caller->size = stream.size;
    caller->sent = 0;
    outcome->streams++;
}

static void hang_up(struct caller *caller)
{
    struct linger linger = {1, 0};
    if (rng_one_in(&stream.rng, 3))
        setsockopt(caller->fd, SOL_SOCKET, SO_LINGER, &linger, sizeof linger);
    else if (rng_one_in(&stream.rng, 3))
        shutdown(caller->fd, SHUT_WR);
    close(caller->fd);
    caller->fd = -1;
}

static void say_some(struct caller *caller)
{
    size_t left = caller->size - caller->sent;
    size_t piece = rng_percent(&stream.rng, 60) ? left : rng_below(&stream.rng, left) + 1;
    ssize_t sent = send(caller->fd, caller->data + caller->sent, piece, MSG_NOSIGNAL);
    if (sent < 0 && errno != EAGAIN)
        hang_up(caller);
    else if (sent > 0)
        caller->sent += (size_t)sent;
    outcome->bytes += sent > 0 ? (uint64_t)sent : 0;
}

static void hear_some(struct caller *caller)
{
    static char text[65536];
    ssize_t got = recv(caller->fd, text, sizeof text, 0);
    if (got == 0 || (got < 0 && errno != EAGAIN))
        hang_up(caller);
    else if (got > 0)
        command_gen_learn(&stream, text, (size_t)got);
}

static void step(struct caller *caller, const struct server *server)
{
    uint64_t dice = rng_below(&stream.rng, 100);
    if (caller->fd < 0 || (caller->sent == caller->size && dice < 70))
        call(caller, server);
    else if (caller->sent == caller->size && dice < 80)
        hang_up(caller);
    else if (caller->sent < caller->size && dice < 75)
        say_some(caller);
    else if (dice == 99)
        hang_up(caller);
    else
        hear_some(caller);
}

static void fuzz(void)
{
    static struct keeper keeper;
    static struct caller callers[CALLERS];
    struct server server;
    test_server_start(&server, settings.where);
    int64_t memory = test_server_memory(&server);
    keeper.rng.state = settings.seed;
    keeper_begin(&keeper, &server);
    stream = (struct stream){.rng = {settings.seed},
                             .spared_first = keeper.ids[0],
                             .spared_last = keeper.ids[4 * KEPT - 1],
                             .recent = keeper.ids[4 * KEPT - 1]};
    for (int i = 0; i < CALLERS; i++)
        callers[i].fd = -1;
    int64_t limit_us = clock_us() + (int64_t)settings.seconds * 1000000;
    while (clock_us() < limit_us) {
        for (int i = 0; i < LOOK_EACH; i++)
            step(&callers[rng_below(&stream.rng, CALLERS)], &server);
        test_server_check_alive(&server);
        uint64_t id = keeper_look(&keeper);
        stream.recent = id > stream.recent ? id : stream.recent;
        CHECK(test_server_memory(&server) < memory + GROWTH_MAX);
    }
    for (int i = 0; i < CALLERS; i++)
        if (callers[i].fd >= 0)
            hang_up(&callers[i]);
    keeper_end(&keeper);
    test_server_stop(&server);
}

/* ---- the runner ---- */

static void run_here(const struct isolated_test *isolated, struct trace *trace)
{
    checks_begin(isolated->url, isolated->theme, isolated->test, trace);
    test_dir_begin(base);
    isolated->body();
    fflush(stdout);
}

static bool parse(int argc, char **argv)
{
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--seconds") == 0)
            settings.seconds = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--seed") == 0)
            settings.seed = strtoull(argv[i + 1], NULL, 10);
        else if (strcmp(argv[i], "--in") == 0)
            settings.where = strcmp(argv[i + 1], "file") == 0 ? IN_FILE : IN_MEMORY;
        else if (!test_server_argument(argv[i], argv[i + 1]))
            return false;
    }
    return argc % 2 == 1 && settings.seconds > 0;
}

int main(int argc, char **argv)
{
    char test[64];
    settings.seed = (uint64_t)wall_us();
    if (!parse(argc, argv)) {
        fputs(usage, stderr);
        return 2;
    }
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/bide-livefuzz-XXXXXX", tmp ? tmp : "/tmp");
    outcome =
        mmap(NULL, sizeof *outcome, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (outcome == MAP_FAILED || mkdtemp(base) == NULL) {
        perror("livefuzz");
        return 2;
    }
    snprintf(test, sizeof test, "--seed %" PRIu64, settings.seed);
    struct isolated_test isolated = {test_server_settings.program, "livefuzz", test, run_here,
                                     fuzz};
    bool passed = run_isolated(&isolated, &outcome->trace, settings.seconds + 120);
    remove_folder(base);
    printf("%" PRIu64 " streams, %" PRIu64 " bytes, %" PRIu64 " looks, --seed %" PRIu64 "\n",
           outcome->streams, outcome->bytes, outcome->looks, settings.seed);
    passed = passed && outcome->looks > 0;
    printf("%d passed, %d failed\n", passed ? 1 : 0, passed ? 0 : 1);
    return passed ? 0 : 1;
}
