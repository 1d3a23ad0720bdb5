/* SPDX-License-Identifier: MIT */
/*
 * op_reserve - how jobs are taken: the four strategies, the lease, and who has to wait.
 */
#include "core/state.h"

#include <assert.h>
#include <string.h>

/* What counts for core->work: a job that is taken, and topics that a draw passes for one unit. */
#define TAKE_WORK      10
#define DRAWN_PER_UNIT 4

/* ---- the lease ---- */

/* The lease of a job begins: the reserve that took it is answered now. */
static void begin_lease(struct core *core, struct job *job)
{
    struct more *more = more_of(core, job);
    assert(job->state == BIDE_STATE_RESERVED);
    bi_lease_begin(core, job, more);
    bi_timers_set(&core->mono, &more->timer, job->due);
    if ((job->flags & JOB_DIRTY) != 0)
        bi_journal_lease_began(core, job->id, more->token);
}

struct job *bi_core_held_job(const struct core *core, const bide_job *shown)
{
    struct job *job = bi_core_lookup(core, shown->id);
    bool held = job != NULL && job->state == BIDE_STATE_RESERVED &&
                more_of(core, job)->token == shown->token;
    return held ? job : NULL;
}

static void answer_job(struct core *core, bide_job *shown)
{
    struct job *job = bi_core_held_job(core, shown);
    if (job == NULL) {
        /* The token was used before the answer. If that is rolled back, the lease has begun. */
        bi_journal_lease_began(core, shown->id, shown->token);
        return;
    }
    if (!more_of(core, job)->unanswered)
        return;
    begin_lease(core, job);
    shown->left_ms = ms_up(job->due - core->now.mono);
    shown->reserved_ms = ms_down(wall_of(core, core->now.mono));
}

static void answer_jobs(struct core *core, bide_op *op)
{
    const bide_reserve_args *args = bi_op_reserve_args(op);
    for (size_t i = 0; args != NULL && i < args->count; i++)
        answer_job(core, &args->jobs[i]);
    if (op->kind == BIDE_OP_RESERVE_JOB)
        answer_job(core, op->reserve_job.job);
}

void bi_core_answered(struct core *core, bide_op *op, struct bi_now now)
{
    core->now = now;
    answer_jobs(core, op);
}

void bi_core_begin_leases(struct core *core, bide_op *op)
{
    if (core->journal.on && op->private_.hold <= core->journal.committed)
        answer_jobs(core, op);
}

int bi_core_take(struct core *core, struct job *job)
{
    struct more *more = bi_job_more(core, job);
    if (more == NULL)
        return BIDE_ENOMEM;
    bool limited = more->max_retries != BIDE_NO_RETRY_LIMIT;
    /* Taken from ready and without a limit, it would be ready again after a crash: not written. But
     * one that has been reserved does not expire any more, and that must be known. */
    bool expires = more->expires_at != 0 && more->counters.reserves == 0;
    bool written = limited || expires || job->state != BIDE_STATE_READY;
    if (written && bi_journal_change(core, job) != BIDE_OK)
        return BIDE_ENOMEM;
    if (core->journal.on) {
        bi_journal_see(core, job->id);
        bi_journal_token(core, core->next_token);
    }
    if (job->state == BIDE_STATE_READY)
        more->ready = bi_job_ready_since(core, job);
    more->unanswered = core->journal.on;
    more->disowned = false;
    more->before = job->state;
    more->before_flags = job->flags & (JOB_READY_BEFORE | JOB_DUE_WALL);
    job->flags &= (uint8_t)~JOB_READY_BEFORE;
    bi_job_leave(core, job);
    job->flags &= (uint8_t) ~(JOB_DUE_WALL | JOB_STARTED | JOB_CANCEL_WANTED);
    if (limited)
        job->flags |= JOB_STARTED;
    more->token = bi_token_of(&core->tokens, core->next_token++);
    count_up(&more->counters.reserves);
    more->lease_touches = 0;

    int64_t since = job->since;
    if (!more->unanswered)
        bi_lease_begin(core, job, more);
    bi_job_enter(core, job, BIDE_STATE_RESERVED);
    if (more->unanswered)
        job->since = since;
    COUNT(core, topic_of(core, job), reserves);
    bi_event(core, BIDE_EVENT_RESERVED, job);
    return BIDE_OK;
}

/* ---- strategies: the topic to take from, among those that are open ---- */

/* Topics whose choice needs no memory of its own. */
#define FEW_TOPICS 8
/* Topics of one group. */
#define GROUP 32

/*
 * The open topics of a reserve, and what their choice depends on. A call that names many topics and takes
 * many jobs chooses among all of them for each job: so this lies in one array, and of each group it is
 * known which topic of it comes before the others. A topic that is named more than
 * once may change through one of its entries: the others find that out when they are chosen.
 */
