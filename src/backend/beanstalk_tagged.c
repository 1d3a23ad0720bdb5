/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_tagged.h"

#include "backend/answer.h"
#include "backend/beanstalk_kind.h"
#include "util/clock.h"
#include "util/text.h"
#include "util/thread.h"

#include <stdlib.h>
#include <sys/eventfd.h>
#include <unistd.h>

static struct tagged *tagged_of(struct backend *backend)
{
    return (struct tagged *)(void *)backend;
}

/* ---- submitting ---- */

/* What is refused whatever the state of the queue. */
static int check(bide_op *op)
{
    if (op->cq == NULL && op->private_.wake == NULL)
        return bi_kind_refuse(op, BIDE_EINVAL,
                              "the op must wait for the server and names no completion queue");
    return BIDE_OK;
}

static bool is_full(const struct tagged *tagged, const struct request *request)
{
    const bide_options *options = &tagged->context.options;
    return !request->waits && tagged->pending_ops > 0 &&
           (tagged->pending_ops >= options->max_pending_ops ||
            tagged->pending_bytes + request->bytes.size > options->max_pending_bytes);
}

/* With the lock: may the request be added? */
static int may_add(struct tagged *tagged, const struct request *request)
{
    bide_op *op = request->op;
    while (is_full(tagged, request) && !tagged->closing) {
        if (op->private_.wake == NULL)
            return bi_kind_refuse(op, BIDE_EBUSY, "too many ops are pending");
        bi_send_flush(tagged);
        if (is_full(tagged, request))
            pthread_cond_wait(&tagged->room, &tagged->lock);
    }
    if (tagged->closing)
        return bi_kind_refuse(op, BIDE_CLOSED, "the queue was closed");
    if (request->waits && tagged->waiting >= tagged->context.options.max_waiters)
        return bi_kind_refuse(
            op, BIDE_TOO_MANY_WAITERS, "%llu calls of this client wait, max_waiters is %u",
            (unsigned long long)tagged->waiting, tagged->context.options.max_waiters);
    return BIDE_OK;
}

static int add(struct tagged *tagged, struct request *request, struct op_list *completed)
{
    bide_op *op = request->op;
    int code = may_add(tagged, request);
    if (code != BIDE_OK)
        return code;
    code = bi_client_feed_begin(tagged, request, completed);
    if (code == BIDE_PENDING)
        code = bi_client_reference_begin(request);
    if (code != BIDE_PENDING)
        return code;
    if (!bi_client_request_add(tagged, request)) {
        bi_client_feed_leave(request);
        return bi_kind_refuse(op, BIDE_ENOMEM, "out of memory");
    }
    bi_answer_drop(op);
    if (tagged->connected && bi_client_feed_is_made(request)) {
        bi_send_call(tagged, request);
    } else {
        request->late = request->waits;
        bi_loss_watch(tagged, request);
        bi_send_ring(tagged);
    }
    return BIDE_PENDING;
}

static int submit_one(struct tagged *tagged, bide_op *op)
{
    int code = check(op);
    if (code != BIDE_OK)
        return code;
    struct op_list completed = {NULL, NULL};
    bool shut = atomic_load(&tagged->shut);
    for (;;) {
        if (shut && bi_kind_takes(op->kind) && op->kind != BIDE_OP_FINISH_AND_RESERVE)
            return bi_kind_refuse(op, BIDE_CLOSED, "the queue was closed");
        struct request *request = bi_client_request_new(tagged, op, shut);
        if (request == NULL)
            return bi_kind_refuse(op, BIDE_ENOMEM, "out of memory");
        pthread_mutex_lock(&tagged->lock);
        bool still = atomic_load(&tagged->shut) == shut;
        code = still ? add(tagged, request, &completed) : BIDE_CLOSED;
        pthread_mutex_unlock(&tagged->lock);
        if (completed.head != NULL)
            tagged->context.complete(completed.head);
        if (code != BIDE_PENDING)
            bi_client_request_free(request);
        if (still)
            return code;
        shut = true;
    }
}

static int submit(struct backend *backend, bide_op *const *ops, size_t n)
{
    struct tagged *tagged = tagged_of(backend);
    int pending = 0;
    for (size_t i = 0; i < n; i++) {
        if (ops[i]->status != BIDE_PENDING)
            continue;
        int code = submit_one(tagged, ops[i]);
        if (code == BIDE_PENDING) {
            pending++;
            continue;
        }
        ops[i]->status = code;
        tagged->context.finish(ops[i]);
    }
    pthread_mutex_lock(&tagged->lock);
    bi_send_flush(tagged);
    pthread_mutex_unlock(&tagged->lock);
    return pending;
}

/* ---- giving up ---- */

