/* SPDX-License-Identifier: MIT */
/*
 * body_read.c - ops whose bodies cannot be read, or not yet.
 *
 * A reservation that is given up changes nothing: the job is what it was, with its reason, its
 * moments and its place. An op that goes on gets its job, whatever is rolled back meanwhile, and
 * what it answers is true.
 */
#include "fault.h"
#include "local_server.h"
#include "queue/queue.h"
#include "vfs.h"

#include <errno.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define TOPIC     "unread"
#define BODY_SIZE 60000
#define PAGE_SIZE 4096

/* The first three are buried; the small one has its body at hand. */
enum { FIRST, SECOND, THIRD, DELAYED, RUN_AT, READY, SMALL, JOBS };

static uint64_t ids[JOBS];

static void put_job(bide *queue, int which, const bide_put_options *options)
{
    static const char body[BODY_SIZE];
    OK(bide_put(queue, TOPIC, body, sizeof body, options, &ids[which]));
}

/* Jobs of every kind that can be reserved, with a past, whose bodies only the file has. */
static bide *open_unread(const char *parameters)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    bide_job job;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    bide *queue = open_jobs("sync=off");
    for (int i = FIRST; i <= THIRD; i++) {
        put_job(queue, i, &options);
        OK(bide_reserve(queue, TOPIC, 0, &job));
        OK(bide_touch(queue, job.id, job.token, 0, NULL));
        OK(bide_bury(queue, job.id, job.token, BIDE_KEEP, i == SECOND ? "the second" : "another"));
        bide_job_clear(&job);
        nap_ms(2);
    }
    put_job(queue, READY, &options);
    OK(bide_put(queue, "small", "x", 1, &options, &ids[SMALL]));
    options.delay_ms = HOUR_MS;
    put_job(queue, DELAYED, &options);
    options.delay_ms = 0;
    options.run_at_ms = (wall_us() / 1000) + HOUR_MS;
    put_job(queue, RUN_AT, &options);
    OK(bide_close(queue));

    const char *path = test_path("jobs.db");
    static const char from[] = "SELECT min(pageno) FROM dbstat WHERE name='body' AND "
                               "pagetype='overflow'";
    static const char to[] = "SELECT max(pageno) FROM dbstat WHERE name='body' AND "
                             "pagetype='overflow'";
    vfs_region((NUMBER(path, from) - 1) * PAGE_SIZE, NUMBER(path, to) * PAGE_SIZE);
    return parameters == NULL ? NULL : open_jobs(parameters);
}

static void fail_reads(void)
{
    vfs_fail(&(struct vfs_fault){VFS_READ, "", 1, 0, SQLITE_IOERR_READ, EIO});
}

static void fail_one_commit(void)
{
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
}

static bide_job job_stats(bide *queue, int which)
{
    bide_job job;
    OK(bide_job_stats(queue, ids[which], &job));
    return job;
}

static bide_state state_now(bide *queue, int which)
{
    bide_job job = job_stats(queue, which);
    bide_state state = job.state;
    bide_job_clear(&job);
    return state;
}

/* ---- what is left of a reservation ---- */

/* Is the job what it was? */
static void check_same(const bide_job *was, bide *queue, int which)
{
    bide_job now = job_stats(queue, which);
    EQ(now.state, was->state);
    EQ(now.reserves, was->reserves);
    EQ(now.buries, was->buries);
    EQ(now.kicks, was->kicks);
    EQ(now.timeouts, was->timeouts);
    EQ(now.run_at_ms, was->run_at_ms);
    EQ(now.run_at_wall, was->run_at_wall);
    EQ(now.ready_ms, was->ready_ms);
    EQ(now.reserved_ms, was->reserved_ms);
    EQ(now.touched_ms, was->touched_ms);
    EQ(now.buried_ms, was->buried_ms);
    EQ(now.last_error_size, was->last_error_size);
    CHECK(now.last_error_size == 0 ||
          memcmp(now.last_error, was->last_error, now.last_error_size) == 0);
    bide_job_clear(&now);
}

/* The oldest burial is kicked first. */
static void check_place(bide *queue)
{
    uint64_t count;
    OK(bide_kick(queue, TOPIC, 2, &count));
    EQ(count, 2);
    EQ(state_now(queue, FIRST), BIDE_STATE_READY);
    EQ(state_now(queue, SECOND), BIDE_STATE_READY);
    EQ(state_now(queue, THIRD), BIDE_STATE_BURIED);
}

