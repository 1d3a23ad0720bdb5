/* SPDX-License-Identifier: MIT */
/*
 * scheduler - the thread that puts the jobs of schedules.
 *
 * It reserves the jobs of schedules that are due, up to BATCH, and ends each by one step: the job is
 * deleted, and its successor and the jobs of its moments are put. All steps of a batch are submitted
 * together, so that they share a commit.
 *
 * Why each moment has exactly one job: the next moment is in the body of the job of the schedule, and
 * only the step changes it, together with the puts. A scheduler that is late, has lost its lease or
 * is killed changes nothing. The time is that of the reservation by the clock of the queue
 * (reserved_ms), so that the clock of this machine does not matter.
 *
 * Failure    A definition that no scheduler can run is buried with the reason. A step that the queue
 *            rejects for now (draining, a full topic) makes the job fail: it is tried again after
 *            1 s to 15 s, and then the misfire policy applies. So does a zone that this machine
 *            does not have, but the delay goes on doubling up to 10 minutes; another scheduler may
 *            have it. Without a reply the lease expires after 5 s.
 * Threads    Everything runs on the thread of the scheduler, with its own completion queue.
 */
#include "schedule/scheduler.h"

#include "queue/queue.h"
#include "schedule/schedule.h"
#include "util/clock.h"
#include "util/sized_struct.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH           100
#define RETRY_FIRST_MS  50
#define RETRY_MAX_MS    5000
#define STOP_TIMEOUT_MS 30000

/* Of a schedule whose zone is missing. */
#define ZONE_RETRY_FIRST_MS INT64_C(1000)
#define ZONE_RETRY_MAX_MS   INT64_C(600000)

/* What becomes of the job of a schedule. */
enum outcome {
    OUTCOME_STEP, /* the step is to be made */
    OUTCOME_DONE, /* made, or made by another scheduler, or its lease expires */
    OUTCOME_FAIL, /* fail(error) */
    OUTCOME_BURY, /* bury(error) */
};

/* The turn of one schedule. */
struct turn {
    const bide_job *job;
    struct schedule *schedule;
    struct schedule_plan plan;
    enum outcome outcome;
    int64_t retry_in_ms; /* of OUTCOME_FAIL; BIDE_KEEP: the backoff of the job */
    char error[BI_ERRMSG_SIZE];
    bide_op op; /* of the present stage; kind 0: none */
    bide_job holder;
    char key[BIDE_KEY_MAX];
    bide_put_item *items;
    struct schedule_put *puts;
};

struct bide_scheduler {
    bide *queue;
    bide_cq *cq;
    pthread_t thread;
    bool patient;
    int64_t stop_timeout_ms;
    _Atomic bool noticed; /* a job has come to the topic, or will */
    _Atomic bool stopping;
    pthread_mutex_t lock;
    bool abandoned; /* with the lock: the thread must not enter the queue any more */
    struct bi_log log;
    struct bi_log_limit log_limit;  /* of reserves that fail */
    struct bi_log_limit turn_limit; /* of turns that fail */
    char holder[BIDE_HOLDER_MAX + 1];
    int64_t retry_ms;
    bide_job jobs[BATCH];
    struct turn turns[BATCH];
};

static const bide_slice topic = {BIDE_SCHEDULE_TOPIC, sizeof(BIDE_SCHEDULE_TOPIC) - 1};

/* ---- ops ---- */

/* False if the scheduler is abandoned. Otherwise the queue is not freed before bi_queue_leave().
 * The lock is not held longer, so that bi_scheduler_abandon() need not wait for a call of the
 * queue. */
static bool enter_queue(struct bide_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    bool open = !scheduler->abandoned;
    if (open)
        bi_queue_enter(scheduler->queue);
    pthread_mutex_unlock(&scheduler->lock);
    return open;
}

/* The queue of a server commits on request of its event loop, which does not know of these ops:
 * without the request they would wait for the next client. */
