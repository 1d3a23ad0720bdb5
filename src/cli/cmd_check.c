/* SPDX-License-Identifier: MIT */
#include "cli/interrupt.h"
#include "cli/look.h"
#include "cli/progress.h"
#include "cli/record.h"
#include "cli/slow.h"

#include <string.h>

static json_t *report_json(const bide_check_report *report, bool good)
{
    return json_pack("{s:b, s:I, s:I, s:I, s:s*}", "good", good, "jobs", (json_int_t)report->jobs,
                     "damaged", (json_int_t)report->damaged, "differences",
                     (json_int_t)report->differences, "problem",
                     report->problem[0] == 0 ? NULL : report->problem);
}

static void show(const struct cli *cli, const bide_check_report *report, bool good)
{
    char number[32];
    bi_print_count(cli, number, report->jobs);
    bi_print_property(cli, "jobs in order", "%s", number);
    bi_print_count(cli, number, report->damaged);
    bi_print_property(cli, "damaged", "%s", number);
    bi_print_count(cli, number, report->differences);
    bi_print_property(cli, "differences", "%s", number);
    if (!good)
        bi_print_property_bytes(cli, "problem", report->problem, strlen(report->problem));
}

static int tell(const struct cli *cli, const bide_check_report *report)
{
    int exit = BI_EXIT_OK;
    bool good = report->damaged == 0 && report->differences == 0 && report->problem[0] == 0;
    if (cli->json)
        exit = bi_record_print(cli, report_json(report, good));
    else
        show(cli, report, good);
    if (exit != BI_EXIT_OK || good)
        return exit;
    return bi_cli_failed(cli, BI_EXIT_PARTLY,
                         "%.200s is not good; make a copy of it as it is before anything else",
                         cli->shown);
}

static int run(struct cli *cli)
{
    static bide_check_report report;
    static struct slow slow = {.op = {.kind = BIDE_OP_CHECK, .check = {.report = &report}}};
    struct progress progress;
    int exit = bi_interrupt_watch(cli, cli->queue);
    bi_progress_begin(&progress, cli, "checking", 0);
    if (exit == BI_EXIT_OK)
        exit = bi_slow_begin(&slow, cli);
    while (exit == BI_EXIT_OK && !bi_slow_wait(&slow, 200)) {
        bi_progress_wait(&progress);
        if (bi_interrupted()) {
            bi_progress_end(&progress);
            bi_cli_note(cli, "interrupted before everything was looked at");
            exit = bi_interrupt_exit();
        }
    }
    bi_progress_end(&progress);
    bi_slow_end(&slow);
    if (exit != BI_EXIT_OK)
        return exit;
    if (slow.op.status == BIDE_OK)
        return tell(cli, &report);
    return bi_interrupted() ? bi_interrupt_exit()
                            : bi_cli_refused(cli, NULL, slow.op.status, slow.op.error);
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
