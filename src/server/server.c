/* SPDX-License-Identifier: MIT */
/*
 * server - the event loop: turns, completions, signals, start and stop.
 *
 * A round of the loop polls the sockets, reads queued connections, releases a slice of closed ones,
 * and ends with a turn: submit, drain completions, execute, write, commit. admission.c decides
 * which clients are served, fair_queue.c the order of the connections, conn_timeout.c when one is
 * closed for its silence, their protocol what to execute.
 *
 * Failure    A timer that cannot be added for lack of memory is made up for by on_idle(), whose
 *            timer exists from the start.
 */
#include "queue/queue.h"
#include "server/server_internal.h"
#include "util/clock.h"
#include "util/thread.h"

#include <assert.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#define PASSES_MAX          64               /* of a turn, before outputs are written again */
#define MEMORY_SHORT_US     INT64_C(2000000) /* memory counts as short after a rejected command */
#define STOP_COMMIT_US      INT64_C(1000000) /* least time for the last commits of a stop */
#define IDLE_CHECK_US       1000000
#define DRAIN_MAX           4096 /* completions in a pass */
#define SINGLE_COMMIT_TURNS 4    /* single changes in a row, before the loop commits itself */

bool bi_server_add_timer(struct event *timer, int64_t wait_us)
{
    struct timeval after = {.tv_sec = wait_us / 1000000, .tv_usec = wait_us % 1000000};
    assert(wait_us >= 0);
    return event_add(timer, &after) == 0;
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
    struct conn *conn;

    /* Leases of closed connections first; they may throttle the queue again. */
    if (!bi_batch_must_throttle(&server->batch))
        bi_release_submit_deferred(server);

    while (!bi_batch_must_throttle(&server->batch) &&
           (conn = server->fair_queue.throttled.head) != NULL) {
        bi_conn_dequeue(conn, LIST_THROTTLED);
        bi_fair_queue_enqueue_run(conn);
    }
}

static bool is_busy(const struct server *server)
{
    return bi_fair_queue_has_runnable(server) || bi_fair_queue_has_dirty(server) ||
           server->batch.count > 0;
}

/*
 * Commits what was submitted since the last call: wakes the commit thread, and the loop continues.
 * While the only client sends one change at a time, it returns true instead, and the loop commits
 * by itself after the turn (commit_in_loop()): this saves two thread switches, and there is nothing
 * else to do meanwhile.
 *
 * Every submit may leave a change to commit, even if all of its ops have completed: a job that is
 * given back goes to a waiting reserve, whose completion is then held for the commit.
 */
static bool begin_commit(struct server *server)
{
    if (!server->batch.submitted)
        return false;

    server->batch.submitted = false;
    server->batch.single_commit_turns =
        server->batch.uncommitted > 1
            ? 0
            : server->batch.single_commit_turns + (unsigned)server->batch.uncommitted;

    if (server->connections == 1 && server->batch.single_commit_turns >= SINGLE_COMMIT_TURNS &&
        bi_standby_is_ready(&server->standby))
        return true;

    bi_queue_commit(server->queue, false);
    return false;
}

/* Returns true if the loop is to commit by itself, and then to take another turn, which writes the
 * replies. */
static bool turn(struct server *server)
{
    int64_t end = server->now + TURN_US;

    bi_batch_submit_yielded(server);
    for (int i = 0; i < PASSES_MAX && server->now < end; i++) {
        /* The clock is read once for all completions of the drain. */
        bi_batch_flush(server);
        server->now = bi_clock_boot();
        bide_cq_drain(server->cq, DRAIN_MAX);

        /* Replies of light connections are written before further input executes. */
        resume_throttled(server);
        bi_fair_queue_write_light(server, end);
        bi_fair_queue_run(server, end);

        /* The batch is empty after the flush, so no op borrows from the scratch memory. */
        bi_batch_flush(server);
        server->scratch_at = 0;

        /* With several changes the commit thread works while the loop writes. A single change is
         * committed below, perhaps by the loop itself. */
        if (server->batch.uncommitted > 1)
            begin_commit(server);
        if (!bi_fair_queue_has_runnable(server))
            bi_fair_queue_write(server, end);

        if (!is_busy(server))
            return begin_commit(server);
    }

    /* The time is over with connections still runnable: write the replies of all others. */
    bi_fair_queue_write(server, server->now + TURN_US);
    return begin_commit(server);
}

