/* SPDX-License-Identifier: MIT */
/*
 * local_internal - a queue in this process: the core and a store, with a lock and threads around
 * them. Only the files of this folder and their tests include this header.
 *
 * Apply, commit, reply. An op changes the core at once, under the lock. With a persistent store the
 * change belongs to the open batch, and the op is held until that batch is durable; while one batch
 * is written, the next one gathers. With a store in memory no op is held, and there is no commit
 * thread. If a batch cannot be written, the core is rolled back to what is stored, and every held
 * op completes with the error.
 *
 *     local_backends.c memory: and sqlite:PATH, the two backends
 *     local_open.c     opening and closing
 *     local_lock.c     the lock, the turns of callers, the clocks
 *     local.c          running and completing ops
 *     timer_thread.c   the timer thread: deadlines, and its sleep until the next one
 *     sliced_op.c      kick and purge in slices, on the timer thread
 *     commit.c         the commit thread, and the ops that are held for a commit
 *     rollback.c       undoing a failed commit, and the ops that wait for that
 *     body_reader.c    the reader thread: bodies, and jobs that are named before they are loaded
 *     recovery.c       the maintenance thread: loads stored jobs; the ops that wait for that
 *     maintenance.c    then, on the same thread: backups and checks
 *     store_verify.c   and the comparison of the store with the core
 *     lock_stats.c     only with -Dlock_stats=true: how long the lock is held
 *
 * The path of an op. bi_local_submit() runs it under the lock: it is rejected, or it waits for a
 * rollback (rollback.waiting), for recovery (recovery.deferred, awaiting_job) or for the
 * maintenance thread (maintenance_ops), or the core runs it. An op that the core has run may lack
 * bodies (awaiting_body), then be held until its changes are durable (held), and then it is in
 * `completed`. bi_local_unlock() delivers that list after it has released the lock, because
 * completion calls code of the application.
 *
 * Threads    Four threads (a store that is not persistent has the timer thread only) and any number
 *            of callers share one lock. It is never held over I/O. Long work is cut into slices of
 *            about a millisecond.
 * Ordering   The turnstile is taken before the lock, and released while the lock is held.
 */
#ifndef BI_LOCAL_INTERNAL_H
#define BI_LOCAL_INTERNAL_H

#include "backend/backend.h"
#include "core/core.h"
#include "op/op_fifo.h"
#include "store/store.h"

#include <assert.h>
#include <pthread.h>
#include <stdatomic.h>

/* An invalid row that the commit thread is to quarantine. */
struct quarantined {
    struct quarantined *next;
    uint64_t id;
    char reason[80];
};

/* Ids that were fetched, found or not, before the scan reached them. */
struct id_set {
    uint64_t *ids; /* 0: a free slot */
    size_t capacity, count;
    struct bi_hash_secret secret;
};

/* Pending ops of one kind, and the bytes of their bodies. */
struct op_count {
    uint64_t ops, bytes;
};

static inline void bi_op_count_add(struct op_count *count, const bide_op *op)
{
    count->ops++;
    count->bytes += op->private_.bytes;
}

static inline void bi_op_count_remove(struct op_count *count, const bide_op *op)
{
    assert(count->ops > 0 && count->bytes >= op->private_.bytes);
    count->ops--;
    count->bytes -= op->private_.bytes;
}

#define BI_ORDER_BUCKETS 1024

struct recovery {
    bool running;               /* not all jobs are loaded, or deferred ops are left */
    uint64_t first_new_id;      /* the first id that this process assigns */
    uint64_t after;             /* all ids up to this one are loaded, */
    struct id_set loaded_early; /* and these */
    bide_recovery progress;
    int64_t reported_at;     /* when the progress handler was last called */
    struct op_fifo deferred; /* ops that wait for the end of recovery */
    uint32_t order;          /* of the last list of ops */
    /* The number of waiting ops of either list that name a topic, by a hash of order and topic. A
     * later op of the same order that names such a topic waits behind them. A hash collision costs
     * only time. */
    uint32_t deferred_topics[BI_ORDER_BUCKETS];
    uint32_t awaiting_job_topics[BI_ORDER_BUCKETS];
    pthread_cond_t finished;         /* the thread that opens the queue waits for it */
    struct bi_log_limit failure_log; /* of failed scans */
};

