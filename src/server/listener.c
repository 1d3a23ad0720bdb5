/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* SOCK_CLOEXEC, SOCK_NONBLOCK */
#include "server/listener.h"

#include <assert.h>
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

/* Reads the bound address from the socket: systemd may have bound it, or port 0 was given. */
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
        unsigned char bytes[BI_ADDRESS_SIZE];
        bi_address_format(listener->name, &address.any, size);
        listener->is_local =
            bi_address_from_sockaddr(&address.any, bytes) && bi_address_is_loopback(bytes);
        return true;
    }

    /* An abstract address begins with a zero byte, shown as '@'. */
    const char *path = address.local.sun_path;
    snprintf(listener->name, sizeof(listener->name), "unix:%s%.108s", path[0] == 0 ? "@" : "",
             path[0] == 0 ? path + 1 : path);
    listener->is_local = true;
    return address.any.sa_family == AF_UNIX;
}

/* Appends a socket. On failure it is closed. */
static struct listener *append(struct listeners *listeners, int fd, char *error)
{
    struct listener *listener = &listeners->list[listeners->count];
    assert(fd >= 0 && listeners->count <= BI_LISTENERS_MAX);
    if (listeners->count == BI_LISTENERS_MAX) {
        close(fd);
        bi_errmsg_set(error, "cannot listen on more than %d sockets", BI_LISTENERS_MAX);
        return NULL;
    }

    *listener = (struct listener){.fd = fd};
    if (!describe(listener)) {
        close(fd);
        bi_errmsg_set(error, "cannot get the address of a socket: %s", strerror(errno));
        return NULL;
    }

    listeners->count++;
    return listener;
}

/* ---- TCP ---- */

static bool listen_error(const struct listen_address *address, int code, char *error)
{
    const char *host = !address->is_unix && address->host[0] == 0 ? "*" : address->host;
    const char *hint = "";
    char name[300];

    if (code == EADDRINUSE)
        hint = "; is another bided or beanstalkd running?";
    else if (code == EACCES)
        hint = address->is_unix ? "; no permission for its directory"
                                : "; ports below 1024 require root";
    else if (code == EADDRNOTAVAIL)
        hint = "; this machine has no such address";
    else if (address->is_unix && code == ENOENT)
        hint = "; create its directory first";
    else if (address->is_unix && code == EEXIST)
        hint = "; it is not a socket, and was not removed";

    if (address->is_unix)
        snprintf(name, sizeof(name), "unix:%s", host);
    else
        snprintf(name, sizeof(name), strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host,
                 address->port);
    return bi_errmsg_set(error, "cannot listen on %s: %s%s", name, strerror(code), hint);
}

/* Returns a listening socket, or -1 with errno set. mode: permissions of the file of a unix
 * socket. */
static int open_socket(const struct sockaddr *address, socklen_t size, mode_t mode)
{
    int on = 1, off = 0;
    int fd = socket(address->sa_family, SOCKET_FLAGS, 0);
    if (fd < 0)
        return -1;

    /* A restart must not wait for connections in TIME_WAIT. [::] includes IPv4, whatever the
     * default of the system is. */
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (address->sa_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));

    /* bind() creates the file with its final permissions. With a chmod() afterwards, another user
     * could connect in between. */
    bool is_unix = address->sa_family == AF_UNIX;
    mode_t before = is_unix ? umask(0777 & ~mode) : 0;
    bool good = bind(fd, address, size) == 0 && listen(fd, BI_LISTEN_BACKLOG) == 0;
    int code = errno;
    if (is_unix)
        umask(before);
    if (good)
        return fd;

    close(fd);
    errno = code; /* close() may change it */
    return -1;
}

static bool open_resolved(struct listeners *listeners, const struct listen_address *address,
                          const struct addrinfo *resolved, char *error)
{
    int code = EADDRNOTAVAIL;
    bool any = false;

    for (; resolved != NULL; resolved = resolved->ai_next) {
        int fd = open_socket(resolved->ai_addr, resolved->ai_addrlen, 0);
        if (fd >= 0) {
            if (append(listeners, fd, error) == NULL)
                return false;
            any = true;
            continue;
        }

        /* A name may resolve to IPv6 addresses on a machine without IPv6. These are skipped. */
        code = errno;
        if (code != EAFNOSUPPORT && code != EADDRNOTAVAIL)
            return listen_error(address, code, error);
    }
    return any || listen_error(address, code, error);
}

