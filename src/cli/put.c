/* SPDX-License-Identifier: MIT */
/*
 * put - one run of `bide put`.
 *
 * Records are put in full batches while there is more to read. When the input pauses, the open batch
 * is sent as soon as none is in flight: a line of a slow producer is put at once, and a fast
 * producer is not slowed down by small batches.
 */
#include "cli/put.h"

#include "cli/interrupt.h"
#include "cli/print.h"
#include "op/job_json.h"
#include "util/clock.h"
#include "util/datetime.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

/* Interrupted, or no put can succeed, or the reader of the output has gone. */
static bool is_cut_short(const struct put_run *run)
{
    return bi_interrupted() || bi_bulk_put_is_stopped(run->bulk_put) || ferror(stdout);
}

static bool must_stop(const struct put_run *run)
{
    return is_cut_short(run) || run->should_stop;
}

/* ---- reporting one put ---- */

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

/* A record that is no valid put. */
static void report_invalid(struct put_run *run, uint64_t number, const char *error)
{
    char name[200];

    format_name(run, number, name, sizeof(name));
    bi_progress_end(&run->progress);
    count_refusal(run, bi_cli_error(run->cli, BI_EXIT_USAGE, "%s: %.400s",
                                    name[0] == 0 ? "the body" : name, error));
}

