/* SPDX-License-Identifier: MIT */
/* put.c - jobs from arguments, files and standard input, one or many, with all their options. */
#include "cli_test.h"

#include <bide/task.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The job of a topic that is first in a state, with its body. */
static bide_job first(const char *topic, bide_state state)
{
    bide_job job = {0};
    bide *queue = open_test_queue();
    OK(bide_peek_first(queue, topic, state, &job));
    OK(bide_close(queue));
    return job;
}

static uint64_t id_of(const struct child *child)
{
    char *end = NULL;
    uint64_t id = strtoull(child->out.text, &end, 10);
    CHECK(id > 0);
    TEXT(end, strlen(end), "\n");
    return id;
}

/* ---- one ---- */

static void the_id_is_printed_and_the_body_is_there(void)
{
    struct child *child = run_expect(0, "put", "email", "hello");
    SILENT(child->err);
    bide_job job = first("email", BIDE_STATE_READY);
    EQ(job.id, id_of(child));
    TEXT(job.body, job.body_size, "hello");
    bide_job_clear(&job);
}

static void json_has_the_id_and_the_topic(void)
{
    struct child *child = run_expect(0, "put", "email", "hello", "--json");
    json_t *put = json_at(child->out, 0);
    CHECK(number_in(put, "id") > 0);
    TEXT(text_in(put, "topic"), strlen(text_in(put, "topic")), "email");
    EQ(LINES(child->out), 1);
    SILENT(child->err);
}

static void a_body_is_any_bytes_from_standard_input(void)
{
    static char bytes[65535];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 31 + i / 251);
    run_expect_bytes(0, bytes, sizeof(bytes), "put", "binary");
    bide_job job = first("binary", BIDE_STATE_READY);
    EQ(job.body_size, sizeof(bytes));
    CHECK(memcmp(job.body, bytes, sizeof(bytes)) == 0);
    bide_job_clear(&job);
    run_expect(0, "put", "empty");
    job = first("empty", BIDE_STATE_READY);
    EQ(job.body_size, 0);
    bide_job_clear(&job);
}

static void a_body_is_a_file_with_its_last_newline(void)
{
    write_text(test_path("letter.txt"), "Dear reader\n");
    run_expect(0, "put", "email", "--file", test_path("letter.txt"));
    bide_job job = first("email", BIDE_STATE_READY);
    TEXT(job.body, job.body_size, "Dear reader\n");
    bide_job_clear(&job);
    run_expect_input(0, "from input", "put", "other", "--file", "-");
    job = first("other", BIDE_STATE_READY);
    TEXT(job.body, job.body_size, "from input");
    bide_job_clear(&job);
}

static void missing_file_puts_nothing(void)
{
    HAS(run_expect(1, "put", "email", "--file", test_path("nothing.txt"))->err, "nothing.txt");
    HAS(run_expect(1, "put", "email", "--file", test_dir())->err, "directory");
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
}

static void word_with_a_dash_is_a_body_after_two_dashes(void)
{
    run_expect(0, "put", "email", "--", "--help");
    bide_job job = first("email", BIDE_STATE_READY);
    TEXT(job.body, job.body_size, "--help");
    bide_job_clear(&job);
}

static void priority_delay_and_ttr_are_those_of_the_flags(void)
{
    run_expect(0, "put", "later", "x", "-p", "7", "-d1h30m", "--ttr=2m");
    bide_job job = first("later", BIDE_STATE_DELAYED);
    EQ(job.priority, 7);
    EQ(job.ttr_ms, 120000);
    BETWEEN(job.left_ms, 5400000 - 120000, 5400000);
    bide_job_clear(&job);
}

