/* SPDX-License-Identifier: MIT */
/* model_finish_and_put.c - one job ends and others are put, or nothing changes. */
#include "model.h"

/* What the step will do, worked out before anything is done. */
struct plan {
    struct mjob *job;
    bool removes; /* the job does not count in its topic any more, */
    bool frees;   /* nor hold its key */
    int64_t retain_ms;
    struct {
        bool skipped;
        int name, key;
        uint64_t id;
        struct mjob *holder; /* to be replaced */
    } puts[SIM_ITEMS];
    size_t count;
    uint64_t changes, bytes;
};

static const bide_put_options defaults = BIDE_PUT_OPTIONS_INIT;

static const bide_put_options *options_of(const bide_put_item *item)
{
    return item->options != NULL ? item->options : &defaults;
}

static size_t size_of(const bide_put_item *item)
{
    return item->buf != NULL ? bide_buf_size(item->buf) : item->body.size;
}

static int plan_ending(struct model *m, const bide_finish_and_put_args *args, struct plan *plan)
{
    bool finish = args->ending == BIDE_ENDING_FINISH;
    int who = args->ending == BIDE_ENDING_RELEASE ? MODEL_HOLDER : MODEL_ANYBODY;
    int code = model_lease(m, args->finish.id, args->finish.token, who, &plan->job);
    if (code != BIDE_OK)
        return code;

    const struct mjob *job = plan->job;
    bool done = job->state == BIDE_STATE_DONE;
    if (!finish && (done || job->state == BIDE_STATE_BURIED))
        return BIDE_WRONG_STATE;
    if (finish && args->finish.keep && done)
        return BIDE_WRONG_STATE;
    if (finish && args->finish.keep &&
        model_result_of(&args->finish).size > m->sim->options.limits.max_result_size)
        return BIDE_TOO_BIG;

    plan->retain_ms = 0;
    if (finish && args->finish.keep)
        plan->retain_ms =
            args->finish.retain_ms == BIDE_KEEP ? job->retain_ms : args->finish.retain_ms;
    plan->removes = finish || job->cancel_wanted;
    plan->frees = plan->removes && (plan->retain_ms == 0 || !job->key_hold_retained);
    return BIDE_OK;
}

/* The job that holds the key when it is the turn of this put: *id is its id. */
static struct mjob *key_holder(struct model *m, const struct plan *plan, int name, int key,
                               uint64_t *id)
{
    for (size_t i = 0; i < plan->count && key >= 0; i++)
        if (!plan->puts[i].skipped && plan->puts[i].name == name && plan->puts[i].key == key) {
            *id = plan->puts[i].id;
            return NULL;
        }
    struct mjob *holder = model_key_holder(m, name, key);
    if (holder == NULL || (holder == plan->job && plan->frees))
        return NULL;
    *id = holder->id;
    return holder;
}

/* Whether the replaced job still counts in its topic when it is the turn of its put. */
static bool counts(const struct plan *plan, const struct mjob *holder)
{
    return holder != NULL && holder->state != BIDE_STATE_DONE &&
           !(plan->removes && holder == plan->job);
}

/* Jobs that count in the topic after the puts so far. */
static uint64_t live_after(const struct model *m, const struct plan *plan, int name)
{
    uint64_t live = model_live(m, name);
    if (plan->removes && plan->job->name == name && plan->job->state != BIDE_STATE_DONE)
        live--;
    for (size_t i = 0; i < plan->count; i++) {
        bool replaces = counts(plan, plan->puts[i].holder);
        live += !plan->puts[i].skipped && plan->puts[i].name == name && !replaces;
    }
    return live;
}

static size_t topics_after(const struct model *m, const struct plan *plan)
{
    size_t count = model_topic_count(m);
    for (size_t i = 0; i < plan->count; i++) {
        bool first = !plan->puts[i].skipped && !m->topics[plan->puts[i].name].exists;
        for (size_t j = 0; j < i; j++)
            first &= plan->puts[j].skipped || plan->puts[j].name != plan->puts[i].name;
        count += first;
    }
    return count;
}

static bool is_new_topic(const struct model *m, const struct plan *plan, int name)
{
    for (size_t i = 0; i < plan->count; i++)
        if (!plan->puts[i].skipped && plan->puts[i].name == name)
            return false;
    return !m->topics[name].exists;
}

