/* SPDX-License-Identifier: MIT */
/*
 * put_report.c - what `bide put` says: ids, refusals, and how far it came.
 */
#include "cli/interrupt.h"
#include "cli/job_json.h"
#include "cli/print.h"
#include "cli/put.h"
#include "util/clock.h"
#include "util/duration.h"

#include <errno.h>
#include <string.h>

/* ---- one job ---- */

static const char *unit_name(const struct put_run *run)
{
    return run->form == BI_PUT_NULLS ? "record" : "line";
}

static const char *source_name(const struct put_run *run, uint64_t number)
{
    const char *file = run->file;
    if (run->form == BI_PUT_WHOLE && run->file_count > 0)
        file = strcmp(run->files[number - 1], "-") == 0 ? NULL : run->files[number - 1];
    return file == NULL ? "standard input" : file;
}

/* "line 7", "letters.txt, line 7", "letter.txt"; "" for a body that is an argument. */
static void format_name(const struct put_run *run, uint64_t number, char *to, size_t size)
{
    if (run->form == BI_PUT_WHOLE)
        snprintf(to, size, "%.150s", run->file_count == 0 ? "" : source_name(run, number));
    else
        snprintf(to, size, "%.150s%s%s %llu", run->file == NULL ? "" : run->file,
                 run->file == NULL ? "" : ", ", unit_name(run), (unsigned long long)number);
}

static void count_refusal(struct put_run *run, int exit)
{
    run->refused++;
    if (run->exit == BI_EXIT_OK)
        run->exit = exit;
    run->should_stop = run->should_stop || run->stop_on_error;
}

void bi_put_report_invalid(struct put_run *run, uint64_t number, const char *error)
{
    char name[200];
    format_name(run, number, name, sizeof(name));
    bi_progress_end(&run->progress);
    count_refusal(run, bi_cli_error(run->cli, BI_EXIT_USAGE, "%s: %.400s",
                                    name[0] == 0 ? "the body" : name, error));
}

/* A body that is missing is one of several; lines that are missing may be any number. */
void bi_put_report_unreadable(struct put_run *run, uint64_t number, int error)
{
    if (bi_interrupted())
        return;
    bi_progress_end(&run->progress);
    int exit = bi_cli_error(run->cli, BI_EXIT_FAILED, "%.200s cannot be read: %s",
                            source_name(run, number),
                            error == EFBIG ? "it is more than 1 GiB" : strerror(error));
    if (run->form == BI_PUT_WHOLE) {
        count_refusal(run, exit);
    } else {
        run->exit = exit;
        run->failed = true;
    }
}

/* "ready now", "ready in 1h30m", "ready at 2026-12-25 00:00:00 CET". */
static void format_ready(const bide_put_options *options, char *to, size_t size)
{
    char when[BI_DATETIME_SIZE];
    if (options->run_at_ms > bi_clock_wall() / 1000) {
        bi_datetime_format(when, options->run_at_ms);
        snprintf(to, size, "ready at %s", when);
    } else if (options->delay_ms > 0) {
        bi_duration_format(when, options->delay_ms);
        snprintf(to, size, "ready in %s", when);
    } else {
        snprintf(to, size, "ready now");
    }
}

static void print_json(const struct put_run *run, uint64_t number, uint64_t id)
{
    json_t *object = json_pack("{s:I}", "id", (json_int_t)id);
    if (object == NULL)
        return;
    if (run->form != BI_PUT_WHOLE)
        json_object_set_new(object, unit_name(run), json_integer((json_int_t)number));
    else
        json_object_set_new(object, "topic", json_stringn(run->topic.data, run->topic.size));
    bi_cli_print_json(run->cli, object);
}

static void print_id(struct put_run *run, uint64_t number, uint64_t id)
{
    char ready[BI_DATETIME_SIZE + 16];
    if (run->wait_result) {
        run->ids[run->put_count - 1] = id;
        bi_cli_detail(run->cli, "job %llu", (unsigned long long)id);
    } else if (run->form != BI_PUT_WHOLE && !run->print_ids) {
        return;
    } else if (run->cli->json) {
        print_json(run, number, id);
    } else if (run->form == BI_PUT_WHOLE && run->cli->out_terminal) {
        format_ready(&run->options, ready, sizeof(ready));
        printf("job %llu, %s\n", (unsigned long long)id, ready);
    } else {
        printf("%llu\n", (unsigned long long)id);
    }
}

/* Which lines are in is said at the end; that something is wrong with all of them, once. */
static void report_failure(struct put_run *run, const struct put_result *result, const char *name)
{
    bi_line_status_add(&run->line_status, result->number,
                       result->code == BIDE_EUNKNOWN ? BI_LINE_UNKNOWN : BI_LINE_NOT_STORED);
    if (run->failed)
        return;
    run->failed = true;
    run->exit = bi_cli_report(run->cli, name[0] == 0 ? NULL : name, result->code, result->error);
}

