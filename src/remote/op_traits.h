/* SPDX-License-Identifier: MIT */
/*
 * op_traits - how an op of a remote queue fails without a reply: its code, and an error text that
 * names the server.
 */
#ifndef BI_OP_TRAITS_H
#define BI_OP_TRAITS_H

#include "remote/remote_address.h"

#include <bide/op.h>

/* Sets the code and its general text, and no other result. */
void bi_op_traits_set_code(bide_op *op, int code);
/* Fails an op: code, error text (NULL: the code's own), and the finish of a finish_and_reserve. */
void bi_op_traits_fail(bide_op *op, int code, const char *error);
/* BIDE_EUNKNOWN: it was sent, and the reply is lost. BIDE_EIO: no connection. BIDE_EINVAL: the
 * server rejects this client. */
void bi_op_traits_fail_unknown(bide_op *op, const struct address *address);
void bi_op_traits_fail_unreachable(bide_op *op, const char *reason);
void bi_op_traits_fail_rejected(bide_op *op, const char *reason);
/* BIDE_TIMED_OUT: its timeout passed while there was no connection, for so many seconds. */
void bi_op_traits_fail_timed_out(bide_op *op, const struct address *address, int64_t seconds);
/* The reply cannot be decoded: it is malformed, or (code is BIDE_ENOMEM) there is no memory for it. */
void bi_op_traits_fail_decode(bide_op *op, int code, const struct address *address);

/* Sets the error text of an op that submit rejects. Returns the code. */
int bi_op_traits_reject(bide_op *op, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
