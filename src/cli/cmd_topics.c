/* SPDX-License-Identifier: MIT */
/*
 * Topics come in pages. On a terminal, and where an order is wanted, all are gathered first; else
 * each page is printed as it comes, however many there are.
 */
#include "cli/interrupt.h"
#include "cli/look.h"
#include "cli/record.h"
#include "cli/when.h"
#include "util/near.h"

#include <stdlib.h>
#include <string.h>

#define PAGE  500
#define HEADS "TOPIC|>READY|>DELAYED|>RESERVED|>BURIED|>DONE|>WAITING|>OLDEST|PAUSED"

static bool names_only, waiting_only, reversed;
static const char *sort_by;

/* ---- orders ---- */

#define PLACE(member) offsetof(bide_topic_stats, member)

/* Where the number is that decides; the largest is first. */
static const struct order {
    const char *name;
    size_t place; /* 0: the name, which is at the beginning */
} orders[] = {
    {"name", 0},
    {"ready", PLACE(jobs.ready)},
    {"delayed", PLACE(jobs.delayed)},
    {"reserved", PLACE(jobs.reserved)},
    {"buried", PLACE(jobs.buried)},
    {"done", PLACE(jobs.done)},
    {"waiting", PLACE(waiting)},
    {"age", PLACE(oldest_ready_age_ms)},
    {"puts", PLACE(total.puts)},
};
_Static_assert(PLACE(name) == 0, "an order without a place is that of the names");

static const struct order *order = &orders[0];

static bool read_order(const char *text, void *to, char *error)
{
    struct near near = BI_NEAR_INIT;
    for (size_t i = 0; i < sizeof(orders) / sizeof(orders[0]); i++) {
        if (strcmp(orders[i].name, text) == 0) {
            order = &orders[i];
            *(const char **)to = text;
            return true;
        }
        bi_near_look(&near, orders[i].name, text, strlen(text));
    }
    if (near.best != NULL)
        return bi_refuse(error, "is no order; did you mean %s?", near.best);
    return bi_refuse(error, "is no order: name, ready, delayed, reserved, buried, done, waiting, "
                            "age or puts");
}

static int compare(const void *left, const void *right)
{
    const bide_topic_stats *a = left, *b = right;
    int sign = reversed ? -1 : 1;
    if (order->place != 0) {
        uint64_t x, y;
        memcpy(&x, (const char *)left + order->place, sizeof(x));
        memcpy(&y, (const char *)right + order->place, sizeof(y));
        if (x != y)
            return x > y ? -sign : sign;
    }
    int names = strcmp(a->name, b->name);
    return reversed ? -names : names;
}

/* ---- showing ---- */

static void show_row(const struct cli *cli, struct table *table, const bide_topic_stats *topic)
{
    char oldest[BI_WHEN_SIZE], pause[BI_WHEN_SIZE];
    const bide_counts *jobs = &topic->jobs;
    /* A plain beanstalkd does not know how old its jobs are. */
    bool knows_age = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) != 0;
    bi_look_duration(oldest, jobs->ready > 0 && knows_age ? topic->oldest_ready_age_ms : -1);
    bi_look_pause(pause, topic);
    bi_table_cell(table, BI_PAINT_OFF, "%s", topic->name);
    bi_table_number(table, BI_PAINT_OFF, jobs->ready);
    bi_table_number(table, BI_PAINT_OFF, jobs->delayed);
    bi_table_number(table, BI_PAINT_OFF, jobs->reserved);
    bi_table_number(table, jobs->buried > 0 ? BI_PAINT_BAD : BI_PAINT_OFF, jobs->buried);
    bi_table_number(table, BI_PAINT_OFF, jobs->done);
    bi_table_number(table, BI_PAINT_OFF, topic->waiting);
    bi_table_cell(table, BI_PAINT_OFF, "%s", oldest);
    bi_table_cell(table, topic->paused ? BI_PAINT_WARN : BI_PAINT_OFF, "%s", pause);
}

