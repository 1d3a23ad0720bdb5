/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_finish - delete, release, bury, touch, their bulk forms, and finish_and_reserve.
 *
 * A command on a lease goes to the connection that holds the job: beanstalkd accepts it from no
 * other. A lease that has expired by the client's clock is not sent. beanstalkd would accept a
 * delete by the former holder as long as no other client has reserved the job.
 */
#include "op/bulk.h"
#include "remote/beanstalkd/beanstalkd_client.h"
#include "util/clock.h"

#include <string.h>

/* Returns a lease that has not expired, or NULL. An expired lease is freed. */
static struct lease *valid_lease(struct beanstalkd *beanstalkd, uint64_t id, uint64_t token)
{
    struct lease *lease = token == 0 ? NULL : bi_beanstalkd_lease_find(beanstalkd, id, token);
    if (lease == NULL || lease->deadline > bi_clock_boot())
        return lease;
    bi_beanstalkd_lease_free(beanstalkd, lease);
    return NULL;
}

/* Frees the lease that a command has ended, and returns the code. NOT_FOUND means that another
 * connection holds the job, or that it was deleted. */
static int end_lease(struct beanstalkd *beanstalkd, bide_op *op, uint64_t id, uint64_t token,
                     const struct reply *reply, const char *done)
{
    struct lease *lease = bi_beanstalkd_lease_find(beanstalkd, id, token);
    bool good = bi_beanstalkd_client_reply_is(reply, done);
    bool gone = bi_beanstalkd_client_reply_is(reply, "NOT_FOUND");

    if (lease != NULL && (good || gone))
        bi_beanstalkd_lease_free(beanstalkd, lease);

    return good   ? BIDE_OK
           : gone ? BIDE_LEASE_LOST
                  : bi_beanstalkd_client_map_error(beanstalkd, op, reply);
}

/* ---- delete, and done without a retained result ---- */

/* Returns BIDE_PENDING if the command was queued, else the result. */
static int send_delete(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                       uint64_t id, uint64_t token)
{
    const struct lease *lease = valid_lease(beanstalkd, id, token);

    if (token != 0 && lease == NULL)
        return BIDE_LEASE_LOST;

    /* Without a token, only a job that no client holds may be deleted. The main connection could
     * delete a job that it has reserved itself, so the client checks its own leases. */
    if (token == 0 && bi_beanstalkd_lease_is_held(beanstalkd, id))
        return BIDE_RESERVED;

    bi_beanstalkd_conn_command(lease != NULL ? lease->conn : beanstalkd->main, exchange, index,
                               "delete %llu", (unsigned long long)id);
    return BIDE_PENDING;
}

static void begin_delete(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    const bide_op *op = exchange->base.op;
    bool done = op->kind == BIDE_OP_DONE;

    /* The exchange may be a restart, after the loss of the query of stage 1. */
    exchange->settled = false;

    if (done && op->finish.retain_ms > 0) {
        bi_beanstalkd_exchange_complete(
            beanstalkd, exchange,
            bi_beanstalkd_client_reject_unsupported(exchange->base.op, "results that are kept"));
        return;
    }

    int code = send_delete(beanstalkd, exchange, 0, done ? op->finish.id : op->lease.id,
                           done ? op->finish.token : op->lease.token);
    if (code != BIDE_PENDING)
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, code);
}

static void reply_delete(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                         const struct reply *reply)
{
    bide_op *op = exchange->base.op;
    bool done = op->kind == BIDE_OP_DONE;
    uint64_t id = done ? op->finish.id : op->lease.id;
    uint64_t token = done ? op->finish.token : op->lease.token;

    (void)index;
    /* The reply to the query of end_delete(): the job exists, so another client holds it. */
    if (exchange->stage == 1)
        exchange->code =
            bi_beanstalkd_client_reply_is(reply, "OK") ? BIDE_RESERVED : BIDE_NOT_FOUND;
    else if (token != 0)
        exchange->code = end_lease(beanstalkd, op, id, token, reply, "DELETED");
    else if (bi_beanstalkd_client_reply_is(reply, "NOT_FOUND"))
        exchange->code = BIDE_NOT_FOUND;
    else if (!bi_beanstalkd_client_reply_is(reply, "DELETED"))
        exchange->code = bi_beanstalkd_client_map_error(beanstalkd, op, reply);
}

