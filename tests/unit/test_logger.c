/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* pipe2 */
#include "scratch.h"

#include "server/logger.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <unistd.h>

/* A pipe that is read when a test wants to know. */
static int ends[2];
static struct logger logger;
static char taken[100000];

static int pipe_open(void **state)
{
    (void)state;
    unsetenv("JOURNAL_STREAM");
    assert_int_equal(pipe2(ends, O_CLOEXEC), 0);
    assert_int_equal(fcntl(ends[0], F_SETFL, O_NONBLOCK), 0);
    bi_logger_init(&logger, ends[1]);
    return 0;
}

static int pipe_close(void **state)
{
    (void)state;
    close(ends[0]);
    if (ends[1] >= 0)
        close(ends[1]);
    return 0;
}

/* All that was written. */
static const char *take(void)
{
    size_t size = 0;
    for (ssize_t got; (got = read(ends[0], taken + size, sizeof(taken) - 1 - size)) > 0;)
        size += (size_t)got;
    taken[size] = 0;
    return taken;
}

/* What stands behind the time, which must be one. */
static const char *take_text(void)
{
    const char *line = take();
    int parts[7], size = 0;
    assert_int_equal(sscanf(line, "%4d-%2d-%2dT%2d:%2d:%2d.%3dZ %n", &parts[0], &parts[1],
                            &parts[2], &parts[3], &parts[4], &parts[5], &parts[6], &size),
                     7);
    assert_int_equal(size, 25);
    assert_true(parts[0] >= 2024 && parts[1] >= 1 && parts[1] <= 12);
    return line + size;
}

static void text_line_has_time_level_and_message(void **state)
{
    (void)state;
    bi_logger_write(&logger, BIDE_LOG_INFO, "listening");
    assert_string_equal(take_text(), "INFO  listening\n");
    bi_logger_write(&logger, BIDE_LOG_ERROR, "broken");
    assert_string_equal(take_text(), "ERROR broken\n");
}

static void lower_levels_are_not_written(void **state)
{
    (void)state;
    bi_logger_write(&logger, BIDE_LOG_DEBUG, "details");
    assert_string_equal(take(), "");
    bi_logger_configure(&logger, BI_LOG_TEXT, BIDE_LOG_WARN);
    bi_logger_write(&logger, BIDE_LOG_INFO, "news");
    assert_string_equal(take(), "");
    bi_logger_write(&logger, BIDE_LOG_WARN, "look");
    assert_string_equal(take_text(), "WARN  look\n");
    bi_logger_configure(&logger, BI_LOG_TEXT, BIDE_LOG_DEBUG);
    bi_logger_write(&logger, BIDE_LOG_DEBUG, "details");
    assert_string_equal(take_text(), "DEBUG details\n");
}

static void library_log_is_written_too(void **state)
{
    (void)state;
    struct bi_log log = bi_logger_log(&logger);
    bi_log(&log, BIDE_LOG_WARN, "job %d", 5);
    assert_string_equal(take_text(), "WARN  job 5\n");
}

static void unprintable_bytes_are_escaped_in_text(void **state)
{
    (void)state;
    bi_logger_write(&logger, BIDE_LOG_INFO, "a\nb\x1b[2J\x7f\xff\xc3\xa4\xe2\x82");
    assert_string_equal(take_text(), "INFO  a\\x0ab\\x1b[2J\\x7f\\xff\xc3\xa4\\xe2\\x82\n");
    bi_logger_write(&logger, BIDE_LOG_INFO,
                    "\xc2\x9b"
                    "2J \xc2\xa0");
    assert_string_equal(take_text(), "INFO  \\xc2\\x9b2J \xc2\xa0\n");
}

