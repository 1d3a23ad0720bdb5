/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_plain.h"

#include "backend/beanstalk_kind.h"
#include "backend/keep.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <time.h>
#include <unistd.h>

/* ---- what beanstalkd knows ---- */

const struct plain_kind *bi_plain_kind(bide_op_kind kind)
{
    static const struct plain_kind *const kinds[BIDE_OP_COUNT] = {
        [BIDE_OP_PUT] = &bi_plain_put,
        [BIDE_OP_PUT_MANY] = &bi_plain_put_many,
        [BIDE_OP_RESERVE] = &bi_plain_reserve,
        [BIDE_OP_RESERVE_JOB] = &bi_plain_reserve_job,
        [BIDE_OP_DELETE] = &bi_plain_delete,
        [BIDE_OP_DONE] = &bi_plain_delete,
        [BIDE_OP_FINISH_MANY] = &bi_plain_finish_many,
        [BIDE_OP_TOUCH_MANY] = &bi_plain_touch_many,
        [BIDE_OP_FINISH_AND_RESERVE] = &bi_plain_finish_and_reserve,
        [BIDE_OP_RELEASE] = &bi_plain_release,
        [BIDE_OP_GIVE_BACK] = &bi_plain_release,
        [BIDE_OP_BURY] = &bi_plain_bury,
        [BIDE_OP_KICK] = &bi_plain_kick,
        [BIDE_OP_KICK_JOB] = &bi_plain_kick_job,
        [BIDE_OP_TOUCH] = &bi_plain_touch,
        [BIDE_OP_PEEK] = &bi_plain_peek,
        [BIDE_OP_PEEK_FIRST] = &bi_plain_peek_first,
        [BIDE_OP_JOB_STATS] = &bi_plain_peek,
        [BIDE_OP_BODY] = &bi_plain_body,
        [BIDE_OP_TOPICS] = &bi_plain_topics,
        [BIDE_OP_WAITING] = &bi_plain_topics,
        [BIDE_OP_PAUSE] = &bi_plain_pause,
        [BIDE_OP_RESUME] = &bi_plain_pause,
        [BIDE_OP_STATS] = &bi_plain_stats,
        [BIDE_OP_TOPIC_STATS] = &bi_plain_topic_stats,
        [BIDE_OP_PING] = &bi_plain_ping,
        [BIDE_OP_RECOVERED] = &bi_plain_recovered,
    };
    return kinds[kind];
}

int bi_plain_cannot(bide_op *op, const char *what)
{
    return bi_kind_refuse(op, BIDE_ENOTSUP,
                          "the server is a plain beanstalkd, which does not know %s", what);
}

bool bi_reply_is(const struct reply *reply, const char *word)
{
    return strcmp(reply->word, word) == 0;
}

int bi_plain_error(const struct plain *plain, bide_op *op, const struct reply *reply)
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
        if (bi_reply_is(reply, errors[i].word))
            return bi_kind_refuse(op, errors[i].code, "%s", bide_code_text(errors[i].code));
    return bi_kind_refuse(op, BIDE_EIO, "the server at %.90s says %.40s", plain->address.name,
                          reply->word);
}

/* ---- submitting ---- */

static struct plain *plain_of(struct backend *backend)
{
    return (struct plain *)(void *)backend;
}

static void ring(const struct plain *plain)
{
    uint64_t one = 1;
    ssize_t written = write(plain->wake_fd, &one, sizeof(one));
    (void)written; /* an eventfd is full after 2^64 rings */
}

static int check(const struct plain *plain, bide_op *op)
{
    if (op->cq == NULL && op->private_.wake == NULL)
        return bi_kind_refuse(op, BIDE_EINVAL,
                              "the op must wait for the server and names no completion queue");
    if (bi_plain_kind(op->kind) == NULL)
        return bi_kind_refuse(op, BIDE_ENOTSUP,
                              "the server is a plain beanstalkd, which cannot do that");
    if (atomic_load(&plain->shut) && bi_kind_takes(op->kind) &&
        op->kind != BIDE_OP_FINISH_AND_RESERVE)
        return bi_kind_refuse(op, BIDE_CLOSED, "the queue was closed");
    return BIDE_OK;
}

static struct talk *make_talk(const struct plain *plain, bide_op *op)
{
    struct talk *talk = calloc(1, sizeof(*talk));
    if (talk == NULL)
        return NULL;
    const int64_t *timeout = bi_kind_timeout(op);
    talk->op = op;
    talk->kind = bi_plain_kind(op->kind);
    int64_t timeout_ms = timeout == NULL ? 0 : *timeout;
    talk->waits = timeout_ms != 0;
    talk->bytes = talk->waits ? 0 : op->private_.bytes;
    int64_t patience = talk->waits ? timeout_ms * 1000 : plain->address.connect_timeout;
    talk->deadline = patience < 0 ? PLAIN_NEVER : bi_clock_boot() + patience;
    return talk;
}

static bool is_full(const struct plain *plain, const struct talk *talk)
{
    const bide_options *options = &plain->context.options;
    return !talk->waits && plain->pending_ops > 0 &&
           (plain->pending_ops >= options->max_pending_ops ||
            plain->pending_bytes + talk->bytes > options->max_pending_bytes);
}

