/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_finish - delete, release, bury, touch, their bulk forms, and finish_and_reserve.
 *
 * A command on a lease goes to the connection that holds the job: beanstalkd accepts it from no
 * other. A lease that has expired by the client's clock is not sent. beanstalkd would accept a
 * delete by the former holder as long as no other client has reserved the job.
 */
#include "op/op_table.h"
#include "remote/beanstalkd/beanstalkd_client.h"
#include "util/clock.h"

#include <stddef.h>

/* The arguments of all ops on one lease begin with its id and token: op->lease reads them. */
#define IS_LEASE(type) (offsetof(type, id) == 0 && offsetof(type, token) == sizeof(uint64_t))
_Static_assert(IS_LEASE(bide_lease_args) && IS_LEASE(bide_finish_item) &&
                   IS_LEASE(bide_release_args) && IS_LEASE(bide_bury_args) &&
                   IS_LEASE(bide_touch_item),
               "id and token come first");

/* Returns a lease that has not expired, or NULL. An expired lease is freed. */
static struct lease *valid_lease(struct beanstalkd *client, uint64_t id, uint64_t token)
{
    struct lease *lease = token == 0 ? NULL : bi_beanstalkd_lease_find(client, id, token);
    if (lease == NULL || lease->deadline > bi_clock_boot())
        return lease;
    bi_beanstalkd_lease_free(client, lease);
    return NULL;
}

/* Frees the lease that a command has ended, and returns the code. NOT_FOUND means that another
 * connection holds the job, or that it was deleted. */
static int end_lease(struct exchange *exchange, uint64_t id, uint64_t token,
                     const struct reply *reply, const char *done)
{
    struct lease *lease = bi_beanstalkd_lease_find(exchange->client, id, token);
    bool good = bi_reply_is(reply, done);
    bool gone = bi_reply_is(reply, "NOT_FOUND");

    if (lease != NULL && (good || gone))
        bi_beanstalkd_lease_free(exchange->client, lease);

    return good         ? BIDE_OK
           : !gone      ? bi_beanstalkd_exchange_map_error(exchange, reply)
           : token == 0 ? BIDE_NOT_FOUND
                        : BIDE_LEASE_LOST;
}

/* ---- delete, and done without a retained result ---- */

/* Returns BIDE_PENDING if the command was queued, else the result. */
static int send_delete(struct exchange *exchange, size_t index, uint64_t id, uint64_t token)
{
    struct beanstalkd *client = exchange->client;
    const struct lease *lease = valid_lease(client, id, token);

    if (token != 0 && lease == NULL)
        return BIDE_LEASE_LOST;

    /* Without a token, only a job that no client holds may be deleted. The main connection could
     * delete a job that it has reserved itself, so the client checks its own leases. */
    if (token == 0 && bi_beanstalkd_lease_is_held(client, id))
        return BIDE_RESERVED;

    bi_beanstalkd_conn_command(lease != NULL ? lease->conn : client->main, exchange, index,
                               "delete %llu", (unsigned long long)id);
    return BIDE_PENDING;
}

static void begin_delete(struct exchange *exchange)
{
    const bide_op *op = exchange->base.op;

    /* The exchange may be a restart, after the loss of the query of stage 1. */
    exchange->settled = false;

    if (op->kind == BIDE_OP_DONE && op->finish.retain_ms > 0) {
        bi_beanstalkd_exchange_reject(exchange, "results that are kept");
        return;
    }

    int code = send_delete(exchange, 0, op->lease.id, op->lease.token);
    if (code != BIDE_PENDING)
        bi_beanstalkd_exchange_complete(exchange, code);
}

static void reply_delete(struct exchange *exchange, size_t index, const struct reply *reply)
{
    const bide_op *op = exchange->base.op;

    (void)index;
    /* The reply to the query of end_delete(): the job exists, so another client holds it. */
    if (exchange->stage == 1)
        exchange->code = bi_reply_is(reply, "OK") ? BIDE_RESERVED : BIDE_NOT_FOUND;
    else
        exchange->code = end_lease(exchange, op->lease.id, op->lease.token, reply, "DELETED");
}

/* NOT_FOUND without a token is ambiguous: stats-job shows whether the job is missing or reserved
 * by another client. */
