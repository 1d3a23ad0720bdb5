/* SPDX-License-Identifier: MIT */
#include "cli/mark.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

bool bi_mark_name(char *name, const char *beginning)
{
    uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    snprintf(name, BI_MARK_SIZE, "%.24s%016llx%016llx", beginning, (unsigned long long)random[0],
             (unsigned long long)random[1]);
    return true;
}

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

/* Is it not to be seen yet? A beanstalkd has the topic before somebody waits for it. */
static bool is_hidden(const struct mark *mark, int *code)
{
    bide_topic_stats stats;
    *code = bide_topic_get_stats(mark->queue, mark->topic.data, &stats);
    return *code == BIDE_NOT_FOUND || (*code == BIDE_OK && stats.waiting == 0);
}

/* Looks until it is there; or it has ended, and why is the answer. */
static int await(struct mark *mark)
{
    int code;
    bool hidden;
    while ((hidden = is_hidden(mark, &code)) && mark->op.status == BIDE_PENDING)
        bide_cq_wait(mark->cq, 1);
    return hidden ? mark->op.status : code;
}

int bi_mark_leave(struct mark *mark, bide *queue, const char *topic)
{
    *mark = (struct mark){.queue = queue, .topic = {topic, strlen(topic)}};
    int code = bide_cq_new(&mark->cq);
    if (code == BIDE_OK)
        code = submit(mark);
    return code == BIDE_OK ? await(mark) : code;
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
