/* SPDX-License-Identifier: MIT */
/*
 * user_server.c - the user server: started once when no server answers, and found again.
 *
 * Where the system permits it, each test has its own network, so that no server answers on the
 * default port but whom the test puts there.
 */
#define _GNU_SOURCE /* unshare */
#include "cli_test.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTED "started a user server: process "

/* ---- a network of its own ---- */

static bool write_map(const char *path, unsigned id)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && dprintf(fd, "%u %u 1\n", id, id) > 0;
    close(fd);
    return good;
}

/* Whoever is not root may have one together with a table of users, in which they stay who they
 * are. */
static bool leave_network(void)
{
    unsigned user = geteuid(), group = getegid();
    if (unshare(CLONE_NEWNET) == 0)
        return true;
    if (unshare(CLONE_NEWUSER | CLONE_NEWNET) != 0)
        return false;
    int fd = open("/proc/self/setgroups", O_WRONLY | O_CLOEXEC);
    bool good = fd >= 0 && write(fd, "deny", 4) == 4;
    close(fd);
    return good && write_map("/proc/self/uid_map", user) && write_map("/proc/self/gid_map", group);
}

static bool is_port_free(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(11300)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    bool free_now = fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) != 0;
    close(fd);
    return free_now;
}

static void be_alone(void)
{
    struct ifreq loopback = {.ifr_name = "lo"};
    if (leave_network()) {
        int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        CHECK(ioctl(fd, SIOCGIFFLAGS, &loopback) == 0);
        loopback.ifr_flags = (short)(loopback.ifr_flags | IFF_UP);
        CHECK(ioctl(fd, SIOCSIFFLAGS, &loopback) == 0);
        close(fd);
    }
    if (!is_port_free())
        FAIL("a server listens on 127.0.0.1:11300, and the test cannot have its own network");
}

/* ---- a server of another user ---- */

#define OTHER_USER 65534

/* Listens on the usual port as another user, accepts what comes, and writes a byte into the pipe
 * for each connection; never answers. */
static void serve_as_other(int report)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(11300)};
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    if (setgid(OTHER_USER) != 0 || setuid(OTHER_USER) != 0)
        _exit(98);
    prctl(PR_SET_PDEATHSIG, SIGKILL); /* another user does not inherit it */
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (bind(fd, (struct sockaddr *)&address, sizeof(address)) != 0 || listen(fd, 16) != 0)
        _exit(97);
    if (write(report, "l", 1) != 1) /* it listens */
        _exit(96);
    while (accept(fd, NULL, NULL) >= 0)
        if (write(report, "c", 1) != 1)
            break;
    _exit(0);
}

/* Starts it, and waits until it listens. Answers where its connections are told. */
static int begin_other(void)
{
    int run_expect[2];
    char letter = 0;
    CHECK(pipe2(run_expect, O_CLOEXEC) == 0);
    fflush(NULL);
    pid_t pid = fork();
    CHECK(pid >= 0);
    if (pid == 0)
        serve_as_other(run_expect[1]);
    close(run_expect[1]);
    CHECK(read(run_expect[0], &letter, 1) == 1 && letter == 'l');
    CHECK(fcntl(run_expect[0], F_SETFL, O_NONBLOCK) == 0);
    return run_expect[0];
}

static bool had_connection(int report)
{
    char letter;
    return read(report, &letter, 1) == 1;
}

/* ---- its process ---- */

/* The process that a note names; 0 if there is no note. */
static pid_t started_by(const struct child *child)
{
    const char *note = strstr(child->err.text, STARTED);
    return note == NULL ? 0 : (pid_t)atoi(note + strlen(STARTED));
}

/* It is not ours, but the test inherits it from the bide that started it. */
static void end_own(pid_t pid, int signal)
{
    int status = 0;
    CHECK(pid > 0 && kill(pid, signal) == 0);
    UNTIL(waitpid(pid, &status, WNOHANG) == pid);
    if (signal == SIGTERM)
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
}

/* ---- starting ---- */

