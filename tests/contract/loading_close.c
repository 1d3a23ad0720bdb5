/* SPDX-License-Identifier: MIT */
/* loading_close.c - workers, cancels, shutdowns and closes while jobs are still being loaded. */
#include "backlog.h"
#include "chaos.h"

#include <string.h>

/* ---- workers that do not wait ---- */

static struct crew {
    struct backlog *backlog;
    bide *queue;
    unsigned char taken[BACKLOG_JOBS + BACKLOG_SPOTS * BACKLOG_KINDS + 1];
    unsigned count;
} crew;

/* Takes and deletes until nothing is left; who finds nothing waits a little for more. */
static void *work_off(void *arg)
{
    (void)arg;
    uint64_t first = crew.backlog->ids[0][BIDE_STATE_DELAYED];
    bide_slice topic = slice(crew.backlog->large);
    bide_job jobs[50];
    bide_finish_item items[50];
    for (int i = 0; i <= BACKLOG_JOBS; i++) {
        bide_reserve_args args = reserve_args(&topic, 1, 20, jobs, COUNT(jobs));
        int code = bide_reserve_many(crew.queue, &args);
        unsigned count = __atomic_load_n(&crew.count, __ATOMIC_RELAXED);
        if (code == BIDE_TIMED_OUT && count == BACKLOG_JOBS)
            return NULL;
        if (code == BIDE_TIMED_OUT)
            continue;
        OK(code);
        for (size_t j = 0; j < args.count; j++) {
            items[j] = (bide_finish_item){.id = jobs[j].id, .token = jobs[j].token};
            TEXT(jobs[j].body, jobs[j].body_size, "x");
            EQ(__atomic_fetch_add(&crew.taken[jobs[j].id - first], 1, __ATOMIC_RELAXED), 0);
        }
        clear_jobs(jobs, args.count);
        OK(bide_finish_many(crew.queue, items, args.count));
        for (size_t j = 0; j < args.count; j++)
            EQ(items[j].status, BIDE_OK);
        __atomic_fetch_add(&crew.count, (unsigned)args.count, __ATOMIC_RELAXED);
    }
    return NULL;
}

static void workers_started_during_loading_get_every_job_once(void)
{
    pthread_t threads[4];
    crew.backlog = new_backlog();
    crew.queue = open_backlog(crew.backlog);
    for (size_t i = 0; i < COUNT(threads); i++)
        threads[i] = start_thread(work_off, NULL);
    for (size_t i = 0; i < COUNT(threads); i++)
        join_thread(threads[i]);
    EQ(crew.count, BACKLOG_JOBS);
    CHECK(!topic_exists(crew.queue, crew.backlog->large));
    crew.queue = reopen_at_once(crew.queue);
    CHECK(!topic_exists(crew.queue, crew.backlog->large));
    EQ(stats_of(crew.queue).jobs.ready, 2 * BACKLOG_SPOTS);
}

static void waiting_reserve_gets_a_loaded_job(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = backlog->ids[2][BIDE_STATE_READY];
    changes.topic = slice(fresh_topic("last"));
    OK(bide_update(queue, &changes));
    for (int round = 0; round < 5; round++) {
        queue = reopen_at_once(queue);
        const bide_job *job = await(queue, fresh_topic("last"));
        EQ(job->id, changes.id);
        if (!is_in_process()) /* the server keeps leases */
            OK(bide_give_back(queue, job->id, job->token));
    }
    queue = reopen_at_once(queue);
    bide_slice topic = slice(fresh_topic("last"));
    struct waiter *waiter = new_op(BIDE_OP_RESERVE, new_cq());
    waiter->op.reserve = reserve_args(&topic, 1, BIDE_FOREVER, &waiter->job, 1);
    submit_code(queue, waiter, BIDE_OK);
    EQ(waiter->job.id, changes.id);
}

static void puts_and_deletes_work_during_loading(void)
{
    struct backlog *backlog = new_backlog();
    uint64_t ids[200];
    bide *queue = open_backlog(backlog);
    dice = 11;
    for (size_t i = 0; i < COUNT(ids); i++) {
        ids[i] = put(queue, backlog->large, "new");
        CHECK(ids[i] > backlog->last_id && (i == 0 || ids[i] > ids[i - 1]));
        if (one_in(2)) {
            OK(bide_delete(queue, ids[i], 0));
            ids[i] = 0;
        }
        /* Some of the old ones, wherever the loading has come to. */
        uint64_t old = backlog->ids[1][BIDE_STATE_DONE] + 1 + i * 13;
        OK(bide_delete(queue, old, 0));
        EQ(state_of(queue, old), BIDE_STATE_GONE);
    }
    uint64_t left = BACKLOG_JOBS - COUNT(ids);
    for (size_t i = 0; i < COUNT(ids); i++)
        left += ids[i] != 0;
    EQ(topic_of(queue, backlog->large).jobs.ready, left);
    queue = reopen_at_once(queue);
    EQ(topic_of(queue, backlog->large).jobs.ready, left);
    EQ(topic_of(queue, backlog->small).jobs.buried, BACKLOG_SPOTS);
    figures_add_up(queue);
}

