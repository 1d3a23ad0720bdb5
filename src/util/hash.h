/* SPDX-License-Identifier: MIT */
/*
 * hash - hashes, a checksum, random numbers, and a keyed permutation.
 *
 * Clients choose names and keys, and can select ids. A table whose hash they can compute degrades
 * to one chain, so tables of what clients name are keyed with a secret: SipHash-1-3 for bytes, a
 * keyed mix for integers that the queue itself assigns. Numbers that must be unique and yet cannot
 * be guessed (tokens) come from a keyed permutation of a counter.
 *
 * Cost       About 4 ns for a short name, 1 ns for an id, 20 ns for a permutation.
 */
#ifndef BI_HASH_H
#define BI_HASH_H

#include <assert.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ---- without a key: clients can compute these ---- */

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

/* Detects damaged bytes. Checksums are stored in files: the function must never change. */
uint32_t bi_hash_checksum(uint64_t seed, const void *data, size_t size);

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

/* ---- with a key ---- */

struct bi_hash_secret {
    uint64_t key[2];
};

/* Fills a secret with random bytes of the kernel. */
void bi_keyed_hash_generate_secret(struct bi_hash_secret *secret);

static inline uint64_t bi_rotate_left(uint64_t x, unsigned bits)
{
    return x << bits | x >> (64 - bits);
}

static inline void bi_siphash_round(uint64_t v[4])
{
    v[0] += v[1];
    v[2] += v[3];
    v[1] = bi_rotate_left(v[1], 13) ^ v[0];
    v[3] = bi_rotate_left(v[3], 16) ^ v[2];
    v[0] = bi_rotate_left(v[0], 32);
    v[2] += v[1];
    v[0] += v[3];
    v[1] = bi_rotate_left(v[1], 17) ^ v[2];
    v[3] = bi_rotate_left(v[3], 21) ^ v[0];
    v[2] = bi_rotate_left(v[2], 32);
}

/* The last bytes, fewer than 8, as a little-endian number, without a call of memcpy(). */
static inline uint64_t bi_siphash_tail(const unsigned char *bytes, size_t size)
{
    if (size >= 4) {
        uint32_t low, high;
        memcpy(&low, bytes, 4);
        memcpy(&high, bytes + size - 4, 4);
        return low | (uint64_t)high << (8 * (size - 4));
    }
    if (size == 0)
        return 0;
    return bytes[0] | (uint64_t)bytes[size / 2] << (8 * (size / 2)) |
           (uint64_t)bytes[size - 1] << (8 * (size - 1));
}

/* SipHash-1-3. */
static inline uint64_t bi_keyed_hash_bytes(const struct bi_hash_secret *secret, const void *data,
                                           size_t size)
{
    const unsigned char *bytes = data;
    uint64_t v[4] = {secret->key[0] ^ UINT64_C(0x736f6d6570736575),
                     secret->key[1] ^ UINT64_C(0x646f72616e646f6d),
                     secret->key[0] ^ UINT64_C(0x6c7967656e657261),
                     secret->key[1] ^ UINT64_C(0x7465646279746573)};
    uint64_t last = (uint64_t)size << 56;

    for (; size >= 8; bytes += 8, size -= 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        v[3] ^= word;
        bi_siphash_round(v);
        v[0] ^= word;
    }

    last |= bi_siphash_tail(bytes, size);
    v[3] ^= last;
    bi_siphash_round(v);
    v[0] ^= last;

    v[2] ^= 0xff;
    for (int i = 0; i < 3; i++)
        bi_siphash_round(v);
    return v[0] ^ v[1] ^ v[2] ^ v[3];
}

/* Derives another secret, which reveals nothing about this one; `purpose` differs for every use. */
static inline struct bi_hash_secret bi_keyed_hash_derive_secret(const struct bi_hash_secret *secret,
                                                                uint64_t purpose)
{
    struct bi_hash_secret derived;
    for (uint64_t i = 0; i < 2; i++)
        derived.key[i] =
            bi_keyed_hash_bytes(secret, (const uint64_t[]){purpose, i}, 2 * sizeof(uint64_t));
    return derived;
}

/* For ids, which clients cannot choose freely: a bijection on 64 bits. */
static inline uint64_t bi_keyed_hash_u64(const struct bi_hash_secret *secret, uint64_t x)
{
    return bi_hash_u64(x ^ secret->key[0]) ^ secret->key[1];
}

/* A keyed permutation of the numbers with a given count of bits: a Feistel network, whose
 * halves differ by one bit if the count is odd. With 6 rounds, known pairs of input and
 * output, however many, do not reveal others. */
#define BI_PERMUTATION_ROUNDS 6

struct bi_permutation {
    uint64_t keys[BI_PERMUTATION_ROUNDS];
};

static inline void bi_permutation_init(struct bi_permutation *permutation,
                                       const struct bi_hash_secret *secret)
{
    for (uint64_t i = 0; i < BI_PERMUTATION_ROUNDS; i++)
        permutation->keys[i] = bi_keyed_hash_bytes(secret, &i, sizeof(i));
}

static inline uint64_t bi_permutation_round(uint64_t key, uint64_t half, unsigned bits)
{
    uint64_t x = (half ^ key) * UINT64_C(0xbf58476d1ce4e5b9);
    return (x ^ x >> 32) * UINT64_C(0x94d049bb133111eb) >> (64 - bits);
}

/* bits: 2 to 64, the same for apply and invert. A constant, so that the compiler removes the
 * arithmetic. */
static inline uint64_t bi_permutation_apply(const struct bi_permutation *permutation, unsigned bits,
                                            uint64_t x)
{
    const unsigned low_bits = bits / 2;
    const unsigned high_bits = bits - low_bits;
    uint64_t low = x & ((UINT64_C(1) << low_bits) - 1);
    uint64_t high = x >> low_bits;

    for (int i = 0; i < BI_PERMUTATION_ROUNDS; i += 2) {
        high ^= bi_permutation_round(permutation->keys[i], low, high_bits);
        low ^= bi_permutation_round(permutation->keys[i + 1], high, low_bits);
    }
    return high << low_bits | low;
}

static inline uint64_t bi_permutation_invert(const struct bi_permutation *permutation,
                                             unsigned bits, uint64_t x)
{
    const unsigned low_bits = bits / 2;
    const unsigned high_bits = bits - low_bits;
    uint64_t low = x & ((UINT64_C(1) << low_bits) - 1);
    uint64_t high = x >> low_bits;

    for (int i = BI_PERMUTATION_ROUNDS; i > 0; i -= 2) {
        low ^= bi_permutation_round(permutation->keys[i - 1], high, low_bits);
        high ^= bi_permutation_round(permutation->keys[i - 2], low, high_bits);
    }
    return high << low_bits | low;
}

#endif
