/* SPDX-License-Identifier: MIT */
/* connect.c - which queue is meant, and what is said when it cannot be had. */
#include "cli_test.h"

#include <arpa/inet.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static void the_missing_directory_of_a_socket_is_reported(void)
{
    HAS(run_expect(6, "stats", "--url", "beanstalk:///no/such/folder/s")->err,
        "no connection to /no/such/folder/s: there is no such directory");
}

static const char *config_file(void)
{
    folder_of("config/bide");
    return test_path("config/bide/bide.conf");
}

static void configure(const char *text)
{
    unlink(config_file());
    write_text(config_file(), text);
}

static void configure_url(const char *url)
{
    char text[9000];
    snprintf(text, sizeof(text), "# mine\nurl = %s\n", url);
    configure(text);
}

/* ---- precedence ---- */

static void flag_overrides_environment_overrides_config_file(void)
{
    configure_url(url_of("file.db", ""));
    run_expect(0, "put", "email", "1", "--no-start");
    CHECK(file_exists(test_path("file.db")));
    set_env("BIDE_URL", url_of("environment.db", ""));
    run_expect(0, "put", "email", "2");
    CHECK(file_exists(test_path("environment.db")));
    run_expect(0, "put", "email", "3", "--url", url_of("flag.db", ""));
    CHECK(file_exists(test_path("flag.db")));
    OUTPUT_IS(run_expect(0, "peek", "email", "--url", url_of("file.db", ""))->out, "1");
    OUTPUT_IS(run_expect(0, "peek", "email")->out, "2");
    OUTPUT_IS(run_expect(0, "-u", url_of("flag.db", ""), "peek", "email")->out, "3");
    set_env("BIDE_URL", "");
    OUTPUT_IS(run_expect(0, "peek", "email")->out, "1");
}

static void config_in_home_is_read_without_xdg(void)
{
    set_env("XDG_CONFIG_HOME", NULL);
    folder_of("home/.config");
    folder_of("home/.config/bide");
    char text[5000];
    snprintf(text, sizeof(text), "url = %s\n", url_of("home.db", ""));
    write_text(test_path("home/.config/bide/bide.conf"), text);
    run_expect(0, "put", "email", "hello");
    CHECK(file_exists(test_path("home.db")));
}

static void a_bad_url_is_reported_with_its_source(void)
{
    set_env("BIDE_URL", "gopher:x");
    HAS(run_expect(2, "topics")->err, "(URL from BIDE_URL)");
    set_env("BIDE_URL", NULL);
    configure_url("gopher:x");
    HAS(run_expect(2, "topics")->err, "(URL from the config file)");
    struct child *child = run_expect(2, "topics", "--url", "gopher:x");
    LACKS(child->err, "URL from");
    HAS(child->err, "bide topics: ");
    run_expect(2, "topics", "--url", "");
    run_expect(2, "topics", "--url", "sqlite:");
    run_expect(2, "put", "t", "x", "--url", "sqlite:x.db?colour=red");
    run_expect(2, "topics", "--url", "beanstalk://127.0.0.1:99999");
}

static void a_password_is_not_shown(void)
{
    struct child *child = run_expect(6, "topics", "--url", "beanstalk://:hush@127.0.0.1:1");
    LACKS(child->err, "hush");
    child =
        run_expect(6, "topics", "--verbose", "--json", "--url", "beanstalk://:hush@127.0.0.1:1");
    LACKS(child->err, "hush");
}

/* ---- the file ---- */

static void a_bad_config_file_is_reported_with_its_line(void)
{
    configure("\n# a comment\nurll = memory:\n");
    struct child *child = run_expect(2, "topics");
    HAS(child->err, "bide.conf");
    HAS(child->err, "3");
    HAS(child->err, "unknown setting \"urll\"; did you mean url?");
    configure("xyzzyxyzzy = 1\n");
    HAS(run_expect(2, "topics")->err, "the settings are url, secret_file and color");
    configure("color = red\n");
    HAS(run_expect(2, "topics")->err, "color is auto, always or never, not \"red\"");
    configure("no equals sign\n");
    run_expect(2, "topics");
    /* Whoever needs help gets it, whatever is in the file. */
    run_expect(0, "--help");
    run_expect(0, "put", "--help");
}

