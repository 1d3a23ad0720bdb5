/* SPDX-License-Identifier: MIT */
/*
 * job_field - what a job has, by name: one table for writing and reading.
 */
#ifndef BI_JOB_FIELD_H
#define BI_JOB_FIELD_H

#include <bide/job.h>

enum job_field_type {
    JOB_FIELD_U64,
    JOB_FIELD_I64,
    JOB_FIELD_U32,
    JOB_FIELD_I32,
    JOB_FIELD_BOOL,
    JOB_FIELD_SIZE, /* of the body: written, and compared with it */
    JOB_FIELD_BYTES,
    JOB_FIELD_STATE,
    JOB_FIELD_TOPIC,
};

struct job_field {
    const char *name;
    enum job_field_type type;
    size_t offset;      /* in a bide_job */
    size_t size_offset; /* bytes: of their size */
    int64_t min, max;   /* numbers that a job can have; of bytes, how many */
    int64_t absent;     /* a number that stands for nothing, and is left out ... */
    bool always;        /* ... but not this one */
};

/* In the order in which they are written. */
extern const struct job_field bi_job_fields[];
extern const size_t bi_job_field_count;

int64_t bi_job_field_get(const bide_job *job, const struct job_field *field);
void bi_job_field_set(bide_job *job, const struct job_field *field, int64_t number);

#endif
