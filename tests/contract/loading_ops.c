/* SPDX-License-Identifier: MIT */
/*
 * loading_ops.c - ops submitted to a queue that has not loaded everything yet. Whatever their
 * arguments pointed to is overwritten as soon as submit has returned.
 */
#include "backlog.h"

#include <stdlib.h>
#include <string.h>

/* Memory of the caller, which is spoiled and freed when submit has returned. */
static struct lent {
    void *memory[32];
    size_t sizes[32];
    size_t count;
} lent;

static void *lend(const void *data, size_t size)
{
    CHECK(lent.count < COUNT(lent.memory));
    void *copy = malloc(size + 1);
    CHECK(copy != NULL);
    memcpy(copy, data, size);
    lent.memory[lent.count] = copy;
    lent.sizes[lent.count++] = size;
    return copy;
}

static bide_slice lend_text(const char *text)
{
    return (bide_slice){lend(text, strlen(text)), strlen(text)};
}

static void take_back(void)
{
    while (lent.count > 0) {
        lent.count--;
        memset(lent.memory[lent.count], 0x5a, lent.sizes[lent.count]);
        free(lent.memory[lent.count]);
    }
}

/* Submits, spoils the arguments, and waits for the code. */
#define SUBMIT(queue, waiter, want) submit_lent(HERE, (queue), (waiter), (want), #waiter)
static void submit_lent(struct where at, bide *queue, struct waiter *waiter, int want,
                        const char *text)
{
    bide_op *ops[] = {&waiter->op};
    int pending = bide_submit(queue, ops, 1);
    take_back();
    check_between(at, pending, 0, 1, "how many ops are pending after bide_submit()");
    UNTIL(waiter->op.status != BIDE_PENDING || bide_cq_drain(waiter->op.cq, 0) < 0);
    if (waiter->op.status != want)
        fail_test(at, "%s: expected %s, got %s, \"%s\"", text, bide_code_name(want),
                  bide_code_name(waiter->op.status), waiter->op.error);
    check_equal(at, waiter->calls, pending, "how often the callback was called");
}

static bide_put_options *lend_options(const char *key, bide_conflict conflict)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.conflict = conflict;
    options.priority = 17;
    if (key)
        options.key = lend_text(key);
    return lend(&options, sizeof options);
}

/* ---- ops that name an id ---- */

static void an_op_on_an_id_finds_the_job(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    static const bide_op_kind kinds[] = {BIDE_OP_DELETE, BIDE_OP_CANCEL, BIDE_OP_KICK_JOB,
                                         BIDE_OP_PEEK,   BIDE_OP_BODY,   BIDE_OP_JOB_STATS};
    static const bide_state states[] = {BIDE_STATE_READY,    BIDE_STATE_DELAYED, BIDE_STATE_BURIED,
                                        BIDE_STATE_RESERVED, BIDE_STATE_DONE,    BIDE_STATE_DONE};
    for (size_t i = 0; i < COUNT(kinds); i++) {
        bide *queue = open_backlog(backlog);
        struct waiter *waiter = new_op(kinds[i], cq);
        uint64_t id = backlog->ids[2][states[i]];
        if (kinds[i] == BIDE_OP_PEEK || kinds[i] == BIDE_OP_JOB_STATS)
            waiter->op.query = (bide_query_args){.id = id, .job = &waiter->job};
        else if (kinds[i] == BIDE_OP_BODY)
            waiter->op.fetch.id = id;
        else
            waiter->op.lease.id = id;
        SUBMIT(queue, waiter, BIDE_OK);
        if (kinds[i] == BIDE_OP_PEEK) {
            TEXT(waiter->job.body, waiter->job.body_size, "body");
        } else if (kinds[i] == BIDE_OP_BODY) {
            TEXT(bide_buf_data(waiter->op.fetch.buf), bide_buf_size(waiter->op.fetch.buf), "body");
            bide_buf_unref(waiter->op.fetch.buf);
        } else if (kinds[i] == BIDE_OP_JOB_STATS) {
            EQ(waiter->job.state, BIDE_STATE_DONE);
        }
        leave_queue(queue);
    }
    bide *queue = open_backlog(backlog);
    bide_counts jobs = topic_of(queue, backlog->small).jobs;
    EQ(jobs.ready, 2 * BACKLOG_SPOTS);
    EQ(jobs.delayed, BACKLOG_SPOTS - 1);
    EQ(jobs.buried, BACKLOG_SPOTS - 1);
}

