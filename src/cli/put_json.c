/* SPDX-License-Identifier: MIT */
#include "cli/put.h"

#include "op/job_fields.h"
#include "util/alloc.h"
#include "util/base64.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#define NOT_BASE64 "must be a string in base64, with padding and nothing else"

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

struct field;
/* value: where the option is stored, for those of bide_put_options. error continues 'the name "x"'. */
typedef bool parse_fn(struct put_parser *parser, const struct field *field, void *value,
                      const json_t *json, char *error);

struct field {
    const char *name;
    enum option option;
    parse_fn *parse;
    size_t offset, size; /* of the member of bide_put_options */
    int64_t min, max;    /* of a number */
};

/* ---- options ---- */

static bool parse_number(struct put_parser *parser, const struct field *field, void *value,
                         const json_t *json, char *error)
{
    json_int_t number = json_integer_value(json);

    (void)parser;
    if (!json_is_integer(json))
        return bi_errmsg_set(error, "must be a whole number");
    if (number < field->min || number > field->max)
        return bi_errmsg_set(error, "must be from %lld to %lld", (long long)field->min,
                             (long long)field->max);
    assert(field->size == sizeof(int64_t) || field->size == sizeof(uint32_t));
    if (field->size == sizeof(int64_t))
        *(int64_t *)value = number;
    else
        *(uint32_t *)value = (uint32_t)number;
    return true;
}

/* A string as a flag takes it: a date and time if is_moment, otherwise a duration. */
static bool parse_time_text(const struct put_parser *parser, bool is_moment, const json_t *json,
                            int64_t *ms, char *error)
{
    char reason[BI_ERRMSG_SIZE];
    const char *text = json_string_value(json);

    if (text == NULL)
        return bi_errmsg_set(error, "must be a string");
    if (strlen(text) != json_string_length(json))
        return bi_errmsg_set(error, "contains a NUL");
    bool good = is_moment ? bi_datetime_parse(text, &bi_calendar_local, parser->now_ms, ms, reason)
                          : bi_duration_parse(text, ms, reason);
    if (!good)
        return bi_errmsg_set(error, "is \"%.100s\", which %.300s", text, reason);
    return *ms <= BIDE_TIMESTAMP_MAX_MS || bi_errmsg_set(error, "is too far away");
}

static bool parse_duration(struct put_parser *parser, const struct field *field, void *value,
                           const json_t *json, char *error)
{
    (void)field;
    return parse_time_text(parser, false, json, value, error);
}

static bool parse_moment(struct put_parser *parser, const struct field *field, void *value,
                         const json_t *json, char *error)
{
    (void)field;
    return parse_time_text(parser, true, json, value, error);
}

/* A duration from now; stored as a moment. */
static bool parse_moment_in(struct put_parser *parser, const struct field *field, void *value,
                            const json_t *json, char *error)
{
    int64_t *ms = value;

    (void)field;
    if (!parse_time_text(parser, false, json, ms, error))
        return false;
    *ms += parser->now_ms;
    return *ms <= BIDE_TIMESTAMP_MAX_MS || bi_errmsg_set(error, "is too far away");
}

/* key_hold_retained is a bool, replace a bide_conflict. */
static bool parse_bool(struct put_parser *parser, const struct field *field, void *value,
                       const json_t *json, char *error)
{
    (void)parser;
    if (!json_is_boolean(json))
        return bi_errmsg_set(error, "must be true or false");
    if (field->option == HOLD)
        *(bool *)value = json_is_true(json);
    else
        *(bide_conflict *)value = json_is_true(json) ? BIDE_REPLACE : BIDE_REJECT;
    return true;
}

/* ---- topic, key and body ---- */

/* Copies a string of 1 to max bytes. */
static bool copy_string(const json_t *json, char *to, size_t max, size_t *size, char *error)
{
    *size = json_string_length(json);
    if (!json_is_string(json) || *size == 0 || *size > max)
        return bi_errmsg_set(error, "must be a string of 1 to %zu bytes", max);
    memcpy(to, json_string_value(json), *size);
    return true;
}

static bool parse_topic(struct put_parser *parser, const struct field *field, void *value,
                        const json_t *json, char *error)
{
    struct put_json *line = parser->line;

    (void)field;
    (void)value;
    return copy_string(json, line->topic, BIDE_TOPIC_MAX, &line->topic_size, error);
}

static bool parse_key(struct put_parser *parser, const struct field *field, void *value,
                      const json_t *json, char *error)
{
    struct put_json *line = parser->line;
    bide_slice *key = value;

    (void)field;
    key->data = line->key;
    return copy_string(json, line->key, BIDE_KEY_MAX, &key->size, error);
}

static bool parse_key_base64(struct put_parser *parser, const struct field *field, void *value,
                             const json_t *json, char *error)
{
    struct put_json *line = parser->line;
    bide_slice *key = value;
    const char *text = json_string_value(json);
    size_t length = json_string_length(json);

    (void)field;
    key->data = line->key;
    bool sized = text != NULL && bi_base64_decoded_size(text, length, &key->size);
    if (sized && (key->size == 0 || key->size > BIDE_KEY_MAX))
        return bi_errmsg_set(error, "must have 1 to %d bytes", BIDE_KEY_MAX);
    return (sized && bi_base64_decode(text, length, line->key)) || bi_errmsg_set(error, NOT_BASE64);
}