static void a_directory_as_the_config_file_is_reported(void)
{
    folder_of("config/bide");
    folder_of("config/bide/bide.conf");
    HAS(run_expect(2, "topics")->err, "bide.conf");
}

static void config_file_that_is_a_pipe_does_not_block(void)
{
    configure_url("memory:");
    CHECK(unlink(config_file()) == 0 && mkfifo(config_file(), 0600) == 0);
    HAS(run_expect(2, "topics")->err, "it is a pipe whose writer has not come");
}

static void dangling_link_is_an_empty_config_file(void)
{
    configure_url("memory:");
    CHECK(unlink(config_file()) == 0 && symlink("/dev/null", config_file()) == 0);
    run_expect(0, "topics", "--url", "memory:");
}

static void a_url_in_the_config_file_that_is_too_long_is_reported(void)
{
    static char text[8000];
    memset(text, 'x', sizeof(text) - 1);
    memcpy(text, "sqlite:", 7);
    configure_url(text);
    SILENT(run_expect(2, "topics")->out);
}

static bool pipe_is_empty(int fd)
{
    int left = 0;
    CHECK(ioctl(fd, FIONREAD, &left) == 0);
    return left == 0;
}

/* Root would otherwise use the queue of the owner of the HOME that it was given. */
static void a_file_of_another_user_is_not_read(void)
{
    configure_url("memory:");
    CHECK(chmod(config_file(), 0666) == 0);
    HAS(run_expect(2, "topics")->err, "refusing to read");
    CHECK(chmod(config_file(), 0644) == 0);
    run_expect(0, "topics");
    if (geteuid() != 0)
        return;
    CHECK(chown(config_file(), 65534, 65534) == 0);
    HAS(run_expect(2, "topics")->err, "belongs to another user");
    /* Nor from a pipe. */
    CHECK(unlink(config_file()) == 0 && mkfifo(config_file(), 0600) == 0);
    CHECK(chown(config_file(), 65534, 65534) == 0);
    int fd = open(config_file(), O_RDWR | O_CLOEXEC | O_NONBLOCK);
    CHECK(fd >= 0 && write(fd, "url = memory:\n", 14) == 14);
    struct child *child = begin("topics", NULL);
    UNTIL(pipe_is_empty(fd));
    close(fd);
    await_end(child, 2);
    HAS(child->err, "belongs to another user");
}

/* ---- secrets ---- */

#define SECRET "hush-hush-hush-hush"

static struct child *secret_server;

/* A bided that wants this secret; its URL without it. */
static const char *serve_secretly(const char *secret)
{
    static char url[5000];
    const char *bide_path = program_path;
    char bided_path[4200], config[5000], listen[5000], text[300];
    snprintf(bided_path, sizeof(bided_path), "%s/bided", program_folder());
    snprintf(config, sizeof(config), "--config=%s", test_path("bided.conf"));
    snprintf(listen, sizeof(listen), "--listen=unix:%s", test_path("secret.sock"));
    snprintf(text, sizeof(text), "auth_secret = %s\n", secret);
    unlink(test_path("bided.conf"));
    write_text(test_path("bided.conf"), text);
    CHECK(chmod(test_path("bided.conf"), 0600) == 0);
    program_path = bided_path;
    secret_server = begin(config, listen, "--url=memory:", NULL);
    await_err(secret_server, "ready");
    program_path = bide_path;
    snprintf(url, sizeof(url), "beanstalk://%s", test_path("secret.sock"));
    return url;
}

static const char *serve_with_secret(void)
{
    return serve_secretly(SECRET);
}

/* What a program of work sees: the arguments of bide, and its own environment. */
#define SEES "tr '\\0' '\\n' < /proc/$PPID/cmdline; env; cat"

