/* SPDX-License-Identifier: MIT */
/*
 * work_report - lines, JSON and figures about what a worker does.
 */
#include "cli/print.h"
#include "cli/work/work.h"
#include "op/job_json.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An error text on one line, never cut. */
#define LINE_COLUMNS 1500
#define LINE_SIZE    (4 * LINE_COLUMNS + 400)
#define CHUNK        4096 /* what a pipe that is writable takes without blocking */

/* ---- slow readers ---- */

/* What can be written without waiting; 0: nothing; -1 with errno. */
static ssize_t write_chunk(int fd, const char *data, size_t size)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    struct pollfd reader = {.fd = fd, .events = POLLOUT};
    ssize_t written = 0;
    int error = 0;

    /* Without the lock another thread could fill the pipe between poll() and write(). */
    pthread_mutex_lock(&lock);
    if (poll(&reader, 1, 0) > 0) {
        written = write(fd, data, size < CHUNK ? size : CHUNK);
        error = errno;
    }
    pthread_mutex_unlock(&lock);

    if (written < 0 && (error == EINTR || error == EAGAIN))
        return 0;
    errno = error;
    return written;
}

/* False: there is no more time to wait. */
static bool wait_for_reader(const struct work *work, int fd, int wake_fd, int64_t until_us)
{
    struct pollfd fds[] = {{.fd = fd, .events = POLLOUT},
                           {.fd = work->stop_fd, .events = POLLIN},
                           {.fd = work->kill_fd, .events = POLLIN},
                           {.fd = wake_fd, .events = POLLIN}};
    int ready = poll(fds, 4, bi_work_supervisor_poll_ms(until_us));

    if (ready <= 0)
        return bi_clock_boot() < until_us;
    return fds[0].revents != 0 || poll(fds, 1, (int)(BI_WORK_PATIENCE_US / 1000)) > 0;
}

bool bi_work_report_write(const struct work *work, int fd, const char *data, size_t size,
                          int wake_fd, int64_t until_us)
{
    while (size > 0) {
        ssize_t written = write_chunk(fd, data, size);
        if (written < 0)
            return false;
        assert((size_t)written <= size);
        data += written;
        size -= (size_t)written;
        if (written == 0 && !wait_for_reader(work, fd, wake_fd, until_us)) {
            errno = ETIMEDOUT;
            return false;
        }
    }
    return true;
}

void bi_work_report_note(const struct work *work, const char *format, ...)
{
    char line[BI_ERRMSG_SIZE + 1];
    va_list args;

    if (work->cli->quiet)
        return;
    va_start(args, format);
    int size = vsnprintf(line, BI_ERRMSG_SIZE, format, args);
    va_end(args);
    size_t length = size < BI_ERRMSG_SIZE ? (size_t)size : BI_ERRMSG_SIZE - 1;
    line[length++] = '\n';
    bi_work_report_write(work, STDERR_FILENO, line, length, -1,
                         bi_clock_boot() + BI_WORK_PATIENCE_US);
}

/* ---- events ---- */

enum verbosity { NEVER, IF_VERBOSE, ALWAYS };

/* One row per event. */
static const struct event_report {
    enum verbosity verbosity;
    bool ends;           /* the job is no longer ours */
    bool delays;         /* the event has a delay */
    const char *text;    /* follows "job 7 (topic): " */
    const char *summary; /* follows the number in the totals; NULL: not in them */
} event_reports[BIDE_WORK_KINDS] = {
    [BIDE_WORK_STARTED] = {NEVER, false, false, "", NULL},
    [BIDE_WORK_DONE] = {IF_VERBOSE, true, false, "done", NULL},
    [BIDE_WORK_RETRIED] = {ALWAYS, true, true, "failed", "failed"},
    [BIDE_WORK_BURIED] = {ALWAYS, true, false, "buried", "buried"},
    [BIDE_WORK_SNOOZED] = {IF_VERBOSE, true, true, "postponed", "postponed"},
    [BIDE_WORK_INTERRUPTED] = {IF_VERBOSE, true, false, "given back", "given back"},
    [BIDE_WORK_CANCELLED] = {ALWAYS, true, false, "cancelled", "cancelled"},
    [BIDE_WORK_OVERRAN] = {NEVER, false, false, "", NULL},
    [BIDE_WORK_LOST] = {ALWAYS, true, false,
                        "lease lost, outcome not recorded; the job may run again", "lost"},
    [BIDE_WORK_DEFERRED] = {IF_VERBOSE, false, false, "outcome not recorded yet, retrying", NULL},
    [BIDE_WORK_GIVEN_UP] = {ALWAYS, true, false,
                            "cannot record the outcome; the job will run again", "in doubt"},
    [BIDE_WORK_UNHEALTHY] = {ALWAYS, false, false, "cannot reserve jobs", NULL},
    [BIDE_WORK_HEALTHY] = {ALWAYS, false, false, "reserving jobs again", NULL},
};

