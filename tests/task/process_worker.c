/* SPDX-License-Identifier: MIT */
/* process_worker.c - the worker in a test: its handler, and what a worker process does. */
#include "process.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

BIDE_TASK(beat, bytes, .topic = "beat", .time_limit_ms = HOUR_MS);

#define COMMAND_SIZE 100

static void log_entry(const char *what, const bide_context *context, int code, const char *text)
{
    struct entry entry = {.id = bide_context_job(context)->id,
                          .attempt = bide_context_attempt(context),
                          .code = code};
    snprintf(entry.what, sizeof entry.what, "%s", what);
    snprintf(entry.text, sizeof entry.text, "%s", text);
    event_log_add(&entry);
}

/* ---- commands: each answers an outcome, and those behind it follow while that is done ---- */

static int do_nap(bide_context *context, const char *arg)
{
    (void)context;
    nap_ms(atoll(arg));
    return BIDE_DONE;
}

/* Where a gate is a file; any thread may ask. */
static void gate_path(char *path, size_t size, const char *name)
{
    snprintf(path, size, "%s/gate-%s", test_dir(), name);
}

static int do_hold(bide_context *context, const char *arg)
{
    char path[4096];
    (void)context;
    gate_path(path, sizeof path, arg);
    while (!file_exists(path))
        nap_ms(5);
    return BIDE_DONE;
}

static int do_until(bide_context *context, const char *arg)
{
    bide_reason reason = bide_context_wait(context, atoll(arg));
    if (reason == BIDE_REASON_NONE)
        return BIDE_DONE;
    return bide_context_retry(context, "%s", bide_reason_name(reason));
}

static int do_listen(bide_context *context, const char *arg)
{
    (void)arg;
    bide_reason reason = bide_context_wait(context, BIDE_FOREVER);
    log_entry("heard", context, (int)reason, bide_reason_name(reason));
    return bide_context_retry(context, "%s", bide_reason_name(reason));
}

static int do_die(bide_context *context, const char *arg)
{
    (void)context;
    (void)arg;
    kill(getpid(), SIGKILL);
    return BIDE_BURY;
}

static int do_abort(bide_context *context, const char *arg)
{
    (void)context;
    (void)arg;
    abort();
}

static int do_null(bide_context *context, const char *arg)
{
    volatile int *volatile nowhere = NULL;
    (void)context;
    (void)arg;
    *nowhere = 1;
    return BIDE_BURY;
}

static int do_result(bide_context *context, const char *arg)
{
    return bide_context_result(context, arg, strlen(arg));
}

static int do_put(bide_context *context, const char *arg)
{
    return bide_context_put(context, arg, "next", 4, NULL);
}

static int do_retry(bide_context *context, const char *arg)
{
    return bide_context_retry_in(context, atoll(arg), "it went wrong");
}

static int do_bury(bide_context *context, const char *arg)
{
    (void)arg;
    return bide_context_bury(context, "no use");
}

static int do_snooze(bide_context *context, const char *arg)
{
    return bide_context_snooze(context, atoll(arg));
}

static const struct {
    const char *name;
    int (*run)(bide_context *context, const char *arg);
} commands[] = {
    {"abort", do_abort},   {"bury", do_bury},   {"die", do_die},       {"hold", do_hold},
    {"listen", do_listen}, {"nap", do_nap},     {"null", do_null},     {"put", do_put},
    {"result", do_result}, {"retry", do_retry}, {"snooze", do_snooze}, {"until", do_until},
};

static int run_command(bide_context *context, char *command)
{
    char *space = strchr(command, ' ');
    if (space != NULL)
        *space = '\0';
    for (size_t i = 0; i < COUNT(commands); i++)
        if (strcmp(command, commands[i].name) == 0)
            return commands[i].run(context, space != NULL ? space + 1 : "");
    return bide_context_bury(context, "no such command: %s", command);
}

int run_commands(bide_context *context, const bide_slice *body, void *arg)
{
    char text[COMMAND_SIZE];
    int outcome = BIDE_DONE;
    (void)arg;
    log_entry("began", context, 0, "");
    snprintf(text, sizeof text, "%.*s", (int)body->size, (const char *)body->data);
    for (char *command = text; outcome == BIDE_DONE && command != NULL && command[0] != '\0';) {
        char *next = strstr(command, "; ");
        if (next != NULL) {
            *next = '\0';
            next += 2;
        }
        outcome = run_command(context, command);
        command = next;
    }
    return outcome;
}

void open_gate(const char *name)
{
    char path[4096];
    gate_path(path, sizeof path, name);
    write_file(path, 0, "", 0);
}

void close_gate(const char *name)
{
    char path[4096];
    gate_path(path, sizeof path, name);
    unlink(path);
}

/* ---- the worker ---- */

static void log_event(void *user, const bide_work_event *event)
{
    struct entry entry = {.id = event->id,
                          .attempt = event->attempt,
                          .code = event->code,
                          .delay_ms = event->delay_ms};
    (void)user;
    snprintf(entry.what, sizeof entry.what, "%s", bide_work_name(event->kind));
    snprintf(entry.text, sizeof entry.text, "%s", event->text);
    event_log_add(&entry);
}

static void log_health(void *user, int code, const char *text)
{
    struct entry entry = {.what = "health", .code = code};
    (void)user;
    snprintf(entry.text, sizeof entry.text, "%s", text);
    event_log_add(&entry);
}

bide_worker *new_worker(bide *at, unsigned threads, int64_t stop_timeout_ms,
                        int64_t health_interval_ms)
{
    bide_worker *worker = NULL;
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    options.threads = threads;
    options.stop_timeout_ms = stop_timeout_ms;
    options.health_interval_ms = health_interval_ms;
    options.event = log_event;
    options.health = health_interval_ms > 0 ? log_health : NULL;
    if (bide_worker_new(at, &options, &worker) != BIDE_OK ||
        bide_worker_handle(worker, "work", run_commands, NULL) != BIDE_OK ||
        bide_handle(worker, beat, run_commands, NULL) != BIDE_OK) {
        fprintf(stderr, "no worker: %s\n", bide_last_error());
        exit(99);
    }
    return worker;
}

/* ---- the process ---- */

int work_main(int argc, char **argv)
{
    static const struct rlimit none = {0, 0};
    bide *at = NULL;
    if (argc != 6)
        return 98;
    /* Some of them are meant to crash, which is nothing to keep. */
    setrlimit(RLIMIT_CORE, &none);
    test_dir_begin(argv[2]);
    if (bide_open(argv[3], NULL, &at) != BIDE_OK) {
        fprintf(stderr, "%s: %s\n", argv[3], bide_last_error());
        return 97;
    }
    bide_worker *worker = new_worker(at, (unsigned)atoi(argv[4]), atoll(argv[5]), 1500);
    int code = bide_worker_run(worker);
    const struct entry ran = {.what = "ran", .code = code};
    event_log_add(&ran);
    if (code != BIDE_OK)
        fprintf(stderr, "bide_worker_run(): %s\n", bide_last_error());
    bide_worker_free(worker);
    bide_close(at);
    return code == BIDE_OK ? 0 : code > 0 ? code : 96;
}
