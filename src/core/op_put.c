/* SPDX-License-Identifier: MIT */
/*
 * op_put - how jobs come in: put, put_many, restore, and loading at start.
 *
 * Everything that can fail comes before anything changes: a new job is built completely outside
 * of the queue, and then let in by steps that cannot fail.
 */
#include "core/state.h"

#include <assert.h>
#include <string.h>

/* A job that is wanted, wherever the wish comes from. */
struct wish {
    bide_slice topic;
    bide_slice body;
    bide_buf *buf;
    bool take_buf;
    bool plain; /* nothing is said that struct more would keep */
    bide_conflict conflict;
    bide_slice key, last_error, result;
    struct bi_image image; /* times as in images; its topic and buffers are not looked at */
};

/* All zero, but for the large part at the end that is never read. */
static void wish_init(struct wish *wish)
{
    memset(wish, 0, offsetof(struct wish, image) + offsetof(struct bi_image, topic));
}

/* ---- refusals ---- */

static int refuse_size(const struct core *core, bide_op *op, const struct wish *wish)
{
    size_t size = wish->buf != NULL ? bide_buf_size(wish->buf) : wish->body.size;
    if (size > core->limits.max_job_size)
        return bi_op_refuse(op, BIDE_TOO_BIG, "put: the body has %zu bytes, max_job_size is %zu",
                            size, core->limits.max_job_size);
    if (wish->result.size > core->limits.max_result_size)
        return bi_op_refuse(op, BIDE_TOO_BIG,
                            "restore: the result has %zu bytes, max_result_size is %zu",
                            wish->result.size, core->limits.max_result_size);
    return BIDE_OK;
}

/* A restored result that would not hold its key, and would not count as a job of its topic. */
static bool is_result(const struct wish *wish)
{
    return wish->image.state == BIDE_STATE_DONE;
}

/* Who holds the key now; *holder is NULL if nobody does. A holder that may not be replaced
 * refuses the put and tells its id. */
static int find_holder(struct core *core, bide_op *op, const struct wish *wish,
                       const struct topic *topic, struct job **holder, uint64_t *id)
{
    *holder = NULL;
    if (topic == NULL || wish->key.size == 0 || (is_result(wish) && !wish->image.key_hold_retained))
        return BIDE_OK;
    *holder = bi_core_find_key(core, topic, wish->key);
    if (*holder == NULL)
        return BIDE_OK;
    bi_journal_see(core, (*holder)->id);
    if (wish->conflict == BIDE_REPLACE && (*holder)->state != BIDE_STATE_RESERVED)
        return BIDE_OK;
    *id = (*holder)->id;
    return bi_op_refuse(op, BIDE_EXISTS, "put: job %llu of topic %s holds this key",
                        (unsigned long long)*id, topic->name);
}

static int refuse_full(const struct core *core, bide_op *op, const struct wish *wish,
                       const struct topic *topic, const struct job *holder)
{
    if (topic == NULL || core->limits.max_jobs_per_topic == 0 || is_result(wish))
        return BIDE_OK;
    uint64_t live = bi_topic_live(topic);
    if (holder != NULL && holder->state != BIDE_STATE_DONE)
        live--;
    if (live < core->limits.max_jobs_per_topic)
        return BIDE_OK;
    return bi_op_refuse(
        op, BIDE_TOPIC_FULL, "put: topic %s holds %llu jobs, max_jobs_per_topic is %llu",
        topic->name, (unsigned long long)live, (unsigned long long)core->limits.max_jobs_per_topic);
}

static int refuse_memory(const struct core *core, bide_op *op, size_t body_size)
{
    uint64_t max = core->limits.max_memory;
    if (max == 0 || core->memory + JOB_COST + body_size <= max)
        return BIDE_OK;
    return bi_op_refuse(op, BIDE_EFULL, "put: the queue uses %llu bytes, max_memory is %llu",
                        (unsigned long long)core->memory, (unsigned long long)max);
}

/* ---- building ---- */

