/* SPDX-License-Identifier: MIT */
/*
 * combined.c - several faults at a time under load (workload.h): syncs hang, commits and reads
 * fail, the disk is full, jobs are still being loaded, servers stop and start.
 */
#include "fault.h"
#include "local_server.h"
#include "vfs.h"
#include "workload.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define TOPIC WORKLOAD_TOPIC

static void check_reopened(void)
{
    bide_stats stats;
    bide *queue = open_jobs("");
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried, 0);
    OK(bide_close(queue));
}

static void run_local(const char *parameters, void (*inject_faults)(struct workload *))
{
    vfs_install();
    struct workload *workload = workload_new();
    bide *queue = open_jobs(parameters);
    workload->queues[0] = workload->queues[1] = queue;
    workload_run(workload, queue, inject_faults);
    OK(bide_close(queue));
    check_reopened();
    free(workload);
}

static void in_process(void)
{
    run_local("cache_bytes=1", workload_inject_faults);
}

static void in_process_with_the_wheel(void)
{
    run_local("cache_bytes=1&ticker=wheel&wheel_tick=5ms&batch_jobs=8", workload_inject_faults);
}

/* ---- commits of which nothing is known ---- */

/* Syncs fail, and the file cannot be opened again, for longer than the store is tried. */
static void fail_until_unknown(struct workload *workload)
{
    int64_t limit = clock_us() + 3 * PATIENCE_MS * 1000;
    nap_ms(200);
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 0, SQLITE_IOERR_FSYNC, EIO});
    vfs_fail(&(struct vfs_fault){VFS_OPEN, "", 1, 0, SQLITE_CANTOPEN, EIO});
    while (atomic_load(&workload->unknown) == 0) { /* until some are told that nothing is known */
        CHECK(clock_us() < limit);
        nap_ms(10);
    }
    nap_ms(1500);
    vfs_clear_faults();
    nap_ms(300);
}

static void in_process_with_commits_of_unknown_outcome(void)
{
    run_local("cache_bytes=1", fail_until_unknown);
}

/* ---- while jobs are loaded ---- */

static void fail_commits_while_loading(struct workload *workload)
{
    bide_recovery recovery;
    unsigned failed = vfs_failed();
    CODE(bide_wait_recovered(workload->queues[0], 0, &recovery), BIDE_TIMED_OUT);
    for (unsigned i = 0; i < 20; i++) {
        vfs_fail(&(struct vfs_fault){i % 2 == 0 ? VFS_WRITE : VFS_SYNC, "", 1, 1 + i % 3,
                                     i % 2 == 0 ? SQLITE_IOERR_WRITE : SQLITE_IOERR_FSYNC, EIO});
        nap_ms(40);
        if (i % 5 == 4)
            vfs_fail(&(struct vfs_fault){VFS_READ, "jobs.db", 1, 5, SQLITE_IOERR_READ, EIO});
        nap_ms(20);
        vfs_clear_faults();
    }
    CHECK(vfs_failed() > failed);
    vfs_slow_reads(0);
    OK(bide_wait_recovered(workload->queues[0], PATIENCE_MS, &recovery));
    EQ(recovery.failed, 0);
}

/* Commits fail while the jobs of an earlier process are being loaded and worked off. */
static void while_jobs_are_loaded(void)
{
    vfs_install();
    struct workload *workload = workload_new();
    bide *queue = open_jobs("sync=off");
    workload->queues[0] = workload->queues[1] = queue;
    workload_put(workload, 4000);
    OK(bide_close(queue));
    vfs_slow_reads(10000);
    OK(bide_open(url_of("jobs.db", "cache_bytes=1"), NULL, &queue));
    workload->queues[0] = workload->queues[1] = queue;
    workload_run(workload, queue, fail_commits_while_loading);
    OK(bide_close(queue));
    check_reopened();
    free(workload);
}

/* ---- kick and purge ---- */

#define MANY 3000

struct sliced {
    bide *queue;
    atomic_bool over;
    uint64_t kicked, purged; /* as the answers say */
};

static void put_many(bide *queue, const char *topic, const bide_put_options *options)
{
    static const char body[6000];
    bide_put_item items[100];
    memset(items, 0, sizeof items);
    for (int i = 0; i < MANY; i += (int)COUNT(items)) {
        size_t accepted;
        for (size_t k = 0; k < COUNT(items); k++)
            items[k] = (bide_put_item){
                .topic = slice_of(topic), .body = {body, sizeof body}, .options = options};
        OK(bide_put_many(queue, items, COUNT(items), &accepted));
        EQ(accepted, COUNT(items));
    }
}

static uint64_t delayed_in(bide *queue, const char *topic)
{
    bide_topic_stats stats;
    int code = bide_topic_get_stats(queue, topic, &stats);
    CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
    return code == BIDE_OK ? stats.jobs.delayed : 0;
}