static void secret_is_hidden_from_process_arguments_and_programs(void)
{
    char url[5000], with_secret[6000];
    snprintf(url, sizeof(url), "%s", serve_with_secret());
    run_expect_input(0, "1\n2\n3\n", "put", "t", "--lines", "--quiet", "--url", url);
    snprintf(with_secret, sizeof(with_secret), "%s?secret=" SECRET "&connect_timeout=10s", url);
    struct child *child =
        run_expect(0, "work", "t", "--once", "--url", with_secret, "--", "sh", "-c", SEES);
    HAS(child->out, "secret=*****");
    LACKS(child->out, SECRET);
    HAS(child->out, "BIDE_URL=beanstalk://");
    HAS(child->out, "connect_timeout=10s\n");
    snprintf(with_secret, sizeof(with_secret), "--url=%s?secret=" SECRET, url);
    LACKS(run_expect(0, "work", "t", "--once", with_secret, "--", "sh", "-c", SEES)->out, SECRET);
    set_env("BIDE_URL", with_secret + strlen("--url="));
    child = run_expect(0, "work", "t", "--once", "--", "sh", "-c", SEES);
    LACKS(child->out, SECRET);
    HAS(child->out, "BIDE_URL=beanstalk://");
    /* A body that looks like one stays as it is. */
    run_expect(0, "put", "t", with_secret + strlen("--url="));
    HAS(run_expect(0, "peek", "t")->out, SECRET);
}

/* Waiting goes on while there is no server, but not when there is one with another secret. */
static void waiting_command_ends_when_the_secret_is_rejected(void)
{
    char url[5200];
    snprintf(url, sizeof(url), "%s?secret=" SECRET "&connect_timeout=5s", serve_with_secret());
    run_expect(0, "put", "t", "x", "--delay", "1h", "--url", url);
    struct child *wait = begin("wait", "1", "-v", "--url", url, NULL);
    struct child *events = begin("events", "--url", url, NULL);
    struct child *reserve = begin("reserve", "t", "--timeout", "1h", "-v", "--url", url, NULL);
    struct child *work = begin("work", "t", "-v", "--url", url, "--", "true", NULL);
    await_err(wait, "the queue is");
    await_err(events, "following events");
    await_err(reserve, "the queue is");
    await_err(work, "the queue is");
    interrupt(secret_server, SIGTERM, 0);
    CHECK(!is_over(wait) && !is_over(events) && !is_over(reserve) && !is_over(work));

    serve_secretly("another-secret-than-before");
    await_end(wait, 2);
    HAS(wait->err, "does not accept the secret");
    await_end(events, 2);
    HAS(events->err, "does not accept the secret");
    await_end(reserve, 2);
    HAS(reserve->err, "does not accept the secret");
    /* A worker says so, and goes on when the secret is put right. */
    await_err(work, "cannot reserve jobs");
    HAS(work->err, "does not accept the secret");
    interrupt(secret_server, SIGTERM, 0);
    serve_with_secret();
    run_expect(0, "put", "t", "y", "--retain", "1h", "--url", url);
    run_expect(0, "wait", "1", "--timeout", "30s", "--url", url);
    interrupt(work, SIGTERM, 0);
}

/* The server answers wrong secrets after pauses that grow, and are longer than connect_timeout
 * then. */
static void waiting_command_ends_after_many_wrong_secrets(void)
{
    char url[5200];
    snprintf(url, sizeof(url), "%s?secret=" SECRET "&connect_timeout=800ms", serve_with_secret());
    run_expect(0, "put", "t", "x", "--delay", "1h", "--url", url);
    struct child *wait = begin("wait", "1", "-v", "--url", url, NULL);
    await_err(wait, "the queue is");
    CHECK(kill(wait->pid, SIGSTOP) == 0);
    interrupt(secret_server, SIGTERM, 0);

    snprintf(url, sizeof(url), "%s?secret=wrong", serve_secretly("another-secret-than-before"));
    for (int i = 0; i < 5; i++)
        run_expect(2, "ping", "--url", url);
    CHECK(kill(wait->pid, SIGCONT) == 0);
    await_end(wait, 2);
    HAS(wait->err, "does not accept the secret");
}

