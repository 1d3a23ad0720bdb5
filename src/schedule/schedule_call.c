/* SPDX-License-Identifier: MIT */
/*
 * schedule_call - a change of a schedule: read it, and replace the job that was read.
 *
 *     find ──► step ──► the end          the job has gone, since the schedule has changed: find
 *       ▲       │ the job is reserved by a scheduler, for some milliseconds
 *       └─ wait ◄
 *
 * The step names the job that was found. If a scheduler or another call has replaced it meanwhile,
 * nothing happens, and all starts again. A new schedule is put ready and without a next moment, and
 * planned by a second step: the clock of the queue is only known from a job.
 */
#include "schedule/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define WAIT_MS   200 /* for the end of a lease; shorter if the job goes */
#define TRIES_MAX 200

enum stage { STAGE_FIND, STAGE_PUT, STAGE_STEP, STAGE_WAIT };

/* ---- the end ---- */

__attribute__((format(printf, 3, 4))) static bool end(struct schedule_call *call, int code,
                                                      const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(call->error, sizeof(call->error), format, args);
    va_end(args);
    call->code = code;
    return false;
}

static bool end_with_op(struct schedule_call *call, const bide_op *op)
{
    return end(call, op->status, "%s", op->error[0] != 0 ? op->error : bide_code_text(op->status));
}

static bool succeed(struct schedule_call *call, struct schedule **result)
{
    call->code = BIDE_OK;
    call->result = *result;
    *result = NULL;
    return false;
}

/* ---- ops ---- */

static bool begin_find(struct schedule_call *call, bide_op *op)
{
    if (++call->tries > TRIES_MAX)
        return end(call, BIDE_EBUSY, "schedule \"%s\" changes all the time; try again", call->name);
    bide_job_clear(&call->job);
    bi_schedule_free(call->found);
    call->found = NULL;
    call->stage = STAGE_FIND;
    op->kind = BIDE_OP_FIND;
    op->query = (bide_query_args){.topic = {BIDE_SCHEDULE_TOPIC, sizeof(BIDE_SCHEDULE_TOPIC) - 1},
                                  .key = {call->name, strlen(call->name)},
                                  .job = &call->job};
    return true;
}

static bool begin_wait(struct schedule_call *call, bide_op *op)
{
    call->stage = STAGE_WAIT;
    op->kind = BIDE_OP_WAIT;
    op->wait = (bide_wait_args){.id = call->job.id, .timeout_ms = WAIT_MS};
    return true;
}

static bool describe_self(struct schedule_call *call, const struct schedule *schedule)
{
    return bi_schedule_describe_self(schedule, &call->puts[0], &call->items[0]) ||
           end(call, BIDE_ENOMEM, "out of memory");
}

/* Replaces the job that was found by a schedule, and puts the second item, if there is one. */
static bool begin_step(struct schedule_call *call, const struct schedule *schedule, size_t items,
                       bide_op *op)
{
    if (!describe_self(call, schedule))
        return false;
    call->stage = STAGE_STEP;
    op->kind = BIDE_OP_FINISH_AND_PUT;
    op->finish_and_put = (bide_finish_and_put_args){
        .finish = {.id = call->job.id}, .items = call->items, .count = items};
    return true;
}

static bool begin_delete(struct schedule_call *call, bide_op *op)
{
    call->stage = STAGE_STEP;
    op->kind = BIDE_OP_DELETE;
    op->lease = (bide_lease_args){.id = call->job.id};
    return true;
}

static bool begin_put(struct schedule_call *call, bide_op *op)
{
    bide_schedule *def = &call->wanted->def;
    def->state = call->state;
    def->next_at_ms = def->last_at_ms = 0;
    def->made = 0;
    if (!describe_self(call, call->wanted))
        return false;
    call->stage = STAGE_PUT;
    op->kind = BIDE_OP_PUT;
    op->put = call->items[0];
    return true;
}