static void report_refusal(struct put_run *run, const struct put_result *result, const char *name)
{
    char error[100];
    const char *text = result->error;
    if (result->code == BIDE_EXISTS && text[0] == 0) {
        snprintf(error, sizeof(error), "the key is held by job %llu",
                 (unsigned long long)result->id);
        text = error;
    }
    bi_line_status_add(&run->line_status, result->number, BI_LINE_DONE);
    /* Cron would mail every line: that the last one is not done yet is in the exit code. */
    if (result->code == BIDE_EXISTS && run->cli->quiet) {
        count_refusal(run, bi_cli_exit_code(result->code));
        return;
    }
    /* Lines that have no options of their own fare all alike. */
    run->should_stop =
        run->should_stop || (result->code == BIDE_ENOTSUP && run->form != BI_PUT_JSON);
    count_refusal(run, bi_cli_report(run->cli, name[0] == 0 ? NULL : name, result->code, text));
}

void bi_put_report_result(void *user, const struct put_result *result)
{
    struct put_run *run = user;
    char name[200];
    if (result->code == BIDE_OK) {
        run->put_count++;
        bi_line_status_add(&run->line_status, result->number, BI_LINE_DONE);
        print_id(run, result->number, result->id);
        if (run->put_count % 256 == 0)
            bi_progress_set(&run->progress, run->put_count);
        return;
    }
    bi_progress_end(&run->progress);
    format_name(run, result->number, name, sizeof(name));
    if (bi_bulk_put_is_stopped(run->bulk_put))
        report_failure(run, result, name);
    else
        report_refusal(run, result, name);
}

/* ---- how far it came ---- */

/* How the rest can be put: for lines there is a program that skips some. */
static void print_resume_hint(const struct put_run *run)
{
    unsigned long long first = run->line_status.last_done + 1;
    if (!bi_line_status_can_resume(&run->line_status))
        bi_cli_note(run->cli, "Look what is in (\"bide list\") before you put the rest.");
    else if (run->form == BI_PUT_NULLS)
        bi_cli_note(run->cli, "Go on with record %llu.", first);
    else if (first > 1)
        bi_cli_note(run->cli, "Go on with: tail -n +%llu%s%s | bide put ...", first,
                    run->file == NULL ? "" : " ", run->file == NULL ? "" : run->file);
}

/* Where it ended is said with --quiet, too; but not if nobody reads what is put out. */
static void print_position(const struct put_run *run, const char *error)
{
    if (bi_interrupted())
        bi_cli_error(run->cli, bi_interrupt_exit(), "interrupted; %s", error);
    else if (ferror(stdout))
        bi_cli_note(run->cli, "%s", error);
    else
        bi_cli_error(run->cli, run->exit, "%s", error);
}

void bi_put_report_position(struct put_run *run)
{
    char rest[400] = "", last_done[32], error[BI_ERRMSG_SIZE];
    const struct line_status *line_status = &run->line_status;
    const char *source = source_name(run, 0);
    bi_progress_end(&run->progress);
    if (!bi_put_input_should_stop(run) && !run->failed)
        return;
    if (!bi_line_status_can_resume(line_status))
        bi_line_status_format(line_status, unit_name(run), rest, sizeof(rest));
    bi_print_number(last_done, line_status->last_done);
    if (line_status->last_done > 0)
        bi_errmsg_set(error, "all up to %s %s of %.100s is done%s%s", unit_name(run), last_done,
                      source, rest[0] == 0 ? "" : "; ", rest);
    else
        bi_errmsg_set(error, "nothing of %.100s is %sin%s%s", source,
                      rest[0] == 0 ? "" : "certain to be ", rest[0] == 0 ? "" : "; ", rest);
    print_position(run, error);
    print_resume_hint(run);
}

static void print_count(const struct put_run *run)
{
    char put_count[32], refused[64] = "", number[32];
    double seconds = (double)(bi_clock_boot() - run->started_us) / 1e6;
    bi_print_number(put_count, run->put_count);
    bi_print_number(number, run->refused);
    if (run->refused > 0)
        snprintf(refused, sizeof(refused), ", %s refused", number);
    bi_cli_note(run->cli, "%s job%s put in %.1f s%s", put_count, run->put_count == 1 ? "" : "s",
                seconds, refused);
}

static int summary_exit(const struct put_run *run)
{
    if (bi_interrupted())
        return bi_interrupt_exit();
    if (ferror(stdout))
        return bi_cli_flush(run->cli);
    if (run->failed || run->put_count + run->refused <= 1)
        return run->exit;
    return run->refused > 0 ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}

int bi_put_report_summary(struct put_run *run)
{
    if (run->form != BI_PUT_WHOLE && run->cli->json && !run->print_ids)
        bi_cli_print_json(run->cli, json_pack("{s:I, s:I, s:I}", "put", (json_int_t)run->put_count,
                                              "refused", (json_int_t)run->refused, "up_to",
                                              (json_int_t)run->line_status.last_done));
    if (run->form != BI_PUT_WHOLE)
        print_count(run);
    else if (bi_interrupted())
        bi_cli_note(run->cli, run->put_count == 0 ? "Interrupted; nothing was put."
                                                  : "Interrupted; some were put.");
    return summary_exit(run);
}

/* ---- all of it ---- */

int bi_put_run(struct put_run *run)
{
    run->started_us = bi_clock_boot();
    int exit = bi_bulk_put_new(&run->bulk_put, run->cli, run->topic, &run->options,
                               bi_put_report_result, run);
    if (exit != BI_EXIT_OK)
        return exit;
    bi_progress_begin(&run->progress, run->cli, "putting", 0);
    bi_put_input_read(run);
    bi_progress_end(&run->progress);
    exit = bi_put_report_summary(run);
    bi_bulk_put_free(run->bulk_put);
    return exit;
}
