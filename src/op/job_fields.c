/* SPDX-License-Identifier: MIT */
#include "op/job_fields.h"

#include <assert.h>

/* clang-format off */
#define AT(member)        offsetof(bide_job, member)
#define STRING(text)      #text
#define FIELD(member, type, ...) {STRING(member), JOB_FIELD_##type, AT(member), __VA_ARGS__}

/* Of each kind: the offset of the size, least, most, what is left out, and whether it is not. */
#define OF_ID(member)        FIELD(member, U64, 0, 0, BIDE_ID_MAX, 0, false),
#define OF_TOPIC(member)     FIELD(member, TOPIC, 0, 1, BIDE_TOPIC_MAX, 0, true),
#define OF_STATE(member)     FIELD(member, STATE, 0, BIDE_STATE_DELAYED, BIDE_STATE_DONE, 0, true),
#define OF_COUNT(member)     FIELD(member, U32, 0, 0, UINT32_MAX, 0, true),
#define OF_HISTORY(member)   OF_COUNT(member)
#define OF_RETRIES(member)   FIELD(member, I32, 0, BIDE_NO_RETRY_LIMIT, INT32_MAX, BIDE_NO_RETRY_LIMIT, false),
#define OF_SIZE(member)      FIELD(member, SIZE, 0, 0, UINT32_MAX, 0, true),
#define OF_FLAG(member)      FIELD(member, BOOL, 0, 0, 1, 0, false),
#define OF_DURATION(member)  FIELD(member, I64, 0, 0, BIDE_TIME_MAX_MS, 0, false),
#define OF_TTR(member)       FIELD(member, I64, 0, 0, BIDE_TIME_MAX_MS, 0, true),
#define OF_TIMESTAMP(member) FIELD(member, I64, 0, 0, BIDE_TIMESTAMP_MAX_MS, 0, false),
/* A duration up to a point in time, perhaps. */
#define OF_DERIVED(member)   FIELD(member, I64, 0, 0, BIDE_TIMESTAMP_MAX_MS, 0, false),
#define OF_AGE(member)       FIELD(member, I64, 0, 0, BIDE_TIMESTAMP_MAX_MS, 0, true),

#define ROW(kind, name)              OF_##kind(BI_JOB_MEMBER_##kind(name))
#define BYTES_ROW(kind, name, min, max) FIELD(name, BYTES, AT(name##_size), min, max, 0, false),
#define LOG_ROW(kind, name, min, max)   FIELD(name, LOG, AT(name##_size), min, max, 0, false),

const struct job_field bi_job_fields[] = {
    BI_JOB_BASE(ROW)
    BI_JOB_BODY(BYTES_ROW)
    BI_JOB_FLAGS(ROW)
    BI_JOB_SCHEDULE(ROW)
    BI_JOB_EXT(ROW)
    BI_JOB_COUNTERS(ROW)
    BI_JOB_CREATED(ROW)
    BI_JOB_TIMES(ROW)
    BI_JOB_TEXTS(BYTES_ROW)
    BI_JOB_LOG(LOG_ROW)
    BI_JOB_LEASE(BYTES_ROW)
};
/* clang-format on */

const size_t bi_job_field_count = sizeof(bi_job_fields) / sizeof(bi_job_fields[0]);

_Static_assert(sizeof(size_t) == sizeof(uint64_t), "body_size is one of the numbers");

int64_t bi_job_field_get(const bide_job *job, const struct job_field *field)
{
    assert(field->type != JOB_FIELD_BYTES && field->type != JOB_FIELD_LOG &&
           field->type != JOB_FIELD_TOPIC);
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
    assert(number >= field->min && number <= field->max);
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
