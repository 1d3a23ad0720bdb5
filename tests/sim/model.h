/* SPDX-License-Identifier: MIT */
/*
 * model - what a queue is, in the simplest code that could be right.
 *
 * Arrays, linear search, no indexes: it shares nothing with src/core but the public types. Each
 * op's function works out the answer and compares it with the one that the core gave.
 *
 * Commits    The first change of a job in a batch keeps a copy of the job as it was (undo).
 *            What a batch stores is what the next copy says, or else the job itself. A commit
 *            drops copies, a rollback puts the oldest one back.
 */
#ifndef SIM_MODEL_H
#define SIM_MODEL_H

#include "core_state.h"
#include "sim.h"

struct mtext {
    size_t size;
    char bytes[SIM_TEXT];
};

struct mfailure {
    bide_failure_kind kind;
    uint32_t attempt;
    int64_t at_ms;
    struct mtext error, holder;
};

struct mundo;

struct mjob {
    uint64_t id;
    bide_state state;
    int name;
    uint32_t priority;
    bool due_wall;
    bool due_unknown; /* by backoff: to be asked for and checked */
    int64_t due;      /* delayed: when; done: end of retention; reserved: end of lease */
    int64_t due_from; /* with due_unknown: backoff d, and the moment it counts from */
    int64_t due_base;
    int64_t again;      /* not 0: its deadline could not be dealt with; look again then */
    int64_t expires_at; /* us; 0: never */
    int64_t expiry_again;
    bool expiry_over; /* was reserved once */
    uint64_t entered; /* when it came into its state: a sequence number */
    uint64_t changed; /* when state or topic last changed: a sequence number */

    int64_t ttr_ms;
    int key;
    bool key_hold_retained;
    bool cancel_wanted;
    int32_t max_retries;
    uint32_t failures;
    int64_t backoff_base_ms;
    int64_t backoff_max_ms;
    int64_t retain_ms;
    uint32_t reserves, timeouts, releases, fails, buries, kicks, touches;
    int64_t since;                                    /* mono: in its state since then */
    bool ready_before;                                /* restored: ready since `ready`, elsewhere */
    int64_t created, reserved, touched, buried, done; /* mono; BI_NEVER: not yet */
    int64_t ready; /* when it became ready before its last reservation */

    uint64_t token, number; /* as it is shown, and as it is stored */
    bool reply_pending;     /* the reserve has no answer yet: no lease runs */
    bool abandoned;         /* and it gets none */
    struct {
        bide_state state;
        bool due_wall, ready_before;
        int64_t due, since;
        uint64_t entered;
    } prev;             /* the reservation that has no answer: what it was */
    int64_t leased;     /* mono: when the lease began */
    int64_t last_touch; /* mono: or was last touched */
    uint32_t lease_touches;

    struct mtext body, last_error, result, progress;
    bool has_error, has_result, has_progress;
    struct mtext holder;                       /* of the last lease */
    struct mfailure history[BIDE_HISTORY_MAX]; /* oldest first */
    size_t history_count;

    uint64_t batch;     /* the last batch that it was changed in */
    uint64_t sealed;    /* the last one that was seen to have it */
    struct mundo *undo; /* oldest first: one for each batch that is not committed */
};

/* How many bytes of body, error text, result and history a snapshot shows. */
static inline uint64_t model_shown_size(const struct mjob *job, bool with_body)
{
    uint64_t size = (with_body ? job->body.size : 0) + (job->has_error ? job->last_error.size : 0) +
                    (job->has_result ? job->result.size : 0);
    for (size_t i = 0; i < job->history_count; i++)
        size += 16 + job->history[i].error.size + job->history[i].holder.size;
    return size;
}

struct mundo {
    struct mundo *next;
    uint64_t batch;
    int name; /* the topic, which outlives this copy */
    bool existed;
    struct mjob was;
};

/* Years in microseconds, times the largest rate. */
__extension__ typedef __int128 mlevel;