/* Of whole files one put is missing; of a file of records any number. */
static void report_unreadable(struct put_run *run, uint64_t number, int error)
{
    if (bi_interrupted())
        return;
    bi_progress_end(&run->progress);
    int exit =
        bi_cli_error(run->cli, BI_EXIT_FAILED, "cannot read %.200s: %s", source_name(run, number),
                     error == EFBIG ? "larger than 1 GiB" : strerror(error));
    if (run->form == BI_PUT_WHOLE) {
        count_refusal(run, exit);
    } else {
        run->exit = exit;
        run->failed = true;
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

/* "job 7, ready now", "job 7, ready in 1h30m", "job 7, ready at 2026-12-25 00:00:00 CET". */
static void print_ready(const struct put_run *run, uint64_t id)
{
    const bide_put_options *options = &run->options;
    char when[BI_DATETIME_SIZE] = "now";
    const char *preposition = "";

    if (options->run_at_ms > bi_clock_wall() / 1000) {
        bi_datetime_format(when, &bi_calendar_local, options->run_at_ms);
        preposition = "at ";
    } else if (options->delay_ms > 0) {
        bi_duration_format(when, options->delay_ms);
        preposition = "in ";
    }
    printf("job %llu, ready %s%s\n", (unsigned long long)id, preposition, when);
}

static void report_success(struct put_run *run, uint64_t number, uint64_t id)
{
    run->put_count++;
    bi_input_add_outcome(&run->line_status, number, BI_LINE_DONE);
    if (run->ids != NULL) {
        run->ids[run->put_count - 1] = id;
        bi_cli_detail(run->cli, "job %llu", (unsigned long long)id);
    } else if (run->form == BI_PUT_WHOLE || run->print_ids) {
        if (run->cli->json)
            print_json(run, number, id);
        else if (run->form == BI_PUT_WHOLE && run->cli->out_terminal)
            print_ready(run, id);
        else
            printf("%llu\n", (unsigned long long)id);
    }
    if (run->put_count % 256 == 0)
        bi_progress_set(&run->progress, run->put_count);
}

/* A failure that concerns all puts: reported once; which lines are stored is reported at the end. */
static void report_failure(struct put_run *run, const struct put_result *result, const char *name)
{
    bi_input_add_outcome(&run->line_status, result->number,
                         result->code == BIDE_EUNKNOWN ? BI_LINE_UNKNOWN : BI_LINE_NOT_STORED);
    if (run->failed)
        return;
    run->failed = true;
    run->exit = bi_cli_report(run->cli, name, result->code, result->error);
}

static void report_refusal(struct put_run *run, const struct put_result *result, const char *name)
{
    char error[100];
    const char *text = result->error;

    bi_input_add_outcome(&run->line_status, result->number, BI_LINE_DONE);
    /* cron mails every line; that the job exists already is in the exit code. */
    if (result->code == BIDE_EXISTS && run->cli->quiet) {
        count_refusal(run, bi_cli_exit_code(result->code));
        return;
    }
    if (result->code == BIDE_EXISTS && text[0] == 0) {
        snprintf(error, sizeof(error), "the key is held by job %llu",
                 (unsigned long long)result->id);
        text = error;
    }
    /* Lines without options of their own would all be refused for the same reason. */
    run->should_stop =
        run->should_stop || (result->code == BIDE_ENOTSUP && run->form != BI_PUT_JSON);
    count_refusal(run, bi_cli_report(run->cli, name, result->code, text));
}

static void on_result(void *user, const struct put_result *result)
{
    struct put_run *run = user;
    char name[200];

    if (result->code == BIDE_OK) {
        report_success(run, result->number, result->id);
        return;
    }
    bi_progress_end(&run->progress);
    format_name(run, result->number, name, sizeof(name));
    if (bi_bulk_put_is_stopped(run->bulk_put))
        report_failure(run, result, name[0] == 0 ? NULL : name);
    else
        report_refusal(run, result, name[0] == 0 ? NULL : name);
}

/* ---- reporting how far it came ---- */

static void print_resume_hint(const struct put_run *run)
{
    unsigned long long first = run->line_status.last_done + 1;

    if (!bi_input_can_resume(&run->line_status))
        bi_cli_note(run->cli,
                    "Check which jobs are stored (\"bide list\") before you put the rest.");
    else if (run->form == BI_PUT_NULLS)
        bi_cli_note(run->cli, "Continue with record %llu.", first);
    else if (first > 1)
        bi_cli_note(run->cli, "Continue with: tail -n +%llu%s%s | bide put ...", first,
                    run->file == NULL ? "" : " ", run->file == NULL ? "" : run->file);
}

/* At the end of a file of records, if it was not read to its end. */
static void report_position(struct put_run *run)
{
    const struct line_status *status = &run->line_status;
    char rest[400] = "", last_done[32], text[BI_ERRMSG_SIZE];
    const char *source = source_name(run, 0);

    bi_progress_end(&run->progress);
    if (!must_stop(run) && !run->failed)
        return;

    if (!bi_input_can_resume(status))
        bi_input_format_outcomes(status, unit_name(run), rest, sizeof(rest));
    const char *separator = rest[0] == 0 ? "" : "; ";
    bi_print_number(last_done, status->last_done);
    if (status->last_done > 0)
        bi_errmsg_set(text, "all up to %s %s of %.100s is done%s%s", unit_name(run), last_done,
                      source, separator, rest);
    else
        bi_errmsg_set(text, "nothing of %.100s is %sstored%s%s", source,
                      rest[0] == 0 ? "" : "certain to be ", separator, rest);

    /* Printed with --quiet, too, unless the reader of the output has gone. */
    if (bi_interrupted())
        bi_cli_error(run->cli, bi_interrupt_exit(), "interrupted; %s", text);
    else if (ferror(stdout))
        bi_cli_note(run->cli, "%s", text);
    else
        bi_cli_error(run->cli, run->exit, "%s", text);
    print_resume_hint(run);
}

static void print_totals(const struct put_run *run)
{
    char put_count[32], refused[32];
    double seconds = (double)(bi_clock_boot() - run->started_us) / 1e6;

    if (run->cli->json && !run->print_ids)
        bi_cli_print_json(run->cli, json_pack("{s:I, s:I, s:I}", "put", (json_int_t)run->put_count,
                                              "refused", (json_int_t)run->refused, "up_to",
                                              (json_int_t)run->line_status.last_done));
    bi_print_number(put_count, run->put_count);
    bi_print_number(refused, run->refused);
    bi_cli_note(run->cli, "%s job%s put in %.1f s%s%s%s", put_count, run->put_count == 1 ? "" : "s",
                seconds, run->refused == 0 ? "" : ", ", run->refused == 0 ? "" : refused,
                run->refused == 0 ? "" : " refused");
}

static int exit_code(const struct put_run *run)
{
    if (bi_interrupted())
        return bi_interrupt_exit();
    if (ferror(stdout))
        return bi_cli_flush(run->cli);
    /* Lines are always several, also if there is one only: a script sees one exit code for lines
     * that were refused. */
    bool single = run->form == BI_PUT_WHOLE && run->put_count + run->refused <= 1;
    if (run->failed || single)
        return run->exit;
    return run->refused > 0 ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}

/* ---- reading records ---- */

/* Takes the reference to the body; NULL: there was no memory for it. */
static void add_body(struct put_run *run, uint64_t number, bide_buf *body)
{
    if (body == NULL)
        report_invalid(run, number, bide_code_text(BIDE_ENOMEM));
    else
        bi_bulk_put_add(run->bulk_put, number, body);
}

static void add_json(struct put_run *run, uint64_t number, bide_slice text)
{
    struct put_json line;
    char error[BI_ERRMSG_SIZE];

    if (!bi_put_json_parse(text, &run->options, bi_clock_wall() / 1000, &line, error)) {
        report_invalid(run, number, error);
    } else if (line.topic_size == 0 && run->topic.size == 0) {
        bide_buf_unref(line.body);
        report_invalid(run, number, "\"topic\" is missing, and no TOPIC was given");
    } else {
        bi_bulk_put_add_json(run->bulk_put, number, &line);
    }
}

static bool is_blank(bide_slice record)
{
    const char *text = record.data;

    for (size_t i = 0; i < record.size; i++)
        if (text[i] != ' ' && text[i] != '\t' && text[i] != '\r')
            return false;
    return true;
}

static void add_record(struct put_run *run, uint64_t number, bide_slice record)
{
    if (run->form == BI_PUT_JSON) {
        if (!is_blank(record))
            add_json(run, number, record);
    } else if (record.size > 0 || !run->skip_empty) {
        add_body(run, number, bide_buf_new(record.data, record.size));
    }
}

/* Until there is input, or a reason to stop. */
static void wait_for_input(struct put_run *run, const struct input *input)
{
    while (!must_stop(run)) {
        bool in_flight = bi_bulk_put_in_flight(run->bulk_put);
        if (!in_flight && bi_bulk_put_buffered(run->bulk_put) > 0) {
            bi_bulk_put_flush(run->bulk_put);
            continue;
        }

        fflush(stdout);
        struct pollfd fds[] = {
            {.fd = input->fd, .events = POLLIN},
            {.fd = bi_interrupt_fd(), .events = POLLIN},
            {.fd = in_flight ? bi_bulk_put_fd(run->bulk_put) : -1, .events = POLLIN},
        };
        if (poll(fds, 3, -1) < 0 && errno != EINTR)
            return;
        if (fds[2].revents != 0)
            bi_bulk_put_poll(run->bulk_put);
        if (fds[0].revents != 0)
            return;
    }
}

/* False: there is nothing to continue with. */
static bool read_more(struct put_run *run, struct input *input)
{
    if (!bi_input_is_ready(input))
        wait_for_input(run, input);
    if (must_stop(run))
        return false;
    if (bi_input_fill(input) || errno == EINTR || errno == EAGAIN)
        return true;
    report_unreadable(run, 0, errno);
    return false;
}

static void read_records(struct put_run *run, int fd)
{
    struct input input;
    bide_slice record;
    bool more = true;

    bi_input_init(&input, fd, run->form == BI_PUT_NULLS ? '\0' : '\n', BI_INPUT_RECORD_MAX);
    while (more && !must_stop(run)) {
        enum bi_input_status found = bi_input_next(&input, &record);
        if (found == BI_INPUT_RECORD)
            add_record(run, input.number, record);
        else if (found == BI_INPUT_TOO_LONG)
            report_invalid(run, input.number, "longer than 64 MiB; put it as a --file of its own");
        else
            more = found == BI_INPUT_NEED_MORE && read_more(run, &input);
    }

    /* Records before a refused one (--stop-on-error) are put; records that were read but not sent
     * when the run was cut short are not. */
    if (is_cut_short(run))
        bi_bulk_put_discard(run->bulk_put);
    else
        bi_bulk_put_drain(run->bulk_put);
    bi_input_done(&input);
}

/* ---- reading files ---- */

static void read_fd(struct put_run *run, int fd, uint64_t number)
{
    bide_buf *body;

    if (isatty(fd))
        bi_cli_note(run->cli, "Reading from the terminal; end with Ctrl-D on a line of its own.");
    if (run->form != BI_PUT_WHOLE)
        read_records(run, fd);
    else if (bi_input_read_all(fd, &body))
        bi_bulk_put_add(run->bulk_put, number, body);
    else
        report_unreadable(run, number, errno);
}

static void read_file(struct put_run *run, const char *name, uint64_t number)
{
    bool is_stdin = strcmp(name, "-") == 0;
    int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);

    run->file = is_stdin ? NULL : name;
    run->line_status = (struct line_status){.last_done = 0};
    if (fd < 0)
        report_unreadable(run, number, errno);
    else
        read_fd(run, fd, number);
    if (fd >= 0 && !is_stdin)
        close(fd);
    if (run->form != BI_PUT_WHOLE)
        report_position(run);
}

int bi_put_run(struct put_run *run)
{
    int exit = bi_bulk_put_new(&run->bulk_put, run->cli, run->topic, &run->options, on_result, run);

    if (exit != BI_EXIT_OK)
        return exit;
    assert((run->body != NULL) == (run->file_count == 0));
    run->started_us = bi_clock_boot();
    bi_progress_begin(&run->progress, run->cli, "putting", 0);

    if (run->body != NULL)
        add_body(run, 1, bide_buf_new(run->body, strlen(run->body)));
    for (size_t i = 0; i < run->file_count && !must_stop(run); i++)
        read_file(run, run->files[i], i + 1);
    if (run->form == BI_PUT_WHOLE && bi_interrupted())
        bi_bulk_put_discard(run->bulk_put);
    else if (run->form == BI_PUT_WHOLE)
        bi_bulk_put_drain(run->bulk_put);

    bi_progress_end(&run->progress);
    if (run->form != BI_PUT_WHOLE)
        print_totals(run);
    else if (bi_interrupted())
        bi_cli_note(run->cli, "Interrupted; %s put.",
                    run->put_count == 0 ? "nothing was" : "some were");
    exit = exit_code(run);
    bi_bulk_put_free(run->bulk_put);
    return exit;
}
