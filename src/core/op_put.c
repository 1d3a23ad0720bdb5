/* SPDX-License-Identifier: MIT */
/*
 * op_put - inserting jobs: put, put_many, restore, and the puts of a step (finish_and_put).
 *
 * Failure    Everything that can fail precedes the first change: a new job is built outside of the
 *            queue and then inserted by steps that cannot fail. A topic that was created for a
 *            rejected job is destroyed again.
 */
#include "core/core_internal.h"
#include "op/op_result.h"

#include <assert.h>
#include <string.h>

/* ---- checks ---- */

static size_t body_size(const bide_buf *buf, bide_slice body)
{
    return buf != NULL ? bide_buf_size(buf) : body.size;
}

static int check_size(const struct core *core, bide_op *op, const struct job_spec *spec)
{
    size_t size = body_size(spec->buf, spec->body);
    if (size > core->limits.max_job_size)
        return bi_core_error(op, BIDE_TOO_BIG, "%s: the body has %zu bytes, max_job_size is %zu",
                             bide_op_name(op->kind), size, core->limits.max_job_size);
    if (spec->result.size > core->limits.max_result_size)
        return bi_core_error(op, BIDE_TOO_BIG,
                             "restore: the result has %zu bytes, max_result_size is %zu",
                             spec->result.size, core->limits.max_result_size);
    return BIDE_OK;
}

/* True for a restored result. It does not count as a job of its topic, and holds its key only
 * with key_hold_retained. */
static bool is_result(const struct job_spec *spec)
{
    return spec->image.state == BIDE_STATE_DONE;
}

/* Finds the job that holds the key; *holder is NULL if there is none. If it may not be replaced,
 * the put fails and *id is the holder's. */
static int find_key_holder(struct core *core, bide_op *op, const struct job_spec *spec,
                           const struct topic *topic, struct job **holder, uint64_t *id)
{
    *holder = NULL;
    if (topic == NULL || spec->key.size == 0 || (is_result(spec) && !spec->image.key_hold_retained))
        return BIDE_OK;
    *holder = bi_job_find_by_key(core, topic, spec->key);
    if (*holder == NULL)
        return BIDE_OK;

    /* The holder may be uncommitted: the reply names it, or replaces it. A holder without a state
     * is an earlier put of the same step, which cannot be replaced. */
    bi_journal_depend_on(core, (*holder)->id);
    if (spec->conflict == BIDE_REPLACE && (*holder)->state != BIDE_STATE_RESERVED &&
        (*holder)->state != BIDE_STATE_GONE)
        return BIDE_OK;
    *id = (*holder)->id;
    if ((*holder)->state == BIDE_STATE_GONE)
        return bi_core_error(op, BIDE_EXISTS, "%s: an earlier put of this call has the same key",
                             bide_op_name(op->kind));
    return bi_core_error(op, BIDE_EXISTS, "%s: job %llu of topic %s holds this key",
                         bide_op_name(op->kind), (unsigned long long)*id, topic->name);
}

/* True if the replaced job makes room in its topic. A result does not, nor a job that the step ends,
 * whose room is counted already. */
static bool makes_room(const struct core *core, const struct job *holder)
{
    return holder != NULL && holder->state != BIDE_STATE_DONE && holder != core->step_ended;
}

static int check_topic_full(const struct core *core, bide_op *op, const struct job_spec *spec,
                            const struct topic *topic, const struct job *holder)
{
    uint64_t max = topic == NULL || is_result(spec) ? 0 : bi_topic_max_jobs(core, topic);
    /* A job that is replaced, or ended by this step, makes room even in a topic whose limit was
     * lowered. */
    if (max == 0 || makes_room(core, holder) || topic->step_jobs < 0)
        return BIDE_OK;

    uint64_t live = bi_topic_live_count(topic) + (uint64_t)topic->step_jobs;
    return live < max ? BIDE_OK : bi_core_error_topic_full(core, op, topic, live);
}

/* ---- the policy of the topic ---- */

/* The timestamp of an expiry after this time; the last one that there is, at most. */
static int64_t expiry_after(const struct core *core, int64_t time)
{
    int64_t last = us_of(BIDE_TIMESTAMP_MAX_MS);
    int64_t at = core->now.wall + time;
    return at < 1 ? 1 : at > last ? last : at;
}

