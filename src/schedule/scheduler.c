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
 *            rejects for now (draining, a full topic), and a zone that this machine does not have,
 *            make the job fail: it is tried again after 1 s to 15 s, perhaps elsewhere, and then the
 *            misfire policy applies. Without a reply the lease expires after 5 s.
 * Threads    Everything runs on the thread of the scheduler, with its own completion queue.
 */
#include "schedule/scheduler.h"

#include "queue/queue.h"
#include "schedule/schedule.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <unistd.h>

#define BATCH          100
#define RETRY_FIRST_MS 50
#define RETRY_MAX_MS   5000

/* What becomes of the job of a schedule. */
enum fate {
    FATE_STEP, /* the step is to be made */
    FATE_DONE, /* made, or made by another scheduler, or its lease expires */
    FATE_FAIL, /* fail(error) */
    FATE_BURY, /* bury(error) */
};

/* The turn of one schedule. */
struct turn {
    const bide_job *job;
    struct schedule *schedule;
    struct schedule_plan plan;
    enum fate fate;
    char error[BI_ERRMSG_SIZE];
    bide_op op; /* of the present stage; kind 0: none */
    bide_job holder;
    char key[BIDE_KEY_MAX];
    char *text;
    bide_put_item *items;
    struct schedule_put *puts;
};

