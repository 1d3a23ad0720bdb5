/* SPDX-License-Identifier: MIT */
/*
 * topic_policy - the members of bide_topic_policy, each with one row.
 *
 * Checks, the encoding of `call`, JSON, the columns of the SQLite store, and the settings of the
 * command line and of the protocol follow from the rows. A member that is not set has the value
 * BI_POLICY_NONE: zero, except for max_retries, where zero is a setting.
 *
 * Ordering   The rows are in the order of the bytes of `call`. A new one goes to the end, and zero in
 *            it must mean BIDE_KEEP in topic_set.
 */
#ifndef BI_TOPIC_POLICY_H
#define BI_TOPIC_POLICY_H

#include <bide/job.h>

/* X(member, least, most) */
#define BI_TOPIC_POLICY(X)                     \
    X(ttr_ms, 0, BIDE_TIME_MAX_MS)             \
    X(max_retries, BIDE_UNLIMITED, INT32_MAX)  \
    X(backoff_base_ms, 0, BIDE_TIME_MAX_MS)    \
    X(backoff_max_ms, 0, BIDE_TIME_MAX_MS)     \
    X(retain_ms, 0, BIDE_TIME_MAX_MS)          \
    X(expires_in_ms, 0, BIDE_TIME_MAX_MS)      \
    X(max_jobs, 0, UINT32_MAX)                 \
    X(concurrency, 0, UINT32_MAX)              \
    X(rate, 0, BIDE_RATE_MAX)                  \
    X(rate_period_ms, 0, BIDE_RATE_PERIOD_MAX) \
    X(rate_burst, 0, BIDE_RATE_MAX)

enum bi_topic_policy_index {
#define BI_POLICY_INDEX(name, least, most) BI_POLICY_##name,
    BI_TOPIC_POLICY(BI_POLICY_INDEX)
#undef BI_POLICY_INDEX
        BI_TOPIC_POLICY_FIELDS
};

struct policy_field {
    const char *name;
    size_t offset;
    int64_t none; /* not set */
    int64_t least, most;
};

extern const struct policy_field bi_topic_policy_fields[BI_TOPIC_POLICY_FIELDS];

static inline int64_t bi_topic_policy_get(const bide_topic_policy *policy,
                                          const struct policy_field *field)
{
    return *(const int64_t *)(const void *)((const char *)policy + field->offset);
}

static inline void bi_topic_policy_put(bide_topic_policy *policy, const struct policy_field *field,
                                       int64_t value)
{
    *(int64_t *)(void *)((char *)policy + field->offset) = value;
}

/* Clears all members. */
void bi_topic_policy_clear(bide_topic_policy *policy);
/* True if no member is set. */
bool bi_topic_policy_is_empty(const bide_topic_policy *policy);
bool bi_topic_policy_equal(const bide_topic_policy *a, const bide_topic_policy *b);
/* True if every member has a value that can be set, or none: for a policy that was read from a
 * store. */
bool bi_topic_policy_is_valid(const bide_topic_policy *policy);
/* Applies the changes of a topic_set. A period and a burst belong to a rate and end with it. False:
 * one of them is set without a rate. */
bool bi_topic_policy_change(bide_topic_policy *policy, const bide_topic_policy *changes);

/* The bucket of a rate, with the defaults of its period and burst. */
int64_t bi_topic_policy_period_ms(const bide_topic_policy *policy);
int64_t bi_topic_policy_burst(const bide_topic_policy *policy);

#endif
