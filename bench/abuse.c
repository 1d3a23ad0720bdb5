/* SPDX-License-Identifier: MIT */
/*
 * abuse - what a client that behaves notices while others mean harm.
 *
 * For each attack (attack.h) a bided is started in memory. Beside the attack, and for a while after
 * it, a control client puts, reserves and deletes one job at a time, and pings by the verb call.
 * Every answer is timed. An answer other than the right one, a connection that is refused or
 * closed, and an answer that does not come are refusals. Every 200 jobs the client connects anew
 * and uses a tube with a new name, unless the attack takes every connection.
 *
 * The attackers run with less priority than the control client: what is measured is how long the
 * server keeps it waiting, not how this machine shares its cores.
 *
 * All of it happens in a network namespace of its own, in which 10.0.0.0/8 is another machine.
 */
#define _GNU_SOURCE /* unshare() */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <net/if.h>
#include <pthread.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "attack.h"
#include "bench.h"
#include "daemon.h"
#include "folder.h"
#include "measure.h"
#include "wire.h"

#define RUN_NS        INT64_C(5000000000)
#define QUICK_RUN_NS  INT64_C(1000000000)
#define AFTER_PART    5 /* so many times shorter is the time after the attack */
#define P99_MAX_MS    20.0
#define MAX_MS        250.0
#define PATIENCE_S    15 /* for one answer */
#define FRESH_CYCLES  200
#define PAUSE_US      1000  /* between two cycles */
#define RECONNECT_US  50000 /* before it connects anew: what it had may be taken */
#define SAMPLES_MAX   100000
#define REFUSALS_MAX  1000 /* then the attack has won */
#define ATTACKER_NICE 10
#define BODY_SIZE     4000

/* ---- the control client ---- */

struct wire_end {
    int fd;
    char data[8192];
    size_t used;
};

struct control {
    const char *address;
    bool keep_connections;
    struct wire_end producer;
    struct wire_end consumer;
    uint64_t tubes; /* that it has used */
    uint64_t cycles;
    double *samples; /* ms */
    size_t sample_count;
    uint64_t refusals;
    char refusal[64];         /* the first */
    char body[BODY_SIZE + 3]; /* with the end of its line */
};

static void count_refusal(struct control *control, const char *text)
{
    if (control->refusals++ == 0)
        snprintf(control->refusal, sizeof(control->refusal), "%.*s", (int)strcspn(text, "\r\n"),
                 text);
}

static void add_sample(struct control *control, int64_t begin_ns)
{
    if (control->sample_count < SAMPLES_MAX)
        control->samples[control->sample_count++] = (double)(measure_now_ns() - begin_ns) / 1e6;
}

static bool send_text(struct control *control, struct wire_end *end, const char *text)
{
    size_t size = strlen(text);

    if (send(end->fd, text, size, MSG_NOSIGNAL) == (ssize_t)size)
        return true;
    count_refusal(control, strerror(errno));
    return false;
}

/* Has at least that many bytes, or a whole line if it is 0, in the buffer. */
static bool await(struct control *control, struct wire_end *end, size_t size)
{
    for (;;) {
        if (size > 0 ? end->used >= size : memchr(end->data, '\n', end->used) != NULL)
            return true;
        if (end->used == sizeof(end->data)) {
            count_refusal(control, "a line that is too long");
            return false;
        }
        ssize_t got = recv(end->fd, end->data + end->used, sizeof(end->data) - end->used, 0);
        if (got <= 0) {
            count_refusal(control, got == 0          ? "closed"
                                   : errno == EAGAIN ? "no answer"
                                                     : strerror(errno));
            return false;
        }
        end->used += (size_t)got;
    }
}

static void consume(struct wire_end *end, size_t size)
{
    memmove(end->data, end->data + size, end->used - size);
    end->used -= size;
}

/* Hears a line that begins so, and answers the number behind that; its body, if it has one, goes
 * with it. */
