/* SPDX-License-Identifier: MIT */
/*
 * pairs.c - two faults at a time under load: workers put, take, finish, release, fail, bury and kick,
 * callers are cancelled and connections dropped, while syncs hang, commits and reads fail.
 *
 * Each job has a serial number in its body. A put that was acknowledged must be worked off, one that
 * failed for certain must never be seen, and a job whose lease lasts longer than the test has one
 * holder at a time. When the faults are over everything is worked off, and the figures are all 0.
 */
#include "fault.h"
#include "served.h"
#include "vfs.h"

#include "../sim/rng.h"

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <sqlite3.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#define TOPIC     "pairs"
#define SERIALS   200000
#define BACKLOG   400
#define SHORT_MS  300
#define DIGITS    16 /* bytes of the serial in front of a body */
#define BODY_SIZE (DIGITS + BODY_MAX)
#define ROUNDS    25
#define TAKEN_MAX 16

enum { NEW, STORED, REFUSED, UNKNOWN };   /* what is known of a put */
enum { FREE, HELD, FINISHING, GONE };     /* and of a lease */
enum { LONG_LEASE = 0, CANCELLABLE = 1 }; /* serial % 2, serial % 8 */

struct crew {
    bide *queues[2]; /* may be the same */
    uint64_t seed;
    _Atomic uint64_t workers;
    atomic_bool stop, over;
    _Atomic uint64_t next, stored, finished;
    _Atomic char put[SERIALS], lease[SERIALS];
    char socket[108]; /* "": there is no server */
};

/* Its lease lasts longer than the test. */
static bool is_strict(uint64_t serial)
{
    return serial % 2 == LONG_LEASE;
}

/* ---- putting ---- */

static size_t write_body(char *room, uint64_t serial)
{
    size_t size;
    const void *body = body_of(serial, &size);
    snprintf(room, DIGITS + 1, "%016" PRIx64, serial);
    memcpy(room + DIGITS, body, size);
    return DIGITS + size;
}

static uint64_t read_body(const bide_job *job)
{
    char number[DIGITS + 1] = "";
    CHECK(job->body != NULL && job->body_size >= DIGITS);
    memcpy(number, job->body, DIGITS);
    uint64_t serial = strtoull(number, NULL, 16);
    CHECK(serial < SERIALS);
    CHECK(body_is(serial, (const char *)job->body + DIGITS, job->body_size - DIGITS));
    return serial;
}

static void put_one(struct crew *crew, struct rng *rng)
{
    static _Thread_local char body[BODY_SIZE + 1];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    uint64_t id = 0;
    uint64_t serial = atomic_fetch_add(&crew->next, 1);
    CHECK(serial < SERIALS);
    options.ttr_ms = serial % 2 == LONG_LEASE ? HOUR_MS : SHORT_MS;
    options.delay_ms = rng_below(rng, 4) == 0 ? (int64_t)rng_below(rng, 50) : 0;
    options.max_retries = rng_below(rng, 2) == 0 ? (int32_t)rng_below(rng, 3) : BIDE_NO_RETRY_LIMIT;
    options.backoff_base_ms = 10;
    bide *queue = crew->queues[rng_below(rng, 2)];
    int code = bide_put(queue, TOPIC, body, write_body(body, serial), &options, &id);
    if (code == BIDE_OK) {
        atomic_fetch_add(&crew->stored, 1);
        crew->put[serial] = STORED;
    } else {
        CHECK(code < 0);
        crew->put[serial] = code == BIDE_EUNKNOWN ? UNKNOWN : REFUSED;
        nap_ms(1);
    }
    if (code == BIDE_OK && serial % 8 == CANCELLABLE && rng_below(rng, 2) == 0)
        bide_cancel(queue, id);
}

static void *produce(void *arg)
{
    struct crew *crew = arg;
    struct rng rng;
    rng = (struct rng){crew->seed + 100};
    while (!atomic_load(&crew->stop)) {
        if (crew->stored > crew->finished + BACKLOG)
            nap_ms(1);
        else
            put_one(crew, &rng);
    }
    return NULL;
}

/* ---- finishing ---- */

/* Answers what a call said when it said something; the first answer may have been lost. */
#define INSIST(first, code, call)  \
    do {                           \
        (first) = (code) = (call); \
        while ((code) < 0) {       \
            nap_ms(2);             \
            (code) = (call);       \
        }                          \
    } while (0)

/* Of a job whose lease may have run out only the end is kept. */
static void mark(struct crew *crew, uint64_t serial, char lease)
{
    if (is_strict(serial))
        crew->lease[serial] = lease;
}

