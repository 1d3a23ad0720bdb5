/* SPDX-License-Identifier: MIT */
/*
 * model.c - threads that know what each of their calls must have done, while the disk fails and
 * processes are killed.
 *
 * Each thread has two topics of its own and makes one call at a time, of nearly every kind. A model
 * follows: a call that succeeds changes it, a call that fails does not. After BIDE_EUNKNOWN, or
 * when the process was killed within a call, the jobs which that call concerned may be either; all
 * others must be as the model says. Leases and delays last longer than the test, so nothing else
 * changes a job. The model is in memory that outlives the process.
 */
#include "fault.h"
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
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define THREADS  4
#define JOBS     40
#define KEYS     6
#define PAGE     (2 * JOBS)
#define LATER_MS (10 * HOUR_MS)

struct model_job {
    bool exists;
    uint64_t id, token, serial;
    bide_state state;
    int topic; /* 0 or 1 */
    int key;   /* 0: none */
    uint32_t priority;
    int32_t max_retries;
    uint32_t failures, kicks, releases, fails, buries;
    bool cancel_wanted, has_result;
};

struct model {
    struct model_job jobs[JOBS];
    struct rng rng;
    int number;
    uint64_t serial;
    uint64_t calls, succeeded, failed, unknown;
    /* What the call under way concerns: a job, a topic, or new jobs. */
    atomic_bool busy;
    bool concerns[JOBS], inserts;
    char doing[40];
};

struct shared_model {
    struct model models[THREADS];
    atomic_bool stop;
};

struct runner {
    struct model *model;
    bide *queue;
    struct shared_model *shared;
};

static const char *topic_name(const struct model *model, int topic)
{
    static const char *const names[THREADS][2] = {
        {"a0", "a1"}, {"b0", "b1"}, {"c0", "c1"}, {"d0", "d1"}};
    return names[model->number][topic];
}

/* ---- comparing ---- */

static struct model_job *find_job(struct model *model, uint64_t id)
{
    for (int i = 0; i < JOBS; i++)
        if (model->jobs[i].exists && model->jobs[i].id == id)
            return &model->jobs[i];
    return NULL;
}

static struct model_job *free_slot(struct model *model)
{
    for (int i = 0; i < JOBS; i++)
        if (!model->jobs[i].exists)
            return &model->jobs[i];
    return NULL;
}

static void adopt(struct model_job *mine, const bide_job *job, int topic)
{
    uint64_t token = mine->exists ? mine->token : 0;
    *mine = (struct model_job){.exists = true,
                               .id = job->id,
                               .token = token,
                               .serial = read_numbered(job->body, job->body_size),
                               .state = job->state,
                               .topic = topic,
                               .key = job->key == NULL ? 0 : atoi((const char *)job->key + 1),
                               .priority = job->priority,
                               .max_retries = job->max_retries,
                               .failures = job->failures,
                               .kicks = job->kicks,
                               .releases = job->releases,
                               .fails = job->fails,
                               .buries = job->buries,
                               .cancel_wanted = job->cancel_wanted,
                               .has_result = job->result != NULL};
}

static void compare(const struct model *model, const struct model_job *mine, const bide_job *job,
                    int topic)
{
    struct model_job now = {.exists = false};
    adopt(&now, job, topic);
    if (now.serial != mine->serial || now.state != mine->state || now.topic != mine->topic ||
        now.key != mine->key || now.priority != mine->priority ||
        now.max_retries != mine->max_retries || now.failures != mine->failures ||
        now.kicks != mine->kicks || now.releases != mine->releases || now.fails != mine->fails ||
        now.buries != mine->buries || now.cancel_wanted != mine->cancel_wanted ||
        now.has_result != mine->has_result) {
        FAIL(
            "thread %d, call %" PRIu64 " (%s): job %" PRIu64
            " is %s/%d p%u k%d f%u/%d kicks %u rel %u fails %u bur %u c%d r%d; model %s/%d p%u k%d f%u/%d "
            "kicks %u rel %u fails %u bur %u c%d r%d",
            model->number, model->calls, model->doing, job->id, bide_state_name(now.state),
            now.topic, now.priority, now.key, now.failures, now.max_retries, now.kicks,
            now.releases, now.fails, now.buries, now.cancel_wanted, now.has_result,
            bide_state_name(mine->state), mine->topic, mine->priority, mine->key, mine->failures,
            mine->max_retries, mine->kicks, mine->releases, mine->fails, mine->buries,
            mine->cancel_wanted, mine->has_result);
    }
}