static void a_secret_is_read_from_a_file(void)
{
    char url[6000], text[7000];
    const char *server = serve_with_secret();
    write_text(test_path("secret"), SECRET "\n");
    write_text(test_path("wrong"), "another\n");
    write_text(test_path("empty"), "");
    snprintf(url, sizeof(url), "%s?secret_file=%s", server, test_path("secret"));
    run_expect(0, "put", "t", "x", "--url", url);
    snprintf(url, sizeof(url), "%s?secret_file=%s", server, test_path("wrong"));
    HAS(run_expect(2, "put", "t", "x", "--url", url)->err, "does not accept the secret");
    snprintf(url, sizeof(url), "%s?secret_file=%s", server, test_path("empty"));
    HAS(run_expect(2, "put", "t", "x", "--url", url)->err, "is no secret");
    /* A part of what is in the file is not tried. */
    write_text(test_path("empty"), SECRET "\rmore\n");
    HAS(run_expect(2, "put", "t", "x", "--url", url)->err, "is no secret");
    snprintf(url, sizeof(url), "%s?secret_file=%s", server, test_path("nothing"));
    HAS(run_expect(2, "put", "t", "x", "--url", url)->err, "cannot read the secret_file");
    /* The variable is for every server, the setting for that of the same file. */
    set_env("BIDE_SECRET_FILE", test_path("wrong"));
    HAS(run_expect(2, "put", "t", "x", "--url", server)->err,
        "does not accept the secret (secret file from BIDE_SECRET_FILE)");
    set_env("BIDE_SECRET_FILE", "/nosuch/secret");
    HAS(run_expect(2, "put", "t", "x", "--url", server)->err,
        "(secret file from BIDE_SECRET_FILE)");
    set_env("BIDE_SECRET_FILE", test_path("secret"));
    run_expect(0, "put", "t", "x", "--url", server);
    snprintf(url, sizeof(url), "sqlite:%s", test_path("moved.db"));
    run_expect(0, "move", server, url);
    set_env("BIDE_SECRET_FILE", NULL);
    snprintf(text, sizeof(text), "url = %s\nsecret_file = %s\n", server, test_path("wrong"));
    configure(text);
    HAS(run_expect(2, "put", "t", "x")->err,
        "does not accept the secret (secret file from the config file)");
    run_expect(0, "put", "t", "x", "--url", server);
    configure("secret_file = relative\n");
    HAS(run_expect(2, "topics")->err, "secret_file is the full path");
}

/* ---- no server ---- */

static int listen_somewhere(char *url)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof(address);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof(address)) == 0);
    CHECK(listen(fd, 16) == 0 && getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    sprintf(url, "beanstalk://127.0.0.1:%d", ntohs(address.sin_port));
    return fd;
}

static void a_refused_connection_is_reported_with_the_address(void)
{
    char url[64];
    close(listen_somewhere(url));
    struct child *child = run_expect(6, "topics", "--url", url);
    HAS(child->err, url + strlen("beanstalk://"));
    HAS(child->err, "bide topics: ");
    SILENT(child->out);
    child = run_expect(6, "topics", "--json", "--url", url);
    json_t *error = json_at(child->err, 0);
    EQ(number_in(error, "exit"), 6);
    CHECK(strlen(text_in(error, "error")) > 10);
    SILENT(child->out);
}

static void a_missing_socket_is_reported(void)
{
    char url[5000];
    snprintf(url, sizeof(url), "beanstalk://%s", test_path("nothing.sock"));
    HAS(run_expect(6, "topics", "--url", url)->err, "nothing.sock");
}

static void an_unknown_host_is_reported(void)
{
    HAS(run_expect(6, "topics", "--url", "beanstalk://no.such.host.invalid:11300")->err,
        "no.such.host.invalid");
}

static void a_silent_server_times_out(void)
{
    char url[100];
    int fd = listen_somewhere(url);
    strcat(url, "?connect_timeout=300ms");
    run_expect(6, "topics", "--url", url);
    close(fd);
}

/* Replies to every client with a text, and goes on or closes. */
struct answerer {
    int fd;
    const char *text;
};

