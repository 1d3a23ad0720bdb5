/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_backend - the backend of "beanstalk://": a queue on a server.
 *
 * The server is a bided, which executes every op (bided_client.h), or a plain beanstalkd, which
 * supports some of them (beanstalkd_client.h). remote_address.h describes the URL. The handshake of
 * a connection authenticates the client, and detects which server it is.
 *
 * The client sends the secret, if it has one, and a `call` of ping. A bided replies to the op, with
 * its tag. A beanstalkd replies UNKNOWN_COMMAND twice: to the verb, and to the empty line in the
 * place of the arguments.
 */
#ifndef BI_BEANSTALK_BACKEND_H
#define BI_BEANSTALK_BACKEND_H

#include "remote/remote_socket.h"

enum server_kind { SERVER_BIDED, SERVER_BEANSTALKD };

/* Connects within io_wait. On BIDE_OK, *fd and *server_kind are set. BIDE_EIO: no reply, or not
 * this protocol. BIDE_EBUSY: the server has no room. BIDE_EINVAL: the server rejects this
 * client, which retrying does not cure. On failure error has the text, and nothing stays open. */
int bi_beanstalk_backend_connect(const struct address *address, struct io_wait *io_wait, int *fd,
                                 enum server_kind *server_kind, char *error);

#endif
