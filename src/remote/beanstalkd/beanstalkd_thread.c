/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_thread - the I/O thread: connections, exchanges, timeouts.
 *
 * An exchange is an op and the commands that carry it out. The thread starts new exchanges, passes
 * replies to their handlers and completes the ops. An exchange is idle (not started), running
 * (replies are outstanding) or blocked (its reserve waits at the server). Only idle and blocked
 * ones time out: a running one ends with its replies, or with a connection that is silent for
 * answer_timeout.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/bulk.h"
#include "op/op_args.h"
#include "op/op_payload.h"
#include "remote/beanstalk_handshake.h"
#include "remote/op_traits.h"
#include "remote/remote_socket.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SPARE_MAX bounds the connections for blocked reserves; SPARE_KEEP idle ones are retained for
 * reuse. */
#define SPARE_MAX  1000
#define SPARE_KEEP 8

/* ---- bulk ops ---- */

static size_t item_count(const struct exchange *exchange)
{
    return exchange->handler->item == NULL ? 0 : bi_op_args_item_count(exchange->op);
}

bool bi_plain_item_asks(const struct exchange *exchange, int status)
{
    return status == (exchange->again ? BIDE_PENDING : BIDE_OK);
}

bool bi_plain_items_pending(struct exchange *exchange)
{
    for (size_t i = 0; i < item_count(exchange); i++)
        if (*exchange->handler->item(exchange, i) == BIDE_PENDING)
            return true;
    return false;
}

/* Marks an item whose command was sent and has no reply. The op stays pending for its other
 * items. */
static void lose_item(struct beanstalkd *beanstalkd, struct exchange *exchange, size_t index)
{
    struct bulk_errors items;

    bi_bulk_begin(&items, exchange->op);
    bi_op_traits_fail_unknown(exchange->op, &beanstalkd->address);
    *exchange->handler->item(exchange, index) = BIDE_EUNKNOWN;
    bi_bulk_record(&items, exchange->op, index, BIDE_EUNKNOWN);
    bi_bulk_end(&items, exchange->op);
    exchange->told = true;
}

/* ---- exchanges ---- */

void bi_beanstalkd_thread_complete(struct beanstalkd *beanstalkd, struct exchange *exchange,
                                   int code)
{
    bide_op *op = exchange->op;

    assert(exchange->outstanding == 0 && !exchange->ended);

    /* Free the jobs that the exchange still owns; delivered ones are not counted any more. */
    for (size_t i = 0; i < exchange->job_count; i++)
        bide_job_clear(&exchange->jobs[i]);
    exchange->job_count = 0;
    exchange->ended = true;

    /* A bulk op may succeed and still describe its first failed item. */
    op->private_.status = code;
    if (code == BIDE_OK && op->error_item == 0)
        op->error[0] = 0;
    else if (code != BIDE_OK && op->error[0] == 0)
        bi_text_copy(op->error, bide_code_text(code));

    bide_finish_item *finish = bi_op_finish_part(op);
    if (finish != NULL && exchange->settled)
        finish->status = exchange->finish_code;

    bi_op_payload_free(op);

    pthread_mutex_lock(&beanstalkd->lock);
    *(exchange->prev != NULL ? &exchange->prev->next : &beanstalkd->first) = exchange->next;
    *(exchange->next != NULL ? &exchange->next->prev : &beanstalkd->last) = exchange->prev;
    beanstalkd->waiting -= exchange->waits;
    beanstalkd->pending_ops -= !exchange->waits;
    beanstalkd->pending_bytes -= exchange->bytes;
    op->private_.waiter = NULL;
    bi_plain_let_in(beanstalkd);
    pthread_mutex_unlock(&beanstalkd->lock);

    /* The exchange is freed by complete_ops(): the functions that led here still read it. */
    bi_op_args_dup_restore(op);
    bi_op_fifo_push(&beanstalkd->completed, op);
    exchange->next = beanstalkd->completed_exchanges;
    beanstalkd->completed_exchanges = exchange;
}

