/* SPDX-License-Identifier: MIT */
#include "cli/import.h"
#include "cli/interrupt.h"
#include "cli/job_scan.h"
#include "cli/line_status.h"
#include "cli/print.h"
#include "cli/restore_op.h"
#include "cli/verb.h"
#include "op/job_json.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static bool dry_run;
static bool lossy;
static uint64_t from_line;

static const struct flag flags[] = {
    BI_FLAG_BOOL('n', "dry-run", &dry_run, "check the file, change nothing"),
    BI_FLAG_COUNT(0, "from-line", &from_line, "skip the lines before line N"),
    BI_FLAG_BOOL(0, "lossy", &lossy, "to a beanstalkd: drop attributes that it lacks"),
    BI_FLAGS_END,
};

/* State of an import. */
struct importer {
    struct cli *cli;
    struct ordered_pipeline *ordered_pipeline;
    struct restore_target restore_target;
    uint64_t jobs, pauses, over, refused;
    struct line_status line_status;
    int exit;
};

/* Memory that the job of a line refers to until its op completes. */
struct line_refs {
    json_t *object;
    struct job_json_buffers buffers;
};

static void free_line_refs(struct line_refs *line_refs)
{
    if (line_refs == NULL)
        return;
    bi_job_json_buffers_free(&line_refs->buffers);
    json_decref(line_refs->object);
    free(line_refs);
}

static int report_line(struct importer *in, uint64_t line, int code, const char *message)
{
    char subject[40];
    snprintf(subject, sizeof(subject), "line %llu", (unsigned long long)line);
    in->refused += !bi_cli_is_fatal(code);
    return bi_cli_report(in->cli, subject, code, message);
}

/* The outcome of a line, for the hint how to continue. */
static enum bi_line_outcome outcome_of(int code)
{
    if (code == BIDE_EUNKNOWN)
        return BI_LINE_UNKNOWN;
    return bi_cli_is_fatal(code) ? BI_LINE_NOT_STORED : BI_LINE_DONE;
}

/* After a fatal error the ops in flight fail, too; only the first is reported. */
static void on_restored(void *user, struct op_slot *slot)
{
    struct importer *in = user;
    int code = slot->op.status;
    free_line_refs(slot->extra);
    bi_line_status_add(&in->line_status, slot->number, outcome_of(code));
    in->jobs += code == BIDE_OK;
    if (code == BIDE_OK || in->exit != BI_EXIT_OK)
        return;
    int exit = report_line(in, slot->number, code, slot->op.error);
    if (bi_cli_is_fatal(code))
        in->exit = exit;
}

static int add_pause(void *user, uint64_t line, const struct pause *pause)
{
    struct importer *in = user;
    bool over = false;
    if (line < from_line || dry_run)
        return BI_EXIT_OK;
    int exit = bi_pauses_set(in->cli, in->cli->queue, pause, &over);
    in->pauses += exit == BI_EXIT_OK && !over;
    return exit;
}

/* Takes line_refs. */
static int send_job(struct importer *in, uint64_t line, struct line_refs *line_refs,
                    const bide_job *job)
{
    char error[BI_ERRMSG_SIZE];
    struct op_slot *slot =
        bi_ordered_pipeline_get_slot(in->ordered_pipeline, job->body_size + job->result_size);
    slot->job = *job;
    slot->number = line;
    slot->extra = line_refs;
    if (bi_restore_op_build(&in->restore_target, slot, error)) {
        bi_ordered_pipeline_submit(in->ordered_pipeline);
        return in->exit;
    }
    free_line_refs(line_refs);
    report_line(in, line, BIDE_ENOTSUP, error);
    return in->exit;
}

static int add_job(void *user, uint64_t line, json_t *object, const bide_job *decoded,
                   struct job_json_buffers *buffers)
{
    struct importer *in = user;
    bide_job job = *decoded;
    if (line < from_line || dry_run)
        return BI_EXIT_OK;
    const char *over = bi_restore_op_skip_reason(&job, bi_clock_wall() / 1000);
    if (over != NULL) {
        bi_cli_detail(in->cli, "line %llu: %s", (unsigned long long)line, over);
        in->over++;
        return BI_EXIT_OK;
    }
    struct line_refs *line_refs = calloc(1, sizeof(*line_refs));
    if (line_refs == NULL)
        return bi_cli_error(in->cli, BI_EXIT_FAILED, "out of memory");
    line_refs->object = json_incref(object);
    line_refs->buffers = *buffers;
    *buffers = (struct job_json_buffers){.blocks = {NULL}};
    return send_job(in, line, line_refs, &job);
}

static void flush_restores(void *user)
{
    struct importer *in = user;
    bi_ordered_pipeline_flush(in->ordered_pipeline);
}

/* ---- the end ---- */

static int print_json(const struct importer *in)
{
    return bi_cli_print_json(in->cli,
                             json_pack("{s:I, s:I, s:I, s:I}", "jobs", (json_int_t)in->jobs,
                                       "pauses", (json_int_t)in->pauses, "over",
                                       (json_int_t)in->over, "refused", (json_int_t)in->refused));
}

static void print_resume_hint(const struct importer *in, const char *name)
{
    char rest[BI_ERRMSG_SIZE];
    bool is_file = name != NULL && strcmp(name, "-") != 0;
    unsigned long long next = in->line_status.last_done + 1;
    bi_line_status_format(&in->line_status, "line", rest, sizeof(rest));
    bi_cli_note(in->cli,
                "all lines before line %llu are imported%s%s; continue with: bide import "
                "--from-line %llu%s%s",
                next, rest[0] == 0 ? "" : "; ", rest, next, is_file ? " " : "",
                is_file ? name : "");
}