/* ---- what was found ---- */

/* The time by the clock of the queue. */
static int64_t queue_time(const struct schedule_call *call)
{
    return call->job.created_ms + call->job.age_ms;
}

static bool is_stored(const struct schedule *wanted, const struct schedule *found)
{
    json_t *a = bi_schedule_encode(&wanted->def, BI_SCHEDULE_STORED);
    json_t *b = bi_schedule_encode(&found->def, BI_SCHEDULE_STORED);
    bool equal = a != NULL && b != NULL && json_equal(a, b);
    json_decref(a);
    json_decref(b);
    return equal;
}

static bool set(struct schedule_call *call, bide_op *op)
{
    call->wanted->def.state = call->state;
    bi_schedule_inherit(call->wanted, call->found, queue_time(call));
    /* The same definition again is the way to run one at once whose problem is solved. */
    if (call->found->def.problem != NULL || !is_stored(call->wanted, call->found))
        return begin_step(call, call->wanted, 1, op);
    return succeed(call, &call->found);
}

static bool pause(struct schedule_call *call, bide_op *op)
{
    bide_schedule *def = &call->found->def;
    if (def->state == BIDE_SCHEDULE_PAUSED)
        return succeed(call, &call->found);
    def->state = BIDE_SCHEDULE_PAUSED;
    def->next_at_ms = 0;
    return begin_step(call, call->found, 1, op);
}

static bool resume(struct schedule_call *call, bide_op *op)
{
    bide_schedule *def = &call->found->def;
    char error[BI_ERRMSG_SIZE];
    if (def->state != BIDE_SCHEDULE_PAUSED)
        return succeed(call, &call->found);

    int code =
        bi_schedule_needs_zone(call->found) ? bi_schedule_open_zone(call->found, error) : BIDE_OK;
    if (code != BIDE_OK)
        return end(call, code, "%s", error);
    struct schedule_plan plan = {.next_ms = bi_schedule_first(call->found, queue_time(call))};
    def->state = BIDE_SCHEDULE_ACTIVE;
    bi_schedule_advance(call->found, &plan);
    return begin_step(call, call->found, 1, op);
}

static bool run(struct schedule_call *call, bide_op *op)
{
    struct schedule *schedule = call->found;
    int64_t now = queue_time(call);
    /* The job has a moment of its own, which is not that of an earlier job, and not one that a
     * scheduler will serve: their jobs would have the same key. */
    if (now <= schedule->def.last_at_ms)
        now = schedule->def.last_at_ms + 1;
    now = bi_schedule_between(schedule, now);

    bi_schedule_describe(schedule, now, now, &call->puts[1], &call->items[1]);
    call->puts[1].options.conflict = BIDE_REJECT;
    schedule->def.last_at_ms = now;
    schedule->def.made++;
    return begin_step(call, schedule, 2, op);
}

static bool act_on_found(struct schedule_call *call, bide_op *op)
{
    char error[BI_ERRMSG_SIZE];
    int code = bi_schedule_of_job(&call->job, &call->found, error);
    if (code != BIDE_OK)
        return end(call, code, "%s", error);

    if (call->kind == BI_SCHEDULE_GET)
        return succeed(call, &call->found);
    if (call->job.state == BIDE_STATE_RESERVED)
        return begin_wait(call, op);
    if (call->kind == BI_SCHEDULE_REMOVE)
        return begin_delete(call, op);
    if (call->kind == BI_SCHEDULE_SET)
        return set(call, op);

    if (call->found->def.state == BIDE_SCHEDULE_DAMAGED)
        return end(call, BIDE_EINVAL, "schedule \"%s\" is damaged: %.100s; set it again",
                   call->name, call->found->def.problem == NULL ? "" : call->found->def.problem);
    return call->kind == BI_SCHEDULE_PAUSE    ? pause(call, op)
           : call->kind == BI_SCHEDULE_RESUME ? resume(call, op)
                                              : run(call, op);
}

