/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* SOCK_CLOEXEC, SOCK_NONBLOCK */
#include "server/listen.h"

#include "server/network.h"

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#ifdef BIDE_WITH_SYSTEMD
#include <systemd/sd-daemon.h>
#endif

#define SOCKET_FLAGS (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

/* ---- names ---- */

static void describe_inet(struct listener *listener, const struct sockaddr *address, socklen_t size)
{
    char host[NI_MAXHOST], port[NI_MAXSERV];
    if (getnameinfo(address, size, host, sizeof(host), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        strcpy(host, "?");
        strcpy(port, "?");
    }
    snprintf(listener->name, sizeof(listener->name),
             address->sa_family == AF_INET6 ? "[%.200s]:%.8s" : "%.200s:%.8s", host, port);
    unsigned char bytes[BI_ADDRESS_SIZE];
    listener->is_local = bi_network_address(address, bytes) && bi_network_is_loopback(bytes);
}

/* What a socket is bound to, whoever did that. */
static bool describe(struct listener *listener)
{
    union {
        struct sockaddr any;
        struct sockaddr_un local;
        struct sockaddr_storage storage;
    } address = {.storage = {0}};
    socklen_t size = sizeof(address);
    if (getsockname(listener->fd, &address.any, &size) != 0)
        return false;
    if (address.any.sa_family == AF_INET || address.any.sa_family == AF_INET6) {
        describe_inet(listener, &address.any, size);
        return true;
    }
    const char *path = address.local.sun_path;
    snprintf(listener->name, sizeof(listener->name), "unix:%s%.108s", path[0] == 0 ? "@" : "",
             path[0] == 0 ? path + 1 : path);
    listener->is_local = true;
    return address.any.sa_family == AF_UNIX;
}

/* Room for one more socket, which is then the list's; closes it and refuses if there is none. */
static struct listener *add(struct listeners *listeners, int fd, char *error)
{
    struct listener *listener = &listeners->list[listeners->count];
    if (listeners->count == BI_SOCKETS_MAX) {
        close(fd);
        bi_refuse(error, "cannot listen on more than %d sockets", BI_SOCKETS_MAX);
        return NULL;
    }
    *listener = (struct listener){.fd = fd};
    if (!describe(listener)) {
        close(fd);
        bi_refuse(error, "cannot tell the address of a socket: %s", strerror(errno));
        return NULL;
    }
    listeners->count++;
    return listener;
}

/* ---- TCP ---- */

static const char *hint(int code)
{
    switch (code) {
    case EADDRINUSE:
        return "; is another bided or beanstalkd running?";
    case EADDRNOTAVAIL:
        return "; this machine has no such address";
    case EACCES:
        return "; ports below 1024 are root's";
    default:
        return "";
    }
}

static const char *unix_hint(int code)
{
    return code == EACCES   ? "; the directory is not ours"
           : code == ENOENT ? "; make its directory first"
                            : "";
}

static bool cannot(const struct address *address, int code, const char *more, char *error)
{
    const char *host = !address->is_unix && address->host[0] == 0 ? "*" : address->host;
    char name[300];
    if (address->is_unix)
        snprintf(name, sizeof(name), "unix:%s", host);
    else
        snprintf(name, sizeof(name), strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host,
                 address->port);
    return bi_refuse(error, "cannot listen on %s: %s%s", name, strerror(code), more);
}

/* -1 with errno set, or a socket that listens. */
static int open_inet(const struct addrinfo *found)
{
    int fd = socket(found->ai_family, SOCKET_FLAGS, found->ai_protocol);
    if (fd < 0)
        return -1;
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    /* [::] is everything, IPv4 too, whatever the system's default is. */
    if (found->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));
    if (bind(fd, found->ai_addr, found->ai_addrlen) == 0 && listen(fd, BI_LISTEN_BACKLOG) == 0)
        return fd;
    int code = errno;
    close(fd);
    errno = code;
    return -1;
}

/* A machine without IPv6 still knows IPv6 addresses of its name. */
static bool is_absent(int code)
{
    return code == EAFNOSUPPORT || code == EADDRNOTAVAIL;
}

static bool open_found(struct listeners *listeners, const struct address *address,
                       const struct addrinfo *found, char *error)
{
    int code = EADDRNOTAVAIL;
    bool any = false;
    for (; found != NULL; found = found->ai_next) {
        int fd = open_inet(found);
        if (fd < 0 && !is_absent(errno))
            return cannot(address, errno, hint(errno), error);
        if (fd < 0) {
            code = errno;
            continue;
        }
        if (add(listeners, fd, error) == NULL)
            return false;
        any = true;
    }
    return any || cannot(address, code, hint(code), error);
}

/* A socket for all addresses of IPv6 takes those of IPv4 as well. */
static const char *every_address(void)
{
    int fd = socket(AF_INET6, SOCKET_FLAGS, 0);
    if (fd < 0)
        return "0.0.0.0";
    close(fd);
    return "::";
}