static int print_summary(const struct importer *in, const char *name, int exit)
{
    char jobs[32], over[32], refused[32];
    bi_print_number(jobs, in->jobs);
    bi_print_number(over, in->over);
    bi_print_number(refused, in->refused);
    bi_cli_note(in->cli, "imported %s job%s", jobs, in->jobs == 1 ? "" : "s");
    if (in->over > 0)
        bi_cli_note(in->cli, "%s skipped: expired, cancelled, or retention over", over);
    if (in->refused > 0)
        bi_cli_note(in->cli, "%s refused", refused);
    if (exit != BI_EXIT_OK)
        print_resume_hint(in, name);
    int printed = in->cli->json ? print_json(in) : BI_EXIT_OK;
    if (exit == BI_EXIT_OK && in->refused > 0)
        exit = BI_EXIT_PARTIAL;
    return exit == BI_EXIT_OK ? printed : exit;
}

/* ---- running ---- */

static int open_input(const struct cli *cli, const char *name, int *fd)
{
    struct stat status;
    *fd = name == NULL || strcmp(name, "-") == 0 ? STDIN_FILENO : open(name, O_RDONLY | O_CLOEXEC);
    if (*fd < 0 || fstat(*fd, &status) != 0)
        return bi_cli_error(cli, BI_EXIT_FAILED, "cannot read %.300s: %s", name, strerror(errno));
    if (S_ISDIR(status.st_mode))
        return bi_cli_error(cli, BI_EXIT_FAILED, "%.300s is a directory", name);
    return BI_EXIT_OK;
}

/* Returns true if the input can be read twice. */
static bool is_rereadable(int fd)
{
    struct stat status;
    return fstat(fd, &status) == 0 && S_ISREG(status.st_mode) && lseek(fd, 0, SEEK_CUR) == 0;
}

static const struct import_handlers no_handlers = {.label = "checking"};

static int validate(struct cli *cli, int fd)
{
    struct import_counts counts;
    int exit = bi_import_read(cli, fd, &no_handlers, NULL, &counts);
    if (exit == BI_EXIT_OK && dry_run) {
        char jobs[32];
        bi_print_number(jobs, counts.jobs);
        bi_cli_note(cli, "%s job%s, nothing is wrong", jobs, counts.jobs == 1 ? "" : "s");
        if (cli->json)
            exit = bi_cli_print_json(cli, json_pack("{s:I, s:I}", "jobs", (json_int_t)counts.jobs,
                                                    "pauses", (json_int_t)counts.pauses));
    } else if (exit != BI_EXIT_OK && !dry_run) {
        bi_cli_note(cli, "nothing was imported");
    }
    return exit;
}

static int import(struct cli *cli, int fd)
{
    static const struct import_handlers handlers = {"importing", add_job, add_pause,
                                                    flush_restores};
    struct importer in = {.cli = cli, .restore_target = {.lossy = lossy}};
    struct import_counts counts;
    in.restore_target.plain = (bide_capabilities(cli->queue) & BIDE_CAN_ALL_OPS) == 0;
    in.line_status.last_done = from_line > 0 ? from_line - 1 : 0;
    in.ordered_pipeline = bi_ordered_pipeline_new(cli, cli->queue, on_restored, &in);
    if (in.ordered_pipeline == NULL)
        return BI_EXIT_FAILED;
    int exit = bi_import_read(cli, fd, &handlers, &in, &counts);
    bi_ordered_pipeline_free(in.ordered_pipeline);
    if (in.line_status.range_count == 0 && counts.lines > in.line_status.last_done)
        in.line_status.last_done = counts.lines;
    return print_summary(&in, cli->word_count > 0 ? cli->words[0] : NULL,
                         in.exit != BI_EXIT_OK ? in.exit : exit);
}

static int run(struct cli *cli)
{
    struct job_scan target;
    int fd = -1;
    int exit = bi_interrupt_watch(cli, NULL);
    if (exit == BI_EXIT_OK)
        exit = open_input(cli, cli->word_count > 0 ? cli->words[0] : NULL, &fd);
    bool rereadable = exit == BI_EXIT_OK && is_rereadable(fd);
    if (exit == BI_EXIT_OK && (rereadable || dry_run))
        exit = validate(cli, fd);
    if (exit == BI_EXIT_OK && rereadable && lseek(fd, 0, SEEK_SET) != 0)
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "cannot read it again: %s", strerror(errno));
    /* A restore with a key waits until the queue is loaded, and would be overtaken by those without. */
    if (exit == BI_EXIT_OK && !dry_run)
        exit = bi_job_scan_open(&target, cli, cli->queue);
    if (exit == BI_EXIT_OK && !dry_run)
        exit = import(cli, fd);
    if (fd > STDERR_FILENO)
        close(fd);
    return exit;
}

const struct verb bi_verb_import = {
    .name = "import",
    .group = BI_GROUP_STORE,
    .usage = "[FILE]",
    .summary = "restore jobs from an export",
    .details =
        "Reads FILE, or standard input if FILE is missing or -. Jobs keep their order and get\n"
        "new ids; reserved jobs become ready. A file is checked as a whole before anything\n"
        "changes; a stream is imported up to the first invalid line. A line needs \"topic\"\n"
        "and \"body\"; other attributes have the defaults of put. A second import duplicates\n"
        "jobs, unless their key is held; \"bide move\" does not.\n"
        "\n"
        "  bide import jobs.jsonl\n"
        "  bide import --dry-run jobs.jsonl\n"
        "  zstdcat jobs.jsonl.zst | bide import --url sqlite:other.db\n"
        "  bide export --state buried | jq -c '.state = \"ready\"' | bide import --url URL\n",
    .flags = flags,
    .max = 1,
    .traits = BI_VERB_CREATES_FILE,
    .run = run,
};
