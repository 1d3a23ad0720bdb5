/* SPDX-License-Identifier: MIT */
/*
 * A quick measurement of any queue, in a topic that nobody else uses, and that is gone afterwards.
 */
#include "cli/crew.h"
#include "cli/interrupt.h"
#include "cli/look.h"
#include "cli/record.h"
#include "util/clock.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define HEADS   "WHAT|>JOBS|>SECONDS|>JOBS/S|>P50|>P90|>P99|>MAX"
#define WAIT_MS 10000 /* for a job that is there */
#define TTR_MS  120000

static uint64_t jobs = 10000, threads = 4, body_size = 100;

/* ---- the steps ---- */

static const bide_put_options put_options = {
    .size = sizeof(bide_put_options),
    .priority = BIDE_DEFAULT_PRIORITY,
    .ttr_ms = TTR_MS,
    .max_retries = BIDE_NO_RETRY_LIMIT,
};

static int put_one(const struct crew_wish *wish, size_t count)
{
    (void)count;
    return bide_put(wish->cli->queue, wish->topic, wish->body, wish->body_size, &put_options, NULL);
}

static int take_one(const struct crew_wish *wish, size_t count)
{
    bide_job job;
    (void)count;
    int code = bide_reserve(wish->cli->queue, wish->topic, WAIT_MS, &job);
    if (code != BIDE_OK)
        return code;
    code = bide_delete(wish->cli->queue, job.id, job.token);
    bide_job_clear(&job);
    return code;
}

static int cycle(const struct crew_wish *wish, size_t count)
{
    int code = put_one(wish, count);
    return code == BIDE_OK ? take_one(wish, count) : code;
}

/* The first refusal of several, of which bide_last_error() has the sentence. */
static int first_of(const int *statuses, size_t stride, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int status = *(const int *)((const char *)statuses + i * stride);
        if (status != BIDE_OK)
            return status;
    }
    return BIDE_OK;
}

static int put_many(const struct crew_wish *wish, size_t count)
{
    bide_put_item items[BI_CREW_STEP];
    for (size_t i = 0; i < count; i++)
        items[i] = (bide_put_item){.topic = {wish->topic, strlen(wish->topic)},
                                   .body = {wish->body, wish->body_size},
                                   .options = &put_options};
    int code = bide_put_many(wish->cli->queue, items, count, NULL);
    return code == BIDE_OK ? first_of(&items[0].status, sizeof(items[0]), count) : code;
}

static int finish_all(const struct crew_wish *wish, bide_job *taken, size_t count)
{
    bide_finish_item items[BI_CREW_STEP];
    for (size_t i = 0; i < count; i++) {
        items[i] = (bide_finish_item){.id = taken[i].id, .token = taken[i].token};
        bide_job_clear(&taken[i]);
    }
    int code = bide_finish_many(wish->cli->queue, items, count);
    return code == BIDE_OK ? first_of(&items[0].status, sizeof(items[0]), count) : code;
}

static int take_many(const struct crew_wish *wish, size_t count)
{
    bide_slice topic = {wish->topic, strlen(wish->topic)};
    bide_job taken[BI_CREW_STEP];
    while (count > 0) {
        bide_reserve_args args = {.topics = &topic,
                                  .topic_count = 1,
                                  .timeout_ms = WAIT_MS,
                                  .jobs = taken,
                                  .job_max = count};
        int code = bide_reserve_many(wish->cli->queue, &args);
        if (code == BIDE_OK)
            code = finish_all(wish, taken, args.count);
        if (code != BIDE_OK)
            return code;
        count -= args.count;
    }
    return BIDE_OK;
}

static const struct phase {
    const char *name;  /* in JSON */
    const char *shown; /* to people */
    int (*step)(const struct crew_wish *wish, size_t count);
    bool many;
} phases[] = {
    {"put", "put", put_one, false},
    {"take", "reserve, delete", take_one, false},
    {"put_many", "put, many at once", put_many, true},
    {"take_many", "reserve, delete, many", take_many, true},
    {"cycle", "put, reserve, delete", cycle, false},
};
#define PHASES (sizeof(phases) / sizeof(phases[0]))