/* An op whose bodies are being read: count bodies of the read batch, from the first on. */
struct body_read {
    bide_op *op; /* NULL: it completed meanwhile */
    size_t first, count;
};

/* The undoing of a failed commit; see rollback.c. */
struct rollback {
    bool running;            /* the core is in an intermediate state */
    pthread_cond_t finished; /* running became false */
    struct op_fifo sliced;   /* ops of local->sliced and local->awaiting_body still to be checked */
    struct op_fifo awaiting_body;
    struct op_fifo waiting; /* ops that were submitted meanwhile, in order */
};

/* The progress of a comparison of all stored jobs with the core; see store_verify.c. */
struct verification {
    uint64_t after;       /* rows up to this id are compared, */
    bool rows_done;       /* or all rows; */
    uint64_t cursor;      /* then the jobs of the core before this position, */
    bool done;            /* or everything */
    bool damaged;         /* a page of the file cannot be read */
    uint64_t differences; /* their number, and the first of them */
    char first[BIDE_ERROR_SIZE];
};

/*
 * Whose turn it is when several threads submit without a pause; see local_lock.c. Written with the
 * lock held. Callers that decide whether to wait read it without the lock: a stale value is
 * harmless, because only the mutex excludes threads.
 */
struct turns {
    _Atomic(const void *) owner;     /* the thread of the last call */
    _Atomic int64_t since;           /* when it made its first call in a row */
    _Atomic int64_t last_call;       /* when its last call is expected to end */
    _Atomic int64_t contended_until; /* until then other threads wait for the owner */
    int64_t contended_at;            /* when a thread last found the lock taken, */
    unsigned contended;              /* and how often that happened in quick succession */
};

/*
 * The sleep of the timer thread: until a time of either clock, or until it is notified. One timerfd
 * is on the boot-time clock, the other on the wall clock; the latter also wakes when the wall clock
 * is set. A caller that brings an earlier deadline arms the timer itself, without waking the
 * thread.
 */
struct wakeup {
    int boot_fd, wall_fd, notify_fd;
    int64_t boot_at, wall_at; /* when the timers fire; INT64_MAX: not armed */
    int64_t min, max;         /* the shortest and longest sleep (0: no limit), us */
    int64_t boot_not_before;  /* the end of the shortest sleep, on both clocks */
    int64_t wall_not_before;
};

struct local {
    struct backend base;
    struct backend_context context;
    struct store *store;
    struct core *core; /* guarded by lock */
    bool persistent;   /* the store is: there are commits, a reader and recovery */

    _Atomic unsigned starving;      /* threads that have waited long for the lock */
    pthread_mutex_t turnstile;      /* all threads pass through it while starving is not 0 */
    pthread_mutex_t lock;           /* guards everything below, unless it says otherwise */
    struct op_fifo completed;       /* delivered by bi_local_unlock() */
    struct bi_alloc_deferred freed; /* memory of the core, freed by bi_local_unlock() */
    struct op_fifo sliced;          /* kicks, purges and checks that the timer thread continues */
    unsigned args_dups;             /* ops with copies of their arguments */
    struct op_count backlog;        /* ops that wait before the core has run them */
    struct turns turns;             /* of callers, with a store that is not persistent */
    bool closing;
    int64_t wall_offset;    /* wall clock minus boot-time clock */
    int64_t wall_offset_at; /* when it was last checked */
    struct wakeup wakeup;
    pthread_t timer_thread;