static void an_op_with_texts_finds_the_job(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    const uint64_t *ids = backlog->ids[2];
    bide *queue = open_backlog(backlog);
    struct waiter *done = new_op(BIDE_OP_DONE, cq);
    done->op.finish = (bide_finish_item){.id = ids[BIDE_STATE_DELAYED],
                                         .keep = true,
                                         .result = lend_text("the result"),
                                         .retain_ms = 3600000};
    SUBMIT(queue, done, BIDE_OK);
    queue = reopen_at_once(queue);
    struct waiter *bury = new_op(BIDE_OP_BURY, cq);
    bury->op.bury = (bide_bury_args){
        .id = ids[BIDE_STATE_READY], .priority = BIDE_KEEP, .reason = lend_text("the reason")};
    SUBMIT(queue, bury, BIDE_OK);
    queue = reopen_at_once(queue);
    struct waiter *fail = new_op(BIDE_OP_FAIL, cq);
    fail->op.fail = (bide_fail_args){
        .id = ids[BIDE_STATE_RESERVED], .error = lend_text("the error"), .retry_in_ms = 3600000};
    SUBMIT(queue, fail, BIDE_OK);
    EQ(fail->op.fail.state, BIDE_STATE_DELAYED);
    queue = reopen_at_once(queue);
    struct waiter *update = new_op(BIDE_OP_UPDATE, cq);
    update->op.update = (bide_update_args)BIDE_UPDATE_INIT;
    update->op.update.id = ids[BIDE_STATE_BURIED];
    update->op.update.topic = lend_text("another");
    SUBMIT(queue, update, BIDE_OK);
    queue = reopen_at_once(queue);
    const bide_job *job = stat_job(queue, ids[BIDE_STATE_DELAYED]);
    TEXT(job->result, job->result_size, "the result");
    job = stat_job(queue, ids[BIDE_STATE_READY]);
    TEXT(job->last_error, job->last_error_size, "the reason");
    job = stat_job(queue, ids[BIDE_STATE_RESERVED]);
    TEXT(job->last_error, job->last_error_size, "the error");
    TEXT(stat_job(queue, ids[BIDE_STATE_BURIED])->topic, 7, "another");
    OK(bide_delete(queue, ids[BIDE_STATE_BURIED], 0));
}

