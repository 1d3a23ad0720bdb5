/* SPDX-License-Identifier: MIT */
#include "random_results.h"

int other_good_code(bide_op_kind kind)
{
    return kind == BIDE_OP_PUT || kind == BIDE_OP_RESTORE ? BIDE_EXISTS
           : kind == BIDE_OP_TOUCH                        ? BIDE_CANCEL_WANTED
           : kind == BIDE_OP_RECOVERED                    ? BIDE_TIMED_OUT
                                                          : BIDE_OK;
}

static bide_buf *any_result(void)
{
    bide_slice bytes = any_slice();
    return bytes.data == NULL ? NULL : bide_buf_new(bytes.data, bytes.size);
}

/* The status of an item: success or any other. */
static int any_status(int also)
{
    return below(2) == 0 ? BIDE_OK : below(2) == 0 ? also : any_i32();
}

static void any_put_outcomes(bide_put_item *items, size_t count, size_t *accepted)
{
    for (size_t i = 0; i < count; i++) {
        items[i].id = any_u64();
        items[i].status = any_status(BIDE_EXISTS);
    }
    *accepted = below(count + 1);
}

static void any_outcomes(bide_op *op)
{
    if (op->kind == BIDE_OP_PUT_MANY)
        any_put_outcomes(op->put_many.items, op->put_many.count, &op->put_many.accepted);
    else if (op->kind == BIDE_OP_FINISH_AND_PUT)
        any_put_outcomes(op->finish_and_put.items, op->finish_and_put.count,
                         &op->finish_and_put.accepted);
    for (size_t i = 0; op->kind == BIDE_OP_FINISH_MANY && i < op->finish_many.count; i++)
        op->finish_many.items[i].status = any_i32();
    for (size_t i = 0; op->kind == BIDE_OP_TOUCH_MANY && i < op->touch_many.count; i++) {
        op->touch_many.items[i].left_ms = any_i64();
        op->touch_many.items[i].status = any_status(BIDE_CANCEL_WANTED);
    }
}

static void any_jobs(bide_reserve_args *args)
{
    args->count = 1 + below(args->job_max);
    for (size_t i = 0; i < args->count; i++)
        any_job(&args->jobs[i]);
}

static void any_page(bide_op *op)
{
    if (op->kind == BIDE_OP_LIST) {
        any_text(op->list.cursor, BIDE_CURSOR_SIZE);
        op->list.count = below(op->list.job_max + 1);
        op->list.ordered = any_bool();
        for (size_t i = 0; i < op->list.count; i++)
            any_job(&op->list.jobs[i]);
    } else if (op->kind == BIDE_OP_EVENTS) {
        op->subscription.lost = any_u64();
        op->subscription.count = below(op->subscription.event_max + 1);
        for (size_t i = 0; i < op->subscription.count; i++)
            any_event(&op->subscription.events[i]);
    } else if (op->kind == BIDE_OP_WORKERS) {
        any_text(op->workers.cursor, BIDE_CURSOR_SIZE);
        op->workers.count = below(op->workers.worker_max + 1);
        for (size_t i = 0; i < op->workers.count; i++)
            any_announced(&op->workers.workers[i]);
    } else {
        any_text(op->topics.cursor, BIDE_CURSOR_SIZE);
        op->topics.count = below(op->topics.topic_max + 1);
        for (size_t i = 0; i < op->topics.count; i++)
            any_topic_stats(&op->topics.topics[i]);
    }
}

/* Results that an op has whatever its code. */
static void any_always(bide_op *op)
{
    any_outcomes(op);
    if (op->kind == BIDE_OP_FINISH_AND_RESERVE)
        op->finish_and_reserve.finish.status = any_i32();
    else if (op->kind == BIDE_OP_KICK)
        op->kick.count = any_u64();
    else if (op->kind == BIDE_OP_PURGE)
        op->purge.count = any_u64();
}

static void any_report(bide_check_report *report)
{
    memset(report, 0, sizeof(*report));
    report->jobs = any_u64();
    report->damaged = any_u64();
    report->differences = any_u64();
    any_text(report->problem, sizeof(report->problem));
}

