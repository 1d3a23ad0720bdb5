/* SPDX-License-Identifier: MIT */
#include "cli/query.h"
#include "op/job_json.h"
#include "util/duration.h"

#include <string.h>

/* ---- times, by the clock of the queue, which may differ from ours ---- */

static int64_t server_now(const bide_job *job)
{
    return job->created_ms + job->age_ms;
}

static void show_moment(const struct cli *cli, const bide_job *job, const char *name, int64_t at_ms)
{
    char at[BI_DATETIME_SIZE], distance[BI_DATETIME_SIZE];
    int64_t ago = server_now(job) - at_ms;
    if (at_ms == 0)
        return;
    bi_datetime_format(at, &bi_calendar_local, at_ms);
    bi_query_format_duration(distance, ago < 0 ? -ago : ago);
    bi_print_property(cli, name, ago < 0 ? "%s, in %s" : "%s, %s ago", at, distance);
}

static void show_duration(const struct cli *cli, const char *name, int64_t ms)
{
    char text[BI_DATETIME_SIZE];
    if (ms == 0)
        return;
    bi_duration_format(text, ms);
    bi_print_property(cli, name, "%s", text);
}

/* ---- the state, and what it waits for ---- */

static void show_state(const struct cli *cli, const bide_job *job)
{
    static const char *const wait_texts[] = {
        [BIDE_STATE_DELAYED] = ", ready in ",
        [BIDE_STATE_RESERVED] = ", its lease ends in ",
        [BIDE_STATE_DONE] = ", deleted in ",
    };
    char left[BI_DATETIME_SIZE];
    const char *wait_text = (size_t)job->state < sizeof(wait_texts) / sizeof(wait_texts[0])
                                ? wait_texts[job->state]
                                : NULL;
    enum bi_print_style style = bi_print_state_style(job->state);
    const char *on = style == BI_STYLE_OFF ? "" : bi_print_style(cli, style);
    bi_query_format_duration(left, job->left_ms);
    bi_print_property(cli, "state", "%s%s%s%s%s", on, bide_state_name(job->state),
                      on[0] == 0 ? "" : bi_print_style(cli, BI_STYLE_OFF),
                      wait_text == NULL ? "" : wait_text, wait_text == NULL ? "" : left);
    if (job->cancel_wanted)
        bi_print_property(cli, "cancel", "requested: the worker is told at its next touch");
}

/* ---- everything else ---- */

static void show_size(const struct cli *cli, const char *name, size_t bytes)
{
    char text[32];
    bi_print_size(text, bytes);
    bi_print_property(cli, name, "%s", text);
}

static void show_retries(const struct cli *cli, const bide_job *job)
{
    char base[BI_DATETIME_SIZE], max[BI_DATETIME_SIZE];
    if (job->max_retries >= 0)
        bi_print_property(cli, "failures", "%u of at most %d", job->failures, job->max_retries);
    else
        bi_print_property(cli, "failures", "%u", job->failures);
    if (job->backoff_base_ms == 0 || job->backoff_max_ms == 0)
        return;
    bi_duration_format(base, job->backoff_base_ms);
    bi_duration_format(max, job->backoff_max_ms);
    bi_print_property(cli, "backoff", "%s, at most %s", base, max);
}

static void show_counters(const struct cli *cli, const bide_job *job)
{
    bi_print_property(cli, "counters",
                      "%u reserves, %u timeouts, %u releases, %u fails, %u buries, %u kicks, %u "
                      "touches",
                      job->reserves, job->timeouts, job->releases, job->fails, job->buries,
                      job->kicks, job->touches);
}

static void show_times(const struct cli *cli, const bide_job *job)
{
    const struct {
        const char *name;
        int64_t at_ms;
    } times[] = {
        {"created", job->created_ms},
        {"due", job->run_at_ms},
        {"ready", job->ready_ms},
        {"reserved", job->reserved_ms},
        {"touched", job->touched_ms},
        {"buried", job->buried_ms},
        {"done", job->done_ms},
        {"expires", job->reserves == 0 ? job->expires_at_ms : 0}, /* a reserve ends it */
    };
    for (size_t i = 0; i < sizeof(times) / sizeof(times[0]); i++)
        show_moment(cli, job, times[i].name, times[i].at_ms);
}

static void show_texts(const struct cli *cli, const bide_job *job)
{
    if (job->key != NULL)
        bi_print_property_bytes(cli, "key", job->key, job->key_size);
    if (job->progress != NULL)
        bi_print_property_bytes(cli, "progress", job->progress, job->progress_size);
    if (job->last_error != NULL)
        bi_print_property_bytes(cli, "last error", job->last_error, job->last_error_size);
}

static void show(const struct cli *cli, const bide_job *job)
{
    bi_print_property(cli, "job", "%llu", (unsigned long long)job->id);
    bi_print_property(cli, "topic", "%s", job->topic);
    show_state(cli, job);
    bi_print_property(cli, "priority", "%u", job->priority);
    show_size(cli, "body", job->body_size);
    if (job->result_size > 0)
        show_size(cli, "result", job->result_size);
    show_texts(cli, job);
    show_duration(cli, "ttr", job->ttr_ms);
    show_duration(cli, "retained for", job->retain_ms);
    show_retries(cli, job);
    show_counters(cli, job);
    show_times(cli, job);
}

/* ---- the verb ---- */

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

static int check(struct cli *cli)
{
    for (size_t i = 0; i < cli->word_count; i++) {
        uint64_t id;
        if (!bi_cli_parse_id(cli, cli->words[i], &id))
            return BI_EXIT_USAGE;
    }
    return BI_EXIT_OK;
}

/* A job that does not exist does not prevent the others from being printed. */
static int run(struct cli *cli)
{
    size_t shown = 0;
    int worst = BI_EXIT_OK;
    for (size_t i = 0; i < cli->word_count; i++) {
        uint64_t id = 0;
        if (!bi_cli_parse_id(cli, cli->words[i], &id))
            return BI_EXIT_USAGE;
        int exit = show_one(cli, id, shown == 0);
        if (exit != BI_EXIT_OK && exit != BI_EXIT_NOT_FOUND)
            return exit;
        shown += exit == BI_EXIT_OK;
        worst = exit == BI_EXIT_OK ? worst : exit;
    }
    return worst != BI_EXIT_OK && shown > 0 ? BI_EXIT_PARTIAL : worst;
}

const struct verb bi_verb_job = {
    .name = "job",
    .group = BI_GROUP_QUERY,
    .usage = "ID...",
    .summary = "print all attributes of jobs, without the body",
    .details =
        "Times are in the local time zone. \"bide peek ID\" prints the body. If some of several\n"
        "jobs do not exist, the exit code is 7.\n"
        "\n"
        "  bide job 12\n"
        "  bide job 12 13 14 --json | jq .state\n",
    .min = 1,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
