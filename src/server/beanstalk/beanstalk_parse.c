/* SPDX-License-Identifier: MIT */
#include "server/beanstalk/beanstalk_field.h"

#include <string.h>

enum {
    EXTENSION = 1, /* not a verb of beanstalkd */
    SPACE = 2,     /* has arguments: without a space it is another word */
    LEASABLE = 4,  /* allowed under `lease` */
    BODY = 8,      /* the size of a body follows the fields, */
    OPTIONS = 16,  /* and then options */
    REST = 32,     /* beanstalkd ignores what follows */
};

#define FIELDS_MAX 3

static const struct {
    const char *word;
    size_t size;
    unsigned flags;
    struct field fields[FIELDS_MAX]; /* in order; NONE behind the last one, if there is room */
} verbs[VERB_COUNT] = {
#define NO_FIELD \
    {            \
        NONE, 0  \
    }
#define BEANSTALK_VERB_ROW(NAME, word, flags, ...) {word, sizeof(word) - 1, flags, {__VA_ARGS__}},
    BEANSTALK_VERBS(BEANSTALK_VERB_ROW)
#undef BEANSTALK_VERB_ROW
#undef NO_FIELD
};

const char *bi_beanstalk_parse_verb_name(enum verb verb)
{
    return verb < VERB_COUNT ? verbs[verb].word : "?";
}

/* ---- options ---- */

_Static_assert(offsetof(bide_put_options, backoff_max_ms) ==
                       offsetof(bide_put_options, backoff_base_ms) + sizeof(int64_t) &&
                   offsetof(bide_topic_policy, backoff_max_ms) ==
                       offsetof(bide_topic_policy, backoff_base_ms) + sizeof(int64_t),
               "the maximum follows the base");

static const struct {
    enum verb verb;
    const char *name;
    struct field field;
} options[] = {
    {VERB_PUT, "key", FIELD(KEY, put.key)},
    {VERB_PUT, "conflict", FIELD(CONFLICT, put.conflict)},
    {VERB_PUT, "hold", FIELD(HOLD, put.key_hold_retained)},
    {VERB_PUT, "retries", FIELD(RETRIES, put.max_retries)},
    {VERB_PUT, "backoff", FIELD(BACKOFF, put.backoff_base_ms)},
    {VERB_PUT, "expires", FIELD(POSITIVE, expires_ms)},
    {VERB_PUT, "retain", FIELD(DURATION, put.retain_ms)},
    {VERB_PUT, "at", FIELD(DATETIME, put.run_at_ms)},
    {VERB_PUT_MANY, "tube", FIELD(TUBE, name)}, /* of any item */
    {VERB_FINISH_AND_PUT, "end", FIELD(ENDING, step.ending)},
    {VERB_FINISH_AND_PUT, "result", FIELD(U32, result_size)},
    {VERB_FINISH_AND_PUT, "retain", FIELD(DURATION, step.finish.retain_ms)},
    {VERB_FINISH_AND_PUT, "pri", FIELD(PRIORITY, step.priority)},
    {VERB_FINISH_AND_PUT, "delay", FIELD(DURATION, step.delay_ms)},
    {VERB_FINISH_AND_PUT, "at", FIELD(DATETIME, step.run_at_ms)},
    {VERB_FINISH_AND_PUT, "reason", FIELD(TEXT, step.reason)},
    {VERB_DONE, "retain", FIELD(DURATION, retain_ms)},
    {VERB_FAIL, "retry", FIELD(DURATION, delay_ms)},
    {VERB_UPDATE, "pri", FIELD(PRIORITY, update.priority)},
    {VERB_UPDATE, "delay", FIELD(DURATION, update.delay_ms)},
    {VERB_UPDATE, "at", FIELD(DATETIME, update.run_at_ms)},
    {VERB_UPDATE, "ttr", FIELD(TTR, update.ttr_ms)},
    {VERB_UPDATE, "tube", FIELD(TUBE, update.topic)},
    {VERB_TOPIC_SET, "ttr", FIELD(DURATION, policy.ttr_ms)},
    {VERB_TOPIC_SET, "retries", FIELD(PRIORITY, policy.max_retries)},
    {VERB_TOPIC_SET, "backoff", FIELD(BACKOFF, policy.backoff_base_ms)},
    {VERB_TOPIC_SET, "retain", FIELD(DURATION, policy.retain_ms)},
    {VERB_TOPIC_SET, "expires", FIELD(DURATION, policy.expires_in_ms)},
    {VERB_TOPIC_SET, "max-jobs", FIELD(PRIORITY, policy.max_jobs)},
    {VERB_TOPIC_SET, "concurrency", FIELD(PRIORITY, policy.concurrency)},
    {VERB_TOPIC_SET, "rate", FIELD(PRIORITY, policy.rate)},
    {VERB_TOPIC_SET, "period", FIELD(DURATION, policy.rate_period_ms)},
    {VERB_TOPIC_SET, "burst", FIELD(PRIORITY, policy.rate_burst)},
    {VERB_ANNOUNCE, "tubes", FIELD(WORD, announcement.topics)},
    {VERB_ANNOUNCE, "host", FIELD(WORD, announcement.host)},
    {VERB_ANNOUNCE, "version", FIELD(WORD, announcement.version)},
    {VERB_ANNOUNCE, "pid", FIELD(U64, announcement.pid)},
    {VERB_ANNOUNCE, "threads", FIELD(U64, announcement.threads)},
    {VERB_ANNOUNCE, "running", FIELD(U64, announcement.running)},
    {VERB_ANNOUNCE, "done", FIELD(U64, announcement.done)},
    {VERB_ANNOUNCE, "failed", FIELD(U64, announcement.failed)},
    {VERB_ANNOUNCE, "lost", FIELD(U64, announcement.lost)},
    {VERB_ANNOUNCE, "started", FIELD(DATETIME, announcement.started_ms)},
    {VERB_WORKERS, "cursor", FIELD(CURSOR, cursor)},
    {VERB_LIST_JOBS, "cursor", FIELD(CURSOR, cursor)},
    {VERB_LIST_JOBS, "key", FIELD(KEY, filter.key)},
    {VERB_LIST_JOBS, "text", FIELD(TEXT, filter.text)},
    {VERB_LIST_JOBS, "min-age", FIELD(DURATION, filter.min_age_ms)},
    {VERB_LIST_JOBS, "max-age", FIELD(DURATION, filter.max_age_ms)},
    {VERB_SCHEDULE_LIST, "cursor", FIELD(CURSOR, cursor)},
};