static void reserve_job_and_wait_find_the_job(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    struct waiter *waits[BACKLOG_KINDS], *take = new_op(BIDE_OP_RESERVE_JOB, cq);
    for (int state = 0; state < BACKLOG_KINDS; state++) {
        bide_op *ops[1];
        waits[state] = new_op(BIDE_OP_WAIT, cq);
        waits[state]->op.wait.id = backlog->ids[2][state];
        waits[state]->op.wait.timeout_ms = BIDE_FOREVER;
        ops[0] = &waits[state]->op;
        BETWEEN(bide_submit(queue, ops, 1), 0, 1);
    }
    take->op.reserve_job =
        (bide_reserve_job_args){.id = backlog->ids[2][BIDE_STATE_BURIED], .job = &take->job};
    SUBMIT(queue, take, BIDE_OK);
    TEXT(take->job.body, take->job.body_size, "body");
    OK(bide_delete(queue, take->job.id, take->job.token));
    UNTIL((waits[BIDE_STATE_GONE]->op.status != BIDE_PENDING &&
           waits[BIDE_STATE_DONE]->op.status != BIDE_PENDING &&
           waits[BIDE_STATE_BURIED]->op.status != BIDE_PENDING) ||
          bide_cq_drain(cq, 0) < 0);
    EQ(waits[BIDE_STATE_GONE]->op.wait.state, BIDE_STATE_GONE);
    EQ(waits[BIDE_STATE_BURIED]->op.wait.state, BIDE_STATE_BURIED);
    EQ(waits[BIDE_STATE_DONE]->op.wait.state, BIDE_STATE_DONE);
    bide_buf *result = waits[BIDE_STATE_DONE]->op.wait.result;
    TEXT(bide_buf_data(result), bide_buf_size(result), "result");
    bide_buf_unref(result);
    still_pending(waits[BIDE_STATE_READY]);
    OK(bide_delete(queue, backlog->ids[2][BIDE_STATE_READY], 0));
    UNTIL(waits[BIDE_STATE_READY]->op.status == BIDE_OK || bide_cq_drain(cq, 0) < 0);
    EQ(waits[BIDE_STATE_READY]->op.wait.state, BIDE_STATE_GONE);
}

/* If the second overtook the first, which may have to wait for its job, it would be refused. */
static void the_ops_of_a_list_run_in_order_while_jobs_are_loaded(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    uint64_t id = backlog->ids[2][BIDE_STATE_READY];
    struct waiter *list[] = {new_op(BIDE_OP_BURY, cq), new_op(BIDE_OP_KICK_JOB, cq),
                             new_op(BIDE_OP_BURY, cq), new_op(BIDE_OP_DELETE, cq),
                             new_op(BIDE_OP_DELETE, cq)};
    bide_op *ops[COUNT(list)];
    list[0]->op.bury = (bide_bury_args){.id = id, .priority = BIDE_KEEP};
    list[1]->op.lease.id = id;
    list[2]->op.bury = (bide_bury_args){.id = id, .priority = BIDE_KEEP};
    list[3]->op.lease.id = id;
    list[4]->op.lease.id = id;
    for (size_t i = 0; i < COUNT(list); i++)
        ops[i] = &list[i]->op;
    CHECK(bide_submit(queue, ops, COUNT(ops)) >= 0);
    for (size_t i = 0; i < COUNT(list); i++) {
        UNTIL(list[i]->op.status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
        EQ(list[i]->op.status, i == 4 ? BIDE_NOT_FOUND : BIDE_OK);
    }
}

/* What a rejected item points to is never read: not when the list waits, nor when it runs. */
static void a_list_with_a_rejected_item_waits_while_jobs_are_loaded(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    struct waiter *many = new_op(BIDE_OP_PUT_MANY, cq);
    struct waiter *put = new_op(BIDE_OP_PUT, cq);
    bide_op *ops[] = {&many->op, &put->op};
    bide_put_item items[] = {
        {.topic = lend_text(backlog->small), .body = lend_text("x")},
        {.topic = {NULL, 5}, .body = lend_text("x")},
        {.topic = lend_text("not a name"), .body = lend_text("x")},
    };
    items[0].options = lend_options("a key", BIDE_REJECT);
    many->op.put_many.items = items;
    many->op.put_many.count = COUNT(items);
    put->op.put = (bide_put_item){.topic = lend_text(backlog->small), .body = lend_text("y")};
    CHECK(bide_submit(queue, ops, COUNT(ops)) >= 0);
    take_back();
    for (size_t i = 0; i < COUNT(ops); i++) {
        UNTIL(ops[i]->status != BIDE_PENDING || bide_cq_drain(cq, 0) < 0);
        EQ(ops[i]->status, BIDE_OK);
    }
    EQ(many->op.put_many.accepted, 1);
    EQ(items[0].status, BIDE_OK);
    EQ(items[1].status, BIDE_EINVAL);
    EQ(items[2].status, BIDE_EINVAL);
    CHECK(put->op.put.id > items[0].id); /* in order: both name the same topic */
}

/* ---- ops that want everything ---- */

static void a_put_with_a_key_keeps_its_own_copies(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    struct waiter *put = new_op(BIDE_OP_PUT, cq);
    put->op.put = (bide_put_item){.topic = lend_text(backlog->small), .body = lend_text("x")};
    put->op.put.options = lend_options(backlog->keys[2][BIDE_STATE_READY], BIDE_REJECT);
    SUBMIT(queue, put, BIDE_EXISTS);
    EQ(put->op.put.id, backlog->ids[2][BIDE_STATE_READY]);
    queue = reopen_at_once(queue);
    struct waiter *fresh = new_op(BIDE_OP_PUT, cq);
    fresh->op.put =
        (bide_put_item){.topic = lend_text(backlog->small), .body = lend_text("a body")};
    fresh->op.put.options = lend_options("a new key", BIDE_REJECT);
    SUBMIT(queue, fresh, BIDE_OK);
    const bide_job *job = peek_job(queue, fresh->op.put.id);
    TEXT(job->body, job->body_size, "a body");
    TEXT(job->key, job->key_size, "a new key");
    EQ(job->priority, 17);
    queue = reopen_at_once(queue);
    bide_put_item items[3];
    struct waiter *many = new_op(BIDE_OP_PUT_MANY, cq);
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = lend_text(backlog->small), .body = lend_text("many")};
    items[0].options = lend_options(backlog->keys[1][BIDE_STATE_DELAYED], BIDE_REPLACE);
    items[1].options = lend_options(backlog->keys[2][BIDE_STATE_DELAYED], BIDE_REJECT);
    many->op.put_many.items = items;
    many->op.put_many.count = COUNT(items);
    SUBMIT(queue, many, BIDE_OK);
    EQ(many->op.put_many.accepted, 2);
    EQ(items[0].status, BIDE_OK);
    EQ(items[1].status, BIDE_EXISTS);
    EQ(items[1].id, backlog->ids[2][BIDE_STATE_DELAYED]);
    EQ(state_of(queue, backlog->ids[1][BIDE_STATE_DELAYED]), BIDE_STATE_GONE);
    job = peek_job(queue, items[0].id);
    TEXT(job->body, job->body_size, "many");
}

