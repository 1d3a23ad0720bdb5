/* SPDX-License-Identifier: MIT */
/*
 * help.c - bide help, generated from the tables of verbs and flags.
 */
#include "cli/verb.h"

#include <ctype.h>
#include <string.h>

#define COLUMN 26
#define WIDTH  79

static const char intro[] = "Usage: bide [FLAGS] VERB [ARGUMENTS]\n"
                            "\n"
                            "A job queue for deferred work.\n"
                            "\n"
                            "  bide put email 'hello'                     put a job into a topic\n"
                            "  bide work email -- ./send                  run ./send for each job\n"
                            "  bide put email --delay 1h30m < letter.txt  put a delayed job\n"
                            "  bide top                                   watch the queue\n";

static const char footer[] =
    "\n"
    "The queue is given by --url, $BIDE_URL or the config file. Otherwise it is the\n"
    "server of this machine, or a user server, which bide starts when needed. For a\n"
    "server with a secret: --url 'beanstalk://HOST:PORT?secret_file=PATH'.\n"
    "\n"
    "See \"bide help VERB\" for the flags of a verb, and bide(1).\n";

/* Prints words, wrapped at WIDTH; lines after the first are indented. column: the current column. */
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

void bi_help_print_all(FILE *to)
{
    const char *group = NULL;
    const struct verb *verb;
    fputs(intro, to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++) {
        if (group == NULL || strcmp(group, verb->group) != 0)
            fprintf(to, "\n%s:\n", verb->group);
        group = verb->group;
        fprintf(to, "  %-12s%s\n", verb->name, verb->summary);
    }
    fputs("\nFlags of every verb:\n", to);
    print_flags(to, bi_verb_common_flags(NULL));
    fputs(footer, to);
}

void bi_help_print_verb(FILE *to, const struct verb *verb)
{
    fprintf(to, "Usage: bide %s%s%s%s\n\n%c%s.\n", verb->name,
            verb->flags == NULL ? "" : " [FLAGS]", verb->usage[0] == 0 ? "" : " ", verb->usage,
            toupper((unsigned char)verb->summary[0]), verb->summary + 1);
    if (verb->flags != NULL) {
        fputs("\nFlags:\n", to);
        print_flags(to, verb->flags);
    }
    fputs("\nFlags of every verb:\n", to);
    print_flags(to, bi_verb_common_flags(NULL));
    if (verb->details != NULL) {
        fputc('\n', to);
        print_details(to, verb->details);
    }
}

/* ---- the verb ---- */

static int run(struct cli *cli)
{
    if (cli->word_count == 0) {
        bi_help_print_all(stdout);
        return BI_EXIT_OK;
    }

    const struct verb *verb = bi_verb_find(cli->words[0]);
    if (verb == NULL) {
        cli->verb = NULL; /* the hint is "bide help", not the help of help */
        return bi_verb_reject(cli, cli->words[0]);
    }
    bi_help_print_verb(stdout, verb);
    return BI_EXIT_OK;
}

const struct verb bi_verb_help = {
    .name = "help",
    .group = BI_GROUP_SELF,
    .usage = "[VERB]",
    .summary = "print help, for bide or for a verb",
    .details = "\"bide VERB --help\" prints the same.\n"
               "\n"
               "  bide help\n"
               "  bide help put\n",
    .max = 1,
    .traits = BI_VERB_NO_QUEUE | BI_VERB_NO_CONFIG,
    .run = run,
};
