/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/look.h"
#include "cli/record.h"
#include "cli/when.h"
#include "util/near.h"

#include <poll.h>
#include <string.h>
#include <unistd.h>

#define AT_ONCE  1000
#define CAPACITY 100000
#define LOOK_MS  1000 /* how soon it is noticed that nobody reads any more */

static uint32_t kinds;
static uint64_t most;

/* ---- kinds ---- */

static bool take_kind(const char *name, size_t size, uint32_t *bits, char *error)
{
    struct near near = BI_NEAR_INIT;
    for (int kind = 0; kind < BIDE_EVENT_KINDS; kind++) {
        const char *known = bide_event_name((bide_event_kind)kind);
        if (strlen(known) == size && memcmp(known, name, size) == 0) {
            *bits |= UINT32_C(1) << kind;
            return true;
        }
        bi_near_look(&near, known, name, size);
    }
    if (near.best != NULL)
        return bi_refuse(error, "has a kind that there is not; did you mean %s?", near.best);
    return bi_refuse(error, "has a kind that there is not; \"bide help events\" lists them");
}

static bool read_kinds(const char *text, void *to, char *error)
{
    for (;;) {
        size_t size = strcspn(text, ",");
        if (!take_kind(text, size, to, error))
            return false;
        if (text[size] == 0)
            return true;
        text += size + 1;
    }
}

/* ---- showing ---- */

static int show(const struct cli *cli, const bide_event *event)
{
    char at[BI_WHEN_SIZE];
    if (cli->json)
        return bi_record_print(
            cli, json_pack("{s:s, s:s, s:I, s:s, s:I}", "kind", bide_event_name(event->kind),
                           "state", bide_state_name(event->state), "id", (json_int_t)event->id,
                           "topic", event->topic, "at_ms", (json_int_t)event->at_ms));
    enum bi_paint paint = bi_paint_state(event->state);
    const char *on = paint == BI_PAINT_OFF ? "" : bi_paint(cli, paint);
    bi_moment_stamp(at, event->at_ms);
    printf("%s  %-13s  %s%-8s%s  %10llu  %s\n", at, bide_event_name(event->kind), on,
           bide_state_name(event->state), on[0] == 0 ? "" : bi_paint(cli, BI_PAINT_OFF),
           (unsigned long long)event->id, event->topic);
    return BI_EXIT_OK;
}

/* In the feed, where they are missing; and for people beside it. */
static int show_lost(const struct cli *cli, uint64_t lost)
{
    if (lost == 0)
        return BI_EXIT_OK;
    if (cli->json)
        return bi_record_print(cli, json_pack("{s:I}", "lost", (json_int_t)lost));
    bi_cli_note(cli, "at least %llu event%s lost here", (unsigned long long)lost,
                lost == 1 ? " was" : "s were");
    return BI_EXIT_OK;
}

/* Whoever read the output may have gone while nothing happens. */
static bool has_reader(void)
{
    struct pollfd fd = {.fd = STDOUT_FILENO, .events = 0};
    return poll(&fd, 1, 0) <= 0 || (fd.revents & (POLLERR | POLLNVAL)) == 0;
}

/* ---- following ---- */

/* That nothing comes because nobody is there is told once, until something comes again. */
static void tell_silence(const struct cli *cli, bool *told)
{
    const char *sentence = strstr(bide_last_error(), "no connection");
    if (!*told && sentence != NULL) {
        bi_cli_note(cli, "%s; events go on when there is one again", sentence);
        *told = true;
    }
}

static int follow(struct cli *cli, bide_feed *feed)
{
    static bide_event events[AT_ONCE];
    uint64_t shown = 0;
    bool told = false;
    int exit = BI_EXIT_OK;
    while (exit == BI_EXIT_OK && (most == 0 || shown < most)) {
        size_t count = 0;
        uint64_t lost = 0;
        size_t room = most == 0 || most - shown > AT_ONCE ? AT_ONCE : (size_t)(most - shown);
        int code = bide_events(cli->queue, feed, LOOK_MS, events, room, &count, &lost);
        if (code == BIDE_TIMED_OUT) {
            tell_silence(cli, &told);
            exit = has_reader() ? bi_look_go_on(cli) : BI_EXIT_PIPE;
            continue;
        }
        if (code != BIDE_OK)
            return bi_look_answered(cli, code);
        told = false;
        exit = show_lost(cli, lost);
        for (size_t i = 0; i < count && exit == BI_EXIT_OK; i++)
            exit = show(cli, &events[i]);
        shown += count;
        if (exit == BI_EXIT_OK)
            exit = bi_look_go_on(cli);
    }
    return exit;
}

static int check(struct cli *cli)
{
    return cli->word_count == 0 || bi_look_topic(cli, cli->words[0]) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

static int run(struct cli *cli)
{
    const char *topic = cli->words[0];
    bide_feed *feed;
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    int code = bide_subscribe(cli->queue, topic, kinds, CAPACITY, &feed);
    if (code != BIDE_OK)
        return bi_look_answered(cli, code);
    bi_cli_note(cli, "events of %s from now on; Ctrl-C ends", topic == NULL ? "all topics" : topic);
    if ((bide_capabilities(cli->queue) & BIDE_CAN_SHARE) == 0)
        bi_cli_note(cli,
                    "nobody else can use %.200s meanwhile: only what time brings can be seen; "
                    "let \"bided\" keep the queue",
                    cli->shown);
    exit = follow(cli, feed);
    bide_unsubscribe(cli->queue, feed);
    return exit;
}

static const struct flag flags[] = {
    {'k', "kinds", "KIND,...", "only these", read_kinds, &kinds},
    BI_FLAG_COUNT('c', "count", &most, "end after so many (default: unlimited, until Ctrl-C)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_events = {
    .name = "events",
    .group = BI_GROUP_LOOK,
    .usage = "[TOPIC]",
    .summary = "what happens to jobs, as it happens",
    .details = "One line an event: when (UTC), what, the state of the job afterwards, its id,\n"
               "its topic. What a slow reader, or a connection that breaks, loses is said.\n"
               "Kinds: put, ready, reserved, released, failed, timed_out, buried, kicked,\n"
               "updated, cancel_wanted, done, deleted, expired, retired.\n"
               "\n"
               "  bide events\n"
               "  bide events email --kinds failed,buried\n"
               "  bide events --json | jq 'select(.kind == \"failed\") | .id'\n",
    .most = 1,
    .flags = flags,
    .check = check,
    .run = run,
};