/* Without keys it needs its own job only; with a key, all of them. */
static void finish_and_put_finds_its_job_and_the_holder_of_a_key(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    bide_put_item items[2];
    struct waiter *plain = new_op(BIDE_OP_FINISH_AND_PUT, cq);
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = lend_text(backlog->small), .body = lend_text("next")};
    plain->op.finish_and_put =
        (bide_finish_and_put_args){.finish.id = backlog->ids[2][BIDE_STATE_READY],
                                   .ending = BIDE_ENDING_BURY,
                                   .priority = BIDE_KEEP,
                                   .reason = lend_text("the reason"),
                                   .items = items,
                                   .count = COUNT(items)};
    SUBMIT(queue, plain, BIDE_OK);
    const bide_job *job = peek_job(queue, items[1].id);
    TEXT(job->body, job->body_size, "next");
    job = stat_job(queue, backlog->ids[2][BIDE_STATE_READY]);
    TEXT(job->last_error, job->last_error_size, "the reason");

    queue = reopen_at_once(queue);
    struct waiter *keyed = new_op(BIDE_OP_FINISH_AND_PUT, cq);
    for (size_t i = 0; i < COUNT(items); i++)
        items[i] = (bide_put_item){.topic = lend_text(backlog->small), .body = lend_text("keyed")};
    items[0].options = lend_options(backlog->keys[1][BIDE_STATE_DELAYED], BIDE_REPLACE);
    items[1].options = lend_options(backlog->keys[2][BIDE_STATE_DELAYED], BIDE_REJECT);
    keyed->op.finish_and_put =
        (bide_finish_and_put_args){.finish = {.id = backlog->ids[1][BIDE_STATE_READY],
                                              .keep = true,
                                              .result = lend_text("the result"),
                                              .retain_ms = 3600000},
                                   .items = items,
                                   .count = COUNT(items)};
    SUBMIT(queue, keyed, BIDE_EXISTS);
    EQ(items[1].id, backlog->ids[2][BIDE_STATE_DELAYED]);
    EQ(state_of(queue, backlog->ids[1][BIDE_STATE_DELAYED]), BIDE_STATE_DELAYED);
    EQ(state_of(queue, backlog->ids[1][BIDE_STATE_READY]), BIDE_STATE_READY);
    EQ(topic_of(queue, backlog->small).total.puts, 0);
}

