/* SPDX-License-Identifier: MIT */
#include "workload.h"

#include "fault.h"
#include "vfs.h"

#include "../sim/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <sqlite3.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define BACKLOG   400
#define SHORT_MS  300
#define ROUNDS    25
#define TAKEN_MAX 16

enum { NEW, STORED, REFUSED, UNKNOWN };   /* what is known of a put */
enum { FREE, HELD, FINISHING, GONE };     /* and of a lease */
enum { LONG_LEASE = 0, CANCELLABLE = 1 }; /* serial % 2, serial % 8 */

/* Its lease lasts longer than the test. */
static bool has_long_lease(uint64_t serial)
{
    return serial % 2 == LONG_LEASE;
}

static void count_unknown(struct workload *workload, int code)
{
    atomic_fetch_add(&workload->unknown, code == BIDE_EUNKNOWN);
}

/* ---- putting ---- */

static uint64_t serial_of(const bide_job *job)
{
    uint64_t serial = read_numbered(job->body, job->body_size);
    CHECK(serial < WORKLOAD_SERIALS);
    return serial;
}

static void put_one(struct workload *workload, struct rng *rng)
{
    static _Thread_local char body[NUMBERED_MAX + 1];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    uint64_t serial = atomic_fetch_add(&workload->next, 1);
    CHECK(serial < WORKLOAD_SERIALS);
    options.ttr_ms = serial % 2 == LONG_LEASE ? HOUR_MS : SHORT_MS;
    options.delay_ms = rng_below(rng, 4) == 0 ? (int64_t)rng_below(rng, 50) : 0;
    options.max_retries = rng_below(rng, 2) == 0 ? (int32_t)rng_below(rng, 3) : BIDE_NO_RETRY_LIMIT;
    options.backoff_base_ms = 10;
    bide *queue = workload->queues[rng_below(rng, 2)];
    int code = bide_put(queue, WORKLOAD_TOPIC, body, write_numbered(body, serial), &options, &id);
    if (code == BIDE_OK) {
        atomic_fetch_add(&workload->stored, 1);
        workload->put[serial] = STORED;
    } else {
        CHECK(code < 0 || code == BIDE_DRAINING);
        workload->put[serial] = code == BIDE_EUNKNOWN ? UNKNOWN : REFUSED;
        count_unknown(workload, code);
        nap_ms(1);
    }
    if (code == BIDE_OK && serial % 8 == CANCELLABLE && rng_below(rng, 2) == 0)
        bide_cancel(queue, id);
}

void workload_put(struct workload *workload, int count)
{
    struct rng rng;
    rng = (struct rng){workload->seed + 50};
    while (count-- > 0)
        put_one(workload, &rng);
}

static void *produce(void *arg)
{
    struct workload *workload = arg;
    struct rng rng;
    rng = (struct rng){workload->seed + 100};
    while (!atomic_load(&workload->stop)) {
        if (workload->stored > workload->finished + BACKLOG)
            nap_ms(1);
        else
            put_one(workload, &rng);
    }
    return NULL;
}

/* ---- finishing ---- */

/* Repeats a call until it succeeds or is refused. first: the first answer, which may have been
 * lost. */
#define RETRY(first, code, call)           \
    do {                                   \
        (first) = (code) = (call);         \
        while ((code) < 0) {               \
            count_unknown(workload, code); \
            nap_ms(2);                     \
            (code) = (call);               \
        }                                  \
    } while (0)

/* Of a job whose lease may have run out only the end is kept. */
static void set_lease(struct workload *workload, uint64_t serial, char lease)
{
    if (has_long_lease(serial))
        workload->lease[serial] = lease;
}

/* before: what an attempt before this one was answered. */
static void delete_job(struct workload *workload, bide *queue, const bide_job *job, uint64_t serial,
                       int before)
{
    int first, code;
    set_lease(workload, serial, FINISHING);
    RETRY(first, code, bide_delete(queue, job->id, job->token));
    if (has_long_lease(serial) && code != BIDE_OK && first >= 0 && before != BIDE_EUNKNOWN)
        FAIL("job %" PRIu64 ", whose lease lasts an hour, cannot be deleted: %s (%d before)",
             job->id, bide_last_error(), before);
    if (has_long_lease(serial) && code == BIDE_LEASE_LOST)
        FAIL("the lease on job %" PRIu64 ", which lasts an hour, is lost after a delete: %d",
             job->id, first);
    if (code == BIDE_LEASE_LOST)
        return;
    if (atomic_exchange(&workload->lease[serial], GONE) != GONE)
        atomic_fetch_add(&workload->finished, 1);
}