static void check_buried(bide *queue)
{
    bide_job job = job_stats(queue, SECOND);
    EQ(job.state, BIDE_STATE_BURIED);
    TEXT(job.last_error, job.last_error_size, "the second");
    EQ(job.reserves, 1);
    EQ(job.buries, 1);
    bide_job_clear(&job);
    check_place(queue);
}

static void submit_reserve_job(bide *queue, bide_cq *cq, bide_op *op, bide_job *job, int which)
{
    memset(op, 0, sizeof *op);
    memset(job, 0, sizeof *job);
    op->kind = BIDE_OP_RESERVE_JOB;
    op->cq = cq;
    op->reserve_job = (bide_reserve_job_args){.id = ids[which], .job = job};
    bide_op *const ops[] = {op};
    EQ(bide_submit(queue, ops, 1), 1);
}

static void unread_job_is_unchanged_after_read_error(void)
{
    static const int tried[] = {SECOND, DELAYED, RUN_AT, READY};
    bide_op ops[COUNT(tried)], wait = {.kind = BIDE_OP_WAIT};
    bide_job jobs[COUNT(tried)], was[COUNT(tried)];
    bide_cq *cq;
    bide *queue = open_unread("cache_bytes=1");
    OK(bide_cq_new(&cq));
    fail_reads();
    for (size_t i = 0; i < COUNT(tried); i++) {
        was[i] = job_stats(queue, tried[i]);
        submit_reserve_job(queue, cq, &ops[i], &jobs[i], tried[i]);
        EQ(state_now(queue, tried[i]), BIDE_STATE_RESERVED);
    }
    wait.cq = cq;
    wait.wait = (bide_wait_args){.id = ids[SECOND], .timeout_ms = 3 * PATIENCE_MS};
    bide_op *const waits[] = {&wait};
    EQ(bide_submit(queue, waits, 1), 1);
    size_t done = 0;
    UNTIL((done += (size_t)bide_cq_wait(cq, 100)) == COUNT(tried) + 1);
    vfs_clear_faults();
    EQ(wait.status, BIDE_OK);
    EQ(wait.wait.state, BIDE_STATE_BURIED);
    for (size_t i = 0; i < COUNT(tried); i++) {
        EQ(ops[i].status, BIDE_EIO);
        check_same(&was[i], queue, tried[i]);
        bide_job_clear(&was[i]);
    }
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
    queue = open_jobs("");
    EQ(state_now(queue, DELAYED), BIDE_STATE_DELAYED);
    EQ(state_now(queue, RUN_AT), BIDE_STATE_DELAYED);
    EQ(state_now(queue, READY), BIDE_STATE_READY);
    check_buried(queue);
    OK(bide_close(queue));
}

static void *reserve_second(void *arg)
{
    bide_job job;
    CODE(bide_reserve_job(arg, ids[SECOND], &job), BIDE_CLOSED);
    return NULL;
}

static void unread_job_is_unchanged_after_close(void)
{
    pthread_t thread;
    bide *queue = open_unread("cache_bytes=1");
    fail_reads();
    CHECK(pthread_create(&thread, NULL, reserve_second, queue) == 0);
    UNTIL(state_now(queue, SECOND) == BIDE_STATE_RESERVED);
    OK(bide_close(queue));
    CHECK(pthread_join(thread, NULL) == 0);
    vfs_clear_faults();
    queue = open_jobs("");
    check_buried(queue);
    OK(bide_close(queue));
}