/* ---- showing ---- */

/* Lines come one by one: cells are as wide as those that may follow. */
static void add_duration(struct table *table, uint64_t ns)
{
    double us = (double)ns / 1000;
    char text[32];
    if (us < 1000)
        snprintf(text, sizeof(text), "%.0fus", us);
    else if (us < 1e6)
        snprintf(text, sizeof(text), "%.1fms", us / 1e3);
    else
        snprintf(text, sizeof(text), "%.2fs", us / 1e6);
    bi_table_cell(table, BI_PAINT_OFF, "%7s", text);
}

static void add_rate(struct table *table, const struct cli *cli, double rate)
{
    char text[32];
    bi_print_count(cli, text, (uint64_t)rate);
    bi_table_cell(table, BI_PAINT_GOOD, "%9s", text);
}

static double rate_of(const struct crew_result *result)
{
    return result->seconds > 0 ? (double)result->jobs / result->seconds : 0;
}

static json_int_t us_at(const struct spread *steps, double part)
{
    return (json_int_t)(bi_spread_at(steps, part) / 1000);
}

static json_t *result_json(const struct phase *phase, const struct crew_wish *wish,
                           const struct crew_result *result)
{
    const struct spread *steps = &result->steps;
    return json_pack("{s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "phase",
                     phase->name, "jobs", (json_int_t)result->jobs, "elapsed_ms",
                     (json_int_t)(result->seconds * 1e3), "jobs_per_second",
                     (json_int_t)rate_of(result), "threads", (json_int_t)wish->threads, "body_size",
                     (json_int_t)wish->body_size, "step_jobs", (json_int_t)wish->step_jobs,
                     "p50_us", us_at(steps, 0.5), "p90_us", us_at(steps, 0.9), "p99_us",
                     us_at(steps, 0.99), "max_us", (json_int_t)(steps->longest / 1000));
}

static int show(const struct phase *phase, const struct crew_wish *wish,
                const struct crew_result *result, struct table *table)
{
    if (wish->cli->json)
        return bi_record_print(wish->cli, result_json(phase, wish, result));
    bi_table_cell(table, BI_PAINT_OFF, "%-21s", phase->shown);
    bi_table_number(table, BI_PAINT_OFF, result->jobs);
    bi_table_cell(table, BI_PAINT_OFF, "%8.3f", result->seconds);
    add_rate(table, wish->cli, rate_of(result));
    add_duration(table, bi_spread_at(&result->steps, 0.5));
    add_duration(table, bi_spread_at(&result->steps, 0.9));
    add_duration(table, bi_spread_at(&result->steps, 0.99));
    add_duration(table, result->steps.longest);
    bi_table_flush(table);
    return bi_cli_flush(wish->cli);
}

/* ---- the topic ---- */

static void name_topic(char *topic, size_t size)
{
    snprintf(topic, size, "bide-bench-%ld-%llx", (long)getpid(),
             (unsigned long long)bi_clock_wall());
}

/* One by one, where there is no purge. */
static int take_rest(const struct cli *cli, const char *topic)
{
    bide_job job;
    int code;
    while ((code = bide_reserve(cli->queue, topic, 0, &job)) == BIDE_OK) {
        code = bide_delete(cli->queue, job.id, job.token);
        bide_job_clear(&job);
        if (code != BIDE_OK)
            return code;
    }
    return code == BIDE_TIMED_OUT ? BIDE_OK : code;
}

static int clean(const struct cli *cli, const char *topic)
{
    int code = bide_purge(cli->queue, topic, BIDE_STATE_READY, NULL);
    if (code == BIDE_ENOTSUP)
        code = take_rest(cli, topic);
    if (code == BIDE_OK)
        return BI_EXIT_OK;
    bi_cli_note(cli, "jobs of the measurement may be left in the topic %s", topic);
    return bi_cli_answered(cli, code);
}

/* ---- the verb ---- */

static size_t step_jobs(const struct phase *phase)
{
    size_t fit = body_size == 0 ? BI_CREW_STEP : (size_t)(BIDE_BATCH_BYTES / body_size);
    if (!phase->many || fit == 0)
        return 1;
    return fit < BI_CREW_STEP ? fit : BI_CREW_STEP;
}

