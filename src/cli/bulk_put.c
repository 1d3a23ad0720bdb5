/* SPDX-License-Identifier: MIT */
#include "cli/put.h"

#include <assert.h>
#include <stdlib.h>

/* More batches in flight do not make it faster. Each may hold BIDE_BATCH_BYTES of bodies, or one larger
 * body, which goes alone. */
#define IN_FLIGHT_BATCHES 3
#define IN_FLIGHT_BYTES   (IN_FLIGHT_BATCHES * BIDE_BATCH_BYTES)
#define BATCHES           (IN_FLIGHT_BATCHES + 1) /* and the open one */

struct batch {
    size_t count;
    size_t bytes;
    bide_put_item items[BIDE_BATCH_JOBS];
    uint64_t numbers[BIDE_BATCH_JOBS];
};

struct bulk_put {
    struct ordered_pipeline *pipeline;
    bide_slice topic;
    const bide_put_options *options;
    bi_bulk_put_done *on_done;
    void *user;
    bool stopped;
    size_t open; /* index of the batch that jobs are added to; the others are in flight or empty */
    struct batch *batches[BATCHES];
    struct put_json *arguments; /* of the jobs in the open batch */
};

static void on_batch_done(void *user, struct op_slot *slot);

int bi_bulk_put_new(struct bulk_put **out, const struct cli *cli, bide_slice topic,
                    const bide_put_options *options, bi_bulk_put_done *on_done, void *user)
{
    struct bulk_put *bulk_put = calloc(1, sizeof(*bulk_put));
    bool allocated =
        bulk_put != NULL &&
        (bulk_put->arguments = malloc(BIDE_BATCH_JOBS * sizeof(*bulk_put->arguments))) != NULL;
    for (size_t i = 0; allocated && i < BATCHES; i++)
        allocated = (bulk_put->batches[i] = calloc(1, sizeof(struct batch))) != NULL;
    if (!allocated) {
        bi_bulk_put_free(bulk_put);
        return bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    }

    bulk_put->topic = topic;
    bulk_put->options = options;
    bulk_put->on_done = on_done;
    bulk_put->user = user;
    bulk_put->pipeline = bi_ordered_pipeline_new(cli, cli->queue, on_batch_done, bulk_put);
    if (bulk_put->pipeline == NULL) {
        bi_bulk_put_free(bulk_put);
        return BI_EXIT_FAILED;
    }
    bi_ordered_pipeline_set_limits(bulk_put->pipeline, IN_FLIGHT_BATCHES, IN_FLIGHT_BYTES);
    *out = bulk_put;
    return BI_EXIT_OK;
}

static void clear_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        bide_buf_unref(batch->items[i].buf);
    batch->count = batch->bytes = 0;
}

static struct batch *open_batch(const struct bulk_put *bulk_put)
{
    return bulk_put->batches[bulk_put->open];
}

void bi_bulk_put_free(struct bulk_put *bulk_put)
{
    if (bulk_put == NULL)
        return;
    bi_ordered_pipeline_free(bulk_put->pipeline);
    for (size_t i = 0; i < BATCHES && bulk_put->batches[i] != NULL; i++) {
        clear_batch(bulk_put->batches[i]);
        free(bulk_put->batches[i]);
    }
    free(bulk_put->arguments);
    free(bulk_put);
}

/* ---- results ---- */

/* The op has the error text of the first item that was rejected, or of the whole list. */
static const char *error_of(const bide_op *op, size_t index)
{
    return op->status != BIDE_OK || op->error_item == index + 1 ? op->error : "";
}

static void report_item(struct bulk_put *bulk_put, const bide_op *op, const struct batch *batch,
                        size_t i)
{
    const bide_put_item *item = &batch->items[i];
    int code = item->status != BIDE_OK ? item->status : op->status;
    struct put_result result = {.number = batch->numbers[i], .id = item->id, .code = code};
    result.error = code == BIDE_OK ? "" : error_of(op, i);
    bulk_put->stopped = bulk_put->stopped || bi_cli_is_fatal(code);
    bulk_put->on_done(bulk_put->user, &result);
}

