/* SPDX-License-Identifier: MIT */
/*
 * token - the numbers that prove a reservation.
 *
 * Reservations are numbered as they come, over all lives of a store; the token that a client sees is
 * that number permuted with a secret. So tokens are unique and below 2^53, and one of them tells
 * nothing about the next: a client can act on the leases that it was given, and on no others.
 *
 * A file from before tokens were permuted may hold leases whose clients know the bare numbers. Those
 * below `from` are shown as they are, and all others are permuted among themselves.
 */
#ifndef BI_TOKEN_H
#define BI_TOKEN_H

#include "util/secret.h"

#define BI_TOKEN_BITS 53
#define BI_TOKEN_USE  UINT64_C(0x746f6b656e73) /* of the secret; other uses have small numbers */

struct bi_tokens {
    struct bi_permutation permutation;
    uint64_t from; /* 0: no number is permuted */
};

static inline void bi_tokens_init(struct bi_tokens *tokens, const struct bi_secret *secret,
                                  uint64_t from)
{
    struct bi_secret own = bi_secret_derive(secret, BI_TOKEN_USE);
    bi_permutation_init(&tokens->permutation, &own);
    tokens->from = from;
}

static inline uint64_t bi_token_of(const struct bi_tokens *tokens, uint64_t number)
{
    uint64_t token = number;
    assert(number >> BI_TOKEN_BITS == 0);
    if (number < tokens->from || tokens->from == 0)
        return number;
    do
        token = bi_permute(&tokens->permutation, BI_TOKEN_BITS, token);
    while (token < tokens->from);
    return token;
}

/* Which reservation it was: what came later has a larger number. */
static inline uint64_t bi_token_number(const struct bi_tokens *tokens, uint64_t token)
{
    uint64_t number = token;
    assert(token >> BI_TOKEN_BITS == 0);
    if (token < tokens->from || tokens->from == 0)
        return token;
    do
        number = bi_unpermute(&tokens->permutation, BI_TOKEN_BITS, number);
    while (number < tokens->from);
    return number;
}

#endif
