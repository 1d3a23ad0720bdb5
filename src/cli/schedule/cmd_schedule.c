/* SPDX-License-Identifier: MIT */
#include "cli/schedule/schedule_cli.h"

#include "cli/connect.h"
#include "cli/input.h"
#include "cli/put.h"
#include "cli/query.h"
#include "util/clock.h"

#include <string.h>

#define DEFAULT_COUNT 10

static struct schedule_flags opt = {
    .def = BIDE_SCHEDULE_INIT,
    .options = BIDE_PUT_OPTIONS_INIT,
    .count = DEFAULT_COUNT,
};
static struct put_flags job = BI_PUT_FLAGS_INIT;
static uint64_t misfire_max;
static const char *start, *end, *file;
static bool paused;

/* ---- flags ---- */

static bool parse_misfire(const char *text, void *to, char *error)
{
    for (int i = BIDE_MISFIRE_ONCE; i <= BIDE_MISFIRE_ALL; i++)
        if (strcmp(text, bide_misfire_name((bide_misfire)i)) == 0) {
            *(bide_misfire *)to = (bide_misfire)i;
            return true;
        }
    return bi_errmsg_set(error, "must be once, skip or all");
}

static bool parse_overlap(const char *text, void *to, char *error)
{
    for (int i = BIDE_OVERLAP_ALLOW; i <= BIDE_OVERLAP_REPLACE; i++)
        if (strcmp(text, bide_overlap_name((bide_overlap)i)) == 0) {
            *(bide_overlap *)to = (bide_overlap)i;
            return true;
        }
    return bi_errmsg_set(error, "must be allow, skip or replace");
}

static const struct flag flags[] = {
    BI_FLAG_STRING('z', "zone", "ZONE", &opt.def.zone,
                   "time zone, such as Europe/Berlin (default: that of this machine)"),
    {0, "late", "once|skip|all", "what to do with missed moments (default: once)", parse_misfire,
     &opt.def.misfire},
    BI_FLAG_DURATION(0, "grace", &opt.def.grace_ms,
                     "with --late skip: how late is too late (default: 1m)"),
    BI_FLAG_COUNT(0, "late-max", &misfire_max,
                  "with --late all: maximum number of jobs (default: 100)"),
    {0, "overlap", "allow|skip|replace", "if the last job still lives (default: allow)",
     parse_overlap, &opt.def.overlap},
    BI_FLAG_DURATION(0, "jitter", &opt.def.jitter_ms, "delay each job by up to this time"),
    BI_FLAG_STRING(0, "start", "TIME", &start, "first possible moment, in the zone"),
    BI_FLAG_STRING(0, "end", "TIME", &end, "all moments are before this time"),
    BI_FLAG_BOOL(0, "paused", &paused, "pause it, until \"bide schedule resume\""),
    BI_FLAG_STRING('f', "file", "FILE", &file, "read the body from FILE; -: standard input"),
    BI_FLAG_DURATION('d', "delay", &opt.options.delay_ms, "time from the moment to the job"),
    BI_FLAG_STRING('k', "key", "KEY", &job.key,
                   "key of the jobs (default: the name and the moment)"),
    BI_FLAG_BOOL(0, "key-hold-retained", &opt.options.key_hold_retained,
                 "hold the key while the result is retained"),
    BI_PUT_FLAGS(&job),
    BI_FLAG_COUNT('n', "count", &opt.count, "next: number of moments (default: 10)"),
    BI_FLAG_BOOL(0, "crontab", &opt.crontab, "load: the file is a crontab"),
    BI_FLAG_STRING(0, "topic", "TOPIC", &opt.topic, "load --crontab: topic of the jobs"),
    BI_FLAG_BOOL('y', "yes", &opt.yes, "load: do not ask"),
    BI_FLAG_BOOL(0, "dry-run", &opt.dry_run, "load: only show the differences"),
    BI_FLAGS_END,
};

