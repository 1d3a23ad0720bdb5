/* SPDX-License-Identifier: MIT */
/* config_file.c - the file of settings, and what a reload makes of it. */
#include "bided_suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static void config_file_sets_everything(void)
{
    struct bided *bided = serve(file_of("# all of it\n"
                                        "url = memory:\n"
                                        "listen = 127.0.0.1:0\n"
                                        "max_job_size = 4\n"
                                        "log_format = json\n"));
    HAS(bided->err, "\"message\":\"ready\"");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 60 5\r\nhello\r\n", "JOB_TOO_BIG\r\n");
    kill(bided->pid, SIGTERM);
    await_end(bided, 0);
}

static void flags_override_the_file(void)
{
    struct bided *bided =
        serve(file_of("max_job_size = 4\nlisten = 192.0.2.1:1\nsync = off\nurl = memory:\n"),
              "--max-job-size=5", "--listen=0", "-b", folder_of("jobs"));
    HAS(bided->err, "sync=off max_job_size=5");
    stop(bided);
}

static void error_in_the_file_is_reported_with_its_line(void)
{
    struct bided *bided = ends_with(5, file_of("\nsync = maybe\n"));
    HAS(bided->err, "bided.conf:2: sync is \"maybe\"; it takes full, normal or off");
    bided = ends_with(5, file_of("max_jobsize = 1\n"));
    HAS(bided->err, "bided.conf:1: unknown setting \"max_jobsize\"; did you mean max_job_size?");
    bided = ends_with(5, "--config", test_path("missing.conf"));
    HAS(bided->err, "missing.conf: No such file");
}

static void check_config_opens_nothing(void)
{
    struct bided *bided =
        ends_with(0, file_of("directory = /no/such\nlisten = 192.0.2.1:1\n"), "--check-config");
    HAS(bided->out, "the settings are good");
    bided = ends_with(5, file_of("listen = 192.0.2.1:x\n"), "--check-config");
    HAS(bided->err, "bided.conf:1: cannot listen on \"192.0.2.1:x\"");
    bided = ends_with(0, file_of("auth_secret = hush\n"), "--check-config");
    HAS(bided->err, "guessed");
}

static void world_readable_secret_is_warned_about(void)
{
    const char *flag = file_of("auth_secret = 0123456789abcdef\nurl = memory:\nlisten = 0\n");
    CHECK(chmod(test_path("bided.conf"), 0644) == 0);
    struct bided *bided = serve(flag);
    HAS(bided->err, "can be read by all users");
    LACKS(bided->err, "0123456789abcdef");
    stop(bided);
}

/* A line that is not understood may be a secret; logs are read by many. */
static void secret_in_an_invalid_line_is_not_printed(void)
{
    static const char *const lines[] = {"auth_secret 0123456789abcdef\n", "0123456789abcdef\n",
                                        "auth_secret = 0123456789abcdef x\n",
                                        "auth_secre = 0123456789abcdef\n"};
    for (size_t i = 0; i < COUNT(lines); i++) {
        struct bided *bided = ends_with(5, file_of(lines[i]));
        HAS(bided->err, "bided.conf:1: ");
        LACKS(bided->err, "0123456789abcdef");
    }
    LACKS(ends_with(5, "auth_secret=0123456789abcdef")->err, "0123456789abcdef");
}

/* ---- reload ---- */

static void a_reload_changes_the_log_and_the_limits(void)
{
    struct bided *bided = serve(file_of("url = memory:\nlisten = 127.0.0.1:0\n"));
    int port = port_of(bided, "127.0.0.1");
    int fd = connect_tcp(port);
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    file_of("url = memory:\nlisten = 127.0.0.1:0\nlog_format = json\nmax_connections = 1\n");
    kill(bided->pid, SIGHUP);
    await_log(bided, "\"message\":\"settings reloaded\"");
    LACKS(bided->err, "takes a restart");
    int other = connect_tcp(port);
    await_close(other);
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    kill(bided->pid, SIGTERM);
    await_end(bided, 0);
}

static void reload_reports_settings_that_need_a_restart(void)
{
    struct bided *bided = serve(file_of("url = memory:\nlisten = 127.0.0.1:0\n"));
    file_of("url = memory:\nlisten = 127.0.0.1:1\nmax_job_size = 5\n");
    kill(bided->pid, SIGHUP);
    await_log(bided, "settings reloaded");
    await_log(bided, "listen has changed; that takes a restart");
    await_log(bided, "max_job_size has changed; that takes a restart");
    LACKS(bided->err, "url has changed");
    /* It is told again as long as it is so, and no longer. */
    kill(bided->pid, SIGHUP);
    await_logs(bided, "listen has changed", 2);
    file_of("url = memory:\nlisten = 127.0.0.1:0\n");
    kill(bided->pid, SIGHUP);
    await_logs(bided, "settings reloaded", 3);
    stop(bided);
    CHECK(strstr(strstr(strstr(bided->err.text, "listen has") + 1, "listen has") + 1,
                 "listen has") == NULL);
}

static void reload_of_an_invalid_file_changes_nothing(void)
{
    struct bided *bided = serve(file_of("url = memory:\nlisten = 127.0.0.1:0\n"));
    file_of("log_format = json\nsync = maybe\n");
    kill(bided->pid, SIGHUP);
    await_log(bided, "ERROR cannot reload settings, the old ones stay: ");
    HAS(bided->err, "bided.conf:2: sync is \"maybe\"");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    CHECK(unlink(test_path("bided.conf")) == 0);
    kill(bided->pid, SIGHUP);
    await_logs(bided, "ERROR cannot reload settings, the old ones stay: ", 2);
    ask(fd, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

static void flags_still_override_the_file_after_a_reload(void)
{
    struct bided *bided =
        serve(file_of("url = memory:\n"), "--listen=127.0.0.1:0", "--log-level=info");
    file_of("url = memory:\nlog_level = error\n");
    kill(bided->pid, SIGHUP);
    await_log(bided, "INFO  settings reloaded");
    stop(bided);
}

static const struct test tests[] = {
    TEST(config_file_sets_everything),
    TEST(flags_override_the_file),
    TEST(error_in_the_file_is_reported_with_its_line),
    TEST(check_config_opens_nothing),
    TEST(world_readable_secret_is_warned_about),
    TEST(secret_in_an_invalid_line_is_not_printed),
    TEST(a_reload_changes_the_log_and_the_limits),
    TEST(reload_reports_settings_that_need_a_restart),
    TEST(reload_of_an_invalid_file_changes_nothing),
    TEST(flags_still_override_the_file_after_a_reload),
};

const struct theme config_file_theme = {"config_file", tests, COUNT(tests)};