static int submit(struct bide_scheduler *scheduler, bide_op *const *list, size_t count)
{
    if (!enter_queue(scheduler))
        return BIDE_CLOSED;
    int pending = bide_submit(scheduler->queue, list, count);
    if (scheduler->patient)
        bi_queue_commit(scheduler->queue, false);
    bi_queue_leave(scheduler->queue);
    return pending;
}

static void cancel(struct bide_scheduler *scheduler, bide_op *op)
{
    if (!enter_queue(scheduler))
        return;
    bide_cancel_op(scheduler->queue, op);
    bi_queue_leave(scheduler->queue);
}

/* Runs an op that may wait. A stop cancels it; it may have succeeded nevertheless. */
static int run_op(struct bide_scheduler *scheduler, bide_op *op)
{
    bide_op *const list[1] = {op};
    bool cancelled = false;

    op->cq = scheduler->cq;
    op->status = BIDE_CLOSED; /* if it is not submitted */
    if (submit(scheduler, list, 1) < 0)
        return op->status;
    while (op->status == BIDE_PENDING) {
        if (scheduler->stopping && !cancelled) {
            cancel(scheduler, op);
            cancelled = true;
        }
        bide_cq_wait(scheduler->cq, BIDE_FOREVER);
    }
    return op->status;
}

/* Runs the ops of the turns that have one, and waits for all. */
static void run_stage(struct bide_scheduler *scheduler, size_t count)
{
    bide_op *list[BATCH];
    size_t n = 0;

    for (size_t i = 0; i < count; i++)
        if (scheduler->turns[i].op.kind != BIDE_OP_NONE) {
            list[n] = &scheduler->turns[i].op;
            list[n]->cq = scheduler->cq;
            list[n++]->status = BIDE_CLOSED; /* if the list is rejected as a whole */
        }
    if (n == 0)
        return;
    submit(scheduler, list, n);
    for (size_t i = 0; i < n; i++)
        while (list[i]->status == BIDE_PENDING)
            bide_cq_wait(scheduler->cq, BIDE_FOREVER);
}

static bide_op *begin_op(struct turn *turn, bide_op_kind kind)
{
    memset(&turn->op, 0, sizeof(turn->op));
    turn->op.kind = kind;
    return &turn->op;
}

/* Takes the status of the op of the last stage. False: the turn had none. */
static bool take_status(struct turn *turn, int *code)
{
    bool had_op = turn->op.kind != BIDE_OP_NONE;
    *code = turn->op.status;
    turn->op.kind = BIDE_OP_NONE;
    return had_op;
}

/* The step cannot be made now. reason may be the error of the turn; "": the text of the code. */
static void fail_turn(struct turn *turn, int code, const char *reason)
{
    bool invalid = code == BIDE_EINVAL || code == BIDE_TOO_BIG || code == BIDE_ENOTSUP;
    bool gone = code == BIDE_LEASE_LOST || code == BIDE_NOT_FOUND || code == BIDE_CLOSED ||
                code == BIDE_EUNKNOWN;

    turn->outcome = gone ? OUTCOME_DONE : invalid ? OUTCOME_BURY : OUTCOME_FAIL;
    if (reason != turn->error)
        bi_errmsg_set(turn->error, "%s", reason[0] != 0 ? reason : bide_code_text(code));
}

/* ---- the stages of a turn ---- */

/* Each takes the status of the last one's op, and may begin another op. */

static void open_zone(struct turn *turn)
{
    if (bi_schedule_open_zone(turn->schedule, turn->error) == BIDE_OK)
        return;
    fail_turn(turn, BIDE_EIO, turn->error);
    turn->retry_in_ms = ZONE_RETRY_MAX_MS;
    if (turn->job->failures < 10)
        turn->retry_in_ms = ZONE_RETRY_FIRST_MS << turn->job->failures;
    if (turn->retry_in_ms > ZONE_RETRY_MAX_MS)
        turn->retry_in_ms = ZONE_RETRY_MAX_MS;
}

