/* SPDX-License-Identifier: MIT */
/*
 * killchain.c - chains of jobs, while their workers and their server are killed; see killserver.h.
 *
 * A chain has three jobs. The handler of the first two puts the next one, and an entry in a log, with
 * the end of its own job. Some handlers fail after that, or put it off, which must put nothing. When
 * all handlers are done, each chain has one last job and one entry for each step, and no more.
 */
#include "killserver.h"

#include "../sim/rng.h"

#include <bide/worker.h>

#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STEPS   2 /* that have a successor */
#define CREW    2 /* worker processes at a server */
#define THREADS 4
#define TTR_MS  700
#define HOUR_MS INT64_C(3600000)
#define LOG     "chain-log"

/* A kill comes after some acks, at most so many, or when none comes for so long: all jobs may wait
 * for the ends of leases. */
#define ACKS_MAX   40
#define WITHOUT_MS INT64_C(500)

static const char *const topics[STEPS + 1] = {"chain-1", "chain-2", "chain-3"};

/* ---- the worker process ---- */

static int progress_fd;
static _Atomic uint64_t worker_seed;

/* Half of the chains have a retry limit: their reservations are stored. */
static bide_put_options step_options(uint64_t serial)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = TTR_MS;
    options.backoff_base_ms = options.backoff_max_ms = 1;
    if (serial % 2 == 0)
        options.max_retries = 1000000;
    return options;
}

static int run_step(bide_context *context, const bide_slice *body, void *arg)
{
    const char *const *topic = arg;
    struct rng rng = {atomic_fetch_add(&worker_seed, 1)};
    uint64_t serial = strtoull(body->data, NULL, 10); /* a NUL follows the body */
    bide_put_options options = step_options(serial);
    char entry[40];

    snprintf(entry, sizeof entry, "%" PRIu64 " %td", serial, topic - topics);
    int code = bide_context_put(context, topic[1], body->data, body->size, &options);
    if (code == BIDE_OK)
        code = bide_context_put(context, LOG, entry, strlen(entry), NULL);
    if (code != BIDE_OK)
        return code;

    switch (rng_below(&rng, 16)) {
    case 0:
        return bide_context_retry_in(context, 1, "it went wrong");
    case 1:
        bide_context_discard_puts(context);
        return bide_context_snooze(context, 1);
    case 2:
        bide_context_retain(context, HOUR_MS);
        return bide_context_result(context, body->data, body->size);
    default:
        return BIDE_DONE;
    }
}

/* One byte for each ack, in a file that outlives the process. */
static void note_ack(void *user, const bide_work_event *event)
{
    (void)user;
    if (event->kind == BIDE_WORK_DONE && write(progress_fd, ".", 1) != 1)
        abort();
}

/* The server may be away, or another process have the file. */
static bide *open_patiently(const char *url)
{
    bide *queue = NULL;
    for (int64_t end_us = clock_us() + PATIENCE_MS * 1000; clock_us() < end_us; nap_ms(5))
        if (bide_open(url, NULL, &queue) == BIDE_OK)
            return queue;
    fprintf(stderr, "%s: %s\n", url, bide_last_error());
    exit(97);
}

int killserver_chain_worker(char **argv)
{
    bide_worker_options options = BIDE_WORKER_OPTIONS_INIT;
    bide_worker *worker = NULL;
    progress_fd = open(argv[0], O_WRONLY | O_APPEND | O_CLOEXEC);
    atomic_store(&worker_seed, strtoull(argv[2], NULL, 10));
    bide *queue = open_patiently(argv[1]);
    options.threads = THREADS;
    options.event = note_ack;
    int code = bide_worker_new(queue, &options, &worker);
    for (size_t i = 0; i < STEPS && code == BIDE_OK; i++)
        code = bide_worker_handle(worker, topics[i], run_step, (void *)(uintptr_t)&topics[i]);
    if (code == BIDE_OK)
        bide_worker_run(worker); /* until it is killed */
    fprintf(stderr, "worker: %s\n", bide_last_error());
    return 96;
}

/* ---- the processes of a run ---- */

struct run {
    uint64_t count; /* chains */
    bool at_server;
    struct server server;
    pid_t workers[CREW];
    size_t crew;
    struct rng rng;
    unsigned server_kills, worker_kills;
};

static const char *run_url(const struct run *run)
{
    static char url[300];
    if (!run->at_server)
        return url_of("jobs.db", test_server_settings.parameters);
    snprintf(url, sizeof url, "beanstalk://127.0.0.1:%d?reconnect_max=50ms", run->server.port);
    return url;
}

static void exec_worker(const struct run *run, uint64_t seed, pid_t parent)
{
    char number[24];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(95);
    snprintf(number, sizeof number, "%" PRIu64, seed);
    execl("/proc/self/exe", "killserver", "--chain-worker", test_path("progress"), run_url(run),
          number, (char *)NULL);
    _exit(95);
}

static void start_worker(struct run *run, size_t which)
{
    uint64_t seed = rng_next(&run->rng);
    pid_t parent = getpid();
    fflush(NULL);
    run->workers[which] = fork();
    if (run->workers[which] == 0)
        exec_worker(run, seed, parent);
    CHECK(run->workers[which] > 0);
}

static void kill_worker(const struct run *run, size_t which)
{
    int status = 0;
    kill(run->workers[which], SIGKILL);
    CHECK(waitpid(run->workers[which], &status, 0) == run->workers[which]);
    if (!WIFSIGNALED(status))
        FAIL("a worker ended with code %d before it was killed", WEXITSTATUS(status));
}