static void *answer_all(void *argument)
{
    struct answerer *answerer = argument;
    for (;;) {
        int fd = accept(answerer->fd, NULL, NULL);
        char room[4096];
        if (fd < 0)
            return NULL;
        if (answerer->text[0] != 0 && read(fd, room, sizeof(room)) > 0)
            while (send(fd, answerer->text, strlen(answerer->text), MSG_NOSIGNAL) > 0 &&
                   read(fd, room, sizeof(room)) > 0)
                continue;
        close(fd);
    }
}

static void a_server_of_another_protocol_is_reported(void)
{
    static const char *const texts[] = {
        "HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n",
        "+OK\r\n",
        "\x16\x03\x01",
        "",
        "INSERTED\r\nOK 99999999999\r\n",
    };
    for (size_t i = 0; i < COUNT(texts); i++) {
        char url[100];
        struct answerer answerer = {listen_somewhere(url), texts[i]};
        strcat(url, "?connect_timeout=20s");
        pthread_t thread;
        CHECK(pthread_create(&thread, NULL, answer_all, &answerer) == 0);
        struct child *child = run_expect(6, "topics", "--url", url);
        SILENT(child->out);
        HAS(child->err, "127.0.0.1");
        shutdown(answerer.fd, SHUT_RDWR);
        close(answerer.fd);
        pthread_join(thread, NULL);
    }
}

/* A bided that has much to do: it says that it is there, and nothing more. */
static void *answer_once(void *arg)
{
    static const char text[] = "ANSWER 1 0 0\r\n\r\n";
    char room[4096];
    int fd = accept(*(const int *)arg, NULL, NULL);
    if (fd < 0)
        return NULL;
    if (read(fd, room, sizeof(room)) > 0 && send(fd, text, sizeof(text) - 1, MSG_NOSIGNAL) > 0)
        while (read(fd, room, sizeof(room)) > 0)
            continue;
    close(fd);
    return NULL;
}

static void a_long_check_shows_progress_on_a_terminal(void)
{
    char url[100];
    int fd = listen_somewhere(url);
    pthread_t thread;
    strcat(url, "?connect_timeout=1s");
    CHECK(pthread_create(&thread, NULL, answer_once, &fd) == 0);
    struct child *child = begin_on_terminal(80, 24, "check", "--url", url, NULL);
    await_out(child, "checking ");
    await_out(child, " so far");
    interrupt(child, SIGINT, 130);
    HAS(child->out, "interrupted; the check is not complete");
    shutdown(fd, SHUT_RDWR);
    close(fd);
    pthread_join(thread, NULL);
}

/* ---- files ---- */

/* A slip of the pen in a script that makes backups must not succeed for ever. */
static void missing_file_is_created_only_by_verbs_that_put(void)
{
    const char *url = url_of("slip.db", "");
    HAS(run_expect(6, "backup", "copy.db", "--url", url)->err, "there is no file");
    static const char *const looks[] = {"topics", "stats", "list", "export", "check", "ping"};
    for (size_t i = 0; i < COUNT(looks); i++)
        HAS(run_expect(6, looks[i], "--url", url)->err,
            "only put, import, work, bench, schedule set and schedule load create it");
    CHECK(!file_exists(test_path("slip.db")));
    run_expect(0, "put", "t", "x", "--url", url);
    run_expect(0, "topics", "--url", url);
}

static void a_missing_directory_is_reported(void)
{
    struct child *child = run_expect(6, "put", "t", "x", "--url", url_of("no/such/jobs.db", ""));
    HAS(child->err, "/no/such/ of jobs.db: No such file or directory; make it first");
    SILENT(child->out);
}

static void a_foreign_file_is_reported_and_left_unchanged(void)
{
    static const char text[] = "Dear diary, today I am not a database at all, as you can see.\n";
    char room[sizeof(text)] = "";
    write_text(test_path("diary"), text);
    HAS(run_expect(2, "topics", "--url", url_of("diary", ""))->err, "diary is not a file of bide");
    FILE *file = fopen(test_path("diary"), "r");
    CHECK(file != NULL && fread(room, 1, sizeof(text) - 1, file) == sizeof(text) - 1);
    fclose(file);
    TEXT(room, sizeof(text) - 1, text);
    EQ(size_of(test_path("diary")), sizeof(text) - 1);
}

