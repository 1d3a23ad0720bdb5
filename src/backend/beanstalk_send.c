/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_tagged.h"

#include <assert.h>
#include <errno.h>
#include <stdio.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

/* What one write takes, and how many of them a caller makes for others. */
#define PIECES 64
#define ROUNDS 8

static void append(struct outgoing **head, struct outgoing **tail, struct outgoing *outgoing)
{
    outgoing->next = NULL;
    outgoing->queued = true;
    *(*head != NULL ? &(*tail)->next : head) = outgoing;
    *tail = outgoing;
}

static void enqueue(struct tagged *tagged, struct outgoing *outgoing)
{
    append(&tagged->out_head, &tagged->out_tail, outgoing);
}

static void enqueue_urgent(struct tagged *tagged, struct outgoing *outgoing)
{
    append(&tagged->urgent_head, &tagged->urgent_tail, outgoing);
}

/* Brings what is urgent to the front, behind a first one of which a part has left. Not during a
 * write: the list must begin with what is being written. */
static void let_in_urgent(struct tagged *tagged)
{
    if (tagged->urgent_head == NULL)
        return;
    struct outgoing *first = tagged->out_written > 0 ? tagged->out_head : NULL;
    struct outgoing **place = first != NULL ? &first->next : &tagged->out_head;
    tagged->urgent_tail->next = *place;
    if (*place == NULL)
        tagged->out_tail = tagged->urgent_tail;
    *place = tagged->urgent_head;
    tagged->urgent_head = tagged->urgent_tail = NULL;
}

static struct outgoing *dequeue(struct tagged *tagged)
{
    struct outgoing *first = tagged->out_head;
    tagged->out_head = first->next;
    if (tagged->out_head == NULL)
        tagged->out_tail = NULL;
    tagged->out_written = 0;
    first->queued = false;
    return first;
}

void bi_send_call(struct tagged *tagged, struct request *request)
{
    assert(!request->sent);
    bi_client_request_write_head(request);
    enqueue(tagged, &request->call);
}

void bi_send_ping(struct tagged *tagged, struct request *request)
{
    assert(!request->sent);
    bi_client_request_write_head(request);
    enqueue_urgent(tagged, &request->call);
}

/* Does the call count among those in flight? */
static bool is_counted(const struct request *request)
{
    return !request->waits && !request->internal;
}

void bi_send_cancel(struct tagged *tagged, struct request *request)
{
    if (!tagged->connected || request->cancel.data != NULL)
        return;
    int size = snprintf(request->cancel_line, sizeof(request->cancel_line), "call-cancel %u\r\n",
                        request->tag);
    request->cancel.data = (const unsigned char *)request->cancel_line;
    request->cancel.size = (size_t)size;
    if (request->sent)
        enqueue_urgent(tagged, &request->cancel);
    else
        enqueue(tagged, &request->cancel);
}

/* The first of the list has left. */
static void leave(struct tagged *tagged)
{
    struct outgoing *first = dequeue(tagged);
    struct request *request = first->request;
    if (first == &request->call) {
        request->sent = true;
        tagged->in_flight += is_counted(request);
    } else if (request->gone) {
        bi_client_request_free(request);
    }
}

void bi_send_forget(struct tagged *tagged, struct request *request)
{
    if (!request->sent)
        return;
    request->sent = false;
    assert(!is_counted(request) || tagged->in_flight > 0);
    tagged->in_flight -= is_counted(request);
}

/* May it be written, behind so many others that count? */
static bool may_leave(const struct tagged *tagged, const struct outgoing *outgoing, size_t ahead)
{
    const struct request *request = outgoing->request;
    bool begun = outgoing == tagged->out_head && tagged->out_written > 0;
    return begun || outgoing != &request->call || !is_counted(request) ||
           tagged->in_flight + ahead < BI_CALLS_MAX;
}

static void advance(struct tagged *tagged, size_t written)
{
    while (written > 0) {
        size_t left = tagged->out_head->size - tagged->out_written;
        if (written < left) {
            tagged->out_written += written;
            return;
        }
        written -= left;
        leave(tagged);
    }
}

/* One write. The list grows meanwhile, but what is in it stays: nobody ends a request that is
 * queued while somebody sends. */
static ssize_t write_some(struct tagged *tagged)
{
    struct iovec pieces[PIECES];
    size_t count = 0;
    size_t skip = tagged->out_written;
    for (struct outgoing *each = tagged->out_head;
         each != NULL && count < PIECES && may_leave(tagged, each, count);
         each = each->next, skip = 0) {
        /* sendmsg() does not write to what it sends; its type does not say so. */
        union {
            const unsigned char *from;
            void *base;
        } data = {.from = each->data + skip};
        pieces[count++] = (struct iovec){.iov_base = data.base, .iov_len = each->size - skip};
    }
    struct msghdr message = {.msg_iov = pieces, .msg_iovlen = count};
    int fd = tagged->fd;
    pthread_mutex_unlock(&tagged->lock);
    ssize_t written = sendmsg(fd, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    int number = errno;
    pthread_mutex_lock(&tagged->lock);
    errno = number;
    return written;
}

void bi_send_flush(struct tagged *tagged)
{
    if (!tagged->connected || tagged->sending || tagged->blocked || tagged->broken)
        return;
    tagged->sending = true;
    for (int round = 0;; round++) {
        let_in_urgent(tagged);
        /* Calls that are kept back leave when answers have come. */
        if (tagged->out_head == NULL || !may_leave(tagged, tagged->out_head, 0))
            break;
        ssize_t written = round < ROUNDS ? write_some(tagged) : 0;
        if (written > 0) {
            advance(tagged, (size_t)written);
            continue;
        }
        if (written < 0 && errno == EINTR)
            continue;
        tagged->blocked = true;
        tagged->broken = written < 0 && errno != EAGAIN;
        bi_send_ring(tagged);
        break;
    }
    tagged->sending = false;
    pthread_cond_broadcast(&tagged->quiet);
}

void bi_send_quiet(struct tagged *tagged)
{
    while (tagged->sending)
        pthread_cond_wait(&tagged->quiet, &tagged->lock);
}

void bi_send_clear(struct tagged *tagged)
{
    let_in_urgent(tagged);
    while (tagged->out_head != NULL) {
        struct outgoing *first = dequeue(tagged);
        if (first == &first->request->cancel && first->request->gone)
            bi_client_request_free(first->request);
    }
}

void bi_send_ring(const struct tagged *tagged)
{
    uint64_t one = 1;
    /* It fails only when it has been rung 2^64 times without being heard. */
    ssize_t written = write(tagged->wake_fd, &one, sizeof(one));
    (void)written;
}
