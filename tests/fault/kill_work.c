/* SPDX-License-Identifier: MIT */
/* kill_work.c - what the process does that is going to be killed. */
#include "kill.h"

#include "../sim/rng.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define OWN_MAX 64

/* Jobs in the topic of a thread that it may act on without a lease. */
struct own {
    uint64_t serial;
    uint64_t id;
    bool buried; /* else due later */
};

struct thread {
    bide *queue;
    struct rng rng;
    int number;
    int used; /* entries */
    struct own own[OWN_MAX];
    int own_count;
};

/* ---- the log ---- */

static struct entry *begin(struct thread *thread, enum call call, uint64_t serial, int topic)
{
    if (thread->used == ENTRIES_MAX)
        for (;;)
            pause();
    struct entry *entry = &shared->entries[thread->number][thread->used++];
    entry->call = call;
    entry->serial = serial;
    entry->topic = topic;
    entry->id = entry->token = 0;
    entry->due = DUE_NOW;
    entry->order = atomic_fetch_add(&shared->order, 1) + 1;
    return entry;
}

static void go(struct entry *entry)
{
    atomic_store(&entry->stage, BEGUN);
}

static int answered(struct entry *entry, int code)
{
    entry->code = code;
    atomic_store(&entry->stage, ANSWERED);
    atomic_store(&shared->acknowledged, 1);
    return code;
}

/* ---- jobs of its own ---- */

static void own_add(struct thread *thread, int topic, uint64_t serial, uint64_t id, bool buried)
{
    if (topic != SHARED && thread->own_count < OWN_MAX)
        thread->own[thread->own_count++] = (struct own){serial, id, buried};
}

static struct own own_take(struct thread *thread)
{
    int at = (int)rng_below(&thread->rng, (uint64_t)thread->own_count);
    struct own own = thread->own[at];
    thread->own[at] = thread->own[--thread->own_count];
    return own;
}

/* ---- calls ---- */

static int any_topic(struct thread *thread)
{
    return rng_percent(&thread->rng, 65) ? thread->number : SHARED;
}

static void fill_options(struct thread *thread, struct known *job, struct entry *entry,
                         uint64_t serial, bide_put_options *options, char *key)
{
    options->ttr_ms = TTR_BASE_MS + (int64_t)serial;
    options->priority = entry->priority = (uint32_t)rng_below(&thread->rng, 10);
    uint64_t when = rng_below(&thread->rng, 10);
    entry->due = when < 6 ? DUE_NOW : when < 8 ? DUE_SOON : DUE_LATER;
    options->delay_ms = entry->due == DUE_NOW     ? 0
                        : entry->due == DUE_LATER ? HOUR_MS
                                                  : rng_range(&thread->rng, 1, 3);
    job->has_key = rng_percent(&thread->rng, 20);
    if (job->has_key) {
        snprintf(key, 32, "k%llu", (unsigned long long)serial);
        options->key = slice_of(key);
    }
    job->max_retries = rng_percent(&thread->rng, 20) ? (int32_t)rng_below(&thread->rng, 3) : -1;
    options->max_retries = job->max_retries;
    options->backoff_base_ms = options->backoff_max_ms = HOUR_MS;
}

static void do_put(struct thread *thread)
{
    uint64_t serial = atomic_fetch_add(&shared->serial, 1) + 1;
    if (serial >= JOBS_MAX)
        return;
    struct known *job = &shared->jobs[serial];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    char key[32];
    int topic = any_topic(thread);
    struct entry *entry = begin(thread, PUT, serial, topic);
    job->topic = topic;
    fill_options(thread, job, entry, serial, &options, key);
    go(entry);
    uint64_t id = 0;
    int code = put_serial(thread->queue, kill_topics[topic], serial, &options, &id);
    entry->id = id;
    if (answered(entry, code) == BIDE_OK && entry->due == DUE_LATER)
        own_add(thread, topic, serial, id, false);
}