/* Applies the defaults of the topic where the options of a put are silent. They are stored with the
 * job: a later change of the policy does not affect it. */
static void apply_defaults(const struct core *core, const bide_topic_policy *policy,
                           struct job_spec *spec)
{
    const bide_put_options *options = spec->options;
    struct bi_image *image = &spec->image;
    bool fallback = (options->fallbacks & BIDE_FALLBACK_RETRIES) != 0;

    if (policy->ttr_ms != 0 && options->ttr_ms == 0)
        image->ttr = us_of(policy->ttr_ms);
    if (policy->max_retries != BIDE_NO_DEFAULT &&
        (options->max_retries == BIDE_NO_RETRY_LIMIT ||
         (fallback && options->max_retries != BIDE_NO_DEFAULT)))
        image->max_retries = policy->max_retries == BIDE_UNLIMITED ? BIDE_NO_RETRY_LIMIT
                                                                   : (int32_t)policy->max_retries;
    if (options->backoff_base_ms == 0)
        image->backoff_base = us_of(policy->backoff_base_ms);
    if (options->backoff_max_ms == 0)
        image->backoff_max = us_of(policy->backoff_max_ms);
    if (options->retain_ms == 0)
        image->retain = us_of(policy->retain_ms);
    if (policy->expires_in_ms != 0 && options->expires_at_ms == 0)
        image->expires_at = expiry_after(core, us_of(policy->expires_in_ms));
    spec->plain = false;
}

/* ---- inserting ---- */

static void expire_if_due(struct core *core, struct job *job)
{
    const struct job_ext *ext = ext_of(core, job);
    if (ext == NULL || ext->expires_at == 0 || ext->counters.reserves > 0 ||
        ext->expires_at > core->now.wall)
        return;
    if (job->state != BIDE_STATE_READY && job->state != BIDE_STATE_DELAYED)
        return;
    COUNT(core, topic_of(core, job), expired);
    bi_op_finish_remove(core, job, BIDE_EVENT_EXPIRED);
}

static void insert(struct core *core, struct job *job, struct job *holder,
                   const struct bi_image *image)
{
    assert(job->id < core->next_id);
    if (holder != NULL)
        bi_op_finish_remove_counted(core, holder);

    bi_job_enter(core, job, bi_job_spec_set_due(core, job, image));
    COUNT(core, topic_of(core, job), puts);
    bi_event_emit(core, BIDE_EVENT_PUT, job);

    if (job->state == BIDE_STATE_DONE)
        bi_op_finish_retire_excess(core, topic_of(core, job), BI_RETIRE_STEP);
    else
        expire_if_due(core, job);
}

/* The steps that can run out of memory, then the insertion. */
static int build_and_insert(struct core *core, const struct job_spec *spec, struct topic *topic,
                            struct job *holder, uint64_t *id)
{
    uint64_t hold = core->hold;
    struct job *job = bi_job_spec_build(core, topic, spec, core->next_id);
    if (job == NULL)
        return BIDE_ENOMEM;

    /* The new job and the removal of the replaced one go to one batch: a crash must not leave
     * both, or neither. */
    bi_journal_begin_group(core, holder == NULL ? 1 : 2, job->body_size);
    uint32_t before = core->journal.changes.tail;
    int code = bi_journal_insert(core, job);
    if (code == BIDE_OK && holder != NULL) {
        code = bi_journal_change(core, holder);
        if (code != BIDE_OK) {
            bi_journal_undo_insert(core, job, before);
            core->hold = hold; /* the error does not depend on the batch */
        }
    }
    bi_journal_end_group(core);

    if (code != BIDE_OK) {
        /* Freeing the job releases the body, but on failure it is still the caller's. */
        if (spec->take_buf)
            bide_buf_ref(job->body);
        bi_job_free(core, job);
        return code;
    }

    /* Only now: a put that failed does not use up an id. */
    *id = core->next_id++;
    insert(core, job, holder, &spec->image);
    return BIDE_OK;
}

/* The checks that precede the creation of the topic; *topic is NULL if it does not exist. Applies
 * its defaults otherwise. */
