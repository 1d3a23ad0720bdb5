/* SPDX-License-Identifier: MIT */
/*
 * cmd_topics.c - bide topics and bide stats.
 *
 * To be sorted, topics are collected first; otherwise they are printed as they arrive, in constant
 * memory.
 */
#include "cli/query.h"
#include "op/job_json.h"

#include <stdlib.h>
#include <string.h>

#define ROWS_MAX 500 /* of an unsorted list: collected before they are printed */
#define HEADERS  "TOPIC|>READY|>DELAYED|>RESERVED|>BURIED|>DONE|>WAITING|>OLDEST|PAUSED"

static bool names_only, waiting_only, reversed;
static const char *sort_by;

/* ---- sort keys ---- */

#define OFFSET(member) offsetof(bide_topic_stats, member)

/* The number that is compared. */
static const struct sort_key {
    const char *name;
    size_t offset; /* 0: the name, which is the first member */
} sort_keys[] = {
    {"name", 0},
    {"ready", OFFSET(jobs.ready)},
    {"delayed", OFFSET(jobs.delayed)},
    {"reserved", OFFSET(jobs.reserved)},
    {"buried", OFFSET(jobs.buried)},
    {"done", OFFSET(jobs.done)},
    {"waiting", OFFSET(waiting)},
    {"age", OFFSET(oldest_ready_age_ms)},
    {"puts", OFFSET(total.puts)},
};
_Static_assert(OFFSET(name) == 0, "an order without a place is that of the names");

static const struct sort_key *sort_key = &sort_keys[0];

static bool parse_order(const char *text, void *to, char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;

    for (size_t i = 0; i < sizeof(sort_keys) / sizeof(sort_keys[0]); i++) {
        if (strcmp(sort_keys[i].name, text) == 0) {
            sort_key = &sort_keys[i];
            *(const char **)to = text;
            return true;
        }
        bi_suggest_consider(&suggestion, sort_keys[i].name, text, strlen(text));
    }
    if (suggestion.best != NULL)
        return bi_errmsg_set(error, "is not a sort key; did you mean %s?", suggestion.best);
    return bi_errmsg_set(
        error, "is not a sort key: name, ready, delayed, reserved, buried, done, waiting, "
               "age or puts");
}

static int compare(const void *left, const void *right)
{
    const bide_topic_stats *a = left, *b = right;
    int sign = reversed ? -1 : 1;

    if (sort_key->offset != 0) {
        uint64_t x, y;
        memcpy(&x, (const char *)left + sort_key->offset, sizeof(x));
        memcpy(&y, (const char *)right + sort_key->offset, sizeof(y));
        if (x != y)
            return x > y ? -sign : sign;
    }
    int names = strcmp(a->name, b->name);
    return reversed ? -names : names;
}

/* ---- printing ---- */

/* A plain beanstalkd does not know the age of jobs. */
static struct text format_oldest(const struct cli *cli, const bide_counts *jobs, int64_t age_ms)
{
    bool known = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) != 0;
    return bi_text_age(jobs->ready > 0 && known ? age_ms : -1);
}

static void show_row(const struct cli *cli, struct table *table, const bide_topic_stats *topic)
{
    const bide_counts *jobs = &topic->jobs;

    bi_table_cell(table, BI_STYLE_OFF, "%s", topic->name);
    bi_table_number(table, BI_STYLE_OFF, jobs->ready);
    bi_table_number(table, BI_STYLE_OFF, jobs->delayed);
    bi_table_number(table, BI_STYLE_OFF, jobs->reserved);
    bi_table_number(table, jobs->buried > 0 ? BI_STYLE_BAD : BI_STYLE_OFF, jobs->buried);
    bi_table_number(table, BI_STYLE_OFF, jobs->done);
    bi_table_number(table, BI_STYLE_OFF, topic->waiting);
    bi_table_cell(table, BI_STYLE_OFF, "%s",
                  format_oldest(cli, jobs, topic->oldest_ready_age_ms).s);
    bool limited = !topic->paused && topic->limited != BIDE_LIMIT_NONE;
    bi_table_cell(table, topic->paused || limited ? BI_STYLE_WARN : BI_STYLE_OFF, "%s",
                  limited ? bi_query_format_limit(topic).s : bi_query_format_pause(topic).s);
}

static int show(const struct cli *cli, struct table *table, const bide_topic_stats *topics,
                size_t count)
{
    int exit = BI_EXIT_OK;

    for (size_t i = 0; i < count && exit == BI_EXIT_OK; i++) {
        if (names_only && !cli->json)
            puts(topics[i].name);
        else if (names_only)
            exit = bi_cli_print_json(cli, json_string(topics[i].name));
        else if (cli->json)
            exit = bi_cli_print_json(cli, bi_job_json_encode_topic(&topics[i]));
        else
            show_row(cli, table, &topics[i]);
    }
    if (table != NULL)
        bi_table_flush(table);
    return exit == BI_EXIT_OK ? bi_query_flush(cli) : exit;
}

/* ---- reading ---- */

struct topic_list {
    struct cli *cli;
    struct table *table; /* NULL: names or JSON */
    bool sorted;
    bide_topic_stats *topics; /* that are not printed yet */
    size_t count, capacity;
};

static int print_list(struct topic_list *list)
{
    if (list->sorted && list->count > 0)
        qsort(list->topics, list->count, sizeof(*list->topics), compare);
    int exit = show(list->cli, list->table, list->topics, list->count);
    list->count = 0;
    return exit;
}

