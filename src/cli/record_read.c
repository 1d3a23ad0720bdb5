/* SPDX-License-Identifier: MIT */
#include "cli/record.h"

#include "cli/record_field.h"
#include "core/core.h"
#include "task/base64.h"

#include <stdlib.h>
#include <string.h>

json_t *bi_record_parse(const char *text, size_t size, char *error)
{
    json_error_t reason;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (value != NULL && json_is_object(value))
        return value;
    if (value != NULL)
        bi_refuse(error, "it is no JSON object");
    else
        bi_refuse(error, "it is no JSON: %.200s, at byte %d", reason.text, reason.position);
    json_decref(value);
    return NULL;
}

/* ---- names ---- */

/* Our own records have their names in the order of the table: the search begins where the last
 * one ended. NULL: a job has no such thing. */
static const struct record_field *find(const char *name, size_t length, size_t *from)
{
    for (size_t i = 0; i < bi_record_field_count; i++) {
        const struct record_field *field = &bi_record_fields[(*from + i) % bi_record_field_count];
        if (strncmp(field->name, name, length) == 0 && field->name[length] == 0) {
            *from = (size_t)(field - bi_record_fields) + 1;
            return field;
        }
    }
    return NULL;
}

/* "body_base64" is the body. */
static const struct record_field *find_encoded(const char *name, size_t *from)
{
    static const char end[] = "_base64";
    size_t length = strlen(name), tail = sizeof(end) - 1;
    if (length <= tail || memcmp(name + length - tail, end, tail) != 0)
        return NULL;
    const struct record_field *field = find(name, length - tail, from);
    return field == NULL || field->kind != RECORD_BYTES ? NULL : field;
}

/* ---- values ---- */

static bool read_base64(const json_t *value, bide_slice *bytes, struct record_room *room)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), part = 0, size;
    if (!bi_base64_size(text, length, &size))
        return false;
    while (room->parts[part] != NULL)
        part++;
    room->parts[part] = malloc(size + 1);
    *bytes = (bide_slice){room->parts[part], size};
    return bytes->data != NULL && bi_base64_read(text, length, room->parts[part]);
}

static bool read_bytes(const struct record_field *field, const json_t *value, bool encoded,
                       bide_job *job, struct record_room *room, char *error)
{
    const void **data = (const void **)((char *)job + field->place);
    bide_slice bytes = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value))
        return bi_refuse(error, "\"%s\" must be a string", field->name);
    if (*data != NULL)
        return bi_refuse(error, "\"%s\" is there twice: as a string and in base64", field->name);
    if (encoded && !read_base64(value, &bytes, room))
        return bi_refuse(error, "\"%s_base64\" is not base64", field->name);
    if ((int64_t)bytes.size < field->least || (int64_t)bytes.size > field->most)
        return bi_refuse(error, "\"%s\" has %zu bytes; %lld to %lld are allowed", field->name,
                         bytes.size, (long long)field->least, (long long)field->most);
    *data = bytes.data;
    *(size_t *)((char *)job + field->size_place) = bytes.size;
    return true;
}

static bool read_topic(const json_t *value, bide_job *job, char *error)
{
    bide_slice name = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value) || !bi_is_topic(name))
        return bi_refuse(error,
                         "\"topic\" must be a name of 1 to %d letters, digits and "
                         "-+/;.$_(), with no - in front",
                         BIDE_TOPIC_MAX);
    memcpy(job->topic, name.data, name.size);
    return true;
}

static bool read_state(const json_t *value, bide_job *job, char *error)
{
    const char *name = json_string_value(value);
    size_t length = json_string_length(value);
    for (int i = BIDE_STATE_DELAYED; name != NULL && i <= BIDE_STATE_DONE; i++) {
        const char *known = bide_state_name((bide_state)i);
        if (strlen(known) == length && memcmp(name, known, length) == 0) {
            job->state = (bide_state)i;
            return true;
        }
    }
    return bi_refuse(error, "\"state\" must be delayed, ready, reserved, buried or done");
}

static bool read_number(const struct record_field *field, const json_t *value, bide_job *job,
                        char *error)
{
    if (field->kind == RECORD_FLAG && !json_is_boolean(value))
        return bi_refuse(error, "\"%s\" must be true or false", field->name);
    if (field->kind != RECORD_FLAG && !json_is_integer(value))
        return bi_refuse(error, "\"%s\" must be a whole number", field->name);
    int64_t number = field->kind == RECORD_FLAG ? json_is_true(value) : json_integer_value(value);
    if (number < field->least || number > field->most)
        return bi_refuse(error, "\"%s\" is %lld; %lld to %lld are allowed", field->name,
                         (long long)number, (long long)field->least, (long long)field->most);
    if (field->kind != RECORD_SIZE)
        bi_record_set(job, field, number);
    return true;
}

static bool read_value(const char *name, const json_t *value, size_t *from, bide_job *job,
                       struct record_room *room, char *error)
{
    const struct record_field *field = find(name, strlen(name), from);
    bool encoded = field == NULL;
    if (encoded)
        field = find_encoded(name, from);
    if (field == NULL)
        return bi_refuse(error, "a job has no \"%.60s\"", name);
    if (field->kind == RECORD_BYTES)
        return read_bytes(field, value, encoded, job, room, error);
    if (field->kind == RECORD_TOPIC)
        return read_topic(value, job, error);
    if (field->kind == RECORD_STATE)
        return read_state(value, job, error);
    return read_number(field, value, job, error);
}

/* ---- jobs ---- */

/* What one value alone does not tell. */
static bool check_whole(const json_t *object, const bide_job *job, char *error)
{
    const json_t *size = json_object_get(object, "body_size");
    if (job->topic[0] == 0)
        return bi_refuse(error, "there is no \"topic\"");
    if (job->body == NULL)
        return bi_refuse(error, "there is no \"body\"");
    if (size != NULL && json_integer_value(size) != (json_int_t)job->body_size)
        return bi_refuse(error, "\"body\" has %zu bytes, but \"body_size\" is %lld", job->body_size,
                         (long long)json_integer_value(size));
    if (job->state == BIDE_STATE_DELAYED && job->run_at_ms == 0)
        return bi_refuse(error, "a delayed job needs \"run_at_ms\"");
    return true;
}

bool bi_record_read(const json_t *object, bide_job *job, struct record_room *room, char *error)
{
    const char *name;
    json_t *value;
    size_t from = 0;
    *room = (struct record_room){.parts = {NULL}};
    memset(job, 0, sizeof(*job));
    job->state = BIDE_STATE_READY;
    job->priority = BIDE_DEFAULT_PRIORITY;
    job->max_retries = BIDE_NO_RETRY_LIMIT;
    if (!json_is_object(object))
        return bi_refuse(error, "it is no JSON object");
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (!read_value(name, value, &from, job, room, error))
            return false;
    }
    return check_whole(object, job, error);
}

void bi_record_room_free(struct record_room *room)
{
    for (size_t i = 0; i < sizeof(room->parts) / sizeof(room->parts[0]); i++)
        free(room->parts[i]);
    *room = (struct record_room){.parts = {NULL}};
}
