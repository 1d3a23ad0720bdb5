/* SPDX-License-Identifier: MIT */
/*
 * cmd_workers.c - bide workers and bide why: who works on what, and why a job does not run.
 *
 * A worker announces itself, and every reserved job names its holder. Announcements are some seconds
 * old; so the jobs that are shown are the reserved ones, joined by the name. Holders that have not
 * announced themselves are shown, too.
 */
#include "cli/query.h"
#include "op/job_json.h"
#include "op/worker_info.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define PAGE     200
#define HELD_MAX 20000 /* reserved jobs that are read */
#define HEADERS  "WORKER|>THREADS|>RUNNING|>DONE|>FAILED|>UP|JOBS"

/* The reserved jobs of the queue, by holder. */
struct held_jobs {
    bide_job *jobs;
    size_t count, capacity;
};

struct workers_run {
    struct cli *cli;
    struct table *table; /* NULL: JSON */
    struct held_jobs held;
    bool *shown;    /* of held: under a worker */
    int64_t now_ms; /* by the clock of the queue */
    size_t printed;
};

/* ---- the reserved jobs ---- */

static int compare_slices(bide_slice a, bide_slice b)
{
    size_t size = a.size < b.size ? a.size : b.size;
    int order = size == 0 ? 0 : memcmp(a.data, b.data, size);
    return order != 0 ? order : (a.size > b.size) - (a.size < b.size);
}

static bide_slice holder_of(const bide_job *job)
{
    return (bide_slice){job->holder, job->holder_size};
}

static int compare_jobs(const void *left, const void *right)
{
    const bide_job *a = left, *b = right;
    int order = compare_slices(holder_of(a), holder_of(b));
    return order != 0 ? order : (a->id > b->id) - (a->id < b->id);
}

static int read_page(struct workers_run *run, char *cursor)
{
    struct held_jobs *held = &run->held;
    if (!BI_CLI_RESERVE(held->jobs, held->count + PAGE, held->capacity))
        return bi_cli_error(run->cli, BI_EXIT_FAILED, "out of memory");

    bide_list_args args = {.state = BIDE_STATE_RESERVED,
                           .cursor = cursor,
                           .jobs = held->jobs + held->count,
                           .job_max = PAGE};
    int code = bide_list_page(run->cli->queue, &args);
    if (code != BIDE_OK)
        return bi_cli_report_last(run->cli, code);
    held->count += args.count;
    return BI_EXIT_OK;
}

static int read_held(struct workers_run *run)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    int exit = BI_EXIT_OK;
    do
        exit = read_page(run, cursor);
    while (exit == BI_EXIT_OK && cursor[0] != 0 && run->held.count < HELD_MAX);
    if (exit != BI_EXIT_OK)
        return exit;

    if (run->held.count > 0)
        qsort(run->held.jobs, run->held.count, sizeof(*run->held.jobs), compare_jobs);
    run->shown = calloc(run->held.count + 1, sizeof(*run->shown));
    return run->shown != NULL ? BI_EXIT_OK
                              : bi_cli_error(run->cli, BI_EXIT_FAILED, "out of memory");
}

/* The index of the first job of a holder, and how many there are. */
static size_t find_held(const struct held_jobs *held, bide_slice holder, size_t *count)
{
    size_t low = 0, high = held->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (compare_slices(holder_of(&held->jobs[middle]), holder) < 0)
            low = middle + 1;
        else
            high = middle;
    }

    *count = 0;
    while (low + *count < held->count &&
           compare_slices(holder_of(&held->jobs[low + *count]), holder) == 0)
        ++*count;
    return low;
}

/* ---- one worker ---- */

/* "12 email 3m20s, 14 email 5s: half" */
static void add_jobs_cell(struct workers_run *run, const bide_job *jobs, size_t count)
{
    char text[2000];
    size_t size = 0;
    text[0] = 0;
    for (size_t i = 0; i < count && size + BIDE_TOPIC_MAX + 120 < sizeof(text); i++) {
        int64_t for_ms = jobs[i].created_ms + jobs[i].age_ms - jobs[i].reserved_ms;
        size += (size_t)snprintf(text + size, sizeof(text) - size, "%s%llu %s %s",
                                 i == 0 ? "" : ", ", (unsigned long long)jobs[i].id, jobs[i].topic,
                                 bi_text_age(for_ms < 0 ? 0 : for_ms).s);
    }
    bi_table_bytes(run->table, BI_STYLE_OFF, count == 0 ? "-" : text, count == 0 ? 1 : size);
}

