/* SPDX-License-Identifier: MIT */
/*
 * user_server_start.c - starting and stopping the user server.
 */
#define _GNU_SOURCE /* pidfd_open, posix_spawn_file_actions_addclosefrom_np */
#include "cli/interrupt.h"
#include "cli/user_server.h"
#include "cli/verb.h"
#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/pidfd.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_US INT64_C(30000000) /* a large file is served while it loads */
#define POLL_MS          10
/* Larger than the default, which is that of beanstalkd: its clients do not use this server. */
#define MAX_JOB_SIZE "16MiB"

/* ---- directories ---- */

static bool make_dir(const char *dir, char *error)
{
    char path[1100];
    snprintf(path, sizeof(path), "%s", dir);
    for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        if (at != NULL)
            *at = 0;
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return bi_errmsg_set(error, "cannot create directory %.200s: %s", path,
                                 strerror(errno));
        if (at == NULL)
            return true;
        *at = '/';
    }
}

/*
 * Checks that every directory on the path belongs to this user or root. In a directory of another user,
 * as when root runs with that user's HOME, a link could redirect the log and the jobs.
 */
static bool check_path_owners(const char *dir, char *error)
{
    char path[1100];
    struct stat info;
    snprintf(path, sizeof(path), "%s", dir);
    for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        if (at != NULL)
            *at = 0;
        if (stat(path, &info) == 0 && !bi_user_server_trusts_uid(info.st_uid))
            return bi_errmsg_set(error,
                                 "%.200s belongs to user %u: HOME is another user's (sudo -H "
                                 "changes it); set --url or BIDE_URL",
                                 path, (unsigned)info.st_uid);
        if (at == NULL)
            return true;
        *at = '/';
    }
}

/* Opens the log for appending: a regular file of this user, not a link. -1 with errno. */
static int open_log(const struct user_server *server)
{
    int fd = open(server->log, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK,
                  0600);
    struct stat info;
    if (fd < 0)
        return -1;
    if (fstat(fd, &info) == 0 && S_ISREG(info.st_mode) && info.st_uid == geteuid() &&
        info.st_nlink == 1)
        return fd;
    close(fd);
    errno = EPERM;
    return -1;
}

/* Locks the start, until the descriptor is closed. -1 with an error text. */
static int lock_startup(const struct user_server *server, char *error)
{
    char path[1100];
    snprintf(path, sizeof(path), "%s/start.lock", server->data_dir);
    int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0 && flock(fd, LOCK_EX) == 0)
        return fd;
    bi_errmsg_set(error, "cannot lock %.200s: %s", path, strerror(errno));
    if (fd >= 0)
        close(fd);
    return -1;
}

/* ---- the process ---- */

/* Finds the bided beside this program, else the one in PATH. */
static void find_program(char *path, size_t size)
{
    ssize_t length = readlink("/proc/self/exe", path, size - sizeof("bided"));
    char *slash = length <= 0 ? NULL : memrchr(path, '/', (size_t)length);
    if (slash != NULL) {
        memcpy(slash + 1, "bided", sizeof("bided"));
        if (access(path, X_OK) == 0)
            return;
    }
    snprintf(path, size, "bided");
}

/* Finds the config file of the user server: bided.conf beside bide.conf. False and "/dev/null": none. */
static bool find_config(char *path, size_t size)
{
    const char *dir = getenv("XDG_CONFIG_HOME"), *home = getenv("HOME");
    int length = -1;
    if (dir != NULL && dir[0] == '/')
        length = snprintf(path, size, "%s/bide/bided.conf", dir);
    else if (home != NULL && home[0] == '/')
        length = snprintf(path, size, "%s/.config/bide/bided.conf", home);
    if (length > 0 && (size_t)length < size && access(path, F_OK) == 0)
        return true;
    snprintf(path, size, "/dev/null");
    return false;
}

/* Starts bided in a session of its own, out of reach of the terminal's Ctrl-C, with default signal
 * dispositions and without inherited descriptors: a lock or the end of a pipe would be held for as long
 * as the server runs. Returns 0 or an errno. */
