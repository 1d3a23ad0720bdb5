/* SPDX-License-Identifier: MIT */
/*
 * job_spec - the description of a job to insert: from a put, a restore or a stored image.
 *
 * A job is built completely outside of the queue, which may fail for lack of memory, and is then
 * inserted by steps that cannot fail.
 *
 * Ownership  The spec borrows its slices and buffers. With take_buf a successful build takes over
 *            buf.
 */
#ifndef BI_JOB_SPEC_H
#define BI_JOB_SPEC_H

#include "core/core_internal.h"

#include <string.h>

struct job_spec {
    bide_slice topic;
    bide_slice body;
    bide_buf *buf;
    bool take_buf;
    bool body_in_store; /* the body is in the store only */
    bool plain;         /* no field needs struct job_ext */
    bide_conflict conflict;
    bide_slice key, last_error, result;
    bide_buf *result_buf;  /* the result as a buffer, preferred to the slice; or NULL */
    struct bi_image image; /* times as in images; its topic and buffers are not used */
};

/* Clears the spec except the large topic at its end, which is never read. */
static inline void bi_job_spec_init(struct job_spec *spec)
{
    memset(spec, 0, offsetof(struct job_spec, image) + offsetof(struct bi_image, topic));
}

/* Builds a job that is in no state. NULL when out of memory; everything is released then. */
struct job *bi_job_spec_build(struct core *core, struct topic *topic, const struct job_spec *spec,
                              uint64_t id);

/* Sets the due time of a built job and returns the state to enter: ready if the due time has
 * passed. */
bide_state bi_job_spec_set_due(const struct core *core, struct job *job,
                               const struct bi_image *image);

#endif
