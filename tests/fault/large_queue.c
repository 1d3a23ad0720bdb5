/* SPDX-License-Identifier: MIT */
/*
 * large_queue.c - what a queue with very many jobs does in one go must come out right, and must not
 * keep the lock: while it is held, no call of any thread is answered.
 *
 * In a build with -Dlock_stats=true there are a million jobs, and no hold may take too long
 * (lock_limit.h). Other builds take fewer jobs and check the outcome only.
 */
#include "lock_limit.h"
#include "vfs.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#ifdef BIDE_LOCK_STATS
#define JOBS UINT64_C(1000000)
#else
#define JOBS UINT64_C(20000)
#endif

#if defined(__has_feature)
#if __has_feature(address_sanitizer) || __has_feature(thread_sanitizer)
#define SANITIZED /* takes memory of its own */
#endif
#endif

#define LOTS   1000 /* jobs in one call */
#define BURIED UINT64_C(10000)
#define CALLS  100000
#define TOPIC  "work"
#define BUSY   600000           /* ms that only a hang exceeds */
#define STRIDE UINT64_C(618033) /* scatters ids */

/* ---- a full queue ---- */

/* Puts that many jobs; their ids follow one another. Answers the first. */
static uint64_t fill(bide *queue, uint64_t count, const bide_put_options *options, size_t body_size)
{
    static bide_put_item items[LOTS];
    static const char body[1000];
    uint64_t first = 0;
    for (uint64_t done = 0; done < count; done += LOTS) {
        for (size_t i = 0; i < LOTS; i++)
            items[i] = (bide_put_item){
                .topic = slice_of(TOPIC), .body = {body, body_size}, .options = options};
        OK(bide_put_many(queue, items, LOTS, NULL));
        lock_limit_part();
        EQ(items[LOTS - 1].status, BIDE_OK);
        if (first == 0)
            first = items[0].id;
        EQ(items[LOTS - 1].id, first + done + LOTS - 1);
    }
    return first;
}

/* Ends unreserved jobs, with results or without. */
static void finish(bide *queue, uint64_t first, uint64_t count, bool keep)
{
    static bide_finish_item items[LOTS];
    for (uint64_t done = 0; done < count; done += LOTS) {
        for (size_t i = 0; i < LOTS; i++)
            items[i] = (bide_finish_item){
                .id = first + done + i, .keep = keep, .retain_ms = keep ? HOUR_MS : 0};
        OK(bide_finish_many(queue, items, LOTS));
        lock_limit_part();
        EQ(items[0].status, BIDE_OK);
    }
}

static bide_counts counts_of(bide *queue)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    return stats.jobs;
}

static void check_sound(bide *queue)
{
    bide_check_report report;
    OK(bide_check(queue, &report));
    if (report.problem[0] != 0)
        FAIL("the check says: %s", report.problem);
}

static bide *open_loaded(const char *parameters)
{
    bide *queue = NULL;
    OK(bide_open(url_of("jobs.db", parameters), NULL, &queue));
    OK(bide_wait_recovered(queue, BUSY, NULL));
    return queue;
}

/* ---- many calls at a time ---- */

struct calls {
    bide_cq *cq;
    bide_op *ops;
    size_t count, answered;
    int code; /* that all of them must have */
};

static void on_answer(bide_op *op)
{
    struct calls *calls = op->user;
    if (op->status != calls->code)
        FAIL("%s answered %d, not %d: %s", bide_op_name(op->kind), op->status, calls->code,
             op->error);
    calls->answered++;
}

static struct calls *new_calls(size_t count, int code)
{
    struct calls *calls = calloc(1, sizeof(*calls));
    CHECK(calls != NULL);
    calls->ops = calloc(count, sizeof(*calls->ops));
    CHECK(calls->ops != NULL);
    OK(bide_cq_new(&calls->cq));
    calls->code = code;
    return calls;
}

static bide_op *add_call(struct calls *calls, bide_op_kind kind)
{
    bide_op *op = &calls->ops[calls->count++];
    op->kind = kind;
    op->cq = calls->cq;
    op->done = on_answer;
    op->user = calls;
    return op;
}

static void submit_calls(bide *queue, struct calls *calls)
{
    bide_op *list[LOTS];
    for (size_t first = 0; first < calls->count; first += LOTS) {
        size_t count = calls->count - first < LOTS ? calls->count - first : LOTS;
        for (size_t i = 0; i < count; i++)
            list[i] = &calls->ops[first + i];
        EQ(bide_submit(queue, list, count), (int)count);
    }
}

static void end_calls(struct calls *calls)
{
    while (calls->answered < calls->count) {
        CHECK(bide_cq_wait(calls->cq, BUSY) >= 0);
        bide_cq_drain(calls->cq, LOTS);
    }
    OK(bide_cq_free(calls->cq));
    free(calls->ops);
    free(calls);
}