static int add_topic(void *user, const bide_topic_stats *topic)
{
    struct topic_list *list = user;

    if (!BI_CLI_RESERVE(list->topics, list->count + 1, list->capacity))
        return bi_cli_error(list->cli, BI_EXIT_FAILED, "out of memory");
    list->topics[list->count++] = *topic;
    return !list->sorted && list->count == ROWS_MAX ? print_list(list) : BI_EXIT_OK;
}

static int run_topics(struct cli *cli)
{
    bool has_table = !cli->json && !names_only;
    struct topic_list list = {
        .cli = cli,
        .table = has_table ? bi_table_new(cli, HEADERS) : NULL,
        .sorted = sort_by != NULL || reversed || cli->out_terminal,
    };

    int exit = bi_query_each_topic(cli, cli->queue, waiting_only, add_topic, &list);
    if (exit == BI_EXIT_OK)
        exit = print_list(&list);
    else if (!list.sorted)
        print_list(&list); /* what has arrived */
    free(list.topics);
    if (exit == BI_EXIT_OK)
        return has_table ? bi_table_print(list.table) : BI_EXIT_OK;
    bi_table_free(list.table);
    return exit;
}

static const struct flag flags[] = {
    BI_FLAG_BOOL('n', "names", &names_only, "print only names, one per line"),
    {'s', "sort", "name|age|puts|waiting|ready|delayed|reserved|buried|done",
     "sort key, largest first", parse_order, &sort_by},
    BI_FLAG_BOOL('r', "reverse", &reversed, "reverse the order"),
    BI_FLAG_BOOL('w', "waiting", &waiting_only, "only topics that clients wait for"),
    BI_FLAGS_END,
};

const struct verb bi_verb_topics = {
    .name = "topics",
    .usage = "",
    .summary = "list topics with their numbers of jobs",
    .flags = flags,
    .traits = BI_VERB_INTERRUPT,
    .run = run_topics,
};

/* ---- stats: tables of figures ---- */

static const struct stat_field counts[] = {
    {"ready", offsetof(bide_counts, ready)},     {"urgent", offsetof(bide_counts, urgent)},
    {"delayed", offsetof(bide_counts, delayed)}, {"reserved", offsetof(bide_counts, reserved)},
    {"buried", offsetof(bide_counts, buried)},   {"done", offsetof(bide_counts, done)},
};

static void show_fields(const struct cli *cli, const struct stat_field *fields, size_t count,
                        const void *from)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number;
        memcpy(&number, (const char *)from + fields[i].offset, sizeof(number));
        bi_print_property_number(cli, fields[i].name, number);
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

/* ---- stats of a topic ---- */

/* Only of a topic that has any. */
static void show_limits(const struct cli *cli, const bide_topic_stats *topic)
{
    if (topic->concurrency != 0)
        bi_print_property_number(cli, "concurrency", topic->concurrency);
    if (topic->rate != 0)
        bi_print_property(cli, "rate", "%s per %s", bi_text_count(cli, topic->rate).s,
                          bi_text_duration(topic->rate_period_ms).s);
    if (topic->concurrency != 0 || topic->rate != 0)
        bi_print_property(cli, "limited", "%s", bi_query_format_limit(topic).s);
}

static int show_topic(const struct cli *cli)
{
    bide_topic_stats topic;

    int exit = bi_query_topic_stats(cli, cli->words[0], &topic);
    if (exit != BI_EXIT_OK)
        return exit;
    if (cli->json)
        return bi_cli_print_json(cli, bi_job_json_encode_topic(&topic));

    bi_print_property(cli, "topic", "%s", topic.name);
    SHOW(cli, counts, &topic.jobs);
    bi_print_property_number(cli, "waiting", topic.waiting);
    bi_print_property_number(cli, "references", topic.references);
    bi_print_property(cli, "oldest ready", "%s",
                      format_oldest(cli, &topic.jobs, topic.oldest_ready_age_ms).s);
    bi_print_property(cli, "paused", "%s", bi_query_format_pause(&topic).s);
    show_limits(cli, &topic);
    show_counters(cli, &topic.total);
    return BI_EXIT_OK;
}

/* ---- stats of the queue ---- */

static int run_stats(struct cli *cli)
{
    bide_stats stats;

    if (cli->word_count > 0)
        return show_topic(cli);
    int code = bide_queue_stats(cli->queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, bi_job_json_encode_stats(&stats));
    bi_print_property_bytes(cli, "queue", cli->shown, strlen(cli->shown));
    bi_print_property_number(cli, "topics", stats.topics);
    SHOW(cli, counts, &stats.jobs);
    bi_print_property_number(cli, "waiting", stats.waiting);
    bi_print_property_number(cli, "watching", stats.watching);
    bi_print_property(cli, "oldest ready", "%s",
                      format_oldest(cli, &stats.jobs, stats.oldest_ready_age_ms).s);
    bi_print_property(cli, "memory", "%s",
                      stats.memory_bytes == 0 ? "-" : bi_text_size(stats.memory_bytes).s);
    bi_print_property_number(cli, "pending ops", stats.pending_ops);
    bi_print_property_number(cli, "last id", stats.last_id);
    bi_print_property(cli, "draining", "%s", stats.draining ? "yes" : "no");
    bi_print_property(cli, "up for", "%s", bi_text_age(stats.uptime_ms).s);

    show_counters(cli, &stats.total);
    return BI_EXIT_OK;
}

const struct verb bi_verb_stats = {
    .name = "stats",
    .usage = "[TOPIC]",
    .summary = "print statistics of the queue or of a topic",
    .check = bi_query_check_topics,
    .run = run_stats,
};
