/* SPDX-License-Identifier: MIT */
#include "op/job_json.h"

#include "op/job_fields.h"
#include "op/op_table.h"
#include "op/topic_policy.h"
#include "util/base64.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- bytes ---- */

static bool write_base64(json_t *object, const char *name, const void *data, size_t size)
{
    char encoded_name[64];
    size_t length = bi_base64_encoded_size(size);
    char *text = length == SIZE_MAX ? NULL : malloc(length + 1);
    if (text == NULL)
        return false;
    bi_base64_encode(data, size, text);
    snprintf(encoded_name, sizeof(encoded_name), "%s_base64", name);
    json_t *string = json_stringn_nocheck(text, length);
    free(text);
    return json_object_set_new(object, encoded_name, string) == 0;
}

/* A JSON string is UTF-8 and may contain NUL; other bytes are written in base64. */
bool bi_job_json_set_bytes(json_t *object, const char *name, const void *data, size_t size)
{
    json_t *string = json_stringn(size == 0 ? "" : data, size);
    if (string != NULL)
        return json_object_set_new(object, name, string) == 0;
    return write_base64(object, name, data, size);
}

/* ---- jobs ---- */

/* A body that was not requested is left out; an empty body is not. */
static bool write_bytes(json_t *object, const struct job_field *field, const bide_job *job)
{
    const void *data = *(const void *const *)((const char *)job + field->offset);
    size_t size = *(const size_t *)((const char *)job + field->size_offset);
    if (data == NULL && (field->offset != offsetof(bide_job, body) || size > 0))
        return true;
    return bi_job_json_set_bytes(object, field->name, data, size);
}

static bool write_log(json_t *object, const struct job_field *field, const bide_job *job)
{
    return job->history_size == 0 ||
           json_object_set_new(object, field->name, bi_job_history_json_encode(job)) == 0;
}

static bool write_number(json_t *object, const struct job_field *field, const bide_job *job)
{
    int64_t number = bi_job_field_get(job, field);
    if (number == field->absent && !field->always)
        return true;
    json_t *value = field->type == JOB_FIELD_BOOL ? json_true() : json_integer(number);
    return json_object_set_new(object, field->name, value) == 0;
}

static bool write_field(json_t *object, const struct job_field *field, const bide_job *job)
{
    if (field->type == JOB_FIELD_BYTES)
        return write_bytes(object, field, job);
    if (field->type == JOB_FIELD_LOG)
        return write_log(object, field, job);
    if (field->type == JOB_FIELD_TOPIC)
        return json_object_set_new(object, field->name, json_string(job->topic)) == 0;
    if (field->type == JOB_FIELD_STATE)
        return json_object_set_new(object, field->name, json_string(bide_state_name(job->state))) ==
               0;
    return write_number(object, field, job);
}

/* An incomplete object is freed. */
static json_t *finish_object(json_t *object, bool ok)
{
    if (ok)
        return object;
    json_decref(object);
    return NULL;
}

json_t *bi_job_json_encode(const bide_job *job)
{
    json_t *object = json_object();
    bool ok = object != NULL;
    for (size_t i = 0; ok && i < bi_job_field_count; i++)
        ok = write_field(object, &bi_job_fields[i], job);
    return finish_object(object, ok);
}

/* ---- topics and figures: numbers of 64 bits ---- */

#define STAT(of, name)                   \
    {                                    \
#name, offsetof(bide_##of, name) \
    }
#define STATS(table) table, sizeof(table) / sizeof((table)[0])

static const struct stat_field counts[] = {
    STAT(counts, delayed), STAT(counts, ready), STAT(counts, reserved),
    STAT(counts, buried),  STAT(counts, done),  STAT(counts, urgent),
};

const struct stat_field bi_job_json_counters[] = {
    STAT(counters, puts),     STAT(counters, reserves), STAT(counters, deletes),
    STAT(counters, dones),    STAT(counters, releases), STAT(counters, fails),
    STAT(counters, timeouts), STAT(counters, buries),   STAT(counters, kicks),
    STAT(counters, touches),  STAT(counters, expired),  STAT(counters, retired),
    STAT(counters, purged),   STAT(counters, pauses),
};

static const struct stat_field topic_fields[] = {
    STAT(topic_stats, waiting),
    STAT(topic_stats, references),
    STAT(topic_stats, oldest_ready_age_ms),
};

