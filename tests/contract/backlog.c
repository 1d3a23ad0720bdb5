/* SPDX-License-Identifier: MIT */
#include "backlog.h"

#include <stdio.h>
#include <string.h>

bide_state backlog_state(bide_state put)
{
    return put == BIDE_STATE_RESERVED ? BIDE_STATE_READY : put;
}

/* At a server a lease outlives a restart: there the job is one that was reserved. */
static uint64_t put_job(bide *queue, const char *topic, bide_state state,
                        const bide_put_options *options)
{
    if (state != BIDE_STATE_RESERVED || is_in_process())
        return put_in_as(queue, topic, state, options);
    uint64_t id = put_in_as(queue, topic, BIDE_STATE_READY, options);
    OK(bide_give_back(queue, id, take_job(queue, id)->token));
    return id;
}

static void put_spot(struct backlog *backlog, bide *queue, int spot)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (int state = BIDE_STATE_DELAYED; state < BACKLOG_KINDS; state++) {
        char *key = backlog->keys[spot][state];
        snprintf(key, sizeof backlog->keys[0][0], "%s-%d", bide_state_name((bide_state)state),
                 spot);
        options.key = slice(key);
        options.key_hold_retained = true;
        options.ttr_ms = 3600000;
        backlog->ids[spot][state] = put_job(queue, backlog->small, (bide_state)state, &options);
    }
    backlog->ids[spot][BIDE_STATE_GONE] = BIDE_ID_MAX - (uint64_t)spot;
}

struct backlog *new_backlog(void)
{
    static struct backlog backlog;
    bide *queue = open_location(new_location(backlog.location, sizeof backlog.location), "");
    backlog.large = fresh_topic("large");
    backlog.small = fresh_topic("small");
    put_spot(&backlog, queue, 0);
    put_lots(queue, backlog.large, BACKLOG_JOBS / 2, NULL, NULL);
    put_spot(&backlog, queue, 1);
    put_lots(queue, backlog.large, BACKLOG_JOBS / 2, NULL, NULL);
    put_spot(&backlog, queue, 2);
    backlog.last_id = stats_of(queue).last_id;
    leave_queue(queue);
    return &backlog;
}

void backlog_is_whole(struct where at, const struct backlog *backlog, bide *queue)
{
    bide_topic_stats large = topic_at(at, queue, backlog->large);
    bide_topic_stats small = topic_at(at, queue, backlog->small);
    check_equal(at, (int64_t)large.jobs.ready, BACKLOG_JOBS, "ready jobs in the large topic");
    check_equal(at, (int64_t)small.jobs.ready, 2 * BACKLOG_SPOTS, "ready jobs in the small topic");
    check_equal(at, (int64_t)small.jobs.delayed, BACKLOG_SPOTS, "delayed jobs");
    check_equal(at, (int64_t)small.jobs.buried, BACKLOG_SPOTS, "buried jobs");
    check_equal(at, (int64_t)small.jobs.done, BACKLOG_SPOTS, "done jobs");
    for (int spot = 0; spot < BACKLOG_SPOTS; spot++)
        for (int state = BIDE_STATE_DELAYED; state < BACKLOG_KINDS; state++) {
            const bide_job *job = get_job_at(at, queue, backlog->ids[spot][state], true);
            const char *key = backlog->keys[spot][state];
            check_equal(at, job->state, backlog_state((bide_state)state), "the state of the job");
            check_text(at, job->key, job->key_size, key, "the key of the job");
            check_text(at, job->body, job->body_size, "body", "the body of the job");
        }
    /* After a bad end some ids may be left out. */
    check_true(at, stats_at(at, queue).last_id >= backlog->last_id, "that no id is given again");
}
