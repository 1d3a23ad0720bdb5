/* SPDX-License-Identifier: MIT */
#include "server/network.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <string.h>

#define IPV4_BITS 96 /* of the prefix of mapped addresses */

static const unsigned char mapped[12] = {[10] = 0xff, [11] = 0xff};

bool bi_network_address(const struct sockaddr *address, unsigned char *bytes)
{
    memset(bytes, 0, BI_ADDRESS_SIZE);
    if (address->sa_family == AF_INET) {
        const struct sockaddr_in *four = (const void *)address;
        memcpy(bytes, mapped, sizeof(mapped));
        memcpy(bytes + sizeof(mapped), &four->sin_addr, 4);
        return true;
    }
    if (address->sa_family != AF_INET6)
        return false;
    const struct sockaddr_in6 *six = (const void *)address;
    memcpy(bytes, &six->sin6_addr, BI_ADDRESS_SIZE);
    return true;
}

bool bi_network_is_ipv4(const unsigned char *bytes)
{
    return memcmp(bytes, mapped, sizeof(mapped)) == 0;
}

bool bi_network_is_loopback(const unsigned char *bytes)
{
    static const unsigned char loopback[BI_ADDRESS_SIZE] = {[15] = 1};
    if (bi_network_is_ipv4(bytes))
        return bytes[12] == 127;
    return memcmp(bytes, loopback, BI_ADDRESS_SIZE) == 0;
}

/* ---- networks ---- */

static bool parse_address(const char *text, struct network *network)
{
    memset(network->bytes, 0, BI_ADDRESS_SIZE);
    if (inet_pton(AF_INET6, text, network->bytes) == 1)
        return true;
    memcpy(network->bytes, mapped, sizeof(mapped));
    return inet_pton(AF_INET, text, network->bytes + sizeof(mapped)) == 1;
}

/* A number without a sign, up to a limit. */
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

static void cut(struct network *network)
{
    for (unsigned i = network->bits; i < 8 * BI_ADDRESS_SIZE; i++)
        network->bytes[i / 8] &= (unsigned char)~(0x80u >> i % 8);
}

bool bi_network_parse(struct network *network, const char *text, size_t size, char *error)
{
    char copy[BI_NETWORK_TEXT], right[BI_NETWORK_TEXT];
    struct network found;
    if (size >= sizeof(copy))
        return bi_refuse(error, "it is too long for a network");
    memcpy(copy, text, size);
    copy[size] = 0;
    char *slash = strchr(copy, '/');
    if (slash != NULL)
        *slash = 0;
    if (!parse_address(copy, &found))
        return bi_refuse(error, "it is no network as 10.0.0.0/8 or fd00::/8");

    unsigned offset = strchr(copy, ':') == NULL ? IPV4_BITS : 0;
    unsigned most = 8 * BI_ADDRESS_SIZE - offset;
    unsigned bits = most;
    if (slash != NULL && !parse_bits(slash + 1, most, &bits))
        return bi_refuse(error, "the number behind the slash is not from 0 to %u", most);
    found.bits = bits + offset;

    struct network whole = found;
    cut(&whole);
    if (memcmp(whole.bytes, found.bytes, BI_ADDRESS_SIZE) != 0)
        return bi_refuse(error, "it has bits behind the network; %s is one",
                         bi_network_show(&whole, right));
    *network = found;
    return true;
}

bool bi_network_has(const struct network *network, const unsigned char *bytes)
{
    unsigned whole = network->bits / 8, rest = network->bits % 8;
    if (memcmp(bytes, network->bytes, whole) != 0)
        return false;
    return rest == 0 || (unsigned char)(bytes[whole] ^ network->bytes[whole]) >> (8 - rest) == 0;
}

const char *bi_network_show(const struct network *network, char *text)
{
    bool ipv4 = network->bits >= IPV4_BITS && bi_network_is_ipv4(network->bytes);
    char address[INET6_ADDRSTRLEN] = "?";
    inet_ntop(ipv4 ? AF_INET : AF_INET6, network->bytes + (ipv4 ? sizeof(mapped) : 0), address,
              sizeof(address));
    snprintf(text, BI_NETWORK_TEXT, "%s/%u", address, network->bits - (ipv4 ? IPV4_BITS : 0));
    return text;
}
