/* SPDX-License-Identifier: MIT */
/*
 * slow_disk.c - a disk that takes its time, and reads that fail for a while.
 *
 * What is not stored yet must not stop what does not depend on it: leases begin with the answer of
 * their reserve, and delays, timeouts and waits go on however much waits for the disk. A read that
 * fails may succeed later, and costs no job.
 */
#include "fault.h"
#include "queue/queue.h"
#include "vfs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define TTR_MS    1500
#define LONG_BODY 10000
#define COLD_JOBS 600
#define IN_FLIGHT 60000

/* ---- ops on a completion queue ---- */

struct both {
    bide_slice topic;
    bide_put_options options;
    bide_job job;
    bide_op put, reserve;
};

/* A put, and a reserve of the job, in one list; both wait for the disk. */
static void submit_both(bide *queue, bide_cq *cq, const char *topic, struct both *both,
                        const bide_put_options *options)
{
    memset(both, 0, sizeof *both);
    both->topic = slice_of(topic);
    both->options = *options;
    both->put.kind = BIDE_OP_PUT;
    both->put.cq = cq;
    both->put.put =
        (bide_put_item){.topic = both->topic, .body = slice_of("body"), .options = &both->options};
    both->reserve.kind = BIDE_OP_RESERVE;
    both->reserve.cq = cq;
    both->reserve.reserve = (bide_reserve_args){
        .topics = &both->topic, .topic_count = 1, .jobs = &both->job, .job_max = 1};
    bide_op *const ops[] = {&both->put, &both->reserve};
    EQ(bide_submit(queue, ops, 2), 2);
}

static void drain(bide_cq *cq, int count)
{
    int got = 0;
    UNTIL((got += bide_cq_wait(cq, 100)) >= count);
    EQ(got, count);
}

static bide_cq *make_cq(void)
{
    bide_cq *cq = NULL;
    OK(bide_cq_new(&cq));
    return cq;
}

/* ---- leases ---- */

/* The answer of a reserve is held for longer than the ttr of its job. */
static void hold_longer_than_the_ttr(const bide_put_options *options)
{
    struct both both;
    vfs_install();
    bide *queue = open_jobs("");
    bide_cq *cq = make_cq();
    vfs_hold_syncs(true);
    submit_both(queue, cq, "slow", &both, options);
    CHECK(both.put.applied);
    CHECK(both.reserve.applied);
    UNTIL(vfs_held_syncs() > 0);
    nap_ms(TTR_MS + 200);
    vfs_hold_syncs(false);
    drain(cq, 2);
    EQ(both.put.status, BIDE_OK);
    EQ(both.reserve.status, BIDE_OK);
    EQ(both.job.id, both.put.put.id);
    EQ(both.job.left_ms, TTR_MS);
    OK(bide_delete(queue, both.job.id, both.job.token));
    bide_job_clear(&both.job);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

static void lease_starts_when_its_reserve_completes(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = TTR_MS;
    hold_longer_than_the_ttr(&options);
}

/* With no retry at all, one lease that ran out would bury the job. */
static void a_slow_disk_is_not_a_failure_of_the_worker(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = TTR_MS;
    options.max_retries = 0;
    hold_longer_than_the_ttr(&options);
}

/* ---- the end ---- */

/* What was acknowledged is in the log; what was not completes, undone. */
static void close_past_its_deadline_writes_nothing(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct both both;
    bide_stats stats;
    uint64_t id = 0;
    vfs_install();
    bide *queue = open_jobs("");
    bide_cq *cq = make_cq();
    for (int i = 0; i < 3; i++)
        OK(bide_put(queue, "slow", "body", 4, &options, &id));

    bi_queue_set_close_deadline(queue, 1);
    unsigned syncs = vfs_count(VFS_SYNC), writes = vfs_count(VFS_WRITE);
    submit_both(queue, cq, "other", &both, &options);
    drain(cq, 2);
    EQ(both.put.status, BIDE_CLOSED);
    EQ(both.reserve.status, BIDE_CLOSED);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
    EQ(vfs_count(VFS_SYNC), syncs);
    EQ(vfs_count(VFS_WRITE), writes);

    queue = open_jobs("");
    OK(bide_wait_recovered(queue, BIDE_FOREVER, NULL));
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready, 3);
    EQ(stats.last_id >= id, true);
    OK(bide_close(queue));
}

