/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_client - the functions of the client, and the table of supported ops.
 *
 * The calling threads only queue exchanges; the I/O thread does the rest.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/op_args.h"
#include "remote/beanstalk_backend.h"
#include "util/message.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

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
        [BIDE_OP_RELEASE] = &bi_beanstalkd_finish_release_or_bury,
        [BIDE_OP_GIVE_BACK] = &bi_beanstalkd_finish_release_or_bury,
        [BIDE_OP_BURY] = &bi_beanstalkd_finish_release_or_bury,
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
    return bi_op_reject(op, BIDE_ENOTSUP,
                        "the server is a plain beanstalkd, which does not know %s", what);
}

/* ---- ops ---- */

static int check(bide_op *op)
{
    return find_handler(op->kind) != NULL
               ? BIDE_OK
               : bi_op_reject(op, BIDE_ENOTSUP,
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
        return bi_op_reject(op->op, BIDE_ENOMEM, "out of memory");
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
    return bi_error_set_code(error, BIDE_ENOMEM);
}

static void disconnect(struct remote *remote, const char *reason)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);

    if (beanstalkd->main != NULL) {
        bi_beanstalkd_conn_read_pending(beanstalkd->main);
        bi_remote_thread_lost(remote, reason);
        bi_beanstalkd_conn_pool_close(beanstalkd, beanstalkd->main);
    }

    /* Otherwise the spare connections live on: their leases are valid. */
    while (remote->closing && beanstalkd->spare != NULL)
        bi_beanstalkd_conn_pool_close(beanstalkd, beanstalkd->spare);
}

/* ---- the I/O thread ---- */

static int64_t tick(struct remote *remote, int64_t now)
{
    struct beanstalkd *beanstalkd = bi_beanstalkd_of(remote);

    bi_beanstalkd_keepalive_check(beanstalkd, now);

    /* Only this thread changes connections. */
    pthread_mutex_unlock(&remote->lock);
    if (beanstalkd->main != NULL)
        bi_beanstalkd_conn_write(beanstalkd->main);
    for (struct conn *each = beanstalkd->spare; each != NULL; each = each->next)
        bi_beanstalkd_conn_write(each);
    pthread_mutex_lock(&remote->lock);

    bi_beanstalkd_conn_pool_close_unused(beanstalkd);
    bi_beanstalkd_exchange_free_ended(beanstalkd);

    if (beanstalkd->main != NULL && beanstalkd->main->broken) {
        remote->broken = true;
        remote->silent = beanstalkd->main->silent;
    }
    return bi_beanstalkd_keepalive_next_at(beanstalkd);
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
        bi_beanstalkd_conn_pool_close(beanstalkd, beanstalkd->main);
    while (beanstalkd->spare != NULL)
        bi_beanstalkd_conn_pool_close(beanstalkd, beanstalkd->spare);
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
        return bi_error_set_code(error, BIDE_ENOMEM);
    }

    beanstalkd->main = conn;
    bi_keyed_hash_generate_secret(&beanstalkd->secret);
    return bi_remote_open(&beanstalkd->remote, &beanstalkd_client, context, address, out, error);
}