static void put_defaults_are_those_of_the_help(void)
{
    struct child *help = run_expect(0, "help", "put");
    HAS(help->out, "(default: 1024)");
    HAS(help->out, "topic, 25)");
    HAS(help->out, "(default: that of the topic or queue, 1m)");
    HAS(help->out, "(default: 5s)");
    HAS(help->out, "(default: 1h)");
    run_expect(0, "put", "email", "x");
    bide *queue = open_test_queue();
    bide_job job;
    bide_state state;
    int64_t delay_ms = 0;
    OK(bide_reserve(queue, "email", PATIENCE_MS, &job));
    EQ(job.priority, 1024);
    EQ(job.ttr_ms, 60000);
    /* A beanstalkd knows no limit. */
    EQ(job.max_retries, is_plain() ? BIDE_NO_RETRY_LIMIT : BIDE_TASK_RETRIES);
    if (!is_plain()) {
        OK(bide_fail(queue, job.id, job.token, NULL, BIDE_KEEP, &state, &delay_ms));
        EQ(state, BIDE_STATE_DELAYED);
        CHECK(delay_ms >= 5000 && delay_ms <= 7500);
    }
    bide_job_clear(&job);
    OK(bide_close(queue));
}

static void a_job_that_always_fails_ends_buried_by_default(void)
{
    run_expect(0, "put", "free", "x");
    if (is_plain()) {
        run_expect(0, "put", "free", "x", "--retries", "unlimited");
        return;
    }
    bide *queue = open_test_queue();
    bide_job job;
    bide_state state = BIDE_STATE_GONE;
    /* A job of a put that says nothing, and that many failures more than are forgiven. */
    for (int i = 0; i <= BIDE_TASK_RETRIES; i++) {
        CHECK(state != BIDE_STATE_BURIED);
        OK(bide_reserve(queue, "free", PATIENCE_MS, &job));
        OK(bide_fail(queue, job.id, job.token, "poison", 0, &state, NULL));
        bide_job_clear(&job);
    }
    EQ(state, BIDE_STATE_BURIED);
    OK(bide_close(queue));
    run_expect(0, "put", "free", "x", "--retries", "unlimited");
    run_expect(0, "put", "free", "x", "--retries", "forever");
    run_expect_input(0, "{\"body\":\"x\"}\n{\"body\":\"y\",\"max_retries\":-1}\n", "put", "lines",
                     "--jsonl", "--quiet");
    queue = open_test_queue();
    for (int i = 0; i < 2; i++) {
        OK(bide_reserve(queue, "free", PATIENCE_MS, &job));
        EQ(job.max_retries, BIDE_NO_RETRY_LIMIT);
        bide_job_clear(&job);
    }
    OK(bide_reserve(queue, "lines", PATIENCE_MS, &job));
    EQ(job.max_retries, BIDE_TASK_RETRIES);
    bide_job_clear(&job);
    OK(bide_reserve(queue, "lines", PATIENCE_MS, &job));
    EQ(job.max_retries, BIDE_NO_RETRY_LIMIT);
    bide_job_clear(&job);
    OK(bide_close(queue));
    HAS(run_expect(2, "put", "email", "x", "--retries", "often")->err, "unlimited");
}

static void oversized_body_is_rejected(void)
{
    static char bytes[70000];
    struct child *child = run_expect_bytes(5, bytes, sizeof(bytes), "put", "email");
    HAS(child->err, is_plain() ? "larger than the limit" : "70000 bytes, 65535 are allowed");
    SILENT(child->out);
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
}

/* What a plain beanstalkd does not know is said, and nothing is put. */
static void options_unknown_to_beanstalkd_are_kept_or_rejected(void)
{
    static const char *const options[][4] = {
        {"--key", "order-7"},
        {"--retries", "3"},
        {"--expires-in", "1h"},
        {"--retain", "1d"},
    };
    for (size_t i = 0; i < COUNT(options); i++) {
        char topic[16];
        snprintf(topic, sizeof(topic), "t%zu", i);
        struct child *child =
            run_expect(is_plain() ? 1 : 0, "put", topic, "x", options[i][0], options[i][1]);
        if (is_plain())
            HAS(child->err, "plain beanstalkd, which does not know");
        EQ(count_jobs(topic, BIDE_STATE_READY), is_plain() ? 0 : 1);
    }
    if (is_plain())
        return;
    bide_job job = first("t0", BIDE_STATE_READY);
    TEXT(job.key, job.key_size, "order-7");
    bide_job_clear(&job);
    job = first("t1", BIDE_STATE_READY);
    EQ(job.max_retries, 3);
    bide_job_clear(&job);
    job = first("t3", BIDE_STATE_READY);
    EQ(job.retain_ms, 86400000);
    bide_job_clear(&job);
}

