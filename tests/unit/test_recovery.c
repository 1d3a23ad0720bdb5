/* SPDX-License-Identifier: MIT */
/*
 * A queue that serves while what was stored is still being loaded.
 */
#include "fake_store.h"

static struct fake_store *fake;
static bide *queue;
static bide_cq *cq;

/* Ops in the order in which they completed. */
static bide_op *completed[64];
static size_t completed_count;

static void record_completion(bide_op *op)
{
    assert_true(completed_count < COUNT_OF(completed));
    completed[completed_count++] = op;
}

static int set_up(void **state)
{
    (void)state;
    fake = fake_new();
    queue = NULL;
    completed_count = 0;
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return fake_tear_down(fake, queue, cq);
}

/* Opens it with the scan before its first slice, or with that in hand. */
static void open_at(enum fake_gate gate)
{
    gate_shut(fake, gate);
    queue = fake_open(fake, "slow:", NULL);
    gate_await(fake, gate, 1);
}

/* Loads the rest. */
static void finish_loading(void)
{
    gate_open(fake, GATE_SCAN);
    gate_open(fake, GATE_SCANNED);
    assert_int_equal(bide_wait_recovered(queue, BIDE_FOREVER, NULL), BIDE_OK);
}

static void submit(bide_op *op)
{
    op->cq = cq;
    op->done = record_completion;
    assert_int_equal(submit_one(queue, op), 1);
    assert_int_equal(op->status, BIDE_PENDING);
}

/* Submits, waits, answers the code. */
static int call(bide_op *op)
{
    op->cq = cq;
    op->done = record_completion;
    size_t before = completed_count;
    int pending = submit_one(queue, op);
    while (pending > 0 && completed_count == before)
        bide_cq_wait(cq, BIDE_FOREVER);
    return op->status;
}

static int delete_job(uint64_t id)
{
    bide_op op = lease_op(cq, BIDE_OP_DELETE, id, 0);
    return call(&op);
}

static bide_state state_of(uint64_t id)
{
    bide_job job;
    bide_op op = {.kind = BIDE_OP_JOB_STATS, .query = {.id = id, .job = &job}};
    if (call(&op) != BIDE_OK)
        return BIDE_STATE_GONE;
    bide_state now = job.state;
    bide_job_clear(&job);
    return now;
}

static bool recovering(void)
{
    return bide_wait_recovered(queue, 0, NULL) == BIDE_TIMED_OUT;
}

/* ---- ops by id ---- */

static void op_by_id_loads_its_job_first(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 100; id++)
        fake_row(fake, id);
    open_at(GATE_SCAN);
    bide_job job;
    bide_op op = {.kind = BIDE_OP_PEEK, .query = {.id = 77, .job = &job}};
    assert_int_equal(call(&op), BIDE_OK);
    assert_int_equal(job.id, 77);
    assert_memory_equal(job.body, FAKE_BODY, job.body_size);
    bide_job_clear(&job);
    assert_true(recovering());
    assert_int_equal(state_of(101), BIDE_STATE_GONE); /* above all that is stored */
    finish_loading();
    assert_int_equal(state_of(77), BIDE_STATE_READY);
}

