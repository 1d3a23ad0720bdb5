/* SPDX-License-Identifier: MIT */
#include "load.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench.h"
#include "measure.h"
#include "reply.h"
#include "wire.h"

#define PATIENCE_MS    60000
#define EVENTS         256
#define PRIORITY_SIZE  10 /* digits */
#define DELAY_SIZE     5
#define MAX_REPLY_LINE 64 /* without a body */
#define MAX_DELETE     32

enum step { STEP_PUT, STEP_RESERVE, STEP_DELETE, STEPS };

/* One connection. What it is sent is the rest of `out`; what came is in[at .. used). */
struct client {
    int fd;
    enum step step;
    size_t window; /* jobs in it */
    size_t missing;
    const char *out;
    size_t out_size;
    bool waits_to_write;
    char *in;
    size_t in_at;
    size_t in_used;
    char *deletes;
    size_t deletes_size;
    char *puts;
    char last_priority[PRIORITY_SIZE]; /* of the jobs that it has drained */
};

struct load {
    const struct load_plan *plan;
    int epoll;
    struct client *clients;
    size_t busy; /* clients that are not at their end */
    size_t in_size;
    size_t put_size; /* one command with its body */
    size_t put_line; /* of which the line is */
    char *reserves;
    char *body;
    struct random random;
    uint64_t jobs_left;
    int64_t ends_ns;
    struct load_result result;
};

static const struct {
    const char *name;
    enum step first;
    enum step next[STEPS];
    uint64_t ops_per_job;
} works[LOAD_WORKS] = {
    [LOAD_CYCLE] = {"cycle", STEP_PUT, {STEP_RESERVE, STEP_DELETE, STEP_PUT}, 3},
    [LOAD_PUT] = {"put", STEP_PUT, {STEP_PUT, STEPS, STEPS}, 1},
    [LOAD_DRAIN] = {"drain", STEP_RESERVE, {STEPS, STEP_DELETE, STEP_RESERVE}, 2},
};

const char *load_work_name(enum load_work work)
{
    return works[work].name;
}

void reply_wrong(const char *at, const char *end, const char *expected)
{
    size_t size = (size_t)(end - at);
    const char *newline = memchr(at, '\n', size);
    size_t shown = newline == NULL ? size : (size_t)(newline - at);

    fail("the server answered \"%.*s\" instead of %s", (int)(shown < 200 ? shown : 200), at,
         expected);
}

static void *allocate(size_t size)
{
    void *memory = malloc(size);

    if (memory == NULL)
        fail("out of memory");
    return memory;
}

/* ---- what is sent ---- */

static void write_digits(char *to, size_t size, uint64_t number)
{
    for (size_t i = size; i-- > 0; number /= 10)
        to[i] = (char)('0' + number % 10);
}

/* Exactly ten digits, so that every command has the same size. */
static void write_priority(char *to, uint64_t random)
{
    write_digits(to, PRIORITY_SIZE, UINT64_C(1000000000) + random % UINT64_C(3000000000));
}

/* The puts of a window; only numbers change in them from window to window. */
static void make_puts(struct load *load, char *puts)
{
    const struct load_plan *plan = load->plan;

    for (size_t i = 0; i < plan->in_flight; i++) {
        char *put = puts + i * load->put_size;
        snprintf(put, load->put_size, "put %s %s 60 %zu\r\n",
                 plan->random_priorities ? "1000000000" : "0", plan->delayed ? "10000" : "0",
                 plan->body_size);
        memcpy(put + load->put_line, load->body, plan->body_size);
        memcpy(put + load->put_line + plan->body_size, "\r\n", 2);
    }
}

static void renew_numbers(struct load *load, struct client *client)
{
    for (size_t i = 0; i < client->window; i++) {
        char *put = client->puts + i * load->put_size;
        char *delay = put + 4 + 2;
        if (load->plan->random_priorities) {
            write_priority(put + 4, random_next(&load->random));
            memcpy(put + load->put_line, put + 4, PRIORITY_SIZE);
            delay = put + 4 + PRIORITY_SIZE + 1;
        }
        if (load->plan->delayed)
            write_digits(delay, DELAY_SIZE, 10000 + random_next(&load->random) % 80000);
    }
}

static void make_reserves(struct load *load)
{
    static const char reserve[] = "reserve\r\n";
    size_t size = sizeof(reserve) - 1;

    load->reserves = allocate(load->plan->in_flight * size);
    for (size_t i = 0; i < load->plan->in_flight; i++)
        memcpy(load->reserves + i * size, reserve, size);
}

static void begin_puts(struct load *load, struct client *client)
{
    if (load->plan->random_priorities || load->plan->delayed)
        renew_numbers(load, client);
    client->out = client->puts;
    client->out_size = client->window * load->put_size;
}