static void user_server_is_started_announced_and_found_again(void)
{
    be_alone();
    struct child *child = run_expect(0, "put", "email", "hello");
    pid_t pid = started_by(child);
    CHECK(pid > 0 && kill(pid, 0) == 0);
    HAS(child->err, "/data/bide/jobs.db");
    CHECK(file_exists(test_path("data/bide/jobs.db")));
    CHECK(file_exists(test_path("data/bide/bided.log")));
    CHECK(file_exists(test_path("run/bide/bided.sock")));
    child = run_expect(0, "put", "email", "again");
    SILENT(child->err);
    child = run_expect(0, "list", "email", "--json");
    EQ(LINES(child->out), 2);
    end_own(pid, SIGTERM);
}

static void jobs_are_kept_across_restarts_of_the_user_server(void)
{
    be_alone();
    end_own(started_by(run_expect(0, "put", "email", "hello")), SIGTERM);
    struct child *child = run_expect(0, "peek", "email");
    CHECK(started_by(child) > 0);
    HAS(child->out, "hello");
    end_own(started_by(child), SIGTERM);
}

static void quiet_starts_the_server_without_a_message(void)
{
    be_alone();
    SILENT(run_expect(0, "put", "email", "hello", "--quiet")->err);
    SILENT(run_expect(0, "put", "email", "hello")->err);
}

static void eight_concurrent_commands_start_one_server(void)
{
    struct child *children[8];
    int started = 0;
    be_alone();
    for (size_t i = 0; i < COUNT(children); i++)
        children[i] = begin("put", "email", "hello", NULL);
    for (size_t i = 0; i < COUNT(children); i++) {
        end_input(children[i]);
        await_end(children[i], 0);
        started += started_by(children[i]) > 0;
    }
    EQ(started, 1);
    EQ(LINES(run_expect(0, "list", "email", "--json")->out), 8);
}

static void stale_socket_of_a_killed_server_is_replaced(void)
{
    be_alone();
    pid_t pid = started_by(run_expect(0, "put", "email", "hello"));
    end_own(pid, SIGKILL);
    CHECK(file_exists(test_path("run/bide/bided.sock")));
    struct child *child = run_expect(0, "list", "email", "--json");
    CHECK(started_by(child) > 0);
    EQ(LINES(child->out), 1);
}

static void user_server_survives_the_terminal_of_its_command(void)
{
    be_alone();
    struct child *child = begin_on_terminal(80, 24, "put", "email", "hello", NULL);
    await_end(child, 0);
    const char *note = strstr(child->out.text, STARTED);
    CHECK(note != NULL);
    pid_t pid = (pid_t)atoi(note + strlen(STARTED));
    CHECK(kill(pid, 0) == 0);
    EQ(getsid(pid), pid);
    child = run_expect(0, "list", "email", "--json");
    SILENT(child->err);
    EQ(LINES(child->out), 1);
}

static void hold_a_lock(void)
{
    int fd = open("lock", O_RDWR | O_CREAT, 0600);
    if (fd < 0 || dup2(fd, 9) < 0 || flock(9, LOCK_EX) != 0)
        _exit(98);
}

/* Else a script that runs under a lock could not be run a second time. */
static void started_server_inherits_no_lock(void)
{
    be_alone();
    CHECK(chdir(test_dir()) == 0);
    before_exec = hold_a_lock;
    HAS(run_expect(0, "put", "t", "x")->err, "started a user server");
    int fd = open("lock", O_RDWR | O_CLOEXEC);
    CHECK(fd >= 0);
    EQ(flock(fd, LOCK_EX | LOCK_NB), 0);
    close(fd);
}

/* ---- not starting ---- */

static struct child *begin_bided_with(const char *flag)
{
    const char *bide_path = program_path;
    char bided_path[4200];
    snprintf(bided_path, sizeof(bided_path), "%s/bided", program_folder());
    program_path = bided_path;
    struct child *server =
        begin("--config=/dev/null", "--listen=127.0.0.1:11300", "--url=memory:", flag, NULL);
    await_err(server, "ready");
    program_path = bide_path;
    return server;
}

static struct child *begin_bided_on_usual_port(void)
{
    return begin_bided_with(NULL);
}

static void a_server_on_the_usual_port_is_found(void)
{
    be_alone();
    struct child *server = begin_bided_on_usual_port();
    SILENT(run_expect(0, "put", "email", "hello")->err);
    HAS(run_expect(0, "list", "email", "--verbose")->err,
        "the queue is beanstalk://127.0.0.1:11300");
    CHECK(!file_exists(test_path("data/bide")));
    interrupt(server, SIGTERM, 0);
}

