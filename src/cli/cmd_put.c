/* SPDX-License-Identifier: MIT */
#include "cli/await.h"
#include "cli/interrupt.h"
#include "cli/look.h"
#include "cli/put_run.h"
#include "cli/verb.h"
#include "cli/when.h"
#include "util/clock.h"

#include <bide/task.h>
#include <string.h>

/* That of tasks, where the queue has such a limit: a job that fails again and again ends buried. */
#define RETRIES_NOT_SAID INT64_MIN

/* So long is a result kept for whoever waits for it, unless they say otherwise. */
#define WAIT_RETAIN_MS 60000

static struct {
    int64_t priority, delay, at, ttr, retries, backoff, backoff_max, expires, expires_in, retain;
    int64_t timeout;
    const char *key;
    bool replace, hold;
    struct words files;
    bool lines, nulls, json, skip_empty, stop_on_error, ids, wait;
} said = {
    .priority = BIDE_DEFAULT_PRIORITY,
    .retries = RETRIES_NOT_SAID,
    .timeout = BIDE_FOREVER,
};

static const struct flag flags[] = {
    BI_FLAG_WORDS('f', "file", "FILE", &said.files, "the body is in FILE; - is standard input"),
    BI_FLAG_ON('l', "lines", &said.lines, "one job for each line"),
    BI_FLAG_ON('0', "null", &said.nulls, "one job for each piece that ends with a NUL"),
    BI_FLAG_ON('j', "jsonl", &said.json, "one job for each line, an object with its options"),
    BI_FLAG_PRIORITY('p', "priority", &said.priority, "smaller is first (default: 1024)"),
    BI_FLAG_DURATION('d', "delay", &said.delay, "ready that much later"),
    BI_FLAG_MOMENT('a', "at", &said.at, "ready at that time"),
    BI_FLAG_DURATION('t', "ttr", &said.ttr, "time to run (0, default: that of the queue, 1m)"),
    BI_FLAG_TEXT('k', "key", "KEY", &said.key, "only one live job of the topic may have it"),
    BI_FLAG_ON(0, "replace", &said.replace, "take the place of the job that has the key"),
    BI_FLAG_ON(0, "key-hold-retained", &said.hold, "hold the key as long as the result is kept"),
    BI_FLAG_RETRIES('r', "retries", &said.retries, "maximum retries, or unlimited (default: 25)"),
    BI_FLAG_DURATION(0, "backoff", &said.backoff,
                     "until the first retry, then doubled (default: 5s)"),
    BI_FLAG_DURATION(0, "backoff-max", &said.backoff_max,
                     "longest time until a retry (default: 1h)"),
    BI_FLAG_MOMENT(0, "expires", &said.expires, "gone if not begun by that time"),
    BI_FLAG_DURATION(0, "expires-in", &said.expires_in, "gone if not begun in that time"),
    BI_FLAG_DURATION(0, "retain", &said.retain, "keep the result that long"),
    BI_FLAG_ON('w', "wait", &said.wait, "wait until it is done, and print its result"),
    BI_FLAG_TIMEOUT(0, "timeout", &said.timeout, "with --wait: give up after that time"),
    BI_FLAG_ON('i', "ids", &said.ids, "print the ids of many jobs, too"),
    BI_FLAG_ON(0, "skip-empty", &said.skip_empty, "no jobs for empty lines"),
    BI_FLAG_ON(0, "stop-on-error", &said.stop_on_error, "end at the first that is refused"),
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
    bool many = said.lines || said.nulls || said.json;
    bool has_body = cli->word_count == 2;
    const struct rule rules[] = {
        {cli->word_count == 0 && !said.json, "the TOPIC is missing: bide put TOPIC [BODY]"},
        {said.lines + said.nulls + said.json > 1, "choose one of --lines, --null and --jsonl"},
        {has_body && many, "--lines, --null and --jsonl read standard input or a --file, and no "
                           "BODY"},
        {has_body && said.files.count > 0, "there is a BODY and a --file; choose one"},
        {said.delay != 0 && said.at != 0, "--delay and --at are both given; choose one"},
        {said.expires != 0 && said.expires_in != 0,
         "--expires and --expires-in are both given; choose one"},
        {said.key != NULL && (many || said.files.count > 1),
         "only one job can have the --key; --jsonl gives each its own"},
        {said.key != NULL && (said.key[0] == 0 || strlen(said.key) > BIDE_KEY_MAX),
         "a --key has 1 to 200 bytes"},
        {(said.replace || said.hold) && said.key == NULL && !said.json,
         "--replace and --key-hold-retained want a --key"},
        {said.wait && many, "--wait is for a job, not for many lines; see \"bide wait\""},
        {said.timeout != BIDE_FOREVER && !said.wait, "--timeout is for --wait"},
        {said.skip_empty && !said.lines && !said.nulls, "--skip-empty is for --lines and --null"},
    };
    for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++)
        if (rules[i].broken)
            return bi_cli_misused(cli, "%s", rules[i].sentence);
    bool good = cli->word_count == 0 || bi_look_topic(cli, cli->words[0]);
    return good ? BI_EXIT_OK : BI_EXIT_USAGE;
}

