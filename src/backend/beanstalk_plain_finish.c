/* SPDX-License-Identifier: MIT */
/*
 * What is done with a lease goes to the connection that holds it. A lease that has run out by the
 * client's own clock is not asked for any more: beanstalkd would let its holder delete the job as
 * long as nobody else has reserved it.
 */
#include "backend/beanstalk_kind.h"
#include "backend/beanstalk_plain.h"
#include "core/items.h"
#include "util/clock.h"

#include <string.h>

/* A lease that is good; NULL if it is not, and then it is forgotten. */
static struct lease *good_lease(struct plain *plain, uint64_t id, uint64_t token)
{
    struct lease *lease = token == 0 ? NULL : bi_lease_find(plain, id, token);
    if (lease == NULL || lease->deadline > bi_clock_boot())
        return lease;
    bi_lease_free(plain, lease);
    return NULL;
}

/* The lease that a command was about; what beanstalkd does not find is not ours any more. */
static int finished(struct plain *plain, bide_op *op, uint64_t id, uint64_t token,
                    const struct reply *reply, const char *done)
{
    struct lease *lease = bi_lease_find(plain, id, token);
    bool good = bi_reply_is(reply, done);
    bool gone = bi_reply_is(reply, "NOT_FOUND");
    if (lease != NULL && (good || gone))
        bi_lease_free(plain, lease);
    return good ? BIDE_OK : gone ? BIDE_LEASE_LOST : bi_plain_error(plain, op, reply);
}

/* ---- delete, and done as long as nothing is kept ---- */

/* BIDE_PENDING, or why it was not asked. */
static int ask_delete(struct plain *plain, struct talk *talk, size_t index, uint64_t id,
                      uint64_t token)
{
    const struct lease *lease = good_lease(plain, id, token);
    if (token != 0 && lease == NULL)
        return BIDE_LEASE_LOST;
    if (token == 0 && bi_lease_holds(plain, id))
        return BIDE_RESERVED;
    bi_wire_ask(lease != NULL ? lease->wire : plain->main, talk, index, "delete %llu",
                (unsigned long long)id);
    return BIDE_PENDING;
}

static void begin_delete(struct plain *plain, struct talk *talk)
{
    const bide_op *op = talk->op;
    bool done = op->kind == BIDE_OP_DONE;
    if (done && op->finish.retain_ms > 0) {
        bi_plain_end(plain, talk, bi_plain_cannot(talk->op, "results that are kept"));
        return;
    }
    int code = ask_delete(plain, talk, 0, done ? op->finish.id : op->lease.id,
                          done ? op->finish.token : op->lease.token);
    if (code != BIDE_PENDING)
        bi_plain_end(plain, talk, code);
}

static void hear_delete(struct plain *plain, struct talk *talk, size_t index,
                        const struct reply *reply)
{
    bide_op *op = talk->op;
    bool done = op->kind == BIDE_OP_DONE;
    uint64_t id = done ? op->finish.id : op->lease.id;
    uint64_t token = done ? op->finish.token : op->lease.token;
    (void)index;
    if (talk->stage == 1)
        talk->code = bi_reply_is(reply, "OK") ? BIDE_RESERVED : BIDE_NOT_FOUND;
    else if (token != 0)
        talk->code = finished(plain, op, id, token, reply, "DELETED");
    else if (bi_reply_is(reply, "NOT_FOUND"))
        talk->code = BIDE_NOT_FOUND;
    else if (!bi_reply_is(reply, "DELETED"))
        talk->code = bi_plain_error(plain, op, reply);
}

/* Not found, and nobody's holder: is the job reserved by somebody, or is there none? */
static void end_delete(struct plain *plain, struct talk *talk)
{
    const bide_op *op = talk->op;
    if (talk->stage == 0 && talk->code == BIDE_NOT_FOUND && plain->main != NULL) {
        talk->stage = 1;
        bi_wire_ask(plain->main, talk, 0, "stats-job %llu",
                    (unsigned long long)(op->kind == BIDE_OP_DONE ? op->finish.id : op->lease.id));
        return;
    }
    bi_plain_end(plain, talk, talk->code);
}

const struct plain_kind bi_plain_delete = {begin_delete, hear_delete, end_delete, NULL};

/* ---- release, give_back, bury: the job is put somewhere else ---- */

static uint32_t priority_of(int64_t wanted, const struct lease *lease)
{
    return wanted == BIDE_KEEP ? lease->priority : (uint32_t)wanted;
}