static void every_op_by_id_loads_its_job(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 20; id++)
        fake_row(fake, id);
    open_at(GATE_SCAN);
    bide_job job;
    memset(&job, 0, sizeof(job));
    bide_finish_item finish[2] = {{.id = 1}, {.id = 2, .keep = true, .retain_ms = 100000}};
    bide_touch_item touch[1] = {{.id = 3, .token = 1}};
    const struct {
        bide_op op;
        int code;
    } ops[] = {
        {{.kind = BIDE_OP_FINISH_MANY, .finish_many = {.items = finish, .count = 2}}, BIDE_OK},
        {{.kind = BIDE_OP_TOUCH_MANY, .touch_many = {.items = touch, .count = 1}}, BIDE_OK},
        {{.kind = BIDE_OP_RESERVE_JOB, .reserve_job = {.id = 4, .job = &job}}, BIDE_OK},
        {{.kind = BIDE_OP_DONE, .finish = {.id = 5, .retain_ms = 100000}}, BIDE_OK},
        {{.kind = BIDE_OP_RELEASE, .release = {.id = 6, .token = 1}}, BIDE_LEASE_LOST},
        {{.kind = BIDE_OP_GIVE_BACK, .lease = {.id = 7, .token = 1}}, BIDE_LEASE_LOST},
        {{.kind = BIDE_OP_FAIL, .fail = {.id = 8, .retry_in_ms = 9000}}, BIDE_OK},
        {{.kind = BIDE_OP_BURY, .bury = {.id = 9, .priority = BIDE_KEEP}}, BIDE_OK},
        {{.kind = BIDE_OP_KICK_JOB, .lease = {.id = 10}}, BIDE_WRONG_STATE},
        {{.kind = BIDE_OP_TOUCH, .touch = {.id = 11, .token = 1}}, BIDE_LEASE_LOST},
        {{.kind = BIDE_OP_UPDATE,
          .update = {.id = 12,
                     .priority = 5,
                     .delay_ms = BIDE_KEEP,
                     .run_at_ms = BIDE_KEEP,
                     .ttr_ms = BIDE_KEEP}},
         BIDE_OK},
        {{.kind = BIDE_OP_CANCEL, .lease = {.id = 13}}, BIDE_OK},
        {{.kind = BIDE_OP_RESULT, .fetch = {.id = 14}}, BIDE_WRONG_STATE},
        {{.kind = BIDE_OP_WAIT, .wait = {.id = 15}}, BIDE_TIMED_OUT},
        {{.kind = BIDE_OP_DELETE, .lease = {.id = 16}}, BIDE_OK},
    };
    for (size_t i = 0; i < COUNT_OF(ops); i++) {
        bide_op op = ops[i].op;
        int code = call(&op);
        if (code != ops[i].code)
            fail_msg("%s: %d, not %d", bide_op_name(op.kind), code, ops[i].code);
    }
    bide_job_clear(&job);
    assert_int_equal(finish[0].status, BIDE_OK);
    assert_int_equal(finish[1].status, BIDE_OK);
    assert_int_equal(touch[0].status, BIDE_LEASE_LOST);
    assert_true(recovering());
    finish_loading();
    static const struct {
        uint64_t id;
        bide_state state;
    } then[] = {{1, BIDE_STATE_GONE},  {2, BIDE_STATE_DONE},    {4, BIDE_STATE_RESERVED},
                {5, BIDE_STATE_DONE},  {8, BIDE_STATE_DELAYED}, {9, BIDE_STATE_BURIED},
                {13, BIDE_STATE_GONE}, {16, BIDE_STATE_GONE},   {20, BIDE_STATE_READY},
                {12, BIDE_STATE_READY}};
    for (size_t i = 0; i < COUNT_OF(then); i++)
        assert_int_equal(state_of(then[i].id), then[i].state);
}

static void scan_does_not_overwrite_a_job_loaded_early(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 10; id++)
        fake_row(fake, id);
    open_at(GATE_SCANNED); /* all rows are in hand */
    assert_int_equal(delete_job(3), BIDE_OK);
    assert_int_equal(fake_stored(fake, 3).id, 0);
    bide_op bury = {.kind = BIDE_OP_BURY, .bury = {.id = 4, .priority = BIDE_KEEP}};
    assert_int_equal(call(&bury), BIDE_OK);
    bide_op fetch = {.kind = BIDE_OP_JOB_STATS, .query = {.id = 11}};
    bide_job job;
    fetch.query.job = &job;
    assert_int_equal(call(&fetch), BIDE_NOT_FOUND);
    finish_loading();
    assert_int_equal(state_of(3), BIDE_STATE_GONE);
    assert_int_equal(state_of(4), BIDE_STATE_BURIED);
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, 8);
    assert_int_equal(stats.jobs.buried, 1);
}

static void many_jobs_may_be_deleted_during_loading(void **state)
{
    (void)state;
    enum { MANY = 1000 };
    for (uint64_t id = 1; id <= MANY; id++)
        fake_row(fake, id);
    open_at(GATE_SCAN);
    static bide_op ops[MANY];
    memset(ops, 0, sizeof(ops));
    for (size_t i = 0; i < MANY; i += 2) {
        ops[i] = lease_op(cq, BIDE_OP_DELETE, 1 + i, 0);
        assert_int_equal(submit_one(queue, &ops[i]), 1);
    }
    await_completions(cq, MANY / 2);
    finish_loading();
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, MANY / 2);
    for (uint64_t id = 1; id <= MANY; id++)
        assert_int_equal(fake_stored(fake, id).id, id % 2 == 0 ? id : 0);
}

