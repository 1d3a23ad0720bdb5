/* SPDX-License-Identifier: MIT */
/*
 * cmd_import.c - bide import: reads an export line by line and restores its jobs.
 *
 * A line is a job, or has a "kind": the header of an export, a pause, a policy, the end. An export that has a
 * header must have an end with the right number of jobs; otherwise it is incomplete. A file is read
 * twice: the first pass only checks it.
 */
#include "cli/input.h"
#include "cli/job_scan.h"
#include "cli/print.h"
#include "cli/transfer.h"
#include "cli/verb.h"
#include "op/job_json.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LINE_MAX_SIZE ((size_t)3 << 29) /* the largest job in base64 */
#define TOO_LONG      "it is longer than any job can be"

static bool dry_run;
static bool lossy;
static uint64_t from_line;

static const struct flag flags[] = {
    BI_FLAG_BOOL('n', "dry-run", &dry_run, "check the file, change nothing"),
    BI_FLAG_COUNT(0, "from-line", &from_line, "skip the lines before line N"),
    BI_FLAG_BOOL(0, "lossy", &lossy, "to a beanstalkd: drop attributes that it lacks"),
    BI_FLAGS_END,
};

/* One pass over the input. */
struct importer {
    struct cli *cli;
    struct input input;
    bool in_export;        /* between the header and the end of an export */
    uint64_t export_jobs;  /* jobs since the header */
    uint64_t valid_lines;  /* number of the last valid line */
    uint64_t bytes;        /* of the lines so far */
    uint64_t jobs, pauses; /* that were restored; or only checked */

    struct ordered_pipeline *pipeline; /* NULL: this pass only checks */
    struct restore_target target;
    uint64_t over, refused;
    struct line_status line_status;
    int exit; /* of a failure that concerns all jobs */
};

__attribute__((format(printf, 2, 3))) static int reject_line(const struct importer *in,
                                                             const char *format, ...)
{
    char error[BI_ERRMSG_SIZE];

    BI_CLI_FORMAT(error, format);
    return bi_cli_error(in->cli, BI_EXIT_PARTIAL, "line %llu: %.400s",
                        (unsigned long long)in->input.number, error);
}

/* Lines before --from-line are checked, but not restored. */
static bool is_restored(const struct importer *in)
{
    return in->pipeline != NULL && in->input.number >= from_line;
}

/* ---- restoring a job ---- */

/* Memory that the job of a line refers to until its op completes. */
struct line_refs {
    json_t *object;
    struct job_json_buffers buffers;
};

static void free_line_refs(struct line_refs *line_refs)
{
    bi_job_json_buffers_free(&line_refs->buffers);
    json_decref(line_refs->object);
    free(line_refs);
}

static int report_refusal(struct importer *in, uint64_t line, int code, const char *message)
{
    char subject[40];

    snprintf(subject, sizeof(subject), "line %llu", (unsigned long long)line);
    in->refused += !bi_cli_is_fatal(code);
    return bi_cli_report(in->cli, subject, code, message);
}

static void on_restored(void *user, struct op_slot *slot)
{
    struct importer *in = user;
    int code = slot->op.status;
    bool fatal = bi_cli_is_fatal(code);

    free_line_refs(slot->extra);
    bool stored_or_reported = code == BIDE_OK || (!fatal && in->exit == BI_EXIT_OK);
    bi_input_add_outcome(&in->line_status, slot->number,
                         code == BIDE_EUNKNOWN ? BI_LINE_UNKNOWN
                         : stored_or_reported  ? BI_LINE_DONE
                                               : BI_LINE_NOT_STORED);
    in->jobs += code == BIDE_OK;

    /* After a fatal error the ops in flight fail, too; only the first is reported. */
    if (code == BIDE_OK || in->exit != BI_EXIT_OK)
        return;
    int exit = report_refusal(in, slot->number, code, slot->op.error);
    if (fatal)
        in->exit = exit;
}