static void begin_release(struct plain *plain, struct talk *talk)
{
    const bide_op *op = talk->op;
    bool back = op->kind == BIDE_OP_GIVE_BACK;
    uint64_t id = back ? op->lease.id : op->release.id;
    const struct lease *lease = good_lease(plain, id, back ? op->lease.token : op->release.token);
    if (lease == NULL) {
        bi_plain_end(plain, talk, BIDE_LEASE_LOST);
        return;
    }
    int64_t delay_ms = back ? 0 : op->release.delay_ms;
    uint32_t priority = priority_of(back ? BIDE_KEEP : op->release.priority, lease);
    bi_wire_ask(lease->wire, talk, 0, "release %llu %u %lld", (unsigned long long)id, priority,
                (long long)((delay_ms + 999) / 1000));
}

static void hear_release(struct plain *plain, struct talk *talk, size_t index,
                         const struct reply *reply)
{
    bide_op *op = talk->op;
    bool back = op->kind == BIDE_OP_GIVE_BACK;
    (void)index;
    talk->code = finished(plain, op, back ? op->lease.id : op->release.id,
                          back ? op->lease.token : op->release.token, reply, "RELEASED");
}

const struct plain_kind bi_plain_release = {begin_release, hear_release, NULL, NULL};

static void begin_bury(struct plain *plain, struct talk *talk)
{
    const bide_bury_args *args = &talk->op->bury;
    int code = args->reason.size > 0 ? bi_plain_cannot(talk->op, "reasons of a bury")
               : args->token == 0    ? bi_plain_cannot(talk->op, "burying what is not reserved")
                                     : BIDE_OK;
    const struct lease *lease = code == BIDE_OK ? good_lease(plain, args->id, args->token) : NULL;
    if (code == BIDE_OK && lease != NULL)
        bi_wire_ask(lease->wire, talk, 0, "bury %llu %u", (unsigned long long)args->id,
                    priority_of(args->priority, lease));
    else
        bi_plain_end(plain, talk, code == BIDE_OK ? BIDE_LEASE_LOST : code);
}

static void hear_bury(struct plain *plain, struct talk *talk, size_t index,
                      const struct reply *reply)
{
    (void)index;
    talk->code =
        finished(plain, talk->op, talk->op->bury.id, talk->op->bury.token, reply, "BURIED");
}

const struct plain_kind bi_plain_bury = {begin_bury, hear_bury, NULL, NULL};

/* ---- touch ---- */

static int ask_touch(struct plain *plain, struct talk *talk, size_t index,
                     const bide_touch_item *item)
{
    if (item->extend_ms != 0)
        return bi_plain_cannot(talk->op, "a touch for another time than the ttr");
    if (item->progress.size > 0)
        return bi_plain_cannot(talk->op, "progress");
    const struct lease *lease = good_lease(plain, item->id, item->token);
    if (lease == NULL)
        return BIDE_LEASE_LOST;
    bi_wire_ask(lease->wire, talk, index, "touch %llu", (unsigned long long)item->id);
    return BIDE_PENDING;
}

static int touched(struct plain *plain, bide_op *op, bide_touch_item *item,
                   const struct reply *reply)
{
    struct lease *lease = bi_lease_find(plain, item->id, item->token);
    if (!bi_reply_is(reply, "TOUCHED"))
        return finished(plain, op, item->id, item->token, reply, "TOUCHED");
    if (lease != NULL) {
        lease->deadline = bi_clock_boot() + lease->ttr;
        item->left_ms = lease->ttr / 1000;
    }
    return BIDE_OK;
}

static void begin_touch(struct plain *plain, struct talk *talk)
{
    int code = ask_touch(plain, talk, 0, &talk->op->touch);
    if (code != BIDE_PENDING)
        bi_plain_end(plain, talk, code);
}

static void hear_touch(struct plain *plain, struct talk *talk, size_t index,
                       const struct reply *reply)
{
    (void)index;
    talk->code = touched(plain, talk->op, &talk->op->touch, reply);
}

const struct plain_kind bi_plain_touch = {begin_touch, hear_touch, NULL, NULL};

/* ---- lists ---- */

