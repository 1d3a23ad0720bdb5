/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_hello - what is said first on a connection: the secret, and a question that tells a
 * bided from a plain beanstalkd.
 *
 * bided knows the verb `call` and answers the op with its tag. A beanstalkd answers
 * UNKNOWN_COMMAND, once to the verb and once to the empty line where the arguments would be.
 */
#ifndef BI_BEANSTALK_HELLO_H
#define BI_BEANSTALK_HELLO_H

#include "backend/beanstalk_socket.h"

enum dialect { DIALECT_TAGGED, DIALECT_PLAIN };

/* Connects and says hello. BIDE_OK with *fd and *dialect; BIDE_EIO when nobody answers, BIDE_EINVAL
 * when the server refuses, with a sentence that names it. */
int bi_hello(const struct address *address, struct patience *patience, int *fd,
             enum dialect *dialect, char *error);

#endif
