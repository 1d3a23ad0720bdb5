/* SPDX-License-Identifier: MIT */
/* logger.c - the log of bided, also when it is not read. */
#define _GNU_SOURCE /* pipe2 */
#include "bided_suite.h"

#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

/* Every line begins so, up to a digit for every 0. */
static void check_lines(const struct bided *bided, const char *form)
{
    int count = 0;
    for (const char *line = bided->err.text; *line != 0; line = strchr(line, '\n') + 1, count++) {
        CHECK(strchr(line, '\n') != NULL);
        for (size_t i = 0; form[i] != 0; i++)
            if (form[i] == '0' ? line[i] < '0' || line[i] > '9' : line[i] != form[i])
                FAIL("the line is not as \"%s\": %.100s", form, line);
    }
    CHECK(count >= 4);
}

static void a_line_of_text_begins_with_the_time(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    stop(bided);
    check_lines(bided, "0000-00-00T00:00:00.000Z ");
    HAS(bided->err, "Z INFO  bided " BIDE_VERSION ", pid ");
}

static void a_line_of_json_is_an_object(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--log-format=json");
    stop(bided);
    check_lines(bided, "{\"time\":\"0000-00-00T00:00:00.000Z\",\"level\":\"");
    HAS(bided->err, "\"level\":\"info\",\"message\":\"ready\"}\n");
}

static void lower_log_levels_are_omitted(void)
{
    char flag[300];
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    struct bided *bided = start("--url=memory:", flag, "--log-level=error", NULL);
    int fd = -1;
    UNTIL((fd = try_unix(test_path("a.sock"))) >= 0);
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    kill(bided->pid, SIGTERM);
    await_end(bided, 0);
    EQ(bided->err.size, 0);
    bided = ends_with(111, "--url=memory:", "--listen=192.0.2.1:0", "--log-level=error");
    HAS(bided->err, "ERROR cannot listen");
}

/* Standard error as the stream that JOURNAL_STREAM names. */
static void name_the_journal(void)
{
    struct stat info;
    char text[80];
    if (fstat(STDERR_FILENO, &info) != 0)
        _exit(98);
    snprintf(text, sizeof text, "%llu:%llu", (unsigned long long)info.st_dev,
             (unsigned long long)info.st_ino);
    setenv("JOURNAL_STREAM", text, 1);
}

static void the_journal_gets_levels_instead_of_times(void)
{
    before_exec = name_the_journal;
    struct bided *bided = serve("--url=memory:", "--listen=0", "-n");
    stop(bided);
    check_lines(bided, "<0>");
    HAS(bided->err, "<6>ready\n");
    HAS(bided->err, "<4>-c and -n");
    HAS(ends_with(5, "-x")->err, "<3>unknown flag: -x\n");
    HAS(ends_with(111, "--url=memory:", "--listen=192.0.2.1:0")->err, "<3>cannot listen");
}

static void a_closed_connection_is_not_counted_as_open(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--log-level=debug");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "use a\r\n", "USING a\r\n");
    await_log(bided, "; 1 open\n");
    close(fd);
    await_log(bided, "connection closed: ");
    await_log(bided, "; 0 open\n");
    stop(bided);
}

static int full[2];

static void use_the_full_pipe(void)
{
    dup2(full[1], STDERR_FILENO);
}

static void unread_log_does_not_block_the_server(void)
{
    char line[1000];
    CHECK(pipe2(full, O_CLOEXEC | O_NONBLOCK) == 0);
    memset(line, '.', sizeof line);
    while (write(full[1], line, sizeof line) > 0)
        continue;
    /* The writer would wait. */
    CHECK(fcntl(full[1], F_SETFL, 0) == 0);
    before_exec = use_the_full_pipe;
    char flag[300];
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    struct bided *bided = start("--url=memory:", flag, NULL);
    int fd = -1;
    UNTIL((fd = try_unix(test_path("a.sock"))) >= 0);
    ask(fd, "put 0 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    kill(bided->pid, SIGHUP);
    ask(fd, "reserve\r\n", "RESERVED 1 1\r\nx\r\n");
    kill(bided->pid, SIGTERM);
    await_end(bided, 0);
}

static void close_standard_error(void)
{
    close(STDERR_FILENO);
}

static void server_works_without_standard_error(void)
{
    char flag[300];
    snprintf(flag, sizeof flag, "--listen=unix:%s", test_path("a.sock"));
    before_exec = close_standard_error;
    struct bided *bided = start("-b", folder_of("jobs"), flag, NULL);
    int fd = -1;
    UNTIL((fd = try_unix(test_path("a.sock"))) >= 0);
    ask(fd, "put 0 0 60 1\r\nx\r\n", "INSERTED 1\r\n");
    kill(bided->pid, SIGTERM);
    await_end(bided, 0);
    bide *queue = open_url(url_of("jobs/bide.db", ""));
    bide_job job;
    OK(bide_peek(queue, 1, &job));
    TEXT(job.body, job.body_size, "x");
    bide_job_clear(&job);
    bide_close(queue);
}

/* ---- a log that is full ---- */

enum { LOG_LIMIT = 4096 };

/* Standard error is a file that has as many bytes as a file may have. */
static void fill_log(void)
{
    static char text[LOG_LIMIT];
    struct rlimit limit = {.rlim_cur = LOG_LIMIT, .rlim_max = RLIM_INFINITY};
    int fd = open(test_path("log"), O_WRONLY | O_CREAT | O_APPEND, 0600);
    if (fd < 0 || write(fd, text, sizeof text) != (ssize_t)sizeof text ||
        setrlimit(RLIMIT_FSIZE, &limit) != 0 || dup2(fd, STDERR_FILENO) < 0)
        _exit(99);
}

static void a_log_at_the_file_size_limit_does_not_end_the_server(void)
{
    char listen[400], url[400];
    bide *queue = NULL;
    snprintf(listen, sizeof listen, "--listen=unix:%s", test_path("socket"));
    snprintf(url, sizeof url, "beanstalk://%s", test_path("socket"));
    before_exec = fill_log;
    struct bided *bided = start("--url=memory:", listen, NULL);
    UNTIL(bide_open(url, NULL, &queue) == BIDE_OK);
    OK(bide_put(queue, "topic", "x", 1, NULL, NULL));
    OK(bide_close(queue));
    EQ(size_of(test_path("log")), LOG_LIMIT);
    CHECK(kill(bided->pid, SIGTERM) == 0);
    await_end(bided, 0);
}

static const struct test tests[] = {
    TEST(a_line_of_text_begins_with_the_time),
    TEST(a_line_of_json_is_an_object),
    TEST(lower_log_levels_are_omitted),
    TEST(the_journal_gets_levels_instead_of_times),
    TEST(a_closed_connection_is_not_counted_as_open),
    TEST(unread_log_does_not_block_the_server),
    TEST(server_works_without_standard_error),
    TEST(a_log_at_the_file_size_limit_does_not_end_the_server),
};

const struct theme logger_theme = {"logger", tests, COUNT(tests)};
