/* SPDX-License-Identifier: MIT */
/*
 * Ops whose bodies are read from the store, and what may happen while they are.
 */
#include "fake_store.h"

static struct fake_store *fake;
static bide *queue;
static bide_cq *cq;
static bide_slice old;

/* A queue that has loaded ten jobs, without their bodies. */
static int set_up(void **state)
{
    (void)state;
    fake = fake_new();
    for (uint64_t id = 1; id <= 10; id++)
        fake_row(fake, id);
    old = text("old");
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    queue = fake_open(fake, "slow:?cache_bytes=1", NULL); /* nothing is read ahead, or stays */
    fake_await_ready(queue);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return fake_tear_down(fake, queue, cq);
}

static void set_read_faults(unsigned retry, uint64_t bad)
{
    pthread_mutex_lock(&fake->lock);
    fake->retry = retry;
    fake->bad = bad;
    pthread_mutex_unlock(&fake->lock);
}

static void submit(bide_op *op)
{
    assert_int_equal(submit_one(queue, op), 1);
}

static bide_state state_of(uint64_t id)
{
    bide_job job;
    if (bide_job_stats(queue, id, &job) != BIDE_OK)
        return BIDE_STATE_GONE;
    bide_state now = job.state;
    bide_job_clear(&job);
    return now;
}

static uint32_t reserves_of(uint64_t id)
{
    bide_job job;
    assert_int_equal(bide_job_stats(queue, id, &job), BIDE_OK);
    uint32_t reserves = job.reserves;
    bide_job_clear(&job);
    return reserves;
}

static void assert_body(const bide_job *job)
{
    assert_int_equal(job->body_size, strlen(FAKE_BODY));
    assert_non_null(job->body);
    assert_memory_equal(job->body, FAKE_BODY, job->body_size);
}

/* ---- bodies that come ---- */

static void a_blocking_caller_gets_its_body(void **state)
{
    (void)state;
    bide_job job;
    assert_int_equal(bide_reserve(queue, "old", 0, &job), BIDE_OK);
    assert_int_equal(job.id, 1);
    assert_body(&job);
    assert_int_equal(bide_delete(queue, job.id, job.token), BIDE_OK);
    bide_job_clear(&job);
    bide_buf *body;
    assert_int_equal(bide_body(queue, 2, &body), BIDE_OK);
    assert_int_equal(bide_buf_size(body), strlen(FAKE_BODY));
    bide_buf_unref(body);
}

static void other_calls_are_served_while_a_body_is_read(void **state)
{
    (void)state;
    gate_shut(fake, GATE_READ);
    bide_job job;
    bide_op op = reserve_op(cq, &old, &job);
    submit(&op);
    gate_await(fake, GATE_READ, 1);
    uint64_t id;
    assert_int_equal(bide_put(queue, "new", "x", 1, NULL, &id), BIDE_OK);
    assert_int_equal(state_of(1), BIDE_STATE_RESERVED);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
    gate_open(fake, GATE_READ);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_OK);
    assert_body(&job);
    bide_job_clear(&job);
}

static void bodies_of_many_ops_are_read_in_batches(void **state)
{
    (void)state;
    enum { MANY = 200 };
    static bide_op ops[MANY];
    static bide_job jobs[MANY];
    memset(ops, 0, sizeof(ops));
    gate_shut(fake, GATE_READ);
    for (size_t i = 0; i < MANY; i++) {
        ops[i] =
            (bide_op){.kind = BIDE_OP_PEEK, .cq = cq, .query = {.id = 1 + i % 10, .job = &jobs[i]}};
        submit(&ops[i]);
    }
    gate_open(fake, GATE_READ);
    await_completions(cq, MANY);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(ops[i].status, BIDE_OK);
        assert_int_equal(jobs[i].id, 1 + i % 10);
        assert_body(&jobs[i]);
        bide_job_clear(&jobs[i]);
    }
    assert_true(gate_arrived(fake, GATE_READ) < MANY); /* many in one go */
}

