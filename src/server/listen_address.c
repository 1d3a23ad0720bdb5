/* SPDX-License-Identifier: MIT */
/*
 * listen_address - parses the addresses to listen on, as configured or given by beanstalkd's flags.
 */
#include "server/listener.h"

#include <stdlib.h>
#include <string.h>

#define DEFAULT_HOST "127.0.0.1"
#define DEFAULT_PORT "11300"

bool bi_listen_address_is_port(const char *text)
{
    size_t size = strlen(text);
    return size > 0 && size <= 5 && strspn(text, "0123456789") == size && atoi(text) <= 65535;
}

static bool set_path(struct listen_address *address, const char *path, char *error)
{
    if (path[0] == 0)
        return bi_errmsg_set(error, "there is no path after unix:");
    size_t size = strlen(path);
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
    if (!bi_listen_address_is_port(port))
        return bi_errmsg_set(error, "\"%.60s\" is no port; 0 to 65535 is allowed", port);
    if (size == 0 || size >= sizeof(address->host))
        return bi_errmsg_set(error, "the name of the host is %s", size == 0 ? "empty" : "too long");

    /* An empty host stands for all addresses. */
    *address = (struct listen_address){.is_unix = false};
    if (size != 1 || host[0] != '*')
        memcpy(address->host, host, size);
    memcpy(address->port, port, strlen(port));
    return true;
}

/* "[::1]:11300", or without the port. */
static bool parse_brackets(struct listen_address *address, const char *text, char *error)
{
    const char *end = strchr(text, ']');
    if (end == NULL || (end[1] != 0 && end[1] != ':'))
        return bi_errmsg_set(error, "it is not [ADDRESS]:PORT");
    return set_host(address, text + 1, (size_t)(end - text - 1),
                    end[1] == 0 ? DEFAULT_PORT : end + 2, error);
}

bool bi_listen_address_parse(struct listen_address *address, const char *text, char *error)
{
    const char *colon = strchr(text, ':');

    if (strncmp(text, "unix:", 5) == 0)
        return set_path(address, text + 5, error);
    if (text[0] == '[')
        return parse_brackets(address, text, error);

    /* Digits are a port, never a host; an invalid port is reported as such. */
    if (text[0] != 0 && text[strspn(text, "0123456789")] == 0)
        return set_host(address, DEFAULT_HOST, strlen(DEFAULT_HOST), text, error);

    /* More than one colon: an IPv6 address without brackets has no port. */
    if (colon == NULL || strchr(colon + 1, ':') != NULL)
        return set_host(address, text, strlen(text), DEFAULT_PORT, error);

    return set_host(address, text, (size_t)(colon - text), colon + 1, error);
}

bool bi_listen_address_from_flags(struct listen_address *address, const char *host,
                                  const char *port, char *error)
{
    if (host != NULL && strncmp(host, "unix:", 5) == 0)
        return set_path(address, host + 5, error);
    if (host == NULL)
        host = DEFAULT_HOST;
    return set_host(address, host, strlen(host), port != NULL ? port : DEFAULT_PORT, error);
}
