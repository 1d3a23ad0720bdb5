/* SPDX-License-Identifier: MIT */
#include "job_view.h"

#include <string.h>

static bide_job jobs[200];
static size_t job_count;

const bide_job *job_view(uint64_t id)
{
    CHECK(job_count < COUNT(jobs));
    bide_job *job = &jobs[job_count++];
    bide *queue = open_test_queue();
    int code = bide_peek(queue, id, job);
    CHECK(code == BIDE_OK || code == BIDE_NOT_FOUND);
    OK(bide_close(queue));
    return job;
}

uint64_t put_with(const char *body, const bide_put_options *options)
{
    uint64_t id = 0;
    bide *queue = open_test_queue();
    OK(bide_put(queue, "t", body, strlen(body), options, &id));
    OK(bide_close(queue));
    return id;
}
