/* SPDX-License-Identifier: MIT */
/*
 * help.c - what bide help prints, made from the tables of verbs and flags.
 */
#include "cli/verb.h"

#include <string.h>

#define COLUMN 26
#define WIDTH  79

static const char intro[] = "Use: bide [FLAGS] VERB [ARGUMENTS]\n"
                            "\n"
                            "A job queue for work that happens later.\n"
                            "\n"
                            "  bide put email 'hello'                     put a job into a topic\n"
                            "  bide work email -- ./send                  run ./send for each job\n"
                            "  bide put email --delay 1h30m < letter.txt  one that is ready later\n"
                            "  bide top                                   watch\n";

static const char footer[] =
    "\n"
    "The queue is that of --url, of $BIDE_URL, or of the config file; else the\n"
    "server on this machine, or one of your own, which is then started. A server\n"
    "that wants a secret: --url 'beanstalk://HOST:PORT?secret_file=PATH'.\n"
    "\"bide help VERB\" says more, and so does \"man bide\".\n";

/* Words, folded at the right edge; what follows the first line is indented. column: where the
 * first word goes. */
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

/* Paragraphs are folded; lines that begin with a space, such as examples, stay as they are. */
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
    fprintf(to, "Use: bide %s%s%s%s\n\n%s.\n", verb->name, verb->flags == NULL ? "" : " [FLAGS]",
            verb->usage[0] == 0 ? "" : " ", verb->usage, verb->summary);
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