/* A call that fails answers how much of what it did is stored. */
static void *kick_and_purge(void *arg)
{
    struct sliced *sliced = arg;
    do {
        uint64_t count = 0;
        bide_kick(sliced->queue, "kicked", 2 * (uint64_t)MANY, &count);
        sliced->kicked += count;
        count = 0;
        bide_purge(sliced->queue, "purged", BIDE_STATE_DELAYED, &count);
        sliced->purged += count;
    } while (!atomic_load(&sliced->over));
    return NULL;
}

static void *take_kicked(void *arg)
{
    struct sliced *sliced = arg;
    bide_job job;
    while (!atomic_load(&sliced->over))
        if (bide_reserve(sliced->queue, "kicked", 5, &job) == BIDE_OK) {
            EQ(job.kicks, 1);
            while (bide_give_back(sliced->queue, job.id, job.token) < 0)
                nap_ms(1);
            bide_job_clear(&job);
        }
    return NULL;
}

static void kicks_and_purges_count_beside_failing_commits_and_reads(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct sliced sliced = {.kicked = 0};
    pthread_t threads[2];
    bide_stats stats;
    vfs_install();
    options.delay_ms = HOUR_MS;
    options.ttr_ms = HOUR_MS;
    bide *queue = open_jobs("sync=off");
    put_many(queue, "kicked", &options);
    put_many(queue, "purged", &options);
    OK(bide_close(queue));
    sliced.queue = queue = open_jobs("cache_bytes=1&batch_jobs=50");
    unsigned failed = vfs_failed();
    CHECK(pthread_create(&threads[0], NULL, kick_and_purge, &sliced) == 0);
    CHECK(pthread_create(&threads[1], NULL, take_kicked, &sliced) == 0);
    for (unsigned i = 0; i < 40; i++) {
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1 + i % 7, 1, SQLITE_IOERR_WRITE, EIO});
        vfs_fail(&(struct vfs_fault){VFS_READ, "jobs.db", 1 + i % 5, 2, SQLITE_IOERR_READ, EIO});
        nap_ms(20);
        vfs_clear_faults();
    }
    CHECK(vfs_failed() > failed);
    UNTIL(delayed_in(queue, "kicked") + delayed_in(queue, "purged") == 0);
    atomic_store(&sliced.over, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    EQ(sliced.kicked, MANY);
    EQ(sliced.purged, MANY);
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, MANY);
    EQ(stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried, 0);
    OK(bide_close(queue));
    queue = open_jobs("");
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, MANY);
    OK(bide_close(queue));
}

/* ---- one pair at a time ---- */

static void *take_one(void *arg)
{
    bide_job job;
    bide_reserve(arg, TOPIC, PATIENCE_MS, &job);
    return NULL;
}

/* A thread is cancelled while its reserve is being stored, and the commit in which the job is given
 * back fails. */
static void job_of_a_cancelled_thread_is_released(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    pthread_t thread;
    bide_job job;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    options.max_retries = 1;
    bide *queue = open_jobs("");
    OK(bide_put(queue, TOPIC, "x", 1, &options, NULL));
    vfs_hold_syncs(true);
    CHECK(pthread_create(&thread, NULL, take_one, queue) == 0);
    UNTIL(vfs_held_syncs() > 0);
    CHECK(pthread_cancel(thread) == 0);
    unsigned failed = vfs_failed();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "", 1, 0, SQLITE_IOERR_WRITE, EIO});
    vfs_hold_syncs(false);
    UNTIL(vfs_failed() > failed);
    vfs_clear_faults();
    CHECK(pthread_join(thread, NULL) == 0);
    OK(bide_reserve(queue, TOPIC, 0, &job));
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* Takes a job, and from then on deletes it and takes the next, until it is cancelled within a
 * call. */
static void *delete_until_cancelled(void *arg)
{
    static const bide_slice topic = {TOPIC, sizeof TOPIC - 1};
    bide *queue = arg;
    bide_finish_item finish = {.id = 0};
    for (;;) {
        bide_job job;
        memset(&job, 0, sizeof job);
        bide_reserve_args args = {
            .topics = &topic, .topic_count = 1, .timeout_ms = 50, .jobs = &job, .job_max = 1};
        int code = finish.id == 0 ? bide_reserve_many(queue, &args)
                                  : bide_finish_and_reserve(queue, &finish, &args);
        CHECK(code == BIDE_OK || code == BIDE_TIMED_OUT || code == BIDE_EIO);
        if (code != BIDE_EIO || finish.status == BIDE_OK)
            finish = (bide_finish_item){.id = 0};
        if (code == BIDE_OK)
            finish = (bide_finish_item){.id = job.id, .token = job.token};
        bide_job_clear(&job);
    }
    return NULL;
}

/* Threads are cancelled in finish_and_reserve while commits fail and are undone: every job is
 * deleted, or comes back at the latest when its lease ends. */
