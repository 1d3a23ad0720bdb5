/* SPDX-License-Identifier: MIT */
/* put_failure.c - what is said, and what is in the queue, when something ends half way. */
#include "cli_test.h"

#include <fcntl.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PART 60000

static const char *large_file(void)
{
    static char path[600], bytes[PART + 1];
    snprintf(path, sizeof(path), "%s", test_path("large"));
    memset(bytes, 'a', PART);
    write_text(path, bytes);
    return path;
}

#define TEN(...)                                                                               \
    __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, \
        __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
#define HUNDRED(...) TEN(TEN(__VA_ARGS__))

/* So many that some of them are sent before the last one is read. */
static void an_interrupt_between_files_reports_the_jobs_put(void)
{
    if (place_kind == AT_FILE)
        return; /* no other process can read the file */
    const char *file = large_file();
    struct child *child =
        begin("put", "t", HUNDRED("--file", file), HUNDRED("--file", file), "--file", "-", NULL);
    UNTIL(count_jobs("t", BIDE_STATE_READY) > 0);
    interrupt(child, SIGINT, 130);
    uint64_t there = count_jobs("t", BIDE_STATE_READY);
    CHECK(there > 0 && there < 200);
    EQ(LINES(child->out), there);
    HAS(child->err, "Interrupted; some were put.");
}

static void read_a_folder(void)
{
    dup2(open("/", O_RDONLY), STDIN_FILENO);
}

static void unreadable_input_is_a_failure_and_not_a_usage_error(void)
{
    before_exec = read_a_folder;
    HAS(run_expect(1, "put", "t", "--lines")->err, "Is a directory");
    HAS(run_expect(1, "put", "t")->err, "Is a directory");
    before_exec = NULL;
    EQ(count_jobs("t", BIDE_STATE_READY), 0);
}

static void unreadable_file_does_not_affect_other_files_of_lines(void)
{
    char good[600], last[600];
    snprintf(good, sizeof(good), "%s", test_path("good"));
    snprintf(last, sizeof(last), "%s", test_path("last"));
    write_text(good, "a\nb\n");
    write_text(last, "c\n");
    struct child *child = run_expect(1, "put", "t", "--lines", "--file", good, "--file",
                                     test_path("missing"), "--file", last);
    HAS(child->err, "No such file or directory");
    HAS(child->err, "missing is stored");
    LACKS(child->err, "Continue with");
    HAS(child->err, "3 jobs put");
    EQ(count_jobs("t", BIDE_STATE_READY), 3);

    child = run_expect(1, "put", "stop", "--lines", "--stop-on-error", "--file", good, "--file",
                       test_path("missing"), "--file", last);
    HAS(child->err, "2 jobs put");
    EQ(count_jobs("stop", BIDE_STATE_READY), 2);
}

/* Other processes can see the queue, and drain it. */
static void draining_queue_ends_a_put_of_lines(void)
{
    if (!passes_leases())
        return;
    struct child *child = begin("put", "t", "--lines", "--ids", NULL);
    feed(child, "one\n");
    await_out(child, "\n");
    bide *queue = open_test_queue();
    OK(bide_drain(queue, true));
    OK(bide_close(queue));

    feed(child, "two\n");
    await_end(child, ANY_CODE);
    CHECK(child->code != 0 && child->code != 7);
    HAS(child->err, "line 2: ");
    HAS(child->err, "all up to line 1 of standard input is done");
    HAS(child->err, "Continue with: tail -n +2 | bide put");
    HAS(child->err, "1 job put");
    EQ(count_jobs("t", BIDE_STATE_READY), 1);
}

/* A refused line behind the failure is put again by the rest: it is neither done nor reported
 * yet. */
static void put_that_failed_can_be_continued_before_a_refused_line(void)
{
    static char text[70100];
    if (!passes_leases())
        return;
    memset(text, 'x', sizeof(text));
    memcpy(text, "first\n", 6);
    memcpy(text + 70000, "\nthird\n", 8);
    bide *queue = open_test_queue();
    OK(bide_drain(queue, true));
    OK(bide_close(queue));

    struct child *child = run_expect_input(ANY_CODE, text, "put", "t", "--lines");
    CHECK(child->code != 0 && child->code != 7);
    HAS(child->err, "line 1: ");
    LACKS(child->err, "line 2: ");
    HAS(child->err, "nothing of standard input is stored");
    LACKS(child->err, "refused");
    LACKS(child->err, "Check which jobs are stored");
}

/* However many lines it rejects. */
static void full_topic_has_one_text(void)
{
    if (is_plain())
        return;
    run_expect(0, "topic", "set", "email", "--max-jobs", "2");
    struct child *child = run_expect_input(7, "1\n2\n3\n4\n", "put", "email", "--lines");
    HAS(child->err, "line 3: topic email holds 2 jobs, max_jobs of its policy is 2\n");
    HAS(child->err, "line 4: topic email holds 2 jobs, max_jobs of its policy is 2\n");
    child = run_expect_input(7,
                             "{\"body\":\"a\",\"key\":\"k\"}\n{\"body\":\"b\",\"key\":\"k\"}\n"
                             "{\"body\":\"c\",\"key\":\"k\"}\n",
                             "put", "sms", "--jsonl");
    HAS(child->err, "line 2: job 3 of topic sms holds this key\n");
    HAS(child->err, "line 3: job 3 of topic sms holds this key\n");
}

static void interrupt_ends_a_put_whose_input_idles(void)
{
    struct child *child = begin("put", "t", "--lines", "--ids", NULL);
    feed(child, "one\nhalf");
    await_out(child, "\n");
    interrupt(child, SIGINT, 130);
    HAS(child->err, "interrupted; all up to line 1 of standard input is done");
    EQ(count_jobs("t", BIDE_STATE_READY), 1);
}

/* 300 lines of 64 KiB are more than a batch, and more than may be in flight. */
static void long_lines_are_split_into_batches(void)
{
    enum { COUNT_OF_LINES = 300, LENGTH = 65535 };
    size_t size = (size_t)COUNT_OF_LINES * (LENGTH + 1);
    char *text = malloc(size);
    CHECK(text != NULL);
    memset(text, 'x', size);
    for (size_t i = 1; i <= COUNT_OF_LINES; i++)
        text[i * (LENGTH + 1) - 1] = '\n';
    struct child *child = run_expect_bytes(0, text, size, "put", "t", "--lines");
    free(text);
    HAS(child->err, "300 jobs put");
    EQ(count_jobs("t", BIDE_STATE_READY), COUNT_OF_LINES);
}

static const struct test tests[] = {
    TEST(an_interrupt_between_files_reports_the_jobs_put),
    TEST(unreadable_input_is_a_failure_and_not_a_usage_error),
    TEST(unreadable_file_does_not_affect_other_files_of_lines),
    TEST(draining_queue_ends_a_put_of_lines),
    TEST(put_that_failed_can_be_continued_before_a_refused_line),
    TEST(full_topic_has_one_text),
    TEST(interrupt_ends_a_put_whose_input_idles),
    TEST(long_lines_are_split_into_batches),
};

const struct theme put_failure_theme = {"put_failure", tests, COUNT(tests)};
