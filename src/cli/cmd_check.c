/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/job_json.h"
#include "cli/long_op.h"
#include "cli/progress.h"
#include "cli/query.h"

#include <string.h>

static json_t *format_json(const bide_check_report *report, bool healthy)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:s*}", "good", healthy, "jobs",
                     (json_int_t)report->jobs, "damaged", (json_int_t)report->damaged,
                     "differences", (json_int_t)report->differences, "problem",
                     report->problem[0] == 0 ? NULL : report->problem);
}

static void print_report(const struct cli *cli, const bide_check_report *report, bool healthy)
{
    char number[32];
    bi_print_count(cli, number, report->jobs);
    bi_print_property(cli, "jobs in order", "%s", number);
    bi_print_count(cli, number, report->damaged);
    bi_print_property(cli, "damaged", "%s", number);
    bi_print_count(cli, number, report->differences);
    bi_print_property(cli, "differences", "%s", number);
    if (!healthy)
        bi_print_property_bytes(cli, "problem", report->problem, strlen(report->problem));
}

static int print_result(const struct cli *cli, const bide_check_report *report)
{
    int exit = BI_EXIT_OK;
    bool healthy = report->damaged == 0 && report->differences == 0 && report->problem[0] == 0;
    if (cli->json)
        exit = bi_cli_print_json(cli, format_json(report, healthy));
    else
        print_report(cli, report, healthy);
    if (exit != BI_EXIT_OK || healthy)
        return exit;
    return bi_cli_error(cli, BI_EXIT_PARTIAL,
                        "%.200s is not good; make a copy of it as it is before anything else",
                        cli->shown);
}

static int run(struct cli *cli)
{
    static bide_check_report report;
    static struct long_op long_op = {.op = {.kind = BIDE_OP_CHECK, .check = {.report = &report}}};
    struct progress progress;
    int exit = bi_interrupt_watch(cli, cli->queue);
    bi_progress_begin(&progress, cli, "checking", 0);
    if (exit == BI_EXIT_OK)
        exit = bi_long_op_submit(&long_op, cli);
    while (exit == BI_EXIT_OK && !bi_long_op_wait(&long_op, 200)) {
        bi_progress_set_elapsed(&progress);
        if (bi_interrupted()) {
            bi_progress_end(&progress);
            bi_cli_note(cli, "interrupted before everything was looked at");
            exit = bi_interrupt_exit();
        }
    }
    bi_progress_end(&progress);
    bi_long_op_end(&long_op);
    if (exit != BI_EXIT_OK)
        return exit;
    if (long_op.op.status == BIDE_OK)
        return print_result(cli, &report);
    return bi_interrupted() ? bi_interrupt_exit()
                            : bi_cli_report(cli, NULL, long_op.op.status, long_op.op.error);
}

const struct verb bi_verb_check = {
    .name = "check",
    .group = BI_GROUP_STORE,
    .usage = "",
    .summary = "look at every byte that is stored, and compare it with the queue",
    .details = "The exit code is 7 when something is wrong. Others are served meanwhile. What\n"
               "was damaged is never deleted: it is set aside, and counted here.\n"
               "\n"
               "  bide check\n"
               "  bide check --url sqlite:jobs.db && echo good\n",
    .run = run,
};
