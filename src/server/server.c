/* SPDX-License-Identifier: MIT */
/*
 * server - the loop: who is readable, what has completed, what is to be written, and how it ends. Which
 * clients are served admit.c decides.
 */
#define _GNU_SOURCE /* accept4 */
#include "queue/queue.h"
#include "server/inside.h"
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

#define ACCEPT_MAX   64                /* connections a turn and door */
#define PASSES_MAX   64                /* through completions, before outputs are written again */
#define ACCEPT_US    100000            /* without file descriptors: try again then */
#define REST_TELL_US INT64_C(10000000) /* between two words about that */
#define SHORT_US     INT64_C(2000000) /* after a command was refused, memory is short for so long */
#define HANGING_US   INT64_C(5000000) /* a part of a command, while memory is short, */
#define BODY_PACE    8192             /* and bytes that come of a body in a second beyond that */
#define STORE_US \
    INT64_C(1000000) /* that the queue has at least to store all when the server ends */
#define IDLE_MS      1000
#define DRAIN_MAX    4096 /* completions in a pass */
#define BULK_COMMITS 4    /* that may wait before these connections are not read */
#define SINGLE_TURNS 4    /* before the loop stores by itself */
#define HELD_SHARE   4    /* the server keeps a fourth of the queue's limits free */

/* ---- the batch ---- */

void bi_server_submit(struct server *server, bide_op *op)
{
    if (server->batch_count == BATCH_MAX || server->batch_topics >= BATCH_TOPICS ||
        server->batch_slow)
        bi_server_flush(server);
    server->batch[server->batch_count++] = op;
    server->batch_topics += bi_call_topics(op);
    server->batch_slow = bi_call_is_slow(op);
}

/* The queue has carried out the request, and only its answer is held for a commit: the commands behind
 * it may be executed. */
static void unblock(struct request *request)
{
    struct conn *conn = request->conn;
    if (conn == NULL || !request->blocking)
        return;
    assert(conn->blocked > 0);
    request->blocking = false;
    conn->blocked--;
    request->applied = bi_request_reserves(request);
    conn->applied += request->applied;
}

/* The op did not complete within the submit. */
static void count_pending(struct server *server, struct request *request)
{
    if (request->trying && request->conn != NULL)
        request->conn->trying--;
    request->trying = false;
    if (request->op.applied)
        unblock(request);
    if (request->counted || (bi_request_waits(request) && !request->op.applied))
        return;
    request->counted = true;
    request->bulk = bi_server_hold(server, request->conn, request->bytes);
}

static void submit(struct server *server, bide_op **ops, size_t count)
{
    int pending = bide_submit(server->queue, ops, count);
    server->submitted = true;
    server->now = bi_clock_boot(); /* not before anything that the answers count from */
    assert(pending >= 0);
    for (size_t i = 0; i < count; i++) {
        if (ops[i]->status != BIDE_PENDING)
            ops[i]->done(ops[i]);
        else if (ops[i]->user == NULL)
            count_pending(server, (struct request *)(void *)ops[i]);
        else
            bi_call_pending(ops[i]);
    }
}

void bi_server_flush(struct server *server)
{
    while (server->batch_count > 0) {
        bide_op *ops[BATCH_MAX];
        size_t count = server->batch_count;
        memcpy(ops, server->batch, count * sizeof(bide_op *));
        server->batch_count = server->batch_topics = 0;
        server->batch_slow = false;
        submit(server, ops, count);
    }
}

bool bi_server_pressed(const struct server *server)
{
    return server->held + server->batch_count >= server->held_max ||
           server->held_bytes >= server->held_bytes_max;
}

/* ---- the memory of clients ---- */

bool bi_server_has_room(struct server *server, const struct conn *conn, size_t size, size_t more)
{
    uint64_t max = server->limits.max_client_bytes;
    if (size > BODY_SMALL)
        max -= max / 4;
    if (server->client_bytes + more <= max || server->client_bytes <= conn->memory)
        return true;
    server->short_until = server->now + SHORT_US;
    return false;
}

bool bi_server_lacks_room(const struct server *server)
{
    return server->client_bytes > server->limits.max_client_bytes ||
           server->now < server->short_until;
}

/* ---- a turn ---- */

/* The queue has room again: those that were stopped by it go on. */
static void relieve(struct server *server)
{
    if (!server->pressed || bi_server_pressed(server))
        return;
    bi_request_give_back_owed(server);
    if (bi_server_pressed(server))
        return;
    server->pressed = server->owed_count > 0;
    if (!server->stopped_some)
        return;
    server->stopped_some = false;
    for (struct conn *conn = server->first; conn != NULL; conn = conn->next) {
        if (!conn->pressed)
            continue;
        conn->pressed = false;
        bi_server_wake(conn);
    }
}

