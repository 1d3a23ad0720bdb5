/* SPDX-License-Identifier: MIT */
#include "random_ops.h"

struct bi_random dice;

size_t below(size_t limit)
{
    return (size_t)bi_random_below(&dice, limit);
}

uint64_t any_u64(void)
{
    uint64_t number = bi_random_next(&dice);
    size_t bits = below(66);
    return bits == 0 ? 0 : bits > 64 ? UINT64_MAX : number >> (64 - bits);
}

int64_t any_i64(void)
{
    uint64_t number = any_u64();
    return below(2) == 0 ? (int64_t)number : -(int64_t)(number >> 1) - 1;
}

static uint32_t any_u32(void)
{
    return (uint32_t)(any_u64() >> below(40));
}

int32_t any_i32(void)
{
    return (int32_t)any_u32();
}

bool any_bool(void)
{
    return below(2) == 1;
}

bide_state any_state(void)
{
    return (bide_state)below(BIDE_STATE_DONE + 1);
}

bide_slice any_slice(void)
{
    static unsigned char bytes[1000];
    if (bytes[0] == 0)
        for (size_t i = 0; i < sizeof(bytes); i++)
            bytes[i] = (unsigned char)(bi_random_next(&dice) | (i == 0));
    if (below(5) == 0)
        return (bide_slice){NULL, 0};
    return (bide_slice){bytes + below(700), below(4) == 0 ? 0 : below(300)};
}

void any_text(char *to, size_t room)
{
    size_t size = below(room);
    for (size_t i = 0; i < size; i++)
        to[i] = (char)('!' + below(90));
    to[size] = 0;
}

static bide_buf *any_buf(struct op_world *world)
{
    bide_slice bytes = any_slice();
    bide_buf *buf = bide_buf_new(bytes.data, bytes.size);
    assert_non_null(buf);
    assert_true(world->buf_count < COUNT_OF(world->bufs));
    world->bufs[world->buf_count++] = buf;
    return buf;
}

static bide_buf *any_part(const void **data, size_t *size)
{
    bide_slice bytes = any_slice();
    bide_buf *buf = bytes.data == NULL ? NULL : bide_buf_new(bytes.data, bytes.size);
    *data = bide_buf_data(buf);
    *size = bide_buf_size(buf);
    return buf;
}

static void any_job_parts(bide_job *job)
{
    const void *error;
    const void *progress;
    const void *holder;
    size_t true_size = below(100000);
    job->bufs_[0] = any_part(&job->body, &job->body_size);
    job->bufs_[1] = any_part(&job->key, &job->key_size);
    job->bufs_[2] = any_part(&error, &job->last_error_size);
    job->bufs_[3] = any_part(&job->result, &job->result_size);
    job->bufs_[4] = any_part(&progress, &job->progress_size);
    job->history_buf_ = any_part(&job->history, &job->history_size);
    job->holder_buf_ = any_part(&holder, &job->holder_size);
    job->holder = holder;
    job->last_error = error;
    job->progress = progress;
    if (job->body == NULL)
        job->body_size = true_size;
}

void any_job(bide_job *job)
{
    memset(job, 0, sizeof(*job));
    any_job_parts(job);
    job->id = any_u64();
    job->token = any_u64();
    job->state = any_state();
    job->priority = any_u32();
    job->max_retries = any_i32();
    job->failures = any_u32();
    job->run_at_wall = any_bool();
    job->key_hold_retained = any_bool();
    job->cancel_wanted = any_bool();
    int64_t *const times[] = {&job->ttr_ms,          &job->left_ms,        &job->age_ms,
                              &job->run_at_ms,       &job->backoff_max_ms, &job->expires_at_ms,
                              &job->backoff_base_ms, &job->retain_ms,      &job->created_ms,
                              &job->ready_ms,        &job->reserved_ms,    &job->touched_ms,
                              &job->buried_ms,       &job->done_ms,        &job->delay_ms};
    for (size_t i = 0; i < COUNT_OF(times); i++)
        *times[i] = any_i64();
    uint32_t *const counters[] = {&job->reserves, &job->timeouts, &job->releases, &job->fails,
                                  &job->buries,   &job->kicks,    &job->touches};
    for (size_t i = 0; i < COUNT_OF(counters); i++)
        *counters[i] = any_u32();
    any_text(job->topic, sizeof(job->topic));
}

