/* SPDX-License-Identifier: MIT */
/*
 * server - the event loop: batches, completions, accepting, signals, timeouts, start and stop.
 *
 * A round of the loop polls the sockets, reads queued connections, releases a slice of closed ones,
 * and ends with a turn: submit, drain completions, execute, write, commit. admission.c decides
 * which clients are served, schedule.c the order of the connections.
 *
 * Failure    A timer that cannot be added for lack of memory is made up for by on_idle(), whose
 *            timer exists from the start.
 */
#define _GNU_SOURCE /* accept4 */
#include "queue/queue.h"
#include "server/server_internal.h"
#include "util/clock.h"

#include <assert.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <unistd.h>

#define ACCEPT_MAX          64                /* connections accepted per listener and round */
#define PASSES_MAX          64                /* of a turn, before outputs are written again */
#define ACCEPT_RETRY_US     100000            /* pause without file descriptors */
#define ACCEPT_LOG_US       INT64_C(10000000) /* between two log lines about that */
#define MEMORY_SHORT_US     INT64_C(2000000)  /* memory counts as short after a rejected command */
#define OVERDUE_US          INT64_C(5000000) /* limit of a partial command while memory is short, */
#define BODY_PACE           8192 /* extended by a second per this many bytes of a body */
#define STOP_COMMIT_US      INT64_C(1000000) /* least time for the last commits of a stop */
#define IDLE_CHECK_MS       1000
#define DRAIN_MAX           4096 /* completions in a pass */
#define BULK_COMMITS        4    /* that bulk senders may fill before they are not read */
#define SINGLE_COMMIT_TURNS 4    /* single changes in a row, before the loop commits itself */
#define UNCOMMITTED_SHARE   4    /* a fourth of the queue's limits is left free */

/* ---- batch ---- */

void bi_server_submit(struct server *server, bide_op *op)
{
    if (server->batch_count == BATCH_MAX || server->batch_topics >= BATCH_TOPICS ||
        server->batch_slow)
        bi_server_flush(server);

    server->batch[server->batch_count++] = op;
    server->batch_topics += bi_op_codec_topic_count(op);
    server->batch_slow = bi_op_codec_is_slow(op);
}

/* The queue has applied the request; only its completion waits for a commit. The commands behind it
 * may execute. A reserve stays marked: its jobs enter the session with the reply, and commands that
 * may name one of them wait until then (conn->stalled). */
static void unblock(struct request *request)
{
    struct conn *conn = request->conn;
    if (conn == NULL || !request->blocking)
        return;

    assert(conn->blocking_count > 0);
    request->blocking = false;
    conn->blocking_count--;
    request->applied = bi_request_reserves(request);
    conn->applied += request->applied;
}

/* Accounts for an op that did not complete synchronously. */
static void count_pending(struct server *server, struct request *request)
{
    if (request->speculative && request->conn != NULL)
        request->conn->speculative--;
    request->speculative = false;
    if (request->op.applied)
        unblock(request);

    /* An op that waits for an event is not a change that waits for a commit. */
    if (request->counted || (bi_request_waits(request) && !request->op.applied))
        return;
    request->counted = true;
    request->bulk = bi_schedule_add_uncommitted(server, request->conn, request->bytes);
}

static void submit(struct server *server, bide_op **ops, size_t count)
{
    int pending = bide_submit(server->queue, ops, count);
    server->submitted = true;

    /* Read after the submit: the leases that it has granted count from an earlier time, so an end
     * that the session computes from now is never early. */
    server->now = bi_clock_boot();
    assert(pending >= 0);

    for (size_t i = 0; i < count; i++) {
        if (ops[i]->status != BIDE_PENDING)
            ops[i]->done(ops[i]);
        else if (ops[i]->user == NULL)
            count_pending(server, (struct request *)(void *)ops[i]);
        else
            bi_rpc_pending(ops[i]);
    }
}

