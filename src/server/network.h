/* SPDX-License-Identifier: MIT */
/*
 * network - addresses of clients, and networks of them as they are written (10.0.0.0/8, fd00::/8).
 *
 * Every address has 16 bytes: an IPv4 address is the IPv6 address that maps it (::ffff:10.0.0.1), so
 * that it is the same at a socket for IPv4 and at one for both.
 */
#ifndef BI_NETWORK_H
#define BI_NETWORK_H

#include "util/sentence.h"

#define BI_ADDRESS_SIZE 16

struct sockaddr;

struct network {
    unsigned char bytes[BI_ADDRESS_SIZE];
    unsigned bits; /* of these, from the first on; the others are 0 */
};

/* False, and all bytes 0, for a family that is neither IPv4 nor IPv6. */
bool bi_network_address(const struct sockaddr *address, unsigned char *bytes);

bool bi_network_is_loopback(const unsigned char *bytes);
bool bi_network_is_ipv4(const unsigned char *bytes);

/* "10.0.0.0/8", "fd00::/8", or one address. A reason that ends a sentence, in error, if it is none of
 * these, or has bits behind the network: 10.0.0.1/8 is more likely a slip than a network. */
bool bi_network_parse(struct network *network, const char *text, size_t size, char *error);

bool bi_network_has(const struct network *network, const unsigned char *bytes);

/* As it is written, for the log. */
#define BI_NETWORK_TEXT 64
const char *bi_network_show(const struct network *network, char *text);

#endif
