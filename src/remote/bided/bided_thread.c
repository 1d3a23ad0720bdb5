/* SPDX-License-Identifier: MIT */
/*
 * bided_thread - the I/O thread: reads replies, reconnects, and expires requests.
 *
 * The loop does one thing per turn and then evaluates its conditions again, because each of them
 * releases the lock: afterwards the connection, the list and the deadlines may have changed.
 */
#include "remote/bided/bided_client.h"

#include "remote/beanstalk_handshake.h"
#include "util/clock.h"
#include "util/log.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* Completes ops with the lock released: completion may call back into this backend. */
static void complete_ops(struct bided *bided, struct op_fifo *completed)
{
    if (completed->head == NULL)
        return;
    struct op_fifo list = bi_op_fifo_take(completed);
    pthread_mutex_unlock(&bided->lock);
    bided->context.complete(list.head);
    pthread_mutex_lock(&bided->lock);
}

/* Logs with the lock released: the log callback belongs to the application. */
static void log_unlocked(struct bided *bided, bide_log_level level, const char *text)
{
    pthread_mutex_unlock(&bided->lock);
    bi_log(&bided->context.log, level, "beanstalk: %s", text);
    pthread_mutex_lock(&bided->lock);
}

static void disconnect(struct bided *bided, const char *reason)
{
    struct op_fifo completed = {NULL, NULL};
    bi_bided_reconnect_disconnect(bided, reason, &completed);
    complete_ops(bided, &completed);
    if (!bided->closing)
        log_unlocked(bided, BIDE_LOG_WARN, reason);
}

/* Reads replies that arrived before a write failed. Their ops have been executed, and must not be
 * reported as BIDE_EUNKNOWN. */
static void read_pending(struct bided *bided)
{
    struct pollfd polled = {.fd = bided->fd, .events = POLLIN};
    char reason[BIDE_ERROR_SIZE];
    pthread_mutex_unlock(&bided->lock);
    while (poll(&polled, 1, 0) > 0 && bi_bided_receive(bided, reason))
        ;
    pthread_mutex_lock(&bided->lock);
}

/* ---- reconnect ---- */

/* Streams and topic references need a connection even when no request is pending: the server must
 * know them. */
static bool needs_connection(const struct bided *bided)
{
    return bided->first != NULL || bided->streams != NULL || bided->topic_refs != NULL;
}

/* Returns false if the server is unresponsive. */
static bool expire(struct bided *bided, int64_t now)
{
    struct op_fifo completed = {NULL, NULL};
    bool responsive = bi_bided_reconnect_expire(bided, now, &completed);
    complete_ops(bided, &completed);
    return responsive;
}

/* Called while connecting, without the lock: requests expire on time although this thread is busy.
 * Returns when to call it next. */
static int64_t expire_while_connecting(void *owner)
{
    struct bided *bided = owner;

    pthread_mutex_lock(&bided->lock);
    int64_t now = bi_clock_boot();
    if (bided->expire_at <= now)
        expire(bided, now);
    int64_t next = bided->expire_at;
    pthread_mutex_unlock(&bided->lock);
    return next;
}

static void reconnect(struct bided *bided, int64_t now)
{
    struct io_wait io_wait = {.deadline = now + bided->address.connect_timeout,
                              .stop_fd = bided->stop_fd,
                              .wake_fd = bided->wake_fd,
                              .expire_at = bided->expire_at,
                              .expire = expire_while_connecting,
                              .owner = bided};

    pthread_mutex_unlock(&bided->lock);

    char error[BIDE_ERROR_SIZE] = "";
    enum server_kind server_kind = SERVER_BIDED;
    int fd = -1;
    int code = bi_beanstalk_handshake_connect(&bided->address, &io_wait, &fd, &server_kind, error);

    /* Pending requests are encoded for bided and cannot be sent to a beanstalkd. */
    if (code == BIDE_OK && server_kind != SERVER_BIDED) {
        close(fd);
        snprintf(error, sizeof(error), "the server at %.100s was a bided, and is not any more",
                 bided->address.name);
        code = BIDE_EIO;
    }

    pthread_mutex_lock(&bided->lock);
    if (code == BIDE_OK) {
        bi_bided_reconnect_resume(bided, fd);
        log_unlocked(bided, BIDE_LOG_INFO, "connected again");
        return;
    }

    struct op_fifo completed = {NULL, NULL};
    bi_bided_reconnect_schedule(bided, error);

    if (code == BIDE_EINVAL)
        bi_bided_reconnect_reject_waiting(bided, error, &completed);
    complete_ops(bided, &completed);
    /* One warning per outage: the attempts of a long outage would flood the log. */
    if (!bided->closing)
        log_unlocked(bided, bided->attempts == 2 ? BIDE_LOG_WARN : BIDE_LOG_DEBUG, error);
}