/* One read holds no more than a page of large bodies, however many ops wait. */
static void large_bodies_are_read_one_after_another(void **state)
{
    (void)state;
    enum { OPS = 4 };
    bide_op ops[OPS];
    bide_job jobs[OPS];
    static const char body[BIDE_BATCH_BYTES];
    assert_int_equal(fake_tear_down(fake, queue, cq), 0);
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    fake = fake_new();
    for (uint64_t id = 1; id <= OPS; id++) {
        struct bi_image *image = fake_row(fake, id);
        bide_buf_unref(image->body);
        image->body = bide_buf_new(body, sizeof(body));
        image->body_size = sizeof(body);
    }
    queue = fake_open(fake, "slow:?cache_bytes=1&max_job_size=16MiB", NULL);
    fake_await_ready(queue);
    gate_shut(fake, GATE_READ);
    for (size_t i = 0; i < OPS; i++) {
        ops[i] = (bide_op){.kind = BIDE_OP_PEEK, .cq = cq, .query = {.id = 1 + i, .job = &jobs[i]}};
        submit(&ops[i]);
    }
    gate_open(fake, GATE_READ);
    await_completions(cq, OPS);
    for (size_t i = 0; i < OPS; i++) {
        assert_int_equal(ops[i].status, BIDE_OK);
        bide_job_clear(&jobs[i]);
    }
    assert_int_equal(gate_arrived(fake, GATE_READ), OPS);
}

static void temporary_read_error_is_retried(void **state)
{
    (void)state;
    set_read_faults(3, 0);
    bide_job job;
    assert_int_equal(bide_peek(queue, 4, &job), BIDE_OK);
    assert_body(&job);
    bide_job_clear(&job);
    assert_int_equal(gate_arrived(fake, GATE_READ), 4);
}

static void list_keeps_a_copy_of_its_search_text(void **state)
{
    (void)state;
    char wanted[] = FAKE_BODY;
    char topic[] = "old";
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[16];
    bide_op op = {.kind = BIDE_OP_LIST,
                  .cq = cq,
                  .list = {.topic = text(topic),
                           .filter = {.text = text(wanted)},
                           .cursor = cursor,
                           .jobs = jobs,
                           .job_max = 16}};
    gate_shut(fake, GATE_READ);
    submit(&op);
    memset(wanted, '#', sizeof(wanted));
    memset(topic, '#', sizeof(topic));
    gate_open(fake, GATE_READ);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(op.list.count, 10);
    assert_ptr_equal(op.list.filter.text.data, wanted);
    for (size_t i = 0; i < op.list.count; i++)
        bide_job_clear(&jobs[i]);
}

static void a_page_with_bodies_needs_a_completion_queue(void **state)
{
    (void)state;
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_job jobs[16];
    bide_op op = {.kind = BIDE_OP_LIST,
                  .list = {.with_body = true, .cursor = cursor, .jobs = jobs, .job_max = 16}};
    assert_int_equal(submit_one(queue, &op), 0);
    assert_int_equal(op.status, BIDE_EINVAL);
    assert_int_equal(op.list.count, 0);
}

/* ---- bodies that cannot be read ---- */

static void unreadable_job_is_buried_and_the_next_is_reserved(void **state)
{
    (void)state;
    set_read_faults(0, 1);
    bide_job job;
    assert_int_equal(bide_reserve(queue, "old", BIDE_FOREVER, &job), BIDE_OK);
    assert_int_equal(job.id, 2);
    assert_body(&job);
    bide_job_clear(&job);
    assert_int_equal(bide_job_stats(queue, 1, &job), BIDE_OK);
    assert_int_equal(job.state, BIDE_STATE_BURIED);
    assert_string_equal(job.last_error, "the page is torn");
    bide_job_clear(&job);
    assert_int_equal(fake_stored(fake, 1).state, BIDE_STATE_BURIED);
}

static void set_failing(bool (*fails)(uint64_t id, unsigned nth), bool out_of_memory)
{
    pthread_mutex_lock(&fake->lock);
    fake->fails = fails;
    fake->out_of_memory = out_of_memory;
    pthread_mutex_unlock(&fake->lock);
}

static bool fails_in_turn(uint64_t id, unsigned nth)
{
    return (id + nth) % 2 == 0;
}

/* Every attempt fails for one of the jobs, but never for the same one. */
static void reserve_of_many_retains_the_bodies_that_were_read(void **state)
{
    (void)state;
    bide_job jobs[4];
    bide_op op = reserve_op(cq, &old, jobs);
    op.reserve.job_max = 4;
    set_failing(fails_in_turn, false);
    submit(&op);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(op.reserve.count, 4);
    for (uint64_t i = 0; i < 4; i++) {
        assert_int_equal(jobs[i].id, i + 1);
        assert_body(&jobs[i]);
        bide_job_clear(&jobs[i]);
    }
}

