/* SPDX-License-Identifier: MIT */
/*
 * helpers.c - the trial of one test, and the short ways to put, take and look.
 */
#include "contract.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define CQS_MAX    32
#define TOPICS_MAX 64

struct owned_job {
    bide_job job;
    struct owned_job *next;
};

struct owned_waiter {
    struct waiter waiter;
    struct owned_waiter *next;
};

struct owned_topic {
    char tag[48];
    char name[BIDE_TOPIC_MAX + 1];
};

/* There is one test in a process, hence one trial. The lock guards the lists. */
static struct trial {
    pthread_mutex_t lock;
    int64_t number; /* makes topic names unique */
    bide_cq *cqs[CQS_MAX];
    size_t cq_count;
    struct owned_topic topics[TOPICS_MAX];
    size_t topic_count;
    struct owned_job *jobs;
    struct owned_waiter *waiters;
} trial = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- the trial ---- */

void trial_begin(const char *url, const char *theme, const char *test, struct trace *trace)
{
    checks_begin(url, theme, test, trace);
    trial.number = wall_us();
}

/* Nothing is left in a shared database: what a holder still has goes when its lease ends. */
static void clear_policy(bide *queue, const char *topic)
{
    bide_topic_policy policy;
    OK(bide_topic_get(queue, topic, &policy, NULL));
    int64_t *members = (int64_t *)(void *)&policy;
    bool is_set = policy.max_retries == 0;
    for (size_t i = 0; i < offsetof(bide_topic_policy, room_) / sizeof(*members); i++) {
        is_set |= members[i] != 0 && members[i] != BIDE_NO_DEFAULT;
        members[i] = BIDE_NO_DEFAULT;
    }
    if (is_set)
        OK(bide_topic_set(queue, topic, &policy));
}

void sweep_topic(bide *queue, const char *topic)
{
    static const bide_state states[] = {BIDE_STATE_DELAYED, BIDE_STATE_READY, BIDE_STATE_BURIED,
                                        BIDE_STATE_DONE};
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[50];
    for (size_t i = 0; i < COUNT(states); i++)
        OK(bide_purge(queue, topic, states[i], NULL));
    for (int page = 0; page < 1000; page++) {
        size_t count = 0;
        OK(bide_list(queue, topic, BIDE_STATE_RESERVED, NULL, cursor, jobs, COUNT(jobs), &count));
        for (size_t i = 0; i < count; i++)
            bide_cancel(queue, jobs[i].id);
        clear_jobs(jobs, count);
        if (cursor[0] == '\0')
            break;
    }
    clear_policy(queue, topic);
}

static void sweep(bide *queue)
{
    for (size_t i = 0; i < trial.topic_count; i++)
        sweep_topic(queue, trial.topics[i].name);
}

void trial_end(void)
{
    close_all_queues(sweep);
    for (size_t i = 0; i < trial.cq_count; i++) {
        CHECK(bide_cq_drain(trial.cqs[i], 0) >= 0);
        EQ(bide_cq_free(trial.cqs[i]), BIDE_OK);
    }
    while (trial.waiters) {
        struct owned_waiter *gone = trial.waiters;
        trial.waiters = gone->next;
        bide_job_clear(&gone->waiter.job);
        free(gone);
    }
    while (trial.jobs) {
        struct owned_job *gone = trial.jobs;
        trial.jobs = gone->next;
        bide_job_clear(&gone->job);
        free(gone);
    }
}

/* The topic of that tag, created if there is none: with that name, or a unique one. */
static const char *own_topic(const char *tag, const char *name)
{
    pthread_mutex_lock(&trial.lock);
    size_t i = 0;
    while (i < trial.topic_count && strcmp(trial.topics[i].tag, tag) != 0)
        i++;
    if (i == trial.topic_count) {
        CHECK(trial.topic_count < TOPICS_MAX);
        struct owned_topic *made = &trial.topics[trial.topic_count++];
        snprintf(made->tag, sizeof made->tag, "%s", tag);
        if (name)
            snprintf(made->name, sizeof made->name, "%s", name);
        else
            snprintf(made->name, sizeof made->name, "contract/%lld.%ld/%s", (long long)trial.number,
                     (long)getpid(), tag);
    }
    pthread_mutex_unlock(&trial.lock);
    return trial.topics[i].name;
}

