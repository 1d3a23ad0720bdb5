/* SPDX-License-Identifier: MIT */
/*
 * How loading goes on when rows or the store are bad, how it is told, and closing in its midst.
 */
#include "fake_store.h"

static struct fake_store *fake;
static bide *queue;
static bide_cq *cq;

static int set_up(void **state)
{
    (void)state;
    fake = fake_new();
    queue = NULL;
    assert_int_equal(bide_cq_new(&cq), BIDE_OK);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    return fake_tear_down(fake, queue, cq);
}

static bide_recovery recovered(void)
{
    bide_recovery progress;
    assert_int_equal(bide_wait_recovered(queue, BIDE_FOREVER, &progress), BIDE_OK);
    return progress;
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

/* Waits until the store has set so many rows aside. */
static void await_quarantined(unsigned count)
{
    pthread_mutex_lock(&fake->lock);
    while (fake->quarantine_count < count)
        pthread_cond_wait(&fake->changed, &fake->lock);
    pthread_mutex_unlock(&fake->lock);
}

/* Waits until the store has a row that is told so by good(). */
static void await_row(uint64_t id, bool (*good)(const struct bi_image *))
{
    pthread_mutex_lock(&fake->lock);
    while (fake->rows[id] == NULL || !good(&fake->rows[id]->image))
        pthread_cond_wait(&fake->changed, &fake->lock);
    pthread_mutex_unlock(&fake->lock);
}

/* ---- rows ---- */

static void damaged_row_is_quarantined_and_the_others_are_loaded(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 100; id++)
        fake_row(fake, id);
    fake->rows[50]->damage = "the topic is no name";
    queue = fake_open(fake, "slow:", NULL);
    bide_recovery progress = recovered();
    assert_int_equal(progress.loaded, 99);
    assert_int_equal(progress.failed, 1);
    assert_int_equal(progress.total, 100);
    await_quarantined(1);
    assert_int_equal(fake->quarantined_id, 50);
    assert_string_equal(fake->quarantine_reason, "the topic is no name");
    assert_int_equal(state_of(50), BIDE_STATE_GONE);
    assert_int_equal(state_of(51), BIDE_STATE_READY);
}

static void invalid_row_is_quarantined(void **state)
{
    (void)state;
    fake_row(fake, 1)->key = bide_buf_new("key", 3);
    fake_row(fake, 2)->key = bide_buf_new("key", 3); /* two hold one key */
    fake_row(fake, 3)->ttr = 0;
    fake_row(fake, 4);
    queue = fake_open(fake, "slow:", NULL);
    bide_recovery progress = recovered();
    assert_int_equal(progress.loaded, 2);
    assert_int_equal(progress.failed, 2);
    await_quarantined(2);
    assert_int_equal(state_of(1), BIDE_STATE_READY);
    assert_int_equal(state_of(2), BIDE_STATE_GONE);
    assert_int_equal(state_of(3), BIDE_STATE_GONE);
    assert_int_equal(state_of(4), BIDE_STATE_READY);
}

static void damaged_row_that_an_op_names_is_counted_once(void **state)
{
    (void)state;
    fake_row(fake, 1);
    fake_row(fake, 2);
    fake->rows[2]->damage = "the state is none";
    gate_shut(fake, GATE_SCANNED);
    queue = fake_open(fake, "slow:", NULL);
    gate_await(fake, GATE_SCANNED, 1); /* the scan has it in hand, too */
    bide_op op = lease_op(cq, BIDE_OP_DELETE, 2, 0);
    assert_int_equal(submit_one(queue, &op), 1);
    await_completions(cq, 1);
    assert_int_equal(op.status, BIDE_NOT_FOUND);
    await_quarantined(1);
    gate_open(fake, GATE_SCANNED);
    bide_recovery progress = recovered();
    assert_int_equal(progress.failed, 1);
    assert_int_equal(progress.loaded, 1);
    assert_int_equal(fake->quarantine_count, 1);
}

/* ---- jobs that were being worked on ---- */

static bool is_counted(const struct bi_image *image)
{
    return !image->started && image->failures == 1;
}

