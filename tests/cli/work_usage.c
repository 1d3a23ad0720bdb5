/* SPDX-License-Identifier: MIT */
/* work_usage.c - bide work: arguments that make no sense are refused before a queue is opened. */
#include "cli_test.h"

#include <signal.h>
#include <string.h>

static void something_must_be_run_and_one_thing_only(void)
{
    HAS(ends(2, "work")->err, "something is missing");
    HAS(ends(2, "work", "t")->err, "what is to be run?");
    HAS(ends(2, "work", "t", "--")->err, "what is to be run?");
    HAS(ends(2, "work", "--", "true")->err, "something is missing");
    HAS(ends(2, "work", "t", "--http", "http://x/", "--", "true")->err, "not both");
}

static void a_program_must_be_there(void)
{
    HAS(ends(2, "work", "t", "--", "nosuchprogram")->err,
        "there is no program \"nosuchprogram\" in the folders of PATH");
    HAS(ends(2, "work", "t", "--", "/nosuch/program")->err, "/nosuch/program is not there");
    HAS(ends(2, "work", "t", "--", "/etc/passwd")->err, "cannot be run");
    HAS(ends(2, "work", "t", "--", "/tmp/")->err, "cannot be run");
}

static void values_are_looked_at(void)
{
    HAS(ends(2, "work", "t", "--on", "65", "--", "true")->err, "--on: \"65\" is not of the form");
    HAS(ends(2, "work", "t", "--on", "999=bury", "--", "true")->err, "does not begin with");
    HAS(ends(2, "work", "t", "-j", "1001", "--", "true")->err, "--jobs: from 1 to 1000");
    HAS(ends(2, "work", "t", "-j", "0", "--", "true")->err, "--jobs: from 1 to 1000");
    HAS(ends(2, "work", "t", "--timeout", "0", "--", "true")->err, "--timeout");
    HAS(ends(2, "work", "t", "--once", "--count", "2", "--", "true")->err, "do not go together");
    HAS(ends(2, "work", "t", "--keep-size", "0", "--", "true")->err, "--keep-size");
    HAS(ends(2, "work", "t", "-k", "--retain", "0", "--", "true")->err, "--retain");
}

static void topics_are_looked_at(void)
{
    HAS(ends(2, "work", "t:x", "--", "true")->err, "the weight of a topic");
    HAS(ends(2, "work", "t:0", "--", "true")->err, "the weight of a topic");
    HAS(ends(2, "work", ":3", "--", "true")->err, "is no name of a topic");
    HAS(ends(2, "work", "t", "--strategy", "best", "--", "true")->err, "neither priority");
    HAS(ends(2, "work", "t:2", "--strategy", "fair", "--", "true")->err, "weighted only");
}

static void flags_of_web_hooks_need_one(void)
{
    HAS(ends(2, "work", "t", "--follow", "--", "true")->err, "go with --http");
    HAS(ends(2, "work", "t", "--header", "A: b", "--", "true")->err, "go with --http");
    HAS(ends(2, "work", "t", "--http", "ftp://x/")->err, "does not begin with http://");
    HAS(ends(2, "work", "t", "--http", "file:///etc/passwd")->err, "does not begin with http://");
    HAS(ends(2, "work", "t", "--http", "http://x/", "--header", "nothing")->err, "Name: value");
    HAS(ends(2, "work", "t", "--http", "http://x/", "--header", "A: b\r\nC: d")->err,
        "Name: value");
    HAS(ends(2, "work", "t", "--http", "http://x/", "--on", "signal=bury")->err,
        "a status of HTTP");
}

static void topics_that_cannot_be_are_refused_by_the_queue(void)
{
    use_url("memory:");
    HAS(ends(2, "work", "a b", "--", "true")->err, "is not the name of a topic");
    HAS(ends(2, "work", "t", "t", "--", "true")->err, "t");
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
        ends(0, "work", "t", "--once", "--", "sh", "-c", "sleep 0.1; wc -c; cat; echo end");
    SAYS(child->out, "3145728\nend\n");
    child = ends(0, "work", "t", "--once", "--", "head", "-c", "3");
    SAYS(child->out, "xxx");
}

static void a_program_that_says_much_is_heard_to_the_end(void)
{
    bide *queue;
    const char *url = url_of("jobs.db", "");
    OK(bide_open(url, NULL, &queue));
    OK(bide_put(queue, "t", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    use_url(url);
    struct child *child =
        ends(0, "work", "t", "--once", "--quiet", "--", "sh", "-c", "seq 200000 >&2; seq 200000");
    EQ(LINES(child->out), 200000);
    EQ(LINES(child->err), 200000);
}

static const struct test tests[] = {
    TEST(something_must_be_run_and_one_thing_only),
    TEST(a_program_must_be_there),
    TEST(values_are_looked_at),
    TEST(topics_are_looked_at),
    TEST(flags_of_web_hooks_need_one),
    TEST(topics_that_cannot_be_are_refused_by_the_queue),
    TEST(a_large_body_arrives_in_pieces),
    TEST(a_program_that_says_much_is_heard_to_the_end),
};

const struct theme work_usage_theme = {"work_usage", tests, COUNT(tests)};
