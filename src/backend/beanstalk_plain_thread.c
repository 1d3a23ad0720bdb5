/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_plain.h"

#include "backend/answer.h"
#include "backend/beanstalk_hello.h"
#include "backend/beanstalk_kind.h"
#include "backend/beanstalk_socket.h"
#include "backend/keep.h"
#include "core/items.h"
#include "util/clock.h"
#include "util/log.h"
#include "util/text.h"

#include <assert.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Connections for reserves that wait; and how many are kept that nobody needs. */
#define SPARE_MAX  1000
#define SPARE_KEEP 8

/* ---- talks begin and end ---- */

void bi_plain_end(struct plain *plain, struct talk *talk, int code)
{
    bide_op *op = talk->op;
    assert(talk->outstanding == 0 && !talk->ended);
    for (size_t i = 0; i < talk->job_count; i++)
        bide_job_clear(&talk->jobs[i]);
    talk->job_count = 0;
    talk->ended = true;
    op->private_.status = code;
    if (code == BIDE_OK && (op->private_.flags & BI_ITEM_SAID) == 0)
        op->error[0] = 0;
    else if (code != BIDE_OK && op->error[0] == 0)
        bi_text_copy(op->error, bide_code_text(code));
    bi_answer_drop(op);
    pthread_mutex_lock(&plain->lock);
    *(talk->prev != NULL ? &talk->prev->next : &plain->first) = talk->next;
    *(talk->next != NULL ? &talk->next->prev : &plain->last) = talk->prev;
    plain->waiting -= talk->waits;
    plain->pending_ops -= !talk->waits;
    plain->pending_bytes -= talk->bytes;
    op->private_.waiter = NULL;
    pthread_cond_broadcast(&plain->room);
    pthread_mutex_unlock(&plain->lock);
    bi_keep_end(op);
    list_add(&plain->completed, op);
    talk->next = plain->ended;
    plain->ended = talk;
}

/* Ends a talk without what it asked for; its items, too. */
static void fail(struct plain *plain, struct talk *talk, int code, const char *error)
{
    bi_kind_fail(talk->op, code, error);
    bi_plain_end(plain, talk, code);
}

/* All replies that could come have come. */
static void go_on(struct plain *plain, struct talk *talk)
{
    if (talk->given_up != BIDE_OK) {
        bi_kind_say(talk->op, talk->given_up);
        bi_plain_end(plain, talk, talk->given_up);
    } else if (talk->lost && (!talk->lost_sent || bi_kind_repeats(talk->op->kind))) {
        talk->lost = talk->lost_sent = talk->begun = false;
        talk->wire = NULL;
        for (size_t i = 0; i < talk->job_count; i++)
            bide_job_clear(&talk->jobs[i]);
        talk->job_count = 0;
        if (!talk->waits)
            talk->deadline = bi_clock_boot() + plain->address.connect_timeout;
    } else if (talk->lost) {
        bi_kind_lost(talk->op, &plain->address);
        bi_plain_end(plain, talk, BIDE_EUNKNOWN);
    } else if (talk->kind->end != NULL) {
        talk->kind->end(plain, talk);
    } else {
        bi_plain_end(plain, talk, talk->code);
    }
}

void bi_plain_heard(struct plain *plain, const struct expected *expected, const struct reply *reply,
                    bool sent)
{
    struct talk *talk = expected->talk;
    if (talk == NULL)
        return;
    assert(talk->outstanding > 0);
    talk->outstanding--;
    if (reply != NULL) {
        plain->attempts = 0;
        talk->kind->reply(plain, talk, expected->index, reply);
    } else if (talk->kind->item != NULL) {
        *talk->kind->item(talk, expected->index) = sent ? BIDE_EUNKNOWN : BIDE_EIO;
    } else {
        talk->lost = true;
        talk->lost_sent |= sent;
    }
    if (talk->outstanding == 0)
        go_on(plain, talk);
}