static void very_many_started_jobs_are_all_counted(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 2000; id++) {
        struct bi_image *image = fake_row(fake, id);
        image->started = true;
        image->max_retries = 3;
    }
    queue = fake_open(fake, "slow:?batch_jobs=100", NULL);
    recovered();
    for (uint64_t id = 1; id <= 2000; id++)
        await_row(id, is_counted);
    assert_true(fake->largest <= 100);
}

/* ---- a store that cannot be read ---- */

static void failed_scan_is_retried(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 100; id++)
        fake_row(fake, id);
    fake->scan_failures = 2;
    fake->count_failures = 1;
    queue = fake_open(fake, "slow:", NULL);
    bide_recovery progress = recovered();
    assert_int_equal(progress.loaded, 100);
    assert_int_equal(progress.failed, 0);
    assert_int_equal(progress.total, 100);
}

static void queue_with_an_unreadable_store_can_be_closed(void **state)
{
    (void)state;
    fake_row(fake, 1);
    fake->scan_failures = FOR_EVER;
    queue = fake_open(fake, "slow:", NULL);
    assert_int_equal(bide_wait_recovered(queue, 0, NULL), BIDE_TIMED_OUT);
    gate_await(fake, GATE_SCANNED, 2); /* and tear_down() closes it */
}

/* ---- telling ---- */

static struct {
    bide_recovery seen[64];
    size_t count;
    pthread_mutex_t lock;
} reports = {.lock = PTHREAD_MUTEX_INITIALIZER};

static void on_progress(void *user, const bide_recovery *progress)
{
    assert(user == &reports);
    pthread_mutex_lock(&reports.lock);
    if (reports.count < COUNT_OF(reports.seen))
        reports.seen[reports.count++] = *progress;
    pthread_mutex_unlock(&reports.lock);
}

static void progress_callback_reports_every_phase_in_order(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 70; id++)
        fake_row(fake, id);
    fake->rows[9]->damage = "damaged";
    bide_options options = BIDE_OPTIONS_INIT;
    options.recovery = on_progress;
    options.recovery_user = &reports;
    reports.count = 0;
    queue = fake_open(fake, "slow:", &options);
    recovered();
    /* The last report follows the completion of the waits for it. */
    assert_int_equal(bide_close(queue), BIDE_OK);
    queue = NULL;
    assert_true(reports.count >= 4);
    assert_int_equal(reports.seen[0].phase, BIDE_PHASE_COUNTING);
    assert_int_equal(reports.seen[0].total, 0);
    unsigned phases = 0;
    for (size_t i = 0; i < reports.count; i++) {
        phases |= 1u << reports.seen[i].phase;
        if (i > 0) {
            assert_true(reports.seen[i].phase >= reports.seen[i - 1].phase);
            assert_true(reports.seen[i].loaded >= reports.seen[i - 1].loaded);
        }
    }
    assert_int_equal(phases, 15);
    const bide_recovery *last = &reports.seen[reports.count - 1];
    assert_int_equal(last->phase, BIDE_PHASE_RECOVERED);
    assert_int_equal(last->loaded, 69);
    assert_int_equal(last->failed, 1);
    assert_int_equal(last->total, 70);
}

static void wait_recovered_reports_progress(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 70; id++)
        fake_row(fake, id);
    gate_set(fake, GATE_SCAN, true, 1);
    queue = fake_open(fake, "slow:", NULL);
    gate_await(fake, GATE_SCAN, 2); /* one slice is loaded */
    bide_recovery progress;
    assert_int_equal(bide_wait_recovered(queue, 0, &progress), BIDE_TIMED_OUT);
    assert_int_equal(progress.phase, BIDE_PHASE_LOADING);
    assert_int_equal(progress.loaded, 32);
    assert_int_equal(progress.total, 70);
    gate_open(fake, GATE_SCAN);
    assert_int_equal(recovered().loaded, 70);
}

/* ---- closing ---- */

struct counted {
    bide_op op;
    int count;
};

static void count_one(bide_op *op)
{
    ((struct counted *)op->user)->count++;
}