/* Compares all jobs; those of the call under way are adopted if `unknown`. */
static void check(struct model *model, bide *queue, bool unknown)
{
    bool seen[JOBS] = {false};
    for (int topic = 0; topic < 2; topic++) {
        char cursor[BIDE_CURSOR_SIZE] = "";
        do {
            bide_job jobs[PAGE];
            size_t count = 0;
            int code;
            UNTIL((code = bide_list(queue, topic_name(model, topic), BIDE_STATE_ANY, NULL, cursor,
                                    jobs, PAGE, &count)) == BIDE_OK);
            for (size_t i = 0; i < count; i++) {
                struct model_job *mine = find_job(model, jobs[i].id);
                bool concerned = mine != NULL && model->concerns[mine - model->jobs];
                if (mine == NULL && unknown && model->inserts)
                    mine = free_slot(model);
                else if (mine == NULL)
                    FAIL("thread %d, call %" PRIu64 " (%s): job %" PRIu64 " of serial %" PRIu64
                         " is there, %s",
                         model->number, model->calls, model->doing, jobs[i].id,
                         read_numbered(jobs[i].body, jobs[i].body_size),
                         bide_state_name(jobs[i].state));
                else if (!(unknown && concerned))
                    compare(model, mine, &jobs[i], topic);
                CHECK(mine != NULL);
                CHECK(!seen[mine - model->jobs]);
                if (unknown)
                    adopt(mine, &jobs[i], topic);
                seen[mine - model->jobs] = true;
                bide_job_clear(&jobs[i]);
            }
        } while (cursor[0] != 0);
    }
    for (int i = 0; i < JOBS; i++) {
        struct model_job *mine = &model->jobs[i];
        if (!mine->exists || seen[i])
            continue;
        if (!unknown || !model->concerns[i])
            FAIL("thread %d, call %" PRIu64 " (%s): job %" PRIu64 ", %s, is lost", model->number,
                 model->calls, model->doing, mine->id, bide_state_name(mine->state));
        mine->exists = false;
    }
}

/* ---- calls ---- */

static int below(struct runner *runner, int n)
{
    return (int)rng_below(&runner->model->rng, (uint64_t)n);
}

static void begin(struct runner *runner, const char *doing)
{
    struct model *model = runner->model;
    memset(model->concerns, 0, sizeof model->concerns);
    model->inserts = false;
    snprintf(model->doing, sizeof model->doing, "%s", doing);
}

static void concern_topic(struct model *model, int topic)
{
    for (int i = 0; i < JOBS; i++)
        if (model->jobs[i].exists && model->jobs[i].topic == topic)
            model->concerns[i] = true;
}

static struct model_job *any_job(struct runner *runner, unsigned states)
{
    int start = below(runner, JOBS);
    for (int i = 0; i < JOBS; i++) {
        struct model_job *job = &runner->model->jobs[(start + i) % JOBS];
        if (job->exists && (states >> job->state & 1) != 0 &&
            (job->state != BIDE_STATE_RESERVED || job->token != 0)) {
            runner->model->concerns[job - runner->model->jobs] = true;
            return job;
        }
    }
    return NULL;
}

#define RESERVED (1u << BIDE_STATE_RESERVED)
#define READY    (1u << BIDE_STATE_READY)
#define DELAYED  (1u << BIDE_STATE_DELAYED)
#define BURIED   (1u << BIDE_STATE_BURIED)
#define DONE     (1u << BIDE_STATE_DONE)

/* Ends a call: tells whether it succeeded. */
static bool end(struct runner *runner, int code)
{
    struct model *model = runner->model;
    model->calls++;
    if (code == BIDE_EUNKNOWN) {
        model->unknown++;
        /* What became of it is known when something can be stored again. */
        int64_t limit = clock_us() + 4 * PATIENCE_MS * 1000;
        while (bide_pause(runner->queue, topic_name(model, 0), 0) != BIDE_OK) {
            CHECK(clock_us() < limit);
            if (atomic_load(&runner->shared->stop))
                vfs_clear_faults();
            nap_ms(20);
        }
        check(model, runner->queue, true);
    } else if (code < 0) {
        model->failed++;
        if (code != BIDE_EIO && code != BIDE_EFULL && code != BIDE_EBUSY)
            FAIL("%s: %d %s", model->doing, code, bide_last_error());
    } else {
        model->succeeded++;
    }
    return code >= 0;
}