/* With the lock: may the talk begin? */
static int may_add(struct plain *plain, const struct talk *talk)
{
    bide_op *op = talk->op;
    while (is_full(plain, talk) && !plain->closing) {
        if (op->private_.wake == NULL)
            return bi_kind_refuse(op, BIDE_EBUSY, "too many ops are pending");
        pthread_cond_wait(&plain->room, &plain->lock);
    }
    if (plain->closing)
        return bi_kind_refuse(op, BIDE_CLOSED, "the queue was closed");
    if (talk->waits && plain->waiting >= plain->context.options.max_waiters)
        return bi_kind_refuse(
            op, BIDE_TOO_MANY_WAITERS, "%llu calls of this client wait, max_waiters is %u",
            (unsigned long long)plain->waiting, plain->context.options.max_waiters);
    if (bi_keep(op) != BIDE_OK)
        return bi_kind_refuse(op, BIDE_ENOMEM, "out of memory");
    return BIDE_PENDING;
}

static void add(struct plain *plain, struct talk *talk)
{
    talk->prev = plain->last;
    if (plain->last != NULL)
        plain->last->next = talk;
    else
        plain->first = talk;
    plain->last = talk;
    plain->waiting += talk->waits;
    plain->pending_ops += !talk->waits;
    plain->pending_bytes += talk->bytes;
    plain->news = true;
    talk->op->private_.waiter = talk;
}

static int submit_one(struct plain *plain, bide_op *op)
{
    int code = check(plain, op);
    if (code != BIDE_OK)
        return code;
    struct talk *talk = make_talk(plain, op);
    if (talk == NULL)
        return bi_kind_refuse(op, BIDE_ENOMEM, "out of memory");
    pthread_mutex_lock(&plain->lock);
    code = may_add(plain, talk);
    if (code == BIDE_PENDING)
        add(plain, talk);
    else
        free(talk);
    pthread_mutex_unlock(&plain->lock);
    return code;
}

static int submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct plain *plain = plain_of(backend);
    int pending = 0;
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;
        int code = submit_one(plain, ops[i]);
        if (code == BIDE_PENDING) {
            pending++;
            continue;
        }
        ops[i]->status = code;
        plain->context.finish(ops[i]);
    }
    ring(plain);
    return pending;
}

/* ---- ending ---- */

static void cancel(struct backend *backend, bide_op *op)
{
    struct plain *plain = plain_of(backend);
    pthread_mutex_lock(&plain->lock);
    struct talk *talk = op->private_.waiter;
    if (talk != NULL)
        atomic_store(&talk->cancelled, true);
    plain->news = true;
    pthread_mutex_unlock(&plain->lock);
    ring(plain);
}

static void shut_down(struct backend *backend)
{
    struct plain *plain = plain_of(backend);
    pthread_mutex_lock(&plain->lock);
    atomic_store(&plain->shut, true);
    plain->news = true;
    pthread_mutex_unlock(&plain->lock);
    ring(plain);
}

static void free_plain(struct plain *plain)
{
    if (plain->main != NULL)
        bi_wire_free(plain->main);
    pthread_mutex_destroy(&plain->lock);
    pthread_cond_destroy(&plain->room);
    if (plain->wake_fd >= 0)
        close(plain->wake_fd);
    if (plain->stop_fd >= 0)
        close(plain->stop_fd);
    free(plain);
}

static void close_plain(struct backend *backend)
{
    struct plain *plain = plain_of(backend);
    uint64_t one = 1;
    shut_down(backend);
    pthread_mutex_lock(&plain->lock);
    plain->close_by = bi_clock_boot() + plain->address.connect_timeout;
    plain->closing = true;
    plain->news = true;
    pthread_cond_broadcast(&plain->room);
    pthread_mutex_unlock(&plain->lock);
    ssize_t written = write(plain->stop_fd, &one, sizeof(one));
    (void)written;
    ring(plain);
    pthread_join(plain->thread, NULL);
}

static void free_closed(struct backend *backend)
{
    free_plain(plain_of(backend));
}

static const struct backend_ops plain_ops = {
    .blocks = true,
    .can = BIDE_CAN_SHARE,
    .scheme = "beanstalk",
    .submit = submit,
    .cancel = cancel,
    .shutdown = shut_down,
    .close = close_plain,
    .free = free_closed,
};

/* ---- opening ---- */

int bi_plain_open(const struct backend_context *context, const struct address *address, int fd,
                  struct backend **out, char *error)
{
    struct plain *plain = calloc(1, sizeof(*plain));
    struct wire *wire = plain == NULL ? NULL : bi_wire_new(fd);
    if (wire == NULL) {
        free(plain);
        close(fd);
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }
    plain->base.ops = &plain_ops;
    plain->context = *context;
    plain->address = *address;
    plain->main = wire;
    plain->random.state = context->options.seed;
    bi_secret_draw(&plain->secret);
    plain->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    plain->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&plain->lock, NULL);
    pthread_cond_init(&plain->room, NULL);
    if (plain->wake_fd < 0 || plain->stop_fd < 0 ||
        !bi_thread_start(&plain->thread, bi_plain_run, plain)) {
        bi_text_copy(error, "open: the system gives no more threads or eventfds");
        free_plain(plain);
        return BIDE_ESYSTEM;
    }
    *out = &plain->base;
    return BIDE_OK;
}