static void end_good(struct beanstalkd *beanstalkd, struct exchange *exchange, int code)
{
    if (exchange->handler->end == NULL) {
        bi_beanstalkd_thread_complete(beanstalkd, exchange, code);
        return;
    }

    exchange->handler->end(beanstalkd, exchange);
    /* Out of memory for the next command: its connection is broken, and no reply will come. */
    if (!exchange->ended && exchange->started && exchange->outstanding == 0)
        bi_plain_restart(beanstalkd, exchange);
}

/* Completes an exchange that failed. A bulk op with at least one replied item succeeds, and only
 * the other items fail. reason: why the server was not reached; NULL: the code's own text. */
static void fail(struct beanstalkd *beanstalkd, struct exchange *exchange, int code,
                 const char *reason)
{
    struct bulk_errors items;

    bi_bulk_begin(&items, exchange->op);

    if (reason != NULL)
        bi_op_traits_fail_unreachable(exchange->op, reason);
    else
        bi_op_traits_fail(exchange->op, code, NULL);

    for (size_t i = 0; i < item_count(exchange); i++) {
        int *status = exchange->handler->item(exchange, i);
        if (*status != BIDE_PENDING)
            continue;
        *status = code;
        bi_bulk_record(&items, exchange->op, i, code);
    }

    if (!exchange->told) {
        bi_beanstalkd_thread_complete(beanstalkd, exchange, code);
        return;
    }
    bi_bulk_end(&items, exchange->op);
    end_good(beanstalkd, exchange, BIDE_OK);
}

void bi_plain_restart(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    exchange->lost = exchange->lost_sent = exchange->started = false;
    exchange->conn = NULL;

    for (size_t i = 0; i < exchange->job_count; i++)
        bide_job_clear(&exchange->jobs[i]);
    exchange->job_count = 0;

    /* Back to the op's own deadline. An op that does not wait gets a new connect_timeout. */
    exchange->deadline -= exchange->grace;
    exchange->grace = 0;
    if (!exchange->waits)
        exchange->deadline = bi_clock_boot() + beanstalkd->address.connect_timeout;
}

/* No reply is outstanding: completes or restarts the exchange. */
static void advance(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    if (exchange->abort_code != BIDE_OK) {
        bi_op_traits_set_code(exchange->op, exchange->abort_code);
        bi_beanstalkd_thread_complete(beanstalkd, exchange, exchange->abort_code);
    } else if (exchange->lost && (!exchange->lost_sent || bi_op_is(exchange->op, OP_REPEATABLE))) {
        bi_plain_restart(beanstalkd, exchange);
    } else if (exchange->lost) {
        bi_op_traits_fail_unknown(exchange->op, &beanstalkd->address);
        bi_beanstalkd_thread_complete(beanstalkd, exchange, BIDE_EUNKNOWN);
    } else if (bi_plain_items_pending(exchange)) {
        bi_plain_restart(beanstalkd, exchange);
    } else {
        end_good(beanstalkd, exchange, exchange->code);
    }
}

void bi_beanstalkd_thread_handle_reply(struct beanstalkd *beanstalkd,
                                       const struct expected *expected, const struct reply *reply,
                                       bool sent)
{
    struct exchange *exchange = expected->exchange;

    if (exchange == NULL)
        return; /* of use, watch, ignore or a probe */

    assert(exchange->outstanding > 0);
    exchange->outstanding--;
    if (reply != NULL) {
        beanstalkd->attempts = 0; /* only a reply resets the backoff */
        exchange->told = exchange->handler->item != NULL;
        exchange->handler->reply(beanstalkd, exchange, expected->index, reply);
    } else if (exchange->handler->item != NULL) {
        /* An item that was not sent stays BIDE_PENDING and is sent on the next connection. */
        if (sent)
            lose_item(beanstalkd, exchange, expected->index);
    } else {
        /* After `settled` what is outstanding is repeatable: its loss makes nothing unknown. */
        exchange->lost = true;
        exchange->lost_sent |= sent && !exchange->settled;
    }

    if (exchange->outstanding == 0)
        advance(beanstalkd, exchange);
}