/* 1. Plans what is due; finds the last job if the overlap policy is about it. */
static void plan_turn(struct bide_scheduler *scheduler, struct turn *turn)
{
    (void)scheduler;
    int code = bi_schedule_of_job(turn->job, &turn->schedule, turn->error);
    if (code != BIDE_OK) {
        fail_turn(turn, code, turn->error);
        return;
    }

    const struct schedule *schedule = turn->schedule;
    assert(schedule != NULL);
    if (schedule->def.state == BIDE_SCHEDULE_DAMAGED) {
        fail_turn(turn, BIDE_EINVAL, schedule->problem);
        return;
    }
    if (bi_schedule_needs_zone(schedule))
        open_zone(turn);
    if (turn->outcome != OUTCOME_STEP)
        return;

    bi_schedule_plan(schedule, turn->job->reserved_ms, &turn->plan);
    if (turn->plan.count == 0 || schedule->def.overlap == BIDE_OVERLAP_ALLOW)
        return;
    bide_slice key = bi_schedule_last_key(schedule, turn->key);
    const char *name = schedule->def.topic;
    if (key.size > 0)
        begin_op(turn, BIDE_OP_FIND)->query =
            (bide_query_args){.topic = {name, strlen(name)}, .key = key, .job = &turn->holder};
}

/* 2. Applies the overlap policy to the job that was found. */
static void end_last(struct bide_scheduler *scheduler, struct turn *turn)
{
    int code;
    (void)scheduler;
    if (!take_status(turn, &code) || code == BIDE_NOT_FOUND)
        return;
    if (code != BIDE_OK) {
        fail_turn(turn, code, turn->op.error);
        return;
    }

    /* A reserved job goes on holding the key of the schedule. */
    bool skips = turn->schedule->def.overlap == BIDE_OVERLAP_SKIP;
    if (skips ||
        (turn->holder.state == BIDE_STATE_RESERVED && turn->schedule->options.key.size > 0))
        turn->plan.count = 0;
    /* If the lease was lost before the find, the job that was found may be the one that another
     * scheduler has put for this moment. So the lease is proven before the cancel. */
    if (!skips)
        begin_op(turn, BIDE_OP_TOUCH)->touch = (bide_touch_item){
            .id = turn->job->id, .token = turn->job->token, .extend_ms = BIDE_KEEP};
}

/* 3. */
static void cancel_last(struct bide_scheduler *scheduler, struct turn *turn)
{
    int code;
    (void)scheduler;
    if (!take_status(turn, &code))
        return;
    if (code == BIDE_OK || code == BIDE_CANCEL_WANTED)
        begin_op(turn, BIDE_OP_CANCEL)->lease = (bide_lease_args){.id = turn->holder.id};
    else
        fail_turn(turn, code, turn->op.error);
}

static bool describe_step(struct turn *turn, size_t count)
{
    turn->items = calloc(count, sizeof(*turn->items));
    turn->puts = calloc(count, sizeof(*turn->puts));
    if (turn->items == NULL || turn->puts == NULL)
        return false;

    for (size_t i = 0; i < turn->plan.count; i++)
        bi_schedule_describe(turn->schedule, turn->plan.moments[i], turn->job->reserved_ms,
                             &turn->puts[i + 1], &turn->items[i + 1]);
    bi_schedule_advance(turn->schedule, &turn->plan);
    return bi_schedule_describe_self(turn->schedule, &turn->puts[0], &turn->items[0]);
}

/* 4. The step. */
static void begin_step(struct bide_scheduler *scheduler, struct turn *turn)
{
    int code;
    (void)scheduler;
    if (take_status(turn, &code) && code != BIDE_OK && code != BIDE_NOT_FOUND &&
        code != BIDE_WRONG_STATE)
        fail_turn(turn, code, turn->op.error);
    if (turn->outcome != OUTCOME_STEP)
        return;

    size_t count = turn->plan.count + 1;
    if (!describe_step(turn, count)) {
        fail_turn(turn, BIDE_ENOMEM, "out of memory");
        return;
    }
    begin_op(turn, BIDE_OP_FINISH_AND_PUT)->finish_and_put = (bide_finish_and_put_args){
        .finish = {.id = turn->job->id, .token = turn->job->token},
        .items = turn->items,
        .count = count,
    };
}