/* ---- ops that are given up ---- */

static struct waiter *new_kind(bide_op_kind kind, bide_cq *cq, const struct backlog *backlog)
{
    static bide_topic_stats stats[64];
    static bide_stats whole[64];
    static char cursors[64][BIDE_CURSOR_SIZE];
    static size_t made;
    static bide_slice small;
    struct waiter *waiter = new_op(kind, cq);
    small = slice(backlog->small);
    size_t mine = made++ % COUNT(stats);
    cursors[mine][0] = '\0';
    if (kind == BIDE_OP_STATS)
        waiter->op.stats.stats = &whole[mine];
    else if (kind == BIDE_OP_TOPIC_STATS)
        waiter->op.topic_stats = (bide_topic_stats_args){small, &stats[mine]};
    else if (kind == BIDE_OP_TOPICS)
        waiter->op.topics = (bide_topics_args){cursors[mine], &stats[mine], 1, 0};
    else if (kind == BIDE_OP_LIST)
        waiter->op.list = (bide_list_args){
            .topic = small, .cursor = cursors[mine], .jobs = &waiter->job, .job_max = 1};
    else if (kind == BIDE_OP_KICK)
        waiter->op.kick = (bide_kick_args){.topic = small, .max = 1};
    else if (kind == BIDE_OP_PURGE)
        waiter->op.purge = (bide_purge_args){slice("nothing"), BIDE_STATE_READY, 0};
    else if (kind == BIDE_OP_RESERVE)
        waiter->op.reserve = reserve_args(&small, 1, BIDE_FOREVER, &waiter->job, 1);
    else if (kind == BIDE_OP_KICK_JOB)
        waiter->op.lease.id = backlog->ids[2][BIDE_STATE_DELAYED];
    else
        waiter->op.query = (bide_query_args){.id = backlog->ids[2][BIDE_STATE_DONE],
                                             .topic = small,
                                             .state = BIDE_STATE_DONE,
                                             .key = slice(backlog->keys[2][BIDE_STATE_DONE]),
                                             .job = &waiter->job};
    return waiter;
}

static const bide_op_kind kinds[] = {BIDE_OP_STATS,      BIDE_OP_TOPIC_STATS, BIDE_OP_TOPICS,
                                     BIDE_OP_LIST,       BIDE_OP_KICK,        BIDE_OP_PURGE,
                                     BIDE_OP_RESERVE,    BIDE_OP_KICK_JOB,    BIDE_OP_PEEK,
                                     BIDE_OP_PEEK_FIRST, BIDE_OP_FIND,        BIDE_OP_JOB_STATS};

static void submit_all(bide *queue, struct waiter **waiters)
{
    bide_op *ops[COUNT(kinds)];
    for (size_t i = 0; i < COUNT(kinds); i++)
        ops[i] = &waiters[i]->op;
    CHECK(bide_submit(queue, ops, COUNT(kinds)) >= 0);
}

static bool is_one_of(int code, int one, int two)
{
    return code == one || code == two;
}

static void op_that_waits_for_loading_can_be_cancelled(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    for (int round = 0; round < 3; round++) {
        bide *queue = open_backlog(backlog);
        struct waiter *waiters[COUNT(kinds)];
        for (size_t i = 0; i < COUNT(kinds); i++)
            waiters[i] = new_kind(kinds[i], cq, backlog);
        submit_all(queue, waiters);
        for (size_t i = 0; i < COUNT(kinds); i++)
            if (waiters[i]->op.status == BIDE_PENDING)
                EQ(bide_cancel_op(queue, &waiters[i]->op), BIDE_OK);
        for (size_t i = 0; i < COUNT(kinds); i++) {
            UNTIL(waiters[i]->op.status != BIDE_PENDING || bide_cq_wait(cq, 10) < 0);
            int code = waiters[i]->op.status;
            /* At a server the lease of a reserve outlives the restart. */
            bool gone = kinds[i] == BIDE_OP_KICK_JOB && round > 0 &&
                        (code == BIDE_WRONG_STATE || (code == BIDE_RESERVED && !is_in_process()));
            CHECK(gone || is_one_of(code, BIDE_OK, BIDE_CANCELLED));
            CHECK(waiters[i]->calls <= 1);
        }
        leave_queue(queue);
    }
}

