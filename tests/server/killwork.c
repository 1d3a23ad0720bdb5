/* SPDX-License-Identifier: MIT */
/* killwork.c - the connections that work on a server until it is killed; see killserver.h. */
#include "killserver.h"

#include "../sim/rng.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define IN_FLIGHT  64
#define HELD_MAX   (2 * IN_FLIGHT)
#define PARKED_MAX 200
#define OFTEN      24
#define TEXT_MAX   (IN_FLIGHT * (BODY_MAX + 200))

enum verb { PUT, RESERVE, DELETE, BURY, RELEASE, KICK };

/* A command that is not answered yet. */
struct open {
    enum verb verb;
    uint64_t serial;
    enum form form; /* that it gives the job */
};

struct job {
    uint64_t id, serial;
};

struct station {
    struct client client;
    struct rng rng;
    int number;
    bool over; /* the server is gone */
    struct open open[IN_FLIGHT];
    size_t first, count;
    struct job held[HELD_MAX]; /* reserved, and nothing is asked of them yet */
    size_t held_count;
    struct job parked[PARKED_MAX]; /* buried or delayed, in the own tube */
    size_t parked_count;
    char *text; /* what is sent at once */
    size_t size;
};

/* ---- saying ---- */

static void add(struct station *station, const char *data, size_t size)
{
    CHECK(station->size + size <= TEXT_MAX);
    memcpy(station->text + station->size, data, size);
    station->size += size;
}

static void add_line(struct station *station, const char *format, uint64_t first, uint64_t second)
{
    char line[64];
    int size = snprintf(line, sizeof line, "%s %" PRIu64, format, first);
    if (second != UINT64_MAX)
        size += snprintf(line + size, sizeof line - (size_t)size, " %" PRIu64, second);
    add(station, line, (size_t)size);
}

static void note_open(struct station *station, enum verb verb, uint64_t serial, enum form form)
{
    size_t slot = (station->first + station->count++) % IN_FLIGHT;
    station->open[slot] = (struct open){verb, serial, form};
    if (verb == RESERVE)
        return;
    pthread_mutex_lock(&ledger.lock);
    ledger.jobs[serial].maybe = form;
    ledger.jobs[serial].live = true;
    pthread_mutex_unlock(&ledger.lock);
}

static uint64_t next_serial(bool shared)
{
    pthread_mutex_lock(&ledger.lock);
    uint64_t serial = ledger.next++;
    CHECK(serial < JOBS_MAX);
    ledger.jobs[serial].shared = shared;
    pthread_mutex_unlock(&ledger.lock);
    return serial;
}

/* One put in four goes to the tube that all watch; one of the others in six is delayed. */
static void say_put_serial(struct station *station)
{
    static _Thread_local char body[NUMBER_SIZE + BODY_MAX + 1];
    char line[128];
    bool shared = rng_percent(&station->rng, 25);
    uint64_t serial = next_serial(shared);
    size_t size = write_numbered(body, serial);
    bool later = !shared && rng_one_in(&station->rng, 6);
    int tube = shared ? WORKERS : station->number;
    int used = snprintf(line, sizeof line, "use kill-%d\r\nput %d %d 600 %zu\r\n", tube,
                        (int)rng_below(&station->rng, 5), later ? 3600 : 0, size);
    add(station, line, (size_t)used);
    add(station, body, size);
    add(station, "\r\n", 2);
    note_open(station, PUT, serial, later ? DELAYED : READY);
}

static void say_reserve(struct station *station)
{
    static const char line[] = "reserve-with-timeout 0\r\n";
    add(station, line, sizeof line - 1);
    note_open(station, RESERVE, 0, ABSENT);
}

static void say_finish(struct station *station)
{
    struct job job = station->held[--station->held_count];
    switch (rng_below(&station->rng, 8)) {
    case 0:
        add_line(station, "bury", job.id, 7);
        note_open(station, BURY, job.serial, BURIED);
        break;
    case 1:
        add_line(station, "release", job.id, 3);
        add(station, " 0", 2);
        note_open(station, RELEASE, job.serial, READY);
        break;
    case 2:
        add_line(station, "release", job.id, 3);
        add(station, " 3600", 5);
        note_open(station, RELEASE, job.serial, DELAYED);
        break;
    default:
        add_line(station, "delete", job.id, UINT64_MAX);
        note_open(station, DELETE, job.serial, ABSENT);
        break;
    }
    add(station, "\r\n", 2);
}

static void say_parked(struct station *station)
{
    size_t which = rng_below(&station->rng, station->parked_count);
    struct job job = station->parked[which];
    station->parked[which] = station->parked[--station->parked_count];
    if (rng_percent(&station->rng, 50)) {
        add_line(station, "kick-job", job.id, UINT64_MAX);
        note_open(station, KICK, job.serial, READY);
    } else {
        add_line(station, "delete", job.id, UINT64_MAX);
        note_open(station, DELETE, job.serial, ABSENT);
    }
    add(station, "\r\n", 2);
}