void bi_server_flush(struct server *server)
{
    while (server->batch_count > 0) {
        bide_op *ops[BATCH_MAX];
        size_t count = server->batch_count;

        /* Copied, because done() may submit further ops to the batch. */
        memcpy(ops, server->batch, count * sizeof(bide_op *));
        server->batch_count = server->batch_topics = 0;
        server->batch_slow = false;

        submit(server, ops, count);
    }
}

bool bi_server_must_throttle(const struct server *server)
{
    return server->uncommitted + server->batch_count >= server->uncommitted_max ||
           server->uncommitted_bytes >= server->uncommitted_bytes_max;
}

/* ---- client memory ---- */

bool bi_server_has_memory(struct server *server, const struct conn *conn, size_t size, size_t more)
{
    uint64_t max = server->limits.max_client_bytes;
    if (size > BODY_SMALL)
        max -= max / 4;

    /* A connection that uses all of the memory is not rejected: no other connection could free
     * any. */
    if (server->client_bytes + more <= max || server->client_bytes <= conn->memory)
        return true;

    server->memory_short_until = server->now + MEMORY_SHORT_US;
    return false;
}

bool bi_server_is_memory_short(const struct server *server)
{
    return server->client_bytes > server->limits.max_client_bytes ||
           server->now < server->memory_short_until;
}

/* ---- turn ---- */

/* Resumes deferred releases and throttled connections when the queue has room again. */
static void resume_throttled(struct server *server)
{
    if (!server->throttled || bi_server_must_throttle(server))
        return;

    /* Leases of closed connections first; they may throttle the queue again. */
    bi_request_submit_deferred_releases(server);
    if (bi_server_must_throttle(server))
        return;

    server->throttled = server->deferred_count > 0;
    if (!server->conns_throttled)
        return;

    /* The only walk over all connections in a turn. */
    server->conns_throttled = false;
    for (struct conn *conn = server->first; conn != NULL; conn = conn->next) {
        if (!conn->throttled)
            continue;
        conn->throttled = false;
        bi_schedule_enqueue_run(conn);
    }
}

static bool is_busy(const struct server *server)
{
    return bi_schedule_has_runnable(server) || bi_schedule_has_dirty(server) ||
           server->batch_count > 0;
}

/*
 * Commits what was submitted since the last call. While the only client sends one change at a time,
 * the loop commits by itself: this saves two thread switches, and there is nothing else to do
 * meanwhile. Otherwise the commit thread commits, and the loop continues: other clients must not
 * wait for a disk that hangs. Returns true if the commit is complete.
 *
 * Every submit may leave a change to commit, even if all of its ops have completed: a job that is
 * given back goes to a waiting reserve, whose completion is then held for the commit.
 */
static bool begin_commit(struct server *server)
{
    if (!server->submitted)
        return false;

    server->submitted = false;
    server->single_commit_turns =
        server->uncommitted > 1 ? 0 : server->single_commit_turns + (unsigned)server->uncommitted;

    bool lead = server->connections == 1 && server->single_commit_turns >= SINGLE_COMMIT_TURNS;
    return bi_queue_commit(server->queue, lead);
}

static void turn(struct server *server)
{
    int64_t end = server->now + TURN_US;

    bi_request_submit_yielded(server);
    for (int i = 0; i < PASSES_MAX && server->now < end; i++) {
        /* The clock is read once for all completions of the drain. */
        bi_server_flush(server);
        server->now = bi_clock_boot();
        bide_cq_drain(server->cq, DRAIN_MAX);

        /* Replies of light connections are written before further input executes. */
        resume_throttled(server);
        bi_schedule_write_light(server, end);
        bi_schedule_run(server, end);

        /* The batch is empty after the flush, so no op borrows from the scratch memory. */
        bi_server_flush(server);
        server->scratch_at = 0;

        /* With several changes the commit thread works while the loop writes. A single change is
         * committed below, perhaps by the loop itself. */
        if (server->uncommitted > 1)
            begin_commit(server);
        if (!bi_schedule_has_runnable(server))
            bi_schedule_write(server, end);

        /* A commit by the loop has produced completions: another pass writes their replies. */
        if (!is_busy(server) && !begin_commit(server))
            return;
    }

    /* The time is over with connections still runnable: write the replies of all others. */
    bi_schedule_write(server, server->now + TURN_US);
    begin_commit(server);
}