static void json_is_one_object_a_line_with_everything_escaped(void **state)
{
    (void)state;
    bi_logger_configure(&logger, BI_LOG_JSON, BIDE_LOG_INFO);
    bi_logger_write(&logger, BIDE_LOG_WARN,
                    "say \"a\\b\"\n\t\x01\xc3\xa4\xf0\x9f\x98\x80\xff\xed\xa0\x80");
    const char *line = take();
    assert_int_equal(strncmp(line, "{\"time\":\"20", 11), 0);
    assert_non_null(strstr(line,
                           "Z\",\"level\":\"warn\",\"message\":\"say \\\"a\\\\b\\\"\\u000a\\u0009"
                           "\\u0001\xc3\xa4\xf0\x9f\x98\x80\\ufffd\\ufffd\\ufffd\\ufffd\"}\n"));
    assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
    bi_logger_write(&logger, BIDE_LOG_WARN,
                    "\xc2\x9b"
                    "2J");
    assert_non_null(strstr(take(), "\"\\u009b2J\""));
}

static void a_long_line_is_cut_and_still_ends(void **state)
{
    (void)state;
    char text[6000];
    memset(text, '"', sizeof(text));
    text[sizeof(text) - 1] = 0;
    bi_logger_configure(&logger, BI_LOG_JSON, BIDE_LOG_INFO);
    bi_logger_write(&logger, BIDE_LOG_INFO, text);
    const char *line = take();
    size_t size = strlen(line);
    assert_true(size > 3000 && size <= 4096);
    assert_string_equal(line + size - 5, "\\\"\"}\n");
}

/* One byte is left where the line is full: neither half a character nor a later byte fills it. */
static void a_long_line_is_cut_between_characters(void **state)
{
    (void)state;
    enum { WIDE = 2500 };
    char text[1 + 2 * WIDE + 2] = "a";
    for (int i = 0; i < WIDE; i++)
        memcpy(text + 1 + (size_t)2 * i, "\xc3\xa4", 2);
    text[1 + 2 * WIDE] = 'x';

    for (size_t skipped = 0; skipped < 2; skipped++) {
        const char *message = skipped == 0 ? text : text + 1;
        bi_logger_write(&logger, BIDE_LOG_INFO, message);
        const char *line = take_text() + strlen("INFO  ");
        size_t size = strlen(line) - 1;
        assert_true(size > 3000 && size < 4096);
        assert_int_equal(line[size], '\n');
        assert_memory_equal(line, message, size);
        assert_int_equal((size + skipped) % 2, 1);
    }
}

