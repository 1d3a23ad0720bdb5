/* SPDX-License-Identifier: MIT */
/*
 * peer - the server under test: a process of its own, on a free port of the loopback interface.
 *
 * The program is bided, or beanstalkd, by its name; the second is there to show that a test asks
 * nothing that cannot be had. Jobs are in memory, or in the folder of the test (place()), where the
 * next server finds them.
 *
 * Failure    Whatever goes wrong with the process ends the test, and says what the server said.
 */
#ifndef SERVER_PEER_H
#define SERVER_PEER_H

#include "../fault/fault.h"

#include <sys/types.h>

enum peer_place { IN_MEMORY, IN_FILE };

struct peer {
    pid_t pid;
    int port;
};

/* Of the test program's command line. */
struct peer_settings {
    const char *program;
    const char *parameters; /* of the URL of a file, as "sync=off"; "" for none */
    int64_t memory_limit;   /* how many bytes a server may grow in a test */
};
extern struct peer_settings peer_settings;

/* Takes --server, --parameters or --memory-mib with its value; false: it is none of these. */
bool peer_argument(const char *name, const char *value);

void peer_start(struct peer *peer, enum peer_place where);

/* With SIGTERM; it must end well. */
void peer_stop(struct peer *peer);

/* With SIGKILL; it must have lived until then. */
void peer_kill(struct peer *peer);

/* Fails when the process has ended. */
void peer_lives(const struct peer *peer);

/* True of beanstalkd. */
bool peer_is_reference(void);

/* Open files, and bytes of memory in use. */
int peer_files(const struct peer *peer);
/* How many calls of write() and its kin it has made. */
int64_t peer_writes(const struct peer *peer);
int64_t peer_memory(const struct peer *peer);

/* A connected socket that does not block. */
int peer_connect(const struct peer *peer);

#endif