static bool is_busy(const struct server *server)
{
    return bi_schedule_may_run(server) || bi_schedule_may_write(server) || server->batch_count > 0;
}

/*
 * What the turn has submitted is to be stored. While one client sends one change at a time, the loop
 * stores it itself: that saves waking the commit thread and being woken by it, and nothing else is
 * to be done meanwhile. Else the commit thread stores, and the loop goes on. True: it is stored.
 *
 * Every submit may leave something to be stored, also one whose ops have all finished: a job that is
 * given back goes to a waiting reserve, whose answer is then held.
 */
static bool begin_commit(struct server *server)
{
    if (!server->submitted)
        return false;
    server->submitted = false;
    server->single = server->held > 1 ? 0 : server->single + (unsigned)server->held;
    return bi_queue_commit(server->queue, server->single >= SINGLE_TURNS);
}

static void turn(struct server *server)
{
    int64_t end = server->now + TURN_US;
    bi_request_submit_some(server);
    for (int i = 0; i < PASSES_MAX && server->now < end; i++) {
        bi_server_flush(server);
        server->now = bi_clock_boot();
        bide_cq_drain(server->cq, DRAIN_MAX);
        relieve(server);
        bi_schedule_write_little(server, end);
        bi_schedule_run(server, end);
        bi_server_flush(server);
        server->scratch_at = 0;
        if (server->held > 1)
            begin_commit(server);
        if (!bi_schedule_may_run(server))
            bi_schedule_write(server, end);
        if (!is_busy(server) && !begin_commit(server))
            return;
    }
    /* A connection with much to do must not keep the others from being answered. */
    bi_schedule_write(server, server->now + TURN_US);
    begin_commit(server);
}

/* ---- coming in ---- */

static void listen_again(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    for (struct door *door = server->doors; door != NULL; door = door->next)
        event_add(&door->event, NULL);
}

/* No descriptor for a connection: rather than be told of it again and again, wait a little. */
static void rest(struct server *server, int reason)
{
    struct timeval after = {.tv_usec = ACCEPT_US};
    if (server->now >= server->rested_at) {
        server->rested_at = server->now + REST_TELL_US;
        bi_log(&server->log, BIDE_LOG_WARN, "cannot accept a connection: %s", strerror(reason));
    }
    for (struct door *door = server->doors; door != NULL; door = door->next)
        event_del(&door->event);
    evtimer_add(&server->accept_timer, &after);
}

static void on_accept(evutil_socket_t fd, short what, void *arg)
{
    struct door *door = arg;
    (void)what;
    for (int i = 0; i < ACCEPT_MAX; i++) {
        struct sockaddr_storage address = {0};
        socklen_t size = sizeof(address);
        int got = accept4(fd, (struct sockaddr *)&address, &size, SOCK_NONBLOCK | SOCK_CLOEXEC);
        if (got >= 0) {
            bi_admit(door->server, got, &address);
            continue;
        }
        int reason = errno;
        if (reason == EMFILE || reason == ENFILE || reason == ENOBUFS || reason == ENOMEM)
            rest(door->server, reason);
        if (reason != EINTR && reason != ECONNABORTED)
            return;
    }
}

int bi_server_listen(struct server *server, int fd)
{
    struct door *door = calloc(1, sizeof(*door));
    if (door == NULL)
        return BIDE_ENOMEM;
    int one = 1;
    /* Connections inherit these; a unix socket has no use for them. */
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    setsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &one, sizeof(one));
    evutil_make_socket_nonblocking(fd);
    door->server = server;
    door->fd = fd;
    event_assign(&door->event, server->base, fd, EV_READ | EV_PERSIST, on_accept, door);
    door->next = server->doors;
    server->doors = door;
    return BIDE_OK;
}

static void close_doors(struct server *server)
{
    event_del(&server->accept_timer);
    while (server->doors != NULL) {
        struct door *door = server->doors;
        server->doors = door->next;
        event_del(&door->event);
        close(door->fd);
        free(door);
    }
}

/* ---- signals and timers ---- */

static void end_now(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    server->ended = true;
}

