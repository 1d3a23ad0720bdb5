/* SPDX-License-Identifier: MIT */
#include "cli/putline.h"

#include "cli/when.h"
#include "task/base64.h"
#include "util/near.h"

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

struct reading {
    struct put_line *line;
    const char *said[16]; /* by what: the name that said it */
    int64_t now_ms;
};

/* What a name is about; two names for the same are refused. */
enum what {
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
    enum what what;
    bool (*read)(struct reading *reading, const struct field *field, const json_t *value,
                 char *error);
    size_t offset; /* in bide_put_options, where the reader writes there */
};

/* ---- kinds of values; reasons go on 'the name "x"' ---- */

static void *place(const struct reading *reading, const struct field *field)
{
    return (char *)&reading->line->options + field->offset;
}

static bool read_whole(const json_t *value, int64_t least, int64_t most, int64_t *number,
                       char *error)
{
    if (!json_is_integer(value))
        return bi_refuse(error, "must be a whole number");
    *number = json_integer_value(value);
    if (*number < least || *number > most)
        return bi_refuse(error, "must be from %lld to %lld", (long long)least, (long long)most);
    return true;
}

static bool read_ms(struct reading *reading, const struct field *field, const json_t *value,
                    char *error)
{
    return read_whole(value, 0, BIDE_TIME_MAX_MS, place(reading, field), error);
}

static bool read_moment_ms(struct reading *reading, const struct field *field, const json_t *value,
                           char *error)
{
    return read_whole(value, 0, BIDE_WHEN_MAX_MS, place(reading, field), error);
}

/* A text that a person would write, by the reader of the flags. */
static bool read_spoken(const json_t *value, char *error, const char **text)
{
    *text = json_string_value(value);
    if (*text == NULL)
        return bi_refuse(error, "must be a text");
    if (strlen(*text) != json_string_length(value))
        return bi_refuse(error, "has a NUL in it");
    return true;
}

static bool explain(const char *text, const char *reason, char *error)
{
    return bi_refuse(error, "is \"%.100s\", which %.300s", text, reason);
}

static bool read_duration(struct reading *reading, const struct field *field, const json_t *value,
                          char *error)
{
    char reason[BI_SENTENCE_SIZE];
    const char *text;
    if (!read_spoken(value, error, &text))
        return false;
    return bi_duration_read(text, place(reading, field), reason) || explain(text, reason, error);
}

static bool read_moment(struct reading *reading, const struct field *field, const json_t *value,
                        char *error)
{
    char reason[BI_SENTENCE_SIZE];
    const char *text;
    if (!read_spoken(value, error, &text))
        return false;
    return bi_moment_read(text, reading->now_ms, place(reading, field), reason) ||
           explain(text, reason, error);
}

static bool read_expires_in(struct reading *reading, const struct field *field, const json_t *value,
                            char *error)
{
    int64_t *at = place(reading, field);
    if (!read_duration(reading, field, value, error))
        return false;
    *at += reading->now_ms;
    return *at <= BIDE_WHEN_MAX_MS || bi_refuse(error, "is too far away");
}

static bool read_priority(struct reading *reading, const struct field *field, const json_t *value,
                          char *error)
{
    int64_t number = 0;
    if (!read_whole(value, 0, UINT32_MAX, &number, error))
        return false;
    *(uint32_t *)place(reading, field) = (uint32_t)number;
    return true;
}

static bool read_retries(struct reading *reading, const struct field *field, const json_t *value,
                         char *error)
{
    int64_t number = 0;
    if (!read_whole(value, BIDE_NO_RETRY_LIMIT, INT32_MAX, &number, error))
        return false;
    *(int32_t *)place(reading, field) = (int32_t)number;
    return true;
}

static bool read_hold(struct reading *reading, const struct field *field, const json_t *value,
                      char *error)
{
    if (!json_is_boolean(value))
        return bi_refuse(error, "must be true or false");
    *(bool *)place(reading, field) = json_is_true(value);
    return true;
}

