/* SPDX-License-Identifier: MIT */
/*
 * move - all jobs of one queue into another.
 *
 * No journal is kept. What the other queue has already is known by its fingerprint, and left out:
 * whoever is interrupted, or killed, begins again, and what is missing is copied, once. When all
 * is copied the other queue is read again, and every job must be found there.
 *
 * move_compare.c finds what is there, move_copy.c copies, move_verify.c verifies and removes,
 * cmd_move.c is the verb.
 *
 * Cost       110 bytes a job of FROM, and 45 a job of TO.
 */
#ifndef BI_MOVE_H
#define BI_MOVE_H

#include "cli/job_scan.h"
#include "cli/move/move_index.h"
#include "cli/presence.h"
#include "cli/restore_op.h"

enum move_status {
    MOVE_PENDING, /* it has to be copied, or is on its way */
    MOVE_PRESENT, /* it is in the other queue */
    MOVE_COPIED,  /* acknowledged, not verified */
    MOVE_REFUSED, /* or in doubt */
    MOVE_EXPIRED, /* its time was over meanwhile */
};

/* A job of FROM. */
struct moved {
    struct fingerprint print;
    int64_t expires_ms; /* when it goes by itself; 0: never */
    uint64_t id;
    uint32_t size;   /* in bytes, to know how many fit on the way; more than that is this */
    uint16_t status; /* enum move_status */
    bool copied;     /* by this run */
};

struct mover {
    struct cli *cli;
    struct job_scan from, to;
    char from_shown[BI_URL_MAX], to_shown[BI_URL_MAX];
    struct restore_target restore_target;
    bool skip_reserved;
    struct presence presence; /* of who moves to TO */
    char presence_topic[BI_PRESENCE_TOPIC_SIZE];
    struct fingerprint_key key;
    struct moved *moved;
    size_t count, capacity;
    struct ordered_pipeline *ordered_pipeline;
    int exit; /* what ended it early */

    uint64_t copied, present, refused, reserved, expired, lookalikes, pauses;
    uint64_t verified, missing, removed, kept, unproven;
};

/* ---- move_compare.c ---- */

/* Should the job be copied at all? */
bool bi_move_is_eligible(struct mover *mover, bide_job *job);
/* Notes a job; NULL when there is not enough memory, which is said. */
struct moved *bi_move_add(struct mover *mover, const bide_job *job);
/* Reads the other queue. The jobs whose status is this one are looked for; found ones are there.
 * *alike: how many of the rest have somebody there who is the same but for the times. */
int bi_move_match(struct mover *mover, const char *what, enum move_status status,
                  uint64_t *lookalikes);
/* Lists FROM; where there is something in TO already, what is there is taken off the list. */
int bi_move_compare(struct mover *mover);

/* ---- the others ---- */

/* Copies the pauses, and the jobs that are on the list. */
int bi_move_copy(struct mover *mover);
/* Looks for every job in the other queue. BI_EXIT_PARTIAL when some are not there, which is said. */
int bi_move_verify(struct mover *mover);
/* Deletes from the first queue what was found in the other. A beanstalkd creates its jobs at the time
 * of the put: which of its jobs are copies cannot be proven but for those that this run has copied.
 * The others stay, are counted as unproven, and the result is BI_EXIT_PARTIAL. */
int bi_move_remove(struct mover *mover);

#endif
