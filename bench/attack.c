/* SPDX-License-Identifier: MIT */
#include "attack.h"

#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "measure.h"
#include "wire.h"

#define HOSTS         200 /* addresses that the clients share */
#define PIECE         65536
#define PREPARE_NS    INT64_C(60000000000)
#define ROUND_TUBES   1000 /* tubes, jobs, waiters that are asked for at a time */
#define WATCHED_TUBES 10000
#define WATCHED_FEW   250
#define ALL_TUBES     1000000 /* that a server allows */
#define OTHER_FILES   100
#define NAME_SIZE     16 /* of a tube whose name collides */

/* ---- texts ---- */

static void add_bytes(struct text *text, const void *data, size_t size)
{
    if (text->room - text->size < size) {
        text->room = text->room * 2 + size;
        text->data = realloc(text->data, text->room);
        if (text->data == NULL)
            fail("out of memory");
    }
    memcpy(text->data + text->size, data, size);
    text->size += size;
}

__attribute__((format(printf, 2, 3))) static void add(struct text *text, const char *format, ...)
{
    char line[512];
    va_list args;

    va_start(args, format);
    int size = vsnprintf(line, sizeof(line), format, args);
    va_end(args);
    if (size < 0 || (size_t)size >= sizeof(line))
        fail("a command of an attack is too long");
    add_bytes(text, line, (size_t)size);
}

static void add_call(struct text *text, uint64_t tag, const char *op, const void *arguments,
                     size_t size)
{
    add(text, "call %llu %s %zu\r\n", (unsigned long long)tag, op, size);
    add_bytes(text, arguments, size);
    add_bytes(text, "\r\n", 2);
}

/* A reserve of the topic "idle" that waits for ever. */
static void add_waiting(struct text *text, uint64_t tag)
{
    static const char arguments[] = "\x01\x05idle\x00\x00\x01\x01";

    add_call(text, tag, "reserve", arguments, sizeof(arguments) - 1);
}

/* ---- connections ---- */

static void set_patience(int fd, int milliseconds)
{
    struct timeval patience = {.tv_sec = milliseconds / 1000,
                               .tv_usec = milliseconds % 1000 * 1000};

    setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &patience, sizeof(patience));
}

/* Answers -1 if the server does not let it in. */
static int connect_from(const struct attack *attack, size_t host)
{
    struct sockaddr_in from = {.sin_family = AF_INET};
    int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    int yes = 1;

    from.sin_addr.s_addr = htonl(attack->network + 2 + (uint32_t)(host % HOSTS));
    if (fd < 0)
        fail("no socket for an attack: %s (raise \"ulimit -n\")", strerror(errno));
    set_patience(fd, 500);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &yes, sizeof(yes));
    if (bind(fd, (const struct sockaddr *)&from, sizeof(from)) == 0 &&
        connect(fd, (const struct sockaddr *)&attack->server, sizeof(attack->server)) == 0)
        return fd;
    close(fd);
    return -1;
}

/* As many, or what may be open besides the files of the program. */
static void open_connections(struct attack *attack, size_t count)
{
    struct rlimit files;

    if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < count + OTHER_FILES)
        count = files.rlim_cur > 2 * OTHER_FILES ? files.rlim_cur - OTHER_FILES : OTHER_FILES;
    attack->attackers = calloc(count, sizeof(*attack->attackers));
    attack->attacker_count = count;
    if (attack->attackers == NULL)
        fail("out of memory");
    for (size_t i = 0; i < count; i++)
        attack->attackers[i].fd = connect_from(attack, i);
}

void attack_disconnect(struct attack *attack)
{
    for (size_t i = 0; i < attack->attacker_count; i++) {
        if (attack->attackers[i].fd >= 0)
            close(attack->attackers[i].fd);
    }
    free(attack->attackers);
    attack->attackers = NULL;
    attack->attacker_count = 0;
}