/* Parses the time of a flag, whose zone may be that of another flag. */
static bool parse_moment(const struct cli *cli, const char *name, const char *text, int64_t *to)
{
    char error[BI_ERRMSG_SIZE];
    int64_t now_ms = bi_clock_wall() / 1000;
    if (text == NULL ||
        bi_schedule_parse_moment(name, text, opt.def.zone, now_ms, to, error) == BIDE_OK)
        return true;
    bi_cli_usage_error(cli, "%s", error);
    return false;
}

/* Fills in what the flags do not set directly. */
static int complete_options(const struct cli *cli)
{
    bi_put_set_options(&job, true, &opt.options);
    opt.def.options = &opt.options;
    opt.def.expires_in_ms = bi_put_given(job.expires_in);
    if (misfire_max > BIDE_SCHEDULE_MISSED_MAX)
        return bi_cli_usage_error(cli, "--late-max: from 1 to %d", BIDE_SCHEDULE_MISSED_MAX);
    opt.def.misfire_max = (uint32_t)misfire_max;
    if (paused)
        opt.def.state = BIDE_SCHEDULE_PAUSED;
    bool good = parse_moment(cli, "--start", start, &opt.def.start_at_ms) &&
                parse_moment(cli, "--end", end, &opt.def.end_at_ms);
    return good ? BI_EXIT_OK : BI_EXIT_USAGE;
}

/* ---- set ---- */

static int set_one(const struct cli *cli, const bide_schedule *def)
{
    bide_schedule *set = NULL;
    int code = bide_schedule_set(cli->queue, def, &set);
    int exit = code == BIDE_OK ? bi_schedule_show_set(cli, set) : bi_cli_report_last(cli, code);
    bide_schedule_free(set);
    return exit;
}

/* Lines of JSON from standard input. */
static int set_lines(const struct cli *cli)
{
    struct schedule_list list = {NULL, 0, 0};
    int exit = bi_schedule_file_read(cli, &opt, "-", &list);
    for (size_t i = 0; i < list.count && exit == BI_EXIT_OK; i++)
        exit = set_one(cli, &list.items[i]->def);
    bi_schedule_list_free(&list);
    return exit;
}

static int run_set(struct cli *cli)
{
    const char *const *words = cli->words + 1;
    bide_buf *body = NULL;
    int exit = BI_EXIT_OK;

    if (cli->word_count == 2)
        return set_lines(cli);
    if (file != NULL)
        exit = bi_input_read_file(cli, file, &body);
    if (exit != BI_EXIT_OK)
        return exit;

    opt.def.name = words[0];
    opt.def.when = words[1];
    opt.def.topic = words[2];
    if (body != NULL)
        opt.def.body = (bide_slice){bide_buf_data(body), bide_buf_size(body)};
    else if (cli->word_count == 5)
        opt.def.body = (bide_slice){words[3], strlen(words[3])};
    exit = set_one(cli, &opt.def);
    bide_buf_unref(body);
    return exit;
}

static int check_set(const struct cli *cli)
{
    struct schedule *schedule;
    char error[BI_ERRMSG_SIZE];

    if (cli->word_count == 2)
        return BI_EXIT_OK;
    if (file != NULL && cli->word_count == 5)
        return bi_cli_usage_error(cli, "BODY and --file are both given; choose one");

    bide_schedule def = opt.def;
    def.name = cli->words[1];
    def.when = cli->words[2];
    def.topic = cli->words[3];
    int code = bi_schedule_copy(&def, &schedule, error);
    if (code == BIDE_OK) {
        code = bi_schedule_open_zone(schedule, error);
        bi_schedule_free(schedule);
    }
    return code == BIDE_OK ? BI_EXIT_OK : bi_cli_usage_error(cli, "%s", error);
}

/* ---- by name ---- */

