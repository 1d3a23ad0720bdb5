/* SPDX-License-Identifier: MIT */
#include "cli/queue_probe.h"

#include "cli/presence.h"

#define PROBE_DELAY_MS (INT64_C(365) * 86400000) /* nobody gets the job while it is there */

/* It takes no job, and goes on with those that it has. */
static int count_expected_jobs(struct job_scan *scan)
{
    bide_stats stats;
    int code = bide_queue_stats(scan->queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_report_last(scan->cli, code);
    scan->expected_count =
        stats.jobs.ready + stats.jobs.delayed + stats.jobs.reserved + stats.jobs.buried;
    scan->last_id = 0;
    return BI_EXIT_OK;
}

int bi_queue_probe_last_id(struct job_scan *scan)
{
    char name[BI_PRESENCE_TOPIC_SIZE];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    options.delay_ms = PROBE_DELAY_MS;
    if (!bi_presence_make_topic(name, BI_QUEUE_PROBE_PREFIX))
        return bi_cli_error(scan->cli, BI_EXIT_FAILED, "there are no random numbers");
    int code = bide_put(scan->queue, name, "", 0, &options, &id);
    if (code == BIDE_DRAINING)
        return count_expected_jobs(scan);
    if (code != BIDE_OK)
        return bi_cli_report(scan->cli, "to learn how far its ids go, a job has to be put there",
                             code, bide_last_error());
    code = bide_delete(scan->queue, id, 0);
    if (code != BIDE_OK) {
        bi_cli_note(scan->cli, "job %llu of topic %s, which was a probe, could not be deleted",
                    (unsigned long long)id, name);
        return bi_cli_report_last(scan->cli, code);
    }
    scan->last_id = id - 1;
    return BI_EXIT_OK;
}

int bi_queue_probe_is_same(const struct cli *cli, bide *one, bide *other, bool *same)
{
    char name[BI_PRESENCE_TOPIC_SIZE];
    bide_topic_stats stats;
    struct presence presence;
    if (!bi_presence_make_topic(name, BI_QUEUE_PROBE_PREFIX))
        return bi_cli_error(cli, BI_EXIT_FAILED, "there are no random numbers");
    int code = bi_presence_announce(&presence, one, name);
    if (code == BIDE_OK) {
        code = bide_topic_get_stats(other, name, &stats);
        *same = code == BIDE_OK;
    }
    int exit = code == BIDE_NOT_FOUND ? BI_EXIT_OK : bi_cli_report_last(cli, code);
    bi_presence_withdraw(&presence);
    return exit;
}