static int measure(const struct phase *phase, struct crew_wish *wish, struct table *table)
{
    struct crew_result *result = malloc(sizeof(*result));
    if (result == NULL)
        return bi_cli_failed(wish->cli, BI_EXIT_FAILED, "there is not enough memory");
    wish->step = phase->step;
    wish->step_jobs = step_jobs(phase);
    wish->what = phase->name;
    int exit = bi_crew_run(wish, result);
    if (exit == BI_EXIT_OK && result->code != BIDE_OK)
        exit = bi_cli_refused(wish->cli, phase->shown, result->code, result->error);
    if (exit == BI_EXIT_OK && !bi_interrupted())
        exit = show(phase, wish, result, table);
    free(result);
    return exit == BI_EXIT_OK && bi_interrupted() ? bi_interrupt_exit() : exit;
}

static int measure_all(struct cli *cli, const char *topic, const void *body)
{
    struct crew_wish wish = {.cli = cli,
                             .topic = topic,
                             .body = body,
                             .body_size = (size_t)body_size,
                             .jobs = jobs,
                             .threads = (size_t)threads};
    struct table *table = cli->json ? NULL : bi_table_new(cli, HEADS);
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < PHASES && exit == BI_EXIT_OK; i++)
        exit = measure(&phases[i], &wish, table);
    bi_table_free(table);
    int cleaned = clean(cli, topic);
    if (bi_interrupted())
        bi_cli_note(cli, "interrupted; %s",
                    cleaned == BI_EXIT_OK ? "what was put is gone again" : "see above");
    return exit == BI_EXIT_OK ? cleaned : exit;
}

static int check(struct cli *cli)
{
    if (jobs == 0)
        return bi_cli_misused(cli, "--jobs: nothing can be measured with 0 jobs");
    if (threads == 0 || threads > BI_CREW_MAX)
        return bi_cli_misused(cli, "--threads: 1 to %d are possible", BI_CREW_MAX);
    if (body_size > (UINT64_C(1) << 30))
        return bi_cli_misused(cli, "--size: no body is larger than 1 GiB");
    return BI_EXIT_OK;
}

/* The queue is not shut down by a signal: what was put has to be taken out again. */
static int run(struct cli *cli)
{
    char topic[64];
    int exit = bi_interrupt_watch(cli, NULL);
    if (exit != BI_EXIT_OK)
        return exit;
    char *body = malloc((size_t)body_size + 1);
    if (body == NULL)
        return bi_cli_failed(cli, BI_EXIT_FAILED, "there is not enough memory for such a body");
    memset(body, 'b', (size_t)body_size + 1);
    name_topic(topic, sizeof(topic));
    bi_cli_detail(cli, "the topic is %s", topic);
    exit = measure_all(cli, topic, body);
    free(body);
    return exit;
}

static const struct flag flags[] = {
    BI_FLAG_COUNT('n', "jobs", &jobs, "jobs in each line (default: 10000)"),
    BI_FLAG_COUNT('c', "threads", &threads, "threads (default: 4)"),
    BI_FLAG_SIZE('s', "size", &body_size, "bytes of a body (default: 100)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_bench = {
    .name = "bench",
    .group = BI_GROUP_STORE,
    .usage = "",
    .summary = "a quick measurement of the queue",
    .details = "Puts jobs into a topic of its own, takes them out again, and shows how many\n"
               "went through in a second, and how long one call took (those with \"many\": one\n"
               "call of up to 100 jobs): half of them at most P50, 90 % at most P90, 99 % at\n"
               "most P99. Nothing is left behind, also after Ctrl-C. Whoever works on the\n"
               "queue meanwhile is slower, and so is the measurement.\n"
               "\n"
               "  bide bench --url sqlite:/tmp/try.db\n"
               "  bide bench -n 100000 -c 16 --size 1KiB\n"
               "  bide bench --json | jq .jobs_per_second\n",
    .flags = flags,
    .check = check,
    .traits = BI_MAKES,
    .run = run,
};
