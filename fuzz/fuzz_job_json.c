/* SPDX-License-Identifier: MIT */
/*
 * fuzz_job_json - any bytes, read as a line of an export: what is refused has a sentence; what is read
 * is a job that can be written, is then read and written the same, and that a queue takes or
 * refuses with a sentence. A queue that took it shows a job that can be exported again.
 */
#include "fuzz/fuzz.h"
#include "op/job_json.h"

#include <bide/bide.h>

#include <stdlib.h>
#include <string.h>

static char *text_of(const bide_job *job)
{
    json_t *object = bi_job_json_encode(job);
    must(object != NULL);
    char *text = json_dumps(object, JSON_COMPACT);
    must(text != NULL);
    json_decref(object);
    return text;
}

/* The text of a job, read and written once more. */
static char *again(const char *text)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct job_json_buffers buffers = {{NULL}};
    bide_job job;
    json_t *object = bi_job_json_parse(text, strlen(text), error);
    must(object != NULL);
    must(bi_job_json_decode(object, &job, &buffers, error));
    char *written = text_of(&job);
    bi_job_json_buffers_free(&buffers);
    json_decref(object);
    return written;
}

static void restore(const bide_job *job)
{
    static bide *queue;
    bide_job shown;
    uint64_t id = 0;
    if (queue == NULL)
        must(bide_open("memory:", NULL, &queue) == BIDE_OK);
    int code = bide_restore(queue, job, &id);
    must((code == BIDE_OK) == (bide_last_error()[0] == 0));
    if (code != BIDE_OK || bide_peek(queue, id, &shown) != BIDE_OK) /* it may have expired */
        return;
    must(shown.body_size == job->body_size);
    char *text = text_of(&shown);
    free(again(text));
    free(text);
    bide_job_clear(&shown);
    bide_cancel(queue, id);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char error[BI_ERRMSG_SIZE] = "";
    struct job_json_buffers buffers = {{NULL}};
    bide_job job;
    json_t *object = bi_job_json_parse((const char *)data, size, error);
    must((object == NULL) == (error[0] != 0));
    if (object == NULL)
        return 0;
    if (bi_job_json_decode(object, &job, &buffers, error)) {
        must(error[0] == 0);
        char *first = text_of(&job), *second = again(first);
        must(strcmp(first, second) == 0);
        free(first);
        free(second);
        restore(&job);
    } else
        must(error[0] != 0);
    bi_job_json_buffers_free(&buffers);
    json_decref(object);
    return 0;
}
