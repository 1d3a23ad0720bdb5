/* SPDX-License-Identifier: MIT */
#include "cli/move/move_fingerprint.h"

#include <string.h>
#include <sys/random.h>

/* ---- SipHash-2-4-128, fed piece by piece ---- */

struct siphash {
    uint64_t v[4];
    uint64_t tail; /* bytes that do not fill a word yet */
    uint64_t size; /* of all bytes so far */
};

static uint64_t rotate_left(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void siphash_rounds(uint64_t *v, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = rotate_left(v[1], 13) ^ v[0];
        v[3] = rotate_left(v[3], 16) ^ v[2];
        v[0] = rotate_left(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = rotate_left(v[3], 21) ^ v[0];
        v[1] = rotate_left(v[1], 17) ^ v[2];
        v[2] = rotate_left(v[2], 32);
    }
}

static void siphash_init(struct siphash *siphash, const struct fingerprint_key *key)
{
    *siphash = (struct siphash){
        .v = {key->words[0] ^ UINT64_C(0x736f6d6570736575),
              key->words[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
              key->words[0] ^ UINT64_C(0x6c7967656e657261),
              key->words[1] ^ UINT64_C(0x7465646279746573)},
    };
}

static void siphash_word(struct siphash *siphash, uint64_t word)
{
    siphash->v[3] ^= word;
    siphash_rounds(siphash->v, 2);
    siphash->v[0] ^= word;
}

static void siphash_byte(struct siphash *siphash, unsigned char byte)
{
    siphash->tail |= (uint64_t)byte << (siphash->size % 8 * 8);
    if (++siphash->size % 8 == 0) {
        siphash_word(siphash, siphash->tail);
        siphash->tail = 0;
    }
}

static void siphash_bytes(struct siphash *siphash, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (; size > 0 && siphash->size % 8 != 0; size--)
        siphash_byte(siphash, *bytes++);
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        siphash_word(siphash, word);
        siphash->size += 8;
    }
    for (; size > 0; size--)
        siphash_byte(siphash, *bytes++);
}

static void siphash_final(struct siphash *siphash, uint64_t hash[2])
{
    siphash_word(siphash, siphash->tail | siphash->size << 56);
    siphash->v[2] ^= 0xee;
    siphash_rounds(siphash->v, 4);
    hash[0] = siphash->v[0] ^ siphash->v[1] ^ siphash->v[2] ^ siphash->v[3];
    siphash->v[1] ^= 0xdd;
    siphash_rounds(siphash->v, 4);
    hash[1] = siphash->v[0] ^ siphash->v[1] ^ siphash->v[2] ^ siphash->v[3];
}

void bi_move_fingerprint_hash(const struct fingerprint_key *key, const void *data, size_t size,
                              uint64_t hash[2])
{
    struct siphash siphash;
    siphash_init(&siphash, key);
    siphash_bytes(&siphash, data, size);
    siphash_final(&siphash, hash);
}

bool bi_move_fingerprint_new_key(struct fingerprint_key *key)
{
    return getrandom(key, sizeof(*key), 0) == (ssize_t)sizeof(*key);
}

/* ---- jobs ---- */

/* Everything has its size in front of it, and is there or not: no two jobs feed the same bytes. */
static void hash_bytes(struct siphash *siphash, const void *data, size_t size)
{
    uint64_t head = data == NULL ? UINT64_MAX : size;
    siphash_bytes(siphash, &head, sizeof(head));
    if (data != NULL)
        siphash_bytes(siphash, data, size);
}

static void hash_numbers(struct siphash *siphash, const bide_job *job)
{
    const int64_t numbers[] = {
        job->priority,       job->ttr_ms,        job->key_hold_retained,
        job->max_retries,    job->failures,      job->backoff_base_ms,
        job->backoff_max_ms, job->expires_at_ms, job->retain_ms,
        job->reserves,       job->timeouts,      job->releases,
        job->fails,          job->buries,        job->kicks,
        job->touches,
    };
    siphash_bytes(siphash, numbers, sizeof(numbers));
}

/* Delayed, ready and reserved jobs become each other. */
static bide_state stable_state(bide_state state)
{
    return state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE ? state : BIDE_STATE_READY;
}

static void hash_plain(struct siphash *siphash, const bide_job *job)
{
    const int64_t numbers[] = {job->priority, (job->ttr_ms + 999) / 1000};
    siphash_bytes(siphash, numbers, sizeof(numbers));
}

/* Without last_error: the other queue cuts it at its own max_error_size. */
static void hash_full(struct siphash *siphash, const bide_job *job)
{
    hash_numbers(siphash, job);
    hash_bytes(siphash, job->key, job->key_size);
    hash_bytes(siphash, job->result, job->result_size);
}

struct fingerprint bi_move_fingerprint_of(const struct fingerprint_key *key, bool plain,
                                          const bide_job *job)
{
    struct fingerprint print = {
        .created_ms = job->created_ms,
        .due_ms = job->state == BIDE_STATE_DELAYED ? job->run_at_ms : 0,
    };
    struct siphash siphash;
    siphash_init(&siphash, key);
    siphash_byte(&siphash, (unsigned char)stable_state(job->state));
    hash_bytes(&siphash, job->topic, strlen(job->topic));
    hash_bytes(&siphash, job->body_size == 0 ? "" : job->body, job->body_size);
    if (plain)
        hash_plain(&siphash, job);
    else
        hash_full(&siphash, job);
    siphash_final(&siphash, print.hash);
    return print;
}
