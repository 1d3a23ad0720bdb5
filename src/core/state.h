/* SPDX-License-Identifier: MIT */
/*
 * state - what the core consists of. Only files of src/core include this.
 *
 * The files op_*.c hold one function per op, of the type op_run. job.c and topic.c keep the
 * structures right; waiter.c serves those who wait; journal.c remembers what must be stored;
 * event.c feeds those who listen.
 */
#ifndef BI_STATE_H
#define BI_STATE_H

#include "core/cache.h"
#include "core/core.h"
#include "core/event.h"
#include "core/job.h"
#include "core/journal.h"
#include "core/table.h"
#include "core/timer.h"
#include "core/token.h"
#include "core/topic.h"
#include "core/waiter.h"
#include "util/pool.h"
#include "util/secret.h"

/* What a timer does when it fires. */
enum timer_kind {
    TIMER_LEASE,
    TIMER_RETENTION,
    TIMER_EXPIRY,
    TIMER_DUE_MONO,
    TIMER_DUE_WALL,
    TIMER_PAUSE,
    TIMER_WAITER,
    TIMER_ORDER, /* never fires: it only keeps an order */
    TIMER_KINDS
};

/* How many jobs a sliced op treats at a time. */
#define SLICE 1000

/* In private_.flags of a sliced op: it has begun; with delayed jobs; which are in a kick set.
 * (1 is BI_LACKS_BODY.) */
enum { SLICING = 2, SLICING_DELAYED = 4, SLICING_APART = 8, SLICING_CHECK = 16 };

/* What a job takes besides its body and struct more: itself, its places in heap and table. */
#define JOB_COST (sizeof(struct job) + 24 + 24)
/* What struct more takes: itself, and its places in the heaps of timers, which have room to spare. */
#define MORE_COST (sizeof(struct more) + (size_t)2 * 36)
/* What a job may take on top of that: places in a second heap of its topic, room to spare in the first,
 * a place in the cache, and what the allocator adds to the body. */
#define JOB_SLACK 88

/*
 * What the table of names needs to know of every topic, by reference. It lies apart from the topics: the
 * table looks at others than the one that is made or looked for, and each would come into the cache for
 * nothing.
 */
struct topic_name {
    uint32_t hash; /* the lower half */
    uint32_t link; /* in the table */
};

struct topic_names {
    struct topic_name *all;
    uint32_t room;
};

/*
 * The topics by serial, for listing, in pages: a topic that goes moves the entries of its page only,
 * and pages that become rather empty are merged.
 */
#define TOPIC_PAGE 256

struct topic_entry {
    uint64_t serial;
    uint32_t topic;
};

struct topic_page {
    uint32_t count;
    struct topic_entry entries[TOPIC_PAGE];
};

struct topic_page_link {
    uint64_t from; /* above the serials of the page before, and none in this one is smaller */
    struct topic_page *page;
};

struct topic_pages {
    struct topic_page_link *all;
    size_t count, room;
};

struct core {
    struct bi_limits limits;
    struct bi_alloc alloc;
    void (*complete)(void *ctx, bide_op *op);
    void *ctx;

    struct bi_now now;   /* of the call that is running */
    int64_t stamp_floor; /* later than the bound of every sliced op that has begun */
    int64_t born;
    bool draining;
    bool recovering;
    uint64_t unloaded;    /* stored jobs that are still to be loaded, as far as is known */
    bool ordered;         /* and yet every list is in order */
    uint64_t retire_next; /* results of topics with smaller serials have been limited */
    bool closed;          /* no call may wait or take jobs any more */
    uint64_t next_id;
    uint64_t next_token; /* the number of the next reservation */
    struct bi_tokens tokens;
    uint64_t next_order;  /* of burials and results */
    uint64_t first_order; /* of this life; loaded ones are smaller, and so are their tokens */
    uint64_t lease_from;  /* stored leases are good from this token on */
    bool keep_leases;     /* all leases outlive the process, not only those of an earlier one */
    struct {
        bool begun;
        bool failed;     /* a commit failed since */
        uint64_t serial; /* of the topic where it goes on, with this job (0: its first) */
        uint32_t job;
    } interrupt;        /* how far bi_core_interrupt() has come */
    uint64_t next_call; /* numbers waiting calls */
    uint64_t next_turn; /* numbers fair choices */
    struct bi_random random;
    struct bi_secret name_secret, id_secret; /* of the tables */
    struct bi_permutation cursors;           /* hides places in the table of ids */

