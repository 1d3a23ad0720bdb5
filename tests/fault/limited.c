/* SPDX-License-Identifier: MIT */
/*
 * limited.c - chains through topics with limits, beside schedules, while the disk fails and threads
 * are cancelled.
 *
 * Each job has a serial number and goes through the stages of a chain, each in another topic. A put
 * that was acknowledged goes through all of them, once; no more jobs of a topic are held than its
 * concurrency permits; calls that wait are served when a limit permits it again.
 */
#include "fault.h"
#include "local_server.h"
#include "vfs.h"
#include "workload.h"

#include "../sim/rng.h"

#include <bide/schedule.h>
#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define STAGES    4
#define SERIALS   20000
#define MOMENTS   5
#define EVERY_MS  INT64_C(1000)
#define BACKLOG   300
#define LIMIT     2
#define SCHEDULES 3

enum { UNSEEN, STORED, REFUSED, UNKNOWN };

static const char *const topics[STAGES] = {"concurrency", "rate", "both", "free"};
static const int64_t concurrency[STAGES] = {LIMIT, 0, LIMIT, 0};

struct limited {
    struct workload workload; /* its queues, seed, stop, over and unknown */
    _Atomic uint64_t next, chains, ended, taken, cancelled, rolled_back, by_id, limited;
    _Atomic int64_t held[STAGES];
    _Atomic char put[SERIALS], stage[SERIALS];
    _Atomic char holder[SERIALS];
    bool forever; /* workers wait for all topics, and without a timeout */
    int64_t begin_ms, end_ms;
    uint64_t expected; /* moments */
    _Atomic uint64_t moments;
    _Atomic uint64_t ids[SCHEDULES][MOMENTS]; /* of the jobs of the schedules; 0: none yet */
};

static size_t stage_of(const bide_job *job)
{
    for (size_t i = 0; i < STAGES; i++)
        if (strcmp(job->topic, topics[i]) == 0)
            return i;
    FAIL("unknown topic %s", job->topic);
    return 0;
}

/* ---- puts ---- */

static void *produce(void *arg)
{
    struct limited *limited = arg;
    struct rng rng = {limited->workload.seed + 99};
    static char body[NUMBERED_MAX + 1];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = HOUR_MS;
    while (!atomic_load(&limited->workload.stop) && limited->next < SERIALS) {
        if (limited->next - limited->ended > BACKLOG) {
            nap_ms(2);
            continue;
        }
        uint64_t serial = atomic_fetch_add(&limited->next, 1);
        options.max_retries = serial % 3 == 0 ? 1000000 : BIDE_NO_RETRY_LIMIT;
        options.backoff_base_ms = options.backoff_max_ms = 2;
        int code = bide_put(limited->workload.queues[rng_below(&rng, 2)], topics[0], body,
                            write_numbered(body, serial), &options, NULL);
        limited->put[serial] = code == BIDE_OK ? STORED : code == BIDE_EUNKNOWN ? UNKNOWN : REFUSED;
        if (code == BIDE_OK)
            limited->chains++;
        else
            limited->ended++;
        if (code < 0)
            nap_ms(2);
        if (code == BIDE_EUNKNOWN)
            limited->workload.unknown++;
    }
    return NULL;
}

/* ---- work ---- */

static void note_taken(struct limited *limited, size_t at)
{
    limited->taken++;
    int64_t held = atomic_fetch_add(&limited->held[at], 1) + 1;
    if (concurrency[at] != 0 && held > concurrency[at])
        FAIL("%" PRId64 " jobs of %s are held", held, topics[at]);
}

/* The key of the job is "tick1@2026-11-20T06:00:00Z". Each moment has one job. */
static void note_scheduled(struct limited *limited, const bide_job *job)
{
    char key[BIDE_KEY_MAX + 1];
    struct tm tm = {0};
    size_t which;
    snprintf(key, sizeof key, "%.*s", (int)job->key_size, (const char *)job->key);
    EQ(sscanf(key, "tick%zu@%d-%d-%dT%d:%d:%dZ", &which, &tm.tm_year, &tm.tm_mon, &tm.tm_mday,
              &tm.tm_hour, &tm.tm_min, &tm.tm_sec),
       7);
    tm.tm_year -= 1900;
    tm.tm_mon -= 1;

    int64_t place = ((int64_t)timegm(&tm) * EVERY_MS - limited->begin_ms) / EVERY_MS;
    CHECK(which < SCHEDULES && place >= 0 && place < MOMENTS);
    uint64_t was = 0;
    if (atomic_compare_exchange_strong(&limited->ids[which][place], &was, job->id))
        limited->moments++;
    else
        EQ(was, job->id);
}