/* Jobs that wait in the file of the user's own server are mentioned, but not by every command. */
static void unserved_file_is_mentioned_once(void)
{
    be_alone();
    end_own(started_by(run_expect(0, "put", "email", "hello")), SIGTERM);
    struct child *server = begin_bided_on_usual_port();
    SILENT(run_expect(0, "topics", "--quiet")->err);
    struct child *child = run_expect(0, "topics", "--json");
    CHECK(strstr(text_in(json_at(child->err, 0), "note"), "jobs.db") != NULL);
    SILENT(run_expect(0, "topics")->err);
    interrupt(server, SIGTERM, 0);

    CHECK(started_by(run_expect(0, "put", "email", "again")) > 0);
    run_expect(0, "stop");
    server = begin_bided_on_usual_port();
    HAS(run_expect(0, "topics")->err, "jobs.db");
    SILENT(run_expect(0, "topics")->err);
    interrupt(server, SIGTERM, 0);
}

static int connect_to_usual_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons(11300)};
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    return fd;
}

/* Jobs must not go to another queue because a server is full for a moment. */
static void full_server_is_not_replaced_by_a_user_server(void)
{
    char letter[3];
    be_alone();
    struct child *server = begin_bided_with("--max-connections=1");
    int fd = connect_to_usual_port();
    CHECK(write(fd, "x\r\n", 3) == 3 && read(fd, letter, sizeof(letter)) > 0);
    HAS(run_expect(6, "put", "email", "hello")->err, "no room for another connection");
    CHECK(!file_exists(test_path("data/bide")));
    close(fd);
    interrupt(server, SIGTERM, 0);
}

/* The system has a bided, as its runtime folder tells. False: the test may not mount anything. */
static bool have_system_folder(void)
{
    return geteuid() == 0 && unshare(CLONE_NEWNS) == 0 &&
           mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
           mount("run", "/run", "tmpfs", 0, NULL) == 0 && mkdir("/run/bide", 0755) == 0;
}

/* Else jobs would go to another queue while that server starts again, and later ones, too. */
static void no_user_server_is_started_beside_a_system_server(void)
{
    be_alone();
    if (!have_system_folder())
        return;
    HAS(run_expect(6, "put", "email", "hello")->err, "systemctl status bided");
    CHECK(!file_exists(test_path("data/bide")));
    /* One that comes back meanwhile is used. */
    struct child *child = begin("put", "email", "hello", NULL);
    struct child *server = begin_bided_on_usual_port();
    end_input(child);
    await_end(child, 0);
    EQ(LINES(run_expect(0, "list", "email", "--json")->out), 1);
    interrupt(server, SIGTERM, 0);
}

/* As a logout does. */
static void server_without_its_socket_is_reported_with_the_remedy(void)
{
    char way_out[60];
    be_alone();
    pid_t pid = started_by(run_expect(0, "put", "email", "hello"));
    CHECK(unlink(test_path("run/bide/bided.sock")) == 0);
    struct child *child = run_expect(6, "put", "email", "again");
    snprintf(way_out, sizeof(way_out), "end it with \"kill %d\"", (int)pid);
    HAS(child->err, way_out);
    HAS(run_expect(6, "stop")->err, "whose socket is gone");
    end_own(pid, SIGTERM);
    run_expect(3, "stop");
    CHECK(started_by(run_expect(0, "put", "email", "again")) > 0);
    EQ(LINES(run_expect(0, "list", "email", "--json")->out), 2);
}

static void user_server_with_a_secret_is_started_and_asks_for_it(void)
{
    be_alone();
    folder_of("config/bide");
    write_text(test_path("config/bide/bided.conf"),
               "auth = always\nauth_secret = hush-hush-hush-hush\n");
    CHECK(chmod(test_path("config/bide/bided.conf"), 0600) == 0);
    struct child *child = run_expect(2, "put", "email", "hello");
    HAS(child->err, "requires a secret");
    LACKS(child->err, "trust");
    write_text(test_path("secret"), "hush-hush-hush-hush\n");
    set_env("BIDE_SECRET_FILE", test_path("secret"));
    run_expect(0, "put", "email", "hello");
    run_expect(0, "stop");
}

