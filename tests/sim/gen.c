/* SPDX-License-Identifier: MIT */
#include "model.h"

#include "core/event.h"

#define MANY_WAITING 40

/* ---- picking ---- */

static struct mjob *random_job(struct sim *sim)
{
    struct model *m = sim->model;
    return m->count != 0 ? m->jobs[rng_below(&sim->rng, m->count)] : NULL;
}

uint64_t sim_pick_id(struct sim *sim)
{
    const struct mjob *job = random_job(sim);
    uint64_t stored = sim_load_pick(sim);
    uint64_t kind = rng_below(&sim->rng, 100);
    if (stored != 0 && kind < 30)
        return stored;
    if (job != NULL && kind < 88)
        return job->id;
    if (kind < 95)
        return 1 + rng_below(&sim->rng, sim->model->next_id);
    return kind < 97 ? BIDE_ID_MAX : sim->model->next_id + rng_below(&sim->rng, 3);
}

/* Some topics are used more than others. */
int sim_pick_name(struct sim *sim)
{
    return (int)(rng_one_in(&sim->rng, 4) ? rng_below(&sim->rng, SIM_NAMES)
                                          : rng_below(&sim->rng, 4));
}

/* From 1 ms to 136 years. */
int64_t sim_pick_ms(struct sim *sim)
{
    uint64_t kind = rng_below(&sim->rng, 100);
    if (kind < 40)
        return rng_range(&sim->rng, 1, 30);
    if (kind < 80)
        return rng_range(&sim->rng, 30, 5000);
    if (kind < 95)
        return rng_range(&sim->rng, 5000, 600000);
    return kind < 98 ? rng_range(&sim->rng, 600000, 86400000) : BIDE_TIME_MAX_MS;
}

/* Long enough to meet others, where there may be few of them. */
int64_t sim_pick_retain(struct sim *sim)
{
    bool few = sim->options.limits.max_done_per_topic < 100;
    return few && rng_one_in(&sim->rng, 2) ? BIDE_TIME_MAX_MS : sim_pick_ms(sim);
}

bide_slice sim_pick_text(struct sim *sim, char *room, size_t max)
{
    size_t size = rng_below(&sim->rng, max + 1);
    for (size_t i = 0; i < size; i++)
        room[i] = (char)('a' + rng_below(&sim->rng, 4));
    return (bide_slice){.data = room, .size = size};
}

/* Few names, so that often the same one comes again; or none. */
bide_slice sim_pick_holder(struct sim *sim, struct sim_op *sop)
{
    if (rng_one_in(&sim->rng, 3))
        return (bide_slice){.data = NULL};
    return sim_pick_text(sim, sop->holder, rng_one_in(&sim->rng, 8) ? 60 : 1);
}

/* Often the id of a job in this state. */
static uint64_t pick_id_in(struct sim *sim, bide_state state)
{
    for (int i = 0; i < 8; i++) {
        const struct mjob *job = random_job(sim);
        if (job != NULL && job->state == state)
            return job->id;
    }
    return sim_pick_id(sim);
}

static bide_slice pick_topic(struct sim *sim)
{
    return sim_slice(sim_names[sim_pick_name(sim)]);
}

static bide_state pick_state(struct sim *sim)
{
    return (bide_state)rng_range(&sim->rng, BIDE_STATE_DELAYED, BIDE_STATE_DONE);
}

static int64_t pick_timeout(struct sim *sim)
{
    if (sim->waiting.count > MANY_WAITING || rng_one_in(&sim->rng, 2))
        return 0;
    return rng_one_in(&sim->rng, 6) ? BIDE_FOREVER : sim_pick_ms(sim);
}

/* ---- the ops that need little ---- */

static void gen_reserve_job(struct sim *sim, struct sim_op *sop)
{
    sop->op.reserve_job.id = sim_pick_id(sim);
    sop->op.reserve_job.job = &sop->jobs[0];
    sop->op.reserve_job.holder = sim_pick_holder(sim, sop);
}

static void gen_id(struct sim *sim, struct sim_op *sop)
{
    sop->op.lease.id = sim_pick_id(sim);
}