const char *fresh_topic(const char *tag)
{
    return own_topic(tag, NULL);
}

const char *known_topic(const char *name)
{
    return own_topic(name, name);
}

bide_slice slice(const char *text)
{
    return (bide_slice){text, strlen(text)};
}

/* ---- jobs ---- */

static bide_job *new_job(void)
{
    struct owned_job *made = calloc(1, sizeof *made);
    CHECK(made != NULL);
    pthread_mutex_lock(&trial.lock);
    made->next = trial.jobs;
    trial.jobs = made;
    pthread_mutex_unlock(&trial.lock);
    return &made->job;
}

uint64_t put_at(struct where at, bide *queue, const char *topic, const char *body,
                const bide_put_options *options)
{
    uint64_t id = 0;
    int code = bide_put(queue, topic, body, strlen(body), options, &id);
    check_code(at, code, BIDE_OK, "bide_put()");
    check_between(at, (int64_t)id, 1, (int64_t)BIDE_ID_MAX, "the new id");
    return id;
}

uint64_t put_first_at(struct where at, bide *queue, const char *topic, uint32_t priority)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.priority = priority;
    return put_at(at, queue, topic, "body", &options);
}

uint64_t put_later_at(struct where at, bide *queue, const char *topic, int64_t delay_ms)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = delay_ms;
    return put_at(at, queue, topic, "body", &options);
}

uint64_t put_key_at(struct where at, bide *queue, const char *topic, const char *key)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice(key);
    return put_at(at, queue, topic, "body", &options);
}

uint64_t put_in_at(struct where at, bide *queue, const char *topic, bide_state state,
                   const bide_put_options *options)
{
    bide_put_options with = BIDE_PUT_OPTIONS_INIT;
    if (options)
        with = *options;
    if (state == BIDE_STATE_DELAYED && with.delay_ms == 0)
        with.delay_ms = 3600000;
    uint64_t id = put_at(at, queue, topic, "body", &with);
    if (state == BIDE_STATE_RESERVED)
        take_job_at(at, queue, id);
    if (state == BIDE_STATE_BURIED)
        check_code(at, bide_bury(queue, id, 0, BIDE_KEEP, NULL), BIDE_OK, "bide_bury()");
    if (state == BIDE_STATE_DONE)
        check_code(at, bide_done(queue, id, 0, "result", 6, 3600000), BIDE_OK, "bide_done()");
    check_equal(at, state_at(at, queue, id), state, "the state of the new job");
    return id;
}

void put_lots_at(struct where at, bide *queue, const char *topic, size_t count,
                 const bide_put_options *options, uint64_t *ids)
{
    static bide_put_item items[BIDE_BATCH_JOBS];
    size_t accepted = 0;
    for (size_t done = 0; done < count; done += accepted) {
        size_t now = count - done < COUNT(items) ? count - done : COUNT(items);
        for (size_t i = 0; i < now; i++)
            items[i] =
                (bide_put_item){.topic = slice(topic), .body = slice("x"), .options = options};
        check_code(at, bide_put_many(queue, items, now, &accepted), BIDE_OK, "bide_put_many()");
        check_equal(at, (int64_t)accepted, (int64_t)now, "how many were accepted");
        for (size_t i = 0; ids && i < now; i++)
            ids[done + i] = items[i].id;
    }
}

const bide_job *take_at(struct where at, bide *queue, const char *topic, int64_t timeout_ms)
{
    bide_job *job = new_job();
    int code = bide_reserve(queue, topic, timeout_ms, job);
    check_code(at, code, BIDE_OK, "bide_reserve()");
    check_equal(at, job->state, BIDE_STATE_RESERVED, "the state of the reserved job");
    check_between(at, (int64_t)job->token, 1, (int64_t)BIDE_ID_MAX, "the token");
    return job;
}

const bide_job *take_job_at(struct where at, bide *queue, uint64_t id)
{
    bide_job *job = new_job();
    check_code(at, bide_reserve_job(queue, id, job), BIDE_OK, "bide_reserve_job()");
    check_equal(at, (int64_t)job->id, (int64_t)id, "the id of the reserved job");
    check_between(at, (int64_t)job->token, 1, (int64_t)BIDE_ID_MAX, "the token");
    return job;
}

