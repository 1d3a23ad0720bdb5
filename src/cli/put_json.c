/* SPDX-License-Identifier: MIT */
#include "cli/put_json.h"

#include "util/base64.h"
#include "util/duration.h"
#include "util/suggest.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct put_parser {
    struct put_json *line;
    const char *seen[16]; /* by what: the name that said it */
    int64_t now_ms;
};

/* What a name is about; two names for the same are refused. */
enum aspect {
    BODY,
    TOPIC,
    PRIORITY,
    DUE,
    TTR,
    KEY,
    CONFLICT,
    HOLD,
    RETRIES,
    BACKOFF,
    BACKOFF_MAX,
    EXPIRY,
    RETENTION,
};

struct field {
    const char *name;
    enum aspect aspect;
    bool (*parse)(struct put_parser *put_parser, const struct field *field, const json_t *value,
                  char *error);
    size_t offset; /* in bide_put_options, where the reader writes there */
};

/* ---- kinds of values; reasons go on 'the name "x"' ---- */

static void *member_of(const struct put_parser *put_parser, const struct field *field)
{
    return (char *)&put_parser->line->options + field->offset;
}

static bool parse_integer(const json_t *value, int64_t least, int64_t most, int64_t *number,
                          char *error)
{
    if (!json_is_integer(value))
        return bi_errmsg_set(error, "must be a whole number");
    *number = json_integer_value(value);
    if (*number < least || *number > most)
        return bi_errmsg_set(error, "must be from %lld to %lld", (long long)least, (long long)most);
    return true;
}

static bool parse_ms(struct put_parser *put_parser, const struct field *field, const json_t *value,
                     char *error)
{
    return parse_integer(value, 0, BIDE_TIME_MAX_MS, member_of(put_parser, field), error);
}

static bool parse_datetime_ms(struct put_parser *put_parser, const struct field *field,
                              const json_t *value, char *error)
{
    return parse_integer(value, 0, BIDE_TIMESTAMP_MAX_MS, member_of(put_parser, field), error);
}

/* A text that a person would write, by the reader of the flags. */
static bool parse_text(const json_t *value, char *error, const char **text)
{
    *text = json_string_value(value);
    if (*text == NULL)
        return bi_errmsg_set(error, "must be a text");
    if (strlen(*text) != json_string_length(value))
        return bi_errmsg_set(error, "has a NUL in it");
    return true;
}

static bool append_reason(const char *text, const char *reason, char *error)
{
    return bi_errmsg_set(error, "is \"%.100s\", which %.300s", text, reason);
}

static bool parse_duration(struct put_parser *put_parser, const struct field *field,
                           const json_t *value, char *error)
{
    char reason[BI_ERRMSG_SIZE];
    const char *text;
    if (!parse_text(value, error, &text))
        return false;
    return bi_duration_parse(text, member_of(put_parser, field), reason) ||
           append_reason(text, reason, error);
}

static bool parse_datetime(struct put_parser *put_parser, const struct field *field,
                           const json_t *value, char *error)
{
    char reason[BI_ERRMSG_SIZE];
    const char *text;
    if (!parse_text(value, error, &text))
        return false;
    return bi_datetime_parse(text, put_parser->now_ms, member_of(put_parser, field), reason) ||
           append_reason(text, reason, error);
}

static bool parse_expires_in(struct put_parser *put_parser, const struct field *field,
                             const json_t *value, char *error)
{
    int64_t *at = member_of(put_parser, field);
    if (!parse_duration(put_parser, field, value, error))
        return false;
    *at += put_parser->now_ms;
    return *at <= BIDE_TIMESTAMP_MAX_MS || bi_errmsg_set(error, "is too far away");
}

static bool parse_priority(struct put_parser *put_parser, const struct field *field,
                           const json_t *value, char *error)
{
    int64_t number = 0;
    if (!parse_integer(value, 0, UINT32_MAX, &number, error))
        return false;
    *(uint32_t *)member_of(put_parser, field) = (uint32_t)number;
    return true;
}

