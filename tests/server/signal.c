/* SPDX-License-Identifier: MIT */
/* signal.c - stopping, draining, and signals that come at a bad time. */
#include "bided_suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

static void sigterm_and_sigint_stop_with_exit_0(void)
{
    static const int signals[] = {SIGTERM, SIGINT};
    for (size_t i = 0; i < COUNT(signals); i++) {
        struct bided *bided = serve("--url=memory:", "--listen=0");
        int fd = connect_tcp(port_of(bided, "127.0.0.1"));
        ask(fd, "list-tube-used\r\n", "USING default\r\n");
        kill(bided->pid, signals[i]);
        await_close(fd);
        await_end(bided, 0);
        HAS(bided->err, "stopped");
    }
}

static void shutdown_releases_held_jobs(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 100 1\r\na\r\nput 0 0 100 1\r\nb\r\n", "INSERTED 1\r\nINSERTED 2\r\n");
    ask(fd, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    stop(bided);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
    ask(fd, "reserve-with-timeout 0\r\n", "RESERVED 2 1\r\nb\r\n");
    stop(bided);
}

/* One more failure would bury it. */
static void shutdown_does_not_count_as_failure_of_held_jobs(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 100 1 retries=0\r\na\r\n", "INSERTED 1\r\n");
    ask(fd, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    stop(bided);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    await_log(bided, "loaded 1 stored job");
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "reserve-with-timeout 0\r\n", "RESERVED 1 1\r\na\r\n");
    kill(bided->pid, SIGKILL);
    await_end(bided, 256 + SIGKILL);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    await_log(bided, "loaded 1 stored job");
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "peek-buried\r\n", "FOUND 1 1\r\na\r\n");
    stop(bided);
}

/* What ended each attempt is in the history: a lost connection, and then a crash of the server. */
static void history_has_the_lost_connection_and_the_crash(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 100 1 retries=1 backoff=1ms\r\na\r\n", "INSERTED 1\r\n");
    ask(fd, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    close(fd);
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    kill(bided->pid, SIGKILL);
    await_end(bided, 256 + SIGKILL);
    bided = serve("--listen=0", "-b", folder_of("jobs"));

    bide *queue = open_at(bided);
    bide_failure failures[BIDE_HISTORY_MAX];
    bide_job job = {0};
    OK(bide_job_stats(queue, 1, &job));
    EQ(job.state, BIDE_STATE_BURIED);
    EQ(bide_job_history(&job, failures, BIDE_HISTORY_MAX), 2);
    EQ(failures[0].kind, BIDE_FAILURE_DISCONNECTED);
    EQ(failures[0].attempt, 1);
    EQ(failures[1].kind, BIDE_FAILURE_RESTARTED);
    EQ(failures[1].attempt, 2);
    bide_job_clear(&job);
    OK(bide_close(queue));
    stop(bided);
}

/* The lease is not the connection's: it outlives an orderly stop. One failure would bury the job: a
 * stop is none, a bad end is. */
static void shutdown_does_not_count_as_failure_of_jobs_held_by_token(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 100 1 retries=0\r\na\r\nreserve-many 1 0\r\n",
        "INSERTED 1\r\nRESERVED_MANY 1\r\n");
    stop(bided);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    await_log(bided, "loaded 1 stored job");
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "peek-ready\r\n", "NOT_FOUND\r\n");
    ask(fd, "reserve-many 1 0\r\n", "TIMED_OUT\r\n");
    ask(fd, "delete 1\r\n", "NOT_FOUND\r\n");
    /* An end before anything is stored would be as if this server had never been started. */
    ask(fd, "put 0 0 100 1\r\nb\r\n", "INSERTED 2\r\n");
    kill(bided->pid, SIGKILL);
    await_end(bided, 256 + SIGKILL);
    bided = serve("--listen=0", "-b", folder_of("jobs"));
    await_log(bided, "loaded 2 stored jobs");
    fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "peek-buried\r\n", "FOUND 1 1\r\na\r\n");
    stop(bided);
}