static int finish(struct thread *thread, struct entry *entry, const bide_job *job)
{
    char text[32];
    bool later = rng_percent(&thread->rng, 50);
    switch (entry->call) {
    case DELETE:
        return bide_delete(thread->queue, job->id, job->token);
    case DONE:
        snprintf(text, sizeof text, "r%llu", (unsigned long long)entry->serial);
        return bide_done(thread->queue, job->id, job->token, text, strlen(text), HOUR_MS);
    case BURY:
        return bide_bury(thread->queue, job->id, job->token, entry->priority, "set aside");
    case FAILED:
        entry->due = DUE_LATER;
        return bide_fail(thread->queue, job->id, job->token, "went wrong", HOUR_MS, NULL, NULL);
    default:
        entry->due = later ? DUE_LATER : DUE_NOW;
        return bide_release(thread->queue, job->id, job->token, entry->priority,
                            later ? HOUR_MS : 0);
    }
}

/* What is done with a job, in tenths; one lease in ten is kept until the end of the process. */
static enum call choose_finish(struct thread *thread)
{
    static const enum call calls[10] = {DELETE, DELETE, DELETE,  DONE,   DONE,
                                        BURY,   BURY,   RELEASE, FAILED, CALL_NONE};
    return calls[rng_below(&thread->rng, 10)];
}

static void do_finish(struct thread *thread, const bide_job *job, uint64_t serial, int topic)
{
    enum call call = choose_finish(thread);
    if (call == CALL_NONE)
        return;
    struct entry *entry = begin(thread, call, serial, topic);
    entry->token = job->token;
    entry->priority = (uint32_t)rng_below(&thread->rng, 10);
    if (call == FAILED || call == DONE || call == DELETE)
        entry->priority = job->priority;
    go(entry);
    int code = answered(entry, finish(thread, entry, job));
    if (code == BIDE_OK && call == BURY)
        own_add(thread, topic, serial, job->id, true);
}

static void do_reserve(struct thread *thread)
{
    int topic = any_topic(thread);
    struct entry *entry = begin(thread, RESERVE, 0, topic);
    bide_job job;
    go(entry);
    int code = bide_reserve(thread->queue, kill_topics[topic], 0, &job);
    if (code != BIDE_OK) {
        answered(entry, code);
        return;
    }
    /* Others had the job while this call waited for its turn. */
    entry->order = atomic_fetch_add(&shared->order, 1) + 1;
    entry->serial = (uint64_t)(job.ttr_ms - TTR_BASE_MS);
    entry->token = job.token;
    entry->id = job.id;
    if (!body_is(entry->serial, job.body, job.body_size))
        code = BIDE_EINVAL;
    answered(entry, code);
    do_finish(thread, &job, entry->serial, topic);
    bide_job_clear(&job);
}

/* A buried job is kicked or deleted, a delayed one updated or kicked. */
static void do_outside(struct thread *thread)
{
    if (thread->own_count == 0)
        return;
    struct own own = own_take(thread);
    uint64_t which = rng_below(&thread->rng, 3);
    enum call call = which == 0 ? DELETE : which == 1 && !own.buried ? UPDATE : KICK;
    struct entry *entry = begin(thread, call, own.serial, thread->number);
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = own.id;
    changes.priority = entry->priority = (uint32_t)rng_below(&thread->rng, 10);
    go(entry);
    if (call == DELETE)
        answered(entry, bide_delete(thread->queue, own.id, 0));
    else if (call == KICK)
        answered(entry, bide_kick_job(thread->queue, own.id));
    else
        answered(entry, bide_update(thread->queue, &changes));
}

static void *run(void *arg)
{
    struct thread *thread = arg;
    for (;;) {
        uint64_t dice = rng_below(&thread->rng, 100);
        if (dice < 50)
            do_put(thread);
        else if (dice < 88)
            do_reserve(thread);
        else
            do_outside(thread);
    }
    return NULL;
}

void kill_work(const char *url, uint64_t seed)
{
    static struct thread threads[THREADS];
    bide *queue;
    int code = bide_open(url, NULL, &queue);
    if (code != BIDE_OK) {
        printf("     cannot be opened: %s\n", bide_last_error());
        fflush(stdout);
        _exit(3);
    }
    for (int i = 0; i < THREADS; i++) {
        pthread_t id;
        threads[i] = (struct thread){.queue = queue, .number = i};
        threads[i].rng.state = seed * THREADS + (uint64_t)i;
        if (pthread_create(&id, NULL, run, &threads[i]) != 0)
            _exit(4);
    }
    for (;;)
        pause();
}
