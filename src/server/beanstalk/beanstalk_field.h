/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_field - the fields of a protocol line: numbers, durations, names, words and options of
 * the form name=value.
 *
 * Each function parses at the reader's position and advances it behind the field. It returns false,
 * or an empty word, if the field is missing or invalid; the position is then undefined.
 */
#ifndef BI_BEANSTALK_FIELD_H
#define BI_BEANSTALK_FIELD_H

#include "server/beanstalk/beanstalk_parse.h"

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

/* Digits with a value of at most max. Does not skip spaces. */
bool bi_beanstalk_field_digits(struct reader *reader, uint64_t max, uint64_t *value);

/* A number; skips spaces before it. */
bool bi_beanstalk_field_u64(struct reader *reader, uint64_t *value);
bool bi_beanstalk_field_u32(struct reader *reader, uint32_t *value);

/* Seconds, or a number with a unit (ms, s, m, h, d); limited to BIDE_TIME_MAX_MS. */
bool bi_beanstalk_field_duration(struct reader *reader, int64_t *ms);

/* All bytes up to the next space; skips spaces before them. */
bide_slice bi_beanstalk_field_word(struct reader *reader);
bool bi_beanstalk_field_equals(bide_slice slice, const char *word);

/* Sets *state to the state with this name; "any" only if allowed. */
bool bi_beanstalk_field_state(bide_slice word, bool any, bide_state *state);

/* True for a character that the name of a tube may contain. */
bool bi_beanstalk_field_is_name_char(unsigned char c);

/* ---- beanstalk_option.c ---- */

/* True if a space and a word with '=' follow. Anything else behind a command is no option. */
bool bi_beanstalk_option_follows(const struct reader *reader);
/* Parses the rest of the line as options of the verb. False: an option is unknown or invalid. */
bool bi_beanstalk_option_parse(struct command *command, enum verb verb, struct reader *reader);
/* The same for a line that announces a body: its size is known, so a bad option is recoverable. */
enum parse bi_beanstalk_option_parse_body(struct command *command, enum verb verb,
                                          struct reader *reader);

#endif
