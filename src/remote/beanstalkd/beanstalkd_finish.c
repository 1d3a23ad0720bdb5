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

#include <assert.h>
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
    int code = bi_beanstalkd_exchange_check(exchange, reply, done);

    if (lease != NULL && (code == BIDE_OK || code == BIDE_NOT_FOUND))
        bi_beanstalkd_lease_free(exchange->client, lease);
    return code == BIDE_NOT_FOUND && token != 0 ? BIDE_LEASE_LOST : code;
}

/* ---- delete, and done without a retained result ---- */

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

static int reject_result(struct exchange *exchange)
{
    return bi_beanstalkd_client_reject_unsupported(exchange->base.op, "results that are kept");
}

static int send_delete_op(struct exchange *exchange, size_t index)
{
    const bide_op *op = exchange->base.op;

    if (op->kind == BIDE_OP_DONE && op->finish.retain_ms > 0)
        return reject_result(exchange);
    return send_delete(exchange, index, op->lease.id, op->lease.token);
}

static int reply_delete(struct exchange *exchange, size_t index, const struct reply *reply)
{
    const bide_op *op = exchange->base.op;

    if (index == 0)
        return end_lease(exchange, op->lease.id, op->lease.token, reply, "DELETED");
    /* Not found, and yet the job exists: another client holds it. */
    return bi_reply_is(reply, "OK") ? BIDE_RESERVED : BIDE_NOT_FOUND;
}

const struct op_handler bi_beanstalkd_finish_delete = {
    .send = send_delete_op, .reply = reply_delete, .end = bi_beanstalkd_exchange_end_by_id};

/* ---- release, give_back, bury ---- */

static int send_release_or_bury(struct exchange *exchange, size_t index)
{
    const bide_op *op = exchange->base.op;
    bool buries = op->kind == BIDE_OP_BURY, gives_back = op->kind == BIDE_OP_GIVE_BACK;
    const char *unsupported = !buries                    ? NULL
                              : op->bury.reason.size > 0 ? "reasons of a bury"
                              : op->bury.token == 0      ? "burying what is not reserved"
                                                         : NULL;
    if (unsupported != NULL)
        return bi_beanstalkd_client_reject_unsupported(exchange->base.op, unsupported);

    const struct lease *lease = valid_lease(exchange->client, op->lease.id, op->lease.token);
    if (lease == NULL)
        return BIDE_LEASE_LOST;

    /* Both commands set the priority. To leave it unchanged, repeat the priority at the reserve. */
    unsigned long long id = lease->id;
    int64_t wanted = buries ? op->bury.priority : gives_back ? BIDE_KEEP : op->release.priority;
    uint32_t priority = wanted == BIDE_KEEP ? lease->priority : (uint32_t)wanted;
    int64_t delay_ms = buries || gives_back ? 0 : op->release.delay_ms;
    if (buries)
        bi_beanstalkd_conn_command(lease->conn, exchange, index, "bury %llu %u", id, priority);
    else
        bi_beanstalkd_conn_command(lease->conn, exchange, index, "release %llu %u %lld", id,
                                   priority, (long long)((delay_ms + 999) / 1000));
    return BIDE_PENDING;
}

static int reply_lease(struct exchange *exchange, size_t index, const struct reply *reply)
{
    const bide_op *op = exchange->base.op;

    (void)index;
    return end_lease(exchange, op->lease.id, op->lease.token, reply,
                     op->kind == BIDE_OP_BURY ? "BURIED" : "RELEASED");
}

const struct op_handler bi_beanstalkd_finish_release_or_bury = {.send = send_release_or_bury,
                                                                .reply = reply_lease};

/* ---- touch, touch_many ---- */

static bide_touch_item *touch_of(struct exchange *exchange, size_t index)
{
    bide_op *op = exchange->base.op;
    return op->kind == BIDE_OP_TOUCH ? &op->touch : &op->touch_many.items[index];
}

static int send_touch(struct exchange *exchange, size_t index)
{
    const bide_touch_item *item = touch_of(exchange, index);
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

static int reply_touch(struct exchange *exchange, size_t index, const struct reply *reply)
{
    bide_touch_item *item = touch_of(exchange, index);
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

const struct op_handler bi_beanstalkd_finish_touch = {.send = send_touch, .reply = reply_touch};
const struct op_handler bi_beanstalkd_finish_touch_many = {
    .send = send_touch, .reply = reply_touch, .bulk = true};

/* ---- finish_many ---- */

static bide_finish_item *finish_of(struct exchange *exchange, size_t index)
{
    bide_finish_item *part = bi_op_finish_part(exchange->base.op);
    return part != NULL ? part : &exchange->base.op->finish_many.items[index];
}

static int send_finish(struct exchange *exchange, size_t index)
{
    const bide_finish_item *item = finish_of(exchange, index);
    return item->keep && item->retain_ms > 0 ? reject_result(exchange)
                                             : send_delete(exchange, index, item->id, item->token);
}

/* No second query: reserved by another client is reported as not found. */
static int reply_finish(struct exchange *exchange, size_t index, const struct reply *reply)
{
    const bide_finish_item *item = finish_of(exchange, index);
    return end_lease(exchange, item->id, item->token, reply, "DELETED");
}

const struct op_handler bi_beanstalkd_finish_many = {
    .send = send_finish, .reply = reply_finish, .bulk = true};

/* ---- finish_and_reserve: two ops in sequence ---- */

#define STAGE_FINISH (-1)

/* The finish is settled: no lost connection changes its result, and a restart begins with the
 * reserve. */
static int send_reserve_part(struct exchange *exchange)
{
    exchange->settled = true;
    exchange->finish_code = finish_of(exchange, 0)->status;
    assert(exchange->finish_code != BIDE_PENDING);

    if (atomic_load(&exchange->client->remote.shut))
        return BIDE_CLOSED;
    if (exchange->client->main != NULL)
        return bi_beanstalkd_reserve_send(exchange, 0);
    bi_beanstalkd_exchange_restart(exchange);
    return BIDE_PENDING;
}

static int send_finish_and_reserve(struct exchange *exchange, size_t index)
{
    if (exchange->settled)
        return bi_beanstalkd_reserve_send(exchange, index);

    exchange->stage = STAGE_FINISH;
    int code = send_finish(exchange, index);
    finish_of(exchange, index)->status = code;
    /* The finish failed without a command. The reserve is independent of it and still runs, unless
     * beanstalkd cannot carry out the op at all. */
    return code == BIDE_PENDING || code == BIDE_ENOTSUP ? code : send_reserve_part(exchange);
}

static int reply_finish_and_reserve(struct exchange *exchange, size_t index,
                                    const struct reply *reply)
{
    if (exchange->stage != STAGE_FINISH)
        return bi_beanstalkd_reserve_reply(exchange, index, reply);

    finish_of(exchange, index)->status = reply_finish(exchange, index, reply);
    /* The error text of the op belongs to the reserve; the finish has its status only. */
    exchange->base.op->error[0] = 0;
    return BIDE_OK;
}

static int end_finish_and_reserve(struct exchange *exchange)
{
    return exchange->stage == STAGE_FINISH ? send_reserve_part(exchange)
                                           : bi_beanstalkd_reserve_end(exchange);
}

const struct op_handler bi_beanstalkd_finish_and_reserve = {.send = send_finish_and_reserve,
                                                            .reply = reply_finish_and_reserve,
                                                            .end = end_finish_and_reserve};
