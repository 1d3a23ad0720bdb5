/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* struct ucred, pidfd_open, posix_spawn_file_actions_addclosefrom_np */
#include "cli/connect.h"

#include "cli/verb.h"
#include "util/clock.h"

#include <assert.h>
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
#include <sys/un.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define START_TIMEOUT_US INT64_C(30000000) /* a large file is served while it loads */
#define POLL_MS          10
/* Larger than the default, which is that of beanstalkd: its clients do not use this server. */
#define MAX_JOB_SIZE "16MiB"

/* ---- paths ---- */

/* Returns true if only this user can write to the directory; or, with may_be_link, to the target of
 * a link of this user. */
static bool owns_dir(const char *dir, bool may_be_link)
{
    struct stat info;
    return lstat(dir, &info) == 0 && info.st_uid == geteuid() &&
           (!may_be_link || (stat(dir, &info) == 0 && info.st_uid == geteuid())) &&
           S_ISDIR(info.st_mode) && (info.st_mode & 022) == 0;
}

bool bi_user_server_trusts_uid(uid_t owner)
{
    struct stat root;
    return owner == geteuid() || owner == 0 || (stat("/", &root) == 0 && root.st_uid == owner);
}

static bool is_absolute(const char *path)
{
    return path != NULL && path[0] == '/';
}

/* Writes the directory for the files of bide: in the one that the variable names, else in one below
 * HOME. False: there is none, or its path is too long. */
static bool find_xdg_dir(char *dir, size_t size, const char *variable, const char *below_home)
{
    const char *base = getenv(variable), *home = getenv("HOME");
    int length = -1;

    if (is_absolute(base))
        length = snprintf(dir, size, "%s/bide", base);
    else if (is_absolute(home))
        length = snprintf(dir, size, "%s/%s/bide", home, below_home);
    return length >= 0 && (size_t)length < size;
}

bool bi_user_server_config_path(char *path, size_t size, const char *name)
{
    char dir[1024];
    if (!find_xdg_dir(dir, sizeof(dir), "XDG_CONFIG_HOME", ".config"))
        return false;
    int length = snprintf(path, size, "%s/%s", dir, name);
    return length > 0 && (size_t)length < size;
}

/* Rejects a directory that exists and that others can write to. variable: the one that selects
 * another directory. */
static bool check_dir(struct user_server *server, const char *dir, bool may_be_link,
                      const char *variable, char *error)
{
    struct stat info;

    server->unsafe = lstat(dir, &info) == 0 && !owns_dir(dir, may_be_link);
    return !server->unsafe ||
           bi_errmsg_set(
               error,
               "%.200s belongs to another user, or others can write to it: if it is yours, run \"chmod go-w\" "
               "on it (it may hold your jobs); or set %s to a directory of your own, or set --url or BIDE_URL",
               dir, variable);
}

/* The runtime directory of the session if it belongs to this user, else one in /tmp. */
static bool find_runtime_dir(struct user_server *server, char *error)
{
    const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address;
    size_t path_max = sizeof(address.sun_path) - sizeof("/bided.sock");

    bool good = is_absolute(runtime_dir) && owns_dir(runtime_dir, false) &&
                strlen(runtime_dir) + 5 < path_max;
    if (good)
        snprintf(server->dir, sizeof(server->dir), "%s/bide", runtime_dir);
    else
        snprintf(server->dir, sizeof(server->dir), "/tmp/bide-%u", (unsigned)geteuid());
    snprintf(server->socket, sizeof(server->socket), "%s/bided.sock", server->dir);
    return check_dir(server, server->dir, false, "XDG_RUNTIME_DIR", error);
}

static bool find_data_dir(struct user_server *server, char *error)
{
    if (!find_xdg_dir(server->data_dir, sizeof(server->data_dir), "XDG_DATA_HOME", ".local/share"))
        return bi_errmsg_set(
            error,
            "no place for a user server: HOME is not set to an absolute path, or is too long; set --url "
            "or BIDE_URL");
    snprintf(server->file, sizeof(server->file), "%s/jobs.db", server->data_dir);
    snprintf(server->link, sizeof(server->link), "%s/bided.sock", server->data_dir);
    snprintf(server->log, sizeof(server->log), "%s/bided.log", server->data_dir);
    snprintf(server->noted, sizeof(server->noted), "%s/unserved.noted", server->data_dir);
    /* It may be a link to another disk. */
    return check_dir(server, server->data_dir, true, "HOME or XDG_DATA_HOME", error);
}