static bool first_fails_and_second_once(uint64_t id, unsigned nth)
{
    return id == 1 || (id == 2 && nth == 1);
}

/* A reserve that loses a damaged job retries the body of the next one as long as that of any. */
static void temporary_read_error_behind_a_damaged_job_is_retried(void **state)
{
    (void)state;
    bide_job job, other;
    bide_op op = reserve_op(cq, &old, &job);
    op.reserve.timeout_ms = BIDE_FOREVER;
    assert_int_equal(bide_pause(queue, "old", 3600000), BIDE_OK);
    submit(&op);
    set_failing(first_fails_and_second_once, false);
    assert_int_equal(bide_resume(queue, "old"), BIDE_OK);
    while (bide_cq_wait(cq, 10) == 0) {
        assert_int_equal(bide_peek(queue, 9, &other), BIDE_OK); /* the store can be read */
        bide_job_clear(&other);
    }
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(state_of(1), BIDE_STATE_BURIED);
    assert_int_equal(job.id, 2);
    assert_body(&job);
    bide_job_clear(&job);
}

static bool first_fails(uint64_t id, unsigned nth)
{
    (void)nth;
    return id == 1;
}

static void body_without_memory_is_no_damage(void **state)
{
    (void)state;
    bide_job job, other;
    bide_op op = reserve_op(cq, &old, &job);
    set_failing(first_fails, true);
    submit(&op);
    while (bide_cq_wait(cq, 10) == 0) {
        assert_int_equal(bide_peek(queue, 9, &other), BIDE_OK);
        bide_job_clear(&other);
    }
    assert_int_equal(op.status, BIDE_ENOMEM);
    assert_int_equal(state_of(1), BIDE_STATE_READY);
    set_failing(NULL, false);
    assert_int_equal(bide_reserve(queue, "old", 0, &job), BIDE_OK);
    assert_int_equal(job.id, 1);
    bide_job_clear(&job);
}

static void peek_of_unreadable_job_fails(void **state)
{
    (void)state;
    set_read_faults(0, 3);
    bide_job job;
    assert_int_equal(bide_peek(queue, 3, &job), BIDE_EIO);
    assert_non_null(strstr(bide_last_error(), "the page is torn"));
    assert_int_equal(state_of(3), BIDE_STATE_READY);
    bide_buf *body = NULL;
    assert_int_equal(bide_body(queue, 3, &body), BIDE_EIO);
    assert_null(body);
}

static void reserve_left_without_jobs_waits_again(void **state)
{
    (void)state;
    for (uint64_t id = 2; id <= 10; id++)
        assert_int_equal(bide_delete(queue, id, 0), BIDE_OK);
    set_read_faults(0, 1);
    gate_shut(fake, GATE_READ);
    bide_job job;
    bide_op op = reserve_op(cq, &old, &job);
    op.reserve.timeout_ms = BIDE_FOREVER;
    submit(&op);
    gate_await(fake, GATE_READ, 1);
    gate_open(fake, GATE_READ);
    bide_state gone;
    assert_int_equal(bide_wait(queue, 1, BIDE_FOREVER, &gone, NULL), BIDE_OK); /* it is buried */
    assert_int_equal(gone, BIDE_STATE_BURIED);
    uint64_t id;
    assert_int_equal(bide_put(queue, "old", "fresh", 5, NULL, &id), BIDE_OK);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(job.id, id);
    bide_job_clear(&job);
}

static void reserve_cancelled_while_its_body_is_read_completes(void **state)
{
    (void)state;
    for (uint64_t id = 2; id <= 10; id++)
        assert_int_equal(bide_delete(queue, id, 0), BIDE_OK);
    set_read_faults(0, 1);
    gate_shut(fake, GATE_READ);
    bide_job job;
    bide_op op = reserve_op(cq, &old, &job);
    op.reserve.timeout_ms = BIDE_FOREVER;
    submit(&op);
    gate_await(fake, GATE_READ, 1);
    assert_int_equal(bide_cancel_op(queue, &op), BIDE_OK);
    gate_open(fake, GATE_READ);
    bide_state gone;
    assert_int_equal(bide_wait(queue, 1, BIDE_FOREVER, &gone, NULL), BIDE_OK); /* it is buried */
    bide_job other;
    bide_peek(queue, 1, &other); /* read behind it: by now the call is answered, or waits */
    bide_cq_drain(cq, 0);
    int status = op.status;
    if (status == BIDE_PENDING) { /* so that the test ends */
        bide_cancel_op(queue, &op);
        await_completions(cq, 1);
    }
    assert_int_equal(status, BIDE_CANCELLED);
}

