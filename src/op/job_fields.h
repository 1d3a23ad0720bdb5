/* SPDX-License-Identifier: MIT */
/*
 * job_fields - every field of a job has one row here.
 *
 * Expanded from these lists: JSON (job_fields.c, and a put as JSON), the bytes of `call`
 * (op_table.c), the checks of a put and a restore, the members of a job in memory and of its stored
 * image with the copies and comparisons between them (src/core), the columns of the SQLite store,
 * and the comparison of a move. Code names a field itself only where the field has rules of its
 * own.
 *
 * A row is X(KIND, name). The kind determines the type, the name in the API (a time has the
 * suffix _ms there, and is in microseconds inside), the limits and the conversion. Each user of a
 * list defines what a kind means to it.
 *
 *     ID         a number up to BIDE_ID_MAX; 0: none
 *     COUNT      a uint32_t; in EXT a put sets it. HISTORY: a put does not
 *     RETRIES    an int32_t; BIDE_NO_RETRY_LIMIT: none
 *     DURATION   0: none                  TTR      a duration that every job has
 *     TIMESTAMP  a wall time; 0: never    DERIVED  computed for a snapshot; AGE: also if it is 0
 *     FLAG       a bool
 *     PART       bytes with their size in name_size; PAYLOAD: an op may have a private copy of them
 *     LOG        the same, encoded by job_history.h; JSON has an array
 *     NAME       the same as PART, with its buffer in name_buf_
 *
 * Ordering   The encoding of a job is BASE, BODY, SCHEDULE, TIMES, COUNTERS, TEXTS, FLAGS, EXT, LOG,
 *            LEASE. A new field goes to the end of EXT, and 0 in it must mean what its absence means.
 *            Once LOG and fallbacks (of a put) are released, it goes to a list behind them and LEASE
 *            instead.
 */
#ifndef BI_JOB_FIELDS_H
#define BI_JOB_FIELDS_H

#include "op/job_history.h"
#include "util/sized_struct.h"

#include <bide/job.h>

/* clang-format off */
#define BI_JOB_BASE(X) \
    X(ID, id)          \
    X(ID, token)       \
    X(TOPIC, topic)    \
    X(STATE, state)    \
    X(COUNT, priority) \
    X(SIZE, body_size)

/* X(kind, name, least bytes, most bytes) */
#define BI_JOB_BODY(X) \
    X(PAYLOAD, body, 0, UINT32_MAX)

#define BI_JOB_SCHEDULE(X) \
    X(TTR, ttr)            \
    X(DERIVED, delay)      \
    X(DERIVED, left)       \
    X(AGE, age)            \
    X(TIMESTAMP, run_at)

#define BI_JOB_CREATED(X) \
    X(TIMESTAMP, created)

/* When a job last entered a state, or was touched. In memory by the boot-time clock. */
#define BI_JOB_TIMES(X)    \
    X(TIMESTAMP, ready)    \
    X(TIMESTAMP, reserved) \
    X(TIMESTAMP, touched)  \
    X(TIMESTAMP, buried)   \
    X(TIMESTAMP, done)

/* Since the put. In memory members of struct counters. */
#define BI_JOB_COUNTERS(X) \
    X(COUNT, reserves)     \
    X(COUNT, timeouts)     \
    X(COUNT, releases)     \
    X(COUNT, fails)        \
    X(COUNT, buries)       \
    X(COUNT, kicks)        \
    X(COUNT, touches)

/* X(kind, name, least bytes, most bytes). The store has all but the progress. */
#define BI_JOB_STORED_TEXTS(X)           \
    X(PART, key, 1, BIDE_KEY_MAX)        \
    X(PART, last_error, 0, UINT32_MAX)   \
    X(PAYLOAD, result, 0, UINT32_MAX)

#define BI_JOB_TEXTS(X)                  \
    BI_JOB_STORED_TEXTS(X)               \
    X(PAYLOAD, progress, 0, BIDE_PROGRESS_MAX)

#define BI_JOB_FLAGS(X)        \
    X(FLAG, run_at_wall)       \
    X(FLAG, key_hold_retained) \
    X(FLAG, cancel_wanted)

/* The other stored members of struct job_ext. The store has their present values always. */
#define BI_JOB_EXT(X)         \
    X(RETRIES, max_retries)   \
    X(HISTORY, failures)      \
    X(DURATION, backoff_base) \
    X(DURATION, backoff_max)  \
    X(TIMESTAMP, expires_at)  \
    X(DURATION, retain)

#define BI_JOB_LOG(X) \
    X(LOG, history, 0, BI_JOB_HISTORY_SIZE)

