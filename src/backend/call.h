/* SPDX-License-Identifier: MIT */
/*
 * call - ops as bytes: the arguments and the results of every op, for the verb `call` of bided.
 *
 * The beanstalk backend writes arguments and reads results; the server reads arguments and writes
 * results. Both sides are made from one table of fields for each struct, so they cannot differ.
 * Numbers are LEB128 (signed ones zigzag); bytes are their length plus one and the bytes, 0 meaning
 * that there are none; lists are a count and the items. A struct within another, which is what items
 * and jobs are, is its length in four bytes, least first, and its fields. All in the order of the
 * tables (call_table.c). Fields that are missing at the end of a struct are zero, and bytes behind
 * the last known field are not looked at: a newer side may send more, and means nothing by a zero.
 *
 * What a result begins with is the error sentence, then what the op answers whatever its code (the
 * statuses of items, the count of a kick), then, if the code is good, the rest.
 *
 * Ownership  Slices of a decoded op point into the bytes that it was made of, which must stay until
 *            it has been submitted. What else it needs it owns, until bi_call_done().
 * Failure    Bytes that make no sense are BIDE_EINVAL; nothing is kept of them. No length in them is
 *            believed before it has been compared with what is there, and no count before it has
 *            been compared with what job.h allows.
 * Cost       put, delete and the like take no memory but the op; a reserve takes one block.
 */
#ifndef BI_CALL_H
#define BI_CALL_H

#include <bide/op.h>

/* Calls of one connection that have no answer and do not wait for something to happen. The server
 * does not read further ones until some have completed; the client keeps them back. */
#define BI_CALLS_MAX 10000

/* Bytes that grow. Zeroed is empty. */
struct call_bytes {
    unsigned char *data;
    size_t size, room;
};

void bi_call_bytes_free(struct call_bytes *bytes);

#define BI_CALL_ROOM 256

/* An op that came over the wire, with room for all that it answers. It must not move: it points
 * into itself. Only what decode says is set: it need not be zeroed. */
struct call_op {
    bide_op op;
    uint64_t feed;             /* subscribe, events, unsubscribe: the feed's number on the wire */
    bide_slice *topics;        /* private: of a decoded reserve, in that memory */
    size_t bytes;              /* what it has taken of the process's memory, besides itself */
    struct call_block *blocks; /* private: that memory */
    size_t used;               /* private: bytes of room in use */
    _Alignas(16) unsigned char room[BI_CALL_ROOM]; /* private: enough for most ops */
};

/* Can this kind be asked for over the wire? backup cannot: it writes files of the server. */
bool bi_call_travels(bide_op_kind kind);

/* How many topics a reserve looks at; 0 for other ops. */
size_t bi_call_topics(const bide_op *op);

/* May the op look at thousands of jobs or topics, and so take a millisecond, not some microseconds? */
bool bi_call_is_slow(const bide_op *op);

/* The kind of that name (bide_op_name()); BIDE_OP_NONE if there is none, or it does not travel. */
bide_op_kind bi_call_kind(const char *name, size_t size);

/*
 * Client: appends the arguments of an op that has been checked. feed: the feed's number, where the
 * op names one. Items of a list whose status is not 0 have been refused here already: they travel as
 * empty ones, which the other side refuses, too. BIDE_ENOMEM, and out is as it was.
 */
int bi_call_encode(const bide_op *op, uint64_t feed, struct call_bytes *out);

/* Server: makes an op of them, of which kind, arguments and room for the results are set and all else
 * is zero, but for the status, BIDE_CANCELLED; its arguments have not been checked. BIDE_EINVAL, BIDE_ENOMEM: error has a sentence, and
 * there is nothing to be given back. */
int bi_call_decode(struct call_op *call, bide_op_kind kind, const void *data, size_t size,
                   char *error);

/* Server: copies the names of a reserve's topics, so that the op can be submitted again when the bytes
 * that it was made of have gone. The op may be pending: of what the queue may change meanwhile
 * nothing is read or written. BIDE_ENOMEM, and the op is as it was. */
int bi_call_keep_topics(struct call_op *call);

/* Server: appends what a completed op answers. BIDE_ENOMEM, and out is as it was. */
int bi_call_encode_result(const struct call_op *call, struct call_bytes *out);

/* Server: the same for an op that there is not: the result is its sentence. */
int bi_call_encode_refusal(const char *error, struct call_bytes *out);

/*
 * Client: writes an answer into the op that asked, with its code (private_.status) and its sentence;
 * feed (may be NULL) is the feed's number from a subscribe. What a code leaves as it was is not
 * written to. BIDE_EINVAL, BIDE_ENOMEM: status and sentence are as they were; items may have
 * changed, jobs and buffers are cleared.
 */
int bi_call_decode_result(bide_op *op, int code, const void *data, size_t size, uint64_t *feed);

/* Frees what the decoded op owns, the jobs in it, too. Not while it is pending. */
void bi_call_done(struct call_op *call);

#endif