/* NOT_FOUND without a token is ambiguous: stats-job shows whether the job is missing or reserved
 * by another client. */
static void end_delete(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    const bide_op *op = exchange->base.op;

    if (exchange->stage == 0 && exchange->code == BIDE_NOT_FOUND && beanstalkd->main != NULL) {
        exchange->stage = 1;
        exchange->settled = true;
        bi_beanstalkd_conn_command(
            beanstalkd->main, exchange, 0, "stats-job %llu",
            (unsigned long long)(op->kind == BIDE_OP_DONE ? op->finish.id : op->lease.id));
        return;
    }
    bi_beanstalkd_exchange_complete(beanstalkd, exchange, exchange->code);
}

const struct op_handler bi_beanstalkd_finish_delete = {begin_delete, reply_delete, end_delete,
                                                       NULL};

/* ---- release, give_back, bury ---- */

static uint32_t priority_of(int64_t wanted, const struct lease *lease)
{
    return wanted == BIDE_KEEP ? lease->priority : (uint32_t)wanted;
}

static void begin_release(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    const bide_op *op = exchange->base.op;
    bool is_give_back = op->kind == BIDE_OP_GIVE_BACK;
    uint64_t id = is_give_back ? op->lease.id : op->release.id;
    const struct lease *lease =
        valid_lease(beanstalkd, id, is_give_back ? op->lease.token : op->release.token);

    if (lease == NULL) {
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, BIDE_LEASE_LOST);
        return;
    }

    /* release sets the priority. To leave it unchanged, repeat the priority at the reserve. */
    int64_t delay_ms = is_give_back ? 0 : op->release.delay_ms;
    uint32_t priority = priority_of(is_give_back ? BIDE_KEEP : op->release.priority, lease);
    bi_beanstalkd_conn_command(lease->conn, exchange, 0, "release %llu %u %lld",
                               (unsigned long long)id, priority,
                               (long long)((delay_ms + 999) / 1000));
}

static void reply_release(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                          const struct reply *reply)
{
    bide_op *op = exchange->base.op;
    bool is_give_back = op->kind == BIDE_OP_GIVE_BACK;

    (void)index;
    exchange->code =
        end_lease(beanstalkd, op, is_give_back ? op->lease.id : op->release.id,
                  is_give_back ? op->lease.token : op->release.token, reply, "RELEASED");
}

const struct op_handler bi_beanstalkd_finish_release = {begin_release, reply_release, NULL, NULL};

static void begin_bury(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    const bide_bury_args *args = &exchange->base.op->bury;
    int code = args->reason.size > 0
                   ? bi_beanstalkd_client_reject_unsupported(exchange->base.op, "reasons of a bury")
               : args->token == 0 ? bi_beanstalkd_client_reject_unsupported(
                                        exchange->base.op, "burying what is not reserved")
                                  : BIDE_OK;
    const struct lease *lease =
        code == BIDE_OK ? valid_lease(beanstalkd, args->id, args->token) : NULL;

    if (code == BIDE_OK && lease != NULL)
        bi_beanstalkd_conn_command(lease->conn, exchange, 0, "bury %llu %u",
                                   (unsigned long long)args->id,
                                   priority_of(args->priority, lease));
    else
        bi_beanstalkd_exchange_complete(beanstalkd, exchange,
                                        code == BIDE_OK ? BIDE_LEASE_LOST : code);
}

static void reply_bury(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                       const struct reply *reply)
{
    (void)index;
    exchange->code = end_lease(beanstalkd, exchange->base.op, exchange->base.op->bury.id,
                               exchange->base.op->bury.token, reply, "BURIED");
}