static bool read_replace(struct reading *reading, const struct field *field, const json_t *value,
                         char *error)
{
    if (!json_is_boolean(value))
        return bi_refuse(error, "must be true or false");
    *(bide_conflict *)place(reading, field) = json_is_true(value) ? BIDE_REPLACE : BIDE_REJECT;
    return true;
}

static bool read_topic(struct reading *reading, const struct field *field, const json_t *value,
                       char *error)
{
    (void)field;
    size_t size = json_string_length(value);
    if (!json_is_string(value) || size == 0 || size > BIDE_TOPIC_MAX)
        return bi_refuse(error, "must be a text of 1 to %d bytes", BIDE_TOPIC_MAX);
    memcpy(reading->line->topic, json_string_value(value), size);
    reading->line->topic_size = size;
    return true;
}

static bool no_base64(char *error)
{
    return bi_refuse(error, "must be a text in base64, with its padding and nothing else");
}

static bool set_key(struct reading *reading, size_t size)
{
    reading->line->options.key = (bide_slice){reading->line->key, size};
    return true;
}

static bool read_key(struct reading *reading, const struct field *field, const json_t *value,
                     char *error)
{
    (void)field;
    size_t size = json_string_length(value);
    if (!json_is_string(value) || size == 0 || size > BIDE_KEY_MAX)
        return bi_refuse(error, "must be a text of 1 to %d bytes", BIDE_KEY_MAX);
    memcpy(reading->line->key, json_string_value(value), size);
    return set_key(reading, size);
}

static bool read_key_base64(struct reading *reading, const struct field *field, const json_t *value,
                            char *error)
{
    (void)field;
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), size;
    if (text == NULL || !bi_base64_size(text, length, &size))
        return no_base64(error);
    if (size == 0 || size > BIDE_KEY_MAX)
        return bi_refuse(error, "must be of 1 to %d bytes", BIDE_KEY_MAX);
    if (!bi_base64_read(text, length, reading->line->key))
        return no_base64(error);
    return set_key(reading, size);
}

/* ---- bodies ---- */

static bool set_body(struct reading *reading, const void *data, size_t size, char *error)
{
    reading->line->body = bide_buf_new(data, size);
    return reading->line->body != NULL || bi_refuse(error, "needs more memory than there is");
}

static bool read_body(struct reading *reading, const struct field *field, const json_t *value,
                      char *error)
{
    (void)field;
    if (!json_is_string(value))
        return bi_refuse(error, "must be a text; for any JSON there is \"body_json\"");
    return set_body(reading, json_string_value(value), json_string_length(value), error);
}

static bool read_body_base64(struct reading *reading, const struct field *field,
                             const json_t *value, char *error)
{
    (void)field;
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), size;
    if (text == NULL || !bi_base64_size(text, length, &size))
        return no_base64(error);
    char *bytes = malloc(size + 1);
    if (bytes == NULL)
        return bi_refuse(error, "needs more memory than there is");
    bool good = bi_base64_read(text, length, bytes) || no_base64(error);
    good = good && set_body(reading, bytes, size, error);
    free(bytes);
    return good;
}

static bool read_body_json(struct reading *reading, const struct field *field, const json_t *value,
                           char *error)
{
    (void)field;
    char *text = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY);
    if (text == NULL)
        return bi_refuse(error, "needs more memory than there is");
    bool good = set_body(reading, text, strlen(text), error);
    free(text);
    return good;
}

/* ---- the names ---- */

#define AT(member) offsetof(bide_put_options, member)