/* ---- commits that fail ---- */

static void fail_next_commit(void)
{
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
}

/* Calls are made while the store is busy, and then none of them can be stored. */
static void fail_calls(bide *queue, struct calls *calls, const char *what)
{
    lock_limit_begin();
    fail_next_commit();
    vfs_freeze();
    submit_calls(queue, calls);
    vfs_thaw();
    end_calls(calls);
    LOCK_LIMIT(what);
    check_sound(queue);
}

static void delete_scattered(struct calls *calls, uint64_t first, uint64_t count, size_t n)
{
    for (size_t i = 0; i < n; i++)
        add_call(calls, BIDE_OP_DELETE)->lease.id = first + i * STRIDE % count;
}

static void failed_commit_restores_scattered_jobs(void)
{
    vfs_install();
    bide *queue = open_loaded("sync=off&cache_bytes=1");
    uint64_t first = fill(queue, JOBS, NULL, 10);
    struct calls *calls = new_calls(20, BIDE_EIO);
    delete_scattered(calls, first, JOBS, 20);
    fail_calls(queue, calls, "rollback of 20 deletes");
    size_t many = JOBS / 10 < CALLS - LOTS ? JOBS / 10 : CALLS - LOTS;
    calls = new_calls(many, BIDE_EIO);
    delete_scattered(calls, first, JOBS, many);
    fail_calls(queue, calls, "rollback of 99,000 deletes");
    EQ(counts_of(queue).ready, JOBS);
    OK(bide_close(queue));
}

static void on_log(void *compared, bide_log_level level, const char *text)
{
    (void)level;
    if (strstr(text, "has everything") != NULL)
        __atomic_store_n((bool *)compared, true, __ATOMIC_RELEASE);
}

/* After a failed write all jobs are compared with the file: neither that nor a check of everything
 * holds the lock for long, and calls are answered meanwhile. */
static void all_jobs_are_compared_in_slices(void)
{
    vfs_install();
    bool compared = false;
    bide_options options = BIDE_OPTIONS_INIT;
    options.log = on_log;
    options.log_user = &compared;
    bide *queue = NULL;
    OK(bide_open(url_of("jobs.db", "sync=off&cache_bytes=1"), &options, &queue));
    uint64_t first = fill(queue, JOBS, NULL, 10);
    lock_limit_begin();
    fail_next_commit();
    CODE(bide_delete(queue, first, 0), BIDE_EIO);
    for (uint64_t i = 0; i < 2000; i++)
        OK(bide_delete(queue, first + i * STRIDE % JOBS, 0));
    int64_t limit_us = clock_us() + BUSY * 1000;
    while (!__atomic_load_n(&compared, __ATOMIC_ACQUIRE) && clock_us() < limit_us)
        OK(bide_put(queue, TOPIC, "body", 4, NULL, &first) || bide_delete(queue, first, 0));
    CHECK(compared);
    LOCK_LIMIT("comparison with the file, and deletes");
#ifndef BIDE_LOCK_STATS /* which looks at the lists of the core, too */
    bide_check_report report;
    OK(bide_check(queue, &report));
    EQ(report.differences, 0);
    EQ(report.jobs, JOBS - 2000);
#endif
    OK(bide_close(queue));
}

static void a_failed_commit_buries_scattered_jobs_again(void)
{
    vfs_install();
    bide *queue = open_loaded("sync=off&cache_bytes=1");
    uint64_t first = fill(queue, BURIED, NULL, 10);
    struct calls *calls = new_calls(BURIED, BIDE_OK);
    for (uint64_t i = 0; i < BURIED; i++) {
        bide_op *op = add_call(calls, BIDE_OP_BURY);
        op->bury.id = first + i * STRIDE % BURIED;
        op->bury.priority = BIDE_KEEP;
    }
    submit_calls(queue, calls);
    end_calls(calls);
    calls = new_calls(40, BIDE_EIO);
    for (uint64_t i = 0; i < 20; i++)
        add_call(calls, BIDE_OP_KICK_JOB)->lease.id = first + i * STRIDE % BURIED;
    delete_scattered(calls, first + 1, BURIED / 2, 20);
    fail_calls(queue, calls, "rollback of 20 kicks");
    uint64_t count;
    for (uint64_t i = 0; i < BURIED; i++) { /* kick takes the oldest burial first */
        OK(bide_kick(queue, TOPIC, 1, &count));
        bide_job job;
        OK(bide_reserve(queue, TOPIC, 0, &job));
        EQ(job.id, first + i * STRIDE % BURIED);
        OK(bide_delete(queue, job.id, job.token));
        bide_job_clear(&job);
    }
    OK(bide_close(queue));
}

