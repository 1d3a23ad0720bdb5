/* SPDX-License-Identifier: MIT */
/*
 * inside - what the files of the local backend share. Only they include this.
 *
 *     local.c      the lock, the clocks, running ops, opening and closing
 *     ticking.c    the timer thread: what is due, and kick and purge in slices
 *     commit.c     the commit thread, and the answers that are held for it
 *     undoing.c    a failed commit is undone, and which ops wait for that
 *     reading.c    the reader thread: bodies, and jobs that are wanted before they are loaded
 *     recovery.c   the slow thread: loading what was stored, and which ops wait for that
 *     care.c       and then backups and checks
 *     holds.c      only with -Dlock_stats=true: how long the lock is held
 */
#ifndef BI_INSIDE_H
#define BI_INSIDE_H

#include "backend/alarm.h"
#include "backend/local.h"
#include "backend/oplist.h"
#include "core/core.h"

#include <pthread.h>
#include <stdatomic.h>

/* A job whose row makes no sense, to be set aside. */
struct aside {
    struct aside *next;
    uint64_t id;
    char reason[80];
};

/* Ids that were loaded, or looked for, before the scan came to them. */
struct idset {
    uint64_t *ids; /* 0: a free place */
    size_t room, count;
    struct bi_secret secret;
};

#define BI_ORDER_MARKS 1024

struct recovery {
    bool running;       /* not everything is loaded */
    uint64_t below;     /* the first id of this life */
    uint64_t after;     /* everything up to this id is loaded */
    struct idset early; /* and these */
    bide_recovery progress;
    int64_t told;            /* when the callback was last called */
    struct op_list deferred; /* ops that wait for the end */
    uint32_t order;          /* of the last list of ops */
    /* How many topics the ops of either list name, by a hash of order and topic: what follows in
     * the same order and names such a topic waits behind them. Two alike cost only time. */
    uint32_t deferred_marks[BI_ORDER_MARKS];
    uint32_t wanting_marks[BI_ORDER_MARKS];
    pthread_cond_t over;          /* for the thread that opens the queue */
    struct bi_log_repeat failing; /* reads of the slow thread */
};

/* An op for which the reader reads: its bodies are so many, from the first on. */
struct reading {
    bide_op *op; /* NULL: it was answered meanwhile */
    size_t first, count;
};

/* A failed commit is being undone; see undoing.c. */
struct undoing {
    bool running;          /* the core is between two states */
    pthread_cond_t over;   /* it is not any more */
    struct op_list sliced; /* of local->sliced and local->lacking, what may have to end, too */
    struct op_list lacking;
    struct op_list waiting; /* ops that came meanwhile, in order */
};

/* How far a comparison of everything that is stored with the core has come; see care.c. */
struct comparison {
    uint64_t after;       /* rows up to this id are compared, */
    bool rows_done;       /* or all are; */
    uint64_t place;       /* then the jobs of the core before this place, */
    bool done;            /* or everything is */
    bool damaged;         /* a page of the file cannot be read */
    uint64_t differences; /* and the first of them */
    char first[BIDE_ERROR_SIZE];
};

/*
 * Which thread's turn it is to make calls, while several make them without a pause. Written with
 * the lock held; read without it by callers that decide whether to wait.
 */
struct turns {
    _Atomic(const void *) owner;   /* the thread that made the last call */
    _Atomic int64_t since;         /* when its first call in a row was */
    _Atomic int64_t last_call;     /* when its last one was */
    _Atomic int64_t crowded_until; /* until then others let the owner work */
    int64_t contended_at;          /* when a thread last found the lock taken by another, */
    unsigned contended;            /* and how often that happened in quick succession */
};

struct local {
    struct backend base;
    struct backend_context context;
    struct store *store;
    struct core *core;
    bool keeps;

    _Atomic unsigned starving; /* those who have waited long for the lock */
    pthread_mutex_t gate;      /* through which everybody goes while somebody starves */
    pthread_mutex_t lock;      /* guards everything below */
    struct op_list completed;  /* to be handed out when the lock is given back */
    struct bi_freed freed;     /* memory of the core, to be freed then */
    struct op_list sliced;     /* kicks and purges that the timer thread carries on with */
    unsigned kept;             /* ops with copies of their arguments */
    uint64_t backlog_ops;      /* ops that the core has not seen yet */
    uint64_t backlog_bytes;
    struct turns turns; /* of callers, on a store that keeps nothing */
    bool closing;
    int64_t wall_offset;
    int64_t offset_read; /* when it was last looked at */
    struct bi_alarm alarm;
    pthread_t timer_thread;

