/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"
#include "cli/work/work.h"
#include "cli/work/work_writer.h"
#include "util/duration.h"
#include "util/suggest.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP_SIZE (UINT64_C(64) << 10) /* max_result_size, if nobody has set another */
#define DAY_MS    INT64_C(86400000)
#define NOT_SET   UINT64_MAX
/* Pipes, the process, the context; and what the queue needs. */
#define FDS_PER_JOB  10
#define FDS_RESERVED 100
/* When no program runs any more the rest of a stop is a matter of answers. */
#define ACK_TIMEOUT_MS 10000

/* ---- flags ---- */

static uint64_t threads = NOT_SET, count, keep_size = KEEP_SIZE;
static int64_t timeout_ms = BI_WORK_TIMEOUT_TTR, grace_ms = 10000, stop_timeout_ms = 30000;
static int64_t retry_delay_ms = 60000, retain_ms = DAY_MS;
static bool keep_output, until_empty, once, follow;
static const char *strategy, *webhook_url;
static struct words rules, headers;

static const struct flag flags[] = {
    BI_FLAG_COUNT('j', "jobs", &threads, "jobs at a time (default: one for each processor)"),
    BI_FLAG_STRING(0, "http", "URL", &webhook_url,
                   "POST each job there, instead of running a program"),
    BI_FLAG_BOOL('e', "until-empty", &until_empty, "end when no job is ready and none runs here"),
    BI_FLAG_COUNT('n', "count", &count, "end after so many jobs"),
    BI_FLAG_BOOL('1', "once", &once, "end after one job"),
    BI_FLAG_TIMEOUT('t', "timeout", &timeout_ms, "time limit, or forever (default: the job's ttr)"),
    BI_FLAG_DURATION(0, "grace", &grace_ms, "SIGKILL that long after SIGTERM (default: 10s)"),
    BI_FLAG_LIST(0, "on", "STATUS=ACTION", &rules, "what a status means: 65=bury, signal=retry"),
    BI_FLAG_DURATION(0, "retry-delay", &retry_delay_ms,
                     "how long \"retry\" puts a job off (default: 1m)"),
    BI_FLAG_BOOL('k', "keep-output", &keep_output, "its standard output is the job's result"),
    BI_FLAG_SIZE(0, "keep-size", &keep_size, "keep at most so much of it (default: 64KiB)"),
    BI_FLAG_DURATION(0, "retain", &retain_ms,
                     "keep it so long, if the put did not say (default: 1d)"),
    BI_FLAG_STRING('s', "strategy", "NAME", &strategy, "priority, strict, weighted or fair"),
    BI_FLAG_TIMEOUT(0, "stop-timeout", &stop_timeout_ms,
                    "how long a stop lets it run (default: 30s)"),
    BI_FLAG_LIST(0, "header", "'NAME: VALUE'", &headers, "with --http: add or replace a header"),
    BI_FLAG_BOOL(0, "follow", &follow, "with --http: follow redirects on the same host"),
    BI_FLAGS_END,
};