/* Sends it all and hears that many lines, unless the connection ends or it takes too long. */
static void send_and_read(int fd, const struct text *text, size_t lines)
{
    char received[PIECE];
    size_t sent = 0;
    int64_t give_up_ns = measure_now_ns() + PREPARE_NS;

    while (fd >= 0 && (sent < text->size || lines > 0) && measure_now_ns() < give_up_ns) {
        struct pollfd wanted = {.fd = fd, .events = POLLIN};
        if (sent < text->size)
            wanted.events |= POLLOUT;
        poll(&wanted, 1, 100);
        if (wanted.revents & POLLOUT) {
            ssize_t took =
                send(fd, text->data + sent, text->size - sent, MSG_NOSIGNAL | MSG_DONTWAIT);
            sent += took > 0 ? (size_t)took : 0;
        }
        ssize_t got = recv(fd, received, sizeof(received), MSG_DONTWAIT);
        if (got == 0 || (got < 0 && errno != EAGAIN && errno != EINTR))
            return;
        for (ssize_t i = 0; i < got && lines > 0; i++)
            lines -= received[i] == '\n';
    }
}

/* ---- floods ---- */

struct flood {
    const struct text *texts; /* the attackers have them in turn */
    size_t text_count;
    bool once;        /* a text is sent once, not again and again */
    size_t write_max; /* bytes a turn; 0: what the socket takes */
    size_t read_max;  /* 0: reads nothing */
    int64_t pause_us; /* between turns */
};