static const struct stat_field pause_fields[] = {
    STAT(topic_stats, pause_ms),
    STAT(topic_stats, pause_left_ms),
};

static const struct stat_field queue_fields[] = {
    STAT(stats, topics),      STAT(stats, waiting),      STAT(stats, watching),
    STAT(stats, pending_ops), STAT(stats, memory_bytes), STAT(stats, oldest_ready_age_ms),
    STAT(stats, uptime_ms),   STAT(stats, last_id),
};

static bool write_stats(json_t *object, const struct stat_field *fields, size_t count,
                        const void *from)
{
    bool ok = object != NULL;
    for (size_t i = 0; ok && i < count; i++) {
        int64_t number = *(const int64_t *)((const char *)from + fields[i].offset);
        ok = json_object_set_new(object, fields[i].name, json_integer(number)) == 0;
    }
    return ok;
}

/* json_object_set_new() takes its value also when it fails, and fails for NULL. */
static bool write_group(json_t *object, const char *name, const struct stat_field *fields,
                        size_t count, const void *from)
{
    json_t *group = json_object();
    return json_object_set_new(object, name,
                               finish_object(group, write_stats(group, fields, count, from))) == 0;
}

static const struct stat_field limit_fields[] = {
    STAT(topic_stats, concurrency),
    STAT(topic_stats, rate),
    STAT(topic_stats, rate_period_ms),
    STAT(topic_stats, limit_left_ms),
};

/* Only of a topic that has a limit. */
static bool write_limits(json_t *object, const bide_topic_stats *topic)
{
    return (topic->concurrency == 0 && topic->rate == 0) ||
           (write_stats(object, STATS(limit_fields), topic) &&
            json_object_set_new(object, "limited", json_string(bide_limit_name(topic->limited))) ==
                0);
}

json_t *bi_job_json_encode_policy(const bide_topic_policy *policy)
{
    json_t *object = json_object();
    bool ok = object != NULL;
    for (size_t i = 0; ok && i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        int64_t value = bi_topic_policy_get(policy, field);
        if (value != field->none)
            ok =
                json_object_set_new(object, field->name, json_integer(value < 0 ? -1 : value)) == 0;
    }
    return finish_object(object, ok);
}

static const struct policy_field *find_policy_field(const char *name)
{
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++)
        if (strcmp(bi_topic_policy_fields[i].name, name) == 0)
            return &bi_topic_policy_fields[i];
    return NULL;
}

bool bi_job_json_decode_policy(const json_t *object, bide_topic_policy *policy, char *error)
{
    const char *name;
    json_t *value;

    bi_topic_policy_clear(policy);
    if (!json_is_object(object))
        return bi_errmsg_set(error, "a policy is an object");
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const struct policy_field *field = find_policy_field(name);
        if (field == NULL)
            return bi_errmsg_set(error, "unknown setting \"%.60s\"", name);
        int64_t number = json_integer_value(value);
        if (field->least < 0 && number == -1)
            number = BIDE_UNLIMITED;
        bi_topic_policy_put(policy, field, number);
        if (!json_is_integer(value) || number == field->none || !bi_topic_policy_is_valid(policy))
            return bi_errmsg_set(error, "\"%.60s\" must be a whole number up to %lld", name,
                                 (long long)field->most);
    }
    return true;
}

json_t *bi_job_json_encode_topic(const bide_topic_stats *topic)
{
    json_t *object = json_object();
    bool ok = object != NULL &&
              json_object_set_new(object, "name", json_string(topic->name)) == 0 &&
              write_group(object, "jobs", STATS(counts), &topic->jobs) &&
              write_group(object, "total", STATS(bi_job_json_counters), &topic->total) &&
              write_stats(object, STATS(topic_fields), topic) &&
              json_object_set_new(object, "paused", json_boolean(topic->paused)) == 0 &&
              write_stats(object, STATS(pause_fields), topic) && write_limits(object, topic);
    return finish_object(object, ok);
}

json_t *bi_job_json_encode_stats(const bide_stats *stats)
{
    json_t *object = json_object();
    bool ok = object != NULL && write_group(object, "jobs", STATS(counts), &stats->jobs) &&
              write_group(object, "total", STATS(bi_job_json_counters), &stats->total) &&
              write_stats(object, STATS(queue_fields), stats) &&
              json_object_set_new(object, "draining", json_boolean(stats->draining)) == 0;
    return finish_object(object, ok);
}