static void failed_commit_removes_new_jobs(void)
{
    static const char body[] = "body";
    vfs_install();
    bide *queue = open_loaded("sync=off");
    fill(queue, JOBS, NULL, 10);
    size_t many = JOBS / 10 < CALLS - LOTS ? JOBS / 10 : CALLS - LOTS;
    struct calls *calls = new_calls(many, BIDE_EIO);
    for (size_t i = 0; i < many; i++)
        add_call(calls, BIDE_OP_PUT)->put =
            (bide_put_item){.topic = slice_of(TOPIC), .body = {body, 4}};
    fail_calls(queue, calls, "rollback of 99,000 puts");
    EQ(counts_of(queue).ready, JOBS);
    OK(bide_close(queue));
}

/* ---- calls while a commit is undone ---- */

#define UNDONE UINT64_C(20000) /* jobs, all of which are deleted by one commit that fails */
#define ROUNDS 50

/* Calls of a thread of its own: figures, and if these have to wait a put, a reserve of that job, a
 * topic that is held and whose name is gone after the submit, and a reserve that never gets a job
 * and is cancelled. */
struct visit {
    bide_op figures, put, reserve, hold, cancelled;
    char name[8];
    bide_topic_stats stats;
    bide_job job, none;
    int pending;
};

struct visitor {
    bide *queue;
    bide_cq *cq;
    bool stop;
    unsigned met;        /* visits that came while the commit was undone */
    uint64_t put_stored; /* by the thread that blocks */
};

static void on_visited(bide_op *op)
{
    --*(int *)op->user;
}

static bide_op *visit_op(const struct visitor *visitor, struct visit *visit, bide_op *op,
                         bide_op_kind kind)
{
    op->kind = kind;
    op->cq = visitor->cq;
    op->done = on_visited;
    op->user = &visit->pending;
    return op;
}

static void submit_figures(const struct visitor *visitor, struct visit *visit)
{
    bide_op *op = visit_op(visitor, visit, &visit->figures, BIDE_OP_TOPIC_STATS);
    op->topic_stats.topic = slice_of(TOPIC);
    op->topic_stats.stats = &visit->stats;
    visit->pending = bide_submit(visitor->queue, &op, 1);
    if (visit->pending > 0)
        return;
    EQ(op->status, BIDE_OK);
    if (visit->stats.jobs.ready != UNDONE && visit->stats.jobs.ready != 0)
        FAIL("%" PRIu64 " of %" PRIu64 " jobs are seen", visit->stats.jobs.ready, UNDONE);
}

static void submit_rest(const struct visitor *visitor, struct visit *visit)
{
    static const bide_slice topics[] = {{"visit", 5}, {"never", 5}};
    bide_op *ops[] = {visit_op(visitor, visit, &visit->put, BIDE_OP_PUT),
                      visit_op(visitor, visit, &visit->reserve, BIDE_OP_RESERVE),
                      visit_op(visitor, visit, &visit->hold, BIDE_OP_TOPIC_REF),
                      visit_op(visitor, visit, &visit->cancelled, BIDE_OP_RESERVE)};
    visit->put.put = (bide_put_item){.topic = topics[0], .body = slice_of("body")};
    visit->reserve.reserve = (bide_reserve_args){
        .topics = &topics[0], .topic_count = 1, .jobs = &visit->job, .job_max = 1};
    memcpy(visit->name, "held", 5);
    visit->hold.topic = (bide_topic_args){.topic = slice_of(visit->name), .delta = 1};
    visit->cancelled.reserve = (bide_reserve_args){.topics = &topics[1],
                                                   .topic_count = 1,
                                                   .timeout_ms = BIDE_FOREVER,
                                                   .jobs = &visit->none,
                                                   .job_max = 1};
    visit->pending += bide_submit(visitor->queue, ops, COUNT(ops));
    memset(visit->name, 'x', 4);
    OK(bide_cancel_op(visitor->queue, &visit->cancelled));
}

/* Figures are never held: if they have to wait, the visit has met the undoing. Then everything is
 * undone when they come, and what was submitted behind them is carried out, in order. */
