/* SPDX-License-Identifier: MIT */
/*
 * inside - what the parts of a worker share.
 *
 *     worker    registration, start and stop
 *     slot      one thread: takes a job, runs its handler, tells the queue what came of it
 *     context   what a handler asks and says
 *     answer    what the queue is told of a job, and what its answer means
 *     keeper    one thread for all slots: extends leases, hears of cancels, sends progress, tells
 *               the queue again what it could not be told, looks at its health
 *
 * Threads    A slot owns its job and its answer. The part of a context that others look at has a
 *            lock of its own, which is held for a few instructions. The worker's lock guards the
 *            numbers of slots and of owed answers; it is taken before a context's, never after.
 */
#ifndef BI_TASK_INSIDE_H
#define BI_TASK_INSIDE_H

#include "queue/queue.h"

#include <bide/task.h>

#include <pthread.h>
#include <stdatomic.h>

#define NEVER INT64_MAX

/* Sentences of handlers are cut at this; the queue may cut them further. */
#define TASK_ERROR_SIZE 1024

/* A handler of one topic. */
struct entry {
    char *topic;
    const bide_type *type; /* NULL: bytes */
    bide_handler_call *call;
    bide_function *function;
    void *arg;
    bide_fallback_call *fall; /* NULL: none */
    bide_function *fallback;
    void *fallback_arg;
    int64_t time_limit_ms; /* 0: the job's ttr */
};

struct layer {
    bide_middleware run;
    void *arg;
};

/* What the queue is told of one job. It can be told again: nothing in it is borrowed but the
 * topic, which is the entry's. */
struct answer {
    bide_op op;
    struct answer *next; /* in the keeper's list */
    uint64_t id, token;
    const char *topic;
    uint32_t attempt;
    int64_t took_us;
    int64_t lease_end;
    int64_t pause;    /* owed: how long it waits */
    int64_t again_at; /* owed: and until when */
    bool told;        /* owed: under way, or back and not looked at */
    bool cancelled;   /* somebody wanted the job to stop */
    bool unsure;      /* it was told once without an answer, and may have happened */
    bool plain;       /* in words that a plain beanstalkd knows */
    bool complete;    /* its op has come back */
    bide_buf *result;
    size_t error_size;
    char error[TASK_ERROR_SIZE];
};

struct bide_context {
    bide_worker *worker;
    const struct entry *entry;
    bide_job job;
    bide_slice body;
    void *data;  /* what the handler gets; NULL if it could not be read */
    void *owned; /* to be freed after it */
    size_t layer;
    int64_t taken; /* when the job came; 0: just now */
    int64_t started;

    /* What the handler said. */
    bool buries;
    int64_t again_ms;  /* BIDE_KEEP: by the backoff */
    int64_t retain_ms; /* BIDE_KEEP: as the put said */
    bide_buf *result;
    size_t error_size;
    char error[TASK_ERROR_SIZE];

    /* Looked at by any thread. */
    _Atomic int told;          /* why to stop, but for the time, which is looked at when asked */
    _Atomic int64_t limit_end; /* when the handler's time is over */
    _Atomic int64_t lease_end; /* when the job is no longer its own, if nobody extends the lease */
    pthread_mutex_t lock;      /* for what follows */
    pthread_cond_t changed;
    bool running;
    bool given_back;  /* its job is no longer its own: the worker stops without it */
    bool overran;     /* that was told */
    bool lapsed;      /* that the lease has ended was told */
    bool by_lease;    /* its time is that of the lease */
    int64_t touch_at; /* when the keeper extends the lease */
    bool refused;     /* the last touch of the keeper's, by a limit */
    int64_t progress_at;
    int64_t look_at; /* without a feed of cancels: when to look at the job */
    size_t progress_size;
    char progress[BIDE_PROGRESS_MAX + 1];
    int fd; /* -1: nobody has asked for one */
};

struct slot {
    bide_worker *worker;
    pthread_t thread;
    bool started;
    bide_cq *cq;
    bide_op take;
    bool cancelling;  /* the take is given up */
    bool came;        /* the take has completed */
    bool answering;   /* the answer's op is pending */
    uint64_t cancels; /* of the keeper, that were looked at */
    uint64_t gaps;    /* of the keeper, when the reserve was begun */
    int64_t pause_ms; /* after a take that failed */
    struct answer answer;
    struct bide_context context;
    _Atomic uint64_t runs; /* handlers begun */
};

/* Between two looks at a running job, where there is no feed of cancels. */
#define LOOK_US 400000

#define CANCELS_KEPT 256
#define LISTEN_MAX   64

struct keeper {
    bide_worker *worker;
    pthread_t thread;
    bide_cq *cq;
    _Atomic bool quit;
    bool ended;              /* under the worker's lock */
    _Atomic int64_t wake_at; /* who wants it sooner has to wake it */
    uint64_t runs;           /* of all slots, when it last looked */
    bool active;             /* they had changed */

    bide_op touch;
    bool touching;
    bool mute; /* the queue knows of no progress */
    int64_t touched_at;
    bide_touch_item *items;   /* one for each slot */
    struct slot **item_slots; /* whose they are */
    char (*texts)[BIDE_PROGRESS_MAX];
    size_t item_count;

    bide_feed *feed;
    bide_op subscribe, listen, leave;
    bool subscribing, listening, leaving;
    _Atomic bool deaf;    /* there is no feed: running jobs are looked at */
    int64_t subscribe_at; /* NEVER: not again */
    bide_event events[LISTEN_MAX];

    bide_op look;
    bool looking;
    bide_job looked;
    struct slot *look_slot;
    uint32_t look_next; /* where the next look begins */
    uint64_t look_token;

