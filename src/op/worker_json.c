/* SPDX-License-Identifier: MIT */
/*
 * worker_json - workers and explanations as JSON.
 */
#include "op/job_json.h"
#include "op/worker_info.h"

#include <string.h>

/* ---- the numbers of a worker ---- */

static const struct {
    const char *name;
    size_t offset; /* in a bide_worker_info; 64 bits */
} numbers[] = {
    {"pid", offsetof(bide_worker_info, pid)},
    {"threads", offsetof(bide_worker_info, threads)},
    {"running", offsetof(bide_worker_info, running)},
    {"done", offsetof(bide_worker_info, done)},
    {"failed", offsetof(bide_worker_info, failed)},
    {"lost", offsetof(bide_worker_info, lost)},
    {"started_ms", offsetof(bide_worker_info, started_ms)},
};

#define NUMBERS (sizeof(numbers) / sizeof(numbers[0]))

/* ---- encoding ---- */

static bool set_text(json_t *object, const char *name, bide_slice text)
{
    return text.size == 0 || bi_job_json_set_bytes(object, name, text.data, text.size);
}

static bool set_number(json_t *object, const char *name, int64_t number)
{
    return json_object_set_new(object, name, json_integer(number)) == 0;
}

static json_t *finish(json_t *value, bool ok)
{
    if (ok)
        return value;
    json_decref(value);
    return NULL;
}

static json_t *encode_running(const bide_running_job *job)
{
    json_t *object = json_object();
    return finish(object, object != NULL && set_number(object, "id", (int64_t)job->id) &&
                              set_text(object, "topic", job->topic) &&
                              set_number(object, "since_ms", job->since_ms) &&
                              set_text(object, "progress", job->progress));
}

static json_t *encode_topics(const bide_worker_info *info)
{
    json_t *array = json_array();
    bool ok = array != NULL;
    for (size_t i = 0; ok && i < info->topic_count; i++)
        ok = json_array_append_new(array,
                                   json_stringn(info->topics[i].data, info->topics[i].size)) == 0;
    return finish(array, ok);
}

static json_t *encode_jobs(const bide_worker_info *info)
{
    json_t *array = json_array();
    bool ok = array != NULL;
    for (size_t i = 0; ok && i < info->job_count; i++)
        ok = json_array_append_new(array, encode_running(&info->jobs[i])) == 0;
    return finish(array, ok);
}

json_t *bi_worker_json_encode(const bide_worker_info *info)
{
    json_t *object = json_object();
    bool ok =
        object != NULL && set_text(object, "name", info->name) &&
        (info->connection == 0 || set_number(object, "connection", (int64_t)info->connection)) &&
        set_text(object, "host", info->host) && set_text(object, "version", info->version);
    for (size_t i = 0; ok && i < NUMBERS; i++)
        ok = set_number(object, numbers[i].name,
                        *(const int64_t *)(const void *)((const char *)info + numbers[i].offset));
    ok = ok && json_object_set_new(object, "topics", encode_topics(info)) == 0 &&
         json_object_set_new(object, "jobs", encode_jobs(info)) == 0;
    return finish(object, ok);
}

json_t *bi_why_json_encode(const bide_explanation *why)
{
    json_t *object = json_object();
    const struct {
        const char *name;
        int64_t number;
        bool always;
    } fields[] = {
        {"until_ms", why->until_ms, false},
        {"left_ms", why->left_ms, false},
        {"ahead", (int64_t)why->ahead, why->state == BIDE_STATE_READY},
        {"attempts", why->attempts, false},
        {"failures", why->failures, false},
        {"waiting", (int64_t)why->waiting, why->topic[0] != 0},
        {"workers", (int64_t)why->workers, why->topic[0] != 0},
        {"running", (int64_t)why->running, why->topic[0] != 0},
        {"limit", (int64_t)why->limit, false},
    };
    const struct {
        const char *name;
        bool set;
    } flags[] = {{"ahead_more", why->ahead_more},
                 {"cancel_wanted", why->cancel_wanted},
                 {"draining", why->draining}};
    const struct {
        const char *name, *text;
    } texts[] = {
        {"topic", why->topic}, {"holder", why->holder}, {"error", why->error}, {"text", why->text}};

    bool ok = object != NULL && (why->id == 0 || set_number(object, "id", (int64_t)why->id)) &&
              json_object_set_new(object, "reason", json_string(bide_why_name(why->reason))) == 0 &&
              json_object_set_new(object, "state", json_string(bide_state_name(why->state))) == 0;
    for (size_t i = 0; ok && i < sizeof(fields) / sizeof(fields[0]); i++)
        if (fields[i].always || fields[i].number != 0)
            ok = set_number(object, fields[i].name, fields[i].number);
    for (size_t i = 0; ok && i < sizeof(flags) / sizeof(flags[0]); i++)
        if (flags[i].set)
            ok = json_object_set_new(object, flags[i].name, json_true()) == 0;
    for (size_t i = 0; ok && i < sizeof(texts) / sizeof(texts[0]); i++)
        ok = set_text(object, texts[i].name, (bide_slice){texts[i].text, strlen(texts[i].text)});
    return finish(object, ok);
}