    /* commit.c */
    struct op_fifo held[BI_BATCHES_MAX]; /* ops that wait for a commit, by batch */
    struct op_count held_count;
    pthread_cond_t below_limit;        /* the number of pending ops has decreased */
    unsigned blocked_callers;          /* callers that wait for below_limit */
    pthread_cond_t no_blocked_callers; /* blocked_callers became 0 */
    pthread_cond_t commit_work;        /* the commit thread waits for it */
    bool deadline_logged;   /* that the close deadline has passed; guarded by committing */
    bool commit_on_request; /* submit does not wake the commit thread; bi_local_commit() does */
    int64_t last_commit_us; /* the duration of the last commit; guarded by committing */
    atomic_llong
        commit_started_at, /* when the store was passed a batch; 0: none. Read without the lock. */
        maintain_started_at; /* the same for maintenance of the store */
    bool committing;         /* a thread uses the store's write side; see commit.c */
    bool final;              /* closing, and no op will follow: the commit thread may end */
    int64_t maintain_at;     /* when the store wants maintenance; BI_NEVER */
    int64_t commit_wakes_at; /* when the commit thread wakes by itself; 0: it is awake */
    bool in_doubt;           /* the outcome of the last commit is unknown: ops are rejected */
    bool unverified;         /* the store was reopened and could not be read for a comparison */
    int64_t unverified_since;
    struct bi_batch unverified_batch; /* the batch to be compared */
    bool diverged;                    /* the store lacks what was acknowledged: ops are rejected */
    char diverged_error[BIDE_ERROR_SIZE];
    struct bi_log_limit failure_log;      /* of failed commits */
    struct bi_log_limit batch_verify_log; /* of failed comparisons; guarded by committing */
    struct bi_batch in_doubt_batch;       /* whose outcome is unknown; number 0: none */
    char in_doubt_error[BIDE_ERROR_SIZE];
    struct quarantined *quarantine_list;
    struct rollback rollback;
    pthread_t commit_thread;

    /* body_reader.c */
    struct op_fifo awaiting_body; /* ops whose bodies are to be read */
    struct op_fifo awaiting_job;  /* ops that name jobs which are not loaded */
    struct op_count reading;      /* ops whose bodies are to be read or are being read */
    struct body_read *reads;      /* the batch that is being read */
    size_t read_count;
    unsigned fetch_count;       /* ops in awaiting_job, and the one whose jobs are being fetched */
    bool read_failed;           /* the last batch had bodies that could not be read */
    int64_t last_read_at;       /* when a body was last read */
    pthread_cond_t reader_work; /* the reader thread waits for it */
    pthread_t reader_thread;

    /* recovery.c, maintenance.c, store_verify.c */
    struct recovery recovery;
    struct op_fifo maintenance_ops; /* backups and checks */
    bide_op *active_maintenance_op; /* the one that is being executed, unless it was abandoned */
    bool backup_running;            /* also when its op was abandoned */
    bide_op *check_op;              /* the only check, queued or being executed */
    pthread_cond_t maintenance_work;
    bool verify_wanted;              /* a write failed: all rows are to be compared */
    bool verify_running;             /* the comparison has begun */
    int64_t verify_due;              /* when it begins or continues */
    int64_t verify_ended;            /* when the last one ended; 0: there was none */
    int64_t verify_pause;            /* the pause between the last one and this one */
    struct verification full_verify; /* used by the maintenance thread only */
    struct bi_log_limit full_verify_log;
    pthread_t maintenance_thread;
};

static inline struct local *bi_local_of(struct backend *backend)
{
    return (struct local *)(void *)backend;
}

/* Unless a comment says otherwise, the functions below, other than those of threads, are called
 * with the lock held and do not release it. */

/* ---- local_open.c ---- */

/* Opens a queue on a store. Takes ownership of the store, also on failure. */
int bi_local_open(const struct backend_context *context, const struct backend_ops *ops,
                  struct store *store, struct backend **out, char *error);

/* The functions of struct backend_ops; see there. */
void bi_local_shutdown(struct backend *backend);
void bi_local_close(struct backend *backend);
void bi_local_free(struct backend *backend);

/* ---- local_lock.c ---- */

struct bi_now bi_local_now(struct local *local);
/* Acquires the lock when no rollback is running: the core may be used. */
void bi_local_lock(struct local *local);
/* Acquires the lock although a rollback may be running, for threads that must not wait for it; see
 * rollback.c for what they may do. */
