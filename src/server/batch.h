/* SPDX-License-Identifier: MIT */
/*
 * batch - the ops of the server, from their submit to their completion.
 *
 * Ops of all connections are collected in one batch. It is submitted when it is full, when a
 * command depends on an earlier one, when the scratch memory is reused, and in each pass of a turn.
 *
 * Ordering   Ops are submitted in the order of bi_batch_submit(). They complete in any order.
 * Ownership  The ops of a batch borrow names and bodies: from the scratch memory, from protocols.
 *            None of these may change or be freed before bi_batch_flush(). After the submit the
 *            queue has its own copies. A server_op belongs to its submitter, which gets it back
 *            with completed().
 * Limits     A change that waits for a commit is counted. While too many are uncommitted, no
 *            command executes (bi_batch_must_throttle); bulk senders stop earlier (fair_queue.h).
 */
#ifndef BI_BATCH_H
#define BI_BATCH_H

#include <bide/bide.h>
#include <sys/queue.h>

#define BATCH_MAX    1024 /* ops of one batch, */
#define BATCH_TOPICS 4096 /* and topics that they name */

struct conn;
struct server;
struct server_op;

struct server_op_type {
    /* The op did not complete within the submit. Calls bi_batch_count_change() if it waits for a
     * commit. NULL: it always does, and it has no connection. */
    void (*pending)(struct server_op *server_op);
    /* The op has completed, and is no longer counted. Called once for each submit. */
    void (*completed)(struct server_op *server_op);
};

/* The part of an op that the server knows; embedded in those of protocols. */
struct server_op {
    const struct server_op_type *type;
    struct server *server;
    bide_op *op; /* op->user points back */
    STAILQ_ENTRY(server_op) next_yielded;
    size_t bytes;     /* of its body, if it changes a job */
    bool uncommitted; /* counted in batch.uncommitted, */
    bool bulk;        /* and in batch.bulk_uncommitted */
    bool abandoned;   /* its connection is closed */
};

/* An op of the server itself. */
struct internal_op {
    struct server_op base;
    bide_op op;
};

struct batch {
    bide_op *ops[BATCH_MAX];
    size_t count;
    size_t topics;                /* that its ops name */
    bool slow;                    /* its last op is slow */
    bool submitted;               /* ops were submitted since the last begin_commit() */
    unsigned single_commit_turns; /* turns in a row with a single change to commit */

    STAILQ_HEAD(, server_op) yielded; /* steps of long commands */

    size_t in_flight;     /* ops submitted or yielded, not completed */
    uint64_t uncommitted; /* of these, changes that wait for a commit */
    uint64_t uncommitted_bytes;
    uint64_t uncommitted_max, uncommitted_bytes_max;
    uint64_t bulk_uncommitted; /* of the uncommitted ones, those of bulk senders, */
    uint64_t bulk_uncommitted_bytes;
    uint64_t bulk_uncommitted_max; /* and the limits at which these are not read */
    uint64_t bulk_uncommitted_bytes_max;
};

/* Sets the limits by those of the queue, in which the defaults are filled in. */
void bi_batch_init(struct batch *batch, const bide_options *options);

/* Allocates an op, whose kind and arguments the caller fills in. completed() frees it. NULL without
 * memory. */
struct internal_op *bi_batch_new_op(struct server *server, const struct server_op_type *type);
/* Adds the op to the batch, for the first time or again. */
void bi_batch_submit(struct server_op *server_op);
/* The same after the other connections had their turn: for the next step of a long command. If its
 * connection is closed by then, the op completes as cancelled. */
void bi_batch_yield(struct server_op *server_op);
/* Submits some of the yielded ops. */
void bi_batch_submit_yielded(struct server *server);
/* Submits the batch, and the ops that completions add to it. The batch is empty afterwards. */
void bi_batch_flush(struct server *server);

/* Counts a pending op as a change that waits for a commit. conn is its sender; NULL: none. */
void bi_batch_count_change(struct server_op *server_op, const struct conn *conn);
/* True while so much is uncommitted that no further command may execute. */
static inline bool bi_batch_must_throttle(const struct batch *batch)
{
    return batch->uncommitted + batch->count >= batch->uncommitted_max ||
           batch->uncommitted_bytes >= batch->uncommitted_bytes_max;
}

#endif