static void threads_are_cancelled_in_finish_and_reserve_during_rollbacks(void)
{
    enum { PUTS = 400, CANCELS = 30 };
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_check_report report;
    bide_stats stats;
    bide_job job;
    pthread_t threads[4];
    vfs_install();
    vfs_skip_syncs(true);
    options.ttr_ms = 500;
    bide *queue = open_jobs("cache_bytes=1&batch_jobs=2");
    for (int i = 0; i < PUTS; i++) {
        options.max_retries = i % 2 == 0 ? 1000 : BIDE_NO_RETRY_LIMIT;
        options.backoff_base_ms = 1;
        OK(bide_put(queue, TOPIC, "some bytes", 10, &options, NULL));
    }
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, delete_until_cancelled, queue) == 0);
    for (unsigned i = 0; i < CANCELS; i++) {
        pthread_t *thread = &threads[i % COUNT(threads)];
        vfs_fail(&(struct vfs_fault){i % 2 == 0 ? VFS_WRITE : VFS_SYNC, "-wal", 1 + i % 3, 2,
                                     i % 2 == 0 ? SQLITE_IOERR_WRITE : SQLITE_IOERR_FSYNC, EIO});
        nap_ms(i % 4);
        CHECK(pthread_cancel(*thread) == 0);
        CHECK(pthread_join(*thread, NULL) == 0);
        CHECK(pthread_create(thread, NULL, delete_until_cancelled, queue) == 0);
        vfs_clear_faults();
    }
    for (size_t i = 0; i < COUNT(threads); i++) {
        CHECK(pthread_cancel(threads[i]) == 0);
        CHECK(pthread_join(threads[i], NULL) == 0);
    }
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK &&
          stats.jobs.reserved + stats.jobs.delayed == 0);
    OK(bide_check(queue, &report));
    EQ(report.differences, 0);
    while (bide_reserve(queue, TOPIC, 0, &job) == BIDE_OK) {
        OK(bide_delete(queue, job.id, job.token));
        bide_job_clear(&job);
    }
    OK(bide_close(queue));
    check_reopened();
}

/* ---- waits and subscriptions during a commit that fails ---- */

struct watcher {
    bide *queue;
    uint64_t id;
    int code;
    bide_state state;
};

static void *watch_job(void *arg)
{
    struct watcher *watcher = arg;
    watcher->code = bide_wait(watcher->queue, watcher->id, BIDE_FOREVER, &watcher->state, NULL);
    return NULL;
}

/* A put that replaces a job by its key fails: a feed and find are not told of it, and wait, which
 * had seen it, answers the failure. */
static void failed_changes_emit_no_events(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct watcher watcher = {.code = -1};
    bide_subscription *feed;
    bide_event events[20];
    bide_stats stats;
    pthread_t thread;
    bide_cq *cq;
    bide_job job;
    size_t count;
    uint64_t lost;
    vfs_install();
    options.key = slice_of("key");
    watcher.queue = open_jobs("");
    OK(bide_put(watcher.queue, TOPIC, "x", 1, &options, &watcher.id));
    OK(bide_subscribe(watcher.queue, NULL, 0, 100, &feed));
    CHECK(pthread_create(&thread, NULL, watch_job, &watcher) == 0);
    UNTIL(bide_queue_stats(watcher.queue, &stats) == BIDE_OK && stats.watching == 1);
    options.conflict = BIDE_REPLACE;
    OK(bide_cq_new(&cq));
    bide_op put = {
        .kind = BIDE_OP_PUT, .cq = cq, .put = {.topic = slice_of(TOPIC), .options = &options}};
    bide_op *ops[] = {&put};
    vfs_hold_syncs(true);
    EQ(bide_submit(watcher.queue, ops, 1), 1);
    UNTIL(vfs_held_syncs() > 0);
    vfs_fail(&(struct vfs_fault){VFS_SYNC, "-wal", 1, 1, SQLITE_IOERR_FSYNC, EIO});
    vfs_hold_syncs(false);
    UNTIL((bide_cq_drain(cq, 0), put.status != BIDE_PENDING));
    vfs_clear_faults();
    bool replaced =
        put.status == BIDE_OK; /* found in the file when that was opened again, and kept */
    OK(bide_find(watcher.queue, TOPIC, "key", 3, &job));
    EQ(job.id, replaced ? put.put.id : watcher.id);
    bide_job_clear(&job);
    CODE(bide_events(watcher.queue, feed, 0, events, COUNT(events), &count, &lost),
         replaced ? BIDE_OK : BIDE_TIMED_OUT);
    CHECK(pthread_join(thread, NULL) == 0);
    EQ(watcher.code, replaced ? BIDE_OK : BIDE_EIO);
    OK(bide_cq_free(cq));
    OK(bide_close(watcher.queue));
}

/* ---- a crash, and then a failed commit ---- */

/* Holds three jobs and is killed: one with a retry limit, one that is cancelled, one without
 * either. */
