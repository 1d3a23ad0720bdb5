/* SPDX-License-Identifier: MIT */
#include "stub_backend.h"

static struct stub *stub_of(struct backend *backend)
{
    return (struct stub *)(void *)backend;
}

static void stub_record_text(struct stub_record *note, const void *data, size_t size)
{
    if (size > sizeof(note->text) - 1)
        size = sizeof(note->text) - 1;
    if (size > 0)
        memcpy(note->text, data, size);
    note->text[size] = 0;
}

static void stub_record_touches(struct stub_record *note, const bide_op *op)
{
    const bide_touch_many_args *touches = &op->touch_many;
    note->count = touches->count;
    for (size_t i = 0; i < touches->count && i < COUNT_OF(note->ids); i++)
        note->ids[i] = touches->items[i].id;
    note->id = touches->items[0].id;
    note->delay_ms = touches->items[0].extend_ms;
    stub_record_text(note, touches->items[0].progress.data, touches->items[0].progress.size);
}

static void stub_record_reply(struct stub_record *note, const bide_op *op)
{
    if (op->kind == BIDE_OP_DONE) {
        note->id = op->finish.id;
        const bide_buf *result = op->finish.buf != NULL ? op->finish.buf : op->finish.made_;
        stub_record_text(note, bide_buf_data(result), bide_buf_size(result));
    } else if (op->kind == BIDE_OP_FAIL) {
        note->id = op->fail.id;
        note->delay_ms = op->fail.retry_in_ms;
        stub_record_text(note, op->fail.error.data, op->fail.error.size);
    } else if (op->kind == BIDE_OP_BURY) {
        note->id = op->bury.id;
        stub_record_text(note, op->bury.reason.data, op->bury.reason.size);
    } else if (op->kind == BIDE_OP_RELEASE) {
        note->id = op->release.id;
        note->delay_ms = op->release.delay_ms;
    } else if (op->kind == BIDE_OP_DELETE || op->kind == BIDE_OP_GIVE_BACK) {
        note->id = op->lease.id;
    } else if (op->kind == BIDE_OP_TOPIC_REF) {
        note->delta = op->topic.delta;
        stub_record_text(note, op->topic.topic.data, op->topic.topic.size);
    }
}

static void stub_record(struct stub *stub, const bide_op *op)
{
    assert_true(stub->note_count < STUB_RECORDS);
    struct stub_record *note = &stub->notes[stub->note_count++];
    *note = (struct stub_record){.kind = op->kind, .at = bi_clock_boot()};
    if (op->kind == BIDE_OP_TOUCH_MANY)
        stub_record_touches(note, op);
    else
        stub_record_reply(note, op);
    pthread_cond_broadcast(&stub->changed);
}

static void stub_touch(const struct stub *stub, bide_op *op)
{
    for (size_t i = 0; i < op->touch_many.count; i++) {
        bide_touch_item *item = &op->touch_many.items[i];
        item->status = stub->touch_codes[item->id % STUB_IDS];
        if (item->status == BIDE_TOUCH_LIMIT && item->extend_ms == BIDE_KEEP)
            item->status = BIDE_OK; /* the limits are on extensions */
        if (item->status == BIDE_OK && stub->cancel_wanted[item->id % STUB_IDS])
            item->status = BIDE_CANCEL_WANTED;
        item->left_ms = 0;
    }
}

/* The results of an op that is taken, or looked. */
static void stub_fill(struct stub *stub, bide_op *op, int code)
{
    if (code != BIDE_OK)
        return;
    if (op->kind == BIDE_OP_TOUCH_MANY)
        stub_touch(stub, op);
    if (op->kind == BIDE_OP_FAIL)
        op->fail.state = stub->fail_state;
    if (op->kind == BIDE_OP_FAIL)
        op->fail.delay_ms = 7000;
    if (op->kind == BIDE_OP_SUBSCRIBE) {
        op->subscription.handle = (bide_subscription *)(void *)stub;
        stub->feeds++;
    }
    bi_op_payload_free(op);
}

/* Sets the result; bi_cq_complete() reports it to the caller later. */
static void stub_finish(struct stub *stub, bide_op *op, int code)
{
    stub_fill(stub, op, code);
    if (code != BIDE_OK)
        strcpy(op->error, "the puppet says so");
    op->private_.status = code;
    op->private_.next = NULL;
}

static bide_op *stub_take_held(struct stub *stub, bide_op_kind kind)
{
    for (size_t i = 0; i < stub->held_count; i++) {
        bide_op *op = stub->held[i];
        if (op->kind != kind)
            continue;
        memmove(&stub->held[i], &stub->held[i + 1], (--stub->held_count - i) * sizeof(op));
        return op;
    }
    return NULL;
}

static void stub_hold(struct stub *stub, bide_op *op)
{
    assert_true(stub->held_count < STUB_HELD);
    stub->held[stub->held_count++] = op;
}

static void stub_serve(struct stub *stub, bide_op *op)
{
    op->reserve.jobs[0] = stub->ready[0];
    op->reserve.count = 1;
    memmove(&stub->ready[0], &stub->ready[1], --stub->ready_count * sizeof(stub->ready[0]));
}