static void show_row(struct workers_run *run, bide_slice name, const bide_worker_info *info,
                     const bide_job *jobs, size_t count)
{
    struct table *table = run->table;
    int64_t up_ms = info == NULL ? 0 : run->now_ms - info->started_ms;

    bi_table_bytes(table, BI_STYLE_OFF, name.size == 0 ? "-" : name.data,
                   name.size == 0 ? 1 : name.size);
    if (info != NULL) {
        bi_table_number(table, BI_STYLE_OFF, info->threads);
        bi_table_number(table, BI_STYLE_OFF, count);
        bi_table_number(table, BI_STYLE_OFF, info->done);
        bi_table_number(table, info->failed > 0 ? BI_STYLE_BAD : BI_STYLE_OFF, info->failed);
        bi_table_cell(table, BI_STYLE_OFF, "%s",
                      bi_text_age(info->started_ms == 0 ? -1
                                  : up_ms < 0           ? 0
                                                        : up_ms)
                          .s);
    } else {
        bi_table_cell(table, BI_STYLE_OFF, "-");
        bi_table_number(table, BI_STYLE_OFF, count);
        for (int i = 0; i < 3; i++)
            bi_table_cell(table, BI_STYLE_OFF, "-");
    }
    add_jobs_cell(run, jobs, count);
}

static json_t *encode_jobs(const bide_job *jobs, size_t count)
{
    json_t *array = json_array();
    for (size_t i = 0; array != NULL && i < count; i++) {
        json_t *job = json_pack("{s:I,s:s,s:I,s:I}", "id", (json_int_t)jobs[i].id, "topic",
                                jobs[i].topic, "since_ms", (json_int_t)jobs[i].reserved_ms,
                                "left_ms", (json_int_t)jobs[i].left_ms);
        bool good = job != NULL && (jobs[i].progress_size == 0 ||
                                    bi_job_json_set_bytes(job, "progress", jobs[i].progress,
                                                          jobs[i].progress_size));
        if (!good || json_array_append(array, job) != 0) {
            json_decref(array);
            array = NULL;
        }
        json_decref(job);
    }
    return array;
}

static int show_json(const struct workers_run *run, bide_slice name,
                     const bide_announced *announced, const bide_worker_info *info,
                     const bide_job *jobs, size_t count)
{
    const bide_worker_info none = {.name = name, .running = count};
    json_t *object = bi_worker_json_encode(info != NULL ? info : &none);
    bool good =
        object != NULL && json_object_set_new(object, "jobs", encode_jobs(jobs, count)) == 0;

    if (good && announced != NULL)
        good = json_object_set_new(object, "announced_ms", json_integer(announced->announced_ms)) ==
                   0 &&
               json_object_set_new(object, "left_ms", json_integer(announced->left_ms)) == 0;
    if (good && (info == NULL || info->running < count))
        good = json_object_set_new(object, "running", json_integer((json_int_t)count)) == 0;
    if (!good) {
        json_decref(object);
        object = NULL;
    }
    return bi_cli_print_json(run->cli, object); /* reports NULL */
}

static int show_worker(struct workers_run *run, const bide_announced *announced)
{
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    bide_running_job running[BIDE_ANNOUNCED_JOBS_MAX];
    bide_worker_info decoded, *info = &decoded;
    size_t count;
    if (!bide_worker_decode(announced->data, announced->data_size, info, topics,
                            BIDE_ANNOUNCED_TOPICS_MAX, running, BIDE_ANNOUNCED_JOBS_MAX))
        return bi_cli_error(run->cli, BI_EXIT_FAILED, "an announced worker is malformed");

    size_t first = find_held(&run->held, info->name, &count);
    const bide_job *jobs = run->held.jobs + first;
    memset(run->shown + first, 1, count);
    run->printed++;
    if (run->cli->json)
        return show_json(run, info->name, announced, info, jobs, count);
    show_row(run, info->name, info, jobs, count);
    return BI_EXIT_OK;
}