/* Commits in the thread of the loop. Returns false if the commit hung and the other thread has
 * taken the loop over: the caller must not use the server any more. */
static bool commit_in_loop(struct server *server)
{
    int64_t commit_at = bi_standby_begin_commit(&server->standby);
    bi_queue_commit(server->queue, true);
    return bi_standby_end_commit(&server->standby, commit_at);
}

/* ---- signals and timers ---- */

void bi_server_notify(struct server *server, enum server_event event)
{
    if (server->settings.notify != NULL)
        server->settings.notify(server->settings.user, event);
}

static void begin_stop(struct server *server)
{
    bi_log(&server->log, BIDE_LOG_INFO, "stopping: %u connection%s", server->connections,
           server->connections == 1 ? "" : "s");
    server->stopping = true;
    bi_server_notify(server, SERVER_STOPPING);

    /* Flush first: only a submitted op can be cancelled. */
    bi_acceptor_close_all(server);
    bi_batch_flush(server);
    for (struct conn *conn = server->conns.head; conn != NULL; conn = bi_conn_next(conn, LIST_ALL))
        bi_conn_stop(conn);

    int64_t wait = server->limits.stop_timeout_ms;
    server->stop_end = bi_clock_boot() + wait * 1000;
    if (!bi_server_add_timer(&server->stop_timer, wait * 1000))
        bi_log(&server->log, BIDE_LOG_WARN, "cannot add a timer for stop_timeout: %s",
               strerror(errno)); /* on_idle() tests stop_end, too */
}

static void on_drained(struct server_op *server_op)
{
    struct internal_op *drain = (struct internal_op *)(void *)server_op;
    if (drain->op.status != BIDE_OK)
        bi_log(&server_op->server->log, BIDE_LOG_ERROR, "cannot drain: %s", drain->op.error);
    free(drain);
}

static const struct server_op_type drain_type = {NULL, on_drained};

static void begin_drain(struct server *server)
{
    struct internal_op *drain = bi_batch_new_op(server, &drain_type);
    if (drain == NULL)
        return;

    bi_log(&server->log, BIDE_LOG_INFO, "draining: new jobs are rejected from now on");
    drain->op.kind = BIDE_OP_DRAIN;
    drain->op.drain = (bide_drain_args){true};
    bi_batch_submit(&drain->base);
}

/* Handles the signals, and the end of stop_timeout. */
static void on_signal(evutil_socket_t number, short what, void *arg)
{
    struct server *server = arg;
    (void)what;

    if (number == SIGUSR1)
        begin_drain(server);
    else if (number == SIGHUP)
        bi_server_notify(server, SERVER_RELOAD);
    else if (server->stopping)
        server->stop_forced = true; /* a second signal, or the timer, ends the wait for clients */
    else
        begin_stop(server);
}

static void on_completion(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg; /* only wakes the loop; the turn drains the cq */
}

/* Runs once a second. Its timer exists from the start; it also does the work of timers that could
 * not be added for lack of memory. */
static void on_idle(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;

    bi_acceptor_retry(server);
    if (server->stopping && bi_clock_boot() >= server->stop_end)
        server->stop_forced = true;
    bi_conn_timeout_check_all(server);
}

/* ---- start and stop ---- */

static bool assign_events(struct server *server)
{
    static const int signals[SERVER_SIGNALS] = {SIGTERM, SIGINT, SIGUSR1, SIGHUP};
    struct event_base *base = server->base;

    event_assign(&server->cq_event, base, bide_cq_fd(server->cq), EV_READ | EV_PERSIST,
                 on_completion, server);
    event_assign(&server->idle_timer, base, -1, EV_PERSIST, on_idle, server);
    evtimer_assign(&server->stop_timer, base, on_signal, server);
    bi_acceptor_init(server);
    bi_release_init(server);

    bool added = event_add(&server->cq_event, NULL) == 0 &&
                 bi_server_add_timer(&server->idle_timer, IDLE_CHECK_US) &&
                 bi_watchdog_start(server);
    for (size_t i = 0; i < SERVER_SIGNALS && added; i++) {
        evsignal_assign(&server->signals[i], base, signals[i], on_signal, server);
        added = event_add(&server->signals[i], NULL) == 0;
    }
    return added;
}

