/* SPDX-License-Identifier: MIT */
/*
 * calls - the blocking calls of bide.h. Each builds an op, submits it and waits for it.
 *
 * For speed an op is not zeroed as a whole: only the members that its kind reads are set.
 *
 * Failure    A call that fails leaves its out parameters unchanged, except where a partial result
 *            is part of the contract (kick, purge, put of a key that exists, wait_recovered).
 * Threads    bi_blocking_call_run() does the waiting. It also handles pthread_cancel() of a
 *            thread that waits in a call: the op ends, and jobs that it reserved are given back.
 */
#include "op/worker_info.h"
#include "queue/queue.h"

#include <string.h>

/* Fills in the kind and the arguments of an op, runs it and waits for it. */
#define RUN_WITH(queue, op, op_kind, member, args) \
    ((op).kind = (op_kind), (op).member = (args), bi_blocking_call_run((queue), &(op)))

/* The same with arguments by name. Those that are not named are zero. */
#define RUN(queue, op, KIND, member, ...) \
    RUN_WITH(queue, op, BIDE_OP_##KIND, member, ((__typeof__((op).member)){__VA_ARGS__}))

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
    int code =
        RUN(queue, op, PUT, put, .topic = text(topic), .body = {body, size}, .options = options);
    /* BIDE_EXISTS: the id of the job that holds the key. */
    if (code == BIDE_OK || code == BIDE_EXISTS)
        SET_OUT(id, op.put.id);
    return code;
}

int bide_put_many(bide *queue, bide_put_item *items, size_t n, size_t *accepted)
{
    bide_op op;
    int code = RUN(queue, op, PUT_MANY, put_many, .items = items, .count = n);
    if (code == BIDE_OK)
        SET_OUT(accepted, op.put_many.accepted);
    return code;
}

int bide_restore(bide *queue, const bide_job *job, uint64_t *id)
{
    bide_op op;
    int code = RUN(queue, op, RESTORE, restore, .job = job);
    if (code == BIDE_OK || code == BIDE_EXISTS)
        SET_OUT(id, op.restore.id);
    return code;
}

/* ---- reserve and finish ---- */

int bide_reserve(bide *queue, const char *topic, int64_t timeout_ms, bide_job *job)
{
    bide_slice name = text(topic);
    bide_op op;
    return RUN(queue, op, RESERVE, reserve, .topics = &name, .topic_count = 1,
               .timeout_ms = timeout_ms, .jobs = job, .job_max = 1);
}

int bide_reserve_many(bide *queue, bide_reserve_args *args)
{
    if (args == NULL)
        return bi_last_error_set(BIDE_EINVAL, "reserve: args is NULL");

    bide_op op;
    int code = RUN_WITH(queue, op, BIDE_OP_RESERVE, reserve, *args);
    if (code == BIDE_OK)
        args->count = op.reserve.count;
    return code;
}

int bide_reserve_job(bide *queue, uint64_t id, bide_job *job)
{
    bide_op op;
    return RUN(queue, op, RESERVE_JOB, reserve_job, .id = id, .job = job);
}

int bide_delete(bide *queue, uint64_t id, uint64_t token)
{
    bide_op op;
    return RUN(queue, op, DELETE, lease, .id = id, .token = token);
}

int bide_done(bide *queue, uint64_t id, uint64_t token, const void *result, size_t size,
              int64_t retain_ms)
{
    bide_op op;
    return RUN(queue, op, DONE, finish, .id = id, .token = token, .keep = true,
               .result = {result, size}, .retain_ms = retain_ms);
}

int bide_finish_many(bide *queue, bide_finish_item *items, size_t n)
{
    bide_op op;
    return RUN(queue, op, FINISH_MANY, finish_many, .items = items, .count = n);
}

int bide_finish_and_reserve(bide *queue, bide_finish_item *finish, bide_reserve_args *args)
{
    if (finish == NULL || args == NULL)
        return bi_last_error_set(BIDE_EINVAL, "finish_and_reserve: finish or args is NULL");

    bide_op op;
    /* Stays pending if bi_blocking_call_run() rejects the call before it prepares the op. */
    finish->status = BIDE_PENDING;
    int code =
        RUN(queue, op, FINISH_AND_RESERVE, finish_and_reserve, .finish = *finish, .reserve = *args);
    finish->status = op.finish_and_reserve.finish.status;
    if (finish->status == BIDE_PENDING)
        finish->status = code;
    if (code == BIDE_OK)
        args->count = op.finish_and_reserve.reserve.count;
    return code;
}

int bide_finish_and_put(bide *queue, bide_finish_and_put_args *args)
{
    if (args == NULL)
        return bi_last_error_set(BIDE_EINVAL, "finish_and_put: args is NULL");

    bide_op op;
    int code = RUN_WITH(queue, op, BIDE_OP_FINISH_AND_PUT, finish_and_put, *args);
    if (code == BIDE_OK)
        args->accepted = op.finish_and_put.accepted;
    return code;
}

