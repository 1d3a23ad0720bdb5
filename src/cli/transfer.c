/* SPDX-License-Identifier: MIT */
#include "cli/transfer.h"

#include "op/job_fields.h"
#include "op/job_json.h"
#include "op/op_table.h"
#include "op/topic_policy.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* On a beanstalkd a pause without an end is the longest possible one. */
#define UNLIMITED_MS (BIDE_TIME_MAX_MS - INT64_C(86400000) * 365)

/* ---- jobs ---- */

const char *bi_transfer_skip_reason(bide_job *job, int64_t now_ms)
{
    bool is_waiting = job->state == BIDE_STATE_READY || job->state == BIDE_STATE_DELAYED;
    int64_t seen_ms = job->created_ms == 0 ? now_ms : job->created_ms + job->age_ms;
    if (job->state == BIDE_STATE_RESERVED && job->cancel_wanted)
        return "it was cancelled while it was reserved";
    if (is_waiting && job->reserves == 0 && job->expires_at_ms != 0 && job->expires_at_ms <= now_ms)
        return "it has expired";
    if (job->state != BIDE_STATE_DONE)
        return NULL;
    if (now_ms > seen_ms)
        job->left_ms -= now_ms - seen_ms;
    return job->left_ms <= 0 ? "its retention is over" : NULL;
}