/* ---- refusals ---- */

/* What an op is refused for may be undone: its answer is held, but it has changed nothing. */
static void query_that_finds_nothing_while_the_disk_waits_is_not_applied(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_op delete, peek;
    bide_job job = {0};
    uint64_t id = 0;
    vfs_install();
    bide *queue = open_jobs("");
    bide_cq *cq = make_cq();
    OK(bide_put(queue, "slow", "body", 4, &options, &id));
    memset(&delete, 0, sizeof delete);
    memset(&peek, 0, sizeof peek);
    delete.kind = BIDE_OP_DELETE;
    delete.lease.id = id;
    peek.kind = BIDE_OP_PEEK_FIRST;
    peek.query =
        (bide_query_args){.topic = slice_of("slow"), .state = BIDE_STATE_READY, .job = &job};
    delete.cq = peek.cq = cq;
    /* A reference keeps the topic, which the delete would leave empty. */
    OK(bide_topic_ref(queue, "slow", 1));
    vfs_hold_syncs(true);
    EQ(bide_submit(queue, (bide_op *const[]){&delete, &peek}, 2), 2);
    CHECK(delete.applied);
    CHECK(!peek.applied);
    vfs_hold_syncs(false);
    drain(cq, 2);
    EQ(delete.status, BIDE_OK);
    EQ(peek.status, BIDE_NOT_FOUND);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

/* ---- time ---- */

static uint64_t ready_in(bide *queue, const char *topic)
{
    bide_topic_stats stats;
    int code = bide_topic_get_stats(queue, topic, &stats);
    return code == BIDE_OK ? stats.jobs.ready : 0;
}

/* Puts that are handed over and wait for the disk. */
static bide_op *submit_puts(bide *queue, bide_cq *cq, size_t count)
{
    static bide_op *list[1000];
    bide_op *ops = calloc(count, sizeof *ops);
    CHECK(ops != NULL);
    for (size_t i = 0; i < count; i++) {
        ops[i].kind = BIDE_OP_PUT;
        ops[i].cq = cq;
        ops[i].put = (bide_put_item){.topic = slice_of("many"), .body = slice_of("x")};
        list[i % COUNT(list)] = &ops[i];
        if ((i + 1) % COUNT(list) == 0)
            EQ(bide_submit(queue, list, COUNT(list)), COUNT(list));
    }
    return ops;
}

/* What time does while the disk does nothing: a delay ends, a lease runs out, a wait is over. */
static void check_that_time_goes_on(bide *queue)
{
    bide_job job;
    OK(bide_reserve(queue, "later", PATIENCE_MS, &job));
    bide_job_clear(&job);
    CODE(bide_reserve(queue, "nothing", 50, &job), BIDE_TIMED_OUT);
    UNTIL(ready_in(queue, "leased") == 1);
}

/* A job that comes due soon, and one whose lease ends soon. */
static void put_timed(bide *queue)
{
    bide_job job;
    bide_put_options later = BIDE_PUT_OPTIONS_INIT;
    bide_put_options leased = BIDE_PUT_OPTIONS_INIT;
    later.delay_ms = 500;
    leased.ttr_ms = 500;
    OK(bide_put(queue, "leased", "x", 1, &leased, NULL));
    OK(bide_reserve(queue, "leased", 0, &job));
    bide_job_clear(&job);
    OK(bide_put(queue, "later", "x", 1, &later, NULL));
}

static void timers_fire_while_ops_wait_for_the_disk(void)
{
    vfs_install();
    bide *queue = open_jobs("");
    bide_cq *cq = make_cq();
    put_timed(queue);
    vfs_hold_syncs(true);
    bide_op *ops = submit_puts(queue, cq, IN_FLIGHT);
    UNTIL(vfs_held_syncs() > 0);
    check_that_time_goes_on(queue);
    vfs_hold_syncs(false);
    drain(cq, IN_FLIGHT);
    for (size_t i = 0; i < IN_FLIGHT; i++)
        EQ(ops[i].status, BIDE_OK);
    free(ops);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

/* A kick of many works in slices, which wait for the disk; nothing else does. */
static void timers_fire_while_a_kick_waits_for_the_disk(void)
{
    enum { BURIED = 6000 };
    bide_op kick = {.kind = BIDE_OP_KICK, .kick = {.topic = slice_of("many"), .max = BURIED}};
    bide_put_options far = BIDE_PUT_OPTIONS_INIT;
    vfs_install();
    bide *queue = open_jobs("");
    bide_cq *cq = make_cq();
    far.delay_ms = HOUR_MS;
    for (int i = 0; i < BURIED; i += 1000) {
        static bide_put_item items[1000];
        for (size_t k = 0; k < COUNT(items); k++)
            items[k] =
                (bide_put_item){.topic = slice_of("many"), .body = slice_of("x"), .options = &far};
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    }
    put_timed(queue);
    vfs_hold_syncs(true);
    kick.cq = cq;
    bide_op *const ops[] = {&kick};
    EQ(bide_submit(queue, ops, 1), 1);
    UNTIL(vfs_held_syncs() > 0);
    check_that_time_goes_on(queue);
    vfs_hold_syncs(false);
    drain(cq, 1);
    EQ(kick.status, BIDE_OK);
    EQ(kick.kick.count, BURIED);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

/* ---- reads that fail ---- */

struct workers {
    bide *queue;
    atomic_uint deleted;
    atomic_bool over;
};

/* Deletes until the queue knows: an answer that was lost is asked for again. */
static bool finish(bide *queue, const bide_job *job)
{
    int code;
    do {
        code = bide_delete(queue, job->id, job->token);
        if (code < 0)
            nap_ms(1);
    } while (code < 0);
    CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND || code == BIDE_LEASE_LOST);
    return code != BIDE_LEASE_LOST;
}

static void *work(void *arg)
{
    struct workers *workers = arg;
    bide_job job;
    while (!atomic_load(&workers->over)) {
        if (bide_reserve(workers->queue, "cold", 20, &job) != BIDE_OK)
            continue;
        CHECK(job.body_size == LONG_BODY && job.body != NULL);
        if (finish(workers->queue, &job))
            atomic_fetch_add(&workers->deleted, 1);
        bide_job_clear(&job);
    }
    return NULL;
}

/* Jobs whose bodies are in the file and nowhere else; their leases last longer than the test. */
static bide *open_cold(const char *parameters, int32_t max_retries)
{
    static char body[LONG_BODY];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = HOUR_MS;
    options.max_retries = max_retries;
    bide *queue = open_jobs("sync=off");
    for (int i = 0; i < COLD_JOBS; i++)
        OK(bide_put(queue, "cold", body, sizeof body, &options, NULL));
    OK(bide_close(queue));
    return open_jobs(parameters);
}

/* Workers take and delete while the disk does what inject_faults() makes it do, then it heals, and
 * all jobs are worked off: none is buried, none is reserved for a worker that does not know of
 * it. */
static void work_while(bide *queue, void (*inject_faults)(void))
{
    struct workers workers = {.queue = queue};
    pthread_t threads[4];
    bide_stats stats;
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_create(&threads[i], NULL, work, &workers) == 0);
    inject_faults();
    vfs_clear_faults();
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK &&
          stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried == 0);
    atomic_store(&workers.over, true);
    for (size_t i = 0; i < COUNT(threads); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    EQ(stats.total.buries, 0);
    OK(bide_close(queue));
}

static void fail_reads(void)
{
    for (int i = 0; i < 6; i++) {
        vfs_fail(&(struct vfs_fault){VFS_READ, "", 1, 0, SQLITE_IOERR_READ, EIO});
        nap_ms(30);
        vfs_clear_faults();
        nap_ms(5);
    }
}

static void temporary_read_errors_lose_no_job(void)
{
    vfs_install();
    work_while(open_cold("cache_bytes=1&sync=off", BIDE_NO_RETRY_LIMIT), fail_reads);
}

static void fail_reads_and_commits(void)
{
    for (int i = 0; i < 6; i++) {
        vfs_fail(&(struct vfs_fault){VFS_READ, "jobs.db", 1, 0, SQLITE_IOERR_READ, EIO});
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "", 1, 0, SQLITE_IOERR_WRITE, EIO});
        nap_ms(30);
        vfs_clear_faults();
        nap_ms(5);
    }
}