    struct pool jobs, mores, topics;
    uint32_t *slots; /* where each job sits in the ready or due heap of its topic, by reference */
    uint32_t slot_room;
    struct table by_id, by_name, by_key;
    struct timers mono, wall;
    struct timers calls; /* of waiting calls, on the boot-time clock; exact with every ticker */
    bool mono_turn;      /* the last timer that fired in a tick that is not over was one of wall */
    struct timers ages;  /* topics by their oldest ready job */
    struct timers serving; /* topics with ready jobs, by who has waited longest for them */

    struct topic_names names;
    struct topic_pages pages;
    uint64_t next_serial;
    uint32_t recent_topic; /* found last */
    struct {
        uint64_t hash;
        size_t size;
        char name[BIDE_TOPIC_MAX];
    } hashed; /* the name that was hashed last */

    struct waiters waiters;
    bool unserved;           /* some could be served, but it would have taken too long */
    const bide_op *checking; /* the check that is under way; there is one at a time */
    uint64_t work; /* ops, topics, links of calls that wait, and jobs taken or looked at */
    struct feeds feeds;
    struct cache cache;
    bool lacking;        /* the op that is running showed a job without its body */
    unsigned disordered; /* states (as bits) whose lists were loaded out of order */
    struct journal journal;
    uint64_t hold; /* of the op that is running */

    uint64_t counts[BIDE_STATE_DONE + 1];
    uint64_t urgent;
    bide_counters total;
    uint64_t memory;
};

static inline struct job *job_at(const struct core *core, uint32_t ref)
{
    return ref == 0 ? NULL : bi_pool_at(&core->jobs, ref);
}

static inline struct more *more_of(const struct core *core, const struct job *job)
{
    return job->more == 0 ? NULL : bi_pool_at(&core->mores, job->more);
}

static inline struct topic *topic_at(const struct core *core, uint32_t ref)
{
    return ref == 0 ? NULL : bi_pool_at(&core->topics, ref);
}

static inline struct topic *topic_of(const struct core *core, const struct job *job)
{
    return bi_pool_at(&core->topics, job->topic);
}

/*
 * The moment at which a job comes into its state. It differs from the clock only in the microsecond
 * in which a sliced op began: what comes after the op in it must be told apart from what it found.
 */
static inline int64_t bi_core_stamp(const struct core *core)
{
    return core->now.mono < core->stamp_floor ? core->stamp_floor : core->now.mono;
}

/* Which reservation the lease is: later ones have larger numbers, over restarts too. */
static inline uint64_t bi_core_number(const struct core *core, const struct more *more)
{
    return bi_token_number(&core->tokens, more->token);
}

/* Does the holder of this lease outlive the process? */
static inline bool bi_lease_outlives(const struct core *core, const struct more *more)
{
    return core->keep_leases || bi_core_number(core, more) < core->first_order;
}

/* Counts in the topic and in the queue. */
#define COUNT(core, topic, what) ((topic)->total.what++, (core)->total.what++)

/* How much a step may do before others get their turn: some milliseconds. */
#define STEP_WORK 50000
/* What an op, or an item of one, counts at least. */
#define OP_WORK 5

typedef int (*op_run)(struct core *core, bide_op *op);

#define BI_OP_DECLARE(NAME, name, member) int bi_op_##name(struct core *core, bide_op *op);
BIDE_OPS(BI_OP_DECLARE)
#undef BI_OP_DECLARE