static void visit_once(struct visitor *visitor)
{
    struct visit visit;
    memset(&visit, 0, sizeof(visit));
    submit_figures(visitor, &visit);
    if (visit.pending == 0)
        return;
    visitor->met++;
    submit_rest(visitor, &visit);
    while (visit.pending > 0) {
        CHECK(bide_cq_wait(visitor->cq, BUSY) >= 0);
        bide_cq_drain(visitor->cq, LOTS);
    }
    EQ(visit.figures.status, BIDE_OK);
    EQ(visit.stats.jobs.ready, UNDONE);
    EQ(visit.put.status, BIDE_OK);
    EQ(visit.reserve.status, BIDE_OK);
    EQ(visit.job.id, visit.put.put.id);
    OK(bide_delete(visitor->queue, visit.job.id, visit.job.token));
    bide_job_clear(&visit.job);
    EQ(visit.hold.status, BIDE_OK);
    OK(bide_topic_ref(visitor->queue, "held", -1));
    EQ(visit.cancelled.status, BIDE_CANCELLED);
}

static void *run_visits(void *arg)
{
    struct visitor *visitor = arg;
    while (!__atomic_load_n(&visitor->stop, __ATOMIC_ACQUIRE))
        visit_once(visitor);
    return NULL;
}

/* Blocking calls, whose answers must be true. */
static void *run_puts(void *arg)
{
    struct visitor *visitor = arg;
    while (!__atomic_load_n(&visitor->stop, __ATOMIC_ACQUIRE)) {
        int code = bide_put(visitor->queue, "blocking", "body", 4, NULL, NULL);
        if (code != BIDE_EIO)
            OK(code);
        visitor->put_stored += code == BIDE_OK;
    }
    return NULL;
}

static struct calls *delete_all(bide *queue, uint64_t first)
{
    struct calls *calls = new_calls(UNDONE, BIDE_EIO);
    for (uint64_t i = 0; i < UNDONE; i++)
        add_call(calls, BIDE_OP_DELETE)->lease.id = first + i;
    fail_next_commit();
    vfs_freeze();
    submit_calls(queue, calls);
    return calls;
}

static void calls_wait_while_a_commit_is_undone(void)
{
    vfs_install();
    struct visitor visitor = {.queue = open_loaded("sync=off")};
    uint64_t first = fill(visitor.queue, UNDONE, NULL, 10);
    OK(bide_cq_new(&visitor.cq));
    for (int i = 0; i < ROUNDS && visitor.met == 0; i++) {
        pthread_t visits;
        pthread_t puts;
        struct calls *calls = delete_all(visitor.queue, first);
        __atomic_store_n(&visitor.stop, false, __ATOMIC_RELEASE);
        CHECK(pthread_create(&visits, NULL, run_visits, &visitor) == 0);
        CHECK(pthread_create(&puts, NULL, run_puts, &visitor) == 0);
        vfs_thaw();
        end_calls(calls);
        __atomic_store_n(&visitor.stop, true, __ATOMIC_RELEASE);
        pthread_join(visits, NULL);
        pthread_join(puts, NULL);
    }
    CHECK(visitor.met > 0);
    EQ(counts_of(visitor.queue).ready, UNDONE + visitor.put_stored);
    check_sound(visitor.queue);
    OK(bide_cq_free(visitor.cq));
    OK(bide_close(visitor.queue));
}

#define RELEASED ((size_t)20)

/* Releases while a commit is rolled back and the limit of pending ops is reached. */
struct releases {
    bide *queue;
    bide_subscription *feeds[RELEASED];
    bool stop, met;
};

/* Statistics wait only during a rollback, and are rejected only if too many ops are pending. */
static bool meets_the_limit(const struct releases *visit, bide_cq *cq)
{
    bide_topic_stats stats;
    bide_op figures = {.kind = BIDE_OP_TOPIC_STATS, .cq = cq};
    bide_op *op = &figures;
    figures.topic_stats = (bide_topic_stats_args){slice_of(TOPIC), &stats};
    if (bide_submit(visit->queue, &op, 1) > 0)
        CHECK(bide_cq_wait(cq, BUSY) == 1);
    return figures.status == BIDE_EBUSY;
}

static void *run_releases(void *arg)
{
    struct releases *visit = arg;
    struct calls *calls = new_calls(2 * RELEASED, BIDE_OK);
    while (!visit->met && !__atomic_load_n(&visit->stop, __ATOMIC_ACQUIRE))
        visit->met = meets_the_limit(visit, calls->cq);
    for (size_t i = 0; i < RELEASED; i++) {
        add_call(calls, BIDE_OP_UNSUBSCRIBE)->subscription.handle = visit->feeds[i];
        add_call(calls, BIDE_OP_TOPIC_REF)->topic =
            (bide_topic_args){.topic = slice_of("held"), .delta = -1};
    }
    for (size_t i = 0; i < calls->count; i++) {
        bide_op *op = &calls->ops[i];
        if (bide_submit(visit->queue, &op, 1) == 0)
            on_answer(op);
    }
    end_calls(calls);
    return NULL;
}