static void gen_kick(struct sim *sim, struct sim_op *sop)
{
    sop->op.kick.topic = pick_topic(sim);
    sop->op.kick.max = rng_one_in(&sim->rng, 8) ? UINT64_MAX : (uint64_t)rng_range(&sim->rng, 1, 5);
    sop->op.kick.buried_only = rng_one_in(&sim->rng, 4);
}

static void gen_update(struct sim *sim, struct sim_op *sop)
{
    bide_update_args *args = &sop->op.update;
    struct rng *rng = &sim->rng;
    args->id = sim_pick_id(sim);
    args->priority = rng_one_in(rng, 2) ? rng_range(rng, 1020, 1030) : BIDE_KEEP;
    args->ttr_ms = rng_one_in(rng, 3) ? rng_range(rng, 0, 300) : BIDE_KEEP;
    args->delay_ms = args->run_at_ms = BIDE_KEEP;
    if (rng_one_in(rng, 3))
        args->delay_ms = rng_one_in(rng, 3) ? 0 : sim_pick_ms(sim);
    else if (rng_one_in(rng, 3))
        args->run_at_ms =
            sim->now.wall / US_PER_MS + (rng_one_in(rng, 4) ? 0 : rng_range(rng, -2000, 5000));
    if (rng_one_in(rng, 2))
        args->topic = pick_topic(sim);
}

static void gen_look(struct sim *sim, struct sim_op *sop)
{
    sop->op.query.id = sim_pick_id(sim);
    sop->op.query.job = &sop->jobs[0];
}

static void gen_peek_first(struct sim *sim, struct sim_op *sop)
{
    sop->op.query.topic = pick_topic(sim);
    sop->op.query.state = pick_state(sim);
    sop->op.query.job = &sop->jobs[0];
}

static void gen_find(struct sim *sim, struct sim_op *sop)
{
    sop->op.query.topic = pick_topic(sim);
    sop->op.query.key = sim_slice(sim_keys[rng_below(&sim->rng, SIM_KEYS)]);
    sop->op.query.job = &sop->jobs[0];
}

static void gen_cancel(struct sim *sim, struct sim_op *sop)
{
    bool reserved = rng_one_in(&sim->rng, 2);
    sop->op.lease.id = reserved ? pick_id_in(sim, BIDE_STATE_RESERVED) : sim_pick_id(sim);
}

static void gen_body(struct sim *sim, struct sim_op *sop)
{
    sop->op.fetch.id = sim_pick_id(sim);
}

static void gen_result(struct sim *sim, struct sim_op *sop)
{
    bool done = rng_one_in(&sim->rng, 2);
    sop->op.fetch.id = done ? pick_id_in(sim, BIDE_STATE_DONE) : sim_pick_id(sim);
}

static void gen_wait(struct sim *sim, struct sim_op *sop)
{
    sop->op.wait.id = sim_pick_id(sim);
    sop->op.wait.timeout_ms = pick_timeout(sim);
}

static void gen_recovered(struct sim *sim, struct sim_op *sop)
{
    sop->op.recovered.timeout_ms = pick_timeout(sim);
}

static void gen_purge(struct sim *sim, struct sim_op *sop)
{
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    sop->op.purge.topic = pick_topic(sim);
    sop->op.purge.state = states[rng_below(&sim->rng, 4)];
}

static void gen_topic(struct sim *sim, struct sim_op *sop)
{
    sop->op.topic.topic = pick_topic(sim);
    sop->op.topic.for_ms = rng_one_in(&sim->rng, 6) ? rng_range(&sim->rng, BIDE_FOREVER, 0)
                                                    : rng_range(&sim->rng, 1, 3000);
    sop->op.topic.delta = rng_percent(&sim->rng, 40) ? 1 : -1;
}

/* A setting, if it is to change: or that it is cleared. */
static int64_t pick_setting(struct sim *sim, uint64_t one_in, int64_t low, int64_t high)
{
    if (!rng_one_in(&sim->rng, one_in))
        return BIDE_KEEP;
    return rng_one_in(&sim->rng, 3) ? BIDE_NO_DEFAULT : rng_range(&sim->rng, low, high);
}

