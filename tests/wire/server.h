/* SPDX-License-Identifier: MIT */
/*
 * server - a server under test: a process with a folder of its own, on a socket that no other test
 * uses.
 *
 * A command is words with spaces between them, as "bided --url sqlite:@/jobs.db"; "@" stands for
 * the folder. The address is added in the words that beanstalkd and bided both know.
 */
#ifndef WIRE_SERVER_H
#define WIRE_SERVER_H

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

struct server {
    pid_t pid;
    bool tcp; /* or a unix socket in the folder */
    int port;
    int first_fd;   /* the connection by which it was found to be up, until a test opens one */
    bool reference; /* beanstalkd, by the name of the program */
    char folder[PATH_MAX];
};

/* Starts it and waits until it takes connections. Prints why not. A config that is not "" is
 * written to a file, which is named with --config. */
bool server_start(struct server *server, const char *command, const char *flags, const char *config,
                  bool tcp);

/* Ends it with SIGTERM and removes its folder. False, and printed, if it had ended before, takes
 * too long, or ends badly; beanstalkd knows no good end and may die of the signal. */
bool server_stop(struct server *server);

/* Prints what the server has said. */
void print_server_log(const struct server *server);

/* A connected socket, or -1. */
int server_connect(struct server *server);

bool command_is_reference(const char *command);

/* Makes a folder in which those of all servers will lie; removes it with all that tests have left
 * there which failed. For the runners. */
bool folders_begin(void);
void folders_end(void);

#endif