static const char details[] =
    "Runs the program once for each job, with the body on its standard input. It has\n"
    "a process group of its own, and in its environment BIDE_ID, BIDE_TOPIC,\n"
    "BIDE_ATTEMPT (1 the first time), BIDE_LAST (1: a failure buries), BIDE_PRIORITY,\n"
    "BIDE_KEY (or BIDE_KEY_BASE64), BIDE_TTR_MS, BIDE_CREATED_MS, BIDE_RESERVES,\n"
    "BIDE_FAILURES, BIDE_MAX_RETRIES, BIDE_TOKEN, and BIDE_URL, so that it can use\n"
    "bide itself; a secret is not in it, only the name of its file (secret_file). What\n"
    "it writes passes through as it comes.\n"
    "\n"
    "What it ends with decides:\n"
    "  0                 done\n"
    "  75                retry: again after --retry-delay, which is no failure\n"
    "  any other status  fail: again after the job's backoff, or buried when its\n"
    "                    retries are used up; the end of its standard error says why\n"
    "  a signal          fail\n"
    "  a timeout         fail; SIGTERM to its group, SIGKILL after --grace\n"
    "--on changes it: STATUS is 3, 10-20, signal, SIGSEGV or timeout; ACTION is done,\n"
    "fail, retry or bury; the last one that fits counts.\n"
    "\n"
    "While it runs, nobody else gets the job, however long it takes: the ttr limits\n"
    "the program, unless --timeout does. When the job is cancelled, or its lease is\n"
    "lost, the program is ended. A lease is lost when the queue does not answer for a\n"
    "whole ttr, or has forgotten it. Processes that the program leaves behind go on,\n"
    "but what they write is not waited for longer than a second.\n"
    "\n"
    "--keep-output keeps what it writes to standard output as the result (bide wait,\n"
    "bide job), for as long as the put said, else for --retain. Of more than\n"
    "--keep-size the beginning is kept, and says at its end that it was cut.\n"
    "\n"
    "--http posts each job: the body, and the same as above as headers (Bide-Id, but\n"
    "no token). 2xx is done; 429, and 503 with Retry-After, put the job off until\n"
    "then, for a day at most; everything else, and no answer within the time limit,\n"
    "is a failure. --on takes 404, 500-599, 5xx, error (no connection) and timeout;\n"
    "4xx is 429, too, so say what that means behind it. A redirect is a failure; with\n"
    "--follow it is followed on the same scheme, host and port, or from http to https\n"
    "of the same host: bodies and headers go to no other server.\n"
    "\n"
    "SIGINT or SIGTERM stop: no more jobs are begun, and what runs may end. After\n"
    "--stop-timeout, or at a second Ctrl-C at once, it is ended, and its jobs are\n"
    "given back as if nothing had been. If bide itself is killed (SIGKILL), programs\n"
    "go on, and their jobs are done again when their ttr is over.\n"
    "\n"
    "--until-empty looks at what can be taken now: jobs that are delayed, or whose\n"
    "topic is paused, are not waited for.\n"
    "\n"
    "With --json there is one object a job on standard output, when it has ended, and\n"
    "what programs write there goes to standard error.\n"
    "\n"
    "Exit: 0, also when stopped by a signal; with --until-empty, --count or --once 7\n"
    "if a job failed, or the queue could not record what came of it, and 130 or 143\n"
    "if a signal came first. 1 when the program cannot be run any more, 141 when\n"
    "standard output has no reader any more; jobs that were begun are given back.\n"
    "\n"
    "  bide work urgent:9 normal:1 -- ./send\n"
    "  bide work video -j 2 --timeout 1h --on 65=bury -- ./convert --fast\n"
    "  bide work orders --http https://example.org/hook --on 4xx=bury --on 429=retry\n"
    "  bide work numbers --until-empty --keep-output -- wc -c\n";

static struct work_plan plan;
static struct work this_work; /* the only one of the process */
static char topic_names[BI_WORDS_MAX][BIDE_TOPIC_MAX + 1];
static const char *topics[BI_WORDS_MAX];
static uint32_t weights[BI_WORDS_MAX];

/* ---- looking at the arguments ---- */

/* "email" or "email:3". */
static int check_topic(struct cli *cli, size_t index, bool *weighted)
{
    const char *word = cli->words[index];
    size_t size = strcspn(word, ":");
    uint64_t weight = 1;
    char reason[BI_ERRMSG_SIZE];
    if (size == 0 || size > BIDE_TOPIC_MAX)
        return bi_cli_usage_error(cli, "\"%.60s\" is no name of a topic", word);
    if (word[size] == ':' && (!bi_flag_parse_count(word + size + 1, &weight, reason) ||
                              weight == 0 || weight > UINT32_MAX))
        return bi_cli_usage_error(cli, "\"%.200s\": the weight of a topic is a number from 1 on",
                                  word);
    *weighted = *weighted || word[size] == ':';
    memcpy(topic_names[index], word, size);
    topics[index] = topic_names[index];
    weights[index] = (uint32_t)weight;
    return BI_EXIT_OK;
}

static int check_strategy(struct cli *cli, bool weighted)
{
    static const char *const names[] = {"priority", "strict", "weighted", "fair"};
    static const bide_strategy values[] = {BIDE_BY_PRIORITY, BIDE_STRICT, BIDE_WEIGHTED, BIDE_FAIR};
    plan.strategy = weighted ? BIDE_WEIGHTED : BIDE_BY_PRIORITY;
    if (strategy == NULL)
        return BI_EXIT_OK;
    int found = -1;
    for (int i = 0; i < 4; i++)
        if (strcmp(names[i], strategy) == 0)
            found = i;
    if (found < 0)
        return bi_cli_usage_error(
            cli, "--strategy: \"%.60s\" is neither priority, strict, weighted nor fair", strategy);
    plan.strategy = values[found];
    if (weighted && plan.strategy != BIDE_WEIGHTED)
        return bi_cli_usage_error(cli, "topics have weights with --strategy weighted only");
    return BI_EXIT_OK;
}

static int check_topics(struct cli *cli)
{
    bool weighted = false;
    for (size_t i = 0; i < cli->word_count; i++) {
        int exit = check_topic(cli, i, &weighted);
        if (exit != BI_EXIT_OK)
            return exit;
    }
    return check_strategy(cli, weighted);
}