static bool copy_text(bide_buf **to, bide_slice from)
{
    if (from.data == NULL)
        return true;
    *to = bide_buf_new(from.data, from.size);
    return *to != NULL;
}

static int64_t time_of(const struct core *core, int64_t wall)
{
    return wall == 0 ? BI_NEVER : mono_of(core, wall);
}

static bool fill_more(struct core *core, struct job *job, const struct wish *wish)
{
    const struct bi_image *image = &wish->image;
    struct more *more = bi_job_more(core, job);
    if (more == NULL || !copy_text(&more->key, wish->key) ||
        !copy_text(&more->last_error, wish->last_error) || !copy_text(&more->result, wish->result))
        return false;
    more->max_retries = image->max_retries;
    more->failures = image->failures;
    more->backoff_base = image->backoff_base;
    more->backoff_max = image->backoff_max;
    more->expires_at = image->expires_at;
    more->retain = image->retain;
    more->order = image->bury_order;
    more->counters =
        (struct counters){image->reserves, image->timeouts, image->releases, image->fails,
                          image->buries,   image->kicks,    image->touches};
    more->ready = time_of(core, image->ready);
    more->reserved = time_of(core, image->reserved);
    more->touched = time_of(core, image->touched);
    more->buried = time_of(core, image->buried);
    more->done = time_of(core, image->done);
    return true;
}

static bool fill_body(struct core *core, struct job *job, const struct wish *wish)
{
    job->body = wish->buf == NULL ? bide_buf_new(wish->body.data, wish->body.size)
                : wish->take_buf  ? wish->buf
                                  : bide_buf_ref(wish->buf);
    job->body_size = (uint32_t)bide_buf_size(job->body);
    core->memory += job->body_size;
    return job->body != NULL;
}

/* The state that a due time which has passed leaves behind is ready. */
static bide_state settle_due(const struct core *core, struct job *job, const struct bi_image *image)
{
    if (image->state == BIDE_STATE_DONE) {
        job->due = mono_of(core, image->due);
        return BIDE_STATE_DONE;
    }
    if (image->state != BIDE_STATE_DELAYED)
        return image->state;
    if (image->due <= core->now.wall)
        return BIDE_STATE_READY;
    if (image->due_wall)
        job->flags |= JOB_DUE_WALL;
    job->due = image->due_wall ? image->due : mono_of(core, image->due);
    return BIDE_STATE_DELAYED;
}

/* A job outside of the queue; NULL when out of memory, and then nothing is left of it. */
static struct job *build(struct core *core, struct topic *topic, const struct wish *wish,
                         uint64_t id)
{
    struct job *job = bi_job_new(core, topic->self, id);
    if (job == NULL)
        return NULL;
    job->priority = wish->image.priority;
    job->ttr = wish->image.ttr;
    job->created = wish->image.created == 0 ? core->now.mono : mono_of(core, wish->image.created);
    if (wish->image.key_hold_retained)
        job->flags |= JOB_KEY_RETAINED;
    if ((!wish->plain && !fill_more(core, job, wish)) || !fill_body(core, job, wish)) {
        bi_job_free(core, job);
        return NULL;
    }
    return job;
}

/* ---- letting in ---- */

static void expire_if_late(struct core *core, struct job *job)
{
    const struct more *more = more_of(core, job);
    if (more == NULL || more->expires_at == 0 || more->counters.reserves > 0 ||
        more->expires_at > core->now.wall)
        return;
    if (job->state != BIDE_STATE_READY && job->state != BIDE_STATE_DELAYED)
        return;
    COUNT(core, topic_of(core, job), expired);
    bi_core_remove(core, job, BIDE_EVENT_EXPIRED);
}

