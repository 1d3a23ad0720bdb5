/* SPDX-License-Identifier: MIT */
/*
 * put - one run of `bide put`.
 *
 * An op puts a batch of jobs. The last op of the pipeline is not handed to the queue before its
 * batch is full, or the input pauses while no op is in flight.
 */
#include "cli/put.h"

#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Interrupted, or no put can succeed, or the reader of the output has gone. */
static bool is_cut_short(const struct put_run *run)
{
    return bi_interrupted() || run->failed || ferror(stdout);
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
    assert(number > 0);
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
        run->unreadable++;
        run->should_stop = run->should_stop || run->stop_on_error;
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
    bool at = options->run_at_ms > bi_clock_wall() / 1000, in = !at && options->delay_ms > 0;
    struct text when = at   ? bi_text_moment(options->run_at_ms)
                       : in ? bi_text_duration(options->delay_ms)
                            : (struct text){"now"};

    printf("job %llu, ready %s%s\n", (unsigned long long)id, at ? "at " : in ? "in " : "", when.s);
}

static void report_success(struct put_run *run, uint64_t number, uint64_t id)
{
    assert(number > 0);
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

/* A failure that concerns all puts: reported once; which lines are stored is reported at the
 * end. */
static void report_failure(struct put_run *run, uint64_t number, int code, const char *error)
{
    char name[200];

    bi_input_add_outcome(&run->line_status, number,
                         code == BIDE_EUNKNOWN ? BI_LINE_UNKNOWN : BI_LINE_NOT_STORED);
    if (code == BIDE_PENDING || run->failed)
        return;
    run->failed = true;
    format_name(run, number, name, sizeof(name));
    run->exit = bi_cli_report(run->cli, name, code, error);
}

static void report_refusal(struct put_run *run, uint64_t number, const bide_put_item *item,
                           const char *error)
{
    int code = item->status;
    char name[200], held[BIDE_TOPIC_MAX + 60];

    bi_input_add_outcome(&run->line_status, number, BI_LINE_DONE);
    /* Lines without options of their own would all be refused for the same reason. */
    run->should_stop = run->should_stop || (code == BIDE_ENOTSUP && run->form != BI_PUT_JSON);
    /* cron mails every line; that the job exists already is in the exit code. */
    if (code == BIDE_EXISTS && run->cli->quiet) {
        count_refusal(run, bi_cli_exit_code(code));
        return;
    }

    if (code == BIDE_EXISTS && error[0] == 0) {
        snprintf(held, sizeof(held), "job %llu of topic %.*s holds this key",
                 (unsigned long long)item->id, (int)item->topic.size,
                 (const char *)item->topic.data);
        error = held;
    }
    format_name(run, number, name, sizeof(name));
    count_refusal(run, bi_cli_report(run->cli, name, code, error));
}

/* Whether an item was rejected by the same full topic. */
static bool is_same_limit(const bide_put_item *a, const bide_put_item *b)
{
    return a->status == BIDE_TOPIC_FULL && b->status == BIDE_TOPIC_FULL &&
           a->topic.size == b->topic.size &&
           memcmp(a->topic.data, b->topic.data, a->topic.size) == 0;
}

/* The op has the error text of the first item that was rejected, or of the whole batch. */
static void report_item(struct put_run *run, const bide_op *op, size_t index, uint64_t number)
{
    const bide_put_item *items = op->put_many.items, *item = &items[index];
    int code = item->status != BIDE_OK ? item->status : op->status;
    bool described = op->status != BIDE_OK || op->error_item == index + 1 ||
                     (op->error_item > 0 && is_same_limit(&items[op->error_item - 1], item));
    const char *error = described ? op->error : "";

    assert(index < op->put_many.count);
    if (code == BIDE_OK) {
        report_success(run, number, item->id);
        return;
    }
    bi_progress_end(&run->progress);
    /* After a failure of all puts, a refused line is put again by the rest that the user continues
     * with, and is reported then. */
    if (code == BIDE_PENDING || run->failed || bi_cli_is_fatal(code))
        report_failure(run, number, code, error);
    else
        report_refusal(run, number, item, error);
}

/* ---- batches ---- */

struct batch {
    size_t count, bytes;
    bide_put_item items[BIDE_BATCH_JOBS];
    struct put_json *lines[BIDE_BATCH_JOBS]; /* with the arguments of the items; NULL: no JSON */
    uint64_t numbers[BIDE_BATCH_JOBS];
};

static void on_done(void *user, struct op_slot *slot)
{
    struct batch *batch = slot->extra;

    for (size_t i = 0; i < batch->count; i++) {
        report_item(user, &slot->op, i, batch->numbers[i]);
        bide_buf_unref(batch->items[i].buf);
        free(batch->lines[i]);
    }
    free(batch);
}

/* Returns a batch with room for a body; NULL: out of memory. */
static struct batch *get_batch(struct put_run *run, size_t size)
{
    struct op_slot *slot = bi_ordered_pipeline_last_unsent(run->pipeline);
    struct batch *batch = slot == NULL ? NULL : slot->extra;

    if (batch != NULL && batch->count < BIDE_BATCH_JOBS && batch->bytes + size <= BIDE_BATCH_BYTES)
        return batch;
    bi_ordered_pipeline_flush(run->pipeline);
    batch = calloc(1, sizeof(*batch));
    if (batch == NULL)
        return NULL;

    /* At most three other batches are in flight: more do not make it faster. The size of this one
     * is not known yet, so each counts as a quarter, although it may grow to BIDE_BATCH_BYTES. */
    size_t share = BI_ORDERED_PIPELINE_BYTES / 4;
    slot = bi_ordered_pipeline_get_slot(run->pipeline, size > share ? size : share);
    slot->extra = batch;
    slot->op.kind = BIDE_OP_PUT_MANY;
    slot->op.put_many.items = batch->items;
    bi_ordered_pipeline_submit(run->pipeline);
    return batch;
}

/* Takes the body and the arguments of a line; NULL: the arguments are those of the command. */
static void add_put(struct put_run *run, uint64_t number, bide_buf *body, struct put_json *line)
{
    size_t size = bide_buf_size(body);
    struct batch *batch = body == NULL ? NULL : get_batch(run, size);

    if (batch == NULL) {
        report_invalid(run, number, bide_code_text(BIDE_ENOMEM));
        bide_buf_unref(body);
        free(line);
        return;
    }
    bide_put_item *item = &batch->items[batch->count];
    *item = (bide_put_item){.topic = run->topic, .buf = body, .options = &run->options};
    if (line != NULL)
        item->options = &line->options;
    if (line != NULL && line->topic_size > 0)
        item->topic = (bide_slice){line->topic, line->topic_size};
    batch->lines[batch->count] = line;
    batch->numbers[batch->count++] = number;
    batch->bytes += size;
    bi_ordered_pipeline_last_unsent(run->pipeline)->op.put_many.count = batch->count;
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

/* At the end of a file of records: says how far it came if it was not read to its end. */
static void report_position(struct put_run *run, bool unreadable)
{
    const struct line_status *status = &run->line_status;
    char rest[400] = "", text[BI_ERRMSG_SIZE];
    const char *source = source_name(run, 0);

    bi_progress_end(&run->progress);
    if (!must_stop(run) && !unreadable)
        return;

    if (!bi_input_can_resume(status))
        bi_input_format_outcomes(status, unit_name(run), rest, sizeof(rest));
    const char *separator = rest[0] == 0 ? "" : "; ";
    if (status->last_done > 0)
        bi_errmsg_set(text, "all up to %s %s of %.100s is done%s%s", unit_name(run),
                      bi_text_number(status->last_done).s, source, separator, rest);
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
    double seconds = (double)(bi_clock_boot() - run->started_us) / 1e6;

    if (run->cli->json && !run->print_ids)
        bi_cli_print_json(run->cli, json_pack("{s:I, s:I, s:I}", "put", (json_int_t)run->put_count,
                                              "refused", (json_int_t)run->refused, "up_to",
                                              (json_int_t)run->line_status.last_done));
    bi_cli_note(run->cli, "%s put in %.1f s%s%s%s", bi_text_jobs(run->put_count).s, seconds,
                run->refused == 0 ? "" : ", ",
                run->refused == 0 ? "" : bi_text_number(run->refused).s,
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
    if (run->failed || run->unreadable > 0 || single)
        return run->exit;
    return run->refused > 0 ? BI_EXIT_PARTIAL : BI_EXIT_OK;
}

/* ---- reading records ---- */

static void add_json(struct put_run *run, uint64_t number, bide_slice text)
{
    struct put_json *json = malloc(sizeof(*json));
    char error[BI_ERRMSG_SIZE];
    bool good = json != NULL
                    ? bi_put_json_parse(text, &run->options, bi_clock_wall() / 1000, json, error)
                    : bi_errmsg_set(error, "%s", bide_code_text(BIDE_ENOMEM));
    assert(json != NULL || !good);

    if (good && json->topic_size == 0 && run->topic.size == 0) {
        bide_buf_unref(json->body);
        good = bi_errmsg_set(error, "\"topic\" is missing, and no TOPIC was given");
    }
    if (good) {
        add_put(run, number, json->body, json);
        return;
    }
    report_invalid(run, number, error);
    free(json);
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
        add_put(run, number, bide_buf_new(record.data, record.size), NULL);
    }
}

static void read_records(struct put_run *run, int fd)
{
    enum bi_input_status status = BI_INPUT_NEED_MORE;
    struct input input;
    bide_slice record;

    bi_input_init(&input, fd, run->form == BI_PUT_NULLS ? '\0' : '\n', BI_INPUT_RECORD_MAX);
    while (status != BI_INPUT_EOF && status != BI_INPUT_FAILED && !must_stop(run)) {
        status = bi_input_read(&input, run->pipeline, &record);
        if (status == BI_INPUT_RECORD)
            add_record(run, input.number, record);
        else if (status == BI_INPUT_TOO_LONG)
            report_invalid(run, input.number, "longer than 64 MiB; put it as a --file of its own");
        else if (status == BI_INPUT_FAILED)
            report_unreadable(run, 0, errno);
    }
    bi_input_done(&input);
}

/* Records before a refused one (--stop-on-error) are put; those that were read but not submitted
 * when the run was cut short are not. */
static void complete_puts(struct put_run *run)
{
    if (is_cut_short(run))
        bi_ordered_pipeline_discard(run->pipeline);
    else
        bi_ordered_pipeline_drain(run->pipeline);
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
        add_put(run, number, body, NULL);
    else
        report_unreadable(run, number, errno);
}

static void read_file(struct put_run *run, const char *name, uint64_t number)
{
    bool is_stdin = strcmp(name, "-") == 0;
    size_t unreadable_before = run->unreadable;
    int fd = is_stdin ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);

    run->file = is_stdin ? NULL : name;
    run->line_status = (struct line_status){.last_done = 0};
    if (fd < 0)
        report_unreadable(run, number, errno);
    else
        read_fd(run, fd, number);
    if (fd >= 0 && !is_stdin)
        close(fd);
    if (run->form != BI_PUT_WHOLE) {
        complete_puts(run);
        report_position(run, run->unreadable > unreadable_before);
    }
}

int bi_put_run(struct put_run *run)
{
    assert((run->body != NULL) == (run->file_count == 0));
    assert(run->form == BI_PUT_JSON || run->topic.size > 0);
    run->pipeline = bi_ordered_pipeline_new(run->cli, run->cli->queue, on_done, run);
    if (run->pipeline == NULL)
        return BI_EXIT_FAILED;
    bi_ordered_pipeline_set_manual(run->pipeline);
    run->started_us = bi_clock_boot();
    bi_progress_begin(&run->progress, run->cli, "putting", 0);

    if (run->body != NULL)
        add_put(run, 1, bide_buf_new(run->body, strlen(run->body)), NULL);
    for (size_t i = 0; i < run->file_count && !must_stop(run); i++)
        read_file(run, run->files[i], i + 1);
    complete_puts(run);

    bi_progress_end(&run->progress);
    if (run->form != BI_PUT_WHOLE)
        print_totals(run);
    else if (bi_interrupted())
        bi_cli_note(run->cli, "Interrupted; %s put.",
                    run->put_count == 0 ? "nothing was" : "some were");
    bi_ordered_pipeline_free(run->pipeline);
    return exit_code(run);
}
