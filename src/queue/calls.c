/* SPDX-License-Identifier: MIT */
/*
 * calls - the blocking calls of bide.h. Each builds an op, submits it and waits for it.
 *
 * For speed an op is not zeroed as a whole: only the members that its kind reads are set.
 *
 * Failure    A call that fails leaves its out parameters unchanged, except where a partial result
 *            is part of the contract (kick, purge, put of a key that exists, wait_recovered).
 */
#include "queue/queue.h"

#include <string.h>

static bide_slice text(const char *string)
{
    return (bide_slice){string, string == NULL ? 0 : strlen(string)};
}

#define SET_OUT(pointer, value)   \
    do {                          \
        if ((pointer) != NULL)    \
            *(pointer) = (value); \
    } while (0)

/* ---- put ---- */

int bide_put(bide *queue, const char *topic, const void *body, size_t size,
             const bide_put_options *options, uint64_t *id)
{
    bide_op op;
    op.kind = BIDE_OP_PUT;
    op.put = (bide_put_item){.topic = text(topic), .body = {body, size}, .options = options};

    int code = bi_submit_and_wait(queue, &op);
    /* BIDE_EXISTS: the id of the job that holds the key. */
    if (code == BIDE_OK || code == BIDE_EXISTS)
        SET_OUT(id, op.put.id);
    return code;
}

int bide_put_many(bide *queue, bide_put_item *items, size_t n, size_t *accepted)
{
    bide_op op;
    op.kind = BIDE_OP_PUT_MANY;
    op.put_many = (bide_put_many_args){.items = items, .count = n};

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK)
        SET_OUT(accepted, op.put_many.accepted);
    return code;
}

int bide_restore(bide *queue, const bide_job *job, uint64_t *id)
{
    bide_op op;
    op.kind = BIDE_OP_RESTORE;
    op.restore = (bide_restore_args){.job = job};

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK || code == BIDE_EXISTS)
        SET_OUT(id, op.restore.id);
    return code;
}

/* ---- reserve and finish ---- */

int bide_reserve(bide *queue, const char *topic, int64_t timeout_ms, bide_job *job)
{
    bide_slice name = text(topic);
    bide_op op;
    op.kind = BIDE_OP_RESERVE;
    op.reserve = (bide_reserve_args){
        .topics = &name, .topic_count = 1, .timeout_ms = timeout_ms, .jobs = job, .job_max = 1};
    return bi_submit_and_wait(queue, &op);
}

int bide_reserve_many(bide *queue, bide_reserve_args *args)
{
    bi_last_error_clear();
    if (args == NULL)
        return bi_last_error_set(BIDE_EINVAL, "reserve: args is NULL");

    bide_op op;
    op.kind = BIDE_OP_RESERVE;
    op.reserve = *args;

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK)
        args->count = op.reserve.count;
    return code;
}

int bide_reserve_job(bide *queue, uint64_t id, bide_job *job)
{
    bide_op op;
    op.kind = BIDE_OP_RESERVE_JOB;
    op.reserve_job = (bide_reserve_job_args){.id = id, .job = job};
    return bi_submit_and_wait(queue, &op);
}

static int lease_call(bide *queue, bide_op_kind kind, uint64_t id, uint64_t token)
{
    bide_op op;
    op.kind = kind;
    op.lease = (bide_lease_args){.id = id, .token = token};
    return bi_submit_and_wait(queue, &op);
}

int bide_delete(bide *queue, uint64_t id, uint64_t token)
{
    return lease_call(queue, BIDE_OP_DELETE, id, token);
}

int bide_done(bide *queue, uint64_t id, uint64_t token, const void *result, size_t size,
              int64_t retain_ms)
{
    bide_op op;
    op.kind = BIDE_OP_DONE;
    op.finish = (bide_finish_item){
        .id = id, .token = token, .keep = true, .result = {result, size}, .retain_ms = retain_ms};
    return bi_submit_and_wait(queue, &op);
}

int bide_finish_many(bide *queue, bide_finish_item *items, size_t n)
{
    bide_op op;
    op.kind = BIDE_OP_FINISH_MANY;
    op.finish_many = (bide_finish_many_args){.items = items, .count = n};
    return bi_submit_and_wait(queue, &op);
}

