/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_client - the functions of the client, its connections, and the table of supported ops.
 *
 * The calling threads only queue exchanges; the I/O thread does the rest.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/op_args.h"
#include "remote/beanstalk_backend.h"
#include "util/clock.h"
#include "util/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* SPARE_MAX bounds the connections for blocked reserves; SPARE_KEEP idle ones are retained for
 * reuse. */
#define SPARE_MAX  (REMOTE_POLL_MAX - 1)
#define SPARE_KEEP 8

/* ---- supported ops ---- */

/* NULL: beanstalkd does not support it. */
static const struct op_handler *find_handler(bide_op_kind kind)
{
    static const struct op_handler *const kinds[BIDE_OP_COUNT] = {
        [BIDE_OP_PUT] = &bi_beanstalkd_put,
        [BIDE_OP_PUT_MANY] = &bi_beanstalkd_put_many,
        [BIDE_OP_RESERVE] = &bi_beanstalkd_reserve,
        [BIDE_OP_RESERVE_JOB] = &bi_beanstalkd_reserve_job,
        [BIDE_OP_DELETE] = &bi_beanstalkd_finish_delete,
        [BIDE_OP_DONE] = &bi_beanstalkd_finish_delete,
        [BIDE_OP_FINISH_MANY] = &bi_beanstalkd_finish_many,
        [BIDE_OP_TOUCH_MANY] = &bi_beanstalkd_finish_touch_many,
        [BIDE_OP_FINISH_AND_RESERVE] = &bi_beanstalkd_finish_and_reserve,
        [BIDE_OP_RELEASE] = &bi_beanstalkd_finish_release,
        [BIDE_OP_GIVE_BACK] = &bi_beanstalkd_finish_release,
        [BIDE_OP_BURY] = &bi_beanstalkd_finish_bury,
        [BIDE_OP_KICK] = &bi_beanstalkd_topic_kick,
        [BIDE_OP_KICK_JOB] = &bi_beanstalkd_topic_kick_job,
        [BIDE_OP_TOUCH] = &bi_beanstalkd_finish_touch,
        [BIDE_OP_PEEK] = &bi_beanstalkd_query_peek,
        [BIDE_OP_PEEK_FIRST] = &bi_beanstalkd_query_peek_first,
        [BIDE_OP_JOB_STATS] = &bi_beanstalkd_query_peek,
        [BIDE_OP_BODY] = &bi_beanstalkd_query_body,
        [BIDE_OP_TOPICS] = &bi_beanstalkd_topic_page,
        [BIDE_OP_WAITING] = &bi_beanstalkd_topic_page,
        [BIDE_OP_PAUSE] = &bi_beanstalkd_topic_pause,
        [BIDE_OP_RESUME] = &bi_beanstalkd_topic_pause,
        [BIDE_OP_STATS] = &bi_beanstalkd_topic_server_stats,
        [BIDE_OP_TOPIC_STATS] = &bi_beanstalkd_topic_stats,
        [BIDE_OP_PING] = &bi_beanstalkd_query_ping,
        [BIDE_OP_RECOVERED] = &bi_beanstalkd_query_recovered,
    };
    return kinds[kind];
}

int bi_beanstalkd_client_reject_unsupported(bide_op *op, const char *what)
{
    return bi_remote_op_reject(op, BIDE_ENOTSUP,
                               "the server is a plain beanstalkd, which does not know %s", what);
}

/* ---- ops ---- */

static int check(bide_op *op)
{
    return find_handler(op->kind) != NULL
               ? BIDE_OK
               : bi_remote_op_reject(op, BIDE_ENOTSUP,
                                     "the server is a plain beanstalkd, which cannot do that");
}

static struct remote_op *new_op(struct remote *remote, bide_op *op, bool shut)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));

    if (exchange == NULL)
        return NULL;
    bi_remote_op_init(remote, &exchange->base, op, shut);
    exchange->base.bytes = op->private_.bytes;
    exchange->client = bi_beanstalkd_of(remote);
    exchange->handler = find_handler(op->kind);
    return &exchange->base;
}

/* The I/O thread reads the arguments after submit has returned. */
static int prepare(struct remote *remote, struct remote_op *op)
{
    (void)remote;
    if (bi_op_args_dup(op->op) != BIDE_OK)
        return bi_remote_op_reject(op->op, BIDE_ENOMEM, "out of memory");
    return BIDE_PENDING;
}

static void start(struct remote *remote, struct remote_op *op)
{
    (void)remote;
    bi_beanstalkd_exchange_begin(bi_exchange_of(op));
}

static bool cancel(struct remote *remote, struct remote_op *op)
{
    struct exchange *exchange = bi_exchange_of(op);

    if (!op->started)
        return false;

    /* A blocked reserve has no cancel command. Closing its connection ends it; tick() does. If a
     * job arrives at the same time, beanstalkd releases it again. Any other command is executed at
     * once: its reply completes the op. */
    if (exchange->conn != NULL && exchange->conn->blocked && exchange->outstanding > 0) {
        exchange->conn->abort = true;
        bi_remote_wake(remote);
    }
    return true;
}

