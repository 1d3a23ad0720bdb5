/* SPDX-License-Identifier: MIT */
#include "model.h"

#include <string.h>

/* The change of a job that a batch stores; NULL for none. */
static const struct mundo *change_in(const struct mjob *job, uint64_t batch)
{
    const struct mundo *undo = job->undo;
    while (undo != NULL && undo->batch != batch)
        undo = undo->next;
    return undo;
}

static struct mjob *find_changed(struct model *m, uint64_t id)
{
    struct mjob *job = model_find(m, id);
    for (size_t i = 0; i < m->dead_count && job == NULL; i++)
        if (m->dead[i]->id == id)
            job = m->dead[i];
    return job;
}

static void compare_buf(struct model *m, const char *what, bool has, const struct mtext *want,
                        const bide_buf *got)
{
    expect_bytes(m->sim, what, want->bytes, has ? want->size : 0, got ? bide_buf_data(got) : NULL,
                 got ? bide_buf_size(got) : 0);
}

/* Nothing is stored as having been before the epoch: 0 means never. */
static int64_t stored_moment(const struct model *m, int64_t mono)
{
    if (mono == BI_NEVER)
        return 0;
    int64_t wall = model_wall_of(m, mono);
    return wall < 1 ? 1 : wall;
}

static void compare_moments(struct model *m, const struct mjob *job, const struct bi_image *image)
{
    struct sim *sim = m->sim;
    expect(sim, "stored created", stored_moment(m, job->created), image->created);
    /* A lease that has not begun is stored as one that begins. */
    int64_t since = job->reply_pending ? m->now.mono : job->since;
    int64_t reserved = job->reply_pending ? m->now.mono : job->reserved;
    int64_t touched = job->reply_pending && job->lease_touches == 0 ? BI_NEVER : job->touched;
    expect(sim, "stored since", stored_moment(m, since), image->since);
    expect(sim, "stored ready", stored_moment(m, job->ready), image->ready);
    expect(sim, "stored reserved", stored_moment(m, reserved), image->reserved);
    expect(sim, "stored touched", stored_moment(m, touched), image->touched);
    expect(sim, "stored buried", stored_moment(m, job->buried), image->buried);
    expect(sim, "stored done", stored_moment(m, job->done), image->done);
}

static void compare_counters(struct model *m, const struct mjob *job, const struct bi_image *image)
{
    struct sim *sim = m->sim;
    expect(sim, "stored reserves", job->reserves, image->reserves);
    expect(sim, "stored timeouts", job->timeouts, image->timeouts);
    expect(sim, "stored releases", job->releases, image->releases);
    expect(sim, "stored fails", job->fails, image->fails);
    expect(sim, "stored buries", job->buries, image->buries);
    expect(sim, "stored kicks", job->kicks, image->kicks);
    expect(sim, "stored touches", job->touches, image->touches);
}

