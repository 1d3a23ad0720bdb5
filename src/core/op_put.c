/* SPDX-License-Identifier: MIT */
/*
 * op_put - how jobs come in: put, put_many, restore.
 *
 * Everything that can fail comes before anything changes: a new job is built completely outside
 * of the queue, and then let in by steps that cannot fail.
 */
#include "core/items.h"
#include "core/wish.h"

#include <assert.h>
#include <string.h>

/* ---- refusals ---- */

static int refuse_size(const struct core *core, bide_op *op, const struct wish *wish)
{
    size_t size = wish->buf != NULL ? bide_buf_size(wish->buf) : wish->body.size;
    if (size > core->limits.max_job_size)
        return bi_op_refuse(op, BIDE_TOO_BIG, "%s: the body has %zu bytes, max_job_size is %zu",
                            bide_op_name(op->kind), size, core->limits.max_job_size);
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
    return bi_op_refuse(op, BIDE_EXISTS, "%s: job %llu of topic %s holds this key",
                        bide_op_name(op->kind), (unsigned long long)*id, topic->name);
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
    return bi_op_refuse(op, BIDE_TOPIC_FULL,
                        "%s: topic %s holds %llu jobs, max_jobs_per_topic is %llu",
                        bide_op_name(op->kind), topic->name, (unsigned long long)live,
                        (unsigned long long)core->limits.max_jobs_per_topic);
}

static int refuse_memory(const struct core *core, bide_op *op, const struct wish *wish)
{
    size_t body = wish->buf != NULL ? bide_buf_size(wish->buf) : wish->body.size;
    uint64_t texts = wish->key.size + wish->last_error.size + wish->result.size;
    if (!bi_core_is_full(core, JOB_COST + MORE_COST + JOB_SLACK + body + texts))
        return BIDE_OK;
    return bi_op_limited(core, op, BIDE_EFULL);
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
    bi_job_enter(core, job, bi_wish_settle_due(core, job, image));
    COUNT(core, topic_of(core, job), puts);
    bi_event(core, BIDE_EVENT_PUT, job);
    if (job->state == BIDE_STATE_DONE)
        bi_core_limit_done(core, topic_of(core, job), BI_DONE_STEP);
    else
        expire_if_late(core, job);
}

/* The steps that may lack memory; then the job is in. */
static int build_and_let_in(struct core *core, const struct wish *wish, struct topic *topic,
                            struct job *holder, uint64_t *id)
{
    uint64_t hold = core->hold;
    struct job *job = bi_wish_build(core, topic, wish, core->next_id);
    if (job == NULL)
        return BIDE_ENOMEM;
    /* A job and the one that it replaces come and go in one batch. */
    bi_journal_join(core, holder == NULL ? 1 : 2, job->body_size);
    int code = bi_journal_new(core, job);
    if (code == BIDE_OK && holder != NULL) {
        code = bi_journal_change(core, holder);
        if (code != BIDE_OK) {
            bi_journal_forget(core, job);
            core->hold = hold;
        }
    }
    bi_journal_part(core);
    if (code != BIDE_OK) {
        if (wish->take_buf)
            bide_buf_ref(job->body);
        bi_job_free(core, job);
        return code;
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
    if (core->next_id > BIDE_ID_MAX)
        return bi_op_refuse(op, BIDE_EFULL, "%s: all ids up to 2^53 have been given",
                            bide_op_name(op->kind));
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
        return bi_op_limited(core, op, code);
    bi_topic_pin(topic);
    code = refuse_memory(core, op, wish);
    if (code == BIDE_OK) {
        code = build_and_let_in(core, wish, topic, holder, id);
        bi_op_limited(core, op, code);
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

static size_t size_of_item(const bide_put_item *item)
{
    return item->buf != NULL ? bide_buf_size(item->buf) : item->body.size;
}

/* How many items ahead the cache is told. */
enum { NEXT = 3, LATER = 8 };

/*
 * Items of one topic come together, or each has another one: then they are told to the cache. The topic of
 * an item that was refused must not be read: its data may be NULL.
 */
static void approach_topics(const struct core *core, const bide_put_item *item, size_t left)
{
    if (left <= LATER || item[0].status != BIDE_OK || item[1].status != BIDE_OK ||
        item[NEXT].status != BIDE_OK || item[LATER].status != BIDE_OK)
        return;
    if (item[0].topic.size != item[1].topic.size ||
        memcmp(item[0].topic.data, item[1].topic.data, item[0].topic.size) != 0)
        bi_topic_approach(core, item[LATER].topic, item[NEXT].topic);
}

int bi_op_put_many(struct core *core, bide_op *op)
{
    struct items items;
    uint64_t bytes = 0;
    for (size_t i = 0; i < op->put_many.count; i++)
        bytes += size_of_item(&op->put_many.items[i]);
    bi_items_begin(&items, op);
    op->put_many.accepted = 0;
    /* If it cannot be stored, nothing of it has happened. */
    core->work += op->put_many.count * OP_WORK;
    bi_journal_join(core, (uint32_t)op->put_many.count, bytes);
    for (size_t i = 0; i < op->put_many.count; i++) {
        bide_put_item *item = &op->put_many.items[i];
        approach_topics(core, item, op->put_many.count - i);
        /* What the arguments alone forbid was refused before. */
        if (item->status != BIDE_OK)
            continue;
        item->status = put_item(core, op, item);
        op->put_many.accepted += item->status == BIDE_OK;
        bi_items_note(&items, op, i, item->status);
    }
    bi_journal_part(core);
    bi_items_end(&items, op);
    return BIDE_OK;
}

/* ---- restore ---- */

static bide_slice slice_of(const void *data, size_t size)
{
    return (bide_slice){data, data == NULL ? 0 : size};
}

/*
 * A job that is ready has been so since it was last reserved, or longer; but not since a moment that
 * is still to come. One that is not ready was so before it was reserved.
 */
static int64_t ready_moment(const struct core *core, const bide_job *job)
{
    int64_t ready = us_of(job->ready_ms), reserved = us_of(job->reserved_ms);
    if (job->state != BIDE_STATE_READY)
        return ready < reserved ? ready : reserved;
    if (ready > core->now.wall)
        ready = core->now.wall;
    return ready != 0 && ready == reserved ? ready + 1 : ready; /* within the same millisecond */
}

static void wish_history(const struct core *core, const bide_job *job, struct bi_image *image)
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
    image->ready = ready_moment(core, job);
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
        .buf = op->restore.made_body_,
        .take_buf = op->restore.made_body_ != NULL,
        .result_buf = op->restore.made_result_,
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
    wish_history(core, job, &wish.image);
    int code = admit(core, op, &wish, &op->restore.id);
    if (code != BIDE_OK)
        bide_buf_unref(op->restore.made_body_);
    bide_buf_unref(op->restore.made_result_);
    op->restore.made_body_ = op->restore.made_result_ = NULL;
    return code;
}
