/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

/* Around now, often exactly now. */
static int64_t pick_wall_ms(struct sim *sim, int64_t before, int64_t behind)
{
    int64_t now = sim->now.wall / US_PER_MS;
    return rng_one_in(&sim->rng, 8) ? now : now + rng_range(&sim->rng, -before, behind);
}

static void pick_schedule(struct sim *sim, bide_put_options *options)
{
    struct rng *rng = &sim->rng;
    uint64_t kind = rng_below(rng, 100);
    if (kind < 30)
        options->delay_ms = sim_pick_ms(sim);
    else if (kind < 50)
        options->run_at_ms = pick_wall_ms(sim, 1000, 8000);
    else if (kind < 52)
        options->run_at_ms = BIDE_TIMESTAMP_MAX_MS;
    if (rng_one_in(rng, 6))
        options->expires_at_ms = pick_wall_ms(sim, 500, 20000);
    if (options->run_at_ms != 0 && rng_one_in(rng, 10))
        options->expires_at_ms = options->run_at_ms;
}

/* Whatever the topic has. */
static void pick_no_defaults(struct rng *rng, bide_put_options *options)
{
    if (rng_one_in(rng, 3))
        options->ttr_ms = BIDE_NO_DEFAULT;
    if (rng_one_in(rng, 3))
        options->max_retries = BIDE_NO_DEFAULT;
    if (rng_one_in(rng, 3))
        options->backoff_base_ms = BIDE_NO_DEFAULT;
    if (rng_one_in(rng, 3))
        options->backoff_max_ms = BIDE_NO_DEFAULT;
    if (rng_one_in(rng, 3))
        options->retain_ms = BIDE_NO_DEFAULT;
    if (rng_one_in(rng, 3))
        options->expires_at_ms = BIDE_NO_DEFAULT;
    if (rng_one_in(rng, 3))
        options->fallbacks = BIDE_FALLBACK_RETRIES;
}

static void pick_options(struct sim *sim, bide_put_options *options)
{
    struct rng *rng = &sim->rng;
    *options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    options->priority = (uint32_t)rng_range(rng, 1021, 1027);
    if (rng_one_in(rng, 20))
        options->priority = rng_one_in(rng, 2) ? 0 : UINT32_MAX;
    pick_schedule(sim, options);
    options->ttr_ms = rng_one_in(rng, 3) ? 0 : sim_pick_ms(sim);
    if (rng_one_in(rng, 3))
        options->ttr_ms = rng_range(rng, 60000, 600000);
    if (rng_one_in(rng, 3))
        options->key = sim_slice(sim_keys[rng_below(rng, SIM_KEYS)]);
    options->conflict = (bide_conflict)rng_below(rng, BIDE_SKIP + 1);
    options->key_hold_retained = rng_one_in(rng, 3);
    options->max_retries = (int32_t)rng_range(rng, BIDE_NO_RETRY_LIMIT, 3);
    if (rng_one_in(rng, 2))
        options->backoff_base_ms = rng_range(rng, 1, 2000);
    if (rng_one_in(rng, 2))
        options->backoff_max_ms = rng_range(rng, 1, 5000);
    if (rng_one_in(rng, 2))
        options->retain_ms = sim_pick_retain(sim);
    if (rng_one_in(rng, 4))
        pick_no_defaults(rng, options);
}

static void pick_item(struct sim *sim, struct sim_op *sop, size_t at, bide_put_item *item)
{
    item->topic = sim_slice(sim_names[sim_pick_name(sim)]);
    item->body = sim_pick_text(sim, sop->bytes[at], rng_one_in(&sim->rng, 10) ? 60 : 16);
    if (rng_one_in(&sim->rng, 4)) {
        item->buf = bide_buf_new(item->body.data, item->body.size);
        item->body = (bide_slice){NULL, 0};
    }
    if (rng_one_in(&sim->rng, 6))
        return;
    pick_options(sim, &sop->options[at]);
    item->options = &sop->options[at];
}

void sim_gen_put(struct sim *sim, struct sim_op *sop)
{
    pick_item(sim, sop, 0, &sop->op.put);
}

void sim_gen_put_many(struct sim *sim, struct sim_op *sop)
{
    size_t count = (size_t)rng_range(&sim->rng, 1, SIM_ITEMS);
    memset(sop->puts, 0, sizeof sop->puts);
    for (size_t i = 0; i < count; i++)
        pick_item(sim, sop, i, &sop->puts[i]);
    sop->op.put_many.items = sop->puts;
    sop->op.put_many.count = count;
}

void sim_gen_finish_and_put(struct sim *sim, struct sim_op *sop)
{
    bide_finish_and_put_args *args = &sop->op.finish_and_put;
    struct rng *rng = &sim->rng;
    /* The last room for bytes is that of the job. */
    char *room = sop->bytes[SIM_ITEMS - 1];

    sim_pick_finish(sim, room, &args->finish);
    args->ending = (bide_ending)rng_below(rng, BIDE_ENDING_BURY + 1);
    args->priority = rng_one_in(rng, 2) ? BIDE_KEEP : rng_range(rng, 1020, 1028);
    if (rng_one_in(rng, 3))
        args->delay_ms = sim_pick_ms(sim);
    else if (rng_one_in(rng, 2))
        args->run_at_ms = pick_wall_ms(sim, 1000, 8000);
    if (args->ending == BIDE_ENDING_BURY)
        args->reason = sim_pick_text(sim, room, 60);

    args->count = (size_t)rng_range(rng, 1, SIM_ITEMS - 1);
    args->items = sop->puts;
    memset(sop->puts, 0, sizeof sop->puts);
    for (size_t i = 0; i < args->count; i++)
        pick_item(sim, sop, i, &sop->puts[i]);
}

