/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>
#include <string.h>

/* ---- ops and where they are ---- */

void sim_ops_add(struct sim_ops *ops, struct sim_op *sop)
{
    sop->next = NULL;
    sop->prev = ops->last;
    if (ops->last != NULL)
        ops->last->next = sop;
    else
        ops->first = sop;
    ops->last = sop;
    ops->count++;
}

void sim_ops_remove(struct sim_ops *ops, struct sim_op *sop)
{
    if (sop->prev != NULL)
        sop->prev->next = sop->next;
    else
        ops->first = sop->next;
    if (sop->next != NULL)
        sop->next->prev = sop->prev;
    else
        ops->last = sop->prev;
    ops->count--;
}

struct sim_op *sim_op_get(struct sim *sim, bide_op_kind kind)
{
    struct sim_op *sop = sim->idle.first;
    if (sop != NULL)
        sim_ops_remove(&sim->idle, sop);
    else
        sop = calloc(1, sizeof *sop);
    if (sop == NULL)
        abort();
    memset(&sop->op, 0, sizeof sop->op);
    memset(&sop->slices, 0, sizeof sop->slices);
    sop->op.kind = kind;
    sop->waiting = false;
    sop->completed = false;
    sop->finish_hold = 0;
    return sop;
}

static void drop_puts(const bide_put_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bide_buf_unref(items[i].buf);
}

static void drop_finishes(const bide_finish_item *items, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bide_buf_unref(items[i].buf);
}

/* Gives back what the arguments and results of an op hold. */
static void drop_references(struct sim_op *sop)
{
    bide_op *op = &sop->op;
    for (size_t i = 0; i < SIM_ITEMS; i++)
        if (sop->jobs[i].id != 0)
            bide_job_clear(&sop->jobs[i]);
    if (op->kind == BIDE_OP_PUT)
        drop_puts(&op->put, 1);
    else if (op->kind == BIDE_OP_PUT_MANY)
        drop_puts(op->put_many.items, op->put_many.count);
    else if (op->kind == BIDE_OP_DONE)
        drop_finishes(&op->finish, 1);
    else if (op->kind == BIDE_OP_FINISH_MANY)
        drop_finishes(op->finish_many.items, op->finish_many.count);
    else if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        drop_finishes(&op->finish_and_reserve.finish, 1);
    else if (op->kind == BIDE_OP_FINISH_AND_PUT) {
        drop_finishes(&op->finish_and_put.finish, 1);
        drop_puts(op->finish_and_put.items, op->finish_and_put.count);
    } else if (op->kind == BIDE_OP_BODY || op->kind == BIDE_OP_RESULT)
        bide_buf_unref(op->fetch.buf);
    else if (op->kind == BIDE_OP_WAIT)
        bide_buf_unref(op->wait.result);
    else if (op->kind == BIDE_OP_RESTORE)
        bide_job_clear(&sop->restored);
    else if (op->kind == BIDE_OP_ANNOUNCE)
        bide_buf_unref(op->announce.buf);
    for (size_t i = 0; op->kind == BIDE_OP_WORKERS && i < op->workers.count; i++)
        bide_announced_clear(&sop->workers[i]);
}

void sim_op_put(struct sim *sim, struct sim_op *sop)
{
    drop_references(sop);
    sim_reading_drop(&sop->reading);
    sim_ops_add(&sim->idle, sop);
}

static void free_ops(struct sim_ops *ops)
{
    struct sim_op *sop = ops->first;
    while (sop != NULL) {
        struct sim_op *next = sop->next;
        free(sop);
        sop = next;
    }
}

/* ---- the sink ---- */

static void complete(void *ctx, bide_op *op)
{
    struct sim *sim = ctx;
    struct sim_op *sop = (struct sim_op *)(void *)op;
    if (!sop->waiting || sop->completed)
        sim_fail(sim, "an op completed that was not waiting, or twice");
    if (sim->completed_count == sizeof sim->completed / sizeof sim->completed[0])
        sim_fail(sim, "too many completions in one step");
    sop->completed = true;
    sim->completed[sim->completed_count++] = sop;
}

