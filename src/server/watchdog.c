/* SPDX-License-Identifier: MIT */
/*
 * watchdog - reports to the watchdog of the service manager (systemd) that the server is alive.
 *
 * The report is SERVER_ALIVE, from a timer of the loop: a loop that hangs does not send it.
 * process.c reads the interval from the environment and sends the notification.
 */
#include "queue/queue.h"
#include "server/server_internal.h"

#define REPORTS_PER_INTERVAL 3 /* two of them may be late */

/* A commit that takes longer than the watchdog interval hangs. The watchdog is not notified then,
 * so that the service manager restarts the server. */
static void on_watchdog(evutil_socket_t fd, short what, void *arg)
{
    struct server *server = arg;
    int64_t age = bi_queue_commit_age(server->queue);
    bool stuck = age >= server->settings.watchdog_us;
    (void)fd;
    (void)what;

    if (stuck && !server->commit_stuck)
        bi_log(&server->log, BIDE_LOG_ERROR,
               "a commit or checkpoint hangs since %lld s: the watchdog is not notified",
               (long long)(age / 1000000));
    server->commit_stuck = stuck;
    if (!stuck)
        bi_server_notify(server, SERVER_ALIVE);
}

bool bi_watchdog_start(struct server *server)
{
    int64_t every_us = server->settings.watchdog_us / REPORTS_PER_INTERVAL;
    event_assign(&server->watchdog_timer, server->base, -1, EV_PERSIST, on_watchdog, server);
    return every_us <= 0 || bi_server_add_timer(&server->watchdog_timer, every_us);
}