/* What belongs to the present lease. The store has none of it. */
#define BI_JOB_LEASE(X) \
    X(NAME, holder, 1, BIDE_HOLDER_MAX)

/* The buffers of struct job_ext, and those of a stored image besides the body. */
#define BI_JOB_EXT_BUFS(X)   BI_JOB_TEXTS(X) BI_JOB_LOG(X) BI_JOB_LEASE(X)
#define BI_JOB_IMAGE_BUFS(X) BI_JOB_STORED_TEXTS(X) BI_JOB_LOG(X)
/* clang-format on */

BI_SIZED_STRUCT_ENDS_WITH(bide_put_options, fallbacks);

/* Of EXT: code for the members of bide_put_options only. */
#define BI_JOB_IF_PUT_RETRIES(...)   __VA_ARGS__
#define BI_JOB_IF_PUT_COUNT(...)     __VA_ARGS__
#define BI_JOB_IF_PUT_DURATION(...)  __VA_ARGS__
#define BI_JOB_IF_PUT_TIMESTAMP(...) __VA_ARGS__
#define BI_JOB_IF_PUT_HISTORY(...)

/* The types of EXT in memory and in the image, and the values that mean "none". */
#define BI_JOB_TYPE_RETRIES   int32_t
#define BI_JOB_TYPE_COUNT     uint32_t
#define BI_JOB_TYPE_HISTORY   uint32_t
#define BI_JOB_TYPE_DURATION  int64_t
#define BI_JOB_TYPE_TIMESTAMP int64_t

/* Declares them as members of a struct. */
#define BI_JOB_DECLARE(kind, name)                  BI_JOB_TYPE_##kind name;
#define BI_JOB_DECLARE_BUF(kind, name, least, most) bide_buf *name;

#define BI_JOB_NONE_RETRIES   BIDE_NO_RETRY_LIMIT
#define BI_JOB_NONE_COUNT     0
#define BI_JOB_NONE_HISTORY   0
#define BI_JOB_NONE_DURATION  0
#define BI_JOB_NONE_TIMESTAMP 0

/* The member of bide_job and of bide_put_options. */
#define BI_JOB_MEMBER_ID(name)        name
#define BI_JOB_MEMBER_TOPIC(name)     name
#define BI_JOB_MEMBER_STATE(name)     name
#define BI_JOB_MEMBER_SIZE(name)      name
#define BI_JOB_MEMBER_FLAG(name)      name
#define BI_JOB_MEMBER_COUNT(name)     name
#define BI_JOB_MEMBER_HISTORY(name)   name
#define BI_JOB_MEMBER_RETRIES(name)   name
#define BI_JOB_MEMBER_TTR(name)       name##_ms
#define BI_JOB_MEMBER_AGE(name)       name##_ms
#define BI_JOB_MEMBER_DERIVED(name)   name##_ms
#define BI_JOB_MEMBER_DURATION(name)  name##_ms
#define BI_JOB_MEMBER_TIMESTAMP(name) name##_ms

/* Its name as a string. */
#define BI_JOB_NAME(kind, name) BI_JOB_NAME_(BI_JOB_MEMBER_##kind(name))
#define BI_JOB_NAME_(member)    BI_JOB_NAME__(member)
#define BI_JOB_NAME__(member)   #member

/* Indexes into bufs_, which owns what the pointers of a snapshot refer to. */
enum bi_job_buf {
#define INDEX(kind, name, ...) BI_JOB_BUF_##name,
    BI_JOB_BODY(INDEX) BI_JOB_TEXTS(INDEX)
#undef INDEX
        BI_JOB_BUF_COUNT
};

/* ---- the fields as a table, for JSON ---- */

enum job_field_type {
    JOB_FIELD_U64,
    JOB_FIELD_I64,
    JOB_FIELD_U32,
    JOB_FIELD_I32,
    JOB_FIELD_BOOL,
    JOB_FIELD_SIZE, /* of the body: written, and compared with it */
    JOB_FIELD_BYTES,
    JOB_FIELD_LOG,
    JOB_FIELD_STATE,
    JOB_FIELD_TOPIC,
};

struct job_field {
    const char *name;
    enum job_field_type type;
    size_t offset;      /* in a bide_job */
    size_t size_offset; /* bytes, log: of their size */
    int64_t min, max;   /* of a number; of bytes, their size */
    int64_t absent;     /* the number that stands for nothing, and is left out ... */
    bool always;        /* ... but not this one */
};

/* In the order in which JSON has them. */
extern const struct job_field bi_job_fields[];
extern const size_t bi_job_field_count;

int64_t bi_job_field_get(const bide_job *job, const struct job_field *field);
void bi_job_field_set(bide_job *job, const struct job_field *field, int64_t number);

#endif