/* ---- accepting ---- */

static void tell_deaf(struct server *server, int reason)
{
    if (server->now < server->accept_log_at)
        return;

    server->accept_log_at = server->now + ACCEPT_LOG_US;
    bi_log(&server->log, BIDE_LOG_WARN, "cannot accept a connection: %s", strerror(reason));
}

/* Adds the events of all listeners. If one cannot be added, on_idle() retries. */
static void open_doors(struct server *server)
{
    server->deaf = false;
    for (struct acceptor *acceptor = server->acceptors; acceptor != NULL;
         acceptor = acceptor->next) {
        if (event_add(&acceptor->event, NULL) == 0)
            continue;
        server->deaf = true;
        tell_deaf(server, errno);
    }
}

static void resume_accepting(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    open_doors(arg);
}

/* Without a descriptor for a connection, the level-triggered listener would wake the loop for ever.
 * All listeners are removed for ACCEPT_RETRY_US instead. */
static void pause_accepting(struct server *server, int reason)
{
    struct timeval after = {.tv_usec = ACCEPT_RETRY_US};

    tell_deaf(server, reason);
    for (struct acceptor *acceptor = server->acceptors; acceptor != NULL; acceptor = acceptor->next)
        event_del(&acceptor->event);
    server->deaf = evtimer_add(&server->accept_timer, &after) != 0;
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct acceptor *acceptor = arg;
    (void)what;

    for (int i = 0; i < ACCEPT_MAX; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int got = accept4(fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got >= 0) {
            bi_admission_accept(acceptor->server, got, &address);
            continue;
        }

        /* A client that disconnects before the accept (ECONNABORTED) does not end the loop. */
        int reason = errno;
        if (reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM)
            pause_accepting(acceptor->server, reason);
        if (reason != EINTR && reason != ECONNABORTED)
            return;
    }
}

int bi_server_listen(struct server *server, int fd)
{
    struct acceptor *acceptor = calloc(1, sizeof(*acceptor));
    if (acceptor == NULL)
        return BIDE_ENOMEM;

    /* Accepted connections inherit the options. On a unix socket they have no effect. */
    int one = 1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    evutil_make_socket_nonblocking(fd);

    acceptor->server = server;
    acceptor->fd = fd;
    event_assign(&acceptor->event, server->base, fd, EV_READ | EV_PERSIST, on_accept, acceptor);
    acceptor->next = server->acceptors;
    server->acceptors = acceptor;
    return BIDE_OK;
}

static void close_acceptors(struct server *server)
{
    /* Neither the timer nor on_idle() may add the events again. */
    event_del(&server->accept_timer);
    server->deaf = false;

    while (server->acceptors != NULL) {
        struct acceptor *acceptor = server->acceptors;
        server->acceptors = acceptor->next;
        event_del(&acceptor->event);
        close(acceptor->fd);
        free(acceptor);
    }
}

/* ---- signals and timers ---- */

static void on_stop_timeout(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    server->stop_forced = true;
}

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;

    /* A second signal ends the wait for clients. */
    if (server->stopping) {
        server->stop_forced = true;
        return;
    }

    bi_log(&server->log, BIDE_LOG_INFO, "stopping: %u connection%s", server->connections,
           server->connections == 1 ? "" : "s");
    server->stopping = true;
    if (server->settings.stopping != NULL)
        server->settings.stopping(server->settings.user);

    /* Flush first: only a submitted op can be cancelled. */
    close_acceptors(server);
    bi_server_flush(server);
    for (struct conn *conn = server->first; conn != NULL; conn = conn->next)
        bi_conn_stop(conn);

    int64_t wait = server->limits.stop_timeout_ms;
    struct timeval after = {.tv_sec = wait / 1000, .tv_usec = wait % 1000 * 1000};
    server->stop_end = bi_clock_boot() + wait * 1000;
    if (evtimer_add(&server->stop_timer, &after) != 0)
        bi_log(&server->log, BIDE_LOG_WARN, "no timer for the end of the stop: %s",
               strerror(errno)); /* on_idle() tests stop_end, too */
}