/* Sets the defaults of what the options of a verb change. */
static void reset_options(struct command *command, enum verb verb)
{
    static const bide_put_options put = BIDE_PUT_OPTIONS_INIT;
    static const bide_update_args update = BIDE_UPDATE_INIT;
    static const bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;

    command->text_size = 0;
    if (verb == VERB_PUT) {
        command->put = put;
        command->expires_ms = 0;
    } else if (verb == VERB_UPDATE) {
        command->update = update;
    } else if (verb == VERB_FINISH_AND_PUT) {
        command->step =
            (bide_finish_and_put_args){.finish.retain_ms = BIDE_KEEP, .priority = BIDE_KEEP};
        command->result_size = 0;
    } else if (verb == VERB_TOPIC_SET) {
        command->policy = policy;
    } else if (verb == VERB_LIST_JOBS || verb == VERB_SCHEDULE_LIST || verb == VERB_WORKERS) {
        command->filter = (bide_filter){0};
        command->cursor[0] = 0;
    } else if (verb == VERB_ANNOUNCE) {
        command->announcement = (struct announcement){.pid = 0};
    } else {
        command->delay_ms = command->retain_ms = BIDE_KEEP;
    }
}

/* Whether the value is a word instead of a number: in a put "none", which excludes the default of the
 * topic, in topic-set "none", which clears the setting, or "unlimited" retries. Sets the member. */
