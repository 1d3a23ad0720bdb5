/* SPDX-License-Identifier: MIT */
#include "cli/schedule/schedule_cli.h"

#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

/* ---- lists ---- */

bool bi_schedule_list_add(struct schedule_list *list, struct schedule *schedule)
{
    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the items are pointers */
    if (!BI_CLI_RESERVE(list->items, list->count + 1, list->capacity)) {
        bi_schedule_free(schedule);
        return false;
    }
    list->items[list->count++] = schedule;
    return true;
}

static int compare(const void *left, const void *right)
{
    const struct schedule *a = *(struct schedule *const *)left;
    const struct schedule *b = *(struct schedule *const *)right;
    int names = strcmp(a->def.name, b->def.name);
    return names != 0 ? names : a->def.id < b->def.id ? -1 : a->def.id > b->def.id;
}

const char *bi_schedule_list_sort(struct schedule_list *list)
{
    const char *repeated = NULL;
    size_t kept = 0;
    if (list->count == 0)
        return NULL;

    /* NOLINTNEXTLINE(bugprone-sizeof-expression): the same */
    qsort(list->items, list->count, sizeof(list->items[0]), compare);
    for (size_t i = 1; i < list->count; i++) {
        if (strcmp(list->items[kept]->def.name, list->items[i]->def.name) == 0) {
            bi_schedule_free(list->items[kept]);
            repeated = list->items[i]->def.name;
        } else {
            kept++;
        }
        list->items[kept] = list->items[i];
    }
    list->count = kept + 1;
    return repeated;
}

void bi_schedule_list_free(struct schedule_list *list)
{
    for (size_t i = 0; i < list->count; i++)
        bi_schedule_free(list->items[i]);
    free(list->items);
    *list = (struct schedule_list){NULL, 0, 0};
}

int bi_schedule_list_fetch(const struct cli *cli, struct schedule_list *list)
{
    static bide_schedule *page[BIDE_BATCH_JOBS];
    char cursor[BIDE_CURSOR_SIZE] = "";
    bool ok = true;

    do {
        size_t count = 0;
        int code = bide_schedule_list(cli->queue, cursor, page, BIDE_BATCH_JOBS, &count);
        if (code != BIDE_OK)
            return bi_cli_report_last(cli, code);
        for (size_t i = 0; i < count; i++)
            ok = bi_schedule_list_add(list, (struct schedule *)(void *)page[i]) && ok;
    } while (cursor[0] != 0 && ok);

    if (!ok)
        return bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    bi_schedule_list_sort(list);
    return BI_EXIT_OK;
}

/* ---- texts ---- */

struct text bi_schedule_text_moment(const char *zone, int64_t at_ms)
{
    struct timezone_rules *rules = NULL;
    char error[BI_ERRMSG_SIZE];
    struct text text = {"-"};

    if (at_ms == 0)
        return text;
    if (zone != NULL)
        bi_timezone_open(zone, strlen(zone), &rules, error); /* or that of the process */
    struct zone calendar = {.rules = rules};
    bi_datetime_format(text.s, &calendar, at_ms);
    bi_timezone_free(rules);
    return text;
}

static const char *or_dash(const char *text)
{
    return text == NULL ? "-" : text;
}

/* ---- lists ---- */

static enum bi_print_style style_of(bide_schedule_state state)
{
    return state == BIDE_SCHEDULE_ACTIVE    ? BI_STYLE_GOOD
           : state == BIDE_SCHEDULE_DAMAGED ? BI_STYLE_BAD
           : state == BIDE_SCHEDULE_PAUSED  ? BI_STYLE_WARN
                                            : BI_STYLE_DIM;
}

int bi_schedule_show_list(const struct cli *cli, const struct schedule_list *list)
{
    int exit = BI_EXIT_OK;
    struct table *table =
        cli->json ? NULL : bi_table_new(cli, "NAME|WHEN|ZONE|TOPIC|STATE|NEXT|LAST|>MADE|PROBLEM");

    for (size_t i = 0; i < list->count && exit == BI_EXIT_OK; i++) {
        const bide_schedule *def = &list->items[i]->def;
        if (cli->json) {
            exit = bi_cli_print_json(cli, bi_schedule_encode(def, BI_SCHEDULE_FULL));
            continue;
        }
        bi_table_cell(table, BI_STYLE_OFF, "%s", def->name);
        bi_table_cell(table, BI_STYLE_OFF, "%s", or_dash(def->when));
        bi_table_cell(table, BI_STYLE_OFF, "%s", or_dash(def->zone));
        bi_table_cell(table, BI_STYLE_OFF, "%s", or_dash(def->topic));
        bi_table_cell(table, style_of(def->state), "%s", bide_schedule_state_name(def->state));
        bi_table_cell(table, BI_STYLE_OFF, "%s",
                      bi_schedule_text_moment(def->zone, def->next_at_ms).s);
        bi_table_cell(table, BI_STYLE_OFF, "%s",
                      bi_schedule_text_moment(def->zone, def->last_at_ms).s);
        bi_table_number(table, BI_STYLE_OFF, def->made);
        bi_table_bytes(table, def->problem == NULL ? BI_STYLE_OFF : BI_STYLE_BAD,
                       or_dash(def->problem), strlen(or_dash(def->problem)));
    }
    return cli->json ? exit : bi_table_print(table);
}

