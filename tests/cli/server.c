/* SPDX-License-Identifier: MIT */
/* server.c - the queue of a test: a file, or a server that keeps it. */
#include "cli_test.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define STARTING_MS INT64_C(30000)
#define STOPPING_MS INT64_C(30000)

enum place_kind place_kind;

/* A server of the test. */
struct server_process {
    pid_t pid; /* 0: does not run */
    bool plain;
    char log[PATH_MAX];
    char socket[PATH_MAX];
};

static struct server_process servers[8]; /* the first is that of queue_url() */
static size_t server_count = 1;

void server_choose(enum place_kind kind)
{
    place_kind = kind;
}

/* ---- starting ---- */

static void print_log(const struct server_process *server)
{
    char line[512];
    FILE *file = fopen(server->log, "r");
    for (int i = 0; file != NULL && i < 60 && fgets(line, sizeof(line), file) != NULL; i++)
        printf("     server: %s%s", line, strchr(line, '\n') != NULL ? "" : "\n");
    if (file != NULL)
        fclose(file);
}

static void exec_server(const struct server_process *server, const char *bided_url, pid_t parent)
{
    char program[PATH_MAX + 8], listen[PATH_MAX + 8];
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    int log = open(server->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    dup2(open("/dev/null", O_RDONLY | O_CLOEXEC), 0);
    dup2(log, 1);
    dup2(log, 2);
    snprintf(listen, sizeof(listen), "unix:%s", server->socket);
    snprintf(program, sizeof(program), "%s/bided", program_folder());
    if (server->plain)
        execlp("beanstalkd", "beanstalkd", "-l", listen, (char *)NULL);
    else
        execl(program, "bided", "--config", "/dev/null", "--listen", listen, "--url", bided_url,
              (char *)NULL);
    perror("a server");
    _exit(127);
}

static bool takes_connections(const struct server_process *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && strlen(server->socket) < sizeof(address.sun_path));
    memcpy(address.sun_path, server->socket, strlen(server->socket));
    bool good = connect(fd, (struct sockaddr *)&address, sizeof(address)) == 0;
    close(fd);
    return good;
}

static void start_server(struct server_process *server, const char *name, const char *bided_url)
{
    pid_t parent = getpid();
    int64_t limit_us = clock_us() + STARTING_MS * 1000;
    snprintf(server->socket, sizeof(server->socket), "%s/%s.sock", test_dir(), name);
    snprintf(server->log, sizeof(server->log), "%s/%s.log", test_dir(), name);
    unlink(server->socket);
    fflush(NULL);
    server->pid = fork();
    CHECK(server->pid >= 0);
    if (server->pid == 0)
        exec_server(server, bided_url, parent);
    while (!takes_connections(server)) {
        if (waitpid(server->pid, NULL, WNOHANG) != 0 || clock_us() > limit_us) {
            print_log(server);
            FAIL("the server does not start");
        }
        nap_ms(1);
    }
}

/* ---- stopping ---- */

static void end_server(struct server_process *server, int signal)
{
    int status = 0;
    int64_t limit_us = clock_us() + STOPPING_MS * 1000;
    if (server->pid == 0)
        return;
    kill(server->pid, signal);
    while (waitpid(server->pid, &status, WNOHANG) != server->pid) {
        if (clock_us() > limit_us) {
            print_log(server);
            FAIL("the server does not stop");
        }
        nap_ms(1);
    }
    server->pid = 0;
    bool good = WIFEXITED(status)
                    ? WEXITSTATUS(status) == 0
                    : (server->plain || signal == SIGKILL) && WTERMSIG(status) == signal;
    if (good)
        return;
    print_log(server);
    FAIL("the server ended with status 0x%x", (unsigned)status);
}

void stop_server(int signal)
{
    end_server(&servers[0], signal);
}

void server_end(void)
{
    for (size_t i = 0; i < server_count; i++)
        end_server(&servers[i], SIGTERM);
}

