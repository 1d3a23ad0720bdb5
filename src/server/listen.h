/* SPDX-License-Identifier: MIT */
/*
 * listen - sockets that listen: TCP over IPv4 and IPv6, unix sockets, and those that systemd has
 * opened for us.
 *
 * They are opened before privileges are dropped. A name may mean several addresses; all of them are
 * listened on. The file of a unix socket is replaced only if no server listens there, and removed at
 * the end if it is still ours.
 *
 * Failure    A sentence in error (BI_SENTENCE_SIZE bytes).
 */
#ifndef BI_LISTEN_H
#define BI_LISTEN_H

#include "util/sentence.h"

#include <sys/types.h>

#define BI_LISTEN_BACKLOG 4096 /* the kernel has a limit of its own: net.core.somaxconn */
#define BI_SOCKETS_MAX    128
#define BI_PATH_SIZE      108 /* of a unix socket, with its end */

/* ---- addresses ---- */

/* Where to listen, as it is written; nothing has been looked up. */
struct address {
    bool is_unix;
    char host[256]; /* a name or number, or a path; "": every address of the machine */
    char port[8];
};

/*
 * "127.0.0.1:11300", "localhost:11300", "[::1]:11300", "*:11300", "11300" (the loopback address),
 * "127.0.0.1" and "::1" (the usual port), "unix:/run/bide/bided.sock". A reason that ends a
 * sentence, in error, if it is none of these.
 */
bool bi_address_parse(struct address *address, const char *text, char *error);

/* As beanstalkd's -l and -p name it; NULL: not said. */
bool bi_address_of(struct address *address, const char *host, const char *port, char *error);

bool bi_address_is_port(const char *text);

/* ---- sockets ---- */

struct listener {
    int fd;                  /* -1 when somebody else has taken it over */
    char name[300];          /* "127.0.0.1:11300", as the log shows it, with the true port */
    bool is_local;           /* only this machine can come in: loopback, or a unix socket */
    char path[BI_PATH_SIZE]; /* of the file to remove; "": none */
    dev_t device;            /* of that file, so that another's is not removed */
    ino_t inode;
};

struct listeners {
    size_t count;
    struct listener list[BI_SOCKETS_MAX];
};

/* Opens one address; unix_mode is for the file of a unix socket. */
bool bi_listen_open(struct listeners *listeners, const struct address *address, mode_t unix_mode,
                    char *error);

/* Takes what systemd has opened, if it has: then listeners is not empty any more. */
bool bi_listen_inherit(struct listeners *listeners, char *error);

/* The files of unix sockets belong to another user from now on. */
bool bi_listen_give(const struct listeners *listeners, uid_t uid, gid_t gid, char *error);

/* Closes what nobody has taken over, and removes files. */
void bi_listen_close(struct listeners *listeners);

#endif