/* The owner of the op gives it up while it is read for, or while it is stored. */
static void cancel_while(bide *queue, void (*hold)(bool), unsigned (*held)(void))
{
    bide_op op;
    bide_job job;
    bide_cq *cq;
    OK(bide_cq_new(&cq));
    hold(true);
    submit_reserve_job(queue, cq, &op, &job, SECOND);
    UNTIL(held() > 0);
    OK(bide_cancel_op(queue, &op));
    OK(bide_ping(queue)); /* a server has heard of it */
    hold(false);
    UNTIL(bide_cq_wait(cq, 100) == 1);
    EQ(op.status, BIDE_CANCELLED);
    check_buried(queue);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

static void unread_job_is_unchanged_after_cancel(void)
{
    cancel_while(open_unread("cache_bytes=1"), vfs_hold, vfs_held);
}

static void unread_job_is_unchanged_after_cancel_during_commit(void)
{
    cancel_while(open_unread(""), vfs_hold_syncs, vfs_held_syncs);
}

/* A call waits for the job that a reserve by id has taken. When that is cancelled, the call gets
 * the job, although nothing else happens. */
static void serve_after_cancel(bide *queue, const char *topic, uint64_t id, void (*hold)(bool),
                               unsigned (*held)(void))
{
    bide_op given = {.kind = BIDE_OP_RESERVE_JOB}, waiting = {.kind = BIDE_OP_RESERVE};
    bide_op *const ops[] = {&given}, *const waits[] = {&waiting};
    bide_slice name = slice_of(topic);
    bide_job job, served;
    bide_cq *cq;
    OK(bide_cq_new(&cq));
    given.cq = waiting.cq = cq;
    given.reserve_job = (bide_reserve_job_args){.id = id, .job = &job};
    waiting.reserve = (bide_reserve_args){.topics = &name,
                                          .topic_count = 1,
                                          .timeout_ms = BIDE_FOREVER,
                                          .jobs = &served,
                                          .job_max = 1};
    hold(true);
    EQ(bide_submit(queue, ops, 1), 1);
    UNTIL(held() > 0);
    EQ(bide_submit(queue, waits, 1), 1);
    OK(bide_cancel_op(queue, &given));
    hold(false);
    int done = 0;
    UNTIL((done += bide_cq_wait(cq, 100)) == 2);
    EQ(given.status, BIDE_CANCELLED);
    EQ(waiting.status, BIDE_OK);
    EQ(served.id, id);
    bide_job_clear(&served);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

static void waiting_call_gets_the_unread_job_of_a_cancelled_reserve(void)
{
    bide *queue = open_unread("cache_bytes=1");
    serve_after_cancel(queue, TOPIC, ids[READY], vfs_hold, vfs_held);
}

static void waiting_call_gets_the_job_of_a_reserve_cancelled_during_commit(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id;
    options.max_retries = 3; /* the reservation is stored */
    vfs_install();
    bide *queue = open_jobs("");
    OK(bide_put(queue, "limited", "x", 1, &options, &id));
    serve_after_cancel(queue, "limited", id, vfs_hold_syncs, vfs_held_syncs);
}

#ifdef FAULT_SERVER
/* ---- the time to stop is over ---- */

/* Nothing more is read: not the bodies that reserves still lack, nor jobs that are not loaded
 * yet. */
static void no_body_is_read_past_the_stop_deadline(void)
{
    enum { MANY = 400 };
    static const char body[20000];
    static bide_job jobs[MANY];
    static const bide_slice topic = {"many", 4};
    bide_op op = {.kind = BIDE_OP_RESERVE};
    bide_op *const ops[] = {&op};
    bide *queue = NULL;
    vfs_install();
    queue = open_jobs("sync=off");
    for (int i = 0; i < MANY; i++)
        OK(bide_put(queue, "many", body, sizeof body, NULL, NULL));
    OK(bide_close(queue));
    queue = open_jobs("cache_bytes=1");
    OK(bide_cq_new(&op.cq));
    op.reserve =
        (bide_reserve_args){.topics = &topic, .topic_count = 1, .jobs = jobs, .job_max = MANY};
    vfs_slow_reads(2000);
    unsigned begun = vfs_count(VFS_READ);
    EQ(bide_submit(queue, ops, 1), 1);
    UNTIL(vfs_count(VFS_READ) > begun + 10);
    bi_queue_set_close_deadline(queue, 1);
    unsigned before = vfs_count(VFS_READ);
    OK(bide_close(queue));
    unsigned reads = vfs_count(VFS_READ) - before;
    if (reads > 100)
        FAIL("%u pages were read after the time to stop", reads);
    UNTIL(bide_cq_wait(op.cq, 100) == 1);
    EQ(op.status, BIDE_CLOSED);
    EQ(op.reserve.count, 0);
    OK(bide_cq_free(op.cq));
}

static void unread_job_is_unchanged_after_disconnect(void)
{
    struct local_server local_server;
    char line[100];
    open_unread(NULL);
    serve_begin(&local_server, "cache_bytes=1");
    int other = serve_connect(&local_server);
    int fd = serve_connect(&local_server);
    vfs_hold(true);
    /* It leaves an answer unread, so that the connection is reset, and not only half closed. */
    snprintf(line, sizeof line, "list-tubes\r\nreserve-job %llu\r\n",
             (unsigned long long)ids[SECOND]);
    serve_send(fd, line);
    UNTIL(vfs_held() > 0);
    close(fd);
    serve_await(other, "stats\r\n", "current-connections: 1\n");
    vfs_hold(false);
    UNTIL(state_now(local_server.queue, SECOND) != BIDE_STATE_RESERVED);
    check_buried(local_server.queue);
    close(other);
    serve_end(&local_server);
}

static void unread_job_is_unchanged_after_client_cancel(void)
{
    struct local_server local_server;
    open_unread(NULL);
    serve_begin(&local_server, "cache_bytes=1");
    bide *client = serve_open(&local_server);
    cancel_while(client, vfs_hold, vfs_held);
    serve_end(&local_server);
}
#endif

/* ---- a rollback while an op is read for ---- */

static void submit_reserve(bide *queue, bide_cq *cq, bide_op *op, bide_job *job, int64_t timeout_ms)
{
    static const bide_slice topics[] = {{TOPIC, sizeof TOPIC - 1}, {"other", 5}};
    memset(op, 0, sizeof *op);
    memset(job, 0, sizeof *job);
    op->kind = BIDE_OP_RESERVE;
    op->cq = cq;
    op->reserve = (bide_reserve_args){.topics = &topics[timeout_ms != 0],
                                      .topic_count = 1,
                                      .timeout_ms = timeout_ms,
                                      .jobs = job,
                                      .job_max = 1};
    bide_op *const ops[] = {op};
    EQ(bide_submit(queue, ops, 1), 1);
}

/* A change of the job that is being read for is rolled back: the op keeps its job. */
static void fail_a_commit_while_reading(const char *parameters, bool by_id, bool crowded)
{
    bide_op op, other;
    bide_job job, other_job;
    bide_cq *cq;
    bide *queue = open_unread(parameters);
    OK(bide_cq_new(&cq));
    OK(bide_put(queue, "before", "x", 1, NULL,
                NULL)); /* the first commit is not the one that fails */
    if (crowded)
        submit_reserve(queue, cq, &other, &other_job, 3 * PATIENCE_MS);
    fail_reads();
    if (by_id)
        submit_reserve_job(queue, cq, &op, &job, READY);
    else
        submit_reserve(queue, cq, &op, &job, 0);
    EQ(state_now(queue, READY), BIDE_STATE_RESERVED);
    fail_one_commit();
    CHECK(bide_cancel(queue, ids[READY]) < 0);
    nap_ms(5);
    CODE(bide_reserve(queue, TOPIC, 0, &other_job), BIDE_TIMED_OUT);
    EQ(state_now(queue, READY), BIDE_STATE_RESERVED);
    vfs_clear_faults();
    UNTIL(bide_cq_wait(cq, 100) == 1);
    EQ(op.status, BIDE_OK);
    EQ(job.id, ids[READY]);
    EQ(job.reserves, 1);
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    if (crowded) {
        OK(bide_cancel_op(queue, &other));
        UNTIL(bide_cq_wait(cq, 100) == 1);
    }
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

static void reserve_keeps_its_job_through_rollback(void)
{
    fail_a_commit_while_reading("cache_bytes=1", false, false);
}

static void reserve_that_could_not_wait_keeps_its_job_through_rollback(void)
{
    fail_a_commit_while_reading("cache_bytes=1&max_waiters=1", false, true);
}

static void reserve_job_keeps_its_job_through_rollback(void)
{
    fail_a_commit_while_reading("cache_bytes=1", true, false);
}

/* ---- lists ---- */

/* Lists all jobs of the topic from a cursor on; answers how many there are. */
static size_t list_from(bide *queue, char *cursor)
{
    bide_job jobs[2];
    size_t count = 0, seen = 0;
    do {
        OK(bide_list(queue, TOPIC, BIDE_STATE_ANY, NULL, cursor, jobs, COUNT(jobs), &count));
        for (size_t i = 0; i < count; i++)
            bide_job_clear(&jobs[i]);
        seen += count;
    } while (cursor[0] != 0);
    return seen;
}

/* A page that cannot be read leaves nothing behind, so that the caller can ask for it again. */
static void failed_list_can_be_repeated(void)
{
    bide_job jobs[2];
    char cursor[BIDE_CURSOR_SIZE] = "", begin[BIDE_CURSOR_SIZE];
    bide *queue = open_unread("cache_bytes=1");
    bide_list_args args = {.topic = slice_of(TOPIC),
                           .with_body = true,
                           .cursor = cursor,
                           .jobs = jobs,
                           .job_max = COUNT(jobs)};
    OK(bide_list_page(queue, &args));
    EQ(args.count, COUNT(jobs));
    for (size_t i = 0; i < args.count; i++)
        bide_job_clear(&jobs[i]);
    memcpy(begin, cursor, sizeof cursor);
    fail_reads();
    CODE(bide_list_page(queue, &args), BIDE_EIO);
    TEXT(cursor, strlen(cursor), begin);
    vfs_clear_faults();
    /* The small one is in another topic. */
    EQ(list_from(queue, cursor), JOBS - 1 - COUNT(jobs));
    OK(bide_close(queue));
}

static _Atomic unsigned errors_logged;

static void count_errors(void *user, bide_log_level level, const char *text)
{
    (void)user;
    (void)text;
    errors_logged += level == BIDE_LOG_ERROR;
}

static void *list_often(void *arg)
{
    for (int i = 0; i < 300; i++) {
        char cursor[BIDE_CURSOR_SIZE] = "";
        list_from(arg, cursor);
    }
    return NULL;
}

/* A job that is deleted while a list reads its body is no damage. */
static void jobs_deleted_during_the_read_are_not_logged(void)
{
    static const char body[500];
    enum { MANY = 200, CHANGES = 4000 };
    bide_options options = BIDE_OPTIONS_INIT;
    bide *queue = NULL;
    pthread_t thread;
    uint64_t some[MANY];
    options.log = count_errors;
    OK(bide_open(url_of("jobs.db", "sync=off&cache_bytes=1"), &options, &queue));
    for (int i = 0; i < MANY; i++)
        OK(bide_put(queue, TOPIC, body, sizeof body, NULL, &some[i]));
    CHECK(pthread_create(&thread, NULL, list_often, queue) == 0);
    for (int i = 0; i < CHANGES; i++) {
        OK(bide_delete(queue, some[i * 7 % MANY], 0));
        OK(bide_put(queue, TOPIC, body, sizeof body, NULL, &some[i * 7 % MANY]));
    }
    CHECK(pthread_join(thread, NULL) == 0);
    OK(bide_close(queue));
    EQ(errors_logged, 0);
}

/* ---- finish_and_reserve ---- */

/* The reserve is given up while the finish is still being stored. */
static void finish_while_unreadable(bool stored)
{
    static const bide_slice topic = {TOPIC, sizeof TOPIC - 1};
    bide_op op = {.kind = BIDE_OP_FINISH_AND_RESERVE};
    bide_job first, next;
    bide_cq *cq;
    bide *queue = open_unread("cache_bytes=1");
    OK(bide_cq_new(&cq));
    memset(&next, 0, sizeof next);
    OK(bide_reserve_job(queue, ids[SMALL], &first));
    fail_reads();
    vfs_hold_syncs(true);
    op.cq = cq;
    op.finish_and_reserve.finish = (bide_finish_item){.id = first.id, .token = first.token};
    op.finish_and_reserve.reserve =
        (bide_reserve_args){.topics = &topic, .topic_count = 1, .jobs = &next, .job_max = 1};
    bide_op *const ops[] = {&op};
    EQ(bide_submit(queue, ops, 1), 1);
    EQ(state_now(queue, READY), BIDE_STATE_RESERVED);
    UNTIL(vfs_held_syncs() > 0);
    UNTIL(state_now(queue, READY) == BIDE_STATE_READY); /* given up */
    vfs_clear_faults();
    if (!stored)
        vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 1, SQLITE_IOERR_FSYNC, EIO});
    vfs_hold_syncs(false);
    UNTIL(bide_cq_wait(cq, 100) == 1);
    EQ(op.status, BIDE_EIO);
    EQ(op.finish_and_reserve.reserve.count, 0);
    bide_job job;
    if (stored) {
        EQ(op.finish_and_reserve.finish.status, BIDE_OK);
        CODE(bide_job_stats(queue, first.id, &job), BIDE_NOT_FOUND);
    } else {
        EQ(op.finish_and_reserve.finish.status, BIDE_EIO);
        OK(bide_delete(queue, first.id, first.token));
    }
    bide_job_clear(&first);
    OK(bide_cq_free(cq));
    OK(bide_close(queue));
}

static void stored_finish_is_reported_when_the_reserve_is_cancelled(void)
{
    finish_while_unreadable(true);
}

static void failed_finish_is_reported_when_the_reserve_is_cancelled(void)
{
    finish_while_unreadable(false);
}

#ifdef FAULT_SERVER
/* Clients ask for more bodies than the server may keep for clients, 72 MiB, and do not read them.
 * Each gets a job; those that do not fit are given back. */
static void bodies_for_clients_that_do_not_read_are_bounded(void)
{
    enum { CLIENTS = 20, SIZE = 60000 };
    static char body[SIZE];
    static bide_put_item items[128];
    struct local_server local_server;
    int fds[CLIENTS];
    size_t reserved = 0;
    vfs_install();
    serve_begin(&local_server, "sync=off&cache_bytes=1MiB");
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = slice_of("default"), .body = {body, SIZE}};
    for (int i = 0; i < CLIENTS; i++)
        OK(bide_put_many(local_server.queue, items, COUNT(items), NULL));

    for (int i = 0; i < CLIENTS; i++) {
        fds[i] = serve_connect(&local_server);
        serve_send(fds[i], "reserve-many 128 0\r\n");
    }
    for (int i = 0; i < CLIENTS; i++) {
        char reply[32] = "";
        size_t count = 0;
        CHECK(recv(fds[i], reply, sizeof reply - 1, MSG_WAITALL) > 0);
        CHECK(sscanf(reply, "RESERVED_MANY %zu", &count) == 1 && count > 0);
        reserved += count;
    }
    CHECK(reserved * SIZE <= ((size_t)72 << 20) + (size_t)CLIENTS * SIZE);

    bide_stats stats = {.jobs = {.ready = 0}};
    UNTIL(bide_queue_stats(local_server.queue, &stats) == BIDE_OK &&
          stats.jobs.reserved <= reserved);
    EQ(stats.jobs.ready + stats.jobs.reserved, CLIENTS * COUNT(items));

    for (int i = 0; i < CLIENTS; i++)
        close(fds[i]);
    serve_end(&local_server);
}
#endif

