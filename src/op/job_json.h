/* SPDX-License-Identifier: MIT */
/*
 * job_json - encodes jobs, topics and statistics as JSON, and decodes jobs.
 *
 * There is one form, and it is complete: a job that is exported and imported has the same state,
 * times, counters, texts and result. Names are those of job.h; durations and timestamps are
 * milliseconds, as there; what a job does not have is left out. Bytes (body, key, result,
 * last_error, and error and holder of a failure) are a string if they are UTF-8, otherwise base64
 * under the name with the suffix _base64.
 *
 *     {"id":12,"topic":"email","state":"delayed","priority":1024,"body":"hello",...,
 *      "history":[{"attempt":1,"at_ms":1767225600000,"kind":"failed","error":"no route"},...]}
 */
#ifndef BI_JOB_JSON_H
#define BI_JOB_JSON_H

#include "util/message.h"

#include <bide/job.h>
#include <jansson.h>
#include <stdio.h>

/* Returns a new object; NULL when out of memory. It has the token of a job that has one. */
json_t *bi_job_json_encode(const bide_job *job);
json_t *bi_job_json_encode_topic(const bide_topic_stats *topic);
json_t *bi_job_json_encode_stats(const bide_stats *stats);
/* What is not set is left out; unlimited retries are -1. */
json_t *bi_job_json_encode_policy(const bide_topic_policy *policy);
/* The reverse: what is left out is not set. False with an error text if it is invalid. */
bool bi_job_json_decode_policy(const json_t *object, bide_topic_policy *policy, char *error);

/* A worker, and why a job does not run (worker_json.c). */
json_t *bi_worker_json_encode(const bide_worker_info *info);
json_t *bi_why_json_encode(const bide_explanation *why);

/* The numbers of bide_counters, in order: all are 64 bits wide. */
struct stat_field {
    const char *name;
    size_t offset;
};
#define BI_JOB_JSON_COUNTERS (offsetof(bide_counters, room_) / sizeof(uint64_t))
extern const struct stat_field bi_job_json_counters[BI_JOB_JSON_COUNTERS];

/* Adds bytes under a name, or under the name with _base64. */
bool bi_job_json_set_bytes(json_t *object, const char *name, const void *data, size_t size);

/* The history of a job as an array; NULL when out of memory. */
json_t *bi_job_history_json_encode(const bide_job *job);
/* Encodes such an array at bytes, which has room for BI_JOB_HISTORY_SIZE, and sets the size. False
 * with an error text if it is invalid. */
bool bi_job_history_json_decode(const json_t *array, unsigned char *bytes, size_t *size,
                                char *error);

/* Writes a value and a newline; false if that fails. */
bool bi_job_json_write(FILE *to, const json_t *value);

/* Parses one JSON object; a repeated name is rejected. NULL with an error text if it is invalid. */
json_t *bi_job_json_parse(const char *text, size_t size, char *error);

/*
 * Decodes a job from the form of bi_job_json_encode(). The job points into the object and the
 * buffers; free these by bi_job_json_buffers_free(), also after a failure. Unknown names, values of
 * another type, and values that no job can have are rejected with an error text. Topic and body are
 * required; what else is missing has the default of a put.
 */
#define BI_JOB_JSON_BUFFERS 7
struct job_json_buffers {
    void *blocks[BI_JOB_JSON_BUFFERS]; /* decoded base64, and the history */
};
bool bi_job_json_decode(const json_t *object, bide_job *job, struct job_json_buffers *buffers,
                        char *error);
void bi_job_json_buffers_free(struct job_json_buffers *buffers);

#endif