static void let_in(struct core *core, struct job *job, struct job *holder,
                   const struct bi_image *image)
{
    if (holder != NULL) {
        COUNT(core, topic_of(core, holder), deletes);
        bi_core_remove(core, holder, BIDE_EVENT_DELETED);
    }
    core->next_id++;
    bi_job_enter(core, job, settle_due(core, job, image));
    COUNT(core, topic_of(core, job), puts);
    bi_event(core, BIDE_EVENT_PUT, job);
    if (job->state == BIDE_STATE_DONE)
        bi_core_limit_done(core, topic_of(core, job));
    else
        expire_if_late(core, job);
}

/* The steps that may lack memory; then the job is in. */
static int build_and_let_in(struct core *core, const struct wish *wish, struct topic *topic,
                            struct job *holder, uint64_t *id)
{
    uint64_t hold = core->hold;
    struct job *job = build(core, topic, wish, core->next_id);
    if (job == NULL)
        return BIDE_ENOMEM;
    if (bi_journal_new(core, job) != BIDE_OK) {
        if (wish->take_buf)
            job->body = NULL;
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }
    if (holder != NULL && bi_journal_change(core, holder) != BIDE_OK) {
        bide_buf *body = job->body;
        if (wish->take_buf)
            bide_buf_ref(body);
        bi_journal_forget(core, job);
        bi_job_free(core, job);
        core->hold = hold;
        return BIDE_ENOMEM;
    }
    *id = job->id;
    let_in(core, job, holder, &wish->image);
    return BIDE_OK;
}

static int admit(struct core *core, bide_op *op, const struct wish *wish, uint64_t *id)
{
    int code = refuse_size(core, op, wish);
    if (code != BIDE_OK)
        return code;
    if (core->draining)
        return bi_op_answer(op, BIDE_DRAINING);
    struct topic *topic = bi_topic_find(core, wish->topic);
    bool existed = topic != NULL;
    struct job *holder;
    code = find_holder(core, op, wish, topic, &holder, id);
    if (code == BIDE_OK)
        code = refuse_full(core, op, wish, topic, holder);
    if (code != BIDE_OK)
        return code;
    if (!existed)
        code = bi_topic_get(core, wish->topic, &topic);
    if (code != BIDE_OK)
        return bi_op_answer(op, code);
    bi_topic_pin(topic);
    code = refuse_memory(core, op, wish->buf != NULL ? bide_buf_size(wish->buf) : wish->body.size);
    if (code == BIDE_OK) {
        code = build_and_let_in(core, wish, topic, holder, id);
        bi_op_answer(op, code);
    }
    topic->pins--;
    if (code != BIDE_OK && !existed)
        bi_topic_unmake(core, topic);
    else
        bi_topic_cleanup(core, topic);
    return code;
}

/* ---- put ---- */

static const bide_put_options default_options = BIDE_PUT_OPTIONS_INIT;

static bool is_plain(const bide_put_options *options)
{
    return options->key.size == 0 && options->max_retries == BIDE_NO_RETRY_LIMIT &&
           (options->backoff_base_ms | options->backoff_max_ms | options->expires_at_ms |
            options->retain_ms) == 0;
}

static void wish_times(const struct core *core, const bide_put_options *options,
                       struct bi_image *image)
{
    image->state = BIDE_STATE_READY;
    if (options->delay_ms > 0) {
        image->state = BIDE_STATE_DELAYED;
        image->due = core->now.wall + us_of(options->delay_ms);
    } else if (options->run_at_ms > 0) {
        image->state = BIDE_STATE_DELAYED;
        image->due_wall = true;
        image->due = us_of(options->run_at_ms);
    }
}

