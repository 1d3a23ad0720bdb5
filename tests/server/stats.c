/* SPDX-License-Identifier: MIT */
/* stats.c - what clients read from the reply of stats. */
#include "bided_suite.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* The reply of stats, without its first line. */
static const char *reply_of(int port)
{
    static char reply[8192];
    size_t size = 0, head = 0, body = 0;
    int fd = connect_tcp(port);
    CHECK(write(fd, "stats\r\n", 7) == 7);
    while (body == 0 || size < head + body + 2) {
        ssize_t got = read(fd, reply + size, sizeof reply - 1 - size);
        CHECK(got > 0);
        size += (size_t)got;
        reply[size] = 0;
        const char *end = strstr(reply, "\r\n");
        if (end != NULL && sscanf(reply, "OK %zu\r\n", &body) == 1)
            head = (size_t)(end + 2 - reply);
    }
    close(fd);
    reply[head + body] = 0;
    return reply + head;
}

/* The text of a key, without its quotes. */
static const char *text_of(const char *stats, const char *key)
{
    static char value[200];
    char start_of[100];
    snprintf(start_of, sizeof start_of, "\n%s: \"", key);
    const char *line = strstr(stats, start_of);
    CHECK(line != NULL);
    line += strlen(start_of);
    snprintf(value, sizeof value, "%.*s", (int)strcspn(line, "\""), line);
    CHECK(strncmp(line + strlen(value), "\"\n", 2) == 0);
    return value;
}

/*
 * Beanstalk::Client of Perl compares version->parse("v" . version) with v1.8, which dies of
 * anything but digits and points. Clients of Node.js make a number of it, which would be NaN.
 */
static void version_is_comparable_by_clients(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    const char *stats = reply_of(port_of(bided, "127.0.0.1"));
    const char *version = text_of(stats, "version");
    TEXT(version, strlen(version), "1.13");
    CHECK(strspn(version, "0123456789.") == strlen(version));
    char *end;
    CHECK(strtod(version, &end) >= 1.1 && *end == 0);
    if (access("/usr/bin/perl", X_OK) == 0) {
        char command[300];
        snprintf(command, sizeof command,
                 "/usr/bin/perl -Mversion -e 'exit(version->parse(\"v\" . shift)->numify >= "
                 "version->parse(\"v1.8\")->numify ? 0 : 1)' '%s'",
                 version);
        int status = system(command);
        CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    }
    stop(bided);
}

static void version_of_bide_has_its_own_key_at_the_end(void)
{
    struct bided *bided = serve("--url=memory:", "--listen=0");
    const char *stats = reply_of(port_of(bided, "127.0.0.1"));
    const char *version = text_of(stats, "bide-version");
    TEXT(version, strlen(version), BIDE_VERSION);
    const char *line = strstr(stats, "\nbide-version: ");
    CHECK(strchr(line + 1, '\n')[1] == 0);
    stop(bided);
}

static const struct test tests[] = {
    TEST(version_is_comparable_by_clients),
    TEST(version_of_bide_has_its_own_key_at_the_end),
};

const struct theme stats_theme = {"stats", tests, COUNT(tests)};