static void begin(struct plain *plain, struct talk *talk)
{
    talk->begun = true;
    talk->stage = 0;
    talk->code = BIDE_OK;
    talk->kind->begin(plain, talk);
    /* Nothing was asked, and nothing answered: there was no memory to ask. */
    if (!talk->ended && talk->outstanding == 0)
        talk->begun = false;
}

/* ---- wires ---- */

void bi_plain_drop(struct plain *plain, struct wire *wire)
{
    if (wire == plain->main) {
        plain->main = NULL;
        plain->max_job_size = 0; /* the next server may have another */
    } else {
        struct wire **from = &plain->spare;
        while (*from != wire)
            from = &(*from)->next;
        *from = wire->next;
        plain->spare_count--;
    }
    bi_lease_drop(plain, wire);
    bi_wire_lose(plain, wire);
    bi_wire_free(wire);
}

struct wire *bi_plain_spare(struct plain *plain)
{
    for (struct wire *each = plain->spare; each != NULL; each = each->next)
        if (!each->broken && !each->blocked && each->leases == 0 &&
            each->expected_head == each->expected_size)
            return each;
    if (plain->spare_count >= SPARE_MAX)
        return NULL;
    struct patience patience = {.deadline = bi_clock_boot() + plain->address.connect_timeout,
                                .stop = plain->stop_fd};
    /* Where the main connection goes: no name server is to be asked again. */
    int fd = plain->main != NULL ? bi_socket_connect_like(plain->main->fd, plain->address.trusted,
                                                          &patience, plain->reason)
                                 : bi_socket_connect(&plain->address, &patience, plain->reason);
    struct wire *wire = fd < 0 ? NULL : bi_wire_new(fd);
    if (wire == NULL) {
        if (fd >= 0)
            close(fd);
        return NULL;
    }
    wire->next = plain->spare;
    plain->spare = wire;
    plain->spare_count++;
    return wire;
}

/* A write has failed. What the server had said before that is read first: it has happened. */
static void read_rest(struct plain *plain, struct wire *wire)
{
    struct pollfd polled = {.fd = wire->fd, .events = POLLIN};
    while (!wire->ended && poll(&polled, 1, 0) > 0)
        bi_wire_read(plain, wire);
}

/* Closes what is broken, and what nobody needs. */
static void sweep(struct plain *plain)
{
    size_t idle = 0;
    if (plain->main != NULL && plain->main->broken) {
        snprintf(plain->reason, sizeof(plain->reason), "the connection to %.100s was lost",
                 plain->address.name);
        plain->lost_at = bi_clock_boot();
        plain->try_at = plain->lost_at + plain->address.reconnect_min;
        read_rest(plain, plain->main);
        bi_plain_drop(plain, plain->main);
        bi_log(&plain->context.log, BIDE_LOG_WARN, "beanstalk: %s", plain->reason);
    }
    for (struct wire *each = plain->spare, *next; each != NULL; each = next) {
        next = each->next;
        bool used = each->blocked || each->leases > 0 || each->expected_head < each->expected_size;
        if (each->broken)
            read_rest(plain, each);
        if (each->broken || (!used && ++idle > SPARE_KEEP)) {
            bi_plain_drop(plain, each);
            next = plain->spare; /* the list may have changed */
            idle = 0;
        }
    }
}

/* ---- time, and who gives up ---- */

static void give_up(struct plain *plain, struct talk *talk, int code)
{
    if (talk->outstanding == 0) {
        fail(plain, talk, code, NULL);
        return;
    }
    /* A reserve that waits: only the end of its connection ends it, and gives its job back. */
    talk->given_up = code;
    bi_plain_drop(plain, talk->wire);
}

/* Does it wait at the server for a job? */
static bool is_blocked(const struct talk *talk)
{
    return talk->wire != NULL && talk->wire->blocked && talk->outstanding > 0;
}