static void held_key_is_rejected_with_the_id_or_replaced(void)
{
    if (is_plain()) {
        HAS(run_expect(1, "put", "email", "1", "--key", "k")->err, "does not know keys");
        return;
    }
    uint64_t id = id_of(run_expect(0, "put", "email", "1", "--key", "k"));
    char wanted[40];
    snprintf(wanted, sizeof(wanted), "job %llu ", (unsigned long long)id);
    struct child *child = run_expect(5, "put", "email", "2", "--key", "k");
    HAS(child->err, wanted);
    SILENT(child->out);
    json_t *error = json_at(run_expect(5, "put", "email", "2", "--key", "k", "--json")->err, 0);
    TEXT(text_in(error, "code"), strlen(text_in(error, "code")), "BIDE_EXISTS");
    /* A line of cron, whose last job is not done yet, sends no mail. */
    child = run_expect(5, "put", "email", "2", "--key", "k", "--quiet");
    SILENT(child->err);
    SILENT(child->out);
    SILENT(run_expect(5, "put", "email", "2", "--key", "k", "--quiet", "--json")->err);
    CHECK(id_of(run_expect(0, "put", "email", "2", "--key", "k", "--replace")) > id);
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
}

/* ---- times, said back ---- */

static void a_time_is_echoed_with_its_zone(void)
{
    set_env("TZ", "Europe/Berlin");
    struct child *child = run_expect(0, "put", "email", "x", "--at", "2037-07-01T09:00");
    HAS(child->err, "Wed 2037-07-01 09:00:00 CEST (UTC+02:00)");
    bide_job job = first("email", BIDE_STATE_DELAYED);
    BETWEEN(job.left_ms, INT64_C(2130044400000) - wall_ms() - 60000,
            INT64_C(2130044400000) - wall_ms() + 60000);
    bide_job_clear(&job);
    SILENT(run_expect(0, "put", "email", "x", "--at", "2037-07-01T09:00", "--quiet")->err);
    HAS(run_expect(0, "put", "email", "x", "--at", "2037-12-01T09:00Z")->err, "10:00:00 CET");
}

static void a_time_in_the_past_is_reported_as_such(void)
{
    struct child *child = run_expect(0, "put", "email", "x", "--at", "2020-01-01 9:00");
    HAS(child->err, "ready Wed 2020-01-01 09:00:00 UTC, ");
    HAS(child->err, "that time is past: ready now\n");
    EQ(count_jobs("email", BIDE_STATE_READY), 1);
    LACKS(run_expect(0, "put", "email", "x", "--at", "+1h")->err, "past");
    if (!is_plain()) /* which has no update */
        HAS(run_expect(0, "update", "1", "--at", "1h ago")->err, "that time is past: ready now\n");
    SILENT(run_expect(0, "put", "email", "x", "--at", "1h ago", "--quiet")->err);
    child = begin_on_terminal(80, 24, "put", "email", "x", "--at", "1h ago", NULL);
    await_end(child, 0);
    HAS(child->out, "that time is past: ready now");
    HAS(child->out, "job 4, ready now");
}

static void delay_and_time_together_are_rejected(void)
{
    HAS(run_expect(2, "put", "email", "x", "--at", "tomorrow", "--delay", "1h")->err, "choose one");
    run_expect(2, "put", "email", "x", "--file", "y");
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
}

/* ---- many ---- */

