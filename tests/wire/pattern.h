/* SPDX-License-Identifier: MIT */
/*
 * pattern - the texts of a transcript: read into parts, written out to be sent, and compared with
 * what has come. script.h lists what may stand in them.
 */
#ifndef WIRE_PATTERN_H
#define WIRE_PATTERN_H

#include "script.h"

/* The names of the words that a transcript keeps. */
struct pattern_words {
    char names[WORDS_KEPT][16];
    int count;
};

/* What they are; NULL: not known yet. */
struct pattern_values {
    char *values[WORDS_KEPT];
};

/* Reads the text of a step into its parts, with this at its end. NULL, or what is wrong. */
const char *pattern_parse(struct step *step, const char *end, struct pattern_words *words);
void pattern_done(struct step *step);

/* Are all words known that are to be sent? */
bool pattern_is_complete(const struct step *step, const struct pattern_values *values);
void pattern_write(const struct step *step, const struct pattern_values *values, struct bytes *out);

enum pattern_match { MATCH_SAME, MATCH_DIFFERENT, MATCH_INCOMPLETE };

/* Compares a text with the beginning of data; MATCH_INCOMPLETE: more must come to tell. When they
 * are the same: used is how many bytes were compared, the words that were not known are, and the
 * number that stood at \y is in yaml_size. */
enum pattern_match pattern_compare(const struct step *step, struct pattern_values *values,
                                   const char *data, size_t size, size_t *used, int64_t *yaml_size);

void pattern_forget(struct pattern_values *values);

#endif
