/* SPDX-License-Identifier: MIT */
#include "cli/ordered_pipeline.h"

#include "stub_backend.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 1500 /* more than the pipeline has slots */

static struct cli cli;
static struct ordered_pipeline *pipeline;
static uint64_t completions;

/* Slots complete in the order of submission, and ids rise in that order, too: no op overtakes. */
static void on_done(void *user, struct op_slot *slot)
{
    static uint64_t last_put_id;
    (void)user;
    assert_int_equal(slot->op.status, BIDE_OK);
    assert_int_equal(slot->number, completions);
    if (completions++ > 0)
        assert_true(slot->op.put.id > last_put_id);
    last_put_id = slot->op.put.id;
}

static void submit_put(size_t number)
{
    struct op_slot *slot = bi_ordered_pipeline_get_slot(pipeline, 1);
    slot->number = number;
    slot->op.kind = BIDE_OP_PUT;
    slot->op.put = (bide_put_item){.topic = {"t", 1}, .body = {"x", 1}};
    bi_ordered_pipeline_submit(pipeline);
}

static void submit(size_t count)
{
    completions = 0;
    for (size_t i = 0; i < count; i++)
        submit_put(i);
}

static void open_queue(const char *url)
{
    assert_int_equal(bide_open(url, NULL, &cli.queue), BIDE_OK);
    pipeline = bi_ordered_pipeline_new(&cli, cli.queue, on_done, NULL);
    assert_non_null(pipeline);
}

static void close_queue(void)
{
    bi_ordered_pipeline_free(pipeline);
    assert_int_equal(bide_close(cli.queue), BIDE_OK);
}

