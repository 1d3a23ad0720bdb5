/* SPDX-License-Identifier: MIT */
#include "cli/presence.h"

#include "util/keyed_hash.h"

#include <stdio.h>
#include <string.h>

void bi_presence_make_topic(char name[BI_PRESENCE_TOPIC_SIZE], const char *prefix)
{
    struct bi_hash_secret random;

    bi_keyed_hash_generate_secret(&random);
    snprintf(name, BI_PRESENCE_TOPIC_SIZE, "%.24s%016llx%016llx", prefix,
             (unsigned long long)random.key[0], (unsigned long long)random.key[1]);
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

    /* A failed submit leaves the status as it was, and zero is BIDE_OK: withdraw would give a job
     * back. */
    presence->op.status = pending;
    return pending;
}

/* A beanstalkd has the topic before it counts the waiting client, so the topic alone is not enough. */
static int wait_visible(struct presence *presence)
{
    for (;;) {
        bide_topic_stats stats;
        int code = bide_topic_get_stats(presence->queue, presence->name, &stats);
        bool is_visible = code == BIDE_OK && stats.waiting > 0;
        if (is_visible || (code != BIDE_OK && code != BIDE_NOT_FOUND))
            return code;
        if (presence->op.status != BIDE_PENDING)
            return presence->op.status;
        bide_cq_wait(presence->cq, 1);
    }
}

int bi_presence_announce(struct presence *presence, bide *queue, const char *prefix)
{
    *presence = (struct presence){.queue = queue};
    bi_presence_make_topic(presence->name, prefix);
    presence->topic = (bide_slice){presence->name, strlen(presence->name)};

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

    /* Another client has put a job into the topic, which is not ours to keep. */
    if (presence->op.status == BIDE_OK)
        bide_give_back(presence->queue, presence->job.id, presence->job.token);
    bide_job_clear(&presence->job);
    bide_cq_free(presence->cq);
    presence->cq = NULL;
}

int bi_presence_is_same_queue(const struct cli *cli, bide *one, bide *other, bool *same)
{
    struct presence presence;
    bide_topic_stats stats;

    int code = bi_presence_announce(&presence, one, BI_PRESENCE_PROBE_PREFIX);
    if (code == BIDE_OK) {
        code = bide_topic_get_stats(other, presence.name, &stats);
        *same = code == BIDE_OK;
    }
    int exit = code == BIDE_NOT_FOUND ? BI_EXIT_OK : bi_cli_report_last(cli, code);
    bi_presence_withdraw(&presence);
    return exit;
}