    /* commit.c */
    struct op_list held[BI_BATCHES_MAX]; /* answers, by the batch that they wait for */
    uint64_t held_ops;
    uint64_t held_bytes;
    pthread_cond_t room; /* fewer answers are held */
    unsigned queued;     /* callers that wait for room */
    pthread_cond_t left; /* such a caller has gone */
    pthread_cond_t work; /* for the commit thread */
    bool gave_up;      /* the time to close was over before all was stored; guarded by committing */
    bool deferred;     /* submit does not wake the commit thread: bi_local_commit() does */
    int64_t commit_us; /* how long the last commit took */
    atomic_llong
        commit_began, /* when the store was given a batch; 0: it has none. Takes no lock. */
        tidy_began;   /* and when it was asked to tidy up */
    bool committing;  /* a batch is being stored */
    bool last;        /* closing, and nothing more comes: the commit thread may end */
    int64_t tidy_at;  /* when the store wants to be tidied; BI_NEVER */
    int64_t wakes_at; /* when the commit thread looks after that by itself */
    bool stuck;       /* the outcome of the last commit is unknown: nothing is taken on */
    bool uncompared;  /* the store was opened again, and could not be read to compare it */
    int64_t uncompared_since;
    struct bi_batch doubted; /* the batch that is to be compared then */
    bool differs; /* the store does not hold what was acknowledged: nothing is taken on */
    char differs_text[BIDE_ERROR_SIZE];
    struct bi_log_repeat failing;    /* commits */
    struct bi_log_repeat unreadable; /* what is to be compared; guarded by committing */
    struct bi_batch unsettled;       /* that commit's; number 0: none */
    char stuck_text[BIDE_ERROR_SIZE];
    struct aside *asides;
    struct undoing undoing;
    pthread_t commit_thread;

    /* reading.c */
    struct op_list lacking; /* ops whose bodies are to be read */
    struct op_list wanting; /* ops that name jobs which are not loaded */
    struct reading *reads;  /* what is being read now */
    size_t read_count;
    unsigned fetching;   /* ops whose jobs are being fetched */
    bool reads_fail;     /* bodies could not be read the last time */
    int64_t read_at;     /* when a body was last read */
    pthread_cond_t read; /* for the reader thread */
    pthread_t reader_thread;

    /* recovery.c, care.c */
    struct recovery recovery;
    struct op_list chores; /* backups and checks */
    bide_op *chore_op;     /* the one that is being done */
    bide_op *checking;     /* the check among them, or that is being done: there is one at a time */
    pthread_cond_t chore;
    bool rest_wanted;       /* after a failed write: everything is to be compared */
    bool rest_running;      /* and this has begun */
    int64_t rest_due;       /* when it begins, or goes on */
    int64_t rest_ended;     /* the last one did; 0: there was none */
    int64_t rest_pause;     /* between the last one and this */
    struct comparison rest; /* the slow thread's */
    struct bi_log_repeat rest_failing;
    pthread_t slow_thread;
};

/* In private_.flags: the owner has asked for the op to be given up when it could not be, because
 * its job or its bodies are being read. If it would then have to wait, it ends. */
#define BI_CANCEL_ASKED 2048
/* In private_.flags: the op has been carried out, and its answer is held for a commit. */
#define BI_HELD 4096
/* In private_.flags: it waits for the end of the loading, and not only for the jobs that it names. */
#define BI_DEFERRED 8192

/* ---- local.c ---- */

