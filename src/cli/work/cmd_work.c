/* SPDX-License-Identifier: MIT */
#include "cli/query.h"
#include "cli/work/work.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#define KEEP_SIZE (UINT64_C(64) << 10) /* the default of max_result_size */
#define DAY_MS    INT64_C(86400000)
#define NOT_SET   UINT64_MAX
/* Pipes, the process, the context; and for the queue. */
#define FDS_PER_JOB  12
#define FDS_RESERVED 100
/* When no program runs any more a stop waits only for replies of the queue. */
#define ACK_TIMEOUT_MS 10000

/* ---- flags ---- */

static struct work_plan plan = {
    .timeout_ms = BI_WORK_TIMEOUT_TTR,
    .grace_ms = 10000,
    .stop_timeout_ms = 30000,
    .retry_delay_ms = 60000,
    .retain_ms = DAY_MS,
};
static uint64_t threads = NOT_SET, keep_size = KEEP_SIZE;
static bool keep_output, once, no_schedules;
static const char *worker_name;
static struct topic_args topic_args;
static struct words rules;

static const struct flag flags[] = {
    BI_FLAG_COUNT('j', "jobs", &threads, "jobs at a time (default: one per processor)"),
    BI_FLAG_STRING(0, "http", "URL", &plan.url,
                   "POST each job to URL instead of running a program"),
    BI_FLAG_BOOL('e', "until-empty", &plan.until_empty,
                 "exit when no job is ready or running here"),
    BI_FLAG_COUNT('n', "count", &plan.count, "exit after so many jobs"),
    BI_FLAG_BOOL('1', "once", &once, "exit after one job"),
    BI_FLAG_TIMEOUT('t', "timeout", &plan.timeout_ms,
                    "time limit, or forever (default: ttr of the job)"),
    BI_FLAG_DURATION(0, "grace", &plan.grace_ms, "time from SIGTERM to SIGKILL (default: 10s)"),
    BI_FLAG_LIST(0, "on", "STATUS=ACTION", &rules, "what a status means: 65=bury, signal=retry"),
    BI_FLAG_DURATION(0, "retry-delay", &plan.retry_delay_ms,
                     "delay of the action retry (default: 1m)"),
    BI_FLAG_BOOL('k', "keep-output", &keep_output,
                 "store standard output as the result of the job"),
    BI_FLAG_SIZE(0, "keep-size", &keep_size, "maximum size of the result (default: 64KiB)"),
    BI_FLAG_DURATION(0, "retain", &plan.retain_ms, "retention, if the job has none (default: 1d)"),
    BI_FLAG_STRATEGY('s', "strategy", &topic_args.strategy,
                     "how to choose among topics (default: priority)"),
    BI_FLAG_TIMEOUT(0, "stop-timeout", &plan.stop_timeout_ms,
                    "time that running programs get to end (default: 30s)"),
    BI_FLAG_BOOL(0, "no-schedules", &no_schedules, "do not put the jobs of schedules"),
    BI_FLAG_STRING(0, "name", "NAME", &worker_name,
                   "name in lists of workers (default: that of the host)"),
    BI_FLAG_LIST(0, "header", "'NAME: VALUE'", &plan.headers,
                 "with --http: add or replace a header"),
    BI_FLAG_BOOL(0, "follow", &plan.follow, "with --http: follow redirects on the same host"),
    BI_FLAGS_END,
};

static struct work this_work; /* the only one of the process */
static char topic_names[BI_WORDS_MAX][BIDE_TOPIC_MAX + 1];
static const char *topics[BI_WORDS_MAX];

/* ---- arguments ---- */

static int check_topics(struct cli *cli)
{
    char error[BI_ERRMSG_SIZE];

    if (!bi_query_parse_topics(&topic_args, cli->words, cli->word_count, error))
        return bi_cli_usage_error(cli, "%s", error);
    plan.strategy = topic_args.strategy;
    for (size_t i = 0; i < topic_args.count; i++) {
        memcpy(topic_names[i], topic_args.topics[i].data, topic_args.topics[i].size);
        topics[i] = topic_names[i];
    }
    return BI_EXIT_OK;
}