/* One write, so that lines of several threads do not mix. outcome: NULL if the job was not run. */
static void print_line(const struct work *work, const bide_work_event *event,
                       const struct event_report *report, const struct run_outcome *outcome)
{
    char line[LINE_SIZE], description[BI_WORK_OUTCOME_SIZE] = "";
    const char *text = event->text;
    int size = 0;

    if (event->id != 0)
        size = snprintf(line, 300, "job %llu (%s): ", (unsigned long long)event->id, event->topic);
    size += snprintf(line + size, 100, "%s", report->text);
    if (report->delays)
        size += snprintf(line + size, 100, ", again in %s", bi_text_duration(event->delay_ms).s);
    if (event->attempt > 1)
        size += snprintf(line + size, 40, ", attempt %u", event->attempt);

    if (event->kind == BIDE_WORK_SNOOZED && outcome != NULL && text[0] == 0) {
        bi_work_exit_rule_describe(description, outcome, work->plan->rules.http);
        text = description;
    }
    if (event->kind != BIDE_WORK_CANCELLED && text[0] != 0) {
        size += snprintf(line + size, 3, ": ");
        bi_print_excerpt(line + size, LINE_COLUMNS, text, strlen(text));
        size += (int)strlen(line + size);
    }
    assert(size < LINE_SIZE);
    line[size++] = '\n';
    bi_work_report_write(work, STDERR_FILENO, line, (size_t)size, -1, BI_WORK_NEVER);
}

/* NULL: out of memory. */
static json_t *build_json(const bide_work_event *event, const struct run_outcome *outcome)
{
    json_t *object = json_pack("{s:I, s:s, s:s, s:i, s:I}", "id", (json_int_t)event->id, "topic",
                               event->topic, "outcome", bide_work_name(event->kind), "attempt",
                               (int)event->attempt, "took_ms", (json_int_t)(event->took_us / 1000));
    bool good = object != NULL;

    if (good && outcome != NULL && outcome->kind == RUN_STATUS)
        good = json_object_set_new(object, "status", json_integer(outcome->status)) == 0;
    if (good && event_reports[event->kind].delays)
        good = json_object_set_new(object, "delay_ms", json_integer(event->delay_ms)) == 0;
    if (good && event->text[0] != 0)
        good = bi_job_json_set_bytes(object, "error", event->text, strlen(event->text));
    if (good)
        return object;
    json_decref(object);
    return NULL;
}

static void print_json(struct work *work, const bide_work_event *event,
                       const struct run_outcome *outcome)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char *line = NULL;
    size_t size = 0;
    json_t *object = build_json(event, outcome);
    FILE *stream = object == NULL ? NULL : open_memstream(&line, &size);
    bool good = stream != NULL && bi_job_json_write(stream, object);
    int error = ENOMEM;

    json_decref(object);
    if (stream != NULL && fclose(stream) != 0)
        good = false;
    if (good) {
        /* A line is longer than a chunk at times: the lock keeps the lines whole. */
        pthread_mutex_lock(&lock);
        good = bi_work_report_write(work, STDOUT_FILENO, line, size, -1, BI_WORK_NEVER);
        error = errno;
        pthread_mutex_unlock(&lock);
    }
    free(line);
    if (good || error == ETIMEDOUT)
        return;

    int exit = error == EPIPE ? BI_EXIT_PIPE : BI_EXIT_FAILED;
    if (error != EPIPE && atomic_load(&work->exit) == BI_EXIT_OK)
        bi_cli_error(work->cli, exit, "cannot write the output: %s", strerror(error));
    bi_work_handler_request_stop(work, exit);
}

void bi_work_report_event(void *user, const bide_work_event *event)
{
    struct work *work = user;
    const struct cli *cli = work->cli;
    const struct event_report *report = &event_reports[event->kind];
    struct run_outcome outcome;
    bool was_run = report->ends && bi_work_handler_take_outcome(event->id, &outcome);
    bool printed = report->verbosity == ALWAYS || (report->verbosity == IF_VERBOSE && cli->verbose);

    assert(event->kind < BIDE_WORK_KINDS);
    assert(!report->ends || event->id != 0);
    atomic_fetch_add(&work->event_counts[event->kind], 1);
    if (printed && !cli->quiet)
        print_line(work, event, report, was_run ? &outcome : NULL);
    if (report->ends && cli->json)
        print_json(work, event, was_run ? &outcome : NULL);

    if (event->kind == BIDE_WORK_STARTED)
        atomic_fetch_add(&work->open, 1);
    else if (report->ends)
        atomic_fetch_sub(&work->open, 1);
}

void bi_work_report_summary(const struct work *work)
{
    char line[400];
    uint64_t done = atomic_load(&work->event_counts[BIDE_WORK_DONE]);

    int size = snprintf(line, sizeof(line), "%s done", bi_text_jobs(done).s);
    for (size_t i = 0; i < BIDE_WORK_KINDS; i++) {
        uint64_t count = atomic_load(&work->event_counts[i]);
        if (count > 0 && event_reports[i].summary != NULL)
            size += snprintf(line + size, sizeof(line) - (size_t)size, ", %s %s",
                             bi_text_number(count).s, event_reports[i].summary);
    }
    bi_work_report_note(work, "%s", line);
}