struct choice {
    struct topic *topic;
    uint64_t rank;     /* by priority: the id of its best job; fair: when it was last taken from; */
    uint32_t priority; /* and the job's priority. Both are the largest there are if it is closed */
    uint32_t weight;   /* 0: it is closed */
};

struct choices {
    bide_strategy strategy;
    size_t count, open;
    size_t first;    /* strict: those before are closed */
    uint64_t weight; /* of all */
    struct choice *all;
    uint32_t *foremost; /* of each group, by priority and fair: its place in all */
    struct choice few[FEW_TOPICS];
    uint32_t one_group;
};

/* Is the topic chosen by its rank? */
static bool ranks(const struct choices *choices)
{
    return choices->strategy == BIDE_BY_PRIORITY || choices->strategy == BIDE_FAIR;
}

static void rank(const struct choices *choices, struct choice *choice)
{
    const struct topic *topic = choice->topic;
    choice->priority = 0;
    choice->rank = 0;
    if (choices->strategy == BIDE_BY_PRIORITY) {
        choice->priority = topic->ready.entries[0].priority;
        choice->rank = topic->ready.entries[0].id;
    } else if (choices->strategy == BIDE_FAIR) {
        choice->rank = topic->fair_turn;
    }
}

static bool comes_before(const struct choice *a, const struct choice *b)
{
    return a->priority < b->priority || (a->priority == b->priority && a->rank < b->rank);
}

/* Finds the one of a group that comes before all others; the first of several alike. */
static void find_foremost(struct choices *choices, size_t group)
{
    size_t best = group * GROUP;
    size_t end = choices->count - best < GROUP ? choices->count : best + GROUP;
    for (size_t i = best + 1; i < end; i++)
        if (comes_before(&choices->all[i], &choices->all[best]))
            best = i;
    choices->foremost[group] = (uint32_t)best;
}

static size_t group_count(size_t topics)
{
    return (topics + GROUP - 1) / GROUP;
}

/* False when out of memory. */
static bool reserve_choices(struct core *core, struct choices *choices, size_t count)
{
    choices->all = choices->few;
    choices->foremost = &choices->one_group;
    if (count <= FEW_TOPICS)
        return true;
    size_t bytes = count * sizeof(*choices->all) + group_count(count) * sizeof(*choices->foremost);
    choices->all = bi_alloc_get(&core->alloc, bytes);
    if (choices->all == NULL)
        return false;
    choices->foremost = (uint32_t *)(void *)(choices->all + count);
    return true;
}

/* False when out of memory. */
static bool begin_choices(struct core *core, struct choices *choices,
                          const struct waiter_link *links, size_t count)
{
    if (!reserve_choices(core, choices, count))
        return false;
    core->work += count;
    for (size_t i = 0; i < count; i++) {
        if (links[i].topic == NULL || !bi_topic_open(links[i].topic))
            continue;
        struct choice *choice = &choices->all[choices->count++];
        choice->topic = links[i].topic;
        choice->weight = links[i].weight;
        choices->weight += links[i].weight;
        rank(choices, choice);
    }
    choices->open = choices->count;
    for (size_t i = 0; ranks(choices) && i < group_count(choices->count); i++)
        find_foremost(choices, i);
    return true;
}

static void end_choices(struct core *core, struct choices *choices)
{
    if (choices->all != choices->few)
        bi_alloc_put(&core->alloc, choices->all);
}

/* Its topic may have changed. */
static void refresh(struct choices *choices, struct choice *choice)
{
    if (bi_topic_open(choice->topic)) {
        rank(choices, choice);
    } else {
        choices->open--;
        choices->weight -= choice->weight;
        choice->weight = 0;
        choice->priority = UINT32_MAX;
        choice->rank = UINT64_MAX;
    }
    if (ranks(choices))
        find_foremost(choices, (size_t)(choice - choices->all) / GROUP);
}

static bool is_stale(const struct choices *choices, const struct choice *choice)
{
    struct choice now = *choice;
    if (!bi_topic_open(choice->topic))
        return true;
    rank(choices, &now);
    return now.priority != choice->priority || now.rank != choice->rank;
}

static struct choice *strict(struct choices *choices)
{
    while (choices->all[choices->first].weight == 0)
        choices->first++;
    return &choices->all[choices->first];
}

/* The one that comes before all others; the first of several alike. */
static struct choice *foremost(const struct choices *choices)
{
    struct choice *best = &choices->all[choices->foremost[0]];
    for (size_t i = 1; i < group_count(choices->count); i++) {
        struct choice *choice = &choices->all[choices->foremost[i]];
        if (comes_before(choice, best))
            best = choice;
    }
    return best;
}

