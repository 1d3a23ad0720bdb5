/* SPDX-License-Identifier: MIT */
#include "cli/job_scan.h"
#include "cli/query.h"
#include "op/job_json.h"

#include <assert.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#define HEADERS        ">ID|TOPIC|STATE|>PRIORITY|>AGE|>LEFT|BODY"
#define BURIED_HEADERS ">ID|TOPIC|STATE|>PRIORITY|>AGE|>LEFT|ERROR|BODY"
#define ERROR_COLUMNS  30  /* on a terminal, to leave room for the body */
#define TERMINAL_LIMIT 100 /* jobs, the default on a terminal */
#define NO_LIMIT       UINT64_MAX
#define FIRST_PAGE     100 /* small, so that the first rows appear soon */

static struct words state_args;
static unsigned states; /* a bit (1 << state) each; 0: all */
static int64_t older_ms, younger_ms;
static const char *key, *text, *start_cursor;
static bool ids_only, shows_binary;
static uint64_t limit = NO_LIMIT;
static bool has_limit;

static bool parse_limit(const char *arg, void *to, char *error)
{
    if (!bi_flag_parse_count(arg, to, error))
        return false;
    has_limit = true;
    if (limit == 0)
        limit = NO_LIMIT;
    return true;
}

/*
 * Cursors of this verb: 'i' and a hexadecimal id, after which a list by id continues; or 'p' and
 * the cursor of the queue, which is opaque, for a list in pages.
 */
#define BY_ID        'i'
#define BY_PAGE      'p'
#define SHOWN_CURSOR (BIDE_CURSOR_SIZE + 1)

static uint64_t after_id;

static bool read_cursor(void)
{
    char *end = NULL;

    if (start_cursor[0] == BY_PAGE)
        return start_cursor[1] != 0 && strlen(start_cursor + 1) < BIDE_CURSOR_SIZE;
    if (start_cursor[0] != BY_ID || !isxdigit((unsigned char)start_cursor[1]) ||
        strlen(start_cursor) > 17)
        return false;
    after_id = strtoull(start_cursor + 1, &end, 16);
    return *end == 0;
}

static int check(struct cli *cli)
{
    if (cli->word_count == 1 && !bi_query_check_topic(cli, cli->words[0]))
        return BI_EXIT_USAGE;
    if (key != NULL && (key[0] == 0 || strlen(key) > BIDE_KEY_MAX))
        return bi_cli_usage_error(cli, "--key: a key has 1 to %d bytes", BIDE_KEY_MAX);
    if (text != NULL && (text[0] == 0 || strlen(text) > BIDE_TEXT_MAX))
        return bi_cli_usage_error(cli, "--text: 1 to %d bytes can be looked for", BIDE_TEXT_MAX);
    if (start_cursor != NULL && !read_cursor())
        return bi_cli_usage_error(cli, "--cursor: \"%.70s\" is not a cursor of a list",
                                  start_cursor);
    if (younger_ms != 0 && older_ms > younger_ms)
        return bi_cli_usage_error(cli, "no job is older than --older-than and younger than "
                                       "--younger-than says");
    return bi_query_parse_states(cli, &state_args, &states) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

/* Rejects 0, which would mean "no limit". */
static bool parse_younger(const char *arg, void *to, char *error)
{
    if (!bi_duration_parse(arg, to, error))
        return false;
    return *(int64_t *)to > 0 || bi_errmsg_set(error, "is too short: no job is younger");
}

/* ---- one job ---- */

/* Prints the first line of the last error, or "-". */
static void show_error(const struct cli *cli, struct table *table, const bide_job *job)
{
    char shown[4 * ERROR_COLUMNS + 4];
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
        bi_table_cell(table, BI_STYLE_OFF, "-");
    } else if (cli->out_terminal) {
        bi_print_excerpt(shown, ERROR_COLUMNS, error, size);
        bi_table_cell(table, BI_STYLE_OFF, "%s", shown);
    } else {
        bi_table_bytes(table, BI_STYLE_OFF, error, size);
    }
}

/* A body that is not text is shown as its size. */
static void show_body(struct table *table, const bide_job *job)
{
    if (job->body == NULL || shows_binary || !bi_print_is_binary(job->body, job->body_size)) {
        bi_table_bytes(table, BI_STYLE_OFF, job->body, job->body == NULL ? 0 : job->body_size);
        return;
    }
    bi_table_cell(table, BI_STYLE_DIM, "(binary, %s)", bi_text_size(job->body_size).s);
}

static void show_row(const struct cli *cli, struct table *table, const bide_job *job)
{
    bi_table_cell(table, BI_STYLE_OFF, "%llu", (unsigned long long)job->id);
    bi_table_cell(table, BI_STYLE_OFF, "%s", job->topic);
    bi_table_cell(table, bi_print_state_style(job->state), "%s", bide_state_name(job->state));
    bi_table_cell(table, BI_STYLE_OFF, "%u", job->priority);
    bi_table_cell(table, BI_STYLE_OFF, "%s", bi_text_age(job->age_ms).s);
    bi_table_cell(table, BI_STYLE_OFF, "%s", bi_text_age(job->left_ms == 0 ? -1 : job->left_ms).s);
    if (states == 1u << BIDE_STATE_BURIED)
        show_error(cli, table, job);
    show_body(table, job);
}

