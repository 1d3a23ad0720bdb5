/* SPDX-License-Identifier: MIT */
#include "cli/crew.h"

#include "cli/interrupt.h"
#include "cli/progress.h"
#include "util/clock.h"
#include "util/thread.h"

#include <poll.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

struct crew {
    const struct crew_wish *wish;
    atomic_uint_least64_t left;    /* jobs that nobody has taken yet */
    atomic_uint_least64_t through; /* jobs of steps that are done */
    atomic_size_t working;         /* threads */
    atomic_uint_least64_t ended;   /* when the last of them had nothing more to do */
    atomic_bool failed;
    pthread_mutex_t lock; /* of the result */
    struct crew_result *result;
};

struct member {
    struct crew *crew;
    pthread_t thread;
    struct spread steps;
};

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

/* How many jobs the next step has; 0: it is over. */
static size_t take(struct crew *crew)
{
    uint64_t left = atomic_load(&crew->left), taken;
    if (atomic_load(&crew->failed) || bi_interrupted())
        return 0;
    do {
        taken = left < crew->wish->step_jobs ? left : crew->wish->step_jobs;
    } while (taken > 0 && !atomic_compare_exchange_weak(&crew->left, &left, left - taken));
    return (size_t)taken;
}

static void fail(struct crew *crew, int code)
{
    pthread_mutex_lock(&crew->lock);
    if (!atomic_exchange(&crew->failed, true)) {
        crew->result->code = code;
        snprintf(crew->result->error, sizeof(crew->result->error), "%s", bide_last_error());
    }
    pthread_mutex_unlock(&crew->lock);
}

static void *work(void *arg)
{
    struct member *member = arg;
    struct crew *crew = member->crew;
    for (size_t jobs; (jobs = take(crew)) > 0;) {
        uint64_t began = now_ns();
        int code = crew->wish->step(crew->wish, jobs);
        if (code != BIDE_OK) {
            fail(crew, code);
            break;
        }
        bi_spread_add(&member->steps, now_ns() - began);
        atomic_fetch_add(&crew->through, jobs);
    }
    atomic_store(&crew->ended, now_ns());
    atomic_fetch_sub(&crew->working, 1);
    return NULL;
}

static void watch(struct crew *crew)
{
    struct progress progress;
    bi_progress_begin(&progress, crew->wish->cli, crew->wish->what, crew->wish->jobs);
    while (atomic_load(&crew->working) > 0) {
        poll(NULL, 0, 5);
        bi_progress_set(&progress, atomic_load(&crew->through));
    }
    bi_progress_end(&progress);
}

/* Answers how many there are: fewer than wished if there are no more to be had. */
static size_t start(struct crew *crew, struct member *members)
{
    size_t count = 0;
    atomic_store(&crew->working, crew->wish->threads);
    for (; count < crew->wish->threads; count++) {
        members[count].crew = crew;
        if (!bi_thread_start(&members[count].thread, work, &members[count]))
            break;
    }
    atomic_fetch_sub(&crew->working, crew->wish->threads - count);
    return count;
}

int bi_crew_run(const struct crew_wish *wish, struct crew_result *result)
{
    struct member *members = calloc(wish->threads, sizeof(*members));
    struct crew crew = {.wish = wish, .result = result, .lock = PTHREAD_MUTEX_INITIALIZER};
    memset(result, 0, sizeof(*result));
    atomic_store(&crew.left, wish->jobs);
    if (members == NULL)
        return bi_cli_failed(wish->cli, BI_EXIT_FAILED, "there is not enough memory");
    uint64_t began = now_ns();
    size_t count = start(&crew, members);
    watch(&crew);
    for (size_t i = 0; i < count; i++) {
        pthread_join(members[i].thread, NULL);
        bi_spread_merge(&result->steps, &members[i].steps);
    }
    result->seconds = (double)(atomic_load(&crew.ended) - began) / 1e9;
    result->jobs = atomic_load(&crew.through);
    pthread_mutex_destroy(&crew.lock);
    free(members);
    if (count < wish->threads)
        return bi_cli_failed(wish->cli, BI_EXIT_FAILED, "only %zu of %zu threads can be started",
                             count, wish->threads);
    return BI_EXIT_OK;
}