static void end_delete(struct exchange *exchange)
{
    if (exchange->stage == 0 && exchange->code == BIDE_NOT_FOUND &&
        exchange->client->main != NULL) {
        exchange->stage = 1;
        exchange->settled = true;
        bi_beanstalkd_exchange_command(exchange, 0, "stats-job %llu",
                                       (unsigned long long)exchange->base.op->lease.id);
        return;
    }
    bi_beanstalkd_exchange_complete(exchange, exchange->code);
}

const struct op_handler bi_beanstalkd_finish_delete = {
    .begin = begin_delete, .reply = reply_delete, .end = end_delete};

/* ---- release, give_back, bury ---- */

static uint32_t priority_of(int64_t wanted, const struct lease *lease)
{
    return wanted == BIDE_KEEP ? lease->priority : (uint32_t)wanted;
}

/* A lease that is valid; NULL, and the op has completed, if there is none. */
static const struct lease *take_lease(struct exchange *exchange)
{
    const bide_lease_args *args = &exchange->base.op->lease;
    const struct lease *lease = valid_lease(exchange->client, args->id, args->token);
    if (lease == NULL)
        bi_beanstalkd_exchange_complete(exchange, BIDE_LEASE_LOST);
    return lease;
}

static void begin_release(struct exchange *exchange)
{
    const bide_op *op = exchange->base.op;
    bool is_give_back = op->kind == BIDE_OP_GIVE_BACK;
    const struct lease *lease = take_lease(exchange);

    if (lease == NULL)
        return;

    /* release sets the priority. To leave it unchanged, repeat the priority at the reserve. */
    int64_t delay_ms = is_give_back ? 0 : op->release.delay_ms;
    bi_beanstalkd_conn_command(lease->conn, exchange, 0, "release %llu %u %lld",
                               (unsigned long long)lease->id,
                               priority_of(is_give_back ? BIDE_KEEP : op->release.priority, lease),
                               (long long)((delay_ms + 999) / 1000));
}

static void begin_bury(struct exchange *exchange)
{
    const bide_bury_args *args = &exchange->base.op->bury;

    if (args->reason.size > 0) {
        bi_beanstalkd_exchange_reject(exchange, "reasons of a bury");
        return;
    }
    if (args->token == 0) {
        bi_beanstalkd_exchange_reject(exchange, "burying what is not reserved");
        return;
    }

    const struct lease *lease = take_lease(exchange);
    if (lease != NULL)
        bi_beanstalkd_conn_command(lease->conn, exchange, 0, "bury %llu %u",
                                   (unsigned long long)args->id,
                                   priority_of(args->priority, lease));
}

static void reply_lease(struct exchange *exchange, size_t index, const struct reply *reply)
{
    const bide_op *op = exchange->base.op;

    (void)index;
    exchange->code = end_lease(exchange, op->lease.id, op->lease.token, reply,
                               op->kind == BIDE_OP_BURY ? "BURIED" : "RELEASED");
}

const struct op_handler bi_beanstalkd_finish_release = {.begin = begin_release,
                                                        .reply = reply_lease};
const struct op_handler bi_beanstalkd_finish_bury = {.begin = begin_bury, .reply = reply_lease};

/* ---- touch ---- */

static int send_touch(struct exchange *exchange, size_t index, const bide_touch_item *item)
{
    const char *unsupported = item->extend_ms != 0      ? "a touch for another time than the ttr"
                              : item->progress.size > 0 ? "progress"
                                                        : NULL;
    if (unsupported != NULL)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op, unsupported);

    const struct lease *lease = valid_lease(exchange->client, item->id, item->token);
    if (lease == NULL)
        return BIDE_LEASE_LOST;
    bi_beanstalkd_conn_command(lease->conn, exchange, index, "touch %llu",
                               (unsigned long long)item->id);
    return BIDE_PENDING;
}

static int apply_touch(struct exchange *exchange, bide_touch_item *item, const struct reply *reply)
{
    struct lease *lease = bi_beanstalkd_lease_find(exchange->client, item->id, item->token);

    /* NOT_FOUND ends the lease, too; any other reply does not change it. */
    if (!bi_reply_is(reply, "TOUCHED"))
        return end_lease(exchange, item->id, item->token, reply, "TOUCHED");
    if (lease != NULL) {
        lease->deadline = bi_clock_boot() + lease->ttr;
        item->left_ms = lease->ttr / 1000;
    }
    return BIDE_OK;
}