/* A struct of uint64_t and nothing else. */
static void any_u64s(void *numbers, size_t size)
{
    for (size_t i = 0; i < size / sizeof(uint64_t); i++)
        ((uint64_t *)numbers)[i] = any_u64();
}

void any_topic_stats(bide_topic_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    any_text(stats->name, sizeof(stats->name));
    any_u64s(&stats->jobs, sizeof(stats->jobs));
    any_u64s(&stats->total, sizeof(stats->total));
    stats->waiting = any_u64();
    stats->references = any_u64();
    stats->oldest_ready_age_ms = any_i64();
    stats->paused = any_bool();
    stats->pause_ms = any_i64();
    stats->pause_left_ms = any_i64();
    stats->concurrency = any_u64();
    stats->rate = any_u64();
    stats->rate_period_ms = any_i64();
    stats->limit_left_ms = any_i64();
    stats->limited = (bide_limit)below(BIDE_LIMIT_RECOVERY + 1);
    stats->has_policy = any_bool();
}

void any_policy(bide_topic_policy *policy)
{
    memset(policy, 0, sizeof(*policy));
    any_u64s(policy, offsetof(bide_topic_policy, room_));
}

void same_policy(const bide_topic_policy *a, const bide_topic_policy *b)
{
    assert_memory_equal(a, b, sizeof(*a));
}

void any_stats(bide_stats *stats)
{
    memset(stats, 0, sizeof(*stats));
    any_u64s(&stats->jobs, sizeof(stats->jobs));
    any_u64s(&stats->total, sizeof(stats->total));
    uint64_t *const numbers[] = {&stats->topics,      &stats->waiting,      &stats->watching,
                                 &stats->pending_ops, &stats->memory_bytes, &stats->last_id};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        *numbers[i] = any_u64();
    stats->oldest_ready_age_ms = any_i64();
    stats->uptime_ms = any_i64();
    stats->draining = any_bool();
}

void any_event(bide_event *event)
{
    memset(event, 0, sizeof(*event));
    event->kind = (bide_event_kind)below(BIDE_EVENT_KINDS);
    event->state = any_state();
    event->id = any_u64();
    event->at_ms = any_i64();
    any_text(event->topic, sizeof(event->topic));
}

void any_announced(bide_announced *announced)
{
    memset(announced, 0, sizeof(*announced));
    announced->data_buf_ = any_part(&announced->data, &announced->data_size);
    announced->announced_ms = any_i64();
    announced->left_ms = any_i64();
}

void any_explanation(bide_explanation *why)
{
    memset(why, 0, sizeof(*why));
    why->reason = (bide_why_reason)below(BIDE_WHY_REASONS);
    why->state = any_state();
    uint64_t *const numbers[] = {&why->id,      &why->ahead,   &why->waiting,
                                 &why->workers, &why->running, &why->limit};
    for (size_t i = 0; i < COUNT_OF(numbers); i++)
        *numbers[i] = any_u64();
    why->until_ms = any_i64();
    why->left_ms = any_i64();
    why->ahead_more = any_bool();
    why->cancel_wanted = any_bool();
    why->draining = any_bool();
    why->attempts = any_u32();
    why->failures = any_u32();
    any_text(why->topic, sizeof(why->topic));
    any_text(why->holder, sizeof(why->holder));
    any_text(why->error, sizeof(why->error));
    any_text(why->text, sizeof(why->text));
}

static void any_announce(struct op_world *world, bide_announce_args *args)
{
    args->worker = any_slice();
    args->ttl_ms = any_i64();
    if (below(4) == 0)
        args->buf = any_buf(world);
    else if (below(2) == 0)
        args->made_ = any_buf(world);
}

static void any_options(bide_put_options *options)
{
    *options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    options->priority = any_u32();
    options->conflict = (bide_conflict)below(BIDE_SKIP + 1);
    options->delay_ms = any_i64();
    options->run_at_ms = any_i64();
    options->ttr_ms = any_i64();
    options->key = any_slice();
    options->key_hold_retained = any_bool();
    options->max_retries = any_i32();
    options->backoff_base_ms = any_i64();
    options->backoff_max_ms = any_i64();
    options->expires_at_ms = any_i64();
    options->retain_ms = any_i64();
    options->fallbacks = any_u64();
}

