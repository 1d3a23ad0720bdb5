/* SPDX-License-Identifier: MIT */
/*
 * body_fetch - bodies that only the store has: read at once or some steps later, in any order, and
 * now and then not at all.
 */
#include "model.h"

#include <string.h>

#define MANY_LACKING 40

/* ---- reading ---- */

static bide_buf *stored_body(const struct sim *sim, uint64_t id)
{
    const struct bi_image *image = sim_store_find(&sim->store, id);
    return image != NULL ? bide_buf_ref(image->body) : NULL;
}

/* What the op shows, and which bodies it lacks. */
static void list_lacking(struct sim *sim, struct sim_op *sop, struct sim_reading *reading)
{
    struct bi_body listed[SIM_ITEMS];
    memset(reading, 0, sizeof *reading);
    size_t got = 1;
    while (got > 0) { /* some at a time */
        size_t most = 1 + rng_below(&sim->rng, 3);
        got = bi_body_fetch_missing(&sop->op, reading->count, listed, most);
        expect_true(sim, got <= most && reading->count + got <= SIM_ITEMS,
                    "too many lacking bodies were listed");
        memcpy(&reading->bodies[reading->count], listed, got * sizeof listed[0]);
        reading->count += got;
    }
    expect_true(sim, reading->count > 0, "an op lacks bodies, but none is listed");
}

static void read_bodies(struct sim *sim, struct sim_reading *reading)
{
    static const char *const reasons[] = {"the disk is tired", "checksum", "x"};
    for (size_t i = 0; i < reading->count; i++) {
        struct bi_body *body = &reading->bodies[i];
        body->body = stored_body(sim, body->id);
        body->reason = body->body == NULL ? "there is no such row" : NULL;
        if (sim->eager || body->body == NULL || !rng_percent(&sim->rng, sim->unreadable))
            continue;
        bide_buf_unref(body->body);
        body->body = NULL;
        body->reason = reasons[rng_below(&sim->rng, 3)];
    }
    reading->done = true;
}

void sim_reading_drop(struct sim_reading *reading)
{
    for (size_t i = 0; i < reading->count; i++)
        bide_buf_unref(reading->bodies[i].body);
    memset(reading, 0, sizeof *reading);
}

/* ---- ops that lack bodies ---- */

void sim_await_bodies(struct sim *sim, struct sim_op *sop)
{
    sop->waiting = false;
    sop->completed = false;
    list_lacking(sim, sop, &sop->reading);
    for (size_t i = 0; i < sop->reading.count; i++)
        expect_true(sim, sim_store_find(&sim->store, sop->reading.bodies[i].id) != NULL,
                    "a body is neither in memory nor in the store");
    if (rng_one_in(&sim->rng, 2))
        read_bodies(sim, &sop->reading);
    sim_ops_add(&sim->lacking, sop);
    if (sim->eager || sim->lacking.count > MANY_LACKING)
        sim_supply(sim, sop);
}

/* Where an op stands after its bodies have come. */
static void file(struct sim *sim, struct sim_op *sop, int code)
{
    if (code == BI_AGAIN) {
        sim_await_bodies(sim, sop);
        return;
    }
    sop->op.private_.status = code;
    if (code == BIDE_PENDING) {
        sop->waiting = true;
        sim_ops_add(&sim->waiting, sop);
    } else {
        sim_answer(sim, sop);
    }
}