static int run_get(struct cli *cli)
{
    bide_schedule *schedule = NULL;
    int code = bide_schedule_get(cli->queue, cli->words[1], &schedule);
    int exit = code == BIDE_OK ? bi_schedule_show(cli, schedule) : bi_cli_report_last(cli, code);
    bide_schedule_free(schedule);
    return exit;
}

/* What keeps all schedules from running, and is the problem of none of them. */
static void note_obstacle(const struct cli *cli)
{
    bide_topic_stats stats;

    if (bide_topic_get_stats(cli->queue, BIDE_SCHEDULE_TOPIC, &stats) != BIDE_OK)
        return;
    if (stats.paused)
        bi_cli_note(cli,
                    "schedules put no jobs: topic " BIDE_SCHEDULE_TOPIC
                    " is paused (%s); to end this: bide resume '" BIDE_SCHEDULE_TOPIC "'",
                    bi_query_format_pause(&stats).s);
    else if (stats.jobs.ready > 0 && stats.jobs.reserved == 0 && stats.waiting == 0)
        bi_cli_note(cli, "schedules are due, but no bided and no worker runs them");
}

static int run_list(struct cli *cli)
{
    struct schedule_list list = {NULL, 0, 0};
    int exit = bi_schedule_list_fetch(cli, &list);
    if (exit == BI_EXIT_OK)
        exit = bi_schedule_show_list(cli, &list);
    if (exit == BI_EXIT_OK && list.count > 0)
        note_obstacle(cli);
    bi_schedule_list_free(&list);
    return exit;
}

static int run_run(struct cli *cli)
{
    uint64_t id = 0;
    int code = bide_schedule_run(cli->queue, cli->words[1], &id);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(
            cli, json_pack("{s:s, s:I}", "name", cli->words[1], "id", (json_int_t)id));
    printf("%llu\n", (unsigned long long)id);
    return BI_EXIT_OK;
}

typedef int change_fn(bide *queue, const char *name);

/* Applies a change to each name; one that fails does not stop the others. */
static int change_each(struct cli *cli, change_fn *change, const char *past_tense)
{
    int worst = BI_EXIT_OK;

    for (size_t i = 1; i < cli->word_count; i++) {
        const char *name = cli->words[i];
        int code = change(cli->queue, name);
        int exit = bi_cli_report_last(cli, code);
        if (code == BIDE_OK && cli->json)
            exit = bi_cli_print_json(cli,
                                     json_pack("{s:s, s:s}", "name", name, "verb", cli->words[0]));
        else if (code == BIDE_OK)
            bi_cli_note(cli, "%s is %s", name, past_tense);
        if (exit != BI_EXIT_OK)
            worst = cli->word_count == 2 ? exit : BI_EXIT_PARTIAL;
        if (bi_cli_is_fatal(code))
            return exit;
    }
    return worst;
}

static int run_remove(struct cli *cli)
{
    return change_each(cli, bide_schedule_remove, "removed");
}

static int run_pause(struct cli *cli)
{
    return change_each(cli, bide_schedule_pause, "paused");
}

static int run_resume(struct cli *cli)
{
    return change_each(cli, bide_schedule_resume, "resumed");
}

/* ---- next ---- */

/* The expressions that are one word begin with @; no name contains a space or an @. */
static bool is_expression(const char *word)
{
    return strpbrk(word, " @") != NULL;
}

static int show_next(const struct cli *cli, const bide_schedule *schedule)
{
    static int64_t moments[BIDE_SCHEDULE_MOMENTS_MAX];
    char zone[BI_TIMEZONE_NAME_SIZE];
    size_t count = 0;

    int code = bide_schedule_next(schedule, bi_clock_wall() / 1000, moments, (size_t)opt.count,
                                  &count, zone);
    return code == BIDE_OK ? bi_schedule_show_moments(cli, zone, moments, count)
                           : bi_cli_report_last(cli, code);
}