bool bi_user_server_locate(struct user_server *server, char *error)
{
    server->unsafe = false;
    return find_runtime_dir(server, error) && find_data_dir(server, error);
}

/* ---- the running server ---- */

/* Returns true if a server listens on the socket, with its process id if pid is not NULL. Only this
 * user can create a socket in the directory, so the listener is trusted. A full backlog (EAGAIN)
 * means that it listens, too; the process id is then 0, as without a server. */
static bool is_listening(const struct user_server *server, pid_t *pid)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    struct ucred peer = {.pid = 0};
    socklen_t peer_size = sizeof(peer);
    size_t size = strlen(server->socket);
    bool listens = false;

    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd >= 0 && size < sizeof(address.sun_path) && owns_dir(server->dir, false)) {
        memcpy(address.sun_path, server->socket, size + 1);
        bool connected = connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0;
        listens = connected || errno == EAGAIN;
        if (connected && getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &peer_size) != 0)
            peer.pid = 0;
    }
    if (fd >= 0)
        close(fd);
    if (pid != NULL)
        *pid = peer.pid;
    return listens;
}

/* Follows the link in the data directory to the server of another session. */
static bool follow_link(struct user_server *server)
{
    struct user_server other = *server;

    ssize_t size = readlink(server->link, other.socket, sizeof(other.socket) - 1);
    if (size <= 0 || other.socket[0] != '/' || (size_t)size >= sizeof(other.dir))
        return false;
    other.socket[size] = 0;
    memcpy(other.dir, other.socket, (size_t)size + 1);
    *strrchr(other.dir, '/') = 0;
    if (!is_listening(&other, NULL))
        return false;
    *server = other;
    return true;
}

bool bi_user_server_find(struct user_server *server)
{
    return is_listening(server, NULL) || follow_link(server);
}

bool bi_user_server_url(const struct user_server *server, char *url)
{
    static const char peer_trusted[] = "?peer=trusted";

    if (!bi_url_from_path(url, "beanstalk://", server->socket))
        return false;
    size_t size = strlen(url);
    if (size + sizeof(peer_trusted) > BI_URL_MAX)
        return false;
    memcpy(url + size, peer_trusted, sizeof(peer_trusted));
    return true;
}

/* Creates the link. False with errno. */
static bool write_link(const struct user_server *server)
{
    char temp_link[1200];

    unlink(server->noted);
    snprintf(temp_link, sizeof(temp_link), "%s.new", server->link);
    unlink(temp_link);
    return symlink(server->socket, temp_link) == 0 && rename(temp_link, server->link) == 0;
}