static int show(const struct cli *cli, struct table *table, const bide_job *job)
{
    if (cli->json && ids_only)
        return bi_cli_print_json(cli, json_integer((json_int_t)job->id));
    if (cli->json)
        return bi_cli_print_json(cli, bi_job_json_encode(job));
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
    char next[SHOWN_CURSOR]; /* cursor of the next list; "": there are no more jobs */
    size_t page;
    uint64_t left;
    bool by_id;       /* in the order of ids, however many there are */
    uint64_t last_id; /* last id that was printed, or after which the list began; 0: none */
    size_t buffered_rows, buffered_bytes; /* rows of the table that are not printed yet */
};

static int show_one(struct listing *listing, const bide_job *job)
{
    assert(listing->left > 0);
    listing->last_id = job->id;
    listing->left--;
    listing->buffered_rows++;
    listing->buffered_bytes += bi_job_scan_job_size(job);
    return show(listing->cli, listing->table, job);
}

static int flush_rows(struct listing *listing)
{
    if (listing->table != NULL && listing->buffered_rows > 0)
        bi_table_flush(listing->table);
    listing->buffered_rows = listing->buffered_bytes = 0;
    return bi_query_flush(listing->cli);
}

/* The next list continues after the last job that was printed. */
static void set_next_by_id(struct listing *listing)
{
    assert(listing->by_id || listing->args.ordered);
    snprintf(listing->next, sizeof(listing->next), "%c%llx", BY_ID,
             (unsigned long long)listing->last_id);
}

static int show_page(struct listing *listing)
{
    int exit = BI_EXIT_OK;

    for (size_t i = 0; i < listing->args.count; i++) {
        bide_job *job = &listing->args.jobs[i];
        if (exit == BI_EXIT_OK)
            exit = show_one(listing, job);
        bide_job_clear(job);
    }

    listing->page = BIDE_BATCH_JOBS;
    listing->next[0] = 0;
    if (listing->cursor[0] != 0 && listing->args.ordered)
        set_next_by_id(listing);
    else if (listing->cursor[0] != 0)
        snprintf(listing->next, sizeof(listing->next), "%c%s", BY_PAGE, listing->cursor);
    return exit == BI_EXIT_OK ? flush_rows(listing) : exit;
}

static int fetch_page(struct listing *listing)
{
    bide_list_args *args = &listing->args;
    args->count = 0;
    return bi_cli_report_last(listing->cli, bide_list_page(listing->cli->queue, args));
}

/* ---- more jobs than one call can sort ---- */

static int show_job(void *user, bide_job *job)
{
    struct listing *listing = user;

    job->token = 0;
    if (states != 0 && (states & 1u << job->state) == 0)
        return BI_EXIT_OK; /* it has changed since */
    int exit = show_one(listing, job);
    bool full =
        listing->buffered_rows >= BIDE_BATCH_JOBS || listing->buffered_bytes >= BIDE_BATCH_BYTES;
    return exit == BI_EXIT_OK && full ? flush_rows(listing) : exit;
}

static int show_sorted(struct listing *listing)
{
    struct cli *cli = listing->cli;
    struct job_scan scan;

    assert(listing->by_id && listing->left > 0);
    for (size_t i = 0; i < listing->args.count; i++)
        bide_job_clear(&listing->args.jobs[i]);
    int exit = bi_job_scan_open(&scan, cli, cli->queue);
    scan.topics = cli->words;
    scan.topic_count = cli->word_count;
    scan.state = listing->args.state;
    scan.filter = listing->args.filter;
    scan.filter.after_id = listing->last_id; /* pages before this one were sorted, and printed */
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_list(&scan);
    bool truncated = scan.count > listing->left;
    if (truncated)
        scan.count = (size_t)listing->left;
    if (exit == BI_EXIT_OK && !ids_only)
        exit = bi_job_scan_read(&scan, "listing", show_job, listing);
    for (size_t i = 0; ids_only && i < scan.count && exit == BI_EXIT_OK; i++)
        exit = show_one(listing, &(bide_job){.id = bi_job_scan_id(&scan, i)});

    /* Also if it was interrupted before the first job: the cursor of the queue would skip jobs that
     * were listed and not printed. */
    listing->next[0] = 0;
    if (truncated || exit != BI_EXIT_OK)
        set_next_by_id(listing);
    if (exit == BI_EXIT_OK && scan.unreadable > 0)
        exit = BI_EXIT_PARTIAL;
    bi_job_scan_close(&scan);
    return exit;
}

