/* SPDX-License-Identifier: MIT */
#include "cli/put.h"

#include "op/job_fields.h"
#include "util/base64.h"
#include "util/datetime.h"
#include "util/message.h"

#include <assert.h>
#include <jansson.h>
#include <stdlib.h>
#include <string.h>

/* The option that a name sets; two names for the same one are rejected. */
enum option {
    BODY,
    TOPIC,
    PRIORITY,
    DUE,
    TTR,
    KEY,
    CONFLICT,
    HOLD,
#define OPTION(kind, name) OPTION_##name,
    BI_JOB_EXT(OPTION)
#undef OPTION
        OPTIONS
};

struct put_parser {
    struct put_json *line;
    const char *seen[OPTIONS]; /* the name that set it */
    int64_t now_ms;
};

/* value: where the option is stored, for those of bide_put_options. error continues 'the name "x"'. */
typedef bool parse_fn(struct put_parser *parser, void *value, const json_t *json, char *error);

struct field {
    const char *name;
    enum option option;
    parse_fn *parse;
    size_t offset; /* in bide_put_options */
};

/* ---- options ---- */

static bool parse_integer(const json_t *json, int64_t min, int64_t max, int64_t *number,
                          char *error)
{
    if (!json_is_integer(json))
        return bi_errmsg_set(error, "must be a whole number");
    *number = json_integer_value(json);
    if (*number < min || *number > max)
        return bi_errmsg_set(error, "must be from %lld to %lld", (long long)min, (long long)max);
    return true;
}

static bool parse_ms(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    (void)parser;
    return parse_integer(json, 0, BIDE_TIME_MAX_MS, value, error);
}

static bool parse_datetime_ms(struct put_parser *parser, void *value, const json_t *json,
                              char *error)
{
    (void)parser;
    return parse_integer(json, 0, BIDE_TIMESTAMP_MAX_MS, value, error);
}

/* A string as a flag takes it: a duration, or a date and time. */
static bool parse_time_text(struct put_parser *parser, int64_t *ms, const json_t *json,
                            bool duration, char *error)
{
    char reason[BI_ERRMSG_SIZE];
    const char *text = json_string_value(json);

    if (text == NULL)
        return bi_errmsg_set(error, "must be a string");
    if (strlen(text) != json_string_length(json))
        return bi_errmsg_set(error, "contains a NUL");
    return (duration ? bi_duration_parse(text, ms, reason)
                     : bi_datetime_parse(text, &bi_calendar_local, parser->now_ms, ms, reason)) ||
           bi_errmsg_set(error, "is \"%.100s\", which %.300s", text, reason);
}

static bool parse_duration(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    return parse_time_text(parser, value, json, true, error);
}

static bool parse_datetime(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    return parse_time_text(parser, value, json, false, error);
}

static bool parse_expires_in(struct put_parser *parser, void *value, const json_t *json,
                             char *error)
{
    int64_t *at_ms = value;

    if (!parse_time_text(parser, at_ms, json, true, error))
        return false;
    *at_ms += parser->now_ms;
    return *at_ms <= BIDE_TIMESTAMP_MAX_MS || bi_errmsg_set(error, "is too far away");
}

static bool parse_count(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    int64_t number = 0;

    (void)parser;
    bool good = parse_integer(json, 0, UINT32_MAX, &number, error);
    *(uint32_t *)value = (uint32_t)number;
    return good;
}

static bool parse_retries(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    int64_t number = 0;

    (void)parser;
    bool good = parse_integer(json, BIDE_NO_RETRY_LIMIT, INT32_MAX, &number, error);
    *(int32_t *)value = (int32_t)number;
    return good;
}

static bool parse_hold(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    (void)parser;
    *(bool *)value = json_is_true(json);
    return json_is_boolean(json) || bi_errmsg_set(error, "must be true or false");
}

static bool parse_replace(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    (void)parser;
    *(bide_conflict *)value = json_is_true(json) ? BIDE_REPLACE : BIDE_REJECT;
    return json_is_boolean(json) || bi_errmsg_set(error, "must be true or false");
}

/* ---- topic, key and body ---- */

/* 1 to max bytes; false if json is no such string. */
static bool copy_string(const json_t *json, char *to, size_t max, size_t *size, char *error)
{
    *size = json_string_length(json);
    if (!json_is_string(json) || *size == 0 || *size > max)
        return bi_errmsg_set(error, "must be a string of 1 to %zu bytes", max);
    memcpy(to, json_string_value(json), *size);
    return true;
}

static bool parse_topic(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    struct put_json *line = parser->line;

    (void)value;
    return copy_string(json, line->topic, BIDE_TOPIC_MAX, &line->topic_size, error);
}

static bool parse_key(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    struct put_json *line = parser->line;

    (void)value;
    line->options.key.data = line->key;
    return copy_string(json, line->key, BIDE_KEY_MAX, &line->options.key.size, error);
}

static bool reject_base64(char *error)
{
    return bi_errmsg_set(error, "must be a string in base64, with padding and nothing else");
}

static bool parse_key_base64(struct put_parser *parser, void *value, const json_t *json,
                             char *error)
{
    struct put_json *line = parser->line;
    const char *text = json_string_value(json);
    size_t length = json_string_length(json), size;

    (void)value;
    if (text == NULL || !bi_base64_decoded_size(text, length, &size))
        return reject_base64(error);
    if (size == 0 || size > BIDE_KEY_MAX)
        return bi_errmsg_set(error, "must have 1 to %d bytes", BIDE_KEY_MAX);
    line->options.key = (bide_slice){line->key, size};
    return bi_base64_decode(text, length, line->key) || reject_base64(error);
}

