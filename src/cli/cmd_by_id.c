/* SPDX-License-Identifier: MIT */
/*
 * cmd_by_id.c - the verbs that apply one op to each of several jobs, a row each (verb.h).
 */
#include "cli/input.h"
#include "cli/query.h"

#include <string.h>

#define VERB_OF_IDS(name_, row_)                                                       \
    .name = (name_), .usage = "ID...|-", .check = bi_by_id_check, .run = bi_by_id_run, \
    .data = (row_)
#define VERB_OF_LEASE(name_, row_)                                             \
    .name = (name_), .usage = "ID --token TOKEN | -", .check = bi_by_id_check, \
    .run = bi_by_id_run, .data = (row_)

/* ---- touch ---- */

static bide_op touch = {.kind = BIDE_OP_TOUCH};
static bool keep;

static int check_touch(const struct cli *cli)
{
    if (keep && touch.touch.extend_ms != 0)
        return bi_cli_usage_error(cli, "--keep and --extend are both given; choose one");
    if (touch.touch.progress.size > BIDE_PROGRESS_MAX)
        return bi_cli_usage_error(cli, "--progress has %zu bytes; at most %d are allowed",
                                  touch.touch.progress.size, BIDE_PROGRESS_MAX);
    if (keep)
        touch.touch.extend_ms = BIDE_KEEP;
    return BI_EXIT_OK;
}

static void print_touch(const struct cli *cli, const bide_op *op, uint64_t id)
{
    if (cli->json)
        bi_cli_print_json(cli, json_pack("{s:I, s:s, s:I, s:b}", "id", (json_int_t)id, "verb",
                                         "touch", "left_ms", (json_int_t)op->touch.left_ms,
                                         "cancel_wanted", op->status == BIDE_CANCEL_WANTED));
    else if (cli->out_terminal)
        printf("job %llu is yours for another %s\n", (unsigned long long)id,
               bi_text_duration(op->touch.left_ms).s);
}

static const struct id_verb touch_row = {
    .op = &touch,
    .token = BI_TOKEN_REQUIRED,
    .accepted_status = BIDE_CANCEL_WANTED,
    .check = check_touch,
    .print = print_touch,
};

static const struct flag touch_flags[] = {
    BI_FLAG_TOKEN,
    BI_FLAG_DURATION('e', "extend", &touch.touch.extend_ms,
                     "new lease time, from now (default: the ttr)"),
    BI_FLAG_SLICE('p', "progress", "TEXT", &touch.touch.progress,
                  "set the progress, up to 200 bytes"),
    BI_FLAG_BOOL('k', "keep", &keep, "do not extend the lease"),
    BI_FLAGS_END,
};

const struct verb bi_verb_touch = {
    VERB_OF_LEASE("touch", &touch_row),
    .summary = "extend the lease of a reserved job",
    .flags = touch_flags,
};

/* ---- done ---- */

static bide_op done = {.kind = BIDE_OP_DONE, .finish = {.retain_ms = BIDE_KEEP}};
static const char *result_file;

static int check_done(const struct cli *cli)
{
    if (done.finish.result.data != NULL && result_file != NULL)
        return bi_cli_usage_error(cli, "--result and --result-file are both given; choose one");
    if (result_file != NULL && strcmp(result_file, "-") == 0 && strcmp(cli->words[0], "-") == 0)
        return bi_cli_usage_error(cli, "standard input cannot be both the ids and the result");
    return BI_EXIT_OK;
}

/* A result that is not kept is a mistake that would be noticed too late. */
static int check_retention(const struct cli *cli)
{
    bide_job job = {.id = 0};
    uint64_t id;

    if (done.finish.retain_ms != BIDE_KEEP || strcmp(cli->words[0], "-") == 0)
        return BI_EXIT_OK;
    for (size_t i = 0; i < cli->word_count; i++) {
        if (!bi_cli_parse_id(cli, cli->words[i], &id))
            return BI_EXIT_USAGE;
        if (bide_job_stats(cli->queue, id, &job) != BIDE_OK)
            continue;
        bool kept = job.retain_ms > 0;
        bide_job_clear(&job);
        if (!kept)
            return bi_cli_error(cli, BI_EXIT_USAGE,
                                "job %llu was put without --retain, so its result would be lost; "
                                "say how long to keep it with --retain, or leave the result out",
                                (unsigned long long)id);
    }
    return BI_EXIT_OK;
}