static void gen_topic_set(struct sim *sim, struct sim_op *sop)
{
    static const int64_t periods_ms[] = {1, 7, 1000, 60000, BIDE_RATE_PERIOD_MAX};
    bide_topic_policy *policy = &sop->op.topic_set.policy;
    bool rates = rng_one_in(&sim->rng, 2);
    sop->op.topic_set.topic = pick_topic(sim);
    *policy = (bide_topic_policy)BIDE_TOPIC_POLICY_INIT;
    policy->ttr_ms = pick_setting(sim, 6, 1, 100000);
    policy->max_retries = pick_setting(sim, 6, 0, 3);
    if (rng_one_in(&sim->rng, 20))
        policy->max_retries = BIDE_UNLIMITED;
    policy->backoff_base_ms = pick_setting(sim, 8, 1, 2000);
    policy->backoff_max_ms = pick_setting(sim, 8, 1, 5000);
    policy->retain_ms = pick_setting(sim, 8, 1, 5000);
    policy->expires_in_ms = pick_setting(sim, 8, 1, 20000);
    if (!sim->floods)
        policy->max_jobs = pick_setting(sim, 8, 1, 30);
    policy->concurrency = pick_setting(sim, 2, 1, 4);
    policy->rate = pick_setting(sim, rates ? 2 : 8, 1, rng_one_in(&sim->rng, 4) ? 1000000 : 7);
    /* They need a rate: without one they are rejected. */
    bool may_need = policy->rate > 0 || rng_one_in(&sim->rng, 6);
    if (may_need && rng_one_in(&sim->rng, 2))
        policy->rate_period_ms = periods_ms[rng_below(&sim->rng, 5)];
    if (may_need)
        policy->rate_burst = pick_setting(sim, 2, 1, rng_one_in(&sim->rng, 4) ? 1000000 : 4);
}

static void gen_topic_get(struct sim *sim, struct sim_op *sop)
{
    sop->op.topic_get.topic = pick_topic(sim);
    sop->op.topic_get.policy = &sim->policy;
    sop->op.topic_get.in_force = &sim->in_force;
}

static void gen_stats(struct sim *sim, struct sim_op *sop)
{
    static bide_stats stats;
    (void)sim;
    sop->op.stats.stats = &stats;
}

static void gen_topic_stats(struct sim *sim, struct sim_op *sop)
{
    sop->op.topic_stats.topic = pick_topic(sim);
    sop->op.topic_stats.stats = &sim->topic_page[0];
}

static void gen_drain(struct sim *sim, struct sim_op *sop)
{
    sop->op.drain.on = !sim->model->draining && rng_one_in(&sim->rng, 10);
}

static void gen_nothing(struct sim *sim, struct sim_op *sop)
{
    (void)sim;
    (void)sop;
}

/* ---- feeds ---- */

static size_t pick_feed(struct sim *sim, bool used)
{
    for (int i = 0; i < 8; i++) {
        size_t at = rng_below(&sim->rng, 4);
        if ((sim->feeds[at] != NULL) == used)
            return at;
    }
    return 4;
}

static void gen_subscribe(struct sim *sim, struct sim_op *sop)
{
    if (pick_feed(sim, false) == 4) {
        sop->op.kind = BIDE_OP_PING;
        return;
    }
    if (rng_one_in(&sim->rng, 2))
        sop->op.subscription.topic = pick_topic(sim);
    if (rng_one_in(&sim->rng, 2))
        sop->op.subscription.kinds = (uint32_t)rng_range(&sim->rng, 1, (1 << BIDE_EVENT_KINDS) - 1);
    sop->op.subscription.capacity =
        rng_one_in(&sim->rng, 5) ? 0 : (uint32_t)rng_range(&sim->rng, 1, 12);
    /* A feed loses events for lack of memory when it needs more than its first chunk; the model
     * knows only the losses of a feed that is full. */
    bool lacks = sim->alloc_fails || sim->options.limits.max_memory != 0;
    if (sop->op.subscription.capacity == 0 && lacks)
        sop->op.subscription.capacity = BI_EVENT_CHUNK;
}

