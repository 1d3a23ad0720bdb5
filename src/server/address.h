/* SPDX-License-Identifier: MIT */
/*
 * address - addresses of clients, networks in CIDR notation (10.0.0.0/8, fd00::/8), and addresses
 * to listen on.
 *
 * The address of a client has 16 bytes. An IPv4 address is stored as the mapped IPv6 address
 * (::ffff:10.0.0.1), so that it is equal on an IPv4 and on a dual-stack socket.
 *
 * Failure    A function returns false. On a failed parse error (BI_ERRMSG_SIZE bytes) is a clause
 *            that completes the caller's message.
 */
#ifndef BI_ADDRESS_H
#define BI_ADDRESS_H

#include "util/message.h"

/* ---- clients and networks ---- */

#define BI_ADDRESS_SIZE 16

struct sockaddr;

struct cidr {
    unsigned char bytes[BI_ADDRESS_SIZE];
    unsigned bits; /* length of the prefix; the other bits are 0 */
};

/* Returns false, with all bytes 0, for a family other than IPv4 and IPv6. */
bool bi_address_from_sockaddr(const struct sockaddr *address, unsigned char *bytes);

bool bi_address_is_loopback(const unsigned char *bytes);
bool bi_address_is_ipv4(const unsigned char *bytes);
bool bi_address_is_in_cidr(const unsigned char *bytes, const struct cidr *cidr);

/* Parses "10.0.0.0/8", "fd00::/8", or a single address. Host bits are an error: 10.0.0.1/8 is more
 * likely a mistake than a network. */
bool bi_address_parse_cidr(struct cidr *cidr, const char *text, size_t size, char *error);

/* Formats a network in BI_CIDR_TEXT_SIZE bytes. */
#define BI_CIDR_TEXT_SIZE 64
const char *bi_address_format_cidr(const struct cidr *cidr, char *text);

/* Formats "10.0.0.7:4711", also for a mapped address, or "[fd00::7]:4711". */
#define BI_ADDRESS_TEXT_SIZE 80
void bi_address_format(char *text, const struct sockaddr *address, size_t size);

/* ---- addresses to listen on ---- */

#define BI_UNIX_PATH_SIZE 108 /* with the terminating zero */

/* An address as configured; its host is not resolved yet. */
struct listen_address {
    bool is_unix;
    char host[256]; /* a name, a number or a path; "": all addresses */
    char port[8];
};

/*
 * "127.0.0.1:11300", "localhost:11300", "[::1]:11300", "*:11300", "11300" (the loopback address),
 * "127.0.0.1" and "::1" (the default port), "unix:/run/bide/bided.sock".
 */
bool bi_address_parse_listen(struct listen_address *address, const char *text, char *error);

/* The address of the flags -l and -p, as in beanstalkd; NULL: not given. */
bool bi_address_from_flags(struct listen_address *address, const char *host, const char *port,
                           char *error);

bool bi_address_is_port(const char *text);

#endif
