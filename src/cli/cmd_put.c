/* SPDX-License-Identifier: MIT */
#include "cli/put.h"
#include "cli/query.h"
#include "util/clock.h"

#include <string.h>

#define WAIT_RETAIN_MS 60000 /* of --wait without --retain */

static bide_put_options options = BIDE_PUT_OPTIONS_INIT;
static struct put_flags job = BI_PUT_FLAGS_INIT;
static struct {
    int64_t timeout;
    struct words files;
    bool replace, lines, nulls, json, skip_empty, stop_on_error, ids, wait;
} opt = {.timeout = BIDE_FOREVER};

static const struct flag flags[] = {
    BI_FLAG_LIST('f', "file", "FILE", &opt.files, "read the body from FILE; -: standard input"),
    BI_FLAG_BOOL('l', "lines", &opt.lines, "one job per line"),
    BI_FLAG_BOOL('0', "null", &opt.nulls, "one job per record that ends with NUL"),
    BI_FLAG_BOOL('j', "jsonl", &opt.json, "one job per line, a JSON object with options"),
    BI_FLAG_DURATION('d', "delay", &options.delay_ms, "time until the job is ready"),
    BI_FLAG_TIME('a', "at", &options.run_at_ms, "time at which the job is ready"),
    BI_FLAG_STRING('k', "key", "KEY", &job.key, "at most one live job of the topic has this key"),
    BI_FLAG_BOOL(0, "replace", &opt.replace, "replace the job that holds the key"),
    BI_FLAG_BOOL(0, "key-hold-retained", &options.key_hold_retained,
                 "hold the key while the result is retained"),
    BI_PUT_FLAGS(&job),
    BI_FLAG_TIME(0, "expires", &options.expires_at_ms, "remove the job if not reserved by then"),
    BI_FLAG_BOOL('w', "wait", &opt.wait, "wait until the job is done, print its result"),
    BI_FLAG_TIMEOUT(0, "timeout", &opt.timeout, "with --wait: maximum time to wait"),
    BI_FLAG_BOOL('i', "ids", &opt.ids, "print the id of every job, also of many"),
    BI_FLAG_BOOL(0, "skip-empty", &opt.skip_empty, "skip empty lines"),
    BI_FLAG_BOOL(0, "stop-on-error", &opt.stop_on_error, "stop at the first refused line"),
    BI_FLAGS_END,
};

static int check(struct cli *cli)
{
    bool many = opt.lines || opt.nulls || opt.json;
    bool has_body = cli->word_count == 2;
    const struct {
        bool broken;
        const char *message;
    } rules[] = {
        {opt.lines + opt.nulls + opt.json > 1, "choose one of --lines, --null and --jsonl"},
        {has_body && many, "--lines, --null and --jsonl take no BODY"},
        {has_body && opt.files.count > 0, "BODY and --file are both given; choose one"},
        {options.delay_ms != 0 && options.run_at_ms != 0,
         "--delay and --at are both given; choose one"},
        {options.expires_at_ms != 0 && job.expires_in != BI_PUT_NOT_SET,
         "--expires and --expires-in are both given; choose one"},
        {job.key != NULL && (many || opt.files.count > 1),
         "only one job can have the --key; --jsonl gives each its own"},
        {job.key != NULL && (job.key[0] == 0 || strlen(job.key) > BIDE_KEY_MAX),
         "--key must have 1 to 200 bytes"},
        {(opt.replace || options.key_hold_retained) && job.key == NULL && !opt.json,
         "--replace and --key-hold-retained need --key"},
        {opt.wait && many, "--wait is not for many lines; see \"bide wait\""},
        {opt.timeout != BIDE_FOREVER && !opt.wait, "--timeout needs --wait"},
        {opt.skip_empty && !opt.lines && !opt.nulls, "--skip-empty needs --lines or --null"},
    };

    int exit = bi_verb_check_words(cli, opt.json ? 0 : 1, 2);
    if (exit != BI_EXIT_OK)
        return exit;
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].broken)
            return bi_cli_usage_error(cli, "%s", rules[i].message);
    bool good = cli->word_count == 0 || bi_query_check_topic(cli, cli->words[0]);
    return good ? BI_EXIT_OK : BI_EXIT_USAGE;
}

