/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "lockstep.h"

#include "print.h"
#include "reply.h"

#include "../contract/contract.h"
#include "../sim/rng.h"

#include <signal.h>
#include <stdarg.h>

#define SIDES       2
#define REPLIES_MAX 4096
#define SETTLE_US   (INT64_C(2) * 1000000)
#define NOBODY      (-1)
#define UNKNOWN_ID  UINT64_C(88888888)

/* A client, as one of the servers knows it. */
struct peer {
    struct connection connection;
    struct bytes owed;               /* the letters of replies that are to come */
    size_t answered;                 /* how many of them have */
    struct bytes heard[REPLIES_MAX]; /* the plain replies of this turn */
    size_t heard_count;
};

struct side {
    struct server server;
    struct connection control;
    struct peer peers[SCENARIO_CLIENTS];
    uint64_t next_id;
    uint64_t ids[SCENARIO_JOBS + 1];
    const char *wrong;
};

struct ring {
    const struct lockstep_settings *settings;
    struct verdict *verdict;
    struct side sides[SIDES];
    size_t jobs;                 /* as many have ids */
    long held[SCENARIO_CLIENTS]; /* the job that each reserved last, or -1 */
    int waiting;                 /* the client whose reserve waits, or NOBODY */
    uint64_t apart_s;
};

static bool burns_ids[SIDES];
static int64_t patience_us = PATIENCE_MS * 1000;