static void compare_schedule(struct model *m, const struct mjob *job, const struct bi_image *image)
{
    struct sim *sim = m->sim;
    bool reserved = job->state == BIDE_STATE_RESERVED;
    bool timed = job->state == BIDE_STATE_DELAYED || job->state == BIDE_STATE_DONE;
    int64_t due = job->due_wall ? job->due : stored_moment(m, job->due);
    expect(sim, "stored state", reserved ? BIDE_STATE_READY : job->state, image->state);
    expect(sim, "stored started", reserved && job->max_retries >= 0, image->started);
    bool kept = reserved && m->interrupted && model_outlives(m, job);
    int64_t left = job->reply_pending       ? job->ttr_ms * US_PER_MS
                   : job->due > m->now.mono ? job->due - m->now.mono
                                            : 1;
    expect(sim, "stored token", kept ? (int64_t)job->number : 0, (int64_t)image->token);
    expect(sim, "stored lease", kept ? left : 0, image->lease);
    expect(sim, "stored cancel_wanted", job->cancel_wanted, image->cancel_wanted);
    expect(sim, "stored key_hold", job->key_hold_retained, image->key_hold_retained);
    expect(sim, "stored priority", job->priority, image->priority);
    expect(sim, "stored ttr", job->ttr_ms * US_PER_MS, image->ttr);
    if (job->state == BIDE_STATE_DELAYED)
        expect(sim, "stored due_wall", job->due_wall, image->due_wall);
    if (timed && job->due_unknown) /* changed again before it could be asked for */
        model_check_backoff(m, job, (image->due - stored_moment(m, job->due_from)) / US_PER_MS);
    else if (timed)
        expect(sim, "stored due", due, image->due);
    expect(sim, "stored max_retries", job->max_retries, image->max_retries);
    expect(sim, "stored failures", job->failures, image->failures);
    expect(sim, "stored backoff_base", job->backoff_base_ms * US_PER_MS, image->backoff_base);
    expect(sim, "stored backoff_max", job->backoff_max_ms * US_PER_MS, image->backoff_max);
    expect(sim, "stored expires_at", job->expires_at, image->expires_at);
    expect(sim, "stored retain", job->retain_ms * US_PER_MS, image->retain);
}

static void compare_image(struct model *m, const struct mjob *job, const struct bi_image *image,
                          bool with_body)
{
    const char *key = job->key >= 0 ? sim_keys[job->key] : "";
    expect(m->sim, "stored topic", job->name, sim_name_of(sim_slice(image->topic)));
    compare_schedule(m, job, image);
    compare_counters(m, job, image);
    compare_moments(m, job, image);
    expect(m->sim, "stored body_size", (int64_t)job->body.size, image->body_size);
    if (with_body)
        compare_buf(m, "stored body", true, &job->body, image->body);
    compare_buf(m, "stored error", job->has_error, &job->last_error, image->last_error);
    model_compare_history(m, "stored failures", job, bide_buf_data(image->history),
                          bide_buf_size(image->history));
    compare_buf(m, "stored result", job->has_result, &job->result, image->result);
    expect_bytes(m->sim, "stored key", key, strlen(key),
                 image->key ? bide_buf_data(image->key) : NULL,
                 image->key ? bide_buf_size(image->key) : 0);
}

static void check_topic(struct model *m, const struct bi_record *record, uint64_t batch)
{
    int name = sim_name_of(sim_slice(record->image.topic));
    const struct mtopic *topic = &m->topics[name];
    bool paused = topic->exists && topic->paused;
    int64_t end = topic->pause_end;
    const bide_topic_policy *policy = topic->exists && topic->has_policy ? &topic->policy : NULL;
    /* A later batch may have changed it since. */
    for (size_t i = m->pause_count; i-- > 0 && m->pauses[i].batch > batch;) {
        if (m->pauses[i].name != name)
            continue;
        paused = m->pauses[i].paused;
        end = m->pauses[i].end;
        policy = m->pauses[i].has_policy ? &m->pauses[i].policy : NULL;
    }
    int64_t want = !paused ? 0 : end == BI_NEVER ? BI_NEVER : stored_moment(m, end);
    expect(m->sim, "stored pause", want, record->image.due);
    expect_bytes(m->sim, "stored policy", policy, policy != NULL ? sizeof *policy : 0,
                 bide_buf_data(record->image.body), bide_buf_size(record->image.body));
}

static void check_job(struct model *m, const struct bi_record *record, uint64_t batch)
{
    struct mjob *job = find_changed(m, record->image.id);
    const struct mundo *undo = job != NULL ? change_in(job, batch) : NULL;
    if (undo == NULL)
        sim_fail(m->sim, "job %llu is stored but has not changed",
                 (unsigned long long)record->image.id);
    /* A later batch may have changed it since. */
    const struct mjob *form = undo->next != NULL ? &undo->next->was : job;
    bool live = undo->next != NULL || model_find(m, job->id) != NULL;
    int want = !live ? BI_REMOVE : undo->existed ? BI_UPDATE : BI_INSERT;
    expect(m->sim, "kind of the record", want, (int)record->kind);
    if (live)
        compare_image(m, form, &record->image, want == BI_INSERT);
    else
        expect(m->sim, "body_size of a removal", (int64_t)job->body.size, record->image.body_size);
    expect_true(m->sim, job->sealed != batch, "a job is twice in a batch");
    job->sealed = batch;
}

