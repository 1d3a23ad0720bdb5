/* SPDX-License-Identifier: MIT */
/* admin.c - administrative ops, which need no lease: kick, cancel, purge, drain. */
#include "contract.h"

static void kick_takes_the_oldest_burial_first(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t ids[4], count = 0;
    for (size_t i = 0; i < COUNT(ids); i++)
        ids[i] = put(queue, a, "body");
    static const size_t order[] = {2, 0, 3, 1};
    for (size_t i = 0; i < COUNT(order); i++)
        OK(bide_bury(queue, ids[order[i]], 0, BIDE_KEEP, NULL));
    for (size_t i = 0; i < COUNT(order); i++) {
        OK(bide_kick(queue, a, 1, &count));
        EQ(count, 1);
        EQ(take(queue, a)->id, ids[order[i]]);
    }
    OK(bide_kick(queue, a, 1, &count));
    EQ(count, 0);
}

static void kick_takes_at_most_its_maximum(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t count = 0;
    for (int i = 0; i < 5; i++)
        put_in(queue, a, BIDE_STATE_BURIED);
    OK(bide_kick(queue, a, 3, &count));
    EQ(count, 3);
    EQ(topic_of(queue, a).jobs.ready, 3);
    EQ(topic_of(queue, a).jobs.buried, 2);
    OK(bide_kick(queue, a, UINT64_MAX, &count));
    EQ(count, 2);
    EQ(topic_of(queue, a).total.kicks, 5);
}

static void kick_takes_delayed_jobs_only_if_none_is_buried(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t count = 0;
    uint64_t delayed = put_in(queue, a, BIDE_STATE_DELAYED);
    uint64_t buried = put_in(queue, a, BIDE_STATE_BURIED);
    OK(bide_kick(queue, a, 10, &count));
    EQ(count, 1);
    EQ(state_of(queue, buried), BIDE_STATE_READY);
    EQ(state_of(queue, delayed), BIDE_STATE_DELAYED);
    OK(bide_kick(queue, a, 10, &count));
    EQ(count, 1);
    EQ(stat_job(queue, delayed)->state, BIDE_STATE_READY);
    EQ(stat_job(queue, delayed)->kicks, 1);
}

static void kick_of_buried_jobs_leaves_delayed_ones(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t count = 0;
    uint64_t delayed = put_in(queue, a, BIDE_STATE_DELAYED);
    for (int i = 0; i < 3; i++)
        put_in(queue, a, BIDE_STATE_BURIED);
    OK(bide_kick_buried(queue, a, 2, &count));
    EQ(count, 2);
    OK(bide_kick_buried(queue, a, UINT64_MAX, &count));
    EQ(count, 1);
    OK(bide_kick_buried(queue, a, UINT64_MAX, &count));
    EQ(count, 0);
    EQ(state_of(queue, delayed), BIDE_STATE_DELAYED);
    EQ(topic_of(queue, a).jobs.ready, 3);
    OK(bide_kick_buried(queue, fresh_topic("unknown"), 1, &count));
    EQ(count, 0);
}

static void kick_takes_the_soonest_delayed_job_first(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.run_at_ms = wall_ms() + 2000000;
    uint64_t second = put_as(queue, a, "body", &options);
    uint64_t third = put_later(queue, a, 3000000);
    uint64_t first = put_later(queue, a, 1000000);
    options.run_at_ms += 2000000;
    uint64_t fourth = put_as(queue, a, "body", &options);
    uint64_t order[] = {first, second, third, fourth};
    for (size_t i = 0; i < COUNT(order); i++) {
        OK(bide_kick(queue, a, 1, NULL));
        EQ(take(queue, a)->id, order[i]);
    }
}

