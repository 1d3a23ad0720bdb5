/* SPDX-License-Identifier: MIT */
/*
 * fuzz_conn - a whole server in this process, on a queue in memory, and clients that send what the
 * fuzzer thinks of, in pieces, and go away in the middle.
 *
 * The input is what clients send; 0xff and the byte behind it are an action instead (see act()). In
 * the end everything has been read and has come to rest: then no connection may have a whole
 * command that it has not executed, and nothing may be under way but waits. After the stop nothing
 * is left of any client.
 */
#define _GNU_SOURCE /* memmem */
#include "fuzz/fuzz.h"
#include "server/beanstalk/beanstalk.h"

#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#define CLIENTS    4
#define REST_STEPS 5 /* nothing has happened for so many: everything rests */

static struct fuzz {
    struct server *server;
    void *beanstalk; /* the state of the protocol */
    struct event step;
    const uint8_t *at, *end;
    int clients[CLIENTS]; /* -1: closed */
    unsigned current;
    bool remote_clients; /* new ones come from another machine */
    bool stopped;
    int rest;
} fuzz;

static const struct timeval at_once = {0};

/* ---- clients ---- */

static void close_client(unsigned i)
{
    if (fuzz.clients[i] >= 0)
        close(fuzz.clients[i]);
    fuzz.clients[i] = -1;
}

static void open_client(unsigned i)
{
    int fds[2];
    int small = 4608;
    close_client(i);
    must(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) == 0);
    setsockopt(fds[1], SOL_SOCKET, SO_SNDBUF, &small, sizeof(small));
    fuzz.clients[i] = fds[0];
    bi_conn_open(fuzz.server, &bi_beanstalk_protocol, fuzz.beanstalk, fds[1], !fuzz.remote_clients,
                 false);
}

/* How many bytes came. */
static size_t read_client(unsigned i)
{
    static char bytes[65536];
    if (fuzz.clients[i] < 0)
        return 0;
    ssize_t got = recv(fuzz.clients[i], bytes, sizeof(bytes), 0);
    return got <= 0 ? 0 : (size_t)got;
}

/* Sends up to the next action, as far as it can. */
static void send_some(void)
{
    const uint8_t *mark = memchr(fuzz.at, 0xff, (size_t)(fuzz.end - fuzz.at));
    size_t size = (size_t)((mark == NULL ? fuzz.end : mark) - fuzz.at);
    int fd = fuzz.clients[fuzz.current];
    ssize_t sent = fd < 0 || size == 0 ? (ssize_t)size : send(fd, fuzz.at, size, MSG_NOSIGNAL);
    /* Whoever cannot take it any more has lost it. */
    fuzz.at += sent <= 0 ? (ssize_t)size : sent;
}

/* The low bits say who, the others what. */
static void act(uint8_t action)
{
    unsigned who = action % CLIENTS;
    switch (action / CLIENTS % 8) {
    case 1:
        open_client(who);
        break;
    case 2:
        close_client(who);
        break;
    case 3:
        if (fuzz.clients[who] >= 0)
            shutdown(fuzz.clients[who], SHUT_WR);
        break;
    case 4:
        read_client(who);
        break;
    case 5:
        fuzz.remote_clients = !fuzz.remote_clients;
        break;
    default:
        fuzz.current = who;
        break;
    }
}

/* ---- in the end ---- */

static bool is_resting(void)
{
    const struct server *server = fuzz.server;
    return !bi_fair_queue_has_runnable(server) && !bi_fair_queue_has_dirty(server) &&
           server->batch.count == 0;
}

static void check_conn(struct conn *conn)
{
    const struct request *head = STAILQ_FIRST(&bi_beanstalk_conn(conn)->pipeline);
    if (conn->quit || conn->dead || conn->paused)
        return;
    if (head != NULL) {
        must(head->op.status == BIDE_PENDING);
        must(bi_request_waits(head));
    } else if (conn->input_size > 0) {
        must(conn->need_input);
        must(memmem(conn->input, conn->input_size, "\r\n", 2) == NULL);
    }
    must(bi_output_left(&conn->output) == 0);
    must(conn->load.speculative == 0);
}

static void check_all_conns(void)
{
    uint32_t count = 0;
    for (struct conn *conn = fuzz.server->conns.head; conn != NULL;
         conn = bi_conn_next(conn, LIST_ALL), count++)
        check_conn(conn);
    must(count == fuzz.server->connections);
    must(fuzz.server->batch.uncommitted == 0 && fuzz.server->batch.uncommitted_bytes == 0);
}

/* Reads until nothing comes any more. */
static void drain_and_stop(void)
{
    size_t got = 0;
    for (unsigned i = 0; i < CLIENTS; i++)
        got += read_client(i);
    fuzz.rest = got > 0 || !is_resting() ? 0 : fuzz.rest + 1;
    if (fuzz.rest < REST_STEPS || fuzz.stopped)
        return;
    check_all_conns();
    fuzz.stopped = true;
    event_active(&fuzz.server->signals[0], EV_SIGNAL, 1);
}

static void on_step(evutil_socket_t fd, short what, void *arg)
{
    (void)fd;
    (void)what;
    (void)arg;
    evtimer_add(&fuzz.step, &at_once);
    if (fuzz.at == fuzz.end) {
        drain_and_stop();
    } else if (fuzz.at[0] != 0xff) {
        send_some();
    } else {
        fuzz.at++;
        if (fuzz.at < fuzz.end)
            act(*fuzz.at++);
    }
}

static void check_all_released(const struct server *server)
{
    must(!server->stop_forced); /* it has not waited for a client */
    const struct beanstalk *beanstalk = fuzz.beanstalk;
    const struct tube *tube = beanstalk->default_tube;
    must(server->batch.in_flight == 0 && server->batch.uncommitted == 0);
    must(server->batch.uncommitted_bytes == 0);
    must(server->connections == 0 && beanstalk->producers == 0 && beanstalk->workers == 0);
    must(server->client_bytes == 0 && server->releases.count == 0);
    must(beanstalk->tubes.count == 1 && tube->ref_count == 1);
    must(tube->users == 0 && tube->watchers == 0);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct server_settings settings = {.limits = {.max_connections = 100,
                                                  .stop_timeout_ms = 10000,
                                                  .max_client_bytes = 10000,
                                                  .auth_secret = "secret"}};
    char error[BIDE_ERROR_SIZE];
    must(bide_open("memory:?seed=1&max_waiters=3", NULL, &settings.queue) == BIDE_OK);
    must(bi_server_new(&settings, &fuzz.server, error) == BIDE_OK);
    fuzz = (struct fuzz){.server = fuzz.server, .at = data, .end = data + size};
    must(bi_server_start_protocol(fuzz.server, &bi_beanstalk_protocol, &fuzz.beanstalk, error) ==
         BIDE_OK);
    for (unsigned i = 0; i < CLIENTS; i++)
        fuzz.clients[i] = -1;
    open_client(0);
    open_client(1);
    evtimer_assign(&fuzz.step, fuzz.server->base, on_step, NULL);
    evtimer_add(&fuzz.step, &at_once);
    bi_server_run(fuzz.server);
    event_del(&fuzz.step);
    check_all_released(fuzz.server);
    for (unsigned i = 0; i < CLIENTS; i++)
        close_client(i);
    bi_server_free(fuzz.server);
    must(bide_close(settings.queue) == BIDE_OK);
    return 0;
}
