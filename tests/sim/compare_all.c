/* SPDX-License-Identifier: MIT */
#include "model.h"

static void compare_stats(struct sim *sim)
{
    static bide_stats stats;
    struct sim_op *sop = sim_op_get(sim, BIDE_OP_STATS);
    sop->op.stats.stats = &stats;
    sim_do(sim, sop);
}

static void compare_topic(struct sim *sim, int name)
{
    struct sim_op *sop = sim_op_get(sim, BIDE_OP_TOPIC_STATS);
    sop->op.topic_stats.topic = sim_slice(sim_names[name]);
    sop->op.topic_stats.stats = &sim->topic_page[0];
    sim_do(sim, sop);
    for (int state = BIDE_STATE_DELAYED; state <= BIDE_STATE_DONE; state++) {
        sop = sim_op_get(sim, BIDE_OP_PEEK_FIRST);
        sop->op.query.topic = sim_slice(sim_names[name]);
        sop->op.query.state = (bide_state)state;
        sop->op.query.job = &sop->jobs[0];
        sim_do(sim, sop);
    }
}

static void compare_job(struct sim *sim, uint64_t id)
{
    struct sim_op *sop = sim_op_get(sim, BIDE_OP_PEEK);
    sop->op.query.id = id;
    sop->op.query.job = &sop->jobs[0];
    sim_do(sim, sop);
}

void sim_compare_all(struct sim *sim)
{
    bool eager = sim->eager;
    sim->eager = true;
    sim_list_everything(sim);
    for (size_t i = 0; i < sim->model->count; i++)
        compare_job(sim, sim->model->jobs[i]->id);
    for (int name = 0; name < SIM_NAMES; name++)
        compare_topic(sim, name);
    compare_stats(sim);
    sim->eager = eager;
    sim->what = "check";
    sim_check_cache(sim);
    if (sim->options.journal)
        sim_compare_store(sim);
    const char *broken = core_check_all(sim->core);
    if (broken != NULL)
        sim_fail(sim, "%s", broken);
}

/* ---- the end ---- */

uint64_t sim_memory(struct sim *sim)
{
    bide_stats stats = {0};
    bide_op op = {.kind = BIDE_OP_STATS};
    op.stats.stats = &stats;
    expect_code(sim, "stats", BIDE_OK, bi_core_run(sim->core, &op, sim->now));
    return stats.memory_bytes;
}

static void end_calls(struct sim *sim)
{
    while (sim->waiting.first != NULL) {
        struct sim_op *sop = sim->waiting.first;
        sim->what = "cancel of a waiting op";
        expect_true(sim, bi_waiter_cancel(sim->core, &sop->op), "a waiting op is not waiting");
        model_cancel_op(sim->model, sop);
        sim_check_completions(sim);
    }
    for (size_t i = 0; i < 4; i++) {
        if (sim->feeds[i] == NULL)
            continue;
        struct sim_op *sop = sim_op_get(sim, BIDE_OP_UNSUBSCRIBE);
        sop->op.subscription.handle = sim->feeds[i];
        sim->feeds[i] = NULL;
        sim_do(sim, sop);
    }
}

static void end_jobs(struct sim *sim)
{
    while (sim->model->count != 0) {
        const struct mjob *job = sim->model->jobs[0];
        struct sim_op *sop = sim_op_get(sim, BIDE_OP_DELETE);
        sop->op.lease.id = job->id;
        sop->op.lease.token = job->state == BIDE_STATE_RESERVED ? job->token : 0;
        sim_do(sim, sop);
    }
}

static void end_topic(struct sim *sim, int name)
{
    struct sim_op *sop;
    while (sim->model->topics[name].exists && sim->model->topics[name].references != 0) {
        sop = sim_op_get(sim, BIDE_OP_TOPIC_REF);
        sop->op.topic.topic = sim_slice(sim_names[name]);
        sop->op.topic.delta = -1;
        sim_do(sim, sop);
    }
    sop = sim_op_get(sim, BIDE_OP_RESUME);
    sop->op.topic.topic = sim_slice(sim_names[name]);
    sim_do(sim, sop);
    if (!sim->model->topics[name].has_policy)
        return;
    sop = sim_op_get(sim, BIDE_OP_TOPIC_SET);
    sop->op.topic_set.topic = sim_slice(sim_names[name]);
    sop->op.topic_set.policy = (bide_topic_policy){
        BIDE_NO_DEFAULT, BIDE_NO_DEFAULT, 0, 0, 0, 0, BIDE_NO_DEFAULT, 0, 0, 0, 0, {0}};
    sim_do(sim, sop);
}

void sim_empty(struct sim *sim)
{
    sim->alloc_fails = false;
    sim->eager = true;
    while (sim->lacking.first != NULL)
        sim_supply(sim, sim->lacking.first);
    end_calls(sim);
    sim_end_workers(sim);
    end_jobs(sim);
    for (int name = 0; name < SIM_NAMES; name++)
        end_topic(sim, name);
    sim_commit_all(sim);
    sim_compare_all(sim);
    if (!sim->options.limits.topic_cleanup)
        return;
    expect(sim, "topics at the end", 0, (int64_t)model_topic_count(sim->model));
    expect(sim, "memory in use at the end", (int64_t)sim->memory, (int64_t)sim_memory(sim));
}
