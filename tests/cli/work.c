/* SPDX-License-Identifier: MIT */
/* work.c - bide work: a program for each job, and what becomes of it. */
#include "job_view.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

/* Works on the jobs of t until there are none, with these flags and a script of the shell. */
#define works(code, ...) run_expect(code, "work", "t", "--until-empty", __VA_ARGS__)
#define SH(script)       "--", "sh", "-c", (script)

/* ---- what the program gets ---- */

static void the_body_is_on_standard_input_and_the_output_passes_through(void)
{
    put_job("t", "hello");
    struct child *child = run_expect(0, "work", "t", "--once", "--", "cat");
    OUTPUT_IS(child->out, "hello");
    OUTPUT_IS(child->err, "1 job done\n");
    EQ(count_jobs("t", BIDE_STATE_READY), 0);
    EQ(count_jobs("t", BIDE_STATE_RESERVED), 0);
}

static void every_byte_of_a_body_arrives(void)
{
    static char bytes[65000];
    uint64_t id = 0;
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 + i / 256);
    bide *queue = open_test_queue();
    OK(bide_put(queue, "t", bytes, sizeof(bytes), NULL, &id));
    OK(bide_close(queue));
    struct child *child = run_expect(0, "work", "t", "--once", "--", "cat");
    EQ(child->out.size, sizeof(bytes));
    CHECK(memcmp(child->out.text, bytes, sizeof(bytes)) == 0);
}

static void an_empty_body_is_an_empty_input(void)
{
    put_job("t", "");
    struct child *child = run_expect(0, "work", "t", "--once", "--", "wc", "-c");
    OUTPUT_IS(child->out, "0\n");
}

static void a_program_need_not_read_its_input(void)
{
    static char body[60001];
    memset(body, 'x', sizeof(body) - 1);
    put_job("t", body);
    run_expect(0, "work", "t", "--once", "--", "true");
    EQ(count_jobs("t", BIDE_STATE_READY), 0);
}

static void the_environment_describes_the_job(void)
{
    char wanted[200];
    uint64_t id = put_job("t", "x");
    set_env("BIDE_KEY", "not this");
    set_env("MINE", "kept");
    struct child *child = run_expect(0, "work", "t", "--once", "--", "env");
    snprintf(wanted, sizeof(wanted), "BIDE_ID=%llu\n", (unsigned long long)id);
    HAS(child->out, wanted);
    HAS(child->out, "BIDE_TOPIC=t\n");
    HAS(child->out, "BIDE_ATTEMPT=1\n");
    HAS(child->out, "BIDE_TTR_MS=60000\n");
    HAS(child->out, "MINE=kept\n");
    LACKS(child->out, "BIDE_KEY");
    HAS(child->out, "BIDE_URL=");
    HAS(child->out, test_dir());
}

static void a_program_can_put_jobs_itself(void)
{
    if (place_kind == AT_FILE)
        return; /* the file belongs to the worker */
    char script[600];
    put_job("t", "first");
    snprintf(script, sizeof(script), "test \"$(cat)\" = first && %s/bide put t second || cat",
             program_folder());
    works(0, SH(script));
    EQ(count_jobs("t", BIDE_STATE_READY), 0);
}

/* But the standard ones, and that of BIDE_NEXT_FD. */
static void the_program_inherits_no_descriptors(void)
{
    put_job("t", "x");
    struct child *child = run_expect(0, "work", "t", "--once", "--", "sh", "-c", "ls /proc/$$/fd");
    OUTPUT_IS(child->out, is_plain() ? "0\n1\n2\n" : "0\n1\n2\n3\n");
}

/* Of the two that the C library keeps for itself nothing is said. */
static void the_program_has_default_signals(void)
{
    put_job("t", "x");
    struct child *child = run_expect(0, "work", "t", "--once", "--", "grep", "-E", "^Sig(Blk|Ign)",
                                     "/proc/self/status");
    const char *ignored = strstr(child->out.text, "SigIgn:");
    HAS(child->out, "SigBlk:\t0000000000000000\n");
    CHECK(ignored != NULL);
    EQ(strtoull(ignored + 7, NULL, 16) & 0x7fffffff, 0);
}