#define LOST_FIELD(kind, name) \
    BI_JOB_IF_PUT_##kind(      \
        {job->BI_JOB_MEMBER_##kind(name) != BI_JOB_NONE_##kind, "its " BI_JOB_NAME(kind, name)}, )

/* Returns the first attribute that a beanstalkd lacks; NULL: none. */
static const char *unsupported_field(const bide_job *job)
{
    const struct {
        bool present;
        const char *name;
    } parts[] = {
        {job->key != NULL, "its key"},
        BI_JOB_EXT(LOST_FIELD){job->last_error != NULL, "its last error"},
        {job->history != NULL, "its failures"},
        {job->ttr_ms % 1000 != 0, "the milliseconds of its ttr"},
    };
    for (size_t i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
        if (parts[i].present)
            return parts[i].name;
    return NULL;
}

static bool make_put(const struct restore_target *restore_target, struct op_slot *slot, char *error)
{
    const bide_job *job = &slot->job;
    const char *lost = unsupported_field(job);

    assert(restore_target->plain);
    if (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE)
        return bi_errmsg_set(error,
                             "it is %s, and a beanstalkd accepts only ready and delayed jobs",
                             bide_state_name(job->state));
    if (lost != NULL && !restore_target->lossy)
        return bi_errmsg_set(error, "a beanstalkd cannot store %s; use --lossy to drop it", lost);

    slot->options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    slot->options.priority = job->priority;
    slot->options.ttr_ms = job->ttr_ms;
    slot->options.run_at_ms = job->state == BIDE_STATE_DELAYED ? job->run_at_ms : 0;
    slot->op.kind = BIDE_OP_PUT;
    slot->op.put = (bide_put_item){
        .topic = {job->topic, strlen(job->topic)},
        .body = {job->body, job->body_size},
        .options = &slot->options,
    };
    return true;
}

bool bi_transfer_build_op(const struct restore_target *restore_target, struct op_slot *slot,
                          char *error)
{
    if (restore_target->plain)
        return make_put(restore_target, slot, error);
    slot->op.kind = BIDE_OP_RESTORE;
    slot->op.restore = (bide_restore_args){.job = &slot->job};
    return true;
}

/* ---- pauses ---- */

bool bi_transfer_is_endless_pause(const bide_topic_stats *topic)
{
    return topic->paused && topic->pause_left_ms >= UNLIMITED_MS;
}

bool bi_transfer_get_pause(const bide_topic_stats *topic, struct pause *pause)
{
    /* A negative rest: the pause is over, or the server is faulty. */
    if (!topic->paused || topic->pause_left_ms < 0)
        return false;
    memcpy(pause->topic, topic->name, sizeof(pause->topic));
    pause->until_ms =
        bi_transfer_is_endless_pause(topic) ? 0 : bi_clock_wall() / 1000 + topic->pause_left_ms;
    return true;
}

int bi_transfer_set_pause(const struct cli *cli, bide *queue, const struct pause *pause,
                          bool *expired)
{
    int64_t left_ms =
        pause->until_ms == 0 ? BIDE_FOREVER : pause->until_ms - bi_clock_wall() / 1000;
    *expired = pause->until_ms != 0 && left_ms <= 0;
    if (*expired)
        return BI_EXIT_OK;
    return bi_cli_report_last(cli, bide_pause(queue, pause->topic, left_ms));
}

json_t *bi_transfer_pause_to_json(const struct pause *pause)
{
    assert(pause->topic[0] != 0 && pause->until_ms >= 0);
    if (pause->until_ms == 0)
        return json_pack("{s:s, s:s}", "kind", "pause", "topic", pause->topic);
    return json_pack("{s:s, s:s, s:I}", "kind", "pause", "topic", pause->topic, "until_ms",
                     (json_int_t)pause->until_ms);
}

bool bi_transfer_pause_from_json(const json_t *object, struct pause *pause, char *error)
{
    const json_t *topic = json_object_get(object, "topic");
    const json_t *until = json_object_get(object, "until_ms");
    bide_slice name = {json_string_value(topic), json_string_length(topic)};
    *pause = (struct pause){.until_ms = 0};
    if (!json_is_string(topic) || !bi_topic_name_valid(name))
        return bi_errmsg_set(error, "a pause needs the name of a topic");
    if (json_object_size(object) != (until == NULL ? 2u : 3u))
        return bi_errmsg_set(error, "a pause has \"topic\" and \"until_ms\", and nothing else");
    if (until != NULL && (!json_is_integer(until) || json_integer_value(until) <= 0 ||
                          json_integer_value(until) > BIDE_TIMESTAMP_MAX_MS + BIDE_TIME_MAX_MS))
        return bi_errmsg_set(error, "\"until_ms\" is a moment in milliseconds since 1970");
    memcpy(pause->topic, name.data, name.size);
    pause->until_ms = json_integer_value(until);
    return true;
}

/* ---- policies ---- */

int bi_transfer_get_policy(const struct cli *cli, bide *queue, const bide_topic_stats *topic,
                           struct policy_line *line, bool *found)
{
    *found = false;
    if (!topic->has_policy)
        return BI_EXIT_OK;
    memcpy(line->topic, topic->name, sizeof(line->topic));
    int code = bide_topic_get(queue, topic->name, &line->policy, NULL);
    /* It may have been cleared meanwhile. */
    *found = code == BIDE_OK && !bi_topic_policy_is_empty(&line->policy);
    return bi_cli_report_last(cli, code);
}

int bi_transfer_set_policy(const struct cli *cli, bide *queue, const struct policy_line *line)
{
    bide_topic_policy changes = line->policy;
    /* What is not set is to be cleared. */
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        if (bi_topic_policy_get(&changes, field) == field->none)
            bi_topic_policy_put(&changes, field, BIDE_NO_DEFAULT);
    }
    return bi_cli_report_last(cli, bide_topic_set(queue, line->topic, &changes));
}

json_t *bi_transfer_policy_to_json(const struct policy_line *line)
{
    return json_pack("{s:s, s:s, s:o}", "kind", "policy", "topic", line->topic, "policy",
                     bi_job_json_encode_policy(&line->policy));
}

bool bi_transfer_policy_from_json(const json_t *object, struct policy_line *line, char *error)
{
    const json_t *topic = json_object_get(object, "topic");
    bide_slice name = {json_string_value(topic), json_string_length(topic)};
    memset(line, 0, sizeof(*line));
    if (!json_is_string(topic) || !bi_topic_name_valid(name))
        return bi_errmsg_set(error, "a policy needs the name of a topic");
    if (json_object_size(object) != 3)
        return bi_errmsg_set(error, "a policy has \"topic\" and \"policy\", and nothing else");
    memcpy(line->topic, name.data, name.size);
    return bi_job_json_decode_policy(json_object_get(object, "policy"), &line->policy, error);
}
