/* SPDX-License-Identifier: MIT */
/*
 * account - which lines of an input have become jobs: for whoever was interrupted half way, and has
 * to go on without losing or doubling any.
 *
 * Lines are told in order. A line is settled when its job is in, or was refused for a reason of its
 * own; it is unsure when the answer was lost, and left when it certainly is not in although nothing
 * is wrong with it.
 */
#ifndef BI_ACCOUNT_H
#define BI_ACCOUNT_H

#include "util/sentence.h"

#include <stdint.h>

enum bi_settled { BI_SETTLED, BI_UNSURE, BI_LEFT };

/* Lines from first to last with the same outcome. */
struct account_range {
    enum bi_settled outcome;
    uint64_t first, last;
};

#define BI_ACCOUNT_RANGES 8

struct account {
    uint64_t sure;                                  /* everything up to this line is settled */
    struct account_range ranges[BI_ACCOUNT_RANGES]; /* what comes behind it */
    size_t range_count;
};

/* A line that no job was made of (empty, and skipped; no JSON) need not be told. */
void bi_account_tell(struct account *account, uint64_t line, enum bi_settled outcome);

/* Is nothing in, or perhaps in, behind the sure ones? Then whoever goes on behind them loses and
 * doubles none. */
bool bi_account_is_clear(const struct account *account);

/* "lines 3,001 to 4,000 are unsure (...); lines 4,001 to 5,000 are not in"; "" if all that was
 * told is settled. what: "line". */
void bi_account_say(const struct account *account, const char *what, char *to, size_t size);

#endif
