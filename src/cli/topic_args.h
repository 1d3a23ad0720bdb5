/* SPDX-License-Identifier: MIT */
/*
 * topic_args - the topics to reserve from, and the strategy.
 *
 * An argument is a topic, or a topic and its weight, email:5, which implies the strategy "weighted".
 */
#ifndef BI_TOPIC_ARGS_H
#define BI_TOPIC_ARGS_H

#include "cli/flag.h"

#include <bide/op.h>

struct topic_args {
    bide_slice topics[BI_WORDS_MAX];
    uint32_t weights[BI_WORDS_MAX];
    size_t count;
    bide_strategy strategy;
};

bi_flag_parse_fn bi_topic_args_parse_strategy; /* bide_strategy */

#define BI_FLAG_STRATEGY(letter, name, to, help)                                           \
    {                                                                                      \
        letter, name, "priority|strict|weighted|fair", help, bi_topic_args_parse_strategy, \
            BI_FLAG_TARGET_(bide_strategy, to)                                             \
    }

/* Parses the arguments; topic_args->strategy is set from its flag before. False with an error text: a
 * name or weight is invalid, or the strategy has no weights. */
bool bi_topic_args_parse(struct topic_args *topic_args, const char *const *words, size_t count,
                         char *error);

#endif
