/* SPDX-License-Identifier: MIT */
/*
 * op_reserve - reserving jobs: the four strategies, and waiting.
 *
 * A reserve chooses a topic for each job by its strategy and grants a lease on the best ready job
 * of it. If no topic has a ready job, the op waits in the lines of its topics (core/waiter.h).
 *
 * Failure    Out of memory leaves the jobs that were granted before; a reserve without any fails.
 * Cost       Each job costs a choice among the topics: O(1) for few topics, O(n / 32) for many.
 */
#include "core/core_internal.h"

#include <assert.h>
#include <string.h>

/*
 * Units of core->work: per reserved job, and one unit for this many topics that a draw passes. With
 * 50, a step of STEP_WORK units serves one call of BIDE_BATCH_JOBS jobs: the first reservation of
 * each job allocates its ext, and page faults make that slow.
 */
#define TAKE_WORK      50
#define DRAWN_PER_UNIT 4

/* ---- strategies: choosing among the open topics ---- */

/* Up to this many topics, the choice uses no allocated memory. */
#define FEW_TOPICS 8
/* Topics in one group. */
#define GROUP 32

/*
 * The open topics of a reserve, with the values that the strategy compares. A call that names many
 * topics and takes many jobs chooses among all of them for each job. So the values are in one
 * array, and for each group of topics its foremost one is known. A topic that is named more than
 * once changes through one of its entries; the others are stale and are refreshed when chosen.
 */
struct choice {
    struct topic *topic;
    uint64_t rank;     /* by priority: id of its best job; fair: when it was last taken from */
    uint32_t priority; /* by priority: of its best job; both are the maximum if it is closed */
    uint32_t weight;   /* 0: closed */
};

struct choices {
    bide_strategy strategy;
    size_t count, open;
    size_t first;    /* strict: those before are closed */
    uint64_t weight; /* sum of all */
    struct choice *all;
    uint32_t *foremost; /* by priority and fair: index of the first one of each group */
    struct choice few[FEW_TOPICS];
    uint32_t one_group;
};

/* True if the strategy compares ranks. */
static bool uses_rank(const struct choices *choices)
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

static bool ranks_before(const struct choice *a, const struct choice *b)
{
    return a->priority < b->priority || (a->priority == b->priority && a->rank < b->rank);
}

/* Finds the foremost choice of a group; of equal ones the first. */
static void update_foremost(struct choices *choices, size_t group)
{
    size_t best = group * GROUP;
    size_t end = choices->count - best < GROUP ? choices->count : best + GROUP;
    for (size_t i = best + 1; i < end; i++)
        if (ranks_before(&choices->all[i], &choices->all[best]))
            best = i;
    choices->foremost[group] = (uint32_t)best;
}

static size_t group_count(size_t topics)
{
    return (topics + GROUP - 1) / GROUP;
}

/* False when out of memory. */
static bool alloc_choices(struct core *core, struct choices *choices, size_t count)
{
    choices->all = choices->few;
    choices->foremost = &choices->one_group;

    if (count <= FEW_TOPICS)
        return true;

    /* One block: the groups follow the choices. */
    size_t bytes = count * sizeof(*choices->all) + group_count(count) * sizeof(*choices->foremost);
    choices->all = bi_alloc_malloc(&core->alloc, bytes);
    if (choices->all == NULL)
        return false;

    choices->foremost = (uint32_t *)(void *)(choices->all + count);
    return true;
}

/* False when out of memory. */
static bool init_choices(struct core *core, struct choices *choices,
                         const struct waiter_link *links, size_t count)
{
    if (!alloc_choices(core, choices, count))
        return false;

    core->work += count;
    for (size_t i = 0; i < count; i++) {
        if (links[i].topic == NULL || !bi_topic_is_open(links[i].topic))
            continue;

        struct choice *choice = &choices->all[choices->count++];
        choice->topic = links[i].topic;
        choice->weight = links[i].weight;
        choices->weight += links[i].weight;
        rank(choices, choice);
    }

    choices->open = choices->count;
    for (size_t i = 0; uses_rank(choices) && i < group_count(choices->count); i++)
        update_foremost(choices, i);
    return true;
}

