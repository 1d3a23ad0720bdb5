/* SPDX-License-Identifier: MIT */
/* work_next.c - bide work: the jobs that a program puts with the end of its own. */
#include "job_view.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Works on the jobs of t until there are none; the body is what the program writes for the next jobs,
 * and the script follows. */
#define works(code, script) \
    run_expect(code, "work", "t", "-j", "1", "--until-empty", "--", "sh", "-c", (script))
#define PASS_ON "cat >&$BIDE_NEXT_FD"

static uint64_t count_next(void)
{
    return count_jobs("n", BIDE_STATE_READY);
}

/* The job has failed with this text, and nothing was put. */
#define FAILS_WITH(id, text) fails_with(HERE, (id), (text))
static void fails_with(struct where at, uint64_t id, const char *text)
{
    const bide_job *job = job_view(id);
    char error[2000];
    snprintf(error, sizeof(error), "%.*s", (int)job->last_error_size,
             (const char *)job->last_error);
    check_equal(at, job->state, BIDE_STATE_DELAYED, "the state of the job");
    check_equal(at, (int64_t)job->failures, 1, "its failures");
    if (strncmp(error, text, strlen(text)) != 0)
        fail_test(at, "the error is \"%s\", not \"%s\"", error, text);
    check_equal(at, (int64_t)count_next(), 0, "jobs that were put");
}

/* ---- what is put ---- */

static void lines_are_put_with_exit_status_0(void)
{
    if (is_plain())
        return;
    uint64_t id = put_job("t", "{\"topic\":\"n\",\"body\":\"one\",\"priority\":7}\n\n"
                               "{\"topic\":\"n\",\"body_base64\":\"dHdv\",\"delay\":\"1h\"}\n");
    struct child *child = works(0, PASS_ON);
    OUTPUT_IS(child->err, "1 job done\n");
    EQ(job_view(id)->state, BIDE_STATE_GONE);
    EQ(count_next(), 1);
    const bide_job *one = job_view(id + 1), *two = job_view(id + 2);
    TEXT(one->body, one->body_size, "one");
    EQ(one->priority, 7);
    EQ(one->max_retries, 25);
    TEXT(two->body, two->body_size, "two");
    EQ(two->state, BIDE_STATE_DELAYED);
}

static void last_line_needs_no_newline(void)
{
    if (is_plain())
        return;
    put_job("t", "{\"topic\":\"n\",\"body\":\"x\"}");
    works(0, PASS_ON);
    EQ(count_next(), 1);
}

static void result_is_kept_and_lines_are_put(void)
{
    if (is_plain())
        return;
    uint64_t id = put_job("t", "{\"topic\":\"n\",\"body\":\"x\"}\n");
    run_expect(0, "work", "t", "--once", "--keep-output", "--", "sh", "-c",
               PASS_ON "; echo the result");
    RESULT_IS(id, "the result\n");
    EQ(count_next(), 1);
}

static void long_lines_and_many_lines_are_put(void)
{
    if (is_plain())
        return;
    put_job("t", "");
    works(
        0,
        "i=0; while [ $i -lt 999 ]; do echo '{\"topic\":\"n\",\"body\":\"x\"}'; i=$((i + 1)); done "
        ">&$BIDE_NEXT_FD; { printf '{\"topic\":\"n\",\"body\":\"'; head -c 60000 /dev/zero | "
        "tr '\\0' y; printf '\"}'; } >&$BIDE_NEXT_FD");
    EQ(count_next(), 1000);
}

static void held_key_may_be_skipped(void)
{
    if (is_plain())
        return;
    put_job("t", "{\"topic\":\"n\",\"body\":\"1\",\"key\":\"k\"}\n"
                 "{\"topic\":\"n\",\"body\":\"2\",\"key\":\"k\",\"conflict\":\"skip\"}\n");
    works(0, PASS_ON);
    EQ(count_next(), 1);
}

/* Three steps, each a program that puts the next one. */
static void chain_runs_to_its_end(void)
{
    if (is_plain())
        return;
    for (int i = 0; i < 5; i++)
        put_job("t", "1");
    run_expect(0, "work", "t", "u", "-j", "3", "--until-empty", "--", "sh", "-c",
               "case $BIDE_TOPIC in t) n=u ;; u) n=n ;; esac; "
               "printf '{\"topic\":\"%s\",\"body\":\"%s\"}\\n' $n \"$(cat)$BIDE_TOPIC\" "
               ">&$BIDE_NEXT_FD");
    EQ(count_jobs("t", BIDE_STATE_READY) + count_jobs("u", BIDE_STATE_READY), 0);
    EQ(count_next(), 5);
}

/* ---- what is not ---- */

static void lines_of_a_failure_are_dropped(void)
{
    static const char *const scripts[] = {PASS_ON "; exit 1", PASS_ON "; exit 75",
                                          PASS_ON "; kill -9 $$"};
    if (is_plain())
        return;
    for (size_t i = 0; i < COUNT(scripts); i++) {
        put_job("t", "{\"topic\":\"n\",\"body\":\"x\"}\n");
        works(i == 1 ? 0 : 7, scripts[i]);
        EQ(count_next(), 0);
    }
}