int bide_finish_and_reserve(bide *queue, bide_finish_item *finish, bide_reserve_args *args)
{
    bi_last_error_clear();
    if (finish == NULL || args == NULL)
        return bi_last_error_set(BIDE_EINVAL, "finish_and_reserve: finish or args is NULL");

    bide_op op;
    op.kind = BIDE_OP_FINISH_AND_RESERVE;
    op.finish_and_reserve = (bide_finish_and_reserve_args){.finish = *finish, .reserve = *args};
    /* Stays pending if bi_submit_and_wait() rejects the call before it prepares the op. */
    op.finish_and_reserve.finish.status = BIDE_PENDING;

    int code = bi_submit_and_wait(queue, &op);
    finish->status = op.finish_and_reserve.finish.status;
    if (finish->status == BIDE_PENDING)
        finish->status = code;
    if (code == BIDE_OK)
        args->count = op.finish_and_reserve.reserve.count;
    return code;
}

int bide_release(bide *queue, uint64_t id, uint64_t token, int64_t priority, int64_t delay_ms)
{
    bide_op op;
    op.kind = BIDE_OP_RELEASE;
    op.release =
        (bide_release_args){.id = id, .token = token, .priority = priority, .delay_ms = delay_ms};
    return bi_submit_and_wait(queue, &op);
}

int bide_give_back(bide *queue, uint64_t id, uint64_t token)
{
    return lease_call(queue, BIDE_OP_GIVE_BACK, id, token);
}

int bide_fail(bide *queue, uint64_t id, uint64_t token, const char *error, int64_t retry_in_ms,
              bide_state *state, int64_t *delay_ms)
{
    bide_op op;
    op.kind = BIDE_OP_FAIL;
    op.fail = (bide_fail_args){
        .id = id, .token = token, .error = text(error), .retry_in_ms = retry_in_ms};

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK) {
        SET_OUT(state, op.fail.state);
        SET_OUT(delay_ms, op.fail.delay_ms);
    }
    return code;
}

int bide_bury(bide *queue, uint64_t id, uint64_t token, int64_t priority, const char *reason)
{
    bide_op op;
    op.kind = BIDE_OP_BURY;
    op.bury =
        (bide_bury_args){.id = id, .token = token, .priority = priority, .reason = text(reason)};
    return bi_submit_and_wait(queue, &op);
}

int bide_touch(bide *queue, uint64_t id, uint64_t token, int64_t extend_ms, const char *progress)
{
    bide_op op;
    op.kind = BIDE_OP_TOUCH;
    op.touch = (bide_touch_item){
        .id = id, .token = token, .extend_ms = extend_ms, .progress = text(progress)};
    return bi_submit_and_wait(queue, &op);
}

int bide_touch_many(bide *queue, bide_touch_item *items, size_t n)
{
    bide_op op;
    op.kind = BIDE_OP_TOUCH_MANY;
    op.touch_many = (bide_touch_many_args){.items = items, .count = n};
    return bi_submit_and_wait(queue, &op);
}

/* ---- operate on jobs and topics ---- */

static int kick(bide *queue, bide_kick_args args, uint64_t *count)
{
    bide_op op;
    op.kind = BIDE_OP_KICK;
    op.kick = args;

    int code = bi_submit_and_wait(queue, &op);
    /* A kick that fails half way reports the jobs that it kicked. */
    if (code != BIDE_EINVAL)
        SET_OUT(count, op.kick.count);
    return code;
}

int bide_kick(bide *queue, const char *topic, uint64_t max, uint64_t *count)
{
    return kick(queue, (bide_kick_args){.topic = text(topic), .max = max}, count);
}

int bide_kick_buried(bide *queue, const char *topic, uint64_t max, uint64_t *count)
{
    bide_kick_args args = {.topic = text(topic), .max = max, .buried_only = true};
    return kick(queue, args, count);
}

int bide_kick_job(bide *queue, uint64_t id)
{
    return lease_call(queue, BIDE_OP_KICK_JOB, id, 0);
}

int bide_update(bide *queue, const bide_update_args *changes)
{
    bi_last_error_clear();
    if (changes == NULL)
        return bi_last_error_set(BIDE_EINVAL, "update: changes is NULL");

    bide_op op;
    op.kind = BIDE_OP_UPDATE;
    op.update = *changes;
    return bi_submit_and_wait(queue, &op);
}

int bide_cancel(bide *queue, uint64_t id)
{
    return lease_call(queue, BIDE_OP_CANCEL, id, 0);
}