void sim_supply(struct sim *sim, struct sim_op *sop)
{
    sim_ops_remove(&sim->lacking, sop);
    if (!sop->reading.done)
        read_bodies(sim, &sop->reading);
    struct sim_reading reading = sop->reading;
    memset(&sop->reading, 0, sizeof sop->reading);
    model_shown(sop, &reading);
    /* If one of several changes lacks memory, it is unknown whether it began another batch. */
    bool may_fail = !sim_has_batches(sim) || sop->op.kind == BIDE_OP_RESERVE_JOB;
    bool armed = sim->alloc_fails && !sim->eager && may_fail && rng_one_in(&sim->rng, 4);
    sop->waiting = true; /* it may be served before supply() returns */
    sim->what = "supply";
    if (armed)
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 3), 1);
    int code = bi_body_fetch_supply(sim->core, &sop->op, reading.bodies, sim->now);
    sim->allowed_enomem = armed && sim_alloc_disarm(&sim->alloc);
    sim_trace(sim, sop, code);
    model_supply(sim->model, sop, &reading, code);
    bool lacked = sim->allowed_enomem;
    if (lacked)
        model_resync(sim->model);
    sim->allowed_enomem = false;
    sim_reading_drop(&reading);
    if (!sop->completed) {
        sop->waiting = false;
        file(sim, sop, code);
    } else {
        sim_ops_add(&sim->waiting, sop);
    }
    sim_check_completions(sim);
    if (lacked) /* calls that could not be served then are served now */
        sim_serve(sim);
}

/* The op is answered with an error instead: what it took goes back. */
void sim_abandon_op(struct sim *sim, struct sim_op *sop)
{
    bool armed = sim->alloc_fails && !sim_has_batches(sim) && rng_one_in(&sim->rng, 3);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1, 1);
    bi_lease_undo_reserve(sim->core, &sop->op, sim->now);
    sim->allowed_enomem = armed && sim_alloc_disarm(&sim->alloc);
    model_undo_op(sim->model, sop);
    if (sim->allowed_enomem)
        model_resync(sim->model);
    sim->allowed_enomem = false;
    bi_waiter_unpark(sim->core, &sop->op);
    model_unpark(sim->model, sop);
    expect_true(sim, (sop->op.private_.flags & BI_BODY_MISSING) == 0,
                "an op lacks bodies for ever");
    sim_reading_drop(&sop->reading);
    sim_op_put(sim, sop);
}

void sim_serve(struct sim *sim)
{
    bi_core_serve(sim->core, sim->now);
    model_settle(sim->model);
    sim_check_completions(sim);
}

void sim_fail_fetching(struct sim *sim)
{
    struct sim_op *sop = sim->lacking.first;
    while (sop != NULL) {
        struct sim_op *next = sop->next;
        if (sop->op.private_.hold > sim->model->committed) {
            sim_ops_remove(&sim->lacking, sop);
            sim_abandon_op(sim, sop);
        }
        sop = next;
    }
}

void sim_end_fetching(struct sim *sim)
{
    bool supplied = rng_one_in(&sim->rng, 2);
    while (sim->lacking.first != NULL) {
        struct sim_op *sop = sim->lacking.first;
        if (supplied) {
            sim_supply(sim, sop);
            continue;
        }
        sim_ops_remove(&sim->lacking, sop);
        sim_abandon_op(sim, sop);
    }
}

/* ---- ahead ---- */

static uint64_t shown_memory(struct sim *sim)
{
    uint64_t bytes = 0;
    for (size_t i = 0; i < sim->model->count; i++)
        bytes += sim_has_body(sim, sim->model->jobs[i]) ? sim->model->jobs[i]->body.size : 0;
    return bytes;
}

/* A body that was read ahead; what the core says that it uses must follow. */
static void keep_body(struct sim *sim, uint64_t id)
{
    bide_buf *body = stored_body(sim, id);
    bool compare =
        sim->loading.phase == LOADED && sim->model->count < 100 && rng_one_in(&sim->rng, 8);
    if (body == NULL)
        return;
    uint64_t before = compare ? sim_memory(sim) - shown_memory(sim) : 0;
    if (sim->alloc_fails && rng_one_in(&sim->rng, 4))
        sim_alloc_arm(&sim->alloc, 1, 1);
    bi_body_fetch_cache(sim->core, id, body);
    sim_alloc_disarm(&sim->alloc);
    if (compare)
        expect(sim, "memory but for bodies", (int64_t)before,
               (int64_t)(sim_memory(sim) - shown_memory(sim)));
}

