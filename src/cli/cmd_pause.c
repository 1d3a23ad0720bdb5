/* SPDX-License-Identifier: MIT */
#include "cli/job_json.h"
#include "cli/query.h"
#include "util/clock.h"
#include "util/duration.h"

static int64_t until_ms;
static int64_t for_ms = BIDE_FOREVER;

static int check(struct cli *cli)
{
    char reason[BI_ERRMSG_SIZE];
    if (!bi_query_check_topic(cli, cli->words[0]))
        return BI_EXIT_USAGE;
    if (cli->word_count == 2 && until_ms != 0)
        return bi_cli_usage_error(cli, "a duration and --until do not go together");
    if (cli->word_count == 2 && !bi_duration_parse(cli->words[1], &for_ms, reason))
        return bi_cli_usage_error(cli, "\"%.60s\" %.300s", cli->words[1], reason);
    if (until_ms != 0)
        for_ms = until_ms - bi_clock_wall() / 1000;
    if (for_ms != BIDE_FOREVER && for_ms <= 0)
        return bi_cli_usage_error(cli, "that is over already; \"bide resume %s\" ends a pause",
                                  cli->words[0]);
    return BI_EXIT_OK;
}

static void print_pause(const struct cli *cli)
{
    char text[BI_DATETIME_SIZE];
    int64_t now = bi_clock_wall() / 1000000 * 1000; /* in whole seconds */
    if (for_ms == BIDE_FOREVER)
        snprintf(text, sizeof(text), "\"bide resume %.40s\"", cli->words[0]);
    else
        bi_datetime_describe(text, until_ms != 0 ? until_ms : now + for_ms, now);
    bi_cli_note(cli, "%s is paused until %s", cli->words[0], text);
}

static int run(struct cli *cli)
{
    int code = bide_pause(cli->queue, cli->words[0], for_ms);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(
            cli, json_pack("{s:s, s:b, s:I}", "topic", cli->words[0], "paused", 1, "pause_ms",
                           (json_int_t)(for_ms == BIDE_FOREVER ? BIDE_TIME_MAX_MS : for_ms)));
    print_pause(cli);
    return BI_EXIT_OK;
}

static const struct flag flags[] = {
    BI_FLAG_TIME(0, "until", &until_ms, "until this moment"),
    BI_FLAGS_END,
};

const struct verb bi_verb_pause = {
    .name = "pause",
    .group = BI_GROUP_TOPIC,
    .usage = "TOPIC [DURATION]",
    .summary = "nobody gets jobs of a topic, for some time or until resume",
    .details = "Jobs can still be put, and looked at; those that are reserved go on. What ends\n"
               "a pause is its time, or \"bide resume\".\n"
               "\n"
               "  bide pause email 30m\n"
               "  bide pause email --until 'tomorrow 9:00'\n"
               "  bide pause email\n",
    .min = 1,
    .max = 2,
    .flags = flags,
    .check = check,
    .run = run,
};