/* How many records the batch must have: each change once, but nothing of what came and went. */
static size_t expected_count(const struct model *m, uint64_t batch)
{
    size_t count = 0;
    for (size_t i = 0; i < m->count; i++)
        count += change_in(m->jobs[i], batch) != NULL;
    for (size_t i = 0; i < m->dead_count; i++) {
        const struct mundo *undo = change_in(m->dead[i], batch);
        count += undo != NULL && (undo->existed || undo->next != NULL);
    }
    for (size_t i = 0; i < m->pause_count; i++)
        count += m->pauses[i].batch == batch;
    return count;
}

/* All changes that are not sealed. */
static size_t expected_backlog(const struct model *m)
{
    size_t count = 0;
    for (size_t i = 0; i < m->count + m->dead_count; i++) {
        const struct mjob *job = i < m->count ? m->jobs[i] : m->dead[i - m->count];
        for (const struct mundo *undo = job->undo; undo != NULL; undo = undo->next)
            count += undo->batch >= m->next_seal;
    }
    for (size_t i = 0; i < m->pause_count; i++)
        count += m->pauses[i].batch >= m->next_seal;
    return count;
}

/* A batch is larger than it may be only by one step that is, or when too many wait. */
static void check_size(struct model *m, const struct bi_batch *batch)
{
    const struct bi_limits *limits = &m->sim->options.limits;
    size_t step = m->step_max > 0 ? m->step_max : 1; /* a change without a group is a step, too */
    size_t least = 2 * step;                         /* each put of a step may replace a job */
    uint64_t bytes = 0;
    if (m->crowded >= batch->number)
        return;
    for (size_t i = 0; i < batch->count; i++)
        if (batch->records[i].kind == BI_INSERT)
            bytes += batch->records[i].image.body_size;
    bool many = limits->batch_jobs != 0 && batch->count > limits->batch_jobs;
    bool large = limits->batch_bytes != 0 && bytes > limits->batch_bytes;
    expect_true(m->sim, (!many && !large) || batch->count <= least,
                "a batch is larger than it may be");
}

static void begin_next(struct model *m)
{
    if (m->next_seal++ != m->open_batch)
        return;
    m->open_batch++;
    m->open_count = 0;
    m->open_bytes = 0;
}

void model_seal(struct model *m, const struct bi_batch *batch)
{
    m->now = m->sim->now;
    expect(m->sim, "number of the batch", (int64_t)m->next_seal, (int64_t)batch->number);
    expect(m->sim, "records", (int64_t)expected_count(m, batch->number), (int64_t)batch->count);
    for (size_t i = 0; i < batch->count; i++) {
        if (batch->records[i].kind == BI_TOPIC)
            check_topic(m, &batch->records[i], batch->number);
        else
            check_job(m, &batch->records[i], batch->number);
    }
    expect(m->sim, "next_id of the batch", (int64_t)m->next_id, (int64_t)batch->next_id);
    expect(m->sim, "lease_from of the batch", m->interrupted ? (int64_t)m->lease_from : 0,
           (int64_t)batch->lease_from);
    expect_true(m->sim, batch->next_token > m->last_token,
                "the batch stores a next_token that has been given");
    check_size(m, batch);
    begin_next(m);
    expect(m->sim, "the batch that gathers", (int64_t)m->open_batch,
           (int64_t)bi_journal_open_batch(m->sim->core));
    expect(m->sim, "changes that wait", (int64_t)expected_backlog(m),
           (int64_t)bi_journal_backlog(m->sim->core));
}
