/* SPDX-License-Identifier: MIT */
/*
 * A reserve first asks the connection that everything else goes over, without waiting: in a busy
 * queue there is a job, and no further connection is needed. Then it waits on one of its own. When
 * the first job has come, what else is ready is taken without waiting, in rounds of as many jobs as
 * are sure to fit BIDE_BATCH_BYTES. Then each job is looked at: beanstalkd tells its id and its body,
 * not whose it is and how long it may be held.
 */
#include "backend/beanstalk_kind.h"
#include "backend/beanstalk_plain.h"
#include "util/clock.h"

#include <stdlib.h>

enum stage { TRY, WAIT, SIZE, MORE, LOOK, OVER };

#define MAX_JOB_SIZE 65535 /* beanstalkd's default */

static bide_reserve_args *args_of(struct talk *talk)
{
    return talk->op->kind == BIDE_OP_RESERVE ? &talk->op->reserve
                                             : &talk->op->finish_and_reserve.reserve;
}

/* ---- jobs that come ---- */

/* Keeps a job of ours, with its lease. */
static int keep(struct plain *plain, struct talk *talk, const struct reply *reply)
{
    bide_job *job = &talk->jobs[talk->job_count];
    struct lease *lease = bi_lease_new(plain, reply->numbers[0], talk->wire);
    if (lease == NULL || !bi_reply_body(reply, job))
        return BIDE_ENOMEM; /* it is given back when its ttr is over */
    job->id = lease->id;
    job->token = lease->token;
    talk->job_count++;
    return BIDE_OK;
}

static void look(struct talk *talk)
{
    talk->stage = LOOK;
    for (size_t i = 0; i < talk->job_count; i++)
        bi_wire_ask(talk->wire, talk, i, "stats-job %llu", (unsigned long long)talk->jobs[i].id);
}

/* A job whose stats cannot be had is not ours any more: its lease was very short. */
static void looked(struct plain *plain, struct talk *talk, size_t index, const struct reply *reply)
{
    bide_job *job = &talk->jobs[index];
    struct lease *lease = bi_lease_find(plain, job->id, job->token);
    if (!bi_reply_is(reply, "OK") || !bi_yaml_job(reply, job) || lease == NULL)
        return;
    job->left_ms = job->ttr_ms; /* it has just begun; whole seconds, cut off, would be less */
    lease->priority = job->priority;
    lease->ttr = job->ttr_ms * 1000;
    lease->deadline = bi_clock_boot() + lease->ttr;
}

/* ---- reserve ---- */

/* How many further jobs are sure to fit. Where one may be larger than a whole page they come one by
 * one, and the last may go beyond it. */
static size_t fitting(const struct plain *plain, const struct talk *talk, size_t most)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < talk->job_count; i++)
        bytes += talk->jobs[i].body_size;
    if (bytes >= BIDE_BATCH_BYTES)
        return 0;
    uint64_t fit = (BIDE_BATCH_BYTES - bytes) / plain->max_job_size;
    if (plain->max_job_size > BIDE_BATCH_BYTES)
        fit = 1;
    return fit < most ? (size_t)fit : most;
}

static void ask_more(const struct plain *plain, struct talk *talk)
{
    size_t most = args_of(talk)->job_max - talk->job_count;
    if (most > 0 && plain->max_job_size == 0) {
        talk->stage = SIZE;
        bi_wire_ask(talk->wire, talk, 0, "stats");
        return;
    }
    size_t count = most == 0 ? 0 : fitting(plain, talk, most);
    talk->stage = MORE;
    talk->round_end = talk->job_count + count;
    for (size_t i = talk->job_count; i < talk->round_end; i++)
        bi_wire_ask(talk->wire, talk, i, "reserve-with-timeout 0");
    if (talk->outstanding == 0)
        look(talk);
}

/* Times are whole seconds there. A wait that does not end with one is ended here, by closing. */
static void wait_for_one(struct plain *plain, struct talk *talk)
{
    const bide_reserve_args *args = args_of(talk);
    int64_t now = bi_clock_boot();
    if (talk->waits && talk->deadline != PLAIN_NEVER && talk->deadline <= now) {
        bi_plain_end(plain, talk, BIDE_TIMED_OUT);
        return;
    }
    if (atomic_load(&plain->shut) || atomic_load(&talk->cancelled)) {
        bi_plain_end(plain, talk, atomic_load(&plain->shut) ? BIDE_CLOSED : BIDE_CANCELLED);
        return;
    }
    struct wire *wire = bi_plain_spare(plain);
    if (wire == NULL) {
        bi_kind_refuse(talk->op, BIDE_TOO_MANY_WAITERS,
                       "no further connection for a reserve that waits");
        bi_plain_end(plain, talk, BIDE_TOO_MANY_WAITERS);
        return;
    }
    talk->stage = WAIT;
    talk->wire = wire;
    wire->blocked = true;
    bi_wire_watch(wire, args->topics, args->topic_count);
    int64_t left =
        talk->deadline == PLAIN_NEVER ? INT32_MAX * INT64_C(1000000) : talk->deadline - now;
    int64_t seconds = (left + 999999) / 1000000;
    if (seconds > INT32_MAX)
        seconds = INT32_MAX;
    if (talk->deadline != PLAIN_NEVER && seconds * 1000000 - left < 100000)
        talk->deadline += 2000000; /* the server will say it in time */
    if (talk->deadline == PLAIN_NEVER)
        bi_wire_ask(wire, talk, 0, "reserve");
    else
        bi_wire_ask(wire, talk, 0, "reserve-with-timeout %lld", (long long)seconds);
}