/* The refusals of a put, in the order in which they are looked for. */
static int plan_put(struct model *m, const bide_put_item *item, struct plan *plan)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    const bide_put_options *options = options_of(item);
    int name = sim_name_of(item->topic);
    int key = sim_key_of(options->key);
    uint64_t id = 0;

    if (size_of(item) > limits->max_job_size)
        return BIDE_TOO_BIG;
    if (m->draining)
        return BIDE_DRAINING;

    struct mjob *holder = key_holder(m, plan, name, key, &id);
    if (holder != NULL)
        model_depend_on(m, holder);
    if (id != 0 && (holder == NULL || options->conflict != BIDE_REPLACE ||
                    holder->state == BIDE_STATE_RESERVED)) {
        plan->puts[plan->count].id = id;
        return BIDE_EXISTS;
    }

    bool replaces = counts(plan, holder);
    uint64_t live = live_after(m, plan, name);
    if (model_max_jobs(m, name) != 0 && !replaces && live >= model_max_jobs(m, name) &&
        live >= model_live(m, name))
        return BIDE_TOPIC_FULL;
    if (is_new_topic(m, plan, name) && topics_after(m, plan) >= limits->max_topics)
        return BIDE_TOO_MANY_TOPICS;

    plan->puts[plan->count].holder = holder;
    plan->puts[plan->count].name = name;
    plan->puts[plan->count].key = key;
    return BIDE_OK;
}

static int plan_puts(struct model *m, struct sim_op *sop, struct plan *plan)
{
    const bide_finish_and_put_args *args = &sop->op.finish_and_put;
    uint64_t id = m->next_id;

    for (size_t i = 0; i < args->count; i++) {
        int code = plan_put(m, &args->items[i], plan);
        bool skipped = code == BIDE_EXISTS && options_of(&args->items[i])->conflict == BIDE_SKIP;
        if (code != BIDE_OK && !skipped) {
            expect(m->sim, "the item that failed", (int64_t)i + 1, sop->op.error_item);
            return code;
        }
        plan->puts[i].skipped = skipped;
        if (!skipped) {
            plan->puts[i].id = id++;
            plan->changes += plan->puts[i].holder != NULL ? 2 : 1;
            plan->bytes += size_of(&args->items[i]);
        }
        plan->count++;
    }
    return BIDE_OK;
}

/* The ids of the holders, apart from a put of a step that has failed: it never existed. */
static void expect_holders(const struct model *m, const bide_finish_and_put_args *args,
                           const struct plan *plan, int code)
{
    for (size_t i = 0; i <= plan->count && i < args->count; i++) {
        bool failed = i == plan->count;
        uint64_t id = plan->puts[i].id;
        if (code != BIDE_OK && id >= m->next_id)
            id = 0;
        if (failed ? code == BIDE_EXISTS : plan->puts[i].skipped)
            expect(m->sim, "id of the holder", (int64_t)id, (int64_t)args->items[i].id);
    }
}

static void end_job(struct model *m, const bide_finish_and_put_args *args, const struct plan *plan)
{
    struct mjob *job = plan->job;
    if (args->ending != BIDE_ENDING_FINISH && job->cancel_wanted)
        model_drop(m, job, false);
    else if (args->ending == BIDE_ENDING_RELEASE)
        model_release_job(m, job, args->priority, args->delay_ms, args->run_at_ms);
    else if (args->ending == BIDE_ENDING_BURY)
        model_bury_job(m, job, args->priority, args->reason);
    else if (!args->finish.keep)
        model_drop(m, job, args->finish.token != 0);
    else if (plan->retain_ms == 0)
        model_forget(m, job);
    else
        model_keep(m, job, model_result_of(&args->finish), plan->retain_ms);
}

static void execute(struct model *m, const bide_finish_and_put_args *args, const struct plan *plan)
{
    size_t accepted = 0;
    int name = plan->job->name;

    model_begin_group(m, 1 + plan->changes, plan->bytes);
    for (size_t i = 0; i < plan->count; i++)
        if (!plan->puts[i].skipped)
            model_need_topic(m, plan->puts[i].name);
    end_job(m, args, plan);

    for (size_t i = 0; i < plan->count; i++) {
        expect_code(m->sim, "status of the item", plan->puts[i].skipped ? BIDE_EXISTS : BIDE_OK,
                    args->items[i].status);
        if (plan->puts[i].skipped)
            continue;
        if (plan->puts[i].holder != NULL)
            model_delete_job(m, plan->puts[i].holder);
        model_put_new(m, &args->items[i]);
        accepted++;
    }
    expect(m->sim, "accepted", (int64_t)accepted, (int64_t)args->accepted);

    if (plan->retain_ms > 0)
        model_limit_done(m, name, MODEL_DONE_STEP);
    model_end_group(m);
}

void model_finish_and_put(struct model *m, struct sim_op *sop)
{
    const bide_finish_and_put_args *args = &sop->op.finish_and_put;
    struct plan plan = {.job = NULL};
    int code = plan_ending(m, args, &plan);
    if (code == BIDE_OK)
        code = plan_puts(m, sop, &plan);
    expect_holders(m, args, &plan, code);
    model_answer(m, code);
    if (code == BIDE_OK)
        execute(m, args, &plan);
}
