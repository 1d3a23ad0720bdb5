/* SPDX-License-Identifier: MIT */
/* What all clients of a server share, with a client that has no protocol: the test decides when a
 * connection is made, lost, silent, or replies. */
#include "unit.h"

#include "op/op_table.h"
#include "remote/remote.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

struct fake {
    struct remote remote;
    int event_fd;      /* readable: the test has set lost or replies */
    bool lost;         /* the connection is lost */
    bool replies;      /* all started ops are replied to, with BIDE_OK */
    bool holds;        /* ops stay queued, until the next connection */
    int connect_code;  /* of connects */
    unsigned connects; /* that succeeded */
    unsigned pings;
};

/* An op of the fake client. */
struct fake_op {
    struct remote_op base;
    unsigned *starts;
    unsigned *cancels;
};

/* An op of the test, and what the client did with it. */
struct tested_op {
    bide_op op;
    unsigned starts, cancels;
};

static struct fake *fake;
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER; /* with the lock of the client */
static const bide_slice topic = {"t", 1};

/* ---- the client ---- */

static struct fake *fake_of(struct remote *remote)
{
    return (struct fake *)(void *)remote;
}

static struct remote_op *new_op(struct remote *remote, bide_op *op, bool shut)
{
    struct fake_op *fake_op = calloc(1, sizeof(*fake_op));
    assert_non_null(fake_op);
    bi_remote_op_init(remote, &fake_op->base, op, shut);
    fake_op->base.bytes = 100;
    fake_op->starts = &((struct tested_op *)op->user)->starts;
    fake_op->cancels = &((struct tested_op *)op->user)->cancels;
    return &fake_op->base;
}

static int prepare(struct remote *remote, struct remote_op *op)
{
    (void)remote;
    (void)op;
    return BIDE_PENDING;
}

static void start(struct remote *remote, struct remote_op *op)
{
    if (fake_of(remote)->holds)
        return;
    op->started = true;
    ++*((struct fake_op *)(void *)op)->starts;
    pthread_cond_broadcast(&changed);
}

static bool cancel(struct remote *remote, struct remote_op *op)
{
    (void)remote;
    *((struct fake_op *)(void *)op)->cancels += op->started;
    return op->started;
}

static void fail_op(struct remote *remote, struct remote_op *op, int code, const char *text)
{
    bi_remote_op_set_failed(op->op, code, text);
    bi_remote_op_complete(remote, op);
}

static void release(struct remote *remote, struct remote_op *op)
{
    (void)remote;
    free(op);
}

static int connect_fake(struct remote *remote, struct io_wait *io_wait, char *error)
{
    (void)io_wait;
    strcpy(error, "the test says no");
    pthread_mutex_lock(&remote->lock);
    int code = fake_of(remote)->connect_code;
    fake_of(remote)->connects += code == BIDE_OK;
    fake_of(remote)->holds = false;
    pthread_mutex_unlock(&remote->lock);
    return code;
}

static void disconnect(struct remote *remote, const char *reason)
{
    if (!remote->connected)
        return;
    bi_remote_thread_lost(remote, reason);
    for (struct remote_op *each = remote->first, *next; each != NULL; each = next) {
        next = each->next;
        bi_remote_op_lost(remote, each, each->started);
    }
    pthread_cond_broadcast(&changed);
}

static bool ping(struct remote *remote)
{
    fake_of(remote)->pings++;
    pthread_cond_broadcast(&changed);
    return true;
}

static size_t poll_for(struct remote *remote, struct pollfd *polled)
{
    *polled = (struct pollfd){.fd = fake_of(remote)->event_fd, .events = POLLIN};
    return 1;
}

static bool ready(struct remote *remote, const struct pollfd *polled, size_t count, char *reason)
{
    eventfd_t value;
    assert_true(count == 1 && polled->revents == POLLIN);
    eventfd_read(fake_of(remote)->event_fd, &value);
    pthread_mutex_lock(&remote->lock);
    bool lost = fake_of(remote)->lost;
    fake_of(remote)->lost = false;
    for (struct remote_op *each = remote->first, *next; each != NULL && fake_of(remote)->replies;
         each = next) {
        next = each->next;
        each->op->private_.status = BIDE_OK;
        if (each->started)
            bi_remote_op_complete(remote, each);
    }
    fake_of(remote)->replies = false;
    pthread_mutex_unlock(&remote->lock);
    strcpy(reason, "the test has cut it");
    return !lost;
}

static void free_fake(struct remote *remote)
{
    close(fake_of(remote)->event_fd);
    free(remote);
}

static const struct remote_client client = {
    .new_op = new_op,
    .prepare = prepare,
    .start = start,
    .cancel = cancel,
    .fail = fail_op,
    .release = release,
    .connect = connect_fake,
    .disconnect = disconnect,
    .ping = ping,
    .poll = poll_for,
    .ready = ready,
    .free = free_fake,
};

/* ---- the test ---- */

static void finish(bide_op *op)
{
    (void)op; /* its status is set */
}

