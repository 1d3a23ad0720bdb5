/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_address.h"

#include "util/settings.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define CONNECT_TIMEOUT_US INT64_C(5000000)
#define ANSWER_TIMEOUT_US  INT64_C(15000000)
#define RECONNECT_MIN_US   INT64_C(50000)
#define RECONNECT_MAX_US   INT64_C(5000000)
#define PATIENCE_MAX_MS    86400000
#define SECRET_MS          30000 /* that a secret_file which is a pipe is waited for */

const char *const bi_client_address_parameters[] = {
    "secret",         "secret_file",   "peer",          "connect_timeout",
    "answer_timeout", "reconnect_min", "reconnect_max", NULL};

static int invalid(char *error, const char *what, const char *text)
{
    snprintf(error, BIDE_ERROR_SIZE, "open: %s \"%.60s\"", what, text);
    return BIDE_EINVAL;
}

/* ---- parameters ---- */

/* Digits and a unit, in microseconds; at least a millisecond, at most a day. */
static bool parse_duration(const char *text, int64_t *us)
{
    static const struct {
        const char *name;
        int64_t ms;
    } units[] = {{"", 1}, {"ms", 1}, {"s", 1000}, {"m", 60000}, {"h", 3600000}, {"d", 86400000}};
    int64_t number = 0;
    const char *at = text;
    for (; *at >= '0' && *at <= '9' && number <= PATIENCE_MAX_MS; at++)
        number = number * 10 + (*at - '0');
    for (size_t i = 0; at > text && i < sizeof(units) / sizeof(units[0]); i++) {
        if (strcmp(units[i].name, at) != 0)
            continue;
        *us = number * units[i].ms * 1000;
        return number >= 1 && number * units[i].ms <= PATIENCE_MAX_MS;
    }
    return false;
}

static int set_secret(struct address *address, const char *text, char *error)
{
    size_t size = strlen(text);
    bool good = size > 0 && size <= BI_SECRET_MAX;
    for (size_t i = 0; good && i < size; i++)
        good = text[i] > 32 && text[i] < 127;
    if (!good) {
        snprintf(error, BIDE_ERROR_SIZE,
                 "open: a secret has 1 to %d letters, digits and signs, and no spaces",
                 BI_SECRET_MAX);
        return BIDE_EINVAL;
    }
    memcpy(address->secret, text, size + 1);
    return BIDE_OK;
}

/* The first line of a file; a newline at its end is not part of it. */
static int read_secret(struct address *address, const char *path, char *error)
{
    char line[BI_SECRET_MAX + 8] = "";
    FILE *file = bi_settings_open(path, SECRET_MS, NULL);
    ssize_t got = file == NULL ? -1 : bi_settings_line(file, line, sizeof(line));
    int number = file == NULL || ferror(file) ? errno : 0;

    if (file != NULL)
        fclose(file);
    if (got < 0 && number != 0) {
        snprintf(error, BIDE_ERROR_SIZE, "open: cannot read the secret_file %.100s: %s", path,
                 bi_settings_why(number));
        return BIDE_EINVAL;
    }
    bool whole = strlen(line) == (size_t)(got < 0 ? 0 : got); /* without a NUL byte */
    int code = whole ? set_secret(address, line, error) : BIDE_EINVAL;
    explicit_bzero(line, sizeof(line));
    if (code != BIDE_OK)
        snprintf(error, BIDE_ERROR_SIZE,
                 "open: the first line of the secret_file %.100s is no secret: 1 to %d letters, "
                 "digits and signs",
                 path, BI_SECRET_MAX);
    return code;
}

static int set_peer(struct address *address, const char *text, char *error)
{
    if (strcmp(text, "trusted") != 0 && strcmp(text, "any") != 0)
        return invalid(error, "peer is \"any\" or \"trusted\", and not", text);
    address->trusted = strcmp(text, "trusted") == 0;
    return BIDE_OK;
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
    if (strcmp(param->name, "secret") == 0)
        return set_secret(address, param->value, error);
    if (strcmp(param->name, "secret_file") == 0)
        return read_secret(address, param->value, error);
    if (strcmp(param->name, "peer") == 0)
        return set_peer(address, param->value, error);
    for (size_t i = 0; i < sizeof(durations) / sizeof(durations[0]); i++) {
        if (strcmp(durations[i].name, param->name) != 0)
            continue;
        if (!parse_duration(param->value, durations[i].value)) {
            snprintf(error, BIDE_ERROR_SIZE, "open: %s is \"%.40s\"; it takes 1ms to 1d",
                     param->name, param->value);
            return BIDE_EINVAL;
        }
    }
    return BIDE_OK;
}