/* Takes line_refs. */
static int restore_job(struct importer *in, bide_job *job, struct line_refs *line_refs)
{
    char error[BI_ERRMSG_SIZE];
    uint64_t line = in->input.number;
    const char *over = bi_transfer_skip_reason(job, bi_clock_wall() / 1000);

    assert(is_restored(in));
    if (over != NULL) {
        free_line_refs(line_refs);
        bi_cli_detail(in->cli, "line %llu: %s", (unsigned long long)line, over);
        in->over++;
        return BI_EXIT_OK;
    }

    struct op_slot *slot =
        bi_ordered_pipeline_get_slot(in->pipeline, job->body_size + job->result_size);
    slot->job = *job;
    slot->number = line;
    slot->extra = line_refs;
    if (bi_transfer_build_op(&in->target, slot, error)) {
        bi_ordered_pipeline_submit(in->pipeline);
    } else {
        free_line_refs(line_refs);
        report_refusal(in, line, BIDE_ENOTSUP, error);
    }
    return in->exit;
}

/* ---- lines; each function returns an exit code ---- */

static int handle_job(struct importer *in, json_t *object)
{
    char error[BI_ERRMSG_SIZE];
    bide_job job;
    struct line_refs *line_refs = calloc(1, sizeof(*line_refs));
    int exit = BI_EXIT_OK;

    if (line_refs == NULL)
        return bi_cli_error(in->cli, BI_EXIT_FAILED, "out of memory");
    line_refs->object = json_incref(object);
    if (bi_job_json_decode(object, &job, &line_refs->buffers, error)) {
        in->export_jobs++;
        if (is_restored(in))
            return restore_job(in, &job, line_refs);
        in->jobs += in->pipeline == NULL;
    } else {
        exit = reject_line(in, "%s", error);
    }
    free_line_refs(line_refs);
    return exit;
}

static int handle_pause(struct importer *in, const json_t *object)
{
    char error[BI_ERRMSG_SIZE];
    struct pause pause;
    bool over = false;
    int exit = BI_EXIT_OK;

    if (!bi_transfer_pause_from_json(object, &pause, error))
        return reject_line(in, "%s", error);
    if (is_restored(in))
        exit = bi_transfer_set_pause(in->cli, in->cli->queue, &pause, &over);
    else
        over = in->pipeline != NULL;
    in->pauses += exit == BI_EXIT_OK && !over;
    return exit;
}

static int handle_policy(struct importer *in, const json_t *object)
{
    char error[BI_ERRMSG_SIZE];
    struct policy_line policy;

    if (!bi_transfer_policy_from_json(object, &policy, error))
        return reject_line(in, "%s", error);
    if (!is_restored(in))
        return BI_EXIT_OK;
    if (!in->target.plain)
        return bi_transfer_set_policy(in->cli, in->cli->queue, &policy);
    bi_cli_note(in->cli, "the policy of %s is not imported: a beanstalkd has none", policy.topic);
    return BI_EXIT_OK;
}

static int handle_header(struct importer *in, const json_t *object)
{
    if (in->in_export)
        return reject_line(in, "an export begins inside another");
    if (json_integer_value(json_object_get(object, "format")) != 1)
        return reject_line(in, "unknown export format (this is bide %s)", bide_version());
    in->in_export = true;
    in->export_jobs = 0;
    return BI_EXIT_OK;
}

/* Detects lines that were removed or duplicated. */
static int handle_end(struct importer *in, const json_t *object)
{
    json_int_t jobs = json_integer_value(json_object_get(object, "jobs"));

    if (!in->in_export)
        return reject_line(in, "end of an export without a beginning");
    if ((uint64_t)jobs != in->export_jobs)
        return reject_line(in, "the export should have %lld jobs, but has %llu", (long long)jobs,
                           (unsigned long long)in->export_jobs);
    in->in_export = false;
    return BI_EXIT_OK;
}

static int handle_kind(struct importer *in, const json_t *object, const char *kind)
{
    static const struct {
        const char *name;
        int (*handle)(struct importer *in, const json_t *object);
    } kinds[] = {{"export", handle_header},
                 {"pause", handle_pause},
                 {"policy", handle_policy},
                 {"end", handle_end}};

    for (size_t i = 0; kind != NULL && i < sizeof(kinds) / sizeof(kinds[0]); i++)
        if (strcmp(kinds[i].name, kind) == 0)
            return kinds[i].handle(in, object);
    return reject_line(in, "\"kind\" is not export, pause, policy or end");
}

