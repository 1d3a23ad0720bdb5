/* SPDX-License-Identifier: MIT */
/*
 * worker_info - what a worker announces, encoded as bytes.
 *
 * The core, its replies and `call` share these bytes, in one immutable buffer. With the types of
 * `call` (op_codec_wire.h) they are
 *
 *     name b, topics [b], host b, version b, pid n, threads n, running n, done n, failed n, lost n,
 *     started_ms i, jobs [{id n, since_ms i, topic b, progress b}]
 *
 * Bytes behind the last member that is known are ignored.
 *
 * Failure    Bytes from outside (a client) are untrusted: check them by bi_worker_info_decode()
 *            before anything else.
 * Cost       At most BIDE_ANNOUNCED_SIZE_MAX bytes.
 */
#ifndef BI_WORKER_INFO_H
#define BI_WORKER_INFO_H

#include <bide/job.h>

#define BI_WORKER_TEXT_MAX 255 /* bytes of host and version */

/* A decoded worker, with room for its topics and jobs, to which it points. */
struct worker_info {
    bide_worker_info info;
    bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX];
    bide_running_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
};

/* Decodes a worker. NULL, or what is wrong with the bytes. */
const char *bi_worker_info_decode(const void *data, size_t size, struct worker_info *worker);

/* Decodes the name and the topics of valid bytes only. Returns the number of topics. */
size_t bi_worker_info_topics(const void *data, size_t size, bide_slice *name,
                             bide_slice topics[BIDE_ANNOUNCED_TOPICS_MAX]);

#endif
