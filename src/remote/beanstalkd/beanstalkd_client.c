/* SPDX-License-Identifier: MIT */
/*
 * beanstalkd_client - the backend functions: submit, cancel, shutdown, close; and the table of
 * supported ops.
 *
 * The calling threads only queue exchanges and set flags; the I/O thread does the rest.
 */
#include "remote/beanstalkd/beanstalkd_client.h"

#include "op/op_args.h"
#include "remote/op_traits.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* ---- supported ops ---- */

const struct op_handler *bi_beanstalkd_client_find_handler(bide_op_kind kind)
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
    return bi_op_traits_reject(op, BIDE_ENOTSUP,
                               "the server is a plain beanstalkd, which does not know %s", what);
}

bool bi_beanstalkd_client_reply_is(const struct reply *reply, const char *word)
{
    return strcmp(reply->word, word) == 0;
}

int bi_beanstalkd_client_map_error(const struct beanstalkd *beanstalkd, bide_op *op,
                                   const struct reply *reply)
{
    static const struct {
        const char *word;
        int code;
    } errors[] = {
        {"JOB_TOO_BIG", BIDE_TOO_BIG},
        {"DRAINING", BIDE_DRAINING},
        {"OUT_OF_MEMORY", BIDE_EFULL},
        {"NOT_FOUND", BIDE_NOT_FOUND},
    };

    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++)
        if (bi_beanstalkd_client_reply_is(reply, errors[i].word))
            return bi_op_traits_reject(op, errors[i].code, "%s", bide_code_text(errors[i].code));
    return bi_op_traits_reject(op, BIDE_EIO, "the server at %.90s says %.40s",
                               beanstalkd->address.name, reply->word);
}

/* ---- submit ---- */

static struct beanstalkd *beanstalkd_of(struct backend *backend)
{
    return (struct beanstalkd *)(void *)backend;
}

static void wake_thread(const struct beanstalkd *beanstalkd)
{
    uint64_t one = 1;
    ssize_t written = write(beanstalkd->wake_fd, &one, sizeof(one));
    (void)written; /* fails only by overflow, and then the thread is awake anyway */
}

static int check_op(const struct beanstalkd *beanstalkd, bide_op *op)
{
    /* Without a completion queue or a blocking caller the result could never be reported. */
    if (op->cq == NULL && op->private_.wake == NULL)
        return bi_op_traits_reject(op, BIDE_EINVAL,
                                   "the op must wait for the server and names no completion queue");

    if (bi_beanstalkd_client_find_handler(op->kind) == NULL)
        return bi_op_traits_reject(op, BIDE_ENOTSUP,
                                   "the server is a plain beanstalkd, which cannot do that");

    /* After shutdown a finish_and_reserve still finishes; only its reserve part is closed. */
    if (atomic_load(&beanstalkd->shut) && bi_op_is(op, OP_RESERVES) && !bi_op_is(op, OP_TWO_PARTS))
        return bi_op_traits_reject(op, BIDE_CLOSED, "the queue was closed");
    return BIDE_OK;
}

static struct exchange *new_exchange(const struct beanstalkd *beanstalkd, bide_op *op)
{
    struct exchange *exchange = calloc(1, sizeof(*exchange));

    if (exchange == NULL)
        return NULL;

    const int64_t *timeout = bi_op_timeout(op);
    exchange->op = op;
    exchange->handler = bi_beanstalkd_client_find_handler(op->kind);

    int64_t timeout_ms = timeout == NULL ? 0 : *timeout;
    exchange->waits = timeout_ms != 0;
    exchange->bytes = exchange->waits ? 0 : op->private_.bytes;
    /* A negative timeout means forever. An op that does not wait gets connect_timeout, which counts
     * only while there is no connection. */
    int64_t wait_us = exchange->waits ? timeout_ms * 1000 : beanstalkd->address.connect_timeout;
    exchange->deadline = wait_us < 0 ? BEANSTALKD_NEVER : bi_clock_boot() + wait_us;
    return exchange;
}

