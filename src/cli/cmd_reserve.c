/* SPDX-License-Identifier: MIT */
#include "cli/query.h"
#include "op/job_json.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int64_t timeout_ms;
static uint64_t max = 1;
static bool by_id;
static struct topic_args topic_args;

static const struct flag flags[] = {
    BI_FLAG_TIMEOUT('t', "timeout", &timeout_ms,
                    "wait this long for a job, or forever (default: 0)"),
    BI_FLAG_COUNT('n', "count", &max, "maximum number of jobs (default: 1)"),
    BI_FLAG_STRATEGY('s', "strategy", &topic_args.strategy,
                     "how to choose among topics (default: priority)"),
    BI_FLAG_BOOL('i', "id", &by_id, "the arguments are ids of ready, delayed or buried jobs"),
    BI_FLAGS_END,
};

static int check(struct cli *cli)
{
    char error[BI_ERRMSG_SIZE];

    if (max < 1 || max > BIDE_BATCH_JOBS)
        return bi_cli_usage_error(cli, "--count must be 1 to %d", BIDE_BATCH_JOBS);
    if (by_id)
        return bi_cli_parse_ids(cli);
    if (!bi_query_parse_topics(&topic_args, cli->words, cli->word_count, error))
        return bi_cli_usage_error(cli, "%s", error);
    return BI_EXIT_OK;
}

/* ---- printing ---- */

static bool format_job(const struct cli *cli, const bide_job *job, bool single, FILE *to)
{
    const char *body = job->body;
    bool ended = job->body_size > 0 && body[job->body_size - 1] == '\n';

    if (cli->json) {
        json_t *object = bi_job_json_encode(job);
        bool good = object != NULL && bi_job_json_write(to, object);
        json_decref(object);
        return good;
    }
    bi_print_bytes(to, cli->out_terminal, job->body, job->body_size);
    if (!single || (cli->out_terminal && !ended))
        fputc('\n', to);
    return ferror(to) == 0;
}

static int write_output(const struct cli *cli, const char *text, size_t size)
{
    if (bi_interrupt_write(STDOUT_FILENO, text, size))
        return BI_EXIT_OK;
    if (bi_interrupted())
        return bi_interrupt_exit();
    if (errno == EPIPE)
        return BI_EXIT_PIPE;
    return bi_cli_error(cli, BI_EXIT_FAILED, "cannot write the output: %s", strerror(errno));
}

/* Bypasses the buffer of standard output: the job is given back if its body was not written, and a
 * reader that does not read can be interrupted. */
static int print_job(const struct cli *cli, const bide_job *job, bool single)
{
    char *text = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&text, &size);
    bool good = to != NULL && format_job(cli, job, single, to);

    if (to != NULL && fclose(to) != 0)
        good = false;
    int exit =
        good ? write_output(cli, text, size) : bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    free(text);
    return exit;
}

/* Printed with --quiet, too: without the token the job cannot be finished. */
static void print_lease(const struct cli *cli, const bide_job *job)
{
    if (!cli->json)
        fprintf(stderr, "job %llu token %llu topic %s, yours for %s\n", (unsigned long long)job->id,
                (unsigned long long)job->token, job->topic, bi_text_duration(job->left_ms).s);
}

static void give_back_rest(const struct cli *cli, const bide_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int code = bide_give_back(cli->queue, jobs[i].id, jobs[i].token);
        if (code == BIDE_OK)
            bi_cli_note(cli, "job %llu was given back", (unsigned long long)jobs[i].id);
        else
            bi_cli_report_job(cli, jobs[i].id, code, bide_last_error());
    }
}

/* Gives back the first job that cannot be printed, and all after it. */
static int print_jobs(const struct cli *cli, bide_job *jobs, size_t count, bool single)
{
    int exit = bi_interrupted() ? bi_interrupt_exit() : BI_EXIT_OK;
    size_t printed = 0;

    while (printed < count && exit == BI_EXIT_OK) {
        exit = print_job(cli, &jobs[printed], single);
        if (exit == BI_EXIT_OK)
            print_lease(cli, &jobs[printed++]);
    }
    give_back_rest(cli, jobs + printed, count - printed);
    for (size_t i = 0; i < count; i++)
        bide_job_clear(&jobs[i]);
    return exit;
}

/* ---- reserving ---- */

static int reserve_ids(const struct cli *cli)
{
    int worst = BI_EXIT_OK;

    for (size_t i = 0; i < cli->word_count && !bi_interrupted(); i++) {
        bide_job job;
        int code = bide_reserve_job(cli->queue, cli->ids[i], &job);
        if (code == BIDE_OK) {
            int exit = print_jobs(cli, &job, 1, cli->word_count == 1);
            if (exit != BI_EXIT_OK)
                return exit;
        } else if (code != BIDE_CLOSED || !bi_interrupted()) {
            int exit = bi_cli_report_job(cli, cli->ids[i], code, bide_last_error());
            worst = cli->word_count == 1 ? exit : BI_EXIT_PARTIAL;
        }
    }
    return bi_interrupted() ? bi_interrupt_exit() : worst;
}

/* Says which topic has jobs but may not give them, if there is one. */
static int report_none(const struct cli *cli)
{
    char text[BI_ERRMSG_SIZE], name[BIDE_TOPIC_MAX + 1];
    bide_topic_stats stats;

    for (size_t i = 0; i < topic_args.count; i++) {
        const bide_slice *topic = &topic_args.topics[i];
        snprintf(name, sizeof(name), "%.*s", (int)topic->size, (const char *)topic->data);
        if (bide_topic_get_stats(cli->queue, name, &stats) == BIDE_OK &&
            bi_query_explain_closed(&stats, text))
            return bi_cli_report(cli, NULL, BIDE_TIMED_OUT, text);
    }
    return bi_cli_report(cli, NULL, BIDE_TIMED_OUT,
                         timeout_ms == 0 ? "no job is ready; --timeout waits for one"
                                         : "no job became ready in time");
}

static int reserve_topics(const struct cli *cli)
{
    bide_job *jobs = calloc(max, sizeof(*jobs));
    if (jobs == NULL)
        return bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");

    assert(topic_args.count >= 1);
    bide_reserve_args args = {.topics = topic_args.topics,
                              .topic_count = topic_args.count,
                              .weights =
                                  topic_args.strategy == BIDE_WEIGHTED ? topic_args.weights : NULL,
                              .strategy = topic_args.strategy,
                              .timeout_ms = timeout_ms,
                              .jobs = jobs,
                              .job_max = max};

    int code = bide_reserve_many(cli->queue, &args);
    int exit;
    if (code == BIDE_OK)
        exit = print_jobs(cli, jobs, args.count, max == 1);
    else if (code == BIDE_TIMED_OUT)
        exit = report_none(cli);
    else
        exit = bi_cli_report_last(cli, code);
    free(jobs);
    return exit;
}

static int run(struct cli *cli)
{
    int exit = bi_cli_require_leases(cli);
    if (exit != BI_EXIT_OK)
        return exit;
    return by_id ? reserve_ids(cli) : reserve_topics(cli);
}

const struct verb bi_verb_reserve = {
    .name = "reserve",
    .usage = "TOPIC... | --id ID...",
    .summary = "reserve a job and print its body",
    .flags = flags,
    .traits = BI_VERB_INTERRUPT,
    .check = check,
    .run = run,
};