static void stalled_reader_gets_the_count_of_lost_lines(void **state)
{
    (void)state;
    char text[1001];
    memset(text, 'x', 1000);
    text[1000] = 0;
    /* More than a pipe holds. Would it block, the test would hang. */
    for (int i = 0; i < 200; i++)
        bi_logger_write(&logger, BIDE_LOG_INFO, text);
    assert_true(logger.lost > 0);
    unsigned long long lost = logger.lost;
    const char *all = take();
    unsigned lines = 0;
    for (const char *at = all; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    assert_int_equal(lines + lost, 200);
    assert_int_equal(all[strlen(all) - 1], '\n');
    bi_logger_write(&logger, BIDE_LOG_INFO, "again");
    char wanted[80];
    snprintf(wanted, sizeof(wanted), "WARN  %llu lines of the log were lost", lost);
    all = take();
    assert_non_null(strstr(all, wanted));
    assert_non_null(strstr(all, "INFO  again\n"));
    assert_int_equal(logger.lost, 0);
}

static void closed_reader_is_harmless(void **state)
{
    (void)state;
    signal(SIGPIPE, SIG_IGN);
    close(ends[0]);
    bi_logger_write(&logger, BIDE_LOG_INFO, "hello?");
    assert_int_equal(logger.lost, 1);
    assert_int_equal(pipe(ends), 0);
    close(ends[1]);
    ends[1] = -1;
}

static void closed_descriptor_is_harmless(void **state)
{
    (void)state;
    close(ends[1]);
    ends[1] = -1;
    bi_logger_write(&logger, BIDE_LOG_INFO, "hello?");
    assert_int_equal(logger.lost, 1);
}

static void the_journal_gets_levels_instead_of_times(void **state)
{
    (void)state;
    struct stat info;
    char stream[80];
    assert_int_equal(fstat(ends[1], &info), 0);
    snprintf(stream, sizeof(stream), "%llu:%llu", (unsigned long long)info.st_dev,
             (unsigned long long)info.st_ino);
    assert_true(bi_logger_is_journal(ends[1], stream));
    setenv("JOURNAL_STREAM", stream, 1);
    bi_logger_init(&logger, ends[1]);
    bi_logger_write(&logger, BIDE_LOG_INFO, "news");
    assert_string_equal(take(), "<6>news\n");
    bi_logger_write(&logger, BIDE_LOG_WARN, "look");
    assert_string_equal(take(), "<4>look\n");
    bi_logger_write(&logger, BIDE_LOG_ERROR, "broken");
    assert_string_equal(take(), "<3>broken\n");
    bi_logger_configure(&logger, BI_LOG_JSON, BIDE_LOG_DEBUG);
    bi_logger_write(&logger, BIDE_LOG_DEBUG, "details");
    assert_int_equal(strncmp(take(), "<7>{\"time\":\"", 12), 0);
}

static void another_stream_is_not_the_journal(void **state)
{
    (void)state;
    struct stat info;
    char stream[80];
    assert_int_equal(fstat(ends[1], &info), 0);
    assert_false(bi_logger_is_journal(ends[1], NULL));
    assert_false(bi_logger_is_journal(ends[1], ""));
    assert_false(bi_logger_is_journal(ends[1], "1:2"));
    assert_false(bi_logger_is_journal(ends[1], "one:two"));
    snprintf(stream, sizeof(stream), "%llu:%llux", (unsigned long long)info.st_dev,
             (unsigned long long)info.st_ino);
    assert_false(bi_logger_is_journal(ends[1], stream));
}

/* ---- threads ---- */

#define THREADS 4
#define LINES   50

static void *write_lines(void *argument)
{
    char text[80];
    for (int i = 0; i < LINES; i++) {
        snprintf(text, sizeof(text), "thread %s says the same as ever", (const char *)argument);
        bi_logger_write(&logger, BIDE_LOG_INFO, text);
    }
    return NULL;
}

static void lines_of_many_threads_do_not_mix(void **state)
{
    (void)state;
    static char names[THREADS][2] = {"a", "b", "c", "d"};
    pthread_t threads[THREADS];
    for (int i = 0; i < THREADS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, write_lines, names[i]), 0);
    for (int i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
    int count = 0;
    char *rest = NULL;
    take();
    for (char *line = strtok_r(taken, "\n", &rest); line != NULL;
         line = strtok_r(NULL, "\n", &rest), count++) {
        char name;
        int end = 0;
        assert_int_equal(sscanf(line + 25, "INFO  thread %c says the same as ever%n", &name, &end),
                         1);
        assert_int_equal(strlen(line + 25), end);
    }
    assert_int_equal(count, THREADS * LINES);
}

#define TEST(name) cmocka_unit_test_setup_teardown(name, pipe_open, pipe_close)

int main(void)
{
    const struct CMUnitTest tests[] = {
        TEST(text_line_has_time_level_and_message),
        TEST(lower_levels_are_not_written),
        TEST(library_log_is_written_too),
        TEST(unprintable_bytes_are_escaped_in_text),
        TEST(json_is_one_object_a_line_with_everything_escaped),
        TEST(a_long_line_is_cut_and_still_ends),
        TEST(a_long_line_is_cut_between_characters),
        TEST(stalled_reader_gets_the_count_of_lost_lines),
        TEST(closed_reader_is_harmless),
        TEST(closed_descriptor_is_harmless),
        TEST(the_journal_gets_levels_instead_of_times),
        TEST(another_stream_is_not_the_journal),
        TEST(lines_of_many_threads_do_not_mix),
    };
    return cmocka_run_group_tests_name("logger", tests, NULL, NULL);
}
