/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <stdlib.h>

static bool is_open(const struct model *m, int name)
{
    const struct mtopic *topic = &m->topics[name];
    return topic->exists && !topic->paused && topic->count[BIDE_STATE_READY] > 0 &&
           model_limit(m, name) == BIDE_LIMIT_NONE;
}

static bool is_before(const struct mjob *a, const struct mjob *b)
{
    return a->priority < b->priority || (a->priority == b->priority && a->id < b->id);
}

static struct mjob *best_ready(struct model *m, int name)
{
    struct mjob *best = NULL;
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        if (job->name == name && job->state == BIDE_STATE_READY &&
            (best == NULL || is_before(job, best)))
            best = job;
    }
    return best;
}

/* ---- the strategies: which of the names, -1 for none ---- */

static int by_priority(struct model *m, const struct mwaiter *waiter)
{
    int chosen = -1;
    for (size_t i = 0; i < waiter->name_count; i++) {
        int name = waiter->names[i];
        if (is_open(m, name) &&
            (chosen < 0 || is_before(best_ready(m, name), best_ready(m, chosen))))
            chosen = name;
    }
    return chosen;
}

static int by_order(struct model *m, const struct mwaiter *waiter)
{
    for (size_t i = 0; i < waiter->name_count; i++)
        if (is_open(m, waiter->names[i]))
            return waiter->names[i];
    return -1;
}

static int by_turn(struct model *m, const struct mwaiter *waiter)
{
    int chosen = -1;
    for (size_t i = 0; i < waiter->name_count; i++) {
        int name = waiter->names[i];
        if (is_open(m, name) && (chosen < 0 || m->topics[name].fair < m->topics[chosen].fair))
            chosen = name;
    }
    return chosen;
}

static bool has_name(const struct mwaiter *waiter, int name)
{
    for (size_t i = 0; i < waiter->name_count; i++)
        if (waiter->names[i] == name)
            return true;
    return false;
}

/* Whatever the core took, if it was allowed to. */
static int by_weight(struct model *m, const struct mwaiter *waiter, const bide_job *got)
{
    if (by_order(m, waiter) < 0)
        return -1;
    int name = sim_name_of(sim_slice(got->topic));
    if (has_name(waiter, name) && is_open(m, name))
        return name;
    sim_fail(m->sim, "weighted reserve took from topic \"%s\", which it may not", got->topic);
}

static int choose(struct model *m, const struct mwaiter *waiter, const bide_job *got)
{
    switch (waiter->strategy) {
    case BIDE_STRICT:
        return by_order(m, waiter);
    case BIDE_WEIGHTED:
        return by_weight(m, waiter, got);
    case BIDE_FAIR:
        return by_turn(m, waiter);
    default:
        return by_priority(m, waiter);
    }
}

/* ---- taking ---- */

/* Answers the number of the token. */
static uint64_t check_token(struct model *m, uint64_t token)
{
    if (token == 0 || token > BIDE_ID_MAX)
        sim_fail(m->sim, "token %llu is out of bounds", (unsigned long long)token);
    uint64_t number = bi_token_number(&m->sim->tokens, token);
    if (number <= m->last_token || number <= m->replied_token)
        sim_fail(m->sim, "token %llu was given before", (unsigned long long)token);
    m->last_token = number;
    return number;
}

/* The job is reserved, as the snapshot says. */
static void take(struct model *m, struct mjob *job, bide_slice holder, const bide_job *got)
{
    bool first = job->expires_at != 0 && job->reserves == 0; /* it does not expire any more */
    if (job->max_retries >= 0 || first || job->state != BIDE_STATE_READY)
        model_change(m, job);
    model_depend_on(m, job);
    model_depend_on_limits(m, job->name);
    job->prev.state = job->state;
    job->prev.due = job->due;
    job->prev.due_wall = job->due_wall;
    job->prev.since = job->since;
    job->prev.entered = job->entered;
    job->prev.ready_before = job->ready_before;
    if (job->state == BIDE_STATE_READY && !job->ready_before)
        job->ready = job->since;
    job->ready_before = false;
    model_set_state(m, job, BIDE_STATE_RESERVED);
    job->number = check_token(m, got->token);
    model_depend_on_token(m);
    job->token = got->token;
    job->reply_pending = m->journal;
    job->leased = m->now.mono;
    job->last_touch = m->now.mono;
    job->lease_touches = 0;
    if (!job->reply_pending) { /* else these moments are of the last lease until this one begins */
        job->touched = BI_NEVER;
        job->reserved = m->now.mono;
    }
    job->due = m->now.mono + job->ttr_ms * US_PER_MS;
    job->due_wall = false;
    job->cancel_wanted = false;
    job->reserves++;
    job->expiry_over = true;
    job->has_progress = false;
    model_set_text(&job->holder, holder.data, holder.size);
    model_take_token(m, job->name);
    MODEL_COUNT(m, job->name, reserves);
    model_event(m, job, BIDE_EVENT_RESERVED, BIDE_STATE_RESERVED);
    model_compare_job(m, job, got, job->token, true);
}

