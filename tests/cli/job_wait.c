/* SPDX-License-Identifier: MIT */
/*
 * job_wait.c - wait, put --wait and events, where others can work meanwhile: what comes, when, and
 * what does not come.
 */
#include "cli_test.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>

/* Takes the next job of a topic when it comes, and says that it is done, with this result. */
static void work_off(bide *queue, const char *topic, const void *result, size_t size)
{
    bide_job job = {0};
    OK(bide_reserve(queue, topic, PATIENCE_MS, &job));
    OK(bide_done(queue, job.id, job.token, result, size, BIDE_KEEP));
    bide_job_clear(&job);
}

static void a_result_is_printed_as_it_is(void)
{
    static const char bytes[] = "\0\xff result\n";
    bide *queue = open_test_queue();
    run_expect(0, "put", "email", "x", "--retain", "1h");
    struct child *child = begin("wait", "1", NULL);
    work_off(queue, "email", bytes, sizeof(bytes) - 1);
    await_end(child, 0);
    EQ(child->out.size, sizeof(bytes) - 1);
    CHECK(memcmp(child->out.text, bytes, sizeof(bytes) - 1) == 0);
    json_t *done = json_at(run_expect(0, "wait", "1", "--json")->out, 0);
    EQ(number_in(done, "id"), 1);
    TEXT(text_in(done, "state"), 4, "done");
    CHECK(strlen(text_in(done, "result_base64")) > 0);
    OK(bide_close(queue));
}

static void a_put_waits_for_its_own_result(void)
{
    bide *queue = open_test_queue();
    struct child *child = begin("put", "email", "x", "--wait", "--retain", "1m", NULL);
    work_off(queue, "email", "answer", 6);
    await_end(child, 0);
    HAS(child->out, "answer");
    OK(bide_close(queue));
    int64_t start_us = clock_us();
    run_expect(4, "put", "email", "x", "--wait", "--timeout", "200ms");
    NOT_BEFORE(start_us, 200);
}

static void wait_on_a_terminal_shows_the_job(void)
{
    bide *queue = open_test_queue();
    run_expect(0, "put", "email", "x", "--retain", "1h");
    run_expect(0, "put", "email", "y", "--retain", "1h");
    struct child *one = begin_on_terminal(80, 24, "wait", "1", NULL);
    struct child *both = begin_on_terminal(80, 24, "wait", "1", "2", NULL);
    struct child *quiet = begin_on_terminal(80, 24, "wait", "1", "--quiet", NULL);
    struct child *piped = begin("wait", "1", NULL);
    await_out(one, "waiting for job 1, which is ready");
    await_out(both, "waiting for 2 jobs, now for job 1, which is ready");
    work_off(queue, "email", "answer", 6);
    work_off(queue, "email", "answer", 6);
    await_end(one, 0);
    HAS(one->out, "answer");
    await_end(both, 0);
    await_end(quiet, 0);
    LACKS(quiet->out, "waiting");
    await_end(piped, 0);
    SILENT(piped->err);
    one = begin_on_terminal(80, 24, "wait", "1", NULL);
    await_end(one, 0);
    LACKS(one->out, "waiting");
    OK(bide_close(queue));
}

static void exit_code_of_wait_has_the_outcome_of_the_job(void)
{
    put_job("email", "gone");
    put_job("email", "buried");
    put_job("email", "ready");
    run_expect(0, "delete", "1");
    run_expect(0, "bury", "2");
    struct child *gone = run_expect(3, "wait", "1");
    SILENT(gone->out);
    HAS(gone->err, "job 1 is gone: it was cancelled, deleted or purged, or it expired");
    HAS(run_expect(5, "wait", "2")->err, "buried");
    run_expect(3, "wait", "77");
    int64_t start_us = clock_us();
    run_expect(4, "wait", "3", "--timeout", "250ms");
    NOT_BEFORE(start_us, 250);
    run_expect(7, "wait", "1", "2");
    run_expect(7, "wait", "1", "77", "--json");
}

/* Waits for a job that is put, until the server knows of the call. */
static struct child *begin_waiting(bide *queue, const char *id)
{
    bide_stats stats;
    struct child *child = begin("wait", id, NULL);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.watching == 1);
    return child;
}