static struct choice *draw(struct core *core, const struct choices *choices)
{
    uint64_t drawn = bi_random_below(&core->random, choices->weight);
    struct choice *choice = choices->all;
    for (; drawn >= choice->weight; choice++)
        drawn -= choice->weight;
    core->work += (uint64_t)(choice - choices->all) / DRAWN_PER_UNIT;
    return choice;
}

/* NULL if all are closed. */
static struct choice *choose(struct core *core, struct choices *choices)
{
    while (choices->open > 0) {
        struct choice *choice = choices->strategy == BIDE_STRICT     ? strict(choices)
                                : choices->strategy == BIDE_WEIGHTED ? draw(core, choices)
                                                                     : foremost(choices);
        if (!is_stale(choices, choice))
            return choice;
        refresh(choices, choice);
    }
    return NULL;
}

/* A job that was cancelled in an earlier life, and whose removal could not be stored, goes instead of
 * being handed out. False when out of memory. */
static bool drop_cancelled(struct core *core, struct job *job)
{
    if (bi_journal_change(core, job) != BIDE_OK)
        return false;
    COUNT(core, topic_of(core, job), deletes);
    return bi_core_remove(core, job, BIDE_EVENT_DELETED) == BIDE_OK;
}

/* The best job of a topic is taken, if it fits on the page; false: it does not, or there is no memory. */
static bool take_best(struct core *core, const struct topic *topic, bide_reserve_args *args,
                      size_t *count, uint64_t *bytes)
{
    struct job *job = job_at(core, topic->ready.entries[0].job);
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return drop_cancelled(core, job);
    /* The first job is taken whatever its size; the rest of the page must fit. */
    uint64_t size = bi_core_shown_size(core, job, true);
    if ((*count > 0 && !bi_core_page_fits(core, *bytes, size)) ||
        bi_core_take(core, job) != BIDE_OK)
        return false;
    *bytes += size;
    bi_core_snapshot(core, job, &args->jobs[(*count)++], true);
    return true;
}

size_t bi_core_take_some(struct core *core, bide_reserve_args *args,
                         const struct waiter_link *links, size_t link_count)
{
    struct choices choices = {.strategy = args->strategy};
    size_t count = 0;
    uint64_t bytes = 0;
    if (!begin_choices(core, &choices, links, link_count))
        return 0;
    while (count < args->job_max) {
        struct bi_random before = core->random;
        struct choice *choice = choose(core, &choices);
        if (choice == NULL)
            break;
        size_t had = count;
        bool taken = take_best(core, choice->topic, args, &count, &bytes);
        if (count == had)
            core->random = before; /* nothing came of the draw */
        if (!taken)
            break;
        if (count > had && args->strategy == BIDE_FAIR)
            choice->topic->fair_turn = core->next_turn++;
        if (count < args->job_max)
            refresh(&choices, choice);
    }
    end_choices(core, &choices);
    core->work += count * TAKE_WORK;
    if (count > 0)
        args->count = count;
    return count;
}

/* ---- reserve ---- */

static bool any_open(const struct waiter_link *links, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (links[i].topic != NULL && bi_topic_open(links[i].topic))
            return true;
    return false;
}

/* Gives up the pins that make_topics() set, and what it made if that is not wanted. */
static void drop_pins(struct core *core, struct waiter_link *links, size_t count, bool keep)
{
    for (size_t i = count; i-- > 0;) { /* a topic named twice was made by the first */
        struct topic *topic = links[i].topic;
        topic->pins--;
        if (!keep && links[i].weight == 0)
            bi_topic_unmake(core, topic);
        else
            bi_topic_cleanup(core, topic);
    }
}

/* Makes the topics that do not exist, and pins all of them. On failure nothing is left; a
 * weight of 0 marks those made here meanwhile. */
static int make_topics(struct core *core, const bide_reserve_args *args, struct waiter_link *links,
                       size_t count)
{
    int code = BIDE_OK;
    size_t i = 0;
    core->work += count;
    for (; i < count; i++) {
        uint64_t before = core->by_name.count;
        if (links[i].topic == NULL) /* unless an entry before this one has made it */
            code = bi_topic_get(core, args->topics[i], &links[i].topic);
        if (code != BIDE_OK)
            break;
        bi_topic_pin(links[i].topic);
        if (core->by_name.count != before)
            links[i].weight = 0;
    }
    if (code != BIDE_OK)
        drop_pins(core, links, i, false);
    return code;
}

static uint32_t weight_of(const bide_reserve_args *args, size_t i)
{
    return args->weights == NULL ? 1 : args->weights[i];
}

