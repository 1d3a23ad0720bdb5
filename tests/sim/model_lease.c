/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

bool model_is_overdue(const struct model *m, const struct mjob *job)
{
    return !m->sim->options.wheel && job->state == BIDE_STATE_RESERVED && !job->reply_pending &&
           job->due <= m->sim->now.mono;
}

void model_end_if_overdue(struct model *m, uint64_t id)
{
    struct mjob *job = model_find(m, id);
    if (job != NULL && model_is_overdue(m, job))
        model_end_of_lease(m, job);
}

int model_lease(struct model *m, uint64_t id, uint64_t token, int who, struct mjob **job)
{
    model_end_if_overdue(m, id);
    *job = model_find(m, id);
    if (*job == NULL) {
        model_depend_on_absent(m, id);
        return BIDE_NOT_FOUND;
    }
    model_depend_on(m, *job);
    bool reserved = (*job)->state == BIDE_STATE_RESERVED;
    if (token != 0)
        return reserved && (*job)->token == token ? BIDE_OK : BIDE_LEASE_LOST;
    if (who == MODEL_HOLDER)
        return BIDE_LEASE_LOST;
    return reserved ? BIDE_RESERVED : BIDE_OK;
}

void model_set_error(struct model *m, struct mjob *job, bide_slice text)
{
    size_t most = m->sim->options.limits.max_error_size;
    if (text.size == 0)
        return;
    job->has_error = true;
    model_set_text(&job->last_error, text.data, text.size < most ? text.size : most);
}

/* ---- the history ---- */

static void append_failure(struct mjob *job, const bide_failure *failure, size_t most)
{
    if (job->history_count == BIDE_HISTORY_MAX) {
        job->history_count--;
        memmove(&job->history[0], &job->history[1], job->history_count * sizeof job->history[0]);
    }
    struct mfailure *last = &job->history[job->history_count++];
    last->kind = failure->kind;
    last->attempt = failure->attempt;
    last->at_ms = failure->at_ms;
    model_set_text(&last->error, failure->error.data,
                   failure->error.size < most ? failure->error.size : most);
    model_set_text(&last->holder, failure->holder.data, failure->holder.size);
}

void model_add_failure(struct model *m, struct mjob *job, bide_failure_kind kind, bide_slice text)
{
    bool held = job->state == BIDE_STATE_RESERVED;
    const bide_failure failure = {.kind = kind,
                                  .attempt = job->reserves,
                                  .at_ms = m->now.wall < 0 ? 0 : m->now.wall / US_PER_MS,
                                  .error = text,
                                  .holder = {job->holder.bytes, held ? job->holder.size : 0}};
    append_failure(job, &failure, m->sim->options.limits.max_error_size);
}

void model_set_history(struct mjob *job, const void *data, size_t size)
{
    const bide_job shown = {.history = data, .history_size = size};
    bide_failure failures[BIDE_HISTORY_MAX];
    size_t count = bide_job_history(&shown, failures, BIDE_HISTORY_MAX);
    job->history_count = 0;
    for (size_t i = 0; i < count; i++)
        append_failure(job, &failures[i], SIM_TEXT);
}

void model_compare_history(struct model *m, const char *what, const struct mjob *job,
                           const void *data, size_t size)
{
    const bide_job shown = {.history = data, .history_size = size};
    bide_failure failures[BIDE_HISTORY_MAX];
    size_t count = bide_job_history(&shown, failures, BIDE_HISTORY_MAX);
    expect(m->sim, what, (int64_t)job->history_count, (int64_t)count);
    expect_true(m->sim, (data != NULL) == (count > 0), "an empty history is not none");
    for (size_t i = 0; i < count; i++) {
        const struct mfailure *want = &job->history[i];
        expect(m->sim, "kind of a failure", want->kind, failures[i].kind);
        expect(m->sim, "attempt of a failure", want->attempt, failures[i].attempt);
        expect(m->sim, "time of a failure", want->at_ms, failures[i].at_ms);
        expect_bytes(m->sim, "text of a failure", want->error.bytes, want->error.size,
                     failures[i].error.data, failures[i].error.size);
        expect_bytes(m->sim, "holder of a failure", want->holder.bytes, want->holder.size,
                     failures[i].holder.data, failures[i].holder.size);
    }
}