static void any_put(struct op_world *world, bide_put_item *item, bide_put_options *options)
{
    item->topic = any_slice();
    item->body = any_slice();
    if (below(4) == 0)
        item->buf = any_buf(world);
    else if (below(2) == 0)
        item->made_ = any_buf(world);
    if (below(2) == 0)
        return;
    any_options(options);
    item->options = options;
}

static void any_finish(struct op_world *world, bide_finish_item *item)
{
    item->id = any_u64();
    item->token = any_u64();
    item->keep = any_bool();
    item->result = any_slice();
    item->retain_ms = any_i64();
    if (below(4) == 0)
        item->buf = any_buf(world);
    else if (below(2) == 0)
        item->made_ = any_buf(world);
}

static void any_touch(bide_touch_item *item)
{
    item->id = any_u64();
    item->token = any_u64();
    item->extend_ms = any_i64();
    item->progress = any_slice();
}

static void any_reserve(struct op_world *world, bide_reserve_args *args)
{
    args->topics = world->topics;
    args->topic_count = below(LIST_MAX + 1);
    for (size_t i = 0; i < args->topic_count; i++) {
        world->topics[i] = any_slice();
        world->weights[i] = any_u32();
    }
    if (any_bool())
        args->weights = world->weights;
    args->strategy = (bide_strategy)below(BIDE_FAIR + 1);
    args->timeout_ms = any_i64();
    args->jobs = world->jobs;
    args->job_max = LIST_MAX;
    args->holder = any_slice();
}

static void any_list(struct op_world *world, bide_list_args *args)
{
    any_text(world->cursor, sizeof(world->cursor));
    *args = (bide_list_args){
        .topic = any_slice(),
        .state = any_state(),
        .filter = {any_slice(), any_slice(), any_i64(), any_i64(), any_u32(), any_u64(), {0}},
        .with_body = any_bool(),
        .cursor = world->cursor,
        .jobs = world->jobs,
        .job_max = LIST_MAX};
}

static void any_many(struct op_world *world, bide_op *op)
{
    size_t count = 1 + below(LIST_MAX);
    if (op->kind == BIDE_OP_PUT_MANY) {
        op->put_many = (bide_put_many_args){.items = world->puts, .count = count};
        for (size_t i = 0; i < count; i++)
            any_put(world, &world->puts[i], &world->options[i]);
    } else if (op->kind == BIDE_OP_FINISH_MANY) {
        op->finish_many = (bide_finish_many_args){.items = world->finishes, .count = count};
        for (size_t i = 0; i < count; i++)
            any_finish(world, &world->finishes[i]);
    } else {
        op->touch_many = (bide_touch_many_args){.items = world->touches, .count = count};
        for (size_t i = 0; i < count; i++)
            any_touch(&world->touches[i]);
    }
}

static void any_finish_and_put(struct op_world *world, bide_finish_and_put_args *args)
{
    any_finish(world, &args->finish);
    args->ending = (bide_ending)below(BIDE_ENDING_BURY + 1);
    args->priority = any_i64();
    args->delay_ms = any_i64();
    args->run_at_ms = any_i64();
    args->reason = any_slice();
    args->items = world->puts;
    args->count = 1 + below(LIST_MAX);
    for (size_t i = 0; i < args->count; i++)
        any_put(world, &world->puts[i], &world->options[i]);
}

static void any_feed(struct op_world *world, bide_subscription_args *args)
{
    *args = (bide_subscription_args){.topic = any_slice(),
                                     .kinds = any_u32(),
                                     .capacity = any_u32(),
                                     .timeout_ms = any_i64(),
                                     .events = world->events,
                                     .event_max = LIST_MAX};
}

/* No path at which a file can be created. */
static const char *any_path(void)
{
    static const char *const paths[] = {"", "/", "copy.db/", "/nowhere/at all/copy.db"};
    return paths[any_u32() % 4];
}

