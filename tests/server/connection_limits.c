/* SPDX-License-Identifier: MIT */
/* connection_limits.c - how many may come, how long they may stay, and what the system allows. */
#include "bided_suite.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

static void connection_over_the_limit_is_closed(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-connections=2");
    int port = port_of(bided, "127.0.0.1");
    int first = connect_tcp(port), second = connect_tcp(port);
    ask(first, "list-tube-used\r\n", "USING default\r\n");
    ask(second, "list-tube-used\r\n", "USING default\r\n");
    await_close(connect_tcp(port));
    close(first);
    /* The place is free again, as soon as the end of the other has been noticed. */
    int fd = -1;
    char got[20] = "";
    UNTIL((fd = try_tcp("127.0.0.1", port)) >= 0 &&
          send(fd, "list-tube-used\r\n", 16, MSG_NOSIGNAL) == 16 &&
          recv(fd, got, 5, MSG_WAITALL) == 5 && memcmp(got, "USING", 5) == 0);
    ask(second, "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

static void allow_40_files(void)
{
    struct rlimit limit = {40, 40};
    if (setrlimit(RLIMIT_NOFILE, &limit) != 0)
        _exit(98);
}

/* How many files it may have open. */
static int files_of(const struct bided *bided)
{
    char path[100], line[300], text[20] = "";
    int files = 0;
    snprintf(path, sizeof path, "/proc/%d/limits", (int)bided->pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (text[0] == 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "Max open files %19s", text) != 1)
            text[0] = 0;
    fclose(file);
    CHECK(sscanf(text, "%d", &files) == 1);
    return files;
}

/* Root may raise the limit, if it has not lost that right; others are told what they get. */
static void hard_file_limit_is_raised_or_reported(void)
{
    before_exec = allow_40_files;
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-connections=60");
    if (files_of(bided) > 60)
        LACKS(bided->err, "files may be open");
    else
        HAS(bided->err, "max_connections is 60, but only 40 open files are allowed: limited to 20");
    ask(connect_tcp(port_of(bided, "127.0.0.1")), "list-tube-used\r\n", "USING default\r\n");
    stop(bided);
}

static void soft_file_limit_is_raised_for_max_connections(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-connections=500");
    CHECK(files_of(bided) > 500);
    stop(bided);
}

static void an_idle_connection_is_closed_and_a_busy_one_is_not(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--idle-timeout=1s");
    int port = port_of(bided, "127.0.0.1");
    int idle = connect_tcp(port), waits = connect_tcp(port), holds = connect_tcp(port);
    ask(holds, "put 0 0 100 1\r\nx\r\nreserve\r\n", "INSERTED 1\r\nRESERVED 1 1\r\nx\r\n");
    ask(waits, "watch later\r\n", "WATCHING 2\r\n");
    ask(waits, "reserve\r\n", "");
    int64_t start_us = clock_us();
    ask(idle, "list-tube-used\r\n", "USING default\r\n");
    await_close(idle);
    NOT_BEFORE(start_us, 1000);
    ask(holds, "use later\r\nput 0 0 100 1\r\ny\r\n", "USING later\r\nINSERTED 2\r\n");
    ask(waits, "", "RESERVED 2 1\r\ny\r\n");
    stop(bided);
}

/* Whoever has waited for long begins to be idle when it is answered. */
static void waiting_connection_is_not_idle(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--idle-timeout=2s");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    ask(fd, "reserve-with-timeout 3\r\n", "TIMED_OUT\r\n");
    int64_t start_us = clock_us();
    await_close(fd);
    NOT_BEFORE(start_us, 1900); /* the answer took a moment to come */
    stop(bided);
}

static void the_memory_of_jobs_has_a_limit(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0", "--max-memory=100KiB");
    HAS(bided->err, "max_memory=100KiB");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    static char put[70000];
    int size = snprintf(put, sizeof put, "put 0 0 60 60000\r\n");
    memset(put + size, 'x', 60000);
    strcpy(put + size + 60000, "\r\n");
    ask(fd, put, "INSERTED 1\r\n");
    ask(fd, put, "OUT_OF_MEMORY\r\n");
    ask(fd, "delete 1\r\n", "DELETED\r\n");
    char got[20] = "";
    CHECK(send(fd, put, strlen(put), MSG_NOSIGNAL) == (ssize_t)strlen(put));
    CHECK(recv(fd, got, 9, MSG_WAITALL) == 9 && memcmp(got, "INSERTED ", 9) == 0);
    stop(bided);
}

static void default_max_memory_is_below_machine_memory(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    const char *text = strstr(bided->err.text, "max_memory=");
    double size = 0;
    char unit = 0;
    CHECK(text != NULL && sscanf(text, "max_memory=%lf%c", &size, &unit) == 2);
    CHECK(unit == 'M' || unit == 'G');
    double bytes = size * (unit == 'M' ? 1 << 20 : 1 << 30);
    CHECK(bytes > 1 << 20);
    CHECK(bytes < (double)sysconf(_SC_PHYS_PAGES) * (double)getpagesize());
    stop(bided);
    bided = serve("--url=memory:", "--listen=0", "--max-memory=0");
    HAS(bided->err, "max_memory=0 ");
    stop(bided);
}

static void buffers_have_room_for_four_of_the_largest_jobs(void)
{
    struct bided *bided =
        serve("--url=memory:?max_job_size=1MiB", "--listen=0", "--max-client-bytes=100KiB");
    HAS(bided->err, "WARN  max_client_bytes raised from 100KiB to 4MiB");
    int fd = connect_tcp(port_of(bided, "127.0.0.1"));
    static char put[1100000];
    int size = snprintf(put, sizeof put, "put 0 0 60 1048576\r\n");
    memset(put + size, 'x', 1048576);
    strcpy(put + size + 1048576, "\r\n");
    ask(fd, put, "INSERTED 1\r\n");
    kill(bided->pid, SIGHUP);
    await_logs(bided, "raised from 100KiB to 4MiB", 2);
    ask(fd, put, "INSERTED 2\r\n");
    stop(bided);
    bided = serve("--url=memory:", "--listen=0");
    LACKS(bided->err, "max_client_bytes");
    stop(bided);
}

static const struct test tests[] = {
    TEST(connection_over_the_limit_is_closed),
    TEST(buffers_have_room_for_four_of_the_largest_jobs),
    TEST(hard_file_limit_is_raised_or_reported),
    TEST(soft_file_limit_is_raised_for_max_connections),
    TEST(an_idle_connection_is_closed_and_a_busy_one_is_not),
    TEST(waiting_connection_is_not_idle),
    TEST(the_memory_of_jobs_has_a_limit),
    TEST(default_max_memory_is_below_machine_memory),
};

const struct theme connection_limits_theme = {"connection_limits", tests, COUNT(tests)};
