/* SPDX-License-Identifier: MIT */
/* work_stop.c - bide work: how it ends, and what becomes of what runs. */
#include "job_view.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* Says that it has begun, and ends when there is a file "go" in the folder of the test. */
static const char *until_go(const char *before)
{
    static char script[1000];
    snprintf(script, sizeof(script),
             "%s; echo begun >&2; while [ ! -e %s ]; do sleep 0.02; done; echo ended", before,
             test_path("go"));
    return script;
}

static void go(void)
{
    write_text(test_path("go"), "");
}

/* A worker whose first program runs. */
#define begin_work(...) begin_work_with(begin("work", "t", __VA_ARGS__, NULL))
#define SH(script)      "--", "sh", "-c", (script)
static struct child *begin_work_with(struct child *child)
{
    await_err(child, "begun\n");
    return child;
}

/* ---- a stop ---- */

static void a_signal_lets_running_programs_finish_and_starts_no_more(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    put_job("t", "x");
    put_job("t", "y");
    put_job("t", "z");
    for (size_t i = 0; i < COUNT(signals); i++) {
        struct child *child = begin_work("-j", "1", SH(until_go("true")));
        kill(child->pid, signals[i]);
        await_err(child, "stopping; 1 still running");
        go();
        await_end(child, 0);
        OUTPUT_IS(child->out, "ended\n");
        HAS(child->err, "\n1 job done\n");
        EQ(count_jobs("t", BIDE_STATE_READY), 2 - i);
        EQ(count_jobs("t", BIDE_STATE_RESERVED), 0);
        unlink(test_path("go"));
    }
}

static void an_idle_worker_stops_at_once(void)
{
    struct child *child = begin("work", "t", "-v", "--", "true", NULL);
    await_err(child, "at a time");
    interrupt(child, SIGTERM, 0);
    HAS(child->err, "0 jobs done\n");
}

static void after_the_stop_timeout_programs_are_terminated_and_jobs_given_back(void)
{
    uint64_t id = put_job("t", "x");
    struct child *child =
        begin_work("--stop-timeout", "300ms", SH(until_go("trap 'echo told >&2; exit 0' TERM")));
    int64_t start_us = clock_us();
    kill(child->pid, SIGTERM);
    await_end(child, 0);
    NOT_BEFORE(start_us, 300);
    HAS(child->err, "told\n");
    HAS(child->err, "0 jobs done, 1 given back\n");
    const bide_job *job = job_view(id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->failures, 0);
    EQ(job->buries, 0);
}

static void a_second_ctrl_c_kills_running_programs(void)
{
    uint64_t id = put_job("t", "x");
    struct child *child = begin_work(SH(until_go("trap '' TERM INT")));
    kill(child->pid, SIGINT);
    await_err(child, "stopping");
    nap_ms(600);
    kill(child->pid, SIGINT);
    await_end(child, 0);
    HAS(child->err, "1 given back\n");
    EQ(job_view(id)->state, BIDE_STATE_READY);
}

static void a_second_sigterm_changes_nothing(void)
{
    put_job("t", "x");
    struct child *child = begin_work(SH(until_go("true")));
    kill(child->pid, SIGTERM);
    await_err(child, "stopping");
    nap_ms(600);
    kill(child->pid, SIGTERM);
    nap_ms(50);
    go();
    await_end(child, 0);
    OUTPUT_IS(child->out, "ended\n");
}

static void ctrl_c_on_a_terminal_does_not_reach_the_program(void)
{
    put_job("t", "x");
    char script[1200];
    snprintf(script, sizeof(script), "%s", until_go("trap 'echo hit' INT"));
    struct child *child = begin_on_terminal(80, 24, "work", "t", "--", "sh", "-c", script, NULL);
    await_out(child, "begun");
    press(child, "\x03");
    await_out(child, "stopping");
    go();
    await_end(child, 0);
    HAS(child->out, "ended");
    LACKS(child->out, "hit");
}

static void messages_after_ctrl_c_start_a_new_line(void)
{
    put_job("t", "x");
    struct child *child =
        begin_on_terminal(80, 24, "work", "t", "--verbose", "--", "printf", "no newline", NULL);
    await_out(child, "done\r\n");
    press(child, "\x03");
    await_end(child, 0);
    HAS(child->out, "\n1 job done\r\n");
}

static void a_signal_before_completion_exits_as_interrupted(void)
{
    put_job("t", "x");
    struct child *child = begin_work("--count", "3", SH(until_go("true")));
    kill(child->pid, SIGINT);
    await_err(child, "stopping");
    go();
    await_end(child, 130);
    child = begin("work", "t", "--once", "-v", "--", "true", NULL);
    await_err(child, "at a time");
    interrupt(child, SIGTERM, 143);
}