static void fail(struct remote *remote, struct remote_op *op, int code, const char *text)
{
    bi_beanstalkd_exchange_fail(bi_exchange_of(op), code, text);
    /* On a calling thread: the I/O thread may sleep for long, and callers may cancel many. */
    if (!pthread_equal(pthread_self(), remote->thread))
        bi_beanstalkd_exchange_free_ended(bi_beanstalkd_of(remote));
}

static void release(struct remote *remote, struct remote_op *op)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);
    struct exchange *exchange = bi_exchange_of(op);

    if (!exchange->ended) { /* it was never listed */
        free(exchange);
        return;
    }
    /* The functions that led here still read it. */
    exchange->next_ended = beanstalkd->ended;
    beanstalkd->ended = exchange;
}

/* ---- connections ---- */

/* Its leases end, its expected replies fail. */
static void close_conn(struct beanstalkd *beanstalkd, struct conn *conn)
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
        assert(beanstalkd->spare_count > 0);
        beanstalkd->spare_count--;
    }

    /* beanstalkd releases the jobs of a closed connection, so their leases end here, too. */
    bi_beanstalkd_lease_free_conn(beanstalkd, conn);
    bi_beanstalkd_conn_fail_expected(conn);
    bi_beanstalkd_conn_free(conn);
}

struct conn *bi_beanstalkd_client_acquire_conn(struct beanstalkd *beanstalkd)
{
    struct remote *remote = &beanstalkd->remote;
    char reason[BIDE_ERROR_SIZE];

    /* A connection with leases is not reused: a blocked reserve would delay their delete or
     * touch. */
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (!each->broken && !each->blocked && !each->strays && each->leases == 0 &&
            !bi_beanstalkd_conn_expects(each))
            return each;

    if (beanstalkd->spare_count >= SPARE_MAX)
        return NULL;

    /* Blocks this thread, for connect_timeout at most. No handshake: the server's kind is known.
     * To the peer of the main connection: a second lookup might find another server. */
    struct io_wait io_wait = {.deadline = bi_clock_boot() + remote->address.connect_timeout,
                              .stop_fd = remote->stop_fd};
    const struct conn *main_conn = beanstalkd->main;
    pthread_mutex_unlock(&remote->lock);
    int fd = main_conn != NULL ? bi_remote_socket_connect_peer(
                                     main_conn->fd, remote->address.trusted, &io_wait, reason)
                               : bi_remote_socket_connect(&remote->address, &io_wait, reason);
    struct conn *conn = fd < 0 ? NULL : bi_beanstalkd_conn_new(fd);
    pthread_mutex_lock(&remote->lock);

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

static int connect_main(struct remote *remote, struct io_wait *io_wait, char *error)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);
    enum server_kind server_kind;
    int fd = -1;
    int code = bi_beanstalk_backend_connect(&remote->address, io_wait, &fd, &server_kind, error);

    assert(beanstalkd->main == NULL);
    if (code != BIDE_OK)
        return code;

    beanstalkd->main = bi_beanstalkd_conn_new(fd);
    if (beanstalkd->main != NULL)
        return BIDE_OK;
    close(fd);
    bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
    return BIDE_ENOMEM;
}

/* Reads replies that arrived before a write failed. Their commands have been executed, and must
 * not be reported as BIDE_EUNKNOWN. */
static void read_pending(struct conn *conn)
{
    struct pollfd polled = {.fd = conn->fd, .events = POLLIN};
    while (!conn->eof && poll(&polled, 1, 0) > 0)
        bi_beanstalkd_conn_read(conn);
}

static void disconnect(struct remote *remote, const char *reason)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);

    if (beanstalkd->main != NULL) {
        read_pending(beanstalkd->main);
        bi_remote_thread_lost(remote, reason);
        close_conn(beanstalkd, beanstalkd->main);
    }

    /* Otherwise the spare connections live on: their leases are valid. */
    while (remote->closing && beanstalkd->spare != NULL)
        close_conn(beanstalkd, beanstalkd->spare);
}

/* Closes spare connections that are broken, and idle ones above SPARE_KEEP. */
static void close_unused(struct beanstalkd *beanstalkd)
{
    size_t idle = 0;

    for (struct conn *each = beanstalkd->spare, *next; each != NULL; each = next) {
        next = each->next;
        bool busy = each->blocked || each->leases > 0 || bi_beanstalkd_conn_expects(each);
        if (each->broken)
            read_pending(each);
        /* A stray job is released by closing, but only after the last lease of the connection. */
        if (each->broken || each->abort || (!busy && (each->strays || ++idle > SPARE_KEEP))) {
            close_conn(beanstalkd, each);
            next = beanstalkd->spare; /* the handlers of lost replies may have changed the list */
            idle = 0;
        }
    }
}

