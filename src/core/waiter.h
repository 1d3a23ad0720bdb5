/* SPDX-License-Identifier: MIT */
/*
 * waiter - the ops that wait: for a job of some topics, for the end of a job, for events.
 *
 * A reserve stands in the line of each of its topics. Lines are in order of arrival, so the first
 * in line of a topic is the one who has waited longest for it. Topics that get a ready job while
 * somebody waits are marked; bi_waiters_serve() runs at the end of every op and timer event and
 * gives the jobs out, always to the longest waiting call first.
 *
 * Ownership  A waiter belongs to the core and lives until its op completes.
 * Failure    Only adding can fail. If taking a job fails for lack of memory, the topic stays
 *            marked and is served at the next opportunity.
 */
#ifndef BI_WAITER_H
#define BI_WAITER_H

#include "core/timer.h"

#include <bide/op.h>

struct core;
struct topic;
struct job;
struct bide_feed;

/* One topic of a reserve. */
struct waiter_link {
    struct waiter *waiter;
    struct topic *topic; /* NULL, before waiting, for a topic that does not exist */
    struct waiter_link *prev, *next;
    uint32_t weight;
};

struct waiter {
    bide_op *op;
    struct timer timer;
    struct waiter *prev, *next; /* in the list of all */
    struct waiter *prev_watcher, *next_watcher;
    uint64_t number;         /* rises with every arrival */
    int64_t until;           /* BI_NEVER: for ever */
    bool parked;             /* out of its lines, while bodies are read for what it took */
    uint32_t job;            /* wait: the job */
    bide_feed *feed;         /* events: the feed */
    bide_reserve_args *args; /* reserve: in the op */
    size_t link_count;
    struct waiter_link links[];
};

struct waiters {
    struct waiter *head, *tail;
    struct waiter *undo_next; /* during a rollback: the first that it has not come to */
    uint64_t count;
    uint64_t reserving;
    uint64_t parked;
};

/*
 * Makes op wait, at most timeout_ms (negative: for ever). links (with their topics) are copied.
 * NULL, with the op's sentence written and its code in *code, if it cannot: CLOSED,
 * TOO_MANY_WAITERS or ENOMEM; else *code is BIDE_PENDING.
 */
struct waiter *bi_waiter_add(struct core *core, bide_op *op, int64_t timeout_ms,
                             const struct waiter_link *links, size_t link_count, int *code);

/* Takes a call out of its lines without ending it, and brings it back to its place in them. */
void bi_waiter_park(struct core *core, struct waiter *waiter);
void bi_waiter_rejoin(struct core *core, struct waiter *waiter);
/* Ends the waiting without telling anybody: the op is answered by whoever called. */
void bi_waiter_drop(struct core *core, struct waiter *waiter);

/* Ends the waiting: the op completes with that code, holding for the core's present hold. */
void bi_waiter_end(struct core *core, struct waiter *waiter, int code);

/* The topic has changed such that somebody may be served. */
void bi_waiters_mark(struct core *core, struct topic *topic);

/* Gives ready jobs to those who wait, until one side runs out. */
void bi_waiters_serve(struct core *core);

/* Tells those who wait for the job that it is done, buried or gone (its state now). finished: of gone,
 * its work is done. */
void bi_waiters_tell(struct core *core, struct job *job, bide_state state, bool finished);

/*
 * A commit failed: what the calls that wait had done or seen is undone. A finish_and_reserve ends with
 * BIDE_EIO, the others have nothing more to hold for. Looks at up to budget calls at a time, and
 * answers what is left of the budget.
 */
void bi_waiters_begin_rollback(struct core *core);
unsigned bi_waiters_rollback(struct core *core, unsigned budget);

#endif
