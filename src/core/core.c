/* SPDX-License-Identifier: MIT */
#include "core/core.h"

#include "core/core_internal.h"
#include "util/message.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

/* ---- creating and freeing ---- */

static bool init_parts(struct core *core, const struct bi_core_options *options)
{
    bi_pool_init(&core->jobs, core->alloc, sizeof(struct job), JOB_SHIFT);
    bi_pool_init(&core->exts, core->alloc, sizeof(struct job_ext), EXT_SHIFT);
    bi_pool_init(&core->topics, core->alloc, sizeof(struct topic), TOPIC_SHIFT);

    bi_timers_init(&core->mono, core->alloc);
    bi_timers_init(&core->wall, core->alloc);
    bi_timers_init(&core->wait_timers, core->alloc);
    bi_timers_init(&core->ages, core->alloc);
    bi_timers_init(&core->serving, core->alloc);

    if (!bi_hash_table_init(&core->by_id, core->alloc) ||
        !bi_hash_table_init(&core->by_name, core->alloc) ||
        !bi_hash_table_init(&core->by_key, core->alloc) || !bi_workers_init(core) ||
        !bi_journal_init(core, options->journal))
        return false;

    return !options->wheel || bi_timers_use_wheel(&core->mono, options->wheel_tick,
                                                  options->wheel_slots, core->start_time);
}

static void init_secrets(struct core *core, const struct bi_core_options *options)
{
    enum { NAMES, IDS, CURSORS };
    /* One secret per use: an observer of one table, or of cursors, learns nothing about another. */
    core->name_secret = bi_keyed_hash_derive_secret(&options->secret, NAMES);
    core->id_secret = bi_keyed_hash_derive_secret(&options->secret, IDS);
    struct bi_hash_secret cursors = bi_keyed_hash_derive_secret(&options->secret, CURSORS);
    bi_permutation_init(&core->cursors, &cursors);
    bi_tokens_init(&core->tokens, &options->secret, options->token_from);
}

struct core *bi_core_new(const struct bi_core_options *options, struct bi_now now)
{
    assert(options->next_id > 0 && options->next_token > 0);
    struct core *core = bi_alloc_malloc(&options->alloc, sizeof(*core));
    if (core == NULL)
        return NULL;

    memset(core, 0, sizeof(*core));
    core->limits = options->limits;
    core->alloc = options->alloc;
    core->complete = options->complete;
    core->ctx = options->ctx;

    core->now = now;
    core->start_time = now.mono;
    core->recovering = options->recovering;

    core->next_id = options->next_id;
    core->next_token = options->next_token;
    core->next_order = options->next_token; /* above all orders of earlier runs */
    core->first_order = core->next_order;
    /* Without stored leases no loaded token is valid: all are below next_token. */
    core->lease_from = options->lease_from == 0 ? options->next_token : options->lease_from;
    core->leases_unloaded = options->recovering && options->lease_from != 0;
    core->keep_leases = options->keep_leases;

    core->serve_retry_at = BI_NEVER;
    core->next_waiter = 1;
    core->next_turn = 1;
    bi_serial_list_init(&core->topic_list, core->alloc);
    TAILQ_INIT(&core->waiters.all);
    TAILQ_INIT(&core->waiters.ended);
    core->random.state = options->seed;

    init_secrets(core, options);
    if (!init_parts(core, options)) {
        bi_core_free(core);
        return NULL;
    }
    return core;
}

/* Releases the bodies and texts of all jobs; the pool frees the jobs. */
static void free_jobs(struct core *core)
{
    uint64_t position = 0;
    bool end = core->by_id.buckets == 0;
    while (!end) {
        uint32_t ref = bi_hash_table_walk(&core->by_id, &position, &end);
        for (; ref != 0; ref = job_at(core, ref)->link)
            bi_job_unref_bufs(core, job_at(core, ref));
    }
}