/* ---- where a job goes ---- */

void model_requeue(struct model *m, struct mjob *job, int64_t delay_ms)
{
    job->due_wall = false;
    job->has_progress = false;
    if (delay_ms == 0) {
        model_ready(m, job);
        return;
    }
    model_set_state(m, job, BIDE_STATE_DELAYED);
    job->due = m->now.mono + delay_ms * US_PER_MS;
}

void model_enter_buried(struct model *m, struct mjob *job)
{
    model_set_state(m, job, BIDE_STATE_BURIED);
    job->buried = m->now.mono;
    job->buries++;
    job->has_progress = false;
    MODEL_COUNT(m, job->name, buries);
    model_event(m, job, BIDE_EVENT_BURIED, BIDE_STATE_BURIED);
    model_notify_waits(m, job, BIDE_STATE_BURIED, false);
}

/* ---- retries ---- */

static int64_t backoff_max_ms(const struct mjob *job)
{
    return job->backoff_max_ms != 0 ? job->backoff_max_ms : 3600000;
}

/* The shortest delay there may be. */
static int64_t backoff_ms(const struct mjob *job)
{
    int64_t delay = job->backoff_base_ms != 0 ? job->backoff_base_ms : 5000;
    int64_t most = (2 * backoff_max_ms(job) + 2) / 3;
    for (uint32_t i = 1; i < job->failures && delay < most; i++)
        delay *= 2;
    return delay < most ? delay : most;
}

void model_check_backoff(struct model *m, const struct mjob *job, int64_t delay)
{
    if (delay < job->due_base || delay > job->due_base + job->due_base / 2 ||
        delay > backoff_max_ms(job))
        sim_fail(m->sim, "backoff of %lld ms for a base of %lld", (long long)delay,
                 (long long)job->due_base);
}

static bool at_limit(const struct mjob *job)
{
    return job->max_retries >= 0 && job->failures > (uint32_t)job->max_retries;
}

void model_retry(struct model *m, struct mjob *job, bide_event_kind why)
{
    if (at_limit(job)) {
        model_event(m, job, why, BIDE_STATE_BURIED);
        model_enter_buried(m, job);
        return;
    }
    job->due_wall = false;
    job->has_progress = false;
    model_set_state(m, job, BIDE_STATE_DELAYED);
    job->due_unknown = true;
    job->due_from = m->now.mono;
    job->due_base = backoff_ms(job);
    model_event(m, job, why, BIDE_STATE_DELAYED);
}

void model_end_of_lease(struct model *m, struct mjob *job)
{
    model_change(m, job);
    job->timeouts++;
    MODEL_COUNT(m, job->name, timeouts);
    if (job->cancel_wanted) {
        model_event(m, job, BIDE_EVENT_TIMED_OUT, BIDE_STATE_GONE);
        model_delete_job(m, job);
        return;
    }
    model_add_failure(m, job, BIDE_FAILURE_TIMED_OUT, sim_slice("ttr ran out"));
    if (job->max_retries < 0) {
        model_requeue(m, job, 0);
        model_event(m, job, BIDE_EVENT_TIMED_OUT, BIDE_STATE_READY);
    } else {
        job->failures++;
        model_set_error(m, job, sim_slice("ttr ran out"));
        model_retry(m, job, BIDE_EVENT_TIMED_OUT);
    }
}

/* ---- the ops ---- */

void model_release_job(struct model *m, struct mjob *job, int64_t priority, int64_t delay_ms,
                       int64_t run_at_ms)
{
    model_change(m, job);
    job->releases++;
    MODEL_COUNT(m, job->name, releases);
    if (priority != BIDE_KEEP)
        job->priority = (uint32_t)priority;
    model_requeue(m, job, delay_ms);
    if (run_at_ms * US_PER_MS > m->now.wall) {
        job->due = run_at_ms * US_PER_MS;
        job->due_wall = true;
        model_set_state(m, job, BIDE_STATE_DELAYED);
    }
    model_event(m, job, BIDE_EVENT_RELEASED, job->state);
}

void model_bury_job(struct model *m, struct mjob *job, int64_t priority, bide_slice reason)
{
    model_change(m, job);
    if (priority != BIDE_KEEP)
        job->priority = (uint32_t)priority;
    model_set_error(m, job, reason);
    model_add_failure(m, job, BIDE_FAILURE_BURIED, reason);
    model_enter_buried(m, job);
}