/* ---- what decides ---- */

/* The line of a job. Answers that a plain beanstalkd does not take are given in other words by
 * another thread, so lines may come in any order. */
static json_t *line_of(const struct child *child, size_t lines, uint64_t id)
{
    for (size_t i = 0; i < lines; i++) {
        json_t *line = json_at(child->out, i);
        if ((uint64_t)number_in(line, "id") == id)
            return line;
    }
    FAIL("no line has the id %llu", (unsigned long long)id);
}

static void each_exit_status_has_its_action(void)
{
    static const struct {
        const char *body;
        const char *outcome;
        bide_state state;
    } cases[] = {
        {"exit 0", "done", BIDE_STATE_GONE},
        {"exit 75", "snoozed", BIDE_STATE_DELAYED},
        {"exit 1", "retried", BIDE_STATE_DELAYED},
        {"exit 65", "buried", BIDE_STATE_BURIED},
        {"exit 66", "done", BIDE_STATE_GONE},
        {"kill -9 $$", "buried", BIDE_STATE_BURIED},
        {"kill -15 $$", "retried", BIDE_STATE_DELAYED},
    };
    uint64_t ids[COUNT(cases)];
    for (size_t i = 0; i < COUNT(cases); i++)
        ids[i] = put_job("t", cases[i].body);
    struct child *child = works(7, "-j", "1", "--json", "--on", "60-70=bury", "--on", "66=done",
                                "--on", "SIGKILL=bury", SH("exec sh"));
    EQ(LINES(child->out), COUNT(cases));
    for (size_t i = 0; i < COUNT(cases); i++) {
        const char *outcome = text_in(line_of(child, COUNT(cases), ids[i]), "outcome");
        TEXT(outcome, strlen(outcome), cases[i].outcome);
        EQ(job_view(ids[i])->state, cases[i].state);
    }
}

static void last_error_has_the_exit_status_and_end_of_stderr(void)
{
    if (is_plain())
        return; /* it keeps no errors */
    uint64_t id = put_job("t", "x");
    struct child *child = works(7, SH("echo first >&2; echo second >&2; exit 3"));
    HAS(child->err, "first\nsecond\n");
    HAS(child->err, "exit status 3: first second\n");
    ERROR_IS(id, "exit status 3: first\nsecond");
    EQ(job_view(id)->failures, 1);
}

static void the_last_lines_of_a_long_stderr_are_kept(void)
{
    if (is_plain())
        return;
    uint64_t id = put_job("t", "x");
    works(7, SH("seq 10000 >&2; exit 1"));
    const bide_job *job = job_view(id);
    BETWEEN((int64_t)job->last_error_size, 800, 1024);
    TEXT(job->last_error + job->last_error_size - 6, 6, "\n10000");
    CHECK(strncmp(job->last_error, "exit status 1: 9", 16) == 0);
}

static void a_signal_is_named(void)
{
    uint64_t id = put_job("t", "x");
    HAS(works(7, SH("kill -SEGV $$"))->err, "killed by SIGSEGV");
    EQ(job_view(id)->state, BIDE_STATE_DELAYED);
}

static void a_snoozed_job_has_not_failed(void)
{
    uint64_t id = put_job("t", "x");
    works(0, "--retry-delay", "1h", SH("exit 75"));
    const bide_job *job = job_view(id);
    EQ(job->state, BIDE_STATE_DELAYED);
    EQ(job->releases, 1);
    BETWEEN(job->left_ms, HOUR_MS - 60000, HOUR_MS);
    EQ(job->failures, 0);
}

static void the_attempts_are_counted(void)
{
    if (is_plain())
        return;
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.max_retries = 2;
    options.backoff_base_ms = options.backoff_max_ms = 1;
    uint64_t id = put_with("x", &options);
    struct child *child = run_expect(7, "work", "t", "--count", "3", "-j", "1", "--", "sh", "-c",
                                     "echo $BIDE_ATTEMPT $BIDE_LAST; exit 1");
    OUTPUT_IS(child->out, "1 0\n2 0\n3 1\n");
    EQ(job_view(id)->state, BIDE_STATE_BURIED);
}

/* ---- time ---- */