static bool stub_may_wait(bide_op_kind kind)
{
    return kind == BIDE_OP_RESERVE || kind == BIDE_OP_EVENTS;
}

/* Also lists, and jobs that are reserved by id, as those of a queue that is being loaded. */
static bool stub_is_cancellable(bide_op_kind kind)
{
    return stub_may_wait(kind) || kind == BIDE_OP_LIST || kind == BIDE_OP_TOPICS ||
           kind == BIDE_OP_RESERVE_JOB;
}

static int stub_next_code(struct stub_rule *rule)
{
    if (rule->first_count == 0)
        return rule->code;
    int code = rule->first[0];
    memmove(&rule->first[0], &rule->first[1], --rule->first_count * sizeof(rule->first[0]));
    return code;
}

/* With the lock held: one op. True: it is pending; *completed, and has its answer. */
static bool stub_run(struct stub *stub, bide_op *op, bool *completed)
{
    struct stub_rule shut = {.way = AT_ONCE, .code = BIDE_CLOSED};
    bool refused = stub->closed && stub_may_wait(op->kind);
    struct stub_rule *rule = refused ? &shut : &stub->rules[op->kind];
    stub_record(stub, op);
    if (op->kind == BIDE_OP_RESERVE && rule->way == HELD && stub->ready_count > 0) {
        stub_serve(stub, op);
        op->status = BIDE_OK;
    } else if (rule->way == HELD) {
        stub_hold(stub, op);
        return true;
    } else {
        stub_finish(stub, op, stub_next_code(rule));
        *completed = rule->way == THROUGH_CQ;
        if (!*completed)
            op->status = op->private_.status;
    }
    if (!*completed)
        bi_submit_finish(op);
    return *completed;
}

/* Ends the feed: what waits for its events comes back. */
static bide_op *stub_end_stream(struct stub *stub, const bide_op *op)
{
    if (op->kind != BIDE_OP_UNSUBSCRIBE)
        return NULL;
    stub->feeds--;
    bide_op *events = stub_take_held(stub, BIDE_OP_EVENTS);
    if (events != NULL)
        stub_finish(stub, events, BIDE_CANCELLED);
    return events;
}

static int stub_submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct stub *stub = stub_of(backend);
    int pending = 0;
    for (size_t i = 0; i < n; i++) {
        bool completed = false;
        if (ops[i]->status != BIDE_PENDING)
            continue;
        if (stub->before != NULL)
            stub->before(stub, ops[i]->kind);
        pthread_mutex_lock(&stub->lock);
        bide_op *events = stub_end_stream(stub, ops[i]);
        pending += stub_run(stub, ops[i], &completed);
        pthread_mutex_unlock(&stub->lock);
        if (completed)
            bi_cq_complete(ops[i]);
        if (events != NULL)
            bi_cq_complete(events);
    }
    return pending;
}

static void stub_cancel(struct backend *backend, bide_op *op)
{
    struct stub *stub = stub_of(backend);
    bool found = false;
    pthread_mutex_lock(&stub->lock);
    for (size_t i = 0; i < stub->held_count && !found; i++) {
        found = stub->held[i] == op && stub_is_cancellable(op->kind);
        if (found)
            stub->held[i] = stub->held[--stub->held_count];
    }
    bool served = found && op->kind == BIDE_OP_RESERVE && stub->serves_cancelled;
    if (served)
        stub_serve(stub, op);
    if (found)
        stub_finish(stub, op, served ? BIDE_OK : BIDE_CANCELLED);
    pthread_mutex_unlock(&stub->lock);
    if (found)
        bi_cq_complete(op);
}

bool stub_release(struct stub *stub, bide_op_kind kind, int code)
{
    pthread_mutex_lock(&stub->lock);
    bide_op *op = stub_take_held(stub, kind);
    if (op != NULL)
        stub_finish(stub, op, code);
    pthread_mutex_unlock(&stub->lock);
    if (op != NULL)
        bi_cq_complete(op);
    return op != NULL;
}

static void stub_shutdown(struct backend *backend)
{
    struct stub *stub = stub_of(backend);
    pthread_mutex_lock(&stub->lock);
    stub->closed = true;
    pthread_mutex_unlock(&stub->lock);
    while (stub_release(stub, BIDE_OP_RESERVE, BIDE_CLOSED) ||
           stub_release(stub, BIDE_OP_EVENTS, BIDE_CLOSED))
        ;
}