static void return_job(struct workload *workload, bide *queue, const bide_job *job, uint64_t serial,
                       unsigned how)
{
    int first, code;
    set_lease(workload, serial, FREE);
    if (how == 0)
        RETRY(first, code, bide_release(queue, job->id, job->token, BIDE_KEEP, 0));
    else if (how == 1)
        RETRY(first, code, bide_fail(queue, job->id, job->token, "went wrong", 5, NULL, NULL));
    else if (how == 2)
        RETRY(first, code, bide_bury(queue, job->id, job->token, BIDE_KEEP, "why"));
    else
        RETRY(first, code, bide_give_back(queue, job->id, job->token));
    if (has_long_lease(serial) && code != BIDE_OK && first >= 0)
        FAIL("job %" PRIu64 ", whose lease lasts an hour, cannot be given away: %s", job->id,
             bide_last_error());
}

static void begin_work(struct workload *workload, const bide_job *job, uint64_t serial)
{
    if (workload->put[serial] == REFUSED)
        FAIL("job %" PRIu64 " was taken, whose put failed", job->id);
    if (!has_long_lease(serial))
        return;
    char was = atomic_exchange(&workload->lease[serial], HELD);
    if (was != FREE)
        FAIL("job %" PRIu64 " was taken, although %s", job->id,
             was == GONE ? "it was deleted" : "another holds it");
}

/* What a worker does with a job that it has. */
static void handle(struct workload *workload, bide *queue, struct rng *rng, bide_job *job)
{
    uint64_t serial = serial_of(job);
    begin_work(workload, job, serial);
    unsigned what = (unsigned)rng_below(rng, 12);
    if (what == 11) {
        nap_ms(5);
        bide_touch(queue, job->id, job->token, 0, "half");
    }
    if (what < 4 && !atomic_load(&workload->stop))
        return_job(workload, queue, job, serial, what);
    else
        delete_job(workload, queue, job, serial, BIDE_OK);
    bide_job_clear(job);
}

/* Deletes one, and takes the next with the same call. */
static void delete_and_reserve_next(struct workload *workload, bide *queue, struct rng *rng,
                                    bide_job *job)
{
    static const bide_slice topic = {WORKLOAD_TOPIC, sizeof WORKLOAD_TOPIC - 1};
    bide_job next;
    memset(&next, 0, sizeof next);
    uint64_t serial = serial_of(job);
    begin_work(workload, job, serial);
    set_lease(workload, serial, FINISHING);
    bide_finish_item finish = {.id = job->id, .token = job->token};
    bide_reserve_args args = {
        .topics = &topic, .topic_count = 1, .timeout_ms = 5, .jobs = &next, .job_max = 1};
    int code = bide_finish_and_reserve(queue, &finish, &args);
    if (has_long_lease(serial) && finish.status > 0)
        FAIL("finish_and_reserve of job %" PRIu64 ": %d", job->id, finish.status);
    if (finish.status == BIDE_OK) {
        if (atomic_exchange(&workload->lease[serial], GONE) != GONE)
            atomic_fetch_add(&workload->finished, 1);
    } else {
        delete_job(workload, queue, job, serial, finish.status);
    }
    bide_job_clear(job);
    if (code == BIDE_OK)
        handle(workload, queue, rng, &next);
}

/* ---- taking ---- */