static int run_next(struct cli *cli)
{
    if (is_expression(cli->words[1])) {
        opt.def.when = cli->words[1];
        return show_next(cli, &opt.def);
    }

    bide_schedule *schedule = NULL;
    int exit = bi_connect_open(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    int code = bide_schedule_get(cli->queue, cli->words[1], &schedule);
    exit = code == BIDE_OK ? show_next(cli, schedule) : bi_cli_report_last(cli, code);
    bide_schedule_free(schedule);
    return exit;
}

static int check_next(const struct cli *cli)
{
    if (opt.count == 0 || opt.count > BIDE_SCHEDULE_MOMENTS_MAX)
        return bi_cli_usage_error(cli, "--count: from 1 to %d", BIDE_SCHEDULE_MOMENTS_MAX);
    if (!is_expression(cli->words[1]))
        return BI_EXIT_OK;

    int64_t moment;
    size_t count;
    opt.def.when = cli->words[1];
    int code = bide_schedule_next(&opt.def, 0, &moment, 1, &count, NULL);
    return code == BIDE_OK ? BI_EXIT_OK : bi_cli_usage_error(cli, "%s", bide_last_error());
}

/* ---- load and export ---- */

static int run_load(struct cli *cli)
{
    return bi_schedule_load(cli, &opt, cli->words[1]);
}

static int check_load(const struct cli *cli)
{
    if (opt.crontab != (opt.topic != NULL))
        return bi_cli_usage_error(cli, "--crontab and --topic need each other");
    return opt.topic == NULL || bi_query_check_topic(cli, opt.topic) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

/* ---- actions ---- */

static const struct action {
    const char *name, *usage;
    size_t least, most; /* words behind the name */
    int (*check)(const struct cli *cli);
    int (*run)(struct cli *cli);
    bool creates_file;  /* of the queue, but not with --dry-run */
    bool without_queue; /* it opens the queue itself, if it needs one */
} actions[] = {
    {"set", " NAME WHEN TOPIC [BODY] | -", 3, 4, check_set, run_set, true, false},
    {"get", " NAME", 1, 1, NULL, run_get, false, false},
    {"list", "", 0, 0, NULL, run_list, false, false},
    {"remove", " NAME...", 1, BI_WORDS_MAX, NULL, run_remove, false, false},
    {"pause", " NAME...", 1, BI_WORDS_MAX, NULL, run_pause, false, false},
    {"resume", " NAME...", 1, BI_WORDS_MAX, NULL, run_resume, false, false},
    {"run", " NAME", 1, 1, NULL, run_run, false, false},
    {"next", " NAME|WHEN", 1, 1, check_next, run_next, false, true},
    {"load", " FILE", 1, 1, check_load, run_load, true, false},
    {"export", "", 0, 0, NULL, bi_schedule_export, false, false},
};

#define ACTION_NAMES "set, get, list, remove, pause, resume, run, next, load or export"

static const struct action *action;

void bi_schedule_offer_actions(void)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        printf("%s\n", actions[i].name);
}

static int find_action(const struct cli *cli)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;
    const char *word = cli->words[0];

    if (word == NULL)
        return bi_cli_usage_error(cli, "missing argument: bide schedule " ACTION_NAMES);
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++) {
        if (strcmp(actions[i].name, word) == 0) {
            action = &actions[i];
            return BI_EXIT_OK;
        }
        bi_suggest_consider(&suggestion, actions[i].name, word, strlen(word));
    }
    if (suggestion.best != NULL)
        return bi_cli_usage_error(cli, "\"%.60s\" is unknown; did you mean \"%s\"?", word,
                                  suggestion.best);
    return bi_cli_usage_error(cli, "\"%.60s\" is unknown: " ACTION_NAMES, word);
}

static bool sets_lines(const struct cli *cli)
{
    return action->run == run_set && cli->word_count == 2 && strcmp(cli->words[1], "-") == 0;
}