static void on_stop(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    if (server->stopping) {
        server->ended = true;
        return;
    }
    bi_log(&server->log, BIDE_LOG_INFO, "stopping: %u connection%s", server->connections,
           server->connections == 1 ? "" : "s");
    server->stopping = true;
    if (server->settings.stopping != NULL)
        server->settings.stopping(server->settings.user);
    close_doors(server);
    bi_server_flush(server); /* what waits can be given up only when it is handed over */
    for (struct conn *conn = server->first; conn != NULL; conn = conn->next)
        bi_conn_stop(conn);
    int64_t wait = server->limits.stop_timeout_ms;
    struct timeval after = {.tv_sec = wait / 1000, .tv_usec = wait % 1000 * 1000};
    evtimer_add(&server->stop_timer, &after);
}

static bool answer_drain(struct request *request)
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
    struct request *request = bi_request_new(server, NULL, BIDE_OP_DRAIN, answer_drain);
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

/* Is the store at one commit for so long that it will not come back? */
static bool hangs(struct server *server)
{
    int64_t age = bi_queue_commit_age(server->queue);
    if (age < server->settings.watchdog_us) {
        server->hangs = false;
        return false;
    }
    if (!server->hangs)
        bi_log(
            &server->log, BIDE_LOG_ERROR,
            "a commit or checkpoint has taken %lld s or more and does not end: the watchdog is not "
            "told that bided is alive",
            (long long)(age / 1000000));
    server->hangs = true;
    return true;
}

static void on_watch(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    if (!hangs(server))
        server->settings.alive(server->settings.user);
}

static void on_completion(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg; /* a turn drains */
}

/* Has it done nothing for long, or taken nothing of the much that waits for it? */
static bool is_stale(struct conn *conn)
{
    const struct server *server = conn->server;
    int64_t limit = server->limits.idle_timeout_ms * 1000;
    if (bi_call_is_stuck(conn) || bi_admit_is_late(conn))
        return true;
    bool idle = bi_conn_is_done(conn) && conn->runs == NULL && conn->reads == NULL &&
                bi_session_deadline(&conn->session, server->now) == INT64_MAX;
    if (!idle)
        conn->active = server->now;
    return limit != 0 && server->now - conn->active >= limit;
}

/* Does it send a body so slowly that others are refused for what has come of it? */
static bool is_dripping(const struct conn *conn)
{
    const struct server *server = conn->server;
    const struct incoming *incoming = conn->incoming;
    if (incoming == NULL || !bi_server_lacks_room(server))
        return false;
    int64_t due_us = (int64_t)(incoming->got / BODY_PACE) * 1000000;
    return server->now - incoming->began > HANGING_US + due_us;
}

/* Has it sent a part of a command, and nothing more for long? When memory is short, that is sooner. */
static bool is_hanging(struct conn *conn)
{
    struct server *server = conn->server;
    int64_t limit = server->limits.command_timeout_ms * 1000;
    if (limit == 0 || !bi_conn_is_unfinished(conn)) {
        conn->fed = server->now;
        if (conn->incoming != NULL)
            conn->incoming->began = server->now;
        return false;
    }
    bool tight =
        server->client_bytes > server->limits.max_client_bytes / 2 || bi_server_lacks_room(server);
    if (tight && limit > HANGING_US)
        limit = HANGING_US;
    bool drips = is_dripping(conn);
    if (server->now - conn->fed < limit && !drips)
        return false;

    char peer[PEER_SIZE];
    uint64_t count = bi_log_repeats(&server->unfinished, server->now);
    if (count > 0)
        bi_log(&server->log, BIDE_LOG_WARN,
               "the connection from %s is closed: it has sent a part of a command, and %s "
               "for %lld s (command_timeout); %llu such connections so far",
               bi_conn_peer(conn, peer), drips ? "little more" : "nothing more",
               (long long)((server->now - (drips ? conn->incoming->began : conn->fed)) / 1000000),
               (unsigned long long)count);
    return true;
}

/* Once a second all are looked at. */
static void on_idle(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    (void)fd;
    (void)what;
    for (struct conn *conn = server->first; conn != NULL; conn = conn->next) {
        if (conn->lingers || (!is_hanging(conn) && !is_stale(conn)))
            continue;
        conn->dead = true;
        bi_server_mark(conn);
    }
}

/* ---- all together ---- */

static void make_id(struct server *server)
{
    unsigned char bytes[8] = {0};
    if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != (ssize_t)sizeof(bytes))
        memcpy(bytes, &server->started, sizeof(bytes));
    for (size_t i = 0; i < sizeof(bytes); i++)
        snprintf(server->id + 2 * i, 3, "%02x", bytes[i]);
}