static void a_program_over_its_time_limit_is_terminated(void)
{
    uint64_t id = put_job("t", "x");
    int64_t start_us = clock_us();
    struct child *child = works(7, "--timeout", "200ms", SH("sleep 1000"));
    NOT_BEFORE(start_us, 200);
    HAS(child->err, "killed after 200ms (--timeout)");
    EQ(job_view(id)->state, BIDE_STATE_DELAYED);
}

/* A plain beanstalkd counts in seconds, and says of the last one that nothing is left. */
static int64_t short_ttr(void)
{
    return is_plain() ? 3000 : 1000;
}

static void the_time_limit_defaults_to_the_ttr(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = short_ttr();
    put_with("x", &options);
    int64_t start_us = clock_us();
    struct child *child = works(7, SH("sleep 1000"));
    HAS(child->err, is_plain() ? "killed after 3s (ttr)" : "killed after 1s (ttr)");
    NOT_BEFORE(start_us, short_ttr());
}

static void a_program_ignoring_sigterm_is_killed_after_the_grace(void)
{
    put_job("t", "x");
    int64_t start_us = clock_us();
    struct child *child = works(7, "--timeout", "2s", "--grace", "200ms",
                                SH("trap '' TERM; echo begun; sleep 1000; sleep 1000; sleep 1000"));
    NOT_BEFORE(start_us, 2200);
    OUTPUT_IS(child->out, "begun\n");
    HAS(child->err, "killed after 2s (--timeout)");
}

/* What has ended and was not reaped yet is no longer alive. */
static bool is_alive(pid_t pid)
{
    char path[64], line[512] = "";
    snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return false;
    bool there = fgets(line, sizeof(line), file) != NULL;
    fclose(file);
    const char *state = strrchr(line, ')');
    return there && state != NULL && strncmp(state, ") Z", 3) != 0;
}

static void the_whole_process_group_is_terminated(void)
{
    put_job("t", "x");
    struct child *child =
        works(7, "--timeout", "2s", "--grace", "1h", SH("sleep 1000 & echo $!; wait"));
    pid_t pid = (pid_t)atoi(child->out.text);
    CHECK(pid > 1);
    UNTIL(!is_alive(pid));
}

static void the_lease_is_extended_while_the_program_runs(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = short_ttr();
    put_with("x", &options);
    struct child *child =
        works(0, "-j", "2", "--timeout", "forever", SH("echo begun; sleep 4; echo ended"));
    OUTPUT_IS(child->out, "begun\nended\n");
}

static void orphans_of_a_program_are_not_waited_for(void)
{
    put_job("t", "x");
    put_job("t", "y");
    struct child *child = works(0, "-j", "2", SH("sleep 1000 & echo $!; echo said >&2"));
    EQ(LINES(child->out), 2);
    EQ(count_of(&child->err, "said\n"), 2);
    for (const char *line = child->out.text; *line != 0; line = strchr(line, '\n') + 1)
        EQ(kill((pid_t)atoi(line), SIGKILL), 0);
}

/* Nothing stays a zombie. */
static void ended_programs_are_reaped(void)
{
    put_job("t", "x");
    struct child *child = begin("work", "t", "--", "sh", "-c", "sleep 1000 & echo $!,$$", NULL);
    await_out(child, "\n");
    const char *comma = strchr(child->out.text, ',');
    CHECK(comma != NULL);
    pid_t pid = (pid_t)atoi(comma + 1);
    UNTIL(kill(pid, 0) != 0);
    EQ(kill((pid_t)atoi(child->out.text), SIGKILL), 0);
    interrupt(child, SIGTERM, 0);
}

/* ---- results ---- */

static void the_output_is_kept_as_the_result(void)
{
    if (is_plain()) {
        HAS(run_expect(5, "work", "t", "--keep-output", "--", "cat")->err, "keeps no results");
        return;
    }
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.retain_ms = HOUR_MS;
    uint64_t id = put_job("t", "one"), other = put_with("two", &options);
    struct child *child = works(0, "--keep-output", "--retain", "2h", SH("cat; echo ."));
    SILENT(child->out);
    RESULT_IS(id, "one.\n");
    RESULT_IS(other, "two.\n");
    BETWEEN(job_view(id)->left_ms, HOUR_MS, 2 * HOUR_MS);
    BETWEEN(job_view(other)->left_ms, 0, HOUR_MS);
}