/* ---- a job that is not ours any more ---- */

static void a_cancel_ends_the_program_and_removes_the_job(void)
{
    if (!passes_leases())
        return; /* no other process can cancel it */
    uint64_t id = put_job("t", "x");
    struct child *child =
        begin_work("--once", "--grace", "1h", SH(until_go("trap 'echo told >&2; exit 0' TERM")));
    bide *queue = open_test_queue();
    OK(bide_cancel(queue, id));
    OK(bide_close(queue));
    await_end(child, 0);
    HAS(child->err, "told\n");
    HAS(child->err, "cancelled\n");
    EQ(job_view(id)->state, BIDE_STATE_GONE);
}

static void a_lost_lease_terminates_the_program(void)
{
    if (place_kind != AT_MEMORY)
        return; /* the others know it again, or belong to us */
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 1000;
    put_with("x", &options);
    struct child *child = begin_work("--timeout", "forever", "--grace", "1h",
                                     SH(until_go("trap 'echo told >&2; exit 0' TERM")));
    stop_server(SIGKILL);
    queue_url();
    await_err(child, "told\n");
    await_err(child, "lease lost, ");
    interrupt(child, SIGTERM, 0);
}

/* The program ends well while bide is stopped, and its job has been done by another meanwhile. */
static void a_job_with_a_lost_lease_is_not_reported_done(void)
{
    if (!passes_leases())
        return; /* no other process can reserve the job */
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 1000;
    uint64_t id = put_with("x", &options);
    struct child *child = begin_work("--once", "-v", "--timeout", "forever", SH(until_go("true")));
    kill(child->pid, SIGSTOP);
    UNTIL(count_jobs("t", BIDE_STATE_READY) == 1);
    bide *queue = open_test_queue();
    OK(bide_delete(queue, id, 0));
    OK(bide_close(queue));
    go();
    await_out(child, "ended\n");
    kill(child->pid, SIGCONT);
    await_end(child, 7);
    HAS(child->err, "lease lost, outcome not recorded; the job may run again");
    HAS(child->err, "0 jobs done, 1 lost\n");
}

static void a_lease_lost_without_connection_terminates_and_reports(void)
{
    if (place_kind != AT_MEMORY)
        return; /* elsewhere the job comes back */
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    options.ttr_ms = 3000;
    put_with("x", &options);
    struct child *child = begin_work("--timeout", "forever", "--grace", "1h",
                                     SH(until_go("trap 'echo told >&2; exit 0' TERM")));
    stop_server(SIGKILL);
    await_err(child, "job 1 (t): the lease expired without a connection to the queue; its run is "
                     "stopped\n");
    await_err(child, "told\n");
    queue_url();
    await_err(child, "bide work: connected again\n");
    interrupt(child, SIGTERM, 0);
    CHECK(strstr(child->err.text, "bide work: the connection to ") <
          strstr(child->err.text, "told\n")); /* soon, and not when the lease ends */
    EQ(count_of(&child->err, "bide work: the connection to "), 1);
    EQ(count_of(&child->err, "is stopped\n"), 1);
}

static void every_job_is_done_across_server_restarts(void)
{
    if (place_kind != AT_SERVED_FILE)
        return; /* others forget */
    for (int i = 0; i < 20; i++)
        put_job("t", "x");
    struct child *child =
        begin("work", "t", "-j", "2", "--", "sh", "-c", "sleep 0.05; echo ran", NULL);
    await_out(child, "ran\n");
    stop_server(SIGKILL);
    nap_ms(100);
    queue_url();
    UNTIL(count_jobs("t", BIDE_STATE_READY) + count_jobs("t", BIDE_STATE_RESERVED) == 0);
    kill(child->pid, SIGTERM);
    await_end(child, 0);
    CHECK(LINES(child->out) >= 20);
    HAS(child->err, "20 jobs done");
}

/* ---- what we cannot do ---- */

static bool waits_for_jobs(bide *queue)
{
    bide_topic_stats stats;
    return bide_topic_get_stats(queue, "t", &stats) == BIDE_OK && stats.waiting > 0;
}

/* The lease of the job is shorter than its program takes, before and after the restart: it is
 * extended on both sides of it. Another worker waits for a job all the time. */
