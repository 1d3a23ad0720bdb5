/* SPDX-License-Identifier: MIT */
/*
 * worker_internal - the structs that the parts of a worker share.
 *
 *     worker          creation, start and stop
 *     registry        handlers and middleware
 *     worker_thread   one thread: reserves a job, runs its handler, submits the ack
 *     context         the interface of a running handler
 *     ack             the op that finishes a job, and what its status means
 *     put_list        the puts that are stored together with the end of a job
 *     background      one thread for all worker threads: extends leases, receives cancels, sends
 *                     progress, retries acks, checks the health of the queue, announces the worker
 *
 * Ordering   Locks are acquired in the order lifecycle_lock, worker lock, context lock, background
 *            lock. No callback of the program runs with one of them held except lifecycle_lock:
 *            a stop holds it while it waits for handlers, and a start or stop that emits an
 *            event. Callbacks run within a callback_scope, where start and stop are rejected.
 * Ownership  A worker thread owns its job and its ack. An ack that must be retried is copied to
 *            the list of pending acks, and the background thread owns the copy.
 * Threads    Fields of a context that other threads read have their own lock, which is held for a
 *            few instructions. The worker's lock guards the number of threads and the list of
 *            pending acks.
 */
#ifndef BI_WORKER_INTERNAL_H
#define BI_WORKER_INTERNAL_H

#include "queue/queue.h"
#include "schedule/scheduler.h"
#include "util/clock.h"

#include <bide/task.h>

#include <pthread.h>
#include <stdatomic.h>

#define NEVER INT64_MAX

/* Error texts of handlers are truncated to this; max_error_size may truncate them further. */
#define TASK_ERROR_SIZE 1024

/* The handler of one topic. */
struct entry {
    char *topic;
    const bide_type *type;   /* NULL: bytes */
    bide_handler_call *call; /* NULL: the topic has no handler */
    bide_function *function;
    void *arg;
    bide_fallback_call *fallback_call; /* NULL: none */
    bide_function *fallback;
    void *fallback_arg;
    int64_t time_limit_ms; /* 0: the job's ttr */
};

/* What bide_context_publish() has collected; put_list.c. NULL is an empty list. */
struct put_list {
    size_t count, room;
    size_t bytes; /* of the bodies */
    bide_put_item *items;
};

struct middleware {
    bide_middleware run;
    void *arg;
};

/* The op that finishes one job. It can be submitted again after the context is gone: it borrows
 * only the topic, which belongs to the registry entry. */
struct ack {
    bide_op op;
    struct ack *next; /* in pending_acks; only the background thread unlinks, so it may follow
                         the list without the lock */
    uint64_t id, token;
    const char *topic;
    uint32_t attempt;
    int64_t took_us;
    int64_t lease_end;
    int64_t retry_delay; /* 0: it has not been deferred yet */
    int64_t retry_at;    /* pending: when it is submitted again */
    bool in_flight;      /* pending: submitted, and its completion is not processed yet */
    bool cancelled;      /* the handler was asked to stop by a cancel */
    bool maybe_applied;  /* an attempt ended with BIDE_EUNKNOWN: it may have been applied */
    bool downgraded;     /* uses only commands of a plain beanstalkd */
    bide_buf *result;
    struct put_list *puts;       /* of a finish_and_put */
    char error[TASK_ERROR_SIZE]; /* "": none */
};

struct bide_context {
    bide_worker *worker;
    const struct entry *entry;
    bide_job job;
    bide_slice body;
    void *data;    /* passed to the handler; NULL if the body could not be decoded */
    void *decoded; /* freed after the handler has returned */
    size_t middleware_next;
    int64_t reserved_at; /* when the reserve completed; 0: immediately before the handler starts */
    int64_t started;

    /* Set by the handler. */
    bool will_bury;
    bool in_fallback;
    int64_t delay_ms;  /* BIDE_KEEP: the job's backoff */
    int64_t retain_ms; /* BIDE_KEEP: retain_ms of the put */
    bide_buf *result;
    struct put_list *puts;
    bool was_run;                /* the handler, by middleware, */
    size_t puts_before;          /* and so many puts were collected before that */
    char error[TASK_ERROR_SIZE]; /* "": none */