static void check_foreseen(struct sim *sim, const struct mjob *taken, const struct bi_body *body)
{
    const struct mjob *job = model_find(sim->model, body->id);
    if (job == NULL || job->state != BIDE_STATE_READY || job->name != taken->name ||
        sim_has_body(sim, job))
        sim_fail(sim, "job %llu will not be wanted next", (unsigned long long)body->id);
    expect(sim, "size of a body", (int64_t)job->body.size, body->size);
}

static void read_ahead(struct sim *sim)
{
    struct bi_body bodies[6];
    uint64_t id = sim_pick_id(sim);
    uint64_t max_bytes = rng_below(&sim->rng, 200);
    const struct mjob *job = model_find(sim->model, id);
    sim->what = "read ahead";
    size_t count =
        bi_body_fetch_readahead(sim->core, id, bodies, 1 + rng_below(&sim->rng, 6), max_bytes);
    uint64_t bytes = 0;
    expect_true(sim, count == 0 || (job != NULL && job->state == BIDE_STATE_RESERVED),
                "something is foreseen for a job that is not reserved");
    for (size_t i = 0; i < count; i++) {
        check_foreseen(sim, job, &bodies[i]);
        bytes += bodies[i].size;
    }
    expect_true(sim, bytes <= max_bytes, "more is foreseen than was asked for");
    for (size_t i = 0; i < count; i++)
        keep_body(sim, bodies[i].id);
    if (rng_one_in(&sim->rng, 2))
        keep_body(sim, sim_pick_id(sim));
}

/* ---- steps ---- */

bool sim_has_body(struct sim *sim, const struct mjob *job)
{
    bide_op op = {.kind = BIDE_OP_BODY};
    op.fetch.id = job->id;
    expect_code(sim, "body", BIDE_OK, bi_core_run(sim->core, &op, sim->now));
    bide_buf_unref(op.fetch.buf);
    return (op.private_.flags & BI_BODY_MISSING) == 0;
}

/* What is not stored is in memory; of what is, no more than the cache holds. */
void sim_check_cache(struct sim *sim)
{
    uint64_t cached = 0;
    for (size_t i = 0; i < sim->model->count; i++) {
        const struct mjob *job = sim->model->jobs[i];
        bool has = sim_has_body(sim, job);
        if (!has && sim_store_find(&sim->store, job->id) == NULL)
            sim_fail(sim, "the body of job %llu is nowhere", (unsigned long long)job->id);
        if (has && job->undo == NULL)
            cached += job->body.size;
    }
    if (sim_has_cache(sim) && cached > sim->options.limits.cache_bytes)
        sim_fail(sim, "%llu bytes of bodies are in memory", (unsigned long long)cached);
}

void sim_end_job(struct sim *sim, uint64_t id)
{
    struct sim_op *sop = sim_op_get(sim, BIDE_OP_CANCEL);
    sop->op.lease.id = id;
    sim_do(sim, sop);
    if (rng_one_in(&sim->rng, 2))
        sim_commit_all(sim);
}

void sim_supply_step(struct sim *sim)
{
    if (!sim_has_cache(sim))
        return;
    if (rng_one_in(&sim->rng, 20))
        read_ahead(sim);
    struct sim_op *sop = sim->lacking.first;
    if (sop == NULL || !rng_one_in(&sim->rng, 4))
        return;
    for (uint64_t skip = rng_below(&sim->rng, sim->lacking.count); skip > 0; skip--)
        sop = sop->next;
    if (rng_one_in(&sim->rng, 5)) {
        sim_end_job(sim, sop->reading.bodies[0].id);
        return;
    }
    sim->what = "give up";
    if (rng_one_in(&sim->rng, 10)) {
        expect_true(sim, !bi_waiter_cancel(sim->core, &sop->op), "an op that lacks was cancelled");
    } else if (rng_one_in(&sim->rng, 20)) {
        sim_ops_remove(&sim->lacking, sop);
        sim_abandon_op(sim, sop);
        sim_serve(sim);
    } else {
        sim_supply(sim, sop);
    }
}
