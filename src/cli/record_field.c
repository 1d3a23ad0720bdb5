/* SPDX-License-Identifier: MIT */
#include "cli/record_field.h"

#define AT(member) offsetof(bide_job, member)
#define NUMBER(name, kind, ...)               \
    {                                         \
#name, kind, AT(name), 0, __VA_ARGS__ \
    }
#define ID(name)               NUMBER(name, RECORD_U64, 0, BIDE_ID_MAX, 0, false)
#define COUNTER(name)          NUMBER(name, RECORD_U32, 0, UINT32_MAX, 0, true)
#define DURATION(name, always) NUMBER(name, RECORD_I64, 0, BIDE_TIME_MAX_MS, 0, always)
/* As the queue has worked it out: until a moment, perhaps. */
#define DERIVED(name, always) NUMBER(name, RECORD_I64, 0, BIDE_WHEN_MAX_MS, 0, always)
#define MOMENT(name)          NUMBER(name, RECORD_I64, 0, BIDE_WHEN_MAX_MS, 0, false)
#define FLAG(name)            NUMBER(name, RECORD_FLAG, 0, 1, 0, false)
#define BYTES(name, least, most)                                              \
    {                                                                         \
#name, RECORD_BYTES, AT(name), AT(name##_size), least, most, 0, false \
    }

/* clang-format off */
const struct record_field bi_record_fields[] = {
    ID(id),
    ID(token),
    {"topic", RECORD_TOPIC, AT(topic), 0, 1, BIDE_TOPIC_MAX, 0, true},
    {"state", RECORD_STATE, AT(state), 0, BIDE_STATE_DELAYED, BIDE_STATE_DONE, 0, true},
    NUMBER(priority, RECORD_U32, 0, UINT32_MAX, 0, true),
    NUMBER(body_size, RECORD_SIZE, 0, UINT32_MAX, 0, true),
    BYTES(body, 0, UINT32_MAX),
    BYTES(key, 1, BIDE_KEY_MAX),
    FLAG(key_hold_retained),
    DURATION(ttr_ms, true),
    DERIVED(delay_ms, false),
    DERIVED(left_ms, false),
    DERIVED(age_ms, true),
    MOMENT(run_at_ms),
    FLAG(run_at_wall),
    FLAG(cancel_wanted),
    NUMBER(max_retries, RECORD_I32, BIDE_NO_RETRY_LIMIT, INT32_MAX, BIDE_NO_RETRY_LIMIT, false),
    COUNTER(failures),
    DURATION(backoff_base_ms, false),
    DURATION(backoff_max_ms, false),
    MOMENT(expires_at_ms),
    DURATION(retain_ms, false),
    COUNTER(reserves),
    COUNTER(timeouts),
    COUNTER(releases),
    COUNTER(fails),
    COUNTER(buries),
    COUNTER(kicks),
    COUNTER(touches),
    MOMENT(created_ms),
    MOMENT(ready_ms),
    MOMENT(reserved_ms),
    MOMENT(touched_ms),
    MOMENT(buried_ms),
    MOMENT(done_ms),
    BYTES(last_error, 0, UINT32_MAX),
    BYTES(result, 0, UINT32_MAX),
    BYTES(progress, 0, BIDE_PROGRESS_MAX),
};
/* clang-format on */

const size_t bi_record_field_count = sizeof(bi_record_fields) / sizeof(bi_record_fields[0]);

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "body_size is one of the numbers");

int64_t bi_record_get(const bide_job *job, const struct record_field *field)
{
    const void *place = (const char *)job + field->place;
    if (field->kind == RECORD_U64 || field->kind == RECORD_I64 || field->kind == RECORD_SIZE)
        return *(const int64_t *)place;
    if (field->kind == RECORD_FLAG)
        return *(const bool *)place;
    if (field->kind == RECORD_I32)
        return *(const int32_t *)place;
    return *(const uint32_t *)place;
}

void bi_record_set(bide_job *job, const struct record_field *field, int64_t number)
{
    void *place = (char *)job + field->place;
    if (field->kind == RECORD_U64 || field->kind == RECORD_I64)
        *(int64_t *)place = number;
    else if (field->kind == RECORD_FLAG)
        *(bool *)place = number != 0;
    else if (field->kind == RECORD_I32)
        *(int32_t *)place = (int32_t)number;
    else
        *(uint32_t *)place = (uint32_t)number;
}
