/* SPDX-License-Identifier: MIT */
/*
 * test_server - the server under test: a process of its own, on a free port of the loopback
 * interface.
 *
 * The program is bided, or beanstalkd, by its name; the second is there to show that a test asks
 * nothing that cannot be had. Jobs are in memory, or in the folder of the test (test_dir()), where
 * the next server finds them.
 *
 * Failure    Whatever goes wrong with the process ends the test, and says what the server said.
 */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include "../fault/fault.h"

#include <sys/types.h>

enum test_server_storage { IN_MEMORY, IN_FILE };

struct server {
    pid_t pid;
    int port;
};

/* Of the test program's command line. */
struct test_server_settings {
    const char *program;
    const char *parameters; /* of the URL of a file, as "sync=off"; "" for none */
    int64_t memory_limit;   /* how many bytes a server may grow in a test */
};
extern struct test_server_settings test_server_settings;

/* Takes --server, --parameters or --memory-mib with its value; false: it is none of these. */
bool test_server_argument(const char *name, const char *value);

void test_server_start(struct server *server, enum test_server_storage where);

/* A server that has ended, at its port. */
void test_server_restart(struct server *server, enum test_server_storage where);

/* With SIGTERM; it must end well. */
void test_server_stop(struct server *server);

/* With SIGKILL; it must have lived until then. */
void test_server_kill(struct server *server);

/* Fails when the process has ended. */
void test_server_check_alive(const struct server *server);

/* True of beanstalkd. */
bool test_server_is_beanstalkd(void);

/* Open files, and bytes of memory in use. */
int test_server_open_files(const struct server *server);
/* How many calls of write() and its kin it has made. */
int64_t test_server_writes(const struct server *server);
int64_t test_server_memory(const struct server *server);

/* A connected socket that does not block. */
int test_server_connect(const struct server *server);

#endif
