/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/beanstalk_field.h"

#include <limits.h>
#include <string.h>

/* ---- verbs with a grammar of their own ---- */

static enum parse ok_if(bool valid)
{
    return valid ? PARSE_OK : PARSE_BAD_FORMAT;
}

static enum parse parse_put(struct command *command, struct reader *reader)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;

    command->put = init;
    command->expires_ms = 0;
    command->text_size = 0;

    if (!bi_beanstalk_field_u32(reader, &command->put.priority) ||
        !bi_beanstalk_field_duration(reader, &command->put.delay_ms) ||
        !bi_beanstalk_field_duration(reader, &command->put.ttr_ms) ||
        !bi_beanstalk_field_u32(reader, &command->body_size))
        return PARSE_BAD_FORMAT;

    command->counted = true;
    command->wants_body = true;

    /* As beanstalkd: a ttr of 0 is one second. */
    if (command->put.ttr_ms == 0)
        command->put.ttr_ms = 1000;

    /* The size is known: with a bad option the body is skipped and only this command fails. */
    enum parse parse = bi_beanstalk_option_parse_body(command, VERB_PUT, reader);
    if (command->put.run_at_ms != 0 && command->put.delay_ms != 0 && parse == PARSE_OK)
        return PARSE_BAD_OPTION;
    return parse;
}

/* The body is skipped if the count is invalid: its size is known. */
static enum parse parse_put_many(struct command *command, struct reader *reader)
{
    if (!bi_beanstalk_field_u64(reader, &command->count) ||
        !bi_beanstalk_field_u32(reader, &command->body_size) || !at_end(reader))
        return PARSE_BAD_FORMAT;

    command->wants_body = true;
    return command->count >= 1 && command->count <= BIDE_BATCH_JOBS ? PARSE_OK : PARSE_BAD_OPTION;
}

/* The frequent verbs have functions, too: they are faster than the interpretation of fields. */
static enum parse parse_id(struct command *command, struct reader *reader)
{
    return ok_if(bi_beanstalk_field_u64(reader, &command->id) && at_end(reader));
}

static enum parse parse_release_or_bury(struct command *command, struct reader *reader)
{
    return ok_if(
        bi_beanstalk_field_u64(reader, &command->id) &&
        bi_beanstalk_field_u32(reader, &command->priority) &&
        (command->verb == VERB_BURY || bi_beanstalk_field_duration(reader, &command->delay_ms)) &&
        at_end(reader));
}

static enum parse parse_call(struct command *command, struct reader *reader)
{
    if (!bi_beanstalk_field_u64(reader, &command->tag))
        return PARSE_BAD_FORMAT;

    command->name = bi_beanstalk_field_word(reader);
    command->wants_body = bi_beanstalk_field_u32(reader, &command->body_size) && at_end(reader);
    return ok_if(command->wants_body);
}

/* beanstalkd ignores what follows the number. */
static enum parse parse_timeout(struct command *command, struct reader *reader)
{
    struct reader copy = *reader;
    uint32_t seconds;

    /* beanstalkd stores the seconds in an int, and rejects larger values. */
    return ok_if(bi_beanstalk_field_u32(&copy, &seconds) && seconds <= INT_MAX &&
                 bi_beanstalk_field_duration(reader, &command->timeout_ms));
}

/* As beanstalkd: parsed like strtoul() does, then truncated to 32 bits. */
static enum parse parse_kick(struct command *command, struct reader *reader)
{
    while (!at_end(reader) && (*reader->at == ' ' || (*reader->at >= '\t' && *reader->at <= '\r')))
        reader->at++;

    bool minus = !at_end(reader) && *reader->at == '-';
    if (!at_end(reader) && (*reader->at == '-' || *reader->at == '+'))
        reader->at++;

    uint64_t number;
    if (!bi_beanstalk_field_digits(reader, UINT64_MAX, &number))
        return PARSE_BAD_FORMAT;

    command->count = (uint32_t)(minus ? 0 - number : number);
    return PARSE_OK;
}

/* The rest of the line. A secret may contain any byte but CR LF and NUL. */
static enum parse parse_rest(struct command *command, struct reader *reader)
{
    command->name = (bide_slice){reader->at, (size_t)(reader->end - reader->at)};
    return PARSE_OK;
}

static enum parse parse_name(struct command *command, struct reader *reader)
{
    parse_rest(command, reader);
    return ok_if(bi_beanstalk_field_is_name(command->name.data, command->name.size));
}

static enum parse parse_pause(struct command *command, struct reader *reader)
{
    skip_spaces(reader);
    const char *begin = reader->at;