static bool after_find(struct schedule_call *call, bide_op *op)
{
    if (op->status == BIDE_OK)
        return act_on_found(call, op);
    if (op->status != BIDE_NOT_FOUND)
        return end_with_op(call, op);
    if (call->kind == BI_SCHEDULE_SET)
        return begin_put(call, op);
    /* Of an earlier try without a reply. */
    if (call->kind == BI_SCHEDULE_REMOVE && call->unknown)
        return end(call, BIDE_OK, "%s", "");
    return end(call, BIDE_NOT_FOUND, "there is no schedule \"%s\"", call->name);
}

/* ---- what was done ---- */

static bool after_put(struct schedule_call *call, bide_op *op)
{
    if (op->status != BIDE_OK && op->status != BIDE_EXISTS && op->status != BIDE_EUNKNOWN)
        return end_with_op(call, op);
    return begin_find(call, op);
}

static bool after_step(struct schedule_call *call, bide_op *op)
{
    bool is_put = op->kind == BIDE_OP_FINISH_AND_PUT;
    /* The second item is the job of run. If a schedule has a key, a job may hold it; the key of a
     * moment is held if there was another run in the same millisecond. */
    bool exists = is_put && op->status == BIDE_EXISTS && op->error_item == 2 &&
                  call->found->options.key.size > 0;

    if (op->status == BIDE_RESERVED)
        return begin_wait(call, op);
    call->unknown = call->unknown || op->status == BIDE_EUNKNOWN;
    if (op->status == BIDE_NOT_FOUND || op->status == BIDE_LEASE_LOST ||
        op->status == BIDE_WRONG_STATE || (op->status == BIDE_EXISTS && !exists) ||
        (op->status == BIDE_EUNKNOWN && call->kind != BI_SCHEDULE_RUN))
        return begin_find(call, op);
    if (is_put && (op->status == BIDE_OK || exists))
        call->id = call->items[1].id;
    if (op->status != BIDE_OK)
        return end_with_op(call, op);

    struct schedule **result = call->wanted != NULL ? &call->wanted : &call->found;
    (*result)->def.id = call->items[0].id;
    (*result)->def.problem = NULL;
    return succeed(call, result);
}

static bool after_wait(struct schedule_call *call, bide_op *op)
{
    if (op->status == BIDE_OK)
        bide_buf_unref(op->wait.result);
    if (op->status == BIDE_CLOSED || op->status == BIDE_CANCELLED)
        return end_with_op(call, op);
    return begin_find(call, op);
}

/* ---- calls ---- */

void bi_schedule_call_begin(struct schedule_call *call, enum schedule_call_kind kind,
                            const char *name, struct schedule *wanted, bide_op *op)
{
    assert((wanted != NULL) == (kind == BI_SCHEDULE_SET));
    memset(call, 0, sizeof(*call));
    call->kind = kind;
    call->wanted = wanted;
    if (wanted != NULL)
        call->state =
            wanted->def.state == BIDE_SCHEDULE_PAUSED ? BIDE_SCHEDULE_PAUSED : BIDE_SCHEDULE_ACTIVE;
    snprintf(call->name, sizeof(call->name), "%s", wanted != NULL ? wanted->def.name : name);
    begin_find(call, op);
}

bool bi_schedule_call_next(struct schedule_call *call, bide_op *op)
{
    switch ((enum stage)call->stage) {
    case STAGE_FIND:
        return after_find(call, op);
    case STAGE_PUT:
        return after_put(call, op);
    case STAGE_STEP:
        return after_step(call, op);
    case STAGE_WAIT:
        break;
    }
    return after_wait(call, op);
}

void bi_schedule_call_done(struct schedule_call *call)
{
    bide_job_clear(&call->job);
    bi_schedule_free(call->wanted);
    bi_schedule_free(call->found);
    bi_schedule_free(call->result);
    free(call->puts[0].text);
}
