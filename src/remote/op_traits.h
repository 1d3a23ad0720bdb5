/* SPDX-License-Identifier: MIT */
/*
 * op_traits - what a client must know of each kind of op, and how an op fails without a reply.
 *
 * The traits decide what happens when a connection is lost: whether the op can be resent, and how
 * long it may wait. The failure functions set the code and the error text, which names the server.
 */
#ifndef BI_OP_TRAITS_H
#define BI_OP_TRAITS_H

#include "remote/remote_address.h"

#include <bide/op.h>

/* True for queries and for reserve: if the first attempt reserved a job whose reply was lost,
 * the lease expires. A change that is sent twice could happen twice. */
bool bi_op_traits_is_repeatable(bide_op_kind kind);

/* True if the op reserves jobs, which is not allowed after shutdown. */
bool bi_op_traits_reserves(bide_op_kind kind);

/* True for an operator's op: drain, purge, pause, backup. *topic: the topic that it names, or
 * NULL. */
bool bi_op_traits_is_admin(const bide_op *op, const bide_slice **topic);

/* Returns the op's timeout_ms; NULL for a kind that never waits. */
int64_t *bi_op_traits_timeout(bide_op *op);

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
void bi_op_traits_fail_malformed(bide_op *op, const struct address *address);

/* Sets the error text of an op that submit rejects. Returns the code. */
int bi_op_traits_reject(bide_op *op, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
