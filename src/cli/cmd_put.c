/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/job_wait.h"
#include "cli/put.h"
#include "cli/query.h"
#include "cli/verb.h"
#include "util/clock.h"
#include "util/duration.h"

#include <bide/task.h>
#include <string.h>

/* That of tasks, where the queue has such a limit: a job that fails again and again ends buried. */
#define RETRIES_NOT_SET INT64_MIN

/* So long is a result kept for whoever waits for it, unless they say otherwise. */
#define WAIT_RETAIN_MS 60000

static struct {
    int64_t priority, delay, at, ttr, retries, backoff, backoff_max, expires, expires_in, retain;
    int64_t timeout;
    const char *key;
    bool replace, hold;
    struct words files;
    bool lines, nulls, json, skip_empty, stop_on_error, ids, wait;
} opt = {
    .priority = BIDE_DEFAULT_PRIORITY,
    .retries = RETRIES_NOT_SET,
    .timeout = BIDE_FOREVER,
};

static const struct flag flags[] = {
    BI_FLAG_LIST('f', "file", "FILE", &opt.files, "the body is in FILE; - is standard input"),
    BI_FLAG_BOOL('l', "lines", &opt.lines, "one job for each line"),
    BI_FLAG_BOOL('0', "null", &opt.nulls, "one job for each piece that ends with a NUL"),
    BI_FLAG_BOOL('j', "jsonl", &opt.json, "one job for each line, an object with its options"),
    BI_FLAG_PRIORITY('p', "priority", &opt.priority, "smaller is first (default: 1024)"),
    BI_FLAG_DURATION('d', "delay", &opt.delay, "ready that much later"),
    BI_FLAG_TIME('a', "at", &opt.at, "ready at that time"),
    BI_FLAG_DURATION('t', "ttr", &opt.ttr, "time to run (0, default: that of the queue, 1m)"),
    BI_FLAG_STRING('k', "key", "KEY", &opt.key, "only one live job of the topic may have it"),
    BI_FLAG_BOOL(0, "replace", &opt.replace, "take the place of the job that has the key"),
    BI_FLAG_BOOL(0, "key-hold-retained", &opt.hold, "hold the key as long as the result is kept"),
    BI_FLAG_RETRIES('r', "retries", &opt.retries, "maximum retries, or unlimited (default: 25)"),
    BI_FLAG_DURATION(0, "backoff", &opt.backoff,
                     "until the first retry, then doubled (default: 5s)"),
    BI_FLAG_DURATION(0, "backoff-max", &opt.backoff_max,
                     "longest time until a retry (default: 1h)"),
    BI_FLAG_TIME(0, "expires", &opt.expires, "gone if not begun by that time"),
    BI_FLAG_DURATION(0, "expires-in", &opt.expires_in, "gone if not begun in that time"),
    BI_FLAG_DURATION(0, "retain", &opt.retain, "keep the result that long"),
    BI_FLAG_BOOL('w', "wait", &opt.wait, "wait until it is done, and print its result"),
    BI_FLAG_TIMEOUT(0, "timeout", &opt.timeout, "with --wait: give up after that time"),
    BI_FLAG_BOOL('i', "ids", &opt.ids, "print the ids of many jobs, too"),
    BI_FLAG_BOOL(0, "skip-empty", &opt.skip_empty, "no jobs for empty lines"),
    BI_FLAG_BOOL(0, "stop-on-error", &opt.stop_on_error, "end at the first that is refused"),
    BI_FLAGS_END,
};

static const char details[] =
    "The body is BODY, a FILE each, or standard input; its bytes are taken as they are, up to\n"
    "65,535 of them unless the server (bided --max-job-size) or the URL of the file\n"
    "(sqlite:jobs.db?max_job_size=16MiB) allows more. Prints the id of each job.\n"
    "\n"
    "--lines, --null and --jsonl make many jobs of standard input, or of each FILE, as fast as\n"
    "they come, and say how many (--ids prints the ids). A line ends with a newline, which is\n"
    "not in the body; a carriage return is. An empty line is a job with an empty body. A line\n"
    "that is refused is told with its number, the others go on, and the exit code is 7.\n"
    "Interrupted, or without a connection, it tells up to which line all is in.\n"
    "\n"
    "A job that fails comes again after its backoff, 25 times if --retries does not say how\n"
    "often, and is then buried. On a plain beanstalkd, which knows no such limit, it comes again\n"
    "without end.\n"
    "\n"
    "With --key a job that is there already is refused, and the exit code is 5; --quiet then says\n"
    "nothing, as is best for cron.\n"
    "\n"
    "A line of --jsonl has \"body\", \"body_base64\" or \"body_json\" (any JSON), and may have\n"
    "topic, priority, delay_ms or delay, run_at_ms or at, ttr_ms or ttr, key or key_base64,\n"
    "replace, key_hold_retained, max_retries, backoff_base_ms or backoff, backoff_max_ms or\n"
    "backoff_max, expires_at_ms, expires or expires_in, retain_ms or retain. Those without\n"
    "_ms are texts, as the flags take them; max_retries -1 is unlimited. Blank lines are skipped.\n"
    "\n"
    "  bide put email 'hello'\n"
    "  bide put email --at 'tomorrow 9:00' < letter.txt\n"
    "  seq 100000 | bide put numbers --lines\n"
    "  echo '{\"topic\":\"email\",\"body\":\"hi\",\"delay\":\"5m\"}' | bide put --jsonl\n";

/* ---- what does not go together ---- */

struct rule {
    bool broken;
    const char *sentence;
};