static void a_restored_job_keeps_its_own_copies(void)
{
    struct backlog *backlog = new_backlog();
    bide *queue = open_backlog(backlog);
    struct waiter *restore = new_op(BIDE_OP_RESTORE, new_cq());
    bide_job job = {.state = BIDE_STATE_BURIED, .priority = 3, .ttr_ms = 1000, .max_retries = -1};
    bide_slice key = lend_text("a new key"), body = lend_text("a body");
    bide_slice reason = lend_text("a reason");
    memcpy(job.topic, backlog->small, strlen(backlog->small) + 1);
    job.key = key.data;
    job.key_size = key.size;
    job.body = body.data;
    job.body_size = body.size;
    job.last_error = reason.data;
    job.last_error_size = reason.size;
    restore->op.restore.job = lend(&job, sizeof job);
    SUBMIT(queue, restore, BIDE_OK);
    const bide_job *got = peek_job(queue, restore->op.restore.id);
    EQ(got->state, BIDE_STATE_BURIED);
    TEXT(got->topic, strlen(got->topic), backlog->small);
    TEXT(got->body, got->body_size, "a body");
    TEXT(got->key, got->key_size, "a new key");
    TEXT(got->last_error, got->last_error_size, "a reason");
}

static void queries_keep_their_own_copies(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    struct waiter *find = new_op(BIDE_OP_FIND, cq);
    find->op.query = (bide_query_args){.topic = lend_text(backlog->small),
                                       .key = lend_text(backlog->keys[2][BIDE_STATE_DONE]),
                                       .job = &find->job};
    SUBMIT(queue, find, BIDE_OK);
    EQ(find->job.id, backlog->ids[2][BIDE_STATE_DONE]);
    queue = reopen_at_once(queue);
    struct waiter *first = new_op(BIDE_OP_PEEK_FIRST, cq);
    first->op.query = (bide_query_args){
        .topic = lend_text(backlog->small), .state = BIDE_STATE_BURIED, .job = &first->job};
    SUBMIT(queue, first, BIDE_OK);
    EQ(first->job.id, backlog->ids[0][BIDE_STATE_BURIED]);
    queue = reopen_at_once(queue);
    bide_job jobs[BACKLOG_SPOTS + 1];
    char cursor[BIDE_CURSOR_SIZE] = "";
    struct waiter *list = new_op(BIDE_OP_LIST, cq);
    list->op.list = (bide_list_args){.topic = lend_text(backlog->small),
                                     .state = BIDE_STATE_DELAYED,
                                     .filter = {.text = lend_text("od")},
                                     .with_body = true,
                                     .cursor = cursor,
                                     .jobs = jobs,
                                     .job_max = COUNT(jobs)};
    SUBMIT(queue, list, BIDE_OK);
    EQ(list->op.list.count, BACKLOG_SPOTS);
    clear_jobs(jobs, BACKLOG_SPOTS);
    queue = reopen_at_once(queue);
    bide_topic_stats stats;
    struct waiter *figures = new_op(BIDE_OP_TOPIC_STATS, cq);
    figures->op.topic_stats = (bide_topic_stats_args){lend_text(backlog->large), &stats};
    SUBMIT(queue, figures, BIDE_OK);
    EQ(stats.jobs.ready, BACKLOG_JOBS);
}

