/* SPDX-License-Identifier: MIT */
/* usage.c - help, and what is said about command lines that make no sense. */
#include "cli_test.h"

#include <string.h>

static void without_a_verb_the_help_goes_to_standard_error(void)
{
    static const char *const none[] = {NULL};
    struct child *child = run_expect_list_at(HERE, 2, NULL, 0, none);
    SILENT(child->out);
    HAS(child->err, "Usage: bide [FLAGS] VERB");
}

static void help_goes_to_standard_output(void)
{
    struct child *child = run_expect(0, "help");
    HAS(child->out, "Usage: bide [FLAGS] VERB");
    SILENT(child->err);
    OUTPUT_IS(run_expect(0, "--help")->out, child->out.text);
    OUTPUT_IS(run_expect(0, "-h")->out, child->out.text);
}

static void the_version_is_that_of_the_library(void)
{
    OUTPUT_IS(run_expect(0, "--version")->out, "bide " BIDE_VERSION "\n");
    OUTPUT_IS(run_expect(0, "-V")->out, "bide " BIDE_VERSION "\n");
    OUTPUT_IS(run_expect(0, "put", "--version")->out, "bide " BIDE_VERSION "\n");
}

static void an_unknown_verb_is_reported_with_the_nearest(void)
{
    HAS(run_expect(2, "reserv")->err, "bide: unknown verb \"reserv\"; did you mean reserve?\n");
    HAS(run_expect(2, "tpoics")->err, "did you mean topics?");
    HAS(run_expect(2, "help", "pu")->err, "unknown verb \"pu\"; did you mean put?");
    HAS(run_expect(2, "help", "xyzzyxyzzy")->err,
        "bide: unknown verb \"xyzzyxyzzy\"\nTry \"bide help\".\n");
    struct child *child = run_expect(2, "xyzzyxyzzy");
    HAS(child->err, "bide: unknown verb \"xyzzyxyzzy\"\nTry \"bide help\".\n");
    SILENT(child->out);
}

static void verb_of_another_queue_suggests_ours(void)
{
    HAS(run_expect(2, "tubes")->err, "unknown verb \"tubes\"; did you mean topics or list?\n");
    HAS(run_expect(2, "ls")->err, "did you mean topics or list?");
    HAS(run_expect(2, "retry", "12")->err, "did you mean kick?");
    HAS(run_expect(2, "rm", "12")->err, "did you mean delete?");
    HAS(run_expect(2, "enqueue", "email", "x")->err, "did you mean put?");
    HAS(run_expect(2, "worker")->err, "did you mean work?");
    HAS(run_expect(2, "version")->err, "did you mean --version?");
    HAS(run_expect(2, "help", "status")->err, "did you mean stats?");
}

static const struct test tests[] = {
    TEST(without_a_verb_the_help_goes_to_standard_error),
    TEST(help_goes_to_standard_output),
    TEST(the_version_is_that_of_the_library),
    TEST(an_unknown_verb_is_reported_with_the_nearest),
    TEST(verb_of_another_queue_suggests_ours),
};

const struct theme usage_theme = {"usage", tests, COUNT(tests)};
