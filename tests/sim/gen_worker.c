/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

/* Some topics, each of them once. */
static void pick_topics(struct sim *sim, bide_slice *topics, size_t *count)
{
    bool used[SIM_NAMES] = {false};
    for (size_t left = rng_below(&sim->rng, SIM_TOPICS + 1); left > 0; left--) {
        int name = sim_pick_name(sim);
        if (!used[name])
            topics[(*count)++] = sim_slice(sim_names[name]);
        used[name] = true;
    }
}

/* Announcements of few names, so that one replaces another. */
void sim_gen_announce(struct sim *sim, struct sim_op *sop)
{
    struct rng *rng = &sim->rng;
    bide_slice topics[SIM_TOPICS];
    bide_running_job jobs[2] = {{0}};
    char host[SIM_TEXT];
    bide_worker_info info = {
        .name = {&"0123"[rng_below(rng, SIM_WORKERS / 2)], 1},
        .connection = rng_below(rng, 2),
        .host = sim_pick_text(sim, host, rng_one_in(rng, 3) ? 60 : 4),
        .pid = rng_below(rng, 100000),
        .topics = topics,
        .jobs = jobs,
        .job_count = rng_below(rng, 3),
    };
    pick_topics(sim, topics, &info.topic_count);
    for (size_t i = 0; i < info.job_count; i++)
        jobs[i] = (bide_running_job){.id = 1 + rng_below(rng, 100), .topic = sim_slice("a")};

    bide_buf *worker = bide_worker_encode(&info);
    expect_true(sim, worker != NULL && bide_buf_size(worker) <= sizeof sop->worker,
                "a worker cannot be encoded");
    sop->op.announce.ttl_ms = rng_one_in(rng, 5) ? 0 : sim_pick_ms(sim);
    if (rng_one_in(rng, 2)) {
        sop->op.announce.buf = worker;
        return;
    }
    sop->op.announce.worker = (bide_slice){sop->worker, bide_buf_size(worker)};
    memcpy(sop->worker, bide_buf_data(worker), bide_buf_size(worker));
    bide_buf_unref(worker);
}

void sim_gen_workers(struct sim *sim, struct sim_op *sop)
{
    sop->op.workers.cursor = sim->worker_cursor;
    sop->op.workers.workers = sop->workers;
    sop->op.workers.worker_max = (size_t)rng_range(&sim->rng, 1, SIM_WORKERS + 1);
}

void sim_gen_why(struct sim *sim, struct sim_op *sop)
{
    sop->op.why.why = &sop->why;
    sop->op.why.id = sim_pick_id(sim);
    if (rng_one_in(&sim->rng, 4)) {
        sop->op.why.id = 0;
        sop->op.why.topic = sim_slice(sim_names[sim_pick_name(sim)]);
        sop->op.why.key = sim_slice(sim_keys[rng_below(&sim->rng, SIM_KEYS)]);
    }
}

/* Ends all announcements. */
void sim_end_workers(struct sim *sim)
{
    while (sim->model->worker_count != 0) {
        struct sim_op *sop = sim_op_get(sim, BIDE_OP_ANNOUNCE);
        const struct mworker *first = &sim->model->workers[0];
        memcpy(sop->worker, first->bytes, first->size);
        sop->op.announce.worker = (bide_slice){sop->worker, first->size};
        sim_do(sim, sop);
    }
}