/* Whatever was answered is there; whatever is there in full was answered or was on its way. */
static void shutdown_under_load_loses_no_reply(void)
{
    struct bided *bided = serve("--listen=0", "-b", folder_of("jobs"));
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    char all[500 * 20] = "";
    for (int i = 0; i < 500; i++)
        strcat(all, "put 0 0 60 1\r\nx\r\n");
    CHECK(send(fd, all, strlen(all), MSG_NOSIGNAL) == (ssize_t)strlen(all));
    ask(fd, "", "INSERTED 1\r\n");
    kill(bided->pid, SIGTERM);
    int answered = 1;
    static char text[20000];
    size_t size = 0;
    for (ssize_t got; (got = read(fd, text + size, sizeof text - 1 - size)) > 0;)
        size += (size_t)got;
    text[size] = 0;
    for (const char *at = text; (at = strstr(at, "INSERTED ")) != NULL; at++)
        answered++;
    await_end(bided, 0);
    bide *queue = open_url(url_of("jobs/bide.db", ""));
    bide_stats stats;
    OK(bide_queue_stats(queue, &stats));
    CHECK((int)stats.jobs.ready >= answered);
    BETWEEN((int64_t)stats.jobs.ready, 1, 500);
    bide_close(queue);
}

static void waiting_client_does_not_delay_shutdown(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    CHECK(send(fd, "reserve\r\n", 9, MSG_NOSIGNAL) == 9);
    ask(connect_tcp(port_of(bided, "127.0.0.1")), "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
    await_close(fd);
}

/* One that does not read is waited for as stop_timeout says; a second signal ends that. */
static void a_second_signal_ends_the_wait_for_a_slow_client(void)
{
    struct bided *bided =
        serve("--url=memory:?max_job_size=1MiB", "--listen=0", "--stop-timeout=1h");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    static char body[1 << 20];
    memset(body, 'x', sizeof body);
    ask(fd, "put 0 0 60 1048576\r\n", "");
    for (size_t sent = 0; sent < sizeof body;) {
        ssize_t size = send(fd, body + sent, sizeof body - sent, MSG_NOSIGNAL);
        CHECK(size > 0);
        sent += (size_t)size;
    }
    ask(fd, "\r\n", "INSERTED 1\r\n");
    for (int i = 0; i < 100; i++)
        ask(fd, "peek 1\r\n", "");
    ask(connect_tcp(port_of(bided, "127.0.0.1")), "list-tube-used\r\n", "USING default\r\n");
    kill(bided->pid, SIGTERM);
    await_log(bided, "stopping");
    nap_ms(200);
    CHECK(kill(bided->pid, 0) == 0);
    kill(bided->pid, SIGTERM);
    await_end(bided, 0);
    close(fd);
}

static void sigusr1_rejects_puts(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "put 0 0 60 1\r\na\r\n", "INSERTED 1\r\n");
    kill(bided->pid, SIGUSR1);
    await_log(bided, "draining");
    ask(fd, "put 0 0 60 1\r\nb\r\n", "DRAINING\r\n");
    ask(fd, "reserve\r\n", "RESERVED 1 1\r\na\r\n");
    ask(fd, "delete 1\r\n", "DELETED\r\n");
    stop(bided);
}

static void signal_before_ready_is_kept(void)
{
    for (int i = 0; i < 5; i++) {
        struct bided *bided = start("--listen=0", "-b", folder_of("jobs"), NULL);
        await_log(bided, "queue: ");
        kill(bided->pid, SIGHUP);
        kill(bided->pid, SIGTERM);
        await_end(bided, 0);
        HAS(bided->err, "ready");
        HAS(bided->err, "stopped");
    }
}

static void client_that_disconnects_during_a_write_is_harmless(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    int port = port_of(bided, "127.0.0.1");
    for (int i = 0; i < 20; i++) {
        int fd = connect_tcp(port);
        static const char text[] = "stats\r\nstats\r\nstats\r\nstats\r\nstats\r\n";
        CHECK(send(fd, text, strlen(text), MSG_NOSIGNAL) > 0);
        struct linger now = {.l_onoff = 1};
        setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
        close(fd);
    }
    ask(connect_tcp(port), "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

static const struct test tests[] = {
    TEST(sigterm_and_sigint_stop_with_exit_0),
    TEST(shutdown_releases_held_jobs),
    TEST(shutdown_does_not_count_as_failure_of_held_jobs),
    TEST(history_has_the_lost_connection_and_the_crash),
    TEST(shutdown_does_not_count_as_failure_of_jobs_held_by_token),
    TEST(shutdown_under_load_loses_no_reply),
    TEST(waiting_client_does_not_delay_shutdown),
    TEST(a_second_signal_ends_the_wait_for_a_slow_client),
    TEST(sigusr1_rejects_puts),
    TEST(signal_before_ready_is_kept),
    TEST(client_that_disconnects_during_a_write_is_harmless),
};

const struct theme signal_theme = {"signal", tests, COUNT(tests)};
