/* SPDX-License-Identifier: MIT */
/*
 * hash - unkeyed hashes, a checksum, and a generator whose choices a seed repeats.
 *
 * Clients can compute these. Tables of what clients name use util/keyed_hash.h instead.
 */
#ifndef BI_HASH_H
#define BI_HASH_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* A bijection on 64 bits in which every input bit reaches every output bit. */
static inline uint64_t bi_hash_u64(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static inline uint64_t bi_hash_bytes(uint64_t seed, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t hash = seed ^ (size * UINT64_C(0x9e3779b97f4a7c15));

    while (size >= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        hash = bi_hash_u64(hash ^ word);
        bytes += 8;
        size -= 8;
    }

    uint64_t rest = 0;
    if (size > 0)
        memcpy(&rest, bytes, size);
    return bi_hash_u64(hash ^ rest);
}

/* Detects damaged bytes. Four independent lanes let it run at the speed of memory. Checksums
 * are stored in files: the function must never change. */
static inline uint32_t bi_hash_checksum(uint64_t seed, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    uint64_t lanes[4] = {seed ^ size, seed + 1, seed + 2, seed + 3};

    for (; size >= 32; bytes += 32, size -= 32) {
        uint64_t words[4];
        memcpy(words, bytes, 32);
        for (int i = 0; i < 4; i++) {
            lanes[i] = (lanes[i] ^ words[i]) * UINT64_C(0x9e3779b97f4a7c15);
            lanes[i] ^= lanes[i] >> 29;
        }
    }

    /* Added to each lane: equal lanes must not cancel out. */
    uint64_t hash = bi_hash_u64(lanes[0]) ^ bi_hash_u64(lanes[1] + 1) ^ bi_hash_u64(lanes[2] + 2) ^
                    bi_hash_u64(lanes[3] + 3);
    return (uint32_t)bi_hash_bytes(hash, bytes, size);
}

/* A generator whose whole state is one number. */
struct bi_random {
    uint64_t state;
};

static inline uint64_t bi_random_next(struct bi_random *random)
{
    random->state += UINT64_C(0x9e3779b97f4a7c15);
    return bi_hash_u64(random->state);
}

/* Uniform in [0, below); below is not 0. The bias of the remainder is under 2^-11 for any
 * number of weights or microseconds that can occur. */
static inline uint64_t bi_random_below(struct bi_random *random, uint64_t below)
{
    return bi_random_next(random) % below;
}

#endif
