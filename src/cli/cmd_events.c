/* SPDX-License-Identifier: MIT */
#include "cli/query.h"

#include <string.h>

#define EVENTS_MAX 1000
#define CAPACITY   100000
#define POLL_MS    1000 /* interval of checking that the output has a reader */

static uint32_t kinds;
static uint64_t max;

/* ---- kinds ---- */

static bool parse_kind(const char *name, size_t size, uint32_t *bits, char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;

    for (int kind = 0; kind < BIDE_EVENT_KINDS; kind++) {
        const char *known = bide_event_name((bide_event_kind)kind);
        if (strlen(known) == size && memcmp(known, name, size) == 0) {
            *bits |= UINT32_C(1) << kind;
            return true;
        }
        bi_suggest_consider(&suggestion, known, name, size);
    }
    if (suggestion.best != NULL)
        return bi_errmsg_set(error, "has an unknown kind; did you mean %s?", suggestion.best);
    return bi_errmsg_set(error, "has an unknown kind; see \"bide help events\"");
}

static bool parse_kinds(const char *text, void *to, char *error)
{
    for (;;) {
        size_t size = strcspn(text, ",");
        if (!parse_kind(text, size, to, error))
            return false;
        if (text[size] == 0)
            return true;
        text += size + 1;
    }
}

/* ---- showing ---- */

static int show(const struct cli *cli, const bide_event *event)
{
    char at[BI_DATETIME_SIZE];

    if (cli->json)
        return bi_cli_print_json(
            cli, json_pack("{s:s, s:s, s:I, s:s, s:I}", "kind", bide_event_name(event->kind),
                           "state", bide_state_name(event->state), "id", (json_int_t)event->id,
                           "topic", event->topic, "at_ms", (json_int_t)event->at_ms));
    struct styled_state state = bi_print_styled_state(cli, event->state);
    bi_datetime_format_rfc3339(at, event->at_ms);
    printf("%s  %-13s  %s%-8s%s  %10llu  %s\n", at, bide_event_name(event->kind), state.on,
           state.name, state.off, (unsigned long long)event->id, event->topic);
    return BI_EXIT_OK;
}

/* Reports lost events at their place in the stream. */
static int show_lost(const struct cli *cli, uint64_t lost)
{
    if (lost == 0)
        return BI_EXIT_OK;
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:I}", "lost", (json_int_t)lost));
    bi_cli_note(cli, "at least %llu event%s lost here", (unsigned long long)lost,
                lost == 1 ? " was" : "s were");
    return BI_EXIT_OK;
}

/* ---- following ---- */

/* Reports a lost connection once, until an event arrives. */
static void note_disconnect(const struct cli *cli, bool *noted)
{
    const char *message = strstr(bide_last_error(), "no connection");
    if (!*noted && message != NULL) {
        bi_cli_note(cli, "%s; events continue after a reconnect", message);
        *noted = true;
    }
}

static int follow(struct cli *cli, bide_subscription *subscription)
{
    static bide_event events[EVENTS_MAX];
    uint64_t shown = 0;
    bool noted = false;
    int exit = BI_EXIT_OK;

    while (exit == BI_EXIT_OK && (max == 0 || shown < max)) {
        size_t count = 0;
        uint64_t lost = 0;
        size_t room = max == 0 || max - shown > EVENTS_MAX ? EVENTS_MAX : (size_t)(max - shown);
        int code = bide_events(cli->queue, subscription, POLL_MS, events, room, &count, &lost);

        if (code == BIDE_TIMED_OUT) {
            note_disconnect(cli, &noted);
            exit = bi_cli_is_output_closed() ? BI_EXIT_PIPE : bi_query_flush(cli);
            continue;
        }
        if (code != BIDE_OK)
            return bi_cli_report_last(cli, code);

        noted = false;
        exit = show_lost(cli, lost);
        for (size_t i = 0; i < count && exit == BI_EXIT_OK; i++)
            exit = show(cli, &events[i]);
        shown += count;
        if (exit == BI_EXIT_OK)
            exit = bi_query_flush(cli);
    }
    return exit;
}

static int run(struct cli *cli)
{
    const char *topic = cli->words[0];
    bide_subscription *subscription;

    int code = bide_subscribe(cli->queue, topic, kinds, CAPACITY, &subscription);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    bi_cli_note(cli, "following events of %s; Ctrl-C stops", topic == NULL ? "all topics" : topic);
    if ((bide_capabilities(cli->queue) & BIDE_CAN_SHARE) == 0)
        bi_cli_note(cli,
                    "%.200s is open in this process only: no other process can change its jobs; "
                    "serve the queue with bided",
                    cli->shown);
    int exit = follow(cli, subscription);
    bide_unsubscribe(cli->queue, subscription);
    return exit;
}

static const struct flag flags[] = {
    {'k', "kinds", "KIND,...", "only these kinds", parse_kinds, &kinds},
    BI_FLAG_COUNT('c', "count", &max, "stop after N events (default: unlimited)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_events = {
    .name = "events",
    .usage = "[TOPIC]",
    .summary = "follow the events of jobs",
    .flags = flags,
    .traits = BI_VERB_INTERRUPT,
    .check = bi_query_check_topics,
    .run = run,
};
