/* SPDX-License-Identifier: MIT */
#include "server/release.h"

#include "server/server_internal.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>

#define FIRST_US     500  /* time of the first slice, when a connection ends, */
#define CONNS_US     1000 /* of the slice of all ended connections in a turn, */
#define DEFERRED_US  1000 /* and of that of the deferred leases */
#define SLICE        256  /* deferred leases given back with one submit */
#define BLOCK_SIZE   256  /* deferred leases in one allocation */
#define DEFERRED_MAX ((size_t)1 << 20)
#define RETRY_US     INT64_C(1000000) /* pause after a failure of the store */
#define BUSY_MIN_US  INT64_C(1000)    /* first pause while the queue is full; it doubles, */
#define BUSY_MAX_US  INT64_C(128000)  /* up to this */

/* A lease to give back when the queue is not throttled any more. */
struct deferred_release {
    uint64_t id, token;
    bool failed;
};

/* Deferred leases from `first` to `end`. Only the last block may have room behind its end. */
struct release_block {
    TAILQ_ENTRY(release_block) next;
    size_t first, end;
    struct deferred_release leases[BLOCK_SIZE];
};

/* ---- connections ---- */

static void free_conn(struct conn *conn)
{
    struct server *server = conn->server;
    assert(conn->closed && server->connections > 0);
    for (int list = 0; list < CONN_LISTS; list++)
        assert(!bi_conn_is_in(conn, (enum conn_list)list));

    conn->protocol->forget(conn);
    server->connections--;
    free(conn);
}

/* Releases until `end`. What is left is enqueued. */
static void release_slice(struct conn *conn, int64_t end)
{
    if (!conn->protocol->release(conn, end))
        bi_conn_enqueue(conn, LIST_RELEASING, &conn->server->releases.conns);
    else if (conn->closed)
        free_conn(conn);
}

void bi_release_conn(struct conn *conn)
{
    assert(conn->closed || conn->lingering);

    /* A lingering connection is released before it is closed. */
    if (bi_conn_is_in(conn, LIST_RELEASING))
        return;

    conn->failed = !conn->server->stopping;
    release_slice(conn, conn->server->now + FIRST_US);
}

void bi_release_continue(struct server *server)
{
    struct conn *conn;
    int64_t end = server->now + CONNS_US;

    while ((conn = server->releases.conns.head) != NULL && server->now < end &&
           bi_release_is_immediate(server)) {
        bi_conn_dequeue(conn, LIST_RELEASING);
        release_slice(conn, end);
    }
}

/* ---- deferred leases ---- */

/* Without memory the lease is dropped; the ttr of its job ends it. */
static void defer(struct server *server, struct deferred_release lease)
{
    struct releases *releases = &server->releases;
    struct release_block *block = TAILQ_LAST(&releases->blocks, release_blocks);

    if (releases->count == DEFERRED_MAX)
        return;
    if (block == NULL || block->end == BLOCK_SIZE) {
        block = malloc(sizeof(*block));
        if (block == NULL)
            return;
        block->first = block->end = 0;
        TAILQ_INSERT_TAIL(&releases->blocks, block, next);
    }

    block->leases[block->end++] = lease;
    releases->count++;
}

/* Removes and returns the first of the deferred leases. */
static struct deferred_release take_deferred(struct releases *releases)
{
    struct release_block *block = TAILQ_FIRST(&releases->blocks);
    assert(releases->count > 0 && block->first < block->end);

    struct deferred_release lease = block->leases[block->first++];
    releases->count--;
    if (block->first == block->end) {
        TAILQ_REMOVE(&releases->blocks, block, next);
        assert(TAILQ_FIRST(&releases->blocks) != block); /* clang's analyzer cannot infer this */
        free(block);
    }
    return lease;
}

/* Without memory for the timer, the loop wakes within a second anyway: on_idle(). */
static void arm_retry_timer(struct server *server)
{
    int64_t left = server->releases.retry_at - bi_clock_boot();
    if (left > 0)
        bi_server_add_timer(&server->releases.retry_timer, left);
}

/* Wakes the loop, whose turn submits the deferred releases. The clock of libevent is coarse: the
 * timer may fire before retry_at. */
static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    arm_retry_timer(arg);
}

/* Deferred releases pause after a rejected one: a full queue may stay full, and without a pause
 * each round of the loop would submit them again. */
static void pause_retries(struct server *server, bool busy)
{
    struct releases *releases = &server->releases;

    if (!busy) {
        releases->retry_at = server->now + RETRY_US;
    } else if (server->now >= releases->retry_at) { /* one pause for all that were rejected now */
        int64_t pause = releases->busy_pause * 2;
        pause = pause < BUSY_MIN_US ? BUSY_MIN_US : pause > BUSY_MAX_US ? BUSY_MAX_US : pause;
        releases->busy_pause = pause;
        releases->retry_at = server->now + pause;
    }
    arm_retry_timer(server);
}