struct bide_scheduler {
    bide *queue;
    bide_cq *cq;
    pthread_t thread;
    bool patient;
    _Atomic bool noticed; /* a job has come to the topic, or will */
    _Atomic bool stopping;
    pthread_mutex_t lock; /* held while the queue is called */
    bool abandoned;       /* the queue must not be used any more */
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

/* bide_submit(), unless the queue is being closed. The queue of a server commits on request of its
 * event loop, which does not know of these ops: without the request they would wait for the next
 * client. */
static int submit(struct bide_scheduler *scheduler, bide_op *const *list, size_t count)
{
    pthread_mutex_lock(&scheduler->lock);
    int pending = scheduler->abandoned ? BIDE_CLOSED : bide_submit(scheduler->queue, list, count);
    if (!scheduler->abandoned && scheduler->patient)
        bi_queue_commit(scheduler->queue, false);
    pthread_mutex_unlock(&scheduler->lock);
    return pending;
}

static void cancel(struct bide_scheduler *scheduler, bide_op *op)
{
    pthread_mutex_lock(&scheduler->lock);
    if (!scheduler->abandoned)
        bide_cancel_op(scheduler->queue, op);
    pthread_mutex_unlock(&scheduler->lock);
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

static void set_fate(struct turn *turn, enum fate fate, const char *reason)
{
    turn->fate = fate;
    if (reason != turn->error)
        bi_errmsg_set(turn->error, "%s", reason);
}

/* The step cannot be made now. */
static void fail_turn(struct turn *turn, int code, const char *reason)
{
    bool invalid = code == BIDE_EINVAL || code == BIDE_TOO_BIG || code == BIDE_ENOTSUP;
    bool gone = code == BIDE_LEASE_LOST || code == BIDE_NOT_FOUND || code == BIDE_CLOSED ||
                code == BIDE_EUNKNOWN;
    set_fate(turn,
             gone      ? FATE_DONE
             : invalid ? FATE_BURY
                       : FATE_FAIL,
             reason[0] != 0 ? reason : bide_code_text(code));
}

/* ---- 1. what is due ---- */

static void plan_turn(struct turn *turn)
{
    const bide_job *job = turn->job;
    int code = bi_schedule_of_job(job, &turn->schedule, turn->error);
    if (code != BIDE_OK) {
        fail_turn(turn, code, turn->error);
        return;
    }
    assert(turn->schedule != NULL);
    if (turn->schedule->def.state == BIDE_SCHEDULE_DAMAGED) {
        set_fate(turn, FATE_BURY, turn->schedule->problem);
        return;
    }

    /* A name of a zone that is unknown here may be known elsewhere. */
    code = bi_schedule_compile(turn->schedule, turn->error);
    if (code != BIDE_OK)
        fail_turn(turn, turn->schedule->no_zone ? BIDE_EIO : code, turn->error);
    else
        bi_schedule_plan(turn->schedule, job->reserved_ms, &turn->plan);
}

/* ---- 2. the last job ---- */

static bool has_policy(const struct turn *turn)
{
    return turn->fate == FATE_STEP && turn->plan.count > 0 &&
           turn->schedule->def.overlap != BIDE_OVERLAP_ALLOW;
}

static void find_last(struct turn *turn)
{
    bide_slice key = {NULL, 0};
    if (has_policy(turn))
        key = bi_schedule_last_key(turn->schedule, turn->key);
    if (key.size == 0)
        return;
    const char *name = turn->schedule->def.topic;
    begin_op(turn, BIDE_OP_FIND)->query =
        (bide_query_args){.topic = {name, strlen(name)}, .key = key, .job = &turn->holder};
}

/* Applies the overlap policy to the job that was found. */
static void end_last(struct turn *turn)
{
    int code = turn->op.status;
    if (turn->op.kind == BIDE_OP_NONE)
        return;
    turn->op.kind = BIDE_OP_NONE;
    if (code != BIDE_OK && code != BIDE_NOT_FOUND)
        fail_turn(turn, code, turn->op.error);
    if (code != BIDE_OK || turn->holder.state == BIDE_STATE_DONE)
        return;

    /* If the lease was lost before the find, the job that was found may be the one that another
     * scheduler has put for this moment. So the lease is proven before the cancel. */
    if (turn->schedule->def.overlap == BIDE_OVERLAP_SKIP)
        turn->plan.count = 0;
    else
        begin_op(turn, BIDE_OP_TOUCH)->touch = (bide_touch_item){
            .id = turn->job->id, .token = turn->job->token, .extend_ms = BIDE_KEEP};
}

static void begin_cancel(struct turn *turn)
{
    int code = turn->op.status;
    if (turn->op.kind == BIDE_OP_NONE)
        return;
    turn->op.kind = BIDE_OP_NONE;
    if (code == BIDE_OK || code == BIDE_CANCEL_WANTED)
        begin_op(turn, BIDE_OP_CANCEL)->lease = (bide_lease_args){.id = turn->holder.id};
    else
        fail_turn(turn, code, turn->op.error);
}

static void after_cancel(struct turn *turn)
{
    int code = turn->op.status;
    if (turn->op.kind == BIDE_OP_NONE)
        return;
    turn->op.kind = BIDE_OP_NONE;
    if (code != BIDE_OK && code != BIDE_NOT_FOUND && code != BIDE_WRONG_STATE)
        fail_turn(turn, code, turn->op.error);
}

/* ---- 3. the step ---- */

static bool describe_step(struct turn *turn, size_t count)
{
    struct schedule *schedule = turn->schedule;
    turn->items = calloc(count, sizeof(*turn->items));
    turn->puts = calloc(count, sizeof(*turn->puts));
    if (turn->items == NULL || turn->puts == NULL)
        return false;

    for (size_t i = 0; i < turn->plan.count; i++)
        bi_schedule_describe(schedule, turn->plan.moments[i], turn->job->reserved_ms,
                             &turn->puts[i + 1], &turn->items[i + 1]);

    bi_schedule_advance(schedule, &turn->plan);
    json_t *object = bi_schedule_encode(&schedule->def, BI_SCHEDULE_STORED);
    turn->text = object == NULL ? NULL : json_dumps(object, JSON_COMPACT);
    json_decref(object);
    if (turn->text == NULL)
        return false;
    bi_schedule_describe_self(schedule, turn->text, &turn->puts[0], &turn->items[0]);
    return true;
}

static void begin_step(struct turn *turn)
{
    size_t count = turn->plan.count + 1;
    if (turn->fate != FATE_STEP)
        return;
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

static void after_step(struct turn *turn)
{
    if (turn->op.kind == BIDE_OP_NONE)
        return;
    turn->op.kind = BIDE_OP_NONE;
    if (turn->op.status == BIDE_OK)
        turn->fate = FATE_DONE;
    else
        fail_turn(turn, turn->op.status, turn->op.error);
}

/* ---- 4. failures ---- */

/* Every burial, but not every failure: all schedules fail while the queue is draining. */
static void log_failure(struct bide_scheduler *scheduler, const struct turn *turn)
{
    bool bury = turn->fate == FATE_BURY;
    if (!bury && bi_log_limit_hit(&scheduler->turn_limit, bi_clock_boot()) == 0)
        return;
    bi_log(&scheduler->log, BIDE_LOG_WARN, "schedule \"%.*s\" %s: %s", (int)turn->job->key_size,
           turn->job->key_size == 0 ? "" : (const char *)turn->job->key,
           bury ? "is buried" : "has failed and is tried again", turn->error);
}

static void begin_failure(struct bide_scheduler *scheduler, struct turn *turn)
{
    bide_slice text = {turn->error, strlen(turn->error)};
    if (turn->fate == FATE_DONE)
        return;

    assert(turn->fate == FATE_FAIL || turn->fate == FATE_BURY);
    log_failure(scheduler, turn);
    if (turn->fate == FATE_BURY)
        begin_op(turn, BIDE_OP_BURY)->bury = (bide_bury_args){
            .id = turn->job->id, .token = turn->job->token, .priority = BIDE_KEEP, .reason = text};
    else
        begin_op(turn, BIDE_OP_FAIL)->fail = (bide_fail_args){.id = turn->job->id,
                                                              .token = turn->job->token,
                                                              .retry_in_ms = BIDE_KEEP,
                                                              .error = text};
}

/* ---- a batch ---- */

static void clear_turn(struct turn *turn)
{
    bi_schedule_free(turn->schedule);
    bide_job_clear(&turn->holder);
    free(turn->text);
    free(turn->items);
    free(turn->puts);
}

static void take_turns(struct bide_scheduler *scheduler, size_t count)
{
    struct turn *turns = scheduler->turns;

    for (size_t i = 0; i < count; i++) {
        turns[i] = (struct turn){.job = &scheduler->jobs[i]};
        plan_turn(&turns[i]);
        find_last(&turns[i]);
    }
    run_stage(scheduler, count);
    for (size_t i = 0; i < count; i++)
        end_last(&turns[i]);
    run_stage(scheduler, count);
    for (size_t i = 0; i < count; i++)
        begin_cancel(&turns[i]);
    run_stage(scheduler, count);
    for (size_t i = 0; i < count; i++) {
        after_cancel(&turns[i]);
        begin_step(&turns[i]);
    }
    run_stage(scheduler, count);
    for (size_t i = 0; i < count; i++) {
        after_step(&turns[i]);
        begin_failure(scheduler, &turns[i]);
    }
    run_stage(scheduler, count);
    for (size_t i = 0; i < count; i++) {
        clear_turn(&turns[i]);
        bide_job_clear(&scheduler->jobs[i]);
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

/* Whether there are schedules. */
static int has_schedules(struct bide_scheduler *scheduler, bool *found)
{
    bide_topic_stats stats;
    bide_op op;
    memset(&op, 0, sizeof(op));
    op.kind = BIDE_OP_TOPIC_STATS;
    op.topic_stats = (bide_topic_stats_args){.topic = topic, .stats = &stats};

    int code = run_op(scheduler, &op);
    *found = code == BIDE_OK;
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

/* "scheduler@host:123", which a job shows while it is held. */
static void set_holder(struct bide_scheduler *scheduler)
{
    char host[64] = "";
    gethostname(host, sizeof(host) - 1);
    snprintf(scheduler->holder, sizeof(scheduler->holder), "scheduler@%s:%d", host, (int)getpid());
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

int bi_scheduler_start(bide *queue, bool patient, bide_scheduler **out)
{
    BI_NO_CANCEL;
    bi_last_error_clear();
    if (queue == NULL || out == NULL)
        return bi_last_error_set(BIDE_EINVAL, "scheduler_start: queue or out is NULL");
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
    set_holder(scheduler);
    scheduler->log = (struct bi_log){queue->options.log, queue->options.log_user};

    int code = bide_cq_new(&scheduler->cq);
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

static void release_scheduler(struct bide_scheduler *scheduler)
{
    assert(scheduler->queue->workers > 0);
    scheduler->queue->workers--;
    free_scheduler(scheduler);
}

bool bi_scheduler_join(bide_scheduler *scheduler, int64_t us)
{
    if (scheduler == NULL)
        return true;
    assert(scheduler->stopping);
    if (!bi_thread_join_within(scheduler->thread, us))
        return false;
    release_scheduler(scheduler);
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
    if (scheduler == NULL)
        return BIDE_OK;

    bi_scheduler_quit(scheduler);
    pthread_join(scheduler->thread, NULL);
    release_scheduler(scheduler);
    return BIDE_OK;
}