static bool is_full(const struct beanstalkd *beanstalkd, const struct exchange *exchange)
{
    const bide_options *options = &beanstalkd->context.options;
    /* A single op above the byte limit is accepted when nothing else is pending; otherwise it could
     * never be sent. */
    return !exchange->waits && beanstalkd->pending_ops > 0 &&
           (beanstalkd->pending_ops >= options->max_pending_ops ||
            beanstalkd->pending_bytes + exchange->bytes > options->max_pending_bytes);
}

/* Wakes one blocked caller. Each caller that proceeds wakes the next one, so a completion does not
 * wake all of them. A caller that needs more bytes than are free waits for the next completion. */
void bi_plain_let_in(struct beanstalkd *beanstalkd)
{
    const bide_options *options = &beanstalkd->context.options;
    if (beanstalkd->callers > 0 &&
        (beanstalkd->pending_ops == 0 || (beanstalkd->pending_ops < options->max_pending_ops &&
                                          beanstalkd->pending_bytes < options->max_pending_bytes)))
        pthread_cond_signal(&beanstalkd->below_limit);
}

/* Waits, with the lock, until the exchange fits the limits; then copies the arguments. An
 * asynchronous op fails with BIDE_EBUSY instead of waiting. */
static int wait_for_room(struct beanstalkd *beanstalkd, const struct exchange *exchange)
{
    bide_op *op = exchange->op;

    while (is_full(beanstalkd, exchange) && !beanstalkd->closing) {
        if (op->private_.wake == NULL)
            return bi_op_traits_reject(op, BIDE_EBUSY, "too many ops are pending");
        beanstalkd->callers++;
        pthread_cond_wait(&beanstalkd->below_limit, &beanstalkd->lock);
        beanstalkd->callers--;
    }

    if (beanstalkd->closing)
        return bi_op_traits_reject(op, BIDE_CLOSED, "the queue was closed");
    if (exchange->waits && beanstalkd->waiting >= beanstalkd->context.options.max_waiters)
        return bi_op_traits_reject(
            op, BIDE_TOO_MANY_WAITERS, "%llu calls of this client wait, max_waiters is %u",
            (unsigned long long)beanstalkd->waiting, beanstalkd->context.options.max_waiters);

    /* The I/O thread reads the arguments after submit has returned. */
    if (bi_op_args_dup(op) != BIDE_OK)
        return bi_op_traits_reject(op, BIDE_ENOMEM, "out of memory");
    return BIDE_PENDING;
}

static void add(struct beanstalkd *beanstalkd, struct exchange *exchange)
{
    exchange->prev = beanstalkd->last;
    if (beanstalkd->last != NULL)
        beanstalkd->last->next = exchange;
    else
        beanstalkd->first = exchange;
    beanstalkd->last = exchange;

    beanstalkd->waiting += exchange->waits;
    beanstalkd->pending_ops += !exchange->waits;
    beanstalkd->pending_bytes += exchange->bytes;

    beanstalkd->has_work = true;
    exchange->op->private_.waiter = exchange;
}

static int submit_one(struct beanstalkd *beanstalkd, bide_op *op)
{
    int code = check_op(beanstalkd, op);

    if (code != BIDE_OK)
        return code;

    struct exchange *exchange = new_exchange(beanstalkd, op);
    if (exchange == NULL)
        return bi_op_traits_reject(op, BIDE_ENOMEM, "out of memory");

    pthread_mutex_lock(&beanstalkd->lock);
    code = wait_for_room(beanstalkd, exchange);
    if (code == BIDE_PENDING)
        add(beanstalkd, exchange);
    else
        free(exchange);
    bi_plain_let_in(beanstalkd); /* pass on the wakeup that this caller received */
    pthread_mutex_unlock(&beanstalkd->lock);
    return code;
}

static int submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct beanstalkd *beanstalkd = beanstalkd_of(backend);
    int pending = 0;

    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;

        int code = submit_one(beanstalkd, ops[i]);
        if (code == BIDE_PENDING) {
            pending++;
            continue;
        }
        ops[i]->status = code;
        beanstalkd->context.finish(ops[i]);
    }

    /* One wakeup for all ops of this submit. */
    wake_thread(beanstalkd);
    return pending;
}

