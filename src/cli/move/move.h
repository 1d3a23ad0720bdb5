/* SPDX-License-Identifier: MIT */
/*
 * move - copies all jobs of one queue to another, verifies the copies and removes the originals.
 *
 * A move leaves no trace in either queue, and none on disk. It can still be interrupted or killed
 * and run again: jobs are copied in the order of their ids through one pipeline, so TO always holds
 * the copies of the first jobs of FROM, and a later run finds them by an index of TO
 * (move_index.h). The index is built only if TO is not empty.
 *
 *     indexing   read every job of TO
 *     copying    read every job of FROM once: find its copy in the index, or restore it
 *     verifying  read each copy by its id in TO, and compare it
 *     removing   delete from FROM the jobs whose copies were verified
 *
 * A beanstalkd reports creation times in whole seconds, and stamps a job at the put. If FROM or TO
 * is one, the index cannot tell a copy from another job with the same content: the move does not
 * copy such a job again, but removes only those jobs of FROM that it has copied itself.
 *
 * Cost       48 bytes per job of FROM, and 48 per job that TO had before.
 */
#ifndef BI_MOVE_H
#define BI_MOVE_H

#include "cli/job_scan.h"
#include "cli/move/move_index.h"
#include "cli/print.h"
#include "cli/transfer.h"

enum move_status {
    MOVE_PENDING,  /* its copy is not acknowledged yet */
    MOVE_PRESENT,  /* found in the index */
    MOVE_COPIED,   /* acknowledged by TO */
    MOVE_REJECTED, /* not acknowledged; reported */
    MOVE_MISSING,  /* was present or copied; verifying did not find it */
    MOVE_EXPIRED,  /* the same, but it was to disappear by then */
};

/* A job of FROM. */
struct moved {
    uint64_t hash[2];
    uint64_t id, target_id; /* in FROM and in TO */
    int64_t expires_ms;     /* when the copy disappears by itself; 0: never */
    uint32_t size;          /* bytes in a pipeline, at most UINT32_MAX */
    uint16_t status;        /* enum move_status */
    bool verified;          /* the job target_id of TO was read and is equal */
};

struct mover {
    struct cli *cli;
    struct job_scan from, to;
    char from_shown[BI_URL_MAX], to_shown[BI_URL_MAX];
    struct restore_target restore_target;
    bool skip_reserved, remove_copied;

    struct bi_hash_secret secrets[2];
    struct move_index index;
    struct moved *moved; /* in the order of their ids */
    size_t count, capacity;
    struct ordered_pipeline *pipeline;
    struct progress progress;
    int exit; /* the first failure that ends the move, or BI_EXIT_OK */

    uint64_t copied, present, rejected, reserved, expired, lookalikes, pauses;
    uint64_t verified, missing, removed, kept, unproven;
};

/* True if the index does not prove that a job of TO is a copy. */
bool bi_move_is_inexact(const struct mover *mover);

/* Moves everything. Reports what fails; BI_EXIT_PARTIAL if some jobs were rejected, are missing or
 * stay in FROM. The counters are valid however it ends. */
int bi_move_run(struct mover *mover);

#endif