static int check_words(const struct cli *cli)
{
    size_t given = cli->word_count - 1;
    bool takes_when = action->run == run_set || action->run == run_next;

    if (sets_lines(cli) || (given >= action->least && given <= action->most))
        return BI_EXIT_OK;
    if (given < action->least)
        return bi_cli_usage_error(cli, "missing argument: bide schedule %s%s", action->name,
                                  action->usage);
    return bi_cli_usage_error(cli, "unexpected argument \"%.60s\": bide schedule %s%s%s",
                              cli->words[action->most + 1], action->name, action->usage,
                              takes_when ? "; quote WHEN: '0 6 * * *'" : "");
}

/* ---- which flags apply ---- */

enum use {
    USE_NONE = 0,
    USE_SET = 1,
    USE_CRONTAB = 2, /* load --crontab */
    USE_LINES = 4,   /* load, of JSON */
    USE_WHEN = 8,    /* next, of an expression */
    USE_NAME = 16,   /* next, of a schedule */
};

static enum use find_use(const struct cli *cli)
{
    if (action->run == run_set)
        return sets_lines(cli) ? USE_NONE : USE_SET;
    if (action->run == run_load)
        return opt.crontab ? USE_CRONTAB : USE_LINES;
    if (action->run == run_next)
        return is_expression(cli->words[1]) ? USE_WHEN : USE_NAME;
    return USE_NONE;
}

/* All other flags describe schedules: set and load --crontab take them. */
static unsigned uses_of(const char *flag)
{
    static const struct {
        const char *flag;
        unsigned uses;
    } rows[] = {
        {"zone", USE_SET | USE_CRONTAB | USE_WHEN},
        {"start", USE_SET | USE_CRONTAB | USE_WHEN},
        {"end", USE_SET | USE_CRONTAB | USE_WHEN},
        {"file", USE_SET},
        {"count", USE_WHEN | USE_NAME},
        {"crontab", USE_CRONTAB | USE_LINES},
        {"topic", USE_CRONTAB | USE_LINES},
        {"yes", USE_CRONTAB | USE_LINES},
        {"dry-run", USE_CRONTAB | USE_LINES},
    };
    for (size_t i = 0; i < sizeof(rows) / sizeof(rows[0]); i++)
        if (strcmp(rows[i].flag, flag) == 0)
            return rows[i].uses;
    return USE_SET | USE_CRONTAB;
}

/* A flag without effect is a mistake: "remove --dry-run" must not remove. */
static int check_flags(const struct cli *cli)
{
    enum use use = find_use(cli);
    const char *form = use == USE_LINES  ? " without --crontab"
                       : use == USE_NAME ? " NAME"
                       : sets_lines(cli) ? " -"
                                         : "";

    for (unsigned i = 0; flags[i].name != NULL; i++)
        if ((cli->given >> i & 1) != 0 && (uses_of(flags[i].name) & use) == 0)
            return bi_cli_usage_error(cli, "--%s does not apply to \"bide schedule %s%s\"",
                                      flags[i].name, action->name, form);
    return BI_EXIT_OK;
}

static int check(struct cli *cli)
{
    int exit = complete_options(cli);
    if (exit == BI_EXIT_OK)
        exit = find_action(cli);
    if (exit == BI_EXIT_OK)
        exit = check_words(cli);
    if (exit == BI_EXIT_OK)
        exit = check_flags(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    cli->creates_file = action->creates_file && !opt.dry_run;
    return action->check == NULL ? BI_EXIT_OK : action->check(cli);
}

static int run(struct cli *cli)
{
    int exit = action->without_queue ? BI_EXIT_OK : bi_connect_open(cli);
    return exit == BI_EXIT_OK ? action->run(cli) : exit;
}

const struct verb bi_verb_schedule = {
    .name = "schedule",
    .usage = "ACTION [ARGUMENT...]",
    .summary = "put jobs at recurring times",
    .flags = flags,
    .traits = BI_VERB_NO_QUEUE | BI_VERB_COUNTS_WORDS,
    .check = check,
    .run = run,
};
