/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/look.h"
#include "cli/record.h"
#include "cli/when.h"

#include <stdlib.h>
#include <string.h>

#define HEADS       ">ID|TOPIC|STATE|>PRIORITY|>AGE|>LEFT|BODY"
#define BURIED      ">ID|TOPIC|STATE|>PRIORITY|>AGE|>LEFT|ERROR|BODY"
#define ERROR_MOST  30  /* columns on a terminal: a body has to have room, too */
#define ON_TERMINAL 100 /* jobs, if nobody says how many */
#define NO_LIMIT    UINT64_MAX
#define FIRST_PAGE  100 /* so that something is seen at once */

static bide_state state = BIDE_STATE_ANY;
static int64_t older_ms, younger_ms;
static const char *key, *text, *begin;
static bool ids_only;
static uint64_t limit = NO_LIMIT;
static bool has_limit;

static bool read_limit(const char *said, void *to, char *error)
{
    if (!bi_read_count(said, to, error))
        return false;
    has_limit = true;
    if (limit == 0)
        limit = NO_LIMIT;
    return true;
}

static int check(struct cli *cli)
{
    if (cli->word_count == 1 && !bi_look_topic(cli, cli->words[0]))
        return BI_EXIT_USAGE;
    if (key != NULL && (key[0] == 0 || strlen(key) > BIDE_KEY_MAX))
        return bi_cli_misused(cli, "--key: a key has 1 to %d bytes", BIDE_KEY_MAX);
    if (text != NULL && (text[0] == 0 || strlen(text) > BIDE_TEXT_MAX))
        return bi_cli_misused(cli, "--text: 1 to %d bytes can be looked for", BIDE_TEXT_MAX);
    if (begin != NULL && (begin[0] == 0 || strlen(begin) >= BIDE_CURSOR_SIZE))
        return bi_cli_misused(cli, "--cursor: \"%.70s\" is no cursor that a list gave", begin);
    if (younger_ms != 0 && older_ms > younger_ms)
        return bi_cli_misused(cli, "no job is older than --older-than and younger than "
                                   "--younger-than says");
    return BI_EXIT_OK;
}

/* Zero would be no limit at all. */
static bool read_younger(const char *said, void *to, char *error)
{
    if (!bi_duration_read(said, to, error))
        return false;
    return *(int64_t *)to > 0 || bi_refuse(error, "is too short: no job is younger");
}

/* ---- one job ---- */

/* The first line of what went wrong; "-" where nobody said. */
static void show_error(const struct cli *cli, struct table *table, const bide_job *job)
{
    char shown[4 * ERROR_MOST + 4];
    const char *error = job->last_error == NULL ? "" : job->last_error;
    size_t size = job->last_error == NULL ? 0 : job->last_error_size;
    while (size > 0 && *error == '\n') {
        error++;
        size--;
    }
    const char *end = size == 0 ? NULL : memchr(error, '\n', size);
    if (end != NULL)
        size = (size_t)(end - error);
    if (size == 0) {
        bi_table_cell(table, BI_PAINT_OFF, "-");
    } else if (cli->out_terminal) {
        bi_print_excerpt(shown, ERROR_MOST, error, size);
        bi_table_cell(table, BI_PAINT_OFF, "%s", shown);
    } else {
        bi_table_bytes(table, BI_PAINT_OFF, error, size);
    }
}

static void show_row(const struct cli *cli, struct table *table, const bide_job *job)
{
    char age[BI_WHEN_SIZE], left[BI_WHEN_SIZE];
    bi_look_duration(age, job->age_ms);
    bi_look_duration(left, job->left_ms == 0 ? -1 : job->left_ms);
    bi_table_cell(table, BI_PAINT_OFF, "%llu", (unsigned long long)job->id);
    bi_table_cell(table, BI_PAINT_OFF, "%s", job->topic);
    bi_table_cell(table, bi_paint_state(job->state), "%s", bide_state_name(job->state));
    bi_table_cell(table, BI_PAINT_OFF, "%u", job->priority);
    bi_table_cell(table, BI_PAINT_OFF, "%s", age);
    bi_table_cell(table, BI_PAINT_OFF, "%s", left);
    if (state == BIDE_STATE_BURIED)
        show_error(cli, table, job);
    bi_table_bytes(table, BI_PAINT_OFF, job->body, job->body == NULL ? 0 : job->body_size);
}

static int show(const struct cli *cli, struct table *table, const bide_job *job)
{
    if (cli->json && ids_only)
        return bi_record_print(cli, json_integer((json_int_t)job->id));
    if (cli->json)
        return bi_record_print(cli, bi_record_job(job));
    if (ids_only)
        printf("%llu\n", (unsigned long long)job->id);
    else
        show_row(cli, table, job);
    return BI_EXIT_OK;
}

/* ---- pages ---- */

struct listing {
    struct cli *cli;
    struct table *table;
    bide_list_args args;
    char cursor[BIDE_CURSOR_SIZE];
    size_t page;
    uint64_t left;
};