static int spawn(const struct user_server *server, pid_t *pid)
{
    char program[4096], url[BI_URL_MAX], listen[1200], config[1200];
    posix_spawn_file_actions_t actions;
    posix_spawnattr_t attributes;
    sigset_t all, none;
    int log = open_log(server);
    if (log < 0)
        return errno == ENOENT ? ENOTDIR : errno; /* ENOENT is for the program */
    find_program(program, sizeof(program));
    snprintf(listen, sizeof(listen), "unix:%s", server->socket);
    if (!bi_url_from_path(url, "sqlite:", server->file)) {
        close(log);
        return ENAMETOOLONG;
    }
    bool configured = find_config(config, sizeof(config));
    char name[] = "bided", flag_config[] = "--config", flag_url[] = "--url";
    char flag_listen[] = "--listen", flag_size[] = "--max-job-size", size[] = MAX_JOB_SIZE;
    char *argv[] = {name, flag_config, config, flag_url,
                    url,  flag_listen, listen, configured ? NULL : flag_size,
                    size, NULL};
    sigfillset(&all);
    sigemptyset(&none);
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_addopen(&actions, 0, "/dev/null", O_RDONLY, 0);
    posix_spawn_file_actions_adddup2(&actions, log, 1);
    posix_spawn_file_actions_adddup2(&actions, 1, 2);
    posix_spawn_file_actions_addclosefrom_np(&actions, 3);
    posix_spawn_file_actions_addchdir_np(&actions, "/");
    posix_spawnattr_init(&attributes);
    posix_spawnattr_setsigdefault(&attributes, &all);
    posix_spawnattr_setsigmask(&attributes, &none);
    posix_spawnattr_setflags(&attributes,
                             POSIX_SPAWN_SETSID | POSIX_SPAWN_SETSIGDEF | POSIX_SPAWN_SETSIGMASK);
    unsetenv("NOTIFY_SOCKET");
    int code = posix_spawnp(pid, program, &actions, &attributes, argv, environ);
    posix_spawnattr_destroy(&attributes);
    posix_spawn_file_actions_destroy(&actions);
    close(log);
    return code;
}

/* Returns true if the server replies. It listens before it has opened its file. A server that wants a
 * secret (BIDE_EINVAL) replies, too. */
static bool is_serving(const struct user_server *server)
{
    char url[BI_URL_MAX];
    bide *queue = NULL;
    if (!bi_user_server_is_listening(server) || !bi_user_server_url(server, url))
        return false;
    int code = bide_open(url, NULL, &queue);
    bide_close(queue);
    return code == BIDE_OK || code == BIDE_EINVAL;
}

static long log_size(const struct user_server *server)
{
    struct stat info;
    return stat(server->log, &info) == 0 ? (long)info.st_size : 0;
}

/* Reads the last error in the log after an offset, without its time; "": none. */
static void read_log_error(const struct user_server *server, long log_offset, char *reason,
                           size_t size)
{
    static const char error_mark[] = "Z ERROR ";
    char line[1024];
    FILE *file = fopen(server->log, "re");
    reason[0] = 0;
    if (file == NULL)
        return;
    bool good = fseek(file, log_offset, SEEK_SET) == 0;
    while (good && fgets(line, sizeof(line), file) != NULL) {
        const char *at = strstr(line, error_mark);
        line[strcspn(line, "\n")] = 0;
        if (at != NULL)
            snprintf(reason, size, "%s", at + sizeof(error_mark) - 1);
    }
    fclose(file);
}

/* The runtime directory is removed when the user logs out, while the server runs on and holds its
 * file. */
static int report_unreachable(const struct cli *cli, const struct user_server *server,
                              const char *holder)
{
    return bi_cli_error(
        cli, BI_EXIT_NO_QUEUE,
        "%.300s is served by a bided whose socket is gone, perhaps since a logout; end it with \"kill "
        "%d\" and try again",
        server->file, atoi(holder));
}

static int report_exit(const struct cli *cli, const struct user_server *server, long log_offset)
{
    static const char held[] = "belongs to process ";
    char reason[400];
    read_log_error(server, log_offset, reason, sizeof(reason));
    const char *holder = strstr(reason, held);
    if (holder != NULL && strstr(holder, "(bided)") != NULL)
        return report_unreachable(cli, server, holder + sizeof(held) - 1);
    return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "cannot start a user server%s%s; its log is %.300s",
                        reason[0] == 0 ? "" : ": ", reason, server->log);
}

