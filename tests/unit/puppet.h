/* SPDX-License-Identifier: MIT */
/*
 * puppet - a queue that answers what the test says, when the test says.
 *
 * Its backend keeps no jobs: a reserve gets what the test hands out, and every other op is answered
 * by a rule for its kind: at once, through its completion queue, or when the test lets it go. It
 * notes what came, so that a test can wait for an op and look at it.
 */
#ifndef BI_UNIT_PUPPET_H
#define BI_UNIT_PUPPET_H

#include "unit.h"

#include "backend/answer.h"
#include "queue/queue.h"
#include "util/clock.h"
#include "util/thread.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define PUPPET_IDS   64  /* jobs have ids below that */
#define PUPPET_HELD  256 /* ops that wait at a time */
#define PUPPET_SEEN  4096
#define TOKEN_OF(id) ((id) + 1000)

/* A limit that only a test which has failed reaches. */
#define PATIENCE_US 30000000

enum puppet_way {
    AT_ONCE, /* within submit */
    THROUGH_CQ,
    HELD, /* until the test lets it go */
};

struct puppet_rule {
    enum puppet_way way;
    int code;
    int first[8]; /* the codes of the first ops, instead */
    size_t first_count;
};

/* What came. */
struct puppet_note {
    bide_op_kind kind;
    uint64_t id;
    int64_t delay_ms; /* of a release, or of the retry that a fail asks for */
    int delta;        /* of a topic_ref */
    size_t count;     /* items of a touch_many */
    uint64_t ids[8];  /* the first of them */
    char text[80];    /* an error, a reason, a result, the progress of the first item, a topic */
    int64_t at;       /* when */
};

struct puppet {
    struct backend base;
    struct bide queue;
    pthread_mutex_t lock;
    pthread_cond_t changed;
    struct puppet_rule rules[BIDE_OP_COUNT];
    int touch_codes[PUPPET_IDS]; /* of items */
    bool cancel_wanted[PUPPET_IDS];
    bide_state fail_state;
    bide_job ready[PUPPET_IDS];
    size_t ready_count;
    bide_op *held[PUPPET_HELD];
    size_t held_count;
    struct puppet_note notes[PUPPET_SEEN];
    size_t note_count;
    unsigned feeds; /* that are open */
    bool closed;
    bool serves_cancelled; /* a reserve that is given up gets a job all the same */
    /* Called for every op before it is run, with no lock held; may be NULL. */
    void (*before)(struct puppet *puppet, bide_op_kind kind);
    void *user;
};

static inline struct puppet *puppet_of(struct backend *backend)
{
    return (struct puppet *)(void *)backend;
}

/* ---- noting ---- */

static inline void puppet_text(struct puppet_note *note, const void *data, size_t size)
{
    if (size > sizeof(note->text) - 1)
        size = sizeof(note->text) - 1;
    if (size > 0)
        memcpy(note->text, data, size);
    note->text[size] = 0;
}

static inline void puppet_note_touches(struct puppet_note *note, const bide_op *op)
{
    const bide_touch_many_args *touches = &op->touch_many;
    note->count = touches->count;
    for (size_t i = 0; i < touches->count && i < COUNT_OF(note->ids); i++)
        note->ids[i] = touches->items[i].id;
    note->id = touches->items[0].id;
    note->delay_ms = touches->items[0].extend_ms;
    puppet_text(note, touches->items[0].progress.data, touches->items[0].progress.size);
}

static inline void puppet_note_answer(struct puppet_note *note, const bide_op *op)
{
    if (op->kind == BIDE_OP_DONE) {
        note->id = op->finish.id;
        const bide_buf *result = op->finish.buf != NULL ? op->finish.buf : op->finish.made_;
        puppet_text(note, bide_buf_data(result), bide_buf_size(result));
    } else if (op->kind == BIDE_OP_FAIL) {
        note->id = op->fail.id;
        note->delay_ms = op->fail.retry_in_ms;
        puppet_text(note, op->fail.error.data, op->fail.error.size);
    } else if (op->kind == BIDE_OP_BURY) {
        note->id = op->bury.id;
        puppet_text(note, op->bury.reason.data, op->bury.reason.size);
    } else if (op->kind == BIDE_OP_RELEASE) {
        note->id = op->release.id;
        note->delay_ms = op->release.delay_ms;
    } else if (op->kind == BIDE_OP_DELETE || op->kind == BIDE_OP_GIVE_BACK) {
        note->id = op->lease.id;
    } else if (op->kind == BIDE_OP_JOB_STATS) {
        note->id = op->look.id;
    } else if (op->kind == BIDE_OP_TOPIC_REF) {
        note->delta = op->topic.delta;
        puppet_text(note, op->topic.topic.data, op->topic.topic.size);
    }
}