void bi_core_free(struct core *core)
{
    if (core == NULL)
        return;

    assert(core->waiters.count == 0);
    assert(core->waiters.parked == 0 && core->checking == NULL);

    /* The journal first: its entries refer to jobs, exts and topics. */
    bi_journal_done(core);
    free_jobs(core);

    bi_event_free_subscriptions(core);
    /* Topics clear timers, which moves those of workers in the heap. */
    bi_topics_free(core);
    bi_workers_done(core);

    bi_timers_done(&core->mono);
    bi_timers_done(&core->wall);
    bi_timers_done(&core->wait_timers);
    bi_timers_done(&core->ages);
    bi_timers_done(&core->serving);

    bi_hash_table_done(&core->by_id);
    bi_hash_table_done(&core->by_name);
    bi_hash_table_done(&core->by_key);

    bide_buf_unref(core->recent_holder);
    bi_alloc_free(&core->alloc, core->slots);
    bi_body_cache_done(core);
    bi_pool_done(&core->jobs);
    bi_pool_done(&core->exts);
    bi_pool_done(&core->topics);

    /* A copy: the allocator is a member of what is freed. */
    struct bi_alloc alloc = core->alloc;
    bi_alloc_free(&alloc, core);
}

/* ---- errors ---- */

int bi_core_error(bide_op *op, int code, const char *format, ...)
{
    assert(code != BIDE_OK);
    va_list args;
    va_start(args, format);
    vsnprintf(op->error, sizeof(op->error), format, args);
    va_end(args);
    return code;
}

int bi_core_error_code(bide_op *op, int code)
{
    if (code == BIDE_OK)
        return code;
    return bi_error_set_code(op->error, code);
}

int bi_core_error_limit(const struct core *core, bide_op *op, int code)
{
    if (code == BIDE_OK)
        return code;
    const char *name = bide_op_name(op->kind);

    switch (code) {
    case BIDE_TOO_MANY_TOPICS:
        return bi_core_error(op, code, "%s: there are %llu topics, max_topics is %u", name,
                             (unsigned long long)core->by_name.count, core->limits.max_topics);
    case BIDE_TOO_MANY_WAITERS:
        return bi_core_error(op, code, "%s: %llu calls wait, max_waiters is %u", name,
                             (unsigned long long)core->waiters.count, core->limits.max_waiters);
    case BIDE_EFULL:
        return bi_core_error(op, code,
                             "%s: the queue uses %llu bytes and keeps %llu for the jobs in it; "
                             "max_memory is %llu",
                             name, (unsigned long long)core->memory,
                             (unsigned long long)bi_core_headroom(core),
                             (unsigned long long)core->limits.max_memory);
    default:
        return bi_core_error_code(op, code);
    }
}

int bi_core_error_no_job(bide_op *op, uint64_t id)
{
    return bi_core_error(op, BIDE_NOT_FOUND, "%s: there is no job %llu", bide_op_name(op->kind),
                         (unsigned long long)id);
}

int bi_core_error_no_topic(bide_op *op, bide_slice topic)
{
    return bi_core_error(op, BIDE_NOT_FOUND, "%s: there is no topic %.*s", bide_op_name(op->kind),
                         (int)topic.size, (const char *)topic.data);
}

int bi_core_error_reserved(bide_op *op, const struct job *job)
{
    return bi_core_error(op, BIDE_RESERVED,
                         "%s: job %llu is reserved; its holder's token is needed",
                         bide_op_name(op->kind), (unsigned long long)job->id);
}

int bi_core_error_wrong_state(bide_op *op, const struct job *job)
{
    return bi_core_error(op, BIDE_WRONG_STATE, "%s: job %llu is %s", bide_op_name(op->kind),
                         (unsigned long long)job->id, bide_state_name((bide_state)job->state));
}

int bi_core_error_topic_full(const struct core *core, bide_op *op, const struct topic *topic,
                             uint64_t live)
{
    const bide_topic_policy *settings = bi_policy_settings(topic->policy);
    bool own = settings != NULL && settings->max_jobs != 0;
    return bi_core_error(op, BIDE_TOPIC_FULL, "%s: topic %s holds %llu jobs, %s is %llu",
                         bide_op_name(op->kind), topic->name, (unsigned long long)live,
                         own ? "max_jobs of its policy" : "max_jobs_per_topic",
                         (unsigned long long)bi_topic_max_jobs(core, topic));
}

/* ---- running ops ---- */

static const op_exec handlers[BIDE_OP_COUNT] = {
#define HANDLER(NAME, number, name, member) [BIDE_OP_##NAME] = bi_exec_##name,
    BIDE_OPS(HANDLER)
#undef HANDLER
};

int bi_core_exec(struct core *core, bide_op *op)
{
    return handlers[op->kind](core, op);
}

