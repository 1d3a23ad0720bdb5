/* SPDX-License-Identifier: MIT */
/*
 * cmd_topic.c - verbs that act on a whole topic or queue: kick, pause, resume, drain.
 */
#include "cli/query.h"
#include "util/clock.h"

#include <string.h>

/* ---- kick ---- */

static bool by_id, delayed;
static uint64_t max = UINT64_MAX;

static const struct id_verb kick_row = {.op = &(bide_op){.kind = BIDE_OP_KICK_JOB},
                                        .past_tense = "kicked"};

static const struct flag kick_flags[] = {
    BI_FLAG_BOOL('i', "id", &by_id, "the arguments are ids of buried or delayed jobs"),
    BI_FLAG_BOOL('d', "delayed", &delayed, "kick delayed jobs, soonest first, if none is buried"),
    BI_FLAGS_END,
};

static int check_kick(struct cli *cli)
{
    char reason[BI_ERRMSG_SIZE];

    int exit = bi_verb_check_words(cli, 1, BI_WORDS_MAX);
    if (exit != BI_EXIT_OK)
        return exit;
    if (by_id)
        return delayed ? bi_cli_usage_error(cli, "--delayed and --id are both given; choose one")
                       : bi_by_id_check(cli);
    if (cli->word_count > 2)
        return bi_cli_usage_error(cli, "too many arguments: bide kick TOPIC [N], or --id ID...");
    if (cli->word_count == 2 && !bi_flag_parse_count(cli->words[1], &max, reason))
        return bi_cli_usage_error(cli, "\"%.60s\" %s", cli->words[1], reason);
    return bi_query_check_topic(cli, cli->words[0]) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

static int print_count(const struct cli *cli, uint64_t count)
{
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:s, s:s, s:I}", "topic", cli->words[0], "verb",
                                                "kick", "count", (json_int_t)count));
    if (cli->out_terminal)
        printf("%s kicked\n", bi_text_jobs(count).s);
    else
        printf("%llu\n", (unsigned long long)count);
    return BI_EXIT_OK;
}

/* bide_kick() kicks delayed jobs when no job is buried, also when another client has kicked the
 * buried ones since the stats were read. A plain beanstalkd has no other kick: there the number of
 * buried jobs is the limit. */
static int kick_some(const struct cli *cli, uint64_t limit, uint64_t *count)
{
    bool plain = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0;
    return delayed || plain ? bide_kick(cli->queue, cli->words[0], limit, count)
                            : bide_kick_buried(cli->queue, cli->words[0], limit, count);
}

static int kick_topic(const struct cli *cli)
{
    const char *topic = cli->words[0];
    bide_topic_stats stats;
    uint64_t count = 0;

    int exit = bi_query_topic_stats_or_zero(cli, topic, &stats);
    if (exit != BI_EXIT_OK)
        return exit;

    int code = BIDE_OK;
    uint64_t there = stats.jobs.buried > 0 ? stats.jobs.buried : delayed ? stats.jobs.delayed : 0;
    if (there > 0 && max > 0)
        code = kick_some(cli, there < max ? there : max, &count);
    else if (max > 0 && !delayed && stats.jobs.delayed > 0)
        bi_cli_note(cli, "no job of %s is buried; --delayed kicks the %llu delayed", topic,
                    (unsigned long long)stats.jobs.delayed);

    exit = bi_cli_report_last(cli, code);
    int printed = print_count(cli, count);
    return exit == BI_EXIT_OK ? printed : exit;
}

static int run_kick(struct cli *cli)
{
    return by_id ? bi_by_id_run(cli) : kick_topic(cli);
}

const struct verb bi_verb_kick = {
    .name = "kick",
    .usage = "TOPIC [N] | --id ID...|-",
    .summary = "make buried (or delayed) jobs ready",
    .flags = kick_flags,
    .traits = BI_VERB_COUNTS_WORDS,
    .check = check_kick,
    .run = run_kick,
    .data = &kick_row,
};

/* ---- pause ---- */

static int64_t until_ms;
static int64_t for_ms = BIDE_FOREVER;

/* The quotes that a topic such as $schedules needs in a shell. */
static const char *quote_for(const char *topic)
{
    return strpbrk(topic, "$;()") != NULL ? "'" : "";
}

