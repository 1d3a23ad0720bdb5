/* SPDX-License-Identifier: MIT */
/*
 * remote_thread - the I/O thread: polls, connects, reconnects and expires ops.
 *
 * The loop does one thing per turn and then evaluates its conditions again, because each of them
 * releases the lock: afterwards the connection, the list and the deadlines may have changed.
 */
#include "remote/remote.h"
#include "util/clock.h"
#include "util/message.h"

#include <assert.h>
#include <stdio.h>
#include <unistd.h>

/* Completes ops with the lock released: completion may call back into this backend. */
static void complete_ops(struct remote *remote)
{
    if (remote->completed.head == NULL)
        return;
    bi_remote_unlock(remote);
    pthread_mutex_lock(&remote->lock);
}

/* Logs with the lock released: the log callback belongs to the application. */
static void log_unlocked(struct remote *remote, bide_log_level level, const char *text)
{
    pthread_mutex_unlock(&remote->lock);
    bi_log(&remote->context.log, level, "%s: %s", remote->base.ops->scheme, text);
    pthread_mutex_lock(&remote->lock);
}

/* ---- disconnect and reconnect ---- */

/* Sets the time of the next attempt to connect, with backoff. */
static void schedule_reconnect(struct remote *remote, const char *reason)
{
    remote->attempts++;
    remote->reconnect_at =
        bi_clock_boot() +
        bi_remote_address_backoff(&remote->address, remote->attempts, &remote->random);
    bi_text_copy(remote->reason, reason);
}

void bi_remote_thread_lost(struct remote *remote, const char *reason)
{
    assert(remote->connected);
    remote->connected = remote->broken = remote->silent = false;
    /* Before ops are passed to bi_remote_op_lost(): those that fail report the reason. */
    schedule_reconnect(remote, reason);

    /* Queued ops that did not expire while there was a connection do so from now on. */
    remote->expire_at = remote->disconnected_at = bi_clock_boot();
}

static void disconnect(struct remote *remote, const char *reason)
{
    remote->client->disconnect(remote, reason);
    assert(!remote->connected);
    complete_ops(remote);
    if (!remote->closing)
        log_unlocked(remote, BIDE_LOG_WARN, reason);
}

static void disconnect_broken(struct remote *remote)
{
    char reason[BIDE_ERROR_SIZE];

    snprintf(reason, sizeof(reason),
             remote->silent ? "the server at %.100s does not answer any more"
                            : "the connection to %.100s was lost",
             remote->address.name);
    disconnect(remote, reason);
}

static int64_t tick(struct remote *remote, int64_t now)
{
    int64_t tick_at =
        remote->client->tick == NULL ? REMOTE_NEVER : remote->client->tick(remote, now);
    complete_ops(remote);
    return tick_at;
}

/* Returns false if the server is unresponsive. */
static bool expire(struct remote *remote, int64_t now)
{
    bool responsive = bi_remote_op_expire(remote, now);
    complete_ops(remote);
    return responsive;
}

/* Called while connecting, without the lock: ops expire on time although this thread is busy.
 * Returns when to call it next. */
static int64_t expire_while_connecting(void *owner)
{
    struct remote *remote = owner;

    pthread_mutex_lock(&remote->lock);
    int64_t now = bi_clock_boot();
    if (remote->expire_at <= now)
        expire(remote, now);
    int64_t tick_at = tick(remote, now);
    int64_t next = remote->expire_at < tick_at ? remote->expire_at : tick_at;
    pthread_mutex_unlock(&remote->lock);
    return next;
}

static void reconnect(struct remote *remote, int64_t now)
{
    char error[BIDE_ERROR_SIZE] = "";
    struct io_wait io_wait = {.deadline = now + remote->address.connect_timeout,
                              .stop_fd = remote->stop_fd,
                              .wake_fd = remote->wake_fd,
                              .expire_at = remote->expire_at,
                              .expire = expire_while_connecting,
                              .owner = remote};

    pthread_mutex_unlock(&remote->lock);
    int code = remote->client->connect(remote, &io_wait, error);
    pthread_mutex_lock(&remote->lock);

    if (code == BIDE_OK) {
        remote->connected = true;
        bi_remote_keepalive_reset(remote);
        if (remote->client->connected != NULL)
            remote->client->connected(remote);
        /* Also those that were started on the last connection, in the order of submission. */
        bi_remote_op_start_queued(remote);
        if (remote->client->flush != NULL)
            remote->client->flush(remote);
        log_unlocked(remote, BIDE_LOG_INFO, "connected again");
        return;
    }

    schedule_reconnect(remote, error);
    if (code == BIDE_EINVAL)
        bi_remote_op_reject_waiting(remote, error);
    complete_ops(remote);
    /* One warning per outage: the attempts of a long outage would flood the log. */
    if (!remote->closing)
        log_unlocked(remote, remote->attempts == 2 ? BIDE_LOG_WARN : BIDE_LOG_DEBUG, error);
}