static void job_whose_fetch_failed_is_loaded_by_the_scan(void **state)
{
    (void)state;
    fake_row(fake, 5);
    fake->fetch_code = BIDE_EIO;
    open_at(GATE_SCAN);
    bide_op op = lease_op(cq, BIDE_OP_DELETE, 5, 0);
    assert_int_not_equal(call(&op), BIDE_OK);
    finish_loading();
    assert_int_equal(state_of(5), BIDE_STATE_READY);
}

static void failed_fetch_is_not_reported_as_not_found(void **state)
{
    (void)state;
    fake_row(fake, 5);
    fake->fetch_code = BIDE_EIO;
    open_at(GATE_SCAN);
    assert_int_equal(delete_job(5), BIDE_EIO);
}

static void scan_does_not_quarantine_a_job_being_fetched(void **state)
{
    (void)state;
    fake_row(fake, 5);
    gate_shut(fake, GATE_FETCHED);
    open_at(GATE_SCANNED); /* the scan has the row in hand */
    bide_job job;
    bide_op op = {.kind = BIDE_OP_JOB_STATS, .query = {.id = 5, .job = &job}};
    submit(&op);
    gate_await(fake, GATE_FETCHED, 1); /* it is loaded, but the fetch has not returned */
    bide_recovery progress;
    gate_open(fake, GATE_SCANNED);
    /* The end of the loading waits for the fetch. */
    assert_int_equal(bide_wait_recovered(queue, 100, &progress), BIDE_TIMED_OUT);
    gate_open(fake, GATE_FETCHED);
    assert_int_equal(bide_wait_recovered(queue, BIDE_FOREVER, &progress), BIDE_OK);
    while (completed_count < 1)
        bide_cq_wait(cq, BIDE_FOREVER);
    bide_job_clear(&job);
    assert_int_equal(progress.loaded, 1);
    assert_int_equal(progress.failed, 0);
    assert_int_equal(fake_stored(fake, 5).id, 5);
}

/* ---- ops that need all jobs ---- */

static void ops_that_need_all_jobs_wait_and_then_run_in_order(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 40; id++)
        fake_row(fake, id)->state = id > 35 ? BIDE_STATE_BURIED : BIDE_STATE_READY;
    struct bi_image *keyed = fake_row(fake, 41);
    keyed->key = bide_buf_new("taken", 5);
    open_at(GATE_SCAN);
    char names[4][8] = {"old", "new", "taken", "fresh"};
    bide_put_options taken = BIDE_PUT_OPTIONS_INIT, fresh = BIDE_PUT_OPTIONS_INIT;
    taken.key = text(names[2]);
    fresh.key = text(names[3]);
    bide_job job;
    bide_topic_stats topic;
    bide_op ops[] = {
        {.kind = BIDE_OP_PUT, .put = {.topic = text(names[0]), .options = &taken}},
        {.kind = BIDE_OP_PUT, .put = {.topic = text(names[1]), .options = &fresh}},
        {.kind = BIDE_OP_FIND,
         .query = {.topic = text(names[1]), .key = text(names[3]), .job = &job}},
        {.kind = BIDE_OP_KICK, .kick = {.topic = text(names[0]), .max = 3}},
        {.kind = BIDE_OP_PURGE, .purge = {.topic = text(names[0]), .state = BIDE_STATE_BURIED}},
        {.kind = BIDE_OP_TOPIC_STATS, .topic_stats = {.topic = text(names[0]), .stats = &topic}},
    };
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        submit(&ops[i]);
    memset(names, '#', sizeof(names)); /* the caller goes on */
    memset(&taken, '#', sizeof(taken));
    memset(&fresh, '#', sizeof(fresh));
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    finish_loading();
    while (completed_count < COUNT_OF(ops))
        bide_cq_wait(cq, BIDE_FOREVER);
    assert_int_equal(ops[0].status, BIDE_EXISTS);
    assert_int_equal(ops[0].put.id, 41);
    assert_int_equal(ops[1].status, BIDE_OK);
    assert_int_equal(ops[2].status, BIDE_OK);
    assert_int_equal(job.id, ops[1].put.id);
    bide_job_clear(&job);
    assert_int_equal(ops[3].kick.count, 3);
    assert_int_equal(ops[4].purge.count, 2);
    assert_int_equal(topic.jobs.ready, 35 + 3 + 1);
    assert_int_equal(topic.jobs.buried, 0);
    assert_ptr_equal(ops[0].put.options, &taken); /* the caller's own pointers */
    assert_ptr_equal(ops[3].kick.topic.data, names[0]);
}

