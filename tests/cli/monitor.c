/* SPDX-License-Identifier: MIT */
/* monitor.c - events, ping and bench: what is seen while it happens. */
#include "cli_test.h"

#include <signal.h>
#include <string.h>

/* ---- events ---- */

/* A plain beanstalkd has no events. A file has one process: the command reports that. */
static bool has_no_events(void)
{
    if (is_plain()) {
        HAS(run_expect(1, "events")->err, "plain beanstalkd");
        return true;
    }
    if (place_kind == AT_FILE) {
        struct child *child = begin("events", NULL);
        await_err(child, "no other process can change its jobs");
        HAS(child->err, "bided");
        interrupt(child, SIGINT, 130);
        return true;
    }
    return false;
}

static void events_are_printed_until_ctrl_c(void)
{
    if (has_no_events())
        return;
    struct child *child = begin("events", NULL);
    await_err(child, "events of all topics");
    put_job("email", "hello");
    await_out(child, "email\n");
    HAS(child->out, "  put  ");
    put_job("other", "hello");
    await_out(child, "other\n");
    interrupt(child, SIGINT, 130);
}

static void events_are_filtered_by_topic_and_kind(void)
{
    if (has_no_events())
        return;
    struct child *child =
        begin("events", "email", "--kinds", "deleted,buried", "--json", "--count", "1", NULL);
    await_err(child, "events of email");
    uint64_t id = put_job("email", "hello");
    bide *queue = open_test_queue();
    OK(bide_put(queue, "other", "x", 1, NULL, NULL));
    OK(bide_delete(queue, id, 0));
    OK(bide_close(queue));
    await_end(child, 0);
    EQ(LINES(child->out), 1);
    json_t *event = json_at(child->out, 0);
    TEXT(text_in(event, "kind"), strlen(text_in(event, "kind")), "deleted");
    TEXT(text_in(event, "topic"), strlen(text_in(event, "topic")), "email");
    EQ(number_in(event, "id"), (int64_t)id);
    CHECK(number_in(event, "at_ms") > 0);
}

static void unknown_event_kind_is_rejected(void)
{
    HAS(run_expect(2, "events", "--kinds", "put,redy")->err, "did you mean ready?");
    HAS(run_expect(2, "events", "--kinds", "")->err, "--kinds");
    HAS(run_expect(2, "events", "no topic")->err, "is not a valid topic name");
}

static void events_survive_a_server_restart_and_report_losses(void)
{
    if (place_kind != AT_SERVED_FILE) {
        has_no_events();
        return;
    }
    struct child *child = begin("events", "--json", NULL);
    await_err(child, "events of all topics");
    put_job("email", "hello");
    await_out(child, "\"email\"");
    stop_server(SIGTERM);
    await_err(child, "no connection");
    queue_url();
    await_out(child, "{\"lost\":1}\n");
    put_job("other", "hello");
    await_out(child, "\"other\"");
    interrupt(child, SIGTERM, 143);
}

static void events_end_when_the_pipe_is_closed(void)
{
    if (has_no_events())
        return;
    struct child *child = begin("events", NULL);
    await_err(child, "events of all topics");
    end_output(child);
    await_end(child, 141);
}

/* ---- ping ---- */

static void a_ping_shows_the_kind_of_server(void)
{
    const char *who = is_plain()              ? "beanstalkd answers in "
                      : place_kind == AT_FILE ? "this process answers in "
                                              : "bided answers in ";
    struct child *child = run_expect(0, "ping");
    HAS(child->out, who);
    EQ(LINES(child->out), 1);
    child = run_expect(0, "ping", "--count", "3", "--interval", "1ms");
    EQ(LINES(child->out), 3);
    HAS(child->err, "3 answers");
    json_t *answer = json_at(run_expect(0, "ping", "--json")->out, 0);
    CHECK(number_in(answer, "round_trip_us") >= 0);
    CHECK(strstr(who, text_in(answer, "server")) == who);
}

static void pings_are_repeated_until_ctrl_c(void)
{
    struct child *child = begin("ping", "--count", "0", "--interval", "1h", NULL);
    await_out(child, "answers in");
    interrupt(child, SIGINT, 130);
    child = begin("ping", "--count", "0", "--interval", "1ms", NULL);
    await_out(child, "answers in");
    interrupt(child, SIGTERM, 143);
    HAS(child->err, "on average");
}

/* ---- bench ---- */

static void no_bench_topic_is_left(void)
{
    LACKS(run_expect(0, "topics", "--names")->out, "bench");
}

static void a_bench_measures_and_leaves_nothing(void)
{
    static const char *const phases[] = {"put", "take", "put_many", "take_many", "cycle"};
    put_job("email", "hello");
    struct child *child = run_expect(0, "bench", "-n", "250", "-c", "3", "--size", "20", "--json");
    EQ(LINES(child->out), COUNT(phases));
    for (size_t i = 0; i < COUNT(phases); i++) {
        json_t *phase = json_at(child->out, i);
        TEXT(text_in(phase, "phase"), strlen(text_in(phase, "phase")), phases[i]);
        EQ(number_in(phase, "jobs"), 250);
        EQ(number_in(phase, "threads"), 3);
        EQ(number_in(phase, "body_size"), 20);
        CHECK(number_in(phase, "p50_us") <= number_in(phase, "p90_us"));
        CHECK(number_in(phase, "p90_us") <= number_in(phase, "p99_us"));
        CHECK(number_in(phase, "p99_us") <= number_in(phase, "max_us"));
    }
    no_bench_topic_is_left();
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    child = run_expect(0, "bench", "-n", "1", "-c", "1", "--size", "0");
    EQ(LINES(child->out), COUNT(phases) + 1);
}

static void a_bench_that_is_interrupted_cleans_up(void)
{
    struct child *child = begin("bench", "-n", "1000000000", "-v", NULL);
    await_err(child, "the topic is bide-bench-");
    interrupt(child, SIGINT, 130);
    HAS(child->err, "interrupted; the topic of the benchmark is removed");
    no_bench_topic_is_left();
}

static void rejected_bench_reports_the_reason(void)
{
    struct child *child = run_expect(5, "bench", "-n", "5", "--size", "1MiB");
    CHECK(child->err.size > 0);
    no_bench_topic_is_left();
    HAS(run_expect(2, "bench", "-n", "0")->err, "--jobs");
    HAS(run_expect(2, "bench", "-c", "0")->err, "--threads");
    HAS(run_expect(2, "bench", "-c", "257")->err, "--threads");
    HAS(run_expect(2, "bench", "--size", "2GiB")->err, "--size");
    HAS(run_expect(2, "bench", "--size", "big")->err, "--size");
}

static const struct test tests[] = {
    TEST(events_are_printed_until_ctrl_c),
    TEST(events_are_filtered_by_topic_and_kind),
    TEST(unknown_event_kind_is_rejected),
    TEST(events_survive_a_server_restart_and_report_losses),
    TEST(events_end_when_the_pipe_is_closed),
    TEST(a_ping_shows_the_kind_of_server),
    TEST(pings_are_repeated_until_ctrl_c),
    TEST(a_bench_measures_and_leaves_nothing),
    TEST(a_bench_that_is_interrupted_cleans_up),
    TEST(rejected_bench_reports_the_reason),
};

const struct theme monitor_theme = {"monitor", tests, COUNT(tests)};