/* Any local user can listen there before we do. */
static void server_of_another_user_is_used_only_if_named(void)
{
    if (geteuid() != 0)
        return; /* only root can become another user */
    be_alone();
    int report = begin_other();
    struct child *child = run_expect(6, "put", "email", "hello", "--no-start");
    HAS(child->err, "belongs to user 65534");
    HAS(child->err, "--url beanstalk://127.0.0.1:11300");
    LACKS(child->err, "no server answers");
    EQ(LINES(child->err), 1);
    child = run_expect(0, "put", "email", "hello");
    HAS(child->err, "belongs to user 65534");
    CHECK(started_by(child) > 0);
    OUTPUT_IS(run_expect(0, "work", "email", "--until-empty", "--quiet", "--", "cat")->out,
              "hello");
    CHECK(!had_connection(report));
    run_expect(6, "put", "email", "hello", "--url",
               "beanstalk://127.0.0.1:11300?connect_timeout=300ms&peer=trusted");
    CHECK(!had_connection(report));
    run_expect(6, "put", "email", "hello", "--url",
               "beanstalk://127.0.0.1:11300?connect_timeout=300ms");
    UNTIL(had_connection(report));
}

/* A worker and the like go on trying, and another user takes the port meanwhile. */
static void no_command_reconnects_to_a_server_of_another_user(void)
{
    if (geteuid() != 0)
        return;
    be_alone();
    struct child *server = begin_bided_on_usual_port();
    struct child *child = begin("ping", "--count", "0", "--interval", "10ms", NULL);
    await_out(child, "answers in");
    interrupt(server, SIGTERM, 0);
    int report = begin_other();
    await_end(child, 6);
    HAS(child->err, "its owner is the user 65534");
    CHECK(!had_connection(report));
}

/* A script that waits for a server, or watches one, must not be answered by its own. */
static void ping_starts_no_server(void)
{
    be_alone();
    struct child *child = run_expect(6, "ping");
    HAS(child->err, "no server answers on 127.0.0.1:11300");
    SILENT(child->out);
    CHECK(!file_exists(test_path("data/bide")));
    run_expect(0, "put", "email", "hello");
    HAS(run_expect(0, "ping")->out, "bided answers in");
    run_expect(0, "stop");
    run_expect(6, "ping");
}

static void no_start_reports_how_to_name_a_queue(void)
{
    be_alone();
    struct child *child = run_expect(6, "put", "email", "hello", "--no-start");
    HAS(child->err, "--url or BIDE_URL");
    SILENT(child->out);
    CHECK(!file_exists(test_path("data/bide")));
    CHECK(!file_exists(test_path("run/bide/bided.sock")));
}

static void a_usage_error_starts_no_server(void)
{
    be_alone();
    run_expect(2, "putt", "email", "hello");
    run_expect(2, "put", "email", "hello", "--dealy", "5s");
    run_expect(2, "put", "email", "hello", "--delay", "soon");
    run_expect(2, "delete", "x");
    CHECK(!file_exists(test_path("data/bide")));
    CHECK(!file_exists(test_path("run/bide")));
}

static void user_server_needs_a_home_directory(void)
{
    be_alone();
    set_env("HOME", NULL);
    set_env("XDG_DATA_HOME", NULL);
    HAS(run_expect(6, "put", "email", "hello")->err, "HOME is not set");
    set_env("XDG_DATA_HOME", "relative/data");
    HAS(run_expect(6, "put", "email", "hello")->err, "HOME is not set");
    set_env("HOME", folder_of("home"));
    set_env("XDG_DATA_HOME", NULL);
    run_expect(0, "put", "email", "hello");
    CHECK(file_exists(test_path("home/.local/share/bide/jobs.db")));
}

/* Copies bide to where there is no bided. */
static void move_bide_away(void)
{
    char command[9000];
    snprintf(command, sizeof(command), "cp %s/bide %s/bide", program_folder(), folder_of("alone"));
    CHECK(system(command) == 0);
    program_path = strdup(test_path("alone/bide"));
}

