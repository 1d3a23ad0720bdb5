/* SPDX-License-Identifier: MIT */
/*
 * job - one job, and the only place where it changes its state.
 *
 * What every job has is 88 bytes, and 4 for the slot in which it sits in a heap of its topic: these
 * lie in an array of their own (core->slots), because sifting writes a dozen of them for every job
 * that is taken, and would bring a dozen jobs into the cache for nothing. What most jobs never need (a lease, counters, key, retries,
 * expiry, texts, result) lies in struct more, made when first needed and freed with the job.
 *
 * All times are microseconds of the boot-time clock, also those shown as wall times, so that
 * ages and orders do not jump when the wall clock is set; only run-at and expires-at are moments
 * of the wall clock.
 */
#ifndef BI_JOB_H
#define BI_JOB_H

#include "core/timer.h"

#include <bide/job.h>

struct core;
struct waiter;

enum job_flag {
    JOB_DUE_WALL = 1,       /* due is a moment of the wall clock */
    JOB_CANCEL_WANTED = 2,  /* reserved, and to be removed when it comes back */
    JOB_KEY_RETAINED = 4,   /* the key is held through retention */
    JOB_STARTED = 8,        /* a store must know that a reservation began */
    JOB_DIRTY = 16,         /* the journal has an entry for it */
    JOB_KEYED = 32,         /* it stands in the table of keys */
    JOB_CACHED = 64,        /* its body is stored, and in memory all the same */
    JOB_READY_BEFORE = 128, /* restored while it was ready: since more->ready, elsewhere first; or,
                             * without struct more, since it was made */
};

struct job {
    uint64_t id;
    uint32_t link; /* in the table of ids */
    uint32_t self; /* its own reference */
    bide_buf *body;
    int64_t created;
    int64_t since; /* when it came into its state */
    int64_t due;   /* delayed: ready then; reserved: end of lease; done: end of retention */
    int64_t ttr;
    uint32_t topic;
    uint32_t more; /* 0: none */
    uint32_t priority;
    uint32_t prev, next; /* in the list of its topic and state, or left and right in its tree */
    uint32_t body_size;
    uint8_t state; /* enum bide_state; GONE: removed, kept for the journal only */
    uint8_t flags;
    uint8_t undone; /* during a rollback: the state that it comes back to */
    bool in_tree;   /* of struct job_list */
    uint32_t delay; /* that was asked for last; see bi_job_delay() */
};

/* The delay is only shown: milliseconds up to 24 days, above that seconds, up to 68 years; what is
 * longer is shown as the longest there is. */
#define BI_DELAY_SECONDS (UINT32_C(1) << 31)

static inline void bi_job_set_delay(struct job *job, int64_t us)
{
    int64_t ms = us / 1000;
    if (ms < (int64_t)BI_DELAY_SECONDS)
        job->delay = (uint32_t)ms;
    else if (ms / 1000 < (int64_t)BI_DELAY_SECONDS - 1)
        job->delay = BI_DELAY_SECONDS | (uint32_t)(ms / 1000);
    else
        job->delay = UINT32_MAX;
}

static inline int64_t bi_job_delay_ms(const struct job *job)
{
    if ((job->delay & BI_DELAY_SECONDS) == 0)
        return job->delay;
    if (job->delay == UINT32_MAX)
        return BIDE_TIME_MAX_MS;
    return (int64_t)(job->delay & ~BI_DELAY_SECONDS) * 1000;
}

struct counters {
    uint32_t reserves, timeouts, releases, fails, buries, kicks, touches;
};

/* A counter stays at its end rather than begin again at 0. */
static inline void count_up(uint32_t *counter)
{
    if (*counter < UINT32_MAX)
        ++*counter;
}

