/* SPDX-License-Identifier: MIT */
/*
 * cmd_workers.c - bide workers and bide why: who works on what, and why a job does not run.
 */
#include "cli/query.h"
#include "cli/worker_list.h"
#include "op/job_json.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>

#define PAGE     200
#define HELD_MAX 20000 /* reserved jobs that are read */
#define HEADERS  "WORKER|>THREADS|>RUNNING|>DONE|>FAILED|>UP|JOBS"

/* ---- reading ---- */

static int read_workers(const struct cli *cli, struct worker_list *list)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    int code = BIDE_OK;

    do {
        bide_workers_args args = bi_worker_list_next_workers(list, cursor, PAGE);
        code = args.workers == NULL
                   ? BIDE_ENOMEM
                   : bide_workers(cli->queue, cursor, args.workers, PAGE, &args.count);
        list->announced_count += args.count;
    } while (code == BIDE_OK && cursor[0] != 0);
    return code;
}

static int read_jobs(const struct cli *cli, struct worker_list *list)
{
    char cursor[BIDE_CURSOR_SIZE] = "";
    int code = BIDE_OK;

    do {
        bide_list_args args = bi_worker_list_next_jobs(list, cursor, PAGE);
        code = args.jobs == NULL ? BIDE_ENOMEM : bide_list_page(cli->queue, &args);
        list->job_count += args.count;
    } while (code == BIDE_OK && cursor[0] != 0 && list->job_count < HELD_MAX);
    return code;
}

/* ---- printing ---- */

static void add_row(struct table *table, const struct worker_row *row, int64_t now_ms)
{
    const bide_worker_info *info = &row->info;
    int64_t up_ms = now_ms - info->started_ms;
    char jobs[2000];

    bi_table_bytes(table, BI_STYLE_OFF, info->name.size == 0 ? "-" : info->name.data,
                   info->name.size == 0 ? 1 : info->name.size);
    if (row->announced != NULL) {
        bi_table_number(table, BI_STYLE_OFF, info->threads);
        bi_table_number(table, BI_STYLE_OFF, row->job_count);
        bi_table_number(table, BI_STYLE_OFF, info->done);
        bi_table_number(table, info->failed > 0 ? BI_STYLE_BAD : BI_STYLE_OFF, info->failed);
        bi_table_cell(table, BI_STYLE_OFF, "%s",
                      bi_text_age(info->started_ms == 0 ? -1
                                  : up_ms < 0           ? 0
                                                        : up_ms)
                          .s);
    } else {
        bi_table_cell(table, BI_STYLE_OFF, "-");
        bi_table_number(table, BI_STYLE_OFF, row->job_count);
        for (int i = 0; i < 3; i++)
            bi_table_cell(table, BI_STYLE_OFF, "-");
    }
    bi_worker_list_format_jobs(row, jobs, sizeof(jobs));
    bi_table_bytes(table, BI_STYLE_OFF, jobs, strlen(jobs));
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

static int print_json(const struct cli *cli, const struct worker_row *row)
{
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    bide_worker_info info = row->info;
    const bide_announced *announced = row->announced;

    if (announced != NULL)
        bide_worker_decode(announced->data, announced->data_size, &info, topics,
                           BIDE_ANNOUNCED_TOPICS_MAX, NULL, 0);
    if (info.running < row->job_count)
        info.running = row->job_count;

    json_t *object = bi_worker_json_encode(&info);
    bool good = object != NULL &&
                json_object_set_new(object, "jobs", encode_jobs(row->jobs, row->job_count)) == 0;
    if (good && announced != NULL)
        good = json_object_set_new(object, "announced_ms", json_integer(announced->announced_ms)) ==
                   0 &&
               json_object_set_new(object, "left_ms", json_integer(announced->left_ms)) == 0;
    if (!good) {
        json_decref(object);
        object = NULL;
    }
    return bi_cli_print_json(cli, object); /* reports NULL */
}

static int print_rows(const struct cli *cli, const struct worker_list *list)
{
    struct table *table = cli->json ? NULL : bi_table_new(cli, HEADERS);
    int64_t now_ms = bi_clock_wall() / 1000;
    int exit = BI_EXIT_OK;

    for (size_t i = 0; i < list->count && exit == BI_EXIT_OK; i++) {
        if (!cli->json) {
            add_row(table, &list->rows[i], now_ms);
            continue;
        }
        exit = print_json(cli, &list->rows[i]);
        if (exit == BI_EXIT_OK)
            exit = bi_query_flush(cli);
    }
    return cli->json ? exit : bi_table_print(table);
}

static int run_workers(struct cli *cli)
{
    struct worker_list list = {.announced = NULL};
    int exit;

    /* Jobs first: of a job that is reserved meanwhile the worker is listed without it. */
    int code = read_jobs(cli, &list);
    if (code == BIDE_OK)
        code = read_workers(cli, &list);
    if (code != BIDE_OK && code != BIDE_ENOMEM)
        exit = bi_cli_report_last(cli, code);
    else if (code == BIDE_ENOMEM || !bi_worker_list_join(&list))
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    else
        exit = print_rows(cli, &list);
    bi_worker_list_clear(&list);
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
    bool ends = why->reason == BIDE_WHY_RESERVED || why->reason == BIDE_WHY_DELAYED;
    if (why->until_ms != 0 && why->reason != BIDE_WHY_KEY_HELD)
        printf(" (%s %s)", ends ? "at" : "until", bi_text_moment(why->until_ms).s);
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
    .usage = "ID... | TOPIC --key KEY",
    .summary = "say why a job does not run",
    .flags = why_flags,
    .check = check_why,
    .run = run_why,
};