/* ---- one turn ---- */

static int64_t next_wakeup(const struct bided *bided)
{
    int64_t wakeup = bided->expire_at;

    if (bided->connected && bided->keepalive_at < wakeup)
        wakeup = bided->keepalive_at;
    if (!bided->connected && needs_connection(bided) && bided->reconnect_at < wakeup)
        wakeup = bided->reconnect_at;
    if (bided->closing && bided->close_deadline < wakeup)
        wakeup = bided->close_deadline;
    return wakeup;
}

static int ms_until(int64_t wakeup)
{
    if (wakeup == NEVER)
        return -1;
    /* Round up: a poll that ends early would spin until the deadline. */
    int64_t left = (wakeup - bi_clock_boot() + 999) / 1000;
    return left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void poll_and_read(struct bided *bided)
{
    /* Without `blocked` the socket is nearly always writable, and POLLOUT would end each poll at
     * once. */
    short events = (short)(POLLIN | (bided->blocked ? POLLOUT : 0));
    struct pollfd polled[2] = {{.fd = bided->wake_fd, .events = POLLIN},
                               {.fd = bided->connected ? bided->fd : -1, .events = events}};
    int timeout_ms = ms_until(next_wakeup(bided));
    char reason[BIDE_ERROR_SIZE];

    pthread_mutex_unlock(&bided->lock);
    int ready = poll(polled, 2, timeout_ms);

    bool lost = false;
    if (ready > 0 && (polled[0].revents & POLLIN) != 0) {
        uint64_t count;
        ssize_t size = read(bided->wake_fd, &count, sizeof(count));
        (void)size; /* it fails only if the counter is 0, and only this thread reads it */
    }

    bool readable = ready > 0 && (polled[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    if (readable)
        lost = !bi_bided_receive(bided, reason);

    pthread_mutex_lock(&bided->lock);
    bided->activity += readable;
    if (lost) {
        disconnect(bided, reason);
    } else if (ready > 0 && (polled[1].revents & POLLOUT) != 0) {
        bided->activity++; /* the server reads, so it is alive */
        bided->blocked = false;
        bi_bided_send_flush(bided);
    }
}

/* Returns true when the queue is closing and no request is left. Requests whose replies do not
 * arrive until close_deadline are aborted; without a connection, all are. */
static bool finish_close(struct bided *bided, int64_t now)
{
    struct op_fifo completed = {NULL, NULL};

    if (bided->first == NULL)
        return true;
    if (bided->connected && now < bided->close_deadline)
        return false;
    if (bided->connected)
        bi_bided_reconnect_disconnect(bided, "closed", &completed);
    bi_bided_reconnect_abort_all(bided, &completed);
    complete_ops(bided, &completed);
    return true;
}

void *bi_bided_thread_run(void *argument)
{
    struct bided *bided = argument;
    char reason[BIDE_ERROR_SIZE];

    snprintf(reason, sizeof(reason), "the connection to %.100s was lost", bided->address.name);
    pthread_mutex_lock(&bided->lock);
    for (;;) {
        int64_t now = bi_clock_boot();
        if (bided->closing && finish_close(bided, now))
            break;
        /* A failed write is handled first: it is the reason of the disconnect. Expiry and
         * keepalive precede a reconnect, which may take connect_timeout. */
        if (bided->connected && bided->broken) {
            read_pending(bided);
            disconnect(bided, reason);
        } else if (bided->expire_at <= now && !expire(bided, now) && bided->connected) {
            disconnect(bided, "the server does not answer any more");
        } else if (!bi_bided_keepalive_check(bided, now)) {
            disconnect(bided, "the server does not answer, not even a ping");
        } else if (!bided->connected && needs_connection(bided) && bided->reconnect_at <= now) {
            reconnect(bided, now);
        } else {
            poll_and_read(bided);
        }
    }
    pthread_mutex_unlock(&bided->lock);
    return NULL;
}
