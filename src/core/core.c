/* SPDX-License-Identifier: MIT */
#include "core/core.h"

#include "core/state.h"
#include "core/wheel.h"
#include "util/text.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- life ---- */

static bool init_parts(struct core *core, const struct bi_core_options *options)
{
    bi_pool_init(&core->jobs, core->alloc, sizeof(struct job), 9);
    bi_pool_init(&core->mores, core->alloc, sizeof(struct more), 6);
    bi_pool_init(&core->topics, core->alloc, sizeof(struct topic), 5);
    bi_timers_init(&core->mono, core->alloc);
    bi_timers_init(&core->wall, core->alloc);
    bi_timers_init(&core->calls, core->alloc);
    bi_timers_init(&core->ages, core->alloc);
    bi_timers_init(&core->serving, core->alloc);
    if (!bi_table_init(&core->by_id, core->alloc) || !bi_table_init(&core->by_name, core->alloc) ||
        !bi_table_init(&core->by_key, core->alloc) || !bi_journal_init(core, options->journal))
        return false;
    return !options->wheel ||
           bi_timers_use_wheel(&core->mono, options->wheel_tick, options->wheel_slots, core->born);
}

static void init_secrets(struct core *core, const struct bi_core_options *options)
{
    enum { NAMES, IDS, CURSORS };
    core->name_secret = bi_secret_derive(&options->secret, NAMES);
    core->id_secret = bi_secret_derive(&options->secret, IDS);
    struct bi_secret cursors = bi_secret_derive(&options->secret, CURSORS);
    bi_permutation_init(&core->cursors, &cursors);
    bi_tokens_init(&core->tokens, &options->secret, options->token_from);
}

struct core *bi_core_new(const struct bi_core_options *options, struct bi_now now)
{
    struct core *core = bi_alloc_get(&options->alloc, sizeof(*core));
    if (core == NULL)
        return NULL;
    memset(core, 0, sizeof(*core));
    core->limits = options->limits;
    core->alloc = options->alloc;
    core->complete = options->complete;
    core->ctx = options->ctx;
    core->now = now;
    core->born = now.mono;
    core->recovering = options->recovering;
    core->next_id = options->next_id;
    core->next_token = options->next_token;
    core->next_order = options->next_token; /* above every order of an earlier life */
    core->first_order = core->next_order;
    core->lease_from = options->lease_from == 0 ? options->next_token : options->lease_from;
    core->keep_leases = options->keep_leases;
    core->next_call = 1;
    core->next_turn = 1;
    core->next_serial = 1;
    core->random.state = options->seed;
    init_secrets(core, options);
    if (!init_parts(core, options)) {
        bi_core_free(core);
        return NULL;
    }
    return core;
}

/* The texts and bodies; the jobs themselves go with their pool. */
static void free_chain(struct core *core, uint32_t ref)
{
    while (ref != 0) {
        const struct job *job = job_at(core, ref);
        const struct more *more = more_of(core, job);
        ref = job->link;
        bide_buf_unref(job->body);
        if (more != NULL)
            bi_more_drop_texts(more);
    }
}

static void free_jobs(struct core *core)
{
    uint64_t place = 0;
    bool end = core->by_id.buckets == 0;
    while (!end)
        free_chain(core, bi_table_walk(&core->by_id, &place, &end));
}

void bi_core_free(struct core *core)
{
    if (core == NULL)
        return;
    assert(core->waiters.count == 0);
    bi_journal_done(core);
    free_jobs(core);
    bi_feeds_free(core);
    bi_topics_free(core);
    bi_timers_done(&core->mono);
    bi_timers_done(&core->wall);
    bi_timers_done(&core->calls);
    bi_timers_done(&core->ages);
    bi_timers_done(&core->serving);
    bi_table_done(&core->by_id);
    bi_table_done(&core->by_name);
    bi_table_done(&core->by_key);
    bi_alloc_put(&core->alloc, core->slots);
    bi_cache_done(core);
    bi_pool_done(&core->jobs);
    bi_pool_done(&core->mores);
    bi_pool_done(&core->topics);
    struct bi_alloc alloc = core->alloc;
    bi_alloc_put(&alloc, core);
}

/* ---- answers ---- */

int bi_op_refuse(bide_op *op, int code, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    vsnprintf(op->error, sizeof(op->error), format, args);
    va_end(args);
    return code;
}

int bi_op_answer(bide_op *op, int code)
{
    if (code == BIDE_OK)
        return code;
    bi_text_copy(op->error, bide_code_text(code));
    return code;
}