void bi_local_lock_during_rollback(struct local *local);
/* Releases the lock, then delivers the completed ops. */
void bi_local_unlock(struct local *local);
/* Acquires the lock for a call of n ops, and reads the clocks. With a store that is persistent, a
 * rollback may be running. */
struct bi_now bi_local_lock_for_submit(struct local *local, size_t n);
/* Lets other threads have the lock, and delivers the completed ops. */
void bi_local_yield(struct local *local);
/* Waits until the condition is signalled, or until a time of the boot-time clock; BI_NEVER: without
 * a limit. The lock is released meanwhile. */
void bi_local_wait_until(struct local *local, pthread_cond_t *condition, int64_t at);
/* Sleeps for ms, or until a close has set *finished (closing or final) and signalled the condition.
 * The lock is released during the sleep. */
void bi_local_pause(struct local *local, pthread_cond_t *condition, const bool *finished, int ms);

/* ---- local.c ---- */

/* The functions of struct backend_ops; see there. */
int bi_local_submit(struct backend *backend, bide_op *const *ops, size_t n);
bool bi_local_commit(struct backend *backend, bool lead);
int64_t bi_commit_age(struct backend *backend);
void bi_local_set_close_deadline(struct backend *backend, int64_t deadline);
void bi_local_cancel(struct backend *backend, bide_op *op);
/* Writes op->error (text, or the general text of the code) and returns the code. */
int bi_local_reject(bide_op *op, int code, const char *text);
/* Arms the timer if the next deadline is earlier now, and wakes the threads that have work. */
void bi_local_wake_threads(struct local *local);
/* Sets the code of an op that is no longer pending in the core. The op completes, is held for a
 * commit, or waits for bodies. */
void bi_local_reply(struct local *local, bide_op *op, int code);
/* Runs an op that had to wait before the core could run it. */
void bi_local_resume(struct local *local, bide_op *op);
/* The same for an op that waited for a rollback. It passes all checks again and may be rejected. */
void bi_local_resubmit(struct local *local, bide_op *op);
/* Cancels an op that has begun to wait, if that was requested before it could be cancelled. */
void bi_local_cancel_if_requested(struct local *local, bide_op *op);
/* Completes an op with a code and its general text. */
void bi_local_complete_with(struct local *local, bide_op *op, int code);
/* Copies the arguments of an op that runs later: the caller may free its own when submit returns.
 * False when out of memory. */
bool bi_local_dup_args(struct local *local, bide_op *op);
/* Whether the op can complete later: it has a completion queue or a blocked caller. */
bool bi_local_can_wait(const bide_op *op);
/*
 * Prepares an op to wait before the core runs it. Returns BIDE_PENDING, and the caller links the op
 * into a list of its own, and removes it from `backlog` with that list; or the code of a rejection.
 * text is the error of an op that cannot wait.
 */
int bi_local_backlog_add(struct local *local, bide_op *op, const char *text);

/* The path of the store, for messages. */
const char *bi_local_store_name(const struct local *local);

/* The argument of each thread function is the struct local. */

/* ---- timer_thread.c ---- */

/* arm, arm_exact and reset_wakeup are called under the lock, notify with or without it, sleep by the
 * timer thread only. */

/* Initializes without descriptors, so that the close is safe before the open. */
void bi_timer_thread_clear_wakeup(struct wakeup *wakeup);
/* False on failure, with errno set. bi_timer_thread_close_wakeup() closes what was opened. */
bool bi_timer_thread_open_wakeup(struct wakeup *wakeup, int64_t min, int64_t max);
void bi_timer_thread_close_wakeup(struct wakeup *wakeup);

/* Wakes the thread at these times, unless it wakes earlier anyway, but not before the shortest
 * sleep is over. */
void bi_timer_thread_arm(struct wakeup *wakeup, int64_t boot, int64_t wall);

/* Wakes the thread at a time of the boot-time clock, regardless of the shortest sleep. */
void bi_timer_thread_arm_exact(struct wakeup *wakeup, int64_t boot);

