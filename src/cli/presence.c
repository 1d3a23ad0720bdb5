/* SPDX-License-Identifier: MIT */
#include "cli/presence.h"

#include <stdio.h>
#include <string.h>
#include <sys/random.h>

bool bi_presence_make_topic(char *name, const char *prefix)
{
    uint64_t random[2];
    if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
        return false;
    snprintf(name, BI_PRESENCE_TOPIC_SIZE, "%.24s%016llx%016llx", prefix,
             (unsigned long long)random[0], (unsigned long long)random[1]);
    return true;
}

static int submit(struct presence *presence)
{
    bide_op *list[] = {&presence->op};
    presence->op.kind = BIDE_OP_RESERVE;
    presence->op.cq = presence->cq;
    presence->op.reserve = (bide_reserve_args){
        .topics = &presence->topic,
        .topic_count = 1,
        .timeout_ms = BIDE_FOREVER,
        .jobs = &presence->job,
        .job_max = 1,
    };
    int pending = bide_submit(presence->queue, list, 1);
    if (pending >= 0)
        return BIDE_OK;
    presence->op.status = pending; /* submit left it as it was: zero, which is BIDE_OK */
    return pending;
}

/* Is it not to be seen yet? A beanstalkd has the topic before somebody waits for it. */
static bool is_invisible(const struct presence *presence, int *code)
{
    bide_topic_stats stats;
    *code = bide_topic_get_stats(presence->queue, presence->topic.data, &stats);
    return *code == BIDE_NOT_FOUND || (*code == BIDE_OK && stats.waiting == 0);
}

/* Looks until it is there; or it has ended, and why is the answer. */
static int wait_visible(struct presence *presence)
{
    int code;
    bool invisible;
    while ((invisible = is_invisible(presence, &code)) && presence->op.status == BIDE_PENDING)
        bide_cq_wait(presence->cq, 1);
    return invisible ? presence->op.status : code;
}

int bi_presence_announce(struct presence *presence, bide *queue, const char *topic)
{
    *presence = (struct presence){.queue = queue, .topic = {topic, strlen(topic)}};
    int code = bide_cq_new(&presence->cq);
    if (code == BIDE_OK)
        code = submit(presence);
    return code == BIDE_OK ? wait_visible(presence) : code;
}

void bi_presence_withdraw(struct presence *presence)
{
    if (presence->cq == NULL)
        return;
    if (presence->op.status == BIDE_PENDING)
        bide_cancel_op(presence->queue, &presence->op);
    while (presence->op.status == BIDE_PENDING)
        bide_cq_wait(presence->cq, BIDE_FOREVER);
    /* Somebody put a job there, which is not for us. */
    if (presence->op.status == BIDE_OK)
        bide_give_back(presence->queue, presence->job.id, presence->job.token);
    bide_job_clear(&presence->job);
    bide_cq_free(presence->cq);
    presence->cq = NULL;
}