static void kicks_purges_and_resumes_keep_their_own_copies(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    struct waiter *kick = new_op(BIDE_OP_KICK, cq);
    kick->op.kick = (bide_kick_args){.topic = lend_text(backlog->small), .max = 100};
    SUBMIT(queue, kick, BIDE_OK);
    EQ(kick->op.kick.count, BACKLOG_SPOTS);
    OK(bide_pause(queue, backlog->large, BIDE_FOREVER));
    queue = reopen_at_once(queue);
    struct waiter *resume = new_op(BIDE_OP_RESUME, cq);
    resume->op.topic.topic = lend_text(backlog->large);
    SUBMIT(queue, resume, BIDE_OK);
    queue = reopen_at_once(queue);
    CHECK(!topic_of(queue, backlog->large).paused);
    queue = reopen_at_once(queue);
    struct waiter *purge = new_op(BIDE_OP_PURGE, cq);
    purge->op.purge = (bide_purge_args){lend_text(backlog->large), BIDE_STATE_READY, 0};
    SUBMIT(queue, purge, BIDE_OK);
    EQ(purge->op.purge.count, BACKLOG_JOBS);
    CHECK(!topic_exists(queue, backlog->large));
}

static void a_reserve_keeps_its_own_copies(void)
{
    struct backlog *backlog = new_backlog();
    bide_cq *cq = new_cq();
    bide *queue = open_backlog(backlog);
    bide_slice topics[] = {lend_text("nothing"), lend_text(backlog->small)};
    struct waiter *reserve = new_op(BIDE_OP_RESERVE, cq);
    reserve->op.reserve =
        reserve_args(lend(topics, sizeof topics), 2, BIDE_FOREVER, &reserve->job, 1);
    SUBMIT(queue, reserve, BIDE_OK);
    EQ(reserve->job.id, backlog->ids[0][BIDE_STATE_READY]);
    queue = reopen_at_once(queue);
    bide_slice last = lend_text("waits for a moved job");
    struct waiter *next = new_op(BIDE_OP_FINISH_AND_RESERVE, cq);
    next->op.finish_and_reserve.finish =
        (bide_finish_item){.id = backlog->ids[2][BIDE_STATE_DELAYED]};
    next->op.finish_and_reserve.reserve =
        reserve_args(lend(&last, sizeof last), 1, 0, &next->job, 1);
    SUBMIT(queue, next, BIDE_EINVAL);
    last = lend_text(backlog->large);
    next->op.finish_and_reserve.reserve =
        reserve_args(lend(&last, sizeof last), 1, BIDE_FOREVER, &next->job, 1);
    next->calls = 0;
    SUBMIT(queue, next, BIDE_OK);
    EQ(next->op.finish_and_reserve.finish.status, BIDE_OK);
    TEXT(next->job.topic, strlen(next->job.topic), backlog->large);
    EQ(state_of(queue, backlog->ids[2][BIDE_STATE_DELAYED]), BIDE_STATE_GONE);
}

/* Without a completion queue there is no way to deliver the completion, so it completes at once. */
static void op_that_would_wait_needs_a_completion_queue(void)
{
    struct backlog *backlog = new_backlog();
    for (int round = 0; round < 3; round++) {
        bide *queue = open_backlog(backlog);
        bide_stats stats = {0};
        struct waiter *figures = new_op(BIDE_OP_STATS, NULL);
        bide_op *ops[] = {&figures->op};
        figures->op.stats.stats = &stats;
        EQ(bide_submit(queue, ops, 1), 0);
        if (!completes_in_submit()) {
            EQ(figures->op.status, BIDE_EINVAL);
            leave_queue(queue);
            continue;
        }
        CHECK(figures->op.status == BIDE_OK || figures->op.status == BIDE_EBUSY);
        if (figures->op.status == BIDE_OK)
            EQ(stats.jobs.done, BACKLOG_SPOTS);
        loaded(queue);
        EQ(bide_submit(queue, ops, 1), 0);
        EQ(figures->op.status, BIDE_OK);
        EQ(stats.jobs.done, BACKLOG_SPOTS);
        leave_queue(queue);
    }
}