/* Updates a choice after its topic may have changed. */
static void refresh(struct choices *choices, struct choice *choice)
{
    if (bi_topic_is_open(choice->topic)) {
        rank(choices, choice);
    } else {
        assert(choices->open > 0 && choices->weight >= choice->weight);
        choices->open--;
        choices->weight -= choice->weight;
        choice->weight = 0;
        choice->priority = UINT32_MAX;
        choice->rank = UINT64_MAX;
    }

    if (uses_rank(choices))
        update_foremost(choices, (size_t)(choice - choices->all) / GROUP);
}

static bool is_stale(const struct choices *choices, const struct choice *choice)
{
    struct choice now = *choice;
    if (!bi_topic_is_open(choice->topic))
        return true;
    rank(choices, &now);
    return now.priority != choice->priority || now.rank != choice->rank;
}

/* The foremost choice of all; of equal ones the first. */
static struct choice *foremost(const struct choices *choices)
{
    struct choice *best = &choices->all[choices->foremost[0]];
    for (size_t i = 1; i < group_count(choices->count); i++) {
        struct choice *choice = &choices->all[choices->foremost[i]];
        if (ranks_before(choice, best))
            best = choice;
    }
    return best;
}

static struct choice *draw_weighted(struct core *core, const struct choices *choices)
{
    assert(choices->weight > 0);
    uint64_t drawn = bi_random_below(&core->random, choices->weight);
    struct choice *choice = choices->all;
    for (; drawn >= choice->weight; choice++)
        drawn -= choice->weight;
    core->work += (uint64_t)(choice - choices->all) / DRAWN_PER_UNIT;
    return choice;
}

/* NULL if all topics are closed. */
static struct choice *choose(struct core *core, struct choices *choices)
{
    while (choices->open > 0) {
        while (choices->strategy == BIDE_STRICT && choices->all[choices->first].weight == 0)
            choices->first++;
        struct choice *choice = choices->strategy == BIDE_STRICT     ? &choices->all[choices->first]
                                : choices->strategy == BIDE_WEIGHTED ? draw_weighted(core, choices)
                                                                     : foremost(choices);
        assert(choice->topic != NULL && choice < choices->all + choices->count);
        if (!is_stale(choices, choice))
            return choice;
        refresh(choices, choice);
    }
    return NULL;
}

/* Reserves the best job of a topic. False if it does not fit on the page, or when out of memory. */
static bool take_best(struct core *core, const struct topic *topic, bide_reserve_args *args,
                      bide_buf *holder, size_t *count, uint64_t *bytes)
{
    assert(topic->ready.count > 0 && *count < args->job_max);
    struct job *job = job_at(core, topic->ready.entries[0].job);

    /* The first job is taken whatever its size: otherwise no reserve could return it. */
    uint64_t size = bi_snapshot_size(core, job, true);
    if ((*count > 0 && !bi_snapshot_fits_page(core, *bytes, size)) ||
        bi_lease_grant(core, job, holder) != BIDE_OK)
        return false;
    *bytes += size;
    bi_snapshot_fill(core, job, &args->jobs[(*count)++], true);
    return true;
}

/* Reserves from the topic of a call that names one, where no strategy has a choice. */
static size_t take_from_one(struct core *core, bide_reserve_args *args, bide_buf *holder,
                            struct topic *topic)
{
    size_t count = 0;
    uint64_t bytes = 0;

    core->work++;
    while (count < args->job_max && topic != NULL && bi_topic_is_open(topic) &&
           take_best(core, topic, args, holder, &count, &bytes))
        if (args->strategy == BIDE_FAIR)
            topic->fair_turn = core->next_turn++;
    return count;
}

static size_t take_from_many(struct core *core, bide_reserve_args *args, bide_buf *holder,
                             const struct waiter_link *links, size_t link_count)
{
    struct choices choices = {.strategy = args->strategy};
    size_t count = 0;
    uint64_t bytes = 0;

    if (!init_choices(core, &choices, links, link_count))
        return 0;

    while (count < args->job_max) {
        struct bi_random before = core->random;
        struct choice *choice = choose(core, &choices);
        if (choice == NULL)
            break;

        if (!take_best(core, choice->topic, args, holder, &count, &bytes)) {
            /* A draw that grants no job leaves the generator unchanged: later results depend only
             * on the jobs that were granted. */
            core->random = before;
            break;
        }

        if (args->strategy == BIDE_FAIR)
            choice->topic->fair_turn = core->next_turn++;
        /* The choices are freed after the last job: no refresh needed. */
        if (count < args->job_max)
            refresh(&choices, choice);
    }

    if (choices.all != choices.few)
        bi_alloc_free(&core->alloc, choices.all);
    return count;
}

