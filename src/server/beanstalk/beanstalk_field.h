/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_field - the fields of a protocol line, and the values of its options: numbers,
 * durations, names, words.
 *
 * Each function parses at the reader's position and advances it behind the field. It returns false,
 * or an empty word, if the field is missing or invalid; the position is then undefined. Keys, texts
 * and cursors are percent-encoded, since values cannot contain spaces. They are decoded into the
 * command; other values point into the line.
 */
#ifndef BI_BEANSTALK_FIELD_H
#define BI_BEANSTALK_FIELD_H

#include "server/beanstalk/beanstalk_parse.h"

#include <stddef.h>

struct reader {
    const char *at, *end;
};

static inline void skip_spaces(struct reader *reader)
{
    while (reader->at < reader->end && *reader->at == ' ')
        reader->at++;
}

static inline bool at_end(const struct reader *reader)
{
    return reader->at == reader->end;
}

/* A number; skips spaces before it. */
bool bi_beanstalk_field_u64(struct reader *reader, uint64_t *value);
bool bi_beanstalk_field_u32(struct reader *reader, uint32_t *value);

/* All bytes up to the next space; skips spaces before them. */
bide_slice bi_beanstalk_field_word(struct reader *reader);
bool bi_beanstalk_field_equals(bide_slice slice, const char *word);

/* ---- members of a command ---- */

/* What a field of a line, or the value of an option, is. */
enum field_kind {
    NONE,
    U32,
    U64,
    BATCH,      /* a number of jobs, at most BIDE_BATCH_JOBS */
    KICK_COUNT, /* a number as strtoul() parses it */
    DURATION,
    SECONDS,     /* a duration that beanstalkd accepts as a timeout */
    MAY_TIMEOUT, /* a duration or nothing; only the last field */
    POSITIVE,    /* a duration above 0 */
    TTR,         /* a duration; 0 is one second, as in beanstalkd */
    BACKOFF,     /* BASE or BASE,MAX: two durations for this member and the next */
    DATETIME,    /* milliseconds since 1970 */
    PRIORITY,
    RETRIES,
    WORD,
    LINE,       /* the rest of the line: any bytes but CR LF and NUL */
    NAME,       /* the rest of the line: the name of a tube */
    NAME_CHARS, /* up to the first character that no name contains, as in beanstalkd */
    TUBE,
    TUBE_OR_ALL, /* * for all tubes: an empty name */
    STATE,       /* not reserved: such jobs belong to their holders and cannot be purged */
    STATE_OR_ANY,
    KEY, /* percent-encoded, as are text and cursor */
    TEXT,
    CURSOR,
    CONFLICT, /* replace or reject */
    HOLD,     /* retained */
};

/* A field and the member of the command that it sets. */
struct field {
    unsigned char kind; /* of enum field_kind */
    unsigned char size; /* of the member, which must be that of the kind */
    unsigned short at;
};

#define FIELD(kind, member)                                  \
    {                                                        \
        kind, sizeof(((struct command *)0)->member),         \
            (unsigned short)offsetof(struct command, member) \
    }

/* True for a number of jobs that one command may have. */
static inline bool bi_beanstalk_field_is_batch(uint64_t count)
{
    return count >= 1 && count <= BIDE_BATCH_JOBS;
}

bool bi_beanstalk_field_parse(struct command *command, const struct field *field,
                              struct reader *reader);

#endif