static void every_line_is_a_job(void)
{
    struct child *child =
        run_expect_input(0, "one\ntwo\n\nfour\r\nlast", "put", "lines", "--lines");
    HAS(child->err, "5 jobs put");
    SILENT(child->out);
    EQ(count_jobs("lines", BIDE_STATE_READY), 5);
    child = run_expect_input(0, "a\n\nb\n", "put", "other", "--lines", "--skip-empty", "--quiet");
    SILENT(child->err);
    EQ(count_jobs("other", BIDE_STATE_READY), 2);
    run_expect_input(0, "", "put", "none", "--lines");
    EQ(count_jobs("none", BIDE_STATE_READY), 0);
}

/* Takes some jobs, whose bodies must be the numbers from this one on: how many. */
static int check_numbers(bide *queue, int from)
{
    static bide_job jobs[1000];
    const bide_slice topic = slice_of("numbers");
    bide_reserve_args args = {.topics = &topic, .topic_count = 1, .jobs = jobs, .job_max = 1000};
    OK(bide_reserve_many(queue, &args));
    for (size_t i = 0; i < args.count; i++) {
        char wanted[16];
        snprintf(wanted, sizeof(wanted), "%d", from + (int)i);
        TEXT(jobs[i].body, jobs[i].body_size, wanted);
        bide_job_clear(&jobs[i]);
    }
    return (int)args.count;
}

/* Every line of a number once, whatever the sizes of the pieces that are read and sent. */
static void many_lines_are_put_once_each_in_order(void)
{
    enum { LINES_PUT = 20000 };
    static char text[LINES_PUT * 8];
    size_t size = 0;
    for (int i = 0; i < LINES_PUT; i++)
        size += (size_t)sprintf(text + size, "%d\n", i);
    struct child *child = run_expect_bytes(0, text, size, "put", "numbers", "--lines", "--ids");
    EQ(LINES(child->out), LINES_PUT);
    bide *queue = open_test_queue();
    for (int i = 0; i < LINES_PUT;)
        i += check_numbers(queue, i);
    OK(bide_close(queue));
}

static void rejected_line_is_reported_and_the_others_are_put(void)
{
    static char text[70100];
    memset(text, 'x', sizeof(text));
    memcpy(text, "first\n", 6);
    memcpy(text + 70000, "\nthird\n", 8);
    struct child *child = run_expect_input(7, text, "put", "lines", "--lines");
    HAS(child->err, "line 2: ");
    HAS(child->err, "2 jobs put");
    HAS(child->err, "1 refused");
    EQ(count_jobs("lines", BIDE_STATE_READY), 2);
    child = run_expect_input(7, text, "put", "json", "--lines", "--json");
    json_t *sum = json_at(child->out, 0);
    EQ(number_in(sum, "put"), 2);
    EQ(number_in(sum, "refused"), 1);
}

/* Lines have one exit code, however many there are. */
static void put_of_only_rejected_lines_exits_7(void)
{
    static char text[140100];
    memset(text, 'x', sizeof(text));
    text[70000] = text[140000] = '\n';
    text[140001] = 0;
    struct child *child = run_expect_input(7, text, "put", "lines", "--lines");
    HAS(child->err, "2 refused");
    text[70001] = 0;
    child = run_expect_input(7, text, "put", "lines", "--lines");
    HAS(child->err, "1 refused");
    run_expect_input(7, "no JSON\n", "put", "lines", "--jsonl");
}

/* More than a server even looks at: it says so when all of it has come. */
static void line_of_many_megabytes_does_not_affect_others(void)
{
    static const size_t size = (size_t)40 << 20;
    char *text = malloc(size + 16);
    CHECK(text != NULL);
    memset(text, 'x', size);
    memcpy(text, "first\n", 6);
    memcpy(text + size, "\nthird\n", 8);
    struct child *child = run_expect_input(7, text, "put", "lines", "--lines");
    free(text);
    HAS(child->err, "line 2: ");
    HAS(child->err, "2 jobs put");
    EQ(count_jobs("lines", BIDE_STATE_READY), 2);
}