static void gen_events(struct sim *sim, struct sim_op *sop)
{
    size_t at = pick_feed(sim, true);
    if (at == 4) {
        sop->op.kind = BIDE_OP_PING;
        return;
    }
    sop->op.subscription.handle = sim->feeds[at];
    sop->op.subscription.events = sop->events;
    sop->op.subscription.event_max = (size_t)rng_range(&sim->rng, 1, SIM_ITEMS);
    sop->op.subscription.timeout_ms = pick_timeout(sim);
}

static void gen_unsubscribe(struct sim *sim, struct sim_op *sop)
{
    size_t at = pick_feed(sim, true);
    if (at == 4 || !rng_one_in(&sim->rng, 3)) {
        sop->op.kind = BIDE_OP_PING;
        return;
    }
    sop->op.subscription.handle = sim->feeds[at];
    sim->feeds[at] = NULL;
}

/* ---- choosing an op ---- */

static const struct {
    bide_op_kind kind;
    unsigned weight;
    void (*fill)(struct sim *sim, struct sim_op *sop);
} kinds[] = {
    {BIDE_OP_PUT, 130, sim_gen_put},
    {BIDE_OP_PUT_MANY, 25, sim_gen_put_many},
    {BIDE_OP_RESTORE, 15, sim_gen_restore},
    {BIDE_OP_RESERVE, 130, sim_gen_reserve},
    {BIDE_OP_RESERVE_JOB, 20, gen_reserve_job},
    {BIDE_OP_DELETE, 50, sim_gen_lease},
    {BIDE_OP_DONE, 60, sim_gen_done},
    {BIDE_OP_FINISH_MANY, 25, sim_gen_finish_many},
    {BIDE_OP_TOUCH_MANY, 15, sim_gen_touch_many},
    {BIDE_OP_FINISH_AND_RESERVE, 50, sim_gen_finish_and_reserve},
    {BIDE_OP_RELEASE, 45, sim_gen_release},
    {BIDE_OP_GIVE_BACK, 25, sim_gen_lease},
    {BIDE_OP_FAIL, 50, sim_gen_fail},
    {BIDE_OP_BURY, 35, sim_gen_bury},
    {BIDE_OP_KICK, 20, gen_kick},
    {BIDE_OP_KICK_JOB, 15, gen_id},
    {BIDE_OP_TOUCH, 35, sim_gen_touch},
    {BIDE_OP_UPDATE, 40, gen_update},
    {BIDE_OP_CANCEL, 25, gen_cancel},
    {BIDE_OP_PEEK, 10, gen_look},
    {BIDE_OP_PEEK_FIRST, 10, gen_peek_first},
    {BIDE_OP_FIND, 10, gen_find},
    {BIDE_OP_JOB_STATS, 10, gen_look},
    {BIDE_OP_BODY, 6, gen_body},
    {BIDE_OP_RESULT, 8, gen_result},
    {BIDE_OP_WAIT, 35, gen_wait},
    {BIDE_OP_RECOVERED, 4, gen_recovered},
    {BIDE_OP_PURGE, 6, gen_purge},
    {BIDE_OP_PAUSE, 15, gen_topic},
    {BIDE_OP_RESUME, 15, gen_topic},
    {BIDE_OP_TOPIC_REF, 15, gen_topic},
    {BIDE_OP_STATS, 6, gen_stats},
    {BIDE_OP_TOPIC_STATS, 8, gen_topic_stats},
    {BIDE_OP_SUBSCRIBE, 8, gen_subscribe},
    {BIDE_OP_EVENTS, 30, gen_events},
    {BIDE_OP_UNSUBSCRIBE, 8, gen_unsubscribe},
    {BIDE_OP_PING, 2, gen_nothing},
    {BIDE_OP_DRAIN, 12, gen_drain},
    {BIDE_OP_FINISH_AND_PUT, 60, sim_gen_finish_and_put},
    {BIDE_OP_TOPIC_SET, 20, gen_topic_set},
    {BIDE_OP_TOPIC_GET, 10, gen_topic_get},
    {BIDE_OP_ANNOUNCE, 20, sim_gen_announce},
    {BIDE_OP_WORKERS, 10, sim_gen_workers},
    {BIDE_OP_WHY, 25, sim_gen_why},
};

