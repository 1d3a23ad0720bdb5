/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

/* ---- answers ---- */

static void record_tokens(struct model *m, const bide_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        uint64_t number = bi_token_number(&m->sim->tokens, jobs[i].token);
        if (number > m->replied_token)
            m->replied_token = number;
    }
}

static void record_id(struct model *m, uint64_t id)
{
    if (id > m->replied_id)
        m->replied_id = id;
}

static void record_ids(struct model *m, const bide_put_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (items[i].status == BIDE_OK)
            record_id(m, items[i].id);
}

/* Whoever asked has the answer now: what it says may never be given again. */
static void answered(struct sim *sim, struct sim_op *sop)
{
    const bide_op *op = &sop->op;
    if (op->private_.status != BIDE_OK)
        return;
    if (op->kind == BIDE_OP_RESERVE)
        record_tokens(sim->model, op->reserve.jobs, op->reserve.count);
    else if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        record_tokens(sim->model, op->finish_and_reserve.reserve.jobs,
                      op->finish_and_reserve.reserve.count);
    else if (op->kind == BIDE_OP_RESERVE_JOB)
        record_tokens(sim->model, op->reserve_job.job, 1);
    else if (op->kind == BIDE_OP_PUT)
        record_id(sim->model, op->put.id);
    else if (op->kind == BIDE_OP_RESTORE)
        record_id(sim->model, op->restore.id);
    else if (op->kind == BIDE_OP_PUT_MANY)
        record_ids(sim->model, op->put_many.items, op->put_many.count);
    else if (op->kind == BIDE_OP_FINISH_AND_PUT)
        record_ids(sim->model, op->finish_and_put.items, op->finish_and_put.count);
}

/* An answer may wait only for a batch that will come. */
static void check_hold(struct sim *sim, uint64_t hold)
{
    if (!model_will_come(sim->model, hold) || (!sim->batch_open && !bi_journal_is_dirty(sim->core)))
        sim_fail(sim, "an answer is held for batch %llu, which may never come",
                 (unsigned long long)hold);
}

void sim_answer(struct sim *sim, struct sim_op *sop)
{
    if (sop->op.private_.hold > sim->model->committed) {
        check_hold(sim, sop->op.private_.hold);
        sim_ops_add(&sim->held, sop);
        return;
    }
    answered(sim, sop);
    sim_op_put(sim, sop);
}

static void answer_committed(struct sim *sim)
{
    struct sim_ops held = sim->held;
    memset(&sim->held, 0, sizeof sim->held);
    while (held.first != NULL) {
        struct sim_op *sop = held.first;
        sim_ops_remove(&held, sop);
        if (sop->op.private_.status == BIDE_OK && sop->op.private_.hold <= sim->model->committed) {
            bi_lease_start(sim->core, &sop->op, sim->now);
            model_start_leases(sim->model, sop);
        }
        sim_answer(sim, sop);
    }
}

void sim_check_count(struct sim *sim, struct sim_op *sop)
{
    bi_slice_roll_back_count(sim->core, &sop->op);
    bool kick = sop->op.kind == BIDE_OP_KICK;
    expect(sim, "count of what is stored", (int64_t)model_stored_count(sim->model, sop),
           (int64_t)(kick ? sop->op.kick.count : sop->op.purge.count));
}

/* What is held becomes an error; what was reserved goes back. */
static void fail_held(struct sim *sim)
{
    while (sim->held.first != NULL) {
        struct sim_op *sop = sim->held.first;
        sim_ops_remove(&sim->held, sop);
        if (sop->op.kind == BIDE_OP_KICK || sop->op.kind == BIDE_OP_PURGE)
            sim_check_count(sim, sop);
        sim_abandon_op(sim, sop);
    }
}

/* ---- commits ---- */

static void seal(struct sim *sim)
{
    bool dirty = bi_journal_is_dirty(sim->core);
    sim_hash(sim, dirty);
    if (!dirty)
        return;
    sim->what = "seal";
    sim_trace(sim, NULL, BIDE_OK);
    bool armed = sim->alloc_fails && rng_one_in(&sim->rng, 4);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1, 1);
    int code = bi_journal_seal(sim->core, sim->now, &sim->batch);
    bool failed = armed && sim_alloc_disarm(&sim->alloc);
    if (failed)
        code = bi_journal_seal(sim->core, sim->now, &sim->batch);
    expect_code(sim, "seal", BIDE_OK, code);
    sim->batch_open = true;
    model_seal(sim->model, &sim->batch);
}

static void commit(struct sim *sim)
{
    uint64_t number = sim->batch.number;
    sim->what = "commit";
    sim_trace(sim, NULL, BIDE_OK);
    sim_store_apply(&sim->store, &sim->batch);
    bi_journal_committed(sim->core, &sim->batch);
    bi_journal_batch_done(sim->core, &sim->batch);
    sim->batch_open = false;
    expect(sim, "committed batch", (int64_t)number, (int64_t)bi_journal_committed_batch(sim->core));
    model_committed(sim->model, number);
    sim_check_completions(sim);
    answer_committed(sim);
}