static int check_pause(struct cli *cli)
{
    char reason[BI_ERRMSG_SIZE];

    if (!bi_query_check_topic(cli, cli->words[0]))
        return BI_EXIT_USAGE;
    if (cli->word_count == 2 && until_ms != 0)
        return bi_cli_usage_error(cli, "a duration and --until are both given; choose one");
    if (cli->word_count == 2 && !bi_duration_parse(cli->words[1], &for_ms, reason))
        return bi_cli_usage_error(cli, "\"%.60s\" %.300s", cli->words[1], reason);
    if (until_ms != 0)
        for_ms = until_ms - bi_clock_wall() / 1000;
    if (for_ms != BIDE_FOREVER && for_ms <= 0)
        return bi_cli_usage_error(cli, "that time is past; \"bide resume %s%s%s\" ends a pause",
                                  quote_for(cli->words[0]), cli->words[0],
                                  quote_for(cli->words[0]));
    return BI_EXIT_OK;
}

static void print_pause(const struct cli *cli)
{
    struct text end;
    int64_t now = bi_clock_wall() / 1000000 * 1000; /* in whole seconds */

    if (for_ms == BIDE_FOREVER)
        snprintf(end.s, sizeof(end.s), "\"bide resume %s%.40s%s\"", quote_for(cli->words[0]),
                 cli->words[0], quote_for(cli->words[0]));
    else
        end = bi_text_moment_from(until_ms != 0 ? until_ms : now + for_ms, now);
    bi_cli_note(cli, "%s is paused until %s", cli->words[0], end.s);
}

static int run_pause(struct cli *cli)
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

static const struct flag pause_flags[] = {
    BI_FLAG_TIME(0, "until", &until_ms, "end of the pause"),
    BI_FLAGS_END,
};

const struct verb bi_verb_pause = {
    .name = "pause",
    .usage = "TOPIC [DURATION]",
    .summary = "stop reserves from a topic, for a time or until resumed",
    .flags = pause_flags,
    .check = check_pause,
    .run = run_pause,
};

/* ---- resume ---- */

static int run_resume(struct cli *cli)
{
    bide_topic_stats before;

    int exit = bi_query_topic_stats_or_zero(cli, cli->words[0], &before);
    if (exit != BI_EXIT_OK)
        return exit;

    /* The topic may be removed meanwhile, when its pause ends. */
    int code = bide_resume(cli->queue, cli->words[0]);
    if (code != BIDE_OK && code != BIDE_NOT_FOUND)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:s, s:b}", "topic", cli->words[0], "paused", 0));
    bi_cli_note(cli, before.paused ? "%s is resumed" : "%s was not paused", cli->words[0]);
    return BI_EXIT_OK;
}

const struct verb bi_verb_resume = {
    .name = "resume",
    .usage = "TOPIC",
    .summary = "end the pause of a topic",
    .check = bi_query_check_topics,
    .run = run_resume,
};

/* ---- drain ---- */

static bool drain_on;

static int check_drain(struct cli *cli)
{
    drain_on = strcmp(cli->words[0], "on") == 0;
    if (drain_on || strcmp(cli->words[0], "off") == 0)
        return BI_EXIT_OK;
    return bi_cli_usage_error(cli, "\"%.60s\" is not on or off", cli->words[0]);
}

/* Draining is not stored, so it has no effect on a queue that this process closes again. */
static int run_drain(struct cli *cli)
{
    if ((bide_capabilities(cli->queue) & BIDE_CAN_SHARE) == 0)
        return bi_cli_error(
            cli, BI_EXIT_REFUSED,
            "%.200s is open in this process only, and draining ends with it; only a "
            "bided can drain",
            cli->shown);
    int code = bide_drain(cli->queue, drain_on);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:b}", "draining", drain_on ? 1 : 0));
    bi_cli_note(cli, drain_on ? "new jobs are refused until \"bide drain off\""
                              : "new jobs are accepted again");
    return BI_EXIT_OK;
}

const struct verb bi_verb_drain = {
    .name = "drain",
    .usage = "on|off",
    .summary = "refuse new jobs while existing ones are processed",
    .check = check_drain,
    .run = run_drain,
};
