/* SPDX-License-Identifier: MIT */
/*
 * lease.c - reserve, and the answers by token, where a lease outlives the process that took it.
 */
#include "cli_test.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* A job that was taken by bide: its id and token as words. */
struct held {
    char id[24], token[24];
};

static struct held hold(const char *topic)
{
    struct held held;
    json_t *job = json_at(run_expect(0, "reserve", topic, "--json")->out, 0);
    snprintf(held.id, sizeof(held.id), "%lld", (long long)number_in(job, "id"));
    snprintf(held.token, sizeof(held.token), "%lld", (long long)number_in(job, "token"));
    return held;
}

/* ---- taking ---- */

static void the_body_goes_to_output_and_the_lease_to_error(void)
{
    static const char bytes[] = "\0\x1b[31m\xff\n";
    run_expect_bytes(0, bytes, sizeof(bytes) - 1, "put", "email");
    struct child *child = run_expect(0, "reserve", "email");
    EQ(child->out.size, sizeof(bytes) - 1);
    CHECK(memcmp(child->out.text, bytes, sizeof(bytes) - 1) == 0);
    HAS(child->err, "job 1 token ");
    EQ(count_jobs("email", BIDE_STATE_RESERVED), 1);
}

static void a_body_sends_no_control_characters_to_a_terminal(void)
{
    run_expect_bytes(0, "\x1b[31mred\x07", 9, "put", "email");
    struct child *child = begin_on_terminal(80, 24, "reserve", "email", NULL);
    await_end(child, 0);
    HAS(child->out, "\\x1b[31mred\\x07");
    LACKS(child->out, "\x1b[31mred");
}

static void an_export_notes_the_reserved_jobs(void)
{
    put_job("email", "one");
    put_job("email", "two");
    hold("email");
    HAS(run_expect(0, "export")->err, "\n1 of them is reserved; an import makes it ready\n");
    hold("email");
    HAS(run_expect(0, "export")->err, "\n2 of them are reserved; an import makes them ready\n");
}

static void reserve_without_a_ready_job_exits_4(void)
{
    HAS(run_expect(4, "reserve", "email")->err, "--timeout");
    int64_t start_us = clock_us();
    SILENT(run_expect(4, "reserve", "email", "--timeout", "300ms")->out);
    NOT_BEFORE(start_us, 300);
    struct child *child = begin("reserve", "email", "--timeout", "forever", NULL);
    bide *queue = open_test_queue();
    bide_stats stats;
    UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.waiting == 1);
    OK(bide_put(queue, "email", "late", 4, NULL, NULL));
    await_end(child, 0);
    OUTPUT_IS(child->out, "late");
    OK(bide_close(queue));
}

static void several_jobs_are_reserved_at_once(void)
{
    run_expect_input(0, "1\n2\n3\n", "put", "email", "--lines");
    struct child *child = run_expect(0, "reserve", "email", "-n", "10");
    OUTPUT_IS(child->out, "1\n2\n3\n");
    EQ(LINES(child->err), 3);
    run_expect_input(0, "4\n5\n", "put", "email", "--lines");
    child = run_expect(0, "reserve", "email", "-n", "2", "--json");
    EQ(LINES(child->out), 2);
    CHECK(number_in(json_at(child->out, 0), "token") != number_in(json_at(child->out, 1), "token"));
}

static void job_is_reserved_by_its_id(void)
{
    run_expect(0, "put", "email", "one", "--delay", "1h");
    OUTPUT_IS(run_expect(0, "reserve", "--id", "1")->out, "one");
    run_expect(5, "reserve", "--id", "1");
    run_expect(3, "reserve", "--id", "77");
}

/* ---- nothing is lost ---- */

static void close_output(void)
{
    close(1);
}

static void write_to_full(void)
{
    if (freopen("/dev/full", "w", stdout) == NULL)
        _exit(98);
}

