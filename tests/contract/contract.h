/* SPDX-License-Identifier: MIT */
/*
 * contract - what the tests of the contract suite are written with.
 *
 * The suite knows the public headers only, so that it can hold any backend to the same promises:
 * docs/SEMANTICS.md says what they are. A test is a function without arguments. It opens its own
 * queue, names its own topics, and makes checks; the first check that fails ends it.
 *
 * Processes  Every test runs in a process of its own. A failed check, on whatever thread, says
 *            what was expected and ends that process; the runner says so when a test crashes or
 *            hangs, and goes on with the next.
 * Ownership  Queues, completion queues, waiters and snapshots that the helpers hand out belong
 *            to the trial, which gives them back when the test has returned.
 * Time       Tests use short real times. They check that nothing is early, and that it comes
 *            within PATIENCE_MS: nothing that depends on the speed of the machine.
 * Sharing    A database is to be left to one run of the suite at a time, but need not be empty.
 */
#ifndef CONTRACT_H
#define CONTRACT_H

#include <bide/bide.h>

#include <pthread.h>

struct test {
    const char *name;
    void (*run)(void);
};

struct theme {
    const char *name;
    const struct test *tests;
    size_t count;
};

/* What a program consists of, besides the runner, which is its main(). */
struct program {
    const char *name;     /* of the program */
    const char *subject;  /* what is checked, in words */
    const char *promises; /* where they are written down */
    const struct theme *const *themes;
    size_t count;
    const struct theme *const *kept; /* further ones, only where is_persistent() */
    size_t kept_count;
    bool (*applies)(const struct theme *theme); /* to this URL; NULL: all do */
    void (*end)(void); /* after each test, before its queues are closed; may be NULL */
};
extern const struct program this_program;

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))
#define TEST(function)      \
    {                       \
#function, function \
    }

extern const struct theme async_theme, bad_call_theme, bad_lease_theme, bad_list_theme, open_theme;
extern const struct theme bad_put_theme, bad_topic_theme, bad_time_theme, cq_theme, events_theme,
    key_theme;
extern const struct theme chaos_theme, shutdown_theme, fuzz_theme, hostile_theme, optionsize_theme;
extern const struct theme lease_theme, touch_theme, limits_theme, list_theme, peek_theme;
extern const struct theme admin_theme, put_theme, reserve_theme, restore_theme, result_theme;
extern const struct theme finish_and_put_theme, history_theme, holder_theme, policy_theme,
    retry_theme, why_theme, workers_theme, stats_theme, strategy_theme, threads_theme, time_theme;
extern const struct theme schedule_theme, restart_schedule_theme;
extern const struct theme storage_calls_theme, thread_cancel_theme, topic_theme, update_theme,
    wait_theme;
/* Only where a server keeps the queue: !is_in_process(). */
extern const struct theme reconnect_theme;
/* Only where is_persistent(). */
extern const struct theme restart_theme, restart_lease_theme, restart_order_theme,
    restart_time_theme;
extern const struct theme loading_theme, loading_ops_theme, loading_close_theme, recovered_theme;
extern const struct theme backup_theme, check_call_theme, cold_theme, cold_concurrent_theme;

/* How long a test waits for what is to come in the end. */
#define PATIENCE_MS INT64_C(10000)

/* Where in a test something was checked. */
struct where {
    const char *file;
    int line;
};
#define HERE ((struct where){__FILE__, __LINE__})

/* ---- checks ---- */

#define CHECK(condition)        check_true(HERE, (condition), #condition)
#define EQ(got, want)           check_equal(HERE, (int64_t)(got), (int64_t)(want), #got)
#define BETWEEN(got, low, high) check_between(HERE, (got), (low), (high), #got)
#define TEXT(data, size, want)  check_text(HERE, (data), (size), (want), #data)
#define FAIL(...)               fail_test(HERE, __VA_ARGS__)

/* The code of a blocking call. One that is not 0 must come with a sentence, 0 without one. */
#define CODE(call, want) check_code(HERE, (call), (want), #call)
#define OK(call)         CODE(call, BIDE_OK)

