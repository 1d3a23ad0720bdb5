/* SPDX-License-Identifier: MIT */
#include "cli/job_json.h"

#include "cli/job_field.h"
#include "util/base64.h"

#include <stdlib.h>

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

/* A string is made of nothing but UTF-8; NUL may be in it. */
bool bi_job_json_set_bytes(json_t *object, const char *name, const void *data, size_t size)
{
    json_t *string = json_stringn(size == 0 ? "" : data, size);
    if (string != NULL)
        return json_object_set_new(object, name, string) == 0;
    return write_base64(object, name, data, size);
}

/* ---- jobs ---- */

/* A body is not there where it was not asked for; but one without bytes always is. */
static bool write_bytes(json_t *object, const struct job_field *field, const bide_job *job)
{
    const void *data = *(const void *const *)((const char *)job + field->offset);
    size_t size = *(const size_t *)((const char *)job + field->size_offset);
    if (data == NULL && (field->offset != offsetof(bide_job, body) || size > 0))
        return true;
    return bi_job_json_set_bytes(object, field->name, data, size);
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
    if (field->type == JOB_FIELD_TOPIC)
        return json_object_set_new(object, field->name, json_string(job->topic)) == 0;
    if (field->type == JOB_FIELD_STATE)
        return json_object_set_new(object, field->name, json_string(bide_state_name(job->state))) ==
               0;
    return write_number(object, field, job);
}

/* What could not be made as a whole is not shown at all. */
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

/* ---- figures: all of them are 64 bits wide ---- */

struct stat_field {
    const char *name;
    size_t offset;
};

#define STAT(of, name)                   \
    {                                    \
#name, offsetof(bide_##of, name) \
    }
#define STATS(table) table, sizeof(table) / sizeof((table)[0])

static const struct stat_field counts[] = {
    STAT(counts, delayed), STAT(counts, ready), STAT(counts, reserved),
    STAT(counts, buried),  STAT(counts, done),  STAT(counts, urgent),
};

static const struct stat_field counters[] = {
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

/* json_object_set_new() takes what it is given, also when it fails, and refuses NULL. */
static bool write_group(json_t *object, const char *name, const struct stat_field *fields,
                        size_t count, const void *from)
{
    json_t *group = json_object();
    return json_object_set_new(object, name,
                               finish_object(group, write_stats(group, fields, count, from))) == 0;
}

json_t *bi_job_json_encode_topic(const bide_topic_stats *topic)
{
    json_t *object = json_object();
    bool ok = object != NULL &&
              json_object_set_new(object, "name", json_string(topic->name)) == 0 &&
              write_group(object, "jobs", STATS(counts), &topic->jobs) &&
              write_group(object, "total", STATS(counters), &topic->total) &&
              write_stats(object, STATS(topic_fields), topic) &&
              json_object_set_new(object, "paused", json_boolean(topic->paused)) == 0 &&
              write_stats(object, STATS(pause_fields), topic);
    return finish_object(object, ok);
}

json_t *bi_job_json_encode_stats(const bide_stats *stats)
{
    json_t *object = json_object();
    bool ok = object != NULL && write_group(object, "jobs", STATS(counts), &stats->jobs) &&
              write_group(object, "total", STATS(counters), &stats->total) &&
              write_stats(object, STATS(queue_fields), stats) &&
              json_object_set_new(object, "draining", json_boolean(stats->draining)) == 0;
    return finish_object(object, ok);
}

/* ---- printing ---- */

bool bi_job_json_write(FILE *to, const json_t *value)
{
    return json_dumpf(value, to, JSON_COMPACT | JSON_ENCODE_ANY) == 0 && putc('\n', to) != EOF;
}

int bi_cli_print_json(const struct cli *cli, json_t *value)
{
    bool ok = value != NULL && bi_job_json_write(stdout, value);
    int exit = ok || value == NULL ? BI_EXIT_OK : bi_cli_flush(cli);
    json_decref(value);
    if (ok || exit != BI_EXIT_OK)
        return exit;
    return bi_cli_error(cli, BI_EXIT_FAILED, "there is not enough memory for the answer");
}