struct mtopic {
    bool exists;
    uint64_t born; /* a sequence number */
    uint64_t waited_since;
    uint64_t count[6];
    bide_counters total;
    uint64_t references;
    uint64_t waiting;
    int pins; /* kicks and purges of it that are under way */
    bool paused;
    int64_t pause_end;
    bool has_policy;
    bide_topic_policy policy;
    uint64_t policy_batch; /* the last batch that changed it */
    mlevel level;          /* of the bucket of its rate, in tokens times the period in us; */
    int64_t level_at;      /* at this moment */
    int64_t token_at;      /* not 0: the bucket has no token until then */
    uint64_t fair;         /* when a fair reserve last took from it; 0: never */
    uint64_t changed;      /* the last batch in which a job of it changed that existed before */
};

/* A topic's pause and policy as they were before a batch. */
struct mpause {
    uint64_t batch;
    int name;
    bool paused;
    int64_t end;
    bool has_policy;
    bide_topic_policy policy;
};

struct mwaiter {
    struct mwaiter *next;
    struct sim_op *sop;
    uint64_t number;
    bool parked; /* out of its lines, while bodies are read for what it took */
    int64_t deadline;
    uint64_t hold; /* what it saw and changed before it began to wait */
    int names[SIM_TOPICS];
    size_t name_count;
    bide_strategy strategy;
    size_t job_max;
    struct mtext holder;
    uint64_t id;        /* of a wait */
    struct mfeed *feed; /* of an events */
};

/* An announced worker. */
struct mworker {
    uint64_t number; /* in order of the first announcement */
    struct mtext id; /* its name */
    uint64_t connection;
    int64_t deadline;
    int64_t announced;
    bool serves[SIM_NAMES];
    size_t size;
    unsigned char bytes[SIM_WORKER];
};

struct mevent {
    uint64_t batch; /* not to be told before this one is committed */
    uint64_t purge; /* not 0: the events of one purge come in any order */
    int name;
    bide_event_kind kind;
    bide_state state;
    uint64_t id; /* 0: some job of the purge; which, is not known */
    int64_t at_ms;
};

struct mfeed {
    struct mfeed *next; /* the youngest first */
    bide_subscription *handle;
    int name; /* -1: all */
    uint32_t kinds;
    size_t capacity;
    struct mwaiter *reader;
    struct mevent *events;
    size_t count;
    size_t room;
    uint64_t lost;
    uint64_t purge_lost; /* the last purge of which an event was lost */
};

struct model {
    struct sim *sim;
    struct bi_now now;
    struct bi_now born;
    int64_t stamp_floor; /* what comes into a state now does so at this moment, or later */
    struct mjob **jobs;  /* by id */
    size_t count;
    size_t room;
    struct mjob **dead; /* removed, but not yet committed so */
    size_t dead_count;
    size_t dead_room;
    struct mtopic topics[SIM_NAMES];
    struct mwaiter *waiters; /* in order of arrival */
    uint64_t waiter_count;
    uint64_t waiter_number;
    struct mfeed *feeds;
    bide_counters total;
    bool draining;
    bool closed;
    bool interrupted; /* by an orderly end */
    bool recovering;
    bool leases_unloaded; /* what is reserved since before the restart may not be known yet */
    bool lists_sorted;    /* everything is loaded, and the oldest of each state is known */
    uint64_t next_id;
    uint64_t first_token;   /* this core gives no smaller numbers */
    uint64_t lease_from;    /* stored leases with smaller ones are over */
    uint64_t last_token;    /* the number that this core has given */
    uint64_t replied_token; /* the last one that a reply had, in any life of the queue */
    uint64_t replied_id;
    uint64_t sequence;
    uint64_t fair;
    uint64_t purges;
    uint64_t purging; /* the number of the purge that is going on */

    bool journal;
    uint64_t open_batch;
    uint64_t open_count; /* changes in that batch, and the bytes of the bodies that they bring */
    uint64_t open_bytes;
    uint64_t crowded;     /* the last batch that grew because too many waited */
    uint64_t step_max;    /* the largest step so far */
    unsigned group_depth; /* what changes now comes into one batch */
    uint64_t next_seal;   /* the oldest batch that is not sealed */
    uint64_t committed;
    uint64_t undone;       /* the last batch that was undone */
    uint64_t hold;         /* of the op that is being run */
    bool token_stored;     /* tokens may be told of at once */
    uint64_t token_batch;  /* or when this one is committed */
    struct mpause *pauses; /* oldest first */
    size_t pause_count;
    size_t pause_room;

