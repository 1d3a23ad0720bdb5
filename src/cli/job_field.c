/* SPDX-License-Identifier: MIT */
#include "cli/job_field.h"

#define AT(member) offsetof(bide_job, member)
#define NUMBER(name, type, ...)               \
    {                                         \
#name, type, AT(name), 0, __VA_ARGS__ \
    }
#define ID(name)               NUMBER(name, JOB_FIELD_U64, 0, BIDE_ID_MAX, 0, false)
#define COUNTER(name)          NUMBER(name, JOB_FIELD_U32, 0, UINT32_MAX, 0, true)
#define DURATION(name, always) NUMBER(name, JOB_FIELD_I64, 0, BIDE_TIME_MAX_MS, 0, always)
/* As the queue has worked it out: until a moment, perhaps. */
#define DERIVED(name, always) NUMBER(name, JOB_FIELD_I64, 0, BIDE_TIMESTAMP_MAX_MS, 0, always)
#define TIMESTAMP(name)       NUMBER(name, JOB_FIELD_I64, 0, BIDE_TIMESTAMP_MAX_MS, 0, false)
#define FLAG(name)            NUMBER(name, JOB_FIELD_BOOL, 0, 1, 0, false)
#define BYTES(name, min, max)                                                 \
    {                                                                         \
#name, JOB_FIELD_BYTES, AT(name), AT(name##_size), min, max, 0, false \
    }

/* clang-format off */
const struct job_field bi_job_fields[] = {
    ID(id),
    ID(token),
    {"topic", JOB_FIELD_TOPIC, AT(topic), 0, 1, BIDE_TOPIC_MAX, 0, true},
    {"state", JOB_FIELD_STATE, AT(state), 0, BIDE_STATE_DELAYED, BIDE_STATE_DONE, 0, true},
    NUMBER(priority, JOB_FIELD_U32, 0, UINT32_MAX, 0, true),
    NUMBER(body_size, JOB_FIELD_SIZE, 0, UINT32_MAX, 0, true),
    BYTES(body, 0, UINT32_MAX),
    BYTES(key, 1, BIDE_KEY_MAX),
    FLAG(key_hold_retained),
    DURATION(ttr_ms, true),
    DERIVED(delay_ms, false),
    DERIVED(left_ms, false),
    DERIVED(age_ms, true),
    TIMESTAMP(run_at_ms),
    FLAG(run_at_wall),
    FLAG(cancel_wanted),
    NUMBER(max_retries, JOB_FIELD_I32, BIDE_NO_RETRY_LIMIT, INT32_MAX, BIDE_NO_RETRY_LIMIT, false),
    COUNTER(failures),
    DURATION(backoff_base_ms, false),
    DURATION(backoff_max_ms, false),
    TIMESTAMP(expires_at_ms),
    DURATION(retain_ms, false),
    COUNTER(reserves),
    COUNTER(timeouts),
    COUNTER(releases),
    COUNTER(fails),
    COUNTER(buries),
    COUNTER(kicks),
    COUNTER(touches),
    TIMESTAMP(created_ms),
    TIMESTAMP(ready_ms),
    TIMESTAMP(reserved_ms),
    TIMESTAMP(touched_ms),
    TIMESTAMP(buried_ms),
    TIMESTAMP(done_ms),
    BYTES(last_error, 0, UINT32_MAX),
    BYTES(result, 0, UINT32_MAX),
    BYTES(progress, 0, BIDE_PROGRESS_MAX),
};
/* clang-format on */

const size_t bi_job_field_count = sizeof(bi_job_fields) / sizeof(bi_job_fields[0]);

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "body_size is one of the numbers");

int64_t bi_job_field_get(const bide_job *job, const struct job_field *field)
{
    const void *offset = (const char *)job + field->offset;
    if (field->type == JOB_FIELD_U64 || field->type == JOB_FIELD_I64 ||
        field->type == JOB_FIELD_SIZE)
        return *(const int64_t *)offset;
    if (field->type == JOB_FIELD_BOOL)
        return *(const bool *)offset;
    if (field->type == JOB_FIELD_I32)
        return *(const int32_t *)offset;
    return *(const uint32_t *)offset;
}

void bi_job_field_set(bide_job *job, const struct job_field *field, int64_t number)
{
    void *offset = (char *)job + field->offset;
    if (field->type == JOB_FIELD_U64 || field->type == JOB_FIELD_I64)
        *(int64_t *)offset = number;
    else if (field->type == JOB_FIELD_BOOL)
        *(bool *)offset = number != 0;
    else if (field->type == JOB_FIELD_I32)
        *(int32_t *)offset = (int32_t)number;
    else
        *(uint32_t *)offset = (uint32_t)number;
}
