/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* SOCK_CLOEXEC, SOCK_NONBLOCK */
#include "server/listener.h"

#include "server/cidr.h"

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

#define DEFAULT_HOST "127.0.0.1"
#define DEFAULT_PORT "11300"
#define SOCKET_FLAGS (SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC)

/* ---- addresses ---- */

bool bi_listen_address_is_port(const char *text)
{
    size_t size = strlen(text);
    return size > 0 && size <= 5 && strspn(text, "0123456789") == size && atoi(text) <= 65535;
}

static bool set_path(struct listen_address *address, const char *path, char *error)
{
    if (path[0] == 0)
        return bi_errmsg_set(error, "no path after unix:");
    size_t size = strlen(path);
    if (size >= BI_UNIX_PATH_SIZE)
        return bi_errmsg_set(error, "the path has %zu bytes; at most %d are allowed", size,
                             BI_UNIX_PATH_SIZE - 1);

    *address = (struct listen_address){.is_unix = true};
    memcpy(address->host, path, size);
    return true;
}

static bool set_host(struct listen_address *address, const char *host, size_t size,
                     const char *port, char *error)
{
    if (!bi_listen_address_is_port(port))
        return bi_errmsg_set(error, "invalid port: \"%.60s\" (0 to 65535)", port);
    if (size == 0 || size >= sizeof(address->host))
        return bi_errmsg_set(error, "the host name is %s", size == 0 ? "empty" : "too long");

    /* An empty host stands for all addresses. */
    *address = (struct listen_address){.is_unix = false};
    if (size != 1 || host[0] != '*')
        memcpy(address->host, host, size);
    memcpy(address->port, port, strlen(port));
    return true;
}

/* "[::1]:11300", or without the port. */
static bool parse_brackets(struct listen_address *address, const char *text, char *error)
{
    const char *end = strchr(text, ']');
    if (end == NULL || (end[1] != 0 && end[1] != ':'))
        return bi_errmsg_set(error, "expected [ADDRESS]:PORT");
    return set_host(address, text + 1, (size_t)(end - text - 1),
                    end[1] == 0 ? DEFAULT_PORT : end + 2, error);
}

bool bi_listen_address_parse(struct listen_address *address, const char *text, char *error)
{
    const char *colon = strchr(text, ':');

    if (strncmp(text, "unix:", 5) == 0)
        return set_path(address, text + 5, error);
    if (text[0] == '[')
        return parse_brackets(address, text, error);

    /* Digits are a port, never a host; an invalid port is reported as such. */
    if (text[0] != 0 && text[strspn(text, "0123456789")] == 0)
        return set_host(address, DEFAULT_HOST, strlen(DEFAULT_HOST), text, error);

    /* More than one colon: an IPv6 address without brackets has no port. */
    if (colon == NULL || strchr(colon + 1, ':') != NULL)
        return set_host(address, text, strlen(text), DEFAULT_PORT, error);

    return set_host(address, text, (size_t)(colon - text), colon + 1, error);
}

bool bi_listen_address_from_flags(struct listen_address *address, const char *host,
                                  const char *port, char *error)
{
    if (host != NULL && strncmp(host, "unix:", 5) == 0)
        return set_path(address, host + 5, error);
    if (host == NULL)
        host = DEFAULT_HOST;
    return set_host(address, host, strlen(host), port != NULL ? port : DEFAULT_PORT, error);
}

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
    listener->is_local = bi_cidr_from_sockaddr(address, bytes) && bi_cidr_is_loopback(bytes);
}

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
        describe_inet(listener, &address.any, size);
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

static const char *tcp_hint(int code)
{
    switch (code) {
    case EADDRINUSE:
        return "; is another bided or beanstalkd running?";
    case EADDRNOTAVAIL:
        return "; this machine has no such address";
    case EACCES:
        return "; ports below 1024 require root";
    default:
        return "";
    }
}

static const char *unix_hint(int code)
{
    return code == EACCES   ? "; no permission for its directory"
           : code == ENOENT ? "; create its directory first"
                            : "";
}

static bool listen_error(const struct listen_address *address, int code, const char *hint_text,
                         char *error)
{
    const char *host = !address->is_unix && address->host[0] == 0 ? "*" : address->host;
    char name[300];

    if (address->is_unix)
        snprintf(name, sizeof(name), "unix:%s", host);
    else
        snprintf(name, sizeof(name), strchr(host, ':') != NULL ? "[%s]:%s" : "%s:%s", host,
                 address->port);

    return bi_errmsg_set(error, "cannot listen on %s: %s%s", name, strerror(code), hint_text);
}