static bool open_host(struct listeners *listeners, const struct address *address, char *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *found;
    const char *host = address->host[0] == 0 ? every_address() : address->host;
    int code = getaddrinfo(host, address->port, &hints, &found);
    if (code != 0)
        return bi_refuse(error, "cannot listen on %s: %s", address->host,
                         code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));
    bool good = open_found(listeners, address, found, error);
    freeaddrinfo(found);
    return good;
}

/* ---- unix sockets ---- */

static struct sockaddr_un local_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strnlen(path, sizeof(address.sun_path) - 1));
    return address;
}

/* Does somebody accept connections there? A full backlog is an answer, too. */
static bool is_alive(const struct sockaddr_un *address)
{
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return true;
    bool refused = connect(fd, (const void *)address, sizeof(*address)) != 0 &&
                   (errno == ECONNREFUSED || errno == ENOENT);
    close(fd);
    return !refused;
}

/* Removes the file of a socket that no server listens on any more. */
static bool make_way(const struct address *address, const struct sockaddr_un *local, char *error)
{
    struct stat info;
    if (lstat(address->host, &info) != 0)
        return errno == ENOENT || cannot(address, errno, "", error);
    if (!S_ISSOCK(info.st_mode))
        return cannot(address, EEXIST, "; it is no socket, and is left alone", error);
    if (is_alive(local))
        return cannot(address, EADDRINUSE, hint(EADDRINUSE), error);
    return unlink(address->host) == 0 || cannot(address, errno, "", error);
}

static bool open_path(struct listeners *listeners, const struct address *address, mode_t mode,
                      char *error)
{
    struct sockaddr_un local = local_address(address->host);
    if (!make_way(address, &local, error))
        return false;
    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return cannot(address, errno, "", error);
    /* The permissions are right from the beginning: nobody slips in. */
    mode_t before = umask(0777 & ~mode);
    int status = bind(fd, (const void *)&local, sizeof(local));
    int code = errno;
    umask(before);
    if (status == 0 && listen(fd, BI_LISTEN_BACKLOG) != 0) {
        status = -1;
        code = errno;
    }
    if (status != 0) {
        close(fd);
        return cannot(address, code, unix_hint(code), error);
    }
    struct listener *listener = add(listeners, fd, error);
    struct stat info;
    if (listener == NULL)
        return false;
    if (lstat(address->host, &info) == 0) {
        memcpy(listener->path, local.sun_path, sizeof(listener->path));
        listener->device = info.st_dev;
        listener->inode = info.st_ino;
    }
    return true;
}

bool bi_listen_open(struct listeners *listeners, const struct address *address, mode_t unix_mode,
                    char *error)
{
    return address->is_unix ? open_path(listeners, address, unix_mode, error)
                            : open_host(listeners, address, error);
}

/* ---- from systemd ---- */

#ifdef BIDE_WITH_SYSTEMD

static bool inherit_one(struct listeners *listeners, int fd, char *error)
{
    if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
        return bi_refuse(error, "descriptor %d of systemd is no stream socket that listens", fd);
    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return bi_refuse(error, "descriptor %d of systemd: %s", fd, strerror(errno));
    return add(listeners, fd, error) != NULL;
}

bool bi_listen_inherit(struct listeners *listeners, char *error)
{
    int count = sd_listen_fds(1);
    if (count < 0)
        return bi_refuse(error, "cannot take the sockets of systemd: %s", strerror(-count));
    for (int i = 0; i < count; i++)
        if (!inherit_one(listeners, SD_LISTEN_FDS_START + i, error))
            return false;
    return true;
}

#else

bool bi_listen_inherit(struct listeners *listeners, char *error)
{
    (void)listeners;
    const char *pid = getenv("LISTEN_PID");
    if (pid == NULL || atol(pid) != (long)getpid())
        return true;
    return bi_refuse(error, "systemd has opened sockets for us, but this bided was built without "
                            "libsystemd-dev and cannot take them");
}

#endif

/* ---- later ---- */

bool bi_listen_give(const struct listeners *listeners, uid_t uid, gid_t gid, char *error)
{
    for (size_t i = 0; i < listeners->count; i++) {
        const char *path = listeners->list[i].path;
        if (path[0] != 0 && lchown(path, uid, gid) != 0)
            return bi_refuse(error, "cannot give away %s: %s", path, strerror(errno));
    }
    return true;
}

/* Another bided may have taken the place meanwhile; the number of the file alone does not tell, it
 * may be used again. Our own socket is closed. */
static void remove_file(const struct listener *listener)
{
    struct stat info;
    struct sockaddr_un local = local_address(listener->path);
    if (listener->path[0] != 0 && lstat(listener->path, &info) == 0 &&
        info.st_dev == listener->device && info.st_ino == listener->inode && !is_alive(&local))
        unlink(listener->path);
}

void bi_listen_close(struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->list[i].fd >= 0)
            close(listeners->list[i].fd);
        remove_file(&listeners->list[i]);
    }
    listeners->count = 0;
}
