/* SPDX-License-Identifier: MIT */
#include "cli/puts.h"

#include <stdlib.h>
#include <string.h>

/* More on their way do not make it faster; each may have BIDE_BATCH_BYTES of bodies in memory, or one
 * larger body, which goes alone. */
#define BATCHES      4
#define FLYING_BYTES (BATCHES * BIDE_BATCH_BYTES)

struct batch {
    bide_op op;
    bool landed; /* answered, and not told yet */
    size_t count;
    size_t bytes;
    bide_put_item items[BIDE_BATCH_JOBS];
    uint64_t numbers[BIDE_BATCH_JOBS];
};

/* Batches are in a ring: from first on `launched` are on their way or answered, and the next one
 * gathers. */
struct puts {
    struct pipeline pipeline;
    bide_slice topic;
    const bide_put_options *options;
    bi_puts_told *told;
    void *user;
    bool stopped;
    size_t first, launched;
    size_t bytes; /* of those that are launched */
    struct batch *batches[BATCHES];
    struct put_line *lines; /* arguments of the batch that gathers */
};

int bi_puts_new(struct puts **out, const struct cli *cli, bide_slice topic,
                const bide_put_options *options, bi_puts_told *told, void *user)
{
    struct puts *puts = calloc(1, sizeof(*puts));
    bool made =
        puts != NULL && (puts->lines = malloc(BIDE_BATCH_JOBS * sizeof(*puts->lines))) != NULL;
    for (size_t i = 0; made && i < BATCHES; i++)
        made = (puts->batches[i] = calloc(1, sizeof(struct batch))) != NULL;
    int exit = made ? bi_pipeline_open(&puts->pipeline, cli)
                    : bi_cli_failed(cli, BI_EXIT_FAILED, "out of memory");
    if (!made || exit != BI_EXIT_OK) {
        bi_puts_free(puts);
        return exit;
    }
    puts->topic = topic;
    puts->options = options;
    puts->told = told;
    puts->user = user;
    *out = puts;
    return BI_EXIT_OK;
}

static void drop_bodies(struct batch *batch)
{
    for (size_t i = 0; i < batch->count; i++) {
        bide_buf_unref(batch->items[i].buf);
        batch->items[i].buf = NULL;
    }
}

static struct batch *gathering(const struct puts *puts)
{
    return puts->batches[(puts->first + puts->launched) % BATCHES];
}

static void forget(struct puts *puts)
{
    struct batch *batch = gathering(puts);
    drop_bodies(batch);
    batch->count = batch->bytes = 0;
}

void bi_puts_free(struct puts *puts)
{
    if (puts == NULL)
        return;
    bi_pipeline_close(&puts->pipeline);
    for (size_t i = 0; i < BATCHES && puts->batches[i] != NULL; i++) {
        drop_bodies(puts->batches[i]);
        free(puts->batches[i]);
    }
    free(puts->lines);
    free(puts);
}

/* ---- answers ---- */

/* What every following job would be told, too; what is wrong with one job's options is not. */
static bool is_fatal(int code)
{
    return (code < 0 && code != BIDE_EINVAL && code != BIDE_ENOTSUP) || code == BIDE_DRAINING ||
           code == BIDE_CLOSED;
}

/* The op has the sentence of the first item that was refused: "item 3: ...". */
static const char *sentence_of(const bide_op *op, size_t index)
{
    unsigned long item;
    int size = 0;
    if (sscanf(op->error, "item %lu: %n", &item, &size) == 1 && size > 0)
        return item == index ? op->error + size : "";
    return op->status != BIDE_OK ? op->error : "";
}

static void tell_item(struct puts *puts, const struct batch *batch, size_t i)
{
    const bide_put_item *item = &batch->items[i];
    int code = item->status != BIDE_OK ? item->status : batch->op.status;
    struct put_answer answer = {.number = batch->numbers[i], .id = item->id, .code = code};
    answer.sentence = code == BIDE_OK ? "" : sentence_of(&batch->op, i);
    puts->stopped = puts->stopped || is_fatal(code);
    puts->told(puts->user, &answer);
}

