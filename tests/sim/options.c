/* SPDX-License-Identifier: MIT */
#include "sim.h"

static bool choose(struct sim *sim, int wanted, uint64_t percent)
{
    bool chosen = rng_percent(&sim->rng, percent);
    return wanted < 0 ? chosen : wanted != 0;
}

/* A limit that is never reached, or now and then a small one that is reached soon. */
static uint64_t limit(struct sim *sim, uint64_t wide, int64_t low, int64_t high)
{
    uint64_t small = (uint64_t)rng_range(&sim->rng, low, high);
    return rng_one_in(&sim->rng, 3) ? small : wide;
}

static int64_t time_limit(struct sim *sim, int64_t low_ms, int64_t high_ms)
{
    return (int64_t)limit(sim, 0, low_ms, high_ms) * US_PER_MS;
}

void sim_choose_options(struct sim *sim)
{
    static const int64_t ttrs_ms[] = {5, 500, 60000, 3600000};
    static const int64_t ticks[] = {1000, 10000, 100000, 1000000, 7};
    static const uint32_t batch_jobs[] = {0, 0, 1, 2, 5, 50};
    static const uint64_t cache_bytes[] = {0, 0, 1, 200, 5000, 1000000};
    static const uint64_t batch_bytes[] = {0, 0, 0, 1, 30, 300};
    static const uint64_t page_bytes[] = {0, 0, 0, 1, 20, 60};
    struct bi_core_options *options = &sim->options;
    struct bi_limits *limits = &options->limits;
    limits->default_ttr = ttrs_ms[rng_below(&sim->rng, 4)] * US_PER_MS;
    limits->max_job_size = limit(sim, 48, 4, 20);
    limits->max_result_size = limit(sim, 48, 0, 20);
    limits->max_error_size = 60;
    limits->max_touches = (uint32_t)limit(sim, 0, 1, 3);
    limits->max_touch_total = time_limit(sim, 10, 100000);
    limits->min_touch_interval = time_limit(sim, 1, 300);
    limits->max_topics = (uint32_t)limit(sim, 1000, 2, 7);
    limits->max_waiters = (uint32_t)limit(sim, 1000, 1, 6);
    limits->max_jobs_per_topic = limit(sim, 0, 1, 12);
    limits->max_done_per_topic = limit(sim, 10000, 1, 4);
    limits->max_memory = limit(sim, 0, 20000, 60000);
    limits->batch_jobs = batch_jobs[rng_below(&sim->rng, 6)];
    limits->batch_bytes = batch_bytes[rng_below(&sim->rng, 6)];
    limits->cache_bytes = cache_bytes[rng_below(&sim->rng, 6)];
    limits->page_bytes = page_bytes[sim->seed % 6];
    limits->topic_cleanup = !rng_one_in(&sim->rng, 4);
    options->seed = rng_next(&sim->rng);
    options->secret = (struct bi_hash_secret){{sim->seed, ~sim->seed}};
    options->token_from = sim->seed % 4 == 0 ? 1 : sim->seed % 100;
    bi_tokens_init(&sim->tokens, &options->secret, options->token_from);
    options->wheel_tick = ticks[rng_below(&sim->rng, 5)];
    options->wheel_slots = (uint32_t)rng_range(&sim->rng, 1, 700);
    options->wheel = choose(sim, sim->config->wheel, 40);
    options->journal = choose(sim, sim->config->journal, 50);
    sim->job_target = (size_t)rng_range(&sim->rng, 4, rng_one_in(&sim->rng, 2) ? 25 : 160);
    sim->unreadable = rng_one_in(&sim->rng, 2) ? 15 : 60;
    sim->floods = rng_one_in(&sim->rng, 8);
    sim->coarse = rng_one_in(&sim->rng, 3);
    sim->alloc_fails = choose(sim, sim->config->alloc, 40);
    options->alloc = sim_alloc_of(&sim->alloc);
    if (sim->floods) {
        limits->max_job_size = 64;
        limits->max_jobs_per_topic = 0;
        limits->max_topics = 1000;
        limits->max_memory = 0;
    }
}