static void differ(struct ring *ring, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void differ(struct ring *ring, const char *format, ...)
{
    va_list arguments;
    if (!ring->verdict->same)
        return;
    ring->verdict->same = false;
    va_start(arguments, format);
    vsnprintf(ring->verdict->text, sizeof ring->verdict->text, format, arguments);
    va_end(arguments);
}

static const char *const side_names[SIDES] = {"left", "right"};

/* ---- the tester's own connection ---- */

/* Asks for stats and gives the reply, which is good until the next question. */
static const char *ask_stats(struct side *side, size_t *size)
{
    struct connection *control = &side->control;
    int64_t limit_us = clock_us() + patience_us;
    control->in.size = control->taken = 0;
    if (!connection_send(control, "stats\r\n", 7))
        return NULL;
    while ((*size = reply_size(connection_data(control), connection_size(control))) == 0)
        if (!connection_fill(control, limit_us))
            return NULL;
    return connection_data(control);
}

/* Asks until a figure has this value; draining is a figure, too. */
static bool await_figure(struct side *side, const char *key, long value)
{
    int64_t limit_us = clock_us() + patience_us;
    while (clock_us() < limit_us) {
        size_t size = 0;
        const char *stats = ask_stats(side, &size);
        if (!stats)
            return false;
        if (reply_value(stats, size, key) == value)
            return true;
        nap_ms(1);
    }
    return false;
}

static bool await_drain(struct side *side)
{
    int64_t limit_us = clock_us() + patience_us;
    while (clock_us() < limit_us) {
        size_t size = 0;
        const char *stats = ask_stats(side, &size);
        if (!stats)
            return false;
        if (memmem(stats, size, "\ndraining: true\n", 16))
            return true;
        nap_ms(1);
    }
    return false;
}

/* ---- replies ---- */

static char next_owed(const struct peer *peer)
{
    return peer->answered < peer->owed.size ? peer->owed.data[peer->answered] : 0;
}

/* For the test of the tester. */
static void alter(const struct lockstep_settings *settings, struct bytes *plain)
{
    size_t size = strlen(settings->alter_from);
    struct bytes other = {NULL, 0, 0};
    char *found = memmem(plain->data, plain->size, settings->alter_from, size);
    if (!found)
        return;
    bytes_add(&other, plain->data, (size_t)(found - plain->data));
    bytes_text(&other, settings->alter_to);
    bytes_add(&other, found + size, plain->size - (size_t)(found - plain->data) - size);
    bytes_done(plain);
    *plain = other;
}

static void take_replies(struct ring *ring, int which, struct peer *peer)
{
    struct side *side = &ring->sides[which];
    struct reply_names names = {side->ids, ring->jobs};
    size_t size;
    while ((size = reply_size(connection_data(&peer->connection),
                              connection_size(&peer->connection))) > 0) {
        if (next_owed(peer) == 0 || peer->heard_count == REPLIES_MAX) {
            side->wrong = "more replies than commands";
            return;
        }
        struct bytes *plain = &peer->heard[peer->heard_count++];
        plain->size = 0;
        reply_plain(connection_data(&peer->connection), size, next_owed(peer), &names, plain);
        if (which == 1 && ring->settings->alter_from)
            alter(ring->settings, plain);
        peer->connection.taken += size;
        peer->answered++;
    }
}

/* The client from whom something is still to come, a waiting reserve last; NULL: all is there. */
static struct peer *still_owed(struct side *side)
{
    struct peer *waiting = NULL;
    for (int i = 0; i < SCENARIO_CLIENTS; i++) {
        char next = next_owed(&side->peers[i]);
        if (next == 'w')
            waiting = &side->peers[i];
        else if (next)
            return &side->peers[i];
    }
    return waiting;
}

/* Reads until everything is answered but a reserve that waits. */
static void settle(struct ring *ring, int which, int64_t limit_us, bool must_answer)
{
    struct side *side = &ring->sides[which];
    struct peer *peer;
    for (int i = 0; i < SCENARIO_CLIENTS; i++)
        take_replies(ring, which, &side->peers[i]);
    while (!side->wrong && (peer = still_owed(side)) != NULL) {
        size_t size = 0;
        bool may_wait = next_owed(peer) == 'w';
        connection_fill(&peer->connection, may_wait && !must_answer ? clock_us() : limit_us);
        size_t before = peer->answered;
        take_replies(ring, which, peer);
        if (peer->answered > before)
            continue;
        if (peer->connection.ended)
            side->wrong = "the connection ended";
        else if (clock_us() > limit_us)
            side->wrong = "no reply in time";
        else if (may_wait && !must_answer) {
            const char *stats = ask_stats(side, &size);
            if (!stats)
                side->wrong = "no stats";
            else if (reply_value(stats, size, "current-waiting") == 1)
                return;
        }
    }
}

static int who_waits(struct side *side)
{
    for (int i = 0; i < SCENARIO_CLIENTS; i++)
        if (next_owed(&side->peers[i]) == 'w')
            return i;
    return NOBODY;
}

static void settle_both(struct ring *ring)
{
    for (int i = 0; i < SIDES; i++)
        settle(ring, i, clock_us() + patience_us, false);
    /* One may need a moment more until it tells the one who waited. */
    int64_t limit_us = clock_us() + SETTLE_US;
    for (int i = 0; i < SIDES; i++)
        if (who_waits(&ring->sides[i]) != NOBODY && who_waits(&ring->sides[1 - i]) == NOBODY)
            settle(ring, i, limit_us, true);
    ring->waiting = who_waits(&ring->sides[0]);
}

/* ---- comparing ---- */

#define SHOWN_MAX 200

/* Shows them from the line on in which they differ. */
static void differ_reply(struct ring *ring, int client, size_t index, const struct bytes *left,
                         const struct bytes *right)
{
    char shown[SIDES][PRINTED_SIZE(SHOWN_MAX)];
    size_t same = 0;
    while (same < left->size && same < right->size && left->data[same] == right->data[same])
        same++;
    while (same > 0 && left->data[same - 1] != '\n')
        same--;
    print_bytes(left->data + same, left->size - same, SHOWN_MAX, shown[0]);
    print_bytes(right->data + same, right->size - same, SHOWN_MAX, shown[1]);
    differ(ring, "client %d, reply %zu%s\n       left  %.1600s\n       right %.1600s", client,
           index + 1, same > 0 ? ", behind what is the same" : "", shown[0], shown[1]);
}

static void compare_client(struct ring *ring, int client)
{
    struct peer *left = &ring->sides[0].peers[client];
    struct peer *right = &ring->sides[1].peers[client];
    size_t common = left->heard_count < right->heard_count ? left->heard_count : right->heard_count;
    for (size_t i = 0; i < common; i++) {
        ring->verdict->replies++;
        if (!reply_same(&left->heard[i], &right->heard[i], ring->apart_s))
            differ_reply(ring, client, i, &left->heard[i], &right->heard[i]);
        long job = reply_reserved(&left->heard[i]);
        if (job >= 0)
            ring->held[client] = job;
    }
    if (left->heard_count != right->heard_count)
        differ(ring, "client %d: %zu replies on the left, %zu on the right", client,
               left->heard_count, right->heard_count);
    left->heard_count = right->heard_count = 0;
}

static void compare(struct ring *ring)
{
    for (int i = 0; i < SCENARIO_CLIENTS; i++)
        compare_client(ring, i);
    for (int i = 0; i < SIDES; i++)
        if (ring->sides[i].wrong)
            differ(ring, "%s: %s", side_names[i], ring->sides[i].wrong);
}

/* ---- sending ---- */

static uint64_t id_of(const struct side *side, size_t jobs, long job)
{
    return job >= 0 && (size_t)job < jobs && side->ids[job] ? side->ids[job] : UNKNOWN_ID;
}

/* Writes out one mark; the new jobs of the turn are counted by the caller. */
static void write_mark(struct ring *ring, int which, int client, char kind, unsigned job,
                       struct bytes *out)
{
    struct side *side = &ring->sides[which];
    char text[32] = "";
    if (kind == 'H' && ring->held[client] >= 0)
        job = (unsigned)ring->held[client];
    switch (kind) {
    case 'P':
        side->ids[job] = side->next_id++;
        return;
    case 'B':
        side->next_id += burns_ids[which];
        return;
    case 'K':
        bytes_text(out, ring->waiting == NOBODY ? scenario_kicks[job] : "1");
        return;
    case 'W':
        bytes_text(out, ring->waiting == NOBODY ? "reserve" : "reserve-with-timeout 0");
        return;
    default:
        if (kind == 'H' && ring->held[client] >= 0)
            job = (unsigned)ring->held[client];
        snprintf(text, sizeof text, "%llu",
                 (unsigned long long)id_of(side, SCENARIO_JOBS, (long)job));
        bytes_text(out, text);
    }
}

static void write_turn(struct ring *ring, int which, const struct turn *turn, struct bytes *out)
{
    const char *text = turn->text.data;
    for (size_t i = 0; i < turn->text.size;) {
        if (text[i] != MARK) {
            bytes_add(out, text + i++, 1);
            continue;
        }
        char digits[5] = {0};
        memcpy(digits, text + i + 2, 4);
        unsigned job = (unsigned)strtoul(digits, NULL, 16);
        if (text[i + 1] == 'P' && job >= ring->jobs)
            ring->jobs = job + 1;
        write_mark(ring, which, turn->client, text[i + 1], job, out);
        i += MARK_SIZE;
    }
}

static bool send_cut(struct connection *connection, const struct bytes *bytes, uint64_t cuts)
{
    struct rng rng = {cuts};
    size_t sent = 0;
    while (sent < bytes->size) {
        size_t piece = bytes->size - sent;
        if (cuts && piece > 1)
            piece = 1 + rng_below(&rng, piece < 40 ? piece : 40);
        if (!connection_send(connection, bytes->data + sent, piece))
            return false;
        sent += piece;
    }
    return true;
}

static void send_turn(struct ring *ring, const struct turn *turn)
{
    for (int i = 0; i < SIDES; i++) {
        struct side *side = &ring->sides[i];
        struct peer *peer = &side->peers[turn->client];
        struct bytes bytes = {NULL, 0, 0};
        if (peer->connection.fd < 0 && !connection_open(&peer->connection, &side->server)) {
            side->wrong = "cannot connect";
            return;
        }
        peer->owed.size = peer->answered = 0;
        if (peer->connection.taken == peer->connection.in.size)
            peer->connection.in.size = peer->connection.taken = 0;
        for (size_t j = 0; j < turn->replies.size; j++) {
            /* A reserve that does not wait has a reply like any other. */
            char kind = turn->replies.data[j];
            bytes_add(&peer->owed, kind == 'w' && ring->waiting != NOBODY ? "." : &kind, 1);
        }
        write_turn(ring, i, turn, &bytes);
        if (!send_cut(&peer->connection, &bytes, turn->cuts))
            side->wrong = "the server does not read";
        bytes_done(&bytes);
    }
}

/* ---- ends of connections ---- */

static int open_clients(const struct side *side)
{
    int count = 0;
    for (int i = 0; i < SCENARIO_CLIENTS; i++)
        count += side->peers[i].connection.fd >= 0;
    return count;
}

/* Reads up to the end that must come, with all replies before it. */
static void read_to_end(struct ring *ring, int which, struct peer *peer)
{
    struct side *side = &ring->sides[which];
    int64_t limit_us = clock_us() + patience_us;
    while (connection_fill(&peer->connection, limit_us))
        take_replies(ring, which, peer);
    take_replies(ring, which, peer);
    if (!peer->connection.ended)
        side->wrong = "the server does not close";
    else if (next_owed(peer) || connection_size(&peer->connection) > 0)
        side->wrong = "the connection ended with replies missing, or in the middle of one";
}

static void end_client(struct ring *ring, int client, enum turn_end end)
{
    for (int i = 0; i < SIDES && !ring->sides[i].wrong; i++) {
        struct side *side = &ring->sides[i];
        struct peer *peer = &side->peers[client];
        if (end == TURN_HALF)
            connection_half_close(&peer->connection);
        if (end == TURN_HALF || end == TURN_QUIT)
            read_to_end(ring, i, peer);
        connection_close(&peer->connection);
        peer->owed.size = peer->answered = 0;
        if (!side->wrong && !await_figure(side, "current-connections", 1 + open_clients(side)))
            side->wrong = "the close of a client is not noticed";
    }
    ring->held[client] = -1;
}

static void drain(struct ring *ring)
{
    for (int i = 0; i < SIDES; i++) {
        kill(ring->sides[i].server.pid, SIGUSR1);
        if (!await_drain(&ring->sides[i]))
            ring->sides[i].wrong = "does not drain";
    }
}

/* ---- turns ---- */

/* One whose reserve waits cannot say anything more, but it can go away, if nothing stands behind
 * the reserve that might or might not be executed then. */
static void play_waiting(struct ring *ring, const struct turn *turn)
{
    const struct peer *peer = &ring->sides[0].peers[turn->client];
    bool alone = peer->answered + 1 == peer->owed.size;
    if (turn->end == TURN_HALF || (turn->end == TURN_CLOSE && alone)) {
        end_client(ring, turn->client, turn->end);
        ring->waiting = NOBODY;
    }
}

static void play_turn(struct ring *ring, const struct turn *turn)
{
    if (turn->end == TURN_DRAIN) {
        drain(ring);
    } else if (ring->waiting == turn->client) {
        play_waiting(ring, turn);
    } else {
        send_turn(ring, turn);
        if (turn->end != TURN_HALF)
            settle_both(ring);
        if (turn->end != TURN_GOES_ON)
            end_client(ring, turn->client, turn->end);
    }
    if (!ring->sides[0].wrong && !ring->sides[1].wrong)
        settle_both(ring);
    compare(ring);
}

static bool begin(struct ring *ring)
{
    for (int i = 0; i < SIDES; i++) {
        struct side *side = &ring->sides[i];
        side->next_id = 1;
        if (!server_start(&side->server, ring->settings->commands[i], SCENARIO_FLAGS, "", false))
            return false;
        for (int j = 0; j < SCENARIO_CLIENTS; j++)
            side->peers[j].connection.fd = -1;
        if (!connection_open(&side->control, &side->server))
            return false;
    }
    for (int i = 0; i < SCENARIO_CLIENTS; i++)
        ring->held[i] = -1;
    ring->waiting = NOBODY;
    return true;
}

static void end_side(struct ring *ring, int which)
{
    struct side *side = &ring->sides[which];
    for (int i = 0; i < SCENARIO_CLIENTS; i++) {
        struct peer *peer = &side->peers[i];
        connection_close(&peer->connection);
        bytes_done(&peer->owed);
        for (size_t j = 0; j < REPLIES_MAX; j++)
            bytes_done(&peer->heard[j]);
    }
    connection_close(&side->control);
    if (!server_stop(&side->server))
        differ(ring, "%s: the server did not end well", side_names[which]);
}

void run_lockstep(const struct scenario *scenario, const struct lockstep_settings *settings,
                  struct verdict *verdict)
{
    struct ring *ring = calloc(1, sizeof *ring);
    *verdict = (struct verdict){.same = true};
    if (!ring)
        exit(2);
    ring->settings = settings;
    patience_us = settings->patience_ms * 1000;
    ring->verdict = verdict;
    ring->apart_s = 1;
    if (!begin(ring))
        exit(2);
    for (size_t i = 0; i < scenario->count && verdict->same; i++) {
        int64_t start_us = clock_us();
        if (scenario->turns[i].left_out)
            continue;
        verdict->turn = i;
        play_turn(ring, &scenario->turns[i]);
        uint64_t took_s = 1 + (uint64_t)(clock_us() - start_us) / 1000000;
        if (took_s > ring->apart_s)
            ring->apart_s = took_s;
    }
    for (int i = 0; i < SIDES; i++)
        end_side(ring, i);
    free(ring);
}

/* ---- before ---- */

static bool learn(const char *command, bool *burns)
{
    static const char text[] = "put 0 0 100 1\r\nabcput 0 0 100 1\r\na\r\n";
    struct server server;
    struct connection connection;
    unsigned id = 0;
    if (!server_start(&server, command, SCENARIO_FLAGS, "", false))
        return false;
    bool good = connection_open(&connection, &server) &&
                connection_send(&connection, text, sizeof text - 1);
    int64_t limit_us = clock_us() + patience_us;
    while (good &&
           !memmem(connection_data(&connection), connection_size(&connection), "INSERTED ", 9))
        good = connection_fill(&connection, limit_us);
    good = good &&
           reply_size(connection_data(&connection) + 15, connection_size(&connection) - 15) > 0 &&
           sscanf(connection_data(&connection), "EXPECTED_CRLF\r\nINSERTED %u\r\n", &id) == 1;
    connection_close(&connection);
    *burns = id == 2;
    return server_stop(&server) && good && (id == 1 || id == 2);
}

bool lockstep_prepare(const struct lockstep_settings *settings)
{
    for (int i = 0; i < SIDES; i++) {
        if (!learn(settings->commands[i], &burns_ids[i])) {
            printf("%s does not answer as a server should\n", settings->commands[i]);
            return false;
        }
    }
    return true;
}