struct bi_now bi_local_clocks(struct local *local);
/* Takes the lock when no failed commit is being undone: the core may be used. */
void bi_local_lock(struct local *local);
/* The same while one may be, for threads that must not wait; see undoing.c. */
void bi_local_acquire(struct local *local);
/* Gives the lock back and hands out what has completed. */
void bi_local_unlock(struct local *local);
int bi_local_refuse(bide_op *op, int code, const char *text);
/* Sets the alarm if the next deadline has moved nearer, and wakes the threads that have work. */
void bi_local_look_ahead(struct local *local);
/* An op that is not pending in the core any more has its code: it is read for, held or completed. */
void bi_local_answer(struct local *local, bide_op *op, int code);
/* Runs an op that had to wait before it could be run. */
void bi_local_resume(struct local *local, bide_op *op);
/* The same for one that waited for a failed commit to be undone: it may be refused now. */
void bi_local_run_late(struct local *local, bide_op *op);
/* The op waits in the core now; if its owner has asked for that meanwhile, it does not. */
void bi_local_waits(struct local *local, bide_op *op);
/* Completes an op with a code and its general sentence. */
void bi_local_end(struct local *local, bide_op *op, int code);
/* Keeps the arguments of an op that will be run later; false when out of memory. */
bool bi_local_keep(struct local *local, bide_op *op);
/* Can the owner of the op be told later? */
bool bi_local_can_wait(const bide_op *op);
/*
 * Keeps an op that the core must not see yet: BIDE_PENDING, and the caller adds it to a list of its own.
 * The text is the answer to an op whose owner cannot be told later.
 */
int bi_local_backlog_add(struct local *local, bide_op *op, const char *text);
/* To be called when such an op leaves that list. */
void bi_local_backlog_remove(struct local *local, const bide_op *op);

/* Each thread is given the struct local as its argument. */

/* ---- ticking.c ---- */

void *bi_ticking_run(void *arg);
/* A kick or purge has more to do: it goes on in the background, if its owner can be told. */
int bi_ticking_slices(struct local *local, bide_op *op);
/* Is there a sliced op that may go on, as far as the store goes? */
bool bi_ticking_may_slice(const struct local *local);
/* Fires what is due, a bounded number of events. True if there is more. */
bool bi_ticking_tick(struct local *local, struct bi_now now);
/* Between two ops of a list: lets others have the lock if those since *work (0 at first) have taken
 * long. */
void bi_ticking_share(struct local *local, uint64_t *work, struct bi_now *now);
/* The sliced ops of which a part was undone end here. This, and its like below, goes on until a moment
 * of the boot-time clock; true if there is more to do. */
bool bi_ticking_fail(struct local *local, int code, const char *error, int64_t until);
void bi_ticking_end(struct local *local);

/* ---- commit.c ---- */

void *bi_commit_run(void *arg);
/* Waits for the end of that thread. If the time to close is over before, the log says so: a sync cannot
 * be interrupted. */
void bi_commit_join(struct local *local);
bool bi_commit_must_hold(const struct local *local, const bide_op *op);
void bi_commit_hold(struct local *local, bide_op *op);
/* May the op be run, as far as holding its answer goes? Waits for room, if the op can wait. */
int bi_commit_room(struct local *local, bide_op *op, struct bi_now *now);
/* A caller that waits for its own op stores the batch itself, if nobody else is doing so. The lock
 * is held. */
void bi_commit_lead(struct local *local);
/*
 * Has the owner given up an op that is to be answered with a job? What a reserve took can be given
 * back; a job that was reserved by its id may have been buried or delayed, and only to undo the
 * reservation brings that back.
 */
static inline bool bi_commit_is_unwanted(const bide_op *op)
{
    return op->kind == BIDE_OP_RESERVE_JOB && op->private_.status == BIDE_OK &&
           (op->private_.flags & BI_CANCEL_ASKED) != 0;
}
/* The answer of an op that has succeeded becomes this error. A finish that is stored stays as it is. */
void bi_commit_take_back(const struct local *local, bide_op *op, int code, const char *error);
/* Every held answer, of any batch, becomes this one. True if there are more. */
bool bi_commit_fail_held(struct local *local, int code, const char *error, int64_t until);
/* A row that makes no sense, to be set aside in the store. */
void bi_commit_set_aside(struct local *local, uint64_t id, const char *reason);

/* ---- undoing.c ---- */

