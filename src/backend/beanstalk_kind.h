/* SPDX-License-Identifier: MIT */
/*
 * beanstalk_kind - what a client must know of each kind of op: may it be asked a second time when
 * the connection broke before the answer, how long may it wait, and how it ends without an answer.
 */
#ifndef BI_BEANSTALK_KIND_H
#define BI_BEANSTALK_KIND_H

#include "backend/beanstalk_address.h"

#include <bide/op.h>

/* Looks, and reserves: if the first asking took a job that nobody heard of, its lease runs out. A
 * write that is asked twice could happen twice. */
bool bi_kind_repeats(bide_op_kind kind);

/* Takes a job, which a queue that was shut down does not allow. */
bool bi_kind_takes(bide_op_kind kind);

/* Is it what an operator does: drain, purge, pause, backup? topic: the one that it names, or NULL. */
bool bi_kind_administers(const bide_op *op, const bide_slice **topic);

/* How long the op waits for what it wants, in the op; NULL for a kind that never waits. */
int64_t *bi_kind_timeout(bide_op *op);

/* Sets the code, with its general sentence, and nothing else. */
void bi_kind_say(bide_op *op, int code);
/* An op that gets no answer: its code and its sentence, its items, too. */
void bi_kind_fail(bide_op *op, int code, const char *error);
/* The ways in which a connection fails an op; the reason names the server. */
void bi_kind_lost(bide_op *op, const struct address *address);
void bi_kind_unreached(bide_op *op, const char *reason);
void bi_kind_refused(bide_op *op, const char *reason);
/* Nobody was there to let it wait, for so many seconds: its time is over all the same. */
void bi_kind_alone(bide_op *op, const struct address *address, int64_t seconds);
void bi_kind_garbled(bide_op *op, const struct address *address);

/* Refuses an op within submit. Answers the code. */
int bi_kind_refuse(bide_op *op, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

#endif