/* A script that goes on after "bide wait" must know whether the work was done. */
static void wait_for_a_removed_job_is_not_a_success(void)
{
    bide *queue = open_test_queue();
    bide_job job;
    run_expect(0, "put", "email", "deleted");
    struct child *child = begin_waiting(queue, "1");
    run_expect(0, "delete", "1");
    await_end(child, 3);
    HAS(child->err, "job 1 is gone: it was cancelled, deleted or purged, or it expired");

    run_expect(0, "put", "email", "cancelled");
    child = begin_waiting(queue, "2");
    run_expect(0, "cancel", "2");
    await_end(child, 3);

    run_expect(0, "put", "email", "purged");
    child = begin_waiting(queue, "3");
    run_expect(0, "purge", "email", "--yes");
    await_end(child, 3);

    run_expect(0, "put", "email", "expires", "--expires-in", "1s");
    await_end(begin("wait", "4", NULL), 3);

    /* Done, and nothing was to be kept; as a worker of beanstalkd ends it, too. */
    run_expect(0, "put", "email", "done");
    child = begin_waiting(queue, "5");
    OK(bide_reserve(queue, "email", PATIENCE_MS, &job));
    OK(bide_done(queue, job.id, job.token, NULL, 0, 0));
    bide_job_clear(&job);
    await_end(child, 0);
    HAS(child->err, "job 5 is done, and kept no result");

    run_expect(0, "put", "email", "deleted by its holder");
    child = begin("wait", "6", "--json", NULL);
    OK(bide_reserve(queue, "email", PATIENCE_MS, &job));
    bide_stats stats;
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.watching == 1);
    OK(bide_delete(queue, job.id, job.token));
    bide_job_clear(&job);
    await_end(child, 0);
    CHECK(json_is_true(json_object_get(json_at(child->out, 0), "finished")));
    OK(bide_close(queue));
}

static void every_event_is_one_line(void)
{
    static const char *const kinds[] = {"put", "buried", "kicked", "deleted"};
    bide *queue = open_test_queue();
    bide_stats stats;
    struct child *child = begin("events", "email", "--json", "--count", "4", NULL);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.watching == 1);
    run_expect(0, "put", "other", "x");
    run_expect(0, "put", "email", "x");
    run_expect(0, "bury", "2");
    run_expect(0, "kick", "email");
    run_expect(0, "delete", "2");
    await_end(child, 0);
    EQ(LINES(child->out), 4);
    for (size_t i = 0; i < COUNT(kinds); i++) {
        json_t *event = json_at(child->out, i);
        TEXT(text_in(event, "kind"), strlen(text_in(event, "kind")), kinds[i]);
        EQ(number_in(event, "id"), 2);
    }
    OK(bide_close(queue));
}

static void events_end_after_their_reader(void)
{
    bide *queue = open_test_queue();
    bide_stats stats;
    struct child *child = begin("events", NULL);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.watching == 1);
    end_output(child);
    OK(bide_put(queue, "email", "x", 1, NULL, NULL));
    OK(bide_put(queue, "email", "x", 1, NULL, NULL));
    await_end(child, 141);
    OK(bide_close(queue));
}

static void invalid_kinds_are_reported(void)
{
    struct child *child = run_expect(2, "events", "--kinds", "putt");
    HAS(child->err, "putt");
    SILENT(child->out);
}

static void waiting_is_interrupted(void)
{
    uint64_t id = put_job("email", "x");
    char word[24];
    snprintf(word, sizeof(word), "%llu", (unsigned long long)id);
    bide *queue = open_test_queue();
    bide_stats stats;
    struct child *child = begin("wait", word, NULL);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.watching == 1);
    OK(bide_close(queue));
    interrupt(child, SIGINT, 130);
    SILENT(child->out);
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    run_expect(4, "wait", word, "--timeout", "50ms");
}

static void events_are_interrupted(void)
{
    bide *queue = open_test_queue();
    bide_stats stats;
    struct child *child = begin("events", "--json", NULL);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.watching == 1);
    put_job("email", "x");
    await_out(child, "\n");
    TEXT(text_in(json_at(child->out, 0), "kind"), 3, "put");
    interrupt(child, SIGTERM, 143);
    json_of(child->out);
    OK(bide_close(queue));
}

/* ---- a server that goes away ---- */

static void a_server_that_stops_ends_a_wait_with_a_message(void)
{
    bide *queue = open_test_queue();
    bide_stats stats;
    put_job("email", "x");
    struct child *child = begin("wait", "1", "--timeout", "3s", NULL);
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.watching == 1);
    bide_close(queue);
    stop_server(SIGKILL);
    await_end(child, 4);
    CHECK(child->err.size > 10);
    SILENT(child->out);
}

static const struct test tests[] = {
    TEST(a_result_is_printed_as_it_is),
    TEST(a_put_waits_for_its_own_result),
    TEST(wait_on_a_terminal_shows_the_job),
    TEST(exit_code_of_wait_has_the_outcome_of_the_job),
    TEST(wait_for_a_removed_job_is_not_a_success),
    TEST(every_event_is_one_line),
    TEST(events_end_after_their_reader),
    TEST(invalid_kinds_are_reported),
    TEST(waiting_is_interrupted),
    TEST(events_are_interrupted),
    TEST(a_server_that_stops_ends_a_wait_with_a_message),
};

const struct theme job_wait_theme = {"job_wait", tests, COUNT(tests)};
