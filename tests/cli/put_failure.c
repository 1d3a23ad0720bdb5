/* SPDX-License-Identifier: MIT */
/* put_failure.c - what is said, and what is in the queue, when something ends half way. */
#include "cli_test.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <unistd.h>

#define PART 60000

static const char *large_file(void)
{
    static char path[600], bytes[PART + 1];
    snprintf(path, sizeof(path), "%s", test_path("large"));
    memset(bytes, 'a', PART);
    write_text(path, bytes);
    return path;
}

#define TEN(...)                                                                               \
    __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, __VA_ARGS__, \
        __VA_ARGS__, __VA_ARGS__, __VA_ARGS__
#define HUNDRED(...) TEN(TEN(__VA_ARGS__))

/* So many that some of them are sent before the last one is read. */
static void an_interrupt_between_files_reports_the_jobs_put(void)
{
    if (place_kind == AT_FILE)
        return; /* no other process can read the file */
    const char *file = large_file();
    struct child *child =
        begin("put", "t", HUNDRED("--file", file), HUNDRED("--file", file), "--file", "-", NULL);
    UNTIL(count_jobs("t", BIDE_STATE_READY) > 0);
    interrupt(child, SIGINT, 130);
    uint64_t there = count_jobs("t", BIDE_STATE_READY);
    CHECK(there > 0 && there < 200);
    EQ(LINES(child->out), there);
    HAS(child->err, "Interrupted; some were put.");
}

static void read_a_folder(void)
{
    dup2(open("/", O_RDONLY), STDIN_FILENO);
}

static void unreadable_input_is_a_failure_and_not_a_usage_error(void)
{
    before_exec = read_a_folder;
    HAS(run_expect(1, "put", "t", "--lines")->err, "Is a directory");
    HAS(run_expect(1, "put", "t")->err, "Is a directory");
    before_exec = NULL;
    EQ(count_jobs("t", BIDE_STATE_READY), 0);
}

static const struct test tests[] = {
    TEST(an_interrupt_between_files_reports_the_jobs_put),
    TEST(unreadable_input_is_a_failure_and_not_a_usage_error),
};

const struct theme put_failure_theme = {"put_failure", tests, COUNT(tests)};
