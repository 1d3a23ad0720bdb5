/* SPDX-License-Identifier: MIT */
#include "test_server.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#define ATTEMPTS    5
#define STARTING_MS 20000
#define STOPPING_MS 30000
#define TEXT_SIZE   (PATH_MAX + 400)

struct test_server_settings test_server_settings = {"build/bided", "", INT64_C(64) << 20};

bool test_server_argument(const char *name, const char *value)
{
    if (strcmp(name, "--server") == 0)
        test_server_settings.program = value;
    else if (strcmp(name, "--parameters") == 0)
        test_server_settings.parameters = value;
    else if (strcmp(name, "--memory-mib") == 0)
        test_server_settings.memory_limit = (int64_t)strtoll(value, NULL, 10) << 20;
    else
        return false;
    return true;
}

bool test_server_is_beanstalkd(void)
{
    const char *slash = strrchr(test_server_settings.program, '/');
    const char *name = slash ? slash + 1 : test_server_settings.program;
    return strncmp(name, "beanstalkd", 10) == 0;
}

/* ---- what it said ---- */

/* The end of the log: many servers in turn may have written it. */
static void tell_log(void)
{
    enum { TOLD = 4096 };
    char line[512];
    FILE *file = fopen(test_path("server.log"), "r");
    if (file == NULL)
        return;
    if (fseek(file, -TOLD, SEEK_END) != 0)
        rewind(file);
    while (fgets(line, sizeof line, file))
        printf("     server: %s%s", line, strchr(line, '\n') ? "" : "\n");
    fclose(file);
}

static void fail_ended(int status)
{
    tell_log();
    if (WIFSIGNALED(status))
        FAIL("the server died of signal %d", WTERMSIG(status));
    FAIL("the server ended with code %d", WEXITSTATUS(status));
}

void test_server_check_alive(const struct server *server)
{
    int status = 0;
    pid_t ended = waitpid(server->pid, &status, WNOHANG);
    if (ended < 0)
        FAIL("the server has been stopped by the test itself");
    if (ended > 0)
        fail_ended(status);
}

/* ---- starting ---- */

/* Free now; if another process takes it before the server does, the server does not start. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    CHECK(fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
          getsockname(fd, (struct sockaddr *)&address, &size) == 0);
    close(fd);
    return ntohs(address.sin_port);
}

/* The process becomes the server. It must not outlive a test that was killed. */
static void become(int port, enum test_server_storage where, pid_t parent)
{
    const char *program = test_server_settings.program;
    char number[16];
    char address[32];
    char url[TEXT_SIZE];
    int log = open(test_path("server.log"), O_WRONLY | O_CREAT | O_APPEND, 0666);
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    dup2(open("/dev/null", O_RDONLY), 0);
    dup2(log, 1);
    dup2(log, 2);
    snprintf(number, sizeof number, "%d", port);
    snprintf(address, sizeof address, "127.0.0.1:%d", port);
    snprintf(url, sizeof url, "%s",
             where == IN_MEMORY ? "memory:" : url_of("jobs.db", test_server_settings.parameters));
    if (!test_server_is_beanstalkd())
        execlp(program, program, "--listen", address, "--url", url, "--stop-timeout", "25s",
               (char *)NULL);
    else if (where == IN_MEMORY)
        execlp(program, program, "-l", "127.0.0.1", "-p", number, (char *)NULL);
    else
        execlp(program, program, "-l", "127.0.0.1", "-p", number, "-b", test_dir(), "-f", "0",
               (char *)NULL);
    perror(program);
    _exit(127);
}

static int try_connect(const struct server *server)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)server->port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        fcntl(fd, F_SETFL, O_NONBLOCK) == 0)
        return fd;
    close(fd);
    return -1;
}

int test_server_connect(const struct server *server)
{
    int fd = try_connect(server);
    if (fd < 0) {
        test_server_check_alive(server);
        FAIL("cannot connect: %s", strerror(errno));
    }
    return fd;
}

static bool comes_up(struct server *server)
{
    int64_t limit_us = clock_us() + STARTING_MS * INT64_C(1000);
    while (clock_us() < limit_us) {
        int fd = try_connect(server);
        if (fd >= 0) {
            close(fd);
            return true;
        }
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            return false;
        nap_ms(1);
    }
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    return false;
}

static bool start_at_port(struct server *server, enum test_server_storage where)
{
    pid_t parent = getpid();
    fflush(NULL);
    server->pid = fork();
    if (server->pid == 0)
        become(server->port, where, parent);
    CHECK(server->pid > 0);
    return comes_up(server);
}

static void fail_start(void)
{
    tell_log();
    FAIL("%s does not start", test_server_settings.program);
}

void test_server_start(struct server *server, enum test_server_storage where)
{
    for (int i = 0; i < ATTEMPTS; i++) {
        server->port = free_port();
        if (start_at_port(server, where))
            return;
    }
    fail_start();
}

void test_server_restart(struct server *server, enum test_server_storage where)
{
    for (int i = 0; i < ATTEMPTS; i++)
        if (start_at_port(server, where))
            return;
    fail_start();
}

/* ---- ending ---- */

static int wait_for_end(const struct server *server, int64_t patience_ms)
{
    int64_t limit_us = clock_us() + patience_ms * 1000;
    int status = 0;
    while (waitpid(server->pid, &status, WNOHANG) == 0) {
        if (clock_us() > limit_us) {
            kill(server->pid, SIGKILL);
            tell_log();
            FAIL("the server does not end");
        }
        nap_ms(1);
    }
    return status;
}

void test_server_stop(struct server *server)
{
    test_server_check_alive(server);
    kill(server->pid, SIGTERM);
    int status = wait_for_end(server, STOPPING_MS);
    bool dead = WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM;
    bool well = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    if (!well && !(dead && test_server_is_beanstalkd()))
        fail_ended(status);
}

void test_server_kill(struct server *server)
{
    test_server_check_alive(server);
    kill(server->pid, SIGKILL);
    int status = wait_for_end(server, STOPPING_MS);
    if (!WIFSIGNALED(status) || WTERMSIG(status) != SIGKILL)
        fail_ended(status);
}

/* ---- what it uses ---- */

int test_server_open_files(const struct server *server)
{
    char path[64];
    int count = 0;
    snprintf(path, sizeof path, "/proc/%d/fd", (int)server->pid);
    DIR *folder = opendir(path);
    CHECK(folder != NULL);
    while (readdir(folder))
        count++;
    closedir(folder);
    return count - 2;
}

int64_t test_server_writes(const struct server *server)
{
    char path[64];
    char line[64];
    long long writes = -1;
    snprintf(path, sizeof path, "/proc/%d/io", (int)server->pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL);
    while (writes < 0 && fgets(line, sizeof line, file) != NULL)
        if (sscanf(line, "syscw: %lld", &writes) != 1)
            writes = -1;
    fclose(file);
    CHECK(writes >= 0);
    return writes;
}

int64_t test_server_memory(const struct server *server)
{
    char path[64];
    long long all = 0;
    long long resident = 0;
    snprintf(path, sizeof path, "/proc/%d/statm", (int)server->pid);
    FILE *file = fopen(path, "r");
    CHECK(file != NULL && fscanf(file, "%lld %lld", &all, &resident) == 2);
    fclose(file);
    return (int64_t)resident * sysconf(_SC_PAGESIZE);
}