static int prepare_done(const struct cli *cli)
{
    int exit =
        result_file == NULL ? BI_EXIT_OK : bi_input_read_file(cli, result_file, &done.finish.buf);
    bool has_result = done.finish.buf != NULL || done.finish.result.data != NULL;
    return exit == BI_EXIT_OK && has_result ? check_retention(cli) : exit;
}

static const struct id_verb done_row = {
    .op = &done,
    .past_tense = "done",
    .token = BI_TOKEN_OPTIONAL,
    .check = check_done,
    .prepare = prepare_done,
};

static const struct flag done_flags[] = {
    BI_FLAG_TOKEN,
    BI_FLAG_SLICE('r', "result", "TEXT", &done.finish.result, "keep TEXT as the result"),
    BI_FLAG_STRING('f', "result-file", "FILE", &result_file,
                   "keep the content of FILE as the result; - is standard input"),
    BI_FLAG_DURATION(0, "retain", &done.finish.retain_ms,
                     "how long to keep the result (default: as put)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_done = {
    VERB_OF_IDS("done", &done_row),
    .summary = "finish jobs and keep their results",
    .flags = done_flags,
};

/* ---- delete ---- */

static const struct id_verb delete_row = {
    .op = &(bide_op){.kind = BIDE_OP_DELETE}, .past_tense = "deleted", .token = BI_TOKEN_OPTIONAL};

static const struct flag delete_flags[] = {BI_FLAG_TOKEN, BI_FLAGS_END};

const struct verb bi_verb_delete = {
    VERB_OF_IDS("delete", &delete_row),
    .summary = "delete jobs",
    .flags = delete_flags,
};

/* ---- release ---- */

static bide_op release = {
    .kind = BIDE_OP_RELEASE,
    .release = {.priority = BIDE_KEEP, .delay_ms = BIDE_KEEP},
};
static bool uncounted;

static int check_release(const struct cli *cli)
{
    bide_release_args *args = &release.release;

    if (uncounted && (args->delay_ms != BIDE_KEEP || args->priority != BIDE_KEEP))
        return bi_cli_usage_error(cli, "--uncounted does not go with --delay or --priority");
    if (args->delay_ms == BIDE_KEEP)
        args->delay_ms = 0;
    if (uncounted)
        release.kind = BIDE_OP_GIVE_BACK;
    return BI_EXIT_OK;
}

static const struct id_verb release_row = {
    .op = &release,
    .past_tense = "released",
    .token = BI_TOKEN_REQUIRED,
    .check = check_release,
};

static const struct flag release_flags[] = {
    BI_FLAG_TOKEN,
    BI_FLAG_DURATION('d', "delay", &release.release.delay_ms, "delay the job by this time"),
    BI_FLAG_PRIORITY('p', "priority", &release.release.priority, "new priority"),
    BI_FLAG_BOOL(0, "uncounted", &uncounted, "do not count the reserve or the release"),
    BI_FLAGS_END,
};

const struct verb bi_verb_release = {
    VERB_OF_LEASE("release", &release_row),
    .summary = "give a reserved job back",
    .flags = release_flags,
};

/* ---- fail ---- */

static bide_op fail = {.kind = BIDE_OP_FAIL, .fail = {.retry_in_ms = BIDE_KEEP}};

static void print_fail(const struct cli *cli, const bide_op *op, uint64_t id)
{
    const char *state = bide_state_name(op->fail.state);

    if (cli->json)
        bi_cli_print_json(cli,
                          json_pack("{s:I, s:s, s:s, s:I}", "id", (json_int_t)id, "verb", "fail",
                                    "state", state, "delay_ms", (json_int_t)op->fail.delay_ms));
    else if (!cli->out_terminal)
        printf("%s\n", state);
    else if (op->fail.state == BIDE_STATE_DELAYED)
        printf("job %llu is tried again in %s\n", (unsigned long long)id,
               bi_text_duration(op->fail.delay_ms).s);
    else
        printf("job %llu is %s\n", (unsigned long long)id, state);
}

static const struct id_verb fail_row = {
    .op = &fail, .token = BI_TOKEN_OPTIONAL, .print = print_fail};

static const struct flag fail_flags[] = {
    BI_FLAG_TOKEN,
    BI_FLAG_SLICE('e', "error", "TEXT", &fail.fail.error,
                  "error text, kept as the job's last error"),
    BI_FLAG_DURATION('r', "retry-in", &fail.fail.retry_in_ms,
                     "retry after this time (default: backoff)"),
    BI_FLAGS_END,
};

const struct verb bi_verb_fail = {
    VERB_OF_IDS("fail", &fail_row),
    .summary = "report that jobs failed: they are retried or buried",
    .flags = fail_flags,
};

/* ---- bury ---- */

static bide_op bury = {.kind = BIDE_OP_BURY, .bury = {.priority = BIDE_KEEP}};

static const struct id_verb bury_row = {
    .op = &bury, .past_tense = "buried", .token = BI_TOKEN_OPTIONAL};

static const struct flag bury_flags[] = {
    BI_FLAG_TOKEN,
    BI_FLAG_SLICE('r', "reason", "TEXT", &bury.bury.reason, "reason, kept as the job's last error"),
    BI_FLAG_PRIORITY('p', "priority", &bury.bury.priority, "new priority"),
    BI_FLAGS_END,
};

const struct verb bi_verb_bury = {
    VERB_OF_IDS("bury", &bury_row),
    .summary = "keep jobs from workers until they are kicked",
    .flags = bury_flags,
};

/* ---- update ---- */

static bide_op update = {.kind = BIDE_OP_UPDATE, .update = BIDE_UPDATE_INIT};

static int check_update(const struct cli *cli)
{
    const bide_update_args *args = &update.update;

    if (args->priority == BIDE_KEEP && args->delay_ms == BIDE_KEEP &&
        args->run_at_ms == BIDE_KEEP && args->ttr_ms == BIDE_KEEP && args->topic.data == NULL)
        return bi_cli_usage_error(
            cli, "nothing to change: give --priority, --delay, --at, --ttr or --topic");
    if (args->delay_ms != BIDE_KEEP && args->run_at_ms != BIDE_KEEP)
        return bi_cli_usage_error(cli, "--delay and --at are both given; choose one");
    if (args->topic.data != NULL && !bi_query_check_topic(cli, args->topic.data))
        return BI_EXIT_USAGE;
    return BI_EXIT_OK;
}

static int prepare_update(const struct cli *cli)
{
    if (update.update.run_at_ms != BIDE_KEEP)
        bi_query_print_ready_time(cli, update.update.run_at_ms);
    return BI_EXIT_OK;
}

static const struct id_verb update_row = {
    .op = &update, .past_tense = "changed", .check = check_update, .prepare = prepare_update};

static const struct flag update_flags[] = {
    BI_FLAG_PRIORITY('p', "priority", &update.update.priority, "new priority"),
    BI_FLAG_DURATION('d', "delay", &update.update.delay_ms, "ready after this time; 0: now"),
    BI_FLAG_TIME('a', "at", &update.update.run_at_ms, "ready at this time"),
    BI_FLAG_DURATION('t', "ttr", &update.update.ttr_ms,
                     "new time to run; 0: the default of the queue"),
    BI_FLAG_SLICE(0, "topic", "TOPIC", &update.update.topic, "move the job to TOPIC, with its key"),
    BI_FLAGS_END,
};

const struct verb bi_verb_update = {
    VERB_OF_IDS("update", &update_row),
    .summary = "change the priority, time, ttr or topic of jobs",
    .flags = update_flags,
};

/* ---- cancel ---- */

static const struct id_verb cancel_row = {.op = &(bide_op){.kind = BIDE_OP_CANCEL},
                                          .past_tense = "cancelled"};

const struct verb bi_verb_cancel = {
    VERB_OF_IDS("cancel", &cancel_row),
    .summary = "delete jobs, or tell their workers to stop",
};
