/* SPDX-License-Identifier: MIT */
#define _GNU_SOURCE /* struct ucred */
#include "backend/peer_owner.h"

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
#include <unistd.h>

#define SYSTEM_USER "bide" /* of bided.service */
#define LISTENING   0x0a   /* TCP_LISTEN in /proc/net/tcp */
#define PASSWD_SIZE 16384

__attribute__((format(printf, 2, 3))) static bool refuse(char *reason, const char *format, ...)
{
    va_list args;

    va_start(args, format);
    vsnprintf(reason, BIDE_ERROR_SIZE, format, args);
    va_end(args);
    return false;
}

static bool is_system_user(uid_t owner)
{
    struct passwd entry, *found = NULL;
    char *room = malloc(PASSWD_SIZE);
    bool same = room != NULL && getpwnam_r(SYSTEM_USER, &entry, room, PASSWD_SIZE, &found) == 0 &&
                found != NULL && entry.pw_uid == owner;

    free(room);
    return same;
}

bool bi_peer_trusts(uid_t owner)
{
    return owner == 0 || owner == geteuid() || is_system_user(owner);
}

static bool refuse_owner(char *reason, uid_t owner)
{
    return refuse(reason, "its owner is the user %u, and not you, root or " SYSTEM_USER,
                  (unsigned)owner);
}

/* ---- TCP ---- */

/* An address as the columns of /proc/net/tcp and tcp6 have it: 32-bit words as they lie in memory. */
struct words {
    uint32_t word[4];
    int count; /* 1: IPv4, 4: IPv6 */
};

static bool parse_words(const char *hex, struct words *address)
{
    size_t size = strlen(hex);

    if (size != 8 && size != 32)
        return false;
    address->count = (int)size / 8;
    for (int i = 0; i < address->count; i++)
        if (sscanf(hex + (size_t)8 * (size_t)i, "%8" SCNx32, &address->word[i]) != 1)
            return false;
    return true;
}

/* Does a socket that listens on this address take connections to the other? */
static bool takes(const struct words *listens, const struct words *to)
{
    const uint32_t mapped = htonl(0xffff);
    bool wildcard = true;

    for (int i = 0; i < listens->count; i++)
        wildcard = wildcard && listens->word[i] == 0;
    if (wildcard)
        return true;
    if (listens->count == to->count)
        return memcmp(listens->word, to->word, sizeof(to->word[0]) * (size_t)to->count) == 0;
    /* ::ffff:127.0.0.1 */
    return to->count == 1 && listens->word[0] == 0 && listens->word[1] == 0 &&
           listens->word[2] == mapped && listens->word[3] == to->word[0];
}

static void add_listener(struct peer_listener *listener, uid_t owner, uint64_t inode)
{
    bool foreign = !bi_peer_trusts(owner);

    if (listener->count == 0 || (foreign && !listener->foreign))
        listener->owner = owner;
    listener->foreign = listener->foreign || foreign;
    listener->inodes += inode;
    listener->count++;
}

/* False if the table cannot be read. */
static bool scan(const char *path, const struct words *to, unsigned port,
                 struct peer_listener *listener)
{
    char line[512], hex[40];
    FILE *file = fopen(path, "re");

    if (file == NULL)
        return false;
    while (fgets(line, sizeof(line), file) != NULL) {
        struct words address;
        unsigned local_port, state, owner;
        uint64_t inode;
        int read = sscanf(line,
                          " %*d: %39[0-9A-Fa-f]:%x %*[0-9A-Fa-f]:%*x %x %*x:%*x %*x:%*x %*x %u %*d "
                          "%" SCNu64,
                          hex, &local_port, &state, &owner, &inode);
        if (read == 5 && state == LISTENING && local_port == port && parse_words(hex, &address) &&
            takes(&address, to))
            add_listener(listener, (uid_t)owner, inode);
    }
    fclose(file);
    return true;
}

/* Only loopback: the table of another machine cannot be read. */
static bool parse_address(const struct sockaddr *to, struct words *address, unsigned *port)
{
    if (to->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)to;
        *port = ntohs(four->sin_port);
        address->count = 1;
        address->word[0] = four->sin_addr.s_addr;
        return ntohl(four->sin_addr.s_addr) >> 24 == IN_LOOPBACKNET;
    }
    if (to->sa_family == AF_INET6) {
        const struct sockaddr_in6 *six = (const void *)to;
        *port = ntohs(six->sin6_port);
        address->count = 4;
        memcpy(address->word, &six->sin6_addr, sizeof(address->word));
        return IN6_IS_ADDR_LOOPBACK(&six->sin6_addr);
    }
    return false;
}

bool bi_peer_find_listener(const struct sockaddr *to, struct peer_listener *listener, char *reason)
{
    struct words address;
    unsigned port;

    *listener = (struct peer_listener){.count = 0};
    if (!parse_address(to, &address, &port))
        return refuse(reason, "peer=trusted is for servers on this machine: a unix socket, "
                              "127.0.0.1 or [::1]");
    if (address.count == 1 && !scan("/proc/self/net/tcp", &address, port, listener))
        return refuse(reason, "its owner is not known: /proc/net/tcp cannot be read");
    /* Where an IPv4 socket listens, one of IPv6 on the same port takes no IPv4 connections: both
     * could not be bound. */
    if (listener->count == 0)
        scan("/proc/self/net/tcp6", &address, port, listener);
    return listener->count > 0 || refuse(reason, "no server listens there");
}

/* ---- around connect() ---- */

bool bi_peer_may_connect(const struct sockaddr *to, struct peer_listener *before, char *reason)
{
    *before = (struct peer_listener){.count = 0};
    if (to->sa_family == AF_UNIX)
        return true; /* the connection itself tells */
    if (!bi_peer_find_listener(to, before, reason))
        return false;
    return !before->foreign || refuse_owner(reason, before->owner);
}

bool bi_peer_is_trusted(int fd, const struct sockaddr *to, const struct peer_listener *before,
                        char *reason)
{
    struct peer_listener after;
    struct ucred peer;
    socklen_t size = sizeof(peer);

    assert(fd >= 0);
    if (to->sa_family == AF_UNIX) {
        if (getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0)
            return refuse(reason, "its owner is not known");
        return bi_peer_trusts(peer.uid) || refuse_owner(reason, peer.uid);
    }
    if (!bi_peer_find_listener(to, &after, reason))
        return false;
    if (after.foreign)
        return refuse_owner(reason, after.owner);
    if (after.count != before->count || after.inodes != before->inodes)
        return refuse(reason, "another server listens there since the connection was made");
    return true;
}