static void any_good(bide_op *op)
{
    switch (op->kind) {
    case BIDE_OP_PUT:
        op->put.id = any_u64();
        break;
    case BIDE_OP_RESTORE:
        op->restore.id = any_u64();
        break;
    case BIDE_OP_RESERVE:
        any_jobs(&op->reserve);
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        any_jobs(&op->finish_and_reserve.reserve);
        break;
    case BIDE_OP_RESERVE_JOB:
        any_job(op->reserve_job.job);
        break;
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_JOB_STATS:
        any_job(op->query.job);
        break;
    case BIDE_OP_FAIL:
        op->fail.state = any_state();
        op->fail.delay_ms = any_i64();
        break;
    case BIDE_OP_TOUCH:
        op->touch.left_ms = any_i64();
        break;
    case BIDE_OP_BODY:
    case BIDE_OP_RESULT:
        op->fetch.buf = any_result();
        break;
    case BIDE_OP_WAIT:
        op->wait.state = any_state();
        op->wait.result = any_result();
        op->wait.finished = any_bool();
        break;
    case BIDE_OP_LIST:
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
    case BIDE_OP_EVENTS:
    case BIDE_OP_WORKERS:
        any_page(op);
        break;
    case BIDE_OP_WHY:
        any_explanation(op->why.why);
        break;
    case BIDE_OP_STATS:
        any_stats(op->stats.stats);
        break;
    case BIDE_OP_TOPIC_GET:
        any_policy(op->topic_get.policy);
        any_policy(op->topic_get.in_force);
        break;
    case BIDE_OP_TOPIC_STATS:
        any_topic_stats(op->topic_stats.stats);
        break;
    case BIDE_OP_RECOVERED:
        op->recovered.progress = (bide_recovery){.phase = (bide_phase)below(4),
                                                 .loaded = any_u64(),
                                                 .failed = any_u64(),
                                                 .total = any_u64()};
        break;
    case BIDE_OP_CHECK:
        any_report(op->check.report);
        break;
    default:
        break;
    }
}

void any_answer(bide_op *op, int code)
{
    op->status = code;
    any_text(op->error, sizeof(op->error));
    any_always(op);
    if (code == BIDE_OK || code == other_good_code(op->kind))
        any_good(op);
}

static void same_jobs(const bide_reserve_args *a, const bide_reserve_args *b)
{
    SAME(count);
    for (size_t i = 0; i < a->count; i++)
        same_job(&a->jobs[i], &b->jobs[i]);
}

static void same_counts(const void *a, const void *b, size_t size)
{
    for (size_t i = 0; i < size / sizeof(uint64_t); i++)
        assert_int_equal(((const uint64_t *)a)[i], ((const uint64_t *)b)[i]);
}

static void same_topic_stats(const bide_topic_stats *a, const bide_topic_stats *b)
{
    SAME_TEXT(name);
    same_counts(&a->jobs, &b->jobs, offsetof(bide_counts, room_));
    same_counts(&a->total, &b->total, offsetof(bide_counters, room_));
    SAME(waiting), SAME(references), SAME(oldest_ready_age_ms), SAME(paused), SAME(pause_ms),
        SAME(pause_left_ms);
    SAME(concurrency), SAME(rate), SAME(rate_period_ms), SAME(limit_left_ms), SAME(limited),
        SAME(has_policy);
}

static void same_stats(const bide_stats *a, const bide_stats *b)
{
    same_counts(&a->jobs, &b->jobs, offsetof(bide_counts, room_));
    same_counts(&a->total, &b->total, offsetof(bide_counters, room_));
    SAME(topics), SAME(waiting), SAME(watching), SAME(pending_ops), SAME(memory_bytes);
    SAME(oldest_ready_age_ms), SAME(uptime_ms), SAME(last_id), SAME(draining);
}

static void same_event(const bide_event *a, const bide_event *b)
{
    SAME(kind), SAME(state), SAME(id), SAME(at_ms), SAME_TEXT(topic);
}

static void same_announced(const bide_announced *a, const bide_announced *b)
{
    SAME(data_size), SAME(announced_ms), SAME(left_ms);
    assert_int_equal(a->data == NULL, b->data == NULL);
    if (a->data_size > 0)
        assert_memory_equal(a->data, b->data, a->data_size);
}

static void same_explanation(const bide_explanation *a, const bide_explanation *b)
{
    SAME(reason), SAME(state), SAME(id), SAME(until_ms), SAME(left_ms), SAME(ahead);
    SAME(ahead_more), SAME(cancel_wanted), SAME(draining), SAME(attempts), SAME(failures);
    SAME(waiting), SAME(workers), SAME(running), SAME(limit);
    SAME_TEXT(topic), SAME_TEXT(holder), SAME_TEXT(error), SAME_TEXT(text);
}

static void same_page(const bide_op *a, const bide_op *b)
{
    if (a->kind == BIDE_OP_LIST) {
        SAME_TEXT(list.cursor), SAME(list.count), SAME(list.ordered);
        for (size_t i = 0; i < a->list.count; i++)
            same_job(&a->list.jobs[i], &b->list.jobs[i]);
    } else if (a->kind == BIDE_OP_EVENTS) {
        SAME(subscription.lost), SAME(subscription.count);
        for (size_t i = 0; i < a->subscription.count; i++)
            same_event(&a->subscription.events[i], &b->subscription.events[i]);
    } else if (a->kind == BIDE_OP_WORKERS) {
        SAME_TEXT(workers.cursor), SAME(workers.count);
        for (size_t i = 0; i < a->workers.count; i++)
            same_announced(&a->workers.workers[i], &b->workers.workers[i]);
    } else {
        SAME_TEXT(topics.cursor), SAME(topics.count);
        for (size_t i = 0; i < a->topics.count; i++)
            same_topic_stats(&a->topics.topics[i], &b->topics.topics[i]);
    }
}