static const struct field fields[] = {
    {"body", BODY, read_body, 0},
    {"body_base64", BODY, read_body_base64, 0},
    {"body_json", BODY, read_body_json, 0},
    {"topic", TOPIC, read_topic, 0},
    {"priority", PRIORITY, read_priority, AT(priority)},
    {"delay_ms", DUE, read_ms, AT(delay_ms)},
    {"delay", DUE, read_duration, AT(delay_ms)},
    {"run_at_ms", DUE, read_moment_ms, AT(run_at_ms)},
    {"at", DUE, read_moment, AT(run_at_ms)},
    {"ttr_ms", TTR, read_ms, AT(ttr_ms)},
    {"ttr", TTR, read_duration, AT(ttr_ms)},
    {"key", KEY, read_key, 0},
    {"key_base64", KEY, read_key_base64, 0},
    {"replace", CONFLICT, read_replace, AT(conflict)},
    {"key_hold_retained", HOLD, read_hold, AT(key_hold_retained)},
    {"max_retries", RETRIES, read_retries, AT(max_retries)},
    {"backoff_base_ms", BACKOFF, read_ms, AT(backoff_base_ms)},
    {"backoff", BACKOFF, read_duration, AT(backoff_base_ms)},
    {"backoff_max_ms", BACKOFF_MAX, read_ms, AT(backoff_max_ms)},
    {"backoff_max", BACKOFF_MAX, read_duration, AT(backoff_max_ms)},
    {"expires_at_ms", EXPIRY, read_moment_ms, AT(expires_at_ms)},
    {"expires", EXPIRY, read_moment, AT(expires_at_ms)},
    {"expires_in", EXPIRY, read_expires_in, AT(expires_at_ms)},
    {"retain_ms", RETENTION, read_ms, AT(retain_ms)},
    {"retain", RETENTION, read_duration, AT(retain_ms)},
};

static const struct field *find(const char *name, char *error)
{
    struct near near = BI_NEAR_INIT;
    for (size_t i = 0; i < sizeof(fields) / sizeof(fields[0]); i++) {
        if (strcmp(fields[i].name, name) == 0)
            return &fields[i];
        bi_near_look(&near, fields[i].name, name, strlen(name));
    }
    bi_refuse(error, "there is no \"%.60s\" in a put%s%s%s", name,
              near.best == NULL ? "" : "; did you mean \"", near.best == NULL ? "" : near.best,
              near.best == NULL ? "" : "\"?");
    return NULL;
}

static bool read_field(struct reading *reading, const char *name, const json_t *value, char *error)
{
    char reason[BI_SENTENCE_SIZE];
    const struct field *field = find(name, error);
    if (field == NULL)
        return false;
    const char *other = reading->said[field->what];
    if (other != NULL)
        return bi_refuse(error, "\"%s\" and \"%s\" are both given; choose one", other, name);
    reading->said[field->what] = field->name;
    if (field->what == DUE)
        reading->line->options.delay_ms = reading->line->options.run_at_ms = 0;
    if (field->read(reading, field, value, reason))
        return true;
    return bi_refuse(error, "\"%s\" %.400s", name, reason);
}

static bool read_fields(struct reading *reading, json_t *object, char *error)
{
    const char *name;
    json_t *value;
    if (!json_is_object(object))
        return bi_refuse(error, "this is no JSON object");
    json_object_foreach(object, name, value)
    {
        if (!read_field(reading, name, value, error))
            return false;
    }
    return reading->line->body != NULL ||
           bi_refuse(error, "there is no \"body\", \"body_base64\" or \"body_json\"");
}

bool bi_putline_read(bide_slice text, const bide_put_options *defaults, int64_t now_ms,
                     struct put_line *line, char *error)
{
    struct reading reading = {.line = line, .now_ms = now_ms};
    json_error_t problem;
    line->options = *defaults;
    line->topic_size = 0;
    line->body = NULL;
    json_t *object =
        json_loadb(text.data, text.size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &problem);
    if (object == NULL)
        return bi_refuse(error, "this is no JSON object: %.200s", problem.text);
    bool good = read_fields(&reading, object, error);
    json_decref(object);
    if (!good) {
        bide_buf_unref(line->body);
        line->body = NULL;
    }
    return good;
}

void bi_putline_move(struct put_line *to, const struct put_line *from)
{
    *to = *from;
    if (from->options.key.data == from->key)
        to->options.key.data = to->key;
}