static bool is_scheduled(const bide_job *job)
{
    return job->body_size < NUMBER_SIZE;
}

static int finish_once(bide *queue, struct rng *rng, const bide_job *job, size_t at, bool chain)
{
    if (!chain)
        return bide_delete(queue, job->id, job->token);
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = HOUR_MS;
    options.max_retries = job->id % 3 == 0 ? 1000000 : BIDE_NO_RETRY_LIMIT;
    options.backoff_base_ms = options.backoff_max_ms = 2;
    options.delay_ms = rng_below(rng, 4) == 0 ? (int64_t)rng_below(rng, 20) : 0;
    bide_put_item item = {.topic = slice_of(topics[at + 1]),
                          .body = {job->body, job->body_size},
                          .options = &options};
    bide_finish_and_put_args args = {
        .finish = {.id = job->id, .token = job->token}, .items = &item, .count = 1};
    return bide_finish_and_put(queue, &args);
}

/* Ends the job: it must succeed in the end, because its lease lasts longer than the test. */
static void finish(struct limited *limited, bide *queue, struct rng *rng, const bide_job *job,
                   size_t at, uint64_t serial)
{
    bool scheduled = is_scheduled(job), chain = !scheduled && at + 1 < STAGES;
    int before = BIDE_OK, code;
    if (!scheduled) {
        limited->holder[serial] = 0;
        limited->stage[serial]++;
    }
    for (;;) {
        limited->held[at]--;
        code = finish_once(queue, rng, job, at, chain);
        if (code == BIDE_OK)
            break;
        if (code > 0 && (before == BIDE_EUNKNOWN || before == BIDE_EIO))
            break;
        if (code > 0)
            FAIL("job %" PRIu64 " of %s: %d %s (%d before)", job->id, topics[at], code,
                 bide_last_error(), before);
        limited->rolled_back++;
        if (code == BIDE_EUNKNOWN)
            limited->workload.unknown++;
        if (before != BIDE_EUNKNOWN)
            before = code;
        limited->held[at]++;
        nap_ms(1);
    }
    if (code > 0 && before != BIDE_EUNKNOWN)
        FAIL("job %" PRIu64 " of %s is not held: %d after %d", job->id, topics[at], code, before);
    if (!scheduled && !chain)
        limited->ended++;
}

static void give_back(struct limited *limited, bide *queue, struct rng *rng, const bide_job *job,
                      size_t at, uint64_t serial)
{
    int code, before = BIDE_OK;
    if (!is_scheduled(job))
        limited->holder[serial] = 0;
    unsigned how = (unsigned)rng_below(rng, 3);
    limited->held[at]--;
    while ((code = how == 0 ? bide_give_back(queue, job->id, job->token)
                   : how == 1
                       ? bide_release(queue, job->id, job->token, BIDE_KEEP,
                                      (int64_t)rng_below(rng, 3))
                       : bide_fail(queue, job->id, job->token, "went wrong", 5, NULL, NULL)) < 0) {
        limited->rolled_back++;
        if (before != BIDE_EUNKNOWN)
            before = code;
        nap_ms(1);
    }
    if (code > 0 && before != BIDE_EUNKNOWN)
        FAIL("job %" PRIu64 " of %s cannot be returned: %d after %d", job->id, topics[at], code,
             before);
}

static void handle(struct limited *limited, bide *queue, struct rng *rng, bide_job *job)
{
    size_t at = stage_of(job);
    uint64_t serial = 0;
    note_taken(limited, at);
    if (is_scheduled(job)) {
        note_scheduled(limited, job);
    } else {
        serial = read_numbered(job->body, job->body_size);
        CHECK(serial < SERIALS);
        CHECK(limited->put[serial] != REFUSED);
        if (atomic_exchange(&limited->holder[serial], 1) != 0)
            FAIL("serial %" PRIu64 " has two holders", serial);
        if (limited->stage[serial] != (char)at)
            FAIL("serial %" PRIu64 " is in %s after %d stages", serial, topics[at],
                 limited->stage[serial]);
    }
    if (rng_below(rng, 8) == 0)
        nap_ms(2);
    if (rng_below(rng, 6) == 0 && !atomic_load(&limited->workload.stop))
        give_back(limited, queue, rng, job, at, serial);
    else
        finish(limited, queue, rng, job, at, serial);
    bide_job_clear(job);
}

