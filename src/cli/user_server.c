/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* struct ucred */
#include "cli/user_server.h"

#include "util/url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- paths ---- */

static bool is_private(const struct stat *info)
{
    return S_ISDIR(info->st_mode) && info->st_uid == geteuid() && (info->st_mode & 022) == 0;
}

bool bi_user_server_owns_dir(const char *dir)
{
    struct stat info;
    return lstat(dir, &info) == 0 && is_private(&info);
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

/* The data directory may be a link of this user to another disk. */
static bool owns_dir_or_link(const char *dir)
{
    struct stat itself, info;
    return lstat(dir, &itself) == 0 && itself.st_uid == geteuid() && stat(dir, &info) == 0 &&
           is_private(&info);
}

/* The directory exists, and others can write to it. variable: the one that selects another directory.
 * Returns false with an error text. */
static bool reject_dir(struct user_server *server, const char *dir, const char *variable,
                       char *error)
{
    server->unsafe = true;
    return bi_errmsg_set(
        error,
        "%.200s belongs to another user, or others can write to it: if it is yours, run \"chmod go-w\" "
        "on it (it may hold your jobs); or set %s to a directory of your own, or set --url or BIDE_URL",
        dir, variable);
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* The runtime directory of the session if it belongs to this user, else one in /tmp. */
static bool find_runtime_dir(struct user_server *server, char *error)
{
    const char *runtime_dir = getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address;
    size_t path_max = sizeof(address.sun_path) - sizeof("/bided.sock");
    bool good = is_absolute(runtime_dir) && bi_user_server_owns_dir(runtime_dir) &&
                strlen(runtime_dir) + 5 < path_max;
    if (good)
        snprintf(server->dir, sizeof(server->dir), "%s/bide", runtime_dir);
    else
        snprintf(server->dir, sizeof(server->dir), "/tmp/bide-%u", (unsigned)geteuid());
    if (exists(server->dir) && !bi_user_server_owns_dir(server->dir))
        return reject_dir(server, server->dir, "XDG_RUNTIME_DIR", error);
    snprintf(server->socket, sizeof(server->socket), "%s/bided.sock", server->dir);
    return true;
}

static bool find_data_dir(struct user_server *server, char *error)
{
    const char *data_dir = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int size = 0;
    if (is_absolute(data_dir))
        size = snprintf(server->data_dir, sizeof(server->data_dir), "%s/bide", data_dir);
    else if (is_absolute(home))
        size = snprintf(server->data_dir, sizeof(server->data_dir), "%s/.local/share/bide", home);
    else
        return bi_errmsg_set(
            error, "no place for a user server: HOME is not set to an absolute path; set --url "
                   "or BIDE_URL");
    if ((size_t)size >= sizeof(server->data_dir))
        return bi_errmsg_set(error, "the path of the data directory is too long");
    if (exists(server->data_dir) && !owns_dir_or_link(server->data_dir))
        return reject_dir(server, server->data_dir, "HOME or XDG_DATA_HOME", error);
    snprintf(server->file, sizeof(server->file), "%s/jobs.db", server->data_dir);
    snprintf(server->link, sizeof(server->link), "%s/bided.sock", server->data_dir);
    snprintf(server->log, sizeof(server->log), "%s/bided.log", server->data_dir);
    return true;
}

bool bi_user_server_locate(struct user_server *server, char *error)
{
    server->unsafe = false;
    return find_runtime_dir(server, error) && find_data_dir(server, error);
}

/* ---- the running server ---- */

/* Connects to the socket. Returns a descriptor, or -1 with errno. */
static int connect_socket(const struct user_server *server)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(server->socket);
    errno = ENOENT;
    if (size >= sizeof(address.sun_path) || !bi_user_server_owns_dir(server->dir))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    memcpy(address.sun_path, server->socket, size + 1);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* Only this user can create a socket in the directory, so the listener is trusted. A full backlog
 * (EAGAIN) means that it listens, too. */
bool bi_user_server_is_listening(const struct user_server *server)
{
    int fd = connect_socket(server);
    bool good = fd >= 0 || errno == EAGAIN;
    if (fd >= 0)
        close(fd);
    return good;
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
    if (!bi_user_server_is_listening(&other))
        return false;
    *server = other;
    return true;
}

bool bi_user_server_find(struct user_server *server)
{
    return bi_user_server_is_listening(server) || follow_link(server);
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

static void unserved_path(const struct user_server *server, char *path, size_t size)
{
    snprintf(path, size, "%s/unserved.noted", server->data_dir);
}

bool bi_user_server_write_link(const struct user_server *server)
{
    char temp_link[1200];
    unserved_path(server, temp_link, sizeof(temp_link));
    unlink(temp_link);
    snprintf(temp_link, sizeof(temp_link), "%s.new", server->link);
    unlink(temp_link);
    return symlink(server->socket, temp_link) == 0 && rename(temp_link, server->link) == 0;
}

bool bi_user_server_note_unserved(const struct user_server *server)
{
    char path[1200];
    unserved_path(server, path, sizeof(path));
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

pid_t bi_user_server_pid(const struct user_server *server)
{
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof(peer);
    int fd = connect_socket(server);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        peer.pid = 0;
    if (fd >= 0)
        close(fd);
    return peer.pid;
}
