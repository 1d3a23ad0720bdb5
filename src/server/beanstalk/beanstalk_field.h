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

/* What a field of a line, or the value of an option, is. The lower byte is the size of the member
 * that it sets. */
#define KIND(number, type) ((number) << 8 | sizeof(type))

enum field_kind {
    NONE,
    U32 = KIND(1, uint32_t),
    U64 = KIND(2, uint64_t),
    BATCH = KIND(3, uint64_t),      /* a number of jobs, at most BIDE_BATCH_JOBS */
    KICK_COUNT = KIND(4, uint64_t), /* a number as strtoul() parses it */
    DURATION = KIND(5, int64_t),
    SECONDS = KIND(6, int64_t),     /* a duration that beanstalkd accepts as a timeout */
    MAY_TIMEOUT = KIND(7, int64_t), /* a duration or nothing; only the last field */
    POSITIVE = KIND(8, int64_t),    /* a duration above 0 */
    TTR = KIND(9, int64_t),         /* a duration; 0 is one second, as in beanstalkd */
    BACKOFF = KIND(10, int64_t),  /* BASE or BASE,MAX: two durations for this member and the next */
    DATETIME = KIND(11, int64_t), /* milliseconds since 1970 */
    PRIORITY = KIND(12, int64_t),
    RETRIES = KIND(13, int32_t),
    WORD = KIND(14, bide_slice),
    LINE = KIND(15, bide_slice), /* the rest of the line: any bytes but CR LF and NUL */
    NAME = KIND(16, bide_slice), /* the rest of the line: the name of a tube */
    NAME_CHARS = KIND(
        17, bide_slice), /* up to the first character that no name contains, as in beanstalkd */
    TUBE = KIND(18, bide_slice),
    TUBE_OR_ALL = KIND(19, bide_slice), /* * for all tubes: an empty name */
    STATE = KIND(
        20, bide_state), /* not reserved: such jobs belong to their holders and cannot be purged */
    STATE_OR_ANY = KIND(21, bide_state),
    KEY = KIND(22, bide_slice), /* percent-encoded, as are text and cursor */
    TEXT = KIND(23, bide_slice),
    CURSOR = KIND(24, char[BIDE_CURSOR_SIZE]),
    CONFLICT = KIND(25, bide_conflict), /* replace, reject or skip */
    HOLD = KIND(26, bool),              /* retained */
    ENDING = KIND(27, bide_ending),     /* of step: delete, done, release or bury */
};

#undef KIND

/* A field and the member of the command that it sets. */
struct field {
    unsigned short kind; /* of enum field_kind */
    unsigned short at;
};

/* Does not compile if the member has another size than that of the kind. */
#define FIELD(kind, member)                                                                     \
    {                                                                                           \
        (kind) * sizeof(char[((kind)&0xff) == sizeof(((struct command *)0)->member) ? 1 : -1]), \
            offsetof(struct command, member)                                                    \
    }

/* True for a number of jobs that one command may have. */
static inline bool bi_beanstalk_field_is_batch(uint64_t count)
{
    return count >= 1 && count <= BIDE_BATCH_JOBS;
}

bool bi_beanstalk_field_parse(struct command *command, const struct field *field,
                              struct reader *reader);

#endif