static int key_holder(struct model *model, int topic, int key)
{
    for (int i = 0; i < JOBS; i++)
        if (model->jobs[i].exists && model->jobs[i].topic == topic && model->jobs[i].key == key &&
            model->jobs[i].state != BIDE_STATE_DONE)
            return i;
    return -1;
}

static void do_put(struct runner *runner)
{
    struct model *model = runner->model;
    static _Thread_local char body[NUMBERED_MAX + 1];
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    char key[16];
    uint64_t id = 0;
    struct model_job *slot = free_slot(model);
    if (slot == NULL)
        return;
    struct model_job job = {.exists = true, .max_retries = BIDE_NO_RETRY_LIMIT};
    begin(runner, "put");
    job.topic = below(runner, 2);
    job.key = below(runner, 2) == 0 ? 0 : 1 + below(runner, KEYS);
    job.priority = (uint32_t)below(runner, 10);
    if (below(runner, 2) == 0)
        job.max_retries = below(runner, 3);
    job.state = below(runner, 4) == 0 ? BIDE_STATE_DELAYED : BIDE_STATE_READY;
    job.serial = ++model->serial;
    snprintf(key, sizeof key, "k%d", job.key);
    if (job.key != 0)
        options.key = slice_of(key);
    options.conflict = below(runner, 2) == 0 ? BIDE_REPLACE : BIDE_REJECT;
    options.priority = job.priority;
    options.ttr_ms = LATER_MS;
    options.max_retries = job.max_retries;
    options.backoff_base_ms = options.backoff_max_ms = LATER_MS;
    options.delay_ms = job.state == BIDE_STATE_DELAYED ? LATER_MS : 0;
    options.retain_ms = LATER_MS;
    int holder = job.key == 0 ? -1 : key_holder(model, job.topic, job.key);
    model->inserts = true;
    if (holder >= 0)
        model->concerns[holder] = true;
    atomic_store(&model->busy, true);
    int code = bide_put(runner->queue, topic_name(model, job.topic), body,
                        write_numbered(body, job.serial), &options, &id);
    if (!end(runner, code))
        return;
    bool exists = holder >= 0 && (options.conflict == BIDE_REJECT ||
                                  model->jobs[holder].state == BIDE_STATE_RESERVED);
    EQ(code, exists ? BIDE_EXISTS : BIDE_OK);
    if (exists) {
        EQ(id, model->jobs[holder].id);
        return;
    }
    if (holder >= 0)
        model->jobs[holder].exists = false;
    job.id = id;
    *slot = job;
}

static struct model_job *best_ready(struct model *model, int topic)
{
    struct model_job *best = NULL;
    for (int i = 0; i < JOBS; i++) {
        struct model_job *job = &model->jobs[i];
        if (job->exists && job->topic == topic && job->state == BIDE_STATE_READY &&
            (best == NULL || job->priority < best->priority ||
             (job->priority == best->priority && job->id < best->id)))
            best = job;
    }
    return best;
}

static void accept_job(struct model *model, bide_job *job, const struct model_job *wanted)
{
    struct model_job *mine = find_job(model, job->id);
    CHECK(mine != NULL);
    if (wanted != mine)
        FAIL("thread %d: took job %" PRIu64 " instead of %" PRIu64, model->number, job->id,
             wanted == NULL ? 0 : wanted->id);
    EQ(read_numbered(job->body, job->body_size), mine->serial);
    mine->state = BIDE_STATE_RESERVED;
    mine->token = job->token;
    bide_job_clear(job);
}

static void do_reserve(struct runner *runner)
{
    struct model *model = runner->model;
    bide_job job;
    begin(runner, "reserve");
    int topic = below(runner, 2);
    concern_topic(model, topic);
    atomic_store(&model->busy, true);
    int code = bide_reserve(runner->queue, topic_name(model, topic), below(runner, 3), &job);
    if (!end(runner, code))
        return;
    struct model_job *best = best_ready(model, topic);
    EQ(code, best == NULL ? BIDE_TIMED_OUT : BIDE_OK);
    if (code == BIDE_OK)
        accept_job(model, &job, best);
}

static void do_reserve_job(struct runner *runner)
{
    struct model *model = runner->model;
    bide_job job;
    begin(runner, "reserve_job");
    struct model_job *mine = any_job(runner, READY | DELAYED | BURIED);
    if (mine == NULL)
        return;
    atomic_store(&model->busy, true);
    int code = bide_reserve_job(runner->queue, mine->id, &job);
    if (!end(runner, code))
        return;
    EQ(code, BIDE_OK);
    accept_job(model, &job, mine);
}