static int reserve(bide *queue, struct rng *rng, int64_t timeout_ms, bide_job *jobs, size_t max,
                   size_t *count)
{
    bide_slice slices[STAGES];
    static const bide_strategy strategies[] = {BIDE_BY_PRIORITY, BIDE_STRICT, BIDE_WEIGHTED,
                                               BIDE_FAIR};
    size_t n = 0;
    size_t one = timeout_ms < 0 ? STAGES : rng_below(rng, 2 * STAGES);
    for (size_t i = 0; i < STAGES; i++)
        if (one >= STAGES || one == i)
            slices[n++] = slice_of(topics[i]);
    bide_reserve_args args = {.topics = slices,
                              .topic_count = n,
                              .timeout_ms = timeout_ms,
                              .strategy = strategies[rng_below(rng, 4)],
                              .jobs = jobs,
                              .job_max = max,
                              .holder = slice_of("worker")};
    int code = bide_reserve_many(queue, &args);
    *count = args.count;
    return code;
}

static void *work(void *arg)
{
    struct limited *limited = arg;
    struct rng rng = {limited->workload.seed +
                      1000 * (1 + atomic_fetch_add(&limited->workload.workers, 1))};
    while (!atomic_load(&limited->workload.over)) {
        bide_job jobs[5];
        size_t count;
        memset(jobs, 0, sizeof jobs);
        bide *queue = limited->workload.queues[rng_below(&rng, 2)];
        static const int64_t timeouts[] = {0, 3, 200};
        int code = reserve(queue, &rng, timeouts[rng_below(&rng, 3)], jobs, 1 + rng_below(&rng, 5),
                           &count);
        if (code < 0)
            nap_ms(1);
        limited->workload.unknown += code == BIDE_EUNKNOWN;
        for (size_t i = 0; code == BIDE_OK && i < count; i++)
            handle(limited, queue, &rng, &jobs[i]);
    }
    return NULL;
}

static void *reserve_until_cancelled(void *arg)
{
    struct limited *limited = arg;
    struct rng rng = {limited->workload.seed + limited->cancelled};
    for (;;) {
        bide_job job;
        size_t count;
        int old;
        memset(&job, 0, sizeof job);
        int code = reserve(limited->workload.queues[1], &rng, 50, &job, 1, &count);
        pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &old);
        if (code == BIDE_OK)
            handle(limited, limited->workload.queues[1], &rng, &job);
        pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &old);
        pthread_testcancel();
    }
    return NULL;
}

static void *cancel_threads(void *arg)
{
    struct limited *limited = arg;
    while (!atomic_load(&limited->workload.stop)) {
        pthread_t threads[3];
        for (size_t i = 0; i < COUNT(threads); i++)
            CHECK(pthread_create(&threads[i], NULL, reserve_until_cancelled, limited) == 0);
        nap_ms((int64_t)(limited->cancelled % 11));
        for (size_t i = 0; i < COUNT(threads); i++) {
            pthread_cancel(threads[i]);
            CHECK(pthread_join(threads[i], NULL) == 0);
            limited->cancelled++;
        }
    }
    return NULL;
}

/* ---- around them ---- */

static int set_policies(bide *queue, struct rng *rng)
{
    int code = BIDE_OK;
    for (size_t i = 0; i < STAGES && code == BIDE_OK; i++) {
        bide_topic_policy policy = BIDE_TOPIC_POLICY_INIT;
        policy.concurrency = concurrency[i];
        if (i == 1 || i == 2) {
            policy.rate = 1000 + (int64_t)rng_below(rng, 3) * 500;
            policy.rate_burst = 1 + (int64_t)rng_below(rng, 10);
        }
        if (i == 3)
            policy.concurrency = (int64_t)rng_below(rng, 3);
        code = bide_topic_set(queue, topics[i], &policy);
    }
    return code;
}

static void *change_policies(void *arg)
{
    struct limited *limited = arg;
    struct rng rng = {limited->workload.seed + 5};
    while (!atomic_load(&limited->workload.stop)) {
        int code = set_policies(limited->workload.queues[rng_below(&rng, 2)], &rng);
        limited->workload.unknown += code == BIDE_EUNKNOWN;
        nap_ms((int64_t)rng_below(&rng, 30));
    }
    return NULL;
}