/* Every burial, but not every failure: each schedule fails while the queue is draining, and many
 * may have the zone that is missing. */
static void log_failure(struct bide_scheduler *scheduler, const struct turn *turn)
{
    bool bury = turn->outcome == OUTCOME_BURY;
    if (!bury &&
        (turn->job->failures > 0 || bi_log_limit_hit(&scheduler->turn_limit, bi_clock_boot()) == 0))
        return;
    bi_log(&scheduler->log, BIDE_LOG_WARN, "schedule \"%.*s\" %s: %s", (int)turn->job->key_size,
           turn->job->key_size == 0 ? "" : (const char *)turn->job->key,
           bury ? "is buried" : "has failed and is tried again", turn->error);
}

/* 5. Fails or buries the job if there is no step. */
static void end_step(struct bide_scheduler *scheduler, struct turn *turn)
{
    int code;
    if (take_status(turn, &code)) {
        turn->outcome = OUTCOME_DONE;
        if (code != BIDE_OK)
            fail_turn(turn, code, turn->op.error);
    }
    if (turn->outcome == OUTCOME_DONE)
        return;

    assert(turn->outcome == OUTCOME_FAIL || turn->outcome == OUTCOME_BURY);
    bide_slice text = {turn->error, strlen(turn->error)};
    uint64_t id = turn->job->id, token = turn->job->token;
    log_failure(scheduler, turn);
    if (turn->outcome == OUTCOME_BURY)
        begin_op(turn, BIDE_OP_BURY)->bury =
            (bide_bury_args){.id = id, .token = token, .priority = BIDE_KEEP, .reason = text};
    else
        begin_op(turn, BIDE_OP_FAIL)->fail = (bide_fail_args){
            .id = id, .token = token, .retry_in_ms = turn->retry_in_ms, .error = text};
}

/* 6. */
static void clear_turn(struct bide_scheduler *scheduler, struct turn *turn)
{
    bi_schedule_free(turn->schedule);
    bide_job_clear(&turn->holder);
    if (turn->puts != NULL)
        free(turn->puts[0].text);
    free(turn->items);
    free(turn->puts);
    turn->op.kind = BIDE_OP_NONE;
    bide_job_clear(&scheduler->jobs[turn - scheduler->turns]);
}

static void take_turns(struct bide_scheduler *scheduler, size_t count)
{
    static void (*const stages[])(struct bide_scheduler * scheduler, struct turn * turn) = {
        plan_turn, end_last, cancel_last, begin_step, end_step, clear_turn,
    };

    for (size_t i = 0; i < count; i++)
        scheduler->turns[i] = (struct turn){.job = &scheduler->jobs[i], .retry_in_ms = BIDE_KEEP};
    for (size_t stage = 0; stage < sizeof(stages) / sizeof(stages[0]); stage++) {
        for (size_t i = 0; i < count; i++)
            stages[stage](scheduler, &scheduler->turns[i]);
        run_stage(scheduler, count);
    }
}

/* ---- the thread ---- */

/* Waits before the queue is tried again. */
static void back_off(struct bide_scheduler *scheduler, int code, const char *error)
{
    uint64_t failures = bi_log_limit_hit(&scheduler->log_limit, bi_clock_boot());
    if (failures != 0)
        bi_log(&scheduler->log, BIDE_LOG_WARN, "schedules wait: %s",
               error[0] != 0 ? error : bide_code_text(code));
    if (!scheduler->stopping)
        bide_cq_wait(scheduler->cq, scheduler->retry_ms);
    scheduler->retry_ms =
        scheduler->retry_ms * 2 > RETRY_MAX_MS ? RETRY_MAX_MS : scheduler->retry_ms * 2;
}