/* The kinds whose arguments are numbers and slices only. */
static void any_plain(struct op_world *world, bide_op *op)
{
    switch (op->kind) {
    case BIDE_OP_RESERVE_JOB:
        op->reserve_job = (bide_reserve_job_args){any_u64(), &world->jobs[0], any_slice()};
        break;
    case BIDE_OP_DELETE:
    case BIDE_OP_GIVE_BACK:
    case BIDE_OP_KICK_JOB:
    case BIDE_OP_CANCEL:
        op->lease = (bide_lease_args){any_u64(), any_u64()};
        break;
    case BIDE_OP_RELEASE:
        op->release = (bide_release_args){any_u64(), any_u64(), any_i64(), any_i64()};
        break;
    case BIDE_OP_FAIL:
        op->fail = (bide_fail_args){any_u64(),
                                    any_u64(),
                                    any_slice(),
                                    any_i64(),
                                    0,
                                    0,
                                    (bide_failure_kind)below(BIDE_FAILURE_KINDS)};
        break;
    case BIDE_OP_BURY:
        op->bury = (bide_bury_args){any_u64(), any_u64(), any_i64(), any_slice()};
        break;
    case BIDE_OP_KICK:
        op->kick = (bide_kick_args){any_slice(), any_u64(), 0, any_bool()};
        break;
    case BIDE_OP_UPDATE:
        op->update = (bide_update_args){any_u64(), any_i64(),   any_i64(), any_i64(),
                                        any_i64(), any_slice(), {0}};
        break;
    case BIDE_OP_BODY:
    case BIDE_OP_RESULT:
        op->fetch.id = any_u64();
        break;
    case BIDE_OP_WAIT:
        op->wait = (bide_wait_args){.id = any_u64(), .timeout_ms = any_i64()};
        break;
    case BIDE_OP_PURGE:
        op->purge = (bide_purge_args){any_slice(), any_state(), 0};
        break;
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
    case BIDE_OP_TOPIC_REF:
        op->topic = (bide_topic_args){any_slice(), any_i64(), any_i32()};
        break;
    case BIDE_OP_STATS:
        op->stats.stats = &world->stats;
        break;
    case BIDE_OP_TOPIC_STATS:
        op->topic_stats = (bide_topic_stats_args){any_slice(), &world->topic_stats[0]};
        break;
    case BIDE_OP_TOPIC_SET:
        op->topic_set.topic = any_slice();
        any_policy(&op->topic_set.policy);
        break;
    case BIDE_OP_TOPIC_GET:
        op->topic_get =
            (bide_topic_get_args){any_slice(), &world->policies[0], &world->policies[1]};
        break;
    case BIDE_OP_RECOVERED:
        op->recovered.timeout_ms = any_i64();
        break;
    case BIDE_OP_BACKUP:
        op->backup.path = any_path();
        break;
    case BIDE_OP_CHECK:
        op->check.report = &world->report;
        break;
    case BIDE_OP_DRAIN:
        op->drain.on = any_bool();
        break;
    default:
        assert_int_equal(op->kind, BIDE_OP_PING);
    }
}

void any_op(struct op_world *world, bide_op *op, bide_op_kind kind)
{
    memset(world, 0, sizeof(*world));
    memset(op, 0, sizeof(*op));
    op->kind = kind;
    switch (kind) {
    case BIDE_OP_PUT:
        any_put(world, &op->put, &world->options[0]);
        break;
    case BIDE_OP_DONE:
        any_finish(world, &op->finish);
        break;
    case BIDE_OP_TOUCH:
        any_touch(&op->touch);
        break;
    case BIDE_OP_PUT_MANY:
    case BIDE_OP_FINISH_MANY:
    case BIDE_OP_TOUCH_MANY:
        any_many(world, op);
        break;
    case BIDE_OP_RESERVE:
        any_reserve(world, &op->reserve);
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        any_finish(world, &op->finish_and_reserve.finish);
        any_reserve(world, &op->finish_and_reserve.reserve);
        op->finish_and_reserve.finish.status = BIDE_PENDING;
        break;
    case BIDE_OP_FINISH_AND_PUT:
        any_finish_and_put(world, &op->finish_and_put);
        break;
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_JOB_STATS:
        op->query =
            (bide_query_args){any_u64(), any_slice(), any_slice(), any_state(), &world->jobs[0]};
        break;
    case BIDE_OP_LIST:
        any_list(world, &op->list);
        break;
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
        any_text(world->cursor, sizeof(world->cursor));
        op->topics = (bide_topics_args){world->cursor, world->topic_stats, LIST_MAX, 0};
        break;
    case BIDE_OP_ANNOUNCE:
        any_announce(world, &op->announce);
        break;
    case BIDE_OP_WORKERS:
        any_text(world->cursor, sizeof(world->cursor));
        op->workers = (bide_workers_args){world->cursor, world->workers, LIST_MAX, 0};
        break;
    case BIDE_OP_WHY:
        op->why = (bide_why_args){any_u64(), any_slice(), any_slice(), &world->why};
        break;
    case BIDE_OP_RESTORE:
        any_job(&world->given);
        op->restore.job = &world->given;
        break;
    case BIDE_OP_SUBSCRIBE:
    case BIDE_OP_EVENTS:
    case BIDE_OP_UNSUBSCRIBE:
        any_feed(world, &op->subscription);
        break;
    default:
        any_plain(world, op);
    }
}

