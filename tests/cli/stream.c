/* SPDX-License-Identifier: MIT */
/*
 * stream.c - long verbs that are interrupted, and outputs that cannot be written: the right exit
 * code, a clear word, nothing lost and nothing twice.
 */
#include "cli_test.h"

#include <ctype.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* The number before a text, which may have commas in it: "1,234 jobs put". */
static uint64_t number_before(const struct output *output, const char *text)
{
    const char *end = strstr(output->text, text);
    uint64_t number = 0, weight = 1;
    CHECK(end != NULL);
    while (end > output->text && (isdigit((unsigned char)end[-1]) || end[-1] == ',')) {
        end--;
        if (*end == ',')
            continue;
        number += (uint64_t)(*end - '0') * weight;
        weight *= 10;
    }
    return number;
}

/* Feeds so many lines, each a number. */
static void feed_numbers(struct child *child, int from, int to)
{
    char line[16];
    static char text[1 << 20];
    size_t size = 0;
    for (int i = from; i < to; i++) {
        int length = snprintf(line, sizeof(line), "%d\n", i);
        memcpy(text + size, line, (size_t)length);
        size += (size_t)length;
    }
    feed_at(HERE, child, text, size);
}

/* The jobs of the topic must be the numbers from 0 on, in order: how many. */
static uint64_t take_numbers(const char *name)
{
    static bide_job jobs[1000];
    const bide_slice topic = slice_of(name);
    bide_reserve_args args = {.topics = &topic, .topic_count = 1, .jobs = jobs, .job_max = 1000};
    uint64_t taken = 0;
    bide *queue = open_test_queue();
    while (bide_reserve_many(queue, &args) == BIDE_OK)
        for (size_t i = 0; i < args.count; i++, taken++) {
            char wanted[16];
            snprintf(wanted, sizeof(wanted), "%llu", (unsigned long long)taken);
            TEXT(jobs[i].body, jobs[i].body_size, wanted);
            bide_job_clear(&jobs[i]);
        }
    OK(bide_close(queue));
    return taken;
}

/* ---- interrupts ---- */

static void exactly_the_lines_reported_as_put_are_put(void)
{
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < COUNT(signals); i++) {
        char topic[8];
        snprintf(topic, sizeof(topic), "t%zu", i);
        struct child *child = begin("put", topic, "--lines", NULL);
        feed_numbers(child, 0, 30000); /* more than all pipes and buffers hold */
        interrupt(child, signals[i], 128 + signals[i]);
        uint64_t said = number_before(&child->err, " jobs put");
        CHECK(said > 0);
        HAS(child->err, "Continue with: tail -n +");
        EQ(take_numbers(topic), said);
    }
}

static void half_a_line_is_not_put(void)
{
    struct child *child = begin("put", "email", "--lines", NULL);
    feed_numbers(child, 0, 30000);
    feed(child, "half a li");
    interrupt(child, SIGINT, 130);
    EQ(take_numbers("email"), number_before(&child->err, " jobs put"));
}

static void ctrl_c_reaches_a_put_on_a_terminal(void)
{
    struct child *child = begin_on_terminal(80, 24, "put", "email", "--lines", NULL);
    await_out(child, "Reading from the terminal");
    press(child, "\x03");
    await_end(child, 130);
    EQ(count_jobs("email", BIDE_STATE_READY), 0);
}

/* Is there a job? A file in use can only be inspected from outside. */
static bool has_begun(void)
{
    bide_stats stats;
    if (place_kind == AT_FILE)
        return size_of(test_path("jobs.db-wal")) > 100000;
    bide *queue = open_test_queue();
    OK(bide_queue_stats(queue, &stats));
    OK(bide_close(queue));
    return stats.last_id > 10 || stats.total.puts > 10 || stats.jobs.ready > 10;
}

static void a_bench_that_is_interrupted_leaves_nothing(void)
{
    struct child *child = begin("bench", "--jobs", "2000000", NULL);
    UNTIL(has_begun());
    interrupt(child, SIGINT, 130);
    bide *queue = open_test_queue();
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    EQ(stats.jobs.ready + stats.jobs.delayed + stats.jobs.reserved + stats.jobs.buried, 0);
    OK(bide_close(queue));
}

/* ---- outputs ---- */

