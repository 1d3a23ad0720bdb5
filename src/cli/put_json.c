/* SPDX-License-Identifier: MIT */
#include "cli/put.h"

#include "op/job_fields.h"
#include "util/alloc.h"
#include "util/base64.h"

#include <assert.h>
#include <jansson.h>
#include <string.h>

#define NOT_BASE64  "must be a string in base64, with padding and nothing else"
#define NOT_ENCODED "cannot be encoded: out of memory"
#define DUMP_FLAGS  (JSON_COMPACT | JSON_ENCODE_ANY)

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

enum value_kind {
    AS_NUMBER,
    AS_DURATION,
    AS_MOMENT,
    AS_MOMENT_IN, /* a duration from now; stored as a moment */
    AS_BOOL,
    AS_REPLACE,  /* a bool; stored as a bide_conflict */
    AS_CONFLICT, /* its name */
    AS_TOPIC,
    AS_KEY,
    AS_KEY_BASE64,
    AS_BODY,
    AS_BODY_BASE64,
    AS_BODY_JSON,
};

struct field {
    const char *name;
    enum option option;
    enum value_kind kind;
    size_t offset, size; /* of the member of bide_put_options */
    int64_t min, max;    /* of a number */
};

/* ---- values; each function sets an error that continues 'the name "x"' ---- */