    /* Read by any thread. */
    _Atomic int stop_reason;  /* without overrun and lease end, which are computed from the clock */
    _Atomic int64_t deadline; /* the end of the time limit */
    _Atomic int64_t lease_end; /* when the lease expires unless it is extended */
    pthread_mutex_t lock;      /* guards the fields below */
    pthread_cond_t changed;
    bool running;
    bool given_back;         /* a stop has released the job: the outcome is ignored */
    bool overrun_reported;   /* BIDE_WORK_OVERRAN was emitted */
    bool lease_end_reported; /* waiters were woken when the lease expired */
    bool deadline_is_lease;  /* no time limit of its own: the deadline moves with the lease */
    int64_t touch_at;        /* when the background thread extends the lease; NEVER: not */
    bool touch_refused;      /* the last touch failed with BIDE_TOUCH_LIMIT */
    bool touch_postponed;    /* the last call left it out for a query or progress */
    int64_t progress_at;     /* when the progress is sent; NEVER: nothing to send */
    int64_t query_at;        /* when the job is queried for a cancel; NEVER: not */
    size_t progress_size;
    char progress[BIDE_PROGRESS_MAX + 1];
    int fd; /* an eventfd, created by the first bide_context_fd(); -1: none */
};

struct worker_thread {
    bide_worker *worker;
    pthread_t handle;
    bool started;
    bide_cq *cq;
    bide_op reserve_op;
    bool cancel_sent;     /* the reserve was cancelled: the worker stops */
    bool reserve_pending; /* submitted, and the completion is not processed */
    bool ack_pending;     /* the same */
    uint64_t cancels;     /* background.cancels at the last check */
    uint64_t gaps;        /* background.gaps when the reserve was submitted */
    int64_t backoff_ms;   /* after a reserve that failed */
    struct ack ack;
    struct bide_context context;
    _Atomic uint64_t runs; /* handlers started */
};

/* A running job is queried for a cancel this often while there is no subscription. */
#define QUERY_INTERVAL_US 400000

/* Ids of cancelled jobs that are remembered for threads which have reserved but not started. */
#define CANCELS_MAX     256
#define EVENTS_PER_READ 64

/* The ops of the background thread, one of each at a time. They complete through its cq, without a
 * callback, and are polled. */
enum background_op {
    BACKGROUND_TOUCH,
    BACKGROUND_SUBSCRIBE,
    BACKGROUND_RECEIVE,
    BACKGROUND_UNSUBSCRIBE,
    BACKGROUND_PING,
    BACKGROUND_ANNOUNCE,
    BACKGROUND_OPS
};

/* The jobs that the worker announces, and copies of their texts. */
struct announced_job {
    char topic[BIDE_TOPIC_MAX + 1];
    char progress[BIDE_PROGRESS_MAX];
    size_t progress_size;
};

struct announcement {
    uint64_t running;
    size_t job_count;
    bide_running_job list[BIDE_ANNOUNCED_JOBS_MAX];
    struct announced_job jobs[BIDE_ANNOUNCED_JOBS_MAX];
};

struct background {
    bide_worker *worker;
    pthread_t handle;
    bide_cq *cq;
    _Atomic bool quit;
    bool ended; /* under the worker's lock */
    /* The time of its next turn, see run_once(). bi_background_schedule() wakes it for anything
     * earlier. */
    _Atomic int64_t wake_at;
    uint64_t runs; /* sum over the threads at the last turn */
    bool active;   /* handlers were started between the last two turns */

    bide_op ops[BACKGROUND_OPS];
    bool pending[BACKGROUND_OPS]; /* submitted, and the completion is not processed */

    bool no_progress; /* the backend does not support progress */
    int64_t touched_at;
    bide_touch_item *items;              /* room for one per thread */
    struct worker_thread **item_threads; /* the thread of each item */
    char (*texts)[BIDE_PROGRESS_MAX];
    size_t item_count;

    bide_subscription *subscription;
    _Atomic bool no_events; /* cancels are not received, so jobs are queried again and again */
    int64_t subscribe_at;   /* when to subscribe; NEVER: not (again) */
    bide_event events[EVENTS_PER_READ];

    int64_t ping_at;

    int64_t announce_at; /* NEVER: the backend has no announcements */
    bool announced;      /* the last announcement was accepted */
    struct announcement announcement;

    pthread_mutex_t lock; /* guards cancelled_ids, a ring */
    uint64_t cancelled_ids[CANCELS_MAX];
    _Atomic uint64_t cancels; /* cancels received */
    _Atomic uint64_t gaps;    /* periods in which cancels may have been missed */
};

enum worker_state { WORKER_IDLE, WORKER_RUNNING, WORKER_STOPPING };

struct bide_worker {
    bide *queue;
    bide_worker_options options; /* resolved */
    bide_scheduler *scheduler;   /* NULL: none */

    struct entry **entries; /* by topic */
    bide_slice *topics;     /* in the order of registration; each ends with a NUL */
    uint32_t *weights;      /* in the same order */
    size_t entry_count, entry_room;
    struct middleware middlewares[BIDE_WORKER_MIDDLEWARE_MAX];
    size_t middleware_count;