static int show_page(struct listing *listing)
{
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < listing->args.count; i++) {
        bide_job *job = &listing->args.jobs[i];
        if (exit == BI_EXIT_OK)
            exit = show(listing->cli, listing->table, job);
        bide_job_clear(job);
    }
    if (listing->table != NULL)
        bi_table_flush(listing->table);
    listing->left -= listing->args.count;
    listing->page = BIDE_BATCH_JOBS;
    return exit == BI_EXIT_OK ? bi_look_go_on(listing->cli) : exit;
}

static int walk(struct listing *listing)
{
    int exit;
    do {
        bide_list_args *args = &listing->args;
        args->job_max = listing->page < listing->left ? listing->page : (size_t)listing->left;
        args->count = 0;
        int code = bide_list_page(listing->cli->queue, args);
        if (code != BIDE_OK)
            return bi_look_answered(listing->cli, code);
        exit = show_page(listing);
    } while (exit == BI_EXIT_OK && listing->cursor[0] != 0 && listing->left > 0);
    return exit;
}

/* Where the next list goes on: for people below the table, for programs as a last value. */
static int tell_cursor(const struct listing *listing)
{
    const struct cli *cli = listing->cli;
    if (listing->cursor[0] == 0)
        return BI_EXIT_OK;
    if (cli->json)
        return bi_record_print(cli, json_pack("{s:s}", "cursor", listing->cursor));
    bi_cli_note(cli, "there may be more: --cursor %s goes on, --limit 0 shows all",
                listing->cursor);
    return BI_EXIT_OK;
}

/* ---- the verb ---- */

static bide_slice slice(const char *string)
{
    return (bide_slice){string, string == NULL ? 0 : strlen(string)};
}

static void prepare(struct listing *listing, bide_job *jobs)
{
    struct cli *cli = listing->cli;
    listing->args = (bide_list_args){
        .topic = slice(cli->words[0]),
        .state = state,
        .filter = {.key = slice(key),
                   .text = slice(text),
                   .min_age_ms = older_ms,
                   .max_age_ms = younger_ms},
        .with_body = !ids_only,
        .cursor = listing->cursor,
        .jobs = jobs,
    };
    listing->page = FIRST_PAGE;
    listing->left = !has_limit && cli->out_terminal && !cli->json ? ON_TERMINAL : limit;
    if (begin != NULL)
        snprintf(listing->cursor, sizeof(listing->cursor), "%s", begin);
}

static int run(struct cli *cli)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    struct listing listing = {.cli = cli};
    bool has_table = !cli->json && !ids_only;
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    prepare(&listing, jobs);
    if (has_table)
        listing.table = bi_table_new(cli, state == BIDE_STATE_BURIED ? BURIED : HEADS);
    exit = walk(&listing);
    if (bi_interrupted() && listing.cursor[0] != 0)
        bi_cli_note(cli, "interrupted; --cursor %s goes on", listing.cursor);
    if (exit != BI_EXIT_OK)
        bi_table_free(listing.table);
    else if (has_table)
        exit = bi_table_print(listing.table);
    return exit == BI_EXIT_OK ? tell_cursor(&listing) : exit;
}

static const struct flag flags[] = {
    BI_FLAG_STATE('s', "state", &state, "only those in this state"),
    BI_FLAG_DURATION(0, "older-than", &older_ms, "put at least that long ago"),
    {0, "younger-than", "DURATION", "put at most that long ago", read_younger, &younger_ms},
    BI_FLAG_TEXT('k', "key", "KEY", &key, "only the one with this key"),
    BI_FLAG_TEXT('t', "text", "TEXT", &text, "only those with this text in their body"),
    {'n', "limit", "N", "at most so many; 0: all", read_limit, &limit},
    BI_FLAG_TEXT(0, "cursor", "CURSOR", &begin, "go on where an earlier list ended"),
    BI_FLAG_ON(0, "ids", &ids_only, "only the ids, one a line"),
    BI_FLAGS_END,
};

const struct verb bi_verb_list = {
    .name = "list",
    .group = BI_GROUP_LOOK,
    .usage = "[TOPIC]",
    .summary = "jobs, of a topic or of all, by state, age, key or text",
    .details = "In the order of the ids if 10,000 jobs at most can match (with --text fewer, if\n"
               "bodies are large), else in no particular order; never in the order in which\n"
               "jobs are taken: \"bide peek TOPIC\" shows which is next. A job that matches all\n"
               "the time comes exactly once. LEFT is the time until a delayed job is ready, a\n"
               "lease ends, or a result is forgotten. With --state buried ERROR is the first\n"
               "line of what went wrong; \"bide job\" has all of it. On a terminal 100\n"
               "jobs are shown, elsewhere and with --json all, unless --limit says otherwise;\n"
               "if there may be more, the cursor with which to go on is told, with --json as a\n"
               "last value {\"cursor\":\"...\"}.\n"
               "\n"
               "  bide list email --state buried\n"
               "  bide list --older-than 1d --text ada@example.org\n"
               "  bide list email --state buried --ids | bide delete -\n"
               "  bide list email --json --limit 1000 --cursor i3e8\n",
    .most = 1,
    .flags = flags,
    .check = check,
    .run = run,
};
