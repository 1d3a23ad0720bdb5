/* SPDX-License-Identifier: MIT */
#include "cli/relay.h"

#include "cli/pipeline.h"

#include <stdlib.h>
#include <string.h>

#define TOGETHER 128 /* ops that are handed over at once */

/* Three places that only rise: taken <= submitted <= sent, at most RELAY_PIECES apart. */
struct relay {
    struct pipeline pipeline;
    bi_relay_take *take;
    void *user;
    uint64_t taken, submitted, sent;
    size_t bytes;
    struct piece pieces[RELAY_PIECES];
};

static struct piece *piece_at(struct relay *relay, uint64_t place)
{
    return &relay->pieces[place % RELAY_PIECES];
}

struct relay *bi_relay_new(const struct cli *cli, bide *queue, bi_relay_take *take, void *user)
{
    struct relay *relay = calloc(1, sizeof(*relay));
    if (relay == NULL) {
        bi_cli_failed(cli, BI_EXIT_FAILED, "there is not enough memory");
        return NULL;
    }
    relay->take = take;
    relay->user = user;
    if (bi_pipeline_open_at(&relay->pipeline, cli, queue) == BI_EXIT_OK)
        return relay;
    free(relay);
    return NULL;
}

static void answered(bide_op *op)
{
    struct piece *piece = op->user;
    piece->answered = true;
}

static void submit(struct relay *relay)
{
    bide_op *ops[TOGETHER];
    size_t count = 0;
    while (relay->submitted < relay->sent)
        ops[count++] = &piece_at(relay, relay->submitted++)->op;
    if (count > 0)
        bi_pipeline_submit(&relay->pipeline, ops, count);
}

/* The oldest, and those behind it that have their answers. */
static void take_some(struct relay *relay)
{
    struct piece *piece = piece_at(relay, relay->taken);
    if (relay->taken == relay->submitted)
        submit(relay);
    while (!piece->answered)
        bi_pipeline_wait(&relay->pipeline);
    while (relay->taken < relay->submitted && piece->answered) {
        relay->take(relay->user, piece);
        bide_job_clear(&piece->job);
        relay->bytes -= piece->bytes;
        piece = piece_at(relay, ++relay->taken);
    }
}

struct piece *bi_relay_piece(struct relay *relay, size_t bytes)
{
    while (relay->taken < relay->sent &&
           (relay->sent - relay->taken == RELAY_PIECES || relay->bytes + bytes > RELAY_BYTES))
        take_some(relay);
    struct piece *piece = piece_at(relay, relay->sent);
    memset(piece, 0, sizeof(*piece));
    piece->bytes = bytes;
    piece->op.done = answered;
    piece->op.user = piece;
    return piece;
}

void bi_relay_send(struct relay *relay)
{
    relay->bytes += piece_at(relay, relay->sent)->bytes;
    relay->sent++;
    if (relay->sent - relay->submitted == TOGETHER)
        submit(relay);
}

void bi_relay_hurry(struct relay *relay)
{
    submit(relay);
}

void bi_relay_free(struct relay *relay)
{
    if (relay == NULL)
        return;
    while (relay->taken < relay->sent)
        take_some(relay);
    bi_pipeline_close(&relay->pipeline);
    free(relay);
}