void end_op(struct op_world *world)
{
    bide_job_clear(&world->given);
    for (size_t i = 0; i < LIST_MAX; i++) {
        bide_job_clear(&world->jobs[i]);
        bide_announced_clear(&world->workers[i]);
    }
    for (size_t i = 0; i < world->buf_count; i++)
        bide_buf_unref(world->bufs[i]);
}

#define SAME_SLICE(member) \
    same_bytes(a->member.data, a->member.size, b->member.data, b->member.size)
#define SAME_PART(member) same_bytes(a->member, a->member##_size, b->member, b->member##_size)

static void same_bytes(const void *a, size_t a_size, const void *b, size_t b_size)
{
    assert_int_equal(a == NULL, b == NULL);
    assert_int_equal(a_size, b_size);
    if (a != NULL && a_size > 0)
        assert_memory_equal(a, b, a_size);
}

void same_bufs(const bide_buf *a, const bide_buf *b)
{
    same_bytes(bide_buf_data(a), bide_buf_size(a), bide_buf_data(b), bide_buf_size(b));
}

/* Compares the body that was sent, a slice or a buffer, with the slice that was decoded. */
static void same_body(bide_slice slice, const bide_buf *buf, const bide_buf *made, bide_slice got)
{
    const bide_buf *sent = buf != NULL ? buf : made;
    if (sent != NULL)
        slice = (bide_slice){bide_buf_data(sent), bide_buf_size(sent)};
    same_bytes(slice.data, slice.size, got.data, got.size);
}

void same_job(const bide_job *a, const bide_job *b)
{
    SAME(id), SAME(token), SAME(state), SAME(priority);
    SAME_TEXT(topic);
    SAME(body_size);
    SAME_PART(body), SAME_PART(key), SAME_PART(last_error), SAME_PART(result), SAME_PART(progress);
    SAME_PART(history), SAME_PART(holder);
    SAME(ttr_ms), SAME(left_ms), SAME(age_ms), SAME(run_at_ms), SAME(run_at_wall);
    SAME(key_hold_retained), SAME(cancel_wanted), SAME(max_retries), SAME(failures);
    SAME(backoff_base_ms), SAME(backoff_max_ms), SAME(expires_at_ms), SAME(retain_ms);
    SAME(reserves), SAME(timeouts), SAME(releases), SAME(fails), SAME(buries), SAME(kicks);
    SAME(touches), SAME(created_ms), SAME(ready_ms), SAME(reserved_ms), SAME(touched_ms);
    SAME(buried_ms), SAME(done_ms), SAME(delay_ms);
}

static void same_options(const bide_put_options *a, const bide_put_options *b)
{
    assert_int_equal(a == NULL, b == NULL);
    if (a == NULL)
        return;
    SAME(size), SAME(priority), SAME(conflict), SAME(delay_ms), SAME(run_at_ms), SAME(ttr_ms);
    SAME_SLICE(key);
    SAME(key_hold_retained), SAME(max_retries), SAME(backoff_base_ms), SAME(backoff_max_ms);
    SAME(expires_at_ms), SAME(retain_ms), SAME(fallbacks);
}