/* Returns the memory of a body of this size; NULL, with the error, if there is none. */
static void *alloc_body(struct put_parser *parser, size_t size, char *error)
{
    bide_buf **body = &parser->line->body;
    void *bytes = NULL;

    assert(*body == NULL);
    *body = bi_buf_alloc(size, &bytes);
    if (*body == NULL)
        bi_errmsg_set(error, "is too large: out of memory");
    return bytes;
}

static bool parse_body(struct put_parser *parser, const struct field *field, void *value,
                       const json_t *json, char *error)
{
    size_t size = json_string_length(json);

    (void)field;
    (void)value;
    if (!json_is_string(json))
        return bi_errmsg_set(error, "must be a string; \"body_json\" takes any JSON");
    void *bytes = alloc_body(parser, size, error);
    if (bytes == NULL)
        return false;
    memcpy(bytes, json_string_value(json), size);
    return true;
}

static bool parse_body_base64(struct put_parser *parser, const struct field *field, void *value,
                              const json_t *json, char *error)
{
    const char *text = json_string_value(json);
    size_t length = json_string_length(json), size;

    (void)field;
    (void)value;
    if (text == NULL || !bi_base64_decoded_size(text, length, &size))
        return bi_errmsg_set(error, NOT_BASE64);
    void *bytes = alloc_body(parser, size, error);
    if (bytes == NULL)
        return false;
    return bi_base64_decode(text, length, bytes) || bi_errmsg_set(error, NOT_BASE64);
}

static bool parse_body_json(struct put_parser *parser, const struct field *field, void *value,
                            const json_t *json, char *error)
{
    /* No value is empty: a size of 0 is a failure. */
    size_t size = json_dumpb(json, NULL, 0, JSON_COMPACT | JSON_ENCODE_ANY);

    (void)field;
    (void)value;
    if (size == 0)
        return bi_errmsg_set(error, "cannot be encoded: out of memory");
    void *bytes = alloc_body(parser, size, error);
    if (bytes == NULL)
        return false;
    return json_dumpb(json, bytes, size, JSON_COMPACT | JSON_ENCODE_ANY) == size ||
           bi_errmsg_set(error, "cannot be encoded: out of memory");
}

/* ---- names ---- */

#define AT(member)                  offsetof(bide_put_options, member), sizeof(((bide_put_options *)0)->member)
#define NUMBER(member, least, most) parse_number, AT(member), least, most
#define OTHER(parse, member)        parse, AT(member), 0, 0

#define RANGE_RETRIES   BIDE_NO_RETRY_LIMIT, INT32_MAX
#define RANGE_COUNT     0, UINT32_MAX
#define RANGE_DURATION  0, BIDE_TIME_MAX_MS
#define RANGE_TIMESTAMP 0, BIDE_TIMESTAMP_MAX_MS
#define EXT_FIELD(kind, name)                                                   \
    BI_JOB_IF_PUT_##kind({BI_JOB_NAME(kind, name), OPTION_##name, parse_number, \
                          AT(BI_JOB_MEMBER_##kind(name)), RANGE_##kind}, )

static const struct field fields[] = {
    {"body", BODY, parse_body, 0, 0, 0, 0},
    {"body_base64", BODY, parse_body_base64, 0, 0, 0, 0},
    {"body_json", BODY, parse_body_json, 0, 0, 0, 0},
    {"topic", TOPIC, parse_topic, 0, 0, 0, 0},
    {"priority", PRIORITY, NUMBER(priority, 0, UINT32_MAX)},
    {"delay_ms", DUE, NUMBER(delay_ms, 0, BIDE_TIME_MAX_MS)},
    {"delay", DUE, OTHER(parse_duration, delay_ms)},
    {"run_at_ms", DUE, NUMBER(run_at_ms, 0, BIDE_TIMESTAMP_MAX_MS)},
    {"at", DUE, OTHER(parse_moment, run_at_ms)},
    {"ttr_ms", TTR, NUMBER(ttr_ms, 0, BIDE_TIME_MAX_MS)},
    {"ttr", TTR, OTHER(parse_duration, ttr_ms)},
    {"key", KEY, OTHER(parse_key, key)},
    {"key_base64", KEY, OTHER(parse_key_base64, key)},
    {"replace", CONFLICT, OTHER(parse_bool, conflict)},
    {"key_hold_retained", HOLD, OTHER(parse_bool, key_hold_retained)},
    BI_JOB_EXT(EXT_FIELD){"backoff", OPTION_backoff_base, OTHER(parse_duration, backoff_base_ms)},
    {"backoff_max", OPTION_backoff_max, OTHER(parse_duration, backoff_max_ms)},
    {"expires", OPTION_expires_at, OTHER(parse_moment, expires_at_ms)},
    {"expires_in", OPTION_expires_at, OTHER(parse_moment_in, expires_at_ms)},
    {"retain", OPTION_retain, OTHER(parse_duration, retain_ms)},
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
    return field->parse(parser, field, (char *)options + field->offset, json, reason) ||
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
