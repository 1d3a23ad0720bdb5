/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* posix_spawn_file_actions_addclosefrom_np */
#include "cli/user_server_start.h"

#include "util/clock.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_US INT64_C(30000000) /* a file with very many jobs is served while it loads */
#define POLL_MS          10
/* No client of beanstalkd counts on its small limit here. */
#define MAX_JOB_SIZE "16MiB"

/* ---- folders ---- */

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
 * Does every folder on the path belong to this user or to root? In a folder of another user, as when
 * root runs with that user's HOME, a link could lead the log and the jobs anywhere.
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

/* The log, open to be appended to: a file of this user, and no link. -1 with errno. */
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

/* One starts at a time; the lock ends with the descriptor. -1 with a sentence. */
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

/* The bided beside this program, else the one in the PATH. */
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

/* The settings of the user's own server, not of the system's: bided.conf beside bide.conf. If there
 * are none it is "/dev/null", and false. */
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

/* Its own session, so that the Ctrl-C of a terminal is not for it. The signals that the command
 * ignores or blocks are none of its business, and so are the files that it has open: a lock, or the
 * end of a pipe, would be held for as long as the server runs. */
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

/* It listens before it has its file, and ends when it cannot have that. One that wants a secret
 * (BIDE_EINVAL) speaks, too. */
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

/* The last error in its log from there on, without the time; empty if there is none. */
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

/* The runtime folder goes when a user logs out. A server that listens there runs on, and keeps its
 * file. */
static int report_unreachable(const struct cli *cli, const struct user_server *server,
                              const char *holder)
{
    return bi_cli_error(
        cli, BI_EXIT_NO_QUEUE,
        "%.300s is served by a bided whose socket cannot be found, perhaps one that "
        "you started before you logged out; end it with \"kill %d\" and try again",
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

/* BI_EXIT_OK once it answers. from: where what it says begins in the log. */
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
                        "the server that was started, process %d, does not answer; see %.300s",
                        (int)pid, server->log);
}

static int start_with_lock(const struct cli *cli, struct user_server *server)
{
    pid_t pid = 0;
    if (bi_user_server_find(server)) /* somebody else was quicker */
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
        good =
            bi_user_server_locate(server, error); /* others may have made one of them meanwhile */
    int lock = good ? lock_startup(server, error) : -1;
    if (lock < 0)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);
    int exit = start_with_lock(cli, server);
    close(lock);
    return exit;
}