static void reserve_and_die(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_job job;
    uint64_t id;
    bide *queue = open_jobs("");
    for (int i = 0; i < 3; i++) {
        options.max_retries = i == 0 ? 1 : BIDE_NO_RETRY_LIMIT;
        options.backoff_base_ms = options.backoff_max_ms = HOUR_MS;
        options.key = i == 1 ? slice_of("key") : slice_of("");
        OK(bide_put(queue, TOPIC, "x", 1, &options, &id));
        OK(bide_reserve(queue, TOPIC, 0, &job));
        EQ(job.id, id);
    }
    OK(bide_cancel(queue, id - 1));
    CHECK(kill(getpid(), SIGKILL) == 0);
}

/* The failure of the job that was reserved, and the removal of the one that was cancelled, are not
 * forgotten when their commit fails: nothing can reserve the jobs meanwhile. */
static void a_crash_counts_although_the_next_commit_fails(void)
{
    bide_stats stats;
    bide_job job;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0)
        reserve_and_die();
    CHECK(waitpid(child, NULL, 0) == child);
    vfs_install();
    unsigned failed = vfs_failed();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 3, SQLITE_IOERR_WRITE, EIO});
    bide *queue = open_jobs("");
    UNTIL(vfs_failed() > failed + 2);
    UNTIL(bide_reserve(queue, TOPIC, 0, &job) == BIDE_OK);
    EQ(job.id, 3);
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    UNTIL(bide_find(queue, TOPIC, "key", 3, &job) == BIDE_NOT_FOUND);
    CODE(bide_reserve(queue, TOPIC, 0, &job), BIDE_TIMED_OUT);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.jobs.delayed == 1);
    EQ(stats.jobs.ready + stats.jobs.reserved, 0);
    OK(bide_peek(queue, 1, &job));
    EQ(job.failures, 1);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* ---- a failed commit, and then a close ---- */

static atomic_bool commit_failed;

/* The thread whose commit failed is slow to go on. */
static void dawdle(void *user, bide_log_level level, const char *text)
{
    (void)user;
    (void)level;
    if (strstr(text, "a commit failed") == NULL)
        return;
    atomic_store(&commit_failed, true);
    nap_ms(300);
}

/* What a close gives back is stored, although the commit before that has just failed. */
static void a_close_gives_back_after_a_failed_commit(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_options queue_options = BIDE_OPTIONS_INIT;
    bide *queue;
    bide_cq *cq;
    bide_job job;
    vfs_install();
    options.max_retries = 0;
    options.ttr_ms = HOUR_MS;
    queue_options.log = dawdle;
    OK(bide_open(url_of("jobs.db", ""), &queue_options, &queue));
    OK(bide_wait_recovered(queue, PATIENCE_MS, NULL));
    OK(bide_put(queue, TOPIC, "x", 1, &options, NULL));
    OK(bide_reserve(queue, TOPIC, 0, &job));
    bide_job_clear(&job);
    OK(bide_cq_new(&cq));
    bide_op put = {.kind = BIDE_OP_PUT, .cq = cq, .put = {.topic = slice_of(TOPIC)}};
    bide_op *ops[] = {&put};
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
    EQ(bide_submit(queue, ops, 1), 1);
    UNTIL(atomic_load(&commit_failed));
    OK(bide_close(queue));
    EQ(bide_cq_drain(cq, 0), 1);
    EQ(put.status, BIDE_EIO);
    OK(bide_cq_free(cq));
    queue = open_jobs("");
    OK(bide_reserve(queue, TOPIC, 0, &job));
    EQ(job.failures, 0);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

/* The commits of what a close gives back fail, some times, and then one succeeds. */
static void close_gives_jobs_back_although_its_commits_fail(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_job job;
    vfs_install();
    options.max_retries = 0;
    options.ttr_ms = HOUR_MS;
    bide *queue = open_jobs("");
    OK(bide_put(queue, TOPIC, "x", 1, &options, NULL));
    for (unsigned times = 1; times <= 3; times++) {
        OK(bide_reserve(queue, TOPIC, 0, &job));
        EQ(job.failures, 0);
        bide_job_clear(&job);
        unsigned before = vfs_failed();
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, times, SQLITE_IOERR_WRITE, EIO});
        OK(bide_close(queue));
        EQ(vfs_failed() - before, times);
        queue = open_jobs("");
    }
    OK(bide_reserve(queue, TOPIC, 0, &job));
    EQ(job.failures, 0);
    bide_job_clear(&job);
    OK(bide_close(queue));
}

#ifdef FAULT_SERVER
static void run_served(bool with_pauses, void (*inject_faults)(struct workload *))
{
    struct local_server local_server;
    vfs_install();
    struct workload *workload = workload_new();
    workload->with_pauses = with_pauses;
    serve_begin(&local_server, "cache_bytes=1");
    for (size_t i = 0; i < COUNT(workload->queues); i++)
        workload->queues[i] = serve_open(&local_server);
    snprintf(workload->socket, sizeof workload->socket, "%s", local_server.socket);
    workload_run(workload, local_server.queue, inject_faults);
    for (size_t i = 0; i < COUNT(workload->queues); i++)
        OK(bide_close(workload->queues[i]));
    serve_end(&local_server);
    check_reopened();
    free(workload);
}

