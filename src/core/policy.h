/* SPDX-License-Identifier: MIT */
/*
 * policy - the policy of a topic: defaults of its jobs, and the limits of its reserves.
 *
 * topic->limited has the reasons for which reserves skip the topic. It is brought up to date by
 * every event that may change it: a job that is reserved or no longer is, a token that is due, a
 * change of the policy. So a topic without a policy costs a reserve the comparison of one byte.
 *
 * Concurrency counts all jobs in the state reserved, also those whose reply is held or whose bodies
 * are being read. While jobs with leases of an earlier process are still to be loaded, a topic with
 * this limit is closed: their number is not known.
 *
 * Rate is a token bucket in its virtual form: `due` is the time at which the bucket would be full if
 * no more tokens were taken. A token advances it by period / rate, with the remainder as a fraction,
 * so that no rounding accumulates. A topic without a token has a timer for the next one. A token
 * is used up by a reservation, also by one that is undone. A bucket begins with one token: when the
 * rate is set or changed, at a restart, and after a failed commit that undoes such a change.
 *
 * Ownership  The settings are an immutable buffer, shared with the journal and with batches.
 * Failure    Only bi_policy_prepare() can fail; a rollback restores settings without allocating.
 *            Once a topic has a struct policy, it keeps it.
 * Cost       O(log n) for a timer, O(1) for everything else.
 */
#ifndef BI_POLICY_H
#define BI_POLICY_H

#include "core/timer.h"
#include "op/topic_policy.h"

struct core;
struct topic;

/* Bits of topic->limited. */
enum {
    LIMITED_CONCURRENCY = 1,
    LIMITED_RATE = 2,
    LIMITED_RECOVERY = 4,
};

struct policy {
    bide_buf *settings; /* a bide_topic_policy; NULL: nothing is set */
    struct timer timer; /* while LIMITED_RATE: when the next token is due */
    uint32_t topic;
    int64_t due;  /* of a full bucket, boot-time clock; */
    int64_t part; /* plus this fraction: part / rate microseconds */
};

/* The settings, NULL if there are none. */
static inline const bide_topic_policy *bi_policy_settings(const struct policy *policy)
{
    return policy == NULL ? NULL : bide_buf_data(policy->settings);
}

/* Bytes that a policy counts for max_memory. */
#define BI_POLICY_COST (sizeof(struct policy) + sizeof(bide_topic_policy))

/* Ensures that the topic has a struct policy. BIDE_OK or BIDE_ENOMEM. */
int bi_policy_prepare(struct core *core, struct topic *topic);

/* Replaces the settings (NULL: none), takes over the reference, and wakes calls that may go on. The
 * topic has a struct policy. */
void bi_policy_replace(struct core *core, struct topic *topic, bide_buf *settings);

void bi_policy_free(struct core *core, struct topic *topic);

/* The number of reserved jobs has changed, or may be known now. */
void bi_policy_update(struct core *core, struct topic *topic);

/* A job of the topic is reserved: uses up a token, if there is a rate. */
void bi_policy_take_token(struct core *core, struct topic *topic);

/* Why reserves skip the topic apart from a pause; *until: for the rate, the time of the next token;
 * otherwise BI_NEVER. */
bide_limit bi_policy_limit(const struct topic *topic, int64_t *until);

/* The settings with the defaults and limits of the queue. */
void bi_policy_in_force(const struct core *core, const struct topic *topic, bide_topic_policy *out);

#endif
