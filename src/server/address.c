/* SPDX-License-Identifier: MIT */
#include "server/address.h"

#include <arpa/inet.h>
#include <assert.h>
#include <netdb.h>
#include <netinet/in.h>
#include <stdlib.h>
#include <string.h>

#define DEFAULT_HOST "127.0.0.1"
#define DEFAULT_PORT "11300"
#define DIGITS       "0123456789"
#define IPV4_BITS    96 /* length of the prefix of mapped addresses */

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

bool bi_address_from_sockaddr(const struct sockaddr *address, unsigned char *bytes)
{
    memset(bytes, 0, BI_ADDRESS_SIZE);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *ipv4_addr = (const void *)address;
        memcpy(bytes, mapped, sizeof(mapped));
        memcpy(bytes + sizeof(mapped), &ipv4_addr->sin_addr, 4);
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;

    const struct sockaddr_in6 *ipv6_addr = (const void *)address;
    memcpy(bytes, &ipv6_addr->sin6_addr, BI_ADDRESS_SIZE);
    return true;
}

bool bi_address_is_ipv4(const unsigned char *bytes)
{
    return memcmp(bytes, mapped, sizeof(mapped)) == 0;
}

bool bi_address_is_loopback(const unsigned char *bytes)
{
    static const unsigned char loopback[BI_ADDRESS_SIZE] = {[15] = 1};

    if (bi_address_is_ipv4(bytes))
        return bytes[12] == 127;
    return memcmp(bytes, loopback, BI_ADDRESS_SIZE) == 0;
}

/* ---- networks ---- */

bool bi_address_parse_cidr(struct cidr *cidr, const char *text, size_t size, char *error)
{
    char copy[BI_CIDR_TEXT_SIZE], suggestion[BI_CIDR_TEXT_SIZE];
    struct cidr found;

    if (size >= sizeof(copy))
        return bi_errmsg_set(error, "too long for a network");
    memcpy(copy, text, size);
    copy[size] = 0;

    char *slash = strchr(copy, '/');
    if (slash != NULL)
        *slash = 0;

    /* The prefix of an IPv4 network is counted behind the mapped part. */
    bool ipv4 = strchr(copy, ':') == NULL;
    unsigned offset = ipv4 ? IPV4_BITS : 0, most = 8 * BI_ADDRESS_SIZE - offset;
    memcpy(found.bytes, mapped, sizeof(mapped));
    if (inet_pton(ipv4 ? AF_INET : AF_INET6, copy, found.bytes + offset / 8) != 1)
        return bi_errmsg_set(error, "not a network such as 10.0.0.0/8 or fd00::/8");

    /* strtoul() alone would accept a sign and spaces. */
    const char *bits = slash == NULL ? "" : slash + 1;
    if (slash != NULL && (bits[0] == 0 || strlen(bits) > 3 || bits[strspn(bits, DIGITS)] != 0 ||
                          strtoul(bits, NULL, 10) > most))
        return bi_errmsg_set(error, "the prefix length must be 0 to %u", most);
    found.bits = offset + (slash == NULL ? most : (unsigned)strtoul(bits, NULL, 10));

    /* Suggest the network that was probably meant. */
    struct cidr whole = found;
    for (unsigned i = whole.bits; i < 8 * BI_ADDRESS_SIZE; i++)
        whole.bytes[i / 8] &= (unsigned char)~(0x80u >> i % 8);
    if (memcmp(whole.bytes, found.bytes, BI_ADDRESS_SIZE) != 0)
        return bi_errmsg_set(error, "host bits are set; did you mean %s?",
                             bi_address_format_cidr(&whole, suggestion));

    *cidr = found;
    return true;
}

bool bi_address_is_in_cidr(const unsigned char *bytes, const struct cidr *cidr)
{
    unsigned whole = cidr->bits / 8, rest = cidr->bits % 8;

    if (memcmp(bytes, cidr->bytes, whole) != 0)
        return false;

    /* With rest == 0 the byte at `whole` may be behind the end. */
    return rest == 0 || (unsigned char)(bytes[whole] ^ cidr->bytes[whole]) >> (8 - rest) == 0;
}

const char *bi_address_format_cidr(const struct cidr *cidr, char *text)
{
    bool ipv4 = cidr->bits >= IPV4_BITS && bi_address_is_ipv4(cidr->bytes);
    char address[INET6_ADDRSTRLEN] = "?";

    inet_ntop(ipv4 ? AF_INET : AF_INET6, cidr->bytes + (ipv4 ? sizeof(mapped) : 0), address,
              sizeof(address));
    snprintf(text, BI_CIDR_TEXT_SIZE, "%s/%u", address, cidr->bits - (ipv4 ? IPV4_BITS : 0));
    return text;
}

/* ---- addresses to listen on ---- */

bool bi_address_is_port(const char *text)
{
    size_t size = strlen(text);
    return size > 0 && size <= 5 && strspn(text, DIGITS) == size && atoi(text) <= 65535;
}

static bool set_path(struct listen_address *address, const char *path, char *error)
{
    size_t size = strlen(path);
    if (size == 0)
        return bi_errmsg_set(error, "no path after unix:");
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
    if (!bi_address_is_port(port))
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

bool bi_address_parse_listen(struct listen_address *address, const char *text, char *error)
{
    const char *host = text, *port = DEFAULT_PORT;
    const char *colon = strchr(text, ':'), *bracket = strchr(text, ']');
    size_t size = strlen(text);

    if (strncmp(text, "unix:", 5) == 0)
        return set_path(address, text + 5, error);

    if (text[0] == '[') {
        if (bracket == NULL || (bracket[1] != 0 && bracket[1] != ':'))
            return bi_errmsg_set(error, "expected [ADDRESS]:PORT");
        host = text + 1;
        size = (size_t)(bracket - host);
        port = bracket[1] == 0 ? DEFAULT_PORT : bracket + 2;
    } else if (size > 0 && strspn(text, DIGITS) == size) {
        /* Digits are a port, never a host; an invalid port is reported as such. */
        host = DEFAULT_HOST;
        size = strlen(host);
        port = text;
    } else if (colon != NULL && strchr(colon + 1, ':') == NULL) {
        /* With more than one colon it is an IPv6 address without a port. */
        size = (size_t)(colon - text);
        port = colon + 1;
    }

    return set_host(address, host, size, port, error);
}

bool bi_address_from_flags(struct listen_address *address, const char *host, const char *port,
                           char *error)
{
    if (host != NULL && strncmp(host, "unix:", 5) == 0)
        return set_path(address, host + 5, error);
    if (host == NULL)
        host = DEFAULT_HOST;
    return set_host(address, host, strlen(host), port != NULL ? port : DEFAULT_PORT, error);
}

/* ---- text ---- */

void bi_address_format(char *text, const struct sockaddr *address, size_t size)
{
    static const char prefix[] = "::ffff:";
    char buffer[NI_MAXHOST], port[NI_MAXSERV];
    const char *host = buffer;

    if (getnameinfo(address, (socklen_t)size, buffer, sizeof(buffer), port, sizeof(port),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0) {
        snprintf(text, BI_ADDRESS_TEXT_SIZE, "unknown address");
        return;
    }
    if (strncmp(host, prefix, sizeof(prefix) - 1) == 0)
        host += sizeof(prefix) - 1;
    snprintf(text, BI_ADDRESS_TEXT_SIZE, strchr(host, ':') != NULL ? "[%.60s]:%.8s" : "%.60s:%.8s",
             host, port);
}