static inline void puppet_note(struct puppet *puppet, const bide_op *op)
{
    assert_true(puppet->note_count < PUPPET_SEEN);
    struct puppet_note *note = &puppet->notes[puppet->note_count++];
    *note = (struct puppet_note){.kind = op->kind, .at = bi_clock_boot()};
    if (op->kind == BIDE_OP_TOUCH_MANY)
        puppet_note_touches(note, op);
    else
        puppet_note_answer(note, op);
    pthread_cond_broadcast(&puppet->changed);
}

/* ---- answering ---- */

static inline void puppet_touch(const struct puppet *puppet, bide_op *op)
{
    for (size_t i = 0; i < op->touch_many.count; i++) {
        bide_touch_item *item = &op->touch_many.items[i];
        item->status = puppet->touch_codes[item->id % PUPPET_IDS];
        item->left_ms = 0;
    }
}

/* The results of an op that is taken, or looked. */
static inline void puppet_fill(struct puppet *puppet, bide_op *op, int code)
{
    if (code != BIDE_OK)
        return;
    if (op->kind == BIDE_OP_TOUCH_MANY)
        puppet_touch(puppet, op);
    if (op->kind == BIDE_OP_FAIL)
        op->fail.state = puppet->fail_state;
    if (op->kind == BIDE_OP_FAIL)
        op->fail.delay_ms = 7000;
    if (op->kind == BIDE_OP_SUBSCRIBE) {
        op->feed.feed = (bide_feed *)(void *)puppet;
        puppet->feeds++;
    }
    if (op->kind == BIDE_OP_JOB_STATS)
        *op->look.job =
            (bide_job){.id = op->look.id,
                       .state = BIDE_STATE_RESERVED,
                       .cancel_wanted = puppet->cancel_wanted[op->look.id % PUPPET_IDS]};
    bi_answer_drop(op);
}

/* The op has its answer; who waits for it is told later, by bi_cq_complete(). */
static inline void puppet_end(struct puppet *puppet, bide_op *op, int code)
{
    puppet_fill(puppet, op, code);
    if (code != BIDE_OK)
        strcpy(op->error, "the puppet says so");
    op->private_.status = code;
    op->private_.next = NULL;
}

static inline bide_op *puppet_take_held(struct puppet *puppet, bide_op_kind kind)
{
    for (size_t i = 0; i < puppet->held_count; i++) {
        bide_op *op = puppet->held[i];
        if (op->kind != kind)
            continue;
        memmove(&puppet->held[i], &puppet->held[i + 1], (--puppet->held_count - i) * sizeof(op));
        return op;
    }
    return NULL;
}

static inline void puppet_hold(struct puppet *puppet, bide_op *op)
{
    assert_true(puppet->held_count < PUPPET_HELD);
    puppet->held[puppet->held_count++] = op;
}

static inline void puppet_serve(struct puppet *puppet, bide_op *op)
{
    op->reserve.jobs[0] = puppet->ready[0];
    op->reserve.count = 1;
    memmove(&puppet->ready[0], &puppet->ready[1], --puppet->ready_count * sizeof(puppet->ready[0]));
}

static inline bool puppet_waits(bide_op_kind kind)
{
    return kind == BIDE_OP_RESERVE || kind == BIDE_OP_EVENTS;
}

/* Also lists, and jobs that are reserved by id, as those of a queue that is being loaded. */
static inline bool puppet_ends(bide_op_kind kind)
{
    return puppet_waits(kind) || kind == BIDE_OP_LIST || kind == BIDE_OP_TOPICS ||
           kind == BIDE_OP_RESERVE_JOB;
}

static inline int puppet_code(struct puppet_rule *rule)
{
    if (rule->first_count == 0)
        return rule->code;
    int code = rule->first[0];
    memmove(&rule->first[0], &rule->first[1], --rule->first_count * sizeof(rule->first[0]));
    return code;
}

/* With the lock held: one op. True: it is pending; *completed, and has its answer. */
static inline bool puppet_run(struct puppet *puppet, bide_op *op, bool *completed)
{
    struct puppet_rule shut = {.way = AT_ONCE, .code = BIDE_CLOSED};
    bool refused = puppet->closed && puppet_waits(op->kind);
    struct puppet_rule *rule = refused ? &shut : &puppet->rules[op->kind];
    puppet_note(puppet, op);
    if (op->kind == BIDE_OP_RESERVE && rule->way == HELD && puppet->ready_count > 0) {
        puppet_serve(puppet, op);
        op->status = BIDE_OK;
    } else if (rule->way == HELD) {
        puppet_hold(puppet, op);
        return true;
    } else {
        puppet_end(puppet, op, puppet_code(rule));
        *completed = rule->way == THROUGH_CQ;
        if (!*completed)
            op->status = op->private_.status;
    }
    if (!*completed)
        bi_submit_finish(op);
    return *completed;
}

