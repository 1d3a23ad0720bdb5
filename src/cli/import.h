/* SPDX-License-Identifier: MIT */
/*
 * import - reads an export line by line.
 *
 * A line is a job, or has a "kind": the header of an export, a pause, the end. An export that has a
 * header must have an end with the right number of jobs; otherwise it is incomplete.
 */
#ifndef BI_IMPORT_H
#define BI_IMPORT_H

#include "cli/pauses.h"
#include "op/job_json.h"

struct import_handlers {
    const char *label; /* of the progress bar */
    /* The job refers to the object, which json_incref() keeps, and to the buffers, which are kept by
     * moving them. May be NULL. A return value other than BI_EXIT_OK stops the import. */
    int (*job)(void *user, uint64_t line, json_t *object, const bide_job *job,
               struct job_json_buffers *buffers);
    int (*pause)(void *user, uint64_t line, const struct pause *pause);
    /* Called before waiting for input. May be NULL. */
    void (*idle)(void *user);
};

struct import_counts {
    uint64_t jobs, pauses;
    uint64_t lines; /* valid ones */
};

/* Returns BI_EXIT_PARTIAL, after an error message, if a line is invalid or the export is incomplete;
 * the code of an interrupt; or what a handler returned. */
int bi_import_read(const struct cli *cli, int fd, const struct import_handlers *handlers,
                   void *user, struct import_counts *counts);

#endif