static void *query(void *arg)
{
    struct limited *limited = arg;
    struct rng rng = {limited->workload.seed + 6};
    while (!atomic_load(&limited->workload.stop)) {
        bide *queue = limited->workload.queues[rng_below(&rng, 2)];
        const char *topic = topics[rng_below(&rng, STAGES)];
        bide_job job;
        memset(&job, 0, sizeof job);
        if (bide_peek_first(queue, topic, BIDE_STATE_READY, &job) == BIDE_OK) {
            bide_explanation why;
            bide_failure failures[64];
            uint64_t id = job.id;
            bide_why(queue, id, &why);
            bide_job_history(&job, failures, COUNT(failures));
            bide_job_clear(&job);
            int code = bide_reserve_job(queue, id, &job);
            limited->limited += code == BIDE_LIMITED;
            limited->by_id += code == BIDE_OK;
            if (code == BIDE_OK)
                handle(limited, queue, &rng, &job);
        }
        bide_worker_info info = {.name = slice_of("worker")};
        bide_slice names[2] = {slice_of(topic), slice_of("free")};
        info.topics = names;
        info.topic_count = 2;
        bide_announce(queue, &info, (int64_t)rng_below(&rng, 50));
        nap_ms(1);
    }
    return NULL;
}

/* ---- schedules ---- */

static void set_schedules(struct limited *limited, bide *queue)
{
    limited->begin_ms = (wall_ms() / EVERY_MS + 2) * EVERY_MS;
    limited->end_ms = limited->begin_ms + MOMENTS * EVERY_MS;
    for (size_t i = 0; i < SCHEDULES; i++) {
        char name[32];
        bide_put_options options = BIDE_PUT_OPTIONS_INIT;
        options.ttr_ms = HOUR_MS;
        bide_schedule schedule = BIDE_SCHEDULE_INIT;
        snprintf(name, sizeof name, "tick%zu", i);
        schedule.name = name;
        schedule.when = "every 1s";
        schedule.zone = "UTC";
        schedule.topic = topics[i];
        schedule.body = slice_of("tick");
        schedule.options = &options;
        schedule.start_at_ms = limited->begin_ms;
        schedule.end_at_ms = limited->end_ms;
        schedule.misfire = BIDE_MISFIRE_ALL;
        schedule.misfire_max = MOMENTS;
        bide_schedule *stored;
        OK(bide_schedule_set(queue, &schedule, &stored));
        /* On a slow machine moments may pass before the schedule is stored. */
        if (stored->next_at_ms != 0)
            limited->expected += (uint64_t)(limited->end_ms - stored->next_at_ms) / EVERY_MS;
        bide_schedule_free(stored);
    }
}

/* ---- the test ---- */

static void report(struct limited *limited, bide *queue)
{
    for (size_t i = 0; i < STAGES; i++) {
        bide_topic_stats stats;
        if (bide_topic_get_stats(queue, topics[i], &stats) == BIDE_OK)
            fprintf(stderr, "%s: %d ready %d reserved %d delayed %d buried, held %d\n", topics[i],
                    (int)stats.jobs.ready, (int)stats.jobs.reserved, (int)stats.jobs.delayed,
                    (int)stats.jobs.buried, (int)limited->held[i]);
    }
    fprintf(
        stderr,
        "next %d chains %d ended %d taken %d cancelled %d failed %d by id %d limited %d moments "
        "%d unknown %d\n",
        (int)limited->next, (int)limited->chains, (int)limited->ended, (int)limited->taken,
        (int)limited->cancelled, (int)limited->rolled_back, (int)limited->by_id,
        (int)limited->limited, (int)limited->moments, (int)limited->workload.unknown);
}

static bool all_empty(bide *queue)
{
    for (size_t i = 0; i < STAGES; i++) {
        bide_topic_stats stats;
        int code = bide_topic_get_stats(queue, topics[i], &stats);
        if (code < 0 ||
            (code == BIDE_OK &&
             stats.jobs.ready + stats.jobs.reserved + stats.jobs.delayed + stats.jobs.buried != 0))
            return false;
    }
    return true;
}

