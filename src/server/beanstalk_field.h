/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_field - what a line of the protocol consists of: numbers, durations, names, words, and
 * options of the form name=value.
 *
 * Every take reads from where the reader stands, and moves it behind what was taken; false, or an
 * empty word, if it is not there.
 */
#ifndef BI_BEANSTALK_FIELD_H
#define BI_BEANSTALK_FIELD_H

#include "server/beanstalk_parse.h"

struct reader {
    const char *at, *end;
};

static inline void skip_spaces(struct reader *reader)
{
    while (reader->at < reader->end && *reader->at == ' ')
        reader->at++;
}

static inline bool at_digit(const struct reader *reader)
{
    return reader->at < reader->end && *reader->at >= '0' && *reader->at <= '9';
}

static inline bool at_end(const struct reader *reader)
{
    return reader->at == reader->end;
}

/* Digits, at most max; spaces in front are not skipped. */
bool bi_take_digits(struct reader *reader, uint64_t max, uint64_t *value);

/* A number, and the spaces in front of it. */
bool bi_take_u64(struct reader *reader, uint64_t *value);
bool bi_take_u32(struct reader *reader, uint32_t *value);

/* Seconds, or a number with a unit; longer than the queue's longest time is that. */
bool bi_take_duration(struct reader *reader, int64_t *ms);

/* All bytes up to a space. */
bide_slice bi_take_word(struct reader *reader);
bool bi_is_word(bide_slice slice, const char *word);

/* The state that a word names; "any" if that is allowed. */
bool bi_take_state(bide_slice word, bool any, bide_state *state);

/* May this stand in the name of a tube? */
bool bi_is_name_char(unsigned char c);

/* ---- beanstalk_option.c ---- */

/* Does what follows look like options, and not like garbage? */
bool bi_at_options(const struct reader *reader);
/* All that follows are options of the verb. */
bool bi_take_options(struct command *command, enum verb verb, struct reader *reader);
/* Nothing follows, or options; the line of a command with a body. */
enum parse bi_take_body_options(struct command *command, enum verb verb, struct reader *reader);

#endif
