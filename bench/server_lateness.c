/* SPDX-License-Identifier: MIT */
/*
 * server_lateness - how long after its due time a delayed job is in the hands of a worker that
 * waits for it, while others do 1,000 ops a second; and whether one ever comes early.
 *
 * Connections on one thread: one puts delayed jobs at random moments, one takes them as they
 * come, one cycles through put, reserve and delete in another tube, a command each millisecond.
 * The body carries the due time: the clock just before the put is sent, and the delay. The server
 * cannot have read its clock any earlier, so a job that comes before this moment is early beyond
 * doubt; and the way there and back counts as lateness. beanstalkd knows only whole seconds.
 *
 * The last style measures bided on a file while 64 other connections of another process put, each
 * with 1,000 commands in flight: delays of 100 ms, so that a job is late, too, whose put was not
 * stored in time. As many workers wait as jobs may come due at a time. They delete nothing, because
 * the answer of their next reserve would wait for the disk behind that of the delete; so each run
 * has a tube of its own.
 */
#define _GNU_SOURCE /* ppoll */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"
#include "compare.h"
#include "daemon.h"
#include "folder.h"
#include "load.h"
#include "measure.h"
#include "pin.h"
#include "reply.h"
#include "wire.h"

#define JOBS        1000
#define QUICK_JOBS  50
#define BODY_SIZE   20      /* digits: the due time in microseconds */
#define PUT_EVERY   3000000 /* ns, on average */
#define CYCLE_EVERY 1000000
#define WORKERS     32 /* of the loaded style; else one */
#define PATIENCE_NS INT64_C(60000000000)

/* What delays are written like. */
struct style {
    const char *name;
    const char *suffix;
    int64_t unit_ms;
    uint64_t first;
    uint64_t spread;
    bool bided_only;
    bool loaded; /* durable, beside connections that put as fast as they can */
};
static const struct style styles[] = {
    {"1 to 3 s", "", 1000, 1, 3, false, false},
    {"0.1 to 3 s", "ms", 1, 100, 2900, true, false},
    {"loaded", "ms", 1, 100, 1, true, true},
};
static const struct style quick_styles[] = {
    {"1 s", "", 1000, 1, 1, false, false},
    {"0.1 to 1 s", "ms", 1, 100, 900, true, false},
    {"loaded", "ms", 1, 100, 1, true, true},
};

#define STYLES (sizeof(styles) / sizeof(styles[0]))

/* What a connection does. Those from WORKER on are all workers. */
enum role { PUTTER, CYCLER, WORKER, ROLES };

#define CLIENTS_MAX (WORKER + WORKERS)

struct client {
    int fd;
    char in[4096];
    size_t used;
};

struct run {
    const struct style *style;
    struct client clients[CLIENTS_MAX];
    size_t client_count;
    struct random random;
    size_t count;
    size_t put_count;
    size_t taken;
    size_t early;
    size_t ops; /* of the cycler */
    int64_t next_put_ns;
    int64_t next_cycle_ns;
    bool cycler_waits; /* for an answer */
    int64_t now_ns;    /* when the last answers came */
    double *late_ms;
};

/* ---- sending ---- */

static void put_delayed(struct run *run)
{
    uint64_t delay = run->style->first + random_next(&run->random) % run->style->spread;
    char text[128];

    run->next_put_ns += (int64_t)(random_next(&run->random) % (UINT64_C(2) * PUT_EVERY));
    run->put_count++;
    int64_t due_us = measure_boot_ns() / 1000 + (int64_t)delay * run->style->unit_ms * 1000;
    int size =
        snprintf(text, sizeof(text), "put 0 %llu%s 60 %d\r\n%020lld\r\n", (unsigned long long)delay,
                 run->style->suffix, BODY_SIZE, (long long)due_us);
    wire_send(run->clients[PUTTER].fd, text, (size_t)size);
}

/* The next of put, reserve, delete. A delete is sent where its id is known. */
static void cycle(struct run *run)
{
    static const char *const commands[] = {"put 0 0 60 5\r\nhello\r\n", "reserve\r\n"};
    const char *command = commands[run->ops % 3];

    run->next_cycle_ns += CYCLE_EVERY;
    run->cycler_waits = true;
    wire_send(run->clients[CYCLER].fd, command, strlen(command));
}

static void send_delete(int fd, const struct reserved *job, const char *then)
{
    char text[64];
    int size = snprintf(text, sizeof(text), "delete %.*s\r\n%s", (int)job->id_size, job->id, then);

    wire_send(fd, text, (size_t)size);
}

/* ---- receiving: each looks at one reply, and answers its end, or NULL ---- */

static const char *receive_putter(struct run *run, struct client *client, const char *at,
                                  const char *end)
{
    (void)run;
    (void)client;
    return reply_inserted(at, end);
}

