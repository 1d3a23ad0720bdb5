/* SPDX-License-Identifier: MIT */
#include "op/topic_policy.h"

#include <string.h>

#define NONE(least) ((least) < 0 ? BIDE_NO_DEFAULT : 0)

const struct policy_field bi_topic_policy_fields[BI_TOPIC_POLICY_FIELDS] = {
#define FIELD(name, least, most) \
    {#name, offsetof(bide_topic_policy, name), NONE(least), (least), (most)},
    BI_TOPIC_POLICY(FIELD)
#undef FIELD
};

void bi_topic_policy_clear(bide_topic_policy *policy)
{
    memset(policy, 0, sizeof(*policy));
    policy->max_retries = BIDE_NO_DEFAULT;
}

bool bi_topic_policy_is_empty(const bide_topic_policy *policy)
{
    bide_topic_policy empty;
    bi_topic_policy_clear(&empty);
    return bi_topic_policy_equal(policy, &empty);
}

bool bi_topic_policy_equal(const bide_topic_policy *a, const bide_topic_policy *b)
{
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        if (bi_topic_policy_get(a, field) != bi_topic_policy_get(b, field))
            return false;
    }
    return true;
}

bool bi_topic_policy_is_valid(const bide_topic_policy *policy)
{
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        int64_t value = bi_topic_policy_get(policy, field);
        if (value != field->none &&
            (value < field->least || value > field->most || value == BIDE_KEEP))
            return false;
    }
    return true;
}

bool bi_topic_policy_change(bide_topic_policy *policy, const bide_topic_policy *changes)
{
    for (size_t i = 0; i < BI_TOPIC_POLICY_FIELDS; i++) {
        const struct policy_field *field = &bi_topic_policy_fields[i];
        int64_t value = bi_topic_policy_get(changes, field);
        if (value != BIDE_KEEP)
            bi_topic_policy_put(policy, field, value == BIDE_NO_DEFAULT ? field->none : value);
    }

    if (policy->rate != 0)
        return true;
    policy->rate_period_ms = policy->rate_burst = 0;
    return changes->rate_period_ms <= 0 && changes->rate_burst <= 0;
}

int64_t bi_topic_policy_period_ms(const bide_topic_policy *policy)
{
    return policy->rate_period_ms != 0 ? policy->rate_period_ms : 1000;
}

int64_t bi_topic_policy_burst(const bide_topic_policy *policy)
{
    return policy->rate_burst != 0 ? policy->rate_burst : policy->rate;
}