static void lists_and_stats_wait_for_recovery(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 5; id++)
        fake_row(fake, id);
    open_at(GATE_SCAN);
    char cursor[BIDE_CURSOR_SIZE] = "", more[BIDE_CURSOR_SIZE] = "", most[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[8], first;
    bide_topic_stats topics[4], waiting[4];
    bide_stats stats;
    bide_op ops[] = {
        {.kind = BIDE_OP_LIST, .list = {.cursor = cursor, .jobs = jobs, .job_max = 8}},
        {.kind = BIDE_OP_TOPICS, .topics = {.cursor = more, .topics = topics, .topic_max = 4}},
        {.kind = BIDE_OP_WAITING, .topics = {.cursor = most, .topics = waiting, .topic_max = 4}},
        {.kind = BIDE_OP_STATS, .stats = {.stats = &stats}},
        {.kind = BIDE_OP_PEEK_FIRST,
         .query = {.topic = text("old"), .state = BIDE_STATE_READY, .job = &first}},
        {.kind = BIDE_OP_RESUME, .topic = {.topic = text("old")}},
    };
    for (size_t i = 0; i < COUNT_OF(ops); i++)
        submit(&ops[i]);
    finish_loading();
    while (completed_count < COUNT_OF(ops))
        bide_cq_wait(cq, BIDE_FOREVER);
    for (size_t i = 0; i + 1 < COUNT_OF(ops); i++)
        assert_int_equal(ops[i].status, BIDE_OK);
    assert_int_equal(ops[0].list.count, 5);
    assert_int_equal(ops[1].topics.count, 1);
    assert_int_equal(ops[2].topics.count, 0);
    assert_int_equal(stats.jobs.ready, 5);
    assert_int_equal(first.id, 1);
    for (size_t i = 0; i < 5; i++)
        bide_job_clear(&jobs[i]);
    bide_job_clear(&first);
}

static void put_waits_for_loading_if_topics_have_a_limit(void **state)
{
    (void)state;
    fake_row(fake, 1);
    gate_shut(fake, GATE_SCAN);
    queue = fake_open(fake, "slow:?max_jobs_per_topic=1", NULL);
    bide_op op = put_op(cq, "old");
    submit(&op);
    finish_loading();
    while (completed_count < 1)
        bide_cq_wait(cq, BIDE_FOREVER);
    assert_int_equal(op.status, BIDE_TOPIC_FULL);
}

/* ---- what goes on meanwhile ---- */

static void puts_without_a_key_and_reserves_work_during_loading(void **state)
{
    (void)state;
    fake_row(fake, 1);
    open_at(GATE_SCAN);
    bide_op put = put_op(cq, "new");
    assert_int_equal(call(&put), BIDE_OK);
    assert_int_equal(put.put.id, 2);
    bide_slice name = text("new");
    bide_job job;
    bide_op reserve = reserve_op(cq, &name, &job);
    assert_int_equal(call(&reserve), BIDE_OK);
    assert_int_equal(job.id, 2);
    assert_int_equal(bide_delete(queue, job.id, job.token), BIDE_OK);
    bide_job_clear(&job);
    assert_int_equal(bide_ping(queue), BIDE_OK);
    assert_true(recovering());
}

static void waiting_reserve_is_served_by_loaded_jobs(void **state)
{
    (void)state;
    fake_row(fake, 1);
    open_at(GATE_SCAN);
    bide_slice name = text("old");
    bide_job job;
    bide_op reserve = reserve_op(cq, &name, &job);
    reserve.reserve.timeout_ms = BIDE_FOREVER;
    submit(&reserve);
    finish_loading();
    while (completed_count < 1)
        bide_cq_wait(cq, BIDE_FOREVER);
    assert_int_equal(reserve.status, BIDE_OK);
    assert_int_equal(job.id, 1);
    assert_memory_equal(job.body, FAKE_BODY, job.body_size);
    bide_job_clear(&job);
}