/* A rejected item has a status only; its other results stay as they were, which is 0 here. */
static void same_outcome(int a, int b, int also, uint64_t given, uint64_t got)
{
    assert_int_equal(a, b);
    assert_int_equal(got, a == BIDE_OK || a == also ? given : 0);
}

static void same_put_outcomes(const bide_put_item *a, const bide_put_item *b, size_t count)
{
    for (size_t i = 0; i < count; i++)
        same_outcome(a[i].status, b[i].status, BIDE_EXISTS, a[i].id, b[i].id);
}

static void same_always(const bide_op *a, const bide_op *b)
{
    if (a->kind == BIDE_OP_PUT_MANY) {
        SAME(put_many.accepted);
        same_put_outcomes(a->put_many.items, b->put_many.items, a->put_many.count);
    } else if (a->kind == BIDE_OP_FINISH_AND_PUT) {
        SAME(finish_and_put.accepted);
        same_put_outcomes(a->finish_and_put.items, b->finish_and_put.items,
                          a->finish_and_put.count);
    }
    for (size_t i = 0; a->kind == BIDE_OP_FINISH_MANY && i < a->finish_many.count; i++)
        SAME(finish_many.items[i].status);
    for (size_t i = 0; a->kind == BIDE_OP_TOUCH_MANY && i < a->touch_many.count; i++)
        same_outcome(a->touch_many.items[i].status, b->touch_many.items[i].status,
                     BIDE_CANCEL_WANTED, (uint64_t)a->touch_many.items[i].left_ms,
                     (uint64_t)b->touch_many.items[i].left_ms);
    if (a->kind == BIDE_OP_FINISH_AND_RESERVE)
        SAME(finish_and_reserve.finish.status);
    else if (a->kind == BIDE_OP_KICK)
        SAME(kick.count);
    else if (a->kind == BIDE_OP_PURGE)
        SAME(purge.count);
}

static void same_good(const bide_op *a, const bide_op *b)
{
    switch (a->kind) {
    case BIDE_OP_PUT:
        SAME(put.id);
        break;
    case BIDE_OP_RESTORE:
        SAME(restore.id);
        break;
    case BIDE_OP_RESERVE:
        same_jobs(&a->reserve, &b->reserve);
        break;
    case BIDE_OP_FINISH_AND_RESERVE:
        same_jobs(&a->finish_and_reserve.reserve, &b->finish_and_reserve.reserve);
        break;
    case BIDE_OP_RESERVE_JOB:
        same_job(a->reserve_job.job, b->reserve_job.job);
        break;
    case BIDE_OP_PEEK:
    case BIDE_OP_PEEK_FIRST:
    case BIDE_OP_FIND:
    case BIDE_OP_JOB_STATS:
        same_job(a->query.job, b->query.job);
        break;
    case BIDE_OP_FAIL:
        SAME(fail.state), SAME(fail.delay_ms);
        break;
    case BIDE_OP_TOUCH:
        SAME(touch.left_ms);
        break;
    case BIDE_OP_BODY:
    case BIDE_OP_RESULT:
        same_bufs(a->fetch.buf, b->fetch.buf);
        break;
    case BIDE_OP_WAIT:
        SAME(wait.state);
        same_bufs(a->wait.result, b->wait.result);
        SAME(wait.finished);
        break;
    case BIDE_OP_LIST:
    case BIDE_OP_TOPICS:
    case BIDE_OP_WAITING:
    case BIDE_OP_EVENTS:
    case BIDE_OP_WORKERS:
        same_page(a, b);
        break;
    case BIDE_OP_WHY:
        same_explanation(a->why.why, b->why.why);
        break;
    case BIDE_OP_STATS:
        same_stats(a->stats.stats, b->stats.stats);
        break;
    case BIDE_OP_TOPIC_GET:
        same_policy(a->topic_get.policy, b->topic_get.policy);
        same_policy(a->topic_get.in_force, b->topic_get.in_force);
        break;
    case BIDE_OP_TOPIC_STATS:
        same_topic_stats(a->topic_stats.stats, b->topic_stats.stats);
        break;
    case BIDE_OP_RECOVERED:
        SAME(recovered.progress.phase), SAME(recovered.progress.loaded);
        SAME(recovered.progress.failed), SAME(recovered.progress.total);
        break;
    case BIDE_OP_CHECK:
        SAME(check.report->jobs), SAME(check.report->damaged), SAME(check.report->differences);
        SAME_TEXT(check.report->problem);
        break;
    default:
        break;
    }
}

void same_answer(const bide_op *a, const bide_op *b)
{
    assert_int_equal(a->status, b->private_.status);
    SAME_TEXT(error);
    same_always(a, b);
    if (a->status == BIDE_OK || a->status == other_good_code(a->kind))
        same_good(a, b);
}

void end_answer(bide_op *op)
{
    if (op->kind == BIDE_OP_BODY || op->kind == BIDE_OP_RESULT)
        bide_buf_unref(op->fetch.buf);
    else if (op->kind == BIDE_OP_WAIT)
        bide_buf_unref(op->wait.result);
}
