/* SPDX-License-Identifier: MIT */
/*
 * beanstalk - the backend of "beanstalk://": a queue that somebody else's server keeps.
 *
 * The server is a bided, which takes every op as it is (beanstalk_tagged.h), or a plain beanstalkd,
 * which knows some of them (beanstalk_plain.h). Which of them it is, is asked when it is opened.
 * beanstalk_address.h says what a URL may contain.
 */
#include "backend/backend.h"
#include "backend/beanstalk_hello.h"
#include "backend/beanstalk_plain.h"
#include "backend/beanstalk_tagged.h"
#include "util/clock.h"

#include <stdio.h>

static int open_beanstalk(const struct backend_context *context, const struct bi_url *url,
                          struct backend **out, char *error)
{
    struct address address;
    int code = bi_client_address_parse(&address, url, error);
    if (code != BIDE_OK)
        return code;
    enum dialect dialect;
    int fd;
    char why[BIDE_ERROR_SIZE];
    struct patience patience = {.deadline = bi_clock_boot() + address.connect_timeout, .stop = -1};
    code = bi_hello(&address, &patience, &fd, &dialect, why);
    if (code != BIDE_OK) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.190s", why);
        return code;
    }
    if (dialect == DIALECT_TAGGED)
        return bi_tagged_open(context, &address, fd, out, error);
    return bi_plain_open(context, &address, fd, out, error);
}

const struct backend_ops bi_backend_beanstalk = {
    .scheme = "beanstalk",
    .parameters = bi_client_address_parameters,
    .served = true,
    .open = open_beanstalk,
};
