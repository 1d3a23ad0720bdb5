/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* memmem */
#include "play.h"

#include "link.h"
#include "reply.h"
#include "server.h"
#include "show.h"
#include "text.h"

#include <signal.h>

const char *const play_deliveries[DELIVERIES] = {"written", "bytes", "burst"};

struct stage {
    const struct transcript *transcript;
    int delivery;
    struct server server;
    struct link links[LINKS_MAX];
    struct text_values values;
    int64_t mark_us;
    int64_t yaml_left[LINKS_MAX]; /* bytes that lines with | still must have; -1: no such lines */
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
    char shown[SHOWN_ROOM(SHOWN_MAX)];
    const struct link *link = &stage->links[step->link];
    show_bytes(link_data(link), link_size(link), SHOWN_MAX, shown);
    server_tell(&stage->server);
    fail_test(at_step(stage, step), "%s on %c\n     expected %.300s%s%s\n     got      %s%s", why,
              'a' + step->link, step->text, step->wanted ? " with " : "",
              step->wanted ? step->wanted : "", shown, link->ended ? "(closed)" : "");
}

/* ---- connections ---- */

static struct link *link_of(struct stage *stage, const struct step *step)
{
    struct link *link = &stage->links[step->link];
    if (link->fd < 0 && !link_open(link, &stage->server))
        fail_reply(stage, step, "cannot connect");
    return link;
}

static void send_bytes(struct stage *stage, const struct step *step, const struct bytes *bytes)
{
    struct link *link = link_of(stage, step);
    size_t piece = stage->delivery == DELIVER_BYTES ? 1 : bytes->size;
    for (size_t i = 0; i < bytes->size; i += piece)
        if (!link_send(link, bytes->data + i, piece))
            fail_reply(stage, step, "the server does not read");
}

/* ---- expecting ---- */

/* The lines with | after "OK \y" have so many bytes together. */
static void count_yaml(struct stage *stage, const struct step *step, size_t used, int64_t yaml_size)
{
    int64_t *left = &stage->yaml_left[step->link];
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
    struct link *link = link_of(stage, step);
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    enum text_answer answer;
    size_t used = 0;
    int64_t yaml_size = -1;
    for (;;) {
        answer =
            text_compare(step, &stage->values, link_data(link), link_size(link), &used, &yaml_size);
        if (answer != TEXT_SHORT || !link_fill(link, limit_us))
            break;
    }
    CHECK(answer != TEXT_SAME || used > 0);
    if (answer == TEXT_DIFFERENT)
        fail_reply(stage, step, "another reply");
    if (answer == TEXT_SHORT)
        fail_reply(stage, step, link->ended ? "the connection ended" : "no reply in time");
    count_yaml(stage, step, used, yaml_size);
    link->taken += used;
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
            .link = stage->burst_link, .line = stage->transcript->line, .text = text};
        send_bytes(stage, &at, &stage->burst);
        stage->burst.size = 0;
    }
    for (; first && first < stage->expected_end; first++)
        if (first->deed == DEED_EXPECT)
            expect(stage, first);
}

static void do_send(struct stage *stage, const struct step *step)
{
    struct bytes bytes = {NULL, 0, 0};
    if (stage->burst_link != step->link || !text_known(step, &stage->values))
        flush(stage);
    if (!text_known(step, &stage->values))
        fail_reply(stage, step, "a word that is not known");
    if (stage->delivery == DELIVER_BURST) {
        stage->burst_link = step->link;
        text_write(step, &stage->values, &stage->burst);
        return;
    }
    text_write(step, &stage->values, &bytes);
    send_bytes(stage, step, &bytes);
    bytes_done(&bytes);
}

static void do_expect(struct stage *stage, const struct step *step)
{
    if (stage->delivery == DELIVER_BURST && stage->burst_link == step->link &&
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
static bool take_reply(struct link *link, const char *text, bool *has)
{
    size_t size = reply_size(link_data(link), link_size(link));
    if (size == 0)
        return false;
    *has = memmem(link_data(link), size, text, strlen(text)) != NULL;
    link->taken += size;
    return true;
}

static void do_ask(struct stage *stage, const struct step *step)
{
    struct link *link = link_of(stage, step);
    struct bytes command = {NULL, 0, 0};
    int64_t limit_us = clock_us() + PATIENCE_MS * 1000;
    bool has = false;
    if (!text_known(step, &stage->values))
        fail_reply(stage, step, "a word that is not known");
    text_write(step, &stage->values, &command);
    while (!has) {
        send_bytes(stage, step, &command);
        while (!take_reply(link, step->wanted, &has))
            if (!link_fill(link, limit_us))
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
    link_half(link_of(stage, step));
}

static void do_close(struct stage *stage, const struct step *step)
{
    struct link *link = link_of(stage, step);
    if (link_size(link) > 0)
        fail_reply(stage, step, "something came that was not expected");
    link_close(link);
}

static void do_leave(struct stage *stage, const struct step *step)
{
    link_close(link_of(stage, step));
}

static void do_ended(struct stage *stage, const struct step *step)
{
    struct link *link = link_of(stage, step);
    if (link_size(link) > 0 || link_fill(link, clock_us() + PATIENCE_MS * 1000))
        fail_reply(stage, step, "something came that was not expected");
    if (!link->ended)
        fail_reply(stage, step, "the server does not close");
    link_close(link);
}

static void do_quiet(struct stage *stage, const struct step *step)
{
    struct link *link = link_of(stage, step);
    if (link_size(link) > 0 || link_fill(link, clock_us() + step->number * 1000) || link->ended)
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
    [DEED_SEND] = do_send,     [DEED_EXPECT] = do_expect, [DEED_ASK] = do_ask,
    [DEED_OPEN] = do_open,     [DEED_HALF] = do_half,     [DEED_CLOSE] = do_close,
    [DEED_LEAVE] = do_leave,   [DEED_ENDED] = do_ended,   [DEED_QUIET] = do_quiet,
    [DEED_SLEEP] = do_sleep,   [DEED_MARK] = do_mark,     [DEED_PASSED] = do_passed,
    [DEED_SIGNAL] = do_signal,
};

/* ---- the whole ---- */

/* At the end no connection has anything more to say: the server closes what the client will not
 * use any more, without a word. */
static void end_links(struct stage *stage)
{
    for (int i = 0; i < LINKS_MAX; i++) {
        struct step step = {.link = i, .line = stage->transcript->line};
        char text[] = "no more, at the end of the transcript";
        step.text = text;
        if (stage->links[i].fd < 0)
            continue;
        link_half(&stage->links[i]);
        do_ended(stage, &step);
    }
}

void play(const struct transcript *transcript, int delivery, const char *command)
{
    static struct stage stage;
    stage = (struct stage){.transcript = transcript, .delivery = delivery};
    for (int i = 0; i < LINKS_MAX; i++) {
        stage.links[i].fd = -1;
        stage.yaml_left[i] = -1;
    }
    struct where at = {transcript->file, transcript->line};
    if (!server_start(&stage.server, command, transcript->flags, transcript->config,
                      delivery != DELIVER_BURST))
        fail_test(at, "no server");
    for (size_t i = 0; i < transcript->step_count; i++) {
        const struct step *step = &transcript->steps[i];
        if (step->deed != DEED_SEND && step->deed != DEED_EXPECT)
            flush(&stage);
        deeds[step->deed](&stage, step);
    }
    flush(&stage);
    end_links(&stage);
    check_true(at, server_stop(&stage.server), "a server that stops well");
    text_forget(&stage.values);
    bytes_done(&stage.burst);
}