static void kick_handles_thousands_of_jobs(void)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = 3600000;
    for (int i = 0; i < 5; i++) {
        for (size_t j = 0; j < COUNT(items); j++)
            items[j] = (bide_put_item){.topic = slice(a), .options = &options};
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    }
    uint64_t count = 0;
    OK(bide_kick(queue, a, 3500, &count));
    EQ(count, 3500);
    EQ(topic_of(queue, a).jobs.ready, 3500);
    OK(bide_kick(queue, a, 1000000, &count));
    EQ(count, 1500);
}

/* A kick of a topic with more than one slice of jobs, and behind it in the same list the ops that
 * it must not see; every one of them must succeed. */
#define OLD_JOBS 3500
#define NEW_JOBS 40

static struct waiter *kick_then(bide *queue, bide_cq *cq, const char *topic, uint64_t max,
                                struct waiter **behind, size_t count)
{
    bide_op *ops[1 + NEW_JOBS];
    OK(bide_wait_recovered(queue, PATIENCE_MS, NULL));
    struct waiter *kick = new_op(BIDE_OP_KICK, cq);
    kick->op.kick = (bide_kick_args){.topic = slice(topic), .max = max};
    ops[0] = &kick->op;
    for (size_t i = 0; i < count; i++)
        ops[1 + i] = &behind[i]->op;
    CHECK(bide_submit(queue, ops, 1 + count) >= 0);
    for (size_t i = 0; i <= count; i++) {
        UNTIL(ops[i]->status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
        EQ(ops[i]->status, BIDE_OK);
    }
    return kick;
}

static void a_kick_leaves_jobs_that_are_delayed_after_it_began(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_put_options later = BIDE_PUT_OPTIONS_INIT, sooner = BIDE_PUT_OPTIONS_INIT;
    struct waiter *behind[NEW_JOBS];
    later.delay_ms = 3600000;
    sooner.delay_ms = 600000;
    put_lots(queue, a, OLD_JOBS, &later, NULL);
    for (size_t i = 0; i < COUNT(behind); i++) {
        behind[i] = new_op(BIDE_OP_PUT, cq);
        behind[i]->op.put = (bide_put_item){.topic = slice(a), .options = &sooner};
    }
    struct waiter *kick = kick_then(queue, cq, a, UINT64_MAX, behind, COUNT(behind));
    EQ(kick->op.kick.count, OLD_JOBS);
    EQ(topic_of(queue, a).jobs.ready, OLD_JOBS);
    EQ(topic_of(queue, a).jobs.delayed, NEW_JOBS);
    for (size_t i = 0; i < COUNT(behind); i++)
        EQ(state_of(queue, behind[i]->op.put.id), BIDE_STATE_DELAYED);
    uint64_t count;
    OK(bide_kick(queue, a, UINT64_MAX, &count));
    EQ(count, NEW_JOBS);
}

/* The soonest are chosen among those that existed; the others stay, each with its own time. */
static void limited_kick_takes_the_soonest_of_the_existing_jobs(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_put_options later = BIDE_PUT_OPTIONS_INIT, wall = BIDE_PUT_OPTIONS_INIT;
    struct waiter *behind[NEW_JOBS];
    later.delay_ms = 7200000;
    wall.run_at_ms = wall_ms() + 3600000;
    put_lots(queue, a, OLD_JOBS, &later, NULL);
    put_lots(queue, a, 1500, &wall, NULL);
    for (size_t i = 0; i < COUNT(behind); i++) {
        behind[i] = new_op(BIDE_OP_PUT, cq);
        behind[i]->op.put = (bide_put_item){.topic = slice(a), .options = &wall};
    }
    struct waiter *kick = kick_then(queue, cq, a, 2500, behind, COUNT(behind));
    EQ(kick->op.kick.count, 2500);
    for (size_t i = 0; i < COUNT(behind); i++)
        EQ(state_of(queue, behind[i]->op.put.id), BIDE_STATE_DELAYED);
    /* What is left is in order again: the new ones are the soonest. */
    uint64_t count;
    OK(bide_kick(queue, a, NEW_JOBS, &count));
    EQ(count, NEW_JOBS);
    for (size_t i = 0; i < COUNT(behind); i++)
        EQ(state_of(queue, behind[i]->op.put.id), BIDE_STATE_READY);
    EQ(topic_of(queue, a).jobs.delayed, OLD_JOBS + 1500 - 2500);
}

static void a_kick_leaves_jobs_that_are_released_with_a_delay_after_it_began(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    bide_put_options later = BIDE_PUT_OPTIONS_INIT;
    struct waiter *behind[NEW_JOBS];
    later.delay_ms = 3600000;
    for (size_t i = 0; i < COUNT(behind); i++) {
        put(queue, a, "body");
        const bide_job *job = take(queue, a);
        behind[i] = new_op(BIDE_OP_RELEASE, cq);
        behind[i]->op.release = (bide_release_args){
            .id = job->id, .token = job->token, .priority = BIDE_KEEP, .delay_ms = 600000};
    }
    put_lots(queue, a, OLD_JOBS, &later, NULL);
    struct waiter *kick = kick_then(queue, cq, a, UINT64_MAX, behind, COUNT(behind));
    EQ(kick->op.kick.count, OLD_JOBS);
    EQ(topic_of(queue, a).jobs.ready, OLD_JOBS);
    EQ(topic_of(queue, a).jobs.delayed, NEW_JOBS);
}

static void a_kick_leaves_jobs_that_are_buried_after_it_began(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    static uint64_t ids[OLD_JOBS];
    struct waiter *behind[NEW_JOBS];
    for (size_t i = 0; i < COUNT(behind); i++) {
        put(queue, a, "body");
        const bide_job *job = take(queue, a);
        behind[i] = new_op(BIDE_OP_BURY, cq);
        behind[i]->op.bury =
            (bide_bury_args){.id = job->id, .token = job->token, .priority = BIDE_KEEP};
    }
    put_lots(queue, a, OLD_JOBS, NULL, ids);
    for (size_t i = 0; i < COUNT(ids); i++)
        OK(bide_bury(queue, ids[i], 0, BIDE_KEEP, NULL));
    struct waiter *kick = kick_then(queue, cq, a, UINT64_MAX, behind, COUNT(behind));
    EQ(kick->op.kick.count, OLD_JOBS);
    EQ(topic_of(queue, a).jobs.ready, OLD_JOBS);
    EQ(topic_of(queue, a).jobs.buried, NEW_JOBS);
}

/* Kicks of one topic that run at the same time, each on what it found. */
static void concurrent_kicks_take_different_jobs(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    static bide_put_item items[3][BIDE_BATCH_JOBS];
    bide_put_options delays[4];
    bide_op *ops[7];
    size_t count = 0;
    for (size_t i = 0; i < 4; i++) {
        delays[i] = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
        delays[i].delay_ms = 3600000 - 600000 * (int64_t)i;
    }
    put_lots(queue, a, OLD_JOBS, &delays[0], NULL);
    OK(bide_wait_recovered(queue, PATIENCE_MS, NULL));
    for (size_t round = 0; round < 3; round++) {
        struct waiter *kick = new_op(BIDE_OP_KICK, cq);
        kick->op.kick = (bide_kick_args){.topic = slice(a), .max = 1500};
        ops[count++] = &kick->op;
        struct waiter *puts = new_op(BIDE_OP_PUT_MANY, cq);
        for (size_t i = 0; i < BIDE_BATCH_JOBS; i++)
            items[round][i] = (bide_put_item){.topic = slice(a), .options = &delays[round + 1]};
        puts->op.put_many = (bide_put_many_args){.items = items[round], .count = BIDE_BATCH_JOBS};
        ops[count++] = &puts->op;
    }
    CHECK(bide_submit(queue, ops, count) >= 0);
    for (size_t i = 0; i < count; i++) {
        UNTIL(ops[i]->status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
        EQ(ops[i]->status, BIDE_OK);
    }
    /* The first kick finds old jobs only, the second also those of the first round, which are
     * sooner, and so on: those of the last round have been found by none. */
    for (size_t i = 0; i < count; i += 2)
        EQ(ops[i]->kick.count, 1500);
    EQ(topic_of(queue, a).jobs.delayed, OLD_JOBS + 3 * BIDE_BATCH_JOBS - 3 * 1500);
    for (size_t i = 0; i < BIDE_BATCH_JOBS; i++)
        EQ(state_of(queue, items[2][i].id), BIDE_STATE_DELAYED);
}

static void kick_of_an_unknown_topic_kicks_0_jobs(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t count = 42;
    OK(bide_kick(queue, a, 10, &count));
    EQ(count, 0);
    OK(bide_kick(queue, a, 10, NULL));
    CHECK(!topic_exists(queue, a));
}

static void kick_job_kicks_one_job(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t buried = put_in(queue, a, BIDE_STATE_BURIED);
    uint64_t delayed = put_in(queue, a, BIDE_STATE_DELAYED);
    OK(bide_kick_job(queue, delayed));
    EQ(stat_job(queue, delayed)->state, BIDE_STATE_READY);
    EQ(stat_job(queue, delayed)->kicks, 1);
    EQ(stat_job(queue, delayed)->left_ms, 0);
    OK(bide_kick_job(queue, buried));
    EQ(stat_job(queue, buried)->state, BIDE_STATE_READY);
    EQ(topic_of(queue, a).total.kicks, 2);
    EQ(take(queue, a)->id, buried);
}

static void kick_job_accepts_only_buried_and_delayed_jobs(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    CODE(bide_kick_job(queue, put_in(queue, a, BIDE_STATE_READY)), BIDE_WRONG_STATE);
    CODE(bide_kick_job(queue, put_in(queue, a, BIDE_STATE_RESERVED)), BIDE_RESERVED);
    CODE(bide_kick_job(queue, put_in(queue, a, BIDE_STATE_DONE)), BIDE_WRONG_STATE);
    CODE(bide_kick_job(queue, BIDE_ID_MAX), BIDE_NOT_FOUND);
    EQ(topic_of(queue, a).total.kicks, 0);
}

static void a_cancel_removes_a_job_that_is_not_reserved(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    OK(bide_topic_ref(queue, a, 1));
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t id = put_in(queue, a, states[i]);
        OK(bide_cancel(queue, id));
        EQ(state_of(queue, id), BIDE_STATE_GONE);
        CODE(bide_cancel(queue, id), BIDE_NOT_FOUND);
        EQ(topic_of(queue, a).total.deletes, i + 1);
    }
    OK(bide_topic_ref(queue, a, -1));
}

static void cancel_of_a_reserved_job_is_reported_to_its_holder(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    CHECK(!stat_job(queue, id)->cancel_wanted);
    OK(bide_cancel(queue, id));
    OK(bide_cancel(queue, id));
    const bide_job *job = stat_job(queue, id);
    EQ(job->state, BIDE_STATE_RESERVED);
    CHECK(job->cancel_wanted);
    CODE(bide_touch(queue, id, token, 3600000, "stopping"), BIDE_CANCEL_WANTED);
    job = stat_job(queue, id);
    BETWEEN(job->left_ms, 3600000 - PATIENCE_MS, 3600000);
    EQ(job->touches, 1);
    TEXT(job->progress, job->progress_size, "stopping");
    OK(bide_delete(queue, id, token));
}

/* What ends the lease of a job that is to stop; each must remove it. */
static void end_lease(bide *queue, int how, uint64_t id, uint64_t token)
{
    bide_state state = BIDE_STATE_RESERVED;
    switch (how) {
    case 0:
        OK(bide_release(queue, id, token, BIDE_KEEP, 3600000));
        break;
    case 1:
        OK(bide_give_back(queue, id, token));
        break;
    case 2:
        OK(bide_fail(queue, id, token, "text", 3600000, &state, NULL));
        EQ(state, BIDE_STATE_GONE);
        break;
    case 3:
        OK(bide_bury(queue, id, token, BIDE_KEEP, "reason"));
        break;
    default:
        CODE(bide_touch(queue, id, token, 20, NULL), BIDE_CANCEL_WANTED);
        UNTIL(state_of(queue, id) == BIDE_STATE_GONE);
        break;
    }
}

static void cancelled_job_is_removed_when_its_lease_ends(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    OK(bide_topic_ref(queue, a, 1));
    for (int how = 0; how < 5; how++) {
        uint64_t id = put(queue, a, "body");
        uint64_t token = take(queue, a)->token;
        OK(bide_cancel(queue, id));
        end_lease(queue, how, id, token);
        EQ(state_of(queue, id), BIDE_STATE_GONE);
        EQ(topic_of(queue, a).total.deletes, how + 1);
    }
    EQ(topic_of(queue, a).jobs.ready, 0);
    OK(bide_topic_ref(queue, a, -1));
}

static void a_cancelled_job_may_still_be_done(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t id = put(queue, a, "body");
    uint64_t token = take(queue, a)->token;
    OK(bide_cancel(queue, id));
    OK(bide_done(queue, id, token, "too late", 8, 3600000));
    const bide_job *job = peek_job(queue, id);
    EQ(job->state, BIDE_STATE_DONE);
    TEXT(job->result, job->result_size, "too late");
    EQ(topic_of(queue, a).total.deletes, 0);
}

static void a_purge_removes_the_jobs_of_one_state(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    for (size_t i = 0; i < COUNT(states); i++)
        for (int j = 0; j < 3; j++)
            put_in(queue, a, states[i]);
    put_in(queue, a, BIDE_STATE_RESERVED);
    put_in(queue, b, BIDE_STATE_READY);
    for (size_t i = 0; i < COUNT(states); i++) {
        uint64_t count = 0;
        OK(bide_purge(queue, a, states[i], &count));
        EQ(count, 3);
        bide_topic_stats stats = topic_of(queue, a);
        EQ(stats.jobs.delayed, 0);
        EQ(stats.jobs.ready, i < 1 ? 3 : 0);
        EQ(stats.jobs.buried, i < 2 ? 3 : 0);
        EQ(stats.jobs.done, i < 3 ? 3 : 0);
        EQ(stats.jobs.reserved, 1);
        EQ(stats.total.purged, 3 * (i + 1));
        EQ(stats.total.deletes, 0);
    }
    EQ(topic_of(queue, b).jobs.ready, 1);
}

static void purge_handles_thousands_of_jobs(void)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    for (int i = 0; i < 5; i++) {
        for (size_t j = 0; j < COUNT(items); j++)
            items[j] = (bide_put_item){.topic = slice(a), .body = slice("body")};
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    }
    uint64_t count = 0;
    OK(bide_purge(queue, a, BIDE_STATE_READY, &count));
    EQ(count, 5000);
    CHECK(!topic_exists(queue, a));
}

