/* SPDX-License-Identifier: MIT */
/*
 * bided_send - the send queue: calls and cancel lines, gathered into few writes.
 *
 * Any thread that queues a call may write. `sending` gives one thread the socket while the lock is
 * released for the system call. During a write, items may be appended, but the front of the queue
 * is frozen: no request with a queued call is removed.
 */
#include "remote/bided/bided_client.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>

/* The most items per write, and the most writes in one flush: a caller must not write the calls of
 * other threads for ever. */
#define IOV_MAX_COUNT 64
#define WRITES_MAX    8

static void enqueue(struct out_queue *queue, struct outgoing *outgoing)
{
    assert(!outgoing->queued);
    outgoing->next = NULL;
    outgoing->queued = true;
    *(queue->head != NULL ? &queue->tail->next : &queue->head) = outgoing;
    queue->tail = outgoing;
}

/* Moves urgent items to the front, behind an item that is partly written. Not during a write: the
 * queue must then begin with what is being written. */
static void merge_urgent(struct bided *bided)
{
    struct out_queue *out = &bided->out, *urgent = &bided->urgent;
    if (urgent->head == NULL)
        return;

    struct outgoing *first = bided->out_written > 0 ? out->head : NULL;
    struct outgoing **slot = first != NULL ? &first->next : &out->head;

    urgent->tail->next = *slot;
    if (*slot == NULL)
        out->tail = urgent->tail;
    *slot = urgent->head;
    *urgent = (struct out_queue){NULL, NULL};
}

static struct outgoing *dequeue(struct bided *bided)
{
    struct outgoing *first = bided->out.head;

    assert(first != NULL && first->queued);
    bided->out.head = first->next;
    bided->out_written = 0;
    first->queued = false;
    return first;
}

void bi_bided_send_call(struct bided *bided, struct request *request)
{
    assert(!request->base.started && !request->sent && request->tag != 0);
    request->base.started = true;
    bi_bided_request_write_header(request);
    /* A ping must not wait behind calls that the server may never reply to. */
    enqueue(request == bided->ping ? &bided->urgent : &bided->out, &request->call);
}

/* Waiting and internal calls do not count: a waiting reserve must not block later calls. */
static bool counts_in_flight(const struct request *request)
{
    return !request->base.waits && !request->base.internal;
}

void bi_bided_send_cancel(struct bided *bided, struct request *request)
{
    if (!bided->remote.connected || request->cancel.data != NULL)
        return;

    int size = snprintf(request->cancel_line, sizeof(request->cancel_line), "call-cancel %u\r\n",
                        request->tag);
    request->cancel.data = (const unsigned char *)request->cancel_line;
    request->cancel.size = (size_t)size;

    /* A cancel must not overtake its own call. If the call has been written, the cancel may
     * overtake everything else. */
    enqueue(request->sent ? &bided->urgent : &bided->out, &request->cancel);
}

/* Removes the first item: all its bytes have been written. */
static void finish_item(struct bided *bided)
{
    struct outgoing *first = dequeue(bided);
    struct request *request = first->request;

    if (first == &request->call) {
        request->sent = true;
        bided->in_flight += counts_in_flight(request);
    } else if (request->answered) {
        /* The op has completed; the request waited for this cancel line only. */
        bi_bided_request_free(request);
    }
}

void bi_bided_send_mark_unsent(struct bided *bided, struct request *request)
{
    if (!request->sent)
        return;
    request->sent = false;
    assert(!counts_in_flight(request) || bided->in_flight > 0);
    bided->in_flight -= counts_in_flight(request);
}

/* Returns whether the item may be written behind queued_before other items. A call that was started
 * must be completed, whatever the limit; cancel lines are not limited. */
static bool may_send(const struct bided *bided, const struct outgoing *outgoing,
                     size_t queued_before)
{
    const struct request *request = outgoing->request;
    bool started = outgoing == bided->out.head && bided->out_written > 0;
    return started || outgoing != &request->call || !counts_in_flight(request) ||
           bided->in_flight + queued_before < BI_RPC_IN_FLIGHT_MAX;
}

static void advance(struct bided *bided, size_t written)
{
    while (written > 0) {
        size_t left = bided->out.head->size - bided->out_written;
        assert(left > 0); /* a complete item has left the queue */
        if (written < left) {
            bided->out_written += written;
            return;
        }
        written -= left;
        finish_item(bided);
    }
}

/* Writes once, with the lock released. The queue may grow meanwhile, but its items stay: no queued
 * request is removed while `sending` is set. */
static ssize_t write_some(struct bided *bided)
{
    struct iovec iov[IOV_MAX_COUNT];
    size_t count = 0;
    size_t skip = bided->out_written;

    for (struct outgoing *each = bided->out.head;
         each != NULL && count < IOV_MAX_COUNT && may_send(bided, each, count);
         each = each->next, skip = 0) {
        /* sendmsg() only reads the data, but iov_base is not const. */
        union {
            const unsigned char *from;
            void *base;
        } data = {.from = each->data + skip};
        iov[count++] = (struct iovec){.iov_base = data.base, .iov_len = each->size - skip};
    }

    struct msghdr message = {.msg_iov = iov, .msg_iovlen = count};
    int fd = bided->fd;
    assert(bided->sending && fd >= 0);

    pthread_mutex_unlock(&bided->remote.lock);
    ssize_t written = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    int number = errno;
    pthread_mutex_lock(&bided->remote.lock);
    errno = number;
    return written;
}

void bi_bided_send_flush(struct bided *bided)
{
    if (!bided->remote.connected || bided->sending || bided->blocked || bided->remote.broken)
        return;

    bided->sending = true;
    for (int round = 0;; round++) {
        merge_urgent(bided);
        /* Calls above the in-flight limit stay queued; the next reply flushes them. */
        if (bided->out.head == NULL || !may_send(bided, bided->out.head, 0))
            break;

        ssize_t written = round < WRITES_MAX ? write_some(bided) : 0;
        if (written > 0) {
            advance(bided, (size_t)written);
            continue;
        }

        if (written < 0 && errno == EINTR)
            continue;

        /* The socket is full, the write failed, or the limit of writes is reached. In each case
         * the I/O thread continues: it polls for POLLOUT, or disconnects if broken. */
        bided->blocked = true;
        bided->remote.broken = written < 0 && errno != EAGAIN;
        bi_remote_wake(&bided->remote);
        break;
    }

    bided->sending = false;
    pthread_cond_broadcast(&bided->send_idle);
}

void bi_bided_send_wait_idle(struct bided *bided)
{
    while (bided->sending)
        pthread_cond_wait(&bided->send_idle, &bided->remote.lock);
}

void bi_bided_send_clear(struct bided *bided)
{
    merge_urgent(bided);
    while (bided->out.head != NULL) {
        struct outgoing *first = dequeue(bided);
        /* All other requests are still listed and are resent or completed by the caller. */
        if (first == &first->request->cancel && first->request->answered)
            bi_bided_request_free(first->request);
    }
}
