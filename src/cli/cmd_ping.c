/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/look.h"
#include "cli/record.h"
#include "util/clock.h"

#include <poll.h>

static uint64_t times = 1;
static int64_t every_ms = 1000;

struct pings {
    uint64_t count;
    int64_t least_us, most_us, sum_us;
};

static const char *who(const struct cli *cli)
{
    uint32_t can = bide_capabilities(cli->queue);
    if ((can & BIDE_CAN_SHARE) == 0)
        return "this process";
    return (can & BIDE_CAN_ALL_OPS) != 0 ? "bided" : "beanstalkd";
}

static int show(const struct cli *cli, int64_t us)
{
    if (cli->json)
        return bi_record_print(cli, json_pack("{s:s, s:s, s:I}", "url", cli->shown, "server",
                                              who(cli), "round_trip_us", (json_int_t)us));
    printf("%s: %s answers in %.3f ms\n", cli->shown, who(cli), (double)us / 1000);
    return bi_look_go_on(cli);
}

static int ping(const struct cli *cli, struct pings *pings)
{
    int64_t began = bi_clock_boot();
    int code = bide_ping(cli->queue);
    int64_t us = bi_clock_boot() - began;
    if (code != BIDE_OK) {
        int exit = bi_look_answered(cli, code);
        return exit == BI_EXIT_FAILED ? BI_EXIT_NO_QUEUE : exit;
    }
    pings->least_us = pings->count == 0 || us < pings->least_us ? us : pings->least_us;
    pings->most_us = us > pings->most_us ? us : pings->most_us;
    pings->sum_us += us;
    pings->count++;
    return show(cli, us);
}

static void sum_up(const struct cli *cli, const struct pings *pings)
{
    if (times != 1 && pings->count > 0 && !cli->json)
        bi_cli_note(cli, "%llu answer%s: %.3f ms at least, %.3f on average, %.3f at most",
                    (unsigned long long)pings->count, pings->count == 1 ? "" : "s",
                    (double)pings->least_us / 1000,
                    (double)pings->sum_us / (double)pings->count / 1000,
                    (double)pings->most_us / 1000);
}

static void pause_between(void)
{
    struct pollfd fd = {.fd = bi_interrupt_fd(), .events = POLLIN};
    poll(&fd, 1, every_ms > 86400000 ? 86400000 : (int)every_ms);
}

/* A server that is started for the question would always answer it. */
static int check(struct cli *cli)
{
    cli->no_start = true;
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    struct pings pings = {.count = 0};
    int exit = bi_interrupt_watch(cli, cli->queue);
    for (uint64_t i = 0; exit == BI_EXIT_OK && (times == 0 || i < times); i++) {
        if (i > 0)
            pause_between();
        exit = bi_interrupted() ? bi_interrupt_exit() : ping(cli, &pings);
    }
    sum_up(cli, &pings);
    return exit;
}

static const struct flag flags[] = {
    BI_FLAG_COUNT('c', "count", &times, "so many times, 0: until Ctrl-C (default: 1)"),
    BI_FLAG_DURATION('i', "interval", &every_ms, "time between two (default: 1s)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_ping = {
    .name = "ping",
    .group = BI_GROUP_STORE,
    .usage = "",
    .summary = "is the queue there, who answers, and how fast",
    .details = "The exit code is 6 when no server answers; ping starts none.\n"
               "\n"
               "  bide ping\n"
               "  bide ping --url beanstalk://queue.example:11300 --count 10 --interval 200ms\n",
    .flags = flags,
    .check = check,
    .run = run,
};
