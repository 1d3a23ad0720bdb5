/* SPDX-License-Identifier: MIT */
#include "cli/topic_args.h"

#include "op/op_check.h"

#include <string.h>

bool bi_topic_args_parse_strategy(const char *text, void *to, char *error)
{
    static const char *const names[] = {
        [BIDE_BY_PRIORITY] = "priority",
        [BIDE_STRICT] = "strict",
        [BIDE_WEIGHTED] = "weighted",
        [BIDE_FAIR] = "fair",
    };
    for (int i = 0; i < (int)(sizeof(names) / sizeof(names[0])); i++) {
        if (strcmp(text, names[i]) == 0) {
            *(bide_strategy *)to = (bide_strategy)i;
            return true;
        }
    }
    return bi_errmsg_set(error, "is not a strategy: priority, strict, weighted or fair");
}

static bool parse_weight(const char *text, uint32_t *weight)
{
    char reason[BI_ERRMSG_SIZE];
    uint64_t number;
    if (!bi_flag_parse_count(text, &number, reason) || number == 0 || number > UINT32_MAX)
        return false;
    *weight = (uint32_t)number;
    return true;
}

static bool add_weight(struct topic_args *topic_args, const char *word, const char *text,
                       char *error)
{
    if (topic_args->strategy != BIDE_BY_PRIORITY && topic_args->strategy != BIDE_WEIGHTED)
        return bi_errmsg_set(error, "\"%.60s\" has a weight, which needs --strategy weighted",
                             word);
    topic_args->strategy = BIDE_WEIGHTED;
    if (!parse_weight(text, &topic_args->weights[topic_args->count]))
        return bi_errmsg_set(error, "\"%.60s\": a weight must be at least 1", word);
    return true;
}

bool bi_topic_args_parse(struct topic_args *topic_args, const char *const *words, size_t count,
                         char *error)
{
    for (topic_args->count = 0; topic_args->count < count; topic_args->count++) {
        const char *word = words[topic_args->count], *colon = strchr(word, ':');
        size_t size = colon == NULL ? strlen(word) : (size_t)(colon - word);
        topic_args->topics[topic_args->count] = (bide_slice){word, size};
        topic_args->weights[topic_args->count] = 1;
        if (!bi_topic_name_valid(topic_args->topics[topic_args->count]))
            return bi_errmsg_set(error,
                                 "\"%.60s\" is not a valid topic name: 1 to %d letters, digits and "
                                 "-+/;.$_(), no - in front",
                                 word, BIDE_TOPIC_MAX);
        if (colon != NULL && !add_weight(topic_args, word, colon + 1, error))
            return false;
    }
    return true;
}