/* ---- text ---- */

bool bi_job_json_write(FILE *to, const json_t *value)
{
    return json_dumpf(value, to, JSON_COMPACT | JSON_ENCODE_ANY) == 0 && putc('\n', to) != EOF;
}

json_t *bi_job_json_parse(const char *text, size_t size, char *error)
{
    json_error_t reason;
    json_t *value = json_loadb(text, size, JSON_REJECT_DUPLICATES | JSON_ALLOW_NUL, &reason);
    if (value != NULL && json_is_object(value))
        return value;
    if (value != NULL)
        bi_errmsg_set(error, "not a JSON object");
    else
        bi_errmsg_set(error, "not JSON: %.200s, at byte %d", reason.text, reason.position);
    json_decref(value);
    return NULL;
}

/* ---- decoding: names ---- */

/* An export has the names in the order of the table, so the search begins behind the last hit.
 * NULL: no such field. */
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

/* ---- decoding: values ---- */

/* NULL when out of memory. */
static void *new_block(struct job_json_buffers *buffers, size_t size)
{
    size_t slot = 0;
    while (slot < BI_JOB_JSON_BUFFERS && buffers->blocks[slot] != NULL)
        slot++;
    /* Each field of bytes is read once: a second value of it was rejected before. */
    assert(slot < BI_JOB_JSON_BUFFERS);
    return buffers->blocks[slot] = malloc(size + 1);
}

static bool read_base64(const char *name, const json_t *value, bide_slice *bytes,
                        struct job_json_buffers *buffers, char *error)
{
    const char *text = json_string_value(value);
    size_t length = json_string_length(value), size;
    if (!bi_base64_decoded_size(text, length, &size))
        return bi_errmsg_set(error, "\"%s_base64\" is not base64", name);
    void *block = new_block(buffers, size);
    if (block == NULL)
        return bi_errmsg_set(error, "out of memory for \"%s_base64\"", name);
    *bytes = (bide_slice){block, size};
    return bi_base64_decode(text, length, block) ||
           bi_errmsg_set(error, "\"%s_base64\" is not base64", name);
}

static bool read_log(const json_t *value, bide_job *job, struct job_json_buffers *buffers,
                     char *error)
{
    void *block = new_block(buffers, BI_JOB_HISTORY_SIZE);
    if (block == NULL)
        return bi_errmsg_set(error, "out of memory for \"history\"");
    if (!bi_job_history_json_decode(value, block, &job->history_size, error))
        return false;
    job->history = job->history_size == 0 ? NULL : block;
    return true;
}

static bool read_bytes(const struct job_field *field, const json_t *value, bool encoded,
                       bide_job *job, struct job_json_buffers *buffers, char *error)
{
    const void **data = (const void **)((char *)job + field->offset);
    bide_slice bytes = {json_string_value(value), json_string_length(value)};
    if (!json_is_string(value))
        return bi_errmsg_set(error, "\"%s\" must be a string", field->name);
    if (*data != NULL)
        return bi_errmsg_set(error, "\"%s\" is given twice: as a string and in base64",
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
        return bi_errmsg_set(error, "unknown name \"%.60s\"", name);
    if (field->type == JOB_FIELD_BYTES)
        return read_bytes(field, value, encoded, job, buffers, error);
    if (field->type == JOB_FIELD_LOG)
        return read_log(value, job, buffers, error);
    if (field->type == JOB_FIELD_TOPIC)
        return read_topic(value, job, error);
    if (field->type == JOB_FIELD_STATE)
        return read_state(value, job, error);
    return read_number(field, value, job, error);
}

/* ---- decoding: jobs ---- */

/* Checks that concern more than one value. */
static bool check_job(const json_t *object, const bide_job *job, char *error)
{
    const json_t *size = json_object_get(object, "body_size");
    if (job->topic[0] == 0)
        return bi_errmsg_set(error, "\"topic\" is missing");
    if (job->body == NULL)
        return bi_errmsg_set(error, "\"body\" is missing");
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
        return bi_errmsg_set(error, "not a JSON object");
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