int bi_op_limited(const struct core *core, bide_op *op, int code)
{
    if (code == BIDE_OK)
        return code;
    const char *name = bide_op_name(op->kind);
    switch (code) {
    case BIDE_TOO_MANY_TOPICS:
        return bi_op_refuse(op, code, "%s: there are %llu topics, max_topics is %u", name,
                            (unsigned long long)core->by_name.count, core->limits.max_topics);
    case BIDE_TOO_MANY_WAITERS:
        return bi_op_refuse(op, code, "%s: %llu calls wait, max_waiters is %u", name,
                            (unsigned long long)core->waiters.count, core->limits.max_waiters);
    case BIDE_EFULL:
        return bi_op_refuse(op, code,
                            "%s: the queue uses %llu bytes and keeps %llu for the jobs in it; "
                            "max_memory is %llu",
                            name, (unsigned long long)core->memory,
                            (unsigned long long)bi_core_promised(core),
                            (unsigned long long)core->limits.max_memory);
    default:
        return bi_op_answer(op, code);
    }
}

int bi_op_no_job(bide_op *op, uint64_t id)
{
    return bi_op_refuse(op, BIDE_NOT_FOUND, "%s: there is no job %llu", bide_op_name(op->kind),
                        (unsigned long long)id);
}

int bi_op_reserved(bide_op *op, const struct job *job)
{
    return bi_op_refuse(op, BIDE_RESERVED, "%s: job %llu is reserved; its holder's token is needed",
                        bide_op_name(op->kind), (unsigned long long)job->id);
}

int bi_op_wrong_state(bide_op *op, const struct job *job)
{
    return bi_op_refuse(op, BIDE_WRONG_STATE, "%s: job %llu is %s", bide_op_name(op->kind),
                        (unsigned long long)job->id, bide_state_name((bide_state)job->state));
}

/* ---- running ---- */

static const op_run runs[BIDE_OP_COUNT] = {
#define RUN(NAME, name, member) [BIDE_OP_##NAME] = bi_op_##name,
    BIDE_OPS(RUN)
#undef RUN
};

static void serve(struct core *core)
{
    if (core->serving.heap.count > 0)
        bi_waiters_serve(core);
    if (core->feeds.head != NULL)
        bi_feeds_serve(core);
}

int bi_core_run(struct core *core, bide_op *op, struct bi_now now)
{
    assert(op->kind > BIDE_OP_NONE && op->kind < BIDE_OP_COUNT);
    assert(!core->journal.rollback.running);
    core->now = now;
    /* A slice holds for what the slices before it did. */
    core->hold = (op->private_.flags & SLICING) != 0 ? op->private_.hold : 0;
    op->private_.waiter = NULL;
    op->private_.hold = 0;
    core->lacking = false;
    core->work += OP_WORK;
    int code = runs[op->kind](core, op);
    op->private_.hold = core->hold;
    if (core->lacking && code == BIDE_OK)
        op->private_.flags |= BI_LACKS_BODY;
    else if (code == BIDE_OK && core->journal.on)
        bi_core_begin_leases(core, op);
    serve(core);
    return code;
}

int bi_op_ping(struct core *core, bide_op *op)
{
    (void)core;
    (void)op;
    return BIDE_OK;
}

int bi_op_recovered(struct core *core, bide_op *op)
{
    if (!core->recovering)
        return BIDE_OK;
    if (op->recovered.timeout_ms == 0)
        return bi_op_answer(op, BIDE_TIMED_OUT);
    int code;
    bi_waiter_add(core, op, op->recovered.timeout_ms, NULL, 0, &code);
    return code;
}

void bi_core_recovered(struct core *core, struct bi_now now)
{
    core->now = now;
    core->hold = 0;
    core->recovering = false;
    struct waiter *waiter = core->waiters.head;
    while (waiter != NULL) {
        struct waiter *next = waiter->next;
        if (waiter->op->kind == BIDE_OP_RECOVERED)
            bi_waiter_end(core, waiter, BIDE_OK);
        waiter = next;
    }
    serve(core);
}

bool bi_core_retire(struct core *core, struct bi_now now, unsigned budget)
{
    assert(budget >= 2);
    core->now = now;
    core->hold = 0;
    core->ordered = true;
    core->unloaded = 0; /* rows that could not be loaded do not come any more */
    struct topic *topic = NULL;
    while (budget > 0 && (topic = bi_topic_from(core, core->retire_next)) != NULL) {
        uint64_t serial = topic->serial;
        budget--; /* a topic without results is work, too */
        budget -= bi_core_limit_done(core, topic, budget);
        if (budget > 0)
            core->retire_next = serial + 1;
    }
    serve(core);
    return topic != NULL;
}

int bi_op_backup(struct core *core, bide_op *op)
{
    (void)core;
    return bi_op_refuse(op, BIDE_ENOTSUP, "backup: this queue keeps nothing that could be copied");
}

