/* SPDX-License-Identifier: MIT */
#include "server/release.h"

#include "server/server_internal.h"
#include "util/clock.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define DEFERRED_MAX ((size_t)1 << 20)
#define RETRY_US     INT64_C(1000000) /* pause after a failure of the store */
#define BUSY_MIN_US  INT64_C(1000)    /* first pause while the queue is full; it doubles, */
#define BUSY_MAX_US  INT64_C(128000)  /* up to this */
#define SLICE        256              /* deferred leases given back with one submit, */
#define SLICE_TIME   1000             /* and the time in us for all of them in a pass */

/* A lease to give back when the queue is not throttled any more. */
struct deferred_release {
    uint64_t id;
    uint64_t token;
    bool failed;
};

/* A release in flight. */
struct release_op {
    struct server_op base;
    bide_op op;
};

/* ---- deferred releases ---- */

/* Makes room for one more entry: moves the entries to the front, or doubles the array. */
static bool grow_deferred(struct releases *releases)
{
    if (releases->first > releases->room / 2) {
        memmove(releases->deferred, releases->deferred + releases->first,
                releases->count * sizeof(*releases->deferred));
        releases->first = 0;
        return true;
    }

    size_t room = releases->room == 0 ? 256 : releases->room * 2;
    struct deferred_release *deferred =
        room > DEFERRED_MAX ? NULL : realloc(releases->deferred, room * sizeof(*deferred));
    if (deferred == NULL)
        return false;

    releases->deferred = deferred;
    releases->room = room;
    return true;
}

/* Without room the lease is dropped; the ttr of its job ends it. */
static void defer(struct server *server, struct deferred_release lease)
{
    struct releases *releases = &server->releases;

    /* Set also without connections to resume: resume_throttled() submits deferred releases. */
    server->throttled = true;

    if (releases->first + releases->count < releases->room || grow_deferred(releases))
        releases->deferred[releases->first + releases->count++] = lease;
}

/* ---- retries ---- */

/* Without memory for the timer, the loop wakes within a second anyway: on_idle(). */
static void arm_retry_timer(struct server *server)
{
    int64_t left = server->releases.retry_at - bi_clock_boot();
    struct timeval after = {.tv_sec = left / 1000000, .tv_usec = left % 1000000};
    if (left > 0)
        evtimer_add(&server->releases.retry_timer, &after);
}

/* Wakes the loop, whose turn submits the deferred releases. The clock of libevent is coarse: the
 * timer may fire before retry_at. */
static void on_retry(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    arm_retry_timer(arg);
}

void bi_release_init(struct server *server)
{
    evtimer_assign(&server->releases.retry_timer, server->base, on_retry, server);
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

/* ---- releases in flight ---- */

static void on_pending(struct server_op *server_op)
{
    bi_batch_count_change(server_op, NULL);
}

static void on_completed(struct server_op *server_op)
{
    struct release_op *release = (struct release_op *)(void *)server_op;
    struct server *server = server_op->server;
    int status = release->op.status;
    struct deferred_release lease = {release->op.lease.id, release->op.lease.token,
                                     release->op.kind == BIDE_OP_FAIL};

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

static const struct server_op_type release_type = {on_pending, on_completed};

static void submit(struct server *server, struct deferred_release lease)
{
    struct release_op *release = calloc(1, sizeof(*release));
    if (release == NULL)
        return; /* the ttr of the job ends the lease */

    release->base = (struct server_op){.type = &release_type, .server = server, .op = &release->op};
    release->op.kind = lease.failed ? BIDE_OP_FAIL : BIDE_OP_GIVE_BACK;
    if (lease.failed)
        release->op.fail = (bide_fail_args){.id = lease.id,
                                            .token = lease.token,
                                            .error = {"the connection was lost", 23},
                                            .retry_in_ms = BIDE_KEEP};
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

bool bi_release_is_immediate(const struct server *server)
{
    return server->releases.count == 0 && has_room(server);
}

void bi_release_lease(struct server *server, uint64_t id, uint64_t token, bool failed)
{
    struct deferred_release lease = {id, token, failed};
    assert(token != 0);

    if (bi_release_is_immediate(server))
        submit(server, lease);
    else
        defer(server, lease);
}

bool bi_release_has_due(const struct server *server)
{
    return server->releases.count > 0 && server->now >= server->releases.retry_at &&
           has_room(server);
}

void bi_release_submit_deferred(struct server *server)
{
    struct releases *releases = &server->releases;
    int64_t end = server->now + SLICE_TIME;
    bool rejected = false;

    while (!rejected && server->now < end && bi_release_has_due(server)) {
        size_t count = releases->count < SLICE ? releases->count : SLICE;
        size_t left = releases->count - count;

        for (size_t i = 0; i < count; i++) {
            struct deferred_release lease = releases->deferred[releases->first++];
            releases->count--;
            submit(server, lease);
        }

        /* Rejected releases are appended again. Stop then: the rest would be rejected as well. */
        bi_batch_flush(server);
        rejected = releases->count > left;
    }
    if (releases->count > 0)
        return;

    free(releases->deferred);
    releases->deferred = NULL;
    releases->first = releases->room = 0;
}