static bool reply_drain(struct request *request)
{
    if (request->op.status != BIDE_OK)
        bi_log(&request->server->log, BIDE_LOG_ERROR, "cannot drain: %s", request->op.error);
    return true;
}

static void on_drain(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    struct request *request = bi_request_new(server, NULL, BIDE_OP_DRAIN, reply_drain);
    if (request == NULL)
        return;

    bi_log(&server->log, BIDE_LOG_INFO, "draining: puts are refused from now on");
    request->op.drain = (bide_drain_args){true};
    bi_request_submit(request);
}

static void on_reload(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    if (server->settings.reload != NULL)
        server->settings.reload(server->settings.user);
}

/* A commit that takes longer than the watchdog interval hangs. The watchdog is not notified then,
 * so that the service manager restarts the server. */
static bool commit_stuck(struct server *server)
{
    int64_t age = bi_queue_commit_age(server->queue);
    if (age < server->settings.watchdog_us) {
        server->commit_stuck = false;
        return false;
    }

    if (!server->commit_stuck)
        bi_log(
            &server->log, BIDE_LOG_ERROR,
            "a commit or checkpoint has taken %lld s or more and does not end: the watchdog is not "
            "told that bided is alive",
            (long long)(age / 1000000));
    server->commit_stuck = true;
    return true;
}

static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    if (!commit_stuck(server))
        server->settings.alive(server->settings.user);
}

static void on_completion(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg; /* only wakes the loop; the turn drains the cq */
}

/* Tests idle_timeout, and the limits for clients that do not read or do not authenticate. */
static bool is_idle_too_long(struct conn *conn)
{
    const struct server *server = conn->server;
    int64_t limit = server->limits.idle_timeout_ms * 1000;
    if (bi_rpc_limit_is_stalled(conn) || bi_admission_is_auth_overdue(conn))
        return true;

    /* A connection that holds a job is not idle. */
    bool idle = bi_conn_is_idle(conn) && conn->run_queue == NULL && conn->read_queue == NULL &&
                bi_session_next_deadline(&conn->session, server->now) == INT64_MAX;
    if (!idle)
        conn->last_active_at = server->now;

    return limit != 0 && server->now - conn->last_active_at >= limit;
}

/* While memory is short, a body must arrive at BODY_PACE: a slow one holds memory for which other
 * clients are rejected. */
static bool is_body_too_slow(const struct conn *conn)
{
    const struct server *server = conn->server;
    const struct incoming *incoming = conn->incoming;
    if (incoming == NULL || !bi_server_is_memory_short(server))
        return false;

    int64_t due_us = (int64_t)(incoming->got / BODY_PACE) * 1000000;
    return server->now - incoming->body_started_at > OVERDUE_US + due_us;
}

/* Tests command_timeout for a partial command. The timeout is at most OVERDUE_US while memory is
 * short. */
static bool is_command_overdue(struct conn *conn)
{
    struct server *server = conn->server;
    int64_t limit = server->limits.command_timeout_ms * 1000;

    /* The timeouts restart while the server itself does not read the connection. */
    if (limit == 0 || !bi_conn_has_partial_command(conn)) {
        conn->last_received_at = server->now;
        if (conn->incoming != NULL)
            conn->incoming->body_started_at = server->now;
        return false;
    }

    bool tight = server->client_bytes > server->limits.max_client_bytes / 2 ||
                 bi_server_is_memory_short(server);
    if (tight && limit > OVERDUE_US)
        limit = OVERDUE_US;

    bool body_too_slow = is_body_too_slow(conn);
    if (server->now - conn->last_received_at < limit && !body_too_slow)
        return false;

    char peer[PEER_SIZE];
    uint64_t count = bi_log_limit_hit(&server->overdue_log, server->now);
    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN,
               "the connection from %s is closed: it has sent a part of a command, and %s "
               "for %lld s (command_timeout); %llu such connections so far",
               bi_conn_format_peer(conn, peer), body_too_slow ? "little more" : "nothing more",
               (long long)((server->now - (body_too_slow ? conn->incoming->body_started_at
                                                         : conn->last_received_at)) /
                           1000000),
               (unsigned long long)count);
    return true;
}