static void releases_are_accepted_although_too_many_ops_wait_for_a_rollback(void)
{
    char parameters[100];
    struct releases visit = {.met = false};
    vfs_install();
    snprintf(parameters, sizeof(parameters), "sync=off&max_pending_ops=%" PRIu64, UNDONE);
    visit.queue = open_loaded(parameters);
    uint64_t first = fill(visit.queue, UNDONE, NULL, 10);
    for (int i = 0; i < ROUNDS && !visit.met; i++) {
        pthread_t thread;
        bide_topic_stats stats;
        for (size_t k = 0; k < RELEASED; k++) {
            OK(bide_topic_ref(visit.queue, "held", 1));
            OK(bide_subscribe(visit.queue, NULL, 0, 1, &visit.feeds[k]));
        }
        struct calls *calls = delete_all(visit.queue, first);
        __atomic_store_n(&visit.stop, false, __ATOMIC_RELEASE);
        CHECK(pthread_create(&thread, NULL, run_releases, &visit) == 0);
        vfs_thaw();
        end_calls(calls);
        __atomic_store_n(&visit.stop, true, __ATOMIC_RELEASE);
        pthread_join(thread, NULL);
        CODE(bide_topic_get_stats(visit.queue, "held", &stats), BIDE_NOT_FOUND);
    }
    CHECK(visit.met);
    OK(bide_close(visit.queue));
}

static void close_during_a_rollback_completes_all_ops(void)
{
    vfs_install();
    bide *queue = open_loaded("sync=off");
    uint64_t first = fill(queue, UNDONE, NULL, 10);
    struct calls *calls = delete_all(queue, first);
    vfs_thaw();
    OK(bide_shutdown(queue));
    OK(bide_close(queue));
    end_calls(calls);
    queue = open_loaded("sync=off");
    EQ(counts_of(queue).ready, UNDONE);
    OK(bide_close(queue));
}

/* ---- time ---- */

/* A queue in memory with jobs that all come due at *due, on the wall clock, and nothing before. */
static bide *open_with_run_at_jobs(int64_t *due)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    for (int64_t ahead = (int64_t)(JOBS / 100) + 300;;
         ahead *= 2) { /* the suite's timeout ends it */
        bide *queue = open_url("memory:");
        *due = options.run_at_ms = wall_ms() + ahead;
        fill(queue, JOBS, &options, 10);
        if (wall_ms() + 50 < *due)
            return queue;
        OK(bide_close(queue));
    }
}

/* Was the event of the one job in the other topic among the first half? The feed keeps the
 * second. */
static bool came_early(bide *queue, bide_subscription *feed)
{
    static bide_event events[BIDE_EVENTS_MAX];
    for (;;) {
        size_t count = 0;
        int code = bide_events(queue, feed, 0, events, BIDE_EVENTS_MAX, &count, NULL);
        if (code == BIDE_TIMED_OUT)
            return true;
        OK(code);
        for (size_t i = 0; i < count; i++)
            if (strcmp(events[i].topic, "other") == 0)
                return false;
    }
}

static void jobs_that_come_due_at_once_do_not_delay_others(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_subscription *feed;
    int64_t due;
    bide *queue = open_with_run_at_jobs(&due);
    OK(bide_subscribe(queue, NULL, 1u << BIDE_EVENT_READY, JOBS / 2, &feed));
    options.delay_ms = due - wall_ms() + 1;
    lock_limit_begin();
    OK(bide_put(queue, "other", "body", 4, &options, NULL));
    while (counts_of(queue).delayed > 0)
        nap_ms(1); /* the suite's timeout ends it */
    LOCK_LIMIT("a million run-at jobs due at once");
    CHECK(came_early(queue, feed));
    OK(bide_unsubscribe(queue, feed));
    OK(bide_close(queue));
}

/* ---- bulk ---- */

static void kick_and_purge_are_done_in_slices(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide *queue = open_loaded("sync=off");
    uint64_t count;
    options.delay_ms = HOUR_MS;
    fill(queue, JOBS, &options, 10);
    lock_limit_begin();
    OK(bide_kick(queue, TOPIC, JOBS, &count));
    EQ(count, JOBS);
    LOCK_LIMIT("kick");
    OK(bide_purge(queue, TOPIC, BIDE_STATE_READY, &count));
    EQ(count, JOBS);
    LOCK_LIMIT("purge");
    OK(bide_close(queue));
}

