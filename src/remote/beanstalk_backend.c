/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_backend - the backend of "beanstalk://": a queue on a server.
 *
 * The server is a bided, which executes every op (bided_client.h), or a plain beanstalkd, which
 * supports some of them (beanstalkd_client.h). The handshake of open() detects which.
 * remote_address.h describes the URL.
 */
#include "backend/backend.h"
#include "remote/beanstalk_handshake.h"
#include "remote/beanstalkd/beanstalkd_client.h"
#include "remote/bided/bided_client.h"
#include "util/clock.h"

#include <stdio.h>

static int open_backend(const struct backend_context *context, const struct bi_url *url,
                        struct backend **out, char *error)
{
    struct address address;
    int code = bi_remote_address_parse(&address, url, "11300", error);

    if (code != BIDE_OK)
        return code;

    enum server_kind server_kind;
    int fd;
    char reason[BIDE_ERROR_SIZE];
    /* open() blocks for at most connect_timeout: there is no queue yet that could be closed. */
    struct io_wait io_wait = {.deadline = bi_clock_boot() + address.connect_timeout, .stop_fd = -1};
    code = bi_beanstalk_handshake_connect(&address, &io_wait, &fd, &server_kind, reason);
    if (code != BIDE_OK) {
        snprintf(error, BIDE_ERROR_SIZE, "open: %.190s", reason);
        return code;
    }

    /* The client takes fd, on failure too. */
    if (server_kind == SERVER_BIDED)
        return bi_bided_client_open(context, &address, fd, out, error);
    return bi_beanstalkd_client_open(context, &address, fd, out, error);
}

const struct backend_ops bi_backend_beanstalk = {
    .scheme = "beanstalk",
    .parameters = bi_remote_address_params,
    .remote = true,
    .open = open_backend,
};