/* ---- cancel, shutdown, close ---- */

static void cancel(struct backend *backend, bide_op *op)
{
    struct beanstalkd *beanstalkd = beanstalkd_of(backend);

    pthread_mutex_lock(&beanstalkd->lock);
    struct exchange *exchange = op->private_.waiter;
    /* NULL: the op has completed. Otherwise the I/O thread decides what a cancel can still do. */
    if (exchange != NULL)
        atomic_store(&exchange->cancelled, true);
    beanstalkd->has_work = true;
    pthread_mutex_unlock(&beanstalkd->lock);
    wake_thread(beanstalkd);
}

static void shut_down(struct backend *backend)
{
    struct beanstalkd *beanstalkd = beanstalkd_of(backend);
    pthread_mutex_lock(&beanstalkd->lock);
    atomic_store(&beanstalkd->shut, true);
    beanstalkd->has_work = true;
    pthread_mutex_unlock(&beanstalkd->lock);
    wake_thread(beanstalkd);
}

static void free_beanstalkd(struct beanstalkd *beanstalkd)
{
    /* Set only if open failed before the I/O thread ran; that thread closes all connections. */
    if (beanstalkd->main != NULL)
        bi_beanstalkd_conn_free(beanstalkd->main);

    pthread_mutex_destroy(&beanstalkd->lock);
    pthread_cond_destroy(&beanstalkd->below_limit);
    if (beanstalkd->wake_fd >= 0)
        close(beanstalkd->wake_fd);
    if (beanstalkd->stop_fd >= 0)
        close(beanstalkd->stop_fd);
    free(beanstalkd);
}

static void close_beanstalkd(struct backend *backend)
{
    struct beanstalkd *beanstalkd = beanstalkd_of(backend);
    uint64_t one = 1;

    shut_down(backend);

    pthread_mutex_lock(&beanstalkd->lock);
    beanstalkd->close_deadline = bi_clock_boot() + beanstalkd->address.connect_timeout;
    beanstalkd->closing = true;
    beanstalkd->has_work = true;
    /* All callers that wait for room return BIDE_CLOSED. */
    pthread_cond_broadcast(&beanstalkd->below_limit);
    pthread_mutex_unlock(&beanstalkd->lock);

    /* stop_fd ends a connect in progress; wake_fd ends a poll. */
    ssize_t written = write(beanstalkd->stop_fd, &one, sizeof(one));
    (void)written;

    wake_thread(beanstalkd);
    pthread_join(beanstalkd->thread, NULL);
}

static void free_closed(struct backend *backend)
{
    free_beanstalkd(beanstalkd_of(backend));
}

static const struct backend_ops beanstalkd_ops = {
    .may_block = true,
    .capabilities = BIDE_CAN_SHARE,
    .scheme = "beanstalk",
    .submit = submit,
    .cancel = cancel,
    .shutdown = shut_down,
    .close = close_beanstalkd,
    .free = free_closed,
};

/* ---- open ---- */

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

    beanstalkd->base.ops = &beanstalkd_ops;
    beanstalkd->context = *context;
    beanstalkd->address = *address;
    beanstalkd->main = conn;

    beanstalkd->random.state = context->options.seed;
    bi_keyed_hash_generate_secret(&beanstalkd->secret);

    beanstalkd->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    beanstalkd->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&beanstalkd->lock, NULL);
    pthread_cond_init(&beanstalkd->below_limit, NULL);

    if (beanstalkd->wake_fd < 0 || beanstalkd->stop_fd < 0 ||
        !bi_thread_start(&beanstalkd->thread, bi_beanstalkd_thread_run, beanstalkd)) {
        snprintf(error, BIDE_ERROR_SIZE, "open: cannot create thread or eventfd: %s",
                 strerror(errno));
        free_beanstalkd(beanstalkd);
        return BIDE_ESYSTEM;
    }

    *out = &beanstalkd->base;
    return BIDE_OK;
}
