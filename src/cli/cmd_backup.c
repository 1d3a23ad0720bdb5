/* SPDX-License-Identifier: MIT */
/*
 * cmd_backup.c - bide backup and bide check: one op that may take minutes.
 */
#include "cli/connect.h"
#include "cli/ordered_pipeline.h"
#include "cli/query.h"
#include "op/job_json.h"

#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* ---- backup ---- */

/* Runs before the queue is opened, which may load for a minute. */
static int check_backup(struct cli *cli)
{
    struct stat existing;

    if (cli->words[0][0] == 0)
        return bi_cli_usage_error(cli, "the file name is empty");
    if (lstat(cli->words[0], &existing) == 0)
        return bi_cli_error(cli, BI_EXIT_USAGE,
                            "%.300s already exists and is not overwritten; choose another name",
                            cli->words[0]);
    return BI_EXIT_OK;
}

/* The server has another working directory. False with errno. */
static bool make_absolute(char *path, size_t size, const char *word)
{
    char directory[PATH_MAX] = "";

    if (word[0] != '/' && getcwd(directory, sizeof(directory)) == NULL)
        return false;
    int length = snprintf(path, size, "%s%s%s", directory, directory[0] == 0 ? "" : "/", word);
    errno = ENAMETOOLONG;
    return length > 0 && (size_t)length < size;
}

static int print_backup_json(const struct cli *cli, json_int_t bytes)
{
    json_t *object = json_pack("{s:I}", "bytes", bytes);
    if (object != NULL &&
        !bi_job_json_set_bytes(object, "file", cli->words[0], strlen(cli->words[0]))) {
        json_decref(object);
        object = NULL;
    }
    return bi_cli_print_json(cli, object);
}

static int print_backup(const struct cli *cli)
{
    struct stat file = {.st_size = 0};
    bool damaged = bi_connect_damage_count(cli->queue) > 0;
    int exit = damaged ? BI_EXIT_PARTIAL : BI_EXIT_OK;

    if (stat(cli->words[0], &file) != 0)
        return bi_cli_error(
            cli, BI_EXIT_FAILED,
            "%.300s was written, but is not there: %s; the server may have a "
            "private directory (PrivateTmp= of its unit): use a directory that both "
            "see, such as /var/lib/bide",
            cli->words[0], strerror(errno));

    if (cli->json) {
        int printed = print_backup_json(cli, (json_int_t)file.st_size);
        return printed == BI_EXIT_OK ? exit : printed;
    }
    bi_cli_note(cli, "%s is a copy of the %squeue, %s", cli->words[0], damaged ? "damaged " : "",
                bi_text_size((uint64_t)file.st_size).s);
    return exit;
}

/* The copy is completed after a signal: a part of one is of no use. */
static bool on_wait_backup(void *user)
{
    static bool noted;

    if (bi_interrupted() && !noted)
        bi_cli_note(user, "completing the copy; press Ctrl-C again to stop at once");
    noted = bi_interrupted();
    return true;
}

static int run_backup(struct cli *cli)
{
    static char path[PATH_MAX];
    bide_op op = {.kind = BIDE_OP_BACKUP, .backup = {.path = path}};

    if (!make_absolute(path, sizeof(path), cli->words[0]))
        return bi_cli_error(cli, BI_EXIT_FAILED, "%.200s: %s", cli->words[0], strerror(errno));
    int exit = bi_ordered_pipeline_run_op(cli, &op, on_wait_backup, cli);
    if (exit == BI_EXIT_OK && op.status == BIDE_OK)
        exit = print_backup(cli);
    else if (exit == BI_EXIT_OK && !bi_interrupted())
        exit = bi_cli_report(cli, NULL, op.status, op.error);
    return exit == BI_EXIT_OK && bi_interrupted() ? bi_interrupt_exit() : exit;
}

const struct verb bi_verb_backup = {
    .name = "backup",
    .usage = "FILE",
    .summary = "copy the stored queue to a new file",
    .traits = BI_VERB_INTERRUPT,
    .check = check_backup,
    .run = run_backup,
};

/* ---- check ---- */

static int print_check(const struct cli *cli, const bide_check_report *report)
{
    int exit = BI_EXIT_OK;
    bool healthy = report->damaged == 0 && report->differences == 0 && report->problem[0] == 0;

    if (cli->json) {
        exit = bi_cli_print_json(cli, json_pack("{s:b, s:I, s:I, s:I, s:s*}", "good", healthy,
                                                "jobs", (json_int_t)report->jobs, "damaged",
                                                (json_int_t)report->damaged, "differences",
                                                (json_int_t)report->differences, "problem",
                                                report->problem[0] == 0 ? NULL : report->problem));
    } else {
        bi_print_property_number(cli, "jobs in order", report->jobs);
        bi_print_property_number(cli, "damaged", report->damaged);
        bi_print_property_number(cli, "differences", report->differences);
        if (!healthy)
            bi_print_property_bytes(cli, "problem", report->problem, strlen(report->problem));
    }

    if (exit != BI_EXIT_OK || healthy)
        return exit;
    return bi_cli_error(cli, BI_EXIT_PARTIAL,
                        "%.200s is damaged; copy the file as it is before anything else",
                        cli->shown);
}

static bool on_wait_check(void *progress)
{
    bi_progress_set_elapsed(progress);
    return !bi_interrupted();
}

static int run_check(struct cli *cli)
{
    static bide_check_report report; /* the queue writes to it also if the wait is interrupted */
    bide_op op = {.kind = BIDE_OP_CHECK, .check = {.report = &report}};
    struct progress progress;

    bi_progress_begin(&progress, cli, "checking", 0);
    int exit = bi_ordered_pipeline_run_op(cli, &op, on_wait_check, &progress);
    bi_progress_end(&progress);
    if (exit != BI_EXIT_OK)
        return exit;
    if (op.status == BIDE_OK)
        return print_check(cli, &report);
    if (op.status == BIDE_PENDING)
        bi_cli_note(cli, "interrupted; the check is not complete");
    return bi_interrupted() ? bi_interrupt_exit() : bi_cli_report(cli, NULL, op.status, op.error);
}

const struct verb bi_verb_check = {
    .name = "check",
    .usage = "",
    .summary = "verify the stored queue",
    .traits = BI_VERB_INTERRUPT,
    .run = run_check,
};