static bool expect_line(struct control *control, struct wire_end *end, const char *begin,
                        size_t body_size, uint64_t *number)
{
    char line[128];

    if (!await(control, end, 0))
        return false;
    size_t size = (size_t)((char *)memchr(end->data, '\n', end->used) - end->data) + 1;
    snprintf(line, sizeof(line), "%.*s", (int)size, end->data);
    if (strncmp(line, begin, strlen(begin)) != 0) {
        count_refusal(control, line);
        return false;
    }
    if (number != NULL)
        *number = strtoull(line + strlen(begin), NULL, 10);
    if (!await(control, end, size + body_size))
        return false;
    consume(end, size + body_size);
    return true;
}

static bool connect_end(struct control *control, struct wire_end *end, const char *tube)
{
    const struct timeval patience = {.tv_sec = PATIENCE_S};
    char text[192];

    *end = (struct wire_end){.fd = wire_try_connect(control->address)};
    if (end->fd < 0) {
        count_refusal(control, strerror(errno));
        return false;
    }
    setsockopt(end->fd, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    setsockopt(end->fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
    snprintf(text, sizeof(text), "use %s\r\nwatch %s\r\nignore default\r\n", tube, tube);
    return send_text(control, end, text) && expect_line(control, end, "USING ", 0, NULL) &&
           expect_line(control, end, "WATCHING 2", 0, NULL) &&
           expect_line(control, end, "WATCHING 1", 0, NULL);
}

static void disconnect_end(struct wire_end *end)
{
    if (end->fd >= 0)
        close(end->fd);
    end->fd = -1;
}

static void disconnect_control(struct control *control)
{
    disconnect_end(&control->producer);
    disconnect_end(&control->consumer);
}

/* Connects, with a new tube. */
static bool connect_control(struct control *control)
{
    char tube[64];
    int64_t begin_ns = measure_now_ns();

    snprintf(tube, sizeof(tube), "control-%llu", (unsigned long long)control->tubes++);
    bool entered = connect_end(control, &control->producer, tube) &&
                   connect_end(control, &control->consumer, tube);
    add_sample(control, begin_ns);
    if (!entered)
        disconnect_control(control);
    return entered;
}

/* The consumer waits for a job when the producer puts it. */
static bool transfer_job(struct control *control, uint64_t *id)
{
    char line[64];
    int64_t begin_ns = measure_now_ns();

    if (!send_text(control, &control->consumer, "list-tube-used\r\nreserve-with-timeout 10\r\n") ||
        !expect_line(control, &control->consumer, "USING ", 0, NULL))
        return false;
    add_sample(control, begin_ns);

    /* Many clients send a line and its body apart. */
    begin_ns = measure_now_ns();
    snprintf(line, sizeof(line), "put 0 0 60 %d\r\n", BODY_SIZE);
    if (!send_text(control, &control->producer, line) ||
        !send_text(control, &control->producer, control->body) ||
        !expect_line(control, &control->producer, "INSERTED ", 0, NULL))
        return false;
    add_sample(control, begin_ns);
    if (!expect_line(control, &control->consumer, "RESERVED ", BODY_SIZE + 2, id))
        return false;
    add_sample(control, begin_ns);
    return true;
}

static bool cycle(struct control *control)
{
    char line[64];
    uint64_t id = 0;

    if (!transfer_job(control, &id))
        return false;

    int64_t begin_ns = measure_now_ns();
    snprintf(line, sizeof(line), "delete %llu\r\n", (unsigned long long)id);
    if (!send_text(control, &control->consumer, line) ||
        !expect_line(control, &control->consumer, "DELETED", 0, NULL))
        return false;
    add_sample(control, begin_ns);

    /* "ANSWER 1 0 <bytes>", with a sentence of no bytes: one byte that says so. */
    begin_ns = measure_now_ns();
    if (!send_text(control, &control->producer, "call 1 ping 0\r\n\r\n") ||
        !expect_line(control, &control->producer, "ANSWER 1 0 1\r", 3, NULL))
        return false;
    add_sample(control, begin_ns);
    return true;
}

static void work_until(struct control *control, int64_t end_ns)
{
    while (measure_now_ns() < end_ns && control->refusals < REFUSALS_MAX) {
        bool connected = control->producer.fd >= 0;
        if (connected && !control->keep_connections && ++control->cycles % FRESH_CYCLES == 0) {
            disconnect_control(control);
            measure_sleep_us(RECONNECT_US);
            connected = false;
        }
        if (!connected)
            connected = connect_control(control);
        if (connected && !cycle(control))
            disconnect_control(control);
        measure_sleep_us(PAUSE_US);
    }
}

/* ---- a network with another machine in it ---- */

#define OTHER_NETWORK UINT32_C(0x0a000000)

static bool write_file(const char *path, const char *text)
{
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

    if (fd >= 0)
        close(fd);
    return written;
}

/* As root, or as a user in a namespace of users in which it is itself. */
static bool unshare_network(void)
{
    char users[64];
    char groups[64];

    if (unshare(CLONE_NEWNET) == 0)
        return true;
    snprintf(users, sizeof(users), "%u %u 1", (unsigned)getuid(), (unsigned)getuid());
    snprintf(groups, sizeof(groups), "%u %u 1", (unsigned)getgid(), (unsigned)getgid());
    return unshare(CLONE_NEWUSER | CLONE_NEWNET) == 0 && write_file("/proc/self/uid_map", users) &&
           write_file("/proc/self/setgroups", "deny") && write_file("/proc/self/gid_map", groups);
}

static bool set_address(int fd, const char *name, uint32_t address)
{
    struct ifreq request = {0};
    struct sockaddr_in *of = (struct sockaddr_in *)(void *)&request.ifr_addr;

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    of->sin_family = AF_INET;
    of->sin_addr.s_addr = htonl(address);
    return ioctl(fd, SIOCSIFADDR, &request) == 0;
}

static bool bring_up(int fd, const char *name)
{
    struct ifreq request = {0};

    snprintf(request.ifr_name, sizeof(request.ifr_name), "%s", name);
    if (ioctl(fd, SIOCGIFFLAGS, &request) != 0)
        return false;
    request.ifr_flags |= IFF_UP;
    return ioctl(fd, SIOCSIFFLAGS, &request) == 0;
}

/*
 * The server has the address 10.0.0.1 on the loopback interface, and with it every address of that
 * network reaches it and can be a client's. False: the system does not allow it.
 */
static bool make_network(void)
{
    if (!unshare_network())
        return false;
    int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
    bool made = fd >= 0 && bring_up(fd, "lo") && set_address(fd, "lo:1", OTHER_NETWORK + 1);
    if (fd >= 0)
        close(fd);
    return made;
}

/* ---- one attack ---- */

struct server_args {
    char config[600];
    char listen[64];
    const char *all[5];
};

/* What the server is started with if other machines are to reach it. */
static void listen_remote(struct server_args *server_args, const struct settings *settings,
                          uint16_t port)
{
    snprintf(server_args->config, sizeof(server_args->config), "%s/bided.conf",
             settings->folder->path);
    snprintf(server_args->listen, sizeof(server_args->listen), "10.0.0.1:%u", port);
    int fd = open(server_args->config, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    if (fd < 0 || dprintf(fd, "auth_secret = " ATTACK_SECRET "\n") < 0)
        fail("%s: %s", server_args->config, strerror(errno));
    close(fd);
    server_args->all[0] = "--config";
    server_args->all[1] = server_args->config;
    server_args->all[2] = "--listen";
    server_args->all[3] = server_args->listen;
}

static void *run_attack(void *argument)
{
    void **both = argument;
    const struct attack_row *row = both[0];
    struct attack *attack = both[1];

    /* Of this thread only, as Linux has it. */
    setpriority(PRIO_PROCESS, 0, ATTACKER_NICE);
    row->run(attack);
    return NULL;
}

/* The attack, the control client beside it, and what that sees when the attackers have gone. */
static void run_under_attack(const struct attack_row *row, struct attack *attack,
                             struct control *control)
{
    void *both[] = {(void *)(uintptr_t)row, attack};
    pthread_t thread;

    if (pthread_create(&thread, NULL, run_attack, both) != 0)
        fail("no thread for an attack");
    int64_t now_ns = measure_now_ns();
    work_until(control, now_ns + attack->run_ns);
    attack->stop = true;
    pthread_join(thread, NULL);
    attack_disconnect(attack);
    work_until(control, measure_now_ns() + attack->run_ns / AFTER_PART);
}

/* ---- the table ---- */

static void print_header(const struct settings *settings)
{
    fprintf(settings->report->table, "  %-36s%8s%9s%9s%9s%9s\n", "attack", "answers", "p50 ms",
            "p99 ms", "max ms", "refused");
    fflush(settings->report->table);
}

static bool is_fast(double p99, double max)
{
    return p99 <= P99_MAX_MS && max <= MAX_MS;
}

/* Answers whether it passed; a quick run is not asked how fast it was. */
static bool print_row(const struct settings *settings, const struct attack_row *row,
                      struct control *control, uint64_t damage)
{
    FILE *table = settings->report->table;
    size_t count = control->sample_count;

    measure_sort(control->samples, count);
    double p99 = measure_quantile(control->samples, count, 99);
    double max = measure_quantile(control->samples, count, 100);
    bool undamaged = control->refusals == 0 && damage == 0;
    fprintf(table, "  %-36s%8zu%9.2f%9.2f%9.1f%9llu  %s", row->name, count,
            measure_quantile(control->samples, count, 50), p99, max,
            (unsigned long long)control->refusals,
            undamaged && is_fast(p99, max) ? "pass" : "FAIL");
    if (control->refusals > 0)
        fprintf(table, " (%s)", control->refusal);
    if (damage > 0)
        fprintf(table, " (%llu jobs injected)", (unsigned long long)damage);
    fputc('\n', table);
    fflush(table);
    return undamaged && (settings->quick || is_fast(p99, max));
}

static bool run_row(const struct settings *settings, const struct attack_row *row, double *samples)
{
    struct daemon daemon = {0};
    struct server_args server_args = {0};
    uint16_t port = daemon_free_port();
    struct daemon_setup setup = {
        .kind = DAEMON_BIDED, .core = DAEMON_ANY_CORE, .more = server_args.all};
    struct attack attack = {
        .settings = settings,
        .server = {.sin_family = AF_INET},
        .network = row->remote ? OTHER_NETWORK + 256 : INADDR_LOOPBACK,
        .run_ns = settings->quick ? QUICK_RUN_NS : RUN_NS,
    };
    struct control control = {
        .address = daemon.address, .keep_connections = row->keep_connections, .samples = samples};
    uint64_t damage = 0;

    if (row->remote)
        listen_remote(&server_args, settings, port);
    daemon_start(&daemon, settings, &setup);
    if (!row->remote)
        port = (uint16_t)strtoul(strrchr(daemon.address, ':') + 1, NULL, 10);
    attack.server.sin_addr.s_addr = htonl(row->remote ? OTHER_NETWORK + 1 : INADDR_LOOPBACK);
    attack.server.sin_port = htons(port);

    memset(control.body, 'x', BODY_SIZE);
    memcpy(control.body + BODY_SIZE, "\r\n", 3);
    if (!connect_control(&control))
        fail("bided does not serve the control client: %s", control.refusal);
    if (row->prepare != NULL)
        row->prepare(&attack);
    run_under_attack(row, &attack, &control);
    disconnect_control(&control);
    if (row->damage != NULL)
        damage = row->damage(&attack);
    daemon_kill(&daemon);
    return print_row(settings, row, &control, damage);
}

static bool is_wanted(const struct settings *settings, const struct attack_row *row)
{
    return settings->attack == NULL || strstr(row->name, settings->attack) != NULL;
}

void bench_abuse(const struct settings *settings)
{
    double *samples = calloc(SAMPLES_MAX, sizeof(*samples));
    bool has_network = make_network();
    size_t run = 0;
    size_t failed = 0;

    if (samples == NULL)
        fail("out of memory");
    settings->report->url = "memory:";
    print_header(settings);
    for (size_t i = 0; i < attack_row_count; i++) {
        const struct attack_row *row = &attack_rows[i];
        if (!is_wanted(settings, row))
            continue;
        if (row->remote && !has_network) {
            fprintf(settings->report->table, "  %-36s left out: no network namespace (be root)\n",
                    row->name);
            continue;
        }
        run++;
        failed += run_row(settings, row, samples) ? 0 : 1;
    }
    report_others(settings->report);
    free(samples);
    if (run == 0)
        fail("no attack has \"%s\" in its name", settings->attack);
    if (failed > 0)
        fail("%zu of %zu attacks hurt the control client (p99 at most %.0f ms, max %.0f ms, "
             "no refusal)",
             failed, run, P99_MAX_MS, MAX_MS);
}
