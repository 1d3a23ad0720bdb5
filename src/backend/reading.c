/* SPDX-License-Identifier: MIT */
/*
 * reading - the reader thread: bodies that only the store has.
 *
 * Ops that lack bodies stand in a list. The reader takes some of them, reads all that they lack in
 * one go without the lock, and gives the bodies to the core, which says how each op goes on. With
 * what is wanted it reads a little of what will be wanted next. While jobs are still being loaded
 * it also fetches those that ops name.
 */
#include "backend/inside.h"
#include "util/clock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Ops in one go, and bodies that are read ahead for them. */
#define READ_OPS    64
#define AHEAD_COUNT 64
#define AHEAD_BYTES (1 << 20)
/* How long an op waits for bodies that cannot be read. */
#define PATIENCE_US 5000000
/* Before a store that cannot be read for the moment is tried again. */
#define AGAIN_MS 20
/* In private_.bound of an op that lacks bodies: since when they cannot be read. */
#define UNREADABLE_SINCE 3

/* ---- ending what cannot be answered as it stands ---- */

/* Ends an op that was to be read for: what it took goes back, and its answer becomes an error. */
static void take_back(struct local *local, bide_op *op, int code, const char *error)
{
    op->private_.status = BIDE_OK;
    bi_core_untake(local->core, op, bi_local_clocks(local));
    bi_core_unpark(local->core, op);
    bi_commit_take_back(local, op, code, error);
}

/* The same for an op that ends because its bodies cannot be had. A finish of it that is still to be
 * stored goes on: the answer is held until it is known how that went. */
static void give_up(struct local *local, bide_op *op, int code, const char *error)
{
    bool finishes = op->kind == BIDE_OP_FINISH_AND_RESERVE &&
                    op->private_.bound[0] > bi_core_committed_batch(local->core);
    int status = finishes ? op->finish_and_reserve.finish.status : BIDE_OK;
    take_back(local, op, code, error);
    if (!finishes) {
        list_add(&local->completed, op);
        return;
    }
    op->finish_and_reserve.finish.status = status;
    op->private_.hold = op->private_.bound[0];
    bi_commit_hold(local, op);
}

