/* SPDX-License-Identifier: MIT */
/*
 * job - one job, and the only module that changes its state.
 *
 * struct job holds what every job needs, in 88 bytes. What most jobs never need (lease, counters,
 * key, retries, expiry, texts, result) is in struct job_ext, allocated on demand and freed with
 * the job. The heap slot of each job is in an array of its own, core->slots: sifting writes a
 * dozen slots for every job that is reserved, and would load as many jobs into the CPU cache.
 *
 * All times are microseconds of the boot-time clock, also those displayed as wall times, so that
 * ages and orders do not jump when the wall clock is set. Only run-at and expires-at are times of
 * the wall clock.
 *
 * Ordering   The list of a state is in order of entry. A change of state that is not in the table
 *            of legal changes fails an assertion.
 * Ownership  The core owns jobs; references (uint32_t) remain valid until bi_job_free().
 * Failure    Only bi_job_new() and bi_job_ensure_ext() can fail. They reserve room in all heaps
 *            and timer sets, so a change of state cannot fail.
 * Cost       A change of state is O(log n) in the jobs of the topic and the timers of the queue.
 */
#ifndef BI_JOB_H
#define BI_JOB_H

#include "core/timer.h"
#include "op/job_fields.h"

struct core;
struct waiter;

enum job_flag {
    JOB_DUE_WALL = 1,       /* due is a time of the wall clock */
    JOB_CANCEL_WANTED = 2,  /* reserved, and to be removed when the lease ends */
    JOB_KEY_RETAINED = 4,   /* the job holds its key until its retention ends */
    JOB_STARTED = 8,        /* the store must know that the job was reserved */
    JOB_DIRTY = 16,         /* the journal has an entry for the job */
    JOB_KEYED = 32,         /* the job is in core->by_key */
    JOB_CACHED = 64,        /* the body is stored, and in memory as well */
    JOB_READY_BEFORE = 128, /* restored as a ready job: ready since ext->ready, which precedes its
                             * entry here; without struct job_ext, since created */
};

struct job {
    uint64_t id;
    uint32_t link; /* next in the chain of core->by_id */
    uint32_t self; /* its own reference */
    bide_buf *body;
    int64_t created;
    int64_t since; /* when it entered its state */
    int64_t due;   /* delayed: ready then; reserved: end of lease; done: end of retention */
    int64_t ttr;
    uint32_t topic;
    uint32_t ext; /* 0: none */
    uint32_t priority;
    uint32_t prev, next; /* in the list of its topic and state, or left and right in the tree */
    uint32_t body_size;
    uint8_t state; /* enum bide_state; GONE: unlinked, retained for the journal only */
    uint8_t flags;
    uint8_t undone; /* during a rollback: the state to which it returns */
    bool in_tree;   /* of struct job_list */
    uint32_t delay; /* the delay requested last; see bi_job_delay_ms() */
};

/* The delay is for display only and fits 32 bits: milliseconds up to 24 days, seconds up to 68
 * years. A longer delay is displayed as the longest possible one. */
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
    BI_JOB_COUNTERS(BI_JOB_DECLARE)
};

/* Counters saturate instead of wrapping to 0. */
static inline void count_up(uint32_t *counter)
{
    if (*counter < UINT32_MAX)
        ++*counter;
}

struct job_ext {
    uint32_t self;
    uint32_t job;
    uint32_t link; /* next in the chain of core->by_key */
    uint32_t lease_touches;
    struct timer timer;  /* boot-time clock: end of lease, end of retention */
    struct timer expiry; /* wall clock */
    uint64_t token;
    uint64_t key_hash;
    uint64_t order;      /* buried or done: increases with every entry */
    struct watch *watch; /* calls that wait for the end of the job; NULL: none */
    struct counters counters;
    /* Reserved, but the reserve has no reply yet, so the lease has not started. The times of the
     * job and of its last lease are still those from before the reservation, which can be
     * undone. */
    bool reply_pending;
    bool abandoned;     /* the op will not be replied to: the reservation is to be undone */
    uint8_t prev_state; /* the state before the reservation, ... */
    uint8_t prev_flags; /* ... and the flags that belong to that state only */
    BI_JOB_EXT(BI_JOB_DECLARE)
    BI_JOB_TIMES(BI_JOB_DECLARE) /* BI_NEVER: not yet */
    BI_JOB_EXT_BUFS(BI_JOB_DECLARE_BUF)
};