static void a_body_that_cannot_be_written_is_given_back(void)
{
    put_job("email", "hello");
    before_exec = write_to_full;
    HAS(run_expect(1, "reserve", "email")->err, "No space left");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    run_expect(1, "reserve", "email", "--json");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    before_exec = close_output;
    run_expect(1, "reserve", "email");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

static void closed_reader_leaves_the_job_ready(void)
{
    struct child *child = begin("reserve", "email", "--timeout", "1m", NULL);
    end_output(child);
    put_job("email", "hello");
    await_end(child, 141);
    OUTPUT_IS(child->err, "job 1 was given back\n");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    EQ(count_jobs("email", BIDE_STATE_RESERVED), 0);
}

/* A pipe whose reader is there, and never reads. */
static void write_to_a_closed_pipe(void)
{
    int ends_of_pipe[2];
    if (pipe(ends_of_pipe) != 0 || dup2(ends_of_pipe[1], STDOUT_FILENO) != STDOUT_FILENO)
        _exit(98);
}

static void a_reserve_with_a_blocked_reader_can_be_interrupted(void)
{
    static char body[60001];
    if (!passes_leases())
        return;
    memset(body, 'x', sizeof(body) - 1);
    put_job("email", body);
    put_job("email", body);
    before_exec = write_to_a_closed_pipe;
    struct child *child = begin("reserve", "email", "--count", "2", NULL);
    UNTIL(count_jobs("email", BIDE_STATE_RESERVED) == 2);
    await_err(child, "job 1 token ");
    interrupt(child, SIGTERM, 143);
    HAS(child->err, "job 2 was given back\n");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    EQ(count_jobs("email", BIDE_STATE_RESERVED), 1);
}

static void interrupted_wait_reserves_no_job(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    bide *queue = open_test_queue();
    for (size_t i = 0; i < COUNT(signals); i++) {
        bide_stats stats;
        struct child *child = begin("reserve", "email", "--timeout", "1h", NULL);
        UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.waiting == 1);
        interrupt(child, signals[i], 128 + signals[i]);
        SILENT(child->out);
        UNTIL(bide_queue_stats(queue, &stats) == BIDE_OK && stats.waiting == 0);
    }
    OK(bide_put(queue, "email", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

/* ---- answering ---- */

static void every_verb_with_a_token_finishes_the_job(void)
{
    for (int i = 0; i < 5; i++)
        put_job("email", "x");
    struct held held = hold("email");
    SILENT(run_expect(0, "touch", held.id, "--token", held.token)->out);
    run_expect(0, "delete", held.id, "--token", held.token);
    held = hold("email");
    run_expect(0, "done", held.id, "--token", held.token, "--result", "good", "--retain", "1h");
    EQ(count_jobs("email", BIDE_STATE_DONE), 1);
    OUTPUT_IS(run_expect(0, "wait", held.id)->out, "good");
    held = hold("email");
    run_expect(0, "release", held.id, "--token", held.token, "--delay", "1h");
    EQ(count_jobs("email", BIDE_STATE_DELAYED), 1);
    held = hold("email");
    run_expect(0, "bury", held.id, "--token", held.token);
    EQ(count_jobs("email", BIDE_STATE_BURIED), 1);
    held = hold("email");
    OUTPUT_IS(run_expect(0, "fail", held.id, "--token", held.token, "--error", "no answer")->out,
              "delayed\n");
    EQ(count_jobs("email", BIDE_STATE_DELAYED), 2);
    EQ(count_jobs("email", BIDE_STATE_RESERVED), 0);
}

static void wrong_token_is_rejected_and_the_holder_keeps_the_job(void)
{
    static const char *const verbs[] = {"touch", "done", "delete", "release", "fail", "bury"};
    put_job("email", "x");
    struct held held = hold("email");
    for (size_t i = 0; i < COUNT(verbs); i++) {
        HAS(run_expect(5, verbs[i], held.id, "--token", "7")->err, "lease");
        json_t *error = json_at(run_expect(5, verbs[i], held.id, "--token", "7", "--json")->err, 0);
        TEXT(text_in(error, "code"), strlen(text_in(error, "code")), "BIDE_LEASE_LOST");
    }
    run_expect(0, "touch", held.id, "--token", held.token);
}

static void reserved_job_is_rejected_without_a_token(void)
{
    static const char *const verbs[] = {"done", "delete", "fail", "bury"};
    put_job("email", "x");
    struct held held = hold("email");
    for (size_t i = 0; i < COUNT(verbs); i++)
        HAS(run_expect(5, verbs[i], held.id)->err, "token");
    run_expect(2, "touch", held.id);
    run_expect(2, "release", held.id);
    EQ(count_jobs("email", BIDE_STATE_RESERVED), 1);
}

static void touch_reports_a_cancel(void)
{
    put_job("email", "x");
    struct held held = hold("email");
    run_expect(0, "cancel", held.id);
    HAS(run_expect(5, "touch", held.id, "--token", held.token)->err, held.id);
    run_expect(0, "release", held.id, "--token", held.token);
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
}

static void an_expired_lease_is_reported(void)
{
    run_expect(0, "put", "email", "x", "--ttr", "100ms");
    struct held held = hold("email");
    UNTIL(count_jobs("email", BIDE_STATE_READY) == 1);
    run_expect(5, "done", held.id, "--token", held.token);
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

static const struct test tests[] = {
    TEST(the_body_goes_to_output_and_the_lease_to_error),
    TEST(a_body_sends_no_control_characters_to_a_terminal),
    TEST(an_export_notes_the_reserved_jobs),
    TEST(reserve_without_a_ready_job_exits_4),
    TEST(several_jobs_are_reserved_at_once),
    TEST(job_is_reserved_by_its_id),
    TEST(a_body_that_cannot_be_written_is_given_back),
    TEST(closed_reader_leaves_the_job_ready),
    TEST(a_reserve_with_a_blocked_reader_can_be_interrupted),
    TEST(interrupted_wait_reserves_no_job),
    TEST(every_verb_with_a_token_finishes_the_job),
    TEST(wrong_token_is_rejected_and_the_holder_keeps_the_job),
    TEST(reserved_job_is_rejected_without_a_token),
    TEST(touch_reports_a_cancel),
    TEST(an_expired_lease_is_reported),
};

const struct theme lease_theme = {"lease", tests, COUNT(tests)};
