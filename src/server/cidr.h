/* SPDX-License-Identifier: MIT */
/*
 * cidr - addresses of clients, and networks in CIDR notation (10.0.0.0/8, fd00::/8).
 *
 * Every address has 16 bytes. An IPv4 address is stored as the mapped IPv6 address
 * (::ffff:10.0.0.1), so that it is equal on an IPv4 and on a dual-stack socket.
 */
#ifndef BI_CIDR_H
#define BI_CIDR_H

#include "util/message.h"

#define BI_ADDRESS_SIZE 16

struct sockaddr;

struct cidr {
    unsigned char bytes[BI_ADDRESS_SIZE];
    unsigned bits; /* length of the prefix; the other bits are 0 */
};

/* Returns false, with all bytes 0, for a family other than IPv4 and IPv6. */
bool bi_cidr_from_sockaddr(const struct sockaddr *address, unsigned char *bytes);

bool bi_cidr_is_loopback(const unsigned char *bytes);
bool bi_cidr_is_ipv4(const unsigned char *bytes);

/* Parses "10.0.0.0/8", "fd00::/8", or a single address. Host bits are an error: 10.0.0.1/8 is more
 * likely a mistake than a network. On failure error is a clause that completes the caller's
 * message. */
bool bi_cidr_parse(struct cidr *cidr, const char *text, size_t size, char *error);

bool bi_cidr_contains(const struct cidr *cidr, const unsigned char *bytes);

/* Formats a network in BI_CIDR_TEXT_SIZE bytes. */
#define BI_CIDR_TEXT_SIZE 64
const char *bi_cidr_format(const struct cidr *cidr, char *text);

#endif