static void take(struct run *run, const struct reserved *job)
{
    char digits[BODY_SIZE + 1] = "";

    memcpy(digits, job->body, BODY_SIZE);
    int64_t due_us = strtoll(digits, NULL, 10);
    double late_ms = (double)(run->now_ns - due_us * 1000) / 1e6;
    if (run->taken == run->count)
        fail("more jobs came out than were put in");
    run->early += late_ms < 0;
    run->late_ms[run->taken++] = late_ms;
}

static const char *receive_worker(struct run *run, struct client *client, const char *at,
                                  const char *end)
{
    struct reserved job;

    if (*at == 'D')
        return reply_deleted(at, end);
    const char *next = reply_reserved(at, end, BODY_SIZE, &job);
    if (next == NULL)
        return NULL;
    take(run, &job);
    if (run->style->loaded)
        wire_send(client->fd, "reserve\r\n", 9);
    else
        send_delete(client->fd, &job, "reserve\r\n");
    return next;
}

/* The delete leaves at once, while its id is there, in the place of the next turn. */
static const char *receive_cycler(struct run *run, struct client *client, const char *at,
                                  const char *end)
{
    static const char *(*const receive[])(const char *, const char *) = {reply_inserted, NULL,
                                                                         reply_deleted};
    struct reserved job = {0};
    const char *next =
        run->ops % 3 == 1 ? reply_reserved(at, end, 5, &job) : receive[run->ops % 3](at, end);

    if (next == NULL)
        return NULL;
    run->ops++;
    run->cycler_waits = false;
    if (run->ops % 3 == 2) {
        send_delete(client->fd, &job, "");
        run->cycler_waits = true;
        run->next_cycle_ns += CYCLE_EVERY;
    }
    return next;
}

static const char *(*const receivers[ROLES])(struct run *, struct client *, const char *,
                                             const char *) = {
    [PUTTER] = receive_putter,
    [CYCLER] = receive_cycler,
    [WORKER] = receive_worker,
};

static void receive(struct run *run, size_t i)
{
    struct client *client = &run->clients[i];
    enum role role = i < WORKER ? (enum role)i : WORKER;
    ssize_t got = recv(client->fd, client->in + client->used, sizeof(client->in) - client->used, 0);

    if (got <= 0)
        fail("the server has closed a connection, or cannot be read from");
    client->used += (size_t)got;
    const char *at = client->in;
    const char *end = client->in + client->used;
    while (at < end) {
        const char *next = receivers[role](run, client, at, end);
        if (next == NULL)
            break;
        at = next;
    }
    client->used = (size_t)(end - at);
    memmove(client->in, at, client->used);
}

/* ---- the loop ---- */

static int64_t send_what_is_due(struct run *run)
{
    int64_t now = measure_boot_ns();
    int64_t next = now + 100000000;

    if (run->put_count < run->count && now >= run->next_put_ns)
        put_delayed(run);
    if (!run->cycler_waits && now >= run->next_cycle_ns)
        cycle(run);
    if (run->put_count < run->count && run->next_put_ns < next)
        next = run->next_put_ns;
    if (!run->cycler_waits && run->next_cycle_ns < next)
        next = run->next_cycle_ns;
    return next > now ? next - now : 0;
}

static void await_answers(struct run *run, int64_t at_most_ns)
{
    const struct timespec timeout = {
        .tv_sec = (time_t)(at_most_ns / 1000000000),
        .tv_nsec = (long)(at_most_ns % 1000000000),
    };
    struct pollfd polled[CLIENTS_MAX];

    for (size_t i = 0; i < run->client_count; i++)
        polled[i] = (struct pollfd){.fd = run->clients[i].fd, .events = POLLIN};
    if (ppoll(polled, run->client_count, &timeout, NULL) < 0 && errno != EINTR)
        fail("poll: %s", strerror(errno));
    run->now_ns = measure_boot_ns();
    for (size_t i = 0; i < run->client_count; i++) {
        if (polled[i].revents != 0)
            receive(run, i);
    }
}

static void open_clients(struct run *run, const struct daemon *daemon)
{
    char late[32];

    snprintf(late, sizeof(late), "late-%llu", (unsigned long long)run->random.state);
    run->client_count = WORKER + (run->style->loaded ? WORKERS : 1);
    for (size_t i = 0; i < run->client_count; i++) {
        run->clients[i].fd = wire_connect(daemon->address);
        run->clients[i].used = 0;
        wire_take_tube(run->clients[i].fd, i == CYCLER ? "beside" : late);
        if (i >= WORKER)
            wire_send(run->clients[i].fd, "reserve\r\n", 9);
    }
}

/* Answers the ops a second that were done beside. */
static double run_once(struct run *run, const struct daemon *daemon)
{
    open_clients(run, daemon);
    int64_t began = measure_boot_ns();
    run->put_count = run->taken = run->ops = 0;
    run->cycler_waits = false;
    run->next_put_ns = run->next_cycle_ns = began;
    while (run->taken < run->count) {
        await_answers(run, send_what_is_due(run));
        if (run->now_ns > began + PATIENCE_NS)
            fail("%zu of %zu delayed jobs came out", run->taken, run->count);
    }
    for (size_t i = 0; i < run->client_count; i++)
        close(run->clients[i].fd);
    measure_sort(run->late_ms, run->count);
    return (double)run->ops * 1e9 / (double)(measure_boot_ns() - began);
}