struct stub *stub_new(void)
{
    static const struct backend_ops ops = {
        .scheme = "puppet",
        .capabilities = BIDE_CAN_ALL_OPS,
        .submit = stub_submit,
        .cancel = stub_cancel,
        .shutdown = stub_shutdown,
    };
    struct stub *stub = calloc(1, sizeof(*stub));
    assert_non_null(stub);
    stub->base.ops = &ops;
    stub->queue.backend = &stub->base;
    struct bi_url url;
    const char *reason;
    assert_true(bi_url_parse(&url, "memory:", &reason));
    assert_int_equal(bi_options_resolve(NULL, &url, &stub->queue.options), BIDE_OK);
    stub->rules[BIDE_OP_RESERVE].way = HELD;
    stub->rules[BIDE_OP_EVENTS].way = HELD;
    stub->fail_state = BIDE_STATE_DELAYED;
    pthread_mutex_init(&stub->lock, NULL);
    bi_thread_cond_init(&stub->changed);
    return stub;
}

void stub_free(struct stub *stub)
{
    assert_int_equal(stub->held_count, 0);
    assert_int_equal(stub->feeds, 0);
    pthread_cond_destroy(&stub->changed);
    pthread_mutex_destroy(&stub->lock);
    free(stub);
}

void stub_rule(struct stub *stub, bide_op_kind kind, enum stub_mode way, int code)
{
    pthread_mutex_lock(&stub->lock);
    stub->rules[kind] = (struct stub_rule){.way = way, .code = code};
    pthread_mutex_unlock(&stub->lock);
}

void stub_once(struct stub *stub, bide_op_kind kind, int code)
{
    pthread_mutex_lock(&stub->lock);
    struct stub_rule *rule = &stub->rules[kind];
    assert_true(rule->first_count < COUNT_OF(rule->first));
    rule->first[rule->first_count++] = code;
    pthread_mutex_unlock(&stub->lock);
}

bide_job stub_job(uint64_t id, int64_t ttr_ms)
{
    return (bide_job){.id = id,
                      .token = TOKEN_OF(id),
                      .state = BIDE_STATE_RESERVED,
                      .ttr_ms = ttr_ms,
                      .left_ms = ttr_ms,
                      .max_retries = BIDE_NO_RETRY_LIMIT,
                      .topic = "t"};
}

void stub_add_job(struct stub *stub, bide_job job)
{
    pthread_mutex_lock(&stub->lock);
    assert_true(stub->ready_count < STUB_IDS);
    stub->ready[stub->ready_count++] = job;
    bool kept = stub->serves_cancelled; /* for a cancelled reserve */
    bide_op *op = kept ? NULL : stub_take_held(stub, BIDE_OP_RESERVE);
    if (op != NULL) {
        stub_serve(stub, op);
        op->private_.status = BIDE_OK;
        op->private_.next = NULL;
    }
    pthread_mutex_unlock(&stub->lock);
    if (op != NULL)
        bi_cq_complete(op);
}

bool stub_emit_event(struct stub *stub, uint64_t id, uint64_t lost)
{
    pthread_mutex_lock(&stub->lock);
    bide_op *op = stub_take_held(stub, BIDE_OP_EVENTS);
    if (op != NULL) {
        op->subscription.events[0] = (bide_event){.kind = BIDE_EVENT_CANCEL_WANTED, .id = id};
        op->subscription.count = id == 0 ? 0 : 1;
        op->subscription.lost = lost;
        op->private_.status = BIDE_OK;
        op->private_.next = NULL;
    }
    pthread_mutex_unlock(&stub->lock);
    if (op != NULL)
        bi_cq_complete(op);
    return op != NULL;
}

/* Is the op about this job, or, a touch of several, also about it? */
static bool stub_is_about(const struct stub_record *note, uint64_t id)
{
    bool found = note->id == id;
    for (size_t i = 0; i < note->count && i < COUNT_OF(note->ids); i++)
        found = found || note->ids[i] == id;
    return found;
}

/* The nth op of a kind (from 1), for any job or that one; with the lock held. */
static const struct stub_record *stub_find(const struct stub *stub, bide_op_kind kind, uint64_t id,
                                           size_t nth)
{
    for (size_t i = 0; i < stub->note_count; i++)
        if (stub->notes[i].kind == kind && (id == 0 || stub_is_about(&stub->notes[i], id)) &&
            --nth == 0)
            return &stub->notes[i];
    return NULL;
}

size_t stub_count(struct stub *stub, bide_op_kind kind, uint64_t id)
{
    size_t count = 0;
    pthread_mutex_lock(&stub->lock);
    while (stub_find(stub, kind, id, count + 1) != NULL)
        count++;
    pthread_mutex_unlock(&stub->lock);
    return count;
}

struct stub_record stub_await(struct stub *stub, bide_op_kind kind, uint64_t id, size_t nth)
{
    const struct stub_record *found;
    struct timespec until;
    bi_clock_mono_deadline(&until, PATIENCE_US);
    pthread_mutex_lock(&stub->lock);
    while ((found = stub_find(stub, kind, id, nth)) == NULL &&
           pthread_cond_timedwait(&stub->changed, &stub->lock, &until) == 0)
        ;
    struct stub_record note = found == NULL ? (struct stub_record){0} : *found;
    pthread_mutex_unlock(&stub->lock);
    if (note.kind == BIDE_OP_NONE)
        fail_msg("no %s number %zu for job %llu has come", bide_op_name(kind), nth,
                 (unsigned long long)id);
    return note;
}
