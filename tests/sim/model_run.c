/* SPDX-License-Identifier: MIT */
#include "model.h"

static model_handler *const handlers[BIDE_OP_COUNT] = {
    [BIDE_OP_PUT] = model_put,
    [BIDE_OP_PUT_MANY] = model_put_many,
    [BIDE_OP_RESERVE] = model_reserve,
    [BIDE_OP_RESERVE_JOB] = model_reserve_job,
    [BIDE_OP_DELETE] = model_delete,
    [BIDE_OP_DONE] = model_done,
    [BIDE_OP_FINISH_MANY] = model_finish_many,
    [BIDE_OP_TOUCH_MANY] = model_touch_many,
    [BIDE_OP_FINISH_AND_RESERVE] = model_finish_and_reserve,
    [BIDE_OP_RELEASE] = model_release,
    [BIDE_OP_GIVE_BACK] = model_give_back,
    [BIDE_OP_FAIL] = model_fail,
    [BIDE_OP_BURY] = model_bury,
    [BIDE_OP_KICK] = model_kick,
    [BIDE_OP_KICK_JOB] = model_kick_job,
    [BIDE_OP_TOUCH] = model_touch,
    [BIDE_OP_UPDATE] = model_update,
    [BIDE_OP_CANCEL] = model_cancel,
    [BIDE_OP_PEEK] = model_peek,
    [BIDE_OP_PEEK_FIRST] = model_peek_first,
    [BIDE_OP_FIND] = model_find_key,
    [BIDE_OP_JOB_STATS] = model_job_stats,
    [BIDE_OP_BODY] = model_body,
    [BIDE_OP_RESULT] = model_result,
    [BIDE_OP_WAIT] = model_wait,
    [BIDE_OP_RECOVERED] = model_recovered_op,
    [BIDE_OP_PURGE] = model_purge,
    [BIDE_OP_PAUSE] = model_pause,
    [BIDE_OP_RESUME] = model_resume,
    [BIDE_OP_TOPIC_REF] = model_topic_ref,
    [BIDE_OP_RESTORE] = model_restore,
    [BIDE_OP_STATS] = model_stats,
    [BIDE_OP_TOPIC_STATS] = model_topic_stats,
    [BIDE_OP_SUBSCRIBE] = model_subscribe,
    [BIDE_OP_EVENTS] = model_events,
    [BIDE_OP_UNSUBSCRIBE] = model_unsubscribe,
    [BIDE_OP_PING] = model_ping,
    [BIDE_OP_DRAIN] = model_drain,
    [BIDE_OP_FINISH_AND_PUT] = model_finish_and_put,
    [BIDE_OP_TOPIC_SET] = model_topic_set,
    [BIDE_OP_TOPIC_GET] = model_topic_get,
    [BIDE_OP_ANNOUNCE] = model_announce,
    [BIDE_OP_WORKERS] = model_list_workers,
    [BIDE_OP_WHY] = model_why,
};

void model_answer(struct model *m, int want)
{
    expect_code(m->sim, "status", want, m->got);
}

static void compare_hold(struct model *m, const bide_op *op)
{
    uint64_t got = model_hold_of(m, op->private_.hold);
    expect(m->sim, "hold", (int64_t)model_hold_of(m, m->hold), (int64_t)got);
}

void model_run(struct model *m, struct sim_op *sop, int got)
{
    m->now = m->sim->now;
    m->got = got;
    m->hold = sop->slices.hold;
    m->lacking = false;
    handlers[sop->op.kind](m, sop);
    sop->slices.hold = m->hold;
    if (got != BIDE_PENDING && got != BI_AGAIN)
        compare_hold(m, &sop->op);
    expect(m->sim, "lacks bodies", m->lacking && got == BIDE_OK,
           sop->op.private_.flags & BI_BODY_MISSING);
    if (got == BIDE_OK && !m->lacking)
        model_start_leases_if_committed(m, sop);
    model_settle(m);
}

void model_settle(struct model *m)
{
    model_serve(m);
    model_serve_feeds(m);
    model_cleanup(m);
}