static void say_something(struct station *station)
{
    uint64_t dice = rng_below(&station->rng, 100);
    if (station->held_count > 0 && dice < 40)
        say_finish(station);
    else if (station->parked_count > 20 && dice < 50)
        say_parked(station);
    else if (dice < 75 || station->held_count >= IN_FLIGHT)
        say_put_serial(station);
    else
        say_reserve(station);
}

/* ---- hearing ---- */

static void park(struct station *station, struct job job)
{
    if (station->parked_count < PARKED_MAX)
        station->parked[station->parked_count++] = job;
}

static void take_reserved(struct station *station)
{
    struct job_reply job_reply;
    char line[64];
    if (!read_job(&station->client, "RESERVED", &job_reply, line)) {
        station->over = line[0] == '\0';
        if (!station->over)
            TEXT(line, strlen(line), "TIMED_OUT");
        return;
    }
    uint64_t serial = read_numbered(job_reply.body, job_reply.size);
    pthread_mutex_lock(&ledger.lock);
    CHECK(serial < ledger.next);
    struct entry *entry = &ledger.jobs[serial];
    if (!entry->told)
        entry->sure = entry->maybe;
    entry->told = true;
    CHECK(entry->id == 0 || entry->id == job_reply.id);
    entry->id = job_reply.id;
    EQ(entry->sure, READY);
    EQ(entry->maybe, READY);
    pthread_mutex_unlock(&ledger.lock);
    CHECK(station->held_count < HELD_MAX);
    station->held[station->held_count++] = (struct job){job_reply.id, serial};
}

static void take_inserted(struct station *station, const struct open *open, uint64_t id)
{
    pthread_mutex_lock(&ledger.lock);
    struct entry *entry = &ledger.jobs[open->serial];
    CHECK(id > ledger.highest_id);
    CHECK(entry->id == 0 || entry->id == id);
    entry->id = id;
    /* Another connection may have had it, and done with it what it liked. */
    if (!entry->told)
        entry->sure = open->form;
    entry->told = true;
    ledger.acknowledged++;
    pthread_mutex_unlock(&ledger.lock);
    if (open->form == DELAYED)
        park(station, (struct job){id, open->serial});
}

static void take_finished(struct station *station, const struct open *open)
{
    pthread_mutex_lock(&ledger.lock);
    struct entry *entry = &ledger.jobs[open->serial];
    /* A released job was ready before, and may be with another connection already. */
    if (open->verb != RELEASE || open->form != READY)
        entry->sure = entry->maybe = open->form;
    struct job job = {entry->id, open->serial};
    bool parks = !entry->shared && (open->form == DELAYED || open->form == BURIED);
    ledger.acknowledged++;
    pthread_mutex_unlock(&ledger.lock);
    if (parks)
        park(station, job);
}

static void hear_one(struct station *station)
{
    static const char *const words[] = {"INSERTED", "", "DELETED", "BURIED", "RELEASED", "KICKED"};
    struct open open = station->open[station->first];
    if (open.verb == RESERVE) {
        take_reserved(station);
    } else {
        const char *line = read_line(&station->client);
        if (line && open.verb == PUT) {
            CHECK(strncmp(line, "USING ", 6) == 0);
            line = read_line(&station->client);
        }
        station->over = line == NULL;
        if (line && strncmp(line, words[open.verb], strlen(words[open.verb])) != 0)
            FAIL("expected %s, got \"%s\"", words[open.verb], line);
        if (line && open.verb == PUT)
            take_inserted(station, &open, strtoull(line + 9, NULL, 10));
        else if (line)
            take_finished(station, &open);
    }
    station->first = (station->first + 1) % IN_FLIGHT;
    station->count--;
}

/* ---- the whole of it ---- */

static void begin(struct station *station, const struct worker *worker)
{
    station->number = worker->number;
    station->rng.state = worker->seed;
    station->text = malloc(TEXT_MAX);
    CHECK(station->text != NULL);
    test_client_open(&station->client, worker->server);
    station->client.may_end = true;
    pthread_mutex_lock(&ledger.lock);
    ledger.connected++;
    pthread_mutex_unlock(&ledger.lock);
    send_text(&station->client, "watch kill-%d\r\nwatch kill-%d\r\nignore default\r\n",
              worker->number, WORKERS);
    for (int i = 0; i < 3 && !station->over; i++)
        station->over = read_line(&station->client) == NULL;
}

void *killserver_work(void *arg)
{
    const struct worker *worker = arg;
    struct station *station = calloc(1, sizeof *station);
    CHECK(station != NULL);
    begin(station, worker);
    while (!station->over) {
        size_t wanted = rng_below(&station->rng, OFTEN) + 1;
        station->size = 0;
        while (station->count < IN_FLIGHT && wanted-- > 0)
            say_something(station);
        test_client_send(&station->client, station->text, station->size);
        size_t left = rng_below(&station->rng, IN_FLIGHT / 2);
        while (station->count > left && !station->over)
            hear_one(station);
    }
    test_client_close(&station->client);
    free(station->text);
    free(station);
    return NULL;
}