/* False: the connection has ended. */
static bool send_some(struct attacker *attacker, const struct text *text, const struct flood *flood,
                      bool *moved)
{
    size_t size = text->size - attacker->at;

    if (flood->write_max != 0 && size > flood->write_max)
        size = flood->write_max;
    if (size == 0)
        return true;
    ssize_t sent = send(attacker->fd, text->data + attacker->at, size, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (sent < 0)
        return errno == EAGAIN || errno == EINTR;
    *moved = true;
    attacker->at += (size_t)sent;
    if (attacker->at == text->size && !flood->once)
        attacker->at = 0;
    return true;
}

static bool read_some(const struct attacker *attacker, const struct flood *flood, bool *moved)
{
    char received[PIECE];
    size_t size = flood->read_max < sizeof(received) ? flood->read_max : sizeof(received);

    if (size == 0)
        return true;
    ssize_t got = recv(attacker->fd, received, size, MSG_DONTWAIT);
    if (got < 0)
        return errno == EAGAIN || errno == EINTR;
    *moved = true;
    return got > 0;
}

/* Every attacker in turn sends and reads what it can, until the attack is over. */
static void flood(struct attack *attack, const struct flood *flood)
{
    while (!attack->stop) {
        bool moved = false;
        for (size_t i = 0; i < attack->attacker_count && !attack->stop; i++) {
            struct attacker *attacker = &attack->attackers[i];
            const struct text *text = &flood->texts[i % flood->text_count];
            if (attacker->fd < 0)
                *attacker = (struct attacker){.fd = connect_from(attack, i)};
            if (attacker->fd < 0)
                continue;
            if (!send_some(attacker, text, flood, &moved) || !read_some(attacker, flood, &moved)) {
                close(attacker->fd);
                attacker->fd = -1;
            }
        }
        if (!moved || flood->pause_us > 0)
            measure_sleep_us(flood->pause_us > 0 ? flood->pause_us : 1000);
    }
}

/* Connections that send the text again and again, and read all or nothing. */
static void repeat(struct attack *attack, size_t connections, struct text *text, bool reads)
{
    const struct flood plan = {.texts = text, .text_count = 1, .read_max = reads ? PIECE : 0};

    if (attack->attacker_count == 0)
        open_connections(attack, connections);
    flood(attack, &plan);
    free(text->data);
}

/* Connections that send one of the texts once, and stay. */
static void hold_connections(struct attack *attack, size_t connections, struct text *texts,
                             size_t count)
{
    const struct flood plan = {
        .texts = texts, .text_count = count, .once = true, .read_max = PIECE, .pause_us = 10000};

    open_connections(attack, connections);
    flood(attack, &plan);
    for (size_t i = 0; i < count; i++)
        free(texts[i].data);
}

static uint64_t scaled(const struct attack *attack, uint64_t count)
{
    return attack->settings->quick ? count / 20 : count;
}

/* ---- nothing ---- */

static void do_nothing(struct attack *attack)
{
    (void)attack;
}

/* ---- names of tubes ---- */

/* The hash that bided 0.1 had for names, which can be computed by those who know its seed. */
static uint64_t mix(uint64_t x)
{
    x = (x ^ (x >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    x = (x ^ (x >> 27)) * UINT64_C(0x94d049bb133111eb);
    return x ^ (x >> 31);
}

static bool may_be_name(uint64_t word)
{
    static const char letters[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"
                                  "-+/;.$_()";
    static bool is_letter[256];

    if (!is_letter['A']) {
        for (size_t i = 0; letters[i] != '\0'; i++)
            is_letter[(unsigned char)letters[i]] = true;
    }
    for (size_t i = 0; i < sizeof(word); i++, word >>= 8) {
        if (!is_letter[word & 0xff])
            return false;
    }
    return true;
}

/*
 * The next name of 16 bytes whose hash is that of all the others. The first half is a number in
 * letters; the second is what the hash needs, if that is a text.
 */
static void next_name(uint64_t seed, uint64_t *number, char name[NAME_SIZE + 1])
{
    uint64_t halves[2];

    do {
        uint64_t rest = (*number)++;
        halves[0] = 0;
        for (int i = 0; i < 8; i++, rest >>= 4)
            halves[0] = halves[0] << 8 | ('a' + (rest & 15));
        halves[1] = mix(seed ^ (NAME_SIZE * UINT64_C(0x9e3779b97f4a7c15)) ^ halves[0]) ^
                    UINT64_C(0x5a5a5a5a5a5a5a5a);
    } while (!may_be_name(halves[1]));
    memcpy(name, halves, NAME_SIZE);
    name[NAME_SIZE] = '\0';
}

/* The seed was the beginning of the public id of the server. */
static uint64_t find_seed(const struct attack *attack)
{
    char received[PIECE] = "";
    size_t used = 0;
    uint64_t seed = 0;
    int fd = connect_from(attack, 0);

    if (fd < 0 || send(fd, "stats\r\n", 7, MSG_NOSIGNAL) != 7)
        fail("an attack cannot ask for the id of the server");
    const char *id = NULL;
    while (used < sizeof(received) - 1 && (id == NULL || received + used - id < 24)) {
        ssize_t got = recv(fd, received + used, sizeof(received) - 1 - used, 0);
        if (got <= 0)
            fail("the server does not tell its id");
        used += (size_t)got;
        id = strstr(received, "\nid: ");
    }
    memcpy(&seed, id + 5, sizeof(seed));
    close(fd);
    return seed;
}

/* They are watched, so that they stay; the attack uses them. */
static void prepare_collisions(struct attack *attack)
{
    uint64_t left = scaled(attack, 10000);
    uint64_t seed = find_seed(attack);
    uint64_t number = 0;

    open_connections(attack, 4);
    for (size_t i = 0; i < attack->attacker_count && left > 0; i++) {
        struct text text = {0};
        size_t count = 0;
        for (; count < WATCHED_TUBES - 1 && left > 0; count++, left--) {
            char name[NAME_SIZE + 1];
            next_name(seed, &number, name);
            add(&text, "watch %s\r\n", name);
            add(&attack->kept, "use %s\r\n", name);
        }
        send_and_read(attack->attackers[i].fd, &text, count);
        free(text.data);
    }
}

static void use_collisions(struct attack *attack)
{
    struct text text = attack->kept;

    attack->kept = (struct text){0};
    repeat(attack, 4, &text, true);
}

/* ---- waiting calls ---- */

static void await_calls(struct attack *attack, size_t connections, uint64_t each)
{
    open_connections(attack, connections);
    for (size_t i = 0; i < connections; i++) {
        struct text text = {0};
        for (uint64_t tag = 1; tag <= each; tag++)
            add_waiting(&text, tag);
        add(&text, "list-tube-used\r\n");
        send_and_read(attack->attackers[i].fd, &text, 1);
        free(text.data);
    }
}

static void prepare_cancels(struct attack *attack)
{
    await_calls(attack, 1, scaled(attack, 50000));
}

static void cancel_unknown(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++)
        add(&text, "call-cancel 999999999\r\n");
    repeat(attack, 1, &text, true);
}

static void take_waiters(struct attack *attack)
{
    const struct text nothing = {0};
    const struct flood hold = {.texts = &nothing, .text_count = 1, .once = true, .read_max = PIECE};

    await_calls(attack, 10, 20000);
    flood(attack, &hold);
}

/* ---- watched tubes ---- */

/* The default tube is watched already. */
static void watch_empty(struct attack *attack, size_t tubes)
{
    struct text text = {0};

    for (size_t i = 0; i < tubes - 1; i++)
        add(&text, "watch empty-%zu\r\n", i);
    open_connections(attack, 4);
    for (size_t i = 0; i < attack->attacker_count; i++)
        send_and_read(attack->attackers[i].fd, &text, tubes - 1);
    free(text.data);
}

static void prepare_watching(struct attack *attack)
{
    watch_empty(attack, WATCHED_TUBES);
}

static void prepare_watching_few(struct attack *attack)
{
    watch_empty(attack, WATCHED_FEW);
}

static void reserve_nothing(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++)
        add(&text, "reserve-with-timeout 0\r\n");
    repeat(attack, 4, &text, true);
}

/* ---- many jobs, many tubes ---- */

/* Puts so many jobs, each in a tube of its own if each is said. */
static void put_jobs(struct attack *attack, uint64_t count, bool each)
{
    int fd = connect_from(attack, 0);

    for (uint64_t i = 0; i < count; i += ROUND_TUBES) {
        struct text text = {0};
        size_t lines = 0;
        for (size_t n = 0; n < ROUND_TUBES; n++) {
            if (each)
                add(&text, "use many-%llu\r\n", (unsigned long long)i + n);
            else if (n == 0)
                add(&text, "use much\r\n");
            lines += each || n == 0;
            add(&text, "put 0 0 600 1\r\nx\r\n");
            lines++;
        }
        send_and_read(fd, &text, lines);
        free(text.data);
    }
    if (fd >= 0)
        close(fd);
}

static void prepare_check(struct attack *attack)
{
    put_jobs(attack, scaled(attack, 2000000), false);
}

static void check_again(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++)
        add_call(&text, i, "check", "", 0);
    repeat(attack, 4, &text, true);
}

static void prepare_tubes(struct attack *attack)
{
    put_jobs(attack, scaled(attack, ALL_TUBES), true);
}

static void list_tubes(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < 10; i++)
        add(&text, "list-tubes\r\n");
    repeat(attack, 4, &text, true);
}

