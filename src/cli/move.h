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

#include "cli/census.h"
#include "cli/deliver.h"
#include "cli/mark.h"
#include "cli/source.h"

enum moved_status {
    MOVED_WANTED,  /* it has to be copied, or is on its way */
    MOVED_THERE,   /* it is in the other queue */
    MOVED_COPIED,  /* acknowledged, not verified */
    MOVED_REFUSED, /* or in doubt */
    MOVED_OVER,    /* its time was over meanwhile */
};

/* A job of FROM. */
struct moved {
    struct fingerprint print;
    int64_t until_ms; /* when it goes by itself; 0: never */
    uint64_t id;
    uint32_t size;   /* in bytes, to know how many fit on the way; more than that is this */
    uint32_t status; /* enum moved_status */
};

struct mover {
    struct cli *cli;
    struct source from, to;
    char from_shown[BI_URL_MAX], to_shown[BI_URL_MAX];
    struct deliver deliver;
    bool skip_reserved;
    struct mark mark; /* of who moves to TO */
    char mark_name[BI_MARK_SIZE];
    struct fingerprint_key key;
    struct moved *moved;
    size_t count, room;
    struct relay *relay;
    int exit; /* what ended it early */

    uint64_t copied, there, refused, reserved, over, alike, pauses;
    uint64_t verified, missing, removed, kept;
};

/* ---- move_compare.c ---- */

/* Should the job be copied at all? */
bool bi_move_wants(struct mover *mover, bide_job *job);
/* Notes a job; NULL when there is not enough memory, which is said. */
struct moved *bi_move_note(struct mover *mover, const bide_job *job);
/* Reads the other queue. The jobs whose status is this one are looked for; found ones are there.
 * *alike: how many of the rest have somebody there who is the same but for the times. */
int bi_move_look_for(struct mover *mover, const char *what, enum moved_status status,
                     uint64_t *alike);
/* Lists FROM; where there is something in TO already, what is there is taken off the list. */
int bi_move_compare(struct mover *mover);

/* ---- the others ---- */

/* Copies the pauses, and the jobs that are on the list. */
int bi_move_copy(struct mover *mover);
/* Looks for every job in the other queue. BI_EXIT_PARTLY when some are not there, which is said. */
int bi_move_verify(struct mover *mover);
/* Deletes from the first queue what was found in the other. */
int bi_move_remove(struct mover *mover);

#endif