/* A failure of the job: delayed or buried. */
static void fail_job(struct model_job *job)
{
    job->failures++;
    job->fails++;
    bool buried = job->max_retries >= 0 && job->failures > (uint32_t)job->max_retries;
    job->state = buried ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
    job->buries += buried;
}

static void finish_job(struct model_job *job, int how, uint32_t priority)
{
    bool removed = job->cancel_wanted && how >= 2 && how <= 6;
    job->token = 0;
    if (how == 0 || removed) {
        job->exists = false;
        return;
    }
    job->cancel_wanted = false;
    switch (how) {
    case 1:
        job->state = BIDE_STATE_DONE;
        job->has_result = true;
        break;
    case 2:
        job->state = BIDE_STATE_BURIED;
        job->priority = priority;
        job->buries++;
        break;
    case 3:
        job->state = BIDE_STATE_READY;
        job->priority = priority;
        job->releases++;
        break;
    case 4:
        job->state = BIDE_STATE_DELAYED;
        job->priority = priority;
        job->releases++;
        break;
    case 5:
        fail_job(job);
        break;
    default:
        job->state = BIDE_STATE_READY;
        break;
    }
}

static int call_finish(struct runner *runner, const struct model_job *job, int how,
                       uint32_t priority)
{
    bide *queue = runner->queue;
    switch (how) {
    case 0:
        return bide_delete(queue, job->id, job->token);
    case 1:
        return bide_done(queue, job->id, job->token, "result", 6, LATER_MS);
    case 2:
        return bide_bury(queue, job->id, job->token, priority, "why");
    case 3:
    case 4:
        return bide_release(queue, job->id, job->token, priority, how == 3 ? 0 : LATER_MS);
    case 5:
        return bide_fail(queue, job->id, job->token, "went wrong", LATER_MS, NULL, NULL);
    default:
        return bide_give_back(queue, job->id, job->token);
    }
}

static void do_finish(struct runner *runner)
{
    static const char *const names[] = {"delete",        "done", "bury",     "release",
                                        "release later", "fail", "give_back"};
    struct model *model = runner->model;
    int how = below(runner, 7);
    begin(runner, names[how]);
    struct model_job *job = any_job(runner, RESERVED);
    uint32_t priority = (uint32_t)below(runner, 10);
    if (job == NULL)
        return;
    atomic_store(&model->busy, true);
    int code = call_finish(runner, job, how, priority);
    if (!end(runner, code))
        return;
    if (code != BIDE_OK)
        FAIL("thread %d: %s of job %" PRIu64 ": %s", model->number, model->doing, job->id,
             bide_last_error());
    finish_job(job, how, priority);
}

static void do_finish_and_reserve(struct runner *runner)
{
    struct model *model = runner->model;
    bide_job next;
    memset(&next, 0, sizeof next);
    begin(runner, "finish_and_reserve");
    struct model_job *job = any_job(runner, RESERVED);
    if (job == NULL)
        return;
    int topic = below(runner, 2);
    concern_topic(model, topic);
    bide_slice name = slice_of(topic_name(model, topic));
    bide_finish_item finish = {.id = job->id, .token = job->token};
    bide_reserve_args args = {.topics = &name,
                              .topic_count = 1,
                              .timeout_ms = below(runner, 3),
                              .jobs = &next,
                              .job_max = 1};
    atomic_store(&model->busy, true);
    int code = bide_finish_and_reserve(runner->queue, &finish, &args);
    if (finish.status == BIDE_EUNKNOWN)
        code = BIDE_EUNKNOWN;
    if (finish.status == BIDE_OK) /* also if only the reserve failed, or is unknown */
        finish_job(job, 0, 0);
    else if (finish.status > 0)
        FAIL("finish: %d", finish.status);
    if (!end(runner, code))
        return;
    EQ(finish.status, BIDE_OK);
    struct model_job *best = best_ready(model, topic);
    EQ(code, best == NULL ? BIDE_TIMED_OUT : BIDE_OK);
    if (code == BIDE_OK)
        accept_job(model, &next, best);
}