/* before: what an attempt before this one was answered. */
static void delete_job(struct crew *crew, bide *queue, const bide_job *job, uint64_t serial,
                       int before)
{
    int first, code;
    mark(crew, serial, FINISHING);
    INSIST(first, code, bide_delete(queue, job->id, job->token));
    if (is_strict(serial) && code != BIDE_OK && first >= 0 && before != BIDE_EUNKNOWN)
        FAIL("job %" PRIu64 ", whose lease lasts an hour, cannot be deleted: %s (%d before)",
             job->id, bide_last_error(), before);
    if (is_strict(serial) && code == BIDE_LEASE_LOST)
        FAIL("the lease on job %" PRIu64 ", which lasts an hour, is lost after a delete: %d",
             job->id, first);
    if (code == BIDE_LEASE_LOST)
        return;
    if (atomic_exchange(&crew->lease[serial], GONE) != GONE)
        atomic_fetch_add(&crew->finished, 1);
}

static void give_away(struct crew *crew, bide *queue, const bide_job *job, uint64_t serial,
                      unsigned how)
{
    int first, code;
    mark(crew, serial, FREE);
    if (how == 0)
        INSIST(first, code, bide_release(queue, job->id, job->token, BIDE_KEEP, 0));
    else if (how == 1)
        INSIST(first, code, bide_fail(queue, job->id, job->token, "went wrong", 5, NULL, NULL));
    else if (how == 2)
        INSIST(first, code, bide_bury(queue, job->id, job->token, BIDE_KEEP, "why"));
    else
        INSIST(first, code, bide_give_back(queue, job->id, job->token));
    if (is_strict(serial) && code != BIDE_OK && first >= 0)
        FAIL("job %" PRIu64 ", whose lease lasts an hour, cannot be given away: %s", job->id,
             bide_last_error());
}

static void begin_work(struct crew *crew, const bide_job *job, uint64_t serial)
{
    if (crew->put[serial] == REFUSED)
        FAIL("job %" PRIu64 " was taken, whose put failed", job->id);
    if (!is_strict(serial))
        return;
    char was = atomic_exchange(&crew->lease[serial], HELD);
    if (was != FREE)
        FAIL("job %" PRIu64 " was taken, although %s", job->id,
             was == GONE ? "it was deleted" : "another holds it");
}

/* What a worker does with a job that it has. */
static void handle(struct crew *crew, bide *queue, struct rng *rng, bide_job *job)
{
    uint64_t serial = read_body(job);
    begin_work(crew, job, serial);
    unsigned what = (unsigned)rng_below(rng, 12);
    if (what == 11) {
        nap_ms(5);
        bide_touch(queue, job->id, job->token, 0, "half");
    }
    if (what < 4 && !atomic_load(&crew->stop))
        give_away(crew, queue, job, serial, what);
    else
        delete_job(crew, queue, job, serial, BIDE_OK);
    bide_job_clear(job);
}

/* Deletes one, and takes the next with the same call. */
static void chain(struct crew *crew, bide *queue, struct rng *rng, bide_job *job)
{
    static const bide_slice topic = {TOPIC, sizeof TOPIC - 1};
    bide_job next;
    memset(&next, 0, sizeof next);
    uint64_t serial = read_body(job);
    begin_work(crew, job, serial);
    mark(crew, serial, FINISHING);
    bide_finish_item finish = {.id = job->id, .token = job->token};
    bide_reserve_args args = {
        .topics = &topic, .topic_count = 1, .timeout_ms = 5, .jobs = &next, .job_max = 1};
    int code = bide_finish_and_reserve(queue, &finish, &args);
    if (is_strict(serial) && finish.status > 0)
        FAIL("finish_and_reserve of job %" PRIu64 ": %d", job->id, finish.status);
    if (finish.status == BIDE_OK) {
        if (atomic_exchange(&crew->lease[serial], GONE) != GONE)
            atomic_fetch_add(&crew->finished, 1);
    } else {
        delete_job(crew, queue, job, serial, finish.status);
    }
    bide_job_clear(job);
    if (code == BIDE_OK)
        handle(crew, queue, rng, &next);
}

/* ---- taking ---- */