/* 10,000 at a time, from the beginning. */
static void list_topics(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < 100; i++)
        add_call(&text, i, "topics", "\x00\x90\x4e", 3);
    repeat(attack, 4, &text, true);
}

/* References to topics with new names. */
static void add_references(const struct attack *attack, uint64_t number)
{
    size_t connection = number / ROUND_TUBES % attack->attacker_count;
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++, number++) {
        char arguments[32];
        int size = snprintf(arguments, sizeof(arguments), "\x0cref%08llx%c%c",
                            (unsigned long long)number & 0xffffffff, 0, 2);
        add_call(&text, number, "topic_ref", arguments, (size_t)size);
    }
    send_and_read(attack->attackers[connection].fd, &text, ROUND_TUBES * 2);
    free(text.data);
}

static void prepare_references(struct attack *attack)
{
    open_connections(attack, 100);
    for (uint64_t i = 0; i < scaled(attack, ALL_TUBES); i += ROUND_TUBES)
        add_references(attack, i);
}

static void keep_adding_references(struct attack *attack)
{
    for (uint64_t i = ALL_TUBES; !attack->stop; i += ROUND_TUBES)
        add_references(attack, i);
}

static void prepare_held(struct attack *attack)
{
    uint64_t count = scaled(attack, 1000000);
    struct text text = {0};

    put_jobs(attack, count, false);
    open_connections(attack, 1);
    add(&text, "watch much\r\n");
    send_and_read(attack->attackers[0].fd, &text, 1);
    text.size = 0;
    for (size_t i = 0; i < ROUND_TUBES; i++)
        add(&text, "reserve-with-timeout 0\r\n");
    for (uint64_t i = 0; i < count; i += ROUND_TUBES)
        send_and_read(attack->attackers[0].fd, &text, ROUND_TUBES * 2);
    free(text.data);
}

