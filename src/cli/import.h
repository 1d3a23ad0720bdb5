/* SPDX-License-Identifier: MIT */
/*
 * import - what an export wrote, read line by line.
 *
 * A line is a job, or says its "kind": the beginning of an export, a pause, the end. What begins as
 * an export must have its end, with as many jobs as were counted there: else something is missing.
 */
#ifndef BI_IMPORT_H
#define BI_IMPORT_H

#include "cli/job_json.h"
#include "cli/pauses.h"

struct import_handlers {
    const char *label; /* in front of the progress bar */
    /* What the job points to lies in the object (which may be kept by json_incref) and in the room
     * (which may be kept by copying and zeroing it). May be NULL. An answer that is not BI_EXIT_OK
     * ends the reading. */
    int (*job)(void *user, uint64_t line, json_t *object, const bide_job *job,
               struct job_json_buffers *buffers);
    int (*pause)(void *user, uint64_t line, const struct pause *pause);
    /* Called before the next line is waited for. May be NULL. */
    void (*idle)(void *user);
};

struct import_counts {
    uint64_t jobs, pauses;
    uint64_t lines; /* that were good */
};

/* BI_EXIT_PARTIAL when a line is wrong or something is missing, which is said; interrupted; or what
 * the reader answered. */
int bi_import_read(const struct cli *cli, int fd, const struct import_handlers *handlers,
                   void *user, struct import_counts *counts);

#endif