static void *work(void *arg)
{
    static const bide_slice topic = {WORKLOAD_TOPIC, sizeof WORKLOAD_TOPIC - 1};
    struct workload *workload = arg;
    struct rng rng;
    rng = (struct rng){workload->seed + 1000 * (1 + atomic_fetch_add(&workload->workers, 1))};
    while (!atomic_load(&workload->over)) {
        bide_job jobs[TAKEN_MAX];
        memset(jobs, 0, sizeof jobs);
        bide *queue = workload->queues[rng_below(&rng, 2)];
        bide_reserve_args args = {.topics = &topic,
                                  .topic_count = 1,
                                  .timeout_ms = (int64_t)rng_below(&rng, 20),
                                  .jobs = jobs,
                                  .job_max = 1 + rng_below(&rng, TAKEN_MAX)};
        int code = bide_reserve_many(queue, &args);
        if (code != BIDE_OK) {
            CHECK(code < 0 || code == BIDE_TIMED_OUT);
            EQ(args.count, 0);
            count_unknown(workload, code);
            continue;
        }
        for (size_t i = 0; i < args.count; i++)
            if (rng_below(&rng, 3) == 0)
                delete_and_reserve_next(workload, queue, &rng, &jobs[i]);
            else
                handle(workload, queue, &rng, &jobs[i]);
    }
    return NULL;
}

/* Takes jobs that are buried or delayed. */
static void *reserve_by_id(void *arg)
{
    struct workload *workload = arg;
    struct rng rng;
    rng = (struct rng){workload->seed + 11};
    while (!atomic_load(&workload->over)) {
        bide *queue = workload->queues[rng_below(&rng, 2)];
        bide_state state = rng_below(&rng, 2) == 0 ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
        bide_job job;
        uint64_t id = 0;
        nap_ms(1);
        if (bide_peek_first(queue, WORKLOAD_TOPIC, state, &job) == BIDE_OK) {
            id = job.id;
            bide_job_clear(&job);
        }
        if (id != 0 && bide_reserve_job(queue, id, &job) == BIDE_OK)
            handle(workload, queue, &rng, &job);
    }
    return NULL;
}

static void *kick_repeatedly(void *arg)
{
    struct workload *workload = arg;
    while (!atomic_load(&workload->over)) {
        uint64_t count;
        bide_kick(workload->queues[0], WORKLOAD_TOPIC, 100000, &count);
        nap_ms(10);
    }
    return NULL;
}

/* Pauses the topic and drains the queue for moments, if that is wanted. */
static void *pause_and_drain(void *arg)
{
    struct workload *workload = arg;
    int code, first;
    while (workload->with_pauses && !atomic_load(&workload->stop)) {
        bide_pause(workload->queues[0], WORKLOAD_TOPIC, 20);
        bide_drain(workload->queues[1], true);
        nap_ms(5);
        bide_drain(workload->queues[1], false);
        bide_resume(workload->queues[1], WORKLOAD_TOPIC);
        bide_pause(workload->queues[1], WORKLOAD_TOPIC, BIDE_FOREVER);
        nap_ms(5);
        RETRY(first, code, bide_resume(workload->queues[0], WORKLOAD_TOPIC));
        CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
        nap_ms(10);
    }
    RETRY(first, code, bide_drain(workload->queues[0], false));
    (void)first;
    return NULL;
}

/* Threads that end in a call. */
static void *reserve_until_cancelled(void *arg)
{
    struct workload *workload = arg;
    struct rng rng;
    rng = (struct rng){workload->seed};
    for (;;) {
        bide_job job;
        int old;
        int code = bide_reserve(workload->queues[1], WORKLOAD_TOPIC, 50, &job);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
        if (code == BIDE_OK)
            handle(workload, workload->queues[1], &rng, &job);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        pthread_testcancel();
    }
    return NULL;
}

static void *cancel_threads(void *arg)
{
    struct workload *workload = arg;
    while (!atomic_load(&workload->stop)) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, reserve_until_cancelled, workload) == 0);
        nap_ms(7);
        pthread_cancel(thread);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return NULL;
}

/* Connections of beanstalkd clients that send and do not stay for the answers. */
static void *drop_connections(void *arg)
{
    struct workload *workload = arg;
    struct rng rng;
    rng = (struct rng){workload->seed + 7};
    while (workload->socket[0] != 0 && !atomic_load(&workload->stop)) {
        static const char hello[] = "watch " WORKLOAD_TOPIC "\r\nignore default\r\n";
        static const char line[] = "reserve-with-timeout 0\r\n";
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", workload->socket);
        int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
        CHECK(fd >= 0);
        CHECK(connect(fd, (struct sockaddr *)&address, sizeof address) == 0);
        CHECK(send(fd, hello, sizeof hello - 1, MSG_NOSIGNAL) > 0);
        for (uint64_t i = rng_below(&rng, 30); i > 0; i--)
            if (send(fd, line, sizeof line - 1, MSG_NOSIGNAL) <= 0)
                break;
        nap_ms((int64_t)rng_below(&rng, 10));
        close(fd);
        nap_ms(10);
    }
    return NULL;
}