/* Goes away with all that it holds. */
static void disconnect_early(struct attack *attack)
{
    measure_sleep_us(attack->run_ns / 5000);
    attack_disconnect(attack);
}

/* ---- memory of others ---- */

/* Sizes great and small, so that nothing is left when no more fit. */
static void declare_bodies(struct attack *attack)
{
    struct text texts[6] = {{0}};

    for (size_t i = 0, size = 3000000; i < 6; i++, size /= 10)
        add(&texts[i], "call 1 put %zu\r\n", size);
    hold_connections(attack, 600, texts, 6);
}

/* All kinds of events of all topics: feeds with room for a million, then for fewer and fewer. */
static void subscribe_much(struct attack *attack)
{
    struct text text = {0};
    char arguments[8] = "\x00\xff\x7f";

    for (uint32_t capacity = 1000000; capacity > 0; capacity /= 2) {
        size_t size = 3;
        for (uint32_t rest = capacity; rest > 0; rest >>= 7)
            arguments[size++] = (char)((rest & 0x7f) | (rest > 0x7f ? 0x80 : 0));
        for (size_t i = 0; i < 100; i++)
            add_call(&text, i, "subscribe", arguments, size);
    }
    repeat(attack, 1, &text, true);
}

/* ---- a web page ---- */

static void post_commands(struct attack *attack)
{
    static const char request[] = "POST / HTTP/1.1\r\n"
                                  "Host: 127.0.0.1:11300\r\n"
                                  "Content-Type: text/plain\r\n"
                                  "Content-Length: 36\r\n"
                                  "\r\n"
                                  "use injected\r\n"
                                  "put 0 0 60 1\r\n"
                                  "x\r\n";

    for (size_t i = 0; !attack->stop; i++) {
        char received[512];
        int fd = connect_from(attack, i);
        if (fd < 0)
            continue;
        send(fd, request, sizeof(request) - 1, MSG_NOSIGNAL);
        shutdown(fd, SHUT_WR);
        while (recv(fd, received, sizeof(received), 0) > 0)
            continue;
        close(fd);
    }
}

static uint64_t injected_jobs(struct attack *attack)
{
    static const char key[] = "total-jobs: ";
    char received[1024] = "";
    int fd = connect_from(attack, 0);

    if (fd < 0 || send(fd, "stats-tube injected\r\n", 21, MSG_NOSIGNAL) != 21 ||
        recv(fd, received, sizeof(received) - 1, 0) <= 0)
        fail("the server does not tell what was injected");
    close(fd);
    const char *found = strstr(received, key);
    return found == NULL ? 0 : strtoull(found + strlen(key), NULL, 10);
}

/* ---- other machines ---- */

static void guess_secret(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++)
        add(&text, "auth guess-%zu\r\n", i);
    repeat(attack, 10, &text, true);
}

static void stay_silent(struct attack *attack)
{
    struct text nothing = {0};

    hold_connections(attack, 10100, &nothing, 1);
}

/* ---- rude clients ---- */

static void open_10000(struct attack *attack)
{
    struct text text = {0};

    add(&text, "list-tube-used\r\n");
    hold_connections(attack, 10000, &text, 1);
}

