/* SPDX-License-Identifier: MIT */
#include "backend/beanstalk_tagged.h"

#include "backend/beanstalk_hello.h"
#include "util/clock.h"
#include "util/log.h"

#include <poll.h>
#include <stdio.h>
#include <unistd.h>

/* Gives back the lock, tells the owners of what has completed, and takes it again. */
static void tell(struct tagged *tagged, struct op_list *completed)
{
    if (completed->head == NULL)
        return;
    struct op_list list = list_take(completed);
    pthread_mutex_unlock(&tagged->lock);
    tagged->context.complete(list.head);
    pthread_mutex_lock(&tagged->lock);
}

/* Logs with no lock held. */
static void note(struct tagged *tagged, bide_log_level level, const char *text)
{
    pthread_mutex_unlock(&tagged->lock);
    bi_log(&tagged->context.log, level, "beanstalk: %s", text);
    pthread_mutex_lock(&tagged->lock);
}

static void lose(struct tagged *tagged, const char *reason)
{
    struct op_list completed = {NULL, NULL};
    bi_loss_lost(tagged, reason, &completed);
    tell(tagged, &completed);
    if (!tagged->closing)
        note(tagged, BIDE_LOG_WARN, reason);
}

/* A write has failed. What the server had said before that is read first: it has happened. */
static void read_rest(struct tagged *tagged)
{
    struct pollfd polled = {.fd = tagged->fd, .events = POLLIN};
    char reason[BIDE_ERROR_SIZE];
    pthread_mutex_unlock(&tagged->lock);
    while (poll(&polled, 1, 0) > 0 && bi_receive(tagged, reason))
        ;
    pthread_mutex_lock(&tagged->lock);
}

/* ---- connecting again ---- */

/* Is there anything that wants a connection? */
static bool wants(const struct tagged *tagged)
{
    return tagged->first != NULL || tagged->feeds != NULL || tagged->references != NULL;
}

/* False when the time for it is over. */
static bool look(struct tagged *tagged, int64_t now)
{
    struct op_list completed = {NULL, NULL};
    bool answers = bi_loss_look(tagged, now, &completed);
    tell(tagged, &completed);
    return answers;
}

/* While a connection is being made: ends requests whose time is over. Answers when to look again. */
static int64_t look_meanwhile(void *owner)
{
    struct tagged *tagged = owner;
    pthread_mutex_lock(&tagged->lock);
    int64_t now = bi_clock_boot();
    if (tagged->look_at <= now)
        look(tagged, now);
    int64_t next = tagged->look_at;
    pthread_mutex_unlock(&tagged->lock);
    return next;
}

static void try_connect(struct tagged *tagged, int64_t now)
{
    struct patience patience = {.deadline = now + tagged->address.connect_timeout,
                                .stop = tagged->stop_fd,
                                .wake = tagged->wake_fd,
                                .look_at = tagged->look_at,
                                .look = look_meanwhile,
                                .owner = tagged};
    pthread_mutex_unlock(&tagged->lock);
    char error[BIDE_ERROR_SIZE] = "";
    enum dialect dialect = DIALECT_TAGGED;
    int fd = -1;
    int code = bi_hello(&tagged->address, &patience, &fd, &dialect, error);
    if (code == BIDE_OK && dialect != DIALECT_TAGGED) {
        close(fd);
        snprintf(error, sizeof(error), "the server at %.100s was a bided, and is not any more",
                 tagged->address.name);
        code = BIDE_EIO;
    }
    pthread_mutex_lock(&tagged->lock);
    if (code == BIDE_OK) {
        bi_loss_found(tagged, fd);
        note(tagged, BIDE_LOG_INFO, "connected again");
        return;
    }
    struct op_list completed = {NULL, NULL};
    bi_loss_retry(tagged, error);
    if (code == BIDE_EINVAL)
        bi_loss_refused(tagged, error, &completed);
    tell(tagged, &completed);
    if (!tagged->closing)
        note(tagged, tagged->attempts == 2 ? BIDE_LOG_WARN : BIDE_LOG_DEBUG, error);
}

/* ---- one turn ---- */

static int64_t next_moment(const struct tagged *tagged)
{
    int64_t moment = tagged->look_at;
    if (tagged->connected && tagged->check_at < moment)
        moment = tagged->check_at;
    if (!tagged->connected && wants(tagged) && tagged->try_at < moment)
        moment = tagged->try_at;
    if (tagged->closing && tagged->close_by < moment)
        moment = tagged->close_by;
    return moment;
}

static int milliseconds_until(int64_t moment)
{
    if (moment == NEVER)
        return -1;
    int64_t left = (moment - bi_clock_boot() + 999) / 1000;
    return left <= 0 ? 0 : left > 3600000 ? 3600000 : (int)left;
}

static void sleep_and_read(struct tagged *tagged)
{
    short events = (short)(POLLIN | (tagged->blocked ? POLLOUT : 0));
    struct pollfd polled[2] = {{.fd = tagged->wake_fd, .events = POLLIN},
                               {.fd = tagged->connected ? tagged->fd : -1, .events = events}};
    int limit = milliseconds_until(next_moment(tagged));
    char reason[BIDE_ERROR_SIZE];
    pthread_mutex_unlock(&tagged->lock);
    int ready = poll(polled, 2, limit);
    bool lost = false;
    if (ready > 0 && (polled[0].revents & POLLIN) != 0) {
        uint64_t count;
        ssize_t size = read(tagged->wake_fd, &count, sizeof(count));
        (void)size; /* nobody else reads it */
    }
    bool heard = ready > 0 && (polled[1].revents & (POLLIN | POLLHUP | POLLERR)) != 0;
    if (heard)
        lost = !bi_receive(tagged, reason);
    pthread_mutex_lock(&tagged->lock);
    tagged->signs += heard;
    if (lost) {
        lose(tagged, reason);
    } else if (ready > 0 && (polled[1].revents & POLLOUT) != 0) {
        tagged->signs++; /* it reads */
        tagged->blocked = false;
        bi_send_flush(tagged);
    }
}

/* The queue is being closed: true when nothing is left to be done. */
static bool end(struct tagged *tagged, int64_t now)
{
    struct op_list completed = {NULL, NULL};
    if (tagged->first == NULL)
        return true;
    if (tagged->connected && now < tagged->close_by)
        return false;
    if (tagged->connected)
        bi_loss_lost(tagged, "closed", &completed);
    bi_loss_end(tagged, &completed);
    tell(tagged, &completed);
    return true;
}

void *bi_tagged_run(void *argument)
{
    struct tagged *tagged = argument;
    char reason[BIDE_ERROR_SIZE];
    snprintf(reason, sizeof(reason), "the connection to %.100s was lost", tagged->address.name);
    pthread_mutex_lock(&tagged->lock);
    for (;;) {
        int64_t now = bi_clock_boot();
        if (tagged->closing && end(tagged, now))
            break;
        if (tagged->connected && tagged->broken) {
            read_rest(tagged);
            lose(tagged, reason);
        } else if (tagged->look_at <= now && !look(tagged, now) && tagged->connected) {
            lose(tagged, "the server does not answer any more");
        } else if (!bi_silence_check(tagged, now)) {
            lose(tagged, "the server does not answer, not even a ping");
        } else if (!tagged->connected && wants(tagged) && tagged->try_at <= now) {
            try_connect(tagged, now);
        } else {
            sleep_and_read(tagged);
        }
    }
    pthread_mutex_unlock(&tagged->lock);
    return NULL;
}