static void at_a_server(void)
{
    run_served(false, workload_inject_faults);
}

/* Pauses and drains come and go, beside everything else. The commits of a server are deferred to
 * the end of a turn. */
static void at_a_server_with_pauses_and_drains(void)
{
    run_served(true, workload_inject_faults);
}

static void at_a_server_with_commits_of_unknown_outcome(void)
{
    run_served(false, fail_until_unknown);
}

/* ---- a full disk over a restart ---- */

#define HOLDERS 20

static void fill(bide *client)
{
    static const char body[20000];
    int code = BIDE_OK;
    for (int i = 0; code == BIDE_OK; i++) {
        CHECK(i < 10000);
        code = bide_put(client, "filling", body, sizeof body, NULL, NULL);
    }
    EQ(code, BIDE_EFULL);
}

/* Leases that are held by token outlive an orderly stop also while the disk is full: every holder
 * can finish, and no job is given to another. */
static void leases_outlive_a_restart_on_a_full_disk(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_job held[HOLDERS], job;
    struct local_server local_server;
    bide_stats stats;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    serve_begin(&local_server, "cache_bytes=1");
    bide *client = serve_open(&local_server);
    for (int i = 0; i < HOLDERS; i++) {
        options.max_retries = i % 2 == 0 ? 0 : BIDE_NO_RETRY_LIMIT;
        OK(bide_put(client, TOPIC, "x", 1, &options, NULL));
        OK(bide_reserve(client, TOPIC, 0, &held[i]));
    }
    vfs_limit(vfs_bytes_used() + 300000);
    fill(client);
    OK(bide_queue_stats(local_server.queue, &stats));
    uint64_t ready = stats.jobs.ready;
    serve_end(&local_server);
    serve_begin(&local_server, "cache_bytes=1");
    OK(bide_queue_stats(local_server.queue, &stats));
    EQ(stats.jobs.reserved, HOLDERS);
    EQ(stats.jobs.ready, ready);
    UNTIL(bide_ping(client) == BIDE_OK);
    CODE(bide_reserve(client, TOPIC, 0, &job), BIDE_TIMED_OUT);
    for (int i = 0; i < HOLDERS; i++) {
        OK(bide_touch(client, held[i].id, held[i].token, 0, NULL));
        OK(bide_delete(client, held[i].id, held[i].token));
        bide_job_clear(&held[i]);
    }
    vfs_limit(0);
    UNTIL(bide_put(client, TOPIC, "x", 1, NULL, NULL) == BIDE_OK);
    OK(bide_reserve(client, TOPIC, 0, &job));
    OK(bide_delete(client, job.id, job.token));
    bide_job_clear(&job);
    for (uint64_t i = 0; i < ready; i++) {
        OK(bide_reserve(client, "filling", 0, &job));
        OK(bide_delete(client, job.id, job.token));
        bide_job_clear(&job);
    }
    OK(bide_close(client));
    serve_end(&local_server);
    check_reopened();
}

static void set_concurrency(bide *client, int64_t concurrency)
{
    bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
    policy.concurrency = concurrency;
    OK(bide_topic_set(client, TOPIC, &policy));
}

/* Leases that outlive a restart count for the limit of their topic from the first reserve on. */
static void concurrency_holds_over_a_restart_with_kept_leases(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct local_server local_server;
    bide_job held[3], job;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    serve_begin(&local_server, "");
    bide *client = serve_open(&local_server);
    set_concurrency(client, 3);
    for (int i = 0; i < HOLDERS; i++)
        OK(bide_put(client, TOPIC, "x", 1, &options, NULL));
    for (int i = 0; i < 3; i++)
        OK(bide_reserve(client, TOPIC, 0, &held[i]));
    CODE(bide_reserve(client, TOPIC, 0, &job), BIDE_TIMED_OUT);
    serve_end(&local_server);
    serve_begin(&local_server, "");
    UNTIL(bide_ping(client) == BIDE_OK);
    CODE(bide_reserve(client, TOPIC, 20, &job), BIDE_TIMED_OUT);
    OK(bide_delete(client, held[0].id, held[0].token));
    OK(bide_reserve(client, TOPIC, PATIENCE_MS, &job));
    bide_job_clear(&held[0]);
    CODE(bide_reserve(client, TOPIC, 0, &held[0]), BIDE_TIMED_OUT);
    held[0] = job;
    for (int i = 0; i < 3; i++) {
        OK(bide_delete(client, held[i].id, held[i].token));
        bide_job_clear(&held[i]);
    }
    OK(bide_purge(client, TOPIC, BIDE_STATE_READY, NULL));
    OK(bide_close(client));
    serve_end(&local_server);
    check_reopened();
}

/* A delete that cannot be stored returns its job to its holder: the job that would have taken its
 * place is not given to anyone. A policy that cannot be stored does not change. */
