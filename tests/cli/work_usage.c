/* SPDX-License-Identifier: MIT */
/* work_usage.c - bide work: arguments that make no sense are refused before a queue is opened. */
#include "cli_test.h"

#include <signal.h>
#include <string.h>

static void exactly_one_of_program_and_http_is_required(void)
{
    HAS(run_expect(2, "work")->err, "missing argument");
    HAS(run_expect(2, "work", "t")->err, "PROGRAM or --http is missing");
    HAS(run_expect(2, "work", "t", "--")->err, "PROGRAM or --http is missing");
    HAS(run_expect(2, "work", "--", "true")->err, "missing argument");
    HAS(run_expect(2, "work", "t", "--http", "http://x/", "--", "true")->err, "not both");
}

static void the_program_must_exist(void)
{
    HAS(run_expect(2, "work", "t", "--", "nosuchprogram")->err,
        "cannot find the program \"nosuchprogram\" in PATH");
    HAS(run_expect(2, "work", "t", "--", "/nosuch/program")->err,
        "cannot run /nosuch/program: No such file");
    HAS(run_expect(2, "work", "t", "--", "/etc/passwd")->err, "not an executable file");
    HAS(run_expect(2, "work", "t", "--", "/tmp/")->err, "not an executable file");
}

static void flag_values_are_validated(void)
{
    HAS(run_expect(2, "work", "t", "--on", "65", "--", "true")->err,
        "--on: \"65\" is not of the form");
    HAS(run_expect(2, "work", "t", "--on", "999=bury", "--", "true")->err, "does not begin with");
    HAS(run_expect(2, "work", "t", "-j", "1001", "--", "true")->err, "--jobs: from 1 to 1000");
    HAS(run_expect(2, "work", "t", "-j", "0", "--", "true")->err, "--jobs: from 1 to 1000");
    HAS(run_expect(2, "work", "t", "--timeout", "0", "--", "true")->err, "--timeout");
    HAS(run_expect(2, "work", "t", "--once", "--count", "2", "--", "true")->err,
        "exclude each other");
    HAS(run_expect(2, "work", "t", "--keep-size", "0", "--", "true")->err, "--keep-size");
    HAS(run_expect(2, "work", "t", "-k", "--retain", "0", "--", "true")->err, "--retain");
}

static void topics_are_validated(void)
{
    HAS(run_expect(2, "work", "t:x", "--", "true")->err, "a weight must be at least 1");
    HAS(run_expect(2, "work", "t:0", "--", "true")->err, "a weight must be at least 1");
    HAS(run_expect(2, "work", ":3", "--", "true")->err, "is not a valid topic name");
    HAS(run_expect(2, "work", "t", "--strategy", "best", "--", "true")->err, "is not a strategy: ");
    HAS(run_expect(2, "work", "t:2", "--strategy", "fair", "--", "true")->err,
        "needs --strategy weighted");
}

static void webhook_flags_require_http(void)
{
    HAS(run_expect(2, "work", "t", "--follow", "--", "true")->err, "need --http");
    HAS(run_expect(2, "work", "t", "--header", "A: b", "--", "true")->err, "need --http");
    HAS(run_expect(2, "work", "t", "--http", "ftp://x/")->err, "does not begin with http://");
    HAS(run_expect(2, "work", "t", "--http", "file:///etc/passwd")->err,
        "does not begin with http://");
    HAS(run_expect(2, "work", "t", "--http", "http://x/", "--header", "nothing")->err,
        "Name: value");
    HAS(run_expect(2, "work", "t", "--http", "http://x/", "--header", "A: b\r\nC: d")->err,
        "Name: value");
    HAS(run_expect(2, "work", "t", "--http", "http://x/", "--on", "signal=bury")->err,
        "an HTTP status");
}

static void invalid_topics_are_rejected_by_the_queue(void)
{
    use_url("memory:");
    HAS(run_expect(2, "work", "a b", "--", "true")->err, "is not a valid topic name");
    HAS(run_expect(2, "work", "t", "t", "--", "true")->err, "t");
}

/* More than a pipe holds, for a program that takes its time. */
static void a_large_body_arrives_in_pieces(void)
{
    enum { SIZE = 3 << 20 };
    static char body[SIZE];
    bide *queue;
    const char *url = url_of("large.db", "max_job_size=4MiB");
    memset(body, 'x', SIZE);
    OK(bide_open(url, NULL, &queue));
    OK(bide_put(queue, "t", body, SIZE, NULL, NULL));
    OK(bide_put(queue, "t", body, SIZE, NULL, NULL));
    OK(bide_close(queue));
    use_url(url);
    struct child *child =
        run_expect(0, "work", "t", "--once", "--", "sh", "-c", "sleep 0.1; wc -c; cat; echo end");
    OUTPUT_IS(child->out, "3145728\nend\n");
    child = run_expect(0, "work", "t", "--once", "--", "head", "-c", "3");
    OUTPUT_IS(child->out, "xxx");
}

static void large_program_output_is_read_to_its_end(void)
{
    bide *queue;
    const char *url = url_of("jobs.db", "");
    OK(bide_open(url, NULL, &queue));
    OK(bide_put(queue, "t", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    use_url(url);
    struct child *child = run_expect(0, "work", "t", "--once", "--quiet", "--", "sh", "-c",
                                     "seq 200000 >&2; seq 200000");
    EQ(LINES(child->out), 200000);
    EQ(LINES(child->err), 200000);
}

static const struct test tests[] = {
    TEST(exactly_one_of_program_and_http_is_required),
    TEST(the_program_must_exist),
    TEST(flag_values_are_validated),
    TEST(topics_are_validated),
    TEST(webhook_flags_require_http),
    TEST(invalid_topics_are_rejected_by_the_queue),
    TEST(a_large_body_arrives_in_pieces),
    TEST(large_program_output_is_read_to_its_end),
};

const struct theme work_usage_theme = {"work_usage", tests, COUNT(tests)};
