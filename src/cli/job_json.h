/* SPDX-License-Identifier: MIT */
/*
 * job_json - jobs, topics and figures as JSON, and jobs back from it.
 *
 * The form is the same wherever a job is shown with --json, and complete: a job that is exported
 * and imported has the same state, times, counters, texts and result. Names are those of job.h;
 * durations and moments are numbers of milliseconds, as there; what a job does not have is left
 * out. Bytes (body, key, result, last_error) are a string if they are UTF-8, else base64 under the
 * name with _base64 behind it.
 *
 *     {"id":12,"topic":"email","state":"delayed","priority":1024,"body":"hello",...}
 */
#ifndef BI_JOB_JSON_H
#define BI_JOB_JSON_H

#include "cli/cli.h"

#include <jansson.h>

/* A new object; NULL when out of memory. The token is in it if there is one. */
json_t *bi_job_json_encode(const bide_job *job);
json_t *bi_job_json_encode_topic(const bide_topic_stats *topic);
json_t *bi_job_json_encode_stats(const bide_stats *stats);

/* Adds bytes under a name, or under the name and _base64. */
bool bi_job_json_set_bytes(json_t *object, const char *name, const void *data, size_t size);

/* Writes a value and a newline; false when it could not be written. */
bool bi_job_json_write(FILE *to, const json_t *value);

/* Prints a value and a newline to standard output, and gives the value back. NULL is a lack of
 * memory. BI_EXIT_OK, or says what is wrong. */
int bi_cli_print_json(const struct cli *cli, json_t *value);

/* Reads one JSON object, in which no name may be there twice. NULL with a sentence if it is none. */
json_t *bi_job_json_parse(const char *text, size_t size, char *error);

/*
 * Reads a job as bi_job_json_encode() wrote it. Everything that it points to lies in the object, or in
 * the room: free it by bi_job_json_buffers_free(), whatever the answer. Unknown names, values of
 * another type, and what no job can have are refused with a sentence. A topic and a body must be
 * there; what else is not said is as a put has it.
 */
#define BI_JOB_JSON_BUFFERS 5
struct job_json_buffers {
    void *blocks[BI_JOB_JSON_BUFFERS]; /* what was base64 */
};
bool bi_job_json_decode(const json_t *object, bide_job *job, struct job_json_buffers *buffers,
                        char *error);
void bi_job_json_buffers_free(struct job_json_buffers *buffers);

#endif
