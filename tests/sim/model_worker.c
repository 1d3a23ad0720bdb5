/* SPDX-License-Identifier: MIT */
/* Announced workers, and why a job does not run. */
#include "model.h"

#include <stdlib.h>
#include <string.h>

static int64_t ms_up(int64_t us)
{
    return us <= 0 ? 0 : (us + US_PER_MS - 1) / US_PER_MS;
}

/* ---- announcements ---- */

static void drop_worker(struct model *m, size_t at)
{
    m->worker_count--;
    memmove(&m->workers[at], &m->workers[at + 1], (m->worker_count - at) * sizeof m->workers[0]);
}

void model_expire_worker(struct model *m, uint64_t number)
{
    for (size_t i = 0; i < m->worker_count; i++) {
        if (m->workers[i].number == number) {
            drop_worker(m, i);
            return;
        }
    }
}

void model_announce(struct model *m, struct sim_op *sop)
{
    const bide_announce_args *args = &sop->op.announce;
    const void *data = args->buf != NULL ? bide_buf_data(args->buf) : args->worker.data;
    size_t size = args->buf != NULL ? bide_buf_size(args->buf) : args->worker.size;
    bide_worker_info info;
    static bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    static bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
    expect_true(m->sim,
                bide_worker_decode(data, size, &info, topics, BIDE_ANNOUNCED_TOPICS_MAX, jobs,
                                   BIDE_ANNOUNCED_JOBS_MAX),
                "an announcement cannot be decoded");

    size_t at = 0;
    while (at < m->worker_count &&
           (m->workers[at].connection != info.connection ||
            m->workers[at].id.size != info.name.size ||
            memcmp(m->workers[at].id.bytes, info.name.data, info.name.size) != 0))
        at++;
    bool known = at < m->worker_count;
    bool may_lack = m->sim->options.limits.max_memory != 0 && args->ttl_ms != 0 &&
                    !(known && size <= m->workers[at].size);
    if ((m->got == BIDE_EFULL && may_lack) || (m->got == BIDE_ENOMEM && m->sim->allowed_enomem))
        return;
    model_answer(m, BIDE_OK);
    if (args->ttl_ms == 0) {
        if (known)
            drop_worker(m, at);
        return;
    }

    expect_true(m->sim, known || at < SIM_WORKERS, "there are more workers than names");
    struct mworker *worker = &m->workers[at];
    if (!known) {
        m->worker_count++;
        *worker = (struct mworker){.number = ++m->worker_number, .connection = info.connection};
        model_set_text(&worker->id, info.name.data, info.name.size);
    }
    worker->deadline = m->now.mono + args->ttl_ms * US_PER_MS;
    worker->announced = m->now.mono;
    worker->size = size;
    memcpy(worker->bytes, data, size);
    memset(worker->serves, 0, sizeof worker->serves);
    for (size_t i = 0; i < info.topic_count; i++)
        worker->serves[sim_name_of(topics[i])] = true;
}

/* Pages of random sizes, one after another, while others announce. */
void model_list_workers(struct model *m, struct sim_op *sop)
{
    struct sim *sim = m->sim;
    const bide_workers_args *args = &sop->op.workers;
    uint64_t bytes = 0, most = sim->options.limits.page_bytes;
    size_t count = 0;
    model_answer(m, BIDE_OK);

    size_t at = 0;
    while (at < m->worker_count && m->workers[at].number < m->worker_next)
        at++;
    for (; at < m->worker_count && count < args->worker_max; at++, count++) {
        const struct mworker *want = &m->workers[at];
        const bide_announced *got = &args->workers[count];
        if (count > 0 && most != 0 && bytes + want->size > most)
            break;
        bytes += want->size;
        expect_true(sim, count < args->count, "an announced worker is missing");
        expect_bytes(sim, "announcement", want->bytes, want->size, got->data, got->data_size);
        expect(sim, "left_ms of an announcement", ms_up(want->deadline - m->now.mono),
               got->left_ms);
        int64_t wall = model_wall_of(m, want->announced);
        expect(sim, "announced_ms", wall >= 0 ? wall / US_PER_MS : (wall - 999) / US_PER_MS,
               got->announced_ms);
    }
    expect(sim, "count of workers", (int64_t)count, (int64_t)args->count);
    expect(sim, "more workers", at < m->worker_count, args->cursor[0] != 0);
    m->worker_next = at < m->worker_count ? m->workers[at].number : 0;
}

/* ---- why ---- */

static uint64_t count_workers(const struct model *m, int name)
{
    uint64_t count = 0;
    for (size_t i = 0; i < m->worker_count; i++)
        count += m->workers[i].serves[name];
    return count;
}

static uint64_t count_ahead(const struct model *m, const struct mjob *mark)
{
    uint64_t count = 0;
    for (size_t i = 0; i < m->count; i++) {
        const struct mjob *job = m->jobs[i];
        count += job->name == mark->name && job->state == BIDE_STATE_READY &&
                 (job->priority < mark->priority ||
                  (job->priority == mark->priority && job->id < mark->id));
    }
    return count;
}