/* Ends the feed: what waits for its events comes back. */
static inline bide_op *puppet_end_feed(struct puppet *puppet, const bide_op *op)
{
    if (op->kind != BIDE_OP_UNSUBSCRIBE)
        return NULL;
    puppet->feeds--;
    bide_op *events = puppet_take_held(puppet, BIDE_OP_EVENTS);
    if (events != NULL)
        puppet_end(puppet, events, BIDE_CANCELLED);
    return events;
}

static inline int puppet_submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct puppet *puppet = puppet_of(backend);
    int pending = 0;
    for (size_t i = 0; i < n; i++) {
        bool completed = false;
        if (ops[i]->status != BIDE_PENDING)
            continue;
        if (puppet->before != NULL)
            puppet->before(puppet, ops[i]->kind);
        pthread_mutex_lock(&puppet->lock);
        bide_op *events = puppet_end_feed(puppet, ops[i]);
        pending += puppet_run(puppet, ops[i], &completed);
        pthread_mutex_unlock(&puppet->lock);
        if (completed)
            bi_cq_complete(ops[i]);
        if (events != NULL)
            bi_cq_complete(events);
    }
    return pending;
}

static inline void puppet_cancel(struct backend *backend, bide_op *op)
{
    struct puppet *puppet = puppet_of(backend);
    bool found = false;
    pthread_mutex_lock(&puppet->lock);
    for (size_t i = 0; i < puppet->held_count && !found; i++) {
        found = puppet->held[i] == op && puppet_ends(op->kind);
        if (found)
            puppet->held[i] = puppet->held[--puppet->held_count];
    }
    bool served = found && op->kind == BIDE_OP_RESERVE && puppet->serves_cancelled;
    if (served)
        puppet_serve(puppet, op);
    if (found)
        puppet_end(puppet, op, served ? BIDE_OK : BIDE_CANCELLED);
    pthread_mutex_unlock(&puppet->lock);
    if (found)
        bi_cq_complete(op);
}

/* Lets the oldest op of a kind go that is held; false if there is none. */
static inline bool puppet_let_go(struct puppet *puppet, bide_op_kind kind, int code)
{
    pthread_mutex_lock(&puppet->lock);
    bide_op *op = puppet_take_held(puppet, kind);
    if (op != NULL)
        puppet_end(puppet, op, code);
    pthread_mutex_unlock(&puppet->lock);
    if (op != NULL)
        bi_cq_complete(op);
    return op != NULL;
}

static inline void puppet_shutdown(struct backend *backend)
{
    struct puppet *puppet = puppet_of(backend);
    pthread_mutex_lock(&puppet->lock);
    puppet->closed = true;
    pthread_mutex_unlock(&puppet->lock);
    while (puppet_let_go(puppet, BIDE_OP_RESERVE, BIDE_CLOSED) ||
           puppet_let_go(puppet, BIDE_OP_EVENTS, BIDE_CLOSED))
        ;
}

/* ---- what the test does ---- */

static inline struct puppet *puppet_new(void)
{
    static const struct backend_ops ops = {
        .scheme = "puppet",
        .submit = puppet_submit,
        .cancel = puppet_cancel,
        .shutdown = puppet_shutdown,
    };
    struct puppet *puppet = calloc(1, sizeof(*puppet));
    assert_non_null(puppet);
    puppet->base.ops = &ops;
    puppet->queue.backend = &puppet->base;
    struct bi_url url;
    const char *reason;
    assert_true(bi_url_parse(&url, "memory:", &reason));
    assert_int_equal(bi_options_resolve(NULL, &url, &puppet->queue.options), BIDE_OK);
    puppet->rules[BIDE_OP_RESERVE].way = HELD;
    puppet->rules[BIDE_OP_EVENTS].way = HELD;
    puppet->fail_state = BIDE_STATE_DELAYED;
    pthread_mutex_init(&puppet->lock, NULL);
    bi_thread_condition(&puppet->changed);
    return puppet;
}