static void do_finish_many(struct runner *runner)
{
    struct model *model = runner->model;
    bide_finish_item items[4];
    struct model_job *jobs[4];
    size_t n = 0;
    memset(items, 0, sizeof items);
    begin(runner, "finish_many");
    for (int i = 0; i < JOBS && n < COUNT(items); i++) {
        struct model_job *job = &model->jobs[i];
        if (!job->exists || job->state != BIDE_STATE_RESERVED || job->token == 0)
            continue;
        model->concerns[i] = true;
        jobs[n] = job;
        items[n] = (bide_finish_item){.id = job->id,
                                      .token = job->token,
                                      .keep = n % 2 == 1,
                                      .result = slice_of("result"),
                                      .retain_ms = LATER_MS};
        n++;
    }
    if (n == 0)
        return;
    atomic_store(&model->busy, true);
    int code = bide_finish_many(runner->queue, items, n);
    if (!end(runner, code))
        return;
    EQ(code, BIDE_OK);
    for (size_t i = 0; i < n; i++) {
        EQ(items[i].status, BIDE_OK);
        finish_job(jobs[i], items[i].keep ? 1 : 0, 0);
    }
}

enum outside { DELETE, KICK_JOB, UPDATE, CANCEL, BURY, MOVE, TOUCH, OUTSIDE_COUNT };

static const struct {
    const char *name;
    unsigned states; /* of the jobs it is asked for */
} outside[OUTSIDE_COUNT] = {
    [DELETE] = {"delete without a token", READY | DELAYED | BURIED | DONE},
    [KICK_JOB] = {"kick_job", DELAYED | BURIED},
    [UPDATE] = {"update", READY | DELAYED | BURIED},
    [CANCEL] = {"cancel", READY | RESERVED},
    [BURY] = {"bury without a token", READY | DELAYED},
    [MOVE] = {"update of the topic", READY | DELAYED | BURIED},
    [TOUCH] = {"touch", RESERVED},
};

static int call_outside(struct runner *runner, const struct model_job *job, enum outside how,
                        uint32_t priority)
{
    bide_update_args changes = BIDE_UPDATE_INIT;
    changes.id = job->id;
    switch (how) {
    case DELETE:
        return bide_delete(runner->queue, job->id, 0);
    case KICK_JOB:
        return bide_kick_job(runner->queue, job->id);
    case CANCEL:
        return bide_cancel(runner->queue, job->id);
    case BURY:
        return bide_bury(runner->queue, job->id, 0, priority, "outside");
    case TOUCH:
        return bide_touch(runner->queue, job->id, job->token, 0, "half");
    case MOVE:
        changes.topic = slice_of(topic_name(runner->model, 1 - job->topic));
        return bide_update(runner->queue, &changes);
    default:
        changes.priority = priority;
        return bide_update(runner->queue, &changes);
    }
}

static void follow_outside(struct model_job *job, enum outside how, uint32_t priority)
{
    if (how == KICK_JOB) {
        job->state = BIDE_STATE_READY;
        job->kicks++;
        job->failures = 0;
    } else if (how == CANCEL && job->state == BIDE_STATE_RESERVED) {
        job->cancel_wanted = true;
    } else if (how == DELETE || how == CANCEL) {
        job->exists = false;
    } else if (how == BURY) {
        job->state = BIDE_STATE_BURIED;
        job->buries++;
    } else if (how == MOVE) {
        job->topic = 1 - job->topic;
    }
    if (how == UPDATE || how == BURY)
        job->priority = priority;
}

static void do_outside(struct runner *runner)
{
    struct model *model = runner->model;
    enum outside how = (enum outside)below(runner, OUTSIDE_COUNT);
    begin(runner, outside[how].name);
    struct model_job *job = any_job(runner, outside[how].states);
    uint32_t priority = (uint32_t)below(runner, 10);
    if (job == NULL)
        return;
    atomic_store(&model->busy, true);
    int code = call_outside(runner, job, how, priority);
    if (!end(runner, code))
        return;
    int expected = BIDE_OK;
    if (how == MOVE && job->key != 0 && key_holder(model, 1 - job->topic, job->key) >= 0)
        expected = BIDE_EXISTS;
    if (how == TOUCH && job->cancel_wanted)
        expected = BIDE_CANCEL_WANTED;
    if (code != expected)
        FAIL("thread %d: %s of job %" PRIu64 ": %s", model->number, model->doing, job->id,
             bide_last_error());
    if (code == BIDE_OK)
        follow_outside(job, how, priority);
}