const struct op_handler bi_beanstalkd_finish_bury = {begin_bury, reply_bury, NULL, NULL};

/* ---- touch ---- */

static int send_touch(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                      const bide_touch_item *item)
{
    if (item->extend_ms != 0)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op,
                                                       "a touch for another time than the ttr");
    if (item->progress.size > 0)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op, "progress");

    const struct lease *lease = valid_lease(beanstalkd, item->id, item->token);
    if (lease == NULL)
        return BIDE_LEASE_LOST;
    bi_beanstalkd_conn_command(lease->conn, exchange, index, "touch %llu",
                               (unsigned long long)item->id);
    return BIDE_PENDING;
}

static int apply_touch(struct beanstalkd *beanstalkd, bide_op *op, bide_touch_item *item,
                       const struct reply *reply)
{
    struct lease *lease = bi_beanstalkd_lease_find(beanstalkd, item->id, item->token);

    /* NOT_FOUND ends the lease, too; any other reply does not change it. */
    if (!bi_beanstalkd_client_reply_is(reply, "TOUCHED"))
        return end_lease(beanstalkd, op, item->id, item->token, reply, "TOUCHED");
    if (lease != NULL) {
        lease->deadline = bi_clock_boot() + lease->ttr;
        item->left_ms = lease->ttr / 1000;
    }
    return BIDE_OK;
}

static void begin_touch(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    int code = send_touch(beanstalkd, exchange, 0, &exchange->base.op->touch);
    if (code != BIDE_PENDING)
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, code);
}

static void reply_touch(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                        const struct reply *reply)
{
    (void)index;
    exchange->code = apply_touch(beanstalkd, exchange->base.op, &exchange->base.op->touch, reply);
}

const struct op_handler bi_beanstalkd_finish_touch = {begin_touch, reply_touch, NULL, NULL};

/* ---- bulk ops ---- */

/* Sets the status of an item. The op's error text describes the first item that failed. */
static void note_item(struct exchange *exchange, size_t index, int *status, int code)
{
    struct bulk_errors items;

    bi_bulk_begin(&items, exchange->base.op);

    *status = code;
    if (code != BIDE_PENDING) {
        if (code != BIDE_OK && exchange->base.op->error[0] == 0)
            bi_text_copy(exchange->base.op->error, bide_code_text(code));
        bi_bulk_record(&items, exchange->base.op, index, code);
    }
    bi_bulk_end(&items, exchange->base.op);
}

static int *finish_item(struct exchange *exchange, size_t index)
{
    return &exchange->base.op->finish_many.items[index].status;
}

static int *touch_item(struct exchange *exchange, size_t index)
{
    return &exchange->base.op->touch_many.items[index].status;
}

static int send_finish(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                       const bide_finish_item *item)
{
    if (item->keep && item->retain_ms > 0)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op, "results that are kept");
    return send_delete(beanstalkd, exchange, index, item->id, item->token);
}

static void begin_finish_many(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    for (size_t i = 0; i < exchange->base.op->finish_many.count; i++) {
        bide_finish_item *item = &exchange->base.op->finish_many.items[i];
        if (bi_beanstalkd_exchange_sends_item(exchange, item->status))
            note_item(exchange, i, &item->status, send_finish(beanstalkd, exchange, i, item));
    }

    /* Every item failed without a command: no reply will complete the op. */
    if (exchange->outstanding == 0 && !bi_beanstalkd_exchange_has_pending_items(exchange))
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, BIDE_OK);
}

static void reply_finish_many(struct beanstalkd *beanstalkd, struct exchange *exchange,
                              size_t index, const struct reply *reply)
{
    bide_finish_item *item = &exchange->base.op->finish_many.items[index];
    int code = end_lease(beanstalkd, exchange->base.op, item->id, item->token, reply, "DELETED");
    /* Bulk items get no second query: reserved by another client is reported as not found. */
    if (item->token == 0 && code == BIDE_LEASE_LOST)
        code = BIDE_NOT_FOUND;
    note_item(exchange, index, &item->status, code);
}