    /* As beanstalkd: the name ends at the first character that no name may contain. */
    while (!at_end(reader) && bi_beanstalk_field_is_name_char((unsigned char)*reader->at))
        reader->at++;
    command->name = (bide_slice){begin, (size_t)(reader->at - begin)};

    if (command->name.size == 0 || !bi_beanstalk_field_duration(reader, &command->delay_ms) ||
        !at_end(reader))
        return PARSE_BAD_FORMAT;

    command->counted = true; /* although the name may be invalid, as in beanstalkd */
    return ok_if(bi_beanstalk_field_is_name(command->name.data, command->name.size));
}

/* fail and done: an id and a body. */
static enum parse parse_id_and_body(struct command *command, struct reader *reader)
{
    command->delay_ms = BIDE_KEEP;
    command->retain_ms = BIDE_KEEP;

    if (!bi_beanstalk_field_u64(reader, &command->id) ||
        !bi_beanstalk_field_u32(reader, &command->body_size))
        return PARSE_BAD_FORMAT;
    command->counted = true;
    command->wants_body = true;
    return bi_beanstalk_option_parse_body(command, command->verb, reader);
}

static enum parse parse_update(struct command *command, struct reader *reader)
{
    static const bide_update_args init = BIDE_UPDATE_INIT;

    command->update = init;
    if (!bi_beanstalk_field_u64(reader, &command->id) || !bi_beanstalk_option_follows(reader) ||
        !bi_beanstalk_option_parse(command, VERB_UPDATE, reader))
        return PARSE_BAD_FORMAT;

    command->update.id = command->id;
    return ok_if(command->update.delay_ms == BIDE_KEEP || command->update.run_at_ms == BIDE_KEEP);
}

static enum parse parse_lease(struct command *command, struct reader *reader);

/* ---- table of verbs ---- */

enum {
    EXTENSION = 1,   /* not a verb of beanstalkd */
    NEEDS_SPACE = 2, /* has arguments: without a space it is another word */
    LEASABLE = 4,    /* allowed under `lease` */
    OPTIONS = 8,     /* options may follow the fields */
    REST = 16,       /* beanstalkd ignores what follows */
};

/* The fields of a line, in order. */
enum field {
    NO_FIELD,
    ID,
    TAG,
    BATCH, /* a number of jobs, at most BIDE_BATCH_JOBS */
    TIMEOUT,
    MAY_TIMEOUT, /* only the last field */
    TUBE,
    TUBE_OR_ALL, /* * for all tubes: an empty name */
    STATE,       /* not reserved: such jobs belong to their holders and cannot be purged */
    STATE_OR_ANY,
};

