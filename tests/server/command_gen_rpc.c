/* SPDX-License-Identifier: MIT */
/*
 * command_gen_rpc.c - arguments of the verb `call`: ops as bytes, as the library sends them.
 *
 * Only ops that cannot touch the jobs which are to be left alone: those that change a job by its id
 * are not among them, for the filter does not see numbers in bytes.
 */
#include "command_gen.h"

#include "op/op_codec.h"

#include <bide/bide.h>

#include <stdio.h>
#include <string.h>

#define COUNT(array) (sizeof(array) / sizeof((array)[0]))

/* What ops point to. */
struct room {
    bide_slice topics[3];
    bide_put_item items[3];
    bide_put_options options;
    char cursor[BIDE_CURSOR_SIZE];
    char body[100];
};

static bide_slice any_topic(struct stream *stream)
{
    static const char *const names[] = {"a", "b", "c", "default", "-bad", ""};
    const char *name = names[rng_below(&stream->rng, COUNT(names))];
    return (bide_slice){name, strlen(name)};
}

static int64_t any_time(struct stream *stream)
{
    static const int64_t times[] = {0, 0, 1, 50, 1000, BIDE_FOREVER, -7, INT64_MAX};
    return times[rng_below(&stream->rng, COUNT(times))];
}

static bide_put_item any_put(struct stream *stream, struct room *room)
{
    room->options = (bide_put_options)BIDE_PUT_OPTIONS_INIT;
    room->options.priority = (uint32_t)rng_below(&stream->rng, 100);
    room->options.delay_ms = any_time(stream);
    room->options.max_retries = (int32_t)rng_below(&stream->rng, 3) - 1;
    return (bide_put_item){.topic = any_topic(stream),
                           .body = {room->body, rng_below(&stream->rng, sizeof room->body)},
                           .options = rng_percent(&stream->rng, 50) ? &room->options : NULL};
}

/* ---- one function for each way to fill an op ---- */

static void fill_put(struct stream *stream, bide_op *op, struct room *room)
{
    op->put = any_put(stream, room);
}

static void fill_put_many(struct stream *stream, bide_op *op, struct room *room)
{
    for (size_t i = 0; i < COUNT(room->items); i++)
        room->items[i] = any_put(stream, room);
    op->put_many =
        (bide_put_many_args){room->items, rng_below(&stream->rng, COUNT(room->items)) + 1, 0};
}

static void fill_reserve(struct stream *stream, bide_op *op, struct room *room)
{
    for (size_t i = 0; i < COUNT(room->topics); i++)
        room->topics[i] = any_topic(stream);
    op->reserve = (bide_reserve_args){.topics = room->topics,
                                      .topic_count = rng_below(&stream->rng, 3) + 1,
                                      .strategy = (bide_strategy)rng_below(&stream->rng, 5),
                                      .timeout_ms = any_time(stream),
                                      .job_max = rng_below(&stream->rng, 10) + 1};
}

static void fill_look(struct stream *stream, bide_op *op, struct room *room)
{
    (void)room;
    op->query = (bide_query_args){.id = stream->recent - rng_below(&stream->rng, 200),
                                  .topic = any_topic(stream),
                                  .state = (bide_state)rng_below(&stream->rng, 7)};
}

static void fill_fetch(struct stream *stream, bide_op *op, struct room *room)
{
    (void)room;
    op->fetch = (bide_fetch_args){.id = stream->recent - rng_below(&stream->rng, 200)};
}

static void fill_wait(struct stream *stream, bide_op *op, struct room *room)
{
    (void)room;
    op->wait = (bide_wait_args){.id = stream->recent - rng_below(&stream->rng, 200),
                                .timeout_ms = any_time(stream)};
}

static void fill_list(struct stream *stream, bide_op *op, struct room *room)
{
    op->list = (bide_list_args){.topic = any_topic(stream),
                                .state = (bide_state)rng_below(&stream->rng, 7),
                                .with_body = rng_percent(&stream->rng, 50),
                                .cursor = room->cursor,
                                .job_max = rng_below(&stream->rng, 200)};
}

static void fill_topics(struct stream *stream, bide_op *op, struct room *room)
{
    op->topics =
        (bide_topics_args){.cursor = room->cursor, .topic_max = rng_below(&stream->rng, 50)};
}

static void fill_topic(struct stream *stream, bide_op *op, struct room *room)
{
    (void)room;
    op->topic = (bide_topic_args){any_topic(stream), any_time(stream),
                                  rng_percent(&stream->rng, 50) ? 1 : -1};
}

static void fill_kick(struct stream *stream, bide_op *op, struct room *room)
{
    (void)room;
    op->kick = (bide_kick_args){.topic = any_topic(stream), .max = rng_below(&stream->rng, 20)};
}

static void fill_topic_stats(struct stream *stream, bide_op *op, struct room *room)
{
    (void)room;
    op->topic_stats = (bide_topic_stats_args){.topic = any_topic(stream)};
}

static void fill_feed(struct stream *stream, bide_op *op, struct room *room)
{
    (void)room;
    op->subscription = (bide_subscription_args){.topic = any_topic(stream),
                                                .capacity = (uint32_t)rng_below(&stream->rng, 100),
                                                .timeout_ms = any_time(stream),
                                                .event_max = rng_below(&stream->rng, 20)};
}

static void fill_nothing(struct stream *stream, bide_op *op, struct room *room)
{
    (void)stream;
    (void)op;
    (void)room;
}

static const struct {
    bide_op_kind kind;
    void (*fill)(struct stream *stream, bide_op *op, struct room *room);
} kinds[] = {
    {BIDE_OP_PUT, fill_put},           {BIDE_OP_PUT, fill_put},
    {BIDE_OP_PUT_MANY, fill_put_many}, {BIDE_OP_RESERVE, fill_reserve},
    {BIDE_OP_RESERVE, fill_reserve},   {BIDE_OP_PEEK, fill_look},
    {BIDE_OP_PEEK_FIRST, fill_look},   {BIDE_OP_JOB_STATS, fill_look},
    {BIDE_OP_BODY, fill_fetch},        {BIDE_OP_RESULT, fill_fetch},
    {BIDE_OP_WAIT, fill_wait},         {BIDE_OP_LIST, fill_list},
    {BIDE_OP_TOPICS, fill_topics},     {BIDE_OP_WAITING, fill_topics},
    {BIDE_OP_PAUSE, fill_topic},       {BIDE_OP_RESUME, fill_topic},
    {BIDE_OP_TOPIC_REF, fill_topic},   {BIDE_OP_KICK, fill_kick},
    {BIDE_OP_STATS, fill_nothing},     {BIDE_OP_TOPIC_STATS, fill_topic_stats},
    {BIDE_OP_SUBSCRIBE, fill_feed},    {BIDE_OP_EVENTS, fill_feed},
    {BIDE_OP_UNSUBSCRIBE, fill_feed},  {BIDE_OP_PING, fill_nothing},
};

void command_gen_rpc(struct stream *stream)
{
    struct room room = {0};
    bide_op op = {0};
    struct op_bytes bytes = {0};
    char line[64];
    size_t which = rng_below(&stream->rng, COUNT(kinds));
    op.kind = kinds[which].kind;
    kinds[which].fill(stream, &op, &room);
    bi_op_codec_encode(&op, rng_below(&stream->rng, 4), &bytes);
    snprintf(line, sizeof line, "%s %zu\r\n", bide_op_name(op.kind), bytes.size);
    command_gen_add(stream, line, strlen(line));
    command_gen_add(stream, bytes.data, bytes.size);
    bi_op_codec_wire_free_bytes(&bytes);
}
