/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* struct ucred */
#include "remote/remote_socket.h"

#include <bide/error.h>

#include <arpa/inet.h>
#include <assert.h>
#include <inttypes.h>
#include <netinet/in.h>
#include <pwd.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#define SERVICE_USER "bide" /* of bided.service */
#define LISTENING    0x0a   /* TCP_LISTEN in /proc/net/tcp */
#define PASSWD_SIZE  16384

__attribute__((format(printf, 2, 3))) static bool reject(char *reason, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reason, BIDE_ERROR_SIZE, format, args);
    va_end(args);
    return false;
}

static bool is_service_user(uid_t owner)
{
    struct passwd entry, *found = NULL;
    char *buffer = malloc(PASSWD_SIZE);
    bool is_owner = buffer != NULL &&
                    getpwnam_r(SERVICE_USER, &entry, buffer, PASSWD_SIZE, &found) == 0 &&
                    found != NULL && entry.pw_uid == owner;

    free(buffer);
    return is_owner;
}

bool bi_peer_owner_is_trusted(uid_t owner)
{
    return owner == 0 || owner == geteuid() || is_service_user(owner);
}

static bool reject_owner(char *reason, uid_t owner)
{
    return reject(reason, "its owner is the user %u, and not you, root or " SERVICE_USER,
                  (unsigned)owner);
}

/* ---- TCP ---- */

/* A loopback address as /proc/net/tcp and tcp6 show it: 32-bit words in memory order. */
struct proc_address {
    char words[40];
    char mapped[40]; /* an IPv4 address as an IPv6 socket may be bound to it; "": none */
};

/* Returns whether a socket that listens on `bound` accepts connections to `to`. */
static bool accepts_from(const char *bound, const struct proc_address *to)
{
    bool wildcard = bound[strspn(bound, "0")] == 0;
    return wildcard || strcasecmp(bound, to->words) == 0 || strcasecmp(bound, to->mapped) == 0;
}

static void add_listener(struct peer_listener *listener, uid_t owner, uint64_t inode)
{
    bool untrusted = !bi_peer_owner_is_trusted(owner);

    /* Prefer the owner that the error will name: the first untrusted one. */
    if (listener->count == 0 || (untrusted && !listener->untrusted))
        listener->owner = owner;
    listener->untrusted = listener->untrusted || untrusted;
    listener->inodes += inode;
    listener->count++;
}

/* Adds the matching listeners of a table. False: the table cannot be read. */
static bool scan_proc_net(const char *path, const struct proc_address *to, unsigned port,
                          struct peer_listener *listener)
{
    char line[512], hex[40];
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        unsigned local_port, state, owner;
        uint64_t inode;
        /* sl: local_address remote_address st queues timer retransmits uid timeout inode */
        int read = sscanf(line,
                          " %*d: %39[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %u %*d "
                          "%" SCNu64,
                          hex, &local_port, &state, &owner, &inode);
        if (read == 5 && state == LISTENING && local_port == port && accepts_from(hex, to))
            add_listener(listener, (uid_t)owner, inode);
    }
    fclose(file);
    return true;
}

/* Returns whether the address is loopback: the table of another machine cannot be read. */
static bool format_address(const struct sockaddr *to, struct proc_address *address, unsigned *port)
{
    *address = (struct proc_address){.mapped = ""};
    if (to->sa_family == AF_INET) {
        const struct sockaddr_in *ipv4 = (const void *)to;
        *port = ntohs(ipv4->sin_port);
        snprintf(address->words, sizeof(address->words), "%08" PRIX32, ipv4->sin_addr.s_addr);
        snprintf(address->mapped, sizeof(address->mapped), "%016d%08" PRIX32 "%.8s", 0,
                 htonl(0xffff), address->words);
        return ntohl(ipv4->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (to->sa_family == AF_INET6) {
        const struct sockaddr_in6 *ipv6 = (const void *)to;
        *port = ntohs(ipv6->sin6_port);
        snprintf(address->words, sizeof(address->words), "%024d%08" PRIX32, 0, htonl(1));
        return IN6_IS_ADDR_LOOPBACK(&ipv6->sin6_addr);
    }
    return false;
}

bool bi_peer_owner_find_listener(const struct sockaddr *to, struct peer_listener *listener,
                                 char *reason)
{
    struct proc_address address;
    unsigned port;

    *listener = (struct peer_listener){.count = 0};
    if (!format_address(to, &address, &port))
        return reject(reason, "peer=trusted is for servers on this machine: a unix socket, "
                              "127.0.0.1 or [::1]");
    if (to->sa_family == AF_INET && !scan_proc_net("/proc/self/net/tcp", &address, port, listener))
        return reject(reason, "its owner is not known: /proc/net/tcp cannot be read");
    /* An IPv6 socket accepts IPv4 connections only if no IPv4 socket listens on the port: both
     * could not be bound. */
    if (listener->count == 0)
        scan_proc_net("/proc/self/net/tcp6", &address, port, listener);
    return listener->count > 0 || reject(reason, "no server listens there");
}

/* ---- around connect() ---- */

bool bi_peer_owner_check_listener(const struct sockaddr *to, struct peer_listener *before,
                                  char *reason)
{
    *before = (struct peer_listener){.count = 0};
    if (to->sa_family == AF_UNIX)
        return true; /* verify() checks the connection itself */
    if (!bi_peer_owner_find_listener(to, before, reason))
        return false;
    return !before->untrusted || reject_owner(reason, before->owner);
}

bool bi_peer_owner_verify(int fd, const struct sockaddr *to, const struct peer_listener *before,
                          char *reason)
{
    struct peer_listener after;
    struct ucred peer;
    socklen_t size = sizeof(peer);

    assert(fd >= 0);
    if (to->sa_family == AF_UNIX) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
            return reject(reason, "its owner is not known");
        return bi_peer_owner_is_trusted(peer.uid) || reject_owner(reason, peer.uid);
    }

    /* TCP has no SO_PEERCRED. If the same trusted sockets listen before and after connect(), one
     * of them has accepted: another user cannot bind the port while they listen, and a socket
     * that was closed and bound again has another inode. */
    if (!bi_peer_owner_find_listener(to, &after, reason))
        return false;
    if (after.untrusted)
        return reject_owner(reason, after.owner);
    if (after.count != before->count || after.inodes != before->inodes)
        return reject(reason, "another server listens there since the connection was made");
    return true;
}
