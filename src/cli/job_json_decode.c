/* SPDX-License-Identifier: MIT */
#include "cli/job_json.h"

#include "cli/job_field.h"
#include "op/op_check.h"
#include "util/base64.h"

#include <stdlib.h>
#include <string.h>

json_t *bi_job_json_parse(const char *text, size_t size, char *error)
{
    json_error_t reason;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (value != NULL && json_is_object(value))
        return value;
    if (value != NULL)
        bi_errmsg_set(error, "it is no JSON object");
    else
        bi_errmsg_set(error, "it is no JSON: %.200s, at byte %d", reason.text, reason.position);
    json_decref(value);
    return NULL;
}

/* ---- names ---- */

/* Our own records have their names in the order of the table: the search begins where the last
 * one ended. NULL: a job has no such thing. */
static const struct job_field *find_field(const char *name, size_t length, size_t *hint)
{
    for (size_t i = 0; i < bi_job_field_count; i++) {
        const struct job_field *field = &bi_job_fields[(*hint + i) % bi_job_field_count];
        if (strncmp(field->name, name, length) == 0 && field->name[length] == 0) {
            *hint = (size_t)(field - bi_job_fields) + 1;
            return field;
        }
    }
    return NULL;
}

/* "body_base64" is the body. */
static const struct job_field *find_base64_field(const char *name, size_t *hint)
{
    static const char end[] = "_base64";
    size_t length = strlen(name), tail = sizeof(end) - 1;
    if (length <= tail || memcmp(name + length - tail, end, tail) != 0)
        return NULL;
    const struct job_field *field = find_field(name, length - tail, hint);
    return field == NULL || field->type != JOB_FIELD_BYTES ? NULL : field;
}

/* ---- values ---- */

static bool read_base64(const char *name, const json_t *value, bide_slice *bytes,
                        struct job_json_buffers *buffers, char *error)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), slot = 0, size;
    if (!bi_base64_decoded_size(text, length, &size))
        return bi_errmsg_set(error, "\"%s_base64\" is not base64", name);
    while (buffers->blocks[slot] != NULL)
        slot++;
    buffers->blocks[slot] = malloc(size + 1);
    if (buffers->blocks[slot] == NULL)
        return bi_errmsg_set(error, "there is not enough memory for \"%s_base64\"", name);
    *bytes = (bide_slice){buffers->blocks[slot], size};
    return bi_base64_decode(text, length, buffers->blocks[slot]) ||
           bi_errmsg_set(error, "\"%s_base64\" is not base64", name);
}

static bool read_bytes(const struct job_field *field, const json_t *value, bool encoded,
                       bide_job *job, struct job_json_buffers *buffers, char *error)
{
    const void **data = (const void **)((char *)job + field->offset);
    bide_slice bytes = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value))
        return bi_errmsg_set(error, "\"%s\" must be a string", field->name);
    if (*data != NULL)
        return bi_errmsg_set(error, "\"%s\" is there twice: as a string and in base64",
                             field->name);
    if (encoded && !read_base64(field->name, value, &bytes, buffers, error))
        return false;
    if ((int64_t)bytes.size < field->min || (int64_t)bytes.size > field->max)
        return bi_errmsg_set(error, "\"%s\" has %zu bytes; %lld to %lld are allowed", field->name,
                             bytes.size, (long long)field->min, (long long)field->max);
    *data = bytes.data;
    *(size_t *)((char *)job + field->size_offset) = bytes.size;
    return true;
}

static bool read_topic(const json_t *value, bide_job *job, char *error)
{
    bide_slice name = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value) || !bi_topic_name_valid(name))
        return bi_errmsg_set(error,
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
    return bi_errmsg_set(error, "\"state\" must be delayed, ready, reserved, buried or done");
}

static bool read_number(const struct job_field *field, const json_t *value, bide_job *job,
                        char *error)
{
    if (field->type == JOB_FIELD_BOOL && !json_is_boolean(value))
        return bi_errmsg_set(error, "\"%s\" must be true or false", field->name);
    if (field->type != JOB_FIELD_BOOL && !json_is_integer(value))
        return bi_errmsg_set(error, "\"%s\" must be a whole number", field->name);
    int64_t number =
        field->type == JOB_FIELD_BOOL ? json_is_true(value) : json_integer_value(value);
    if (number < field->min || number > field->max)
        return bi_errmsg_set(error, "\"%s\" is %lld; %lld to %lld are allowed", field->name,
                             (long long)number, (long long)field->min, (long long)field->max);
    if (field->type != JOB_FIELD_SIZE)
        bi_job_field_set(job, field, number);
    return true;
}

static bool read_value(const char *name, const json_t *value, size_t *hint, bide_job *job,
                       struct job_json_buffers *buffers, char *error)
{
    const struct job_field *field = find_field(name, strlen(name), hint);
    bool encoded = field == NULL;
    if (encoded)
        field = find_base64_field(name, hint);
    if (field == NULL)
        return bi_errmsg_set(error, "a job has no \"%.60s\"", name);
    if (field->type == JOB_FIELD_BYTES)
        return read_bytes(field, value, encoded, job, buffers, error);
    if (field->type == JOB_FIELD_TOPIC)
        return read_topic(value, job, error);
    if (field->type == JOB_FIELD_STATE)
        return read_state(value, job, error);
    return read_number(field, value, job, error);
}

/* ---- jobs ---- */

/* What one value alone does not tell. */
static bool check_job(const json_t *object, const bide_job *job, char *error)
{
    const json_t *size = json_object_get(object, "body_size");
    if (job->topic[0] == 0)
        return bi_errmsg_set(error, "there is no \"topic\"");
    if (job->body == NULL)
        return bi_errmsg_set(error, "there is no \"body\"");
    if (size != NULL && json_integer_value(size) != (json_int_t)job->body_size)
        return bi_errmsg_set(error, "\"body\" has %zu bytes, but \"body_size\" is %lld",
                             job->body_size, (long long)json_integer_value(size));
    if (job->state == BIDE_STATE_DELAYED && job->run_at_ms == 0)
        return bi_errmsg_set(error, "a delayed job needs \"run_at_ms\"");
    return true;
}

bool bi_job_json_decode(const json_t *object, bide_job *job, struct job_json_buffers *buffers,
                        char *error)
{
    const char *name;
    json_t *value;
    size_t hint = 0;
    *buffers = (struct job_json_buffers){.blocks = {NULL}};
    memset(job, 0, sizeof(*job));
    job->state = BIDE_STATE_READY;
    job->priority = BIDE_DEFAULT_PRIORITY;
    job->max_retries = BIDE_NO_RETRY_LIMIT;
    if (!json_is_object(object))
        return bi_errmsg_set(error, "it is no JSON object");
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        if (!read_value(name, value, &hint, job, buffers, error))
            return false;
    }
    return check_job(object, job, error);
}

void bi_job_json_buffers_free(struct job_json_buffers *buffers)
{
    for (size_t i = 0; i < sizeof(buffers->blocks) / sizeof(buffers->blocks[0]); i++)
        free(buffers->blocks[i]);
    *buffers = (struct job_json_buffers){.blocks = {NULL}};
}
