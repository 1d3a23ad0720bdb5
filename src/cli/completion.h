/* SPDX-License-Identifier: MIT */
/*
 * completion - shell completion scripts.
 *
 * The scripts are generated from the tables of verbs and flags. The kind of an argument is its name in
 * the usage of a verb, or after a flag: TOPIC, FILE, STATE, VERB and PROGRAM are completed, lower case
 * is a literal, a|b are alternatives, and "..." repeats. Other kinds are not completed.
 */
#ifndef BI_COMPLETION_H
#define BI_COMPLETION_H

#include "cli/verb.h"

#define BI_SLOTS_MAX 8
#define BI_SLOT_SIZE 64

/* The arguments of a verb, in order, up to the first flag or alternative usage. */
struct slots {
    char name[BI_SLOTS_MAX][BI_SLOT_SIZE]; /* "TOPIC", "on|off" */
    bool repeats;                          /* the last argument may be repeated */
    size_t count;
};
void bi_completion_parse_usage(struct slots *slots, const char *usage);

/* Returns the next part of "a|b|c" and its size, and advances at; NULL after the last. */
const char *bi_completion_next_choice(const char **at, size_t *size);

/* "delayed ready ...". */
void bi_completion_print_states(FILE *to);

/* The scripts. */
void bi_completion_print_bash(FILE *to);
void bi_completion_print_zsh(FILE *to);

#endif