void model_release(struct model *m, struct sim_op *sop)
{
    struct mjob *job;
    int code = model_lease(m, sop->op.release.id, sop->op.release.token, MODEL_HOLDER, &job);
    model_answer(m, code);
    if (code != BIDE_OK)
        return;
    if (job->cancel_wanted) {
        model_delete_job(m, job);
        return;
    }
    model_release_job(m, job, sop->op.release.priority, sop->op.release.delay_ms, 0);
}

void model_give_back(struct model *m, struct sim_op *sop)
{
    struct mjob *job;
    int code = model_lease(m, sop->op.lease.id, sop->op.lease.token, MODEL_HOLDER, &job);
    model_answer(m, code);
    if (code != BIDE_OK)
        return;
    if (job->cancel_wanted) {
        model_delete_job(m, job);
        return;
    }
    if (job->max_retries >= 0 || job->number < m->first_token)
        model_change(m, job);
    model_requeue(m, job, 0);
    model_event(m, job, BIDE_EVENT_RELEASED, job->state);
}

bool model_outlives(const struct model *m, const struct mjob *job)
{
    return m->sim->options.keep_leases || job->number < m->first_token;
}

/* Is the job still reserved in the core? *hold: the batch of its last change. */
static bool core_reserves(struct model *m, const struct mjob *job, uint64_t *hold)
{
    bide_op op = {.kind = BIDE_OP_JOB_STATS};
    bide_job got = {0};
    op.query.id = job->id;
    op.query.job = &got;
    expect_code(m->sim, "job_stats", BIDE_OK, bi_core_run(m->sim->core, &op, m->sim->now));
    *hold = op.private_.hold;
    bool reserved = got.state == BIDE_STATE_RESERVED;
    bide_job_clear(&got);
    return reserved;
}

/* An orderly end: a lease that outlives the process is stored, any other is over. */
void model_stop(struct model *m)
{
    m->now = m->sim->now;
    m->interrupted = true;
    for (size_t i = 0; i < m->count; i++) {
        struct mjob *job = m->jobs[i];
        bool keep = model_outlives(m, job);
        uint64_t hold;
        if (job->state != BIDE_STATE_RESERVED ||
            (!keep && (job->max_retries < 0 || job->cancel_wanted)))
            continue;
        /* Without memory for the journal it stays as it is. */
        bool reserved = core_reserves(m, job, &hold);
        if (m->sim->allowed_enomem && reserved && (!keep || hold != m->open_batch))
            continue;
        expect(m->sim, "whether the lease outlives the end", keep, reserved);
        model_change_in(m, job, sim_has_batches(m->sim) ? hold : 0);
        if (keep)
            continue;
        model_requeue(m, job, 0);
        model_event(m, job, BIDE_EVENT_RELEASED, job->state);
    }
}

/* Where a failed job goes: as the op says, by backoff, or to the buried. */
static void fail_to(struct model *m, struct mjob *job, int64_t retry_in_ms)
{
    if (at_limit(job) || retry_in_ms == BIDE_KEEP) {
        model_retry(m, job, BIDE_EVENT_FAILED);
        return;
    }
    model_requeue(m, job, retry_in_ms);
    model_event(m, job, BIDE_EVENT_FAILED, job->state);
}

/* By backoff the op says what the delay came to. */
static void compare_fail(struct model *m, struct mjob *job, const bide_op *op)
{
    expect(m->sim, "state after the failure", job->state, op->fail.state);
    if (job->state != BIDE_STATE_DELAYED) {
        expect(m->sim, "delay", 0, op->fail.delay_ms);
        return;
    }
    if (!job->due_unknown) {
        expect(m->sim, "delay", op->fail.retry_in_ms, op->fail.delay_ms);
        return;
    }
    int64_t delay = op->fail.delay_ms;
    model_check_backoff(m, job, delay);
    job->due_unknown = false;
    job->due = m->now.mono + delay * US_PER_MS;
}