void nothing_ready_at(struct where at, bide *queue, const char *topic)
{
    bide_job job = {0};
    int code = bide_reserve(queue, topic, 0, &job);
    check_code(at, code, BIDE_TIMED_OUT, "bide_reserve()");
    check_equal(at, (int64_t)job.id, 0, "the id in the untouched job");
}

const bide_job *get_job_at(struct where at, bide *queue, uint64_t id, bool body)
{
    bide_job *job = new_job();
    int code = body ? bide_peek(queue, id, job) : bide_job_stats(queue, id, job);
    check_code(at, code, BIDE_OK, body ? "bide_peek()" : "bide_job_stats()");
    check_equal(at, (int64_t)job->id, (int64_t)id, "the id of the job");
    check_equal(at, (int64_t)job->token, 0, "the token, which a look does not show");
    return job;
}

bide_state state_at(struct where at, bide *queue, uint64_t id)
{
    bide_job job = {0};
    int code = bide_job_stats(queue, id, &job);
    if (code == BIDE_NOT_FOUND)
        return BIDE_STATE_GONE;
    check_code(at, code, BIDE_OK, "bide_job_stats()");
    bide_state state = job.state;
    bide_job_clear(&job);
    return state;
}

bide_stats stats_at(struct where at, bide *queue)
{
    bide_stats stats = {0};
    check_code(at, bide_queue_stats(queue, &stats), BIDE_OK, "bide_queue_stats()");
    return stats;
}

bide_topic_stats topic_at(struct where at, bide *queue, const char *topic)
{
    bide_topic_stats stats = {0};
    int code = bide_topic_get_stats(queue, topic, &stats);
    if (code == BIDE_NOT_FOUND)
        return stats;
    check_code(at, code, BIDE_OK, "bide_topic_get_stats()");
    check_text(at, stats.name, strlen(stats.name), topic, "the name in the figures of the topic");
    return stats;
}

bool topic_exists(bide *queue, const char *topic)
{
    return topic_of(queue, topic).name[0] != '\0';
}

bide_reserve_args reserve_args(const bide_slice *topics, size_t topic_count, int64_t timeout_ms,
                               bide_job *jobs, size_t job_max)
{
    return (bide_reserve_args){.topics = topics,
                               .topic_count = topic_count,
                               .timeout_ms = timeout_ms,
                               .jobs = jobs,
                               .job_max = job_max};
}

void clear_jobs(bide_job *jobs, size_t count)
{
    for (size_t i = 0; i < count; i++)
        bide_job_clear(&jobs[i]);
}

/* ---- pending ops ---- */

bide_cq *new_cq_at(struct where at)
{
    bide_cq *cq = NULL;
    check_equal(at, bide_cq_new(&cq), BIDE_OK, "bide_cq_new()");
    check_true(at, cq != NULL && trial.cq_count < CQS_MAX, "a completion queue");
    trial.cqs[trial.cq_count++] = cq;
    return cq;
}

static void count_call(bide_op *op)
{
    struct waiter *waiter = op->user;
    waiter->calls++;
    waiter->caller = pthread_self();
}

struct waiter *new_op(bide_op_kind kind, bide_cq *cq)
{
    struct owned_waiter *made = calloc(1, sizeof *made);
    CHECK(made != NULL);
    pthread_mutex_lock(&trial.lock);
    made->next = trial.waiters;
    trial.waiters = made;
    pthread_mutex_unlock(&trial.lock);
    made->waiter.op.kind = kind;
    made->waiter.op.cq = cq;
    made->waiter.op.done = count_call;
    made->waiter.op.user = &made->waiter;
    return &made->waiter;
}

/* ---- threads ---- */

pthread_t start_thread(void *(*run)(void *), void *arg)
{
    pthread_t thread;
    CHECK(pthread_create(&thread, NULL, run, arg) == 0);
    return thread;
}

void join_thread(pthread_t thread)
{
    CHECK(pthread_join(thread, NULL) == 0);
}
