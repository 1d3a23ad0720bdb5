/* SPDX-License-Identifier: MIT */
/*
 * rng - the one source of chance of a simulation, so that its seed is its whole history.
 */
#ifndef SIM_RNG_H
#define SIM_RNG_H

#include <stdbool.h>
#include <stdint.h>

struct rng {
    uint64_t state;
};

static inline uint64_t rng_next(struct rng *rng)
{
    uint64_t z = rng->state += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* 0 to n - 1; n is not 0. */
static inline uint64_t rng_below(struct rng *rng, uint64_t n)
{
    return rng_next(rng) % n;
}

/* first to last, both included. */
static inline int64_t rng_range(struct rng *rng, int64_t first, int64_t last)
{
    return first + (int64_t)rng_below(rng, (uint64_t)(last - first) + 1);
}

static inline bool rng_one_in(struct rng *rng, uint64_t n)
{
    return rng_below(rng, n) == 0;
}

static inline bool rng_percent(struct rng *rng, uint64_t percent)
{
    return rng_below(rng, 100) < percent;
}

#endif