void bi_server_set_limits(struct server *server, const struct server_limits *limits)
{
    server->limits = *limits;
    if (limits->max_waiters_per_connection == 0)
        server->limits.max_waiters_per_connection = UINT32_MAX;
    if (limits->max_topics_per_connection == 0)
        server->limits.max_topics_per_connection = BIDE_RESERVE_TOPICS;
    if (limits->max_feeds_per_connection == 0)
        server->limits.max_feeds_per_connection = BIDE_SUBSCRIPTIONS_MAX;
}

int bi_server_new(const struct server_settings *settings, struct server **out, char *error)
{
    struct server *server = calloc(1, sizeof(*server));
    int code = BIDE_ENOMEM;
    snprintf(error, BIDE_ERROR_SIZE, "cannot start the server: %s", bide_code_text(code));
    if (server == NULL)
        return code;

    server->settings = *settings;
    server->queue = settings->queue;
    server->log = settings->log;
    bi_server_set_limits(server, &settings->limits);
    server->started = server->now = bi_clock_boot();
    server->options = &settings->queue->options;
    bi_batch_init(&server->batch, server->options);

    unsigned char id[8];
    if (getrandom(id, sizeof(id), GRND_NONBLOCK) != (ssize_t)sizeof(id))
        memcpy(id, &server->started, sizeof(id));
    for (size_t i = 0; i < sizeof(id); i++)
        snprintf(server->id + 2 * i, 3, "%02x", id[i]);

    bi_standby_init(&server->standby);

    server->scratch = malloc(SCRATCH_SIZE);
    server->base = event_base_new();
    if (server->scratch != NULL && server->base != NULL && bi_admission_init(&server->admission))
        code = bide_cq_new(&server->cq);
    if (code == BIDE_OK && !assign_events(server))
        code = BIDE_ESYSTEM;
    if (code != BIDE_OK) {
        bi_server_free(server);
        return code;
    }

    *out = server;
    return BIDE_OK;
}

int bi_server_start_protocol(struct server *server, const struct protocol *protocol,
                             void **state_out, char *error)
{
    size_t count = server->protocol_count;
    for (size_t i = 0; i < count; i++) {
        if (server->protocols[i].protocol == protocol) {
            *state_out = server->protocols[i].state;
            return BIDE_OK;
        }
    }

    assert(count < PROTOCOLS_MAX);
    int code = protocol->start(server, state_out, error);
    if (code != BIDE_OK)
        return code;

    server->protocols[count].protocol = protocol;
    server->protocols[count].state = *state_out;
    server->protocol_count++;
    return BIDE_OK;
}

int bi_server_listen(struct server *server, const struct protocol *protocol, int fd, char *error)
{
    void *state;
    int code = bi_server_start_protocol(server, protocol, &state, error);
    if (code == BIDE_OK)
        code = bi_acceptor_add(server, protocol, state, fd);
    return code == BIDE_ENOMEM ? bi_error_set(error, code, "out of memory") : code;
}

/* A stop is complete when all connections are closed and released, and no op is in flight. */
static bool is_stopped(const struct server *server)
{
    return server->stopping && server->conns.head == NULL && server->batch.in_flight == 0 &&
           bi_release_is_complete(server);
}

static void close_conns(struct server *server)
{
    while (server->conns.head != NULL)
        bi_conn_close(server->conns.head);
    bi_batch_flush(server);
}

/* Waits until all leases are given back and committed, at most for stop_timeout. The close of the
 * queue gets the same deadline. */
static void wait_for_releases(struct server *server)
{
    int64_t time = server->limits.stop_timeout_ms * 1000;
    int64_t end = bi_clock_boot() + (time > STOP_COMMIT_US ? time : STOP_COMMIT_US);
    bi_queue_set_close_deadline(server->queue, end);

    while ((server->batch.in_flight > 0 || !bi_release_is_complete(server)) &&
           bi_clock_boot() < end) {
        /* No completion announces releases.retry_at, so the wait is short. */
        bi_queue_commit(server->queue, false);
        bool more = bi_release_has_work(server) || !STAILQ_EMPTY(&server->batch.yielded);
        bide_cq_wait(server->cq, more ? 0 : 100);
        server->now = bi_clock_boot();

        bi_release_submit_deferred(server);
        bi_release_continue(server);
        bi_batch_submit_yielded(server);
        bi_batch_flush(server);
    }
}