static const struct test tests[] = {
    TEST(unread_job_is_unchanged_after_read_error),
    TEST(unread_job_is_unchanged_after_close),
    TEST(unread_job_is_unchanged_after_cancel),
    TEST(unread_job_is_unchanged_after_cancel_during_commit),
    TEST(waiting_call_gets_the_unread_job_of_a_cancelled_reserve),
    TEST(waiting_call_gets_the_job_of_a_reserve_cancelled_during_commit),
#ifdef FAULT_SERVER
    TEST(unread_job_is_unchanged_after_disconnect),
    TEST(unread_job_is_unchanged_after_client_cancel),
    TEST(no_body_is_read_past_the_stop_deadline),
#endif
    TEST(failed_list_can_be_repeated),
    TEST(jobs_deleted_during_the_read_are_not_logged),
    TEST(reserve_keeps_its_job_through_rollback),
    TEST(reserve_that_could_not_wait_keeps_its_job_through_rollback),
    TEST(reserve_job_keeps_its_job_through_rollback),
    TEST(stored_finish_is_reported_when_the_reserve_is_cancelled),
    TEST(failed_finish_is_reported_when_the_reserve_is_cancelled),
#ifdef FAULT_SERVER
    TEST(bodies_for_clients_that_do_not_read_are_bounded),
#endif
};
const struct theme body_read_theme = {"body_read", tests, COUNT(tests)};
