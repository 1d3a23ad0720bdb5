/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

/* ---- answers ---- */

static void tell_tokens(struct model *m, const bide_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (jobs[i].token > m->told_token)
            m->told_token = jobs[i].token;
}

static void tell_id(struct model *m, uint64_t id)
{
    if (id > m->told_id)
        m->told_id = id;
}

/* Whoever asked has the answer now: what it says may never be given again. */
static void answered(struct sim *sim, struct sim_op *sop)
{
    const bide_op *op = &sop->op;
    if (op->private_.status != BIDE_OK)
        return;
    if (op->kind == BIDE_OP_RESERVE)
        tell_tokens(sim->model, op->reserve.jobs, op->reserve.count);
    else if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        tell_tokens(sim->model, op->finish_and_reserve.reserve.jobs,
                    op->finish_and_reserve.reserve.count);
    else if (op->kind == BIDE_OP_RESERVE_JOB)
        tell_tokens(sim->model, op->reserve_job.job, 1);
    else if (op->kind == BIDE_OP_PUT)
        tell_id(sim->model, op->put.id);
    else if (op->kind == BIDE_OP_RESTORE)
        tell_id(sim->model, op->restore.id);
    for (size_t i = 0; op->kind == BIDE_OP_PUT_MANY && i < op->put_many.count; i++)
        if (op->put_many.items[i].status == BIDE_OK)
            tell_id(sim->model, op->put_many.items[i].id);
}

/* An answer may wait only for a batch that will come. */
static void check_hold(struct sim *sim, uint64_t hold)
{
    if (!model_will_come(sim->model, hold) || (!sim->batch_open && !bi_core_dirty(sim->core)))
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
        sim_answer(sim, sop);
    }
}

/* What is held becomes an error; what was reserved goes back. */
static void fail_held(struct sim *sim)
{
    while (sim->held.first != NULL) {
        struct sim_op *sop = sim->held.first;
        sim_ops_remove(&sim->held, sop);
        sim_give_up(sim, sop);
    }
}

/* ---- commits ---- */

static void seal(struct sim *sim)
{
    bool dirty = bi_core_dirty(sim->core);
    sim_hash(sim, dirty);
    if (!dirty)
        return;
    sim->what = "seal";
    sim_tell(sim, NULL, BIDE_OK);
    bool armed = sim->alloc_fails && rng_one_in(&sim->rng, 4);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1, 1);
    int code = bi_core_seal(sim->core, sim->now, &sim->batch);
    bool failed = armed && sim_alloc_disarm(&sim->alloc);
    if (failed)
        code = bi_core_seal(sim->core, sim->now, &sim->batch);
    expect_code(sim, "seal", BIDE_OK, code);
    sim->batch_open = true;
    model_seal(sim->model, &sim->batch);
}

static void commit(struct sim *sim)
{
    uint64_t number = sim->batch.number;
    sim->what = "commit";
    sim_tell(sim, NULL, BIDE_OK);
    sim_store_apply(&sim->store, &sim->batch);
    bi_core_committed(sim->core, &sim->batch);
    bi_batch_done(sim->core, &sim->batch);
    sim->batch_open = false;
    expect(sim, "committed batch", (int64_t)number, (int64_t)bi_core_committed_batch(sim->core));
    model_committed(sim->model, number);
    sim_all_seen(sim);
    answer_committed(sim);
}

static void roll_back(struct sim *sim)
{
    sim->what = "rollback";
    sim_tell(sim, NULL, BIDE_OK);
    bool armed = sim->alloc_fails && rng_one_in(&sim->rng, 2);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 3), 4);
    bi_core_rollback(sim->core, sim->now);
    sim->allowed_enomem = armed && sim_alloc_disarm(&sim->alloc);
    bi_batch_done(sim->core, &sim->batch);
    sim->batch_open = false;
    model_rollback(sim->model);
    if (sim->allowed_enomem)
        model_resync(sim->model);
    sim->allowed_enomem = false;
    sim_fail_lacking(sim);
    fail_held(sim);
    sim_serve(sim);
    sim_listing_drop_all(sim);
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
    if (rng_one_in(&sim->rng, 60)) {
        sim_crash(sim);
        return;
    }
    /* Several batches may wait: often all of them are stored. */
    uint64_t most = sim->model->gathering - sim->model->committed;
    uint64_t rounds = rng_one_in(&sim->rng, 3) ? 1 : 1 + rng_below(&sim->rng, 2 * most);
    bool more = commit_one(sim, 12);
    while (more && --rounds > 0)
        more = commit_one(sim, 1);
}

/* ---- crashes ---- */

/* Ends the core; no memory may be left. */
static void drop_core(struct sim *sim)
{
    if (sim->batch_open)
        bi_batch_done(sim->core, &sim->batch);
    sim->batch_open = false;
    bi_core_free(sim->core);
    sim->core = NULL;
    expect(sim, "blocks of memory not freed", 0, sim->alloc.blocks);
    memset(sim->feeds, 0, sizeof sim->feeds);
    sim_listing_drop_all(sim);
}

