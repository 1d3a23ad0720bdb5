/* SPDX-License-Identifier: MIT */
/*
 * queue_server - the servers behind the URL "beanstalk:".
 *
 * "beanstalk:" alone, or with parameters, means a bided for every queue of a test, on a unix socket
 * in the folder of the runner. behind=sqlite (else memory) says where the server keeps its jobs;
 * all other parameters, those of the test, too, are the server's. Those that a client may have are
 * given to it as well. Parameters that the server refuses are given to the client, so that a test
 * which wants them refused sees what a user of the library sees.
 *
 * Processes  A server ends with the process that started it, or when its place is removed or opened
 *            anew. The file of its number tells who that is.
 */
#ifndef QUEUE_SERVER_H
#define QUEUE_SERVER_H

#include <stdbool.h>
#include <stddef.h>

/* Does this URL want servers? Do they keep their jobs? */
bool is_queue_server(const char *url);
bool queue_server_persists(const char *url);

/* Starts a server that keeps its jobs in the file, if it keeps them; writes the URL for its
 * client. */
const char *queue_server_start(char *room, size_t size, const char *file, const char *parameters);

/* The URL for another client of the server that runs. */
const char *queue_server_url(char *room, size_t size, const char *file);

/* Stops the server of that file, if there is one: it stores what is to be stored, as in a close. If
 * another process started it, it is killed, as that one was. */
void queue_server_stop(const char *file);

/* Kills it instead: it has no time to say anything. */
void queue_server_kill(const char *file);

#endif
