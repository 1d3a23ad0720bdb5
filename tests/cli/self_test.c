/* SPDX-License-Identifier: MIT */
/* self_test.c - the tests' own ways to a queue and to a program. */
#include "cli_test.h"

#include <signal.h>
#include <string.h>
#include <unistd.h>

static void a_job_that_was_put_is_counted(void)
{
    put_job("email", "hello");
    put_job("email", "again");
    EQ(count_jobs("email", BIDE_STATE_READY), 2);
    EQ(count_jobs("nothing", BIDE_STATE_READY), 0);
}

static void run_cat(void)
{
    execl("/bin/cat", "cat", (char *)NULL);
}

static void child_echoes_every_byte(void)
{
    static char bytes[300000];
    for (size_t i = 0; i < sizeof(bytes); i++)
        bytes[i] = (char)(i * 7 + i / 256);
    before_exec = run_cat;
    struct child *child = run_expect_bytes(0, bytes, sizeof(bytes), "help");
    EQ(child->out.size, sizeof(bytes));
    CHECK(memcmp(child->out.text, bytes, sizeof(bytes)) == 0);
    SILENT(child->err);
}

static void pseudo_terminal_is_a_terminal_and_passes_ctrl_c(void)
{
    before_exec = run_cat;
    struct child *child = begin_on_terminal(80, 24, "help", NULL);
    press(child, "typed\r");
    await_out(child, "typed\r\ntyped\r\n");
    press(child, "\x03");
    await_end(child, 256 + SIGINT);
}

static const struct test tests[] = {
    TEST(a_job_that_was_put_is_counted),
    TEST(child_echoes_every_byte),
    TEST(pseudo_terminal_is_a_terminal_and_passes_ctrl_c),
};

const struct theme self_test_theme = {"self_test", tests, COUNT(tests)};