static void reconnect(struct attack *attack)
{
    for (size_t i = 0; !attack->stop; i++) {
        int fd = connect_from(attack, i);
        if (fd < 0)
            continue;
        send(fd, "stats\r\n", 7, MSG_NOSIGNAL);
        close(fd);
    }
}

static void read_slowly(struct attack *attack)
{
    struct text text = {0};
    const struct flood slow = {.texts = &text, .text_count = 1, .read_max = 64, .pause_us = 1000};

    for (size_t i = 0; i < 100; i++)
        add(&text, "stats\r\n");
    open_connections(attack, 200);
    flood(attack, &slow);
    free(text.data);
}

static void never_read(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++)
        add(&text, "stats\r\nlist-tubes\r\n");
    repeat(attack, 200, &text, false);
}

/* Calls are answered out of order: what is unread is in the server, not in a pipeline. */
static void never_read_calls(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++)
        add_call(&text, i, "stats", "", 0);
    repeat(attack, 200, &text, false);
}

static void send_half_lines(struct attack *attack)
{
    struct text text = {0};
    const struct flood trickle = {
        .texts = &text, .text_count = 1, .write_max = 1, .read_max = PIECE};

    for (size_t i = 0; i < 100; i++)
        add(&text, "put 0 0 60 ");
    open_connections(attack, 1000);
    flood(attack, &trickle);
    free(text.data);
}

static void send_endless_lines(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < PIECE / 16; i++)
        add(&text, "xxxxxxxxxxxxxxxx");
    repeat(attack, 20, &text, true);
}

/* Commands that are right, as many as the server takes. */
static void work_hard(struct attack *attack)
{
    struct text text = {0};

    for (size_t i = 0; i < ROUND_TUBES; i++)
        add(&text, "list-tube-used\r\nstats\r\npeek-ready\r\nstats-tube default\r\nkick 9\r\n");
    repeat(attack, 20, &text, true);
}

/* ---- the table ---- */

const struct attack_row attack_rows[] = {
    {.name = "none", .run = do_nothing},
    {.name = "pipelines of commands, 20", .run = work_hard},
    {.name = "slow readers, 200", .run = read_slowly},
    {.name = "pipelines that are never read, 200", .run = never_read},
    {.name = "calls that are never read, 200", .run = never_read_calls},
    {.name = "half lines, byte by byte, 1,000", .run = send_half_lines},
    {.name = "lines without end, 20", .run = send_endless_lines},
    {.name = "10,000 connections", .run = open_10000, .keep_connections = true},
    {.name = "connect and close", .run = reconnect},
    {.name = "10,000 tube names that collide",
     .prepare = prepare_collisions,
     .run = use_collisions},
    {.name = "call-cancel beside 50,000 waiting",
     .prepare = prepare_cancels,
     .run = cancel_unknown},
    {.name = "reserve over 10,000 watched tubes",
     .prepare = prepare_watching,
     .run = reserve_nothing},
    {.name = "reserve over 250 watched tubes",
     .prepare = prepare_watching_few,
     .run = reserve_nothing},
    {.name = "check of 2 million jobs", .prepare = prepare_check, .run = check_again},
    {.name = "declared bodies, none sent, 600", .run = declare_bodies},
    {.name = "subscriptions without end", .run = subscribe_much},
    {.name = "POST of a web page", .run = post_commands, .damage = injected_jobs},
    {.name = "guesses of the secret", .run = guess_secret, .remote = true},
    {.name = "10,000 connections, no secret", .run = stay_silent, .remote = true},
    {.name = "all waiters, 10 connections", .run = take_waiters},
    {.name = "all tubes, by references",
     .prepare = prepare_references,
     .run = keep_adding_references},
    {.name = "1 million held jobs at close", .prepare = prepare_held, .run = disconnect_early},
    {.name = "list-tubes of 1 million", .prepare = prepare_tubes, .run = list_tubes},
    {.name = "topics of 1 million", .prepare = prepare_tubes, .run = list_topics},
};

const size_t attack_row_count = sizeof(attack_rows) / sizeof(attack_rows[0]);