bool bi_user_server_note_unserved(const struct user_server *server)
{
    int fd = open(server->noted, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

/* ---- starting: directories and files ---- */

/*
 * Creates the directory and those above it. With check_owners, each must belong to this user or
 * root: in a directory of another user, as when root runs with that user's HOME, a link could
 * redirect the log and the jobs.
 */
static bool make_dir(const char *dir, bool check_owners, char *error)
{
    char path[1100];
    struct stat info;

    snprintf(path, sizeof(path), "%s", dir);
    for (char *at = strchr(path + 1, '/');; at = strchr(at + 1, '/')) {
        if (at != NULL)
            *at = 0;
        if (check_owners && stat(path, &info) == 0 && !bi_user_server_trusts_uid(info.st_uid))
            return bi_errmsg_set(error,
                                 "%.200s belongs to user %u: HOME is another user's (sudo -H "
                                 "changes it); set --url or BIDE_URL",
                                 path, (unsigned)info.st_uid);
        if (mkdir(path, 0700) != 0 && errno != EEXIST)
            return bi_errmsg_set(error, "cannot create directory %.200s: %s", path,
                                 strerror(errno));
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

/* ---- starting: the process ---- */

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

/* Finds the config file of the user server: bided.conf beside bide.conf. False and "/dev/null":
 * none. */
static bool find_config(char *path, size_t size)
{
    if (bi_user_server_config_path(path, size, "bided.conf") && access(path, F_OK) == 0)
        return true;
    snprintf(path, size, "/dev/null");
    return false;
}

/* Starts bided in a session of its own, out of reach of the terminal's Ctrl-C, with default signal
 * dispositions and without inherited descriptors: a lock or the end of a pipe would be held for as
 * long as the server runs. Returns 0 or an errno. */
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

/* Returns true if the server replies. It listens before it has opened its file. A server that wants
 * a secret (BIDE_EINVAL) replies, too. */
static bool is_serving(const struct user_server *server)
{
    char url[BI_URL_MAX];
    bide *queue = NULL;

    if (!is_listening(server, NULL) || !bi_user_server_url(server, url))
        return false;
    int code = bide_open(url, NULL, &queue);
    bide_close(queue);
    return code == BIDE_OK || code == BIDE_EINVAL;
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

static int report_exit(const struct cli *cli, const struct user_server *server, long log_offset)
{
    static const char held[] = "belongs to process ";
    char reason[400];

    read_log_error(server, log_offset, reason, sizeof(reason));
    const char *holder = strstr(reason, held);

    /* The runtime directory is removed when the user logs out, while the server runs on and holds
     * its file. */
    if (holder != NULL && strstr(holder, "(bided)") != NULL)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE,
                            "%.300s is served by a bided whose socket is gone, perhaps since a "
                            "logout; end it with \"kill %d\" and try again",
                            server->file, atoi(holder + sizeof(held) - 1));
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
    struct stat log;
    pid_t pid = 0;

    if (bi_user_server_find(server)) /* another command has started it */
        return BI_EXIT_OK;

    long log_offset = stat(server->log, &log) == 0 ? (long)log.st_size : 0;
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

    if (!write_link(server))
        bi_cli_note(cli, "bide: cannot create the link %s: %s", server->link, strerror(errno));
    bi_cli_note(cli, "bide: started a user server: process %d, jobs in %s; \"bide stop\" stops it",
                (int)pid, server->file);
    return BI_EXIT_OK;
}

int bi_user_server_start(const struct cli *cli, struct user_server *server)
{
    char error[BI_ERRMSG_SIZE];

    assert(!server->unsafe && server->data_dir[0] == '/');
    /* Located again, because another user may have created one of the directories meanwhile. */
    bool good = make_dir(server->data_dir, true, error) && make_dir(server->dir, false, error) &&
                bi_user_server_locate(server, error);
    int lock = good ? lock_startup(server, error) : -1;
    if (lock < 0)
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);
    int exit = start_with_lock(cli, server);
    close(lock);
    return exit;
}

/* ---- bide stop ---- */

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

/* True if a process holds the file although no server answers: the system has removed the runtime
 * directory with its socket. */
static bool is_file_in_use(const struct user_server *server)
{
    int fd = open(server->file, O_RDONLY | O_CLOEXEC);
    bool in_use = fd >= 0 && flock(fd, LOCK_SH | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (fd >= 0)
        close(fd);
    return in_use;
}

static int report_no_server(const struct cli *cli, const struct user_server *server)
{
    if (is_file_in_use(server))
        return bi_cli_error(
            cli, BI_EXIT_NO_QUEUE,
            "no user server answers, but a process uses %.300s, perhaps a server whose "
            "socket is gone since a logout; \"bide stats\" tells which one",
            server->file);
    return bi_cli_error(cli, BI_EXIT_NOT_FOUND, "no user server is running");
}

static int run(struct cli *cli)
{
    struct user_server server;
    char error[BI_ERRMSG_SIZE];
    pid_t pid = 0, pid_now = 0;
    int exit;

    if (!bi_user_server_locate(&server, error))
        return bi_cli_error(cli, BI_EXIT_NO_QUEUE, "%s", error);
    if (bi_user_server_find(&server))
        is_listening(&server, &pid);
    int process = pid > 0 ? pidfd_open(pid, 0) : -1;
    if (process >= 0)
        is_listening(&server, &pid_now);

    /* If the server ended before pidfd_open(), its process id may be another process's by now. */
    if (pid <= 0 || (process >= 0 && pid_now != pid))
        exit = report_no_server(cli, &server);
    else if (process < 0 || pidfd_send_signal(process, SIGTERM, NULL, 0) != 0)
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
    .usage = "",
    .summary = "stop the user server, which bide started",
    .traits = BI_VERB_NO_QUEUE | BI_VERB_FINISH,
    .run = run,
};
