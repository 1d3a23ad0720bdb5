/* SPDX-License-Identifier: MIT */
#include "cli/choice.h"

#include "core/core.h"

#include <string.h>

bool bi_read_strategy(const char *text, void *to, char *error)
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
    return bi_refuse(error, "is no strategy: priority, strict, weighted or fair");
}

static bool read_weight(const char *text, uint32_t *weight)
{
    char reason[BI_SENTENCE_SIZE];
    uint64_t number;
    if (!bi_read_count(text, &number, reason) || number == 0 || number > UINT32_MAX)
        return false;
    *weight = (uint32_t)number;
    return true;
}

static bool take_weight(struct choice *choice, const char *word, const char *text, char *error)
{
    if (choice->strategy != BIDE_BY_PRIORITY && choice->strategy != BIDE_WEIGHTED)
        return bi_refuse(error, "\"%.60s\" has a weight, which wants --strategy weighted", word);
    choice->strategy = BIDE_WEIGHTED;
    if (!read_weight(text, &choice->weights[choice->count]))
        return bi_refuse(error, "\"%.60s\": a weight is a number from 1 on", word);
    return true;
}

bool bi_choice_read(struct choice *choice, const char *const *words, size_t count, char *error)
{
    for (choice->count = 0; choice->count < count; choice->count++) {
        const char *word = words[choice->count], *colon = strchr(word, ':');
        size_t size = colon == NULL ? strlen(word) : (size_t)(colon - word);
        choice->topics[choice->count] = (bide_slice){word, size};
        choice->weights[choice->count] = 1;
        if (!bi_is_topic(choice->topics[choice->count]))
            return bi_refuse(error,
                             "\"%.60s\" is no name of a topic: 1 to %d letters, digits and "
                             "-+/;.$_(), no - in front",
                             word, BIDE_TOPIC_MAX);
        if (colon != NULL && !take_weight(choice, word, colon + 1, error))
            return false;
    }
    return true;
}
