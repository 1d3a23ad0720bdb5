/* SPDX-License-Identifier: MIT */
/*
 * completion_zsh.c - the script for zsh, which uses _arguments and shows the help of flags.
 */
#include "cli/completion.h"

#include <ctype.h>
#include <string.h>

/* Escapes text for '...' and for _arguments. */
static void print_text(FILE *to, const char *text, const char *special)
{
    for (; *text != 0; text++) {
        if (*text == '\'')
            fputs("'\\''", to);
        else if (strchr(special, *text) != NULL)
            fprintf(to, "\\%c", *text);
        else
            fputc(*text, to);
    }
}

/* ---- kinds ---- */

static const struct {
    const char *name, *action;
} actions[] = {
    {"TOPIC", "_bide_topics"}, {"FILE", "_files"},        {"FOLDER", "_files -/"},
    {"PROGRAM", "_files"},     {"STATE", "_bide_states"}, {"VERB", "_bide_verbs"},
};

static const char *action_of(const char *name, size_t size)
{
    for (size_t i = 0; i < sizeof(actions) / sizeof(actions[0]); i++)
        if (strncmp(actions[i].name, name, size) == 0 && actions[i].name[size] == 0)
            return actions[i].action;
    return NULL;
}

/* Prints the action for a kind: literals, or the first known part; a space: none. */
static void print_action(FILE *to, const char *kind)
{
    const char *choice, *action = NULL, *at = kind;
    size_t size;
    if (islower((unsigned char)kind[0]) && strchr(kind, '|') != NULL) {
        fputc('(', to);
        while ((choice = bi_completion_next_choice(&at, &size)) != NULL)
            fprintf(to, "%s%.*s", choice == kind ? "" : " ", (int)size, choice);
        fputc(')', to);
        return;
    }
    while (action == NULL && (choice = bi_completion_next_choice(&at, &size)) != NULL)
        action = action_of(choice, size);
    fputs(action == NULL ? " " : action, to);
}

/* ---- flags ---- */

/* Prints one form of a flag, its letter or its name. The forms exclude each other, unless the flag may be
 * repeated. */
static void print_form(FILE *to, const struct flag *flag, bool by_letter)
{
    fputs("        '", to);
    if (flag->parse == bi_flag_parse_list)
        fputc('*', to);
    else if (flag->letter != 0)
        fprintf(to, "(-%c --%s)", flag->letter, flag->name);
    if (by_letter)
        fprintf(to, "-%c%s[", flag->letter, flag->value_name == NULL ? "" : "+");
    else
        fprintf(to, "--%s%s[", flag->name, flag->value_name == NULL ? "" : "=");
    print_text(to, flag->help, "[]:\\");
    fputc(']', to);
    if (flag->value_name != NULL) {
        fputc(':', to);
        print_text(to, flag->value_name, ":\\");
        fputc(':', to);
        print_action(to, flag->value_name);
    }
    fputs("'\n", to);
}

static void print_flags(FILE *to, const struct flag *flags)
{
    for (; flags != NULL && flags->name != NULL; flags++) {
        if (flags->letter != 0)
            print_form(to, flags, true);
        print_form(to, flags, false);
    }
}

/* ---- verbs ---- */

static void print_slots(FILE *to, const struct verb *verb)
{
    struct slots slots;
    bi_completion_parse_usage(&slots, verb->usage);
    for (size_t i = 0; i < slots.count; i++) {
        if (i + 1 == slots.count && slots.repeats)
            fputs("        '*:", to);
        else
            fprintf(to, "        '%zu:", i + 1);
        print_text(to, slots.name[i], ":\\");
        fputc(':', to);
        print_action(to, slots.name[i]);
        fputs("'\n", to);
    }
}

static void print_verb(FILE *to, const struct verb *verb)
{
    fprintf(to, "    %s) arguments+=(\n", verb->name);
    print_flags(to, verb->flags);
    print_slots(to, verb);
    fputs("        ) ;;\n", to);
}

static void print_verbs(FILE *to)
{
    const struct verb *verb;
    fputs("_bide_verbs() {\n    local -a verbs=(\n", to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++) {
        fprintf(to, "        '%s:", verb->name);
        print_text(to, verb->summary, ":\\");
        fputs("'\n", to);
    }
    fputs("    )\n    _describe -t verbs verb verbs\n}\n\n", to);
}

/* ---- functions ---- */

static const char functions[] =
    "_bide_topics() {\n"
    "    local url=${(Q)opt_args[--url]:-${(Q)opt_args[-u]:-$_bide_url}}\n"
    "    local -a topics\n"
    "    topics=(${(f)\"$($_bide_program completion topics ${url:+--url=$url} 2>/dev/null)\"})\n"
    "    compadd -a topics\n"
    "}\n"
    "\n";

static const char rest[] =
    "    esac\n"
    "    _arguments -s -S $arguments\n"
    "}\n"
    "\n"
    "_bide() {\n"
    "    local curcontext=$curcontext state line _bide_program=$words[1] _bide_url=\n"
    "    local -A opt_args\n"
    "    _arguments -C -s -S -A '-*' $_bide_common '1:verb:_bide_verbs' '*::argument:->arguments' && return\n"
    "    [[ $state == arguments ]] || return\n"
    "    _bide_url=${(Q)opt_args[--url]:-${(Q)opt_args[-u]:-}}\n"
    "    _bide_verb\n"
    "}\n"
    "\n"
    "_bide \"$@\"\n";

static void print_program_verbs(FILE *to)
{
    const struct verb *verb;
    bool first = true;
    fputs("    local at=${words[(i)--]}\n    case $words[1] in\n    ", to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++) {
        if ((verb->traits & BI_VERB_PROGRAM) == 0)
            continue;
        fprintf(to, "%s%s", first ? "" : " | ", verb->name);
        first = false;
    }
    fputs(first ? "''" : "", to);
    fputs(")\n"
          "        if ((at < CURRENT)); then\n"
          "            words=(\"${(@)words[at + 1,-1]}\")\n"
          "            ((CURRENT -= at))\n"
          "            _normal\n"
          "            return\n"
          "        fi ;;\n"
          "    esac\n",
          to);
}

void bi_completion_print_zsh(FILE *to)
{
    const struct verb *verb;
    fputs("#compdef bide\n# zsh completion for bide, made by \"bide completion zsh\".\n\n", to);
    fputs("_bide_common=(\n", to);
    print_flags(to, bi_verb_common_flags(NULL));
    fputs(")\n\n_bide_states() { # or several, with commas\n    compset -P '*,'\n    compadd ", to);
    bi_completion_print_states(to);
    fputs("\n}\n\n", to);
    print_verbs(to);
    fputs(functions, to);
    fputs("_bide_verb() {\n    local -a arguments=($_bide_common)\n", to);
    print_program_verbs(to);
    fputs("    case $words[1] in\n", to);
    for (size_t i = 0; (verb = bi_verb_get(i)) != NULL; i++)
        print_verb(to, verb);
    fputs(rest, to);
}