static bool parse_retries(struct put_parser *put_parser, const struct field *field,
                          const json_t *value, char *error)
{
    int64_t number = 0;
    if (!parse_integer(value, BIDE_NO_RETRY_LIMIT, INT32_MAX, &number, error))
        return false;
    *(int32_t *)member_of(put_parser, field) = (int32_t)number;
    return true;
}

static bool parse_hold(struct put_parser *put_parser, const struct field *field,
                       const json_t *value, char *error)
{
    if (!json_is_boolean(value))
        return bi_errmsg_set(error, "must be true or false");
    *(bool *)member_of(put_parser, field) = json_is_true(value);
    return true;
}

static bool parse_replace(struct put_parser *put_parser, const struct field *field,
                          const json_t *value, char *error)
{
    if (!json_is_boolean(value))
        return bi_errmsg_set(error, "must be true or false");
    *(bide_conflict *)member_of(put_parser, field) =
        json_is_true(value) ? BIDE_REPLACE : BIDE_REJECT;
    return true;
}

static bool parse_topic(struct put_parser *put_parser, const struct field *field,
                        const json_t *value, char *error)
{
    (void)field;
    size_t size = json_string_length(value);
    if (!json_is_string(value) || size == 0 || size > BIDE_TOPIC_MAX)
        return bi_errmsg_set(error, "must be a text of 1 to %d bytes", BIDE_TOPIC_MAX);
    memcpy(put_parser->line->topic, json_string_value(value), size);
    put_parser->line->topic_size = size;
    return true;
}

static bool reject_base64(char *error)
{
    return bi_errmsg_set(error, "must be a text in base64, with its padding and nothing else");
}

static bool set_key(struct put_parser *put_parser, size_t size)
{
    put_parser->line->options.key = (bide_slice){put_parser->line->key, size};
    return true;
}

static bool parse_key(struct put_parser *put_parser, const struct field *field, const json_t *value,
                      char *error)
{
    (void)field;
    size_t size = json_string_length(value);
    if (!json_is_string(value) || size == 0 || size > BIDE_KEY_MAX)
        return bi_errmsg_set(error, "must be a text of 1 to %d bytes", BIDE_KEY_MAX);
    memcpy(put_parser->line->key, json_string_value(value), size);
    return set_key(put_parser, size);
}

static bool parse_key_base64(struct put_parser *put_parser, const struct field *field,
                             const json_t *value, char *error)
{
    (void)field;
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), size;
    if (text == NULL || !bi_base64_decoded_size(text, length, &size))
        return reject_base64(error);
    if (size == 0 || size > BIDE_KEY_MAX)
        return bi_errmsg_set(error, "must be of 1 to %d bytes", BIDE_KEY_MAX);
    if (!bi_base64_decode(text, length, put_parser->line->key))
        return reject_base64(error);
    return set_key(put_parser, size);
}

/* ---- bodies ---- */

static bool set_body(struct put_parser *put_parser, const void *data, size_t size, char *error)
{
    put_parser->line->body = bide_buf_new(data, size);
    return put_parser->line->body != NULL ||
           bi_errmsg_set(error, "needs more memory than there is");
}

static bool parse_body(struct put_parser *put_parser, const struct field *field,
                       const json_t *value, char *error)
{
    (void)field;
    if (!json_is_string(value))
        return bi_errmsg_set(error, "must be a text; for any JSON there is \"body_json\"");
    return set_body(put_parser, json_string_value(value), json_string_length(value), error);
}

static bool parse_body_base64(struct put_parser *put_parser, const struct field *field,
                              const json_t *value, char *error)
{
    (void)field;
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), size;
    if (text == NULL || !bi_base64_decoded_size(text, length, &size))
        return reject_base64(error);
    char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return bi_errmsg_set(error, "needs more memory than there is");
    bool good = bi_base64_decode(text, length, bytes) || reject_base64(error);
    good = good && set_body(put_parser, bytes, size, error);
    free(bytes);
    return good;
}