static void set_limits(struct server *server, const bide_options *options)
{
    uint64_t ops = options->max_pending_ops == 0 ? 100000 : options->max_pending_ops;
    uint64_t bytes =
        options->max_pending_bytes == 0 ? (uint64_t)64 << 20 : options->max_pending_bytes;
    server->held_max = ops - ops / HELD_SHARE;
    server->held_bytes_max = bytes - bytes / HELD_SHARE;
    uint64_t batch_jobs = options->batch_jobs < 1000 ? 1000 : options->batch_jobs;
    uint64_t batch_bytes =
        options->batch_bytes < (uint64_t)8 << 20 ? (uint64_t)8 << 20 : options->batch_bytes;
    server->bulk_held_max = BULK_COMMITS * batch_jobs;
    server->bulk_bytes_max = BULK_COMMITS * batch_bytes;
    server->giving_max = server->bulk_held_max;
    if (server->giving_max > server->held_max / 2)
        server->giving_max = server->held_max / 2 + 1;
    server->max_job_size = options->max_job_size == 0 ? 65535 : options->max_job_size;
    server->max_result_size = options->max_result_size == 0 ? 65536 : options->max_result_size;
    server->max_topics = options->max_topics == 0 ? 1000000 : options->max_topics;
    server->max_waiters = options->max_waiters == 0 ? 100000 : options->max_waiters;
}

/* A queue that is full already, by limits that are lower now, is served without it: how else would it
 * be worked off? */
static int prepare_default_tube(struct server *server, char *error)
{
    static const bide_slice name = {"default", 7};
    int code = bide_topic_ref(server->queue, "default", 1);
    if (code != BIDE_OK && code != BIDE_TOO_MANY_TOPICS && code != BIDE_EFULL) {
        snprintf(error, BIDE_ERROR_SIZE, "%s", bide_last_error());
        return code;
    }
    server->default_tube = bi_tubes_hold(&server->tubes, name);
    if (server->default_tube == NULL)
        return BIDE_ENOMEM;
    server->default_tube->referenced = code == BIDE_OK;
    return BIDE_OK;
}

static bool begin_watch(struct server *server)
{
    int64_t step = server->settings.watchdog_us / 3;
    struct timeval every = {.tv_sec = step / 1000000, .tv_usec = step % 1000000};
    event_assign(&server->watch_timer, server->base, -1, EV_PERSIST, on_watch, server);
    return step <= 0 || server->settings.alive == NULL ||
           event_add(&server->watch_timer, &every) == 0;
}

static bool assign_events(struct server *server)
{
    struct timeval second = {.tv_sec = IDLE_MS / 1000};
    struct event_base *base = server->base;
    event_assign(&server->cq_event, base, bide_cq_fd(server->cq), EV_READ | EV_PERSIST,
                 on_completion, server);
    evsignal_assign(&server->term, base, SIGTERM, on_stop, server);
    evsignal_assign(&server->interrupt, base, SIGINT, on_stop, server);
    evsignal_assign(&server->usr1, base, SIGUSR1, on_drain, server);
    evsignal_assign(&server->hup, base, SIGHUP, on_reload, server);
    event_assign(&server->idle_timer, base, -1, EV_PERSIST, on_idle, server);
    evtimer_assign(&server->stop_timer, base, end_now, server);
    evtimer_assign(&server->accept_timer, base, listen_again, server);
    return event_add(&server->cq_event, NULL) == 0 && event_add(&server->term, NULL) == 0 &&
           event_add(&server->interrupt, NULL) == 0 && event_add(&server->usr1, NULL) == 0 &&
           event_add(&server->hup, NULL) == 0 && event_add(&server->idle_timer, &second) == 0 &&
           begin_watch(server);
}

void bi_server_change(struct server *server, const struct server_limits *limits)
{
    server->limits = *limits;
    if (limits->max_waiters_per_connection == 0)
        server->limits.max_waiters_per_connection = UINT32_MAX;
    if (limits->max_tubes_per_connection == 0)
        server->limits.max_tubes_per_connection = BIDE_RESERVE_TOPICS;
    if (limits->max_feeds_per_connection == 0)
        server->limits.max_feeds_per_connection = BIDE_FEEDS_MAX;
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
    bi_server_change(server, &settings->limits);
    server->started = server->now = bi_clock_boot();
    set_limits(server, &settings->options);
    make_id(server);
    struct bi_secret secret;
    bi_secret_draw(&secret);
    server->held_secret = bi_secret_derive(&secret, 1).key[0];
    bi_tubes_init(&server->tubes, &secret);
    bi_tubes_init(&server->orphans, &secret);
    server->scratch = malloc(SCRATCH_SIZE);
    server->base = event_base_new();
    if (server->scratch != NULL && server->base != NULL && bi_admit_init(&server->admission))
        code = bide_cq_new(&server->cq);
    if (code == BIDE_OK && !assign_events(server))
        code = BIDE_ESYSTEM;
    if (code == BIDE_OK)
        code = prepare_default_tube(server, error);
    if (code != BIDE_OK) {
        bi_server_free(server);
        return code;
    }
    *out = server;
    return BIDE_OK;
}