int bide_purge(bide *queue, const char *topic, bide_state state, uint64_t *count)
{
    bide_op op;
    op.kind = BIDE_OP_PURGE;
    op.purge = (bide_purge_args){.topic = text(topic), .state = state};

    int code = bi_submit_and_wait(queue, &op);
    /* A purge that fails half way reports the jobs that it removed. */
    if (code != BIDE_EINVAL)
        SET_OUT(count, op.purge.count);
    return code;
}

static int topic_call(bide *queue, bide_op_kind kind, bide_topic_args args)
{
    bide_op op;
    op.kind = kind;
    op.topic = args;
    return bi_submit_and_wait(queue, &op);
}

int bide_pause(bide *queue, const char *topic, int64_t for_ms)
{
    return topic_call(queue, BIDE_OP_PAUSE,
                      (bide_topic_args){.topic = text(topic), .for_ms = for_ms});
}

int bide_resume(bide *queue, const char *topic)
{
    return topic_call(queue, BIDE_OP_RESUME, (bide_topic_args){.topic = text(topic)});
}

int bide_topic_ref(bide *queue, const char *topic, int delta)
{
    return topic_call(queue, BIDE_OP_TOPIC_REF,
                      (bide_topic_args){.topic = text(topic), .delta = delta});
}

int bide_drain(bide *queue, bool on)
{
    bide_op op;
    op.kind = BIDE_OP_DRAIN;
    op.drain.on = on;
    return bi_submit_and_wait(queue, &op);
}

/* ---- query ---- */

static int query_call(bide *queue, bide_op_kind kind, bide_query_args args)
{
    bide_op op;
    op.kind = kind;
    op.query = args;
    return bi_submit_and_wait(queue, &op);
}

int bide_peek(bide *queue, uint64_t id, bide_job *job)
{
    return query_call(queue, BIDE_OP_PEEK, (bide_query_args){.id = id, .job = job});
}

int bide_peek_first(bide *queue, const char *topic, bide_state state, bide_job *job)
{
    return query_call(queue, BIDE_OP_PEEK_FIRST,
                      (bide_query_args){.topic = text(topic), .state = state, .job = job});
}

int bide_find(bide *queue, const char *topic, const void *key, size_t size, bide_job *job)
{
    return query_call(queue, BIDE_OP_FIND,
                      (bide_query_args){.topic = text(topic), .key = {key, size}, .job = job});
}

int bide_job_stats(bide *queue, uint64_t id, bide_job *job)
{
    return query_call(queue, BIDE_OP_JOB_STATS, (bide_query_args){.id = id, .job = job});
}

static int fetch_call(bide *queue, bide_op_kind kind, uint64_t id, bide_buf **out)
{
    bide_op op;
    bi_last_error_clear();
    if (out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: the out parameter is NULL", bide_op_name(kind));

    op.kind = kind;
    op.fetch = (bide_fetch_args){.id = id};

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK)
        *out = op.fetch.buf;
    return code;
}

int bide_body(bide *queue, uint64_t id, bide_buf **body)
{
    return fetch_call(queue, BIDE_OP_BODY, id, body);
}

int bide_result(bide *queue, uint64_t id, bide_buf **result)
{
    return fetch_call(queue, BIDE_OP_RESULT, id, result);
}

int bide_wait(bide *queue, uint64_t id, int64_t timeout_ms, bide_state *state, bide_buf **result)
{
    bide_op op;
    op.kind = BIDE_OP_WAIT;
    op.wait = (bide_wait_args){.id = id, .timeout_ms = timeout_ms};

    int code = bi_submit_and_wait(queue, &op);
    if (code != BIDE_OK)
        return code;

    SET_OUT(state, op.wait.state);
    /* The op holds a reference: it goes to the caller or is dropped. */
    if (result != NULL)
        *result = op.wait.result;
    else
        bide_buf_unref(op.wait.result);
    return code;
}

int bide_list(bide *queue, const char *topic, bide_state state, const bide_filter *filter,
              char *cursor, bide_job *jobs, size_t max, size_t *count)
{
    bide_list_args args = {.topic = text(topic),
                           .state = state,
                           .with_body = true,
                           .cursor = cursor,
                           .jobs = jobs,
                           .job_max = max};
    bi_last_error_clear();
    if (count == NULL)
        return bi_last_error_set(BIDE_EINVAL, "list: count is NULL");

    if (filter != NULL)
        args.filter = *filter;
    int code = bide_list_page(queue, &args);
    if (code == BIDE_OK)
        *count = args.count;
    return code;
}