/* ---- commits that fail meanwhile ---- */

static void failed_commit_fails_a_reserve_being_read(void **state)
{
    (void)state;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 3; /* so that its reserve is stored */
    uint64_t id;
    assert_int_equal(bide_put(queue, "limited", FAKE_BODY, 4, &options, &id), BIDE_OK);
    gate_shut(fake, GATE_READ);
    gate_shut(fake, GATE_COMMIT);
    bide_slice name = text("limited");
    bide_job job;
    bide_op op = reserve_op(cq, &name, &job);
    op.reserve.timeout_ms = BIDE_FOREVER;
    submit(&op);
    gate_await(fake, GATE_READ, 1);
    pthread_mutex_lock(&fake->lock);
    fake->commit_code = BIDE_EIO;
    fake->commit_failures = 1;
    pthread_mutex_unlock(&fake->lock);
    gate_open(fake, GATE_COMMIT);
    await_completions(cq, 1); /* although nothing was read yet */
    assert_int_equal(op.status, BIDE_EIO);
    assert_string_equal(op.error, FAILURE);
    assert_int_equal(op.reserve.count, 0);
    assert_int_equal(state_of(id), BIDE_STATE_READY);
    assert_int_equal(reserves_of(id), 0);
    gate_open(fake, GATE_READ);
    assert_int_equal(bide_reserve(queue, "limited", BIDE_FOREVER, &job), BIDE_OK);
    assert_int_equal(job.id, id);
    assert_body(&job);
    bide_job_clear(&job);
    assert_int_equal(bide_cq_drain(cq, 0), 0);
}

static void failed_commit_keeps_an_unlogged_reserve(void **state)
{
    (void)state;
    gate_shut(fake, GATE_READ);
    bide_job job;
    bide_op op = reserve_op(cq, &old, &job);
    submit(&op);
    gate_await(fake, GATE_READ, 1);
    pthread_mutex_lock(&fake->lock);
    fake->commit_code = BIDE_EIO;
    fake->commit_failures = 1;
    pthread_mutex_unlock(&fake->lock);
    assert_int_equal(bide_put(queue, "new", "x", 1, NULL, NULL), BIDE_EIO);
    gate_open(fake, GATE_READ);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_OK);
    assert_int_equal(job.id, 1);
    assert_body(&job);
    bide_job_clear(&job);
}

/* ---- closing meanwhile ---- */

static void close_waits_for_a_running_read(void **state)
{
    (void)state;
    gate_shut(fake, GATE_READ);
    bide_job job, looked_at;
    memset(&job, 0, sizeof(job));
    memset(&looked_at, 0, sizeof(looked_at));
    bide_op op = reserve_op(cq, &old, &job);
    op.reserve.timeout_ms = BIDE_FOREVER;
    bide_op peek = {.kind = BIDE_OP_PEEK, .cq = cq, .query = {.id = 5, .job = &looked_at}};
    submit(&op);
    gate_await(fake, GATE_READ, 1);
    submit(&peek); /* behind it */
    pthread_t closing;
    pthread_create(&closing, NULL, fake_close_queue, queue);
    gate_open(fake, GATE_READ);
    pthread_join(closing, NULL);
    queue = NULL;
    assert_int_equal(bide_cq_drain(cq, 0), 2);
    assert_true(op.status == BIDE_OK || op.status == BIDE_CLOSED);
    assert_int_equal(op.reserve.count, op.status == BIDE_OK ? 1 : 0);
    if (op.status == BIDE_OK)
        assert_body(&job);
    assert_true(peek.status == BIDE_OK || peek.status == BIDE_CLOSED);
    bide_job_clear(&job);
    bide_job_clear(&looked_at);
}

static void close_does_not_wait_for_an_unreadable_store(void **state)
{
    (void)state;
    set_read_faults(FOR_EVER, 0);
    bide_job job;
    memset(&job, 0, sizeof(job));
    bide_op op = reserve_op(cq, &old, &job);
    op.reserve.timeout_ms = BIDE_FOREVER;
    submit(&op);
    gate_await(fake, GATE_READ, 2);
    assert_int_equal(bide_close(queue), BIDE_OK);
    queue = NULL;
    assert_int_equal(bide_cq_drain(cq, 0), 1);
    assert_int_equal(op.status, BIDE_CLOSED);
    assert_int_equal(op.reserve.count, 0);
}