static bool parse_body_json(struct put_parser *put_parser, const struct field *field,
                            const json_t *value, char *error)
{
    (void)field;
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL)
        return bi_errmsg_set(error, "needs more memory than there is");
    bool good = set_body(put_parser, text, strlen(text), error);
    free(text);
    return good;
}

/* ---- the names ---- */

#define AT(member) offsetof(bide_put_options, member)

static const struct field fields[] = {
    {"body", BODY, parse_body, 0},
    {"body_base64", BODY, parse_body_base64, 0},
    {"body_json", BODY, parse_body_json, 0},
    {"topic", TOPIC, parse_topic, 0},
    {"priority", PRIORITY, parse_priority, AT(priority)},
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
    {"max_retries", RETRIES, parse_retries, AT(max_retries)},
    {"backoff_base_ms", BACKOFF, parse_ms, AT(backoff_base_ms)},
    {"backoff", BACKOFF, parse_duration, AT(backoff_base_ms)},
    {"backoff_max_ms", BACKOFF_MAX, parse_ms, AT(backoff_max_ms)},
    {"backoff_max", BACKOFF_MAX, parse_duration, AT(backoff_max_ms)},
    {"expires_at_ms", EXPIRY, parse_datetime_ms, AT(expires_at_ms)},
    {"expires", EXPIRY, parse_datetime, AT(expires_at_ms)},
    {"expires_in", EXPIRY, parse_expires_in, AT(expires_at_ms)},
    {"retain_ms", RETENTION, parse_ms, AT(retain_ms)},
    {"retain", RETENTION, parse_duration, AT(retain_ms)},
};

static const struct field *find_field(const char *name, char *error)
{
    struct suggestion suggestion = BI_SUGGEST_INIT;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
        bi_suggest_consider(&suggestion, fields[i].name, name, strlen(name));
    }
    bi_errmsg_set(error, "there is no \"%.60s\" in a put%s%s%s", name,
                  suggestion.best == NULL ? "" : "; did you mean \"",
                  suggestion.best == NULL ? "" : suggestion.best,
                  suggestion.best == NULL ? "" : "\"?");
    return NULL;
}

static bool parse_field(struct put_parser *put_parser, const char *name, const json_t *value,
                        char *error)
{
    char reason[BI_ERRMSG_SIZE];
    const struct field *field = find_field(name, error);
    if (field == NULL)
        return false;
    const char *other = put_parser->seen[field->aspect];
    if (other != NULL)
        return bi_errmsg_set(error, "\"%s\" and \"%s\" are both given; choose one", other, name);
    put_parser->seen[field->aspect] = field->name;
    if (field->aspect == DUE)
        put_parser->line->options.delay_ms = put_parser->line->options.run_at_ms = 0;
    if (field->parse(put_parser, field, value, reason))
        return true;
    return bi_errmsg_set(error, "\"%s\" %.400s", name, reason);
}

static bool parse_fields(struct put_parser *put_parser, json_t *object, char *error)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return bi_errmsg_set(error, "this is no JSON object");
    json_object_foreach(object, name, value)
    {
        if (!parse_field(put_parser, name, value, error))
            return false;
    }
    return put_parser->line->body != NULL ||
           bi_errmsg_set(error, "there is no \"body\", \"body_base64\" or \"body_json\"");
}

bool bi_put_json_parse(bide_slice text, const bide_put_options *defaults, int64_t now_ms,
                       struct put_json *line, char *error)
{
    struct put_parser put_parser = {.line = line, .now_ms = now_ms};
    json_error_t json_error;
    line->options = *defaults;
    line->topic_size = 0;
    line->body = NULL;
    json_t *object =
        json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &json_error);
    if (object == NULL)
        return bi_errmsg_set(error, "this is no JSON object: %.200s", json_error.text);
    bool good = parse_fields(&put_parser, object, error);
    json_decref(object);
    if (!good) {
        bide_buf_unref(line->body);
        line->body = NULL;
    }
    return good;
}

void bi_put_json_move(struct put_json *to, const struct put_json *from)
{
    *to = *from;
    if (from->options.key.data == from->key)
        to->options.key.data = to->key;
}