static void output_beyond_the_limit_is_truncated_and_the_job_is_done(void)
{
    if (is_plain())
        return;
    uint64_t id = put_job("t", "x");
    HAS(works(0, "--keep-output", "--keep-size", "1000", SH("seq 100000"))->err, "was cut");
    const bide_job *job = job_view(id);
    EQ(job->state, BIDE_STATE_DONE);
    EQ(job->result_size, 1000);
    CHECK(strncmp(job->result, "1\n2\n3\n", 6) == 0);
    CHECK(strstr(job->result, "[cut by bide") != NULL);
}

/* ---- which jobs ---- */

enum { JOBS = 300 };

/* Jobs whose bodies are the lines 1 to JOBS. */
static void put_numbers(void)
{
    bide *queue = open_test_queue();
    for (int i = 1; i <= JOBS; i++) {
        char body[16];
        snprintf(body, sizeof(body), "%d\n", i);
        OK(bide_put(queue, "t", body, strlen(body), NULL, NULL));
    }
    OK(bide_close(queue));
}

/* None of the numbers has come before; answers how many have come in all. */
static int count_numbers(const struct child *child)
{
    static bool came[JOBS + 1];
    static int count;
    for (const char *line = child->out.text; *line != 0; line = strchr(line, '\n') + 1) {
        int number = atoi(line);
        CHECK(number >= 1 && number <= JOBS && !came[number]);
        came[number] = true;
        count++;
    }
    return count;
}

static void every_job_is_run_exactly_once(void)
{
    put_numbers();
    struct child *child = run_expect(0, "work", "t", "-j", "8", "--until-empty", "--", "cat");
    EQ(count_numbers(child), JOBS);
    OUTPUT_IS(child->err, "300 jobs done\n");
}

static void several_workers_share_the_jobs(void)
{
    if (place_kind == AT_FILE)
        return; /* it has one owner */
    struct child *children[3];
    put_numbers();
    for (size_t i = 0; i < COUNT(children); i++)
        children[i] = begin("work", "t", "-j", "2", "--until-empty", "--", "cat", NULL);
    int count = 0;
    for (size_t i = 0; i < COUNT(children); i++) {
        await_end(children[i], 0);
        count = count_numbers(children[i]);
    }
    EQ(count, JOBS);
}

static void allow_few_descriptors(void)
{
    setrlimit(RLIMIT_NOFILE, &(struct rlimit){100, 100});
}

/* A program that cannot be started now waits until another one has ended. */
static void when_descriptors_are_scarce_every_job_is_run_exactly_once(void)
{
    put_numbers();
    before_exec = allow_few_descriptors;
    struct child *child =
        run_expect(0, "work", "t", "-j", "20", "-e", "--", "sh", "-c", "sleep 0.01; cat");
    EQ(count_numbers(child), JOBS);
    OUTPUT_IS(child->err, "300 jobs done\n");
}

static void count_limits_the_number_of_jobs(void)
{
    for (int i = 0; i < 7; i++)
        put_job("t", "x");
    struct child *child = run_expect(0, "work", "t", "-j", "8", "--count", "5", "--", "echo");
    OUTPUT_IS(child->out, "\n\n\n\n\n");
    EQ(count_jobs("t", BIDE_STATE_READY), 2);
    EQ(count_jobs("t", BIDE_STATE_RESERVED), 0);
    run_expect(0, "work", "t", "--once", "--", "echo");
    EQ(count_jobs("t", BIDE_STATE_READY), 1);
}

static void an_empty_topic_ends_at_once(void)
{
    SILENT(run_expect(0, "work", "t", "--until-empty", "--", "echo")->out);
}