static void complete(bide_op *list)
{
    pthread_mutex_lock(&fake->remote.lock);
    for (bide_op *next; list != NULL; list = next) {
        next = list->private_.next;
        assert_int_equal(list->status, BIDE_PENDING); /* once */
        list->status = list->private_.status;
    }
    pthread_cond_broadcast(&changed);
    pthread_mutex_unlock(&fake->remote.lock);
}

static void open_fake(int64_t connect_timeout, int64_t answer_timeout)
{
    char error[BIDE_ERROR_SIZE];
    struct backend *backend;
    struct backend_context context = {.finish = finish, .complete = complete};
    struct address address = {.name = "fake:1",
                              .connect_timeout = connect_timeout,
                              .answer_timeout = answer_timeout,
                              .reconnect_min = 1000,
                              .reconnect_max = 2000};
    context.options.max_pending_ops = 3;
    context.options.max_pending_bytes = 1000;
    context.options.max_waiters = 2;
    fake = calloc(1, sizeof(*fake));
    assert_non_null(fake);
    fake->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
    assert_int_equal(bi_remote_open(&fake->remote, &client, &context, &address, &backend, error),
                     BIDE_OK);
    assert_ptr_equal(backend, &fake->remote.base);
}

#define LONG INT64_C(60000000)

static void close_fake(void)
{
    fake->remote.ops.close(&fake->remote.base);
    fake->remote.ops.free(&fake->remote.base);
}

/* Changes the state of the server. */
#define SET(change)                               \
    do {                                          \
        pthread_mutex_lock(&fake->remote.lock);   \
        change;                                   \
        pthread_mutex_unlock(&fake->remote.lock); \
        eventfd_write(fake->event_fd, 1);         \
    } while (0)

/* Waits for a condition that a callback makes true. */
#define AWAIT(condition)                                     \
    do {                                                     \
        pthread_mutex_lock(&fake->remote.lock);              \
        while (!(condition))                                 \
            pthread_cond_wait(&changed, &fake->remote.lock); \
        pthread_mutex_unlock(&fake->remote.lock);            \
    } while (0)

static void submit(struct tested_op *tested, bide_op_kind kind, int64_t timeout_ms)
{
    bide_op *list[] = {&tested->op};
    *tested = (struct tested_op){.op = {.kind = kind, .status = BIDE_PENDING}};
    tested->op.user = tested;
    tested->op.cq = (bide_cq *)(void *)fake; /* only its presence matters */
    if (kind == BIDE_OP_RESERVE)
        tested->op.reserve = (bide_reserve_args){
            .topics = &topic, .topic_count = 1, .timeout_ms = timeout_ms, .job_max = 1};
    fake->remote.ops.submit(&fake->remote.base, list, 1);
}

static bool is_pending(const struct tested_op *tested)
{
    pthread_mutex_lock(&fake->remote.lock);
    bool pending = tested->op.status == BIDE_PENDING;
    pthread_mutex_unlock(&fake->remote.lock);
    return pending;
}

static void ends(struct tested_op *tested, int code, const char *text)
{
    AWAIT(tested->op.status != BIDE_PENDING);
    assert_int_equal(tested->op.status, code);
    if (text != NULL)
        assert_non_null(strstr(tested->op.error, text));
}

static void lost_ops_are_sent_again_unless_they_may_have_happened(void **state)
{
    (void)state;
    struct tested_op put, stats, reserve, held;
    open_fake(LONG, LONG);
    submit(&put, BIDE_OP_PUT, 0);
    submit(&stats, BIDE_OP_STATS, 0);
    submit(&reserve, BIDE_OP_RESERVE, BIDE_FOREVER);
    AWAIT(reserve.starts == 1);
    SET(fake->holds = true);
    submit(&held, BIDE_OP_PUT, 0);
    SET(fake->lost = true);
    ends(&put, BIDE_EUNKNOWN, "put: the connection to fake:1 was lost");
    AWAIT(stats.starts == 2 && reserve.starts == 2 && held.starts == 1);
    SET(fake->replies = true);
    ends(&stats, BIDE_OK, NULL);
    ends(&reserve, BIDE_OK, NULL);
    ends(&held, BIDE_OK, NULL);
    close_fake();
}

static void cancelled_op_is_not_sent_again(void **state)
{
    (void)state;
    struct tested_op sent, held;
    open_fake(LONG, LONG);
    submit(&sent, BIDE_OP_RESERVE, BIDE_FOREVER);
    AWAIT(sent.starts == 1);
    SET(fake->holds = true);
    submit(&held, BIDE_OP_RESERVE, BIDE_FOREVER);
    fake->remote.ops.cancel(&fake->remote.base, &held.op);
    ends(&held, BIDE_CANCELLED, NULL);
    fake->remote.ops.cancel(&fake->remote.base, &sent.op);
    assert_int_equal(sent.cancels, 1);
    assert_true(is_pending(&sent)); /* the server completes it */
    SET(fake->lost = true);
    ends(&sent, BIDE_CANCELLED, NULL);
    assert_int_equal(sent.starts, 1);
    close_fake();
}