static void concurrency_holds_when_commits_fail(void)
{
    struct local_server local_server;
    bide_topic_stats stats;
    bide_job held, job;
    vfs_install();
    serve_begin(&local_server, "");
    bide *client = serve_open(&local_server);
    set_concurrency(client, 1);
    for (int i = 0; i < HOLDERS; i++)
        OK(bide_put(client, TOPIC, "x", 1, NULL, NULL));
    for (int round = 0; round < 10; round++) {
        OK(bide_reserve(client, TOPIC, 0, &held));
        bide_finish_item finish = {.id = held.id, .token = held.token};
        bide_slice topic = {TOPIC, strlen(TOPIC)};
        bide_reserve_args args = {.topics = &topic, .topic_count = 1, .jobs = &job, .job_max = 1};
        memset(&job, 0, sizeof job);
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
        CHECK(bide_finish_and_reserve(client, &finish, &args) < 0);
        CHECK(finish.status < 0);
        vfs_clear_faults();
        OK(bide_topic_get_stats(client, TOPIC, &stats));
        EQ(stats.jobs.reserved, 1);
        CODE(bide_reserve(client, TOPIC, 0, &job), BIDE_TIMED_OUT);

        bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
        policy.concurrency = 9;
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
        CHECK(bide_topic_set(client, TOPIC, &policy) < 0);
        vfs_clear_faults();
        OK(bide_topic_get(client, TOPIC, &policy, NULL));
        EQ(policy.concurrency, 1);
        OK(bide_delete(client, held.id, held.token));
        bide_job_clear(&held);
    }
    OK(bide_purge(client, TOPIC, BIDE_STATE_READY, NULL));
    OK(bide_close(client));
    serve_end(&local_server);
    check_reopened();
}

/* A stop gives back what beanstalkd clients hold, also when a commit fails on the way: the next
 * process must not take their leases for good. */
static void stop_gives_jobs_back_although_a_commit_fails(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct local_server local_server;
    bide_stats stats;
    bide_job job;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    options.max_retries = 1;
    serve_begin(&local_server, "");
    OK(bide_put(local_server.queue, TOPIC, "x", 1, &options, NULL));
    int fd = serve_connect(&local_server);
    serve_send(fd, "watch " TOPIC "\r\nreserve\r\n");
    serve_expect(fd, "RESERVED");
    unsigned failed = vfs_failed();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
    serve_end(&local_server);
    CHECK(vfs_failed() > failed);
    vfs_clear_faults();
    close(fd);
    serve_begin(&local_server, "");
    OK(bide_queue_stats(local_server.queue, &stats));
    EQ(stats.jobs.delayed, 0);
    EQ(stats.jobs.reserved, 0);
    EQ(stats.jobs.ready, 1);
    OK(bide_reserve(local_server.queue, TOPIC, 0, &job));
    bide_job_clear(&job);
    serve_end(&local_server);
}

/* ---- some clients send much, another little ---- */

#define SENDERS 16
#define EACH    2000

static void *send_many(void *arg)
{
    static const char put[] = "put 0 0 100 1\r\nx\r\n";
    const int *fd = arg;
    for (int i = 0; i < EACH; i++)
        CHECK(send(*fd, put, sizeof put - 1, MSG_NOSIGNAL) == (ssize_t)sizeof put - 1);
    return NULL;
}

static uint64_t ready_jobs(bide *queue)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    return stats.jobs.ready;
}

/* Hears the answers of so many puts; returns the last id. */
static uint64_t read_ids(int fd, int count)
{
    char line[64] = "";
    size_t size = 0;
    while (count > 0) {
        CHECK(size < sizeof line - 1);
        CHECK(recv(fd, &line[size], 1, 0) == 1);
        if (line[size++] != '\n')
            continue;
        line[size] = 0;
        CHECK(memcmp(line, "INSERTED ", 9) == 0);
        size = 0;
        count--;
    }
    return strtoull(line + 9, NULL, 10);
}

static void send_all(int fd, const char *command, int count)
{
    char text[10000] = "";
    size_t size = strlen(command);
    CHECK(size * (size_t)count < sizeof text);
    for (int i = 0; i < count; i++)
        memcpy(text + (size_t)i * size, command, size + 1);
    serve_send(fd, text);
}

static void read_lines(int fd, int count)
{
    char byte;
    while (count > 0) {
        CHECK(recv(fd, &byte, 1, 0) == 1);
        count -= byte == '\n';
    }
}

/* Waits until the server takes no more jobs; answers how many there are. */
static uint64_t await_stable_count(const struct local_server *local_server)
{
    uint64_t ready = 0;
    for (int still = 0; still < 20;) {
        uint64_t now = ready_jobs(local_server->queue);
        still = now > 0 && now == ready ? still + 1 : 0;
        ready = now;
        nap_ms(10);
    }
    return ready;
}

struct senders {
    pthread_t threads[SENDERS];
    int fds[SENDERS];
};

