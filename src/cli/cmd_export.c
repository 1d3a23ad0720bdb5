/* SPDX-License-Identifier: MIT */
#include "cli/connect.h"
#include "cli/interrupt.h"
#include "cli/job_scan.h"
#include "cli/outfile.h"
#include "cli/pauses.h"
#include "cli/query.h"
#include "op/job_json.h"
#include "op/op_check.h"
#include "util/clock.h"

#include <string.h>

static bide_state state;
static const char *output;
static bool force;

static const struct flag flags[] = {
    BI_FLAG_STATE('s', "state", &state, "only jobs in this state"),
    BI_FLAG_STRING('o', "output", "FILE", &output, "write to FILE, which must not exist"),
    BI_FLAG_BOOL('f', "force", &force, "replace an existing file"),
    BI_FLAGS_END,
};

struct exporter {
    struct cli *cli;
    struct outfile file;
    struct job_scan scan;
    uint64_t jobs, pauses, reserved;
};

static int check(struct cli *cli)
{
    for (size_t i = 0; i < cli->word_count; i++)
        if (!bi_topic_name_valid((bide_slice){cli->words[i], strlen(cli->words[i])}))
            return bi_cli_usage_error(cli, "\"%.60s\" is not a valid topic name", cli->words[i]);
    return bi_outfile_check(cli, output, force);
}

/* Takes the reference to the value. */
static int write_line(const struct exporter *out, json_t *value)
{
    if (value == NULL)
        return bi_cli_error(out->cli, BI_EXIT_FAILED, "out of memory");
    bool good = bi_job_json_write(out->file.to, value);
    json_decref(value);
    return good ? BI_EXIT_OK : bi_outfile_error(&out->file);
}

static int write_job(void *user, bide_job *job)
{
    struct exporter *out = user;
    job->token = 0;
    int exit = write_line(out, bi_job_json_encode(job));
    if (exit == BI_EXIT_OK) {
        out->jobs++;
        out->reserved += job->state == BIDE_STATE_RESERVED;
    }
    return exit;
}

static bool is_selected(const struct exporter *out, const char *topic)
{
    for (size_t i = 0; i < out->scan.topic_count; i++)
        if (strcmp(out->scan.topics[i], topic) == 0)
            return true;
    return out->scan.topic_count == 0;
}

static int write_pause(void *user, const struct pause *pause)
{
    struct exporter *out = user;
    if (!is_selected(out, pause->topic))
        return BI_EXIT_OK;
    out->pauses++;
    return write_line(out, bi_pauses_to_json(pause));
}

/* The last line proves that the export is complete. */
static int write_all(struct exporter *out)
{
    int exit =
        write_line(out, json_pack("{s:s, s:i, s:s, s:I}", "kind", "export", "format", 1, "bide",
                                  bide_version(), "at_ms", (json_int_t)(bi_clock_wall() / 1000)));
    if (exit == BI_EXIT_OK && state == BIDE_STATE_ANY)
        exit = bi_pauses_foreach(out->cli, out->cli->queue, write_pause, out);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_list(&out->scan);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_read(&out->scan, "exporting", write_job, out);
    if (exit == BI_EXIT_OK)
        exit = write_line(out, json_pack("{s:s, s:I, s:I}", "kind", "end", "jobs",
                                         (json_int_t)out->jobs, "pauses", (json_int_t)out->pauses));
    return exit == BI_EXIT_OK ? bi_outfile_commit(&out->file) : exit;
}

/* Checks the topics before anything is written: a mistyped name must not give a copy that looks
 * complete. */
static int require_topics(const struct cli *cli)
{
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < cli->word_count && exit == BI_EXIT_OK; i++)
        exit = bi_query_require_topic(cli, cli->words[i]);
    return exit;
}

static int print_summary(const struct exporter *out, int exit)
{
    char jobs[32], reserved[32];
    const struct cli *cli = out->cli;
    bi_print_number(jobs, out->jobs);
    bi_print_number(reserved, out->reserved);
    if (exit >= BI_EXIT_INTERRUPTED && exit != BI_EXIT_PIPE)
        bi_cli_note(cli, "interrupted after %s jobs%s", jobs,
                    out->file.name == NULL ? "; what was written is not complete"
                                           : "; no file was written");
    if (exit != BI_EXIT_OK)
        return exit;
    bi_cli_note(cli, "exported %s job%s%s%s", jobs, out->jobs == 1 ? "" : "s",
                out->file.name == NULL ? "" : " to ", out->file.name == NULL ? "" : out->file.name);
    if (out->reserved > 0)
        bi_cli_note(cli, "%s of them are reserved; an import makes them ready", reserved);
    bool complete = out->scan.unreadable == 0 && bi_connect_damage_count(cli->queue) == 0;
    return complete ? BI_EXIT_OK : BI_EXIT_PARTIAL;
}

static int run(struct cli *cli)
{
    struct exporter out = {.cli = cli};
    int exit = bi_interrupt_watch(cli, NULL);
    if (exit == BI_EXIT_OK)
        exit = bi_job_scan_open(&out.scan, cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    out.scan.topics = cli->words;
    out.scan.topic_count = cli->word_count;
    out.scan.state = state;
    exit = require_topics(cli);
    if (exit == BI_EXIT_OK)
        exit = bi_outfile_open(&out.file, cli, output, force, "{\"kind\":\"export\",");
    if (exit == BI_EXIT_OK)
        exit = print_summary(&out, write_all(&out));
    bi_outfile_discard(&out.file);
    bi_job_scan_close(&out.scan);
    return exit;
}

const struct verb bi_verb_export = {
    .name = "export",
    .group = BI_GROUP_STORE,
    .usage = "[TOPIC...]",
    .summary = "write jobs as JSON lines",
    .details =
        "Each line is one job with all its attributes, in the order of ids. Lines with a\n"
        "\"kind\" are the header, the pauses of topics and the end. \"bide import\" reads the\n"
        "format. Jobs that are put or deleted meanwhile may be missing. FILE appears when it\n"
        "is complete. If a named topic does not exist, nothing is written, and the exit code\n"
        "is 3.\n"
        "\n"
        "  bide export -o jobs.jsonl\n"
        "  bide export --state buried email | jq -r 'select(.kind == null).last_error'\n"
        "  bide export | zstd > jobs.jsonl.zst\n",
    .flags = flags,
    .max = BI_WORDS_MAX,
    .check = check,
    .run = run,
};