static int put_item(struct core *core, bide_op *op, bide_put_item *item)
{
    const bide_put_options *options = item->options == NULL ? &default_options : item->options;
    struct wish wish;
    wish_init(&wish);
    wish.topic = item->topic;
    wish.body = item->body;
    wish.buf = item->buf != NULL ? item->buf : item->made_;
    wish.take_buf = item->buf == NULL && item->made_ != NULL;
    wish.conflict = options->conflict;
    if (options->key.size > 0)
        wish.key = options->key;
    wish.plain = is_plain(options);
    struct bi_image *image = &wish.image;
    image->priority = options->priority;
    image->key_hold_retained = options->key_hold_retained;
    image->ttr = options->ttr_ms == 0 ? core->limits.default_ttr : us_of(options->ttr_ms);
    image->max_retries = options->max_retries;
    image->backoff_base = us_of(options->backoff_base_ms);
    image->backoff_max = us_of(options->backoff_max_ms);
    image->expires_at = us_of(options->expires_at_ms);
    image->retain = us_of(options->retain_ms);
    wish_times(core, options, image);
    int code = admit(core, op, &wish, &item->id);
    /* The copy that was made for the queue is the queue's, or nobody's. */
    if (code != BIDE_OK)
        bide_buf_unref(item->made_);
    item->made_ = NULL;
    return code;
}

int bi_op_put(struct core *core, bide_op *op)
{
    return put_item(core, op, &op->put);
}

int bi_op_put_many(struct core *core, bide_op *op)
{
    op->put_many.accepted = 0;
    for (size_t i = 0; i < op->put_many.count; i++) {
        bide_put_item *item = &op->put_many.items[i];
        /* What the arguments alone forbid was refused before. */
        if (item->status != BIDE_OK)
            continue;
        item->status = put_item(core, op, item);
        op->put_many.accepted += item->status == BIDE_OK;
    }
    return BIDE_OK;
}

/* ---- restore ---- */

static bide_slice slice_of(const void *data, size_t size)
{
    return (bide_slice){data, data == NULL ? 0 : size};
}

static void wish_history(const bide_job *job, struct bi_image *image)
{
    image->failures = job->failures;
    image->reserves = job->reserves;
    image->timeouts = job->timeouts;
    image->releases = job->releases;
    image->fails = job->fails;
    image->buries = job->buries;
    image->kicks = job->kicks;
    image->touches = job->touches;
    image->created = us_of(job->created_ms);
    image->ready = us_of(job->ready_ms);
    image->reserved = us_of(job->reserved_ms);
    image->touched = us_of(job->touched_ms);
    image->buried = us_of(job->buried_ms);
    image->done = us_of(job->done_ms);
}

int bi_op_restore(struct core *core, bide_op *op)
{
    const bide_job *job = op->restore.job;
    bool reserved = job->state == BIDE_STATE_RESERVED;
    struct wish wish = {
        .topic = {job->topic, strlen(job->topic)},
        .body = {job->body, job->body_size},
        .key = slice_of(job->key, job->key_size),
        .last_error = slice_of(job->last_error, job->last_error_size > core->limits.max_error_size
                                                    ? core->limits.max_error_size
                                                    : job->last_error_size),
        .result = slice_of(job->result, job->result_size),
        .image =
            {
                .state = reserved ? BIDE_STATE_READY : job->state,
                .priority = job->priority,
                .due_wall = job->run_at_wall,
                .due = us_of(job->run_at_ms),
                .key_hold_retained = job->key_hold_retained,
                .ttr = job->ttr_ms == 0 ? core->limits.default_ttr : us_of(job->ttr_ms),
                .max_retries = job->max_retries,
                .backoff_base = us_of(job->backoff_base_ms),
                .backoff_max = us_of(job->backoff_max_ms),
                .expires_at = us_of(job->expires_at_ms),
                .retain = us_of(job->retain_ms),
            },
    };
    if (job->state == BIDE_STATE_DONE)
        wish.image.due = core->now.wall + us_of(job->left_ms);
    wish_history(job, &wish.image);
    return admit(core, op, &wish, &op->restore.id);
}

/* ---- loading at start ---- */

static bool is_possible(struct core *core, const struct bi_image *image)
{
    size_t size = strnlen(image->topic, sizeof(image->topic));
    return image->id > 0 && image->id <= BIDE_ID_MAX && size > 0 && size <= BIDE_TOPIC_MAX &&
           image->state >= BIDE_STATE_DELAYED && image->state <= BIDE_STATE_DONE &&
           image->state != BIDE_STATE_RESERVED && image->ttr > 0 &&
           bi_core_find(core, image->id) == NULL;
}

