/* SPDX-License-Identifier: MIT */
#include "server/batch.h"

#include "op/op_args.h"
#include "server/server_internal.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define BULK_COMMITS      4   /* that bulk senders may fill before they are not read */
#define UNCOMMITTED_SHARE 4   /* a fourth of the queue's limits is left free */
#define YIELDED_PER_TURN  8   /* yielded ops submitted in one pass */
#define MANY_TOPICS       256 /* a reserve with more topics is slow */

void bi_batch_init(struct batch *batch, const bide_options *options)
{
    uint64_t ops = options->max_pending_ops, bytes = options->max_pending_bytes;
    assert(ops > 0 && bytes > 0 && options->batch_jobs > 0 && options->batch_bytes > 0);

    STAILQ_INIT(&batch->yielded);
    batch->uncommitted_max = ops - ops / UNCOMMITTED_SHARE;
    batch->uncommitted_bytes_max = bytes - bytes / UNCOMMITTED_SHARE;
    batch->bulk_uncommitted_max = BULK_COMMITS * (uint64_t)options->batch_jobs;
    batch->bulk_uncommitted_bytes_max = BULK_COMMITS * options->batch_bytes;
}

/* ---- uncommitted changes ---- */

void bi_batch_count_change(struct server_op *server_op, const struct conn *conn)
{
    struct batch *batch = &server_op->server->batch;
    assert(!server_op->uncommitted);

    server_op->uncommitted = true;
    server_op->bulk = conn != NULL && bi_conn_is_bulk(conn);
    batch->uncommitted++;
    batch->uncommitted_bytes += server_op->bytes;
    batch->bulk_uncommitted += server_op->bulk;
    batch->bulk_uncommitted_bytes += server_op->bulk ? server_op->bytes : 0;
}

static void uncount_change(struct server_op *server_op)
{
    struct batch *batch = &server_op->server->batch;
    size_t bytes = server_op->bytes;
    assert(batch->uncommitted > 0 && batch->uncommitted_bytes >= bytes);
    assert(!server_op->bulk ||
           (batch->bulk_uncommitted > 0 && batch->bulk_uncommitted_bytes >= bytes));

    server_op->uncommitted = false;
    batch->uncommitted--;
    batch->uncommitted_bytes -= bytes;
    batch->bulk_uncommitted -= server_op->bulk;
    batch->bulk_uncommitted_bytes -= server_op->bulk ? bytes : 0;
}

/* ---- submit and completion ---- */

static void on_done(bide_op *op)
{
    struct server_op *server_op = op->user;
    assert(server_op->op == op && server_op->server->batch.in_flight > 0);

    /* Before completed(), which may submit the op again or free it. */
    server_op->server->batch.in_flight--;
    if (server_op->uncommitted)
        uncount_change(server_op);
    server_op->type->completed(server_op);
}

static bool is_noted(const struct server_settings *settings, bide_slice topic)
{
    const char *noted = settings->noted_topic;
    /* The first byte differs for nearly all topics. */
    return topic.size > 0 && *(const char *)topic.data == *noted && topic.size == strlen(noted) &&
           memcmp(topic.data, noted, topic.size) == 0;
}

/* Tells the owner of the server if the op brings a job into the noted topic. */
static void note_topic(const struct server *server, const bide_op *op)
{
    const struct server_settings *settings = &server->settings;
    if (settings->note == NULL || (!bi_op_is(op, OP_INSERTS_JOBS) && op->kind != BIDE_OP_UPDATE))
        return;

    /* Most ops are single puts: without the search by layout. */
    bool noted = op->kind == BIDE_OP_PUT && is_noted(settings, op->put.topic);
    for (size_t i = op->kind == BIDE_OP_PUT ? 0 : bi_op_args_topic_count(op); i-- > 0 && !noted;)
        noted = is_noted(settings, bi_op_args_topic(op, i));
    if (noted)
        settings->note(settings->user);
}

/* Adds an op that is counted as in flight. */
static void append(struct server_op *server_op)
{
    struct server *server = server_op->server;
    struct batch *batch = &server->batch;
    bide_op *op = server_op->op;

    if (batch->count == BATCH_MAX || batch->topics >= BATCH_TOPICS || batch->slow)
        bi_batch_flush(server);
    assert(batch->count < BATCH_MAX && batch->in_flight > 0);

    note_topic(server, op);
    op->cq = server->cq;
    op->done = on_done;
    op->user = server_op;
    batch->ops[batch->count++] = op;

    const bide_reserve_args *args = bi_op_reserve_args(op);
    size_t topics = args == NULL ? 0 : args->topic_count;
    batch->topics += topics;
    batch->slow = bi_op_is(op, OP_SLOW) || topics > MANY_TOPICS;
}

struct internal_op *bi_batch_new_op(struct server *server, const struct server_op_type *type)
{
    struct internal_op *op = calloc(1, sizeof(*op));
    if (op != NULL)
        op->base = (struct server_op){.type = type, .server = server, .op = &op->op};
    return op;
}

void bi_batch_submit(struct server_op *server_op)
{
    assert(!server_op->uncommitted);
    server_op->server->batch.in_flight++;
    append(server_op);
}

static void submit(struct server *server, bide_op **ops, size_t count)
{
    int pending = bide_submit(server->queue, ops, count);
    server->batch.submitted = true;

    /* Read after the submit: the leases that it has granted count from an earlier time, so an end
     * that a protocol computes from now is never early. */
    server->now = bi_clock_boot();
    assert(pending >= 0);

    for (size_t i = 0; i < count; i++) {
        struct server_op *server_op = ops[i]->user;
        if (ops[i]->status != BIDE_PENDING)
            on_done(ops[i]);
        else if (server_op->type->pending != NULL)
            server_op->type->pending(server_op);
        else
            bi_batch_count_change(server_op, NULL);
    }
}

void bi_batch_flush(struct server *server)
{
    struct batch *batch = &server->batch;

    while (batch->count > 0) {
        bide_op *ops[BATCH_MAX];
        size_t count = batch->count;
        assert(count <= BATCH_MAX && count <= batch->in_flight);

        /* Copied, because completed() may submit further ops to the batch. */
        memcpy(ops, batch->ops, count * sizeof(bide_op *));
        batch->count = batch->topics = 0;
        batch->slow = false;

        submit(server, ops, count);
    }
}

/* ---- long commands ---- */

void bi_batch_yield(struct server_op *server_op)
{
    struct batch *batch = &server_op->server->batch;

    assert(!server_op->uncommitted && server_op->op != NULL);

    /* Counted as in flight already: a stop must wait for it. */
    batch->in_flight++;
    STAILQ_INSERT_TAIL(&batch->yielded, server_op, next_yielded);
}

void bi_batch_submit_yielded(struct server *server)
{
    struct batch *batch = &server->batch;

    for (int i = 0; i < YIELDED_PER_TURN && !STAILQ_EMPTY(&batch->yielded); i++) {
        struct server_op *server_op = STAILQ_FIRST(&batch->yielded);
        STAILQ_REMOVE_HEAD(&batch->yielded, next_yielded);
        if (!server_op->abandoned) {
            append(server_op);
            continue;
        }

        /* No client waits for a further step. */
        server_op->op->status = BIDE_CANCELLED;
        on_done(server_op->op);
    }
}
