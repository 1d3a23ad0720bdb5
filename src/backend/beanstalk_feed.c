/* SPDX-License-Identifier: MIT */
/*
 * A feed lives at the server, as long as its connection. What the caller holds is this: enough to
 * make it again. Events that happened in between are lost, how many nobody knows: one is counted,
 * and the next events call is told at once, without any event, so that nobody waits for what has
 * happened already.
 */
#include "backend/beanstalk_kind.h"
#include "backend/beanstalk_tagged.h"

#include <stdlib.h>
#include <string.h>

struct feed {
    struct feed *next;
    unsigned refs; /* the list of feeds, and requests */
    bool over;     /* its owner has ended it */
    bool made;     /* there is one at the server, with this number */
    uint64_t number;
    uint64_t lost; /* and not told yet */
    uint32_t kinds, capacity;
    size_t topic_size;
    char topic[BIDE_TOPIC_MAX];
    bide_op op; /* the subscribe that makes it again */
};

static bide_feed *handle_of(struct feed *feed)
{
    return (bide_feed *)(void *)feed;
}

static struct feed *feed_of(const struct tagged *tagged, const bide_feed *handle)
{
    struct feed *feed = tagged->feeds;
    while (feed != NULL && handle_of(feed) != handle)
        feed = feed->next;
    return feed;
}

static void unref(struct feed *feed)
{
    if (--feed->refs == 0)
        free(feed);
}

void bi_client_feed_leave(struct request *request)
{
    if (request->feed != NULL)
        unref(request->feed);
    request->feed = NULL;
}

static void attach(struct request *request, struct feed *feed)
{
    request->feed = feed;
    feed->refs++;
}

static bool has_lost(const bide_op *op, const struct feed *feed)
{
    return op->kind == BIDE_OP_EVENTS && feed->made && feed->lost > 0;
}

/* Answers the events call of a feed that has lost something. */
static int tell_lost(bide_op *op, struct feed *feed)
{
    op->feed.count = 0;
    op->feed.lost = feed->lost;
    feed->lost = 0;
    return BIDE_OK;
}

/* ---- beginning ---- */

static int begin_subscribe(struct request *request)
{
    const bide_feed_args *args = &request->op->feed;
    struct feed *feed = calloc(1, sizeof(*feed));
    if (feed == NULL)
        return bi_kind_refuse(request->op, BIDE_ENOMEM, "out of memory");
    feed->kinds = args->kinds;
    feed->capacity = args->capacity;
    feed->topic_size = args->topic.size;
    if (args->topic.size > 0)
        memcpy(feed->topic, args->topic.data, args->topic.size);
    attach(request, feed);
    return BIDE_PENDING;
}

static int begin_with(struct tagged *tagged, struct request *request, struct feed *feed)
{
    if (feed->made && !bi_client_request_encode(tagged, request, feed->number))
        return bi_kind_refuse(request->op, BIDE_ENOMEM, "out of memory");
    attach(request, feed);
    return BIDE_PENDING;
}

static void take_out(struct tagged *tagged, struct feed *feed)
{
    struct feed **from = &tagged->feeds;
    while (*from != feed)
        from = &(*from)->next;
    *from = feed->next;
    feed->over = true;
    unref(feed);
}

/* Without a connection there is nothing to end but who waits here. */
static int end_here(struct tagged *tagged, struct feed *feed, struct op_list *completed)
{
    for (struct request *each = tagged->first, *next; each != NULL; each = next) {
        next = each->next;
        if (each->feed != feed || each->op->kind != BIDE_OP_EVENTS)
            continue;
        each->cancelled = true;
        bi_client_request_give_up(each, BIDE_CANCELLED);
        bi_client_request_end(tagged, each, completed);
    }
    take_out(tagged, feed);
    return BIDE_OK;
}