static bool wants_connection(const struct remote *remote)
{
    if (remote->connected || remote->closing)
        return false;
    return remote->first != NULL ||
           (remote->client->wants_connection != NULL && remote->client->wants_connection(remote));
}

/* ---- one turn ---- */

static int64_t next_wakeup(const struct remote *remote, int64_t tick_at)
{
    int64_t wakeup = remote->expire_at < tick_at ? remote->expire_at : tick_at;

    if (remote->connected && remote->keepalive_at < wakeup)
        wakeup = remote->keepalive_at;
    if (wants_connection(remote) && remote->reconnect_at < wakeup)
        wakeup = remote->reconnect_at;
    if (remote->closing && remote->close_deadline < wakeup)
        wakeup = remote->close_deadline;
    return wakeup;
}

/* Waits for input, a wakeup or the next deadline, and reads. */
static void poll_and_read(struct remote *remote, int64_t tick_at)
{
    struct pollfd polled[REMOTE_POLL_MAX + 1];
    char reason[BIDE_ERROR_SIZE];
    bool lost = false;

    polled[0] = (struct pollfd){.fd = remote->wake_fd, .events = POLLIN};
    size_t count = remote->client->poll(remote, polled + 1);
    assert(count <= REMOTE_POLL_MAX);
    int timeout_ms = bi_remote_socket_ms_until(next_wakeup(remote, tick_at));

    pthread_mutex_unlock(&remote->lock);
    int ready = poll(polled, count + 1, timeout_ms);

    if (ready > 0 && polled[0].revents != 0) {
        uint64_t wakeups;
        ssize_t size = read(remote->wake_fd, &wakeups, sizeof(wakeups));
        (void)size; /* it fails only if the counter is 0, and only this thread reads it */
        ready--;
    }
    if (ready > 0)
        lost = !remote->client->ready(remote, polled + 1, count, reason);

    pthread_mutex_lock(&remote->lock);
    complete_ops(remote);
    if (lost && remote->connected)
        disconnect(remote, reason);
}

/* Returns true when no op is left. Ops whose replies do not arrive until close_deadline are
 * aborted; without a connection, all are that are not started. */
static bool finish_close(struct remote *remote, int64_t now)
{
    if (remote->first != NULL && now >= remote->close_deadline)
        remote->client->disconnect(remote, "closed");
    if (!remote->connected)
        bi_remote_op_close_queued(remote);
    complete_ops(remote);
    return remote->first == NULL;
}

void *bi_remote_thread_run(void *argument)
{
    struct remote *remote = argument;

    pthread_mutex_lock(&remote->lock);
    for (;;) {
        int64_t now = bi_clock_boot();
        if (remote->closing && finish_close(remote, now))
            break;
        /* Before expiry: an op that can be sent does not time out, however late this thread is. */
        if (remote->connected && remote->has_queued)
            bi_remote_op_start_queued(remote);
        /* A failed write is handled first: it is the reason of the disconnect. Expiry and
         * keepalive precede a reconnect, which may take connect_timeout. */
        if (remote->connected && remote->broken) {
            disconnect_broken(remote);
        } else if (remote->expire_at <= now && !expire(remote, now) && remote->connected) {
            disconnect(remote, "the server does not answer any more");
        } else if (!bi_remote_keepalive_is_alive(remote, now)) {
            disconnect(remote, "the server does not answer, not even a ping");
        } else if (wants_connection(remote) && remote->reconnect_at <= now) {
            reconnect(remote, now);
        } else {
            int64_t tick_at = tick(remote, now);
            /* The lock was released: do not sleep over what has changed meanwhile. A change that
             * is not checked here writes to wake_fd. */
            if (!remote->broken && !(remote->connected && remote->has_queued))
                poll_and_read(remote, tick_at);
        }
    }
    pthread_mutex_unlock(&remote->lock);
    return NULL;
}