static bool open_host(struct listeners *listeners, const struct listen_address *address,
                      char *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *resolved;
    const char *host = address->host;

    if (host[0] == 0) {
        /* The IPv6 wildcard accepts IPv4 as well; without IPv6 in the kernel use that of IPv4. */
        int fd = socket(AF_INET6, SOCKET_FLAGS, 0);
        host = fd < 0 ? "0.0.0.0" : "::";
        if (fd >= 0)
            close(fd);
    }

    int code = getaddrinfo(host, address->port, &hints, &resolved);
    if (code != 0)
        return bi_errmsg_set(error, "cannot listen on %s: %s", address->host,
                             code == EAI_SYSTEM ? strerror(errno) : gai_strerror(code));

    bool good = open_resolved(listeners, address, resolved, error);
    freeaddrinfo(resolved);
    return good;
}

/* ---- unix sockets ---- */

static struct sockaddr_un unix_address(const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    memcpy(address.sun_path, path, strnlen(path, sizeof(address.sun_path) - 1));
    return address;
}

/* True if a server listens on the socket. An error such as a full backlog (EAGAIN) means yes. */
static bool is_in_use(const struct sockaddr_un *address)
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
static bool remove_stale_socket(const struct listen_address *address,
                                const struct sockaddr_un *local, char *error)
{
    struct stat info;

    if (lstat(address->host, &info) != 0)
        return errno == ENOENT || listen_error(address, errno, error);
    if (!S_ISSOCK(info.st_mode))
        return listen_error(address, EEXIST, error);
    if (is_in_use(local))
        return listen_error(address, EADDRINUSE, error);
    return unlink(address->host) == 0 || listen_error(address, errno, error);
}

static bool open_unix(struct listeners *listeners, const struct listen_address *address,
                      mode_t mode, char *error)
{
    struct sockaddr_un local = unix_address(address->host);
    if (!remove_stale_socket(address, &local, error))
        return false;

    int fd = open_socket((const void *)&local, sizeof(local), mode);
    if (fd < 0)
        return listen_error(address, errno, error);

    struct listener *listener = append(listeners, fd, error);
    struct stat info;
    if (listener == NULL)
        return false;

    /* Remember the file, to remove no other one at the end. */
    if (lstat(address->host, &info) == 0) {
        memcpy(listener->path, local.sun_path, sizeof(listener->path));
        listener->device = info.st_dev;
        listener->inode = info.st_ino;
    }
    return true;
}

bool bi_listener_open(struct listeners *listeners, const struct listen_address *address,
                      mode_t unix_mode, char *error)
{
    return address->is_unix ? open_unix(listeners, address, unix_mode, error)
                            : open_host(listeners, address, error);
}

/* ---- systemd ---- */

#ifdef BIDE_WITH_SYSTEMD

bool bi_listener_inherit(struct listeners *listeners, char *error)
{
    int count = sd_listen_fds(1);
    if (count < 0)
        return bi_errmsg_set(error, "cannot use the sockets of systemd: %s", strerror(-count));

    for (int fd = SD_LISTEN_FDS_START; fd < SD_LISTEN_FDS_START + count; fd++) {
        if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
            return bi_errmsg_set(error, "descriptor %d of systemd is not a listening stream socket",
                                 fd);

        int flags = fcntl(fd, F_GETFL);
        if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
            return bi_errmsg_set(error, "descriptor %d of systemd: %s", fd, strerror(errno));
        if (append(listeners, fd, error) == NULL)
            return false;
    }
    return true;
}

#else

bool bi_listener_inherit(struct listeners *listeners, char *error)
{
    (void)listeners;
    const char *pid = getenv("LISTEN_PID");
    if (pid == NULL || atol(pid) != (long)getpid())
        return true;
    return bi_errmsg_set(
        error, "systemd passes sockets, but this bided was built without libsystemd-dev and cannot "
               "use them");
}

#endif

/* ---- owner and end ---- */

bool bi_listener_chown(const struct listeners *listeners, uid_t uid, gid_t gid, char *error)
{
    for (size_t i = 0; i < listeners->count; i++) {
        const char *path = listeners->list[i].path;
        if (path[0] != 0 && lchown(path, uid, gid) != 0)
            return bi_errmsg_set(error, "cannot change the owner of %s: %s", path, strerror(errno));
    }
    return true;
}

void bi_listener_close_all(struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        const struct listener *listener = &listeners->list[i];
        struct sockaddr_un local = unix_address(listener->path);
        struct stat info;

        if (listener->fd >= 0)
            close(listener->fd);

        /* Another bided may have replaced the file meanwhile. The inode alone is no proof, because
         * it may be reused; so test also whether a server accepts there. Our own socket is closed
         * by now. */
        if (listener->path[0] != 0 && lstat(listener->path, &info) == 0 &&
            info.st_dev == listener->device && info.st_ino == listener->inode && !is_in_use(&local))
            unlink(listener->path);
    }
    listeners->count = 0;
}
