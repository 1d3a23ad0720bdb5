/* SPDX-License-Identifier: MIT */
/*
 * text - the texts of a transcript: read into parts, written out to be sent, and compared with what
 * has come. script.h lists what may stand in them.
 */
#ifndef WIRE_TEXT_H
#define WIRE_TEXT_H

#include "script.h"

/* The names of the words that a transcript keeps. */
struct text_words {
    char names[WORDS_KEPT][16];
    int count;
};

/* What they are; NULL: not known yet. */
struct text_values {
    char *values[WORDS_KEPT];
};

/* Reads the text of a step into its parts, with this at its end. NULL, or what is wrong. */
const char *text_read(struct step *step, const char *end, struct text_words *words);
void text_done(struct step *step);

/* Are all words known that are to be sent? */
bool text_known(const struct step *step, const struct text_values *values);
void text_write(const struct step *step, const struct text_values *values, struct bytes *out);

enum text_answer { TEXT_SAME, TEXT_DIFFERENT, TEXT_SHORT };

/* Compares a text with the beginning of data; TEXT_SHORT: more must come to tell. When they are the
 * same: used is how many bytes were compared, the words that were not known are, and the number
 * that stood at \y is in yaml_size. */
enum text_answer text_compare(const struct step *step, struct text_values *values, const char *data,
                              size_t size, size_t *used, int64_t *yaml_size);

void text_forget(struct text_values *values);

#endif
