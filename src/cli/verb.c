/* SPDX-License-Identifier: MIT */
#include "cli/verb.h"

#include <assert.h>
#include <ctype.h>
#include <string.h>

/* ---- the table ---- */

static const struct verb *const table[] = {
#define BI_VERB_ROW(name_) &bi_verb_##name_,
    BI_VERBS(BI_VERB_NO_HEADING, BI_VERB_ROW)
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

const char *bi_verb_text(const char *name)
{
    const struct embedded_text *text = bi_embedded_texts;

    while (text->name != NULL && strcmp(text->name, name) != 0)
        text++;
    assert(text->name != NULL);
    return text->text;
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

/* ---- arguments ---- */

/* Strips brackets, optional suffixes ("TOPIC[:WEIGHT]") and "...", which means that the argument
 * repeats. */
static void add_argument(struct usage *usage, const char *text, size_t size)
{
    char *name = usage->name[usage->count];
    size_t length = 0;
    bool skipping = false;

    assert(usage->count < BI_USAGE_WORDS_MAX);
    usage->repeats = false;
    for (size_t i = 0; i < size && length < BI_USAGE_WORD_SIZE - 1; i++) {
        skipping = (skipping && text[i] != ']') || (text[i] == '[' && length > 0);
        if (text[i] == '.')
            usage->repeats = true;
        else if (!skipping && strchr("[]()", text[i]) == NULL)
            name[length++] = text[i];
    }
    name[length] = 0;
    usage->count++;
    usage->required += text[0] != '[';
}

/* A flag or a separate | in the usage begins an alternative usage. */
void bi_verb_parse_usage(struct usage *usage, const char *text)
{
    *usage = (struct usage){.count = 0};
    while (text[0] != 0 && text[0] != '-' && usage->count < BI_USAGE_WORDS_MAX) {
        size_t size = strcspn(text, " ");
        if (size == 1 && text[0] == '|')
            break;
        add_argument(usage, text, size);
        text += size;
        text += strspn(text, " ");
    }
}

int bi_verb_check_words(const struct cli *cli, size_t min, size_t max)
{
    const struct verb *verb = cli->verb;

    if (cli->word_count < min)
        return bi_cli_usage_error(cli, "missing argument: bide %s %s", verb->name, verb->usage);
    if (cli->word_count > max)
        return bi_cli_usage_error(cli, "unexpected argument \"%.60s\": bide %s%s%s",
                                  cli->words[max], verb->name, verb->usage[0] == 0 ? "" : " ",
                                  verb->usage);
    return BI_EXIT_OK;
}

/* ---- help ---- */

#define COLUMN 26
#define WIDTH  79

/* Prints words, wrapped at WIDTH; lines after the first are indented. column: the current
 * column. */
static void wrap(FILE *to, const char *text, size_t size, size_t column, size_t indent)
{
    bool first = true;

    for (size_t at = 0; at < size;) {
        size_t word = strcspn(text + at, " \n");
        size_t room = column + (first ? 0 : 1) + word;
        if (word > 0 && !first && room > WIDTH) {
            fprintf(to, "\n%*s", (int)indent, "");
            column = indent;
            first = true;
        }
        if (word > 0) {
            fprintf(to, "%s%.*s", first ? "" : " ", (int)word, text + at);
            column += word + (first ? 0 : 1);
            first = false;
        }
        at += word + 1;
    }
}

static void print_flags(FILE *to, const struct flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        char left[80];
        char letter[8] = "    ";
        if (flags->letter != 0)
            snprintf(letter, sizeof(letter), "-%c, ", flags->letter);
        int size = snprintf(left, sizeof(left), "  %s--%s%s%s", letter, flags->name,
                            flags->value_name == NULL ? "" : " ",
                            flags->value_name == NULL ? "" : flags->value_name);
        if (size > COLUMN - 2)
            fprintf(to, "%s\n%*s", left, COLUMN, "");
        else
            fprintf(to, "%-*s", COLUMN, left);
        wrap(to, flags->help, strlen(flags->help), COLUMN, COLUMN);
        fputc('\n', to);
    }
}

/* Wraps paragraphs; lines that begin with a space, such as examples, are printed unchanged. */
static void print_details(FILE *to, const char *text)
{
    while (*text != 0) {
        size_t size = strcspn(text, "\n");
        if (text[0] == ' ' || size == 0) {
            fprintf(to, "%.*s\n", (int)size, text);
        } else {
            while (text[size] != 0 && text[size + 1] != 0 && strchr(" \n", text[size + 1]) == NULL)
                size += 1 + strcspn(text + size + 1, "\n");
            wrap(to, text, size, 0, 0);
            fputc('\n', to);
        }
        text += size + (text[size] == '\n');
    }
}

void bi_verb_print_help(FILE *to)
{
    fputs(bi_verb_text("bide"), to);
#define PRINT_HEADING(text_) fprintf(to, "\n%s:\n", text_);
#define PRINT_VERB(name_)    fprintf(to, "  %-12s%s\n", bi_verb_##name_.name, bi_verb_##name_.summary);
    BI_VERBS(PRINT_HEADING, PRINT_VERB)
    fputs("\nFlags of every verb:\n", to);
    print_flags(to, bi_verb_common_flags(NULL));
    fprintf(to, "\n%s", bi_verb_text("bide, at the end"));
}

void bi_verb_print_verb_help(FILE *to, const struct verb *verb)
{
    assert(verb->name != NULL && verb->usage != NULL && verb->summary != NULL);
    fprintf(to, "Usage: bide %s%s%s%s\n\n%c%s.\n", verb->name,
            verb->flags == NULL ? "" : " [FLAGS]", verb->usage[0] == 0 ? "" : " ", verb->usage,
            toupper((unsigned char)verb->summary[0]), verb->summary + 1);
    if (verb->flags != NULL) {
        fputs("\nFlags:\n", to);
        print_flags(to, verb->flags);
    }
    fputs("\nFlags of every verb:\n", to);
    print_flags(to, bi_verb_common_flags(NULL));
    fputc('\n', to);
    print_details(to, bi_verb_text(verb->name));
}

/* ---- the verb ---- */

static int run(struct cli *cli)
{
    if (cli->word_count == 0) {
        bi_verb_print_help(stdout);
        return BI_EXIT_OK;
    }

    const struct verb *verb = bi_verb_find(cli->words[0]);
    if (verb == NULL) {
        cli->verb = NULL; /* the hint is "bide help", not the help of help */
        return bi_verb_reject(cli, cli->words[0]);
    }
    bi_verb_print_verb_help(stdout, verb);
    return BI_EXIT_OK;
}

const struct verb bi_verb_help = {
    .name = "help",
    .usage = "[VERB]",
    .summary = "print help, for bide or for a verb",
    .traits = BI_VERB_NO_QUEUE | BI_VERB_NO_CONFIG,
    .run = run,
};