static bool set_word(struct command *command, enum verb verb, const struct field *field,
                     const struct reader *value)
{
    bide_slice word = {value->at, (size_t)(value->end - value->at)};
    char *member = (char *)command + field->at;
    bool none = bi_beanstalk_field_equals(word, "none");

    if (verb == VERB_TOPIC_SET && field->at == offsetof(struct command, policy.max_retries) &&
        bi_beanstalk_field_equals(word, "unlimited")) {
        command->policy.max_retries = BIDE_UNLIMITED;
        return true;
    }
    if (!none || (verb != VERB_TOPIC_SET && verb != VERB_PUT))
        return false;

    switch (field->kind) {
    case RETRIES:
        *(int32_t *)(void *)member = BIDE_NO_DEFAULT;
        return true;
    case BACKOFF:
        ((int64_t *)(void *)member)[1] = BIDE_NO_DEFAULT;
        *(int64_t *)(void *)member = BIDE_NO_DEFAULT;
        return true;
    case DURATION:
    case POSITIVE:
    case PRIORITY:
        *(int64_t *)(void *)member = BIDE_NO_DEFAULT;
        return true;
    default:
        return false;
    }
}

static bool set_option(struct command *command, enum verb verb, bide_slice word)
{
    const char *begin = word.data, *end = begin + word.size;
    const char *equals = word.size == 0 ? NULL : memchr(begin, '=', word.size);
    if (equals == NULL)
        return false;

    bide_slice name = {begin, (size_t)(equals - begin)};
    struct reader value = {equals + 1, end};

    for (size_t i = 0; i < sizeof(options) / sizeof(options[0]); i++) {
        bool known = options[i].verb == verb || (command->item && options[i].verb == VERB_PUT_MANY);
        if (known && bi_beanstalk_field_equals(name, options[i].name))
            return set_word(command, verb, &options[i].field, &value) ||
                   (bi_beanstalk_field_parse(command, &options[i].field, &value) && at_end(&value));
    }
    return false;
}

/* True if a space and a word with '=' follow. It decides between garbage, which beanstalkd rejects
 * as well, and options. */
static bool option_follows(const struct reader *reader)
{
    struct reader copy = *reader;
    if (at_end(reader) || *reader->at != ' ')
        return false;

    bide_slice word = bi_beanstalk_field_word(&copy);
    return word.size > 0 && memchr(word.data, '=', word.size) != NULL;
}

/* Parses the rest of the line. A repeated option replaces the value of the first. With a bad option
 * only this command fails if the size of its body is known. */
static enum parse parse_options(struct command *command, enum verb verb, struct reader *reader)
{
    if (at_end(reader) && verb != VERB_UPDATE && verb != VERB_TOPIC_SET)
        return PARSE_OK;
    if (!option_follows(reader))
        return PARSE_BAD_FORMAT;

    while (!at_end(reader))
        if (!set_option(command, verb, bi_beanstalk_field_word(reader)))
            return (verbs[verb].flags & BODY) != 0 ? PARSE_BAD_OPTION : PARSE_BAD_FORMAT;
    return PARSE_OK;
}

/* ---- arguments ---- */

static enum parse parse_lease(struct command *command, struct reader *reader);

/* An option that does not belong to the ending would be ignored. */
static bool is_step_sound(const struct command *command)
{
    const bide_finish_and_put_args *step = &command->step;
    bool done = step->ending == BIDE_ENDING_FINISH && step->finish.keep;
    bool release = step->ending == BIDE_ENDING_RELEASE;
    bool bury = step->ending == BIDE_ENDING_BURY;

    return bi_beanstalk_field_is_batch(command->count) &&
           (done || (command->result_size == 0 && step->finish.retain_ms == BIDE_KEEP)) &&
           (release || (step->delay_ms == 0 && step->run_at_ms == 0)) &&
           (step->delay_ms == 0 || step->run_at_ms == 0) &&
           (release || bury || step->priority == BIDE_KEEP) && (bury || step->reason.size == 0);
}

