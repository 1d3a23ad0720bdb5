/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "replay.h"

#include "connection.h"
#include "pattern.h"
#include "print.h"
#include "reply.h"
#include "server.h"

#include <signal.h>

const char *const replay_deliveries[DELIVERIES] = {"written", "bytes", "burst"};

struct stage {
    const struct transcript *transcript;
    int delivery;
    struct server server;
    struct connection links[CONNECTIONS_MAX];
    struct pattern_values values;
    int64_t mark_us;
    int64_t
        yaml_left[CONNECTIONS_MAX]; /* bytes that lines with | still must have; -1: no such lines */
    /* Burst: what is to be sent on this connection, and what is expected there afterwards. */
    int burst_link;
    struct bytes burst;
    const struct step *expected_first, *expected_end;
};

static struct where at_step(const struct stage *stage, const struct step *step)
{
    return (struct where){stage->transcript->file, step->line};
}

/* ---- failures ---- */

#define SHOWN_MAX 300

static void fail_reply(const struct stage *stage, const struct step *step, const char *why)
{
    char shown[PRINTED_SIZE(SHOWN_MAX)];
    const struct connection *connection = &stage->links[step->connection];
    print_bytes(connection_data(connection), connection_size(connection), SHOWN_MAX, shown);
    print_server_log(&stage->server);
    fail_test(at_step(stage, step), "%s on %c\n     expected %.300s%s%s\n     got      %s%s", why,
              'a' + step->connection, step->text, step->wanted ? " with " : "",
              step->wanted ? step->wanted : "", shown, connection->ended ? "(closed)" : "");
}

/* ---- connections ---- */

static struct connection *link_of(struct stage *stage, const struct step *step)
{
    struct connection *connection = &stage->links[step->connection];
    if (connection->fd < 0 && !connection_open(connection, &stage->server))
        fail_reply(stage, step, "cannot connect");
    return connection;
}

static void send_bytes(struct stage *stage, const struct step *step, const struct bytes *bytes)
{
    struct connection *connection = link_of(stage, step);
    size_t piece = stage->delivery == DELIVER_BYTES ? 1 : bytes->size;
    for (size_t i = 0; i < bytes->size; i += piece)
        if (!connection_send(connection, bytes->data + i, piece))
            fail_reply(stage, step, "the server does not read");
}

/* ---- expecting ---- */

/* The lines with | after "OK \y" have so many bytes together. */
static void count_yaml(struct stage *stage, const struct step *step, size_t used, int64_t yaml_size)
{
    int64_t *left = &stage->yaml_left[step->connection];
    if (step->in_yaml && *left >= 0) {
        *left -= (int64_t)used;
        if (*left < 0)
            fail_reply(stage, step, "the reply has fewer bytes than it said");
        return;
    }
    if (*left > 0)
        fail_reply(stage, step, "the reply has more bytes than it said");
    *left = -1;
    if (yaml_size >= 0)
        *left = yaml_size;
}

static void expect(struct stage *stage, const struct step *step)
{
    struct connection *connection = link_of(stage, step);
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    enum pattern_match answer;
    size_t used = 0;
    int64_t yaml_size = -1;
    for (;;) {
        answer = pattern_compare(step, &stage->values, connection_data(connection),
                                 connection_size(connection), &used, &yaml_size);
        if (answer != MATCH_INCOMPLETE || !connection_fill(connection, limit_us))
            break;
    }
    CHECK(answer != MATCH_SAME || used > 0);
    if (answer == MATCH_DIFFERENT)
        fail_reply(stage, step, "another reply");
    if (answer == MATCH_INCOMPLETE)
        fail_reply(stage, step, connection->ended ? "the connection ended" : "no reply in time");
    count_yaml(stage, step, used, yaml_size);
    connection->taken += used;
}

/* ---- bursts ---- */

/* Sends what was gathered, and compares what was put off. */
static void flush(struct stage *stage)
{
    const struct step *first = stage->expected_first;
    stage->expected_first = NULL;
    if (stage->burst.size > 0) {
        char text[] = "(a burst)";
        const struct step at = {
            .connection = stage->burst_link, .line = stage->transcript->line, .text = text};
        send_bytes(stage, &at, &stage->burst);
        stage->burst.size = 0;
    }
    for (; first && first < stage->expected_end; first++)
        if (first->action == ACTION_EXPECT)
            expect(stage, first);
}

static void do_send(struct stage *stage, const struct step *step)
{
    struct bytes bytes = {NULL, 0, 0};
    if (stage->burst_link != step->connection || !pattern_is_complete(step, &stage->values))
        flush(stage);
    if (!pattern_is_complete(step, &stage->values))
        fail_reply(stage, step, "a word that is not known");
    if (stage->delivery == DELIVER_BURST) {
        stage->burst_link = step->connection;
        pattern_write(step, &stage->values, &stage->burst);
        return;
    }
    pattern_write(step, &stage->values, &bytes);
    send_bytes(stage, step, &bytes);
    bytes_done(&bytes);
}

static void do_expect(struct stage *stage, const struct step *step)
{
    if (stage->delivery == DELIVER_BURST && stage->burst_link == step->connection &&
        stage->burst.size > 0) {
        if (!stage->expected_first)
            stage->expected_first = step;
        stage->expected_end = step + 1;
        return;
    }
    flush(stage);
    expect(stage, step);
}