/* data NULL: there was no memory for it. */
static bool set_body(struct put_parser *parser, const void *data, size_t size, char *error)
{
    assert(parser->line->body == NULL);
    parser->line->body = data == NULL ? NULL : bide_buf_new(data, size);
    return parser->line->body != NULL || bi_errmsg_set(error, "is too large: out of memory");
}

static bool parse_body(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    (void)value;
    if (!json_is_string(json))
        return bi_errmsg_set(error, "must be a string; \"body_json\" takes any JSON");
    return set_body(parser, json_string_value(json), json_string_length(json), error);
}

static bool parse_body_base64(struct put_parser *parser, void *value, const json_t *json,
                              char *error)
{
    const char *text = json_string_value(json);
    size_t length = json_string_length(json), size;

    (void)value;
    if (text == NULL || !bi_base64_decoded_size(text, length, &size))
        return reject_base64(error);
    char *bytes = malloc(size + 1);
    bool good = bytes == NULL || bi_base64_decode(text, length, bytes) || reject_base64(error);
    good = good && set_body(parser, bytes, size, error);
    free(bytes);
    return good;
}

static bool parse_body_json(struct put_parser *parser, void *value, const json_t *json, char *error)
{
    char *text = json_dumps(json, JSON_COMPACT | JSON_ENCODE_ANY);

    (void)value;
    bool good = set_body(parser, text, text == NULL ? 0 : strlen(text), error);
    free(text);
    return good;
}

/* ---- names ---- */

#define AT(member)      offsetof(bide_put_options, member)
#define PARSE_RETRIES   parse_retries
#define PARSE_COUNT     parse_count
#define PARSE_DURATION  parse_ms
#define PARSE_TIMESTAMP parse_datetime_ms
#define EXT_FIELD(kind, name) \
    BI_JOB_IF_PUT_##kind(     \
        {BI_JOB_NAME(kind, name), OPTION_##name, PARSE_##kind, AT(BI_JOB_MEMBER_##kind(name))}, )

static const struct field fields[] = {
    {"body", BODY, parse_body, 0},
    {"body_base64", BODY, parse_body_base64, 0},
    {"body_json", BODY, parse_body_json, 0},
    {"topic", TOPIC, parse_topic, 0},
    {"priority", PRIORITY, parse_count, AT(priority)},
    {"delay_ms", DUE, parse_ms, AT(delay_ms)},
    {"delay", DUE, parse_duration, AT(delay_ms)},
    {"run_at_ms", DUE, parse_datetime_ms, AT(run_at_ms)},
    {"at", DUE, parse_datetime, AT(run_at_ms)},
    {"ttr_ms", TTR, parse_ms, AT(ttr_ms)},
    {"ttr", TTR, parse_duration, AT(ttr_ms)},
    {"key", KEY, parse_key, 0},
    {"key_base64", KEY, parse_key_base64, 0},
    {"replace", CONFLICT, parse_replace, AT(conflict)},
    {"key_hold_retained", HOLD, parse_hold, AT(key_hold_retained)},
    BI_JOB_EXT(EXT_FIELD){"backoff", OPTION_backoff_base, parse_duration, AT(backoff_base_ms)},
    {"backoff_max", OPTION_backoff_max, parse_duration, AT(backoff_max_ms)},
    {"expires", OPTION_expires_at, parse_datetime, AT(expires_at_ms)},
    {"expires_in", OPTION_expires_at, parse_expires_in, AT(expires_at_ms)},
    {"retain", OPTION_retain, parse_duration, AT(retain_ms)},
};

static const struct field *find_field(const char *name, char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;

    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
        bi_suggest_consider(&suggestion, fields[i].name, name, strlen(name));
    }
    if (suggestion.best == NULL)
        bi_errmsg_set(error, "unknown name \"%.60s\"", name);
    else
        bi_errmsg_set(error, "unknown name \"%.60s\"; did you mean \"%s\"?", name, suggestion.best);
    return NULL;
}

static bool parse_field(struct put_parser *parser, const char *name, const json_t *json,
                        char *error)
{
    bide_put_options *options = &parser->line->options;
    char reason[BI_ERRMSG_SIZE];
    const struct field *field = find_field(name, error);

    if (field == NULL)
        return false;
    const char **seen = &parser->seen[field->option];
    if (*seen != NULL)
        return bi_errmsg_set(error, "\"%s\" and \"%s\" are both given; choose one", *seen, name);
    *seen = field->name;

    /* A delay of the line overrides a time of the command line, and the other way round. */
    if (field->option == DUE)
        options->delay_ms = options->run_at_ms = 0;
    return field->parse(parser, (char *)options + field->offset, json, reason) ||
           bi_errmsg_set(error, "\"%s\" %.400s", name, reason);
}

bool bi_put_json_parse(bide_slice text, const bide_put_options *defaults, int64_t now_ms,
                       struct put_json *line, char *error)
{
    struct put_parser parser = {.line = line, .now_ms = now_ms};
    json_error_t json_error;
    json_t *object =
        json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &json_error);
    const char *name;
    json_t *value;

    line->options = *defaults;
    line->topic_size = 0;
    line->body = NULL;
    if (object == NULL)
        return bi_errmsg_set(error, "not a JSON object: %.200s", json_error.text);

    bool good = json_is_object(object) || bi_errmsg_set(error, "not a JSON object");
    json_object_foreach(object, name, value)
    {
        good = good && parse_field(&parser, name, value, error);
    }
    if (good && line->body == NULL)
        good = bi_errmsg_set(error, "\"body\", \"body_base64\" or \"body_json\" is missing");
    json_decref(object);
    if (!good) {
        bide_buf_unref(line->body);
        line->body = NULL;
    }
    return good;
}
