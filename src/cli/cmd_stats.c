/* SPDX-License-Identifier: MIT */
#include "cli/query.h"
#include "op/job_json.h"
#include "util/duration.h"

#include <string.h>

/* ---- tables of figures ---- */

static const struct stat_field counts[] = {
    {"ready", offsetof(bide_counts, ready)},     {"urgent", offsetof(bide_counts, urgent)},
    {"delayed", offsetof(bide_counts, delayed)}, {"reserved", offsetof(bide_counts, reserved)},
    {"buried", offsetof(bide_counts, buried)},   {"done", offsetof(bide_counts, done)},
};

static void show_number(const struct cli *cli, const char *name, uint64_t number)
{
    char text[32];
    bi_print_count(cli, text, number);
    bi_print_property(cli, name, "%s", text);
}

static void show_fields(const struct cli *cli, const struct stat_field *fields, size_t count,
                        const void *from)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number;
        memcpy(&number, (const char *)from + fields[i].offset, sizeof(number));
        show_number(cli, fields[i].name, number);
    }
}

#define SHOW(cli, fields, from) show_fields(cli, fields, sizeof(fields) / sizeof((fields)[0]), from)

/* What has happened is apart from what is. */
static void show_counters(const struct cli *cli, const bide_counters *total)
{
    if (cli->out_terminal)
        putchar('\n');
    SHOW(cli, bi_job_json_counters, total);
}

/* A plain beanstalkd does not know it. */
static void show_oldest(const struct cli *cli, const bide_counts *jobs, int64_t age_ms)
{
    char text[BI_DATETIME_SIZE];
    bi_query_format_duration(text, age_ms);
    bool age_known = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) != 0;
    bi_print_property(cli, "oldest ready", "%s", jobs->ready > 0 && age_known ? text : "-");
}

/* ---- one topic ---- */

static int show_topic(const struct cli *cli)
{
    bide_topic_stats topic;
    char pause[BI_DATETIME_SIZE], message[BIDE_TOPIC_MAX + 32];
    int code = bide_topic_get_stats(cli->queue, cli->words[0], &topic);
    if (code == BIDE_NOT_FOUND) { /* which a plain beanstalkd does not name */
        snprintf(message, sizeof(message), "there is no topic %s", cli->words[0]);
        return bi_cli_report(cli, NULL, code, message);
    }
    if (code != BIDE_OK)
        return bi_query_report(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, bi_job_json_encode_topic(&topic));
    bi_query_format_pause(pause, &topic);
    bi_print_property(cli, "topic", "%s", topic.name);
    SHOW(cli, counts, &topic.jobs);
    show_number(cli, "waiting", topic.waiting);
    show_number(cli, "references", topic.references);
    show_oldest(cli, &topic.jobs, topic.oldest_ready_age_ms);
    bi_print_property(cli, "paused", "%s", pause);
    show_counters(cli, &topic.total);
    return BI_EXIT_OK;
}

/* ---- the queue ---- */

static int show_queue(const struct cli *cli)
{
    bide_stats stats;
    char text[BI_DATETIME_SIZE], size[32];
    int code = bide_queue_stats(cli->queue, &stats);
    if (code != BIDE_OK)
        return bi_query_report(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, bi_job_json_encode_stats(&stats));
    bi_print_property_bytes(cli, "queue", cli->shown, strlen(cli->shown));
    show_number(cli, "topics", stats.topics);
    SHOW(cli, counts, &stats.jobs);
    show_number(cli, "waiting", stats.waiting);
    show_number(cli, "watching", stats.watching);
    show_oldest(cli, &stats.jobs, stats.oldest_ready_age_ms);
    bi_print_size(size, stats.memory_bytes);
    bi_print_property(cli, "memory", "%s", stats.memory_bytes == 0 ? "-" : size);
    show_number(cli, "pending ops", stats.pending_ops);
    show_number(cli, "last id", stats.last_id);
    bi_print_property(cli, "draining", "%s", stats.draining ? "yes" : "no");
    bi_query_format_duration(text, stats.uptime_ms);
    bi_print_property(cli, "up for", "%s", text);
    show_counters(cli, &stats.total);
    return BI_EXIT_OK;
}

static int check(struct cli *cli)
{
    return cli->word_count == 0 || bi_query_check_topic(cli, cli->words[0]) ? BI_EXIT_OK
                                                                            : BI_EXIT_USAGE;
}

static int run(struct cli *cli)
{
    return cli->word_count == 0 ? show_queue(cli) : show_topic(cli);
}

const struct verb bi_verb_stats = {
    .name = "stats",
    .group = BI_GROUP_QUERY,
    .usage = "[TOPIC]",
    .summary = "print statistics of the queue or of a topic",
    .details =
        "Prints the number of jobs in each state (urgent: ready with a priority below 1024),\n"
        "the number of waiting clients, and counters since the queue was opened or the topic\n"
        "was created.\n"
        "\n"
        "  bide stats\n"
        "  bide stats email\n"
        "  bide stats email --json | jq .jobs.ready\n",
    .max = 1,
    .check = check,
    .run = run,
};