static void has_answered(struct bide_scheduler *scheduler)
{
    scheduler->retry_ms = RETRY_FIRST_MS;
    bi_log_limit_reset(&scheduler->log_limit);
}

/* Reserves and runs schedules until the stop, or until the queue is closed. */
static void serve(struct bide_scheduler *scheduler)
{
    bide_op op;
    memset(&op, 0, sizeof(op));

    while (!scheduler->stopping) {
        op.kind = BIDE_OP_RESERVE;
        op.reserve = (bide_reserve_args){.topics = &topic,
                                         .topic_count = 1,
                                         .timeout_ms = BIDE_FOREVER,
                                         .jobs = scheduler->jobs,
                                         .job_max = BATCH,
                                         .holder = {scheduler->holder, strlen(scheduler->holder)}};
        int code = run_op(scheduler, &op);
        if (code == BIDE_OK) {
            has_answered(scheduler);
            take_turns(scheduler, op.reserve.count);
        } else if (code == BIDE_CLOSED) {
            return;
        } else if (!scheduler->stopping) {
            back_off(scheduler, code, op.error);
        }
    }
}

/* Whether there are schedules. A topic without jobs exists while another scheduler waits for it. */
static int has_schedules(struct bide_scheduler *scheduler, bool *found)
{
    bide_topic_stats stats = {.waiting = 0};
    const bide_counts *jobs = &stats.jobs;
    bide_op op;
    memset(&op, 0, sizeof(op));
    op.kind = BIDE_OP_TOPIC_STATS;
    op.topic_stats = (bide_topic_stats_args){.topic = topic, .stats = &stats};

    int code = run_op(scheduler, &op);
    *found = jobs->delayed + jobs->ready + jobs->reserved + jobs->buried + jobs->done > 0;
    return code == BIDE_NOT_FOUND ? BIDE_OK : code;
}

/* Waits until there are schedules, or there may be some. */
static int await_schedules(struct bide_scheduler *scheduler)
{
    bool found = false;
    int code = has_schedules(scheduler, &found);
    while (code == BIDE_OK && !found && !scheduler->noticed && !scheduler->stopping)
        bide_cq_wait(scheduler->cq, BIDE_FOREVER);
    return code;
}

static void *scheduler_main(void *arg)
{
    struct bide_scheduler *scheduler = arg;
    int code = BIDE_OK;

    while (scheduler->patient && !scheduler->stopping) {
        code = await_schedules(scheduler);
        if (code == BIDE_OK || code == BIDE_CLOSED)
            break;
        if (!scheduler->stopping)
            back_off(scheduler, code, "");
    }
    if (code != BIDE_CLOSED)
        serve(scheduler);
    return NULL;
}

/* ---- start and stop ---- */

BI_SIZED_STRUCT_ENDS_WITH(bide_scheduler_options, stop_timeout_ms);

static int read_options(const bide_scheduler_options *given, bide_scheduler_options *options)
{
    char error[BIDE_ERROR_SIZE];

    if (given != NULL &&
        bi_sized_struct_copy(options, given, "BIDE_SCHEDULER_OPTIONS_INIT", error) != BIDE_OK)
        return bi_last_error_set(BIDE_EINVAL, "scheduler_start: %s", error);
    if (options->stop_timeout_ms < BIDE_FOREVER || options->stop_timeout_ms > BIDE_TIME_MAX_MS)
        return bi_last_error_set(BIDE_EINVAL, "scheduler_start: stop_timeout_ms is not a time");
    if (options->name != NULL && (options->name[0] == 0 || strlen(options->name) > BIDE_HOLDER_MAX))
        return bi_last_error_set(BIDE_EINVAL, "scheduler_start: the name must have 1 to %d bytes",
                                 BIDE_HOLDER_MAX);
    return BIDE_OK;
}