static int check_put(struct core *core, bide_op *op, struct job_spec *spec, struct topic **topic,
                     struct job **holder, uint64_t *id)
{
    assert(spec->topic.size > 0);
    int code = check_size(core, op, spec);
    if (code != BIDE_OK)
        return code;
    if (core->draining)
        return bi_core_error_code(op, BIDE_DRAINING);
    if (core->next_id > BIDE_ID_MAX)
        return bi_core_error(op, BIDE_EFULL, "%s: all ids up to 2^53 have been given",
                             bide_op_name(op->kind));

    *topic = bi_topic_find(core, spec->topic);
    if (*topic != NULL && (*topic)->policy != NULL && spec->options != NULL &&
        bi_policy_settings((*topic)->policy) != NULL)
        apply_defaults(core, bi_policy_settings((*topic)->policy), spec);
    code = find_key_holder(core, op, spec, *topic, holder, id);
    return code == BIDE_OK ? check_topic_full(core, op, spec, *topic, *holder) : code;
}

/* The bytes of a job with an ext and slack, used or not: it must be reservable in a full queue. */
static uint64_t cost_of(const struct job_spec *spec)
{
    return JOB_COST + JOB_EXT_COST + JOB_SLACK + body_size(spec->buf, spec->body) + spec->key.size +
           spec->last_error.size + spec->result.size + spec->history.size;
}

static int put_spec(struct core *core, bide_op *op, struct job_spec *spec, uint64_t *id)
{
    struct topic *topic = NULL;
    struct job *holder = NULL;
    int code = check_put(core, op, spec, &topic, &holder, id);
    if (code != BIDE_OK)
        return code;

    bool existed = topic != NULL;
    if (!existed)
        code = bi_topic_get(core, spec->topic, core->limits.max_topics, &topic);
    if (code != BIDE_OK)
        return bi_core_error_limit(core, op, code);

    /* Removing the replaced job may leave the topic without members. */
    bi_topic_pin(topic);
    code = bi_core_is_full(core, cost_of(spec)) ? BIDE_EFULL
                                                : build_and_insert(core, spec, topic, holder, id);
    bi_core_error_limit(core, op, code);

    topic->pins--;
    if (code != BIDE_OK && !existed)
        bi_topic_destroy(core, topic);
    else
        bi_topic_cleanup(core, topic);
    return code;
}

/* ---- put ---- */

static const bide_put_options default_options = BIDE_PUT_OPTIONS_INIT;

#define ADD_USE(kind, name) \
    BI_JOB_IF_PUT_##kind(used |= options->BI_JOB_MEMBER_##kind(name) ^ BI_JOB_NONE_##kind;)
#define COPY_OPTION(kind, name)                                                     \
    BI_JOB_IF_PUT_##kind(image->name =                                              \
                             options->BI_JOB_MEMBER_##kind(name) == BIDE_NO_DEFAULT \
                                 ? BI_JOB_NONE_##kind                               \
                                 : FIELD_IN_##kind(options->BI_JOB_MEMBER_##kind(name));)
#define NO_OPTION(kind, name) BI_JOB_IF_PUT_##kind(image->name = BI_JOB_NONE_##kind;)

static bool is_plain(const bide_put_options *options)
{
    /* One branch for all: most puts are plain. */
    int64_t used = (int64_t)options->key.size;
    BI_JOB_EXT(ADD_USE)
    return used == 0;
}

