/* SPDX-License-Identifier: MIT */
/*
 * work_report - lines, JSON and figures about what a worker does.
 */
#include "cli/job_json.h"
#include "cli/print.h"
#include "cli/work/work_writer.h"
#include "util/duration.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* An error text in one line; none is cut. */
#define LINE_COLUMNS 1500
#define LINE_SIZE    (4 * LINE_COLUMNS + 400)

enum verbosity { NEVER, IF_VERBOSE, ALWAYS };

/* What is said of an event. The subject is the job, but where it has none. */
static const struct event_report {
    enum verbosity verbosity;
    bool ends;   /* the job is no longer ours */
    bool delays; /* says when it comes again */
    const char *text;
} event_reports[BIDE_WORK_KINDS] = {
    [BIDE_WORK_STARTED] = {NEVER, false, false, ""},
    [BIDE_WORK_DONE] = {IF_VERBOSE, true, false, "done"},
    [BIDE_WORK_RETRIED] = {ALWAYS, true, true, "failed"},
    [BIDE_WORK_BURIED] = {ALWAYS, true, false, "buried"},
    [BIDE_WORK_SNOOZED] = {IF_VERBOSE, true, true, "put off"},
    [BIDE_WORK_INTERRUPTED] = {IF_VERBOSE, true, false, "given back"},
    [BIDE_WORK_CANCELLED] = {ALWAYS, true, false, "cancelled"},
    [BIDE_WORK_OVERRAN] = {NEVER, false, false, ""},
    [BIDE_WORK_LOST] = {ALWAYS, true, false,
                        "its lease was lost, so what came of it was not recorded; it may be done "
                        "again"},
    [BIDE_WORK_DEFERRED] = {IF_VERBOSE, false, false, "the queue could not be told yet"},
    [BIDE_WORK_GIVEN_UP] = {ALWAYS, true, false,
                            "the queue could not be told what came of it; it will be done again"},
    [BIDE_WORK_UNHEALTHY] = {ALWAYS, false, false, "no jobs can be had"},
    [BIDE_WORK_HEALTHY] = {ALWAYS, false, false, "jobs can be had again"},
};

/* ---- lines ---- */

static bool is_reported(const struct cli *cli, enum verbosity verbosity)
{
    return !cli->quiet && (verbosity == ALWAYS || (verbosity == IF_VERBOSE && cli->verbose));
}

static size_t append_subject(char *line, const bide_work_event *event)
{
    if (event->id == 0)
        return 0;
    int size = snprintf(line, 300, "job %llu (%s): ", (unsigned long long)event->id, event->topic);
    return (size_t)size;
}

static size_t append_text(char *line, const char *text)
{
    if (text[0] == 0)
        return 0;
    int size = snprintf(line, 3, ": ");
    bi_print_excerpt(line + size, LINE_COLUMNS, text, strlen(text));
    return strlen(line);
}

/* One write, so that lines of several threads do not mix. fate: NULL if it was not run. */
static void print_line(const struct work *work, const bide_work_event *event,
                       const struct event_report *event_report, const struct run_outcome *outcome)
{
    char line[LINE_SIZE], duration[BI_DATETIME_SIZE], description[BI_WORK_OUTCOME_SIZE] = "";
    size_t size = append_subject(line, event);
    size += (size_t)snprintf(line + size, 100, "%s", event_report->text);
    if (event_report->delays) {
        bi_duration_format(duration, event->delay_ms);
        size += (size_t)snprintf(line + size, 100, ", again in %s", duration);
    }
    if (event->attempt > 1)
        size += (size_t)snprintf(line + size, 40, ", attempt %u", event->attempt);
    if (event->kind == BIDE_WORK_SNOOZED && outcome != NULL)
        bi_work_exit_rule_describe(description, outcome, work->plan->rules.http);
    if (event->kind != BIDE_WORK_CANCELLED)
        size += append_text(line + size, event->text[0] != 0 ? event->text : description);
    line[size++] = '\n';
    bi_work_writer_write(work, STDERR_FILENO, line, size, -1, INT64_MAX);
}

/* ---- JSON ---- */

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

/* One line of JSON; NULL when there is not enough memory. */
static char *format_json(const bide_work_event *event, const struct run_outcome *outcome)
{
    char *line = NULL;
    size_t size = 0;
    json_t *record = build_json(event, outcome);
    FILE *to = record == NULL ? NULL : open_memstream(&line, &size);
    bool good = to != NULL && bi_job_json_write(to, record);
    json_decref(record);
    if (to != NULL && fclose(to) == 0 && good)
        return line;
    free(line);
    return NULL;
}

/* Said once. */
static void stop_on_write_error(struct work *work, int error)
{
    int exit = error == EPIPE ? BI_EXIT_PIPE : BI_EXIT_FAILED;
    if (error != EPIPE && atomic_load(&work->exit) == BI_EXIT_OK)
        bi_cli_error(work->cli, exit, "cannot write the output: %s", strerror(error));
    bi_work_handler_request_stop(work, exit);
}

static void print_json(struct work *work, const bide_work_event *event,
                       const struct run_outcome *outcome)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
    char *line = format_json(event, outcome);
    pthread_mutex_lock(&lock);
    bool good = line != NULL &&
                bi_work_writer_write(work, STDOUT_FILENO, line, strlen(line), -1, INT64_MAX);
    int error = line == NULL ? ENOMEM : errno;
    pthread_mutex_unlock(&lock);
    free(line);
    if (!good && error != ETIMEDOUT)
        stop_on_write_error(work, error);
}

void bi_work_report_event(void *user, const bide_work_event *event)
{
    struct work *work = user;
    const struct event_report *event_report = &event_reports[event->kind];
    struct run_outcome outcome;
    bool was_run = event_report->ends && bi_work_handler_take_outcome(event->id, &outcome);
    atomic_fetch_add(&work->event_counts[event->kind], 1);
    if (is_reported(work->cli, event_report->verbosity))
        print_line(work, event, event_report, was_run ? &outcome : NULL);
    if (event_report->ends && work->cli->json)
        print_json(work, event, was_run ? &outcome : NULL);
    if (event->kind == BIDE_WORK_STARTED)
        atomic_fetch_add(&work->open, 1);
    else if (event_report->ends)
        atomic_fetch_sub(&work->open, 1);
}

/* ---- figures ---- */

void bi_work_report_summary(const struct work *work)
{
    static const struct {
        bide_work_kind kind;
        const char *text;
    } parts[] = {
        {BIDE_WORK_RETRIED, "failed"},      {BIDE_WORK_BURIED, "buried"},
        {BIDE_WORK_SNOOZED, "put off"},     {BIDE_WORK_INTERRUPTED, "given back"},
        {BIDE_WORK_CANCELLED, "cancelled"}, {BIDE_WORK_LOST, "lost"},
        {BIDE_WORK_GIVEN_UP, "in doubt"},
    };
    char line[400], number[32];
    uint64_t done = atomic_load(&work->event_counts[BIDE_WORK_DONE]);
    bi_print_number(number, done);
    int size = snprintf(line, sizeof(line), "%s job%s done", number, done == 1 ? "" : "s");
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++) {
        uint64_t count = atomic_load(&work->event_counts[parts[i].kind]);
        bi_print_number(number, count);
        if (count > 0)
            size += snprintf(line + size, sizeof(line) - (size_t)size, ", %s %s", number,
                             parts[i].text);
    }
    bi_work_writer_note(work, "%s", line);
}
