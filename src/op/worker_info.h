/* SPDX-License-Identifier: MIT */
/*
 * worker_info - what a worker announces, encoded as bytes.
 *
 * The core, its replies and `call` share these bytes, in one immutable buffer. With the types of
 * `call` (op_codec_wire.h) they are
 *
 *     name b, connection n, topics [b], host b, version b, pid n, threads n, running n, done n,
 *     failed n, lost n, started_ms i, jobs [{id n, since_ms i, topic b, progress b}]
 *
 * Bytes behind the last member that is known are ignored.
 *
 * Failure    Bytes from outside (a client) are untrusted: check them by
 *            bi_worker_info_check_bytes() before anything else.
 * Cost       At most BIDE_ANNOUNCED_SIZE_MAX bytes.
 */
#ifndef BI_WORKER_INFO_H
#define BI_WORKER_INFO_H

#include <bide/job.h>

#define BI_WORKER_TEXT_MAX 255 /* bytes of host and version */

/* What is wrong with a worker, or NULL. */
const char *bi_worker_info_check(const bide_worker_info *info);
/* The same for its bytes. */
const char *bi_worker_info_check_bytes(const void *data, size_t size);

/* Decodes the name, the connection and the topics of valid bytes only. */
void bi_worker_info_read_head(const void *data, size_t size, bide_worker_info *info,
                              bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX]);

#endif