/* ---- faults ---- */

static void begin_fault(struct rng *rng)
{
    unsigned times = (unsigned)rng_below(rng, 4); /* 0: all */
    switch (rng_below(rng, 7)) {
    case 0:
        vfs_hold_syncs(true);
        break;
    case 1:
        vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, times, SQLITE_IOERR_FSYNC, EIO});
        break;
    case 2:
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "", 1, times, SQLITE_IOERR_WRITE, EIO});
        break;
    case 3:
        vfs_fail(&(struct vfs_fault){VFS_READ, "jobs.db", 1, times, SQLITE_IOERR_READ, EIO});
        break;
    case 4:
        vfs_slow_reads(2000);
        break;
    case 5:
        vfs_fail_at_random(rng_below(rng, UINT32_MAX), 50);
        break;
    default:
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 0, SQLITE_FULL, ENOSPC});
        break;
    }
}

void workload_inject_faults(struct workload *workload)
{
    struct rng rng;
    rng = (struct rng){workload->seed};
    for (int i = 0; i < ROUNDS; i++) {
        begin_fault(&rng);
        begin_fault(&rng);
        nap_ms((int64_t)rng_below(&rng, 120));
        vfs_clear_faults();
        vfs_slow_reads(0);
        vfs_hold_syncs(false);
        nap_ms((int64_t)rng_below(&rng, 60));
    }
}

/* ---- the end ---- */

static void check_all_finished(struct workload *workload)
{
    for (uint64_t i = 0; i < workload->next; i++)
        if (workload->put[i] == STORED && i % 8 != CANCELLABLE && workload->lease[i] != GONE)
            FAIL("serial %" PRIu64 " was put and never finished", i);
}

static void report_leftover(bide *queue)
{
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    FAIL("left: %" PRIu64 " ready, %" PRIu64 " reserved, %" PRIu64 " delayed, %" PRIu64 " buried",
         (uint64_t)stats.jobs.ready, (uint64_t)stats.jobs.reserved, (uint64_t)stats.jobs.delayed,
         (uint64_t)stats.jobs.buried);
}

static void await_empty(bide *queue)
{
    bide_stats stats;
    int64_t limit = clock_us() + 2 * PATIENCE_MS * 1000;
    while (bide_queue_stats(queue, &stats) != BIDE_OK ||
           stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried != 0) {
        if (clock_us() > limit)
            report_leftover(queue);
        nap_ms(5);
    }
}

void workload_run(struct workload *workload, bide *inner, void (*inject_faults)(struct workload *))
{
    void *(*const roles[])(void *) = {produce,
                                      produce,
                                      work,
                                      work,
                                      work,
                                      kick_repeatedly,
                                      cancel_threads,
                                      drop_connections,
                                      pause_and_drain,
                                      reserve_by_id};
    pthread_t threads[COUNT(roles)];
    bide_check_report report;
    for (size_t i = 0; i < COUNT(roles); i++)
        CHECK(pthread_create(&threads[i], NULL, roles[i], workload) == 0);
    inject_faults(workload);
    atomic_store(&workload->stop, true);
    await_empty(inner);
    atomic_store(&workload->over, true);
    for (size_t i = 0; i < COUNT(roles); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    await_empty(inner);
    check_all_finished(workload);
    OK(bide_check(inner, &report));
    EQ(report.differences, 0);
    CHECK(workload->finished > 0);
}

static uint64_t seed_of(void)
{
    const char *text = getenv("BIDE_PAIRS_SEED");
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

struct workload *workload_new(void)
{
    struct workload *workload = calloc(1, sizeof *workload);
    CHECK(workload != NULL);
    workload->seed = seed_of();
    return workload;
}