static void invalid_line_fails_the_job(void)
{
    static const struct {
        const char *lines;
        const char *error;
    } cases[] = {
        {"{\"topic\":\"n\",\"body\":\"x\"}\n{\"topic\":\"n\"}\n",
         "BIDE_NEXT_FD, line 2: \"body\", \"body_base64\" or \"body_json\" is missing"},
        {"nonsense\n{\"topic\":\"n\",\"body\":\"x\"}\n", "BIDE_NEXT_FD, line 1: not a JSON object"},
        {"{\"body\":\"x\"}", "BIDE_NEXT_FD, line 1: \"topic\" is missing"},
        {"\n\n{\"topic\":\"not a topic\",\"body\":\"x\"}",
         "BIDE_NEXT_FD, line 3: \"not a topic\" is not a valid topic name"},
        {"{\"topic\":\"n\",\"body\":\"x\",\"colour\":1}", "BIDE_NEXT_FD, line 1: unknown name"},
        {"{\"topic\":\"n\",\"body\":\"x\",\"conflict\":\"no\"}",
         "BIDE_NEXT_FD, line 1: \"conflict\" must be"},
        {"{\"topic\":\"n\",\"body\":\"x\"", "BIDE_NEXT_FD, line 1: not a JSON object"},
    };
    if (is_plain())
        return;
    for (size_t i = 0; i < COUNT(cases); i++) {
        uint64_t id = put_job("t", cases[i].lines);
        works(7, PASS_ON);
        FAILS_WITH(id, cases[i].error);
        run_expect(0, "purge", "t", "--state", "delayed", "--yes");
    }
}

static void too_many_lines_fail_the_job(void)
{
    if (is_plain())
        return;
    uint64_t id = put_job("t", "");
    works(7, "yes '{\"topic\":\"n\",\"body\":\"x\"}' | head -n 1001 >&$BIDE_NEXT_FD");
    FAILS_WITH(id, "BIDE_NEXT_FD, line 1001: 1000 jobs are the most");
}

/* The program is not held up by what it writes beyond that. */
static void endless_lines_fail_the_job(void)
{
    if (is_plain())
        return;
    uint64_t id = put_job("t", "");
    works(7, "yes nonsense | head -c 2000000 >&$BIDE_NEXT_FD");
    FAILS_WITH(id, "BIDE_NEXT_FD, line 1: ");
}

static void rejected_line_fails_the_job(void)
{
    if (is_plain())
        return;
    uint64_t id = put_job("t", "{\"topic\":\"m\",\"body\":\"1\"}\n"
                               "{\"topic\":\"m\",\"body\":\"2\",\"key\":\"k\"}\n"
                               "{\"topic\":\"m\",\"body\":\"3\",\"key\":\"k\"}\n");
    works(7, PASS_ON);
    FAILS_WITH(id, "put 3 of 3 was rejected: ");
    EQ(count_jobs("m", BIDE_STATE_READY), 0);
}

/* A rule may count a program that exceeds its time limit as done: its lines then count, too. */
static void lines_of_a_time_limit_that_is_done_are_checked(void)
{
    if (is_plain())
        return;
    static const char *const lines[] = {"{\"topic\":\"n\",\"body\":\"x\"}\n", "nonsense",
                                        "{\"topic\":\"n\",\"body\":\"x\"}"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        uint64_t id = put_job("t", lines[i]);
        run_expect(i == 1 ? 7 : 0, "work", "t", "-j", "1", "--until-empty", "--timeout", "500ms",
                   "--on", "timeout=done", "--", "sh", "-c", PASS_ON "; exec sleep 1000");
        if (i == 1)
            FAILS_WITH(id, "BIDE_NEXT_FD, line 1: not a JSON object");
        EQ(count_next(), i == 1 ? 0 : 1);
        run_expect(0, "purge", "n", "--state", "ready", "--yes");
    }
}

/* ---- the descriptor ---- */

/* What it writes later does not count. */
static void child_that_keeps_the_descriptor_is_not_waited_for(void)
{
    if (is_plain())
        return;
    put_job("t", "{\"topic\":\"n\",\"body\":\"x\"}\n");
    struct child *child = works(0, PASS_ON "; sleep 1000 2>/dev/null & echo $!");
    EQ(count_next(), 1);
    EQ(kill((pid_t)atoi(child->out.text), SIGKILL), 0);
}

static void program_may_close_the_descriptor_or_never_use_it(void)
{
    if (is_plain())
        return;
    put_job("t", "x");
    put_job("t", "x");
    works(0, "eval \"exec $BIDE_NEXT_FD>&-\"; cat >/dev/null");
    put_job("t", "x");
    works(0, "true");
    EQ(count_jobs("t", BIDE_STATE_READY), 0);
}

/* Of a bide work around this one. */
static void variable_is_that_of_this_worker(void)
{
    set_env("BIDE_NEXT_FD", "77");
    put_job("t", "x");
    struct child *child = works(0, "echo \"<$BIDE_NEXT_FD>\"");
    OUTPUT_IS(child->out, is_plain() ? "<>\n" : "<3>\n");
}

static const struct test tests[] = {
    TEST(lines_are_put_with_exit_status_0),
    TEST(last_line_needs_no_newline),
    TEST(result_is_kept_and_lines_are_put),
    TEST(long_lines_and_many_lines_are_put),
    TEST(held_key_may_be_skipped),
    TEST(chain_runs_to_its_end),
    TEST(lines_of_a_failure_are_dropped),
    TEST(invalid_line_fails_the_job),
    TEST(too_many_lines_fail_the_job),
    TEST(endless_lines_fail_the_job),
    TEST(rejected_line_fails_the_job),
    TEST(lines_of_a_time_limit_that_is_done_are_checked),
    TEST(child_that_keeps_the_descriptor_is_not_waited_for),
    TEST(program_may_close_the_descriptor_or_never_use_it),
    TEST(variable_is_that_of_this_worker),
};

const struct theme work_next_theme = {"work_next", tests, COUNT(tests)};