struct more {
    uint32_t self;
    uint32_t job;
    uint32_t link; /* in the table of keys */
    int32_t max_retries;
    struct timer timer;  /* boot-time clock: end of lease, end of retention */
    struct timer expiry; /* wall clock */
    uint64_t token;
    uint64_t key_hash;
    uint64_t order;          /* buried or done: rises with every entry */
    struct waiter *watchers; /* calls that wait for the job to end */
    struct counters counters;
    uint32_t failures;
    uint32_t lease_touches;
    /* Reserved, and the reserve has no answer yet: no lease runs. The moments of the job and of its
     * last lease are still those from before, and so its reservation can be undone. */
    bool unanswered;
    bool disowned;        /* and it gets none: the reservation is to be undone */
    uint8_t before;       /* the state from which it was taken, */
    uint8_t before_flags; /* and those flags that only that state has */
    int64_t ready, reserved, touched, buried, done; /* BI_NEVER: not yet */
    int64_t backoff_base, backoff_max;              /* 0: the defaults */
    int64_t expires_at;                             /* wall; 0: never */
    int64_t retain;
    bide_buf *key, *last_error, *result, *progress;
};

/* Gives back the key, error, result and progress. */
void bi_more_drop_texts(const struct more *more);
/* How many bytes they have. */
uint64_t bi_more_text_size(const struct more *more);
/* Puts a text in the place of another, and counts its bytes; the reference is taken over. */
void bi_more_set_text(struct core *core, bide_buf **place, bide_buf *text);

/*
 * The jobs of one topic and state, in the order in which they came into it. A job that a failed
 * commit brings back belongs somewhere in the middle; to find its place in a list would take a walk
 * of any length. So it stands in a tree beside the list (a treap, O(log n) a step) until it leaves
 * its state.
 */
struct job_list {
    uint32_t head, tail;
    uint32_t root;
    uint32_t count; /* in list and tree */
};

/* The job that came first; NULL for none. */
struct job *bi_list_oldest(const struct core *core, const struct job_list *list);
/* Every job of a list, those in the tree last: begin with NULL, end at NULL. */
struct job *bi_list_next(const struct core *core, const struct job_list *list,
                         const struct job *job);

/* ---- making and freeing ---- */

/* A new job of the topic, in no state yet, counted as a member; NULL when out of memory. */
struct job *bi_job_new(struct core *core, uint32_t topic, uint64_t id);
/* Frees a job that is in no state. */
void bi_job_free(struct core *core, struct job *job);

/* The part made on demand, made now if it is missing; NULL when out of memory. */
struct more *bi_job_more(struct core *core, struct job *job);

/* Changes which topic it belongs to while it is in no state; room has been reserved there. */
void bi_job_move(struct core *core, struct job *job, uint32_t topic);

/* ---- the state ---- */

/* Since when a ready job is ready: in this queue, or before it came here. */
int64_t bi_job_ready_since(const struct core *core, const struct job *job);

/* Takes a job out of its state, its lists, heaps and timers; it must then enter another. */
void bi_job_leave(struct core *core, struct job *job);

/* Takes a job out of everything, also the tables of ids and keys. It is then gone, and is freed,
 * kept by the journal, or brought back by bi_job_enter_again(). */
void bi_job_vanish(struct core *core, struct job *job);

/*
 * Brings a job that is in no state into one. Sets since; the due time, lease and so on have been
 * set in its fields. Cannot fail. bi_job_enter_again() keeps since and the place in the order that
 * the job had: for undoing.
 */
void bi_job_enter(struct core *core, struct job *job, bide_state state);
void bi_job_enter_again(struct core *core, struct job *job, bide_state state);

/* Brings a stored job into its state: at the end of the list, which may be the wrong place. Then
 * core->disordered says so. */
void bi_job_enter_loaded(struct core *core, struct job *job, bide_state state);
/* Moves a job to the front of the list of its state. */
void bi_job_to_front(struct core *core, struct job *job);

/* For a change of priority or due time within a state: out of the heap, and in again. The place in
 * the list of the state stays. */
void bi_job_unseat(struct core *core, struct job *job);
void bi_job_seat(struct core *core, struct job *job);

/* True if the table of legal changes has it. */
bool bi_job_may(bide_state from, bide_state to);

#endif