/* ---- bounds ---- */

#define PENDING 3

static void reopen(const char *url)
{
    assert_int_equal(bide_close(queue), BIDE_OK);
    fake->closed = false;
    fake->number = 0; /* batches are counted anew */
    queue = fake_open(fake, url, NULL);
    fake_await_ready(queue);
}

static bide_op list_op(char *cursor, bide_job *jobs, size_t max)
{
    return (bide_op){.kind = BIDE_OP_LIST,
                     .cq = cq,
                     .list = {.topic = text("old"),
                              .with_body = true,
                              .cursor = cursor,
                              .jobs = jobs,
                              .job_max = max}};
}

static uint64_t pending(void)
{
    bide_stats stats;
    assert_int_equal(bide_queue_stats(queue, &stats), BIDE_OK);
    return stats.pending_ops;
}

/* As many ops as may be pending have bodies read for them. */
static void read_for_many(bide_op *peeks, bide_job *jobs)
{
    gate_shut(fake, GATE_READ);
    for (size_t i = 0; i < PENDING; i++) {
        peeks[i] =
            (bide_op){.kind = BIDE_OP_PEEK, .cq = cq, .query = {.id = 1 + i, .job = &jobs[i]}};
        submit(&peeks[i]);
    }
}

static void end_reads(const bide_op *peeks, bide_job *jobs)
{
    gate_open(fake, GATE_READ);
    await_completions(cq, PENDING);
    for (size_t i = 0; i < PENDING; i++) {
        assert_int_equal(peeks[i].status, BIDE_OK);
        assert_body(&jobs[i]);
        bide_job_clear(&jobs[i]);
    }
}

static void ops_waiting_for_reads_are_bounded(void **state)
{
    (void)state;
    static bide_op peeks[PENDING];
    static bide_job jobs[PENDING], page[2];
    char cursor[BIDE_CURSOR_SIZE] = "";
    reopen("slow:?cache_bytes=1&max_pending_ops=3");
    read_for_many(peeks, jobs);
    assert_int_equal(pending(), PENDING);
    bide_job job;
    bide_op peek = {.kind = BIDE_OP_PEEK, .cq = cq, .query = {.id = 9, .job = &job}};
    assert_int_equal(submit_one(queue, &peek), 0);
    assert_int_equal(peek.status, BIDE_EBUSY);
    bide_op list = list_op(cursor, page, 2);
    assert_int_equal(submit_one(queue, &list), 0);
    assert_int_equal(list.status, BIDE_EBUSY);
    assert_int_equal(list.list.count, 0);
    assert_string_equal(cursor, "");
    list.list.with_body = false; /* what needs no bodies goes on */
    assert_int_equal(submit_one(queue, &list), 0);
    assert_int_equal(list.status, BIDE_OK);
    assert_int_equal(list.list.count, 2);
    bide_job_clear(&page[0]);
    bide_job_clear(&page[1]);
    end_reads(peeks, jobs);
    assert_int_equal(pending(), 0);
    submit(&peek);
    await_completions(cq, 1);
    assert_int_equal(peek.status, BIDE_OK);
    bide_job_clear(&job);
}

static void *peek_blocking(void *arg)
{
    bide_job job;
    int code = bide_peek(queue, 9, &job);
    if (code == BIDE_OK)
        bide_job_clear(&job);
    *(int *)arg = code;
    return NULL;
}

static void *list_blocking(void *arg)
{
    bide_job jobs[2];
    char cursor[BIDE_CURSOR_SIZE] = "";
    bide_op op = list_op(cursor, jobs, 2);
    op.cq = NULL;
    int code = bide_list_page(queue, &op.list);
    for (size_t i = 0; i < op.list.count; i++)
        bide_job_clear(&jobs[i]);
    *(int *)arg = code;
    return NULL;
}