/* The disk takes nothing, and some clients send much, until the server takes no more of it. Answers
 * how many jobs there are. */
static uint64_t begin_to_send(struct senders *senders, const struct local_server *local_server)
{
    vfs_hold_syncs(true);
    for (int i = 0; i < SENDERS; i++) {
        senders->fds[i] = serve_connect(local_server);
        CHECK(pthread_create(&senders->threads[i], NULL, send_many, &senders->fds[i]) == 0);
    }
    return await_stable_count(local_server);
}

static void end_sending(struct senders *senders)
{
    for (int i = 0; i < SENDERS; i++) {
        read_ids(senders->fds[i], EACH);
        CHECK(pthread_join(senders->threads[i], NULL) == 0);
        close(senders->fds[i]);
    }
}

/* While the disk takes nothing the server takes only a bounded part of what some clients send. So
 * the put of another one is not stored behind all of it. */
static void quiet_client_is_not_starved_by_busy_ones(void)
{
    struct local_server local_server;
    struct senders senders;
    vfs_install();
    serve_begin(&local_server, "sync=full");
    int little = serve_connect(&local_server);
    uint64_t ready = begin_to_send(&senders, &local_server);
    CHECK(send(little, "put 0 0 100 1\r\nx\r\n", 18, MSG_NOSIGNAL) == 18);
    UNTIL(ready_jobs(local_server.queue) > ready);
    vfs_hold_syncs(false);
    CHECK(read_ids(little, 1) < SENDERS * EACH / 2);
    end_sending(&senders);
    EQ(ready_jobs(local_server.queue), SENDERS * EACH + 1);
    close(little);
    serve_end(&local_server);
}

#define AT_ONCE    50
#define LARGE_BODY 60000

/* Others that send one large job each, all at once, go before it, too, although a round of the
 * server does not read them all. */
static void large_jobs_of_quiet_clients_are_not_starved(void)
{
    static char put[LARGE_BODY + 100];
    struct local_server local_server;
    struct senders senders;
    int large[AT_ONCE];
    vfs_install();
    serve_begin(&local_server, "sync=full");
    for (int i = 0; i < AT_ONCE; i++)
        large[i] = serve_connect(&local_server);
    snprintf(put, sizeof put, "put 0 0 100 %d\r\n%0*d\r\n", LARGE_BODY, LARGE_BODY, 0);
    uint64_t ready = begin_to_send(&senders, &local_server);
    for (int i = 0; i < AT_ONCE; i++)
        serve_send(large[i], put);
    UNTIL(ready_jobs(local_server.queue) >= ready + AT_ONCE);
    vfs_hold_syncs(false);
    for (int i = 0; i < AT_ONCE; i++) {
        read_ids(large[i], 1);
        close(large[i]);
    }
    end_sending(&senders);
    serve_end(&local_server);
}

#define BURSTS 60
#define BURST  500 /* commands */
/* What may wait of those that send much, and what each may send before it is one of them. */
#define TAKEN_MOST (4000 + 2 * 1024 + BURSTS * 128)

/* Many new connections send many puts each while the disk takes nothing. Answers how many were
 * taken. */
static uint64_t begin_bursts(const struct local_server *local_server, int *fds)
{
    vfs_hold_syncs(true);
    for (int i = 0; i < BURSTS; i++) {
        fds[i] = serve_connect(local_server);
        send_all(fds[i], "put 0 0 100 1\r\nx\r\n", BURST);
    }
    return await_stable_count(local_server);
}

/* The disk works again: every put is answered. */
static void end_bursts(int *fds)
{
    for (int i = 0; i < BURSTS; i++) {
        read_ids(fds[i], BURST);
        close(fds[i]);
    }
}

/* Nor does it take all that new connections send at once, each in one read: it stays in their
 * inputs. */
static void bursts_of_new_connections_are_accepted_in_turn(void)
{
    struct local_server local_server;
    int fds[BURSTS];
    vfs_install();
    serve_begin(&local_server, "sync=full");
    int little = serve_connect(&local_server);
    uint64_t ready = begin_bursts(&local_server, fds);
    CHECK(ready < TAKEN_MOST);
    send_all(little, "put 0 0 100 1\r\nx\r\n", 1);
    UNTIL(ready_jobs(local_server.queue) > ready);
    vfs_hold_syncs(false);
    CHECK(read_ids(little, 1) <= ready + 1);
    end_bursts(fds);
    EQ(ready_jobs(local_server.queue), BURSTS * BURST + 1);
    close(little);
    serve_end(&local_server);
}

/* Those whose rest waits for the disk are closed when their clients go, and cost no time. */
static void connections_waiting_for_the_disk_are_closed_with_their_clients(void)
{
    static const struct linger reset = {.l_onoff = 1};
    struct local_server local_server;
    int fds[BURSTS];
    vfs_install();
    serve_begin(&local_server, "sync=full");
    int other = serve_connect(&local_server);
    begin_bursts(&local_server, fds);
    for (int i = 0; i < BURSTS; i++) {
        setsockopt(fds[i], SOL_SOCKET, SO_LINGER, &reset, sizeof reset);
        close(fds[i]);
    }
    serve_await(other, "stats\r\n", "\ncurrent-connections: 1\n");
    vfs_hold_syncs(false);
    close(other);
    serve_end(&local_server);
}

