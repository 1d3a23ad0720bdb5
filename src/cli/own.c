/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* struct ucred */
#include "cli/own.h"

#include "util/url.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

/* ---- where ---- */

static bool is_private(const struct stat *info)
{
    return S_ISDIR(info->st_mode) && info->st_uid == geteuid() && (info->st_mode & 022) == 0;
}

bool bi_own_is_mine(const char *folder)
{
    struct stat info;
    return lstat(folder, &info) == 0 && is_private(&info);
}

bool bi_own_trusts(uid_t owner)
{
    struct stat root;
    return owner == geteuid() || owner == 0 || (stat("/", &root) == 0 && root.st_uid == owner);
}

static bool is_absolute(const char *path)
{
    return path != NULL && path[0] == '/';
}

/* The data folder may also be a link of this user to another disk. */
static bool is_mine_behind(const char *folder)
{
    struct stat itself, info;
    return lstat(folder, &itself) == 0 && itself.st_uid == geteuid() && stat(folder, &info) == 0 &&
           is_private(&info);
}

/* False, with a sentence: the folder exists, and others could put something there. variable: what
 * chooses another one. */
static bool refuse_folder(struct own_server *own, const char *folder, const char *variable,
                          char *error)
{
    own->unsafe = true;
    return bi_refuse(error,
                     "%.200s belongs to another user, or others can write there: remove it, or "
                     "chmod go-w if it is yours; or set %s to a folder of your own, or say where "
                     "the queue is with --url or BIDE_URL",
                     folder, variable);
}

static bool exists(const char *path)
{
    struct stat info;
    return lstat(path, &info) == 0;
}

/* The runtime folder of the session if there is one that is ours, else one in /tmp. */
static bool find_runtime(struct own_server *own, char *error)
{
    const char *session = getenv("XDG_RUNTIME_DIR");
    struct sockaddr_un address;
    size_t most = sizeof(address.sun_path) - sizeof("/bided.sock");
    bool good = is_absolute(session) && bi_own_is_mine(session) && strlen(session) + 5 < most;
    if (good)
        snprintf(own->folder, sizeof(own->folder), "%s/bide", session);
    else
        snprintf(own->folder, sizeof(own->folder), "/tmp/bide-%u", (unsigned)geteuid());
    if (exists(own->folder) && !bi_own_is_mine(own->folder))
        return refuse_folder(own, own->folder, "XDG_RUNTIME_DIR", error);
    snprintf(own->socket, sizeof(own->socket), "%s/bided.sock", own->folder);
    return true;
}

static bool find_data(struct own_server *own, char *error)
{
    const char *data = getenv("XDG_DATA_HOME"), *home = getenv("HOME");
    int size = 0;
    if (is_absolute(data))
        size = snprintf(own->data, sizeof(own->data), "%s/bide", data);
    else if (is_absolute(home))
        size = snprintf(own->data, sizeof(own->data), "%s/.local/share/bide", home);
    else
        return bi_refuse(error, "there is no place for a queue of your own: HOME is not set to a "
                                "full path; say where the queue is with --url or BIDE_URL");
    if ((size_t)size >= sizeof(own->data))
        return bi_refuse(error, "the name of the data folder is too long");
    if (exists(own->data) && !is_mine_behind(own->data))
        return refuse_folder(own, own->data, "HOME or XDG_DATA_HOME", error);
    snprintf(own->file, sizeof(own->file), "%s/jobs.db", own->data);
    snprintf(own->link, sizeof(own->link), "%s/bided.sock", own->data);
    snprintf(own->log, sizeof(own->log), "%s/bided.log", own->data);
    return true;
}

bool bi_own_look(struct own_server *own, char *error)
{
    own->unsafe = false;
    return find_runtime(own, error) && find_data(own, error);
}

/* ---- is it there ---- */

/* A connection to its socket, or -1 with errno. */
static int reach(const struct own_server *own)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    size_t size = strlen(own->socket);
    errno = ENOENT;
    if (size >= sizeof(address.sun_path) || !bi_own_is_mine(own->folder))
        return -1;
    int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0)
        return -1;
    memcpy(address.sun_path, own->socket, size + 1);
    if (connect(fd, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return fd;
    int reason = errno;
    close(fd);
    errno = reason;
    return -1;
}

/* A folder that is ours stays ours, so whoever listens there was allowed to. A full backlog is an
 * answer, too. */
bool bi_own_answers(const struct own_server *own)
{
    int fd = reach(own);
    bool good = fd >= 0 || errno == EAGAIN;
    if (fd >= 0)
        close(fd);
    return good;
}

/* Where the link in the data folder points to: another session has started it. */
static bool follow(struct own_server *own)
{
    struct own_server other = *own;
    ssize_t size = readlink(own->link, other.socket, sizeof(other.socket) - 1);
    if (size <= 0 || other.socket[0] != '/' || (size_t)size >= sizeof(other.folder))
        return false;
    other.socket[size] = 0;
    memcpy(other.folder, other.socket, (size_t)size + 1);
    *strrchr(other.folder, '/') = 0;
    if (!bi_own_answers(&other))
        return false;
    *own = other;
    return true;
}

bool bi_own_find(struct own_server *own)
{
    return bi_own_answers(own) || follow(own);
}

bool bi_own_url(const struct own_server *own, char *url)
{
    static const char only_trusted[] = "?peer=trusted";
    if (!bi_url_make(url, "beanstalk://", own->socket))
        return false;
    size_t size = strlen(url);
    if (size + sizeof(only_trusted) > BI_URL_MAX)
        return false;
    memcpy(url + size, only_trusted, sizeof(only_trusted));
    return true;
}

bool bi_own_leave_link(const struct own_server *own)
{
    char fresh[1200];
    snprintf(fresh, sizeof(fresh), "%s.new", own->link);
    unlink(fresh);
    return symlink(own->socket, fresh) == 0 && rename(fresh, own->link) == 0;
}

pid_t bi_own_pid(const struct own_server *own)
{
    struct ucred peer = {.pid = 0};
    socklen_t size = sizeof(peer);
    int fd = reach(own);
    if (fd < 0 || getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
        peer.pid = 0;
    if (fd >= 0)
        close(fd);
    return peer.pid;
}