static int show(const struct cli *cli, struct table *table, const bide_topic_stats *topics,
                size_t count)
{
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < count && exit == BI_EXIT_OK; i++) {
        if (names_only && !cli->json)
            puts(topics[i].name);
        else if (names_only)
            exit = bi_record_print(cli, json_string(topics[i].name));
        else if (cli->json)
            exit = bi_record_print(cli, bi_record_topic(&topics[i]));
        else
            show_row(cli, table, &topics[i]);
    }
    if (table != NULL)
        bi_table_flush(table);
    return exit == BI_EXIT_OK ? bi_look_go_on(cli) : exit;
}

/* ---- gathering ---- */

struct gathering {
    bide_topic_stats *all;
    size_t count, room;
};

static bool gather(struct gathering *gathering, const bide_topic_stats *topics, size_t count)
{
    if (gathering->room - gathering->count < count) {
        size_t room = gathering->room * 2 + PAGE;
        bide_topic_stats *all = realloc(gathering->all, room * sizeof(*all));
        if (all == NULL)
            return false;
        gathering->all = all;
        gathering->room = room;
    }
    for (size_t i = 0; i < count; i++)
        gathering->all[gathering->count + i] = topics[i];
    gathering->count += count;
    return true;
}

/* Shows every page, or gathers it if there is where to. */
static int walk(struct cli *cli, struct table *table, struct gathering *gathering)
{
    static bide_topic_stats page[PAGE];
    char cursor[BIDE_CURSOR_SIZE] = "";
    int exit;
    do {
        size_t count = 0;
        int code = waiting_only ? bide_waiting(cli->queue, cursor, page, PAGE, &count)
                                : bide_topics(cli->queue, cursor, page, PAGE, &count);
        if (code != BIDE_OK)
            return bi_look_answered(cli, code);
        if (gathering == NULL)
            exit = show(cli, table, page, count);
        else if (gather(gathering, page, count))
            exit = bi_look_go_on(cli);
        else
            exit = bi_cli_failed(cli, BI_EXIT_FAILED, "there is not enough memory to sort them");
    } while (exit == BI_EXIT_OK && cursor[0] != 0);
    return exit;
}

static int run(struct cli *cli)
{
    struct gathering gathering = {NULL, 0, 0};
    bool sorts = sort_by != NULL || reversed || cli->out_terminal;
    bool has_table = !cli->json && !names_only;
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    struct table *table = has_table ? bi_table_new(cli, HEADS) : NULL;
    exit = walk(cli, table, sorts ? &gathering : NULL);
    if (exit == BI_EXIT_OK && gathering.count > 0) {
        qsort(gathering.all, gathering.count, sizeof(*gathering.all), compare);
        exit = show(cli, table, gathering.all, gathering.count);
    }
    free(gathering.all);
    if (exit == BI_EXIT_OK)
        return has_table ? bi_table_print(table) : BI_EXIT_OK;
    bi_table_free(table);
    return exit;
}

static const struct flag flags[] = {
    BI_FLAG_ON('n', "names", &names_only, "only the names, one a line"),
    {'s', "sort", "name|age|puts|waiting|ready|delayed|reserved|buried|done",
     "the order; the largest first", read_order, &sort_by},
    BI_FLAG_ON('r', "reverse", &reversed, "the other way round"),
    BI_FLAG_ON('w', "waiting", &waiting_only, "only those that somebody waits for"),
    BI_FLAGS_END,
};

const struct verb bi_verb_topics = {
    .name = "topics",
    .group = BI_GROUP_LOOK,
    .usage = "",
    .summary = "all topics, with how many jobs they have in each state",
    .details = "WAITING is how many workers wait for a job of the topic, OLDEST how long the\n"
               "job that was ready first has been so, PAUSED for how long nobody gets one. On\n"
               "a terminal, or with --sort, topics are in order; elsewhere they come as the\n"
               "queue has them, at once, however many there are.\n"
               "\n"
               "  bide topics --sort age              the one that is behind most first\n"
               "  bide topics --names | grep ^mail    names for a script\n"
               "  bide topics --json | jq .jobs.ready\n",
    .flags = flags,
    .run = run,
};