static void roll_back(struct sim *sim)
{
    sim->what = "rollback";
    sim_trace(sim, NULL, BIDE_OK);
    bool armed = sim->alloc_fails && rng_one_in(&sim->rng, 2);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 3), 4);
    unsigned budget = 1 + (unsigned)rng_below(&sim->rng, rng_one_in(&sim->rng, 2) ? 4 : 100);
    while (bi_journal_rollback(sim->core, sim->now, budget))
        continue;
    sim->allowed_enomem = armed && sim_alloc_disarm(&sim->alloc);
    bi_journal_batch_done(sim->core, &sim->batch);
    sim->batch_open = false;
    model_rollback(sim->model);
    if (sim->allowed_enomem)
        model_resync(sim->model);
    sim->allowed_enomem = false;
    sim_fail_fetching(sim);
    fail_held(sim);
    sim_serve(sim);
    sim_listing_drop_all(sim);
}

void sim_fail_commit(struct sim *sim)
{
    if (!sim->options.journal)
        return;
    if (!sim->batch_open)
        seal(sim);
    if (sim->batch_open)
        roll_back(sim);
}

void sim_commit_all(struct sim *sim)
{
    if (!sim->options.journal)
        return;
    do {
        if (sim->batch_open)
            commit(sim);
        seal(sim);
    } while (sim->batch_open);
}

/* Seals the oldest batch, and stores it or fails to; false when it is not done with. */
static bool commit_one(struct sim *sim, unsigned failing_percent)
{
    if (!sim->batch_open) {
        seal(sim);
        if (!sim->batch_open || rng_one_in(&sim->rng, 4))
            return false;
    }
    if (rng_percent(&sim->rng, failing_percent))
        roll_back(sim);
    else
        commit(sim);
    return true;
}

void sim_commit_step(struct sim *sim)
{
    if (rng_one_in(&sim->rng, 30)) {
        sim_restart(sim);
        return;
    }
    if (rng_one_in(&sim->rng, 8))
        sim_compare_store(sim);
    /* Several batches may wait: often all of them are stored. */
    uint64_t most = sim->model->open_batch - sim->model->committed;
    uint64_t rounds = rng_one_in(&sim->rng, 3) ? 1 : 1 + rng_below(&sim->rng, 2 * most);
    bool more = commit_one(sim, 12);
    while (more && --rounds > 0)
        more = commit_one(sim, 1);
}

/* ---- the end ---- */

/* Ends the core; no memory may be left. */
static void drop_core(struct sim *sim)
{
    if (sim->batch_open)
        bi_journal_batch_done(sim->core, &sim->batch);
    sim->batch_open = false;
    sim_load_drop(sim);
    bi_core_free(sim->core);
    sim->core = NULL;
    expect(sim, "blocks of memory not freed", 0, sim->alloc.blocks);
    memset(sim->feeds, 0, sizeof sim->feeds);
    sim_listing_drop_all(sim);
}

/* No call waits any more. */
static void close_ops(struct sim *sim)
{
    sim->what = "close";
    bi_waiter_close_all(sim->core, UINT32_MAX);
    model_close(sim->model);
    sim_check_completions(sim);
    expect(sim, "ops that still wait", 0, (int64_t)sim->waiting.count);
    sim_end_fetching(sim);
}

void sim_close(struct sim *sim)
{
    close_ops(sim);
    while (sim->held.first != NULL) {
        struct sim_op *sop = sim->held.first;
        sim_ops_remove(&sim->held, sop);
        sim_op_put(sim, sop);
    }
    drop_core(sim);
}

static void stop_leases(struct sim *sim)
{
    sim->what = "interrupt";
    sim_trace(sim, NULL, BIDE_OK);
    bool armed = sim->alloc_fails && !sim_has_batches(sim) && rng_one_in(&sim->rng, 3);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 3), 1);
    unsigned budget = 1 + (unsigned)rng_below(&sim->rng, 20);
    while (bi_lease_prepare_stop(sim->core, sim->now, budget))
        continue;
    sim->allowed_enomem = armed && sim_alloc_disarm(&sim->alloc);
    model_stop(sim->model);
    if (sim->allowed_enomem)
        model_resync(sim->model);
    sim->allowed_enomem = false;
}

void sim_stop(struct sim *sim)
{
    close_ops(sim);
    stop_leases(sim);
    sim_commit_all(sim);
    expect_true(sim, sim->held.first == NULL, "an answer is held though everything is stored");
    sim_compare_store(sim);
    drop_core(sim);
}