static inline void find_topics(struct core *core, const bide_reserve_args *args,
                               struct waiter_link *links, size_t count)
{
    core->work += count;
    for (size_t i = 0; i < count; i++) {
        links[i].topic = bi_topic_find(core, args->topics[i]);
        links[i].weight = weight_of(args, i);
    }
}

static int begin_waiting(struct core *core, bide_op *op, bide_reserve_args *args,
                         struct waiter_link *links, size_t count)
{
    if (core->waiters.count >= core->limits.max_waiters)
        return bi_op_limited(core, op, BIDE_TOO_MANY_WAITERS);
    int code = make_topics(core, args, links, count);
    if (code != BIDE_OK)
        return bi_op_limited(core, op, code);
    struct waiter *waiter = bi_waiter_add(core, op, args->timeout_ms, links, count, &code);
    drop_pins(core, links, count, waiter != NULL);
    if (waiter == NULL)
        return code;
    waiter->args = args;
    for (size_t i = 0; i < count; i++)
        waiter->links[i].weight = weight_of(args, i);
    return code;
}

/* Jobs were taken, and the bodies of some must be read: if one cannot be, the op goes on waiting.
 * So it is kept as one that waits; if it cannot be kept, it will have to do with what it has. */
static void park(struct core *core, bide_op *op, bide_reserve_args *args, struct waiter_link *links,
                 size_t count)
{
    size_t kept = 0;
    int code;
    if (args->timeout_ms != 0) {
        begin_waiting(core, op, args, links, count);
    } else {
        for (size_t i = 0; i < count; i++)
            if (links[i].topic != NULL)
                links[kept++] = links[i];
        struct waiter *added = bi_waiter_add(core, op, 0, links, kept, &code);
        if (added != NULL)
            added->args = args;
    }
    op->error[0] = 0;
    struct waiter *waiter = op->private_.waiter;
    if (waiter != NULL)
        bi_waiter_park(core, waiter);
}

int bi_core_reserve(struct core *core, bide_op *op, bide_reserve_args *args)
{
    if (core->closed)
        return bi_op_answer(op, BIDE_CLOSED);
    struct waiter_link few[16];
    struct waiter_link *links = few;
    const size_t count = args->topic_count;
    assert(count > 0);
    if (count > sizeof(few) / sizeof(few[0])) {
        links = bi_alloc_get(&core->alloc, count * sizeof(*links));
        if (links == NULL)
            return bi_op_answer(op, BIDE_ENOMEM);
    }
    find_topics(core, args, links, count);
    int code = BIDE_OK;
    core->lacking = false;
    uint64_t topics = core->by_name.count;
    size_t taken = bi_core_take_some(core, args, links, count);
    if (core->by_name.count != topics) /* the last job of a topic was a cancelled one */
        find_topics(core, args, links, count);
    if (taken > 0) {
        if (core->lacking)
            park(core, op, args, links, count);
    } else {
        if (any_open(links, count))
            code = bi_op_answer(op, BIDE_ENOMEM);
        else if (args->timeout_ms == 0)
            code = bi_op_answer(op, BIDE_TIMED_OUT);
        else
            code = begin_waiting(core, op, args, links, count);
    }
    if (links != few)
        bi_alloc_put(&core->alloc, links);
    return code;
}

int bi_op_reserve(struct core *core, bide_op *op)
{
    return bi_core_reserve(core, op, &op->reserve);
}

int bi_op_finish_and_reserve(struct core *core, bide_op *op)
{
    bide_finish_and_reserve_args *args = &op->finish_and_reserve;
    bi_journal_join(core, 1 + (uint32_t)args->reserve.job_max, 0);
    args->finish.status = bi_core_finish(core, op, &args->finish);
    op->private_.bound[0] = core->hold; /* what it holds for whatever it will reserve */
    int code = bi_core_reserve(core, op, &args->reserve);
    bi_journal_part(core);
    return code;
}

int bi_op_reserve_job(struct core *core, bide_op *op)
{
    if (core->closed)
        return bi_op_answer(op, BIDE_CLOSED);
    struct job *job = bi_core_find(core, op->reserve_job.id);
    if (job == NULL)
        return bi_op_no_job(op, op->reserve_job.id);
    if (job->state == BIDE_STATE_RESERVED)
        return bi_op_reserved(op, job);
    if (job->state == BIDE_STATE_DONE)
        return bi_op_wrong_state(op, job);
    if ((job->flags & JOB_CANCEL_WANTED) != 0)
        return drop_cancelled(core, job) ? bi_op_no_job(op, op->reserve_job.id)
                                         : bi_op_answer(op, BIDE_ENOMEM);
    if (bi_core_take(core, job) != BIDE_OK)
        return bi_op_answer(op, BIDE_ENOMEM);
    bi_core_snapshot(core, job, op->reserve_job.job, true);
    return BIDE_OK;
}
