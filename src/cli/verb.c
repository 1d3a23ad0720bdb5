/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"
#include "util/suggest.h"

#include <string.h>

static const struct verb *const table[] = {
#define BI_VERB_ROW(name_) &bi_verb_##name_,
    BI_VERBS(BI_VERB_ROW)
#undef BI_VERB_ROW
};

#define COUNT (sizeof(table) / sizeof(table[0]))

const struct verb *bi_verb_get(size_t index)
{
    return index < COUNT ? table[index] : NULL;
}

const struct verb *bi_verb_find(const char *name)
{
    for (size_t i = 0; i < COUNT; i++)
        if (strcmp(table[i]->name, name) == 0)
            return table[i];
    return NULL;
}

/* Verbs of other programs, and their names here. */
static const struct {
    const char *name, *replacement;
} synonyms[] = {
    {"add", "put"},           {"clear", "purge"},
    {"consume", "work"},      {"enqueue", "put"},
    {"flush", "purge"},       {"info", "job"},
    {"ls", "topics or list"}, {"monitor", "top"},
    {"push", "put"},          {"queues", "topics or list"},
    {"remove", "delete"},     {"retry", "kick"},
    {"rm", "delete"},         {"run", "work"},
    {"status", "stats"},      {"tubes", "topics or list"},
    {"version", "--version"}, {"watch", "top"},
    {"worker", "work"},
};

static const char *suggest(const char *name)
{
    for (size_t i = 0; i < sizeof(synonyms) / sizeof(synonyms[0]); i++)
        if (strcmp(synonyms[i].name, name) == 0)
            return synonyms[i].replacement;
    struct suggestion suggestion = BI_SUGGEST_INIT;
    for (size_t i = 0; i < COUNT; i++)
        bi_suggest_consider(&suggestion, table[i]->name, name, strlen(name));
    return suggestion.best;
}

int bi_verb_reject(const struct cli *cli, const char *name)
{
    const char *near = suggest(name);
    if (near != NULL)
        return bi_cli_usage_error(cli, "unknown verb \"%.60s\"; did you mean %s?", name, near);
    return bi_cli_usage_error(cli, "unknown verb \"%.60s\"", name);
}