static void delayed_jobs_and_paused_topics_are_not_waited_for(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.delay_ms = HOUR_MS;
    put_with("later", &options);
    put_job("paused", "x");
    if (place_kind != AT_FILE) { /* where a pause does not outlive the process */
        bide *queue = open_test_queue();
        OK(bide_pause(queue, "paused", HOUR_MS));
        OK(bide_close(queue));
        SILENT(run_expect(0, "work", "t", "paused", "--until-empty", "--", "echo")->out);
    }
    SILENT(run_expect(0, "work", "t", "--until-empty", "--", "echo")->out);
}

static void topics_are_served_in_the_order_of_the_strategy(void)
{
    if (is_plain())
        return;
    put_job("low", "low ");
    put_job("low", "low ");
    put_job("high", "high ");
    put_job("high", "high ");
    struct child *child =
        run_expect(0, "work", "high", "low", "-j1", "-e", "--strategy", "strict", "--", "cat");
    OUTPUT_IS(child->out, "high high low low ");
    put_job("low", "x");
    put_job("high", "x");
    EQ(run_expect(0, "work", "high:9", "low:1", "-e", "--", "cat")->out.size, 2);
}

/* ---- what is said ---- */

static void json_prints_a_line_for_each_job(void)
{
    uint64_t id = put_job("t", "x");
    struct child *child = works(7, "--json", SH("echo said; exit 4"));
    json_t *line = json_at(child->out, 0);
    EQ(LINES(child->out), 1);
    EQ(number_in(line, "id"), id);
    EQ(number_in(line, "status"), 4);
    EQ(number_in(line, "attempt"), 1);
    CHECK(number_in(line, "took_ms") >= 0);
    CHECK(number_in(line, "delay_ms") > 0);
    CHECK(strcmp(text_in(line, "topic"), "t") == 0);
    CHECK(strcmp(text_in(line, "outcome"), "retried") == 0);
    CHECK(strcmp(text_in(line, "error"), "exit status 4") == 0);
    HAS(child->err, "said\n");
}

static void quiet_prints_only_program_output(void)
{
    put_job("t", "x");
    struct child *child = works(7, "--quiet", SH("echo why >&2; exit 1"));
    OUTPUT_IS(child->err, "why\n");
}

static void verbose_prints_a_line_for_each_job(void)
{
    put_job("t", "x");
    HAS(works(0, "--verbose", SH("true"))->err, " (t): done\n");
}

static const struct test tests[] = {
    TEST(the_body_is_on_standard_input_and_the_output_passes_through),
    TEST(every_byte_of_a_body_arrives),
    TEST(an_empty_body_is_an_empty_input),
    TEST(a_program_need_not_read_its_input),
    TEST(the_environment_describes_the_job),
    TEST(a_program_can_put_jobs_itself),
    TEST(the_program_inherits_no_descriptors),
    TEST(the_program_has_default_signals),
    TEST(each_exit_status_has_its_action),
    TEST(last_error_has_the_exit_status_and_end_of_stderr),
    TEST(the_last_lines_of_a_long_stderr_are_kept),
    TEST(a_signal_is_named),
    TEST(a_snoozed_job_has_not_failed),
    TEST(the_attempts_are_counted),
    TEST(a_program_over_its_time_limit_is_terminated),
    TEST(the_time_limit_defaults_to_the_ttr),
    TEST(a_program_ignoring_sigterm_is_killed_after_the_grace),
    TEST(the_whole_process_group_is_terminated),
    TEST(the_lease_is_extended_while_the_program_runs),
    TEST(orphans_of_a_program_are_not_waited_for),
    TEST(ended_programs_are_reaped),
    TEST(the_output_is_kept_as_the_result),
    TEST(output_beyond_the_limit_is_truncated_and_the_job_is_done),
    TEST(every_job_is_run_exactly_once),
    TEST(several_workers_share_the_jobs),
    TEST(when_descriptors_are_scarce_every_job_is_run_exactly_once),
    TEST(count_limits_the_number_of_jobs),
    TEST(an_empty_topic_ends_at_once),
    TEST(delayed_jobs_and_paused_topics_are_not_waited_for),
    TEST(topics_are_served_in_the_order_of_the_strategy),
    TEST(json_prints_a_line_for_each_job),
    TEST(quiet_prints_only_program_output),
    TEST(verbose_prints_a_line_for_each_job),
};

const struct theme work_theme = {"work", tests, COUNT(tests)};