void sim_close(struct sim *sim)
{
    sim->what = "close";
    bi_core_close(sim->core);
    model_close(sim->model);
    sim_all_seen(sim);
    expect(sim, "ops that still wait", 0, (int64_t)sim->waiting.count);
    sim_end_lacking(sim);
    while (sim->held.first != NULL) {
        struct sim_op *sop = sim->held.first;
        sim_ops_remove(&sim->held, sop);
        sim_op_put(sim, sop);
    }
    drop_core(sim);
}

/* Another boot: both clocks show something else. */
static void reboot_clock(struct sim *sim)
{
    int64_t off = rng_one_in(&sim->rng, 2) ? rng_range(&sim->rng, 0, 20000000)
                                           : rng_range(&sim->rng, 0, INT64_C(86400000000));
    sim->now.wall += rng_one_in(&sim->rng, 4) ? -off : off;
    if (rng_one_in(&sim->rng, 2))
        sim->now.mono += off;
    else
        sim->now.mono = rng_range(&sim->rng, 0, 100000000);
    sim_clock_round(sim);
}

void sim_new_core(struct sim *sim)
{
    sim->options.next_id = sim->store.next_id;
    sim->options.next_token = sim->store.next_token;
    if (sim->alloc_fails)
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 10), 1);
    sim->core = bi_core_new(&sim->options, sim->now);
    if (sim->alloc_fails && sim_alloc_disarm(&sim->alloc) && sim->core == NULL)
        expect(sim, "blocks of memory not freed", 0, sim->alloc.blocks);
    if (sim->core == NULL)
        sim->core = bi_core_new(&sim->options, sim->now);
    expect_true(sim, sim->core != NULL, "no core could be made");
    model_reset(sim->model, sim->options.next_id, sim->options.next_token);
    sim->memory = sim_memory(sim);
}

/* What a plain image does not say may be anything. */
static void scribble(struct sim *sim, struct bi_image *image)
{
    image->max_retries = (int32_t)rng_range(&sim->rng, BIDE_NO_RETRY_LIMIT, 3);
    image->failures = (uint32_t)rng_below(&sim->rng, 3);
    image->expires_at = rng_range(&sim->rng, 0, 1);
    image->retain = rng_range(&sim->rng, 0, 1000);
    image->reserves = image->kicks = (uint32_t)rng_below(&sim->rng, 3);
    image->ready = image->reserved = image->buried = rng_range(&sim->rng, 0, 1);
}

static void load_job(struct sim *sim, const struct bi_image *stored)
{
    struct bi_image image = *stored;
    if (sim_has_cache(sim) && rng_one_in(&sim->rng, 2))
        image.body = NULL;
    if (image.plain)
        scribble(sim, &image);
    if (sim->alloc_fails && rng_one_in(&sim->rng, 8))
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 4), 1);
    int code = bi_core_load(sim->core, &image, sim->now);
    if (sim_alloc_disarm(&sim->alloc) && code == BIDE_ENOMEM) {
        model_resync(sim->model);
        code = bi_core_load(sim->core, &image, sim->now);
    }
    sim->alloc.failed = 0;
    expect_code(sim, "load", BIDE_OK, code);
    image.body = stored->body;
    model_load(sim->model, &image);
}

static void load_everything(struct sim *sim)
{
    model_begin_load(sim->model, &sim->store);
    for (size_t i = 0; i < sim->store.count; i++)
        load_job(sim, &sim->store.jobs[i]);
    for (int name = 0; name < SIM_NAMES; name++) {
        struct bi_image image = {.due = sim->store.pauses[name]};
        if (image.due == 0)
            continue;
        sim_copy_name(image.topic, name);
        expect_code(sim, "load_pause", BIDE_OK, bi_core_load_pause(sim->core, &image, sim->now));
        model_load_pause(sim->model, name, image.due);
    }
}

/* Jobs come in the order of their ids; the lists that have an order of their own get it now. */
static void order_everything(struct sim *sim)
{
    struct bi_ordering ordering = {0};
    while (bi_core_order_collect(sim->core, &ordering, 3))
        continue;
    bi_core_order_sort(&ordering);
    while (bi_core_order_apply(sim->core, &ordering, 3))
        continue;
    expect_true(sim, !ordering.failed, "ordering failed though there was memory");
    bi_core_order_done(sim->core, &ordering);
}

void sim_crash(struct sim *sim)
{
    sim->what = "crash";
    sim_tell(sim, NULL, BIDE_OK);
    if (sim->batch_open && rng_one_in(&sim->rng, 2))
        sim_store_apply(&sim->store, &sim->batch);
    sim_close(sim);
    sim->what = "load";
    reboot_clock(sim);
    sim_new_core(sim);
    expect_true(sim, sim->store.next_id > sim->model->told_id,
                "after a restart an id would be given again");
    load_everything(sim);
    order_everything(sim);
    model_learn_delays(sim->model);
    sim_tick(sim);
    sim_compare_all(sim);
}