/* All counters of connections return to zero with the last of them. */
static void assert_all_released(const struct server *server)
{
    assert(server->connections == 0 && server->client_bytes == 0);
    assert(server->batch.uncommitted == 0 && server->batch.uncommitted_bytes == 0 &&
           server->releases.in_flight == 0);
    assert(server->batch.bulk_uncommitted == 0 && server->batch.bulk_uncommitted_bytes == 0);
    assert(server->admission.pending_count == 0 && server->admission.remote_count == 0);
    for (size_t i = 0; i < server->protocol_count; i++)
        server->protocols[i].protocol->assert_released(server->protocols[i].state);
}

/* A round of the loop. Returns false if the loop was taken over by the other thread. */
static bool run_round(struct server *server)
{
    /* The last term enables notification before the loop sleeps, and returns true if an op has
     * completed since the last drain: no wakeup is lost. */
    bool busy = is_busy(server) || !STAILQ_EMPTY(&server->batch.yielded) ||
                bi_fair_queue_has_readable(server) || bi_release_has_work(server) ||
                bi_cq_enable_notify(server->cq);
    server->fair_queue.read_bytes = 0;
    server->fair_queue.next_clock_work =
        server->fair_queue.work; /* read the clock after the sleep */
    event_base_loop(server->base, EVLOOP_ONCE | (busy ? EVLOOP_NONBLOCK : 0));

    /* While the loop is awake, every turn drains; completions need no system call. */
    bi_cq_disable_notify(server->cq);
    server->now = bi_clock_boot();
    bi_fair_queue_read(server);
    bi_release_continue(server);

    int64_t end = server->now + TURN_US;
    while (turn(server)) {
        if (!commit_in_loop(server))
            return false;
        /* The completions of the commit make the next round busy. */
        if (server->now >= end)
            break;
    }
    return true;
}

/* Runs the loop until the server has stopped. Both threads of a loop run this function; see
 * standby.h. */
static void *run_loop(void *arg)
{
    struct server *server = arg;

    while (bi_standby_acquire(&server->standby)) {
        bool runs = true;
        while (runs && !is_stopped(server) && !server->stop_forced)
            runs = run_round(server);
        if (!runs)
            continue;

        bi_cq_enable_notify(server->cq); /* wait_for_releases() sleeps in bide_cq_wait() */
        close_conns(server);
        wait_for_releases(server);
        if (is_stopped(server))
            assert_all_released(server);
        if (bi_standby_end(&server->standby))
            bi_log(&server->log, BIDE_LOG_WARN,
                   "stop_timeout is over; waiting for a commit that has taken %lld s and cannot be "
                   "interrupted",
                   (long long)(bi_queue_commit_age(server->queue) / 1000000));
    }
    return NULL;
}

void bi_server_run(struct server *server)
{
    pthread_t threads[2];
    size_t count = 0;

    bi_acceptor_start(server);
    bi_server_notify(server, SERVER_READY);

    /* The calling thread only receives the signals: a signal that is sent to a process is not
     * delivered while the thread that the kernel has chosen for it hangs in a sync. */
    if (bi_queue_has_commits(server->queue))
        while (count < 2 && bi_thread_start(&threads[count], run_loop, server))
            count++;

    if (count == 0)
        run_loop(server);
    while (count > 0)
        pthread_join(threads[--count], NULL);
}

void bi_server_free(struct server *server)
{
    if (server == NULL)
        return;

    /* Connections first: closing them submits ops, which need the queue and the tubes. */
    if (server->base != NULL) {
        bi_acceptor_close_all(server);
        close_conns(server);
        bi_release_done(server);
    }

    for (size_t i = 0; i < server->protocol_count; i++)
        server->protocols[i].protocol->stop(server->protocols[i].state);
    if (server->base != NULL)
        event_base_free(server->base);
    bide_cq_free(server->cq);
    bi_admission_done(&server->admission);
    bi_standby_done(&server->standby);
    free(server->scratch);
    free(server);
}