const struct op_handler bi_beanstalkd_finish_many = {begin_finish_many, reply_finish_many, NULL,
                                                     finish_item};

static void begin_touch_many(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    for (size_t i = 0; i < exchange->base.op->touch_many.count; i++) {
        bide_touch_item *item = &exchange->base.op->touch_many.items[i];
        if (bi_beanstalkd_exchange_sends_item(exchange, item->status))
            note_item(exchange, i, &item->status, send_touch(beanstalkd, exchange, i, item));
    }
    if (exchange->outstanding == 0 && !bi_beanstalkd_exchange_has_pending_items(exchange))
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, BIDE_OK);
}

static void reply_touch_many(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index,
                             const struct reply *reply)
{
    bide_touch_item *item = &exchange->base.op->touch_many.items[index];
    note_item(exchange, index, &item->status,
              apply_touch(beanstalkd, exchange->base.op, item, reply));
}

const struct op_handler bi_beanstalkd_finish_touch_many = {begin_touch_many, reply_touch_many, NULL,
                                                           touch_item};

/* ---- finish_and_reserve: two ops in sequence ---- */

#define STAGE_FINISH (-1)

/* The finish is settled: no lost connection changes its result, and a restart begins with the
 * reserve. */
static void begin_reserve_part(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    exchange->settled = true;
    exchange->finish_code = exchange->base.op->finish_and_reserve.finish.status;

    if (atomic_load(&beanstalkd->remote.shut))
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, BIDE_CLOSED);
    else if (beanstalkd->main == NULL)
        bi_beanstalkd_exchange_restart(beanstalkd, exchange);
    else
        bi_beanstalkd_reserve_begin(beanstalkd, exchange);
}

static void begin_finish_and_reserve(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    bide_finish_item *item = &exchange->base.op->finish_and_reserve.finish;

    if (exchange->settled) {
        bi_beanstalkd_reserve_begin(beanstalkd, exchange);
        return;
    }

    if (item->keep && item->retain_ms > 0) {
        item->status =
            bi_beanstalkd_client_reject_unsupported(exchange->base.op, "results that are kept");
        bi_beanstalkd_exchange_complete(beanstalkd, exchange, item->status);
        return;
    }

    exchange->stage = STAGE_FINISH;
    item->status = send_delete(beanstalkd, exchange, 0, item->id, item->token);

    /* The finish failed without a command. The reserve is independent of it and still runs. */
    if (item->status != BIDE_PENDING)
        begin_reserve_part(beanstalkd, exchange);
}

static void reply_finish_and_reserve(struct beanstalkd *beanstalkd, struct exchange *exchange,
                                     size_t index, const struct reply *reply)
{
    bide_finish_item *item = &exchange->base.op->finish_and_reserve.finish;

    if (exchange->stage != STAGE_FINISH) {
        bi_beanstalkd_reserve_reply(beanstalkd, exchange, index, reply);
        return;
    }

    item->status =
        end_lease(beanstalkd, exchange->base.op, item->id, item->token, reply, "DELETED");
    if (item->token == 0 && item->status == BIDE_LEASE_LOST)
        item->status = BIDE_NOT_FOUND;

    /* The error text of the op belongs to the reserve; the finish has its status only. */
    exchange->base.op->error[0] = 0;
}

static void end_finish_and_reserve(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    if (exchange->stage == STAGE_FINISH)
        begin_reserve_part(beanstalkd, exchange);
    else
        bi_beanstalkd_reserve_end(beanstalkd, exchange);
}

const struct op_handler bi_beanstalkd_finish_and_reserve = {
    begin_finish_and_reserve, reply_finish_and_reserve, end_finish_and_reserve, NULL};