/* Ops of every sort that wait for something while the queue is closed. */
enum { WAITING = 6 };
static struct counted ops[WAITING];
static bide_job jobs[WAITING];
static bide_slice name;
static char cursor[BIDE_CURSOR_SIZE];

static void submit_waiting(void)
{
    memset(ops, 0, sizeof(ops));
    memset(jobs, 0, sizeof(jobs));
    name = text("nothing");
    ops[0].op = (bide_op){.kind = BIDE_OP_KICK, .kick = {.topic = text("old"), .max = 1}};
    ops[1].op =
        (bide_op){.kind = BIDE_OP_LIST, .list = {.cursor = cursor, .jobs = jobs, .job_max = 1}};
    ops[2].op = lease_op(cq, BIDE_OP_DELETE, 1, 0);
    ops[3].op = (bide_op){.kind = BIDE_OP_PEEK, .query = {.id = 2, .job = &jobs[3]}};
    ops[4].op = reserve_op(cq, &name, &jobs[4]);
    ops[4].op.reserve.timeout_ms = BIDE_FOREVER;
    ops[5].op = (bide_op){.kind = BIDE_OP_RECOVERED, .recovered = {.timeout_ms = BIDE_FOREVER}};
    for (int i = 0; i < WAITING; i++) {
        ops[i].op.cq = cq;
        ops[i].op.done = count_one;
        ops[i].op.user = &ops[i];
        assert_int_equal(submit_one(queue, &ops[i].op), 1);
    }
}

static void a_close_while_loading_completes_everything_once(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 10; id++)
        fake_row(fake, id);
    gate_shut(fake, GATE_FETCH);
    gate_shut(fake, GATE_SCANNED);
    queue = fake_open(fake, "slow:", NULL);
    gate_await(fake, GATE_SCANNED, 1);
    submit_waiting();
    gate_await(fake, GATE_FETCH, 1);
    pthread_t closing;
    pthread_create(&closing, NULL, fake_close_queue, queue);
    await_completions(cq, 4); /* those that no thread works on */
    gate_open(fake, GATE_FETCH);
    await_completions(cq, 2);
    gate_open(fake, GATE_SCANNED);
    pthread_join(closing, NULL);
    queue = NULL;
    bide_cq_drain(cq, 0);
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(ops[i].count, 1);
        assert_int_equal(ops[i].op.status, BIDE_CLOSED);
    }
    assert_int_equal(fake->quarantine_count, 0);
    assert_non_null(fake->rows[1]); /* it was not deleted */
}

static void shutdown_while_loading_ends_waiting_ops_only(void **state)
{
    (void)state;
    for (uint64_t id = 1; id <= 10; id++)
        fake_row(fake, id);
    gate_shut(fake, GATE_SCAN);
    queue = fake_open(fake, "slow:", NULL);
    submit_waiting();
    assert_int_equal(bide_shutdown(queue), BIDE_OK);
    await_completions(cq, 4); /* what names a job, and what waits */
    gate_open(fake, GATE_SCAN);
    await_completions(cq, WAITING - 4);
    static const int wanted[WAITING] = {BIDE_OK, BIDE_OK,     BIDE_OK,
                                        BIDE_OK, BIDE_CLOSED, BIDE_CLOSED};
    for (int i = 0; i < WAITING; i++) {
        assert_int_equal(ops[i].count, 1);
        assert_int_equal(ops[i].op.status, wanted[i]);
    }
    bide_job_clear(&jobs[0]);
    bide_job_clear(&jobs[3]);
    cursor[0] = 0;
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, set_up, tear_down)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(damaged_row_is_quarantined_and_the_others_are_loaded),
        TEST(invalid_row_is_quarantined),
        TEST(damaged_row_that_an_op_names_is_counted_once),
        TEST(very_many_started_jobs_are_all_counted),
        TEST(failed_scan_is_retried),
        TEST(queue_with_an_unreadable_store_can_be_closed),
        TEST(progress_callback_reports_every_phase_in_order),
        TEST(wait_recovered_reports_progress),
        TEST(a_close_while_loading_completes_everything_once),
        TEST(shutdown_while_loading_ends_waiting_ops_only),
    };
    return cmocka_run_group_tests_name("recovery_end", tests, NULL, NULL);
}