/* A stop is complete when every connection has been told all and has gone, and nothing of what was
 * handed over is on its way. */
static bool is_over(const struct server *server)
{
    return server->stopping && server->first == NULL && server->leaving.head == NULL &&
           server->under_way == 0 && server->owed_count == 0;
}

static void close_all(struct server *server)
{
    for (struct conn *conn = server->first; conn != NULL; conn = conn->next) {
        conn->dirty = false;
        conn->runs = NULL;
    }
    memset(server->dirty, 0, sizeof(server->dirty));
    memset(server->runs, 0, sizeof(server->runs));
    memset(&server->deferred, 0, sizeof(server->deferred));
    while (server->first != NULL)
        bi_conn_close(server->first);
    bi_server_flush(server);
}

/* Something that was held goes back, and the queue has room for it? */
static bool has_to_give_back(const struct server *server)
{
    return bi_conn_may_leave(server) || bi_request_may_give_back(server);
}

/* Jobs that are being given back: the queue answers, sooner or later. It has until then to store what
 * it has, too. */
static void await_rest(struct server *server)
{
    int64_t time = server->limits.stop_timeout_ms * 1000;
    int64_t end = bi_clock_boot() + (time > STORE_US ? time : STORE_US);
    bi_queue_close_by(server->queue, end);
    while ((server->under_way > 0 || server->owed_count > 0 || server->leaving.head != NULL) &&
           bi_clock_boot() < end) {
        bi_queue_commit(server->queue, false);
        bool more = has_to_give_back(server) || server->later_head != NULL;
        bide_cq_wait(server->cq, more ? 0 : 100);
        server->now = bi_clock_boot();
        bi_request_give_back_owed(server);
        bi_conn_leave_more(server);
        bi_request_submit_some(server);
        bi_server_flush(server);
    }
}

/* Whatever connections had was counted, and was given back with them. */
static void assert_empty(const struct server *server)
{
    assert(server->connections == 0 && server->producers == 0 && server->workers == 0);
    assert(server->client_bytes == 0 && server->may_wait == 0 && server->references == 0);
    assert(server->orphans.count == 0);
    assert(server->held == 0 && server->held_bytes == 0 && server->giving == 0);
    assert(server->bulk_held == 0 && server->bulk_bytes == 0);
    assert(server->admission.pending_count == 0 && server->admission.remote_count == 0);
    (void)server;
}

void bi_server_run(struct server *server)
{
    for (struct door *door = server->doors; door != NULL; door = door->next)
        event_add(&door->event, NULL);
    if (server->settings.ready != NULL)
        server->settings.ready(server->settings.user);
    while (!is_over(server) && !server->ended) {
        bool busy = is_busy(server) || server->later_head != NULL || bi_schedule_may_read(server) ||
                    has_to_give_back(server) || bi_cq_leave(server->cq);
        server->read_bytes = 0;
        server->look = server->work; /* the clock has gone on when the loop has slept */
        event_base_loop(server->base, EVLOOP_ONCE | (busy ? EVLOOP_NONBLOCK : 0));
        bi_cq_attend(server->cq);
        server->now = bi_clock_boot();
        bi_schedule_read(server);
        bi_conn_leave_more(server);
        turn(server);
    }
    bi_cq_leave(server->cq);
    close_all(server);
    await_rest(server);
    if (is_over(server))
        assert_empty(server);
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
    if (server->base != NULL) {
        close_doors(server);
        close_all(server);
        bi_conn_free_leaving(server);
        bi_server_flush(server);
    }
    free_requests(server);
    bi_tubes_done(&server->tubes);
    bi_tubes_done(&server->orphans);
    if (server->base != NULL)
        event_base_free(server->base);
    bide_cq_free(server->cq);
    bi_admit_done(&server->admission);
    bi_call_bytes_free(&server->answer);
    free(server->scratch);
    free(server->owed);
    free(server);
}