static size_t pick_kind(struct sim *sim)
{
    unsigned total = 0;
    size_t count = sizeof kinds / sizeof kinds[0];
    for (size_t i = 0; i < count; i++)
        total += kinds[i].weight;
    uint64_t left = rng_below(&sim->rng, total);
    size_t at = 0;
    for (; left >= kinds[at].weight; at++)
        left -= kinds[at].weight;
    return at;
}

static bool adds(bide_op_kind kind)
{
    return kind == BIDE_OP_PUT || kind == BIDE_OP_PUT_MANY || kind == BIDE_OP_RESTORE;
}

static bool ends(bide_op_kind kind)
{
    return kind == BIDE_OP_DELETE || kind == BIDE_OP_DONE || kind == BIDE_OP_FINISH_MANY ||
           kind == BIDE_OP_CANCEL || kind == BIDE_OP_PURGE;
}

/* There are enough jobs: rather take one away. */
static struct sim_op *fewer(struct sim *sim)
{
    struct sim_op *sop;
    if (sim->loading.phase == LOADED && rng_one_in(&sim->rng, 4)) {
        sop = sim_op_get(sim, BIDE_OP_PURGE);
        gen_purge(sim, sop);
    } else {
        sop = sim_op_get(sim, BIDE_OP_DELETE);
        sop->op.lease.id = sim_pick_id(sim);
    }
    return sop;
}

static struct sim_op *generate(struct sim *sim)
{
    size_t at = pick_kind(sim);
    if (adds(kinds[at].kind) && sim->model->count > sim->job_target)
        return fewer(sim);
    if (ends(kinds[at].kind) && sim->model->count < sim->job_target && !rng_one_in(&sim->rng, 3))
        at = 0; /* a put */
    struct sim_op *sop = sim_op_get(sim, kinds[at].kind);
    kinds[at].fill(sim, sop);
    return sop;
}

struct sim_op *sim_generate(struct sim *sim)
{
    struct sim_op *sop = generate(sim);
    while (sim_must_wait(sim, sop)) {
        sim_op_put(sim, sop);
        sop = generate(sim);
    }
    return sop;
}

static void purge(struct sim *sim, int name, bide_state state)
{
    struct sim_op *sop = sim_op_get(sim, BIDE_OP_PURGE);
    sop->op.purge.topic = sim_slice(sim_names[name]);
    sop->op.purge.state = state;
    sim_do(sim, sop);
}

static void put_many_jobs(struct sim *sim, int name, bide_state state, int count)
{
    for (int i = 0; i < count; i++) {
        struct sim_op *sop = sim_op_get(sim, BIDE_OP_RESTORE);
        sim_gen_restore_as(sim, sop, name, state);
        sop->restored.key = NULL;
        sop->restored.key_size = 0;
        sop->restored.expires_at_ms = 0;
        if (state == BIDE_STATE_DELAYED)
            sop->restored.run_at_ms += 60000;
        sim_do(sim, sop);
    }
}

void sim_flood(struct sim *sim)
{
    int name = sim_pick_name(sim);
    bide_state state = rng_one_in(&sim->rng, 2) ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
    if (sim->model->draining)
        return;
    purge(sim, name, state);
    put_many_jobs(sim, name, state, rng_one_in(&sim->rng, 2) ? 1000 : 1100);
    if (sim->options.journal && rng_one_in(&sim->rng, 2))
        sim_commit_all(sim);
    if (rng_one_in(&sim->rng, 2)) {
        struct sim_op *sop = sim_op_get(sim, BIDE_OP_KICK);
        sop->op.kick.topic = sim_slice(sim_names[name]);
        sop->op.kick.max = rng_one_in(&sim->rng, 2) ? UINT64_MAX : 1050;
        sim_do(sim, sop);
    }
    purge(sim, name, BIDE_STATE_BURIED);
    purge(sim, name, BIDE_STATE_DELAYED);
    purge(sim, name, BIDE_STATE_READY);
}
