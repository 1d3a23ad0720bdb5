/* SPDX-License-Identifier: MIT */
#include "cli/record.h"

#include "cli/record_field.h"
#include "task/base64.h"

#include <stdlib.h>

/* ---- bytes ---- */

static bool write_base64(json_t *object, const char *name, const void *data, size_t size)
{
    char under[64];
    size_t length = bi_base64_text_size(size);
    char *text = length == SIZE_MAX ? NULL : malloc(length + 1);
    if (text == NULL)
        return false;
    bi_base64_write(data, size, text);
    snprintf(under, sizeof(under), "%s_base64", name);
    json_t *string = json_stringn_nocheck(text, length);
    free(text);
    return json_object_set_new(object, under, string) == 0;
}

/* A string is made of nothing but UTF-8; NUL may be in it. */
bool bi_record_bytes(json_t *object, const char *name, const void *data, size_t size)
{
    json_t *string = json_stringn(size == 0 ? "" : data, size);
    if (string != NULL)
        return json_object_set_new(object, name, string) == 0;
    return write_base64(object, name, data, size);
}

/* ---- jobs ---- */

/* A body is not there where it was not asked for; but one without bytes always is. */
static bool write_bytes(json_t *object, const struct record_field *field, const bide_job *job)
{
    const void *data = *(const void *const *)((const char *)job + field->place);
    size_t size = *(const size_t *)((const char *)job + field->size_place);
    if (data == NULL && (field->place != offsetof(bide_job, body) || size > 0))
        return true;
    return bi_record_bytes(object, field->name, data, size);
}

static bool write_number(json_t *object, const struct record_field *field, const bide_job *job)
{
    int64_t number = bi_record_get(job, field);
    if (number == field->none && !field->always)
        return true;
    json_t *value = field->kind == RECORD_FLAG ? json_true() : json_integer(number);
    return json_object_set_new(object, field->name, value) == 0;
}

static bool write_field(json_t *object, const struct record_field *field, const bide_job *job)
{
    if (field->kind == RECORD_BYTES)
        return write_bytes(object, field, job);
    if (field->kind == RECORD_TOPIC)
        return json_object_set_new(object, field->name, json_string(job->topic)) == 0;
    if (field->kind == RECORD_STATE)
        return json_object_set_new(object, field->name, json_string(bide_state_name(job->state))) ==
               0;
    return write_number(object, field, job);
}

/* What could not be made as a whole is not shown at all. */
static json_t *whole(json_t *object, bool good)
{
    if (good)
        return object;
    json_decref(object);
    return NULL;
}

json_t *bi_record_job(const bide_job *job)
{
    json_t *object = json_object();
    bool good = object != NULL;
    for (size_t i = 0; good && i < bi_record_field_count; i++)
        good = write_field(object, &bi_record_fields[i], job);
    return whole(object, good);
}

/* ---- figures: all of them are 64 bits wide ---- */

struct figure {
    const char *name;
    size_t place;
};

#define FIGURE(of, name)                 \
    {                                    \
#name, offsetof(bide_##of, name) \
    }
#define FIGURES(table) table, sizeof(table) / sizeof((table)[0])

static const struct figure counts[] = {
    FIGURE(counts, delayed), FIGURE(counts, ready), FIGURE(counts, reserved),
    FIGURE(counts, buried),  FIGURE(counts, done),  FIGURE(counts, urgent),
};

static const struct figure counters[] = {
    FIGURE(counters, puts),     FIGURE(counters, reserves), FIGURE(counters, deletes),
    FIGURE(counters, dones),    FIGURE(counters, releases), FIGURE(counters, fails),
    FIGURE(counters, timeouts), FIGURE(counters, buries),   FIGURE(counters, kicks),
    FIGURE(counters, touches),  FIGURE(counters, expired),  FIGURE(counters, retired),
    FIGURE(counters, purged),   FIGURE(counters, pauses),
};

static const struct figure of_topic[] = {
    FIGURE(topic_stats, waiting),
    FIGURE(topic_stats, references),
    FIGURE(topic_stats, oldest_ready_age_ms),
};

static const struct figure of_pause[] = {
    FIGURE(topic_stats, pause_ms),
    FIGURE(topic_stats, pause_left_ms),
};

static const struct figure of_queue[] = {
    FIGURE(stats, topics),      FIGURE(stats, waiting),      FIGURE(stats, watching),
    FIGURE(stats, pending_ops), FIGURE(stats, memory_bytes), FIGURE(stats, oldest_ready_age_ms),
    FIGURE(stats, uptime_ms),   FIGURE(stats, last_id),
};

static bool write_figures(json_t *object, const struct figure *figures, size_t count,
                          const void *from)
{
    bool good = object != NULL;
    for (size_t i = 0; good && i < count; i++) {
        int64_t number = *(const int64_t *)((const char *)from + figures[i].place);
        good = json_object_set_new(object, figures[i].name, json_integer(number)) == 0;
    }
    return good;
}

/* json_object_set_new() takes what it is given, also when it fails, and refuses NULL. */
static bool write_group(json_t *object, const char *name, const struct figure *figures,
                        size_t count, const void *from)
{
    json_t *group = json_object();
    return json_object_set_new(object, name,
                               whole(group, write_figures(group, figures, count, from))) == 0;
}

json_t *bi_record_topic(const bide_topic_stats *topic)
{
    json_t *object = json_object();
    bool good = object != NULL &&
                json_object_set_new(object, "name", json_string(topic->name)) == 0 &&
                write_group(object, "jobs", FIGURES(counts), &topic->jobs) &&
                write_group(object, "total", FIGURES(counters), &topic->total) &&
                write_figures(object, FIGURES(of_topic), topic) &&
                json_object_set_new(object, "paused", json_boolean(topic->paused)) == 0 &&
                write_figures(object, FIGURES(of_pause), topic);
    return whole(object, good);
}

json_t *bi_record_stats(const bide_stats *stats)
{
    json_t *object = json_object();
    bool good = object != NULL && write_group(object, "jobs", FIGURES(counts), &stats->jobs) &&
                write_group(object, "total", FIGURES(counters), &stats->total) &&
                write_figures(object, FIGURES(of_queue), stats) &&
                json_object_set_new(object, "draining", json_boolean(stats->draining)) == 0;
    return whole(object, good);
}

/* ---- printing ---- */

bool bi_record_write(FILE *to, const json_t *value)
{
    return json_dumpf(value, to, JSON_COMPACT | JSON_ENCODE_ANY) == 0 && putc('\n', to) != EOF;
}

int bi_record_print(const struct cli *cli, json_t *value)
{
    bool good = value != NULL && bi_record_write(stdout, value);
    int exit = good || value == NULL ? BI_EXIT_OK : bi_cli_flush(cli);
    json_decref(value);
    if (good || exit != BI_EXIT_OK)
        return exit;
    return bi_cli_failed(cli, BI_EXIT_FAILED, "there is not enough memory for the answer");
}
