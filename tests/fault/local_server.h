/* SPDX-License-Identifier: MIT */
/*
 * local_server - a server in the process of the test, whose store goes through the VFS (vfs.h).
 */
#ifndef FAULT_LOCAL_SERVER_H
#define FAULT_LOCAL_SERVER_H

#ifdef FAULT_SERVER
#include <bide/bide.h>

#include <pthread.h>

struct server;

struct local_server {
    struct server *server;
    bide *queue;
    pthread_t thread;
    char socket[108];
};

/* The idle_timeout of the server that is begun next; 0, as it is at first: none. */
void serve_set_idle_timeout(int64_t ms);
/* The stop_timeout of the server that is begun next; PATIENCE_MS at first. */
void serve_set_stop_timeout(int64_t ms);
/* The watchdog of the server that is begun next, and what it calls while the server is alive. */
void serve_set_watchdog(int64_t ms, void (*alive)(void *user));
/* Serves the queue jobs.db on a socket in the folder of the test. */
void serve_begin(struct local_server *local_server, const char *parameters);
/* Stops the server in order, and closes the queue. */
void serve_end(struct local_server *local_server);

/* A queue that is connected to the server, and a connection on which to speak as a beanstalkd
 * client. */
bide *serve_open(const struct local_server *local_server);
int serve_connect(const struct local_server *local_server);
/* Sends the line, and reads until the text has come. */
void serve_send(int fd, const char *line);
void serve_expect(int fd, const char *text);
/* Sends the line until its answer, a body of text, has the text in it. */
void serve_await(int fd, const char *line, const char *text);
#endif

#endif