/* Returns a listening socket, or -1 with errno set. */
static int open_inet(const struct addrinfo *resolved)
{
    int fd = socket(resolved->ai_family, SOCKET_FLAGS, resolved->ai_protocol);
    if (fd < 0)
        return -1;

    /* A restart must not wait for connections in TIME_WAIT. [::] includes IPv4, whatever the
     * default of the system is. */
    int on = 1, off = 0;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof(on));
    if (resolved->ai_family == AF_INET6)
        setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &off, sizeof(off));

    if (bind(fd, resolved->ai_addr, resolved->ai_addrlen) == 0 &&
        listen(fd, BI_LISTEN_BACKLOG) == 0)
        return fd;

    int code = errno;
    close(fd);
    errno = code; /* close() may change it */
    return -1;
}

/* A name may resolve to IPv6 addresses on a machine without IPv6. These are skipped. */
static bool is_unavailable(int code)
{
    return code == EAFNOSUPPORT || code == EADDRNOTAVAIL;
}

static bool open_resolved(struct listeners *listeners, const struct listen_address *address,
                          const struct addrinfo *resolved, char *error)
{
    int code = EADDRNOTAVAIL;
    bool any = false;

    for (; resolved != NULL; resolved = resolved->ai_next) {
        int fd = open_inet(resolved);
        if (fd < 0 && !is_unavailable(errno))
            return listen_error(address, errno, tcp_hint(errno), error);
        /* Remembered for the case that no address is available. */
        if (fd < 0) {
            code = errno;
            continue;
        }
        if (append(listeners, fd, error) == NULL)
            return false;
        any = true;
    }
    return any || listen_error(address, code, tcp_hint(code), error);
}

/* The IPv6 wildcard accepts IPv4 as well; without IPv6 in the kernel use that of IPv4. */
static const char *wildcard_host(void)
{
    int fd = socket(AF_INET6, SOCKET_FLAGS, 0);
    if (fd < 0)
        return "0.0.0.0";
    close(fd);
    return "::";
}

static bool open_host(struct listeners *listeners, const struct listen_address *address,
                      char *error)
{
    struct addrinfo hints = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_PASSIVE}, *resolved;
    const char *host = address->host[0] == 0 ? wildcard_host() : address->host;
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
        return errno == ENOENT || listen_error(address, errno, "", error);
    if (!S_ISSOCK(info.st_mode))
        return listen_error(address, EEXIST, "; it is not a socket, and was not removed", error);
    if (is_in_use(local))
        return listen_error(address, EADDRINUSE, tcp_hint(EADDRINUSE), error);
    return unlink(address->host) == 0 || listen_error(address, errno, "", error);
}

static bool open_unix(struct listeners *listeners, const struct listen_address *address,
                      mode_t mode, char *error)
{
    struct sockaddr_un local = unix_address(address->host);
    if (!remove_stale_socket(address, &local, error))
        return false;

    int fd = socket(AF_UNIX, SOCKET_FLAGS, 0);
    if (fd < 0)
        return listen_error(address, errno, "", error);

    /* bind() creates the file with its final permissions. With a chmod() afterwards, another user
     * could connect in between. */
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
        return listen_error(address, code, unix_hint(code), error);
    }

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

static bool inherit_one(struct listeners *listeners, int fd, char *error)
{
    if (sd_is_socket(fd, AF_UNSPEC, SOCK_STREAM, 1) <= 0)
        return bi_errmsg_set(error, "descriptor %d of systemd is not a listening stream socket",
                             fd);

    int flags = fcntl(fd, F_GETFL);
    if (flags < 0 || fcntl(fd, F_SETFL, flags | O_NONBLOCK) != 0)
        return bi_errmsg_set(error, "descriptor %d of systemd: %s", fd, strerror(errno));
    return append(listeners, fd, error) != NULL;
}

bool bi_listener_inherit(struct listeners *listeners, char *error)
{
    int count = sd_listen_fds(1);
    if (count < 0)
        return bi_errmsg_set(error, "cannot use the sockets of systemd: %s", strerror(-count));

    for (int i = 0; i < count; i++)
        if (!inherit_one(listeners, SD_LISTEN_FDS_START + i, error))
            return false;
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

/* Another bided may have replaced the file meanwhile. The inode alone is no proof, because it may
 * be reused; so test also whether a server accepts there. Our own socket is closed by then. */
static void remove_socket_file(const struct listener *listener)
{
    struct stat info;
    struct sockaddr_un local = unix_address(listener->path);
    if (listener->path[0] != 0 && lstat(listener->path, &info) == 0 &&
        info.st_dev == listener->device && info.st_ino == listener->inode && !is_in_use(&local))
        unlink(listener->path);
}

void bi_listener_close_all(struct listeners *listeners)
{
    for (size_t i = 0; i < listeners->count; i++) {
        if (listeners->list[i].fd >= 0)
            close(listeners->list[i].fd);
        remove_socket_file(&listeners->list[i]);
    }
    listeners->count = 0;
}
