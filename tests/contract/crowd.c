/* SPDX-License-Identifier: MIT */
#include "crowd.h"

#include <stdio.h>
#include <string.h>

bide_state crowd_state(bide_state put)
{
    return put == BIDE_STATE_RESERVED ? BIDE_STATE_READY : put;
}

/* At a server a lease outlives a restart: there the job is one that was reserved. */
static uint64_t put_job(bide *queue, const char *topic, bide_state state,
                        const bide_put_options *options)
{
    if (state != BIDE_STATE_RESERVED || is_own())
        return put_in_as(queue, topic, state, options);
    uint64_t id = put_in_as(queue, topic, BIDE_STATE_READY, options);
    OK(bide_give_back(queue, id, take_job(queue, id)->token));
    return id;
}

static void put_spot(struct crowd *crowd, bide *queue, int spot)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (int state = BIDE_STATE_DELAYED; state < CROWD_KINDS; state++) {
        char *key = crowd->keys[spot][state];
        snprintf(key, sizeof crowd->keys[0][0], "%s-%d", bide_state_name((bide_state)state), spot);
        options.key = slice(key);
        options.key_hold_retained = true;
        options.ttr_ms = 3600000;
        crowd->ids[spot][state] = put_job(queue, crowd->small, (bide_state)state, &options);
    }
    crowd->ids[spot][BIDE_STATE_GONE] = BIDE_ID_MAX - (uint64_t)spot;
}

struct crowd *new_crowd(void)
{
    static struct crowd crowd;
    bide *queue = open_place(new_place(crowd.place, sizeof crowd.place), "");
    crowd.large = fresh_topic("large");
    crowd.small = fresh_topic("small");
    put_spot(&crowd, queue, 0);
    put_lots(queue, crowd.large, CROWD_JOBS / 2, NULL, NULL);
    put_spot(&crowd, queue, 1);
    put_lots(queue, crowd.large, CROWD_JOBS / 2, NULL, NULL);
    put_spot(&crowd, queue, 2);
    crowd.last_id = stats_of(queue).last_id;
    leave_queue(queue);
    return &crowd;
}

void crowd_is_whole(struct where at, const struct crowd *crowd, bide *queue)
{
    bide_topic_stats large = topic_at(at, queue, crowd->large);
    bide_topic_stats small = topic_at(at, queue, crowd->small);
    check_equal(at, (int64_t)large.jobs.ready, CROWD_JOBS, "ready jobs in the large topic");
    check_equal(at, (int64_t)small.jobs.ready, 2 * CROWD_SPOTS, "ready jobs in the small topic");
    check_equal(at, (int64_t)small.jobs.delayed, CROWD_SPOTS, "delayed jobs");
    check_equal(at, (int64_t)small.jobs.buried, CROWD_SPOTS, "buried jobs");
    check_equal(at, (int64_t)small.jobs.done, CROWD_SPOTS, "done jobs");
    for (int spot = 0; spot < CROWD_SPOTS; spot++)
        for (int state = BIDE_STATE_DELAYED; state < CROWD_KINDS; state++) {
            const bide_job *job = look_at(at, queue, crowd->ids[spot][state], true);
            const char *key = crowd->keys[spot][state];
            check_equal(at, job->state, crowd_state((bide_state)state), "the state of the job");
            check_text(at, job->key, job->key_size, key, "the key of the job");
            check_text(at, job->body, job->body_size, "body", "the body of the job");
        }
    /* After a bad end some ids may be left out. */
    check_true(at, stats_at(at, queue).last_id >= crowd->last_id, "that no id is given again");
}