static bool is_blank(char c)
{
    return c == ' ' || c == '\t' || c == '\r';
}

static int handle_line(struct importer *in, bide_slice line)
{
    const char *text = line.data;
    char error[BI_ERRMSG_SIZE];
    size_t blanks = 0;

    while (blanks < line.size && is_blank(text[blanks]))
        blanks++;
    if (blanks == line.size)
        return BI_EXIT_OK;

    json_t *object = bi_job_json_parse(text, line.size, error);
    if (object == NULL)
        return reject_line(in, "%s", error);
    const json_t *kind = json_object_get(object, "kind");
    int exit =
        kind == NULL ? handle_job(in, object) : handle_kind(in, object, json_string_value(kind));
    json_decref(object);
    return exit;
}

/* ---- reading ---- */

/* Rejects a line that is not complete by its first byte: a line without an end would otherwise be
 * buffered as a whole. Leading blanks are dropped for the same reason. */
static const char *check_line_start(struct input *input)
{
    while (input->start < input->end && is_blank(input->data[input->start]))
        input->start++;
    if (input->skipping)
        return TOO_LONG;
    if (input->start == input->end || input->data[input->start] == '{')
        return NULL;
    return "not a JSON object";
}

/* Handles one line, or waits for more input. */
static int read_line(struct importer *in, struct progress *progress, enum bi_input_status *status)
{
    bide_slice line;

    *status = bi_input_next(&in->input, &line);
    if (*status == BI_INPUT_NEED_MORE) {
        const char *mistake = check_line_start(&in->input);
        if (mistake != NULL) {
            in->input.number++;
            return reject_line(in, "%s", mistake);
        }
        *status = bi_input_read(&in->input, in->pipeline, &line);
    }

    switch (*status) {
    case BI_INPUT_NEED_MORE:
        return BI_EXIT_OK;
    case BI_INPUT_TOO_LONG:
        return reject_line(in, TOO_LONG);
    case BI_INPUT_FAILED:
        return bi_cli_error(in->cli, BI_EXIT_FAILED, "cannot read after line %llu: %s",
                            (unsigned long long)in->input.number, strerror(errno));
    case BI_INPUT_RECORD: {
        int exit = handle_line(in, line);
        if (exit == BI_EXIT_OK) {
            in->valid_lines = in->input.number;
            bi_progress_set(progress, in->bytes += line.size + 1);
        }
        return exit;
    }
    case BI_INPUT_EOF:
        break;
    }
    if (!in->in_export)
        return BI_EXIT_OK;
    return bi_cli_error(in->cli, BI_EXIT_PARTIAL,
                        "the end of the export is missing: the last line is line %llu",
                        (unsigned long long)in->input.number);
}

static int read_input(struct importer *in, int fd, const char *label)
{
    struct progress progress;
    struct stat info;
    bool sized = fstat(fd, &info) == 0 && S_ISREG(info.st_mode);
    enum bi_input_status status = BI_INPUT_NEED_MORE;
    int exit = BI_EXIT_OK;

    bi_input_init(&in->input, fd, '\n', LINE_MAX_SIZE);
    bi_progress_begin(&progress, in->cli, label, sized ? (uint64_t)info.st_size : 0);
    while (exit == BI_EXIT_OK && in->exit == BI_EXIT_OK && status != BI_INPUT_EOF) {
        exit = read_line(in, &progress, &status);
        if (exit == BI_EXIT_OK && bi_interrupted())
            exit = bi_interrupt_exit();
    }
    bi_progress_end(&progress);
    bi_input_done(&in->input);
    return exit;
}

/* ---- the end ---- */

static void print_resume_hint(const struct importer *in, const char *name)
{
    char rest[BI_ERRMSG_SIZE];
    bool is_file = name != NULL && strcmp(name, "-") != 0;
    unsigned long long next = in->line_status.last_done + 1;

    bi_input_format_outcomes(&in->line_status, "line", rest, sizeof(rest));
    bi_cli_note(in->cli,
                "all lines before line %llu are imported%s%s; continue with: bide import "
                "--from-line %llu%s%s",
                next, rest[0] == 0 ? "" : "; ", rest, next, is_file ? " " : "",
                is_file ? name : "");
}

