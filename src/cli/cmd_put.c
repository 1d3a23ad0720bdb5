/* SPDX-License-Identifier: MIT */
#include "cli/put.h"
#include "cli/query.h"
#include "util/clock.h"

#include <string.h>

#define NOT_SET        INT64_MIN /* of a flag whose 0 is a value */
#define WAIT_RETAIN_MS 60000     /* of --wait without --retain */

static bide_put_options options = BIDE_PUT_OPTIONS_INIT;
static struct {
    int64_t priority, retries, ttr, backoff, backoff_max, retain, expires_in, timeout;
    const char *key;
    struct words files;
    bool replace, lines, nulls, json, skip_empty, stop_on_error, ids, wait;
} opt = {
    .priority = BIDE_DEFAULT_PRIORITY,
    .retries = NOT_SET,
    .ttr = NOT_SET,
    .backoff = NOT_SET,
    .backoff_max = NOT_SET,
    .retain = NOT_SET,
    .timeout = BIDE_FOREVER,
};

static const struct flag flags[] = {
    BI_FLAG_LIST('f', "file", "FILE", &opt.files, "read the body from FILE; -: standard input"),
    BI_FLAG_BOOL('l', "lines", &opt.lines, "one job per line"),
    BI_FLAG_BOOL('0', "null", &opt.nulls, "one job per record that ends with NUL"),
    BI_FLAG_BOOL('j', "jsonl", &opt.json, "one job per line, a JSON object with options"),
    BI_FLAG_PRIORITY('p', "priority", &opt.priority, "lower is more urgent (default: 1024)"),
    BI_FLAG_DURATION('d', "delay", &options.delay_ms, "time until the job is ready"),
    BI_FLAG_TIME('a', "at", &options.run_at_ms, "time at which the job is ready"),
    BI_FLAG_DURATION('t', "ttr", &opt.ttr, "time to run (default: that of the topic or queue, 1m)"),
    BI_FLAG_STRING('k', "key", "KEY", &opt.key, "at most one live job of the topic has this key"),
    BI_FLAG_BOOL(0, "replace", &opt.replace, "replace the job that holds the key"),
    BI_FLAG_BOOL(0, "key-hold-retained", &options.key_hold_retained,
                 "hold the key while the result is retained"),
    BI_FLAG_RETRIES('r', "retries", &opt.retries,
                    "maximum retries, or unlimited (default: that of the topic, 25)"),
    BI_FLAG_DURATION(0, "backoff", &opt.backoff,
                     "delay of the first retry, then doubled (default: 5s)"),
    BI_FLAG_DURATION(0, "backoff-max", &opt.backoff_max, "maximum delay of a retry (default: 1h)"),
    BI_FLAG_TIME(0, "expires", &options.expires_at_ms, "remove the job if not reserved by then"),
    BI_FLAG_DURATION(0, "expires-in", &opt.expires_in, "remove the job if not reserved in time"),
    BI_FLAG_DURATION(0, "retain", &opt.retain, "retention of the result"),
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
        {options.expires_at_ms != 0 && opt.expires_in != 0,
         "--expires and --expires-in are both given; choose one"},
        {opt.key != NULL && (many || opt.files.count > 1),
         "only one job can have the --key; --jsonl gives each its own"},
        {opt.key != NULL && (opt.key[0] == 0 || strlen(opt.key) > BIDE_KEY_MAX),
         "--key must have 1 to 200 bytes"},
        {(opt.replace || options.key_hold_retained) && opt.key == NULL && !opt.json,
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

/* A flag that is given as 0 excludes the default of the topic. */
static int64_t said(int64_t value)
{
    return value == NOT_SET ? 0 : value == 0 ? BIDE_NO_DEFAULT : value;
}

/* Fills in what the flags do not set directly. */
static void complete_options(const struct cli *cli)
{
    options.priority = (uint32_t)opt.priority;
    options.conflict = opt.replace ? BIDE_REPLACE : BIDE_REJECT;
    if (opt.key != NULL)
        options.key = (bide_slice){opt.key, strlen(opt.key)};
    if (opt.expires_in != 0)
        options.expires_at_ms = bi_clock_wall() / 1000 + opt.expires_in;
    options.ttr_ms = said(opt.ttr);
    options.backoff_base_ms = said(opt.backoff);
    options.backoff_max_ms = said(opt.backoff_max);
    options.retain_ms = said(opt.retain);
    if (opt.wait && options.retain_ms <= 0)
        options.retain_ms = WAIT_RETAIN_MS;

    /* A beanstalkd has no limit. */
    if (opt.retries != NOT_SET) {
        options.max_retries =
            opt.retries == BIDE_NO_RETRY_LIMIT ? BIDE_NO_DEFAULT : (int32_t)opt.retries;
    } else if ((bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) != 0) {
        bi_put_set_default_retries(&options);
    }
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