static void look_at(struct plain *plain, struct talk *talk, int64_t now)
{
    bool idle = !talk->begun && talk->outstanding == 0;
    bool closed = talk->waits && atomic_load(&plain->shut);
    if (!idle && !is_blocked(talk))
        return;
    if (atomic_load(&talk->cancelled))
        give_up(plain, talk, BIDE_CANCELLED);
    else if (closed || (idle && plain->closing && plain->main == NULL))
        give_up(plain, talk, BIDE_CLOSED);
    else if (talk->deadline > now)
        return;
    else if (talk->waits && plain->main == NULL && talk->outstanding == 0) {
        bi_kind_alone(talk->op, &plain->address, (now - plain->lost_at) / 1000000);
        bi_plain_end(plain, talk, BIDE_TIMED_OUT);
    } else if (talk->waits)
        give_up(plain, talk, BIDE_TIMED_OUT);
    else if (plain->main == NULL) {
        bi_kind_unreached(talk->op, plain->reason);
        bi_plain_end(plain, talk, BIDE_EIO);
    }
}

/* Copies the list, because it changes: whoever submits adds to its end. */
static void each_talk(struct plain *plain,
                      void (*visit)(struct plain *plain, struct talk *talk, int64_t now))
{
    int64_t now = bi_clock_boot();
    pthread_mutex_lock(&plain->lock);
    struct talk *talk = plain->first;
    struct talk *last = plain->last;
    pthread_mutex_unlock(&plain->lock);
    while (talk != NULL) {
        pthread_mutex_lock(&plain->lock);
        struct talk *next = talk == last ? NULL : talk->next;
        pthread_mutex_unlock(&plain->lock);
        visit(plain, talk, now);
        talk = next;
    }
}

static void begin_new(struct plain *plain, struct talk *talk, int64_t now)
{
    (void)now;
    if (!talk->begun && !talk->ended && plain->main != NULL)
        begin(plain, talk);
}

/* ---- one turn ---- */

static void write_all(struct plain *plain)
{
    if (plain->main != NULL)
        bi_wire_write(plain->main);
    for (struct wire *each = plain->spare; each != NULL; each = each->next)
        bi_wire_write(each);
}

static void tell(struct plain *plain)
{
    struct op_list completed = list_take(&plain->completed);
    while (plain->ended != NULL) {
        struct talk *next = plain->ended->next;
        free(plain->ended->jobs);
        free(plain->ended);
        plain->ended = next;
    }
    if (completed.head != NULL)
        plain->context.complete(completed.head);
}

static int64_t next_moment(struct plain *plain)
{
    int64_t moment = plain->closing ? plain->close_by : PLAIN_NEVER;
    bool wants = false;
    for (const struct talk *each = plain->first; each != NULL; each = each->next) {
        bool idle = !each->begun && each->outstanding == 0;
        wants |= idle;
        if ((idle || is_blocked(each)) && each->deadline < moment)
            moment = each->deadline;
    }
    if (wants && plain->main != NULL)
        return 0;
    if (wants && plain->try_at < moment)
        moment = plain->try_at;
    return moment;
}

/* ---- connecting again ---- */

/* Ends calls whose time is over. Answers when to look again. */
static int64_t look_meanwhile(void *owner)
{
    struct plain *plain = owner;
    each_talk(plain, look_at);
    tell(plain);
    pthread_mutex_lock(&plain->lock);
    int64_t next = plain->closing ? plain->close_by : PLAIN_NEVER;
    for (const struct talk *each = plain->first; each != NULL; each = each->next) {
        bool idle = !each->begun && each->outstanding == 0;
        if ((idle || is_blocked(each)) && each->deadline < next)
            next = each->deadline;
    }
    pthread_mutex_unlock(&plain->lock);
    return next;
}