/* Writes the op's sentence and answers its code. */
int bi_op_refuse(bide_op *op, int code, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/* The same with the general sentence of the code. */
int bi_op_answer(bide_op *op, int code);
/* The same for a code that may tell of a limit: which, and its value. */
int bi_op_limited(const struct core *core, bide_op *op, int code);
/* What many ops have to say: there is no such job; it is reserved; it is in a state that does not
 * allow this. */
int bi_op_no_job(bide_op *op, uint64_t id);
int bi_op_reserved(bide_op *op, const struct job *job);
int bi_op_wrong_state(bide_op *op, const struct job *job);

static inline uint64_t bi_core_id_hash(const struct core *core, uint64_t id)
{
    return bi_secret_hash_u64(&core->id_secret, id);
}

/* A job by id, NULL if there is none. */
struct job *bi_core_lookup(const struct core *core, uint64_t id);

/* The same for an op that runs: either way its answer holds for the last change of the job. */
struct job *bi_core_find(struct core *core, uint64_t id);

/* The holder of a key, or NULL. */
struct job *bi_core_find_key(const struct core *core, const struct topic *topic, bide_slice key);
uint64_t bi_core_key_hash(const struct core *core, const struct topic *topic, bide_slice key);

/* ---- what several ops and timers do to a job; all of them journal, count and tell ---- */

/* Removes a job for good. */
int bi_core_remove(struct core *core, struct job *job, bide_event_kind why);
/* After a failure: backoff (retry_in < 0) or retry_in, or burial at the limit. */
void bi_core_retry(struct core *core, struct job *job, int64_t retry_in, bide_event_kind why);
/* Ready now, or delayed on the boot-time clock. */
void bi_core_return(struct core *core, struct job *job, int64_t delay);
void bi_core_bury(struct core *core, struct job *job, int64_t priority);
/* Back to the state from which a reservation that has no answer took it, and to its place there. */
void bi_core_put_back(struct core *core, struct job *job);

/* The reservation itself: job is ready, delayed or buried. BIDE_OK or BIDE_ENOMEM. */
int bi_core_take(struct core *core, struct job *job);
/* The part of a reserve that several ops share: args are in op's own memory. */
int bi_core_reserve(struct core *core, bide_op *op, bide_reserve_args *args);
/* Takes what is ready in the topics, up to args->job_max; answers args->count. */
size_t bi_core_take_some(struct core *core, bide_reserve_args *args,
                         const struct waiter_link *links, size_t link_count);
/* The room in which an op reserves, or NULL. */
static inline bide_reserve_args *bi_op_reserve_args(bide_op *op)
{
    return op->kind == BIDE_OP_RESERVE              ? &op->reserve
           : op->kind == BIDE_OP_FINISH_AND_RESERVE ? &op->finish_and_reserve.reserve
                                                    : NULL;
}

/* What the jobs that are there may still come to take: a full queue can always be worked off, so every
 * reserve and kick must find the memory that it needs. Jobs that are still to be loaded count like new
 * ones without a body: a restart must not let more into a full queue. */
static inline uint64_t bi_core_promised(const struct core *core)
{
    return core->jobs.used * JOB_SLACK + (core->jobs.used - core->mores.used) * MORE_COST +
           core->unloaded * (JOB_COST + MORE_COST + JOB_SLACK);
}

/* Would so many bytes more be too many? */
static inline bool bi_core_is_full(const struct core *core, uint64_t bytes)
{
    return core->limits.max_memory != 0 &&
           core->memory + bi_core_promised(core) + bytes > core->limits.max_memory;
}

/* Drops the oldest results of a topic that has too many, at most so many; answers how many. A result
 * more makes one too many; if there are others, a step drops more than came. */
unsigned bi_core_limit_done(struct core *core, struct topic *topic, unsigned most);
#define BI_DONE_STEP 2

/* One job of finish_many, finish_and_reserve, or a finishing op of its own. */
int bi_core_finish(struct core *core, bide_op *op, bide_finish_item *item);

/* Fills a snapshot. */
void bi_core_snapshot(struct core *core, const struct job *job, bide_job *out, bool with_body);

/* How many bytes of body, error text and result a snapshot of the job shows. */
uint64_t bi_core_shown_size(const struct core *core, const struct job *job, bool with_body);

/* May a page that shows these bytes already show that many more? */
bool bi_core_page_fits(const struct core *core, uint64_t bytes, uint64_t more);

/* Gives a snapshot its body, whose reference it takes over; takes it away again. */
void bi_snapshot_body(bide_job *out, bide_buf *body);
void bi_snapshot_strip(bide_job *out);

/* Takes the bodies out of a page that was to come without them. */
void bi_list_strip(bide_list_args *args);

/*
 * A lease runs from the answer of its reserve. With a journal a job is taken without one: when the op
 * is answered, at once or after a commit, bi_core_begin_leases() or bi_core_answered() begins it.
 */
void bi_core_begin_leases(struct core *core, bide_op *op);
/* The job of a reservation that still stands, or NULL. */
struct job *bi_core_held_job(const struct core *core, const bide_job *shown);
/* The moments of a lease that begins now; the timer is set apart. */
static inline void bi_lease_begin(const struct core *core, struct job *job, struct more *more)
{
    more->unanswered = false;
    more->reserved = core->now.mono;
    if (more->lease_touches == 0)
        more->touched = BI_NEVER;
    job->since = bi_core_stamp(core);
    job->due = core->now.mono + job->ttr;
}
/* When the lease of a reserved job began, and when it was last touched. One that has not begun is
 * shown, stored and measured as one that begins now. */
static inline int64_t bi_lease_began(const struct core *core, const struct more *more)
{
    return more->unanswered ? core->now.mono : more->reserved;
}
static inline int64_t bi_lease_touched(const struct more *more)
{
    return more->unanswered && more->lease_touches == 0 ? BI_NEVER : more->touched;
}
/* Undoes a reservation that has no answer: the job is again what it was, and nothing is counted. */
void bi_core_undo_reserve(struct core *core, struct job *job);

/* The delayed job of a topic that comes due first, whichever clock it follows, of those delayed by a
 * moment (BI_NEVER: of all); NULL for none. */
struct job *bi_core_soonest(struct core *core, const struct topic *topic, int64_t bound);

/* Cursors of pages: a letter and numbers. An empty one leaves the numbers alone. */
bool bi_cursor_read(const char *cursor, char letter, uint64_t *numbers, int count);
void bi_cursor_write(char *cursor, char letter, const uint64_t *numbers, int count);

/* What is done when a timer of each kind fires. */
void bi_fire_lease(struct core *core, struct timer *timer);
void bi_fire_retention(struct core *core, struct timer *timer);
void bi_fire_expiry(struct core *core, struct timer *timer);
void bi_fire_due_mono(struct core *core, struct timer *timer);
void bi_fire_due_wall(struct core *core, struct timer *timer);
void bi_fire_pause(struct core *core, struct timer *timer);
void bi_fire_waiter(struct core *core, struct timer *timer);

/* Milliseconds to microseconds and back; from_us_up rounds up, as deadlines do. */
static inline int64_t us_of(int64_t ms)
{
    return ms * 1000;
}

static inline int64_t ms_down(int64_t us)
{
    return us >= 0 ? us / 1000 : -((-us + 999) / 1000);
}

static inline int64_t ms_up(int64_t us)
{
    return us <= 0 ? 0 : (us + 999) / 1000;
}

/* A moment of the boot-time clock as the wall clock shows it now, and back. */
static inline int64_t wall_of(const struct core *core, int64_t mono)
{
    return mono + (core->now.wall - core->now.mono);
}

static inline int64_t mono_of(const struct core *core, int64_t wall)
{
    return wall - (core->now.wall - core->now.mono);
}

/* How long ago a moment was; after the wall clock has been set back between two runs a stored one
 * may lie ahead. */
static inline int64_t age_of(const struct core *core, int64_t mono)
{
    return mono < core->now.mono ? core->now.mono - mono : 0;
}

#endif