void sim_check_completions(struct sim *sim)
{
    if (sim->completed_seen != sim->completed_count)
        sim_fail(sim, "a waiting %s completed with %s, which was not expected",
                 bide_op_name(sim->completed[sim->completed_seen]->op.kind),
                 bide_code_name(sim->completed[sim->completed_seen]->op.private_.status));
    struct sim_op *completed[SIM_COMPLETED];
    size_t count = 0;
    for (size_t i = 0; i < sim->completed_count; i++) {
        struct sim_op *sop = sim->completed[i];
        sim_ops_remove(&sim->waiting, sop);
        sop->waiting = false;
        completed[count++] = sop;
    }
    sim->completed_count = 0;
    sim->completed_seen = 0;
    for (size_t i = 0; i < count; i++) {
        if ((completed[i]->op.private_.flags & BI_BODY_MISSING) != 0)
            sim_await_bodies(sim, completed[i]);
        else
            sim_answer(sim, completed[i]);
    }
}

/* ---- one op ---- */

/* An op of several parts, of which one may fail when others have been done. */
static bool has_parts(bide_op_kind kind)
{
    return kind == BIDE_OP_KICK || kind == BIDE_OP_PURGE || kind == BIDE_OP_FINISH_AND_RESERVE;
}

/* What others do between the slices of an op. */
void sim_interleave(struct sim *sim)
{
    if (!sim->options.journal || rng_one_in(&sim->rng, 2))
        sim_do(sim, sim_generate(sim));
    else
        sim_commit_all(sim);
}

/* A commit fails. If a part of the op was not stored, the op ends: with the count of what was. */
static bool fails_on_its_way(struct sim *sim, struct sim_op *sop)
{
    sim_fail_commit(sim);
    if (sop->op.private_.hold <= sim->model->committed)
        return false;
    bi_slice_abandon(sim->core, &sop->op);
    model_end_slices(sim->model, sop);
    sim_check_count(sim, sop);
    sop->slices.failed = true;
    sop->op.private_.hold = 0;
    return true;
}

/* An op of several slices: the model does each of them after the core has. */
static int run_to_end(struct sim *sim, struct sim_op *sop, bool alone)
{
    int code = bi_core_run(sim->core, &sop->op, sim->now);
    while (code == BI_AGAIN) {
        sim->allowed_enomem = sim->alloc.failed != 0;
        model_run(sim->model, sop, code);
        sim_check_completions(sim);
        if (!alone && rng_one_in(&sim->rng, 2))
            sim_interleave(sim);
        if (!alone && !sim->paging && rng_one_in(&sim->rng, 20) && fails_on_its_way(sim, sop))
            return BIDE_EIO;
        if (bi_slice_needs_commit(sim->core, &sop->op))
            sim_commit_all(sim);
        code = bi_core_run(sim->core, &sop->op, sim->now);
    }
    return code;
}

/* If one of several parts lacks memory, it is unknown whether it began another batch. */
static bool may_fail(const struct sim *sim, bide_op_kind kind)
{
    return !sim_has_batches(sim) ||
           (kind != BIDE_OP_PUT_MANY && kind != BIDE_OP_FINISH_MANY &&
            kind != BIDE_OP_FINISH_AND_RESERVE && kind != BIDE_OP_KICK && kind != BIDE_OP_PURGE);
}

/* The lease of such a job ends before an op that names it, also if the op then fails. */
static bool has_overdue(const struct sim *sim)
{
    const struct model *m = sim->model;
    for (size_t i = 0; i < m->count; i++)
        if (model_is_overdue(m, m->jobs[i]))
            return true;
    return false;
}