/* inner is the queue that is asked for its figures. */
static void run_limited(bide *inner, bide *a, bide *b, void (*inject)(struct workload *),
                        bool forever)
{
    void *(*const roles[])(void *) = {produce,         work, work, work, work, cancel_threads,
                                      change_policies, query};
    pthread_t threads[COUNT(roles)];
    bide_scheduler *schedulers[2];
    bide_check_report checked;
    struct limited *limited = calloc(1, sizeof *limited);
    struct workload *seed = workload_new();
    limited->workload.seed = seed->seed;
    limited->forever = forever;
    free(seed);
    limited->workload.queues[0] = a;
    limited->workload.queues[1] = b;
    struct rng rng = {limited->workload.seed};
    OK(set_policies(inner, &rng));
    set_schedules(limited, inner);
    OK(bide_scheduler_start(a, NULL, &schedulers[0]));
    OK(bide_scheduler_start(inner, NULL, &schedulers[1]));
    for (size_t i = 0; i < COUNT(roles); i++)
        CHECK(pthread_create(&threads[i], NULL, roles[i], limited) == 0);
    inject(&limited->workload);
    atomic_store(&limited->workload.stop, true);
    int64_t until = clock_us() + 3 * PATIENCE_MS * 1000;
    while (limited->moments < limited->expected || !all_empty(inner)) {
        if (clock_us() > until) {
            report(limited, inner);
            FAIL("jobs are left");
        }
        nap_ms(5);
    }
    atomic_store(&limited->workload.over, true);
    for (size_t i = 0; i < COUNT(roles); i++)
        if (roles[i] == work && forever)
            CHECK(pthread_cancel(threads[i]) == 0);
    for (size_t i = 0; i < COUNT(roles); i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    for (size_t i = 0; i < 2; i++)
        OK(bide_scheduler_stop(schedulers[i]));
    for (uint64_t i = 0; i < limited->next; i++)
        if (limited->put[i] == STORED)
            EQ(limited->stage[i], STAGES);
    CHECK(all_empty(inner));
    OK(bide_check(inner, &checked));
    EQ(checked.differences, 0);
    free(limited);
}

/* Few faults, so that most work is done. */
static void inject_rarely(struct workload *workload)
{
    struct rng rng = {workload->seed};
    for (int i = 0; i < 15; i++) {
        if (i % 5 == 4)
            vfs_limit_as(vfs_bytes_used() + (int64_t)rng_below(&rng, 100000),
                         i % 2 == 0 ? ENOSPC : EDQUOT);
        else
            vfs_fail_at_random(rng_below(&rng, UINT32_MAX), 1 + (unsigned)rng_below(&rng, 8));
        if (i % 4 == 0)
            vfs_slow_reads(200);
        nap_ms(250);
        vfs_clear_faults();
        vfs_limit(0);
        vfs_slow_reads(0);
        nap_ms(50);
    }
}

static void inject_nothing(struct workload *workload)
{
    (void)workload;
    nap_ms(2000);
}

static void run_local(const char *url, void (*inject)(struct workload *), bool forever)
{
    vfs_install();
    bide *queue = open_url(url);
    run_limited(queue, queue, queue, inject, forever);
    OK(bide_close(queue));
}

static void chains_and_schedules_run_although_the_disk_fails(void)
{
    run_local(url_of("jobs.db", "cache_bytes=1"), workload_inject_faults, false);
}

static void chains_and_schedules_run_with_the_wheel(void)
{
    run_local(url_of("jobs.db", "cache_bytes=1&ticker=wheel&wheel_tick=5ms&batch_jobs=3"),
              inject_rarely, false);
}

static void chains_and_schedules_run_in_full_memory(void)
{
    run_local("memory:?max_memory=200000", inject_nothing, false);
    run_local(url_of("jobs.db", "max_memory=200000"), inject_rarely, false);
}

static void waiting_calls_are_served_when_a_limit_permits(void)
{
    run_local("memory:", inject_nothing, true);
    run_local(url_of("jobs.db", "cache_bytes=1"), inject_rarely, true);
}

#ifdef FAULT_SERVER
static struct local_server server;

static void run_at_a_server(void (*inject)(struct workload *), bool forever)
{
    vfs_install();
    serve_begin(&server, "cache_bytes=1&batch_jobs=4");
    bide *a = serve_open(&server), *b = serve_open(&server);
    run_limited(b, a, b, inject, forever);
    OK(bide_close(a));
    OK(bide_close(b));
    serve_end(&server);
}

static void restart_server(struct workload *workload)
{
    struct rng rng = {workload->seed};
    for (int i = 0; i < 6; i++) {
        vfs_fail_at_random(rng_below(&rng, UINT32_MAX), (unsigned)rng_below(&rng, 8));
        nap_ms(400);
        vfs_clear_faults();
        serve_end(&server);
        nap_ms((int64_t)rng_below(&rng, 100));
        vfs_slow_reads(2000);
        serve_begin(&server, "cache_bytes=1");
        nap_ms(100);
        vfs_slow_reads(0);
    }
}

static void at_a_server(void)
{
    run_at_a_server(workload_inject_faults, true);
}

static void at_a_server_that_restarts(void)
{
    run_at_a_server(restart_server, false);
}
#endif

static const struct test tests[] = {
    TEST(chains_and_schedules_run_although_the_disk_fails),
    TEST(chains_and_schedules_run_with_the_wheel),
    TEST(chains_and_schedules_run_in_full_memory),
    TEST(waiting_calls_are_served_when_a_limit_permits),
#ifdef FAULT_SERVER
    TEST(at_a_server),
    TEST(at_a_server_that_restarts),
#endif
};
const struct theme limited_theme = {"limited", tests, COUNT(tests)};
