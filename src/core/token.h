/* SPDX-License-Identifier: MIT */
/*
 * token - the secrets that prove a reservation.
 *
 * Reservations are numbered in order, over all runs of a store. The token that a client gets is
 * this number, permuted with a secret. Tokens are therefore unique and below 2^53, and a token
 * does not reveal any other: a client can act on the leases that it was granted, and on no others.
 *
 * A store from before tokens were permuted may contain leases whose clients know the plain
 * numbers. Numbers below `from` are tokens themselves; all others are permuted among themselves.
 */
#ifndef BI_TOKEN_H
#define BI_TOKEN_H

#include "util/hash.h"

#define BI_TOKEN_BITS 53
#define BI_TOKEN_USE \
    UINT64_C(0x746f6b656e73) /* selects the derived secret; other uses have small numbers */

struct bi_tokens {
    struct bi_permutation permutation;
    uint64_t from; /* 0: no number is permuted */
};

static inline void bi_tokens_init(struct bi_tokens *tokens, const struct bi_hash_secret *secret,
                                  uint64_t from)
{
    struct bi_hash_secret derived = bi_keyed_hash_derive_secret(secret, BI_TOKEN_USE);
    bi_permutation_init(&tokens->permutation, &derived);
    tokens->from = from;
}

/* Returns the token of a reservation number. */
static inline uint64_t bi_token_of(const struct bi_tokens *tokens, uint64_t number)
{
    uint64_t token = number;
    assert(number >> BI_TOKEN_BITS == 0);
    if (number < tokens->from || tokens->from == 0)
        return number;

    /* Cycle walking: repeat until the result is not a plain number. This is again a permutation,
     * and it ends, because the cycle returns to number itself. */
    do
        token = bi_permutation_apply(&tokens->permutation, BI_TOKEN_BITS, token);
    while (token < tokens->from);
    return token;
}

/* Returns the number of the reservation: later ones have larger numbers. A token that was never
 * granted has a number, too. */
static inline uint64_t bi_token_number(const struct bi_tokens *tokens, uint64_t token)
{
    uint64_t number = token;
    assert(token >> BI_TOKEN_BITS == 0);
    if (token < tokens->from || tokens->from == 0)
        return token;

    do
        number = bi_permutation_invert(&tokens->permutation, BI_TOKEN_BITS, number);
    while (number < tokens->from);
    return number;
}

#endif