void model_fail(struct model *m, struct sim_op *sop)
{
    struct mjob *job;
    const bide_op *op = &sop->op;
    int code = model_lease(m, op->fail.id, op->fail.token, MODEL_ANYBODY, &job);
    if (code == BIDE_OK && (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE))
        code = BIDE_WRONG_STATE;
    model_answer(m, code);
    if (code != BIDE_OK)
        return;
    if (job->cancel_wanted) {
        expect(m->sim, "state after the failure", BIDE_STATE_GONE, op->fail.state);
        model_delete_job(m, job);
        return;
    }
    model_change(m, job);
    job->fails++;
    job->failures++;
    MODEL_COUNT(m, job->name, fails);
    model_set_error(m, job, op->fail.error);
    model_add_failure(m, job, op->fail.kind, op->fail.error);
    fail_to(m, job, op->fail.retry_in_ms);
    compare_fail(m, job, op);
}

void model_bury(struct model *m, struct sim_op *sop)
{
    struct mjob *job;
    const bide_op *op = &sop->op;
    int code = model_lease(m, op->bury.id, op->bury.token, MODEL_ANYBODY, &job);
    if (code == BIDE_OK && (job->state == BIDE_STATE_BURIED || job->state == BIDE_STATE_DONE))
        code = BIDE_WRONG_STATE;
    model_answer(m, code);
    if (code != BIDE_OK)
        return;
    if (job->cancel_wanted) {
        model_delete_job(m, job);
        return;
    }
    model_bury_job(m, job, op->bury.priority, op->bury.reason);
}

/* ---- touch ---- */

static bool at_touch_limit(const struct model *m, const struct mjob *job, int64_t end)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    if (limits->max_touches != 0 && job->lease_touches >= limits->max_touches)
        return true;
    int64_t leased = job->reply_pending ? m->now.mono : job->leased;
    int64_t last = job->reply_pending && job->lease_touches == 0 ? m->now.mono : job->last_touch;
    if (limits->min_touch_interval != 0 && m->now.mono - last < limits->min_touch_interval)
        return true;
    return limits->max_touch_total != 0 && end - leased > limits->max_touch_total;
}

static void extend(struct model *m, struct mjob *job, int64_t end)
{
    job->due = end;
    if (!job->reply_pending)
        job->again = 0;
    job->last_touch = m->now.mono;
    job->touched = m->now.mono;
    job->lease_touches++;
    job->touches++;
    MODEL_COUNT(m, job->name, touches);
}

static int64_t left_ms(const struct model *m, int64_t end)
{
    return end <= m->now.mono ? 0 : (end - m->now.mono + US_PER_MS - 1) / US_PER_MS;
}

static int touch(struct model *m, const bide_touch_item *item, int got)
{
    struct mjob *job;
    int code = model_lease(m, item->id, item->token, MODEL_HOLDER, &job);
    if (code != BIDE_OK)
        return code;
    bool keep = item->extend_ms == BIDE_KEEP;
    int64_t extend_ms = item->extend_ms != 0 ? item->extend_ms : job->ttr_ms;
    if (keep)
        extend_ms = job->ttr_ms;
    bool as_it_is = keep && !job->reply_pending;
    int64_t end = as_it_is ? job->due : m->now.mono + extend_ms * US_PER_MS;
    if (!keep && at_touch_limit(m, job, end))
        return BIDE_TOUCH_LIMIT;
    if (got == BIDE_ENOMEM && m->sim->allowed_enomem)
        return BIDE_ENOMEM;
    if (!keep)
        extend(m, job, end);
    if (item->progress.size != 0) {
        job->has_progress = true;
        model_set_text(&job->progress, item->progress.data, item->progress.size);
    }
    code = job->cancel_wanted ? BIDE_CANCEL_WANTED : BIDE_OK;
    if (got == code)
        expect(m->sim, "left_ms of the lease", left_ms(m, end), item->left_ms);
    return code;
}

void model_touch(struct model *m, struct sim_op *sop)
{
    model_answer(m, touch(m, &sop->op.touch, m->got));
}

void model_touch_many(struct model *m, struct sim_op *sop)
{
    model_answer(m, BIDE_OK);
    for (size_t i = 0; i < sop->op.touch_many.count; i++) {
        const bide_touch_item *item = &sop->op.touch_many.items[i];
        expect_code(m->sim, "status of the item", touch(m, item, item->status), item->status);
    }
}