static inline void puppet_free(struct puppet *puppet)
{
    assert_int_equal(puppet->held_count, 0);
    assert_int_equal(puppet->feeds, 0);
    pthread_cond_destroy(&puppet->changed);
    pthread_mutex_destroy(&puppet->lock);
    free(puppet);
}

static inline void puppet_rule(struct puppet *puppet, bide_op_kind kind, enum puppet_way way,
                               int code)
{
    pthread_mutex_lock(&puppet->lock);
    puppet->rules[kind] = (struct puppet_rule){.way = way, .code = code};
    pthread_mutex_unlock(&puppet->lock);
}

/* The next op of the kind is answered so, once; those behind it as before. */
static inline void puppet_once(struct puppet *puppet, bide_op_kind kind, int code)
{
    pthread_mutex_lock(&puppet->lock);
    struct puppet_rule *rule = &puppet->rules[kind];
    assert_true(rule->first_count < COUNT_OF(rule->first));
    rule->first[rule->first_count++] = code;
    pthread_mutex_unlock(&puppet->lock);
}

static inline bide_job puppet_job(uint64_t id, int64_t ttr_ms)
{
    return (bide_job){.id = id,
                      .token = TOKEN_OF(id),
                      .state = BIDE_STATE_RESERVED,
                      .ttr_ms = ttr_ms,
                      .left_ms = ttr_ms,
                      .max_retries = BIDE_NO_RETRY_LIMIT,
                      .topic = "t"};
}

/* A job for whoever reserves next. */
static inline void puppet_give(struct puppet *puppet, bide_job job)
{
    pthread_mutex_lock(&puppet->lock);
    assert_true(puppet->ready_count < PUPPET_IDS);
    puppet->ready[puppet->ready_count++] = job;
    bool kept = puppet->serves_cancelled; /* for one that is given up */
    bide_op *op = kept ? NULL : puppet_take_held(puppet, BIDE_OP_RESERVE);
    if (op != NULL) {
        puppet_serve(puppet, op);
        op->private_.status = BIDE_OK;
        op->private_.next = NULL;
    }
    pthread_mutex_unlock(&puppet->lock);
    if (op != NULL)
        bi_cq_complete(op);
}

/* Whoever listens hears that a job is to stop (0: of none), and that so many events were lost. */
static inline bool puppet_tell(struct puppet *puppet, uint64_t id, uint64_t lost)
{
    pthread_mutex_lock(&puppet->lock);
    bide_op *op = puppet_take_held(puppet, BIDE_OP_EVENTS);
    if (op != NULL) {
        op->feed.events[0] = (bide_event){.kind = BIDE_EVENT_CANCEL_WANTED, .id = id};
        op->feed.count = id == 0 ? 0 : 1;
        op->feed.lost = lost;
        op->private_.status = BIDE_OK;
        op->private_.next = NULL;
    }
    pthread_mutex_unlock(&puppet->lock);
    if (op != NULL)
        bi_cq_complete(op);
    return op != NULL;
}

/* ---- what the test looks at ---- */

/* The nth op of a kind (from 1), for any job or that one; with the lock held. */
static inline const struct puppet_note *puppet_find(const struct puppet *puppet, bide_op_kind kind,
                                                    uint64_t id, size_t nth)
{
    for (size_t i = 0; i < puppet->note_count; i++)
        if (puppet->notes[i].kind == kind && (id == 0 || puppet->notes[i].id == id) && --nth == 0)
            return &puppet->notes[i];
    return NULL;
}

static inline size_t puppet_count(struct puppet *puppet, bide_op_kind kind, uint64_t id)
{
    size_t count = 0;
    pthread_mutex_lock(&puppet->lock);
    while (puppet_find(puppet, kind, id, count + 1) != NULL)
        count++;
    pthread_mutex_unlock(&puppet->lock);
    return count;
}

/* Waits for the nth op of a kind, for any job (0) or that one. */
static inline struct puppet_note puppet_await(struct puppet *puppet, bide_op_kind kind, uint64_t id,
                                              size_t nth)
{
    const struct puppet_note *found;
    struct timespec until;
    bi_clock_until(&until, PATIENCE_US);
    pthread_mutex_lock(&puppet->lock);
    while ((found = puppet_find(puppet, kind, id, nth)) == NULL &&
           pthread_cond_timedwait(&puppet->changed, &puppet->lock, &until) == 0)
        ;
    struct puppet_note note = found == NULL ? (struct puppet_note){0} : *found;
    pthread_mutex_unlock(&puppet->lock);
    if (note.kind == BIDE_OP_NONE)
        fail_msg("no %s number %zu for job %llu has come", bide_op_name(kind), nth,
                 (unsigned long long)id);
    return note;
}

#endif