static void try_connect(struct plain *plain, int64_t now)
{
    char error[BIDE_ERROR_SIZE] = "";
    enum dialect dialect = DIALECT_PLAIN;
    int fd = -1;
    struct patience patience = {.deadline = now + plain->address.connect_timeout,
                                .stop = plain->stop_fd,
                                .wake = plain->wake_fd,
                                .look_at = look_meanwhile(plain),
                                .look = look_meanwhile,
                                .owner = plain};
    int code = bi_hello(&plain->address, &patience, &fd, &dialect, error);
    if (code == BIDE_OK && (plain->main = bi_wire_new(fd)) != NULL) {
        bi_log(&plain->context.log, BIDE_LOG_INFO, "beanstalk: connected again");
        return;
    }
    if (code == BIDE_OK)
        close(fd);
    int64_t pause = plain->address.reconnect_min;
    for (unsigned i = 0; i < plain->attempts && pause < plain->address.reconnect_max; i++)
        pause *= 2;
    pause += (int64_t)bi_random_below(&plain->random, (uint64_t)pause / 2 + 1);
    if (pause > plain->address.reconnect_max)
        pause = plain->address.reconnect_max;
    plain->attempts++;
    plain->try_at = bi_clock_boot() + pause;
    bi_text_copy(plain->reason, error);
}

/* ---- waiting ---- */

static size_t poll_for(const struct wire *wire, struct pollfd *polled)
{
    *polled = (struct pollfd){.fd = wire->fd,
                              .events = (short)(POLLIN | (wire->wants_room ? POLLOUT : 0))};
    return 1;
}

/* Waits for something to happen; what has come is read. */
static void wait_and_read(struct plain *plain)
{
    static const size_t others = 2;
    struct pollfd polled[SPARE_MAX + 2];
    size_t count = 1;
    polled[0] = (struct pollfd){.fd = plain->wake_fd, .events = POLLIN};
    polled[1] = (struct pollfd){.fd = -1};
    if (plain->main != NULL)
        poll_for(plain->main, &polled[1]);
    count = others;
    for (const struct wire *each = plain->spare; each != NULL; each = each->next)
        count += poll_for(each, &polled[count]);
    pthread_mutex_lock(&plain->lock);
    int64_t moment = plain->news ? 0 : next_moment(plain);
    plain->news = false;
    pthread_mutex_unlock(&plain->lock);
    int64_t left = (moment - bi_clock_boot() + 999) / 1000;
    int limit = moment == PLAIN_NEVER ? -1 : left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
    if (poll(polled, count, limit) <= 0)
        return;
    uint64_t rung;
    if ((polled[0].revents & POLLIN) != 0 && read(plain->wake_fd, &rung, sizeof(rung)) < 0)
        return; /* somebody else has read it: there is nobody else */
    if (plain->main != NULL && polled[1].revents != 0)
        bi_wire_read(plain, plain->main);
    size_t i = others;
    for (struct wire *each = plain->spare; each != NULL && i < count; each = each->next) {
        if (polled[i].fd != each->fd)
            continue; /* it has come meanwhile, before those that were there */
        if (polled[i++].revents != 0)
            bi_wire_read(plain, each);
    }
}

/* Nothing is left to be done, or its time is over. */
static bool is_over(struct plain *plain)
{
    pthread_mutex_lock(&plain->lock);
    bool over = plain->closing && (plain->first == NULL || bi_clock_boot() >= plain->close_by);
    pthread_mutex_unlock(&plain->lock);
    return over;
}

static void end_talk(struct plain *plain, struct talk *talk, int64_t now)
{
    (void)now;
    if (!talk->ended)
        fail(plain, talk, BIDE_CLOSED, NULL);
}

void *bi_plain_run(void *argument)
{
    struct plain *plain = argument;
    while (!is_over(plain)) {
        int64_t now = bi_clock_boot();
        pthread_mutex_lock(&plain->lock);
        bool wants = plain->first != NULL && !plain->closing;
        pthread_mutex_unlock(&plain->lock);
        if (plain->main == NULL && wants && plain->try_at <= now)
            try_connect(plain, now);
        each_talk(plain, begin_new);
        each_talk(plain, look_at);
        write_all(plain);
        sweep(plain);
        tell(plain);
        wait_and_read(plain);
    }
    if (plain->main != NULL)
        bi_plain_drop(plain, plain->main);
    while (plain->spare != NULL)
        bi_plain_drop(plain, plain->spare);
    each_talk(plain, end_talk);
    tell(plain);
    return NULL;
}