/* ---- the load beside ---- */

/* A process that puts until it is stopped; it ends with this one. */
static pid_t start_load(const struct daemon *daemon)
{
    static const struct load_plan plan = {
        .connections = 64,
        .in_flight = 1000,
        .body_size = BENCH_BODY_SIZE,
        .tubes = 1,
        .work = LOAD_PUT,
        .jobs = 64000,
    };
    struct load_result result;
    pid_t parent = getpid();

    fflush(NULL);
    pid_t pid = fork();
    if (pid < 0)
        fail("fork: %s", strerror(errno));
    if (pid > 0)
        return pid;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent)
        load_run(daemon->address, &plan, &result);
    _exit(0);
}

static void stop_load(pid_t pid)
{
    kill(pid, SIGKILL);
    waitpid(pid, NULL, 0);
}

/* ---- figures ---- */

struct figures {
    double late_ms[MEASURE_QUANTILES][BENCH_MAX_REPEAT];
    double early[BENCH_MAX_REPEAT];
    double ops[BENCH_MAX_REPEAT];
};

static void measure(struct run *run, const struct daemon *daemon, size_t at,
                    struct figures *figures)
{
    run->early = 0;
    run->random.state = at;
    figures->ops[at] = run_once(run, daemon);
    figures->early[at] = (double)run->early;
    for (size_t q = 0; q < MEASURE_QUANTILES; q++)
        figures->late_ms[q][at] =
            measure_quantile(run->late_ms, run->count, measure_quantiles[q].percent);
}

static void report(struct comparison *comparison, enum daemon_kind kind, bool loaded,
                   struct figures *figures)
{
    const struct {
        const char *unit;
        double asked;
    } lines[MEASURE_QUANTILES] = {
        {"ms late, p50", loaded ? 0 : 1}, {"ms late, p99", loaded ? 50 : 5}, {"ms late, max", 0}};
    const char *name = daemon_name(kind);
    const struct compare_line early = {name, "jobs came early", false, 0};
    const struct compare_line ops = {name, "ops/s beside", true, 0};

    for (size_t q = 0; q < MEASURE_QUANTILES; q++) {
        const struct compare_line line = {name, lines[q].unit, false,
                                          kind == DAEMON_BIDED ? lines[q].asked : 0};
        compare_line(comparison, &line, figures->late_ms[q]);
    }
    compare_line(comparison, &early, figures->early);
    compare_line(comparison, &ops, figures->ops);
}

static void run_style(const struct settings *settings, const struct pin *pin, struct run *run)
{
    static struct figures figures[DAEMONS];
    struct daemon daemons[DAEMONS] = {{0}};
    struct comparison comparison = {
        .settings = settings, .name = "server-lateness", .pin = pin->name};
    size_t kinds = run->style->bided_only ? 1 : DAEMONS;

    comparison.work = "lateness";
    comparison.place = run->style->name;
    snprintf(comparison.shape, sizeof(comparison.shape), "%zu jobs", run->count);
    for (enum daemon_kind kind = 0; kind < kinds; kind++) {
        const struct daemon_setup setup = {
            .kind = kind, .durable = run->style->loaded, .core = pin->server};
        if (setup.durable)
            folder_empty();
        daemon_start(&daemons[kind], settings, &setup);
    }
    pid_t load = run->style->loaded ? start_load(&daemons[DAEMON_BIDED]) : 0;
    for (size_t i = 0; i < settings->repeat; i++) {
        for (size_t turn = 0; turn < kinds; turn++) {
            enum daemon_kind kind = kinds == 1 ? DAEMON_BIDED : compare_turn(i, turn);
            measure(run, &daemons[kind], i, &figures[kind]);
        }
    }
    if (load != 0)
        stop_load(load);
    for (enum daemon_kind kind = 0; kind < kinds; kind++) {
        daemon_stop(&daemons[kind]);
        report(&comparison, kind, run->style->loaded, &figures[kind]);
    }
}

void bench_server_lateness(const struct settings *settings)
{
    struct pin modes[PIN_MODES];
    size_t mode_count = pin_modes(settings, modes);
    struct run *run = calloc(1, sizeof(*run));

    daemon_check(settings);
    settings->report->url = "memory:";
    if (run != NULL)
        run->late_ms = calloc(JOBS, sizeof(*run->late_ms));
    if (run == NULL || run->late_ms == NULL)
        fail("out of memory");
    run->count = settings->quick ? QUICK_JOBS : JOBS;
    for (size_t mode = 0; mode < mode_count; mode++) {
        pin_self(modes[mode].load);
        for (size_t i = 0; i < STYLES; i++) {
            run->style = settings->quick ? &quick_styles[i] : &styles[i];
            run_style(settings, &modes[mode], run);
        }
    }
    report_others(settings->report);
    free(run->late_ms);
    free(run);
}
