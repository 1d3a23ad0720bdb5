/* SPDX-License-Identifier: MIT */
#include "cli/mark.h"

#include <string.h>

static int submit(struct mark *mark)
{
    bide_op *list[] = {&mark->op};
    mark->op.kind = BIDE_OP_RESERVE;
    mark->op.cq = mark->cq;
    mark->op.reserve = (bide_reserve_args){
        .topics = &mark->topic,
        .topic_count = 1,
        .timeout_ms = BIDE_FOREVER,
        .jobs = &mark->job,
        .job_max = 1,
    };
    int pending = bide_submit(mark->queue, list, 1);
    return pending < 0 ? pending : BIDE_OK;
}

/* Looks until it is there; or it has ended, and why is the answer. */
static int await(struct mark *mark, uint64_t *waiting)
{
    bide_topic_stats stats;
    int code;
    while ((code = bide_topic_get_stats(mark->queue, mark->topic.data, &stats)) == BIDE_NOT_FOUND &&
           mark->op.status == BIDE_PENDING)
        bide_cq_wait(mark->cq, 1);
    if (code == BIDE_NOT_FOUND)
        code = mark->op.status;
    if (code == BIDE_OK && waiting != NULL)
        *waiting = stats.waiting;
    return code;
}

int bi_mark_leave(struct mark *mark, bide *queue, const char *topic, uint64_t *waiting)
{
    *mark = (struct mark){.queue = queue, .topic = {topic, strlen(topic)}};
    int code = bide_cq_new(&mark->cq);
    if (code == BIDE_OK)
        code = submit(mark);
    return code == BIDE_OK ? await(mark, waiting) : code;
}

void bi_mark_wipe(struct mark *mark)
{
    if (mark->cq == NULL)
        return;
    if (mark->op.status == BIDE_PENDING)
        bide_cancel_op(mark->queue, &mark->op);
    while (mark->op.status == BIDE_PENDING)
        bide_cq_wait(mark->cq, BIDE_FOREVER);
    /* Somebody put a job there, which is not for us. */
    if (mark->op.status == BIDE_OK)
        bide_give_back(mark->queue, mark->job.id, mark->job.token);
    bide_job_clear(&mark->job);
    bide_cq_free(mark->cq);
    mark->cq = NULL;
}