/* Checks what a single field or option does not show. */
static enum parse check(struct command *command, enum verb verb)
{
    switch (verb) {
    case VERB_PUT:
        return command->put.run_at_ms != 0 && command->put.delay_ms != 0 ? PARSE_BAD_OPTION
                                                                         : PARSE_OK;
    case VERB_PUT_MANY:
        /* The body is skipped: its size is known. */
        return bi_beanstalk_field_is_batch(command->count) ? PARSE_OK : PARSE_BAD_OPTION;
    case VERB_FINISH_AND_PUT:
        return is_step_sound(command) ? PARSE_OK : PARSE_BAD_OPTION;
    case VERB_UPDATE:
        command->update.id = command->id;
        return command->update.delay_ms == BIDE_KEEP || command->update.run_at_ms == BIDE_KEEP
                   ? PARSE_OK
                   : PARSE_BAD_FORMAT;
    case VERB_PAUSE_TUBE:
        command->counted = true; /* although the name may be invalid, as in beanstalkd */
        return bi_beanstalk_field_is_name(command->name.data, command->name.size)
                   ? PARSE_OK
                   : PARSE_BAD_FORMAT;
    default:
        return PARSE_OK;
    }
}

static enum parse parse_arguments(struct command *command, enum verb verb, struct reader *reader)
{
    unsigned flags = verbs[verb].flags;
    if (verb == VERB_LEASE)
        return parse_lease(command, reader);

    command->timeout_ms = BIDE_FOREVER; /* of a reserve */
    if ((flags & OPTIONS) != 0)
        reset_options(command, verb);
    const struct field *fields = verbs[verb].fields;
    for (size_t i = 0; i < FIELDS_MAX && fields[i].kind != NONE; i++)
        if (!bi_beanstalk_field_parse(command, &fields[i], reader))
            return PARSE_BAD_FORMAT;

    if ((flags & BODY) != 0) {
        if (!bi_beanstalk_field_u32(reader, &command->body_size) ||
            ((flags & OPTIONS) == 0 && !at_end(reader)))
            return PARSE_BAD_FORMAT;
        command->counted = command->wants_body = true;
    }

    enum parse parse = PARSE_OK;
    if ((flags & OPTIONS) != 0)
        parse = parse_options(command, verb, reader);
    else if (!at_end(reader) && (flags & REST) == 0)
        parse = PARSE_BAD_FORMAT;
    return parse == PARSE_OK ? check(command, verb) : parse;
}

/* ---- verbs ---- */

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
        size_t size = verbs[prefixes[i]].size;
        if (left >= size && memcmp(reader->at, verbs[prefixes[i]].word, size) == 0)
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
        size_t size = verbs[verb].size;
        /* The first byte differs for most verbs; comparing it first saves the calls of memcmp(). */
        if (left < size || *reader->at != verbs[verb].word[0] ||
            memcmp(reader->at, verbs[verb].word, size) != 0)
            continue;

        bool space = left > size && reader->at[size] == ' ';
        if (space || (left == size && (verbs[verb].flags & SPACE) == 0))
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
    reader->at += verbs[verb].size + 1;
    return parse_arguments(command, verb, reader);
}

enum parse bi_beanstalk_parse(struct command *command, const char *line, size_t size)
{
    struct reader reader = {line, line + size};

    command->counted = command->wants_body = command->leased = command->has_timeout = false;
    command->item = false;
    command->body_size = 0;
    command->token = 0;
    command->text_size = 0;
    command->verb = VERB_NONE;

    /* As beanstalkd: a line with a NUL is invalid, whatever the verb. */
    if (memchr(line, 0, size) != NULL)
        return PARSE_BAD_FORMAT;

    enum verb verb = find_verb(&reader);
    if (verb == VERB_NONE)
        return PARSE_UNKNOWN;

    command->verb = verb;
    /* Consumes the space before arguments. A verb without arguments rejects what follows. */
    reader.at += verbs[verb].size + ((verbs[verb].flags & SPACE) != 0);
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
    command->item = true;
    command->name = (bide_slice){NULL, 0};
    command->body_size = UINT32_MAX;
    if (memchr(line, 0, size) != NULL)
        return PARSE_BAD_FORMAT;

    return parse_arguments(command, VERB_PUT, &reader);
}

size_t bi_beanstalk_parse_line_max(const char *line, size_t size)
{
    struct reader reader = {line, line + size};
    enum verb verb = find_verb(&reader);
    bool may_extend =
        verb != VERB_NONE && (verb == VERB_PUT || (verbs[verb].flags & EXTENSION) != 0);
    return may_extend ? LINE_MAX_EXTENDED : LINE_MAX_CLASSIC;
}
