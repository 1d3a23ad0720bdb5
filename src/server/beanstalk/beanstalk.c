/* SPDX-License-Identifier: MIT */
/*
 * beanstalk - the functions that the server calls: start, open, close and release.
 *
 * Ordering   A closed connection releases its calls, then replies to reserve-many that were not
 *            sent, then jobs in the order of their reservations, then tubes.
 */
#include "server/beanstalk/beanstalk.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define FEW_LEASES 1000 /* leases that may be deferred while the queue is throttled */
#define JOB_WORK   4    /* units of work: a job, */
#define TUBE_WORK  4    /* and a tube */

/* ---- the protocol in a server ---- */

/* A queue that is full, because its limits were lowered, is served without the reference: consumers
 * must be able to empty it. */
static int acquire_default_tube(struct beanstalk *beanstalk, char *error)
{
    static const bide_slice name = {"default", 7};
    int code = bide_topic_ref(beanstalk->server->queue, "default", 1);
    if (code != BIDE_OK && code != BIDE_TOO_MANY_TOPICS && code != BIDE_EFULL)
        return bi_error_set(error, code, "%s", bide_last_error());

    beanstalk->default_tube = bi_tubes_acquire(&beanstalk->tubes, name);
    if (beanstalk->default_tube == NULL)
        return BIDE_ENOMEM;
    beanstalk->default_tube->referenced = code == BIDE_OK;
    return BIDE_OK;
}

static void stop(void *state)
{
    struct beanstalk *beanstalk = state;

    bi_request_free_spare(beanstalk);
    bi_tubes_done(&beanstalk->tubes);
    bi_tubes_done(&beanstalk->orphans);
    bi_op_codec_wire_free_bytes(&beanstalk->rpc_reply);
    free(beanstalk);
}

static int start(struct server *server, void **state_out, char *error)
{
    struct beanstalk *beanstalk = calloc(1, sizeof(*beanstalk));
    if (beanstalk == NULL)
        return BIDE_ENOMEM;

    /* Clients choose the names and ids in these tables: the hash is keyed against chosen
     * collisions. */
    struct bi_hash_secret secret;
    bi_keyed_hash_generate_secret(&secret);
    beanstalk->server = server;
    STAILQ_INIT(&beanstalk->spare);
    beanstalk->lease_hash_seed = bi_keyed_hash_derive_secret(&secret, 1).key[0];
    bi_tubes_init(&beanstalk->tubes, &secret);
    bi_tubes_init(&beanstalk->orphans, &secret);

    int code = acquire_default_tube(beanstalk, error);
    if (code != BIDE_OK) {
        stop(beanstalk);
        return code;
    }
    *state_out = beanstalk;
    return BIDE_OK;
}

static void assert_released(const void *state)
{
    const struct beanstalk *beanstalk = state;
    assert(beanstalk->producers == 0 && beanstalk->workers == 0);
    assert(beanstalk->waiter_count == 0 && beanstalk->topic_refs == 0);
    assert(beanstalk->orphans.count == 0);
    (void)beanstalk;
}

/* ---- a connection ---- */

/* A new connection uses and watches the tube "default", which exists as long as the server. */
static bool open(struct conn *base)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);
    struct beanstalk *beanstalk = base->protocol_state;
    struct tube *tube = beanstalk->default_tube;

    if (!bi_session_reserve_tube(&conn->session)) {
        bi_session_done(&conn->session);
        return false;
    }

    STAILQ_INIT(&conn->pipeline);
    STAILQ_INIT(&conn->unsent_many);
    STAILQ_INIT(&conn->unreplied);
    STAILQ_INIT(&conn->unsent);
    conn->beanstalk = beanstalk;
    conn->session.used = tube;
    conn->session.hash_seed = beanstalk->lease_hash_seed;
    tube->users++;
    tube->watchers++;
    tube->ref_count += 2;
    bi_session_add_tube(&conn->session, tube);
    return true;
}

static void reply(struct conn *conn, enum admission_reply reply)
{
    bi_request_reply(bi_beanstalk_conn(conn), conn->protocol->admission_text[reply]);
}

static void written(struct conn *conn)
{
    bi_rpc_reply_flush(bi_beanstalk_conn(conn));
    bi_beanstalk_sent(bi_beanstalk_conn(conn));
}

static void on_alarm(struct conn *base)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);
    struct request *head = STAILQ_FIRST(&conn->pipeline);
    if (head == NULL)
        return;

    /* libevent's clock has a resolution of milliseconds. A timer that fires early is armed
     * again. */
    if (bi_beanstalk_jobs_is_deadline_soon(conn))
        bi_request_cancel(head, CANCEL_DEADLINE_SOON);
    else
        bi_beanstalk_jobs_arm_deadline(conn);
}