static bide_slice slice_of_buf(const bide_buf *buf)
{
    return (bide_slice){bide_buf_data(buf), bide_buf_size(buf)};
}

/* What a job that was being worked on when the process ended has to bear. */
static void settle_loaded(struct core *core, struct job *job, const struct bi_image *image,
                          bide_buf *reason)
{
    struct topic *topic = topic_of(core, job);
    if (image->cancel_wanted) {
        COUNT(core, topic, deletes);
        bi_core_remove(core, job, BIDE_EVENT_DELETED);
        return;
    }
    struct more *more = more_of(core, job);
    bide_buf_unref(more->last_error);
    more->last_error = bide_buf_ref(reason);
    count_up(&more->counters.timeouts);
    count_up(&more->failures);
    COUNT(core, topic, timeouts);
    bi_core_retry(core, job, -1, BIDE_EVENT_TIMED_OUT);
}

static void enter_loaded(struct core *core, struct job *job, const struct bi_image *image)
{
    bide_state state = settle_due(core, job, image);
    if (image->id >= core->next_id)
        core->next_id = image->id + 1;
    if (image->bury_order >= core->next_order)
        core->next_order = image->bury_order + 1;
    bool was_ready = image->state == BIDE_STATE_READY && image->ready != 0;
    job->since = core->now.mono - (was_ready ? age_of(core, mono_of(core, image->ready)) : 0);
    bi_job_enter_again(core, job, state);
}

static int load_job(struct core *core, struct topic *topic, const struct wish *wish,
                    bide_buf *reason)
{
    const struct bi_image *image = &wish->image;
    bool unsettled = image->cancel_wanted || image->started;
    struct job *job = build(core, topic, wish, image->id);
    if (job == NULL)
        return BIDE_ENOMEM;
    if (unsettled && bi_job_more(core, job) == NULL) {
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }
    enter_loaded(core, job, image);
    if (unsettled && bi_journal_change(core, job) != BIDE_OK) {
        bi_job_vanish(core, job);
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }
    if (unsettled)
        settle_loaded(core, job, image, reason);
    return BIDE_OK;
}

int bi_core_load(struct core *core, const struct bi_image *image, struct bi_now now)
{
    core->now = now;
    core->hold = 0;
    if (!is_possible(core, image))
        return BIDE_EINVAL;
    struct wish wish = {.topic = {image->topic, strlen(image->topic)},
                        .image = *image,
                        .buf = image->body,
                        .key = slice_of_buf(image->key),
                        .last_error = slice_of_buf(image->last_error),
                        .result = slice_of_buf(image->result)};
    static const char text[] = "the queue was restarted while the job was reserved";
    bide_buf *reason = image->started ? bide_buf_new(text, sizeof(text) - 1) : NULL;
    if (image->started && reason == NULL)
        return BIDE_ENOMEM;
    struct topic *topic;
    int code = bi_topic_need(core, wish.topic, &topic);
    if (code == BIDE_OK) {
        bi_topic_pin(topic);
        code = load_job(core, topic, &wish, reason);
        bi_topic_unpin(core, topic);
    }
    bide_buf_unref(reason);
    return code;
}

int bi_core_load_pause(struct core *core, const struct bi_image *image, struct bi_now now)
{
    core->now = now;
    bide_slice name = {image->topic, strnlen(image->topic, sizeof(image->topic))};
    if (name.size == 0 || name.size > BIDE_TOPIC_MAX)
        return BIDE_EINVAL;
    if (image->due != BI_NEVER && image->due <= now.wall)
        return BIDE_OK;
    struct topic *topic;
    if (bi_topic_need(core, name, &topic) != BIDE_OK)
        return BIDE_ENOMEM;
    bi_topic_pause(core, topic, image->due == BI_NEVER ? BI_NEVER : mono_of(core, image->due));
    return BIDE_OK;
}
