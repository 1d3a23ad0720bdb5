/* SPDX-License-Identifier: MIT */
/*
 * completion - what the tab key offers behind "bide" in a shell.
 *
 * The scripts are made from the tables of verbs and flags, so they know what this bide knows. What
 * a word may be is told by its name in the usage of a verb, or behind a flag: TOPIC, FILE, STATE,
 * VERB and PROGRAM are known, small letters are the word itself, a|b is one or the other, and ...
 * goes on. For anything else nothing is offered.
 */
#ifndef BI_COMPLETION_H
#define BI_COMPLETION_H

#include "cli/verb.h"

#define BI_SLOTS_MAX 8
#define BI_SLOT_SIZE 64

/* The words that a verb takes, in order, up to the first flag or another way to call it. */
struct slots {
    char name[BI_SLOTS_MAX][BI_SLOT_SIZE]; /* "TOPIC", "on|off" */
    bool repeats;                          /* the last one, as often as one likes */
    size_t count;
};
void bi_completion_parse_usage(struct slots *slots, const char *usage);

/* The next part of "a|b|c", of so many bytes; NULL behind the last. at is moved on. */
const char *bi_completion_next_choice(const char **at, size_t *size);

/* "delayed ready ...". */
void bi_completion_print_states(FILE *to);

/* The scripts. */
void bi_completion_print_bash(FILE *to);
void bi_completion_print_zsh(FILE *to);

#endif
