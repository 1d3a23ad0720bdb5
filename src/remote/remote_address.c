/* SPDX-License-Identifier: MIT */
#include "remote/remote_address.h"

#include "util/conffile.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_US INT64_C(5000000)
#define ANSWER_TIMEOUT_US  INT64_C(15000000)
#define RECONNECT_MIN_US   INT64_C(50000)
#define RECONNECT_MAX_US   INT64_C(5000000)
#define DURATION_MAX_MS    86400000
#define SECRET_TIMEOUT_MS  30000 /* for a secret_file that is a pipe */

const char *const bi_remote_address_params[] = {
    "secret",         "secret_file",   "peer",          "connect_timeout",
    "answer_timeout", "reconnect_min", "reconnect_max", NULL};

static int reject(char *error, const char *what, const char *text)
{
    return bi_error_set(error, BIDE_EINVAL, "open: %s \"%.60s\"", what, text);
}

/* ---- parameters ---- */

/* Parses digits and a unit. From 1 ms to 1 d; *us is in microseconds. */
static bool parse_duration(const char *text, int64_t *us)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    int64_t number = 0;
    const char *at = text;

    for (; *at >= '0' && *at <= '9' && number <= DURATION_MAX_MS; at++)
        number = number * 10 + (*at - '0');

    for (size_t i = 0; at > text && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(units[i].name, at) != 0)
            continue;
        if (number < 1 || number > DURATION_MAX_MS / units[i].ms)
            return false;
        *us = number * units[i].ms * 1000;
        return true;
    }
    return false;
}

static int set_secret(struct address *address, const char *text, char *error)
{
    size_t size = strlen(text);
    bool good = size > 0 && size <= BI_SECRET_MAX;

    /* The secret is sent as one word of a line: no spaces, no control characters. */
    for (size_t i = 0; good && i < size; i++)
        good = text[i] > 32 && text[i] < 127;

    if (!good)
        return bi_error_set(error, BIDE_EINVAL,
                            "open: a secret has 1 to %d letters, digits and signs, and no spaces",
                            BI_SECRET_MAX);

    memcpy(address->secret, text, size + 1);
    return BIDE_OK;
}

/* Reads the secret from the first line of a file, without its newline. */
static int read_secret(struct address *address, const char *path, char *error)
{
    char line[BI_SECRET_MAX + 8] = "";
    FILE *file = bi_conffile_open(path, SECRET_TIMEOUT_MS, NULL);
    ssize_t line_size = file == NULL ? -1 : bi_conffile_read_line(file, line, sizeof(line));
    int number = file == NULL || ferror(file) ? errno : 0;

    if (file != NULL)
        fclose(file);
    if (line_size < 0 && number != 0)
        return bi_error_set(error, BIDE_EINVAL, "open: cannot read the secret_file %.100s: %s",
                            path, bi_conffile_strerror(number));
    /* A NUL byte would silently cut the secret off. */
    bool has_no_nul = strlen(line) == (size_t)(line_size < 0 ? 0 : line_size);
    int code = has_no_nul ? set_secret(address, line, error) : BIDE_EINVAL;
    /* A wrong file may hold something else that is private: neither the stack nor the error
     * text retains its content. */
    explicit_bzero(line, sizeof(line));
    if (code == BIDE_OK)
        return code;
    return bi_error_set(
        error, code,
        "open: the first line of the secret_file %.100s is no secret: 1 to %d letters, "
        "digits and signs",
        path, BI_SECRET_MAX);
}

static int set_parameter(struct address *address, const struct bi_url_param *param, char *error)
{
    const struct {
        const char *name;
        int64_t *value;
    } durations[] = {
        {"connect_timeout", &address->connect_timeout},
        {"answer_timeout", &address->answer_timeout},
        {"reconnect_min", &address->reconnect_min},
        {"reconnect_max", &address->reconnect_max},
    };
    /* Other names are options of the queue; it has rejected unknown ones. */
    if (strcmp(param->name, "secret") == 0)
        return set_secret(address, param->value, error);
    if (strcmp(param->name, "secret_file") == 0)
        return read_secret(address, param->value, error);
    if (strcmp(param->name, "peer") == 0) {
        address->trusted = strcmp(param->value, "trusted") == 0;
        return address->trusted || strcmp(param->value, "any") == 0
                   ? BIDE_OK
                   : reject(error, "peer is \"any\" or \"trusted\", and not", param->value);
    }

    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        if (strcmp(durations[i].name, param->name) != 0)
            continue;
        if (!parse_duration(param->value, durations[i].value))
            return bi_error_set(error, BIDE_EINVAL, "open: %s is \"%.40s\"; it takes 1ms to 1d",
                                param->name, param->value);
    }
    return BIDE_OK;
}

/* ---- host, port, path ---- */