/* In the order in which they were sent, whatever the order of the answers. */
static void tell(struct puts *puts)
{
    while (puts->launched > 0 && puts->batches[puts->first]->landed) {
        struct batch *batch = puts->batches[puts->first];
        for (size_t i = 0; i < batch->count; i++)
            tell_item(puts, batch, i);
        drop_bodies(batch);
        puts->bytes -= batch->bytes;
        batch->landed = false;
        batch->count = batch->bytes = 0;
        puts->first = (puts->first + 1) % BATCHES;
        puts->launched--;
    }
}

static void landed(bide_op *op)
{
    struct batch *batch = op->user;
    batch->landed = true;
}

/* ---- sending ---- */

/* One batch always gathers. */
static void make_room(struct puts *puts)
{
    tell(puts);
    while (puts->launched == BATCHES - 1 || puts->bytes > FLYING_BYTES) {
        bi_pipeline_wait(&puts->pipeline);
        tell(puts);
    }
}

void bi_puts_launch(struct puts *puts)
{
    struct batch *batch = gathering(puts);
    bide_op *op = &batch->op;
    if (batch->count == 0)
        return;
    memset(op, 0, sizeof(*op));
    op->kind = BIDE_OP_PUT_MANY;
    op->done = landed;
    op->user = batch;
    op->put_many = (bide_put_many_args){.items = batch->items, .count = batch->count};
    puts->launched++;
    puts->bytes += batch->bytes;
    bi_pipeline_submit(&puts->pipeline, &op, 1);
    make_room(puts);
}

static bide_put_item *add(struct puts *puts, uint64_t number, bide_buf *body)
{
    size_t size = bide_buf_size(body);
    struct batch *batch = gathering(puts);
    if (batch->count > 0 && batch->bytes + size > BIDE_BATCH_BYTES) {
        bi_puts_launch(puts);
        batch = gathering(puts);
    }
    bide_put_item *item = &batch->items[batch->count];
    *item = (bide_put_item){.topic = puts->topic, .buf = body, .options = puts->options};
    batch->numbers[batch->count++] = number;
    batch->bytes += size;
    return item;
}

static void launch_full(struct puts *puts)
{
    if (gathering(puts)->count == BIDE_BATCH_JOBS)
        bi_puts_launch(puts);
}

void bi_puts_add(struct puts *puts, uint64_t number, bide_buf *body)
{
    add(puts, number, body);
    launch_full(puts);
}

void bi_puts_add_line(struct puts *puts, uint64_t number, struct put_line *line)
{
    bide_put_item *item = add(puts, number, line->body);
    struct put_line *kept = &puts->lines[gathering(puts)->count - 1];
    bi_putline_move(kept, line);
    item->options = &kept->options;
    if (kept->topic_size > 0)
        item->topic = (bide_slice){kept->topic, kept->topic_size};
    launch_full(puts);
}

/* ---- the rest ---- */

static void wait_for_all(struct puts *puts)
{
    tell(puts);
    while (puts->launched > 0) {
        bi_pipeline_wait(&puts->pipeline);
        tell(puts);
    }
}

void bi_puts_finish(struct puts *puts)
{
    bi_puts_launch(puts);
    wait_for_all(puts);
}

void bi_puts_abandon(struct puts *puts)
{
    forget(puts);
    wait_for_all(puts);
}

void bi_puts_look(struct puts *puts)
{
    bi_pipeline_look(&puts->pipeline);
    tell(puts);
}

bool bi_puts_stopped(const struct puts *puts)
{
    return puts->stopped;
}

size_t bi_puts_gathered(const struct puts *puts)
{
    return gathering(puts)->count;
}

bool bi_puts_flying(const struct puts *puts)
{
    return puts->launched > 0;
}

int bi_puts_fd(const struct puts *puts)
{
    return bi_pipeline_fd(&puts->pipeline);
}