    struct mworker workers[SIM_WORKERS]; /* by number */
    size_t worker_count;
    uint64_t worker_number;
    uint64_t worker_next; /* where the listing goes on; 0: it begins */

    int got;      /* the code that the core gave */
    bool lacking; /* a job was shown without its body */
};

/* ---- model.c ---- */

/* An array with room for one more. */
void *sim_grow(void *array, size_t count, size_t *room, size_t size);
struct model *model_new(struct sim *sim);
void model_free(struct model *model);

/* A new core was made at this moment. */
void model_reset(struct model *m, uint64_t next_id, uint64_t next_token);

/* The moment at which a job comes into its state: now, but later than every op that is done in
 * slices has begun. */
int64_t model_stamp(const struct model *m);
/* How many jobs of a kick or purge are stored. */
uint64_t model_stored_count(const struct model *m, const struct sim_op *sop);
/* A kick or purge has ended on its way. */
void model_end_slices(struct model *m, struct sim_op *sop);

struct mjob *model_find(struct model *m, uint64_t id);
struct mjob *model_insert(struct model *m, uint64_t id, int name, bide_state state);
void model_remove(struct model *m, struct mjob *job);
/* Puts a job that is not in the array back into it. */
void model_link(struct model *m, struct mjob *job);
void model_free_job(struct mjob *job);

void model_set_state(struct model *m, struct mjob *job, bide_state state);
void model_move(struct model *m, struct mjob *job, int name);
struct mtopic *model_need_topic(struct model *m, int name);
size_t model_topic_count(const struct model *m);
void model_cleanup(struct model *m);
void model_set_text(struct mtext *text, const void *data, size_t size);
void model_ready(struct model *m, struct mjob *job);
struct mjob *model_key_holder(struct model *m, int name, int key);
bool model_holds_key(const struct mjob *job);
/* A moment of the boot-time clock as the wall clock shows it now, and back. */
int64_t model_wall_of(const struct model *m, int64_t mono);
int64_t model_mono_of(const struct model *m, int64_t wall);
uint64_t model_live(const struct model *m, int name);

/* Adds one to a counter of the topic and of the queue. */
#define MODEL_COUNT(m, job_name, field)      \
    do {                                     \
        (m)->topics[job_name].total.field++; \
        (m)->total.field++;                  \
    } while (0)

/* ---- model_run.c: one op ---- */

/* The core has answered got; work out the same and compare. */
void model_run(struct model *m, struct sim_op *sop, int got);
/* The handlers end with this: the code they expect. */
void model_answer(struct model *m, int want);
/* After each op and each timer event. */
void model_settle(struct model *m);

typedef void model_handler(struct model *m, struct sim_op *sop);

/* ---- model_put.c ---- */
model_handler model_put, model_put_many, model_restore;
/* Inserts the job of a put that succeeds. */
void model_put_new(struct model *m, const bide_put_item *item);

/* ---- model_finish_and_put.c ---- */
model_handler model_finish_and_put;

/* ---- model_reserve.c ---- */
model_handler model_reserve, model_reserve_job;
void model_serve(struct model *m);
void model_reserve_args(struct model *m, struct sim_op *sop, bide_reserve_args *args);
/* Takes what is ready for a call; answers how many jobs. */
size_t model_take_ready(struct model *m, const struct mwaiter *waiter,
                        const bide_reserve_args *args);
bool model_could_take(struct model *m, const struct mwaiter *waiter);

/* ---- model_body_fetch.c ---- */
/* What the op has, just before its bodies come. */
void model_shown(struct sim_op *sop, struct sim_reading *reading);
void model_supply(struct model *m, struct sim_op *sop, const struct sim_reading *reading, int got);
/* The op is answered now, and was not held: its leases begin. */
void model_start_leases_if_committed(struct model *m, struct sim_op *sop);
/* The answer of an op that was held is given. */
void model_start_leases(struct model *m, struct sim_op *sop);
/* What a batch that fails brings back of a reservation ends at once: its op has gone on without
 * it. */
void model_abandon(struct model *m, uint64_t id, uint64_t token);
/* The reservations of an op that fails after all are undone, as far as they still stand. */
void model_undo_op(struct model *m, struct sim_op *sop);
/* A reservation that was never answered ends. */
void model_undo_reserve(struct model *m, struct mjob *job);
void model_unpark(struct model *m, struct sim_op *sop);