/* An item that was not asked has its code; the first of them is spoken of. */
static void note(struct talk *talk, size_t index, int *status, int code)
{
    struct items items;
    bi_items_begin(&items, talk->op);
    if (code != BIDE_PENDING) {
        *status = code;
        if (code != BIDE_OK && talk->op->error[0] == 0)
            bi_text_copy(talk->op->error, bide_code_text(code));
        bi_items_note(&items, talk->op, index, code);
    }
    bi_items_end(&items, talk->op);
}

static int *finish_item(struct talk *talk, size_t index)
{
    return &talk->op->finish_many.items[index].status;
}

static int *touch_item(struct talk *talk, size_t index)
{
    return &talk->op->touch_many.items[index].status;
}

static int ask_finish(struct plain *plain, struct talk *talk, size_t index,
                      const bide_finish_item *item)
{
    if (item->keep && item->retain_ms > 0)
        return bi_plain_cannot(talk->op, "results that are kept");
    return ask_delete(plain, talk, index, item->id, item->token);
}

static void begin_finish_many(struct plain *plain, struct talk *talk)
{
    for (size_t i = 0; i < talk->op->finish_many.count; i++) {
        bide_finish_item *item = &talk->op->finish_many.items[i];
        if (item->status == BIDE_OK)
            note(talk, i, &item->status, ask_finish(plain, talk, i, item));
    }
    if (talk->outstanding == 0)
        bi_plain_end(plain, talk, BIDE_OK);
}

static void hear_finish_many(struct plain *plain, struct talk *talk, size_t index,
                             const struct reply *reply)
{
    bide_finish_item *item = &talk->op->finish_many.items[index];
    int code = finished(plain, talk->op, item->id, item->token, reply, "DELETED");
    if (item->token == 0 && code == BIDE_LEASE_LOST)
        code = BIDE_NOT_FOUND;
    note(talk, index, &item->status, code);
}

const struct plain_kind bi_plain_finish_many = {begin_finish_many, hear_finish_many, NULL,
                                                finish_item};

static void begin_touch_many(struct plain *plain, struct talk *talk)
{
    for (size_t i = 0; i < talk->op->touch_many.count; i++) {
        bide_touch_item *item = &talk->op->touch_many.items[i];
        if (item->status == BIDE_OK)
            note(talk, i, &item->status, ask_touch(plain, talk, i, item));
    }
    if (talk->outstanding == 0)
        bi_plain_end(plain, talk, BIDE_OK);
}

static void hear_touch_many(struct plain *plain, struct talk *talk, size_t index,
                            const struct reply *reply)
{
    bide_touch_item *item = &talk->op->touch_many.items[index];
    note(talk, index, &item->status, touched(plain, talk->op, item, reply));
}

const struct plain_kind bi_plain_touch_many = {begin_touch_many, hear_touch_many, NULL, touch_item};

/* ---- finish_and_reserve: one after the other ---- */

#define FINISHING (-1)

static void end_finish(struct plain *plain, struct talk *talk)
{
    if (atomic_load(&plain->shut))
        bi_plain_end(plain, talk, BIDE_CLOSED);
    else if (plain->main == NULL)
        bi_plain_end(plain, talk, BIDE_EIO);
    else
        bi_plain_begin_reserve(plain, talk);
}

static void begin_both(struct plain *plain, struct talk *talk)
{
    bide_finish_item *item = &talk->op->finish_and_reserve.finish;
    if (item->keep && item->retain_ms > 0) {
        item->status = bi_plain_cannot(talk->op, "results that are kept");
        bi_plain_end(plain, talk, item->status);
        return;
    }
    talk->stage = FINISHING;
    item->status = ask_delete(plain, talk, 0, item->id, item->token);
    if (item->status != BIDE_PENDING)
        end_finish(plain, talk);
}

static void hear_both(struct plain *plain, struct talk *talk, size_t index,
                      const struct reply *reply)
{
    bide_finish_item *item = &talk->op->finish_and_reserve.finish;
    if (talk->stage != FINISHING) {
        bi_plain_hear_reserve(plain, talk, index, reply);
        return;
    }
    item->status = finished(plain, talk->op, item->id, item->token, reply, "DELETED");
    if (item->token == 0 && item->status == BIDE_LEASE_LOST)
        item->status = BIDE_NOT_FOUND;
    talk->op->error[0] = 0;
}

static void end_both(struct plain *plain, struct talk *talk)
{
    if (talk->stage == FINISHING)
        end_finish(plain, talk);
    else
        bi_plain_end_reserve(plain, talk);
}

const struct plain_kind bi_plain_finish_and_reserve = {begin_both, hear_both, end_both, NULL};