/* ---- one ---- */

static void show_duration(const struct cli *cli, const char *name, int64_t ms)
{
    if (ms == BIDE_NO_DEFAULT)
        bi_print_property(cli, name, "none, whatever the topic has");
    else if (ms != 0)
        bi_print_property(cli, name, "%s", bi_text_duration(ms).s);
}

static void show_moment(const struct cli *cli, const bide_schedule *def, const char *name,
                        int64_t at_ms)
{
    if (at_ms != 0)
        bi_print_property(cli, name, "%s", bi_schedule_text_moment(def->zone, at_ms).s);
}

static void show_options(const struct cli *cli, const bide_schedule *def)
{
    const bide_put_options *options = def->options;

    bi_print_property(cli, "priority", "%u", options->priority);
    show_duration(cli, "delay", options->delay_ms);
    show_duration(cli, "jitter", def->jitter_ms);
    show_duration(cli, "ttr", options->ttr_ms);
    if (options->key.size > 0)
        bi_print_property_bytes(cli, "key", options->key.data, options->key.size);
    if (options->max_retries == BIDE_NO_DEFAULT)
        bi_print_property(cli, "retries", "unlimited");
    else if (options->max_retries != BIDE_NO_RETRY_LIMIT)
        bi_print_property(cli, "retries", "at most %d%s", options->max_retries,
                          options->fallbacks != 0 ? ", if the topic has no limit" : "");
    show_duration(cli, "backoff", options->backoff_base_ms);
    show_duration(cli, "backoff, max", options->backoff_max_ms);
    show_duration(cli, "expires in", def->expires_in_ms);
    show_duration(cli, "retained for", options->retain_ms);
    bi_print_property_bytes(cli, "body", def->body.data == NULL ? "" : def->body.data,
                            def->body.size);
}

static void show_policies(const struct cli *cli, const bide_schedule *def)
{
    bi_print_property(cli, "if late", "%s", bide_misfire_name(def->misfire));
    if (def->misfire_max != 0)
        bi_print_property(cli, "at most", "%u", def->misfire_max);
    show_duration(cli, "grace", def->grace_ms);
    bi_print_property(cli, "overlap", "%s", bide_overlap_name(def->overlap));
}

int bi_schedule_show(const struct cli *cli, const bide_schedule *def)
{
    if (cli->json)
        return bi_cli_print_json(cli, bi_schedule_encode(def, BI_SCHEDULE_FULL));

    bi_print_property(cli, "schedule", "%s", def->name);
    bi_print_property(cli, "state", "%s%s%s", bi_print_style(cli, style_of(def->state)),
                      bide_schedule_state_name(def->state), bi_print_style(cli, BI_STYLE_OFF));
    if (def->problem != NULL)
        bi_print_property_bytes(cli, "problem", def->problem, strlen(def->problem));
    if (def->when == NULL)
        return BI_EXIT_OK;

    bi_print_property(cli, "when", "%s", def->when);
    bi_print_property(cli, "zone", "%s", or_dash(def->zone));
    show_moment(cli, def, "start", def->start_at_ms);
    show_moment(cli, def, "end", def->end_at_ms);
    show_moment(cli, def, "next", def->next_at_ms);
    show_moment(cli, def, "last", def->last_at_ms);
    bi_print_property_number(cli, "jobs made", def->made);
    show_policies(cli, def);
    bi_print_property(cli, "topic", "%s", def->topic);
    show_options(cli, def);
    return BI_EXIT_OK;
}

int bi_schedule_show_set(const struct cli *cli, const bide_schedule *def)
{
    const char *zone = def->zone == NULL ? "UTC" : def->zone;
    if (cli->json)
        return bi_cli_print_json(cli, bi_schedule_encode(def, BI_SCHEDULE_FULL));
    if (def->next_at_ms == 0)
        bi_cli_note(cli, "%s is %s: it has no next moment (%s)", def->name,
                    bide_schedule_state_name(def->state), zone);
    else
        bi_cli_note(cli, "%s: next %s (%s)", def->name,
                    bi_schedule_text_moment(def->zone, def->next_at_ms).s, zone);
    return BI_EXIT_OK;
}

int bi_schedule_show_moments(const struct cli *cli, const char *zone, const int64_t *moments,
                             size_t count)
{
    int exit = BI_EXIT_OK;

    if (!cli->json)
        bi_cli_note(cli, "in the zone %s", zone);
    for (size_t i = 0; i < count && exit == BI_EXIT_OK; i++) {
        char utc[BI_DATETIME_SIZE];
        struct text local = bi_schedule_text_moment(zone, moments[i]);
        bi_datetime_format_rfc3339(utc, moments[i]);
        if (cli->json)
            exit =
                bi_cli_print_json(cli, json_pack("{s:I, s:s, s:s}", "at_ms", (json_int_t)moments[i],
                                                 "at", utc, "zone", zone));
        else
            puts(local.s);
    }
    if (count == 0)
        bi_cli_note(cli, "there are no more moments");
    return exit;
}