static void check_completed_once(void)
{
    bide_stats stats;
    bi_ordered_pipeline_drain(pipeline);
    assert_int_equal(completions, MANY);
    assert_null(bi_ordered_pipeline_oldest(pipeline));
    assert_true(bi_ordered_pipeline_wait(pipeline, 0));
    assert_int_equal(bide_queue_stats(cli.queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, MANY);
}

static void synchronous_ops_complete_without_waiting(void **state)
{
    (void)state;
    open_queue("memory:");
    submit(MANY);
    assert_true(bi_ordered_pipeline_wait(pipeline, 0));
    assert_null(bi_ordered_pipeline_oldest(pipeline));
    check_completed_once();
    close_queue();
}

static void count_discarded(void *user, struct op_slot *slot)
{
    uint64_t *discarded = user;
    assert_int_equal(slot->number, completions++);
    *discarded += slot->op.status == BIDE_PENDING;
    assert_true(slot->op.status == BIDE_PENDING || *discarded == 0);
}

/* Ops that the queue does not have yet complete, too, in their order, and have no effect. */
static void discarded_ops_are_not_executed(void **state)
{
    (void)state;
    uint64_t discarded = 0;
    bide_stats stats;
    assert_int_equal(bide_open("memory:", NULL, &cli.queue), BIDE_OK);
    pipeline = bi_ordered_pipeline_new(&cli, cli.queue, count_discarded, &discarded);
    assert_non_null(pipeline);
    submit(MANY);
    bi_ordered_pipeline_discard(pipeline);
    assert_int_equal(completions, MANY);
    assert_true(discarded > 0 && discarded < MANY);
    assert_int_equal(bide_queue_stats(cli.queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, MANY - discarded);
    close_queue();
}

/* The queue writes to a pending op until it is closed. */
static void abandoned_op_may_complete_when_the_queue_closes(void **state)
{
    (void)state;
    bide_job job;
    assert_int_equal(bide_open("memory:", NULL, &cli.queue), BIDE_OK);
    pipeline = bi_ordered_pipeline_new(&cli, cli.queue, NULL, NULL);
    assert_non_null(pipeline);
    struct op_slot *slot = bi_ordered_pipeline_get_slot(pipeline, 0);
    bide_slice topic = {"t", 1};
    slot->op.kind = BIDE_OP_RESERVE;
    slot->op.reserve = (bide_reserve_args){
        .topics = &topic, .topic_count = 1, .timeout_ms = BIDE_FOREVER, .jobs = &job, .job_max = 1};
    bi_ordered_pipeline_submit(pipeline);
    assert_false(bi_ordered_pipeline_wait(pipeline, 0));
    bi_ordered_pipeline_abandon(pipeline);
    assert_int_equal(bide_close(cli.queue), BIDE_OK);
}

/* The queue rejects the second op that is submitted, and has room for the third. */
static void reject_second(struct stub *stub, bide_op_kind kind)
{
    bool rejected = stub_count(stub, kind, 0) == 1;
    stub_rule(stub, kind, rejected ? AT_ONCE : THROUGH_CQ, rejected ? BIDE_EBUSY : BIDE_OK);
}

static void busy_op_is_not_overtaken(void **state)
{
    (void)state;
    static const uint64_t expected_ids[] = {1, 2, 2, 3};
    struct stub *stub = stub_new();
    stub->queue.options.max_pending_ops = 2;
    stub->before = reject_second;
    pipeline = bi_ordered_pipeline_new(&cli, &stub->queue, NULL, NULL);
    assert_non_null(pipeline);
    for (uint64_t id = 1; id <= 3; id++) {
        struct op_slot *slot = bi_ordered_pipeline_get_slot(pipeline, 0);
        slot->op.kind = BIDE_OP_DELETE;
        slot->op.lease = (bide_lease_args){.id = id};
        bi_ordered_pipeline_submit(pipeline);
    }
    bi_ordered_pipeline_free(pipeline);
    assert_int_equal(stub->note_count, COUNT_OF(expected_ids));
    for (size_t i = 0; i < COUNT_OF(expected_ids); i++)
        assert_int_equal(stub->notes[i].id, expected_ids[i]);
    stub_free(stub);
}

/* Otherwise a signal between the caller's check and the wait is lost. The last test: the process
 * stays interrupted. */
static void signal_before_the_wait_ends_a_wait_for_input(void **state)
{
    (void)state;
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    open_queue("memory:");
    assert_int_equal(bi_interrupt_watch(&cli, NULL), BI_EXIT_OK);
    assert_int_equal(raise(SIGINT), 0);
    assert_true(bi_interrupted());
    assert_false(bi_ordered_pipeline_wait_input(pipeline, ends[0]));
    bi_interrupt_stop();
    close_queue();
    close(ends[0]);
    close(ends[1]);
}

#ifdef BIDE_WITH_SQLITE
static char folder[64], url[200];

static int make_folder(void **state)
{
    (void)state;
    strcpy(folder, "/tmp/bide-unit-XXXXXX");
    assert_non_null(mkdtemp(folder));
    return 0;
}

static int remove_folder(void **state)
{
    (void)state;
    static const char *const names[] = {"jobs.db", "jobs.db-wal", "jobs.db-shm", "jobs.db-filler"};
    for (size_t i = 0; i < COUNT_OF(names); i++) {
        char path[128];
        snprintf(path, sizeof(path), "%s/%s", folder, names[i]);
        unlink(path);
    }
    return rmdir(folder);
}

static void open_file(const char *parameters)
{
    snprintf(url, sizeof(url), "sqlite:%s/jobs.db?sync=off%s", folder, parameters);
    open_queue(url);
}

static void durable_ops_complete_once(void **state)
{
    (void)state;
    open_file("");
    submit(MANY);
    check_completed_once();
    close_queue();
}

static void busy_ops_are_retried_after_others(void **state)
{
    (void)state;
    open_file("&max_pending_ops=1");
    submit(MANY);
    check_completed_once();
    close_queue();
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(synchronous_ops_complete_without_waiting),
        cmocka_unit_test(discarded_ops_are_not_executed),
        cmocka_unit_test(abandoned_op_may_complete_when_the_queue_closes),
        cmocka_unit_test(busy_op_is_not_overtaken),
#ifdef BIDE_WITH_SQLITE
        TEST(durable_ops_complete_once),
        TEST(busy_ops_are_retried_after_others),
#endif
        cmocka_unit_test(signal_before_the_wait_ends_a_wait_for_input),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