/* Looks again and again until the condition holds. */
#define UNTIL(condition)                                                         \
    do {                                                                         \
        int64_t until_limit_ = clock_us() + PATIENCE_MS * 1000;                  \
        while (!(condition)) {                                                   \
            check_true(HERE, clock_us() < until_limit_, "in time: " #condition); \
            nap_ms(1);                                                           \
        }                                                                        \
    } while (0)

/* Not early: that much has passed since start_us. */
#define NOT_BEFORE(start_us, duration_ms) check_not_before(HERE, (start_us), (duration_ms))

void check_true(struct where at, bool holds, const char *text);
void check_equal(struct where at, int64_t got, int64_t want, const char *text);
void check_between(struct where at, int64_t got, int64_t low, int64_t high, const char *text);
void check_text(struct where at, const void *data, size_t size, const char *want, const char *text);
void check_code(struct where at, int got, int want, const char *call);
void check_not_before(struct where at, int64_t start_us, int64_t duration_ms);
void fail_test(struct where at, const char *format, ...)
    __attribute__((noreturn, format(printf, 2, 3)));

/* ---- time ---- */

int64_t clock_us(void); /* the boot-time clock, which delays run on */
int64_t wall_us(void);
int64_t wall_ms(void);
void nap_ms(int64_t duration_ms);

/* ---- queues and topics ---- */

/* A queue at the URL under test, with further parameters ("max_touches=2&seed=1", or ""). */
#define open_queue(parameters) open_queue_at(HERE, (parameters))
bide *open_queue_at(struct where at, const char *parameters);

/* The URL of a queue of this test alone, with further parameters. */
const char *trial_url(char *room, size_t size, const char *parameters);

/* Closes a queue before the test ends; what it kept is removed. */
#define close_queue(queue) close_queue_at(HERE, (queue))
void close_queue_at(struct where at, bide *queue);
/* The runner's: closes all that are open, each after a last look at it. */
void close_all_queues(void (*before)(bide *queue));

/* Is what a queue held there again when it is closed and opened? If not, the themes of what is
 * kept are left out. */
bool is_persistent(void);

/* Does what need not wait finish within bide_submit()? The client of a server has to wait for every
 * answer, so each op needs a completion queue. */
bool completes_in_submit(void);

/* Is the queue kept by this process? If not, a server keeps it, its limits and its files: options
 * that limit it are refused here, nobody here is told how far loading has come, its files cannot be
 * copied from here, and others may open it at the same time. */
bool is_in_process(void);

/* How many topics there are before any was made: a server has the one that its clients use until
 * they say another. */
size_t initial_topics(void);

/* The name of a topic that no other test and no other run uses; the same for the same tag. */
const char *fresh_topic(const char *tag);
/* A topic whose name cannot be chosen: it is swept at the end of the test as the others are, but
 * what an earlier run has left there must be swept first. */
const char *known_topic(const char *name);
void sweep_topic(bide *queue, const char *topic);

bide_slice slice(const char *text);

/* ---- jobs ---- */

/* Puts a job that must be taken; as: with options. */
#define put(queue, topic, body)             put_at(HERE, (queue), (topic), (body), NULL)
#define put_as(queue, topic, body, options) put_at(HERE, (queue), (topic), (body), (options))
uint64_t put_at(struct where at, bide *queue, const char *topic, const char *body,
                const bide_put_options *options);

/* Puts a job with a priority, a delay, a key, or in the state that is asked for. */
#define put_first(queue, topic, priority) put_first_at(HERE, (queue), (topic), (priority))
#define put_later(queue, topic, delay_ms) put_later_at(HERE, (queue), (topic), (delay_ms))
#define put_key(queue, topic, key)        put_key_at(HERE, (queue), (topic), (key))
#define put_in(queue, topic, state)       put_in_at(HERE, (queue), (topic), (state), NULL)
#define put_in_as(queue, topic, state, options) \
    put_in_at(HERE, (queue), (topic), (state), (options))
uint64_t put_first_at(struct where at, bide *queue, const char *topic, uint32_t priority);
uint64_t put_later_at(struct where at, bide *queue, const char *topic, int64_t delay_ms);
uint64_t put_key_at(struct where at, bide *queue, const char *topic, const char *key);
uint64_t put_in_at(struct where at, bide *queue, const char *topic, bide_state state,
                   const bide_put_options *options);

/* Puts many jobs alike, with bodies "x", as the options say or by default; ids may be NULL. */
#define put_lots(queue, topic, count, options, ids) \
    put_lots_at(HERE, (queue), (topic), (count), (options), (ids))
void put_lots_at(struct where at, bide *queue, const char *topic, size_t count,
                 const bide_put_options *options, uint64_t *ids);

/* Reserves the job that must be ready now; await: that must come within PATIENCE_MS. */
#define take(queue, topic)         take_at(HERE, (queue), (topic), 0)
#define await(queue, topic)        take_at(HERE, (queue), (topic), PATIENCE_MS)
#define take_job(queue, id)        take_job_at(HERE, (queue), (id))
#define nothing_ready(queue, name) nothing_ready_at(HERE, (queue), (name))
const bide_job *take_at(struct where at, bide *queue, const char *topic, int64_t timeout_ms);
const bide_job *take_job_at(struct where at, bide *queue, uint64_t id);
void nothing_ready_at(struct where at, bide *queue, const char *topic);

/* The job as it is, without and with its body; it must exist. */
#define stat_job(queue, id) get_job_at(HERE, (queue), (id), false)
#define peek_job(queue, id) get_job_at(HERE, (queue), (id), true)
const bide_job *get_job_at(struct where at, bide *queue, uint64_t id, bool body);

/* The state of a job; BIDE_STATE_GONE when there is none. */
#define state_of(queue, id) state_at(HERE, (queue), (id))
bide_state state_at(struct where at, bide *queue, uint64_t id);

/* Figures. A topic that does not exist has a zeroed name. */
#define stats_of(queue)        stats_at(HERE, (queue))
#define topic_of(queue, topic) topic_at(HERE, (queue), (topic))
bide_stats stats_at(struct where at, bide *queue);
bide_topic_stats topic_at(struct where at, bide *queue, const char *topic);
bool topic_exists(bide *queue, const char *topic);

/* The arguments of a reserve of up to job_max jobs. */
bide_reserve_args reserve_args(const bide_slice *topics, size_t topic_count, int64_t timeout_ms,
                               bide_job *jobs, size_t job_max);
void clear_jobs(bide_job *jobs, size_t count);

/* ---- pending ops ---- */

/* An op with room for what it answers, which counts the calls of its callback. */
struct waiter {
    bide_op op;
    bide_job job;
    int calls;
    pthread_t caller; /* the thread of the last callback */
};

#define new_cq() new_cq_at(HERE)
bide_cq *new_cq_at(struct where at);

/* Makes an op that belongs to the trial; nothing is submitted. */
struct waiter *new_op(bide_op_kind kind, bide_cq *cq);

/* Submits one op that must be pending afterwards, or finished with the code. */
#define submit_pending(queue, waiter)    submit_pending_at(HERE, (queue), (waiter))
#define submit_code(queue, waiter, want) submit_code_at(HERE, (queue), (waiter), (want), #waiter)
void submit_pending_at(struct where at, bide *queue, struct waiter *waiter);
void submit_code_at(struct where at, bide *queue, struct waiter *waiter, int want,
                    const char *text);

/* Submits a reserve of one job of the topics that waits for ever; it must be pending. */
#define begin_reserve(queue, cq, topics, count) \
    begin_reserve_at(HERE, (queue), (cq), (topics), (count))
struct waiter *begin_reserve_at(struct where at, bide *queue, bide_cq *cq, const bide_slice *topics,
                                size_t topic_count);

/* Submits a wait for a job that waits for ever; it must be pending. */
#define begin_wait(queue, cq, id) begin_wait_at(HERE, (queue), (cq), (id))
struct waiter *begin_wait_at(struct where at, bide *queue, bide_cq *cq, uint64_t id);

/* Drains until the op has completed; its code must be the one that is wanted. */
#define completes(waiter, want) completes_at(HERE, (waiter), (want), #waiter)
void completes_at(struct where at, struct waiter *waiter, int want, const char *text);

/* Drains what there is; the op must still be pending. */
#define still_pending(waiter) still_pending_at(HERE, (waiter), #waiter)
void still_pending_at(struct where at, struct waiter *waiter, const char *text);

/* ---- threads ---- */

/* Runs count threads; start_thread() and join_thread() fail the test when they cannot. */
pthread_t start_thread(void *(*run)(void *), void *arg);
void join_thread(pthread_t thread);

/* ---- the trial: for the runner ---- */

/* What the runner's process learns of a test that hangs or crashes. */
struct trace {
    const char *file;
    int line;
};

/* Begins the one test of this process, and ends it: gives back everything, checks the closes. */
void trial_begin(const char *url, const char *theme, const char *test, struct trace *trace);
void trial_end(void);
void checks_begin(const char *url, const char *theme, const char *test, struct trace *trace);

#endif
