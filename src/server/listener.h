/* SPDX-License-Identifier: MIT */
/*
 * listener - listening sockets: TCP over IPv4 and IPv6, unix sockets, and sockets from systemd.
 *
 * Sockets are opened before privileges are dropped. A name may resolve to several addresses; the
 * server listens on all of them. The file of a unix socket is replaced only if no server listens on
 * it, and removed at the end if it is still the same file.
 *
 * Ownership  The list owns its descriptors until the caller sets fd to -1.
 * Failure    A function returns false with a message in error (BI_ERRMSG_SIZE bytes). Sockets that
 *            were opened before stay in the list.
 */
#ifndef BI_LISTENER_H
#define BI_LISTENER_H

#include "server/address.h"

#include <sys/types.h>

#define BI_LISTEN_BACKLOG 4096 /* the kernel limits it to net.core.somaxconn */
#define BI_LISTENERS_MAX  128

struct listener {
    int fd;                       /* -1 after the caller has taken it */
    char name[300];               /* "127.0.0.1:11300" for the log, with the bound port */
    bool is_local;                /* loopback or unix socket: only local clients */
    char path[BI_UNIX_PATH_SIZE]; /* file to remove at the end; "": none */
    dev_t device;                 /* of that file, to recognise it */
    ino_t inode;
};

struct listeners {
    size_t count;
    struct listener list[BI_LISTENERS_MAX];
};

/* Listens on an address. unix_mode: permissions of the file of a unix socket. */
bool bi_listener_open(struct listeners *listeners, const struct listen_address *address,
                      mode_t unix_mode, char *error);

/* Takes the sockets that systemd passes, if any. True with an empty list means that there are
 * none. */
bool bi_listener_inherit(struct listeners *listeners, char *error);

/* Changes the owner of the files of unix sockets, for the user that the server becomes. */
bool bi_listener_chown(const struct listeners *listeners, uid_t uid, gid_t gid, char *error);

/* Closes the sockets that were not taken, and removes the files of unix sockets. */
void bi_listener_close_all(struct listeners *listeners);

#endif