static void begin_touch(struct exchange *exchange)
{
    int code = send_touch(exchange, 0, &exchange->base.op->touch);
    if (code != BIDE_PENDING)
        bi_beanstalkd_exchange_complete(exchange, code);
}

static void reply_touch(struct exchange *exchange, size_t index, const struct reply *reply)
{
    (void)index;
    exchange->code = apply_touch(exchange, &exchange->base.op->touch, reply);
}

const struct op_handler bi_beanstalkd_finish_touch = {.begin = begin_touch, .reply = reply_touch};

/* ---- bulk ops ---- */

static int *finish_status(struct exchange *exchange, size_t index)
{
    return &exchange->base.op->finish_many.items[index].status;
}

static int send_finish_item(struct exchange *exchange, size_t index)
{
    const bide_finish_item *item = &exchange->base.op->finish_many.items[index];
    if (item->keep && item->retain_ms > 0)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op, "results that are kept");
    return send_delete(exchange, index, item->id, item->token);
}

/* Bulk items get no second query: reserved by another client is reported as not found. */
static int reply_finish_item(struct exchange *exchange, size_t index, const struct reply *reply)
{
    const bide_finish_item *item = &exchange->base.op->finish_many.items[index];
    return end_lease(exchange, item->id, item->token, reply, "DELETED");
}

const struct op_handler bi_beanstalkd_finish_many = {
    .item = finish_status, .send_item = send_finish_item, .reply_item = reply_finish_item};

static int *touch_status(struct exchange *exchange, size_t index)
{
    return &exchange->base.op->touch_many.items[index].status;
}

static int send_touch_item(struct exchange *exchange, size_t index)
{
    return send_touch(exchange, index, &exchange->base.op->touch_many.items[index]);
}

static int reply_touch_item(struct exchange *exchange, size_t index, const struct reply *reply)
{
    return apply_touch(exchange, &exchange->base.op->touch_many.items[index], reply);
}

const struct op_handler bi_beanstalkd_finish_touch_many = {
    .item = touch_status, .send_item = send_touch_item, .reply_item = reply_touch_item};

/* ---- finish_and_reserve: two ops in sequence ---- */

#define STAGE_FINISH (-1)

/* The finish is settled: no lost connection changes its result, and a restart begins with the
 * reserve. */
static void begin_reserve_part(struct exchange *exchange)
{
    exchange->settled = true;
    exchange->finish_code = exchange->base.op->finish_and_reserve.finish.status;

    if (atomic_load(&exchange->client->remote.shut))
        bi_beanstalkd_exchange_complete(exchange, BIDE_CLOSED);
    else if (exchange->client->main == NULL)
        bi_beanstalkd_exchange_restart(exchange);
    else
        bi_beanstalkd_reserve_begin(exchange);
}

static void begin_finish_and_reserve(struct exchange *exchange)
{
    bide_finish_item *item = &exchange->base.op->finish_and_reserve.finish;

    if (exchange->settled) {
        bi_beanstalkd_reserve_begin(exchange);
        return;
    }

    if (item->keep && item->retain_ms > 0) {
        item->status = BIDE_ENOTSUP;
        bi_beanstalkd_exchange_reject(exchange, "results that are kept");
        return;
    }

    exchange->stage = STAGE_FINISH;
    item->status = send_delete(exchange, 0, item->id, item->token);

    /* The finish failed without a command. The reserve is independent of it and still runs. */
    if (item->status != BIDE_PENDING)
        begin_reserve_part(exchange);
}

static void reply_finish_and_reserve(struct exchange *exchange, size_t index,
                                     const struct reply *reply)
{
    bide_finish_item *item = &exchange->base.op->finish_and_reserve.finish;

    if (exchange->stage != STAGE_FINISH) {
        bi_beanstalkd_reserve_reply(exchange, index, reply);
        return;
    }

    item->status = end_lease(exchange, item->id, item->token, reply, "DELETED");
    /* The error text of the op belongs to the reserve; the finish has its status only. */
    exchange->base.op->error[0] = 0;
}

static void end_finish_and_reserve(struct exchange *exchange)
{
    if (exchange->stage == STAGE_FINISH)
        begin_reserve_part(exchange);
    else
        bi_beanstalkd_reserve_end(exchange);
}

const struct op_handler bi_beanstalkd_finish_and_reserve = {.begin = begin_finish_and_reserve,
                                                            .reply = reply_finish_and_reserve,
                                                            .end = end_finish_and_reserve};