/* Must an op that comes now wait? */
bool bi_undoing_must_wait(const struct local *local);
/* Then it does: BIDE_PENDING, or it is refused. */
int bi_undoing_wait(struct local *local, bide_op *op);
/* Runs some of those that wait; true if there are more. When the queue closes they are refused. */
bool bi_undoing_run_waiting(struct local *local);
/*
 * Rolls back what is not stored, unless it is unknown how the commit went, and gives every answer that
 * waits for a commit this code; then the ops that came meanwhile may be run. The lock is held at the
 * call and at the return; if there is much to do, others get it in between.
 */
void bi_undoing_run(struct local *local, bool roll_back, int code, const char *error);

/* ---- reading.c ---- */

void *bi_reading_run(void *arg);
/* The op lacks bodies: they are read, and then it is answered. */
void bi_reading_add(struct local *local, bide_op *op);
/* Ends those of its ops that saw what could not be stored. True if there are more. */
bool bi_reading_fail(struct local *local, int code, const char *error, int64_t until);

/* ---- recovery.c ---- */

void *bi_recovery_run(void *arg);
/* A list of ops is about to be run: they have one order, unless their owner has said another. */
void bi_recovery_order(struct local *local, bide_op *const *ops, size_t n);
/* BIDE_OK: the op may be run. BIDE_PENDING: it is run later. Else it is refused. */
int bi_recovery_gate(struct local *local, bide_op *op);
/* Loads the jobs that an op names. Called by the reader thread, without the lock. BIDE_OK, or the
 * store's code with the op's sentence written: then nobody knows whether they exist. */
int bi_recovery_fetch(struct local *local, bide_op *op);
/* An op that the gate let wait does so no more. */
void bi_recovery_leave(struct local *local, bide_op *op);
/* Everything up to now that waits for recovery is ended. */
void bi_recovery_end(struct local *local);
bool bi_recovery_cancel(struct local *local, bide_op *op);
/* Is it loaded, as far as that can be said? */
bool bi_recovery_knows(const struct local *local, uint64_t id);

/* ---- care.c ---- */

/* Does the slow thread have to do this op? */
bool bi_care_is_chore(const struct local *local, const bide_op *op);
void bi_care_do(struct local *local, bide_op *op);
/* Hands a chore to the slow thread: BIDE_PENDING, or why not. */
int bi_care_add(struct local *local, bide_op *op);
/* Ends a check; false if the op is not one that is under way. */
bool bi_care_cancel(struct local *local, bide_op *op);
/* Compares the rows of the jobs of a batch with the core. A difference is noted. BIDE_OK, or the
 * code of a store that cannot be read now. Without the lock. */
int bi_care_compare_batch(struct local *local, const struct bi_batch *batch, char *error);
/* All the rest is to be compared while the queue serves. The lock is held. */
void bi_care_want_comparison(struct local *local);
/* The next moment at which the comparison goes on; BI_NEVER: there is none. The lock is held. */
int64_t bi_care_next(const struct local *local);
/* Compares some more. On the slow thread, without the lock. */
void bi_care_go_on(struct local *local);

/* ---- holds.c ---- */

#ifdef BIDE_LOCK_STATS
#include "backend/holds.h"

#define pthread_mutex_lock(mutex)             bi_holds_lock((mutex), __func__)
#define pthread_mutex_trylock(mutex)          bi_holds_trylock((mutex), __func__)
#define pthread_mutex_timedlock(mutex, until) bi_holds_timedlock((mutex), (until), __func__)
#define pthread_mutex_unlock(mutex)           bi_holds_unlock((mutex), __func__)
#define pthread_cond_wait(condition, mutex)   bi_holds_wait((condition), (mutex), __func__)
#define pthread_cond_timedwait(condition, mutex, until) \
    bi_holds_timedwait((condition), (mutex), (until), __func__)
#define bi_local_lock(local) \
    (bi_holds_caller(__func__), (bi_local_lock)(local), bi_holds_caller(NULL))
#define bi_local_acquire(local) \
    (bi_holds_caller(__func__), (bi_local_acquire)(local), bi_holds_caller(NULL))
#define bi_local_unlock(local) \
    (bi_holds_caller(__func__), (bi_local_unlock)(local), bi_holds_caller(NULL))
#else
#define bi_holds_op(name) ((void)0)
#define bi_holds_report() ((void)0)
#endif

#endif