static int check_rules(struct cli *cli)
{
    char reason[BI_ERRMSG_SIZE];
    bi_work_exit_rule_init(&plan.rules, webhook_url != NULL);
    for (size_t i = 0; i < rules.count; i++)
        if (!bi_work_exit_rule_add(&plan.rules, rules.list[i], reason))
            return bi_cli_usage_error(cli, "--on: \"%.60s\" %.300s", rules.list[i], reason);
    return BI_EXIT_OK;
}

static int check_numbers(struct cli *cli)
{
    long processors = sysconf(_SC_NPROCESSORS_ONLN);
    if (threads != NOT_SET && (threads == 0 || threads > BIDE_WORKER_THREADS_MAX))
        return bi_cli_usage_error(cli, "--jobs: from 1 to %d at a time", BIDE_WORKER_THREADS_MAX);
    if (timeout_ms == 0)
        return bi_cli_usage_error(cli,
                                  "--timeout: nothing is done in no time; leave it out for the "
                                  "job's ttr, or say \"forever\"");
    if (once && count > 1)
        return bi_cli_usage_error(cli, "--once and --count %llu do not go together",
                                  (unsigned long long)count);
    if (keep_size == 0 || keep_size > UINT64_C(1) << 30)
        return bi_cli_usage_error(cli, "--keep-size: from 1 to 1GiB");
    if (keep_output && retain_ms == 0)
        return bi_cli_usage_error(cli, "--retain: a result that is kept for no time is not kept");
    plan.count = once ? 1 : count;
    plan.threads = threads != NOT_SET ? (uint32_t)threads
                   : processors > 0   ? (uint32_t)processors
                                      : 1;
    if (plan.count > 0 && plan.count < plan.threads)
        plan.threads = (uint32_t)plan.count;
    return BI_EXIT_OK;
}

/* ---- the program ---- */

static bool is_program(const char *path)
{
    struct stat found;
    return stat(path, &found) == 0 && S_ISREG(found.st_mode) && access(path, X_OK) == 0;
}

static bool find_in_dir(const char *folder, size_t size, const char *name)
{
    int length = snprintf(plan.path, sizeof(plan.path), "%.*s%s%s", (int)size, folder,
                          size == 0 ? "" : "/", name);
    return length < (int)sizeof(plan.path) && is_program(plan.path);
}

/* As a shell finds it; an empty part of PATH is the folder where we are. */
static bool find_program(const char *name)
{
    const char *path = getenv("PATH");
    if (path == NULL)
        path = "/bin:/usr/bin";
    for (;;) {
        size_t size = strcspn(path, ":");
        if (find_in_dir(path, size, name))
            return true;
        if (path[size] == 0)
            return false;
        path += size + 1;
    }
}

static int check_program(struct cli *cli)
{
    const char *name = cli->program[0];
    plan.program = cli->program;
    plan.runner = &bi_work_program;
    if (strchr(name, '/') == NULL)
        return find_program(name)
                   ? BI_EXIT_OK
                   : bi_cli_error(cli, BI_EXIT_USAGE,
                                  "there is no program \"%.200s\" in the folders of PATH", name);
    if (find_in_dir("", 0, name))
        return BI_EXIT_OK;
    bool exists = access(name, F_OK) == 0;
    return bi_cli_error(cli, BI_EXIT_USAGE, "%.300s %s", name,
                        exists ? "cannot be run: it is no program, or not for you"
                               : "is not there");
}

/* ---- the web hook ---- */

static int check_hook(struct cli *cli)
{
#ifndef BIDE_WITH_CURL
    return bi_cli_error(cli, BI_EXIT_FAILED,
                        "this build has no --http: it was made without libcurl");
#else
    if (strncmp(webhook_url, "http://", 7) != 0 && strncmp(webhook_url, "https://", 8) != 0)
        return bi_cli_usage_error(cli, "--http: \"%.100s\" does not begin with http:// or https://",
                                  webhook_url);
    for (size_t i = 0; i < headers.count; i++) {
        const char *line = headers.list[i];
        if (strchr(line, ':') == NULL || line[0] == ':' || strpbrk(line, "\r\n") != NULL)
            return bi_cli_usage_error(cli, "--header: \"%.60s\" is not of the form \"Name: value\"",
                                      line);
    }
    plan.runner = &bi_work_webhook;
    plan.url = webhook_url;
    plan.headers = &headers;
    plan.follow = follow;
    return BI_EXIT_OK;
#endif
}

static int check_runner(struct cli *cli)
{
    bool has_program = cli->program != NULL && cli->program[0] != NULL;
    if (has_program == (webhook_url != NULL))
        return bi_cli_usage_error(cli, has_program
                                           ? "either a program or --http, not both"
                                           : "what is to be run? bide work TOPIC -- PROGRAM, "
                                             "or bide work TOPIC --http URL");
    if (webhook_url == NULL && (headers.count > 0 || follow))
        return bi_cli_usage_error(cli, "--header and --follow go with --http");
    return webhook_url == NULL ? check_program(cli) : check_hook(cli);
}