static void *work(void *arg)
{
    static const bide_slice topic = {TOPIC, sizeof TOPIC - 1};
    struct crew *crew = arg;
    struct rng rng;
    rng = (struct rng){crew->seed + 1000 * (1 + atomic_fetch_add(&crew->workers, 1))};
    while (!atomic_load(&crew->over)) {
        bide_job jobs[TAKEN_MAX];
        memset(jobs, 0, sizeof jobs);
        bide *queue = crew->queues[rng_below(&rng, 2)];
        bide_reserve_args args = {.topics = &topic,
                                  .topic_count = 1,
                                  .timeout_ms = (int64_t)rng_below(&rng, 20),
                                  .jobs = jobs,
                                  .job_max = 1 + rng_below(&rng, TAKEN_MAX)};
        int code = bide_reserve_many(queue, &args);
        if (code != BIDE_OK) {
            CHECK(code < 0 || code == BIDE_TIMED_OUT);
            EQ(args.count, 0);
            continue;
        }
        for (size_t i = 0; i < args.count; i++)
            if (rng_below(&rng, 3) == 0)
                chain(crew, queue, &rng, &jobs[i]);
            else
                handle(crew, queue, &rng, &jobs[i]);
    }
    return NULL;
}

static void *tend(void *arg)
{
    struct crew *crew = arg;
    while (!atomic_load(&crew->over)) {
        uint64_t count;
        bide_kick(crew->queues[0], TOPIC, 100000, &count);
        nap_ms(10);
    }
    return NULL;
}

/* Threads that end in a call. */
static void *take_and_end(void *arg)
{
    struct crew *crew = arg;
    struct rng rng;
    rng = (struct rng){crew->seed};
    for (;;) {
        bide_job job;
        int old;
        int code = bide_reserve(crew->queues[1], TOPIC, 50, &job);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
        if (code == BIDE_OK)
            handle(crew, crew->queues[1], &rng, &job);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        pthread_testcancel();
    }
    return NULL;
}

static void *end_threads(void *arg)
{
    struct crew *crew = arg;
    while (!atomic_load(&crew->stop)) {
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, take_and_end, crew) == 0);
        nap_ms(7);
        pthread_cancel(thread);
        CHECK(pthread_join(thread, NULL) == 0);
    }
    return NULL;
}

/* Connections of beanstalkd clients that send and do not stay for the answers. */
static void *drop_connections(void *arg)
{
    struct crew *crew = arg;
    struct rng rng;
    rng = (struct rng){crew->seed + 7};
    while (crew->socket[0] != 0 && !atomic_load(&crew->stop)) {
        static const char hello[] = "watch " TOPIC "\r\nignore default\r\n";
        static const char line[] = "reserve-with-timeout 0\r\n";
        struct sockaddr_un address = {.sun_family = AF_UNIX};
        snprintf(address.sun_path, sizeof address.sun_path, "%s", crew->socket);
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

static void spoil(uint64_t seed)
{
    struct rng rng;
    rng = (struct rng){seed};
    for (int i = 0; i < ROUNDS; i++) {
        begin_fault(&rng);
        begin_fault(&rng);
        nap_ms((int64_t)rng_below(&rng, 120));
        vfs_heal();
        vfs_slow_reads(0);
        vfs_hold_syncs(false);
        nap_ms((int64_t)rng_below(&rng, 60));
    }
}

/* ---- the end ---- */

static void check_all_finished(struct crew *crew)
{
    for (uint64_t i = 0; i < crew->next; i++)
        if (crew->put[i] == STORED && i % 8 != CANCELLABLE && crew->lease[i] != GONE)
            FAIL("serial %" PRIu64 " was put and never finished", i);
}

static void tell_left(bide *queue)
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
            tell_left(queue);
        nap_ms(5);
    }
}