/* ---- restore ---- */

static int64_t pick_moment(struct sim *sim)
{
    if (rng_one_in(&sim->rng, 3))
        return 0;
    return sim->now.wall / US_PER_MS - rng_range(&sim->rng, 0, 100000);
}

static void pick_history(struct sim *sim, bide_job *job)
{
    struct rng *rng = &sim->rng;
    job->failures = (uint32_t)rng_below(rng, 3);
    job->reserves = (uint32_t)rng_below(rng, 2);
    job->timeouts = (uint32_t)rng_below(rng, 9);
    job->releases = (uint32_t)rng_below(rng, 9);
    job->fails = (uint32_t)rng_below(rng, 9);
    job->buries = (uint32_t)rng_below(rng, 9);
    job->kicks = (uint32_t)rng_below(rng, 9);
    job->touches = (uint32_t)rng_below(rng, 9);
    job->created_ms = pick_moment(sim);
    job->ready_ms = pick_moment(sim);
    job->reserved_ms = pick_moment(sim);
    if (rng_one_in(rng, 4))
        job->reserved_ms = job->ready_ms;
    job->touched_ms = pick_moment(sim);
    job->buried_ms = pick_moment(sim);
    job->done_ms = pick_moment(sim);
}

static void pick_failures(struct sim *sim, struct sim_op *sop, bide_job *job)
{
    job->history = sop->history;
    for (int i = (int)rng_below(&sim->rng, SIM_RESTORED_FAILURES + 1); i > 0; i--) {
        char text[SIM_TEXT], holder[SIM_TEXT];
        const bide_failure failure = {
            .kind = (bide_failure_kind)rng_below(&sim->rng, BIDE_FAILURE_KINDS),
            .attempt = (uint32_t)rng_below(&sim->rng, 9),
            .at_ms = pick_moment(sim),
            .error = sim_pick_text(sim, text, 63),
            .holder = sim_pick_text(sim, holder, 20),
        };
        job->history_size += bi_job_history_encode(&failure, sop->history + job->history_size);
    }
}

static void pick_restored_texts(struct sim *sim, struct sim_op *sop, bide_job *job)
{
    bide_slice text = sim_pick_text(sim, sop->bytes[0], rng_one_in(&sim->rng, 10) ? 60 : 16);
    job->body = text.data;
    job->body_size = text.size;
    if (rng_one_in(&sim->rng, 3)) {
        text = sim_slice(sim_keys[rng_below(&sim->rng, SIM_KEYS)]);
        job->key = text.data;
        job->key_size = text.size;
    }
    text = sim_pick_text(sim, sop->bytes[1], 63);
    if (text.size != 0) {
        job->last_error = text.data;
        job->last_error_size = text.size;
    }
    text = sim_pick_text(sim, sop->bytes[2], 30);
    if (job->state == BIDE_STATE_DONE && text.size != 0) {
        job->result = text.data;
        job->result_size = text.size;
    }
}

void sim_gen_restore_as(struct sim *sim, struct sim_op *sop, int name, bide_state state)
{
    struct rng *rng = &sim->rng;
    bide_job *job = &sop->restored;
    memset(job, 0, sizeof *job);
    sim_copy_name(job->topic, name);
    job->state = state;
    job->priority = (uint32_t)rng_range(rng, 1021, 1027);
    job->ttr_ms = rng_one_in(rng, 3) ? 0 : sim_pick_ms(sim);
    job->left_ms = sim_pick_retain(sim);
    job->run_at_wall = rng_one_in(rng, 2);
    if (job->state == BIDE_STATE_DELAYED)
        job->run_at_ms = pick_wall_ms(sim, 1000, 8000);
    job->key_hold_retained = rng_one_in(rng, 3);
    job->max_retries = (int32_t)rng_range(rng, BIDE_NO_RETRY_LIMIT, 3);
    job->backoff_base_ms = rng_range(rng, 0, 2000);
    job->backoff_max_ms = rng_range(rng, 0, 5000);
    if (rng_one_in(rng, 4))
        job->expires_at_ms = pick_wall_ms(sim, 500, 20000);
    job->retain_ms = rng_one_in(rng, 2) ? sim_pick_ms(sim) : 0;
    pick_history(sim, job);
    pick_restored_texts(sim, sop, job);
    pick_failures(sim, sop, job);
    sop->op.restore.job = job;
}

/* A job as the queue itself shows it, for another topic. */
static bool export_job(struct sim *sim, struct sim_op *sop)
{
    bide_op look = {.kind = BIDE_OP_PEEK};
    look.query.id = sim_pick_id(sim);
    look.query.job = &sop->restored;
    memset(&sop->restored, 0, sizeof sop->restored);
    if (bi_core_run(sim->core, &look, sim->now) != BIDE_OK)
        return false;
    if ((look.private_.flags & BI_BODY_MISSING) != 0) {
        bide_job_clear(&sop->restored);
        return false;
    }
    if (sop->restored.state == BIDE_STATE_DONE && sop->restored.left_ms == 0) {
        bide_job_clear(&sop->restored);
        return false;
    }
    sim_copy_name(sop->restored.topic, sim_pick_name(sim));
    sop->op.restore.job = &sop->restored;
    return true;
}

void sim_gen_restore(struct sim *sim, struct sim_op *sop)
{
    int name = sim_pick_name(sim);
    bide_state state = (bide_state)rng_range(&sim->rng, BIDE_STATE_DELAYED, BIDE_STATE_DONE);
    if (!rng_one_in(&sim->rng, 3) || !export_job(sim, sop))
        sim_gen_restore_as(sim, sop, name, state);
}