/* Checks the timeouts of all connections, once a second. Its timer exists from the start; it also
 * does the work of timers that could not be added for lack of memory. */
static void on_idle(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;

    if (server->deaf)
        open_doors(server);
    if (server->stopping && bi_clock_boot() >= server->stop_end)
        server->stop_forced = true;

    for (struct conn *conn = server->first; conn != NULL; conn = conn->next) {
        bi_conn_look_again(conn);
        if (conn->lingering || (!is_command_overdue(conn) && !is_idle_too_long(conn)))
            continue;

        /* Closed at the end of the turn, as closing here would unlink it from this list. */
        conn->dead = true;
        bi_schedule_mark_dirty(conn);
    }
}

/* ---- start and stop ---- */

static void generate_id(struct server *server)
{
    unsigned char bytes[8] = {0};

    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes))
        memcpy(bytes, &server->started, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(server->id + 2 * i, 3, "%02x", bytes[i]);
}

static void derive_limits(struct server *server, const bide_options *options)
{
    uint64_t ops = options->max_pending_ops == 0 ? 100000 : options->max_pending_ops;
    uint64_t bytes =
        options->max_pending_bytes == 0 ? (uint64_t)64 << 20 : options->max_pending_bytes;
    server->uncommitted_max = ops - ops / UNCOMMITTED_SHARE;
    server->uncommitted_bytes_max = bytes - bytes / UNCOMMITTED_SHARE;

    uint64_t batch_jobs = options->batch_jobs == 0 ? 1000 : options->batch_jobs;
    uint64_t batch_bytes = options->batch_bytes == 0 ? (uint64_t)8 << 20 : options->batch_bytes;
    server->bulk_uncommitted_max = BULK_COMMITS * batch_jobs;
    server->bulk_uncommitted_bytes_max = BULK_COMMITS * batch_bytes;

    /* Releases alone must not throttle the clients; at least one is always allowed. */
    server->releases_in_flight_max = server->bulk_uncommitted_max;
    if (server->releases_in_flight_max > server->uncommitted_max / 2)
        server->releases_in_flight_max = server->uncommitted_max / 2 + 1;

    server->max_job_size = options->max_job_size == 0 ? 65535 : options->max_job_size;
    server->max_result_size = options->max_result_size == 0 ? 65536 : options->max_result_size;
    server->max_error_size = options->max_error_size == 0 ? 1024 : options->max_error_size;
    server->max_topics = options->max_topics == 0 ? 1000000 : options->max_topics;
    server->max_waiters = options->max_waiters == 0 ? 100000 : options->max_waiters;
}

/* A queue that is full, because its limits were lowered, is served without the reference: consumers
 * must be able to empty it. */
static int acquire_default_tube(struct server *server, char *error)
{
    static const bide_slice name = {"default", 7};
    int code = bide_topic_ref(server->queue, "default", 1);
    if (code != BIDE_OK && code != BIDE_TOO_MANY_TOPICS && code != BIDE_EFULL) {
        snprintf(error, BIDE_ERROR_SIZE, "%s", bide_last_error());
        return code;
    }

    server->default_tube = bi_tubes_acquire(&server->tubes, name);
    if (server->default_tube == NULL)
        return BIDE_ENOMEM;
    server->default_tube->referenced = code == BIDE_OK;
    return BIDE_OK;
}

static bool start_watchdog(struct server *server)
{
    int64_t interval_us = server->settings.watchdog_us / 3; /* two of them may be late */
    struct timeval every = {.tv_sec = interval_us / 1000000, .tv_usec = interval_us % 1000000};
    event_assign(&server->watchdog_timer, server->base, -1, EV_PERSIST, on_watchdog, server);
    return interval_us <= 0 || server->settings.alive == NULL ||
           event_add(&server->watchdog_timer, &every) == 0;
}

