/* SPDX-License-Identifier: MIT */
#include "model.h"

void model_drop(struct model *m, struct mjob *job, bool finished)
{
    model_change(m, job);
    MODEL_COUNT(m, job->name, deletes);
    model_event(m, job, BIDE_EVENT_DELETED, BIDE_STATE_GONE);
    model_notify_waits(m, job, BIDE_STATE_GONE, finished);
    model_remove(m, job);
}

void model_delete_job(struct model *m, struct mjob *job)
{
    model_drop(m, job, false);
}

void model_retire(struct model *m, struct mjob *job)
{
    model_change(m, job);
    MODEL_COUNT(m, job->name, retired);
    model_event(m, job, BIDE_EVENT_RETIRED, BIDE_STATE_GONE);
    model_remove(m, job);
}

void model_limit_done(struct model *m, int name, unsigned steps)
{
    uint64_t most = m->sim->options.limits.max_done_per_topic;
    if (m->recovering && !m->lists_sorted) /* the oldest one may not have come yet */
        return;
    for (; steps > 0 && m->topics[name].exists && m->topics[name].count[BIDE_STATE_DONE] > most;
         steps--) {
        struct mjob *oldest = NULL;
        for (size_t i = 0; i < m->count; i++) {
            struct mjob *job = m->jobs[i];
            if (job->name == name && job->state == BIDE_STATE_DONE &&
                (oldest == NULL || job->entered < oldest->entered))
                oldest = job;
        }
        /* Without memory for the journal it stays for now. */
        if (oldest == NULL || (m->sim->allowed_enomem && model_core_has(m, oldest->id)))
            return;
        model_retire(m, oldest);
    }
}

bide_slice model_result_of(const bide_finish_item *item)
{
    if (item->buf == NULL)
        return item->result;
    return (bide_slice){.data = bide_buf_data(item->buf), .size = bide_buf_size(item->buf)};
}

void model_keep(struct model *m, struct mjob *job, bide_slice result, int64_t retain_ms)
{
    model_change(m, job);
    model_set_state(m, job, BIDE_STATE_DONE);
    job->due = m->now.mono + retain_ms * US_PER_MS;
    job->due_wall = false;
    job->done = m->now.mono;
    job->cancel_wanted = false;
    job->has_progress = false;
    job->has_result = result.size != 0;
    model_set_text(&job->result, result.data, result.size);
    MODEL_COUNT(m, job->name, dones);
    model_event(m, job, BIDE_EVENT_DONE, BIDE_STATE_DONE);
    model_notify_waits(m, job, BIDE_STATE_DONE, false);
}

void model_forget(struct model *m, struct mjob *job)
{
    model_change(m, job);
    MODEL_COUNT(m, job->name, dones);
    model_event(m, job, BIDE_EVENT_DONE, BIDE_STATE_GONE);
    model_notify_waits(m, job, BIDE_STATE_GONE, true);
    model_remove(m, job);
}

static int finish_done(struct model *m, struct mjob *job, const bide_finish_item *item)
{
    bide_slice result = model_result_of(item);
    if (job->state == BIDE_STATE_DONE)
        return BIDE_WRONG_STATE;
    if (result.size > m->sim->options.limits.max_result_size)
        return BIDE_TOO_BIG;
    if (m->sim->allowed_enomem && item->status == BIDE_ENOMEM)
        return BIDE_ENOMEM;
    if (m->sim->options.limits.max_memory != 0 && item->status == BIDE_EFULL)
        return BIDE_EFULL;
    int64_t retain_ms = item->retain_ms == BIDE_KEEP ? job->retain_ms : item->retain_ms;
    if (retain_ms == 0) {
        model_forget(m, job);
        return BIDE_OK;
    }
    model_keep(m, job, result, retain_ms);
    model_limit_done(m, job->name, MODEL_DONE_STEP);
    return BIDE_OK;
}

static int finish(struct model *m, const bide_finish_item *item)
{
    struct mjob *job;
    int code = model_lease(m, item->id, item->token, MODEL_ANYBODY, &job);
    if (code != BIDE_OK)
        return code;
    if (item->keep)
        return finish_done(m, job, item);
    if (m->sim->allowed_enomem && item->status == BIDE_ENOMEM)
        return BIDE_ENOMEM;
    model_drop(m, job, item->token != 0); /* its holder is done with it */
    return BIDE_OK;
}

void model_delete(struct model *m, struct sim_op *sop)
{
    bide_finish_item item = {.id = sop->op.lease.id, .token = sop->op.lease.token};
    model_answer(m, finish(m, &item));
}

void model_done(struct model *m, struct sim_op *sop)
{
    bide_finish_item item = sop->op.finish;
    item.keep = true;
    item.status = BIDE_OK;
    model_answer(m, finish(m, &item));
}

void model_finish_many(struct model *m, struct sim_op *sop)
{
    model_answer(m, BIDE_OK);
    model_begin_group(m, sop->op.finish_many.count, 0);
    for (size_t i = 0; i < sop->op.finish_many.count; i++) {
        const bide_finish_item *item = &sop->op.finish_many.items[i];
        expect_code(m->sim, "status of the item", finish(m, item), item->status);
        model_cleanup(m);
    }
    model_end_group(m);
}

void model_finish_and_reserve(struct model *m, struct sim_op *sop)
{
    const bide_finish_item *item = &sop->op.finish_and_reserve.finish;
    model_begin_group(m, 1 + sop->op.finish_and_reserve.reserve.job_max, 0);
    expect_code(m->sim, "status of the finish", finish(m, item), item->status);
    model_cleanup(m);
    sop->finish_hold = m->hold;
    model_reserve_args(m, sop, &sop->op.finish_and_reserve.reserve);
    model_end_group(m);
}