static void temporary_read_and_commit_errors_lose_no_job(void)
{
    vfs_install();
    work_while(open_cold("cache_bytes=1&sync=off", BIDE_NO_RETRY_LIMIT), fail_reads_and_commits);
}

static void read_and_commit_errors_lose_no_job_with_a_retry_limit(void)
{
    vfs_install();
    work_while(open_cold("cache_bytes=1&sync=off", 0), fail_reads_and_commits);
}

/* The disk is slow while the stored jobs are counted. The queue was full before, so a put at that
 * time must not be accepted: each restart would let more jobs in. */
static void a_full_queue_is_full_while_its_jobs_are_counted(void)
{
    enum { JOBS = 20000 };
    static bide_put_item items[JOBS / 20];
    char parameters[64];
    bide_recovery progress = {.total = 0};
    vfs_install();
    bide *queue = open_jobs("sync=off");
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = slice_of("full"), .body = slice_of("body")};
    for (size_t i = 0; i < JOBS / COUNT(items); i++)
        OK(bide_put_many(queue, items, COUNT(items), NULL));
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    snprintf(parameters, sizeof parameters, "sync=off&max_memory=%llu",
             (unsigned long long)stats.memory_bytes);
    OK(bide_close(queue));

    vfs_slow_reads(5000);
    OK(bide_open(url_of("jobs.db", parameters), NULL, &queue));
    CODE(bide_wait_recovered(queue, 0, &progress), BIDE_TIMED_OUT);
    EQ(progress.phase, BIDE_PHASE_COUNTING);

    bide_op op = {.kind = BIDE_OP_PUT, .cq = make_cq(), .put = items[0]};
    bide_op *const ops[] = {&op};
    EQ(bide_submit(queue, ops, 1), 1);
    vfs_slow_reads(0);
    drain(op.cq, 1);
    EQ(op.status, BIDE_EFULL);
    OK(bide_cq_free(op.cq));
    OK(bide_close(queue));
}

static const struct test tests[] = {
    TEST(lease_starts_when_its_reserve_completes),
    TEST(a_slow_disk_is_not_a_failure_of_the_worker),
    TEST(close_past_its_deadline_writes_nothing),
    TEST(query_that_finds_nothing_while_the_disk_waits_is_not_applied),
    TEST(timers_fire_while_ops_wait_for_the_disk),
    TEST(timers_fire_while_a_kick_waits_for_the_disk),
    TEST(temporary_read_errors_lose_no_job),
    TEST(temporary_read_and_commit_errors_lose_no_job),
    TEST(read_and_commit_errors_lose_no_job_with_a_retry_limit),
    TEST(a_full_queue_is_full_while_its_jobs_are_counted),
};
const struct theme slow_disk_theme = {"slow_disk", tests, COUNT(tests)};