/* A verb has a function, or fields. */
static const struct verb_syntax {
    enum parse (*parse)(struct command *command, struct reader *reader);
    unsigned flags;
    unsigned char fields[4];
} verbs[VERB_COUNT] = {
    [VERB_PUT] = {parse_put, NEEDS_SPACE, {0}},
    [VERB_RESERVE] = {NULL, 0, {0}},
    [VERB_DELETE] = {parse_id, NEEDS_SPACE | LEASABLE, {0}},
    [VERB_RESERVE_WITH_TIMEOUT] = {parse_timeout, NEEDS_SPACE, {0}},
    [VERB_RELEASE] = {parse_release_or_bury, NEEDS_SPACE | LEASABLE, {0}},
    [VERB_BURY] = {parse_release_or_bury, NEEDS_SPACE | LEASABLE, {0}},
    [VERB_TOUCH] = {parse_id, NEEDS_SPACE | LEASABLE, {0}},
    [VERB_CALL] = {parse_call, EXTENSION | NEEDS_SPACE, {0}},
    [VERB_RESERVE_MANY] = {NULL, EXTENSION | NEEDS_SPACE, {BATCH, TIMEOUT}},
    [VERB_PUT_MANY] = {parse_put_many, EXTENSION | NEEDS_SPACE, {0}},
    [VERB_LEASE] = {parse_lease, EXTENSION | NEEDS_SPACE, {0}},
    [VERB_DONE] = {parse_id_and_body, EXTENSION | NEEDS_SPACE | LEASABLE, {0}},
    [VERB_FAIL] = {parse_id_and_body, EXTENSION | NEEDS_SPACE | LEASABLE, {0}},
    [VERB_USE] = {parse_name, NEEDS_SPACE, {0}},
    [VERB_WATCH] = {parse_name, NEEDS_SPACE, {0}},
    [VERB_IGNORE] = {parse_name, NEEDS_SPACE, {0}},
    [VERB_KICK] = {parse_kick, NEEDS_SPACE, {0}},
    [VERB_KICK_JOB] = {NULL, NEEDS_SPACE, {ID}},
    [VERB_PEEK] = {NULL, NEEDS_SPACE, {ID}},
    [VERB_PEEK_READY] = {NULL, 0, {0}},
    [VERB_PEEK_DELAYED] = {NULL, 0, {0}},
    [VERB_PEEK_BURIED] = {NULL, 0, {0}},
    [VERB_RESERVE_JOB] = {NULL, NEEDS_SPACE, {ID}},
    [VERB_STATS] = {NULL, 0, {0}},
    [VERB_STATS_JOB] = {NULL, NEEDS_SPACE, {ID}},
    [VERB_STATS_TUBE] = {parse_name, NEEDS_SPACE, {0}},
    [VERB_LIST_TUBES] = {NULL, 0, {0}},
    [VERB_LIST_TUBE_USED] = {NULL, 0, {0}},
    [VERB_LIST_TUBES_WATCHED] = {NULL, 0, {0}},
    [VERB_PAUSE_TUBE] = {parse_pause, 0, {0}},
    [VERB_QUIT] = {NULL, REST, {0}},
    [VERB_RESULT] = {NULL, EXTENSION | NEEDS_SPACE, {ID, MAY_TIMEOUT}},
    [VERB_UPDATE] = {parse_update, EXTENSION | NEEDS_SPACE, {0}},
    [VERB_CANCEL] = {NULL, EXTENSION | NEEDS_SPACE, {ID}},
    [VERB_LIST_JOBS] = {NULL,
                        EXTENSION | NEEDS_SPACE | OPTIONS,
                        {TUBE_OR_ALL, STATE_OR_ANY, BATCH}},
    [VERB_PURGE_TUBE] = {NULL, EXTENSION | NEEDS_SPACE, {TUBE, STATE}},
    [VERB_CALL_CANCEL] = {NULL, EXTENSION | NEEDS_SPACE, {TAG}},
    [VERB_AUTH] = {parse_rest, EXTENSION | NEEDS_SPACE, {0}},
};

static bool parse_field(struct command *command, enum field field, struct reader *reader)
{
    switch (field) {
    case NO_FIELD:
        break;
    case ID:
        return bi_beanstalk_field_u64(reader, &command->id);
    case TAG:
        return bi_beanstalk_field_u64(reader, &command->tag);
    case BATCH:
        return bi_beanstalk_field_u64(reader, &command->count) && command->count >= 1 &&
               command->count <= BIDE_BATCH_JOBS;
    case MAY_TIMEOUT:
        command->has_timeout = !at_end(reader);
        return at_end(reader) || bi_beanstalk_field_duration(reader, &command->timeout_ms);
    case TIMEOUT:
        return bi_beanstalk_field_duration(reader, &command->timeout_ms);
    case TUBE:
    case TUBE_OR_ALL:
        command->name = bi_beanstalk_field_word(reader);
        if (field == TUBE_OR_ALL && bi_beanstalk_field_equals(command->name, "*")) {
            command->name.size = 0;
            return true;
        }
        return bi_beanstalk_field_is_name(command->name.data, command->name.size);
    case STATE:
    case STATE_OR_ANY:
        return bi_beanstalk_field_state(bi_beanstalk_field_word(reader), field == STATE_OR_ANY,
                                        &command->state) &&
               (field == STATE_OR_ANY || command->state != BIDE_STATE_RESERVED);
    }
    return false;
}

static enum parse parse_arguments(struct command *command, enum verb verb, struct reader *reader)
{
    const struct verb_syntax *syntax = &verbs[verb];

    if (syntax->parse != NULL)
        return syntax->parse(command, reader);

    command->timeout_ms = BIDE_FOREVER; /* of a reserve */
    for (size_t i = 0; i < sizeof(syntax->fields) && syntax->fields[i] != NO_FIELD; i++)
        if (!parse_field(command, syntax->fields[i], reader))
            return PARSE_BAD_FORMAT;

    if ((syntax->flags & OPTIONS) == 0)
        return ok_if(at_end(reader) || (syntax->flags & REST) != 0);

    command->filter = (bide_filter){0};
    command->cursor[0] = 0;
    command->text_size = 0;
    return ok_if(at_end(reader) || (bi_beanstalk_option_follows(reader) &&
                                    bi_beanstalk_option_parse(command, verb, reader)));
}

static const struct {
    const char *word;
    size_t size;
} words[VERB_COUNT] = {
#define BEANSTALK_VERB_WORD(NAME, word) {word, sizeof(word) - 1},
    BEANSTALK_VERBS(BEANSTALK_VERB_WORD)
#undef BEANSTALK_VERB_WORD
};

