/* SPDX-License-Identifier: MIT */
#include "cli/put.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* More batches in flight are not faster. Each holds at most BIDE_BATCH_BYTES of bodies, or one larger
 * body. */
#define BATCHES         4
#define IN_FLIGHT_BYTES (BATCHES * BIDE_BATCH_BYTES)

struct batch {
    bide_op op;
    bool completed; /* and not reported yet */
    size_t count;
    size_t bytes;
    bide_put_item items[BIDE_BATCH_JOBS];
    uint64_t numbers[BIDE_BATCH_JOBS];
};

/* A ring of batches: from first on, in_flight batches are sent; the next one is open for puts. */
struct bulk_put {
    struct pipeline pipeline;
    bide_slice topic;
    const bide_put_options *options;
    bi_bulk_put_done *on_done;
    void *user;
    bool stopped;
    size_t first, in_flight;
    size_t bytes; /* of the bodies in flight */
    struct batch *batches[BATCHES];
    struct put_json *arguments; /* of the open batch */
};

int bi_bulk_put_new(struct bulk_put **out, const struct cli *cli, bide_slice topic,
                    const bide_put_options *options, bi_bulk_put_done *on_done, void *user)
{
    struct bulk_put *bulk_put = calloc(1, sizeof(*bulk_put));
    bool allocated =
        bulk_put != NULL &&
        (bulk_put->arguments = malloc(BIDE_BATCH_JOBS * sizeof(*bulk_put->arguments))) != NULL;
    for (size_t i = 0; allocated && i < BATCHES; i++)
        allocated = (bulk_put->batches[i] = calloc(1, sizeof(struct batch))) != NULL;
    int exit = allocated ? bi_pipeline_open(&bulk_put->pipeline, cli)
                         : bi_cli_error(cli, BI_EXIT_FAILED, "out of memory");
    if (!allocated || exit != BI_EXIT_OK) {
        bi_bulk_put_free(bulk_put);
        return exit;
    }
    bulk_put->topic = topic;
    bulk_put->options = options;
    bulk_put->on_done = on_done;
    bulk_put->user = user;
    *out = bulk_put;
    return BI_EXIT_OK;
}

static void clear_batch(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++)
        bide_buf_unref(batch->items[i].buf);
    batch->completed = false;
    batch->count = batch->bytes = 0;
}

static struct batch *open_batch(const struct bulk_put *bulk_put)
{
    return bulk_put->batches[(bulk_put->first + bulk_put->in_flight) % BATCHES];
}

void bi_bulk_put_free(struct bulk_put *bulk_put)
{
    if (bulk_put == NULL)
        return;
    bi_pipeline_close(&bulk_put->pipeline);
    for (size_t i = 0; i < BATCHES && bulk_put->batches[i] != NULL; i++) {
        clear_batch(bulk_put->batches[i]);
        free(bulk_put->batches[i]);
    }
    free(bulk_put->arguments);
    free(bulk_put);
}

/* ---- results ---- */

/* Would every following put fail with this code, too? Wrong options of one job are not fatal. */
static bool is_fatal(int code)
{
    return (code < 0 && code != BIDE_EINVAL && code != BIDE_ENOTSUP) || code == BIDE_DRAINING ||
           code == BIDE_CLOSED;
}

/* The op has the sentence of the first item that was refused: "item 3: ...". */
static const char *error_of(const bide_op *op, size_t index)
{
    unsigned long item;
    int size = 0;
    if (sscanf(op->error, "item %lu: %n", &item, &size) == 1 && size > 0)
        return item == index ? op->error + size : "";
    return op->status != BIDE_OK ? op->error : "";
}