static void on_batch_done(void *user, struct op_slot *slot)
{
    struct bulk_put *bulk_put = user;
    struct batch *batch = slot->extra;

    for (size_t i = 0; i < batch->count; i++)
        report_item(bulk_put, &slot->op, batch, i);
    clear_batch(batch);
}

/* ---- sending ---- */

void bi_bulk_put_flush(struct bulk_put *bulk_put)
{
    struct batch *batch = open_batch(bulk_put);
    if (batch->count == 0)
        return;

    struct op_slot *slot = bi_ordered_pipeline_get_slot(bulk_put->pipeline, batch->bytes);
    slot->extra = batch;
    slot->op.kind = BIDE_OP_PUT_MANY;
    slot->op.put_many = (bide_put_many_args){.items = batch->items, .count = batch->count};
    bi_ordered_pipeline_submit(bulk_put->pipeline);

    /* At most IN_FLIGHT_BATCHES are in flight, so the next one in turn has completed. */
    bi_ordered_pipeline_poll(bulk_put->pipeline);
    bulk_put->open = (bulk_put->open + 1) % BATCHES;
    assert(open_batch(bulk_put)->count == 0);
}

static bide_put_item *add_item(struct bulk_put *bulk_put, uint64_t number, bide_buf *body)
{
    size_t size = bide_buf_size(body);
    struct batch *batch = open_batch(bulk_put);
    if (batch->count > 0 && batch->bytes + size > BIDE_BATCH_BYTES) {
        bi_bulk_put_flush(bulk_put);
        batch = open_batch(bulk_put);
    }
    bide_put_item *item = &batch->items[batch->count];
    *item = (bide_put_item){.topic = bulk_put->topic, .buf = body, .options = bulk_put->options};
    batch->numbers[batch->count++] = number;
    batch->bytes += size;
    return item;
}

static void flush_if_full(struct bulk_put *bulk_put)
{
    if (open_batch(bulk_put)->count == BIDE_BATCH_JOBS)
        bi_bulk_put_flush(bulk_put);
}

void bi_bulk_put_add(struct bulk_put *bulk_put, uint64_t number, bide_buf *body)
{
    add_item(bulk_put, number, body);
    flush_if_full(bulk_put);
}

void bi_bulk_put_add_json(struct bulk_put *bulk_put, uint64_t number, struct put_json *line)
{
    bide_put_item *item = add_item(bulk_put, number, line->body);
    struct put_json *saved = &bulk_put->arguments[open_batch(bulk_put)->count - 1];
    bi_put_json_move(saved, line);
    item->options = &saved->options;
    if (saved->topic_size > 0)
        item->topic = (bide_slice){saved->topic, saved->topic_size};
    flush_if_full(bulk_put);
}

/* ---- waiting ---- */

void bi_bulk_put_drain(struct bulk_put *bulk_put)
{
    bi_bulk_put_flush(bulk_put);
    bi_ordered_pipeline_drain(bulk_put->pipeline);
}

void bi_bulk_put_discard(struct bulk_put *bulk_put)
{
    clear_batch(open_batch(bulk_put));
    bi_ordered_pipeline_drain(bulk_put->pipeline);
}

void bi_bulk_put_poll(struct bulk_put *bulk_put)
{
    bi_ordered_pipeline_poll(bulk_put->pipeline);
}

bool bi_bulk_put_is_stopped(const struct bulk_put *bulk_put)
{
    return bulk_put->stopped;
}

size_t bi_bulk_put_buffered(const struct bulk_put *bulk_put)
{
    return open_batch(bulk_put)->count;
}

bool bi_bulk_put_in_flight(const struct bulk_put *bulk_put)
{
    return bi_ordered_pipeline_oldest(bulk_put->pipeline) != NULL;
}

int bi_bulk_put_fd(const struct bulk_put *bulk_put)
{
    return bi_ordered_pipeline_fd(bulk_put->pipeline);
}
