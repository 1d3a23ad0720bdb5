/* SPDX-License-Identifier: MIT */
#include "cli/pipeline.h"
#include "cli/puts.h"

#include "unit.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MANY 50

static struct cli cli;
static struct pipeline pipeline;
static bide_op ops[MANY];
static int answers[MANY];

static void answered(bide_op *op)
{
    answers[op - ops]++;
}

/* Puts, all in one list. */
static void submit(size_t count)
{
    bide_op *list[MANY];
    memset(ops, 0, sizeof(ops));
    memset(answers, 0, sizeof(answers));
    for (size_t i = 0; i < count; i++) {
        ops[i].kind = BIDE_OP_PUT;
        ops[i].put = (bide_put_item){.topic = {"t", 1}, .body = {"x", 1}};
        ops[i].done = answered;
        list[i] = &ops[i];
    }
    bi_pipeline_submit(&pipeline, list, count);
}

static void open_queue(const char *url)
{
    assert_int_equal(bide_open(url, NULL, &cli.queue), BIDE_OK);
    assert_int_equal(bi_pipeline_open(&pipeline, &cli), BI_EXIT_OK);
}

static void close_queue(void)
{
    bi_pipeline_close(&pipeline);
    assert_int_equal(bide_close(cli.queue), BIDE_OK);
}

static void each_was_answered_once(void)
{
    while (pipeline.flying > 0)
        bi_pipeline_wait(&pipeline);
    for (size_t i = 0; i < MANY; i++) {
        assert_int_equal(answers[i], 1);
        assert_int_equal(ops[i].status, BIDE_OK);
    }
    bide_stats stats;
    assert_int_equal(bide_queue_stats(cli.queue, &stats), BIDE_OK);
    assert_int_equal(stats.jobs.ready, MANY);
}

static void what_finishes_at_once_is_answered_at_once(void **state)
{
    (void)state;
    open_queue("memory:");
    submit(MANY);
    assert_int_equal(pipeline.flying, 0);
    each_was_answered_once();
    bi_pipeline_wait(&pipeline);
    close_queue();
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

static void what_waits_for_the_disk_is_answered_once(void **state)
{
    (void)state;
    open_file("");
    submit(MANY);
    each_was_answered_once();
    close_queue();
}

static void what_the_queue_is_too_busy_for_waits_for_the_others(void **state)
{
    (void)state;
    open_file("&max_pending_ops=1");
    submit(MANY);
    each_was_answered_once();
    close_queue();
}

/* ---- puts ---- */

static uint64_t told, last_id, refused;

static void tell(void *user, const struct put_answer *answer)
{
    (void)user;
    assert_int_equal(answer->number, told + 1);
    told++;
    if (answer->code != BIDE_OK) {
        refused++;
        return;
    }
    assert_true(answer->id > last_id);
    last_id = answer->id;
}

static struct puts *begin_puts(const bide_put_options *options)
{
    struct puts *puts;
    told = last_id = refused = 0;
    open_file("");
    assert_int_equal(bi_puts_new(&puts, &cli, (bide_slice){"t", 1}, options, tell, NULL),
                     BI_EXIT_OK);
    return puts;
}

static uint64_t end_puts(struct puts *puts)
{
    bide_stats stats;
    bi_puts_free(puts);
    assert_int_equal(bide_queue_stats(cli.queue, &stats), BIDE_OK);
    close_queue();
    return stats.jobs.ready + stats.jobs.delayed;
}

static void jobs_are_told_in_order_whatever_the_batches(void **state)
{
    (void)state;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct puts *puts = begin_puts(&options);
    for (uint64_t i = 1; i <= 12345; i++)
        bi_puts_add(puts, i, bide_buf_new("x", 1));
    bi_puts_finish(puts);
    assert_int_equal(told, 12345);
    assert_false(bi_puts_flying(puts));
    assert_int_equal(end_puts(puts), 12345);
}

static void bodies_that_do_not_fit_into_one_batch_go_in_several(void **state)
{
    (void)state;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct puts *puts = begin_puts(&options);
    size_t size = 65535;
    char *body = calloc(1, size);
    assert_non_null(body);
    for (uint64_t i = 1; i <= 300; i++)
        bi_puts_add(puts, i, bide_buf_new(body, size));
    free(body);
    bi_puts_finish(puts);
    assert_int_equal(told, 300);
    assert_int_equal(refused, 0);
    assert_int_equal(end_puts(puts), 300);
}

static void what_was_not_sent_is_forgotten_when_it_is_abandoned(void **state)
{
    (void)state;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct puts *puts = begin_puts(&options);
    for (uint64_t i = 1; i <= 2500; i++)
        bi_puts_add(puts, i, bide_buf_new("x", 1));
    assert_int_equal(bi_puts_gathered(puts), 500);
    bi_puts_abandon(puts);
    assert_int_equal(told, 2000);
    assert_int_equal(bi_puts_gathered(puts), 0);
    assert_int_equal(end_puts(puts), 2000);
}

static void a_refused_job_does_not_stop_the_others(void **state)
{
    (void)state;
    static const char text[] = "{\"body\":\"x\",\"key\":\"same\"}";
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct puts *puts = begin_puts(&options);
    char error[BI_SENTENCE_SIZE];
    struct put_line line;
    for (uint64_t i = 1; i <= 3; i++) {
        assert_true(
            bi_putline_read((bide_slice){text, sizeof(text) - 1}, &options, 0, &line, error));
        bi_puts_add_line(puts, i, &line);
    }
    bi_puts_add(puts, 4, bide_buf_new("x", 1));
    bi_puts_finish(puts);
    assert_int_equal(told, 4);
    assert_int_equal(refused, 2);
    assert_false(bi_puts_stopped(puts));
    assert_int_equal(end_puts(puts), 2);
}

static void a_queue_that_drains_stops_the_putting(void **state)
{
    (void)state;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    struct puts *puts = begin_puts(&options);
    assert_int_equal(bide_drain(cli.queue, true), BIDE_OK);
    bi_puts_add(puts, 1, bide_buf_new("x", 1));
    bi_puts_finish(puts);
    assert_int_equal(refused, 1);
    assert_true(bi_puts_stopped(puts));
    assert_int_equal(end_puts(puts), 0);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, make_folder, remove_folder)
#endif

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_finishes_at_once_is_answered_at_once),
#ifdef BIDE_WITH_SQLITE
        TEST(what_waits_for_the_disk_is_answered_once),
        TEST(what_the_queue_is_too_busy_for_waits_for_the_others),
        TEST(jobs_are_told_in_order_whatever_the_batches),
        TEST(bodies_that_do_not_fit_into_one_batch_go_in_several),
        TEST(what_was_not_sent_is_forgotten_when_it_is_abandoned),
        TEST(a_refused_job_does_not_stop_the_others),
        TEST(a_queue_that_drains_stops_the_putting),
#endif
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