static int check_rules(struct cli *cli)
{
    char reason[BI_ERRMSG_SIZE];

    bi_work_exit_rule_init(&plan.rules, plan.url != NULL);
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
    if (plan.timeout_ms == 0)
        return bi_cli_usage_error(cli, "--timeout must be more than 0; without it the limit is the "
                                       "ttr of the job, and \"forever\" is no limit");
    if (once && plan.count > 1)
        return bi_cli_usage_error(cli, "--once and --count %llu exclude each other",
                                  (unsigned long long)plan.count);
    if (keep_size == 0 || keep_size > UINT64_C(1) << 30)
        return bi_cli_usage_error(cli, "--keep-size: from 1 to 1GiB");
    if (keep_output && plan.retain_ms == 0)
        return bi_cli_usage_error(cli, "--retain must be more than 0 with --keep-output");

    if (once)
        plan.count = 1;
    plan.keep_size = keep_output ? keep_size : 0;
    plan.threads = threads != NOT_SET ? (uint32_t)threads
                   : processors > 0   ? (uint32_t)processors
                                      : 1;
    if (plan.count > 0 && plan.count < plan.threads)
        plan.threads = (uint32_t)plan.count;
    return BI_EXIT_OK;
}

/* Sets plan.path if this is an executable file. */
static bool try_path(const char *folder, size_t size, const char *name)
{
    struct stat found;
    int length = snprintf(plan.path, sizeof(plan.path), "%.*s%s%s", (int)size, folder,
                          size == 0 ? "" : "/", name);

    return length < (int)sizeof(plan.path) && stat(plan.path, &found) == 0 &&
           S_ISREG(found.st_mode) && access(plan.path, X_OK) == 0;
}

/* Finds the program as a shell does; an empty part of PATH is the working directory. */
static int check_program(struct cli *cli)
{
    const char *name = cli->program[0], *path = getenv("PATH");

    plan.program = cli->program;
    plan.runner = &bi_work_program;
    if (strchr(name, '/') != NULL) {
        if (try_path("", 0, name))
            return BI_EXIT_OK;
        return bi_cli_error(cli, BI_EXIT_USAGE, "cannot run %.300s: %s", name,
                            access(name, F_OK) == 0 ? "not an executable file" : strerror(errno));
    }

    for (path = path == NULL ? "/bin:/usr/bin" : path;; path++) {
        size_t size = strcspn(path, ":");
        if (try_path(path, size, name))
            return BI_EXIT_OK;
        path += size;
        if (*path == 0)
            return bi_cli_error(cli, BI_EXIT_USAGE, "cannot find the program \"%.200s\" in PATH",
                                name);
    }
}

static int check_webhook(struct cli *cli)
{
#ifndef BIDE_WITH_CURL
    return bi_cli_error(cli, BI_EXIT_FAILED, "built without libcurl, which --http needs");
#else
    if (strncmp(plan.url, "http://", 7) != 0 && strncmp(plan.url, "https://", 8) != 0)
        return bi_cli_usage_error(cli, "--http: \"%.100s\" does not begin with http:// or https://",
                                  plan.url);
    for (size_t i = 0; i < plan.headers.count; i++) {
        const char *line = plan.headers.list[i];
        if (strchr(line, ':') == NULL || line[0] == ':' || strpbrk(line, "\r\n") != NULL)
            return bi_cli_usage_error(cli, "--header: \"%.60s\" is not of the form \"Name: value\"",
                                      line);
    }
    plan.runner = &bi_work_webhook;
    return BI_EXIT_OK;
#endif
}

static int check_runner(struct cli *cli)
{
    bool has_program = cli->program != NULL && cli->program[0] != NULL;

    if (has_program == (plan.url != NULL))
        return bi_cli_usage_error(cli, has_program
                                           ? "either a program or --http, not both"
                                           : "PROGRAM or --http is missing: bide work TOPIC -- "
                                             "PROGRAM, or bide work TOPIC --http URL");
    if (plan.url == NULL && (plan.headers.count > 0 || plan.follow))
        return bi_cli_usage_error(cli, "--header and --follow need --http");
    return plan.url == NULL ? check_program(cli) : check_webhook(cli);
}

static int check(struct cli *cli)
{
    static int (*const checks[])(struct cli *) = {check_topics, check_rules, check_numbers,
                                                  check_runner};
    int exit = BI_EXIT_OK;

    for (size_t i = 0; i < sizeof(checks) / sizeof(checks[0]) && exit == BI_EXIT_OK; i++)
        exit = checks[i](cli);
    return exit;
}

/* ---- running ---- */

