/* SPDX-License-Identifier: MIT */
/* flags.c - the command line: beanstalkd's flags, and what ends in a sentence. */
#include "bided_suite.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void help_goes_to_standard_output(void)
{
    struct bided *bided = ends_with(0, "-h");
    HAS(bided->out, "Usage: bided");
    HAS(bided->out, "--max-job-size");
    HAS(bided->out, "-b DIR");
    EQ(bided->err.size, 0);
    bided = ends_with(0, "--help");
    HAS(bided->out, "Usage: bided");
}

static void version_is_that_of_the_library(void)
{
    struct bided *bided = ends_with(0, "-v");
    TEXT(bided->out.text, bided->out.size, "bided " BIDE_VERSION "\n");
    bided = ends_with(0, "--version");
    TEXT(bided->out.text, bided->out.size, "bided " BIDE_VERSION "\n");
}

static void bad_flags_exit_with_5_as_beanstalkd_does(void)
{
    HAS(ends_with(5, "-x")->err, "bided: unknown flag: -x\n");
    HAS(ends_with(5, "word")->err, "unknown argument: word");
    HAS(ends_with(5, "-p")->err, "flag requires an argument: -p");
    HAS(ends_with(5, "--max-jobsize=1")->err, "did you mean max_job_size?");
    HAS(ends_with(5, "--sync=maybe")->err, "full, normal or off");
    HAS(ends_with(5, "-z", "huge")->err, "a size such as");
    HAS(ends_with(5, "--auth-secret=hush")->err, "belongs in the file");
    HAS(ends_with(5, "--url=gopher:x")->err, "this bided has sqlite: and memory:\n");
    HAS(ends_with(5, "--url=beanstalk://127.0.0.1")->err, "a bided keeps its queue itself");
    HAS(ends_with(5, "--url=memory:?foo=1")->err,
        "bided: there is no option \"foo\" in URLs; bided.conf(5)");
    HAS(ends_with(5, "--hlep")->err, "did you mean --help?");
    HAS(ends_with(5, "--check_confg")->err, "did you mean --check-config?");
    HAS(ends_with(5, "--lsten=1")->err, "did you mean listen?");
    LACKS(ends_with(5, "--auth-secret=hush")->err, "hush");
}

/* The line of Debian's unit file. */
static void the_flags_of_a_unit_file_of_beanstalkd_work(void)
{
    struct bided *bided = serve("-l", "127.0.0.1", "-p", "0", "-b", folder_of("jobs"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 60 5\r\nhello\r\n", "INSERTED 1\r\n");
    stop(bided);
    CHECK(file_exists(test_path("jobs/bide.db")));
    bided = serve("-l127.0.0.1", "-p0", "-b", folder_of("jobs"));
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "reserve-with-timeout 0\r\n", "RESERVED 1 5\r\nhello\r\n");
    stop(bided);
}

static void flag_l_accepts_a_unix_socket_path(void)
{
    char flag[200];
    snprintf(flag, sizeof flag, "unix:%s", test_path("b.sock"));
    struct bided *bided = serve("-l", flag, "-p", "1", "--url=memory:");
    int fd = connect_at(HERE, try_unix(test_path("b.sock")));
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
    CHECK(!file_exists(test_path("b.sock")));
}

static void flag_z_limits_the_job_size(void)
{
    struct bided *bided = serve("-p0", "-z", "5", "--url=memory:");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 60 5\r\nhello\r\n", "INSERTED 1\r\n");
    ask(fd, "put 0 0 60 6\r\nhello!\r\n", "JOB_TOO_BIG\r\n");
    stop(bided);
}

static void flag_z_above_the_maximum_is_capped_with_a_warning(void)
{
    struct bided *bided = serve("-p0", "-z", "99999999999", "--url=memory:");
    HAS(bided->err, "WARN  maximum job size was set to 1073741824");
    HAS(bided->err, "max_job_size=1GiB");
    stop(bided);
}

static void flags_f_and_F_select_the_sync(void)
{
    struct bided *bided = serve("-p0", "-b", folder_of("a"), "-f", "50");
    HAS(bided->err, "-f 50");
    HAS(bided->err, "sync=full");
    stop(bided);
    bided = serve("-p0", "-b", folder_of("a"), "-F");
    HAS(bided->err, "sync=off");
    stop(bided);
    bided = serve("-p0", "-b", folder_of("a"), "-F", "-f0");
    HAS(bided->err, "sync=full max");
    stop(bided);
}

static void flags_without_effect_are_accepted(void)
{
    struct bided *bided = serve("-p0", "-s", "1048576", "-c", "-n", "--url=memory:");
    HAS(bided->err, "-s 1048576 has no effect");
    HAS(bided->err, "WARN  -c and -n have no effect");
    stop(bided);
}

static void flag_V_raises_the_log_level(void)
{
    struct bided *bided = serve("-p0", "-VFV", "-b", folder_of("a"));
    HAS(bided->err, "DEBUG");
    stop(bided);
    bided = serve("-p0", "-b", folder_of("a"));
    LACKS(bided->err, "DEBUG");
    stop(bided);
}

static void url_parameters_override_flags(void)
{
    struct bided *bided = serve("--listen=0", "--max-job-size=100", "--url=memory:?max_job_size=3");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 60 4\r\nabcd\r\n", "JOB_TOO_BIG\r\n");
    stop(bided);
}

static const struct test tests[] = {
    TEST(help_goes_to_standard_output),
    TEST(version_is_that_of_the_library),
    TEST(bad_flags_exit_with_5_as_beanstalkd_does),
    TEST(the_flags_of_a_unit_file_of_beanstalkd_work),
    TEST(flag_l_accepts_a_unix_socket_path),
    TEST(flag_z_limits_the_job_size),
    TEST(flag_z_above_the_maximum_is_capped_with_a_warning),
    TEST(flags_f_and_F_select_the_sync),
    TEST(flags_without_effect_are_accepted),
    TEST(flag_V_raises_the_log_level),
    TEST(url_parameters_override_flags),
};

const struct theme flags_theme = {"flags", tests, COUNT(tests)};
