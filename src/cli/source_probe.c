/* SPDX-License-Identifier: MIT */
#include "cli/source_probe.h"

#include <string.h>
#include <sys/random.h>

#define PROBE_SIZE     48
#define PROBE_DELAY_MS (INT64_C(365) * 86400000) /* nobody gets the job while it is there */
#define MARK_MS        60000                     /* longer than any server takes to answer */

/* A topic that nobody else has. */
static bool make_name(char *name)
{
    uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    snprintf(name, PROBE_SIZE, BI_PROBE "%016llx%016llx", (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return true;
}

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
    char name[PROBE_SIZE];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    options.delay_ms = PROBE_DELAY_MS;
    if (!make_name(name))
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

/* ---- the same queue? ---- */

/* A call that waits for a topic that nobody has: the topic is there as long as it waits, and goes
 * with us, however we end. */
struct mark {
    bide *queue;
    bide_cq *cq;
    bide_op op;
    bide_job job;
    bide_slice topic;
};

static int leave_mark(struct mark *mark, bide *queue, const char *name)
{
    bide_op *list[] = {&mark->op};
    *mark = (struct mark){.queue = queue, .topic = {name, strlen(name)}};
    int code = bide_cq_new(&mark->cq);
    if (code != BIDE_OK)
        return code;
    mark->op.kind = BIDE_OP_RESERVE;
    mark->op.cq = mark->cq;
    mark->op.reserve = (bide_reserve_args){
        .topics = &mark->topic,
        .topic_count = 1,
        .timeout_ms = MARK_MS,
        .jobs = &mark->job,
        .job_max = 1,
    };
    code = bide_submit(queue, list, 1);
    return code < 0 ? code : BIDE_OK;
}

static void wipe_mark(struct mark *mark)
{
    if (mark->cq == NULL)
        return;
    if (mark->op.status == BIDE_PENDING)
        bide_cancel_op(mark->queue, &mark->op);
    while (mark->op.status == BIDE_PENDING)
        bide_cq_wait(mark->cq, BIDE_FOREVER);
    bide_cq_free(mark->cq);
}

/* Waits until the mark can be seen where it was left, and looks whether the other has it, too. */
static int look_for_mark(struct mark *mark, const char *name, bide *other, bool *same)
{
    bide_topic_stats stats;
    int code;
    while ((code = bide_topic_get_stats(mark->queue, name, &stats)) == BIDE_NOT_FOUND &&
           mark->op.status == BIDE_PENDING)
        bide_cq_wait(mark->cq, 1);
    if (code == BIDE_NOT_FOUND)
        code = mark->op.status;
    if (code != BIDE_OK)
        return code;
    code = bide_topic_get_stats(other, name, &stats);
    *same = code == BIDE_OK;
    return code == BIDE_NOT_FOUND ? BIDE_OK : code;
}

int bi_source_same(const struct cli *cli, bide *one, bide *other, bool *same)
{
    char name[PROBE_SIZE];
    struct mark mark;
    if (!make_name(name))
        return bi_cli_failed(cli, BI_EXIT_FAILED, "there are no random numbers");
    int code = leave_mark(&mark, one, name);
    if (code == BIDE_OK)
        code = look_for_mark(&mark, name, other, same);
    int exit = bi_cli_answered(cli, code);
    wipe_mark(&mark);
    return exit;
}