static size_t memory(const struct conn *base)
{
    const struct beanstalk_conn *conn = (const struct beanstalk_conn *)(const void *)base;
    return base->load.pipelined * sizeof(struct request) + conn->listing_bytes + conn->many_bytes +
           bi_session_memory(&conn->session) + bi_tubes_memory(&conn->topic_refs) +
           (conn->incoming == NULL ? 0 : sizeof(*conn->incoming));
}

static bool holds_lease(struct conn *conn)
{
    return bi_session_next_deadline(&bi_beanstalk_conn(conn)->session, conn->server->now) !=
           INT64_MAX;
}

/* ---- the end of a connection ---- */

static void detach(struct conn *base)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);
    bi_request_abandon_all(conn);
    bi_beanstalk_worker_closed(conn);
    bi_beanstalk_input_free(conn);
}

/* Gives back the job that was reserved first. False if there is none. */
static bool release_job(struct beanstalk_conn *conn)
{
    const struct lease *lease = bi_session_take_oldest_lease(&conn->session);
    if (lease == NULL)
        return false;

    /* The loss of a worker counts against the retry limit of a job; a stop of the server does
     * not. */
    bi_release_lease(conn->base.server, lease->id, lease->token,
                     lease->has_retry_limit && conn->base.failed);
    bi_fair_queue_count_work(conn->base.server, JOB_WORK);
    return true;
}

/* Releases the tube that was watched last, then the used one. False if there is none. */
static bool release_tube(struct beanstalk_conn *conn)
{
    struct session *session = &conn->session;
    struct tube *tube = session->used;

    if (session->watched_count > 0) {
        tube = session->watched[--session->watched_count];
        assert(tube->watchers > 0);
        tube->watchers--;
    } else if (tube != NULL) {
        session->used = NULL;
        assert(tube->users > 0);
        tube->users--;
    } else {
        return false;
    }

    bi_beanstalk_tube_release(conn->beanstalk, tube);
    bi_fair_queue_count_work(conn->base.server, TUBE_WORK);
    return true;
}

/* A connection with few leases is released while the queue is throttled, too; its leases are
 * deferred. Others wait: the list of deferred leases is bounded. */
static bool release(struct conn *base, int64_t end)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);

    while (bi_release_is_immediate(base->server) || conn->session.lease_count <= FEW_LEASES) {
        /* A lingering connection may still deliver the replies that carry leases. */
        bool dropped = base->closed && (bi_rpc_drop_one(conn) || bi_beanstalk_drop_unsent(conn));
        if (!dropped && !release_job(conn) && !release_tube(conn)) {
            bi_session_done(&conn->session);
            return true;
        }
        if (base->server->now >= end)
            return false;
    }
    return false;
}

static void discard(struct conn *base)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);

    while (bi_rpc_drop_one(conn) || bi_beanstalk_drop_unsent(conn) || release_tube(conn))
        continue;
    bi_session_done(&conn->session);
}

static void forget(struct conn *base)
{
    struct beanstalk_conn *conn = bi_beanstalk_conn(base);
    struct beanstalk *beanstalk = conn->beanstalk;
    assert(LIST_EMPTY(&conn->rpcs) && STAILQ_EMPTY(&conn->pipeline));
    assert(STAILQ_EMPTY(&conn->unsent_many) && STAILQ_EMPTY(&conn->unsent));
    assert(conn->incoming == NULL && conn->session.used == NULL);
    assert(beanstalk->producers >= conn->producer && beanstalk->workers >= conn->worker);

    beanstalk->producers -= conn->producer;
    beanstalk->workers -= conn->worker;
    bide_buf_unref(conn->name);
    bide_buf_unref(conn->holder);
}

const struct protocol bi_beanstalk_protocol = {
    .name = "beanstalk",
    .conn_size = sizeof(struct beanstalk_conn),
    .admission_text =
        {
            [ADMISSION_TOO_MANY] = "OUT_OF_MEMORY\r\n",
            [ADMISSION_AUTH_REQUIRED] = "AUTH_REQUIRED\r\n",
            [ADMISSION_AUTHENTICATED] = "AUTHENTICATED\r\n",
            [ADMISSION_WRONG_SECRET] = "NOT_AUTHENTICATED\r\n",
        },
    .start = start,
    .stop = stop,
    .assert_released = assert_released,
    .open = open,
    .consume = bi_beanstalk_input_consume,
    .reject_body = bi_beanstalk_input_reject_body,
    .reply = reply,
    .written = written,
    .on_alarm = on_alarm,
    .cancel_waiting = bi_request_cancel_waiting,
    .wind_down = bi_rpc_cancel_waiting,
    .memory = memory,
    .holds_lease = holds_lease,
    .close = detach,
    .release = release,
    .discard = discard,
    .forget = forget,
};
