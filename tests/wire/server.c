/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* nftw */
#include "server.h"

#include "../contract/contract.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#define WORDS_MAX    64
#define COMMAND_SIZE 16384
#define START_US     (INT64_C(20) * 1000000)
#define STOP_US      (INT64_C(20) * 1000000)

/* ---- folders ---- */

static int remove_entry(const char *path, const struct stat *info, int kind, struct FTW *walk)
{
    (void)info;
    (void)kind;
    (void)walk;
    return remove(path);
}

static void remove_folder(const char *folder)
{
    nftw(folder, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static char base[PATH_MAX / 2];

bool folders_begin(void)
{
    const char *tmp = getenv("TMPDIR");
    snprintf(base, sizeof base, "%s/bide-wire-XXXXXX", tmp ? tmp : "/tmp");
    if (mkdtemp(base) != NULL)
        return true;
    perror(base);
    return false;
}

void folders_end(void)
{
    remove_folder(base);
}

static bool make_folder(struct server *server)
{
    snprintf(server->folder, sizeof server->folder, "%s/XXXXXX", base);
    return mkdtemp(server->folder) != NULL;
}

/* ---- addresses ---- */

/* Finds a port that is free now. Another process may take it before the server does: then it does
 * not start, and another is tried. */
static int free_port(void)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    int port = -1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM, 0);
    if (fd >= 0 && bind(fd, (struct sockaddr *)&address, sizeof address) == 0 &&
        getsockname(fd, (struct sockaddr *)&address, &size) == 0)
        port = ntohs(address.sin_port);
    close(fd);
    return port;
}

static int connect_tcp(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0)
        return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_unix(const char *folder)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    int size = snprintf(address.sun_path, sizeof address.sun_path, "%s/socket", folder);
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0 || size < 0 || (size_t)size >= sizeof address.sun_path)
        return -1;
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

static int connect_new(const struct server *server)
{
    int fd = server->tcp ? connect_tcp(server->port) : connect_unix(server->folder);
    if (fd >= 0)
        fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) | O_NONBLOCK);
    return fd;
}

int server_connect(struct server *server)
{
    int fd = server->first_fd;
    server->first_fd = -1;
    return fd >= 0 ? fd : connect_new(server);
}

/* ---- the process ---- */

static void write_command(char *text, const struct server *server, const char *command,
                          const char *flags)
{
    size_t used = 0;
    for (const char *from = command; *from && used < COMMAND_SIZE / 2; from++) {
        if (*from == '@')
            used += (size_t)snprintf(text + used, COMMAND_SIZE - used, "%s", server->folder);
        else
            text[used++] = *from;
    }
    if (server->tcp)
        snprintf(text + used, COMMAND_SIZE - used, " -l 127.0.0.1 -p %d %s", server->port, flags);
    else
        snprintf(text + used, COMMAND_SIZE - used, " -l unix:%s/socket %s", server->folder, flags);
}

/* Becomes the server; what it says goes to a file. */
static void exec_server(const struct server *server, char *text, pid_t parent)
{
    char *words[WORDS_MAX];
    char *rest = NULL;
    char log[PATH_MAX + 8];
    int count = 0;
    /* A server must not outlive a test that was killed. */
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent)
        _exit(127);
    for (char *word = strtok_r(text, " ", &rest); word && count < WORDS_MAX - 1;
         word = strtok_r(NULL, " ", &rest))
        words[count++] = word;
    words[count] = NULL;
    snprintf(log, sizeof log, "%s/log", server->folder);
    int fd = open(log, O_WRONLY | O_CREAT | O_APPEND, 0666);
    int in = open("/dev/null", O_RDONLY);
    dup2(in, 0);
    dup2(fd, 1);
    dup2(fd, 2);
    execvp(words[0], words);
    perror(words[0]);
    _exit(127);
}

void print_server_log(const struct server *server)
{
    char path[PATH_MAX + 8];
    char line[512];
    snprintf(path, sizeof path, "%s/log", server->folder);
    FILE *file = fopen(path, "r");
    for (int i = 0; file && i < 40 && fgets(line, sizeof line, file); i++)
        printf("     server: %s%s", line, strchr(line, '\n') ? "" : "\n");
    if (file)
        fclose(file);
}

/* The connection that shows it is kept: a further one would be counted in the server's figures. */
static bool comes_up(struct server *server)
{
    int64_t limit_us = clock_us() + START_US;
    while (clock_us() < limit_us) {
        server->first_fd = connect_new(server);
        if (server->first_fd >= 0)
            return true;
        if (waitpid(server->pid, NULL, WNOHANG) != 0)
            return false;
        nap_ms(1);
    }
    kill(server->pid, SIGKILL);
    waitpid(server->pid, NULL, 0);
    return false;
}

static bool try_start(struct server *server, const char *command, const char *flags)
{
    char text[COMMAND_SIZE];
    pid_t parent = getpid();
    if (server->tcp)
        server->port = free_port();
    write_command(text, server, command, flags);
    fflush(NULL);
    server->pid = fork();
    if (server->pid == 0)
        exec_server(server, text, parent);
    return server->pid > 0 && comes_up(server);
}

bool command_is_reference(const char *command)
{
    size_t size = strcspn(command, " ");
    const char name[] = "beanstalkd";
    return size >= sizeof name - 1 && memcmp(command + size - (sizeof name - 1), name, 10) == 0;
}

/* Writes the file, and the flags with its name behind them. */
static bool write_config(const struct server *server, const char *flags, const char *config,
                         char *all)
{
    char path[PATH_MAX + 16];
    snprintf(all, COMMAND_SIZE / 2, "%s", flags);
    if (*config == 0)
        return true;
    snprintf(path, sizeof path, "%s/bided.conf", server->folder);
    snprintf(all, COMMAND_SIZE / 2, "%s --config %s", flags, path);
    FILE *file = fopen(path, "w");
    return file && fputs(config, file) >= 0 && fclose(file) == 0;
}

bool server_start(struct server *server, const char *command, const char *flags, const char *config,
                  bool tcp)
{
    char all[COMMAND_SIZE / 2];
    *server = (struct server){.tcp = tcp, .first_fd = -1};
    server->reference = command_is_reference(command);
    if (!make_folder(server) || !write_config(server, flags, config, all)) {
        perror("a folder for the server");
        return false;
    }
    for (int i = 0; i < (tcp ? 3 : 1); i++)
        if (try_start(server, command, all))
            return true;
    printf("     the server does not start: %s %s\n", command, flags);
    print_server_log(server);
    remove_folder(server->folder);
    return false;
}

/* ---- the end ---- */

static bool ended_well(const struct server *server, int status)
{
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0)
        return true;
    if (server->reference && WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM)
        return true;
    if (WIFSIGNALED(status))
        printf("     the server died of signal %d\n", WTERMSIG(status));
    else
        printf("     the server ended with code %d\n", WEXITSTATUS(status));
    return false;
}

static bool end(const struct server *server)
{
    int64_t limit_us = clock_us() + STOP_US;
    int status = 0;
    kill(server->pid, SIGTERM);
    while (clock_us() < limit_us) {
        pid_t got = waitpid(server->pid, &status, WNOHANG);
        if (got == server->pid)
            return ended_well(server, status);
        nap_ms(1);
    }
    kill(server->pid, SIGKILL);
    waitpid(server->pid, &status, 0);
    printf("     the server does not stop after SIGTERM\n");
    return false;
}

bool server_stop(struct server *server)
{
    if (server->first_fd >= 0)
        close(server->first_fd);
    bool well = end(server);
    if (!well)
        print_server_log(server);
    remove_folder(server->folder);
    return well;
}