static void begin(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    exchange->started = true;
    exchange->stage = 0;
    exchange->code = BIDE_OK;

    exchange->handler->begin(beanstalkd, exchange);
    exchange->again = true;
    /* No command was queued and the op is not complete: out of memory. The connection is
     * broken then, and the exchange starts again on the next one. */
    if (!exchange->ended && exchange->outstanding == 0)
        exchange->started = false;
}

/* ---- connections ---- */

void bi_beanstalkd_thread_close_conn(struct beanstalkd *beanstalkd, struct conn *conn)
{
    /* Unlink first: handlers called below must not find the connection and send on it. */
    if (conn == beanstalkd->main) {
        beanstalkd->main = NULL;
        beanstalkd->max_job_size = 0; /* the next server may have another limit */
    } else {
        struct conn **from = &beanstalkd->spare;
        while (*from != conn)
            from = &(*from)->next;
        *from = conn->next;
        beanstalkd->spare_count--;
    }

    /* beanstalkd releases the jobs of a closed connection, so their leases end here, too. */
    bi_beanstalkd_lease_free_conn(beanstalkd, conn);
    bi_beanstalkd_conn_fail_expected(beanstalkd, conn);
    bi_beanstalkd_conn_free(conn);
}

struct conn *bi_beanstalkd_thread_acquire_conn(struct beanstalkd *beanstalkd)
{
    /* A connection with leases is not reused: a blocked reserve would delay their delete or
     * touch. */
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (!each->broken && !each->blocked && !each->strays && each->leases == 0 &&
            each->expected_head == each->expected_size)
            return each;

    if (beanstalkd->spare_count >= SPARE_MAX)
        return NULL;

    /* Blocks this thread, for connect_timeout at most. No handshake: the server's kind is known. */
    struct io_wait io_wait = {.deadline = bi_clock_boot() + beanstalkd->address.connect_timeout,
                              .stop_fd = beanstalkd->stop_fd};
    /* To the peer of the main connection: a second lookup might find another server. */
    int fd = beanstalkd->main != NULL
                 ? bi_remote_socket_connect_peer(beanstalkd->main->fd, beanstalkd->address.trusted,
                                                 &io_wait, beanstalkd->reason)
                 : bi_remote_socket_connect(&beanstalkd->address, &io_wait, beanstalkd->reason);

    struct conn *conn = fd < 0 ? NULL : bi_beanstalkd_conn_new(fd);
    if (conn == NULL) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }

    conn->next = beanstalkd->spare;
    beanstalkd->spare = conn;
    beanstalkd->spare_count++;
    return conn;
}

/* Schedules the next attempt to connect, with backoff. */
static void retry_later(struct beanstalkd *beanstalkd)
{
    beanstalkd->attempts++;
    beanstalkd->reconnect_at =
        bi_clock_boot() +
        bi_client_address_pause(&beanstalkd->address, beanstalkd->attempts, &beanstalkd->random);
}

/* Reads replies that arrived before a write failed. Their commands have been executed, and must
 * not be reported as BIDE_EUNKNOWN. */
static void read_pending(struct beanstalkd *beanstalkd, struct conn *conn)
{
    struct pollfd polled = {.fd = conn->fd, .events = POLLIN};
    while (!conn->eof && poll(&polled, 1, 0) > 0)
        bi_beanstalkd_conn_read(beanstalkd, conn);
}