int bide_release(bide *queue, uint64_t id, uint64_t token, int64_t priority, int64_t delay_ms)
{
    bide_op op;
    return RUN(queue, op, RELEASE, release, .id = id, .token = token, .priority = priority,
               .delay_ms = delay_ms);
}

int bide_give_back(bide *queue, uint64_t id, uint64_t token)
{
    bide_op op;
    return RUN(queue, op, GIVE_BACK, lease, .id = id, .token = token);
}

int bide_fail(bide *queue, uint64_t id, uint64_t token, const char *error, int64_t retry_in_ms,
              bide_state *state, int64_t *delay_ms)
{
    bide_op op;
    int code = RUN(queue, op, FAIL, fail, .id = id, .token = token, .error = text(error),
                   .retry_in_ms = retry_in_ms);
    if (code == BIDE_OK) {
        SET_OUT(state, op.fail.state);
        SET_OUT(delay_ms, op.fail.delay_ms);
    }
    return code;
}

int bide_bury(bide *queue, uint64_t id, uint64_t token, int64_t priority, const char *reason)
{
    bide_op op;
    return RUN(queue, op, BURY, bury, .id = id, .token = token, .priority = priority,
               .reason = text(reason));
}

int bide_touch(bide *queue, uint64_t id, uint64_t token, int64_t extend_ms, const char *progress)
{
    bide_op op;
    return RUN(queue, op, TOUCH, touch, .id = id, .token = token, .extend_ms = extend_ms,
               .progress = text(progress));
}

int bide_touch_many(bide *queue, bide_touch_item *items, size_t n)
{
    bide_op op;
    return RUN(queue, op, TOUCH_MANY, touch_many, .items = items, .count = n);
}

/* ---- operate on jobs and topics ---- */

static int kick(bide *queue, bide_kick_args args, uint64_t *count)
{
    bide_op op;
    int code = RUN_WITH(queue, op, BIDE_OP_KICK, kick, args);
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
    bide_op op;
    return RUN(queue, op, KICK_JOB, lease, .id = id);
}

int bide_update(bide *queue, const bide_update_args *changes)
{
    if (changes == NULL)
        return bi_last_error_set(BIDE_EINVAL, "update: changes is NULL");

    bide_op op;
    return RUN_WITH(queue, op, BIDE_OP_UPDATE, update, *changes);
}

int bide_cancel(bide *queue, uint64_t id)
{
    bide_op op;
    return RUN(queue, op, CANCEL, lease, .id = id);
}

int bide_purge(bide *queue, const char *topic, bide_state state, uint64_t *count)
{
    bide_op op;
    int code = RUN(queue, op, PURGE, purge, .topic = text(topic), .state = state);
    /* A purge that fails half way reports the jobs that it removed. */
    if (code != BIDE_EINVAL)
        SET_OUT(count, op.purge.count);
    return code;
}

int bide_pause(bide *queue, const char *topic, int64_t for_ms)
{
    bide_op op;
    return RUN(queue, op, PAUSE, topic, .topic = text(topic), .for_ms = for_ms);
}

int bide_resume(bide *queue, const char *topic)
{
    bide_op op;
    return RUN(queue, op, RESUME, topic, .topic = text(topic));
}

int bide_topic_ref(bide *queue, const char *topic, int delta)
{
    bide_op op;
    return RUN(queue, op, TOPIC_REF, topic, .topic = text(topic), .delta = delta);
}

int bide_drain(bide *queue, bool on)
{
    bide_op op;
    return RUN(queue, op, DRAIN, drain, .on = on);
}

/* ---- query ---- */

int bide_peek(bide *queue, uint64_t id, bide_job *job)
{
    bide_op op;
    return RUN(queue, op, PEEK, query, .id = id, .job = job);
}

int bide_peek_first(bide *queue, const char *topic, bide_state state, bide_job *job)
{
    bide_op op;
    return RUN(queue, op, PEEK_FIRST, query, .topic = text(topic), .state = state, .job = job);
}

int bide_find(bide *queue, const char *topic, const void *key, size_t size, bide_job *job)
{
    bide_op op;
    return RUN(queue, op, FIND, query, .topic = text(topic), .key = {key, size}, .job = job);
}

int bide_job_stats(bide *queue, uint64_t id, bide_job *job)
{
    bide_op op;
    return RUN(queue, op, JOB_STATS, query, .id = id, .job = job);
}