static void do_kick_or_purge(struct runner *runner)
{
    struct model *model = runner->model;
    int topic = below(runner, 2);
    bool purge = below(runner, 2) == 0;
    bide_state state = below(runner, 2) == 0 ? BIDE_STATE_DONE : BIDE_STATE_DELAYED;
    uint64_t count = 0;
    begin(runner, purge ? "purge" : "kick");
    concern_topic(model, topic);
    atomic_store(&model->busy, true);
    int code = purge ? bide_purge(runner->queue, topic_name(model, topic), state, &count)
                     : bide_kick(runner->queue, topic_name(model, topic), 100, &count);
    if (!end(runner, code)) {
        if (code != BIDE_EUNKNOWN)
            EQ(count, 0);
        return;
    }
    EQ(code, BIDE_OK);
    uint64_t expected = 0;
    bool any_buried = false;
    for (int i = 0; i < JOBS; i++)
        any_buried |= model->jobs[i].exists && model->jobs[i].topic == topic &&
                      model->jobs[i].state == BIDE_STATE_BURIED;
    if (!purge)
        state = any_buried ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
    for (int i = 0; i < JOBS; i++) {
        struct model_job *job = &model->jobs[i];
        if (!job->exists || job->topic != topic || job->state != state)
            continue;
        expected++;
        if (purge) {
            job->exists = false;
        } else {
            job->state = BIDE_STATE_READY;
            job->kicks++;
            job->failures = 0;
        }
    }
    EQ(count, expected);
}

static void do_look(struct runner *runner)
{
    struct model *model = runner->model;
    bide_job found;
    begin(runner, "find");
    int topic = below(runner, 2);
    int key = 1 + below(runner, KEYS);
    char text[16];
    snprintf(text, sizeof text, "k%d", key);
    atomic_store(&model->busy, true);
    int code = bide_find(runner->queue, topic_name(model, topic), text, strlen(text), &found);
    if (!end(runner, code))
        return;
    int holder = key_holder(model, topic, key);
    EQ(code, holder < 0 ? BIDE_NOT_FOUND : BIDE_OK);
    if (code == BIDE_OK) {
        EQ(found.id, model->jobs[holder].id);
        bide_job_clear(&found);
    }
    struct model_job *job = any_job(runner, READY | DELAYED | RESERVED | BURIED | DONE);
    if (job == NULL)
        return;
    bide_state state;
    bide_buf *result = NULL;
    code = bide_wait(runner->queue, job->id, 1, &state, &result);
    bool waits = job->state != BIDE_STATE_DONE && job->state != BIDE_STATE_BURIED;
    if (code >= 0) {
        EQ(code, waits ? BIDE_TIMED_OUT : BIDE_OK);
        if (!waits)
            EQ(state, job->state);
    }
    bide_buf_unref(result);
}

static void step(struct runner *runner)
{
    int dice = below(runner, 100);
    if (dice < 25)
        do_put(runner);
    else if (dice < 42)
        do_reserve(runner);
    else if (dice < 48)
        do_reserve_job(runner);
    else if (dice < 65)
        do_finish(runner);
    else if (dice < 72)
        do_finish_and_reserve(runner);
    else if (dice < 75)
        do_finish_many(runner);
    else if (dice < 90)
        do_outside(runner);
    else if (dice < 94)
        do_kick_or_purge(runner);
    else
        do_look(runner);
    /* Only now has the model followed the call. */
    atomic_store(&runner->model->busy, false);
    if (below(runner, 12) == 0)
        check(runner->model, runner->queue, false);
}

static void *run(void *arg)
{
    struct runner *runner = arg;
    while (!atomic_load(&runner->shared->stop))
        step(runner);
    return NULL;
}

/* ---- faults ---- */

static void begin_fault(struct rng *rng, bool killing)
{
    unsigned times = (unsigned)rng_below(rng, 4); /* 0: all */
    switch (rng_below(rng, 9)) {
    case 0:
        vfs_hold_syncs(true);
        break;
    case 1:
        vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, times, SQLITE_IOERR_FSYNC, EIO});
        break;
    case 2:
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "", 1 + (unsigned)rng_below(rng, 5), times,
                                     SQLITE_IOERR_WRITE, EIO});
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
    case 6:
        vfs_fail(&(struct vfs_fault){VFS_OPEN, "", 1, 1 + times, SQLITE_CANTOPEN, EIO});
        vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 1, SQLITE_IOERR_FSYNC, EIO});
        break;
    case 7:
        if (!killing)
            vfs_limit(vfs_bytes_used() + (int64_t)rng_below(rng, 60000));
        break;
    default:
        vfs_fail(&(struct vfs_fault){VFS_WRITE, "-wal", 1, 0, SQLITE_FULL, ENOSPC});
        break;
    }
}