/* ---- the end ---- */

static void a_queue_can_be_closed_at_once_after_it_was_opened(void)
{
    struct backlog *backlog = new_backlog();
    for (int i = 0; i < 30; i++) {
        bide *queue = open_backlog(backlog);
        if (i % 3 == 1)
            nap_ms(i % 7);
        leave_queue(queue);
    }
    bide *queue = open_backlog(backlog);
    BACKLOG_IS_WHOLE(backlog, queue);
}

static void close_completes_ops_that_wait_for_loading(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    for (int round = 0; round < 10; round++) {
        bide *queue = open_backlog(backlog);
        struct waiter *waiters[COUNT(kinds)];
        for (size_t i = 0; i < COUNT(kinds); i++)
            waiters[i] = new_kind(kinds[i], cq, backlog);
        submit_all(queue, waiters);
        leave_queue(queue);
        CHECK(bide_cq_drain(cq, 0) >= 0);
        for (size_t i = 0; i < COUNT(kinds); i++) {
            int code = waiters[i]->op.status;
            /* At a server the lease of a reserve outlives the restart. */
            bool gone = kinds[i] == BIDE_OP_KICK_JOB && round > 0 &&
                        (code == BIDE_WRONG_STATE || (code == BIDE_RESERVED && !is_in_process()));
            CHECK(gone || is_one_of(code, BIDE_OK, BIDE_CLOSED));
            CHECK(waiters[i]->calls <= 1);
        }
    }
    bide *queue = open_backlog(backlog);
    EQ(topic_of(queue, backlog->large).jobs.ready, BACKLOG_JOBS);
    EQ(topic_of(queue, backlog->small).jobs.done, BACKLOG_SPOTS);
}

static void *ask_for_figures(void *arg)
{
    bide_stats stats;
    int code = bide_queue_stats(arg, &stats);
    CHECK(is_one_of(code, BIDE_OK, BIDE_CLOSED));
    if (code == BIDE_OK)
        EQ(stats.jobs.done, BACKLOG_SPOTS);
    return NULL;
}

static void shutdown_does_not_stop_loading(void)
{
    struct backlog *backlog = new_backlog();
    for (int round = 0; round < 3; round++) {
        bide *queue = open_backlog(backlog);
        pthread_t thread = start_thread(ask_for_figures, queue);
        bide_job job = {0};
        OK(bide_shutdown(queue));
        CODE(bide_reserve(queue, backlog->large, 0, &job), BIDE_CLOSED);
        CODE(bide_reserve_job(queue, backlog->ids[2][BIDE_STATE_READY], &job), BIDE_CLOSED);
        EQ(state_of(queue, backlog->ids[2][BIDE_STATE_READY]), BIDE_STATE_READY);
        uint64_t id = put(queue, backlog->large, "new");
        OK(bide_delete(queue, id, 0));
        OK(bide_shutdown(queue));
        join_thread(thread);
        leave_queue(queue);
    }
    bide *queue = open_backlog(backlog);
    EQ(topic_of(queue, backlog->large).jobs.ready, BACKLOG_JOBS);
}

/* The process ends while it loads: the next one finds the same. */
static void leave_at_once(bide *queue)
{
    (void)queue;
}

static void crash_while_loading_loses_no_job(void)
{
    char location[LOCATION_SIZE];
    struct backlog *backlog = new_backlog();
    memcpy(location, backlog->location, sizeof location);
    for (int i = 0; i < 10; i++)
        crash_during(location, "", leave_at_once);
    bide *queue = open_backlog(backlog);
    BACKLOG_IS_WHOLE(backlog, queue);
}

static const struct test tests[] = {
    TEST(workers_started_during_loading_get_every_job_once),
    TEST(waiting_reserve_gets_a_loaded_job),
    TEST(puts_and_deletes_work_during_loading),
    TEST(op_that_waits_for_loading_can_be_cancelled),
    TEST(a_queue_can_be_closed_at_once_after_it_was_opened),
    TEST(close_completes_ops_that_wait_for_loading),
    TEST(shutdown_does_not_stop_loading),
    TEST(crash_while_loading_loses_no_job),
};

const struct theme loading_close_theme = {"loading_close", tests, COUNT(tests)};
