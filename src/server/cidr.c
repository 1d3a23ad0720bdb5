/* SPDX-License-Identifier: MIT */
#include "server/cidr.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define IPV4_BITS 96 /* length of the prefix of mapped addresses */

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

bool bi_cidr_from_sockaddr(const struct sockaddr *address, unsigned char *bytes)
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

bool bi_cidr_is_ipv4(const unsigned char *bytes)
{
    return memcmp(bytes, mapped, sizeof(mapped)) == 0;
}

bool bi_cidr_is_loopback(const unsigned char *bytes)
{
    static const unsigned char loopback[BI_ADDRESS_SIZE] = {[15] = 1};

    if (bi_cidr_is_ipv4(bytes))
        return bytes[12] == 127;
    return memcmp(bytes, loopback, BI_ADDRESS_SIZE) == 0;
}

/* ---- networks ---- */

static bool parse_address(const char *text, struct cidr *cidr)
{
    memset(cidr->bytes, 0, BI_ADDRESS_SIZE);
    if (inet_pton(AF_INET6, text, cidr->bytes) == 1)
        return true;
    memcpy(cidr->bytes, mapped, sizeof(mapped));
    return inet_pton(AF_INET, text, cidr->bytes + sizeof(mapped)) == 1;
}

/* strtoul() would accept a sign and spaces. */
static bool parse_bits(const char *text, unsigned max, unsigned *bits)
{
    size_t size = strlen(text);
    if (size == 0 || size > 3 || strspn(text, "0123456789") != size)
        return false;

    *bits = 0;
    for (size_t i = 0; i < size; i++)
        *bits = *bits * 10 + (unsigned)(text[i] - '0');
    return *bits <= max;
}

static void clear_host_bits(struct cidr *cidr)
{
    for (unsigned i = cidr->bits; i < 8 * BI_ADDRESS_SIZE; i++)
        cidr->bytes[i / 8] &= (unsigned char)~(0x80u >> i % 8);
}

bool bi_cidr_parse(struct cidr *cidr, const char *text, size_t size, char *error)
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
    if (!parse_address(copy, &found))
        return bi_errmsg_set(error, "not a network such as 10.0.0.0/8 or fd00::/8");

    /* The prefix of an IPv4 network is counted behind the mapped part. */
    unsigned offset = strchr(copy, ':') == NULL ? IPV4_BITS : 0;
    unsigned most = 8 * BI_ADDRESS_SIZE - offset;
    unsigned bits = most;
    if (slash != NULL && !parse_bits(slash + 1, most, &bits))
        return bi_errmsg_set(error, "the prefix length must be 0 to %u", most);
    found.bits = bits + offset;

    /* Suggest the network that was probably meant. */
    struct cidr whole = found;
    clear_host_bits(&whole);
    if (memcmp(whole.bytes, found.bytes, BI_ADDRESS_SIZE) != 0)
        return bi_errmsg_set(error, "host bits are set; did you mean %s?",
                             bi_cidr_format(&whole, suggestion));

    *cidr = found;
    return true;
}

bool bi_cidr_contains(const struct cidr *cidr, const unsigned char *bytes)
{
    unsigned whole = cidr->bits / 8, rest = cidr->bits % 8;

    if (memcmp(bytes, cidr->bytes, whole) != 0)
        return false;

    /* With rest == 0 the byte at `whole` may be behind the end. */
    return rest == 0 || (unsigned char)(bytes[whole] ^ cidr->bytes[whole]) >> (8 - rest) == 0;
}

const char *bi_cidr_format(const struct cidr *cidr, char *text)
{
    bool ipv4 = cidr->bits >= IPV4_BITS && bi_cidr_is_ipv4(cidr->bytes);
    char address[INET6_ADDRSTRLEN] = "?";

    inet_ntop(ipv4 ? AF_INET : AF_INET6, cidr->bytes + (ipv4 ? sizeof(mapped) : 0), address,
              sizeof(address));
    snprintf(text, BI_CIDR_TEXT_SIZE, "%s/%u", address, cidr->bits - (ipv4 ? IPV4_BITS : 0));
    return text;
}
