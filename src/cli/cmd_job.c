/* SPDX-License-Identifier: MIT */
/*
 * cmd_job.c - bide job and bide peek: the attributes of jobs, and the body of one.
 */
#include "cli/query.h"
#include "op/job_json.h"

#include <stdlib.h>
#include <string.h>

/* ---- job ---- */

/* By the clock of the queue, which may differ from ours. */
static void show_moment(const struct cli *cli, const bide_job *job, const char *name, int64_t at_ms)
{
    int64_t ago = job->created_ms + job->age_ms - at_ms;

    if (at_ms != 0)
        bi_print_property(cli, name, ago < 0 ? "%s, in %s" : "%s, %s ago", bi_text_moment(at_ms).s,
                          bi_text_age(ago < 0 ? -ago : ago).s);
}

static void show_duration(const struct cli *cli, const char *name, int64_t ms)
{
    if (ms != 0)
        bi_print_property(cli, name, "%s", bi_text_duration(ms).s);
}

static void show_bytes(const struct cli *cli, const char *name, const void *data, size_t size)
{
    if (data != NULL)
        bi_print_property_bytes(cli, name, data, size);
}

/* The state, and what it waits for. */
static void show_state(const struct cli *cli, const bide_job *job)
{
    const char *wait = job->state == BIDE_STATE_DELAYED    ? ", ready in "
                       : job->state == BIDE_STATE_RESERVED ? ", its lease ends in "
                       : job->state == BIDE_STATE_DONE     ? ", deleted in "
                                                           : NULL;
    struct styled_state state = bi_print_styled_state(cli, job->state);

    bi_print_property(cli, "state", "%s%s%s%s%s", state.on, state.name, state.off,
                      wait == NULL ? "" : wait, wait == NULL ? "" : bi_text_age(job->left_ms).s);
    show_bytes(cli, "holder", job->holder, job->holder_size);
    if (job->cancel_wanted)
        bi_print_property(cli, "cancel", "requested: the worker is told at its next touch");
}

static void show_retries(const struct cli *cli, const bide_job *job)
{
    if (job->max_retries >= 0)
        bi_print_property(cli, "failures", "%u of at most %d", job->failures, job->max_retries);
    else
        bi_print_property(cli, "failures", "%u", job->failures);
    if (job->backoff_base_ms != 0 && job->backoff_max_ms != 0)
        bi_print_property(cli, "backoff", "%s, at most %s",
                          bi_text_duration(job->backoff_base_ms).s,
                          bi_text_duration(job->backoff_max_ms).s);
}

/* One line per failure, the latest last, as in a log. */
static void show_history(const struct cli *cli, const bide_job *job)
{
    bide_failure failures[BIDE_HISTORY_MAX];
    size_t count = bide_job_history(job, failures, BIDE_HISTORY_MAX);

    for (size_t i = 0; i < count; i++) {
        char line[BI_FAILURE_LINE_SIZE];
        size_t size = bi_text_failure_line(&failures[i], line);
        bi_print_property_bytes(cli, "history", line, size);
    }
}

static void show(const struct cli *cli, const bide_job *job)
{
    bi_print_property(cli, "job", "%llu", (unsigned long long)job->id);
    bi_print_property(cli, "topic", "%s", job->topic);
    show_state(cli, job);
    bi_print_property(cli, "priority", "%u", job->priority);
    bi_print_property(cli, "body", "%s", bi_text_size(job->body_size).s);
    if (job->result_size > 0)
        bi_print_property(cli, "result", "%s", bi_text_size(job->result_size).s);
    show_bytes(cli, "key", job->key, job->key_size);
    show_bytes(cli, "progress", job->progress, job->progress_size);
    show_bytes(cli, "last error", job->last_error, job->last_error_size);
    show_duration(cli, "ttr", job->ttr_ms);
    show_duration(cli, "retained for", job->retain_ms);
    show_retries(cli, job);
    bi_print_property(cli, "counters",
                      "%u reserves, %u timeouts, %u releases, %u fails, %u buries, %u kicks, %u "
                      "touches",
                      job->reserves, job->timeouts, job->releases, job->fails, job->buries,
                      job->kicks, job->touches);

    show_moment(cli, job, "created", job->created_ms);
    show_moment(cli, job, "due", job->run_at_ms);
    show_moment(cli, job, "ready", job->ready_ms);
    show_moment(cli, job, "reserved", job->reserved_ms);
    show_moment(cli, job, "touched", job->touched_ms);
    show_moment(cli, job, "buried", job->buried_ms);
    show_moment(cli, job, "done", job->done_ms);
    if (job->reserves == 0) /* a reserve ends it */
        show_moment(cli, job, "expires", job->expires_at_ms);
    show_history(cli, job);
}