static void blocking_calls_wait_at_the_read_limit(void **state)
{
    (void)state;
    static bide_op peeks[PENDING];
    static bide_job jobs[PENDING];
    pthread_t threads[2];
    int codes[2] = {-1, -1};
    reopen("slow:?cache_bytes=1&max_pending_ops=3");
    read_for_many(peeks, jobs);
    pthread_create(&threads[0], NULL, peek_blocking, &codes[0]);
    pthread_create(&threads[1], NULL, list_blocking, &codes[1]);
    end_reads(peeks, jobs);
    for (int i = 0; i < 2; i++) {
        pthread_join(threads[i], NULL);
        assert_int_equal(codes[i], BIDE_OK);
    }
    assert_int_equal(pending(), 0);
}

static void ops_failed_by_a_commit_free_their_slots(void **state)
{
    (void)state;
    reopen("slow:?cache_bytes=1&max_pending_ops=3");
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 3; /* so that its reserve is stored */
    uint64_t id;
    assert_int_equal(bide_put(queue, "limited", FAKE_BODY, 4, &options, &id), BIDE_OK);
    gate_shut(fake, GATE_READ);
    gate_shut(fake, GATE_COMMIT);
    unsigned arrived = gate_arrived(fake, GATE_READ);
    pthread_mutex_lock(&fake->lock);
    fake->commit_code = BIDE_EIO;
    fake->commit_failures = 1;
    pthread_mutex_unlock(&fake->lock);
    bide_slice name = text("limited");
    bide_job job;
    bide_op op = reserve_op(cq, &name, &job);
    submit(&op);
    gate_await(fake, GATE_READ, arrived + 1);
    gate_open(fake, GATE_COMMIT);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_EIO);
    assert_int_equal(pending(), 0);
}

static int wait_to_back_up(struct store *store, const char *path, char *error)
{
    struct fake_store *on = (struct fake_store *)(void *)store;
    (void)path;
    (void)error;
    pthread_mutex_lock(&on->lock);
    fake_enter_gate(on, GATE_SCAN);
    pthread_mutex_unlock(&on->lock);
    return BIDE_OK;
}

static void waiting_backups_are_bounded(void **state)
{
    (void)state;
    static bide_op backups[PENDING + 1];
    struct store_ops ops = fake_store_ops;
    ops.backup = wait_to_back_up;
    fake->base.ops = &ops;
    reopen("slow:?max_pending_ops=3");
    gate_shut(fake, GATE_SCAN);
    for (int i = 0; i <= PENDING; i++) {
        backups[i] = (bide_op){.kind = BIDE_OP_BACKUP, .cq = cq, .backup = {.path = "copy"}};
        assert_int_equal(submit_one(queue, &backups[i]), i < PENDING);
    }
    assert_int_equal(backups[PENDING].status, BIDE_EBUSY);
    assert_int_equal(pending(), PENDING);
    gate_open(fake, GATE_SCAN);
    await_completions(cq, PENDING);
    for (int i = 0; i < PENDING; i++)
        assert_int_equal(backups[i].status, BIDE_OK);
    assert_int_equal(pending(), 0);
    assert_int_equal(bide_close(queue), BIDE_OK);
    queue = NULL; /* the store is on this stack */
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(a_blocking_caller_gets_its_body),
        TEST(other_calls_are_served_while_a_body_is_read),
        TEST(bodies_of_many_ops_are_read_in_batches),
        TEST(large_bodies_are_read_one_after_another),
        TEST(temporary_read_error_is_retried),
        TEST(list_keeps_a_copy_of_its_search_text),
        TEST(a_page_with_bodies_needs_a_completion_queue),
        TEST(unreadable_job_is_buried_and_the_next_is_reserved),
        TEST(reserve_of_many_retains_the_bodies_that_were_read),
        TEST(temporary_read_error_behind_a_damaged_job_is_retried),
        TEST(body_without_memory_is_no_damage),
        TEST(peek_of_unreadable_job_fails),
        TEST(reserve_left_without_jobs_waits_again),
        TEST(reserve_cancelled_while_its_body_is_read_completes),
        TEST(failed_commit_fails_a_reserve_being_read),
        TEST(failed_commit_keeps_an_unlogged_reserve),
        TEST(close_waits_for_a_running_read),
        TEST(close_does_not_wait_for_an_unreadable_store),
        TEST(ops_waiting_for_reads_are_bounded),
        TEST(blocking_calls_wait_at_the_read_limit),
        TEST(ops_failed_by_a_commit_free_their_slots),
        TEST(waiting_backups_are_bounded),
    };
    return cmocka_run_group_tests_name("reading", tests, NULL, NULL);
}