/* Programs inherit the limit, so it is raised only if it is too low. */
static void raise_fd_limit(uint32_t thread_count)
{
    struct rlimit limit;
    rlim_t wanted = (rlim_t)thread_count * FDS_PER_JOB + FDS_RESERVED;

    if (getrlimit(RLIMIT_NOFILE, &limit) != 0 || limit.rlim_cur >= wanted)
        return;
    limit.rlim_cur = limit.rlim_max < wanted ? limit.rlim_max : wanted;
    setrlimit(RLIMIT_NOFILE, &limit);
}

/* A number of one digit, because a shell may accept no other behind >&, and not of a descriptor
 * that programs inherit from the caller of bide. -1: the queue cannot end a job and put others. */
static int choose_next_fd(const bide *queue)
{
    if ((bide_capabilities(queue) & BIDE_CAN_ALL_OPS) == 0)
        return -1;
    for (int fd = STDERR_FILENO + 1; fd <= 9; fd++) {
        int found = fcntl(fd, F_GETFD);
        if (found < 0 || (found & FD_CLOEXEC) != 0)
            return fd;
    }
    return STDERR_FILENO + 1;
}

static int make_worker(struct work *work)
{
    static bide_task task = {.type = bide_type_of_bytes, .time_limit_ms = BIDE_FOREVER};
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;

    options.threads = plan.threads;
    options.strategy = plan.strategy;
    options.stop_timeout_ms = ACK_TIMEOUT_MS;
    options.event = bi_work_report_event;
    options.user = work;
    options.flags = no_schedules ? BIDE_WORKER_NO_SCHEDULES : 0;
    options.name = worker_name;

    int code = bide_worker_new(work->cli->queue, &options, &work->worker);
    for (size_t i = 0; i < work->topic_count && code == BIDE_OK; i++) {
        task.name = task.topic = work->topics[i];
        code = bide_worker_handle_task(work->worker, &task, bi_work_handler_run,
                                       (bide_function *)bi_work_handler_run, work);
        if (code == BIDE_OK)
            code = bide_worker_set_weight(work->worker, work->topics[i], topic_args.weights[i]);
    }
    return code;
}

static int open_work(struct work *work)
{
    struct cli *cli = work->cli;
    int *const fds[] = {&work->end_fd, &work->idle_fd, &work->stop_fd, &work->kill_fd};

    if (keep_output && (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0)
        return bi_cli_error(cli, BI_EXIT_REFUSED,
                            "%.200s is a plain beanstalkd, which keeps no results: --keep-output "
                            "needs a bided or a file",
                            cli->shown);
    raise_fd_limit(plan.threads);
    plan.next_fd = choose_next_fd(cli->queue);
    for (size_t i = 0; i < 4; i++)
        if ((*fds[i] = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) < 0)
            return bi_cli_error(cli, BI_EXIT_FAILED, "cannot create eventfd: %s", strerror(errno));
    int code = make_worker(work);
    return code == BIDE_OK ? plan.runner->open(work) : bi_cli_report_last(cli, code);
}

/* Reports a lost or restored connection at once; the events of the worker come only after a call
 * has failed. Runs on the thread of the connection, which must not wait for a reader of standard
 * error. */
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
    bi_work_report_write(&this_work, STDERR_FILENO, line, (size_t)size, -1, 0);
}

static int run(struct cli *cli)
{
    assert(plan.runner != NULL && plan.threads > 0);
    this_work.cli = cli;
    this_work.plan = &plan;
    this_work.topics = topics;
    this_work.topic_count = cli->word_count;
    int exit = open_work(&this_work);
    if (exit == BI_EXIT_OK)
        exit = bi_work_supervisor_run(&this_work);

    /* A worker that could not be stopped still uses its memory and descriptors: leave them to the
     * end of the process. */
    if (bide_worker_stop(this_work.worker) == BIDE_OK) {
        bide_worker_free(this_work.worker);
        plan.runner->close();
    }
    return exit;
}

const struct verb bi_verb_work = {
    .name = "work",
    .usage = "TOPIC[:WEIGHT]... -- PROGRAM [ARGUMENT...]",
    .summary = "run a program or call a web hook for each job of topics",
    .flags = flags,
    .traits = BI_VERB_PROGRAM | BI_VERB_CREATES_FILE,
    .log = on_log,
    .check = check,
    .run = run,
};