/* Makes the extension of a job empty, which means the same as none. */
void bi_job_ext_reset(struct job_ext *ext, const struct job *job);
/* Acquire and release the references to key, error, result, progress, history and holder. */
void bi_job_ext_ref_texts(const struct job_ext *ext);
void bi_job_ext_unref_texts(const struct job_ext *ext);
/* The same, and the body: the caller frees the job. */
void bi_job_unref_bufs(const struct core *core, const struct job *job);
/* Sum of the sizes of these six. */
uint64_t bi_job_ext_text_size(const struct job_ext *ext);
/* Replaces a text, takes ownership of the new reference and adjusts core->memory. */
void bi_job_ext_set_text(struct core *core, bide_buf **dst, bide_buf *text);

/*
 * The jobs of one topic and state, in order of entry. A job that a failed commit returns to its
 * state belongs somewhere in the middle; finding that place in a list would take a walk of any
 * length. Such a job is in a treap beside the list (O(log n) per step) until it leaves the state.
 */
struct job_list {
    uint32_t head, tail;
    uint32_t root;
    uint32_t count; /* in list and tree */
};

/* The key by which a list is ordered: burials and results by their order, reserved jobs by the
 * number of their reservation, others by the time at which they entered the state. */
uint64_t bi_job_list_order(const struct core *core, const struct job *job);
/* A time as such a key. Times may be negative: with the sign bit flipped they compare as unsigned
 * numbers. */
static inline uint64_t bi_job_time_order(int64_t time)
{
    return (uint64_t)time ^ (UINT64_C(1) << 63);
}
/* Returns the job that entered first, NULL if the list is empty. */
struct job *bi_job_list_oldest(const struct core *core, const struct job_list *list);
/* Iterates over all jobs, first those of the list, then those of the tree. Begins with NULL,
 * ends with NULL. */
struct job *bi_job_list_next(const struct core *core, const struct job_list *list,
                             const struct job *job);

/* ---- allocation ---- */

/* Allocates a job of the topic, in no state, and counts it as a member. NULL when out of memory. */
struct job *bi_job_new(struct core *core, uint32_t topic, uint64_t id);
/* Frees a job that is in no state. May destroy its topic. */
void bi_job_free(struct core *core, struct job *job);

/* Returns the extension, allocated now if the job has none; NULL when out of memory. Callers
 * call this before their first change: an empty extension that is left behind does no harm. */
struct job_ext *bi_job_ensure_ext(struct core *core, struct job *job);

/* Removes a job from the table of keys, and inserts it again; both for a job of any state, and both
 * do nothing if that is done already, or the job has no key. */
void bi_job_release_key(struct core *core, struct job *job);
void bi_job_hold_key(struct core *core, struct job *job);

/* Moves a job that is in no state to another topic, where the caller has reserved room. May
 * destroy the old topic. */
void bi_job_move(struct core *core, struct job *job, uint32_t topic);

/* ---- the state ---- */

/* Returns since when a ready job is ready: in this queue, or before it was restored into it. */
int64_t bi_job_ready_since(const struct core *core, const struct job *job);

/* Removes a job from the list, heaps and timers of its state. The caller must enter another one. */
void bi_job_leave(struct core *core, struct job *job);

/* Removes a job from its state and from the tables of ids and keys. The state is then GONE; the
 * caller frees the job, or the journal retains it, or bi_job_enter_restored() links it again. */
void bi_job_unlink(struct core *core, struct job *job);

/*
 * Enters a state, from no state. The caller has set due time, lease and so on; bi_job_enter() sets
 * since and appends to the list. bi_job_enter_restored() leaves since and the position in the
 * order as they were: for undo and rollback. Cannot fail.
 */
void bi_job_enter(struct core *core, struct job *job, bide_state state);
void bi_job_enter_restored(struct core *core, struct job *job, bide_state state);

/* Enters the state of a stored job at the end of the list. If that is the wrong position, marks
 * the state in core->unsorted_states for load_sort.c. */
void bi_job_enter_loaded(struct core *core, struct job *job, bide_state state);
/* Moves a job to the front of the list of its state. */
void bi_job_move_to_front(struct core *core, struct job *job);

/* Remove and insert the job in the heap or timer set of its state, around a change of priority
 * or due time. The position in the list remains. */
void bi_job_heap_remove(struct core *core, struct job *job);
void bi_job_heap_insert(struct core *core, struct job *job);

/* True if a job may change from one state to the other. */
bool bi_job_may_enter(bide_state from, bide_state to);

#endif