static bool assign_events(struct server *server)
{
    struct timeval second = {.tv_sec = IDLE_CHECK_MS / 1000};
    struct event_base *base = server->base;
    event_assign(&server->cq_event, base, bide_cq_fd(server->cq), EV_READ | EV_PERSIST,
                 on_completion, server);
    evsignal_assign(&server->term, base, SIGTERM, on_stop, server);
    evsignal_assign(&server->interrupt, base, SIGINT, on_stop, server);
    evsignal_assign(&server->usr1, base, SIGUSR1, on_drain, server);
    evsignal_assign(&server->hup, base, SIGHUP, on_reload, server);
    event_assign(&server->idle_timer, base, -1, EV_PERSIST, on_idle, server);
    evtimer_assign(&server->stop_timer, base, on_stop_timeout, server);
    evtimer_assign(&server->accept_timer, base, resume_accepting, server);

    return event_add(&server->cq_event, NULL) == 0 && event_add(&server->term, NULL) == 0 &&
           event_add(&server->interrupt, NULL) == 0 && event_add(&server->usr1, NULL) == 0 &&
           event_add(&server->hup, NULL) == 0 && event_add(&server->idle_timer, &second) == 0 &&
           start_watchdog(server);
}

void bi_server_set_limits(struct server *server, const struct server_limits *limits)
{
    server->limits = *limits;
    if (limits->max_waiters_per_connection == 0)
        server->limits.max_waiters_per_connection = UINT32_MAX;
    if (limits->max_tubes_per_connection == 0)
        server->limits.max_tubes_per_connection = BIDE_RESERVE_TOPICS;
    if (limits->max_feeds_per_connection == 0)
        server->limits.max_feeds_per_connection = BIDE_SUBSCRIPTIONS_MAX;
}

int bi_server_new(const struct server_settings *settings, struct server **out, char *error)
{
    struct server *server = calloc(1, sizeof(*server));
    int code = BIDE_ENOMEM;
    snprintf(error, BIDE_ERROR_SIZE, "the server has no memory to begin with");
    if (server == NULL)
        return code;

    server->settings = *settings;
    server->queue = settings->queue;
    server->log = settings->log;
    bi_server_set_limits(server, &settings->limits);
    server->started = server->now = bi_clock_boot();
    derive_limits(server, &settings->options);
    generate_id(server);

    /* Clients choose the names and ids in these tables: the hash is keyed against chosen
     * collisions. */
    struct bi_hash_secret secret;
    bi_keyed_hash_generate_secret(&secret);
    server->lease_hash_seed = bi_keyed_hash_derive_secret(&secret, 1).key[0];
    bi_tubes_init(&server->tubes, &secret);
    bi_tubes_init(&server->orphans, &secret);

    server->scratch = malloc(SCRATCH_SIZE);
    server->base = event_base_new();
    if (server->scratch != NULL && server->base != NULL && bi_admission_init(&server->admission))
        code = bide_cq_new(&server->cq);
    if (code == BIDE_OK && !assign_events(server))
        code = BIDE_ESYSTEM;
    if (code == BIDE_OK)
        code = acquire_default_tube(server, error);
    if (code != BIDE_OK) {
        bi_server_free(server);
        return code;
    }

    *out = server;
    return BIDE_OK;
}

/* A stop is complete when all connections are closed and released, and no op is in flight. */
static bool is_stopped(const struct server *server)
{
    return server->stopping && server->first == NULL && server->releasing.head == NULL &&
           server->in_flight == 0 && server->deferred_count == 0;
}

static void close_conns(struct server *server)
{
    /* Empty the queues at once: removing each connection from the dirty queue takes O(n). */
    for (struct conn *conn = server->first; conn != NULL; conn = conn->next) {
        conn->dirty = false;
        conn->run_queue = NULL;
    }
    memset(server->dirty, 0, sizeof(server->dirty));
    memset(server->run_queue, 0, sizeof(server->run_queue));
    memset(&server->deferred, 0, sizeof(server->deferred));

    while (server->first != NULL)
        bi_conn_close(server->first);
    bi_server_flush(server);
}