const char bi_check_busy[] = "check: another check is under way; try again when it has ended";

/* Every check looks at every job: many at a time would take as much longer, and tell nothing more. */
int bi_op_check(struct core *core, bide_op *op)
{
    bide_check_report *report = op->check.report;
    uint64_t *place = &op->private_.bound[0];
    if ((op->private_.flags & SLICING_CHECK) == 0) {
        if (core->checking != NULL)
            return bi_op_refuse(op, BIDE_EBUSY, "%s", bi_check_busy);
        memset(report, 0, sizeof(*report));
        *place = 0;
    }
    bool end;
    const char *fault = bi_core_check_some(core, place, SLICE, &end);
    if (fault == NULL && !end) {
        op->private_.flags |= SLICING_CHECK;
        core->checking = op;
        return BI_AGAIN;
    }
    bi_core_abandon(core, op);
    if (fault != NULL)
        bi_text_copy(report->problem, fault);
    report->jobs = core->by_id.count;
    return BIDE_OK;
}

bool bi_core_is_checking(const struct core *core, const bide_op *op)
{
    return op != NULL && core->checking == op;
}

int bi_op_drain(struct core *core, bide_op *op)
{
    core->draining = op->drain.on;
    return BIDE_OK;
}

uint64_t bi_core_work(const struct core *core)
{
    return core->work;
}

/* ---- time ---- */

static void (*const fires[TIMER_KINDS])(struct core *, struct timer *) = {
    [TIMER_LEASE] = bi_fire_lease,       [TIMER_RETENTION] = bi_fire_retention,
    [TIMER_EXPIRY] = bi_fire_expiry,     [TIMER_DUE_MONO] = bi_fire_due_mono,
    [TIMER_DUE_WALL] = bi_fire_due_wall, [TIMER_PAUSE] = bi_fire_pause,
    [TIMER_WAITER] = bi_fire_waiter,
};

static bool is_due(const struct core *core)
{
    return core->unserved || bi_timers_next(&core->wall) <= core->now.wall ||
           bi_timers_next(&core->mono) <= core->now.mono ||
           bi_timers_next(&core->calls) <= core->now.mono;
}

/* Of equal deadlines, those of waiting calls come last. */
static struct timer *pop_mono(struct core *core)
{
    const struct timer *other = bi_timers_first(&core->mono, core->now.mono);
    const struct timer *call = bi_timers_first(&core->calls, core->now.mono);
    bool call_first = call != NULL && (other == NULL || call->due < other->due);
    return bi_timers_pop(call_first ? &core->calls : &core->mono, core->now.mono);
}

/* The clocks take turns: however much is due on one of them, the other's timers fire in time. */
static void fire_next(struct core *core)
{
    bool mono = core->mono_turn;
    struct timer *timer = mono ? pop_mono(core) : bi_timers_pop(&core->wall, core->now.wall);
    if (timer == NULL) {
        mono = !mono;
        timer = mono ? pop_mono(core) : bi_timers_pop(&core->wall, core->now.wall);
    }
    core->mono_turn = !mono;
    if (timer != NULL)
        fires[timer->kind](core, timer);
}

bool bi_core_tick(struct core *core, struct bi_now now, unsigned budget)
{
    assert(!core->journal.rollback.running);
    core->now = now;
    for (uint64_t work = core->work; is_due(core);) {
        if (budget-- == 0 || core->work - work >= STEP_WORK)
            return true;
        core->hold = 0;
        if (!core->unserved)
            fire_next(core);
        serve(core);
        if (core->unserved) /* as many were served as may be at a time */
            return true;
    }
    core->mono_turn = false;
    return false;
}

void bi_core_serve(struct core *core, struct bi_now now)
{
    assert(!core->journal.rollback.running);
    core->now = now;
    core->hold = 0;
    serve(core);
}

bool bi_core_unserved(const struct core *core)
{
    return core->unserved;
}

/* Long enough that the wake-up does not matter. */
#define FAR_AHEAD INT64_C(31557600000000)

struct bi_now bi_core_next(const struct core *core)
{
    struct bi_now next = {bi_timers_next(&core->mono), bi_timers_next(&core->wall)};
    if (core->mono.wheel == NULL || next.wall == BI_NEVER)
        return next;
    /* The ring wakes for the wall clock, too; if that is set, the alarm must still tell. */
    int64_t tick = bi_wheel_tick(core->mono.wheel, mono_of(core, next.wall));
    return (struct bi_now){tick < next.mono ? tick : next.mono, core->now.wall + FAR_AHEAD};
}

int64_t bi_core_next_call(const struct core *core)
{
    return bi_timers_next(&core->calls);
}
