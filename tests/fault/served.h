/* SPDX-License-Identifier: MIT */
/*
 * served - a server in the process of the test, whose store goes through the VFS (vfs.h).
 */
#ifndef FAULT_SERVED_H
#define FAULT_SERVED_H

#ifdef FAULT_SERVER
#include <bide/bide.h>

#include <pthread.h>

struct server;

struct served {
    struct server *server;
    bide *queue;
    pthread_t thread;
    char socket[108];
};

/* The idle_timeout of the server that is begun next; 0, as it is at first: none. */
void serve_idle(int64_t ms);
/* Serves the queue jobs.db on a socket in the folder of the test. */
void serve_begin(struct served *served, const char *parameters);
/* Stops the server in order, and closes the queue. */
void serve_end(struct served *served);

/* A queue that is connected to the server, and a connection on which to speak as a beanstalkd client. */
bide *serve_open(const struct served *served);
int serve_connect(const struct served *served);
/* Sends the line, and reads until the text has come. */
void serve_say(int fd, const char *line);
void serve_hear(int fd, const char *text);
/* Sends the line until its answer, a body of text, has the text in it. */
void serve_await(int fd, const char *line, const char *text);
#endif

#endif