/* Holders that have not announced themselves. */
static int show_others(struct workers_run *run)
{
    int exit = BI_EXIT_OK;
    size_t count;
    for (size_t i = 0; i < run->held.count && exit == BI_EXIT_OK; i += count) {
        bide_slice holder = holder_of(&run->held.jobs[i]);
        find_held(&run->held, holder, &count);
        if (run->shown[i])
            continue;
        run->printed++;
        if (run->cli->json)
            exit = show_json(run, holder, NULL, NULL, run->held.jobs + i, count);
        else
            show_row(run, holder, NULL, run->held.jobs + i, count);
    }
    return exit;
}

/* ---- workers ---- */

static int show_announced(struct workers_run *run)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_announced page[PAGE];
    int exit = BI_EXIT_OK;

    do {
        size_t count = 0;
        int code = bide_workers(run->cli->queue, cursor, page, PAGE, &count);
        if (code != BIDE_OK)
            return bi_cli_report_last(run->cli, code);
        for (size_t i = 0; i < count; i++) {
            if (exit == BI_EXIT_OK)
                exit = show_worker(run, &page[i]);
            bide_announced_clear(&page[i]);
        }
        /* The last page is printed with the other holders, in columns of the same width. */
        if (run->table != NULL && cursor[0] != 0)
            bi_table_flush(run->table);
        if (exit == BI_EXIT_OK)
            exit = bi_query_flush(run->cli);
    } while (exit == BI_EXIT_OK && cursor[0] != 0);
    return exit;
}

static int run_workers(struct cli *cli)
{
    struct workers_run run = {.cli = cli,
                              .now_ms = bi_clock_wall() / 1000,
                              .table = cli->json ? NULL : bi_table_new(cli, HEADERS)};

    int exit = read_held(&run);
    if (exit == BI_EXIT_OK)
        exit = show_announced(&run);
    if (exit == BI_EXIT_OK)
        exit = show_others(&run);
    if (exit == BI_EXIT_OK && run.table != NULL)
        exit = bi_table_print(run.table);
    else
        bi_table_free(run.table);

    for (size_t i = 0; i < run.held.count; i++)
        bide_job_clear(&run.held.jobs[i]);
    free(run.held.jobs);
    free(run.shown);
    return exit;
}

const struct verb bi_verb_workers = {
    .name = "workers",
    .usage = "",
    .summary = "list workers and the jobs that they run",
    .traits = BI_VERB_INTERRUPT,
    .run = run_workers,
};

/* ---- why ---- */

static const char *key;

static int check_why(struct cli *cli)
{
    if (key == NULL)
        return bi_cli_parse_ids(cli);
    if (key[0] == 0 || strlen(key) > BIDE_KEY_MAX)
        return bi_cli_usage_error(cli, "--key: a key has 1 to %d bytes", BIDE_KEY_MAX);
    if (cli->word_count != 1)
        return bi_cli_usage_error(cli, "--key needs one topic: bide why TOPIC --key KEY");
    return bi_query_check_topic(cli, cli->words[0]) ? BI_EXIT_OK : BI_EXIT_USAGE;
}

/* The sentence, and the time by the calendar, which the queue does not know. */
static void print_sentence(const bide_explanation *why)
{
    printf("%s", why->text);
    if (why->until_ms != 0 && why->reason != BIDE_WHY_KEY_HELD)
        printf(" (until %s)", bi_text_moment(why->until_ms).s);
    printf("\n");
}

static int explain(const struct cli *cli, uint64_t id)
{
    bide_explanation why;
    int code = key != NULL ? bide_why_key(cli->queue, cli->words[0], key, strlen(key), &why)
                           : bide_why(cli->queue, id, &why);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    if (cli->json)
        return bi_cli_print_json(cli, bi_why_json_encode(&why));
    print_sentence(&why);
    return BI_EXIT_OK;
}

static int run_why(struct cli *cli)
{
    if (key != NULL)
        return explain(cli, 0);
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < cli->word_count && exit == BI_EXIT_OK; i++)
        exit = explain(cli, cli->ids[i]);
    return exit;
}

static const struct flag why_flags[] = {
    BI_FLAG_STRING('k', "key", "KEY", &key, "who holds this key of a topic"),
    BI_FLAGS_END,
};

const struct verb bi_verb_why = {
    .name = "why",
    .usage = "ID...",
    .summary = "say why a job does not run",
    .flags = why_flags,
    .check = check_why,
    .run = run_why,
};