static int check(struct cli *cli)
{
    static int (*const checks[])(struct cli *) = {check_topics, check_rules, check_numbers,
                                                  check_runner};
    int exit = BI_EXIT_OK;
    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && exit == BI_EXIT_OK; i++)
        exit = checks[i](cli);
    plan.timeout_ms = timeout_ms;
    plan.grace_ms = grace_ms;
    plan.stop_timeout_ms = stop_timeout_ms;
    plan.retry_delay_ms = retry_delay_ms;
    plan.keep_size = keep_output ? keep_size : 0;
    plan.retain_ms = retain_ms;
    plan.until_empty = until_empty;
    return exit;
}

/* ---- running ---- */

/* Only if there are too few for so many at a time: programs inherit what is allowed. */
static void raise_fd_limit(uint32_t thread_count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)thread_count * FDS_PER_JOB + FDS_RESERVED;
    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

static int add_topics(struct work *work)
{
    static bide_task task = {.type = bide_type_of_bytes, .time_limit_ms = BIDE_FOREVER};
    int code = BIDE_OK;
    for (size_t i = 0; i < work->topic_count && code == BIDE_OK; i++) {
        task.name = task.topic = work->topics[i];
        code = bide_worker_handle_task(work->worker, &task, bi_work_handler_run,
                                       (bide_function *)bi_work_handler_run, work);
        if (code == BIDE_OK)
            code = bide_worker_set_weight(work->worker, work->topics[i], weights[i]);
    }
    return code;
}

static int make_worker(struct work *work)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    options.threads = plan.threads;
    options.strategy = plan.strategy;
    options.stop_timeout_ms = ACK_TIMEOUT_MS;
    options.event = bi_work_report_event;
    options.user = work;
    int code = bide_worker_new(work->cli->queue, &options, &work->worker);
    return code == BIDE_OK ? add_topics(work) : code;
}

static bool open_fds(struct work *work)
{
    int *const fds[] = {&work->end_fd, &work->idle_fd, &work->stop_fd, &work->kill_fd};
    for (size_t i = 0; i < 4; i++)
        if ((*fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
            return false;
    return true;
}

static int open_work(struct work *work)
{
    struct cli *cli = work->cli;
    if (keep_output && (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0)
        return bi_cli_error(cli, BI_EXIT_REFUSED,
                            "%.200s is a plain beanstalkd, which keeps no results: --keep-output "
                            "needs a bided, or a file",
                            cli->shown);
    raise_fd_limit(plan.threads);
    if (!open_fds(work))
        return bi_cli_error(cli, BI_EXIT_FAILED, "no descriptors are left: %s", strerror(errno));
    int code = make_worker(work);
    if (code != BIDE_OK)
        return bi_cli_report_last(cli, code);
    return plan.runner->open(work);
}

/* A connection that is lost or back is said at once: the events of the worker tell it when a call has
 * failed. Called on the thread of the connection, which must not wait for a reader of our lines. */
static void on_log(void *user, bide_log_level level, const char *text)
{
    static const char prefix[] = "beanstalk: ";
    const struct cli *cli = user;
    char line[BI_ERRMSG_SIZE];

    if (strncmp(text, prefix, strlen(prefix)) != 0 || level > BIDE_LOG_INFO)
        return;
    atomic_store(&this_work.disconnected, level <= BIDE_LOG_WARN);
    if (cli->quiet)
        return;
    int size = snprintf(line, sizeof(line), "bide work: %.400s\n", text + strlen(prefix));
    bi_work_writer_write(&this_work, STDERR_FILENO, line, (size_t)size, -1, 0);
}

/* Descriptors and memory go with the process: a worker that could not be stopped still uses them. */
static int run(struct cli *cli)
{
    this_work.cli = cli;
    this_work.plan = &plan;
    this_work.topics = topics;
    this_work.topic_count = cli->word_count;
    int exit = open_work(&this_work);
    if (exit == BI_EXIT_OK)
        exit = bi_work_supervisor_run(&this_work);
    if (bide_worker_stop(this_work.worker) == BIDE_OK) {
        bide_worker_free(this_work.worker);
        plan.runner->close(&this_work);
    }
    return exit;
}

const struct verb bi_verb_work = {
    .name = "work",
    .group = BI_GROUP_WORK,
    .usage = "TOPIC[:WEIGHT]... -- PROGRAM [ARGUMENT...]",
    .summary = "run a program, or call a web hook, for each job of some topics",
    .details = details,
    .flags = flags,
    .min = 1,
    .max = BI_WORDS_MAX,
    .traits = BI_VERB_PROGRAM | BI_VERB_CREATES_FILE,
    .log = on_log,
    .check = check,
    .run = run,
};