/* ---- lists ---- */

/* Each needs all jobs, and what follows needs what it does. */
static void the_ops_of_a_list_run_in_order(void)
{
    struct backlog *backlog = new_backlog();
    const char *a = fresh_topic("a"), *b = fresh_topic("b");
    bide_slice topics[] = {slice(a), slice(b)};
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.key = slice("key");
    for (int round = 0; round < 3; round++) {
        bide *queue = open_backlog(backlog);
        bide_cq *cq = new_cq();
        struct waiter *keyed = new_op(BIDE_OP_PUT, cq), *plain = new_op(BIDE_OP_PUT, cq);
        struct waiter *first = new_op(BIDE_OP_RESERVE, cq), *second = new_op(BIDE_OP_RESERVE, cq);
        struct waiter *move = new_op(BIDE_OP_UPDATE, cq), *moved = new_op(BIDE_OP_RESERVE, cq);
        keyed->op.put =
            (bide_put_item){.topic = topics[0], .body = slice("keyed"), .options = &options};
        plain->op.put = (bide_put_item){.topic = topics[0], .body = slice("plain")};
        first->op.reserve = reserve_args(topics, 1, 0, &first->job, 1);
        second->op.reserve = reserve_args(topics, 1, 0, &second->job, 1);
        move->op.update = (bide_update_args)BIDE_UPDATE_INIT;
        move->op.update.id = backlog->ids[2][BIDE_STATE_READY];
        move->op.update.topic = topics[1];
        moved->op.reserve = reserve_args(&topics[1], 1, 0, &moved->job, 1);
        bide_op *ops[] = {&keyed->op, &plain->op, &first->op, &second->op, &move->op, &moved->op};
        CHECK(bide_submit(queue, ops, COUNT(ops)) >= 0);
        struct waiter *const all[] = {keyed, plain, first, second, move, moved};
        for (size_t i = 0; i < COUNT(all); i++)
            if (all[i]->op.status == BIDE_PENDING)
                completes(all[i], BIDE_OK);
            else
                EQ(all[i]->op.status, BIDE_OK);
        CHECK(keyed->op.put.id < plain->op.put.id);
        EQ(first->job.id, keyed->op.put.id);
        EQ(second->job.id, plain->op.put.id);
        EQ(moved->job.id, move->op.update.id);
        OK(bide_delete(queue, first->job.id, first->job.token));
        OK(bide_delete(queue, second->job.id, second->job.token));
        OK(bide_give_back(queue, moved->job.id, moved->job.token));
        leave_queue(queue);
    }
}

static const struct test tests[] = {
    TEST(the_ops_of_a_list_run_in_order),
    TEST(an_op_on_an_id_finds_the_job),
    TEST(an_op_with_texts_finds_the_job),
    TEST(reserve_job_and_wait_find_the_job),
    TEST(the_ops_of_a_list_run_in_order_while_jobs_are_loaded),
    TEST(a_list_with_a_rejected_item_waits_while_jobs_are_loaded),
    TEST(a_put_with_a_key_keeps_its_own_copies),
    TEST(finish_and_put_finds_its_job_and_the_holder_of_a_key),
    TEST(a_restored_job_keeps_its_own_copies),
    TEST(queries_keep_their_own_copies),
    TEST(kicks_purges_and_resumes_keep_their_own_copies),
    TEST(a_reserve_keeps_its_own_copies),
    TEST(op_that_would_wait_needs_a_completion_queue),
};

const struct theme loading_ops_theme = {"loading_ops", tests, COUNT(tests)};