static void query_that_breaks_every_connection_fails(void **state)
{
    (void)state;
    struct tested_op stats, reserve;
    open_fake(LONG, LONG);
    submit(&stats, BIDE_OP_STATS, 0);
    submit(&reserve, BIDE_OP_RESERVE, BIDE_FOREVER);
    for (unsigned i = 1; is_pending(&stats); i++) {
        assert_true(i < 20);
        AWAIT(reserve.starts == i);
        SET(fake->lost = true);
        AWAIT(reserve.starts == i + 1 || stats.op.status != BIDE_PENDING);
    }
    ends(&stats, BIDE_EIO, "stats: the test has cut it");
    assert_in_range(stats.starts, 2, 10);
    AWAIT(reserve.starts > stats.starts);
    assert_true(is_pending(&reserve)); /* what waits goes on */
    SET(fake->replies = true);
    ends(&reserve, BIDE_OK, NULL);
    close_fake();
}

static void ops_without_a_connection_expire(void **state)
{
    (void)state;
    struct tested_op put, reserve, forever;
    open_fake(20000, LONG);
    submit(&forever, BIDE_OP_RESERVE, BIDE_FOREVER);
    AWAIT(forever.starts == 1);
    SET((fake->lost = true, fake->connect_code = BIDE_EIO));
    AWAIT(!fake->remote.connected);
    submit(&put, BIDE_OP_PUT, 0);
    submit(&reserve, BIDE_OP_RESERVE, 50);
    ends(&put, BIDE_EIO, "put: the test ");
    ends(&reserve, BIDE_TIMED_OUT, "reserve: no connection to fake:1");
    assert_true(is_pending(&forever));
    SET(fake->connect_code = BIDE_EINVAL);
    ends(&forever, BIDE_EINVAL, "reserve: the test says no");
    close_fake();
}

static void limits_are_enforced(void **state)
{
    (void)state;
    struct tested_op puts[4], reserves[3];
    open_fake(LONG, LONG);
    for (int i = 0; i < 4; i++)
        submit(&puts[i], BIDE_OP_PUT, 0);
    for (int i = 0; i < 3; i++)
        submit(&reserves[i], BIDE_OP_RESERVE, BIDE_FOREVER);
    ends(&puts[3], BIDE_EBUSY, "put: too many ops are pending");
    ends(&reserves[2], BIDE_TOO_MANY_WAITERS, "max_waiters is 2");
    AWAIT(reserves[1].starts == 1);
    SET(fake->replies = true);
    ends(&puts[2], BIDE_OK, NULL);
    ends(&reserves[1], BIDE_OK, NULL);
    submit(&puts[3], BIDE_OP_PUT, 0);
    AWAIT(puts[3].starts == 1);
    SET(fake->replies = true);
    ends(&puts[3], BIDE_OK, NULL);
    close_fake();
}

static void silent_server_is_pinged_and_then_left(void **state)
{
    (void)state;
    struct tested_op reserve;
    open_fake(LONG, 10000);
    submit(&reserve, BIDE_OP_RESERVE, BIDE_FOREVER);
    AWAIT(fake->pings > 0);
    AWAIT(reserve.starts == 2);
    assert_true(fake->connects >= 1);
    SET(fake->replies = true);
    ends(&reserve, BIDE_OK, NULL);
    close_fake();
}

static void shutdown_rejects_reserves_and_close_completes_the_rest(void **state)
{
    (void)state;
    struct tested_op put, stats, reserve, held, late;
    open_fake(50000, LONG);
    submit(&put, BIDE_OP_PUT, 0);
    submit(&stats, BIDE_OP_STATS, 0);
    submit(&reserve, BIDE_OP_RESERVE, BIDE_FOREVER);
    AWAIT(reserve.starts == 1);
    SET(fake->holds = true);
    submit(&held, BIDE_OP_RESERVE, BIDE_FOREVER);
    fake->remote.ops.shutdown(&fake->remote.base);
    ends(&held, BIDE_CLOSED, NULL);
    submit(&late, BIDE_OP_RESERVE, 0);
    assert_int_equal(late.op.status, BIDE_CLOSED);
    assert_int_equal(reserve.cancels, 1);

    /* The server replies to nothing: after connect_timeout all end. */
    fake->remote.ops.close(&fake->remote.base);
    assert_int_equal(put.op.status, BIDE_EUNKNOWN);
    assert_int_equal(stats.op.status, BIDE_CLOSED);
    assert_int_equal(reserve.op.status, BIDE_CLOSED);
    fake->remote.ops.free(&fake->remote.base);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(lost_ops_are_sent_again_unless_they_may_have_happened),
        cmocka_unit_test(cancelled_op_is_not_sent_again),
        cmocka_unit_test(query_that_breaks_every_connection_fails),
        cmocka_unit_test(ops_without_a_connection_expire),
        cmocka_unit_test(limits_are_enforced),
        cmocka_unit_test(silent_server_is_pinged_and_then_left),
        cmocka_unit_test(shutdown_rejects_reserves_and_close_completes_the_rest),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