static void without_a_bided_the_error_names_where_it_was_searched(void)
{
    be_alone();
    move_bide_away();
    set_env("PATH", folder_of("empty"));
    HAS(run_expect(6, "put", "email", "hello")->err, "no \"bided\" beside bide or in PATH");
}

static void bided_is_found_in_the_path(void)
{
    be_alone();
    move_bide_away();
    set_env("PATH", program_folder());
    CHECK(started_by(run_expect(0, "put", "email", "hello")) > 0);
}

static void a_server_that_cannot_start_is_reported_with_its_log(void)
{
    be_alone();
    CHECK(mkdir(folder_of("data/bide"), 0700) == 0 || errno == EEXIST);
    write_text(test_path("data/bide/jobs.db"),
               "this is no database, and was never meant to be one\n");
    struct child *child = run_expect(6, "put", "email", "hello");
    HAS(child->err, "cannot start a user server");
    HAS(child->err, "it is no SQLite database");
    HAS(child->err, "/data/bide/bided.log");
}

/* Such as a command of cron, beside those of a session. */
static void a_server_is_found_from_another_runtime_folder(void)
{
    be_alone();
    CHECK(started_by(run_expect(0, "put", "email", "hello")) > 0);
    CHECK(chmod(folder_of("other"), 0700) == 0);
    set_env("XDG_RUNTIME_DIR", test_path("other"));
    struct child *child = run_expect(0, "put", "email", "hello");
    EQ(started_by(child), 0);
    HAS(child->out, "2\n");
}

static void dangling_socket_link_is_harmless(void)
{
    be_alone();
    CHECK(mkdir(folder_of("data/bide"), 0700) == 0 || errno == EEXIST);
    CHECK(symlink("/no/such/folder/bided.sock", test_path("data/bide/bided.sock")) == 0);
    CHECK(started_by(run_expect(0, "put", "email", "hello")) > 0);
    EQ(started_by(run_expect(0, "topics")), 0);
}

static void user_server_is_stopped_and_restarted(void)
{
    be_alone();
    HAS(run_expect(3, "stop")->err, "no user server is running");
    CHECK(started_by(run_expect(0, "put", "email", "hello")) > 0);
    HAS(run_expect(0, "stop")->err, "user server stopped");
    run_expect(3, "stop");
    struct child *child = run_expect(0, "peek", "email");
    CHECK(started_by(child) > 0);
    OUTPUT_IS(child->out, "hello");
}

static void user_server_accepts_large_jobs_and_has_its_own_settings(void)
{
    static char body[100000];
    memset(body, 'x', sizeof(body) - 1);
    be_alone();
    run_expect_input(0, body, "put", "email");
    run_expect(0, "stop");
    folder_of("config/bide");
    write_text(test_path("config/bide/bided.conf"), "max_job_size = 10\n");
    HAS(run_expect_input(5, body, "put", "email")->err, "10 are allowed");
}

/* ---- folders of others ---- */

static void a_runtime_folder_that_others_can_write_to_is_not_used(void)
{
    be_alone();
    CHECK(mkdir(test_path("run/bide"), 0700) == 0 && chmod(test_path("run/bide"), 0777) == 0);
    struct child *child = run_expect(6, "put", "email", "hello");
    HAS(child->err, "others can write to it");
    HAS(child->err, "--url or BIDE_URL");
}

static void a_runtime_folder_that_is_a_link_is_not_used(void)
{
    be_alone();
    CHECK(symlink(folder_of("elsewhere"), test_path("run/bide")) == 0);
    HAS(run_expect(6, "put", "email", "hello")->err, "belongs to another user");
}

static void a_log_that_is_a_link_is_not_followed(void)
{
    be_alone();
    CHECK(mkdir(test_path("data/bide"), 0700) == 0);
    write_file(test_path("precious"), 0, "x", 1);
    CHECK(symlink(test_path("precious"), test_path("data/bide/bided.log")) == 0);
    struct child *child = run_expect(6, "put", "email", "hello");
    HAS(child->err, "cannot start bided (its log is ");
    EQ(size_of(test_path("precious")), 1);
    CHECK(!file_exists(test_path("data/bide/jobs.db")));
}