static void apply_options(struct bide_scheduler *scheduler, const bide_scheduler_options *options)
{
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    if (options->name != NULL)
        snprintf(scheduler->holder, sizeof(scheduler->holder), "%s", options->name);
    else
        snprintf(scheduler->holder, sizeof(scheduler->holder), "scheduler@%s:%d", host,
                 (int)getpid());

    scheduler->stop_timeout_ms = options->stop_timeout_ms == 0  ? STOP_TIMEOUT_MS
                                 : options->stop_timeout_ms < 0 ? BIDE_TIME_MAX_MS
                                                                : options->stop_timeout_ms;
}

static void free_scheduler(struct bide_scheduler *scheduler)
{
    if (scheduler->cq != NULL) {
        bide_cq_drain(scheduler->cq, 0);
        bide_cq_free(scheduler->cq);
    }
    pthread_mutex_destroy(&scheduler->lock);
    free(scheduler);
}

int bi_scheduler_start(bide *queue, const bide_scheduler_options *options, bool patient,
                       bide_scheduler **out)
{
    BI_NO_CANCEL;
    bide_scheduler_options resolved = BIDE_SCHEDULER_OPTIONS_INIT;
    bi_last_error_clear();
    if (queue == NULL || out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "scheduler_start: queue or out is NULL");
    int code = read_options(options, &resolved);
    if (code != BIDE_OK)
        return code;
    if ((bide_capabilities(queue) & BIDE_CAN_ALL_OPS) == 0)
        return bi_last_error_set(BIDE_ENOTSUP, "scheduler_start: this queue has no schedules: a "
                                               "plain beanstalkd has no lists and keys");

    struct bide_scheduler *scheduler = calloc(1, sizeof(*scheduler));
    if (scheduler == NULL)
        return bi_last_error_set(BIDE_ENOMEM, "scheduler_start: out of memory");
    scheduler->queue = queue;
    scheduler->patient = patient;
    scheduler->retry_ms = RETRY_FIRST_MS;
    pthread_mutex_init(&scheduler->lock, NULL);
    apply_options(scheduler, &resolved);
    scheduler->log = (struct bi_log){queue->options.log, queue->options.log_user};

    code = bide_cq_new(&scheduler->cq);
    if (code != BIDE_OK) {
        free_scheduler(scheduler);
        return code;
    }
    if (!bi_thread_start(&scheduler->thread, scheduler_main, scheduler)) {
        int cause = errno;
        free_scheduler(scheduler);
        return bi_last_error_set(BIDE_ESYSTEM, "scheduler_start: cannot create thread: %s",
                                 strerror(cause));
    }

    queue->workers++; /* bide_close() is rejected while it is not 0 */
    *out = scheduler;
    return BIDE_OK;
}

void bi_scheduler_notice(bide_scheduler *scheduler)
{
    scheduler->noticed = true;
    bi_cq_wake(scheduler->cq);
}

void bi_scheduler_quit(bide_scheduler *scheduler)
{
    if (scheduler == NULL)
        return;
    scheduler->stopping = true;
    bi_cq_wake(scheduler->cq);
}

bool bi_scheduler_join(bide_scheduler *scheduler, int64_t us)
{
    if (scheduler == NULL)
        return true;
    assert(scheduler->stopping && scheduler->queue->workers > 0);
    if (!bi_thread_join_within(scheduler->thread, us))
        return false;
    scheduler->queue->workers--;
    free_scheduler(scheduler);
    return true;
}

void bi_scheduler_abandon(bide_scheduler *scheduler)
{
    pthread_mutex_lock(&scheduler->lock);
    scheduler->abandoned = true;
    pthread_mutex_unlock(&scheduler->lock);
    scheduler->queue->workers--;
}

int bide_scheduler_stop(bide_scheduler *scheduler)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    bi_scheduler_quit(scheduler);
    if (scheduler == NULL || bi_scheduler_join(scheduler, scheduler->stop_timeout_ms * 1000))
        return BIDE_OK;
    return bi_last_error_set(BIDE_TIMED_OUT, "scheduler_stop: the queue does not answer");
}