static void results_over_the_limit_are_removed_in_slices(void)
{
    bide *queue = open_loaded("sync=off&max_done_per_topic=1000000000");
    uint64_t first = fill(queue, JOBS, NULL, 10);
    finish(queue, first, JOBS, true);
    EQ(counts_of(queue).done, JOBS);
    OK(bide_close(queue));
    lock_limit_begin();
    queue = open_loaded("sync=off&max_done_per_topic=100");
    while (counts_of(queue).done > 100)
        nap_ms(1); /* the suite's timeout ends it */
    LOCK_LIMIT("recovery with too many results");
    bide_job job;
    OK(bide_peek_first(queue, TOPIC, BIDE_STATE_DONE, &job));
    EQ(job.id, first + JOBS - 100);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void bodies_of_deleted_jobs_leave_the_cache(void)
{
    bide *queue = open_loaded("sync=off");
    uint64_t first = fill(queue, JOBS, NULL, 10);
    lock_limit_begin();
    for (uint64_t i = 0; i < JOBS / LOTS; i++)
        if (i % 8 != 0)
            finish(queue, first + i * LOTS, LOTS, false);
    fill(queue, JOBS, NULL, 10);
    LOCK_LIMIT("deletes and puts with a full cache");
    check_sound(queue);
    OK(bide_close(queue));
}

/* ---- looking, opening and closing ---- */

static void list_all(bide *queue, const bide_filter *filter)
{
    bide_job *jobs = calloc(LOTS, sizeof(*jobs));
    char cursor[BIDE_CURSOR_SIZE] = "";
    CHECK(jobs != NULL);
    do {
        size_t count;
        OK(bide_list(queue, TOPIC, BIDE_STATE_READY, filter, cursor, jobs, LOTS, &count));
        for (size_t i = 0; i < count; i++)
            bide_job_clear(&jobs[i]);
    } while (cursor[0] != 0);
    free(jobs);
}

static void listing_many_jobs_has_short_holds(void)
{
    bide_filter filter = {.text = slice_of("nothing has this")};
    bide *queue = open_loaded("sync=off&cache_bytes=2GiB");
    fill(queue, JOBS, NULL, 500);
    lock_limit_begin();
    list_all(queue, &filter);
    LOCK_LIMIT("list with a text");
    list_all(queue, NULL);
    LOCK_LIMIT("list");
    counts_of(queue);
    LOCK_LIMIT("stats");
    check_sound(queue);
    LOCK_LIMIT("check");
    OK(bide_close(queue));
    LOCK_LIMIT("close");
    queue = open_loaded("sync=off");
    LOCK_LIMIT("recovery");
    list_all(queue, &filter);
    LOCK_LIMIT("list with a text, bodies in the store");
    OK(bide_close(queue));
    LOCK_LIMIT("close again");
}

static void waiting_calls_are_ended_in_slices(void)
{
    static const bide_slice topic = {TOPIC, sizeof(TOPIC) - 1};
    size_t many = JOBS / 10 < CALLS - LOTS ? JOBS / 10 : CALLS - LOTS;
    bide *queue = open_loaded("sync=off");
    bide_job *jobs = calloc(many, sizeof(*jobs));
    CHECK(jobs != NULL);
    struct calls *calls = new_calls(many, BIDE_CLOSED);
    for (size_t i = 0; i < many; i++)
        add_call(calls, BIDE_OP_RESERVE)->reserve = (bide_reserve_args){.topics = &topic,
                                                                        .topic_count = 1,
                                                                        .timeout_ms = BIDE_FOREVER,
                                                                        .jobs = &jobs[i],
                                                                        .job_max = 1};
    submit_calls(queue, calls);
    lock_limit_begin();
    OK(bide_shutdown(queue));
    LOCK_LIMIT("shutdown with 99,000 reserves");
    end_calls(calls);
    OK(bide_close(queue));
    free(jobs);
}

/* Calls that name many topics use up the work of a step before its budget. All of them are undone
 * when the commit of their finishes fails. */
static void calls_with_many_topics_are_undone_in_slices(void)
{
    enum { TOPICS = BIDE_RESERVE_TOPICS, WAITING = 40 };
    static char names[TOPICS][16];
    static bide_slice topics[TOPICS];
    static bide_job held[WAITING], next[WAITING];
    vfs_install();
    bide *queue = open_loaded("sync=off");
    for (size_t i = 0; i < TOPICS; i++) {
        snprintf(names[i], sizeof(names[i]), "t%zu", i);
        topics[i] = slice_of(names[i]);
    }
    for (size_t i = 0; i < WAITING; i++)
        OK(bide_put(queue, TOPIC, "x", 1, NULL, NULL));
    bide_reserve_args taken = {.topics = &(bide_slice){TOPIC, sizeof(TOPIC) - 1},
                               .topic_count = 1,
                               .jobs = held,
                               .job_max = WAITING};
    OK(bide_reserve_many(queue, &taken));
    EQ(taken.count, WAITING);
    struct calls *calls = new_calls(WAITING, BIDE_EIO);
    for (size_t i = 0; i < WAITING; i++) {
        bide_op *op = add_call(calls, BIDE_OP_FINISH_AND_RESERVE);
        op->finish_and_reserve.finish =
            (bide_finish_item){.id = held[i].id, .token = held[i].token};
        op->finish_and_reserve.reserve = (bide_reserve_args){.topics = topics,
                                                             .topic_count = TOPICS,
                                                             .timeout_ms = BIDE_FOREVER,
                                                             .jobs = &next[i],
                                                             .job_max = 1};
    }
    fail_calls(queue, calls, "a failed commit of calls that wait for 5,000 topics");
    EQ(counts_of(queue).reserved, WAITING);
    for (size_t i = 0; i < WAITING; i++) {
        OK(bide_delete(queue, held[i].id, held[i].token));
        bide_job_clear(&held[i]);
    }
    OK(bide_close(queue));
}

/* Calls that wait for many jobs each are served in slices when all jobs come at once. */
static void calls_that_take_many_jobs_are_served_in_slices(void)
{
    static const bide_slice topic = {TOPIC, sizeof(TOPIC) - 1};
    size_t many = JOBS / LOTS < 100 ? JOBS / LOTS : 100;
    bide *queue = open_url("memory:");
    bide_job *jobs = calloc(many * LOTS, sizeof(*jobs));
    CHECK(jobs != NULL);
    fill(queue, many * LOTS, NULL, 1);
    OK(bide_pause(queue, TOPIC, HOUR_MS));
    struct calls *calls = new_calls(many, BIDE_OK);
    for (size_t i = 0; i < many; i++)
        add_call(calls, BIDE_OP_RESERVE)->reserve = (bide_reserve_args){.topics = &topic,
                                                                        .topic_count = 1,
                                                                        .timeout_ms = BIDE_FOREVER,
                                                                        .jobs = &jobs[i * LOTS],
                                                                        .job_max = LOTS};
    submit_calls(queue, calls);
    lock_limit_begin();
    OK(bide_resume(queue, TOPIC));
    end_calls(calls);
    LOCK_LIMIT("calls that take 1,000 jobs each");
    EQ(counts_of(queue).reserved, many * LOTS);
    for (size_t i = 0; i < many * LOTS; i++)
        bide_job_clear(&jobs[i]);
    free(jobs);
    OK(bide_close(queue));
}

static void many_topics_are_created_and_removed(void)
{
    static char names[LOTS][16];
    static bide_put_item items[LOTS];
    bide *queue = open_loaded("sync=off");
    lock_limit_begin();
    for (uint64_t done = 0; done < JOBS; done += LOTS) {
        for (size_t i = 0; i < LOTS; i++) {
            snprintf(names[i], sizeof(names[i]), "t%" PRIu64, done + i);
            items[i] = (bide_put_item){.topic = slice_of(names[i])};
        }
        OK(bide_put_many(queue, items, LOTS, NULL));
        lock_limit_part();
    }
    LOCK_LIMIT("a million topics");
    finish(queue, 1, JOBS, false);
    LOCK_LIMIT("their end");
    EQ(counts_of(queue).ready, 0);
    OK(bide_close(queue));
}

/* One call that names as many topics, and takes as many jobs, as it may: with every strategy, each
 * in the order that the strategy gives. */
static void a_reserve_may_choose_among_many_topics(void)
{
    static char names[LOTS][16];
    static bide_put_item items[LOTS];
    static bide_slice topics[LOTS];
    static bide_job jobs[LOTS];
    static const bide_strategy strategies[] = {BIDE_BY_PRIORITY, BIDE_STRICT, BIDE_WEIGHTED,
                                               BIDE_FAIR};
    bide *queue = open_url("memory:");
    for (size_t i = 0; i < LOTS; i++) {
        snprintf(names[i], sizeof(names[i]), "t%zu", i);
        topics[i] = slice_of(names[i]);
        items[i] = (bide_put_item){.topic = topics[i]};
    }
    for (size_t i = 0; i < COUNT(strategies); i++) {
        OK(bide_put_many(queue, items, LOTS, NULL));
        bide_reserve_args args = {.topics = topics,
                                  .topic_count = LOTS,
                                  .strategy = strategies[i],
                                  .jobs = jobs,
                                  .job_max = LOTS};
        lock_limit_begin();
        OK(bide_reserve_many(queue, &args));
        LOCK_LIMIT("reserve of 1,000 jobs of 1,000 topics");
        EQ(args.count, LOTS);
        for (size_t j = 0; j < LOTS; j++) {
            if (strategies[i] != BIDE_WEIGHTED)
                EQ(jobs[j].id, items[j].id);
            OK(bide_delete(queue, jobs[j].id, jobs[j].token));
            bide_job_clear(&jobs[j]);
        }
    }
    OK(bide_close(queue));
}

/* ---- memory ---- */

#define MEMORY_MAX UINT64_C(67108864)

static int64_t resident_bytes(void)
{
    long pages = 0;
    FILE *file = fopen("/proc/self/statm", "re");
    CHECK(file != NULL && fscanf(file, "%*s %ld", &pages) == 1);
    fclose(file);
    return (int64_t)pages * sysconf(_SC_PAGESIZE);
}

/* Puts delayed jobs until the queue is full; answers how many. */
static uint64_t fill_up(bide *queue)
{
    static bide_put_item items[LOTS];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    size_t accepted = LOTS;
    uint64_t count = 0;
    options.delay_ms = HOUR_MS;
    options.ttr_ms = HOUR_MS;
    while (accepted == LOTS) {
        for (size_t i = 0; i < LOTS; i++)
            items[i] = (bide_put_item){
                .topic = slice_of(TOPIC), .body = slice_of("0123456789"), .options = &options};
        OK(bide_put_many(queue, items, LOTS, &accepted));
        count += accepted;
    }
    EQ(items[LOTS - 1].status, BIDE_EFULL);
    return count;
}

static void reserve_all(bide *queue, uint64_t count)
{
    static bide_job jobs[LOTS];
    bide_slice topic = slice_of(TOPIC);
    while (count > 0) {
        bide_reserve_args args = {
            .topics = &topic, .topic_count = 1, .jobs = jobs, .job_max = LOTS};
        OK(bide_reserve_many(queue, &args));
        CHECK(args.count > 0 && args.count <= count);
        count -= args.count;
        for (size_t i = 0; i < args.count; i++)
            bide_job_clear(&jobs[i]);
    }
}

static void check_memory(bide *queue, int64_t before)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    if (stats.memory_bytes > MEMORY_MAX)
        FAIL("the queue counts %" PRIu64 " bytes, max_memory is %" PRIu64, stats.memory_bytes,
             MEMORY_MAX);
#ifndef SANITIZED
    /* What is not jobs: the program, the stacks of threads, one batch on its way to the store. */
    int64_t grown = resident_bytes() - before;
    if (grown > (int64_t)MEMORY_MAX + (16 << 20))
        FAIL("the process has grown by %" PRId64 " bytes, max_memory is %" PRIu64, grown,
             MEMORY_MAX);
#else
    (void)before;
#endif
}