static void same_put(const bide_put_item *a, const bide_put_item *b)
{
    SAME_SLICE(topic);
    same_body(a->body, a->buf, a->made_, b->body);
    same_options(a->options, b->options);
    assert_null(b->buf);
    assert_null(b->made_);
}

static void same_finish(const bide_finish_item *a, const bide_finish_item *b)
{
    SAME(id), SAME(token), SAME(keep), SAME(retain_ms);
    same_body(a->result, a->buf, a->made_, b->result);
    assert_null(b->buf);
    assert_null(b->made_);
}

static void same_touch(const bide_touch_item *a, const bide_touch_item *b)
{
    SAME(id), SAME(token), SAME(extend_ms);
    SAME_SLICE(progress);
}

static void same_reserve(const bide_reserve_args *a, const bide_reserve_args *b)
{
    SAME(topic_count), SAME(strategy), SAME(timeout_ms), SAME(job_max);
    assert_int_equal(a->weights == NULL, b->weights == NULL);
    for (size_t i = 0; i < a->topic_count; i++) {
        SAME_SLICE(topics[i]);
        if (a->weights != NULL)
            SAME(weights[i]);
    }
    SAME_SLICE(holder);
    assert_non_null(b->jobs);
}

static void same_many(const bide_op *a, const bide_op *b)
{
    SAME(put_many.count);
    for (size_t i = 0; a->kind == BIDE_OP_PUT_MANY && i < a->put_many.count; i++)
        same_put(&a->put_many.items[i], &b->put_many.items[i]);
    for (size_t i = 0; a->kind == BIDE_OP_FINISH_MANY && i < a->finish_many.count; i++)
        same_finish(&a->finish_many.items[i], &b->finish_many.items[i]);
    for (size_t i = 0; a->kind == BIDE_OP_TOUCH_MANY && i < a->touch_many.count; i++)
        same_touch(&a->touch_many.items[i], &b->touch_many.items[i]);
}

static void same_finish_and_put(const bide_finish_and_put_args *a,
                                const bide_finish_and_put_args *b)
{
    same_finish(&a->finish, &b->finish);
    SAME(ending), SAME(priority), SAME(delay_ms), SAME(run_at_ms), SAME_SLICE(reason);
    SAME(count);
    for (size_t i = 0; i < a->count; i++)
        same_put(&a->items[i], &b->items[i]);
}

static void same_plain(const bide_op *a, const bide_op *b)
{
    switch (a->kind) {
    case BIDE_OP_RESERVE_JOB:
        SAME(reserve_job.id), SAME_SLICE(reserve_job.holder);
        assert_non_null(b->reserve_job.job);
        break;
    case BIDE_OP_DELETE:
    case BIDE_OP_GIVE_BACK:
    case BIDE_OP_KICK_JOB:
    case BIDE_OP_CANCEL:
        SAME(lease.id), SAME(lease.token);
        break;
    case BIDE_OP_RELEASE:
        SAME(release.id), SAME(release.token), SAME(release.priority), SAME(release.delay_ms);
        break;
    case BIDE_OP_FAIL:
        SAME(fail.id), SAME(fail.token), SAME_SLICE(fail.error), SAME(fail.retry_in_ms);
        SAME(fail.kind);
        break;
    case BIDE_OP_BURY:
        SAME(bury.id), SAME(bury.token), SAME(bury.priority), SAME_SLICE(bury.reason);
        break;
    case BIDE_OP_KICK:
        SAME_SLICE(kick.topic), SAME(kick.max), SAME(kick.buried_only);
        break;
    case BIDE_OP_UPDATE:
        SAME(update.id), SAME(update.priority), SAME(update.delay_ms), SAME(update.run_at_ms);
        SAME(update.ttr_ms), SAME_SLICE(update.topic);
        break;
    case BIDE_OP_BODY:
    case BIDE_OP_RESULT:
        SAME(fetch.id);
        break;
    case BIDE_OP_WAIT:
        SAME(wait.id), SAME(wait.timeout_ms);
        break;
    case BIDE_OP_PURGE:
        SAME_SLICE(purge.topic), SAME(purge.state);
        break;
    case BIDE_OP_PAUSE:
    case BIDE_OP_RESUME:
    case BIDE_OP_TOPIC_REF:
        SAME_SLICE(topic.topic), SAME(topic.for_ms), SAME(topic.delta);
        break;
    case BIDE_OP_STATS:
        assert_non_null(b->stats.stats);
        break;
    case BIDE_OP_TOPIC_STATS:
        SAME_SLICE(topic_stats.topic);
        assert_non_null(b->topic_stats.stats);
        break;
    case BIDE_OP_TOPIC_SET:
        SAME_SLICE(topic_set.topic);
        same_policy(&a->topic_set.policy, &b->topic_set.policy);
        break;
    case BIDE_OP_TOPIC_GET:
        SAME_SLICE(topic_get.topic);
        assert_non_null(b->topic_get.policy);
        assert_non_null(b->topic_get.in_force);
        break;
    case BIDE_OP_RECOVERED:
        SAME(recovered.timeout_ms);
        break;
    case BIDE_OP_BACKUP:
        assert_string_equal(a->backup.path, b->backup.path);
        break;
    case BIDE_OP_CHECK:
        assert_non_null(b->check.report);
        break;
    case BIDE_OP_DRAIN:
        SAME(drain.on);
        break;
    default:
        assert_int_equal(a->kind, BIDE_OP_PING);
    }
}