/* Forgets the armed times, because the timer thread is awake, and begins a new shortest sleep. */
void bi_timer_thread_reset_wakeup(struct wakeup *wakeup, int64_t boot, int64_t wall);

/* Wakes the thread now. If it is awake, its next sleep returns at once. */
void bi_timer_thread_notify(struct wakeup *wakeup);

/* Sleeps until a timer fires, the wall clock is set, or the thread is notified. */
void bi_timer_thread_sleep(struct wakeup *wakeup);

void *bi_timer_thread_run(void *arg);
/* Fires a bounded number of due events. True if more are due. */
bool bi_timer_thread_tick(struct local *local, struct bi_now now);
/* Called between two ops of a list: yields the lock if the core has done much work since *work, the
 * value of bi_core_work() at the last yield. */
void bi_timer_thread_yield_lock(struct local *local, uint64_t *work, struct bi_now *now);

/* ---- sliced_op.c ---- */

/* Continues a kick or purge that needs more slices: in the background, or in the calling thread if
 * the op cannot wait. Then the lock is released between slices. */
int bi_sliced_op_add(struct local *local, bide_op *op);
/* Whether there is a sliced op and the commit backlog allows a slice. */
bool bi_sliced_op_can_run(const struct local *local);
/* Runs one slice of a sliced op; true if there is more to do. */
bool bi_sliced_op_run(struct local *local, struct bi_now now);
/* Fails the sliced ops of which a part was rolled back. This function and its like below stop at a
 * time of the boot-time clock; true if there is more to do. */
bool bi_sliced_op_fail(struct local *local, int code, const char *error, int64_t until);
/* Ends all sliced ops with BIDE_CLOSED. */
void bi_sliced_op_close_all(struct local *local);

/* ---- commit.c ---- */

void *bi_commit_run(void *arg);
/* Joins the commit thread. Logs if the close deadline passes before the thread ends: a sync cannot
 * be interrupted. Without the lock. */
void bi_commit_join(struct local *local);
/* Whether the op depends on a change that is not durable. */
bool bi_commit_must_hold(const struct local *local, const bide_op *op);
/* Holds the op until that change is durable, or fails it if a batch is in doubt. */
void bi_commit_hold(struct local *local, bide_op *op);
/* Whether the limit of pending ops (held, or waiting for bodies) is reached. */
bool bi_commit_is_full(const struct local *local);
/* BIDE_OK when the op is within that limit. A blocking caller waits here, and the lock is released
 * meanwhile; any other op is rejected. */
int bi_commit_throttle(struct local *local, bide_op *op, struct bi_now *now);
/* Commits a batch in the thread of a blocking caller, unless a commit is in progress. Releases the
 * lock meanwhile. */
void bi_commit_lead(struct local *local);
/*
 * Whether a cancel was requested of an op that is about to complete with a job. The owner can give
 * back a job from a reserve. A job reserved by its id may have been buried or delayed, and only
 * undoing the reservation restores that state.
 */
static inline bool bi_commit_is_cancelled(const bide_op *op)
{
    return bi_op_is(op, OP_UNDO_ON_CANCEL) && op->private_.status == BIDE_OK &&
           (op->private_.flags & BI_CANCEL_REQUESTED) != 0;
}
/* Replaces the success of an op by this error. A finish that is durable retains its status. */
void bi_commit_revoke(const struct local *local, bide_op *op, int code, const char *error);
/* Fails the held ops of all batches. True if there are more. */
bool bi_commit_fail_held(struct local *local, int code, const char *error, int64_t until);
/* Queues an invalid row for quarantine. Without the lock. */
void bi_commit_quarantine(struct local *local, uint64_t id, const char *reason);

/* ---- rollback.c ---- */

/* Whether an op that is submitted now must wait. */
bool bi_rollback_must_wait(const struct local *local);
/* Makes the op wait: BIDE_PENDING, or it is rejected. */
int bi_rollback_enqueue(struct local *local, bide_op *op);
/* Runs a slice of the waiting ops; true if there are more. When the queue closes it rejects
 * them. */