static const char *const printing[][5] = {
    {"topics"},
    {"topics", "--json"},
    {"stats"},
    {"stats", "--json"},
    {"peek", "email"},
    {"peek", "1", "--json"},
    {"job", "1"},
    {"job", "1", "--json"},
    {"ping"},
    {"help"},
    {"help", "put"},
    {"--version"},
    {"completion", "bash"},
    {"put", "email", "x"},
    {"put", "email", "x", "--json"},
    {"list"},
    {"list", "--json"},
    {"list", "--ids"},
    {"export"},
};
#define PLAIN_COUNT 15 /* those that a plain beanstalkd can do as well */

static size_t printing_count(void)
{
    return is_plain() ? PLAIN_COUNT : COUNT(printing);
}

/* More than a pipe holds, and than is written at a time. */
static void fill_queue(void)
{
    static char lines[3000 * 101 + 1];
    for (int i = 0; i < 3000; i++) {
        memset(lines + i * 101, 'x', 100);
        lines[i * 101 + 100] = '\n';
    }
    run_expect_input(0, lines, "put", "email", "--lines", "--quiet");
}

static void read_nothing(void)
{
    int fds[2];
    if (pipe(fds) != 0 || dup2(fds[1], 1) != 1)
        _exit(98);
    close(fds[0]);
    close(fds[1]);
}

static void a_closed_pipe_is_exit_141_without_a_message(void)
{
    fill_queue();
    before_exec = read_nothing;
    for (size_t i = 0; i < printing_count(); i++) {
        struct child *child = run_expect_list_at(HERE, 141, NULL, 0, printing[i]);
        SILENT(child->err);
    }
}

static void reader_that_closes_early_is_exit_141(void)
{
    static const char *const long_ones[][4] = {{"list", "--json"}, {"list"}, {"export"}};
    fill_queue();
    for (size_t i = 0; i < COUNT(long_ones); i++) {
        if (is_plain() && strcmp(long_ones[i][0], "list") == 0) {
            run_expect(1, "list"); /* it has none */
            continue;
        }
        struct child *child = begin(long_ones[i][0], long_ones[i][1], NULL);
        await_out(child, "xxx");
        end_output(child);
        /* What it had written before is in the pipe; the rest is more than that holds, unless the
         * test has read it all. */
        await_end(child, child->out.size > 300000 ? 0 : 141);
    }
}

static void write_to_full(void)
{
    int fd = open("/dev/full", O_WRONLY);
    if (fd < 0 || dup2(fd, 1) != 1)
        _exit(98);
    close(fd);
}

static void a_full_disk_under_the_output_is_reported(void)
{
    fill_queue();
    before_exec = write_to_full;
    for (size_t i = 0; i < printing_count(); i++) {
        struct child *child = run_expect_list_at(HERE, 1, NULL, 0, printing[i]);
        HAS(child->err, "output");
        EQ(LINES(child->err), 1);
    }
}

static void close_all(void)
{
    close(0);
    close(1);
    close(2);
}

static void close_error(void)
{
    close(2);
}

/* What would be written must not go into a file or a connection that has taken the number. */
static void closed_descriptors_are_harmless(void)
{
    put_job("email", "x");
    before_exec = close_all;
    for (size_t i = 0; i < printing_count(); i++)
        run_expect_list_at(HERE, 1, NULL, 0, printing[i]);
    before_exec = close_error;
    run_expect(0, "put", "email", "y", "--at", "tomorrow");
    run_expect(3, "peek", "nothing");
    before_exec = NULL;
    if (!is_plain())
        run_expect(0, "check");
    EQ(count_jobs("email", BIDE_STATE_DELAYED), 1);
}

static const struct test tests[] = {
    TEST(exactly_the_lines_reported_as_put_are_put),
    TEST(half_a_line_is_not_put),
    TEST(ctrl_c_reaches_a_put_on_a_terminal),
    TEST(a_bench_that_is_interrupted_leaves_nothing),
    TEST(a_closed_pipe_is_exit_141_without_a_message),
    TEST(reader_that_closes_early_is_exit_141),
    TEST(a_full_disk_under_the_output_is_reported),
    TEST(closed_descriptors_are_harmless),
};

const struct theme stream_theme = {"stream", tests, COUNT(tests)};
