/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

/* A random reserved job; NULL if chance finds none. */
static const struct mjob *reserved_job(struct sim *sim)
{
    const struct model *m = sim->model;
    size_t start = m->count != 0 ? rng_below(&sim->rng, m->count) : 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct mjob *job = m->jobs[(start + i) % m->count];
        if (job->state == BIDE_STATE_RESERVED)
            return job;
    }
    return NULL;
}

static void remember(struct sim *sim, uint64_t id, uint64_t token)
{
    size_t at = sim->old_count++ % 64;
    sim->old_ids[at] = id;
    sim->old_tokens[at] = token;
}

/* Mostly a valid lease; else none, an expired one, that of another job, or a random one. */
static void pick_lease(struct sim *sim, uint64_t *id, uint64_t *token)
{
    const struct mjob *job = reserved_job(sim);
    uint64_t kind = rng_below(&sim->rng, 100);
    if (kind < 70 && job != NULL) {
        *id = job->id;
        *token = job->token;
        remember(sim, *id, *token);
        return;
    }
    *id = sim_pick_id(sim);
    *token = 0;
    if (kind < 84)
        return;
    if (kind < 92 && sim->old_count != 0) {
        size_t at = rng_below(&sim->rng, sim->old_count < 64 ? sim->old_count : 64);
        *id = sim->old_ids[at];
        *token = sim->old_tokens[at];
    } else {
        *token = job != NULL ? job->token : 1 + rng_below(&sim->rng, BIDE_ID_MAX);
    }
}

void sim_gen_lease(struct sim *sim, struct sim_op *sop)
{
    pick_lease(sim, &sop->op.lease.id, &sop->op.lease.token);
}

/* ---- finishing ---- */

void sim_pick_finish(struct sim *sim, char *room, bide_finish_item *item)
{
    struct rng *rng = &sim->rng;
    pick_lease(sim, &item->id, &item->token);
    item->keep = rng_one_in(rng, 2);
    item->retain_ms = rng_one_in(rng, 2)   ? BIDE_KEEP
                      : rng_one_in(rng, 3) ? 0
                                           : sim_pick_retain(sim);
    item->result = sim_pick_text(sim, room, rng_one_in(rng, 10) ? 60 : 12);
    if (rng_one_in(rng, 4)) {
        item->buf = bide_buf_new(item->result.data, item->result.size);
        item->result = (bide_slice){NULL, 0};
    }
}

void sim_gen_done(struct sim *sim, struct sim_op *sop)
{
    sim_pick_finish(sim, sop->bytes[0], &sop->op.finish);
}

void sim_gen_finish_many(struct sim *sim, struct sim_op *sop)
{
    size_t count = (size_t)rng_range(&sim->rng, 1, SIM_ITEMS);
    memset(sop->finishes, 0, sizeof sop->finishes);
    for (size_t i = 0; i < count; i++)
        sim_pick_finish(sim, sop->bytes[i], &sop->finishes[i]);
    sop->op.finish_many.items = sop->finishes;
    sop->op.finish_many.count = count;
}

/* ---- reserving ---- */

static void pick_topics(struct sim *sim, struct sim_op *sop, bide_reserve_args *args)
{
    size_t count = (size_t)rng_range(&sim->rng, 1, SIM_TOPICS);
    size_t taken = 0;
    bool seen[SIM_NAMES] = {false};
    while (taken < count) {
        int name = sim_pick_name(sim);
        if (seen[name] && !rng_one_in(&sim->rng, 8))
            continue;
        seen[name] = true;
        sop->weights[taken] = (uint32_t)rng_range(&sim->rng, 1, 5);
        sop->topics[taken++] = sim_slice(sim_names[name]);
    }
    args->topics = sop->topics;
    args->topic_count = count;
}

static void pick_reserve(struct sim *sim, struct sim_op *sop, bide_reserve_args *args)
{
    struct rng *rng = &sim->rng;
    pick_topics(sim, sop, args);
    args->strategy = (bide_strategy)rng_below(rng, 4);
    if (args->strategy == BIDE_WEIGHTED && rng_one_in(rng, 2))
        args->weights = sop->weights;
    args->jobs = sop->jobs;
    args->holder = sim_pick_holder(sim, sop);
    args->job_max = rng_one_in(rng, 4) ? (size_t)rng_range(rng, 2, SIM_ITEMS) : 1;
    if (sim->waiting.count < 30 && rng_percent(rng, 60))
        args->timeout_ms = rng_one_in(rng, 8) ? BIDE_FOREVER : sim_pick_ms(sim);
}