/* ---- host, port, path ---- */

static int set_path(struct address *address, const char *path, char *error)
{
    if (strlen(path) >= sizeof(address->path))
        return invalid(error, "a path of a unix socket has at most 107 bytes, unlike", path);
    snprintf(address->path, sizeof(address->path), "%s", path);
    snprintf(address->name, sizeof(address->name), "%s", path);
    return BIDE_OK;
}

static int set_host(struct address *address, const char *host, size_t size, const char *port,
                    char *error)
{
    bool digits = port[0] != 0 && strspn(port, "0123456789") == strlen(port) && strlen(port) <= 5;
    long number = digits ? strtol(port, NULL, 10) : 0;
    if (number < 1 || number > 65535)
        return invalid(error, "a port is 1 to 65535, and not", port);
    if (size == 0 || size >= sizeof(address->host))
        return invalid(error, "there is no host in", host);
    memcpy(address->host, host, size);
    address->host[size] = 0;
    snprintf(address->port, sizeof(address->port), "%ld", number);
    bool six = strchr(address->host, ':') != NULL;
    char *zone = six ? strstr(address->host, "%25") : NULL; /* "%", as it is written in URLs */
    if (zone != NULL)
        memmove(zone + 1, zone + 3, strlen(zone + 3) + 1);
    snprintf(address->name, sizeof(address->name), six ? "[%.100s]:%s" : "%.100s:%s", address->host,
             address->port);
    return BIDE_OK;
}

static int set_host_and_port(struct address *address, const char *text, char *error)
{
    if (text[0] == '[') {
        const char *end = strchr(text, ']');
        if (end == NULL || (end[1] != 0 && end[1] != ':'))
            return invalid(error, "an IPv6 address stands in brackets, unlike", text);
        return set_host(address, text + 1, (size_t)(end - text - 1),
                        end[1] == ':' ? end + 2 : "11300", error);
    }
    const char *colon = strchr(text, ':');
    if (colon == NULL)
        return set_host(address, text, strlen(text), "11300", error);
    if (strchr(colon + 1, ':') != NULL)
        return invalid(error, "an IPv6 address stands in brackets, unlike", text);
    return set_host(address, text, (size_t)(colon - text), colon + 1, error);
}

/* What stands between "//" and the parameters. */
static int set_location(struct address *address, char *location, char *error)
{
    char *at = strrchr(location, '@');
    char *rest = location;
    if (at != NULL && location[0] != '/') {
        *at = 0;
        rest = at + 1;
        const char *secret = location[0] == ':' ? location + 1 : location;
        if (!bi_url_decode(location) || set_secret(address, secret, error) != BIDE_OK)
            return set_secret(address, "", error);
    }
    if (strncmp(rest, "unix:", 5) == 0)
        rest += 5;
    else if (rest[0] != '/') {
        size_t size = strlen(rest);
        if (size > 0 && rest[size - 1] == '/')
            rest[size - 1] = 0;
        return set_host_and_port(address, rest, error);
    }
    if (!bi_url_decode(rest) || rest[0] != '/')
        return invalid(error, "a unix socket is named by its whole path, unlike", rest);
    return set_path(address, rest, error);
}

int bi_client_address_parse(struct address *address, const struct bi_url *url, char *error)
{
    char location[BI_URL_MAX];
    *address = (struct address){.connect_timeout = CONNECT_TIMEOUT_US,
                                .answer_timeout = ANSWER_TIMEOUT_US,
                                .reconnect_min = RECONNECT_MIN_US,
                                .reconnect_max = RECONNECT_MAX_US};
    if (strncmp(url->location, "//", 2) != 0)
        return invalid(error,
                       "a server is named as in beanstalk://host:11300 or "
                       "beanstalk:///run/bide.sock, unlike",
                       url->location);
    snprintf(location, sizeof(location), "%s", url->location + 2);
    int code = set_location(address, location, error);
    for (size_t i = 0; code == BIDE_OK && i < url->param_count; i++)
        code = set_parameter(address, &url->params[i], error);
    if (code == BIDE_OK && address->reconnect_max < address->reconnect_min)
        return invalid(error, "reconnect_max is less than reconnect_min for", address->name);
    return code;
}
