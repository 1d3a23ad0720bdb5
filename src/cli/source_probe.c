/* SPDX-License-Identifier: MIT */
#include "cli/source_probe.h"

#include "cli/mark.h"

#define PROBE_DELAY_MS (INT64_C(365) * 86400000) /* nobody gets the job while it is there */

/* It takes no job, and goes on with those that it has. */
static int count_jobs(struct source *source)
{
    bide_stats stats;
    int code = bide_queue_stats(source->queue, &stats);
    if (code != BIDE_OK)
        return bi_cli_answered(source->cli, code);
    source->sought =
        stats.jobs.ready + stats.jobs.delayed + stats.jobs.reserved + stats.jobs.buried;
    source->last = 0;
    return BI_EXIT_OK;
}

int bi_source_probe(struct source *source)
{
    char name[BI_MARK_SIZE];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    options.delay_ms = PROBE_DELAY_MS;
    if (!bi_mark_name(name, BI_PROBE))
        return bi_cli_failed(source->cli, BI_EXIT_FAILED, "there are no random numbers");
    int code = bide_put(source->queue, name, "", 0, &options, &id);
    if (code == BIDE_DRAINING)
        return count_jobs(source);
    if (code != BIDE_OK)
        return bi_cli_refused(source->cli, "to learn how far its ids go, a job has to be put there",
                              code, bide_last_error());
    code = bide_delete(source->queue, id, 0);
    if (code != BIDE_OK) {
        bi_cli_note(source->cli, "job %llu of topic %s, which was a probe, could not be deleted",
                    (unsigned long long)id, name);
        return bi_cli_answered(source->cli, code);
    }
    source->last = id - 1;
    return BI_EXIT_OK;
}

int bi_source_same(const struct cli *cli, bide *one, bide *other, bool *same)
{
    char name[BI_MARK_SIZE];
    bide_topic_stats stats;
    struct mark mark;
    if (!bi_mark_name(name, BI_PROBE))
        return bi_cli_failed(cli, BI_EXIT_FAILED, "there are no random numbers");
    int code = bi_mark_leave(&mark, one, name);
    if (code == BIDE_OK) {
        code = bide_topic_get_stats(other, name, &stats);
        *same = code == BIDE_OK;
    }
    int exit = code == BIDE_NOT_FOUND ? BI_EXIT_OK : bi_cli_answered(cli, code);
    bi_mark_wipe(&mark);
    return exit;
}