bool model_could_take(struct model *m, const struct mwaiter *waiter)
{
    return by_order(m, waiter) >= 0;
}

/* Has a page with these bytes no room for the next job of the topic? */
static bool is_too_large(struct model *m, int name, size_t count, uint64_t bytes)
{
    uint64_t most = m->sim->options.limits.page_bytes;
    const struct mjob *job = best_ready(m, name);
    return count > 0 && most != 0 && bytes + model_shown_size(job, true) > most;
}

/* The draw of a weighted reserve is not known: it may have ended with any job that does not fit. */
static bool drew_too_large(struct model *m, const struct mwaiter *waiter, size_t count,
                           uint64_t bytes)
{
    for (size_t i = 0; i < waiter->name_count; i++)
        if (is_open(m, waiter->names[i]) && is_too_large(m, waiter->names[i], count, bytes))
            return true;
    return false;
}

size_t model_take_ready(struct model *m, const struct mwaiter *waiter,
                        const bide_reserve_args *args)
{
    size_t count = 0;
    uint64_t bytes = 0;
    /* Without memory a reserve may end with fewer than there are. */
    size_t most = m->sim->allowed_enomem ? args->count : waiter->job_max;
    while (count < most) {
        if (waiter->strategy == BIDE_WEIGHTED && count == args->count &&
            drew_too_large(m, waiter, count, bytes))
            break;
        int name = choose(m, waiter, &args->jobs[count]);
        if (name < 0 || is_too_large(m, name, count, bytes))
            break;
        bytes += model_shown_size(best_ready(m, name), true);
        if (waiter->strategy == BIDE_FAIR)
            m->topics[name].fair = ++m->fair;
        bide_slice holder = {waiter->holder.bytes, waiter->holder.size};
        take(m, best_ready(m, name), holder, &args->jobs[count]);
        count++;
    }
    expect(m->sim, "count of jobs", (int64_t)count, (int64_t)args->count);
    return count;
}

/* A topic may be named twice: its weight counts twice then, and so does the waiting. */
static void fill(struct mwaiter *waiter, const bide_reserve_args *args)
{
    waiter->strategy = args->strategy;
    waiter->job_max = args->job_max;
    model_set_text(&waiter->holder, args->holder.data, args->holder.size);
    for (size_t i = 0; i < args->topic_count; i++)
        waiter->names[waiter->name_count++] = sim_name_of(args->topics[i]);
}

/* Why the call may not wait; 0 if it may. */
static int wait_refusal(struct model *m, const struct mwaiter *waiter)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    size_t topics = model_topic_count(m);
    if (m->waiter_count >= limits->max_waiters)
        return BIDE_TOO_MANY_WAITERS;
    size_t missing = 0;
    for (int name = 0; name < SIM_NAMES; name++)
        missing += has_name(waiter, name) && !m->topics[name].exists;
    if (missing != 0 && topics + missing > limits->max_topics)
        return BIDE_TOO_MANY_TOPICS;
    return BIDE_OK;
}

static void begin_waiting(struct model *m, struct mwaiter *waiter)
{
    for (size_t i = 0; i < waiter->name_count; i++) {
        struct mtopic *topic = model_need_topic(m, waiter->names[i]);
        if (topic->waiting++ == 0)
            topic->waited_since = ++m->sequence;
    }
}

/* Whatever was taken lacks bodies: if one cannot be read, the call goes on as one that waits. If
 * there is no room for one more, it will have to do with what it has. */
static void park_new(struct model *m, struct sim_op *sop, const bide_reserve_args *args,
                     const struct mwaiter *wanted)
{
    bool parked = sop->op.private_.waiter != NULL;
    bool may_not = m->waiter_count >= m->sim->options.limits.max_waiters ||
                   (args->timeout_ms != 0 && wait_refusal(m, wanted) != BIDE_OK);
    bool may_lack = m->sim->allowed_enomem || m->sim->options.limits.max_memory != 0;
    expect_true(m->sim, !parked || !may_not, "a call is kept that may not wait");
    expect_true(m->sim, parked || may_not || may_lack, "a call is not kept that may wait");
    if (!parked)
        return;
    struct mwaiter *waiter = model_add_waiter(m, sop, args->timeout_ms);
    waiter->strategy = wanted->strategy;
    waiter->job_max = wanted->job_max;
    waiter->holder = wanted->holder;
    for (size_t i = 0; i < wanted->name_count; i++)
        if (args->timeout_ms != 0 || m->topics[wanted->names[i]].exists)
            waiter->names[waiter->name_count++] = wanted->names[i];
    begin_waiting(m, waiter);
    model_park(m, waiter);
}