/* Waits until the server replies. log_offset: where its messages begin in the log. */
static int wait_until_serving(const struct cli *cli, const struct user_server *server, pid_t pid,
                              long log_offset)
{
    int64_t until = bi_clock_boot() + START_TIMEOUT_US;
    while (bi_clock_boot() < until) {
        int status;
        if (is_serving(server))
            return BI_EXIT_OK;
        if (waitpid(pid, &status, WNOHANG) == pid)
            return report_exit(cli, server, log_offset);
        nanosleep(&(struct timespec){.tv_nsec = POLL_MS * 1000000L}, NULL);
    }
    return bi_cli_error(cli, BI_EXIT_NO_QUEUE,
                        "the user server, process %d, does not answer; see %.300s", (int)pid,
                        server->log);
}

static int start_with_lock(const struct cli *cli, struct user_server *server)
{
    pid_t pid = 0;
    if (bi_user_server_find(server)) /* another command has started it */
        return BI_EXIT_OK;
    long log_offset = log_size(server);
    int code = spawn(server, &pid);
    if (code == ENOENT)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE,
                            "cannot start a user server: no \"bided\" beside bide or in PATH; set "
                            "--url or BIDE_URL");
    if (code != 0)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "cannot start bided (its log is %.300s): %s",
                            server->log, strerror(code));
    int exit = wait_until_serving(cli, server, pid, log_offset);
    if (exit != BI_EXIT_OK)
        return exit;
    if (!bi_user_server_write_link(server))
        bi_cli_note(cli, "bide: cannot create the link %s: %s", server->link, strerror(errno));
    bi_cli_note(cli, "bide: started a user server: process %d, jobs in %s; \"bide stop\" stops it",
                (int)pid, server->file);
    return BI_EXIT_OK;
}

int bi_user_server_start(const struct cli *cli, struct user_server *server)
{
    char error[BI_ERRMSG_SIZE];
    bool good = check_path_owners(server->data_dir, error) && make_dir(server->data_dir, error) &&
                make_dir(server->dir, error);
    if (good)
        good = bi_user_server_locate(
            server, error); /* another user may have created one of them meanwhile */
    int lock = good ? lock_startup(server, error) : -1;
    if (lock < 0)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);
    int exit = start_with_lock(cli, server);
    close(lock);
    return exit;
}

/* ---- bide stop ---- */

static const char details[] =
    "Stops the server that bide started for you because no other server answered. It completes\n"
    "the current operations. The jobs stay in its file, and the next command that needs the\n"
    "server starts it again. Other servers are not affected.\n"
    "\n"
    "  bide stop\n";

/* Waits for the end of the process, so that the file is free afterwards. */
static int wait_for_exit(const struct cli *cli, int process, pid_t pid)
{
    struct pollfd fds[] = {{.fd = process, .events = POLLIN},
                           {.fd = bi_interrupt_fd(), .events = POLLIN}};
    while (poll(fds, 2, -1) < 0 && errno == EINTR)
        ;
    if (fds[0].revents == 0)
        return bi_interrupt_exit();
    bi_cli_note(cli, "user server stopped (process %d)", (int)pid);
    return BI_EXIT_OK;
}

static int run(struct cli *cli)
{
    struct user_server server;
    char error[BI_ERRMSG_SIZE];
    if (!bi_user_server_locate(&server, error))
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);
    pid_t pid = bi_user_server_find(&server) ? bi_user_server_pid(&server) : 0;
    if (pid <= 0)
        return bi_cli_error(cli, BI_EXIT_NOT_FOUND, "no user server is running");
    int exit = bi_interrupt_watch(cli, NULL);
    int process = exit == BI_EXIT_OK ? pidfd_open(pid, 0) : -1;
    if (exit != BI_EXIT_OK)
        return exit;
    /* If the server ended before pidfd_open(), its process id may be another process's by now. */
    if (process >= 0 && bi_user_server_pid(&server) != pid) {
        close(process);
        return bi_cli_error(cli, BI_EXIT_NOT_FOUND, "no user server is running");
    }
    if (process < 0 || pidfd_send_signal(process, SIGTERM, NULL, 0) != 0)
        exit = bi_cli_error(cli, BI_EXIT_FAILED, "cannot stop process %d: %s", (int)pid,
                            strerror(errno));
    else
        exit = wait_for_exit(cli, process, pid);
    if (process >= 0)
        close(process);
    return exit;
}

const struct verb bi_verb_stop = {
    .name = "stop",
    .group = BI_GROUP_SELF,
    .usage = "",
    .summary = "stop the user server, which bide started",
    .details = details,
    .traits = BI_VERB_NO_QUEUE,
    .run = run,
};