static void begin_reserves(struct load *load, struct client *client)
{
    client->out = load->reserves;
    client->out_size = client->window * strlen("reserve\r\n");
    client->deletes_size = 0;
}

/* They were written as the ids came. */
static void begin_deletes(struct load *load, struct client *client)
{
    (void)load;
    client->out = client->deletes;
    client->out_size = client->deletes_size;
}

/* ---- what comes back ---- */

static const char *scan_inserted(struct load *load, struct client *client, const char *at,
                                 const char *end)
{
    (void)load;
    (void)client;
    return reply_inserted(at, end);
}

static const char *scan_deleted(struct load *load, struct client *client, const char *at,
                                const char *end)
{
    (void)load;
    (void)client;
    return reply_deleted(at, end);
}

/* The rest of the body is that of every job; while only draining, no smaller priority may come
 * after a larger one. */
static void check_body(struct load *load, struct client *client, const char *body)
{
    if (memcmp(body + PRIORITY_SIZE, load->body + PRIORITY_SIZE,
               load->plan->body_size - PRIORITY_SIZE) != 0)
        fail("the server has changed the body of a job");
    if (load->plan->work != LOAD_DRAIN)
        return;
    if (memcmp(body, client->last_priority, PRIORITY_SIZE) < 0)
        fail("a job of priority %.10s came after one of %.10s", body, client->last_priority);
    memcpy(client->last_priority, body, PRIORITY_SIZE);
}

static const char *scan_reserved(struct load *load, struct client *client, const char *at,
                                 const char *end)
{
    struct reserved job;
    const char *next = reply_reserved(at, end, load->plan->body_size, &job);

    if (next == NULL)
        return NULL;
    check_body(load, client, job.body);
    if (job.id_size + 9 > MAX_DELETE)
        reply_wrong(at, end, "a job with an id");
    char *to = client->deletes + client->deletes_size;
    memcpy(to, "delete ", 7);
    memcpy(to + 7, job.id, job.id_size);
    memcpy(to + 7 + job.id_size, "\r\n", 2);
    client->deletes_size += 9 + job.id_size;
    return next;
}

/* What is done in a step, in the order of enum step. */
static const struct {
    void (*begin)(struct load *load, struct client *client);
    const char *(*scan)(struct load *load, struct client *client, const char *at, const char *end);
} steps[STEPS] = {
    {begin_puts, scan_inserted},
    {begin_reserves, scan_reserved},
    {begin_deletes, scan_deleted},
};

/* ---- one connection ---- */

/* Asks to be told of more than the answers, or not any more. */
static void watch(struct load *load, struct client *client, int operation, bool to_write)
{
    struct epoll_event event = {.events = EPOLLIN | EPOLLET, .data.ptr = client};

    if (to_write)
        event.events |= EPOLLOUT;
    client->waits_to_write = to_write;
    if (epoll_ctl(load->epoll, operation, client->fd, &event) != 0)
        fail("a connection cannot be watched: %s", strerror(errno));
}

static void write_out(struct load *load, struct client *client)
{
    ssize_t sent = send(client->fd, client->out, client->out_size, MSG_NOSIGNAL);

    if (sent < 0) {
        if (errno != EAGAIN)
            fail("the server could not be written to: %s", strerror(errno));
        sent = 0;
    }
    client->out += sent;
    client->out_size -= (size_t)sent;
    bool has_more = client->out_size > 0;
    if (__builtin_expect(has_more != client->waits_to_write, 0))
        watch(load, client, EPOLL_CTL_MOD, has_more);
}

static void begin_step(struct load *load, struct client *client, enum step step)
{
    client->step = step;
    client->missing = client->window;
    client->in_at = client->in_used = 0;
    steps[step].begin(load, client);
    write_out(load, client);
}

/* The next jobs of this connection, if there are any left to do. */
static void begin_window(struct load *load, struct client *client)
{
    const struct load_plan *plan = load->plan;

    client->window = plan->in_flight;
    if (plan->jobs > 0 && load->jobs_left < client->window)
        client->window = (size_t)load->jobs_left;
    if (client->window == 0 || (plan->jobs == 0 && measure_now_ns() >= load->ends_ns)) {
        load->busy--;
        return;
    }
    load->jobs_left -= plan->jobs > 0 ? client->window : 0;
    begin_step(load, client, works[plan->work].first);
}

static void end_step(struct load *load, struct client *client)
{
    enum step next = works[load->plan->work].next[client->step];

    if (client->in_at != client->in_used)
        reply_wrong(client->in + client->in_at, client->in + client->in_used, "silence");
    if (next != works[load->plan->work].first) {
        begin_step(load, client, next);
        return;
    }
    load->result.jobs += client->window;
    begin_window(load, client);
}