static bool parse_number(const struct field *field, const json_t *json, void *value, char *error)
{
    json_int_t number = json_integer_value(json);

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

/* A string as a flag takes it. */
static bool parse_time(enum value_kind kind, const json_t *json, int64_t now_ms, int64_t *ms,
                       char *error)
{
    char reason[BI_ERRMSG_SIZE];
    const char *text = json_string_value(json);

    if (text == NULL)
        return bi_errmsg_set(error, "must be a string");
    if (strlen(text) != json_string_length(json))
        return bi_errmsg_set(error, "contains a NUL");
    bool good = kind == AS_MOMENT ? bi_datetime_parse(text, &bi_calendar_local, now_ms, ms, reason)
                                  : bi_duration_parse(text, ms, reason);
    if (!good)
        return bi_errmsg_set(error, "is \"%.100s\", which %.300s", text, reason);
    if (kind == AS_MOMENT_IN)
        *ms += now_ms;
    return *ms <= BIDE_TIMESTAMP_MAX_MS || bi_errmsg_set(error, "is too far away");
}

/* Copies a string of 1 to max bytes. */
static bool copy_string(const json_t *json, char *to, size_t max, size_t *size, char *error)
{
    *size = json_string_length(json);
    if (!json_is_string(json) || *size == 0 || *size > max)
        return bi_errmsg_set(error, "must be a string of 1 to %zu bytes", max);
    memcpy(to, json_string_value(json), *size);
    return true;
}

static bool parse_key(enum value_kind kind, const json_t *json, char *to, bide_slice *key,
                      char *error)
{
    const char *text = json_string_value(json);
    size_t length = json_string_length(json);

    key->data = to;
    if (kind == AS_KEY)
        return copy_string(json, to, BIDE_KEY_MAX, &key->size, error);
    bool sized = text != NULL && bi_base64_decoded_size(text, length, &key->size);
    if (sized && (key->size == 0 || key->size > BIDE_KEY_MAX))
        return bi_errmsg_set(error, "must have 1 to %d bytes", BIDE_KEY_MAX);
    return (sized && bi_base64_decode(text, length, to)) || bi_errmsg_set(error, NOT_BASE64);
}

static bool parse_body(enum value_kind kind, const json_t *json, bide_buf **body, char *error)
{
    const char *text = json_string_value(json);
    size_t length = json_string_length(json), size = length;
    void *bytes;

    assert(*body == NULL);
    if (kind == AS_BODY && text == NULL)
        return bi_errmsg_set(error, "must be a string; \"body_json\" takes any JSON");
    if (kind == AS_BODY_BASE64 && (text == NULL || !bi_base64_decoded_size(text, length, &size)))
        return bi_errmsg_set(error, NOT_BASE64);
    /* No value is empty: a size of 0 is a failure. */
    if (kind == AS_BODY_JSON && (size = json_dumpb(json, NULL, 0, DUMP_FLAGS)) == 0)
        return bi_errmsg_set(error, NOT_ENCODED);

    *body = bi_buf_alloc(size, &bytes);
    if (*body == NULL)
        return bi_errmsg_set(error, "is too large: out of memory");
    if (kind == AS_BODY_BASE64)
        return bi_base64_decode(text, length, bytes) || bi_errmsg_set(error, NOT_BASE64);
    if (kind == AS_BODY_JSON)
        return json_dumpb(json, bytes, size, DUMP_FLAGS) == size ||
               bi_errmsg_set(error, NOT_ENCODED);
    memcpy(bytes, text, size);
    return true;
}

static bool parse_conflict(const json_t *json, bide_conflict *conflict, char *error)
{
    static const char *const names[] = {
        [BIDE_REJECT] = "reject", [BIDE_REPLACE] = "replace", [BIDE_SKIP] = "skip"};
    const char *text = json_string_value(json);

    for (unsigned i = 0; text != NULL && i < sizeof(names) / sizeof(names[0]); i++) {
        if (strcmp(text, names[i]) != 0)
            continue;
        *conflict = (bide_conflict)i;
        return true;
    }
    return bi_errmsg_set(error, "must be \"reject\", \"replace\" or \"skip\"");
}

static bool parse_value(struct put_parser *parser, const struct field *field, const json_t *json,
                        char *error)
{
    struct put_json *line = parser->line;
    void *value = (char *)&line->options + field->offset;

    switch (field->kind) {
    case AS_NUMBER:
        return parse_number(field, json, value, error);
    case AS_DURATION:
    case AS_MOMENT:
    case AS_MOMENT_IN:
        return parse_time(field->kind, json, parser->now_ms, value, error);
    case AS_TOPIC:
        return copy_string(json, line->topic, BIDE_TOPIC_MAX, &line->topic_size, error);
    case AS_KEY:
    case AS_KEY_BASE64:
        return parse_key(field->kind, json, line->key, value, error);
    case AS_BODY:
    case AS_BODY_BASE64:
    case AS_BODY_JSON:
        return parse_body(field->kind, json, &line->body, error);
    case AS_CONFLICT:
        return parse_conflict(json, value, error);
    case AS_BOOL:
    case AS_REPLACE:
        break;
    }
    if (!json_is_boolean(json))
        return bi_errmsg_set(error, "must be true or false");
    if (field->kind == AS_BOOL)
        *(bool *)value = json_is_true(json);
    else
        *(bide_conflict *)value = json_is_true(json) ? BIDE_REPLACE : BIDE_REJECT;
    return true;
}

/* ---- names ---- */

#define AT(member)                  offsetof(bide_put_options, member), sizeof(((bide_put_options *)0)->member)
#define NUMBER(member, least, most) AS_NUMBER, AT(member), least, most
#define OTHER(kind, member)         kind, AT(member), 0, 0

#define RANGE_RETRIES   BIDE_NO_RETRY_LIMIT, INT32_MAX
#define RANGE_COUNT     0, UINT32_MAX
#define RANGE_DURATION  0, BIDE_TIME_MAX_MS
#define RANGE_TIMESTAMP 0, BIDE_TIMESTAMP_MAX_MS
#define EXT_FIELD(kind, name)                                                \
    BI_JOB_IF_PUT_##kind({BI_JOB_NAME(kind, name), OPTION_##name, AS_NUMBER, \
                          AT(BI_JOB_MEMBER_##kind(name)), RANGE_##kind}, )

static const struct field fields[] = {
    {"body", BODY, AS_BODY, 0, 0, 0, 0},
    {"body_base64", BODY, AS_BODY_BASE64, 0, 0, 0, 0},
    {"body_json", BODY, AS_BODY_JSON, 0, 0, 0, 0},
    {"topic", TOPIC, AS_TOPIC, 0, 0, 0, 0},
    {"priority", PRIORITY, NUMBER(priority, 0, UINT32_MAX)},
    {"delay_ms", DUE, NUMBER(delay_ms, 0, BIDE_TIME_MAX_MS)},
    {"delay", DUE, OTHER(AS_DURATION, delay_ms)},
    {"run_at_ms", DUE, NUMBER(run_at_ms, 0, BIDE_TIMESTAMP_MAX_MS)},
    {"at", DUE, OTHER(AS_MOMENT, run_at_ms)},
    {"ttr_ms", TTR, NUMBER(ttr_ms, 0, BIDE_TIME_MAX_MS)},
    {"ttr", TTR, OTHER(AS_DURATION, ttr_ms)},
    {"key", KEY, OTHER(AS_KEY, key)},
    {"key_base64", KEY, OTHER(AS_KEY_BASE64, key)},
    {"conflict", CONFLICT, OTHER(AS_CONFLICT, conflict)},
    {"replace", CONFLICT, OTHER(AS_REPLACE, conflict)},
    {"key_hold_retained", HOLD, OTHER(AS_BOOL, key_hold_retained)},
    BI_JOB_EXT(EXT_FIELD){"backoff", OPTION_backoff_base, OTHER(AS_DURATION, backoff_base_ms)},
    {"backoff_max", OPTION_backoff_max, OTHER(AS_DURATION, backoff_max_ms)},
    {"expires", OPTION_expires_at, OTHER(AS_MOMENT, expires_at_ms)},
    {"expires_in", OPTION_expires_at, OTHER(AS_MOMENT_IN, expires_at_ms)},
    {"retain", OPTION_retain, OTHER(AS_DURATION, retain_ms)},
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

/* A name that is given as "none" (0, or max_retries -1) excludes the default of the topic. */
#define EXCLUDE(kind, name)                                                             \
    BI_JOB_IF_PUT_##kind(if (field->option == OPTION_##name &&                          \
                             options->BI_JOB_MEMBER_##kind(name) == BI_JOB_NONE_##kind) \
                             options->BI_JOB_MEMBER_##kind(name) = BIDE_NO_DEFAULT;)

static void exclude_default(bide_put_options *options, const struct field *field)
{
    BI_JOB_EXT(EXCLUDE)
    if (field->option == TTR && options->ttr_ms == 0)
        options->ttr_ms = BIDE_NO_DEFAULT;
    if (field->option == OPTION_max_retries)
        options->fallbacks &= ~(uint64_t)BIDE_FALLBACK_RETRIES;
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
    if (!parse_value(parser, field, json, reason))
        return bi_errmsg_set(error, "\"%s\" %.400s", name, reason);
    exclude_default(options, field);
    return true;
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