static void a_directory_as_a_file_is_reported(void)
{
    folder_of("folder");
    HAS(run_expect(2, "topics", "--url", url_of("folder", ""))->err, "is a directory, not a file");
}

/* Root may write everywhere; an unprivileged user may not. */
static void become_nobody(void)
{
    if (geteuid() == 0 && (setgid(65534) != 0 || setuid(65534) != 0))
        _exit(98);
}

static void deny_other_users(void)
{
    CHECK(chmod(folder_of("config"), 0755) == 0);
    before_exec = become_nobody;
}

static void a_directory_without_write_permission_is_reported(void)
{
    CHECK(chmod(folder_of("closed"), 0555) == 0);
    deny_other_users();
    HAS(run_expect(6, "topics", "--url", url_of("closed/jobs.db", ""))->err, "closed/jobs.db");
    CHECK(chmod(test_path("closed"), 0755) == 0);
}

static void a_file_without_read_permission_is_reported(void)
{
    run_expect(0, "put", "email", "hello", "--url", url_of("jobs.db", ""));
    CHECK(chmod(test_path("jobs.db"), 0400) == 0 && chmod(test_dir(), 0755) == 0);
    deny_other_users();
    HAS(run_expect(6, "topics", "--url", url_of("jobs.db", ""))->err, "jobs.db");
}

static void locked_file_is_reported_with_the_pid_and_the_remedy(void)
{
    char pid[32];
    start_another_server("owner", url_of("jobs.db", ""));
    bide *queue = NULL;
    OK(bide_open(url_of("mine.db", ""), NULL, &queue));
    snprintf(pid, sizeof(pid), "%d", (int)getpid());
    struct child *child = run_expect(6, "topics", "--url", url_of("mine.db", ""));
    HAS(child->err, pid);
    HAS(child->err, "mine.db");
    HAS(child->err, "end that one first, or run bided on the file");
    OK(bide_close(queue));
    run_expect(0, "topics", "--url", url_of("mine.db", ""));
    child = run_expect(6, "topics", "--url", url_of("jobs.db", ""));
    HAS(child->err, "bided");
    HAS(child->err, "beanstalk://");
}

static const struct test tests[] = {
    TEST(the_missing_directory_of_a_socket_is_reported),
    TEST(flag_overrides_environment_overrides_config_file),
    TEST(config_in_home_is_read_without_xdg),
    TEST(a_bad_url_is_reported_with_its_source),
    TEST(a_password_is_not_shown),
    TEST(a_bad_config_file_is_reported_with_its_line),
    TEST(a_directory_as_the_config_file_is_reported),
    TEST(config_file_that_is_a_pipe_does_not_block),
    TEST(dangling_link_is_an_empty_config_file),
    TEST(a_url_in_the_config_file_that_is_too_long_is_reported),
    TEST(a_file_of_another_user_is_not_read),
    TEST(secret_is_hidden_from_process_arguments_and_programs),
    TEST(waiting_command_ends_when_the_secret_is_rejected),
    TEST(waiting_command_ends_after_many_wrong_secrets),
    TEST(a_secret_is_read_from_a_file),
    TEST(a_refused_connection_is_reported_with_the_address),
    TEST(a_missing_socket_is_reported),
    TEST(an_unknown_host_is_reported),
    TEST(a_silent_server_times_out),
    TEST(a_server_of_another_protocol_is_reported),
    TEST(a_long_check_shows_progress_on_a_terminal),
    TEST(missing_file_is_created_only_by_verbs_that_put),
    TEST(a_missing_directory_is_reported),
    TEST(a_foreign_file_is_reported_and_left_unchanged),
    TEST(a_directory_as_a_file_is_reported),
    TEST(a_directory_without_write_permission_is_reported),
    TEST(a_file_without_read_permission_is_reported),
    TEST(locked_file_is_reported_with_the_pid_and_the_remedy),
};

const struct theme connect_theme = {"connect", tests, COUNT(tests)};