static int fetch_call(bide *queue, bide_op_kind kind, uint64_t id, bide_buf **out)
{
    bide_op op;
    if (out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: the out parameter is NULL", bide_op_name(kind));

    int code = RUN_WITH(queue, op, kind, fetch, ((bide_fetch_args){.id = id}));
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
    int code = RUN(queue, op, WAIT, wait, .id = id, .timeout_ms = timeout_ms);
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
    if (args == NULL)
        return bi_last_error_set(BIDE_EINVAL, "list: args is NULL");

    bide_op op;
    int code = RUN_WITH(queue, op, BIDE_OP_LIST, list, *args);
    if (code == BIDE_OK) {
        args->count = op.list.count;
        args->ordered = op.list.ordered;
    }
    return code;
}

static int topics_call(bide *queue, bide_op_kind kind, bide_topics_args args, size_t *count)
{
    bide_op op;
    if (count == NULL)
        return bi_last_error_set(BIDE_EINVAL, "%s: count is NULL", bide_op_name(kind));

    int code = RUN_WITH(queue, op, kind, topics, args);
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
    return RUN(queue, op, STATS, stats, .stats = stats);
}

int bide_topic_get_stats(bide *queue, const char *topic, bide_topic_stats *stats)
{
    bide_op op;
    return RUN(queue, op, TOPIC_STATS, topic_stats, .topic = text(topic), .stats = stats);
}

int bide_topic_set(bide *queue, const char *topic, const bide_topic_policy *changes)
{
    bide_op op;
    if (changes == NULL)
        return bi_last_error_set(BIDE_EINVAL, "topic_set: changes is NULL");
    return RUN(queue, op, TOPIC_SET, topic_set, .topic = text(topic), .policy = *changes);
}

int bide_topic_get(bide *queue, const char *topic, bide_topic_policy *policy,
                   bide_topic_policy *in_force)
{
    bide_op op;
    bide_topic_policy set, applied;
    int code = RUN(queue, op, TOPIC_GET, topic_get, .topic = text(topic), .policy = &set,
                   .in_force = &applied);
    if (code == BIDE_OK) {
        SET_OUT(policy, set);
        SET_OUT(in_force, applied);
    }
    return code;
}

int bide_why(bide *queue, uint64_t id, bide_explanation *why)
{
    bide_op op;
    return RUN(queue, op, WHY, why, .id = id, .why = why);
}

int bide_why_key(bide *queue, const char *topic, const void *key, size_t size,
                 bide_explanation *why)
{
    bide_op op;
    return RUN(queue, op, WHY, why, .topic = text(topic), .key = {key, size}, .why = why);
}

int bide_announce(bide *queue, const bide_worker_info *info, int64_t ttl_ms)
{
    bi_last_error_clear();
    const char *problem = info == NULL ? "info is NULL" : bi_worker_info_check(info);
    if (problem != NULL)
        return bi_last_error_set(BIDE_EINVAL, "announce: %s", problem);
    bide_buf *worker = bide_worker_encode(info);
    if (worker == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "announce: %s", bide_code_text(BIDE_ENOMEM));

    bide_op op;
    int code = RUN(queue, op, ANNOUNCE, announce, .buf = worker, .ttl_ms = ttl_ms);
    bide_buf_unref(worker);
    return code;
}

int bide_workers(bide *queue, char *cursor, bide_announced *workers, size_t max, size_t *count)
{
    bide_op op;
    if (count == NULL)
        return bi_last_error_set(BIDE_EINVAL, "workers: count is NULL");

    int code =
        RUN(queue, op, WORKERS, workers, .cursor = cursor, .workers = workers, .worker_max = max);
    if (code == BIDE_OK)
        *count = op.workers.count;
    return code;
}

int bide_ping(bide *queue)
{
    bide_op op;
    op.kind = BIDE_OP_PING;
    return bi_blocking_call_run(queue, &op);
}

int bide_wait_recovered(bide *queue, int64_t timeout_ms, bide_recovery *progress)
{
    bide_op op;
    int code = RUN(queue, op, RECOVERED, recovered, .timeout_ms = timeout_ms);
    /* A wait that times out reports the progress as well. */
    if (code == BIDE_OK || code == BIDE_TIMED_OUT)
        SET_OUT(progress, op.recovered.progress);
    return code;
}

int bide_backup(bide *queue, const char *path)
{
    bide_op op;
    return RUN(queue, op, BACKUP, backup, .path = path);
}

int bide_check(bide *queue, bide_check_report *report)
{
    bide_op op;
    return RUN(queue, op, CHECK, check, .report = report);
}

int bide_subscribe(bide *queue, const char *topic, uint32_t kinds, uint32_t capacity,
                   bide_subscription **feed)
{
    bide_op op;
    if (feed == NULL)
        return bi_last_error_set(BIDE_EINVAL, "subscribe: feed is NULL");

    int code = RUN(queue, op, SUBSCRIBE, subscription, .topic = text(topic), .kinds = kinds,
                   .capacity = capacity);
    if (code == BIDE_OK)
        *feed = op.subscription.handle;
    return code;
}

int bide_events(bide *queue, bide_subscription *feed, int64_t timeout_ms, bide_event *events,
                size_t max, size_t *count, uint64_t *lost)
{
    bide_op op;
    if (count == NULL)
        return bi_last_error_set(BIDE_EINVAL, "events: count is NULL");

    int code = RUN(queue, op, EVENTS, subscription, .handle = feed, .timeout_ms = timeout_ms,
                   .events = events, .event_max = max);
    if (code == BIDE_OK) {
        *count = op.subscription.count;
        SET_OUT(lost, op.subscription.lost);
    }
    return code;
}

int bide_unsubscribe(bide *queue, bide_subscription *feed)
{
    bide_op op;
    return RUN(queue, op, UNSUBSCRIBE, subscription, .handle = feed);
}
