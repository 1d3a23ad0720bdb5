/* SPDX-License-Identifier: MIT */
/*
 * op_codec - the byte encoding of ops: arguments and results, for the verb `call` of bided.
 *
 * The client encodes arguments and decodes results; the server does the reverse. Both use the same
 * table of fields for each struct (op_table.c), so they cannot differ.
 *
 * Format     Numbers are LEB128, signed ones zigzag. Bytes are their length plus one, then the
 *            bytes; 0 stands for NULL. A list is a count and the items. A struct within another
 *            (an item, a job) is its length in four bytes, little-endian, then its fields. A result
 *            begins with the error text, then the fields that are set whatever the code (statuses
 *            of items, the count of a kick), then, on success, the rest.
 * Versions   Fields are in the order of the tables. Fields that are missing at the end of a struct
 *            are zero, and bytes behind the last known field are ignored. So a newer side may send
 *            more fields, and a zero in them must mean what their absence means.
 * Ownership  Slices of a decoded op point into the bytes that were decoded, which must stay valid
 *            until the op has been submitted. Everything else belongs to the decoded op until
 *            bi_op_codec_free_op().
 * Failure    Malformed bytes give BIDE_EINVAL, and nothing is retained. Every length is compared
 *            with the bytes that are left, and every count with the limits of job.h, before use.
 * Cost       put, delete and the like allocate nothing besides the op; a reserve one block.
 */
#ifndef BI_OP_CODEC_H
#define BI_OP_CODEC_H

#include "op/op_table.h"

/* The limit of calls in flight on one connection, without those that wait for an event. The server
 * stops reading until some have completed; the client queues further ones. */
#define BI_RPC_IN_FLIGHT_MAX 10000

/* A growing byte buffer. Zeroed is empty. */
struct op_bytes {
    unsigned char *data;
    size_t size, room;
};

void bi_op_codec_wire_free_bytes(struct op_bytes *bytes);

#define BI_DECODED_OP_ROOM 256

/* A decoded op, with room for all its results. It must not be moved, because it points into itself.
 * It need not be zeroed before decode. */
struct decoded_op {
    bide_op op;
    uint64_t feed;               /* subscribe, events, unsubscribe: the number of the feed */
    bide_slice *topics;          /* private: of a decoded reserve, in blocks or room */
    size_t bytes;                /* what it has allocated, besides itself */
    struct decode_block *blocks; /* private: the allocated memory */
    size_t used;                 /* private: bytes of room in use */
    _Alignas(16) unsigned char room[BI_DECODED_OP_ROOM]; /* private: enough for most ops */
};

/* The kind with that name (bide_op_name()); BIDE_OP_NONE if there is none. */
bide_op_kind bi_op_codec_find_kind(const char *name, size_t size);

/*
 * Client: appends the arguments of an op that has been checked. feed is the number of the feed, if
 * the op names one. Items of a list whose status is not 0 have been rejected locally. They are sent
 * as empty structs, which the server rejects, too. BIDE_OK, or BIDE_ENOMEM and out is unchanged.
 */
int bi_op_codec_encode(const bide_op *op, uint64_t feed, struct op_bytes *out);

/*
 * Server: decodes the arguments of an op. The kind, the arguments and room for the results are set,
 * the status is BIDE_CANCELLED, and all else is zero. The arguments have not been checked.
 * BIDE_EINVAL, BIDE_ENOMEM: error is written, and there is nothing to free.
 */
int bi_op_codec_decode(struct decoded_op *decoded, bide_op_kind kind, const void *data, size_t size,
                       char *error);

/* Server: copies the topic names of a reserve, so that the op can be submitted again after the
 * bytes that it was decoded from are freed. The op may be pending: members that the queue may
 * change are not accessed. BIDE_OK, or BIDE_ENOMEM and the op is unchanged. */
int bi_op_codec_dup_topics(struct decoded_op *decoded);

/* Server: appends the results of a completed op. BIDE_OK, or BIDE_ENOMEM and out is unchanged. */
int bi_op_codec_encode_result(const struct decoded_op *decoded, struct op_bytes *out);

/* Server: the same for a call that could not be decoded: the result is the error text alone. */
int bi_op_codec_encode_error(const char *error, struct op_bytes *out);

/*
 * Client: decodes a reply into the op, with its code (private_.status) and its error text. *feed
 * (may be NULL) is the number of the feed from a subscribe. Results that the code does not set are
 * not written. On BIDE_EINVAL and BIDE_ENOMEM status and error are unchanged; items may have
 * changed, jobs and buffers are cleared.
 */
int bi_op_codec_decode_result(bide_op *op, int code, const void *data, size_t size, uint64_t *feed);

/* Frees what the decoded op owns, including the jobs of its result. It must not be pending. */
void bi_op_codec_free_op(struct decoded_op *decoded);

#endif