static int print_summary(const struct importer *in, const char *name, int exit)
{
    bi_cli_note(in->cli, "imported %s", bi_text_jobs(in->jobs).s);
    if (in->over > 0)
        bi_cli_note(in->cli, "%s skipped: expired, cancelled, or retention over",
                    bi_text_number(in->over).s);
    if (in->refused > 0)
        bi_cli_note(in->cli, "%s refused", bi_text_number(in->refused).s);
    if (exit != BI_EXIT_OK)
        print_resume_hint(in, name);

    int printed = BI_EXIT_OK;
    if (in->cli->json)
        printed = bi_cli_print_json(
            in->cli, json_pack("{s:I, s:I, s:I, s:I}", "jobs", (json_int_t)in->jobs, "pauses",
                               (json_int_t)in->pauses, "over", (json_int_t)in->over, "refused",
                               (json_int_t)in->refused));
    if (exit == BI_EXIT_OK && in->refused > 0)
        exit = BI_EXIT_PARTIAL;
    return exit == BI_EXIT_OK ? printed : exit;
}

/* ---- the passes ---- */

static int check_input(struct cli *cli, int fd)
{
    struct importer in = {.cli = cli};
    int exit = read_input(&in, fd, "checking");

    if (exit == BI_EXIT_OK && dry_run) {
        bi_cli_note(cli, "%s, nothing is wrong", bi_text_jobs(in.jobs).s);
        if (cli->json)
            exit = bi_cli_print_json(cli, json_pack("{s:I, s:I}", "jobs", (json_int_t)in.jobs,
                                                    "pauses", (json_int_t)in.pauses));
    } else if (exit != BI_EXIT_OK && !dry_run) {
        bi_cli_note(cli, "nothing was imported");
    }
    return exit;
}

static int import(struct cli *cli, int fd)
{
    struct importer in = {.cli = cli, .target = {.lossy = lossy}};
    struct job_scan recovered;

    /* A restore with a key waits until the queue is loaded, and would be overtaken by those
     * without. */
    int exit = bi_job_scan_open(&recovered, cli, cli->queue);
    if (exit != BI_EXIT_OK)
        return exit;
    in.target.plain = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0;
    in.line_status.last_done = from_line > 0 ? from_line - 1 : 0;
    in.pipeline = bi_ordered_pipeline_new(cli, cli->queue, on_restored, &in);
    if (in.pipeline == NULL)
        return BI_EXIT_FAILED;

    exit = read_input(&in, fd, "importing");
    bi_ordered_pipeline_free(in.pipeline);
    if (in.line_status.range_count == 0 && in.valid_lines > in.line_status.last_done)
        in.line_status.last_done = in.valid_lines;
    return print_summary(&in, cli->words[0], in.exit != BI_EXIT_OK ? in.exit : exit);
}

static int open_input(const struct cli *cli, const char *name, int *fd, bool *rereadable)
{
    struct stat info;

    *fd = name == NULL || strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &info) != 0)
        return bi_cli_error(cli, BI_EXIT_FAILED, "cannot read %.300s: %s", name, strerror(errno));
    if (S_ISDIR(info.st_mode))
        return bi_cli_error(cli, BI_EXIT_FAILED, "%.300s is a directory", name);
    *rereadable = S_ISREG(info.st_mode) && lseek(*fd, 0, SEEK_CUR) == 0;
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    int fd = -1;
    bool rereadable = false;
    int exit = open_input(cli, cli->words[0], &fd, &rereadable);
    if (exit == BI_EXIT_OK && (rereadable || dry_run))
        exit = check_input(cli, fd);
    if (exit == BI_EXIT_OK && rereadable && lseek(fd, 0, SEEK_SET) != 0)
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "cannot read it again: %s", strerror(errno));
    if (exit == BI_EXIT_OK && !dry_run)
        exit = import(cli, fd);
    if (fd > STDERR_FILENO)
        close(fd);
    return exit;
}

const struct verb bi_verb_import = {
    .name = "import",
    .usage = "[FILE]",
    .summary = "restore jobs from an export",
    .flags = flags,
    .traits = BI_VERB_CREATES_FILE | BI_VERB_FINISH,
    .run = run,
};
