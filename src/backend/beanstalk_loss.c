/* SPDX-License-Identifier: MIT */
/*
 * Losing a connection is not the end of a request. One that had not been written completely cannot
 * have happened, and is sent again; so is one that may be asked twice. A write that was sent and
 * not answered may have happened: it completes with BIDE_EUNKNOWN.
 *
 * Without a connection a call fails after connect_timeout. One that waits goes on waiting for its
 * own time, which from then on is looked at here: the server would begin to count anew. It fails when
 * the server is there and refuses the secret: that does not pass by waiting.
 */
#include "backend/beanstalk_tagged.h"

#include "backend/beanstalk_kind.h"
#include "util/clock.h"
#include "util/text.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

/* A request whose connection breaks so many times may well be the reason. */
#define LOSSES_MAX 5

/* ---- when to try again ---- */

/* Doubles from reconnect_min, up to half as much more at random, at most reconnect_max. */
static int64_t backoff(struct tagged *tagged)
{
    int64_t max = tagged->address.reconnect_max;
    int64_t pause = tagged->address.reconnect_min;
    for (unsigned i = 1; i < tagged->attempts && pause < max; i++)
        pause *= 2;
    pause += (int64_t)bi_random_below(&tagged->random, (uint64_t)pause / 2 + 1);
    return pause < max ? pause : max;
}

void bi_loss_retry(struct tagged *tagged, const char *reason)
{
    tagged->attempts++;
    tagged->try_at = bi_clock_boot() + backoff(tagged);
    bi_text_copy(tagged->reason, reason);
}

/* ---- losing ---- */

static void lose(struct tagged *tagged, struct request *request, int64_t now,
                 struct op_list *completed)
{
    bide_op *op = request->op;
    bool was_sent = request->sent;
    bi_send_forget(tagged, request);
    request->cancel.data = NULL;
    request->losses++;
    if (op->kind == BIDE_OP_UNSUBSCRIBE) { /* the feed has gone with the connection */
        op->private_.status = BIDE_OK;
    } else if (was_sent && !bi_kind_repeats(op->kind)) {
        bi_kind_lost(op, &tagged->address);
    } else if (bi_client_feed_is_over(request)) {
        bi_client_request_give_up(request, BIDE_CANCELLED);
    } else if (request->cancelled || request->timed_out || (request->shut && request->waits)) {
        bi_client_request_give_up(request, BIDE_CLOSED);
    } else if (!request->waits && request->losses > LOSSES_MAX) {
        bi_kind_unreached(op, tagged->reason);
    } else if (!request->internal) {
        request->late = request->waits;
        if (!request->waits)
            request->deadline = now + tagged->address.connect_timeout;
        bi_loss_watch(tagged, request);
        return;
    }
    bi_client_request_end(tagged, request, completed);
}

void bi_loss_lost(struct tagged *tagged, const char *reason, struct op_list *completed)
{
    assert(tagged->connected);
    /* No further write begins. The lock is released until the one that is under way has ended: only then
     * are the connection and what was queued for it gone, both at once. */
    tagged->broken = true;
    bi_send_quiet(tagged);
    assert(tagged->connected);
    tagged->connected = false;
    bi_send_clear(tagged);
    close(tagged->fd);
    tagged->fd = -1;
    tagged->blocked = tagged->broken = false;
    tagged->in_size = tagged->in_used = 0;
    bi_loss_retry(tagged, reason);
    bi_client_feed_lost(tagged);
    int64_t now = tagged->lost_at = bi_clock_boot();
    for (struct request *each = tagged->first, *next; each != NULL; each = next) {
        next = each->next;
        lose(tagged, each, now, completed);
    }
}

/* ---- finding ---- */

void bi_loss_found(struct tagged *tagged, int fd)
{
    assert(!tagged->connected && tagged->out_head == NULL);
    tagged->fd = fd;
    tagged->connected = true;
    bi_silence_begin(tagged);
    struct request *last = tagged->last;
    bi_client_feed_found(tagged); /* adds to the list, and sends */
    bi_client_reference_found(tagged);
    for (struct request *each = last == NULL ? NULL : tagged->first; each != NULL;
         each = each == last ? NULL : each->next)
        if (bi_client_feed_is_made(each))
            bi_send_call(tagged, each);
    bi_send_flush(tagged);
}

void bi_loss_refused(struct tagged *tagged, const char *reason, struct op_list *completed)
{
    assert(!tagged->connected);
    for (struct request *each = tagged->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!each->waits || each->internal)
            continue;
        bi_kind_refused(each->op, reason);
        bi_client_request_end(tagged, each, completed);
    }
}

/* ---- time ---- */

/* Is its time looked at here? */
static bool is_watched(const struct tagged *tagged, const struct request *request)
{
    return request->deadline != NEVER && (!tagged->connected || request->late);
}

void bi_loss_watch(struct tagged *tagged, const struct request *request)
{
    if (request->deadline < tagged->look_at)
        tagged->look_at = request->deadline;
}

/* What came of a request whose time is over. */
enum over { ENDED, ASKED, SILENT };

/*
 * Asks the server to cancel the request. SILENT: it was asked before, and nothing has been received
 * from it since then. A server that still sends answers to other requests gets more time.
 */
static enum over end_time(struct tagged *tagged, struct request *request, int64_t now,
                          struct op_list *completed)
{
    if (request->call.queued || request->sent) {
        bool asked = request->shut || request->timed_out;
        if (asked && request->signs == tagged->signs)
            return SILENT;
        request->deadline = now + tagged->address.connect_timeout;
        request->signs = tagged->signs;
        if (!asked) {
            request->timed_out = true;
            bi_send_cancel(tagged, request);
        }
        return ASKED;
    }
    request->timed_out = request->waits;
    if (request->waits && !request->cancelled && !tagged->connected)
        bi_kind_alone(request->op, &tagged->address, (now - tagged->lost_at) / 1000000);
    else if (request->waits)
        bi_client_request_give_up(request, BIDE_TIMED_OUT);
    else
        bi_kind_unreached(request->op, tagged->reason);
    bi_client_request_end(tagged, request, completed);
    return ENDED;
}

bool bi_loss_look(struct tagged *tagged, int64_t now, struct op_list *completed)
{
    bool answers = true;
    tagged->look_at = NEVER;
    for (struct request *each = tagged->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!is_watched(tagged, each))
            continue;
        enum over over = each->deadline > now ? ASKED : end_time(tagged, each, now, completed);
        if (over == ASKED)
            bi_loss_watch(tagged, each);
        answers = answers && over != SILENT;
    }
    bi_send_flush(tagged);
    return answers;
}

void bi_loss_end(struct tagged *tagged, struct op_list *completed)
{
    assert(!tagged->connected);
    for (struct request *each = tagged->first, *next; each != NULL; each = next) {
        next = each->next;
        bi_client_request_give_up(each, BIDE_CLOSED);
        bi_client_request_end(tagged, each, completed);
    }
}
