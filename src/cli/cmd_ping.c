/* SPDX-License-Identifier: MIT */
#include "cli/query.h"
#include "util/clock.h"

#include <assert.h>
#include <poll.h>

#define DAY_MS 86400000

static uint64_t ping_count = 1;
static int64_t interval_ms = 1000;

struct ping_stats {
    uint64_t count;
    int64_t least_us, most_us, sum_us;
};

static const char *server_kind(const struct cli *cli)
{
    uint32_t can = bide_capabilities(cli->queue);
    if ((can & BIDE_CAN_SHARE) == 0)
        return "this process";
    return (can & BIDE_CAN_ALL_OPS) != 0 ? "bided" : "beanstalkd";
}

static int print_reply(const struct cli *cli, int64_t us)
{
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:s, s:s, s:I}", "url", cli->shown, "server",
                                                server_kind(cli), "round_trip_us", (json_int_t)us));
    printf("%s: %s answers in %.3f ms\n", cli->shown, server_kind(cli), (double)us / 1000);
    return bi_query_flush(cli);
}

static int ping(const struct cli *cli, struct ping_stats *ping_stats)
{
    int64_t began = bi_clock_boot();
    int code = bide_ping(cli->queue);
    int64_t us = bi_clock_boot() - began;

    if (code != BIDE_OK) {
        int exit = bi_cli_report_last(cli, code);
        return exit == BI_EXIT_FAILED ? BI_EXIT_NO_QUEUE : exit;
    }
    ping_stats->least_us =
        ping_stats->count == 0 || us < ping_stats->least_us ? us : ping_stats->least_us;
    ping_stats->most_us = us > ping_stats->most_us ? us : ping_stats->most_us;
    ping_stats->sum_us += us;
    ping_stats->count++;
    return print_reply(cli, us);
}

static void print_summary(const struct cli *cli, const struct ping_stats *ping_stats)
{
    if (ping_count != 1 && ping_stats->count > 0 && !cli->json)
        bi_cli_note(cli, "%llu answer%s: %.3f ms at least, %.3f on average, %.3f at most",
                    (unsigned long long)ping_stats->count, ping_stats->count == 1 ? "" : "s",
                    (double)ping_stats->least_us / 1000,
                    (double)ping_stats->sum_us / (double)ping_stats->count / 1000,
                    (double)ping_stats->most_us / 1000);
}

/* A server that ping started would always answer. */
static int check(struct cli *cli)
{
    cli->no_start = true;
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    struct ping_stats ping_stats = {.count = 0};
    int exit = BI_EXIT_OK;

    assert(interval_ms >= 0);
    for (uint64_t i = 0; exit == BI_EXIT_OK && (ping_count == 0 || i < ping_count); i++) {
        struct pollfd fd = {.fd = bi_interrupt_fd(), .events = POLLIN};
        if (i > 0)
            poll(&fd, 1, interval_ms > DAY_MS ? DAY_MS : (int)interval_ms);
        exit = bi_interrupted() ? bi_interrupt_exit() : ping(cli, &ping_stats);
    }
    print_summary(cli, &ping_stats);
    return exit;
}

static const struct flag flags[] = {
    BI_FLAG_COUNT('c', "count", &ping_count, "number of pings; 0: until Ctrl-C (default: 1)"),
    BI_FLAG_DURATION('i', "interval", &interval_ms, "time between two pings (default: 1s)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_ping = {
    .name = "ping",
    .usage = "",
    .summary = "check that the queue answers, and measure how fast",
    .flags = flags,
    .traits = BI_VERB_INTERRUPT,
    .check = check,
    .run = run,
};