int bide_list_page(bide *queue, bide_list_args *args)
{
    bi_last_error_clear();
    if (args == NULL)
        return bi_last_error_set(BIDE_EINVAL, "list: args is NULL");

    bide_op op;
    op.kind = BIDE_OP_LIST;
    op.list = *args;

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK) {
        args->count = op.list.count;
        args->ordered = op.list.ordered;
    }
    return code;
}

static int topics_call(bide *queue, bide_op_kind kind, bide_topics_args args, size_t *count)
{
    bide_op op;
    bi_last_error_clear();
    if (count == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: count is NULL", bide_op_name(kind));

    op.kind = kind;
    op.topics = args;

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK)
        *count = op.topics.count;
    return code;
}

int bide_topics(bide *queue, char *cursor, bide_topic_stats *topics, size_t max, size_t *count)
{
    bide_topics_args args = {.cursor = cursor, .topics = topics, .topic_max = max};
    return topics_call(queue, BIDE_OP_TOPICS, args, count);
}

int bide_waiting(bide *queue, char *cursor, bide_topic_stats *topics, size_t max, size_t *count)
{
    bide_topics_args args = {.cursor = cursor, .topics = topics, .topic_max = max};
    return topics_call(queue, BIDE_OP_WAITING, args, count);
}

int bide_queue_stats(bide *queue, bide_stats *stats)
{
    bide_op op;
    op.kind = BIDE_OP_STATS;
    op.stats.stats = stats;
    return bi_submit_and_wait(queue, &op);
}

int bide_topic_get_stats(bide *queue, const char *topic, bide_topic_stats *stats)
{
    bide_op op;
    op.kind = BIDE_OP_TOPIC_STATS;
    op.topic_stats = (bide_topic_stats_args){.topic = text(topic), .stats = stats};
    return bi_submit_and_wait(queue, &op);
}

int bide_ping(bide *queue)
{
    bide_op op;
    op.kind = BIDE_OP_PING;
    return bi_submit_and_wait(queue, &op);
}

int bide_wait_recovered(bide *queue, int64_t timeout_ms, bide_recovery *progress)
{
    bide_op op;
    op.kind = BIDE_OP_RECOVERED;
    op.recovered = (bide_recovered_args){.timeout_ms = timeout_ms};

    int code = bi_submit_and_wait(queue, &op);
    /* A wait that times out reports the progress as well. */
    if (code == BIDE_OK || code == BIDE_TIMED_OUT)
        SET_OUT(progress, op.recovered.progress);
    return code;
}

int bide_backup(bide *queue, const char *path)
{
    bide_op op;
    op.kind = BIDE_OP_BACKUP;
    op.backup.path = path;
    return bi_submit_and_wait(queue, &op);
}

int bide_check(bide *queue, bide_check_report *report)
{
    bide_op op;
    op.kind = BIDE_OP_CHECK;
    op.check.report = report;
    return bi_submit_and_wait(queue, &op);
}

int bide_subscribe(bide *queue, const char *topic, uint32_t kinds, uint32_t capacity,
                   bide_subscription **feed)
{
    bide_op op;
    bi_last_error_clear();
    if (feed == NULL)
        return bi_last_error_set(BIDE_EINVAL, "subscribe: feed is NULL");

    op.kind = BIDE_OP_SUBSCRIBE;
    op.subscription =
        (bide_subscription_args){.topic = text(topic), .kinds = kinds, .capacity = capacity};

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK)
        *feed = op.subscription.handle;
    return code;
}

int bide_events(bide *queue, bide_subscription *feed, int64_t timeout_ms, bide_event *events,
                size_t max, size_t *count, uint64_t *lost)
{
    bide_op op;
    bi_last_error_clear();
    if (count == NULL)
        return bi_last_error_set(BIDE_EINVAL, "events: count is NULL");

    op.kind = BIDE_OP_EVENTS;
    op.subscription = (bide_subscription_args){
        .handle = feed, .timeout_ms = timeout_ms, .events = events, .event_max = max};

    int code = bi_submit_and_wait(queue, &op);
    if (code == BIDE_OK) {
        *count = op.subscription.count;
        SET_OUT(lost, op.subscription.lost);
    }
    return code;
}

int bide_unsubscribe(bide *queue, bide_subscription *feed)
{
    bide_op op;
    op.kind = BIDE_OP_UNSUBSCRIBE;
    op.subscription = (bide_subscription_args){.handle = feed};
    return bi_submit_and_wait(queue, &op);
}
