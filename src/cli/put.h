/* SPDX-License-Identifier: MIT */
/*
 * put - one run of `bide put`: from where jobs come, and what is said of them.
 */
#ifndef BI_PUT_H
#define BI_PUT_H

#include "cli/bulk_put.h"
#include "cli/input.h"
#include "cli/line_status.h"
#include "cli/progress.h"

enum put_form {
    BI_PUT_WHOLE, /* a body is an argument, a file, or all of standard input */
    BI_PUT_LINES,
    BI_PUT_NULLS,
    BI_PUT_JSON,
};

struct put_run {
    const struct cli *cli;
    enum put_form form;
    bide_slice topic; /* may be empty with BI_PUT_JSON */
    bide_put_options options;
    const char *const *files; /* "-": standard input */
    size_t file_count;        /* 0: standard input, or the body */
    const char *body;         /* the argument; NULL: none */
    bool skip_empty, stop_on_error;
    bool print_ids;
    bool wait_result; /* for the results */

    struct bulk_put *bulk_put;
    struct line_status line_status; /* of the file that is being read */
    struct progress progress;
    const char *file; /* that is being read; NULL: standard input */
    uint64_t put_count, refused;
    int exit;         /* of the first job that was refused, or could not be put */
    bool failed;      /* it was for a reason that others do not escape */
    bool should_stop; /* by stop_on_error */
    uint64_t *ids;    /* of the jobs, for whoever waits for them; as many as there are bodies */
    int64_t started_us;
};

/* Puts all that there is. Answers an exit code; everything has been said. */
int bi_put_run(struct put_run *run);

/* ---- between put_input.c and put_report.c ---- */

/* Reads everything, and adds it to run->puts. */
void bi_put_input_read(struct put_run *run);
/* Is there a reason not to go on? */
bool bi_put_input_should_stop(const struct put_run *run);

/* What became of a job. */
bi_bulk_put_done bi_put_report_result;
/* Something is wrong with a line before it became a job. */
void bi_put_report_invalid(struct put_run *run, uint64_t number, const char *error);
/* A file cannot be opened or read; number: which, where each is a body. */
void bi_put_report_unreadable(struct put_run *run, uint64_t number, int error);
/* All of a file has been read, or the reading ends: says where, if it is not at its end. */
void bi_put_report_position(struct put_run *run);
/* How many jobs it was, at the end. Answers the exit code. */
int bi_put_report_summary(struct put_run *run);

#endif