/* Closes broken connections, and idle ones above SPARE_KEEP. */
static void close_unused(struct beanstalkd *beanstalkd)
{
    size_t idle = 0;

    if (beanstalkd->main != NULL && beanstalkd->main->broken) {
        snprintf(beanstalkd->reason, sizeof(beanstalkd->reason),
                 beanstalkd->main->silent ? "the server at %.100s does not answer any more"
                                          : "the connection to %.100s was lost",
                 beanstalkd->address.name);
        beanstalkd->disconnected_at = bi_clock_boot();
        read_pending(beanstalkd, beanstalkd->main);
        retry_later(beanstalkd);
        bi_beanstalkd_thread_close_conn(beanstalkd, beanstalkd->main);
        bi_log(&beanstalkd->context.log, BIDE_LOG_WARN, "beanstalk: %s", beanstalkd->reason);
    }

    for (struct conn *each = beanstalkd->spare, *next; each != NULL; each = next) {
        next = each->next;
        bool busy = each->blocked || each->leases > 0 || each->expected_head < each->expected_size;
        if (each->broken)
            read_pending(beanstalkd, each);
        /* A stray job is released by closing, but only after the last lease of the connection. */
        if (each->broken || (!busy && (each->strays || ++idle > SPARE_KEEP))) {
            bi_beanstalkd_thread_close_conn(beanstalkd, each);
            next = beanstalkd->spare; /* the handlers of lost replies may have changed the list */
            idle = 0;
        }
    }
}

/*
 * ---- silence ----
 *
 * beanstalkd replies to the commands of a connection in order, and at once except for a reserve
 * that waits. If a reply is due for answer_timeout, and the server has neither sent nor read
 * anything, the connection counts as lost. A blocked reserve proves nothing. While only such are
 * outstanding, the client sends a harmless command on the main connection.
 */

static bool is_reply_due(const struct conn *conn)
{
    return !conn->broken && !conn->blocked && conn->expected_head < conn->expected_size;
}

