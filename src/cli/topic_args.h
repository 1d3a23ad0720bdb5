/* SPDX-License-Identifier: MIT */
/*
 * topic_args - from which topics to take jobs, and how to choose among them.
 *
 * A word is a topic, or a topic and its weight, email:5, which means the strategy "weighted".
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

/* Reads the words; choice->strategy is what was said before. False, with a sentence, when one is
 * none, or has a weight that the strategy does not look at. */
bool bi_topic_args_parse(struct topic_args *topic_args, const char *const *words, size_t count,
                         char *error);

#endif