/* ---- model_finish.c ---- */
model_handler model_delete, model_done, model_finish_many, model_finish_and_reserve;
/* Takes a job out and counts it as deleted; finished: by its holder. */
void model_delete_job(struct model *m, struct mjob *job);
void model_drop(struct model *m, struct mjob *job, bool finished);
/* A job is done: with its result, or gone. */
void model_keep(struct model *m, struct mjob *job, bide_slice result, int64_t retain_ms);
void model_forget(struct model *m, struct mjob *job);
bide_slice model_result_of(const bide_finish_item *item);
/* The retention of a done job is over. */
void model_retire(struct model *m, struct mjob *job);
/* Drops the oldest done jobs of a topic that holds too many. */
/* At most so many results go; after an op, two. */
void model_limit_done(struct model *m, int name, unsigned steps);
#define MODEL_DONE_STEP 2

/* ---- model_lease.c ---- */
model_handler model_release, model_give_back, model_fail, model_bury, model_touch;
model_handler model_touch_many;
enum { MODEL_HOLDER, MODEL_ANYBODY };
/* Finds the job for an op that names it with this token, after a lease that is over has ended. */
int model_lease(struct model *m, uint64_t id, uint64_t token, int who, struct mjob **job);
/* Is the lease over, though no tick has ended it yet? With the wheel it ends with its tick. */
bool model_is_overdue(const struct model *m, const struct mjob *job);
void model_end_if_overdue(struct model *m, uint64_t id);
void model_release_job(struct model *m, struct mjob *job, int64_t priority, int64_t delay_ms,
                       int64_t run_at_ms);
void model_bury_job(struct model *m, struct mjob *job, int64_t priority, bide_slice reason);
void model_end_of_lease(struct model *m, struct mjob *job);
/* A failure was counted: delayed by backoff, or buried; why is the event to tell. */
/* A delay by backoff must lie within its bounds. */
void model_check_backoff(struct model *m, const struct mjob *job, int64_t delay);
void model_retry(struct model *m, struct mjob *job, bide_event_kind why);
void model_enter_buried(struct model *m, struct mjob *job);
/* Ready now, or delayed on the boot-time clock. */
void model_requeue(struct model *m, struct mjob *job, int64_t delay_ms);
void model_set_error(struct model *m, struct mjob *job, bide_slice text);
/* Adds a failure to the history; without the oldest if there are too many. */
void model_add_failure(struct model *m, struct mjob *job, bide_failure_kind kind, bide_slice text);
/* The history as the bytes say. */
void model_set_history(struct mjob *job, const void *data, size_t size);
void model_compare_history(struct model *m, const char *what, const struct mjob *job,
                           const void *data, size_t size);

/* ---- model_admin.c ---- */
model_handler model_kick, model_kick_job, model_update, model_cancel, model_purge;
model_handler model_pause, model_resume, model_topic_ref, model_ping, model_drain;

/* ---- model_policy.c ---- */
model_handler model_topic_set, model_topic_get;
/* May a job of the topic be reserved, as far as its policy goes? */
bide_limit model_limit(const struct model *m, int name);
void model_take_token(struct model *m, int name);
/* Other settings from now on. */
void model_replace_policy(struct model *m, int name, bool has, const bide_topic_policy *policy);
/* A reservation holds for the changes that a rollback of would leave too many reserved. */
void model_depend_on_limits(struct model *m, int name);
uint64_t model_max_jobs(const struct model *m, int name);
/* What a put says, with what the policy of its topic says where the put does not. */
bide_put_options model_put_options(const struct model *m, const bide_put_item *item);

/* ---- model_query.c ---- */
model_handler model_peek, model_peek_first, model_find_key, model_job_stats, model_body;
model_handler model_result, model_stats, model_topic_stats;
void model_compare_job(struct model *m, const struct mjob *job, const bide_job *got, uint64_t token,
                       bool with_body);
void model_compare_topic(struct model *m, int name, const bide_topic_stats *got);
/* Delayed jobs: how far the due time is from now. */
int64_t model_distance(const struct model *m, const struct mjob *job);

/* ---- model_worker.c ---- */
model_handler model_announce, model_list_workers, model_why;
void model_expire_worker(struct model *m, uint64_t number);

