/* SPDX-License-Identifier: MIT */
/*
 * remote_socket - connects to a server within a time limit, and reads what it sends.
 *
 * Sockets never block. All waiting is done in bi_remote_socket_wait(), which ends at a deadline or
 * when the queue closes. Host names are resolved in the background (resolve.c), and the owner of a
 * server can be required to be trusted (peer_owner.c).
 */
#ifndef BI_REMOTE_SOCKET_H
#define BI_REMOTE_SOCKET_H

#include "remote/remote_address.h"

#include <netdb.h>
#include <sys/socket.h>
#include <sys/types.h>

/*
 * How long to wait, and what to do meanwhile. expire() is called at expire_at, and whenever wake_fd
 * was written to; it returns when to call it next. So requests expire on time while a connection is
 * being made for them.
 */
struct io_wait {
    int64_t deadline; /* boot-time clock */
    int stop_fd;      /* readable: the wait ends; -1: none */
    int wake_fd;      /* an eventfd, which the wait reads; only with expire() */
    int64_t expire_at;
    int64_t (*expire)(void *owner); /* NULL: nothing to do meanwhile */
    void *owner;
};

/* Returns a connected socket, or -1 with the reason ("no server listens there"). */
int bi_remote_socket_connect(const struct address *address, struct io_wait *io_wait, char *reason);

/* Connects to the peer of another socket: the same server, without a lookup. trusted: as in struct
 * address. */
int bi_remote_socket_connect_peer(int other, bool trusted, struct io_wait *io_wait, char *reason);

/* Ends the connection and closes the socket. The server learns of it also if a forked child of the
 * program has a copy of the descriptor. */
void bi_remote_socket_close(int fd);

/* Waits for POLLIN or POLLOUT. False: the deadline has passed, or stop_fd is readable. */
bool bi_remote_socket_wait(int fd, short events, struct io_wait *io_wait);

/* The timeout of a poll that ends at this time of the boot-time clock; -1 for INT64_MAX. */
int bi_remote_socket_ms_until(int64_t time);

/* ---- buffers ---- */

/* Bytes that were received and are not parsed yet, or that are to be sent: those from used to size.
 * Zeroed is empty. */
struct remote_buffer {
    unsigned char *data;
    size_t size, used, room;
    size_t skip; /* of the next bytes received, to be discarded */
};

/* Makes room for so many bytes at the end; the others may move. first_room is the least size of a
 * new buffer. False: out of memory. */
bool bi_remote_socket_reserve(struct remote_buffer *buffer, size_t more, size_t first_room);

/* Reads once. The buffer grows with the bytes received, not with an announced size: a server cannot
 * make the client allocate what it never sends. Returns the bytes read, 0 if there are none now,
 * REMOTE_NO_MEMORY if the buffer is full and cannot grow, or -1; both with how the connection was
 * lost ("closed by the server"). */
#define REMOTE_NO_MEMORY (-2)
ssize_t bi_remote_socket_read(int fd, struct remote_buffer *input, size_t first_room, char *reason);

/* Discards a reply of so many bytes, of which only the first have been received. Its op is to fail:
 * on another connection the server would send the same reply. */
void bi_remote_socket_skip(struct remote_buffer *input, size_t total_size);

/* Copies the next line without its CRLF. Returns 1, 0 if it is incomplete, -1 if it does not
 * fit. */
int bi_remote_socket_line(const struct remote_buffer *input, char *line, size_t room, size_t *size);

/* The data of so many bytes that follows offset bytes, and CRLF. *data is NULL while it is
 * incomplete. Returns false if no CRLF follows: the framing is lost, and every later reply would be
 * wrong. */
bool bi_remote_socket_data(const struct remote_buffer *input, size_t offset, size_t size,
                           const unsigned char **data);

/* ---- host names (resolve.c) ---- */

/*
 * Looks up the addresses of a host without blocking the caller.
 *
 * getaddrinfo() takes as long as the name servers let it, and cannot be interrupted. So each lookup
 * runs on a detached thread. The caller polls a descriptor until it is done, and may stop waiting
 * at any time: the thread finishes alone. Callers of the same name share a lookup. A result that no
 * caller waited for is cached for some seconds, for the next attempt.
 *
 * Ownership  A lookup is reference-counted: by the list of lookups, by its thread, and by each
 *            caller until bi_resolve_end().
 * Threads    Any thread may call. At most RESOLVE_MAX lookups are in progress in a process.
 * Unloading  The threads may outlive every queue: the shared library is linked with -z nodelete.
 */

#define RESOLVE_MAX 16

struct lookup;

/* Starts or joins a lookup. NULL with the reason (BIDE_ERROR_SIZE bytes). */
struct lookup *bi_resolve_begin(const char *host, const char *port, char *reason);

/* A descriptor that is readable when the lookup is done. */
int bi_resolve_fd(const struct lookup *lookup);

/* Returns the addresses, valid until bi_resolve_end(); NULL with the reason. The lookup must be
 * done. */
const struct addrinfo *bi_resolve_result(const struct lookup *lookup, char *reason);

void bi_resolve_end(struct lookup *lookup);

/* ---- owners of servers (peer_owner.c) ---- */

/*
 * Which user owns a server on this machine.
 *
 * A client that has no configured server must not send its jobs to any local process that listens
 * at the default place. With `peer=trusted` in its URL it connects only to servers of root, of the
 * system user bide (bided.service) or of the user that it runs as.
 *
 * The owner of a unix socket is the peer of the connection (SO_PEERCRED). The owner of a TCP port
 * is the user of the listening socket, from /proc/self/net/tcp and tcp6. That table is read before
 * and after connect(): if both show the same listener, that listener accepted the connection.
 *
 * Cost       One pass over /proc/self/net/tcp, twice for each TCP connection.
 */

/* The sockets that listen on an address. */
struct peer_listener {
    uint32_t count;
    uint64_t inodes; /* their sum: it changes when one is replaced */
    bool untrusted;  /* at least one owner is not trusted */
    uid_t owner;     /* of the first untrusted one, else of the first */
};

/* Returns whether a server of this user may be used with peer=trusted: root, bide, or the own
 * user. */
bool bi_peer_owner_is_trusted(uid_t owner);

/* Finds the sockets that listen on a loopback address and port. False, with the reason
 * (BIDE_ERROR_SIZE bytes): there is none, the address is not loopback, or /proc cannot be read. */
bool bi_peer_owner_find_listener(const struct sockaddr *to, struct peer_listener *listener,
                                 char *reason);

/* Before connect(): returns whether this address may be connected to. False, with the reason. */
bool bi_peer_owner_check_listener(const struct sockaddr *to, struct peer_listener *before,
                                  char *reason);

/* After connect(), before anything is sent: returns whether fd is connected to a trusted server.
 * before: the result of bi_peer_owner_check_listener(). False, with the reason. */
bool bi_peer_owner_verify(int fd, const struct sockaddr *to, const struct peer_listener *before,
                          char *reason);

#endif