const char *bi_beanstalk_parse_verb_name(enum verb verb)
{
    return verb < VERB_COUNT ? words[verb].word : "?";
}

/* Verbs that beanstalkd finds by their prefix, whatever follows, in its order. list-tubes must come
 * after the longer words that begin with it. */
static const enum verb prefixes[] = {
    VERB_PEEK_READY,         VERB_PEEK_DELAYED,   VERB_PEEK_BURIED, VERB_RESERVE, VERB_STATS,
    VERB_LIST_TUBES_WATCHED, VERB_LIST_TUBE_USED, VERB_LIST_TUBES,  VERB_QUIT,    VERB_PAUSE_TUBE,
};

static enum verb find_prefix(const struct reader *reader)
{
    size_t left = (size_t)(reader->end - reader->at);

    for (size_t i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
        size_t size = words[prefixes[i]].size;
        if (left >= size && memcmp(reader->at, words[prefixes[i]].word, size) == 0)
            return prefixes[i];
    }
    return VERB_NONE;
}

/* Returns the verb at the start of the line. Exact words first: "reserve-many" also has the prefix
 * "reserve", which beanstalkd would find. */
static enum verb find_verb(const struct reader *reader)
{
    size_t left = (size_t)(reader->end - reader->at);

    for (unsigned verb = 0; verb < VERB_COUNT; verb++) {
        size_t size = words[verb].size;
        if (left < size || memcmp(reader->at, words[verb].word, size) != 0)
            continue;

        bool space = left > size && reader->at[size] == ' ';
        if (space || (left == size && (verbs[verb].flags & NEEDS_SPACE) == 0))
            return (enum verb)verb;
    }
    return find_prefix(reader);
}

static enum parse parse_lease(struct command *command, struct reader *reader)
{
    if (!bi_beanstalk_field_u64(reader, &command->token) || command->token == 0 || at_end(reader) ||
        *reader->at != ' ')
        return PARSE_BAD_FORMAT;

    skip_spaces(reader);

    enum verb verb = find_verb(reader);
    if (verb == VERB_NONE || (verbs[verb].flags & LEASABLE) == 0)
        return PARSE_BAD_FORMAT;

    /* All leasable verbs need a space, so one follows the word. */
    command->verb = verb;
    command->leased = true;
    reader->at += words[verb].size + 1;
    return parse_arguments(command, verb, reader);
}

enum parse bi_beanstalk_parse(struct command *command, const char *line, size_t size)
{
    struct reader reader = {line, line + size};

    command->counted = command->wants_body = command->leased = command->has_timeout = false;
    command->body_size = 0;
    command->token = 0;
    command->verb = VERB_NONE;

    /* As beanstalkd: a line with a NUL is invalid, whatever the verb. */
    if (memchr(line, 0, size) != NULL)
        return PARSE_BAD_FORMAT;

    enum verb verb = find_verb(&reader);
    if (verb == VERB_NONE)
        return PARSE_UNKNOWN;

    command->verb = verb;
    /* Consumes the space before arguments. A verb without arguments rejects what follows. */
    reader.at += words[verb].size + ((verbs[verb].flags & NEEDS_SPACE) != 0);
    enum parse parse = parse_arguments(command, verb, &reader);
    command->counted = command->counted || parse != PARSE_BAD_FORMAT;

    /* beanstalkd rejects a longer line before it parses it. Only options make a put longer. */
    if (size + 2 > LINE_MAX_CLASSIC && (verbs[verb].flags & EXTENSION) == 0 &&
        (verb != VERB_PUT || memchr(line, '=', size) == NULL)) {
        command->counted = command->wants_body = false;
        return PARSE_BAD_FORMAT;
    }
    return parse;
}

enum parse bi_beanstalk_parse_item(struct command *command, const char *line, size_t size)
{
    struct reader reader = {line, line + size};

    command->verb = VERB_PUT;
    command->body_size = UINT32_MAX;
    if (memchr(line, 0, size) != NULL)
        return PARSE_BAD_FORMAT;

    return parse_put(command, &reader);
}

size_t bi_beanstalk_parse_line_max(const char *line, size_t size)
{
    struct reader reader = {line, line + size};
    enum verb verb = find_verb(&reader);
    bool may_extend =
        verb != VERB_NONE && (verb == VERB_PUT || (verbs[verb].flags & EXTENSION) != 0);
    return may_extend ? LINE_MAX_EXTENDED : LINE_MAX_CLASSIC;
}