    /* By which it announces itself and reserves; made at its creation. */
    char name[BIDE_HOLDER_MAX + 1];
    char host[65];
    int64_t started_ms;
    _Atomic uint64_t outcomes[BIDE_WORK_KINDS]; /* how its jobs have ended */

    struct worker_thread *threads;
    struct background background;
    _Atomic bool stopping; /* reserve no more jobs */
    _Atomic int unhealthy; /* UNHEALTHY_* bits */

    pthread_mutex_t lifecycle_lock; /* one start or stop at a time */
    _Atomic enum worker_state state;
    pthread_mutex_t lock; /* guards the fields below, and the pointer `threads` */
    pthread_cond_t changed;
    uint32_t threads_left; /* threads that have not ended */
    struct ack *pending_acks;
    _Atomic uint32_t pending_ack_count; /* written under the lock, read without it after each job */
    int stop_fd; /* readable after bide_worker_quit(), or when the last thread has ended */
};

/* Marks the current thread as running handlers or callbacks of a worker, which must not stop that
 * worker. Scopes nest: a handler may call bide_run() on its own thread. */
struct callback_scope {
    const bide_worker *worker;
    const struct callback_scope *outer;
};
void bi_worker_enter(struct callback_scope *scope, const bide_worker *worker);
void bi_worker_leave(const struct callback_scope *scope);
bool bi_worker_is_current(const bide_worker *worker);

/* Returns the entry of a topic; one without a function (call is NULL) if the topic is not
 * registered, which only a faulty server causes: a reserve names the registered topics. Never
 * NULL. */
const struct entry *bi_registry_lookup(const bide_worker *worker, const char *topic);
/* Waits for a change of the condition for this time, at most a second: the condition waits on the
 * monotonic clock, which stops during a suspend. With the lock held. */
void bi_worker_wait_step(pthread_cond_t *changed, pthread_mutex_t *lock, int64_t us);
void bi_worker_emit(const bide_worker *worker, const bide_work_event *event);
/* Sets a reason why the worker gets no jobs, or clears it with BIDE_OK. Emits UNHEALTHY with the
 * first reason that is set, HEALTHY with the last that is cleared. */
enum { UNHEALTHY_RESERVE = 1, UNHEALTHY_PING = 2 };
void bi_worker_set_health(bide_worker *worker, int reason, int code, const char *text);
/* Asks the handler of a job to stop; id 0: all handlers. */
void bi_worker_request_stop(bide_worker *worker, uint64_t id, bide_reason reason);
void bi_registry_free(bide_worker *worker);
/* Start without creating the worker threads, and stop. Both require lifecycle_lock, or a worker
 * that no other thread can start or stop. */
int bi_worker_prepare(bide_worker *worker);
int bi_worker_stop(bide_worker *worker);
/* The last act of a worker thread. */
void bi_worker_end_thread(bide_worker *worker);

/* ---- worker_thread ---- */

int bi_worker_thread_init(struct worker_thread *thread, bide_worker *worker);
void bi_worker_thread_done(struct worker_thread *thread);
/* Runs jobs until the worker stops or the queue is shut down. The last ack has completed, or is
 * pending in the syncer, when it returns. */
void bi_worker_thread_run(struct worker_thread *thread);
void bi_worker_thread_wake(const struct worker_thread *thread);

/* ---- context ---- */

void bi_context_init(struct bide_context *context, bide_worker *worker);
void bi_context_done(struct bide_context *context);
/* Starts the clock of the job in context->job; entry is set. */
void bi_context_begin(struct bide_context *context);
/* An event about its job, without a text. */
bide_work_event bi_context_event(const struct bide_context *context, bide_work_kind kind);
/* True, once, when the handler has passed its deadline; the caller then emits the event, after it
 * has released the lock. With the lock held. */
bool bi_context_check_overrun(struct bide_context *context, int64_t now, bide_work_event *event);
/* The handler has returned. Emits an overrun that was not emitted yet. Returns false if a stop has
 * released the job meanwhile: then there is nothing to acknowledge. */
bool bi_context_end(struct bide_context *context);
void bi_context_clear(struct bide_context *context);
/* Sets the reason to stop unless a more severe one is set, and wakes waiters in any case. With the
 * lock held. */
void bi_context_request_stop(struct bide_context *context, bide_reason reason);
/* When the background thread must act for this context; and when only because the time limit or the
 * lease ends. NEVER if no handler runs. With the lock held. */
int64_t bi_context_next_due(const struct bide_context *context);
int64_t bi_context_next_deadline(const struct bide_context *context);
/* With the lock held. */
void bi_context_extend_lease(struct bide_context *context, int64_t end);

/* ---- put_list ---- */