static void scan(struct load *load, struct client *client)
{
    const char *at = client->in + client->in_at;
    const char *end = client->in + client->in_used;

    while (client->missing > 0) {
        const char *next = steps[client->step].scan(load, client, at, end);
        if (next == NULL)
            break;
        client->missing--;
        at = next;
    }
    client->in_at = (size_t)(at - client->in);
    if (client->missing == 0)
        end_step(load, client);
}

/* There is room for every answer that can be under way, so one read takes all that is there. */
static void read_in(struct load *load, struct client *client)
{
    ssize_t got =
        recv(client->fd, client->in + client->in_used, load->in_size - client->in_used, 0);

    if (got < 0 && errno == EAGAIN)
        return;
    if (got <= 0)
        fail("the server %s", got == 0 ? "has closed a connection" : "could not be read from");
    client->in_used += (size_t)got;
    if (client->in_used == load->in_size)
        fail("the server has answered more than it was asked");
    scan(load, client);
}

/* ---- all of them ---- */

static void open_client(struct load *load, size_t at, const char *address)
{
    struct client *client = &load->clients[at];
    char tube[32];

    client->fd = wire_connect(address);
    snprintf(tube, sizeof(tube), "bench-%zu", at % load->plan->tubes);
    wire_take_tube(client->fd, tube);
    wire_unblock(client->fd);
    client->in = allocate(load->in_size);
    client->deletes = allocate(load->plan->in_flight * MAX_DELETE);
    client->puts = allocate(load->plan->in_flight * load->put_size);
    make_puts(load, client->puts);
    memset(client->last_priority, '0', PRIORITY_SIZE);
    watch(load, client, EPOLL_CTL_ADD, false);
}

static void open_all(struct load *load, const char *address)
{
    const struct load_plan *plan = load->plan;

    load->put_line = (size_t)snprintf(NULL, 0, "put %s %s 60 %zu\r\n",
                                      plan->random_priorities ? "1000000000" : "0",
                                      plan->delayed ? "10000" : "0", plan->body_size);
    load->put_size = load->put_line + plan->body_size + 2;
    load->in_size = plan->in_flight * (plan->body_size + MAX_REPLY_LINE) + 1;
    load->body = allocate(plan->body_size);
    memset(load->body, 'x', plan->body_size);
    memset(load->body, '0', PRIORITY_SIZE);
    make_reserves(load);
    load->epoll = epoll_create1(EPOLL_CLOEXEC);
    load->clients = calloc(plan->connections, sizeof(*load->clients));
    if (load->epoll < 0 || load->clients == NULL)
        fail("out of memory");
    for (size_t i = 0; i < plan->connections; i++)
        open_client(load, i, address);
}

static void close_all(struct load *load)
{
    for (size_t i = 0; i < load->plan->connections; i++) {
        struct client *client = &load->clients[i];
        close(client->fd);
        free(client->in);
        free(client->deletes);
        free(client->puts);
    }
    close(load->epoll);
    free(load->clients);
    free(load->reserves);
    free(load->body);
}

static void take_events(struct load *load)
{
    struct epoll_event events[EVENTS];
    int count = epoll_wait(load->epoll, events, EVENTS, PATIENCE_MS);

    if (count == 0)
        fail("the server has not answered for %d seconds", PATIENCE_MS / 1000);
    if (count < 0 && errno != EINTR)
        fail("epoll: %s", strerror(errno));
    for (int i = 0; i < count; i++) {
        struct client *client = events[i].data.ptr;
        if (__builtin_expect(client->waits_to_write, 0))
            write_out(load, client);
        read_in(load, client);
    }
}

void load_run(const char *address, const struct load_plan *plan, struct load_result *result)
{
    struct load load = {.plan = plan, .busy = plan->connections, .jobs_left = plan->jobs};

    if (plan->body_size < LOAD_MIN_BODY || plan->connections == 0 || plan->in_flight == 0 ||
        plan->tubes == 0)
        fail("there is nothing to do for the load generator");
    open_all(&load, address);
    load.random.state = plan->jobs;
    int64_t began = measure_now_ns();
    load.ends_ns = began + plan->duration_ns;
    for (size_t i = 0; i < plan->connections; i++)
        begin_window(&load, &load.clients[i]);
    while (load.busy > 0)
        take_events(&load);
    load.result.wall_ns = measure_now_ns() - began;
    load.result.ops = load.result.jobs * works[plan->work].ops_per_job;
    close_all(&load);
    *result = load.result;
}