pid_t server_pid(void)
{
    return servers[0].pid;
}

/* ---- URLs ---- */

/* A queue without jobs: most verbs do not make the file. */
static void make_file(const char *url)
{
    bide *queue = NULL;
    OK(bide_open(url, NULL, &queue));
    OK(bide_close(queue));
}

const char *queue_url(void)
{
    static char url[PATH_MAX + 32];
    struct server_process *server = &servers[0];
    CHECK(place_kind != NOWHERE);
    if (place_kind == AT_FILE) {
        /* Every child asks: what the test itself got from place_of() must outlive that. */
        snprintf(url, sizeof(url), "sqlite:%s/jobs.db", test_dir());
        if (!file_exists(url + strlen("sqlite:")))
            make_file(url);
        return url;
    }
    server->plain = place_kind == AT_BEANSTALKD;
    if (server->pid == 0)
        start_server(server, "queue",
                     place_kind == AT_SERVED_FILE ? url_of("jobs.db", "") : "memory:");
    snprintf(url, sizeof(url), "beanstalk://%s", server->socket);
    return url;
}

const char *start_another_server(const char *name, const char *bided_url)
{
    static char urls[COUNT(servers)][PATH_MAX + 32];
    CHECK(server_count < COUNT(servers));
    struct server_process *server = &servers[server_count];
    server->plain = strcmp(bided_url, "beanstalkd") == 0;
    start_server(server, name, bided_url);
    snprintf(urls[server_count], sizeof(urls[0]), "beanstalk://%s", server->socket);
    return urls[server_count++];
}

pid_t another_pid(const char *url)
{
    for (size_t i = 1; i < server_count; i++)
        if (strcmp(servers[i].socket, url + strlen("beanstalk://")) == 0)
            return servers[i].pid;
    FAIL("there is no server at %s", url);
}

/* ---- what is in it ---- */

bide *open_test_queue_at(struct where at)
{
    bide *queue = NULL;
    check_code(at, bide_open(queue_url(), NULL, &queue), BIDE_OK, "bide_open()");
    if (place_kind == AT_FILE)
        check_code(at, bide_wait_recovered(queue, 60000, NULL), BIDE_OK, "recovery");
    return queue;
}

uint64_t put_job(const char *topic, const char *body)
{
    uint64_t id = 0;
    bide *queue = open_test_queue();
    OK(bide_put(queue, topic, body, strlen(body), NULL, &id));
    OK(bide_close(queue));
    return id;
}

const char *id_text(uint64_t id)
{
    static char texts[8][24];
    static int next;
    char *text = texts[next++ % 8];
    snprintf(text, sizeof(texts[0]), "%llu", (unsigned long long)id);
    return text;
}

bide_job reserve_by(bide *queue, const char *topic, const char *holder)
{
    const bide_slice topics[] = {{topic, strlen(topic)}};
    bide_job job = {0};
    bide_reserve_args args = {.topics = topics,
                              .topic_count = 1,
                              .jobs = &job,
                              .job_max = 1,
                              .holder = {holder, strlen(holder)}};
    OK(bide_reserve_many(queue, &args));
    return job;
}

uint64_t count_jobs(const char *topic, bide_state state)
{
    bide_topic_stats stats;
    bide *queue = open_test_queue();
    int code = bide_topic_get_stats(queue, topic, &stats);
    CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
    OK(bide_close(queue));
    if (code == BIDE_NOT_FOUND)
        return 0;
    const uint64_t counts[] = {
        [BIDE_STATE_GONE] = 0,
        [BIDE_STATE_DELAYED] = stats.jobs.delayed,
        [BIDE_STATE_READY] = stats.jobs.ready,
        [BIDE_STATE_RESERVED] = stats.jobs.reserved,
        [BIDE_STATE_BURIED] = stats.jobs.buried,
        [BIDE_STATE_DONE] = stats.jobs.done,
    };
    return counts[state];
}
