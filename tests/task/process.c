/* SPDX-License-Identifier: MIT */
/* process.c - the tests of workers that die and queues that are away, as a program; see
 * process.h. */
#include "process.h"

#include "../fault/suite.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

static const struct theme *const themes[] = {
    &crash_theme, &poison_theme, &stop_theme, &run_theme,   &cancel_theme, &answer_theme,
    &disk_theme,  &health_theme, &beat_theme, &storm_theme, &plain_theme};

static const char usage[] =
    "usage: taskfault [--server PROGRAM] [--parameters TEXT] [--filter TEXT] [--list]\n"
    "                 [--timeout SECONDS] [-v]\n"
    "\n"
    "Checks what becomes of jobs when worker processes die or stop, and queues are away.\n"
    "  --server PROGRAM   bided (build/bided)\n"
    "  --parameters TEXT  of the sqlite: URL of a bided with a file, as sync=off\n"
    "  --filter TEXT      only tests whose theme/name contains TEXT\n"
    "  --list             print the names of the tests and run none\n"
    "  --timeout SECONDS  a test that takes longer has hung (120)\n"
    "  --part K/N         only the K-th of N parts, for several runs at a time\n"
    "  -v                 name the tests that pass, too\n";

struct server server;
bide *queue;

/* ---- the server and the queue of a test ---- */

const char *server_url(int port, const char *parameters)
{
    static char url[200];
    snprintf(url, sizeof url, "beanstalk://127.0.0.1:%d%s%s", port, parameters[0] ? "?" : "",
             parameters);
    return url;
}

void begin_server(enum test_server_storage where)
{
    test_server_start(&server, where);
    queue = open_url(server_url(server.port, ""));
}

void end_server(void)
{
    OK(bide_close(queue));
    test_server_stop(&server);
}

uint64_t put_job(const char *topic, const char *body, const bide_put_options *options)
{
    uint64_t id = 0;
    OK(bide_put(queue, topic, body, strlen(body), options, &id));
    CHECK(id > 0);
    return id;
}

bide_put_options with_ttr(int64_t ttr_ms)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = ttr_ms;
    return options;
}

bide_put_options with_retries(int64_t ttr_ms, int32_t max_retries)
{
    bide_put_options options = with_ttr(ttr_ms);
    options.max_retries = max_retries;
    options.backoff_base_ms = 1;
    options.backoff_max_ms = 1;
    return options;
}

bide_job get_job(uint64_t id)
{
    bide_job job = {0};
    OK(bide_job_stats(queue, id, &job));
    bide_job copy = job;
    bide_job_clear(&job);
    copy.key = NULL;
    copy.last_error = NULL;
    copy.progress = NULL;
    copy.result = NULL;
    return copy;
}

bide_state state_now(uint64_t id)
{
    bide_job job = {0};
    int code = bide_job_stats(queue, id, &job);
    if (code == BIDE_NOT_FOUND)
        return BIDE_STATE_GONE;
    EQ(code, BIDE_OK);
    bide_state state = job.state;
    bide_job_clear(&job);
    return state;
}

bide_counts counts_now(void)
{
    bide_stats stats = {0};
    OK(bide_queue_stats(queue, &stats));
    return stats.jobs;
}

uint64_t waiting_now(void)
{
    bide_stats stats = {0};
    OK(bide_queue_stats(queue, &stats));
    return stats.waiting;
}

int64_t lease_end_us(uint64_t id)
{
    int64_t now_us = clock_us();
    bide_job job = get_job(id);
    EQ(job.state, BIDE_STATE_RESERVED);
    /* What is left was rounded up. */
    return now_us + (job.left_ms - 1) * 1000;
}

void last_error_at(struct where at, uint64_t id, const char *want)
{
    bide_job job = {0};
    check_code(at, bide_job_stats(queue, id, &job), BIDE_OK, "bide_job_stats()");
    check_text(at, job.last_error, job.last_error_size, want, "last_error");
    bide_failure failure;
    check_equal(at, (int64_t)bide_job_history(&job, &failure, 1), 1, "whether it has a history");
    check_text(at, failure.error.data, failure.error.size, want, "the last failure");
    bide_job_clear(&job);
}

/* ---- worker processes ---- */

static void exec_worker(const char *url, unsigned threads, int64_t stop_timeout_ms, pid_t parent)
{
    char count[16], timeout[24];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(95);
    snprintf(count, sizeof count, "%u", threads);
    snprintf(timeout, sizeof timeout, "%" PRId64, stop_timeout_ms);
    int log = open(test_path("workers.log"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    dup2(log, 1);
    dup2(log, 2);
    execl("/proc/self/exe", "taskfault", "--work", test_dir(), url, count, timeout, (char *)NULL);
    _exit(95);
}

pid_t start_worker_process_with(const char *url, unsigned threads, int64_t stop_timeout_ms)
{
    pid_t parent = getpid();
    fflush(NULL);
    pid_t pid = fork();
    if (pid == 0)
        exec_worker(url, threads, stop_timeout_ms, parent);
    CHECK(pid > 0);
    return pid;
}

pid_t start_worker_process(const char *url, unsigned threads)
{
    return start_worker_process_with(url, threads, 0);
}

bool has_ended(pid_t pid, int *code)
{
    int status = 0;
    if (waitpid(pid, &status, WNOHANG) != pid)
        return false;
    *code = WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
    return true;
}

/* Prints the output of the workers, to find the cause of a failure. */
static void print_worker_log(void)
{
    char line[512];
    FILE *file = fopen(test_path("workers.log"), "r");
    for (int i = 0; file != NULL && i < 60 && fgets(line, sizeof line, file) != NULL; i++)
        printf("     worker: %s%s", line, strchr(line, '\n') != NULL ? "" : "\n");
    if (file != NULL)
        fclose(file);
}

void ends_with_at(struct where at, pid_t pid, int want)
{
    int code = -1;
    int64_t limit_us = clock_us() + 3 * PATIENCE_MS * 1000;
    while (!has_ended(pid, &code)) {
        if (clock_us() > limit_us) {
            print_worker_log();
            fail_test(at, "the worker process does not end");
        }
        nap_ms(1);
    }
    if (code != want) {
        print_worker_log();
        fail_test(at, "a worker process: expected the end %d, got %d", want, code);
    }
}

void stop_worker_process_at(struct where at, pid_t pid)
{
    kill(pid, SIGTERM);
    ends_with_at(at, pid, 0);
}

void kill_worker_process_at(struct where at, pid_t pid)
{
    kill(pid, SIGKILL);
    ends_with_at(at, pid, 256 + SIGKILL);
}

int main(int argc, char **argv)
{
    const struct suite suite = {
        .name = "taskfault",
        .subject = &test_server_settings.program,
        .usage = usage,
        .themes = themes,
        .theme_count = COUNT(themes),
        .timeout_s = 120,
        .argument = test_server_argument,
    };
    if (argc > 1 && strcmp(argv[1], "--work") == 0)
        return work_main(argc, argv);
    /* Shells have what runs in the background ignore it, and workers would inherit that. */
    signal(SIGINT, SIG_DFL);
    return suite_main(&suite, argc, argv);
}
