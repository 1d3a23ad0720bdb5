/* SPDX-License-Identifier: MIT */
#include "core/policy.h"

#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

int bi_policy_prepare(struct core *core, struct topic *topic)
{
    if (topic->policy != NULL)
        return BIDE_OK;
    if (!bi_timers_reserve(&core->mono))
        return BIDE_ENOMEM;

    struct policy *policy = bi_alloc_malloc(&core->alloc, sizeof(*policy));
    if (policy == NULL) {
        bi_timers_unreserve(&core->mono);
        return BIDE_ENOMEM;
    }

    memset(policy, 0, sizeof(*policy));
    bi_timer_init(&policy->timer, TIMER_RATE, TIMER_CLASS_RATE, topic->serial);
    policy->topic = topic->self;
    topic->policy = policy;
    core->memory += BI_POLICY_COST;
    return BIDE_OK;
}

void bi_policy_free(struct core *core, struct topic *topic)
{
    struct policy *policy = topic->policy;
    if (policy == NULL)
        return;

    bi_timers_clear(&core->mono, &policy->timer);
    bi_timers_unreserve(&core->mono);
    bide_buf_unref(policy->settings);
    bi_alloc_free(&core->alloc, policy);
    topic->policy = NULL;
    core->memory -= BI_POLICY_COST;
}

/* ---- what closes a topic ---- */

static void set_limited(struct core *core, struct topic *topic, unsigned limited)
{
    bool opens = topic->limited != 0 && limited == 0;
    topic->limited = (uint8_t)limited;
    if (opens)
        bi_waiters_wake(core, topic);
}

/* The reasons that follow from the number of reserved jobs. */
static unsigned count_limits(const struct core *core, const struct topic *topic)
{
    const bide_topic_policy *settings = bi_policy_settings(topic->policy);
    if (settings == NULL || settings->concurrency == 0)
        return 0;

    uint64_t reserved = topic->lists[BIDE_STATE_RESERVED].count;
    return (reserved >= (uint64_t)settings->concurrency ? LIMITED_CONCURRENCY : 0) |
           (core->leases_unloaded ? LIMITED_RECOVERY : 0);
}

void bi_policy_update(struct core *core, struct topic *topic)
{
    set_limited(core, topic, (topic->limited & LIMITED_RATE) | count_limits(core, topic));
}

/* ---- the bucket ---- */

static int64_t period_of(const bide_topic_policy *settings)
{
    return us_of(bi_topic_policy_period_ms(settings));
}

/* How long before `due` the bucket has its first token: the time of all others, rounded down to
 * microseconds, and the rest as a fraction. It cannot overflow: both factors are bounded. */
static int64_t burst_time(const bide_topic_policy *settings, int64_t *part)
{
    int64_t time = (bi_topic_policy_burst(settings) - 1) * period_of(settings);
    *part = time % settings->rate;
    return time / settings->rate;
}

_Static_assert(INT64_MAX / BIDE_RATE_MAX / 1000 > BIDE_RATE_PERIOD_MAX, "a burst may overflow");

/* When the next token is there, rounded up. */
static int64_t next_token(const struct policy *policy, const bide_topic_policy *settings)
{
    int64_t part;
    int64_t time = burst_time(settings, &part);
    return policy->due - time + (policy->part > part);
}

/* Begins with one token. */
static void begin_bucket(const struct core *core, struct policy *policy,
                         const bide_topic_policy *settings)
{
    policy->due = core->now.mono + burst_time(settings, &policy->part);
}

static bool same_rate(const bide_topic_policy *a, const bide_topic_policy *b)
{
    return a != NULL && b != NULL && a->rate == b->rate && period_of(a) == period_of(b) &&
           bi_topic_policy_burst(a) == bi_topic_policy_burst(b);
}