/*
 * ---- silence ----
 *
 * beanstalkd replies to the commands of a connection in order, and at once except for a reserve
 * that waits. So the keepalive of struct remote is not needed: a reply that is due is a ping. If it
 * is due for answer_timeout, and the server has neither sent nor read anything on that connection,
 * the connection counts as lost. A blocked reserve proves nothing. While only such are outstanding,
 * the client sends a harmless command on the main connection.
 */

static bool is_reply_due(const struct conn *conn)
{
    return !conn->broken && !conn->blocked && bi_beanstalkd_conn_expects(conn);
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
    int64_t first = REMOTE_NEVER;

    for (const struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        if (is_reply_due(each) && each->active < first)
            first = each->active;
    if (beanstalkd->main != NULL && beanstalkd->main->active < first &&
        (is_reply_due(beanstalkd->main) || has_blocked(beanstalkd)))
        first = beanstalkd->main->active;
    return first == REMOTE_NEVER ? first : first + beanstalkd->remote.address.answer_timeout;
}

/* Input that this thread had no time to read proves that the server is alive. */
static bool has_no_input(const struct conn *conn, int64_t before)
{
    struct pollfd polled = {.fd = conn->fd, .events = POLLIN};
    return is_reply_due(conn) && conn->active <= before && poll(&polled, 1, 0) == 0;
}

static void check_silence(struct beanstalkd *beanstalkd, int64_t now)
{
    int64_t before = now - beanstalkd->remote.address.answer_timeout;
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

/* ---- the I/O thread ---- */

static int64_t tick(struct remote *remote, int64_t now)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);

    check_silence(beanstalkd, now);

    /* Only this thread changes connections. */
    pthread_mutex_unlock(&remote->lock);
    if (beanstalkd->main != NULL)
        bi_beanstalkd_conn_write(beanstalkd->main);
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        bi_beanstalkd_conn_write(each);
    pthread_mutex_lock(&remote->lock);

    close_unused(beanstalkd);
    bi_beanstalkd_exchange_free_ended(beanstalkd);

    if (beanstalkd->main != NULL && beanstalkd->main->broken) {
        remote->broken = true;
        remote->silent = beanstalkd->main->silent;
    }
    return silence_ends(beanstalkd);
}

static void poll_conn(const struct conn *conn, struct pollfd *polled)
{
    *polled = (struct pollfd){.fd = conn->fd,
                              .events = (short)(POLLIN | (conn->want_write ? POLLOUT : 0))};
}

static size_t poll_for(struct remote *remote, struct pollfd *polled)
{
    const struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);
    size_t count = 1;

    polled[0] = (struct pollfd){.fd = -1};
    if (beanstalkd->main != NULL)
        poll_conn(beanstalkd->main, &polled[0]);
    for (const struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        poll_conn(each, &polled[count++]);
    return count;
}

static bool ready(struct remote *remote, const struct pollfd *polled, size_t count, char *reason)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);

    (void)reason; /* tick() finds broken connections */
    pthread_mutex_lock(&remote->lock);
    remote->activity++;
    if (beanstalkd->main != NULL && polled[0].revents != 0)
        bi_beanstalkd_conn_read(beanstalkd->main);

    /* Handlers may open connections, which are linked at the head, but never close one here. So
     * the slots are in the order of the list, and no descriptor is reused. */
    size_t i = 1;
    for (struct conn *each = beanstalkd->spare; each != NULL && i < count; each = each->next) {
        if (polled[i].fd != each->fd)
            continue; /* opened after the poll */
        if (polled[i++].revents != 0)
            bi_beanstalkd_conn_read(each);
    }
    pthread_mutex_unlock(&remote->lock);
    return true;
}

/* ---- open and free ---- */

static void free_beanstalkd(struct remote *remote)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);

    if (beanstalkd->main != NULL)
        close_conn(beanstalkd, beanstalkd->main);
    while (beanstalkd->spare != NULL)
        close_conn(beanstalkd, beanstalkd->spare);
    bi_beanstalkd_exchange_free_ended(beanstalkd);
    free(beanstalkd);
}

static const struct remote_client beanstalkd_client = {
    .scheme = "beanstalk",
    .capabilities = BIDE_CAN_SHARE,
    .check = check,
    .new_op = new_op,
    .prepare = prepare,
    .start = start,
    .cancel = cancel,
    .fail = fail,
    .release = release,
    .connect = connect_main,
    .disconnect = disconnect,
    .tick = tick,
    .poll = poll_for,
    .ready = ready,
    .free = free_beanstalkd,
};

int bi_beanstalkd_client_open(const struct backend_context *context, const struct address *address,
                              int fd, struct backend **out, char *error)
{
    struct beanstalkd *beanstalkd = calloc(1, sizeof(*beanstalkd));
    struct conn *conn = beanstalkd == NULL ? NULL : bi_beanstalkd_conn_new(fd);

    if (conn == NULL) {
        free(beanstalkd);
        close(fd);
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }

    beanstalkd->main = conn;
    bi_keyed_hash_generate_secret(&beanstalkd->secret);
    return bi_remote_open(&beanstalkd->remote, &beanstalkd_client, context, address, out, error);
}
