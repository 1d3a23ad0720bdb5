/* SPDX-License-Identifier: MIT */
/*
 * wish - a job that is wanted: by a put, by a restore, or by what was stored.
 *
 * From a wish a job is built completely outside of the queue, which may lack memory, and is then
 * let in by steps that cannot fail.
 */
#ifndef BI_WISH_H
#define BI_WISH_H

#include "core/state.h"

#include <string.h>

struct wish {
    bide_slice topic;
    bide_slice body;
    bide_buf *buf;
    bool take_buf;
    bool without_body; /* the store has it */
    bool plain;        /* nothing is said that struct more would keep */
    bide_conflict conflict;
    bide_slice key, last_error, result;
    bide_buf *result_buf;  /* the result as a buffer, or NULL */
    struct bi_image image; /* times as in images; its topic and buffers are not looked at */
};

/* All zero, but for the large part at the end that is never read. */
static inline void wish_init(struct wish *wish)
{
    memset(wish, 0, offsetof(struct wish, image) + offsetof(struct bi_image, topic));
}

/* A job outside of the queue; NULL when out of memory, and then nothing is left of it. */
struct job *bi_wish_build(struct core *core, struct topic *topic, const struct wish *wish,
                          uint64_t id);

/* Sets the due time of a job that was built, and answers the state it is to enter: one whose due
 * time has passed is ready. */
bide_state bi_wish_settle_due(const struct core *core, struct job *job,
                              const struct bi_image *image);

#endif
