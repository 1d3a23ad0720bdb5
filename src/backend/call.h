/* SPDX-License-Identifier: MIT */
/*
 * call - ops as bytes: the arguments and the results of every op, for the verb `call` of bided.
 *
 * The beanstalk backend writes arguments and reads results; the server reads arguments and writes
 * results. Both sides are made from one table of fields for each struct, so they cannot differ.
 * Numbers are LEB128 (signed ones zigzag), bytes are a length and the bytes, lists a count and the
 * items, all in the order of the table. Fields that are missing at the end are zero, and bytes
 * behind the last known field are not looked at: a newer side may send more.
 *
 * What a result begins with is the error sentence, then what the op answers.
 *
 * Ownership  A decoded op owns what its arguments point to, until bi_call_done().
 * Failure    Bytes that make no sense are BIDE_EINVAL, with a sentence; nothing is kept of them. No
 *            length in them is believed before it has been compared with what is there.
 */
#ifndef BI_CALL_H
#define BI_CALL_H

#include <bide/op.h>

/* Bytes that grow. Zeroed is empty. */
struct call_bytes {
    unsigned char *data;
    size_t size, room;
};

void bi_call_bytes_free(struct call_bytes *bytes);

/* An op that came over the wire, with room for all that it answers. */
struct call_op {
    bide_op op;
    uint64_t feed;    /* subscribe, events, unsubscribe: the feed's number on the wire */
    void *arguments;  /* private: what the arguments point to */
    void *results;    /* private: jobs, items, stats, events that the op fills */
};

/* Can this kind be asked for over the wire? backup cannot: it writes files of the server. */
bool bi_call_travels(bide_op_kind kind);

/* The kind of that name (bide_op_name()); BIDE_OP_NONE if there is none, or it does not travel. */
bide_op_kind bi_call_kind(const char *name, size_t size);

/* Client: appends the arguments of an op. feed: the feed's number, where the op names one. */
int bi_call_encode(const bide_op *op, uint64_t feed, struct call_bytes *out);

/* Server: makes an op of them. */
int bi_call_decode(struct call_op *call, bide_op_kind kind, const void *data, size_t size,
                   char *error);

/* Server: appends what a completed op answers. */
int bi_call_encode_result(const struct call_op *call, struct call_bytes *out);

/* Client: writes an answer into the op that asked, with its code and its sentence; feed (may be
 * NULL) is the feed's number from a subscribe. The op's private_.status is set to the code. */
int bi_call_decode_result(bide_op *op, int code, const void *data, size_t size, uint64_t *feed);

/* Frees what the decoded op owns, the jobs in it, too. */
void bi_call_done(struct call_op *call);

#endif