/* Runs an op while allocations fail. False if that made it fail; then nothing has changed. */
static bool run_failing(struct sim *sim, struct sim_op *sop, int *code)
{
    uint64_t before = core_state_hash(sim->core);
    sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 5), 1 + (unsigned)rng_below(&sim->rng, 3));
    *code = run_to_end(sim, sop, true);
    sim->allowed_enomem = sim_alloc_disarm(&sim->alloc);
    if ((*code != BIDE_ENOMEM && *code != BIDE_EFULL) || has_parts(sop->op.kind))
        return true;
    expect_true(sim, sim->allowed_enomem || *code == BIDE_EFULL,
                "BIDE_ENOMEM though there was memory");
    expect_true(sim, core_state_hash(sim->core) == before,
                "an op that lacked memory has changed something");
    return false;
}

/* Runs an op. False if the limit of memory made it fail; then nothing has changed. */
static bool run_limited(struct sim *sim, struct sim_op *sop, int *code)
{
    bool limited = sim->options.limits.max_memory != 0;
    bool compare =
        limited && sim->model->count < 300 && rng_one_in(&sim->rng, 4) && !has_overdue(sim);
    uint64_t before = compare ? core_state_hash(sim->core) : 0;
    *code = run_to_end(sim, sop, false);
    if (*code != BIDE_EFULL || has_parts(sop->op.kind))
        return true;
    expect_true(sim, limited, "BIDE_EFULL though there is no limit");
    if (compare)
        expect_true(sim, core_state_hash(sim->core) == before,
                    "an op that answered BIDE_EFULL has changed something");
    return false;
}

/* A call that lacks room changes nothing, but the lease that it names has ended before it. */
static void end_overdue(struct model *m, const bide_op *op)
{
    m->now = m->sim->now;
    if (op->kind == BIDE_OP_FINISH_AND_PUT)
        model_end_if_overdue(m, op->finish_and_put.finish.id);
    else if (op->kind == BIDE_OP_DONE)
        model_end_if_overdue(m, op->finish.id);
    model_settle(m);
}

static void keep_feed(struct sim *sim, bide_subscription *feed)
{
    for (size_t i = 0; i < 4; i++) {
        if (sim->feeds[i] == NULL) {
            sim->feeds[i] = feed;
            return;
        }
    }
}

/* What the arguments pointed to is the caller's again, who writes something else there; unless the
 * op could not be kept as one that waits. */
static void scribble(struct sim_op *sop)
{
    memset(sop->topics, 0xa5, sizeof sop->topics);
    memset(sop->weights, 0xa5, sizeof sop->weights);
    memset(sop->holder, 0xa5, sizeof sop->holder);
}

/* The op waits, is answered, or its bodies must be read first. */
static void file(struct sim *sim, struct sim_op *sop, int code)
{
    bool lacks = code == BIDE_OK && (sop->op.private_.flags & BI_BODY_MISSING) != 0;
    if (code == BIDE_PENDING || (lacks && sop->op.private_.waiter != NULL))
        scribble(sop);
    sop->waiting = code == BIDE_PENDING;
    if (code == BIDE_PENDING)
        sim_ops_add(&sim->waiting, sop);
    else if (lacks)
        sim_await_bodies(sim, sop);
    else
        sim_answer(sim, sop);
}

void sim_do(struct sim *sim, struct sim_op *sop)
{
    int code = 0;
    bool answered = true;
    sim_load_named(sim, sop);
    sim->what = bide_op_name(sop->op.kind);
    sop->waiting = true; /* it may be served before run() returns */
    /* Comparing the state takes long when there are many jobs. */
    if (sim->alloc_fails && may_fail(sim, sop->op.kind) &&
        rng_one_in(&sim->rng, sim->model->count < 300 ? 5 : 200) && !has_overdue(sim))
        answered = run_failing(sim, sop, &code);
    else
        answered = run_limited(sim, sop, &code);
    sop->op.private_.status = code;
    sim->what = bide_op_name(sop->op.kind);
    sim_trace(sim, sop, code);
    if (answered && !sop->slices.failed)
        model_run(sim->model, sop, code);
    else if (!answered)
        end_overdue(sim->model, &sop->op);
    model_learn_delays(sim->model);
    bool lacked = sim->allowed_enomem;
    if (lacked)
        model_resync(sim->model);
    sim->allowed_enomem = false;
    if (code == BIDE_OK && sop->op.kind == BIDE_OP_SUBSCRIBE)
        keep_feed(sim, sop->op.subscription.handle);
    file(sim, sop, code);
    sim_check_completions(sim);
    if (lacked) /* calls that could not be served then are served now */
        sim_serve(sim);
}