static void fill_kick_and_reserve(const char *url)
{
    int64_t before = resident_bytes();
    bide *queue = open_url(url);
    uint64_t kicked = 0;
    uint64_t count = fill_up(queue);
    CHECK(count > 50000);
    check_memory(queue, before);
    OK(bide_kick(queue, TOPIC, count, &kicked));
    EQ(kicked, count);
    check_memory(queue, before);
    reserve_all(queue, count);
    check_memory(queue, before);
    OK(bide_close(queue));
}

static void full_memory_queue_is_worked_off_within_max_memory(void)
{
    fill_kick_and_reserve("memory:?max_memory=67108864");
}

static void full_sqlite_queue_is_worked_off_within_max_memory(void)
{
    fill_kick_and_reserve(url_of("jobs.db", "sync=off&max_memory=67108864&cache_bytes=16MiB"));
}

/* ---- all ---- */

#define MEASURED(X)                                   \
    X(failed_commit_restores_scattered_jobs)          \
    X(all_jobs_are_compared_in_slices)                \
    X(a_failed_commit_buries_scattered_jobs_again)    \
    X(failed_commit_removes_new_jobs)                 \
    X(jobs_that_come_due_at_once_do_not_delay_others) \
    X(kick_and_purge_are_done_in_slices)              \
    X(results_over_the_limit_are_removed_in_slices)   \
    X(bodies_of_deleted_jobs_leave_the_cache)         \
    X(listing_many_jobs_has_short_holds)              \
    X(waiting_calls_are_ended_in_slices)              \
    X(calls_with_many_topics_are_undone_in_slices)    \
    X(calls_that_take_many_jobs_are_served_in_slices) \
    X(many_topics_are_created_and_removed)            \
    X(a_reserve_may_choose_among_many_topics)

MEASURED(MEASURE)

static const struct test tests[] = {
    MEASURED(MEASURED_TEST) TEST(calls_wait_while_a_commit_is_undone),
    TEST(close_during_a_rollback_completes_all_ops),
    TEST(releases_are_accepted_although_too_many_ops_wait_for_a_rollback),
    TEST(full_memory_queue_is_worked_off_within_max_memory),
    TEST(full_sqlite_queue_is_worked_off_within_max_memory),
};
const struct theme load_theme = {"large_queue", tests, COUNT(tests)};
