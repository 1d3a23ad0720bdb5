/* SPDX-License-Identifier: MIT */
/*
 * The policy of a topic. The bucket of a rate is what it is in the books: a level that rises with
 * time, up to the burst, and falls by one with each token; as an exact fraction.
 */
#include "model.h"

#include <string.h>

#define POLICY_MEMBERS (offsetof(bide_topic_policy, room_) / sizeof(int64_t))

static void clear(bide_topic_policy *policy)
{
    memset(policy, 0, sizeof *policy);
    policy->max_retries = BIDE_NO_DEFAULT;
}

static const bide_topic_policy *policy_of(const struct model *m, int name)
{
    const struct mtopic *topic = &m->topics[name];
    return topic->exists && topic->has_policy ? &topic->policy : NULL;
}

/* ---- the rate ---- */

static int64_t period(const bide_topic_policy *policy)
{
    return (policy->rate_period_ms != 0 ? policy->rate_period_ms : 1000) * US_PER_MS;
}

static int64_t burst(const bide_topic_policy *policy)
{
    return policy->rate_burst != 0 ? policy->rate_burst : policy->rate;
}

void model_take_token(struct model *m, int name)
{
    const bide_topic_policy *policy = policy_of(m, name);
    struct mtopic *topic = &m->topics[name];
    if (policy == NULL || policy->rate == 0)
        return;
    mlevel one = period(policy);
    mlevel full = one * burst(policy);
    topic->level += (mlevel)policy->rate * (m->now.mono - topic->level_at);
    topic->level_at = m->now.mono;
    if (topic->level > full)
        topic->level = full;
    expect_true(m->sim, topic->level >= one, "a job was reserved without a token");
    topic->level -= one;
    if (topic->level < one)
        topic->token_at =
            m->now.mono + (int64_t)((one - topic->level + policy->rate - 1) / policy->rate);
}

static bool same_rate(const bide_topic_policy *a, const bide_topic_policy *b)
{
    return a->rate == b->rate && period(a) == period(b) && burst(a) == burst(b);
}

void model_replace_policy(struct model *m, int name, bool has, const bide_topic_policy *policy)
{
    struct mtopic *topic = &m->topics[name];
    bool same = has && topic->has_policy && same_rate(&topic->policy, policy);
    topic->has_policy = has;
    topic->policy = *policy;
    if (same)
        return;
    topic->token_at = 0;
    topic->level = period(policy); /* one token */
    topic->level_at = m->now.mono;
}

/* ---- limits ---- */

bide_limit model_limit(const struct model *m, int name)
{
    const bide_topic_policy *policy = policy_of(m, name);
    const struct mtopic *topic = &m->topics[name];
    if (policy == NULL)
        return BIDE_LIMIT_NONE;
    if (policy->concurrency != 0 &&
        topic->count[BIDE_STATE_RESERVED] >= (uint64_t)policy->concurrency)
        return BIDE_LIMIT_CONCURRENCY;
    if (policy->concurrency != 0 && m->leases_unloaded)
        return BIDE_LIMIT_RECOVERY;
    return policy->rate != 0 && topic->token_at != 0 ? BIDE_LIMIT_RATE : BIDE_LIMIT_NONE;
}

static void depend_on_policy(struct model *m, int name)
{
    uint64_t batch = m->topics[name].policy_batch;
    if (m->journal && batch > m->undone && batch > m->committed && batch > m->hold)
        m->hold = batch;
}

void model_depend_on_limits(struct model *m, int name)
{
    const bide_topic_policy *policy = policy_of(m, name);
    depend_on_policy(m, name);
    if (policy != NULL && policy->concurrency != 0 && m->journal)
        model_depend_on_topic(m, name);
}

uint64_t model_max_jobs(const struct model *m, int name)
{
    const bide_topic_policy *policy = policy_of(m, name);
    return policy != NULL && policy->max_jobs != 0 ? (uint64_t)policy->max_jobs
                                                   : m->sim->options.limits.max_jobs_per_topic;
}

/* ---- defaults ---- */

static int64_t choose(int64_t said, int64_t by_topic)
{
    return said == BIDE_NO_DEFAULT ? 0 : said != 0 ? said : by_topic;
}

static int64_t retries(const bide_put_options *options, const bide_topic_policy *policy)
{
    bool weak = options->max_retries == BIDE_NO_RETRY_LIMIT || options->fallbacks != 0;
    if (options->max_retries == BIDE_NO_DEFAULT)
        return BIDE_NO_RETRY_LIMIT;
    if (!weak || policy->max_retries == BIDE_NO_DEFAULT)
        return options->max_retries;
    return policy->max_retries == BIDE_UNLIMITED ? BIDE_NO_RETRY_LIMIT : policy->max_retries;
}