void bi_plain_begin_reserve(struct plain *plain, struct talk *talk)
{
    const bide_reserve_args *args = args_of(talk);
    if (args->strategy != BIDE_BY_PRIORITY && args->topic_count > 1) {
        bi_plain_end(plain, talk, bi_plain_cannot(talk->op, "strategies other than by priority"));
        return;
    }
    if (talk->jobs == NULL)
        talk->jobs = calloc(args->job_max, sizeof(*talk->jobs));
    if (talk->jobs == NULL) {
        bi_plain_end(plain, talk, BIDE_ENOMEM);
        return;
    }
    talk->stage = TRY;
    talk->wire = plain->main;
    bi_wire_watch(plain->main, args->topics, args->topic_count);
    bi_wire_ask(plain->main, talk, 0, "reserve-with-timeout 0");
}

void bi_plain_hear_reserve(struct plain *plain, struct talk *talk, size_t index,
                           const struct reply *reply)
{
    if (talk->stage == WAIT)
        talk->wire->blocked = false;
    if (talk->stage == LOOK) {
        looked(plain, talk, index, reply);
    } else if (talk->stage == SIZE) {
        uint64_t size = bi_reply_is(reply, "OK") ? bi_yaml_number(reply, "max-job-size") : 0;
        plain->max_job_size = size == 0 ? MAX_JOB_SIZE : size;
    } else if (bi_reply_is(reply, "RESERVED"))
        talk->code = keep(plain, talk, reply);
    else if (!bi_reply_is(reply, "TIMED_OUT") && !bi_reply_is(reply, "DEADLINE_SOON"))
        talk->code = bi_plain_error(plain, talk->op, reply);
}

/* The jobs go to the caller. */
static void hand_over(struct plain *plain, struct talk *talk)
{
    bide_reserve_args *args = args_of(talk);
    for (size_t i = 0; i < talk->job_count; i++)
        args->jobs[i] = talk->jobs[i];
    args->count = talk->job_count;
    talk->job_count = 0;
    bi_plain_end(plain, talk, BIDE_OK);
}

void bi_plain_end_reserve(struct plain *plain, struct talk *talk)
{
    if (talk->code != BIDE_OK && talk->job_count == 0)
        bi_plain_end(plain, talk, talk->code);
    else if (talk->stage == LOOK)
        hand_over(plain, talk);
    else if (talk->stage == MORE && (talk->code != BIDE_OK || talk->job_count < talk->round_end))
        look(talk);
    else if (talk->job_count > 0)
        ask_more(plain, talk);
    else if (talk->stage == TRY && talk->waits)
        wait_for_one(plain, talk);
    else
        bi_plain_end(plain, talk, BIDE_TIMED_OUT);
}

const struct plain_kind bi_plain_reserve = {bi_plain_begin_reserve, bi_plain_hear_reserve,
                                            bi_plain_end_reserve, NULL};

/* ---- reserve_job ---- */

static void begin_reserve_job(struct plain *plain, struct talk *talk)
{
    if (talk->jobs == NULL)
        talk->jobs = calloc(1, sizeof(*talk->jobs));
    if (talk->jobs == NULL) {
        bi_plain_end(plain, talk, BIDE_ENOMEM);
        return;
    }
    talk->wire = plain->main;
    bi_wire_ask(plain->main, talk, 0, "reserve-job %llu",
                (unsigned long long)talk->op->reserve_job.id);
}

/* A job that cannot be reserved is looked at, too: is it not there, or somebody else's? */
static void hear_reserve_job(struct plain *plain, struct talk *talk, size_t index,
                             const struct reply *reply)
{
    (void)index;
    if (talk->stage == LOOK && talk->job_count > 0)
        looked(plain, talk, 0, reply);
    else if (talk->stage == LOOK)
        talk->code = bi_reply_is(reply, "OK") ? BIDE_RESERVED : BIDE_NOT_FOUND;
    else if (bi_reply_is(reply, "RESERVED"))
        talk->code = keep(plain, talk, reply);
    else if (!bi_reply_is(reply, "NOT_FOUND"))
        talk->code = bi_plain_error(plain, talk->op, reply);
}

static void end_reserve_job(struct plain *plain, struct talk *talk)
{
    if (talk->stage != LOOK && talk->code == BIDE_OK) {
        talk->stage = LOOK;
        bi_wire_ask(plain->main, talk, 0, "stats-job %llu",
                    (unsigned long long)talk->op->reserve_job.id);
        return;
    }
    if (talk->job_count > 0)
        *talk->op->reserve_job.job = talk->jobs[0];
    talk->job_count = 0;
    bi_plain_end(plain, talk, talk->code);
}

const struct plain_kind bi_plain_reserve_job = {begin_reserve_job, hear_reserve_job,
                                                end_reserve_job, NULL};