/* Tells the server, if it has heard of the request; else it ends here. */
static void give_up(struct tagged *tagged, struct request *request, struct op_list *completed)
{
    if (request->call.queued || request->sent) {
        bi_send_cancel(tagged, request);
        return;
    }
    bi_client_request_give_up(request, BIDE_CANCELLED);
    bi_client_request_end(tagged, request, completed);
}

static void finish(struct tagged *tagged, struct op_list *completed)
{
    bi_send_flush(tagged);
    pthread_mutex_unlock(&tagged->lock);
    if (completed->head != NULL)
        tagged->context.complete(completed->head);
}

static void cancel(struct backend *backend, bide_op *op)
{
    struct tagged *tagged = tagged_of(backend);
    struct op_list completed = {NULL, NULL};
    pthread_mutex_lock(&tagged->lock);
    struct request *request = op->private_.waiter;
    if (request != NULL) {
        request->cancelled = true;
        give_up(tagged, request, &completed);
    }
    finish(tagged, &completed);
}

static void shut_down(struct backend *backend)
{
    struct tagged *tagged = tagged_of(backend);
    struct op_list completed = {NULL, NULL};
    pthread_mutex_lock(&tagged->lock);
    int64_t until = bi_clock_boot() + tagged->address.connect_timeout;
    atomic_store(&tagged->shut, true);
    for (struct request *each = tagged->first, *next; each != NULL; each = next) {
        next = each->next;
        if (!each->waits || each->shut)
            continue;
        each->shut = each->late = true;
        each->deadline = until;
        each->signs = tagged->signs;
        bi_loss_watch(tagged, each);
        give_up(tagged, each, &completed);
    }
    bi_send_ring(tagged);
    finish(tagged, &completed);
}

/* ---- opening and closing ---- */

static void free_tagged(struct tagged *tagged)
{
    bi_send_clear(tagged);
    bi_client_feed_free_all(tagged);
    bi_client_reference_free_all(tagged);
    bi_tags_free(&tagged->tags);
    free(tagged->in);
    pthread_mutex_destroy(&tagged->lock);
    pthread_cond_destroy(&tagged->room);
    pthread_cond_destroy(&tagged->quiet);
    const int fds[] = {tagged->fd, tagged->wake_fd, tagged->stop_fd};
    for (size_t i = 0; i < sizeof(fds) / sizeof(fds[0]); i++)
        if (fds[i] >= 0)
            close(fds[i]);
    free(tagged);
}

static void close_tagged(struct backend *backend)
{
    struct tagged *tagged = tagged_of(backend);
    uint64_t one = 1;
    shut_down(backend);
    pthread_mutex_lock(&tagged->lock);
    tagged->closing = true;
    tagged->close_by = bi_clock_boot() + tagged->address.connect_timeout;
    pthread_cond_broadcast(&tagged->room);
    bi_send_ring(tagged);
    ssize_t written = write(tagged->stop_fd, &one, sizeof(one));
    (void)written; /* an eventfd that was never written to has room */
    pthread_mutex_unlock(&tagged->lock);
    pthread_join(tagged->thread, NULL);
}

static void free_closed(struct backend *backend)
{
    free_tagged(tagged_of(backend));
}

static const struct backend_ops tagged_ops = {
    .blocks = true,
    .can = BIDE_CAN_PASS_LEASES | BIDE_CAN_SHARE | BIDE_CAN_ALL_OPS,
    .scheme = "beanstalk",
    .submit = submit,
    .cancel = cancel,
    .shutdown = shut_down,
    .close = close_tagged,
    .free = free_closed,
};

int bi_tagged_open(const struct backend_context *context, const struct address *address, int fd,
                   struct backend **out, char *error)
{
    struct tagged *tagged = calloc(1, sizeof(*tagged));
    if (tagged == NULL) {
        close(fd);
        bi_text_copy(error, bide_code_text(BIDE_ENOMEM));
        return BIDE_ENOMEM;
    }
    tagged->base.ops = &tagged_ops;
    tagged->context = *context;
    tagged->address = *address;
    tagged->fd = fd;
    tagged->connected = true;
    bi_silence_begin(tagged);
    tagged->look_at = NEVER;
    tagged->random.state = context->options.seed;
    tagged->wake_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    tagged->stop_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    pthread_mutex_init(&tagged->lock, NULL);
    pthread_cond_init(&tagged->room, NULL);
    pthread_cond_init(&tagged->quiet, NULL);
    if (tagged->wake_fd < 0 || tagged->stop_fd < 0 ||
        !bi_thread_start(&tagged->thread, bi_tagged_run, tagged)) {
        bi_text_copy(error, "open: the system gives no more threads or eventfds");
        free_tagged(tagged);
        return BIDE_ESYSTEM;
    }
    *out = &tagged->base;
    return BIDE_OK;
}