    bide_op ping;
    bool pinging;
    int64_t ping_at;

    pthread_mutex_t lock; /* for the ring of ids that somebody wants to stop */
    uint64_t ring[CANCELS_KEPT];
    _Atomic uint64_t cancels; /* how many there were */
    _Atomic uint64_t gaps;    /* how often some may have been missed */
};

enum worker_state { WORKER_IDLE, WORKER_RUNS, WORKER_STOPS };

struct bide_worker {
    bide *queue;
    bide_worker_options options; /* resolved */

    struct entry **entries; /* in the order of registration */
    struct entry **sorted;  /* by topic */
    bide_slice *topics;
    uint32_t *weights;
    size_t entry_count, entry_room;
    struct layer layers[BIDE_WORKER_MIDDLEWARE_MAX];
    size_t layer_count;

    struct slot *slots;
    struct keeper keeper;
    _Atomic bool stopping; /* take no more */
    _Atomic int starved;   /* why no jobs can be had: bits */

    pthread_mutex_t life; /* one start or stop at a time */
    _Atomic enum worker_state state;
    pthread_mutex_t lock; /* for what follows */
    pthread_cond_t changed;
    uint32_t slots_left; /* that have not ended */
    struct answer *owed;
    _Atomic uint32_t owed_count; /* changed under the lock, looked at without it after each job */
    int end_fd;                  /* raised when it is asked to stop, or the last slot has ended */
};

/* Threads that run handlers and callbacks of a worker, which must not stop it. A handler may run
 * another worker's on its thread, so there may be several. */
struct here {
    const bide_worker *worker;
    const struct here *before;
};
void bi_worker_enter(struct here *here, const bide_worker *worker);
void bi_worker_leave(const struct here *here);
bool bi_worker_is_here(const bide_worker *worker);

/* The handler of a topic. */
const struct entry *bi_worker_entry(const bide_worker *worker, const char *topic);
/* Something that a stop waits for has changed. */
void bi_worker_tell(bide_worker *worker);
void bi_worker_event(const bide_worker *worker, const bide_work_event *event);
/* Jobs cannot be had for one of the reasons, or can as far as that goes. Told when it is the first
 * reason, or the last that goes. */
enum { STARVED_TAKE = 1, STARVED_PING = 2 };
void bi_worker_starve(bide_worker *worker, int why, int code, const char *text);
void bi_worker_feed(bide_worker *worker, int why);
/* Registration is undone. */
void bi_worker_forget(bide_worker *worker);
/* What start does, but for the threads of slots; what stop does, where it may be done. */
int bi_worker_prepare(bide_worker *worker);
int bi_worker_stop(bide_worker *worker);
void bi_worker_end_slot(bide_worker *worker);

/* ---- slot ---- */

int bi_slot_init(struct slot *slot, bide_worker *worker);
void bi_slot_done(struct slot *slot);
/* Takes jobs until the worker stops or the queue is shut down. */
void bi_slot_work(struct slot *slot);
void bi_slot_wake(const struct slot *slot);

/* ---- context ---- */

void bi_context_init(struct bide_context *context, bide_worker *worker);
void bi_context_done(struct bide_context *context);
/* The job is reserved, and is now this context's. */
void bi_context_begin(struct bide_context *context);
/* Is the time of the handler over, and was that not told yet? Then it is to be told now, by this
 * event. With the lock held. */
bool bi_context_overruns(struct bide_context *context, int64_t now, bide_work_event *event);
/* The handler has returned. True: the job is still its own. Tells an overrun that was not told. */
bool bi_context_end(struct bide_context *context);
void bi_context_clear(struct bide_context *context);
/* Gives a reason to stop, unless there is a stronger one. */
void bi_context_tell(struct bide_context *context, bide_reason reason);
/* When the keeper is next wanted; and when it is for no more than to tell that the time or the
 * lease is over. With the lock held. */
int64_t bi_context_due(const struct bide_context *context);
int64_t bi_context_over(const struct bide_context *context);
/* The lease was extended and ends then. With the lock held. */
void bi_context_extended(struct bide_context *context, int64_t end);

/* ---- answer ---- */

/* What a handler's answer is taken for, one of bide_outcome; a failure has a sentence then. */
int bi_answer_outcome(struct bide_context *context, int outcome);
/* What is to be told after such an outcome, and what the handler had been told. */
void bi_answer_make(struct answer *answer, struct bide_context *context, int outcome, int told);
/* Give the job back as if nothing had been. */
void bi_answer_give_back(struct answer *answer, const struct bide_context *context);
/* Sets the arguments of the op, for the first or a further time. */
void bi_answer_arm(struct answer *answer);
void bi_answer_clear(struct answer *answer);
/* The op has completed. True: that is the end of it, and was told. False: it is owed. */
bool bi_answer_settle(struct answer *answer, bide_worker *worker);
/* The lease is over, and the queue was not told. */
void bi_answer_give_up(const struct answer *answer, const bide_worker *worker);

/* ---- keeper ---- */

int bi_keeper_start(struct keeper *keeper, bide_worker *worker);
/* When no slot works any more: ends its thread, and waits for that until then. What is still owed
 * is given up. */
bool bi_keeper_end(struct keeper *keeper, int64_t end);
/* After that. */
void bi_keeper_done(struct keeper *keeper);
/* It is wanted at that time. */
void bi_keeper_want(struct keeper *keeper, int64_t at);
/* Takes a copy of an answer over; false when out of memory. */
bool bi_keeper_owe(struct keeper *keeper, struct answer *answer);
/* The slot has begun a job: does somebody want it to stop, since the slot last asked? */
void bi_keeper_check_cancel(struct keeper *keeper, struct slot *slot);

#endif