/* Begins a step that is not part of an op. */
static void begin_step(struct core *core, struct bi_now now)
{
    assert(!core->journal.rollback.running);
    core->now = now;
    core->hold = 0;
    core->waiters.notified = 0;
}

static void serve(struct core *core)
{
    if (core->serving.heap.count > 0 || core->unserved || core->serve_retry_at <= core->now.mono)
        bi_waiters_serve(core);
    if (!LIST_EMPTY(&core->subscriptions.all))
        bi_event_deliver(core);
}

int bi_core_run(struct core *core, bide_op *op, struct bi_now now)
{
    assert(op->kind > BIDE_OP_NONE && op->kind < BIDE_OP_COUNT);
    assert(!core->journal.rollback.running);

    core->now = now;
    /* A slice also depends on the changes of the slices before it. */
    core->hold = (op->private_.flags & BI_SLICING) != 0 ? op->private_.hold : 0;

    op->private_.waiter = NULL;
    op->private_.hold = 0;
    core->body_missing = false;
    core->waiters.notified = 0;
    core->work += OP_WORK;

    int code = handlers[op->kind](core, op);
    op->private_.hold = core->hold;

    /* The leases of a reserve without all bodies start after they have been supplied. */
    if (core->body_missing && code == BIDE_OK)
        op->private_.flags |= BI_BODY_MISSING;
    else if (code == BIDE_OK && core->journal.on)
        bi_lease_start_if_committed(core, op);

    /* Last: other ops complete with their own holds, and ours is already saved in op. */
    serve(core);
    return code;
}

int bi_exec_ping(struct core *core, bide_op *op)
{
    (void)core;
    (void)op;
    return BIDE_OK;
}

int bi_exec_recovered(struct core *core, bide_op *op)
{
    if (!core->recovering)
        return BIDE_OK;
    if (op->recovered.timeout_ms == 0)
        return bi_core_error_code(op, BIDE_TIMED_OUT);
    return bi_waiter_add(core, op, op->recovered.timeout_ms, NULL, 0);
}

void bi_core_end_recovery(struct core *core, struct bi_now now)
{
    begin_step(core, now);
    core->recovering = false;
    assert(core->unloaded == 0 && !core->leases_unloaded); /* by bi_core_retire_excess() */
    bi_waiters_notify_recovered(core);
    serve(core);
}

bool bi_core_retire_excess(struct core *core, struct bi_now now, unsigned budget)
{
    assert(budget >= 2);

    begin_step(core, now);
    core->lists_sorted = true;
    core->unloaded = 0; /* rows that could not be loaded never come */
    core->leases_unloaded = false;

    struct topic *topic = NULL;
    while (budget > 0 && (topic = bi_topic_at_or_after(core, core->retire_next)) != NULL) {
        bi_policy_update(core, topic);

        /* Removing its last result may destroy the topic. */
        uint64_t serial = topic->serial;
        budget--; /* a topic without results is work, too */
        budget -= bi_op_finish_retire_excess(core, topic, budget);
        /* With the budget used up the topic may have more: the next call visits it again. */
        if (budget > 0)
            core->retire_next = serial + 1;
    }

    serve(core);
    return topic != NULL;
}

int bi_exec_backup(struct core *core, bide_op *op)
{
    (void)core;
    return bi_core_error(op, BIDE_ENOTSUP, "backup: this queue keeps nothing that could be copied");
}

const char bi_core_check_busy[] = "check: another check is under way; try again when it has ended";

/* Only one check runs at a time: each visits every job, so several would only slow each other
 * down. */
int bi_exec_check(struct core *core, bide_op *op)
{
    bide_check_report *report = op->check.report;
    uint64_t *position = &op->private_.step.fetch.part.position;

    if ((op->private_.flags & BI_SLICING_CHECK) == 0) {
        if (core->checking != NULL)
            return bi_core_error(op, BIDE_EBUSY, "%s", bi_core_check_busy);
        memset(report, 0, sizeof(*report));
        *position = 0;
    }

    bool end;
    const char *fault = bi_core_check_slice(core, position, SLICE, &end);
    if (fault == NULL && !end) {
        op->private_.flags |= BI_SLICING_CHECK;
        core->checking = op;
        return BI_AGAIN;
    }

    bi_slice_abandon(core, op);
    if (fault != NULL)
        bi_text_copy(report->problem, fault);
    report->jobs = core->by_id.count;
    return BIDE_OK;
}