void sim_gen_reserve(struct sim *sim, struct sim_op *sop)
{
    pick_reserve(sim, sop, &sop->op.reserve);
}

void sim_gen_finish_and_reserve(struct sim *sim, struct sim_op *sop)
{
    sim_pick_finish(sim, sop->bytes[0], &sop->op.finish_and_reserve.finish);
    pick_reserve(sim, sop, &sop->op.finish_and_reserve.reserve);
}

/* ---- giving back ---- */

static int64_t pick_priority(struct sim *sim)
{
    return rng_one_in(&sim->rng, 2) ? BIDE_KEEP : rng_range(&sim->rng, 1020, 1028);
}

void sim_gen_release(struct sim *sim, struct sim_op *sop)
{
    pick_lease(sim, &sop->op.release.id, &sop->op.release.token);
    sop->op.release.priority = pick_priority(sim);
    sop->op.release.delay_ms = rng_one_in(&sim->rng, 2) ? 0 : sim_pick_ms(sim);
}

void sim_gen_fail(struct sim *sim, struct sim_op *sop)
{
    pick_lease(sim, &sop->op.fail.id, &sop->op.fail.token);
    sop->op.fail.error = sim_pick_text(sim, sop->bytes[0], 63);
    if (rng_one_in(&sim->rng, 4))
        sop->op.fail.kind = BIDE_FAILURE_DISCONNECTED;
    sop->op.fail.retry_in_ms = BIDE_KEEP;
    if (rng_one_in(&sim->rng, 3))
        sop->op.fail.retry_in_ms = rng_one_in(&sim->rng, 3) ? 0 : sim_pick_ms(sim);
}

void sim_gen_bury(struct sim *sim, struct sim_op *sop)
{
    pick_lease(sim, &sop->op.bury.id, &sop->op.bury.token);
    sop->op.bury.priority = pick_priority(sim);
    sop->op.bury.reason = sim_pick_text(sim, sop->bytes[0], 63);
}

/* ---- touching ---- */

/* As long as the lease may last at all, if that is a whole number of milliseconds. */
static int64_t longest_extension(struct sim *sim, uint64_t id)
{
    const struct mjob *job = model_find(sim->model, id);
    int64_t total = sim->options.limits.max_touch_total;
    if (job == NULL || job->state != BIDE_STATE_RESERVED || total == 0)
        return 0;
    int64_t left = (job->leased + total - sim->now.mono) / US_PER_MS;
    return left > 0 ? left : 0;
}

/* A lease that may be touched from this very moment on, if there is one. */
static void pick_early_touch(struct sim *sim, bide_touch_item *item)
{
    const struct model *m = sim->model;
    for (size_t i = 0; i < m->count; i++) {
        const struct mjob *job = m->jobs[i];
        if (job->state == BIDE_STATE_RESERVED &&
            job->last_touch + sim->options.limits.min_touch_interval == sim->now.mono) {
            item->id = job->id;
            item->token = job->token;
        }
    }
}

static void pick_touch(struct sim *sim, char *room, bide_touch_item *item)
{
    pick_lease(sim, &item->id, &item->token);
    item->extend_ms = rng_one_in(&sim->rng, 2) ? 0 : sim_pick_ms(sim);
    if (rng_one_in(&sim->rng, 2))
        pick_early_touch(sim, item);
    if (rng_one_in(&sim->rng, 3))
        item->extend_ms = longest_extension(sim, item->id);
    if (rng_one_in(&sim->rng, 6))
        item->extend_ms = BIDE_KEEP;
    if (rng_one_in(&sim->rng, 2))
        item->progress = sim_pick_text(sim, room, 20);
}

void sim_gen_touch(struct sim *sim, struct sim_op *sop)
{
    pick_touch(sim, sop->bytes[0], &sop->op.touch);
}

void sim_gen_touch_many(struct sim *sim, struct sim_op *sop)
{
    size_t count = (size_t)rng_range(&sim->rng, 1, SIM_ITEMS);
    memset(sop->touches, 0, sizeof sop->touches);
    for (size_t i = 0; i < count; i++)
        pick_touch(sim, sop->bytes[i], &sop->touches[i]);
    sop->op.touch_many.items = sop->touches;
    sop->op.touch_many.count = count;
}
