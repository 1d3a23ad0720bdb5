/* SPDX-License-Identifier: MIT */
/* chaos.c - everything at once and at random: every call is answered, and the figures add up. */
#include "chaos.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- chance, the same in every run ---- */

_Thread_local uint64_t dice;

uint64_t roll(uint64_t sides)
{
    dice += UINT64_C(0x9e3779b97f4a7c15);
    uint64_t z = dice;
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % sides;
}

bool one_in(uint64_t sides)
{
    return roll(sides) == 0;
}

const char *any_topic(void)
{
    static const char *const tags[] = {"a", "b", "c", "d"};
    return fresh_topic(tags[roll(COUNT(tags))]);
}

/* ---- figures ---- */

uint64_t all_of(const bide_counts *jobs)
{
    return jobs->delayed + jobs->ready + jobs->reserved + jobs->buried + jobs->done;
}

/* Both are looked at in one submit, between whose ops nothing happens. */
static void topics_add_up_to_the_queue(bide *queue)
{
    static bide_topic_stats topics[BIDE_BATCH_JOBS];
    bide_stats stats = {0};
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_cq *cq = NULL;
    if (!completes_in_submit())
        EQ(bide_cq_new(&cq), BIDE_OK);
    bide_op whole = {.kind = BIDE_OP_STATS, .cq = cq, .stats = {&stats}};
    bide_op parts = {.kind = BIDE_OP_TOPICS, .cq = cq};
    parts.topics = (bide_topics_args){cursor, topics, COUNT(topics), 0};
    bide_op *list[] = {&whole, &parts};
    EQ(bide_submit(queue, list, 2), cq ? 2 : 0);
    UNTIL(whole.status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
    UNTIL(parts.status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
    EQ(bide_cq_free(cq), BIDE_OK);
    EQ(whole.status, BIDE_OK);
    EQ(parts.status, BIDE_OK);
    EQ(parts.topics.count, stats.topics);
    bide_counts sum = {0};
    for (size_t i = 0; i < parts.topics.count; i++) {
        sum.delayed += topics[i].jobs.delayed;
        sum.ready += topics[i].jobs.ready;
        sum.reserved += topics[i].jobs.reserved;
        sum.buried += topics[i].jobs.buried;
        sum.done += topics[i].jobs.done;
        sum.urgent += topics[i].jobs.urgent;
    }
    EQ(sum.delayed, stats.jobs.delayed);
    EQ(sum.ready, stats.jobs.ready);
    EQ(sum.reserved, stats.jobs.reserved);
    EQ(sum.buried, stats.jobs.buried);
    EQ(sum.done, stats.jobs.done);
    EQ(sum.urgent, stats.jobs.urgent);
}

static int by_number(const void *a, const void *b)
{
    const uint64_t *left = a, *right = b;
    return (*left > *right) - (*left < *right);
}

/* Lists everything. False when something happened meanwhile: then nothing is known. */
static bool each_job_is_listed_once(bide *queue)
{
    static uint64_t ids[100000];
    static bide_job jobs[100];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t listed = 0, count = 0;
    bide_stats before = stats_of(queue);
    do {
        OK(bide_list(queue, NULL, BIDE_STATE_ANY, NULL, cursor, jobs, COUNT(jobs), &count));
        CHECK(listed + count <= COUNT(ids));
        for (size_t i = 0; i < count; i++)
            ids[listed++] = jobs[i].id;
        clear_jobs(jobs, count);
    } while (cursor[0] != '\0');
    bide_stats after = stats_of(queue);
    if (memcmp(&before.total, &after.total, sizeof before.total) != 0)
        return false;
    EQ(listed, all_of(&after.jobs));
    qsort(ids, listed, sizeof ids[0], by_number);
    for (size_t i = 1; i < listed; i++)
        CHECK(ids[i - 1] != ids[i]);
    return true;
}

void figures_add_up(bide *queue)
{
    topics_add_up_to_the_queue(queue);
    UNTIL(each_job_is_listed_once(queue));
}

/* ---- threads that do everything ---- */

#define LONG_TTR_MS 3600000
#define IDS_MAX     100000

static struct wild {
    bide *queue;
    uint64_t first_id;
    unsigned char held[IDS_MAX]; /* a thread has a lease that cannot have expired */
    uint64_t puts;
    uint64_t forgotten; /* done, and not kept */
} wild;

static uint64_t recent_id(void)
{
    uint64_t last = stats_of(wild.queue).last_id;
    uint64_t back = roll(60);
    return last > wild.first_id + back ? last - back : last + 1;
}

static void add(uint64_t *count, uint64_t more)
{
    __atomic_fetch_add(count, more, __ATOMIC_RELAXED);
}

static void hold(const bide_job *job, unsigned char before, unsigned char after)
{
    BETWEEN((int64_t)(job->id - wild.first_id), 0, IDS_MAX - 1);
    unsigned char *held = &wild.held[job->id - wild.first_id];
    if (job->ttr_ms == LONG_TTR_MS)
        EQ(__atomic_exchange_n(held, after, __ATOMIC_SEQ_CST), before);
}

static int done_somehow(const bide_job *job)
{
    int64_t retain_ms = (int64_t)roll(4) - 1;
    int code = bide_done(wild.queue, job->id, job->token, "result", 6, retain_ms);
    if (code == BIDE_OK && (retain_ms == BIDE_KEEP ? job->retain_ms : retain_ms) == 0)
        add(&wild.forgotten, 1);
    return code;
}

static int finish_somehow(const bide_job *job)
{
    switch (roll(8)) {
    case 0:
        return bide_release(wild.queue, job->id, job->token, (int64_t)roll(3), (int64_t)roll(3));
    case 1:
        return bide_fail(wild.queue, job->id, job->token, "bad", (int64_t)roll(3) - 1, NULL, NULL);
    case 2:
        return bide_bury(wild.queue, job->id, job->token, BIDE_KEEP, "odd");
    case 3:
        return bide_give_back(wild.queue, job->id, job->token);
    case 4:
    case 5:
        return done_somehow(job);
    default:
        return bide_delete(wild.queue, job->id, job->token);
    }
}

/* A holder whose lease is long must find it there, whatever the others do. */
static void work(const bide_job *job)
{
    bool safe = job->ttr_ms == LONG_TTR_MS;
    if (one_in(3))
        sched_yield();
    if (one_in(4)) {
        int code = bide_touch(wild.queue, job->id, job->token, 0, "on it");
        CHECK(!safe || code == BIDE_OK || code == BIDE_CANCEL_WANTED);
    }
    hold(job, 1, 0);
    int code = finish_somehow(job);
    CHECK(code == BIDE_OK || (!safe && (code == BIDE_LEASE_LOST || code == BIDE_NOT_FOUND)));
}

static void do_put(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = (uint32_t)roll(3);
    options.delay_ms = one_in(3) ? (int64_t)roll(4) : 0;
    options.ttr_ms = one_in(4) ? 1 + (int64_t)roll(3) : LONG_TTR_MS;
    options.retain_ms = one_in(3) ? (int64_t)roll(5) : 0;
    options.max_retries = (int32_t)roll(4) - 1;
    options.backoff_base_ms = options.backoff_max_ms = 1;
    options.expires_at_ms = one_in(9) ? wall_ms() + (int64_t)roll(3) : 0;
    options.key = one_in(5) ? slice(any_topic()) : (bide_slice){NULL, 0};
    options.conflict = one_in(2) ? BIDE_REPLACE : BIDE_REJECT;
    int code = bide_put(wild.queue, any_topic(), "body", 4, &options, NULL);
    CHECK(code == BIDE_OK || code == BIDE_EXISTS);
    add(&wild.puts, code == BIDE_OK);
}

static void do_reserve(void)
{
    bide_slice topics[] = {slice(any_topic()), slice(any_topic()), slice(any_topic())};
    bide_job jobs[4] = {0};
    bide_reserve_args args =
        reserve_args(topics, COUNT(topics), (int64_t)roll(2), jobs, 1 + roll(4));
    args.strategy = (bide_strategy)roll(4);
    int code = bide_reserve_many(wild.queue, &args);
    CHECK(code == BIDE_OK || code == BIDE_TIMED_OUT);
    for (size_t i = 0; i < args.count; i++)
        hold(&jobs[i], 0, 1);
    for (size_t i = 0; i < args.count; i++)
        work(&jobs[i]);
    clear_jobs(jobs, args.count);
}

static void do_reserve_job(void)
{
    bide_job job = {0};
    if (bide_reserve_job(wild.queue, recent_id(), &job) != BIDE_OK)
        return;
    hold(&job, 0, 1);
    work(&job);
    bide_job_clear(&job);
}

static void do_change(void)
{
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = recent_id();
    changes.priority = (int64_t)roll(3);
    changes.delay_ms = (int64_t)roll(3) - 1;
    changes.topic = one_in(3) ? slice(any_topic()) : (bide_slice){NULL, 0};
    CHECK(bide_update(wild.queue, &changes) >= 0);
    CHECK(bide_cancel(wild.queue, recent_id()) >= 0);
    CHECK(bide_kick_job(wild.queue, recent_id()) >= 0);
    OK(bide_kick(wild.queue, any_topic(), roll(20), NULL));
}

static void do_topic(void)
{
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    const char *topic = any_topic();
    OK(bide_topic_ref(wild.queue, topic, 1));
    if (one_in(6))
        OK(bide_pause(wild.queue, topic, (int64_t)roll(3)));
    if (one_in(6))
        OK(bide_purge(wild.queue, topic, states[roll(COUNT(states))], NULL));
    OK(bide_resume(wild.queue, topic));
    OK(bide_topic_ref(wild.queue, topic, -1));
}

static void do_look(void)
{
    bide_subscription *feed = NULL;
    bide_event events[4];
    bide_job job = {0};
    size_t count = 0;
    uint64_t id = 0;
    OK(bide_subscribe(wild.queue, one_in(2) ? any_topic() : NULL, 0, 2, &feed));
    if (bide_peek_first(wild.queue, any_topic(), (bide_state)(1 + roll(5)), &job) == BIDE_OK)
        add(&wild.puts, bide_restore(wild.queue, &job, &id) == BIDE_OK);
    bide_job_clear(&job);
    CHECK(bide_wait(wild.queue, recent_id(), (int64_t)roll(2), NULL, NULL) >= 0);
    CHECK(bide_events(wild.queue, feed, 0, events, COUNT(events), &count, NULL) >= 0);
    OK(bide_unsubscribe(wild.queue, feed));
}

static void *do_everything(void *arg)
{
    static void (*const deeds[])(void) = {do_put,     do_put,         do_put,     do_put,
                                          do_reserve, do_reserve,     do_reserve, do_put,
                                          do_look,    do_reserve_job, do_change,  do_topic};
    dice = *(uint64_t *)arg;
    for (int step = 0; step < 2000; step++)
        deeds[roll(COUNT(deeds))]();
    return NULL;
}

static void random_concurrent_ops_lose_and_duplicate_no_job(void)
{
    uint64_t seeds[] = {1, 2, 3, 4, 5, 6};
    pthread_t threads[COUNT(seeds)];
    wild.queue = open_queue("");
    bide_stats before = stats_of(wild.queue);
    wild.first_id = before.last_id + 1;
    for (size_t i = 0; i < COUNT(threads); i++)
        threads[i] = start_thread(do_everything, &seeds[i]);
    for (size_t i = 0; i < COUNT(threads); i++)
        join_thread(threads[i]);
    bide_stats after = stats_of(wild.queue);
    const bide_counters *total = &after.total;
    EQ(total->puts - before.total.puts, wild.puts);
    EQ(all_of(&before.jobs) + total->puts, all_of(&after.jobs) + total->deletes + wild.forgotten +
                                               total->expired + total->retired + total->purged);
    CHECK(total->reserves > 100 && total->deletes > 100 && wild.forgotten > 10);
    CHECK(total->expired > 0 && total->retired > 0 && total->purged > 0);
    EQ(after.waiting + after.watching, 0);
    figures_add_up(wild.queue);
}

/* ---- listing while the table grows and shrinks ---- */

enum { STABLE = 3000, PASSING = 6000, CHURNERS = 2 };

struct churn {
    bide *queue;
    const char *topics[CHURNERS];
    int next;
    int ended;
};

static void *come_and_go(void *arg)
{
    struct churn *churn = arg;
    const char *topic = churn->topics[__atomic_fetch_add(&churn->next, 1, __ATOMIC_RELAXED)];
    uint64_t *ids = calloc(PASSING, sizeof *ids);
    CHECK(ids != NULL);
    for (int round = 0; round < 3; round++) {
        for (size_t i = 0; i < PASSING; i++)
            ids[i] = put(churn->queue, topic, "passing");
        for (size_t i = 0; i < PASSING; i++)
            OK(bide_delete(churn->queue, ids[i], 0));
    }
    free(ids);
    __atomic_fetch_add(&churn->ended, 1, __ATOMIC_RELEASE);
    return NULL;
}

static void list_stable_jobs(const struct churn *churn, int round)
{
    static bide_job jobs[BIDE_BATCH_JOBS];
    static unsigned char seen[STABLE];
    char cursor[BIDE_CURSOR_SIZE] = "";
    size_t page = 100 + (size_t)(round * 37 % 900), count = 0;
    memset(seen, 0, sizeof seen);
    do {
        OK(bide_list(churn->queue, round % 2 ? churn->topics[0] : NULL,
                     round % 3 ? BIDE_STATE_READY : BIDE_STATE_ANY, NULL, cursor, jobs, page,
                     &count));
        for (size_t i = 0; i < count; i++)
            if (strcmp(jobs[i].body, "passing") != 0)
                EQ(seen[atoi(jobs[i].body)]++, 0);
        clear_jobs(jobs, count);
    } while (cursor[0] != '\0');
    for (size_t i = 0; i < STABLE; i++)
        EQ(seen[i], 1);
}

static void listing_has_each_job_once_while_others_change(void)
{
    struct churn churn = {.queue = open_queue(""), .topics = {fresh_topic("a"), fresh_topic("b")}};
    char body[16];
    for (int i = 0; i < STABLE; i++) {
        snprintf(body, sizeof body, "%d", i);
        put(churn.queue, churn.topics[0], body);
    }
    pthread_t threads[CHURNERS];
    for (size_t i = 0; i < CHURNERS; i++)
        threads[i] = start_thread(come_and_go, &churn);
    for (int round = 0; round < 60 && __atomic_load_n(&churn.ended, __ATOMIC_ACQUIRE) < CHURNERS;
         round++)
        list_stable_jobs(&churn, round);
    for (size_t i = 0; i < CHURNERS; i++)
        join_thread(threads[i]);
    list_stable_jobs(&churn, 0);
    EQ(stats_of(churn.queue).jobs.ready, STABLE);
}

/* ---- ops that are given up while they complete ---- */

enum { GIVEN_UP = 2000 };

static struct duel {
    bide *queue;
    const char *topic;
    uint64_t id;
    int spins; /* how long the other hesitates */
    pthread_barrier_t begin;
    pthread_barrier_t end;
} duel;

/* Every second op is a wait, which a done completes; the others are reserves. */
static void *complete_them(void *arg)
{
    (void)arg;
    for (int round = 0; round < GIVEN_UP; round++) {
        pthread_barrier_wait(&duel.begin);
        for (int i = 0; i < duel.spins; i++)
            sched_yield();
        if (round % 2)
            OK(bide_done(duel.queue, duel.id, 0, "result", 6, LONG_TTR_MS));
        else
            duel.id = put(duel.queue, duel.topic, "body");
        pthread_barrier_wait(&duel.end);
    }
    return NULL;
}

static struct waiter *begin_duel(bide_cq *cq, int round, const bide_slice *topic)
{
    if (round % 2 == 0)
        return begin_reserve(duel.queue, cq, topic, 1);
    duel.id = put_later(duel.queue, duel.topic, LONG_TTR_MS);
    return begin_wait(duel.queue, cq, duel.id);
}

/* A job that came with the op goes back, and is there for the next. */
static void end_duel(struct waiter *waiter, bool won)
{
    completes(waiter, won ? BIDE_OK : BIDE_CANCELLED);
    if (waiter->op.kind == BIDE_OP_RESERVE) {
        EQ(waiter->job.id, won ? duel.id : 0);
        if (won)
            OK(bide_give_back(duel.queue, duel.id, waiter->job.token));
        const bide_job *job = take(duel.queue, duel.topic);
        EQ(job->id, duel.id);
        OK(bide_delete(duel.queue, duel.id, job->token));
    } else {
        EQ(waiter->op.wait.state, won ? BIDE_STATE_DONE : BIDE_STATE_GONE);
        bide_buf_unref(waiter->op.wait.result);
        OK(bide_delete(duel.queue, duel.id, 0));
    }
    EQ(bide_cq_drain(waiter->op.cq, 0), 0);
    EQ(waiter->calls, 1);
}

static void op_cancelled_during_completion_completes_once(void)
{
    duel.queue = open_queue("");
    duel.topic = fresh_topic("a");
    bide_slice topic = slice(duel.topic);
    bide_cq *cq = new_cq();
    CHECK(pthread_barrier_init(&duel.begin, NULL, 2) == 0);
    CHECK(pthread_barrier_init(&duel.end, NULL, 2) == 0);
    pthread_t other = start_thread(complete_them, NULL);
    for (int round = 0; round < GIVEN_UP; round++) {
        struct waiter *waiter = begin_duel(cq, round, &topic);
        duel.spins = (int)roll(3);
        int spins = (int)roll(3);
        pthread_barrier_wait(&duel.begin);
        for (int i = 0; i < spins; i++)
            sched_yield();
        EQ(bide_cancel_op(duel.queue, &waiter->op), BIDE_OK);
        pthread_barrier_wait(&duel.end);
        UNTIL(bide_cq_drain(cq, 0) >= 0 && waiter->op.status != BIDE_PENDING);
        end_duel(waiter, waiter->op.status == BIDE_OK);
    }
    join_thread(other);
    CHECK(!topic_exists(duel.queue, duel.topic));
    pthread_barrier_destroy(&duel.begin);
    pthread_barrier_destroy(&duel.end);
}

static const struct test tests[] = {
    TEST(random_concurrent_ops_lose_and_duplicate_no_job),
    TEST(listing_has_each_job_once_while_others_change),
    TEST(op_cancelled_during_completion_completes_once),
};

const struct theme chaos_theme = {"chaos", tests, COUNT(tests)};