/* Adds a copy of a put, with the options of any version, to a list that may be NULL. BIDE_OK, or a
 * code and a message in error (BIDE_ERROR_SIZE bytes): the put is invalid, as bide_put() checks it,
 * or exceeds the limits of a finish_and_put (BIDE_TOO_BIG), or BIDE_ENOMEM. */
int bi_put_list_add(struct put_list **list, const bide_options *options, const bide_put_item *put,
                    char *error);
size_t bi_put_list_count(const struct put_list *list);
/* Drops all but the first. */
void bi_put_list_truncate(struct put_list *list, size_t count);
void bi_put_list_free(struct put_list *list);

/* ---- ack ---- */

/* Maps the return value of a handler to a bide_outcome: an unknown number is BIDE_RETRY. After it a
 * failure has an error text. */
int bi_ack_check_outcome(struct bide_context *context, int outcome);
/* True if this return value stores the puts of the handler. */
static inline bool bi_ack_has_puts(int outcome)
{
    return outcome == BIDE_DONE || outcome == BIDE_SNOOZE;
}
/* Builds the ack of an outcome. When the handler was interrupted by a stop, every outcome but DONE
 * gives the job back, so that the stop costs no retry. */
void bi_ack_make(struct ack *ack, struct bide_context *context, int outcome, int stop_reason);
/* Builds an ack that releases the job and counts nothing. */
void bi_ack_give_back(struct ack *ack, struct bide_context *context);
/* Points the arguments of the op into the ack. Required before each submit: the ack may have been
 * copied. */
void bi_ack_prepare(struct ack *ack);
void bi_ack_clear(struct ack *ack);
/* Processes the completion of the op. True: finished, and the event is emitted. False: it must be
 * submitted again after retry_delay, perhaps as another op. */
bool bi_ack_complete(struct ack *ack, bide_worker *worker);
/* Emits that the ack is given up. The event carries the code of the last attempt, or the cause if
 * there was no attempt. */
void bi_ack_abandon(const struct ack *ack, bide_worker *worker, int cause);

/* ---- background ---- */

/*
 * heartbeat, subscriber, syncer and announcer have two functions each: complete() processes ops that
 * have completed, run() does what is due and returns when it must run next.
 */

int bi_background_start(struct background *background, bide_worker *worker);
/* Ends the thread and waits until `end` for it; false: it still waits for ops. Pending acks are
 * abandoned. All worker threads must have ended: they use the background. */
bool bi_background_stop(struct background *background, int64_t end);
/* Requires that bi_background_stop() returned true. */
void bi_background_done(struct background *background);
/* Makes sure that the background thread runs at that time. Any thread, without a lock. */
void bi_background_schedule(struct background *background, int64_t at);
/* Submits an op whose arguments are set. It may complete within the call; it is processed by the
 * next complete(). On the background thread, as all functions below but the last two. */
void bi_background_submit(struct background *background, enum background_op op, bide_op_kind kind);
/* True, once, when the op was submitted and has completed. */
bool bi_background_poll(struct background *background, enum background_op op);
/* Locks the context of a thread if it still runs that job under that lease; else returns NULL. An
 * op may complete after the thread has started another job. */
struct bide_context *bi_background_lock_running(struct worker_thread *thread, uint64_t id,
                                                uint64_t token);

static inline int64_t bi_background_earlier(int64_t a, int64_t b)
{
    return a < b ? a : b;
}

void bi_heartbeat_complete(struct background *background, int64_t now);
int64_t bi_heartbeat_run(struct background *background, int64_t now);

void bi_subscriber_complete(struct background *background, int64_t now);
int64_t bi_subscriber_run(struct background *background, int64_t now);
void bi_subscriber_stop(struct background *background);

/* Makes the name of a worker. */
void bi_announcer_init(bide_worker *worker);
void bi_announcer_complete(struct background *background);
int64_t bi_announcer_run(struct background *background, int64_t now);
/* The queue may have lost the announcement: makes it due now. */
void bi_announcer_renew(struct background *background, int64_t now);
/* Removes the announcement. */
void bi_announcer_stop(struct background *background);

void bi_syncer_complete(struct background *background, int64_t now);
int64_t bi_syncer_run(struct background *background, int64_t now);
/* Abandons all acks that are not in flight; true: some are. */
bool bi_syncer_abandon(struct background *background);

/* Hands a copy of the ack to the background thread, which then owns its result; false when out of
 * memory, and the ack is unchanged. */
bool bi_syncer_add(struct background *background, struct ack *ack);
/* Applies a cancel that arrived between the reserve and bi_context_begin(), which must have been
 * called before. */
void bi_subscriber_check_cancel(struct background *background, struct worker_thread *thread);

#endif
