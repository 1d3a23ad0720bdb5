/* SPDX-License-Identifier: MIT */
#include "cli/fingerprint.h"

#include <string.h>
#include <sys/random.h>

/* ---- SipHash-2-4-128, fed piece by piece ---- */

struct sip {
    uint64_t v[4];
    uint64_t tail; /* bytes that do not fill a word yet */
    uint64_t size; /* of all bytes so far */
};

static uint64_t turn(uint64_t x, int bits)
{
    return x << bits | x >> (64 - bits);
}

static void sip_rounds(uint64_t *v, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        v[0] += v[1];
        v[2] += v[3];
        v[1] = turn(v[1], 13) ^ v[0];
        v[3] = turn(v[3], 16) ^ v[2];
        v[0] = turn(v[0], 32) + v[3];
        v[2] += v[1];
        v[3] = turn(v[3], 21) ^ v[0];
        v[1] = turn(v[1], 17) ^ v[2];
        v[2] = turn(v[2], 32);
    }
}

static void sip_begin(struct sip *sip, const struct fingerprint_key *key)
{
    *sip = (struct sip){
        .v = {key->words[0] ^ UINT64_C(0x736f6d6570736575),
              key->words[1] ^ UINT64_C(0x646f72616e646f6d) ^ 0xee,
              key->words[0] ^ UINT64_C(0x6c7967656e657261),
              key->words[1] ^ UINT64_C(0x7465646279746573)},
    };
}

static void sip_word(struct sip *sip, uint64_t word)
{
    sip->v[3] ^= word;
    sip_rounds(sip->v, 2);
    sip->v[0] ^= word;
}

static void sip_byte(struct sip *sip, unsigned char byte)
{
    sip->tail |= (uint64_t)byte << (sip->size % 8 * 8);
    if (++sip->size % 8 == 0) {
        sip_word(sip, sip->tail);
        sip->tail = 0;
    }
}

static void sip_bytes(struct sip *sip, const void *data, size_t size)
{
    const unsigned char *bytes = data;
    for (; size > 0 && sip->size % 8 != 0; size--)
        sip_byte(sip, *bytes++);
    for (; size >= 8; size -= 8, bytes += 8) {
        uint64_t word;
        memcpy(&word, bytes, 8);
        sip_word(sip, word);
        sip->size += 8;
    }
    for (; size > 0; size--)
        sip_byte(sip, *bytes++);
}

static void sip_end(struct sip *sip, uint64_t hash[2])
{
    sip_word(sip, sip->tail | sip->size << 56);
    sip->v[2] ^= 0xee;
    sip_rounds(sip->v, 4);
    hash[0] = sip->v[0] ^ sip->v[1] ^ sip->v[2] ^ sip->v[3];
    sip->v[1] ^= 0xdd;
    sip_rounds(sip->v, 4);
    hash[1] = sip->v[0] ^ sip->v[1] ^ sip->v[2] ^ sip->v[3];
}

void bi_fingerprint_hash(const struct fingerprint_key *key, const void *data, size_t size,
                         uint64_t hash[2])
{
    struct sip sip;
    sip_begin(&sip, key);
    sip_bytes(&sip, data, size);
    sip_end(&sip, hash);
}

bool bi_fingerprint_draw(struct fingerprint_key *key)
{
    return getrandom(key, sizeof(*key), 0) == (ssize_t)sizeof(*key);
}

/* ---- jobs ---- */

/* Everything has its size in front of it, and is there or not: no two jobs feed the same bytes. */
static void feed_bytes(struct sip *sip, const void *data, size_t size)
{
    uint64_t head = data == NULL ? UINT64_MAX : size;
    sip_bytes(sip, &head, sizeof(head));
    if (data != NULL)
        sip_bytes(sip, data, size);
}

static void feed_numbers(struct sip *sip, const bide_job *job)
{
    const int64_t numbers[] = {
        job->priority,       job->ttr_ms,        job->key_hold_retained,
        job->max_retries,    job->failures,      job->backoff_base_ms,
        job->backoff_max_ms, job->expires_at_ms, job->retain_ms,
        job->reserves,       job->timeouts,      job->releases,
        job->fails,          job->buries,        job->kicks,
        job->touches,
    };
    sip_bytes(sip, numbers, sizeof(numbers));
}

/* Delayed, ready and reserved jobs become each other. */
static bide_state lasting(bide_state state)
{
    return state == BIDE_STATE_BURIED || state == BIDE_STATE_DONE ? state : BIDE_STATE_READY;
}

static void feed_plain(struct sip *sip, const bide_job *job)
{
    const int64_t numbers[] = {job->priority, (job->ttr_ms + 999) / 1000};
    sip_bytes(sip, numbers, sizeof(numbers));
}

static void feed_full(struct sip *sip, const bide_job *job)
{
    feed_numbers(sip, job);
    feed_bytes(sip, job->key, job->key_size);
    feed_bytes(sip, job->last_error, job->last_error_size);
    feed_bytes(sip, job->result, job->result_size);
}

struct fingerprint bi_fingerprint(const struct fingerprint_key *key, bool plain,
                                  const bide_job *job)
{
    struct fingerprint print = {
        .created_ms = job->created_ms,
        .due_ms = job->state == BIDE_STATE_DELAYED ? job->run_at_ms : 0,
    };
    struct sip sip;
    sip_begin(&sip, key);
    sip_byte(&sip, (unsigned char)lasting(job->state));
    feed_bytes(&sip, job->topic, strlen(job->topic));
    feed_bytes(&sip, job->body_size == 0 ? "" : job->body, job->body_size);
    if (plain)
        feed_plain(&sip, job);
    else
        feed_full(&sip, job);
    sip_end(&sip, print.hash);
    return print;
}