size_t bi_op_reserve_take(struct core *core, bide_reserve_args *args, bide_buf *holder,
                          const struct waiter_link *links, size_t link_count)
{
    assert(args->job_max > 0 && link_count > 0);
    size_t count = link_count == 1 ? take_from_one(core, args, holder, links[0].topic)
                                   : take_from_many(core, args, holder, links, link_count);

    core->work += count * TAKE_WORK;
    /* Without a job the arguments stay unchanged: the op fails or waits. */
    if (count > 0)
        args->count = count;
    return count;
}

/* ---- reserve ---- */

static void keep_args(struct waiter *waiter, bide_reserve_args *args, bide_buf *holder)
{
    waiter->args = args;
    waiter->holder = bide_buf_ref(holder);
}

static int begin_waiting(struct core *core, bide_op *op, bide_reserve_args *args, bide_buf *holder,
                         struct waiter_link *links, size_t count)
{
    /* Check before topics are created: creating and destroying thousands of them only to fail is
     * slow. */
    assert(args->timeout_ms != 0 && op->private_.waiter == NULL);
    if (core->waiters.count >= core->limits.max_waiters)
        return bi_core_error_limit(core, op, BIDE_TOO_MANY_WAITERS);

    uint64_t serial = core->topic_list.next;
    int code = BIDE_OK;
    core->work += count;
    for (size_t i = 0; i < count && code == BIDE_OK; i++)
        if (links[i].topic == NULL) /* an earlier entry may have created it */
            code = bi_topic_get(core, args->topics[i], core->limits.max_topics, &links[i].topic);

    bool created = code == BIDE_OK;
    if (created)
        code = bi_waiter_add(core, op, args->timeout_ms, links, count);
    struct waiter *waiter = op->private_.waiter;
    if (waiter != NULL) {
        keep_args(waiter, args, holder);
        return code;
    }

    /* The topics that were created here must not outlive the failure. They have the last
     * serials. */
    struct topic *topic;
    while ((topic = bi_topic_at_or_after(core, serial)) != NULL) {
        serial = topic->serial + 1;
        bi_topic_destroy(core, topic);
    }

    /* The message has the number of topics, which must not include those. */
    return created ? code : bi_core_error_limit(core, op, code);
}

/* Parks a reserve whose bodies must be read: if none can be read, the op waits for other
 * jobs. If no waiter can be added, the op fails in that case. */
static void park(struct core *core, bide_op *op, bide_reserve_args *args, bide_buf *holder,
                 struct waiter_link *links, size_t count)
{
    assert(args->count > 0);
    if (args->timeout_ms != 0) {
        begin_waiting(core, op, args, holder, links, count);
    } else {
        /* Without a timeout it never waits: it only needs the topics that exist, to try again. */
        size_t kept = 0;
        for (size_t i = 0; i < count; i++)
            if (links[i].topic != NULL)
                links[kept++] = links[i];
        if (bi_waiter_add(core, op, 0, links, kept) == BIDE_PENDING)
            keep_args(op->private_.waiter, args, holder);
    }

    /* A failure to add the waiter is no error of the op. */
    op->error[0] = 0;
    if (op->private_.waiter != NULL)
        bi_waiter_park(core, op->private_.waiter);
}

