/* SPDX-License-Identifier: MIT */
/*
 * job_history - the last failures of a job, encoded as bytes.
 *
 * A job, its snapshots, its row and `call` share these bytes, in one immutable buffer. A failure is
 * a record; the oldest comes first. Numbers are little-endian:
 *
 *     kind (1 byte), at_ms (7), attempt (4), size of the holder (2) and of the error (2), both texts
 *
 * The format is that of files: a change of it is a new version of the schema.
 *
 * Failure    Bytes from outside (a file, a peer, a restore) are untrusted: check them by
 *            bi_job_history_is_valid() before they become part of a job.
 * Cost       At most BI_JOB_HISTORY_SIZE bytes; a job that never failed has none.
 */
#ifndef BI_JOB_HISTORY_H
#define BI_JOB_HISTORY_H

#include <bide/job.h>

#define BI_JOB_HISTORY_HEADER 16
#define BI_JOB_HISTORY_SIZE \
    (BIDE_HISTORY_MAX * (size_t)(BI_JOB_HISTORY_HEADER + BIDE_FAILURE_TEXT_MAX))

/* True for the bytes of up to BIDE_HISTORY_MAX failures. */
bool bi_job_history_is_valid(const void *data, size_t size);

/* Returns the number of failures that these bytes begin with; all of them if they are valid. They
 * point into the bytes. */
size_t bi_job_history_decode(const void *data, size_t size,
                             bide_failure failures[BIDE_HISTORY_MAX]);

/* Encodes a failure at `to`, which has room for the header and BIDE_FAILURE_TEXT_MAX bytes, and
 * returns its size. The holder, and then the error, are truncated to what fits. */
size_t bi_job_history_encode(const bide_failure *failure, unsigned char *to);

/* Returns the history with one more failure, and without the oldest if there are too many. NULL when
 * out of memory. history may be NULL, and is otherwise valid. */
bide_buf *bi_job_history_add(const bide_buf *history, const bide_failure *failure);

#endif