/* ---- leases in flight ---- */

static void on_completed(struct server_op *server_op)
{
    struct internal_op *release = (struct internal_op *)(void *)server_op;
    struct server *server = server_op->server;
    int status = release->op.status;
    struct deferred_release lease = {.id = release->op.lease.id,
                                     .token = release->op.lease.token,
                                     .failed = release->op.kind == BIDE_OP_FAIL};

    assert(server->releases.in_flight > 0);
    server->releases.in_flight--;
    free(release);
    if (status != BIDE_EBUSY)
        server->releases.busy_pause = 0;
    if (status >= BIDE_OK || status == BIDE_EINVAL)
        return;

    /* When the time of a stop is over and the store is full or broken, the lease is left to the
     * next start. */
    if (status != BIDE_EBUSY && server->stop_forced)
        return;
    pause_retries(server, status == BIDE_EBUSY);
    defer(server, lease);
}

static const struct server_op_type release_type = {NULL, on_completed};

static void submit(struct server *server, struct deferred_release lease)
{
    struct internal_op *release = bi_batch_new_op(server, &release_type);
    if (release == NULL)
        return; /* the ttr of the job ends the lease */

    release->op.kind = lease.failed ? BIDE_OP_FAIL : BIDE_OP_GIVE_BACK;
    if (lease.failed)
        release->op.fail = (bide_fail_args){.id = lease.id,
                                            .token = lease.token,
                                            .error = {"the connection was lost", 23},
                                            .retry_in_ms = BIDE_KEEP,
                                            .kind = BIDE_FAILURE_DISCONNECTED};
    else
        release->op.lease = (bide_lease_args){lease.id, lease.token};

    server->releases.in_flight++;
    bi_batch_submit(&release->base);
}

static bool has_room(const struct server *server)
{
    return server->releases.in_flight < server->releases.in_flight_max &&
           !bi_batch_must_throttle(&server->batch);
}

static bool has_due(const struct server *server)
{
    return server->releases.count > 0 && server->now >= server->releases.retry_at &&
           has_room(server);
}

void bi_release_lease(struct server *server, uint64_t id, uint64_t token, bool failed)
{
    struct deferred_release lease = {.id = id, .token = token, .failed = failed};
    assert(token != 0);

    if (bi_release_is_immediate(server))
        submit(server, lease);
    else
        defer(server, lease);
}

void bi_release_submit_deferred(struct server *server)
{
    struct releases *releases = &server->releases;
    int64_t end = server->now + DEFERRED_US;
    bool rejected = false;

    while (!rejected && server->now < end && has_due(server)) {
        size_t count = releases->count < SLICE ? releases->count : SLICE;
        size_t left = releases->count - count;

        for (size_t i = 0; i < count; i++)
            submit(server, take_deferred(releases));

        /* Rejected releases are appended again. Stop then: the rest would be rejected as well. */
        bi_batch_flush(server);
        rejected = releases->count > left;
    }
}

/* ---- state ---- */

bool bi_release_is_immediate(const struct server *server)
{
    return server->releases.count == 0 && has_room(server);
}

bool bi_release_has_work(const struct server *server)
{
    return (server->releases.conns.head != NULL && bi_release_is_immediate(server)) ||
           has_due(server);
}

bool bi_release_is_complete(const struct server *server)
{
    return server->releases.conns.head == NULL && server->releases.count == 0;
}

void bi_release_init(struct server *server)
{
    struct releases *releases = &server->releases;
    const struct batch *batch = &server->batch;

    evtimer_assign(&releases->retry_timer, server->base, on_retry, server);
    TAILQ_INIT(&releases->blocks);

    /* Releases alone must not throttle the clients; at least one is always allowed. */
    releases->in_flight_max = batch->bulk_uncommitted_max > batch->uncommitted_max / 2
                                  ? batch->uncommitted_max / 2 + 1
                                  : batch->bulk_uncommitted_max;
    assert(releases->in_flight_max > 0);
}

void bi_release_done(struct server *server)
{
    struct conn *conn;

    /* Leases of sessions are not given back any more: the time of the stop is over. */
    while ((conn = server->releases.conns.head) != NULL) {
        bi_conn_dequeue(conn, LIST_RELEASING);
        conn->protocol->discard(conn);
        free_conn(conn);
    }

    /* Dropped replies give back their leases. A release that is rejected now is deferred once
     * more. */
    bi_batch_flush(server);
    while (server->releases.count > 0)
        take_deferred(&server->releases);
}