static void purge_leaves_jobs_put_after_its_start(void)
{
    bide *queue = open_queue("");
    bide_cq *cq = new_cq();
    const char *a = fresh_topic("a");
    put(queue, a, "body");
    const bide_job *job = take(queue, a);
    uint64_t id = job->id;
    put_lots(queue, a, OLD_JOBS, NULL, NULL);
    OK(bide_wait_recovered(queue, PATIENCE_MS, NULL));
    struct waiter *purge = new_op(BIDE_OP_PURGE, cq);
    purge->op.purge = (bide_purge_args){.topic = slice(a), .state = BIDE_STATE_READY};
    struct waiter *behind = new_op(BIDE_OP_RELEASE, cq);
    behind->op.release = (bide_release_args){.id = id, .token = job->token, .priority = BIDE_KEEP};
    bide_op *ops[] = {&purge->op, &behind->op};
    CHECK(bide_submit(queue, ops, 2) >= 0);
    for (size_t i = 0; i < 2; i++) {
        UNTIL(ops[i]->status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
        EQ(ops[i]->status, BIDE_OK);
    }
    EQ(purge->op.purge.count, OLD_JOBS);
    EQ(topic_of(queue, a).jobs.ready, 1);
    EQ(state_of(queue, id), BIDE_STATE_READY);
}

static void purge_of_an_unknown_topic_removes_0_jobs(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    uint64_t count = 42;
    OK(bide_purge(queue, a, BIDE_STATE_READY, &count));
    EQ(count, 0);
    OK(bide_purge(queue, a, BIDE_STATE_READY, NULL));
    CHECK(!topic_exists(queue, a));
}

static void draining_queue_rejects_puts_only(void)
{
    bide *queue = open_queue("");
    const char *a = fresh_topic("a");
    bide_slice topic = slice(a);
    uint64_t id = put(queue, a, "body"), made = 42;
    CHECK(!stats_of(queue).draining);
    OK(bide_drain(queue, true));
    OK(bide_drain(queue, true));
    CHECK(stats_of(queue).draining);
    CODE(bide_put(queue, a, "x", 1, NULL, &made), BIDE_DRAINING);
    EQ(made, 42);
    bide_put_item items[] = {{.topic = topic}, {.topic = topic}};
    size_t accepted = 42;
    OK(bide_put_many(queue, items, 2, &accepted));
    EQ(accepted, 0);
    EQ(items[0].status, BIDE_DRAINING);
    EQ(items[1].status, BIDE_DRAINING);
    CODE(bide_restore(queue, peek_job(queue, id), &made), BIDE_DRAINING);
    EQ(made, 42);

    OK(bide_release(queue, id, take(queue, a)->token, BIDE_KEEP, 0));
    OK(bide_bury(queue, id, take(queue, a)->token, BIDE_KEEP, NULL));
    OK(bide_kick(queue, a, 1, NULL));
    OK(bide_delete(queue, id, take(queue, a)->token));
    OK(bide_drain(queue, false));
    CHECK(!stats_of(queue).draining);
    put(queue, a, "body");
}

static void a_ping_is_answered(void)
{
    bide *queue = open_queue("");
    OK(bide_ping(queue));
}

static const struct test tests[] = {
    TEST(kick_takes_the_oldest_burial_first),
    TEST(kick_takes_at_most_its_maximum),
    TEST(kick_takes_delayed_jobs_only_if_none_is_buried),
    TEST(kick_of_buried_jobs_leaves_delayed_ones),
    TEST(kick_takes_the_soonest_delayed_job_first),
    TEST(kick_handles_thousands_of_jobs),
    TEST(a_kick_leaves_jobs_that_are_delayed_after_it_began),
    TEST(limited_kick_takes_the_soonest_of_the_existing_jobs),
    TEST(a_kick_leaves_jobs_that_are_released_with_a_delay_after_it_began),
    TEST(a_kick_leaves_jobs_that_are_buried_after_it_began),
    TEST(concurrent_kicks_take_different_jobs),
    TEST(kick_of_an_unknown_topic_kicks_0_jobs),
    TEST(kick_job_kicks_one_job),
    TEST(kick_job_accepts_only_buried_and_delayed_jobs),
    TEST(a_cancel_removes_a_job_that_is_not_reserved),
    TEST(cancel_of_a_reserved_job_is_reported_to_its_holder),
    TEST(cancelled_job_is_removed_when_its_lease_ends),
    TEST(a_cancelled_job_may_still_be_done),
    TEST(a_purge_removes_the_jobs_of_one_state),
    TEST(purge_handles_thousands_of_jobs),
    TEST(purge_leaves_jobs_put_after_its_start),
    TEST(purge_of_an_unknown_topic_removes_0_jobs),
    TEST(draining_queue_rejects_puts_only),
    TEST(a_ping_is_answered),
};

const struct theme admin_theme = {"admin", tests, COUNT(tests)};