/* Leases or tubes of closed connections can be released now. */
static bool has_releases(const struct server *server)
{
    return bi_conn_close_has_more(server) || bi_request_has_due_releases(server);
}

/* Waits until all leases are given back and committed, at most for stop_timeout. The close of the
 * queue gets the same deadline. */
static void wait_for_releases(struct server *server)
{
    int64_t time = server->limits.stop_timeout_ms * 1000;
    int64_t end = bi_clock_boot() + (time > STOP_COMMIT_US ? time : STOP_COMMIT_US);
    bi_queue_set_close_deadline(server->queue, end);

    while (
        (server->in_flight > 0 || server->deferred_count > 0 || server->releasing.head != NULL) &&
        bi_clock_boot() < end) {
        /* No completion announces release_retry_at, so the wait is short. */
        bi_queue_commit(server->queue, false);
        bool more = has_releases(server) || server->yielded_head != NULL;
        bide_cq_wait(server->cq, more ? 0 : 100);
        server->now = bi_clock_boot();

        bi_request_submit_deferred_releases(server);
        bi_conn_close_continue(server);
        bi_request_submit_yielded(server);
        bi_server_flush(server);
    }
}

/* All counters of connections return to zero with the last of them. */
static void assert_all_released(const struct server *server)
{
    assert(server->connections == 0 && server->producers == 0 && server->workers == 0);
    assert(server->client_bytes == 0 && server->waiter_count == 0 && server->topic_refs == 0);
    assert(server->orphans.count == 0);
    assert(server->uncommitted == 0 && server->uncommitted_bytes == 0 &&
           server->releases_in_flight == 0);
    assert(server->bulk_uncommitted == 0 && server->bulk_uncommitted_bytes == 0);
    assert(server->admission.pending_count == 0 && server->admission.remote_count == 0);
    (void)server;
}

void bi_server_run(struct server *server)
{
    open_doors(server);
    if (server->settings.ready != NULL)
        server->settings.ready(server->settings.user);

    while (!is_stopped(server) && !server->stop_forced) {
        /* The last term enables notification before the loop sleeps, and returns true if an op has
         * completed since the last drain: no wakeup is lost. */
        bool busy = is_busy(server) || server->yielded_head != NULL ||
                    bi_schedule_has_readable(server) || has_releases(server) ||
                    bi_cq_enable_notify(server->cq);
        server->read_bytes = 0;
        server->next_clock_work = server->work; /* read the clock after the sleep */
        event_base_loop(server->base, EVLOOP_ONCE | (busy ? EVLOOP_NONBLOCK : 0));

        /* While the loop is awake, every turn drains; completions need no system call. */
        bi_cq_disable_notify(server->cq);
        server->now = bi_clock_boot();
        bi_schedule_read(server);
        bi_conn_close_continue(server);
        turn(server);
    }

    bi_cq_enable_notify(server->cq); /* wait_for_releases() sleeps in bide_cq_wait() */
    close_conns(server);
    wait_for_releases(server);
    if (is_stopped(server))
        assert_all_released(server);
}

static void free_requests(struct server *server)
{
    while (server->spare != NULL) {
        struct request *next = server->spare->next;
        free(server->spare);
        server->spare = next;
    }
}

void bi_server_free(struct server *server)
{
    if (server == NULL)
        return;

    /* Connections first: closing them submits ops, which need the queue and the tubes. */
    if (server->base != NULL) {
        close_acceptors(server);
        close_conns(server);
        bi_conn_close_free_all(server);
        bi_server_flush(server);
    }

    free_requests(server);
    bi_tubes_done(&server->tubes);
    bi_tubes_done(&server->orphans);
    if (server->base != NULL)
        event_base_free(server->base);
    bide_cq_free(server->cq);
    bi_admission_done(&server->admission);
    bi_op_codec_wire_free_bytes(&server->rpc_reply);
    free(server->scratch);
    free(server->deferred_releases);
    free(server);
}
