/* SPDX-License-Identifier: MIT */
#include "model.h"

#define SECOND INT64_C(1000000)
#define DAY    (86400 * SECOND)
#define YEAR   (365 * DAY)

/* Just before, at or just behind a deadline that is so far away, if it is not too far. */
static int64_t to_deadline(struct sim *sim, int64_t left, int64_t otherwise)
{
    if (left <= 1 || left > 40 * DAY)
        return otherwise;
    return left + rng_range(&sim->rng, -1, 1);
}

/* To the moment from which a lease may be touched again. */
static int64_t to_touch(struct sim *sim)
{
    const struct model *m = sim->model;
    const struct mjob *job = m->count != 0 ? m->jobs[rng_below(&sim->rng, m->count)] : NULL;
    if (job == NULL || job->state != BIDE_STATE_RESERVED)
        return 0;
    int64_t at = job->last_touch + sim->options.limits.min_touch_interval;
    return to_deadline(sim, at - sim->now.mono, 0);
}

static int64_t next_mono(const struct model *m)
{
    int64_t call = model_next_call(m);
    int64_t other = model_next(m).mono;
    return call < other ? call : other;
}

/* How far the boot-time clock goes: mostly a little, at times to just around a deadline. */
static int64_t mono_step(struct sim *sim)
{
    struct rng *rng = &sim->rng;
    uint64_t kind = rng_below(rng, 1000);
    if (kind < 450)
        return 0;
    if (kind < 540)
        return rng_range(rng, 1, 999);
    if (kind < 580)
        return US_PER_MS - sim->now.mono % US_PER_MS;
    if (kind < 600)
        return to_touch(sim);
    if (kind < 770)
        return rng_range(rng, 1000, 50000);
    if (kind < 800)
        return rng_range(rng, 50000, 2 * SECOND);
    if (kind < 960) {
        return to_deadline(sim, next_mono(sim->model) - sim->now.mono, 0);
    }
    if (kind < 995)
        return rng_range(rng, 1 * SECOND, 60 * SECOND);
    if (rng_percent(rng, 70))
        return rng_range(rng, 60 * SECOND, 3600 * SECOND);
    if (rng_percent(rng, 80))
        return rng_range(rng, 3600 * SECOND, 2 * DAY);
    return rng_range(rng, DAY, rng_one_in(rng, 3) ? 120 * YEAR : YEAR);
}

/* How far the wall clock goes while the other goes that far: the same, unless it is set. */
static int64_t wall_step(struct sim *sim, int64_t mono)
{
    struct rng *rng = &sim->rng;
    uint64_t kind = rng_below(rng, 1000);
    if (kind < 850)
        return mono;
    if (kind < 900)
        return US_PER_MS - sim->now.wall % US_PER_MS;
    if (kind < 960) {
        return to_deadline(sim, model_next(sim->model).wall - sim->now.wall, mono);
    }
    if (kind < 980)
        return mono + rng_range(rng, -5 * SECOND, 5 * SECOND);
    if (kind < 997)
        return mono + rng_range(rng, -2 * DAY, 2 * DAY);
    return mono + rng_range(rng, -2 * YEAR, 2 * YEAR);
}

static int64_t round_up(int64_t us)
{
    return (us + US_PER_MS - 1) / US_PER_MS * US_PER_MS;
}

void sim_clock_round(struct sim *sim)
{
    if (!sim->coarse)
        return;
    sim->now.mono = round_up(sim->now.mono);
    sim->now.wall = round_up(sim->now.wall);
}

void sim_clock_step(struct sim *sim)
{
    int64_t mono = mono_step(sim);
    int64_t wall = sim->now.wall + wall_step(sim, mono);
    sim->now.mono += mono;
    /* Within the years that can be named. */
    if (wall < 10 * YEAR || wall > 220 * YEAR)
        wall = 53 * YEAR + rng_range(&sim->rng, 0, YEAR);
    sim->now.wall = wall;
    sim_clock_round(sim);
}

static void compare_next(struct sim *sim)
{
    struct bi_now want = model_next(sim->model);
    struct bi_now got = bi_core_next_deadline(sim->core);
    expect(sim, "next timeout of a call", model_next_call(sim->model),
           bi_core_next_timeout(sim->core));
    if (!sim->options.wheel) {
        expect(sim, "next deadline of the wall clock", want.wall, got.wall);
        expect(sim, "next deadline", want.mono, got.mono);
        return;
    }
    expect_true(sim, want.wall == BI_NEVER ? got.wall == BI_NEVER : got.wall > sim->now.wall,
                "the wall clock wakes besides the wheel");
    want.mono = model_next_tick(sim->model);
    sim_hash(sim, (uint64_t)got.mono);
    int64_t tick = sim->options.wheel_tick;
    expect_true(sim, got.mono == BI_NEVER || (got.mono - sim->model->born.mono) % tick == 0,
                "the next deadline is not that of a tick");
    if (got.mono > want.mono || (want.mono != BI_NEVER && got.mono <= sim->now.mono) ||
        (want.mono == BI_NEVER && got.mono != BI_NEVER))
        sim_fail(sim, "next deadline: expected at most %lld, got %lld, now is %lld",
                 (long long)want.mono, (long long)got.mono, (long long)sim->now.mono);
}

/* When the end of something is put off, the model learns of it after the tick; it could not tell
 * then who was served when, nor what the feeds were told meanwhile. */
static bool has_subscriptions(const struct model *m)
{
    if (m->feeds != NULL)
        return true;
    for (const struct mwaiter *waiter = m->waiters; waiter != NULL; waiter = waiter->next)
        if (waiter->name_count != 0)
            return true;
    return false;
}

/* What could not be done for lack of memory is done now. */
static void catch_up(struct sim *sim)
{
    int64_t step = 100000 + (sim->options.wheel ? sim->options.wheel_tick : 0);
    sim->now.mono += step;
    sim->now.wall += step;
    sim_clock_round(sim);
    while (bi_core_tick(sim->core, sim->now, 3))
        continue;
    model_tick(sim->model);
    model_learn_delays(sim->model);
    sim_check_completions(sim);
}

void sim_tick(struct sim *sim)
{
    sim->what = "tick";
    bool armed = sim->alloc_fails && rng_one_in(&sim->rng, 10) &&
                 (!sim->options.journal || !has_subscriptions(sim->model)) && !sim_has_batches(sim);
    if (armed)
        sim_alloc_arm(&sim->alloc, 1 + rng_below(&sim->rng, 4),
                      1 + (unsigned)rng_below(&sim->rng, 3));
    while (bi_core_tick(sim->core, sim->now, 1 + (unsigned)rng_below(&sim->rng, 5)))
        continue;
    sim->allowed_enomem = armed && sim_alloc_disarm(&sim->alloc);
    model_tick(sim->model);
    bool put_off = sim->allowed_enomem;
    sim->allowed_enomem = false;
    model_learn_delays(sim->model);
    sim_check_completions(sim);
    if (put_off)
        catch_up(sim);
    if (rng_one_in(&sim->rng, 4))
        compare_next(sim);
}
