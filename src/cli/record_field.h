/* SPDX-License-Identifier: MIT */
/*
 * record_field - what a job has, by name: one table for writing and reading.
 */
#ifndef BI_RECORD_FIELD_H
#define BI_RECORD_FIELD_H

#include <bide/job.h>

enum record_kind {
    RECORD_U64,
    RECORD_I64,
    RECORD_U32,
    RECORD_I32,
    RECORD_FLAG,
    RECORD_SIZE, /* of the body: written, and compared with it */
    RECORD_BYTES,
    RECORD_STATE,
    RECORD_TOPIC,
};

struct record_field {
    const char *name;
    enum record_kind kind;
    size_t place;        /* in a bide_job */
    size_t size_place;   /* bytes: of their size */
    int64_t least, most; /* numbers that a job can have; of bytes, how many */
    int64_t none;        /* a number that stands for nothing, and is left out ... */
    bool always;         /* ... but not this one */
};

/* In the order in which they are written. */
extern const struct record_field bi_record_fields[];
extern const size_t bi_record_field_count;

int64_t bi_record_get(const bide_job *job, const struct record_field *field);
void bi_record_set(bide_job *job, const struct record_field *field, int64_t number);

#endif