int64_t bi_put_given(int64_t value)
{
    return value == BI_PUT_NOT_SET ? 0 : value == 0 ? BIDE_NO_DEFAULT : value;
}

void bi_put_set_options(const struct put_flags *from, bool limits_retries, bide_put_options *to)
{
    to->priority = (uint32_t)from->priority;
    if (from->key != NULL)
        to->key = (bide_slice){from->key, strlen(from->key)};
    to->ttr_ms = bi_put_given(from->ttr);
    to->backoff_base_ms = bi_put_given(from->backoff);
    to->backoff_max_ms = bi_put_given(from->backoff_max);
    to->retain_ms = bi_put_given(from->retain);
    if (from->retries != BI_PUT_NOT_SET)
        to->max_retries =
            from->retries == BIDE_NO_RETRY_LIMIT ? BIDE_NO_DEFAULT : (int32_t)from->retries;
    else if (limits_retries)
        bi_put_set_default_retries(to);
}

/* Fills in what the flags do not set directly. */
static void complete_options(const struct cli *cli)
{
    bool all_ops = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) != 0;
    int64_t expires_in = bi_put_given(job.expires_in);

    bi_put_set_options(&job, all_ops, &options);
    options.conflict = opt.replace ? BIDE_REPLACE : BIDE_REJECT;
    if (expires_in != 0)
        options.expires_at_ms = expires_in < 0 ? expires_in : bi_clock_wall() / 1000 + expires_in;
    if (opt.wait && options.retain_ms <= 0)
        options.retain_ms = WAIT_RETAIN_MS;
}

static int run(struct cli *cli)
{
    static const char *const standard_input[] = {"-"};
    static uint64_t ids[BI_WORDS_MAX];
    struct put_run run = {
        .cli = cli,
        .form = opt.lines   ? BI_PUT_LINES
                : opt.nulls ? BI_PUT_NULLS
                : opt.json  ? BI_PUT_JSON
                            : BI_PUT_WHOLE,
        .files = opt.files.count > 0 ? opt.files.list : standard_input,
        .file_count = opt.files.count > 0 ? opt.files.count : cli->word_count < 2,
        .body = cli->word_count == 2 ? cli->words[1] : NULL,
        .skip_empty = opt.skip_empty,
        .stop_on_error = opt.stop_on_error,
        .print_ids = opt.ids,
        .ids = opt.wait ? ids : NULL,
    };
    int exit = BI_EXIT_OK;

    if (cli->word_count > 0)
        run.topic = (bide_slice){cli->words[0], strlen(cli->words[0])};

    /* Times are printed with their zone: the user may have meant another one. */
    if (options.run_at_ms != 0)
        bi_query_print_ready_time(cli, options.run_at_ms);
    if (options.expires_at_ms != 0)
        bi_cli_note(cli, "expires %s",
                    bi_text_moment_from(options.expires_at_ms, bi_clock_wall() / 1000).s);

    complete_options(cli);
    run.options = options;
    if (opt.wait)
        exit = bi_wait_check(cli);
    if (exit == BI_EXIT_OK)
        exit = bi_put_run(&run);
    if (exit != BI_EXIT_OK || !opt.wait)
        return exit;
    return bi_wait_run(cli, ids, run.put_count, opt.timeout, true);
}

const struct verb bi_verb_put = {
    .name = "put",
    .usage = "TOPIC [BODY]",
    .summary = "put jobs into a topic",
    .flags = flags,
    .check = check,
    .traits = BI_VERB_CREATES_FILE | BI_VERB_COUNTS_WORDS | BI_VERB_INTERRUPT,
    .run = run,
};