static void end_faults(void)
{
    vfs_clear_faults();
    vfs_slow_reads(0);
    vfs_hold_syncs(false);
    vfs_limit(0);
}

static uint64_t seed_of(void)
{
    const char *text = getenv("BIDE_PAIRS_SEED");
    return text == NULL ? 1 : strtoull(text, NULL, 10);
}

static struct shared_model *shared_model_new(uint64_t seed)
{
    struct shared_model *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(shared != MAP_FAILED);
    for (int i = 0; i < THREADS; i++) {
        shared->models[i].number = i;
        shared->models[i].rng.state = seed * 1000 + (uint64_t)i;
    }
    return shared;
}

/* Pairs of faults, one after another. */
static void inject_pairs(struct rng *rng, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        begin_fault(rng, rounds > 1000);
        begin_fault(rng, rounds > 1000);
        nap_ms((int64_t)rng_below(rng, 120));
        end_faults();
        nap_ms((int64_t)rng_below(rng, 40));
    }
}

/* Syncs fail, and the file cannot be opened again, for longer than the store is tried. */
static void inject_doubt(struct rng *rng, int rounds)
{
    for (int i = 0; i < rounds; i++) {
        nap_ms((int64_t)rng_below(rng, 100));
        vfs_fail(&(struct vfs_fault){VFS_SYNC, "", 1, 0, SQLITE_IOERR_FSYNC, EIO});
        vfs_fail(&(struct vfs_fault){VFS_OPEN, "", 1, 0, SQLITE_CANTOPEN, EIO});
        nap_ms(5500);
        begin_fault(rng, true);
        nap_ms(20);
        end_faults();
        nap_ms(300);
    }
}

/* Runs the threads for some rounds of faults. Does not return if it is killed. */
static void run_threads(struct shared_model *shared, bide *queue, struct rng *rng, int rounds,
                        void (*inject)(struct rng *, int))
{
    pthread_t threads[THREADS];
    struct runner runners[THREADS];
    for (int i = 0; i < THREADS; i++) {
        runners[i] = (struct runner){&shared->models[i], queue, shared};
        CHECK(pthread_create(&threads[i], NULL, run, &runners[i]) == 0);
    }
    inject(rng, rounds);
    atomic_store(&shared->stop, true);
    for (int i = 0; i < THREADS; i++)
        CHECK(pthread_join(threads[i], NULL) == 0);
    atomic_store(&shared->stop, false);
}

/* What an orderly close makes of the models. */
static void expect_closed(struct model *model)
{
    for (int i = 0; i < JOBS; i++) {
        struct model_job *job = &model->jobs[i];
        if (!job->exists || job->state != BIDE_STATE_RESERVED)
            continue;
        finish_job(job, 6, 0);
    }
}

static void check_all(struct shared_model *shared, bide *queue)
{
    bide_check_report report;
    int code;
    for (int i = 0; i < THREADS; i++)
        check(&shared->models[i], queue, false);
    UNTIL((code = bide_check(queue, &report)) == BIDE_OK);
    EQ(report.differences, 0);
}

static void calls_match_the_model_while_the_disk_fails(void)
{
    uint64_t seed = seed_of();
    struct rng rng = {seed};
    struct shared_model *shared = shared_model_new(seed);
    static const char *const parameters[] = {"cache_bytes=1&batch_jobs=5", "cache_bytes=1",
                                             "max_pending_ops=2", "ticker=wheel&cache_bytes=1"};
    vfs_install();
    vfs_skip_syncs(true);
    for (int i = 0; i < 4; i++) {
        bide *queue = open_jobs(parameters[(seed + (uint64_t)i) % COUNT(parameters)]);
        run_threads(shared, queue, &rng, 6, inject_pairs);
        check_all(shared, queue);
        OK(bide_close(queue));
        for (int k = 0; k < THREADS; k++)
            expect_closed(&shared->models[k]);
        queue = open_jobs("");
        check_all(shared, queue);
        OK(bide_close(queue));
    }
    for (int i = 0; i < THREADS; i++)
        CHECK(shared->models[i].succeeded > 0);
}