static int show_one(const struct cli *cli, uint64_t id, bool first)
{
    bide_job job;
    int exit = BI_EXIT_OK;

    int code = bide_job_stats(cli->queue, id, &job);
    if (code != BIDE_OK)
        return bi_query_report_id(cli, code, id);
    if (cli->json)
        exit = bi_cli_print_json(cli, bi_job_json_encode(&job));
    else {
        if (!first)
            putchar('\n');
        show(cli, &job);
    }
    bide_job_clear(&job);
    return exit;
}

/* A job that does not exist does not prevent the others from being printed. */
static int run_job(struct cli *cli)
{
    size_t shown = 0;
    int worst = BI_EXIT_OK;

    for (size_t i = 0; i < cli->word_count; i++) {
        int exit = show_one(cli, cli->ids[i], shown == 0);
        if (exit != BI_EXIT_OK && exit != BI_EXIT_NOT_FOUND)
            return exit;
        shown += exit == BI_EXIT_OK;
        worst = exit == BI_EXIT_OK ? worst : exit;
    }
    return worst != BI_EXIT_OK && shown > 0 ? BI_EXIT_PARTIAL : worst;
}

const struct verb bi_verb_job = {
    .name = "job",
    .usage = "ID...",
    .summary = "print all attributes of jobs, without the body",
    .check = bi_cli_parse_ids,
    .run = run_job,
};

/* ---- peek ---- */

static bide_state state = BIDE_STATE_ANY;
static const char *key;
static bool wants_result;

/* Digits are an id, unless a flag applies to topics only. */
static bool is_topic(const struct cli *cli)
{
    const char *word = cli->words[0];
    return state != BIDE_STATE_ANY || key != NULL || word[strspn(word, "0123456789")] != 0;
}

static int check_peek(struct cli *cli)
{
    uint64_t id;

    if (state != BIDE_STATE_ANY && key != NULL)
        return bi_cli_usage_error(cli, "--state and --key are both given; choose one");
    if (key != NULL && (key[0] == 0 || strlen(key) > BIDE_KEY_MAX))
        return bi_cli_usage_error(cli, "--key: a key has 1 to %d bytes", BIDE_KEY_MAX);
    bool good = is_topic(cli) ? bi_query_check_topic(cli, cli->words[0])
                              : bi_cli_parse_id(cli, cli->words[0], &id);
    return good ? BI_EXIT_OK : BI_EXIT_USAGE;
}

static int fetch_job(const struct cli *cli, bide_job *job)
{
    const char *word = cli->words[0];
    uint64_t id = 0;

    if (key != NULL)
        return bide_find(cli->queue, word, key, strlen(key), job);
    if (is_topic(cli))
        return bide_peek_first(cli->queue, word, state == BIDE_STATE_ANY ? BIDE_STATE_READY : state,
                               job);
    if (!bi_cli_parse_id(cli, word, &id))
        return BIDE_EINVAL;
    return bide_peek(cli->queue, id, job);
}

/* Ends the last line on a terminal, for the prompt. */
static void print_bytes(const struct cli *cli, const void *data, size_t size)
{
    bi_print_bytes(stdout, cli->out_terminal, data, size);
    if (cli->out_terminal && size > 0 && ((const char *)data)[size - 1] != '\n')
        putchar('\n');
}

static int print_result(const struct cli *cli, const bide_job *job)
{
    bide_buf *result = NULL;

    int code = bide_result(cli->queue, job->id, &result);
    if (code == BIDE_OK)
        print_bytes(cli, bide_buf_data(result), bide_buf_size(result));
    bide_buf_unref(result);
    return bi_cli_report_last(cli, code);
}

static int run_peek(struct cli *cli)
{
    bide_job job;

    int code = fetch_job(cli, &job);
    if (code != BIDE_OK && is_topic(cli))
        return bi_cli_report_last(cli, code);
    if (code != BIDE_OK)
        return bi_query_report_id(cli, code, strtoull(cli->words[0], NULL, 10));

    bi_cli_detail(cli, "job %llu of %s, %s, %zu bytes", (unsigned long long)job.id, job.topic,
                  bide_state_name(job.state), job.body_size);
    int exit = BI_EXIT_OK;
    if (cli->json)
        exit = bi_cli_print_json(cli, bi_job_json_encode(&job));
    else if (wants_result)
        exit = print_result(cli, &job);
    else
        print_bytes(cli, job.body, job.body_size);
    bide_job_clear(&job);
    return exit;
}

static const struct flag peek_flags[] = {
    BI_FLAG_STATE('s', "state", &state, "first job of the topic in this state (default: ready)"),
    BI_FLAG_STRING('k', "key", "KEY", &key, "job of the topic with this key"),
    BI_FLAG_BOOL(0, "result", &wants_result, "print the result of a done job, not its body"),
    BI_FLAGS_END,
};

const struct verb bi_verb_peek = {
    .name = "peek",
    .usage = "ID|TOPIC",
    .summary = "print the body of a job without reserving it",
    .flags = peek_flags,
    .check = check_peek,
    .run = run_peek,
};