static bool has_blocked(const struct beanstalkd *beanstalkd)
{
    for (const struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (each->blocked && !each->broken)
            return true;
    return false;
}

/* Returns when the next connection counts as lost, or when the server must be probed. */
static int64_t silence_ends(const struct beanstalkd *beanstalkd)
{
    int64_t first = BEANSTALKD_NEVER;

    for (const struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (is_reply_due(each) && each->active < first)
            first = each->active;
    if (beanstalkd->main != NULL && beanstalkd->main->active < first &&
        (is_reply_due(beanstalkd->main) || has_blocked(beanstalkd)))
        first = beanstalkd->main->active;
    return first == BEANSTALKD_NEVER ? first : first + beanstalkd->address.answer_timeout;
}

/* Input that this thread had no time to read proves that the server is alive. */
static bool has_no_input(const struct conn *conn, int64_t before)
{
    struct pollfd polled = {.fd = conn->fd, .events = POLLIN};
    return is_reply_due(conn) && conn->active <= before && poll(&polled, 1, 0) == 0;
}

static void check_silence(struct beanstalkd *beanstalkd, int64_t now)
{
    int64_t before = now - beanstalkd->address.answer_timeout;
    struct conn *conn = beanstalkd->main;
    bool silent = conn != NULL && has_no_input(conn, before);

    if (silent)
        conn->broken = conn->silent = true;
    else if (conn != NULL && !conn->broken && !is_reply_due(conn) && conn->active <= before &&
             has_blocked(beanstalkd))
        /* The probe. Its reply, or its absence, is judged by the next check. */
        bi_beanstalkd_conn_command(conn, NULL, 0, "list-tube-used");

    /* All connections are to one server. If the main one is silent, blocked reserves are lost,
     * too. */
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if ((silent && each->blocked) || has_no_input(each, before))
            each->broken = true;
}

/* ---- timeouts and cancel ---- */

static void abort_exchange(struct beanstalkd *beanstalkd, struct exchange *exchange, int code)
{
    if (exchange->outstanding == 0) {
        fail(beanstalkd, exchange, code, NULL);
        return;
    }
    /* A blocked reserve has no cancel command. Closing its connection ends it. If a job arrives
     * at the same time, beanstalkd releases it again. */
    exchange->abort_code = code;
    bi_beanstalkd_thread_close_conn(beanstalkd, exchange->conn);
}

/* True if its reserve waits at the server. */
static bool is_blocked(const struct exchange *exchange)
{
    return exchange->conn != NULL && exchange->conn->blocked && exchange->outstanding > 0;
}

static void check_timeout(struct beanstalkd *beanstalkd, struct exchange *exchange, int64_t now)
{
    bool idle = !exchange->started && exchange->outstanding == 0;
    bool closed = exchange->waits && atomic_load(&beanstalkd->shut);

    if (!idle && !is_blocked(exchange))
        return;

    if (atomic_load(&exchange->cancelled))
        abort_exchange(beanstalkd, exchange, BIDE_CANCELLED);
    else if (closed || (idle && beanstalkd->closing && beanstalkd->main == NULL))
        abort_exchange(beanstalkd, exchange, BIDE_CLOSED);
    else if (exchange->deadline > now)
        return;
    else if (exchange->waits && beanstalkd->main == NULL && exchange->outstanding == 0) {
        bi_op_traits_fail_timed_out(exchange->op, &beanstalkd->address,
                                    (now - beanstalkd->disconnected_at) / 1000000);
        bi_beanstalkd_thread_complete(beanstalkd, exchange, BIDE_TIMED_OUT);
    } else if (exchange->waits)
        abort_exchange(beanstalkd, exchange, BIDE_TIMED_OUT);
    else if (beanstalkd->main == NULL) {
        fail(beanstalkd, exchange, BIDE_EIO, beanstalkd->reason);
    }
}

/* Visits the exchanges that are listed now; callers append meanwhile. Only this thread removes
 * exchanges, and a visit completes no exchange but its own, so `next` stays valid. */
static void for_each_exchange(struct beanstalkd *beanstalkd,
                              void (*visit)(struct beanstalkd *beanstalkd,
                                            struct exchange *exchange, int64_t now))
{
    int64_t now = bi_clock_boot();

    pthread_mutex_lock(&beanstalkd->lock);
    struct exchange *exchange = beanstalkd->first;
    struct exchange *last = beanstalkd->last;
    pthread_mutex_unlock(&beanstalkd->lock);

    while (exchange != NULL) {
        pthread_mutex_lock(&beanstalkd->lock);
        struct exchange *next = exchange == last ? NULL : exchange->next;
        pthread_mutex_unlock(&beanstalkd->lock);
        visit(beanstalkd, exchange, now);
        exchange = next;
    }
}

static void start_new(struct beanstalkd *beanstalkd, struct exchange *exchange, int64_t now)
{
    (void)now;
    if (!exchange->started && !exchange->ended && beanstalkd->main != NULL)
        begin(beanstalkd, exchange);
}

/* ---- one turn ---- */

static void write_all(struct beanstalkd *beanstalkd)
{
    if (beanstalkd->main != NULL)
        bi_beanstalkd_conn_write(beanstalkd->main);
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        bi_beanstalkd_conn_write(each);
}

static void complete_ops(struct beanstalkd *beanstalkd)
{
    struct op_fifo completed = bi_op_fifo_take(&beanstalkd->completed);

    while (beanstalkd->completed_exchanges != NULL) {
        struct exchange *next = beanstalkd->completed_exchanges->next;
        free(beanstalkd->completed_exchanges->jobs);
        free(beanstalkd->completed_exchanges);
        beanstalkd->completed_exchanges = next;
    }

    if (completed.head != NULL)
        beanstalkd->context.complete(completed.head);
}

static int64_t next_wakeup(struct beanstalkd *beanstalkd)
{
    int64_t wakeup = silence_ends(beanstalkd);
    bool needs_conn = false;

    if (beanstalkd->closing && beanstalkd->close_deadline < wakeup)
        wakeup = beanstalkd->close_deadline;

    for (const struct exchange *each = beanstalkd->first; each != NULL; each = each->next) {
        bool idle = !each->started && each->outstanding == 0;
        needs_conn |= idle;
        if ((idle || is_blocked(each)) && each->deadline < wakeup)
            wakeup = each->deadline;
    }

    /* An idle exchange can start at once: no sleep. */
    if (needs_conn && beanstalkd->main != NULL)
        return 0;
    if (needs_conn && beanstalkd->reconnect_at < wakeup)
        wakeup = beanstalkd->reconnect_at;
    return wakeup;
}

/* ---- reconnect ---- */

/* Called while connecting: exchanges expire on time although this thread is busy. Returns when to
 * call it next. */
static int64_t expire_while_connecting(void *owner)
{
    struct beanstalkd *beanstalkd = owner;

    for_each_exchange(beanstalkd, check_timeout);
    complete_ops(beanstalkd);

    pthread_mutex_lock(&beanstalkd->lock);
    int64_t next = beanstalkd->closing ? beanstalkd->close_deadline : BEANSTALKD_NEVER;
    for (const struct exchange *each = beanstalkd->first; each != NULL; each = each->next) {
        bool idle = !each->started && each->outstanding == 0;
        if ((idle || is_blocked(each)) && each->deadline < next)
            next = each->deadline;
    }
    pthread_mutex_unlock(&beanstalkd->lock);
    return next;
}

/* The server rejects this client, which waiting does not cure: fails the exchanges that wait. */
static void refuse_waiting(struct beanstalkd *beanstalkd, struct exchange *exchange, int64_t now)
{
    (void)now;
    if (!exchange->waits || exchange->started || exchange->ended)
        return;
    bi_op_traits_fail_rejected(exchange->op, beanstalkd->reason);
    bi_beanstalkd_thread_complete(beanstalkd, exchange, BIDE_EINVAL);
}

static void reconnect(struct beanstalkd *beanstalkd, int64_t now)
{
    char error[BIDE_ERROR_SIZE] = "";
    enum server_kind server_kind = SERVER_BEANSTALKD;
    int fd = -1;
    struct io_wait io_wait = {.deadline = now + beanstalkd->address.connect_timeout,
                              .stop_fd = beanstalkd->stop_fd,
                              .wake_fd = beanstalkd->wake_fd,
                              .expire_at = expire_while_connecting(beanstalkd),
                              .expire = expire_while_connecting,
                              .owner = beanstalkd};

    int code =
        bi_beanstalk_handshake_connect(&beanstalkd->address, &io_wait, &fd, &server_kind, error);

    if (code == BIDE_OK && (beanstalkd->main = bi_beanstalkd_conn_new(fd)) != NULL) {
        bi_log(&beanstalkd->context.log, BIDE_LOG_INFO, "beanstalk: connected again");
        return;
    }
    if (code == BIDE_OK) {
        close(fd);
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
    }

    retry_later(beanstalkd);
    bi_text_copy(beanstalkd->reason, error);
    if (code == BIDE_EINVAL)
        for_each_exchange(beanstalkd, refuse_waiting);

    /* One warning per outage: the attempts of a long outage would flood the log. */
    if (!beanstalkd->closing)
        bi_log(&beanstalkd->context.log, beanstalkd->attempts == 2 ? BIDE_LOG_WARN : BIDE_LOG_DEBUG,
               "beanstalk: %s", error);
}

/* ---- poll ---- */

static size_t poll_for(const struct conn *conn, struct pollfd *polled)
{
    *polled = (struct pollfd){.fd = conn->fd,
                              .events = (short)(POLLIN | (conn->want_write ? POLLOUT : 0))};
    return 1;
}

/* Waits for input, a wakeup or the next deadline, and reads. */
static void poll_and_read(struct beanstalkd *beanstalkd)
{
    static const size_t fixed_fds = 2;
    struct pollfd polled[SPARE_MAX + 2];
    size_t count = 1;

    polled[0] = (struct pollfd){.fd = beanstalkd->wake_fd, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = -1};
    if (beanstalkd->main != NULL)
        poll_for(beanstalkd->main, &polled[1]);
    count = fixed_fds;
    for (const struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        count += poll_for(each, &polled[count]);

    pthread_mutex_lock(&beanstalkd->lock);
    /* has_work, because the wakeup itself may be consumed: reconnect() reads wake_fd, too. */
    int64_t wakeup = beanstalkd->has_work ? 0 : next_wakeup(beanstalkd);
    beanstalkd->has_work = false;
    pthread_mutex_unlock(&beanstalkd->lock);

    /* Round up: a poll that ends early would spin until the deadline. */
    int64_t left = (wakeup - bi_clock_boot() + 999) / 1000;
    int limit = wakeup == BEANSTALKD_NEVER ? -1
                : left <= 0                ? 0
                : left > 3600000           ? 3600000
                                           : (int)left;
    if (poll(polled, count, limit) <= 0)
        return;

    uint64_t count_read;
    if ((polled[0].revents & POLLIN) != 0 &&
        read(beanstalkd->wake_fd, &count_read, sizeof(count_read)) < 0)
        return; /* not possible: only this thread reads it */

    if (beanstalkd->main != NULL && polled[1].revents != 0)
        bi_beanstalkd_conn_read(beanstalkd, beanstalkd->main);

    /* Handlers may open connections, which are linked at the head, but never close one here. So
     * the slots are in the order of the list, and no descriptor is reused. */
    size_t i = fixed_fds;
    for (struct conn *each = beanstalkd->spare; each != NULL && i < count; each = each->next) {
        if (polled[i].fd != each->fd)
            continue; /* opened after the poll */
        if (polled[i++].revents != 0)
            bi_beanstalkd_conn_read(beanstalkd, each);
    }
}

/* True when the queue is closing and nothing is pending, or close_deadline has passed. */
static bool is_done(struct beanstalkd *beanstalkd)
{
    pthread_mutex_lock(&beanstalkd->lock);
    bool done = beanstalkd->closing &&
                (beanstalkd->first == NULL || bi_clock_boot() >= beanstalkd->close_deadline);
    pthread_mutex_unlock(&beanstalkd->lock);
    return done;
}

static void close_exchange(struct beanstalkd *beanstalkd, struct exchange *exchange, int64_t now)
{
    (void)now;
    if (!exchange->ended)
        fail(beanstalkd, exchange, BIDE_CLOSED, NULL);
}

void *bi_beanstalkd_thread_run(void *argument)
{
    struct beanstalkd *beanstalkd = argument;

    while (!is_done(beanstalkd)) {
        int64_t now = bi_clock_boot();
        pthread_mutex_lock(&beanstalkd->lock);
        bool needs_conn = beanstalkd->first != NULL && !beanstalkd->closing;
        pthread_mutex_unlock(&beanstalkd->lock);

        if (beanstalkd->main == NULL && needs_conn && beanstalkd->reconnect_at <= now)
            reconnect(beanstalkd, now);

        /* Start before the timeouts are checked: an exchange that can be sent does not time out.
         * Close before completing: closing completes exchanges. */
        for_each_exchange(beanstalkd, start_new);
        for_each_exchange(beanstalkd, check_timeout);
        check_silence(beanstalkd, bi_clock_boot());
        write_all(beanstalkd);
        close_unused(beanstalkd);
        complete_ops(beanstalkd);
        poll_and_read(beanstalkd);
    }

    /* Past close_deadline a command that was sent and is not repeatable ends with BIDE_EUNKNOWN.
     * All else fails with BIDE_CLOSED. */
    if (beanstalkd->main != NULL)
        bi_beanstalkd_thread_close_conn(beanstalkd, beanstalkd->main);
    while (beanstalkd->spare != NULL)
        bi_beanstalkd_thread_close_conn(beanstalkd, beanstalkd->spare);
    for_each_exchange(beanstalkd, close_exchange);
    complete_ops(beanstalkd);
    return NULL;
}