/* ---- what was said, as the queue wants it ---- */

static int32_t retries(const struct cli *cli)
{
    bool knows = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) != 0;
    if (said.retries != RETRIES_NOT_SAID)
        return (int32_t)said.retries;
    return knows ? BIDE_TASK_RETRIES : BIDE_NO_RETRY_LIMIT;
}

static bide_put_options options(const struct cli *cli)
{
    bide_put_options all = BIDE_PUT_OPTIONS_INIT;
    all.priority = (uint32_t)said.priority;
    all.conflict = said.replace ? BIDE_REPLACE : BIDE_REJECT;
    all.delay_ms = said.delay;
    all.run_at_ms = said.at;
    all.ttr_ms = said.ttr;
    if (said.key != NULL)
        all.key = (bide_slice){said.key, strlen(said.key)};
    all.key_hold_retained = said.hold;
    all.max_retries = retries(cli);
    all.backoff_base_ms = said.backoff;
    all.backoff_max_ms = said.backoff_max;
    all.expires_at_ms = said.expires;
    if (said.expires_in != 0)
        all.expires_at_ms = bi_clock_wall() / 1000 + said.expires_in;
    all.retain_ms = said.wait && said.retain == 0 ? WAIT_RETAIN_MS : said.retain;
    return all;
}

static enum put_form form(void)
{
    return said.lines   ? BI_PUT_LINES
           : said.nulls ? BI_PUT_NULLS
           : said.json  ? BI_PUT_JSON
                        : BI_PUT_WHOLE;
}

/* A time is said back, with its zone: whoever wrote it may have meant another. */
static void confirm_expiry(const struct cli *cli, int64_t at_ms)
{
    char when[BI_WHEN_SIZE];
    if (at_ms == 0)
        return;
    bi_moment_confirm(when, at_ms, bi_clock_wall() / 1000);
    bi_cli_note(cli, "expires %s", when);
}

static int put_and_wait(struct put_run *run)
{
    static uint64_t ids[BI_WORDS_MAX];
    run->ids = ids;
    int exit = said.wait ? bi_await_possible(run->cli) : BI_EXIT_OK;
    if (exit == BI_EXIT_OK)
        exit = bi_put_run(run);
    if (exit != BI_EXIT_OK || !said.wait)
        return exit;
    return bi_await(run->cli, ids, run->in, said.timeout, true);
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
        .files = said.files.count > 0 ? said.files.list : standard_input,
        .file_count = said.files.count > 0 ? said.files.count : cli->word_count < 2,
        .body = cli->word_count == 2 ? cli->words[1] : NULL,
        .skip_empty = said.skip_empty,
        .stop_on_error = said.stop_on_error,
        .shows_ids = said.ids,
        .waits = said.wait,
    };
    if (cli->word_count > 0)
        run.topic = (bide_slice){cli->words[0], strlen(cli->words[0])};
    if (said.at != 0)
        bi_look_confirm_ready(cli, said.at);
    confirm_expiry(cli, said.expires);
    return put_and_wait(&run);
}

const struct verb bi_verb_put = {
    .name = "put",
    .group = BI_GROUP_WORK,
    .usage = "TOPIC [BODY]",
    .summary = "put jobs into a topic",
    .details = details,
    .flags = flags,
    .most = 2,
    .check = check,
    .traits = BI_MAKES,
    .run = run,
};