static int set_host(struct address *address, const char *host, size_t size, const char *port,
                    char *error)
{
    bool digits = port[0] != 0 && strspn(port, "0123456789") == strlen(port) && strlen(port) <= 5;
    long number = digits ? strtol(port, NULL, 10) : 0;

    if (number < 1 || number > 65535)
        return reject(error, "a port is 1 to 65535, and not", port);
    if (size == 0 || size >= sizeof(address->host))
        return reject(error, "there is no host in", host);

    memcpy(address->host, host, size);
    address->host[size] = 0;
    snprintf(address->port, sizeof(address->port), "%ld", number);

    bool is_ipv6 = strchr(address->host, ':') != NULL;
    /* "%25" is the "%" of a zone (fe80::1%25eth0), as a URL must write it. */
    char *zone = is_ipv6 ? strstr(address->host, "%25") : NULL;
    if (zone != NULL)
        memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);

    snprintf(address->name, sizeof(address->name), is_ipv6 ? "[%.100s]:%s" : "%.100s:%s",
             address->host, address->port);
    return BIDE_OK;
}

static int set_host_and_port(struct address *address, const char *text, const char *default_port,
                             char *error)
{
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (end == NULL || (end[1] != 0 && end[1] != ':'))
            return reject(error, "an IPv6 address must be in brackets, not", text);
        return set_host(address, text + 1, (size_t)(end - text - 1),
                        end[1] == ':' ? end + 2 : default_port, error);
    }
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return set_host(address, text, strlen(text), default_port, error);
    if (strchr(colon + 1, ':') != NULL)
        return reject(error, "an IPv6 address must be in brackets, not", text);
    return set_host(address, text, (size_t)(colon - text), colon + 1, error);
}

/* Parses the part between "//" and the parameters. */
static int set_location(struct address *address, char *location, const char *default_port,
                        char *error)
{
    const char *end = bi_url_secret_end(location, strlen(location));
    char *rest = location;

    if (end != NULL) {
        rest += end - location;
        *rest++ = 0;
        const char *secret = location[0] == ':' ? location + 1 : location;
        if (!bi_url_decode(location) || set_secret(address, secret, error) != BIDE_OK)
            /* The error of an empty secret: bi_url_decode() sets none, and it shows no secret. */
            return set_secret(address, "", error);
    }

    if (strncmp(rest, "unix:", 5) == 0)
        rest += 5;
    else if (rest[0] != '/') {
        size_t size = strlen(rest);
        if (size > 0 && rest[size - 1] == '/')
            rest[size - 1] = 0;
        return set_host_and_port(address, rest, default_port, error);
    }
    if (!bi_url_decode(rest) || rest[0] != '/')
        return reject(error, "the path of a unix socket must be absolute, not", rest);
    if (strlen(rest) >= sizeof(address->path))
        return reject(error, "the path of a unix socket has at most 107 bytes, not", rest);

    snprintf(address->path, sizeof(address->path), "%s", rest);
    snprintf(address->name, sizeof(address->name), "%s", rest);
    return BIDE_OK;
}

int64_t bi_remote_address_backoff(const struct address *address, unsigned attempts,
                                  struct bi_random *random)
{
    int64_t least = address->reconnect_min;
    int64_t top = address->reconnect_max / 3 * 2; /* plus half of it at random: reconnect_max */

    /* Stop doubling at the top: attempts is unbounded, and least would overflow. */
    for (unsigned i = 1; i < attempts && least < top; i++)
        least *= 2;
    if (least > top)
        least = top > address->reconnect_min ? top : address->reconnect_min;

    int64_t most = least + least / 2;
    if (most > address->reconnect_max)
        most = address->reconnect_max;
    return least + (int64_t)bi_random_below(random, (uint64_t)(most - least) + 1);
}

int bi_remote_address_parse(struct address *address, const struct bi_url *url,
                            const char *default_port, char *error)
{
    char location[BI_URL_MAX];

    *address = (struct address){.connect_timeout = CONNECT_TIMEOUT_US,
                                .answer_timeout = ANSWER_TIMEOUT_US,
                                .reconnect_min = RECONNECT_MIN_US,
                                .reconnect_max = RECONNECT_MAX_US};

    if (strncmp(url->location, "//", 2) != 0) {
        /* What stands before an @ may be a secret. */
        const char *at = strrchr(url->location, '@');
        return bi_error_set(error, BIDE_EINVAL,
                            "open: the address of a server must be like %s://host:%s or "
                            "%s:///run/bide/bided.sock, not \"%.60s\"",
                            url->scheme, default_port, url->scheme,
                            at == NULL ? url->location : at);
    }

    snprintf(location, sizeof(location), "%s", url->location + 2);
    int code = set_location(address, location, default_port, error);
    for (size_t i = 0; code == BIDE_OK && i < url->param_count; i++)
        code = set_parameter(address, &url->params[i], error);

    /* After all parameters: each of the two may be set without the other. */
    if (code == BIDE_OK && address->reconnect_max < address->reconnect_min)
        return reject(error, "reconnect_max is less than reconnect_min for", address->name);
    return code;
}