static void calls_of_unknown_outcome_match_the_model(void)
{
    uint64_t seed = seed_of();
    uint64_t unknown = 0;
    struct rng rng = {seed};
    struct shared_model *shared = shared_model_new(seed);
    vfs_install();
    vfs_skip_syncs(true);
    bide *queue = open_jobs("cache_bytes=1");
    run_threads(shared, queue, &rng, 1, inject_doubt);
    check_all(shared, queue);
    OK(bide_close(queue));
    for (int i = 0; i < THREADS; i++) {
        unknown += shared->models[i].unknown;
        expect_closed(&shared->models[i]);
    }
    CHECK(unknown > 0);
    queue = open_jobs("");
    check_all(shared, queue);
    OK(bide_close(queue));
}

/* ---- killed ---- */

/* A reserve under way may be stored of a job with a retry limit; so after a crash the jobs of the
 * call under way are adopted. */
static void expect_crashed(struct model *model)
{
    for (int i = 0; i < JOBS; i++) {
        struct model_job *job = &model->jobs[i];
        if (!job->exists || job->state != BIDE_STATE_RESERVED)
            continue;
        job->token = 0;
        if (job->cancel_wanted) {
            job->exists = false;
        } else if (job->max_retries >= 0) {
            job->failures++;
            bool buried = job->failures > (uint32_t)job->max_retries;
            job->state = buried ? BIDE_STATE_BURIED : BIDE_STATE_DELAYED;
            job->buries += buried;
        } else {
            job->state = BIDE_STATE_READY;
        }
    }
}

static void work_until_killed(struct shared_model *shared, uint64_t seed)
{
    struct rng rng = {seed};
    bide *queue = NULL;
    vfs_install();
    vfs_skip_syncs(true);
    OK(bide_open(url_of("jobs.db", seed % 2 == 0 ? "cache_bytes=1&batch_jobs=5" : ""), NULL,
                 &queue));
    OK(bide_wait_recovered(queue, 60000, NULL));
    run_threads(shared, queue, &rng, 100000, inject_pairs);
    _exit(0);
}

static void open_and_check(struct shared_model *shared, uint64_t seed)
{
    struct rng rng = {seed * 77};
    bide *queue = NULL;
    vfs_install();
    vfs_skip_syncs(true);
    begin_fault(&rng, true);
    vfs_hold_syncs(false);
    for (int tries = 0; bide_open(url_of("jobs.db", ""), NULL, &queue) != BIDE_OK; tries++) {
        CHECK(tries < 200);
        if (tries > 3)
            end_faults();
    }
    nap_ms(5);
    end_faults();
    OK(bide_wait_recovered(queue, 60000, NULL));
    UNTIL(bide_pause(queue, "other", 0) == BIDE_OK);
    for (int i = 0; i < THREADS; i++) {
        struct model *model = &shared->models[i];
        expect_crashed(model);
        check(model, queue, atomic_load(&model->busy));
        atomic_store(&model->busy, false);
    }
    OK(bide_close(queue));
    exit(0);
}

static void in_child(struct shared_model *shared, uint64_t seed,
                     void (*act)(struct shared_model *, uint64_t), int64_t kill_after_ms)
{
    int status;
    fflush(NULL);
    pid_t child = fork();
    CHECK(child >= 0);
    if (child == 0) {
        act(shared, seed);
        _exit(1);
    }
    if (kill_after_ms >= 0) {
        nap_ms(kill_after_ms);
        CHECK(kill(child, SIGKILL) == 0);
    }
    CHECK(waitpid(child, &status, 0) == child);
    if (kill_after_ms >= 0 ? !WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL : status != 0)
        FAIL("the child ended with status %x", (unsigned)status);
}

static void calls_match_the_model_although_processes_are_killed(void)
{
    uint64_t seed = seed_of();
    struct rng rng = {seed};
    struct shared_model *shared = shared_model_new(seed);
    for (int i = 0; i < 8; i++) {
        in_child(shared, seed * 100 + (uint64_t)i, work_until_killed,
                 30 + (int64_t)rng_below(&rng, 200));
        in_child(shared, seed * 100 + (uint64_t)i, open_and_check, -1);
    }
}

static const struct test tests[] = {
    TEST(calls_match_the_model_while_the_disk_fails),
    TEST(calls_of_unknown_outcome_match_the_model),
    TEST(calls_match_the_model_although_processes_are_killed),
};
const struct theme model_theme = {"model", tests, COUNT(tests)};