static void report_item(struct bulk_put *bulk_put, const struct batch *batch, size_t i)
{
    const bide_put_item *item = &batch->items[i];
    int code = item->status != BIDE_OK ? item->status : batch->op.status;
    struct put_result result = {.number = batch->numbers[i], .id = item->id, .code = code};
    result.error = code == BIDE_OK ? "" : error_of(&batch->op, i);
    bulk_put->stopped = bulk_put->stopped || is_fatal(code);
    bulk_put->on_done(bulk_put->user, &result);
}

/* In the order of sending, whatever the order of the completions. */
static void report_completed(struct bulk_put *bulk_put)
{
    while (bulk_put->in_flight > 0 && bulk_put->batches[bulk_put->first]->completed) {
        struct batch *batch = bulk_put->batches[bulk_put->first];
        for (size_t i = 0; i < batch->count; i++)
            report_item(bulk_put, batch, i);
        assert(bulk_put->bytes >= batch->bytes);
        bulk_put->bytes -= batch->bytes;
        clear_batch(batch);
        bulk_put->first = (bulk_put->first + 1) % BATCHES;
        bulk_put->in_flight--;
    }
}

static void completed(bide_op *op)
{
    struct batch *batch = op->user;
    batch->completed = true;
}

/* ---- sending ---- */

/* Keeps one batch open. */
static void make_room(struct bulk_put *bulk_put)
{
    report_completed(bulk_put);
    while (bulk_put->in_flight == BATCHES - 1 || bulk_put->bytes > IN_FLIGHT_BYTES) {
        bi_pipeline_wait(&bulk_put->pipeline);
        report_completed(bulk_put);
    }
}

void bi_bulk_put_flush(struct bulk_put *bulk_put)
{
    struct batch *batch = open_batch(bulk_put);
    bide_op *op = &batch->op;

    if (batch->count == 0)
        return;
    memset(op, 0, sizeof(*op));
    op->kind = BIDE_OP_PUT_MANY;
    op->done = completed;
    op->user = batch;
    op->put_many = (bide_put_many_args){.items = batch->items, .count = batch->count};
    bulk_put->in_flight++;
    bulk_put->bytes += batch->bytes;
    bi_pipeline_submit(&bulk_put->pipeline, &op, 1);
    make_room(bulk_put);
}

static bide_put_item *add_item(struct bulk_put *bulk_put, uint64_t number, bide_buf *body)
{
    size_t size = bide_buf_size(body);
    struct batch *batch = open_batch(bulk_put);

    /* A body larger than a batch is sent alone. */
    if (batch->count > 0 && batch->bytes + size > BIDE_BATCH_BYTES) {
        bi_bulk_put_flush(bulk_put);
        batch = open_batch(bulk_put);
    }

    assert(batch->count < BIDE_BATCH_JOBS);
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
    /* One array is enough: bide_submit() has read the options when it returns. */
    struct put_json *saved = &bulk_put->arguments[open_batch(bulk_put)->count - 1];
    bi_put_json_move(saved, line);
    item->options = &saved->options;
    if (saved->topic_size > 0)
        item->topic = (bide_slice){saved->topic, saved->topic_size};
    flush_if_full(bulk_put);
}

static void wait_all(struct bulk_put *bulk_put)
{
    report_completed(bulk_put);
    while (bulk_put->in_flight > 0) {
        bi_pipeline_wait(&bulk_put->pipeline);
        report_completed(bulk_put);
    }
}

void bi_bulk_put_drain(struct bulk_put *bulk_put)
{
    bi_bulk_put_flush(bulk_put);
    wait_all(bulk_put);
}

void bi_bulk_put_discard(struct bulk_put *bulk_put)
{
    clear_batch(open_batch(bulk_put));
    wait_all(bulk_put);
}

void bi_bulk_put_poll(struct bulk_put *bulk_put)
{
    bi_pipeline_poll(&bulk_put->pipeline);
    report_completed(bulk_put);
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
    return bulk_put->in_flight > 0;
}

int bi_bulk_put_fd(const struct bulk_put *bulk_put)
{
    return bi_pipeline_fd(&bulk_put->pipeline);
}