static int list_pages(struct listing *listing)
{
    bide_list_args *args = &listing->args;
    int exit;

    do {
        args->job_max = listing->page < listing->left ? listing->page : (size_t)listing->left;
        exit = fetch_page(listing);
        if (exit == BI_EXIT_OK && listing->by_id && !args->ordered)
            return show_sorted(listing);
        if (exit == BI_EXIT_OK)
            exit = show_page(listing);
    } while (exit == BI_EXIT_OK && listing->cursor[0] != 0 && listing->left > 0);
    return exit;
}

/* Prints the cursor of the next list: as a note, or with --json as a last value. */
static int print_cursor(const struct listing *listing)
{
    const struct cli *cli = listing->cli;

    if (listing->next[0] == 0)
        return BI_EXIT_OK;
    if (cli->json)
        return bi_cli_print_json(cli, json_pack("{s:s}", "cursor", listing->next));
    bi_cli_note(cli,
                "there may be more jobs: continue with --cursor %s, or list all with --limit 0",
                listing->next);
    return BI_EXIT_OK;
}

/* ---- the verb ---- */

static bide_slice slice(const char *string)
{
    return (bide_slice){string, string == NULL ? 0 : strlen(string)};
}

/* Returns the state if only one is listed. */
static bide_state only_state(void)
{
    for (bide_state state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++)
        if (states == 1u << state)
            return state;
    return BIDE_STATE_ANY;
}

static void init_listing(struct listing *listing, bide_job *jobs)
{
    struct cli *cli = listing->cli;

    listing->args = (bide_list_args){
        .topic = slice(cli->words[0]),
        .state = only_state(),
        .filter = {.key = slice(key),
                   .text = slice(text),
                   .min_age_ms = older_ms,
                   .max_age_ms = younger_ms,
                   .states = states,
                   .after_id = after_id},
        .with_body = !ids_only,
        .cursor = listing->cursor,
        .jobs = jobs,
    };

    listing->page = FIRST_PAGE;
    /* Scripts get the order of ids. A list in pages continues as it began. */
    bool in_pages = start_cursor != NULL && start_cursor[0] == BY_PAGE;
    listing->by_id = (!cli->out_terminal || cli->json) && !in_pages;
    listing->left = !has_limit && cli->out_terminal && !cli->json ? TERMINAL_LIMIT : limit;

    listing->last_id = after_id;
    if (in_pages)
        snprintf(listing->cursor, sizeof(listing->cursor), "%s", start_cursor + 1);
    if (start_cursor != NULL)
        snprintf(listing->next, sizeof(listing->next), "%s", start_cursor);
}

/* An empty list may be due to a mistyped topic. */
static int check_topic(const struct listing *listing)
{
    const char *topic = listing->cli->words[0];
    bide_topic_stats stats;
    if (listing->last_id != 0 || topic == NULL || start_cursor != NULL)
        return BI_EXIT_OK;
    return bi_query_topic_stats(listing->cli, topic, &stats);
}

static int run(struct cli *cli)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    struct listing listing = {.cli = cli};
    bool has_table = !cli->json && !ids_only;

    init_listing(&listing, jobs);
    if (has_table)
        listing.table =
            bi_table_new(cli, states == 1u << BIDE_STATE_BURIED ? BURIED_HEADERS : HEADERS);
    int exit = list_pages(&listing);
    if (exit == BI_EXIT_OK)
        exit = check_topic(&listing);

    if (bi_interrupted() && listing.next[0] != 0)
        bi_cli_note(cli, "interrupted; continue with --cursor %s", listing.next);
    if (exit != BI_EXIT_OK)
        bi_table_free(listing.table);
    else if (has_table)
        exit = bi_table_print(listing.table);
    return exit == BI_EXIT_OK ? print_cursor(&listing) : exit;
}

static const struct flag flags[] = {
    BI_FLAG_LIST('s', "state", "STATE", &state_args,
                 "only jobs in these states, such as ready,buried; repeatable"),
    BI_FLAG_DURATION(0, "older-than", &older_ms, "only jobs put at least this long ago"),
    {0, "younger-than", "DURATION", "only jobs put at most this long ago", parse_younger,
     &younger_ms},
    BI_FLAG_STRING('k', "key", "KEY", &key, "only the job with this key"),
    BI_FLAG_STRING('t', "text", "TEXT", &text, "only jobs with this text in their body"),
    {'n', "limit", "N", "maximum number of jobs; 0: unlimited", parse_limit, &limit},
    BI_FLAG_STRING(0, "cursor", "CURSOR", &start_cursor, "continue where an earlier list ended"),
    BI_FLAG_BOOL(0, "ids", &ids_only, "print only ids, one per line"),
    BI_FLAG_BOOL(0, "binary", &shows_binary, "print bodies that are not text"),
    BI_FLAGS_END,
};

const struct verb bi_verb_list = {
    .name = "list",
    .usage = "[TOPIC]",
    .summary = "list jobs, by topic, state, age, key or text",
    .flags = flags,
    .traits = BI_VERB_INTERRUPT,
    .check = check,
    .run = run,
};