bool bi_rollback_run_waiting(struct local *local);
/*
 * Rolls back all changes that are not durable, unless the outcome of the commit is unknown
 * (roll_back is false), and fails every op that depends on them. Then the waiting ops may run. The
 * lock is held at the call and at the return, and yielded in between if there is much to do.
 */
void bi_rollback_run(struct local *local, bool roll_back, int code, const char *error);

/* ---- body_reader.c ---- */

void *bi_body_reader_run(void *arg);
/* Takes an op that lacks bodies. It completes when they are read. */
void bi_body_reader_enqueue(struct local *local, bide_op *op);
/* Fails those of its ops that depend on changes which were rolled back. True if there are more. */
bool bi_body_reader_fail(struct local *local, int code, const char *error, int64_t until);

/* ---- recovery.c ---- */

void *bi_recovery_run(void *arg);
/* Gives a list of ops one order before it is run. The ops of a server bring their own. */
void bi_recovery_assign_order(struct local *local, bide_op *const *ops, size_t n);
/* BIDE_OK: the op may run. BIDE_PENDING: it runs later. Otherwise it is rejected. */
int bi_recovery_gate(struct local *local, bide_op *op);
/* Loads the jobs that an op names. Called by the reader thread, without the lock. BIDE_OK, or the
 * code of the store with op->error written: then it is unknown whether the jobs exist. */
int bi_recovery_fetch(struct local *local, bide_op *op);
/* Must be called when an op that the gate made wait is removed from its list. */
void bi_recovery_dequeue(struct local *local, bide_op *op);
/* Ends the deferred ops and the queued backups and checks with BIDE_CLOSED. */
void bi_recovery_close(struct local *local);
/* Cancels a deferred op; false if the op is not deferred. */
bool bi_recovery_cancel(struct local *local, bide_op *op);
/* Whether the core knows all about this id: the job is loaded, or it does not exist. */
bool bi_recovery_is_loaded(const struct local *local, uint64_t id);

/* ---- maintenance.c ---- */

/* Whether the op runs on the maintenance thread. */
bool bi_maintenance_handles(const struct local *local, const bide_op *op);
/* Removes the next op from the queue of the maintenance thread; NULL if there is none. */
bide_op *bi_maintenance_pop(struct local *local);
/* Executes and completes such an op. The lock is held at the call and at the return, not in
 * between. */
void bi_maintenance_execute(struct local *local, bide_op *op);
/* Queues an op for the maintenance thread: BIDE_PENDING, or it is rejected. */
int bi_maintenance_enqueue(struct local *local, bide_op *op);
/* Cancels a check or a backup; false if the op is neither queued nor being executed. */
bool bi_maintenance_cancel(struct local *local, bide_op *op);
/* Completes the backup that is being executed with the code, although the maintenance thread may
 * hang on the disk of the copy for long. The store must have been told to stop the backup: it
 * removes the copy. Does nothing if no backup is being executed. */
void bi_maintenance_abandon_backup(struct local *local, int code);

/* ---- store_verify.c ---- */

/* Compares the rows of the jobs of a batch with the core. A difference sets `diverged`. BIDE_OK, or
 * the code of a store that cannot be read now. Without the lock. */
int bi_store_verify_batch(struct local *local, const struct bi_batch *batch, char *error);
/* Schedules a comparison of all rows while the queue serves. */
void bi_store_verify_request(struct local *local);
/* When that comparison begins or continues; BI_NEVER: there is none. */
int64_t bi_store_verify_next_due(const struct local *local);
/* Compares one slice. On the maintenance thread, without the lock. */
void bi_store_verify_continue(struct local *local);
/* Compares everything for a check. A diverged queue serves again if there are no differences.
 * Without the lock. */
void bi_store_verify_check(struct local *local, bide_check_report *report);

#ifdef BIDE_LOCK_STATS
#include "local/lock_stats.h"
#else
#define bi_lock_stats_op(name) ((void)0)
#define bi_lock_stats_report() ((void)0)
#endif

#endif