static void pieces_between_nuls_are_jobs(void)
{
    run_expect_bytes(0, "a\nb\0c\0", 6, "put", "pieces", "--null");
    EQ(count_jobs("pieces", BIDE_STATE_READY), 2);
    bide_job job = first("pieces", BIDE_STATE_READY);
    TEXT(job.body, job.body_size, "a\nb");
    bide_job_clear(&job);
}

static void lines_of_json_have_their_own_options(void)
{
    struct child *child =
        run_expect_input(0,
                         "{\"topic\":\"a\",\"body\":\"hi\",\"delay\":\"1h\"}\n"
                         "\n"
                         "{\"topic\":\"b\",\"body_base64\":\"AAH/\",\"priority\":5}\n"
                         "{\"topic\":\"c\",\"body_json\":{\"x\":[1,2]}}\n",
                         "put", "--jsonl");
    HAS(child->err, "3 jobs put");
    EQ(count_jobs("a", BIDE_STATE_DELAYED), 1);
    bide_job job = first("b", BIDE_STATE_READY);
    EQ(job.priority, 5);
    EQ(job.body_size, 3);
    CHECK(memcmp(job.body, "\0\1\xff", 3) == 0);
    bide_job_clear(&job);
    job = first("c", BIDE_STATE_READY);
    TEXT(job.body, job.body_size, "{\"x\":[1,2]}");
    bide_job_clear(&job);
}

static void invalid_json_lines_are_reported_with_their_number(void)
{
    struct child *child = run_expect_input(7,
                                           "{\"body\":\"fine\"}\n"
                                           "not json\n"
                                           "[1]\n"
                                           "{\"body\":\"x\",\"colour\":\"red\"}\n"
                                           "{\"body\":\"x\",\"delay\":\"soon\"}\n"
                                           "{\"topic\":\"a b\",\"body\":\"x\"}\n"
                                           "{\"body\":\"fine\"}\n",
                                           "put", "email", "--jsonl");
    for (int line = 2; line <= 6; line++) {
        char wanted[16];
        snprintf(wanted, sizeof(wanted), "line %d: ", line);
        HAS(child->err, wanted);
    }
    HAS(child->err, "2 jobs put");
    EQ(count_jobs("email", BIDE_STATE_READY), 2);
}

static const struct test tests[] = {
    TEST(the_id_is_printed_and_the_body_is_there),
    TEST(json_has_the_id_and_the_topic),
    TEST(a_body_is_any_bytes_from_standard_input),
    TEST(a_body_is_a_file_with_its_last_newline),
    TEST(missing_file_puts_nothing),
    TEST(word_with_a_dash_is_a_body_after_two_dashes),
    TEST(priority_delay_and_ttr_are_those_of_the_flags),
    TEST(put_defaults_are_those_of_the_help),
    TEST(a_job_that_always_fails_ends_buried_by_default),
    TEST(oversized_body_is_rejected),
    TEST(options_unknown_to_beanstalkd_are_kept_or_rejected),
    TEST(held_key_is_rejected_with_the_id_or_replaced),
    TEST(a_time_is_echoed_with_its_zone),
    TEST(a_time_in_the_past_is_reported_as_such),
    TEST(delay_and_time_together_are_rejected),
    TEST(every_line_is_a_job),
    TEST(many_lines_are_put_once_each_in_order),
    TEST(rejected_line_is_reported_and_the_others_are_put),
    TEST(put_of_only_rejected_lines_exits_7),
    TEST(line_of_many_megabytes_does_not_affect_others),
    TEST(pieces_between_nuls_are_jobs),
    TEST(lines_of_json_have_their_own_options),
    TEST(invalid_json_lines_are_reported_with_their_number),
};

const struct theme put_theme = {"put", tests, COUNT(tests)};