bide_put_options model_put_options(const struct model *m, const bide_put_item *item)
{
    static const bide_put_options init = BIDE_PUT_OPTIONS_INIT;
    const bide_put_options *said = item->options != NULL ? item->options : &init;
    const bide_topic_policy *policy = policy_of(m, sim_name_of(item->topic));
    bide_put_options options = *said;
    bide_topic_policy none;
    clear(&none);
    if (policy == NULL)
        policy = &none;
    options.ttr_ms = choose(said->ttr_ms, policy->ttr_ms);
    options.max_retries = (int32_t)retries(said, policy);
    options.backoff_base_ms = choose(said->backoff_base_ms, policy->backoff_base_ms);
    options.backoff_max_ms = choose(said->backoff_max_ms, policy->backoff_max_ms);
    options.retain_ms = choose(said->retain_ms, policy->retain_ms);
    if (said->expires_at_ms == BIDE_NO_DEFAULT)
        options.expires_at_ms = 0;
    return options;
}

/* ---- the ops ---- */

/* False: a period or a burst without a rate. */
static bool change(bide_topic_policy *policy, const bide_topic_policy *changes)
{
    int64_t *to = (int64_t *)(void *)policy;
    const int64_t *from = (const int64_t *)(const void *)changes;
    bide_topic_policy none;
    clear(&none);
    for (size_t i = 0; i < POLICY_MEMBERS; i++)
        if (from[i] != BIDE_KEEP)
            to[i] =
                from[i] == BIDE_NO_DEFAULT ? ((const int64_t *)(const void *)&none)[i] : from[i];
    if (policy->rate == 0 && (changes->rate_period_ms > 0 || changes->rate_burst > 0))
        return false;
    if (policy->rate == 0)
        policy->rate_period_ms = policy->rate_burst = 0;
    return true;
}

void model_topic_set(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.topic_set.topic);
    bool may = m->topics[name].exists || model_topic_count(m) < m->sim->options.limits.max_topics;
    bide_topic_policy policy, none;
    clear(&none);
    policy = policy_of(m, name) != NULL ? *policy_of(m, name) : none;
    bool valid = change(&policy, &sop->op.topic_set.policy);
    model_answer(m, !may ? BIDE_TOO_MANY_TOPICS : valid ? BIDE_OK : BIDE_EINVAL);
    if (may && !valid && m->topics[name].exists)
        depend_on_policy(m, name);
    if (!may || !valid)
        return;
    struct mtopic *topic = model_need_topic(m, name);
    model_change_pause(m, name);
    model_replace_policy(m, name, memcmp(&policy, &none, sizeof policy) != 0, &policy);
    topic->policy_batch = m->open_batch;
}

static void compare_policy(struct model *m, const bide_topic_policy *want,
                           const bide_topic_policy *got)
{
    const int64_t *wanted = (const int64_t *)(const void *)want;
    const int64_t *given = (const int64_t *)(const void *)got;
    for (size_t i = 0; i < POLICY_MEMBERS; i++)
        expect(m->sim, "member of a policy", wanted[i], given[i]);
}

void model_topic_get(struct model *m, struct sim_op *sop)
{
    int name = sim_name_of(sop->op.topic_get.topic);
    const struct bi_limits *limits = &m->sim->options.limits;
    bide_topic_policy want;
    model_answer(m, BIDE_OK);
    if (m->topics[name].exists)
        depend_on_policy(m, name);
    clear(&want);
    if (policy_of(m, name) != NULL)
        want = *policy_of(m, name);
    compare_policy(m, &want, sop->op.topic_get.policy);
    want.ttr_ms = want.ttr_ms != 0 ? want.ttr_ms : limits->default_ttr / US_PER_MS;
    want.backoff_base_ms = want.backoff_base_ms != 0 ? want.backoff_base_ms : 5000;
    want.backoff_max_ms = want.backoff_max_ms != 0 ? want.backoff_max_ms : 3600000;
    want.max_jobs = (int64_t)model_max_jobs(m, name);
    want.rate_burst = want.rate != 0 ? burst(&want) : 0;
    want.rate_period_ms = want.rate != 0 ? period(&want) / US_PER_MS : 0;
    compare_policy(m, &want, sop->op.topic_get.in_force);
}