/* What stores nothing does not wait for the disk, however much of it comes at once. */
static void read_only_commands_do_not_wait_for_the_disk(void)
{
    struct local_server local_server;
    int fds[BURSTS];
    vfs_install();
    serve_begin(&local_server, "sync=full");
    begin_bursts(&local_server, fds);
    int looks = serve_connect(&local_server);
    send_all(looks, "list-tube-used\r\n", BURST);
    read_lines(looks, BURST);
    vfs_hold_syncs(false);
    end_bursts(fds);
    close(looks);
    serve_end(&local_server);
}

/* A connection whose command was not read, because it had sent much before, is not idle. */
static void commands_waiting_for_the_disk_keep_their_connection(void)
{
    struct local_server local_server;
    int fds[BURSTS], earlier[SENDERS];
    vfs_install();
    serve_set_idle_timeout(2000);
    serve_begin(&local_server, "sync=full");
    for (int i = 0; i < SENDERS; i++) {
        earlier[i] = serve_connect(&local_server);
        send_all(earlier[i], "put 0 0 100 1\r\nx\r\n", BURST);
        read_ids(earlier[i], BURST);
    }
    begin_bursts(&local_server, fds);
    for (int i = 0; i < SENDERS; i++)
        send_all(earlier[i], "put 0 0 100 1\r\nx\r\n", 1);
    nap_ms(4000); /* the server looks each second */
    vfs_hold_syncs(false);
    for (int i = 0; i < SENDERS; i++) {
        read_ids(earlier[i], 1);
        close(earlier[i]);
    }
    end_bursts(fds);
    serve_end(&local_server);
}

#define LITTLE_SENDERS 50
#define LITTLE         100 /* commands: fewer than what the server takes for many */
#define MUCH           200

/* The changes of many clients that send little wait for the disk. That does not keep the server
 * from reading another one that sends much. */
static void busy_client_is_read_beside_many_quiet_ones(void)
{
    struct local_server local_server;
    int little[LITTLE_SENDERS];
    vfs_install();
    serve_begin(&local_server, "sync=full");
    int much = serve_connect(&local_server);
    vfs_hold_syncs(true);
    for (int i = 0; i < LITTLE_SENDERS; i++) {
        little[i] = serve_connect(&local_server);
        send_all(little[i], "put 0 0 100 1\r\nx\r\n", LITTLE);
    }
    UNTIL(ready_jobs(local_server.queue) == LITTLE_SENDERS * LITTLE);
    for (int i = 0; i < 3; i++) {
        send_all(much, "list-tube-used\r\n", MUCH);
        read_lines(much, MUCH);
    }
    vfs_hold_syncs(false);
    for (int i = 0; i < LITTLE_SENDERS; i++) {
        read_ids(little[i], LITTLE);
        close(little[i]);
    }
    close(much);
    serve_end(&local_server);
}
#endif

static const struct test tests[] = {
    TEST(in_process),
    TEST(in_process_with_the_wheel),
    TEST(in_process_with_commits_of_unknown_outcome),
    TEST(while_jobs_are_loaded),
    TEST(kicks_and_purges_count_beside_failing_commits_and_reads),
    TEST(job_of_a_cancelled_thread_is_released),
    TEST(threads_are_cancelled_in_finish_and_reserve_during_rollbacks),
    TEST(failed_changes_emit_no_events),
    TEST(a_crash_counts_although_the_next_commit_fails),
    TEST(a_close_gives_back_after_a_failed_commit),
    TEST(close_gives_jobs_back_although_its_commits_fail),
#ifdef FAULT_SERVER
    TEST(at_a_server),
    TEST(at_a_server_with_pauses_and_drains),
    TEST(at_a_server_with_commits_of_unknown_outcome),
    TEST(leases_outlive_a_restart_on_a_full_disk),
    TEST(concurrency_holds_over_a_restart_with_kept_leases),
    TEST(concurrency_holds_when_commits_fail),
    TEST(stop_gives_jobs_back_although_a_commit_fails),
    TEST(quiet_client_is_not_starved_by_busy_ones),
    TEST(large_jobs_of_quiet_clients_are_not_starved),
    TEST(bursts_of_new_connections_are_accepted_in_turn),
    TEST(connections_waiting_for_the_disk_are_closed_with_their_clients),
    TEST(read_only_commands_do_not_wait_for_the_disk),
    TEST(commands_waiting_for_the_disk_keep_their_connection),
    TEST(busy_client_is_read_beside_many_quiet_ones),
#endif
};
const struct theme combined_theme = {"combined", tests, COUNT(tests)};