/* ---- the other deeds ---- */

/* Takes one reply; false: not complete. */
static bool take_reply(struct connection *connection, const char *text, bool *has)
{
    size_t size = reply_size(connection_data(connection), connection_size(connection));
    if (size == 0)
        return false;
    *has = memmem(connection_data(connection), size, text, strlen(text)) != NULL;
    connection->taken += size;
    return true;
}

static void do_ask(struct stage *stage, const struct step *step)
{
    struct connection *connection = link_of(stage, step);
    struct bytes command = {NULL, 0, 0};
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    bool has = false;
    if (!pattern_is_complete(step, &stage->values))
        fail_reply(stage, step, "a word that is not known");
    pattern_write(step, &stage->values, &command);
    while (!has) {
        send_bytes(stage, step, &command);
        while (!take_reply(connection, step->wanted, &has))
            if (!connection_fill(connection, limit_us))
                fail_reply(stage, step, "no reply in time");
        if (!has && clock_us() > limit_us)
            fail_reply(stage, step, "never comes true");
        if (!has)
            nap_ms(2);
    }
    bytes_done(&command);
}

static void do_open(struct stage *stage, const struct step *step)
{
    link_of(stage, step);
}

static void do_half(struct stage *stage, const struct step *step)
{
    connection_half_close(link_of(stage, step));
}

static void do_close(struct stage *stage, const struct step *step)
{
    struct connection *connection = link_of(stage, step);
    if (connection_size(connection) > 0)
        fail_reply(stage, step, "something came that was not expected");
    connection_close(connection);
}

static void do_leave(struct stage *stage, const struct step *step)
{
    connection_close(link_of(stage, step));
}

static void do_ended(struct stage *stage, const struct step *step)
{
    struct connection *connection = link_of(stage, step);
    if (connection_size(connection) > 0 ||
        connection_fill(connection, clock_us() + PATIENCE_MS * 1000))
        fail_reply(stage, step, "something came that was not expected");
    if (!connection->ended)
        fail_reply(stage, step, "the server does not close");
    connection_close(connection);
}

static void do_quiet(struct stage *stage, const struct step *step)
{
    struct connection *connection = link_of(stage, step);
    if (connection_size(connection) > 0 ||
        connection_fill(connection, clock_us() + step->number * 1000) || connection->ended)
        fail_reply(stage, step, "something came that was not expected");
}

static void do_sleep(struct stage *stage, const struct step *step)
{
    (void)stage;
    nap_ms(step->number);
}

static void do_mark(struct stage *stage, const struct step *step)
{
    (void)step;
    stage->mark_us = clock_us();
}

static void do_passed(struct stage *stage, const struct step *step)
{
    check_not_before(at_step(stage, step), stage->mark_us, step->number);
}

static void do_signal(struct stage *stage, const struct step *step)
{
    check_equal(at_step(stage, step), kill(stage->server.pid, (int)step->number), 0, "kill()");
}

static void (*const deeds[])(struct stage *stage, const struct step *step) = {
    [ACTION_SEND] = do_send,     [ACTION_EXPECT] = do_expect, [ACTION_ASK] = do_ask,
    [ACTION_OPEN] = do_open,     [ACTION_HALF] = do_half,     [ACTION_CLOSE] = do_close,
    [ACTION_LEAVE] = do_leave,   [ACTION_ENDED] = do_ended,   [ACTION_QUIET] = do_quiet,
    [ACTION_SLEEP] = do_sleep,   [ACTION_MARK] = do_mark,     [ACTION_PASSED] = do_passed,
    [ACTION_SIGNAL] = do_signal,
};

/* ---- the whole ---- */

/* At the end no connection has anything more to say: the server closes what the client will not
 * use any more, without a word. */
static void end_links(struct stage *stage)
{
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        struct step step = {.connection = i, .line = stage->transcript->line};
        char text[] = "no more, at the end of the transcript";
        step.text = text;
        if (stage->links[i].fd < 0)
            continue;
        connection_half_close(&stage->links[i]);
        do_ended(stage, &step);
    }
}

void replay(const struct transcript *transcript, int delivery, const char *command)
{
    static struct stage stage;
    stage = (struct stage){.transcript = transcript, .delivery = delivery};
    for (int i = 0; i < CONNECTIONS_MAX; i++) {
        stage.links[i].fd = -1;
        stage.yaml_left[i] = -1;
    }
    struct where at = {transcript->file, transcript->line};
    if (!server_start(&stage.server, command, transcript->flags, transcript->config,
                      delivery != DELIVER_BURST))
        fail_test(at, "no server");
    for (size_t i = 0; i < transcript->step_count; i++) {
        const struct step *step = &transcript->steps[i];
        if (step->action != ACTION_SEND && step->action != ACTION_EXPECT)
            flush(&stage);
        deeds[step->action](&stage, step);
    }
    flush(&stage);
    end_links(&stage);
    check_true(at, server_stop(&stage.server), "a server that stops well");
    pattern_forget(&stage.values);
    bytes_done(&stage.burst);
}