void model_reserve_args(struct model *m, struct sim_op *sop, bide_reserve_args *args)
{
    struct mwaiter wanted = {0};
    fill(&wanted, args);
    if ((m->got == BIDE_ENOMEM && m->sim->allowed_enomem) ||
        (m->got == BIDE_EFULL && m->sim->options.limits.max_memory != 0))
        return;
    if (model_could_take(m, &wanted)) {
        model_answer(m, BIDE_OK);
        model_take_ready(m, &wanted, args);
        if (m->lacking)
            park_new(m, sop, args, &wanted);
        return;
    }
    if (args->timeout_ms == 0) {
        model_answer(m, BIDE_TIMED_OUT);
        return;
    }
    int refused = wait_refusal(m, &wanted);
    if (refused != BIDE_OK) {
        model_answer(m, refused);
        return;
    }
    model_answer(m, BIDE_PENDING);
    struct mwaiter *waiter = model_add_waiter(m, sop, args->timeout_ms);
    fill(waiter, args);
    begin_waiting(m, waiter);
}

void model_reserve(struct model *m, struct sim_op *sop)
{
    model_reserve_args(m, sop, &sop->op.reserve);
}

void model_reserve_job(struct model *m, struct sim_op *sop)
{
    struct mjob *job = model_find(m, sop->op.reserve_job.id);
    if (job == NULL) {
        model_depend_on_absent(m, sop->op.reserve_job.id);
        model_answer(m, BIDE_NOT_FOUND);
        return;
    }
    model_depend_on(m, job);
    if (job->state == BIDE_STATE_RESERVED) {
        model_answer(m, BIDE_RESERVED);
    } else if (job->state == BIDE_STATE_DONE) {
        model_answer(m, BIDE_WRONG_STATE);
    } else if (model_limit(m, job->name) != BIDE_LIMIT_NONE) {
        model_answer(m, BIDE_LIMITED);
    } else if (job->cancel_wanted) {
        model_answer(m, BIDE_NOT_FOUND);
        model_delete_job(m, job);
    } else {
        model_answer(m, BIDE_OK);
        take(m, job, sop->op.reserve_job.holder, sop->op.reserve_job.job);
    }
}

/* ---- serving waiting calls ---- */

static bide_reserve_args *args_of(struct sim_op *sop)
{
    return sop->op.kind == BIDE_OP_RESERVE ? &sop->op.reserve : &sop->op.finish_and_reserve.reserve;
}

static bool is_reserve(const struct mwaiter *waiter)
{
    return waiter->sop->op.kind == BIDE_OP_RESERVE ||
           waiter->sop->op.kind == BIDE_OP_FINISH_AND_RESERVE;
}

/* False if there was no memory to do it. */
static bool serve_one(struct model *m, struct mwaiter *waiter)
{
    if (!waiter->sop->completed && m->sim->allowed_enomem)
        return false;
    if (!waiter->sop->completed)
        sim_fail(m->sim, "a waiting reserve was not served though a job is ready");
    m->lacking = false;
    model_take_ready(m, waiter, args_of(waiter->sop));
    expect(m->sim, "lacks bodies", m->lacking, waiter->sop->op.private_.flags & BI_BODY_MISSING);
    if (m->lacking) {
        model_complete_lacking(m, waiter, m->hold);
    } else {
        model_start_leases_if_committed(m, waiter->sop);
        model_complete(m, waiter, BIDE_OK, m->hold);
    }
    return true;
}

static bool could_serve(struct model *m, const struct mwaiter *waiter)
{
    if (!is_reserve(waiter) || waiter->parked)
        return false;
    m->hold = waiter->hold;
    return model_could_take(m, waiter);
}

void model_serve(struct model *m)
{
    uint64_t hold = m->hold;
    for (struct mwaiter *w = m->waiters; w != NULL;) {
        if (!could_serve(m, w))
            w = w->next;
        else if (serve_one(m, w))
            w = m->waiters;
        else
            break;
    }
    m->hold = hold;
}