/* ---- a run ---- */

static void cancel_some(struct sim *sim)
{
    struct sim_op *sop = sim->waiting.first;
    if (sop == NULL)
        return;
    for (uint64_t skip = rng_below(&sim->rng, sim->waiting.count); skip > 0; skip--)
        sop = sop->next;
    sim->what = "cancel of a waiting op";
    expect_true(sim, bi_waiter_cancel(sim->core, &sop->op), "a waiting op is not waiting");
    model_cancel_op(sim->model, sop);
    sim_check_completions(sim);
    expect_true(sim, !bi_waiter_cancel(sim->core, &sop->op),
                "an op that has completed was cancelled");
}

static void step(struct sim *sim)
{
    uint64_t kind = rng_below(&sim->rng, 1000);
    sim_clock_step(sim);
    if (!rng_one_in(&sim->rng, 10)) /* else ops see what is overdue */
        sim_tick(sim);
    sim_supply_step(sim);
    sim_load_step(sim);
    bool loaded = sim->loading.phase == LOADED;
    if (kind < 15)
        cancel_some(sim);
    else if (kind < 45 && loaded)
        sim_listing_step(sim);
    else if (kind < 48 && loaded)
        sim_compare_all(sim);
    else if (kind < 98 && sim->options.journal)
        sim_commit_step(sim);
    else if (kind < 99 && loaded && sim->floods && rng_one_in(&sim->rng, 6))
        sim_flood(sim);
    else
        sim_do(sim, sim_generate(sim));
}

static void begin(struct sim *sim)
{
    sim->rng.state = sim->seed * UINT64_C(0x2545f4914f6cdd1d);
    sim->now.mono = rng_one_in(&sim->rng, 3) ? 0 : rng_range(&sim->rng, 0, 1000000000000);
    sim->now.wall = INT64_C(1700000000000000) + rng_range(&sim->rng, 0, 1000000000000);
    sim->model = model_new(sim);
    sim_choose_options(sim);
    sim_clock_round(sim);
    sim->options.complete = complete;
    sim->options.ctx = sim;
    sim->store.next_id = (uint64_t)rng_range(&sim->rng, 1, 5);
    sim->store.next_token = (uint64_t)rng_range(&sim->rng, 1, 5);
    sim_new_core(sim);
}

static void end(struct sim *sim)
{
    sim_load_rest(sim);
    sim_tick(sim);
    sim_compare_all(sim);
    sim_hash(sim, core_state_hash(sim->core));
    if (rng_one_in(&sim->rng, 2))
        sim_empty(sim);
    sim_close(sim);
}

static void release(struct sim *sim)
{
    model_free(sim->model);
    sim_store_done(&sim->store);
    free_ops(&sim->idle);
    free_ops(&sim->waiting);
    free_ops(&sim->held);
    free_ops(&sim->lacking);
}

bool sim_run(const struct sim_config *config, uint64_t seed, uint64_t *hash)
{
    static struct sim sim;
    memset(&sim, 0, sizeof sim);
    sim.config = config;
    sim.seed = seed;
    sim.what = "begin";
    if (setjmp(sim.failed) != 0) {
        sim_listing_drop_all(&sim);
        release(&sim);
        return false;
    }
    begin(&sim);
    for (; sim.step < config->steps; sim.step++)
        step(&sim);
    end(&sim);
    *hash = sim.answers;
    release(&sim);
    return true;
}