/* One time in four the server is killed once more while it starts, or just after. */
static void kill_server(struct run *run)
{
    test_server_kill(&run->server);
    test_server_restart(&run->server, IN_FILE);
    if (rng_one_in(&run->rng, 4)) {
        usleep((useconds_t)rng_below(&run->rng, 5000));
        test_server_kill(&run->server);
        test_server_restart(&run->server, IN_FILE);
    }
    run->server_kills++;
}

/* ---- how far it is ---- */

static int64_t count_acks(void)
{
    struct stat file;
    CHECK(stat(test_path("progress"), &file) == 0);
    return file.st_size;
}

/* Jobs of the steps that are not done. */
static uint64_t count_unfinished(const struct run *run)
{
    bide *queue = open_url(run_url(run));
    uint64_t count = 0;
    for (size_t i = 0; i < STEPS; i++) {
        bide_topic_stats stats;
        int code = bide_topic_get_stats(queue, topics[i], &stats);
        CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
        if (code == BIDE_NOT_FOUND)
            continue;
        EQ(stats.jobs.buried, 0);
        count += stats.jobs.ready + stats.jobs.delayed + stats.jobs.reserved;
    }
    OK(bide_close(queue));
    return count;
}

static void wait_for_acks(struct run *run)
{
    int64_t wanted = count_acks() + rng_range(&run->rng, 1, ACKS_MAX);
    int64_t seen = 0, since_us = clock_us();
    while (seen < wanted && clock_us() - since_us < WITHOUT_MS * 1000) {
        int64_t now = count_acks();
        if (now != seen)
            since_us = clock_us();
        seen = now;
        nap_ms(1);
    }
}

/* ---- a run ---- */

static void put_chains(const struct run *run)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    static bide_put_options options[BIDE_BATCH_JOBS];
    static char bodies[BIDE_BATCH_JOBS][24];
    bide *queue = open_url(run_url(run));
    for (uint64_t serial = 0; serial < run->count;) {
        size_t n = 0;
        for (; n < BIDE_BATCH_JOBS && serial < run->count; n++, serial++) {
            snprintf(bodies[n], sizeof bodies[n], "%" PRIu64, serial);
            options[n] = step_options(serial);
            items[n] = (bide_put_item){.topic = {topics[0], strlen(topics[0])},
                                       .body = {bodies[n], strlen(bodies[n])},
                                       .options = &options[n]};
        }
        OK(bide_put_many(queue, items, n, NULL));
    }
    OK(bide_close(queue));
}

/* Every job of a topic; each body, a number and perhaps another one, exactly once. */
static void each_once(bide *queue, const char *topic, uint64_t count, size_t steps)
{
    static bide_job jobs[100];
    const bide_slice name = {topic, strlen(topic)};
    uint64_t found = 0;
    char *seen = calloc(count * steps, 1);
    CHECK(seen != NULL);
    for (;;) {
        bide_reserve_args args = {
            .topics = &name, .topic_count = 1, .jobs = jobs, .job_max = COUNT(jobs)};
        int code = bide_reserve_many(queue, &args);
        if (code == BIDE_TIMED_OUT)
            break;
        CHECK(code == BIDE_OK);
        bide_finish_item ends[COUNT(jobs)] = {{.id = 0}};
        for (size_t i = 0; i < args.count; i++) {
            uint64_t serial = 0, step = 0;
            CHECK(sscanf(jobs[i].body, "%" SCNu64 " %" SCNu64, &serial, &step) == (int)steps);
            CHECK(serial < count && step < steps);
            if (seen[serial * steps + step]++)
                FAIL("%s: chain %" PRIu64 " is there twice (step %" PRIu64 ")", topic, serial,
                     step);
            found++;
            ends[i].id = jobs[i].id;
            ends[i].token = jobs[i].token;
            bide_job_clear(&jobs[i]);
        }
        /* In one commit, before the leases end. */
        OK(bide_finish_many(queue, ends, args.count));
        for (size_t i = 0; i < args.count; i++)
            OK(ends[i].status);
    }
    free(seen);
    EQ(found, count * steps);
}

static void compare_chains(const struct run *run)
{
    bide *queue = open_url(run_url(run));
    each_once(queue, topics[STEPS], run->count, 1);
    each_once(queue, LOG, run->count, STEPS);
    OK(bide_close(queue));
}

/* The victim is a worker, or the server, which has all of them run some jobs again. */
static bool kill_one(struct run *run)
{
    wait_for_acks(run);
    if (run->at_server && rng_one_in(&run->rng, 3)) {
        kill_server(run);
        return count_unfinished(run) > 0;
    }
    size_t which = rng_below(&run->rng, run->crew);
    kill_worker(run, which);
    run->worker_kills++;
    /* Now: a file has one owner. */
    bool more = count_unfinished(run) > 0;
    start_worker(run, which);
    return more;
}

void killserver_chains(uint64_t count, bool at_server, uint64_t seed)
{
    struct run run = {
        .count = count, .at_server = at_server, .crew = at_server ? CREW : 1, .rng = {seed}};
    write_file(test_path("progress"), 0, "", 0);
    if (at_server)
        test_server_start(&run.server, IN_FILE);
    put_chains(&run);
    for (size_t i = 0; i < run.crew; i++)
        start_worker(&run, i);
    while (kill_one(&run))
        continue;
    for (size_t i = 0; i < run.crew; i++)
        kill_worker(&run, i);
    if (at_server)
        kill_server(&run);
    compare_chains(&run);
    if (at_server)
        test_server_stop(&run.server);
    printf("%" PRIu64 " chains %s, %" PRId64 " acks, %u kills of workers, %u of the server\n",
           count, at_server ? "at a server" : "in a file", count_acks(), run.worker_kills,
           run.server_kills);
}