static void stats_without_completion_queue_are_rejected(void **state)
{
    (void)state;
    fake_row(fake, 1);
    open_at(GATE_SCAN);
    bide_stats stats;
    bide_op op = {.kind = BIDE_OP_STATS, .stats = {.stats = &stats}};
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_EBUSY);
    assert_non_null(strstr(op.error, "bide_wait_recovered"));
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[2];
    bide_op list = {.kind = BIDE_OP_LIST, .list = {.cursor = cursor, .jobs = jobs, .job_max = 2}};
    assert_int_equal(submit_one(queue, &list), 0);
    assert_int_equal(list.status, BIDE_EBUSY);
    finish_loading();
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_OK);
}

/* ---- cancelling ---- */

static void op_that_waits_for_recovery_can_be_cancelled(void **state)
{
    (void)state;
    fake_row(fake, 1);
    open_at(GATE_SCAN);
    bide_op first = {.kind = BIDE_OP_KICK, .kick = {.topic = text("old"), .max = 1}};
    bide_op second = first;
    submit(&first);
    submit(&second);
    assert_int_equal(bide_cancel_op(queue, &first), BIDE_OK);
    while (completed_count < 1)
        bide_cq_wait(cq, BIDE_FOREVER);
    assert_ptr_equal(completed[0], &first);
    assert_int_equal(first.status, BIDE_CANCELLED);
    finish_loading();
    while (completed_count < 2)
        bide_cq_wait(cq, BIDE_FOREVER);
    assert_int_equal(second.status, BIDE_OK);
    assert_int_equal(completed_count, 2);
}

static void a_wait_whose_job_is_being_fetched_can_be_cancelled(void **state)
{
    (void)state;
    fake_row(fake, 5);
    gate_shut(fake, GATE_FETCH);
    open_at(GATE_SCAN);
    bide_op wait = {.kind = BIDE_OP_WAIT, .wait = {.id = 5, .timeout_ms = BIDE_FOREVER}};
    submit(&wait);
    gate_await(fake, GATE_FETCH, 1);
    assert_int_equal(bide_cancel_op(queue, &wait), BIDE_OK);
    /* Waits for the same fetch, behind the wait: when it has completed, the wait was run. */
    bide_job job;
    bide_op peek = {.kind = BIDE_OP_JOB_STATS, .cq = cq, .query = {.id = 5, .job = &job}};
    assert_int_equal(submit_one(queue, &peek), 1);
    gate_open(fake, GATE_FETCH);
    while (peek.status == BIDE_PENDING)
        bide_cq_wait(cq, BIDE_FOREVER);
    bide_job_clear(&job);
    bide_cq_drain(cq, 0);
    int status = wait.status;
    if (status == BIDE_PENDING) { /* so that the test ends */
        bide_cancel_op(queue, &wait);
        while (completed_count < 1)
            bide_cq_wait(cq, BIDE_FOREVER);
    }
    assert_int_equal(status, BIDE_CANCELLED);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(op_by_id_loads_its_job_first),
        TEST(every_op_by_id_loads_its_job),
        TEST(scan_does_not_overwrite_a_job_loaded_early),
        TEST(many_jobs_may_be_deleted_during_loading),
        TEST(job_whose_fetch_failed_is_loaded_by_the_scan),
        TEST(failed_fetch_is_not_reported_as_not_found),
        TEST(scan_does_not_quarantine_a_job_being_fetched),
        TEST(ops_that_need_all_jobs_wait_and_then_run_in_order),
        TEST(lists_and_stats_wait_for_recovery),
        TEST(put_waits_for_loading_if_topics_have_a_limit),
        TEST(puts_without_a_key_and_reserves_work_during_loading),
        TEST(waiting_reserve_is_served_by_loaded_jobs),
        TEST(stats_without_completion_queue_are_rejected),
        TEST(op_that_waits_for_recovery_can_be_cancelled),
        TEST(a_wait_whose_job_is_being_fetched_can_be_cancelled),
    };
    return cmocka_run_group_tests_name("recovery", tests, NULL, NULL);
}