/* ---- model_waiter.c: waiting calls of every kind ---- */
model_handler model_wait, model_recovered_op;
/* All jobs are loaded: waits for recovery complete. */
void model_retire_all(struct model *m);
void model_recovered(struct model *m);
/* NULL when there are too many. */
struct mwaiter *model_add_waiter(struct model *m, struct sim_op *sop, int64_t timeout_ms);
/* The core must have completed this one next, with this code; forgets it. */
void model_complete(struct model *m, struct mwaiter *waiter, int want, uint64_t hold);
/* The same for one whose bodies must be read: it is parked. */
void model_complete_lacking(struct model *m, struct mwaiter *waiter, uint64_t hold);
void model_park(struct model *m, struct mwaiter *waiter);
void model_resume_waiter(struct model *m, struct mwaiter *waiter);
void model_remove_waiter(struct model *m, struct mwaiter *waiter);
struct mwaiter *model_find_waiter(struct model *m, const struct sim_op *sop);
/* Those who wait for the job learn that it is done, buried or gone. */
/* finished: of gone, the work is done. */
void model_notify_waits(struct model *m, const struct mjob *job, bide_state state, bool finished);
/* Those that have changed what is now undone fail; what others saw is as it was. */
void model_fail_waiters(struct model *m);
void model_cancel_op(struct model *m, struct sim_op *sop);
void model_close(struct model *m);
/* An orderly end: what would count as a failure after it is given back. */
void model_stop(struct model *m);
/* Does its holder outlive the process? */
bool model_outlives(const struct model *m, const struct mjob *job);

/* ---- model_event.c ---- */
model_handler model_subscribe, model_events, model_unsubscribe;
void model_event(struct model *m, const struct mjob *job, bide_event_kind kind, bide_state state);
void model_serve_feeds(struct model *m);
void model_rollback_feeds(struct model *m);
void model_free_feeds(struct model *m);

/* ---- model_timer.c ---- */
void model_tick(struct model *m);
/* The next moments at which something is to be done. */
struct bi_now model_next(const struct model *m);
int64_t model_next_call(const struct model *m);
/* With the wheel: the tick at which there is something to do. */
int64_t model_next_tick(const struct model *m);
/* Does the core have a job with this id? */
bool model_core_has(struct model *m, uint64_t id);
/* Asks the core for what the backoff came to, and checks it. */
void model_learn_delays(struct model *m);

/* ---- model_journal.c ---- */
/* Before a change that is to be stored. */
void model_change(struct model *m, struct mjob *job);
void model_change_new(struct model *m, struct mjob *job);
void model_change_pause(struct model *m, int name);
/* The batch that the core has put the removal of a job into; 0 if that does not matter. */
uint64_t model_batch_of_removal(struct model *m, const struct mjob *job);
/* A change that comes into that batch, unless it is 0. */
void model_change_in(struct model *m, struct mjob *job, uint64_t batch);
/* So many changes come into one batch, until model_end_group(). */
void model_begin_group(struct model *m, uint64_t changes, uint64_t bytes);
void model_end_group(struct model *m);
/* An allocation failed: the core may have begun another batch for what then did not change. */
void model_resync(struct model *m);
/* May answers wait for this batch? It is sealed, or there is something in it to seal. */
bool model_will_come(const struct model *m, uint64_t batch);
/* The answer has a token. */
void model_depend_on_token(struct model *m);
/* Does something not yet committed need the topic? */
bool model_is_kept(const struct model *m, int name);
/* The answer tells of this job, or that there is none with this id. */
void model_depend_on(struct model *m, const struct mjob *job);
void model_depend_on_absent(struct model *m, uint64_t id);
/* A job of this topic was looked for, and there is none. */
void model_depend_on_topic(struct model *m, int name);
uint64_t model_hold_of(const struct model *m, uint64_t batch);
void model_seal(struct model *m, const struct bi_batch *batch);
void model_committed(struct model *m, uint64_t batch);
void model_rollback(struct model *m);
/* Whatever is buried or done from now on comes after what is in the store. */
void model_begin_load(struct model *m, const struct sim_store *store);
void model_load(struct model *m, const struct bi_image *image);
void model_load_topic(struct model *m, int name, int64_t due, const bide_buf *policy);

#endif