bool bi_core_is_checking(const struct core *core, const bide_op *op)
{
    return op != NULL && core->checking == op;
}

int bi_exec_drain(struct core *core, bide_op *op)
{
    core->draining = op->drain.on;
    return BIDE_OK;
}

uint64_t bi_core_work(const struct core *core)
{
    return core->work;
}

/* ---- timers ---- */

static void (*const timer_handlers[TIMER_KINDS])(struct core *, struct timer *) = {
    [TIMER_LEASE] = bi_fire_lease,       [TIMER_RETENTION] = bi_fire_retention,
    [TIMER_EXPIRY] = bi_fire_expiry,     [TIMER_DUE_MONO] = bi_fire_due_mono,
    [TIMER_DUE_WALL] = bi_fire_due_wall, [TIMER_PAUSE] = bi_fire_pause,
    [TIMER_RATE] = bi_fire_rate,         [TIMER_WAITER] = bi_fire_waiter,
    [TIMER_WORKER] = bi_fire_worker,
};

static bool is_due(const struct core *core)
{
    return core->unserved || core->serve_retry_at <= core->now.mono ||
           bi_timers_next(&core->wall) <= core->now.wall ||
           bi_timers_next(&core->mono) <= core->now.mono ||
           bi_timers_next(&core->wait_timers) <= core->now.mono;
}

/* Pops the next timer of the boot-time clock. Of equal deadlines, timeouts of waiting calls come
 * last: a job that is due at that time is still granted to the call. */
static struct timer *pop_mono(struct core *core)
{
    const struct timer *other = bi_timers_first(&core->mono, core->now.mono);
    const struct timer *timeout = bi_timers_first(&core->wait_timers, core->now.mono);
    bool timeout_first = timeout != NULL && (other == NULL || timeout->due < other->due);
    return bi_timers_pop(timeout_first ? &core->wait_timers : &core->mono, core->now.mono);
}

/* The clocks alternate: however many timers of one are due, those of the other fire in time. */
static void fire_next(struct core *core)
{
    bool mono = core->mono_turn;
    struct timer *timer = mono ? pop_mono(core) : bi_timers_pop(&core->wall, core->now.wall);
    if (timer == NULL) {
        mono = !mono;
        timer = mono ? pop_mono(core) : bi_timers_pop(&core->wall, core->now.wall);
    }
    core->mono_turn = !mono;
    assert(timer == NULL || (!timer->set && timer->kind < TIMER_ORDER));
    if (timer != NULL)
        timer_handlers[timer->kind](core, timer);
}

static bool fire_due(struct core *core, unsigned budget)
{
    for (uint64_t work = core->work; is_due(core);) {
        if (budget-- == 0 || core->work - work >= STEP_WORK)
            return true;

        /* Each event has its own hold. Calls that the last step left unserved come before new
         * events. */
        core->hold = 0;
        if (!core->unserved)
            fire_next(core);
        serve(core);
        if (core->unserved)
            return true;
    }
    return false;
}

bool bi_core_tick(struct core *core, struct bi_now now, unsigned budget)
{
    begin_step(core, now);
    if (is_due(core) && fire_due(core, budget))
        return true;

    /* Keep the turn between the slices of one tick only. */
    core->mono_turn = false;
    return false;
}

void bi_core_serve(struct core *core, struct bi_now now)
{
    begin_step(core, now);
    serve(core);
}

bool bi_core_unserved(const struct core *core)
{
    return core->unserved;
}

/* One year: far enough that waking up for it does not matter. */
#define FAR_FUTURE INT64_C(31557600000000)

struct bi_now bi_core_next_deadline(const struct core *core)
{
    struct bi_now next = {bi_timers_next(&core->mono), bi_timers_next(&core->wall)};
    if (core->mono.wheel == NULL || next.wall == BI_NEVER)
        return next;

    /* The wheel wakes the thread for wall clock deadlines, too. A wall deadline is still
     * returned, far in the future, so that the thread is woken when that clock is set. */
    int64_t tick = bi_timers_round_up(&core->mono, mono_of(core, next.wall));
    return (struct bi_now){tick < next.mono ? tick : next.mono, core->now.wall + FAR_FUTURE};
}

int64_t bi_core_next_timeout(const struct core *core)
{
    int64_t timeout = bi_timers_next(&core->wait_timers);
    return timeout < core->serve_retry_at ? timeout : core->serve_retry_at;
}