static void a_program_that_runs_while_its_server_is_restarted_runs_once(void)
{
    bide_put_options options = BIDE_PUT_OPTIONS_INIT;
    if (place_kind != AT_SERVED_FILE)
        return;
    options.ttr_ms = 4000;
    options.max_retries = 0;
    uint64_t id = put_with("x", &options);
    struct child *first = begin_work("-j", "1", "--timeout", "1h", SH(until_go("true")));
    struct child *second = begin("work", "t", "-j", "1", "--", "sh", "-c", "echo second", NULL);
    bide *queue = open_test_queue();
    for (int round = 0; round < 2; round++) {
        UNTIL(waits_for_jobs(queue));
        stop_server(SIGTERM);
        queue_url();
        nap_ms(round == 0 ? options.ttr_ms + 500 : 0);
        EQ(job_view(id)->state, BIDE_STATE_RESERVED);
        EQ(job_view(id)->failures, 0);
        EQ(job_view(id)->reserves, 1);
    }
    go();
    UNTIL(job_view(id)->state == BIDE_STATE_GONE);
    UNTIL(waits_for_jobs(queue));
    OK(bide_close(queue));
    interrupt(first, SIGTERM, 0);
    interrupt(second, SIGTERM, 0);
    OUTPUT_IS(first->out, "ended\n");
    HAS(first->err, "1 job done\n");
    SILENT(second->out);
}

static void a_missing_program_stops_the_worker_and_fails_no_job(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s", test_path("once"));
    write_text(path, "#!/bin/sh\nrm \"$0\"\n");
    CHECK(chmod(path, 0755) == 0);
    put_job("t", "x");
    uint64_t id = put_job("t", "y");
    struct child *child = run_expect(1, "work", "t", "-j", "1", "--", path);
    HAS(child->err, "cannot run ");
    HAS(child->err, "its job is given back");
    HAS(child->err, "1 job done, 1 given back\n");
    const bide_job *job = job_view(id);
    EQ(job->state, BIDE_STATE_READY);
    EQ(job->failures, 0);
}

static void a_non_executable_stops_the_worker_and_fails_no_job(void)
{
    char path[600];
    snprintf(path, sizeof(path), "%s", test_path("noprogram"));
    write_text(path, "echo without a first line\n");
    CHECK(chmod(path, 0755) == 0);
    uint64_t id = put_job("t", "x");
    HAS(run_expect(1, "work", "t", "--", path)->err, "must begin with #!");
    EQ(job_view(id)->state, BIDE_STATE_READY);
}

static void a_closed_json_pipe_stops_the_worker(void)
{
    put_job("t", "x");
    struct child *child =
        begin("work", "t", "-j", "1", "--json", "--", "sh", "-c", until_go("true"), NULL);
    await_err(child, "begun");
    end_output(child);
    go();
    await_end(child, 141);
    EQ(count_jobs("t", BIDE_STATE_RESERVED), 0);
}

static void a_closed_stdout_stops_the_worker_and_fails_no_job(void)
{
    uint64_t id = put_job("t", "x"), other = put_job("t", "y");
    struct child *child = begin_work("-j", "1", SH(until_go("true")));
    end_output(child);
    go();
    await_end(child, 141);
    EQ(job_view(id)->state, BIDE_STATE_READY);
    EQ(job_view(id)->failures, 0);
    EQ(job_view(other)->state, BIDE_STATE_READY);
}

static const struct test tests[] = {
    TEST(a_signal_lets_running_programs_finish_and_starts_no_more),
    TEST(an_idle_worker_stops_at_once),
    TEST(after_the_stop_timeout_programs_are_terminated_and_jobs_given_back),
    TEST(a_second_ctrl_c_kills_running_programs),
    TEST(a_second_sigterm_changes_nothing),
    TEST(ctrl_c_on_a_terminal_does_not_reach_the_program),
    TEST(messages_after_ctrl_c_start_a_new_line),
    TEST(a_signal_before_completion_exits_as_interrupted),
    TEST(a_cancel_ends_the_program_and_removes_the_job),
    TEST(a_lost_lease_terminates_the_program),
    TEST(a_job_with_a_lost_lease_is_not_reported_done),
    TEST(a_lease_lost_without_connection_terminates_and_reports),
    TEST(every_job_is_done_across_server_restarts),
    TEST(a_program_that_runs_while_its_server_is_restarted_runs_once),
    TEST(a_missing_program_stops_the_worker_and_fails_no_job),
    TEST(a_non_executable_stops_the_worker_and_fails_no_job),
    TEST(a_closed_json_pipe_stops_the_worker),
    TEST(a_closed_stdout_stops_the_worker_and_fails_no_job),
};

const struct theme work_stop_theme = {"work_stop", tests, COUNT(tests)};
