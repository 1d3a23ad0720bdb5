/* SPDX-License-Identifier: MIT */
/*
 * job_view - a job as the library sees it, for tests of what works on jobs.
 */
#ifndef CLI_SEEN_H
#define CLI_SEEN_H

#include "cli_test.h"

/* With its body and texts, which live as long as the test; GONE when there is none. A file must not
 * be in use by a child. */
const bide_job *job_view(uint64_t id);

/* Puts a job with options into the topic "t"; answers its id. */
uint64_t put_with(const char *body, const bide_put_options *options);

#define ERROR_IS(id, want)  TEXT(job_view(id)->last_error, job_view(id)->last_error_size, (want))
#define RESULT_IS(id, want) TEXT(job_view(id)->result, job_view(id)->result_size, (want))

#endif