static int check(struct cli *cli)
{
    bool many = opt.lines || opt.nulls || opt.json;
    bool has_body = cli->word_count == 2;
    const struct rule rules[] = {
        {cli->word_count == 0 && !opt.json, "the TOPIC is missing: bide put TOPIC [BODY]"},
        {opt.lines + opt.nulls + opt.json > 1, "choose one of --lines, --null and --jsonl"},
        {has_body && many, "--lines, --null and --jsonl read standard input or a --file, and no "
                           "BODY"},
        {has_body && opt.files.count > 0, "there is a BODY and a --file; choose one"},
        {opt.delay != 0 && opt.at != 0, "--delay and --at are both given; choose one"},
        {opt.expires != 0 && opt.expires_in != 0,
         "--expires and --expires-in are both given; choose one"},
        {opt.key != NULL && (many || opt.files.count > 1),
         "only one job can have the --key; --jsonl gives each its own"},
        {opt.key != NULL && (opt.key[0] == 0 || strlen(opt.key) > BIDE_KEY_MAX),
         "a --key has 1 to 200 bytes"},
        {(opt.replace || opt.hold) && opt.key == NULL && !opt.json,
         "--replace and --key-hold-retained want a --key"},
        {opt.wait && many, "--wait is for a job, not for many lines; see \"bide wait\""},
        {opt.timeout != BIDE_FOREVER && !opt.wait, "--timeout is for --wait"},
        {opt.skip_empty && !opt.lines && !opt.nulls, "--skip-empty is for --lines and --null"},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].broken)
            return bi_cli_usage_error(cli, "%s", rules[i].sentence);
    bool good = cli->word_count == 0 || bi_query_check_topic(cli, cli->words[0]);
    return good ? BI_EXIT_OK : BI_EXIT_USAGE;
}

/* ---- what was said, as the queue wants it ---- */

static int32_t retries(const struct cli *cli)
{
    bool has_retry_limit = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) != 0;
    if (opt.retries != RETRIES_NOT_SET)
        return (int32_t)opt.retries;
    return has_retry_limit ? BIDE_TASK_RETRIES : BIDE_NO_RETRY_LIMIT;
}

static bide_put_options options(const struct cli *cli)
{
    bide_put_options put_options = BIDE_PUT_OPTIONS_INIT;
    put_options.priority = (uint32_t)opt.priority;
    put_options.conflict = opt.replace ? BIDE_REPLACE : BIDE_REJECT;
    put_options.delay_ms = opt.delay;
    put_options.run_at_ms = opt.at;
    put_options.ttr_ms = opt.ttr;
    if (opt.key != NULL)
        put_options.key = (bide_slice){opt.key, strlen(opt.key)};
    put_options.key_hold_retained = opt.hold;
    put_options.max_retries = retries(cli);
    put_options.backoff_base_ms = opt.backoff;
    put_options.backoff_max_ms = opt.backoff_max;
    put_options.expires_at_ms = opt.expires;
    if (opt.expires_in != 0)
        put_options.expires_at_ms = bi_clock_wall() / 1000 + opt.expires_in;
    put_options.retain_ms = opt.wait && opt.retain == 0 ? WAIT_RETAIN_MS : opt.retain;
    return put_options;
}

static enum put_form form(void)
{
    return opt.lines   ? BI_PUT_LINES
           : opt.nulls ? BI_PUT_NULLS
           : opt.json  ? BI_PUT_JSON
                       : BI_PUT_WHOLE;
}

/* A time is said back, with its zone: whoever wrote it may have meant another. */
static void print_expiry(const struct cli *cli, int64_t at_ms)
{
    char when[BI_DATETIME_SIZE];
    if (at_ms == 0)
        return;
    bi_datetime_describe(when, at_ms, bi_clock_wall() / 1000);
    bi_cli_note(cli, "expires %s", when);
}

static int put_and_wait(struct put_run *run)
{
    static uint64_t ids[BI_WORDS_MAX];
    run->ids = ids;
    int exit = opt.wait ? bi_job_wait_check(run->cli) : BI_EXIT_OK;
    if (exit == BI_EXIT_OK)
        exit = bi_put_run(run);
    if (exit != BI_EXIT_OK || !opt.wait)
        return exit;
    return bi_job_wait_run(run->cli, ids, run->put_count, opt.timeout, true);
}

static int run(struct cli *cli)
{
    static const char *const standard_input[] = {"-"};
    int exit = bi_interrupt_watch(cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    struct put_run run = {
        .cli = cli,
        .form = form(),
        .options = options(cli),
        .files = opt.files.count > 0 ? opt.files.list : standard_input,
        .file_count = opt.files.count > 0 ? opt.files.count : cli->word_count < 2,
        .body = cli->word_count == 2 ? cli->words[1] : NULL,
        .skip_empty = opt.skip_empty,
        .stop_on_error = opt.stop_on_error,
        .print_ids = opt.ids,
        .wait_result = opt.wait,
    };
    if (cli->word_count > 0)
        run.topic = (bide_slice){cli->words[0], strlen(cli->words[0])};
    if (opt.at != 0)
        bi_query_print_ready_time(cli, opt.at);
    print_expiry(cli, opt.expires);
    return put_and_wait(&run);
}

const struct verb bi_verb_put = {
    .name = "put",
    .group = BI_GROUP_WORK,
    .usage = "TOPIC [BODY]",
    .summary = "put jobs into a topic",
    .details = details,
    .flags = flags,
    .max = 2,
    .check = check,
    .traits = BI_VERB_CREATES_FILE,
    .run = run,
};