void bi_policy_take_token(struct core *core, struct topic *topic)
{
    struct policy *policy = topic->policy;
    const bide_topic_policy *settings = bi_policy_settings(policy);
    if (settings == NULL || settings->rate == 0)
        return;

    assert((topic->limited & LIMITED_RATE) == 0);
    /* A full bucket gains no more tokens. */
    if (policy->due < core->now.mono) {
        policy->due = core->now.mono;
        policy->part = 0;
    }

    int64_t period = period_of(settings);
    policy->due += period / settings->rate;
    policy->part += period % settings->rate;
    if (policy->part >= settings->rate) {
        policy->part -= settings->rate;
        policy->due++;
    }

    int64_t next = next_token(policy, settings);
    if (next <= core->now.mono)
        return;
    set_limited(core, topic, topic->limited | LIMITED_RATE);
    bi_timers_set(&core->mono, &policy->timer, next);
}

void bi_fire_rate(struct core *core, struct timer *timer)
{
    const struct policy *policy = BI_TIMER_OWNER(timer, struct policy, timer);
    struct topic *topic = topic_at(core, policy->topic);
    set_limited(core, topic, topic->limited & ~(unsigned)LIMITED_RATE);
}

/* ---- the settings ---- */

static bool has_max_jobs(const bide_topic_policy *settings)
{
    return settings != NULL && settings->max_jobs != 0;
}

bool bi_load_has_job_limits(const struct core *core)
{
    return core->limits.max_jobs_per_topic != 0 || core->max_jobs_policies != 0;
}

void bi_policy_replace(struct core *core, struct topic *topic, bide_buf *settings)
{
    struct policy *policy = topic->policy;
    bide_buf *old = policy->settings;
    policy->settings = settings;

    const bide_topic_policy *now = bide_buf_data(settings);
    core->max_jobs_policies += has_max_jobs(now);
    core->max_jobs_policies -= has_max_jobs(bide_buf_data(old));

    unsigned limited = topic->limited & LIMITED_RATE;
    if (!same_rate(bide_buf_data(old), now)) {
        bi_timers_clear(&core->mono, &policy->timer);
        limited = 0;
        if (now != NULL && now->rate != 0)
            begin_bucket(core, policy, now);
    }
    set_limited(core, topic, limited | count_limits(core, topic));
    bide_buf_unref(old);
}

bide_limit bi_policy_limit(const struct topic *topic, int64_t *until)
{
    bool rate = (topic->limited & LIMITED_RATE) != 0;
    *until = rate ? topic->policy->timer.due : BI_NEVER;
    /* Of two limits the one without a known end comes first. */
    if ((topic->limited & LIMITED_CONCURRENCY) != 0)
        return BIDE_LIMIT_CONCURRENCY;
    if ((topic->limited & LIMITED_RECOVERY) != 0)
        return BIDE_LIMIT_RECOVERY;
    return rate ? BIDE_LIMIT_RATE : BIDE_LIMIT_NONE;
}

static int64_t or_default(int64_t value, int64_t otherwise)
{
    return value != 0 ? value : otherwise;
}

void bi_policy_in_force(const struct core *core, const struct topic *topic, bide_topic_policy *out)
{
    const bide_topic_policy *settings = topic == NULL ? NULL : bi_policy_settings(topic->policy);
    if (settings != NULL)
        *out = *settings;
    else
        bi_topic_policy_clear(out);

    out->ttr_ms = or_default(out->ttr_ms, ms_up(core->limits.default_ttr));
    out->backoff_base_ms = or_default(out->backoff_base_ms, BI_BACKOFF_BASE / 1000);
    out->backoff_max_ms = or_default(out->backoff_max_ms, BI_BACKOFF_MAX / 1000);
    out->max_jobs = or_default(out->max_jobs, (int64_t)core->limits.max_jobs_per_topic);
    if (out->rate == 0) {
        out->rate_period_ms = out->rate_burst = 0;
        return;
    }
    out->rate_burst = bi_topic_policy_burst(out);
    out->rate_period_ms = bi_topic_policy_period_ms(out);
}