/* As root with the HOME of another user, who could put links where root then writes. */
static void a_data_folder_of_another_user_is_not_used(void)
{
    be_alone();
    if (geteuid() != 0 || chown(test_path("data"), 65534, 65534) != 0)
        return;
    struct child *child = run_expect(6, "put", "email", "hello");
    HAS(child->err, "/data belongs to user 65534: HOME is another user's");
    CHECK(!file_exists(test_path("data/bide")));
}

/* No server is used in place of one's own when that cannot be used safely. */
static void unsafe_directory_is_an_error_although_a_server_answers(void)
{
    be_alone();
    struct child *server = begin_bided_on_usual_port();
    CHECK(mkdir(test_path("run/bide"), 0700) == 0 && chmod(test_path("run/bide"), 0777) == 0);
    struct child *child = run_expect(6, "put", "email", "hello");
    HAS(child->err, "others can write to it");
    HAS(child->err, "XDG_RUNTIME_DIR");
    if (geteuid() == 0) {
        CHECK(chmod(test_path("run/bide"), 0700) == 0);
        CHECK(chown(test_path("run/bide"), OTHER_USER, OTHER_USER) == 0);
        HAS(run_expect(6, "put", "email", "hello")->err, "belongs to another user");
    }
    CHECK(rmdir(test_path("run/bide")) == 0);
    OUTPUT_IS(run_expect(0, "topics", "--names")->out, "default\n");
    interrupt(server, SIGTERM, 0);
}

/* The link there could point to a server of that user. */
static void data_directory_created_by_another_user_is_not_used(void)
{
    if (geteuid() != 0)
        return;
    be_alone();
    CHECK(chown(folder_of("data/bide"), OTHER_USER, OTHER_USER) == 0);
    HAS(run_expect(6, "put", "email", "hello")->err, "belongs to another user");
    CHECK(!file_exists(test_path("data/bide/jobs.db")));
}

static void a_data_directory_that_cannot_be_created_is_reported(void)
{
    be_alone();
    write_text(test_path("file"), "in the way");
    set_env("XDG_DATA_HOME", test_path("file"));
    struct child *child = run_expect(6, "put", "email", "hello");
    HAS(child->err, "cannot create directory");
    HAS(child->err, "/file");
}

static const struct test tests[] = {
    TEST(user_server_is_started_announced_and_found_again),
    TEST(jobs_are_kept_across_restarts_of_the_user_server),
    TEST(quiet_starts_the_server_without_a_message),
    TEST(eight_concurrent_commands_start_one_server),
    TEST(stale_socket_of_a_killed_server_is_replaced),
    TEST(user_server_survives_the_terminal_of_its_command),
    TEST(started_server_inherits_no_lock),
    TEST(a_server_on_the_usual_port_is_found),
    TEST(unserved_file_is_mentioned_once),
    TEST(full_server_is_not_replaced_by_a_user_server),
    TEST(no_user_server_is_started_beside_a_system_server),
    TEST(server_without_its_socket_is_reported_with_the_remedy),
    TEST(user_server_with_a_secret_is_started_and_asks_for_it),
    TEST(server_of_another_user_is_used_only_if_named),
    TEST(no_command_reconnects_to_a_server_of_another_user),
    TEST(unsafe_directory_is_an_error_although_a_server_answers),
    TEST(data_directory_created_by_another_user_is_not_used),
    TEST(ping_starts_no_server),
    TEST(no_start_reports_how_to_name_a_queue),
    TEST(a_usage_error_starts_no_server),
    TEST(user_server_needs_a_home_directory),
    TEST(without_a_bided_the_error_names_where_it_was_searched),
    TEST(bided_is_found_in_the_path),
    TEST(a_server_that_cannot_start_is_reported_with_its_log),
    TEST(a_server_is_found_from_another_runtime_folder),
    TEST(dangling_socket_link_is_harmless),
    TEST(user_server_is_stopped_and_restarted),
    TEST(user_server_accepts_large_jobs_and_has_its_own_settings),
    TEST(a_runtime_folder_that_others_can_write_to_is_not_used),
    TEST(a_runtime_folder_that_is_a_link_is_not_used),
    TEST(a_log_that_is_a_link_is_not_followed),
    TEST(a_data_folder_of_another_user_is_not_used),
    TEST(a_data_directory_that_cannot_be_created_is_reported),
};

const struct theme user_server_theme = {"user_server", tests, COUNT(tests)};