void bi_reading_add(struct local *local, bide_op *op)
{
    /* A text that bodies are to be searched for must be there when they come. Of a call that waits the
     * core has what it needs, and its arguments may have gone long ago. */
    if (op->private_.waiter == NULL && !bi_local_keep(local, op)) {
        give_up(local, op, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
        return;
    }
    op->private_.bound[UNREADABLE_SINCE] = 0;
    list_add(&local->lacking, op);
    pthread_cond_signal(&local->read);
}

bool bi_reading_fail(struct local *local, int code, const char *error, int64_t until)
{
    for (size_t i = 0; i < local->read_count; i++) {
        struct reading *reading = &local->reads[i];
        if (reading->op == NULL || !bi_commit_must_hold(local, reading->op))
            continue;
        take_back(local, reading->op, code, error);
        list_add(&local->completed, reading->op);
        reading->op = NULL;
    }
    bide_op *op;
    while ((op = list_pop(&local->undoing.lacking)) != NULL) {
        bool undone = bi_commit_must_hold(local, op);
        if (undone)
            take_back(local, op, code, error);
        list_add(undone ? &local->completed : &local->lacking, op);
        if (bi_clock_boot() >= until)
            break;
    }
    return local->undoing.lacking.head != NULL;
}

/* ---- one go ---- */

struct go {
    struct reading reads[READ_OPS];
    size_t read_count;
    size_t count; /* bodies that are wanted, and those read ahead */
    size_t ahead; /* where the latter begin */
    struct bi_body *bodies;
    struct store_want *wants;
    bool read;   /* some body could be read */
    bool failed; /* some body could not be, and may be later */
    bool told;   /* the log has been told that bodies cannot be read */
};

/* How many bodies an op lacks. */
static size_t count_lacking(const bide_op *op)
{
    struct bi_body some[64];
    size_t count = 0;
    size_t got;
    while ((got = bi_core_lacking(op, count, some, 64)) > 0)
        count += got;
    return count;
}

static bool make_room(struct go *go)
{
    size_t count = go->count + AHEAD_COUNT;
    go->bodies = malloc(count * sizeof(*go->bodies));
    go->wants = malloc(count * sizeof(*go->wants));
    return go->bodies != NULL && go->wants != NULL;
}

/* Takes ops from the list, and lists what they lack. The lock is held. */
static bool take_ops(struct local *local, struct go *go)
{
    while (go->read_count < READ_OPS && go->count < BIDE_BATCH_JOBS &&
           local->lacking.head != NULL) {
        bide_op *op = list_pop(&local->lacking);
        size_t count = count_lacking(op);
        go->reads[go->read_count++] = (struct reading){op, go->count, count};
        go->count += count;
    }
    if (!make_room(go))
        return false;
    for (size_t i = 0; i < go->read_count; i++) {
        const struct reading *reading = &go->reads[i];
        bi_core_lacking(reading->op, 0, go->bodies + reading->first, reading->count);
    }
    go->ahead = go->count;
    if (go->count > 0)
        go->count += bi_core_foresee(local->core, go->bodies[go->ahead - 1].id,
                                     go->bodies + go->ahead, AHEAD_COUNT, AHEAD_BYTES);
    return true;
}

/* Reads without the lock. */
static void read_bodies(struct local *local, struct go *go)
{
    for (size_t i = 0; i < go->count; i++)
        go->wants[i] = (struct store_want){.id = go->bodies[i].id, .size = go->bodies[i].size};
    local->store->ops->read(local->store, go->wants, go->count);
    for (size_t i = 0; i < go->count; i++) {
        go->bodies[i].body = go->wants[i].body;
        go->bodies[i].reason = go->wants[i].reason;
        go->read |= go->wants[i].body != NULL;
        go->failed |= go->wants[i].again;
    }
}

/* A job that was deleted since the op saw it has no body any more, and nothing is wrong with that. */
static bool is_there(struct local *local, uint64_t id)
{
    bi_local_lock(local);
    bool there = bi_core_has(local->core, id);
    pthread_mutex_unlock(&local->lock);
    return there;
}

static void log_unreadable(struct local *local, const struct go *go)
{
    if (bi_store_is_late(local->store))
        return;
    for (size_t i = 0; i < go->ahead; i++)
        if (go->bodies[i].body == NULL && (!go->wants[i].again || !go->told) &&
            is_there(local, go->bodies[i].id))
            bi_log(&local->context.log, BIDE_LOG_ERROR,
                   go->wants[i].again
                       ? "the body of job %llu cannot be read now, and is tried again: %s"
                       : "the body of job %llu cannot be read: %s",
                   (unsigned long long)go->bodies[i].id, go->bodies[i].reason);
}

/* ---- what becomes of an op ---- */

/* Is there a body of the op that may be read later? */
static bool must_read_again(const struct go *go, const struct reading *reading)
{
    for (size_t i = 0; i < reading->count; i++)
        if (go->wants[reading->first + i].again)
            return true;
    return false;
}

/* Some bodies could not be read for now. They are tried again for a while. If others can be read, it
 * is these that are damaged, and then the op goes on without them. True: it does. */
static bool give_up_bodies(struct local *local, bide_op *op)
{
    int64_t now = bi_clock_boot();
    uint64_t *since = &op->private_.bound[UNREADABLE_SINCE];
    if (*since == 0)
        *since = (uint64_t)now;
    if (local->closing) {
        give_up(local, op, BIDE_CLOSED, bide_code_text(BIDE_CLOSED));
    } else if (now - (int64_t)*since < PATIENCE_US) {
        list_add(&local->lacking, op);
    } else if (local->read_at > (int64_t)*since) {
        return true;
    } else {
        give_up(local, op, BIDE_EIO, "the store cannot be read now; try again later");
    }
    return false;
}

static void supply(struct local *local, bide_op *op, const struct bi_body *bodies)
{
    int code = bi_core_supply(local->core, op, bodies, bi_local_clocks(local));
    if (code == BI_AGAIN)
        list_add(&local->lacking, op);
    else if (code == BIDE_PENDING)
        bi_local_waits(local, op);
    else
        bi_local_answer(local, op, code);
}

/* Gives each op what was read for it. The lock is held. */
static void answer_ops(struct local *local, struct go *go)
{
    for (size_t i = 0; i < go->read_count; i++) {
        const struct reading *reading = &go->reads[i];
        bide_op *op = reading->op;
        if (op == NULL)
            continue;
        if (bi_commit_is_unwanted(op))
            give_up(local, op, BIDE_CANCELLED, bide_code_text(BIDE_CANCELLED));
        else if (!must_read_again(go, reading) || give_up_bodies(local, op))
            supply(local, op, go->bodies + reading->first);
    }
    for (size_t i = go->ahead; i < go->count; i++) {
        if (go->bodies[i].body == NULL)
            continue;
        bi_core_keep_body(local->core, go->bodies[i].id, go->bodies[i].body);
        go->bodies[i].body = NULL;
    }
}

static void free_go(struct go *go)
{
    for (size_t i = 0; go->bodies != NULL && go->wants != NULL && i < go->count; i++)
        bide_buf_unref(go->bodies[i].body);
    free(go->bodies);
    free(go->wants);
}

/* The lock is held at the call and at the return, not in between. */
static void read_some(struct local *local)
{
    struct go go = {.read_count = 0};
    bool good = take_ops(local, &go);
    if (!good) {
        free_go(&(struct go){.bodies = go.bodies, .wants = go.wants});
        for (size_t i = 0; i < go.read_count; i++)
            give_up(local, go.reads[i].op, BIDE_ENOMEM, bide_code_text(BIDE_ENOMEM));
        bi_core_serve(local->core, bi_local_clocks(local));
        bi_local_look_ahead(local);
        bi_local_unlock(local);
        bi_local_lock(local);
        return;
    }
    local->reads = go.reads;
    local->read_count = go.read_count;
    go.told = local->reads_fail;
    pthread_mutex_unlock(&local->lock);
    read_bodies(local, &go);
    log_unreadable(local, &go);
    if (go.failed)
        bi_alarm_sleep(AGAIN_MS);
    bi_local_lock(local);
    local->read_count = 0;
    local->reads_fail = go.failed;
    if (go.read)
        local->read_at = bi_clock_boot();
    answer_ops(local, &go);
    bi_local_look_ahead(local);
    bi_local_unlock(local);
    free_go(&go);
    bi_local_lock(local);
}

/* ---- jobs that are not loaded yet ---- */

static void fetch_one(struct local *local)
{
    bide_op *op = list_pop(&local->wanting);
    int code = BIDE_CLOSED;
    if (!local->closing) {
        pthread_mutex_unlock(&local->lock);
        code = bi_recovery_fetch(local, op);
        bi_local_lock(local);
    }
    bi_recovery_leave(local, op);
    if (local->closing) {
        bi_local_end(local, op, BIDE_CLOSED);
    } else if (code != BIDE_OK) {
        op->private_.hold = 0;
        bi_local_answer(local, op, code);
    } else
        bi_local_resume(local, op);
    bi_local_look_ahead(local);
    bi_local_unlock(local);
    bi_local_lock(local);
}

void *bi_reading_run(void *arg)
{
    struct local *local = arg;
    bi_local_lock(local);
    for (;;) {
        if (local->undoing.running)
            pthread_cond_wait(&local->undoing.over, &local->lock);
        else if (local->wanting.head != NULL)
            fetch_one(local);
        else if (local->lacking.head != NULL)
            read_some(local);
        else if (local->closing)
            break;
        else
            pthread_cond_wait(&local->read, &local->lock);
    }
    pthread_mutex_unlock(&local->lock);
    return NULL;
}