int bi_client_feed_begin(struct tagged *tagged, struct request *request, struct op_list *completed)
{
    bide_op *op = request->op;
    if (op->kind == BIDE_OP_SUBSCRIBE)
        return begin_subscribe(request);
    if (op->kind != BIDE_OP_EVENTS && op->kind != BIDE_OP_UNSUBSCRIBE)
        return BIDE_PENDING;
    struct feed *feed = feed_of(tagged, op->feed.feed);
    if (feed == NULL)
        return bi_kind_refuse(op, BIDE_EINVAL, "this feed was never subscribed, or has ended");
    if (op->kind == BIDE_OP_UNSUBSCRIBE && !tagged->connected)
        return end_here(tagged, feed, completed);
    if (has_lost(op, feed))
        return tell_lost(op, feed);
    int code = begin_with(tagged, request, feed);
    if (code == BIDE_PENDING && op->kind == BIDE_OP_UNSUBSCRIBE)
        take_out(tagged, feed);
    return code;
}

bool bi_client_feed_is_made(const struct request *request)
{
    return request->feed == NULL || request->op->kind == BIDE_OP_SUBSCRIBE || request->feed->made;
}

bool bi_client_feed_is_over(const struct request *request)
{
    return request->op->kind == BIDE_OP_EVENTS && request->feed->over;
}

/* ---- answers ---- */

/* Sends what waited for its feed, or ends it. */
static void send_one(struct tagged *tagged, struct request *request, int code,
                     struct op_list *completed)
{
    struct feed *feed = request->feed;
    if (has_lost(request->op, feed)) {
        request->op->private_.status = tell_lost(request->op, feed);
    } else if (code == BIDE_OK && bi_client_request_encode(tagged, request, feed->number)) {
        bi_send_call(tagged, request);
        return;
    } else {
        bi_client_request_give_up(request, code == BIDE_OK ? BIDE_ENOMEM : code);
    }
    bi_client_request_end(tagged, request, completed);
}

/* The feed is there (again). */
static void send_held(struct tagged *tagged, const struct feed *feed, int code,
                      struct op_list *completed)
{
    for (struct request *each = tagged->first, *next; each != NULL; each = next) {
        next = each->next;
        if (each->feed == feed && !each->internal && !each->sent && !each->call.queued)
            send_one(tagged, each, code, completed);
    }
}

static void subscribed(struct tagged *tagged, struct request *request, struct op_list *completed)
{
    struct feed *feed = request->feed;
    int code = request->op->private_.status;
    feed->number = request->number;
    feed->made = code == BIDE_OK;
    if (request->internal) {
        send_held(tagged, feed, code, completed);
        return;
    }
    if (code != BIDE_OK)
        return;
    feed->refs++;
    feed->next = tagged->feeds;
    tagged->feeds = feed;
    request->op->feed.feed = handle_of(feed);
}

void bi_client_feed_answered(struct tagged *tagged, struct request *request,
                             struct op_list *completed)
{
    if (request->op->kind == BIDE_OP_SUBSCRIBE)
        subscribed(tagged, request, completed);
}

/* ---- connections come and go ---- */

void bi_client_feed_lost(struct tagged *tagged)
{
    for (struct feed *feed = tagged->feeds; feed != NULL; feed = feed->next) {
        feed->lost += feed->made;
        feed->made = false;
    }
}

static bool make_again(struct tagged *tagged, struct feed *feed)
{
    memset(&feed->op, 0, sizeof(feed->op));
    feed->op.kind = BIDE_OP_SUBSCRIBE;
    feed->op.feed.topic = (bide_slice){feed->topic, feed->topic_size};
    feed->op.feed.kinds = feed->kinds;
    feed->op.feed.capacity = feed->capacity;
    struct request *request = bi_client_request_new(tagged, &feed->op, false);
    if (request == NULL)
        return false;
    request->internal = true;
    if (!bi_client_request_add(tagged, request)) {
        bi_client_request_free(request);
        return false;
    }
    attach(request, feed);
    bi_send_call(tagged, request);
    return true;
}

void bi_client_feed_found(struct tagged *tagged)
{
    for (struct feed *feed = tagged->feeds; feed != NULL; feed = feed->next)
        if (!make_again(tagged, feed))
            tagged->broken = true; /* try again with another connection, later */
}

void bi_client_feed_free_all(struct tagged *tagged)
{
    while (tagged->feeds != NULL)
        take_out(tagged, tagged->feeds);
}