int bi_op_reserve_run(struct core *core, bide_op *op, bide_reserve_args *args)
{
    if (core->closed)
        return bi_core_error_code(op, BIDE_CLOSED);

    struct waiter_link few[16];
    struct waiter_link *links = few;
    const size_t count = args->topic_count;
    assert(count > 0);

    if (count > sizeof(few) / sizeof(few[0])) {
        links = bi_alloc_malloc(&core->alloc, count * sizeof(*links));
        if (links == NULL)
            return bi_core_error_code(op, BIDE_ENOMEM);
    }

    core->work += count;
    bool any_open = false;
    for (size_t i = 0; i < count; i++) {
        struct topic *topic = bi_topic_find(core, args->topics[i]);
        links[i].topic = topic;
        links[i].weight = args->weights == NULL ? 1 : args->weights[i];
        any_open |= topic != NULL && bi_topic_is_open(topic);
    }

    int code = BIDE_OK;
    bide_buf *holder;
    core->body_missing = false;

    if (!bi_lease_name_holder(core, args->holder, &holder)) {
        code = bi_core_error_code(op, BIDE_ENOMEM);
    } else if (bi_op_reserve_take(core, args, holder, links, count) > 0) {
        if (core->body_missing)
            park(core, op, args, holder, links, count);
    } else {
        /* A topic is open, yet nothing was taken: memory was lacking. */
        if (any_open)
            code = bi_core_error_code(op, BIDE_ENOMEM);
        else if (args->timeout_ms == 0)
            code = bi_core_error_code(op, BIDE_TIMED_OUT);
        else
            code = begin_waiting(core, op, args, holder, links, count);
    }

    if (links != few)
        bi_alloc_free(&core->alloc, links);
    return code;
}

int bi_exec_reserve(struct core *core, bide_op *op)
{
    return bi_op_reserve_run(core, op, &op->reserve);
}

int bi_exec_finish_and_reserve(struct core *core, bide_op *op)
{
    bide_finish_and_reserve_args *args = &op->finish_and_reserve;
    /* One batch: after a failed commit neither part has happened. */
    bi_journal_begin_group(core, 1 + (uint32_t)args->reserve.job_max, 0);
    args->finish.status = bi_op_finish_item(core, op, &args->finish);
    /* The hold of the finish alone, if the reserve waits again. */
    op->private_.step.fetch.part.finish_batch = core->hold;
    int code = bi_op_reserve_run(core, op, &args->reserve);
    bi_journal_end_group(core);
    return code;
}

/* A job by id is reserved from a paused topic, but not beyond the limits of its policy. */
static int check_limits(struct core *core, bide_op *op, const struct topic *topic)
{
    int64_t until;
    bide_limit limit = bi_policy_limit(topic, &until);
    if (limit == BIDE_LIMIT_NONE)
        return BIDE_OK;

    if (limit == BIDE_LIMIT_RATE)
        return bi_core_error(
            op, BIDE_LIMITED,
            "reserve_job: topic %.80s is at its rate; the next job may be reserved "
            "in %lld ms",
            topic->name, (long long)ms_up(until - core->now.mono));
    if (limit == BIDE_LIMIT_RECOVERY)
        return bi_core_error(op, BIDE_LIMITED,
                             "reserve_job: the reserved jobs of topic %.80s are being loaded; try "
                             "again",
                             topic->name);
    return bi_core_error(op, BIDE_LIMITED,
                         "reserve_job: %u jobs of topic %.80s are reserved, its concurrency is "
                         "%lld",
                         topic->lists[BIDE_STATE_RESERVED].count, topic->name,
                         (long long)bi_policy_settings(topic->policy)->concurrency);
}

int bi_exec_reserve_job(struct core *core, bide_op *op)
{
    if (core->closed)
        return bi_core_error_code(op, BIDE_CLOSED);

    struct job *job = bi_job_find(core, op->reserve_job.id);
    if (job == NULL)
        return bi_core_error_no_job(op, op->reserve_job.id);

    if (job->state == BIDE_STATE_RESERVED)
        return bi_core_error_reserved(op, job);
    if (job->state == BIDE_STATE_DONE)
        return bi_core_error_wrong_state(op, job);
    int code = check_limits(core, op, topic_of(core, job));
    if (code != BIDE_OK)
        return code;

    bide_buf *holder;
    if (!bi_lease_name_holder(core, op->reserve_job.holder, &holder) ||
        bi_lease_grant(core, job, holder) != BIDE_OK)
        return bi_core_error_code(op, BIDE_ENOMEM);
    bi_snapshot_fill(core, job, op->reserve_job.job, true);
    return BIDE_OK;
}