static void set_schedule(const struct core *core, const bide_put_options *options,
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

static void describe(const struct core *core, const bide_put_item *item, struct job_spec *spec)
{
    const bide_put_options *options = item->options == NULL ? &default_options : item->options;
    bi_job_spec_init(spec);
    spec->topic = item->topic;
    spec->body = item->body;
    spec->buf = item->buf != NULL ? item->buf : item->made_;
    spec->take_buf = item->buf == NULL && item->made_ != NULL;

    spec->conflict = options->conflict;
    if (options->key.size > 0)
        spec->key = options->key;
    spec->plain = is_plain(options);
    spec->options = options;

    struct bi_image *image = &spec->image;
    image->priority = options->priority;
    image->key_hold_retained = options->key_hold_retained;
    image->ttr = options->ttr_ms <= 0 ? core->limits.default_ttr : us_of(options->ttr_ms);
    if (spec->plain) {
        BI_JOB_EXT(NO_OPTION)
    } else {
        BI_JOB_EXT(COPY_OPTION)
    }
    set_schedule(core, options, image);
}

static int put_item(struct core *core, bide_op *op, bide_put_item *item)
{
    struct job_spec spec;
    describe(core, item, &spec);

    int code = put_spec(core, op, &spec, &item->id);
    /* The copy of the body belongs to the job now; after a failure it is freed. */
    if (code != BIDE_OK)
        bide_buf_unref(item->made_);
    item->made_ = NULL;
    return code;
}

int bi_exec_put(struct core *core, bide_op *op)
{
    return put_item(core, op, &op->put);
}

/* Prefetch distances, in items. */
enum { NEXT = 3, LATER = 8 };

/*
 * Prefetches topics of later items into the CPU cache. Items of one topic usually follow each
 * other and need no prefetch. The topic of a rejected item must not be read: its data may be
 * NULL.
 */
static void prefetch_topics(const struct core *core, const bide_put_item *item, size_t left)
{
    if (left <= LATER || item[0].status != BIDE_OK || item[1].status != BIDE_OK ||
        item[NEXT].status != BIDE_OK || item[LATER].status != BIDE_OK)
        return;
    if (item[0].topic.size != item[1].topic.size ||
        memcmp(item[0].topic.data, item[1].topic.data, item[0].topic.size) != 0)
        bi_topic_prefetch(core, item[LATER].topic, item[NEXT].topic);
}

int bi_exec_put_many(struct core *core, bide_op *op)
{
    struct bulk_errors items;
    uint64_t bytes = 0;

    for (size_t i = 0; i < op->put_many.count; i++)
        bytes += body_size(op->put_many.items[i].buf, op->put_many.items[i].body);

    bi_bulk_begin(&items, op);
    op->put_many.accepted = 0;
    core->work += op->put_many.count * OP_WORK;

    /* One batch: if it cannot be stored, no item was inserted. */
    bi_journal_begin_group(core, (uint32_t)op->put_many.count, bytes);
    for (size_t i = 0; i < op->put_many.count; i++) {
        bide_put_item *item = &op->put_many.items[i];
        prefetch_topics(core, item, op->put_many.count - i);
        /* The check of the arguments has rejected it. */
        if (item->status != BIDE_OK)
            continue;
        item->status = put_item(core, op, item);
        op->put_many.accepted += item->status == BIDE_OK;
        bi_bulk_record(&items, op, i, item->status);
    }

    bi_journal_end_group(core);
    bi_bulk_end(&items, op);
    return BIDE_OK;
}

/* ---- the puts of a step ---- */

/* Builds the job of a put and reserves the memory of its journal entries. */
static int build_for_step(struct core *core, const struct job_spec *spec, struct prepared_put *put)
{
    struct topic *topic = put->topic;
    uint32_t entries = put->holder == NULL ? 1 : 2;
    if (bi_core_is_full(core, cost_of(spec)))
        return BIDE_EFULL;

    struct job *job = bi_job_spec_build(core, topic, spec, core->next_id);
    if (job == NULL)
        return BIDE_ENOMEM;

    if (!bi_topic_reserve(core, topic, topic->step_entries + entries)) {
        if (spec->take_buf)
            bide_buf_ref(job->body);
        bi_job_free(core, job);
        return BIDE_ENOMEM;
    }

    put->job = job;
    topic->step_entries += entries;
    topic->step_jobs += !makes_room(core, put->holder);
    core->next_id++;
    return BIDE_OK;
}

static void unpin(struct core *core, const struct prepared_put *put, bool inserted)
{
    assert(put->topic->pins > 0);
    put->topic->pins--;
    if (put->made_topic && !inserted)
        bi_topic_destroy(core, put->topic);
    else
        bi_topic_cleanup(core, put->topic);
}

int bi_op_put_prepare(struct core *core, bide_op *op, bide_put_item *item, struct prepared_put *put)
{
    struct job_spec spec;
    describe(core, item, &spec);
    int code = check_put(core, op, &spec, &put->topic, &put->holder, &item->id);
    if (code != BIDE_OK)
        return code;

    put->made_topic = put->topic == NULL;
    if (put->made_topic)
        code = bi_topic_get(core, spec.topic, core->limits.max_topics, &put->topic);
    if (code != BIDE_OK)
        return bi_core_error_limit(core, op, code);

    bi_topic_pin(put->topic);
    code = build_for_step(core, &spec, put);
    if (code != BIDE_OK) {
        unpin(core, put, false);
        return bi_core_error_limit(core, op, code);
    }

    /* From now on a later put of the step finds this job by its key. */
    if (put->holder != NULL)
        bi_job_release_key(core, put->holder);
    bi_job_hold_key(core, put->job);
    return BIDE_OK;
}

void bi_op_put_abandon(struct core *core, const bide_put_item *item, const struct prepared_put *put)
{
    assert(put->job->id == core->next_id - 1);
    core->next_id--;
    bi_job_release_key(core, put->job);
    if (put->holder != NULL)
        bi_job_hold_key(core, put->holder);

    /* Freeing the job releases the body, but on failure it is still the caller's. */
    if (item->buf == NULL && item->made_ != NULL)
        bide_buf_ref(put->job->body);
    bi_job_free(core, put->job);

    put->topic->step_jobs = 0;
    put->topic->step_entries = 0;
    unpin(core, put, false);
}

void bi_op_put_apply(struct core *core, bide_put_item *item, const struct prepared_put *put)
{
    struct job_spec spec;
    describe(core, item, &spec);
    item->made_ = NULL; /* it belongs to the job */
    item->id = put->job->id;

    /* Neither can fail: the step has reserved the entries. */
    int code = bi_journal_insert(core, put->job);
    if (code == BIDE_OK && put->holder != NULL)
        code = bi_journal_change(core, put->holder);
    assert(code == BIDE_OK);
    (void)code;

    insert(core, put->job, put->holder, &spec.image);
    put->topic->step_jobs = 0;
    put->topic->step_entries = 0;
    unpin(core, put, true);
}

/* ---- restore ---- */

static bide_slice slice_of(const void *data, size_t size)
{
    return (bide_slice){data, data == NULL ? 0 : size};
}

/*
 * Since when a restored job is ready, or was before it was reserved. A ready job became ready
 * after its last reservation and not in the future; any other job was ready before it was
 * reserved.
 */
static int64_t ready_time(const struct core *core, const bide_job *job)
{
    int64_t ready = us_of(job->ready_ms), reserved = us_of(job->reserved_ms);
    if (job->state != BIDE_STATE_READY)
        return ready < reserved ? ready : reserved;
    if (ready > core->now.wall)
        ready = core->now.wall;
    return ready != 0 && ready == reserved ? ready + 1 : ready; /* both within one millisecond */
}

#define COPY_FIELD(kind, name) spec.image.name = FIELD_IN_##kind(job->BI_JOB_MEMBER_##kind(name));

int bi_exec_restore(struct core *core, bide_op *op)
{
    const bide_job *job = op->restore.job;
    bool reserved = job->state == BIDE_STATE_RESERVED;
    /* Leases are not restored: a reserved job becomes ready. */
    struct job_spec spec = {
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
        .history = slice_of(job->history_size == 0 ? NULL : job->history, job->history_size),
        .image =
            {
                .state = reserved ? BIDE_STATE_READY : job->state,
                .priority = job->priority,
                .due_wall = job->run_at_wall,
                .due = us_of(job->run_at_ms),
                .key_hold_retained = job->key_hold_retained,
                .ttr = job->ttr_ms == 0 ? core->limits.default_ttr : us_of(job->ttr_ms),
                .created = us_of(job->created_ms),
            },
    };

    if (job->state == BIDE_STATE_DONE)
        spec.image.due = core->now.wall + us_of(job->left_ms);
    BI_JOB_EXT(COPY_FIELD)
    BI_JOB_COUNTERS(COPY_FIELD)
    BI_JOB_TIMES(COPY_FIELD)
    spec.image.ready = ready_time(core, job);

    int code = put_spec(core, op, &spec, &op->restore.id);
    if (code != BIDE_OK)
        bide_buf_unref(op->restore.made_body_);
    bide_buf_unref(op->restore.made_result_);
    op->restore.made_body_ = op->restore.made_result_ = NULL;
    return code;
}
