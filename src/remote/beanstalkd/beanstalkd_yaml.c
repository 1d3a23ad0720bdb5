/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_yaml - reads the YAML of stats, stats-job and stats-tube.
 *
 * beanstalkd writes "key: value" lines without nesting, so a line scan replaces a YAML parser. The
 * input is not trusted: missing keys read as empty or 0.
 */
#define _GNU_SOURCE /* memmem */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/op_table.h"
#include "util/clock.h"

#include <string.h>

bide_slice bi_beanstalkd_yaml_get(const struct reply *reply, const char *key)
{
    size_t size = strlen(key);
    const char *at = (const char *)reply->data;
    const char *end = at + reply->size;

    while (at < end) {
        const char *line_end = memchr(at, '\n', (size_t)(end - at));
        if (line_end == NULL)
            line_end = end;

        size_t line = (size_t)(line_end - at);
        if (line > size + 2 && memcmp(at, key, size) == 0 && memcmp(at + size, ": ", 2) == 0) {
            bide_slice value = {at + size + 2, line - size - 2};
            bool quoted = value.size >= 2 && at[size + 2] == '"' && line_end[-1] == '"';
            return quoted ? (bide_slice){at + size + 3, value.size - 2} : value;
        }

        at = line_end + 1;
    }
    return (bide_slice){NULL, 0};
}

uint64_t bi_beanstalkd_yaml_number(const struct reply *reply, const char *key)
{
    bide_slice value = bi_beanstalkd_yaml_get(reply, key);
    const char *digits = value.data;
    uint64_t number = 0;
    /* At most 19 digits, which cannot overflow. */
    for (size_t i = 0; i < value.size && i < 19 && digits[i] >= '0' && digits[i] <= '9'; i++)
        number = number * 10 + (uint64_t)(digits[i] - '0');
    return number;
}

int64_t bi_beanstalkd_yaml_ms(const struct reply *reply, const char *key)
{
    uint64_t seconds = bi_beanstalkd_yaml_number(reply, key);
    return seconds > BIDE_TIME_MAX_MS / 1000 ? BIDE_TIME_MAX_MS : (int64_t)seconds * 1000;
}

static bide_state parse_state(bide_slice name)
{
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_RESERVED,
                                        BIDE_STATE_BURIED};
    for (size_t i = 0; i < sizeof(states) / sizeof(states[0]); i++) {
        const char *known = bide_state_name(states[i]);
        if (strlen(known) == name.size && memcmp(known, name.data, name.size) == 0)
            return states[i];
    }
    return BIDE_STATE_GONE;
}

bool bi_beanstalkd_yaml_job(const struct reply *reply, bide_job *job)
{
    bide_slice topic = bi_beanstalkd_yaml_get(reply, "tube");
    bide_slice state = bi_beanstalkd_yaml_get(reply, "state");
    job->id = bi_beanstalkd_yaml_number(reply, "id");
    job->state = state.size == 0 ? BIDE_STATE_GONE : parse_state(state);
    if (topic.data == NULL || !bi_topic_name_valid(topic) || job->state == BIDE_STATE_GONE)
        return false;

    memcpy(job->topic, topic.data, topic.size);
    job->topic[topic.size] = 0;

    int64_t now_ms = bi_clock_wall() / 1000;
    /* created_ms and run_at_ms are derived from ages in whole seconds, so they are off by up to
     * 1 s. */
    job->priority = (uint32_t)bi_beanstalkd_yaml_number(reply, "pri");
    job->ttr_ms = bi_beanstalkd_yaml_ms(reply, "ttr");
    job->age_ms = bi_beanstalkd_yaml_ms(reply, "age");
    job->created_ms = now_ms - job->age_ms;
    job->max_retries = BIDE_NO_RETRY_LIMIT;
    job->reserves = (uint32_t)bi_beanstalkd_yaml_number(reply, "reserves");
    job->timeouts = (uint32_t)bi_beanstalkd_yaml_number(reply, "timeouts");
    job->releases = (uint32_t)bi_beanstalkd_yaml_number(reply, "releases");
    job->buries = (uint32_t)bi_beanstalkd_yaml_number(reply, "buries");
    job->kicks = (uint32_t)bi_beanstalkd_yaml_number(reply, "kicks");

    if (job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_RESERVED)
        job->left_ms = bi_beanstalkd_yaml_ms(reply, "time-left");
    if (job->state == BIDE_STATE_DELAYED)
        job->run_at_ms = now_ms + job->left_ms;
    return true;
}

bool bi_beanstalkd_yaml_set_body(const struct reply *reply, bide_job *job)
{
    bide_buf *body = bide_buf_new(reply->data, reply->size);

    if (body == NULL)
        return false;

    bide_buf_unref(job->bufs_[0]);
    job->bufs_[0] = body;
    job->body = bide_buf_data(body);
    job->body_size = reply->size;
    return true;
}