static bide_why_reason reason_of_ready(const struct model *m, const struct mjob *job)
{
    const struct mtopic *topic = &m->topics[job->name];
    if (m->closed)
        return BIDE_WHY_CLOSING;
    if (topic->paused)
        return BIDE_WHY_PAUSED;
    bide_limit limit = model_limit(m, job->name);
    if (limit != BIDE_LIMIT_NONE)
        return limit == BIDE_LIMIT_RATE ? BIDE_WHY_RATE : BIDE_WHY_CONCURRENCY;
    if (topic->waiting == 0 && count_workers(m, job->name) == 0 &&
        topic->count[BIDE_STATE_RESERVED] == 0)
        return BIDE_WHY_NO_WORKER;
    return count_ahead(m, job) > 0 ? BIDE_WHY_AHEAD : BIDE_WHY_NONE;
}

static bide_why_reason reason_of(const struct model *m, const struct mjob *job)
{
    switch (job->state) {
    case BIDE_STATE_DELAYED:
        return BIDE_WHY_DELAYED;
    case BIDE_STATE_RESERVED:
        return BIDE_WHY_RESERVED;
    case BIDE_STATE_BURIED:
        return BIDE_WHY_BURIED;
    case BIDE_STATE_DONE:
        return BIDE_WHY_DONE;
    default:
        return reason_of_ready(m, job);
    }
}

/* How long the reason lasts, in microseconds. */
#define NOT_KNOWN INT64_MIN

static int64_t left_of(const struct model *m, const struct mjob *job)
{
    const struct mtopic *topic = &m->topics[job->name];
    bide_why_reason reason = reason_of(m, job);
    if (reason == BIDE_WHY_RATE)
        return topic->token_at - m->now.mono;
    if (job->state == BIDE_STATE_READY)
        return reason == BIDE_WHY_PAUSED && topic->pause_end != BI_NEVER
                   ? topic->pause_end - m->now.mono
                   : NOT_KNOWN;
    if (job->state == BIDE_STATE_BURIED)
        return NOT_KNOWN;
    if (job->state == BIDE_STATE_RESERVED && job->reply_pending)
        return job->ttr_ms * US_PER_MS;
    return model_distance(m, job);
}

static void compare_job(struct model *m, const struct mjob *job, const bide_explanation *got)
{
    struct sim *sim = m->sim;
    const struct mtopic *topic = &m->topics[job->name];
    bool ready = job->state == BIDE_STATE_READY, held = job->state == BIDE_STATE_RESERVED;
    uint64_t ahead = ready ? count_ahead(m, job) : 0;
    int64_t left = left_of(m, job);
    char holder[SIM_TEXT + 1] = "";

    expect(sim, "id", (int64_t)job->id, (int64_t)got->id);
    expect(sim, "state", job->state, got->state);
    expect(sim, "topic", job->name, sim_name_of(sim_slice(got->topic)));
    expect(sim, "attempts", job->reserves, got->attempts);
    expect(sim, "failures", job->failures, got->failures);
    expect(sim, "waiting", (int64_t)topic->waiting, (int64_t)got->waiting);
    expect(sim, "workers", (int64_t)count_workers(m, job->name), (int64_t)got->workers);
    expect(sim, "running", (int64_t)topic->count[BIDE_STATE_RESERVED], (int64_t)got->running);
    expect(sim, "ahead", (int64_t)(ahead < BIDE_WHY_AHEAD_MAX ? ahead : BIDE_WHY_AHEAD_MAX),
           (int64_t)got->ahead);
    expect(sim, "ahead_more", ahead > BIDE_WHY_AHEAD_MAX, got->ahead_more);
    expect(sim, "left_ms", ms_up(left), got->left_ms);
    expect(sim, "has until_ms", left != NOT_KNOWN, got->until_ms != 0);
    expect(sim, "cancel_wanted", held && job->cancel_wanted, got->cancel_wanted);
    if (held)
        memcpy(holder, job->holder.bytes, job->holder.size);
    expect_bytes(sim, "holder", holder, strlen(holder), got->holder, strlen(got->holder));
}

void model_why(struct model *m, struct sim_op *sop)
{
    struct sim *sim = m->sim;
    const bide_why_args *args = &sop->op.why;
    const bide_explanation *got = args->why;
    int name = args->id != 0 ? -1 : sim_name_of(args->topic);
    const struct mjob *job =
        args->id != 0 ? model_find(m, args->id) : model_key_holder(m, name, sim_key_of(args->key));
    bide_why_reason want = args->id == 0 ? m->draining ? BIDE_WHY_DRAINING : BIDE_WHY_NONE
                           : args->id >= m->next_id ? BIDE_WHY_UNKNOWN
                                                    : BIDE_WHY_GONE;

    model_answer(m, BIDE_OK);
    if (job != NULL) {
        compare_job(m, job, got);
        want = args->id == 0 ? BIDE_WHY_KEY_HELD : reason_of(m, job);
    } else {
        expect(sim, "id", (int64_t)args->id, (int64_t)got->id);
        expect(sim, "state", BIDE_STATE_GONE, got->state);
    }
    expect(sim, "reason", want, got->reason);
    expect(sim, "draining", m->draining, got->draining);
    expect_true(sim, got->text[0] != 0 && strlen(got->text) < sizeof got->text - 1,
                "a reason has no sentence, or too long a one");
}