static void same_list(const bide_list_args *a, const bide_list_args *b)
{
    SAME_SLICE(topic), SAME(state), SAME_SLICE(filter.key), SAME_SLICE(filter.text);
    SAME(filter.min_age_ms), SAME(filter.max_age_ms), SAME(with_body), SAME_TEXT(cursor);
    SAME(job_max), SAME(filter.states), SAME(filter.after_id);
    assert_non_null(b->jobs);
}

void same_arguments(const bide_op *a, const bide_op *b)
{
    SAME(kind);
    switch (a->kind) {
    case BIDE_OP_PUT:
        same_put(&a->put, &b->put);
        break;
    case BIDE_OP_DONE:
        same_finish(&a->finish, &b->finish);
        break;
    case BIDE_OP_TOUCH:
        same_touch(&a->touch, &b->touch);
        break;
    case BIDE_OP_PUT_MANY:
    case BIDE_OP_FINISH_MANY:
    case BIDE_OP_TOUCH_MANY:
        same_many(a, b);
        break;
    case BIDE_OP_RESERVE:
        same_reserve(&a->reserve, &b->reserve);
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        same_finish(&a->finish_and_reserve.finish, &b->finish_and_reserve.finish);
        same_reserve(&a->finish_and_reserve.reserve, &b->finish_and_reserve.reserve);
        SAME(finish_and_reserve.finish.status);
        break;
    case BIDE_OP_FINISH_AND_PUT:
        same_finish_and_put(&a->finish_and_put, &b->finish_and_put);
        break;
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_JOB_STATS:
        SAME(query.id), SAME_SLICE(query.topic), SAME_SLICE(query.key), SAME(query.state);
        assert_non_null(b->query.job);
        break;
    case BIDE_OP_LIST:
        same_list(&a->list, &b->list);
        break;
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
        SAME_TEXT(topics.cursor), SAME(topics.topic_max);
        assert_non_null(b->topics.topics);
        break;
    case BIDE_OP_ANNOUNCE:
        same_body(a->announce.worker, a->announce.buf, a->announce.made_, b->announce.worker);
        SAME(announce.ttl_ms);
        break;
    case BIDE_OP_WORKERS:
        SAME_TEXT(workers.cursor), SAME(workers.worker_max);
        assert_non_null(b->workers.workers);
        break;
    case BIDE_OP_WHY:
        SAME(why.id), SAME_SLICE(why.topic), SAME_SLICE(why.key);
        assert_non_null(b->why.why);
        break;
    case BIDE_OP_RESTORE:
        same_job(a->restore.job, b->restore.job);
        break;
    case BIDE_OP_SUBSCRIBE:
        SAME_SLICE(subscription.topic), SAME(subscription.kinds), SAME(subscription.capacity);
        break;
    case BIDE_OP_EVENTS:
        SAME(subscription.timeout_ms), SAME(subscription.event_max);
        assert_non_null(b->subscription.events);
        break;
    case BIDE_OP_UNSUBSCRIBE:
        break;
    default:
        same_plain(a, b);
    }
}