static void run_crew(struct crew *crew, bide *inner)
{
    void *(*const roles[])(void *) = {produce, produce, work,        work,
                                      work,    tend,    end_threads, drop_connections};
    pthread_t threads[COUNT(roles)];
    bide_check_report report;
    for (size_t i = 0; i < COUNT(roles); i++)
        CHECK(pthread_create(&threads[i], NULL, roles[i], crew) == 0);
    spoil(crew->seed);
    atomic_store(&crew->stop, true);
    await_empty(inner);
    atomic_store(&crew->over, true);
    for (size_t i = 0; i < COUNT(roles); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    await_empty(inner);
    check_all_finished(crew);
    OK(bide_check(inner, &report));
    EQ(report.differences, 0);
    CHECK(crew->finished > 0);
}

static uint64_t seed_of(void)
{
    const char *text = getenv("BIDE_PAIRS_SEED");
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

static struct crew *new_crew(void)
{
    struct crew *crew = calloc(1, sizeof *crew);
    CHECK(crew != NULL);
    crew->seed = seed_of();
    return crew;
}

static void check_reopened(void)
{
    bide_stats stats;
    bide *queue = open_jobs("");
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried, 0);
    OK(bide_close(queue));
}

static void run_local(const char *parameters)
{
    vfs_install();
    struct crew *crew = new_crew();
    bide *queue = open_jobs(parameters);
    crew->queues[0] = crew->queues[1] = queue;
    run_crew(crew, queue);
    OK(bide_close(queue));
    check_reopened();
    free(crew);
}

static void in_process(void)
{
    run_local("cache_bytes=1");
}

static void in_process_with_the_wheel(void)
{
    run_local("cache_bytes=1&ticker=wheel&wheel_tick=5ms&batch_jobs=8");
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
static void a_job_of_a_cancelled_thread_comes_back(void)
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
    vfs_heal();
    CHECK(pthread_join(thread, NULL) == 0);
    OK(bide_reserve(queue, TOPIC, 0, &job));
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    OK(bide_close(queue));
}

#ifdef FAULT_SERVER
static void at_a_server(void)
{
    struct served served;
    vfs_install();
    struct crew *crew = new_crew();
    serve_begin(&served, "cache_bytes=1");
    for (size_t i = 0; i < COUNT(crew->queues); i++)
        crew->queues[i] = serve_open(&served);
    snprintf(crew->socket, sizeof crew->socket, "%s", served.socket);
    run_crew(crew, served.queue);
    for (size_t i = 0; i < COUNT(crew->queues); i++)
        OK(bide_close(crew->queues[i]));
    serve_end(&served);
    check_reopened();
    free(crew);
}

/* A stop gives back what beanstalkd clients hold, also when a commit fails on the way: the next
 * process must not take their leases for good. */
static void a_stop_gives_back_although_a_commit_fails(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct served served;
    bide_stats stats;
    bide_job job;
    vfs_install();
    options.ttr_ms = HOUR_MS;
    options.max_retries = 1;
    serve_begin(&served, "");
    OK(bide_put(served.queue, TOPIC, "x", 1, &options, NULL));
    int fd = serve_connect(&served);
    serve_say(fd, "watch " TOPIC "\r\nreserve\r\n");
    serve_hear(fd, "RESERVED");
    unsigned failed = vfs_failed();
    vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 1, SQLITE_IOERR_WRITE, EIO});
    serve_end(&served);
    CHECK(vfs_failed() > failed);
    vfs_heal();
    close(fd);
    serve_begin(&served, "");
    OK(bide_queue_stats(served.queue, &stats));
    EQ(stats.jobs.delayed, 0);
    EQ(stats.jobs.reserved, 0);
    EQ(stats.jobs.ready, 1);
    OK(bide_reserve(served.queue, TOPIC, 0, &job));
    bide_job_clear(&job);
    serve_end(&served);
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
static uint64_t hear_ids(int fd, int count)
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

/* While the disk takes nothing the server takes only a bounded part of what some clients send. So the
 * put of another one is not stored behind all of it. */
static void a_client_that_sends_little_goes_before_the_rest_of_much(void)
{
    struct served served;
    pthread_t senders[SENDERS];
    int much[SENDERS];
    vfs_install();
    serve_begin(&served, "sync=full");
    int little = serve_connect(&served);
    vfs_hold_syncs(true);
    for (int i = 0; i < SENDERS; i++) {
        much[i] = serve_connect(&served);
        CHECK(pthread_create(&senders[i], NULL, send_many, &much[i]) == 0);
    }
    /* Until the server takes no more. */
    uint64_t ready = 0;
    for (int still = 0; still < 20;) {
        uint64_t now = ready_jobs(served.queue);
        still = now > 0 && now == ready ? still + 1 : 0;
        ready = now;
        nap_ms(10);
    }
    CHECK(send(little, "put 0 0 100 1\r\nx\r\n", 18, MSG_NOSIGNAL) == 18);
    UNTIL(ready_jobs(served.queue) > ready);
    vfs_hold_syncs(false);
    CHECK(hear_ids(little, 1) < SENDERS * EACH / 2);
    for (int i = 0; i < SENDERS; i++) {
        hear_ids(much[i], EACH);
        CHECK(pthread_join(senders[i], NULL) == 0);
        close(much[i]);
    }
    EQ(ready_jobs(served.queue), SENDERS * EACH + 1);
    close(little);
    serve_end(&served);
}
#endif

static const struct test tests[] = {
    TEST(in_process),
    TEST(in_process_with_the_wheel),
    TEST(a_job_of_a_cancelled_thread_comes_back),
#ifdef FAULT_SERVER
    TEST(at_a_server),
    TEST(a_stop_gives_back_although_a_commit_fails),
    TEST(a_client_that_sends_little_goes_before_the_rest_of_much),
#endif
};
const struct theme pairs_theme = {"pairs", tests, COUNT(tests)};
